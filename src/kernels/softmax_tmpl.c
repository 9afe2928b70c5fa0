/* softmax_tmpl.c - softmax and logsumexp of a row, and the derivatives from their results.
 *
 * A row is visited two or three times: its maximum; e^(x - maximum) and their sum; the division. Within a block of
 * BLOCK columns, column j goes to lane j mod (2 * LANES) of a sum, and the blocks' sums are added in double. A NaN or
 * +inf makes the sum NaN (inf - inf), and with it the row. The one case to look after is a row of nothing but -inf,
 * from which 0 is subtracted, not -inf: all its exponentials and their sum are then 0. In most rows no exponential is
 * anywhere near the end of the range, which saves some steps of each.
 */

static inline double FN(sum_pair)(vec a, vec b)
{
    real lanes[LANES];
    FN(store)(lanes, a + b);
    vec_f64 sum = {0};
    for (int i = 0; i < LANES; i += WIDE)
        sum += FN(load_wide)(lanes + i);
    return FN(sum_lanes)(sum);
}

/* At most LANES elements: y = e^(x - shift) where y is asked for; gives them, 0 in the lanes beyond. */
ALWAYS_INLINE vec FN(exp_part)(int64_t n, real *y, const real *x, real shift, bool wants_y)
{
    if (n >= LANES) {
        vec e = FN(exp_below)(FN(load)(x) - shift);
        if (wants_y)
            FN(store)(y, e);
        return e;
    }
    vec e = FN(exp_below)(FN(vec_load_part)(x, n, FN(broadcast)(-INFINITY)) - shift);
    if (wants_y)
        FN(vec_store_part)(y, n, e);
    return e;
}

/* Two vectors at a time, loaded before either is stored: their long chains of operations run side by side. `near`:
 * every x - shift is at least exp_normal. */
ALWAYS_INLINE double FN(exp_block)(int64_t n, real *y, const real *x, real shift, bool wants_y, bool near)
{
    vec a = {0}, b = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        vec x0 = FN(load)(x + i) - shift, x1 = FN(load)(x + i + LANES) - shift;
        vec e0 = near ? FN(exp_of_near)(x0) : FN(exp_below)(x0), e1 = near ? FN(exp_of_near)(x1) : FN(exp_below)(x1);
        if (wants_y) {
            FN(store)(y + i, e0);
            FN(store)(y + i + LANES, e1);
        }
        a += e0;
        b += e1;
    }
    if (i < n)
        a += FN(exp_part)(n - i, y + i, x + i, shift, wants_y);
    if (i + LANES < n)
        b += FN(exp_part)(n - i - LANES, y + i + LANES, x + i + LANES, shift, wants_y);
    return FN(sum_pair)(a, b);
}

/* What is subtracted from a row, and the sum of the exponentials then. */
typedef struct FN(row_scale) {
    real shift;
    double sum;
} FN(row_scale);

ALWAYS_INLINE FN(row_scale)
    FN(exp_of_row)(int64_t n, real *y, int64_t y_stride, const real *x, int64_t x_stride, bool wants_y)
{
    FN(range) range = FN(range_of_row)(n, x, x_stride);
    FN(row_scale) s = {.shift = FN(max_lane)(range.largest)};
    if (s.shift == -INFINITY)
        s.shift = 0;
    bool near = -FN(max_lane)(-range.least) - s.shift >= FN(exp_normal);
    real buffer[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = n - i < BLOCK ? n - i : BLOCK;
        const real *from = FN(block_of)(x, x_stride, i, count, buffer);
        real *to = wants_y && y_stride == 1 ? y + i : buffer;
        s.sum += near ? FN(exp_block)(count, to, from, s.shift, wants_y, true)
                      : FN(exp_block)(count, to, from, s.shift, wants_y, false);
        if (wants_y && to == buffer)
            FN(scatter)(count, y + i * y_stride, y_stride, buffer);
    }
    return s;
}

static void FN(softmax)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride)
{
    FN(row_scale) s = FN(exp_of_row)(n, y, y_stride, x, x_stride, true);
    FN(map1)(n, y, y_stride, y, y_stride, FN(mul_scalar), s.sum == 0 ? 0 : 1 / s.sum);
}

/* y = (x - shift) - log_sum, in this order: x - shift is small where the result is, and exact or nearly so. */
static inline void FN(minus_block)(int64_t n, real *y, const real *x, real shift, real log_sum)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        FN(store)(y + i, (FN(load)(x + i) - shift) - log_sum);
    if (i < n)
        FN(vec_store_part)(y + i, n - i, (FN(vec_load_part)(x + i, n - i, FN(broadcast)(1)) - shift) - log_sum);
}

static void FN(log_softmax)(int64_t n, void *y_row, int64_t y_stride, const void *x_row, int64_t x_stride)
{
    real *y = y_row, buffer[BLOCK];
    FN(row_scale) s = FN(exp_of_row)(n, NULL, 0, x_row, x_stride, false);
    real log_sum = s.sum == 0 ? 0 : (real)log(s.sum);
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = n - i < BLOCK ? n - i : BLOCK;
        const real *from = FN(block_of)(x_row, x_stride, i, count, buffer);
        real *to = y_stride == 1 ? y + i : buffer;
        FN(minus_block)(count, to, from, s.shift, log_sum);
        if (to == buffer)
            FN(scatter)(count, y + i * y_stride, y_stride, buffer);
    }
}

static double FN(logsumexp)(int64_t n, const void *x, int64_t x_stride)
{
    FN(row_scale) s = FN(exp_of_row)(n, NULL, 0, x, x_stride, false);
    return (double)s.shift + log(s.sum);
}

/* ---- Derivatives ------------------------------------------------------------------------------------------------- */

/* A term of sum((dy - shift) * y): where y is 0, dy does not count. */
ALWAYS_INLINE vec FN(weighted)(vec y, vec dy, vec shift)
{
    return (vec)((mask)(y * (dy - shift)) & ~(y == 0));
}

ALWAYS_INLINE double FN(weighted_block)(int64_t n, const real *y, const real *dy, vec shift)
{
    const vec zero = {0};
    vec a = {0}, b = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        a += FN(weighted)(FN(load)(y + i), FN(load)(dy + i), shift);
        b += FN(weighted)(FN(load)(y + i + LANES), FN(load)(dy + i + LANES), shift);
    }
    if (i + LANES <= n)
        a += FN(weighted)(FN(load)(y + i), FN(load)(dy + i), shift);
    else if (i < n)
        a += FN(weighted)(FN(vec_load_part)(y + i, n - i, zero), FN(vec_load_part)(dy + i, n - i, zero), shift);
    i += LANES;
    if (i < n)
        b += FN(weighted)(FN(vec_load_part)(y + i, n - i, zero), FN(vec_load_part)(dy + i, n - i, zero), shift);
    return FN(sum_pair)(a, b);
}

static double FN(weighted_row)(int64_t n, const real *y, int64_t y_stride, const real *dy, int64_t dy_stride,
                               real shift)
{
    real buffer_y[BLOCK], buffer_dy[BLOCK];
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = n - i < BLOCK ? n - i : BLOCK;
        const real *from_y = FN(block_of)(y, y_stride, i, count, buffer_y);
        const real *from_dy = FN(block_of)(dy, dy_stride, i, count, buffer_dy);
        sum += FN(weighted_block)(count, from_y, from_dy, FN(broadcast)(shift));
    }
    return sum;
}

/* A derivative from the result, the derivative of the result, and a sum over the row, with what rounding left of it. */
typedef vec (*FN(slope))(vec y, vec dy, vec sum, vec low);

ALWAYS_INLINE vec FN(softmax_slope)(vec y, vec dy, vec sum, vec low)
{
    return (vec)((mask)(y * ((dy - sum) - low)) & ~(y == 0));
}

ALWAYS_INLINE vec FN(log_softmax_slope)(vec y, vec dy, vec sum, vec low)
{
    (void)low;
    return FN(vec_fma)(-FN(exp_below)(y), sum, dy);
}

ALWAYS_INLINE void FN(slope_block)(int64_t n, real *dx, const real *y, const real *dy, FN(slope) slope, vec sum,
                                   vec low, bool add)
{
    const vec zero = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec d = slope(FN(load)(y + i), FN(load)(dy + i), sum, low);
        FN(store)(dx + i, add ? FN(load)(dx + i) + d : d);
    }
    if (i == n)
        return;
    vec d = slope(FN(vec_load_part)(y + i, n - i, zero), FN(vec_load_part)(dy + i, n - i, zero), sum, low);
    FN(vec_store_part)(dx + i, n - i, add ? FN(vec_load_part)(dx + i, n - i, zero) + d : d);
}

ALWAYS_INLINE void FN(slope_row)(int64_t n, real *dx, int64_t dx_stride, const real *y, int64_t y_stride,
                                 const real *dy, int64_t dy_stride, FN(slope) slope, real sum, real low, bool add)
{
    real buffer_dx[BLOCK], buffer_y[BLOCK], buffer_dy[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = n - i < BLOCK ? n - i : BLOCK;
        const real *from_y = FN(block_of)(y, y_stride, i, count, buffer_y);
        const real *from_dy = FN(block_of)(dy, dy_stride, i, count, buffer_dy);
        real *to = dx_stride == 1 ? dx + i : buffer_dx;
        if (add && to == buffer_dx)
            FN(gather)(count, buffer_dx, dx + i * dx_stride, dx_stride);
        FN(slope_block)(count, to, from_y, from_dy, slope, FN(broadcast)(sum), FN(broadcast)(low), add);
        if (to == buffer_dx)
            FN(scatter)(count, dx + i * dx_stride, dx_stride, buffer_dx);
    }
}

/* The y sum to 1 but for rounding, and sum(dy y) is rounded: by as much as the result, where one y is nearly 1. In
 * double, where nothing wider adds it up, what is left of it is found by a second sum, of numbers that are small then.
 */
static void FN(softmax_backward)(int64_t n, void *dx, int64_t dx_stride, const void *y, int64_t y_stride,
                                 const void *dy, int64_t dy_stride, bool add)
{
    const real sum = (real)FN(weighted_row)(n, y, y_stride, dy, dy_stride, 0);
    real low = sizeof(real) == sizeof(double) ? (real)FN(weighted_row)(n, y, y_stride, dy, dy_stride, sum) : 0;
    if (!isfinite(low))
        low = 0;
    if (add)
        FN(slope_row)(n, dx, dx_stride, y, y_stride, dy, dy_stride, FN(softmax_slope), sum, low, true);
    else
        FN(slope_row)(n, dx, dx_stride, y, y_stride, dy, dy_stride, FN(softmax_slope), sum, low, false);
}

static void FN(log_softmax_backward)(int64_t n, void *dx, int64_t dx_stride, const void *y, int64_t y_stride,
                                     const void *dy, int64_t dy_stride, bool add)
{
    real sum = (real)FN(sum)(n, dy, dy_stride);
    if (add)
        FN(slope_row)(n, dx, dx_stride, y, y_stride, dy, dy_stride, FN(log_softmax_slope), sum, 0, true);
    else
        FN(slope_row)(n, dx, dx_stride, y, y_stride, dy, dy_stride, FN(log_softmax_slope), sum, 0, false);
}
