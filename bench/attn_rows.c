/* attn_rows.c - how a row of attn_bench is measured.
 *
 * Forward is timed on an inference graph, whose memory goes back by mark and release. Backward is lab_grad of q, k and
 * v with a fixed seed, alone: the graph is reset and its forward runs again before the clock starts. Rows of one size
 * share a graph, so that memory is warm; a sample during which the graph grew is thrown away and taken again. Decoding
 * takes other keys and values in every call, as the layers of a model do: so they come from memory, not from the
 * processor's cache.
 */
#include "attn_bench.h"

#include <string.h>

#include "autograd/memory.h"
#include "kernels/kernels.h"

enum { OPERANDS = 4, Q = 0, K = 1, V = 2, SEED = 3 }; /* SEED: the gradient that comes in */
enum { MAX_SETS = 64, SETS_BYTES = 128 << 20 };       /* of keys, and of values, that decoding goes through */

/* Calls shorter than this are made untimed before each sample, one at least and as many as begin in warm_up: a
 * last-level cache that is filled by what others drop, not by reading, holds a loop's operands after some calls only.
 */
static const double short_call = 0.1, warm_up = 0.01;

/* What all rows share: memory for operands of each dtype, as much as the largest row needs, and the graph of the
 * sizes that were measured last. */
static struct {
    void *operands[BENCH_TYPES][OPERANDS];
    int64_t numel[BENCH_TYPES][OPERANDS]; /* of each */
    lab_graph *graph;
    const attn_row *graph_of; /* a row of the same sizes */
    lab_kv_cache *caches[MAX_SETS];
    const attn_row *caches_of; /* likewise */
} shared;

const char *attn_impl_name(lab_path impl)
{
    return impl == LAB_PATH_FUSED ? "fused" : "composed";
}

const char *attn_pass_name(const attn_row *row)
{
    static const char *const names[] = {"forward", "backward", "decode", "cached"};
    return names[row->pass];
}

bool attn_same_task(const attn_row *a, const attn_row *b)
{
    return a->dtype == b->dtype && a->causal == b->causal && a->pass == b->pass && a->batch == b->batch &&
           a->heads == b->heads && a->kv_heads == b->kv_heads && a->window == b->window && a->threads == b->threads;
}

bool attn_same_block(const attn_row *a, const attn_row *b)
{
    return a->impl == b->impl && attn_same_task(a, b);
}

static int64_t queries(const attn_row *row)
{
    return attn_decodes(row) ? 1 : row->t;
}

static int64_t operand_numel(const attn_row *row, int operand)
{
    return row->batch * row->d * (operand == K || operand == V ? row->kv_heads * row->t : row->heads * queries(row));
}

/* How many sets of keys and values there are. */
static int64_t sets_of(const attn_row *row)
{
    const int64_t bytes = operand_numel(row, K) * (int64_t)lab_dtype_size(row->dtype);
    const int64_t sets = attn_decodes(row) ? (SETS_BYTES + bytes - 1) / bytes : 1;
    return sets < MAX_SETS ? sets : MAX_SETS;
}

/* ---- Memory ---------------------------------------------------------------------------------------------------- */

/* Bytes that a row will need, roughly: a few arrays of scores in the composed path, operands and results in both. */
static double bytes_needed(const attn_row *row)
{
    double scores = (double)row->batch * (double)row->heads * (double)queries(row) * (double)row->t;
    double arrays = row->impl == LAB_PATH_FUSED ? 0 : row->pass == PASS_BACKWARD ? 9 : row->causal ? 6 : 4;
    double operand = (double)row->batch * (double)row->heads * (double)row->t * (double)row->d;
    double sets = attn_decodes(row) ? 4 * (double)SETS_BYTES : 0;
    return (double)lab_dtype_size(row->dtype) * (arrays * scores + 12 * operand) + sets;
}

/* Random numbers: a million different ones, then the same again. They lie where the library's own tensors would. */
static void *random_memory(lab_dtype dtype, int64_t numel, uint64_t seed)
{
    int64_t different = numel < 1 << 20 ? numel : 1 << 20;
    size_t size = lab_dtype_size(dtype), bytes = (size_t)numel * size;
    char *memory = lab__allocate(bytes);
    if (!memory)
        return NULL;
    lab__kernel_normal(dtype == LAB_F64 ? KERNEL_F64 : KERNEL_F32, different, memory, seed, 0, 0);
    for (size_t done = (size_t)different * size; done < bytes;) {
        size_t part = done < bytes - done ? done : bytes - done;
        memcpy(memory + done, memory, part);
        done += part;
    }
    return memory;
}

bool attn_prepare(attn_table *table)
{
    double available = bench_memory_available();
    int64_t largest[BENCH_TYPES][OPERANDS] = {{0}};
    for (int i = 0; i < table->n; i++) {
        attn_row *row = &table->rows[i];
        double needed = bytes_needed(row);
        row->timed = (bench_case){.sample = attn_sample, .context = row};
        if (needed > 0.8 * available)
            snprintf(row->skipped, sizeof row->skipped, "needs about %.1f GB, and %.1f GB are free", 1e-9 * needed,
                     1e-9 * available);
        for (int operand = 0; !row->skipped[0] && operand < OPERANDS; operand++) {
            int64_t *most = &largest[row->dtype][operand], numel = operand_numel(row, operand) * sets_of(row);
            *most = numel > *most ? numel : *most;
        }
    }
    for (int dtype = 0; dtype < BENCH_TYPES; dtype++)
        for (int i = 0; i < OPERANDS && largest[dtype][i]; i++) {
            void *memory = random_memory((lab_dtype)dtype, largest[dtype][i], (uint64_t)i + 1);
            if (!memory)
                return false;
            shared.operands[dtype][i] = memory;
            shared.numel[dtype][i] = largest[dtype][i];
        }
    return true;
}

void attn_release(void)
{
    for (int dtype = 0; dtype < BENCH_TYPES; dtype++)
        for (int i = 0; i < OPERANDS; i++)
            lab__release(shared.operands[dtype][i], (size_t)shared.numel[dtype][i] * lab_dtype_size((lab_dtype)dtype));
    lab_graph_destroy(&shared.graph);
    for (int i = 0; i < MAX_SETS; i++)
        lab_kv_cache_destroy(&shared.caches[i]);
    memset(&shared, 0, sizeof shared);
}

/* ---- One sample ------------------------------------------------------------------------------------------------ */

/* A row's operands: tensors around the shared memory. */
typedef struct operands {
    lab_tensor *q, *seed;
    int64_t sets;
    lab_tensor *k[MAX_SETS], *v[MAX_SETS];
    lab_tensor *next[2]; /* a key and a value for each head: what a cache grows by */
} operands;

/* The tensor in set number `set` of a row's operand. */
static lab_status wrap(const attn_row *row, int operand, int64_t set, lab_tensor **out)
{
    bool keys = operand == K || operand == V;
    int64_t shape[4] = {row->batch, keys ? row->kv_heads : row->heads, keys ? row->t : queries(row), row->d};
    char *memory = shared.operands[row->dtype][operand];
    memory += set * operand_numel(row, operand) * (int64_t)lab_dtype_size(row->dtype);
    return lab_tensor_wrap(out, row->dtype, 4, shape, NULL, memory, NULL, NULL);
}

/* The first key, or value, of each head. */
static lab_status wrap_next(const attn_row *row, int operand, lab_tensor **out)
{
    int64_t shape[4] = {row->batch, row->kv_heads, 1, row->d};
    return lab_tensor_wrap(out, row->dtype, 4, shape, NULL, shared.operands[row->dtype][operand], NULL, NULL);
}

static lab_status make_operands(const attn_row *row, operands *x)
{
    *x = (operands){.sets = sets_of(row)};
    lab_status status = wrap(row, Q, 0, &x->q);
    if (status == LAB_OK)
        status = wrap(row, SEED, 0, &x->seed);
    for (int64_t i = 0; i < x->sets && status == LAB_OK; i++) {
        status = wrap(row, K, i, &x->k[i]);
        if (status == LAB_OK)
            status = wrap(row, V, i, &x->v[i]);
    }
    if (status == LAB_OK)
        status = wrap_next(row, K, &x->next[0]);
    if (status == LAB_OK)
        status = wrap_next(row, V, &x->next[1]);
    return status;
}

static void release_operands(operands *x)
{
    lab_tensor_destroy(&x->q);
    lab_tensor_destroy(&x->seed);
    for (int64_t i = 0; i < x->sets; i++) {
        lab_tensor_destroy(&x->k[i]);
        lab_tensor_destroy(&x->v[i]);
    }
    lab_tensor_destroy(&x->next[0]);
    lab_tensor_destroy(&x->next[1]);
}

/* Caches that hold the sets of keys and values, from the last sample or new ones. */
static lab_status open_caches(lab_graph *g, const attn_row *row, const operands *x)
{
    const attn_row *of = shared.caches_of;
    if (row->pass != PASS_CACHED || (of && of->dtype == row->dtype && of->batch == row->batch && of->t == row->t &&
                                     of->kv_heads == row->kv_heads && of->d == row->d))
        return LAB_OK;
    shared.caches_of = NULL;
    for (int i = 0; i < MAX_SETS; i++)
        lab_kv_cache_destroy(&shared.caches[i]);
    for (int64_t i = 0; i < x->sets; i++) {
        lab_status status =
            lab_kv_cache_create(&shared.caches[i], row->dtype, row->batch, row->kv_heads, row->t, row->d, row->d);
        if (status != LAB_OK)
            return status;
        if (lab_kv_cache_append(g, shared.caches[i], x->k[i], x->v[i], NULL) != LAB_OK)
            return lab_graph_status(g);
    }
    shared.caches_of = row;
    return LAB_OK;
}

/* A step of generation: the last row of every batch is taken away, so that one can be appended. */
static lab_tensor *attend_cached(lab_graph *g, lab_kv_cache *cache, const attn_row *row, const operands *x,
                                 const lab_attention_opts *opts)
{
    for (int64_t i = 0; i < row->batch; i++)
        if (lab_kv_cache_truncate(cache, i, row->t - 1) != LAB_OK)
            return NULL;
    if (lab_kv_cache_append(g, cache, x->next[0], x->next[1], NULL) != LAB_OK)
        return NULL;
    return lab_attention_cached(g, x->q, cache, opts);
}

static lab_tensor *attend(lab_graph *g, attn_row *row, const operands *x)
{
    lab_attention_opts opts = {.path = row->impl};
    opts.causal = !row->causal ? LAB_CAUSAL_NONE : attn_decodes(row) ? LAB_CAUSAL_BOTTOM_RIGHT : LAB_CAUSAL_TOP_LEFT;
    if (row->window != NO_WINDOW)
        opts.window = (lab_window){.limited = true, .left = row->window, .right = row->causal ? 0 : row->window};
    const int64_t set = row->turn++ % x->sets;
    if (row->pass == PASS_CACHED)
        return attend_cached(g, shared.caches[set], row, x, &opts);
    return lab_attention(g, x->q, x->k[set], x->v[set], &opts);
}

/* Seconds per call of forward, `repeats` of them. */
static double time_forward(lab_graph *g, attn_row *row, const operands *x, int repeats)
{
    double start = bench_now();
    for (int i = 0; i < repeats; i++) {
        lab_mark mark = lab_graph_mark(g);
        attend(g, row, x);
        lab_graph_release(g, mark);
    }
    return (bench_now() - start) / repeats;
}

/* Seconds per call of backward alone, each after a forward of its own, so that its results go where the last one's went
 * as in a loop that resets its graph. */
static double time_backward(lab_graph *g, attn_row *row, const operands *x, int repeats)
{
    lab_tensor *wanted[] = {x->q, x->k[0], x->v[0]}, *grads[3];
    double seconds = 0;
    for (int i = 0; i < repeats; i++) {
        lab_graph_reset(g);
        lab_tensor *y = attend(g, row, x);
        const double start = bench_now();
        lab_grad(g, y, x->seed, 3, wanted, grads, NULL);
        seconds += bench_now() - start;
    }
    return seconds / repeats;
}

static double measure(lab_graph *g, attn_row *row, const operands *x)
{
    double (*time)(lab_graph *, attn_row *, const operands *, int) =
        row->pass == PASS_BACKWARD ? time_backward : time_forward;
    double seconds = 0;
    for (int attempt = 0; attempt < 3; attempt++) {
        lab_graph_reset(g);
        const double start = bench_now();
        for (bool more = row->last < short_call; more; more = bench_now() - start < warm_up)
            row->last = time(g, row, x, 1);
        int repeats = bench_repeats(row->last);
        size_t held = lab_graph_bytes(g);
        seconds = time(g, row, x, repeats);
        if (lab_graph_status(g) != LAB_OK || lab_graph_bytes(g) == held)
            break;
    }
    return seconds;
}

/* On a graph of its own, which holds then what one call takes: the results, and the workspace. */
static double measure_workspace(lab_graph *g, attn_row *row, const operands *x)
{
    const bool backward = row->pass == PASS_BACKWARD;
    int64_t results = operand_numel(row, Q);
    const double seconds = backward ? time_backward(g, row, x, 1) : time_forward(g, row, x, 1);
    if (backward)
        results += operand_numel(row, Q) + operand_numel(row, K) + operand_numel(row, V);
    size_t held = lab_graph_bytes(g), of_results = (size_t)results * lab_dtype_size(row->dtype);
    row->workspace_bytes = held > of_results ? held - of_results : 1;
    return seconds;
}

static bool same_sizes(const attn_row *a, const attn_row *b)
{
    return a->impl == b->impl && a->dtype == b->dtype && a->pass == b->pass && a->batch == b->batch &&
           a->heads == b->heads && a->kv_heads == b->kv_heads && a->t == b->t && a->threads == b->threads;
}

/* The graph that rows of these sizes share, or a new one. */
static lab_graph *graph_for(const attn_row *row)
{
    if (shared.graph && row->workspace_bytes && same_sizes(row, shared.graph_of))
        return shared.graph;
    lab_graph_destroy(&shared.graph);
    shared.graph = lab_graph_create(&(lab_graph_opts){.inference = row->pass != PASS_BACKWARD});
    shared.graph_of = row;
    return shared.graph;
}

double attn_sample(void *context)
{
    attn_row *row = context;
    if (row->skipped[0])
        return -1;
    operands x;
    lab_graph *g = graph_for(row);
    lab_status status = make_operands(row, &x);
    if (status == LAB_OK)
        status = lab_set_threads(row->threads);
    if (status == LAB_OK)
        status = open_caches(g, row, &x);
    double seconds = -1;
    if (status != LAB_OK) {
        snprintf(row->skipped, sizeof row->skipped, "%s", lab_last_message());
    } else {
        row->last = seconds = row->workspace_bytes ? measure(g, row, &x) : measure_workspace(g, row, &x);
        if (lab_graph_status(g) != LAB_OK) {
            snprintf(row->skipped, sizeof row->skipped, "%s", g ? lab_graph_message(g) : "no memory for a graph");
            lab_graph_destroy(&shared.graph);
            seconds = -1;
        }
    }
    release_operands(&x);
    return seconds;
}

/* ---- Results --------------------------------------------------------------------------------------------------- */

/* How many pairs of a query and a key may meet: what of the queries' rows lies in the window, and at or before the
 * diagonal. */
static double pairs_of(const attn_row *row)
{
    const int64_t t = row->t;
    const int64_t left = row->window == NO_WINDOW ? t : row->window, right = row->causal ? 0 : left;
    double pairs = 0;
    for (int64_t i = attn_decodes(row) ? t - 1 : 0; i < t; i++)
        pairs += 1 + (double)(i < left ? i : left) + (double)(t - 1 - i < right ? t - 1 - i : right);
    return pairs;
}

/* Floating-point operations that the definition needs: two products forward, five backward. */
static double useful_flops(const attn_row *row)
{
    return (row->pass == PASS_BACKWARD ? 2.5 : 1) * 4 * (double)row->batch * (double)row->heads * pairs_of(row) *
           (double)row->d;
}

/* Of keys and values that one query sees. */
static double bytes_read(const attn_row *row)
{
    return 2 * (double)row->batch * (double)row->kv_heads * pairs_of(row) * (double)row->d *
           (double)lab_dtype_size(row->dtype);
}

void attn_finish(attn_table *table)
{
    for (int i = 0; i < table->n; i++) {
        attn_row *row = &table->rows[i];
        row->time = bench_statistics_of(&row->timed);
        if (row->timed.taken == 0) {
            if (!row->skipped[0])
                snprintf(row->skipped, sizeof row->skipped, "the time was up");
            continue;
        }
        row->skipped[0] = '\0'; /* a later sample may have failed: what there is counts */
        double peak = table->anchors.fma_gflops[row->dtype] * row->threads;
        double most_read = table->anchors.read_gbs * row->threads;
        row->gflops = 1e-9 * useful_flops(row) / row->time.min;
        row->share = peak > 0 ? row->gflops / peak : 0;
        row->gbs = attn_decodes(row) ? 1e-9 * bytes_read(row) / row->time.min : 0;
        row->read_share = most_read > 0 ? row->gbs / most_read : 0;
    }
}
