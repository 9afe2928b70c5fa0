/* bias.c - what happens to the scores before the mask.
 *
 *     s = cap tanh(s / cap)             soft cap
 *     s = s + bias                      any float tensor that broadcasts
 *     s = s - slope_head |pos_i - j|    ALiBi (Press et al. 2021)
 */
#include "attention_impl.h"

static lab_tensor *soft_cap(lab_graph *g, lab_tensor *scores, double cap)
{
    return lab_mul_scalar(g, lab_tanh(g, lab_div(g, scores, lab__number(g, scores, cap))), cap);
}

static lab_tensor *alibi(lab_graph *g, const attention *a)
{
    lab_tensor *distance = lab_abs(g, lab_sub(g, lab__attention_positions(g, a), lab__count_along(g, a->tk, 1)));
    lab_tensor *slopes = lab_reshape(g, a->opts->alibi_slopes, 3, (int64_t[]){a->heads, 1, 1});
    return lab_mul(g, slopes, lab_cast(g, distance, a->dtype));
}

lab_tensor *lab__attention_bias(lab_graph *g, const attention *a, lab_tensor *scores)
{
    if (a->opts->softcap > 0)
        scores = soft_cap(g, scores, a->opts->softcap);
    if (a->opts->bias)
        scores = lab_add(g, scores, a->opts->bias);
    if (a->opts->alibi_slopes)
        scores = lab_sub(g, scores, alibi(g, a));
    return scores;
}
