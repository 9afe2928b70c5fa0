/* optim_state.c - the optimiser: parameters' state by name, and the step.
 *
 * A parameter's state is found by its name in a table of places; parameters come in the same order at every step, so
 * the one after the last is tried first. Nothing is allocated for a name that is known.
 */
#include <string.h>

#include "layers_impl.h"
#include "optim_impl.h"
#include "optim_rules.h"

enum { FIRST = 0, SECOND, COUNT, STATES };

typedef struct entry {
    char *name;
    size_t bytes; /* of the name */
    uint64_t hash;
    const lab_tensor *of; /* the parameter; only its address is looked at */
    double rate, decay;   /* its group's */
    lab_tensor *state[STATES];
} entry;

struct lab_optimizer {
    lab_optimizer_config config; /* with no defaults left */
    kernel_rule rule;
    double scale;
    entry *entries;
    int32_t *places; /* twice as many as entries; an entry's number by its hash, -1: none */
    int64_t count, capacity, next;
};

/* ---- Making and giving back -------------------------------------------------------------------------------------- */

lab_status lab_optimizer_create(lab_optimizer **out, const lab_optimizer_config *config)
{
    if (out)
        *out = NULL;
    if (!out || !config)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_optimizer_create: %s is NULL", out ? "config" : "out");
    lab_optimizer made = {.config = *config, .scale = 1};
    lab_status status = lab__optim_complete(&made.config);
    if (status != LAB_OK)
        return status;
    made.rule = lab__optim_rule(&made.config);
    lab_optimizer *optimizer = lab__allocate(sizeof *optimizer);
    if (!optimizer)
        return lab__fail(LAB_ERR_MEMORY, "lab_optimizer_create: no memory");
    *optimizer = made;
    *out = optimizer;
    return LAB_OK;
}

static void drop_entry(entry *e)
{
    for (int i = 0; i < STATES; i++)
        lab_tensor_destroy(&e->state[i]);
    if (e->name)
        lab__release(e->name, e->bytes);
}

static size_t table_bytes(int64_t capacity)
{
    return (size_t)capacity * (sizeof(entry) + 2 * sizeof(int32_t));
}

void lab_optimizer_destroy(lab_optimizer **optimizer)
{
    if (!optimizer || !*optimizer)
        return;
    lab_optimizer *x = *optimizer;
    for (int64_t i = 0; i < x->count; i++)
        drop_entry(&x->entries[i]);
    if (x->entries)
        lab__release(x->entries, table_bytes(x->capacity));
    lab__release(x, sizeof *x);
    *optimizer = NULL;
}

/* ---- Finding ----------------------------------------------------------------------------------------------------- */

/* FNV-1a. */
static uint64_t hash_of(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
    return hash;
}

/* Where a name is in the table, or would be. The capacity is a power of two, and half of the places are free. */
static int64_t place_of(const lab_optimizer *x, const char *name, uint64_t hash)
{
    const uint64_t last = 2 * (uint64_t)x->capacity - 1;
    uint64_t place = hash & last;
    for (; x->places[place] >= 0; place = (place + 1) & last) {
        const entry *e = &x->entries[x->places[place]];
        if (e->hash == hash && strcmp(e->name, name) == 0)
            break;
    }
    return (int64_t)place;
}

static entry *find(lab_optimizer *x, const char *name)
{
    int64_t at = x->next;
    if (at >= x->count || strcmp(x->entries[at].name, name) != 0)
        at = x->count ? x->places[place_of(x, name, hash_of(name))] : -1;
    if (at < 0)
        return NULL;
    x->next = at + 1 < x->count ? at + 1 : 0;
    return &x->entries[at];
}

/* ---- New entries ------------------------------------------------------------------------------------------------- */

/* Room for one entry more. */
static lab_status make_room(lab_optimizer *x)
{
    if (x->count < x->capacity)
        return LAB_OK;
    const int64_t capacity = x->capacity ? 2 * x->capacity : 32;
    entry *entries = capacity < INT32_MAX ? lab__allocate(table_bytes(capacity)) : NULL;
    if (!entries)
        return lab__fail(LAB_ERR_MEMORY, "lab_optimizer: no memory for %lld parameters", (long long)capacity);
    lab_optimizer old = *x;
    x->capacity = capacity;
    x->entries = entries;
    x->places = (int32_t *)(entries + capacity);
    memset(x->places, 0xff, 2 * (size_t)capacity * sizeof *x->places);
    for (int64_t i = 0; i < x->count; i++) {
        entries[i] = old.entries[i];
        x->places[place_of(x, entries[i].name, entries[i].hash)] = (int32_t)i;
    }
    if (old.entries)
        lab__release(old.entries, table_bytes(old.capacity));
    return LAB_OK;
}

static lab_status ask_group(const lab_optimizer *x, entry *e, const lab_tensor *parameter)
{
    lab_group group = {.rate = 1, .decay = 1};
    if (x->config.group)
        x->config.group(e->name, parameter, &group, x->config.group_ctx);
    if (!lab__words_zero(6, group.reserved))
        return lab__fail(LAB_ERR_ARGUMENT, "%s: its group's reserved words are not zero", e->name);
    if (!(group.rate >= 0) || !(group.decay >= 0) || isinf(group.rate) || isinf(group.decay))
        return lab__fail(LAB_ERR_RANGE, "%s: its group's rate is %g, decay %g; both must be finite and at least 0",
                         e->name, group.rate, group.decay);
    e->rate = group.rate;
    e->decay = group.decay;
    return LAB_OK;
}

static lab_status fill_entry(const lab_optimizer *x, entry *e, const char *name, const lab_tensor *parameter)
{
    const kept_state *kept = lab__optim_kept(x->rule);
    e->bytes = strlen(name) + 1;
    e->hash = hash_of(name);
    e->of = parameter;
    e->name = lab__allocate(e->bytes);
    if (!e->name)
        return lab__fail(LAB_ERR_MEMORY, "lab_optimizer: no memory for the name of %s", name);
    memcpy(e->name, name, e->bytes);
    lab_status status = ask_group(x, e, parameter);
    if (status == LAB_OK && kept->first)
        status = lab_tensor_create(&e->state[FIRST], parameter->dtype, parameter->rank, parameter->shape);
    if (status == LAB_OK && kept->second)
        status = lab_tensor_create(&e->state[SECOND], parameter->dtype, parameter->rank, parameter->shape);
    if (status == LAB_OK && kept->counts)
        status = lab_tensor_create(&e->state[COUNT], LAB_I64, 0, NULL);
    return status;
}

static lab_status add_entry(lab_optimizer *x, const char *name, const lab_tensor *parameter, entry **out)
{
    lab_status status = make_room(x);
    if (status != LAB_OK)
        return status;
    entry e = {0};
    status = fill_entry(x, &e, name, parameter);
    if (status != LAB_OK) {
        drop_entry(&e);
        return status;
    }
    x->places[place_of(x, name, e.hash)] = (int32_t)x->count;
    x->entries[x->count] = e;
    *out = &x->entries[x->count++];
    x->next = 0;
    return LAB_OK;
}

/* ---- The step ---------------------------------------------------------------------------------------------------- */

static bool alike(const lab_tensor *state, const lab_tensor *parameter)
{
    return state && state->dtype == parameter->dtype && lab__same_shape(state, parameter) && lab__is_contiguous(state);
}

/* The state may have been filled, or replaced, from outside. */
static lab_status check_state(const lab_optimizer *x, const entry *e, const lab_tensor *parameter)
{
    const kept_state *kept = lab__optim_kept(x->rule);
    const lab_tensor *count = e->state[COUNT];
    if (e->of != parameter)
        return lab__fail(LAB_ERR_STATE, "%s is the name of two parameters, or its tensor was replaced", e->name);
    if ((kept->first && !alike(e->state[FIRST], parameter)) || (kept->second && !alike(e->state[SECOND], parameter)) ||
        (kept->counts && (!count || count->dtype != LAB_I64 || count->rank != 0)))
        return lab__fail(LAB_ERR_STATE, "%s is %s, and its state is not like it any more", e->name,
                         lab__tensor_text(parameter));
    if (kept->counts && (*(const int64_t *)count->data < 0 || *(const int64_t *)count->data == INT64_MAX))
        return lab__fail(LAB_ERR_STATE, "%s: its step is %lld", e->name, (long long)*(const int64_t *)count->data);
    return LAB_OK;
}

/* The entry of a parameter, made if there is none. */
static lab_status entry_of(lab_optimizer *x, const char *name, const lab_tensor *parameter, entry **out)
{
    if (!name)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_optimizer: a parameter without a name; its state is found by it");
    *out = find(x, name);
    return *out ? check_state(x, *out, parameter) : add_entry(x, name, parameter, out);
}

lab_status lab_optimizer_step(const char *name, lab_tensor **parameter, void *ctx)
{
    lab_optimizer *x = ctx;
    entry *e;
    lab_status status = lab__check_visit(name, parameter, ctx);
    const lab_tensor *gradient = status == LAB_OK ? lab_tensor_grad(*parameter) : NULL;
    if (!gradient)
        return status;
    status = entry_of(x, name, *parameter, &e);
    if (status != LAB_OK)
        return status;
    int64_t step = 0;
    if (e->state[COUNT]) {
        step = ++*(int64_t *)e->state[COUNT]->data;
        lab_tensor_touch(e->state[COUNT]);
    }
    kernel_step by = lab__optim_numbers(&x->config, e->rate, e->decay, step);
    by.scale = x->scale;
    lab__optim_pass(*parameter, gradient, e->state[FIRST], e->state[SECOND], x->rule, &by);
    return LAB_OK;
}

lab_status lab_optimizer_prepare(const char *name, lab_tensor **parameter, void *ctx)
{
    entry *e;
    lab_status status = lab__check_visit(name, parameter, ctx);
    return status == LAB_OK && (*parameter)->requires_grad ? entry_of(ctx, name, *parameter, &e) : status;
}

/* ---- Visiting and setting ---------------------------------------------------------------------------------------- */

static lab_status visit_state(const char *prefix, const char *word, entry *e, int which, lab_visit_fn fn, void *ctx)
{
    char under[LAB_NAME_LENGTH];
    if (!word || !e->state[which])
        return LAB_OK;
    lab_status status = lab__join_name(under, prefix, word);
    return status == LAB_OK ? lab__visit_parameter(under, e->name, &e->state[which], fn, ctx) : status;
}

lab_status lab_optimizer_visit(lab_optimizer *optimizer, const char *prefix, lab_visit_fn fn, void *ctx)
{
    if (!optimizer || !fn)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_optimizer_visit: %s is NULL", optimizer ? "fn" : "the optimizer");
    const kept_state *kept = lab__optim_kept(optimizer->rule);
    lab_status status = LAB_OK;
    for (int64_t i = 0; i < optimizer->count && status == LAB_OK; i++) {
        entry *e = &optimizer->entries[i];
        status = visit_state(prefix, kept->first, e, FIRST, fn, ctx);
        if (status == LAB_OK)
            status = visit_state(prefix, kept->second, e, SECOND, fn, ctx);
        if (status == LAB_OK)
            status = visit_state(prefix, kept->counts ? "step" : NULL, e, COUNT, fn, ctx);
    }
    return status;
}

lab_status lab_optimizer_set_rate(lab_optimizer *optimizer, double rate)
{
    if (!optimizer)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_optimizer_set_rate: the optimizer is NULL");
    if (!isfinite(rate) || rate < 0)
        return lab__fail(LAB_ERR_RANGE, "lab_optimizer_set_rate: the rate is %g, must be finite and at least 0", rate);
    optimizer->config.rate = rate;
    return LAB_OK;
}

double lab_optimizer_rate(const lab_optimizer *optimizer)
{
    return optimizer ? optimizer->config.rate : 0;
}

lab_status lab_optimizer_set_scale(lab_optimizer *optimizer, double scale)
{
    if (!optimizer)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_optimizer_set_scale: the optimizer is NULL");
    if (!isfinite(scale))
        return lab__fail(LAB_ERR_RANGE, "lab_optimizer_set_scale: the scale is %g, must be finite", scale);
    optimizer->scale = scale;
    return LAB_OK;
}
