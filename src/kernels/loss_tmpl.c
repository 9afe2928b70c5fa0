/* loss_tmpl.c - cross-entropy of a row of logits, and its derivative, from the maximum and the logarithm of the sum.
 *
 * Both are kept apart: x - maximum is exact or nearly so, however large the logits are.
 */

static double FN(loss_forward)(int64_t n, const void *logits, int64_t target, double smoothing, void *kept_numbers)
{
    const real *x = logits;
    real *kept = kept_numbers;
    FN(row_scale) s = FN(exp_of_row)(n, NULL, 0, x, 1, false);
    double log_sum = s.sum == 0 ? 0 : log(s.sum), loss = log_sum - ((double)x[target] - (double)s.shift);
    kept[0] = s.shift;
    kept[1] = (real)log_sum;
    if (smoothing == 0)
        return loss;
    double even = log_sum - FN(moments_of)(n, x, (double)s.shift).sum / (double)n;
    return (1 - smoothing) * loss + smoothing * even;
}

ALWAYS_INLINE void FN(loss_slope_row)(int64_t n, real *d, const real *x, const real *kept, real even, real factor,
                                      bool add)
{
    for (int64_t i = 0; i < n; i += LANES) {
        vec p = FN(exp_below)((FN(load_some)(x + i, n - i) - kept[0]) - kept[1]);
        vec slope = (p - even) * factor;
        FN(store_some)(d + i, n - i, add ? FN(load_some)(d + i, n - i) + slope : slope);
    }
}

static void FN(loss_backward)(int64_t n, void *slopes, bool add, const void *logits, const void *kept_numbers,
                              int64_t target, double smoothing, double factor)
{
    real *d = slopes;
    const real *x = logits, *kept = kept_numbers, even = (real)(smoothing / (double)n);
    vec p = FN(exp_below)(FN(broadcast)((x[target] - kept[0]) - kept[1]));
    real at_target = (p[0] - even - (real)(1 - smoothing)) * (real)factor + (add ? d[target] : 0);
    if (add)
        FN(loss_slope_row)(n, d, x, kept, even, (real)factor, true);
    else
        FN(loss_slope_row)(n, d, x, kept, even, (real)factor, false);
    d[target] = at_target;
}
