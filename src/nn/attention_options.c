/* attention_options.c - is this call of attention well formed? Every refusal names what was wrong.
 *
 * Nothing is computed here and no graph is touched: the reader fills an `attention`, or says why it cannot.
 */
#include "attention_impl.h"

#include <float.h>

static const char *text(int rank, const int64_t *shape)
{
    return lab__shape_text(rank, shape);
}

static lab_status check_readable(const lab_graph *g, const lab_tensor *t, const char *name)
{
    if (t && !lab__readable(g, t))
        return lab__fail(LAB_ERR_STATE, "%s (%s) was computed on another graph", name, lab__tensor_text(t));
    return LAB_OK;
}

/* ---- q, k, v ----------------------------------------------------------------------------------------------------- */

static lab_status check_present(const lab_graph *g, const lab_tensor *q, const lab_tensor *k, const lab_tensor *v)
{
    const lab_tensor *operands[] = {q, k, v};
    const char *names[] = {"q", "k", "v"};
    for (int i = 0; i < 3; i++) {
        if (!operands[i])
            return lab__fail(LAB_ERR_ARGUMENT, "operand %d (%s) is NULL", i + 1, names[i]);
        lab_status status = check_readable(g, operands[i], names[i]);
        if (status != LAB_OK)
            return status;
    }
    for (int i = 0; i < 3; i++)
        if (!lab__is_float(operands[i]->dtype) || operands[i]->dtype != q->dtype)
            return lab__fail(LAB_ERR_DTYPE, "q, k and v must be of one floating-point dtype, are %s, %s, %s",
                             lab_dtype_name(q->dtype), lab_dtype_name(k->dtype), lab_dtype_name(v->dtype));
    return LAB_OK;
}

static lab_status check_shapes(const lab_tensor *q, const lab_tensor *k, const lab_tensor *v)
{
    const char *qs = text(q->rank, q->shape), *ks = text(k->rank, k->shape), *vs = text(v->rank, v->shape);
    int rank = q->rank;
    if (rank < 3 || k->rank != rank || v->rank != rank)
        return lab__fail(LAB_ERR_SHAPE,
                         "q %s, k %s and v %s must have the same number of axes, at least 3: [..., heads, T, d]", qs,
                         ks, vs);
    for (int i = 0; i < rank - 3; i++)
        if (k->shape[i] != q->shape[i] || v->shape[i] != q->shape[i])
            return lab__fail(LAB_ERR_SHAPE, "batch dimensions differ: q %s, k %s, v %s; axis %d must have one size", qs,
                             ks, vs, i);
    if (k->shape[rank - 1] != q->shape[rank - 1])
        return lab__fail(LAB_ERR_SHAPE, "head sizes differ: q %s, k %s; the last size of k (%lld) must be q's (%lld)",
                         qs, ks, (long long)k->shape[rank - 1], (long long)q->shape[rank - 1]);
    if (q->shape[rank - 1] < 1)
        return lab__fail(LAB_ERR_SHAPE, "the head size, the last size of q %s and k %s, must be at least 1", qs, ks);
    if (v->shape[rank - 2] != k->shape[rank - 2])
        return lab__fail(LAB_ERR_SHAPE, "k %s has %lld keys, v %s has %lld values; there must be one each", ks,
                         (long long)k->shape[rank - 2], vs, (long long)v->shape[rank - 2]);
    if (v->shape[rank - 3] != k->shape[rank - 3])
        return lab__fail(LAB_ERR_SHAPE, "k %s and v %s must have the same number of heads", ks, vs);
    int64_t heads = q->shape[rank - 3], kv_heads = k->shape[rank - 3];
    if (kv_heads == 0 ? heads != 0 : heads % kv_heads != 0)
        return lab__fail(LAB_ERR_SHAPE, "q %s has %lld heads, which is not a multiple of the %lld of k %s", qs,
                         (long long)heads, (long long)kv_heads, ks);
    return LAB_OK;
}

static void read_sizes(attention *a, const lab_tensor *q, const lab_tensor *k, const lab_tensor *v)
{
    int rank = q->rank;
    a->dtype = q->dtype;
    a->rank = rank;
    for (int i = 0; i < rank - 1; i++)
        a->shape[i] = q->shape[i];
    a->batch = lab__product(rank - 3, q->shape);
    a->heads = q->shape[rank - 3];
    a->kv_heads = k->shape[rank - 3];
    a->tq = q->shape[rank - 2];
    a->tk = a->shape[rank - 1] = k->shape[rank - 2];
    a->d = q->shape[rank - 1];
    a->dv = v->shape[rank - 1];
}

/* ---- Numbers ------------------------------------------------------------------------------------------------------ */

/* Finite in the dtype that it will be rounded to. */
static bool is_finite(const attention *a, double x)
{
    return isfinite(x) && (a->dtype == LAB_F64 || fabs(x) <= FLT_MAX);
}

static lab_status check_scale(attention *a)
{
    const lab_attention_opts *o = a->opts;
    if (o->scale_tensor) {
        if (o->scale != 0)
            return lab__fail(LAB_ERR_ARGUMENT, "both scale (%g) and scale_tensor are given", o->scale);
        if (o->scale_tensor->numel != 1)
            return lab__fail(LAB_ERR_SHAPE, "scale_tensor %s must have one element",
                             text(o->scale_tensor->rank, o->scale_tensor->shape));
        if (o->scale_tensor->dtype != a->dtype)
            return lab__fail(LAB_ERR_DTYPE, "scale_tensor is %s, q is %s", lab_dtype_name(o->scale_tensor->dtype),
                             lab_dtype_name(a->dtype));
    }
    if (!is_finite(a, o->scale))
        return lab__fail(LAB_ERR_RANGE, "scale is %g, must be finite in %s", o->scale, lab_dtype_name(a->dtype));
    a->scale = o->scale != 0 ? o->scale : 1 / sqrt((double)a->d);
    return LAB_OK;
}

static lab_status check_dropout(const lab_attention_opts *o)
{
    if (!(o->dropout >= 0 && o->dropout < 1))
        return lab__fail(LAB_ERR_RANGE, "dropout is %g, must be in [0, 1)", o->dropout);
    return LAB_OK;
}

static lab_status check_numbers(attention *a)
{
    const lab_attention_opts *o = a->opts;
    lab_status status = check_scale(a);
    if (status != LAB_OK)
        return status;
    if (!(o->softcap >= 0) || !is_finite(a, o->softcap) ||
        (o->softcap > 0 && a->dtype == LAB_F32 && !(float)o->softcap))
        return lab__fail(LAB_ERR_RANGE, "softcap is %g, must be positive and finite in %s, or 0 for none", o->softcap,
                         lab_dtype_name(a->dtype));
    if ((unsigned)o->path > LAB_PATH_FUSED)
        return lab__fail(LAB_ERR_ARGUMENT, "path is %d, must be a lab_path", (int)o->path);
    if ((unsigned)o->empty_row > LAB_EMPTY_UNIFORM)
        return lab__fail(LAB_ERR_ARGUMENT, "empty_row is %d, must be a lab_empty_row", (int)o->empty_row);
    if (o->empty_row == LAB_EMPTY_UNIFORM && a->tk == 0)
        return lab__fail(LAB_ERR_RANGE, "empty_row asks for the mean of v over the keys, but there are none (Tk is 0)");
    return check_dropout(o);
}

/* ---- Positions ---------------------------------------------------------------------------------------------------- */

/* pos_i + Tk and pos_i - Tk must be whole numbers of 64 bits, so that nothing that compares them overflows. */
static bool offset_fits(int64_t offset, int64_t tq, int64_t tk)
{
    int64_t room = INT64_MAX - tk;
    return tq <= room && offset <= room - tq && offset >= -(room - tq);
}

lab_status lab__attention_offset_fits(int64_t offset, int64_t tq, int64_t tk, int64_t index)
{
    if (!offset_fits(offset, tq, tk))
        return lab__fail(LAB_ERR_RANGE, "offsets[%lld] is %lld: positions would overflow", (long long)index,
                         (long long)offset);
    return LAB_OK;
}

static lab_status check_offsets(const lab_attention_opts *o, int64_t tq, int64_t tk)
{
    bool stated = o->offset != 0 || o->offsets;
    if ((unsigned)o->causal > LAB_CAUSAL_OFFSET)
        return lab__fail(LAB_ERR_ARGUMENT, "causal is %d, must be a lab_causal", (int)o->causal);
    if (o->offset != 0 && o->offsets)
        return lab__fail(LAB_ERR_ARGUMENT, "both offset (%lld) and offsets are given", (long long)o->offset);
    if (stated && (o->causal == LAB_CAUSAL_TOP_LEFT || o->causal == LAB_CAUSAL_BOTTOM_RIGHT))
        return lab__fail(LAB_ERR_ARGUMENT, "%s is given, but causal %s has an offset of its own",
                         o->offsets ? "offsets" : "offset",
                         o->causal == LAB_CAUSAL_TOP_LEFT ? "TOP_LEFT" : "BOTTOM_RIGHT");
    if (!offset_fits(o->offset, tq, tk))
        return lab__fail(LAB_ERR_RANGE, "offset is %lld: positions would overflow", (long long)o->offset);
    lab_status status = LAB_OK;
    for (int64_t i = 0; status == LAB_OK && i < lab_tensor_numel(o->offsets); i++)
        status = lab__attention_offset_fits(lab__i64_at(o->offsets, i), tq, tk, i);
    return status;
}

static lab_status check_window(const lab_window *w)
{
    if (w->limited && (w->left < -1 || w->right < -1))
        return lab__fail(LAB_ERR_RANGE, "window is (%lld, %lld); each side must be -1 (open) or more",
                         (long long)w->left, (long long)w->right);
    if (!w->limited && (w->left > 0 || w->right > 0))
        return lab__fail(LAB_ERR_ARGUMENT, "window has sizes (%lld, %lld), but is not limited", (long long)w->left,
                         (long long)w->right);
    return LAB_OK;
}

static lab_status check_per_batch(const attention *a, const lab_tensor *t, const char *name)
{
    if (!t)
        return LAB_OK;
    if (t->dtype != LAB_I64)
        return lab__fail(LAB_ERR_DTYPE, "%s is %s, must be i64", name, lab_dtype_name(t->dtype));
    bool fits = t->rank == a->rank - 3;
    for (int i = 0; fits && i < t->rank; i++)
        fits = t->shape[i] == a->shape[i];
    if (!fits)
        return lab__fail(LAB_ERR_SHAPE, "%s %s must have the shape of the batch dimensions, %s", name,
                         text(t->rank, t->shape), text(a->rank - 3, a->shape));
    return LAB_OK;
}

static lab_status check_key_lengths(const attention *a)
{
    const lab_tensor *lengths = a->opts->key_lengths;
    for (int64_t i = 0; i < lab_tensor_numel(lengths); i++) {
        int64_t length = lab__i64_at(lengths, i);
        if (length < 0 || length > a->tk)
            return lab__fail(LAB_ERR_RANGE, "key_lengths[%lld] is %lld, must be 0 to Tk (%lld)", (long long)i,
                             (long long)length, (long long)a->tk);
    }
    return LAB_OK;
}

static lab_status check_positions(const attention *a)
{
    lab_status status = check_per_batch(a, a->opts->offsets, "offsets");
    if (status == LAB_OK)
        status = check_per_batch(a, a->opts->key_lengths, "key_lengths");
    if (status == LAB_OK)
        status = check_key_lengths(a);
    if (status == LAB_OK)
        status = check_window(&a->opts->window);
    return status == LAB_OK ? check_offsets(a->opts, a->tq, a->tk) : status;
}

/* ---- Tensors that go with the scores ------------------------------------------------------------------------------- */

static lab_status check_broadcasts(const attention *a, const lab_tensor *t, const char *name, lab_dtype dtype)
{
    if (!t)
        return LAB_OK;
    if (t->dtype != dtype)
        return lab__fail(LAB_ERR_DTYPE, "%s is %s, must be %s", name, lab_dtype_name(t->dtype), lab_dtype_name(dtype));
    bool fits = t->rank <= a->rank;
    for (int i = 0; fits && i < t->rank; i++)
        fits = t->shape[i] == 1 || t->shape[i] == a->shape[a->rank - t->rank + i];
    if (!fits)
        return lab__fail(LAB_ERR_SHAPE, "%s %s does not broadcast to the scores' %s", name, text(t->rank, t->shape),
                         text(a->rank, a->shape));
    return LAB_OK;
}

static lab_status check_per_head(const attention *a, const lab_tensor *t, const char *name)
{
    if (!t)
        return LAB_OK;
    if (t->dtype != a->dtype)
        return lab__fail(LAB_ERR_DTYPE, "%s is %s, q is %s", name, lab_dtype_name(t->dtype), lab_dtype_name(a->dtype));
    if (t->rank != 1 || t->shape[0] != a->heads)
        return lab__fail(LAB_ERR_SHAPE, "%s %s must be [%lld], one for each head of q", name, text(t->rank, t->shape),
                         (long long)a->heads);
    return LAB_OK;
}

static lab_status check_tensors(const lab_graph *g, const attention *a)
{
    const lab_attention_opts *o = a->opts;
    lab_status status = check_broadcasts(a, o->mask, "mask", LAB_BOOL);
    if (status == LAB_OK)
        status = check_broadcasts(a, o->bias, "bias", a->dtype);
    if (status == LAB_OK)
        status = check_per_head(a, o->alibi_slopes, "alibi_slopes");
    if (status == LAB_OK)
        status = check_per_head(a, o->sink, "sink");
    const lab_tensor *tensors[] = {o->mask, o->bias, o->alibi_slopes, o->sink, o->scale_tensor};
    const char *names[] = {"mask", "bias", "alibi_slopes", "sink", "scale_tensor"};
    for (int i = 0; status == LAB_OK && i < 5; i++)
        status = check_readable(g, tensors[i], names[i]);
    return status;
}

/* ---- The whole call ------------------------------------------------------------------------------------------------ */

lab_status lab__attention_read(const lab_graph *g, attention *a, const lab_tensor *q, const lab_tensor *k,
                               const lab_tensor *v, const lab_attention_opts *opts)
{
    static const lab_attention_opts defaults = {0};
    *a = (attention){.opts = opts ? opts : &defaults};
    lab_status status = check_present(g, q, k, v);
    if (status == LAB_OK)
        status = check_shapes(q, k, v);
    if (status != LAB_OK)
        return status;
    read_sizes(a, q, k, v);
    if (!lab__all_zero(a->opts->reserved))
        return lab__fail(LAB_ERR_ARGUMENT, "the options' reserved words are not zero");
    if ((status = check_readable(g, a->opts->offsets, "offsets")) != LAB_OK ||
        (status = check_readable(g, a->opts->key_lengths, "key_lengths")) != LAB_OK ||
        (status = check_numbers(a)) != LAB_OK || (status = check_positions(a)) != LAB_OK ||
        (status = check_tensors(g, a)) != LAB_OK)
        return status;
    if (a->opts->path == LAB_PATH_FUSED && a->opts->probs)
        return lab__fail(LAB_ERR_UNSUPPORTED, "path FUSED: probs stands in the way, which the composed path alone has");
    if (lab__in_checkpoint(g) && (a->opts->lse || a->opts->probs || a->opts->stats))
        return lab__fail(LAB_ERR_UNSUPPORTED, "%s: only the result leaves a checkpointed function",
                         a->opts->lse     ? "lse"
                         : a->opts->probs ? "probs"
                                          : "stats");
    return LAB_OK;
}

lab_status lab__attention_read_dropout(const lab_graph *g, const attention *a)
{
    lab_status status;
    if (!lab__all_zero(a->opts->reserved))
        return lab__fail(LAB_ERR_ARGUMENT, "the options' reserved words are not zero");
    if ((status = check_readable(g, a->opts->offsets, "offsets")) != LAB_OK ||
        (status = check_readable(g, a->opts->key_lengths, "key_lengths")) != LAB_OK ||
        (status = check_dropout(a->opts)) != LAB_OK)
        return status;
    return check_positions(a);
}
