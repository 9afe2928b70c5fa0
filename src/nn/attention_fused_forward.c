/* attention_fused_forward.c - one pass over the keys, tile by tile, with a running maximum m and sum l for each query:
 *
 *     m' = max(m, max_j s_j)    r = e^(m - m')    p_j = e^(s_j - m')    l' = r l + sum_j p_j    o' = r o + sum_j p_j
 * v_j
 *
 * and at the end o / l. A sink joins m and l there. Source: Milakov and Gimelshein 2018; Dao et al. 2022, algorithm 1.
 *
 * A piece of work is a block of queries of one head. Its panels take turns on each tile of keys, which stays in cache.
 */
#include "attention_fused.h"

#include <string.h>

/* A worker's memory. */
typedef struct forward_memory {
    char *queries; /* panels [d][width], scaled */
    char *outputs; /* panels [dv][width] */
    char *maxima;  /* [panels][width] */
    double *sums;  /* the same */
    char *rescale; /* [width] */
    char *factors; /* [key_tile][width], dropout's */
    uint8_t *allowed;
    fused_scores scores;
} forward_memory;

typedef struct forward_job {
    fused_problem p;
    lab_tensor *const *out;
    int64_t *blocks_before; /* of the sequences before each */
    stats_row *stats;       /* of all rows, in lse's order; NULL if not wanted */
    char *memory;
    size_t memory_each;
} forward_job;

enum { AHEADS = 4 };

/* A block of queries being worked on. */
typedef struct forward_block {
    const fused_problem *p;
    const forward_job *job;
    forward_memory memory;
    fused_sequence sequence;
    fused_panel panels[FUSED_PANELS];
    bool begun[FUSED_PANELS];
    int count;
    int64_t key;                    /* of the tile */
    int values_finite;              /* of the tile: -1 not known yet */
    kernel_rows rows_ahead[AHEADS]; /* what is read or written when the tile is done */
    kernel_ahead ahead;
    int64_t all_ahead;
} forward_block;

/* ---- Memory ---------------------------------------------------------------------------------------------------------- */

static forward_memory lay_out(const fused_problem *p, char **at)
{
    const size_t row = (size_t)p->width * p->size, tile = (size_t)p->key_tile * row;
    return (forward_memory){
        .queries = lab__take(at, FUSED_PANELS * (size_t)p->d * row),
        .outputs = lab__take(at, FUSED_PANELS * (size_t)p->dv * row),
        .maxima = lab__take(at, FUSED_PANELS * row),
        .sums = (double *)lab__take(at, FUSED_PANELS * (size_t)p->width * sizeof(double)),
        .rescale = lab__take(at, row),
        .factors = lab__take(at, p->attrs->dropout > 0 ? tile : 0),
        .allowed = (uint8_t *)lab__take(at, (size_t)(p->key_tile * p->width)),
        .scores = {.scores = lab__take(at, tile),
                   .stride = p->width,
                   .extra = lab__take(at, tile),
                   .largest = lab__take(at, row),
                   .least = lab__take(at, row),
                   .sum = lab__take(at, (size_t)p->dv * row)},
    };
}

static size_t memory_each(const fused_problem *p)
{
    char *end = NULL;
    lay_out(p, &end);
    return (size_t)end;
}

static size_t table_bytes(const fused_problem *p)
{
    return lab__fused_round((size_t)(p->batch + 1) * sizeof(int64_t));
}

static int64_t row_count(const fused_problem *p)
{
    const lab_tensor *q = p->in[IN_Q];
    return q->numel / p->d;
}

static size_t stats_bytes(const fused_problem *p)
{
    return p->attrs->stats ? lab__fused_round((size_t)row_count(p) * sizeof(stats_row)) : 0;
}

size_t lab__fused_forward_scratch(const lab_op_call *call)
{
    const fused_problem p = lab__fused_problem(call->attrs, call->in);
    if (lab__fused_is_one_query(&p))
        return lab__fused_one_query_scratch(&p);
    return table_bytes(&p) + stats_bytes(&p) + (size_t)p.attrs->workers * memory_each(&p);
}

/* ---- One tile -------------------------------------------------------------------------------------------------------- */

static char *of_panel(const forward_block *b, char *panels, int panel, int64_t rows)
{
    return panels + (size_t)panel * (size_t)(rows * b->p->width) * b->p->size;
}

static const char *values_at(const forward_block *b, int64_t key)
{
    const fused_sequence *s = &b->sequence;
    return lab__at(b->p->in[IN_V], b->p->size, s->v + b->panels[0].head / b->p->group * s->v_head + key * s->v_row);
}

/* 0 times infinity is NaN: values that some query must not see have to be finite to go into a product. Those are the
 * keys at the limits' edges; or any, where scores of -inf forbid some. */
static bool values_are_finite(forward_block *b, int64_t key, int64_t n, bool near)
{
    const fused_problem *p = b->p;
    const kernel_limits *limits = &b->memory.scores.limits;
    const int64_t row = b->sequence.v_row, stop = limits->full_stop;
    if (near)
        return p->panel.finite(limits->full_first, p->dv, values_at(b, key), row) &&
               p->panel.finite(n - stop, p->dv, values_at(b, key + stop), row);
    if (b->values_finite < 0) {
        const int64_t left = b->sequence.keys - b->key;
        b->values_finite = p->panel.finite(left < p->key_tile ? left : p->key_tile, p->dv, values_at(b, b->key), row);
    }
    return b->values_finite;
}

static void add_stats(const forward_block *b, const fused_panel *panel, int64_t n)
{
    const fused_sequence *s = &b->sequence;
    const fused_scores *scores = &b->memory.scores;
    for (int64_t i = 0; i < panel->rows; i++) {
        stats_row *row = b->job->stats + s->rows + panel->head * s->row_head + (panel->first + i) * s->row_step;
        for (int64_t j = 0; j < n; j++)
            if (!scores->limits.first || (scores->first[i] <= j && j < scores->stop[i]))
                lab__stats_row_add(row, lab__number_at(b->p->type, scores->scores, j * scores->stride + i));
    }
}

static bool any_moved(const fused_problem *p, const char *rescale)
{
    for (int64_t i = 0; i < p->width; i++)
        if (lab__number_at(p->type, rescale, i) != 1)
            return true;
    return false;
}

static kernel_rows rows_of(const fused_problem *p, const lab_tensor *t, int64_t head_at, int64_t row, int64_t first,
                           int64_t count, int64_t columns)
{
    const int64_t size = (int64_t)p->size;
    return (kernel_rows){lab__at(t, p->size, head_at + first * row), count, row * size, columns * size};
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What is read and written when this tile is done: the next one's keys and values; at the end of a block its results,
 * the queries of the next one, which comes before it or is the next head's last, and the keys and values of that one's
 * first tile if they are others. */
static void look_ahead(forward_block *b, int64_t end)
{
    const fused_problem *p = b->p;
    const fused_sequence *s = &b->sequence;
    const fused_panel *panel = &b->panels[0];
    int64_t head = panel->head, next = b->key + p->key_tile, queries = panel->first - p->query_block;
    kernel_rows *rows = b->rows_ahead;
    if (next >= end) {
        *rows++ = rows_of(p, b->job->out[OUT_RESULT], s->out + head * s->out_head, s->out_row, panel->first,
                          least(s->tq - panel->first, p->query_block), p->dv);
        if (queries < 0) {
            queries = (s->tq - 1) / p->query_block * p->query_block;
            head++;
        }
        if (head < p->heads) {
            *rows++ = rows_of(p, p->in[IN_Q], s->q + head * s->q_head, s->q_row, queries,
                              least(s->tq - queries, p->query_block), p->d);
            lab__fused_keys_of(p, s, queries, &next, &end);
            next = next / p->key_tile * p->key_tile;
            end = s->keys;
        }
    }
    if (next < end && (head != panel->head || rows == b->rows_ahead)) {
        const int64_t n = least(end - next, p->key_tile);
        *rows++ = rows_of(p, p->in[IN_K], s->k + head / p->group * s->k_head, s->k_row, next, n, p->d);
        *rows++ = rows_of(p, p->in[IN_V], s->v + head / p->group * s->v_head, s->v_row, next, n, p->dv);
    }
    b->ahead = (kernel_ahead){.rows = b->rows_ahead};
    b->all_ahead = 0;
    for (const kernel_rows *r = b->rows_ahead; r < rows; r++)
        b->all_ahead += r->count;
}

/* A panel's part of it, and what those before it did not ask for. */
static kernel_ahead *part_ahead(forward_block *b, int index)
{
    int64_t before = 0;
    for (const kernel_rows *r = b->rows_ahead; r < b->ahead.rows; r++)
        before += r->count;
    b->ahead.stop = b->all_ahead * (index + 1) / b->count - before;
    return &b->ahead;
}

/* A panel and keys `key` .. key + n - 1 of the tile. */
static void attend(forward_block *b, int index, int64_t key, int64_t n)
{
    const fused_problem *p = b->p;
    const forward_memory *m = &b->memory;
    fused_scores *s = &b->memory.scores;
    const fused_panel *panel = &b->panels[index];
    char *maxima = of_panel(b, m->maxima, index, 1), *outputs = of_panel(b, m->outputs, index, p->dv);
    s->ahead = part_ahead(b, index);
    if (!lab__fused_scores(p, panel, key, n, of_panel(b, m->queries, index, p->d), p->width, s))
        return;
    if (b->job->stats)
        add_stats(b, panel, n);
    const bool near = p->panel.maximum(n, s->scores, s->stride, &s->limits, s->ranged ? s->largest : NULL, s->least,
                                       maxima, m->rescale);
    const bool selected = !values_are_finite(b, key, n, near);
    if (selected)
        p->panel.allowed(n, s->scores, s->stride, &s->limits, m->allowed, p->width);
    p->panel.exponentials(n, s->scores, s->stride, &s->limits, maxima, m->rescale, m->sums + index * p->width, near);
    if (p->attrs->dropout > 0) {
        lab__fused_dropout(p, panel, key, n, m->factors);
        lab__fused_rows(p, KERNEL_MUL, n, s->scores, s->stride, m->factors);
    }
    if (b->begun[index] && any_moved(p, m->rescale))
        p->panel.multiply(p->dv, outputs, p->width, m->rescale);
    if (selected)
        lab__fused_add_allowed(p, key - b->key, n, p->dv, values_at(b, key), b->sequence.v_row, m->allowed, p->width,
                               s->scores, s->stride, outputs);
    else
        lab__fused_by_query(p, s, key - b->key, n, p->dv, values_at(b, key), b->sequence.v_row, s->scores, outputs);
    b->begun[index] = true;
}

/* ---- Beginning and end of a block ------------------------------------------------------------------------------------ */

static void begin(forward_block *b, int64_t head, int64_t first)
{
    const fused_problem *p = b->p;
    const fused_sequence *s = &b->sequence;
    int64_t end = first + p->query_block < s->tq ? first + p->query_block : s->tq;
    for (; first < end; first += p->width, b->count++) {
        fused_panel *panel = &b->panels[b->count];
        *panel = lab__fused_panel(p, s, head, first, end);
        const char *queries = lab__at(p->in[IN_Q], p->size, s->q + head * s->q_head + first * s->q_row);
        p->panel.pack(panel->rows, p->d, of_panel(b, b->memory.queries, b->count, p->d), p->width, queries, s->q_row,
                      p->in[IN_Q]->strides[p->in[IN_Q]->rank - 1], p->scale);
        for (int64_t i = 0; i < p->width; i++) {
            lab__number_set(p->type, of_panel(b, b->memory.maxima, b->count, 1), i, -INFINITY);
            b->memory.sums[b->count * p->width + i] = 0;
        }
        memset(of_panel(b, b->memory.outputs, b->count, p->dv), 0, (size_t)(p->dv * p->width) * p->size);
        b->begun[b->count] = false;
    }
}

static void finish(forward_block *b, int index)
{
    const fused_problem *p = b->p;
    const fused_panel *panel = &b->panels[index];
    const fused_sequence *s = &b->sequence;
    char *maxima = of_panel(b, b->memory.maxima, index, 1), *outputs = of_panel(b, b->memory.outputs, index, p->dv);
    char *out =
        lab__at(b->job->out[OUT_RESULT], p->size, s->out + panel->head * s->out_head + panel->first * s->out_row);
    uint64_t empty = 0;
    for (int64_t i = 0; i < p->width; i++) {
        double maximum = lab__number_at(p->type, maxima, i), sum = b->memory.sums[index * p->width + i];
        const bool none = sum == 0; /* no keys, whatever the sink */
        empty |= (uint64_t)none << i;
        lab__number_set(p->type, b->memory.rescale, i, lab__fused_join_sink(p, panel->head, &maximum, &sum));
        if (p->attrs->rows && i < panel->rows)
            lab__fused_save_row(p, b->job->out, s, panel->head, panel->first + i, none ? -INFINITY : maximum, maximum,
                                sum);
    }
    p->panel.unpack(panel->rows, p->dv, out, s->out_row, 1, outputs, p->width, b->memory.rescale, false);
    for (int64_t i = 0; i < panel->rows && p->attrs->empty_row != LAB_EMPTY_ZERO && empty; i++)
        if (empty >> i & 1)
            lab__fused_fill_empty(p, s, panel->head, out + i * s->out_row * (int64_t)p->size);
}

/* ---- All of it ------------------------------------------------------------------------------------------------------- */

static void attend_block(forward_block *b)
{
    const fused_problem *p = b->p;
    int64_t lowest = INT64_MAX, end = 0;
    for (int i = 0; i < b->count; i++) {
        lowest = b->panels[i].lowest < lowest ? b->panels[i].lowest : lowest;
        end = b->panels[i].end > end ? b->panels[i].end : end;
    }
    const uint32_t mode = lab__flush_begin();
    for (b->key = lowest / p->key_tile * p->key_tile; b->key < end; b->key += p->key_tile) {
        b->values_finite = -1;
        look_ahead(b, end);
        for (int i = 0; i < b->count; i++) {
            /* A panel's own keys in the tile; a piece of a row begins at a multiple of 4. */
            int64_t first = b->panels[i].lowest / 4 * 4, stop = b->panels[i].end;
            first = first > b->key ? first : b->key;
            stop = stop < b->key + p->key_tile ? stop : b->key + p->key_tile;
            if (first < stop)
                attend(b, i, first, stop - first);
        }
    }
    lab__flush_end(mode);
    for (int i = 0; i < b->count; i++)
        finish(b, i);
}

/* Blocks of a head go from the last one, which has most keys where the mask is causal. */
static void run_piece(void *context, int64_t piece, int worker)
{
    const forward_job *job = context;
    const fused_problem *p = &job->p;
    forward_block b = {.p = p, .job = job};
    char *memory = job->memory + (size_t)worker * job->memory_each;
    b.memory = lay_out(p, &memory);
    int64_t low = 0, high = p->batch; /* blocks_before[low] * heads <= piece < blocks_before[high] * heads */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (job->blocks_before[middle] * p->heads <= piece)
            low = middle;
        else
            high = middle;
    }
    const int64_t blocks = job->blocks_before[low + 1] - job->blocks_before[low];
    const int64_t within = piece - job->blocks_before[low] * p->heads;
    b.sequence = lab__fused_sequence(p, low);
    begin(&b, within / blocks, (blocks - 1 - within % blocks) * p->query_block);
    attend_block(&b);
}

static void gather_stats(const forward_job *job)
{
    const fused_problem *p = &job->p;
    for (int64_t b = 0; b < p->batch; b++) {
        const fused_sequence s = lab__fused_sequence(p, b);
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t i = 0; i < s.tq; i++)
                lab__stats_row_end(&p->attrs->stats[h], &job->stats[s.rows + h * s.row_head + i * s.row_step]);
    }
}

lab_status lab__fused_forward(lab_op_call *call)
{
    forward_job job = {.p = lab__fused_problem(call->attrs, call->in), .out = call->out};
    const fused_problem *p = &job.p;
    char *at = call->scratch;
    if (lab__fused_is_one_query(p)) {
        lab__fused_one_query(p, call->out, call->scratch);
        return LAB_OK;
    }
    job.blocks_before = (int64_t *)lab__take(&at, table_bytes(p));
    job.stats = p->attrs->stats ? (stats_row *)lab__take(&at, stats_bytes(p)) : NULL;
    job.memory = at;
    job.memory_each = memory_each(p);
    job.blocks_before[0] = 0;
    for (int64_t b = 0; b < p->batch; b++)
        job.blocks_before[b + 1] =
            job.blocks_before[b] + (lab__fused_sequence(p, b).tq + p->query_block - 1) / p->query_block;
    for (int64_t i = 0; job.stats && i < row_count(p); i++)
        lab__stats_row_begin(&job.stats[i]);
    lab__parallel_run_within(p->attrs->workers, job.blocks_before[p->batch] * p->heads, run_piece, &job);
    if (job.stats)
        gather_stats(&job);
    return LAB_OK;
}
