/* activations.c - functions of one operand that networks bend their values with: tanh, sigmoid, erf, relu, gelu, silu.
 *
 * Each is a kernel and a slope (slope.h), from which both forms of the derivative come.
 */
#include "slope.h"

static lab_status shape_float(lab_op_call *call)
{
    lab_status status = lab__require_dtype(call, 0, ALLOW_FLOAT);
    return status == LAB_OK ? lab__shape_same(call) : status;
}

static lab_status elementwise1(lab_op_call *call, kernel_unary kernel)
{
    lab__map_unary(kernel, call->out[0], call->in[0], 0);
    return LAB_OK;
}

static const lab_reads reads_operand[] = {{1, 0}};
static const lab_reads reads_result[] = {{0, 1}};

/* ---- y = tanh x.    dx = dy (1 - y^2). --------------------------------------------------------------------------- */

static lab_status tanh_forward(lab_op_call *call)
{
    return elementwise1(call, KERNEL_TANH);
}

static slope_value tanh_slope(slope *s, slope_value y)
{
    return lab__slope_shift(s, lab__slope_scale(s, lab__slope_mul(s, y, y), -1), 1);
}

static lab_status tanh_vjp(lab_graph *g, lab_vjp_call *call)
{
    return lab__slope_vjp(g, call, tanh_slope, call->out[0]);
}

static lab_status tanh_backward(lab_vjp_call *call)
{
    return lab__slope_backward(call, tanh_slope, call->out[0], 6);
}

const lab_op lab__op_tanh = {
    .name = "tanh",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_result,
    .n_reads = 1,
    .shape = shape_float,
    .forward = tanh_forward,
    .vjp = tanh_vjp,
    .backward = tanh_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_tanh(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_tanh, NULL, 0, x);
}

/* ---- y = 1 / (1 + e^-x).    dx = dy y (1 - y). ------------------------------------------------------------------- */

static lab_status sigmoid_forward(lab_op_call *call)
{
    return elementwise1(call, KERNEL_SIGMOID);
}

static slope_value sigmoid_slope(slope *s, slope_value y)
{
    return lab__slope_mul(s, y, lab__slope_shift(s, lab__slope_scale(s, y, -1), 1));
}

static lab_status sigmoid_vjp(lab_graph *g, lab_vjp_call *call)
{
    return lab__slope_vjp(g, call, sigmoid_slope, call->out[0]);
}

static lab_status sigmoid_backward(lab_vjp_call *call)
{
    return lab__slope_backward(call, sigmoid_slope, call->out[0], 6);
}

const lab_op lab__op_sigmoid = {
    .name = "sigmoid",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_result,
    .n_reads = 1,
    .shape = shape_float,
    .forward = sigmoid_forward,
    .vjp = sigmoid_vjp,
    .backward = sigmoid_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_sigmoid(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_sigmoid, NULL, 0, x);
}

/* ---- y = erf x.    dx = dy 2/sqrt(pi) e^(-x^2). ------------------------------------------------------------------ */

static lab_status erf_forward(lab_op_call *call)
{
    return elementwise1(call, KERNEL_ERF);
}

static slope_value erf_slope(slope *s, slope_value x)
{
    return lab__slope_scale(s, lab__slope_apply(s, KERNEL_EXP, lab__slope_scale(s, lab__slope_mul(s, x, x), -1)),
                            M_2_SQRTPI);
}

static lab_status erf_vjp(lab_graph *g, lab_vjp_call *call)
{
    return lab__slope_vjp(g, call, erf_slope, call->in[0]);
}

static lab_status erf_backward(lab_vjp_call *call)
{
    return lab__slope_backward(call, erf_slope, call->in[0], 12);
}

const lab_op lab__op_erf = {
    .name = "erf",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_operand,
    .n_reads = 1,
    .shape = shape_float,
    .forward = erf_forward,
    .vjp = erf_vjp,
    .backward = erf_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_erf(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_erf, NULL, 0, x);
}

/* ---- y = max(x, 0).    dx = dy where x > 0, else 0: what is not selected leaves no trace. ------------------------ */

static lab_status relu_forward(lab_op_call *call)
{
    return elementwise1(call, KERNEL_RELU);
}

static lab_status relu_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *dy = call->grad_out[0], *zero = lab_full(g, dy->dtype, 0, NULL, 0);
    call->grad_in[0] = lab_where(g, lab_less(g, zero, call->in[0]), dy, zero);
    return lab_graph_status(g);
}

/* x is dy and the operand. */
static void produce_relu(const void *context, kernel_type type, int64_t n, void *y, int64_t y_stride, char *const *x,
                         const int64_t *x_strides)
{
    (void)context;
    uint8_t positive[PLACE_CHUNK_BYTES / 4];
    lab__kernels()->compare[type][KERNEL_LESS](n, positive, 1, lab__zero_row, 1, x[1], x_strides[1]);
    lab__kernel_where(n, type == KERNEL_F64 ? 8 : 4, y, y_stride, positive, 1, x[0], x_strides[0], lab__zero_row, 1);
}

static lab_status relu_backward(lab_vjp_call *call)
{
    lab__place_compute(&call->places[0], 2, (const lab_tensor *[]){call->grad_out[0], call->in[0]}, 5, produce_relu,
                       NULL, NULL);
    return LAB_OK;
}

const lab_op lab__op_relu = {
    .name = "relu",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_operand,
    .n_reads = 1,
    .shape = shape_float,
    .forward = relu_forward,
    .vjp = relu_vjp,
    .backward = relu_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_relu(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_relu, NULL, 0, x);
}

/* ---- y = x Phi(x), or with tanh for Phi.
 *
 *     erf:   y' = Phi(x) + x phi(x),   Phi(x) = (1 + erf(x / sqrt 2)) / 2,   phi(x) = e^(-x^2 / 2) / sqrt(2 pi)
 *     tanh:  y' = (1 + t) / 2 + x (1 - t^2) u' / 2,   t = tanh u,   u = c (x + a x^3),   u' = c (1 + 3 a x^2)
 *
 * Beyond 40 both are 0 or 1 in either precision. ------------------------------------------------------------------- */

enum { GELU_FLAT = 40 };
static const double gelu_cubic = 0.044715;
static const double sqrt_2_over_pi = M_2_SQRTPI * M_SQRT1_2;

static lab_gelu_kind gelu_kind(const void *attrs)
{
    return *(const lab_gelu_kind *)attrs;
}

static lab_status gelu_forward(lab_op_call *call)
{
    return elementwise1(call, gelu_kind(call->attrs) == LAB_GELU_TANH ? KERNEL_GELU_TANH : KERNEL_GELU_ERF);
}

static slope_value gelu_erf_slope(slope *s, slope_value x)
{
    x = lab__slope_clamp(s, x, GELU_FLAT);
    slope_value area = lab__slope_scale(
        s, lab__slope_shift(s, lab__slope_apply(s, KERNEL_ERF, lab__slope_scale(s, x, M_SQRT1_2)), 1), 0.5);
    slope_value density = lab__slope_apply(s, KERNEL_EXP, lab__slope_scale(s, lab__slope_mul(s, x, x), -0.5));
    return lab__slope_add(s, area, lab__slope_mul(s, x, lab__slope_scale(s, density, 0.5 * sqrt_2_over_pi)));
}

static slope_value gelu_tanh_slope(slope *s, slope_value x)
{
    x = lab__slope_clamp(s, x, GELU_FLAT);
    slope_value square = lab__slope_mul(s, x, x);
    slope_value u = lab__slope_mul(
        s, x, lab__slope_shift(s, lab__slope_scale(s, square, sqrt_2_over_pi * gelu_cubic), sqrt_2_over_pi));
    slope_value du = lab__slope_shift(s, lab__slope_scale(s, square, 3 * sqrt_2_over_pi * gelu_cubic), sqrt_2_over_pi);
    slope_value t = lab__slope_apply(s, KERNEL_TANH, u);
    slope_value rest = lab__slope_mul(s, lab__slope_mul(s, x, tanh_slope(s, t)), du);
    return lab__slope_scale(s, lab__slope_add(s, lab__slope_shift(s, t, 1), rest), 0.5);
}

static slope_fn gelu_slope(const void *attrs)
{
    return gelu_kind(attrs) == LAB_GELU_TANH ? gelu_tanh_slope : gelu_erf_slope;
}

static lab_status gelu_vjp(lab_graph *g, lab_vjp_call *call)
{
    return lab__slope_vjp(g, call, gelu_slope(call->attrs), call->in[0]);
}

/* x is dy and the operand. */
static void produce_gelu(const void *context, kernel_type type, int64_t n, void *y, int64_t y_stride, char *const *x,
                         const int64_t *x_strides)
{
    _Alignas(64) char rows[3][PLACE_CHUNK_BYTES];
    const kernel_table *kernels = lab__kernels();
    const void *from[2];
    for (int i = 0; i < 2; i++) {
        from[i] = x[i];
        if (x_strides[i] != 1) {
            kernels->unary[type][KERNEL_COPY](n, rows[i], 1, x[i], x_strides[i], 0);
            from[i] = rows[i];
        }
    }
    void *to = y_stride == 1 ? y : rows[2];
    const int kind = gelu_kind(context) == LAB_GELU_TANH ? KERNEL_BY_TANH : KERNEL_BY_ERF;
    kernels->gelu[type][kind].backward(n, to, false, from[1], NULL, from[0], NULL);
    if (to != y)
        kernels->unary[type][KERNEL_COPY](n, y, y_stride, to, 1, 0);
}

static lab_status gelu_backward(lab_vjp_call *call)
{
    lab__place_compute(&call->places[0], 2, (const lab_tensor *[]){call->grad_out[0], call->in[0]}, 12, produce_gelu,
                       call->attrs, NULL);
    return LAB_OK;
}

const lab_op lab__op_gelu = {
    .name = "gelu",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_operand,
    .n_reads = 1,
    .shape = shape_float,
    .forward = gelu_forward,
    .vjp = gelu_vjp,
    .backward = gelu_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_gelu(lab_graph *g, lab_tensor *x, lab_gelu_kind kind)
{
    if (kind != LAB_GELU_ERF && kind != LAB_GELU_TANH)
        return lab__refuse(g, "gelu", LAB_ERR_ARGUMENT, "kind %d is neither LAB_GELU_ERF nor LAB_GELU_TANH", (int)kind);
    return lab__apply1(g, &lab__op_gelu, &kind, sizeof kind, x);
}

/* ---- y = x sigmoid(x).    dx = dy s (1 + x (1 - s)),   s = sigmoid(x); beyond 800 that is 0 or 1. ---------------- */

enum { SILU_FLAT = 800 };

static lab_status silu_forward(lab_op_call *call)
{
    return elementwise1(call, KERNEL_SILU);
}

static slope_value silu_slope(slope *s, slope_value x)
{
    x = lab__slope_clamp(s, x, SILU_FLAT);
    slope_value y = lab__slope_apply(s, KERNEL_SIGMOID, x);
    slope_value rest = lab__slope_mul(s, x, lab__slope_shift(s, lab__slope_scale(s, y, -1), 1));
    return lab__slope_mul(s, y, lab__slope_shift(s, rest, 1));
}

static lab_status silu_vjp(lab_graph *g, lab_vjp_call *call)
{
    return lab__slope_vjp(g, call, silu_slope, call->in[0]);
}

static lab_status silu_backward(lab_vjp_call *call)
{
    return lab__slope_backward(call, silu_slope, call->in[0], 20);
}

const lab_op lab__op_silu = {
    .name = "silu",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_operand,
    .n_reads = 1,
    .shape = shape_float,
    .forward = silu_forward,
    .vjp = silu_vjp,
    .backward = silu_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_silu(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_silu, NULL, 0, x);
}
