/* cases_ops.c - the parts on single ops, and the table from an op's name to the function that calls it. */
#include "cases.h"

#include <string.h>

/* ---- Elementwise ------------------------------------------------------------------------------------------------- */

void call_unary(run *r)
{
    static const struct {
        const char *op;
        lab_tensor *(*call)(lab_graph *g, lab_tensor *x);
    } known[] = {{"silu", lab_silu}, {"sigmoid", lab_sigmoid}, {"exp", lab_exp},   {"log", lab_log},
                 {"sqrt", lab_sqrt}, {"rsqrt", lab_rsqrt},     {"tanh", lab_tanh}, {"erf", lab_erf},
                 {"relu", lab_relu}, {"neg", lab_neg},         {"abs", lab_abs},   {"sin", lab_sin},
                 {"cos", lab_cos}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(r->part->op, known[i].op) == 0)
            give(r, "y", known[i].call(r->g, input(r, "x")));
}

void call_binary(run *r)
{
    static const struct {
        const char *op;
        lab_tensor *(*call)(lab_graph *g, lab_tensor *a, lab_tensor *b);
    } known[] = {{"add", lab_add},       {"sub", lab_sub},         {"mul", lab_mul},        {"div", lab_div},
                 {"matmul", lab_matmul}, {"maximum", lab_maximum}, {"minimum", lab_minimum}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(r->part->op, known[i].op) == 0)
            give(r, "out", known[i].call(r->g, input(r, "a"), input(r, "b")));
}

void call_gelu(run *r)
{
    const char *kind = parameter_text(r, "kind", "erf");
    bool tanh_form = strcmp(kind, "tanh") == 0;
    if (!tanh_form && strcmp(kind, "erf") != 0)
        cannot(r, "gelu %s is not known", kind);
    else
        give(r, "y", lab_gelu(r->g, input(r, "x"), tanh_form ? LAB_GELU_TANH : LAB_GELU_ERF));
}

/* ---- Along an axis ----------------------------------------------------------------------------------------------- */

static lab_tensor *operand(run *r)
{
    return input_array(r, "x") ? input(r, "x") : input(r, "a");
}

void call_along_axis(run *r)
{
    int axis = (int)parameter(r, "axis", -1);
    bool keep = parameter(r, "keepdims", 0) != 0;
    lab_tensor *x = operand(r);
    const char *op = r->part->op;
    if (strcmp(op, "softmax") == 0)
        give(r, "out", lab_softmax(r->g, x, axis));
    else if (strcmp(op, "log_softmax") == 0)
        give(r, "out", lab_log_softmax(r->g, x, axis));
    else if (strcmp(op, "logsumexp") == 0)
        give(r, "out", lab_logsumexp(r->g, x, axis, keep));
    else if (strcmp(op, "max") == 0)
        give(r, "out", lab_max(r->g, x, axis, keep));
}

/* sum and mean: `axis` is a number, a list, or missing for all of them. */
void call_reduction(run *r)
{
    const json_t *given = json_object_get(json_object_get(r->part->json, "params"), "axis");
    int axes[LAB_MAX_RANK], n = 0;
    lab_tensor *x = operand(r);
    int most = json_is_integer(given) ? 1 : given ? (int)json_array_size(given) : lab_tensor_rank(x);
    for (; n < most && n < LAB_MAX_RANK; n++)
        axes[n] = json_is_integer(given) ? (int)json_integer_value(given)
                  : given                ? (int)json_integer_value(json_array_get(given, (size_t)n))
                                         : n;
    bool keep = parameter(r, "keepdims", 0) != 0, mean = strcmp(r->part->op, "mean") == 0;
    give(r, "out", mean ? lab_mean(r->g, x, n, axes, keep) : lab_sum(r->g, x, n, axes, keep));
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

#define ATTENTION_PARAMETERS "scale causal softcap window offset"
#define ATTENTION_INPUTS     "keep key_keep bias key_lengths alibi_slopes sink"

static const op_entry table[] = {
    {"sdpa", call_sdpa, ATTENTION_PARAMETERS " alias", "q k v x " ATTENTION_INPUTS, .check = check_sdpa, .paths = true},
    {"mha", call_mha, ATTENTION_PARAMETERS " n_heads bias",
     "x w_qkv w_out key_mask_additive key_is_padding " ATTENTION_INPUTS, .paths = true},
    {"layernorm", call_layer_norm, "eps", "x weight bias", .paths = true},
    {"rmsnorm", call_rms_norm, "eps", "x weight", .paths = true},
    {"cross_entropy", call_cross_entropy, "ignore_index reduction label_smoothing", "logits target", .paths = true,
     .indices = true},
    {"rope", call_rope, "base layout n_rot", "x pos"},
    {"adamw", call_adamw, "lr beta1 beta2 eps weight_decay", "p0 grads"},
    {"clip_grad_norm", call_clip_grad_norm, "max_norm", "g1 g2", .check = check_clip_grad_norm},
    {"embedding", call_embedding, "", "table ids", .indices = true},
    {"linear", call_linear, "", "x w b"},
    {"load_safetensors", call_load_safetensors, "", "file"},
    {"swiglu", call_swiglu, "formula", "gate up", .elementwise = true},
    {"gelu", call_gelu, "kind", "x", .elementwise = true},
    {"softmax", call_along_axis, "axis", "x a"},
    {"log_softmax", call_along_axis, "axis", "x a"},
    {"logsumexp", call_along_axis, "axis keepdims", "x a"},
    {"max", call_along_axis, "axis keepdims", "x a"},
    {"mean", call_reduction, "axis keepdims", "x a"},
    {"sum", call_reduction, "axis keepdims", "x a"},
    {"matmul", call_binary, "", "a b"},
    {"add", call_binary, "", "a b"},
    {"sub", call_binary, "", "a b"},
    {"mul", call_binary, "", "a b"},
    {"div", call_binary, "", "a b"},
    {"maximum", call_binary, "", "a b"},
    {"minimum", call_binary, "", "a b"},
    {"silu", call_unary, "", "x", .elementwise = true},
    {"sigmoid", call_unary, "", "x", .elementwise = true},
    {"exp", call_unary, "", "x", .elementwise = true},
    {"log", call_unary, "", "x", .elementwise = true},
    {"sqrt", call_unary, "", "x", .elementwise = true},
    {"rsqrt", call_unary, "", "x", .elementwise = true},
    {"tanh", call_unary, "", "x", .elementwise = true},
    {"erf", call_unary, "", "x", .elementwise = true},
    {"relu", call_unary, "", "x", .elementwise = true},
    {"neg", call_unary, "", "x", .elementwise = true},
    {"abs", call_unary, "", "x", .elementwise = true},
    {"sin", call_unary, "", "x", .elementwise = true},
    {"cos", call_unary, "", "x", .elementwise = true},
};

const op_entry *op_named(const char *op)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].op, op) == 0)
            return &table[i];
    return NULL;
}
