/* block.c - a transformer block: attention and an MLP, each beside a way around it.
 *
 *     before:  x = x + attn(norm1(x));   x = x + mlp(norm2(x))       (Xiong et al. 2020)
 *     after:   x = norm1(x + attn(x));   x = norm2(x + mlp(x))       (Vaswani et al. 2017)
 */
#include "layers_impl.h"

/* ---- Parameters ------------------------------------------------------------------------------------------------------ */

static lab_status make_norm(lab_tensor **gain, lab_tensor **shift, const lab_block_config *config, source *from)
{
    lab_status status = lab__make_vector(gain, from, config->width, 1);
    if (status == LAB_OK && config->norm == LAB_NORM_LAYER && !config->no_shift)
        status = lab__make_vector(shift, from, config->width, 0);
    return status;
}

static lab_status check(const lab_block_config *c)
{
    if ((unsigned)c->norm > LAB_NORM_RMS || (unsigned)c->norm_place > LAB_NORM_AFTER)
        return lab__fail(LAB_ERR_ARGUMENT, "block: norm is %d, norm_place %d; there are no such", (int)c->norm,
                         (int)c->norm_place);
    if (!(c->norm_eps >= 0) || isinf(c->norm_eps))
        return lab__fail(LAB_ERR_RANGE, "block: norm_eps is %g, must be positive and finite, or 0 for 1e-5",
                         c->norm_eps);
    return lab__check_positive("block", "width", c->width);
}

lab_status lab__block_make(lab_block *x, const lab_block_config *c, source *from)
{
    lab_status status = check(c);
    lab_mha_config attn = {.width = c->width,
                           .heads = c->heads,
                           .kv_heads = c->kv_heads,
                           .head_dim = c->head_dim,
                           .bias = c->bias,
                           .rope = c->rope,
                           .init = c->init,
                           .init_std = c->init_std,
                           .layers = c->layers};
    lab_mlp_config mlp = {.width = c->width,
                          .hidden = c->hidden,
                          .activation = c->activation,
                          .bias = c->bias,
                          .init = c->init,
                          .init_std = c->init_std,
                          .layers = c->layers};
    x->norm = c->norm;
    x->norm_place = c->norm_place;
    x->norm_eps = c->norm_eps != 0 ? c->norm_eps : 1e-5;
    if (status == LAB_OK)
        status = make_norm(&x->norm1_gain, &x->norm1_shift, c, from);
    if (status == LAB_OK)
        status = lab__mha_make(&x->attn, &attn, from);
    if (status == LAB_OK)
        status = make_norm(&x->norm2_gain, &x->norm2_shift, c, from);
    return status == LAB_OK ? lab__mlp_make(&x->mlp, &mlp, from) : status;
}

lab_status lab_block_init(lab_block *x, const lab_block_config *config, lab_dtype dtype, uint64_t seed)
{
    lab_status status = lab__check_init("block", x, config, config ? config->reserved : NULL, dtype);
    if (x)
        *x = (lab_block){0};
    if (status == LAB_OK)
        status = lab__block_make(x, config, &(source){.dtype = dtype, .seed = seed});
    if (status != LAB_OK)
        lab_block_free(x);
    return status;
}

static lab_status visit_norm(lab_tensor **gain, lab_tensor **shift, const char *prefix, const char *part,
                             lab_visit_fn fn, void *ctx)
{
    char name[LAB_NAME_LENGTH];
    lab_status status = lab__join_name(name, prefix, part);
    if (status == LAB_OK)
        status = lab__visit_parameter(name, "gain", gain, fn, ctx);
    return status == LAB_OK ? lab__visit_parameter(name, "shift", shift, fn, ctx) : status;
}

lab_status lab_block_visit(lab_block *x, const char *prefix, lab_visit_fn fn, void *ctx)
{
    if (!x)
        return lab__fail(LAB_ERR_ARGUMENT, "block: the layer is NULL");
    char attn[LAB_NAME_LENGTH], mlp[LAB_NAME_LENGTH];
    lab_status status = lab__join_name(attn, prefix, "attn");
    if (status == LAB_OK)
        status = lab__join_name(mlp, prefix, "mlp");
    if (status == LAB_OK)
        status = visit_norm(&x->norm1_gain, &x->norm1_shift, prefix, "norm1", fn, ctx);
    if (status == LAB_OK)
        status = lab_mha_visit(&x->attn, attn, fn, ctx);
    if (status == LAB_OK)
        status = visit_norm(&x->norm2_gain, &x->norm2_shift, prefix, "norm2", fn, ctx);
    return status == LAB_OK ? lab_mlp_visit(&x->mlp, mlp, fn, ctx) : status;
}

void lab_block_free(lab_block *x)
{
    if (!x)
        return;
    lab_tensor_destroy(&x->norm1_gain);
    lab_tensor_destroy(&x->norm1_shift);
    lab_mha_free(&x->attn);
    lab_tensor_destroy(&x->norm2_gain);
    lab_tensor_destroy(&x->norm2_shift);
    lab_mlp_free(&x->mlp);
    *x = (lab_block){0};
}

/* ---- The function ---------------------------------------------------------------------------------------------------- */

static lab_tensor *norm1(lab_graph *g, const lab_block *b, lab_tensor *x)
{
    return b->norm == LAB_NORM_RMS ? lab_rms_norm(g, x, b->norm1_gain, b->norm_eps)
                                   : lab_layer_norm(g, x, b->norm1_gain, b->norm1_shift, b->norm_eps);
}

static lab_tensor *norm2(lab_graph *g, const lab_block *b, lab_tensor *x)
{
    return b->norm == LAB_NORM_RMS ? lab_rms_norm(g, x, b->norm2_gain, b->norm_eps)
                                   : lab_layer_norm(g, x, b->norm2_gain, b->norm2_shift, b->norm_eps);
}

lab_tensor *lab_block_apply(lab_graph *g, const lab_block *b, lab_tensor *x, lab_kv_cache *cache,
                            const lab_attention_opts *opts)
{
    if (lab__healthy(g) && !b)
        return lab__refuse(g, "block", LAB_ERR_ARGUMENT, "the layer is NULL");
    if (!b)
        return NULL;
    if (b->norm_place == LAB_NORM_BEFORE) {
        x = lab_add(g, x, lab_mha_apply(g, &b->attn, norm1(g, b, x), NULL, cache, opts));
        return lab_add(g, x, lab_mlp_apply(g, &b->mlp, norm2(g, b, x)));
    }
    x = norm1(g, b, lab_add(g, x, lab_mha_apply(g, &b->attn, x, NULL, cache, opts)));
    return norm2(g, b, lab_add(g, x, lab_mlp_apply(g, &b->mlp, x)));
}
