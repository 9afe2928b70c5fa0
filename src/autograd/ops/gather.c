/* gather.c - gather_rows and index_add: slabs of a tensor picked, or added to, by a list of indices.
 *
 *     gather_rows   y[i..., :] = table[indices[i...], :]        dtable[indices[i...], :] += dy[i..., :]
 *     index_add     y = x, y[:, indices[j]] += source[:, j]     dx = dy,  dsource[:, j] = dy[:, indices[j]]
 *
 * Both are one walk in two directions: a slab is what one index means, the indexed side holds a slab for every value
 * an index may have, the listed side one for every index. Slabs are added in the order of the list; threads share out
 * the columns of a slab, never the list.
 */
#include "indices.h"

enum {
    SLAB_PANEL = 512,   /* elements of a slab's row that one piece handles */
    COPY_BLOCK = 16384, /* elements that one piece copies, about */
};

typedef struct slabs {
    const lab_tensor *indices;
    loop slab;                     /* one slab: operand 0 on the indexed side, operand 1 on the listed side */
    int64_t step;                  /* bytes from slab to slab of the indexed side */
    lab_tensor listed;             /* the listed side, with a place for every index: indices' shape */
    int64_t panels, block, blocks; /* pieces: a row of the slab, a panel of it, a block of the list */
    kernel_type type;
} slabs;

/* A header for some of t's axes: those in [first, end) but `without`. */
static lab_tensor some_axes(const lab_tensor *t, int first, int end, int without)
{
    int64_t shape[LAB_MAX_RANK], strides[LAB_MAX_RANK];
    int rank = 0;
    for (int i = first; i < end; i++) {
        if (i == without)
            continue;
        shape[rank] = t->shape[i];
        strides[rank++] = t->strides[i];
    }
    lab_tensor header;
    lab__tensor_describe(&header, t->dtype, rank, shape, strides);
    header.data = t->data;
    return header;
}

/* The axis of `indexed` that the indices count along lies where `listed` has the axes of the indices. */
static void make_slabs(slabs *s, const lab_tensor *indexed, const lab_tensor *listed, const lab_tensor *indices,
                       int axis)
{
    int list_end = axis + indices->rank;
    int64_t element = (int64_t)lab_dtype_size(indexed->dtype);
    lab_tensor one_indexed = some_axes(indexed, 0, indexed->rank, axis), one_listed = one_indexed;
    one_listed.data = listed->data;
    for (int i = 0; i < one_listed.rank; i++)
        one_listed.strides[i] = listed->strides[i < axis ? i : i + indices->rank];
    s->indices = indices;
    s->step = indexed->strides[axis] * element;
    s->listed = some_axes(listed, axis, list_end, -1);
    s->type = lab__kernel_type(indexed->dtype);
    lab__loop_make(&s->slab, 2, (const lab_tensor *[]){&one_indexed, &one_listed});
    s->panels = (s->slab.inner + SLAB_PANEL - 1) / SLAB_PANEL;
    s->block = indices->numel;
    s->blocks = 1;
}

typedef void (*slab_fn)(const slabs *s, int64_t n, char *indexed, char *listed);

/* One piece: the same panel of the same row of the slabs of one block of the list. */
static void run_piece(const slabs *s, int64_t piece, slab_fn fn)
{
    const loop *l = &s->slab;
    int64_t block = piece % s->blocks, panel = piece / s->blocks % s->panels, row = piece / s->blocks / s->panels;
    int64_t first = panel * SLAB_PANEL, n = l->inner - first < SLAB_PANEL ? l->inner - first : SLAB_PANEL;
    char *data[2];
    for (int k = 0; k < 2; k++) {
        int64_t rest = row;
        data[k] = l->data[k] + first * l->inner_stride[k] * l->element[k];
        for (int i = l->rank - 1; i >= 0; i--) {
            data[k] += rest % l->shape[i] * l->strides[k][i];
            rest /= l->shape[i];
        }
    }
    int64_t end = (block + 1) * s->block < s->indices->numel ? (block + 1) * s->block : s->indices->numel;
    for (int64_t place = block * s->block; place < end; place++)
        fn(s, n, data[0] + lab__index_at(s->indices, place) * s->step,
           data[1] + lab__element_offset(&s->listed, place) * l->element[1]);
}

static void copy_slab(const slabs *s, int64_t n, char *indexed, char *listed)
{
    const loop *l = &s->slab;
    lab__kernel_copy(n, l->element[0], listed, l->inner_stride[1], indexed, l->inner_stride[0]);
}

static void add_slab(const slabs *s, int64_t n, char *indexed, char *listed)
{
    const loop *l = &s->slab;
    lab__kernels()->binary[s->type][KERNEL_ADD](n, indexed, l->inner_stride[0], indexed, l->inner_stride[0], listed,
                                                l->inner_stride[1]);
}

static void copy_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    run_piece(context, piece, copy_slab);
}

static void add_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    run_piece(context, piece, add_slab);
}

/* listed = the slabs of `indexed` that the indices name. The list may be cut: every slab is written once. */
static void copy_slabs(const lab_tensor *indexed, lab_tensor *listed, const lab_tensor *indices, int axis)
{
    if (listed->numel == 0)
        return;
    slabs s;
    make_slabs(&s, indexed, listed, indices, axis);
    int64_t width = s.slab.inner < SLAB_PANEL ? s.slab.inner : SLAB_PANEL;
    s.block = COPY_BLOCK / width;
    s.blocks = (indices->numel + s.block - 1) / s.block;
    lab__parallel_run(s.slab.rows * s.panels * s.blocks, copy_piece, &s);
}

/* The slabs of `indexed` that the indices name += listed, in the order of the list. */
static void add_slabs(lab_tensor *indexed, const lab_tensor *listed, const lab_tensor *indices, int axis)
{
    if (listed->numel == 0)
        return;
    slabs s;
    make_slabs(&s, indexed, listed, indices, axis);
    lab__parallel_run(s.slab.rows * s.panels, add_piece, &s);
}

/* ---- gather_rows -------------------------------------------------------------------------------------------------- */

static lab_status gather_shape(lab_op_call *call)
{
    const lab_tensor *table = call->in[0], *indices = call->in[1];
    lab_status status = lab__require_dtype(call, 1, ALLOW_I64);
    if (status != LAB_OK)
        return status;
    if (table->rank == 0)
        return lab_graph_fail(call->graph, LAB_ERR_SHAPE, "the table (%s) has no rows", lab__tensor_text(table));
    lab_spec *y = &call->specs[0];
    y->dtype = table->dtype;
    y->rank = indices->rank + table->rank - 1;
    if (y->rank > LAB_MAX_RANK)
        return lab_graph_fail(call->graph, LAB_ERR_RANGE, "rows of %s at %s would have rank %d, the most is %d",
                              lab__tensor_text(table), lab__tensor_text(indices), y->rank, LAB_MAX_RANK);
    memcpy(y->shape, indices->shape, (size_t)indices->rank * sizeof *y->shape);
    memcpy(y->shape + indices->rank, table->shape + 1, (size_t)(table->rank - 1) * sizeof *y->shape);
    return LAB_OK;
}

static lab_status gather_forward(lab_op_call *call)
{
    lab_status status = lab__require_indices(call, 1, call->in[0]->shape[0]);
    if (status == LAB_OK)
        copy_slabs(call->in[0], call->out[0], call->in[1], 0);
    return status;
}

static lab_status gather_vjp(lab_graph *g, lab_vjp_call *call)
{
    const lab_tensor *table = call->in[0];
    int64_t shape[LAB_MAX_RANK] = {call->in[1]->numel};
    memcpy(shape + 1, table->shape + 1, (size_t)(table->rank - 1) * sizeof *shape);
    lab_tensor *indices = lab_reshape(g, call->in[1], 1, shape);
    lab_tensor *rows = lab_reshape(g, call->grad_out[0], table->rank, shape);
    call->grad_in[0] = lab_index_add(g, lab__zeros_like(g, table), 0, indices, rows);
    return lab_graph_status(g);
}

static lab_status gather_backward(lab_vjp_call *call)
{
    const lab_place *place = &call->places[0];
    if (!place->tensor)
        return LAB_OK;
    if (!place->add)
        lab__tensor_fill(place->tensor, 0.0);
    add_slabs(place->tensor, call->grad_out[0], call->in[1], 0);
    return LAB_OK;
}

static const lab_reads reads_indices[] = {{.in = 2}};

const lab_op lab__op_gather_rows = {
    .name = "gather_rows",
    .inputs = 2,
    .outputs = 1,
    .constant = 2,
    .reads = reads_indices,
    .n_reads = 1,
    .shape = gather_shape,
    .forward = gather_forward,
    .vjp = gather_vjp,
    .backward = gather_backward,
};

lab_tensor *lab_gather_rows(lab_graph *g, lab_tensor *table, lab_tensor *indices)
{
    return lab__apply2(g, &lab__op_gather_rows, NULL, 0, table, indices);
}

/* ---- index_add ---------------------------------------------------------------------------------------------------- */

static lab_status index_add_shape(lab_op_call *call)
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
    bool fits = indices->rank == 1 && lab__equal_but(x, source, axis) && source->shape[axis] == indices->shape[0];
    if (!fits)
        return lab_graph_fail(call->graph, LAB_ERR_SHAPE,
                              "%s into %s at %s along axis %d: indices must have rank 1, the source x's sizes but on "
                              "the axis, where it has one entry per index",
                              lab__tensor_text(source), lab__tensor_text(x), lab__tensor_text(indices), axis);
    return lab__shape_same(call);
}

static lab_status index_add_forward(lab_op_call *call)
{
    int axis = lab__axis_of(call->attrs, call->in[0]);
    lab_status status = lab__require_indices(call, 1, call->in[0]->shape[axis]);
    if (status != LAB_OK)
        return status;
    lab__tensor_copy(call->out[0], call->in[0]);
    add_slabs(call->out[0], call->in[2], call->in[1], axis);
    return LAB_OK;
}

static lab_status index_add_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *dy = call->grad_out[0], *indices = call->in[1], *source = call->in[2];
    int axis = lab__axis_of(call->attrs, call->in[0]);
    if (call->wants[0])
        call->grad_in[0] = dy;
    if (call->wants[2]) {
        int64_t along[LAB_MAX_RANK]; /* indices as take_along_axis wants them: one for every element */
        for (int i = 0; i < source->rank; i++)
            along[i] = i == axis ? indices->numel : 1;
        lab_tensor *everywhere = lab_reshape(g, indices, source->rank, along);
        everywhere = lab_broadcast_to(g, everywhere, source->rank, source->shape);
        call->grad_in[2] = lab_take_along_axis(g, dy, everywhere, axis);
    }
    return lab_graph_status(g);
}

/* dx reads nothing, dsource the indices. */
static const lab_reads index_add_reads[] = {{0}, {0}, {.in = 2}};

const lab_op lab__op_index_add = {
    .name = "index_add",
    .inputs = 3,
    .outputs = 1,
    .constant = 2,
    .reads = index_add_reads,
    .n_reads = 3,
    .shape = index_add_shape,
    .forward = index_add_forward,
    .vjp = index_add_vjp,
};

lab_tensor *lab_index_add(lab_graph *g, lab_tensor *x, int axis, lab_tensor *indices, lab_tensor *source)
{
    axis_attrs attrs = {.axis = axis};
    return lab__apply3(g, &lab__op_index_add, &attrs, sizeof attrs, x, indices, source);
}
