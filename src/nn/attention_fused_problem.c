/* attention_fused_problem.c - a call of fused attention as its loops see it: sequences, panels of queries, limits. */
#include "attention_fused.h"

/* Sizes of tiles, so that a tile's keys and values stay in the second-level cache beside a block's queries and outputs,
 * backward with their gradients and scores; and long enough to make a product worth its beginning. A key that takes,
 * with its value, more than `wide` bytes leaves room for fewer panels. */
typedef struct tile_sizes {
    int64_t bytes, wide_bytes; /* of a tile */
    int64_t least, most, step; /* keys of a tile */
    int64_t panels, wide_panels;
} tile_sizes;

typedef struct cache_sizes {
    int64_t wide;
    tile_sizes forward, backward;
} cache_sizes;

static const cache_sizes half_a_mebibyte = {
    .wide = 1 << 10,
    .forward = {.bytes = 192 << 10,
                .wide_bytes = 192 << 10,
                .least = 96,
                .most = 384,
                .step = 48,
                .panels = 8,
                .wide_panels = 4},
    .backward = {.bytes = 192 << 10,
                 .wide_bytes = 320 << 10,
                 .least = 48,
                 .most = 192,
                 .step = 12,
                 .panels = 6,
                 .wide_panels = 3},
};
/* And more, as processors with 64-byte vectors have. */
static const cache_sizes a_mebibyte = {
    .wide = 2 << 10,
    .forward = {.bytes = 528 << 10,
                .wide_bytes = 528 << 10,
                .least = 96,
                .most = FUSED_MOST_KEYS,
                .step = 48,
                .panels = FUSED_PANELS,
                .wide_panels = 4},
    .backward = {.bytes = 656 << 10,
                 .wide_bytes = 656 << 10,
                 .least = 48,
                 .most = 120,
                 .step = 12,
                 .panels = 5,
                 .wide_panels = 3},
};

static int64_t keys_of_tile(const tile_sizes *sizes, bool wide, int64_t bytes_of_key)
{
    const int64_t keys = (wide ? sizes->wide_bytes : sizes->bytes) / bytes_of_key / sizes->step * sizes->step;
    return keys < sizes->least ? sizes->least : keys > sizes->most ? sizes->most : keys;
}

static void set_sizes(fused_problem *p)
{
    const cache_sizes *sizes = p->kernels->vector_bits == 512 ? &a_mebibyte : &half_a_mebibyte;
    const int64_t size = (int64_t)p->size, bytes = (p->d + p->dv) * size;
    const bool wide = bytes > sizes->wide;
    p->query_block = (wide ? sizes->forward.wide_panels : sizes->forward.panels) * p->width;
    p->key_tile = keys_of_tile(&sizes->forward, wide, bytes);
    p->backward_block = (wide ? sizes->backward.wide_panels : sizes->backward.panels) * p->width;
    p->backward_tile = keys_of_tile(&sizes->backward, wide, 2 * (bytes + p->backward_block * size));
}

static int64_t longest(const lab_tensor *cumulative)
{
    int64_t most = 0;
    for (int64_t i = 0; i + 1 < cumulative->shape[0]; i++) {
        int64_t length = lab__i64_at(cumulative, i + 1) - lab__i64_at(cumulative, i);
        most = length > most ? length : most;
    }
    return most;
}

fused_problem lab__fused_problem(const fused_attrs *attrs, lab_tensor *const *in)
{
    const lab_tensor *q = in[IN_Q], *k = in[IN_K], *v = in[IN_V];
    const int heads_axis = q->rank - (attrs->packed ? 2 : 3), time_axis = q->rank - (attrs->packed ? 3 : 2);
    fused_problem p = {.attrs = attrs, .in = in, .kernels = lab__kernels()};
    p.type = p.stored = q->dtype == LAB_F64 ? KERNEL_F64 : KERNEL_F32;
    p.size = lab_dtype_size(q->dtype);
    p.panel = p.kernels->panel[p.type];
    p.multiply = p.kernels->tile[p.type];
    p.heads = q->shape[heads_axis];
    p.kv_heads = k->shape[heads_axis];
    p.group = p.kv_heads > 0 ? p.heads / p.kv_heads : 1;
    p.d = q->shape[q->rank - 1];
    p.dv = v->shape[v->rank - 1];
    p.batch = attrs->packed ? in[IN_CU_Q]->shape[0] - 1 : lab__product(q->rank - 3, q->shape);
    p.tq = attrs->packed ? longest(in[IN_CU_Q]) : q->shape[time_axis];
    p.tk = attrs->packed ? longest(in[IN_CU_K]) : k->shape[time_axis];
    p.scale = in[IN_SCALE] ? lab__number_at(p.type, in[IN_SCALE]->data, 0) : attrs->scale;
    lab__dropout_key(attrs->seed, attrs->stream, p.key);
    p.width = p.panel.width;
    set_sizes(&p);
    return p;
}

static int64_t per_batch(const lab_tensor *t, int64_t index)
{
    return t->numel == 1 ? lab__i64_at(t, 0) : lab__i64_at(t, index);
}

static int64_t offset_of(const fused_problem *p, int64_t index, int64_t tq, int64_t keys)
{
    if (p->attrs->causal == LAB_CAUSAL_BOTTOM_RIGHT)
        return keys - tq;
    return p->in[IN_OFFSETS] ? per_batch(p->in[IN_OFFSETS], index) : p->attrs->offset;
}

static void place_packed(const fused_problem *p, fused_sequence *s)
{
    const lab_tensor *q = p->in[IN_Q], *k = p->in[IN_K], *v = p->in[IN_V];
    int64_t query = lab__i64_at(p->in[IN_CU_Q], s->index), key = lab__i64_at(p->in[IN_CU_K], s->index);
    s->tq = lab__i64_at(p->in[IN_CU_Q], s->index + 1) - query;
    s->keys = lab__i64_at(p->in[IN_CU_K], s->index + 1) - key;
    s->q = query * q->strides[0];
    s->k = key * k->strides[0];
    s->v = key * v->strides[0];
    s->out = query * p->heads * p->dv;
    s->rows = query * p->heads;
    s->out_row = p->heads * p->dv;
    s->out_head = p->dv;
    s->row_step = p->heads;
    s->row_head = 1;
}

static void place_in_batch(const fused_problem *p, fused_sequence *s)
{
    const lab_tensor *q = p->in[IN_Q], *bias = p->in[IN_BIAS], *mask = p->in[IN_MASK];
    s->tq = p->tq;
    s->keys = p->in[IN_LENGTHS] ? per_batch(p->in[IN_LENGTHS], s->index) : p->tk;
    s->q = lab__place_of_batch(q, q, s->index);
    s->k = lab__place_of_batch(p->in[IN_K], q, s->index);
    s->v = lab__place_of_batch(p->in[IN_V], q, s->index);
    s->bias = bias ? lab__place_of_batch(bias, q, s->index) : 0;
    s->mask = mask ? lab__place_of_batch(mask, q, s->index) : 0;
    s->out_row = p->dv;
    s->out_head = p->tq * p->dv;
    s->out = s->index * p->heads * s->out_head;
    s->row_step = 1;
    s->row_head = p->tq;
    s->rows = s->index * p->heads * p->tq;
}

fused_sequence lab__fused_sequence(const fused_problem *p, int64_t index)
{
    const lab_tensor *q = p->in[IN_Q], *k = p->in[IN_K], *v = p->in[IN_V];
    const int heads_axis = q->rank - (p->attrs->packed ? 2 : 3), time_axis = q->rank - (p->attrs->packed ? 3 : 2);
    fused_sequence s = {.index = index};
    if (p->attrs->packed)
        place_packed(p, &s);
    else
        place_in_batch(p, &s);
    s.offset = offset_of(p, index, s.tq, s.keys);
    s.q_row = q->strides[time_axis];
    s.k_row = k->strides[time_axis];
    s.v_row = v->strides[time_axis];
    s.q_head = q->strides[heads_axis];
    s.k_head = k->strides[heads_axis];
    s.v_head = v->strides[heads_axis];
    return s;
}

/* a + b, held where it would overflow. */
static int64_t sum_held(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return a > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

void lab__fused_keys_of(const fused_problem *p, const fused_sequence *s, int64_t query, int64_t *first, int64_t *stop)
{
    const fused_attrs *a = p->attrs;
    int64_t position = query + s->offset, low = 0, end = s->keys;
    if (a->left >= 0 && sum_held(position, -a->left) > low)
        low = sum_held(position, -a->left);
    if (a->causal != LAB_CAUSAL_NONE && sum_held(position, 1) < end)
        end = sum_held(position, 1);
    if (a->right >= 0 && sum_held(sum_held(position, a->right), 1) < end)
        end = sum_held(sum_held(position, a->right), 1);
    *first = low;
    *stop = end;
}

fused_panel lab__fused_panel(const fused_problem *p, const fused_sequence *s, int64_t head, int64_t first, int64_t end)
{
    int64_t rows = end - first < p->width ? end - first : p->width, unused;
    fused_panel panel = {.sequence = s, .head = head, .first = first, .rows = rows};
    lab__fused_keys_of(p, s, first, &panel.lowest, &unused);
    lab__fused_keys_of(p, s, first + rows - 1, &unused, &panel.end);
    return panel;
}
