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

/* The largest and the least so far, lane by lane, and where there was a NaN. (NaNs may be passed over or kept in the
 * others, as the processor likes.) */
typedef struct FN(range) {
    vec largest, least;
    mask nan;
} FN(range);

ALWAYS_INLINE FN(range) FN(range_of_block)(int64_t n, const real *x, FN(range) r)
{
    vec largest = r.largest, least = r.least;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        vec x0 = FN(load)(x + i), x1 = FN(load)(x + i + LANES);
        r.largest = FN(vec_max)(x0, r.largest);
        largest = FN(vec_max)(x1, largest);
        r.least = FN(vec_min)(x0, r.least);
        least = FN(vec_min)(x1, least);
        r.nan |= (x0 != x0) | (x1 != x1);
    }
    for (; i < n; i += LANES) { /* lanes beyond the end repeat an element */
        vec rest = n - i >= LANES ? FN(load)(x + i) : FN(vec_load_part)(x + i, n - i, FN(broadcast)(x[i]));
        r.largest = FN(vec_max)(rest, r.largest);
        r.least = FN(vec_min)(rest, r.least);
        r.nan |= rest != rest;
    }
    r.largest = FN(vec_max)(largest, r.largest);
    r.least = FN(vec_min)(least, r.least);
    return r;
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

ALWAYS_INLINE FN(range) FN(range_of_row)(int64_t n, const real *x, int64_t x_stride)
{
    FN(range) r = {FN(broadcast)(-INFINITY), FN(broadcast)(INFINITY), {0}};
    real buffer[BLOCK];
    int64_t block = x_stride == 1 ? n : BLOCK;
    for (int64_t i = 0; i < n; i += block) {
        int64_t count = n - i < block ? n - i : block;
        r = FN(range_of_block)(count, FN(block_of)(x, x_stride, i, count, buffer), r);
    }
    return r;
}

static double FN(maximum_of_row)(int64_t n, const void *x, int64_t x_stride)
{
    FN(range) r = FN(range_of_row)(n, x, x_stride);
    for (int i = 0; i < LANES; i++)
        if (r.nan[i])
            return NAN;
    return (double)FN(max_lane)(r.largest);
}
