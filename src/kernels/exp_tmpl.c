/* exp_tmpl.c - e^x on vectors, and the functions that are made of it.
 *
 *     e^x = 2^n (1 + rest),   n = round(x / ln 2),   r = x - n ln 2,   rest = e^r - 1 = r + r^2 q(r)
 *
 * `rest` keeps its relative accuracy near 0, which tanh lives on. 2^n comes in two factors, so that results below the
 * smallest normal number are rounded once; arguments are clamped where the result is 0 or infinite anyway, because
 * far outside r is nonsense and could overflow. NaN passes through every step.
 */

typedef struct FN(exp_split) {
    vec rest, power;
} FN(exp_split);

/* n, in the form that scaling by 2^n wants it: as a number where the processor scales by itself, else as the bits of
 * POWER_BASE + n, in whose low bits stands 2 * bias + n. */
#ifdef LEVEL_HAS_SCALE

ALWAYS_INLINE vec FN(power_of)(vec x)
{
    return FN(vec_round)(x * FN(log2_e));
}

ALWAYS_INLINE vec FN(power_value)(vec power)
{
    return power;
}

ALWAYS_INLINE vec FN(power_from)(vec x, int base)
{
    (void)base;
    return FN(power_of)(x);
}

ALWAYS_INLINE vec FN(value_from)(vec power, int base)
{
    (void)base;
    return power;
}

ALWAYS_INLINE vec FN(scale)(vec x, vec power)
{
    return FN(vec_scale)(x, power);
}

ALWAYS_INLINE vec FN(join_exp)(FN(exp_split) e)
{
    return FN(vec_scale)(1 + e.rest, e.power);
}

ALWAYS_INLINE vec FN(power_factor)(vec power)
{
    return FN(vec_scale)(FN(broadcast)(1), power);
}

#else

/* Rounded to an integer by adding a number whose last bit is 1, and whose low bits are `base`: no x is a tie, so that
 * n is the same with any. */
ALWAYS_INLINE vec FN(power_from)(vec x, int base)
{
    return FN(vec_fma)(x, FN(broadcast)(FN(log2_e)), FN(broadcast)(POWER_BASE + (real)(base - 2 * BIAS)));
}

ALWAYS_INLINE vec FN(value_from)(vec power, int base)
{
    return power - (POWER_BASE + (real)(base - 2 * BIAS));
}

ALWAYS_INLINE vec FN(power_of)(vec x)
{
    return FN(power_from)(x, 2 * BIAS);
}

ALWAYS_INLINE vec FN(power_value)(vec power)
{
    return FN(value_from)(power, 2 * BIAS);
}

/* x * 2^n, rounded once, for -1.4 bias < n <= bias + 1 and x of moderate size. */
ALWAYS_INLINE vec FN(scale)(vec x, vec power)
{
    bits both = (bits)power, half = both >> 1;
    return x * (vec)(half << MANTISSA) * (vec)((both - half) << MANTISSA);
}

/* (1 + rest) * 2^n; the first product is exact. */
ALWAYS_INLINE vec FN(join_exp)(FN(exp_split) e)
{
    bits both = (bits)e.power, half = both >> 1;
    vec factor = (vec)(half << MANTISSA);
    return FN(vec_fma)(e.rest, factor, factor) * (vec)((both - half) << MANTISSA);
}

/* 2^n for -bias < n <= bias. */
ALWAYS_INLINE vec FN(power_factor)(vec power)
{
    return (vec)(((bits)power - BIAS) << MANTISSA);
}

#endif

/* Even and odd powers apart, two chains of half the length. */
ALWAYS_INLINE vec FN(polynomial)(vec x, int degree, const real *coefficients)
{
    vec square = x * x, last = FN(broadcast)(coefficients[degree]), other = FN(broadcast)(coefficients[degree - 1]);
    for (int i = degree - 2; i >= 0; i--) {
        vec next = FN(vec_fma)(last, square, FN(broadcast)(coefficients[i]));
        last = other;
        other = next;
    }
    return FN(vec_fma)(last, x, other);
}

enum { EXP_SEVERAL = 4 };

/* e^r - 1 for |r| <= 0.35, of `count` at once: pairs of coefficients first, beside r^2 (Estrin 1960), a short chain of
 * dependent steps. */
ALWAYS_INLINE void FN(exp_rests)(int count, const vec *r, vec *rest)
{
    const real *c = FN(exp_polynomial);
    vec square[EXP_SEVERAL], sum[EXP_SEVERAL];
    for (int i = 0; i < count; i++) {
        square[i] = r[i] * r[i];
        sum[i] = FN(broadcast)(c[EXP_DEGREE]);
    }
    for (int i = 0; i < count && EXP_DEGREE % 2 == 1; i++)
        sum[i] = FN(vec_fma)(sum[i], r[i], FN(broadcast)(c[EXP_DEGREE - 1]));
    for (int k = EXP_DEGREE - 1 - EXP_DEGREE % 2; k > 0; k -= 2)
        for (int i = 0; i < count; i++)
            sum[i] = FN(vec_fma)(sum[i], square[i], FN(vec_fma)(FN(broadcast)(c[k]), r[i], FN(broadcast)(c[k - 1])));
    for (int i = 0; i < count; i++)
        rest[i] = FN(vec_fma)(square[i], sum[i], r[i]);
}

ALWAYS_INLINE vec FN(exp_rest)(vec r)
{
    vec rest;
    FN(exp_rests)(1, &r, &rest);
    return rest;
}

/* e^x, exp_low <= x <= exp_high. */
ALWAYS_INLINE FN(exp_split) FN(split_exp)(vec x)
{
    vec power = FN(power_of)(x), n = FN(power_value)(power);
    vec r = FN(vec_fma)(n, FN(broadcast)(-FN(ln2_high)), x);
    r = FN(vec_fma)(n, FN(broadcast)(-FN(ln2_low)), r);
    return (FN(exp_split)){FN(exp_rest)(r), power};
}

/* e^(x + more), where the rounding error of x + more matters. */
ALWAYS_INLINE FN(exp_split) FN(split_exp_of_sum)(vec x, vec more)
{
    vec power = FN(power_of)(x + more), n = FN(power_value)(power);
    vec r = FN(vec_fma)(n, FN(broadcast)(-FN(ln2_high)), x);
    r += FN(vec_fma)(n, FN(broadcast)(-FN(ln2_low)), more);
    return (FN(exp_split)){FN(exp_rest)(r), power};
}

/* The exp of softmax goes two ways. Short polynomials are Horner's, 1 + r (1 + r q(r)): what bounds a loop of these is
 * how many operations the multipliers take, and where the result is a normal number n is added to its exponent. Long
 * ones, and those whose products are rounded by themselves, go by pairs, and n comes as a factor. A part is e^r or e^r
 * - 1; a processor that scales by itself wants the whole of it. */
#if defined(LEVEL_ROUNDS_TWICE) || MANTISSA > 30

enum { NORMAL_BASE = 2 * BIAS };

ALWAYS_INLINE void FN(exp_parts)(int count, const vec *r, vec *part)
{
    FN(exp_rests)(count, r, part);
}

#ifdef LEVEL_HAS_SCALE
ALWAYS_INLINE vec FN(whole_part)(vec part)
{
    return 1 + part;
}
#else
ALWAYS_INLINE vec FN(join_below)(vec part, vec power, vec x)
{
    (void)x;
    return FN(join_exp)((FN(exp_split)){part, power});
}

ALWAYS_INLINE vec FN(join_normal)(vec part, vec power)
{
    const vec factor = FN(power_factor)(power);
#ifdef LEVEL_ROUNDS_TWICE
    return (1 + part) * factor; /* part * factor need not be a normal number */
#else
    return FN(vec_fma)(part, factor, factor);
#endif
}
#endif

#else

enum { NORMAL_BASE = 0 };

ALWAYS_INLINE void FN(exp_parts)(int count, const vec *r, vec *part)
{
    for (int i = 0; i < count; i++)
        part[i] = FN(broadcast)(FN(exp_polynomial)[EXP_DEGREE]);
    for (int k = EXP_DEGREE - 1; k >= 0; k--)
        for (int i = 0; i < count; i++)
            part[i] = FN(vec_fma)(part[i], r[i], FN(broadcast)(FN(exp_polynomial)[k]));
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < count; i++)
            part[i] = FN(vec_fma)(part[i], r[i], FN(broadcast)(1));
}

#ifdef LEVEL_HAS_SCALE
ALWAYS_INLINE vec FN(whole_part)(vec part)
{
    return part;
}
#else
ALWAYS_INLINE vec FN(join_below)(vec part, vec power, vec x)
{
    (void)x;
    return FN(scale)(part, power);
}

/* The low bits of `power` are those of n. */
ALWAYS_INLINE vec FN(join_normal)(vec part, vec power)
{
    return (vec)((bits)part + ((bits)power << MANTISSA));
}
#endif

#endif

#ifdef LEVEL_HAS_SCALE

ALWAYS_INLINE vec FN(join_below)(vec part, vec power, vec x)
{
    return FN(vec_scale_above)(FN(whole_part)(part), power, x, FN(broadcast)(EXP_ZERO));
}

ALWAYS_INLINE vec FN(join_normal)(vec part, vec power)
{
    return FN(scale)(FN(whole_part)(part), power);
}

#endif

/* e^x for x <= 0: the exp of softmax. */
ALWAYS_INLINE vec FN(exp_below)(vec x)
{
    x = FN(vec_max)(FN(broadcast)(FN(exp_low)), x);
    const vec power = FN(power_of)(x), n = FN(power_value)(power);
    vec part, r = FN(vec_fma)(n, FN(broadcast)(-FN(ln2_high)), x);
    r = FN(vec_fma)(n, FN(broadcast)(-FN(ln2_low)), r);
    FN(exp_parts)(1, &r, &part);
    return FN(join_below)(part, power, x);
}

/* The same bits for exp_normal <= x <= 0, where 2^n is a normal number, and so is the result. A NaN stays one. */
ALWAYS_INLINE vec FN(exp_of_near)(vec x)
{
    const vec power = FN(power_of)(x), n = FN(power_value)(power);
    vec part, r = FN(vec_fma)(n, FN(broadcast)(-FN(ln2_high)), x);
    r = FN(vec_fma)(n, FN(broadcast)(-FN(ln2_low)), r);
    FN(exp_parts)(1, &r, &part);
    return NORMAL_BASE ? FN(join_normal)(part, power) : part * FN(power_factor)(power);
}

/* The same bits again, `count` of them step by step side by side, which a processor does faster than one after the
 * other. None may be NaN: n would be added to its bits. */
ALWAYS_INLINE void FN(exp_of_several)(int count, vec *x)
{
    vec n[EXP_SEVERAL], power[EXP_SEVERAL], part[EXP_SEVERAL];
    for (int i = 0; i < count; i++)
        power[i] = FN(power_from)(x[i], NORMAL_BASE);
    for (int i = 0; i < count; i++)
        n[i] = FN(value_from)(power[i], NORMAL_BASE);
    for (int i = 0; i < count; i++)
        x[i] = FN(vec_fma)(n[i], FN(broadcast)(-FN(ln2_high)), x[i]);
    for (int i = 0; i < count; i++)
        x[i] = FN(vec_fma)(n[i], FN(broadcast)(-FN(ln2_low)), x[i]);
    FN(exp_parts)(count, x, part);
    for (int i = 0; i < count; i++)
        x[i] = FN(join_normal)(part[i], power[i]);
}

ALWAYS_INLINE vec FN(exp)(vec x, vec unused)
{
    (void)unused;
    return FN(exp_below)(FN(vec_min)(FN(broadcast)(FN(exp_high)), x));
}

/* tanh |x| = d / (d + 2), d = e^(2|x|) - 1 = 2^n rest + (2^n - 1). */
ALWAYS_INLINE vec FN(tanh)(vec x, vec unused)
{
    (void)unused;
    vec size = FN(absolute)(x, x);
    FN(exp_split) e = FN(split_exp)(FN(vec_min)(FN(broadcast)(FN(tanh_high)), 2 * size));
    vec factor = FN(power_factor)(e.power);
    vec d = FN(vec_fma)(factor, e.rest, factor - 1);
    return FN(with_sign_of)(d / (d + 2), x);
}

/* x s(a) and s(a), s the logistic function: for a < 0 both are written with e^a, so that they keep their relative
 * accuracy where they vanish; x's part is multiplied in before 2^n, so that this holds below the normal numbers too.
 * `e` is e^-|a|, and `low` is x kept from growing where e vanishes. */
ALWAYS_INLINE vec FN(times_logistic)(vec x, vec low, FN(exp_split) e)
{
    mask negative = x < 0;
    vec top = FN(select)(negative, FN(vec_fma)(low, e.rest, low), x);
    vec power = FN(select)(negative, e.power, FN(power_of)(FN(broadcast)(0)));
    return FN(scale)(top / (1 + FN(join_exp)(e)), power);
}

ALWAYS_INLINE vec FN(sigmoid)(vec x, vec unused)
{
    (void)unused;
    vec e = FN(exp_below)(-FN(absolute)(x, x)), one = FN(broadcast)(1);
    return FN(select)(x < 0, e, one) / (1 + e);
}

ALWAYS_INLINE vec FN(silu)(vec x, vec unused)
{
    (void)unused;
    vec low = FN(vec_max)(FN(broadcast)(FN(exp_low)), -FN(absolute)(x, x));
    return FN(times_logistic)(x, low, FN(split_exp)(low));
}

/* x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3), the same as x (1 + tanh u) / 2. An error of 2u is one of e^2u as large,
 * so 2u = x (linear + cubic x^2) carries its rounding errors along. */
ALWAYS_INLINE vec FN(gelu_tanh)(vec x, vec unused)
{
    (void)unused;
    vec low = FN(vec_max)(FN(broadcast)(FN(gelu_low)), -FN(absolute)(x, x));
    vec square_error, cubic_error, error;
    vec square = FN(vec_two_product)(low, low, &square_error);
    vec cubic = FN(vec_two_product)(square, FN(broadcast)(FN(gelu_cubic_high)), &cubic_error);
    cubic_error += square_error * FN(gelu_cubic_high) + square * FN(gelu_cubic_low);
    vec sum = cubic + FN(gelu_linear_high), got = sum - cubic;
    vec sum_error = (cubic - (sum - got)) + (FN(gelu_linear_high) - got);
    sum_error += cubic_error + FN(gelu_linear_low);
    vec twice_u = FN(vec_two_product)(low, sum, &error);
    return FN(times_logistic)(x, low, FN(split_exp_of_sum)(twice_u, error + low * sum_error));
}
