/* test_kernels_integer.c - the kernels that need no level: 64-bit integers, booleans, selection, copies; at all small
 * sizes and strides, with random bytes around that must survive.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "guarded.h"
#include "kernels/kernels.h"

static const int64_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 16, 31, 33, 67, 257};
enum { SIZES = sizeof sizes / sizeof sizes[0], STRIDES = 4 };

static guarded take(int64_t n, int64_t stride, size_t size, uint64_t *stream)
{
    return guarded_take((size_t)(n * stride) * size, stream);
}

/* Fails unless byte strings of `size` at multiples of `stride` are `expected`, and everything else is as it was. */
static void expect_only(const guarded *y, int64_t n, int64_t stride, size_t size, const unsigned char *expected)
{
    assert_true(guarded_unchanged(y, false));
    for (int64_t i = 0; i < n * stride; i++) {
        const unsigned char *was = guarded_remembered(y) + (size_t)i * size;
        const unsigned char *right = i % stride ? was : expected + (size_t)(i / stride) * size;
        if (memcmp(y->data + (size_t)i * size, right, size) != 0)
            fail_msg("seed %llu: n %lld, stride %lld: element %lld is wrong", (unsigned long long)guarded_seed(),
                     (long long)n, (long long)stride, (long long)i);
    }
}

/* ---- 64-bit integers --------------------------------------------------------------------------------------------- */

/* Small ones, equal ones, and those at the ends. */
static int64_t any_integer(uint64_t *stream)
{
    switch (guarded_below(stream, 4)) {
    case 0:
        return guarded_below(stream, 5) - 2;
    case 1:
        return INT64_MAX - guarded_below(stream, 3);
    case 2:
        return INT64_MIN + guarded_below(stream, 3);
    default:
        return (int64_t)guarded_next(stream);
    }
}

static int64_t reference(kernel_binary op, int64_t a, int64_t b)
{
    uint64_t u = (uint64_t)a, v = (uint64_t)b;
    switch (op) {
    case KERNEL_ADD:
        return (int64_t)(u + v);
    case KERNEL_SUB:
        return (int64_t)(u - v);
    case KERNEL_MUL:
        return (int64_t)(u * v);
    case KERNEL_MAXIMUM:
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

static bool compared(kernel_compare op, int64_t a, int64_t b)
{
    return op == KERNEL_EQUAL ? a == b : op == KERNEL_LESS ? a < b : a <= b;
}

static void try_integers(int64_t n, const int64_t stride[3], uint64_t *stream)
{
    guarded a = take(n, stride[1] ? stride[1] : 1, 8, stream), b = take(n, stride[2] ? stride[2] : 1, 8, stream);
    int64_t expected[257], *x = (int64_t *)(void *)a.data, *z = (int64_t *)(void *)b.data;
    uint8_t truth[257];
    for (int64_t i = 0; i < n; i++) {
        x[i * stride[1]] = any_integer(stream);
        z[i * stride[2]] = any_integer(stream);
    }
    guarded_remember(&a);
    guarded_remember(&b);
    for (int op = 0; op < KERNEL_BINARY_COUNT; op++) {
        if (op == KERNEL_DIV)
            continue;
        guarded y = take(n, stride[0], 8, stream);
        for (int64_t i = 0; i < n; i++)
            expected[i] = reference((kernel_binary)op, x[i * stride[1]], z[i * stride[2]]);
        lab__kernel_binary_i64((kernel_binary)op)(n, y.data, stride[0], x, stride[1], z, stride[2]);
        expect_only(&y, n, stride[0], 8, (const unsigned char *)expected);
        guarded_free(&y);
    }
    for (int op = 0; op < KERNEL_COMPARE_COUNT; op++) {
        guarded y = take(n, stride[0], 1, stream);
        for (int64_t i = 0; i < n; i++)
            truth[i] = compared((kernel_compare)op, x[i * stride[1]], z[i * stride[2]]);
        lab__kernel_compare_i64((kernel_compare)op)(n, y.data, stride[0], x, stride[1], z, stride[2]);
        expect_only(&y, n, stride[0], 1, truth);
        guarded_free(&y);
    }
    assert_true(guarded_unchanged(&a, true) && guarded_unchanged(&b, true));
    guarded_free(&a);
    guarded_free(&b);
}

/* Calls fn at all sizes, strides 1 to 3 of the result, 0 to 3 of two operands. */
static void at_all_strides(const char *name, void (*fn)(int64_t n, const int64_t stride[3], uint64_t *stream))
{
    uint64_t stream = guarded_stream(name);
    for (int i = 0; i < SIZES; i++)
        for (int s = 0; s < 3 * STRIDES * STRIDES; s++)
            fn(sizes[i], (const int64_t[]){1 + s % 3, s / 3 % STRIDES, s / 3 / STRIDES}, &stream);
}

static void integers_wrap_and_compare_at_all_sizes_and_strides(void **state)
{
    (void)state;
    at_all_strides(__func__, try_integers);
    assert_null(lab__kernel_binary_i64(KERNEL_DIV));
}

/* ---- Booleans ---------------------------------------------------------------------------------------------------- */

static uint8_t any_boolean(uint64_t *stream)
{
    static const uint8_t values[] = {0, 0, 0, 1, 1, 2, 128, 255};
    return values[guarded_below(stream, 8)];
}

/* The comparisons, and beside them: */
enum { LOGIC_AND = KERNEL_COMPARE_COUNT, LOGIC_OR, LOGIC_NOT, LOGIC_COUNT };

static bool logic_of(int op, bool a, bool b)
{
    return op < LOGIC_AND    ? compared((kernel_compare)op, a, b)
           : op == LOGIC_AND ? a && b
           : op == LOGIC_OR  ? a || b
                             : !a;
}

static void run_logic(int op, int64_t n, uint8_t *y, const int64_t stride[3], const uint8_t *a, const uint8_t *b)
{
    if (op == LOGIC_AND)
        lab__kernel_logical_and(n, y, stride[0], a, stride[1], b, stride[2]);
    else if (op == LOGIC_OR)
        lab__kernel_logical_or(n, y, stride[0], a, stride[1], b, stride[2]);
    else if (op == LOGIC_NOT)
        lab__kernel_logical_not(n, y, stride[0], a, stride[1]);
    else
        lab__kernel_compare_bool((kernel_compare)op)(n, y, stride[0], a, stride[1], b, stride[2]);
}

static void try_booleans(int64_t n, const int64_t stride[3], uint64_t *stream)
{
    guarded a = take(n, stride[1] ? stride[1] : 1, 1, stream), b = take(n, stride[2] ? stride[2] : 1, 1, stream);
    uint8_t expected[257];
    for (int64_t i = 0; i < n; i++) {
        a.data[i * stride[1]] = any_boolean(stream);
        b.data[i * stride[2]] = any_boolean(stream);
    }
    guarded_remember(&a);
    guarded_remember(&b);
    for (int op = 0; op < LOGIC_COUNT; op++) {
        guarded y = take(n, stride[0], 1, stream);
        for (int64_t i = 0; i < n; i++) {
            bool p = a.data[i * stride[1]] != 0, q = b.data[i * stride[2]] != 0;
            expected[i] = logic_of(op, p, q);
        }
        run_logic(op, n, y.data, stride, a.data, b.data);
        expect_only(&y, n, stride[0], 1, expected);
        guarded_free(&y);
    }
    assert_true(guarded_unchanged(&a, true) && guarded_unchanged(&b, true));
    guarded_free(&a);
    guarded_free(&b);
}

static void every_byte_but_0_is_true_and_results_are_0_or_1(void **state)
{
    (void)state;
    at_all_strides(__func__, try_booleans);
}

/* ---- Selection and copies ---------------------------------------------------------------------------------------- */

/* The bits of NaNs included: what is moved are random bytes. */
static void try_moving(int64_t n, const int64_t stride[3], uint64_t *stream)
{
    static const int widths[] = {1, 4, 8};
    for (int w = 0; w < 3; w++) {
        size_t size = (size_t)widths[w];
        guarded condition = take(n, stride[1] ? stride[1] : 1, 1, stream);
        guarded a = take(n, stride[1] ? stride[1] : 1, size, stream),
                b = take(n, stride[2] ? stride[2] : 1, size, stream);
        guarded y = take(n, stride[0], size, stream), z = take(n, stride[0], size, stream);
        unsigned char selected[257 * 8], copied[257 * 8];
        for (int64_t i = 0; i < n; i++)
            condition.data[i * stride[1]] = any_boolean(stream);
        guarded_remember(&condition);
        for (int64_t i = 0; i < n; i++) {
            bool first = condition.data[i * stride[1]] != 0;
            const unsigned char *from =
                first ? a.data + (size_t)(i * stride[1]) * size : b.data + (size_t)(i * stride[2]) * size;
            memcpy(selected + (size_t)i * size, from, size);
            memcpy(copied + (size_t)i * size, b.data + (size_t)(i * stride[2]) * size, size);
        }
        lab__kernel_where(n, widths[w], y.data, stride[0], condition.data, stride[1], a.data, stride[1], b.data,
                          stride[2]);
        expect_only(&y, n, stride[0], size, selected);
        lab__kernel_copy(n, widths[w], z.data, stride[0], b.data, stride[2]);
        expect_only(&z, n, stride[0], size, copied);
        assert_true(guarded_unchanged(&condition, true) && guarded_unchanged(&a, true) && guarded_unchanged(&b, true));
        guarded_free(&condition);
        guarded_free(&a);
        guarded_free(&b);
        guarded_free(&y);
        guarded_free(&z);
    }
}

static void selection_and_copies_move_bits_at_all_sizes_and_strides(void **state)
{
    (void)state;
    at_all_strides(__func__, try_moving);
}

static void copies_past_the_cache_copy(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    for (size_t bytes = 0; bytes < 400; bytes += 1 + bytes / 16)
        for (size_t to = 0; to < 64; to += 7)
            for (size_t from = 0; from < 16; from += 5) {
                guarded x = guarded_take(bytes + from, &stream), y = guarded_take(bytes + to, &stream);
                lab__kernel_stream(bytes, y.data + to, x.data + from);
                lab__kernel_stream_end();
                assert_true(guarded_unchanged(&x, true) && guarded_unchanged(&y, false));
                assert_memory_equal(y.data, guarded_remembered(&y), to);
                assert_memory_equal(y.data + to, x.data + from, bytes);
                guarded_free(&x);
                guarded_free(&y);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_wrap_and_compare_at_all_sizes_and_strides),
        cmocka_unit_test(every_byte_but_0_is_true_and_results_are_0_or_1),
        cmocka_unit_test(selection_and_copies_move_bits_at_all_sizes_and_strides),
        cmocka_unit_test(copies_past_the_cache_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
