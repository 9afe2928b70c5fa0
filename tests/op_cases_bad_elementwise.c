/* op_cases_bad_elementwise.c - calls of elementwise ops that must be refused, and what must be said. */
#include "op_cases.h"

static lab_tensor *build_add_scalar(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_add_scalar(g, xs[0], c->args.scalar);
}

static lab_tensor *build_mul_scalar(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_mul_scalar(g, xs[0], c->args.scalar);
}

static lab_tensor *build_pow_scalar(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_pow_scalar(g, xs[0], c->args.scalar);
}

static lab_tensor *build_gelu(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_gelu(g, xs[0], (lab_gelu_kind)c->args.n);
}

static lab_tensor *build_where(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)c;
    return lab_where(g, xs[0], xs[1], xs[2]);
}

/* clang-format off */

const bad_case bad_cases_elementwise[] = {
    {.call = {.op = "add", .variant = "sizes that do not broadcast", .two = lab_add, .n_inputs = 2, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {4}}}}, .dtypes = {LAB_F32, LAB_F32}, .status = LAB_ERR_SHAPE, .says =
     {"[2, 3]", "[4]"}},
    {.call = {.op = "add", .variant = "two dtypes", .two = lab_add, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 2, {2,
     3}}, {REAL, ANY, -3, 3, 1, {3}}}}, .dtypes = {LAB_F32, LAB_F64}, .status = LAB_ERR_DTYPE, .says = {"f32", "f64"}},
    {.call = {.op = "add", .variant = "bool", .two = lab_add, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 1, {2}}, {REAL,
     ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_BOOL, LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "sub", .variant = "sizes that do not broadcast", .two = lab_sub, .n_inputs = 2, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {4}}}}, .dtypes = {LAB_F32, LAB_F32}, .status = LAB_ERR_SHAPE, .says =
     {"[2, 3]", "[4]"}},
    {.call = {.op = "sub", .variant = "two dtypes", .two = lab_sub, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 2, {2,
     3}}, {REAL, ANY, -3, 3, 1, {3}}}}, .dtypes = {LAB_F32, LAB_F64}, .status = LAB_ERR_DTYPE, .says = {"f32", "f64"}},
    {.call = {.op = "sub", .variant = "bool", .two = lab_sub, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 1, {2}}, {REAL,
     ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_BOOL, LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "mul", .variant = "sizes that do not broadcast", .two = lab_mul, .n_inputs = 2, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {4}}}}, .dtypes = {LAB_F32, LAB_F32}, .status = LAB_ERR_SHAPE, .says =
     {"[2, 3]", "[4]"}},
    {.call = {.op = "mul", .variant = "two dtypes", .two = lab_mul, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 2, {2,
     3}}, {REAL, ANY, -3, 3, 1, {3}}}}, .dtypes = {LAB_F32, LAB_F64}, .status = LAB_ERR_DTYPE, .says = {"f32", "f64"}},
    {.call = {.op = "mul", .variant = "bool", .two = lab_mul, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 1, {2}}, {REAL,
     ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_BOOL, LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "div", .variant = "sizes that do not broadcast", .two = lab_div, .n_inputs = 2, .in = {{REAL, ANY,
     -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {4}}}}, .dtypes = {LAB_F32, LAB_F32}, .status = LAB_ERR_SHAPE, .says =
     {"[2, 3]", "[4]"}},
    {.call = {.op = "div", .variant = "two dtypes", .two = lab_div, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 2, {2,
     3}}, {REAL, ANY, -3, 3, 1, {3}}}}, .dtypes = {LAB_F32, LAB_F64}, .status = LAB_ERR_DTYPE, .says = {"f32", "f64"}},
    {.call = {.op = "div", .variant = "bool", .two = lab_div, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 1, {2}}, {REAL,
     ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_BOOL, LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "maximum", .variant = "sizes that do not broadcast", .two = lab_maximum, .n_inputs = 2, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {4}}}}, .dtypes = {LAB_F32, LAB_F32}, .status =
     LAB_ERR_SHAPE, .says = {"[2, 3]", "[4]"}},
    {.call = {.op = "maximum", .variant = "two dtypes", .two = lab_maximum, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 2,
     {2, 3}}, {REAL, ANY, -3, 3, 1, {3}}}}, .dtypes = {LAB_F32, LAB_F64}, .status = LAB_ERR_DTYPE, .says = {"f32",
     "f64"}},
    {.call = {.op = "maximum", .variant = "bool", .two = lab_maximum, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 1, {2}},
     {REAL, ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_BOOL, LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "minimum", .variant = "sizes that do not broadcast", .two = lab_minimum, .n_inputs = 2, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {4}}}}, .dtypes = {LAB_F32, LAB_F32}, .status =
     LAB_ERR_SHAPE, .says = {"[2, 3]", "[4]"}},
    {.call = {.op = "minimum", .variant = "two dtypes", .two = lab_minimum, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 2,
     {2, 3}}, {REAL, ANY, -3, 3, 1, {3}}}}, .dtypes = {LAB_F32, LAB_F64}, .status = LAB_ERR_DTYPE, .says = {"f32",
     "f64"}},
    {.call = {.op = "minimum", .variant = "bool", .two = lab_minimum, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 1, {2}},
     {REAL, ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_BOOL, LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "equal", .variant = "sizes that do not broadcast", .two = lab_equal, .n_inputs = 2, .in = {{REAL,
     ANY, -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {4}}}}, .dtypes = {LAB_F32, LAB_F32}, .status = LAB_ERR_SHAPE, .says
     = {"[2, 3]", "[4]"}},
    {.call = {.op = "equal", .variant = "two dtypes", .two = lab_equal, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 2, {2,
     3}}, {REAL, ANY, -3, 3, 1, {3}}}}, .dtypes = {LAB_F32, LAB_F64}, .status = LAB_ERR_DTYPE, .says = {"f32", "f64"}},
    {.call = {.op = "less", .variant = "sizes that do not broadcast", .two = lab_less, .n_inputs = 2, .in = {{REAL,
     ANY, -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {4}}}}, .dtypes = {LAB_F32, LAB_F32}, .status = LAB_ERR_SHAPE, .says
     = {"[2, 3]", "[4]"}},
    {.call = {.op = "less", .variant = "two dtypes", .two = lab_less, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 2, {2,
     3}}, {REAL, ANY, -3, 3, 1, {3}}}}, .dtypes = {LAB_F32, LAB_F64}, .status = LAB_ERR_DTYPE, .says = {"f32", "f64"}},
    {.call = {.op = "less", .variant = "bool", .two = lab_less, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 1, {2}},
     {REAL, ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_BOOL, LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "less_equal", .variant = "sizes that do not broadcast", .two = lab_less_equal, .n_inputs = 2, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {4}}}}, .dtypes = {LAB_F32, LAB_F32}, .status =
     LAB_ERR_SHAPE, .says = {"[2, 3]", "[4]"}},
    {.call = {.op = "less_equal", .variant = "two dtypes", .two = lab_less_equal, .n_inputs = 2, .in = {{REAL, ANY, -3,
     3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {3}}}}, .dtypes = {LAB_F32, LAB_F64}, .status = LAB_ERR_DTYPE, .says =
     {"f32", "f64"}},
    {.call = {.op = "less_equal", .variant = "bool", .two = lab_less_equal, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 1,
     {2}}, {REAL, ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_BOOL, LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "div", .variant = "i64", .two = lab_div, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 1, {2}}, {REAL,
     ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_I64, LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "logical_and", .variant = "sizes that do not broadcast", .two = lab_logical_and, .n_inputs = 2, .in
     = {{REAL, ANY, -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {4}}}}, .dtypes = {LAB_BOOL, LAB_BOOL}, .status =
     LAB_ERR_SHAPE, .says = {"[2, 3]", "[4]"}},
    {.call = {.op = "logical_and", .variant = "float", .two = lab_logical_and, .n_inputs = 2, .in = {{REAL, ANY, -3, 3,
     1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_BOOL, LAB_F32}, .status = LAB_ERR_DTYPE, .says = {"f32"}},
    {.call = {.op = "logical_and", .variant = "i64", .two = lab_logical_and, .n_inputs = 2, .in = {{REAL, ANY, -3, 3,
     1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_I64, LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "logical_or", .variant = "sizes that do not broadcast", .two = lab_logical_or, .n_inputs = 2, .in =
     {{REAL, ANY, -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {4}}}}, .dtypes = {LAB_BOOL, LAB_BOOL}, .status =
     LAB_ERR_SHAPE, .says = {"[2, 3]", "[4]"}},
    {.call = {.op = "logical_or", .variant = "float", .two = lab_logical_or, .n_inputs = 2, .in = {{REAL, ANY, -3, 3,
     1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_BOOL, LAB_F32}, .status = LAB_ERR_DTYPE, .says = {"f32"}},
    {.call = {.op = "logical_or", .variant = "i64", .two = lab_logical_or, .n_inputs = 2, .in = {{REAL, ANY, -3, 3, 1,
     {2}}, {REAL, ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_I64, LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "logical_not", .variant = "float", .one = lab_logical_not, .n_inputs = 1, .in = {{REAL, ANY, -3, 3,
     1, {2}}}}, .dtypes = {LAB_F64}, .status = LAB_ERR_DTYPE, .says = {"f64"}},
    {.call = {.op = "exp", .variant = "i64", .one = lab_exp, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "log", .variant = "i64", .one = lab_log, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "sqrt", .variant = "i64", .one = lab_sqrt, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "rsqrt", .variant = "i64", .one = lab_rsqrt, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "tanh", .variant = "i64", .one = lab_tanh, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "sigmoid", .variant = "i64", .one = lab_sigmoid, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1,
     {2}}}}, .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "erf", .variant = "i64", .one = lab_erf, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "relu", .variant = "i64", .one = lab_relu, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "silu", .variant = "i64", .one = lab_silu, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "sin", .variant = "i64", .one = lab_sin, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "cos", .variant = "i64", .one = lab_cos, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "neg", .variant = "bool", .one = lab_neg, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "abs", .variant = "bool", .one = lab_abs, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "add_scalar", .variant = "bool", .build = build_add_scalar, .n_inputs = 1, .in = {{REAL, ANY, -3,
     3, 1, {2}}}, .args = {.scalar = 1}}, .dtypes = {LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "add_scalar", .variant = "half of a whole number", .build = build_add_scalar, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 1, {2}}}, .args = {.scalar = 0.5}}, .dtypes = {LAB_I64}, .status = LAB_ERR_RANGE, .says =
     {"0.5"}},
    {.call = {.op = "add_scalar", .variant = "more than an i64", .build = build_add_scalar, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 1, {2}}}, .args = {.scalar = 1e19}}, .dtypes = {LAB_I64}, .status = LAB_ERR_RANGE},
    {.call = {.op = "mul_scalar", .variant = "bool", .build = build_mul_scalar, .n_inputs = 1, .in = {{REAL, ANY, -3,
     3, 1, {2}}}, .args = {.scalar = 1}}, .dtypes = {LAB_BOOL}, .status = LAB_ERR_DTYPE, .says = {"bool"}},
    {.call = {.op = "mul_scalar", .variant = "half of a whole number", .build = build_mul_scalar, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 1, {2}}}, .args = {.scalar = 0.5}}, .dtypes = {LAB_I64}, .status = LAB_ERR_RANGE, .says =
     {"0.5"}},
    {.call = {.op = "mul_scalar", .variant = "more than an i64", .build = build_mul_scalar, .n_inputs = 1, .in =
     {{REAL, ANY, -3, 3, 1, {2}}}, .args = {.scalar = 1e19}}, .dtypes = {LAB_I64}, .status = LAB_ERR_RANGE},
    {.call = {.op = "pow_scalar", .variant = "i64", .build = build_pow_scalar, .n_inputs = 1, .in = {{REAL, ANY, -3, 3,
     1, {2}}}, .args = {.scalar = 2}}, .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "gelu", .variant = "i64", .build = build_gelu, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1, {2}}}},
     .dtypes = {LAB_I64}, .status = LAB_ERR_DTYPE, .says = {"i64"}},
    {.call = {.op = "gelu", .variant = "no such kind", .build = build_gelu, .n_inputs = 1, .in = {{REAL, ANY, -3, 3, 1,
     {2}}}, .args = {.n = 7}}, .dtypes = {LAB_F32}, .status = LAB_ERR_ARGUMENT, .says = {"7"}},
    {.call = {.op = "where", .variant = "condition is no bool", .build = build_where, .n_inputs = 3, .in = {{REAL, ANY,
     -3, 3, 1, {2}}, {REAL, ANY, -3, 3, 1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_F32, LAB_F32, LAB_F32},
     .status = LAB_ERR_DTYPE, .says = {"f32"}},
    {.call = {.op = "where", .variant = "two dtypes", .build = build_where, .n_inputs = 3, .in = {{REAL, ANY, -3, 3, 1,
     {2}}, {REAL, ANY, -3, 3, 1, {2}}, {REAL, ANY, -3, 3, 1, {2}}}}, .dtypes = {LAB_BOOL, LAB_F32, LAB_F64}, .status =
     LAB_ERR_DTYPE, .says = {"f32", "f64"}},
    {.call = {.op = "where", .variant = "operands that do not broadcast", .build = build_where, .n_inputs = 3, .in =
     {{REAL, ANY, -3, 3, 1, {1}}, {REAL, ANY, -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {4}}}}, .dtypes = {LAB_BOOL,
     LAB_F32, LAB_F32}, .status = LAB_ERR_SHAPE, .says = {"[2, 3]", "[4]"}},
    {.call = {.op = "where", .variant = "a condition that does not broadcast", .build = build_where, .n_inputs = 3, .in
     = {{REAL, ANY, -3, 3, 1, {5}}, {REAL, ANY, -3, 3, 2, {2, 3}}, {REAL, ANY, -3, 3, 1, {3}}}}, .dtypes = {LAB_BOOL,
     LAB_F32, LAB_F32}, .status = LAB_ERR_SHAPE, .says = {"[5]", "[2, 3]"}},
    {.call = {.op = NULL}},
};
/* clang-format on */
