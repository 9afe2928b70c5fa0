/* cases_layers.c - the parts on layers: norms, rotary positions, embedding, linear, the gated unit, cross-entropy. */
#include "cases.h"

#include <string.h>

void call_layer_norm(run *r)
{
    lab_tensor *x = input(r, "x"), *gain = input(r, "weight"), *shift = input(r, "bias");
    double eps = parameter(r, "eps", 0);
    give(r, "y",
         r->path == LAB_PATH_COMPOSED ? lab_layer_norm_composed(r->g, x, gain, shift, eps)
                                      : lab_layer_norm(r->g, x, gain, shift, eps));
}

void call_rms_norm(run *r)
{
    lab_tensor *x = input(r, "x"), *gain = input(r, "weight");
    double eps = parameter(r, "eps", 0);
    give(r, "y",
         r->path == LAB_PATH_COMPOSED ? lab_rms_norm_composed(r->g, x, gain, eps) : lab_rms_norm(r->g, x, gain, eps));
}

void call_rope(run *r)
{
    lab_rope_opts opts = {
        .base = parameter(r, "base", 0), .width = (int64_t)parameter(r, "n_rot", 0), .positions = input(r, "pos")};
    const char *layout = parameter_text(r, "layout", "interleaved");
    bool halves = strcmp(layout, "half") == 0;
    if (!halves && strcmp(layout, "interleaved") != 0) {
        cannot(r, "layout %s is not known", layout);
        return;
    }
    opts.layout = halves ? LAB_ROPE_HALVES : LAB_ROPE_INTERLEAVED;
    give(r, "out", lab_rope(r->g, input(r, "x"), &opts));
}

void call_embedding(run *r)
{
    give(r, "out", lab_gather_rows(r->g, input(r, "table"), input(r, "ids")));
}

void call_linear(run *r)
{
    lab_linear map = {.weight = input(r, "w"), .bias = input(r, "b")};
    give(r, "out", lab_linear_apply(r->g, &map, input(r, "x")));
}

/* The gated unit as lab_mlp has it between its maps: silu(gate) * up. */
void call_swiglu(run *r)
{
    const char *formula = parameter_text(r, "formula", "silu(gate)*up");
    if (strcmp(formula, "silu(gate)*up") != 0)
        cannot(r, "the formula %s", formula);
    else
        give(r, "y", lab_mul(r->g, lab_silu(r->g, input(r, "gate")), input(r, "up")));
}

void call_cross_entropy(run *r)
{
    const json_t *ignored = json_object_get(json_object_get(r->part->json, "params"), "ignore_index");
    const char *reduction = parameter_text(r, "reduction", "mean");
    lab_cross_entropy_opts opts = {.ignore = ignored && !json_is_null(ignored),
                                   .ignore_index = json_integer_value(ignored),
                                   .smoothing = parameter(r, "label_smoothing", 0),
                                   .path = r->path};
    static const char *const names[] = {"mean", "sum", "none"};
    static const lab_reduction meanings[] = {LAB_REDUCE_MEAN, LAB_REDUCE_SUM, LAB_REDUCE_NONE};
    for (int i = 0; i < 3; i++)
        if (strcmp(reduction, names[i]) == 0) {
            opts.reduction = meanings[i];
            give(r, "loss", lab_cross_entropy(r->g, input(r, "logits"), input(r, "target"), &opts));
            return;
        }
    cannot(r, "reduction %s is not known", reduction);
}
