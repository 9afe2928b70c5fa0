/* test_proofs.c - the claims of the README, one test each, in float64 and over several seeds.
 *
 * 1 to 8: values against a scalar loop in long double, gradients by central differences to 1e-7 of the tensor's
 * largest entry. 9 to 14: what makes a transformer one. Each prints the worst error it met. LAB_TEST_SEED=n repeats
 * one seed.
 */
#include <llmlab.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proofs.h"
#include "reference_attention.h"

/* ---- 1 and 2: attention ----------------------------------------------------------------------------------------------- */

static lab_tensor *attend(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_attention(g, xs[0], xs[1], xs[2], ctx);
}

static void prove_attention(lab_attention_opts *opts)
{
    FOR_SEEDS(seed)
    {
        leaves l = {0};
        add_leaf(&l, 4, (int64_t[]){2, 4, 6, 5}, 1, 10 * seed);
        add_leaf(&l, 4, (int64_t[]){2, 2, 7, 5}, 1, 10 * seed + 1);
        add_leaf(&l, 4, (int64_t[]){2, 2, 7, 3}, 1, 10 * seed + 2);
        reference r;
        assert_true(reference_attention(&r, l.at[0], l.at[1], l.at[2], opts, 0));
        matrix expected = matrix_zeros(r.batch * r.heads * r.tq, r.dv);
        for (int64_t i = 0; i < expected.rows * expected.cols; i++)
            expected.at[i] = r.out[i];
        reference_free(&r);
        lab_graph *g = lab_graph_create(NULL);
        value_is(seed, attend(g, l.at, opts), expected, 1e-14);
        lab_graph_destroy(&g);
        gradients_are_right(seed, attend, opts, &l, false);
        free_leaves(&l);
    }
}

static void proof_01_attention(void **state)
{
    (void)state;
    prove_attention(&(lab_attention_opts){0});
    say("attention");
}

static void proof_02_causal_attention(void **state)
{
    (void)state;
    prove_attention(&(lab_attention_opts){.causal = LAB_CAUSAL_TOP_LEFT});
    prove_attention(&(lab_attention_opts){.causal = LAB_CAUSAL_BOTTOM_RIGHT});
    say("causal attention");
}

/* ---- 3: multi-head ------------------------------------------------------------------------------------------------------ */

static lab_tensor *apply_mha(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_mha_apply(g, ctx, xs[0], NULL, NULL, &(lab_attention_opts){.causal = LAB_CAUSAL_TOP_LEFT});
}

static void proof_03_multi_head_attention(void **state)
{
    (void)state;
    static const lab_rope_opts rope = {.layout = LAB_ROPE_HALVES};
    const lab_mha_config configs[] = {
        {.width = WIDTH, .heads = 2, .bias = true},
        {.width = WIDTH, .heads = 4, .kv_heads = 2, .rope = &rope},
        {.width = WIDTH, .heads = 4, .kv_heads = 1, .head_dim = 3},
    };
    FOR_SEEDS(seed)
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        lab_mha m;
        leaves l = {0};
        assert_int_equal(lab_mha_init(&m, &configs[i], LAB_F64, seed), LAB_OK);
        lab_tensor *x = add_leaf(&l, 2, (int64_t[]){T, WIDTH}, 1, seed);
        assert_int_equal(lab_mha_visit(&m, "mha", collect, &l), LAB_OK);
        lab_graph *g = lab_graph_create(NULL);
        value_is(seed, apply_mha(g, &x, &m), reference_mha(&m, matrix_of(x), true), 1e-14);
        lab_graph_destroy(&g);
        gradients_are_right(seed, apply_mha, &m, &l, false);
        free_leaves(&l);
        lab_mha_free(&m);
    }
    say("multi-head attention");
}

/* ---- 4 and 5: LayerNorm, MLP ---------------------------------------------------------------------------------------------- */

static lab_tensor *apply_layer_norm(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_layer_norm_composed(g, xs[0], xs[1], xs[2], 1e-5);
}

static void proof_04_layer_norm(void **state)
{
    (void)state;
    FOR_SEEDS(seed)
    {
        leaves l = {0};
        add_leaf(&l, 3, (int64_t[]){2, 3, WIDTH}, 2, 3 * seed);
        add_leaf(&l, 1, (int64_t[]){WIDTH}, 1, 3 * seed + 1);
        add_leaf(&l, 1, (int64_t[]){WIDTH}, 1, 3 * seed + 2);
        lab_graph *g = lab_graph_create(NULL);
        value_is(seed, apply_layer_norm(g, l.at, NULL),
                 reference_layer_norm(matrix_of(l.at[0]), matrix_of(l.at[1]), matrix_of(l.at[2]), 1e-5), 1e-14);
        lab_graph_destroy(&g);
        gradients_are_right(seed, apply_layer_norm, NULL, &l, false);
        free_leaves(&l);
    }
    say("LayerNorm");
}

static lab_tensor *apply_mlp(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_mlp_apply(g, ctx, xs[0]);
}

static void proof_05_mlp(void **state)
{
    (void)state;
    FOR_SEEDS(seed)
    for (int kind = LAB_ACTIVATION_GELU_ERF; kind <= LAB_ACTIVATION_SILU_GATED; kind++) {
        lab_mlp m;
        leaves l = {0};
        lab_mlp_config config = {.width = WIDTH, .hidden = 11, .activation = (lab_activation)kind, .bias = true};
        assert_int_equal(lab_mlp_init(&m, &config, LAB_F64, seed), LAB_OK);
        lab_tensor *x = add_leaf(&l, 2, (int64_t[]){T, WIDTH}, 1, seed);
        assert_int_equal(lab_mlp_visit(&m, "mlp", collect, &l), LAB_OK);
        lab_graph *g = lab_graph_create(NULL);
        value_is(seed, apply_mlp(g, &x, &m), reference_mlp(&m, matrix_of(x)), 1e-14);
        lab_graph_destroy(&g);
        gradients_are_right(seed, apply_mlp, &m, &l, false);
        free_leaves(&l);
        lab_mlp_free(&m);
    }
    say("MLP");
}

/* ---- 6 and 7: positions ------------------------------------------------------------------------------------------------------ */

static const int64_t tokens[T] = {3, 0, 3, 5, 1};

static lab_tensor *embed(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    lab_tensor *ids = lab_constant(g, LAB_I64, 1, (int64_t[]){T}, tokens);
    return lab_add(g, lab_gather_rows(g, xs[0], ids), lab_sinusoidal(g, LAB_F64, T, lab_tensor_size(xs[0], 1)));
}

static void proof_06_sinusoidal_positions_added_to_an_embedding(void **state)
{
    (void)state;
    FOR_SEEDS(seed)
    for (int64_t width = 7; width <= 8; width++) {
        leaves l = {0};
        matrix table = matrix_of(add_leaf(&l, 2, (int64_t[]){6, width}, 1, seed));
        matrix expected = matrix_zeros(T, width);
        for (int64_t p = 0; p < T; p++)
            for (int64_t c = 0; c < width; c++) {
                long double angle = p * powl(10000, -(long double)(c / 2 * 2) / width);
                expected.at[p * width + c] = table.at[tokens[p] * width + c] + (c % 2 ? cosl(angle) : sinl(angle));
            }
        lab_graph *g = lab_graph_create(NULL);
        value_is(seed, embed(g, l.at, NULL), expected, 1e-14);
        lab_graph_destroy(&g);
        gradients_are_right(seed, embed, NULL, &l, false);
        free_leaves(&l);
    }
    say("sinusoidal positions");
}

static lab_tensor *rotate(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_rope(g, xs[0], ctx);
}

static void proof_07_rope(void **state)
{
    (void)state;
    lab_rope_opts options[] = {
        {.layout = LAB_ROPE_INTERLEAVED},
        {.layout = LAB_ROPE_HALVES},
        {.layout = LAB_ROPE_INTERLEAVED, .width = 4, .offset = 9},
        {.layout = LAB_ROPE_HALVES, .width = 6, .base = 500, .offset = 3},
    };
    FOR_SEEDS(seed)
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        leaves l = {0};
        lab_tensor *x = add_leaf(&l, 2, (int64_t[]){T, WIDTH}, 1, seed);
        matrix expected = matrix_of(x);
        reference_rope(expected, WIDTH, options[i].layout, options[i].width, options[i].base, options[i].offset);
        lab_graph *g = lab_graph_create(NULL);
        value_is(seed, rotate(g, &x, &options[i]), expected, 1e-14);
        lab_graph_destroy(&g);
        gradients_are_right(seed, rotate, &options[i], &l, false);
        free_leaves(&l);
    }
    say("RoPE");
}

/* ---- 8: the block --------------------------------------------------------------------------------------------------------------- */

static void proof_08_the_full_block_with_every_parameter(void **state)
{
    (void)state;
    FOR_SEEDS(seed)
    for (int i = 0; i < BLOCKS; i++) {
        lab_block b;
        leaves l = {0};
        lab_tensor *x = make_block(&b, &l, i, seed);
        lab_graph *g = lab_graph_create(NULL);
        value_is(seed, apply_block(g, &x, &b), reference_block(&b, matrix_of(x), true), 1e-14);
        lab_graph_destroy(&g);
        gradients_are_right(seed, apply_block, &b, &l, false);
        free_leaves(&l);
        lab_block_free(&b);
    }
    say("block");
}

/* ---- 9 and 10: definitions --------------------------------------------------------------------------------------------------------- */

/* One head after another: its rows of the weights, its attention, its columns of the output's weight, summed. */
static lab_tensor *head_by_head(lab_graph *g, const lab_mha *m, lab_tensor *x)
{
    lab_tensor *sum = NULL;
    int64_t d = m->head_dim;
    for (int64_t h = 0; h < m->heads; h++) {
        int64_t kv = h / (m->heads / m->kv_heads);
        lab_tensor *wq = lab_slice(g, m->q.weight, 0, h * d, (h + 1) * d, 1);
        lab_tensor *wk = lab_slice(g, m->k.weight, 0, kv * d, (kv + 1) * d, 1);
        lab_tensor *wv = lab_slice(g, m->v.weight, 0, kv * d, (kv + 1) * d, 1);
        lab_tensor *wo = lab_slice(g, m->out.weight, 1, h * d, (h + 1) * d, 1);
        lab_tensor *q = lab_matmul(g, x, lab_transpose(g, wq, 0, 1)), *k = lab_matmul(g, x, lab_transpose(g, wk, 0, 1));
        lab_tensor *v = lab_matmul(g, x, lab_transpose(g, wv, 0, 1));
        lab_tensor *scores = lab_mul_scalar(g, lab_matmul(g, q, lab_transpose(g, k, 0, 1)), 1 / sqrt((double)d));
        lab_tensor *out = lab_matmul(g, lab_matmul(g, lab_softmax(g, scores, -1), v), lab_transpose(g, wo, 0, 1));
        sum = sum ? lab_add(g, sum, out) : out;
    }
    return sum;
}

static void proof_09_multi_head_equals_a_slow_loop_over_heads(void **state)
{
    (void)state;
    FOR_SEEDS(seed)
    for (int64_t kv_heads = 1; kv_heads <= 4; kv_heads *= 2) {
        lab_mha m;
        leaves l = {0};
        lab_mha_config config = {.width = WIDTH, .heads = 4, .kv_heads = kv_heads, .head_dim = 6};
        assert_int_equal(lab_mha_init(&m, &config, LAB_F64, seed), LAB_OK);
        lab_tensor *x = add_leaf(&l, 2, (int64_t[]){T, WIDTH}, 1, seed);
        assert_int_equal(lab_mha_visit(&m, "mha", collect, &l), LAB_OK);
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *slow = head_by_head(g, &m, x), *fast = lab_mha_apply(g, &m, x, NULL, NULL, NULL);
        lab_tensor *slow_grads[MOST_LEAVES], *fast_grads[MOST_LEAVES];
        lab_grad(g, lab_sum_all(g, lab_mul(g, slow, slow)), NULL, l.n, l.at, slow_grads, NULL);
        lab_grad(g, lab_sum_all(g, lab_mul(g, fast, fast)), NULL, l.n, l.at, fast_grads, NULL);
        assert_int_equal(lab_graph_status(g), LAB_OK);
        value_is(seed, fast, matrix_of(slow), 1e-14);
        for (int i = 0; i < l.n; i++) {
            double error = matrix_error(fast_grads[i], matrix_of(slow_grads[i]));
            assert_true(error < 1e-13);
            worst_gradient = fmax(worst_gradient, error);
        }
        lab_graph_destroy(&g);
        free_leaves(&l);
        lab_mha_free(&m);
    }
    say("multi-head against a loop");
}

static void proof_10_layer_norm_equals_its_closed_form(void **state)
{
    (void)state;
    FOR_SEEDS(seed)
    for (double mean = 0; mean <= 1e6; mean = mean == 0 ? 1 : mean * 1e6) {
        enum { ROWS = 3, COLS = 33 };
        const double eps = 1e-5;
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *x = lab_add_scalar(g, lab_randn(g, LAB_F64, 2, (int64_t[]){ROWS, COLS}, seed), mean), *dx;
        lab_tensor *dy = lab_randn(g, LAB_F64, 2, (int64_t[]){ROWS, COLS}, seed + 100);
        lab_tensor *y = lab_layer_norm_composed(g, x, NULL, NULL, eps);
        lab_grad(g, y, dy, 1, &x, &dx, NULL);
        assert_int_equal(lab_graph_status(g), LAB_OK);
        matrix mx = matrix_of(x), md = matrix_of(dy), expected = matrix_zeros(ROWS, COLS);
        matrix my = reference_layer_norm(mx, (matrix){0}, (matrix){0}, eps);
        value_is(seed, y, my, 1e-12);
        /* dx = (dy - mean(dy) - y mean(dy y)) / sqrt(variance + eps) */
        for (int64_t i = 0; i < ROWS; i++) {
            long double average = 0, variance = 0, a = 0, b = 0;
            for (int64_t j = 0; j < COLS; j++) {
                average += mx.at[i * COLS + j] / COLS;
                a += md.at[i * COLS + j] / COLS;
                b += md.at[i * COLS + j] * my.at[i * COLS + j] / COLS;
            }
            for (int64_t j = 0; j < COLS; j++)
                variance += (mx.at[i * COLS + j] - average) * (mx.at[i * COLS + j] - average) / COLS;
            for (int64_t j = 0; j < COLS; j++)
                expected.at[i * COLS + j] = (md.at[i * COLS + j] - a - my.at[i * COLS + j] * b) / sqrtl(variance + eps);
        }
        double error = matrix_error(dx, expected);
        assert_true(error <= 1e-12);
        worst_gradient = fmax(worst_gradient, error);
        lab_graph_destroy(&g);
    }
    say("LayerNorm against its closed form, means up to 1e6");
}

/* ---- 11: distance ------------------------------------------------------------------------------------------------------------------- */

static void proof_11_rope_scores_depend_on_distance_only(void **state)
{
    (void)state;
    enum { POSITIONS = 64, D = 16 };
    const int64_t offsets[] = {0, 1, 17, 1000};
    FOR_SEEDS(seed)
    for (int layout = LAB_ROPE_INTERLEAVED; layout <= LAB_ROPE_HALVES; layout++) {
        double by_distance[2 * POSITIONS]; /* at the first offset and the first pair of that distance */
        bool seen[2 * POSITIONS] = {false};
        double largest = 0, worst = 0, moved = 0;
        for (size_t o = 0; o < sizeof offsets / sizeof offsets[0]; o++) {
            lab_graph *g = lab_graph_create(NULL);
            lab_rope_opts opts = {.layout = (lab_rope_layout)layout, .offset = offsets[o]};
            lab_tensor *rows[2];
            for (int i = 0; i < 2; i++) /* the same vector at every position */
                rows[i] = lab_rope(g,
                                   lab_broadcast_to(g, lab_randn(g, LAB_F64, 1, (int64_t[]){D}, 2 * seed + (uint64_t)i),
                                                    2, (int64_t[]){POSITIONS, D}),
                                   &opts);
            matrix scores = matrix_of(lab_matmul(g, rows[0], lab_transpose(g, rows[1], 0, 1)));
            assert_int_equal(lab_graph_status(g), LAB_OK);
            for (int i = 0; i < POSITIONS; i++)
                for (int j = 0; j < POSITIONS; j++) {
                    double score = (double)scores.at[i * POSITIONS + j];
                    int distance = i - j + POSITIONS;
                    largest = fmax(largest, fabs(score));
                    if (seen[distance])
                        worst = fmax(worst, fabs(score - by_distance[distance]));
                    else
                        by_distance[distance] = score;
                    seen[distance] = true;
                }
            lab_graph_destroy(&g);
        }
        for (int i = 1; i < 2 * POSITIONS - 1; i++) /* and on distance they do depend */
            if (seen[i] && seen[i + 1])
                moved = fmax(moved, fabs(by_distance[i] - by_distance[i + 1]));
        assert_true(moved > 0.01 * largest);
        if (!(worst <= 1e-12 * largest))
            fail_msg("seed %llu, layout %d: scores of one distance differ by %.3g", (unsigned long long)seed, layout,
                     worst / largest);
        worst_value = fmax(worst_value, worst / largest);
    }
    say("RoPE and distance");
}

/* ---- 12 to 14: the mask --------------------------------------------------------------------------------------------------------------- */

enum { LONG = 12, CHANGED = 7 };

/* Outputs before CHANGED, and the gradients of a loss over them, for every leaf. */
static void run_early(lab_block *b, leaves *l, double *out, double **grads)
{
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = apply_block(g, &l->at[0], b), *early = lab_slice(g, y, 0, 0, CHANGED, 1), *d[MOST_LEAVES];
    lab_grad(g, lab_sum_all(g, lab_mul(g, early, early)), NULL, l->n, l->at, d, NULL);
    assert_int_equal(lab_graph_status(g), LAB_OK);
    assert_int_equal(lab_tensor_read(early, out, CHANGED * WIDTH * sizeof(double)), LAB_OK);
    for (int i = 0; i < l->n; i++) {
        size_t bytes = (size_t)lab_tensor_numel(d[i]) * sizeof(double);
        grads[i] = malloc(bytes);
        assert_non_null(grads[i]);
        assert_int_equal(lab_tensor_read(d[i], grads[i], bytes), LAB_OK);
    }
    lab_graph_destroy(&g);
}

static void no_difference(uint64_t seed, const char *what, int which, const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(a[i] - b[i] == 0.0))
            fail_msg("seed %llu: %s %d [%lld] moved by %.3g, expected exactly 0 (token %d was changed)",
                     (unsigned long long)seed, what, which, (long long)i, b[i] - a[i], CHANGED);
}

static void proof_12_what_comes_later_leaves_no_trace(void **state)
{
    (void)state;
    FOR_SEEDS(seed)
    for (int which = 0; which < BLOCKS; which++) {
        lab_block b;
        leaves l = {0};
        assert_int_equal(lab_block_init(&b, &blocks[which], LAB_F64, seed), LAB_OK);
        lab_tensor *x = add_leaf(&l, 2, (int64_t[]){LONG, WIDTH}, 1, seed);
        assert_int_equal(lab_block_visit(&b, "block", collect, &l), LAB_OK);
        double before[CHANGED * WIDTH], after[CHANGED * WIDTH], *grads[2][MOST_LEAVES];
        run_early(&b, &l, before, grads[0]);
        double *values = lab_tensor_data(x);
        for (int64_t c = 0; c < WIDTH; c++)
            values[CHANGED * WIDTH + c] = 100 * (double)(c + 1);
        lab_tensor_touch(x);
        run_early(&b, &l, after, grads[1]);
        no_difference(seed, "output", 0, before, after, CHANGED * WIDTH);
        for (int i = 0; i < l.n; i++) {
            no_difference(seed, "gradient", i, grads[0][i], grads[1][i], lab_tensor_numel(l.at[i]));
            if (i == 0) /* and no gradient reaches what comes later */
                for (int64_t c = CHANGED * WIDTH; c < LONG * WIDTH; c++)
                    assert_true(grads[1][0][c] == 0.0);
            free(grads[0][i]);
            free(grads[1][i]);
        }
        free_leaves(&l);
        lab_block_free(&b);
    }
    say("leak (exactly 0)");
}

typedef struct sight {
    double moved;        /* by how much earlier outputs move, relative to the largest */
    double p_max, share; /* mean largest weight; share of rows whose largest weight is over 0.99 */
    bool looked_at;      /* some earlier query gives the changed token a weight over 1e-9 */
} sight;

/* Attention without a mask over projections `size` times the right size; token `changed` is moved. */
static sight without_mask(uint64_t seed, double size, int64_t changed)
{
    enum { D = 16, TOKENS = 16 };
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *x = lab_randn(g, LAB_F64, 2, (int64_t[]){TOKENS, D}, seed), *heads[2], *probs, *out[2];
    lab_tensor *w[3];
    for (int i = 0; i < 3; i++)
        w[i] = lab_mul_scalar(g, lab_randn(g, LAB_F64, 2, (int64_t[]){D, D}, seed + 50 + (uint64_t)i),
                              (i < 2 ? size : 1) / sqrt((double)D));
    double bump[TOKENS * D] = {0};
    for (int c = 0; c < D; c++)
        bump[changed * D + c] = c % 2 ? 0.03 : -0.03;
    heads[0] = x;
    heads[1] = lab_add(g, x, lab_constant(g, LAB_F64, 2, (int64_t[]){TOKENS, D}, bump));
    lab_attention_stats stats;
    for (int i = 0; i < 2; i++) {
        lab_tensor *qkv[3];
        for (int j = 0; j < 3; j++)
            qkv[j] = lab_reshape(g, lab_matmul(g, heads[i], w[j]), 3, (int64_t[]){1, TOKENS, D});
        out[i] = lab_attention(g, qkv[0], qkv[1], qkv[2], &(lab_attention_opts){.stats = &stats, .probs = &probs});
    }
    assert_int_equal(lab_graph_status(g), LAB_OK);
    sight s = {.p_max = stats.p_max.mean, .share = stats.saturated_share};
    matrix a = matrix_of(out[0]), b = matrix_of(out[1]), p = matrix_of(probs);
    double largest = 0;
    for (int64_t i = 0; i < changed * D; i++) {
        s.moved = fmax(s.moved, (double)fabsl(a.at[i] - b.at[i]));
        largest = fmax(largest, (double)fabsl(a.at[i]));
    }
    s.moved /= largest;
    for (int64_t i = 0; i < changed; i++)
        s.looked_at = s.looked_at || p.at[i * TOKENS + changed] > 1e-13;
    lab_graph_destroy(&g);
    matrices_free();
    return s;
}

static void proof_13_without_the_mask_the_change_shows_unless_softmax_is_saturated(void **state)
{
    (void)state;
    double least_visible = INFINITY, most_hidden = 0, p_right = 0, p_large = 1;
    FOR_SEEDS(seed)
    {
        /* With large weights every query looks at one token: change one that none of the earlier queries looks at. */
        int64_t changed = 15;
        while (changed > 4 && without_mask(seed, 10, changed).looked_at)
            changed--;
        sight right = without_mask(seed, 1, changed), large = without_mask(seed, 10, changed);
        assert_false(large.looked_at);
        assert_true(right.moved > 1e-3);
        assert_true(large.moved <= 1e-9);
        assert_true(right.p_max < 0.6 && right.share < 0.1); /* the reason, measured */
        assert_true(large.p_max > 0.9 && large.share > 0.6);
        least_visible = fmin(least_visible, right.moved);
        most_hidden = fmax(most_hidden, large.moved);
        p_right = fmax(p_right, right.p_max);
        p_large = fmin(p_large, large.p_max);
    }
    print_message("             weights of the right size: earlier outputs move by %.1e or more, largest weight %.2f "
                  "on average\n             ten times too large: by %.1e at most, largest weight %.3f\n",
                  least_visible, p_right, most_hidden, p_large);
}

static void proof_14_forbidden_weights_and_their_gradients_are_exactly_zero(void **state)
{
    (void)state;
    enum { N = 9 };
    FOR_SEEDS(seed)
    {
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *x[3], *bias = lab_randn(g, LAB_F64, 2, (int64_t[]){N, N}, 4 * seed), *probs, *d[2];
        uint8_t mask[N * N];
        for (int i = 0; i < N * N; i++)
            mask[i] = (uint8_t)(i % N == 0 || (i * 7 + (int)seed) % 3 != 0);
        for (int i = 0; i < 3; i++)
            x[i] = lab_randn(g, LAB_F64, 3, (int64_t[]){2, N, 4}, 4 * seed + 1 + (uint64_t)i);
        lab_attention_opts opts = {.causal = LAB_CAUSAL_TOP_LEFT,
                                   .bias = bias,
                                   .probs = &probs,
                                   .mask = lab_constant(g, LAB_BOOL, 2, (int64_t[]){N, N}, mask)};
        lab_tensor *y = lab_attention(g, x[0], x[1], x[2], &opts);
        lab_tensor *wanted[] = {bias, probs};
        lab_grad(g, lab_sum_all(g, lab_mul(g, y, y)), NULL, 2, wanted, d, NULL);
        assert_int_equal(lab_graph_status(g), LAB_OK);
        matrix p = matrix_of(probs), db = matrix_of(d[0]);
        int forbidden = 0, allowed = 0;
        for (int64_t h = 0; h < 2; h++)
            for (int64_t i = 0; i < N; i++)
                for (int64_t j = 0; j < N; j++) {
                    bool may = j <= i && mask[i * N + j];
                    assert_true(may ? p.at[(h * N + i) * N + j] > 0 : p.at[(h * N + i) * N + j] == 0);
                    assert_true(may || db.at[i * N + j] == 0);
                    allowed += may && (i == 0 || db.at[i * N + j] != 0);
                    forbidden += !may;
                }
        assert_true(forbidden > 60 && allowed > 40);
        lab_graph_destroy(&g);
    }
    say("forbidden weights (exactly 0)");
}

int main(void)
{
    const struct CMUnitTest proofs[] = {
        PROOF(proof_01_attention),
        PROOF(proof_02_causal_attention),
        PROOF(proof_03_multi_head_attention),
        PROOF(proof_04_layer_norm),
        PROOF(proof_05_mlp),
        PROOF(proof_06_sinusoidal_positions_added_to_an_embedding),
        PROOF(proof_07_rope),
        PROOF(proof_08_the_full_block_with_every_parameter),
        PROOF(proof_09_multi_head_equals_a_slow_loop_over_heads),
        PROOF(proof_10_layer_norm_equals_its_closed_form),
        PROOF(proof_11_rope_scores_depend_on_distance_only),
        PROOF(proof_12_what_comes_later_leaves_no_trace),
        PROOF(proof_13_without_the_mask_the_change_shows_unless_softmax_is_saturated),
        PROOF(proof_14_forbidden_weights_and_their_gradients_are_exactly_zero),
    };
    return cmocka_run_group_tests(proofs, NULL, NULL) != 0;
}
