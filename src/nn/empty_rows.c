/* empty_rows.c - queries that no key is allowed to: rows whose scores are all -inf.
 *
 * Such a row gives 0 and takes no gradient, even if the one that comes in is NaN. Its probabilities are 0 already; but
 * 0 * NaN is NaN, so the output is selected as well: where(row has a key, p v, 0), whose derivative selects too.
 *
 * When no row can be empty, which is the common case, nothing is done.
 */
#include "attention_impl.h"

#include <float.h>
#include <string.h>

/* ---- Can there be any? --------------------------------------------------------------------------------------------- */

/* The bits of |x| as a whole number: they compare as the magnitudes do, with NaN above infinity. */
static double largest_in_row_f32(int64_t n, const float *x, int64_t stride)
{
    uint32_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i * stride, sizeof bits);
        bits &= UINT32_MAX >> 1;
        largest = bits > largest ? bits : largest;
    }
    float value;
    memcpy(&value, &largest, sizeof value);
    return value;
}

static double largest_in_row_f64(int64_t n, const double *x, int64_t stride)
{
    uint64_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, x + i * stride, sizeof bits);
        bits &= UINT64_MAX >> 1;
        largest = bits > largest ? bits : largest;
    }
    double value;
    memcpy(&value, &largest, sizeof value);
    return value;
}

/* The largest magnitude in a tensor; NaN or infinity if there is one. */
static double largest_magnitude(const lab_tensor *t)
{
    double largest = 0;
    int64_t rows = lab__row_count(t), n = lab__row_length(t), stride = lab__row_stride(t);
    for (int64_t row = 0; row < rows && largest < INFINITY; row++) {
        int64_t place = lab__row_place(t, row);
        double in_row = t->dtype == LAB_F32 ? largest_in_row_f32(n, (const float *)t->data + place, stride)
                                            : largest_in_row_f64(n, (const double *)t->data + place, stride);
        largest = in_row <= largest ? largest : in_row;
    }
    return largest;
}

/* Whether every row has a key by its position alone. What limits a row on both sides moves with it, so that the first
 * and the last row decide. */
static bool every_row_has_a_position(const attention *a)
{
    const lab_attention_opts *o = a->opts;
    int64_t first = o->causal == LAB_CAUSAL_BOTTOM_RIGHT ? a->tk - a->tq : o->offset;
    int64_t last = first + a->tq - 1;
    bool causal = o->causal != LAB_CAUSAL_NONE;
    if (o->window.limited && o->window.left >= 0 && last >= a->tk && last - a->tk >= o->window.left)
        return false;
    if (causal && first < 0)
        return false;
    return !o->window.limited || o->window.right < 0 || first >= 0 || first >= -o->window.right;
}

bool lab__rows_may_be_empty(const attention *a, const lab_tensor *q, const lab_tensor *k)
{
    const lab_attention_opts *o = a->opts;
    if (a->tk == 0 || o->mask || o->key_lengths || o->offsets || o->bias || o->alibi_slopes || o->scale_tensor)
        return true;
    if (!every_row_has_a_position(a))
        return true;
    /* A product of -inf forbids too. None can be if not even the sum of the largest terms overflows. */
    double largest = a->dtype == LAB_F32 ? FLT_MAX : DBL_MAX;
    double scaled = largest_magnitude(q) * fmax(1, fabs(a->scale));
    return !(scaled * largest_magnitude(k) * (double)a->d < largest / 2);
}

/* ---- Which rows, and what they give ---------------------------------------------------------------------------------- */

lab_tensor *lab__rows_with_keys(lab_graph *g, const attention *a, lab_tensor *scores)
{
    if (!a->rows_may_be_empty)
        return NULL;
    if (a->tk == 0)
        return lab_full(g, LAB_BOOL, 0, NULL, 0);
    return lab_logical_not(g, lab_equal(g, lab_max(g, scores, -1, true), lab__number(g, scores, -INFINITY)));
}

/* y = x, with no way back: what other systems return for such rows has no sensible derivative. */
static lab_status same_shape(lab_op_call *call)
{
    call->specs[0].dtype = call->in[0]->dtype;
    call->specs[0].rank = call->in[0]->rank;
    memcpy(call->specs[0].shape, call->in[0]->shape, sizeof call->specs[0].shape);
    return LAB_OK;
}

static lab_status copy_forward(lab_op_call *call)
{
    lab__tensor_copy(call->out[0], call->in[0]);
    return LAB_OK;
}

static lab_status refuse_gradient(lab_graph *g, lab_vjp_call *call)
{
    (void)call;
    return lab_graph_fail(g, LAB_ERR_UNSUPPORTED, "empty_row NAN and UNIFORM have no gradients");
}

static const lab_op forward_only = {
    .name = "attention",
    .inputs = 1,
    .outputs = 1,
    .shape = same_shape,
    .forward = copy_forward,
    .vjp = refuse_gradient,
};

lab_tensor *lab__empty_row_weights(lab_graph *g, const attention *a, lab_tensor *with_keys, lab_tensor *weights)
{
    if (!with_keys || a->opts->empty_row != LAB_EMPTY_UNIFORM)
        return weights;
    return lab_where(g, with_keys, weights, lab__number(g, weights, 1 / (double)a->tk));
}

lab_tensor *lab__empty_row_output(lab_graph *g, const attention *a, lab_tensor *with_keys, lab_tensor *out)
{
    if (with_keys && a->opts->empty_row != LAB_EMPTY_UNIFORM)
        out = lab_where(g, with_keys, out, lab__number(g, out, a->opts->empty_row == LAB_EMPTY_NAN ? NAN : 0));
    if (a->opts->empty_row == LAB_EMPTY_ZERO)
        return out;
    lab_tensor *end;
    lab_custom_op(g, &forward_only, NULL, 0, 1, &out, 1, &end);
    return end;
}
