/* test_kernels_step.c - optimisers' steps on every level: against long double at awkward sizes, with guards; an
 * element's bits do not depend on its place.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_check.h"

static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129, 1021};
enum { SIZES = sizeof sizes / sizeof sizes[0], MOST = 1021 };

static const char *const names[KERNEL_RULE_COUNT] = {
    [KERNEL_PLAIN] = "plain",
    [KERNEL_MOMENTUM] = "momentum",
    [KERNEL_NESTEROV] = "nesterov",
    [KERNEL_SIGN] = "sign",
    [KERNEL_SIGN_MOMENTUM] = "sign, momentum",
    [KERNEL_RMSPROP] = "rmsprop",
    [KERNEL_RMSPROP_MOMENTUM] = "rmsprop, momentum",
    [KERNEL_ADAM] = "adam",
    [KERNEL_LION] = "lion",
};

static bool has_m(kernel_rule rule)
{
    return rule != KERNEL_PLAIN && rule != KERNEL_SIGN && rule != KERNEL_RMSPROP;
}

static bool has_v(kernel_rule rule)
{
    return rule == KERNEL_RMSPROP || rule == KERNEL_RMSPROP_MOMENTUM || rule == KERNEL_ADAM;
}

/* ---- The rules, one element -------------------------------------------------------------------------------------- */

typedef struct moving {
    long double p, m, v;
} moving;

static long double sign(long double x)
{
    return (long double)(x > 0) - (long double)(x < 0);
}

static long double mixed(long double before, long double x, double share)
{
    return share * before + (1 - share) * x;
}

/* Returns what p moves along. */
static long double direction(kernel_rule rule, moving *x, long double g, const kernel_step *by)
{
    if (has_v(rule))
        x->v = mixed(x->v, g * g, by->second);
    const long double over = sqrtl(x->v) * by->root + by->eps;
    switch (rule) {
    case KERNEL_PLAIN:
    case KERNEL_SIGN:
        return rule == KERNEL_SIGN ? sign(g) : g;
    case KERNEL_MOMENTUM:
    case KERNEL_NESTEROV:
        x->m = by->first * x->m + g;
        return rule == KERNEL_MOMENTUM ? x->m : by->first * x->m + g;
    case KERNEL_SIGN_MOMENTUM:
        x->m = mixed(x->m, g, by->first);
        return sign(x->m);
    case KERNEL_RMSPROP:
        return g / over;
    case KERNEL_RMSPROP_MOMENTUM:
        x->m = by->first * x->m + g / over;
        return x->m;
    case KERNEL_ADAM:
        x->m = mixed(x->m, g, by->first);
        return x->m / over;
    case KERNEL_LION:
    case KERNEL_RULE_COUNT:
        break;
    }
    const long double along = sign(mixed(x->m, g, by->first));
    x->m = mixed(x->m, g, by->second);
    return along;
}

static void step(kernel_rule rule, moving *x, long double g, const kernel_step *by)
{
    g = by->scale * g + by->coupled * x->p;
    long double along = direction(rule, x, g, by);
    x->p = by->keep * x->p - by->rate * along;
}

/* ---- Against it -------------------------------------------------------------------------------------------------- */

static kernel_step draw_step(kernel_type type, uint64_t *stream)
{
    kernel_step by = {.rate = 0.1 + guarded_uniform(stream) / 20,
                      .scale = guarded_below(stream, 2) ? 1 : 0.3,
                      .coupled = guarded_below(stream, 2) ? 0 : 0.2,
                      .keep = guarded_below(stream, 2) ? 1 : 0.97,
                      .first = 0.9,
                      .second = 0.99,
                      .root = 1 + guarded_below(stream, 3),
                      .eps = 1e-3};
    double *numbers[] = {&by.rate, &by.scale, &by.coupled, &by.keep, &by.first, &by.second, &by.root, &by.eps};
    for (int i = 0; i < 8 && type == KERNEL_F32; i++)
        *numbers[i] = (float)*numbers[i]; /* as the kernel has them */
    return by;
}

static check_row draw_row(kernel_type type, int64_t n, double low, double high, uint64_t *stream)
{
    check_row r = check_row_take(type, n, 1, stream);
    for (int64_t i = 0; i < n; i++)
        check_row_put(&r, i, low + (high - low) * (guarded_uniform(stream) + 1) / 2);
    check_row_remember(&r);
    return r;
}

static void expect_near(const char *what, const char *rule, int64_t i, long double got, long double want,
                        kernel_type type)
{
    const long double unit = type == KERNEL_F32 ? FLT_EPSILON : DBL_EPSILON;
    if (!(fabsl(got - want) <= 16 * unit * (1 + fabsl(want))))
        fail_msg("seed %llu: %s: %s: element %lld is %.21Lg, expected %.21Lg", (unsigned long long)guarded_seed(), what,
                 rule, (long long)i, got, want);
}

/* A sign may go either way where what it is of is nearly 0; the numbers drawn make that so rare that it has not been
 * met, but the seed is free. */
static bool near_a_turn(kernel_rule rule, const moving *before, long double g, const kernel_step *by)
{
    g = by->scale * g + by->coupled * before->p;
    return (rule == KERNEL_SIGN && fabsl(g) < 1e-5) ||
           ((rule == KERNEL_SIGN_MOMENTUM || rule == KERNEL_LION) && fabsl(mixed(before->m, g, by->first)) < 1e-5);
}

static void try_size(const kernel_table *table, kernel_type type, kernel_rule rule, int64_t n, uint64_t *stream)
{
    const kernel_step by = draw_step(type, stream);
    check_row p = draw_row(type, n, -1, 1, stream), g = draw_row(type, n, -2, 2, stream);
    check_row m = draw_row(type, n, -1, 1, stream), v = draw_row(type, n, 0, 1, stream);
    static moving x[MOST];
    static bool turns[MOST];
    for (int64_t i = 0; i < n; i++) {
        x[i] = (moving){check_row_get(&p, i), has_m(rule) ? check_row_get(&m, i) : 0,
                        has_v(rule) ? check_row_get(&v, i) : 0};
        turns[i] = near_a_turn(rule, &x[i], check_row_get(&g, i), &by);
        step(rule, &x[i], check_row_get(&g, i), &by);
    }
    table->step[type][rule](n, p.at, g.at, has_m(rule) ? m.at : NULL, has_v(rule) ? v.at : NULL, &by);
    const char *what = check_text(table, type, "step", n, 1, 1);
    for (int64_t i = 0; i < n; i++) {
        if (!turns[i])
            expect_near(what, names[rule], i, check_row_get(&p, i), x[i].p, type);
        if (has_m(rule))
            expect_near(what, names[rule], i, check_row_get(&m, i), x[i].m, type);
        if (has_v(rule))
            expect_near(what, names[rule], i, check_row_get(&v, i), x[i].v, type);
    }
    check_row_untouched(&p, false, what);
    check_row_untouched(&g, true, what);
    check_row_untouched(&m, !has_m(rule), what);
    check_row_untouched(&v, !has_v(rule), what);
    check_row *rows[] = {&p, &g, &m, &v};
    for (int i = 0; i < 4; i++)
        check_row_free(rows[i]);
}

static void try_rules(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("steps");
    for (int rule = 0; rule < KERNEL_RULE_COUNT; rule++)
        for (int i = 0; i < SIZES; i++)
            try_size(table, type, (kernel_rule)rule, sizes[i], &stream);
}

static void steps_are_their_formulas_at_all_sizes(void **state)
{
    (void)state;
    check_levels_and_types(try_rules);
}

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

enum { WHOLE = 77 };

/* One call, and one call for each element. */
static void try_places(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("places");
    const size_t size = check_size(type);
    for (int rule = 0; rule < KERNEL_RULE_COUNT; rule++) {
        const kernel_step by = draw_step(type, &stream);
        double all[4][WHOLE], single[4][WHOLE]; /* p, g, m, v; room for either type */
        for (int row = 0; row < 4; row++)
            for (int i = 0; i < WHOLE; i++)
                check_put(type, all[row], i, row == 3 ? 1 + guarded_uniform(&stream) : guarded_uniform(&stream));
        memcpy(single, all, sizeof all);
        table->step[type][rule](WHOLE, all[0], all[1], all[2], all[3], &by);
        for (size_t i = 0; i < WHOLE; i++)
            table->step[type][rule](1, (char *)single[0] + i * size, (char *)single[1] + i * size,
                                    (char *)single[2] + i * size, (char *)single[3] + i * size, &by);
        for (int row = 0; row < 4; row++)
            if (memcmp(all[row], single[row], WHOLE * size) != 0)
                fail_msg("seed %llu: %s: %s: an element's bits depend on its place", (unsigned long long)guarded_seed(),
                         check_text(table, type, "step", WHOLE, 1, 1), names[rule]);
    }
}

static void an_elements_bits_do_not_depend_on_its_place(void **state)
{
    (void)state;
    check_levels_and_types(try_places);
}

/* sign(0) = 0 of either sign; NaN stays NaN. A p that is infinite is not made NaN by a decay of 0. */
static void try_special(const kernel_table *table, kernel_type type)
{
    const kernel_step by = {.rate = 1, .scale = 1, .keep = 1, .first = 0.9, .second = 0.9, .root = 1, .eps = 1};
    const double gradients[] = {0.0, -0.0, NAN, INFINITY, -1e-30};
    for (int i = 0; i < 5; i++) {
        double p, g, m;
        check_put(type, &p, 0, 5);
        check_put(type, &g, 0, gradients[i]);
        check_put(type, &m, 0, 0);
        table->step[type][KERNEL_SIGN](1, &p, &g, NULL, NULL, &by);
        const double want[] = {5, 5, NAN, 4, 6};
        assert_true(check_get(type, &p, 0) == want[i] || (isnan(want[i]) && isnan(check_get(type, &p, 0))));
        if (i < 2) {
            table->step[type][KERNEL_LION](1, &p, &g, &m, NULL, &by);
            assert_true(check_get(type, &p, 0) == 5);
        }
    }
    for (int rule = 0; rule < KERNEL_RULE_COUNT; rule++) {
        double p, g, m, v;
        check_put(type, &p, 0, INFINITY);
        check_put(type, &g, 0, 1);
        check_put(type, &m, 0, 0);
        check_put(type, &v, 0, 0);
        table->step[type][rule](1, &p, &g, &m, &v, &by);
        assert_true(check_get(type, &p, 0) == INFINITY);
    }
}

static void zeros_and_what_is_not_finite_keep_their_meaning(void **state)
{
    (void)state;
    check_levels_and_types(try_special);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_their_formulas_at_all_sizes),
        cmocka_unit_test(an_elements_bits_do_not_depend_on_its_place),
        cmocka_unit_test(zeros_and_what_is_not_finite_keep_their_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
