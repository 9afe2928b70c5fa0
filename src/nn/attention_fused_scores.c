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
    s->limits = (kernel_limits){.full_first = within(first - key, n), .full_stop = within(stop - key, n)};
    if (s->limits.full_first == 0 && s->limits.full_stop == n)
        return;
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
}

bool lab__fused_all_meet(const fused_problem *p, const fused_panel *panel, int64_t key, int64_t n)
{
    int64_t first, stop, unused;
    lab__fused_keys_of(p, panel->sequence, panel->first, &unused, &stop);
    lab__fused_keys_of(p, panel->sequence, panel->first + panel->rows - 1, &first, &unused);
    return !p->in[IN_MASK] && !p->in[IN_BIAS] && !p->in[IN_SLOPES] && first <= key && key + n <= stop;
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
    set_limits(p, panel, key, n, s);
    s->ranged = s->largest && p->attrs->softcap == 0 && lab__fused_all_meet(p, panel, key, n);
    if (s->ranged) {
        p->panel.scores(n, p->d, keys, sequence->k_row, queries, queries_stride, s->scores, s->stride, s->largest,
                        s->least, s->ahead, sequence->v_row * (int64_t)p->size, p->dv * (int64_t)p->size);
        return true;
    }
    p->multiply(n, p->width, p->d, keys, s->raw ? p->d : sequence->k_row, 1, queries, queries_stride,
                s->raw ? s->raw : s->scores, s->stride, false);
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
