/* cases_attention.c - the parts on attention: sdpa, and mha with its weights stacked. */
#include "cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference_attention.h"

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* [B, T] -> [B, 1, 1, T], to broadcast over heads and queries. */
static lab_tensor *over_queries(lab_graph *g, lab_tensor *t)
{
    if (!t)
        return NULL;
    int64_t batch = lab_tensor_rank(t) > 1 ? lab_tensor_size(t, 0) : 1;
    return lab_reshape(g, t, 4, (int64_t[]){batch, 1, 1, lab_tensor_size(t, -1)});
}

static lab_tensor *both(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return a && b ? lab_logical_and(g, a, b) : a ? a : b;
}

/* Where the part says no more than "yes": as the convention says, from the top left if there is none. */
static bool read_causal(run *r, lab_causal *causal)
{
    const json_t *given = json_object_get(json_object_get(r->part->json, "params"), "causal");
    const char *word = json_string_value(given);
    if (!word)
        word = json_is_true(given) ? "yes" : "none";
    if (strcmp(word, "yes") == 0)
        word = r->convention ? r->convention : "top_left";
    static const struct {
        const char *word;
        lab_causal causal;
    } known[] = {{"none", LAB_CAUSAL_NONE},
                 {"top_left", LAB_CAUSAL_TOP_LEFT},
                 {"bottom_right", LAB_CAUSAL_BOTTOM_RIGHT},
                 {"offset", LAB_CAUSAL_OFFSET}};
    for (int i = 0; i < 4; i++)
        if (strcmp(word, known[i].word) == 0) {
            *causal = known[i].causal;
            return true;
        }
    return cannot(r, "causal %s is not known", word);
}

static bool read_window(run *r, lab_window *window)
{
    const json_t *given = json_object_get(json_object_get(r->part->json, "params"), "window");
    if (!given || json_is_null(given))
        return true;
    *window =
        (lab_window){true, json_integer_value(json_array_get(given, 0)), json_integer_value(json_array_get(given, 1))};
    return json_array_size(given) == 2 || cannot(r, "a window that is no [left, right]");
}

static bool read_options(run *r)
{
    lab_attention_opts *o = &r->attention;
    *o = (lab_attention_opts){.path = r->path};
    o->scale = parameter(r, "scale", 0);
    o->softcap = parameter(r, "softcap", 0);
    o->offset = (int64_t)parameter(r, "offset", 0);
    lab_tensor *padding = over_queries(r->g, input(r, "key_is_padding"));
    o->mask = both(r->g, input(r, "keep"), over_queries(r->g, input(r, "key_keep")));
    o->mask = both(r->g, o->mask, padding ? lab_logical_not(r->g, padding) : NULL);
    o->bias = input(r, "bias") ? input(r, "bias") : over_queries(r->g, input(r, "key_mask_additive"));
    o->key_lengths = input(r, "key_lengths");
    o->alibi_slopes = input(r, "alibi_slopes");
    o->sink = input(r, "sink");
    return read_causal(r, &o->causal) && read_window(r, &o->window);
}

static bool wants(const run *r, const char *name)
{
    return json_object_get(json_object_get(r->part->json, "expect"), name);
}

/* ---- sdpa -------------------------------------------------------------------------------------------------------- */

/* "q=k=v=x": one tensor in three places. */
static void find_operands(run *r, lab_tensor *operand[3])
{
    static const char *const names[] = {"q", "k", "v"};
    const char *alias = parameter_text(r, "alias", ""), *last = strrchr(alias, '=');
    for (int i = 0; i < 3; i++) {
        char as_left[] = {names[i][0], '=', 0};
        operand[i] = input(r, strstr(alias, as_left) && last ? last + 1 : names[i]);
    }
}

void call_sdpa(run *r)
{
    lab_tensor *operand[3], *lse = NULL, *probs = NULL;
    find_operands(r, operand);
    if (!read_options(r))
        return;
    lab_attention_opts opts = r->attention;
    bool composed = r->path == LAB_PATH_COMPOSED; /* which alone gives probabilities */
    opts.lse = wants(r, "lse") ? &lse : NULL;
    opts.probs = composed ? &probs : NULL;
    lab_tensor *out = lab_attention(r->g, operand[0], operand[1], operand[2], &opts);
    give(r, "out", out);
    give(r, "lse", lse);
    give(r, "probs", probs);
}

/* Whether the masks let query i of head h see key j. q and k are [B, H, T, D]. */
static bool is_allowed(const run *r, const int64_t at[4], int64_t tq, int64_t tk)
{
    const lab_attention_opts *o = &r->attention;
    int64_t keys = o->key_lengths ? (int64_t)reference_element(o->key_lengths, 1, at) : tk;
    int64_t position = at[2] + (o->causal == LAB_CAUSAL_BOTTOM_RIGHT ? keys - tq : o->offset), j = at[3];
    bool causal = o->causal == LAB_CAUSAL_NONE || j <= position;
    bool window = !o->window.limited || ((o->window.left < 0 || j >= position - o->window.left) &&
                                         (o->window.right < 0 || j <= position + o->window.right));
    return causal && window && j < keys && (!o->mask || reference_element(o->mask, 4, at) != 0) &&
           (!o->bias || reference_element(o->bias, 4, at) != -INFINITY);
}

static bool rows_are_zero(run *r, const char *name, const bool *used, int64_t rows)
{
    lab_tensor *t = result_named(r, name);
    if (!t)
        return true;
    double *at = elements(t);
    int64_t width = lab_tensor_size(t, -1);
    bool fine = at;
    for (int64_t i = 0; i < rows * width && fine; i++)
        if (!used[i / width] && at[i] != 0)
            fine = fail(r, "%s[%lld] is %.17g, must be exactly 0: no key may meet it", name, (long long)i, at[i]);
    free(at);
    return fine;
}

/* A query without keys gives exactly 0 and gets exactly 0, as does a key without queries; a forbidden pair's
 * probability is exactly 0. */
bool check_sdpa(run *r)
{
    const lab_tensor *out = r->result[0].tensor, *k = input(r, "k"), *probs = result_named(r, "probs");
    if (!k || lab_tensor_rank(out) != 4 || lab_tensor_size(k, 1) == 0)
        return true;
    int64_t batch = lab_tensor_size(out, 0), heads = lab_tensor_size(out, 1), tq = lab_tensor_size(out, 2);
    int64_t kv_heads = lab_tensor_size(k, 1), tk = lab_tensor_size(k, 2), place = 0;
    bool *query = calloc((size_t)(batch * heads * tq) + 1, 1), *key = calloc((size_t)(batch * kv_heads * tk) + 1, 1);
    double *p = probs ? elements(probs) : NULL;
    bool fine = query && key;
    for (int64_t row = 0; row < batch * heads * tq && fine; row++)
        for (int64_t j = 0; j < tk; j++, place++) {
            int64_t b = row / (heads * tq), h = row / tq % heads;
            if (is_allowed(r, (int64_t[]){b, h, row % tq, j}, tq, tk))
                query[row] = key[(b * kv_heads + h / (heads / kv_heads)) * tk + j] = true;
            else if (p && p[place] != 0 && !isnan(p[place])) /* a live NaN takes the row */
                fine = fail(r, "probability %lld is %.17g, must be exactly 0: forbidden", (long long)place, p[place]);
        }
    fine = fine && rows_are_zero(r, "out", query, batch * heads * tq) &&
           rows_are_zero(r, "dq", query, batch * heads * tq) && rows_are_zero(r, "dk", key, batch * kv_heads * tk) &&
           rows_are_zero(r, "dv", key, batch * kv_heads * tk);
    free(query);
    free(key);
    free(p);
    return fine;
}

/* ---- mha --------------------------------------------------------------------------------------------------------- */

/* w_qkv stacks Wq, Wk, Wv, each [width, width]. */
void call_mha(run *r)
{
    lab_tensor *x = input(r, "x"), *stacked = input(r, "w_qkv"), *probs = NULL;
    int64_t width = lab_tensor_size(x, -1), heads = (int64_t)parameter(r, "n_heads", 1);
    if (!x || !stacked || heads < 1 || width % heads || lab_tensor_size(stacked, 0) != 3 * width ||
        parameter(r, "bias", 0) != 0) {
        cannot(r, "not an mha with w_qkv [3 width, width] and no biases");
        return;
    }
    lab_mha mha = {.heads = heads, .kv_heads = heads, .head_dim = width / heads};
    mha.q.weight = lab_slice(r->g, stacked, 0, 0, width, 1);
    mha.k.weight = lab_slice(r->g, stacked, 0, width, 2 * width, 1);
    mha.v.weight = lab_slice(r->g, stacked, 0, 2 * width, 3 * width, 1);
    mha.out.weight = input(r, "w_out");
    if (!read_options(r))
        return;
    lab_attention_opts opts = r->attention;
    opts.probs = r->path == LAB_PATH_COMPOSED ? &probs : NULL;
    lab_tensor *out = lab_mha_apply(r->g, &mha, x, NULL, NULL, &opts);
    give(r, "out", out);
    give(r, "weights", probs);
}
