/* checkpoint_file.c - a model, its optimiser and where they stand, in one safetensors file.
 *
 * Whatever has a visit function is tensors; numbers and settings are JSON texts in the metadata.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "layers_impl.h"
#include "llmlab/checkpoint_file.h"

/* ---- The config, by the names of its fields -------------------------------------------------------------------------- */

typedef enum field_kind { WHOLE, REAL, YES, CHOICE } field_kind;

static const struct {
    const char *name;
    field_kind kind;
    size_t offset;
} fields[] = {
#define FIELD(name, kind)                                                                                              \
    {                                                                                                                  \
#name, kind, offsetof(lab_gpt_config, name)                                                                    \
    }
    FIELD(vocabulary, WHOLE),     FIELD(context, WHOLE),      FIELD(layers, WHOLE),   FIELD(width, WHOLE),
    FIELD(heads, WHOLE),          FIELD(kv_heads, WHOLE),     FIELD(head_dim, WHOLE), FIELD(hidden, WHOLE),
    FIELD(positions, CHOICE),     FIELD(rope_layout, CHOICE), FIELD(rope_base, REAL), FIELD(activation, CHOICE),
    FIELD(norm, CHOICE),          FIELD(norm_eps, REAL),      FIELD(bias, YES),       FIELD(untied, YES),
    FIELD(attention_scale, REAL), FIELD(init_std, REAL),
#undef FIELD
};

enum { FIELDS = sizeof fields / sizeof *fields };

_Static_assert(sizeof(lab_positions) == sizeof(int) && sizeof(lab_norm_kind) == sizeof(int), "a CHOICE is an int");

static json_t *field_to_json(const lab_gpt_config *config, int i)
{
    const char *at = (const char *)config + fields[i].offset;
    int choice;
    switch (fields[i].kind) {
    case WHOLE:
        return json_integer(*(const int64_t *)(const void *)at);
    case REAL:
        return json_real(*(const double *)(const void *)at);
    case YES:
        return json_boolean(*(const bool *)at);
    case CHOICE:
        memcpy(&choice, at, sizeof choice);
        return json_integer(choice);
    }
    return NULL;
}

static lab_status field_of_json(lab_gpt_config *config, int i, const json_t *json)
{
    char *at = (char *)config + fields[i].offset;
    const field_kind kind = fields[i].kind;
    const int64_t whole = json_integer_value(json);
    const int choice = (int)whole;
    if (kind == REAL  ? !json_is_number(json)
        : kind == YES ? !json_is_boolean(json)
                      : !json_is_integer(json) || (kind == CHOICE && (whole < 0 || whole > 99)))
        return lab__fail(LAB_ERR_FORMAT, "checkpoint: %s of the config is missing or makes no sense", fields[i].name);
    if (kind == WHOLE)
        memcpy(at, &whole, sizeof whole);
    else if (kind == REAL)
        *(double *)(void *)at = json_number_value(json);
    else if (kind == YES)
        *(bool *)at = json_is_true(json);
    else
        memcpy(at, &choice, sizeof choice);
    return LAB_OK;
}

/* ---- Saving ---------------------------------------------------------------------------------------------------------- */

/* Takes the object. */
static lab_status add_json(lab_safetensors_writer *w, const char *key, json_t *json)
{
    char text[1024];
    const size_t length = json ? json_dumpb(json, text, sizeof text - 1, JSON_COMPACT) : 0;
    json_decref(json);
    if (length == 0 || length >= sizeof text)
        return lab__fail(LAB_ERR_MEMORY, "checkpoint: no memory for its %s", key);
    text[length] = 0;
    return lab_safetensors_set_metadata(w, key, text);
}

static lab_status add_config(lab_safetensors_writer *w, const lab_gpt_config *config)
{
    json_t *json = json_object();
    for (int i = 0; i < FIELDS && json; i++)
        if (json_object_set_new(json, fields[i].name, field_to_json(config, i)) != 0) {
            json_decref(json);
            json = NULL;
        }
    return add_json(w, "config", json);
}

static lab_status add_parts(lab_safetensors_writer *w, const lab_checkpoint_parts *parts)
{
    lab_status status = LAB_OK;
    lab_tensor *characters = lab_vocabulary_characters(parts->vocabulary);
    const lab_progress *p = &parts->progress;
    char seed[32];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)p->seed); /* JSON's integers are signed here */
    if (parts->optimizer)
        status = lab_optimizer_visit(parts->optimizer, "optimizer", lab_safetensors_add, w);
    if (status == LAB_OK && characters)
        status = lab_safetensors_add("vocabulary", &characters, w);
    if (status == LAB_OK)
        status = add_json(
            w, "progress",
            json_pack("{s:I, s:I, s:s}", "step", (json_int_t)p->step, "windows", (json_int_t)p->windows, "seed", seed));
    if (status == LAB_OK && parts->note)
        status = lab_safetensors_set_metadata(w, "note", parts->note);
    return status;
}

lab_status lab_checkpoint_save(const char *path, lab_gpt *x, const lab_checkpoint_parts *parts)
{
    if (!path || !x || !x->block)
        return lab__fail(LAB_ERR_ARGUMENT, "checkpoint: %s", path ? "the model is NULL or empty" : "path is NULL");
    if (parts && !lab__all_zero(parts->reserved))
        return lab__fail(LAB_ERR_ARGUMENT, "checkpoint: reserved words are not zero");
    lab_safetensors_writer *w;
    lab_status status = lab_safetensors_writer_create(&w);
    if (status == LAB_OK)
        status = lab_safetensors_set_metadata(w, "format", "llm-lab checkpoint 1");
    if (status == LAB_OK)
        status = add_config(w, &x->config);
    if (status == LAB_OK)
        status = lab_gpt_visit(x, "model", lab_safetensors_add, w);
    if (status == LAB_OK && parts)
        status = add_parts(w, parts);
    if (status == LAB_OK)
        status = lab_safetensors_save(w, path);
    lab_safetensors_writer_destroy(&w);
    return status;
}

/* ---- Loading --------------------------------------------------------------------------------------------------------- */

/* The object under a key of the metadata; NULL with the failure told. */
static json_t *read_json(const lab_safetensors *file, const char *key)
{
    json_error_t error;
    const char *text = lab_safetensors_metadata(file, key);
    json_t *json = text ? json_loads(text, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (!json)
        (void)lab__fail(LAB_ERR_FORMAT, "checkpoint: its %s is %s", key, text ? error.text : "missing");
    return json;
}

static lab_status read_config(const lab_safetensors *file, lab_gpt_config *config)
{
    json_t *json = read_json(file, "config");
    lab_status status = json ? LAB_OK : LAB_ERR_FORMAT;
    for (int i = 0; i < FIELDS && status == LAB_OK; i++)
        status = field_of_json(config, i, json_object_get(json, fields[i].name));
    json_decref(json);
    return status;
}

static lab_status read_progress(const lab_safetensors *file, lab_progress *p)
{
    json_t *json = read_json(file, "progress");
    const json_t *step = json_object_get(json, "step"), *windows = json_object_get(json, "windows");
    const char *seed = json_string_value(json_object_get(json, "seed"));
    unsigned long long number = 0;
    lab_status status = json ? LAB_OK : LAB_ERR_FORMAT;
    if (json && (json_integer_value(step) < 0 || !json_is_integer(step) || json_integer_value(windows) < 0 ||
                 !json_is_integer(windows) || !seed || sscanf(seed, "%llu", &number) != 1))
        status = lab__fail(LAB_ERR_FORMAT, "checkpoint: its progress makes no sense");
    *p = (lab_progress){
        .step = json_integer_value(step), .windows = json_integer_value(windows), .seed = (uint64_t)number};
    json_decref(json);
    return status;
}

static lab_status read_vocabulary(const lab_safetensors *file, lab_vocabulary **out)
{
    lab_tensor *characters = NULL;
    lab_status status = LAB_OK;
    if (lab_safetensors_find(file, "vocabulary"))
        status = lab_safetensors_tensor(&characters, file, "vocabulary");
    if (status == LAB_OK)
        status = lab_vocabulary_restore(out, characters);
    lab_tensor_destroy(&characters);
    return status;
}

/* All of it is looked at before any of it is read. */
static lab_status read_optimizer(lab_safetensors *file, lab_gpt *x, lab_optimizer *optimizer)
{
    lab_status status = lab_gpt_visit(x, NULL, lab_optimizer_prepare, optimizer);
    if (status == LAB_OK)
        status = lab_optimizer_visit(optimizer, "optimizer", lab_safetensors_check, file);
    return status == LAB_OK ? lab_optimizer_visit(optimizer, "optimizer", lab_safetensors_load, file) : status;
}

static lab_status read_parts(lab_safetensors *file, lab_gpt *x, lab_checkpoint_parts *parts)
{
    lab_vocabulary *vocabulary = NULL;
    lab_progress progress;
    lab_status status = read_progress(file, &progress);
    if (status == LAB_OK)
        status = read_vocabulary(file, &vocabulary);
    if (status == LAB_OK && parts->optimizer)
        status = read_optimizer(file, x, parts->optimizer);
    if (status != LAB_OK) {
        lab_vocabulary_destroy(&vocabulary);
        return status;
    }
    parts->progress = progress;
    parts->vocabulary = vocabulary;
    parts->note = lab_safetensors_metadata(file, "note");
    return LAB_OK;
}

lab_status lab_checkpoint_load(const lab_safetensors *file, lab_gpt *x, lab_checkpoint_parts *parts)
{
    lab_gpt_config config = {0};
    if (x)
        *x = (lab_gpt){0};
    if (!file || !x || (parts && !lab__all_zero(parts->reserved)))
        return lab__fail(LAB_ERR_ARGUMENT, "checkpoint: %s",
                         !file ? "the file is NULL"
                         : x   ? "reserved words are not zero"
                               : "the model is NULL");
    const lab_safetensors_entry *token = lab_safetensors_find(file, "model.token.weight");
    if (!token)
        return lab__fail(LAB_ERR_FORMAT, "checkpoint: the file has no model.token.weight");
    lab_safetensors *of = (lab_safetensors *)(uintptr_t)file; /* as a visitor's ctx, which reads it */
    lab_status status = read_config(file, &config);
    if (status == LAB_OK)
        status = lab_gpt_init(x, &config, token->stored == LAB_STORED_F64 ? LAB_F64 : LAB_F32, 0);
    if (status == LAB_OK)
        status = lab_gpt_visit(x, "model", lab_safetensors_load, of);
    if (status == LAB_OK && parts)
        status = read_parts(of, x, parts);
    if (status != LAB_OK)
        lab_gpt_free(x);
    return status;
}
