/* attention_fused.c - attention as one op without the T x T array: operands, results, and which path a call takes.
 *
 * The composed definition (attention.c) is this op's twin: tests hold the two together, and a second derivative is
 * the twin's.
 */
#include "attention_fused.h"

#include <string.h>

/* ---- The op ---------------------------------------------------------------------------------------------------------- */

static lab_status fused_shape(lab_op_call *call)
{
    const lab_tensor *q = call->in[IN_Q], *v = call->in[IN_V];
    const fused_attrs *a = call->attrs;
    lab_spec *out = &call->specs[OUT_RESULT];
    *out = (lab_spec){.dtype = q->dtype, .rank = q->rank};
    memcpy(out->shape, q->shape, sizeof out->shape);
    out->shape[q->rank - 1] = v->shape[v->rank - 1];
    for (int i = OUT_LSE; i < OUTS; i++) {
        lab_spec *spec = &call->specs[i];
        *spec = (lab_spec){.dtype = q->dtype, .rank = a->rows ? q->rank - 1 : 1};
        if (a->rows)
            memcpy(spec->shape, q->shape, sizeof spec->shape);
    }
    return LAB_OK;
}

/* Two products of d and dv flops for each pair of query and key that may meet by position. */
static double fused_flops(const lab_op_call *call)
{
    const fused_problem p = lab__fused_problem(call->attrs, call->in);
    double pairs = 0;
    for (int64_t b = 0; b < p.batch; b++) {
        const fused_sequence s = lab__fused_sequence(&p, b);
        for (int64_t i = 0; i < s.tq; i++) {
            int64_t first, stop;
            lab__fused_keys_of(&p, &s, i, &first, &stop);
            pairs += first < stop ? (double)(stop - first) : 0;
        }
    }
    return 2 * (double)(p.d + p.dv) * pairs * (double)p.heads;
}

/* ---- Its second derivative: the twin's ---------------------------------------------------------------------------------- */

static lab_tensor *composed_twin(lab_graph *g, const lab_vjp_call *call, lab_tensor **lse)
{
    const fused_attrs *a = call->attrs;
    lab_tensor *const *in = call->in;
    const lab_attention_opts opts = {.scale = in[IN_SCALE] ? 0 : a->scale,
                                     .scale_tensor = in[IN_SCALE],
                                     .causal = a->causal,
                                     .offset = in[IN_OFFSETS] ? 0 : a->offset,
                                     .offsets = in[IN_OFFSETS],
                                     .window = {.limited = true, .left = a->left, .right = a->right},
                                     .mask = in[IN_MASK],
                                     .bias = in[IN_BIAS],
                                     .key_lengths = in[IN_LENGTHS],
                                     .alibi_slopes = in[IN_SLOPES],
                                     .sink = in[IN_SINK],
                                     .softcap = a->softcap,
                                     .dropout = a->dropout,
                                     .seed = a->seed,
                                     .stream = a->stream,
                                     .path = LAB_PATH_COMPOSED,
                                     .empty_row = a->empty_row,
                                     .lse = lse};
    if (a->packed)
        return lab_attention_packed(g, in[IN_Q], in[IN_K], in[IN_V], in[IN_CU_Q], in[IN_CU_K], &opts);
    return lab_attention(g, in[IN_Q], in[IN_K], in[IN_V], &opts);
}

static lab_status fused_vjp(lab_graph *g, lab_vjp_call *call)
{
    const lab_grad_opts again = {.create_graph = true};
    lab_tensor *wanted[INS], *grads[INS], *lse = NULL;
    lab_tensor *y = composed_twin(g, call, call->grad_out[OUT_LSE] ? &lse : NULL);
    int count = 0;
    for (int i = 0; i < INS; i++)
        if (call->wants[i])
            wanted[count++] = call->in[i];
    for (int result = OUT_RESULT; result <= OUT_LSE; result++) {
        if (!call->grad_out[result])
            continue;
        if (lab_grad(g, result == OUT_LSE ? lse : y, call->grad_out[result], count, wanted, grads, &again) != LAB_OK)
            return lab_graph_status(g);
        for (int i = 0, n = 0; i < INS; i++) {
            if (!call->wants[i])
                continue;
            call->grad_in[i] = call->grad_in[i] ? lab_add(g, call->grad_in[i], grads[n]) : grads[n];
            n++;
        }
    }
    return lab_graph_status(g);
}

static const lab_op fused_op = {
    .name = "attention",
    .inputs = INS,
    .outputs = OUTS,
    .hidden = OUTS - 1 - OUT_LSE,
    .optional = ~UINT64_C(7),
    .constant = 1 << IN_MASK | 1 << IN_LENGTHS | 1 << IN_OFFSETS | 1 << IN_CU_Q | 1 << IN_CU_K,
    .shape = fused_shape,
    .scratch = lab__fused_forward_scratch,
    .forward = lab__fused_forward,
    .vjp = fused_vjp,
    .backward_scratch = lab__fused_backward_scratch,
    .backward = lab__fused_backward,
    .flops = fused_flops,
};

/* ---- Calling it ------------------------------------------------------------------------------------------------------- */

lab_path lab__attention_choose(const attention *a, const char **why)
{
    const char *reason = "nothing stands in the way of the fused kernel";
    lab_path path = LAB_PATH_FUSED;
    if (a->opts->path == LAB_PATH_COMPOSED) {
        path = LAB_PATH_COMPOSED;
        reason = "the options ask for the composed path";
    } else if (a->opts->probs) {
        path = LAB_PATH_COMPOSED;
        reason = "probs is asked for, which the composed path alone has";
    }
    if (why)
        *why = reason;
    return path;
}

/* The products read the columns of k and v side by side. */
static lab_tensor *dense_columns(lab_graph *g, lab_tensor *x)
{
    return x && lab_tensor_size(x, -1) > 1 && lab_tensor_stride(x, -1) != 1 ? lab_contiguous(g, x) : x;
}

lab_tensor *lab__attend_fused(lab_graph *g, const attention *a, lab_tensor *q, lab_tensor *k, lab_tensor *v,
                              lab_tensor *cu_q, lab_tensor *cu_k)
{
    const lab_attention_opts *o = a->opts;
    const fused_attrs attrs = {.causal = o->causal,
                               .empty_row = o->empty_row,
                               .rows = o->lse || g->mode == MODE_RECORD,
                               .row_by_row = g->batch_invariant,
                               .packed = cu_q,
                               .workers = lab__parallel_threads(),
                               .left = o->window.limited ? o->window.left : -1,
                               .right = o->window.limited ? o->window.right : -1,
                               .offset = o->offset,
                               .scale = a->scale,
                               .softcap = o->softcap,
                               .dropout = o->dropout,
                               .seed = o->seed,
                               .stream = o->stream,
                               .stats = o->stats};
    lab_tensor *in[INS] = {[IN_Q] = q,
                           [IN_K] = dense_columns(g, k),
                           [IN_V] = dense_columns(g, v),
                           [IN_BIAS] = o->bias,
                           [IN_SLOPES] = o->alibi_slopes,
                           [IN_SINK] = o->sink,
                           [IN_SCALE] = o->scale_tensor,
                           [IN_MASK] = o->mask,
                           [IN_LENGTHS] = o->key_lengths,
                           [IN_OFFSETS] = o->offsets,
                           [IN_CU_Q] = cu_q,
                           [IN_CU_K] = cu_k};
    lab_tensor *out[OUT_LSE + 1];
    if (lab_custom_op(g, &fused_op, &attrs, sizeof attrs, INS, in, OUT_LSE + 1, out) != LAB_OK)
        return NULL;
    if (o->lse)
        *o->lse = out[OUT_LSE];
    return out[OUT_RESULT];
}
