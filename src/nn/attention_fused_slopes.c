/* attention_fused_slopes.c - a tile of probabilities again, and the derivative of its scores:
 *
 *     p_ij = e^((s_ij - m_i) - ln l_i)    dp_ij = dO_i . v_j    ds_ij = p_ij (dp_ij - delta_i),   delta_i = dO_i . O_i
 * - g_i
 *
 * with g the gradient of lse; with dropout's factors f, dp_ij f_ij takes dp_ij's place and p_ij f_ij goes to dv. m and
 * ln l are apart, because their sum, rounded once, would ruin p where scores are large. A soft cap multiplies ds by its
 * own derivative, 1 - tanh^2.
 */
#include "attention_fused.h"

#include <string.h>

enum { FEW_KEYS = 20 };

void lab__fused_block_memory(fused_block *b, const fused_problem *p, int64_t keys, char **at)
{
    const size_t row = (size_t)b->stride * p->size, panel = (size_t)(keys * p->width) * p->size;
    b->p = p;
    b->queries = lab__take(at, (size_t)p->d * row);
    b->gradients = lab__take(at, (size_t)p->dv * row);
    b->queries_turned = lab__take(at, (size_t)p->d * row);
    b->gradients_turned = lab__take(at, (size_t)p->dv * row);
    b->maxima = lab__take(at, row);
    b->log_sums = lab__take(at, row);
    b->deltas = lab__take(at, row);
    b->rests = lab__take(at, row);
    b->probabilities = lab__take(at, (size_t)keys * row);
    b->slopes = lab__take(at, (size_t)keys * row);
    b->extra = lab__take(at, panel);
    b->softened = lab__take(at, p->attrs->softcap > 0 ? panel : 0);
    b->factors = lab__take(at, p->attrs->dropout > 0 ? panel : 0);
    b->allowed = (uint8_t *)lab__take(at, (size_t)(keys * b->stride));
}

static int64_t row_of(const fused_block *b, int64_t query)
{
    return b->sequence.rows + b->head * b->sequence.row_head + query * b->sequence.row_step;
}

/* Where the gradient of the result has this head's query 0: its batch axes are q's, its strides its own. */
static const char *gradient_at(const fused_block *b, int64_t query, int64_t *column)
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

/* The gradient that comes in for a query's lse. */
static double lse_gradient(const fused_block *b, int64_t query)
{
    const lab_tensor *of_lse = b->grad_out[OUT_LSE];
    return of_lse ? lab__number_at(b->p->type, of_lse->data, lab__element_place(of_lse, row_of(b, query))) : 0;
}

double lab__fused_delta(const fused_block *b, int64_t query)
{
    const fused_problem *p = b->p;
    const fused_sequence *s = &b->sequence;
    const bool empty = lab__number_at(p->type, b->out[OUT_MAXIMUM]->data, row_of(b, query)) == -INFINITY;
    double delta = 0;
    if (b->sums && !empty) {
        delta = b->sums[row_of(b, query)];
    } else if (b->grad_out[OUT_RESULT] && !empty) {
        int64_t column;
        const char *gradient = gradient_at(b, query, &column);
        const char *out = lab__at(b->out[OUT_RESULT], p->size, s->out + b->head * s->out_head + query * s->out_row);
        delta = p->kernels->row[p->type].dot(p->dv, gradient, column, out, 1);
    }
    return delta - lse_gradient(b, query);
}

static void set_delta(fused_block *b, int64_t i, double delta)
{
    const kernel_type type = b->p->type;
    lab__number_set(type, b->deltas, i, delta);
    lab__number_set(type, b->rests, i, delta - lab__number_at(type, b->deltas, i));
}

/* One query's row, scaled; its gradient, 0 for a row without keys whatever comes in. */
static void read_row(fused_block *b, int64_t i)
{
    const fused_problem *p = b->p;
    const fused_sequence *s = &b->sequence;
    const lab_tensor *q = p->in[IN_Q];
    const kernel_unary_fn *unary = p->kernels->unary[p->type];
    const int64_t query = b->first + i, at = row_of(b, query);
    const double maximum = lab__number_at(p->type, b->out[OUT_MAXIMUM]->data, at);
    char *gradient = b->gradients + i * p->dv * (int64_t)p->size;
    unary[KERNEL_MUL_SCALAR](p->d, b->queries + i * p->d * (int64_t)p->size, 1,
                             lab__at(q, p->size, s->q + b->head * s->q_head + query * s->q_row),
                             q->strides[q->rank - 1], p->scale);
    if (b->grad_out[OUT_RESULT] && maximum != -INFINITY) {
        int64_t column;
        const char *from = gradient_at(b, query, &column);
        unary[KERNEL_COPY](p->dv, gradient, 1, from, column, 0);
    } else {
        memset(gradient, 0, (size_t)p->dv * p->size);
    }
    lab__number_set(p->type, b->maxima, i, maximum);
    lab__number_set(p->type, b->log_sums, i, lab__number_at(p->type, b->out[OUT_LOG_SUM]->data, at));
    set_delta(b, i, b->without_deltas ? 0 : lab__fused_delta(b, query));
}

/* sum_j p_ij dp_ij of a panel's queries, from keys `key` .. key + n - 1, added to sums. Its deltas are 0. */
static void add_row_sums(fused_block *b, int index, int64_t key, int64_t n, double *sums)
{
    const fused_problem *p = b->p;
    const bool before_cap = b->before_cap;
    b->before_cap = true;
    if (lab__fused_slopes(b, index, key, n, 0, false))
        for (int64_t j = 0; j < n; j++)
            for (int64_t k = 0; k < p->width; k++)
                sums[k] += lab__number_at(p->type, b->slopes, j * b->stride + index * p->width + k);
    b->before_cap = before_cap;
}

/* Of a row with one key ds is exactly 0, of one with few it often cancels: then delta is made of what it is subtracted
 * from, which costs little. */
static void sum_few_keys(fused_block *b, int index)
{
    const fused_problem *p = b->p;
    const fused_panel *panel = &b->panels[index];
    const int64_t key = panel->lowest / 4 * 4, n = panel->end - key;
    double sums[FUSED_MAX_WIDTH] = {0};
    if (b->sums || b->without_deltas || !b->grad_out[OUT_RESULT] || n <= 0 || n > FEW_KEYS)
        return;
    for (int64_t k = 0; k < p->width; k++)
        set_delta(b, index * p->width + k, 0);
    add_row_sums(b, index, key, n, sums);
    for (int64_t k = 0; k < panel->rows; k++)
        set_delta(b, index * p->width + k, sums[k] - lse_gradient(b, panel->first + k));
    b->exact[index] = true;
}

void lab__fused_block_begin(fused_block *b, int64_t head, int64_t first, int64_t rows)
{
    const fused_problem *p = b->p;
    b->head = head;
    b->first = first;
    b->rows = rows;
    b->count = (int)((rows + p->width - 1) / p->width);
    for (int64_t i = 0; i < rows; i++)
        read_row(b, i);
    for (int64_t i = rows; i < b->count * p->width; i++) {
        lab__number_set(p->type, b->maxima, i, 0);
        lab__number_set(p->type, b->log_sums, i, 0);
        set_delta(b, i, 0);
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
        sum_few_keys(b, i);
    }
}

bool lab__fused_slopes(fused_block *b, int index, int64_t key, int64_t n, int64_t row, bool wants_allowed)
{
    const fused_problem *p = b->p;
    const fused_panel *panel = &b->panels[index];
    const fused_sequence *s = &b->sequence;
    const int64_t size = (int64_t)p->size, column = index * p->width, at = (row * b->stride + column) * size;
    char *probabilities = b->probabilities + at, *slopes = b->slopes + at;
    b->scores.scores = probabilities;
    b->scores.stride = b->stride;
    b->scores.extra = b->extra;
    b->scores.softened = p->attrs->softcap > 0 && !b->before_cap ? b->softened : NULL;
    if (!lab__fused_scores(p, panel, key, n, b->queries_turned + column * size, b->stride, &b->scores))
        return false;
    const char *values = lab__at(p->in[IN_V], p->size, s->v + b->head / p->group * s->v_head + key * s->v_row);
    p->multiply(n, p->width, p->dv, values, s->v_row, 1, b->gradients_turned + column * size, b->stride, slopes,
                b->stride, false);
    if (p->attrs->dropout > 0)
        lab__fused_dropout(p, panel, key, n, b->factors);
    if (wants_allowed)
        p->panel.allowed(n, probabilities, b->stride, &b->scores.limits, b->allowed + row * b->stride + column,
                         b->stride);
    p->panel.slopes(n, probabilities, slopes, b->stride, &b->scores.limits, b->maxima + column * size,
                    b->log_sums + column * size, b->deltas + column * size,
                    b->exact[index] ? b->rests + column * size : NULL, p->attrs->dropout > 0 ? b->factors : NULL,
                    b->scores.softened);
    return true;
}

void lab__fused_row_sums(fused_block *b, int64_t key_tile, double *sums)
{
    for (int i = 0; i < b->count; i++) {
        const fused_panel *panel = &b->panels[i];
        double of_panel[FUSED_MAX_WIDTH] = {0};
        int64_t end;
        for (int64_t key = panel->lowest / 4 * 4; key < panel->end; key = end) {
            const int64_t next = (key / key_tile + 1) * key_tile;
            end = next < panel->end ? next : panel->end;
            add_row_sums(b, i, key, end - key, of_panel);
        }
        for (int64_t k = 0; k < panel->rows; k++)
            sums[row_of(b, panel->first + k)] = of_panel[k];
    }
}
