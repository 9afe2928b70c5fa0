/* vector_tmpl.c - loads, stores and selection on vectors of one type. */

ALWAYS_INLINE vec FN(load)(const real *x)
{
    return *(const FN(vec_any) *)x;
}

ALWAYS_INLINE void FN(store)(real *y, vec v)
{
    *(FN(vec_any) *)y = v;
}

ALWAYS_INLINE vec FN(broadcast)(real x)
{
    return x - (vec){0};
}

/* mask ? a : b */
ALWAYS_INLINE vec FN(select)(mask m, vec a, vec b)
{
    return (vec)(((mask)a & m) | ((mask)b & ~m));
}

ALWAYS_INLINE bool FN(any_lane)(mask m)
{
#ifdef LEVEL_HAS_ANY
    return FN(vec_any_of)(m);
#else
    for (int i = 0; i < LANES; i++)
        if (m[i])
            return true;
    return false;
#endif
}

ALWAYS_INLINE vec FN(with_sign_of)(vec size, vec sign)
{
    const mask sign_bit = (mask)FN(broadcast)(-(real)0);
    return (vec)((mask)size | ((mask)sign & sign_bit));
}

ALWAYS_INLINE vec FN(absolute)(vec x, vec unused)
{
    (void)unused;
    const mask sign_bit = (mask)FN(broadcast)(-(real)0);
    return (vec)((mask)x & ~sign_bit);
}

/* x[0], x[stride], ... */
static void FN(gather)(int64_t n, real *y, const real *x, int64_t x_stride)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i * x_stride];
}

static void FN(scatter)(int64_t n, real *y, int64_t y_stride, const real *x)
{
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = x[i];
}

/* WIDE elements as doubles. */
ALWAYS_INLINE vec_f64 FN(load_wide)(const real *x)
{
    typedef real part __attribute__((vector_size(WIDE * sizeof(real)), aligned(sizeof(real)), may_alias));
    return __builtin_convertvector(*(const part *)x, vec_f64);
}
