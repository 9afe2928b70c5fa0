/* softmax.c - softmax, log_softmax and logsumexp along an axis.
 *
 * The rows' arithmetic, edges of infinity included, is the kernels'. What the recorded derivatives select by `where`
 * is what the kernels promise: where a weight is 0, nothing of dy is read into the result.
 */
#include "axes.h"

enum { COST_OF_EXP = 20 };

static lab_status row_shape(lab_op_call *call)
{
    const axis_attrs *attrs = call->attrs;
    lab_status status = lab__require_dtype(call, 0, ALLOW_FLOAT);
    if (status == LAB_OK)
        status = lab__require_axis(call, attrs->axis);
    return status == LAB_OK ? lab__shape_same(call) : status;
}

/* Two functions of kernel_row_fns, of which a row's body needs one. */
typedef struct row_work {
    void (*map)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride);
    void (*backward)(int64_t n, void *dx, int64_t dx_stride, const void *y, int64_t y_stride, const void *dy,
                     int64_t dy_stride, bool add);
    bool add;
} row_work;

static void map_row(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const row_work *work = context;
    work->map(n, data[0], strides[0], data[1], strides[1]);
}

static void backward_row(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const row_work *work = context;
    work->backward(n, data[0], strides[0], data[1], strides[1], data[2], strides[2], work->add);
}

static const kernel_row_fns *row_kernels(const lab_tensor *x)
{
    return &lab__kernels()->row[lab__kernel_type(x->dtype)];
}

static lab_status map_rows(lab_op_call *call, row_work work)
{
    const lab_tensor *operands[] = {call->out[0], call->in[0]};
    loop rows;
    lab__loop_make_axis(&rows, 2, operands, lab__axis_of(call->attrs, call->in[0]));
    lab__loop_run_rows(&rows, COST_OF_EXP, map_row, &work);
    return LAB_OK;
}

static lab_status backward_rows(lab_vjp_call *call, row_work work)
{
    const lab_place *place = &call->places[0];
    if (!place->tensor)
        return LAB_OK;
    work.add = place->add;
    const lab_tensor *operands[] = {place->tensor, call->out[0], call->grad_out[0]};
    loop rows;
    lab__loop_make_axis(&rows, 3, operands, lab__axis_of(call->attrs, call->in[0]));
    lab__loop_run_rows(&rows, COST_OF_EXP, backward_row, &work);
    return LAB_OK;
}

static lab_tensor *sum_along(lab_graph *g, lab_tensor *x, int axis)
{
    return lab_sum(g, x, 1, &axis, true);
}

/* ---- softmax: dx = y (dy - sum(dy y)), exactly 0 where y is ------------------------------------------------------ */

static lab_status softmax_forward(lab_op_call *call)
{
    return map_rows(call, (row_work){.map = row_kernels(call->in[0])->softmax});
}

static lab_status softmax_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *y = call->out[0];
    lab_tensor *zero = lab_full(g, y->dtype, 0, NULL, 0.0);
    lab_tensor *gone = lab_equal(g, y, zero);
    lab_tensor *dy = lab_where(g, gone, zero, call->grad_out[0]);
    lab_tensor *mean = sum_along(g, lab_mul(g, dy, y), lab__axis_of(call->attrs, y));
    call->grad_in[0] = lab_where(g, gone, zero, lab_mul(g, y, lab_sub(g, dy, mean)));
    return lab_graph_status(g);
}

static lab_status softmax_backward(lab_vjp_call *call)
{
    return backward_rows(call, (row_work){.backward = row_kernels(call->in[0])->softmax_backward});
}

static const lab_reads reads_result[] = {{.out = 1}};

const lab_op lab__op_softmax = {
    .name = "softmax",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_result,
    .n_reads = 1,
    .shape = row_shape,
    .forward = softmax_forward,
    .vjp = softmax_vjp,
    .backward = softmax_backward,
};

lab_tensor *lab_softmax(lab_graph *g, lab_tensor *x, int axis)
{
    axis_attrs attrs = {.axis = axis};
    return lab__apply1(g, &lab__op_softmax, &attrs, sizeof attrs, x);
}

/* ---- log_softmax: dx = dy - e^y sum(dy) ------------------------------------------------------------------------- */

static lab_status log_softmax_forward(lab_op_call *call)
{
    return map_rows(call, (row_work){.map = row_kernels(call->in[0])->log_softmax});
}

static lab_status log_softmax_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *y = call->out[0], *dy = call->grad_out[0];
    lab_tensor *total = sum_along(g, dy, lab__axis_of(call->attrs, y));
    call->grad_in[0] = lab_sub(g, dy, lab_mul(g, lab_exp(g, y), total));
    return lab_graph_status(g);
}

static lab_status log_softmax_backward(lab_vjp_call *call)
{
    return backward_rows(call, (row_work){.backward = row_kernels(call->in[0])->log_softmax_backward});
}

const lab_op lab__op_log_softmax = {
    .name = "log_softmax",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_result,
    .n_reads = 1,
    .shape = row_shape,
    .forward = log_softmax_forward,
    .vjp = log_softmax_vjp,
    .backward = log_softmax_backward,
};

lab_tensor *lab_log_softmax(lab_graph *g, lab_tensor *x, int axis)
{
    axis_attrs attrs = {.axis = axis};
    return lab__apply1(g, &lab__op_log_softmax, &attrs, sizeof attrs, x);
}

/* ---- logsumexp: dx = dy e^(x - y), exactly 0 where that power is, and in a row of -inf; NaN in a row with +inf --- */

static lab_status logsumexp_shape(lab_op_call *call)
{
    const axis_attrs *attrs = call->attrs;
    lab_status status = row_shape(call);
    if (status == LAB_OK)
        lab__shape_without(call, 1u << lab__axis_of(attrs, call->in[0]), attrs->keep);
    return status;
}

/* The kernel subtracts the maximum and meets inf - inf where that is +inf, which is then the sum's logarithm too. */
static double logsumexp_of(const kernel_row_fns *kernels, int64_t n, const void *x, int64_t stride)
{
    double y = kernels->logsumexp(n, x, stride);
    return isnan(y) && kernels->maximum(n, x, stride) == INFINITY ? INFINITY : y;
}

static void logsumexp_row_f32(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    *(float *)data[1] = (float)logsumexp_of(context, n, data[0], strides[0]);
}

static void logsumexp_row_f64(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    *(double *)data[1] = logsumexp_of(context, n, data[0], strides[0]);
}

static lab_status logsumexp_forward(lab_op_call *call)
{
    const lab_tensor *x = call->in[0];
    int axis = lab__axis_of(call->attrs, x);
    if (x->shape[axis] == 0) {
        lab__tensor_fill(call->out[0], -INFINITY);
        return LAB_OK;
    }
    lab_tensor y;
    lab__stretched(&y, call->out[0], x, 1u << axis);
    const lab_tensor *operands[] = {x, &y};
    loop rows;
    lab__loop_make_axis(&rows, 2, operands, axis);
    kernel_row_fns kernels = *row_kernels(x);
    lab__loop_run_rows(&rows, COST_OF_EXP, x->dtype == LAB_F32 ? logsumexp_row_f32 : logsumexp_row_f64, &kernels);
    return LAB_OK;
}

static lab_status logsumexp_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *x = call->in[0];
    int axis = lab__axis_of(call->attrs, x);
    lab_tensor *dy = lab__with_axes(g, call->grad_out[0], x, 1u << axis);
    lab_tensor *weights = lab_softmax(g, x, axis); /* 0 in a row of -inf, where e^(x - y) would be NaN */
    lab_tensor *zero = lab_full(g, x->dtype, 0, NULL, 0.0);
    call->grad_in[0] = lab_mul(g, weights, lab_where(g, lab_equal(g, weights, zero), zero, dy));
    return lab_graph_status(g);
}

/* The power comes from the row's maximum and the sum of e^(x - maximum) once more, not from y: where x is large, y has
 * been rounded by more than the weights can bear (at 1e7 in f32 they would be off by a quarter). */
enum { LOGSUMEXP_PIECE = 256 };

static double load(const void *data, bool wide)
{
    return wide ? *(const double *)data : *(const float *)data;
}

typedef struct logsumexp_work {
    const kernel_unary_fn *unary;
    const kernel_row_fns *row;
    bool wide, add;
} logsumexp_work;

typedef union logsumexp_weights {
    float f32[LOGSUMEXP_PIECE];
    double f64[LOGSUMEXP_PIECE];
} logsumexp_weights;

/* dx (+)= weight dy, 0 where the weight is 0 whatever dy holds. */
static void put_weighed_f32(int64_t n, float *dx, int64_t stride, const float *weights, float dy, bool add)
{
    for (int64_t i = 0; i < n; i++) {
        float value = weights[i] == 0 ? 0 : weights[i] * dy;
        dx[i * stride] = add ? dx[i * stride] + value : value;
    }
}

static void put_weighed_f64(int64_t n, double *dx, int64_t stride, const double *weights, double dy, bool add)
{
    for (int64_t i = 0; i < n; i++) {
        double value = weights[i] == 0 ? 0 : weights[i] * dy;
        dx[i * stride] = add ? dx[i * stride] + value : value;
    }
}

static int64_t piece_at(int64_t first, int64_t n)
{
    return n - first < LOGSUMEXP_PIECE ? n - first : LOGSUMEXP_PIECE;
}

/* e^(x - shift) for a piece of a row, the one that begins at `first`. */
static void weigh(const logsumexp_work *work, logsumexp_weights *weights, int64_t n, int64_t first, const char *row,
                  int64_t stride, double shift)
{
    const char *x = row + (size_t)(first * stride) * (work->wide ? sizeof(double) : sizeof(float));
    int64_t count = piece_at(first, n);
    work->unary[KERNEL_ADD_SCALAR](count, weights, 1, x, stride, -shift);
    work->unary[KERNEL_EXP](count, weights, 1, weights, 1, 0.0);
}

/* data: dx, x, dy, which stands still. A row of -inf keeps weights of 0. */
static void logsumexp_backward_row(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const logsumexp_work *work = context;
    size_t element = work->wide ? sizeof(double) : sizeof(float);
    double shift = work->row->maximum(n, data[1], strides[1]), sum = 0;
    if (shift == INFINITY)
        shift = NAN; /* as the recorded form has it: softmax knows no weights there */
    logsumexp_weights weights = {0};
    for (int64_t first = 0; first < n && shift != -INFINITY; first += LOGSUMEXP_PIECE) {
        weigh(work, &weights, n, first, data[1], strides[1], shift);
        sum += work->row->sum(piece_at(first, n), &weights, 1);
    }
    double dy = sum == 0 ? 0 : load(data[2], work->wide) / sum;
    for (int64_t first = 0; first < n; first += LOGSUMEXP_PIECE) {
        char *dx = data[0] + (size_t)(first * strides[0]) * element;
        if (shift != -INFINITY)
            weigh(work, &weights, n, first, data[1], strides[1], shift);
        if (work->wide)
            put_weighed_f64(piece_at(first, n), (double *)dx, strides[0], weights.f64, dy, work->add);
        else
            put_weighed_f32(piece_at(first, n), (float *)dx, strides[0], weights.f32, (float)dy, work->add);
    }
}

static lab_status logsumexp_backward(lab_vjp_call *call)
{
    const lab_tensor *x = call->in[0];
    const lab_place *place = &call->places[0];
    if (!place->tensor)
        return LAB_OK;
    int axis = lab__axis_of(call->attrs, x);
    lab_tensor dy;
    lab__stretched(&dy, call->grad_out[0], x, 1u << axis);
    const lab_tensor *operands[] = {place->tensor, x, &dy};
    logsumexp_work work = {.unary = lab__kernels()->unary[lab__kernel_type(x->dtype)],
                           .row = row_kernels(x),
                           .wide = x->dtype == LAB_F64,
                           .add = place->add};
    loop rows;
    lab__loop_make_axis(&rows, 3, operands, axis);
    lab__loop_run_rows(&rows, 2 * COST_OF_EXP, logsumexp_backward_row, &work);
    return LAB_OK;
}

static const lab_reads reads_operand[] = {{.in = 1}};

const lab_op lab__op_logsumexp = {
    .name = "logsumexp",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_operand,
    .n_reads = 1,
    .shape = logsumexp_shape,
    .forward = logsumexp_forward,
    .vjp = logsumexp_vjp,
    .backward = logsumexp_backward,
};

lab_tensor *lab_logsumexp(lab_graph *g, lab_tensor *x, int axis, bool keep)
{
    axis_attrs attrs = {.axis = axis, .keep = keep};
    return lab__apply1(g, &lab__op_logsumexp, &attrs, sizeof attrs, x);
}
