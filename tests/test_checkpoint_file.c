/* test_checkpoint_file.c - who goes on from a file has the bits of who never stopped; a broken file changes nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn_check.h"

enum { BATCH = 3, LENGTH = 8, STEPS = 6 };

static const char text[] = "the quick brown fox jumps over the lazy dog, and the lazy dog — ☃ — lets it.";
static const lab_gpt_config gpt2 = {.context = LENGTH, .layers = 2, .width = 12, .heads = 3, .bias = true};
static const lab_gpt_config llama = {.context = LENGTH,
                                     .layers = 2,
                                     .width = 12,
                                     .heads = 3,
                                     .kv_heads = 1,
                                     .positions = LAB_POSITIONS_ROPE,
                                     .rope_layout = LAB_ROPE_HALVES,
                                     .rope_base = 321.5,
                                     .norm = LAB_NORM_RMS,
                                     .norm_eps = 1.0 / 3e5,
                                     .activation = LAB_ACTIVATION_SILU_GATED,
                                     .attention_scale = 0.1,
                                     .untied = true};

static char path[] = "/tmp/llmlab-checkpoint-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    const int descriptor = mkstemp(path);
    return descriptor < 0 || close(descriptor) != 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

/* ---- Training -------------------------------------------------------------------------------------------------------- */

typedef struct training {
    lab_gpt model;
    lab_checkpoint_parts parts;
    lab_tokens *tokens;
    lab_graph *g;
} training;

static lab_optimizer *optimizer_of(lab_rule rule)
{
    lab_optimizer *optimizer;
    lab_optimizer_config config = {.rule = rule, .rate = 0.01, .decay = 0.1, .group = lab_decay_matrices};
    config.momentum = rule == LAB_SGD ? 0.9 : 0;
    assert_int_equal(lab_optimizer_create(&optimizer, &config), LAB_OK);
    return optimizer;
}

static training start(const lab_gpt_config *config, lab_dtype dtype, lab_rule rule)
{
    training t = {.parts = {.progress = {.seed = UINT64_MAX - 5}, .note = "{\"a\": \"☃\"}"}};
    lab_gpt_config c = *config;
    assert_int_equal(lab_vocabulary_create(&t.parts.vocabulary, text, strlen(text)), LAB_OK);
    c.vocabulary = lab_vocabulary_size(t.parts.vocabulary);
    assert_int_equal(lab_gpt_init(&t.model, &c, dtype, 9), LAB_OK);
    t.parts.optimizer = optimizer_of(rule);
    assert_int_equal(lab_tokens_from_text(&t.tokens, t.parts.vocabulary, text, strlen(text)), LAB_OK);
    t.g = lab_graph_create(NULL);
    return t;
}

static void stop(training *t)
{
    lab_gpt_free(&t->model);
    lab_optimizer_destroy(&t->parts.optimizer);
    lab_vocabulary_destroy(&t->parts.vocabulary);
    lab_tokens_close(&t->tokens);
    lab_graph_destroy(&t->g);
}

static void train(training *t, int steps)
{
    lab_progress *p = &t->parts.progress;
    for (int i = 0; i < steps; i++) {
        int64_t inputs[BATCH * LENGTH], targets[BATCH * LENGTH], shape[] = {BATCH, LENGTH};
        const lab_window_opts windows = {.length = LENGTH, .seed = p->seed};
        assert_int_equal(lab_tokens_draw(t->tokens, &windows, p->windows, BATCH, inputs, targets), LAB_OK);
        lab_graph_reset(t->g);
        const lab_gpt_opts dropped = {
            .attention = &(lab_attention_opts){.dropout = 0.1, .seed = p->seed, .stream = 1000 * (uint64_t)p->step}};
        lab_tensor *loss = lab_gpt_loss(t->g, &t->model, lab_constant(t->g, LAB_I64, 2, shape, inputs),
                                        lab_constant(t->g, LAB_I64, 2, shape, targets), NULL, &dropped);
        assert_int_equal(lab_backward(t->g, loss), LAB_OK);
        assert_int_equal(lab_gpt_visit(&t->model, NULL, lab_optimizer_step, t->parts.optimizer), LAB_OK);
        assert_int_equal(lab_gpt_visit(&t->model, NULL, lab_clear_grads, NULL), LAB_OK);
        p->step++;
        p->windows += BATCH;
    }
}

/* ---- Bits ------------------------------------------------------------------------------------------------------------ */

typedef struct bits {
    unsigned char *data;
    size_t size, room;
} bits;

static lab_status append(const char *name, lab_tensor **parameter, void *ctx)
{
    bits *b = ctx;
    const size_t bytes = (size_t)lab_tensor_numel(*parameter) * lab_dtype_size(lab_tensor_dtype(*parameter));
    const size_t length = strlen(name);
    assert_true(b->size + length + bytes <= b->room);
    memcpy(b->data + b->size, name, length);
    assert_int_equal(lab_tensor_read(*parameter, b->data + b->size + length, bytes), LAB_OK);
    b->size += length + bytes;
    return LAB_OK;
}

/* Everything that a visit reaches, by name. */
static bits bits_of(training *t)
{
    bits b = {.room = 1 << 20};
    b.data = malloc(b.room);
    assert_non_null(b.data);
    assert_int_equal(lab_gpt_visit(&t->model, "model", append, &b), LAB_OK);
    assert_int_equal(lab_optimizer_visit(t->parts.optimizer, "optimizer", append, &b), LAB_OK);
    return b;
}

/* ---- Tests ----------------------------------------------------------------------------------------------------------- */

static void go_on_from_the_file(training *t, lab_rule rule)
{
    lab_safetensors *file;
    assert_int_equal(lab_safetensors_open(&file, path), LAB_OK);
    *t = (training){.g = lab_graph_create(NULL)};
    t->parts.optimizer = optimizer_of(rule);
    if (lab_checkpoint_load(file, &t->model, &t->parts) != LAB_OK)
        fail_msg("%s", lab_last_message());
    assert_string_equal(t->parts.note, "{\"a\": \"☃\"}");
    assert_true(t->parts.progress.seed == UINT64_MAX - 5);
    t->parts.note = NULL;
    lab_safetensors_close(&file);
    assert_int_equal(lab_tokens_from_text(&t->tokens, t->parts.vocabulary, text, strlen(text)), LAB_OK);
}

static void resuming_gives_the_bits_of_never_having_stopped(void **state)
{
    (void)state;
    const lab_gpt_config *configs[] = {&gpt2, &llama};
    const lab_rule rules[] = {LAB_ADAMW, LAB_SGD};
    for (int i = 0; i < 2; i++)
        for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
            training never = start(configs[i], (lab_dtype)dtype, rules[i]);
            train(&never, STEPS);
            bits want = bits_of(&never);
            for (int stopped = 0; stopped <= STEPS; stopped += 2) {
                training first = start(configs[i], (lab_dtype)dtype, rules[i]), second;
                train(&first, stopped);
                if (stopped == 0) /* no step, no state: it is made so that there is some to read */
                    assert_int_equal(lab_gpt_visit(&first.model, NULL, lab_optimizer_prepare, first.parts.optimizer),
                                     LAB_OK);
                assert_int_equal(lab_checkpoint_save(path, &first.model, &first.parts), LAB_OK);
                go_on_from_the_file(&second, rules[i]);
                assert_int_equal(second.parts.progress.step, stopped);
                assert_memory_equal(&second.model.config, &first.model.config, sizeof(lab_gpt_config));
                stop(&first);
                train(&second, STEPS - stopped);
                bits got = bits_of(&second);
                assert_int_equal(got.size, want.size);
                assert_memory_equal(got.data, want.data, want.size);
                free(got.data);
                stop(&second);
            }
            free(want.data);
            stop(&never);
        }
}

static unsigned char *bytes_of_file(size_t *size)
{
    FILE *f = fopen(path, "rb");
    unsigned char *data = malloc(1 << 20);
    assert_true(f && data);
    *size = fread(data, 1, 1 << 20, f);
    fclose(f);
    return data;
}

/* Loads from memory, which must fail; the optimiser that it is given stays without steps. */
static void refuse(const unsigned char *data, size_t size, lab_rule rule, const char *word)
{
    lab_safetensors *file;
    lab_gpt model = {0};
    lab_checkpoint_parts parts = {.optimizer = optimizer_of(rule)};
    lab_status status = lab_safetensors_from_memory(&file, data, size);
    if (status == LAB_OK)
        status = lab_checkpoint_load(file, &model, &parts);
    if (status != LAB_ERR_FORMAT || !strstr(lab_last_message(), word))
        fail_msg("%s \"%s\", wanted \"%s\"", lab_status_name(status), lab_last_message(), word);
    assert_null(model.block);
    assert_null(parts.vocabulary);
    bits state = {.data = malloc(1 << 20), .room = 1 << 20};
    assert_int_equal(lab_optimizer_visit(parts.optimizer, NULL, append, &state), LAB_OK);
    for (size_t i = 0; i + 8 < state.size; i++) /* the names' letters, and zeros */
        assert_true(state.data[i] < 0x7f);
    free(state.data);
    lab_optimizer_destroy(&parts.optimizer);
    lab_safetensors_close(&file);
}

/* The same file with one word for another, of the same length. */
static void refuse_with(unsigned char *data, size_t size, const char *from, const char *to, const char *word)
{
    unsigned char *at = memmem(data, size, from, strlen(from));
    if (!at || strlen(from) != strlen(to))
        fail_msg("the file has no %s", from);
    memcpy(at, to, strlen(to));
    refuse(data, size, LAB_ADAMW, word);
    memcpy(at, from, strlen(from));
}

static void what_is_missing_or_makes_no_sense_is_named(void **state)
{
    (void)state;
    size_t size;
    training t = start(&gpt2, LAB_F32, LAB_ADAMW);
    train(&t, 2);
    assert_int_equal(lab_checkpoint_save(path, &t.model, &t.parts), LAB_OK);
    unsigned char *data = bytes_of_file(&size);
    for (size_t length = 0; length < size; length += 1 + length / 64)
        refuse(data, length, LAB_ADAMW, "");
    refuse_with(data, size, "model.token.weight", "model.tokem.weight", "no model.token.weight");
    refuse_with(data, size, "model.norm.gain", "model.norm.gaim", "no tensor model.norm.gain");
    refuse_with(data, size, "optimizer.exp_avg.norm.gain", "optimizer.exp_avg.norm.gaim", "exp_avg.norm.gain");
    refuse_with(data, size, "\"config\":", "\"confit\":", "config is missing");
    refuse_with(data, size, "\\\"layers\\\":2", "\\\"layers\\\":3", "model.block.2");
    refuse_with(data, size, "\\\"layers\\\":2", "\\\"layerz\\\":2", "layers");
    refuse_with(data, size, "\\\"hidden\\\":48", "\\\"hidden\\\":47", "mlp.up.weight");
    refuse_with(data, size, "\\\"step\\\":2", "\\\"stop\\\":2", "progress");
    refuse_with(data, size, "\"progress\":", "\"egress\"  :", "progress is missing");
    refuse(data, size, LAB_RMSPROP, "square_avg"); /* another optimiser's state */
    lab_gpt model;
    lab_safetensors *file;
    assert_int_equal(lab_safetensors_from_memory(&file, data, size), LAB_OK);
    assert_int_equal(lab_checkpoint_load(file, &model, NULL), LAB_OK); /* the model alone */
    lab_gpt_free(&model);
    assert_int_equal(lab_checkpoint_load(NULL, &model, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_checkpoint_load(file, NULL, NULL), LAB_ERR_ARGUMENT);
    lab_safetensors_close(&file);
    lab_gpt none = {0};
    assert_int_equal(lab_checkpoint_save(path, &none, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_checkpoint_save(NULL, &t.model, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_checkpoint_save("/tmp/no such folder/x", &t.model, NULL), LAB_ERR_IO);
    assert_int_equal(lab_checkpoint_save(path, &t.model, &(lab_checkpoint_parts){.reserved = {1}}), LAB_ERR_ARGUMENT);
    free(data);
    stop(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resuming_gives_the_bits_of_never_having_stopped),
        cmocka_unit_test(what_is_missing_or_makes_no_sense_is_named),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file) != 0;
}
