/* cross_entropy.c - the loss of a language model, as it is defined.
 *
 *     loss_row = -(1 - smoothing) log p[target] - smoothing mean_c log p[c],   log p = log_softmax(logits)
 *
 * Rows that are ignored are selected away before the softmax and after it, so that nothing in them is read. The fused
 * twin is in cross_entropy_fused.c.
 */
#include "loss_impl.h"

#include <string.h>

static lab_status check_operands(const lab_graph *g, const lab_tensor *logits, const lab_tensor *targets)
{
    if (!logits || !targets)
        return lab__fail(LAB_ERR_ARGUMENT, "operand %s is NULL", logits ? "2 (targets)" : "1 (logits)");
    if (!lab__readable(g, logits) || !lab__readable(g, targets))
        return lab__fail(LAB_ERR_STATE, "an operand was computed on another graph");
    if (!lab__is_float(logits->dtype) || targets->dtype != LAB_I64)
        return lab__fail(LAB_ERR_DTYPE, "logits are %s, must be f32 or f64; targets are %s, must be i64",
                         lab_dtype_name(logits->dtype), lab_dtype_name(targets->dtype));
    if (logits->rank != targets->rank + 1 ||
        memcmp(logits->shape, targets->shape, (size_t)targets->rank * sizeof targets->shape[0]) != 0)
        return lab__fail(LAB_ERR_SHAPE, "targets %s must be the shape of logits %s without its last axis",
                         lab__shape_text(targets->rank, targets->shape), lab__shape_text(logits->rank, logits->shape));
    return LAB_OK;
}

/* Axis n - 1 of size 1 put behind, or the other way round. */
static lab_tensor *as_column(lab_graph *g, lab_tensor *x)
{
    int64_t shape[LAB_MAX_RANK];
    int rank = lab_tensor_rank(x);
    for (int i = 0; i < rank; i++)
        shape[i] = lab_tensor_size(x, i);
    if (rank < LAB_MAX_RANK)
        shape[rank] = 1;
    return lab_reshape(g, x, rank + 1, shape);
}

static lab_tensor *row_losses(lab_graph *g, const loss *l, lab_tensor *logits, lab_tensor *targets)
{
    double smoothing = l->smoothing;
    lab_tensor *log_p = lab_log_softmax(g, logits, -1);
    lab_tensor *picked = lab_sum(g, lab_take_along_axis(g, log_p, as_column(g, targets), -1), 1, (const int[]){-1}, 0);
    if (smoothing == 0)
        return lab_neg(g, picked);
    lab_tensor *even = lab_mean(g, log_p, 1, (const int[]){-1}, false);
    return lab_sub(g, lab_mul_scalar(g, picked, smoothing - 1), lab_mul_scalar(g, even, smoothing));
}

static lab_tensor *losses(lab_graph *g, const loss *l, lab_tensor *logits, lab_tensor *targets)
{
    if (l->counted == l->rows)
        return row_losses(g, l, logits, targets);
    lab_tensor *ignored = lab_equal(g, targets, lab__whole(g, l->ignore_index));
    lab_tensor *safe_logits = lab_where(g, as_column(g, ignored), lab__number(g, logits, 0), logits);
    lab_tensor *safe_targets = lab_where(g, ignored, lab__whole(g, 0), targets);
    return lab_where(g, ignored, lab__number(g, logits, 0), row_losses(g, l, safe_logits, safe_targets));
}

static lab_tensor *composed(lab_graph *g, const loss *l, lab_tensor *logits, lab_tensor *targets)
{
    lab_tensor *by_row = losses(g, l, logits, targets);
    if (l->reduction == LAB_REDUCE_NONE)
        return by_row;
    lab_tensor *sum = lab_sum_all(g, by_row);
    return l->reduction == LAB_REDUCE_SUM ? sum : lab_mul_scalar(g, sum, l->counted ? 1 / (double)l->counted : 0);
}

lab_tensor *lab_cross_entropy(lab_graph *g, lab_tensor *logits, lab_tensor *targets, const lab_cross_entropy_opts *opts)
{
    if (!lab__healthy(g))
        return NULL;
    loss l;
    lab_status status = lab__loss_options(&l, opts);
    if (status == LAB_OK)
        status = check_operands(g, logits, targets);
    if (status == LAB_OK)
        status = lab__loss_targets(&l, targets, lab_tensor_size(logits, -1));
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "cross_entropy", status);
    return l.path == LAB_PATH_COMPOSED ? composed(g, &l, logits, targets)
                                       : lab__cross_entropy_fused(g, &l, logits, targets);
}
