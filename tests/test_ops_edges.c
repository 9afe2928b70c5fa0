/* test_ops_edges.c - ops at the edges of arithmetic: infinities, NaN, ties, whole numbers that overflow.
 *
 * What is not selected leaves no trace: neither its value nor the gradient that comes in for it.
 */
#include "op_run.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A small tensor of f64 values in the dtype given; the values come back with values_of. */
static lab_tensor *tensor_of(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, const double *values)
{
    return lab_cast(g, lab_constant(g, LAB_F64, rank, shape, values), dtype);
}

static void values_of(lab_graph *g, const lab_tensor *t, double *values, int n)
{
    array a;
    if (!t)
        fail_msg("no tensor: %s", lab_graph_message(g));
    array_of(t, &a);
    assert_int_equal(a.numel, n);
    for (int i = 0; i < n; i++)
        values[i] = (double)a.data[i];
    arrays_free();
}

static void expect(const char *what, int i, double got, double expected)
{
    if (!(got == expected || (isnan(got) && isnan(expected))))
        fail_msg("%s[%d] is %.17g, expected %.17g", what, i, got, expected);
}

static void expect_all(lab_graph *g, const char *what, const lab_tensor *t, int n, const double *expected)
{
    double got[64];
    values_of(g, t, got, n);
    for (int i = 0; i < n; i++)
        expect(what, i, got[i], expected[i]);
}

/* d sum(dy * y) / dx, in the form asked for. */
static lab_tensor *gradient(lab_graph *g, lab_tensor *y, lab_tensor *dy, lab_tensor *x, bool recorded)
{
    lab_tensor *dx = NULL;
    if (lab_grad(g, y, dy, 1, &x, &dx, &(lab_grad_opts){.create_graph = recorded}) != LAB_OK)
        fail_msg("%s", lab_graph_message(g));
    return dx;
}

/* ---- Rows of softmax and its kin ----------------------------------------------------------------------------- */

enum { ROWS = 5, COLUMNS = 9 };

/* Row 1 is nothing but -inf, row 2 has a NaN, row 3 a +inf; 0 and 4 are ordinary, 4 with some -inf. */
static void fill_rows(double x[ROWS][COLUMNS])
{
    uint64_t random = test_seed();
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            x[i][j] = i == 1 || (i == 4 && j % 3 == 0) ? -INFINITY : random_between(&random, -5, 5);
    x[2][3] = NAN;
    x[3][7] = INFINITY;
}

typedef lab_tensor *(*row_op)(lab_graph *g, lab_tensor *x, int axis);

static lab_tensor *logsumexp_kept(lab_graph *g, lab_tensor *x, int axis)
{
    return lab_logsumexp(g, x, axis, true);
}

static const struct {
    const char *name;
    row_op apply;
    double of_nothing;  /* a row of -inf gives this */
    double of_infinity; /* a row with +inf */
    bool keeps_size;
} row_ops[] = {{"softmax", lab_softmax, 0, NAN, true},
               {"log_softmax", lab_log_softmax, -INFINITY, NAN, true},
               {"logsumexp", logsumexp_kept, -INFINITY, INFINITY, false}};

/* Row `row` of y as computed from the whole (rows along the last or the first axis) and from the row alone. */
static void check_one_row(lab_graph *g, int which, double x[ROWS][COLUMNS], lab_tensor *y, int row, lab_dtype dtype)
{
    double whole[ROWS * COLUMNS], alone[COLUMNS];
    int n = row_ops[which].keeps_size ? COLUMNS : 1;
    values_of(g, y, whole, ROWS * n);
    values_of(g, row_ops[which].apply(g, tensor_of(g, dtype, 1, (int64_t[]){COLUMNS}, x[row]), 0), alone, n);
    for (int j = 0; j < n; j++) {
        double got = whole[row * n + j], expected = alone[j];
        if (row == 1)
            expected = row_ops[which].of_nothing;
        if (row == 2)
            expected = NAN;
        if (row == 3)
            expected = row_ops[which].of_infinity;
        if (row == 0 || row == 4) { /* the same but for the order of sums */
            if (!(got == expected || fabs(got - expected) <= (dtype == LAB_F32 ? 1e-5 : 1e-14) * fabs(expected)))
                fail_msg("%s: row %d [%d] is %.17g, alone %.17g", row_ops[which].name, row, j, got, expected);
        } else {
            expect(row_ops[which].name, row * n + j, got, expected);
        }
    }
}

static void a_bad_row_spoils_itself_alone(void **state)
{
    (void)state;
    double x[ROWS][COLUMNS];
    fill_rows(x);
    lab_graph *g = lab_graph_create(NULL);
    for (int which = 0; which < 3; which++)
        for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++)
            for (int axis = 0; axis < 2; axis++) {
                lab_tensor *t = tensor_of(g, dtype, 2, (int64_t[]){ROWS, COLUMNS}, x[0]);
                if (axis == 0) /* rows along the first axis, laid out anew */
                    t = lab_cast(g, lab_contiguous(g, lab_transpose(g, t, 0, 1)), dtype);
                lab_tensor *y = row_ops[which].apply(g, t, axis);
                if (axis == 0)
                    y = lab_transpose(g, y, 0, 1);
                for (int row = 0; row < ROWS; row++)
                    check_one_row(g, which, x, y, row, dtype);
            }
    lab_graph_destroy(&g);
}

/* The gradient of a row of -inf is exactly 0, whatever comes in; a masked entry of softmax has gradient 0 too. */
static void a_row_of_minus_infinity_has_gradient_zero(void **state)
{
    (void)state;
    double x[ROWS][COLUMNS], dy[ROWS * COLUMNS], dx[ROWS * COLUMNS];
    fill_rows(x);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        dy[i] = i / COLUMNS == 1 ? NAN : 1 + i % 4;
    lab_graph *g = lab_graph_create(NULL);
    for (int which = 0; which < 3; which += 2)
        for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++)
            for (int recorded = 0; recorded < 2; recorded++) {
                lab_tensor *t = tensor_of(g, dtype, 2, (int64_t[]){ROWS, COLUMNS}, x[0]);
                int64_t shape[] = {ROWS, which == 0 ? COLUMNS : 1};
                double short_dy[ROWS] = {1, NAN, 2, 3, 4};
                lab_tensor *seed = tensor_of(g, dtype, 2, shape, which == 0 ? dy : short_dy);
                values_of(g, gradient(g, row_ops[which].apply(g, t, 1), seed, t, recorded), dx, ROWS * COLUMNS);
                for (int j = 0; j < COLUMNS; j++) {
                    expect(row_ops[which].name, COLUMNS + j, dx[COLUMNS + j], 0);
                    if (!isfinite(dx[j]) || !isfinite(dx[4 * COLUMNS + j]))
                        fail_msg("%s: column %d of a healthy row's gradient is not finite", row_ops[which].name, j);
                    if (!isnan(dx[2 * COLUMNS + j]) || !isnan(dx[3 * COLUMNS + j]))
                        fail_msg("%s: column %d of a bad row's gradient is a number", row_ops[which].name, j);
                    if (j % 3 == 0)
                        expect(row_ops[which].name, 4 * COLUMNS + j, dx[4 * COLUMNS + j], 0);
                }
            }
    lab_graph_destroy(&g);
}

/* Two equal numbers share the gradient of logsumexp, however large: a power of x - y would be off, y being rounded. */
static void large_numbers_share_the_gradient_of_logsumexp(void **state)
{
    (void)state;
    double dx[2];
    lab_graph *g = lab_graph_create(NULL);
    for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++)
        for (int recorded = 0; recorded < 2; recorded++) {
            double large = dtype == LAB_F32 ? 1e7 : 1e15, x[] = {large, large};
            lab_tensor *t = tensor_of(g, dtype, 1, (int64_t[]){2}, x);
            values_of(g, gradient(g, lab_logsumexp(g, t, 0, false), NULL, t, recorded), dx, 2);
            expect("logsumexp: dx", 0, dx[0], 0.5);
            expect("logsumexp: dx", 1, dx[1], 0.5);
        }
    lab_graph_destroy(&g);
}

/* A NaN that comes in for a masked entry of softmax leaves no trace; one for another entry spares the masked one. */
static void a_masked_entry_of_softmax_takes_no_gradient(void **state)
{
    (void)state;
    const double x[] = {1, -INFINITY, 2}, dy[] = {1, NAN, 3}, plain_dy[] = {1, 0, 3}, other_dy[] = {NAN, 1, 3};
    double dx[3], plain[3];
    lab_graph *g = lab_graph_create(NULL);
    for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++)
        for (int recorded = 0; recorded < 2; recorded++) {
            lab_tensor *t = tensor_of(g, dtype, 1, (int64_t[]){3}, x), *y = lab_softmax(g, t, 0);
            const int64_t shape[] = {3};
            values_of(g, gradient(g, y, tensor_of(g, dtype, 1, shape, dy), t, recorded), dx, 3);
            values_of(g, gradient(g, y, tensor_of(g, dtype, 1, shape, plain_dy), t, recorded), plain, 3);
            for (int i = 0; i < 3; i++)
                expect("softmax: dx", i, dx[i], plain[i]);
            expect("softmax: dx", 1, dx[1], 0);
            values_of(g, gradient(g, y, tensor_of(g, dtype, 1, shape, other_dy), t, recorded), dx, 3);
            expect("softmax: dx beside a NaN", 1, dx[1], 0);
        }
    lab_graph_destroy(&g);
}

/* ---- Selection ---------------------------------------------------------------------------------------------- */

/* dx for an incoming gradient dy, in both forms; n entries. */
static void check_selection(lab_graph *g, const char *what, lab_tensor *y, lab_tensor *x, const double *dy,
                            const double *expected, int n)
{
    array shape;
    array_of(y, &shape);
    for (int recorded = 0; recorded < 2; recorded++) {
        lab_tensor *seed = tensor_of(g, lab_tensor_dtype(y), shape.rank, shape.shape, dy);

        expect_all(g, what, gradient(g, y, seed, x, recorded), n, expected);
    }
    arrays_free();
}

static void what_is_not_selected_leaves_no_trace(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    const int64_t four[] = {4};
    const double nan_first[] = {NAN, 2, NAN, 4}, nan_last[] = {1, NAN, 3, NAN};
    for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
        lab_tensor *first = lab_constant(g, LAB_BOOL, 1, four, (uint8_t[]){1, 0, 1, 0});
        lab_tensor *a = tensor_of(g, dtype, 1, four, (double[]){5, -1, 7, -2});
        lab_tensor *b = tensor_of(g, dtype, 1, four, (double[]){1, 1, -1, 3});
        lab_tensor *y = lab_where(g, first, a, b);
        check_selection(g, "where: da", y, a, nan_last, (double[]){1, 0, 3, 0}, 4);
        check_selection(g, "where: db", y, b, nan_first, (double[]){0, 2, 0, 4}, 4);
        y = lab_maximum(g, a, b);
        check_selection(g, "maximum: da", y, a, nan_last, (double[]){1, 0, 3, 0}, 4);
        check_selection(g, "maximum: db", y, b, nan_first, (double[]){0, 2, 0, 4}, 4);
        y = lab_minimum(g, b, a);
        check_selection(g, "minimum: da", y, a, nan_first, (double[]){0, 2, 0, 4}, 4);
        check_selection(g, "minimum: db", y, b, nan_last, (double[]){1, 0, 3, 0}, 4);
        check_selection(g, "relu: dx", lab_relu(g, a), a, nan_last, (double[]){1, 0, 3, 0}, 4);
        y = lab_max(g, lab_reshape(g, a, 2, (int64_t[]){2, 2}), 1, false);
        check_selection(g, "max: dx", y, a, (double[]){NAN, 3}, (double[]){NAN, 0, 3, 0}, 4);
        y = lab_where(g, first, a, lab_log(g, tensor_of(g, dtype, 1, four, (double[]){-1, 1, 0, 1})));
        expect_all(g, "where beside NaN and -inf", y, 4, (double[]){5, 0, 7, 0});
    }
    lab_graph_destroy(&g);
}

static void ties_go_to_the_first(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    const int64_t three[] = {3};
    for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
        lab_tensor *a = tensor_of(g, dtype, 1, three, (double[]){1, 2, 0});
        lab_tensor *b = tensor_of(g, dtype, 1, three, (double[]){1, 1, 0});
        const double dy[] = {3, 4, 5};
        check_selection(g, "maximum: da", lab_maximum(g, a, b), a, dy, (double[]){3, 4, 5}, 3);
        check_selection(g, "maximum: db", lab_maximum(g, a, b), b, dy, (double[]){0, 0, 0}, 3);
        check_selection(g, "minimum: da", lab_minimum(g, a, b), a, dy, (double[]){3, 0, 5}, 3);
        check_selection(g, "relu at 0", lab_relu(g, b), b, dy, (double[]){3, 4, 0}, 3);
        check_selection(g, "abs at 0", lab_abs(g, b), b, dy, (double[]){3, 4, 0}, 3);
        check_selection(g, "max", lab_max(g, b, 0, false), b, (double[]){7}, (double[]){7, 0, 0}, 3);
        expect_all(g, "argmax", lab_argmax(g, b, 0, false), 1, (double[]){0});
    }
    lab_graph_destroy(&g);
}

static void powers_have_their_derivatives_at_0(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
        lab_tensor *x = tensor_of(g, dtype, 1, (int64_t[]){3}, (double[]){0, 2, -2});
        const double dy[] = {1, 1, 1};
        expect_all(g, "x^0", lab_pow_scalar(g, x, 0), 3, (double[]){1, 1, 1});
        check_selection(g, "d x^0", lab_pow_scalar(g, x, 0), x, dy, (double[]){0, 0, 0}, 3);
        check_selection(g, "d x^1", lab_pow_scalar(g, x, 1), x, dy, (double[]){1, 1, 1}, 3);
        check_selection(g, "d x^2", lab_pow_scalar(g, x, 2), x, dy, (double[]){0, 4, -4}, 3);
        check_selection(g, "d x^3", lab_pow_scalar(g, x, 3), x, dy, (double[]){0, 12, 12}, 3);
        expect_all(g, "x^0.5", lab_pow_scalar(g, x, 0.5), 3,
                   (double[]){0, dtype == LAB_F32 ? (double)sqrtf(2) : sqrt(2), NAN});
    }
    lab_graph_destroy(&g);
}

/* ---- NaN, infinities, whole numbers -------------------------------------------------------------------------- */

static void nan_and_infinity_mean_something(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    const int64_t four[] = {4}, two_by_two[] = {2, 2};
    for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
        lab_tensor *x = tensor_of(g, dtype, 1, four, (double[]){-1, 0, INFINITY, NAN});
        lab_tensor *one = tensor_of(g, dtype, 0, NULL, (double[]){1});
        expect_all(g, "log", lab_log(g, x), 4, (double[]){NAN, -INFINITY, INFINITY, NAN});
        expect_all(g, "sqrt", lab_sqrt(g, x), 4, (double[]){NAN, 0, INFINITY, NAN});
        expect_all(g, "rsqrt", lab_rsqrt(g, x), 4, (double[]){NAN, INFINITY, 0, NAN});
        expect_all(g, "maximum", lab_maximum(g, x, one), 4, (double[]){1, 1, INFINITY, NAN});
        expect_all(g, "maximum", lab_maximum(g, one, x), 4, (double[]){1, 1, INFINITY, NAN});
        expect_all(g, "minimum", lab_minimum(g, x, one), 4, (double[]){-1, 0, 1, NAN});
        expect_all(g, "equal", lab_equal(g, x, x), 4, (double[]){1, 1, 1, 0});
        expect_all(g, "less", lab_less(g, x, one), 4, (double[]){1, 1, 0, 0});
        expect_all(g, "less_equal", lab_less_equal(g, x, x), 4, (double[]){1, 1, 1, 0});
        expect_all(g, "relu", lab_relu(g, x), 4, (double[]){0, 0, INFINITY, NAN});
        expect_all(g, "exp", lab_exp(g, lab_mul_scalar(g, x, -1e30)), 4, (double[]){INFINITY, 1, 0, NAN});
        expect_all(g, "max", lab_max(g, lab_reshape(g, x, 2, two_by_two), 1, false), 2, (double[]){0, NAN});
        expect_all(g, "argmax", lab_argmax(g, lab_reshape(g, x, 2, two_by_two), 1, false), 2, (double[]){1, 1});
        expect_all(g, "argmax of -inf", lab_argmax(g, lab_full(g, dtype, 1, four, -INFINITY), 0, false), 1,
                   (double[]){0});
        expect_all(g, "cast to bool", lab_cast(g, x, LAB_BOOL), 4, (double[]){1, 0, 1, 1});
    }
    lab_graph_destroy(&g);
}

static void check_whole(lab_graph *g, const char *what, const lab_tensor *t, int n, const int64_t *expected)
{
    int64_t got[8];
    if (!t || lab_tensor_read(t, got, (size_t)n * sizeof *got) != LAB_OK)
        fail_msg("%s: %s", what, lab_graph_message(g));
    for (int i = 0; i < n; i++)
        if (got[i] != expected[i])
            fail_msg("%s[%d] is %lld, expected %lld", what, i, (long long)got[i], (long long)expected[i]);
}

static void floats_that_fit_no_whole_number_go_to_the_nearest(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    const double values[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 2.9, -2.9, 0x1p62};
    const int64_t expected[] = {0, INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN, 2, -2, (int64_t)1 << 62};
    for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++)
        check_whole(g, "cast", lab_cast(g, tensor_of(g, dtype, 1, (int64_t[]){8}, values), LAB_I64), 8, expected);
    lab_graph_destroy(&g);
}

static void whole_numbers_wrap(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    const int64_t two[] = {2}, ends[] = {INT64_MAX, INT64_MIN};
    lab_tensor *x = lab_constant(g, LAB_I64, 1, two, ends);
    lab_tensor *minus_one = lab_full(g, LAB_I64, 0, NULL, -1), *one = lab_full(g, LAB_I64, 0, NULL, 1);
    check_whole(g, "add", lab_add(g, x, one), 2, (int64_t[]){INT64_MIN, INT64_MIN + 1});
    check_whole(g, "sub", lab_sub(g, x, one), 2, (int64_t[]){INT64_MAX - 1, INT64_MAX});
    check_whole(g, "mul", lab_mul(g, x, minus_one), 2, (int64_t[]){-INT64_MAX, INT64_MIN});
    check_whole(g, "neg", lab_neg(g, x), 2, (int64_t[]){-INT64_MAX, INT64_MIN});
    check_whole(g, "abs", lab_abs(g, x), 2, (int64_t[]){INT64_MAX, INT64_MIN});
    check_whole(g, "add_scalar", lab_add_scalar(g, x, 1), 2, (int64_t[]){INT64_MIN, INT64_MIN + 1});
    check_whole(g, "mul_scalar", lab_mul_scalar(g, x, 2), 2, (int64_t[]){-2, 0});
    check_whole(g, "sum", lab_sum_all(g, lab_concat(g, 2, (lab_tensor *[]){x, x}, 0)), 1, (int64_t[]){-2});
    check_whole(g, "max", lab_max(g, x, 0, false), 1, ends);
    check_whole(g, "maximum", lab_maximum(g, x, one), 2, (int64_t[]){INT64_MAX, 1});
    lab_graph_destroy(&g);
}

static void any_byte_but_0_is_true(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    const int64_t four[] = {4};
    lab_tensor *a = lab_constant(g, LAB_BOOL, 1, four, (uint8_t[]){0, 1, 2, 255});
    lab_tensor *yes = lab_full(g, LAB_BOOL, 0, NULL, 1), *no = lab_full(g, LAB_BOOL, 0, NULL, 0);
    lab_tensor *one = lab_full(g, LAB_F32, 0, NULL, 1), *zero = lab_full(g, LAB_F32, 0, NULL, 0);
    const double expected[] = {0, 1, 1, 1};
    expect_all(g, "equal", lab_equal(g, a, yes), 4, expected);
    expect_all(g, "logical_and", lab_logical_and(g, a, yes), 4, expected);
    expect_all(g, "logical_or", lab_logical_or(g, a, no), 4, expected);
    expect_all(g, "logical_not", lab_logical_not(g, a), 4, (double[]){1, 0, 0, 0});
    expect_all(g, "where", lab_where(g, a, one, zero), 4, expected);
    expect_all(g, "cast to f32", lab_cast(g, a, LAB_F32), 4, expected);
    expect_all(g, "cast to f64", lab_cast(g, a, LAB_F64), 4, expected);
    expect_all(g, "cast to i64", lab_cast(g, a, LAB_I64), 4, expected);
    lab_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_row_spoils_itself_alone),
        cmocka_unit_test(a_row_of_minus_infinity_has_gradient_zero),
        cmocka_unit_test(large_numbers_share_the_gradient_of_logsumexp),
        cmocka_unit_test(a_masked_entry_of_softmax_takes_no_gradient),
        cmocka_unit_test(what_is_not_selected_leaves_no_trace),
        cmocka_unit_test(ties_go_to_the_first),
        cmocka_unit_test(powers_have_their_derivatives_at_0),
        cmocka_unit_test(nan_and_infinity_mean_something),
        cmocka_unit_test(floats_that_fit_no_whole_number_go_to_the_nearest),
        cmocka_unit_test(whole_numbers_wrap),
        cmocka_unit_test(any_byte_but_0_is_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
