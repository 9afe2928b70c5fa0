/* place_sum_tmpl.c - the arithmetic of place_sum.c, once per precision: sums are kept in double. */

/* sums[j] += x[0][j] + x[1][j] + ... for a panel of columns, rows in ascending order. */
static void FN(add_rows)(int64_t rows, int64_t columns, double *restrict sums, const real *restrict x, int64_t row,
                         int64_t column)
{
    if (column == 1) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++)
                sums[j] += (double)x[i * row + j];
    } else {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++)
                sums[j] += (double)x[i * row + j * column];
    }
}

/* y[j] (+)= factor * sums[j], rounded once. */
static void FN(put)(int64_t n, real *y, int64_t stride, const double *sums, double factor, bool add)
{
    for (int64_t j = 0; j < n; j++) {
        double before = add ? (double)y[j * stride] : 0;
        y[j * stride] = (real)(before + factor * sums[j]);
    }
}
