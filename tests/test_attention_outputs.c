/* test_attention_outputs.c - what attention gives besides its output, and dropout.
 *
 * lse, probabilities and statistics are also compared with the reference in every case of test_attention.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention_case.h"

/* ---- lse ------------------------------------------------------------------------------------------------------------- */

static void cut_keys(const attention_case *whole, attention_case *part, int64_t start, int64_t stop)
{
    *part = *whole;
    part->tk = stop - start;
    lab_graph *g = lab_graph_create(NULL);
    assert_int_equal(lab_tensor_clone(&part->q, whole->q), LAB_OK);
    assert_int_equal(lab_tensor_clone(&part->k, lab_slice(g, whole->k, -2, start, stop, 1)), LAB_OK);
    assert_int_equal(lab_tensor_clone(&part->v, lab_slice(g, whole->v, -2, start, stop, 1)), LAB_OK);
    lab_graph_destroy(&g);
}

/* Attention over two parts of the keys, merged by lse, is attention over all of them. */
static void parts_of_the_keys_merge_by_lse(void **state)
{
    (void)state;
    uint64_t draws = draw_start("merge");
    attention_case c = {.dtype = LAB_F64, .heads = 2, .kv_heads = 2, .tq = 5, .tk = 9, .d = 3, .dv = 4}, part[2];
    case_make(&c, &draws);
    cut_keys(&c, &part[0], 0, 4);
    cut_keys(&c, &part[1], 4, 9);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *whole = case_run(g, &c), *out[2], *lse[2];
    for (int i = 0; i < 2; i++) {
        part[i].opts.lse = &lse[i];
        out[i] = case_run(g, &part[i]);
    }
    expect_healthy(g);
    double want[2 * 5 * 4];
    for (int64_t i = 0; i < 2 * 5 * 4; i++) {
        double a = element_of(lse[0], i / 4), b = element_of(lse[1], i / 4), share = 1 / (1 + exp(b - a));
        want[i] = share * element_of(out[0], i) + (1 - share) * element_of(out[1], i);
    }
    expect_close("merged", whole, want, 2 * 5 * 4, 1e-14);
    lab_graph_destroy(&g);
    case_free(&c);
    case_free(&part[0]);
    case_free(&part[1]);
}

/* d_i = dO_i . O_i - g_i, dS = P (dP - d), with both gradients coming in; dsink = -sum_i e^(sink - lse) d_i. */
static void lse_and_output_share_their_gradient(void **state)
{
    (void)state;
    uint64_t draws = draw_start("lse gradient");
    attention_case c = {.dtype = LAB_F64, .heads = 1, .kv_heads = 1, .tq = 3, .tk = 4, .d = 2, .dv = 2};
    case_make(&c, &draws);
    c.opts.sink = case_per_head(&c, &draws, 1);
    c.opts.bias = case_bias(&c, &draws, 0, 1); /* its gradient is dS */
    lab_tensor *lse, *probs, *grads[2];
    c.opts.lse = &lse;
    c.opts.probs = &probs;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *out = case_run(g, &c);
    lab_tensor *loss = lab_add(g, lab_sum_all(g, lab_mul(g, out, out)), lab_sum_all(g, lab_mul(g, lse, lse)));
    lab_grad(g, loss, NULL, 2, (lab_tensor *[]){c.opts.bias, c.opts.sink}, grads, NULL);
    expect_healthy(g);
    double ds[3 * 4], dsink = 0;
    for (int i = 0; i < 3; i++) {
        double dot = 0, l = element_of(lse, i);
        for (int e = 0; e < 2; e++)
            dot += 2 * element_of(out, i * 2 + e) * element_of(out, i * 2 + e);
        double delta = dot - 2 * l;
        for (int j = 0; j < 4; j++) {
            double dp = 0;
            for (int e = 0; e < 2; e++)
                dp += 2 * element_of(out, i * 2 + e) * element_of(c.v, j * 2 + e);
            ds[i * 4 + j] = element_of(probs, i * 4 + j) * (dp - delta);
        }
        dsink -= exp(element_of(c.opts.sink, 0) - l) * delta;
    }
    expect_close("dS", grads[0], ds, 12, 1e-13);
    expect_close("dsink", grads[1], &dsink, 1, 1e-13);
    lab_graph_destroy(&g);
    case_free(&c);
}

/* ---- Statistics ------------------------------------------------------------------------------------------------------- */

/* Where softmax is saturated, 1 - sum p^2 keeps its digits; rows without keys are counted and not averaged. */
static void statistics_survive_saturation(void **state)
{
    (void)state;
    lab_attention_stats stats[2];
    lab_tensor *q = leaf_of_doubles(LAB_F64, 3, (int64_t[]){2, 3, 1}, (double[]){40, 40, 40, 0, 0, 0});
    lab_tensor *k = leaf_of_doubles(LAB_F64, 3, (int64_t[]){1, 2, 1}, (double[]){0, -1});
    lab_tensor *v = leaf_of_doubles(LAB_F64, 3, (int64_t[]){1, 2, 1}, (double[]){1, 2});
    lab_tensor *mask = leaf_of_bools(2, (int64_t[]){3, 2}, (bool[]){1, 1, 0, 0, 1, 1});
    lab_graph *g = lab_graph_create(NULL);
    lab_attention(g, q, k, v, &(lab_attention_opts){.mask = mask, .stats = stats});
    expect_healthy(g);
    double u = exp(-40), l = 1 + u;
    assert_true(fabs(stats[0].gain.mean / (2 * u / (l * l)) - 1) < 1e-14);
    assert_true(fabs(stats[0].entropy.max / (log1p(u) + 40 * u / l) - 1) < 1e-14);
    assert_true(stats[0].p_max.min == 1 / l && stats[0].saturated_share == 1);
    assert_true(stats[0].rows == 3 && stats[0].empty_rows == 1);
    assert_true(fabs(stats[1].entropy.min - log(2)) < 1e-15 && stats[1].saturated_share == 0);
    assert_true(stats[1].p_max.max == 0.5 && fabs(stats[1].gain.max - 0.5) < 1e-15);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&q);
    lab_tensor_destroy(&k);
    lab_tensor_destroy(&v);
    lab_tensor_destroy(&mask);
}

static void statistics_are_zero_where_every_row_is_empty(void **state)
{
    (void)state;
    uint64_t draws = draw_start("stats");
    attention_case c = {.dtype = LAB_F32, .heads = 1, .kv_heads = 1, .tq = 2, .tk = 2, .d = 1, .dv = 1};
    case_make(&c, &draws);
    c.opts.mask = leaf_of_bools(0, NULL, (bool[]){false});
    lab_attention_stats stats;
    memset(&stats, 0x55, sizeof stats);
    c.opts.stats = &stats;
    lab_graph *g = lab_graph_create(NULL);
    case_run(g, &c);
    expect_healthy(g);
    lab_attention_stats want = {.rows = 2, .empty_rows = 2};
    assert_memory_equal(&stats, &want, sizeof stats);
    lab_graph_destroy(&g);
    case_free(&c);
}

/* A row whose probabilities are NaN (a NaN, or +inf, on an allowed key) shows in its head's numbers, and stays there.
 */
static void statistics_show_a_row_of_nan(void **state)
{
    (void)state;
    double bad[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++)
        for (int row = 0; row < 3; row++) {
            uint64_t draws = draw_start("stats nan");
            attention_case c = {.dtype = LAB_F64, .heads = 2, .kv_heads = 1, .tq = 3, .tk = 4, .d = 2, .dv = 1};
            case_make(&c, &draws);
            c.opts.bias = case_bias(&c, &draws, 0, 1);
            ((double *)lab_tensor_data(c.opts.bias))[row * 4 + 2] = bad[i];
            lab_attention_stats stats[2];
            c.opts.stats = stats;
            lab_graph *g = lab_graph_create(NULL);
            case_run(g, &c);
            expect_healthy(g);
            lab_spread *spreads[] = {&stats[0].p_max, &stats[0].entropy, &stats[0].gain};
            for (int s = 0; s < 3; s++)
                assert_true(isnan(spreads[s]->min) && isnan(spreads[s]->mean) && isnan(spreads[s]->max));
            assert_true(stats[0].rows == 3 && stats[0].empty_rows == 0);
            assert_true(isfinite(stats[1].gain.mean) && stats[1].p_max.min > 0);
            lab_graph_destroy(&g);
            case_free(&c);
        }
}

/* Over keys only: a sink changes none of them. */
static void statistics_leave_the_sink_out(void **state)
{
    (void)state;
    uint64_t draws = draw_start("stats sink");
    attention_case c = {.dtype = LAB_F64, .heads = 2, .kv_heads = 1, .tq = 4, .tk = 5, .d = 3, .dv = 1};
    case_make(&c, &draws);
    c.opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
    lab_attention_stats stats[2][2];
    lab_graph *g = lab_graph_create(NULL);
    for (int i = 0; i < 2; i++) {
        c.opts.stats = stats[i];
        case_run(g, &c);
        if (i == 0)
            c.opts.sink = leaf_of_doubles(LAB_F64, 1, &c.heads, (double[]){3, -1});
    }
    expect_healthy(g);
    assert_memory_equal(stats[0], stats[1], sizeof stats[0]);
    assert_true(stats[0][0].p_max.mean > 0.2);
    lab_graph_destroy(&g);
    case_free(&c);
}

/* ---- Dropout ---------------------------------------------------------------------------------------------------------- */

/* lab_dropout_mask shows what is kept: a function of batch, head, position and key, the reference's Philox. */
static void dropout_mask_is_philox_of_its_place(void **state)
{
    (void)state;
    lab_tensor *offsets = leaf_of_integers(1, (int64_t[]){2}, (int64_t[]){-1, 5000000000});
    lab_attention_opts o = {
        .dropout = 0.3, .seed = 0x123456789ABCDEF, .stream = 0xFEDCBA9876543210, .offsets = offsets};
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *mask = lab_dropout_mask(g, &o, 2, 3, 4, 9);
    expect_healthy(g);
    assert_int_equal(lab_tensor_dtype(mask), LAB_BOOL);
    int64_t place = 0;
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 3; h++)
            for (int64_t i = 0; i < 4; i++)
                for (int64_t j = 0; j < 9; j++, place++)
                    assert_int_equal(element_of(mask, place), reference_keeps(&o, b, h, i + (b ? 5000000000 : -1), j));
    lab_graph_destroy(&g);
    lab_tensor_destroy(&offsets);
}

/* Kept where the draw, of 24 bits, is p or more, compared in double: p itself is kept, the next number is not. */
static void a_draw_of_just_p_is_kept(void **state)
{
    (void)state;
    lab_attention_opts o = {.seed = check_seed(), .stream = 3};
    lab_graph *g = lab_graph_create(NULL);
    for (int64_t j = 0; j < 32; j++) {
        int64_t below = 0, above = 1 << 24; /* times 2^-24: kept at the one, dropped at the other */
        while (above - below > 1) {
            int64_t middle = (below + above) / 2;
            o.dropout = (double)middle * 0x1p-24;
            *(reference_keeps(&o, 0, 0, 0, j) ? &below : &above) = middle;
        }
        o.dropout = (double)below * 0x1p-24;
        lab_tensor *at = lab_dropout_mask(g, &o, 1, 1, 1, 32);
        o.dropout = nextafter(o.dropout, 1);
        lab_tensor *after = lab_dropout_mask(g, &o, 1, 1, 1, 32);
        expect_healthy(g);
        assert_true(element_of(at, j) == 1 && element_of(after, j) == 0);
    }
    lab_graph_destroy(&g);
}

/* About 1 - p are kept, more or fewer with p; another stream keeps others; the same in both precisions. */
static void dropout_keeps_its_share(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    for (int i = 0; i < 3; i++) {
        double p = (double[]){0.1, 0.5, 0.9}[i], kept = 0;
        lab_attention_opts o = {.dropout = p, .seed = check_seed()}, other = o;
        other.stream = 1;
        lab_tensor *mask = lab_dropout_mask(g, &o, 2, 2, 50, 50), *second = lab_dropout_mask(g, &other, 2, 2, 50, 50);
        expect_healthy(g);
        double differ = 0;
        for (int64_t j = 0; j < 10000; j++) {
            kept += element_of(mask, j) / 10000;
            differ += element_of(mask, j) != element_of(second, j);
        }
        assert_true(fabs(kept - (1 - p)) < 5 * sqrt(p * (1 - p) / 10000));
        assert_true(differ > 100);
    }
    lab_graph_destroy(&g);
}

/* The probabilities asked for are those before dropout; the output is what the mask keeps of them, over 1 - p. */
static void dropout_scales_what_it_keeps(void **state)
{
    (void)state;
    uint64_t draws = draw_start("dropout");
    attention_case c = {.dtype = LAB_F64,
                        .batch_rank = 2,
                        .batch = {2, 2},
                        .heads = 2,
                        .kv_heads = 1,
                        .tq = 3,
                        .tk = 6,
                        .d = 2,
                        .dv = 1};
    case_make(&c, &draws);
    c.opts.dropout = 0.4;
    c.opts.seed = 11;
    c.opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
    lab_tensor *probs;
    c.opts.probs = &probs;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *out = case_run(g, &c), *mask = lab_dropout_mask(g, &c.opts, 4, 2, 3, 6);
    expect_healthy(g);
    double want[4 * 2 * 3] = {0};
    for (int64_t row = 0; row < 24; row++)
        for (int64_t j = 0; j < 6; j++)
            want[row] +=
                element_of(mask, row * 6 + j) * element_of(probs, row * 6 + j) / 0.6 * element_of(c.v, row / 6 * 6 + j);
    expect_close("out", out, want, 24, 1e-13);
    lab_graph_destroy(&g);
    case_free(&c);
}

/* What is dropped is the same in both precisions and for any number of threads: what lab_dropout_mask shows. */
static void dropout_is_the_same_in_both_precisions_and_for_any_threads(void **state)
{
    (void)state;
    enum { N = 9 };
    lab_attention_opts o = {.dropout = 0.5, .seed = check_seed(), .stream = 7, .offset = 100};
    double one[N * N] = {0};
    for (int i = 0; i < N; i++)
        one[i * N + i] = 1;
    int threads = lab_get_threads();
    for (int i = 0; i < 4; i++) {
        lab_dtype dtype = i % 2 ? LAB_F32 : LAB_F64;
        assert_int_equal(lab_set_threads(i / 2 ? 4 : 1), LAB_OK);
        lab_tensor *v = leaf_of_doubles(dtype, 3, (int64_t[]){1, N, N}, one); /* so that the output is the weights */
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *q = lab_full(g, dtype, 3, (int64_t[]){1, N, 2}, 0);
        lab_tensor *weights = lab_attention(g, q, lab_full(g, dtype, 3, (int64_t[]){1, N, 2}, 0), v, &o);
        expect_healthy(g);
        for (int64_t j = 0; j < N * N; j++)
            assert_int_equal(element_of(weights, j) != 0, reference_keeps(&o, 0, 0, 100 + j / N, j % N));
        lab_graph_destroy(&g);
        lab_tensor_destroy(&v);
    }
    assert_int_equal(lab_set_threads(threads), LAB_OK);
}

static void wrong_dropout_masks_are_named(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    assert_null(lab_dropout_mask(g, &(lab_attention_opts){.dropout = 1.5}, 1, 1, 1, 1));
    expect_refusal(g, LAB_ERR_RANGE, "dropout");
    lab_graph_reset(g);
    assert_null(lab_dropout_mask(g, NULL, 1, -1, 1, 1));
    expect_refusal(g, LAB_ERR_RANGE, "-1");
    lab_graph_reset(g);
    assert_null(lab_dropout_mask(g, &(lab_attention_opts){.reserved = {1}}, 1, 1, 1, 1));
    expect_refusal(g, LAB_ERR_ARGUMENT, "reserved");
    lab_graph_reset(g);
    assert_null(lab_dropout_mask(g, NULL, INT64_MAX / 2, 3, 1, 1));
    assert_int_equal(lab_graph_status(g), LAB_ERR_RANGE);
    lab_graph_destroy(&g);
}

/* ---- Paths and checkpoints ------------------------------------------------------------------------------------------- */

static void the_path_can_be_asked_about_and_forced(void **state)
{
    (void)state;
    uint64_t draws = draw_start("path");
    attention_case c = {.dtype = LAB_F32, .heads = 1, .kv_heads = 1, .tq = 2, .tk = 2, .d = 2, .dv = 2};
    case_make(&c, &draws);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *probs;
    const char *why = NULL;
    assert_int_equal(lab_attention_path(g, c.q, c.k, c.v, NULL, &why), LAB_PATH_FUSED);
    assert_non_null(why);
    assert_int_equal(lab_attention_path(g, c.q, c.k, c.v, &(lab_attention_opts){.probs = &probs}, &why),
                     LAB_PATH_COMPOSED);
    assert_non_null(strstr(why, "probs"));
    assert_int_equal(lab_attention_path(g, c.q, c.k, c.v, &(lab_attention_opts){.path = LAB_PATH_COMPOSED}, &why),
                     LAB_PATH_COMPOSED);
    assert_int_equal(lab_attention_path(g, c.q, c.k, c.v, &(lab_attention_opts){.softcap = -1}, &why), LAB_PATH_AUTO);
    for (int path = LAB_PATH_AUTO; path <= LAB_PATH_FUSED; path++) {
        c.opts.path = (lab_path)path;
        assert_non_null(case_run(g, &c));
    }
    c.opts.probs = &probs;
    assert_null(case_run(g, &c));
    assert_null(probs);
    expect_refusal(g, LAB_ERR_UNSUPPORTED, "FUSED: probs");
    lab_graph_destroy(&g);
    case_free(&c);
}

static lab_tensor *checkpointed(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_attention(g, xs[0], xs[1], xs[2], ctx);
}

static void only_the_result_leaves_a_checkpoint(void **state)
{
    (void)state;
    uint64_t draws = draw_start("checkpoint");
    attention_case c = {.dtype = LAB_F64, .heads = 2, .kv_heads = 1, .tq = 3, .tk = 4, .d = 2, .dv = 2};
    case_make(&c, &draws);
    c.opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
    lab_tensor *xs[] = {c.q, c.k, c.v}, *plain[3], *again[3], *lse, *probs;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_checkpoint(g, checkpointed, 3, xs, &c.opts);
    lab_grad(g, lab_sum_all(g, y), NULL, 3, xs, again, NULL);
    lab_grad(g, lab_sum_all(g, case_run(g, &c)), NULL, 3, xs, plain, NULL);
    expect_healthy(g);
    for (int i = 0; i < 3; i++)
        expect_same("gradient", again[i], plain[i]);
    lab_attention_stats stats[2];
    const char *words[] = {"lse", "probs", "stats"};
    for (int i = 0; i < 6; i++) {
        if (i == 3) { /* and where the function just runs */
            lab_graph_destroy(&g);
            g = lab_graph_create(&(lab_graph_opts){.inference = true});
        }
        lab_graph_reset(g);
        c.opts.lse = i % 3 == 0 ? &lse : NULL;
        c.opts.probs = i % 3 == 1 ? &probs : NULL;
        c.opts.stats = i % 3 == 2 ? stats : NULL;
        assert_null(lab_checkpoint(g, checkpointed, 3, xs, &c.opts));
        expect_refusal(g, LAB_ERR_UNSUPPORTED, words[i % 3]);
    }
    lab_graph_destroy(&g);
    case_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_the_keys_merge_by_lse),
        cmocka_unit_test(lse_and_output_share_their_gradient),
        cmocka_unit_test(statistics_survive_saturation),
        cmocka_unit_test(statistics_are_zero_where_every_row_is_empty),
        cmocka_unit_test(statistics_show_a_row_of_nan),
        cmocka_unit_test(statistics_leave_the_sink_out),
        cmocka_unit_test(dropout_mask_is_philox_of_its_place),
        cmocka_unit_test(a_draw_of_just_p_is_kept),
        cmocka_unit_test(dropout_keeps_its_share),
        cmocka_unit_test(dropout_scales_what_it_keeps),
        cmocka_unit_test(dropout_is_the_same_in_both_precisions_and_for_any_threads),
        cmocka_unit_test(wrong_dropout_masks_are_named),
        cmocka_unit_test(the_path_can_be_asked_about_and_forced),
        cmocka_unit_test(only_the_result_leaves_a_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
