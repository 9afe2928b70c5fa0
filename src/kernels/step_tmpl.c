/* step_tmpl.c - optimisers' steps, each in one pass: a parameter p by its gradient g, with what is remembered of
 * earlier ones, m and v. The formulas are in llmlab/optim.h.
 *
 * Every product that is added to something goes through vec_fma, so that the compiler has nothing to contract: an
 * element has the same bits in a whole vector and in the last part of one.
 */

/* The numbers of kernel_step as vectors. */
typedef struct FN(pace) {
    vec scale, coupled, keep, back, first, first_rest, second, second_rest, root, eps;
    mask couples;
} FN(pace);

typedef struct FN(moving) {
    vec p, m, v;
} FN(moving);

typedef void (*FN(rule))(FN(moving) * x, vec g, const FN(pace) * by);

static inline FN(pace) FN(pace_of)(const kernel_step *by)
{
    return (FN(pace)){.scale = FN(broadcast)((real)by->scale),
                      .coupled = FN(broadcast)((real)by->coupled),
                      .keep = FN(broadcast)((real)by->keep),
                      .back = FN(broadcast)((real)-by->rate),
                      .first = FN(broadcast)((real)by->first),
                      .first_rest = FN(broadcast)((real)(1 - by->first)),
                      .second = FN(broadcast)((real)by->second),
                      .second_rest = FN(broadcast)((real)(1 - by->second)),
                      .root = FN(broadcast)((real)by->root),
                      .eps = FN(broadcast)((real)by->eps),
                      .couples = (mask)(FN(broadcast)((real)by->coupled) != 0)};
}

/* -1, 0 or 1; NaN stays NaN. */
ALWAYS_INLINE vec FN(sign)(vec x)
{
    vec one = (vec)((mask)FN(with_sign_of)(FN(broadcast)(1), x) & (x != 0));
    return FN(select)(x != x, x, one);
}

/* before * (share of it) + x * (the rest): how averages move. */
ALWAYS_INLINE vec FN(mixed)(vec before, vec share, vec x, vec rest)
{
    return FN(vec_fma)(before, share, x * rest);
}

/* A moment without a gradient, of a token that is not seen any more: below the normal numbers it is gone. It would stay
 * there, as 0.9 of the smallest one is rounded back to it, and there an Intel takes 15 times as long for a step. */
ALWAYS_INLINE vec FN(faded)(vec m, vec g)
{
    return (vec)((mask)m & ~((g == 0) & (FN(absolute)(m, m) < NORMAL_LEAST)));
}

ALWAYS_INLINE void FN(go)(FN(moving) * x, vec direction, const FN(pace) * by)
{
    x->p = FN(vec_fma)(by->back, direction, x->p * by->keep);
}

ALWAYS_INLINE void FN(rule_plain)(FN(moving) * x, vec g, const FN(pace) * by)
{
    FN(go)(x, g, by);
}

ALWAYS_INLINE void FN(rule_momentum)(FN(moving) * x, vec g, const FN(pace) * by)
{
    x->m = FN(faded)(FN(vec_fma)(x->m, by->first, g), g);
    FN(go)(x, x->m, by);
}

ALWAYS_INLINE void FN(rule_nesterov)(FN(moving) * x, vec g, const FN(pace) * by)
{
    x->m = FN(faded)(FN(vec_fma)(x->m, by->first, g), g);
    FN(go)(x, FN(vec_fma)(x->m, by->first, g), by);
}

ALWAYS_INLINE void FN(rule_sign)(FN(moving) * x, vec g, const FN(pace) * by)
{
    FN(go)(x, FN(sign)(g), by);
}

ALWAYS_INLINE void FN(rule_sign_momentum)(FN(moving) * x, vec g, const FN(pace) * by)
{
    x->m = FN(mixed)(x->m, by->first, g, by->first_rest);
    FN(go)(x, FN(sign)(x->m), by);
}

/* g over the root of its mean square; `root` is what the mean's bias asks for. */
ALWAYS_INLINE vec FN(over_root)(FN(moving) * x, vec over, vec g, const FN(pace) * by)
{
    x->v = FN(mixed)(x->v, by->second, g * g, by->second_rest);
    return over / FN(vec_fma)(FN(vec_sqrt)(x->v), by->root, by->eps);
}

ALWAYS_INLINE void FN(rule_rmsprop)(FN(moving) * x, vec g, const FN(pace) * by)
{
    FN(go)(x, FN(over_root)(x, g, g, by), by);
}

ALWAYS_INLINE void FN(rule_rmsprop_momentum)(FN(moving) * x, vec g, const FN(pace) * by)
{
    x->m = FN(faded)(FN(vec_fma)(x->m, by->first, FN(over_root)(x, g, g, by)), g);
    FN(go)(x, x->m, by);
}

ALWAYS_INLINE void FN(rule_adam)(FN(moving) * x, vec g, const FN(pace) * by)
{
    x->m = FN(faded)(FN(mixed)(x->m, by->first, g, by->first_rest), g);
    FN(go)(x, FN(over_root)(x, x->m, g, by), by);
}

ALWAYS_INLINE void FN(rule_lion)(FN(moving) * x, vec g, const FN(pace) * by)
{
    FN(go)(x, FN(sign)(FN(mixed)(x->m, by->first, g, by->first_rest)), by);
    x->m = FN(mixed)(x->m, by->second, g, by->second_rest);
}

/* The gradient, scaled, with the decay that belongs to it. */
ALWAYS_INLINE vec FN(descent)(vec g, vec p, const FN(pace) * by)
{
    g *= by->scale;
    return FN(select)(by->couples, FN(vec_fma)(by->coupled, p, g), g);
}

/* One pass. m and v are touched where the rule has them only. */
ALWAYS_INLINE void FN(pass)(int64_t n, void *p_row, const void *g_row, void *m_row, void *v_row, const kernel_step *how,
                            FN(rule) rule, bool has_m, bool has_v)
{
    real *p = p_row, *m = m_row, *v = v_row;
    const real *g = g_row;
    const FN(pace) by = FN(pace_of)(how);
    const vec zeros = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        FN(moving) x = {FN(load)(p + i), has_m ? FN(load)(m + i) : zeros, has_v ? FN(load)(v + i) : zeros};
        rule(&x, FN(descent)(FN(load)(g + i), x.p, &by), &by);
        FN(store)(p + i, x.p);
        if (has_m)
            FN(store)(m + i, x.m);
        if (has_v)
            FN(store)(v + i, x.v);
    }
    if (i == n)
        return;
    FN(moving)
    x = {FN(vec_load_part)(p + i, n - i, zeros), has_m ? FN(vec_load_part)(m + i, n - i, zeros) : zeros,
         has_v ? FN(vec_load_part)(v + i, n - i, zeros) : zeros};
    rule(&x, FN(descent)(FN(vec_load_part)(g + i, n - i, zeros), x.p, &by), &by);
    FN(vec_store_part)(p + i, n - i, x.p);
    if (has_m)
        FN(vec_store_part)(m + i, n - i, x.m);
    if (has_v)
        FN(vec_store_part)(v + i, n - i, x.v);
}

static void FN(step_plain)(int64_t n, void *p, const void *g, void *m, void *v, const kernel_step *by)
{
    FN(pass)(n, p, g, m, v, by, FN(rule_plain), false, false);
}

static void FN(step_momentum)(int64_t n, void *p, const void *g, void *m, void *v, const kernel_step *by)
{
    FN(pass)(n, p, g, m, v, by, FN(rule_momentum), true, false);
}

static void FN(step_nesterov)(int64_t n, void *p, const void *g, void *m, void *v, const kernel_step *by)
{
    FN(pass)(n, p, g, m, v, by, FN(rule_nesterov), true, false);
}

static void FN(step_sign)(int64_t n, void *p, const void *g, void *m, void *v, const kernel_step *by)
{
    FN(pass)(n, p, g, m, v, by, FN(rule_sign), false, false);
}

static void FN(step_sign_momentum)(int64_t n, void *p, const void *g, void *m, void *v, const kernel_step *by)
{
    FN(pass)(n, p, g, m, v, by, FN(rule_sign_momentum), true, false);
}

static void FN(step_rmsprop)(int64_t n, void *p, const void *g, void *m, void *v, const kernel_step *by)
{
    FN(pass)(n, p, g, m, v, by, FN(rule_rmsprop), false, true);
}

static void FN(step_rmsprop_momentum)(int64_t n, void *p, const void *g, void *m, void *v, const kernel_step *by)
{
    FN(pass)(n, p, g, m, v, by, FN(rule_rmsprop_momentum), true, true);
}

static void FN(step_adam)(int64_t n, void *p, const void *g, void *m, void *v, const kernel_step *by)
{
    FN(pass)(n, p, g, m, v, by, FN(rule_adam), true, true);
}

static void FN(step_lion)(int64_t n, void *p, const void *g, void *m, void *v, const kernel_step *by)
{
    FN(pass)(n, p, g, m, v, by, FN(rule_lion), true, false);
}
