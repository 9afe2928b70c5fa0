/* op_cases_select.c - comparison, logic and selection. */
#include "op_cases.h"

static long double equal(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] == x[1];
}

static long double less(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] < x[1];
}

static long double less_equal(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] <= x[1];
}

static long double both(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] != 0 && x[1] != 0;
}

static long double either(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] != 0 || x[1] != 0;
}

static long double opposite(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] == 0;
}

static long double selected(const op_case *c, lab_dtype type, const long double *x)
{
    (void)c, (void)type;
    return x[0] != 0 ? x[1] : x[2];
}

static lab_tensor *build_where(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)c;
    return lab_where(g, xs[0], xs[1], xs[2]);
}

/* clang-format off */
#define EQUAL .op = "equal", .two = lab_equal, .element = equal, .n_inputs = 2
#define LESS .op = "less", .two = lab_less, .element = less, .n_inputs = 2
#define LESS_EQUAL .op = "less_equal", .two = lab_less_equal, .element = less_equal, .n_inputs = 2
#define LOGICAL_AND .op = "logical_and", .two = lab_logical_and, .element = both, .n_inputs = 2
#define LOGICAL_OR .op = "logical_or", .two = lab_logical_or, .element = either, .n_inputs = 2
#define LOGICAL_NOT .op = "logical_not", .one = lab_logical_not, .element = opposite, .n_inputs = 1
#define WHERE .op = "where", .build = build_where, .element = selected, .n_inputs = 3

const op_case op_cases_select[] = {
    {EQUAL, .variant = "float", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}, {REAL, ANY, -3, 3, 2, {3, 5}}},
     .truth = true, .flags = ELEMENTWISE},
    {EQUAL, .variant = "i64", .in = {{WHOLE, ANY, -2, 2, 2, {3, 5}}, {WHOLE, ANY, -2, 2, 2, {3, 5}}},
     .truth = true, .flags = ELEMENTWISE},
    {EQUAL, .variant = "bool", .in = {{TRUTH, ANY, 0, 1, 2, {3, 5}}, {TRUTH, ANY, 0, 1, 2, {3, 5}}},
     .truth = true, .flags = ELEMENTWISE},
    {LESS, .variant = "float", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}, {REAL, ANY, -3, 3, 2, {3, 5}}},
     .truth = true, .flags = ELEMENTWISE},
    {LESS, .variant = "i64", .in = {{WHOLE, ANY, -2, 2, 2, {3, 5}}, {WHOLE, ANY, -2, 2, 2, {3, 5}}},
     .truth = true, .flags = ELEMENTWISE},
    {LESS_EQUAL, .variant = "float", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}, {REAL, ANY, -3, 3, 2, {3, 5}}},
     .truth = true, .flags = ELEMENTWISE},
    {LESS_EQUAL, .variant = "i64", .in = {{WHOLE, ANY, -2, 2, 2, {3, 5}}, {WHOLE, ANY, -2, 2, 2, {3, 5}}},
     .truth = true, .flags = ELEMENTWISE},
    {LOGICAL_AND, .variant = "bool", .in = {{TRUTH, ANY, 0, 1, 2, {3, 5}}, {TRUTH, ANY, 0, 1, 2, {3, 5}}},
     .truth = true, .flags = ELEMENTWISE},
    {LOGICAL_OR, .variant = "bool", .in = {{TRUTH, ANY, 0, 1, 2, {3, 5}}, {TRUTH, ANY, 0, 1, 2, {3, 5}}},
     .truth = true, .flags = ELEMENTWISE},
    {LOGICAL_NOT, .variant = "bool", .in = {{TRUTH, ANY, 0, 1, 2, {3, 5}}}, .truth = true, .flags = ELEMENTWISE},
    {WHERE, .variant = "float",
     .in = {{TRUTH, ANY, 0, 1, 2, {3, 5}}, {REAL, ANY, -3, 3, 2, {3, 5}}, {REAL, ANY, -3, 3, 2, {3, 5}}},
     .derivatives = 2, .flags = ELEMENTWISE},
    {WHERE, .variant = "i64",
     .in = {{TRUTH, ANY, 0, 1, 2, {3, 5}}, {WHOLE, ANY, -2, 2, 2, {3, 5}}, {WHOLE, ANY, -2, 2, 2, {3, 5}}},
     .flags = ELEMENTWISE},
    {WHERE, .variant = "bool",
     .in = {{TRUTH, ANY, 0, 1, 2, {3, 5}}, {TRUTH, ANY, 0, 1, 2, {3, 5}}, {TRUTH, ANY, 0, 1, 2, {3, 5}}},
     .flags = ELEMENTWISE},
    {.op = NULL},
};
/* clang-format on */
