/* pretrained_config.c - config.json: which of their settings are ours, and which ours has not. */
#include <string.h>

#include "file_impl.h"
#include "nn_impl.h"
#include "pretrained_impl.h"

/* ---- Reading --------------------------------------------------------------------------------------------------------- */

/* A file's object, and the first thing that was wrong. */
typedef struct reading {
    const char *path;
    const json_t *json;
    lab_status status;
} reading;

/* The number under the first of two keys that is there and not null. */
static int64_t whole(reading *r, const char *key, const char *or_key, int64_t otherwise)
{
    const json_t *json = json_object_get(r->json, key);
    if ((!json || json_is_null(json)) && or_key)
        json = json_object_get(r->json, or_key);
    if (json_is_integer(json))
        return json_integer_value(json);
    if (r->status == LAB_OK && (otherwise < 0 || (json && !json_is_null(json))))
        r->status = lab__fail(LAB_ERR_FORMAT, "%s: %s %s", r->path, key, json ? "is no integer" : "is missing");
    return otherwise;
}

static double number(reading *r, const char *key, double otherwise)
{
    const json_t *json = json_object_get(r->json, key);
    if (json_is_number(json))
        return json_number_value(json);
    if (r->status == LAB_OK && json && !json_is_null(json))
        r->status = lab__fail(LAB_ERR_FORMAT, "%s: %s is no number", r->path, key);
    return otherwise;
}

static bool yes(reading *r, const char *key, bool otherwise)
{
    const json_t *json = json_object_get(r->json, key);
    if (json_is_boolean(json))
        return json_is_true(json);
    if (r->status == LAB_OK && json && !json_is_null(json))
        r->status = lab__fail(LAB_ERR_FORMAT, "%s: %s is neither true nor false", r->path, key);
    return otherwise;
}

static void unsupported(reading *r, const char *key, const char *what)
{
    if (r->status == LAB_OK)
        r->status = lab__fail(LAB_ERR_UNSUPPORTED, "%s: %s is %s, which lab_gpt does not have", r->path, key, what);
}

static const char *text(reading *r, const char *key, const char *otherwise)
{
    const json_t *json = json_object_get(r->json, key);
    return json_is_string(json) ? json_string_value(json) : otherwise;
}

static void read_gpt2(reading *r, lab_gpt_config *c)
{
    const char *gelu = text(r, "activation_function", "gelu_new");
    c->vocabulary = whole(r, "vocab_size", NULL, -1);
    c->context = whole(r, "n_positions", "n_ctx", -1);
    c->layers = whole(r, "n_layer", NULL, -1);
    c->width = whole(r, "n_embd", NULL, -1);
    c->heads = whole(r, "n_head", NULL, -1);
    c->hidden = whole(r, "n_inner", NULL, 0);
    c->norm_eps = number(r, "layer_norm_epsilon", 1e-5);
    c->bias = true;
    c->untied = !yes(r, "tie_word_embeddings", true);
    c->attention_scale = yes(r, "scale_attn_weights", true) ? 0 : 1;
    c->activation = LAB_ACTIVATION_GELU_TANH;
    if (strcmp(gelu, "gelu") == 0)
        c->activation = LAB_ACTIVATION_GELU_ERF;
    else if (strcmp(gelu, "gelu_new") != 0 && strcmp(gelu, "gelu_pytorch_tanh") != 0)
        unsupported(r, "activation_function", gelu);
    if (yes(r, "scale_attn_by_inverse_layer_idx", false))
        unsupported(r, "scale_attn_by_inverse_layer_idx", "true");
    if (yes(r, "add_cross_attention", false))
        unsupported(r, "add_cross_attention", "true");
}

/* The base of RoPE, where older and newer versions have it. */
static double rope_base(reading *r)
{
    reading inner = *r;
    inner.json = json_object_get(r->json, "rope_parameters");
    const json_t *scaling = json_object_get(r->json, "rope_scaling");
    if (!json_is_object(inner.json) && json_is_object(scaling))
        inner.json = scaling;
    const char *type = text(&inner, "rope_type", text(&inner, "type", "default"));
    if (json_is_object(inner.json) && strcmp(type, "default") != 0)
        unsupported(r, "rope_type", type);
    return number(&inner, "rope_theta", number(r, "rope_theta", 10000));
}

static void read_llama(reading *r, lab_gpt_config *c)
{
    const char *silu = text(r, "hidden_act", "silu");
    c->vocabulary = whole(r, "vocab_size", NULL, -1);
    c->context = whole(r, "max_position_embeddings", NULL, -1);
    c->layers = whole(r, "num_hidden_layers", NULL, -1);
    c->width = whole(r, "hidden_size", NULL, -1);
    c->heads = whole(r, "num_attention_heads", NULL, -1);
    c->kv_heads = whole(r, "num_key_value_heads", NULL, 0);
    c->head_dim = whole(r, "head_dim", NULL, 0);
    c->hidden = whole(r, "intermediate_size", NULL, -1);
    c->norm = LAB_NORM_RMS;
    c->norm_eps = number(r, "rms_norm_eps", 1e-6);
    c->positions = LAB_POSITIONS_ROPE;
    c->rope_layout = LAB_ROPE_HALVES;
    c->rope_base = rope_base(r);
    c->activation = LAB_ACTIVATION_SILU_GATED;
    c->untied = !yes(r, "tie_word_embeddings", false);
    if (strcmp(silu, "silu") != 0 && strcmp(silu, "swish") != 0)
        unsupported(r, "hidden_act", silu);
    if (yes(r, "attention_bias", false) || yes(r, "mlp_bias", false))
        unsupported(r, "attention_bias or mlp_bias", "true");
}

lab_status lab__read_config(lab_gpt_config *out, layout *of, const char *path)
{
    void *data;
    size_t bytes;
    json_error_t error;
    lab_status status = lab__file_map(path, &data, &bytes);
    if (status != LAB_OK)
        return status;
    json_t *json = json_loadb(data ? data : "", bytes, JSON_REJECT_DUPLICATES, &error);
    lab__file_unmap(data, bytes);
    if (!json_is_object(json)) {
        json_decref(json);
        return lab__fail(LAB_ERR_FORMAT, "%s: %s", path, json ? "is no object" : error.text);
    }
    reading r = {.path = path, .json = json, .status = LAB_OK};
    const char *type = text(&r, "model_type", "");
    *out = (lab_gpt_config){0};
    *of = strcmp(type, "llama") == 0 ? LAYOUT_LLAMA : LAYOUT_GPT2;
    if (*of == LAYOUT_LLAMA)
        read_llama(&r, out);
    else if (strcmp(type, "gpt2") == 0)
        read_gpt2(&r, out);
    else
        r.status = lab__fail(LAB_ERR_UNSUPPORTED, "%s: model_type is \"%s\", must be gpt2 or llama", path, type);
    json_decref(json);
    return r.status;
}

/* ---- Writing --------------------------------------------------------------------------------------------------------- */

lab_status lab__layout_for(layout *out, const lab_gpt_config *c)
{
    const bool usual = c->attention_scale == 0, gated = c->activation == LAB_ACTIVATION_SILU_GATED;
    const char *why = NULL;
    *out = c->positions == LAB_POSITIONS_ROPE ? LAYOUT_LLAMA : LAYOUT_GPT2;
    if (*out == LAYOUT_LLAMA)
        why = c->rope_layout != LAB_ROPE_HALVES ? "a llama's rope_layout is LAB_ROPE_HALVES"
              : c->norm != LAB_NORM_RMS         ? "a llama has RMSNorm"
              : !gated                          ? "a llama's MLP is gated"
              : c->bias                         ? "a llama has no biases"
              : !usual                          ? "a llama's attention_scale is 1 / sqrt(head_dim)"
                                                : NULL;
    else
        why = c->positions != LAB_POSITIONS_LEARNED ? "a gpt2 has learned positions"
              : c->norm != LAB_NORM_LAYER           ? "a gpt2 has LayerNorm"
              : gated                               ? "a gpt2's MLP is not gated"
              : c->kv_heads != c->heads             ? "a gpt2 has as many kv_heads as heads"
              : c->head_dim * c->heads != c->width  ? "a gpt2's head_dim is width / heads"
              : !usual && c->attention_scale != 1   ? "a gpt2's attention_scale is 1 / sqrt(head_dim) or 1"
                                                    : NULL;
    return why ? lab__fail(LAB_ERR_UNSUPPORTED, "transformers has no such model: %s", why) : LAB_OK;
}

json_t *lab__config_json(const lab_gpt_config *c, layout of)
{
    if (of == LAYOUT_LLAMA)
        return json_pack(
            "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:b, s:b, s:b, s:s}", "architectures",
            "LlamaForCausalLM", "model_type", "llama", "vocab_size", (json_int_t)c->vocabulary,
            "max_position_embeddings", (json_int_t)c->context, "num_hidden_layers", (json_int_t)c->layers,
            "hidden_size", (json_int_t)c->width, "num_attention_heads", (json_int_t)c->heads, "num_key_value_heads",
            (json_int_t)c->kv_heads, "head_dim", (json_int_t)c->head_dim, "intermediate_size", (json_int_t)c->hidden,
            "hidden_act", "silu", "rms_norm_eps", c->norm_eps, "rope_theta", c->rope_base ? c->rope_base : 10000.0,
            "tie_word_embeddings", !c->untied, "attention_bias", 0, "mlp_bias", 0, "torch_dtype", "float32");
    return json_pack("{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:b, s:b, s:f, s:f, s:f, s:s}",
                     "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "vocab_size", (json_int_t)c->vocabulary,
                     "n_positions", (json_int_t)c->context, "n_layer", (json_int_t)c->layers, "n_embd",
                     (json_int_t)c->width, "n_head", (json_int_t)c->heads, "n_inner", (json_int_t)c->hidden,
                     "activation_function", c->activation == LAB_ACTIVATION_GELU_ERF ? "gelu" : "gelu_new",
                     "layer_norm_epsilon", c->norm_eps, "tie_word_embeddings", !c->untied, "scale_attn_weights",
                     c->attention_scale == 0, "attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop", 0.0, "torch_dtype",
                     "float32");
}
