/* cross_entropy.c - the loss of a language model, as it is defined.
 *
 *     loss_row = -(1 - smoothing) log p[target] - smoothing mean_c log p[c],   log p = log_softmax(logits)
 *
 * Rows that are ignored are selected away before the softmax and after it, so that nothing in them is read.
 */
#include "llmlab/layers.h"
#include "nn_impl.h"

#include <string.h>

typedef struct loss {
    const lab_cross_entropy_opts *opts;
    int64_t rows, counted;
    bool ignores;
} loss;

static lab_status check_options(const lab_cross_entropy_opts *o)
{
    if (!lab__all_zero(o->reserved))
        return lab__fail(LAB_ERR_ARGUMENT, "the options' reserved words are not zero");
    if (!(o->smoothing >= 0 && o->smoothing <= 1))
        return lab__fail(LAB_ERR_RANGE, "smoothing is %g, must be in [0, 1]", o->smoothing);
    if ((unsigned)o->reduction > LAB_REDUCE_NONE)
        return lab__fail(LAB_ERR_ARGUMENT, "reduction is %d, must be a lab_reduction", (int)o->reduction);
    if ((unsigned)o->path > LAB_PATH_FUSED)
        return lab__fail(LAB_ERR_ARGUMENT, "path is %d, must be a lab_path", (int)o->path);
    if (o->path == LAB_PATH_FUSED)
        return lab__fail(LAB_ERR_UNSUPPORTED, "path FUSED: there is no fused kernel yet");
    return LAB_OK;
}

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

/* Counts the rows that count, and finds the first target that is no class. */
static lab_status read_targets(loss *l, const lab_tensor *targets, int64_t classes)
{
    l->ignores = l->opts->ignore || l->opts->ignore_index != 0;
    l->rows = lab_tensor_numel(targets);
    for (int64_t row = 0; row < l->rows; row++) {
        int64_t target = lab__i64_at(targets, row);
        if (l->ignores && target == l->opts->ignore_index)
            continue;
        if (target < 0 || target >= classes)
            return lab__fail(LAB_ERR_RANGE, "target %lld of row %lld is not in [0, %lld)", (long long)target,
                             (long long)row, (long long)classes);
        l->counted++;
    }
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
    double smoothing = l->opts->smoothing;
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
    lab_tensor *ignored = lab_equal(g, targets, lab__whole(g, l->opts->ignore_index));
    lab_tensor *safe_logits = lab_where(g, as_column(g, ignored), lab__number(g, logits, 0), logits);
    lab_tensor *safe_targets = lab_where(g, ignored, lab__whole(g, 0), targets);
    return lab_where(g, ignored, lab__number(g, logits, 0), row_losses(g, l, safe_logits, safe_targets));
}

lab_tensor *lab_cross_entropy(lab_graph *g, lab_tensor *logits, lab_tensor *targets, const lab_cross_entropy_opts *opts)
{
    static const lab_cross_entropy_opts defaults = {0};
    if (!lab__healthy(g))
        return NULL;
    loss l = {.opts = opts ? opts : &defaults};
    lab_status status = check_options(l.opts);
    if (status == LAB_OK)
        status = check_operands(g, logits, targets);
    if (status == LAB_OK)
        status = read_targets(&l, targets, lab_tensor_size(logits, -1));
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "cross_entropy", status);
    lab_tensor *by_row = losses(g, &l, logits, targets);
    if (l.opts->reduction == LAB_REDUCE_NONE)
        return by_row;
    lab_tensor *sum = lab_sum_all(g, by_row);
    return l.opts->reduction == LAB_REDUCE_SUM ? sum : lab_mul_scalar(g, sum, l.counted ? 1 / (double)l.counted : 0);
}
