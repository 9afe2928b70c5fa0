/* elementwise_tmpl.c - the rows of the table that map elements, one function each. */

/* ---- One operand ------------------------------------------------------------------------------------------------- */

ALWAYS_INLINE vec FN(copy)(vec x, vec unused)
{
    (void)unused;
    return x;
}

ALWAYS_INLINE vec FN(neg)(vec x, vec unused)
{
    (void)unused;
    return -x;
}

ALWAYS_INLINE vec FN(add_scalar)(vec x, vec parameter)
{
    return x + parameter;
}

ALWAYS_INLINE vec FN(mul_scalar)(vec x, vec parameter)
{
    return x * parameter;
}

ALWAYS_INLINE vec FN(sqrt)(vec x, vec unused)
{
    (void)unused;
    return FN(vec_sqrt)(x);
}

ALWAYS_INLINE vec FN(rsqrt)(vec x, vec unused)
{
    (void)unused;
    return 1 / FN(vec_sqrt)(x);
}

/* NaN stays NaN. */
ALWAYS_INLINE vec FN(relu)(vec x, vec unused)
{
    (void)unused;
    return (vec)((mask)x & ~(x <= 0));
}

static void FN(copy_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(copy), parameter);
}

static void FN(neg_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(neg), parameter);
}

static void FN(add_scalar_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(add_scalar), parameter);
}

static void FN(mul_scalar_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(mul_scalar), parameter);
}

static void FN(exp_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(exp), parameter);
}

static void FN(sqrt_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(sqrt), parameter);
}

static void FN(rsqrt_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(rsqrt), parameter);
}

static void FN(tanh_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(tanh), parameter);
}

static void FN(sigmoid_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(sigmoid), parameter);
}

static void FN(erf_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(erf), parameter);
}

static void FN(relu_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(relu), parameter);
}

static void FN(gelu_erf_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(gelu_erf), parameter);
}

static void FN(gelu_tanh_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(gelu_tanh), parameter);
}

static void FN(silu_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(silu), parameter);
}

static void FN(abs_row)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double parameter)
{
    FN(map1)(n, y, y_stride, x, x_stride, FN(absolute), parameter);
}

/* ---- Two operands ------------------------------------------------------------------------------------------------ */

ALWAYS_INLINE vec FN(add)(vec a, vec b)
{
    return a + b;
}

ALWAYS_INLINE vec FN(sub)(vec a, vec b)
{
    return a - b;
}

ALWAYS_INLINE vec FN(mul)(vec a, vec b)
{
    return a * b;
}

ALWAYS_INLINE vec FN(div)(vec a, vec b)
{
    return a / b;
}

/* vec_max gives b where either is NaN, so only a's NaN is lost. */
ALWAYS_INLINE vec FN(maximum)(vec a, vec b)
{
    return FN(select)(a != a, a, FN(vec_max)(a, b));
}

ALWAYS_INLINE vec FN(minimum)(vec a, vec b)
{
    return FN(select)(a != a, a, FN(vec_min)(a, b));
}

static void FN(add_row)(int64_t n, void *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                        int64_t b_stride)
{
    FN(map2)(n, y, y_stride, a, a_stride, b, b_stride, FN(add));
}

static void FN(sub_row)(int64_t n, void *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                        int64_t b_stride)
{
    FN(map2)(n, y, y_stride, a, a_stride, b, b_stride, FN(sub));
}

static void FN(mul_row)(int64_t n, void *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                        int64_t b_stride)
{
    FN(map2)(n, y, y_stride, a, a_stride, b, b_stride, FN(mul));
}

static void FN(div_row)(int64_t n, void *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                        int64_t b_stride)
{
    FN(map2)(n, y, y_stride, a, a_stride, b, b_stride, FN(div));
}

static void FN(maximum_row)(int64_t n, void *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                            int64_t b_stride)
{
    FN(map2)(n, y, y_stride, a, a_stride, b, b_stride, FN(maximum));
}

static void FN(minimum_row)(int64_t n, void *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                            int64_t b_stride)
{
    FN(map2)(n, y, y_stride, a, a_stride, b, b_stride, FN(minimum));
}

/* ---- Comparisons ------------------------------------------------------------------------------------------------- */

ALWAYS_INLINE mask FN(equal)(vec a, vec b)
{
    return a == b;
}

ALWAYS_INLINE mask FN(less)(vec a, vec b)
{
    return a < b;
}

ALWAYS_INLINE mask FN(less_equal)(vec a, vec b)
{
    return a <= b;
}

static void FN(equal_row)(int64_t n, uint8_t *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                          int64_t b_stride)
{
    FN(compare)(n, y, y_stride, a, a_stride, b, b_stride, FN(equal));
}

static void FN(less_row)(int64_t n, uint8_t *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                         int64_t b_stride)
{
    FN(compare)(n, y, y_stride, a, a_stride, b, b_stride, FN(less));
}

static void FN(less_equal_row)(int64_t n, uint8_t *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                               int64_t b_stride)
{
    FN(compare)(n, y, y_stride, a, a_stride, b, b_stride, FN(less_equal));
}
