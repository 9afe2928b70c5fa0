/* along_axis.c - take_along_axis and scatter_add_along_axis: for every row along an axis a list of places of its own.
 *
 *     take      y[j] = x[indices[j]]                   dx[indices[j]] += dy[j]
 *     scatter   y = x, y[indices[j]] += source[j]      dx = dy,  dsource[j] = dy[indices[j]]
 *
 * Within a row the list is followed in order; threads share out the rows.
 */
#include "indices.h"

enum { COST_OF_ELEMENT = 10 };

/* The rows of a walk: operand 0 the listed side, 1 the indices, 2 the indexed side. */
typedef struct along {
    loop rows;
    int64_t step; /* elements between places on the indexed side */
} along;

/* The rows of `listed` and of the indices, with the beginning of the row of `indexed` that they are about. */
static void make_along(along *a, const lab_tensor *listed, const lab_tensor *indices, const lab_tensor *indexed,
                       int axis)
{
    int64_t strides[LAB_MAX_RANK];
    memcpy(strides, indexed->strides, sizeof strides);
    strides[axis] = 0;
    lab_tensor beginnings;
    lab__tensor_describe(&beginnings, indexed->dtype, listed->rank, listed->shape, strides);
    beginnings.data = indexed->data;
    a->step = indexed->strides[axis];
    lab__loop_make_axis(&a->rows, 3, (const lab_tensor *[]){listed, indices, &beginnings}, axis);
}

/* Elements are moved as bits; called with a size that is written there, so that each becomes one move. */
static inline void take_elements(size_t size, int64_t n, char *to, int64_t to_step, const int64_t *indices,
                                 int64_t index_step, const char *from, int64_t from_step)
{
    for (int64_t j = 0; j < n; j++)
        memcpy(to + j * to_step * (int64_t)size, from + indices[j * index_step] * from_step * (int64_t)size, size);
}

static void take_row(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const along *a = context;
    const int64_t *indices = (const int64_t *)data[1];
    if (a->rows.element[0] == 4)
        take_elements(4, n, data[0], strides[0], indices, strides[1], data[2], a->step);
    else if (a->rows.element[0] == 8)
        take_elements(8, n, data[0], strides[0], indices, strides[1], data[2], a->step);
    else
        take_elements(1, n, data[0], strides[0], indices, strides[1], data[2], a->step);
}

static void scatter_row_f32(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const along *a = context;
    const float *source = (const float *)data[0];
    const int64_t *indices = (const int64_t *)data[1];
    float *y = (float *)data[2];
    for (int64_t j = 0; j < n; j++)
        y[indices[j * strides[1]] * a->step] += source[j * strides[0]];
}

static void scatter_row_f64(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const along *a = context;
    const double *source = (const double *)data[0];
    const int64_t *indices = (const int64_t *)data[1];
    double *y = (double *)data[2];
    for (int64_t j = 0; j < n; j++)
        y[indices[j * strides[1]] * a->step] += source[j * strides[0]];
}

static void scatter(lab_tensor *y, const lab_tensor *indices, const lab_tensor *source, int axis)
{
    along a;
    make_along(&a, source, indices, y, axis);
    lab__loop_run_rows(&a.rows, COST_OF_ELEMENT, y->dtype == LAB_F32 ? scatter_row_f32 : scatter_row_f64, &a);
}

/* ---- take_along_axis ---------------------------------------------------------------------------------------------- */

static lab_status take_shape(lab_op_call *call)
{
    const lab_tensor *x = call->in[0], *indices = call->in[1];
    lab_status status = lab__require_dtype(call, 1, ALLOW_I64);
    if (status == LAB_OK)
        status = lab__require_axis(call, ((const axis_attrs *)call->attrs)->axis);
    if (status != LAB_OK)
        return status;
    int axis = lab__axis_of(call->attrs, x);
    if (!lab__equal_but(x, indices, axis))
        return lab_graph_fail(call->graph, LAB_ERR_SHAPE, "x is %s, indices are %s; they must be equal but on axis %d",
                              lab__tensor_text(x), lab__tensor_text(indices), axis);
    lab__shape_without(call, 0, true);
    call->specs[0].shape[axis] = indices->shape[axis];
    return LAB_OK;
}

static lab_status take_forward(lab_op_call *call)
{
    int axis = lab__axis_of(call->attrs, call->in[0]);
    lab_status status = lab__require_indices(call, 1, call->in[0]->shape[axis]);
    if (status != LAB_OK)
        return status;
    along a;
    make_along(&a, call->out[0], call->in[1], call->in[0], axis);
    lab__loop_run(&a.rows, COST_OF_ELEMENT, take_row, &a);
    return LAB_OK;
}

static lab_status take_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *x = call->in[0];
    int axis = lab__axis_of(call->attrs, x);
    call->grad_in[0] = lab_scatter_add_along_axis(g, lab__zeros_like(g, x), call->in[1], call->grad_out[0], axis);
    return lab_graph_status(g);
}

static lab_status take_backward(lab_vjp_call *call)
{
    const lab_place *place = &call->places[0];
    if (!place->tensor)
        return LAB_OK;
    if (!place->add)
        lab__tensor_fill(place->tensor, 0.0);
    scatter(place->tensor, call->in[1], call->grad_out[0], lab__axis_of(call->attrs, place->tensor));
    return LAB_OK;
}

static const lab_reads reads_indices[] = {{.in = 2}};

const lab_op lab__op_take_along_axis = {
    .name = "take_along_axis",
    .inputs = 2,
    .outputs = 1,
    .constant = 2,
    .reads = reads_indices,
    .n_reads = 1,
    .shape = take_shape,
    .forward = take_forward,
    .vjp = take_vjp,
    .backward = take_backward,
};

lab_tensor *lab_take_along_axis(lab_graph *g, lab_tensor *x, lab_tensor *indices, int axis)
{
    axis_attrs attrs = {.axis = axis};
    return lab__apply2(g, &lab__op_take_along_axis, &attrs, sizeof attrs, x, indices);
}

/* ---- scatter_add_along_axis --------------------------------------------------------------------------------------- */

static lab_status scatter_shape(lab_op_call *call)
{
    const lab_tensor *x = call->in[0], *indices = call->in[1], *source = call->in[2];
    lab_status status = lab__require_dtype(call, 0, ALLOW_FLOAT);
    if (status == LAB_OK)
        status = lab__require_dtype(call, 1, ALLOW_I64);
    if (status == LAB_OK)
        status = lab__require_same_dtype(call, 0, 2);
    if (status == LAB_OK)
        status = lab__require_axis(call, ((const axis_attrs *)call->attrs)->axis);
    if (status != LAB_OK)
        return status;
    int axis = lab__axis_of(call->attrs, x);
    if (!lab__same_shape(indices, source) || !lab__equal_but(x, source, axis))
        return lab_graph_fail(call->graph, LAB_ERR_SHAPE,
                              "x is %s, indices are %s, the source is %s; the latter two must be equal, and equal to "
                              "x's but on axis %d",
                              lab__tensor_text(x), lab__tensor_text(indices), lab__tensor_text(source), axis);
    return lab__shape_same(call);
}

static lab_status scatter_forward(lab_op_call *call)
{
    int axis = lab__axis_of(call->attrs, call->in[0]);
    lab_status status = lab__require_indices(call, 1, call->in[0]->shape[axis]);
    if (status != LAB_OK)
        return status;
    lab__tensor_copy(call->out[0], call->in[0]);
    scatter(call->out[0], call->in[1], call->in[2], axis);
    return LAB_OK;
}

static lab_status scatter_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *dy = call->grad_out[0];
    if (call->wants[0])
        call->grad_in[0] = dy;
    if (call->wants[2])
        call->grad_in[2] = lab_take_along_axis(g, dy, call->in[1], lab__axis_of(call->attrs, call->in[0]));
    return lab_graph_status(g);
}

/* dx reads nothing, dsource the indices. */
static const lab_reads scatter_reads[] = {{0}, {0}, {.in = 2}};

const lab_op lab__op_scatter_add_along_axis = {
    .name = "scatter_add_along_axis",
    .inputs = 3,
    .outputs = 1,
    .constant = 2,
    .reads = scatter_reads,
    .n_reads = 3,
    .shape = scatter_shape,
    .forward = scatter_forward,
    .vjp = scatter_vjp,
};

lab_tensor *lab_scatter_add_along_axis(lab_graph *g, lab_tensor *x, lab_tensor *indices, lab_tensor *source, int axis)
{
    axis_attrs attrs = {.axis = axis};
    return lab__apply3(g, &lab__op_scatter_add_along_axis, &attrs, sizeof attrs, x, indices, source);
}
