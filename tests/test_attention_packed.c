/* test_attention_packed.c - sequences behind one another: the same as attention on each alone.
 *
 * Each test is a clause of the contract, from "Packed sequences", and holds for the composed path, which goes from one
 * sequence to the next, and for the fused op, which takes all at once.
 */
#include <math.h>

#include "attention_case.h"

enum { SEQUENCES = 4 };
static const int64_t cu_q_values[SEQUENCES + 1] = {0, 3, 3, 8, 10}, cu_k_values[SEQUENCES + 1] = {0, 4, 6, 6, 11};

static const lab_path paths[] = {LAB_PATH_COMPOSED, LAB_PATH_FUSED};

typedef struct packed_case {
    lab_dtype dtype;
    lab_tensor *q, *k, *v, *cu_q, *cu_k;
    lab_attention_opts opts;
} packed_case;

static packed_case packed_make(uint64_t *draws)
{
    packed_case p = {.dtype = LAB_F64};
    p.q = leaf_drawn(draws, LAB_F64, 3, (int64_t[]){10, 4, 3}, 1);
    p.k = leaf_drawn(draws, LAB_F64, 3, (int64_t[]){11, 2, 3}, 1);
    p.v = leaf_drawn(draws, LAB_F64, 3, (int64_t[]){11, 2, 2}, 1);
    p.cu_q = leaf_of_integers(1, (int64_t[]){SEQUENCES + 1}, cu_q_values);
    p.cu_k = leaf_of_integers(1, (int64_t[]){SEQUENCES + 1}, cu_k_values);
    return p;
}

static void packed_free(packed_case *p)
{
    lab_tensor **all[] = {
        &p->q, &p->k, &p->v, &p->cu_q, &p->cu_k, &p->opts.sink, &p->opts.offsets, &p->opts.alibi_slopes};
    for (int i = 0; i < 8; i++)
        lab_tensor_destroy(all[i]);
}

/* Rows of a packed leaf as [heads, T, size], a leaf too. */
static lab_tensor *unpacked(lab_tensor *x, const int64_t *cu, int s)
{
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *leaf;
    lab_tensor *rows = lab_slice(g, x, 0, cu[s], cu[s + 1], 1);
    assert_int_equal(lab_tensor_clone(&leaf, lab_transpose(g, rows, 0, 1)), LAB_OK);
    lab_graph_destroy(&g);
    return leaf;
}

static void compare_packed(packed_case *p)
{
    lab_tensor *lse;
    lab_attention_stats stats[4], want[4] = {0};
    lab_attention_opts o = p->opts;
    o.lse = &lse;
    o.stats = stats;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *out = lab_attention_packed(g, p->q, p->k, p->v, p->cu_q, p->cu_k, &o);
    expect_healthy(g);
    for (int s = 0; s < SEQUENCES; s++) {
        lab_tensor *q = unpacked(p->q, cu_q_values, s), *k = unpacked(p->k, cu_k_values, s);
        lab_tensor *v = unpacked(p->v, cu_k_values, s);
        o = p->opts;
        if (o.offsets)
            o.offset = (int64_t)element_of(o.offsets, s);
        o.offsets = NULL;
        reference r;
        assert_true(reference_attention(&r, q, k, v, &o, s));
        for (int64_t h = 0; h < 4; h++)
            for (int64_t i = 0; i < r.tq; i++) {
                int64_t row = (cu_q_values[s] + i) * 4 + h;
                double l = element_of(lse, row), l_want = r.lse[h * r.tq + i];
                assert_true(l == l_want || fabs(l - l_want) < 1e-13);
                for (int64_t e = 0; e < 2; e++)
                    assert_true(fabs(element_of(out, row * 2 + e) - r.out[(h * r.tq + i) * 2 + e]) < 1e-13);
            }
        for (int h = 0; h < 4; h++) {
            double rows = (double)(r.stats[h].rows - r.stats[h].empty_rows);
            want[h].rows += r.stats[h].rows;
            want[h].empty_rows += r.stats[h].empty_rows;
            want[h].entropy.mean += rows * r.stats[h].entropy.mean;
            want[h].p_max.max = fmax(want[h].p_max.max, r.stats[h].p_max.max);
        }
        reference_free(&r);
        lab_tensor_destroy(&q);
        lab_tensor_destroy(&k);
        lab_tensor_destroy(&v);
    }
    for (int h = 0; h < 4; h++) {
        double rows = (double)(want[h].rows - want[h].empty_rows);
        assert_int_equal(stats[h].rows, want[h].rows);
        assert_int_equal(stats[h].empty_rows, want[h].empty_rows);
        assert_true(fabs(stats[h].entropy.mean - want[h].entropy.mean / rows) < 1e-13);
        assert_true(fabs(stats[h].p_max.max - want[h].p_max.max) < 1e-13);
    }
    lab_graph_destroy(&g);
}

/* The same as attention on each sequence alone: alignment, windows, offsets and dropout counted within it. */
static void packed_is_attention_on_each_alone(void **state)
{
    (void)state;
    uint64_t draws = draw_start("packed");
    for (int n = 0; n < 12; n++) {
        int i = n / 2;
        packed_case p = packed_make(&draws);
        p.opts.path = paths[n % 2];
        if (i == 1)
            p.opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
        if (i == 2)
            p.opts.causal = LAB_CAUSAL_TOP_LEFT;
        if (i == 3) {
            p.opts.causal = LAB_CAUSAL_OFFSET;
            p.opts.offsets = leaf_of_integers(1, (int64_t[]){SEQUENCES}, (int64_t[]){1, 0, 2, -1});
        }
        if (i == 4) {
            p.opts.window = (lab_window){true, 1, 1};
            p.opts.offset = 1;
            p.opts.sink = leaf_drawn(&draws, LAB_F64, 1, (int64_t[]){4}, 1);
            p.opts.alibi_slopes = leaf_drawn(&draws, LAB_F64, 1, (int64_t[]){4}, 1);
        }
        if (i == 5) {
            p.opts.dropout = 0.5;
            p.opts.seed = 3;
        }
        compare_packed(&p);
        packed_free(&p);
    }
}

static lab_tensor *packed_function(lab_graph *g, lab_tensor **xs, void *ctx)
{
    packed_case *p = ctx;
    return lab_attention_packed(g, xs[0], xs[1], xs[2], p->cu_q, p->cu_k, &p->opts);
}

static void packed_has_right_gradients(void **state)
{
    (void)state;
    uint64_t draws = draw_start("packed gradients");
    packed_case p = packed_make(&draws);
    p.opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
    for (int n = 0; n < 2; n++) {
        p.opts.path = paths[n];
        expect_gradients("packed", packed_function, &p, 3, (lab_tensor *[]){p.q, p.k, p.v},
                         &(lab_gradcheck_opts){.max_entries = 40});
    }
    packed_free(&p);
}

static void no_sequences_give_an_empty_result(void **state)
{
    (void)state;
    uint64_t draws = draw_start("none");
    lab_tensor *q = leaf_drawn(&draws, LAB_F64, 3, (int64_t[]){0, 2, 3}, 1);
    lab_tensor *cu = leaf_of_integers(1, (int64_t[]){1}, (int64_t[]){0}), *lse, *dq;
    for (int n = 0; n < 2; n++) {
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *y = lab_attention_packed(g, q, q, q, cu, cu, &(lab_attention_opts){.path = paths[n], .lse = &lse});
        lab_grad(g, lab_sum_all(g, y), NULL, 1, &q, &dq, NULL);
        expect_healthy(g);
        assert_int_equal(lab_tensor_size(y, 0), 0);
        assert_int_equal(lab_tensor_size(y, 1), 2);
        assert_int_equal(lab_tensor_rank(lse), 2);
        lab_graph_destroy(&g);
    }
    lab_tensor_destroy(&q);
    lab_tensor_destroy(&cu);
}

static void wrong_packed_calls_are_named(void **state)
{
    (void)state;
    uint64_t draws = draw_start("packed bad");
    packed_case p = packed_make(&draws);
    lab_tensor *mask = leaf_of_bools(0, NULL, (bool[]){true}), *probs;
    lab_tensor *numbers = leaf_of_integers(1, (int64_t[]){3}, (int64_t[]){1, 1, 1});
    lab_tensor *four = leaf_of_integers(1, (int64_t[]){4}, (int64_t[]){0, 0, 0, 0}); /* given, though 0 */
    lab_tensor *fewer = leaf_of_integers(1, (int64_t[]){3}, (int64_t[]){0, 4, 11});
    lab_tensor *bias = leaf_drawn(&draws, LAB_F64, 0, NULL, 1);
    const struct {
        const char *word;
        lab_status status;
        lab_attention_opts opts;
    } options[] = {
        {"mask", LAB_ERR_UNSUPPORTED, {.mask = mask}},
        {"bias", LAB_ERR_UNSUPPORTED, {.bias = bias}},
        {"probs", LAB_ERR_UNSUPPORTED, {.probs = &probs}},
        {"key_lengths", LAB_ERR_UNSUPPORTED, {.key_lengths = numbers}},
        {"offsets", LAB_ERR_SHAPE, {.offsets = numbers}},
        {"offsets", LAB_ERR_DTYPE, {.offsets = bias}},
        {"both offset", LAB_ERR_ARGUMENT, {.offset = 1, .offsets = four}},
        {"TOP_LEFT", LAB_ERR_ARGUMENT, {.causal = LAB_CAUSAL_TOP_LEFT, .offsets = four}},
        {"BOTTOM_RIGHT", LAB_ERR_ARGUMENT, {.causal = LAB_CAUSAL_BOTTOM_RIGHT, .offsets = four}},
        {"dropout", LAB_ERR_RANGE, {.dropout = 2}},
        {"reserved", LAB_ERR_ARGUMENT, {.reserved = {1}}},
    };
    lab_graph *g = lab_graph_create(NULL);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        lab_graph_reset(g);
        assert_null(lab_attention_packed(g, p.q, p.k, p.v, p.cu_q, p.cu_k, &options[i].opts));
        expect_refusal(g, options[i].status, options[i].word);
    }
    const int64_t lengths[][SEQUENCES + 1] = {{1, 3, 3, 8, 10}, {0, 3, 3, 8, 9}, {0, 4, 3, 8, 10}};
    for (int i = 0; i < 3; i++) {
        lab_tensor *cu = leaf_of_integers(1, (int64_t[]){SEQUENCES + 1}, lengths[i]);
        lab_graph_reset(g);
        assert_null(lab_attention_packed(g, p.q, p.k, p.v, cu, p.cu_k, NULL));
        expect_refusal(g, LAB_ERR_RANGE, "cu_q");
        lab_tensor_destroy(&cu);
    }
    lab_graph_reset(g);
    assert_null(lab_attention_packed(g, p.q, p.k, p.v, p.cu_q, numbers, NULL));
    assert_int_equal(lab_graph_status(g), LAB_ERR_RANGE);
    lab_graph_reset(g);
    assert_null(lab_attention_packed(g, p.q, p.k, p.v, p.cu_q, fewer, NULL));
    expect_refusal(g, LAB_ERR_SHAPE, "2");
    lab_graph_reset(g);
    assert_null(lab_attention_packed(g, p.q, p.k, p.v, NULL, p.cu_k, NULL));
    expect_refusal(g, LAB_ERR_ARGUMENT, "cu_q");
    lab_graph_destroy(&g);
    packed_free(&p);
    lab_tensor *mine[] = {mask, numbers, four, fewer, bias};
    for (int i = 0; i < 5; i++)
        lab_tensor_destroy(&mine[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_is_attention_on_each_alone),
        cmocka_unit_test(packed_has_right_gradients),
        cmocka_unit_test(no_sequences_give_an_empty_result),
        cmocka_unit_test(wrong_packed_calls_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
