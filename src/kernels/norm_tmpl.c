/* norm_tmpl.c - LayerNorm and RMSNorm of a row, and their derivative.
 *
 * Mean and mean square are taken in double, of what is left when something near the mean is subtracted; the squares
 * are corrected for the rest. In f32 that is the row's first element: it is at most sqrt(n) standard deviations away,
 * so that its square takes n 2^-53 from the squares' accuracy, and they cannot overflow. In f64 it is the mean, which
 * is off by its rounding alone. What does not fill a group is summed one by one.
 */

typedef struct FN(moments) {
    double sum, squares;
} FN(moments);

ALWAYS_INLINE FN(moments) FN(moments_of)(int64_t n, const real *x, double near)
{
    vec_f64 sum[4] = {{0}, {0}, {0}, {0}}, squares[4] = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        for (int k = 0; k < 4; k++) {
            vec_f64 d = FN(load_wide)(x + i + k * WIDE) - near;
            sum[k] += d;
            squares[k] = vec_fma_f64(d, d, squares[k]);
        }
    FN(moments)
    m = {FN(sum_lanes)((sum[0] + sum[1]) + (sum[2] + sum[3])),
         FN(sum_lanes)((squares[0] + squares[1]) + (squares[2] + squares[3]))};
    for (; i < n; i++) {
        double d = (double)x[i] - near;
        m.sum += d;
        m.squares += d * d;
    }
    return m;
}

typedef struct FN(norm) {
    vec mean, rest, scale;
} FN(norm);

ALWAYS_INLINE FN(norm) FN(norm_of)(const real *kept)
{
    return (FN(norm)){FN(broadcast)(kept[0]), FN(broadcast)(kept[1]), FN(broadcast)(kept[2])};
}

ALWAYS_INLINE vec FN(normalised)(vec x, FN(norm) by)
{
    return ((x - by.mean) - by.rest) * by.scale;
}

/* Up to LANES elements: all of them where n >= LANES, then 0. */
ALWAYS_INLINE vec FN(load_some)(const real *x, int64_t n)
{
    return n >= LANES ? FN(load)(x) : FN(vec_load_part)(x, n, FN(broadcast)(0));
}

ALWAYS_INLINE void FN(store_some)(real *y, int64_t n, vec v)
{
    if (n >= LANES)
        FN(store)(y, v);
    else
        FN(vec_store_part)(y, n, v);
}

ALWAYS_INLINE void FN(norm_part)(int64_t n, real *y, const real *x, const real *gain, const real *shift, FN(norm) by)
{
    vec v = FN(normalised)(FN(load_some)(x, n), by);
    if (gain && shift)
        v = FN(vec_fma)(v, FN(load_some)(gain, n), FN(load_some)(shift, n));
    else if (gain)
        v *= FN(load_some)(gain, n);
    else if (shift)
        v += FN(load_some)(shift, n);
    FN(store_some)(y, n, v);
}

ALWAYS_INLINE void FN(norm_row)(int64_t n, real *y, const real *x, const real *gain, const real *shift, FN(norm) by)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        FN(norm_part)(LANES, y + i, x + i, gain ? gain + i : NULL, shift ? shift + i : NULL, by);
    if (i < n)
        FN(norm_part)(n - i, y + i, x + i, gain ? gain + i : NULL, shift ? shift + i : NULL, by);
}

static void FN(norm_forward)(int64_t n, void *y, const void *x, const void *gain, const void *shift, double eps,
                             bool centred, void *kept_numbers)
{
    real *kept = kept_numbers;
    double near = !centred ? 0 : sizeof(real) == sizeof(double) ? FN(sum)(n, x, 1) / (double)n : *(const real *)x;
    FN(moments) m = FN(moments_of)(n, x, near);
    double rest = centred ? m.sum / (double)n : 0, variance = m.squares / (double)n - rest * rest;
    kept[0] = (real)(near + rest);
    kept[1] = (real)((near - (double)kept[0]) + rest);
    kept[2] = (real)(1 / sqrt((variance < 0 ? 0 : variance) + eps));
    FN(norm_row)(n, y, x, gain, shift, FN(norm_of)(kept));
}

/* ---- Derivative -------------------------------------------------------------------------------------------------- */

/* Sums of dh and dh h, lane by lane, of one block. */
typedef struct FN(norm_sums) {
    vec plain, along;
} FN(norm_sums);

ALWAYS_INLINE void FN(norm_sum_part)(FN(norm_sums) * s, int64_t n, const real *x, const real *dy, const real *gain,
                                     FN(norm) by)
{
    vec dh = FN(load_some)(dy, n), at = n >= LANES ? FN(load)(x) : FN(vec_load_part)(x, n, by.mean);
    if (gain)
        dh *= FN(load_some)(gain, n);
    s->plain += dh;
    s->along = FN(vec_fma)(dh, FN(normalised)(at, by), s->along);
}

ALWAYS_INLINE FN(moments) FN(norm_sums_of)(int64_t n, const real *x, const real *dy, const real *gain, FN(norm) by)
{
    FN(moments) m = {0};
    for (int64_t start = 0; start < n; start += BLOCK) {
        int64_t end = n - start < BLOCK ? n : start + BLOCK, i = start;
        FN(norm_sums) a = {{0}, {0}}, b = {{0}, {0}};
        for (; i + 2 * LANES <= end; i += 2 * LANES) {
            FN(norm_sum_part)(&a, LANES, x + i, dy + i, gain ? gain + i : NULL, by);
            FN(norm_sum_part)(&b, LANES, x + i + LANES, dy + i + LANES, gain ? gain + i + LANES : NULL, by);
        }
        if (i < end)
            FN(norm_sum_part)(&a, end - i, x + i, dy + i, gain ? gain + i : NULL, by);
        if (i + LANES < end)
            FN(norm_sum_part)(&b, end - i - LANES, x + i + LANES, dy + i + LANES, gain ? gain + i + LANES : NULL, by);
        m.sum += FN(sum_pair)(a.plain, b.plain);
        m.squares += FN(sum_pair)(a.along, b.along);
    }
    return m;
}

/* What one pass over the row writes; NULL where nothing is wanted. */
typedef struct FN(norm_slope) {
    const real *x, *dy, *gain;
    real *dx, *dgain, *dshift;
    FN(norm) by;
    vec mean, along; /* of dh, of dh h */
} FN(norm_slope);

ALWAYS_INLINE void FN(norm_slope_part)(const FN(norm_slope) * s, int64_t i, int64_t n, bool add)
{
    vec dy = FN(load_some)(s->dy + i, n), h = FN(normalised)(FN(load_some)(s->x + i, n), s->by);
    if (s->dgain)
        FN(store_some)(s->dgain + i, n, FN(vec_fma)(dy, h, FN(load_some)(s->dgain + i, n)));
    if (s->dshift)
        FN(store_some)(s->dshift + i, n, FN(load_some)(s->dshift + i, n) + dy);
    if (!s->dx)
        return;
    vec dh = s->gain ? dy * FN(load_some)(s->gain + i, n) : dy;
    vec dx = FN(vec_fma)(-h, s->along, dh - s->mean) * s->by.scale;
    FN(store_some)(s->dx + i, n, add ? FN(load_some)(s->dx + i, n) + dx : dx);
}

ALWAYS_INLINE void FN(norm_slope_row)(int64_t n, FN(norm_slope) s, bool add)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        FN(norm_slope_part)(&s, i, LANES, add);
    if (i < n)
        FN(norm_slope_part)(&s, i, n - i, add);
}

static void FN(norm_backward)(int64_t n, void *dx, bool add, const void *x, const void *dy, const void *gain,
                              bool centred, const void *kept, void *dgain, void *dshift)
{
    FN(norm_slope) s = {.x = x, .dy = dy, .gain = gain, .dx = dx, .dgain = dgain, .dshift = dshift};
    s.by = FN(norm_of)(kept);
    if (dx) {
        FN(moments) m = FN(norm_sums_of)(n, x, dy, gain, s.by);
        s.mean = FN(broadcast)(centred ? (real)(m.sum / (double)n) : 0);
        s.along = FN(broadcast)((real)(m.squares / (double)n));
    }
    FN(norm_slope_row)(n, s, add);
}
