/* test_kernels.c - the kernels that map elements, on every level: values against the reference in long double, at
 * awkward sizes and strides, with random bytes around the rows that must survive.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel_check.h"
#include "kernels/reference.h"

/* Sizes around those of vectors and of buffers, and primes. */
static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 61, 127, 1023, 1024, 1025, 2053};
enum { SIZES = sizeof sizes / sizeof sizes[0], IN_PLACE = -1 };

static const struct {
    int64_t y, x;
} strides1[] = {{1, 1}, {1, 0}, {1, 3}, {2, 1}, {3, 2}, {2, 0}, {1, IN_PLACE}, {3, IN_PLACE}};

/* What the header and the C library promise, in units in the last place. */
static const double allowed1[KERNEL_UNARY_COUNT] = {
    [KERNEL_COPY] = 0,
    [KERNEL_NEG] = 0,
    [KERNEL_ADD_SCALAR] = 0.501,
    [KERNEL_MUL_SCALAR] = 0.501,
    [KERNEL_POW_SCALAR] = 1.5,
    [KERNEL_EXP] = 1.1,
    [KERNEL_LOG] = 1,
    [KERNEL_SQRT] = 0.501,
    [KERNEL_RSQRT] = 1.5,
    [KERNEL_TANH] = 4,
    [KERNEL_SIGMOID] = 4,
    [KERNEL_ERF] = 4,
    [KERNEL_RELU] = 0,
    [KERNEL_GELU_ERF] = 4,
    [KERNEL_GELU_TANH] = 4,
    [KERNEL_SILU] = 4,
    [KERNEL_ABS] = 0,
    [KERNEL_SIN] = 1,
    [KERNEL_COS] = 1,
};

/* The worst element of a row. */
typedef struct worst {
    double ulps;
    int64_t index;
    long double got, expected;
} worst;

static void judge(worst *w, kernel_type type, int64_t i, long double got, long double expected)
{
    double ulps = check_ulps(type, got, expected);
    if (ulps > w->ulps)
        *w = (worst){ulps, i, got, expected};
}

static void fail_if_worse(const worst *w, double allowed, const char *what)
{
    if (w->ulps > allowed)
        fail_msg("seed %llu: %s: element %lld is %.21Lg, expected %.21Lg: %.3g ulp off, allowed %g",
                 (unsigned long long)guarded_seed(), what, (long long)w->index, w->got, w->expected, w->ulps, allowed);
}

/* ---- One operand ------------------------------------------------------------------------------------------------- */

static void try_unary(const kernel_table *table, kernel_type type, kernel_unary op, int64_t n, int64_t y_stride,
                      int64_t x_stride, uint64_t *stream)
{
    static const double exponents[] = {2, 1, -1, 0.5, 3, -2.5, 0};
    bool in_place = x_stride == IN_PLACE;
    double parameter = op == KERNEL_POW_SCALAR ? exponents[guarded_below(stream, 7)] : 3 * guarded_uniform(stream);
    long double rounded = type == KERNEL_F32 ? (float)parameter : parameter, before[2053];
    check_row y = check_row_take(type, n, y_stride, stream),
              apart = check_row_take(type, n, in_place ? 0 : x_stride, stream);
    check_row *x = in_place ? &y : &apart;
    for (int64_t i = 0; i < n; i++)
        check_row_put(x, i, check_any_number(type, stream));
    check_row_remember(x);
    for (int64_t i = 0; i < n; i++)
        before[i] = check_row_get(x, i);
    table->unary[type][op](n, y.at, y_stride, x->at, x->stride, parameter);
    const char *what = check_text(table, type, check_unary_names[op], n, y_stride, x_stride);
    check_row_untouched(&y, false, what);
    if (!in_place)
        check_row_untouched(x, true, what);
    worst w = {0};
    for (int64_t i = 0; i < n; i++)
        judge(&w, type, i, check_row_get(&y, i), lab__reference_unary(op, before[i], rounded));
    fail_if_worse(&w, allowed1[op], what);
    check_row_free(&y);
    check_row_free(&apart);
}

static void try_all_unary(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("unary");
    for (int op = 0; op < KERNEL_UNARY_COUNT; op++)
        for (int i = 0; i < SIZES; i++)
            for (size_t s = 0; s < sizeof strides1 / sizeof strides1[0]; s++)
                try_unary(table, type, (kernel_unary)op, sizes[i], strides1[s].y, strides1[s].x, &stream);
}

static void functions_of_one_operand_are_right_at_all_sizes_and_strides(void **state)
{
    (void)state;
    check_levels_and_types(try_all_unary);
}

/* ---- Two operands ------------------------------------------------------------------------------------------------ */

static const struct {
    int64_t y, a, b;
} strides2[] = {{1, 1, 1}, {1, 0, 1}, {1, 1, 0}, {1, 0, 0},        {2, 1, 3},
                {1, 2, 1}, {3, 0, 2}, {1, 3, 0}, {1, IN_PLACE, 1}, {2, 1, IN_PLACE}};

static void take_operands(kernel_type type, int64_t n, const int64_t stride[3], check_row rows[3], check_row *used[3],
                          uint64_t *stream)
{
    for (int k = 0; k < 3; k++) {
        rows[k] = check_row_take(type, n, stride[k] == IN_PLACE ? 0 : stride[k], stream);
        used[k] = stride[k] == IN_PLACE ? &rows[0] : &rows[k];
    }
    for (int k = 1; k < 3; k++) {
        for (int64_t i = 0; i < n; i++)
            check_row_put(used[k], i, check_any_number(type, stream));
        check_row_remember(used[k]);
    }
    for (int64_t i = 0; i < n && stride[1] == stride[2]; i += 3) /* equal numbers, too */
        check_row_put(used[2], i, check_row_get(used[1], i));
    check_row_remember(used[2]);
}

static void try_binary(const kernel_table *table, kernel_type type, kernel_binary op, int64_t n,
                       const int64_t stride[3], uint64_t *stream)
{
    check_row rows[3], *used[3];
    long double before[2][2053];
    take_operands(type, n, stride, rows, used, stream);
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            before[k][i] = check_row_get(used[k + 1], i);
    table->binary[type][op](n, rows[0].at, stride[0], used[1]->at, used[1]->stride, used[2]->at, used[2]->stride);
    const char *what = check_text(table, type, check_binary_names[op], n, stride[1], stride[2]);
    check_row_untouched(&rows[0], false, what);
    for (int k = 1; k < 3; k++)
        if (used[k] != &rows[0])
            check_row_untouched(used[k], true, what);
    worst w = {0};
    for (int64_t i = 0; i < n; i++)
        judge(&w, type, i, check_row_get(&rows[0], i), lab__reference_binary(op, before[0][i], before[1][i]));
    fail_if_worse(&w, 0.501, what);
    for (int k = 0; k < 3; k++)
        check_row_free(&rows[k]);
}

static void try_all_binary(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("binary");
    for (int op = 0; op < KERNEL_BINARY_COUNT; op++)
        for (int i = 0; i < SIZES; i++)
            for (size_t s = 0; s < sizeof strides2 / sizeof strides2[0]; s++) {
                const int64_t stride[3] = {strides2[s].y, strides2[s].a, strides2[s].b};
                try_binary(table, type, (kernel_binary)op, sizes[i], stride, &stream);
            }
}

static void functions_of_two_operands_are_right_at_all_sizes_and_strides(void **state)
{
    (void)state;
    check_levels_and_types(try_all_binary);
}

/* ---- Comparisons ------------------------------------------------------------------------------------------------- */

static void try_compare(const kernel_table *table, kernel_type type, kernel_compare op, int64_t n,
                        const int64_t stride[3], uint64_t *stream)
{
    check_row rows[3], *used[3];
    guarded y = guarded_take((size_t)(n * stride[0]), stream);
    take_operands(type, n, (const int64_t[]){1, stride[1], stride[2]}, rows, used, stream);
    table->compare[type][op](n, y.data, stride[0], used[1]->at, stride[1], used[2]->at, stride[2]);
    const char *what = check_text(table, type, check_compare_names[op], n, stride[1], stride[2]);
    check_row_untouched(used[1], true, what);
    check_row_untouched(used[2], true, what);
    assert_true(guarded_unchanged(&y, false));
    for (int64_t i = 0; i < n * stride[0]; i++) {
        int64_t k = i / stride[0];
        int expected = i % stride[0] ? guarded_remembered(&y)[i]
                                     : lab__reference_compare(op, check_row_get(used[1], k), check_row_get(used[2], k));
        if (y.data[i] != expected)
            fail_msg("seed %llu: %s: byte %lld is %d, expected %d", (unsigned long long)guarded_seed(), what,
                     (long long)i, y.data[i], expected);
    }
    guarded_free(&y);
    for (int k = 0; k < 3; k++)
        check_row_free(&rows[k]);
}

static void try_all_compare(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("compare");
    for (int op = 0; op < KERNEL_COMPARE_COUNT; op++)
        for (int i = 0; i < SIZES; i++)
            for (size_t s = 0; s < sizeof strides2 / sizeof strides2[0]; s++) {
                const int64_t stride[3] = {strides2[s].y, strides2[s].a, strides2[s].b};
                if (stride[1] != IN_PLACE && stride[2] != IN_PLACE)
                    try_compare(table, type, (kernel_compare)op, sizes[i], stride, &stream);
            }
}

static void comparisons_are_right_at_all_sizes_and_strides(void **state)
{
    (void)state;
    check_levels_and_types(try_all_compare);
}

/* ---- NaN --------------------------------------------------------------------------------------------------------- */

static void nan_in_either_operand_gives_nan(const kernel_table *table, kernel_type type)
{
    for (int op = 0; op < KERNEL_BINARY_COUNT; op++)
        for (int k = 0; k < 3; k++) {
            double a[2], b[2], y[2];
            check_put(type, a, 0, k == 1 ? 1.5L : NAN);
            check_put(type, b, 0, k == 0 ? 1.5L : NAN);
            table->binary[type][op](1, y, 1, a, 1, b, 1);
            if (!isnan(check_get(type, y, 0)))
                fail_msg("%s: NaN is lost", check_text(table, type, check_binary_names[op], 1, 1, 1));
        }
}

static void nan_is_not_lost(void **state)
{
    (void)state;
    check_levels_and_types(nan_in_either_operand_gives_nan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_one_operand_are_right_at_all_sizes_and_strides),
        cmocka_unit_test(functions_of_two_operands_are_right_at_all_sizes_and_strides),
        cmocka_unit_test(comparisons_are_right_at_all_sizes_and_strides),
        cmocka_unit_test(nan_is_not_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
