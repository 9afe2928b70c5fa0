/* query_tmpl.c - one query's row at a time, along the keys: for decoding, where there is one query, or the few that
 * share a key head. Bound by reading keys and values, once and in order.
 *
 * The bits are those of a panel (panel_tmpl.c): each score has one accumulator for every SCORE_COLUMNS columns and
 * these ascend, the sum of exponentials goes in four lanes by absolute key, and of the keys that it is given each
 * column of the output has one accumulator, and keys ascend.
 */

/* Of one query, so many vectors of keys are turned side by side in registers; of QUERY_ROWS, half as many. Where that
 * is one, several take keys that are turned into memory, so many and so many columns at most: these stay in the
 * first-level cache, and the tile product takes them from there for all queries.
 *
 * Several outputs of so many vectors stay in registers, or one of VALUE_VECTORS: a value is read whole, since half of
 * each now and the other half later is no stream to a processor. Where that needs several goes, for more columns or
 * more rows, VALUE_BYTES of values stay in the first-level cache meanwhile. Where registers are too few for several
 * outputs, the tile product does it. */
#if VECTOR_BYTES == 64
enum { QUERY_ROWS = 1, KEY_BLOCKS = 1, TURNED_KEYS = 2 * LANES, VALUE_ROWS = 4, VALUE_ROWS_VECTORS = 4 };
#else
enum { QUERY_ROWS = 4, KEY_BLOCKS = 4, TURNED_KEYS = TILE_MOST * LANES, VALUE_ROWS = 0, VALUE_ROWS_VECTORS = 0 };
#endif
enum { TURNED_COLUMNS = 64, VALUE_VECTORS = 8, VALUE_BYTES = 16384, VALUE_LEAST = 8 };
_Static_assert(SCORE_COLUMNS % TURNED_COLUMNS == 0 && SCORE_COLUMNS % LANES == 0, "a score's sum ends with a block");

/* Rows that are read side by side are no stream either, and waiting for them costs half the speed. So of the rows some
 * way ahead as much is asked for as is done, line by line in the order in which it lies. Beyond the last row there may
 * be nothing, which does no harm. */
typedef struct FN(ahead) {
    uintptr_t at;
    uintptr_t row, bytes; /* from row to row; of a row */
    int64_t work, owed;   /* of a row; done since the last row was asked for */
} FN(ahead);

ALWAYS_INLINE FN(ahead) FN(ahead_of)(const real *x, int64_t x_row, int64_t columns, int64_t rows, int64_t work)
{
    const uintptr_t row = (uintptr_t)x_row * sizeof(real);
    return (FN(ahead)){(uintptr_t)x + (uintptr_t)rows * row, row, (uintptr_t)columns * sizeof(real), work, 0};
}

ALWAYS_INLINE void FN(ask_for)(FN(ahead) * ahead, int64_t work)
{
    enum { LINE = 64 };
    for (ahead->owed += work; ahead->owed >= ahead->work; ahead->owed -= ahead->work, ahead->at += ahead->row)
        for (uintptr_t line = 0; line < ahead->bytes; line += LINE)
            __builtin_prefetch((const void *)(ahead->at + line));
}

/* How many keys ahead: a block of those that are read side by side, and 8 KiB (Zen 5; a block is that much already on
 * Zen 3). */
ALWAYS_INLINE int64_t FN(keys_ahead)(int64_t block, int64_t d)
{
    if (VECTOR_BYTES != 64)
        return block;
    const int64_t keys = 8192 / (int64_t)sizeof(real) / d;
    return keys > block ? keys : block;
}

/* Scores of n keys, whole blocks of them, d a multiple of LANES. */
ALWAYS_INLINE void FN(scores_of_keys)(int rows, int blocks, bool ask, int64_t n, int64_t d, const real *q,
                                      const real *k, int64_t k_row, real *s, int64_t s_row)
{
    const int64_t keys = blocks * LANES;
    FN(ahead) ahead = FN(ahead_of)(k, k_row, d, FN(keys_ahead)(keys, d), d);
    for (int64_t j = 0; j < n; j += keys, k += keys * k_row) {
        vec sum[QUERY_ROWS][KEY_BLOCKS] = {{{0}}}, before[QUERY_ROWS][KEY_BLOCKS] = {{{0}}};
        for (int64_t c = 0; c < d; c += LANES) {
            vec turned[KEY_BLOCKS][LANES];
            for (int i = 0; c > 0 && c % SCORE_COLUMNS == 0 && i < rows; i++)
                for (int b = 0; b < blocks; b++) {
                    before[i][b] += sum[i][b];
                    sum[i][b] = (vec){0};
                }
            if (ask)
                FN(ask_for)(&ahead, keys * LANES);
            for (int b = 0; b < blocks; b++)
                FN(turn_from)(turned[b], k + b * LANES * k_row + c, k_row);
            for (int e = 0; e < LANES; e++)
                for (int i = 0; i < rows; i++) {
                    const vec left = FN(broadcast)(q[i * d + c + e]);
                    for (int b = 0; b < blocks; b++)
                        sum[i][b] = FN(vec_fma)(turned[b][e], left, sum[i][b]);
                }
        }
        for (int i = 0; i < rows; i++)
            for (int b = 0; b < blocks; b++)
                FN(store)(s + i * s_row + j + b * LANES, before[i][b] + sum[i][b]);
    }
}

/* The same of any keys and columns. */
static void FN(scores_from_memory)(int64_t rows, int64_t n, int64_t d, const real *q, const real *k, int64_t k_row,
                                   real *s, int64_t s_row)
{
    real turned[TURNED_COLUMNS * TURNED_KEYS] __attribute__((aligned(VECTOR_BYTES)));
    FN(ahead) ahead = FN(ahead_of)(k, k_row, d, FN(keys_ahead)(KEY_BLOCKS * LANES, d), d);
    /* Of wide keys fewer at once: these, those ahead and what is turned have to be in the first-level cache together.
     */
    const int64_t strip = FN(keys_ahead)(LANES, d) < TURNED_KEYS ? LANES : TURNED_KEYS;
    for (int64_t j = 0; j < n; j += strip) {
        const int64_t count = n - j < strip ? n - j : strip;
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
            FN(tile)
            (rows, count, columns, q + c, d, 1, turned, TURNED_KEYS, s + j, s_row,
             c == 0                   ? KERNEL_SUM_NEW
             : c % SCORE_COLUMNS == 0 ? KERNEL_SUM_ADDED
                                      : KERNEL_SUM_GOES_ON);
        }
    }
}

static void FN(query_scores)(int64_t rows, int64_t n, int64_t d, const void *queries, const void *keys, int64_t k_row,
                             void *scores, int64_t s_row)
{
    const real *q = queries, *k = keys;
    real *s = scores;
    const bool in_registers = d % LANES == 0 && (rows == 1 || QUERY_ROWS > 1);
    const int64_t whole = in_registers ? n - n % (KEY_BLOCKS * LANES) : 0;
    int64_t i = whole > 0 ? 0 : rows;
    if (QUERY_ROWS > 1 && i + QUERY_ROWS <= rows) {
        FN(scores_of_keys)(QUERY_ROWS, KEY_BLOCKS / 2, true, whole, d, q, k, k_row, s, s_row);
        for (i = QUERY_ROWS; i + QUERY_ROWS <= rows; i += QUERY_ROWS)
            FN(scores_of_keys)(QUERY_ROWS, KEY_BLOCKS / 2, false, whole, d, q + i * d, k, k_row, s + i * s_row, s_row);
    }
    for (; i < rows; i++)
        FN(scores_of_keys)(1, KEY_BLOCKS, true, whole, d, q + i * d, k, k_row, s + i * s_row, s_row);
    if (whole < n)
        FN(scores_from_memory)(rows, n - whole, d, q, k + whole * k_row, k_row, s + whole, s_row);
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
 * there, where that is not 0. Asks for what is ahead if that has any work. */
ALWAYS_INLINE void FN(values_block)(int rows, int vectors, int64_t lanes, int64_t n, FN(rows) p, FN(rows) v, real *o,
                                    int64_t o_row, FN(ahead) * ahead)
{
    vec sum[VALUE_ROWS + 1][VALUE_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int b = 0; b < vectors; b++)
            sum[i][b] = FN(tile_load)(o + i * o_row + b * LANES, lanes);
    for (int64_t j = 0; j < n; j++, v.at += v.row) {
        if (ahead->work)
            FN(ask_for)(ahead, rows * vectors * LANES);
        for (int b = 0; b < vectors; b++) {
            const vec value = FN(tile_load)(v.at + b * LANES, lanes);
            for (int i = 0; i < rows; i++)
                sum[i][b] = FN(vec_fma)(FN(broadcast)(p.at[i * p.row + j]), value, sum[i][b]);
        }
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
                                       FN(rows) v, real *o, int64_t o_row, FN(ahead) * ahead)
{
    for (; c + vectors * LANES <= columns; c += vectors * LANES)
        FN(values_block)(rows, vectors, 0, n, p, (FN(rows)){v.at + c, v.row}, o + c, o_row, ahead);
    return c;
}

ALWAYS_INLINE void FN(values_of_keys)(int64_t rows, int64_t n, int64_t columns, FN(rows) p, FN(rows) v, real *o,
                                      int64_t o_row, FN(ahead) * ahead)
{
    for (; VALUE_ROWS > 0 && rows >= VALUE_ROWS;
         rows -= VALUE_ROWS, p.at += VALUE_ROWS * p.row, o += VALUE_ROWS * o_row) {
        const int64_t c = FN(values_along)(VALUE_ROWS, VALUE_ROWS_VECTORS, 0, columns, n, p, v, o, o_row, ahead);
        FN(tile)(VALUE_ROWS, columns - c, n, p.at, p.row, 1, v.at + c, v.row, o + c, o_row, KERNEL_SUM_GOES_ON);
    }
    if (rows != 1) {
        FN(tile)(rows, columns, n, p.at, p.row, 1, v.at, v.row, o, o_row, KERNEL_SUM_GOES_ON);
        return;
    }
    int64_t c = FN(values_along)(1, VALUE_VECTORS, 0, columns, n, p, v, o, 0, ahead);
    c = FN(values_along)(1, VALUE_VECTORS / 2, c, columns, n, p, v, o, 0, ahead);
    c = FN(values_along)(1, VALUE_VECTORS / 4, c, columns, n, p, v, o, 0, ahead);
    c = FN(values_along)(1, 1, c, columns, n, p, v, o, 0, ahead);
    if (c < columns)
        FN(values_block)(1, 1, columns - c, n, p, (FN(rows)){v.at + c, v.row}, o + c, 0, ahead);
}

static void FN(query_values)(int64_t rows, int64_t n, int64_t columns, const void *weights, int64_t w_row,
                             const void *values, int64_t v_row, void *outputs, int64_t o_row)
{
    FN(rows) p = {weights, w_row}, v = {values, v_row};
    FN(ahead) ahead = {0};
    int64_t some = n;
    if (VALUE_ROWS > 0 && columns > 0 &&
        (rows > VALUE_ROWS || columns > LANES * (rows > 1 ? VALUE_ROWS_VECTORS : VALUE_VECTORS))) {
        some = VALUE_BYTES / (int64_t)sizeof(real) / columns;
        some = some < VALUE_LEAST ? VALUE_LEAST : some;
        ahead = FN(ahead_of)(v.at, v_row, columns, some, rows * columns);
    }
    for (; n > 0; n -= some, p.at += some, v.at += some * v_row)
        FN(values_of_keys)(rows, n < some ? n : some, columns, p, v, outputs, o_row, &ahead);
}
