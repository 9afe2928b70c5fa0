/* gpt.c - a decoder-only transformer.
 *
 *     x = token[tokens] + position[0 ... T - 1];   x = block(x), `layers` times;   logits = norm(x) head^T
 */
#include <stdio.h>
#include <string.h>

#include "gpt_impl.h"
#include "layers_impl.h"

/* ---- Parameters ------------------------------------------------------------------------------------------------------ */

static lab_status check(const lab_gpt_config *c)
{
    const struct {
        const char *field;
        int64_t size;
    } sizes[] = {{"vocabulary", c->vocabulary}, {"context", c->context}, {"layers", c->layers}, {"width", c->width}};
    lab_status status = LAB_OK;
    for (int i = 0; i < 4 && status == LAB_OK; i++)
        status = lab__check_positive("gpt", sizes[i].field, sizes[i].size);
    if (status != LAB_OK)
        return status;
    if ((unsigned)c->positions > LAB_POSITIONS_NONE || (unsigned)c->rope_layout > LAB_ROPE_HALVES)
        return lab__fail(LAB_ERR_ARGUMENT, "gpt: positions is %d, rope_layout %d; there are no such", (int)c->positions,
                         (int)c->rope_layout);
    const struct {
        const char *field;
        double number;
    } numbers[] = {{"rope_base", c->rope_base}, {"init_std", c->init_std}};
    for (int i = 0; i < 2; i++)
        if (!(numbers[i].number >= 0) || isinf(numbers[i].number))
            return lab__fail(LAB_ERR_RANGE, "gpt: %s is %g, must be positive and finite, or 0 for the default",
                             numbers[i].field, numbers[i].number);
    if (!isfinite(c->attention_scale))
        return lab__fail(LAB_ERR_RANGE, "gpt: attention_scale is %g, must be finite", c->attention_scale);
    return LAB_OK;
}

static lab_status make_table(lab_tensor **out, source *from, int64_t rows, const lab_gpt_config *c)
{
    lab_linear_config table = {.in = c->width, .out = rows, .init = LAB_INIT_NORMAL, .init_std = c->init_std};
    return lab__make_weight(out, from, &table);
}

static lab_status make_blocks(lab_gpt *x, source *from)
{
    const lab_gpt_config *c = &x->config;
    lab_rope_opts rope = {.layout = c->rope_layout, .base = c->rope_base};
    lab_block_config config = {.width = c->width,
                               .heads = c->heads,
                               .kv_heads = c->kv_heads,
                               .head_dim = c->head_dim,
                               .hidden = c->hidden,
                               .activation = c->activation,
                               .bias = c->bias,
                               .no_shift = !c->bias,
                               .norm = c->norm,
                               .norm_eps = c->norm_eps,
                               .rope = c->positions == LAB_POSITIONS_ROPE ? &rope : NULL,
                               .init = LAB_INIT_NORMAL,
                               .init_std = c->init_std,
                               .layers = c->layers};
    size_t bytes;
    if (!lab__multiply((size_t)c->layers, sizeof *x->block, &bytes) || !(x->block = lab__allocate(bytes)))
        return lab__fail(LAB_ERR_MEMORY, "gpt: no memory for %lld blocks", (long long)c->layers);
    memset(x->block, 0, bytes);
    lab_status status = LAB_OK;
    for (int64_t i = 0; i < c->layers && status == LAB_OK; i++)
        status = lab__block_make(&x->block[i], &config, from);
    return status;
}

static lab_status make_model(lab_gpt *x, source *from)
{
    const lab_gpt_config *c = &x->config;
    lab_status status = make_table(&x->token, from, c->vocabulary, c);
    if (status == LAB_OK && c->positions == LAB_POSITIONS_LEARNED)
        status = make_table(&x->position, from, c->context, c);
    if (status == LAB_OK)
        status = make_blocks(x, from);
    if (status == LAB_OK)
        status = lab__make_vector(&x->norm_gain, from, c->width, 1);
    if (status == LAB_OK && c->norm == LAB_NORM_LAYER && c->bias)
        status = lab__make_vector(&x->norm_shift, from, c->width, 0);
    return status == LAB_OK && c->untied ? make_table(&x->head, from, c->vocabulary, c) : status;
}

/* What a config leaves to its defaults, as the blocks have it. */
static void fill_in(lab_gpt *x)
{
    x->config.kv_heads = x->block->attn.kv_heads;
    x->config.head_dim = x->block->attn.head_dim;
    x->config.hidden = lab_tensor_size(x->block->mlp.up.weight, 0);
    x->config.norm_eps = x->block->norm_eps;
}

lab_status lab_gpt_init(lab_gpt *x, const lab_gpt_config *config, lab_dtype dtype, uint64_t seed)
{
    lab_status status = lab__check_init("gpt", x, config, config ? config->reserved : NULL, dtype);
    if (status == LAB_OK)
        status = check(config);
    if (x)
        *x = (lab_gpt){0};
    if (status == LAB_OK) {
        x->config = *config;
        status = make_model(x, &(source){.dtype = dtype, .seed = seed});
    }
    if (status == LAB_OK)
        fill_in(x);
    else
        lab_gpt_free(x);
    return status;
}

static lab_status visit_one(lab_tensor **parameter, const char *prefix, const char *name, const char *part,
                            lab_visit_fn fn, void *ctx)
{
    char joined[LAB_NAME_LENGTH];
    lab_status status = lab__join_name(joined, prefix, name);
    return status == LAB_OK ? lab__visit_parameter(joined, part, parameter, fn, ctx) : status;
}

lab_status lab_gpt_visit(lab_gpt *x, const char *prefix, lab_visit_fn fn, void *ctx)
{
    if (!x || !x->block)
        return lab__fail(LAB_ERR_ARGUMENT, "gpt: the model is NULL or empty");
    lab_status status = visit_one(&x->token, prefix, "token", "weight", fn, ctx);
    if (status == LAB_OK)
        status = visit_one(&x->position, prefix, "position", "weight", fn, ctx);
    for (int64_t i = 0; i < x->config.layers && status == LAB_OK; i++) {
        char number[32], name[LAB_NAME_LENGTH];
        snprintf(number, sizeof number, "block.%lld", (long long)i);
        status = lab__join_name(name, prefix, number);
        if (status == LAB_OK)
            status = lab_block_visit(&x->block[i], name, fn, ctx);
    }
    if (status == LAB_OK)
        status = visit_one(&x->norm_gain, prefix, "norm", "gain", fn, ctx);
    if (status == LAB_OK)
        status = visit_one(&x->norm_shift, prefix, "norm", "shift", fn, ctx);
    return status == LAB_OK ? visit_one(&x->head, prefix, "head", "weight", fn, ctx) : status;
}

void lab_gpt_free(lab_gpt *x)
{
    if (!x)
        return;
    lab_tensor_destroy(&x->token);
    lab_tensor_destroy(&x->position);
    for (int64_t i = 0; x->block && i < x->config.layers; i++)
        lab_block_free(&x->block[i]);
    lab__release(x->block, (size_t)x->config.layers * sizeof *x->block);
    lab_tensor_destroy(&x->norm_gain);
    lab_tensor_destroy(&x->norm_shift);
    lab_tensor_destroy(&x->head);
    *x = (lab_gpt){0};
}

/* ---- The function ---------------------------------------------------------------------------------------------------- */

static bool opts_make_sense(lab_graph *g, const lab_gpt_opts *opts)
{
    const lab_attention_opts *attention = opts ? opts->attention : NULL;
    if (opts && !lab__all_zero(opts->reserved))
        return lab__refuse(g, "gpt", LAB_ERR_ARGUMENT, "the options' reserved words are not zero");
    if (attention && (attention->lse || attention->probs || attention->stats))
        return lab__refuse(g, "gpt", LAB_ERR_ARGUMENT, "lse, probs and stats of the attention are one layer's");
    return true;
}

/* What one layer's attention is asked for. */
static lab_attention_opts attention_of(const lab_gpt *x, const lab_gpt_opts *opts, const lab_gpt_cache *cache,
                                       int64_t layer)
{
    lab_attention_opts a = opts && opts->attention ? *opts->attention : (lab_attention_opts){0};
    if (a.causal == LAB_CAUSAL_NONE && !cache)
        a.causal = LAB_CAUSAL_TOP_LEFT;
    if (a.scale == 0 && !a.scale_tensor)
        a.scale = x->config.attention_scale;
    a.stream += (uint64_t)layer;
    a.stats = opts && opts->stats ? opts->stats + layer * x->config.heads : NULL;
    return a;
}

/* The rows of the table where the tokens stand: from 0, or batch by batch behind what the cache has. */
static lab_tensor *positions(lab_graph *g, const lab_gpt *x, const lab_tensor *tokens, const lab_gpt_cache *cache)
{
    const int rank = tokens->rank;
    const int64_t rows = tokens->shape[rank - 1], batch = lab__product(rank - 1, tokens->shape);
    int64_t longest = 0, shape[LAB_MAX_RANK];
    for (int64_t b = 0; cache && b < batch; b++)
        longest = lab_gpt_cache_length(cache, b) > longest ? lab_gpt_cache_length(cache, b) : longest;
    if (longest > x->config.context - rows)
        return lab__refuse(g, "gpt", LAB_ERR_RANGE, "%lld tokens behind %lld: there are %lld positions",
                           (long long)rows, (long long)longest, (long long)x->config.context);
    if (longest == 0)
        return lab_slice(g, x->position, 0, 0, rows, 1);
    memcpy(shape, tokens->shape, sizeof shape);
    shape[rank - 1] = 1;
    lab_tensor *starts = lab_full(g, LAB_I64, rank, shape, 0);
    for (int64_t b = 0; starts && b < batch; b++)
        ((int64_t *)starts->data)[b] = lab_gpt_cache_length(cache, b);
    return lab_gather_rows(g, x->position, lab_add(g, starts, lab_arange(g, LAB_I64, 0, (double)rows, 1)));
}

/* A block whose inner results are computed again: what it needs then lives as long as the graph's. */
typedef struct recomputed {
    const lab_block *block;
    lab_attention_opts attention;
} recomputed;

static lab_tensor *apply_recomputed(lab_graph *g, lab_tensor **xs, void *ctx)
{
    const recomputed *r = ctx;
    return lab_block_apply(g, r->block, xs[0], NULL, &r->attention);
}

static lab_tensor *apply_block(lab_graph *g, const lab_gpt *x, int64_t layer, lab_tensor *h, lab_gpt_cache *cache,
                               const lab_gpt_opts *opts)
{
    const lab_attention_opts attention = attention_of(x, opts, cache, layer);
    if (cache || !opts || !opts->recompute || !lab__is_recording(g))
        return lab_block_apply(g, &x->block[layer], h, cache ? cache->layer[layer] : NULL, &attention);
    recomputed *r = lab__healthy(g) ? lab__keep(g, sizeof *r) : NULL;
    if (!r)
        return lab__healthy(g) ? lab__refuse(g, "gpt", LAB_ERR_MEMORY, "no memory for a block's options") : NULL;
    *r = (recomputed){&x->block[layer], attention};
    return lab_checkpoint(g, apply_recomputed, 1, &h, r);
}

static bool operands_make_sense(lab_graph *g, const lab_gpt *x, const lab_tensor *tokens, const lab_gpt_cache *cache,
                                const lab_gpt_opts *opts)
{
    if (!lab__healthy(g) || !opts_make_sense(g, opts))
        return false;
    if (!x || !x->block || !tokens)
        return lab__refuse(g, "gpt", LAB_ERR_ARGUMENT, tokens ? "the model is NULL or empty" : "the tokens are NULL");
    if (tokens->rank < 1 || tokens->rank > LAB_MAX_RANK - 2)
        return lab__refuse(g, "gpt", LAB_ERR_SHAPE, "tokens %s must be [..., T], of 1 to %d axes",
                           lab__shape_text(tokens->rank, tokens->shape), LAB_MAX_RANK - 2);
    if (cache && cache->layers != x->config.layers)
        return lab__refuse(g, "gpt", LAB_ERR_ARGUMENT, "the cache is of %lld layers, the model has %lld",
                           (long long)cache->layers, (long long)x->config.layers);
    return true;
}

/* All of it, up to the head or with it. */
static lab_tensor *run(lab_graph *g, const lab_gpt *x, lab_tensor *tokens, lab_gpt_cache *cache,
                       const lab_gpt_opts *opts, bool with_head)
{
    if (!operands_make_sense(g, x, tokens, cache, opts))
        return NULL;
    lab_tensor *h = lab_gather_rows(g, x->token, tokens);
    if (x->position)
        h = lab_add(g, h, positions(g, x, tokens, cache));
    for (int64_t layer = 0; layer < x->config.layers && h; layer++)
        h = apply_block(g, x, layer, h, cache, opts);
    h = x->config.norm == LAB_NORM_RMS ? lab_rms_norm(g, h, x->norm_gain, x->config.norm_eps)
                                       : lab_layer_norm(g, h, x->norm_gain, x->norm_shift, x->config.norm_eps);
    if (with_head)
        h = lab_matmul(g, h, lab_transpose(g, x->head ? x->head : x->token, 0, 1));
    lab__gpt_cache_settle(cache, h);
    return h;
}

lab_tensor *lab_gpt_hidden(lab_graph *g, const lab_gpt *x, lab_tensor *tokens, lab_gpt_cache *cache,
                           const lab_gpt_opts *opts)
{
    return run(g, x, tokens, cache, opts, false);
}

lab_tensor *lab_gpt_apply(lab_graph *g, const lab_gpt *x, lab_tensor *tokens, lab_gpt_cache *cache,
                          const lab_gpt_opts *opts)
{
    return run(g, x, tokens, cache, opts, true);
}

/* More logits than this are not kept: their loss is computed a chunk of rows at a time. */
enum { MOST_LOGITS = 1 << 24 };

lab_tensor *lab_gpt_loss(lab_graph *g, const lab_gpt *x, lab_tensor *tokens, lab_tensor *targets,
                         const lab_cross_entropy_opts *loss, const lab_gpt_opts *opts)
{
    lab_tensor *hidden = run(g, x, tokens, NULL, opts, false);
    if (!hidden)
        return NULL;
    lab_tensor *head = x->head ? x->head : x->token;
    if (lab_tensor_numel(tokens) > MOST_LOGITS / x->config.vocabulary)
        return lab_linear_cross_entropy(g, hidden, head, targets, loss);
    return lab_cross_entropy(g, lab_matmul(g, hidden, lab_transpose(g, head, 0, 1)), targets, loss);
}
