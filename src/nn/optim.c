/* optim.c - visitors of parameters that keep nothing: a step of gradient descent, and small services. */
#include "optim_impl.h"

lab_status lab__check_visit(const char *name, lab_tensor *const *parameter, const void *ctx)
{
    if (!parameter || !*parameter || !ctx)
        return lab__fail(LAB_ERR_ARGUMENT, "%s: %s is NULL", name ? name : "a parameter",
                         ctx ? "the parameter" : "the context");
    return LAB_OK;
}

bool lab__words_zero(int n, const uint64_t *words)
{
    for (int i = 0; i < n; i++)
        if (words[i])
            return false;
    return true;
}

lab_status lab_sgd_step(const char *name, lab_tensor **parameter, void *ctx)
{
    const lab_sgd *sgd = ctx;
    lab_status status = lab__check_visit(name, parameter, ctx);
    if (status != LAB_OK)
        return status;
    if (!lab__all_zero(sgd->reserved))
        return lab__fail(LAB_ERR_ARGUMENT, "lab_sgd: the reserved words are not zero");
    if (!isfinite(sgd->rate))
        return lab__fail(LAB_ERR_RANGE, "lab_sgd: the rate is %g, must be finite", sgd->rate);
    const lab_tensor *gradient = lab_tensor_grad(*parameter);
    if (gradient)
        lab__optim_pass(*parameter, gradient, NULL, NULL, KERNEL_PLAIN,
                        &(kernel_step){.rate = sgd->rate, .scale = 1, .keep = 1});
    return LAB_OK;
}

lab_status lab_clear_grads(const char *name, lab_tensor **parameter, void *ctx)
{
    (void)ctx;
    lab_status status = lab__check_visit(name, parameter, "");
    if (status == LAB_OK)
        lab_tensor_clear_grad(*parameter);
    return status;
}

lab_status lab_count_parameters(const char *name, lab_tensor **parameter, void *ctx)
{
    lab_status status = lab__check_visit(name, parameter, ctx);
    if (status == LAB_OK)
        *(int64_t *)ctx += lab_tensor_numel(*parameter);
    return status;
}

/* ---- Scaling ----------------------------------------------------------------------------------------------------- */

typedef struct scaling {
    lab_tensor *gradient;
    double factor;
} scaling;

static void scale_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const scaling *x = context;
    const int64_t from = piece * OPTIM_PIECE, left = x->gradient->numel - from;
    char *at = x->gradient->data + (size_t)from * lab_dtype_size(x->gradient->dtype);
    kernel_type type = x->gradient->dtype == LAB_F64 ? KERNEL_F64 : KERNEL_F32;
    lab__kernels()->unary[type][KERNEL_MUL_SCALAR](left < OPTIM_PIECE ? left : OPTIM_PIECE, at, 1, at, 1, x->factor);
}

lab_status lab_scale_grads(const char *name, lab_tensor **parameter, void *ctx)
{
    lab_status status = lab__check_visit(name, parameter, ctx);
    if (status != LAB_OK)
        return status;
    scaling x = {lab_tensor_grad(*parameter), *(const double *)ctx};
    if (!isfinite(x.factor))
        return lab__fail(LAB_ERR_RANGE, "lab_scale_grads: the factor is %g, must be finite", x.factor);
    if (x.gradient && x.factor != 1) {
        lab__parallel_run((x.gradient->numel + OPTIM_PIECE - 1) / OPTIM_PIECE, scale_piece, &x);
        lab_tensor_touch(x.gradient);
    }
    return LAB_OK;
}
