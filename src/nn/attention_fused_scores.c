/* attention_fused_scores.c - a panel of scores, in the order of operations of the definition: product, soft cap, bias,
 * ALiBi, then who may look where. Forward and backward both come here, so that they see the same scores.
 */
#include "attention_fused.h"

#include <string.h>

static int64_t stride_of(const lab_tensor *t, int axis_from_end)
{
    int axis = t->rank - axis_from_end;
    return axis >= 0 && t->shape[axis] > 1 ? t->strides[axis] : 0;
}

/* Where a tensor that broadcasts to the scores has its element for this head, query and key. */
static int64_t place_in(const lab_tensor *t, int64_t batch, const fused_panel *panel, int64_t key)
{
    return batch + panel->head * stride_of(t, 3) + panel->first * stride_of(t, 2) + key * stride_of(t, 1);
}

static bool any_allowed(const lab_tensor *mask, const uint8_t *at, int64_t rows, int64_t n)
{
    const int64_t row = stride_of(mask, 2), column = stride_of(mask, 1);
    for (int64_t i = 0; i < (row ? rows : 1); i++)
        for (int64_t j = 0; j < (column ? n : 1); j++)
            if (at[i * row + j * column])
                return true;
    return false;
}

void lab__fused_rows(const fused_problem *p, kernel_binary op, int64_t n, char *y, int64_t stride, const char *x)
{
    kernel_binary_fn f = p->kernels->binary[p->type][op];
    if (stride == p->width) {
        f(n * stride, y, 1, y, 1, x, 1);
        return;
    }
    const int64_t step = stride * (int64_t)p->size, x_step = p->width * (int64_t)p->size;
    for (int64_t j = 0; j < n; j++)
        f(p->width, y + j * step, 1, y + j * step, 1, x + j * x_step, 1);
}

static void soften(const fused_problem *p, int64_t n, fused_scores *s)
{
    char *soft = s->softened ? s->softened : s->extra;
    const int64_t step = s->stride * (int64_t)p->size, soft_step = p->width * (int64_t)p->size;
    double number[1];
    lab__number_set(p->type, number, 0, p->attrs->softcap);
    for (int64_t j = 0; j < n; j++) {
        char *to = soft + j * soft_step, *from = s->scores + j * step;
        p->kernels->binary[p->type][KERNEL_DIV](p->width, to, 1, from, 1, number, 0);
        p->kernels->unary[p->type][KERNEL_TANH](p->width, to, 1, to, 1, 0);
        p->kernels->unary[p->type][KERNEL_MUL_SCALAR](p->width, from, 1, to, 1, p->attrs->softcap);
    }
}

static void add_bias(const fused_problem *p, const fused_panel *panel, int64_t key, int64_t n, fused_scores *s)
{
    const lab_tensor *bias = p->in[IN_BIAS];
    const int64_t place = place_in(bias, panel->sequence->bias, panel, key), row = stride_of(bias, 2);
    if (p->stored == p->type) {
        p->panel.pack(panel->rows, n, s->extra, p->width, lab__at(bias, p->size, place), row, stride_of(bias, 1), 1);
    } else {
        memset(s->extra, 0, (size_t)(n * p->width) * p->size);
        lab__fused_widen(panel->rows, n, (double *)s->extra, 1, p->width, lab__at(bias, sizeof(float), place), row,
                         stride_of(bias, 1));
    }
    lab__fused_rows(p, KERNEL_ADD, n, s->scores, s->stride, s->extra);
}

static void add_alibi(const fused_problem *p, const fused_panel *panel, int64_t key, int64_t n, fused_scores *s)
{
    const lab_tensor *slopes = p->in[IN_SLOPES];
    double slope = lab__number_at(p->stored, slopes->data, panel->head * slopes->strides[0]);
    p->panel.distances(n, s->extra, panel->first + panel->sequence->offset - key);
    p->kernels->unary[p->type][KERNEL_MUL_SCALAR](n * p->width, s->extra, 1, s->extra, 1, slope);
    lab__fused_rows(p, KERNEL_SUB, n, s->scores, s->stride, s->extra);
}

static int32_t within(int64_t x, int64_t n)
{
    return (int32_t)(x < 0 ? 0 : x > n ? n : x);
}

/* A query's keys are an interval whose ends do not go back from query to query: the last one's beginning and the first
 * one's end bound what all may see. Lanes without a query do as the last one does. */
static void set_limits(const fused_problem *p, const fused_panel *panel, int64_t key, int64_t n, fused_scores *s)
{
    const fused_sequence *sequence = panel->sequence;
    int64_t first, stop, unused;
    lab__fused_keys_of(p, sequence, panel->first, &unused, &stop);
    lab__fused_keys_of(p, sequence, panel->first + panel->rows - 1, &first, &unused);
    s->limits = (kernel_limits){.full_first = (within(first - key, n) + 3) / 4 * 4, .full_stop = within(stop - key, n)};
    s->both_first = 0;
    s->both_stop = n;
    if (s->limits.full_first == 0 && s->limits.full_stop == n)
        return;
    s->limits.full_stop = s->limits.full_stop / 4 * 4;
    if (s->limits.full_first >= s->limits.full_stop)
        s->limits.full_first = s->limits.full_stop = n;
    s->limits.first = s->first;
    s->limits.stop = s->stop;
    for (int64_t i = 0; i < p->width; i++) {
        if (i < panel->rows)
            lab__fused_keys_of(p, sequence, panel->first + i, &first, &stop);
        s->first[i] = within(first - key, n);
        s->stop[i] = within(stop - key, n);
    }
    if (s->raw || s->first[p->width / 2] > s->stop[p->width / 2 - 1])
        return;
    s->both_first = s->first[p->width / 2] / 4 * 4;
    s->both_stop = within((s->stop[p->width / 2 - 1] + 3) / 4 * 4, n);
}

/* Along a diagonal the halves of a panel, a vector each, end at different keys: what only one of them sees is
 * multiplied for this one alone. The other's scores stay whatever they were, and become -inf with all that is beyond
 * its limits. */
typedef struct panel_part {
    int64_t first, stop, column, width;
} panel_part;

enum { PARTS = 3 };

static void split(const fused_problem *p, const fused_scores *s, int64_t n, panel_part parts[PARTS])
{
    const int64_t half = p->width / 2;
    parts[0] = (panel_part){0, s->both_first, 0, half};
    parts[1] = (panel_part){s->both_first, s->both_stop, 0, p->width};
    parts[2] = (panel_part){s->both_stop, n, half, half};
}

/* y = x . panel, one sum of columns after the other. */
static void multiply_by_key(const fused_problem *p, int64_t keys, int64_t width, int64_t columns, const char *x,
                            int64_t x_row, const char *panel, int64_t panel_stride, char *y, int64_t stride)
{
    const int64_t size = (int64_t)p->size;
    int64_t c = 0;
    do {
        const int64_t some = columns - c < p->panel.columns ? columns - c : p->panel.columns;
        p->multiply(keys, width, some, x + c * size, x_row, 1, panel + c * panel_stride * size, panel_stride, y, stride,
                    c > 0 ? KERNEL_SUM_ADDED : KERNEL_SUM_NEW);
        c += some;
    } while (c < columns);
}

void lab__fused_by_key(const fused_problem *p, const fused_scores *s, int64_t first, int64_t stop, int64_t columns,
                       const char *x, int64_t x_row, const char *panel, int64_t panel_stride, char *y)
{
    const int64_t size = (int64_t)p->size;
    panel_part parts[PARTS];
    split(p, s, stop, parts);
    for (int i = 0; i < PARTS; i++) {
        const panel_part *part = &parts[i];
        const int64_t from = part->first > first ? part->first : first, to = part->stop < stop ? part->stop : stop;
        if (from < to)
            multiply_by_key(p, to - from, part->width, columns, x + from * x_row * size, x_row,
                            panel + part->column * size, panel_stride, y + (from * s->stride + part->column) * size,
                            s->stride);
    }
}

/* One sum, of keys first .. stop - 1. Where halves of the panel differ it goes from part to part in memory. */
static void sum_by_query(const fused_problem *p, const fused_scores *s, int64_t first, int64_t stop, int64_t columns,
                         const char *x, int64_t x_row, const char *weights, char *y)
{
    const int64_t size = (int64_t)p->size;
    if (s->both_first <= first && stop <= s->both_stop) {
        p->multiply(columns, p->width, stop - first, x + first * x_row * size, 1, x_row,
                    weights + first * s->stride * size, s->stride, y, p->width, KERNEL_SUM_ADDED);
        return;
    }
    panel_part parts[PARTS];
    split(p, s, stop, parts);
    memset(s->sum, 0, (size_t)(columns * p->width * size));
    for (int i = 0; i < PARTS; i++) {
        const panel_part *part = &parts[i];
        const int64_t from = part->first > first ? part->first : first, to = part->stop < stop ? part->stop : stop;
        if (from < to)
            p->multiply(columns, part->width, to - from, x + from * x_row * size, 1, x_row,
                        weights + (from * s->stride + part->column) * size, s->stride, s->sum + part->column * size,
                        p->width, KERNEL_SUM_GOES_ON);
    }
    p->kernels->binary[p->type][KERNEL_ADD](columns * p->width, y, 1, y, 1, s->sum, 1);
}

int64_t lab__fused_sum_end(int64_t key, int64_t j, int64_t n)
{
    const int64_t end = (key + j) / FUSED_SUMMED * FUSED_SUMMED + FUSED_SUMMED - key;
    return end < n ? end : n;
}

void lab__fused_by_query(const fused_problem *p, const fused_scores *s, int64_t key, int64_t n, int64_t columns,
                         const char *x, int64_t x_row, const char *weights, char *y)
{
    for (int64_t j = 0, end; j < n; j = end) {
        end = lab__fused_sum_end(key, j, n);
        sum_by_query(p, s, j, end, columns, x, x_row, weights, y);
    }
}

void lab__fused_add_allowed(const fused_problem *p, int64_t key, int64_t n, int64_t columns, const char *x,
                            int64_t x_row, const uint8_t *allowed, int64_t allowed_stride, const char *weights,
                            int64_t stride, char *y)
{
    const int64_t size = (int64_t)p->size;
    for (int64_t j = 0, end; j < n; j = end) {
        end = lab__fused_sum_end(key, j, n);
        p->panel.add_by_query(end - j, columns, y, allowed + j * allowed_stride, allowed_stride,
                              weights + j * stride * size, stride, x + j * x_row * size, x_row, 1);
    }
}

bool lab__fused_all_meet(const fused_problem *p, const fused_panel *panel, int64_t key, int64_t n)
{
    int64_t first, stop, unused;
    lab__fused_keys_of(p, panel->sequence, panel->first, &unused, &stop);
    lab__fused_keys_of(p, panel->sequence, panel->first + panel->rows - 1, &first, &unused);
    return !p->in[IN_MASK] && !p->in[IN_BIAS] && !p->in[IN_SLOPES] && first <= key && key + n <= stop;
}

/* Scores of which only limits will be taken away, and the range of those that all queries see. */
static void range_of_scores(const fused_problem *p, const fused_sequence *sequence, int64_t n, const char *keys,
                            const char *queries, int64_t queries_stride, fused_scores *s)
{
    const int64_t size = (int64_t)p->size, first = s->limits.full_first, stop = s->limits.full_stop;
    const int64_t k_row = sequence->k_row;
    lab__fused_by_key(p, s, 0, first, p->d, keys, k_row, queries, queries_stride, s->scores);
    p->panel.scores(stop - first, p->d, keys + first * k_row * size, k_row, queries, queries_stride,
                    s->scores + first * s->stride * size, s->stride, s->largest, s->least, s->ahead);
    lab__fused_by_key(p, s, stop, n, p->d, keys, k_row, queries, queries_stride, s->scores);
}

bool lab__fused_scores(const fused_problem *p, const fused_panel *panel, int64_t key, int64_t n, const char *queries,
                       int64_t queries_stride, fused_scores *s)
{
    const fused_sequence *sequence = panel->sequence;
    const lab_tensor *k = p->in[IN_K], *mask = p->in[IN_MASK];
    const uint8_t *allowed = mask ? (uint8_t *)lab__at(mask, 1, place_in(mask, sequence->mask, panel, key)) : NULL;
    if (mask && !any_allowed(mask, allowed, panel->rows, n))
        return false;
    const int64_t first = sequence->k + panel->head / p->group * sequence->k_head + key * sequence->k_row;
    const char *keys = s->raw ? s->keys : lab__at(k, p->size, first);
    const int64_t k_row = s->raw ? p->d : sequence->k_row;
    set_limits(p, panel, key, n, s);
    s->ranged = s->largest && p->attrs->softcap == 0 && !mask && !p->in[IN_BIAS] && !p->in[IN_SLOPES];
    if (s->ranged) {
        range_of_scores(p, sequence, n, keys, queries, queries_stride, s);
        return true;
    }
    lab__fused_by_key(p, s, 0, n, p->d, keys, k_row, queries, queries_stride, s->raw ? s->raw : s->scores);
    if (s->raw)
        p->kernels->unary[p->type][KERNEL_MUL_SCALAR](n * s->stride, s->scores, 1, s->raw, 1, p->scale);
    if (p->attrs->softcap > 0)
        soften(p, n, s);
    if (p->in[IN_BIAS])
        add_bias(p, panel, key, n, s);
    if (p->in[IN_SLOPES])
        add_alibi(p, panel, key, n, s);
    if (mask)
        p->panel.forbid(panel->rows, n, s->scores, s->stride, allowed, stride_of(mask, 2), stride_of(mask, 1));
    return true;
}

void lab__fused_dropout(const fused_problem *p, const fused_panel *panel, int64_t key, int64_t n, char *factors)
{
    const double drop = p->attrs->dropout, kept = 1 / (1 - drop);
    for (int64_t i = 0; i < p->width; i++) {
        const int64_t position = panel->first + i + panel->sequence->offset;
        uint32_t counter[4] = {(uint32_t)panel->sequence->index, (uint32_t)panel->head, (uint32_t)position, 0},
                 words[4];
        for (int64_t j = 0; j < n; j++) {
            if (j % 4 == 0) {
                counter[3] = (uint32_t)((key + j) / 4);
                lab__philox(counter, p->key, words);
            }
            bool keep = (words[j % 4] >> 8) * 0x1p-24 >= drop;
            lab__number_set(p->type, factors, j * p->width + i, keep ? kept : 0);
        }
    }
}
