/* op_cases_index.c - ops that pick elements by index, or add to them. */
#include "op_cases.h"

#include <string.h>

static void reference_gather_rows(const op_case *c, const array *xs, array *y)
{
    (void)c;
    const array *table = &xs[0], *indices = &xs[1];
    int64_t shape[2 * LAB_MAX_RANK], width = 1;
    int rank = 0;
    for (int axis = 0; axis < indices->rank; axis++)
        shape[rank++] = indices->shape[axis];
    for (int axis = 1; axis < table->rank; axis++) {
        width *= table->shape[axis];
        shape[rank++] = table->shape[axis];
    }
    array_make(y, table->dtype, rank, shape);
    for (int64_t i = 0; i < indices->numel; i++)
        for (int64_t j = 0; j < width; j++)
            y->data[i * width + j] = table->data[(int64_t)indices->data[i] * width + j];
}

static void reference_take_along_axis(const op_case *c, const array *xs, array *y)
{
    const array *x = &xs[0], *indices = &xs[1];
    int axis = axis_of(x->rank, c->args.axes[0]);
    int64_t index[LAB_MAX_RANK] = {0}, at[LAB_MAX_RANK];
    array_make(y, x->dtype, indices->rank, indices->shape);
    for (int64_t place = 0; place < y->numel; place++) {
        memcpy(at, index, sizeof at);
        at[axis] = (int64_t)indices->data[place];
        y->data[place] = x->data[index_place(x, x->rank, at)];
        index_next(y->rank, y->shape, index);
    }
}

/* y = x, and source is added in; every[j] says where along the axis element j of source goes. */
static void add_source(const array *xs, int axis, bool per_element, array *y)
{
    const array *x = &xs[0], *indices = &xs[1], *source = &xs[2];
    int64_t index[LAB_MAX_RANK] = {0}, at[LAB_MAX_RANK];
    array_make(y, x->dtype, x->rank, x->shape);
    for (int64_t i = 0; i < x->numel; i++)
        y->data[i] = x->data[i];
    for (int64_t i = 0; i < source->numel; i++) {
        memcpy(at, index, sizeof at);
        at[axis] = (int64_t)indices->data[per_element ? i : index[axis]];
        y->data[index_place(y, y->rank, at)] += source->data[i];
        index_next(source->rank, source->shape, index);
    }
}

static void reference_scatter_add_along_axis(const op_case *c, const array *xs, array *y)
{
    add_source(xs, axis_of(xs[0].rank, c->args.axes[0]), true, y);
}

static void reference_index_add(const op_case *c, const array *xs, array *y)
{
    add_source(xs, axis_of(xs[0].rank, c->args.axes[0]), false, y);
}

static lab_tensor *build_take_along_axis(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_take_along_axis(g, xs[0], xs[1], c->args.axes[0]);
}

static lab_tensor *build_scatter_add_along_axis(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_scatter_add_along_axis(g, xs[0], xs[1], xs[2], c->args.axes[0]);
}

static lab_tensor *build_index_add(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_index_add(g, xs[0], c->args.axes[0], xs[1], xs[2]);
}

/* clang-format off */
#define GATHER_ROWS .op = "gather_rows", .two = lab_gather_rows, .reference = reference_gather_rows, .n_inputs = 2
#define TAKE_ALONG_AXIS \
    .op = "take_along_axis", .build = build_take_along_axis, .reference = reference_take_along_axis, .n_inputs = 2
#define SCATTER_ADD_ALONG_AXIS \
    .op = "scatter_add_along_axis", .build = build_scatter_add_along_axis, \
    .reference = reference_scatter_add_along_axis, .n_inputs = 3
#define INDEX_ADD .op = "index_add", .build = build_index_add, .reference = reference_index_add, .n_inputs = 3

const op_case op_cases_index[] = {
    {GATHER_ROWS, .variant = "rows of a matrix", .in = {{REAL, ANY, -3, 3, 2, {5, 3}}, {WHOLE, ANY, 0, 5, 1, {4}}},
     .derivatives = 2},
    {GATHER_ROWS, .variant = "indices of rank 2", .in = {{REAL, ANY, -3, 3, 2, {5, 3}}, {WHOLE, ANY, 0, 5, 2, {2, 3}}},
     .derivatives = 2},
    {GATHER_ROWS, .variant = "one row", .in = {{REAL, ANY, -3, 3, 2, {5, 3}}, {WHOLE, ANY, 0, 5, 0, {0}}},
     .derivatives = 2},
    {GATHER_ROWS, .variant = "elements of a vector", .in = {{REAL, ANY, -3, 3, 1, {5}}, {WHOLE, ANY, 0, 5, 1, {4}}},
     .derivatives = 2},
    {GATHER_ROWS, .variant = "rows of rank 3", .in = {{REAL, ANY, -3, 3, 3, {3, 2, 2}}, {WHOLE, ANY, 0, 3, 1, {4}}},
     .derivatives = 2},
    {GATHER_ROWS, .variant = "the same row again and again",
     .in = {{REAL, ANY, -3, 3, 2, {1, 3}}, {WHOLE, ANY, 0, 1, 1, {6}}}, .derivatives = 2},
    {GATHER_ROWS, .variant = "no indices", .in = {{REAL, ANY, -3, 3, 2, {5, 3}}, {WHOLE, ANY, 0, 5, 1, {0}}},
     .derivatives = 2},
    {GATHER_ROWS, .variant = "no indices, no table", .in = {{REAL, ANY, -3, 3, 2, {0, 3}}, {WHOLE, ANY, 0, 0, 1, {0}}},
     .derivatives = 2},
    {GATHER_ROWS, .variant = "empty rows", .in = {{REAL, ANY, -3, 3, 2, {3, 0}}, {WHOLE, ANY, 0, 3, 1, {2}}},
     .derivatives = 2},
    {GATHER_ROWS, .variant = "rank 8",
     .in = {{REAL, ANY, -3, 3, 5, {3, 1, 2, 1, 1}}, {WHOLE, ANY, 0, 3, 4, {2, 1, 2, 1}}}, .derivatives = 2},
    {GATHER_ROWS, .variant = "every row once", .in = {{REAL, ANY, -3, 3, 2, {5, 3}}, {WHOLE, COUNTING, 0, 5, 1, {5}}},
     .derivatives = 2},
    {GATHER_ROWS, .variant = "i64", .in = {{WHOLE, ANY, -50, 50, 2, {5, 3}}, {WHOLE, ANY, 0, 5, 1, {4}}}},
    {GATHER_ROWS, .variant = "bool", .in = {{TRUTH, ANY, 0, 1, 2, {5, 3}}, {WHOLE, ANY, 0, 5, 1, {4}}}},
    {GATHER_ROWS, .variant = "large", .in = {{REAL, ANY, -3, 3, 2, {500, 64}}, {WHOLE, ANY, 0, 500, 1, {4000}}},
     .derivatives = 2, .flags = LARGE},
    {TAKE_ALONG_AXIS, .variant = "first axis", .in = {{REAL, ANY, -3, 3, 2, {5, 3}}, {WHOLE, ANY, 0, 5, 2, {4, 3}}},
     .args = {.axes = {0}}, .derivatives = 2},
    {TAKE_ALONG_AXIS, .variant = "last axis", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}, {WHOLE, ANY, 0, 5, 2, {3, 2}}},
     .args = {.axes = {-1}}, .derivatives = 2},
    {TAKE_ALONG_AXIS, .variant = "middle axis",
     .in = {{REAL, ANY, -3, 3, 3, {2, 4, 3}}, {WHOLE, ANY, 0, 4, 3, {2, 5, 3}}}, .args = {.axes = {1}},
     .derivatives = 2},
    {TAKE_ALONG_AXIS, .variant = "vector", .in = {{REAL, ANY, -3, 3, 1, {5}}, {WHOLE, ANY, 0, 5, 1, {7}}},
     .args = {.axes = {0}}, .derivatives = 2},
    {TAKE_ALONG_AXIS, .variant = "no indices", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 0, 4, 2, {3, 0}}},
     .args = {.axes = {1}}, .derivatives = 2},
    {TAKE_ALONG_AXIS, .variant = "of no rows", .in = {{REAL, ANY, -3, 3, 2, {0, 3}}, {WHOLE, ANY, 0, 3, 2, {0, 2}}},
     .args = {.axes = {1}}, .derivatives = 2},
    {TAKE_ALONG_AXIS, .variant = "rank 8",
     .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 3, 1, 2}}, {WHOLE, ANY, 0, 3, 8, {1, 2, 1, 2, 1, 2, 1, 2}}},
     .args = {.axes = {5}}, .derivatives = 2},
    {TAKE_ALONG_AXIS, .variant = "i64", .in = {{WHOLE, ANY, -50, 50, 2, {5, 3}}, {WHOLE, ANY, 0, 5, 2, {4, 3}}},
     .args = {.axes = {0}}},
    {TAKE_ALONG_AXIS, .variant = "large, first axis",
     .in = {{REAL, ANY, -3, 3, 2, {300, 700}}, {WHOLE, ANY, 0, 300, 2, {400, 700}}}, .args = {.axes = {0}},
     .derivatives = 2, .flags = LARGE},
    {TAKE_ALONG_AXIS, .variant = "large, last axis",
     .in = {{REAL, ANY, -3, 3, 2, {700, 300}}, {WHOLE, ANY, 0, 300, 2, {700, 400}}}, .args = {.axes = {1}},
     .derivatives = 2, .flags = LARGE},
    {SCATTER_ADD_ALONG_AXIS, .variant = "first axis",
     .in = {{REAL, ANY, -3, 3, 2, {4, 3}}, {WHOLE, ANY, 0, 4, 2, {6, 3}}, {REAL, ANY, -3, 3, 2, {6, 3}}},
     .args = {.axes = {0}}, .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {SCATTER_ADD_ALONG_AXIS, .variant = "last axis",
     .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 0, 4, 2, {3, 5}}, {REAL, ANY, -3, 3, 2, {3, 5}}},
     .args = {.axes = {-1}}, .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {SCATTER_ADD_ALONG_AXIS, .variant = "middle axis",
     .in = {{REAL, ANY, -3, 3, 3, {2, 4, 3}}, {WHOLE, ANY, 0, 4, 3, {2, 5, 3}}, {REAL, ANY, -3, 3, 3, {2, 5, 3}}},
     .args = {.axes = {1}}, .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {SCATTER_ADD_ALONG_AXIS, .variant = "vector",
     .in = {{REAL, ANY, -3, 3, 1, {3}}, {WHOLE, ANY, 0, 3, 1, {7}},
            {REAL, ANY, -3, 3, 1, {7}}}, .args = {.axes = {0}},
     .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {SCATTER_ADD_ALONG_AXIS, .variant = "nothing to add",
     .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 0, 4, 2, {3, 0}}, {REAL, ANY, -3, 3, 2, {3, 0}}},
     .args = {.axes = {1}}, .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {SCATTER_ADD_ALONG_AXIS, .variant = "of no rows",
     .in = {{REAL, ANY, -3, 3, 2, {0, 3}}, {WHOLE, ANY, 0, 3, 2, {0, 2}}, {REAL, ANY, -3, 3, 2, {0, 2}}},
     .args = {.axes = {1}}, .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {SCATTER_ADD_ALONG_AXIS, .variant = "rank 8",
     .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 3, 1, 2}}, {WHOLE, ANY, 0, 3, 8, {1, 2, 1, 2, 1, 4, 1, 2}},
            {REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 4, 1, 2}}},
     .args = {.axes = {5}}, .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {SCATTER_ADD_ALONG_AXIS, .variant = "large, first axis",
     .in = {{REAL, ANY, -3, 3, 2, {300, 700}}, {WHOLE, ANY, 0, 300, 2, {400, 700}},
            {REAL, ANY, -3, 3, 2, {400, 700}}},
     .args = {.axes = {0}}, .derivatives = 2, .ulps = {16, 16}, .flags = BY_MAGNITUDE | LARGE},
    {SCATTER_ADD_ALONG_AXIS, .variant = "large, last axis",
     .in = {{REAL, ANY, -3, 3, 2, {700, 300}}, {WHOLE, ANY, 0, 300, 2, {700, 400}},
            {REAL, ANY, -3, 3, 2, {700, 400}}},
     .args = {.axes = {1}}, .derivatives = 2, .ulps = {16, 16}, .flags = BY_MAGNITUDE | LARGE},
    {INDEX_ADD, .variant = "first axis",
     .in = {{REAL, ANY, -3, 3, 2, {4, 3}}, {WHOLE, ANY, 0, 4, 1, {6}}, {REAL, ANY, -3, 3, 2, {6, 3}}},
     .args = {.axes = {0}}, .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {INDEX_ADD, .variant = "last axis",
     .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 0, 4, 1, {5}}, {REAL, ANY, -3, 3, 2, {3, 5}}},
     .args = {.axes = {-1}}, .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {INDEX_ADD, .variant = "middle axis",
     .in = {{REAL, ANY, -3, 3, 3, {2, 4, 3}}, {WHOLE, ANY, 0, 4, 1, {5}}, {REAL, ANY, -3, 3, 3, {2, 5, 3}}},
     .args = {.axes = {1}}, .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {INDEX_ADD, .variant = "vector",
     .in = {{REAL, ANY, -3, 3, 1, {3}}, {WHOLE, ANY, 0, 3, 1, {7}},
            {REAL, ANY, -3, 3, 1, {7}}}, .args = {.axes = {0}},
     .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {INDEX_ADD, .variant = "nothing to add",
     .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 0, 4, 1, {0}}, {REAL, ANY, -3, 3, 2, {3, 0}}},
     .args = {.axes = {1}}, .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {INDEX_ADD, .variant = "of no rows",
     .in = {{REAL, ANY, -3, 3, 2, {0, 3}}, {WHOLE, ANY, 0, 3, 1, {2}}, {REAL, ANY, -3, 3, 2, {0, 2}}},
     .args = {.axes = {1}}, .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {INDEX_ADD, .variant = "rank 8",
     .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 3, 1, 2}}, {WHOLE, ANY, 0, 3, 1, {4}},
            {REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 4, 1, 2}}},
     .args = {.axes = {5}}, .derivatives = 2, .ulps = {4, 4}, .flags = BY_MAGNITUDE},
    {INDEX_ADD, .variant = "large, first axis",
     .in = {{REAL, ANY, -3, 3, 2, {300, 700}}, {WHOLE, ANY, 0, 300, 1, {400}}, {REAL, ANY, -3, 3, 2, {400, 700}}},
     .args = {.axes = {0}}, .derivatives = 2, .ulps = {16, 16}, .flags = BY_MAGNITUDE | LARGE},
    {INDEX_ADD, .variant = "large, last axis",
     .in = {{REAL, ANY, -3, 3, 2, {700, 300}}, {WHOLE, ANY, 0, 300, 1, {400}}, {REAL, ANY, -3, 3, 2, {700, 400}}},
     .args = {.axes = {1}}, .derivatives = 2, .ulps = {16, 16}, .flags = BY_MAGNITUDE | LARGE},
    {.op = NULL},
};
/* clang-format on */
