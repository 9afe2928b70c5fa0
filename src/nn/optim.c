/* optim.c - steps along gradients, as visitors of parameters. */
#include "llmlab/optim.h"

#include "nn_impl.h"

static void step_row_f32(int64_t n, float *p, int64_t stride, const float *gradient, float rate)
{
    for (int64_t i = 0; i < n; i++)
        p[i * stride] -= rate * gradient[i];
}

static void step_row_f64(int64_t n, double *p, int64_t stride, const double *gradient, double rate)
{
    for (int64_t i = 0; i < n; i++)
        p[i * stride] -= rate * gradient[i];
}

/* A parameter may have any strides; its gradient is row-major. */
static void step(lab_tensor *p, const lab_tensor *gradient, double rate)
{
    bool flat = lab__is_contiguous(p);
    int64_t rows = flat ? 1 : lab__row_count(p), n = flat ? p->numel : lab__row_length(p);
    int64_t stride = flat ? 1 : lab__row_stride(p);
    for (int64_t row = 0; row < rows; row++) {
        int64_t place = flat ? 0 : lab__row_place(p, row);
        if (p->dtype == LAB_F32)
            step_row_f32(n, (float *)p->data + place, stride, (const float *)gradient->data + row * n, (float)rate);
        else
            step_row_f64(n, (double *)p->data + place, stride, (const double *)gradient->data + row * n, rate);
    }
}

static lab_status check_parameter(const char *name, lab_tensor **parameter, const void *ctx)
{
    if (!parameter || !*parameter || !ctx)
        return lab__fail(LAB_ERR_ARGUMENT, "%s: %s is NULL", name ? name : "a parameter",
                         ctx ? "the parameter" : "the context");
    return LAB_OK;
}

lab_status lab_sgd_step(const char *name, lab_tensor **parameter, void *ctx)
{
    const lab_sgd *sgd = ctx;
    lab_status status = check_parameter(name, parameter, ctx);
    if (status != LAB_OK)
        return status;
    if (!lab__all_zero(sgd->reserved))
        return lab__fail(LAB_ERR_ARGUMENT, "lab_sgd: the reserved words are not zero");
    if (!isfinite(sgd->rate))
        return lab__fail(LAB_ERR_RANGE, "lab_sgd: the rate is %g, must be finite", sgd->rate);
    lab_tensor *gradient = lab_tensor_grad(*parameter);
    if (gradient) {
        step(*parameter, gradient, sgd->rate);
        lab_tensor_touch(*parameter);
    }
    return LAB_OK;
}

lab_status lab_clear_grads(const char *name, lab_tensor **parameter, void *ctx)
{
    (void)ctx;
    lab_status status = check_parameter(name, parameter, "");
    if (status == LAB_OK)
        lab_tensor_clear_grad(*parameter);
    return status;
}

lab_status lab_count_parameters(const char *name, lab_tensor **parameter, void *ctx)
{
    lab_status status = check_parameter(name, parameter, ctx);
    if (status == LAB_OK)
        *(int64_t *)ctx += lab_tensor_numel(*parameter);
    return status;
}
