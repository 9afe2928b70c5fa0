/* dropout.c - which probabilities are kept: a function of (seed, stream, batch, head, position, key) alone.
 *
 *     key     = the first two words of Philox(key = seed, counter = (stream, 0, 0))
 *     counter = low 32 bits of (batch, head, pos_i, floor(j / 4)), word j mod 4
 *     kept    where the word's upper 24 bits * 2^-24 >= p, compared in double
 *
 * So the mask is the same for both precisions, any tiling and any number of threads.
 * Source: Srivastava et al. 2014; Philox 4x32-10 (Salmon et al. 2011).
 */
#include "attention_impl.h"

#include "kernels/kernels.h"

typedef struct dropout_attrs {
    uint32_t key[2];
    double p;
    int64_t batch, heads, tq, tk;
    int64_t first_batch;
} dropout_attrs;

static lab_status mask_shape(lab_op_call *call)
{
    const dropout_attrs *m = call->attrs;
    call->specs[0] = (lab_spec){.dtype = LAB_BOOL, .rank = 4, .shape = {m->batch, m->heads, m->tq, m->tk}};
    return LAB_OK;
}

static void fill_row(const dropout_attrs *m, int64_t batch, int64_t head, int64_t position, uint8_t *kept)
{
    uint32_t counter[4] = {(uint32_t)batch, (uint32_t)head, (uint32_t)position, 0}, words[4];
    for (int64_t j = 0; j < m->tk; j++) {
        if (j % 4 == 0) {
            counter[3] = (uint32_t)(j / 4);
            lab__philox(counter, m->key, words);
        }
        kept[j] = (words[j % 4] >> 8) * 0x1p-24 >= m->p;
    }
}

static lab_status mask_forward(lab_op_call *call)
{
    const dropout_attrs *m = call->attrs;
    const lab_tensor *offset = call->in[0];
    uint8_t *kept = lab_tensor_data(call->out[0]);
    for (int64_t b = 0; b < m->batch; b++) {
        int64_t first = lab__i64_at(offset, lab_tensor_numel(offset) == 1 ? 0 : b);
        for (int64_t h = 0; h < m->heads; h++)
            for (int64_t i = 0; i < m->tq; i++, kept += m->tk)
                fill_row(m, m->first_batch + b, h, first + i, kept);
    }
    return LAB_OK;
}

/* A constant, so it has no derivative: [batch, heads, Tq, Tk] from the offset of positions, one or one per batch. */
static const lab_op dropout_mask = {
    .name = "dropout_mask",
    .inputs = 1,
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = mask_shape,
    .forward = mask_forward,
};

void lab__dropout_key(uint64_t seed, uint64_t stream, uint32_t key[2])
{
    uint32_t words[4];
    lab__philox((uint32_t[]){(uint32_t)stream, (uint32_t)(stream >> 32), 0, 0},
                (uint32_t[]){(uint32_t)seed, (uint32_t)(seed >> 32)}, words);
    key[0] = words[0];
    key[1] = words[1];
}

static lab_tensor *make_mask(lab_graph *g, const attention *a)
{
    dropout_attrs attrs = {.p = a->opts->dropout,
                           .batch = a->batch,
                           .heads = a->heads,
                           .tq = a->tq,
                           .tk = a->tk,
                           .first_batch = a->first_batch};
    lab__dropout_key(a->opts->seed, a->opts->stream, attrs.key);
    lab_tensor *offset = lab__attention_offset(g, a), *mask;
    lab_custom_op(g, &dropout_mask, &attrs, sizeof attrs, 1, &offset, 1, &mask);
    return mask;
}

lab_tensor *lab__attention_dropout(lab_graph *g, const attention *a, lab_tensor *weights)
{
    if (a->opts->dropout == 0)
        return weights;
    lab_tensor *kept = lab_reshape(g, make_mask(g, a), a->rank, a->shape);
    weights = lab_where(g, kept, weights, lab__number(g, weights, 0));
    return lab_mul_scalar(g, weights, 1 / (1 - a->opts->dropout));
}

lab_tensor *lab_dropout_mask(lab_graph *g, const lab_attention_opts *opts, int64_t batch, int64_t heads, int64_t tq,
                             int64_t tk)
{
    static const lab_attention_opts defaults = {0};
    if (!lab__healthy(g))
        return NULL;
    int64_t sizes[] = {batch, heads, tq, tk};
    for (int i = 0; i < 4; i++)
        if (sizes[i] < 0)
            return lab__refuse(g, "dropout_mask", LAB_ERR_RANGE, "sizes %s must not be negative",
                               lab__shape_text(4, sizes));
    attention a = {.opts = opts ? opts : &defaults,
                   .rank = 4,
                   .shape = {batch, heads, tq, tk},
                   .batch = batch,
                   .heads = heads,
                   .tq = tq,
                   .tk = tk};
    lab_status status = lab__attention_read_dropout(g, &a);
    return status == LAB_OK ? make_mask(g, &a) : lab__refuse_as_said(g, "dropout_mask", status);
}
