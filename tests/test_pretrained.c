/* test_pretrained.c - models of transformers: the same logits, there and back, and what does not fit is named. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn_check.h"

#ifndef REFERENCES
#define REFERENCES "tests/gpt2"
#endif

enum { BATCH = 2, LENGTH = 17, VOCABULARY = 61 };

static char folder[] = "/tmp/llmlab-pretrained-XXXXXX";

static const char *path_of(const char *in, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", in, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path_of(folder, "config.json"));
    unlink(path_of(folder, "model.safetensors"));
    return rmdir(folder);
}

/* ---- References ------------------------------------------------------------------------------------------------------ */

typedef struct reference {
    lab_tensor *tokens;
    double logits[BATCH * LENGTH * VOCABULARY];
} reference;

static const char *folder_of(int which)
{
    return which == 0 ? REFERENCES "/gpt2" : REFERENCES "/llama";
}

static void read_reference(reference *r, int which)
{
    json_error_t error;
    json_t *json = json_load_file(path_of(folder_of(which), "reference.json"), 0, &error);
    json_t *tokens = json_object_get(json, "tokens"), *logits = json_object_get(json, "logits");
    int64_t ids[BATCH * LENGTH];
    assert_true(json_array_size(tokens) == BATCH && json_array_size(logits) == BATCH);
    for (size_t i = 0; i < BATCH * LENGTH; i++) {
        ids[i] = json_integer_value(json_array_get(json_array_get(tokens, i / LENGTH), i % LENGTH));
        for (size_t v = 0; v < VOCABULARY; v++)
            r->logits[i * VOCABULARY + v] =
                json_number_value(json_array_get(json_array_get(json_array_get(logits, i / LENGTH), i % LENGTH), v));
    }
    r->tokens = leaf_of_integers(2, (int64_t[]){BATCH, LENGTH}, ids);
    json_decref(json);
}

static lab_gpt import(const char *from, lab_dtype dtype)
{
    lab_gpt m;
    if (lab_gpt_import(&m, from, dtype) != LAB_OK)
        fail_msg("%s: %s", from, lab_last_message());
    return m;
}

/* |got - want| <= 1e-4, as the contract has it: absolute, of logits of which the largest is a few units. */
static void expect_logits(lab_gpt *m, const reference *r)
{
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true});
    lab_tensor *y = lab_gpt_apply(g, m, r->tokens, NULL, NULL);
    expect_healthy(g);
    assert_int_equal(lab_tensor_numel(y), BATCH * LENGTH * VOCABULARY);
    double worst = 0;
    for (int64_t i = 0; i < BATCH * LENGTH * VOCABULARY; i++) {
        const double off = element_of(y, i) - r->logits[i];
        worst = off > worst ? off : -off > worst ? -off : worst;
    }
    if (!(worst <= 1e-4))
        fail_msg("the logits are off by %g", worst);
    lab_graph_destroy(&g);
}

static lab_tensor *logits_of(const lab_gpt *m, const reference *r)
{
    lab_tensor *kept;
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true});
    assert_int_equal(lab_tensor_clone(&kept, lab_gpt_apply(g, m, r->tokens, NULL, NULL)), LAB_OK);
    lab_graph_destroy(&g);
    return kept;
}

/* ---- Tests ----------------------------------------------------------------------------------------------------------- */

static void logits_are_those_of_transformers(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++)
        for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
            reference r;
            read_reference(&r, which);
            lab_gpt m = import(folder_of(which), (lab_dtype)dtype);
            assert_int_equal(m.config.context, 24);
            assert_int_equal(m.config.kv_heads, which == 0 ? 4 : 2);
            expect_logits(&m, &r);
            lab_gpt_free(&m);
            lab_tensor_destroy(&r.tokens);
        }
}

static void what_is_exported_comes_back_with_the_same_bits(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        reference r;
        read_reference(&r, which);
        lab_gpt m = import(folder_of(which), LAB_F32);
        assert_int_equal(lab_gpt_export(&m, folder), LAB_OK);
        lab_gpt back = import(folder, LAB_F32);
        lab_tensor *want = logits_of(&m, &r), *got = logits_of(&back, &r);
        expect_same("logits", got, want);
        lab_tensor_destroy(&want);
        lab_tensor_destroy(&got);
        lab_gpt_free(&m);
        lab_gpt_free(&back);
        lab_tensor_destroy(&r.tokens);
    }
}

/* A model without biases becomes one whose biases are zeros. */
static void biases_that_there_are_not_are_written_as_zeros(void **state)
{
    (void)state;
    const lab_gpt_config config = {
        .vocabulary = VOCABULARY, .context = 20, .layers = 3, .width = 12, .heads = 3, .init_std = 0.3};
    reference r;
    read_reference(&r, 0);
    lab_gpt m, back;
    assert_int_equal(lab_gpt_init(&m, &config, LAB_F32, check_seed()), LAB_OK);
    assert_int_equal(lab_gpt_export(&m, folder), LAB_OK);
    back = import(folder, LAB_F32);
    assert_true(back.config.bias && back.norm_shift && back.config.activation == LAB_ACTIVATION_GELU_ERF);
    expect_all("bias", back.block[2].attn.k.bias, 0);
    expect_all("shift", back.norm_shift, 0);
    lab_tensor *want = logits_of(&m, &r), *got = logits_of(&back, &r);
    double wanted[BATCH * LENGTH * VOCABULARY];
    for (int64_t i = 0; i < BATCH * LENGTH * VOCABULARY; i++)
        wanted[i] = element_of(want, i);
    expect_close("logits", got, wanted, BATCH * LENGTH * VOCABULARY, 1e-5);
    lab_tensor_destroy(&want);
    lab_tensor_destroy(&got);
    lab_gpt_free(&m);
    lab_gpt_free(&back);
    lab_tensor_destroy(&r.tokens);
}

/* ---- What does not fit ----------------------------------------------------------------------------------------------- */

/* Copies a reference's two files; in config.json `from` becomes `to`. */
static void write_config(int which, const char *from, const char *to)
{
    char text[4096], *at;
    FILE *f = fopen(path_of(folder_of(which), "config.json"), "rb");
    assert_non_null(f);
    const size_t length = fread(text, 1, sizeof text - 1, f);
    text[length] = 0;
    fclose(f);
    at = strstr(text, from);
    if (!at)
        fail_msg("config.json has no %s", from);
    f = fopen(path_of(folder, "config.json"), "wb");
    assert_true(f && fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
    fclose(f);
}

static void refuse(int which, const char *from, const char *to, lab_status status, const char *word)
{
    lab_gpt m;
    write_config(which, from, to);
    memset(&m, 0xAA, sizeof m);
    const lab_status got = lab_gpt_import(&m, folder, LAB_F32);
    if (got != status || !strstr(lab_last_message(), word))
        fail_msg("%s: %s \"%s\", wanted %s and \"%s\"", to, lab_status_name(got), lab_last_message(),
                 lab_status_name(status), word);
    assert_null(m.block);
    assert_null(m.token);
}

/* The reference's weights, those of one name left out or all renamed. */
static void write_weights(int which, const char *left_out, size_t cut)
{
    lab_safetensors *file;
    lab_safetensors_writer *w;
    lab_tensor *all[64];
    assert_int_equal(lab_safetensors_open(&file, path_of(folder_of(which), "model.safetensors")), LAB_OK);
    assert_int_equal(lab_safetensors_writer_create(&w), LAB_OK);
    const int64_t n = lab_safetensors_count(file);
    assert_true(n <= 64);
    for (int64_t i = 0; i < n; i++) {
        const char *name = lab_safetensors_at(file, i)->name;
        assert_int_equal(lab_safetensors_tensor(&all[i], file, name), LAB_OK);
        if (strcmp(name, left_out) != 0)
            assert_int_equal(lab_safetensors_add(name + cut, &all[i], w), LAB_OK);
    }
    assert_int_equal(lab_safetensors_save(w, path_of(folder, "model.safetensors")), LAB_OK);
    for (int64_t i = 0; i < n; i++)
        lab_tensor_destroy(&all[i]);
    lab_safetensors_writer_destroy(&w);
    lab_safetensors_close(&file);
}

static void settings_that_the_model_does_not_have_are_named(void **state)
{
    (void)state;
    write_weights(0, "", 0);
    refuse(0, "\"model_type\": \"gpt2\"", "\"model_type\": \"bert\"", LAB_ERR_UNSUPPORTED, "\"bert\"");
    refuse(0, "\"n_layer\": 2", "\"n_layer\": \"2\"", LAB_ERR_FORMAT, "n_layer is no integer");
    refuse(0, "\"n_layer\": 2,", "", LAB_ERR_FORMAT, "n_layer is missing");
    refuse(0, "\"n_layer\": 2", "\"n_layer\": 0", LAB_ERR_RANGE, "layers is 0");
    refuse(0, "\"n_layer\": 2", "\"n_layer\": 3", LAB_ERR_FORMAT, "no tensor transformer.h.2.ln_1.weight");
    refuse(0, "\"n_head\": 4", "\"n_head\": 5", LAB_ERR_RANGE, "heads");
    refuse(0, "\"n_positions\": 24", "\"n_positions\": 25", LAB_ERR_FORMAT, "wpe.weight is [24, 32] in the file");
    refuse(0, "gelu_new", "relu", LAB_ERR_UNSUPPORTED, "relu");
    refuse(0, "\"scale_attn_by_inverse_layer_idx\": false", "\"scale_attn_by_inverse_layer_idx\": true",
           LAB_ERR_UNSUPPORTED, "scale_attn_by_inverse_layer_idx");
    refuse(0, "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": 1", LAB_ERR_FORMAT, "tie_word_embeddings");
    refuse(0, "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": \"\"", LAB_ERR_FORMAT, "layer_norm_epsilon");
    refuse(0, "{", "", LAB_ERR_FORMAT, "config.json");
    write_weights(1, "", 0);
    refuse(1, "\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"", LAB_ERR_UNSUPPORTED, "yarn");
    refuse(1, "\"attention_bias\": false", "\"attention_bias\": true", LAB_ERR_UNSUPPORTED, "attention_bias");
    refuse(1, "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", LAB_ERR_UNSUPPORTED, "hidden_act");
}

static void weights_without_a_prefix_load_and_missing_ones_are_named(void **state)
{
    (void)state;
    reference r;
    read_reference(&r, 0);
    write_config(0, "{", "{");
    write_weights(0, "", strlen("transformer.")); /* as GPT2Model, without its head, is saved */
    lab_gpt m = import(folder, LAB_F32);
    expect_logits(&m, &r);
    lab_gpt_free(&m);
    write_weights(0, "transformer.h.1.mlp.c_fc.bias", 0);
    refuse(0, "{", "{", LAB_ERR_FORMAT, "no tensor transformer.h.1.mlp.c_fc.bias");
    unlink(path_of(folder, "model.safetensors"));
    refuse(0, "{", "{", LAB_ERR_IO, "model.safetensors");
    assert_int_equal(lab_gpt_import(&m, "/tmp/no such folder", LAB_F32), LAB_ERR_IO);
    assert_int_equal(lab_gpt_import(&m, NULL, LAB_F32), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_gpt_import(NULL, folder, LAB_F32), LAB_ERR_ARGUMENT);
    lab_tensor_destroy(&r.tokens);
}

static void models_that_transformers_does_not_have_are_not_exported(void **state)
{
    (void)state;
    const lab_gpt_config base = {.vocabulary = 5, .context = 4, .layers = 1, .width = 8, .heads = 2};
    const struct {
        lab_gpt_config change;
        const char *word;
    } cases[] = {
        {{.positions = LAB_POSITIONS_NONE}, "learned positions"},
        {{.norm = LAB_NORM_RMS}, "LayerNorm"},
        {{.activation = LAB_ACTIVATION_SILU_GATED}, "not gated"},
        {{.kv_heads = 1}, "kv_heads"},
        {{.head_dim = 6}, "head_dim"},
        {{.attention_scale = 0.1}, "attention_scale"},
        {{.positions = LAB_POSITIONS_ROPE}, "LAB_ROPE_HALVES"},
        {{.positions = LAB_POSITIONS_ROPE, .rope_layout = LAB_ROPE_HALVES}, "RMSNorm"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_gpt_config c = cases[i].change;
        c.vocabulary = base.vocabulary;
        c.context = base.context;
        c.layers = base.layers;
        c.width = base.width;
        c.heads = base.heads;
        lab_gpt m;
        assert_int_equal(lab_gpt_init(&m, &c, LAB_F32, 1), LAB_OK);
        assert_int_equal(lab_gpt_export(&m, folder), LAB_ERR_UNSUPPORTED);
        if (!strstr(lab_last_message(), cases[i].word))
            fail_msg("\"%s\" does not say \"%s\"", lab_last_message(), cases[i].word);
        lab_gpt_free(&m);
    }
    lab_gpt m;
    assert_int_equal(lab_gpt_init(&m, &base, LAB_F32, 1), LAB_OK);
    assert_int_equal(lab_gpt_export(&m, "/tmp/no such folder"), LAB_ERR_IO);
    assert_int_equal(lab_gpt_export(&m, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_gpt_export(NULL, folder), LAB_ERR_ARGUMENT);
    lab_gpt_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_transformers),
        cmocka_unit_test(what_is_exported_comes_back_with_the_same_bits),
        cmocka_unit_test(biases_that_there_are_not_are_written_as_zeros),
        cmocka_unit_test(settings_that_the_model_does_not_have_are_named),
        cmocka_unit_test(weights_without_a_prefix_load_and_missing_ones_are_named),
        cmocka_unit_test(models_that_transformers_does_not_have_are_not_exported),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder) != 0;
}
