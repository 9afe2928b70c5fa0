/* attention.c - scaled dot-product attention, as it is defined.
 *
 *     out = softmax(scale * q k^T  where allowed, -inf elsewhere) v
 *
 * There is no derivative in this file: every line is an op that knows its own. What options do is said elsewhere:
 * mask.c and bias.c for the scores, dropout.c for the probabilities, empty_rows.c for queries without keys.
 */
#include "attention_fused.h"

#include <string.h>

/* x [..., Hq, m, n] @ y [..., Hk, n, p]: the heads of x that share a head of y are one tall matrix, nothing of y is
 * copied, and its gradient adds up inside the product. */
static lab_tensor *matmul_by_group(lab_graph *g, const attention *a, lab_tensor *x, lab_tensor *y)
{
    if (a->heads == a->kv_heads)
        return lab_matmul(g, x, y);
    int64_t tall[LAB_MAX_RANK], full[LAB_MAX_RANK];
    memcpy(tall, a->shape, sizeof tall);
    memcpy(full, a->shape, sizeof full);
    tall[a->rank - 3] = a->kv_heads;
    tall[a->rank - 2] = a->heads / a->kv_heads * a->tq;
    tall[a->rank - 1] = lab_tensor_size(x, -1);
    full[a->rank - 1] = lab_tensor_size(y, -1);
    return lab_reshape(g, lab_matmul(g, lab_reshape(g, x, a->rank, tall), y), a->rank, full);
}

/* Applied once, and to q: that is T x d instead of T x T. */
static lab_tensor *scaled(lab_graph *g, const attention *a, lab_tensor *q)
{
    return a->opts->scale_tensor ? lab_mul(g, q, lab_reshape(g, a->opts->scale_tensor, 0, NULL))
                                 : lab_mul_scalar(g, q, a->scale);
}

/* A sink is one more logit in every row: [..., Hq, Tq, Tk + 1]. It has no value, so its probability goes away. */
static lab_tensor *with_sink(lab_graph *g, const attention *a, lab_tensor *scores)
{
    if (!a->opts->sink)
        return scores;
    int64_t column[LAB_MAX_RANK];
    memcpy(column, a->shape, sizeof column);
    column[a->rank - 1] = 1;
    lab_tensor *sink = lab_reshape(g, a->opts->sink, 3, (int64_t[]){a->heads, 1, 1});
    return lab_concat(g, 2, (lab_tensor *[]){scores, lab_broadcast_to(g, sink, a->rank, column)}, -1);
}

static lab_tensor *without_sink(lab_graph *g, const attention *a, lab_tensor *weights)
{
    return a->opts->sink ? lab_slice(g, weights, -1, 0, a->tk, 1) : weights;
}

lab_tensor *lab__attend(lab_graph *g, lab_tensor *q, lab_tensor *k, lab_tensor *v, const attention *call)
{
    attention with_rows = *call;
    const attention *a = &with_rows;
    with_rows.rows_may_be_empty = lab__rows_may_be_empty(call, q, k);
    lab_tensor *scores = matmul_by_group(g, a, scaled(g, a, q), lab_transpose(g, k, -2, -1));
    scores = lab__attention_mask(g, a, lab__attention_bias(g, a, scores));
    lab_tensor *with_keys = lab__rows_with_keys(g, a, scores);
    lab_tensor *logits = with_sink(g, a, scores);
    lab_tensor *weights = without_sink(g, a, lab_softmax(g, logits, -1));
    lab_tensor *kept = lab__empty_row_weights(g, a, with_keys, lab__attention_dropout(g, a, weights));
    lab_tensor *out = lab__empty_row_output(g, a, with_keys, matmul_by_group(g, a, kept, v));

    if (a->opts->lse)
        *a->opts->lse = lab_logsumexp(g, logits, -1, false);
    if (a->opts->probs)
        *a->opts->probs = weights;
    if (a->opts->stats)
        lab__stats_add(a, lab_contiguous(g, scores));
    return out;
}

static void clear_outputs(const lab_attention_opts *opts)
{
    if (opts && opts->lse)
        *opts->lse = NULL;
    if (opts && opts->probs)
        *opts->probs = NULL;
}

lab_tensor *lab_attention(lab_graph *g, lab_tensor *q, lab_tensor *k, lab_tensor *v, const lab_attention_opts *opts)
{
    clear_outputs(opts);
    if (!lab__healthy(g))
        return NULL;
    attention a;
    lab_status status = lab__attention_read(g, &a, q, k, v, opts);
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "attention", status);
    if (a.opts->stats)
        memset(a.opts->stats, 0, (size_t)a.heads * sizeof *a.opts->stats);
    lab_tensor *out = lab__attention_choose(&a, NULL) == LAB_PATH_FUSED ? lab__attend_fused(g, &a, q, k, v, NULL, NULL)
                                                                        : lab__attend(g, q, k, v, &a);
    if (!lab__healthy(g)) {
        clear_outputs(opts);
        return NULL;
    }
    if (a.opts->stats)
        lab__stats_finish(a.heads, a.opts->stats);
    return out;
}

lab_path lab_attention_path(lab_graph *g, lab_tensor *q, lab_tensor *k, lab_tensor *v, const lab_attention_opts *opts,
                            const char **why)
{
    attention a;
    bool fine = lab__healthy(g) && lab__attention_read(g, &a, q, k, v, opts) == LAB_OK;
    if (fine)
        return lab__attention_choose(&a, why);
    if (why)
        *why = "the call would fail";
    return LAB_PATH_AUTO;
}
