/* elementwise1.c - ops of one operand, element by element: scalars, powers, exponentials, circular functions.
 *
 * neg, add_scalar, mul_scalar and abs take i64 too, by the kernels of two operands.
 */
#include "slope.h"

static lab_status shape_float(lab_op_call *call)
{
    lab_status status = lab__require_dtype(call, 0, ALLOW_FLOAT);
    return status == LAB_OK ? lab__shape_same(call) : status;
}

static lab_status shape_number(lab_op_call *call)
{
    lab_status status = lab__require_dtype(call, 0, ALLOW_FLOAT | ALLOW_I64);
    return status == LAB_OK ? lab__shape_same(call) : status;
}

static double scalar_of(const void *attrs)
{
    return *(const double *)attrs;
}

static lab_status shape_scalar(lab_op_call *call)
{
    lab_status status = shape_number(call);
    double s = scalar_of(call->attrs);
    if (status == LAB_OK && call->in[0]->dtype == LAB_I64 && !lab__is_whole(s))
        return lab_graph_fail(call->graph, LAB_ERR_RANGE, "the scalar %g is no i64, as the operand is", s);
    return status;
}

static lab_status elementwise1(lab_op_call *call, kernel_unary kernel)
{
    lab__map_unary(kernel, call->out[0], call->in[0], 0);
    return LAB_OK;
}

/* y = number op x, or x op number. */
static void map_i64(kernel_binary op, lab_tensor *y, const lab_tensor *x, double number, bool number_first)
{
    int64_t value = (int64_t)number;
    lab_tensor scalar;
    lab__tensor_describe(&scalar, LAB_I64, 0, NULL, NULL);
    scalar.data = (char *)&value;
    lab__map_binary(op, y, number_first ? &scalar : x, number_first ? x : &scalar);
}

static const lab_reads reads_nothing[] = {{0, 0}};
static const lab_reads reads_operand[] = {{1, 0}};
static const lab_reads reads_result[] = {{0, 1}};

/* ---- y = -x.    dx = -dy. ---------------------------------------------------------------------------------------- */

static lab_status neg_forward(lab_op_call *call)
{
    if (call->in[0]->dtype != LAB_I64)
        return elementwise1(call, KERNEL_NEG);
    map_i64(KERNEL_SUB, call->out[0], call->in[0], 0, true);
    return LAB_OK;
}

static lab_status neg_vjp(lab_graph *g, lab_vjp_call *call)
{
    call->grad_in[0] = lab_neg(g, call->grad_out[0]);
    return lab_graph_status(g);
}

static lab_status neg_backward(lab_vjp_call *call)
{
    lab__place_unary(&call->places[0], KERNEL_NEG, call->grad_out[0], 0, NULL);
    return LAB_OK;
}

const lab_op lab__op_neg = {
    .name = "neg",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = shape_number,
    .forward = neg_forward,
    .vjp = neg_vjp,
    .backward = neg_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_neg(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_neg, NULL, 0, x);
}

/* ---- y = x + s.    dx = dy. -------------------------------------------------------------------------------------- */

static lab_status add_scalar_forward(lab_op_call *call)
{
    if (call->in[0]->dtype == LAB_I64)
        map_i64(KERNEL_ADD, call->out[0], call->in[0], scalar_of(call->attrs), false);
    else
        lab__map_unary(KERNEL_ADD_SCALAR, call->out[0], call->in[0], scalar_of(call->attrs));
    return LAB_OK;
}

static lab_status add_scalar_vjp(lab_graph *g, lab_vjp_call *call)
{
    call->grad_in[0] = call->grad_out[0];
    return lab_graph_status(g);
}

static lab_status add_scalar_backward(lab_vjp_call *call)
{
    lab__place_sum(&call->places[0], call->grad_out[0], 1);
    return LAB_OK;
}

const lab_op lab__op_add_scalar = {
    .name = "add_scalar",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = shape_scalar,
    .forward = add_scalar_forward,
    .vjp = add_scalar_vjp,
    .backward = add_scalar_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_add_scalar(lab_graph *g, lab_tensor *x, double s)
{
    return lab__apply1(g, &lab__op_add_scalar, &s, sizeof s, x);
}

/* ---- y = x * s.    dx = dy s. ------------------------------------------------------------------------------------ */

static lab_status mul_scalar_forward(lab_op_call *call)
{
    if (call->in[0]->dtype == LAB_I64)
        map_i64(KERNEL_MUL, call->out[0], call->in[0], scalar_of(call->attrs), false);
    else
        lab__map_unary(KERNEL_MUL_SCALAR, call->out[0], call->in[0], scalar_of(call->attrs));
    return LAB_OK;
}

static lab_status mul_scalar_vjp(lab_graph *g, lab_vjp_call *call)
{
    call->grad_in[0] = lab_mul_scalar(g, call->grad_out[0], scalar_of(call->attrs));
    return lab_graph_status(g);
}

static lab_status mul_scalar_backward(lab_vjp_call *call)
{
    lab__place_unary(&call->places[0], KERNEL_MUL_SCALAR, call->grad_out[0], scalar_of(call->attrs), NULL);
    return LAB_OK;
}

const lab_op lab__op_mul_scalar = {
    .name = "mul_scalar",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = shape_scalar,
    .forward = mul_scalar_forward,
    .vjp = mul_scalar_vjp,
    .backward = mul_scalar_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_mul_scalar(lab_graph *g, lab_tensor *x, double s)
{
    return lab__apply1(g, &lab__op_mul_scalar, &s, sizeof s, x);
}

/* ---- y = e^x.    dx = dy y. -------------------------------------------------------------------------------------- */

static lab_status exp_forward(lab_op_call *call)
{
    return elementwise1(call, KERNEL_EXP);
}

static lab_status exp_vjp(lab_graph *g, lab_vjp_call *call)
{
    call->grad_in[0] = lab_mul(g, call->grad_out[0], call->out[0]);
    return lab_graph_status(g);
}

static lab_status exp_backward(lab_vjp_call *call)
{
    lab__place_binary(&call->places[0], KERNEL_MUL, call->grad_out[0], call->out[0], NULL);
    return LAB_OK;
}

const lab_op lab__op_exp = {
    .name = "exp",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_result,
    .n_reads = 1,
    .shape = shape_float,
    .forward = exp_forward,
    .vjp = exp_vjp,
    .backward = exp_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_exp(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_exp, NULL, 0, x);
}

/* ---- y = ln x.    dx = dy / x. ----------------------------------------------------------------------------------- */

static lab_status log_forward(lab_op_call *call)
{
    return elementwise1(call, KERNEL_LOG);
}

static lab_status log_vjp(lab_graph *g, lab_vjp_call *call)
{
    call->grad_in[0] = lab_div(g, call->grad_out[0], call->in[0]);
    return lab_graph_status(g);
}

static lab_status log_backward(lab_vjp_call *call)
{
    lab__place_binary(&call->places[0], KERNEL_DIV, call->grad_out[0], call->in[0], NULL);
    return LAB_OK;
}

const lab_op lab__op_log = {
    .name = "log",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_operand,
    .n_reads = 1,
    .shape = shape_float,
    .forward = log_forward,
    .vjp = log_vjp,
    .backward = log_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_log(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_log, NULL, 0, x);
}

/* ---- y = sqrt x.    dx = dy / (2 y). ----------------------------------------------------------------------------- */

static lab_status sqrt_forward(lab_op_call *call)
{
    return elementwise1(call, KERNEL_SQRT);
}

static lab_status sqrt_vjp(lab_graph *g, lab_vjp_call *call)
{
    call->grad_in[0] = lab_div(g, call->grad_out[0], lab_mul_scalar(g, call->out[0], 2));
    return lab_graph_status(g);
}

const lab_op lab__op_sqrt = {
    .name = "sqrt",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_result,
    .n_reads = 1,
    .shape = shape_float,
    .forward = sqrt_forward,
    .vjp = sqrt_vjp,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_sqrt(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_sqrt, NULL, 0, x);
}

/* ---- y = 1 / sqrt x.    dx = -dy y / (2 x). ---------------------------------------------------------------------- */

static lab_status rsqrt_forward(lab_op_call *call)
{
    return elementwise1(call, KERNEL_RSQRT);
}

static lab_status rsqrt_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *slope = lab_div(g, call->out[0], lab_mul_scalar(g, call->in[0], -2));
    call->grad_in[0] = lab_mul(g, call->grad_out[0], slope);
    return lab_graph_status(g);
}

static const lab_reads rsqrt_reads[] = {{1, 1}};

const lab_op lab__op_rsqrt = {
    .name = "rsqrt",
    .inputs = 1,
    .outputs = 1,
    .reads = rsqrt_reads,
    .n_reads = 1,
    .shape = shape_float,
    .forward = rsqrt_forward,
    .vjp = rsqrt_vjp,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_rsqrt(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_rsqrt, NULL, 0, x);
}

/* ---- y = x^p.    dx = dy p x^(p-1), 0 for p = 0. ----------------------------------------------------------------- */

static lab_status pow_scalar_forward(lab_op_call *call)
{
    lab__map_unary(KERNEL_POW_SCALAR, call->out[0], call->in[0], scalar_of(call->attrs));
    return LAB_OK;
}

static lab_status pow_scalar_vjp(lab_graph *g, lab_vjp_call *call)
{
    double p = scalar_of(call->attrs);
    if (p == 0)
        return LAB_OK;
    lab_tensor *slope = lab_mul_scalar(g, lab_pow_scalar(g, call->in[0], p - 1), p);
    call->grad_in[0] = lab_mul(g, call->grad_out[0], slope);
    return lab_graph_status(g);
}

const lab_op lab__op_pow_scalar = {
    .name = "pow_scalar",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_operand,
    .n_reads = 1,
    .shape = shape_float,
    .forward = pow_scalar_forward,
    .vjp = pow_scalar_vjp,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_pow_scalar(lab_graph *g, lab_tensor *x, double p)
{
    return lab__apply1(g, &lab__op_pow_scalar, &p, sizeof p, x);
}

/* ---- y = |x|.    dx = dy where x > 0, -dy where x < 0, else 0. --------------------------------------------------- */

static lab_status abs_forward(lab_op_call *call)
{
    lab_tensor *y = call->out[0];
    if (call->in[0]->dtype != LAB_I64)
        return elementwise1(call, KERNEL_ABS);
    map_i64(KERNEL_SUB, y, call->in[0], 0, true);
    lab__map_binary(KERNEL_MAXIMUM, y, y, call->in[0]);
    return LAB_OK;
}

static lab_status abs_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *x = call->in[0], *dy = call->grad_out[0], *zero = lab_full(g, dy->dtype, 0, NULL, 0);
    lab_tensor *below = lab_where(g, lab_less(g, x, zero), lab_neg(g, dy), zero);
    call->grad_in[0] = lab_where(g, lab_less(g, zero, x), dy, below);
    return lab_graph_status(g);
}

const lab_op lab__op_abs = {
    .name = "abs",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_operand,
    .n_reads = 1,
    .shape = shape_number,
    .forward = abs_forward,
    .vjp = abs_vjp,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_abs(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_abs, NULL, 0, x);
}

/* ---- y = sin x.    dx = dy cos x. -------------------------------------------------------------------------------- */

static lab_status sin_forward(lab_op_call *call)
{
    return elementwise1(call, KERNEL_SIN);
}

static slope_value sin_slope(slope *s, slope_value x)
{
    return lab__slope_apply(s, KERNEL_COS, x);
}

static lab_status sin_vjp(lab_graph *g, lab_vjp_call *call)
{
    return lab__slope_vjp(g, call, sin_slope, call->in[0]);
}

static lab_status sin_backward(lab_vjp_call *call)
{
    return lab__slope_backward(call, sin_slope, call->in[0], 20);
}

const lab_op lab__op_sin = {
    .name = "sin",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_operand,
    .n_reads = 1,
    .shape = shape_float,
    .forward = sin_forward,
    .vjp = sin_vjp,
    .backward = sin_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_sin(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_sin, NULL, 0, x);
}

/* ---- y = cos x.    dx = -dy sin x. ------------------------------------------------------------------------------- */

static lab_status cos_forward(lab_op_call *call)
{
    return elementwise1(call, KERNEL_COS);
}

static slope_value cos_slope(slope *s, slope_value x)
{
    return lab__slope_scale(s, lab__slope_apply(s, KERNEL_SIN, x), -1);
}

static lab_status cos_vjp(lab_graph *g, lab_vjp_call *call)
{
    return lab__slope_vjp(g, call, cos_slope, call->in[0]);
}

static lab_status cos_backward(lab_vjp_call *call)
{
    return lab__slope_backward(call, cos_slope, call->in[0], 20);
}

const lab_op lab__op_cos = {
    .name = "cos",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_operand,
    .n_reads = 1,
    .shape = shape_float,
    .forward = cos_forward,
    .vjp = cos_vjp,
    .backward = cos_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_cos(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_cos, NULL, 0, x);
}
