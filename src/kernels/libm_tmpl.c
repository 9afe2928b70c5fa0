/* libm_tmpl.c - included by libm.c once per type. */

static void FN(log_row)(int64_t n, void *y_row, int64_t y_stride, const void *x_row, int64_t x_stride, double parameter)
{
    real *y = y_row;
    const real *x = x_row;
    (void)parameter;
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = LIBM(log)(x[i * x_stride]);
}

static void FN(sin_row)(int64_t n, void *y_row, int64_t y_stride, const void *x_row, int64_t x_stride, double parameter)
{
    real *y = y_row;
    const real *x = x_row;
    (void)parameter;
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = LIBM(sin)(x[i * x_stride]);
}

static void FN(cos_row)(int64_t n, void *y_row, int64_t y_stride, const void *x_row, int64_t x_stride, double parameter)
{
    real *y = y_row;
    const real *x = x_row;
    (void)parameter;
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = LIBM(cos)(x[i * x_stride]);
}

/* The exponents that one exact operation does. */
static void FN(pow_scalar_row)(int64_t n, void *y_row, int64_t y_stride, const void *x_row, int64_t x_stride,
                               double parameter)
{
    real *y = y_row, exponent = (real)parameter;
    const real *x = x_row;
    if (exponent == 2)
        for (int64_t i = 0; i < n; i++)
            y[i * y_stride] = x[i * x_stride] * x[i * x_stride];
    else if (exponent == 1)
        for (int64_t i = 0; i < n; i++)
            y[i * y_stride] = x[i * x_stride];
    else if (exponent == -1)
        for (int64_t i = 0; i < n; i++)
            y[i * y_stride] = 1 / x[i * x_stride];
    else
        for (int64_t i = 0; i < n; i++)
            y[i * y_stride] = LIBM(pow)(x[i * x_stride], exponent);
}

const kernel_part FN(lab__kernel_libm) = {
    .unary = {[KERNEL_LOG] = FN(log_row),
              [KERNEL_SIN] = FN(sin_row),
              [KERNEL_COS] = FN(cos_row),
              [KERNEL_POW_SCALAR] = FN(pow_scalar_row)},
};
