/* views.c - ops that are nothing but another way to walk through memory: permute, transpose, slice, broadcast_to.
 *
 * `view` is a function of shape, strides and attributes alone: the engine asks it again about the gradient's memory,
 * so that the gradient of a slice lies inside its parent's. The derivative with a destination writes into the region
 * of the place that the result was taken from, and clears what no element came from.
 */
#include "axes.h"

/* For views that show every element once (slice: with the rest cleared before). */
static lab_status view_backward(lab_vjp_call *call)
{
    const lab_place *place = &call->places[0];
    if (!place->tensor)
        return LAB_OK;
    const lab_tensor *dy = call->grad_out[0];
    lab_op_call asked = {.op = call->op, .attrs = call->attrs, .n_in = 1, .n_out = 1, .in = &place->tensor};
    lab_view view;
    call->op->view(&asked, &view);
    lab_tensor region;
    lab__tensor_describe(&region, dy->dtype, dy->rank, dy->shape, view.strides);
    region.data = place->tensor->data;
    if (region.numel > 0)
        region.data += (size_t)view.offset * lab_dtype_size(dy->dtype);
    lab__place_put(&(lab_place){&region, place->add}, dy);
    return LAB_OK;
}

static const lab_reads reads_nothing[] = {{0}};

/* ---- permute and transpose: axes in another order ---------------------------------------------------------------- */

typedef struct permute_attrs {
    int axes[LAB_MAX_RANK];
} permute_attrs;

static lab_status permute_shape(lab_op_call *call)
{
    const permute_attrs *attrs = call->attrs;
    const lab_tensor *x = call->in[0];
    unsigned seen = 0;
    call->specs[0].dtype = x->dtype;
    call->specs[0].rank = x->rank;
    for (int i = 0; i < x->rank; i++) {
        lab_status status = lab__require_axis(call, attrs->axes[i]);
        if (status != LAB_OK)
            return status;
        int axis = lab__axis(x->rank, attrs->axes[i]);
        if (seen >> axis & 1)
            return lab_graph_fail(call->graph, LAB_ERR_ARGUMENT, "axis %d appears twice among the axes for %s", axis,
                                  lab__tensor_text(x));
        seen |= 1u << axis;
        call->specs[0].shape[i] = x->shape[axis];
    }
    return LAB_OK;
}

static bool permute_view(const lab_op_call *call, lab_view *view)
{
    const permute_attrs *attrs = call->attrs;
    const lab_tensor *x = call->in[0];
    view->offset = 0;
    for (int i = 0; i < x->rank; i++)
        view->strides[i] = x->strides[lab__axis(x->rank, attrs->axes[i])];
    return true;
}

static lab_status permute_vjp(lab_graph *g, lab_vjp_call *call)
{
    const permute_attrs *attrs = call->attrs;
    int rank = call->in[0]->rank, back[LAB_MAX_RANK] = {0};
    for (int i = 0; i < rank; i++)
        back[lab__axis(rank, attrs->axes[i])] = i;
    call->grad_in[0] = lab_permute(g, call->grad_out[0], back);
    return lab_graph_status(g);
}

const lab_op lab__op_permute = {
    .name = "permute",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = permute_shape,
    .view = permute_view,
    .vjp = permute_vjp,
    .backward = view_backward,
};

lab_tensor *lab_permute(lab_graph *g, lab_tensor *x, const int *axes)
{
    if (!lab__healthy(g))
        return NULL;
    permute_attrs attrs = {0};
    int rank = lab_tensor_rank(x);
    if (rank > 0 && !axes)
        return lab__refuse(g, "permute", LAB_ERR_ARGUMENT, "axes is NULL");
    if (rank > 0)
        memcpy(attrs.axes, axes, (size_t)rank * sizeof *axes);
    return lab__apply1(g, &lab__op_permute, &attrs, sizeof attrs, x);
}

typedef struct transpose_attrs {
    int a, b;
} transpose_attrs;

static lab_status transpose_shape(lab_op_call *call)
{
    const transpose_attrs *attrs = call->attrs;
    const lab_tensor *x = call->in[0];
    lab_status status = lab__require_axis(call, attrs->a);
    if (status == LAB_OK)
        status = lab__require_axis(call, attrs->b);
    if (status != LAB_OK)
        return status;
    int a = lab__axis(x->rank, attrs->a), b = lab__axis(x->rank, attrs->b);
    lab__shape_without(call, 0, true);
    call->specs[0].shape[a] = x->shape[b];
    call->specs[0].shape[b] = x->shape[a];
    return LAB_OK;
}

static bool transpose_view(const lab_op_call *call, lab_view *view)
{
    const transpose_attrs *attrs = call->attrs;
    const lab_tensor *x = call->in[0];
    int a = lab__axis(x->rank, attrs->a), b = lab__axis(x->rank, attrs->b);
    view->offset = 0;
    memcpy(view->strides, x->strides, sizeof view->strides);
    view->strides[a] = x->strides[b];
    view->strides[b] = x->strides[a];
    return true;
}

static lab_status transpose_vjp(lab_graph *g, lab_vjp_call *call)
{
    const transpose_attrs *attrs = call->attrs;
    call->grad_in[0] = lab_transpose(g, call->grad_out[0], attrs->a, attrs->b);
    return lab_graph_status(g);
}

const lab_op lab__op_transpose = {
    .name = "transpose",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = transpose_shape,
    .view = transpose_view,
    .vjp = transpose_vjp,
    .backward = view_backward,
};

lab_tensor *lab_transpose(lab_graph *g, lab_tensor *x, int axis_a, int axis_b)
{
    transpose_attrs attrs = {axis_a, axis_b};
    return lab__apply1(g, &lab__op_transpose, &attrs, sizeof attrs, x);
}

/* ---- slice: some places of an axis ------------------------------------------------------------------------------- */

typedef struct slice_attrs {
    int axis;
    int64_t start, stop, step;
} slice_attrs;

/* What the attributes mean for x: an axis from the front, the first place, how many, and how far apart. */
typedef struct range {
    int axis;
    int64_t start, count, step;
} range;

static int64_t clamp(int64_t place, int64_t size)
{
    if (place < 0)
        place += size;
    return place < 0 ? 0 : place > size ? size : place;
}

static range range_of(const slice_attrs *attrs, const lab_tensor *x)
{
    range r = {.axis = lab__axis(x->rank, attrs->axis), .step = attrs->step};
    int64_t size = x->shape[r.axis], stop = clamp(attrs->stop, size);
    r.start = clamp(attrs->start, size);
    r.count = r.start < stop ? (stop - r.start - 1) / r.step + 1 : 0;
    return r;
}

static lab_status slice_shape(lab_op_call *call)
{
    const slice_attrs *attrs = call->attrs;
    lab_status status = lab__require_axis(call, attrs->axis);
    if (status != LAB_OK)
        return status;
    if (attrs->step <= 0)
        return lab_graph_fail(call->graph, LAB_ERR_RANGE, "step %lld, must be above 0", (long long)attrs->step);
    range r = range_of(attrs, call->in[0]);
    lab__shape_without(call, 0, true);
    call->specs[0].shape[r.axis] = r.count;
    return LAB_OK;
}

static bool slice_view(const lab_op_call *call, lab_view *view)
{
    const lab_tensor *x = call->in[0];
    range r = range_of(call->attrs, x);
    memcpy(view->strides, x->strides, sizeof view->strides);
    view->offset = r.count > 0 ? r.start * x->strides[r.axis] : 0;
    if (r.count > 1)
        view->strides[r.axis] *= r.step;
    return true;
}

/* Zeros of x's shape but for `count` places of the axis. */
static lab_tensor *zeros_beside(lab_graph *g, const lab_tensor *x, int axis, int64_t count)
{
    int64_t shape[LAB_MAX_RANK];
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = count;
    return lab_full(g, x->dtype, x->rank, shape, 0.0);
}

static lab_status slice_vjp(lab_graph *g, lab_vjp_call *call)
{
    const lab_tensor *x = call->in[0];
    lab_tensor *dy = call->grad_out[0];
    range r = range_of(call->attrs, x);
    if (r.step == 1 || r.count <= 1) {
        lab_tensor *parts[] = {zeros_beside(g, x, r.axis, r.start), dy,
                               zeros_beside(g, x, r.axis, x->shape[r.axis] - r.start - r.count)};
        call->grad_in[0] = lab_concat(g, 3, parts, r.axis);
    } else {
        double start = (double)r.start, step = (double)r.step;
        lab_tensor *places = lab_arange(g, LAB_I64, start, start + ((double)r.count - 0.5) * step, step);
        call->grad_in[0] = lab_index_add(g, lab__zeros_like(g, x), r.axis, places, dy);
    }
    return lab_graph_status(g);
}

static void clear_part(const lab_tensor *whole, int axis, int64_t start, int64_t count)
{
    lab_tensor part;
    lab__part(&part, whole, axis, start, count, 1);
    lab__tensor_fill(&part, 0.0);
}

static lab_status slice_backward(lab_vjp_call *call)
{
    const lab_place *place = &call->places[0];
    if (place->tensor && !place->add) {
        range r = range_of(call->attrs, place->tensor);
        int64_t size = place->tensor->shape[r.axis], stop = r.start + r.count;
        if (r.step == 1) {
            clear_part(place->tensor, r.axis, 0, r.start);
            clear_part(place->tensor, r.axis, stop, size - stop);
        } else {
            clear_part(place->tensor, r.axis, 0, size);
        }
    }
    return view_backward(call);
}

const lab_op lab__op_slice = {
    .name = "slice",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = slice_shape,
    .view = slice_view,
    .vjp = slice_vjp,
    .backward = slice_backward,
};

lab_tensor *lab_slice(lab_graph *g, lab_tensor *x, int axis, int64_t start, int64_t stop, int64_t step)
{
    slice_attrs attrs = {axis, start, stop, step};
    return lab__apply1(g, &lab__op_slice, &attrs, sizeof attrs, x);
}

/* ---- broadcast_to: strides of 0 ---------------------------------------------------------------------------------- */

static lab_status broadcast_shape(lab_op_call *call)
{
    const shape_attrs *attrs = call->attrs;
    const lab_tensor *x = call->in[0];
    lab_spec *y = &call->specs[0];
    y->dtype = x->dtype;
    y->rank = attrs->rank;
    bool fits = x->rank <= attrs->rank;
    for (int i = 0; i < attrs->rank; i++) {
        int axis = i - (attrs->rank - x->rank); /* of x; below 0: a new one */
        y->shape[i] = attrs->shape[i];
        fits = fits && (axis < 0 || x->shape[axis] == 1 || x->shape[axis] == y->shape[i]);
    }
    if (fits)
        return LAB_OK;
    return lab_graph_fail(call->graph, LAB_ERR_SHAPE,
                          "%s cannot be stretched to %s; aligned at the last axis, sizes must be equal or 1",
                          lab__tensor_text(x), lab__shape_text(attrs->rank, attrs->shape));
}

static bool broadcast_view(const lab_op_call *call, lab_view *view)
{
    const shape_attrs *attrs = call->attrs;
    const lab_tensor *x = call->in[0];
    view->offset = 0;
    for (int i = 0; i < attrs->rank; i++) {
        int axis = i - (attrs->rank - x->rank);
        bool stretched = axis < 0 || x->shape[axis] != attrs->shape[i];
        view->strides[i] = stretched ? 0 : x->strides[axis];
    }
    return true;
}

static lab_status broadcast_vjp(lab_graph *g, lab_vjp_call *call)
{
    call->grad_in[0] = lab__sum_to_shape_of(g, call->grad_out[0], call->in[0]);
    return lab_graph_status(g);
}

static lab_status broadcast_backward(lab_vjp_call *call)
{
    if (call->places[0].tensor)
        lab__place_sum(&call->places[0], call->grad_out[0], 1.0);
    return LAB_OK;
}

const lab_op lab__op_broadcast_to = {
    .name = "broadcast_to",
    .inputs = 1,
    .outputs = 1,
    .flags = LAB_OP_VIEW_OVERLAPS,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = broadcast_shape,
    .view = broadcast_view,
    .vjp = broadcast_vjp,
    .backward = broadcast_backward,
};

lab_tensor *lab_broadcast_to(lab_graph *g, lab_tensor *x, int rank, const int64_t *shape)
{
    shape_attrs attrs;
    return lab__take_shape(g, "broadcast_to", &attrs, rank, shape, 0)
               ? lab__apply1(g, &lab__op_broadcast_to, &attrs, sizeof attrs, x)
               : NULL;
}
