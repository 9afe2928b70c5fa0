/* map_tmpl.c - y[i] = f(a[i]), f(a[i], b[i]) and a[i] ? b[i] along a row.
 *
 * Rows that are not dense go through buffers, and the end of a row through a vector filled up with ones: there is
 * one arithmetic for all elements.
 */

typedef vec (*FN(function1))(vec x, vec parameter);
typedef vec (*FN(function2))(vec a, vec b);
typedef mask (*FN(function_compare))(vec a, vec b);

ALWAYS_INLINE void FN(map1_dense)(int64_t n, real *y, const real *x, FN(function1) f, vec parameter)
{
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) { /* two at a time, side by side, before either is stored */
        vec y0 = f(FN(load)(x + i), parameter), y1 = f(FN(load)(x + i + LANES), parameter);
        FN(store)(y + i, y0);
        FN(store)(y + i + LANES, y1);
    }
    if (i + LANES <= n) {
        FN(store)(y + i, f(FN(load)(x + i), parameter));
        i += LANES;
    }
    if (i < n)
        FN(vec_store_part)(y + i, n - i, f(FN(vec_load_part)(x + i, n - i, FN(broadcast)(1)), parameter));
}

static void FN(fill)(int64_t n, real *y, int64_t y_stride, real value)
{
    int64_t i = 0;
    if (y_stride == 1)
        for (vec v = FN(broadcast)(value); i + LANES <= n; i += LANES)
            FN(store)(y + i, v);
    for (; i < n; i++)
        y[i * y_stride] = value;
}

ALWAYS_INLINE void FN(map1)(int64_t n, void *y_row, int64_t y_stride, const void *x_row, int64_t x_stride,
                            FN(function1) f, double parameter)
{
    real *y = y_row, buffer[BLOCK];
    const real *x = x_row;
    vec scalar = FN(broadcast)((real)parameter);
    bool same = x_stride == 0 && n > 1, dense = x_stride == 1 && y_stride == 1;
    int64_t end = same ? 1 : n, block = dense ? n : BLOCK;
    for (int64_t i = 0; i < end; i += block) {
        int64_t count = end - i < block ? end - i : block;
        const real *from = x + i * x_stride;
        real *to = y_stride == 1 ? y + i : buffer;
        if (x_stride != 1) {
            FN(gather)(count, buffer, from, x_stride);
            from = buffer;
        }
        FN(map1_dense)(count, to, from, f, scalar);
        if (to == buffer)
            FN(scatter)(count, y + i * y_stride, y_stride, buffer);
    }
    if (same)
        FN(fill)(n, y, y_stride, *y);
}

/* One operand of a map of two: `step` is LANES, or 0 where one vector of equal elements stands for the row. */
typedef struct FN(operand) {
    const real *from;
    int64_t step;
} FN(operand);

/* Elements of a row that are not dense, or one again and again, brought into a buffer of BLOCK elements. Written once
 * for all maps, which call it. */
static __attribute__((noinline)) FN(operand) FN(gathered)(int64_t count, const real *x, int64_t stride, real *buffer)
{
    FN(gather)(stride == 0 ? LANES : count, buffer, x, stride);
    return (FN(operand)){buffer, stride == 0 ? 0 : LANES};
}

static inline FN(operand) FN(operand_of)(int64_t count, const real *x, int64_t stride, real *buffer)
{
    return stride == 1 ? (FN(operand)){x, LANES} : FN(gathered)(count, x, stride, buffer);
}

ALWAYS_INLINE void FN(map2_dense)(int64_t n, real *y, FN(operand) a, FN(operand) b, FN(function2) f)
{
    const vec ones = FN(broadcast)(1);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES, a.from += a.step, b.from += b.step)
        FN(store)(y + i, f(FN(load)(a.from), FN(load)(b.from)));
    if (i < n)
        FN(vec_store_part)
    (y + i, n - i, f(FN(vec_load_part)(a.from, n - i, ones), FN(vec_load_part)(b.from, n - i, ones)));
}

ALWAYS_INLINE void FN(map2)(int64_t n, void *y_row, int64_t y_stride, const void *a_row, int64_t a_stride,
                            const void *b_row, int64_t b_stride, FN(function2) f)
{
    real *y = y_row, buffer_y[BLOCK], buffer_a[BLOCK], buffer_b[BLOCK];
    const real *a = a_row, *b = b_row;
    int64_t block = y_stride == 1 && a_stride <= 1 && b_stride <= 1 ? n : BLOCK;
    for (int64_t i = 0; i < n; i += block) {
        int64_t count = n - i < block ? n - i : block;
        real *to = y_stride == 1 ? y + i : buffer_y;
        FN(operand) from_a = FN(operand_of)(count, a + i * a_stride, a_stride, buffer_a);
        FN(operand) from_b = FN(operand_of)(count, b + i * b_stride, b_stride, buffer_b);
        FN(map2_dense)(count, to, from_a, from_b, f);
        if (to == buffer_y)
            FN(scatter)(count, y + i * y_stride, y_stride, buffer_y);
    }
}

ALWAYS_INLINE void FN(compare_dense)(int64_t n, uint8_t *y, FN(operand) a, FN(operand) b, FN(function_compare) f)
{
    const vec ones = FN(broadcast)(1);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES, a.from += a.step, b.from += b.step) {
        FN(bytes) truth = __builtin_convertvector(f(FN(load)(a.from), FN(load)(b.from)), FN(bytes)) & 1;
        memcpy(y + i, &truth, sizeof truth);
    }
    if (i < n) {
        mask m = f(FN(vec_load_part)(a.from, n - i, ones), FN(vec_load_part)(b.from, n - i, ones));
        for (int k = 0; i < n; i++, k++)
            y[i] = m[k] & 1;
    }
}

ALWAYS_INLINE void FN(compare)(int64_t n, uint8_t *y, int64_t y_stride, const void *a_row, int64_t a_stride,
                               const void *b_row, int64_t b_stride, FN(function_compare) f)
{
    real buffer_a[BLOCK], buffer_b[BLOCK];
    uint8_t buffer[BLOCK];
    const real *a = a_row, *b = b_row;
    int64_t block = y_stride == 1 && a_stride <= 1 && b_stride <= 1 ? n : BLOCK;
    for (int64_t i = 0; i < n; i += block) {
        int64_t count = n - i < block ? n - i : block;
        FN(operand) from_a = FN(operand_of)(count, a + i * a_stride, a_stride, buffer_a);
        FN(operand) from_b = FN(operand_of)(count, b + i * b_stride, b_stride, buffer_b);
        FN(compare_dense)(count, y_stride == 1 ? y + i : buffer, from_a, from_b, f);
        if (y_stride != 1)
            for (int64_t k = 0; k < count; k++)
                y[(i + k) * y_stride] = buffer[k];
    }
}
