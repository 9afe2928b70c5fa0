/* test_kernel_rows.c - every level this processor has, every row kernel, both precisions, awkward lengths and strides,
 * against scalar references in long double; what lies beside and between must survive.
 *
 * A level that this processor lacks is named as skipped; if none could run, the exit code is 77.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "guarded.h"
#include "kernels/kernels.h"

enum { MOST = 131 };
static const int64_t lengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67, MOST};
static const int64_t strides[][2] = {{1, 1}, {1, 0}, {1, 2}, {3, 1}, {2, 5}}; /* of the result, of the operands */

#define FOR_LEVELS(table)                                                                                              \
    for (int level_ = 0, end_ = 0; !end_; level_++)                                                                    \
        for (const kernel_table *table = next_level(level_, &end_); table; table = NULL)

static const kernel_table *next_level(int i, int *end)
{
    bool past = false;
    const kernel_table *table = lab__kernels_level(i, &past);
    *end = past;
    if (!table && !past)
        print_message("             level %d of this build is not on this processor: skipped\n", i);
    return past ? NULL : table;
}

static double value_at(kernel_type type, const void *data, int64_t i)
{
    return type == KERNEL_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void set_value(kernel_type type, void *data, int64_t i, double value)
{
    if (type == KERNEL_F64)
        ((double *)data)[i] = value;
    else
        ((float *)data)[i] = (float)value;
}

static size_t size_of(kernel_type type)
{
    return type == KERNEL_F64 ? sizeof(double) : sizeof(float);
}

/* |got - expected| in units of the last place of `expected` in the type. */
static double ulps(kernel_type type, double got, long double expected)
{
    if (isnan(expected) || isnan(got))
        return isnan(expected) && isnan(got) ? 0 : INFINITY;
    long double largest = type == KERNEL_F64 ? 0x1p1024L : 0x1p128L;
    if (fabsl(expected) >= largest * (1 - ldexpl(1, type == KERNEL_F64 ? -54 : -25)))
        return isinf(got) && (got > 0) == (expected > 0) ? 0 : INFINITY;
    if (isinf(got))
        return INFINITY;
    int exponent;
    frexpl(expected, &exponent);
    int digits = type == KERNEL_F64 ? 53 : 24, lowest = type == KERNEL_F64 ? -1074 : -149;
    int last = exponent - digits > lowest ? exponent - digits : lowest;
    return (double)(fabsl(got - expected) / ldexpl(1, last));
}

/* ---- One operand -------------------------------------------------------------------------------------------------------- */

static const long double pi = 3.14159265358979323846264338327950288L;

static long double unary_reference(kernel_unary op, long double x, long double p)
{
    switch (op) {
    case KERNEL_COPY:
        return x;
    case KERNEL_NEG:
        return -x;
    case KERNEL_ADD_SCALAR:
        return x + p;
    case KERNEL_MUL_SCALAR:
        return x * p;
    case KERNEL_POW_SCALAR:
        return powl(x, p);
    case KERNEL_EXP:
        return expl(x);
    case KERNEL_LOG:
        return logl(x);
    case KERNEL_SQRT:
        return sqrtl(x);
    case KERNEL_RSQRT:
        return 1 / sqrtl(x);
    case KERNEL_TANH:
        return tanhl(x);
    case KERNEL_SIGMOID:
        return 1 / (1 + expl(-x));
    case KERNEL_ERF:
        return erfl(x);
    case KERNEL_RELU:
        return x > 0 ? x : 0;
    case KERNEL_GELU_ERF:
        return x * erfcl(-x / sqrtl(2)) / 2;
    case KERNEL_GELU_TANH: {
        long double u = sqrtl(2 / pi) * (x + 0.044715L * x * x * x);
        return x / (1 + expl(-2 * u));
    }
    case KERNEL_SILU:
        return x / (1 + expl(-x));
    case KERNEL_ABS:
        return fabsl(x);
    case KERNEL_SIN:
        return sinl(x);
    case KERNEL_COS:
        return cosl(x);
    case KERNEL_UNARY_COUNT:
        break;
    }
    return NAN;
}

/* How far a kernel may be from the reference. GELU near its far tail loses what its argument's rounding costs. */
static double unary_bound(kernel_unary op)
{
    switch (op) {
    case KERNEL_COPY:
    case KERNEL_NEG:
    case KERNEL_RELU:
    case KERNEL_ABS:
        return 0;
    case KERNEL_ADD_SCALAR:
    case KERNEL_MUL_SCALAR:
    case KERNEL_SQRT:
        return 0.501;
    case KERNEL_EXP:
        return 1.1;
    case KERNEL_GELU_ERF:
    case KERNEL_GELU_TANH:
        return 16;
    default:
        return 4;
    }
}

static double unary_operand(kernel_unary op, uint64_t *stream)
{
    double x = guarded_uniform(stream);
    switch (op) {
    case KERNEL_POW_SCALAR:
    case KERNEL_LOG:
    case KERNEL_SQRT:
    case KERNEL_RSQRT:
        return 3 * fabs(x) + 0.01;
    case KERNEL_EXP:
        return 80 * x;
    case KERNEL_TANH:
    case KERNEL_SIGMOID:
    case KERNEL_ERF:
        return 6 * x * x * x;
    default:
        return 3 * x;
    }
}

/* Runs one kernel on one length and one pair of strides: values, and what lies beside and between. */
static void check_unary(const kernel_table *table, kernel_type type, kernel_unary op, int64_t n, const int64_t *stride,
                        uint64_t *stream)
{
    const float parameter = 1.25f;
    guarded x = guarded_take((size_t)(n ? (n - 1) * stride[1] + 1 : 0) * size_of(type), stream);
    guarded y = guarded_take((size_t)(n ? (n - 1) * stride[0] + 1 : 0) * size_of(type), stream);
    for (int64_t i = 0; i < (int64_t)(x.bytes / size_of(type)); i++)
        set_value(type, x.data, i, unary_operand(op, stream));
    guarded_remember(&x);
    guarded_remember(&y);
    table->unary[type][op](n, y.data, stride[0], x.data, stride[1], parameter);
    assert_true(guarded_unchanged(&x, true));
    assert_true(guarded_unchanged(&y, false));
    for (int64_t i = 0; i < n; i++) {
        double operand = value_at(type, x.data, i * stride[1]), got = value_at(type, y.data, i * stride[0]);
        long double expected = unary_reference(op, operand, parameter);
        if (!(ulps(type, got, expected) <= unary_bound(op)))
            fail_msg("seed %llu: %s, type %d, unary %d, n %lld, strides %lld %lld: [%lld] f(%.17g) is %.17g, expected "
                     "%.17Lg (%.2f ulp)",
                     (unsigned long long)guarded_seed(), table->level, type, op, (long long)n, (long long)stride[0],
                     (long long)stride[1], (long long)i, operand, got, expected, ulps(type, got, expected));
    }
    for (int64_t i = 0; i < (int64_t)(y.bytes / size_of(type)); i++)
        if (i % stride[0] != 0 && memcmp(y.data + i * (int64_t)size_of(type),
                                         guarded_remembered(&y) + i * (int64_t)size_of(type), size_of(type)) != 0)
            fail_msg("%s, type %d, unary %d: wrote between its elements", table->level, type, op);
    guarded_free(&x);
    guarded_free(&y);
}

static int levels_run;

static void unary_kernels_agree_with_scalar_references(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream("unary");
    FOR_LEVELS(table)
    {
        levels_run++;
        for (int type = 0; type < KERNEL_TYPES; type++)
            for (int op = 0; op < KERNEL_UNARY_COUNT; op++)
                for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
                    for (size_t s = 0; s < sizeof strides / sizeof strides[0]; s++)
                        check_unary(table, (kernel_type)type, (kernel_unary)op, lengths[l], strides[s], &stream);
    }
}

static void an_elements_bits_do_not_depend_on_its_place(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream("place");
    FOR_LEVELS(table)
    for (int type = 0; type < KERNEL_TYPES; type++)
        for (int op = 0; op < KERNEL_UNARY_COUNT; op++) {
            double x[MOST], row[MOST], alone[1], wide[3 * MOST];
            size_t size = size_of((kernel_type)type);
            for (int i = 0; i < MOST; i++)
                set_value((kernel_type)type, x, i, unary_operand((kernel_unary)op, &stream));
            table->unary[type][op](MOST, row, 1, x, 1, 0.75);
            table->unary[type][op](MOST, wide, 3, x, 1, 0.75);
            for (int64_t i = 0; i < MOST; i++) {
                table->unary[type][op](1, alone, 1, (char *)x + (size_t)i * size, 1, 0.75);
                if (memcmp(alone, (char *)row + (size_t)i * size, size) != 0 ||
                    memcmp(alone, (char *)wide + (size_t)(3 * i) * size, size) != 0)
                    fail_msg("%s, type %d, unary %d: element %lld of %d has other bits than alone", table->level, type,
                             op, (long long)i, MOST);
            }
        }
}

/* ---- exp, over its whole range -------------------------------------------------------------------------------------------- */

static void exp_is_right_to_1_1_ulp_over_its_whole_range(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream("exp");
    FOR_LEVELS(table)
    for (int type = 0; type < KERNEL_TYPES; type++) {
        enum { AT_ONCE = 1024, ROUNDS = 150 };
        double worst = 0, x[AT_ONCE], y[AT_ONCE], low = type == KERNEL_F64 ? -746 : -104.5,
               high = type == KERNEL_F64 ? 710 : 89;
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < AT_ONCE; i++) {
                double u = (guarded_uniform(&stream) + 1) / 2;
                set_value((kernel_type)type, x, i, round % 3 ? low + (high - low) * u : 2 * u - 1);
            }
            table->unary[type][KERNEL_EXP](AT_ONCE, y, 1, x, 1, 0);
            for (int64_t i = 0; i < AT_ONCE; i++) {
                double operand = value_at((kernel_type)type, x, i), got = value_at((kernel_type)type, y, i);
                double error = ulps((kernel_type)type, got, expl(operand));
                if (!(error <= 1.1))
                    fail_msg("%s, type %d: exp(%.17g) is %.17g, %.3f ulp off", table->level, type, operand, got, error);
                worst = error > worst ? error : worst;
            }
        }
        print_message("             %s, %s: exp to %.3f ulp\n", table->level, type ? "f64" : "f32", worst);
        const double edges[][2] = {{-INFINITY, 0}, {-1e30, 0},       {INFINITY, INFINITY},
                                   {NAN, NAN},     {1e30, INFINITY}, {0, 1}};
        for (size_t e = 0; e < sizeof edges / sizeof edges[0]; e++) {
            set_value((kernel_type)type, x, 0, edges[e][0]);
            table->unary[type][KERNEL_EXP](1, y, 1, x, 1, 0);
            double got = value_at((kernel_type)type, y, 0);
            assert_true(got == edges[e][1] || (isnan(got) && isnan(edges[e][1])));
        }
    }
}

/* ---- Two operands ------------------------------------------------------------------------------------------------------------ */

static long double binary_reference(int op, long double a, long double b)
{
    switch (op) {
    case KERNEL_ADD:
        return a + b;
    case KERNEL_SUB:
        return a - b;
    case KERNEL_MUL:
        return a * b;
    case KERNEL_DIV:
        return a / b;
    case KERNEL_MAXIMUM:
        return isnan(a) || isnan(b) ? NAN : fmaxl(a, b);
    case KERNEL_MINIMUM:
        return isnan(a) || isnan(b) ? NAN : fminl(a, b);
    }
    return NAN;
}

static void binary_and_comparing_kernels_agree_with_scalar_references(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream("binary");
    FOR_LEVELS(table)
    for (int type = 0; type < KERNEL_TYPES; type++)
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
            for (size_t s = 0; s < sizeof strides / sizeof strides[0]; s++) {
                int64_t n = lengths[l], out = strides[s][0], in = strides[s][1];
                double a[5 * MOST], b[5 * MOST];
                guarded y = guarded_take((size_t)(n ? (n - 1) * out + 1 : 0) * size_of((kernel_type)type), &stream);
                guarded truth = guarded_take((size_t)(n ? (n - 1) * out + 1 : 0), &stream);
                for (int64_t i = 0; i < 5 * MOST; i++) {
                    double odd = i % 11 == 5 ? NAN : i % 13 == 7 ? INFINITY : guarded_uniform(&stream);
                    set_value((kernel_type)type, a, i, odd);
                    set_value((kernel_type)type, b, i, i % 5 == 1 ? odd : guarded_uniform(&stream));
                }
                guarded_remember(&y);
                guarded_remember(&truth);
                for (int op = 0; op < KERNEL_BINARY_COUNT; op++) {
                    table->binary[type][op](n, y.data, out, a, in, b, in ? 1 : 0);
                    assert_true(guarded_unchanged(&y, false));
                    for (int64_t i = 0; i < n; i++) {
                        long double expected = binary_reference(op, value_at((kernel_type)type, a, i * in),
                                                                value_at((kernel_type)type, b, in ? i : 0));
                        double got = value_at((kernel_type)type, y.data, i * out);
                        if (!(ulps((kernel_type)type, got, expected) <= 0.501))
                            fail_msg("%s, type %d, binary %d, [%lld] is %g, expected %Lg", table->level, type, op,
                                     (long long)i, got, expected);
                    }
                }
                for (int op = 0; op < KERNEL_COMPARE_COUNT; op++) {
                    table->compare[type][op](n, truth.data, out, a, in, b, in ? 1 : 0);
                    assert_true(guarded_unchanged(&truth, false));
                    for (int64_t i = 0; i < n; i++) {
                        double p = value_at((kernel_type)type, a, i * in),
                               q = value_at((kernel_type)type, b, in ? i : 0);
                        bool expected = op == KERNEL_EQUAL ? p == q : op == KERNEL_LESS ? p < q : p <= q;
                        assert_int_equal(truth.data[i * out], expected);
                    }
                }
                guarded_free(&y);
                guarded_free(&truth);
            }
}

/* ---- Rows ----------------------------------------------------------------------------------------------------------------------- */

static void near(const kernel_table *table, int type, const char *what, int64_t n, double got, long double expected,
                 long double size)
{
    long double tolerance = size * (type == KERNEL_F64 ? 1e-14L : 4e-6L);
    if (!(fabsl(got - expected) <= tolerance) && !(isnan(got) && isnan(expected)) && !(got == (double)expected))
        fail_msg("%s, type %d, %s of %lld: %.17g, expected %.17Lg", table->level, type, what, (long long)n, got,
                 expected);
}

static void check_rows(const kernel_table *table, kernel_type type, int64_t n, int64_t stride, uint64_t *stream)
{
    const kernel_row_fns *row = &table->row[type];
    double x[3 * MOST], dy[3 * MOST];
    for (int64_t i = 0; i < 3 * MOST; i++) {
        set_value(type, x, i, 4 * guarded_uniform(stream));
        set_value(type, dy, i, guarded_uniform(stream));
    }
    long double sum = 0, dot = 0, magnitude = 0, largest = -INFINITY, exponentials = 0, weighted = 0, dy_sum = 0;
    for (int64_t i = 0; i < n; i++) {
        long double a = value_at(type, x, i * stride);
        sum += a;
        magnitude += fabsl(a);
        dot += a * value_at(type, dy, i);
        largest = fmaxl(largest, a);
        dy_sum += value_at(type, dy, i);
    }
    for (int64_t i = 0; i < n; i++)
        exponentials += expl(value_at(type, x, i * stride) - largest);
    for (int64_t i = 0; i < n; i++)
        weighted += expl(value_at(type, x, i * stride) - largest) / exponentials * value_at(type, dy, i);
    near(table, type, "sum", n, row->sum(n, x, stride), sum, magnitude);
    near(table, type, "dot", n, row->dot(n, x, stride, dy, 1), dot, magnitude);
    assert_true(row->maximum(n, x, stride) == (double)largest);
    long double lse = n ? largest + logl(exponentials) : -INFINITY;
    near(table, type, "logsumexp", n, row->logsumexp(n, x, stride), lse, 8);
    guarded y = guarded_take((size_t)(n ? (n - 1) * stride + 1 : 0) * size_of(type), stream);
    guarded logs = guarded_take(y.bytes, stream), dx = guarded_take(y.bytes, stream);
    row->softmax(n, y.data, stride, x, stride);
    row->log_softmax(n, logs.data, stride, x, stride);
    for (int round = 0; round < 4; round++) {
        bool add = round % 2;
        for (int64_t i = 0; i < n; i++)
            set_value(type, dx.data, i * stride, 0.5);
        if (round < 2)
            row->softmax_backward(n, dx.data, stride, y.data, stride, dy, 1, add);
        else
            row->log_softmax_backward(n, dx.data, stride, logs.data, stride, dy, 1, add);
        for (int64_t i = 0; i < n; i++) {
            long double p = expl(value_at(type, x, i * stride) - lse), d = value_at(type, dy, i);
            long double expected = (add ? 0.5L : 0) + (round < 2 ? p * (d - weighted) : d - p * dy_sum);
            near(table, type, "p", n, value_at(type, y.data, i * stride), p, 1);
            near(table, type, "ln p", n, value_at(type, logs.data, i * stride), value_at(type, x, i * stride) - lse,
                 12);
            near(table, type, "derivative", n, value_at(type, dx.data, i * stride), expected, 1 + fabsl(dy_sum));
        }
    }
    guarded_free(&y);
    guarded_free(&logs);
    guarded_free(&dx);
}

static void row_kernels_agree_with_scalar_references(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream("rows");
    FOR_LEVELS(table)
    for (int type = 0; type < KERNEL_TYPES; type++)
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
            for (int64_t stride = 1; stride <= 3; stride++)
                check_rows(table, (kernel_type)type, lengths[l], stride, &stream);
}

static void softmax_of_rows_at_the_edges(void **state)
{
    (void)state;
    FOR_LEVELS(table)
    for (int type = 0; type < KERNEL_TYPES; type++)
        for (int64_t n = 1; n <= 37; n++)
            for (int64_t odd = 0; odd < n; odd++) {
                const kernel_row_fns *row = &table->row[type];
                double x[37], y[37], dx[37], dy[37];
                for (int kind = 0; kind < 3; kind++) { /* -inf throughout; a NaN; a +inf */
                    for (int64_t i = 0; i < n; i++) {
                        set_value((kernel_type)type, x, i, kind == 0 ? -INFINITY : 1e4 * (double)(i % 3));
                        set_value((kernel_type)type, dy, i, NAN);
                    }
                    if (kind)
                        set_value((kernel_type)type, x, odd, kind == 1 ? NAN : INFINITY);
                    row->softmax(n, y, 1, x, 1);
                    for (int64_t i = 0; i < n; i++) {
                        double p = value_at((kernel_type)type, y, i);
                        assert_true(kind ? isnan(p) : p == 0);
                    }
                    double lse = row->logsumexp(n, x, 1);
                    assert_true(kind ? isnan(lse) : lse == -INFINITY);
                    if (kind == 0) { /* where p is 0, the derivative is, whatever dy is */
                        row->softmax_backward(n, dx, 1, y, 1, dy, 1, false);
                        for (int64_t i = 0; i < n; i++)
                            assert_true(value_at((kernel_type)type, dx, i) == 0);
                    }
                }
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_kernels_agree_with_scalar_references),
        cmocka_unit_test(an_elements_bits_do_not_depend_on_its_place),
        cmocka_unit_test(exp_is_right_to_1_1_ulp_over_its_whole_range),
        cmocka_unit_test(binary_and_comparing_kernels_agree_with_scalar_references),
        cmocka_unit_test(row_kernels_agree_with_scalar_references),
        cmocka_unit_test(softmax_of_rows_at_the_edges),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL) != 0;
    return levels_run == 0 ? 77 : failed;
}
