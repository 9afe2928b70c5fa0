/* erf_tmpl.c - erf, and gelu(x) = x Phi(x), on vectors.
 *
 * Below 0.75, erf is a polynomial. Everything else comes from the tail of the normal distribution,
 *
 *     Phi(-t) = e^(-t^2/2) T(t),   t >= 0,
 *
 * where T falls like 1/t: (t + 4) T(t) is a polynomial in u = (t - 4) / (t + 4). t^2 is taken apart into a part that
 * is exact and the rest, because an error of the exponent is a relative error of the result.
 */

/* T(t) (t + 4). Its powers alternate in sign where u is near 1, so the largest are added one by one. */
ALWAYS_INLINE vec FN(tail_of_u)(vec u)
{
    vec sum = FN(polynomial)(u, TAIL_DEGREE - 4, FN(tail_polynomial) + 4);
    for (int i = 3; i >= 0; i--)
        sum = FN(vec_fma)(sum, u, FN(broadcast)(FN(tail_polynomial)[i]));
    return sum;
}

/* T(t) (1 + rest), 0 <= t <= tail_high. T(t) (t + 4) falls from 2 to 0.4, which would magnify the rounding errors of
 * t + 4 and of its inverse: they are carried along to the last operation. T' / T is about slope, within a quarter. */
ALWAYS_INLINE vec FN(normal_tail)(vec t, vec rest)
{
    vec sum = t + 4, lost = t - (sum - 4), inverse = 1 / sum, error;
    vec product = FN(vec_two_product)(sum, inverse, &error);
    vec missing = (1 - product) - error, u = (sum - 8) * inverse;
    vec tail = FN(tail_of_u)(FN(vec_fma)(u, missing, u)) * inverse;
    vec slope = -inverse * ((real)0.309 + (real)11.5 * inverse);
    vec more = FN(vec_fma)(lost, slope, missing);
    return FN(vec_fma)(tail, FN(vec_fma)(more, 1 + rest, rest), tail);
}

/* e^(-factor z^2), factor a power of two. */
ALWAYS_INLINE FN(exp_split) FN(split_bell)(vec z, real factor)
{
    vec high = (vec)((mask)z & UPPER_HALF), low = z - high;
    return FN(split_exp_of_sum)(-factor * (high * high), -factor * (low * (z + high)));
}

ALWAYS_INLINE vec FN(erf)(vec x, vec unused)
{
    (void)unused;
    vec size = FN(absolute)(x, x), z = FN(vec_min)(FN(broadcast)(6), size);
    FN(exp_split) bell = FN(split_bell)(z, 1);
    vec beyond = 2 * FN(normal_tail)(z * FN(root_2), bell.rest);
    vec large = 1 - beyond * FN(power_factor)(bell.power);
    vec small = FN(vec_fma)(z, FN(polynomial)(z * z, ERF_DEGREE, FN(erf_polynomial)), z);
    return FN(with_sign_of)(FN(select)(z < (real)0.75, small, large), x);
}

/* Near 0, Phi is 1/2 and half an erf. For x < 0 the factor x comes in before 2^n: what is below the normal numbers is
 * rounded once. */
ALWAYS_INLINE vec FN(gelu_erf)(vec x, vec unused)
{
    (void)unused;
    vec t = FN(vec_min)(FN(broadcast)(FN(tail_high)), FN(absolute)(x, x));
    FN(exp_split) bell = FN(split_bell)(t, (real)0.5);
    vec tail = FN(normal_tail)(t, bell.rest);
    vec negative = FN(scale)(-t * tail, bell.power), positive = x * (1 - FN(scale)(tail, bell.power));
    vec large = FN(select)(x < 0, negative, positive);
    vec z = x * FN(root_half);
    vec half_erf = (real)0.5 * FN(vec_fma)(z, FN(polynomial)(z * z, ERF_DEGREE, FN(erf_polynomial)), z);
    return FN(select)(t < (real)0.75, x * ((real)0.5 + half_erf), large);
}
