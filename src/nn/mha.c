/* mha.c - multi-head attention: projections to heads, attention, and back.
 *
 *     q = turn(split(x Wq)), k = turn(split(m Wk)), v = split(m Wv)      m is the memory, or x itself
 *     y = join(attention(q, k, v)) Wo
 */
#include "layers_impl.h"

/* ---- Parameters ------------------------------------------------------------------------------------------------------ */

static lab_status check_heads(const lab_mha_config *c)
{
    lab_status status = lab__check_positive("mha", "width", c->width);
    if (status == LAB_OK)
        status = lab__check_positive("mha", "heads", c->heads);
    if (status != LAB_OK)
        return status;
    int64_t kv_heads = c->kv_heads ? c->kv_heads : c->heads;
    if (kv_heads < 1 || c->heads % kv_heads != 0)
        return lab__fail(LAB_ERR_RANGE, "mha: heads (%lld) is not a multiple of kv_heads (%lld)", (long long)c->heads,
                         (long long)kv_heads);
    if (c->head_dim == 0 && c->width % c->heads != 0)
        return lab__fail(LAB_ERR_RANGE, "mha: width (%lld) is not a multiple of heads (%lld)", (long long)c->width,
                         (long long)c->heads);
    if (c->head_dim < 0 || c->head_dim > INT64_MAX / c->heads)
        return lab__fail(LAB_ERR_RANGE, "mha: head_dim is %lld, out of range", (long long)c->head_dim);
    if (c->memory_width < 0)
        return lab__fail(LAB_ERR_RANGE, "mha: memory_width is %lld, must be at least 1, or 0 for width",
                         (long long)c->memory_width);
    return LAB_OK;
}

static lab_status check_rope(const lab_rope_opts *rope, int64_t head_dim)
{
    int64_t width = rope->width ? rope->width : head_dim;
    if (!lab__all_zero(rope->reserved) || rope->positions)
        return lab__fail(LAB_ERR_ARGUMENT, "mha: rope's %s in a config",
                         rope->positions ? "positions have no place" : "reserved words must be zero");
    if (width < 0 || width > head_dim || width % 2)
        return lab__fail(LAB_ERR_RANGE, "mha: the rotary width is %lld, must be even and at most head_dim (%lld)",
                         (long long)width, (long long)head_dim);
    return LAB_OK;
}

lab_status lab__mha_make(lab_mha *x, const lab_mha_config *config, source *from)
{
    lab_status status = check_heads(config);
    if (status != LAB_OK)
        return status;
    x->heads = config->heads;
    x->kv_heads = config->kv_heads ? config->kv_heads : config->heads;
    x->head_dim = config->head_dim ? config->head_dim : config->width / config->heads;
    if (config->rope) {
        status = check_rope(config->rope, x->head_dim);
        x->has_rope = true;
        x->rope = *config->rope;
    }
    lab_linear_config q = {.in = config->width,
                           .out = x->heads * x->head_dim,
                           .bias = config->bias,
                           .init = config->init,
                           .init_std = config->init_std};
    lab_linear_config kv = q, out = q;
    kv.in = config->memory_width ? config->memory_width : config->width;
    kv.out = x->kv_heads * x->head_dim;
    out.in = q.out;
    out.out = config->width;
    out.init_scale = lab_residual_scale(config->layers);
    if (status == LAB_OK)
        status = lab__linear_make(&x->q, &q, from);
    if (status == LAB_OK)
        status = lab__linear_make(&x->k, &kv, from);
    if (status == LAB_OK)
        status = lab__linear_make(&x->v, &kv, from);
    return status == LAB_OK ? lab__linear_make(&x->out, &out, from) : status;
}

lab_status lab_mha_init(lab_mha *x, const lab_mha_config *config, lab_dtype dtype, uint64_t seed)
{
    lab_status status = lab__check_init("mha", x, config, config ? config->reserved : NULL, dtype);
    if (x)
        *x = (lab_mha){0};
    if (status == LAB_OK)
        status = lab__mha_make(x, config, &(source){.dtype = dtype, .seed = seed});
    if (status != LAB_OK)
        lab_mha_free(x);
    return status;
}

lab_status lab_mha_visit(lab_mha *x, const char *prefix, lab_visit_fn fn, void *ctx)
{
    if (!x)
        return lab__fail(LAB_ERR_ARGUMENT, "mha: the layer is NULL");
    lab_linear *maps[] = {&x->q, &x->k, &x->v, &x->out};
    const char *parts[] = {"q", "k", "v", "out"};
    lab_status status = LAB_OK;
    for (int i = 0; i < 4 && status == LAB_OK; i++) {
        char name[LAB_NAME_LENGTH];
        status = lab__join_name(name, prefix, parts[i]);
        if (status == LAB_OK)
            status = lab_linear_visit(maps[i], name, fn, ctx);
    }
    return status;
}

void lab_mha_free(lab_mha *x)
{
    if (!x)
        return;
    lab_linear_free(&x->q);
    lab_linear_free(&x->k);
    lab_linear_free(&x->v);
    lab_linear_free(&x->out);
    *x = (lab_mha){0};
}

/* ---- The function ---------------------------------------------------------------------------------------------------- */

/* [..., T, heads * size] -> [..., heads, T, size]: a view. */
static lab_tensor *split(lab_graph *g, lab_tensor *x, int64_t heads)
{
    int rank = lab_tensor_rank(x);
    if (rank < 2)
        return NULL; /* the graph has failed */
    int64_t shape[LAB_MAX_RANK];
    for (int i = 0; i < rank - 1; i++)
        shape[i] = lab_tensor_size(x, i);
    shape[rank - 1] = heads;
    shape[rank] = lab_tensor_size(x, -1) / heads;
    return lab_transpose(g, lab_reshape(g, x, rank + 1, shape), -3, -2);
}

/* The other way round. */
static lab_tensor *join(lab_graph *g, lab_tensor *x)
{
    int rank = lab_tensor_rank(x) - 1;
    if (rank < 2)
        return NULL; /* the graph has failed */
    int64_t shape[LAB_MAX_RANK];
    for (int i = 0; i < rank - 2; i++)
        shape[i] = lab_tensor_size(x, i);
    shape[rank - 2] = lab_tensor_size(x, -2);
    shape[rank - 1] = lab_tensor_size(x, -3) * lab_tensor_size(x, -1);
    return lab_reshape(g, lab_transpose(g, x, -3, -2), rank, shape);
}

/* Positions start at `offset`; or batch by batch at its length in the cache: [..., 1, T]. */
static lab_tensor *positions(lab_graph *g, const lab_mha *x, const lab_kv_cache *cache, const lab_tensor *input)
{
    int64_t shape[LAB_MAX_RANK];
    const int rank = input->rank;
    const int64_t rows = input->shape[rank - 2], batch = lab__product(rank - 2, input->shape);
    for (int i = 0; i < rank - 2; i++)
        shape[i] = input->shape[i];
    shape[rank - 2] = shape[rank - 1] = 1;
    lab_tensor *starts = lab_full(g, LAB_I64, rank, shape, 0);
    for (int64_t b = 0; starts && b < batch; b++)
        ((int64_t *)starts->data)[b] = x->rope.offset + lab_kv_cache_length(cache, b);
    return lab_add(g, starts, lab_arange(g, LAB_I64, 0, (double)rows, 1));
}

static lab_tensor *turned(lab_graph *g, const lab_mha *x, lab_tensor *heads, lab_tensor *positions)
{
    lab_rope_opts rope = x->rope;
    if (!x->has_rope)
        return heads;
    rope.positions = positions;
    rope.offset = positions ? 0 : rope.offset;
    return lab_rope(g, heads, &rope);
}

/* k and v go into the cache, and come out again if attention fails. */
static lab_tensor *attend_cached(lab_graph *g, lab_kv_cache *cache, lab_tensor *q, lab_tensor *k, lab_tensor *v,
                                 const lab_attention_opts *opts)
{
    if (!q || lab_kv_cache_append(g, cache, k, v, NULL) != LAB_OK)
        return NULL;
    lab_tensor *y = lab_attention_cached(g, q, cache, opts);
    const int64_t batch = lab__product(k->rank - 3, k->shape);
    for (int64_t b = 0; !y && b < batch; b++)
        if (lab_kv_cache_truncate(cache, b, lab_kv_cache_length(cache, b) - k->shape[k->rank - 2]) != LAB_OK)
            return NULL;
    return y;
}

lab_tensor *lab_mha_apply(lab_graph *g, const lab_mha *x, lab_tensor *input, lab_tensor *memory, lab_kv_cache *cache,
                          const lab_attention_opts *opts)
{
    if (!lab__healthy(g))
        return NULL;
    if (!x || x->heads < 1 || x->kv_heads < 1 || !input)
        return lab__refuse(g, "mha", LAB_ERR_ARGUMENT, "%s",
                           input || !x ? "the layer is NULL or empty" : "the input is NULL");
    if (cache && memory)
        return lab__refuse(g, "mha", LAB_ERR_UNSUPPORTED,
                           "a cache keeps the input's own keys: memory does not go with it");
    if (cache && lab__is_recording(g))
        return lab__refuse(g, "mha", LAB_ERR_STATE, "a cache is for inference graphs: what it keeps has no gradient");
    memory = memory ? memory : input;
    if (input->rank < 2 || input->rank >= LAB_MAX_RANK || memory->rank != input->rank)
        return lab__refuse(
            g, "mha", LAB_ERR_SHAPE, "input %s and memory %s must both be [..., T, width], of 2 to %d axes",
            lab__shape_text(input->rank, input->shape), lab__shape_text(memory->rank, memory->shape), LAB_MAX_RANK - 1);
    lab_tensor *from = cache && x->has_rope ? positions(g, x, cache, input) : NULL;
    lab_tensor *q = turned(g, x, split(g, lab_linear_apply(g, &x->q, input), x->heads), from);
    lab_tensor *k = turned(g, x, split(g, lab_linear_apply(g, &x->k, memory), x->kv_heads), from);
    lab_tensor *v = split(g, lab_linear_apply(g, &x->v, memory), x->kv_heads);
    lab_tensor *y = join(g, cache ? attend_cached(g, cache, q, k, v, opts) : lab_attention(g, q, k, v, opts));
    return y ? lab_linear_apply(g, &x->out, y) : NULL;
}
