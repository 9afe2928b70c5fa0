/* cases_run.c - one part, run: inputs become tensors, the handler calls the library, gradients are asked for. */
#include "cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

static void release(void *data, void *ctx)
{
    (void)data;
    free(ctx);
}

static void store(void *data, lab_dtype dtype, int64_t i, const array *a, int64_t of, bool mended)
{
    if (dtype == LAB_I64)
        ((int64_t *)data)[i] = mended ? 0 : a->integers[of];
    else if (dtype == LAB_BOOL)
        ((uint8_t *)data)[i] = a->numbers[of] != 0;
    else if (dtype == LAB_F32)
        ((float *)data)[i] = (float)a->numbers[of];
    else
        ((double *)data)[i] = a->numbers[of];
}

/* What lies in memory. Repeated inputs begin one element behind an aligned place. */
static lab_tensor *make_leaf(run *r, const array *a)
{
    lab_dtype dtype = a->dtype == LAB_I64 || a->dtype == LAB_BOOL ? a->dtype : r->dtype;
    size_t size = lab_dtype_size(dtype);
    int64_t count = a->count * r->copies, shape[LAB_MAX_RANK];
    memcpy(shape, a->shape, sizeof shape);
    shape[0] *= a->rank == 1 ? r->copies : 1;
    char *memory = malloc(((size_t)count + 1) * size);
    if (!memory)
        return NULL;
    void *data = memory + (r->copies > 1 ? size : 0);
    for (int64_t i = 0; i < count; i++)
        store(data, dtype, i, a, i % a->count, r->mended);
    lab_tensor *leaf;
    lab_status status = lab_tensor_wrap(&leaf, dtype, a->rank, shape, NULL, data, release, memory);
    if (status != LAB_OK)
        free(memory);
    else if ((dtype == LAB_F32 || dtype == LAB_F64) && lab_tensor_require_grad(leaf, true) != LAB_OK)
        lab_tensor_destroy(&leaf);
    return leaf;
}

/* The view of it, on the graph: strides, not a copy. */
static lab_tensor *take_view(lab_graph *g, lab_tensor *leaf, const array *a)
{
    int axes[LAB_MAX_RANK];
    lab_tensor *view = leaf;
    for (int i = 0; i < a->view_rank; i++) {
        axes[i] = (int)a->view_first[i];
        if (a->view == VIEW_SLICE)
            view = lab_slice(g, view, i, a->view_first[i], a->view_stop[i], 1);
    }
    if (a->view == VIEW_PERM)
        view = lab_permute(g, leaf, axes);
    if (a->view == VIEW_EXPAND)
        view = lab_broadcast_to(g, leaf, a->view_rank, a->view_first);
    return view;
}

static int place_of(const part *p, const char *name)
{
    for (int i = 0; i < p->inputs; i++)
        if (strcmp(p->name[i], name) == 0)
            return i;
    return -1;
}

lab_tensor *input(run *r, const char *name)
{
    int at = place_of(r->part, name);
    if (at < 0)
        return NULL;
    if (!r->leaf[at]) {
        r->leaf[at] = make_leaf(r, &r->part->input[at]);
        r->tensor[at] = r->leaf[at] ? take_view(r->g, r->leaf[at], &r->part->input[at]) : NULL;
        if (!r->leaf[at])
            fail(r, "input %s could not be made: %s", name, lab_last_message());
    }
    return r->tensor[at];
}

const array *input_array(const run *r, const char *name)
{
    int at = place_of(r->part, name);
    return at < 0 ? NULL : &r->part->input[at];
}

double parameter(const run *r, const char *name, double otherwise)
{
    double value;
    return read_number(json_object_get(json_object_get(r->part->json, "params"), name), &value) ? value : otherwise;
}

const char *parameter_text(const run *r, const char *name, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(json_object_get(r->part->json, "params"), name));
    return text ? text : otherwise;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

void give(run *r, const char *name, lab_tensor *t)
{
    if (r->results < MOST_RESULTS)
        r->result[r->results++] = (result){name, t};
}

lab_tensor *result_named(const run *r, const char *name)
{
    for (int i = 0; i < r->results; i++)
        if (strcmp(r->result[i].name, name) == 0)
            return r->result[i].tensor;
    return NULL;
}

double *elements(const lab_tensor *t)
{
    size_t n = (size_t)lab_tensor_numel(t), bytes = n * lab_dtype_size(lab_tensor_dtype(t));
    double *out = malloc((n + 1) * sizeof *out);
    char *raw = malloc(bytes + 1);
    if (!out || !raw || lab_tensor_read(t, raw, bytes) != LAB_OK) {
        free(raw);
        free(out);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        switch (lab_tensor_dtype(t)) {
        case LAB_F32:
            out[i] = ((float *)raw)[i];
            break;
        case LAB_F64:
            out[i] = ((double *)raw)[i];
            break;
        case LAB_I64:
            out[i] = (double)((int64_t *)raw)[i];
            break;
        case LAB_BOOL:
            out[i] = ((uint8_t *)raw)[i] != 0;
            break;
        }
    free(raw);
    return out;
}

/* ---- Gradients --------------------------------------------------------------------------------------------------- */

/* "dq", "dq_sumsq", ... asks for the gradient of input "q". Its place among the inputs, or -1. */
static int wanted_input(const run *r, const char *expected)
{
    if (*expected != 'd')
        return -1;
    for (int i = 0; i < r->part->inputs; i++) {
        size_t length = strlen(r->part->name[i]);
        if (strncmp(expected + 1, r->part->name[i], length) == 0 &&
            (!expected[1 + length] || expected[1 + length] == '_'))
            return i;
    }
    return -1;
}

/* The gradient of what lies in memory is that of the view, put back in its place; elsewhere it is 0. */
static bool check_memory(run *r, int at, lab_tensor *of_view, lab_tensor *of_memory)
{
    const array *a = &r->part->input[at];
    if (a->view != VIEW_PERM && a->view != VIEW_SLICE)
        return true;
    lab_tensor *in_place = take_view(r->g, of_memory, a);
    double *want = elements(of_view), *got = in_place ? elements(in_place) : NULL, *all = elements(of_memory);
    int64_t n = lab_tensor_numel(of_view), inside = 0, outside = 0;
    bool fine = want && got && all;
    for (int64_t i = 0; i < n && fine; i++) {
        inside += got[i] != 0;
        if (got[i] != want[i] && !(isnan(got[i]) && isnan(want[i])))
            fine = fail(r, "the gradient of %s in memory is %.17g at element %lld of the view, whose own is %.17g",
                        r->part->name[at], got[i], (long long)i, want[i]);
    }
    for (int64_t i = 0; i < a->count && fine; i++)
        outside += all[i] != 0;
    if (fine && outside != inside)
        fine = fail(r, "the gradient of %s in memory is not 0 outside of the view", r->part->name[at]);
    free(want);
    free(got);
    free(all);
    return fine;
}

/* Those that the expectation names become results. */
static bool differentiate(run *r, const json_t *expectation)
{
    lab_tensor *xs[2 * MOST_ARRAYS], *grads[2 * MOST_ARRAYS];
    int place[MOST_ARRAYS], n = 0;
    bool wanted[MOST_ARRAYS] = {false};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)expectation, name, value)
    {
        int at = wanted_input(r, name);
        if (at >= 0 && r->tensor[at])
            wanted[at] = true;
    }
    for (int i = 0; i < r->part->inputs; i++)
        if (wanted[i]) {
            place[n] = i;
            xs[2 * n] = r->tensor[i];
            xs[2 * n + 1] = r->leaf[i];
            n++;
        }
    if (n == 0)
        return true;
    lab_tensor *seed = input(r, "dout");
    if (lab_grad(r->g, r->result[0].tensor, seed, 2 * n, xs, grads, NULL) != LAB_OK)
        return lab_graph_status(r->g) == LAB_ERR_UNSUPPORTED ? cannot(r, "%s", lab_graph_message(r->g))
                                                             : fail(r, "gradients: %s", lab_graph_message(r->g));
    bool fine = true;
    for (int i = 0; i < n; i++) {
        snprintf(r->gradient[i], sizeof r->gradient[i], "d%s", r->part->name[place[i]]);
        give(r, r->gradient[i], grads[2 * i]);
        fine = check_memory(r, place[i], grads[2 * i], grads[2 * i + 1]) && fine;
    }
    return fine;
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

/* The process goes on: the same graph, after a reset, computes. */
static bool still_works(run *r, const op_entry *entry)
{
    lab_graph_reset(r->g);
    static const double two[] = {1, 2, 3, 4};
    lab_tensor *a = lab_constant(r->g, LAB_F64, 2, (int64_t[]){2, 2}, two);
    lab_tensor *product = lab_matmul(r->g, a, a);
    double *got = product ? elements(product) : NULL;
    bool fine = got && got[0] == 7 && got[1] == 10 && got[2] == 15 && got[3] == 22;
    free(got);
    if (!fine)
        return fail(r, "after the refusal the graph does not work any more");
    if (!entry->indices)
        return true;
    run again = *r; /* the same call with indices that exist */
    again.mended = true;
    again.results = 0;
    memset(again.leaf, 0, sizeof again.leaf);
    memset(again.tensor, 0, sizeof again.tensor);
    lab_graph_reset(r->g);
    entry->call(&again);
    lab_tensor *y = again.results ? again.result[0].tensor : NULL;
    bool works = y && lab_backward(r->g, lab_sum_all(r->g, y)) == LAB_OK, moved = false;
    for (int i = 0; i < MOST_ARRAYS; i++) {
        moved = moved || lab_tensor_grad(again.leaf[i]);
        lab_tensor_destroy(&again.leaf[i]);
    }
    return (works && moved) ||
           fail(r, "after the refusal the call with legal indices fails: %s", lab_graph_message(r->g));
}

static bool check_refusal(run *r, const op_entry *entry, const char *sentence)
{
    lab_status status = lab_graph_status(r->g);
    const char *message = lab_graph_message(r->g);
    if (status == LAB_ERR_UNSUPPORTED)
        return cannot(r, "%s", message);
    bool callers = status <= -1 && status >= -99;
    if (!callers && status != LAB_ERR_FORMAT)
        return fail(r, "wanted an error (%s), got %s %s", sentence, lab_status_name(status), message);
    if (!names_the_thing(r, message, sentence))
        return fail(r, "the message does not name what is wrong (%s): %s", sentence, message);
    for (int i = 0; i < r->results; i++)
        if (r->result[i].tensor)
            return fail(r, "there is an error and a result");
    if (lab_backward(r->g, NULL) == LAB_OK)
        return fail(r, "backward succeeds on a graph that has failed");
    for (int i = 0; i < r->part->inputs; i++)
        if (r->leaf[i] && lab_tensor_grad(r->leaf[i]))
            return fail(r, "the refused call touched the gradient of %s", r->part->name[i]);
    return still_works(r, entry);
}

/* ---- One run ----------------------------------------------------------------------------------------------------- */

static bool check_results(run *r, const op_entry *entry, const json_t *expectation)
{
    if (lab_graph_status(r->g) == LAB_ERR_UNSUPPORTED)
        return cannot(r, "%s", lab_graph_message(r->g));
    if (lab_graph_status(r->g) != LAB_OK)
        return fail(r, "%s", lab_graph_message(r->g));
    if (r->results == 0)
        return cannot(r, "the runner does not know how to make this call");
    if (!differentiate(r, expectation))
        return false;
    const bool in_words = json_object_get(r->part->json, "expect_property") && entry->check;
    bool fine = in_words || compare_all(r, expectation);
    return (!entry->check || entry->check(r)) && check_note(r) && fine;
}

/* Twice on one graph: one thread; then more, in memory that has been used. */
static void run_twice(run r, const op_entry *entry, const json_t *expectation, const char *refusal)
{
    r.g = lab_graph_create(NULL);
    for (r.threads = 1; r.threads <= 4; r.threads += 3) {
        if (lab_set_threads(r.threads) != LAB_OK) {
            fail(&r, "%s", lab_last_message());
            break;
        }
        r.results = 0;
        r.attention = (lab_attention_opts){0};
        entry->call(&r);
        if (refusal)
            check_refusal(&r, entry, refusal);
        else if (r.verdict->outcome == PASSED)
            check_results(&r, entry, expectation);
        for (int i = 0; i < MOST_ARRAYS; i++) {
            lab_tensor_destroy(&r.leaf[i]);
            r.tensor[i] = NULL;
        }
        lab_graph_reset(r.g);
    }
    lab_graph_destroy(&r.g);
}

/* ---- The part ---------------------------------------------------------------------------------------------------- */

static bool can_be_repeated(const part *p)
{
    for (int i = 0; i < p->inputs; i++)
        if (p->input[i].rank != 1 || p->input[i].count != p->input[0].count || p->input[i].view != VIEW_NONE)
            return false;
    return p->inputs > 0;
}

static void in_all_copies(run r, const op_entry *entry, const json_t *expectation, const char *refusal)
{
    r.copies = 1;
    run_twice(r, entry, expectation, refusal);
    r.copies = 5;
    if (entry->elementwise && !refusal && can_be_repeated(r.part))
        run_twice(r, entry, expectation, NULL);
}

/* Each convention that the library offers gives its own answer. Where nobody has said which one it has, one must fit.
 */
static void in_all_conventions(run r, const op_entry *entry, const json_t *any)
{
    size_t i, offered = 0;
    json_t *expectation;
    verdict best = {.outcome = FAILED}, *all = r.verdict;
    json_array_foreach(any, i, expectation)
    {
        const char *name = json_string_value(json_object_get(expectation, "convention"));
        int offers = offers_convention(name);
        verdict alone = {.outcome = PASSED};
        r.convention = name;
        r.verdict = offers > 0 ? all : &alone;
        if (offers != 0)
            in_all_copies(r, entry, expectation, NULL);
        offered += offers > 0;
        if (offers < 0 && (i == 0 || alone.outcome < best.outcome))
            best = alone;
    }
    r.verdict = all;
    if (offered == 0 && best.outcome >= all->outcome)
        *all = best.why[0] || best.outcome == PASSED ? best : (verdict){.outcome = FAILED, .why = "no convention fits"};
}

/* What the part says in its own way: results, one of several, an error; and where causal has only one meaning, both of
 * the library's. */
static void in_precision(run r, const op_entry *entry)
{
    const json_t *json = r.part->json, *expectation = json_object_get(json, "expect");
    const char *refusal = json_string_value(json_object_get(json, "expect_error"));
    const json_t *any = json_object_get(json, "expect_any");
    const array *q = input_array(&r, "q"), *k = input_array(&r, "k");
    if (any) {
        in_all_conventions(r, entry, any);
        return;
    }
    in_all_copies(r, entry, expectation, refusal);
    bool square = q && k && q->rank > 1 && k->rank == q->rank && q->shape[q->rank - 2] == k->shape[k->rank - 2];
    if (square && q->view == VIEW_NONE && strcmp(parameter_text(&r, "causal", ""), "yes") == 0) {
        r.convention = "bottom_right";
        in_all_copies(r, entry, expectation, refusal);
    }
}

static bool knows(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ' '))
            return true;
    return false;
}

/* The handler knows every parameter and input of the part. */
static bool is_known(run *r, const op_entry *entry)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(r->part->json, "params"), name, value)
    {
        if (!knows(entry->parameters, name))
            return cannot(r, "parameter %s is not known", name);
    }
    for (int i = 0; i < r->part->inputs; i++)
        if (!knows(entry->inputs, r->part->name[i]) && strcmp(r->part->name[i], "dout") != 0)
            return cannot(r, "input %s is not known", r->part->name[i]);
    return true;
}

void run_part(const part *p, const op_entry *entry, lab_path path, verdict *v)
{
    run r = {.part = p, .dtype = p->dtype, .path = entry->paths ? path : LAB_PATH_AUTO, .copies = 1, .verdict = v};
    if (!is_known(&r, entry))
        return;
    const json_t *float32 = json_object_get(p->json, "float32_tol");
    tolerance coarse = float32 ? tolerance_of(&r, float32) : (tolerance){0};
    tolerance fine = {.given = true};
    const char *note = strstr(p->note, "run in float64 with rtol ");
    if (p->dtype == LAB_F32)
        r.instead = coarse;
    in_precision(r, entry);
    if (p->dtype == LAB_F64 && float32) {
        r.dtype = LAB_F32;
        r.instead = coarse;
        in_precision(r, entry);
    }
    if (note && sscanf(note, "run in float64 with rtol %lf, atol %lf", &fine.rtol, &fine.atol) == 2) {
        r.dtype = LAB_F64;
        r.instead = fine;
        in_precision(r, entry);
    }
}
