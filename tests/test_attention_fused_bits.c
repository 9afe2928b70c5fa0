/* test_attention_fused_bits.c - the same bits whoever computes them: for any number of threads, for a row in any pass,
 * for batches in any order; and memory that grows with T, not with T x T.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_twin.h"
#include "kernels/parallel.h"

/* Equal as numbers is not enough here: signs of zero count. NaNs are all alike. */
static bool same_bits(const lab_tensor *a, int64_t i, const lab_tensor *b, int64_t k)
{
    const double x = element_of(a, i), y = element_of(b, k);
    return (x == y && signbit(x) == signbit(y)) || (isnan(x) && isnan(y));
}

static void expect_same_bits(const char *what, const twin_case *t, const twin_run *got, const twin_run *want)
{
    for (int i = 0; i < TWIN_RESULTS; i++)
        for (int64_t k = 0; want->results[i] && k < lab_tensor_numel(want->results[i]); k++)
            if (!same_bits(got->results[i], k, want->results[i], k))
                fail_msg("seed %llu: %s (%s): %s[%lld] is %.17g and %.17g", (unsigned long long)check_seed(), what,
                         twin_text(t), twin_names[i], (long long)k, element_of(got->results[i], k),
                         element_of(want->results[i], k));
    if (memcmp(got->stats, want->stats, sizeof want->stats) != 0)
        fail_msg("seed %llu: %s (%s): the statistics differ", (unsigned long long)check_seed(), what, twin_text(t));
}

/* Runs fn once on each level that there is. */
static void on_each_level(void (*fn)(const char *level))
{
    static const char *const levels[] = {"plain", "neon", "avx2", "avx512"};
    int ran = 0;
    for (int i = 0; i < 4; i++)
        if (lab_set_kernel_level(levels[i]) == LAB_OK) {
            fn(levels[i]);
            ran++;
        }
    assert_int_equal(lab_set_kernel_level(NULL), LAB_OK);
    assert_true(ran > 0);
}

static void to_single(twin_case *t)
{
    twin_case single;
    twin_other_precision(&single, t);
    twin_free(t);
    *t = single;
}

/* ---- Threads ------------------------------------------------------------------------------------------------------------ */

static void compare_threads(const twin_case *t)
{
    static const int threads[] = {2, 7};
    assert_int_equal(lab_set_threads(1), LAB_OK);
    twin_run want = twin_attend(t, LAB_PATH_FUSED, true);
    for (int i = 0; i < 2; i++) {
        char what[32];
        snprintf(what, sizeof what, "%d threads", threads[i]);
        assert_int_equal(lab_set_threads(threads[i]), LAB_OK);
        twin_run got = twin_attend(t, LAB_PATH_FUSED, true);
        expect_same_bits(what, t, &got, &want);
        twin_end(&got);
    }
    assert_int_equal(lab_set_threads(0), LAB_OK);
    twin_end(&want);
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        uint64_t draws = draw_start("threads") + (uint64_t)i * 977;
        twin_case t;
        if (i % 4)
            twin_draw(&t, &draws);
        else
            twin_draw_packed(&t, &draws);
        if (i & 1)
            to_single(&t);
        compare_threads(&t);
        twin_free(&t);
    }
}

/* Many heads, and few with many keys, whose backward goes by ranges of keys. The threads must take part. */
static void draw_large(twin_case *t, uint64_t *draws, bool in_ranges)
{
    *t = (twin_case){.c = {.dtype = LAB_F32, .kv_heads = in_ranges ? 3 : 9, .tq = 200, .tk = 260, .d = 16, .dv = 16},
                     .out_wanted = true,
                     .lse_wanted = true};
    attention_case *c = &t->c;
    c->heads = in_ranges ? 6 : 9;
    if (in_ranges) {
        c->tq = 60;
        c->tk = 8200;
        c->d = c->dv = 4;
    }
    c->opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
    c->opts.sink = case_per_head(c, draws, 1);
    c->opts.scale_tensor = leaf_drawn(draws, LAB_F32, 0, NULL, 1);
    c->opts.bias = in_ranges ? NULL : case_bias(c, draws, 1, 1);
    c->opts.alibi_slopes = case_per_head(c, draws, 0.01);
    twin_make(t, draws);
}

static void threads_take_part_and_change_nothing(void **state)
{
    (void)state;
    for (int in_ranges = 0; in_ranges < 2; in_ranges++) {
        uint64_t draws = draw_start("large");
        twin_case t;
        draw_large(&t, &draws, in_ranges);
        uint64_t taken = lab__parallel_pieces_taken();
        for (int i = 0; i < 50 && (i == 0 || lab__parallel_pieces_taken() == taken); i++)
            compare_threads(&t);
        assert_true(lab__parallel_pieces_taken() > taken);
        twin_free(&t);
    }
}

/* ---- A row in any pass ------------------------------------------------------------------------------------------------------ */

/* One pass over all queries, to be compared with passes over some of them. */
typedef struct long_pass {
    twin_case t;
    twin_run all;
    const char *level;
} long_pass;

/* Rows first .. first + n - 1 alone, behind one another with what is theirs of bias and mask; keys up to `keys`, which
 * these rows see. */
static void compare_rows(long_pass *p, int64_t first, int64_t n, int64_t keys)
{
    const attention_case *c = &p->t.c;
    lab_graph *g = lab_graph_create(NULL);
    lab_attention_opts o = c->opts;
    lab_tensor *lse;
    o.path = LAB_PATH_FUSED;
    o.lse = &lse;
    o.offset += first;
    o.bias = o.bias ? lab_slice(g, lab_slice(g, o.bias, -2, first, first + n, 1), -1, 0, keys, 1) : NULL;
    o.mask = o.mask ? lab_slice(g, lab_slice(g, o.mask, -2, first, first + n, 1), -1, 0, keys, 1) : NULL;
    lab_tensor *out = lab_attention(g, lab_slice(g, c->q, -2, first, first + n, 1), lab_slice(g, c->k, -2, 0, keys, 1),
                                    lab_slice(g, c->v, -2, 0, keys, 1), &o);
    expect_healthy(g);
    for (int64_t h = 0; h < c->heads; h++)
        for (int64_t i = 0; i < n; i++) {
            const int64_t own = h * n + i, there = h * c->tq + first + i;
            bool same = same_bits(lse, own, p->all.results[1], there);
            for (int64_t e = 0; e < c->dv; e++)
                same = same && same_bits(out, own * c->dv + e, p->all.results[0], there * c->dv + e);
            if (!same)
                fail_msg("seed %llu: %s (%s): row %lld has other bits in a pass over rows %lld to %lld and %lld keys",
                         (unsigned long long)check_seed(), p->level, twin_text(&p->t), (long long)(first + i),
                         (long long)first, (long long)(first + n - 1), (long long)keys);
        }
    lab_graph_destroy(&g);
}

static void draw_long(twin_case *t, uint64_t *draws, int round)
{
    *t = (twin_case){.c = {.dtype = round & 1 ? LAB_F32 : LAB_F64, .kv_heads = 1, .heads = 2, .tk = 420}};
    attention_case *c = &t->c;
    c->tq = draw_size(draws, 100, 150);
    c->d = round % 5 ? draw_size(draws, 1, 9) : 64;
    c->dv = draw_size(draws, 1, 20);
    c->opts.offset = draw_size(draws, 0, c->tk - c->tq);
    c->opts.causal = round / 2 % 3 ? LAB_CAUSAL_OFFSET : LAB_CAUSAL_NONE;
    if (round / 2 % 3 != 1)
        c->opts.window = (lab_window){true, draw_size(draws, 0, 200), draw_size(draws, 0, 30)};
    if (draw_size(draws, 0, 2) == 0)
        c->opts.mask = case_mask(c, draws, 1, 0.5);
    if (draw_size(draws, 0, 2) == 0)
        c->opts.bias = case_bias(c, draws, 1, 2);
    if (draw_size(draws, 0, 2) == 0)
        c->opts.alibi_slopes = case_per_head(c, draws, 0.3);
    if (draw_size(draws, 0, 2) == 0)
        c->opts.sink = case_per_head(c, draws, 1);
    c->opts.dropout = draw_size(draws, 0, 2) == 0 ? 0.3 : 0;
    c->opts.softcap = draw_size(draws, 0, 2) == 0 ? 3 : 0;
    c->opts.scale = 2 / sqrt((double)c->d);
    if (round % 4 == 3) { /* one query alone goes a way of its own */
        lab_tensor_destroy(&c->opts.mask);
        lab_tensor_destroy(&c->opts.bias);
        lab_tensor_destroy(&c->opts.alibi_slopes);
        c->opts.dropout = c->opts.softcap = 0;
    }
    twin_make(t, draws);
}

static void compare_passes(const char *level)
{
    for (int round = 0; round < 20; round++) {
        uint64_t draws = draw_start("rows") + (uint64_t)round * 977;
        long_pass p = {.level = level};
        draw_long(&p.t, &draws, round);
        p.all = twin_attend(&p.t, LAB_PATH_FUSED, false);
        for (int i = 0; i < 30; i++) {
            const attention_case *c = &p.t.c;
            const int64_t first = draw_size(&draws, 0, c->tq - 1);
            const int64_t n = i & 1 ? 1 : draw_size(&draws, 1, c->tq - first), last = c->opts.offset + first + n;
            const int64_t seen = c->opts.causal ? last : last + c->opts.window.right;
            compare_rows(&p, first, n, i % 3 && seen < c->tk ? seen : c->tk);
        }
        twin_end(&p.all);
        twin_free(&p.t);
    }
}

/* Every level: at window edges and trimmed diagonals, with and without the keys that it does not see. */
static void a_row_has_the_same_bits_in_any_pass(void **state)
{
    (void)state;
    on_each_level(compare_passes);
}

/* One query alone, of as many heads as share their keys, by vectors of keys and values and by what is left of them. */
static void compare_one_query(const char *level)
{
    static const int64_t sharing[] = {1, 2, 4, 7, 8}, d[] = {64, 16, 20, 160}, dv[] = {128, 64, 80, 100, 36, 16, 3};
    for (int round = 0; round < 20; round++) {
        uint64_t draws = draw_start("one query") + (uint64_t)round * 977;
        long_pass p = {.level = level};
        attention_case *c = &p.t.c;
        *c = (attention_case){.dtype = round % 3 ? LAB_F32 : LAB_F64, .kv_heads = 1, .tq = 3, .tk = 600};
        c->heads = sharing[round % 5];
        c->d = d[round % 4];
        c->dv = dv[round % 7];
        c->opts.causal = LAB_CAUSAL_OFFSET;
        c->opts.offset = draw_size(&draws, 1, c->tk - c->tq);
        c->opts.scale = 2 / sqrt((double)c->d);
        twin_make(&p.t, &draws);
        p.all = twin_attend(&p.t, LAB_PATH_FUSED, false);
        for (int64_t row = 0; row < c->tq; row++)
            compare_rows(&p, row, 1, row == 1 ? c->tk : c->opts.offset + row + 1);
        twin_end(&p.all);
        twin_free(&p.t);
    }
}

static void one_query_has_the_bits_of_its_row(void **state)
{
    (void)state;
    on_each_level(compare_one_query);
}

/* Rows with rubbish beside them, which sends tiles another way: the rest as if there were none, bit for bit. */
/* dq of causal attention; with one row alone, of the query `row`. */
static lab_tensor *query_gradient(lab_graph *g, lab_tensor *const leaves[4], int64_t row)
{
    lab_tensor *q = leaves[0], *w = leaves[3], *dq = NULL;
    lab_attention_opts opts = {.causal = LAB_CAUSAL_OFFSET, .path = LAB_PATH_FUSED};
    if (row >= 0) {
        opts.offset = row;
        q = lab_slice(g, q, -2, row, row + 1, 1);
        w = lab_contiguous(g, lab_slice(g, w, -2, row, row + 1, 1));
    }
    lab_tensor *out = lab_attention(g, q, leaves[1], leaves[2], &opts);
    assert_int_equal(lab_grad(g, out, w, 1, &q, &dq, NULL), LAB_OK);
    return dq;
}

enum { TOKENS = 70, HEAD = 16 };

/* q, k, v and the incoming gradient. With large q and k softmax is saturated in most rows. */
static void draw_tokens(lab_tensor *leaves[4], lab_dtype dtype, double scale, uint64_t *draws)
{
    for (int i = 0; i < 4; i++)
        leaves[i] = leaf_drawn(draws, dtype, 3, (int64_t[]){1, TOKENS, HEAD}, i < 2 ? scale : 1);
}

static void free_tokens(lab_tensor *leaves[4])
{
    for (int i = 0; i < 4; i++)
        lab_tensor_destroy(&leaves[i]);
}

static void compare_gradients_of_rows(const char *level)
{
    uint64_t draws = draw_start(__func__);
    for (int i = 0; i < 4; i++) {
        lab_tensor *leaves[4];
        draw_tokens(leaves, i & 1 ? LAB_F64 : LAB_F32, i & 2 ? 4 : 1, &draws);
        lab_graph *g = lab_graph_create(&(lab_graph_opts){.batch_invariant = true});
        const lab_tensor *all = query_gradient(g, leaves, -1);
        for (int64_t row = 0; row < TOKENS; row++) {
            const lab_tensor *alone = query_gradient(g, leaves, row);
            for (int64_t c = 0; c < HEAD; c++)
                if (!same_bits(alone, c, all, row * HEAD + c))
                    fail_msg("seed %llu: %s %s%s: dq of row %lld is %.17g alone and %.17g among others",
                             (unsigned long long)check_seed(), level, i & 1 ? "f64" : "f32", i & 2 ? ", saturated" : "",
                             (long long)row, element_of(alone, c), element_of(all, row * HEAD + c));
        }
        lab_graph_destroy(&g);
        free_tokens(leaves);
    }
}

static void a_row_has_its_gradient_alone_where_the_graph_promises_it(void **state)
{
    (void)state;
    on_each_level(compare_gradients_of_rows);
}

/* The last token's key becomes one that its own query looks at alone: nobody else sees it. */
static void saturate_the_last_token(const char *level)
{
    uint64_t draws = draw_start(__func__);
    for (int i = 0; i < 2; i++) {
        lab_tensor *leaves[4];
        draw_tokens(leaves, i ? LAB_F64 : LAB_F32, 1, &draws);
        lab_graph *g = lab_graph_create(NULL);
        const lab_tensor *before = query_gradient(g, leaves, -1);
        for (int64_t c = (TOKENS - 1) * HEAD; c < TOKENS * HEAD; c++)
            if (i)
                ((double *)lab_tensor_data(leaves[1]))[c] = 30 * element_of(leaves[0], c);
            else
                ((float *)lab_tensor_data(leaves[1]))[c] = (float)(30 * element_of(leaves[0], c));
        const lab_tensor *after = query_gradient(g, leaves, -1);
        for (int64_t c = 0; c < (TOKENS - 1) * HEAD; c++)
            if (!same_bits(before, c, after, c))
                fail_msg("seed %llu: %s %s: dq[%lld] moves from %.17g to %.17g with a later token",
                         (unsigned long long)check_seed(), level, i ? "f64" : "f32", (long long)c,
                         element_of(before, c), element_of(after, c));
        lab_graph_destroy(&g);
        free_tokens(leaves);
    }
}

static void a_later_token_that_is_looked_at_alone_moves_nothing(void **state)
{
    (void)state;
    on_each_level(saturate_the_last_token);
}

static void the_way_around_rubbish_has_the_same_bits(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        uint64_t draws = draw_start("detour") + (uint64_t)round * 977;
        twin_case t;
        draw_long(&t, &draws, round);
        t.out_wanted = true;
        t.lse_wanted = round & 2;
        twin_run want = twin_attend(&t, LAB_PATH_FUSED, true);
        if (t.c.dtype == LAB_F64) /* dO of row 0 of head 0: no other row's, and none of keys that it does not see */
            ((double *)lab_tensor_data(t.weights))[0] = INFINITY;
        else
            ((float *)lab_tensor_data(t.weights))[0] = INFINITY;
        twin_run got = twin_attend(&t, LAB_PATH_FUSED, true);
        for (int64_t k = t.c.d; k < lab_tensor_numel(want.results[2]); k++)
            if (!same_bits(got.results[2], k, want.results[2], k))
                fail_msg("seed %llu: %s: dq[%lld] has other bits", (unsigned long long)check_seed(), twin_text(&t),
                         (long long)k);
        for (int i = 3; i < 5; i++)
            for (int64_t k = 0; k < lab_tensor_numel(want.results[i]); k++)
                if (isfinite(element_of(got.results[i], k)) && !same_bits(got.results[i], k, want.results[i], k) &&
                    element_of(want.results[i], k) != 0)
                    fail_msg("seed %llu: %s: %s[%lld] has other bits", (unsigned long long)check_seed(), twin_text(&t),
                             twin_names[i], (long long)k);
        twin_end(&got);
        twin_end(&want);
        twin_free(&t);
    }
}

/* ---- Batches in any order ---------------------------------------------------------------------------------------------------- */

enum { BATCHES = 5 };

/* The batches of x in another order. */
static lab_tensor *reordered(lab_tensor *x, const int64_t *order)
{
    lab_tensor *y;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *parts[BATCHES];
    for (int i = 0; i < BATCHES; i++)
        parts[i] = lab_slice(g, x, 0, order[i], order[i] + 1, 1);
    assert_int_equal(lab_tensor_clone(&y, lab_concat(g, BATCHES, parts, 0)), LAB_OK);
    lab_graph_destroy(&g);
    return y;
}

static void batches_do_not_see_their_order(void **state)
{
    (void)state;
    static const int64_t order[BATCHES] = {3, 0, 4, 2, 1};
    for (int round = 0; round < 6; round++) {
        uint64_t draws = draw_start("batches") + (uint64_t)round * 977;
        twin_case t = {.c = {.dtype = round & 1 ? LAB_F32 : LAB_F64,
                             .batch_rank = 1,
                             .batch = {BATCHES},
                             .heads = 4,
                             .kv_heads = 2,
                             .tq = 37,
                             .tk = round == 5 ? 4100 : 101,
                             .d = 5,
                             .dv = 3},
                       .out_wanted = true,
                       .lse_wanted = true};
        t.c.opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
        t.c.opts.key_lengths = case_per_batch(&t.c, &draws, 20, t.c.tk);
        t.c.opts.bias = round < 4 ? case_bias(&t.c, &draws, 0, 1) : NULL;
        twin_make(&t, &draws);
        twin_case other = t;
        lab_tensor **moved[] = {&other.c.q,     &other.c.k,         &other.c.v,        &other.c.opts.key_lengths,
                                &other.weights, &other.lse_weights, &other.c.opts.bias};
        for (int i = 0; i < (t.c.opts.bias ? 7 : 6); i++)
            *moved[i] = reordered(*moved[i], order);
        twin_run want = twin_attend(&t, LAB_PATH_FUSED, true), got = twin_attend(&other, LAB_PATH_FUSED, true);
        for (int i = 0; i < TWIN_RESULTS; i++) {
            const int64_t each = want.results[i] ? lab_tensor_numel(want.results[i]) / BATCHES : 0;
            for (int64_t k = 0; k < each * BATCHES; k++)
                if (!same_bits(got.results[i], k, want.results[i], order[k / each] * each + k % each))
                    fail_msg("seed %llu: round %d: %s[%lld] has other bits where batches come in another order",
                             (unsigned long long)check_seed(), round, twin_names[i], (long long)k);
        }
        twin_end(&got);
        twin_end(&want);
        twin_free(&other);
        twin_free(&t);
    }
}

/* ---- Memory -------------------------------------------------------------------------------------------------------------------- */

/* Bytes of a graph after forward and backward over T queries and keys, seen through a window so that it is quick. */
static size_t bytes_for(int64_t size, int64_t heads)
{
    uint64_t draws = draw_start("memory");
    twin_case t = {.c = {.dtype = LAB_F32, .heads = heads, .kv_heads = heads, .tq = size, .tk = size, .d = 4, .dv = 4},
                   .out_wanted = true,
                   .lse_wanted = true};
    t.c.opts.causal = LAB_CAUSAL_TOP_LEFT;
    t.c.opts.window = (lab_window){true, 40, 0};
    t.c.opts.sink = case_per_head(&t.c, &draws, 1);
    twin_make(&t, &draws);
    twin_run r = twin_attend(&t, LAB_PATH_FUSED, true);
    const size_t bytes = lab_graph_bytes(r.g);
    twin_end(&r);
    twin_free(&t);
    return bytes;
}

static void memory_grows_with_the_length_only(void **state)
{
    (void)state;
    assert_int_equal(lab_set_threads(2), LAB_OK);
    for (int64_t heads = 1; heads <= 8; heads += 7) {
        const size_t once = bytes_for(4096, heads), twice = bytes_for(8192, heads);
        if (twice > 2 * once + (8 << 20) || twice > 64 << 20)
            fail_msg("%lld heads: %zu bytes at T = 4096, %zu at 8192", (long long)heads, once, twice);
    }
    const size_t longest = bytes_for(131072, 1);
    if (longest > 128 << 20)
        fail_msg("%zu bytes at T = 131072", longest);
    assert_int_equal(lab_set_threads(0), LAB_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(threads_take_part_and_change_nothing),
        cmocka_unit_test(a_row_has_the_same_bits_in_any_pass),
        cmocka_unit_test(one_query_has_the_bits_of_its_row),
        cmocka_unit_test(a_row_has_its_gradient_alone_where_the_graph_promises_it),
        cmocka_unit_test(a_later_token_that_is_looked_at_alone_moves_nothing),
        cmocka_unit_test(the_way_around_rubbish_has_the_same_bits),
        cmocka_unit_test(batches_do_not_see_their_order),
        cmocka_unit_test(memory_grows_with_the_length_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
