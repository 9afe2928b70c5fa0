/* attn_rows.c - how a row of attn_bench is measured.
 *
 * Forward is timed on an inference graph, whose memory goes back by mark and release. Backward is lab_grad of q, k and
 * v with a fixed seed, alone: its forward runs on the same recording graph before the clock starts. Rows of one size
 * share a graph, so that memory is warm; a sample during which the graph grew is thrown away and taken again.
 */
#include "attn_bench.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

enum { OPERANDS = 4, Q = 0, K = 1, V = 2, SEED = 3 }; /* SEED: the gradient that comes in */
static const double short_call = 0.02;                /* a call below this is made once untimed before each sample */

/* What all rows share: memory for operands of each dtype, as much as the largest row needs, and the graph of the
 * sizes that were measured last. */
static struct {
    void *operands[BENCH_TYPES][OPERANDS];
    lab_graph *graph;
    const attn_row *graph_of; /* a row of the same sizes */
} shared;

const char *attn_impl_name(lab_path impl)
{
    return impl == LAB_PATH_FUSED ? "fused" : "composed";
}

const char *attn_pass_name(const attn_row *row)
{
    return row->backward ? "backward" : "forward";
}

static int64_t operand_numel(const attn_row *row)
{
    return row->batch * row->heads * row->t * row->d;
}

/* ---- Memory ---------------------------------------------------------------------------------------------------- */

/* Bytes that a row will need, roughly: a few arrays of scores in the composed path, operands and results in both. */
static double bytes_needed(const attn_row *row)
{
    double scores = (double)row->batch * (double)row->heads * (double)row->t * (double)row->t;
    double arrays = row->impl == LAB_PATH_FUSED ? 0 : row->backward ? 9 : row->causal ? 6 : 4;
    double operand = (double)row->batch * (double)row->heads * (double)row->t * (double)row->d;
    return (double)lab_dtype_size(row->dtype) * (arrays * scores + 12 * operand);
}

/* Random numbers: a million different ones, then the same again. */
static void *random_memory(lab_dtype dtype, int64_t numel, uint64_t seed)
{
    int64_t different = numel < 1 << 20 ? numel : 1 << 20;
    size_t size = lab_dtype_size(dtype), bytes = (size_t)numel * size;
    char *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
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
    int64_t largest[BENCH_TYPES] = {0};
    for (int i = 0; i < table->n; i++) {
        attn_row *row = &table->rows[i];
        double needed = bytes_needed(row);
        row->timed = (bench_case){.sample = attn_sample, .context = row};
        if (needed > 0.8 * available)
            snprintf(row->skipped, sizeof row->skipped, "needs about %.1f GB, and %.1f GB are free", 1e-9 * needed,
                     1e-9 * available);
        else if (operand_numel(row) > largest[row->dtype])
            largest[row->dtype] = operand_numel(row);
    }
    for (int dtype = 0; dtype < BENCH_TYPES; dtype++)
        for (int i = 0; largest[dtype] && i < OPERANDS; i++) {
            void *memory = random_memory((lab_dtype)dtype, largest[dtype], (uint64_t)i + 1);
            if (!memory)
                return false;
            shared.operands[dtype][i] = memory;
        }
    return true;
}

void attn_release(void)
{
    for (int dtype = 0; dtype < BENCH_TYPES; dtype++)
        for (int i = 0; i < OPERANDS; i++)
            free(shared.operands[dtype][i]);
    lab_graph_destroy(&shared.graph);
    memset(&shared, 0, sizeof shared);
}

/* ---- One sample ------------------------------------------------------------------------------------------------ */

/* A row's operands as tensors around the shared memory. */
static lab_status make_operands(const attn_row *row, lab_tensor *operands[OPERANDS])
{
    int64_t shape[4] = {row->batch, row->heads, row->t, row->d};
    for (int i = 0; i < OPERANDS; i++)
        operands[i] = NULL;
    for (int i = 0; i < OPERANDS; i++) {
        lab_status status =
            lab_tensor_wrap(&operands[i], row->dtype, 4, shape, NULL, shared.operands[row->dtype][i], NULL, NULL);
        if (status != LAB_OK)
            return status;
    }
    return LAB_OK;
}

static lab_tensor *attend(lab_graph *g, const attn_row *row, lab_tensor *const *operands)
{
    lab_attention_opts opts = {.path = row->impl, .causal = row->causal ? LAB_CAUSAL_TOP_LEFT : LAB_CAUSAL_NONE};
    return lab_attention(g, operands[Q], operands[K], operands[V], &opts);
}

/* Seconds per call of forward, `repeats` of them. */
static double time_forward(lab_graph *g, const attn_row *row, lab_tensor *const *operands, int repeats)
{
    double start = bench_now();
    for (int i = 0; i < repeats; i++) {
        lab_mark mark = lab_graph_mark(g);
        attend(g, row, operands);
        lab_graph_release(g, mark);
    }
    return (bench_now() - start) / repeats;
}

/* Seconds per call of backward alone, from y that is on g. */
static double time_backward(lab_graph *g, lab_tensor *y, lab_tensor **operands, int repeats)
{
    lab_tensor *grads[3];
    double start = bench_now();
    for (int i = 0; i < repeats; i++)
        lab_grad(g, y, operands[SEED], 3, operands, grads, NULL);
    return (bench_now() - start) / repeats;
}

static double measure(lab_graph *g, attn_row *row, lab_tensor **operands)
{
    double seconds = 0;
    for (int attempt = 0; attempt < 3; attempt++) {
        lab_graph_reset(g);
        lab_tensor *y = row->backward ? attend(g, row, operands) : NULL;
        if (row->last < short_call)
            row->last = row->backward ? time_backward(g, y, operands, 1) : time_forward(g, row, operands, 1);
        int repeats = bench_repeats(row->last);
        size_t held = lab_graph_bytes(g);
        seconds = row->backward ? time_backward(g, y, operands, repeats) : time_forward(g, row, operands, repeats);
        if (lab_graph_status(g) != LAB_OK || lab_graph_bytes(g) == held)
            break;
    }
    return seconds;
}

/* On a graph of its own, which holds then what one call takes: the results, and the workspace. */
static double measure_workspace(lab_graph *g, attn_row *row, lab_tensor **operands)
{
    double start = bench_now();
    lab_tensor *y = attend(g, row, operands), *grads[3];
    if (row->backward)
        lab_grad(g, y, operands[SEED], 3, operands, grads, NULL);
    size_t held = lab_graph_bytes(g);
    size_t results = (row->backward ? 4 : 1) * (size_t)operand_numel(row) * lab_dtype_size(row->dtype);
    row->workspace_bytes = held > results ? held - results : 1;
    return bench_now() - start;
}

static bool same_sizes(const attn_row *a, const attn_row *b)
{
    return a->impl == b->impl && a->dtype == b->dtype && a->backward == b->backward && a->batch == b->batch &&
           a->heads == b->heads && a->t == b->t;
}

/* The graph that rows of these sizes share, or a new one. */
static lab_graph *graph_for(const attn_row *row)
{
    if (shared.graph && row->workspace_bytes && same_sizes(row, shared.graph_of))
        return shared.graph;
    lab_graph_destroy(&shared.graph);
    shared.graph = lab_graph_create(&(lab_graph_opts){.inference = !row->backward});
    shared.graph_of = row;
    return shared.graph;
}

double attn_sample(void *context)
{
    attn_row *row = context;
    if (row->skipped[0])
        return -1;
    lab_tensor *operands[OPERANDS];
    lab_graph *g = graph_for(row);
    lab_status status = make_operands(row, operands);
    double seconds = -1;
    if (status != LAB_OK) {
        snprintf(row->skipped, sizeof row->skipped, "%s", lab_last_message());
    } else {
        row->last = seconds = row->workspace_bytes ? measure(g, row, operands) : measure_workspace(g, row, operands);
        if (lab_graph_status(g) != LAB_OK) {
            snprintf(row->skipped, sizeof row->skipped, "%s", g ? lab_graph_message(g) : "no memory for a graph");
            lab_graph_destroy(&shared.graph);
            seconds = -1;
        }
    }
    for (int i = 0; i < OPERANDS; i++)
        lab_tensor_destroy(&operands[i]);
    return seconds;
}

/* ---- Results --------------------------------------------------------------------------------------------------- */

/* Floating-point operations that the definition needs: two products forward, five backward; causal, only the keys
 * that may be seen. */
static double useful_flops(const attn_row *row)
{
    double t = (double)row->t, pairs = row->causal ? t * (t + 1) / 2 : t * t;
    return (row->backward ? 2.5 : 1) * 4 * (double)row->batch * (double)row->heads * pairs * (double)row->d;
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
        double peak = table->anchors.fma_gflops[row->dtype] * table->machine.threads;
        row->gflops = 1e-9 * useful_flops(row) / row->time.min;
        row->share = peak > 0 ? row->gflops / peak : 0;
    }
}

lab_status attn_try(lab_path impl, lab_dtype dtype, char *message, size_t size)
{
    int64_t shape[4] = {1, 1, 2, 2};
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *x = lab_full(g, dtype, 4, shape, 1), *dx;
    lab_attention_opts opts = {.path = impl};
    lab_grad(g, lab_attention(g, x, x, x, &opts), NULL, 1, &x, &dx, NULL);
    lab_status status = lab_graph_status(g);
    snprintf(message, size, "%s", g ? lab_graph_message(g) : "no memory for a graph");
    lab_graph_destroy(&g);
    return status;
}
