/* op_cases_shape.c - ops that move elements or only look at them differently. */
#include "op_cases.h"

#include <string.h>

static void copy_under(const array *x, array *y, int rank, const int64_t *shape)
{
    array_make(y, x->dtype, rank, shape);
    for (int64_t i = 0; i < x->numel; i++)
        y->data[i] = x->data[i];
}

/* numbers[0 .. n): the shape, where -1 is what is left. */
static void reference_reshape(const op_case *c, const array *xs, array *y)
{
    int64_t shape[LAB_MAX_RANK], known = 1;
    for (int i = 0; i < c->args.n; i++)
        known *= c->args.numbers[i] == -1 ? 1 : c->args.numbers[i];
    for (int i = 0; i < c->args.n; i++)
        shape[i] = c->args.numbers[i] == -1 ? xs[0].numel / known : c->args.numbers[i];
    copy_under(&xs[0], y, c->args.n, shape);
}

static void reference_contiguous(const op_case *c, const array *xs, array *y)
{
    (void)c;
    copy_under(&xs[0], y, xs[0].rank, xs[0].shape);
}

/* Axis i of y is axis from[i] of x. */
static void permuted(const array *x, const int *from, array *y)
{
    int64_t shape[LAB_MAX_RANK], index[LAB_MAX_RANK] = {0}, at[LAB_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        shape[i] = x->shape[from[i]];
    array_make(y, x->dtype, x->rank, shape);
    for (int64_t place = 0; place < y->numel; place++) {
        for (int i = 0; i < x->rank; i++)
            at[from[i]] = index[i];
        y->data[place] = x->data[index_place(x, x->rank, at)];
        index_next(y->rank, y->shape, index);
    }
}

static void reference_permute(const op_case *c, const array *xs, array *y)
{
    int from[LAB_MAX_RANK];
    for (int i = 0; i < xs[0].rank; i++)
        from[i] = axis_of(xs[0].rank, c->args.axes[i]);
    permuted(&xs[0], from, y);
}

static void reference_transpose(const op_case *c, const array *xs, array *y)
{
    int from[LAB_MAX_RANK], a = axis_of(xs[0].rank, c->args.axes[0]), b = axis_of(xs[0].rank, c->args.axes[1]);
    for (int i = 0; i < xs[0].rank; i++)
        from[i] = i == a ? b : i == b ? a : i;
    permuted(&xs[0], from, y);
}

/* numbers: start, stop, step. */
static void reference_slice(const op_case *c, const array *xs, array *y)
{
    const array *x = &xs[0];
    int axis = axis_of(x->rank, c->args.axes[0]);
    int64_t shape[LAB_MAX_RANK], index[LAB_MAX_RANK] = {0}, at[LAB_MAX_RANK];
    int64_t size = x->shape[axis], start = c->args.numbers[0], stop = c->args.numbers[1], step = c->args.numbers[2];
    start += start < 0 ? size : 0;
    stop += stop < 0 ? size : 0;
    start = start < 0 ? 0 : start > size ? size : start;
    stop = stop < 0 ? 0 : stop > size ? size : stop;
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = 0;
    for (int64_t i = start; i < stop && i >= 0; i = step < stop ? i + step : stop)
        shape[axis]++;
    array_make(y, x->dtype, x->rank, shape);
    for (int64_t place = 0; place < y->numel; place++) {
        memcpy(at, index, sizeof at);
        at[axis] = start + index[axis] * step;
        y->data[place] = x->data[index_place(x, x->rank, at)];
        index_next(y->rank, y->shape, index);
    }
}

static void reference_concat(const op_case *c, const array *xs, array *y)
{
    int rank = xs[0].rank, axis = axis_of(rank, c->args.axes[0]);
    int64_t shape[LAB_MAX_RANK], before = 0;
    memcpy(shape, xs[0].shape, sizeof shape);
    for (int k = 1; k < c->n_inputs; k++)
        shape[axis] += xs[k].shape[axis];
    array_make(y, xs[0].dtype, rank, shape);
    for (int k = 0; k < c->n_inputs; k++) {
        int64_t index[LAB_MAX_RANK] = {0};
        for (int64_t i = 0; i < xs[k].numel; i++) {
            int64_t at[LAB_MAX_RANK];
            memcpy(at, index, sizeof at);
            at[axis] += before;
            y->data[index_place(y, rank, at)] = xs[k].data[i];
            index_next(rank, xs[k].shape, index);
        }
        before += xs[k].shape[axis];
    }
}

static void reference_broadcast_to(const op_case *c, const array *xs, array *y)
{
    int64_t index[LAB_MAX_RANK] = {0};
    array_make(y, xs[0].dtype, c->args.n, c->args.numbers);
    for (int64_t place = 0; place < y->numel; place++) {
        y->data[place] = xs[0].data[index_place(&xs[0], y->rank, index)];
        index_next(y->rank, y->shape, index);
    }
}

static void reference_cast(const op_case *c, const array *xs, array *y)
{
    array_make(y, c->args.dtype, xs[0].rank, xs[0].shape);
    for (int64_t i = 0; i < y->numel; i++) {
        long double x = xs[0].data[i];
        y->data[i] = y->dtype == LAB_BOOL ? x != 0 : y->dtype == LAB_I64 ? truncl(x) : x;
    }
}

static lab_tensor *build_reshape(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_reshape(g, xs[0], c->args.n, c->args.numbers);
}

static lab_tensor *build_transpose(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_transpose(g, xs[0], c->args.axes[0], c->args.axes[1]);
}

static lab_tensor *build_permute(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_permute(g, xs[0], c->args.axes);
}

static lab_tensor *build_slice(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_slice(g, xs[0], c->args.axes[0], c->args.numbers[0], c->args.numbers[1], c->args.numbers[2]);
}

static lab_tensor *build_concat(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_concat(g, c->n_inputs, xs, c->args.axes[0]);
}

static lab_tensor *build_broadcast_to(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_broadcast_to(g, xs[0], c->args.n, c->args.numbers);
}

static lab_tensor *build_cast(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_cast(g, xs[0], c->args.dtype);
}

/* clang-format off */
#define RESHAPE .op = "reshape", .build = build_reshape, .reference = reference_reshape, .n_inputs = 1
#define TRANSPOSE .op = "transpose", .build = build_transpose, .reference = reference_transpose, .n_inputs = 1
#define PERMUTE .op = "permute", .build = build_permute, .reference = reference_permute, .n_inputs = 1
#define SLICE .op = "slice", .build = build_slice, .reference = reference_slice, .n_inputs = 1
#define CONCAT .op = "concat", .build = build_concat, .reference = reference_concat, .n_inputs = 3
#define CONCAT_OF_1 .op = "concat", .build = build_concat, .reference = reference_concat, .n_inputs = 1
#define CONCAT_OF_2 .op = "concat", .build = build_concat, .reference = reference_concat, .n_inputs = 2
#define BROADCAST_TO \
    .op = "broadcast_to", .build = build_broadcast_to, .reference = reference_broadcast_to, .n_inputs = 1
#define CAST .op = "cast", .build = build_cast, .reference = reference_cast, .n_inputs = 1
#define CONTIGUOUS .op = "contiguous", .one = lab_contiguous, .reference = reference_contiguous, .n_inputs = 1

const op_case op_cases_shape[] = {
    {RESHAPE, .variant = "rows to columns", .in = {{REAL, ANY, -3, 3, 2, {2, 6}}}, .args = {.n = 2, .numbers = {3, 4}},
     .derivatives = 2},
    {RESHAPE, .variant = "one size left open", .in = {{REAL, ANY, -3, 3, 2, {2, 6}}},
     .args = {.n = 2, .numbers = {-1, 3}}, .derivatives = 2},
    {RESHAPE, .variant = "to a vector", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 2}}}, .args = {.n = 1, .numbers = {12}},
     .derivatives = 2},
    {RESHAPE, .variant = "to rank 0", .in = {{REAL, ANY, -3, 3, 2, {1, 1}}}, .args = {.n = 0, .numbers = {0}},
     .derivatives = 2},
    {RESHAPE, .variant = "from rank 0", .in = {{REAL, ANY, -3, 3, 0, {0}}}, .args = {.n = 2, .numbers = {1, 1}},
     .derivatives = 2},
    {RESHAPE, .variant = "empty", .in = {{REAL, ANY, -3, 3, 2, {0, 3}}}, .args = {.n = 1, .numbers = {0}},
     .derivatives = 2},
    {RESHAPE, .variant = "empty, one size left open", .in = {{REAL, ANY, -3, 3, 2, {2, 0}}},
     .args = {.n = 2, .numbers = {2, -1}}, .derivatives = 2},
    {RESHAPE, .variant = "same shape", .in = {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.n = 2, .numbers = {2, 3}},
     .derivatives = 2},
    {RESHAPE, .variant = "rank 8", .in = {{REAL, ANY, -3, 3, 2, {4, 4}}},
     .args = {.n = 8, .numbers = {1, 2, 1, 2, 2, 1, 2, 1}}, .derivatives = 2},
    {RESHAPE, .variant = "i64", .in = {{WHOLE, ANY, -50, 50, 2, {2, 6}}}, .args = {.n = 2, .numbers = {4, 3}}},
    {RESHAPE, .variant = "bool", .in = {{TRUTH, ANY, 0, 1, 2, {2, 6}}}, .args = {.n = 1, .numbers = {12}}},
    {RESHAPE, .variant = "large", .in = {{REAL, ANY, -3, 3, 2, {600, 500}}}, .args = {.n = 2, .numbers = {500, 600}},
     .derivatives = 2, .flags = LARGE},
    {TRANSPOSE, .variant = "matrix", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}}, .args = {.axes = {0, 1}},
     .derivatives = 2},
    {TRANSPOSE, .variant = "last two of three", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 4}}}, .args = {.axes = {-2, -1}},
     .derivatives = 2},
    {TRANSPOSE, .variant = "outer two of three", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 4}}}, .args = {.axes = {0, -1}},
     .derivatives = 2},
    {TRANSPOSE, .variant = "an axis with itself", .in = {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {1, 1}},
     .derivatives = 2},
    {TRANSPOSE, .variant = "empty", .in = {{REAL, ANY, -3, 3, 2, {0, 3}}}, .args = {.axes = {0, 1}}, .derivatives = 2},
    {TRANSPOSE, .variant = "rank 8", .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 3, 1, 2, 1, 2}}},
     .args = {.axes = {1, -1}}, .derivatives = 2},
    {TRANSPOSE, .variant = "bool", .in = {{TRUTH, ANY, 0, 1, 2, {3, 4}}}, .args = {.axes = {0, 1}}},
    {TRANSPOSE, .variant = "large", .in = {{REAL, ANY, -3, 3, 2, {600, 500}}}, .args = {.axes = {0, 1}},
     .derivatives = 2, .flags = LARGE},
    {PERMUTE, .variant = "three axes", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 4}}}, .args = {.axes = {2, 0, 1}},
     .derivatives = 2},
    {PERMUTE, .variant = "from the end", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 4}}}, .args = {.axes = {-1, 0, -2}},
     .derivatives = 2},
    {PERMUTE, .variant = "nothing moved", .in = {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {0, 1}},
     .derivatives = 2},
    {PERMUTE, .variant = "rank 0", .in = {{REAL, ANY, -3, 3, 0, {0}}}, .args = {.axes = {0}}, .derivatives = 2},
    {PERMUTE, .variant = "empty", .in = {{REAL, ANY, -3, 3, 3, {2, 0, 3}}}, .args = {.axes = {1, 2, 0}},
     .derivatives = 2},
    {PERMUTE, .variant = "rank 8", .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 3, 1, 2, 1, 2}}},
     .args = {.axes = {7, 6, 5, 4, 3, 2, 1, 0}}, .derivatives = 2},
    {PERMUTE, .variant = "i64", .in = {{WHOLE, ANY, -50, 50, 3, {2, 3, 4}}}, .args = {.axes = {1, 2, 0}}},
    {PERMUTE, .variant = "large", .in = {{REAL, ANY, -3, 3, 3, {50, 60, 100}}}, .args = {.axes = {2, 1, 0}},
     .derivatives = 2, .flags = LARGE},
    {SLICE, .variant = "a part", .in = {{REAL, ANY, -3, 3, 2, {5, 3}}}, .args = {.axes = {0}, .numbers = {1, 3, 1}},
     .derivatives = 2},
    {SLICE, .variant = "every second", .in = {{REAL, ANY, -3, 3, 2, {3, 7}}},
     .args = {.axes = {1}, .numbers = {0, 7, 2}}, .derivatives = 2},
    {SLICE, .variant = "every third from 1", .in = {{REAL, ANY, -3, 3, 1, {8}}},
     .args = {.axes = {0}, .numbers = {1, 8, 3}}, .derivatives = 2},
    {SLICE, .variant = "from the end", .in = {{REAL, ANY, -3, 3, 2, {6, 2}}},
     .args = {.axes = {0}, .numbers = {-4, -1, 1}}, .derivatives = 2},
    {SLICE, .variant = "clamped on both sides", .in = {{REAL, ANY, -3, 3, 2, {4, 2}}},
     .args = {.axes = {0}, .numbers = {-9, 99, 1}}, .derivatives = 2},
    {SLICE, .variant = "as far as can be", .in = {{REAL, ANY, -3, 3, 2, {4, 2}}},
     .args = {.axes = {0}, .numbers = {1, INT64_MAX, 1}}, .derivatives = 2},
    {SLICE, .variant = "a long step", .in = {{REAL, ANY, -3, 3, 2, {4, 2}}},
     .args = {.axes = {0}, .numbers = {1, 4, INT64_MAX}}, .derivatives = 2},
    {SLICE, .variant = "nothing", .in = {{REAL, ANY, -3, 3, 2, {4, 2}}}, .args = {.axes = {0}, .numbers = {3, 3, 1}},
     .derivatives = 2},
    {SLICE, .variant = "stop before start", .in = {{REAL, ANY, -3, 3, 2, {4, 2}}},
     .args = {.axes = {0}, .numbers = {3, 1, 1}}, .derivatives = 2},
    {SLICE, .variant = "of nothing", .in = {{REAL, ANY, -3, 3, 2, {0, 2}}},
     .args = {.axes = {0}, .numbers = {0, 5, 1}}, .derivatives = 2},
    {SLICE, .variant = "everything", .in = {{REAL, ANY, -3, 3, 2, {2, 3}}},
     .args = {.axes = {-1}, .numbers = {0, 3, 1}}, .derivatives = 2},
    {SLICE, .variant = "rank 8", .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 5, 1, 2}}},
     .args = {.axes = {5}, .numbers = {1, 5, 2}}, .derivatives = 2},
    {SLICE, .variant = "i64", .in = {{WHOLE, ANY, -50, 50, 2, {5, 3}}}, .args = {.axes = {0}, .numbers = {1, 4, 2}}},
    {SLICE, .variant = "large", .in = {{REAL, ANY, -3, 3, 2, {700, 500}}},
     .args = {.axes = {1}, .numbers = {1, 500, 2}}, .derivatives = 2, .flags = LARGE},
    {CONCAT, .variant = "first axis",
     .in = {{REAL, ANY, -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 2, {1, 3}}, {REAL, ANY, -3, 3, 2, {3, 3}}},
     .args = {.axes = {0}}, .derivatives = 2},
    {CONCAT, .variant = "last axis",
     .in = {{REAL, ANY, -3, 3, 2, {2, 1}}, {REAL, ANY, -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 2, {2, 2}}},
     .args = {.axes = {-1}}, .derivatives = 2},
    {CONCAT, .variant = "middle axis",
     .in = {{REAL, ANY, -3, 3, 3, {2, 1, 2}}, {REAL, ANY, -3, 3, 3, {2, 2, 2}}, {REAL, ANY, -3, 3, 3, {2, 1, 2}}},
     .args = {.axes = {1}}, .derivatives = 2},
    {CONCAT, .variant = "an empty piece",
     .in = {{REAL, ANY, -3, 3, 2, {2, 2}}, {REAL, ANY, -3, 3, 2, {2, 0}}, {REAL, ANY, -3, 3, 2, {2, 1}}},
     .args = {.axes = {1}}, .derivatives = 2},
    {CONCAT, .variant = "vectors",
     .in = {{REAL, ANY, -3, 3, 1, {2}}, {REAL, ANY, -3, 3, 1, {3}},
            {REAL, ANY, -3, 3, 1, {1}}}, .args = {.axes = {0}},
     .derivatives = 2},
    {CONCAT, .variant = "rank 8",
     .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 1, 1, 2, 1, 2}}, {REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 2, 1, 2}},
            {REAL, ANY, -3, 3, 8, {1, 2, 1, 1, 1, 2, 1, 2}}},
     .args = {.axes = {3}}, .derivatives = 2},
    {CONCAT_OF_1, .variant = "a single one", .in = {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {0}},
     .derivatives = 2},
    {CONCAT_OF_2, .variant = "two empty ones", .in = {{REAL, ANY, -3, 3, 2, {0, 3}}, {REAL, ANY, -3, 3, 2, {0, 3}}},
     .args = {.axes = {0}}, .derivatives = 2},
    {CONCAT_OF_2, .variant = "i64", .in = {{WHOLE, ANY, -50, 50, 2, {2, 3}}, {WHOLE, ANY, -50, 50, 2, {2, 1}}},
     .args = {.axes = {1}}},
    {CONCAT_OF_2, .variant = "bool", .in = {{TRUTH, ANY, 0, 1, 2, {2, 3}}, {TRUTH, ANY, 0, 1, 2, {1, 3}}},
     .args = {.axes = {0}}},
    {CONCAT_OF_2, .variant = "large", .in = {{REAL, ANY, -3, 3, 2, {300, 200}}, {REAL, ANY, -3, 3, 2, {300, 500}}},
     .args = {.axes = {1}}, .derivatives = 2, .flags = LARGE},
    {BROADCAST_TO, .variant = "a new axis", .in = {{REAL, ANY, -3, 3, 1, {3}}}, .args = {.n = 2, .numbers = {2, 3}},
     .derivatives = 2},
    {BROADCAST_TO, .variant = "a size of 1", .in = {{REAL, ANY, -3, 3, 2, {2, 1}}},
     .args = {.n = 2, .numbers = {2, 4}}, .derivatives = 2},
    {BROADCAST_TO, .variant = "both", .in = {{REAL, ANY, -3, 3, 2, {3, 1}}}, .args = {.n = 3, .numbers = {2, 3, 4}},
     .derivatives = 2},
    {BROADCAST_TO, .variant = "rank 0", .in = {{REAL, ANY, -3, 3, 0, {0}}}, .args = {.n = 2, .numbers = {2, 2}},
     .derivatives = 2},
    {BROADCAST_TO, .variant = "to nothing", .in = {{REAL, ANY, -3, 3, 2, {1, 3}}}, .args = {.n = 2, .numbers = {0, 3}},
     .derivatives = 2},
    {BROADCAST_TO, .variant = "same shape", .in = {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.n = 2, .numbers = {2, 3}},
     .derivatives = 2},
    {BROADCAST_TO, .variant = "rank 8", .in = {{REAL, ANY, -3, 3, 4, {2, 1, 3, 1}}},
     .args = {.n = 8, .numbers = {1, 2, 1, 2, 2, 2, 3, 1}}, .derivatives = 2},
    {BROADCAST_TO, .variant = "bool", .in = {{TRUTH, ANY, 0, 1, 2, {3, 1}}}, .args = {.n = 2, .numbers = {3, 2}}},
    {BROADCAST_TO, .variant = "large", .in = {{REAL, ANY, -3, 3, 2, {600, 1}}},
     .args = {.n = 2, .numbers = {600, 500}}, .derivatives = 2, .flags = LARGE},
    {CAST, .variant = "float to f64", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}}, .args = {.dtype = LAB_F64},
     .derivatives = 2},
    {CAST, .variant = "float to f32", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}}, .args = {.dtype = LAB_F32},
     .derivatives = 2, .ulps = {0.5001, 0.5001}, .flags = TO_F32},
    {CAST, .variant = "float to i64", .in = {{REAL, ANY, -100, 100, 2, {3, 4}}}, .args = {.dtype = LAB_I64}},
    {CAST, .variant = "float to bool", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}}, .args = {.dtype = LAB_BOOL}},
    {CAST, .variant = "i64 to f32", .in = {{WHOLE, ANY, -50, 50, 2, {3, 4}}}, .args = {.dtype = LAB_F32}},
    {CAST, .variant = "i64 to f64", .in = {{WHOLE, ANY, -50, 50, 2, {3, 4}}}, .args = {.dtype = LAB_F64}},
    {CAST, .variant = "i64 to bool", .in = {{WHOLE, ANY, -1, 2, 2, {3, 4}}}, .args = {.dtype = LAB_BOOL}},
    {CAST, .variant = "i64 to i64", .in = {{WHOLE, ANY, -50, 50, 2, {3, 4}}}, .args = {.dtype = LAB_I64}},
    {CAST, .variant = "bool to f32", .in = {{TRUTH, ANY, 0, 1, 2, {3, 4}}}, .args = {.dtype = LAB_F32}},
    {CAST, .variant = "bool to i64", .in = {{TRUTH, ANY, 0, 1, 2, {3, 4}}}, .args = {.dtype = LAB_I64}},
    {CAST, .variant = "bool to bool", .in = {{TRUTH, ANY, 0, 1, 2, {3, 4}}}, .args = {.dtype = LAB_BOOL}},
    {CAST, .variant = "rank 0", .in = {{REAL, ANY, -3, 3, 0, {0}}}, .args = {.dtype = LAB_F64}, .derivatives = 2},
    {CAST, .variant = "empty", .in = {{REAL, ANY, -3, 3, 2, {0, 2}}}, .args = {.dtype = LAB_F32}, .derivatives = 2,
     .flags = TO_F32},
    {CAST, .variant = "large", .in = {{REAL, ANY, -3, 3, 2, {600, 500}}}, .args = {.dtype = LAB_F32}, .derivatives = 2,
     .ulps = {0.5001, 0.5001}, .flags = LARGE | TO_F32},
    {CONTIGUOUS, .variant = "matrix", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}}, .derivatives = 2},
    {CONTIGUOUS, .variant = "rank 0", .in = {{REAL, ANY, -3, 3, 0, {0}}}, .derivatives = 2},
    {CONTIGUOUS, .variant = "empty", .in = {{REAL, ANY, -3, 3, 2, {2, 0}}}, .derivatives = 2},
    {CONTIGUOUS, .variant = "rank 8", .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 2, 1, 2}}}, .derivatives = 2},
    {CONTIGUOUS, .variant = "bool", .in = {{TRUTH, ANY, 0, 1, 2, {3, 4}}}},
    {CONTIGUOUS, .variant = "large", .in = {{REAL, ANY, -3, 3, 2, {600, 500}}}, .derivatives = 2, .flags = LARGE},
    {.op = NULL},
};
/* clang-format on */
