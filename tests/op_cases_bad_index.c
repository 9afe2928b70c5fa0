/* op_cases_bad_index.c - calls of index and creation ops that must be refused, and what must be said. */
#include "op_cases.h"

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

static lab_tensor *build_full(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs;
    return lab_full(g, c->args.dtype, c->args.n, c->args.numbers, c->args.scalar);
}

static lab_tensor *build_full_without_list(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs, (void)c;
    return lab_full(g, LAB_F32, 1, NULL, 0);
}

static lab_tensor *build_constant(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs;
    return lab_constant(g, c->args.dtype, c->args.n, c->args.numbers, (double[4]){0});
}

static lab_tensor *build_constant_without_data(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs;
    return lab_constant(g, c->args.dtype, c->args.n, c->args.numbers, NULL);
}

static lab_tensor *build_constant_without_list(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs, (void)c;
    return lab_constant(g, LAB_F32, 1, NULL, (float[1]){0});
}

static lab_tensor *build_arange(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs;
    return lab_arange(g, c->args.dtype, c->args.start, c->args.scalar, c->args.step);
}

static lab_tensor *build_randn(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs;
    return lab_randn(g, c->args.dtype, c->args.n, c->args.numbers, 1);
}

static lab_tensor *build_randn_without_list(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs, (void)c;
    return lab_randn(g, LAB_F32, 1, NULL, 1);
}

static lab_tensor *build_rand(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs;
    return lab_rand(g, c->args.dtype, c->args.n, c->args.numbers, 1);
}

static lab_tensor *build_rand_without_list(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs, (void)c;
    return lab_rand(g, LAB_F32, 1, NULL, 1);
}

/* clang-format off */

const bad_case bad_cases_index[] = {
    {.call = {.op = "gather_rows", .variant = "an index past the last row", .two = lab_gather_rows, .n_inputs = 2, .in
     = {{REAL, ANY, -3, 3, 2, {5, 3}}, {WHOLE, ANY, 5, 6, 1, {2}}}}, .dtypes = {LAB_F32, LAB_I64}, .status =
     LAB_ERR_RANGE, .says = {"5"}},
    {.call = {.op = "gather_rows", .variant = "a negative index", .two = lab_gather_rows, .n_inputs = 2, .in = {{REAL,
     ANY, -3, 3, 2, {5, 3}}, {WHOLE, ANY, -1, 0, 1, {2}}}}, .dtypes = {LAB_F32, LAB_I64}, .status = LAB_ERR_RANGE,
     .says = {"-1"}},
    {.call = {.op = "gather_rows", .variant = "an index into nothing", .two = lab_gather_rows, .n_inputs = 2, .in =
     {{REAL, ANY, -3, 3, 2, {0, 3}}, {WHOLE, ANY, 0, 1, 1, {2}}}}, .dtypes = {LAB_F32, LAB_I64}, .status =
     LAB_ERR_RANGE, .says = {"0"}},
    {.call = {.op = "gather_rows", .variant = "float indices", .two = lab_gather_rows, .n_inputs = 2, .in = {{REAL,
     ANY, -3, 3, 2, {5, 3}}, {REAL, ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_F32, LAB_F32}, .status = LAB_ERR_DTYPE, .says
     = {"f32"}},
    {.call = {.op = "gather_rows", .variant = "a table of rank 0", .two = lab_gather_rows, .n_inputs = 2, .in = {{REAL,
     ANY, -3, 3, 0, {0}}, {WHOLE, ANY, 0, 1, 1, {2}}}}, .dtypes = {LAB_F32, LAB_I64}, .status = LAB_ERR_SHAPE, .says =
     {"[]"}},
    {.call = {.op = "gather_rows", .variant = "a result of rank 9", .two = lab_gather_rows, .n_inputs = 2, .in =
     {{REAL, ANY, -3, 3, 5, {1, 1, 1, 1, 1}}, {WHOLE, ANY, 0, 1, 5, {1, 1, 1, 1, 1}}}}, .dtypes = {LAB_F32, LAB_I64},
     .status = LAB_ERR_RANGE, .says = {"9"}},
    {.call = {.op = "take_along_axis", .variant = "an index past the last", .build = build_take_along_axis, .n_inputs =
     2, .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 3, 4, 2, {2, 4}}}, .args = {.axes = {0}}}, .dtypes =
     {LAB_F32, LAB_I64}, .status = LAB_ERR_RANGE, .says = {"3"}},
    {.call = {.op = "take_along_axis", .variant = "a negative index", .build = build_take_along_axis, .n_inputs = 2,
     .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, -1, 0, 2, {2, 4}}}, .args = {.axes = {0}}}, .dtypes = {LAB_F32,
     LAB_I64}, .status = LAB_ERR_RANGE, .says = {"-1"}},
    {.call = {.op = "take_along_axis", .variant = "ranks differ", .build = build_take_along_axis, .n_inputs = 2, .in =
     {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 0, 1, 1, {4}}}, .args = {.axes = {0}}}, .dtypes = {LAB_F32, LAB_I64},
     .status = LAB_ERR_SHAPE, .says = {"[3, 4]", "[4]"}},
    {.call = {.op = "take_along_axis", .variant = "other sizes differ", .build = build_take_along_axis, .n_inputs = 2,
     .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 0, 1, 2, {3, 5}}}, .args = {.axes = {0}}}, .dtypes = {LAB_F32,
     LAB_I64}, .status = LAB_ERR_SHAPE, .says = {"[3, 4]", "[3, 5]"}},
    {.call = {.op = "take_along_axis", .variant = "float indices", .build = build_take_along_axis, .n_inputs = 2, .in =
     {{REAL, ANY, -3, 3, 2, {3, 4}}, {REAL, ANY, -3, 3, 2, {2, 4}}}, .args = {.axes = {0}}}, .dtypes = {LAB_F32,
     LAB_F32}, .status = LAB_ERR_DTYPE, .says = {"f32"}},
    {.call = {.op = "take_along_axis", .variant = "axis past the last", .build = build_take_along_axis, .n_inputs = 2,
     .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 0, 1, 2, {3, 4}}}, .args = {.axes = {2}}}, .dtypes = {LAB_F32,
     LAB_I64}, .status = LAB_ERR_RANGE, .says = {"2"}},
    {.call = {.op = "scatter_add_along_axis", .variant = "an index past the last", .build =
     build_scatter_add_along_axis, .n_inputs = 3, .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 3, 4, 2, {2, 4}},
     {REAL, ANY, -3, 3, 2, {2, 4}}}, .args = {.axes = {0}}}, .dtypes = {LAB_F32, LAB_I64, LAB_F32}, .status =
     LAB_ERR_RANGE, .says = {"3"}},
    {.call = {.op = "scatter_add_along_axis", .variant = "a negative index", .build = build_scatter_add_along_axis,
     .n_inputs = 3, .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, -1, 0, 2, {2, 4}}, {REAL, ANY, -3, 3, 2, {2,
     4}}}, .args = {.axes = {0}}}, .dtypes = {LAB_F32, LAB_I64, LAB_F32}, .status = LAB_ERR_RANGE, .says = {"-1"}},
    {.call = {.op = "scatter_add_along_axis", .variant = "source unlike indices", .build =
     build_scatter_add_along_axis, .n_inputs = 3, .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 0, 1, 2, {2, 4}},
     {REAL, ANY, -3, 3, 2, {3, 4}}}, .args = {.axes = {0}}}, .dtypes = {LAB_F32, LAB_I64, LAB_F32}, .status =
     LAB_ERR_SHAPE, .says = {"[2, 4]", "[3, 4]"}},
    {.call = {.op = "scatter_add_along_axis", .variant = "other sizes differ", .build = build_scatter_add_along_axis,
     .n_inputs = 3, .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 0, 1, 2, {2, 5}}, {REAL, ANY, -3, 3, 2, {2,
     5}}}, .args = {.axes = {0}}}, .dtypes = {LAB_F32, LAB_I64, LAB_F32}, .status = LAB_ERR_SHAPE, .says = {"[3, 4]",
     "[2, 5]"}},
    {.call = {.op = "scatter_add_along_axis", .variant = "i64", .build = build_scatter_add_along_axis, .n_inputs = 3,
     .in = {{REAL, ANY, -3, 3, 1, {3}}, {WHOLE, ANY, 0, 1, 1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}, .args = {.axes =
     {0}}}, .dtypes = {LAB_I64, LAB_I64, LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "scatter_add_along_axis", .variant = "two dtypes", .build = build_scatter_add_along_axis, .n_inputs
     = 3, .in = {{REAL, ANY, -3, 3, 1, {3}}, {WHOLE, ANY, 0, 1, 1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}, .args = {.axes =
     {0}}}, .dtypes = {LAB_F32, LAB_I64, LAB_F64}, .status = LAB_ERR_DTYPE, .says = {"f32", "f64"}},
    {.call = {.op = "scatter_add_along_axis", .variant = "float indices", .build = build_scatter_add_along_axis,
     .n_inputs = 3, .in = {{REAL, ANY, -3, 3, 1, {3}}, {REAL, ANY, -3, 3, 1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}, .args =
     {.axes = {0}}}, .dtypes = {LAB_F32, LAB_F32, LAB_F32}, .status = LAB_ERR_DTYPE, .says = {"f32"}},
    {.call = {.op = "scatter_add_along_axis", .variant = "axis past the last", .build = build_scatter_add_along_axis,
     .n_inputs = 3, .in = {{REAL, ANY, -3, 3, 1, {3}}, {WHOLE, ANY, 0, 1, 1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}, .args =
     {.axes = {1}}}, .dtypes = {LAB_F32, LAB_I64, LAB_F32}, .status = LAB_ERR_RANGE, .says = {"1"}},
    {.call = {.op = "index_add", .variant = "an index past the last", .build = build_index_add, .n_inputs = 3, .in =
     {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 3, 4, 1, {2}}, {REAL, ANY, -3, 3, 2, {2, 4}}}, .args = {.axes =
     {0}}}, .dtypes = {LAB_F32, LAB_I64, LAB_F32}, .status = LAB_ERR_RANGE, .says = {"3"}},
    {.call = {.op = "index_add", .variant = "a negative index", .build = build_index_add, .n_inputs = 3, .in = {{REAL,
     ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, -1, 0, 1, {2}}, {REAL, ANY, -3, 3, 2, {2, 4}}}, .args = {.axes = {0}}},
     .dtypes = {LAB_F32, LAB_I64, LAB_F32}, .status = LAB_ERR_RANGE, .says = {"-1"}},
    {.call = {.op = "index_add", .variant = "more source than indices", .build = build_index_add, .n_inputs = 3, .in =
     {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 0, 1, 1, {2}}, {REAL, ANY, -3, 3, 2, {3, 4}}}, .args = {.axes =
     {0}}}, .dtypes = {LAB_F32, LAB_I64, LAB_F32}, .status = LAB_ERR_SHAPE, .says = {"[2]", "[3, 4]"}},
    {.call = {.op = "index_add", .variant = "other sizes differ", .build = build_index_add, .n_inputs = 3, .in =
     {{REAL, ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 0, 1, 1, {2}}, {REAL, ANY, -3, 3, 2, {2, 5}}}, .args = {.axes =
     {0}}}, .dtypes = {LAB_F32, LAB_I64, LAB_F32}, .status = LAB_ERR_SHAPE, .says = {"[3, 4]", "[2, 5]"}},
    {.call = {.op = "index_add", .variant = "indices of rank 2", .build = build_index_add, .n_inputs = 3, .in = {{REAL,
     ANY, -3, 3, 2, {3, 4}}, {WHOLE, ANY, 0, 1, 2, {2, 1}}, {REAL, ANY, -3, 3, 2, {2, 4}}}, .args = {.axes = {0}}},
     .dtypes = {LAB_F32, LAB_I64, LAB_F32}, .status = LAB_ERR_SHAPE, .says = {"[2, 1]"}},
    {.call = {.op = "index_add", .variant = "i64", .build = build_index_add, .n_inputs = 3, .in = {{REAL, ANY, -3, 3,
     1, {3}}, {WHOLE, ANY, 0, 1, 1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}, .args = {.axes = {0}}}, .dtypes = {LAB_I64,
     LAB_I64, LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "index_add", .variant = "two dtypes", .build = build_index_add, .n_inputs = 3, .in = {{REAL, ANY,
     -3, 3, 1, {3}}, {WHOLE, ANY, 0, 1, 1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}, .args = {.axes = {0}}}, .dtypes =
     {LAB_F32, LAB_I64, LAB_F64}, .status = LAB_ERR_DTYPE, .says = {"f32", "f64"}},
    {.call = {.op = "index_add", .variant = "float indices", .build = build_index_add, .n_inputs = 3, .in = {{REAL,
     ANY, -3, 3, 1, {3}}, {REAL, ANY, -3, 3, 1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}, .args = {.axes = {0}}}, .dtypes =
     {LAB_F32, LAB_F32, LAB_F32}, .status = LAB_ERR_DTYPE, .says = {"f32"}},
    {.call = {.op = "index_add", .variant = "axis past the last", .build = build_index_add, .n_inputs = 3, .in =
     {{REAL, ANY, -3, 3, 1, {3}}, {WHOLE, ANY, 0, 1, 1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}, .args = {.axes = {1}}},
     .dtypes = {LAB_F32, LAB_I64, LAB_F32}, .status = LAB_ERR_RANGE, .says = {"1"}},
    {.call = {.op = "constant", .variant = "no such dtype", .build = build_constant, .args = {.n = 1, .numbers = {2},
     .dtype = (lab_dtype)99}}, .status = LAB_ERR_DTYPE, .says = {"99"}},
    {.call = {.op = "constant", .variant = "rank 9", .build = build_constant, .args = {.n = 9}}, .status =
     LAB_ERR_RANGE, .says = {"9"}},
    {.call = {.op = "constant", .variant = "rank -1", .build = build_constant, .args = {.n = -1}}, .status =
     LAB_ERR_RANGE, .says = {"-1"}},
    {.call = {.op = "constant", .variant = "a negative size", .build = build_constant, .args = {.n = 2, .numbers = {2,
     -2}}}, .status = LAB_ERR_RANGE, .says = {"-2"}},
    {.call = {.op = "constant", .variant = "a product that overflows", .build = build_constant, .args = {.n = 2,
     .numbers = {INT64_MAX, 3}}}, .status = LAB_ERR_RANGE},
    {.call = {.op = "constant", .variant = "bytes that overflow", .build = build_constant, .args = {.n = 1, .numbers =
     {INT64_MAX / 2}}}, .status = LAB_ERR_RANGE},
    {.call = {.op = "constant", .variant = "no list of sizes", .build = build_constant_without_list}, .status =
     LAB_ERR_ARGUMENT},
    {.call = {.op = "full", .variant = "no such dtype", .build = build_full, .args = {.n = 1, .numbers = {2}, .dtype =
     (lab_dtype)99}}, .status = LAB_ERR_DTYPE, .says = {"99"}},
    {.call = {.op = "full", .variant = "rank 9", .build = build_full, .args = {.n = 9}}, .status = LAB_ERR_RANGE, .says
     = {"9"}},
    {.call = {.op = "full", .variant = "rank -1", .build = build_full, .args = {.n = -1}}, .status = LAB_ERR_RANGE,
     .says = {"-1"}},
    {.call = {.op = "full", .variant = "a negative size", .build = build_full, .args = {.n = 2, .numbers = {2, -2}}},
     .status = LAB_ERR_RANGE, .says = {"-2"}},
    {.call = {.op = "full", .variant = "a product that overflows", .build = build_full, .args = {.n = 2, .numbers =
     {INT64_MAX, 3}}}, .status = LAB_ERR_RANGE},
    {.call = {.op = "full", .variant = "bytes that overflow", .build = build_full, .args = {.n = 1, .numbers =
     {INT64_MAX / 2}}}, .status = LAB_ERR_RANGE},
    {.call = {.op = "full", .variant = "no list of sizes", .build = build_full_without_list}, .status =
     LAB_ERR_ARGUMENT},
    {.call = {.op = "randn", .variant = "no such dtype", .build = build_randn, .args = {.n = 1, .numbers = {2}, .dtype
     = (lab_dtype)99}}, .status = LAB_ERR_DTYPE, .says = {"99"}},
    {.call = {.op = "randn", .variant = "rank 9", .build = build_randn, .args = {.n = 9}}, .status = LAB_ERR_RANGE,
     .says = {"9"}},
    {.call = {.op = "randn", .variant = "rank -1", .build = build_randn, .args = {.n = -1}}, .status = LAB_ERR_RANGE,
     .says = {"-1"}},
    {.call = {.op = "randn", .variant = "a negative size", .build = build_randn, .args = {.n = 2, .numbers = {2, -2}}},
     .status = LAB_ERR_RANGE, .says = {"-2"}},
    {.call = {.op = "randn", .variant = "a product that overflows", .build = build_randn, .args = {.n = 2, .numbers =
     {INT64_MAX, 3}}}, .status = LAB_ERR_RANGE},
    {.call = {.op = "randn", .variant = "bytes that overflow", .build = build_randn, .args = {.n = 1, .numbers =
     {INT64_MAX / 2}}}, .status = LAB_ERR_RANGE},
    {.call = {.op = "randn", .variant = "no list of sizes", .build = build_randn_without_list}, .status =
     LAB_ERR_ARGUMENT},
    {.call = {.op = "rand", .variant = "no such dtype", .build = build_rand, .args = {.n = 1, .numbers = {2}, .dtype =
     (lab_dtype)99}}, .status = LAB_ERR_DTYPE, .says = {"99"}},
    {.call = {.op = "rand", .variant = "rank 9", .build = build_rand, .args = {.n = 9}}, .status = LAB_ERR_RANGE, .says
     = {"9"}},
    {.call = {.op = "rand", .variant = "rank -1", .build = build_rand, .args = {.n = -1}}, .status = LAB_ERR_RANGE,
     .says = {"-1"}},
    {.call = {.op = "rand", .variant = "a negative size", .build = build_rand, .args = {.n = 2, .numbers = {2, -2}}},
     .status = LAB_ERR_RANGE, .says = {"-2"}},
    {.call = {.op = "rand", .variant = "a product that overflows", .build = build_rand, .args = {.n = 2, .numbers =
     {INT64_MAX, 3}}}, .status = LAB_ERR_RANGE},
    {.call = {.op = "rand", .variant = "bytes that overflow", .build = build_rand, .args = {.n = 1, .numbers =
     {INT64_MAX / 2}}}, .status = LAB_ERR_RANGE},
    {.call = {.op = "rand", .variant = "no list of sizes", .build = build_rand_without_list}, .status =
     LAB_ERR_ARGUMENT},
    {.call = {.op = "constant", .variant = "no data", .build = build_constant_without_data, .args = {.n = 1, .numbers =
     {2}}}, .status = LAB_ERR_ARGUMENT},
    {.call = {.op = "full", .variant = "half of a whole number", .build = build_full, .args = {.n = 1, .numbers = {2},
     .dtype = LAB_I64, .scalar = 0.5}}, .status = LAB_ERR_RANGE, .says = {"0.5"}},
    {.call = {.op = "full", .variant = "i64 that is no number", .build = build_full, .args = {.n = 1, .numbers = {2},
     .dtype = LAB_I64, .scalar = NAN}}, .status = LAB_ERR_RANGE},
    {.call = {.op = "randn", .variant = "i64", .build = build_randn, .args = {.n = 1, .numbers = {2}, .dtype =
     LAB_I64}}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "rand", .variant = "i64", .build = build_rand, .args = {.n = 1, .numbers = {2}, .dtype = LAB_I64}},
     .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "arange", .variant = "step 0", .build = build_arange, .args = {.dtype = LAB_F32, .scalar = 1}},
     .status = LAB_ERR_RANGE, .says = {"0"}},
    {.call = {.op = "arange", .variant = "bool", .build = build_arange, .args = {.dtype = LAB_BOOL, .scalar = 1, .step
     = 1}}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "arange", .variant = "no such dtype", .build = build_arange, .args = {.dtype = (lab_dtype)99,
     .scalar = 1, .step = 1}}, .status = LAB_ERR_DTYPE, .says = {"99"}},
    {.call = {.op = "arange", .variant = "no number", .build = build_arange, .args = {.dtype = LAB_F32, .scalar = NAN,
     .step = 1}}, .status = LAB_ERR_RANGE},
    {.call = {.op = "arange", .variant = "without end", .build = build_arange, .args = {.dtype = LAB_F64, .scalar =
     INFINITY, .step = 1}}, .status = LAB_ERR_RANGE},
    {.call = {.op = "arange", .variant = "more than can be counted", .build = build_arange, .args = {.dtype = LAB_F32,
     .scalar = 1e30, .step = 1}}, .status = LAB_ERR_RANGE},
    {.call = {.op = NULL}},
};
/* clang-format on */
