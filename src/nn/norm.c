/* norm.c - LayerNorm and RMSNorm, as they are defined. Their fused twins are in norm_fused.c. */
#include "norm_impl.h"

#include "llmlab/layers.h"

static lab_tensor *mean(lab_graph *g, lab_tensor *x)
{
    return lab_mean(g, x, 1, (const int[]){-1}, true);
}

static lab_tensor *centred(lab_graph *g, lab_tensor *x)
{
    return lab_sub(g, x, mean(g, x));
}

static lab_tensor *divided_by_root_mean_square(lab_graph *g, lab_tensor *x, double eps)
{
    return lab_mul(g, x, lab_rsqrt(g, lab_add_scalar(g, mean(g, lab_mul(g, x, x)), eps)));
}

static lab_status check_per_channel(const lab_tensor *x, const lab_tensor *t, const char *name)
{
    if (!t)
        return LAB_OK;
    if (t->dtype != x->dtype)
        return lab__fail(LAB_ERR_DTYPE, "%s is %s, x is %s", name, lab_dtype_name(t->dtype), lab_dtype_name(x->dtype));
    if (t->rank != 1 || t->shape[0] != x->shape[x->rank - 1])
        return lab__fail(LAB_ERR_SHAPE, "%s %s must be [%lld], the last size of x %s", name,
                         lab__shape_text(t->rank, t->shape), (long long)x->shape[x->rank - 1],
                         lab__shape_text(x->rank, x->shape));
    return LAB_OK;
}

lab_status lab__norm_check(const lab_tensor *x, const lab_tensor *gain, const lab_tensor *shift, double eps)
{
    if (!x)
        return lab__fail(LAB_ERR_ARGUMENT, "operand 1 (x) is NULL");
    if (!lab__is_float(x->dtype))
        return lab__fail(LAB_ERR_DTYPE, "x is %s, must be f32 or f64", lab_dtype_name(x->dtype));
    if (x->rank < 1)
        return lab__fail(LAB_ERR_SHAPE, "x must have an axis to normalise");
    if (!(eps >= 0) || isinf(eps))
        return lab__fail(LAB_ERR_RANGE, "eps is %g, must be finite and at least 0", eps);
    lab_status status = check_per_channel(x, gain, "gain");
    return status == LAB_OK ? check_per_channel(x, shift, "shift") : status;
}

/* The first centring leaves a rounding of the mean behind, the same in every element; the second takes it away. */
lab_tensor *lab_layer_norm_composed(lab_graph *g, lab_tensor *x, lab_tensor *gain, lab_tensor *shift, double eps)
{
    if (!lab__healthy(g))
        return NULL;
    lab_status status = lab__norm_check(x, gain, shift, eps);
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "layer_norm", status);
    lab_tensor *y = divided_by_root_mean_square(g, centred(g, centred(g, x)), eps);
    if (gain)
        y = lab_mul(g, y, gain);
    return shift ? lab_add(g, y, shift) : y;
}

lab_tensor *lab_rms_norm_composed(lab_graph *g, lab_tensor *x, lab_tensor *gain, double eps)
{
    if (!lab__healthy(g))
        return NULL;
    lab_status status = lab__norm_check(x, gain, NULL, eps);
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "rms_norm", status);
    lab_tensor *y = divided_by_root_mean_square(g, x, eps);
    return gain ? lab_mul(g, y, gain) : y;
}
