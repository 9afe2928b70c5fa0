/* reshape.c - reshape and contiguous: the same elements in row-major order under other sizes.
 *
 * A view where the strides allow it; else `forward` copies. The derivative with a destination sees the place in dy's
 * shape, or dy in the place's; where strides allow neither, dy is laid out first.
 */
#include "axes.h"

static const lab_reads reads_nothing[] = {{0}};

/* The shape asked for, a -1 in it replaced by what numel leaves for it; or what is wrong with it. */
static lab_status complete_shape(const shape_attrs *attrs, int64_t numel, int64_t *shape)
{
    int open = -1;
    int64_t known = 1;
    bool empty = false, overflow = false;
    for (int i = 0; i < attrs->rank; i++) {
        shape[i] = attrs->shape[i];
        if (shape[i] == -1 && open >= 0)
            return LAB_ERR_ARGUMENT;
        if (shape[i] == -1)
            open = i;
        else if (shape[i] == 0)
            empty = true;
        else
            overflow = overflow || __builtin_mul_overflow(known, shape[i], &known);
    }
    if (overflow)
        return LAB_ERR_RANGE;
    if (open >= 0 && !empty) {
        shape[open] = numel / known;
        known *= shape[open];
    }
    bool fits = empty ? numel == 0 && open < 0 : numel == known;
    return fits ? LAB_OK : LAB_ERR_SHAPE;
}

static lab_status reshape_shape(lab_op_call *call)
{
    const shape_attrs *attrs = call->attrs;
    const lab_tensor *x = call->in[0];
    lab_spec *y = &call->specs[0];
    y->dtype = x->dtype;
    y->rank = attrs->rank;
    lab_status status = complete_shape(attrs, x->numel, y->shape);
    const char *asked = lab__shape_text(attrs->rank, attrs->shape);
    if (status == LAB_ERR_ARGUMENT)
        return lab_graph_fail(call->graph, status, "more than one size is left open (-1) in %s", asked);
    if (status == LAB_ERR_RANGE)
        return lab_graph_fail(call->graph, status, "%s has more elements than can be counted", asked);
    if (status == LAB_ERR_SHAPE)
        return lab_graph_fail(call->graph, status, "%s does not fit the %lld elements of %s", asked,
                              (long long)x->numel, lab__tensor_text(x));
    return LAB_OK;
}

/* Strides by which `shape` walks x's elements in row-major order, if there are such. Runs of x's axes that continue
 * one another are matched with runs of new axes of the same number of elements. */
static bool reshaped_strides(const lab_tensor *x, int rank, const int64_t *shape, int64_t *strides)
{
    int64_t next = 1; /* row-major; also right for what has no elements */
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = next;
        next *= shape[i] > 0 ? shape[i] : 1;
    }
    if (x->numel == 0)
        return true;
    int axis = rank - 1;
    for (int last = x->rank - 1; last >= 0;) {
        if (x->shape[last] == 1) {
            last--;
            continue;
        }
        int first = last;
        int64_t run = x->shape[last];
        for (; first > 0; first--) {
            if (x->shape[first - 1] == 1)
                continue;
            if (x->strides[first - 1] != run * x->strides[last])
                break;
            run *= x->shape[first - 1];
        }
        int64_t filled = 1;
        for (; axis >= 0 && filled < run; axis--) {
            strides[axis] = filled * x->strides[last];
            filled *= shape[axis];
        }
        if (filled != run)
            return false;
        last = first - 1;
    }
    return true;
}

static bool reshape_view(const lab_op_call *call, lab_view *view)
{
    const shape_attrs *attrs = call->attrs;
    int64_t shape[LAB_MAX_RANK];
    view->offset = 0;
    return complete_shape(attrs, call->in[0]->numel, shape) == LAB_OK &&
           reshaped_strides(call->in[0], attrs->rank, shape, view->strides);
}

/* The result is row-major: it has room for x's elements in x's own shape. */
static lab_status copy_in_order(lab_op_call *call)
{
    const lab_tensor *x = call->in[0];
    lab_tensor rows;
    lab__tensor_describe(&rows, x->dtype, x->rank, x->shape, NULL);
    rows.data = call->out[0]->data;
    lab__tensor_copy(&rows, x);
    return LAB_OK;
}

static lab_status reshape_vjp(lab_graph *g, lab_vjp_call *call)
{
    call->grad_in[0] = lab_reshape(g, call->grad_out[0], call->in[0]->rank, call->in[0]->shape);
    return lab_graph_status(g);
}

/* Only where neither the place nor dy can be seen in the other's shape, dy is laid out first. */
static bool needs_layout(const lab_vjp_call *call)
{
    const lab_tensor *place = call->places[0].tensor, *dy = call->grad_out[0];
    int64_t strides[LAB_MAX_RANK];
    return place && !reshaped_strides(place, dy->rank, dy->shape, strides) &&
           !reshaped_strides(dy, place->rank, place->shape, strides);
}

static size_t reshape_backward_scratch(const lab_vjp_call *call)
{
    return needs_layout(call) ? (size_t)call->grad_out[0]->numel * lab_dtype_size(call->grad_out[0]->dtype) : 0;
}

static lab_status reshape_backward(lab_vjp_call *call)
{
    const lab_place *place = &call->places[0];
    if (!place->tensor)
        return LAB_OK;
    const lab_tensor *dy = call->grad_out[0];
    lab_tensor *dx = place->tensor, rows, seen;
    int64_t strides[LAB_MAX_RANK];
    if (reshaped_strides(dx, dy->rank, dy->shape, strides)) {
        lab__tensor_describe(&seen, dx->dtype, dy->rank, dy->shape, strides);
        seen.data = dx->data;
        lab__place_put(&(lab_place){&seen, place->add}, dy);
        return LAB_OK;
    }
    if (needs_layout(call)) {
        lab__tensor_describe(&rows, dy->dtype, dy->rank, dy->shape, NULL);
        rows.data = call->scratch;
        lab__tensor_copy(&rows, dy);
        dy = &rows;
    }
    reshaped_strides(dy, dx->rank, dx->shape, strides);
    lab__tensor_describe(&seen, dy->dtype, dx->rank, dx->shape, strides);
    seen.data = dy->data;
    lab__place_put(place, &seen);
    return LAB_OK;
}

const lab_op lab__op_reshape = {
    .name = "reshape",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = reshape_shape,
    .view = reshape_view,
    .forward = copy_in_order,
    .vjp = reshape_vjp,
    .backward_scratch = reshape_backward_scratch,
    .backward = reshape_backward,
};

lab_tensor *lab_reshape(lab_graph *g, lab_tensor *x, int rank, const int64_t *shape)
{
    shape_attrs attrs;
    return lab__take_shape(g, "reshape", &attrs, rank, shape, -1)
               ? lab__apply1(g, &lab__op_reshape, &attrs, sizeof attrs, x)
               : NULL;
}

/* ---- contiguous ----------------------------------------------------------------------------------------------------
 */

static bool contiguous_view(const lab_op_call *call, lab_view *view)
{
    view->offset = 0;
    memcpy(view->strides, call->in[0]->strides, sizeof view->strides);
    return lab__is_contiguous(call->in[0]);
}

static lab_status contiguous_vjp(lab_graph *g, lab_vjp_call *call)
{
    call->grad_in[0] = call->grad_out[0];
    return lab_graph_status(g);
}

static lab_status contiguous_backward(lab_vjp_call *call)
{
    if (call->places[0].tensor)
        lab__place_put(&call->places[0], call->grad_out[0]);
    return LAB_OK;
}

const lab_op lab__op_contiguous = {
    .name = "contiguous",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = lab__shape_same,
    .view = contiguous_view,
    .forward = copy_in_order,
    .vjp = contiguous_vjp,
    .backward = contiguous_backward,
};

lab_tensor *lab_contiguous(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_contiguous, NULL, 0, x);
}
