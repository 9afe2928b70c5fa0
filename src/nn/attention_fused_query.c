/* attention_fused_query.c - one query for each head, as in decoding; and what every row of the forward pass ends with.
 *
 * Keys and values are read once, in order, for all query heads that share them; the rest is small. The bits are those
 * that the row has among many (query_tmpl.c).
 */
#include "attention_fused.h"

#include <string.h>

enum { FEW_ROWS = 4 }; /* heads that share keys; fewer are multiplied with the values one by one */

typedef struct query_job {
    const fused_problem *p;
    lab_tensor *const *out;
    char *memory;
    size_t memory_each;
} query_job;

/* A worker's memory: for the query heads that share a key head. */
typedef struct query_memory {
    char *queries; /* [group][d], scaled */
    char *scores;  /* [group][key_tile] */
    char *outputs; /* [group][dv] */
    char *sum;     /* the same, of some keys */
    char *maxima;  /* [group] */
    char *rescale; /* one number */
    double *sums;
} query_memory;

/* ---- How a row ends ---------------------------------------------------------------------------------------------------- */

double lab__fused_join_sink(const fused_problem *p, int64_t head, double *maximum, double *sum)
{
    const lab_tensor *sink = p->in[IN_SINK];
    double factor = 1;
    if (sink) {
        double logit = lab__number_at(p->stored, sink->data, head * sink->strides[0]);
        double most = logit > *maximum || isnan(logit) ? logit : *maximum;
        factor = *maximum == -INFINITY ? 0 : exp(*maximum - most);
        *sum = *sum * factor + (most == -INFINITY ? 0 : exp(logit - most));
        *maximum = most;
    }
    return *sum == 0 ? 0 : factor / *sum;
}

void lab__fused_save_row(const fused_problem *p, lab_tensor *const *out, const fused_sequence *s, int64_t head,
                         int64_t query, double saved, double maximum, double sum)
{
    const int64_t at = s->rows + head * s->row_head + query * s->row_step;
    const double log_sum = log(sum);
    lab__number_set(p->type, out[OUT_MAXIMUM]->data, at, saved);
    lab__number_set(p->type, out[OUT_INVERSE]->data, at, sum == 0 ? 0 : 1 / sum);
    lab__number_set(p->type, out[OUT_LSE]->data, at, maximum == INFINITY ? maximum : maximum + log_sum);
}

void lab__fused_fill_empty(const fused_problem *p, const fused_sequence *s, int64_t head, char *row)
{
    const int64_t keys = p->attrs->packed ? s->keys : p->tk;
    for (int64_t c = 0; c < p->dv; c++) {
        double value = NAN;
        if (p->attrs->empty_row == LAB_EMPTY_UNIFORM) {
            const char *column = lab__at(p->in[IN_V], p->size, s->v + head / p->group * s->v_head + c);
            value = p->kernels->row[p->type].sum(keys, column, s->v_row) / (double)keys;
        }
        lab__number_set(p->type, row, c, value);
    }
}

/* ---- One query ----------------------------------------------------------------------------------------------------------- */

bool lab__fused_is_one_query(const fused_problem *p)
{
    const fused_attrs *a = p->attrs;
    return p->tq == 1 && !a->packed && !p->in[IN_MASK] && !p->in[IN_BIAS] && !p->in[IN_SLOPES] && a->softcap == 0 &&
           a->dropout == 0 && !a->stats;
}

static query_memory lay_out(const fused_problem *p, char **at)
{
    const size_t row = (size_t)p->group * p->size;
    return (query_memory){
        .queries = lab__take(at, row * (size_t)p->d),
        .scores = lab__take(at, row * (size_t)p->key_tile),
        .outputs = lab__take(at, row * (size_t)p->dv),
        .sum = lab__take(at, row * (size_t)p->dv),
        .maxima = lab__take(at, row),
        .rescale = lab__take(at, p->size),
        .sums = (double *)lab__take(at, (size_t)p->group * sizeof(double)),
    };
}

size_t lab__fused_one_query_scratch(const fused_problem *p)
{
    char *end = NULL;
    lay_out(p, &end);
    return (size_t)p->attrs->workers * (size_t)end;
}

/* outputs += weights . values of `rows` rows and n keys of a tile, whose first key's place in it is `key`: one sum
 * after the other, those of a panel. `allowed`, if it is not NULL, says which keys count, with one row: 0 times
 * infinity is NaN. */
static void add_values(const fused_problem *p, const query_memory *m, int64_t rows, int64_t key, int64_t n,
                       const char *weights, const char *values, int64_t v_row, const char *allowed, char *outputs)
{
    const int64_t size = (int64_t)p->size;
    const kernel_query_fns *query = &p->kernels->query[p->type];
    for (int64_t j = 0, end; j < n; j = end) {
        end = lab__fused_sum_end(key, j, n);
        memset(m->sum, 0, (size_t)(rows * p->dv) * p->size);
        if (!allowed)
            query->values(rows, end - j, p->dv, weights + j * size, p->key_tile, values + j * v_row * size, v_row,
                          m->sum, p->dv);
        for (int64_t i = j; allowed && i < end; i++)
            if (allowed[i])
                query->values(1, 1, p->dv, weights + i * size, 1, values + i * v_row * size, v_row, m->sum, p->dv);
        p->kernels->binary[p->type][KERNEL_ADD](rows * p->dv, outputs, 1, outputs, 1, m->sum, 1);
    }
}

/* One row and n keys; what they add to the output, unless the rows are multiplied together. Where a score is -inf its
 * value must not be multiplied if it is not finite. */
static void attend_row(const fused_problem *p, const query_memory *m, int64_t row, int64_t key, int64_t n,
                       const char *values, int64_t v_row, bool together)
{
    const int64_t size = (int64_t)p->size;
    char *scores = m->scores + row * p->key_tile * size, *output = m->outputs + row * p->dv * size;
    char allowed[FUSED_MOST_KEYS];
    const bool selected = !together && !p->panel.finite(1, n, scores, n) && !p->panel.finite(n, p->dv, values, v_row);
    for (int64_t j = 0; selected && j < n; j++)
        allowed[j] = lab__number_at(p->type, scores, j) != -INFINITY;
    p->kernels->query[p->type].softmax(n, key % 4, scores, m->maxima + row * size, m->rescale, &m->sums[row]);
    const double rescale = lab__number_at(p->type, m->rescale, 0);
    p->kernels->unary[p->type][KERNEL_MUL_SCALAR](p->dv, output, 1, output, 1, rescale);
    if (!together)
        add_values(p, m, 1, key % p->key_tile, n, scores, values, v_row, selected ? allowed : NULL, output);
}

static void attend_tile(const fused_problem *p, const query_memory *m, const fused_sequence *s, int64_t kv_head,
                        int64_t key, int64_t n)
{
    const int64_t size = (int64_t)p->size;
    const char *keys = lab__at(p->in[IN_K], p->size, s->k + kv_head * s->k_head + key * s->k_row);
    const char *values = lab__at(p->in[IN_V], p->size, s->v + kv_head * s->v_head + key * s->v_row);
    p->kernels->query[p->type].scores(p->group, n, p->d, m->queries, keys, s->k_row, m->scores, p->key_tile);
    bool together = p->group >= FEW_ROWS;
    for (int64_t i = 0; together && i < p->group; i++)
        together = p->panel.finite(1, n, m->scores + i * p->key_tile * size, n);
    for (int64_t i = 0; i < p->group; i++)
        attend_row(p, m, i, key, n, values, s->v_row, together);
    if (together)
        add_values(p, m, p->group, key % p->key_tile, n, m->scores, values, s->v_row, NULL, m->outputs);
}

static void finish_row(const query_job *job, const query_memory *m, const fused_sequence *s, int64_t head, int64_t row)
{
    const fused_problem *p = job->p;
    const int64_t size = (int64_t)p->size;
    double maximum = lab__number_at(p->type, m->maxima, row), sum = m->sums[row];
    const bool empty = sum == 0;
    const double factor = lab__fused_join_sink(p, head, &maximum, &sum);
    char *out = lab__at(job->out[OUT_RESULT], p->size, s->out + head * s->out_head);
    if (p->attrs->rows)
        lab__fused_save_row(p, job->out, s, head, 0, empty ? -INFINITY : maximum, maximum, sum);
    p->kernels->unary[p->type][KERNEL_MUL_SCALAR](p->dv, out, 1, m->outputs + row * p->dv * size, 1, factor);
    if (empty && p->attrs->empty_row != LAB_EMPTY_ZERO)
        lab__fused_fill_empty(p, s, head, out);
}

static void run_piece(void *context, int64_t piece, int worker)
{
    const query_job *job = context;
    const fused_problem *p = job->p;
    const lab_tensor *q = p->in[IN_Q];
    const int64_t kv_head = piece % p->kv_heads, size = (int64_t)p->size;
    char *memory = job->memory + (size_t)worker * job->memory_each;
    const query_memory m = lay_out(p, &memory);
    const fused_sequence s = lab__fused_sequence(p, piece / p->kv_heads);
    int64_t first, stop;
    for (int64_t i = 0; i < p->group; i++) {
        const char *query = lab__at(q, p->size, s.q + (kv_head * p->group + i) * s.q_head);
        p->kernels->unary[p->type][KERNEL_MUL_SCALAR](p->d, m.queries + i * p->d * size, 1, query,
                                                      q->strides[q->rank - 1], p->scale);
        lab__number_set(p->type, m.maxima, i, -INFINITY);
        m.sums[i] = 0;
    }
    memset(m.outputs, 0, (size_t)(p->group * p->dv) * p->size);
    lab__fused_keys_of(p, &s, 0, &first, &stop);
    const uint32_t mode = lab__flush_begin();
    for (int64_t tile = first / p->key_tile * p->key_tile; tile < stop; tile += p->key_tile) {
        const int64_t from = first > tile ? first : tile, end = stop < tile + p->key_tile ? stop : tile + p->key_tile;
        attend_tile(p, &m, &s, kv_head, from, end - from);
    }
    lab__flush_end(mode);
    for (int64_t i = 0; i < p->group; i++)
        finish_row(job, &m, &s, kv_head * p->group + i, i);
}

void lab__fused_one_query(const fused_problem *p, lab_tensor *const *out, char *scratch)
{
    query_job job = {.p = p, .out = out, .memory = scratch};
    char *end = NULL;
    lay_out(p, &end);
    job.memory_each = (size_t)end;
    lab__parallel_run_within(p->attrs->workers, p->batch * p->kv_heads, run_piece, &job);
}
