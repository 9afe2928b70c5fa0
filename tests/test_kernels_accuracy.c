/* test_kernels_accuracy.c - the functions made of exp, over their whole range: units in the last place against long
 * double, the ends of the range, and what is neither a number nor finite. The worst argument of each is printed.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_check.h"
#include "kernels/reference.h"

enum { ROW = 1024 };

typedef struct worst {
    double ulps;
    long double at, got, expected;
} worst;

static void try_row(const kernel_table *table, kernel_type type, kernel_unary op, const void *x, worst *w)
{
    double y[ROW];
    table->unary[type][op](ROW, y, 1, x, 1, 0);
    for (int i = 0; i < ROW; i++) {
        long double at = check_get(type, x, i), expected = lab__reference_unary(op, at, 0);
        double ulps = check_ulps(type, check_get(type, y, i), expected);
        if (ulps > w->ulps)
            *w = (worst){ulps, at, check_get(type, y, i), expected};
    }
}

static void report(const kernel_table *table, kernel_type type, kernel_unary op, const worst *w, double allowed)
{
    const char *kind = type == KERNEL_F32 ? "f32" : "f64";
    print_message("%s %s %s: %.3f ulp at %.17Lg\n", table->level, kind, check_unary_names[op], w->ulps, w->at);
    if (!(w->ulps <= allowed))
        fail_msg("seed %llu: %s %s %s(%.17Lg) is %.21Lg, expected %.21Lg: %.3f ulp off, allowed %g",
                 (unsigned long long)guarded_seed(), table->level, kind, check_unary_names[op], w->at, w->got,
                 w->expected, w->ulps, allowed);
}

/* ---- exp --------------------------------------------------------------------------------------------------------- */

/* Every so many floats from one whole power of e to the next, on both sides of 0, and a little beyond the range. */
static void sweep_exp(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("exp");
    const double low = type == KERNEL_F32 ? -105 : -747, high = type == KERNEL_F32 ? 90 : 711;
    worst w = {0};
    for (int rows = 0; rows < 400; rows++) {
        double x[ROW];
        for (int i = 0; i < ROW; i++) {
            double part = guarded_uniform(&stream) / 2 + 0.5, value = low + part * (high - low);
            if (rows % 4 == 1) /* near the ends of a step of n, where r is largest */
                value = (nearbyint(value) + 0.5 + guarded_uniform(&stream) * 0x1p-6) * 0.693147180559945309417;
            if (rows % 4 == 2) /* near 0 */
                value = ldexp(guarded_uniform(&stream), -(int)guarded_below(&stream, type == KERNEL_F32 ? 140 : 1070));
            check_put(type, x, i, value);
        }
        try_row(table, type, KERNEL_EXP, x, &w);
    }
    report(table, type, KERNEL_EXP, &w, 1.1);
}

static void exp_is_within_1_1_ulp_over_its_whole_range(void **state)
{
    (void)state;
    check_levels_and_types(sweep_exp);
}

/* exp(x) for a single x. */
static long double exp_of(const kernel_table *table, kernel_type type, long double x)
{
    double in[1], out[1];
    check_put(type, in, 0, x);
    table->unary[type][KERNEL_EXP](1, out, 1, in, 1, 0);
    return check_get(type, out, 0);
}

static void try_ends_of_exp(const kernel_table *table, kernel_type type)
{
    const bool f32 = type == KERNEL_F32;
    const long double lowest = f32 ? 0x1p-149L : 0x1p-1074L,
                      largest = f32 ? (long double)FLT_MAX : (long double)DBL_MAX;
    const struct {
        long double x, y;
    } ends[] = {
        {-INFINITY, 0},
        {-largest, 0},
        {-1e30L, 0},
        {f32 ? -104 : -745.2L, 0},
        {logl(lowest) + 0.01L, lowest},
        {0, 1},
        {-0.0L, 1},
        {lowest, 1},
        {-lowest, 1},
        {logl(largest) + (f32 ? 1e-4L : 1e-12L), INFINITY},
        {1e30L, INFINITY},
        {largest, INFINITY},
        {INFINITY, INFINITY},
        {NAN, NAN},
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        long double y = exp_of(table, type, ends[i].x);
        if (y != ends[i].y && !(isnan(y) && isnan(ends[i].y)))
            fail_msg("%s: exp(%Lg) is %Lg, expected %Lg", check_text(table, type, "exp", 1, 1, 1), ends[i].x, y,
                     ends[i].y);
    }
    assert_true(isfinite(exp_of(table, type, logl(largest) - (f32 ? 1e-4L : 1e-12L))));
}

static void exp_ends_where_numbers_end(void **state)
{
    (void)state;
    check_levels_and_types(try_ends_of_exp);
}

/* ---- What is made of it ------------------------------------------------------------------------------------------ */

static void sweep(const kernel_table *table, kernel_type type, kernel_unary op, double allowed)
{
    uint64_t stream = guarded_stream(check_unary_names[op]);
    const double widths[] = {1, 6, type == KERNEL_F32 ? 40 : 100, type == KERNEL_F32 ? 130 : 800};
    worst w = {0};
    for (int rows = 0; rows < 100; rows++) {
        double x[ROW];
        for (int i = 0; i < ROW; i++) {
            int shift = rows % 5 == 4 ? (int)guarded_below(&stream, type == KERNEL_F32 ? 140 : 1070) : 0;
            check_put(type, x, i, ldexpl(guarded_uniform(&stream) * widths[rows % 5 % 4], -shift));
        }
        try_row(table, type, op, x, &w);
    }
    report(table, type, op, &w, allowed);
}

static void sweep_all(const kernel_table *table, kernel_type type)
{
    sweep(table, type, KERNEL_TANH, 3);
    sweep(table, type, KERNEL_SIGMOID, 3);
    sweep(table, type, KERNEL_SILU, 4);
    sweep(table, type, KERNEL_ERF, 2);
    sweep(table, type, KERNEL_GELU_ERF, 4);
    sweep(table, type, KERNEL_GELU_TANH, 4);
}

static void what_is_made_of_exp_keeps_its_relative_accuracy(void **state)
{
    (void)state;
    check_levels_and_types(sweep_all);
}

static void try_ends(const kernel_table *table, kernel_type type)
{
    static const struct {
        kernel_unary op;
        long double minus, plus, zero;
    } limits[] = {
        {KERNEL_TANH, -1, 1, 0},          {KERNEL_SIGMOID, 0, 1, 0.5L},           {KERNEL_ERF, -1, 1, 0},
        {KERNEL_SILU, 0, INFINITY, 0},    {KERNEL_GELU_ERF, 0, INFINITY, 0},      {KERNEL_GELU_TANH, 0, INFINITY, 0},
        {KERNEL_RELU, 0, INFINITY, 0},    {KERNEL_ABS, INFINITY, INFINITY, 0},    {KERNEL_SQRT, NAN, INFINITY, 0},
        {KERNEL_RSQRT, NAN, 0, INFINITY}, {KERNEL_LOG, NAN, INFINITY, -INFINITY},
    };
    const long double arguments[] = {-INFINITY, INFINITY, 0, NAN};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const long double expected[] = {limits[i].minus, limits[i].plus, limits[i].zero, NAN};
        double x[4], y[4];
        for (int k = 0; k < 4; k++)
            check_put(type, x, k, arguments[k]);
        table->unary[type][limits[i].op](4, y, 1, x, 1, 0);
        for (int k = 0; k < 4; k++)
            if (check_ulps(type, check_get(type, y, k), expected[k]) != 0)
                fail_msg("%s: of %Lg is %Lg, expected %Lg",
                         check_text(table, type, check_unary_names[limits[i].op], 4, 1, 1), arguments[k],
                         check_get(type, y, k), expected[k]);
    }
}

static void infinities_give_limits_and_nan_stays(void **state)
{
    (void)state;
    check_levels_and_types(try_ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_1_1_ulp_over_its_whole_range),
        cmocka_unit_test(exp_ends_where_numbers_end),
        cmocka_unit_test(what_is_made_of_exp_keeps_its_relative_accuracy),
        cmocka_unit_test(infinities_give_limits_and_nan_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
