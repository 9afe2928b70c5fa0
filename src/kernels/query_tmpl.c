/* query_tmpl.c - one query's row at a time, along the keys: for decoding, where there is one query, or the few that
 * share a key head. Bound by reading keys and values, once and in order.
 *
 * The bits are those of a panel (panel_tmpl.c): each score has one accumulator and its columns ascend, the sum of
 * exponentials goes in four lanes by absolute key, and each column of the output has one accumulator and keys ascend.
 */

/* Of one query, so many vectors of keys are turned side by side in registers. Of several, so many keys and columns are
 * turned into memory, where they stay in the first-level cache, and the tile product takes them from there for all
 * queries. What was read ahead of its use has to stay there too: 16 KiB of turned keys cost a tenth (Zen 5).
 *
 * Several outputs of so many vectors stay in registers, or one of VALUE_VECTORS: a value is read whole, since half of
 * each now and the other half later is no stream to a processor. Where registers are too few for that, the tile product
 * does it. */
#if VECTOR_BYTES == 64
enum { KEY_BLOCKS = 2, TURNED_KEYS = 2 * LANES, VALUE_ROWS = 4, VALUE_ROWS_VECTORS = 4 };
#else
enum { KEY_BLOCKS = 4, TURNED_KEYS = TILE_MOST * LANES, VALUE_ROWS = 0, VALUE_ROWS_VECTORS = 0 };
#endif
enum { TURNED_COLUMNS = 64, VALUE_VECTORS = 8 };

/* Rows that are read side by side are no stream either, and waiting for them costs half the speed. So of the keys some
 * way ahead as much is asked for as is turned, line by line in the order in which it lies. Beyond the last key there
 * may be nothing, which does no harm. */
typedef struct FN(ahead) {
    uintptr_t at;
    uintptr_t row, bytes; /* from key to key; of a key */
    uintptr_t owed;       /* bytes turned since the last key was asked for */
} FN(ahead);

ALWAYS_INLINE FN(ahead) FN(ahead_of)(const real *k, int64_t k_row, int64_t d)
{
    const uintptr_t row = (uintptr_t)k_row * sizeof(real);
    return (FN(ahead)){(uintptr_t)k + KEY_BLOCKS * LANES * row, row, (uintptr_t)d * sizeof(real), 0};
}

ALWAYS_INLINE void FN(ask_for)(FN(ahead) * ahead, int64_t turned)
{
    enum { LINE = 64 };
    ahead->owed += (uintptr_t)turned * sizeof(real);
    for (; ahead->owed >= ahead->bytes; ahead->owed -= ahead->bytes, ahead->at += ahead->row)
        for (uintptr_t line = 0; line < ahead->bytes; line += LINE)
            __builtin_prefetch((const void *)(ahead->at + line));
}

/* One query's scores of whole blocks of keys, d a multiple of LANES; how many these are. */
ALWAYS_INLINE int64_t FN(scores_of_one)(int64_t n, int64_t d, const real *q, const real *k, int64_t k_row, real *s)
{
    enum { KEYS = KEY_BLOCKS * LANES };
    FN(ahead) ahead = FN(ahead_of)(k, k_row, d);
    int64_t j = 0;
    for (; j + KEYS <= n; j += KEYS, k += KEYS * k_row) {
        vec sum[KEY_BLOCKS], turned[LANES];
        for (int b = 0; b < KEY_BLOCKS; b++)
            sum[b] = (vec){0};
        for (int64_t c = 0; c < d; c += LANES)
            for (int b = 0; b < KEY_BLOCKS; b++) {
                FN(ask_for)(&ahead, LANES * LANES);
                FN(turn_from)(turned, k + b * LANES * k_row + c, k_row);
                for (int e = 0; e < LANES; e++)
                    sum[b] = FN(vec_fma)(turned[e], FN(broadcast)(q[c + e]), sum[b]);
            }
        for (int b = 0; b < KEY_BLOCKS; b++)
            FN(store)(s + j + b * LANES, sum[b]);
    }
    return j;
}

static void FN(query_scores)(int64_t rows, int64_t n, int64_t d, const void *queries, const void *keys, int64_t k_row,
                             void *scores, int64_t s_row)
{
    const real *q = queries, *k = keys;
    real *s = scores, turned[TURNED_COLUMNS * TURNED_KEYS] __attribute__((aligned(VECTOR_BYTES)));
    int64_t j = rows == 1 && d % LANES == 0 ? FN(scores_of_one)(n, d, q, k, k_row, s) : 0;
    FN(ahead) ahead = FN(ahead_of)(k + j * k_row, k_row, d);
    for (; j < n; j += TURNED_KEYS) {
        const int64_t count = n - j < TURNED_KEYS ? n - j : TURNED_KEYS;
        for (int64_t c = 0; c < d; c += TURNED_COLUMNS) {
            const int64_t columns = d - c < TURNED_COLUMNS ? d - c : TURNED_COLUMNS;
            for (int64_t i = 0; i < count; i += LANES)
                for (int64_t e = 0; e < columns; e += LANES) {
                    const int64_t some = columns - e < LANES ? columns - e : LANES;
                    vec block[LANES];
                    FN(ask_for)(&ahead, LANES * some);
                    FN(turn_block)(count - i, some, block, k + (j + i) * k_row + c + e, k_row, 1);
                    for (int l = 0; l < LANES; l++)
                        FN(store)(turned + (e + l) * TURNED_KEYS + i, block[l]);
                }
            FN(tile)(rows, count, columns, q + c, d, 1, turned, TURNED_KEYS, s + j, s_row, c > 0);
        }
    }
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

/* outputs += weights . values, for so many rows and vectors of columns; only the first `lanes` lanes of these are
 * there, where that is not 0. */
ALWAYS_INLINE void FN(values_block)(int rows, int vectors, int64_t lanes, int64_t n, FN(rows) p, FN(rows) v, real *o,
                                    int64_t o_row)
{
    vec sum[VALUE_ROWS + 1][VALUE_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int b = 0; b < vectors; b++)
            sum[i][b] = FN(tile_load)(o + i * o_row + b * LANES, lanes);
    for (int64_t j = 0; j < n; j++, v.at += v.row)
        for (int b = 0; b < vectors; b++) {
            const vec value = FN(tile_load)(v.at + b * LANES, lanes);
            for (int i = 0; i < rows; i++)
                sum[i][b] = FN(vec_fma)(FN(broadcast)(p.at[i * p.row + j]), value, sum[i][b]);
        }
    for (int i = 0; i < rows; i++)
        for (int b = 0; b < vectors; b++)
            if (lanes)
                FN(vec_store_part)(o + i * o_row + b * LANES, lanes, sum[i][b]);
            else
                FN(store)(o + i * o_row + b * LANES, sum[i][b]);
}

/* Blocks of columns from c on, as long as there are whole ones; where they end. */
ALWAYS_INLINE int64_t FN(values_along)(int rows, int vectors, int64_t c, int64_t columns, int64_t n, FN(rows) p,
                                       FN(rows) v, real *o, int64_t o_row)
{
    for (; c + vectors * LANES <= columns; c += vectors * LANES)
        FN(values_block)(rows, vectors, 0, n, p, (FN(rows)){v.at + c, v.row}, o + c, o_row);
    return c;
}

static void FN(query_values)(int64_t rows, int64_t n, int64_t columns, const void *weights, int64_t w_row,
                             const void *values, int64_t v_row, void *outputs, int64_t o_row)
{
    FN(rows) p = {weights, w_row}, v = {values, v_row};
    real *o = outputs;
    for (; VALUE_ROWS && rows >= VALUE_ROWS; rows -= VALUE_ROWS, p.at += VALUE_ROWS * w_row, o += VALUE_ROWS * o_row) {
        const int64_t c = FN(values_along)(VALUE_ROWS, VALUE_ROWS_VECTORS, 0, columns, n, p, v, o, o_row);
        FN(tile)(VALUE_ROWS, columns - c, n, p.at, w_row, 1, v.at + c, v_row, o + c, o_row, true);
    }
    if (rows == 1) {
        int64_t c = FN(values_along)(1, VALUE_VECTORS, 0, columns, n, p, v, o, 0);
        c = FN(values_along)(1, VALUE_VECTORS / 2, c, columns, n, p, v, o, 0);
        c = FN(values_along)(1, 1, c, columns, n, p, v, o, 0);
        if (c < columns)
            FN(values_block)(1, 1, columns - c, n, p, (FN(rows)){v.at + c, v_row}, o + c, 0);
    } else {
        FN(tile)(rows, columns, n, p.at, w_row, 1, v.at, v_row, o, o_row, true);
    }
}
