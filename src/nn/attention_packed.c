/* attention_packed.c - sequences of different lengths behind one another: attention on each alone. The composed path
 * goes from one to the next; the fused op takes all of them at once.
 *
 * q is [total_q, Hq, d], k and v are [total_k, Hk, d or dv]; sequence s has the rows cu[s] ... cu[s + 1] - 1.
 */
#include "attention_fused.h"

#include <limits.h>
#include <string.h>

typedef struct packed {
    const lab_attention_opts *opts;
    lab_tensor *q, *k, *v, *cu_q, *cu_k;
    int64_t sequences;
} packed;

/* ---- Checks ---------------------------------------------------------------------------------------------------------- */

static lab_status check_operands(const lab_graph *g, const packed *p)
{
    lab_tensor *operands[] = {p->q, p->k, p->v, p->cu_q, p->cu_k};
    const char *names[] = {"q", "k", "v", "cu_q", "cu_k"};
    for (int i = 0; i < 5; i++) {
        if (!operands[i])
            return lab__fail(LAB_ERR_ARGUMENT, "operand %d (%s) is NULL", i + 1, names[i]);
        if (!lab__readable(g, operands[i]))
            return lab__fail(LAB_ERR_STATE, "%s (%s) was computed on another graph", names[i],
                             lab__tensor_text(operands[i]));
        if (i < 3 && operands[i]->rank != 3)
            return lab__fail(LAB_ERR_SHAPE, "%s %s must be [total, heads, size]", names[i],
                             lab__shape_text(operands[i]->rank, operands[i]->shape));
    }
    if (p->v->shape[0] != p->k->shape[0])
        return lab__fail(LAB_ERR_SHAPE, "k has %lld rows, v has %lld; there must be as many", (long long)p->k->shape[0],
                         (long long)p->v->shape[0]);
    return LAB_OK;
}

static lab_status check_lengths(const lab_tensor *cu, const char *name, int64_t total)
{
    if (cu->dtype != LAB_I64)
        return lab__fail(LAB_ERR_DTYPE, "%s is %s, must be i64", name, lab_dtype_name(cu->dtype));
    if (cu->rank != 1 || cu->shape[0] < 1)
        return lab__fail(LAB_ERR_SHAPE, "%s %s must be [sequences + 1]", name, lab__shape_text(cu->rank, cu->shape));
    int64_t n = cu->shape[0] - 1;
    if (lab__i64_at(cu, 0) != 0 || lab__i64_at(cu, n) != total)
        return lab__fail(LAB_ERR_RANGE, "%s runs from %lld to %lld, must run from 0 to the total (%lld)", name,
                         (long long)lab__i64_at(cu, 0), (long long)lab__i64_at(cu, n), (long long)total);
    for (int64_t s = 0; s < n; s++)
        if (lab__i64_at(cu, s + 1) < lab__i64_at(cu, s))
            return lab__fail(LAB_ERR_RANGE, "%s decreases from %lld to %lld at %lld", name,
                             (long long)lab__i64_at(cu, s), (long long)lab__i64_at(cu, s + 1), (long long)s);
    return LAB_OK;
}

static lab_status check_options(const lab_graph *g, const packed *p)
{
    const lab_attention_opts *o = p->opts;
    const char *refused = o->mask ? "mask" : o->bias ? "bias" : o->probs ? "probs" : o->key_lengths ? "key_lengths" : 0;
    if (refused)
        return lab__fail(LAB_ERR_UNSUPPORTED, "%s does not go with packed sequences", refused);
    if (!o->offsets)
        return LAB_OK;
    if (!lab__readable(g, o->offsets))
        return lab__fail(LAB_ERR_STATE, "offsets was computed on another graph");
    if (o->offsets->dtype != LAB_I64)
        return lab__fail(LAB_ERR_DTYPE, "offsets is %s, must be i64", lab_dtype_name(o->offsets->dtype));
    if (o->offsets->rank != 1 || o->offsets->shape[0] != p->sequences)
        return lab__fail(LAB_ERR_SHAPE, "offsets %s must be [%lld], one for each sequence",
                         lab__shape_text(o->offsets->rank, o->offsets->shape), (long long)p->sequences);
    if (o->offset != 0)
        return lab__fail(LAB_ERR_ARGUMENT, "both offset (%lld) and offsets are given", (long long)o->offset);
    if (o->causal == LAB_CAUSAL_TOP_LEFT || o->causal == LAB_CAUSAL_BOTTOM_RIGHT)
        return lab__fail(LAB_ERR_ARGUMENT, "offsets is given, but causal %s has an offset of its own",
                         o->causal == LAB_CAUSAL_TOP_LEFT ? "TOP_LEFT" : "BOTTOM_RIGHT");
    return LAB_OK;
}

static lab_status check(const lab_graph *g, packed *p)
{
    lab_status status = check_operands(g, p);
    if (status == LAB_OK)
        status = check_lengths(p->cu_q, "cu_q", p->q->shape[0]);
    if (status == LAB_OK)
        status = check_lengths(p->cu_k, "cu_k", p->k->shape[0]);
    if (status != LAB_OK)
        return status;
    p->sequences = p->cu_q->shape[0] - 1;
    if (p->cu_k->shape[0] - 1 != p->sequences)
        return lab__fail(LAB_ERR_SHAPE, "cu_q has %lld sequences, cu_k has %lld", (long long)p->sequences,
                         (long long)p->cu_k->shape[0] - 1);
    if (p->sequences > INT_MAX)
        return lab__fail(LAB_ERR_RANGE, "%lld sequences are more than a concatenation takes", (long long)p->sequences);
    return check_options(g, p);
}

/* ---- The loop -------------------------------------------------------------------------------------------------------- */

/* Rows cu[s] ... of x as one sequence [heads, T, size]: views. Without any sequence there is one of no rows, so that
 * the result hangs on its operands as it always does. */
static lab_tensor *sequence_of(lab_graph *g, lab_tensor *x, const lab_tensor *cu, int64_t s)
{
    int64_t start = lab__i64_at(cu, s), stop = s + 1 < cu->shape[0] ? lab__i64_at(cu, s + 1) : start;
    return lab_transpose(g, lab_slice(g, x, 0, start, stop, 1), 0, 1);
}

/* Attention on sequence s: [T, Hq, dv], and [T, Hq] into *lse if that is asked for. */
static lab_tensor *attend_to(lab_graph *g, const packed *p, int64_t s, lab_tensor **lse)
{
    lab_attention_opts opts = *p->opts;
    if (opts.offsets && s < p->sequences)
        opts.offset = lab__i64_at(opts.offsets, s);
    opts.offsets = NULL;
    opts.lse = opts.lse ? lse : NULL;
    lab_tensor *q = sequence_of(g, p->q, p->cu_q, s);
    lab_tensor *k = sequence_of(g, p->k, p->cu_k, s);
    lab_tensor *v = sequence_of(g, p->v, p->cu_k, s);
    if (!lab__healthy(g))
        return NULL;
    attention a;
    lab_status status = lab__attention_read(g, &a, q, k, v, &opts);
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "attention_packed", status);
    a.first_batch = s;
    if (s == 0 && opts.stats)
        memset(opts.stats, 0, (size_t)a.heads * sizeof *opts.stats);
    lab_tensor *out = lab_transpose(g, lab__attend(g, q, k, v, &a), 0, 1);
    if (opts.lse)
        *lse = lab_transpose(g, *lse, 0, 1);
    return out;
}

static lab_tensor *attend_to_all(lab_graph *g, const packed *p)
{
    int64_t n = p->sequences > 0 ? p->sequences : 1;
    lab_tensor **outs = lab__keep(g, (size_t)n * sizeof *outs);
    lab_tensor **lses = lab__keep(g, (size_t)n * sizeof *lses);
    if (!outs || !lses)
        return lab__refuse(g, "attention_packed", LAB_ERR_MEMORY, "no memory for %lld sequences", (long long)n);
    for (int64_t s = 0; s < n; s++) {
        outs[s] = attend_to(g, p, s, &lses[s]);
        if (!outs[s])
            return NULL;
    }
    lab_tensor *out = lab_concat(g, (int)n, outs, 0);
    if (out && p->opts->stats)
        lab__stats_finish(p->q->shape[1], p->opts->stats);
    if (out && p->opts->lse)
        *p->opts->lse = lab_concat(g, (int)n, lses, 0);
    if (!lab__healthy(g) && p->opts->lse)
        *p->opts->lse = NULL;
    return lab__healthy(g) ? out : NULL;
}

/* ---- All at once ------------------------------------------------------------------------------------------------------ */

/* The header of x with its rows where a sequence has them: [heads, total, size]. */
static lab_tensor as_one_sequence(const lab_tensor *x)
{
    lab_tensor view = *x;
    view.shape[0] = x->shape[1];
    view.shape[1] = x->shape[0];
    view.strides[0] = x->strides[1];
    view.strides[1] = x->strides[0];
    return view;
}

/* What attention checks, asked of all rows as if they were one sequence, and then what differs from one to the other.
 */
static lab_status read_all(const lab_graph *g, const packed *p, attention *a, lab_attention_opts *opts)
{
    const lab_tensor q = as_one_sequence(p->q), k = as_one_sequence(p->k), v = as_one_sequence(p->v);
    *opts = *p->opts;
    opts->offsets = NULL;
    lab_status status = lab__attention_read(g, a, &q, &k, &v, opts);
    for (int64_t s = 0; status == LAB_OK && s < p->sequences; s++) {
        const int64_t tk = lab__i64_at(p->cu_k, s + 1) - lab__i64_at(p->cu_k, s);
        if (p->opts->offsets)
            status = lab__attention_offset_fits(lab__i64_at(p->opts->offsets, s), a->tq, a->tk, s);
        if (status == LAB_OK && tk == 0 && opts->empty_row == LAB_EMPTY_UNIFORM)
            status = lab__fail(LAB_ERR_RANGE, "empty_row asks for the mean of v, but sequence %lld has no keys",
                               (long long)s);
    }
    a->opts = p->opts;
    return status;
}

static lab_tensor *attend_fused(lab_graph *g, const packed *p)
{
    attention a;
    lab_attention_opts opts;
    lab_status status = read_all(g, p, &a, &opts);
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "attention_packed", status);
    if (p->opts->stats)
        memset(p->opts->stats, 0, (size_t)a.heads * sizeof *p->opts->stats);
    lab_tensor *out = lab__attend_fused(g, &a, p->q, p->k, p->v, p->cu_q, p->cu_k);
    if (out && p->opts->stats)
        lab__stats_finish(a.heads, p->opts->stats);
    return out;
}

lab_tensor *lab_attention_packed(lab_graph *g, lab_tensor *q, lab_tensor *k, lab_tensor *v, lab_tensor *cu_q,
                                 lab_tensor *cu_k, const lab_attention_opts *opts)
{
    static const lab_attention_opts defaults = {0};
    packed p = {.opts = opts ? opts : &defaults, .q = q, .k = k, .v = v, .cu_q = cu_q, .cu_k = cu_k};
    if (p.opts->lse)
        *p.opts->lse = NULL;
    if (p.opts->probs)
        *p.opts->probs = NULL;
    if (!lab__healthy(g))
        return NULL;
    lab_status status = check(g, &p);
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "attention_packed", status);
    return p.opts->path == LAB_PATH_COMPOSED ? attend_to_all(g, &p) : attend_fused(g, &p);
}
