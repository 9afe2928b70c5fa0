/* test_kernels_layers.c - the row kernels of fused layers, at every level and in both precisions, against plain loops
 * in long double: awkward lengths, rows that are hard to normalise, missing operands, random data around that must
 * survive.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "kernel_check.h"

enum { LENGTHS = 14, MOST = 2100 };

/* Around the widths of vectors, groups and blocks of a level. */
static int64_t length_at(int i, int lanes)
{
    const int64_t lengths[LENGTHS] = {1,         2,  3,   lanes - 1, lanes, lanes + 1, 2 * lanes + 1, 4 * lanes - 1,
                                      4 * lanes, 67, 131, 1024,      1025,  MOST};
    return lengths[i] > 0 ? lengths[i] : 1;
}

static long double epsilon(kernel_type type)
{
    return type == KERNEL_F32 ? FLT_EPSILON : DBL_EPSILON;
}

static void expect_near(const kernel_table *table, kernel_type type, const char *what, int64_t n, int64_t i,
                        long double got, long double want, long double tolerance)
{
    if (fabsl(got - want) <= tolerance || (isnan(got) && isnan(want)) || got == want)
        return;
    fail_msg("%s, %s, %s of %lld: element %lld is %.17Lg, must be %.17Lg within %.3Lg (seed %llu)", table->level,
             type == KERNEL_F32 ? "f32" : "f64", what, (long long)n, (long long)i, got, want, tolerance,
             (unsigned long long)guarded_seed());
}

static check_row draw_row(kernel_type type, int64_t n, long double scale, long double shift, uint64_t *stream)
{
    check_row r = check_row_take(type, n, 1, stream);
    for (int64_t i = 0; i < n; i++)
        check_row_put(&r, i, shift + scale * (long double)guarded_uniform(stream));
    check_row_remember(&r);
    return r;
}

/* ---- Norms ---------------------------------------------------------------------------------------------------------- */

typedef struct norm_case {
    bool centred, gain, shift, dgain, dshift, add;
    long double scale, mean;
    double eps;
} norm_case;

typedef struct reference_norm {
    long double h[MOST], scale, spread;
} reference_norm;

static void normalise(reference_norm *r, const check_row *x, const norm_case *c)
{
    long double first = c->centred ? check_row_get(x, 0) : 0, mean = 0, squares = 0;
    for (int64_t i = 0; i < x->n && c->centred; i++)
        mean += (check_row_get(x, i) - first) / (long double)x->n; /* exact, or nearly so */
    for (int64_t i = 0; i < x->n; i++) {
        r->h[i] = (check_row_get(x, i) - first) - mean;
        squares += r->h[i] * r->h[i] / (long double)x->n;
    }
    r->scale = 1 / sqrtl(squares + (long double)c->eps);
    for (int64_t i = 0; i < x->n; i++)
        r->h[i] *= r->scale;
}

typedef struct norm_rows {
    check_row x, gain, shift, y, dy, dx, dgain, dshift, kept;
} norm_rows;

static void check_norm_forward(const kernel_table *table, kernel_type type, const norm_case *c, const norm_rows *r,
                               const reference_norm *want)
{
    int64_t n = r->x.n;
    table->norm[type].forward(n, r->y.at, r->x.at, c->gain ? r->gain.at : NULL, c->shift ? r->shift.at : NULL, c->eps,
                              c->centred, r->kept.at);
    for (int64_t i = 0; i < n; i++) {
        long double gain = c->gain ? check_row_get(&r->gain, i) : 1, shift = c->shift ? check_row_get(&r->shift, i) : 0;
        expect_near(table, type, "norm", n, i, check_row_get(&r->y, i), want->h[i] * gain + shift,
                    epsilon(type) * (4 * fabsl(want->h[i] * gain) + fabsl(shift) + fabsl(gain)));
    }
}

static void check_norm_backward(const kernel_table *table, kernel_type type, const norm_case *c, const norm_rows *r,
                                const reference_norm *want)
{
    int64_t n = r->x.n;
    long double mean = 0, along = 0, size = 0, old[MOST], old_gain[MOST], old_shift[MOST];
    for (int64_t i = 0; i < n; i++) {
        long double dh = check_row_get(&r->dy, i) * (c->gain ? check_row_get(&r->gain, i) : 1);
        mean += c->centred ? dh / (long double)n : 0;
        along += dh * want->h[i] / (long double)n;
        size += fabsl(dh) * (1 + fabsl(want->h[i])) / (long double)n;
        old[i] = c->add ? check_row_get(&r->dx, i) : 0;
        old_gain[i] = check_row_get(&r->dgain, i);
        old_shift[i] = check_row_get(&r->dshift, i);
    }
    table->norm[type].backward(n, r->dx.at, c->add, r->x.at, r->dy.at, c->gain ? r->gain.at : NULL, c->centred,
                               r->kept.at, c->dgain ? r->dgain.at : NULL, c->dshift ? r->dshift.at : NULL);
    for (int64_t i = 0; i < n; i++) {
        long double dy = check_row_get(&r->dy, i), dh = dy * (c->gain ? check_row_get(&r->gain, i) : 1), h = want->h[i];
        long double dx = (dh - mean - h * along) * want->scale, tolerance = epsilon(type) * 8;
        expect_near(table, type, "norm's dx", n, i, check_row_get(&r->dx, i), old[i] + dx,
                    tolerance * (fabsl(old[i]) + (fabsl(dh) + size * (1 + fabsl(h))) * want->scale));
        expect_near(table, type, "norm's dgain", n, i, check_row_get(&r->dgain, i),
                    old_gain[i] + (c->dgain ? dy * h : 0),
                    c->dgain ? tolerance * (fabsl(old_gain[i]) + fabsl(dy) * (1 + fabsl(h))) : 0);
        expect_near(table, type, "norm's dshift", n, i, check_row_get(&r->dshift, i),
                    old_shift[i] + (c->dshift ? dy : 0), c->dshift ? tolerance * (fabsl(old_shift[i]) + fabsl(dy)) : 0);
    }
}

static void check_norm(const kernel_table *table, kernel_type type, int64_t n, const norm_case *c, uint64_t *stream)
{
    static reference_norm want;
    norm_rows r = {.x = draw_row(type, n, c->scale, c->mean, stream),
                   .gain = draw_row(type, n, 2, 0, stream),
                   .shift = draw_row(type, n, 2, 0, stream),
                   .y = draw_row(type, n, 1, 0, stream),
                   .dy = draw_row(type, n, 1, 0, stream),
                   .dx = draw_row(type, n, 1, 0, stream),
                   .dgain = draw_row(type, n, 1, 0, stream),
                   .dshift = draw_row(type, n, 1, 0, stream),
                   .kept = draw_row(type, KERNEL_NORM_KEPT, 1, 0, stream)};
    normalise(&want, &r.x, c);
    check_norm_forward(table, type, c, &r, &want);
    check_norm_backward(table, type, c, &r, &want);
    check_row *all[] = {&r.x, &r.gain, &r.shift, &r.dy, &r.y, &r.dx, &r.dgain, &r.dshift, &r.kept};
    for (int i = 0; i < 9; i++) {
        check_row_untouched(all[i], i < 4, "norm");
        check_row_free(all[i]);
    }
}

static void norm_lengths(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("norm");
    for (int i = 0; i < LENGTHS; i++)
        for (int variant = 0; variant < 8; variant++) {
            const norm_case c = {.centred = variant & 1,
                                 .gain = variant & 2,
                                 .shift = variant & 4,
                                 .dgain = (variant + i) & 1,
                                 .dshift = (variant + i) & 2,
                                 .add = (variant + i) & 4,
                                 .scale = 2,
                                 .mean = variant & 1 ? 100 : 0.5L,
                                 .eps = 1e-5};
            check_norm(table, type, length_at(i, check_lanes(table, type)), &c, &stream);
        }
}

static void norms_of_a_row_and_their_derivatives(void **state)
{
    (void)state;
    check_levels_and_types(norm_lengths);
}

/* Far from 0 with hardly any spread, an outlier in front, and in f32 up to the ends of the range. */
static void hard_rows(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("hard norm");
    const bool narrow = type == KERNEL_F32;
    const norm_case cases[] = {
        {.centred = true, .scale = 1, .mean = narrow ? 2000 : 1e6L},
        {.centred = true, .scale = narrow ? 0.01L : 1e-6L, .mean = narrow ? 1000 : 1e8L, .gain = true},
        {.scale = narrow ? 7e19L : 1e150L, .gain = true},
        {.scale = narrow ? 3e38L : 1e153L},
        {.centred = true, .scale = narrow ? 1e37L : 1e150L},
        {.scale = narrow ? 1e-30L : 1e-150L},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        norm_case c = cases[i];
        check_norm(table, type, 131, &c, &stream);
    }
    check_row x = draw_row(type, 1024, 1, 0, &stream), y = draw_row(type, 1024, 1, 0, &stream),
              kept = draw_row(type, KERNEL_NORM_KEPT, 1, 0, &stream);
    check_row_put(&x, 0, 1e6L);
    static reference_norm want;
    normalise(&want, &x, &(norm_case){.centred = true});
    table->norm[type].forward(1024, y.at, x.at, NULL, NULL, 0, true, kept.at);
    for (int64_t i = 0; i < 1024; i++)
        expect_near(table, type, "norm with an outlier", 1024, i, check_row_get(&y, i), want.h[i],
                    epsilon(type) * 4 * (fabsl(want.h[i]) + 1));
    check_row_free(&x);
    check_row_free(&y);
    check_row_free(&kept);
}

static void norms_bear_rows_far_from_0_and_at_the_ends_of_the_range(void **state)
{
    (void)state;
    check_levels_and_types(hard_rows);
}

/* All elements equal: exactly 0, whatever their number and value. */
static void equal_rows(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("equal");
    for (int i = 0; i < LENGTHS; i++) {
        int64_t n = length_at(i, check_lanes(table, type));
        check_row x = draw_row(type, n, 0, 1234.1L * (i + 1) / 3, &stream), y = draw_row(type, n, 1, 0, &stream),
                  kept = draw_row(type, KERNEL_NORM_KEPT, 1, 0, &stream);
        table->norm[type].forward(n, y.at, x.at, NULL, NULL, 1e-5, true, kept.at);
        for (int64_t j = 0; j < n; j++)
            expect_near(table, type, "equal elements", n, j, check_row_get(&y, j), 0, 0);
        check_row_free(&x);
        check_row_free(&y);
        check_row_free(&kept);
    }
}

static void equal_elements_are_normalised_to_exactly_0(void **state)
{
    (void)state;
    check_levels_and_types(equal_rows);
}

/* ---- GELU ----------------------------------------------------------------------------------------------------------- */

static long double gelu(int kind, long double x, long double *slope)
{
    const long double pi = 3.141592653589793238462643L;
    if (kind == KERNEL_BY_ERF) {
        long double area = erfcl(-x / sqrtl(2)) / 2;
        *slope = area + x * expl(-x * x / 2) / sqrtl(2 * pi);
        return x * area;
    }
    long double c = sqrtl(2 / pi), twice_u = 2 * c * (x + 0.044715L * x * x * x), s = 1 / (1 + expl(-twice_u));
    *slope = s + x * s * (1 / (1 + expl(twice_u))) * 2 * c * (1 + 3 * 0.044715L * x * x);
    return x * s;
}

static void check_gelu(const kernel_table *table, kernel_type type, int kind, int64_t n, int variant, uint64_t *stream)
{
    const bool with_bias = variant & 1, add = variant & 2, sums = variant & 4;
    check_row x = draw_row(type, n, variant & 8 ? 30 : 3, 0, stream), bias = draw_row(type, n, 1, 0, stream),
              y = draw_row(type, n, 1, 0, stream), dy = draw_row(type, n, 1, 0, stream),
              dx = draw_row(type, n, 1, 0, stream), dbias = draw_row(type, n, 1, 0, stream);
    const kernel_gelu_fns *f = &table->gelu[type][kind];
    long double old[MOST], old_bias[MOST];
    for (int64_t i = 0; i < n; i++) {
        old[i] = add ? check_row_get(&dx, i) : 0;
        old_bias[i] = check_row_get(&dbias, i);
    }
    f->forward(n, y.at, x.at, with_bias ? bias.at : NULL);
    f->backward(n, dx.at, add, x.at, with_bias ? bias.at : NULL, dy.at, sums ? dbias.at : NULL);
    for (int64_t i = 0; i < n; i++) {
        long double at = check_row_get(&x, i), slope, d;
        if (with_bias) /* rounded, as the kernel has it */
            at = type == KERNEL_F32 ? (float)at + (float)check_row_get(&bias, i)
                                    : (double)at + (double)check_row_get(&bias, i);
        long double value = gelu(kind, at, &slope), tolerance = 8 * epsilon(type);
        d = slope * check_row_get(&dy, i);
        expect_near(table, type, "gelu", n, i, check_row_get(&y, i), value,
                    tolerance * fabsl(value) + (type == KERNEL_F32 ? FLT_TRUE_MIN : DBL_TRUE_MIN));
        expect_near(table, type, "gelu's dx", n, i, check_row_get(&dx, i), old[i] + d, tolerance * (fabsl(old[i]) + 1));
        expect_near(table, type, "gelu's dbias", n, i, check_row_get(&dbias, i), old_bias[i] + (sums ? d : 0),
                    sums ? tolerance * (fabsl(old_bias[i]) + 1) : 0);
    }
    check_row *all[] = {&x, &bias, &dy, &y, &dx, &dbias};
    for (int i = 0; i < 6; i++) {
        check_row_untouched(all[i], i < 3, "gelu");
        check_row_free(all[i]);
    }
}

static void gelu_lengths(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("gelu");
    for (int kind = 0; kind < KERNEL_GELU_KINDS; kind++)
        for (int i = 0; i < LENGTHS; i++)
            for (int variant = i % 2; variant < 16; variant += 2)
                check_gelu(table, type, kind, length_at(i, check_lanes(table, type)), variant, &stream);
}

static void gelu_of_a_row_with_a_bias_and_its_slope(void **state)
{
    (void)state;
    check_levels_and_types(gelu_lengths);
}

/* The slope is 0 or 1 far out, at infinity too; NaN stays. */
static void far_out(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("far");
    const double at[] = {INFINITY, -INFINITY, 1e30, -1e30, 300, -300, NAN};
    check_row x = draw_row(type, 7, 1, 0, &stream), dy = draw_row(type, 7, 0, 1, &stream),
              dx = draw_row(type, 7, 1, 0, &stream);
    for (int i = 0; i < 7; i++)
        check_row_put(&x, i, (long double)at[i]);
    for (int kind = 0; kind < KERNEL_GELU_KINDS; kind++) {
        table->gelu[type][kind].backward(7, dx.at, false, x.at, NULL, dy.at, NULL);
        for (int i = 0; i < 7; i++)
            expect_near(table, type, "gelu's slope far out", 7, i, check_row_get(&dx, i), i == 6 ? NAN : (i + 1) % 2,
                        0);
    }
    check_row_free(&x);
    check_row_free(&dy);
    check_row_free(&dx);
}

static void slopes_of_gelu_are_flat_far_out(void **state)
{
    (void)state;
    check_levels_and_types(far_out);
}

/* ---- Cross-entropy ---------------------------------------------------------------------------------------------------- */

static void check_loss(const kernel_table *table, kernel_type type, int64_t n, int variant, uint64_t *stream)
{
    const bool add = variant & 1, in_place = !add && variant & 4;
    const double smoothing = variant & 2 ? 0.1 : 0, factor = -0.7;
    check_row x = draw_row(type, n, variant & 8 ? 60 : 3, variant & 8 ? 1000 : 0, stream),
              d = draw_row(type, n, 1, 0, stream), kept = draw_row(type, KERNEL_LOSS_KEPT, 1, 0, stream);
    check_row before = check_row_take(type, n, 1, stream); /* x, which may be overwritten */
    for (int64_t i = 0; i < n; i++)
        check_row_put(&before, i, check_row_get(&x, i));
    int64_t target = guarded_below(stream, n);
    long double largest = -INFINITY, sum = 0, mean = 0, old[MOST], p[MOST];
    for (int64_t i = 0; i < n; i++)
        largest = fmaxl(largest, check_row_get(&x, i));
    for (int64_t i = 0; i < n; i++) {
        sum += p[i] = expl(check_row_get(&x, i) - largest);
        mean += (check_row_get(&x, i) - largest) / (long double)n;
        old[i] = add ? check_row_get(&d, i) : 0;
    }
    long double share = (long double)smoothing, at = check_row_get(&x, target) - largest;
    long double want = logl(sum) - (1 - share) * at - share * mean;
    double loss = table->loss[type].forward(n, x.at, target, smoothing, kept.at);
    expect_near(table, type, "cross-entropy", n, target, loss, want, 4 * epsilon(type) * (fabsl(at) + fabsl(mean) + 1));
    check_row *to = in_place ? &x : &d;
    table->loss[type].backward(n, to->at, add, x.at, kept.at, target, smoothing, factor);
    for (int64_t i = 0; i < n; i++) {
        long double slope = factor * (p[i] / sum - share / (long double)n - (i == target ? 1 - share : 0));
        expect_near(table, type, "cross-entropy's slope", n, i, check_row_get(to, i), old[i] + slope,
                    8 * epsilon(type) *
                            (fabsl(old[i]) + fabsl(slope) +
                             p[i] / sum * (largest - check_row_get(&before, i) + logl(sum) + 1)) +
                        1e-37L);
    }
    check_row_untouched(&x, !in_place, "cross-entropy");
    check_row_untouched(&d, in_place, "cross-entropy");
    check_row_untouched(&kept, false, "cross-entropy");
    check_row_free(&before);
    check_row_free(&x);
    check_row_free(&d);
    check_row_free(&kept);
}

static void loss_lengths(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("loss");
    for (int i = 0; i < LENGTHS; i++)
        for (int variant = 0; variant < 16; variant++)
            check_loss(table, type, length_at(i, check_lanes(table, type)), variant, &stream);
}

static void cross_entropy_of_a_row_and_its_slope(void **state)
{
    (void)state;
    check_levels_and_types(loss_lengths);
}

/* ---- Rotary positions ------------------------------------------------------------------------------------------------- */

static void check_rope(const kernel_table *table, kernel_type type, int64_t pairs, int variant, uint64_t *stream)
{
    const bool side_by_side = variant & 1, back = variant & 2, in_place = variant & 4;
    check_row x = draw_row(type, 2 * pairs, 1, 0, stream), y = draw_row(type, 2 * pairs, 1, 0, stream),
              cosines = draw_row(type, pairs, 1, 0, stream), sines = draw_row(type, pairs, 1, 0, stream);
    static long double old[2 * MOST];
    for (int64_t i = 0; i < 2 * pairs; i++)
        old[i] = check_row_get(&x, i);
    check_row *to = in_place ? &x : &y;
    table->rope[type](pairs, to->at, x.at, cosines.at, sines.at, side_by_side, back);
    for (int64_t i = 0; i < pairs; i++) {
        int64_t first = side_by_side ? 2 * i : i, second = side_by_side ? 2 * i + 1 : i + pairs;
        long double c = check_row_get(&cosines, i), s = check_row_get(&sines, i) * (back ? -1 : 1);
        expect_near(table, type, "rope", pairs, first, check_row_get(to, first), old[first] * c - old[second] * s,
                    4 * epsilon(type));
        expect_near(table, type, "rope", pairs, second, check_row_get(to, second), old[second] * c + old[first] * s,
                    4 * epsilon(type));
    }
    check_row *all[] = {&cosines, &sines, &x, &y};
    for (int i = 0; i < 4; i++) {
        check_row_untouched(all[i], i < 2 || (i == 2 && !in_place), "rope");
        check_row_free(all[i]);
    }
}

static void rope_lengths(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("rope");
    for (int i = 0; i < LENGTHS; i++)
        for (int variant = 0; variant < 8; variant++)
            check_rope(table, type, length_at(i, check_lanes(table, type)), variant, &stream);
}

static void pairs_of_a_row_are_turned_and_back(void **state)
{
    (void)state;
    check_levels_and_types(rope_lengths);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_of_a_row_and_their_derivatives),
        cmocka_unit_test(norms_bear_rows_far_from_0_and_at_the_ends_of_the_range),
        cmocka_unit_test(equal_elements_are_normalised_to_exactly_0),
        cmocka_unit_test(gelu_of_a_row_with_a_bias_and_its_slope),
        cmocka_unit_test(slopes_of_gelu_are_flat_far_out),
        cmocka_unit_test(cross_entropy_of_a_row_and_its_slope),
        cmocka_unit_test(pairs_of_a_row_are_turned_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
