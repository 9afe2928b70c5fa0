/* mask.c - who may look where.
 *
 *     pos_i = i + offset
 *     allowed_ij = (causal: j <= pos_i) and (window: pos_i - left <= j <= pos_i + right)
 *                  and (key lengths: j < length) and (mask_ij)
 *
 * Forbidden scores are not lowered by a large number but replaced by -inf: what was there leaves no trace.
 */
#include "attention_impl.h"

/* One number per batch, [...], beside scores [..., Hq, Tq, Tk]. */
static lab_tensor *per_batch(lab_graph *g, const attention *a, lab_tensor *numbers)
{
    int64_t shape[LAB_MAX_RANK];
    for (int i = 0; i < a->rank; i++)
        shape[i] = i < a->rank - 3 ? a->shape[i] : 1;
    return lab_reshape(g, numbers, a->rank, shape);
}

lab_tensor *lab__attention_offset(lab_graph *g, const attention *a)
{
    const lab_attention_opts *o = a->opts;
    if (o->causal == LAB_CAUSAL_BOTTOM_RIGHT && o->key_lengths)
        return lab_sub(g, per_batch(g, a, o->key_lengths), lab__whole(g, a->tq));
    if (o->causal == LAB_CAUSAL_BOTTOM_RIGHT)
        return lab__whole(g, a->tk - a->tq);
    return o->offsets ? per_batch(g, a, o->offsets) : lab__whole(g, o->offset);
}

lab_tensor *lab__attention_positions(lab_graph *g, const attention *a)
{
    return lab_add(g, lab__count_along(g, a->tq, 2), lab__attention_offset(g, a));
}

/* The rules are collected one by one; no rule yet is NULL. */
static lab_tensor *both(lab_graph *g, lab_tensor *allowed, lab_tensor *rule)
{
    return allowed ? lab_logical_and(g, allowed, rule) : rule;
}

static lab_tensor *allowed_by_position(lab_graph *g, const attention *a, lab_tensor *keys)
{
    const lab_window *w = &a->opts->window;
    bool causal = a->opts->causal != LAB_CAUSAL_NONE;
    int64_t left = w->limited ? w->left : -1, right = w->limited ? w->right : -1;
    if (!causal && left < 0 && right < 0)
        return NULL;
    lab_tensor *positions = lab__attention_positions(g, a), *allowed = NULL;
    if (causal)
        allowed = lab_less_equal(g, keys, positions);
    if (left > INT64_MAX - a->tk)
        left = INT64_MAX - a->tk; /* no position reaches further, and keys + left does not overflow */
    if (left >= 0)
        allowed = both(g, allowed, lab_less_equal(g, positions, lab_add(g, keys, lab__whole(g, left))));
    if (right >= 0)
        allowed = both(g, allowed, lab_less_equal(g, lab_sub(g, keys, lab__whole(g, right)), positions));
    return allowed;
}

lab_tensor *lab__attention_mask(lab_graph *g, const attention *a, lab_tensor *scores)
{
    lab_tensor *keys = lab__count_along(g, a->tk, 1);
    lab_tensor *allowed = allowed_by_position(g, a, keys);
    if (a->opts->key_lengths)
        allowed = both(g, allowed, lab_less(g, keys, per_batch(g, a, a->opts->key_lengths)));
    if (a->opts->mask)
        allowed = both(g, allowed, a->opts->mask);
    return allowed ? lab_where(g, allowed, scores, lab__number(g, scores, -INFINITY)) : scores;
}
