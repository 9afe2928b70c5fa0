/* integer.c - the kernels that need no level: 64-bit integers, booleans, selection and moving of elements as bits.
 *
 * Plain loops, in which a row whose elements lie side by side is told apart so that the compiler can use vectors.
 */
#include <string.h>

#include "kernels.h"

/* ---- 64-bit integers --------------------------------------------------------------------------------------------- */

/* Sums and products wrap: they are taken without sign. */
static inline int64_t add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline int64_t mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static inline int64_t maximum(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t minimum(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

typedef int64_t (*function2)(int64_t a, int64_t b);

/* Inlined with its function. */
static inline __attribute__((always_inline)) void map2(int64_t n, int64_t *y, int64_t y_stride, const int64_t *a,
                                                       int64_t a_stride, const int64_t *b, int64_t b_stride,
                                                       function2 f)
{
    if (y_stride == 1 && a_stride == 1 && b_stride == 1)
        for (int64_t i = 0; i < n; i++)
            y[i] = f(a[i], b[i]);
    else
        for (int64_t i = 0; i < n; i++)
            y[i * y_stride] = f(a[i * a_stride], b[i * b_stride]);
}

static void add_row(int64_t n, void *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                    int64_t b_stride)
{
    map2(n, y, y_stride, a, a_stride, b, b_stride, add);
}

static void sub_row(int64_t n, void *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                    int64_t b_stride)
{
    map2(n, y, y_stride, a, a_stride, b, b_stride, sub);
}

static void mul_row(int64_t n, void *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                    int64_t b_stride)
{
    map2(n, y, y_stride, a, a_stride, b, b_stride, mul);
}

static void maximum_row(int64_t n, void *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                        int64_t b_stride)
{
    map2(n, y, y_stride, a, a_stride, b, b_stride, maximum);
}

static void minimum_row(int64_t n, void *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                        int64_t b_stride)
{
    map2(n, y, y_stride, a, a_stride, b, b_stride, minimum);
}

kernel_binary_fn lab__kernel_binary_i64(kernel_binary op)
{
    static const kernel_binary_fn rows[KERNEL_BINARY_COUNT] = {
        [KERNEL_ADD] = add_row,         [KERNEL_SUB] = sub_row,         [KERNEL_MUL] = mul_row,
        [KERNEL_MAXIMUM] = maximum_row, [KERNEL_MINIMUM] = minimum_row,
    };
    return rows[op];
}

/* ---- Comparisons ------------------------------------------------------------------------------------------------- */

static void equal_row(int64_t n, uint8_t *y, int64_t y_stride, const void *a_row, int64_t a_stride, const void *b_row,
                      int64_t b_stride)
{
    const int64_t *a = a_row, *b = b_row;
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = a[i * a_stride] == b[i * b_stride];
}

static void less_row(int64_t n, uint8_t *y, int64_t y_stride, const void *a_row, int64_t a_stride, const void *b_row,
                     int64_t b_stride)
{
    const int64_t *a = a_row, *b = b_row;
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = a[i * a_stride] < b[i * b_stride];
}

static void less_equal_row(int64_t n, uint8_t *y, int64_t y_stride, const void *a_row, int64_t a_stride,
                           const void *b_row, int64_t b_stride)
{
    const int64_t *a = a_row, *b = b_row;
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = a[i * a_stride] <= b[i * b_stride];
}

kernel_compare_fn lab__kernel_compare_i64(kernel_compare op)
{
    static const kernel_compare_fn rows[KERNEL_COMPARE_COUNT] = {
        [KERNEL_EQUAL] = equal_row, [KERNEL_LESS] = less_row, [KERNEL_LESS_EQUAL] = less_equal_row};
    return rows[op];
}

static void equal_bool_row(int64_t n, uint8_t *y, int64_t y_stride, const void *a_row, int64_t a_stride,
                           const void *b_row, int64_t b_stride)
{
    const uint8_t *a = a_row, *b = b_row;
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = !a[i * a_stride] == !b[i * b_stride];
}

static void less_bool_row(int64_t n, uint8_t *y, int64_t y_stride, const void *a_row, int64_t a_stride,
                          const void *b_row, int64_t b_stride)
{
    const uint8_t *a = a_row, *b = b_row;
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = !a[i * a_stride] & !!b[i * b_stride];
}

static void less_equal_bool_row(int64_t n, uint8_t *y, int64_t y_stride, const void *a_row, int64_t a_stride,
                                const void *b_row, int64_t b_stride)
{
    const uint8_t *a = a_row, *b = b_row;
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = !a[i * a_stride] | !!b[i * b_stride];
}

kernel_compare_fn lab__kernel_compare_bool(kernel_compare op)
{
    static const kernel_compare_fn rows[KERNEL_COMPARE_COUNT] = {
        [KERNEL_EQUAL] = equal_bool_row, [KERNEL_LESS] = less_bool_row, [KERNEL_LESS_EQUAL] = less_equal_bool_row};
    return rows[op];
}

/* ---- Logic ------------------------------------------------------------------------------------------------------- */

void lab__kernel_logical_and(int64_t n, uint8_t *y, int64_t y_stride, const uint8_t *a, int64_t a_stride,
                             const uint8_t *b, int64_t b_stride)
{
    if (y_stride == 1 && a_stride == 1 && b_stride == 1)
        for (int64_t i = 0; i < n; i++)
            y[i] = (a[i] != 0) & (b[i] != 0);
    else
        for (int64_t i = 0; i < n; i++)
            y[i * y_stride] = a[i * a_stride] && b[i * b_stride];
}

void lab__kernel_logical_or(int64_t n, uint8_t *y, int64_t y_stride, const uint8_t *a, int64_t a_stride,
                            const uint8_t *b, int64_t b_stride)
{
    if (y_stride == 1 && a_stride == 1 && b_stride == 1)
        for (int64_t i = 0; i < n; i++)
            y[i] = (a[i] != 0) | (b[i] != 0);
    else
        for (int64_t i = 0; i < n; i++)
            y[i * y_stride] = a[i * a_stride] || b[i * b_stride];
}

void lab__kernel_logical_not(int64_t n, uint8_t *y, int64_t y_stride, const uint8_t *a, int64_t a_stride)
{
    if (y_stride == 1 && a_stride == 1)
        for (int64_t i = 0; i < n; i++)
            y[i] = a[i] == 0;
    else
        for (int64_t i = 0; i < n; i++)
            y[i * y_stride] = !a[i * a_stride];
}

/* ---- Selection and moving ---------------------------------------------------------------------------------------- */

/* Both are read and one is kept by masks: a loop of that needs no branch and becomes vectors. */
static inline uint8_t pick_1(uint8_t condition, uint8_t a, uint8_t b)
{
    const uint8_t mask = condition ? 0xff : 0;
    return (uint8_t)((a & mask) | (b & ~mask));
}

static inline uint32_t pick_4(uint8_t condition, uint32_t a, uint32_t b)
{
    const uint32_t mask = condition ? UINT32_MAX : 0;
    return (a & mask) | (b & ~mask);
}

static inline uint64_t pick_8(uint8_t condition, uint64_t a, uint64_t b)
{
    const uint64_t mask = condition ? UINT64_MAX : 0;
    return (a & mask) | (b & ~mask);
}

static void where_1(int64_t n, uint8_t *y, int64_t y_stride, const uint8_t *condition, int64_t condition_stride,
                    const uint8_t *a, int64_t a_stride, const uint8_t *b, int64_t b_stride)
{
    if (y_stride == 1 && condition_stride == 1 && a_stride == 1 && b_stride == 1)
        for (int64_t i = 0; i < n; i++)
            y[i] = pick_1(condition[i], a[i], b[i]);
    else
        for (int64_t i = 0; i < n; i++)
            y[i * y_stride] = condition[i * condition_stride] ? a[i * a_stride] : b[i * b_stride];
}

static void where_4(int64_t n, uint32_t *y, int64_t y_stride, const uint8_t *condition, int64_t condition_stride,
                    const uint32_t *a, int64_t a_stride, const uint32_t *b, int64_t b_stride)
{
    if (y_stride == 1 && condition_stride == 1 && a_stride == 1 && b_stride == 1)
        for (int64_t i = 0; i < n; i++)
            y[i] = pick_4(condition[i], a[i], b[i]);
    else if (y_stride == 1 && condition_stride == 1 && a_stride == 1 && b_stride == 0 && n > 0) {
        const uint32_t other = *b; /* what masks fill in */
        for (int64_t i = 0; i < n; i++)
            y[i] = pick_4(condition[i], a[i], other);
    } else
        for (int64_t i = 0; i < n; i++)
            y[i * y_stride] = condition[i * condition_stride] ? a[i * a_stride] : b[i * b_stride];
}

static void where_8(int64_t n, uint64_t *y, int64_t y_stride, const uint8_t *condition, int64_t condition_stride,
                    const uint64_t *a, int64_t a_stride, const uint64_t *b, int64_t b_stride)
{
    if (y_stride == 1 && condition_stride == 1 && a_stride == 1 && b_stride == 1)
        for (int64_t i = 0; i < n; i++)
            y[i] = pick_8(condition[i], a[i], b[i]);
    else if (y_stride == 1 && condition_stride == 1 && a_stride == 1 && b_stride == 0 && n > 0) {
        const uint64_t other = *b; /* what masks fill in */
        for (int64_t i = 0; i < n; i++)
            y[i] = pick_8(condition[i], a[i], other);
    } else
        for (int64_t i = 0; i < n; i++)
            y[i * y_stride] = condition[i * condition_stride] ? a[i * a_stride] : b[i * b_stride];
}

void lab__kernel_where(int64_t n, int size, void *y, int64_t y_stride, const uint8_t *condition,
                       int64_t condition_stride, const void *a, int64_t a_stride, const void *b, int64_t b_stride)
{
    if (size == 1)
        where_1(n, y, y_stride, condition, condition_stride, a, a_stride, b, b_stride);
    else if (size == 4)
        where_4(n, y, y_stride, condition, condition_stride, a, a_stride, b, b_stride);
    else
        where_8(n, y, y_stride, condition, condition_stride, a, a_stride, b, b_stride);
}

static void copy_1(int64_t n, uint8_t *y, int64_t y_stride, const uint8_t *x, int64_t x_stride)
{
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = x[i * x_stride];
}

static void copy_4(int64_t n, uint32_t *y, int64_t y_stride, const uint32_t *x, int64_t x_stride)
{
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = x[i * x_stride];
}

static void copy_8(int64_t n, uint64_t *y, int64_t y_stride, const uint64_t *x, int64_t x_stride)
{
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = x[i * x_stride];
}

void lab__kernel_copy(int64_t n, int size, void *y, int64_t y_stride, const void *x, int64_t x_stride)
{
    if (y_stride == 1 && x_stride == 1 && n > 0)
        memmove(y, x, (size_t)n * (size_t)size);
    else if (size == 1)
        copy_1(n, y, y_stride, x, x_stride);
    else if (size == 4)
        copy_4(n, y, y_stride, x, x_stride);
    else
        copy_8(n, y, y_stride, x, x_stride);
}
