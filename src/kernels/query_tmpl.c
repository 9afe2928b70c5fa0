/* query_tmpl.c - one query's row at a time, along the keys: for decoding, where there is one query, or the few that
 * share a key head. Bound by reading keys and values, once and in order.
 *
 * The bits are those of a panel (panel_tmpl.c): each score has one accumulator and its columns ascend, the sum of
 * exponentials goes in four lanes by absolute key, and each column of the output has one accumulator and keys ascend.
 */

/* Queries whose scores are made from keys that have been turned once; blocks of keys under way side by side, half as
 * many where there are several queries; vectors of an output that stay in registers. */
enum { QUERY_ROWS = 4, KEY_BLOCKS = 4, VALUE_VECTORS = 8 };

/* Rows that are read side by side are no stream to a processor, and waiting for them costs half the speed: rows
 * first .. stop of the next block are asked for, line by line in the order in which they lie. */
enum { LINE = 64 / sizeof(real) };

ALWAYS_INLINE void FN(ask_for)(int64_t first, int64_t stop, int64_t d, const real *k, int64_t k_row)
{
    for (int64_t j = first; j < stop; j++)
        for (int64_t c = 0; c < d; c += LINE) /* beyond the last block there may be nothing, which does no harm */
            __builtin_prefetch((const void *)((uintptr_t)k + (uintptr_t)(j * k_row + c) * sizeof(real)));
}

/* Scores of LANES * blocks keys at most, `keys` of them there. */
ALWAYS_INLINE void FN(scores_of_keys)(int rows, int blocks, bool ask, int64_t keys, int64_t d, const real *q,
                                      const real *k, int64_t k_row, real *s, int64_t s_row)
{
    vec sum[QUERY_ROWS][KEY_BLOCKS];
    for (int i = 0; i < rows; i++)
        for (int b = 0; b < blocks; b++)
            sum[i][b] = (vec){0};
    const int64_t next = blocks * LANES;
    for (int64_t c = 0; c < d; c += LANES) {
        const int64_t columns = d - c < LANES ? d - c : LANES;
        if (ask)
            FN(ask_for)(next + next * c / d, next + next * (c + columns) / d, d, k, k_row);
        vec turned[KEY_BLOCKS][LANES];
        for (int b = 0; b < blocks; b++)
            FN(turn_block)(keys - b * LANES, columns, turned[b], k + b * LANES * k_row + c, k_row, 1);
        for (int64_t e = 0; e < columns; e++)
            for (int i = 0; i < rows; i++) {
                const vec left = FN(broadcast)(q[i * d + c + e]);
                for (int b = 0; b < blocks; b++)
                    sum[i][b] = FN(vec_fma)(turned[b][e], left, sum[i][b]);
            }
    }
    for (int i = 0; i < rows; i++)
        for (int b = 0; b < blocks; b++) {
            const int64_t left = keys - b * LANES;
            FN(vec_store_part)(s + i * s_row + b * LANES, left < LANES ? left : LANES, sum[i][b]);
        }
}

ALWAYS_INLINE void FN(scores_of_rows)(int rows, int blocks, bool ask, int64_t n, int64_t d, const real *q,
                                      const real *k, int64_t k_row, real *s, int64_t s_row)
{
    int64_t j = 0;
    for (; j + blocks * LANES <= n; j += blocks * LANES)
        FN(scores_of_keys)(rows, blocks, ask, blocks * LANES, d, q, k + j * k_row, k_row, s + j, s_row);
    for (; j < n; j += LANES)
        FN(scores_of_keys)(rows, 1, false, n - j < LANES ? n - j : LANES, d, q, k + j * k_row, k_row, s + j, s_row);
}

static void FN(query_scores)(int64_t rows, int64_t n, int64_t d, const void *queries, const void *keys, int64_t k_row,
                             void *scores, int64_t s_row)
{
    const real *q = queries;
    real *s = scores;
    for (; rows >= QUERY_ROWS; rows -= QUERY_ROWS, q += QUERY_ROWS * d, s += QUERY_ROWS * s_row)
        FN(scores_of_rows)(QUERY_ROWS, KEY_BLOCKS / 2, s == scores, n, d, q, keys, k_row, s, s_row);
    for (; rows > 0; rows--, q += d, s += s_row)
        FN(scores_of_rows)(1, KEY_BLOCKS, s == scores, n, d, q, keys, k_row, s, s_row);
}

typedef real FN(four) __attribute__((vector_size(SUM_LANES * sizeof(real)), aligned(sizeof(real)), may_alias));

static bool FN(query_softmax)(int64_t n, int64_t phase, void *scores, void *maximum, void *rescale, double *sum)
{
    real *s = scores, *m = maximum, part[2 * SUM_LANES + LANES] = {0};
    FN(range) range = {FN(broadcast)(-INFINITY), FN(broadcast)(INFINITY), {0}};
    range = FN(range_of_block)(n, s, range);
    const real before = *m, largest = FN(max_lane)(range.largest), now = largest > before ? largest : before;
    const real shift = now == -INFINITY ? 0 : now;
    const bool near = -FN(max_lane)(-range.least) - shift >= FN(exp_normal);
    const vec r = FN(exp_below)(FN(broadcast)(before - shift));
    FN(four) total = {0};
    for (int64_t j = 0; j < n; j += LANES) {
        const int64_t lanes = n - j < LANES ? n - j : LANES;
        const vec e = FN(exp_below)(FN(vec_load_part)(s + j, lanes, FN(broadcast)(-INFINITY)) - shift);
        FN(vec_store_part)(s + j, lanes, e);
    }
    int64_t j = (SUM_LANES - phase) % SUM_LANES;
    for (int64_t i = 0; i < j && i < n; i++)
        part[phase + i] = s[i];
    total += *(const FN(four) *)part;
    for (; j + SUM_LANES <= n; j += SUM_LANES)
        total += *(const FN(four) *)(s + j);
    for (int i = 0; j + i < n; i++)
        total[i] += s[j + i];
    *m = now;
    *(real *)rescale = r[0];
    *sum = *sum * (double)r[0] + (double)((total[0] + total[1]) + (total[2] + total[3]));
    return near;
}

ALWAYS_INLINE void FN(values_block)(int vectors, int64_t lanes, int64_t n, const real *p, const real *v, int64_t v_row,
                                    real *o, real rescale)
{
    vec sum[VALUE_VECTORS];
    for (int i = 0; i < vectors; i++)
        sum[i] = FN(tile_load)(o + i * LANES, lanes) * rescale;
    for (int64_t j = 0; j < n; j++, v += v_row)
        for (int i = 0; i < vectors; i++)
            sum[i] = FN(vec_fma)(FN(broadcast)(p[j]), FN(tile_load)(v + i * LANES, lanes), sum[i]);
    for (int i = 0; i < vectors; i++)
        if (lanes)
            FN(vec_store_part)(o + i * LANES, lanes, sum[i]);
        else
            FN(store)(o + i * LANES, sum[i]);
}

static void FN(query_values)(int64_t n, int64_t columns, const void *weights, const void *values, int64_t v_row,
                             void *output, double rescale)
{
    const real *p = weights, *v = values;
    real *o = output;
    int64_t c = 0;
    for (; c + VALUE_VECTORS * LANES <= columns; c += VALUE_VECTORS * LANES)
        FN(values_block)(VALUE_VECTORS, 0, n, p, v + c, v_row, o + c, (real)rescale);
    for (; c + LANES <= columns; c += LANES)
        FN(values_block)(1, 0, n, p, v + c, v_row, o + c, (real)rescale);
    if (c < columns)
        FN(values_block)(1, columns - c, n, p, v + c, v_row, o + c, (real)rescale);
}
