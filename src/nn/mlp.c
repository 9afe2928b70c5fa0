/* mlp.c - y = down(activation(up(x))), or down(silu(gate(x)) * up(x)) (Shazeer 2020). */
#include "layers_impl.h"

lab_status lab__mlp_make(lab_mlp *x, const lab_mlp_config *config, source *from)
{
    lab_status status = lab__check_positive("mlp", "width", config->width);
    if (status != LAB_OK)
        return status;
    if (config->hidden < 0 || (config->hidden == 0 && config->width > INT64_MAX / 4))
        return lab__fail(LAB_ERR_RANGE, "mlp: hidden is %lld, must be at least 1, or 0 for 4 width",
                         (long long)config->hidden);
    if ((unsigned)config->activation > LAB_ACTIVATION_SILU_GATED)
        return lab__fail(LAB_ERR_ARGUMENT, "mlp: activation is %d, must be a lab_activation", (int)config->activation);
    x->activation = config->activation;
    lab_linear_config up = {.in = config->width,
                            .out = config->hidden ? config->hidden : 4 * config->width,
                            .bias = config->bias,
                            .init = config->init,
                            .init_std = config->init_std};
    lab_linear_config down = up;
    down.in = up.out;
    down.out = up.in;
    down.init_scale = lab_residual_scale(config->layers);
    status = lab__linear_make(&x->up, &up, from);
    if (status == LAB_OK && config->activation == LAB_ACTIVATION_SILU_GATED)
        status = lab__linear_make(&x->gate, &up, from);
    return status == LAB_OK ? lab__linear_make(&x->down, &down, from) : status;
}

lab_status lab_mlp_init(lab_mlp *x, const lab_mlp_config *config, lab_dtype dtype, uint64_t seed)
{
    lab_status status = lab__check_init("mlp", x, config, config ? config->reserved : NULL, dtype);
    if (x)
        *x = (lab_mlp){0};
    if (status == LAB_OK)
        status = lab__mlp_make(x, config, &(source){.dtype = dtype, .seed = seed});
    if (status != LAB_OK)
        lab_mlp_free(x);
    return status;
}

lab_tensor *lab_mlp_apply(lab_graph *g, const lab_mlp *x, lab_tensor *input)
{
    if (lab__healthy(g) && !x)
        return lab__refuse(g, "mlp", LAB_ERR_ARGUMENT, "the layer is NULL");
    if (!x)
        return NULL;
    lab_tensor *inner;
    if (x->activation == LAB_ACTIVATION_SILU_GATED) {
        inner = lab_linear_apply(g, &x->up, input);
        inner = lab_mul(g, lab_silu(g, lab_linear_apply(g, &x->gate, input)), inner);
    } else {
        lab_gelu_kind kind = x->activation == LAB_ACTIVATION_GELU_TANH ? LAB_GELU_TANH : LAB_GELU_ERF;
        inner = lab_linear_apply(g, &(lab_linear){.weight = x->up.weight}, input);
        inner = x->up.bias ? lab_bias_gelu(g, inner, x->up.bias, kind) : lab_gelu(g, inner, kind);
    }
    return inner ? lab_linear_apply(g, &x->down, inner) : NULL;
}

lab_status lab_mlp_visit(lab_mlp *x, const char *prefix, lab_visit_fn fn, void *ctx)
{
    if (!x)
        return lab__fail(LAB_ERR_ARGUMENT, "mlp: the layer is NULL");
    lab_linear *maps[] = {&x->up, &x->gate, &x->down};
    const char *parts[] = {"up", "gate", "down"};
    lab_status status = LAB_OK;
    for (int i = 0; i < 3 && status == LAB_OK; i++) {
        char name[LAB_NAME_LENGTH];
        status = lab__join_name(name, prefix, parts[i]);
        if (status == LAB_OK)
            status = lab_linear_visit(maps[i], name, fn, ctx);
    }
    return status;
}

void lab_mlp_free(lab_mlp *x)
{
    if (!x)
        return;
    lab_linear_free(&x->up);
    lab_linear_free(&x->gate);
    lab_linear_free(&x->down);
    *x = (lab_mlp){0};
}
