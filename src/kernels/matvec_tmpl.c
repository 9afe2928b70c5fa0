/* matvec_tmpl.c - a matrix with dense rows times one vector, or a few: a product that is no more than reading the
 * matrix, once, as fast as memory gives it. Decoding is made of such.
 *
 * The bits are the tile product's: one accumulator for each element, which starts at 0, or at Y's element where the
 * product is added, and k ascends. So lanes are rows, which are turned in registers. Rows beside one another are no
 * stream to a processor: it would wait at the beginning of each. The rows of a vector are therefore far apart, a
 * LANES-th of the matrix, and every lane reads on where its row before has ended. (Two threads of a Zen 3 read 41 GB/s
 * so, what its memory gives at most, and 30 with neighbours in a vector, of 3 KB each.)
 */

/* Vectors that are multiplied while the matrix comes by; elements of a cache line; bytes that lines are asked for ahead
 * of their use. */
enum { MATVEC_MOST = 4, MATVEC_LINE = 64 / sizeof(real), MATVEC_AHEAD = 512 };

/* Beyond the last row there may be nothing, which does no harm. */
ALWAYS_INLINE void FN(matvec_ask)(int64_t rows, const real *a, int64_t a_row)
{
    for (int64_t i = 0; i < rows; i++)
        __builtin_prefetch((const void *)((uintptr_t)a + (uintptr_t)(i * a_row) * sizeof(real) + MATVEC_AHEAD), 0, 2);
}

/* `steps` steps of k, LANES at most. Vectors, and mostly rows and steps, are constants where this is inlined. */
ALWAYS_INLINE void FN(matvec_steps)(int vectors, int64_t rows, int64_t steps, const real *a, int64_t a_row,
                                    FN(strided) x, vec *sum)
{
    vec turned[LANES];
    FN(turn_block)(rows, steps, turned, a, a_row, 1);
    for (int64_t k = 0; k < steps; k++)
        for (int v = 0; v < vectors; v++)
            sum[v] = FN(vec_fma)(FN(broadcast)(x.at[k * x.row + v * x.column]), turned[k], sum[v]);
}

/* Y[i, v] of LANES rows at most. */
ALWAYS_INLINE void FN(matvec_rows)(int vectors, int64_t rows, int64_t k, const real *a, int64_t a_row, FN(strided) x,
                                   FN(result) y, int64_t y_column)
{
    vec sum[MATVEC_MOST];
    real part[LANES] = {0};
    for (int v = 0; v < vectors; v++) {
        if (y.add)
            FN(gather)(rows, part, y.at + v * y_column, y.row);
        sum[v] = FN(load)(part);
    }
    int64_t done = 0;
    for (; done + LANES <= k; done += LANES, x.at += LANES * x.row) {
        if (done % MATVEC_LINE == 0)
            FN(matvec_ask)(rows, a + done, a_row);
        FN(matvec_steps)(vectors, rows, LANES, a + done, a_row, x, sum);
    }
    if (done < k)
        FN(matvec_steps)(vectors, rows, k - done, a + done, a_row, x, sum);
    for (int v = 0; v < vectors; v++) {
        FN(store)(part, sum[v]);
        FN(scatter)(rows, y.at + v * y_column, y.row, part);
    }
}

/* All rows. */
ALWAYS_INLINE void FN(matvec_all)(int vectors, int64_t m, int64_t k, const real *a, int64_t a_row, FN(strided) x,
                                  FN(result) y, int64_t y_column)
{
    const int64_t apart = m / LANES, rest = m % LANES;
    FN(result) spread = {y.at, y.row * apart, y.add};
    for (int64_t i = 0; i < apart; i++, spread.at += y.row)
        FN(matvec_rows)(vectors, LANES, k, a + i * a_row, a_row * apart, x, spread, y_column);
    y.at += apart * LANES * y.row;
    if (rest > 0)
        FN(matvec_rows)(vectors, rest, k, a + apart * LANES * a_row, a_row, x, y, y_column);
}

static void FN(matvec)(int64_t m, int64_t vectors, int64_t k, const void *a, int64_t a_row, const void *x,
                       int64_t x_row, int64_t x_column, void *y, int64_t y_row, int64_t y_column, bool add)
{
    const FN(strided) right = {x, x_row, x_column};
    const FN(result) result = {y, y_row, add};
    switch (vectors) {
    case 1:
        FN(matvec_all)(1, m, k, a, a_row, right, result, y_column);
        break;
    case 2:
        FN(matvec_all)(2, m, k, a, a_row, right, result, y_column);
        break;
    case 3:
        FN(matvec_all)(3, m, k, a, a_row, right, result, y_column);
        break;
    case 4:
        FN(matvec_all)(4, m, k, a, a_row, right, result, y_column);
        break;
    default:
        break;
    }
}
