/* test_kernels_bits.c - the same element has the same bits wherever it stands: in any place of a vector, in a row of
 * any length, at any stride, in place or not. And a row's sum has the same bits at any stride.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_check.h"

enum { N = 83, MOST_STRIDE = 3, LONG = 2311 };

static void same_bits(kernel_type type, const void *a, const void *b, int64_t n, const char *what)
{
    size_t size = check_size(type);
    for (int64_t i = 0; i < n; i++)
        if (memcmp((const char *)a + (size_t)i * size, (const char *)b + (size_t)i * size, size) != 0)
            fail_msg("seed %llu: %s: element %lld is %La here and %La there", (unsigned long long)guarded_seed(), what,
                     (long long)i, check_get(type, a, i), check_get(type, b, i));
}

static void random_row(kernel_type type, int64_t n, void *x, uint64_t *stream)
{
    for (int64_t i = 0; i < n; i++)
        check_put(type, x, i, ldexpl(guarded_uniform(stream), (int)guarded_below(stream, 9) - 2));
}

/* y[i * to] = x[i * from] */
static void spread(kernel_type type, int64_t n, void *y, int64_t to, const void *x, int64_t from)
{
    for (int64_t i = 0; i < n; i++)
        check_put(type, y, i * to, check_get(type, x, i * from));
}

/* ---- Elements ---------------------------------------------------------------------------------------------------- */

static void try_unary(const kernel_table *table, kernel_type type, kernel_unary op, const void *x, const char *what)
{
    kernel_unary_fn fn = table->unary[type][op];
    size_t size = check_size(type);
    double whole[N], parts[N], wide_x[N * MOST_STRIDE], wide_y[N * MOST_STRIDE], again[N];
    fn(N, whole, 1, x, 1, 0.7);
    for (int64_t length = 1; length < N; length += 1 + length / 7) { /* pieces of every small length, at any place */
        for (int64_t i = 0; i < N; i += length)
            fn(i + length < N ? length : N - i, (char *)parts + (size_t)i * size, 1, (const char *)x + (size_t)i * size,
               1, 0.7);
        same_bits(type, parts, whole, N, what);
    }
    for (int64_t from = 1; from <= MOST_STRIDE; from++)
        for (int64_t to = 1; to <= MOST_STRIDE; to++) {
            spread(type, N, wide_x, from, x, 1);
            fn(N, wide_y, to, wide_x, from, 0.7);
            spread(type, N, again, 1, wide_y, to);
            same_bits(type, again, whole, N, what);
        }
    memcpy(again, x, sizeof again);
    fn(N, again, 1, again, 1, 0.7);
    same_bits(type, again, whole, N, what);
    for (int64_t i = 0; i < N; i++) { /* the same element again and again */
        fn(5, again, 1, (const char *)x + (size_t)i * size, 0, 0.7);
        for (int k = 0; k < 5; k++)
            same_bits(type, (const char *)again + (size_t)k * size, (const char *)whole + (size_t)i * size, 1, what);
    }
}

static void try_all_unary(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("unary bits");
    double x[N];
    random_row(type, N, x, &stream);
    for (int op = 0; op < KERNEL_UNARY_COUNT; op++) {
        for (int64_t i = 0; i < N; i++) /* a NaN's sign is nobody's business */
            check_put(type, x, i,
                      op == KERNEL_LOG || op == KERNEL_SQRT || op == KERNEL_RSQRT || op == KERNEL_POW_SCALAR
                          ? fabsl(check_get(type, x, i))
                          : check_get(type, x, i));
        try_unary(table, type, (kernel_unary)op, x, check_text(table, type, check_unary_names[op], N, 0, 0));
        random_row(type, N, x, &stream);
    }
}

static void an_elements_bits_do_not_depend_on_its_place(void **state)
{
    (void)state;
    check_levels_and_types(try_all_unary);
}

static void try_binary(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("binary bits");
    double a[N], b[N], whole[N], parts[N], wide[N * MOST_STRIDE], again[N];
    size_t size = check_size(type);
    random_row(type, N, a, &stream);
    random_row(type, N, b, &stream);
    for (int op = 0; op < KERNEL_BINARY_COUNT; op++) {
        kernel_binary_fn fn = table->binary[type][op];
        const char *what = check_text(table, type, check_binary_names[op], N, 0, 0);
        fn(N, whole, 1, a, 1, b, 1);
        for (int64_t i = 0; i < N; i += 3)
            fn(i + 3 < N ? 3 : N - i, (char *)parts + (size_t)i * size, 1, (const char *)a + (size_t)i * size, 1,
               (const char *)b + (size_t)i * size, 1);
        same_bits(type, parts, whole, N, what);
        spread(type, N, wide, MOST_STRIDE, a, 1);
        fn(N, again, 1, wide, MOST_STRIDE, b, 1);
        same_bits(type, again, whole, N, what);
        fn(N, wide, 2, a, 1, b, 1);
        spread(type, N, again, 1, wide, 2);
        same_bits(type, again, whole, N, what);
    }
}

static void bits_of_two_operands_do_not_depend_on_their_place(void **state)
{
    (void)state;
    check_levels_and_types(try_binary);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static const int64_t lengths[] = {1, 5, 16, 33, 100, 1024, 1025, LONG};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void try_reductions(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("reduction bits");
    static double x[LONG], y[LONG], wide_x[LONG * MOST_STRIDE], wide_y[LONG * 2];
    const kernel_row_fns *row = &table->row[type];
    random_row(type, LONG, x, &stream);
    random_row(type, LONG, y, &stream);
    spread(type, LONG, wide_x, MOST_STRIDE, x, 1);
    spread(type, LONG, wide_y, 2, y, 1);
    for (int i = 0; i < LENGTHS; i++) {
        int64_t n = lengths[i];
        assert_true(row->sum(n, x, 1) == row->sum(n, wide_x, MOST_STRIDE));
        assert_true(row->dot(n, x, 1, y, 1) == row->dot(n, wide_x, MOST_STRIDE, wide_y, 2));
        assert_true(row->maximum(n, x, 1) == row->maximum(n, wide_x, MOST_STRIDE));
        assert_true(row->logsumexp(n, x, 1) == row->logsumexp(n, wide_x, MOST_STRIDE));
    }
}

static void sums_of_a_row_do_not_depend_on_its_stride(void **state)
{
    (void)state;
    check_levels_and_types(try_reductions);
}

typedef void (*softmax_fn)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride);

static void try_softmax(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("softmax bits");
    static double x[LONG], y[LONG], again[LONG], wide_x[LONG * MOST_STRIDE], wide_y[LONG * 2];
    const softmax_fn fns[] = {table->row[type].softmax, table->row[type].log_softmax};
    random_row(type, LONG, x, &stream);
    for (int i = 0; i < 2 * LENGTHS; i++) {
        int64_t n = lengths[i / 2];
        const char *what = check_text(table, type, i % 2 ? "log_softmax" : "softmax", n, 0, 0);
        fns[i % 2](n, y, 1, x, 1);
        spread(type, n, wide_x, MOST_STRIDE, x, 1);
        fns[i % 2](n, wide_y, 2, wide_x, MOST_STRIDE);
        spread(type, n, again, 1, wide_y, 2);
        same_bits(type, again, y, n, what);
        fns[i % 2](n, wide_x, MOST_STRIDE, wide_x, MOST_STRIDE);
        spread(type, n, again, 1, wide_x, MOST_STRIDE);
        same_bits(type, again, y, n, what);
        memcpy(again, x, sizeof again);
        fns[i % 2](n, again, 1, again, 1);
        same_bits(type, again, y, n, what);
    }
}

static void softmax_does_not_depend_on_strides(void **state)
{
    (void)state;
    check_levels_and_types(try_softmax);
}

/* Rows of which no exponential is near the end of the range are computed in fewer steps. */
static void try_masked(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("masked bits");
    const long double masks[] = {-INFINITY, -1e30L, type == KERNEL_F32 ? -150 : -1000};
    for (int64_t n = 1; n < N; n++) {
        double x[N], y[N], again[N];
        random_row(type, N, x, &stream);
        table->row[type].softmax(n, y, 1, x, 1);
        check_put(type, x, n, masks[n % 3]);
        table->row[type].softmax(n + 1, again, 1, x, 1);
        same_bits(type, again, y, n, check_text(table, type, "softmax", n, 1, 1));
        assert_true(check_get(type, again, n) == 0);
    }
}

static void a_masked_entry_changes_no_bit_of_the_others(void **state)
{
    (void)state;
    check_levels_and_types(try_masked);
}

typedef void (*backward_fn)(int64_t n, void *dx, int64_t dx_stride, const void *y, int64_t y_stride, const void *dy,
                            int64_t dy_stride, bool add);

static void try_backward(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("backward bits");
    static double y[LONG], dy[LONG], dx[LONG], again[LONG], start[LONG];
    static double wide_y[LONG * MOST_STRIDE], wide_dx[LONG * 2];
    const backward_fn fns[] = {table->row[type].softmax_backward, table->row[type].log_softmax_backward};
    random_row(type, LONG, y, &stream);
    random_row(type, LONG, dy, &stream);
    random_row(type, LONG, start, &stream);
    for (int64_t i = 0; i < LONG; i++) /* a logarithm of a probability */
        check_put(type, y, i, -fabsl(check_get(type, y, i)));
    for (int i = 0; i < 4 * LENGTHS; i++) {
        int64_t n = lengths[i / 4];
        bool add = i / 2 % 2;
        const char *what = check_text(table, type, i % 2 ? "log_softmax_backward" : "softmax_backward", n, 0, 0);
        memcpy(dx, start, sizeof dx);
        fns[i % 2](n, dx, 1, y, 1, dy, 1, add);
        spread(type, n, wide_y, MOST_STRIDE, y, 1);
        spread(type, n, wide_dx, 2, start, 1);
        fns[i % 2](n, wide_dx, 2, wide_y, MOST_STRIDE, dy, 1, add);
        spread(type, n, again, 1, wide_dx, 2);
        same_bits(type, again, dx, n, what);
    }
}

static void derivatives_of_softmax_do_not_depend_on_strides(void **state)
{
    (void)state;
    check_levels_and_types(try_backward);
}

/* What lies behind the end of a row is not part of any sum. */
static void try_padding(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("padding");
    double x[N + 64];
    for (int64_t n = 1; n < N; n++) {
        random_row(type, N, x, &stream);
        const kernel_row_fns *row = &table->row[type];
        double sum = row->sum(n, x, 1), largest = row->maximum(n, x, 1), lse = row->logsumexp(n, x, 1);
        for (int64_t i = n; i < N + 64 - 1; i++)
            check_put(type, x, i, i % 2 ? 1e30L : NAN);
        assert_true(row->sum(n, x, 1) == sum && row->maximum(n, x, 1) == largest && row->logsumexp(n, x, 1) == lse);
    }
}

static void what_lies_behind_a_row_does_not_count(void **state)
{
    (void)state;
    check_levels_and_types(try_padding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_elements_bits_do_not_depend_on_its_place),
        cmocka_unit_test(bits_of_two_operands_do_not_depend_on_their_place),
        cmocka_unit_test(sums_of_a_row_do_not_depend_on_its_stride),
        cmocka_unit_test(softmax_does_not_depend_on_strides),
        cmocka_unit_test(a_masked_entry_changes_no_bit_of_the_others),
        cmocka_unit_test(derivatives_of_softmax_do_not_depend_on_strides),
        cmocka_unit_test(what_lies_behind_a_row_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
