/* test_kernels_random.c - Philox against its authors' known answers; uniform and normal numbers as functions of seed,
 * stream and index.
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

/* From the file kat_vectors of the Random123 distribution. */
static void philox_gives_its_authors_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        lab__philox(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].answer, sizeof out);
    }
}

/* Words 0 to 3 of the block in which `index` of this type is. */
static void words_of(kernel_type type, uint64_t seed, uint64_t stream, int64_t index, uint32_t out[4])
{
    uint64_t block = (uint64_t)index / (type == KERNEL_F32 ? 4 : 2);
    lab__philox((uint32_t[]){(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)},
                (uint32_t[]){(uint32_t)seed, (uint32_t)(seed >> 32)}, out);
}

static long double uniform_of(kernel_type type, uint64_t seed, uint64_t stream, int64_t index)
{
    uint32_t words[4];
    words_of(type, seed, stream, index, words);
    if (type == KERNEL_F32)
        return ldexpl(words[index % 4] >> 8, -24);
    const uint32_t *pair = words + 2 * (index % 2);
    return ldexpl((long double)(((uint64_t)pair[1] << 32 | pair[0]) >> 11), -53);
}

/* sin(2 pi x), 0 <= x < 1.25; near a zero, the distance from it is exact. */
static long double sine_of_turns(long double x)
{
    if (x >= 1)
        return sine_of_turns(x - 1);
    if (x > 0.5L)
        return -sine_of_turns(x - 0.5L);
    return sinl(2 * acosl(-1) * (x > 0.25L ? 0.5L - x : x));
}

static long double normal_of(kernel_type type, uint64_t seed, uint64_t stream, int64_t index)
{
    long double u = uniform_of(type, seed, stream, index - index % 2);
    long double v = uniform_of(type, seed, stream, index - index % 2 + 1);
    return sqrtl(-2 * log1pl(-u)) * sine_of_turns(index % 2 ? v : v + 0.25L);
}

static const uint64_t seeds[] = {0, 1, UINT64_C(0x123456789abcdef0), UINT64_MAX};
static const uint64_t streams[] = {0, 7, UINT64_C(0xfedcba9876543210)};
static const int64_t firsts[] = {0, 1, 2, 3, 5, 1000, INT64_C(1) << 34, (INT64_C(1) << 62) + 3};

static void values_are_functions_of_seed_stream_and_index(void **state)
{
    (void)state;
    enum { N = 37 };
    for (int i = 0; i < 4 * 3 * 8 * 2; i++) {
        kernel_type type = (kernel_type)(i % 2);
        uint64_t seed = seeds[i / 2 % 4], stream = streams[i / 8 % 3];
        int64_t first = firsts[i / 24];
        double u[N], z[N];
        lab__kernel_uniform(type, N, u, seed, stream, first);
        lab__kernel_normal(type, N, z, seed, stream, first);
        for (int k = 0; k < N; k++) {
            assert_true(check_get(type, u, k) == uniform_of(type, seed, stream, first + k));
            long double expected = normal_of(type, seed, stream, first + k);
            double ulps = check_ulps(type, check_get(type, z, k), expected);
            if (ulps > (type == KERNEL_F32 ? 0.51 : 4))
                fail_msg("normal %d of seed %llu, stream %llu, first %lld is %.17Lg, expected %.17Lg", k,
                         (unsigned long long)seed, (unsigned long long)stream, (long long)first, check_get(type, z, k),
                         expected);
        }
    }
}

static void cutting_a_run_changes_nothing_and_writes_nothing_else(void **state)
{
    (void)state;
    enum { N = 257 };
    uint64_t stream = guarded_stream(__func__);
    for (int i = 0; i < 4; i++) {
        kernel_type type = (kernel_type)(i % 2);
        void (*fn)(kernel_type, int64_t, void *, uint64_t, uint64_t, int64_t) =
            i / 2 ? lab__kernel_normal : lab__kernel_uniform;
        size_t size = check_size(type);
        double whole[N];
        fn(type, N, whole, 5, 6, 11);
        for (int64_t start = 0; start < N; start += start < 29 ? 1 : 17)
            for (int64_t n = 0; n <= 40 && n <= N - start; n++) {
                guarded part = guarded_take((size_t)n * size, &stream);
                fn(type, n, part.data, 5, 6, 11 + start);
                assert_memory_equal(part.data, (char *)whole + (size_t)start * size, (size_t)n * size);
                assert_true(guarded_unchanged(&part, false));
                guarded_free(&part);
            }
    }
}

/* Sums over a draw of the first four powers of its distance from the centre, of its products with the number before,
 * and its ends. */
typedef struct moments {
    double mean, square, fourth, product, low, high;
} moments;

static moments moments_of(kernel_type type, int n, const void *x, double centre)
{
    moments m = {.low = INFINITY, .high = -INFINITY};
    for (int i = 0; i < n; i++) {
        const double value = (double)check_get(type, x, i), z = value - centre;
        const double before = (double)check_get(type, x, i ? i - 1 : i) - centre;
        assert_true(isfinite(value));
        m.mean += z / n;
        m.square += z * z / n;
        m.fourth += z * z * z * z / n;
        m.product += i ? z * before / n : 0;
        m.low = fmin(m.low, value);
        m.high = fmax(m.high, value);
    }
    return m;
}

/* Five standard errors. */
static void expect_moments(const moments *m, int n, double variance, double fourth)
{
    assert_true(fabs(m->mean) < 5 * sqrt(variance / n));
    assert_true(fabs(m->square - variance) < 5 * sqrt((fourth - variance * variance) / n));
    assert_true(fabs(m->product) < 5 * variance / sqrt(n));
}

static void uniforms_lie_in_0_to_1_and_normals_are_finite_and_normal(void **state)
{
    (void)state;
    enum { N = 200000 };
    static double x[N];
    for (int type = 0; type < KERNEL_TYPES; type++) {
        lab__kernel_uniform((kernel_type)type, N, x, 3, 0, 0);
        moments m = moments_of((kernel_type)type, N, x, 0.5);
        assert_true(m.low >= 0 && m.low < 1e-4 && m.high < 1 && m.high > 1 - 1e-4);
        assert_true(fabs(m.fourth - 1.0 / 80) < 0.05 / 80);
        expect_moments(&m, N, 1.0 / 12, 1.0 / 80);
        lab__kernel_normal((kernel_type)type, N, x, 3, 0, 0);
        m = moments_of((kernel_type)type, N, x, 0);
        assert_true(m.low > -9 && m.low < -4 && m.high > 4 && m.high < 9);
        assert_true(fabs(m.fourth - 3) < 5 * sqrt(96.0 / N));
        expect_moments(&m, N, 1, 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_its_authors_known_answers),
        cmocka_unit_test(values_are_functions_of_seed_stream_and_index),
        cmocka_unit_test(cutting_a_run_changes_nothing_and_writes_nothing_else),
        cmocka_unit_test(uniforms_lie_in_0_to_1_and_normals_are_finite_and_normal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
