/* erf_tmpl.c - erf, and gelu(x) = x Phi(x), on vectors.
 *
 * Below 0.75, erf is a polynomial. Everything else comes from the tail of the normal distribution,
 *
 *     Phi(-t) = e^(-t^2/2) T(t),   t >= 0,
 *
 * where T falls like 1/t: (t + 13/16) T(t) is a polynomial P in u = (t - 8) / (t + 4) and nearly constant. t^2 is taken
 * apart into a part that is exact and the rest, because an error of the exponent is a relative error of the result.
 */

/* T(t) (1 + rest), 0.7 <= t <= tail_high. What t + 13/16 lost when it was rounded is put back at the end, where 9/4 of
 * the tail stands for its inverse: P(u) is 0.4 to 0.47. */
ALWAYS_INLINE vec FN(normal_tail)(vec t, vec rest)
{
    vec u = FN(vec_fma)(FN(broadcast)(-12), 1 / (t + 4), FN(broadcast)(1));
    vec sum = t + (real)0.8125, lost = (sum - (real)0.8125) - t;
    vec tail = FN(polynomial)(u, TAIL_DEGREE, FN(tail_polynomial)) / sum;
    vec more = lost * ((real)2.25 * tail);
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
