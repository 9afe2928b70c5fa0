/* gelu_tmpl.c - GELU of a row with a bias, and its slope.
 *
 *     erf:   y' = Phi(x) + x phi(x)
 *     tanh:  y' = s + x s (1 - s) 2u',   s = 1 / (1 + e^-2u),   2u = x (linear + cubic x^2)
 *
 * Both from one exponential of -|x| or -|2u|, which cannot overflow. Where x is far out the slope is 0 or 1 and x is
 * kept from growing, so that infinity does not meet 0.
 */

ALWAYS_INLINE vec FN(gelu_erf_slope)(vec x)
{
    vec t = FN(vec_min)(FN(broadcast)(FN(tail_high)), FN(absolute)(x, x));
    FN(exp_split) bell = FN(split_bell)(t, (real)0.5);
    vec tail = FN(scale)(FN(normal_tail)(t, bell.rest), bell.power);
    vec z = t * FN(root_half);
    vec half_erf = (real)0.5 * FN(vec_fma)(z, FN(polynomial)(z * z, ERF_DEGREE, FN(erf_polynomial)), z);
    tail = FN(select)(t < (real)0.75, (real)0.5 - half_erf, tail);
    vec slope = t * FN(join_exp)(bell) * (real)0.3989422804014326779;
    return FN(select)(x < 0, tail - slope, (1 - tail) + slope);
}

ALWAYS_INLINE vec FN(gelu_tanh_slope)(vec x)
{
    vec t = FN(vec_min)(FN(broadcast)(-FN(gelu_low)), FN(absolute)(x, x)), square = t * t;
    vec twice_u = t * FN(vec_fma)(square, FN(broadcast)(FN(gelu_cubic_high)), FN(broadcast)(FN(gelu_linear_high)));
    vec slope_of_u = FN(vec_fma)(3 * square, FN(broadcast)(FN(gelu_cubic_high)), FN(broadcast)(FN(gelu_linear_high)));
    vec e = FN(exp_below)(-twice_u), inverse = 1 / (1 + e), tail = e * inverse;
    vec slope = t * (tail * inverse) * slope_of_u;
    return FN(select)(x < 0, tail - slope, inverse + slope);
}

typedef vec (*FN(gelu_function))(vec x);

ALWAYS_INLINE vec FN(gelu_erf_value)(vec x)
{
    return FN(gelu_erf)(x, x);
}

ALWAYS_INLINE vec FN(gelu_tanh_value)(vec x)
{
    return FN(gelu_tanh)(x, x);
}

ALWAYS_INLINE void FN(gelu_forward)(int64_t n, real *y, const real *x, const real *bias, FN(gelu_function) f)
{
    for (int64_t i = 0; i < n; i += LANES) {
        vec v = FN(load_some)(x + i, n - i);
        FN(store_some)(y + i, n - i, f(bias ? v + FN(load_some)(bias + i, n - i) : v));
    }
}

ALWAYS_INLINE void FN(gelu_backward)(int64_t n, real *dx, bool add, const real *x, const real *bias, const real *dy,
                                     real *dbias, FN(gelu_function) slope)
{
    for (int64_t i = 0; i < n; i += LANES) {
        vec v = FN(load_some)(x + i, n - i);
        vec d = FN(load_some)(dy + i, n - i) * slope(bias ? v + FN(load_some)(bias + i, n - i) : v);
        if (dbias)
            FN(store_some)(dbias + i, n - i, FN(load_some)(dbias + i, n - i) + d);
        if (dx)
            FN(store_some)(dx + i, n - i, add ? FN(load_some)(dx + i, n - i) + d : d);
    }
}

static void FN(gelu_erf_forward)(int64_t n, void *y, const void *x, const void *bias)
{
    FN(gelu_forward)(n, y, x, bias, FN(gelu_erf_value));
}

static void FN(gelu_tanh_forward)(int64_t n, void *y, const void *x, const void *bias)
{
    FN(gelu_forward)(n, y, x, bias, FN(gelu_tanh_value));
}

static void FN(gelu_erf_backward)(int64_t n, void *dx, bool add, const void *x, const void *bias, const void *dy,
                                  void *dbias)
{
    FN(gelu_backward)(n, dx, add, x, bias, dy, dbias, FN(gelu_erf_slope));
}

static void FN(gelu_tanh_backward)(int64_t n, void *dx, bool add, const void *x, const void *bias, const void *dy,
                                   void *dbias)
{
    FN(gelu_backward)(n, dx, add, x, bias, dy, dbias, FN(gelu_tanh_slope));
}
