/* test_layers_weights.c - layers that have weights: values, gradients of every parameter, names, draws, steps. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn_check.h"
#include "reference_layers.h"

/* ---- Parameters in a list --------------------------------------------------------------------------------------------- */

enum { MOST_PARAMETERS = 24 };

typedef struct list {
    int n;
    char names[MOST_PARAMETERS][64];
    lab_tensor **places[MOST_PARAMETERS];
} list;

static lab_status append(const char *name, lab_tensor **parameter, void *ctx)
{
    list *l = ctx;
    assert_true(l->n < MOST_PARAMETERS);
    snprintf(l->names[l->n], sizeof l->names[0], "%s", name);
    l->places[l->n++] = parameter;
    return LAB_OK;
}

static void expect_names(const list *l, int n, const char *const *names)
{
    assert_int_equal(l->n, n);
    for (int i = 0; i < n; i++)
        assert_string_equal(l->names[i], names[i]);
}

/* Something other than the zeros and ones that biases and gains start with. */
static void stir(const list *l, uint64_t *draws)
{
    for (int i = 0; i < l->n; i++) {
        double *values = lab_tensor_data(*l->places[i]);
        for (int64_t j = 0; j < lab_tensor_numel(*l->places[i]); j++)
            values[j] += draw_between(draws, -0.3, 0.3);
        lab_tensor_touch(*l->places[i]);
    }
}

static int inputs_and_parameters(const list *l, lab_tensor **xs, int n)
{
    for (int i = 0; i < l->n; i++)
        xs[n++] = *l->places[i];
    return n;
}

/* ---- Linear and MLP ---------------------------------------------------------------------------------------------------- */

static lab_tensor *linear_of(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_linear_apply(g, ctx, xs[0]);
}

static void linear_is_x_times_weight_transposed(void **state)
{
    (void)state;
    uint64_t draws = draw_start("linear");
    for (int bias = 0; bias < 2; bias++) {
        lab_linear layer;
        list l = {0};
        assert_int_equal(lab_linear_init(&layer, &(lab_linear_config){.in = 3, .out = 4, .bias = bias}, LAB_F64, 1),
                         LAB_OK);
        assert_int_equal(lab_linear_visit(&layer, "head", append, &l), LAB_OK);
        expect_names(&l, 1 + bias, (const char *[]){"head.weight", "head.bias"});
        assert_int_equal(lab_tensor_size(layer.weight, 0), 4);
        stir(&l, &draws);
        lab_tensor *xs[3] = {leaf_drawn(&draws, LAB_F64, 3, (int64_t[]){2, 3, 3}, 1)};
        double want[24];
        reference_linear(6, &layer, lab_tensor_data(xs[0]), want);
        lab_graph *g = lab_graph_create(NULL);
        expect_close("linear", lab_linear_apply(g, &layer, xs[0]), want, 24, 1e-14);
        expect_healthy(g);
        expect_gradients("linear", linear_of, &layer, inputs_and_parameters(&l, xs, 1), xs, NULL);
        lab_tensor *wide = leaf_drawn(&draws, LAB_F64, 2, (int64_t[]){1, 4}, 1);
        assert_null(lab_linear_apply(g, &layer, wide));
        expect_refusal(g, LAB_ERR_SHAPE, "[1, 4]");
        lab_tensor_destroy(&wide);
        lab_graph_destroy(&g);
        lab_tensor_destroy(&xs[0]);
        lab_linear_free(&layer);
        assert_null(layer.weight);
    }
}

static lab_tensor *mlp_of(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_mlp_apply(g, ctx, xs[0]);
}

static void mlp_has_three_activations(void **state)
{
    (void)state;
    uint64_t draws = draw_start("mlp");
    for (int kind = LAB_ACTIVATION_GELU_ERF; kind <= LAB_ACTIVATION_SILU_GATED; kind++) {
        lab_mlp layer;
        list l = {0};
        lab_mlp_config config = {.width = 3, .hidden = kind ? 5 : 0, .activation = (lab_activation)kind, .bias = true};
        assert_int_equal(lab_mlp_init(&layer, &config, LAB_F64, 7), LAB_OK);
        assert_int_equal(lab_tensor_size(layer.up.weight, 0), kind ? 5 : 12);
        assert_int_equal(lab_mlp_visit(&layer, NULL, append, &l), LAB_OK);
        const char *plain[] = {"up.weight", "up.bias", "down.weight", "down.bias"};
        const char *gated[] = {"up.weight", "up.bias", "gate.weight", "gate.bias", "down.weight", "down.bias"};
        bool is_gated = kind == LAB_ACTIVATION_SILU_GATED;
        expect_names(&l, is_gated ? 6 : 4, is_gated ? gated : plain);
        stir(&l, &draws);
        lab_tensor *xs[7] = {leaf_drawn(&draws, LAB_F64, 2, (int64_t[]){4, 3}, 2)};
        double want[12];
        reference_mlp(4, &layer, lab_tensor_data(xs[0]), want);
        lab_graph *g = lab_graph_create(NULL);
        expect_close("mlp", lab_mlp_apply(g, &layer, xs[0]), want, 12, 1e-14);
        expect_healthy(g);
        expect_gradients("mlp", mlp_of, &layer, inputs_and_parameters(&l, xs, 1), xs, NULL);
        lab_graph_destroy(&g);
        lab_tensor_destroy(&xs[0]);
        lab_mlp_free(&layer);
    }
}

/* ---- Multi-head attention ---------------------------------------------------------------------------------------------- */

typedef struct mha_case {
    lab_mha layer;
    bool cross;
    lab_attention_opts opts;
} mha_case;

static lab_tensor *mha_of(lab_graph *g, lab_tensor **xs, void *ctx)
{
    mha_case *c = ctx;
    return lab_mha_apply(g, &c->layer, xs[0], c->cross ? xs[1] : NULL, NULL, &c->opts);
}

/* Self and cross, grouped heads, biases or none, heads wider than width / heads, turned or not; and a memory that has
 * the input's own shape. */
static void mha_equals_a_loop_over_heads(void **state)
{
    (void)state;
    uint64_t draws = draw_start("mha");
    for (int i = 0; i < 9; i++) {
        bool alike = i == 8;
        lab_rope_opts rope = {.layout = LAB_ROPE_HALVES, .width = 2, .offset = 3};
        mha_case c = {.cross = i % 2 || alike, .opts = {.causal = i & 2 ? LAB_CAUSAL_BOTTOM_RIGHT : LAB_CAUSAL_NONE}};
        lab_mha_config config = {.width = 8,
                                 .heads = 4,
                                 .kv_heads = i & 2 ? 2 : 0,
                                 .head_dim = i & 4 ? 3 : 0,
                                 .memory_width = c.cross && !alike ? 5 : 0,
                                 .bias = i & 1,
                                 .rope = i & 4 ? &rope : NULL};
        assert_int_equal(lab_mha_init(&c.layer, &config, LAB_F64, 5), LAB_OK);
        list l = {0};
        assert_int_equal(lab_mha_visit(&c.layer, "attn", append, &l), LAB_OK);
        const char *bare[] = {"attn.q.weight", "attn.k.weight", "attn.v.weight", "attn.out.weight"};
        if (!config.bias)
            expect_names(&l, 4, bare);
        else
            assert_int_equal(l.n, 8);
        stir(&l, &draws);
        int64_t s = c.cross && !alike ? 4 : 3, memory_width = c.cross && !alike ? 5 : 8;
        lab_tensor *xs[10] = {leaf_drawn(&draws, LAB_F64, 3, (int64_t[]){2, 3, 8}, 1)};
        int n = 1;
        if (c.cross)
            xs[n++] = leaf_drawn(&draws, LAB_F64, 3, (int64_t[]){2, s, memory_width}, 1);
        double want[48];
        const double *input = lab_tensor_data(xs[0]), *memory = lab_tensor_data(xs[c.cross]);
        for (int b = 0; b < 2; b++)
            assert_true(
                reference_mha(&c.layer, 3, s, input + b * 24, memory + b * s * memory_width, &c.opts, want + b * 24));
        lab_graph *g = lab_graph_create(NULL);
        expect_close("mha", mha_of(g, xs, &c), want, 48, 1e-13);
        expect_healthy(g);
        expect_gradients("mha", mha_of, &c, inputs_and_parameters(&l, xs, n), xs,
                         &(lab_gradcheck_opts){.max_entries = 12});
        lab_graph_destroy(&g);
        for (int x = 0; x < n; x++)
            lab_tensor_destroy(&xs[x]);
        lab_mha_free(&c.layer);
    }
}

static void mha_takes_no_batch_and_refuses_what_is_wrong(void **state)
{
    (void)state;
    uint64_t draws = draw_start("mha cache");
    lab_mha layer;
    assert_int_equal(lab_mha_init(&layer, &(lab_mha_config){.width = 4, .heads = 2}, LAB_F32, 5), LAB_OK);
    lab_tensor *x = leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){3, 4}, 1), *probs;
    lab_tensor *flat = leaf_drawn(&draws, LAB_F32, 1, (int64_t[]){4}, 1);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_mha_apply(g, &layer, x, NULL, NULL, &(lab_attention_opts){.probs = &probs});
    expect_healthy(g);
    assert_int_equal(lab_tensor_rank(y), 2);
    assert_int_equal(lab_tensor_size(probs, 0), 2); /* the options reach the attention inside */
    assert_null(lab_mha_apply(g, &layer, flat, NULL, NULL, NULL));
    expect_refusal(g, LAB_ERR_SHAPE, "[4]");
    lab_graph_reset(g);
    assert_null(lab_mha_apply(g, &layer, NULL, NULL, NULL, NULL));
    expect_refusal(g, LAB_ERR_ARGUMENT, "input");
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&flat);
    lab_mha_free(&layer);
}

/* ---- Block ------------------------------------------------------------------------------------------------------------ */

typedef struct block_case {
    lab_block layer;
    lab_attention_opts opts;
} block_case;

static lab_tensor *block_of(lab_graph *g, lab_tensor **xs, void *ctx)
{
    block_case *c = ctx;
    return lab_block_apply(g, &c->layer, xs[0], NULL, &c->opts);
}

static lab_block_config block_config(int i, const lab_rope_opts *rope)
{
    return (lab_block_config){.width = 4,
                              .heads = 2,
                              .kv_heads = i & 2 ? 1 : 0,
                              .hidden = 6,
                              .activation = i & 1 ? LAB_ACTIVATION_SILU_GATED : LAB_ACTIVATION_GELU_ERF,
                              .bias = !(i & 1),
                              .norm = i & 1 ? LAB_NORM_RMS : LAB_NORM_LAYER,
                              .norm_place = i & 2 ? LAB_NORM_AFTER : LAB_NORM_BEFORE,
                              .rope = rope,
                              .layers = 3};
}

static void block_equals_its_formula_and_has_right_gradients(void **state)
{
    (void)state;
    uint64_t draws = draw_start("block");
    for (int i = 0; i < 4; i++) {
        block_case c = {.opts = {.causal = LAB_CAUSAL_TOP_LEFT}};
        lab_block_config config = block_config(i, &(lab_rope_opts){0});
        config.norm_eps = i < 2 ? 0 : 1e-3;
        assert_int_equal(lab_block_init(&c.layer, &config, LAB_F64, 9), LAB_OK);
        assert_true(c.layer.norm_eps == (i < 2 ? 1e-5 : 1e-3));
        list l = {0};
        assert_int_equal(lab_block_visit(&c.layer, "block.0", append, &l), LAB_OK);
        const char *rms[] = {"block.0.norm1.gain",    "block.0.attn.q.weight",   "block.0.attn.k.weight",
                             "block.0.attn.v.weight", "block.0.attn.out.weight", "block.0.norm2.gain",
                             "block.0.mlp.up.weight", "block.0.mlp.gate.weight", "block.0.mlp.down.weight"};
        if (i & 1)
            expect_names(&l, 9, rms);
        else
            assert_int_equal(l.n, 16);
        stir(&l, &draws);
        lab_tensor *xs[17] = {leaf_drawn(&draws, LAB_F64, 2, (int64_t[]){5, 4}, 1)};
        double want[20];
        assert_true(reference_block(&c.layer, 5, 4, lab_tensor_data(xs[0]), &c.opts, want));
        lab_graph *g = lab_graph_create(NULL);
        expect_close("block", block_of(g, xs, &c), want, 20, 1e-13);
        expect_healthy(g);
        int n = inputs_and_parameters(&l, xs, 1);
        expect_gradients("block", block_of, &c, n, xs, &(lab_gradcheck_opts){.step = 2e-4});
        lab_graph_destroy(&g);
        lab_tensor_destroy(&xs[0]);
        lab_block_free(&c.layer);
    }
}

/* Later tokens leave no trace through a whole block. */
static void later_tokens_leave_no_trace_in_a_block(void **state)
{
    (void)state;
    uint64_t draws = draw_start("block leak");
    for (int i = 0; i < 4; i++) {
        block_case c = {.opts = {.causal = LAB_CAUSAL_TOP_LEFT}};
        lab_block_config config = block_config(i, &(lab_rope_opts){0});
        assert_int_equal(lab_block_init(&c.layer, &config, LAB_F32, 9), LAB_OK);
        lab_tensor *x = leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){9, 4}, 1);
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *before = lab_contiguous(g, lab_slice(g, block_of(g, &x, &c), 0, 0, 6, 1));
        for (int j = 24; j < 28; j++)
            ((float *)lab_tensor_data(x))[j] += 3;
        lab_tensor *after = lab_slice(g, block_of(g, &x, &c), 0, 0, 6, 1);
        expect_healthy(g);
        expect_same("earlier outputs", after, before);
        lab_graph_destroy(&g);
        lab_tensor_destroy(&x);
        lab_block_free(&c.layer);
    }
}

/* ---- Draws ------------------------------------------------------------------------------------------------------------ */

static void normal_leaf(lab_tensor **t, int64_t rows, int64_t columns, uint64_t seed, uint64_t stream)
{
    assert_int_equal(lab_tensor_create(t, LAB_F64, 2, (int64_t[]){rows, columns}), LAB_OK);
    assert_int_equal(lab_init_normal(*t, 0.02, seed, stream), LAB_OK);
}

/* Each parameter is drawn from (seed, stream = its number in visit order), so that no two share draws. */
static void parameters_are_drawn_by_their_number(void **state)
{
    (void)state;
    lab_block layer;
    lab_block_config config = block_config(0, NULL);
    config.init = LAB_INIT_NORMAL;
    config.layers = 0;
    assert_int_equal(lab_block_init(&layer, &config, LAB_F64, 77), LAB_OK);
    list l = {0};
    assert_int_equal(lab_block_visit(&layer, "", append, &l), LAB_OK);
    for (int i = 0; i < l.n; i++) {
        lab_tensor *t = *l.places[i], *want;
        if (strstr(l.names[i], "weight")) {
            normal_leaf(&want, lab_tensor_size(t, 0), lab_tensor_size(t, 1), 77, (uint64_t)i);
            expect_same(l.names[i], t, want);
            lab_tensor_destroy(&want);
        } else {
            expect_all(l.names[i], t, strstr(l.names[i], "gain") ? 1 : 0);
        }
    }
    lab_block_free(&layer);
}

/* The maps that end a residual branch start 1 / sqrt(2 L) smaller, however they are drawn; the others do not. */
static void residual_branches_start_smaller(void **state)
{
    (void)state;
    assert_true(lab_residual_scale(8) == 0.25 && lab_residual_scale(0) == 1);
    for (int kind = LAB_INIT_XAVIER; kind <= LAB_INIT_ZEROS; kind++) {
        lab_block plain, deep;
        lab_block_config config = block_config(0, NULL);
        config.init = (lab_init_kind)kind;
        config.layers = 0;
        assert_int_equal(lab_block_init(&plain, &config, LAB_F64, 1), LAB_OK);
        config.layers = 8;
        assert_int_equal(lab_block_init(&deep, &config, LAB_F64, 1), LAB_OK);
        expect_same("q", deep.attn.q.weight, plain.attn.q.weight);
        expect_same("up", deep.mlp.up.weight, plain.mlp.up.weight);
        lab_tensor *pairs[][2] = {{deep.attn.out.weight, plain.attn.out.weight},
                                  {deep.mlp.down.weight, plain.mlp.down.weight}};
        for (int i = 0; i < 2; i++)
            for (int64_t j = 0; j < lab_tensor_numel(pairs[i][0]); j++) {
                assert_true((element_of(pairs[i][1], j) == 0) == (kind == LAB_INIT_ZEROS));
                assert_true(fabs(element_of(pairs[i][0], j) - element_of(pairs[i][1], j) / 4) < 1e-16);
            }
        lab_block_free(&plain);
        lab_block_free(&deep);
    }
}

/* ---- Visits and steps -------------------------------------------------------------------------------------------------- */

static lab_status stop_at_k(const char *name, lab_tensor **parameter, void *ctx)
{
    (void)parameter;
    ++*(int *)ctx;
    return strstr(name, "k.weight") ? LAB_ERR_IO : LAB_OK;
}

static void a_visit_ends_at_the_first_failure(void **state)
{
    (void)state;
    lab_mha layer;
    assert_int_equal(lab_mha_init(&layer, &(lab_mha_config){.width = 4, .heads = 2}, LAB_F32, 5), LAB_OK);
    int calls = 0;
    assert_int_equal(lab_mha_visit(&layer, "x", stop_at_k, &calls), LAB_ERR_IO);
    assert_int_equal(calls, 2);
    char prefix[300];
    memset(prefix, 'p', sizeof prefix - 1);
    prefix[sizeof prefix - 1] = 0;
    assert_int_equal(lab_mha_visit(&layer, prefix, stop_at_k, &calls), LAB_ERR_RANGE);
    assert_int_equal(lab_mha_visit(&layer, "x", NULL, NULL), LAB_ERR_ARGUMENT);
    int64_t count = 0;
    assert_int_equal(lab_mha_visit(&layer, "x", lab_count_parameters, &count), LAB_OK);
    assert_int_equal(count, 64);
    lab_mha_free(&layer);
}

static void wrong_configs_leave_nothing_behind(void **state)
{
    (void)state;
    const struct {
        lab_status status;
        lab_block_config config;
    } cases[] = {
        {LAB_ERR_RANGE, {.width = 0, .heads = 1}},
        {LAB_ERR_RANGE, {.width = 4, .heads = 0}},
        {LAB_ERR_RANGE, {.width = 4, .heads = 3}},
        {LAB_ERR_RANGE, {.width = 4, .heads = 4, .kv_heads = 3}},
        {LAB_ERR_RANGE, {.width = 4, .heads = 2, .hidden = -1}},
        {LAB_ERR_RANGE, {.width = 4, .heads = 2, .norm_eps = -1}},
        {LAB_ERR_RANGE, {.width = 4, .heads = 2, .rope = &(lab_rope_opts){.width = 4}}},
        {LAB_ERR_ARGUMENT, {.width = 4, .heads = 2, .rope = &(lab_rope_opts){.reserved = {1}}}},
        {LAB_ERR_ARGUMENT, {.width = 4, .heads = 2, .activation = (lab_activation)9}},
        {LAB_ERR_ARGUMENT, {.width = 4, .heads = 2, .norm = (lab_norm_kind)9}},
        {LAB_ERR_ARGUMENT, {.width = 4, .heads = 2, .init = (lab_init_kind)9}},
        {LAB_ERR_ARGUMENT, {.width = 4, .heads = 2, .reserved = {1}}},
    };
    lab_block layer;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(&layer, 0x55, sizeof layer);
        assert_int_equal(lab_block_init(&layer, &cases[i].config, LAB_F32, 1), cases[i].status);
        assert_true(strlen(lab_last_message()) > 10);
        assert_null(layer.norm1_gain);
        assert_null(layer.attn.q.weight);
        assert_null(layer.mlp.down.weight);
        lab_block_free(&layer);
    }
    lab_linear linear;
    assert_int_equal(lab_linear_init(&linear, &(lab_linear_config){.in = 1, .out = 1}, LAB_I64, 1), LAB_ERR_DTYPE);
    assert_int_equal(lab_linear_init(&linear, &(lab_linear_config){.in = 1, .out = 0}, LAB_F32, 1), LAB_ERR_RANGE);
    assert_int_equal(lab_linear_init(&linear, NULL, LAB_F32, 1), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_linear_init(NULL, NULL, LAB_F32, 1), LAB_ERR_ARGUMENT);
}

/* p - rate * gradient, in place and for any strides; what has no gradient stays. */
static void sgd_steps_against_the_gradient(void **state)
{
    (void)state;
    uint64_t draws = draw_start("sgd");
    for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
        lab_tensor *flat = leaf_drawn(&draws, (lab_dtype)dtype, 3, (int64_t[]){2, 3, 4}, 1), *before;
        lab_tensor *p[] = {flat, leaf_strided(flat)};
        assert_int_equal(lab_tensor_clone(&before, flat), LAB_OK);
        lab_sgd sgd = {.rate = 0.25};
        for (int i = 0; i < 2; i++) {
            assert_int_equal(lab_sgd_step("p", &p[i], &sgd), LAB_OK); /* no gradient yet */
            expect_same("without gradient", p[i], before);
            assert_int_equal(lab_tensor_require_grad(p[i], true), LAB_OK);
            lab_graph *g = lab_graph_create(NULL);
            lab_tensor *loss = lab_sum_all(g, lab_mul(g, p[i], p[i]));
            assert_int_equal(lab_backward(g, loss), LAB_OK);
            assert_int_equal(lab_sgd_step("p", &p[i], &sgd), LAB_OK);
            for (int64_t j = 0; j < 24; j++)
                assert_true(element_of(p[i], j) == element_of(before, j) / 2);
            lab_tensor *dx;
            lab_grad(g, loss, NULL, 1, &p[i], &dx, NULL); /* its value was overwritten */
            expect_refusal(g, LAB_ERR_STATE, "");
            assert_int_equal(lab_clear_grads("p", &p[i], NULL), LAB_OK);
            assert_null(lab_tensor_grad(p[i]));
            lab_graph_destroy(&g);
        }
        sgd.rate = NAN;
        assert_int_equal(lab_sgd_step("p", &p[0], &sgd), LAB_ERR_RANGE);
        sgd = (lab_sgd){.rate = 1, .reserved = {1}};
        assert_int_equal(lab_sgd_step("p", &p[0], &sgd), LAB_ERR_ARGUMENT);
        assert_int_equal(lab_sgd_step("p", &p[0], NULL), LAB_ERR_ARGUMENT);
        lab_tensor_destroy(&p[0]);
        lab_tensor_destroy(&p[1]);
        lab_tensor_destroy(&before);
    }
}

/* A block, its loss and a step: the loss goes down. */
static void a_block_learns(void **state)
{
    (void)state;
    uint64_t draws = draw_start("learns");
    lab_block layer;
    lab_block_config config = block_config(0, &(lab_rope_opts){0});
    assert_int_equal(lab_block_init(&layer, &config, LAB_F32, 3), LAB_OK);
    lab_tensor *x = leaf_drawn(&draws, LAB_F32, 3, (int64_t[]){2, 6, 4}, 1);
    lab_tensor *targets = leaf_of_integers(2, (int64_t[]){2, 6}, (int64_t[]){0, 1, 2, 3, 0, 1, 3, 2, 1, 0, 3, 2});
    lab_graph *g = lab_graph_create(NULL);
    double first = 0, last = 0;
    for (int step = 0; step < 200; step++) {
        lab_graph_reset(g);
        lab_tensor *y = lab_block_apply(g, &layer, x, NULL, &(lab_attention_opts){.causal = LAB_CAUSAL_TOP_LEFT});
        lab_tensor *loss = lab_cross_entropy(g, y, targets, NULL);
        lab_backward(g, loss);
        expect_healthy(g);
        last = element_of(loss, 0);
        first = step ? first : last;
        assert_int_equal(lab_block_visit(&layer, "", lab_sgd_step, &(lab_sgd){.rate = 0.3}), LAB_OK);
        assert_int_equal(lab_block_visit(&layer, "", lab_clear_grads, NULL), LAB_OK);
    }
    assert_true(last < 0.8 * first);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&targets);
    lab_block_free(&layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_is_x_times_weight_transposed),
        cmocka_unit_test(mlp_has_three_activations),
        cmocka_unit_test(mha_equals_a_loop_over_heads),
        cmocka_unit_test(mha_takes_no_batch_and_refuses_what_is_wrong),
        cmocka_unit_test(block_equals_its_formula_and_has_right_gradients),
        cmocka_unit_test(later_tokens_leave_no_trace_in_a_block),
        cmocka_unit_test(parameters_are_drawn_by_their_number),
        cmocka_unit_test(residual_branches_start_smaller),
        cmocka_unit_test(a_visit_ends_at_the_first_failure),
        cmocka_unit_test(wrong_configs_leave_nothing_behind),
        cmocka_unit_test(sgd_steps_against_the_gradient),
        cmocka_unit_test(a_block_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
