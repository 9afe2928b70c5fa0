/* where.c - selection.    y = condition ? a : b,   da = condition ? dy : 0,   db = condition ? 0 : dy.
 *
 * The derivative selects too: what was not selected leaves no trace, be it NaN.
 */
#include "op_impl.h"

static lab_status where_shape(lab_op_call *call)
{
    const lab_tensor *condition = call->in[0], *a = call->in[1], *b = call->in[2];
    lab_spec *spec = &call->specs[0];
    lab_status status = lab__require_dtype(call, 0, ALLOW_BOOL);
    if (status == LAB_OK)
        status = lab__require_same_dtype(call, 1, 2);
    if (status != LAB_OK)
        return status;
    spec->dtype = a->dtype;
    spec->rank = condition->rank;
    memcpy(spec->shape, condition->shape, (size_t)condition->rank * sizeof *spec->shape);
    if (!lab__broadcast_shapes(&spec->rank, spec->shape, a->rank, a->shape) ||
        !lab__broadcast_shapes(&spec->rank, spec->shape, b->rank, b->shape))
        return lab_graph_fail(call->graph, LAB_ERR_SHAPE,
                              "shapes do not broadcast: condition %s, a %s, b %s; aligned at the last axis, sizes must "
                              "be equal or 1",
                              lab__shape_text(condition->rank, condition->shape), lab__shape_text(a->rank, a->shape),
                              lab__shape_text(b->rank, b->shape));
    return LAB_OK;
}

static lab_status where_forward(lab_op_call *call)
{
    lab__map_where(call->out[0], call->in[0], call->in[1], call->in[2]);
    return LAB_OK;
}

static lab_status where_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *dy = call->grad_out[0], *zero = lab_full(g, dy->dtype, 0, NULL, 0);
    if (call->wants[1])
        call->grad_in[1] = lab__sum_to_shape_of(g, lab_where(g, call->in[0], dy, zero), call->in[1]);
    if (call->wants[2])
        call->grad_in[2] = lab__sum_to_shape_of(g, lab_where(g, call->in[0], zero, dy), call->in[2]);
    return lab_graph_status(g);
}

/* x is dy and the condition; the context, whether true selects. */
static void produce_where(const void *context, kernel_type type, int64_t n, void *y, int64_t y_stride, char *const *x,
                          const int64_t *x_strides)
{
    const int size = type == KERNEL_F64 ? 8 : 4;
    const uint8_t *condition = (const uint8_t *)x[1];
    if (*(const bool *)context)
        lab__kernel_where(n, size, y, y_stride, condition, x_strides[1], x[0], x_strides[0], lab__zero_row, 1);
    else
        lab__kernel_where(n, size, y, y_stride, condition, x_strides[1], lab__zero_row, 1, x[0], x_strides[0]);
}

static lab_status where_backward(lab_vjp_call *call)
{
    const lab_tensor *xs[] = {call->grad_out[0], call->in[0]};
    for (int i = 1; i < 3; i++) {
        const bool selects = i == 1;
        if (call->places[i].tensor)
            lab__place_compute(&call->places[i], 2, xs, 5, produce_where, &selects, call->scratch);
    }
    return LAB_OK;
}

static size_t where_scratch(const lab_vjp_call *call)
{
    lab_vjp_call branches = *call; /* the condition gets no gradient */
    branches.n_in = 2;
    branches.in = call->in + 1;
    branches.wants = call->wants + 1;
    return lab__place_scratch(&branches);
}

static const lab_reads where_reads[] = {{0, 0}, {1, 0}};

const lab_op lab__op_where = {
    .name = "where",
    .inputs = 3,
    .outputs = 1,
    .constant = 1,
    .reads = where_reads,
    .n_reads = 2,
    .shape = where_shape,
    .forward = where_forward,
    .vjp = where_vjp,
    .backward_scratch = where_scratch,
    .backward = where_backward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_where(lab_graph *g, lab_tensor *condition, lab_tensor *a, lab_tensor *b)
{
    return lab__apply3(g, &lab__op_where, NULL, 0, condition, a, b);
}
