/* test_kernels_panel_pairs.c - the kernels of fused attention's panels that see who may meet: limits, masks, the
 * derivative of softmax, and products over allowed pairs, at every level and in both precisions.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "panel_check.h"

/* ---- What is said of each pair ------------------------------------------------------------------------------------------------ */

static void forbid(const kernel_table *table, kernel_type type)
{
    const kernel_panel_fns *panel = &table->panel[type];
    const int width = panel->width, lanes = check_lanes(table, type);
    uint64_t stream = guarded_stream("forbid");
    for (int k = 0; k < 4 * SIZES; k++) {
        const int64_t n = size_at(k % SIZES, lanes), rows = guarded_below(&stream, width + 1), gap = k % 3;
        const int64_t row = k % 4 == 0 ? 0 : k % 4 == 1 ? 1 : n + gap, column = k % 4 == 1 ? width : k % 4 != 2;
        guarded mask = guarded_take((size_t)(width * (n + gap + 1) + 1), &stream);
        for (size_t i = 0; i < mask.bytes; i++)
            mask.data[i] = (unsigned char)(guarded_below(&stream, 3));
        guarded_remember(&mask);
        block s = take(type, n, width, width + gap, &stream);
        limits l;
        draw_limits(&l, width, n, &stream);
        panel->forbid(rows, n, at(&s), s.step, mask.data, row, column);
        for (int64_t j = 0; j < n; j++)
            for (int i = 0; i < width; i++) {
                const bool may = i >= rows || mask.data[i * row + j * column];
                expect_near(name(table, type, "forbid"), n, j, i, get(&s, j, i), may ? before(&s, j, i) : -INFINITY, 0);
            }
        guarded allowed = guarded_take((size_t)(n * (width + gap) + 1), &stream);
        panel->allowed(n, at(&s), s.step, &l.fns, allowed.data, width + gap);
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < width + gap; i++) {
                const unsigned char got = allowed.data[j * (width + gap) + i];
                const bool kept = got == guarded_remembered(&allowed)[j * (width + gap) + i];
                assert_true(i >= width ? kept : got == (within(&l, j, (int)i) && get(&s, j, i) != -INFINITY));
            }
        assert_true(guarded_unchanged(&mask, true) && guarded_unchanged(&allowed, false));
        guarded_free(&mask);
        guarded_free(&allowed);
        drop(&s, true, "forbid");
    }
}

static void what_is_forbidden_and_allowed_is_right(void **state)
{
    (void)state;
    check_levels_and_types(forbid);
}

/* One number that is not finite anywhere is found; what lies between rows does not count, nor do large numbers. */
static void is_finite(const kernel_table *table, kernel_type type)
{
    const kernel_panel_fns *panel = &table->panel[type];
    uint64_t stream = guarded_stream("finite");
    const long double bad[] = {NAN, INFINITY, -INFINITY}, large = type == KERNEL_F32 ? FLT_MAX : DBL_MAX;
    for (int k = 0; k < SIZES; k++)
        for (int64_t rows = 0; rows < 4; rows++) {
            const int64_t columns = size_at(k, check_lanes(table, type)), gap = k % 3;
            block x = take(type, rows, columns, columns + gap, &stream);
            for (int64_t r = 0; r + 1 < rows; r++)
                for (int64_t c = columns; c < columns + gap; c++)
                    put(&x, r, c, NAN);
            for (int64_t c = 0; rows > 0 && c < columns; c++)
                put(&x, rows - 1, c, c % 2 ? large : -large);
            assert_true(panel->finite(rows, columns, at(&x), x.step));
            for (int64_t i = 0; i < rows * columns; i++) {
                const long double kept = get(&x, i / columns, i % columns);
                put(&x, i / columns, i % columns, bad[i % 3]);
                if (panel->finite(rows, columns, at(&x), x.step))
                    fail_msg("%s: a %Lg at [%lld, %lld] of %lld columns is called finite", name(table, type, "finite"),
                             bad[i % 3], (long long)(i / columns), (long long)(i % columns), (long long)columns);
                put(&x, i / columns, i % columns, kept);
            }
            drop(&x, false, "finite");
        }
}

static void a_number_that_is_not_finite_is_found_anywhere(void **state)
{
    (void)state;
    check_levels_and_types(is_finite);
}

/* ---- Slopes ----------------------------------------------------------------------------------------------------------------- */

/* One lane's maximum: a number, -inf (no keys), NaN. */
typedef struct slopes_case {
    block scores, gradients, maximum, inverses, deltas, rests, factors, softened;
    limits l;
    bool dropped, capped, exact;
} slopes_case;

static void judge_slope(const char *what, const slopes_case *c, int64_t j, int i)
{
    const kernel_type type = c->scores.type;
    const long double m = get(&c->maximum, 0, i), eps = epsilon(type), score = before(&c->scores, j, i);
    const bool empty = m == -INFINITY, may = within(&c->l, j, i) && score != -INFINITY;
    const long double x = rounded(type, score - (empty ? 0 : m));
    const long double p = may ? expl(x) * get(&c->inverses, 0, i) : 0, f = c->dropped ? get(&c->factors, j, i) : 1;
    const long double dp = before(&c->gradients, j, i), rest = c->exact ? get(&c->rests, 0, i) : 0,
                      delta = get(&c->deltas, 0, i) + rest;
    const long double t = c->capped ? get(&c->softened, j, i) : 0, soft = 1 - t * t;
    const long double least = type == KERNEL_F32 ? FLT_TRUE_MIN : DBL_TRUE_MIN;
    const long double want = p == 0 || p < least / 2 ? 0 : p * (dp * f - delta) * soft;
    expect_near(what, c->scores.rows, j, i, get(&c->scores, j, i), p * f, 2 * p * f * eps + 2 * least);
    expect_near(what, c->scores.rows, j, i, get(&c->gradients, j, i), want,
                6 * (eps * p + least) * (fabsl(dp * f) + fabsl(delta - rest) + fabsl(rest)) + 2 * least);
    if (!may && (get(&c->scores, j, i) != 0 || get(&c->gradients, j, i) != 0))
        fail_msg("seed %llu: %s: forbidden key %lld of query %d has p %Lg and slope %Lg",
                 (unsigned long long)guarded_seed(), what, (long long)j, i, get(&c->scores, j, i),
                 get(&c->gradients, j, i));
}

static void draw_slopes(slopes_case *c, kernel_type type, int width, int64_t n, int64_t gap, int round,
                        uint64_t *stream)
{
    *c = (slopes_case){.dropped = round & 1, .capped = round & 2, .exact = round & 16};
    c->scores = take(type, n, width, width + gap, stream);
    c->gradients = take(type, n, width, width + gap, stream);
    c->maximum = take(type, 1, width, width, stream);
    c->inverses = take(type, 1, width, width, stream);
    c->deltas = take(type, 1, width, width, stream);
    c->rests = take(type, 1, width, width, stream);
    c->factors = take(type, n, width, width, stream);
    c->softened = take(type, n, width, width, stream);
    draw_limits(&c->l, width, n, stream);
    draw_scores(&c->scores, round & 4 ? WILD : CALM, stream);
    for (int i = 0; i < width; i++) {
        const bool none = round & 4 && i % 5 == 2;
        put(&c->maximum, 0, i, none ? -INFINITY : round & 8 && i % 5 == 3 ? NAN : 8);
        put(&c->inverses, 0, i, fabsl(get(&c->inverses, 0, i)));
        for (int64_t j = 0; j < n; j++) {
            if (none || get(&c->scores, j, i) > 8)
                put(&c->scores, j, i, none ? -INFINITY : 8);
            if (!within(&c->l, j, i) || get(&c->scores, j, i) == -INFINITY) /* rubbish where nothing may meet */
                put(&c->gradients, j, i, NAN);
            put(&c->factors, j, i, guarded_below(stream, 2) ? 0 : 1.25L);
        }
    }
}

static void drop_slopes(slopes_case *c, const char *what)
{
    drop(&c->scores, true, what);
    drop(&c->gradients, true, what);
    drop(&c->maximum, false, what);
    drop(&c->inverses, false, what);
    drop(&c->deltas, false, what);
    drop(&c->rests, false, what);
    drop(&c->factors, false, what);
    drop(&c->softened, false, what);
}

static void check_slopes(const kernel_table *table, kernel_type type, int64_t n, int64_t gap, int round,
                         uint64_t *stream)
{
    const kernel_panel_fns *panel = &table->panel[type];
    slopes_case c;
    draw_slopes(&c, type, panel->width, n, gap, round, stream);
    panel->slopes(n, at(&c.scores), at(&c.gradients), c.scores.step, &c.l.fns, at(&c.maximum), at(&c.inverses),
                  at(&c.deltas), c.exact ? at(&c.rests) : NULL, c.dropped ? at(&c.factors) : NULL,
                  c.capped ? at(&c.softened) : NULL);
    const char *what = name(table, type, "slopes");
    for (int64_t j = 0; j < n; j++)
        for (int i = 0; i < panel->width; i++)
            judge_slope(what, &c, j, i);
    drop_slopes(&c, what);
}

/* A total in two parts, of which the second is what rounding left of the first. */
static void judge_total(const char *what, const block *totals, int row, int i, long double want, long double size)
{
    const long double high = get(totals, row, i), got = high + get(totals, row + 1, i), eps = epsilon(totals->type);
    const long double least = totals->type == KERNEL_F32 ? FLT_TRUE_MIN : DBL_TRUE_MIN;
    if (isnan(want))
        assert_true(isnan(high));
    else
        expect_near(what, totals->rows, row, i, got, want, (16 * eps * eps + 64 * LDBL_EPSILON) * size + 600 * least);
}

/* Against sums of the very p that slopes gives, in two pieces. */
static void check_totals(const kernel_table *table, kernel_type type, int64_t n, int64_t gap, int round,
                         uint64_t *stream)
{
    const kernel_panel_fns *panel = &table->panel[type];
    const int width = panel->width;
    const char *what = name(table, type, "totals");
    slopes_case c;
    draw_slopes(&c, type, width, n, gap, round, stream);
    block totals = take(type, 4, width, width, stream), p = take(type, n, width, width + gap, stream),
          unused = take(type, n, width, width + gap, stream);
    for (int64_t j = 0; j < n; j++)
        for (int i = 0; i < width; i++)
            put(&p, j, i, get(&c.scores, j, i));
    for (int i = 0; i < width; i++)
        for (int row = 0; row < 4; row++)
            put(&totals, row, i, 0);
    panel->totals(n, at(&c.scores), at(&c.gradients), c.scores.step, &c.l.fns, at(&c.maximum), at(&c.inverses),
                  c.dropped ? at(&c.factors) : NULL, at(&totals));
    panel->slopes(n, at(&p), at(&unused), p.step, &c.l.fns, at(&c.maximum), at(&c.inverses), at(&c.deltas), NULL, NULL,
                  NULL);
    for (int i = 0; i < width; i++) {
        long double sums[2] = {0}, size = 0;
        for (int64_t j = 0; j < n; j++) {
            const long double one = get(&p, j, i), f = c.dropped ? get(&c.factors, j, i) : 1;
            sums[1] += one;
            sums[0] += one == 0 ? 0 : one * rounded(type, get(&c.gradients, j, i) * f);
            size += fabsl(one) * 2;
        }
        judge_total(what, &totals, 0, i, sums[0], size);
        judge_total(what, &totals, 2, i, sums[1], size);
    }
    drop(&totals, true, what);
    drop(&p, true, what);
    drop(&unused, true, what);
    drop_slopes(&c, what);
}

static void slopes(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("slopes");
    for (int i = 0; i < SIZES; i++)
        for (int round = 0; round < 32; round++)
            check_slopes(table, type, size_at(i, check_lanes(table, type)), round % 3, round, &stream);
}

static void slopes_are_right_and_forbidden_ones_zero(void **state)
{
    (void)state;
    check_levels_and_types(slopes);
}

static void totals(const kernel_table *table, kernel_type type)
{
    uint64_t stream = guarded_stream("totals");
    for (int i = 0; i < SIZES; i++)
        for (int round = 0; round < 16; round++)
            check_totals(table, type, size_at(i, check_lanes(table, type)), round % 3, round, &stream);
}

static void totals_lose_nothing_of_the_same_probabilities(void **state)
{
    (void)state;
    check_levels_and_types(totals);
}

/* ---- Products over allowed pairs ------------------------------------------------------------------------------------------------ */

/* A product over n keys and `rows` queries of a panel; pairs are allowed at random, and key 0 to nobody. */
typedef struct pairs_case {
    block weights, clean; /* [n][stride]: rubbish where forbidden, and 0 there */
    guarded allowed;
    int64_t n, stride;
} pairs_case;

static pairs_case draw_pairs(kernel_type type, int64_t n, int64_t stride, uint64_t *stream)
{
    pairs_case p = {.n = n, .stride = stride};
    p.weights = take(type, n, stride, stride, stream);
    p.clean = take(type, n, stride, stride, stream);
    p.allowed = guarded_take((size_t)(n * stride), stream);
    for (int64_t k = 0; k < n * stride; k++) {
        p.allowed.data[k] = k >= stride && guarded_below(stream, 4) > 0;
        const long double x = check_get(type, p.weights.memory.data, k);
        check_put(type, p.clean.memory.data, k, p.allowed.data[k] ? x : 0);
        check_put(type, p.weights.memory.data, k, p.allowed.data[k] ? x : NAN);
    }
    guarded_remember(&p.weights.memory);
    guarded_remember(&p.clean.memory);
    guarded_remember(&p.allowed);
    return p;
}

static void drop_pairs(pairs_case *p, const char *what)
{
    assert_true(guarded_unchanged(&p->allowed, true));
    guarded_free(&p->allowed);
    drop(&p->weights, false, what);
    drop(&p->clean, false, what);
}

static void judge_product(const char *what, const block *got, const block *want)
{
    for (int64_t r = 0; r < want->rows; r++)
        for (int64_t c = 0; c < want->columns; c++)
            expect_near(what, want->rows, r, c, get(got, r, c), get(want, r, c), 0);
}

static block copy_of(const block *b, uint64_t *stream)
{
    block copy = take(b->type, b->rows, b->columns, b->step, stream);
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t c = 0; c < b->columns; c++)
            put(&copy, r, c, get(b, r, c));
    return copy;
}

static void check_by_query(const kernel_table *table, kernel_type type, int64_t n, int64_t columns, int64_t gap,
                           bool turned, uint64_t *stream)
{
    const int width = table->panel[type].width;
    pairs_case p = draw_pairs(type, n, width + gap, stream);
    block x = turned ? take(type, columns, n, n + gap, stream) : take(type, n, columns, columns + gap, stream);
    const int64_t x_row = turned ? 1 : x.step, x_column = turned ? x.step : 1;
    block want = take(type, columns, width, width, stream), got = copy_of(&want, stream);
    table->tile[type](columns, width, n, at(&x), x_column, x_row, at(&p.clean), p.stride, at(&want), width,
                      KERNEL_SUM_ADDED);
    for (int64_t c = 0; n > 0 && c < columns; c++) /* nobody may meet key 0 */
        put(&x, turned ? c : 0, turned ? 0 : c, INFINITY);
    table->panel[type].add_by_query(n, columns, at(&got), p.allowed.data, p.stride, at(&p.weights), p.stride, at(&x),
                                    x_row, x_column);
    const char *what = name(table, type, "add_by_query");
    judge_product(what, &got, &want);
    drop(&got, true, what);
    drop(&want, true, "tile");
    drop(&x, false, what);
    drop_pairs(&p, what);
}

static void check_by_key(const kernel_table *table, kernel_type type, int64_t n, int64_t rows, int64_t columns,
                         int64_t gap, uint64_t *stream)
{
    pairs_case p = draw_pairs(type, n, rows + gap, stream);
    block x = take(type, rows, columns, columns + gap, stream);
    block want = take(type, n, columns, columns + gap, stream), got = copy_of(&want, stream);
    for (int64_t j = 0; j < n && rows > 0; j++) { /* query 0 may meet nobody */
        p.allowed.data[j * p.stride] = 0;
        put(&p.clean, j, 0, 0);
    }
    guarded_remember(&p.allowed);
    table->tile[type](n, columns, rows, at(&p.clean), p.stride, 1, at(&x), x.step, at(&want), want.step,
                      KERNEL_SUM_ADDED);
    for (int64_t c = 0; rows > 0 && c < columns; c++)
        put(&x, 0, c, NAN);
    table->panel[type].add_by_key(n, rows, columns, at(&got), got.step, p.allowed.data, p.stride, at(&p.weights),
                                  p.stride, at(&x), x.step);
    const char *what = name(table, type, "add_by_key");
    judge_product(what, &got, &want);
    drop(&got, true, what);
    drop(&want, true, "tile");
    drop(&x, false, what);
    drop_pairs(&p, what);
}

static void products(const kernel_table *table, kernel_type type)
{
    const int lanes = check_lanes(table, type);
    uint64_t stream = guarded_stream("products");
    for (int a = 0; a < SIZES; a++)
        for (int b = 0; b < SIZES; b++) {
            const int64_t n = size_at(a, lanes), columns = size_at(b, lanes), gap = (a + b) % 3;
            check_by_query(table, type, n, columns, gap, a & 1, &stream);
            check_by_key(table, type, n, size_at((a + b) % SIZES, lanes), columns, gap, &stream);
        }
}

static void products_of_allowed_pairs_have_the_tile_products_bits(void **state)
{
    (void)state;
    check_levels_and_types(products);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_forbidden_and_allowed_is_right),
        cmocka_unit_test(a_number_that_is_not_finite_is_found_anywhere),
        cmocka_unit_test(slopes_are_right_and_forbidden_ones_zero),
        cmocka_unit_test(totals_lose_nothing_of_the_same_probabilities),
        cmocka_unit_test(products_of_allowed_pairs_have_the_tile_products_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
