/* test_attention_fused_nan.c - the fused path where something is not finite: what may not meet leaves no trace, what
 * may shows in its row alone.
 *
 * Rubbish is put at every place relative to the edges of what the kernel works on (panels of queries, tiles of keys),
 * and everything is compared, bit for bit but for signs of zero, with the run that has no rubbish.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention_twin.h"

static const double rubbish[] = {NAN, INFINITY, -INFINITY};

static void set(lab_tensor *t, int64_t i, double value)
{
    if (lab_tensor_dtype(t) == LAB_F32)
        ((float *)lab_tensor_data(t))[i] = (float)value;
    else
        ((double *)lab_tensor_data(t))[i] = value;
}

/* Row `row` of every head: the last but one axis of x. */
static void set_rows(lab_tensor *x, int64_t row, double value)
{
    const int64_t rows = lab_tensor_size(x, -2), columns = lab_tensor_size(x, -1);
    for (int64_t i = 0; i < lab_tensor_numel(x); i++)
        if (i / columns % rows == row)
            set(x, i, value);
}

static bool equal(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Every result of `got` is that of `want`. */
static void expect_no_trace(const char *what, const twin_case *t, const twin_run *got, const twin_run *want)
{
    for (int i = 0; i < TWIN_RESULTS; i++)
        for (int64_t k = 0; want->results[i] && k < lab_tensor_numel(want->results[i]); k++) {
            const double a = element_of(got->results[i], k), b = element_of(want->results[i], k);
            if (!equal(a, b))
                fail_msg("seed %llu: %s (%s): %s[%lld] is %.17g, without it %.17g", (unsigned long long)check_seed(),
                         what, twin_text(t), twin_names[i], (long long)k, a, b);
        }
}

/* ---- Which pairs may meet ---------------------------------------------------------------------------------------------- */

typedef enum rule { BY_CAUSE, BY_WINDOW, BY_LENGTH, BY_MASK, BY_BIAS, RULES } rule;

enum { MOST_ROWS = 160, MOST_KEYS = 400 };

/* allowed[i][j], for a case of one batch; what is forbidden is so for all heads. */
typedef struct meetings {
    int64_t tq, tk;
    bool allowed[MOST_ROWS][MOST_KEYS];
    bool row[MOST_ROWS], key[MOST_KEYS]; /* that meet anything */
} meetings;

static void look(const twin_case *t, meetings *m)
{
    const lab_attention_opts *o = &t->c.opts;
    *m = (meetings){.tq = t->c.tq, .tk = t->c.tk};
    const int64_t keys = o->key_lengths ? (int64_t)element_of(o->key_lengths, 0) : m->tk;
    for (int64_t i = 0; i < m->tq; i++)
        for (int64_t j = 0; j < m->tk; j++) {
            const int64_t at = i + (o->causal == LAB_CAUSAL_BOTTOM_RIGHT ? keys - m->tq : o->offset);
            bool may = j < keys && (o->causal == LAB_CAUSAL_NONE || j <= at);
            if (o->window.limited)
                may = may && (o->window.left < 0 || j >= at - o->window.left) &&
                      (o->window.right < 0 || j <= at + o->window.right);
            may = may && (!o->mask || element_of(o->mask, i * m->tk + j) != 0);
            may = may && (!o->bias || element_of(o->bias, i * m->tk + j) != -INFINITY);
            m->allowed[i][j] = may;
            m->row[i] |= may;
            m->key[j] |= may;
        }
}

/* A bool mask that leaves out stripes of keys, and some rows altogether. */
static void stripe(twin_case *t, uint64_t *draws, bool by_bias)
{
    attention_case *c = &t->c;
    const int64_t period = draw_size(draws, 2, 40), skipped = draw_size(draws, 1, period - 1);
    const int64_t no_row = draw_size(draws, 0, c->tq - 1);
    lab_tensor *x = by_bias ? case_bias(c, draws, 1, 1) : case_mask(c, draws, 1, 0);
    for (int64_t i = 0; i < c->tq; i++)
        for (int64_t j = 0; j < c->tk; j++) {
            const bool may = i != no_row && (j + i / 5) % period >= skipped;
            if (by_bias && !may)
                set(x, i * c->tk + j, -INFINITY);
            else if (!by_bias)
                ((unsigned char *)lab_tensor_data(x))[i * c->tk + j] = may;
        }
    *(by_bias ? &c->opts.bias : &c->opts.mask) = x;
}

static void make_rule(twin_case *t, uint64_t *draws, rule rule)
{
    attention_case *c = &t->c;
    lab_attention_opts *o = &c->opts;
    switch (rule) {
    case BY_CAUSE:
        o->causal = draw(draws) & 1 ? LAB_CAUSAL_TOP_LEFT : LAB_CAUSAL_BOTTOM_RIGHT;
        break;
    case BY_WINDOW:
        o->window = (lab_window){true, draw_size(draws, 0, 20), draw_size(draws, -1, 9)};
        o->offset = draw_size(draws, -9, c->tk);
        break;
    case BY_LENGTH:
        o->key_lengths = leaf_of_integers(0, NULL, (int64_t[]){draw_size(draws, 0, c->tk)});
        break;
    default:
        stripe(t, draws, rule == BY_BIAS);
    }
}

/* Sizes next to the edges: panels of 4 ... 64 queries, tiles of 12 ... 384 keys. */
static void make_case(twin_case *t, uint64_t *draws, lab_dtype dtype)
{
    static const int64_t queries[] = {1, 7, 9, 15, 17, 31, 33, 49, 65, 97, 129}, keys[] = {3, 13, 25, 49, 97, 193, 385};
    *t = (twin_case){.c = {.dtype = dtype, .kv_heads = 1, .heads = 2}, .out_wanted = true};
    attention_case *c = &t->c;
    c->tq = queries[draw_size(draws, 0, 10)];
    c->tk = keys[draw_size(draws, 0, 6)];
    c->d = draw_size(draws, 1, 9);
    c->dv = draw_size(draws, 1, 9);
    t->lse_wanted = draw(draws) & 1;
    c->opts.softcap = draw_size(draws, 0, 3) ? 0 : 2;
    c->opts.dropout = draw_size(draws, 0, 3) ? 0 : 0.3;
    c->opts.scale = 0.5;
    t->no_stats = draw(draws) & 1;
    if (t->no_stats && c->tq == 1) /* one query alone goes a way of its own */
        c->opts.softcap = c->opts.dropout = 0;
}

static void add_options(twin_case *t, uint64_t *draws)
{
    attention_case *c = &t->c;
    if (draw_size(draws, 0, 2) == 0)
        c->opts.sink = case_per_head(c, draws, 1);
    if (draw_size(draws, 0, 2) == 0)
        c->opts.alibi_slopes = case_per_head(c, draws, 0.1);
    if (draw_size(draws, 0, 2) == 0 && !c->opts.scale_tensor) {
        c->opts.scale = 0;
        c->opts.scale_tensor = leaf_of_doubles(c->dtype, 0, NULL, (double[]){0.5});
    }
}

/* Keeps an element, puts rubbish there, and puts it back. */
static double exchange(lab_tensor *t, int64_t i, double value)
{
    const double before = element_of(t, i);
    set(t, i, value);
    return before;
}

/* ---- What may not meet leaves no trace ----------------------------------------------------------------------------------- */

/* In k and v of keys that no query may see, in q and dO of queries without keys. */
static void what_meets_nothing_may_be_anything(void **state)
{
    (void)state;
    int64_t keys = 0, rows = 0;
    for (int round = 0; round < 24 * RULES; round++) {
        uint64_t draws = draw_start("nothing") + (uint64_t)round * 977;
        static meetings m;
        twin_case t;
        make_case(&t, &draws, round & 1 ? LAB_F32 : LAB_F64);
        make_rule(&t, &draws, (rule)(round % RULES));
        add_options(&t, &draws);
        twin_make(&t, &draws);
        look(&t, &m);
        const bool in_scores = round % RULES != BY_BIAS; /* a bias of -inf hides no NaN */
        twin_run want = twin_attend(&t, LAB_PATH_FUSED, true);
        for (int64_t j = 0; j < m.tk; j++)
            if (!m.key[j]) {
                set_rows(t.c.k, j, in_scores ? rubbish[(j + round) % 3] : 0);
                set_rows(t.c.v, j, rubbish[(j / 2 + round) % 3]);
                keys++;
            }
        for (int64_t i = 0; i < m.tq; i++)
            if (!m.row[i]) {
                set_rows(t.c.q, i, in_scores ? rubbish[(i + round) % 3] : 0);
                set_rows(t.weights, i, NAN);
                rows++;
            }
        twin_run got = twin_attend(&t, LAB_PATH_FUSED, true);
        expect_no_trace("rubbish that meets nothing", &t, &got, &want);
        twin_end(&got);
        twin_end(&want);
        twin_free(&t);
    }
    assert_true(keys > 100 && rows > 100);
}

/* What rubbish may have reached: rows of out, lse and dq, keys of dk and dv. */
typedef struct reached {
    bool row[MOST_ROWS], key[MOST_KEYS];
} reached;

/* Rubbish at a key reaches rows that see it, and keys that these rows see; in a row, that row and the keys that it
 * sees. -1: none. */
static reached reach(const meetings *m, int64_t row, int64_t key)
{
    reached r = {{0}, {0}};
    for (int64_t i = 0; i < m->tq; i++) {
        r.row[i] = i == row || (key >= 0 && m->allowed[i][key]);
        for (int64_t j = 0; j < m->tk; j++)
            r.key[j] |= r.row[i] && m->allowed[i][j];
    }
    return r;
}

static void expect_trace_within(const twin_case *t, const meetings *m, const twin_run *got, const twin_run *want,
                                int64_t row, int64_t key, const char *what)
{
    const reached r = reach(m, row, key);
    for (int i = 0; i < 5; i++) {
        const lab_tensor *x = got->results[i], *y = want->results[i];
        const bool of_keys = i == 3 || i == 4;
        const int64_t columns = i == 1 ? 1 : lab_tensor_size(x, -1), count = of_keys ? m->tk : m->tq;
        for (int64_t k = 0; k < lab_tensor_numel(x); k++) {
            const int64_t at = k / columns % count;
            const double a = element_of(x, k), b = element_of(y, k);
            if (!(of_keys ? r.key[at] : r.row[at]) && !equal(a, b))
                fail_msg("seed %llu: %s in row %lld, key %lld (%s): %s[%lld] (at %lld) is %.17g, without it %.17g",
                         (unsigned long long)check_seed(), what, (long long)row, (long long)key, twin_text(t),
                         twin_names[i], (long long)k, (long long)at, a, b);
        }
    }
}

/* (A bias of -inf hides no NaN in a score, so that q and k are left alone there, here and below.)
 *
 * One key's k or v: out, lse and dq of rows that may not see it, dk and dv of keys that share no row with it. */
static void rubbish_at_a_key_reaches_only_rows_that_see_it(void **state)
{
    (void)state;
    for (int round = 0; round < 12 * RULES; round++) {
        uint64_t draws = draw_start("key") + (uint64_t)round * 977;
        static meetings m;
        twin_case t;
        make_case(&t, &draws, round & 1 ? LAB_F32 : LAB_F64);
        make_rule(&t, &draws, (rule)(round % RULES));
        twin_make(&t, &draws);
        look(&t, &m);
        twin_run want = twin_attend(&t, LAB_PATH_FUSED, true);
        const int64_t step = m.tk > 60 ? draw_size(&draws, 3, 11) : 1;
        for (int64_t key = draw_size(&draws, 0, step - 1); key < m.tk; key += step)
            for (int of_values = round % RULES == BY_BIAS; of_values < 2; of_values++) {
                lab_tensor *x = of_values ? t.c.v : t.c.k;
                const int64_t columns = lab_tensor_size(x, -1), at = key * columns + key % columns;
                const double before = exchange(x, at, rubbish[(key + of_values) % 3]);
                twin_run got = twin_attend(&t, LAB_PATH_FUSED, true);
                expect_trace_within(&t, &m, &got, &want, -1, key, of_values ? "rubbish in v" : "rubbish in k");
                twin_end(&got);
                set(x, at, before);
            }
        twin_end(&want);
        twin_free(&t);
    }
}

/* One query's q or dO: other rows, and dk and dv of keys that it may not see. */
static void rubbish_in_a_query_reaches_only_keys_that_it_sees(void **state)
{
    (void)state;
    for (int round = 0; round < 12 * RULES; round++) {
        uint64_t draws = draw_start("query") + (uint64_t)round * 977;
        static meetings m;
        twin_case t;
        make_case(&t, &draws, round & 1 ? LAB_F32 : LAB_F64);
        make_rule(&t, &draws, (rule)(round % RULES));
        twin_make(&t, &draws);
        look(&t, &m);
        twin_run want = twin_attend(&t, LAB_PATH_FUSED, true);
        const int64_t step = m.tq > 30 ? draw_size(&draws, 3, 9) : 1;
        for (int64_t row = draw_size(&draws, 0, step - 1); row < m.tq; row += step)
            for (int of_gradient = round % RULES == BY_BIAS; of_gradient < 2; of_gradient++) {
                lab_tensor *x = of_gradient ? t.weights : t.c.q;
                const int64_t columns = lab_tensor_size(x, -1), at = row * columns + row % columns;
                const double before = exchange(x, at, rubbish[(row + of_gradient) % 3]);
                twin_run got = twin_attend(&t, LAB_PATH_FUSED, true);
                expect_trace_within(&t, &m, &got, &want, row, -1, of_gradient ? "rubbish in dO" : "rubbish in q");
                twin_end(&got);
                set(x, at, before);
            }
        twin_end(&want);
        twin_free(&t);
    }
}

/* A bias of NaN where a pair may not meet leaves no trace; where it may, none in other rows, in keys that the row may
 * not see, and in the bias's own gradient of other pairs that are forbidden. */
static void rubbish_in_the_bias_reaches_only_its_row(void **state)
{
    (void)state;
    for (int round = 0; round < 80; round++) {
        uint64_t draws = draw_start("bias") + (uint64_t)round * 977;
        static meetings m;
        twin_case t;
        make_case(&t, &draws, round & 1 ? LAB_F32 : LAB_F64);
        make_rule(&t, &draws, (rule)(round / 2 % BY_BIAS));
        t.c.opts.bias = case_bias(&t.c, &draws, 1, 1);
        twin_make(&t, &draws);
        look(&t, &m);
        twin_run want = twin_attend(&t, LAB_PATH_FUSED, true);
        const int64_t row = draw_size(&draws, 0, m.tq - 1), key = draw_size(&draws, 0, m.tk - 1);
        set(t.c.opts.bias, row * m.tk + key, round % 3 ? NAN : INFINITY);
        twin_run got = twin_attend(&t, LAB_PATH_FUSED, true);
        if (!m.allowed[row][key])
            expect_no_trace("rubbish in a bias behind the mask", &t, &got, &want);
        expect_trace_within(&t, &m, &got, &want, row, -1, "rubbish in the bias");
        for (int64_t i = 0; i < m.tq; i++)
            for (int64_t j = 0; j < m.tk; j++)
                if (!(i == row && m.allowed[i][j]) &&
                    !equal(element_of(got.results[6], i * m.tk + j), element_of(want.results[6], i * m.tk + j)))
                    fail_msg("seed %llu: rubbish in the bias at row %lld, key %lld (%s): dbias[%lld, %lld] is %g",
                             (unsigned long long)check_seed(), (long long)row, (long long)key, twin_text(&t),
                             (long long)i, (long long)j, element_of(got.results[6], i * m.tk + j));
        twin_end(&got);
        twin_end(&want);
        twin_free(&t);
    }
}

/* ---- What may meet shows --------------------------------------------------------------------------------------------------- */

/* A NaN in k, v or the bias, or a score of +inf, gives NaN in each row that sees it. A bias of -inf hides no NaN. */
static void rubbish_on_an_allowed_key_shows(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        uint64_t draws = draw_start("shows") + (uint64_t)round * 977;
        static meetings m;
        twin_case t;
        make_case(&t, &draws, round & 1 ? LAB_F32 : LAB_F64);
        t.c.opts.dropout = 0;
        make_rule(&t, &draws, round % 4 < 3 ? (rule)(round % 4) : BY_MASK);
        t.c.opts.bias = case_bias(&t.c, &draws, 1, 1);
        twin_make(&t, &draws);
        look(&t, &m);
        const int64_t key = draw_size(&draws, 0, m.tk - 1);
        const int kind = round % 5;
        for (int64_t i = 0; i < m.tq; i++)
            if (kind == 0)
                set(t.c.opts.bias, i * m.tk + key, INFINITY);
            else if (kind == 1)
                set(t.c.opts.bias, i * m.tk + key, NAN);
            else if (kind == 2)
                set(t.c.opts.bias, i * m.tk + key, -INFINITY);
        if (kind >= 2)
            set_rows(kind == 3 ? t.c.v : t.c.k, key, NAN);
        twin_run r = twin_attend(&t, LAB_PATH_FUSED, false);
        for (int64_t k = 0; k < lab_tensor_numel(r.results[0]); k++) {
            const int64_t row = k / t.c.dv % m.tq;
            const double x = element_of(r.results[0], k);
            if (isnan(x) != m.allowed[row][key])
                fail_msg("seed %llu: kind %d at key %lld (%s): out of row %lld is %g", (unsigned long long)check_seed(),
                         kind, (long long)key, twin_text(&t), (long long)row, x);
        }
        for (int64_t k = 0; k < lab_tensor_numel(r.results[1]) && kind != 3; k++)
            if (m.allowed[k % m.tq][key] &&
                (kind == 0 ? element_of(r.results[1], k) != INFINITY : !isnan(element_of(r.results[1], k))))
                fail_msg("seed %llu: kind %d at key %lld (%s): lse[%lld] is %g", (unsigned long long)check_seed(), kind,
                         (long long)key, twin_text(&t), (long long)k, element_of(r.results[1], k));
        twin_end(&r);
        twin_free(&t);
    }
}

/* ---- Rows without keys ------------------------------------------------------------------------------------------------------ */

/* Zeros, lse -inf or the sink, no gradient but the sink's, even where dO is NaN; among rows that have keys. */
static void rows_without_keys_are_zero_and_take_nothing(void **state)
{
    (void)state;
    int64_t rows = 0;
    for (int round = 0; round < 60; round++) {
        uint64_t draws = draw_start("empty rows") + (uint64_t)round * 977;
        static meetings m;
        twin_case t;
        make_case(&t, &draws, round & 1 ? LAB_F32 : LAB_F64);
        make_rule(&t, &draws, (rule)(round % RULES));
        add_options(&t, &draws);
        twin_make(&t, &draws);
        look(&t, &m);
        for (int64_t i = 0; i < m.tq; i++)
            if (!m.row[i])
                set_rows(t.weights, i, rubbish[i % 3]);
        twin_run r = twin_attend(&t, LAB_PATH_FUSED, true);
        for (int64_t k = 0; k < t.c.heads * m.tq; k++) {
            if (m.row[k % m.tq])
                continue;
            const double sink = t.c.opts.sink ? element_of(t.c.opts.sink, k / m.tq) : -INFINITY;
            rows++;
            assert_true(element_of(r.results[1], k) == sink);
            for (int64_t e = 0; e < t.c.dv; e++)
                assert_true(element_of(r.results[0], k * t.c.dv + e) == 0);
            for (int64_t e = 0; e < t.c.d; e++)
                assert_true(element_of(r.results[2], k * t.c.d + e) == 0);
        }
        for (int i = 2; i < TWIN_RESULTS; i++)
            for (int64_t k = 0; r.results[i] && k < lab_tensor_numel(r.results[i]); k++)
                assert_true(isfinite(element_of(r.results[i], k)));
        twin_end(&r);
        twin_free(&t);
    }
    assert_true(rows > 200);
}

/* ---- Large scores ------------------------------------------------------------------------------------------------------------ */

/* Whole numbers for scores, so that sums with a large one are exact. */
static void make_whole(twin_case *t, uint64_t *draws, lab_dtype dtype)
{
    *t = (twin_case){.c = {.dtype = dtype, .heads = 2, .kv_heads = 2, .tq = 33, .tk = 101, .d = 3, .dv = 4},
                     .out_wanted = true,
                     .lse_wanted = true};
    t->c.opts.scale = 1;
    t->c.opts.bias = leaf_of_doubles(dtype, 0, NULL, (double[]){0});
    twin_make(t, draws);
    for (int64_t i = 0; i < lab_tensor_numel(t->c.q); i++)
        set(t->c.q, i, round(1.2 * element_of(t->c.q, i)));
    for (int64_t i = 0; i < lab_tensor_numel(t->c.k); i++)
        set(t->c.k, i, round(2 * element_of(t->c.k, i)));
}

static void expect_same_but_for_lse(const char *what, const twin_case *t, twin_run *got, twin_run *want)
{
    got->results[1] = want->results[1] = NULL;
    expect_no_trace(what, t, got, want);
}

static void set_all(lab_tensor *t, double value)
{
    for (int64_t i = 0; i < lab_tensor_numel(t); i++)
        set(t, i, value);
}

/* The same number in the only element of the bias changes nothing but lse. */
static void add_to_all_scores(const char *what, twin_case *t, double number)
{
    twin_run want = twin_attend(t, LAB_PATH_FUSED, true);
    set(t->c.opts.bias, 0, number);
    twin_run got = twin_attend(t, LAB_PATH_FUSED, true);
    expect_same_but_for_lse(what, t, &got, &want);
    twin_end(&got);
    twin_end(&want);
}

/* The same number added to every score changes no bit of the softmax, nor of a gradient: maximum and sum are apart. */
static void large_scores_lose_nothing(void **state)
{
    (void)state;
    const double shifts[2][4] = {{1e7, -1e7, 15e6, 0}, {1e5, 1e15, -3e15, 0}};
    for (int round = 0; round < 8; round++) {
        uint64_t draws = draw_start("large");
        twin_case t;
        make_whole(&t, &draws, round & 1 ? LAB_F32 : LAB_F64);
        t.c.opts.causal = round & 2 ? LAB_CAUSAL_BOTTOM_RIGHT : LAB_CAUSAL_NONE;
        add_to_all_scores("a shift", &t, shifts[round % 2 == 0][round / 2]);
        twin_free(&t);
    }
}

/* -1e30 on every key, as somebody's mask value: each weighs the same. */
static void a_mask_value_on_every_key_weighs_all_the_same(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        uint64_t draws = draw_start("mask value");
        twin_case t;
        make_whole(&t, &draws, round & 1 ? LAB_F32 : LAB_F64);
        set_all(t.c.q, 0);
        add_to_all_scores("a mask value", &t, round & 2 ? 1e30 : -1e30);
        twin_free(&t);
    }
}

/* Far beyond a soft cap all scores are the cap, and have no slope. */
static void scores_beyond_the_soft_cap_are_the_cap(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        uint64_t draws = draw_start("cap");
        twin_case t;
        make_whole(&t, &draws, round & 1 ? LAB_F32 : LAB_F64);
        t.c.opts.softcap = 4;
        set_all(t.c.q, 0);
        twin_run want = twin_attend(&t, LAB_PATH_FUSED, true);
        set_all(t.c.q, 1e12);
        set_all(t.c.k, 1e12);
        twin_run got = twin_attend(&t, LAB_PATH_FUSED, true);
        expect_all("dq", got.results[2], 0);
        expect_all("dk", got.results[3], 0);
        expect_same("out", got.results[0], want.results[0]);
        expect_same("dv", got.results[4], want.results[4]);
        twin_end(&got);
        twin_end(&want);
        twin_free(&t);
    }
}

/* A product of -inf forbids its key as a mask does: in every product, with rubbish in its value. */
static void a_product_of_minus_infinity_is_a_mask(void **state)
{
    (void)state;
    for (int round = 0; round < 12; round++) {
        uint64_t draws = draw_start("product") + (uint64_t)round * 977;
        twin_case t;
        make_case(&t, &draws, round & 1 ? LAB_F32 : LAB_F64);
        t.c.opts.softcap = 0;
        t.c.opts.causal = round & 2 ? LAB_CAUSAL_BOTTOM_RIGHT : LAB_CAUSAL_NONE;
        twin_make(&t, &draws);
        for (int64_t i = 0; i < lab_tensor_numel(t.c.q); i++)
            set(t.c.q, i, -0.01 - fabs(element_of(t.c.q, i)));
        const int64_t key = draw_size(&draws, 0, t.c.tk - 1);
        t.c.opts.mask = case_mask(&t.c, &draws, 3, 2);
        ((unsigned char *)lab_tensor_data(t.c.opts.mask))[key] = 0;
        twin_run want = twin_attend(&t, LAB_PATH_FUSED, true);
        ((unsigned char *)lab_tensor_data(t.c.opts.mask))[key] = 1;
        set(t.c.k, key * t.c.d + draw_size(&draws, 0, t.c.d - 1), INFINITY);
        set_rows(t.c.v, key, NAN);
        twin_run got = twin_attend(&t, LAB_PATH_FUSED, true);
        expect_no_trace("a product of -inf", &t, &got, &want);
        twin_end(&got);
        twin_end(&want);
        twin_free(&t);
    }
}

/* Beyond float32 a score is infinite, for gradients too that come from float64, where it would not be. */
static void scores_beyond_the_type_are_infinite(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        uint64_t draws = draw_start("beyond");
        twin_case t = {.c = {.dtype = LAB_F32, .heads = 2, .kv_heads = 1, .tq = 5, .tk = 9, .d = 3, .dv = 4},
                       .out_wanted = true,
                       .lse_wanted = true};
        t.c.opts.scale_tensor = leaf_of_doubles(LAB_F32, 0, NULL, (double[]){0.5});
        t.c.opts.alibi_slopes = case_per_head(&t.c, &draws, 0.1);
        t.c.opts.sink = case_per_head(&t.c, &draws, 1);
        twin_make(&t, &draws);
        set_all(t.c.q, sign * 1e30);
        set_all(t.c.k, 1e30);
        twin_run r = twin_attend(&t, LAB_PATH_FUSED, true);
        for (int i = D_SCALE; i <= D_SLOPES; i++)
            for (int64_t k = 0; r.results[i] && k < lab_tensor_numel(r.results[i]); k++)
                assert_true(sign > 0      ? isnan(element_of(r.results[i], k))
                            : i == D_SINK ? element_of(r.results[i], k) != 0
                                          : element_of(r.results[i], k) == 0);
        twin_end(&r);
        twin_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_meets_nothing_may_be_anything),
        cmocka_unit_test(rubbish_at_a_key_reaches_only_rows_that_see_it),
        cmocka_unit_test(rubbish_in_a_query_reaches_only_keys_that_it_sees),
        cmocka_unit_test(rubbish_in_the_bias_reaches_only_its_row),
        cmocka_unit_test(rubbish_on_an_allowed_key_shows),
        cmocka_unit_test(rows_without_keys_are_zero_and_take_nothing),
        cmocka_unit_test(a_product_of_minus_infinity_is_a_mask),
        cmocka_unit_test(large_scores_lose_nothing),
        cmocka_unit_test(a_mask_value_on_every_key_weighs_all_the_same),
        cmocka_unit_test(scores_beyond_the_soft_cap_are_the_cap),
        cmocka_unit_test(scores_beyond_the_type_are_infinite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
