/* test_kernels_panel.c - the kernels of fused attention's panels, at every level and in both precisions: turning,
 * maximum, exponentials and sums, against plain loops in long double, at awkward sizes, strides and limits, between
 * random data that must survive.
 */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "kernels/level.h"
#include "panel_check.h"

/* ---- Turning -------------------------------------------------------------------------------------------------------------- */

/* x in rows (columns side by side) or turned (rows side by side), as `turned` says. */
static void check_pack(const kernel_table *table, kernel_type type, int64_t rows, int64_t columns, bool turned,
                       int64_t gap, uint64_t *stream)
{
    const int width = table->panel[type].width;
    const double factor = guarded_uniform(stream);
    block x = turned ? take(type, columns, rows, rows + gap, stream) : take(type, rows, columns, columns + gap, stream);
    block panel = take(type, columns, width, width + gap, stream);
    table->panel[type].pack(rows, columns, at(&panel), panel.step, at(&x), turned ? 1 : x.step, turned ? x.step : 1,
                            factor);
    const char *what = name(table, type, "pack");
    for (int64_t c = 0; c < columns; c++)
        for (int i = 0; i < width; i++) {
            const long double own = i >= rows ? 0 : turned ? get(&x, c, i) : get(&x, i, c);
            const long double want =
                type == KERNEL_F32 ? (long double)((float)own * (float)factor) : (long double)((double)own * factor);
            expect_near(what, columns, c, i, get(&panel, c, i), want, 0);
        }
    drop(&panel, true, what);
    drop(&x, false, what);
}

static void check_unpack(const kernel_table *table, kernel_type type, int64_t rows, int64_t columns, bool turned,
                         int64_t gap, uint64_t *stream)
{
    const int width = table->panel[type].width;
    for (int add = 0; add < 2; add++) {
        block y =
            turned ? take(type, columns, rows, rows + gap, stream) : take(type, rows, columns, columns + gap, stream);
        block panel = take(type, columns, width, width + gap, stream), factors = take(type, 1, width, width, stream);
        table->panel[type].unpack(rows, columns, at(&y), turned ? 1 : y.step, turned ? y.step : 1, at(&panel),
                                  panel.step, at(&factors), add);
        const char *what = name(table, type, add ? "unpack, added" : "unpack");
        for (int64_t c = 0; c < columns; c++)
            for (int64_t i = 0; i < rows; i++) {
                const long double more = get(&panel, c, i) * get(&factors, 0, i);
                const long double old = add ? (turned ? before(&y, c, i) : before(&y, i, c)) : 0;
                expect_near(what, columns, c, i, turned ? get(&y, c, i) : get(&y, i, c), old + more,
                            epsilon(type) * (fabsl(old) + fabsl(more)));
            }
        drop(&y, true, what);
        drop(&panel, false, what);
        drop(&factors, false, what);
    }
}

static void turn(const kernel_table *table, kernel_type type)
{
    const int width = table->panel[type].width, lanes = check_lanes(table, type);
    uint64_t stream = guarded_stream("turn");
    for (int r = 0; r < SIZES; r++)
        for (int c = 0; c < SIZES; c++)
            for (int turned = 0; turned < 2; turned++) {
                const int64_t rows = size_at(r, lanes) < width ? size_at(r, lanes) : width - r % 2;
                const int64_t gap = (r + c) % 3;
                check_pack(table, type, rows, size_at(c, lanes), turned, gap, &stream);
                check_unpack(table, type, rows, size_at(c, lanes), turned, gap, &stream);
            }
}

static void panels_are_turned_and_back(void **state)
{
    (void)state;
    check_levels_and_types(turn);
}

/* ---- Maximum, exponentials, sum -------------------------------------------------------------------------------------------- */

/* What the maximum of a query is to become. A NaN is left to the exponentials, which it goes through. */
static long double largest_of(const block *s, const limits *l, int i, long double most)
{
    for (int64_t j = 0; j < s->rows; j++) {
        const long double x = before(s, j, i);
        most = within(l, j, i) && x > most ? x : most;
    }
    return most;
}

/* After maximum: scores, largest, rescale, and what it says about the exponentials. */
static void judge_maximum(const char *what, const block *s, const limits *l, const block *maximum, const block *rescale,
                          bool near, scores_kind kind)
{
    const kernel_type type = s->type;
    for (int i = 0; i < s->columns; i++) {
        const long double most = largest_of(s, l, i, before(maximum, 0, i)), old = before(maximum, 0, i);
        expect_near(what, s->rows, -1, i, get(maximum, 0, i), most, 0);
        const long double shift = most == -INFINITY ? 0 : most;
        const long double scale = old == -INFINITY ? 0 : expl(rounded(type, old - shift));
        if (!(check_ulps(type, get(rescale, 0, i), scale) <= 1.1))
            fail_msg("seed %llu: %s: query %d is rescaled by %.20Lg, not %.20Lg", (unsigned long long)guarded_seed(),
                     what, i, get(rescale, 0, i), scale);
        for (int64_t j = 0; j < s->rows; j++) {
            expect_near(what, s->rows, j, i, get(s, j, i), within(l, j, i) ? before(s, j, i) : -INFINITY, 0);
            const long double normal = type == KERNEL_F32 ? FLT_MIN : DBL_MIN;
            const long double e = expl(before(s, j, i) - shift);
            if (near && within(l, j, i) && !isnan(e) && !(e >= normal * (1 - 1e-6L)))
                fail_msg("seed %llu: %s: e^score %lld of query %d is %Lg, called normal",
                         (unsigned long long)guarded_seed(), what, (long long)j, i, e);
        }
    }
    if (kind == CALM && !near)
        fail_msg("seed %llu: %s: calm scores are not near", (unsigned long long)guarded_seed(), what);
}

static void judge_exponentials(const char *what, const block *e, const block *s, const block *maximum,
                               const block *rescale, const double *sums, const double *sums_before)
{
    const kernel_type type = e->type;
    for (int i = 0; i < e->columns; i++) {
        const long double most = get(maximum, 0, i), shift = most == -INFINITY ? 0 : most;
        long double sum = sums_before[i] * get(rescale, 0, i), size = sum;
        for (int64_t j = 0; j < e->rows; j++) {
            const long double x = rounded(type, get(s, j, i) - shift), want = expl(x), got = get(e, j, i);
            if (!(check_ulps(type, got, want) <= 1.1) || (x == -INFINITY && got != 0))
                fail_msg("seed %llu: %s, n %lld: e^%.20Lg is %.20Lg, should be %.20Lg (key %lld, query %d)",
                         (unsigned long long)guarded_seed(), what, (long long)e->rows, x, got, want, (long long)j, i);
            sum += want;
            size += want;
        }
        expect_near(what, e->rows, -1, i, sums[i], sum, (long double)(e->rows / 4 + 5) * epsilon(type) * size);
    }
}

static void check_softmax(const kernel_table *table, kernel_type type, int64_t n, int64_t gap, scores_kind kind,
                          uint64_t *stream)
{
    const kernel_panel_fns *panel = &table->panel[type];
    const int width = panel->width;
    limits l;
    block s = take(type, n, width, width + gap, stream), other = take(type, n, width, width, stream);
    block maximum = take(type, 1, width, width, stream), rescale = take(type, 1, width, width, stream);
    double sums[MOST_WIDTH], sums_before[MOST_WIDTH], sums_other[MOST_WIDTH];
    draw_limits(&l, width, n, stream);
    draw_scores(&s, kind, stream);
    for (int i = 0; i < width; i++) {
        sums[i] = sums_other[i] = sums_before[i] = 1 + guarded_uniform(stream);
        put(&maximum, 0, i, guarded_below(stream, 3) ? 3 * guarded_uniform(stream) : -INFINITY);
    }
    const bool near = panel->maximum(n, at(&s), s.step, &l.fns, NULL, NULL, at(&maximum), at(&rescale));
    judge_maximum(name(table, type, "maximum"), &s, &l, &maximum, &rescale, near, kind);
    guarded_remember(&maximum.memory);
    for (int64_t j = 0; j < n; j++)
        for (int i = 0; i < width; i++)
            check_put(type, other.memory.data, j * other.step + i, get(&s, j, i));
    block scores = take(type, n, width, width, stream);
    memcpy(scores.memory.data, other.memory.data, scores.memory.bytes);
    guarded_remember(&scores.memory);
    const char *what = name(table, type, "exponentials");
    panel->exponentials(n, at(&s), s.step, &l.fns, at(&maximum), at(&rescale), sums, near);
    judge_exponentials(what, &s, &scores, &maximum, &rescale, sums, sums_before);
    /* What `near` allows to leave out changes no bit: it is said of a whole panel, so that neighbours decide it. */
    panel->exponentials(n, at(&other), other.step, &l.fns, at(&maximum), at(&rescale), sums_other, false);
    for (int i = 0; i < width; i++) {
        if (!same(sums[i], sums_other[i]))
            fail_msg("seed %llu: %s: the sum of query %d depends on near", (unsigned long long)guarded_seed(), what, i);
        for (int64_t j = 0; j < n; j++)
            expect_near(what, n, j, i, get(&s, j, i), get(&other, j, i), 0);
    }
    drop(&scores, false, what);
    drop(&s, true, what);
    drop(&other, true, what);
    drop(&maximum, false, what);
    drop(&rescale, true, what);
}

static void softmax(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("softmax");
    for (int i = 0; i < SIZES; i++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int round = 0; round < 6; round++)
                check_softmax(table, type, size_at(i, check_lanes(table, type)), round % 3, (scores_kind)kind, &stream);
}

static void maximum_and_exponentials_are_right_at_any_limits(void **state)
{
    (void)state;
    check_levels_and_types(softmax);
}

/* Scores in one call, with their largest and least: the tile product's bits, and what maximum then finds is what it
 * finds by looking at the scores. */
static void check_scores(const kernel_table *table, kernel_type type, int64_t n, int64_t d, bool nan, uint64_t *stream)
{
    const kernel_panel_fns *panel = &table->panel[type];
    const int width = panel->width;
    const char *what = name(table, type, "scores");
    block keys = take(type, n, d, d + 3, stream), queries = take(type, d, width, width + 1, stream);
    block s = take(type, n, width, width + 2, stream), want = take(type, n, width, width, stream);
    block largest = take(type, 1, width, width, stream), least = take(type, 1, width, width, stream);
    if (nan)
        check_put(type, keys.memory.data, guarded_below(stream, n) * keys.step, NAN);
    guarded_remember(&keys.memory);
    const kernel_rows rows[] = {
        {at(&keys), n / 2, keys.step, d}, {at(&queries), 0, 0, 0}, {at(&keys), n, keys.step, d}};
    kernel_ahead ahead = {rows, n / 4, n};
    panel->scores(n, d, at(&keys), keys.step, at(&queries), queries.step, at(&s), s.step, at(&largest), at(&least),
                  nan ? &ahead : NULL);
    const int64_t size = type == KERNEL_F32 ? sizeof(float) : sizeof(double);
    for (int64_t c = 0; c < d; c += panel->columns)
        table->tile[type](n, width, d - c < panel->columns ? d - c : panel->columns, (char *)at(&keys) + c * size,
                          keys.step, 1, (char *)at(&queries) + c * queries.step * size, queries.step, at(&want),
                          want.step, c > 0 ? KERNEL_SUM_ADDED : KERNEL_SUM_NEW);
    for (int i = 0; i < width; i++) {
        long double most = -INFINITY, fewest = INFINITY;
        for (int64_t j = 0; j < n; j++) {
            const long double x = get(&want, j, i);
            expect_near(what, n, j, i, get(&s, j, i), x, 0);
            most = x > most ? x : most;
            fewest = x < fewest ? x : fewest;
        }
        expect_near(what, n, -1, i, get(&largest, 0, i), most, 0);
        expect_near(what, n, -2, i, get(&least, 0, i), nan ? NAN : fewest, 0);
    }
    block maximum = take(type, 1, width, width, stream), again = take(type, 1, width, width, stream);
    block rescale = take(type, 1, width, width, stream), rescale_again = take(type, 1, width, width, stream);
    memcpy(again.memory.data, maximum.memory.data, maximum.memory.bytes);
    const kernel_limits all = {NULL, NULL, 0, n};
    const bool near = panel->maximum(n, at(&s), s.step, &all, at(&largest), at(&least), at(&maximum), at(&rescale));
    assert_int_equal(near, panel->maximum(n, at(&s), s.step, &all, NULL, NULL, at(&again), at(&rescale_again)));
    assert_false(near && nan);
    for (int i = 0; i < width; i++) {
        expect_near(what, n, -3, i, get(&maximum, 0, i), get(&again, 0, i), 0);
        expect_near(what, n, -4, i, get(&rescale, 0, i), get(&rescale_again, 0, i), 0);
    }
    block *all_blocks[] = {&s, &want, &largest, &least, &maximum, &again, &rescale, &rescale_again};
    for (int i = 0; i < 8; i++)
        drop(all_blocks[i], true, what);
    drop(&keys, false, what);
    drop(&queries, false, what);
}

static void scores_of_a_panel(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("scores");
    for (int i = 0; i < SIZES; i++)
        for (int64_t d = 1; d < 70; d += 17)
            for (int nan = 0; nan < 2; nan++)
                if (size_at(i, check_lanes(table, type)) > 0)
                    check_scores(table, type, size_at(i, check_lanes(table, type)), d, nan, &stream);
}

static void scores_with_their_range_are_the_tile_products(void **state)
{
    (void)state;
    lab__kernels(); /* asks the processor, once */
    const int before = lab__kernel_high_from;
    lab__kernel_high_from = 0;
    check_levels_and_types(scores_of_a_panel);
    lab__kernel_high_from = INT_MAX; /* in low blocks of sums */
    check_levels_and_types(scores_of_a_panel);
    lab__kernel_high_from = before;
}

/* From 0 down to where nothing is left, evenly; the largest error is said. */
static void exp_over_the_range(const kernel_table *table, kernel_type type)
{
    enum { KEYS = 1000 };
    const kernel_panel_fns *panel = &table->panel[type];
    const int width = panel->width;
    const long double lowest = type == KERNEL_F32 ? -106 : -750;
    uint64_t stream = guarded_stream("range");
    double worst = 0;
    for (int near = 0; near < 2; near++)
        for (int round = 0; round < 20; round++) {
            block s = take(type, KEYS, width, width, &stream), scores = take(type, KEYS, width, width, &stream);
            block maximum = take(type, 1, width, width, &stream), rescale = take(type, 1, width, width, &stream);
            double sums[MOST_WIDTH] = {0};
            for (int64_t k = 0; k < KEYS * width; k++) {
                const long double low = near ? lowest * 0.8L : lowest;
                const long double x = rounded(type, low * (0.5L + guarded_uniform(&stream) / 2));
                check_put(type, s.memory.data, k, x);
                check_put(type, scores.memory.data, k, x);
            }
            for (int i = 0; i < width; i++)
                check_put(type, maximum.memory.data, i, 0);
            panel->exponentials(KEYS, at(&s), width, &(kernel_limits){NULL, NULL, 0, KEYS}, at(&maximum), at(&rescale),
                                sums, near);
            for (int64_t j = 0; j < KEYS; j++)
                for (int i = 0; i < width; i++) {
                    const double ulps = check_ulps(type, get(&s, j, i), expl(get(&scores, j, i)));
                    worst = ulps > worst ? ulps : worst;
                    if (!(ulps <= 1.1))
                        fail_msg("seed %llu: %s: e^%.20Lg is %.20Lg, off by %.3f", (unsigned long long)guarded_seed(),
                                 name(table, type, "exponentials"), get(&scores, j, i), get(&s, j, i), ulps);
                }
            guarded_free(&s.memory);
            guarded_free(&scores.memory);
            guarded_free(&maximum.memory);
            guarded_free(&rescale.memory);
        }
    print_message("%s %s: %.3f units in the last place\n", table->level, type == KERNEL_F32 ? "f32" : "f64", worst);
}

static void exponentials_are_right_over_the_whole_range(void **state)
{
    (void)state;
    check_levels_and_types(exp_over_the_range);
}

/* ---- Factors and distances --------------------------------------------------------------------------------------------------- */

static void simple(const kernel_table *table, kernel_type type)
{
    const kernel_panel_fns *panel = &table->panel[type];
    const int width = panel->width, lanes = check_lanes(table, type);
    uint64_t stream = guarded_stream("simple");
    for (int k = 0; k < SIZES; k++) {
        const int64_t n = size_at(k, lanes), gap = k % 3;
        block x = take(type, n, width, width + gap, &stream), factors = take(type, 1, width, width, &stream);
        panel->multiply(n, at(&x), x.step, at(&factors));
        for (int64_t j = 0; j < n; j++)
            for (int i = 0; i < width; i++) {
                const long double a = before(&x, j, i), f = get(&factors, 0, i);
                expect_near(
                    name(table, type, "multiply"), n, j, i, get(&x, j, i),
                    type == KERNEL_F32 ? (long double)((float)a * (float)f) : (long double)((double)a * (double)f), 0);
            }
        drop(&x, true, "multiply");
        drop(&factors, false, "multiply");
        const int64_t aheads[] = {
            0, -7, 5, 100, -1000000, (1 << 20) - width - 1, (1 << 20) - 2, -(1 << 20), 1 << 26, -(INT64_C(1) << 40)};
        for (int a = 0; a < 10; a++) {
            block d = take(type, n, width, width, &stream);
            panel->distances(n, at(&d), aheads[a]);
            for (int64_t j = 0; j < n; j++)
                for (int i = 0; i < width; i++)
                    expect_near(name(table, type, "distances"), n, j, i, get(&d, j, i),
                                rounded(type, fabsl((long double)(aheads[a] + i - j))), 0);
            drop(&d, true, "distances");
        }
    }
}

static void factors_and_distances_are_exact(void **state)
{
    (void)state;
    check_levels_and_types(simple);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(panels_are_turned_and_back),
        cmocka_unit_test(maximum_and_exponentials_are_right_at_any_limits),
        cmocka_unit_test(scores_with_their_range_are_the_tile_products),
        cmocka_unit_test(exponentials_are_right_over_the_whole_range),
        cmocka_unit_test(factors_and_distances_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
