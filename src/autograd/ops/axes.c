/* axes.c - the check of an axis, and headers that show a tensor in another shape. */
#include "axes.h"

bool lab__take_shape(lab_graph *g, const char *name, shape_attrs *attrs, int rank, const int64_t *shape, int64_t least)
{
    if (!lab__healthy(g))
        return false;
    if (rank < 0 || rank > LAB_MAX_RANK)
        lab__refuse(g, name, LAB_ERR_RANGE, "rank %d, must be 0 to %d", rank, LAB_MAX_RANK);
    else if (rank > 0 && !shape)
        lab__refuse(g, name, LAB_ERR_ARGUMENT, "shape is NULL");
    *attrs = (shape_attrs){.rank = rank};
    for (int i = 0; i < rank && lab__healthy(g); i++) {
        attrs->shape[i] = shape[i];
        if (shape[i] < least)
            lab__refuse(g, name, LAB_ERR_RANGE, "a size in %s is negative", lab__shape_text(rank, shape));
    }
    return lab__healthy(g);
}

lab_status lab__require_axis(lab_op_call *call, int axis)
{
    const lab_tensor *x = call->in[0];
    if (lab__axis(x->rank, axis) >= 0)
        return LAB_OK;
    return lab_graph_fail(call->graph, LAB_ERR_RANGE, "axis %d is out of range for %s, which has %d", axis,
                          lab__tensor_text(x), x->rank);
}

void lab__shape_without(lab_op_call *call, unsigned axes, bool keep)
{
    const lab_tensor *x = call->in[0];
    lab_spec *y = &call->specs[0];
    y->dtype = x->dtype;
    y->rank = 0;
    for (int i = 0; i < x->rank; i++) {
        bool reduced = axes >> i & 1;
        if (!reduced || keep)
            y->shape[y->rank++] = reduced ? 1 : x->shape[i];
    }
}

void lab__part(lab_tensor *part, const lab_tensor *whole, int axis, int64_t start, int64_t count, int64_t step)
{
    int64_t shape[LAB_MAX_RANK], strides[LAB_MAX_RANK];
    for (int i = 0; i < whole->rank; i++) {
        shape[i] = i == axis ? count : whole->shape[i];
        strides[i] = i == axis ? whole->strides[i] * step : whole->strides[i];
    }
    lab__tensor_describe(part, whole->dtype, whole->rank, shape, strides);
    part->data = whole->data;
    if (part->numel > 0)
        part->data += (size_t)(start * whole->strides[axis]) * lab_dtype_size(whole->dtype);
}

void lab__stretched(lab_tensor *header, const lab_tensor *y, const lab_tensor *x, unsigned axes)
{
    bool kept = y->rank == x->rank;
    int64_t strides[LAB_MAX_RANK];
    int axis = 0; /* of y */
    for (int i = 0; i < x->rank; i++) {
        bool reduced = axes >> i & 1;
        strides[i] = reduced ? 0 : y->strides[axis];
        axis += !reduced || kept;
    }
    lab__tensor_describe(header, y->dtype, x->rank, x->shape, strides);
    header->data = y->data;
}

lab_tensor *lab__with_axes(lab_graph *g, lab_tensor *y, const lab_tensor *x, unsigned axes)
{
    if (!y || y->rank == x->rank)
        return y;
    int64_t shape[LAB_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        shape[i] = axes >> i & 1 ? 1 : x->shape[i];
    return lab_reshape(g, y, x->rank, shape);
}
