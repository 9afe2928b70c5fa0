/* tile_tmpl.c - C = A B, or C with it, on tiles that live in cache: the product of fused kernels and of batch-invariant
 * graphs.
 *
 * A block of rows x vectors of C stays in registers while k ascends, and every element has one accumulator, which
 * starts at 0, or at C's element where its sum goes on. So
 *
 *   - an element's bits depend on its row of A, its column of B and what it is added to; not on m, n, or its place;
 *   - a sum may go on where it stopped: products over k = 0..p and then, going on, over p..q have the bits of one over
 *     0..q. Whoever cuts k into ascending pieces so changes nothing.
 *
 * Blocks go along the rows of C: down its columns, which are often a power of two apart, a cache keeps few lines.
 */

/* TILE_ROWS x TILE_VECTORS accumulators, TILE_VECTORS of B and one of A: of 32 registers, or of 16. Blocks are narrow,
 * so that fused attention's panels, which are as wide, have little to leave out at the diagonal. */
#if VECTOR_BYTES == 64 || defined(__aarch64__)
enum { TILE_ROWS = 12, TILE_VECTORS = 2 };
#else
enum { TILE_ROWS = 6, TILE_VECTORS = 2 };
#endif

/* Of few rows, blocks are wider: a sum takes 4 cycles to be ready for its next step, so that of two multiplications a
 * cycle 8 sums are the least. One row alone is 4 times as wide, and then as fast as B comes out of its cache. */
enum { TILE_FEW = 6, TILE_MOST = 4 * TILE_VECTORS };

/* The steps that a block's upper half ends with before the lower half does: its stores go out between multiplications.
 * All stores of a block at its end cost 20 cycles, so cut they cost 6 (Zen 3). With 64-byte vectors blocks of half the
 * height are there beside the others: 24 stores one after the other cost 19 cycles, 12 of them 4 (Zen 5). From some
 * number of steps on it is worth more to read B half as often (kernel_high_from, level.h). */
#if VECTOR_BYTES == 64
enum { TILE_LAST = 0, TILE_HAS_LOW = 1, TILE_FIT = 8 };
#else
enum { TILE_LAST = 4, TILE_HAS_LOW = 0, TILE_FIT = 0 };
#endif

/* A score, or any product of a key and a query, is summed over so many columns and added to what those before it came
 * to: long sums lose more. With AVX2's few registers a product has half the work between its beginning and its end, and
 * d = 128 would take 4 % longer; without multiply-adds, as on the plain level, sums lose most. */
enum { NEVER_CUT = 1 << 30, SCORE_COLUMNS = VECTOR_BYTES == 32 ? NEVER_CUT : 64 };

/* Matrices, from some element on: any strides, rows to read, rows to write. */
typedef struct FN(strided) {
    const real *at;
    int64_t row, column;
} FN(strided);

typedef struct FN(rows) {
    const real *at;
    int64_t row;
} FN(rows);

typedef struct FN(result) {
    real *at;
    int64_t row;
    kernel_sum sum;
} FN(result);

/* A vector of B or C; only its first `lanes` lanes are there, where that is not 0. */
ALWAYS_INLINE vec FN(tile_load)(const real *x, int64_t lanes)
{
    return lanes ? FN(vec_load_part)(x, lanes, (vec){0}) : FN(load)(x);
}

ALWAYS_INLINE void FN(tile_store)(int first, int end, int vectors, int64_t lanes, FN(result) c, vec sum[][TILE_MOST])
{
    for (int i = first; i < end && c.sum == KERNEL_SUM_ADDED; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] += FN(tile_load)(c.at + i * c.row + j * LANES, lanes);
    for (int i = first; i < end; i++)
        for (int j = 0; j < vectors; j++)
            if (lanes)
                FN(vec_store_part)(c.at + i * c.row + j * LANES, lanes, sum[i][j]);
            else
                FN(store)(c.at + i * c.row + j * LANES, sum[i][j]);
}

/* sum += A B in rows first..end of a block. Rows and vectors are constants wherever this is inlined. */
ALWAYS_INLINE void FN(tile_steps)(int first, int end, int vectors, int64_t lanes, int64_t depth, FN(strided) a,
                                  FN(rows) b, vec sum[][TILE_MOST])
{
    vec left[TILE_ROWS], right[TILE_ROWS];
    const bool wide = vectors > end - first; /* then registers hold a column of A, else a row of B */
    /* Two pointers, so that the distances of 12 rows fit into registers: GCC keeps some of 11 in those of vectors. */
    const real *upper = a.at, *lower = a.at + (end > TILE_FEW ? TILE_FEW * a.row : 0);
    for (; depth > 0; depth--, upper += a.column, lower += a.column, b.at += b.row) {
        for (int i = first; i < end && wide; i++)
            left[i] = FN(broadcast)(upper[i * a.row]);
        for (int j = 0; j < vectors && wide; j++) {
            vec one = FN(tile_load)(b.at + j * LANES, lanes);
            for (int i = first; i < end; i++)
                sum[i][j] = FN(vec_fma)(left[i], one, sum[i][j]);
        }
        for (int j = 0; j < vectors && !wide; j++)
            right[j] = FN(tile_load)(b.at + j * LANES, lanes);
        for (int i = first; i < end && !wide; i++) {
            vec one = FN(broadcast)(i < TILE_FEW ? upper[i * a.row] : lower[(i - TILE_FEW) * a.row]);
            for (int j = 0; j < vectors; j++)
                sum[i][j] = FN(vec_fma)(one, right[j], sum[i][j]);
        }
    }
}

/* The range of what rows first..end of a block come to: while multiplications of other rows are under way it costs next
 * to nothing. A NaN is found in their sum, and so may infinities of both signs be, taken for one. */
ALWAYS_INLINE void FN(tile_range)(int first, int end, int vectors, vec sum[][TILE_MOST], FN(range) * range)
{
    for (int j = 0; j < vectors; j++) {
        vec largest = range[j].largest, least = range[j].least, total = {0};
        for (int i = first; i < end; i++) {
            largest = FN(vec_max)(sum[i][j], largest);
            least = FN(vec_min)(sum[i][j], least);
            total += sum[i][j];
        }
        range[j].nan |= total != total;
        range[j].largest = largest;
        range[j].least = least;
    }
}

/* `range` of each vector of columns goes on, if it is not NULL. */
ALWAYS_INLINE void FN(tile_block)(int rows, int vectors, int64_t lanes, int64_t depth, FN(strided) a, FN(rows) b,
                                  FN(result) c, FN(range) * range)
{
    vec sum[TILE_ROWS][TILE_MOST];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = c.sum == KERNEL_SUM_GOES_ON ? FN(tile_load)(c.at + i * c.row + j * LANES, lanes) : (vec){0};
    const int half = TILE_LAST > 0 ? rows / 2 : 0;
    int64_t last = depth < TILE_LAST ? depth : TILE_LAST, most = depth - last;
    FN(tile_steps)(0, rows, vectors, lanes, most, a, b, sum);
    a.at += most * a.column;
    b.at += most * b.row;
    FN(tile_steps)(0, half, vectors, lanes, last, a, b, sum);
    FN(tile_store)(0, half, vectors, lanes, c, sum);
    if (range)
        FN(tile_range)(0, half, vectors, sum, range);
    FN(tile_steps)(half, rows, vectors, lanes, last, a, b, sum);
    FN(tile_store)(half, rows, vectors, lanes, c, sum);
    if (range)
        FN(tile_range)(half, rows, vectors, sum, range);
}

/* The blocks along `rows` rows of C. */
ALWAYS_INLINE void FN(tile_along)(int rows, int vectors, int64_t lanes, int64_t blocks, int64_t depth, FN(strided) a,
                                  FN(rows) b, FN(result) c)
{
    for (; blocks > 0; blocks--, b.at += vectors * LANES, c.at += vectors * LANES)
        FN(tile_block)(rows, vectors, lanes, depth, a, b, c, NULL);
}

/* How many blocks of TILE_FIT rows make m rows come out even with blocks of `rows`, 12 or 6, a constant; -1 if none do.
 */
ALWAYS_INLINE int64_t FN(tile_fits)(int rows, int64_t m)
{
    if (TILE_FIT == 0)
        return -1;
    const int64_t rest = m % rows, fits = rows == TILE_FEW ? rest / 2 : (rows - rest) % rows / (TILE_ROWS - TILE_FIT);
    return fits * TILE_FIT <= m && (m - fits * TILE_FIT) % rows == 0 ? fits : -1;
}

/* Whether blocks have TILE_ROWS rows, or TILE_FEW. */
ALWAYS_INLINE bool FN(tile_is_high)(int64_t n, int64_t depth)
{
    return !TILE_HAS_LOW || depth >= lab__kernel_high_from || n <= LANES; /* 6 sums of one vector wait for themselves */
}

/* Whole rows of blocks for columns that are `blocks` blocks wide. */
ALWAYS_INLINE void FN(tile_columns)(int rows, int64_t m, int vectors, int64_t lanes, int64_t blocks, int64_t depth,
                                    FN(strided) a, FN(rows) b, FN(result) c)
{
    for (; m >= rows; m -= rows, a.at += rows * a.row, c.at += rows * c.row)
        FN(tile_along)(rows, vectors, lanes, blocks, depth, a, b, c);
}

/* The same for blocks of either height, and of those that make it come out even. */
ALWAYS_INLINE void FN(tile_any)(bool high, int64_t m, int64_t last, int vectors, int64_t lanes, int64_t blocks,
                                int64_t depth, FN(strided) a, FN(rows) b, FN(result) c)
{
    if (high || (int)TILE_ROWS == (int)TILE_FEW)
        FN(tile_columns)(TILE_ROWS, m - last, vectors, lanes, blocks, depth, a, b, c);
    else
        FN(tile_columns)(TILE_FEW, m - last, vectors, lanes, blocks, depth, a, b, c);
    a.at += (m - last) * a.row;
    c.at += (m - last) * c.row;
    if (last > 0 && TILE_FIT > 0)
        FN(tile_columns)(TILE_FIT, last, vectors, lanes, blocks, depth, a, b, c);
}

static void FN(tile_wide)(bool high, int64_t m, int64_t last, int64_t blocks, int64_t depth, FN(strided) a, FN(rows) b,
                          FN(result) c)
{
    FN(tile_any)(high, m, last, TILE_VECTORS, 0, blocks, depth, a, b, c);
}

static void FN(tile_narrow)(bool high, int64_t m, int64_t last, int64_t blocks, int64_t depth, FN(strided) a,
                            FN(rows) b, FN(result) c)
{
    FN(tile_any)(high, m, last, 1, 0, blocks, depth, a, b, c);
}

static void FN(tile_part)(bool high, int64_t m, int64_t last, int64_t lanes, int64_t depth, FN(strided) a, FN(rows) b,
                          FN(result) c)
{
    FN(tile_any)(high, m, last, 1, lanes, 1, depth, a, b, c);
}

/* Whole rows of blocks, all columns. */
ALWAYS_INLINE void FN(tile_whole)(bool high, int64_t m, int64_t last, int64_t n, int64_t depth, FN(strided) a,
                                  FN(rows) b, FN(result) c)
{
    const int64_t wide = n / (TILE_VECTORS * LANES), behind = n - wide * TILE_VECTORS * LANES;
    if (wide > 0)
        FN(tile_wide)(high, m, last, wide, depth, a, b, c);
    b.at += n - behind;
    c.at += n - behind;
    if (behind / LANES > 0)
        FN(tile_narrow)(high, m, last, behind / LANES, depth, a, b, c);
    b.at += behind / LANES * LANES;
    c.at += behind / LANES * LANES;
    if (behind % LANES > 0)
        FN(tile_part)(high, m, last, behind % LANES, depth, a, b, c);
}

/* As many blocks of so many vectors as n columns hold; how many columns are left behind them. */
ALWAYS_INLINE int64_t FN(tile_some)(int rows, int vectors, int64_t n, int64_t depth, FN(strided) a, FN(rows) * b,
                                    FN(result) * c)
{
    int64_t blocks = n / (vectors * LANES), columns = blocks * vectors * LANES;
    FN(tile_along)(rows, vectors, 0, blocks, depth, a, *b, *c);
    b->at += columns;
    c->at += columns;
    return n - columns;
}

/* All columns of a few rows: in blocks of so many vectors, then in usual ones, then vector by vector. */
ALWAYS_INLINE void FN(tile_few)(int rows, int vectors, int64_t n, int64_t depth, FN(strided) a, FN(rows) b,
                                FN(result) c)
{
    if (vectors > TILE_VECTORS)
        n = FN(tile_some)(rows, vectors, n, depth, a, &b, &c);
    n = FN(tile_some)(rows, TILE_VECTORS, n, depth, a, &b, &c);
    n = FN(tile_some)(rows, 1, n, depth, a, &b, &c);
    if (n > 0)
        FN(tile_block)(rows, 1, n, depth, a, b, c, NULL);
}

static void FN(tile_rest)(int64_t m, int64_t n, int64_t depth, FN(strided) a, FN(rows) b, FN(result) c)
{
    switch (m) {
    case 6:
        FN(tile_whole)((int)TILE_ROWS == (int)TILE_FEW, 6, 0, n, depth, a, b, c);
        break;
    case 5:
        FN(tile_few)(5, TILE_VECTORS, n, depth, a, b, c);
        break;
    case 4:
        FN(tile_few)(4, TILE_VECTORS * 3 / 2, n, depth, a, b, c);
        break;
    case 3:
        FN(tile_few)(3, TILE_VECTORS * 2, n, depth, a, b, c);
        break;
    case 2:
        FN(tile_few)(2, TILE_VECTORS * 3, n, depth, a, b, c);
        break;
    case 1:
        FN(tile_few)(1, TILE_VECTORS * 4, n, depth, a, b, c);
        break;
    default:
        break;
    }
}

static void FN(tile)(int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row, int64_t a_column, const void *b,
                     int64_t b_row, void *c, int64_t c_row, kernel_sum sum)
{
    FN(strided) left = {a, a_row, a_column};
    FN(rows) right = {b, b_row};
    FN(result) result = {c, c_row, sum};
    const bool high = FN(tile_is_high)(n, k);
    const int64_t fits = high ? FN(tile_fits)(TILE_ROWS, m) : FN(tile_fits)(TILE_FEW, m);
    int64_t rest = fits >= 0 ? 0 : high ? m % TILE_ROWS : m % TILE_FEW;
    if (rest > 0 && rest < TILE_FEW && m > rest)
        rest += high ? TILE_ROWS : TILE_FEW;
    FN(tile_whole)(high, m - rest, fits > 0 ? fits * TILE_FIT : 0, n, k, left, right, result);
    left.at += (m - rest) * left.row;
    result.at += (m - rest) * result.row;
    /* What is left goes in blocks that are about as high as one another: a low one leaves its multipliers waiting. */
    for (int64_t blocks = (rest + TILE_FEW - 1) / TILE_FEW; blocks > 0; blocks--) {
        const int64_t rows = (rest + blocks - 1) / blocks;
        FN(tile_rest)(rows, n, k, left, right, result);
        left.at += rows * left.row;
        result.at += rows * result.row;
        rest -= rows;
    }
}
