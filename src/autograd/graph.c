/* graph.c - a graph's life, its memory, its first error, and the foreign tensors it has seen. */
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Life -------------------------------------------------------------------------------------------------------- */

static bool all_zero(const uint64_t *words, int n)
{
    for (int i = 0; i < n; i++)
        if (words[i])
            return false;
    return true;
}

static uint64_t next_epoch(void)
{
    static atomic_uint_fast64_t epochs;
    return atomic_fetch_add_explicit(&epochs, 1, memory_order_relaxed) + 1;
}

static lab_graph *new_graph(graph_mode mode, lab_graph *parent)
{
    lab_graph *g = lab__allocate(sizeof *g);
    if (!g)
        return NULL;
    memset(g, 0, sizeof *g);
    g->mode = g->base_mode = mode;
    g->parent = parent;
    g->epoch = next_epoch();
    return g;
}

lab_graph *lab_graph_create(const lab_graph_opts *opts)
{
    static const lab_graph_opts defaults = {0};
    if (!opts)
        opts = &defaults;
    lab_graph *g = new_graph(opts->inference ? MODE_INFERENCE : MODE_RECORD, NULL);
    if (!g) {
        lab__fail(LAB_ERR_MEMORY, "lab_graph_create: no memory for a graph");
        return NULL;
    }
    if (!all_zero(opts->reserved, 8))
        lab__refuse(g, "lab_graph_create", LAB_ERR_ARGUMENT, "the options' reserved words are not zero");
    else if (!lab__arena_reserve(&g->results, opts->reserve)) {
        lab__fail(LAB_ERR_MEMORY, "lab_graph_create: no memory for the %zu bytes to reserve", opts->reserve);
        lab_graph_destroy(&g);
    }
    if (g) {
        g->refused = g->status != LAB_OK;
        g->batch_invariant = opts->batch_invariant;
    }
    return g;
}

static void forget_foreigns(lab_graph *g)
{
    for (int64_t i = 0; i < g->n_foreign; i++) {
        lab_tensor *origin = g->foreign_list[i]->origin;
        if (!origin->graph)
            lab__tensor_drop(origin);
    }
    if (g->n_foreign)
        memset(g->foreigns, 0, (size_t)g->foreign_capacity * sizeof *g->foreigns);
    g->n_foreign = 0;
}

void lab_graph_reset(lab_graph *g)
{
    if (!g)
        return;
    if (g->child)
        lab_graph_reset(g->child);
    lab__sweep_temporaries(g, NULL);
    forget_foreigns(g);
    lab__arena_reset(&g->results);
    lab__arena_reset(&g->walk);
    g->n_nodes = g->floor = 0;
    g->mode = g->base_mode;
    if (!g->refused) {
        g->status = LAB_OK;
        g->message[0] = '\0';
    }
    g->running = NULL;
    g->flops = 0;
    g->suspended = false;
    g->epoch = next_epoch();
}

void lab_graph_destroy(lab_graph **graph)
{
    if (!graph || !*graph)
        return;
    lab_graph *g = *graph;
    lab_graph_destroy(&g->child);
    lab__sweep_temporaries(g, NULL);
    forget_foreigns(g);
    lab__release(g->foreigns, (size_t)g->foreign_capacity * sizeof *g->foreigns);
    lab__release(g->foreign_list, (size_t)g->foreign_capacity / 2 * sizeof *g->foreign_list);
    lab__release(g->nodes, (size_t)g->nodes_capacity * sizeof(node *));
    lab__arena_free(&g->results);
    lab__arena_free(&g->walk);
    lab__block_pool_free(&g->blocks);
    lab__release(g, sizeof *g);
    *graph = NULL;
}

lab_graph *lab__child(lab_graph *g, graph_mode mode)
{
    if (!g->child) {
        g->child = new_graph(mode, g);
        if (!g->child)
            lab__out_of_memory(g, "a checkpoint's graph");
    } else {
        lab_graph_reset(g->child);
    }
    if (g->child) {
        g->child->mode = g->child->base_mode = mode;
        g->child->batch_invariant = g->batch_invariant;
    }
    return g->child;
}

/* ---- Errors -------------------------------------------------------------------------------------------------------
 */

lab_status lab_graph_status(const lab_graph *g)
{
    return g ? g->status : LAB_ERR_MEMORY;
}

const char *lab_graph_message(const lab_graph *g)
{
    return g ? g->message : "there is no graph: out of memory when it was created";
}

bool lab__healthy(const lab_graph *g)
{
    return g && g->status == LAB_OK;
}

bool lab__is_recording(const lab_graph *g)
{
    return g->base_mode == MODE_RECORD;
}

bool lab__is_batch_invariant(const lab_graph *g)
{
    return g->batch_invariant;
}

void *lab__keep(lab_graph *g, size_t bytes)
{
    return lab__arena_take(&g->results, bytes);
}

static void fail(lab_graph *g, const char *name, lab_status status, const char *format, va_list arguments)
{
    if (!g || g->status != LAB_OK)
        return;
    g->status = status == LAB_OK ? LAB_ERR_ARGUMENT : status;
    int length = name ? snprintf(g->message, sizeof g->message, "%.100s: ", name) : 0;
    vsnprintf(g->message + length, sizeof g->message - (size_t)length, format, arguments);
    lab__set_last_message(g->message);
}

lab_status lab_graph_fail(lab_graph *g, lab_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(g, g && g->running ? g->running->name : NULL, status, format, arguments);
    va_end(arguments);
    return lab_graph_status(g);
}

lab_tensor *lab__refuse(lab_graph *g, const char *name, lab_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(g, name, status, format, arguments);
    va_end(arguments);
    return NULL;
}

lab_status lab__out_of_memory(lab_graph *g, const char *what)
{
    return lab_graph_fail(g, LAB_ERR_MEMORY, "no memory for %s", what);
}

/* ---- Memory by mode ------------------------------------------------------------------------------------------------
 */

static lab_tensor *new_header(lab_graph *g)
{
    bool temporary = g->mode == MODE_TEMPORARY;
    lab_tensor *t = temporary ? lab__block_take(&g->blocks, sizeof *t) : lab__arena_take(&g->results, sizeof *t);
    if (!t) {
        lab__out_of_memory(g, "a tensor");
        return NULL;
    }
    t->kind = temporary ? TENSOR_TEMPORARY : TENSOR_RESULT;
    t->requires_grad = t->overlapping = t->gradient_present = false;
    t->storage = NULL;
    t->graph = g;
    t->node = NULL;
    t->slot = NULL;
    t->gradient = t->origin = t->next_temporary = NULL;
    if (temporary) {
        t->next_temporary = g->temporaries;
        g->temporaries = t;
    }
    return t;
}

/* A storage's header takes a cache line of its own, the data follow it. */
enum { STORAGE_HEADER = MEMORY_ALIGNMENT };
_Static_assert(sizeof(storage) <= STORAGE_HEADER, "a storage's header fits a cache line");

static storage *new_storage(lab_graph *g, size_t bytes)
{
    bool temporary = g->mode == MODE_TEMPORARY;
    size_t total;
    char *memory = NULL;
    if (lab__add_sizes(bytes, STORAGE_HEADER, &total))
        memory = temporary ? lab__block_take(&g->blocks, total) : lab__arena_take(&g->results, total);
    if (!memory)
        return NULL;
    storage *s = (storage *)memory;
    s->data = memory + STORAGE_HEADER;
    s->bytes = bytes;
    atomic_init(&s->version, 0);
    atomic_init(&s->references, 1);
    s->block = temporary;
    s->release = NULL;
    s->context = NULL;
    return s;
}

lab_tensor *lab__new_tensor(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape)
{
    lab_tensor *t = new_header(g);
    if (!t)
        return NULL;
    lab__tensor_describe(t, dtype, rank, shape, NULL);
    t->storage = new_storage(g, (size_t)t->numel * lab_dtype_size(dtype));
    if (!t->storage) {
        lab_graph_fail(g, LAB_ERR_MEMORY, "no memory for %s", lab__tensor_text(t));
        return NULL; /* the header goes with the arena or the next sweep */
    }
    t->data = t->storage->data;
    return t;
}

/* Blocks are private to the graph's thread: plain increments are enough. */
static int add_reference(storage *s, int change)
{
    int references = atomic_load_explicit(&s->references, memory_order_relaxed) + change;
    atomic_store_explicit(&s->references, references, memory_order_relaxed);
    return references;
}

lab_tensor *lab__new_alias(lab_graph *g, const lab_tensor *of)
{
    lab_tensor *t = new_header(g);
    if (!t)
        return NULL;
    lab__tensor_describe(t, of->dtype, of->rank, of->shape, of->strides);
    t->overlapping = of->overlapping;
    t->data = of->data;
    t->storage = of->storage;
    if (t->storage->block)
        add_reference(t->storage, 1);
    return t;
}

void lab__free_temporary(lab_graph *g, lab_tensor *t)
{
    if (!t || t->kind != TENSOR_TEMPORARY)
        return;
    if (t->storage && t->storage->block && add_reference(t->storage, -1) == 0)
        lab__block_give(&g->blocks, t->storage);
    lab__block_give(&g->blocks, t);
}

void lab__sweep_temporaries(lab_graph *g, lab_tensor *until)
{
    lab_tensor *t = g->temporaries;
    while (t && t != until) {
        lab_tensor *next = t->next_temporary;
        lab__free_temporary(g, t);
        t = next;
    }
    g->temporaries = until;
}

/* ---- Mark and release -----------------------------------------------------------------------------------------------
 */

lab_mark lab_graph_mark(lab_graph *g)
{
    lab_mark mark = {{0}};
    if (!lab__healthy(g))
        return mark;
    if (g->base_mode != MODE_INFERENCE) {
        lab__refuse(g, "lab_graph_mark", LAB_ERR_STATE, "only an inference graph gives memory back before its reset");
        return mark;
    }
    arena_mark place = lab__arena_mark(&g->results);
    mark.place[0] = (uint64_t)(uintptr_t)place.chunk;
    mark.place[1] = place.used;
    mark.place[2] = (uint64_t)g->n_foreign;
    mark.place[3] = g->epoch;
    return mark;
}

void lab_graph_release(lab_graph *g, lab_mark mark)
{
    if (!lab__healthy(g))
        return;
    if (g->base_mode != MODE_INFERENCE) {
        lab__refuse(g, "lab_graph_release", LAB_ERR_STATE,
                    "only an inference graph gives memory back before its reset");
        return;
    }
    if (mark.place[3] != g->epoch) {
        lab__refuse(g, "lab_graph_release", LAB_ERR_STATE, "the mark is not of this graph since its last reset");
        return;
    }
    /* The headers of foreign tensors seen since lie behind the mark too: forget those, keep the others. */
    int64_t before = (int64_t)mark.place[2];
    if (g->n_foreign > before) {
        int64_t seen = g->n_foreign;
        memset(g->foreigns, 0, (size_t)g->foreign_capacity * sizeof *g->foreigns);
        for (int64_t i = before; i < seen; i++)
            if (!g->foreign_list[i]->origin->graph)
                lab__tensor_drop(g->foreign_list[i]->origin);
        g->n_foreign = 0;
        for (int64_t i = 0; i < before; i++) {
            lab__foreign_insert(g, g->foreign_list[i]);
        }
    }
    lab__arena_rewind(&g->results, (arena_mark){(struct arena_chunk *)(uintptr_t)mark.place[0], (size_t)mark.place[1]});
}

double lab_graph_flops(const lab_graph *g)
{
    return g ? g->flops : 0;
}

size_t lab_graph_bytes(const lab_graph *g)
{
    if (!g)
        return 0;
    return g->results.held + g->walk.held + g->blocks.held + (size_t)g->nodes_capacity * sizeof(node *) +
           lab_graph_bytes(g->child);
}
