/* kv_cache.c - keys and values of one layer, kept from step to step, and attention that reads them.
 *
 * Two leaves [batch, kv_heads, capacity, d or dv], of which batch b has the first lengths[b] rows. Attention sees them
 * as any other keys with key lengths, aligned at the bottom right: so a row computed from a cache has the bits of that
 * row in one pass over everything.
 */
#include "attention_impl.h"
#include "kernels/kernels.h"

struct lab_kv_cache {
    lab_tensor *k, *v;
    lab_tensor *lengths; /* i64 [batch] */
    int64_t batch, kv_heads, capacity;
};

static int64_t *lengths_of(const lab_kv_cache *cache)
{
    return lab_tensor_data(cache->lengths);
}

/* ---- The cache ------------------------------------------------------------------------------------------------------- */

static lab_status make(lab_kv_cache *c, lab_dtype dtype, int64_t d, int64_t dv)
{
    lab_status status = lab_tensor_create(&c->k, dtype, 4, (int64_t[]){c->batch, c->kv_heads, c->capacity, d});
    if (status == LAB_OK)
        status = lab_tensor_create(&c->v, dtype, 4, (int64_t[]){c->batch, c->kv_heads, c->capacity, dv});
    return status == LAB_OK ? lab_tensor_create(&c->lengths, LAB_I64, 1, &c->batch) : status;
}

lab_status lab_kv_cache_create(lab_kv_cache **out, lab_dtype dtype, int64_t batch, int64_t kv_heads, int64_t capacity,
                               int64_t d, int64_t dv)
{
    if (!out)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_kv_cache_create: out is NULL");
    *out = NULL;
    if (!lab__is_float(dtype))
        return lab__fail(LAB_ERR_DTYPE, "lab_kv_cache_create: dtype must be a floating-point one");
    const int64_t sizes[] = {batch, kv_heads, capacity, d, dv}, least[] = {0, 1, 0, 1, 0};
    const char *names[] = {"batch", "kv_heads", "capacity", "d", "dv"};
    for (int i = 0; i < 5; i++)
        if (sizes[i] < least[i])
            return lab__fail(LAB_ERR_RANGE, "lab_kv_cache_create: %s is %lld, must be at least %lld", names[i],
                             (long long)sizes[i], (long long)least[i]);
    lab_kv_cache *cache = lab__allocate(sizeof *cache);
    if (!cache)
        return lab__fail(LAB_ERR_MEMORY, "lab_kv_cache_create: no memory");
    *cache = (lab_kv_cache){.batch = batch, .kv_heads = kv_heads, .capacity = capacity};
    lab_status status = make(cache, dtype, d, dv);
    if (status != LAB_OK)
        lab_kv_cache_destroy(&cache);
    *out = cache;
    return status;
}

void lab_kv_cache_destroy(lab_kv_cache **cache)
{
    if (!cache || !*cache)
        return;
    lab_tensor_destroy(&(*cache)->k);
    lab_tensor_destroy(&(*cache)->v);
    lab_tensor_destroy(&(*cache)->lengths);
    lab__release(*cache, sizeof **cache);
    *cache = NULL;
}

int64_t lab_kv_cache_length(const lab_kv_cache *cache, int64_t batch)
{
    return cache && batch >= 0 && batch < cache->batch ? lengths_of(cache)[batch] : 0;
}

int64_t lab_kv_cache_capacity(const lab_kv_cache *cache)
{
    return cache ? cache->capacity : 0;
}

static void set_length(lab_kv_cache *cache, int64_t batch, int64_t length)
{
    lengths_of(cache)[batch] = length;
    lab_tensor_touch(cache->lengths);
}

void lab_kv_cache_reset(lab_kv_cache *cache)
{
    for (int64_t b = 0; cache && b < cache->batch; b++)
        set_length(cache, b, 0);
}

lab_status lab_kv_cache_truncate(lab_kv_cache *cache, int64_t batch, int64_t length)
{
    if (!cache)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_kv_cache_truncate: the cache is NULL");
    if (batch < 0 || batch >= cache->batch)
        return lab__fail(LAB_ERR_RANGE, "lab_kv_cache_truncate: batch is %lld, must be 0 to %lld", (long long)batch,
                         (long long)cache->batch - 1);
    if (length < 0 || length > lengths_of(cache)[batch])
        return lab__fail(LAB_ERR_RANGE, "lab_kv_cache_truncate: length is %lld, must be 0 to the present one (%lld)",
                         (long long)length, (long long)lengths_of(cache)[batch]);
    set_length(cache, batch, length);
    return LAB_OK;
}

/* ---- Appending --------------------------------------------------------------------------------------------------------- */

/* x is [batch..., kv_heads, t, size], as `like` is but for t. */
static lab_status check_rows(const lab_graph *g, const lab_kv_cache *c, const lab_tensor *x, const char *name,
                             const lab_tensor *like)
{
    if (!x)
        return lab__fail(LAB_ERR_ARGUMENT, "%s is NULL", name);
    if (!lab__readable(g, x))
        return lab__fail(LAB_ERR_STATE, "%s (%s) was computed on another graph", name, lab__tensor_text(x));
    if (x->dtype != like->dtype)
        return lab__fail(LAB_ERR_DTYPE, "%s is %s, the cache %s", name, lab_dtype_name(x->dtype),
                         lab_dtype_name(like->dtype));
    const int rank = x->rank;
    if (rank < 3 || lab__product(rank - 3, x->shape) != c->batch || x->shape[rank - 3] != c->kv_heads ||
        x->shape[rank - 1] != like->shape[3])
        return lab__fail(LAB_ERR_SHAPE, "%s %s does not go into a cache %s", name, lab__shape_text(rank, x->shape),
                         lab__shape_text(4, like->shape));
    return LAB_OK;
}

static lab_status check_append(const lab_graph *g, const lab_kv_cache *c, const lab_tensor *k, const lab_tensor *v,
                               const int64_t *counts)
{
    if (!c)
        return lab__fail(LAB_ERR_ARGUMENT, "the cache is NULL");
    if (lab__is_recording(g))
        return lab__fail(LAB_ERR_STATE, "a cache is for inference graphs: what it keeps has no gradient");
    lab_status status = check_rows(g, c, k, "k", c->k);
    if (status == LAB_OK)
        status = check_rows(g, c, v, "v", c->v);
    if (status != LAB_OK)
        return status;
    const int64_t rows = k->shape[k->rank - 2];
    if (v->shape[v->rank - 2] != rows)
        return lab__fail(LAB_ERR_SHAPE, "k %s has %lld rows, v %s has %lld", lab__shape_text(k->rank, k->shape),
                         (long long)rows, lab__shape_text(v->rank, v->shape), (long long)v->shape[v->rank - 2]);
    for (int64_t b = 0; b < c->batch; b++) {
        const int64_t count = counts ? counts[b] : rows, left = c->capacity - lengths_of(c)[b];
        if (count < 0 || count > rows)
            return lab__fail(LAB_ERR_RANGE, "counts[%lld] is %lld, must be 0 to the rows of k (%lld)", (long long)b,
                             (long long)count, (long long)rows);
        if (count > left)
            return lab__fail(LAB_ERR_RANGE, "the cache is full: batch %lld has %lld of %lld rows, and %lld are to come",
                             (long long)b, (long long)lengths_of(c)[b], (long long)c->capacity, (long long)count);
    }
    return LAB_OK;
}

/* Batch b's first `count` rows of x behind the `length` that `to` has. */
static void copy_rows(lab_tensor *to, const lab_tensor *x, int64_t batch, int64_t length, int64_t count)
{
    const int rank = x->rank, size = (int)lab_dtype_size(x->dtype);
    const int64_t place = lab__place_of_batch(x, x, batch);
    for (int64_t h = 0; h < to->shape[1]; h++)
        for (int64_t i = 0; i < count; i++)
            lab__kernel_copy(
                to->shape[3], size,
                to->data + (batch * to->strides[0] + h * to->strides[1] + (length + i) * to->strides[2]) * size, 1,
                x->data + (place + h * x->strides[rank - 3] + i * x->strides[rank - 2]) * size, x->strides[rank - 1]);
}

lab_status lab_kv_cache_append(lab_graph *g, lab_kv_cache *cache, lab_tensor *k, lab_tensor *v, const int64_t *counts)
{
    if (!lab__healthy(g))
        return lab_graph_status(g);
    lab_status status = check_append(g, cache, k, v, counts);
    if (status != LAB_OK) {
        lab__refuse_as_said(g, "kv_cache_append", status);
        return status;
    }
    for (int64_t b = 0; b < cache->batch; b++) {
        const int64_t length = lengths_of(cache)[b], count = counts ? counts[b] : k->shape[k->rank - 2];
        copy_rows(cache->k, k, b, length, count);
        copy_rows(cache->v, v, b, length, count);
        set_length(cache, b, length + count);
    }
    lab_tensor_touch(cache->k);
    lab_tensor_touch(cache->v);
    return LAB_OK;
}

/* ---- Attention ----------------------------------------------------------------------------------------------------------- */

static lab_status check_call(const lab_graph *g, const lab_tensor *q, const lab_kv_cache *c,
                             const lab_attention_opts *opts)
{
    if (!c || !q)
        return lab__fail(LAB_ERR_ARGUMENT, "%s is NULL", c ? "q" : "the cache");
    if (lab__is_recording(g))
        return lab__fail(LAB_ERR_STATE, "a cache is for inference graphs: what it keeps has no gradient");
    if (!lab__readable(g, q))
        return lab__fail(LAB_ERR_STATE, "q (%s) was computed on another graph", lab__tensor_text(q));
    if (q->rank < 3 || lab__product(q->rank - 3, q->shape) != c->batch)
        return lab__fail(LAB_ERR_SHAPE, "q %s must be [batch, heads, T, d] with the cache's batch (%lld)",
                         lab__shape_text(q->rank, q->shape), (long long)c->batch);
    if (opts && opts->key_lengths)
        return lab__fail(LAB_ERR_ARGUMENT, "key_lengths is given, but the cache has its own");
    return LAB_OK;
}

/* The rows that some batch has, with q's batch axes. */
static lab_tensor *rows_of(lab_graph *g, lab_tensor *rows, int64_t longest, const lab_tensor *q)
{
    int64_t shape[LAB_MAX_RANK];
    lab_tensor *used = lab_slice(g, rows, 2, 0, longest, 1);
    if (q->rank == 4)
        return used;
    for (int i = 0; i < q->rank - 3; i++)
        shape[i] = q->shape[i];
    for (int i = 0; i < 3; i++)
        shape[q->rank - 3 + i] = i == 1 ? longest : rows->shape[i + 1];
    return lab_reshape(g, used, q->rank, shape);
}

lab_tensor *lab_attention_cached(lab_graph *g, lab_tensor *q, lab_kv_cache *cache, const lab_attention_opts *opts)
{
    if (opts && opts->lse)
        *opts->lse = NULL;
    if (opts && opts->probs)
        *opts->probs = NULL;
    if (!lab__healthy(g))
        return NULL;
    lab_status status = check_call(g, q, cache, opts);
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "attention_cached", status);
    lab_attention_opts own = opts ? *opts : (lab_attention_opts){0};
    int64_t longest = 0;
    bool equal = true;
    for (int64_t b = 0; b < cache->batch; b++) {
        const int64_t length = lengths_of(cache)[b];
        equal = equal && length == lengths_of(cache)[0];
        longest = length > longest ? length : longest;
    }
    if (own.causal == LAB_CAUSAL_NONE && own.offset == 0 && !own.offsets)
        own.causal = LAB_CAUSAL_BOTTOM_RIGHT;
    if (!equal)
        own.key_lengths = lab_reshape(g, cache->lengths, q->rank - 3, q->shape);
    lab_tensor *k = rows_of(g, cache->k, longest, q), *v = rows_of(g, cache->v, longest, q);
    return k && v ? lab_attention(g, q, k, v, &own) : NULL;
}
