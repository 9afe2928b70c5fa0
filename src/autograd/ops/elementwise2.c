/* elementwise2.c - ops of two operands, element by element, broadcast as NumPy does it.
 *
 * In the destination form a gradient is made where it belongs; of a stretched operand it is made in scratch memory and
 * summed from there.
 */
#include "op_impl.h"

static lab_status shape_float(lab_op_call *call)
{
    lab_status status = lab__require_dtype(call, 0, ALLOW_FLOAT);
    return status == LAB_OK ? lab__shape_broadcast(call) : status;
}

static lab_status shape_number(lab_op_call *call)
{
    lab_status status = lab__require_dtype(call, 0, ALLOW_FLOAT | ALLOW_I64);
    return status == LAB_OK ? lab__shape_broadcast(call) : status;
}

static lab_status elementwise2(lab_op_call *call, kernel_binary kernel)
{
    lab__map_binary(kernel, call->out[0], call->in[0], call->in[1]);
    return LAB_OK;
}

static const lab_reads reads_nothing[] = {{0, 0}};
static const lab_reads reads_both[] = {{3, 0}};

/* ---- y = a + b.    da = dy,   db = dy. --------------------------------------------------------------------------- */

static lab_status add_forward(lab_op_call *call)
{
    return elementwise2(call, KERNEL_ADD);
}

static lab_status add_vjp(lab_graph *g, lab_vjp_call *call)
{
    for (int i = 0; i < 2; i++)
        if (call->wants[i])
            call->grad_in[i] = lab__sum_to_shape_of(g, call->grad_out[0], call->in[i]);
    return lab_graph_status(g);
}

static lab_status add_backward(lab_vjp_call *call)
{
    for (int i = 0; i < 2; i++)
        if (call->places[i].tensor)
            lab__place_sum(&call->places[i], call->grad_out[0], 1);
    return LAB_OK;
}

const lab_op lab__op_add = {
    .name = "add",
    .inputs = 2,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = shape_number,
    .forward = add_forward,
    .vjp = add_vjp,
    .backward = add_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_add(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return lab__apply2(g, &lab__op_add, NULL, 0, a, b);
}

/* ---- y = a - b.    da = dy,   db = -dy. -------------------------------------------------------------------------- */

static lab_status sub_forward(lab_op_call *call)
{
    return elementwise2(call, KERNEL_SUB);
}

static lab_status sub_vjp(lab_graph *g, lab_vjp_call *call)
{
    if (call->wants[0])
        call->grad_in[0] = lab__sum_to_shape_of(g, call->grad_out[0], call->in[0]);
    if (call->wants[1])
        call->grad_in[1] = lab_neg(g, lab__sum_to_shape_of(g, call->grad_out[0], call->in[1]));
    return lab_graph_status(g);
}

static lab_status sub_backward(lab_vjp_call *call)
{
    for (int i = 0; i < 2; i++)
        if (call->places[i].tensor)
            lab__place_sum(&call->places[i], call->grad_out[0], i == 0 ? 1 : -1);
    return LAB_OK;
}

const lab_op lab__op_sub = {
    .name = "sub",
    .inputs = 2,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = shape_number,
    .forward = sub_forward,
    .vjp = sub_vjp,
    .backward = sub_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_sub(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return lab__apply2(g, &lab__op_sub, NULL, 0, a, b);
}

/* ---- y = a * b.    da = dy * b,   db = dy * a. ------------------------------------------------------------------- */

static lab_status mul_forward(lab_op_call *call)
{
    return elementwise2(call, KERNEL_MUL);
}

static lab_status mul_vjp(lab_graph *g, lab_vjp_call *call)
{
    for (int i = 0; i < 2; i++)
        if (call->wants[i])
            call->grad_in[i] = lab__sum_to_shape_of(g, lab_mul(g, call->grad_out[0], call->in[1 - i]), call->in[i]);
    return lab_graph_status(g);
}

static lab_status mul_backward(lab_vjp_call *call)
{
    for (int i = 0; i < 2; i++)
        if (call->places[i].tensor)
            lab__place_binary(&call->places[i], KERNEL_MUL, call->grad_out[0], call->in[1 - i], call->scratch);
    return LAB_OK;
}

static const lab_reads mul_reads[] = {{2, 0}, {1, 0}};

const lab_op lab__op_mul = {
    .name = "mul",
    .inputs = 2,
    .outputs = 1,
    .reads = mul_reads,
    .n_reads = 2,
    .shape = shape_number,
    .forward = mul_forward,
    .vjp = mul_vjp,
    .backward_scratch = lab__place_scratch,
    .backward = mul_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_mul(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return lab__apply2(g, &lab__op_mul, NULL, 0, a, b);
}

/* ---- y = a / b.    da = dy / b,   db = -dy y / b. ---------------------------------------------------------------- */

static lab_status div_forward(lab_op_call *call)
{
    return elementwise2(call, KERNEL_DIV);
}

static lab_status div_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *slope = lab_div(g, call->grad_out[0], call->in[1]);
    if (call->wants[0])
        call->grad_in[0] = lab__sum_to_shape_of(g, slope, call->in[0]);
    if (call->wants[1])
        call->grad_in[1] = lab_neg(g, lab__sum_to_shape_of(g, lab_mul(g, slope, call->out[0]), call->in[1]));
    return lab_graph_status(g);
}

static const lab_reads div_reads[] = {{2, 0}, {2, 1}};

const lab_op lab__op_div = {
    .name = "div",
    .inputs = 2,
    .outputs = 1,
    .reads = div_reads,
    .n_reads = 2,
    .shape = shape_float,
    .forward = div_forward,
    .vjp = div_vjp,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_div(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return lab__apply2(g, &lab__op_div, NULL, 0, a, b);
}

/* ---- y = max(a, b), min(a, b).    dy to the operand that y is: to a where they are equal, or a is NaN. ----------- */

static lab_status extreme_vjp(lab_graph *g, lab_vjp_call *call, bool largest)
{
    lab_tensor *a = call->in[0], *b = call->in[1], *dy = call->grad_out[0];
    lab_tensor *a_wins = largest ? lab_less_equal(g, b, a) : lab_less_equal(g, a, b);
    lab_tensor *from_a = lab_logical_or(g, a_wins, lab_logical_not(g, lab_equal(g, a, a)));
    lab_tensor *zero = lab_full(g, dy->dtype, 0, NULL, 0);
    if (call->wants[0])
        call->grad_in[0] = lab__sum_to_shape_of(g, lab_where(g, from_a, dy, zero), a);
    if (call->wants[1])
        call->grad_in[1] = lab__sum_to_shape_of(g, lab_where(g, from_a, zero, dy), b);
    return lab_graph_status(g);
}

typedef struct extreme {
    bool largest, to_a;
} extreme;

/* The same on a row; x is dy, a, b. */
static void produce_extreme(const void *context, kernel_type type, int64_t n, void *y, int64_t y_stride, char *const *x,
                            const int64_t *x_strides)
{
    const extreme *e = context;
    const kernel_compare_fn *compare = lab__kernels()->compare[type];
    const int lesser = e->largest ? 2 : 1, greater = 3 - lesser;
    uint8_t wins[PLACE_CHUNK_BYTES / 4], number[PLACE_CHUNK_BYTES / 4];
    compare[KERNEL_LESS_EQUAL](n, wins, 1, x[lesser], x_strides[lesser], x[greater], x_strides[greater]);
    compare[KERNEL_EQUAL](n, number, 1, x[1], x_strides[1], x[1], x_strides[1]);
    lab__kernel_logical_not(n, number, 1, number, 1);
    lab__kernel_logical_or(n, wins, 1, wins, 1, number, 1);
    const int size = type == KERNEL_F64 ? 8 : 4;
    if (e->to_a)
        lab__kernel_where(n, size, y, y_stride, wins, 1, x[0], x_strides[0], lab__zero_row, 1);
    else
        lab__kernel_where(n, size, y, y_stride, wins, 1, lab__zero_row, 1, x[0], x_strides[0]);
}

static lab_status extreme_backward(lab_vjp_call *call, bool largest)
{
    const lab_tensor *xs[] = {call->grad_out[0], call->in[0], call->in[1]};
    for (int i = 0; i < 2; i++) {
        const extreme e = {.largest = largest, .to_a = i == 0};
        if (call->places[i].tensor)
            lab__place_compute(&call->places[i], 3, xs, 10, produce_extreme, &e, call->scratch);
    }
    return LAB_OK;
}

static lab_status maximum_forward(lab_op_call *call)
{
    return elementwise2(call, KERNEL_MAXIMUM);
}

static lab_status maximum_vjp(lab_graph *g, lab_vjp_call *call)
{
    return extreme_vjp(g, call, true);
}

static lab_status maximum_backward(lab_vjp_call *call)
{
    return extreme_backward(call, true);
}

const lab_op lab__op_maximum = {
    .name = "maximum",
    .inputs = 2,
    .outputs = 1,
    .reads = reads_both,
    .n_reads = 1,
    .shape = shape_number,
    .forward = maximum_forward,
    .vjp = maximum_vjp,
    .backward_scratch = lab__place_scratch,
    .backward = maximum_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_maximum(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return lab__apply2(g, &lab__op_maximum, NULL, 0, a, b);
}

static lab_status minimum_forward(lab_op_call *call)
{
    return elementwise2(call, KERNEL_MINIMUM);
}

static lab_status minimum_vjp(lab_graph *g, lab_vjp_call *call)
{
    return extreme_vjp(g, call, false);
}

static lab_status minimum_backward(lab_vjp_call *call)
{
    return extreme_backward(call, false);
}

const lab_op lab__op_minimum = {
    .name = "minimum",
    .inputs = 2,
    .outputs = 1,
    .reads = reads_both,
    .n_reads = 1,
    .shape = shape_number,
    .forward = minimum_forward,
    .vjp = minimum_vjp,
    .backward_scratch = lab__place_scratch,
    .backward = minimum_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_minimum(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return lab__apply2(g, &lab__op_minimum, NULL, 0, a, b);
}
