/* test_kernels_rows.c - sums, maxima and softmax of rows on every level: against long double at awkward sizes and
 * strides, with guards; and the rows that have no ordinary softmax.
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

static const int64_t sizes[] = {0,  1,  2,  3,  4,  5,   7,   8,    9,    15,   16,
                                17, 31, 33, 63, 65, 127, 129, 1021, 1024, 1025, 3001};
enum { SIZES = sizeof sizes / sizeof sizes[0], MOST = 3001, SHORT = 37 };

static long double unit_of(kernel_type type)
{
    return type == KERNEL_F32 ? (long double)FLT_EPSILON : (long double)DBL_EPSILON;
}

static check_row take_random(kernel_type type, int64_t n, int64_t stride, double size, long double *values,
                             uint64_t *stream)
{
    check_row r = check_row_take(type, n, stride, stream);
    for (int64_t i = 0; i < n; i++) {
        check_row_put(&r, i, size * guarded_uniform(stream));
        values[i] = check_row_get(&r, i);
    }
    check_row_remember(&r);
    return r;
}

static void expect_near(long double got, long double expected, long double allowed, const char *what, int64_t i)
{
    if (!(fabsl(got - expected) <= allowed))
        fail_msg("seed %llu: %s: element %lld is %.21Lg, expected %.21Lg: off by %.3Lg, allowed %.3Lg",
                 (unsigned long long)guarded_seed(), what, (long long)i, got, expected, fabsl(got - expected), allowed);
}

/* ---- Sums and maxima --------------------------------------------------------------------------------------------- */

static void try_reductions(const kernel_table *table, kernel_type type, int64_t n, int64_t stride, uint64_t *stream)
{
    static long double x[MOST], y[MOST], sizes_x[MOST], sizes_xy[MOST];
    check_row row_x = take_random(type, n, stride, 3, x, stream), row_y = take_random(type, n, 1, 3, y, stream);
    const kernel_row_fns *row = &table->row[type];
    const char *what = check_text(table, type, "sum, dot, maximum", n, 0, stride);
    for (int64_t i = 0; i < n; i++) {
        sizes_x[i] = fabsl(x[i]);
        sizes_xy[i] = fabsl(x[i] * y[i]);
    }
    const long double rounding = 16 * (long double)DBL_EPSILON; /* in float, too: sums are taken in double */
    expect_near(row->sum(n, row_x.at, stride), lab__reference_sum(n, x), rounding * lab__reference_sum(n, sizes_x),
                what, 0);
    expect_near(row->dot(n, row_x.at, stride, row_y.at, 1), lab__reference_dot(n, x, y),
                rounding * lab__reference_sum(n, sizes_xy), what, 1);
    assert_true(row->maximum(n, row_x.at, stride) == (double)lab__reference_maximum(n, x));
    check_row_untouched(&row_x, true, what);
    check_row_untouched(&row_y, true, what);
    check_row_free(&row_x);
    check_row_free(&row_y);
}

static void try_all_reductions(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("reductions");
    for (int i = 0; i < SIZES; i++)
        for (int64_t stride = 1; stride <= 3; stride++)
            try_reductions(table, type, sizes[i], stride, &stream);
}

static void sums_and_maxima_are_right_at_all_sizes_and_strides(void **state)
{
    (void)state;
    check_levels_and_types(try_all_reductions);
}

/* A million times 0.1: one after another, that would be 1e-10 off in double and hopeless in float. */
static void try_long_sum(const kernel_table *table, kernel_type type)
{
    const int64_t n = 1000003;
    double x[1];
    check_put(type, x, 0, 0.1L);
    long double tenth = check_get(type, x, 0);
    const kernel_row_fns *row = &table->row[type];
    expect_near(row->sum(n, x, 0), n * tenth, 1e-14L * n, check_text(table, type, "sum", n, 0, 0), 0);
    expect_near(row->dot(n, x, 0, x, 0), n * tenth * tenth, 1e-15L * n, check_text(table, type, "dot", n, 0, 0), 0);
    assert_true(row->maximum(n, x, 0) == (double)tenth);
}

static void long_sums_lose_nothing(void **state)
{
    (void)state;
    check_levels_and_types(try_long_sum);
}

static void try_special_reductions(const kernel_table *table, kernel_type type)
{
    const kernel_row_fns *row = &table->row[type];
    double x[SHORT];
    for (int at = 0; at < SHORT; at++) {
        for (int i = 0; i < SHORT; i++)
            check_put(type, x, i, i == at ? NAN : 1);
        assert_true(isnan(row->sum(SHORT, x, 1)) && isnan(row->maximum(SHORT, x, 1)));
        check_put(type, x, at, INFINITY);
        assert_true(row->sum(SHORT, x, 1) == INFINITY && row->maximum(SHORT, x, 1) == INFINITY);
        check_put(type, x, at, -INFINITY);
        assert_true(row->sum(SHORT, x, 1) == -INFINITY && row->maximum(SHORT, x, 1) == 1);
        check_put(type, x, (at + 1) % SHORT, INFINITY);
        assert_true(isnan(row->sum(SHORT, x, 1)));
    }
    assert_true(row->sum(0, NULL, 1) == 0 && row->dot(0, NULL, 1, NULL, 1) == 0);
    assert_true(row->maximum(0, NULL, 1) == -INFINITY && row->logsumexp(0, NULL, 1) == -INFINITY);
}

static void nan_and_infinity_are_not_lost_in_sums_and_maxima(void **state)
{
    (void)state;
    check_levels_and_types(try_special_reductions);
}

/* ---- Softmax ----------------------------------------------------------------------------------------------------- */

static const struct {
    int64_t y, x;
} strides[] = {{1, 1}, {1, 3}, {2, 1}, {3, 2}};

static void try_softmax(const kernel_table *table, kernel_type type, int64_t n, int64_t y_stride, int64_t x_stride,
                        uint64_t *stream)
{
    static long double x[MOST], expected[MOST];
    const double wide = guarded_below(stream, 2) ? 4 : 60;
    check_row row_x = take_random(type, n, x_stride, wide, x, stream), y = check_row_take(type, n, y_stride, stream);
    const char *what = check_text(table, type, "softmax", n, y_stride, x_stride);
    const long double unit = unit_of(type), least = type == KERNEL_F32 ? 0x1p-148L : 0x1p-1073L;
    table->row[type].softmax(n, y.at, y_stride, row_x.at, x_stride);
    lab__reference_softmax(n, expected, x);
    const long double largest = lab__reference_maximum(n, x);
    for (int64_t i = 0; i < n; i++) /* x - max is rounded, too */
        expect_near(check_row_get(&y, i), expected[i], (4 + largest - x[i]) * unit * expected[i] + least, what, i);
    check_row_untouched(&y, false, what);
    table->row[type].log_softmax(n, y.at, y_stride, row_x.at, x_stride);
    lab__reference_log_softmax(n, expected, x);
    for (int64_t i = 0; i < n; i++)
        expect_near(check_row_get(&y, i), expected[i], (4 + 2 * fabsl(expected[i])) * unit, what, i);
    check_row_untouched(&y, false, what);
    check_row_untouched(&row_x, true, what);
    if (n > 0)
        expect_near(table->row[type].logsumexp(n, row_x.at, x_stride), lab__reference_logsumexp(n, x),
                    4 * unit * (1 + fabsl(largest)), what, 0);
    check_row_free(&row_x);
    check_row_free(&y);
}

static void try_all_softmax(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("softmax");
    for (int i = 0; i < SIZES; i++)
        for (size_t s = 0; s < sizeof strides / sizeof strides[0]; s++)
            try_softmax(table, type, sizes[i], strides[s].y, strides[s].x, &stream);
}

static void softmax_is_right_at_all_sizes_and_strides(void **state)
{
    (void)state;
    check_levels_and_types(try_all_softmax);
}

static void try_backward(const kernel_table *table, kernel_type type, int64_t n, int64_t dx_stride, int64_t stride,
                         bool add, bool logarithm, uint64_t *stream)
{
    static long double y[MOST], dy[MOST], dx[MOST], start[MOST];
    check_row row_dy = take_random(type, n, stride, 2, dy, stream), row_y = take_random(type, n, 1, 1, y, stream);
    check_row row_dx = take_random(type, n, dx_stride, 1, start, stream);
    const char *what =
        check_text(table, type, logarithm ? "log_softmax_backward" : "softmax_backward", n, dx_stride, stride);
    long double most = 0, total = 0;
    for (int64_t i = 0; i < n; i++)
        total += i % 5 ? fabsl(y[i]) : 0;
    for (int64_t i = 0; i < n; i++) { /* softmax's results sum to 1, some of them are 0 */
        check_row_put(&row_y, i, logarithm ? -4 * fabsl(y[i]) : i % 5 ? fabsl(y[i]) / total : 0);
        y[i] = check_row_get(&row_y, i);
        dx[i] = start[i];
        most += fabsl(dy[i] * (logarithm ? 1 : y[i]));
    }
    check_row_remember(&row_y);
    if (logarithm) {
        table->row[type].log_softmax_backward(n, row_dx.at, dx_stride, row_y.at, 1, row_dy.at, stride, add);
        lab__reference_log_softmax_backward(n, dx, y, dy, add);
    } else {
        table->row[type].softmax_backward(n, row_dx.at, dx_stride, row_y.at, 1, row_dy.at, stride, add);
        lab__reference_softmax_backward(n, dx, y, dy, add);
    }
    for (int64_t i = 0; i < n; i++)
        expect_near(check_row_get(&row_dx, i), dx[i], (8 + 4 * most) * unit_of(type), what, i);
    check_row_untouched(&row_dx, false, what);
    check_row_untouched(&row_y, true, what);
    check_row_untouched(&row_dy, true, what);
    check_row_free(&row_dx);
    check_row_free(&row_y);
    check_row_free(&row_dy);
}

static void try_all_backward(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("backward");
    for (int i = 0; i < SIZES; i++)
        for (size_t s = 0; s < 4 * sizeof strides / sizeof strides[0]; s++)
            try_backward(table, type, sizes[i], strides[s / 4].y, strides[s / 4].x, s % 2, s / 2 % 2, &stream);
}

static void derivatives_of_softmax_are_right_at_all_sizes_and_strides(void **state)
{
    (void)state;
    check_levels_and_types(try_all_backward);
}

/* ---- Rows that have no ordinary softmax ---------------------------------------------------------------------------- */

/* softmax, log_softmax and logsumexp of a row, each element of which must be as given. */
static void expect_row(const kernel_table *table, kernel_type type, int64_t n, const double *x, long double y,
                       long double log_y, long double lse, const char *what)
{
    double got[SHORT];
    table->row[type].softmax(n, got, 1, x, 1);
    for (int i = 0; i < n; i++)
        if (check_ulps(type, check_get(type, got, i), y) != 0)
            fail_msg("%s, softmax of %d: %s: element %d is %Lg", table->level, (int)n, what, i,
                     check_get(type, got, i));
    table->row[type].log_softmax(n, got, 1, x, 1);
    for (int i = 0; i < n; i++)
        if (check_ulps(type, check_get(type, got, i), log_y) != 0)
            fail_msg("%s, log_softmax of %d: %s: element %d is %Lg", table->level, (int)n, what, i,
                     check_get(type, got, i));
    double got_lse = table->row[type].logsumexp(n, x, 1);
    if (check_ulps(KERNEL_F64, got_lse, lse) != 0)
        fail_msg("%s, logsumexp of %d: %s is %g", table->level, (int)n, what, got_lse);
}

static void fill(kernel_type type, double *x, long double value)
{
    for (int i = 0; i < SHORT; i++)
        check_put(type, x, i, value);
}

/* Where all weights are 0, the derivative is, whatever dy is. */
static void expect_no_derivative(const kernel_table *table, kernel_type type, int64_t n)
{
    double y[SHORT], dy[SHORT], dx[SHORT];
    fill(type, y, 0);
    fill(type, dy, NAN);
    fill(type, dx, 7);
    table->row[type].softmax_backward(n, dx, 1, y, 1, dy, 1, false);
    for (int i = 0; i < SHORT; i++)
        assert_true(check_get(type, dx, i) == (i < n ? 0 : 7));
}

static void try_edges(const kernel_table *table, kernel_type type)
{
    double x[SHORT];
    for (int64_t n = 1; n <= SHORT; n++) {
        fill(type, x, -INFINITY);
        expect_row(table, type, n, x, 0, -INFINITY, -INFINITY, "-inf only");
        expect_no_derivative(table, type, n);
        for (int at = 0; at < n; at++) {
            fill(type, x, -INFINITY);
            check_put(type, x, at, NAN);
            expect_row(table, type, n, x, NAN, NAN, NAN, "a NaN among -inf");
            check_put(type, x, at, INFINITY);
            expect_row(table, type, n, x, NAN, NAN, NAN, "+inf among -inf");
            for (int i = 0; i < n; i++)
                check_put(type, x, i, 1e4L * (i % 3));
            check_put(type, x, at, NAN);
            expect_row(table, type, n, x, NAN, NAN, NAN, "a NaN among numbers");
            check_put(type, x, at, INFINITY);
            expect_row(table, type, n, x, NAN, NAN, NAN, "+inf among numbers");
        }
    }
}

static void rows_of_minus_infinity_give_zeros_and_nan_or_infinity_gives_nan(void **state)
{
    (void)state;
    check_levels_and_types(try_edges);
}

/* Masks of -inf, -1e30 and the lowest number: exactly 0, and the rest as if they were not there. */
static void try_masks(const kernel_table *table, kernel_type type)
{
    const long double masks[] = {-INFINITY, -1e30L, type == KERNEL_F32 ? -(long double)FLT_MAX : -(long double)DBL_MAX};
    const long double heights[] = {0, 80, -80, 1e4L, -1e4L, 1e20L};
    for (int m = 0; m < 3 * 6; m++) {
        double x[SHORT], y[SHORT];
        fill(type, x, masks[m % 3]);
        for (int i = 0; i < SHORT; i += 9)
            check_put(type, x, i, heights[m / 3]);
        table->row[type].softmax(SHORT, y, 1, x, 1);
        for (int i = 0; i < SHORT; i++)
            if (i % 9 == 0)
                expect_near(check_get(type, y, i), 0.2L, unit_of(type), "equal numbers beside a mask", i);
            else
                assert_true(check_get(type, y, i) == 0);
    }
}

static void masked_entries_are_exactly_0(void **state)
{
    (void)state;
    check_levels_and_types(try_masks);
}

/* Where y is 0, dy is not read into the result; elsewhere it is. */
static void try_masked_backward(const kernel_table *table, kernel_type type)
{
    const long double bad[] = {NAN, INFINITY, -INFINITY, 1e30L};
    for (int b = 0; b < 4 * 2; b++) {
        double y[SHORT], dy[SHORT], dx[SHORT];
        for (int i = 0; i < SHORT; i++) {
            check_put(type, y, i, i % 3 ? 0 : 0.25L);
            check_put(type, dy, i, i % 3 ? bad[b % 4] : i);
        }
        fill(type, dx, 7);
        table->row[type].softmax_backward(SHORT, dx, 1, y, 1, dy, 1, b / 4);
        for (int i = 0; i < SHORT; i++)
            assert_true(i % 3 ? check_get(type, dx, i) == (b / 4 ? 7 : 0) : isfinite(check_get(type, dx, i)));
        check_put(type, dy, 0, NAN);
        table->row[type].softmax_backward(SHORT, dx, 1, y, 1, dy, 1, false);
        for (int i = 0; i < SHORT; i++)
            assert_true(i % 3 ? check_get(type, dx, i) == 0 : isnan(check_get(type, dx, i)));
    }
}

static void derivatives_where_softmax_is_0_are_exactly_0(void **state)
{
    (void)state;
    check_levels_and_types(try_masked_backward);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_maxima_are_right_at_all_sizes_and_strides),
        cmocka_unit_test(long_sums_lose_nothing),
        cmocka_unit_test(nan_and_infinity_are_not_lost_in_sums_and_maxima),
        cmocka_unit_test(softmax_is_right_at_all_sizes_and_strides),
        cmocka_unit_test(derivatives_of_softmax_are_right_at_all_sizes_and_strides),
        cmocka_unit_test(rows_of_minus_infinity_give_zeros_and_nan_or_infinity_gives_nan),
        cmocka_unit_test(masked_entries_are_exactly_0),
        cmocka_unit_test(derivatives_where_softmax_is_0_are_exactly_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
