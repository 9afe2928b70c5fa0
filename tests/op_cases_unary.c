/* op_cases_unary.c - elementwise ops of one operand. */
#include "op_cases.h"

static long double negate(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return -x[0];
}

static long double add_scalar(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] + case_scalar(c, type);
}

static long double mul_scalar(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] * case_scalar(c, type);
}

static long double exponential(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return expl(x[0]);
}

static long double logarithm(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return logl(x[0]);
}

static long double square_root(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return sqrtl(x[0]);
}

static long double inverse_root(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return 1 / sqrtl(x[0]);
}

static long double hyperbolic_tangent(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return tanhl(x[0]);
}

static long double logistic(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return 1 / (1 + expl(-x[0]));
}

static long double error_function(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return erfl(x[0]);
}

static long double rectified(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] > 0 ? x[0] : 0;
}

static long double gelu_erf(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return 0.5L * x[0] * erfcl(-x[0] / sqrtl(2));
}

static long double gelu_tanh(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return 0.5L * x[0] * (1 + tanhl(sqrtl(2 / acosl(-1)) * (x[0] + 0.044715L * x[0] * x[0] * x[0])));
}

static long double silu(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] / (1 + expl(-x[0]));
}

static long double power(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return powl(x[0], (long double)c->args.scalar);
}

static long double magnitude(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return fabsl(x[0]);
}

static long double sine(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return sinl(x[0]);
}

static long double cosine(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return cosl(x[0]);
}

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

/* clang-format off */
#define NEG .op = "neg", .one = lab_neg, .element = negate, .n_inputs = 1
#define ADD_SCALAR .op = "add_scalar", .build = build_add_scalar, .element = add_scalar, .n_inputs = 1
#define MUL_SCALAR .op = "mul_scalar", .build = build_mul_scalar, .element = mul_scalar, .n_inputs = 1
#define EXP .op = "exp", .one = lab_exp, .element = exponential, .n_inputs = 1
#define LOG .op = "log", .one = lab_log, .element = logarithm, .n_inputs = 1
#define SQRT .op = "sqrt", .one = lab_sqrt, .element = square_root, .n_inputs = 1
#define RSQRT .op = "rsqrt", .one = lab_rsqrt, .element = inverse_root, .n_inputs = 1
#define TANH .op = "tanh", .one = lab_tanh, .element = hyperbolic_tangent, .n_inputs = 1
#define SIGMOID .op = "sigmoid", .one = lab_sigmoid, .element = logistic, .n_inputs = 1
#define ERF .op = "erf", .one = lab_erf, .element = error_function, .n_inputs = 1
#define RELU .op = "relu", .one = lab_relu, .element = rectified, .n_inputs = 1
#define GELU .op = "gelu", .build = build_gelu, .element = gelu_erf, .n_inputs = 1
#define GELU_OF_1 .op = "gelu", .build = build_gelu, .element = gelu_tanh, .n_inputs = 1
#define SILU .op = "silu", .one = lab_silu, .element = silu, .n_inputs = 1
#define POW_SCALAR .op = "pow_scalar", .build = build_pow_scalar, .element = power, .n_inputs = 1
#define ABS .op = "abs", .one = lab_abs, .element = magnitude, .n_inputs = 1
#define SIN .op = "sin", .one = lab_sin, .element = sine, .n_inputs = 1
#define COS .op = "cos", .one = lab_cos, .element = cosine, .n_inputs = 1

const op_case op_cases_unary[] = {
    {NEG, .variant = "float", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}}, .derivatives = 2, .flags = ELEMENTWISE},
    {NEG, .variant = "i64", .in = {{WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}}, .flags = ELEMENTWISE},
    {ADD_SCALAR, .variant = "float", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}}, .args = {.scalar = 0.7}, .derivatives = 2,
     .ulps = {0.5001, 0.5001}, .flags = ELEMENTWISE},
    {ADD_SCALAR, .variant = "i64", .in = {{WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}}, .args = {.scalar = -7},
     .flags = ELEMENTWISE},
    {MUL_SCALAR, .variant = "float", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}}, .args = {.scalar = -1.3}, .derivatives = 2,
     .ulps = {0.5001, 0.5001}, .flags = ELEMENTWISE},
    {MUL_SCALAR, .variant = "i64", .in = {{WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}}, .args = {.scalar = 12},
     .flags = ELEMENTWISE},
    {EXP, .variant = "float", .in = {{REAL, ANY, -5, 5, 2, {3, 5}}}, .derivatives = 2, .ulps = {1.1, 1.1},
     .flags = ELEMENTWISE},
    {LOG, .variant = "float", .in = {{REAL, ANY, 0.1, 10, 2, {3, 5}}}, .derivatives = 2, .ulps = {2, 2},
     .flags = ELEMENTWISE},
    {SQRT, .variant = "float", .in = {{REAL, ANY, 0.1, 10, 2, {3, 5}}}, .derivatives = 2, .ulps = {0.5001, 0.5001},
     .flags = ELEMENTWISE},
    {RSQRT, .variant = "float", .in = {{REAL, ANY, 0.1, 10, 2, {3, 5}}}, .derivatives = 2, .ulps = {2, 2},
     .flags = ELEMENTWISE},
    {TANH, .variant = "float", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}}, .derivatives = 2, .ulps = {4, 4},
     .flags = ELEMENTWISE},
    {SIGMOID, .variant = "float", .in = {{REAL, ANY, -6, 6, 2, {3, 5}}}, .derivatives = 2, .ulps = {4, 4},
     .flags = ELEMENTWISE},
    {ERF, .variant = "float", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}}, .derivatives = 2, .ulps = {4, 4},
     .flags = ELEMENTWISE},
    {RELU, .variant = "float", .in = {{REAL, SIGNED, 0.1, 3, 2, {3, 5}}}, .derivatives = 2, .flags = ELEMENTWISE},
    {GELU, .variant = "erf", .in = {{REAL, ANY, -4, 4, 2, {3, 5}}}, .args = {.n = LAB_GELU_ERF}, .derivatives = 2,
     .ulps = {4, 4}, .flags = ELEMENTWISE | BY_MAGNITUDE},
    {GELU_OF_1, .variant = "tanh", .in = {{REAL, ANY, -4, 4, 2, {3, 5}}}, .args = {.n = LAB_GELU_TANH},
     .derivatives = 2, .ulps = {4, 4}, .flags = ELEMENTWISE | BY_MAGNITUDE},
    {SILU, .variant = "float", .in = {{REAL, ANY, -6, 6, 2, {3, 5}}}, .derivatives = 2, .ulps = {4, 4},
     .flags = ELEMENTWISE},
    {POW_SCALAR, .variant = "cube of either sign", .in = {{REAL, SIGNED, 0.3, 3, 2, {3, 5}}}, .args = {.scalar = 3},
     .derivatives = 2, .ulps = {2, 2}, .flags = ELEMENTWISE},
    {POW_SCALAR, .variant = "square of either sign", .in = {{REAL, SIGNED, 0.3, 3, 2, {3, 5}}}, .args = {.scalar = 2},
     .derivatives = 2, .ulps = {2, 2}, .flags = ELEMENTWISE},
    {POW_SCALAR, .variant = "root", .in = {{REAL, ANY, 0.2, 4, 2, {3, 5}}}, .args = {.scalar = 0.5}, .derivatives = 2,
     .ulps = {2, 2}, .flags = ELEMENTWISE},
    {POW_SCALAR, .variant = "inverse power", .in = {{REAL, ANY, 0.2, 4, 2, {3, 5}}}, .args = {.scalar = -1.5},
     .derivatives = 2, .ulps = {2, 2}, .flags = ELEMENTWISE},
    {POW_SCALAR, .variant = "one over", .in = {{REAL, SIGNED, 0.3, 3, 2, {3, 5}}}, .args = {.scalar = -1},
     .derivatives = 2, .ulps = {2, 2}, .flags = ELEMENTWISE},
    {POW_SCALAR, .variant = "power 0", .in = {{REAL, SIGNED, 0.3, 3, 2, {3, 5}}}, .args = {.scalar = 0},
     .derivatives = 2, .flags = ELEMENTWISE},
    {POW_SCALAR, .variant = "power 1", .in = {{REAL, SIGNED, 0.3, 3, 2, {3, 5}}}, .args = {.scalar = 1},
     .derivatives = 2, .flags = ELEMENTWISE},
    {ABS, .variant = "float", .in = {{REAL, SIGNED, 0.1, 3, 2, {3, 5}}}, .derivatives = 2, .flags = ELEMENTWISE},
    {ABS, .variant = "i64", .in = {{WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}}, .flags = ELEMENTWISE},
    {SIN, .variant = "float", .in = {{REAL, ANY, -6, 6, 2, {3, 5}}}, .derivatives = 2, .ulps = {4, 4},
     .flags = ELEMENTWISE},
    {COS, .variant = "float", .in = {{REAL, ANY, -6, 6, 2, {3, 5}}}, .derivatives = 2, .ulps = {4, 4},
     .flags = ELEMENTWISE},
    {.op = NULL},
};
/* clang-format on */
