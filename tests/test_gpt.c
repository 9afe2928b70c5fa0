/* test_gpt.c - the GPT: what its formula says, in both settings; a cache, recomputation, statistics, and refusals. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn_check.h"

enum { BATCH = 2, LENGTH = 11 };

static const lab_gpt_config gpt2 = {.vocabulary = 13,
                                    .context = 16,
                                    .layers = 3,
                                    .width = 12,
                                    .heads = 3,
                                    .bias = true,
                                    .activation = LAB_ACTIVATION_GELU_TANH,
                                    .init_std = 0.3};
static const lab_gpt_config llama = {.vocabulary = 13,
                                     .context = 16,
                                     .layers = 3,
                                     .width = 16,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .hidden = 20,
                                     .positions = LAB_POSITIONS_ROPE,
                                     .rope_layout = LAB_ROPE_HALVES,
                                     .rope_base = 500,
                                     .norm = LAB_NORM_RMS,
                                     .activation = LAB_ACTIVATION_SILU_GATED,
                                     .untied = true,
                                     .init_std = 0.3};

static lab_gpt model_of(const lab_gpt_config *config, lab_dtype dtype)
{
    lab_gpt m;
    assert_int_equal(lab_gpt_init(&m, config, dtype, check_seed()), LAB_OK);
    return m;
}

static lab_tensor *draw_tokens(const char *name, const lab_gpt_config *config)
{
    uint64_t draws = draw_start(name);
    int64_t ids[BATCH * LENGTH];
    for (int i = 0; i < BATCH * LENGTH; i++)
        ids[i] = draw_size(&draws, 0, config->vocabulary - 1);
    return leaf_of_integers(2, (int64_t[]){BATCH, LENGTH}, ids);
}

static void expect_bits(const char *what, const lab_tensor *got, const lab_tensor *want)
{
    const size_t bytes = (size_t)lab_tensor_numel(want) * lab_dtype_size(lab_tensor_dtype(want));
    char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    assert_true(a && b && got && lab_tensor_numel(got) == lab_tensor_numel(want));
    assert_int_equal(lab_tensor_read(got, a, bytes), LAB_OK);
    assert_int_equal(lab_tensor_read(want, b, bytes), LAB_OK);
    if (memcmp(a, b, bytes) != 0)
        fail_msg("seed %llu: %s: the bits differ", (unsigned long long)check_seed(), what);
    free(a);
    free(b);
}

/* ---- The formula ----------------------------------------------------------------------------------------------------- */

static void the_logits_are_those_of_the_layers_one_after_the_other(void **state)
{
    (void)state;
    const lab_gpt_config *configs[] = {&gpt2, &llama};
    for (int i = 0; i < 2; i++) {
        lab_gpt m = model_of(configs[i], LAB_F64);
        lab_tensor *tokens = draw_tokens("tokens", configs[i]);
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *h = lab_gather_rows(g, m.token, tokens);
        if (i == 0)
            h = lab_add(g, h, lab_slice(g, m.position, 0, 0, LENGTH, 1));
        for (int l = 0; l < 3; l++)
            h = lab_block_apply(g, &m.block[l], h, NULL, &(lab_attention_opts){.causal = LAB_CAUSAL_TOP_LEFT});
        h = i == 0 ? lab_layer_norm(g, h, m.norm_gain, m.norm_shift, 1e-5) : lab_rms_norm(g, h, m.norm_gain, 1e-5);
        expect_bits("hidden", lab_gpt_hidden(g, &m, tokens, NULL, NULL), h);
        h = lab_matmul(g, h, lab_transpose(g, i == 0 ? m.token : m.head, 0, 1));
        expect_bits("logits", lab_gpt_apply(g, &m, tokens, NULL, NULL), h);
        lab_tensor *targets = draw_tokens("targets", configs[i]);
        expect_bits("loss", lab_gpt_loss(g, &m, tokens, targets, NULL, NULL), lab_cross_entropy(g, h, targets, NULL));
        expect_healthy(g);
        lab_graph_destroy(&g);
        lab_tensor_destroy(&tokens);
        lab_tensor_destroy(&targets);
        lab_gpt_free(&m);
    }
}

typedef struct listing {
    char names[2048];
    int64_t elements;
} listing;

static lab_status list(const char *name, lab_tensor **parameter, void *ctx)
{
    listing *l = ctx;
    size_t length = strlen(l->names);
    snprintf(l->names + length, sizeof l->names - length, "%s ", name);
    l->elements += lab_tensor_numel(*parameter);
    return LAB_OK;
}

static void parameters_are_named_and_counted(void **state)
{
    (void)state;
    lab_gpt m = model_of(&gpt2, LAB_F32);
    listing l = {.elements = 0};
    assert_int_equal(lab_gpt_visit(&m, "gpt", list, &l), LAB_OK);
    assert_string_equal(strtok(l.names, " "), "gpt.token.weight");
    assert_string_equal(strtok(NULL, " "), "gpt.position.weight");
    assert_string_equal(strtok(NULL, " "), "gpt.block.0.norm1.gain");
    /* per block 12 width^2 + 13 width with biases; the tables; the last norm */
    assert_int_equal(l.elements, 3 * (12 * 144 + 13 * 12) + (13 + 16) * 12 + 2 * 12);
    lab_gpt_free(&m);
    assert_null(m.block);
    lab_gpt_config bare = gpt2;
    bare.bias = false; /* neither biases nor shifts */
    m = model_of(&bare, LAB_F32);
    int64_t count = 0;
    assert_int_equal(lab_gpt_visit(&m, NULL, lab_count_parameters, &count), LAB_OK);
    assert_int_equal(count, 3 * (12 * 144 + 2 * 12) + (13 + 16) * 12 + 12);
    lab_gpt_free(&m);
    m = model_of(&llama, LAB_F32);
    l = (listing){.elements = 0};
    assert_int_equal(lab_gpt_visit(&m, NULL, list, &l), LAB_OK);
    assert_null(strstr(l.names, "position"));
    assert_non_null(strstr(l.names, "block.2.mlp.gate.weight"));
    assert_non_null(strstr(l.names, "norm.gain head.weight "));
    assert_int_equal(m.config.kv_heads * 100 + m.config.head_dim, 204);
    lab_gpt_free(&m);
}

/* ---- Derivatives ----------------------------------------------------------------------------------------------------- */

typedef struct gradients {
    lab_graph *g;
    const lab_gpt *other;
    int64_t at;
    bool bits;
    lab_tensor *found[128];
} gradients;

static lab_status keep(const char *name, lab_tensor **parameter, void *ctx)
{
    (void)name;
    gradients *all = ctx;
    assert_non_null(lab_tensor_grad(*parameter));
    assert_int_equal(lab_tensor_clone(&all->found[all->at++], lab_tensor_grad(*parameter)), LAB_OK);
    return LAB_OK;
}

static lab_status compare(const char *name, lab_tensor **parameter, void *ctx)
{
    gradients *all = ctx;
    const lab_tensor *want = all->found[all->at++];
    if (all->bits)
        expect_bits(name, lab_tensor_grad(*parameter), want);
    else
        expect_close(name, lab_tensor_grad(*parameter), lab_tensor_data((lab_tensor *)want), lab_tensor_numel(want),
                     1e-12);
    return LAB_OK;
}

static void backward(lab_graph *g, lab_gpt *m, lab_tensor *tokens, lab_tensor *targets, const lab_gpt_opts *opts)
{
    lab_graph_reset(g);
    assert_int_equal(lab_gpt_visit(m, NULL, lab_clear_grads, NULL), LAB_OK);
    assert_int_equal(lab_backward(g, lab_gpt_loss(g, m, tokens, targets, NULL, opts)), LAB_OK);
}

/* The same gradients with recomputation, and the same bits with any number of threads. */
static void gradients_do_not_depend_on_recomputation_or_threads(void **state)
{
    (void)state;
    const lab_gpt_config *configs[] = {&gpt2, &llama};
    for (int i = 0; i < 2; i++) {
        lab_gpt m = model_of(configs[i], LAB_F64);
        lab_tensor *tokens = draw_tokens("tokens", configs[i]), *targets = draw_tokens("targets", configs[i]);
        lab_graph *g = lab_graph_create(NULL);
        gradients all = {.at = 0};
        assert_int_equal(lab_set_threads(1), LAB_OK);
        backward(g, &m, tokens, targets, NULL);
        assert_int_equal(lab_gpt_visit(&m, NULL, keep, &all), LAB_OK);
        const int64_t n = all.at;
        for (int way = 0; way < 3; way++) {
            assert_int_equal(lab_set_threads(way > 0 ? 4 : 1), LAB_OK);
            backward(g, &m, tokens, targets, way == 1 ? NULL : &(lab_gpt_opts){.recompute = true});
            all.at = 0;
            all.bits = way == 1;
            assert_int_equal(lab_gpt_visit(&m, NULL, compare, &all), LAB_OK);
        }
        assert_int_equal(lab_set_threads(0), LAB_OK);
        for (int64_t k = 0; k < n; k++)
            lab_tensor_destroy(&all.found[k]);
        lab_graph_destroy(&g);
        lab_tensor_destroy(&tokens);
        lab_tensor_destroy(&targets);
        lab_gpt_free(&m);
    }
}

typedef struct checked {
    lab_gpt *model;
    lab_tensor *tokens, *targets;
} checked;

static lab_tensor *loss_of(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)xs; /* leaves of the model */
    checked *c = ctx;
    return lab_gpt_loss(g, c->model, c->tokens, c->targets, NULL, NULL);
}

static void the_loss_passes_the_gradient_check(void **state)
{
    (void)state;
    const lab_gpt_config *configs[] = {&gpt2, &llama};
    for (int i = 0; i < 2; i++) {
        lab_gpt m = model_of(configs[i], LAB_F64);
        checked c = {&m, draw_tokens("tokens", configs[i]), draw_tokens("targets", configs[i])};
        lab_tensor *xs[] = {i == 0 ? m.token : m.head, m.norm_gain, m.block[1].norm2_gain};
        expect_gradients(i == 0 ? "gpt2" : "llama", loss_of, &c, 3, xs, NULL);
        lab_tensor_destroy(&c.tokens);
        lab_tensor_destroy(&c.targets);
        lab_gpt_free(&m);
    }
}

/* ---- The cache ------------------------------------------------------------------------------------------------------- */

static lab_tensor *columns(lab_graph *g, lab_tensor *tokens, int64_t first, int64_t stop)
{
    return lab_slice(g, tokens, 1, first, stop, 1);
}

/* On a batch-invariant graph: a prompt, then token by token, has the bits of one pass; after a cut, of each batch at
 * another place, as well. */
static void logits_with_a_cache_have_the_bits_of_one_pass(void **state)
{
    (void)state;
    const lab_gpt_config *configs[] = {&gpt2, &llama};
    for (int i = 0; i < 2; i++) {
        lab_gpt m = model_of(configs[i], LAB_F32);
        lab_tensor *tokens = draw_tokens("tokens", configs[i]);
        lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true, .batch_invariant = true});
        lab_tensor *whole = lab_gpt_apply(g, &m, tokens, NULL, NULL);
        lab_gpt_cache *cache;
        assert_int_equal(lab_gpt_cache_create(&cache, &m, BATCH, 0), LAB_OK);
        assert_int_equal(lab_gpt_cache_capacity(cache), 16);
        for (int64_t first = 0, stop = 4; first < LENGTH; first = stop, stop++) {
            lab_tensor *y = lab_gpt_apply(g, &m, columns(g, tokens, first, stop), cache, NULL);
            expect_healthy(g);
            expect_bits("step", y, lab_slice(g, whole, 1, first, stop, 1));
            assert_int_equal(lab_gpt_cache_length(cache, 1), stop);
        }
        assert_int_equal(lab_gpt_cache_truncate(cache, 1, 5), LAB_OK);
        lab_tensor *next = lab_concat(g, 2,
                                      (lab_tensor *[]){lab_slice(g, columns(g, tokens, 0, 1), 0, 0, 1, 1),
                                                       lab_slice(g, columns(g, tokens, 5, 6), 0, 1, 2, 1)},
                                      0);
        lab_tensor *y = lab_gpt_apply(g, &m, next, cache, NULL);
        expect_bits("batch 1", lab_slice(g, y, 0, 1, 2, 1), lab_slice(g, lab_slice(g, whole, 1, 5, 6, 1), 0, 1, 2, 1));
        assert_int_equal(lab_gpt_cache_length(cache, 0), LENGTH + 1);
        assert_int_equal(lab_gpt_cache_length(cache, 1), 6);
        expect_healthy(g);
        lab_gpt_cache_reset(cache);
        assert_int_equal(lab_gpt_cache_length(cache, 0), 0);
        lab_gpt_cache_destroy(&cache);
        assert_null(cache);
        lab_graph_destroy(&g);
        lab_tensor_destroy(&tokens);
        lab_gpt_free(&m);
    }
}

static struct {
    int64_t calls, fail_at; /* 0: none fails */
} memory;

static void *allocate(size_t bytes, size_t alignment, void *ctx)
{
    (void)ctx;
    void *got = NULL;
    if (++memory.calls == memory.fail_at)
        return NULL;
    return posix_memalign(&got, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes ? bytes : 1) ? NULL
                                                                                                            : got;
}

static void release(void *data, size_t bytes, void *ctx)
{
    (void)bytes;
    (void)ctx;
    free(data);
}

static const lab_allocator failing = {allocate, release, NULL};

/* Wherever memory runs out, in whatever layer, the cache is as it was, and the step can be made again. */
static void a_step_that_fails_leaves_the_cache_as_it_was(void **state)
{
    (void)state;
    assert_int_equal(lab_set_threads(1), LAB_OK);
    assert_int_equal(lab_set_allocator(&failing), LAB_OK);
    lab_gpt m = model_of(&gpt2, LAB_F32);
    lab_tensor *tokens = draw_tokens("tokens", &gpt2);
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true});
    lab_gpt_cache *cache;
    assert_int_equal(lab_gpt_cache_create(&cache, &m, BATCH, 0), LAB_OK);
    assert_non_null(lab_gpt_apply(g, &m, columns(g, tokens, 0, 4), cache, NULL));
    lab_tensor *want;
    assert_int_equal(lab_tensor_clone(&want, lab_gpt_apply(g, &m, columns(g, tokens, 4, 6), cache, NULL)), LAB_OK);
    int failures = 0;
    for (bool done = false; !done; failures += !done) {
        for (int b = 0; b < BATCH; b++)
            assert_int_equal(lab_gpt_cache_truncate(cache, b, 4), LAB_OK);
        lab_graph_destroy(&g); /* which has the memory already */
        g = lab_graph_create(&(lab_graph_opts){.inference = true});
        memory.fail_at = memory.calls + failures + 1;
        lab_tensor *y = lab_gpt_apply(g, &m, columns(g, tokens, 4, 6), cache, NULL);
        done = memory.calls < memory.fail_at;
        memory.fail_at = 0;
        assert_true(done == (y != NULL));
        for (int b = 0; b < BATCH; b++)
            assert_int_equal(lab_gpt_cache_length(cache, b), done ? 6 : 4);
        if (done)
            expect_bits("logits", y, want);
    }
    assert_true(failures > 0);
    /* A token that there is not. */
    lab_tensor *bad = leaf_of_integers(2, (int64_t[]){BATCH, 1}, (int64_t[]){1, 13});
    assert_null(lab_gpt_apply(g, &m, bad, cache, NULL));
    expect_refusal(g, LAB_ERR_RANGE, "13");
    assert_int_equal(lab_gpt_cache_length(cache, 0), 6);
    lab_graph_destroy(&g);
    lab_gpt_cache_destroy(&cache);
    lab_tensor_destroy(&bad);
    lab_tensor_destroy(&want);
    lab_tensor_destroy(&tokens);
    lab_gpt_free(&m);
    assert_int_equal(lab_set_allocator(NULL), LAB_OK);
    assert_int_equal(lab_set_threads(0), LAB_OK);
}

/* ---- Memory ---------------------------------------------------------------------------------------------------------- */

static void from_the_second_step_on_there_is_no_allocation(void **state)
{
    (void)state;
    assert_int_equal(lab_set_allocator(&failing), LAB_OK);
    for (int recompute = 0; recompute < 2; recompute++) {
        lab_gpt m = model_of(&gpt2, LAB_F32);
        lab_tensor *tokens = draw_tokens("tokens", &gpt2), *targets = draw_tokens("targets", &gpt2);
        lab_graph *g = lab_graph_create(NULL);
        const lab_gpt_opts opts = {.recompute = recompute};
        backward(g, &m, tokens, targets, &opts);
        const int64_t before = memory.calls;
        for (int step = 0; step < 3; step++)
            backward(g, &m, tokens, targets, &opts);
        assert_int_equal(memory.calls, before);
        lab_graph_destroy(&g);
        lab_tensor_destroy(&tokens);
        lab_tensor_destroy(&targets);
        lab_gpt_free(&m);
    }
    assert_int_equal(lab_set_allocator(NULL), LAB_OK);
}

/* The loss of 17 million logits is that of lab_cross_entropy, and they are never there. */
static void many_logits_are_not_kept(void **state)
{
    (void)state;
    enum { ROWS = 1040, VOCABULARY = 1 << 14 };
    const lab_gpt_config config = {.vocabulary = VOCABULARY, .context = ROWS, .layers = 1, .width = 4, .heads = 1};
    lab_gpt m = model_of(&config, LAB_F32);
    int64_t ids[ROWS];
    for (int i = 0; i < ROWS; i++)
        ids[i] = (int64_t)i * 15;
    lab_tensor *tokens = leaf_of_integers(1, (int64_t[]){ROWS}, ids);
    lab_graph *g = lab_graph_create(NULL);
    const double loss = element_of(lab_gpt_loss(g, &m, tokens, tokens, NULL, NULL), 0);
    expect_healthy(g);
    assert_true(lab_graph_bytes(g) < (size_t)ROWS * VOCABULARY * sizeof(float) / 2);
    const double want = element_of(lab_cross_entropy(g, lab_gpt_apply(g, &m, tokens, NULL, NULL), tokens, NULL), 0);
    if (!(loss - want <= 1e-5 && want - loss <= 1e-5))
        fail_msg("the loss is %.9g, not %.9g", loss, want);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&tokens);
    lab_gpt_free(&m);
}

/* ---- Options --------------------------------------------------------------------------------------------------------- */

/* Large scale makes attention choose one key: what is given for a layer is that layer's, and the config's scale holds.
 */
static void statistics_come_layer_by_layer(void **state)
{
    (void)state;
    lab_gpt_config sharp = gpt2;
    sharp.attention_scale = 1e4;
    const lab_gpt_config *configs[] = {&gpt2, &sharp};
    for (int i = 0; i < 2; i++) {
        lab_gpt m = model_of(configs[i], LAB_F32);
        lab_tensor *tokens = draw_tokens("tokens", configs[i]);
        lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true});
        lab_attention_stats stats[9];
        memset(stats, 0xFF, sizeof stats);
        assert_non_null(lab_gpt_apply(g, &m, tokens, NULL, &(lab_gpt_opts){.stats = stats}));
        for (int s = 0; s < 9; s++) {
            assert_int_equal(stats[s].rows, BATCH * LENGTH);
            assert_int_equal(stats[s].empty_rows, 0);
            assert_true(stats[s].p_max.mean > 1.0 / LENGTH && stats[s].p_max.max <= 1.0001);
            assert_true(i == 0 ? stats[s].saturated_share < 0.5 : stats[s].saturated_share > 0.9);
        }
        assert_true(i == 1 || stats[0].entropy.mean != stats[3].entropy.mean);
        lab_graph_destroy(&g);
        g = lab_graph_create(NULL);
        assert_null(lab_gpt_apply(g, &m, tokens, NULL, &(lab_gpt_opts){.stats = stats, .recompute = true}));
        expect_refusal(g, LAB_ERR_UNSUPPORTED, "stats");
        lab_graph_destroy(&g);
        lab_tensor_destroy(&tokens);
        lab_gpt_free(&m);
    }
}

/* Each layer draws its own. */
static void dropout_of_a_layer_is_not_the_next_ones(void **state)
{
    (void)state;
    lab_gpt m = model_of(&gpt2, LAB_F64);
    lab_tensor *tokens = draw_tokens("tokens", &gpt2);
    lab_graph *g = lab_graph_create(NULL);
    lab_attention_opts dropped = {.dropout = 0.5, .seed = 3, .stream = 10};
    lab_tensor *h = lab_add(g, lab_gather_rows(g, m.token, tokens), lab_slice(g, m.position, 0, 0, LENGTH, 1));
    for (uint64_t l = 0; l < 3; l++) {
        lab_attention_opts own = {.causal = LAB_CAUSAL_TOP_LEFT, .dropout = 0.5, .seed = 3, .stream = 10 + l};
        h = lab_block_apply(g, &m.block[l], h, NULL, &own);
    }
    h = lab_layer_norm(g, h, m.norm_gain, m.norm_shift, 1e-5);
    expect_bits("dropout", lab_gpt_hidden(g, &m, tokens, NULL, &(lab_gpt_opts){.attention = &dropped}), h);
    expect_healthy(g);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&tokens);
    lab_gpt_free(&m);
}

static void expect_no_model(const lab_gpt_config *config, lab_dtype dtype, lab_status status, const char *word)
{
    lab_gpt m;
    memset(&m, 0xAA, sizeof m);
    assert_int_equal(lab_gpt_init(&m, config, dtype, 1), status);
    if (!strstr(lab_last_message(), word))
        fail_msg("\"%s\" does not say \"%s\"", lab_last_message(), word);
    assert_null(m.token);
    assert_null(m.block);
}

static void what_makes_no_sense_is_refused_by_name(void **state)
{
    (void)state;
    lab_gpt_config c = gpt2;
    assert_int_equal(lab_gpt_init(NULL, &c, LAB_F32, 1), LAB_ERR_ARGUMENT);
    expect_no_model(NULL, LAB_F32, LAB_ERR_ARGUMENT, "config");
    expect_no_model(&c, LAB_I64, LAB_ERR_DTYPE, "i64");
#define REFUSED(field, value, status, word)                                                                            \
    c = gpt2;                                                                                                          \
    c.field = (value);                                                                                                 \
    expect_no_model(&c, LAB_F32, status, word);
    REFUSED(vocabulary, 0, LAB_ERR_RANGE, "vocabulary")
    REFUSED(context, -1, LAB_ERR_RANGE, "context")
    REFUSED(layers, 0, LAB_ERR_RANGE, "layers")
    REFUSED(layers, INT64_MAX, LAB_ERR_MEMORY, "blocks")
    REFUSED(width, 13, LAB_ERR_RANGE, "heads")
    REFUSED(kv_heads, 2, LAB_ERR_RANGE, "kv_heads")
    REFUSED(hidden, -1, LAB_ERR_RANGE, "hidden")
    REFUSED(positions, 7, LAB_ERR_ARGUMENT, "positions")
    REFUSED(rope_layout, 2, LAB_ERR_ARGUMENT, "rope_layout")
    REFUSED(norm, 2, LAB_ERR_ARGUMENT, "norm")
    REFUSED(activation, 3, LAB_ERR_ARGUMENT, "activation")
    REFUSED(norm_eps, -1, LAB_ERR_RANGE, "norm_eps")
    REFUSED(init_std, -1, LAB_ERR_RANGE, "init_std")
    REFUSED(rope_base, -1, LAB_ERR_RANGE, "rope_base")
    REFUSED(attention_scale, 1.0 / 0.0, LAB_ERR_RANGE, "attention_scale")
    REFUSED(reserved[3], 1, LAB_ERR_ARGUMENT, "reserved")
#undef REFUSED
    lab_gpt empty = {0};
    lab_gpt_free(&empty);
    lab_gpt_free(NULL);
    assert_int_equal(lab_gpt_visit(&empty, NULL, list, NULL), LAB_ERR_ARGUMENT);
}

static void calls_that_make_no_sense_are_refused_by_name(void **state)
{
    (void)state;
    lab_gpt m = model_of(&gpt2, LAB_F32), empty = {0};
    lab_tensor *tokens = draw_tokens("tokens", &gpt2);
    lab_tensor *many = leaf_of_integers(1, (int64_t[]){17}, (int64_t[17]){0});
    lab_tensor *floats = leaf_of_doubles(LAB_F32, 1, (int64_t[]){1}, (double[]){0});
    lab_tensor *one = leaf_of_integers(0, NULL, (int64_t[]){0});
    lab_gpt_cache *cache, *none = NULL;
    lab_tensor *lse;
    const lab_gpt_opts with_lse = {.attention = &(lab_attention_opts){.lse = &lse}}, reserved = {.reserved = {1}};
    assert_int_equal(lab_gpt_cache_create(&cache, &m, BATCH, 0), LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
#define REFUSED(call, status, word)                                                                                    \
    assert_null(call);                                                                                                 \
    expect_refusal(g, status, word);                                                                                   \
    lab_graph_reset(g);
    REFUSED(lab_gpt_apply(g, &empty, tokens, NULL, NULL), LAB_ERR_ARGUMENT, "model")
    REFUSED(lab_gpt_apply(g, &m, NULL, NULL, NULL), LAB_ERR_ARGUMENT, "tokens")
    REFUSED(lab_gpt_apply(g, &m, one, NULL, NULL), LAB_ERR_SHAPE, "tokens")
    REFUSED(lab_gpt_apply(g, &m, floats, NULL, NULL), LAB_ERR_DTYPE, "gather_rows")
    REFUSED(lab_gpt_apply(g, &m, many, NULL, NULL), LAB_ERR_RANGE, "16 positions")
    REFUSED(lab_gpt_apply(g, &m, tokens, cache, NULL), LAB_ERR_STATE, "inference")
    REFUSED(lab_gpt_apply(g, &m, tokens, NULL, &with_lse), LAB_ERR_ARGUMENT, "lse")
    REFUSED(lab_gpt_apply(g, &m, tokens, NULL, &reserved), LAB_ERR_ARGUMENT, "reserved")
    REFUSED(lab_gpt_loss(g, &m, tokens, many, NULL, NULL), LAB_ERR_SHAPE, "cross_entropy")
#undef REFUSED
    assert_null(lab_gpt_apply(NULL, &m, tokens, NULL, NULL));
    assert_int_equal(lab_gpt_cache_create(&none, &empty, 1, 0), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_gpt_cache_create(&none, &m, -1, 0), LAB_ERR_RANGE);
    assert_int_equal(lab_gpt_cache_create(&none, &m, 1, -1), LAB_ERR_RANGE);
    assert_int_equal(lab_gpt_cache_create(NULL, &m, 1, 0), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_gpt_cache_truncate(cache, 2, 0), LAB_ERR_RANGE);
    assert_int_equal(lab_gpt_cache_truncate(NULL, 0, 0), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_gpt_cache_length(NULL, 0) + lab_gpt_cache_length(cache, 9) + lab_gpt_cache_capacity(NULL), 0);
    lab_gpt_cache_reset(NULL);
    lab_gpt_cache_destroy(&none);
    lab_gpt_cache_destroy(NULL);
    lab_gpt_cache_destroy(&cache);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&one);
    lab_tensor_destroy(&floats);
    lab_tensor_destroy(&many);
    lab_tensor_destroy(&tokens);
    lab_gpt_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_logits_are_those_of_the_layers_one_after_the_other),
        cmocka_unit_test(parameters_are_named_and_counted),
        cmocka_unit_test(gradients_do_not_depend_on_recomputation_or_threads),
        cmocka_unit_test(the_loss_passes_the_gradient_check),
        cmocka_unit_test(logits_with_a_cache_have_the_bits_of_one_pass),
        cmocka_unit_test(a_step_that_fails_leaves_the_cache_as_it_was),
        cmocka_unit_test(from_the_second_step_on_there_is_no_allocation),
        cmocka_unit_test(many_logits_are_not_kept),
        cmocka_unit_test(statistics_come_layer_by_layer),
        cmocka_unit_test(dropout_of_a_layer_is_not_the_next_ones),
        cmocka_unit_test(what_makes_no_sense_is_refused_by_name),
        cmocka_unit_test(calls_that_make_no_sense_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
