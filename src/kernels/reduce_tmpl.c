/* reduce_tmpl.c - sums and the maximum of a row.
 *
 * A row is read in blocks of BLOCK columns. Within a block, column j goes to lane j mod (4 * WIDE) of four vectors of
 * doubles, in which f32 loses nothing; the blocks' sums are added with the rounding error carried along.
 */

typedef struct FN(total) {
    double sum, lost;
} FN(total);

/* Neumaier's summation. */
static inline void FN(add_to)(FN(total) * t, double x)
{
    double sum = t->sum + x;
    double big = fabs(t->sum) >= fabs(x) ? t->sum : x, small = fabs(t->sum) >= fabs(x) ? x : t->sum;
    t->lost += (big - sum) + small;
    t->sum = sum;
}

/* Where infinities met, what was lost is NaN and says nothing. */
static inline double FN(total_of)(FN(total) t)
{
    return isfinite(t.sum) ? t.sum + t.lost : t.sum;
}

/* The part of a row from column i on that is one block, dense: from a buffer unless it is so already. */
static inline const real *FN(block_of)(const real *x, int64_t stride, int64_t i, int64_t count, real *buffer)
{
    if (stride == 1)
        return x + i;
    FN(gather)(count, buffer, x + i * stride, stride);
    return buffer;
}

static inline double FN(sum_lanes)(vec_f64 v)
{
    double lanes[WIDE];
    memcpy(lanes, &v, sizeof lanes);
    for (int half = WIDE / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

typedef struct FN(lanes) {
    vec_f64 a, b, c, d;
} FN(lanes);

ALWAYS_INLINE void FN(sum_group)(FN(lanes) * s, const real *x)
{
    s->a += FN(load_wide)(x);
    s->b += FN(load_wide)(x + WIDE);
    s->c += FN(load_wide)(x + 2 * WIDE);
    s->d += FN(load_wide)(x + 3 * WIDE);
}

ALWAYS_INLINE void FN(dot_group)(FN(lanes) * s, const real *x, const real *y)
{
    s->a = vec_fma_f64(FN(load_wide)(x), FN(load_wide)(y), s->a);
    s->b = vec_fma_f64(FN(load_wide)(x + WIDE), FN(load_wide)(y + WIDE), s->b);
    s->c = vec_fma_f64(FN(load_wide)(x + 2 * WIDE), FN(load_wide)(y + 2 * WIDE), s->c);
    s->d = vec_fma_f64(FN(load_wide)(x + 3 * WIDE), FN(load_wide)(y + 3 * WIDE), s->d);
}

static inline double FN(sum_block)(int64_t n, const real *x)
{
    FN(lanes) s = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        FN(sum_group)(&s, x + i);
    if (i < n) {
        real rest[GROUP] = {0};
        memcpy(rest, x + i, (size_t)(n - i) * sizeof *x);
        FN(sum_group)(&s, rest);
    }
    return FN(sum_lanes)((s.a + s.b) + (s.c + s.d));
}

static inline double FN(dot_block)(int64_t n, const real *x, const real *y)
{
    FN(lanes) s = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        FN(dot_group)(&s, x + i, y + i);
    if (i < n) {
        real rest_x[GROUP] = {0}, rest_y[GROUP] = {0};
        memcpy(rest_x, x + i, (size_t)(n - i) * sizeof *x);
        memcpy(rest_y, y + i, (size_t)(n - i) * sizeof *y);
        FN(dot_group)(&s, rest_x, rest_y);
    }
    return FN(sum_lanes)((s.a + s.b) + (s.c + s.d));
}

static double FN(sum)(int64_t n, const void *x, int64_t x_stride)
{
    FN(total) total = {0};
    real buffer[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = n - i < BLOCK ? n - i : BLOCK;
        FN(add_to)(&total, FN(sum_block)(count, FN(block_of)(x, x_stride, i, count, buffer)));
    }
    return FN(total_of)(total);
}

static double FN(dot)(int64_t n, const void *x, int64_t x_stride, const void *y, int64_t y_stride)
{
    FN(total) total = {0};
    real buffer_x[BLOCK], buffer_y[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = n - i < BLOCK ? n - i : BLOCK;
        const real *from_x = FN(block_of)(x, x_stride, i, count, buffer_x);
        FN(add_to)(&total, FN(dot_block)(count, from_x, FN(block_of)(y, y_stride, i, count, buffer_y)));
    }
    return FN(total_of)(total);
}

/* The largest of a block and `so_far`. NaNs may be passed over or kept, as the processor likes; any_nan tells. */
ALWAYS_INLINE vec FN(max_block)(int64_t n, const real *x, vec so_far, mask *any_nan)
{
    vec a = so_far, b = so_far;
    mask nan = *any_nan;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        vec x0 = FN(load)(x + i), x1 = FN(load)(x + i + LANES);
        a = FN(vec_max)(x0, a);
        b = FN(vec_max)(x1, b);
        nan |= (x0 != x0) | (x1 != x1);
    }
    for (; i < n; i += LANES) {
        vec rest = n - i >= LANES ? FN(load)(x + i) : FN(vec_load_part)(x + i, n - i, FN(broadcast)(-INFINITY));
        a = FN(vec_max)(rest, a);
        nan |= rest != rest;
    }
    *any_nan = nan;
    return FN(vec_max)(a, b);
}

static inline real FN(max_lane)(vec v)
{
    real lanes[LANES];
    FN(store)(lanes, v);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
    return lanes[0];
}

/* The largest number of a row, and whether there is a NaN (the maximum then is anything). */
ALWAYS_INLINE real FN(largest)(int64_t n, const real *x, int64_t x_stride, bool *any_nan)
{
    vec largest = FN(broadcast)(-INFINITY);
    mask nan = {0};
    real buffer[BLOCK];
    int64_t block = x_stride == 1 ? n : BLOCK;
    for (int64_t i = 0; i < n; i += block) {
        int64_t count = n - i < block ? n - i : block;
        largest = FN(max_block)(count, FN(block_of)(x, x_stride, i, count, buffer), largest, &nan);
    }
    *any_nan = false;
    for (int i = 0; i < LANES; i++)
        *any_nan |= nan[i] != 0;
    return FN(max_lane)(largest);
}

static double FN(maximum_of_row)(int64_t n, const void *x, int64_t x_stride)
{
    bool any_nan;
    double largest = (double)FN(largest)(n, x, x_stride, &any_nan);
    return any_nan ? NAN : largest;
}
