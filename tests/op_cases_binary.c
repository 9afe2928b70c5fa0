/* op_cases_binary.c - elementwise ops of two operands. */
#include "op_cases.h"

static long double add(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] + x[1];
}

static long double sub(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] - x[1];
}

static long double mul(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] * x[1];
}

static long double divide(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] / x[1];
}

static long double larger(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] > x[1] ? x[0] : x[1];
}

static long double smaller(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] < x[1] ? x[0] : x[1];
}

/* clang-format off */
#define ADD .op = "add", .two = lab_add, .element = add, .n_inputs = 2
#define SUB .op = "sub", .two = lab_sub, .element = sub, .n_inputs = 2
#define MUL .op = "mul", .two = lab_mul, .element = mul, .n_inputs = 2
#define DIV .op = "div", .two = lab_div, .element = divide, .n_inputs = 2
#define MAXIMUM .op = "maximum", .two = lab_maximum, .element = larger, .n_inputs = 2
#define MINIMUM .op = "minimum", .two = lab_minimum, .element = smaller, .n_inputs = 2

const op_case op_cases_binary[] = {
    {ADD, .variant = "float", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}, {REAL, ANY, -3, 3, 2, {3, 5}}}, .derivatives = 2,
     .ulps = {0.5001, 0.5001}, .flags = ELEMENTWISE},
    {ADD, .variant = "i64",
     .in = {{WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}, {WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}},
     .flags = ELEMENTWISE},
    {SUB, .variant = "float", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}, {REAL, ANY, -3, 3, 2, {3, 5}}}, .derivatives = 2,
     .ulps = {0.5001, 0.5001}, .flags = ELEMENTWISE},
    {SUB, .variant = "i64",
     .in = {{WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}, {WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}},
     .flags = ELEMENTWISE},
    {MUL, .variant = "float", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}, {REAL, ANY, -3, 3, 2, {3, 5}}}, .derivatives = 2,
     .ulps = {0.5001, 0.5001}, .flags = ELEMENTWISE},
    {MUL, .variant = "i64",
     .in = {{WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}, {WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}},
     .flags = ELEMENTWISE},
    {DIV, .variant = "float", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}, {REAL, SIGNED, 0.5, 3, 2, {3, 5}}},
     .derivatives = 2, .ulps = {0.5001, 0.5001}, .flags = ELEMENTWISE},
    {MAXIMUM, .variant = "float", .in = {{REAL, DISTINCT, -3, 3, 2, {3, 5}}, {REAL, DISTINCT, -3, 3, 2, {3, 5}}},
     .derivatives = 2, .flags = ELEMENTWISE},
    {MAXIMUM, .variant = "i64",
     .in = {{WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}, {WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}},
     .flags = ELEMENTWISE},
    {MINIMUM, .variant = "float", .in = {{REAL, DISTINCT, -3, 3, 2, {3, 5}}, {REAL, DISTINCT, -3, 3, 2, {3, 5}}},
     .derivatives = 2, .flags = ELEMENTWISE},
    {MINIMUM, .variant = "i64",
     .in = {{WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}, {WHOLE, ANY, -1000000, 1000000, 2, {3, 5}}},
     .flags = ELEMENTWISE},
    {.op = NULL},
};
/* clang-format on */
