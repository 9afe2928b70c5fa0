/* attention_fused_numbers.c - gradients that are one number for many pairs, of float32's scale, slopes and sink:
 *
 *     dscale = sum_ij ds_ij (1 - tanh^2) q_i . k_j    dslope = -sum_ij ds_ij |pos_i - j|    dsink = -sum_i p_i delta_i
 *
 * with p_i the sink's probability. Such sums cancel, and what the rounding of pairs to float32 leaves of them is more
 * than their last place. So they have a sweep of their own, in which operands become float64 a tile at a time. It has
 * digits enough to take the sums apart, and one pass over the keys gives all, with a running maximum as in the forward
 * pass: with y_ij what ds_ij is multiplied by, and e_ij = e^(s_ij - m_i),
 *
 *     sum_j ds_ij y_ij = (sum_j e_ij dp_ij y_ij - delta_i sum_j e_ij y_ij) / l_i
 *     delta_i = sum_j e_ij dp_ij / l_i - g_i
 */
#include "attention_fused.h"

#include <string.h>

enum { KEYS = 96 };

/* A row's sums over keys, of e times these. */
enum { OF_ONE, OF_DP, OF_PRODUCT, OF_DP_PRODUCT, OF_DISTANCE, OF_DP_DISTANCE, SUMS };

typedef struct numbers_job {
    const lab_vjp_call *call;
    const fused_problem *narrow; /* float32, as operands and results are */
    fused_problem p;             /* the same in float64 */
    int64_t block, blocks;       /* queries of a piece; pieces of a head */
    head_sums *sums;             /* [batch][heads][blocks] */
    char *memory;
    size_t memory_each;
} numbers_job;

typedef struct numbers_piece {
    const numbers_job *job;
    fused_block rows; /* to find the rows of q and of the gradients; its numbers are not looked at */
    fused_panel panels[FUSED_PANELS];
    int count;
    double *queries, *gradients; /* panels [d][width], [dv][width] */
    double *sums;                /* [panels][SUMS][width] */
    double *maxima;              /* [panels][width] */
    double *keys, *values;       /* a tile, [KEYS][d], [KEYS][dv] */
    double *rescale;             /* [width] */
    double *dp, *products;       /* [KEYS][width] */
    double *factors;             /* the same: dropout's */
    fused_scores scores;
} numbers_piece;

/* ---- Sizes and memory -------------------------------------------------------------------------------------------------- */

static numbers_job make_job(const lab_vjp_call *call, const fused_problem *narrow)
{
    numbers_job job = {.call = call, .narrow = narrow, .p = *narrow};
    job.p.type = KERNEL_F64;
    job.p.size = sizeof(double);
    job.p.panel = job.p.kernels->panel[KERNEL_F64];
    job.p.multiply = job.p.kernels->tile[KERNEL_F64];
    job.p.width = job.p.panel.width;
    job.block = FUSED_PANELS * job.p.width;
    job.blocks = (narrow->tq + job.block - 1) / job.block;
    return job;
}

static double *take(char **at, int64_t rows, int64_t columns)
{
    return (double *)lab__take(at, (size_t)(rows * columns) * sizeof(double));
}

static void lay_out(numbers_piece *piece, char **at)
{
    const fused_problem *p = &piece->job->p;
    const int64_t width = p->width, block = piece->job->block;
    piece->queries = take(at, p->d, block);
    piece->gradients = take(at, p->dv, block);
    piece->sums = take(at, SUMS, block);
    piece->maxima = take(at, 1, block);
    piece->keys = take(at, KEYS, p->d);
    piece->values = take(at, KEYS, p->dv);
    piece->rescale = take(at, 1, width);
    piece->dp = take(at, KEYS, width);
    piece->products = take(at, KEYS, width);
    piece->factors = take(at, KEYS, width);
    piece->scores.stride = width;
    piece->scores.scores = (char *)take(at, KEYS, width);
    piece->scores.extra = (char *)take(at, KEYS, width);
    piece->scores.raw = (char *)take(at, KEYS, width);
    piece->scores.softened = (char *)take(at, KEYS, width);
}

size_t lab__fused_numbers_memory(const lab_vjp_call *call, const fused_problem *p, int64_t *blocks)
{
    const numbers_job job = make_job(call, p);
    numbers_piece piece = {.job = &job};
    char *end = NULL;
    lay_out(&piece, &end);
    *blocks = job.blocks;
    return (size_t)end;
}

void lab__fused_widen(int64_t rows, int64_t columns, double *to, int64_t to_row, int64_t to_column, const char *from,
                      int64_t row, int64_t column)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < columns; c++)
            to[i * to_row + c * to_column] = (double)((const float *)from)[i * row + c * column];
}

/* ---- A tile -------------------------------------------------------------------------------------------------------------- */

static void read_tile(const numbers_piece *piece, int64_t key, int64_t n)
{
    const fused_problem *p = &piece->job->p;
    const fused_sequence *s = &piece->rows.sequence;
    const int64_t kv_head = piece->rows.head / p->group;
    const char *keys = lab__at(p->in[IN_K], sizeof(float), s->k + kv_head * s->k_head + key * s->k_row);
    const char *values = lab__at(p->in[IN_V], sizeof(float), s->v + kv_head * s->v_head + key * s->v_row);
    lab__fused_widen(n, p->d, piece->keys, p->d, 1, keys, s->k_row, 1);
    lab__fused_widen(n, p->dv, piece->values, p->dv, 1, values, s->v_row, 1);
}

/* to = x y, but 0 where the weight e is, whatever x and y are there; each query's sum of it over its keys to `sum`. */
static void add_up(const numbers_piece *piece, int64_t n, double *to, const double *x, const double *y, double *sum)
{
    const fused_problem *p = &piece->job->p;
    const double *e = (double *)piece->scores.scores, one = 1;
    const int64_t width = p->width, all = n * width;
    double more[FUSED_MAX_WIDTH];
    p->kernels->binary[KERNEL_F64][KERNEL_MUL](all, to, 1, x, 1, y, 1);
    p->multiply(1, width, n, &one, 0, 0, to, width, more, width, KERNEL_SUM_NEW);
    if (!p->panel.finite(1, width, more, width)) {
        for (int64_t i = 0; i < all; i++)
            to[i] = e[i] == 0 ? 0 : to[i];
        p->multiply(1, width, n, &one, 0, 0, to, width, more, width, KERNEL_SUM_NEW);
    }
    for (int64_t i = 0; i < width; i++)
        sum[i] += more[i];
}

/* The sums of e y and e dp y; dp has e in it. */
static void add_with(const numbers_piece *piece, int64_t n, const double *y, double *sums)
{
    add_up(piece, n, piece->products, (double *)piece->scores.scores, y, sums);
    add_up(piece, n, piece->products, piece->dp, y, sums + piece->job->p.width);
}

/* The products times 1 - tanh^2. */
static void soften(const numbers_piece *piece, int64_t n)
{
    const fused_problem *p = &piece->job->p;
    const kernel_binary_fn *binary = p->kernels->binary[KERNEL_F64];
    char *t = piece->scores.softened, *x = piece->scores.raw;
    binary[KERNEL_MUL](n * p->width, t, 1, t, 1, t, 1);
    binary[KERNEL_MUL](n * p->width, t, 1, t, 1, x, 1);
    binary[KERNEL_SUB](n * p->width, x, 1, x, 1, t, 1);
}

static void add_tile(numbers_piece *piece, int index, int64_t tile, int64_t key, int64_t n)
{
    const fused_problem *p = &piece->job->p;
    const lab_vjp_call *call = piece->job->call;
    const fused_panel *panel = &piece->panels[index];
    const int64_t width = p->width;
    double *maxima = piece->maxima + index * width, *sums = piece->sums + index * SUMS * width;
    fused_scores *s = &piece->scores;
    s->keys = (char *)(piece->keys + (key - tile) * p->d);
    if (!lab__fused_scores(p, panel, key, n, (char *)(piece->queries + index * p->d * width), width, s))
        return;
    const bool near = p->panel.maximum(n, s->scores, width, &s->limits, NULL, NULL, maxima, piece->rescale);
    p->panel.exponentials(n, s->scores, width, &s->limits, maxima, piece->rescale, sums, near);
    p->panel.multiply(SUMS - OF_DP, sums + OF_DP * width, width, piece->rescale);
    p->multiply(n, width, call->grad_out[OUT_RESULT] ? p->dv : 0, piece->values + (key - tile) * p->dv, p->dv, 1,
                piece->gradients + index * p->dv * width, width, piece->dp, width, KERNEL_SUM_NEW);
    if (p->attrs->dropout > 0) {
        lab__fused_dropout(p, panel, key, n, (char *)piece->factors);
        lab__fused_rows(p, KERNEL_MUL, n, (char *)piece->dp, width, (char *)piece->factors);
    }
    add_up(piece, n, piece->dp, (double *)s->scores, piece->dp, sums + OF_DP * width);
    if (call->wants[IN_SCALE]) {
        if (p->attrs->softcap > 0)
            soften(piece, n);
        add_with(piece, n, (double *)s->raw, sums + OF_PRODUCT * width);
    }
    if (call->wants[IN_SLOPES]) {
        p->panel.distances(n, s->extra, panel->first + piece->rows.sequence.offset - key);
        add_with(piece, n, (double *)s->extra, sums + OF_DISTANCE * width);
    }
}

/* ---- A block of queries ---------------------------------------------------------------------------------------------------- */

static void begin(numbers_piece *piece, int64_t first, int64_t end)
{
    const fused_problem *p = &piece->job->p;
    const lab_tensor *q = p->in[IN_Q];
    const fused_block *b = &piece->rows;
    const fused_sequence *s = &b->sequence;
    const int64_t width = p->width;
    memset(piece->queries, 0, (size_t)((char *)piece->maxima - (char *)piece->queries));
    for (int64_t i = 0; i < piece->job->block; i++)
        piece->maxima[i] = -INFINITY;
    for (; first < end; first += width, piece->count++) {
        fused_panel *panel = &piece->panels[piece->count];
        *panel = lab__fused_panel(p, s, b->head, first, end);
        for (int64_t i = 0; i < panel->rows; i++) {
            const int64_t query = first + i, at = s->q + b->head * s->q_head + query * s->q_row;
            int64_t column;
            lab__fused_widen(1, p->d, piece->queries + piece->count * p->d * width + i, 0, width,
                             lab__at(q, sizeof(float), at), 0, q->strides[q->rank - 1]);
            if (!b->grad_out[OUT_RESULT])
                continue;
            const char *gradient = lab__fused_gradient_at(b, query, &column);
            lab__fused_widen(1, p->dv, piece->gradients + piece->count * p->dv * width + i, 0, width, gradient, 0,
                             column);
        }
    }
}

/* One row's share. The forward pass, in float32, says whether it has keys, and whether its scores are finite there. */
static void finish_row(const numbers_piece *piece, int index, int64_t i, head_sums *into)
{
    const fused_problem *p = &piece->job->p;
    const fused_block *b = &piece->rows;
    const int64_t query = piece->panels[index].first + i, width = p->width;
    const double *sums = piece->sums + index * SUMS * width + i, g = lab__fused_lse_gradient(b, query);
    const double saved = lab__number_at(KERNEL_F32, b->out[OUT_MAXIMUM]->data, lab__fused_row_of(b, query));
    const bool empty = saved == -INFINITY;
    double m = empty ? saved : piece->maxima[index * width + i], l = empty ? 0 : isfinite(saved) ? sums[OF_ONE] : NAN;
    const double inverse = lab__fused_join_sink(p, b->head, &m, &l);
    const double delta = (empty ? 0 : sums[OF_DP * width] * inverse) - g;
    if (!empty) {
        into->scale += (sums[OF_DP_PRODUCT * width] - delta * sums[OF_PRODUCT * width]) * inverse;
        into->slope -= (sums[OF_DP_DISTANCE * width] - delta * sums[OF_DISTANCE * width]) * inverse;
    }
    const double weight = lab__fused_sink_share(p, b->head, m, 1 / l);
    into->sink -= weight == 0 ? 0 : weight * delta;
}

static void run_piece(void *context, int64_t index, int worker)
{
    const numbers_job *job = context;
    const fused_problem *p = &job->p;
    const int64_t first = index % job->blocks * job->block;
    numbers_piece piece = {.job = job, .rows = {.p = job->narrow, .out = job->call->out}};
    char *memory = job->memory + (size_t)worker * job->memory_each;
    head_sums sums = {0};
    lay_out(&piece, &memory);
    piece.rows.grad_out = job->call->grad_out;
    piece.rows.head = index / job->blocks % p->heads;
    piece.rows.sequence = lab__fused_sequence(p, index / job->blocks / p->heads);
    const int64_t tq = piece.rows.sequence.tq, keys = piece.rows.sequence.keys;
    begin(&piece, first, first + job->block < tq ? first + job->block : tq);
    for (int64_t tile = 0; tile < keys; tile += KEYS) {
        bool read = false;
        for (int i = 0; i < piece.count; i++) {
            int64_t from = piece.panels[i].lowest / 4 * 4, stop = piece.panels[i].end;
            from = from > tile ? from : tile;
            stop = stop < tile + KEYS ? stop : tile + KEYS;
            if (from >= stop)
                continue;
            if (!read)
                read_tile(&piece, tile, keys < tile + KEYS ? keys - tile : KEYS);
            read = true;
            add_tile(&piece, i, tile, from, stop - from);
        }
    }
    for (int i = 0; i < piece.count; i++)
        for (int64_t k = 0; k < piece.panels[i].rows; k++)
            finish_row(&piece, i, k, &sums);
    job->sums[index] = sums;
}

void lab__fused_numbers(const lab_vjp_call *call, const fused_problem *p, head_sums *sums, char *memory,
                        size_t memory_each)
{
    numbers_job job = make_job(call, p);
    job.sums = sums;
    job.memory = memory;
    job.memory_each = memory_each;
    lab__parallel_run_within(p->attrs->workers, p->batch * p->heads * job.blocks, run_piece, &job);
}
