/* attention_fused_backward.c - the gradients, in one pass over tiles of queries and keys:
 *
 *     dv_j += p_ij dO_i    dk_j += ds_ij scale q_i    dq_i += scale ds_ij k_j
 *
 * with p and ds from attention_fused_slopes.c. Source: Dao et al. 2022, algorithm 4.
 *
 * A piece of work is one key head of one batch with the query heads that share it, in fixed order, or a range of that
 * head's keys where there are few heads and many keys: the piece owns these keys' dk and dv, and has dq in a place of
 * its own, which are added in order afterwards. So nothing depends on who does what.
 */
#include "attention_fused.h"

#include <string.h>

enum {
    STRIP = 12,    /* keys whose products leave out queries that do not see them */
    FEW_UNITS = 8, /* fewer heads than these, and keys from MANY_KEYS on, are cut into ranges */
    MANY_KEYS = 4096,
    RANGE_KEYS = 2048,
    MOST_RANGES = 4,
    UNITS_IN_FLIGHT = 2
};

typedef struct backward_job {
    fused_problem p;
    const lab_vjp_call *call;
    int64_t key_tile, block; /* keys and queries of a tile */
    int64_t units, ranges, first_unit;
    int64_t slots;   /* of a head's sums: ranges, or the blocks of float32's own sweep */
    head_sums *sums; /* [batch][heads][slots], in double until all pieces are done */
    char *partial;   /* dq of the ranges: [unit in flight][range][head of the group][tq][d] */
    char *apart[2];  /* dk, dv of workers, [tk][d or dv], where the place's columns are not side by side */
    char *memory;
    size_t memory_each;
    fused_number *row_sums; /* of all rows, where a gradient sums ds over keys: lab__fused_row_sums */
    bool any_queries;       /* dq is wanted, or scale's gradient, which is made of it */
} backward_job;

/* Where rows are added up: numbers side by side, `row` apart. */
typedef struct rows_at {
    char *at;
    int64_t row;
} rows_at;

typedef struct backward_piece {
    const backward_job *job;
    fused_block block;
    int64_t kv_head, unit, range;
    int64_t first_key, stop_key; /* of the range */
    char *dq;                    /* panels [d][width] */
    rows_at dk, dv;              /* of key 0 */
    int worker;
} backward_piece;

/* ---- Sizes and memory -------------------------------------------------------------------------------------------------- */

static int64_t ranges_of(const fused_problem *p)
{
    const int64_t ranges = (p->tk + RANGE_KEYS - 1) / RANGE_KEYS;
    if (p->batch * p->kv_heads >= FEW_UNITS || p->tk < MANY_KEYS)
        return 1;
    return ranges < MOST_RANGES ? ranges : MOST_RANGES;
}

/* Whether a gradient that is one number for many pairs is summed beside the others. In float32 such have a sweep. */
static bool is_summed_here(const backward_job *job, int operand)
{
    return job->call->wants[operand] && job->p.type == KERNEL_F64;
}

static bool has_own_sweep(const backward_job *job)
{
    const bool *wants = job->call->wants;
    return job->p.type == KERNEL_F32 && (wants[IN_SCALE] || wants[IN_SLOPES] || wants[IN_SINK]);
}

static backward_job make_job(const lab_vjp_call *call)
{
    backward_job job = {.p = lab__fused_problem(call->attrs, call->in), .call = call};
    const fused_problem *p = &job.p;
    job.block = p->backward_block;
    job.key_tile = p->backward_tile;
    job.units = p->batch * p->kv_heads;
    job.ranges = ranges_of(p);
    job.slots = job.ranges;
    job.any_queries = call->wants[IN_Q] || is_summed_here(&job, IN_SCALE);
    return job;
}

static backward_piece lay_out(const backward_job *job, char **at)
{
    backward_piece piece = {.job = job, .block = {.stride = job->block}};
    lab__fused_block_memory(&piece.block, &job->p, job->key_tile, at);
    piece.dq = lab__take(at, (size_t)(job->p.d * job->block) * job->p.size);
    return piece;
}

static bool goes_apart(const backward_job *job, int operand)
{
    const lab_tensor *place = job->call->places[operand].tensor;
    return place && place->strides[place->rank - 1] != 1;
}

/* Whether a gradient sums ds over keys, where it cancels. */
static bool sums_over_keys(const backward_job *job)
{
    return job->call->wants[IN_BIAS] || is_summed_here(job, IN_SLOPES) || is_summed_here(job, IN_SCALE);
}

static int64_t row_count(const fused_problem *p)
{
    return p->in[IN_Q]->numel / p->d;
}

/* Everything in the scratch memory, from *at on. */
static void lay_out_job(backward_job *job, char **at)
{
    const fused_problem *p = &job->p;
    const size_t workers = (size_t)p->attrs->workers, keys = (size_t)p->tk * p->size;
    char *end = NULL;
    lay_out(job, &end);
    job->memory_each = (size_t)end;
    if (has_own_sweep(job)) {
        const size_t bytes = lab__fused_numbers_memory(job->call, p, &job->slots);
        job->memory_each = bytes > job->memory_each ? bytes : job->memory_each;
    }
    job->sums = (head_sums *)lab__take(at, (size_t)(p->batch * p->heads * job->slots) * sizeof(head_sums));
    job->memory = lab__take(at, workers * job->memory_each);
    job->apart[0] = lab__take(at, goes_apart(job, IN_K) ? workers * keys * (size_t)p->d : 0);
    job->apart[1] = lab__take(at, goes_apart(job, IN_V) ? workers * keys * (size_t)p->dv : 0);
    const int64_t flight = job->units < UNITS_IN_FLIGHT ? job->units : UNITS_IN_FLIGHT;
    const int64_t rows = flight * job->ranges * p->group * p->tq;
    job->partial = lab__take(at, job->ranges > 1 ? (size_t)(rows * p->d) * p->size : 0);
    job->row_sums =
        (fused_number *)lab__take(at, sums_over_keys(job) ? (size_t)row_count(p) * sizeof(fused_number) : 0);
}

size_t lab__fused_backward_scratch(const lab_vjp_call *call)
{
    backward_job job = make_job(call);
    char *end = NULL;
    lay_out_job(&job, &end);
    return (size_t)end + (call->wants[IN_BIAS] ? lab__fused_bias_scratch(call, &job.p) : 0);
}

/* ---- Places ------------------------------------------------------------------------------------------------------------- */

/* The element of a place for q, k or v at which a sequence's head begins; *row from query to query, or key to key. */
static int64_t place_of(const backward_job *job, const lab_tensor *t, int operand, int64_t index, int64_t head,
                        int64_t *row)
{
    const bool packed = job->p.attrs->packed;
    const int heads = t->rank - (packed ? 2 : 3), time = t->rank - (packed ? 3 : 2);
    const int64_t place = head * t->strides[heads];
    *row = t->strides[time];
    if (packed)
        return place + lab__i64_at(job->p.in[operand == IN_Q ? IN_CU_Q : IN_CU_K], index) * t->strides[0];
    return place + lab__place_of_batch(t, t, index);
}

/* Rows for dk or dv: in the place itself, or the worker's own where that is not dense. Zero where nothing is added to.
 */
static rows_at open_rows(const backward_piece *piece, int operand, int64_t columns)
{
    const backward_job *job = piece->job;
    const size_t size = job->p.size;
    const lab_place *place = &job->call->places[operand];
    const int64_t keys = job->p.attrs->packed ? piece->block.sequence.keys : job->p.tk;
    const int64_t end = piece->range == job->ranges - 1 ? keys : piece->stop_key;
    const bool apart = goes_apart(job, operand);
    rows_at rows = {0};
    if (!place->tensor)
        return rows;
    if (apart) {
        rows.at = job->apart[operand == IN_V] + (size_t)piece->worker * (size_t)(job->p.tk * columns) * size;
        rows.row = columns;
    } else {
        rows.at =
            lab__at(place->tensor, size,
                    place_of(job, place->tensor, operand, piece->block.sequence.index, piece->kv_head, &rows.row));
    }
    for (int64_t j = piece->first_key; j < end && (apart || !place->add); j++)
        memset(rows.at + j * rows.row * (int64_t)size, 0, (size_t)columns * size);
    return rows;
}

static void close_rows(const backward_piece *piece, int operand, rows_at rows, int64_t columns)
{
    const backward_job *job = piece->job;
    const fused_problem *p = &job->p;
    const lab_place *place = &job->call->places[operand];
    if (!place->tensor || !goes_apart(job, operand))
        return;
    const lab_tensor *t = place->tensor;
    const int64_t keys = p->attrs->packed ? piece->block.sequence.keys : p->tk, step = t->strides[t->rank - 1];
    const int64_t end = piece->range == job->ranges - 1 ? keys : piece->stop_key;
    int64_t row, first = place_of(job, t, operand, piece->block.sequence.index, piece->kv_head, &row);
    for (int64_t j = piece->first_key; j < end; j++) {
        char *to = lab__at(t, p->size, first + j * row), *from = rows.at + j * columns * (int64_t)p->size;
        if (place->add)
            p->kernels->binary[p->type][KERNEL_ADD](columns, to, step, to, step, from, 1);
        else
            p->kernels->unary[p->type][KERNEL_COPY](columns, to, step, from, 1, 0);
    }
}

/* ---- A tile -------------------------------------------------------------------------------------------------------------- */

/* The rows of a tile that each half of a panel has. */
typedef struct tile_rows {
    int64_t first[2 * FUSED_PANELS], stop[2 * FUSED_PANELS];
    bool full; /* all have all rows */
} tile_rows;

static char *in_tile(const fused_block *b, char *tile, int64_t row, int64_t column)
{
    return tile + (row * b->stride + column) * (int64_t)b->p->size;
}

static const char *key_at(const fused_block *b, int64_t key)
{
    const fused_sequence *s = &b->sequence;
    return lab__at(b->p->in[IN_K], b->p->size, s->k + b->head / b->p->group * s->k_head + key * s->k_row);
}

/* The derivative of the slope is -sum ds_ij |pos_i - j|, s_ij after the soft cap: its tile goes before the other one.
 */
static void add_to_slope(backward_piece *piece, int index, int64_t key, int64_t n, int64_t row, head_sums *sums)
{
    fused_block *b = &piece->block;
    const fused_problem *p = b->p;
    const fused_panel *panel = &b->panels[index];
    b->before_cap = true;
    const bool any = lab__fused_slopes(b, index, key, n, row, false);
    b->before_cap = false;
    if (!any)
        return;
    p->panel.distances(n, b->extra, panel->first + b->sequence.offset - key);
    for (int64_t j = 0; j < n; j++)
        sums->slope -= p->kernels->row[p->type].dot(panel->rows, in_tile(b, b->slopes, row + j, index * p->width), 1,
                                                    b->extra + j * p->width * (int64_t)p->size, 1);
}

/* dq of a panel, from rows first .. stop of the tile. */
static void add_to_queries(const backward_piece *piece, int index, int64_t tile, int64_t first, int64_t n, bool finite)
{
    const fused_block *b = &piece->block;
    const fused_problem *p = b->p;
    const int64_t column = index * p->width;
    const char *slopes = in_tile(b, b->slopes, first, column), *keys = key_at(b, tile + first);
    char *dq = piece->dq + column * p->d * (int64_t)p->size;
    if (finite)
        lab__fused_by_query(p, &b->scores, first, n, p->d, keys, b->sequence.k_row, slopes, dq);
    else
        lab__fused_add_allowed(p, first, n, p->d, keys, b->sequence.k_row, b->allowed + first * b->stride + column,
                               b->stride, slopes, b->stride, dq);
}

static tile_rows compute_tile(backward_piece *piece, int64_t tile, int64_t n, head_sums *sums)
{
    fused_block *b = &piece->block;
    const fused_problem *p = b->p;
    tile_rows rows = {.full = true};
    int known = -1; /* whether the tile's keys are finite; asked only where a pair may be forbidden */
    for (int i = 0; i < b->count; i++) {
        int64_t first = b->panels[i].lowest / 4 * 4 - tile, stop = b->panels[i].end - tile;
        first = first < 0 ? 0 : first;
        stop = stop > n ? n : stop;
        if (first < stop && is_summed_here(piece->job, IN_SLOPES))
            add_to_slope(piece, i, tile + first, stop - first, first, sums);
        bool finite = first >= stop || lab__fused_all_meet(p, &b->panels[i], tile + first, stop - first);
        if (!finite && known < 0)
            known = p->panel.finite(n, p->d, key_at(b, tile), b->sequence.k_row);
        finite = finite || known;
        if (first >= stop || !lab__fused_slopes(b, i, tile + first, stop - first, first, !finite || !b->finite))
            first = stop = 0;
        rows.first[2 * i] = first;
        rows.stop[2 * i] = first < stop ? first + b->scores.both_stop : stop;
        rows.first[2 * i + 1] = first < stop ? first + b->scores.both_first : first;
        rows.stop[2 * i + 1] = stop;
        rows.full = rows.full && first == 0 && stop == n;
        if (first < stop && piece->job->any_queries)
            add_to_queries(piece, i, tile, first, stop - first, finite);
    }
    return rows;
}

/* Zeros in rows that a panel does not have, and products of whole strips read all the same: in strips that it has a
 * part of, or everywhere where a mask took it out. */
static void clear_rest(const fused_block *b, const tile_rows *rows, int64_t n)
{
    const size_t bytes = (size_t)b->p->width * b->p->size;
    for (int i = 0; i < b->count; i++) {
        const int64_t first = rows->first[2 * i], stop = rows->stop[2 * i + 1];
        const int64_t from = first / STRIP * STRIP, end = (stop + STRIP - 1) / STRIP * STRIP;
        const bool none = first >= stop;
        for (int64_t j = none ? 0 : from; j < (none || end > n ? n : end); j++) {
            if (!none && j == first)
                j = stop;
            if (j >= n)
                break;
            memset(in_tile(b, b->probabilities, j, i * b->p->width), 0, bytes);
            memset(in_tile(b, b->slopes, j, i * b->p->width), 0, bytes);
            memset(b->allowed + j * b->stride + i * b->p->width, 0, (size_t)b->p->width);
        }
    }
}

/* dv and dk of keys `row` .. row + n - 1 of the tile, from queries first .. stop - 1 of the block. */
static void add_to_keys(const backward_piece *piece, int64_t tile, int64_t row, int64_t n, int64_t first, int64_t stop)
{
    const fused_block *b = &piece->block;
    const fused_problem *p = b->p;
    const struct {
        rows_at to;
        char *weights;
        const char *rows;
        int64_t columns;
    } products[] = {{piece->dv, b->probabilities, b->gradients, p->dv}, {piece->dk, b->slopes, b->queries, p->d}};
    for (int i = 0; i < 2; i++) {
        const int64_t columns = products[i].columns, step = products[i].to.row, size = (int64_t)p->size;
        char *to = products[i].to.at ? products[i].to.at + (tile + row) * step * size : NULL;
        for (int64_t j = first, end; to && j < stop; j = end) {
            end = lab__fused_sum_end(0, j, stop);
            const char *weights = in_tile(b, products[i].weights, row, j), *x = products[i].rows + j * columns * size;
            if (b->finite)
                p->multiply(n, columns, end - j, weights, b->stride, 1, x, columns, to, step, KERNEL_SUM_ADDED);
            else
                p->panel.add_by_key(n, end - j, columns, to, step, b->allowed + row * b->stride + j, b->stride, weights,
                                    b->stride, x, columns);
        }
    }
}

/* Which queries of the block see some key of the strip from `row` on, in halves of panels. */
static void queries_of_strip(const fused_block *b, const tile_rows *rows, int64_t row, int64_t queries[2])
{
    const int64_t half = b->p->width / 2;
    int first = 2 * b->count, stop = 0;
    for (int i = 0; i < 2 * b->count; i++)
        if (rows->first[i] < rows->stop[i] && rows->first[i] < row + STRIP && rows->stop[i] > row) {
            first = i < first ? i : first;
            stop = i + 1;
        }
    queries[0] = first * half;
    queries[1] = stop * half < b->rows ? stop * half : b->rows;
}

static void work_on_tile(backward_piece *piece, int64_t tile, int64_t n, head_sums *sums)
{
    const fused_block *b = &piece->block;
    const tile_rows rows = compute_tile(piece, tile, n, sums);
    if (!piece->dk.at && !piece->dv.at)
        return;
    if (rows.full) {
        add_to_keys(piece, tile, 0, n, 0, b->rows);
        return;
    }
    clear_rest(b, &rows, n);
    int64_t done = 0, before[2] = {0}, queries[2];
    for (int64_t row = 0; row < n + STRIP; row += STRIP) {
        queries_of_strip(b, &rows, row, queries);
        if (row > 0 && (row >= n || queries[0] != before[0] || queries[1] != before[1])) {
            if (before[0] < before[1])
                add_to_keys(piece, tile, done, (row < n ? row : n) - done, before[0], before[1]);
            done = row;
        }
        memcpy(before, queries, sizeof before);
    }
}

/* ---- A block of queries ---------------------------------------------------------------------------------------------------- */

static char *partial_at(const backward_job *job, int64_t unit, int64_t range, int64_t head_of_group, int64_t query)
{
    const fused_problem *p = &job->p;
    const int64_t at = ((unit - job->first_unit) * job->ranges + range) * p->group + head_of_group;
    return job->partial + (size_t)((at * p->tq + query) * p->d) * p->size;
}

/* The derivative of a scale that is a tensor: sum of q_i . sum_j ds_ij k_j. */
static void add_to_scale(const backward_piece *piece, int index, head_sums *sums)
{
    const fused_block *b = &piece->block;
    const fused_problem *p = b->p;
    const lab_tensor *q = p->in[IN_Q];
    const fused_sequence *s = &b->sequence;
    for (int64_t i = 0; i < b->panels[index].rows; i++) {
        const int64_t column = index * p->width + i;
        if (lab__number_at(p->type, b->maxima, column) == -INFINITY)
            continue;
        sums->scale += p->kernels->row[p->type].dot(
            p->d, lab__at(q, p->size, s->q + b->head * s->q_head + (b->first + column) * s->q_row),
            q->strides[q->rank - 1], piece->dq + (index * p->width * p->d + i) * (int64_t)p->size, p->width);
    }
}

static void write_queries(const backward_piece *piece, int index)
{
    const fused_block *b = &piece->block;
    const fused_problem *p = b->p;
    const backward_job *job = piece->job;
    const lab_place *place = &job->call->places[IN_Q];
    const fused_panel *panel = &b->panels[index];
    const char *dq = piece->dq + index * p->width * p->d * (int64_t)p->size;
    for (int64_t i = 0; i < p->width; i++)
        lab__number_set(p->type, b->extra, i,
                        lab__number_at(p->type, b->maxima, index * p->width + i) == -INFINITY ? 0 : p->scale);
    if (job->ranges > 1) {
        p->panel.unpack(panel->rows, p->d, partial_at(job, piece->unit, piece->range, b->head % p->group, panel->first),
                        p->d, 1, dq, p->width, b->extra, false);
        return;
    }
    int64_t row, first = place_of(job, place->tensor, IN_Q, b->sequence.index, b->head, &row);
    p->panel.unpack(panel->rows, p->d, lab__at(place->tensor, p->size, first + panel->first * row), row,
                    place->tensor->strides[place->tensor->rank - 1], dq, p->width, b->extra, place->add);
}

/* The derivative of the sink: -sum e^(sink - m_i) / l_i delta_i, in a row without keys of 1 times it. */
static void add_to_sink(const backward_piece *piece, head_sums *sums)
{
    const fused_block *b = &piece->block;
    for (int64_t i = 0; i < b->rows; i++) {
        const double weight = lab__fused_sink_weight(b, i);
        sums->sink -= weight == 0 ? 0 : weight * lab__fused_delta(b, b->first + i).high;
    }
}

static void work_on_block(backward_piece *piece, int64_t head, int64_t first, head_sums *sums)
{
    fused_block *b = &piece->block;
    const backward_job *job = piece->job;
    const fused_problem *p = b->p;
    const int64_t left = b->sequence.tq - first;
    lab__fused_block_begin(b, head, first, left < job->block ? left : job->block);
    if (piece->range == 0 && is_summed_here(job, IN_SINK))
        add_to_sink(piece, sums);
    int64_t lowest = piece->stop_key, end = piece->first_key;
    for (int i = 0; i < b->count; i++) {
        lowest = b->panels[i].lowest < lowest ? b->panels[i].lowest : lowest;
        end = b->panels[i].end > end ? b->panels[i].end : end;
    }
    lowest = lowest / job->key_tile * job->key_tile;
    memset(piece->dq, 0, (size_t)(p->d * b->count * p->width) * p->size);
    const uint32_t mode = lab__flush_begin();
    for (int64_t tile = lowest > piece->first_key ? lowest : piece->first_key; tile < end && tile < piece->stop_key;
         tile += job->key_tile) {
        const int64_t stop = piece->stop_key - tile;
        work_on_tile(piece, tile, stop < job->key_tile ? stop : job->key_tile, sums);
    }
    lab__flush_end(mode);
    for (int i = 0; i < b->count; i++) {
        if (is_summed_here(job, IN_SCALE))
            add_to_scale(piece, i, sums);
        if (job->call->places[IN_Q].tensor)
            write_queries(piece, i);
    }
}

/* ---- All of it ------------------------------------------------------------------------------------------------------------- */

static void run_piece(void *context, int64_t index, int worker)
{
    const backward_job *job = context;
    const fused_problem *p = &job->p;
    char *memory = job->memory + (size_t)worker * job->memory_each;
    backward_piece piece = lay_out(job, &memory);
    fused_block *b = &piece.block;
    piece.worker = worker;
    piece.unit = job->first_unit + index / job->ranges;
    piece.range = index % job->ranges;
    piece.kv_head = piece.unit % p->kv_heads;
    b->out = job->call->out;
    b->grad_out = job->call->grad_out;
    b->sums = job->row_sums;
    b->sequence = lab__fused_sequence(p, piece.unit / p->kv_heads);
    const int64_t keys = b->sequence.keys, tiles = (keys + job->key_tile - 1) / job->key_tile;
    const int64_t each = (tiles + job->ranges - 1) / job->ranges * job->key_tile;
    piece.first_key = piece.range * each < keys ? piece.range * each : keys;
    piece.stop_key = piece.first_key + each < keys ? piece.first_key + each : keys;
    piece.dk = open_rows(&piece, IN_K, p->d);
    piece.dv = open_rows(&piece, IN_V, p->dv);
    for (int64_t h = piece.kv_head * p->group; h < (piece.kv_head + 1) * p->group; h++) {
        head_sums sums = {0};
        for (int64_t i = 0; i < b->sequence.tq; i += job->block)
            work_on_block(&piece, h, i, &sums);
        if (!has_own_sweep(job))
            job->sums[(b->sequence.index * p->heads + h) * job->ranges + piece.range] = sums;
    }
    close_rows(&piece, IN_K, piece.dk, p->d);
    close_rows(&piece, IN_V, piece.dv, p->dv);
}

/* The row sums of one block of queries; blocks are counted as if every sequence had tq queries. */
static void run_row_sums(void *context, int64_t index, int worker)
{
    const backward_job *job = context;
    const fused_problem *p = &job->p;
    const int64_t blocks = (p->tq + job->block - 1) / job->block, first = index % blocks * job->block;
    char *memory = job->memory + (size_t)worker * job->memory_each;
    backward_piece piece = lay_out(job, &memory);
    fused_block *b = &piece.block;
    b->out = job->call->out;
    b->grad_out = job->call->grad_out;
    b->without_deltas = true;
    b->sequence = lab__fused_sequence(p, index / blocks / p->heads);
    if (first >= b->sequence.tq)
        return;
    const int64_t left = b->sequence.tq - first;
    lab__fused_block_begin(b, index / blocks % p->heads, first, left < job->block ? left : job->block);
    const uint32_t mode = lab__flush_begin();
    lab__fused_row_sums(b, job->row_sums);
    lab__flush_end(mode);
}

/* One head's dq from its ranges, in their order. */
static void join_ranges(void *context, int64_t index, int worker)
{
    (void)worker;
    const backward_job *job = context;
    const fused_problem *p = &job->p;
    const lab_place *place = &job->call->places[IN_Q];
    const int64_t unit = job->first_unit + index / p->group, of_group = index % p->group, batch = unit / p->kv_heads;
    const int64_t step = place->tensor->strides[place->tensor->rank - 1];
    const fused_sequence s = lab__fused_sequence(p, batch);
    kernel_binary_fn add = p->kernels->binary[p->type][KERNEL_ADD];
    int64_t row, first = place_of(job, place->tensor, IN_Q, batch, unit % p->kv_heads * p->group + of_group, &row);
    for (int64_t i = 0; i < s.tq; i++) {
        char *to = lab__at(place->tensor, p->size, first + i * row), *sum = partial_at(job, unit, 0, of_group, i);
        for (int64_t r = 1; r < job->ranges; r++)
            add(p->d, sum, 1, sum, 1, partial_at(job, unit, r, of_group, i), 1);
        if (place->add)
            add(p->d, to, step, to, step, sum, 1);
        else
            p->kernels->unary[p->type][KERNEL_COPY](p->d, to, step, sum, 1, 0);
    }
}

static void write_number(const backward_job *job, int operand, int64_t index, double value)
{
    const lab_place *place = &job->call->places[operand];
    const lab_tensor *t = place->tensor;
    const int64_t at = t->rank == 1 ? index * t->strides[0] : 0;
    lab__number_set(job->p.type, t->data, at, place->add ? lab__number_at(job->p.type, t->data, at) + value : value);
}

static void write_sums(const backward_job *job)
{
    const fused_problem *p = &job->p;
    head_sums all = {0};
    for (int64_t h = 0; h < p->heads; h++) {
        head_sums of_head = {0};
        for (int64_t b = 0; b < p->batch; b++)
            for (int64_t r = 0; r < job->slots; r++) {
                const head_sums *sums = &job->sums[(b * p->heads + h) * job->slots + r];
                of_head.slope += sums->slope;
                of_head.sink += sums->sink;
                all.scale += sums->scale;
            }
        if (job->call->places[IN_SLOPES].tensor)
            write_number(job, IN_SLOPES, h, of_head.slope);
        if (job->call->places[IN_SINK].tensor)
            write_number(job, IN_SINK, h, of_head.sink);
    }
    if (job->call->places[IN_SCALE].tensor)
        write_number(job, IN_SCALE, 0, all.scale);
}

lab_status lab__fused_backward(lab_vjp_call *call)
{
    const fused_attrs *attrs = call->attrs;
    if (attrs->empty_row != LAB_EMPTY_ZERO)
        return lab_graph_fail(call->graph, LAB_ERR_UNSUPPORTED, "empty_row NAN and UNIFORM have no gradients");
    backward_job job = make_job(call);
    char *at = call->scratch;
    lay_out_job(&job, &at);
    const int64_t blocks = (job.p.tq + job.block - 1) / job.block;
    if (sums_over_keys(&job))
        lab__parallel_run_within(attrs->workers, job.p.batch * job.p.heads * blocks, run_row_sums, &job);
    else
        job.row_sums = NULL;
    if (has_own_sweep(&job)) {
        lab__fused_numbers(call, &job.p, job.sums, job.memory, job.memory_each);
        if (!call->wants[IN_Q] && !call->wants[IN_K] && !call->wants[IN_V])
            job.first_unit = job.units;
    }
    const int64_t flight = job.ranges > 1 ? UNITS_IN_FLIGHT : job.units;
    for (; job.first_unit < job.units; job.first_unit += flight) {
        const int64_t left = job.units - job.first_unit, units = left < flight ? left : flight;
        lab__parallel_run_within(attrs->workers, units * job.ranges, run_piece, &job);
        if (job.ranges > 1 && call->places[IN_Q].tensor)
            lab__parallel_run(units * job.p.group, join_ranges, &job);
    }
    write_sums(&job);
    if (call->wants[IN_BIAS])
        lab__fused_bias_backward(call, &job.p, job.row_sums, at);
    return LAB_OK;
}
