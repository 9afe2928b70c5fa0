/* op_cases_bad.c - calls of products, reductions and shape ops that must be refused, and what must be said. */
#include "op_cases.h"

static lab_tensor *build_sum(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_sum(g, xs[0], c->args.n, c->args.axes, c->args.keep);
}

static lab_tensor *build_sum_without_list(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_sum(g, xs[0], c->args.n, NULL, false);
}

static lab_tensor *build_mean(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_mean(g, xs[0], c->args.n, c->args.axes, c->args.keep);
}

static lab_tensor *build_mean_without_list(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_mean(g, xs[0], c->args.n, NULL, false);
}

static lab_tensor *build_max(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_max(g, xs[0], c->args.axes[0], false);
}

static lab_tensor *build_argmax(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_argmax(g, xs[0], c->args.axes[0], false);
}

static lab_tensor *build_logsumexp(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_logsumexp(g, xs[0], c->args.axes[0], false);
}

static lab_tensor *build_softmax(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_softmax(g, xs[0], c->args.axes[0]);
}

static lab_tensor *build_log_softmax(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_log_softmax(g, xs[0], c->args.axes[0]);
}

static lab_tensor *build_reshape(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_reshape(g, xs[0], c->args.n, c->args.numbers);
}

static lab_tensor *build_reshape_without_list(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_reshape(g, xs[0], c->args.n, NULL);
}

static lab_tensor *build_transpose(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_transpose(g, xs[0], c->args.axes[0], c->args.axes[1]);
}

static lab_tensor *build_permute(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_permute(g, xs[0], c->args.axes);
}

static lab_tensor *build_permute_without_list(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)c;
    return lab_permute(g, xs[0], NULL);
}

static lab_tensor *build_slice(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_slice(g, xs[0], c->args.axes[0], c->args.numbers[0], c->args.numbers[1], c->args.numbers[2]);
}

static lab_tensor *build_concat(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_concat(g, c->n_inputs, xs, c->args.axes[0]);
}

static lab_tensor *build_concat_of(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_concat(g, c->args.n, xs, 0);
}

static lab_tensor *build_concat_without_list(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs, (void)c;
    return lab_concat(g, 2, NULL, 0);
}

static lab_tensor *build_broadcast_to(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_broadcast_to(g, xs[0], c->args.n, c->args.numbers);
}

static lab_tensor *build_broadcast_to_without_list(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)c;
    return lab_broadcast_to(g, xs[0], 1, NULL);
}

static lab_tensor *build_cast(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_cast(g, xs[0], c->args.dtype);
}

/* clang-format off */

const bad_case bad_cases_shape[] = {
    {.call = {.op = "matmul", .variant = "inner sizes differ", .two = lab_matmul, .n_inputs = 2, .in = {{REAL, ANY, -3,
     3, 2, {2, 3}}, {REAL, ANY, -3, 3, 2, {4, 5}}}}, .dtypes = {LAB_F32, LAB_F32}, .status = LAB_ERR_SHAPE, .says =
     {"[2, 3]", "[4, 5]"}},
    {.call = {.op = "matmul", .variant = "inner sizes of vectors differ", .two = lab_matmul, .n_inputs = 2, .in =
     {{REAL, ANY, -3, 3, 1, {3}}, {REAL, ANY, -3, 3, 1, {4}}}}, .dtypes = {LAB_F64, LAB_F64}, .status = LAB_ERR_SHAPE,
     .says = {"[3]", "[4]"}},
    {.call = {.op = "matmul", .variant = "a vector of the wrong length", .two = lab_matmul, .n_inputs = 2, .in =
     {{REAL, ANY, -3, 3, 3, {2, 2, 3}}, {REAL, ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_F64, LAB_F64}, .status =
     LAB_ERR_SHAPE, .says = {"[2, 2, 3]", "[2]"}},
    {.call = {.op = "matmul", .variant = "batches that do not broadcast", .two = lab_matmul, .n_inputs = 2, .in =
     {{REAL, ANY, -3, 3, 3, {2, 3, 4}}, {REAL, ANY, -3, 3, 3, {3, 4, 5}}}}, .dtypes = {LAB_F32, LAB_F32}, .status =
     LAB_ERR_SHAPE, .says = {"[2, 3, 4]", "[3, 4, 5]"}},
    {.call = {.op = "matmul", .variant = "rank 0 on the left", .two = lab_matmul, .n_inputs = 2, .in = {{REAL, ANY, -3,
     3, 0, {0}}, {REAL, ANY, -3, 3, 2, {2, 2}}}}, .dtypes = {LAB_F32, LAB_F32}, .status = LAB_ERR_SHAPE, .says = {"[]",
     "[2, 2]"}},
    {.call = {.op = "matmul", .variant = "rank 0 on the right", .two = lab_matmul, .n_inputs = 2, .in = {{REAL, ANY,
     -3, 3, 2, {2, 2}}, {REAL, ANY, -3, 3, 0, {0}}}}, .dtypes = {LAB_F32, LAB_F32}, .status = LAB_ERR_SHAPE, .says =
     {"[2, 2]", "[]"}},
    {.call = {.op = "matmul", .variant = "two dtypes", .two = lab_matmul, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 2,
     {2, 2}}, {REAL, ANY, -3, 3, 2, {2, 2}}}}, .dtypes = {LAB_F32, LAB_F64}, .status = LAB_ERR_DTYPE, .says = {"f32",
     "f64"}},
    {.call = {.op = "matmul", .variant = "i64", .two = lab_matmul, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 2, {2, 2}},
     {REAL, ANY, -3, 3, 2, {2, 2}}}}, .dtypes = {LAB_I64, LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "sum", .variant = "axis past the last", .build = build_sum, .n_inputs = 1, .in = {{REAL, ANY, -3,
     3, 2, {2, 3}}}, .args = {.n = 1, .axes = {2}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"2",
     "[2, 3]"}},
    {.call = {.op = "sum", .variant = "axis before the first", .build = build_sum, .n_inputs = 1, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}}, .args = {.n = 1, .axes = {-3}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says =
     {"-3"}},
    {.call = {.op = "sum", .variant = "an axis twice", .build = build_sum, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 2,
     {2, 3}}}, .args = {.n = 2, .axes = {0, -2}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_ARGUMENT, .says = {"twice"}},
    {.call = {.op = "sum", .variant = "more axes than there are", .build = build_sum, .n_inputs = 1, .in = {{REAL, ANY,
     -3, 3, 1, {2}}}, .args = {.n = 9, .axes = {0}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE},
    {.call = {.op = "sum", .variant = "a negative number of axes", .build = build_sum, .n_inputs = 1, .in = {{REAL,
     ANY, -3, 3, 1, {2}}}, .args = {.n = -1}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"-1"}},
    {.call = {.op = "sum", .variant = "no list of axes", .build = build_sum_without_list, .n_inputs = 1, .in = {{REAL,
     ANY, -3, 3, 1, {2}}}, .args = {.n = 1}}, .dtypes = {LAB_F32}, .status = LAB_ERR_ARGUMENT},
    {.call = {.op = "sum", .variant = "bool", .build = build_sum, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}},
     .args = {.n = 1}}, .dtypes = {LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "mean", .variant = "axis past the last", .build = build_mean, .n_inputs = 1, .in = {{REAL, ANY, -3,
     3, 2, {2, 3}}}, .args = {.n = 1, .axes = {2}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"2",
     "[2, 3]"}},
    {.call = {.op = "mean", .variant = "axis before the first", .build = build_mean, .n_inputs = 1, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}}, .args = {.n = 1, .axes = {-3}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says =
     {"-3"}},
    {.call = {.op = "mean", .variant = "an axis twice", .build = build_mean, .n_inputs = 1, .in = {{REAL, ANY, -3, 3,
     2, {2, 3}}}, .args = {.n = 2, .axes = {0, -2}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_ARGUMENT, .says =
     {"twice"}},
    {.call = {.op = "mean", .variant = "more axes than there are", .build = build_mean, .n_inputs = 1, .in = {{REAL,
     ANY, -3, 3, 1, {2}}}, .args = {.n = 9, .axes = {0}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE},
    {.call = {.op = "mean", .variant = "a negative number of axes", .build = build_mean, .n_inputs = 1, .in = {{REAL,
     ANY, -3, 3, 1, {2}}}, .args = {.n = -1}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"-1"}},
    {.call = {.op = "mean", .variant = "no list of axes", .build = build_mean_without_list, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 1, {2}}}, .args = {.n = 1}}, .dtypes = {LAB_F32}, .status = LAB_ERR_ARGUMENT},
    {.call = {.op = "mean", .variant = "bool", .build = build_mean, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}},
     .args = {.n = 1}}, .dtypes = {LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "mean", .variant = "i64", .build = build_mean, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}},
     .args = {.n = 1}}, .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "mean_all", .variant = "i64", .one = lab_mean_all, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1,
     {2}}}}, .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "sum_all", .variant = "bool", .one = lab_sum_all, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1,
     {2}}}}, .dtypes = {LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "max", .variant = "axis past the last", .build = build_max, .n_inputs = 1, .in = {{REAL, ANY, -3,
     3, 2, {2, 3}}}, .args = {.axes = {2}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"2", "[2, 3]"}},
    {.call = {.op = "max", .variant = "axis before the first", .build = build_max, .n_inputs = 1, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}}, .args = {.axes = {-3}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"-3"}},
    {.call = {.op = "max", .variant = "rank 0 has no axis", .build = build_max, .n_inputs = 1, .in = {{REAL, ANY, -3,
     3, 0, {0}}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"[]"}},
    {.call = {.op = "max", .variant = "bool", .build = build_max, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "max", .variant = "an empty axis", .build = build_max, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 2,
     {2, 0}}}, .args = {.axes = {1}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"[2, 0]"}},
    {.call = {.op = "argmax", .variant = "axis past the last", .build = build_argmax, .n_inputs = 1, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}}, .args = {.axes = {2}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"2",
     "[2, 3]"}},
    {.call = {.op = "argmax", .variant = "axis before the first", .build = build_argmax, .n_inputs = 1, .in = {{REAL,
     ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {-3}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"-3"}},
    {.call = {.op = "argmax", .variant = "rank 0 has no axis", .build = build_argmax, .n_inputs = 1, .in = {{REAL, ANY,
     -3, 3, 0, {0}}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"[]"}},
    {.call = {.op = "argmax", .variant = "bool", .build = build_argmax, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1,
     {2}}}}, .dtypes = {LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "argmax", .variant = "an empty axis", .build = build_argmax, .n_inputs = 1, .in = {{REAL, ANY, -3,
     3, 2, {2, 0}}}, .args = {.axes = {1}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"[2, 0]"}},
    {.call = {.op = "softmax", .variant = "axis past the last", .build = build_softmax, .n_inputs = 1, .in = {{REAL,
     ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {2}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"2",
     "[2, 3]"}},
    {.call = {.op = "softmax", .variant = "axis before the first", .build = build_softmax, .n_inputs = 1, .in = {{REAL,
     ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {-3}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"-3"}},
    {.call = {.op = "softmax", .variant = "rank 0 has no axis", .build = build_softmax, .n_inputs = 1, .in = {{REAL,
     ANY, -3, 3, 0, {0}}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"[]"}},
    {.call = {.op = "softmax", .variant = "bool", .build = build_softmax, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1,
     {2}}}}, .dtypes = {LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "softmax", .variant = "i64", .build = build_softmax, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1,
     {2}}}}, .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "log_softmax", .variant = "axis past the last", .build = build_log_softmax, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {2}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says =
     {"2", "[2, 3]"}},
    {.call = {.op = "log_softmax", .variant = "axis before the first", .build = build_log_softmax, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {-3}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says =
     {"-3"}},
    {.call = {.op = "log_softmax", .variant = "rank 0 has no axis", .build = build_log_softmax, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 0, {0}}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"[]"}},
    {.call = {.op = "log_softmax", .variant = "bool", .build = build_log_softmax, .n_inputs = 1, .in = {{REAL, ANY, -3,
     3, 1, {2}}}}, .dtypes = {LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "log_softmax", .variant = "i64", .build = build_log_softmax, .n_inputs = 1, .in = {{REAL, ANY, -3,
     3, 1, {2}}}}, .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "logsumexp", .variant = "axis past the last", .build = build_logsumexp, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {2}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says =
     {"2", "[2, 3]"}},
    {.call = {.op = "logsumexp", .variant = "axis before the first", .build = build_logsumexp, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {-3}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says =
     {"-3"}},
    {.call = {.op = "logsumexp", .variant = "rank 0 has no axis", .build = build_logsumexp, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 0, {0}}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"[]"}},
    {.call = {.op = "logsumexp", .variant = "bool", .build = build_logsumexp, .n_inputs = 1, .in = {{REAL, ANY, -3, 3,
     1, {2}}}}, .dtypes = {LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "logsumexp", .variant = "i64", .build = build_logsumexp, .n_inputs = 1, .in = {{REAL, ANY, -3, 3,
     1, {2}}}}, .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "reshape", .variant = "another number of elements", .build = build_reshape, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.n = 2, .numbers = {4, 2}}}, .dtypes = {LAB_F32}, .status =
     LAB_ERR_SHAPE, .says = {"[2, 3]", "[4, 2]"}},
    {.call = {.op = "reshape", .variant = "nothing fits the open size", .build = build_reshape, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.n = 2, .numbers = {4, -1}}}, .dtypes = {LAB_F32}, .status =
     LAB_ERR_SHAPE, .says = {"[2, 3]", "[4, -1]"}},
    {.call = {.op = "reshape", .variant = "an open size beside 0", .build = build_reshape, .n_inputs = 1, .in = {{REAL,
     ANY, -3, 3, 2, {0, 3}}}, .args = {.n = 2, .numbers = {0, -1}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_SHAPE,
     .says = {"[0, 3]", "[0, -1]"}},
    {.call = {.op = "reshape", .variant = "two open sizes", .build = build_reshape, .n_inputs = 1, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}}, .args = {.n = 2, .numbers = {-1, -1}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_ARGUMENT, .says
     = {"-1"}},
    {.call = {.op = "reshape", .variant = "a negative size", .build = build_reshape, .n_inputs = 1, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}}, .args = {.n = 2, .numbers = {-2, 3}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says =
     {"-2"}},
    {.call = {.op = "reshape", .variant = "rank 9", .build = build_reshape, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1,
     {1}}}, .args = {.n = 9}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"9"}},
    {.call = {.op = "reshape", .variant = "rank -1", .build = build_reshape, .n_inputs = 1, .in = {{REAL, ANY, -3, 3,
     1, {1}}}, .args = {.n = -1}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"-1"}},
    {.call = {.op = "reshape", .variant = "no list of sizes", .build = build_reshape_without_list, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 1, {1}}}, .args = {.n = 1}}, .dtypes = {LAB_F32}, .status = LAB_ERR_ARGUMENT},
    {.call = {.op = "reshape", .variant = "a product that overflows", .build = build_reshape, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 1, {2}}}, .args = {.n = 2, .numbers = {INT64_MAX, INT64_MAX}}}, .dtypes = {LAB_F32}, .status =
     LAB_ERR_RANGE},
    {.call = {.op = "transpose", .variant = "axis past the last", .build = build_transpose, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {0, 2}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says =
     {"2", "[2, 3]"}},
    {.call = {.op = "transpose", .variant = "axis before the first", .build = build_transpose, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {-3, 0}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says =
     {"-3"}},
    {.call = {.op = "permute", .variant = "an axis twice", .build = build_permute, .n_inputs = 1, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}}, .args = {.axes = {1, -1}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_ARGUMENT, .says =
     {"[2, 3]"}},
    {.call = {.op = "permute", .variant = "axis past the last", .build = build_permute, .n_inputs = 1, .in = {{REAL,
     ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {0, 2}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"2"}},
    {.call = {.op = "permute", .variant = "no list of axes", .build = build_permute_without_list, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_ARGUMENT},
    {.call = {.op = "slice", .variant = "axis past the last", .build = build_slice, .n_inputs = 1, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}}, .args = {.axes = {2}, .numbers = {0, 1, 1}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE,
     .says = {"2", "[2, 3]"}},
    {.call = {.op = "slice", .variant = "step 0", .build = build_slice, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 2, {2,
     3}}}, .args = {.axes = {0}, .numbers = {0, 1, 0}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"0"}},
    {.call = {.op = "slice", .variant = "step -1", .build = build_slice, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 2,
     {2, 3}}}, .args = {.axes = {0}, .numbers = {0, 1, -1}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says =
     {"-1"}},
    {.call = {.op = "slice", .variant = "rank 0 has no axis", .build = build_slice, .n_inputs = 1, .in = {{REAL, ANY,
     -3, 3, 0, {0}}}, .args = {.axes = {0}, .numbers = {0, 1, 1}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says
     = {"[]"}},
    {.call = {.op = "concat", .variant = "other sizes differ", .build = build_concat, .n_inputs = 2, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 2, {2, 4}}}, .args = {.axes = {0}}}, .dtypes = {LAB_F32, LAB_F32}, .status =
     LAB_ERR_SHAPE, .says = {"[2, 3]", "[2, 4]"}},
    {.call = {.op = "concat", .variant = "ranks differ", .build = build_concat, .n_inputs = 2, .in = {{REAL, ANY, -3,
     3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {3}}}, .args = {.axes = {0}}}, .dtypes = {LAB_F32, LAB_F32}, .status =
     LAB_ERR_SHAPE, .says = {"[2, 3]", "[3]"}},
    {.call = {.op = "concat", .variant = "two dtypes", .build = build_concat, .n_inputs = 2, .in = {{REAL, ANY, -3, 3,
     1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}, .args = {.axes = {0}}}, .dtypes = {LAB_F32, LAB_F64}, .status =
     LAB_ERR_DTYPE, .says = {"f32", "f64"}},
    {.call = {.op = "concat", .variant = "axis past the last", .build = build_concat, .n_inputs = 2, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.axes = {2}}}, .dtypes = {LAB_F32, LAB_F32}, .status =
     LAB_ERR_RANGE, .says = {"2", "[2, 3]"}},
    {.call = {.op = "concat", .variant = "rank 0 has no axis", .build = build_concat, .n_inputs = 2, .in = {{REAL, ANY,
     -3, 3, 0, {0}}, {REAL, ANY, -3, 3, 0, {0}}}, .args = {.axes = {0}}}, .dtypes = {LAB_F32, LAB_F32}, .status =
     LAB_ERR_RANGE, .says = {"[]"}},
    {.call = {.op = "concat", .variant = "no operands", .build = build_concat_of, .n_inputs = 1, .in = {{REAL, ANY, -3,
     3, 1, {2}}}, .args = {.n = 0}}, .dtypes = {LAB_F32}, .status = LAB_ERR_ARGUMENT, .says = {"0"}},
    {.call = {.op = "concat", .variant = "a negative number of operands", .build = build_concat_of, .n_inputs = 1, .in
     = {{REAL, ANY, -3, 3, 1, {2}}}, .args = {.n = -1}}, .dtypes = {LAB_F32}, .status = LAB_ERR_ARGUMENT, .says =
     {"-1"}},
    {.call = {.op = "concat", .variant = "no list of operands", .build = build_concat_without_list}, .status =
     LAB_ERR_ARGUMENT},
    {.call = {.op = "broadcast_to", .variant = "sizes that do not fit", .build = build_broadcast_to, .n_inputs = 1, .in
     = {{REAL, ANY, -3, 3, 1, {3}}}, .args = {.n = 2, .numbers = {2, 4}}}, .dtypes = {LAB_F32}, .status =
     LAB_ERR_SHAPE, .says = {"[3]", "[2, 4]"}},
    {.call = {.op = "broadcast_to", .variant = "a lower rank", .build = build_broadcast_to, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.n = 1, .numbers = {3}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_SHAPE,
     .says = {"[2, 3]", "[3]"}},
    {.call = {.op = "broadcast_to", .variant = "a size of 0 cannot grow", .build = build_broadcast_to, .n_inputs = 1,
     .in = {{REAL, ANY, -3, 3, 1, {0}}}, .args = {.n = 1, .numbers = {1}}}, .dtypes = {LAB_F32}, .status =
     LAB_ERR_SHAPE, .says = {"[0]", "[1]"}},
    {.call = {.op = "broadcast_to", .variant = "a negative size", .build = build_broadcast_to, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 1, {1}}}, .args = {.n = 1, .numbers = {-2}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE,
     .says = {"-2"}},
    {.call = {.op = "broadcast_to", .variant = "rank 9", .build = build_broadcast_to, .n_inputs = 1, .in = {{REAL, ANY,
     -3, 3, 1, {1}}}, .args = {.n = 9}}, .dtypes = {LAB_F32}, .status = LAB_ERR_RANGE, .says = {"9"}},
    {.call = {.op = "broadcast_to", .variant = "no list of sizes", .build = build_broadcast_to_without_list, .n_inputs
     = 1, .in = {{REAL, ANY, -3, 3, 1, {1}}}}, .dtypes = {LAB_F32}, .status = LAB_ERR_ARGUMENT},
    {.call = {.op = "broadcast_to", .variant = "a product that overflows", .build = build_broadcast_to, .n_inputs = 1,
     .in = {{REAL, ANY, -3, 3, 1, {1}}}, .args = {.n = 2, .numbers = {INT64_MAX, INT64_MAX}}}, .dtypes = {LAB_F32},
     .status = LAB_ERR_RANGE},
    {.call = {.op = "cast", .variant = "no such dtype", .build = build_cast, .n_inputs = 1, .in = {{REAL, ANY, -3, 3,
     1, {2}}}, .args = {.dtype = (lab_dtype)99}}, .dtypes = {LAB_F32}, .status = LAB_ERR_DTYPE, .says = {"99"}},
    {.call = {.op = NULL}},
};
/* clang-format on */
