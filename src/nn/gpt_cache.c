/* gpt_cache.c - keys and values of all layers of a model: one cache for each, which grow and shrink together. */
#include <string.h>

#include "gpt_impl.h"
#include "nn_impl.h"

/* The struct with its layers, then the lengths. */
static bool cache_bytes(int64_t layers, int64_t batch, size_t *bytes)
{
    size_t lengths;
    return lab__multiply((size_t)layers, sizeof(lab_kv_cache *), bytes) &&
           lab__add_sizes(*bytes, sizeof(lab_gpt_cache), bytes) &&
           lab__multiply((size_t)batch, sizeof(int64_t), &lengths) && lab__add_sizes(*bytes, lengths, bytes);
}

static lab_gpt_cache *make(int64_t layers, int64_t batch)
{
    size_t bytes;
    lab_gpt_cache *cache = cache_bytes(layers, batch, &bytes) ? lab__allocate(bytes) : NULL;
    if (!cache)
        return NULL;
    memset(cache, 0, bytes);
    cache->layers = layers;
    cache->batch = batch;
    cache->length = (int64_t *)(void *)(cache->layer + layers);
    return cache;
}

lab_status lab_gpt_cache_create(lab_gpt_cache **out, const lab_gpt *x, int64_t batch, int64_t capacity)
{
    if (!out)
        return lab__fail(LAB_ERR_ARGUMENT, "gpt_cache: out is NULL");
    *out = NULL;
    if (!x || !x->block)
        return lab__fail(LAB_ERR_ARGUMENT, "gpt_cache: the model is NULL or empty");
    if (batch < 0)
        return lab__fail(LAB_ERR_RANGE, "gpt_cache: batch is %lld, must be at least 0", (long long)batch);
    const lab_gpt_config *c = &x->config;
    lab_gpt_cache *cache = make(c->layers, batch);
    if (!cache)
        return lab__fail(LAB_ERR_MEMORY, "gpt_cache: no memory for %lld layers", (long long)c->layers);
    lab_status status = LAB_OK;
    for (int64_t i = 0; i < c->layers && status == LAB_OK; i++)
        status = lab_kv_cache_create(&cache->layer[i], x->token->dtype, batch, c->kv_heads,
                                     capacity ? capacity : c->context, c->head_dim, c->head_dim);
    if (status != LAB_OK)
        lab_gpt_cache_destroy(&cache);
    *out = cache;
    return status;
}

int64_t lab_gpt_cache_length(const lab_gpt_cache *cache, int64_t batch)
{
    return cache && batch >= 0 && batch < cache->batch ? cache->length[batch] : 0;
}

int64_t lab_gpt_cache_capacity(const lab_gpt_cache *cache)
{
    return cache ? lab_kv_cache_capacity(cache->layer[0]) : 0;
}

lab_status lab_gpt_cache_truncate(lab_gpt_cache *cache, int64_t batch, int64_t length)
{
    if (!cache)
        return lab__fail(LAB_ERR_ARGUMENT, "gpt_cache: the cache is NULL");
    lab_status status = LAB_OK;
    for (int64_t i = 0; i < cache->layers && status == LAB_OK; i++)
        status = lab_kv_cache_truncate(cache->layer[i], batch, length);
    if (status == LAB_OK)
        cache->length[batch] = length;
    return status;
}

void lab_gpt_cache_reset(lab_gpt_cache *cache)
{
    for (int64_t i = 0; cache && i < cache->layers; i++)
        lab_kv_cache_reset(cache->layer[i]);
    for (int64_t b = 0; cache && b < cache->batch; b++)
        cache->length[b] = 0;
}

void lab__gpt_cache_settle(lab_gpt_cache *cache, bool stays)
{
    for (int64_t b = 0; cache && b < cache->batch; b++) {
        if (stays)
            cache->length[b] = lab_kv_cache_length(cache->layer[0], b);
        for (int64_t i = 0; i < cache->layers && !stays; i++)
            if (lab_kv_cache_length(cache->layer[i], b) > cache->length[b] &&
                lab_kv_cache_truncate(cache->layer[i], b, cache->length[b]) != LAB_OK)
                return; /* which no longer length can be */
    }
}

void lab_gpt_cache_destroy(lab_gpt_cache **cache)
{
    size_t bytes;
    if (!cache || !*cache)
        return;
    for (int64_t i = 0; i < (*cache)->layers; i++)
        lab_kv_cache_destroy(&(*cache)->layer[i]);
    if (cache_bytes((*cache)->layers, (*cache)->batch, &bytes))
        lab__release(*cache, bytes);
    *cache = NULL;
}
