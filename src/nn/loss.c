/* loss.c - what the forms of cross-entropy share (loss_impl.h). */
#include "loss_impl.h"

#include <string.h>

lab_status lab__loss_options(loss *l, const lab_cross_entropy_opts *o)
{
    static const lab_cross_entropy_opts defaults = {0};
    o = o ? o : &defaults;
    if (!lab__all_zero(o->reserved))
        return lab__fail(LAB_ERR_ARGUMENT, "the options' reserved words are not zero");
    if (!(o->smoothing >= 0 && o->smoothing <= 1))
        return lab__fail(LAB_ERR_RANGE, "smoothing is %g, must be in [0, 1]", o->smoothing);
    if ((unsigned)o->reduction > LAB_REDUCE_NONE)
        return lab__fail(LAB_ERR_ARGUMENT, "reduction is %d, must be a lab_reduction", (int)o->reduction);
    if ((unsigned)o->path > LAB_PATH_FUSED)
        return lab__fail(LAB_ERR_ARGUMENT, "path is %d, must be a lab_path", (int)o->path);
    *l = (loss){.smoothing = o->smoothing,
                .reduction = o->reduction,
                .path = o->path,
                .ignores = o->ignore || o->ignore_index != 0,
                .ignore_index = o->ignore_index};
    return LAB_OK;
}

lab_status lab__loss_targets(loss *l, const lab_tensor *targets, int64_t classes)
{
    l->rows = lab_tensor_numel(targets);
    l->classes = classes;
    for (int64_t row = 0; row < l->rows; row++) {
        int64_t target = lab__i64_at(targets, row);
        if (!lab__loss_counts(l, target))
            continue;
        if (target < 0 || target >= classes)
            return lab__fail(LAB_ERR_RANGE, "target %lld of row %lld is not in [0, %lld)", (long long)target,
                             (long long)row, (long long)classes);
        l->counted++;
    }
    return LAB_OK;
}

lab_cross_entropy_opts lab__loss_twin(const loss *l)
{
    return (lab_cross_entropy_opts){.ignore = l->ignores,
                                    .ignore_index = l->ignore_index,
                                    .smoothing = l->smoothing,
                                    .reduction = l->reduction,
                                    .path = LAB_PATH_COMPOSED};
}

void lab__loss_shape(const loss *l, lab_spec *spec, lab_dtype dtype, const lab_tensor *targets)
{
    *spec = (lab_spec){.dtype = dtype};
    if (l->reduction != LAB_REDUCE_NONE) {
        spec->rank = 0;
        return;
    }
    spec->rank = targets->rank;
    memcpy(spec->shape, targets->shape, sizeof spec->shape);
}

static void put(lab_tensor *out, int64_t i, double value)
{
    if (out->dtype == LAB_F64)
        ((double *)(void *)out->data)[i] = value;
    else
        ((float *)(void *)out->data)[i] = (float)value;
}

void lab__loss_put(const loss *l, lab_tensor *out, const double *by_row)
{
    if (l->reduction == LAB_REDUCE_NONE) {
        for (int64_t row = 0; row < l->rows; row++)
            put(out, row, by_row[row]);
        return;
    }
    double sum = lab__kernels()->row[KERNEL_F64].sum(l->rows, by_row, 1);
    put(out, 0, l->reduction == LAB_REDUCE_SUM ? sum : l->counted ? sum / (double)l->counted : 0);
}

double lab__loss_factor(const loss *l, const lab_tensor *dy, int64_t row)
{
    int64_t place = 0;
    if (l->reduction == LAB_REDUCE_NONE)
        for (int axis = dy->rank - 1; axis >= 0; axis--) {
            place += row % dy->shape[axis] * dy->strides[axis];
            row /= dy->shape[axis];
        }
    double factor =
        dy->dtype == LAB_F64 ? ((const double *)(void *)dy->data)[place] : ((const float *)(void *)dy->data)[place];
    return l->reduction == LAB_REDUCE_MEAN ? factor / (double)l->counted : factor;
}
