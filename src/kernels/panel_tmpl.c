/* panel_tmpl.c - the rows of fused attention: maximum, exponentials and sums, the derivative of softmax.
 *
 * A panel is a row of the tile product's blocks turned on its side: PANEL queries beside each other, one in each lane,
 * and below each other the keys (of scores) or the columns (of q, of an output): element j of query i is at
 * j * stride + i. So what belongs to a query never meets its neighbours, nothing is summed across lanes, and a query's
 * bits are those that it has alone. Which keys a query may see is an interval of its own, [first, stop).
 *
 * The sum over keys goes in four lanes, key j to lane j mod 4; each piece of a row begins at a multiple of 4.
 */

enum { PANEL = TILE_VECTORS * LANES, SUM_LANES = EXP_SEVERAL };

/* ---- Turning ------------------------------------------------------------------------------------------------------- */

#ifndef LEVEL_TURNS

/* Columns and rows of LANES x LANES numbers exchanged: each stage interleaves one half of the vectors with the other.
 */
ALWAYS_INLINE void FN(turn)(vec x[LANES])
{
    for (int stage = 1; stage < LANES; stage *= 2) {
        vec y[LANES];
        for (int i = 0; i < LANES / 2; i++) {
            y[2 * i] = FN(interleave_low)(x[i], x[i + LANES / 2]);
            y[2 * i + 1] = FN(interleave_high)(x[i], x[i + LANES / 2]);
        }
        memcpy(x, y, sizeof y);
    }
}

#endif

/* At most LANES rows and columns of x, turned: y[c] holds column c; zero where there is no row. */
ALWAYS_INLINE void FN(turn_block)(int64_t rows, int64_t columns, vec y[LANES], const real *x, int64_t x_row,
                                  int64_t x_column)
{
    if (rows >= LANES && columns == LANES && x_column == 1) {
        for (int i = 0; i < LANES; i++)
            y[i] = FN(load)(x + i * x_row);
    } else {
        for (int i = 0; i < LANES; i++) {
            real part[LANES] = {0};
            if (i < rows)
                FN(gather)(columns, part, x + i * x_row, x_column);
            y[i] = FN(load)(part);
        }
    }
    FN(turn)(y);
}

static void FN(panel_pack)(int64_t rows, int64_t columns, void *panel, int64_t stride, const void *x, int64_t x_row,
                           int64_t x_column, double factor)
{
    for (int64_t i = 0; i < PANEL; i += LANES) {
        real *to = (real *)panel + i;
        const real *from = (const real *)x + i * x_row;
        for (int64_t c = 0; c < columns; c += LANES) {
            int64_t count = columns - c < LANES ? columns - c : LANES;
            vec block[LANES];
            FN(turn_block)(rows - i, count, block, from + c * x_column, x_row, x_column);
            for (int k = 0; k < count; k++)
                FN(store)(to + (c + k) * stride, block[k] * (real)factor);
        }
    }
}

/* Rows of `count` numbers from a block that was turned: whole rows side by side, or any. */
ALWAYS_INLINE void FN(unpack_rows)(int64_t rows, int64_t count, real *y, int64_t y_row, int64_t y_column,
                                   const vec *block, bool add)
{
    for (int k = 0; k < LANES && k < rows; k++, y += y_row) {
        if (count == LANES && y_column == 1) {
            FN(store)(y, add ? FN(load)(y) + block[k] : block[k]);
            continue;
        }
        real part[LANES];
        FN(store)(part, block[k]);
        for (int64_t i = 0; i < count; i++)
            y[i * y_column] = add ? y[i * y_column] + part[i] : part[i];
    }
}

static void FN(panel_unpack)(int64_t rows, int64_t columns, void *y, int64_t y_row, int64_t y_column, const void *panel,
                             int64_t stride, const void *factors, bool add)
{
    for (int64_t i = 0; i < rows; i += LANES) {
        const real *from = (const real *)panel + i;
        const vec factor = FN(load)((const real *)factors + i);
        for (int64_t c = 0; c < columns; c += LANES) {
            const int64_t count = columns - c < LANES ? columns - c : LANES;
            real *to = (real *)y + i * y_row + c * y_column;
            vec block[LANES];
            if (count == LANES && rows - i >= LANES && y_column == 1 && !add) {
                for (int k = 0; k < LANES; k++)
                    block[k] = FN(load)(from + (c + k) * stride) * factor;
                FN(turn)(block);
                FN(unpack_rows)(LANES, LANES, to, y_row, 1, block, false);
                continue;
            }
            for (int k = 0; k < LANES; k++)
                block[k] = k < count ? FN(load)(from + (c + k) * stride) * factor : (vec){0};
            FN(turn)(block);
            FN(unpack_rows)(rows - i, count, to, y_row, y_column, block, add);
        }
    }
}

/* ---- Which keys ---------------------------------------------------------------------------------------------------- */

ALWAYS_INLINE mask FN(limit)(const int32_t *x)
{
    mask limit;
    for (int i = 0; i < LANES; i++)
        limit[i] = x[i];
    return limit;
}

/* The lanes that may see key j. */
ALWAYS_INLINE mask FN(within)(mask first, mask stop, int64_t j)
{
    const mask at = (mask){0} + (int32_t)j;
    return (first <= at) & (at < stop);
}

/* Scores of keys from..end that a lane may not see become -inf. */
ALWAYS_INLINE void FN(forbid)(int64_t from, int64_t end, real *s, int64_t stride, mask first, mask stop)
{
    for (int64_t j = from; j < end; j++)
        FN(store)
    (s + j * stride, FN(select)(FN(within)(first, stop, j), FN(load)(s + j * stride), FN(broadcast)(-INFINITY)));
}

static void FN(panel_forbid)(int64_t rows, int64_t n, void *scores, int64_t stride, const uint8_t *allowed,
                             int64_t allowed_row, int64_t allowed_column)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            if (!allowed[i * allowed_row + j * allowed_column])
                ((real *)scores)[j * stride + i] = -INFINITY;
}

static void FN(panel_allowed)(int64_t n, const void *scores, int64_t stride, const kernel_limits *limits,
                              uint8_t *allowed, int64_t allowed_stride)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < PANEL; i++) {
            bool within = !limits->first || (limits->first[i] <= j && j < limits->stop[i]);
            allowed[j * allowed_stride + i] = within && ((const real *)scores)[j * stride + i] != -INFINITY;
        }
}

/* ---- Forward ------------------------------------------------------------------------------------------------------- */

/* Lanes of nothing but -inf have nothing subtracted, so that their exponentials are 0. */
ALWAYS_INLINE vec FN(shift_of)(vec largest)
{
    return FN(select)(largest == FN(broadcast)(-INFINITY), (vec){0}, largest);
}

ALWAYS_INLINE void FN(range_of_rows)(int64_t from, int64_t end, const real *s, int64_t stride, FN(range) * range)
{
    FN(range) r = *range, other = *range;
    int64_t j = from;
    for (; j + 2 <= end; j += 2) {
        vec x0 = FN(load)(s + j * stride), x1 = FN(load)(s + (j + 1) * stride);
        r.largest = FN(vec_max)(x0, r.largest);
        other.largest = FN(vec_max)(x1, other.largest);
        r.least = FN(vec_min)(x0, r.least);
        other.least = FN(vec_min)(x1, other.least);
        range->nan |= (x0 != x0) | (x1 != x1);
    }
    if (j < end) {
        const vec x = FN(load)(s + j * stride);
        r.largest = FN(vec_max)(x, r.largest);
        r.least = FN(vec_min)(x, r.least);
        range->nan |= x != x;
    }
    range->largest = FN(vec_max)(other.largest, r.largest);
    range->least = FN(vec_min)(other.least, r.least);
}

/* The largest score, and the least of those that the lane may see. */
ALWAYS_INLINE void FN(range_of_edge)(int64_t from, int64_t end, real *s, int64_t stride, mask first, mask stop,
                                     FN(range) * range)
{
    FN(forbid)(from, end, s, stride, first, stop);
    for (int64_t j = from; j < end; j++) {
        vec x = FN(load)(s + j * stride);
        range->largest = FN(vec_max)(x, range->largest);
        range->least = FN(vec_min)(FN(select)(FN(within)(first, stop, j), x, FN(broadcast)(INFINITY)), range->least);
        range->nan |= x != x;
    }
}

/* A few rows at a time, in the shadow of the multiplications, into the second-level cache. */
ALWAYS_INLINE void FN(ask_for_rows)(int64_t count, kernel_ahead *ahead)
{
    for (; count > 0 && ahead->first < ahead->stop; count--, ahead->first++) {
        while (ahead->first >= ahead->rows->count) {
            ahead->first -= ahead->rows->count;
            ahead->stop -= ahead->rows->count;
            ahead->rows++;
        }
        const uintptr_t at = (uintptr_t)ahead->rows->at + (uintptr_t)(ahead->first * ahead->rows->row);
        for (int64_t line = 0; line < ahead->rows->bytes; line += 64)
            __builtin_prefetch((const void *)(at + (uintptr_t)line), 0, 2);
    }
}

/* Blocks of scores one below the other, and their range. */
ALWAYS_INLINE void FN(scores_down)(int rows, int64_t blocks, int64_t d, FN(strided) * k, FN(rows) queries,
                                   FN(result) * s, FN(range) * range, int64_t each, kernel_ahead *ahead)
{
    for (; blocks > 0; blocks--, k->at += rows * k->row, s->at += rows * s->row) {
        FN(ask_for_rows)(each, ahead);
        FN(tile_block)(rows, TILE_VECTORS, 0, d, *k, queries, *s, range);
    }
}

/* Where there was a NaN the least score is given as one. */
static void FN(panel_scores)(int64_t n, int64_t d, const void *keys, int64_t k_row, const void *queries,
                             int64_t q_stride, void *scores, int64_t stride, void *largest, void *least,
                             kernel_ahead *ahead)
{
    enum { MOST_AHEAD = 16 }; /* rows beside a block: more would not go unnoticed */
    FN(range) range[TILE_VECTORS];
    FN(strided) k = {keys, k_row, 1};
    FN(rows) q = {queries, q_stride};
    FN(result) s = {scores, stride, KERNEL_SUM_NEW};
    for (; d > SCORE_COLUMNS; d -= SCORE_COLUMNS) {
        FN(tile)(n, PANEL, SCORE_COLUMNS, k.at, k_row, 1, q.at, q_stride, scores, stride, s.sum);
        k.at += SCORE_COLUMNS;
        q.at += SCORE_COLUMNS * q_stride;
        s.sum = KERNEL_SUM_ADDED;
    }
    const bool high = FN(tile_is_high)(PANEL, d);
    const int64_t rows = high ? (int)TILE_ROWS : (int)TILE_FEW;
    const int64_t fits = high ? FN(tile_fits)(TILE_ROWS, n) : FN(tile_fits)(TILE_FEW, n);
    const int64_t rest = fits >= 0 ? 0 : n % rows, blocks = (n - (fits > 0 ? fits * TILE_FIT : 0)) / rows;
    const int64_t asked = ahead && blocks > 0 ? (ahead->stop - ahead->first + blocks - 1) / blocks : 0;
    const int64_t each = asked < MOST_AHEAD ? asked : MOST_AHEAD;
    for (int v = 0; v < TILE_VECTORS; v++)
        range[v] = (FN(range)){FN(broadcast)(-INFINITY), FN(broadcast)(INFINITY), {0}};
    if (high)
        FN(scores_down)(TILE_ROWS, blocks, d, &k, q, &s, range, each, ahead);
    else
        FN(scores_down)(TILE_FEW, blocks, d, &k, q, &s, range, each, ahead);
    if (TILE_FIT > 0)
        FN(scores_down)(TILE_FIT, fits, d, &k, q, &s, range, 0, NULL);
    FN(tile)(rest, PANEL, d, k.at, k_row, 1, q.at, q_stride, s.at, stride, s.sum);
    for (int v = 0; v < TILE_VECTORS; v++) {
        FN(range_of_rows)(0, rest, s.at + v * LANES, stride, &range[v]);
        FN(store)((real *)largest + v * LANES, range[v].largest);
        FN(store)((real *)least + v * LANES, FN(select)(range[v].nan, FN(broadcast)(NAN), range[v].least));
    }
}

static bool FN(panel_maximum)(int64_t n, void *scores, int64_t stride, const kernel_limits *limits, const void *largest,
                              const void *least, void *maximum, void *rescale)
{
    mask beyond = {0};
    for (int64_t i = 0; i < PANEL; i += LANES) {
        real *s = (real *)scores + i, *m = (real *)maximum + i;
        const vec before = FN(load)(m);
        FN(range) range = {before, FN(broadcast)(INFINITY), {0}};
        if (largest) {
            range.largest = FN(vec_max)(FN(load)((const real *)largest + i), before);
            range.least = FN(load)((const real *)least + i);
        } else {
            FN(range_of_rows)(limits->full_first, limits->full_stop, s, stride, &range);
        }
        if (limits->first) {
            const mask first = FN(limit)(limits->first + i), stop = FN(limit)(limits->stop + i);
            FN(range_of_edge)(0, limits->full_first, s, stride, first, stop, &range);
            FN(range_of_edge)(limits->full_stop, n, s, stride, first, stop, &range);
        }
        const vec shift = FN(shift_of)(range.largest);
        FN(store)(m, range.largest);
        FN(store)((real *)rescale + i, FN(exp_below)(before - shift));
        beyond |= ~(range.least - shift >= FN(exp_normal)) | range.nan;
    }
    return !FN(any_lane)(beyond);
}

/* s = e^(s - shift) in rows from..end, and the sums. `near`: see exp_of_near. */
ALWAYS_INLINE void FN(exp_rows)(int64_t from, int64_t end, real *s, int64_t stride, vec shift, bool near,
                                vec sum[SUM_LANES])
{
    int64_t j = from;
    for (; near && j + SUM_LANES <= end; j += SUM_LANES) {
        vec e[SUM_LANES];
        for (int k = 0; k < SUM_LANES; k++)
            e[k] = FN(load)(s + (j + k) * stride) - shift;
        FN(exp_of_several)(SUM_LANES, e);
        for (int k = 0; k < SUM_LANES; k++) {
            FN(store)(s + (j + k) * stride, e[k]);
            sum[k] += e[k];
        }
    }
    for (; j < end; j++) {
        vec e = FN(exp_below)(FN(load)(s + j * stride) - shift);
        FN(store)(s + j * stride, e);
        sum[j % SUM_LANES] += e;
    }
}

static void FN(panel_exponentials)(int64_t n, void *scores, int64_t stride, const kernel_limits *limits,
                                   const void *maximum, const void *rescale, double *sums, bool near)
{
    int64_t first = (limits->full_first + SUM_LANES - 1) / SUM_LANES * SUM_LANES, stop = limits->full_stop;
    if (!near || first >= stop)
        first = stop = n;
    for (int64_t i = 0; i < PANEL; i += LANES) {
        real *s = (real *)scores + i, part[LANES];
        const vec shift = FN(shift_of)(FN(load)((const real *)maximum + i));
        vec sum[SUM_LANES] = {{0}};
        FN(exp_rows)(0, first, s, stride, shift, false, sum);
        FN(exp_rows)(first, stop, s, stride, shift, true, sum);
        FN(exp_rows)(stop, n, s, stride, shift, false, sum);
        FN(store)(part, (sum[0] + sum[1]) + (sum[2] + sum[3]));
        for (int k = 0; k < LANES; k++)
            sums[i + k] = sums[i + k] * (double)((const real *)rescale)[i + k] + (double)part[k];
    }
}

static void FN(panel_multiply)(int64_t n, void *panel, int64_t stride, const void *factors)
{
    vec factor[TILE_VECTORS];
    for (int v = 0; v < TILE_VECTORS; v++)
        factor[v] = FN(load)((const real *)factors + v * LANES);
    for (int64_t j = 0; j < n; j++)
        for (int v = 0; v < TILE_VECTORS; v++) {
            real *x = (real *)panel + j * stride + v * LANES;
            FN(store)(x, FN(load)(x) * factor[v]);
        }
}

/* Within 2^20 the distances are exact whole numbers in either type; farther away they are rounded from whole numbers.
 */
static void FN(panel_distances)(int64_t n, void *panel, int64_t ahead)
{
    const int64_t exact = 1 << 20;
    real start[PANEL], *to = panel;
    bool near = ahead > -exact && ahead < exact - PANEL && n < exact;
    for (int64_t i = 0; i < PANEL; i++)
        start[i] = (real)(ahead + i);
    for (int64_t j = 0; j < n; j++, to += PANEL)
        for (int64_t i = 0; i < PANEL; i++)
            to[i] = near ? (real)fabs(start[i] - (real)j) : (real)llabs(ahead + i - j);
}

/* ---- Backward ------------------------------------------------------------------------------------------------------ */

/* A row of gradients, from probabilities. factor and soft may be NULL. */
ALWAYS_INLINE void FN(panel_slope_row)(real *s, real *dp, const real *factor, const real *soft, vec p, vec delta,
                                       vec rest)
{
    vec d = FN(load)(dp), kept = p;
    if (factor) {
        kept = p * FN(load)(factor);
        d *= FN(load)(factor);
    }
    d = p * ((d - delta) - rest);
    if (soft)
        d *= 1 - FN(load)(soft) * FN(load)(soft);
    FN(store)(s, kept);
    FN(store)(dp, (vec)((mask)d & ~(mask)((bits)p == 0)));
}

/* What belongs to a panel's queries: p = e^(score - m) / l, the inverse of l given. A row without keys has the maximum
 * -inf; its scores, all -inf too, stay as they are. Where m or l is NaN, `poisoned`, every p would be: but what a lane
 * may not see stays 0. */
typedef struct FN(panel_row) {
    vec m, inverse;
    bool poisoned;
} FN(panel_row);

/* The lanes from i on; what they may not see gets the score -inf. */
ALWAYS_INLINE FN(panel_row) FN(panel_enter)(int64_t i, int64_t n, real *s, int64_t stride, const kernel_limits *limits,
                                            const void *maximum, const void *inverses)
{
    const vec m = FN(shift_of)(FN(load)((const real *)maximum + i)), inverse = FN(load)((const real *)inverses + i);
    const FN(panel_row) row = {m, inverse, FN(any_lane)(m + inverse != m + inverse)};
    if (limits->first) {
        const mask first = FN(limit)(limits->first + i), stop = FN(limit)(limits->stop + i);
        FN(forbid)(0, limits->full_first, s, stride, first, stop);
        FN(forbid)(limits->full_stop, n, s, stride, first, stop);
    }
    return row;
}

ALWAYS_INLINE vec FN(panel_probability)(vec score, FN(panel_row) row)
{
    const vec p = FN(exp_below)(score - row.m) * row.inverse;
    return row.poisoned ? FN(select)(score == FN(broadcast)(-INFINITY), (vec){0}, p) : p;
}

/* A sum in twice the precision (Knuth's two-sum). */
typedef struct FN(twice) {
    vec sum, low;
} FN(twice);

ALWAYS_INLINE void FN(add_twice)(FN(twice) * t, vec x, vec x_low)
{
    const vec sum = t->sum + x, taken = sum - t->sum;
    t->low += ((t->sum - (sum - taken)) + (x - taken)) + x_low;
    t->sum = sum;
}

static void FN(panel_totals)(int64_t n, void *scores, const void *gradients, int64_t stride,
                             const kernel_limits *limits, const void *maximum, const void *inverses,
                             const void *factors, void *totals)
{
    for (int64_t i = 0; i < PANEL; i += LANES) {
        real *s = (real *)scores + i, *total = (real *)totals + i;
        const real *dp = (const real *)gradients + i, *f = factors ? (const real *)factors + i : NULL;
        const FN(panel_row) row = FN(panel_enter)(i, n, s, stride, limits, maximum, inverses);
        FN(twice) products = {FN(load)(total), FN(load)(total + PANEL)};
        FN(twice) weights = {FN(load)(total + 2 * PANEL), FN(load)(total + 3 * PANEL)};
        for (int64_t j = 0; j < n; j++) {
            const vec p = FN(panel_probability)(FN(load)(s + j * stride), row);
            const mask some = ~(mask)((bits)p == 0);
            vec d = FN(load)(dp + j * stride), low;
            d = (vec)((mask)(factors ? d * FN(load)(f + j * PANEL) : d) & some);
            const vec product = FN(vec_two_product)(p, d, &low);
            FN(add_twice)(&products, product, low);
            FN(add_twice)(&weights, p, (vec){0});
        }
        FN(store)(total, products.sum);
        FN(store)(total + PANEL, products.low);
        FN(store)(total + 2 * PANEL, weights.sum);
        FN(store)(total + 3 * PANEL, weights.low);
    }
}

ALWAYS_INLINE void FN(panel_slope_rows)(int64_t from, int64_t end, real *s, real *dp, int64_t stride,
                                        const real *factors, const real *soft, FN(panel_row) row, vec delta, vec rest)
{
    for (int64_t j = from; j < end; j++) {
        const vec p = FN(panel_probability)(FN(load)(s + j * stride), row);
        FN(panel_slope_row)
        (s + j * stride, dp + j * stride, factors ? factors + j * PANEL : NULL, soft ? soft + j * PANEL : NULL, p,
         delta, rest);
    }
}

/* The same of plain rows, some at once, unless some exponential is not a normal number. */
ALWAYS_INLINE void FN(panel_slopes_plain)(int64_t n, real *s, real *dp, int64_t stride, FN(panel_row) row, vec delta)
{
    int64_t j = 0;
    for (; j + EXP_SEVERAL <= n; j += EXP_SEVERAL) {
        vec p[EXP_SEVERAL];
        mask near = ~(mask){0};
        for (int k = 0; k < EXP_SEVERAL; k++) {
            p[k] = FN(load)(s + (j + k) * stride) - row.m;
            near &= p[k] >= FN(exp_normal);
        }
        if (FN(any_lane)(~near)) {
            FN(panel_slope_rows)(j, j + EXP_SEVERAL, s, dp, stride, NULL, NULL, row, delta, (vec){0});
            continue;
        }
        FN(exp_of_several)(EXP_SEVERAL, p);
        for (int k = 0; k < EXP_SEVERAL; k++) {
            real *to = dp + (j + k) * stride;
            p[k] *= row.inverse;
            FN(store)(to, p[k] * (FN(load)(to) - delta));
            FN(store)(s + (j + k) * stride, p[k]);
        }
    }
    FN(panel_slope_rows)(j, n, s, dp, stride, NULL, NULL, row, delta, (vec){0});
}

static void FN(panel_slopes)(int64_t n, void *scores, void *gradients, int64_t stride, const kernel_limits *limits,
                             const void *maximum, const void *inverses, const void *deltas, const void *rests,
                             const void *factors, const void *softened)
{
    for (int64_t i = 0; i < PANEL; i += LANES) {
        real *s = (real *)scores + i, *dp = (real *)gradients + i;
        const FN(panel_row) row = FN(panel_enter)(i, n, s, stride, limits, maximum, inverses);
        const vec delta = FN(load)((const real *)deltas + i);
        const real *f = factors ? (const real *)factors + i : NULL, *t = softened ? (const real *)softened + i : NULL;
        const vec rest = rests ? FN(load)((const real *)rests + i) : (vec){0};
        if (f || t || row.poisoned || rests)
            FN(panel_slope_rows)(0, n, s, dp, stride, f, t, row, delta, rest);
        else
            FN(panel_slopes_plain)(n, s, dp, stride, row, delta);
    }
}

/* ---- Where there are infinities or NaNs ------------------------------------------------------------------------------ */

static bool FN(panel_finite)(int64_t rows, int64_t columns, const void *x, int64_t x_row)
{
    enum { SUMS = 4 };
    vec sum[SUMS] = {{0}};
    real rest = 0;
    if (x_row == columns) {
        columns *= rows;
        rows = rows > 0;
    }
    for (int64_t i = 0; i < rows; i++) {
        const real *row = (const real *)x + i * x_row;
        int64_t c = 0;
        for (; c + SUMS * LANES <= columns; c += SUMS * LANES)
            for (int k = 0; k < SUMS; k++)
                sum[k] += FN(load)(row + c + k * LANES) * 0;
        for (; c + LANES <= columns; c += LANES)
            sum[0] += FN(load)(row + c) * 0;
        for (; c < columns; c++)
            rest += row[c] * 0;
    }
    sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (int i = 0; i < LANES; i++)
        rest += sum[0][i];
    return rest == 0;
}

static void FN(panel_add_by_query)(int64_t n, int64_t columns, void *sum, const uint8_t *allowed,
                                   int64_t allowed_stride, const void *weights, int64_t stride, const void *x,
                                   int64_t x_row, int64_t x_column)
{
    enum { SOME = 4 }; /* columns for which a mask is made once; where there are fewer, the first instead */
    for (int64_t i = 0; i < PANEL; i += LANES)
        for (int64_t c = 0; c < columns; c += SOME) {
            const int64_t count = columns - c < SOME ? columns - c : SOME;
            real *y = (real *)sum + c * PANEL + i;
            vec total[SOME] = {{0}};
            for (int64_t j = 0; j < n; j++) {
                mask may = {0};
                for (int k = 0; k < LANES; k++)
                    may[k] = -(int32_t)allowed[j * allowed_stride + i + k];
                const vec weight = FN(load)((const real *)weights + j * stride + i);
                const real *from = (const real *)x + j * x_row + c * x_column;
                for (int64_t e = 0; e < SOME; e++) {
                    const vec one = FN(broadcast)(from[e < count ? e * x_column : 0]);
                    total[e] = FN(select)(may, FN(vec_fma)(one, weight, total[e]), total[e]);
                }
            }
            for (int64_t e = 0; e < count; e++)
                FN(store)(y + e * PANEL, FN(load)(y + e * PANEL) + total[e]);
        }
}

static void FN(panel_add_by_key)(int64_t n, int64_t rows, int64_t columns, void *sum, int64_t sum_row,
                                 const uint8_t *allowed, int64_t allowed_stride, const void *weights, int64_t stride,
                                 const void *x, int64_t x_row)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t c = 0; c < columns; c += LANES) {
            const int64_t lanes = columns - c < LANES ? columns - c : LANES;
            real *y = (real *)sum + j * sum_row + c;
            vec total = {0};
            for (int64_t i = 0; i < rows; i++) {
                if (!allowed[j * allowed_stride + i])
                    continue;
                const vec weight = FN(broadcast)(((const real *)weights)[j * stride + i]);
                const real *from = (const real *)x + i * x_row + c;
                total = FN(vec_fma)(weight, FN(vec_load_part)(from, lanes, (vec){0}), total);
            }
            FN(vec_store_part)(y, lanes, FN(vec_load_part)(y, lanes, (vec){0}) + total);
        }
}
