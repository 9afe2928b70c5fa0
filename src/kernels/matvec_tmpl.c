/* matvec_tmpl.c - a matrix with dense rows times a vector: a product that is no more than reading the matrix, once, as
 * fast as memory gives it. Decoding is made of such.
 *
 * The bits are the tile product's: one accumulator for each element, which starts at 0, or at y's element where the
 * product is added, and k ascends. So lanes are rows, which are turned in registers. Rows beside one another are no
 * stream to a processor: it would wait at the beginning of each. The rows of a vector are therefore far apart, a
 * LANES-th of the matrix, and every lane reads on where its row before has ended. (Two threads of a Zen 3 read 41 GB/s
 * so, what its memory gives at most, and 30 with neighbours in a vector, of 3 KB each.)
 */

/* Elements of a cache line; bytes that lines are asked for ahead of their use, and into which cache: beyond the last
 * row there may be nothing, which does no harm. (One thread of a Zen 5 reads 43 GB/s into the first, 33 into the
 * second.) */
enum { MATVEC_LINE = 64 / sizeof(real), MATVEC_AHEAD = 512, MATVEC_CACHE = VECTOR_BYTES == 64 ? 3 : 2 };

/* LANES rows and columns, turned on their way from memory. */
ALWAYS_INLINE void FN(turn_from)(vec turned[LANES], const real *x, int64_t x_row)
{
#ifdef LEVEL_TURNS_ROWS
    FN(turn_rows)(turned, x, x_row);
#else
    FN(turn_block)(LANES, LANES, turned, x, x_row, 1);
#endif
}

/* LANES rows, all of k that comes LANES by LANES; how much that is. */
ALWAYS_INLINE int64_t FN(matvec_rows)(int64_t k, const real *a, int64_t a_row, const real *x, int64_t x_step, real *y,
                                      int64_t y_step, bool add)
{
    real part[LANES] = {0};
    int64_t done = 0;
    if (add)
        FN(gather)(LANES, part, y, y_step);
    vec sum = FN(load)(part);
    for (; done + LANES <= k; done += LANES, x += LANES * x_step) {
        vec turned[LANES];
        for (int i = 0; i < LANES && done % MATVEC_LINE == 0; i++)
            __builtin_prefetch(
                (const void *)((uintptr_t)a + (uintptr_t)(i * a_row + done) * sizeof(real) + MATVEC_AHEAD), 0,
                MATVEC_CACHE);
        FN(turn_from)(turned, a + done, a_row);
        for (int i = 0; i < LANES; i++)
            sum = FN(vec_fma)(FN(broadcast)(x[i * x_step]), turned[i], sum);
    }
    FN(store)(part, sum);
    FN(scatter)(LANES, y, y_step, part);
    return done;
}

static void FN(matvec)(int64_t m, int64_t k, const void *matrix, int64_t a_row, const void *vector, int64_t x_step,
                       void *result, int64_t y_step, bool add)
{
    const real *a = matrix, *x = vector;
    real *y = result;
    const int64_t apart = m / LANES, left = m % LANES;
    for (int64_t i = 0; i < apart; i++) {
        const real *row = a + i * a_row;
        const int64_t done = FN(matvec_rows)(k, row, a_row * apart, x, x_step, y + i * y_step, y_step * apart, add);
        if (done < k)
            FN(tile)
        (LANES, 1, k - done, row + done, a_row * apart, 1, x + done * x_step, x_step, y + i * y_step, y_step * apart,
         KERNEL_SUM_GOES_ON);
    }
    const kernel_sum sum = add ? KERNEL_SUM_GOES_ON : KERNEL_SUM_NEW;
    if (left > 0)
        FN(tile)(left, 1, k, a + (m - left) * a_row, a_row, 1, x, x_step, y + (m - left) * y_step, y_step, sum);
}
