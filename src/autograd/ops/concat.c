/* concat.c - tensors one after another along an axis.    dxs[i] = the part of dy that came from it. */
#include "axes.h"

static lab_status concat_shape(lab_op_call *call)
{
    const lab_tensor *first = call->in[0];
    lab_status status = lab__require_axis(call, ((const axis_attrs *)call->attrs)->axis);
    if (status != LAB_OK)
        return status;
    int axis = lab__axis_of(call->attrs, first);
    lab__shape_without(call, 0, true);
    int64_t *total = &call->specs[0].shape[axis];
    for (int i = 1; i < call->n_in; i++) {
        const lab_tensor *x = call->in[i];
        status = lab__require_same_dtype(call, 0, i);
        if (status != LAB_OK)
            return status;
        bool fits = x->rank == first->rank;
        for (int j = 0; fits && j < x->rank; j++)
            fits = j == axis || x->shape[j] == first->shape[j];
        if (!fits)
            return lab_graph_fail(call->graph, LAB_ERR_SHAPE,
                                  "operand 1 is %s, operand %d is %s; they must be equal but on axis %d",
                                  lab__tensor_text(first), i + 1, lab__tensor_text(x), axis);
        if (__builtin_add_overflow(*total, x->shape[axis], total))
            return lab_graph_fail(call->graph, LAB_ERR_RANGE, "the size of axis %d overflows", axis);
    }
    return LAB_OK;
}

static lab_status concat_forward(lab_op_call *call)
{
    int axis = lab__axis_of(call->attrs, call->in[0]);
    int64_t start = 0;
    for (int i = 0; i < call->n_in; i++) {
        int64_t size = call->in[i]->shape[axis];
        lab_tensor part;
        lab__part(&part, call->out[0], axis, start, size, 1);
        lab__tensor_copy(&part, call->in[i]);
        start += size;
    }
    return LAB_OK;
}

static lab_status concat_vjp(lab_graph *g, lab_vjp_call *call)
{
    int axis = lab__axis_of(call->attrs, call->in[0]);
    int64_t start = 0;
    for (int i = 0; i < call->n_in; i++) {
        int64_t size = call->in[i]->shape[axis];
        if (call->wants[i])
            call->grad_in[i] = lab_slice(g, call->grad_out[0], axis, start, start + size, 1);
        start += size;
    }
    return lab_graph_status(g);
}

static lab_status concat_backward(lab_vjp_call *call)
{
    int axis = lab__axis_of(call->attrs, call->in[0]);
    int64_t start = 0;
    for (int i = 0; i < call->n_in; i++) {
        int64_t size = call->in[i]->shape[axis];
        lab_tensor part;
        lab__part(&part, call->grad_out[0], axis, start, size, 1);
        if (call->places[i].tensor)
            lab__place_put(&call->places[i], &part);
        start += size;
    }
    return LAB_OK;
}

static const lab_reads reads_nothing[] = {{0}};

const lab_op lab__op_concat = {
    .name = "concat",
    .inputs = -1,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = concat_shape,
    .forward = concat_forward,
    .vjp = concat_vjp,
    .backward = concat_backward,
};

lab_tensor *lab_concat(lab_graph *g, int n, lab_tensor **xs, int axis)
{
    if (!lab__healthy(g))
        return NULL;
    if (n < 1)
        return lab__refuse(g, "concat", LAB_ERR_ARGUMENT, "%d operands, must be at least 1", n);
    if (!xs)
        return lab__refuse(g, "concat", LAB_ERR_ARGUMENT, "xs is NULL");
    axis_attrs attrs = {.axis = axis};
    lab_tensor *y;
    lab__apply(g, &lab__op_concat, &attrs, sizeof attrs, n, xs, &y);
    return y;
}
