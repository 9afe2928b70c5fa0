/* test_kernel_random.c - Philox against its authors' known answers, and numbers that are functions of (seed, stream,
 * index); kernels of integers, booleans and selection. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "guarded.h"
#include "kernels/kernels.h"

/* From the Random123 distribution, kat_vectors: philox4x32 with 10 rounds. */
static void philox_gives_its_authors_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t out[4];
        lab__philox(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].expected, sizeof out);
    }
}

typedef void (*draw)(kernel_type, int64_t, void *, uint64_t, uint64_t, int64_t);

static void a_number_is_a_function_of_seed_stream_and_index(void **state)
{
    (void)state;
    enum { N = 257 };
    static const draw draws[] = {lab__kernel_uniform, lab__kernel_normal};
    for (int kind = 0; kind < 2; kind++)
        for (int type = 0; type < KERNEL_TYPES; type++) {
            size_t size = type == KERNEL_F64 ? 8 : 4;
            double whole[N], piece[N], other[N];
            draws[kind]((kernel_type)type, N, whole, 7, 3, 1000);
            for (int64_t n = 1; n <= 40; n += 3)
                for (int64_t first = 0; first + n <= N; first += 17) {
                    draws[kind]((kernel_type)type, n, piece, 7, 3, 1000 + first);
                    assert_memory_equal(piece, (char *)whole + (size_t)first * size, (size_t)n * size);
                }
            draws[kind]((kernel_type)type, N, other, 8, 3, 1000);
            assert_memory_not_equal(other, whole, 64);
            draws[kind]((kernel_type)type, N, other, 7, 4, 1000);
            assert_memory_not_equal(other, whole, 64);
        }
}

static void moments_are_those_of_the_distributions(void **state)
{
    (void)state;
    enum { N = 200000 };
    static double x[N];
    for (int kind = 0; kind < 2; kind++) {
        double sum = 0, square = 0, fourth = 0, low = INFINITY, high = -INFINITY;
        if (kind)
            lab__kernel_normal(KERNEL_F64, N, x, 5, 0, 0);
        else
            lab__kernel_uniform(KERNEL_F64, N, x, 5, 0, 0);
        double centre = kind ? 0 : 0.5;
        for (int i = 0; i < N; i++) {
            double d = x[i] - centre;
            sum += d;
            square += d * d;
            fourth += d * d * d * d;
            low = fmin(low, x[i]);
            high = fmax(high, x[i]);
        }
        /* Five standard errors; variances 1 and 1/12, fourth moments 3 and 1/80. */
        double variance = kind ? 1 : 1.0 / 12, kurtosis = kind ? 3 : 1.0 / 80;
        assert_true(fabs(sum / N) < 5 * sqrt(variance / N));
        assert_true(fabs(square / N - variance) < 5 * sqrt((kurtosis - variance * variance) / N));
        assert_true(fabs(fourth / N - kurtosis) < 0.05 * kurtosis);
        if (kind == 0)
            assert_true(low >= 0 && high < 1 && low < 1e-4 && high > 1 - 1e-4);
        else
            assert_true(isfinite(low) && isfinite(high) && high > 4 && low < -4);
    }
}

static void integers_wrap_and_compare(void **state)
{
    (void)state;
    const int64_t a[] = {5, INT64_MAX, INT64_MIN, -3, 0}, b[] = {7, 1, -1, -3, INT64_MIN};
    int64_t y[5];
    uint8_t truth[5];
    lab__kernel_binary_i64(KERNEL_ADD)(5, y, 1, a, 1, b, 1);
    assert_true(y[0] == 12 && y[1] == INT64_MIN && y[2] == INT64_MAX && y[3] == -6);
    lab__kernel_binary_i64(KERNEL_MUL)(5, y, 1, a, 1, b, 1);
    assert_true(y[0] == 35 && y[2] == INT64_MIN && y[3] == 9);
    lab__kernel_binary_i64(KERNEL_SUB)(5, y, 1, a, 1, b, 0);
    assert_true(y[0] == -2 && y[2] == INT64_MAX - 6);
    lab__kernel_binary_i64(KERNEL_MAXIMUM)(5, y, 1, a, 1, b, 1);
    assert_true(y[0] == 7 && y[1] == INT64_MAX && y[4] == 0);
    lab__kernel_binary_i64(KERNEL_MINIMUM)(5, y, 1, a, 1, b, 1);
    assert_true(y[0] == 5 && y[4] == INT64_MIN);
    assert_null(lab__kernel_binary_i64(KERNEL_DIV));
    lab__kernel_compare_i64(KERNEL_LESS)(5, truth, 1, a, 1, b, 1);
    assert_true(truth[0] == 1 && truth[1] == 0 && truth[2] == 1 && truth[3] == 0 && truth[4] == 0);
    lab__kernel_compare_i64(KERNEL_LESS_EQUAL)(5, truth, 1, a, 1, b, 1);
    assert_true(truth[3] == 1);
    lab__kernel_compare_bool(KERNEL_EQUAL)(3, truth, 1, (uint8_t[]){2, 0, 1}, 1, (uint8_t[]){1, 0, 0}, 1);
    assert_true(truth[0] == 1 && truth[1] == 1 && truth[2] == 0);
}

static void logic_selection_and_copies_of_any_length(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream("bytes");
    for (int64_t n = 0; n < 70; n++)
        for (int64_t stride = 1; stride <= 3; stride += 2) {
            uint8_t a[210], b[210];
            guarded y = guarded_take((size_t)(n ? (n - 1) * stride + 1 : 0), &stream);
            for (int i = 0; i < 210; i++) {
                a[i] = (uint8_t)guarded_below(&stream, 3);
                b[i] = (uint8_t)guarded_below(&stream, 3);
            }
            guarded_remember(&y);
            lab__kernel_logical_and(n, y.data, stride, a, stride, b, 1);
            for (int64_t i = 0; i < n; i++)
                assert_int_equal(y.data[i * stride], a[i * stride] && b[i]);
            lab__kernel_logical_or(n, y.data, stride, a, 1, b, stride);
            for (int64_t i = 0; i < n; i++)
                assert_int_equal(y.data[i * stride], a[i] || b[i * stride]);
            lab__kernel_logical_not(n, y.data, stride, a, 1);
            for (int64_t i = 0; i < n; i++)
                assert_int_equal(y.data[i * stride], !a[i]);
            assert_true(guarded_unchanged(&y, false));
            guarded_free(&y);
            for (int size = 1; size <= 8; size = size == 1 ? 4 : size * 2) {
                unsigned char x[210 * 8], other[210 * 8];
                guarded to = guarded_take((size_t)(n ? (n - 1) * stride + 1 : 0) * (size_t)size, &stream);
                for (size_t i = 0; i < sizeof x; i++) {
                    x[i] = (unsigned char)guarded_next(&stream);
                    other[i] = (unsigned char)guarded_next(&stream);
                }
                guarded_remember(&to);
                lab__kernel_copy(n, size, to.data, stride, x, 2);
                for (int64_t i = 0; i < n; i++)
                    assert_memory_equal(to.data + i * stride * size, x + 2 * i * size, (size_t)size);
                lab__kernel_where(n, size, to.data, stride, a, 1, x, 1, other, 0);
                for (int64_t i = 0; i < n; i++)
                    assert_memory_equal(to.data + i * stride * size, a[i] ? x + i * size : other, (size_t)size);
                assert_true(guarded_unchanged(&to, false));
                guarded_free(&to);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_its_authors_known_answers),
        cmocka_unit_test(a_number_is_a_function_of_seed_stream_and_index),
        cmocka_unit_test(moments_are_those_of_the_distributions),
        cmocka_unit_test(integers_wrap_and_compare),
        cmocka_unit_test(logic_selection_and_copies_of_any_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
