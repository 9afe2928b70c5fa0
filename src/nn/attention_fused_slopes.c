/* attention_fused_slopes.c - a tile of probabilities again, and the derivative of its scores:
 *
 *     p_ij = e^(s_ij - m_i) / l_i         dp_ij = dO_i . v_j    ds_ij = p_ij (dp_ij - delta_i),   delta_i = dO_i . O_i
 * - g_i
 *
 * with g the gradient of lse; with dropout's factors f, dp_ij f_ij takes dp_ij's place and p_ij f_ij goes to dv. m and
 * 1 / l are apart: ln l + m, rounded once, would ruin p where scores are large, and ln l alone moves all of a row's p
 * by as much as it is rounded. A soft cap multiplies ds by its own derivative, 1 - tanh^2.
 */
#include "attention_fused.h"

#include <string.h>

enum { FEW_KEYS = 20 };

#define SATURATED 0.97 /* a row's largest probability */

void lab__fused_block_memory(fused_block *b, const fused_problem *p, int64_t keys, char **at)
{
    const size_t row = (size_t)b->stride * p->size, panel = (size_t)(keys * p->width) * p->size;
    b->p = p;
    b->keys = keys;
    b->queries = lab__take(at, (size_t)p->d * row);
    b->gradients_apart = lab__take(at, (size_t)p->dv * row);
    b->queries_turned = lab__take(at, (size_t)p->d * row);
    b->gradients_turned = lab__take(at, (size_t)p->dv * row);
    b->maxima = lab__take(at, row);
    b->inverses = lab__take(at, row);
    b->deltas = lab__take(at, row);
    b->rests = lab__take(at, row);
    b->probabilities = lab__take(at, (size_t)keys * row);
    b->slopes = lab__take(at, (size_t)keys * row);
    b->extra = lab__take(at, panel);
    b->scores.sum = lab__take(at, (size_t)(p->d * p->width) * p->size);
    b->softened = lab__take(at, p->attrs->softcap > 0 ? panel : 0);
    b->factors = lab__take(at, p->attrs->dropout > 0 ? panel : 0);
    b->allowed = (uint8_t *)lab__take(at, (size_t)(keys * b->stride));
}

int64_t lab__fused_row_of(const fused_block *b, int64_t query)
{
    return b->sequence.rows + b->head * b->sequence.row_head + query * b->sequence.row_step;
}

/* Where the gradient of the result has this head's query 0: its batch axes are q's, its strides its own. */
const char *lab__fused_gradient_at(const fused_block *b, int64_t query, int64_t *column)
{
    const fused_problem *p = b->p;
    const lab_tensor *grad = b->grad_out[OUT_RESULT];
    const bool packed = p->attrs->packed;
    const int heads = grad->rank - (packed ? 2 : 3), time = grad->rank - (packed ? 3 : 2);
    const int64_t index = b->sequence.index;
    int64_t place = b->head * grad->strides[heads] + query * grad->strides[time];
    place += packed ? lab__i64_at(p->in[IN_CU_Q], index) * grad->strides[0] : lab__place_of_batch(grad, grad, index);
    *column = grad->strides[grad->rank - 1];
    return lab__at(grad, p->size, place);
}

double lab__fused_lse_gradient(const fused_block *b, int64_t query)
{
    const lab_tensor *of_lse = b->grad_out[OUT_LSE];
    return of_lse ? lab__number_at(b->p->type, of_lse->data, lab__element_place(of_lse, lab__fused_row_of(b, query)))
                  : 0;
}

/* x - y: x to twice the precision of a double, and so is the result. */
static fused_number less(fused_number x, double y)
{
    const double sum = x.high - y, taken = sum - x.high;
    const double low = ((x.high - (sum - taken)) + (-y - taken)) + x.low;
    const fused_number result = {.high = sum + low};
    return isfinite(result.high) ? (fused_number){result.high, low - (result.high - sum)} : result;
}

fused_number lab__fused_delta(const fused_block *b, int64_t query)
{
    const fused_problem *p = b->p;
    const fused_sequence *s = &b->sequence;
    const bool empty = lab__number_at(p->type, b->out[OUT_MAXIMUM]->data, lab__fused_row_of(b, query)) == -INFINITY;
    fused_number delta = {0};
    if (b->sums && !empty) {
        delta = b->sums[lab__fused_row_of(b, query)];
    } else if (b->grad_out[OUT_RESULT] && !empty) {
        const char *gradient = b->gradients + (query - b->first) * p->dv * (int64_t)p->size;
        const char *out = lab__at(b->out[OUT_RESULT], p->size, s->out + b->head * s->out_head + query * s->out_row);
        delta.high = p->kernels->row[p->type].dot(p->dv, gradient, 1, out, 1);
    }
    return less(delta, lab__fused_lse_gradient(b, query));
}

double lab__fused_sink_share(const fused_problem *p, int64_t head, double maximum, double inverse)
{
    const lab_tensor *sink = p->in[IN_SINK];
    const double logit = sink ? lab__number_at(p->stored, sink->data, head * sink->strides[0]) : -INFINITY;
    return logit == -INFINITY ? 0 : maximum == -INFINITY ? 1 : exp(logit - maximum) * inverse;
}

double lab__fused_sink_weight(const fused_block *b, int64_t i)
{
    const kernel_type type = b->p->type;
    return lab__fused_sink_share(b->p, b->head, lab__number_at(type, b->maxima, i),
                                 lab__number_at(type, b->inverses, i));
}

double lab__fused_row_of_slopes(const fused_block *b, int64_t i)
{
    const int64_t query = b->first + i;
    const double g = lab__fused_lse_gradient(b, query), sink = lab__fused_sink_weight(b, i);
    const bool empty = lab__number_at(b->p->type, b->maxima, i) == -INFINITY;
    return empty ? 0 : g * (1 - sink) + (sink == 0 ? 0 : sink * b->sums[lab__fused_row_of(b, query)].high);
}

static void set_delta(fused_block *b, int64_t i, fused_number delta)
{
    const kernel_type type = b->p->type;
    lab__number_set(type, b->deltas, i, delta.high);
    lab__number_set(type, b->rests, i, (delta.high - lab__number_at(type, b->deltas, i)) + delta.low);
}

/* Rows of any strides to rows side by side, in one go where they are that already. */
static void read_numbers(const fused_problem *p, kernel_unary op, int64_t rows, int64_t columns, char *to,
                         const char *from, int64_t row, int64_t column, double parameter)
{
    const kernel_unary_fn f = p->kernels->unary[p->type][op];
    if (row == columns && column == 1) {
        f(rows * columns, to, 1, from, 1, parameter);
        return;
    }
    const int64_t size = (int64_t)p->size;
    for (int64_t i = 0; i < rows; i++)
        f(columns, to + i * columns * size, 1, from + i * row * size, column, parameter);
}

/* The gradients of the block's queries, where they lie if that is side by side. Those of a row without keys are 0
 * whatever comes in: a NaN there would send the whole block the slow way. */
static void read_gradients(fused_block *b)
{
    const fused_problem *p = b->p;
    const lab_tensor *grad = b->grad_out[OUT_RESULT];
    const int64_t size = (int64_t)p->size;
    bool empty = false;
    for (int64_t i = 0; i < b->rows; i++)
        empty = empty || lab__number_at(p->type, b->maxima, i) == -INFINITY;
    if (grad) {
        int64_t column, row = grad->strides[grad->rank - (p->attrs->packed ? 3 : 2)];
        b->gradients = lab__fused_gradient_at(b, b->first, &column);
        if (!empty && row == p->dv && column == 1)
            return;
        read_numbers(p, KERNEL_COPY, b->rows, p->dv, b->gradients_apart, b->gradients, row, column, 0);
    }
    b->gradients = b->gradients_apart;
    for (int64_t i = 0; i < b->rows; i++)
        if (!grad || lab__number_at(p->type, b->maxima, i) == -INFINITY)
            memset(b->gradients_apart + i * p->dv * size, 0, (size_t)(p->dv * size));
}

/* What the block's queries bring with them: themselves, scaled, and their numbers. */
static void read_rows(fused_block *b)
{
    const fused_problem *p = b->p;
    const fused_sequence *s = &b->sequence;
    const lab_tensor *q = p->in[IN_Q];
    read_numbers(p, KERNEL_MUL_SCALAR, b->rows, p->d, b->queries,
                 lab__at(q, p->size, s->q + b->head * s->q_head + b->first * s->q_row), s->q_row,
                 q->strides[q->rank - 1], p->scale);
    for (int64_t i = 0; i < b->rows; i++) {
        const int64_t at = lab__fused_row_of(b, b->first + i);
        lab__number_set(p->type, b->maxima, i, lab__number_at(p->type, b->out[OUT_MAXIMUM]->data, at));
        lab__number_set(p->type, b->inverses, i, lab__number_at(p->type, b->out[OUT_INVERSE]->data, at));
    }
    read_gradients(b);
    for (int64_t i = 0; i < b->rows; i++)
        set_delta(b, i, b->without_deltas ? (fused_number){0} : lab__fused_delta(b, b->first + i));
}

/* Scores and dp of a panel and the keys `key` .. key + n - 1, into rows `row` .. of the tile, and dropout's factors.
 * False if a mask forbids all of them. */
static bool compute_scores(fused_block *b, int index, int64_t key, int64_t n, int64_t row, bool softened)
{
    const fused_problem *p = b->p;
    const fused_panel *panel = &b->panels[index];
    const fused_sequence *s = &b->sequence;
    const int64_t size = (int64_t)p->size, column = index * p->width, at = (row * b->stride + column) * size;
    b->scores.scores = b->probabilities + at;
    b->scores.stride = b->stride;
    b->scores.extra = b->extra;
    b->scores.softened = softened ? b->softened : NULL;
    if (!lab__fused_scores(p, panel, key, n, b->queries_turned + column * size, b->stride, &b->scores))
        return false;
    const char *values = lab__at(p->in[IN_V], p->size, s->v + b->head / p->group * s->v_head + key * s->v_row);
    lab__fused_by_key(p, &b->scores, 0, n, p->dv, values, s->v_row, b->gradients_turned + column * size, b->stride,
                      b->slopes + at);
    if (p->attrs->dropout > 0)
        lab__fused_dropout(p, panel, key, n, b->factors);
    return true;
}

/* delta of a panel's queries, but for the gradient of lse, from all their keys: sum_j p_ij dp_ij over sum_j p_ij, which
 * with the sink's is 1 but for the rounding of p. Both are summed in twice the precision. */
static void sum_panel(fused_block *b, int index, fused_number deltas[FUSED_MAX_WIDTH])
{
    const fused_problem *p = b->p;
    const fused_panel *panel = &b->panels[index];
    const int64_t column = index * p->width, at = column * (int64_t)p->size, width = p->width;
    double totals[4 * FUSED_MAX_WIDTH] = {0};
    int64_t end;
    for (int64_t key = panel->lowest / 4 * 4; key < panel->end; key = end) {
        const int64_t next = (key / b->keys + 1) * b->keys;
        end = next < panel->end ? next : panel->end;
        if (compute_scores(b, index, key, end - key, 0, false))
            p->panel.totals(end - key, b->probabilities + at, b->slopes + at, b->stride, &b->scores.limits,
                            b->maxima + at, b->inverses + at, p->attrs->dropout > 0 ? b->factors : NULL, totals);
    }
    for (int64_t k = 0; k < panel->rows; k++) {
        const double sum = lab__number_at(p->type, totals, k), low = lab__number_at(p->type, totals, width + k);
        const double weight = lab__number_at(p->type, totals, 2 * width + k);
        const double weight_low = lab__number_at(p->type, totals, 3 * width + k);
        const double excess = ((weight - 1) + lab__fused_sink_weight(b, column + k)) + weight_low;
        deltas[k] = less((fused_number){sum, low}, sum * excess);
    }
}

/* Whether delta of query k of a panel is made of what it is subtracted from, though its panel's are not: where bits
 * must not depend on the rows beside it, if it has few keys; and where sums lose most, or float64 is asked for, if it
 * has a choice and has nearly made it: then its ds are small beside the dp that they come from. Other rows' numbers
 * have no say in it. */
static bool cancels(const fused_block *b, int index, int64_t k)
{
    const fused_problem *p = b->p;
    int64_t first, stop;
    lab__fused_keys_of(p, &b->sequence, b->panels[index].first + k, &first, &stop);
    if (p->attrs->row_by_row && stop - first <= FEW_KEYS)
        return true;
    return (p->type == KERNEL_F64 || p->panel.rounds_twice) && stop - first > 1 &&
           lab__number_at(p->type, b->inverses, index * p->width + k) > SATURATED;
}

/* Of a row with one key ds is exactly 0, of one with few it often cancels: where a panel's rows have few between them
 * it costs little to make all their deltas so. Else most panels have no row to ask. */
static void sum_where_it_cancels(fused_block *b, int index)
{
    const fused_problem *p = b->p;
    const fused_panel *panel = &b->panels[index];
    const bool few = panel->end - panel->lowest / 4 * 4 <= FEW_KEYS;
    fused_number deltas[FUSED_MAX_WIDTH];
    bool any = few, exact[FUSED_MAX_WIDTH];
    if (b->sums || b->without_deltas || !b->grad_out[OUT_RESULT] || panel->lowest >= panel->end)
        return;
    if (!few && !p->attrs->row_by_row && p->type != KERNEL_F64 && !p->panel.rounds_twice)
        return;
    for (int64_t k = 0; k < panel->rows; k++) {
        exact[k] = few || cancels(b, index, k);
        any = any || exact[k];
    }
    if (!any)
        return;
    sum_panel(b, index, deltas);
    for (int64_t k = 0; k < panel->rows; k++)
        if (exact[k])
            set_delta(b, index * p->width + k, less(deltas[k], lab__fused_lse_gradient(b, panel->first + k)));
        else if (!b->exact[index])
            lab__number_set(p->type, b->rests, index * p->width + k, 0);
    b->exact[index] = true;
}

void lab__fused_block_begin(fused_block *b, int64_t head, int64_t first, int64_t rows)
{
    const fused_problem *p = b->p;
    b->head = head;
    b->first = first;
    b->rows = rows;
    b->count = (int)((rows + p->width - 1) / p->width);
    read_rows(b);
    for (int64_t i = rows; i < b->count * p->width; i++) {
        lab__number_set(p->type, b->maxima, i, 0);
        lab__number_set(p->type, b->inverses, i, 0);
        set_delta(b, i, (fused_number){0});
    }
    for (int i = 0; i < b->count; i++) {
        const int64_t at = i * p->width, size = (int64_t)p->size;
        b->panels[i] = lab__fused_panel(p, &b->sequence, head, first + at, first + rows);
        p->panel.pack(b->panels[i].rows, p->d, b->queries_turned + at * size, b->stride, b->queries + at * p->d * size,
                      p->d, 1, 1);
        p->panel.pack(b->panels[i].rows, p->dv, b->gradients_turned + at * size, b->stride,
                      b->gradients + at * p->dv * size, p->dv, 1, 1);
    }
    b->finite = p->panel.finite(rows, p->d, b->queries, p->d) && p->panel.finite(rows, p->dv, b->gradients, p->dv);
    for (int i = 0; i < b->count; i++) {
        b->exact[i] = b->sums || b->grad_out[OUT_LSE];
        sum_where_it_cancels(b, i);
    }
}

bool lab__fused_slopes(fused_block *b, int index, int64_t key, int64_t n, int64_t row, bool wants_allowed)
{
    const fused_problem *p = b->p;
    const int64_t column = index * p->width, at = column * (int64_t)p->size;
    char *probabilities = b->probabilities + row * b->stride * (int64_t)p->size + at;
    char *slopes = b->slopes + row * b->stride * (int64_t)p->size + at;
    if (!compute_scores(b, index, key, n, row, p->attrs->softcap > 0 && !b->before_cap))
        return false;
    if (wants_allowed)
        p->panel.allowed(n, probabilities, b->stride, &b->scores.limits, b->allowed + row * b->stride + column,
                         b->stride);
    p->panel.slopes(n, probabilities, slopes, b->stride, &b->scores.limits, b->maxima + at, b->inverses + at,
                    b->deltas + at, b->exact[index] ? b->rests + at : NULL, p->attrs->dropout > 0 ? b->factors : NULL,
                    b->scores.softened);
    return true;
}

void lab__fused_row_sums(fused_block *b, fused_number *sums)
{
    for (int i = 0; i < b->count; i++) {
        fused_number deltas[FUSED_MAX_WIDTH];
        sum_panel(b, i, deltas);
        for (int64_t k = 0; k < b->panels[i].rows; k++)
            sums[lab__fused_row_of(b, b->panels[i].first + k)] = deltas[k];
    }
}
