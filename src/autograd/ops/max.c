/* max.c - the largest element along an axis, and where it is.    dx = dy at the first largest element, 0 elsewhere. */
#include "axes.h"

enum { COST_OF_COMPARISON = 5 };

static lab_status extreme_shape(lab_op_call *call)
{
    const axis_attrs *attrs = call->attrs;
    const lab_tensor *x = call->in[0];
    lab_status status = lab__require_dtype(call, 0, ALLOW_FLOAT | ALLOW_I64);
    if (status == LAB_OK)
        status = lab__require_axis(call, attrs->axis);
    if (status != LAB_OK)
        return status;
    int axis = lab__axis_of(attrs, x);
    if (x->shape[axis] == 0)
        return lab_graph_fail(call->graph, LAB_ERR_RANGE, "axis %d of %s is empty and has no largest element", axis,
                              lab__tensor_text(x));
    lab__shape_without(call, 1u << axis, attrs->keep);
    return LAB_OK;
}

/* Calls body with rows of x and, standing still, the result of each. */
static lab_status run_rows(lab_op_call *call, loop_body body)
{
    const lab_tensor *x = call->in[0];
    int axis = lab__axis_of(call->attrs, x);
    lab_tensor y;
    lab__stretched(&y, call->out[0], x, 1u << axis);
    const lab_tensor *operands[] = {x, &y};
    loop rows;
    lab__loop_make_axis(&rows, 2, operands, axis);
    lab__loop_run_rows(&rows, COST_OF_COMPARISON, body, NULL);
    return LAB_OK;
}

/* ---- The place of the first largest element, of the first NaN if there is one -------------------------------------- */

static void argmax_f32(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    (void)context;
    const float *x = (const float *)data[0];
    int64_t best = 0;
    for (int64_t i = 1; i < n && !isnan(x[best * strides[0]]); i++)
        if (!(x[i * strides[0]] <= x[best * strides[0]])) /* larger, or NaN */
            best = i;
    *(int64_t *)data[1] = best;
}

static void argmax_f64(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    (void)context;
    const double *x = (const double *)data[0];
    int64_t best = 0;
    for (int64_t i = 1; i < n && !isnan(x[best * strides[0]]); i++)
        if (!(x[i * strides[0]] <= x[best * strides[0]]))
            best = i;
    *(int64_t *)data[1] = best;
}

static void argmax_i64(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    (void)context;
    const int64_t *x = (const int64_t *)data[0];
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i * strides[0]] > x[best * strides[0]])
            best = i;
    *(int64_t *)data[1] = best;
}

static lab_status argmax_shape(lab_op_call *call)
{
    lab_status status = extreme_shape(call);
    call->specs[0].dtype = LAB_I64;
    return status;
}

static lab_status argmax_forward(lab_op_call *call)
{
    lab_dtype dtype = call->in[0]->dtype;
    return run_rows(call, dtype == LAB_F32 ? argmax_f32 : dtype == LAB_F64 ? argmax_f64 : argmax_i64);
}

const lab_op lab__op_argmax = {
    .name = "argmax",
    .inputs = 1,
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = argmax_shape,
    .forward = argmax_forward,
};

lab_tensor *lab_argmax(lab_graph *g, lab_tensor *x, int axis, bool keep)
{
    axis_attrs attrs = {.axis = axis, .keep = keep};
    return lab__apply1(g, &lab__op_argmax, &attrs, sizeof attrs, x);
}

/* ---- The largest element ------------------------------------------------------------------------------------------- */

static void max_f32(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    (void)context;
    *(float *)data[1] = (float)lab__kernels()->row[KERNEL_F32].maximum(n, data[0], strides[0]);
}

static void max_f64(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    (void)context;
    *(double *)data[1] = lab__kernels()->row[KERNEL_F64].maximum(n, data[0], strides[0]);
}

static void max_i64(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    (void)context;
    const int64_t *x = (const int64_t *)data[0];
    int64_t best = x[0];
    for (int64_t i = 1; i < n; i++)
        if (x[i * strides[0]] > best)
            best = x[i * strides[0]];
    *(int64_t *)data[1] = best;
}

static lab_status max_forward(lab_op_call *call)
{
    lab_dtype dtype = call->in[0]->dtype;
    return run_rows(call, dtype == LAB_F32 ? max_f32 : dtype == LAB_F64 ? max_f64 : max_i64);
}

static lab_status max_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *x = call->in[0];
    int axis = lab__axis_of(call->attrs, x);
    lab_tensor *dy = lab__with_axes(g, call->grad_out[0], x, 1u << axis);
    call->grad_in[0] = lab_scatter_add_along_axis(g, lab__zeros_like(g, x), lab_argmax(g, x, axis, true), dy, axis);
    return lab_graph_status(g);
}

static const lab_reads reads_operand[] = {{.in = 1}};

const lab_op lab__op_max = {
    .name = "max",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_operand,
    .n_reads = 1,
    .shape = extreme_shape,
    .forward = max_forward,
    .vjp = max_vjp,
};

lab_tensor *lab_max(lab_graph *g, lab_tensor *x, int axis, bool keep)
{
    axis_attrs attrs = {.axis = axis, .keep = keep};
    return lab__apply1(g, &lab__op_max, &attrs, sizeof attrs, x);
}
