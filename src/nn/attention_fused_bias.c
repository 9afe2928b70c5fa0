/* attention_fused_bias.c - the gradient of the bias: ds_ij, summed over the axes along which the bias was stretched.
 *
 * A sweep of its own, after the others' gradients: a piece of work is a tile of the bias, and everything that meets it,
 * batches, heads, and blocks of queries and keys where it is stretched along these, is added up inside in fixed order,
 * in double.
 */
#include "attention_fused.h"

#include <string.h>

enum { PANELS = 6, KEYS = 96 };

typedef struct bias_job {
    const fused_problem *p;
    const lab_vjp_call *call;
    int64_t block;                                  /* queries of a tile */
    int64_t batches, heads, query_tiles, key_tiles; /* of the bias itself */
    bool query_axis, key_axis;                      /* whether it has an axis of its own there */
    const fused_number *row_sums;                   /* lab__fused_row_sums */
    char *memory;
    size_t memory_each;
} bias_job;

typedef struct bias_piece {
    const bias_job *job;
    fused_block block;
    double *sums;        /* [KEYS][block] */
    int64_t batch, head; /* of the bias */
    int64_t first_query, stop_query, first_key, stop_key;
} bias_piece;

/* The size of an axis of the bias, 1 where it has none. */
static int64_t own_size(const lab_tensor *bias, int axis_from_end)
{
    int axis = bias->rank - axis_from_end;
    return axis >= 0 ? bias->shape[axis] : 1;
}

static bias_job make_job(const lab_vjp_call *call, const fused_problem *p)
{
    const lab_tensor *bias = call->in[IN_BIAS];
    bias_job job = {.p = p, .call = call, .block = PANELS * p->width};
    job.query_axis = own_size(bias, 2) > 1;
    job.key_axis = own_size(bias, 1) > 1;
    job.batches = bias->rank > 3 ? lab__product(bias->rank - 3, bias->shape) : 1;
    job.heads = own_size(bias, 3);
    job.query_tiles = job.query_axis ? (p->tq + job.block - 1) / job.block : 1;
    job.key_tiles = job.key_axis ? (p->tk + KEYS - 1) / KEYS : 1;
    return job;
}

static bias_piece lay_out(const bias_job *job, char **at)
{
    bias_piece piece = {.job = job, .block = {.stride = job->block, .before_cap = true}};
    lab__fused_block_memory(&piece.block, job->p, KEYS, at);
    piece.sums = (double *)lab__take(at, (size_t)(KEYS * job->block) * sizeof(double));
    return piece;
}

size_t lab__fused_bias_scratch(const lab_vjp_call *call, const fused_problem *p)
{
    const bias_job job = make_job(call, p);
    char *end = NULL;
    lay_out(&job, &end);
    return (size_t)p->attrs->workers * (size_t)end;
}

/* Which of the bias's own batches goes with batch `index` of the scores. */
static int64_t own_batch(const bias_job *job, int64_t index)
{
    const lab_tensor *bias = job->call->in[IN_BIAS], *q = job->call->in[IN_Q];
    int64_t own = 0, step = 1;
    for (int axis = q->rank - 4; axis >= 0; axis--) {
        const int at = axis - (q->rank - bias->rank);
        if (at >= 0 && bias->shape[at] > 1)
            own += index % q->shape[axis] * step;
        if (at >= 0)
            step *= bias->shape[at];
        index /= q->shape[axis];
    }
    return own;
}

static void add_tile(bias_piece *piece, int64_t tile)
{
    fused_block *b = &piece->block;
    const fused_problem *p = b->p;
    const int64_t left = piece->stop_key - tile, most = left < KEYS ? left : KEYS;
    for (int i = 0; i < b->count; i++) {
        const fused_panel *panel = &b->panels[i];
        const int64_t stop = panel->end - tile < most ? panel->end - tile : most, column = i * p->width;
        if (panel->lowest >= tile + most || stop <= 0 || !lab__fused_slopes(b, i, tile, stop, 0, false))
            continue;
        for (int64_t j = 0; j < stop; j++)
            for (int64_t k = column; k < column + panel->rows; k++)
                piece->sums[j * b->stride + k] += lab__number_at(p->type, b->slopes, j * b->stride + k);
    }
}

/* Over all keys of a row ds sums to g (1 - p) + p sum_j p_ij dp_ij, p the sink's probability: 0 without lse and sink.
 */
static void add_rows(bias_piece *piece)
{
    const fused_block *b = &piece->block;
    for (int64_t i = 0; i < b->rows; i++)
        piece->sums[i] += lab__fused_row_of_slopes(b, i);
}

static void add_head(bias_piece *piece, int64_t head)
{
    const int64_t block = piece->job->block;
    for (int64_t first = piece->first_query; first < piece->stop_query; first += block) {
        const int64_t left = piece->stop_query - first;
        lab__fused_block_begin(&piece->block, head, first, left < block ? left : block);
        if (!piece->job->key_axis)
            add_rows(piece);
        const uint32_t mode = lab__flush_begin();
        for (int64_t tile = piece->first_key; piece->job->key_axis && tile < piece->stop_key; tile += KEYS)
            add_tile(piece, tile);
        lab__flush_end(mode);
    }
}

static void write_sum(const bias_piece *piece, int64_t query, int64_t key, double sum)
{
    const bias_job *job = piece->job;
    const lab_place *place = &job->call->places[IN_BIAS];
    const lab_tensor *t = place->tensor;
    const int64_t own[3] = {piece->head, job->query_axis ? query : 0, job->key_axis ? key : 0};
    int64_t at = 0, index = piece->batch;
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        const int from_end = t->rank - axis;
        at += (from_end <= 3 ? own[3 - from_end] : index % t->shape[axis]) * t->strides[axis];
        if (from_end > 3)
            index /= t->shape[axis];
    }
    lab__number_set(job->p->type, t->data, at, place->add ? lab__number_at(job->p->type, t->data, at) + sum : sum);
}

/* Along an axis that the bias does not have, all sums are one. */
static void write_sums(const bias_piece *piece)
{
    const bias_job *job = piece->job;
    const int64_t stride = job->block;
    const int64_t queries = job->query_axis ? piece->stop_query - piece->first_query : 1;
    const int64_t keys = job->key_axis ? piece->stop_key - piece->first_key : 1;
    for (int64_t j = 0; j < keys; j++)
        for (int64_t i = 0; i < queries; i++) {
            double sum = 0;
            for (int64_t a = j; a < (job->key_axis ? j + 1 : KEYS); a++)
                for (int64_t b = i; b < (job->query_axis ? i + 1 : stride); b++)
                    sum += piece->sums[a * stride + b];
            write_sum(piece, piece->first_query + i, piece->first_key + j, sum);
        }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void run_piece(void *context, int64_t index, int worker)
{
    const bias_job *job = context;
    const fused_problem *p = job->p;
    char *memory = job->memory + (size_t)worker * job->memory_each;
    bias_piece piece = lay_out(job, &memory);
    const int64_t key_tile = index % job->key_tiles, query_tile = index / job->key_tiles % job->query_tiles;
    index /= job->key_tiles * job->query_tiles;
    piece.head = index % job->heads;
    piece.batch = index / job->heads;
    piece.first_query = job->query_axis ? query_tile * job->block : 0;
    piece.stop_query = job->query_axis ? least(piece.first_query + job->block, p->tq) : p->tq;
    piece.first_key = job->key_axis ? key_tile * KEYS : 0;
    piece.stop_key = job->key_axis ? least(piece.first_key + KEYS, p->tk) : p->tk;
    piece.block.out = job->call->out;
    piece.block.grad_out = job->call->grad_out;
    piece.block.sums = job->row_sums;
    memset(piece.sums, 0, (size_t)(KEYS * job->block) * sizeof(double));
    for (int64_t b = 0; b < p->batch; b++) {
        if (own_batch(job, b) != piece.batch)
            continue;
        piece.block.sequence = lab__fused_sequence(p, b);
        for (int64_t h = job->heads > 1 ? piece.head : 0; h < (job->heads > 1 ? piece.head + 1 : p->heads); h++)
            add_head(&piece, h);
    }
    write_sums(&piece);
}

void lab__fused_bias_backward(const lab_vjp_call *call, const fused_problem *p, const fused_number *row_sums,
                              char *scratch)
{
    bias_job job = make_job(call, p);
    char *end = NULL;
    job.row_sums = row_sums;
    if (call->in[IN_BIAS]->numel == 0) /* of no queries, keys or batches: an axis of 0 is not one to sum along */
        return;
    lay_out(&job, &end);
    job.memory = scratch;
    job.memory_each = (size_t)end;
    lab__parallel_run_within(p->attrs->workers, job.batches * job.heads * job.query_tiles * job.key_tiles, run_piece,
                             &job);
}
