/* attention_case.c - one problem of attention with its leaves. */
#include "attention_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Leaves ---------------------------------------------------------------------------------------------------------- */

int case_batch_shape(const attention_case *c, int64_t *shape)
{
    memcpy(shape, c->batch, sizeof c->batch);
    return c->batch_rank;
}

static int shape_of(const attention_case *c, int64_t *shape, int64_t heads, int64_t rows, int64_t columns)
{
    int rank = case_batch_shape(c, shape);
    shape[rank] = heads;
    shape[rank + 1] = rows;
    shape[rank + 2] = columns;
    return rank + 3;
}

void case_full_shape(const attention_case *c, int64_t *shape)
{
    shape_of(c, shape, c->heads, c->tq, c->tk);
}

void case_make(attention_case *c, uint64_t *state)
{
    int64_t shape[LAB_MAX_RANK];
    double magnitude = c->magnitude != 0 ? c->magnitude : 1;
    int rank = shape_of(c, shape, c->heads, c->tq, c->d);
    c->q = leaf_drawn(state, c->dtype, rank, shape, magnitude);
    shape_of(c, shape, c->kv_heads, c->tk, c->d);
    c->k = leaf_drawn(state, c->dtype, rank, shape, magnitude);
    shape_of(c, shape, c->kv_heads, c->tk, c->dv);
    c->v = leaf_drawn(state, c->dtype, rank, shape, 1);
}

static void tensors_of(attention_case *c, lab_tensor **places[10])
{
    lab_tensor **all[] = {&c->q,
                          &c->k,
                          &c->v,
                          &c->opts.scale_tensor,
                          &c->opts.bias,
                          &c->opts.sink,
                          &c->opts.alibi_slopes,
                          &c->opts.mask,
                          &c->opts.offsets,
                          &c->opts.key_lengths};
    memcpy(places, all, sizeof all);
}

void case_free(attention_case *c)
{
    lab_tensor **places[10];
    tensors_of(c, places);
    for (int i = 0; i < 10; i++)
        lab_tensor_destroy(places[i]);
}

static int broadcast_shape(const attention_case *c, int64_t *shape, unsigned broadcast)
{
    int rank = shape_of(c, shape, c->heads, c->tq, c->tk);
    for (int i = 0; i < rank; i++)
        if (broadcast >> i & 1)
            shape[i] = 1;
    return rank;
}

lab_tensor *case_bias(const attention_case *c, uint64_t *state, unsigned broadcast, double scale)
{
    int64_t shape[LAB_MAX_RANK];
    int rank = broadcast_shape(c, shape, broadcast);
    return leaf_drawn(state, c->dtype, rank, shape, scale);
}

lab_tensor *case_mask(const attention_case *c, uint64_t *state, unsigned broadcast, double share)
{
    int64_t shape[LAB_MAX_RANK];
    int rank = broadcast_shape(c, shape, broadcast);
    lab_tensor *mask;
    assert_int_equal(lab_tensor_create(&mask, LAB_BOOL, rank, shape), LAB_OK);
    unsigned char *may = lab_tensor_data(mask);
    for (int64_t i = 0; i < lab_tensor_numel(mask); i++)
        may[i] = draw_between(state, 0, 1) < share ? 1 + (unsigned char)(draw(state) % 3) : 0;
    return mask;
}

lab_tensor *case_per_head(const attention_case *c, uint64_t *state, double scale)
{
    return leaf_drawn(state, c->dtype, 1, &c->heads, scale);
}

lab_tensor *case_per_batch(const attention_case *c, uint64_t *state, int64_t low, int64_t high)
{
    int64_t shape[LAB_MAX_RANK], values[64] = {0};
    int rank = case_batch_shape(c, shape);
    for (int64_t i = 0; i < count_of(rank, shape); i++)
        values[i] = draw_size(state, low, high);
    return leaf_of_integers(rank, shape, values);
}

/* ---- Draws ----------------------------------------------------------------------------------------------------------- */

void case_draw_of_heads(attention_case *c, uint64_t *state, uint64_t choices, double slopes)
{
    lab_attention_opts *o = &c->opts;
    if ((choices & 3) == 1)
        o->alibi_slopes = case_per_head(c, state, slopes);
    if ((choices >> 2 & 3) == 1)
        o->sink = case_per_head(c, state, 2);
    if ((choices >> 4 & 3) == 1)
        o->softcap = draw_between(state, 0.5, 3);
    if ((choices >> 6 & 3) == 1)
        o->dropout = draw_between(state, 0.1, 0.7);
    o->seed = draw(state);
    o->stream = draw(state);
}

static void draw_options(attention_case *c, uint64_t *state)
{
    lab_attention_opts *o = &c->opts;
    unsigned broadcast = (unsigned)draw(state) & 63;
    uint64_t choices = draw(state);
    if (choices & 1)
        o->scale = draw_between(state, -2, 2);
    else if (choices & 2)
        o->scale_tensor = leaf_drawn(state, c->dtype, 1, (int64_t[]){1}, 2);
    if (choices & 4)
        o->causal = (lab_causal)draw_size(state, 0, 3);
    if (o->causal == LAB_CAUSAL_OFFSET || o->causal == LAB_CAUSAL_NONE) {
        if (choices & 8)
            o->offset = draw_size(state, -3, 5);
        else if (choices & 16)
            o->offsets = case_per_batch(c, state, -3, 5);
    }
    if ((choices >> 5 & 3) == 1)
        o->window = (lab_window){true, draw_size(state, -1, 4), draw_size(state, -1, 4)};
    if ((choices >> 7 & 3) == 1)
        o->mask = case_mask(c, state, broadcast, 0.7);
    if ((choices >> 9 & 3) == 1)
        o->bias = case_bias(c, state, broadcast >> 3, 2);
    if ((choices >> 11 & 3) == 1)
        o->key_lengths = case_per_batch(c, state, 0, c->tk);
    case_draw_of_heads(c, state, choices >> 13, 1);
}

void case_draw(attention_case *c, uint64_t *state, bool small)
{
    int64_t group = draw_size(state, 1, 3), most = small ? 4 : 19;
    *c = (attention_case){.dtype = LAB_F64,
                          .batch_rank = (int)draw_size(state, 0, small ? 1 : 3),
                          .kv_heads = draw_size(state, 1, small ? 2 : 3),
                          .tq = draw_size(state, 1, most),
                          .tk = draw_size(state, 1, most),
                          .d = draw_size(state, 1, small ? 3 : 9),
                          .dv = draw_size(state, 1, small ? 3 : 9)};
    for (int i = 0; i < c->batch_rank; i++)
        c->batch[i] = draw_size(state, 1, 2);
    c->heads = c->kv_heads * group;
    case_make(c, state);
    draw_options(c, state);
}

void case_other_precision(attention_case *c, const attention_case *of)
{
    *c = *of;
    c->dtype = of->dtype == LAB_F32 ? LAB_F64 : LAB_F32;
    lab_tensor **places[10];
    tensors_of(c, places);
    for (int i = 0; i < 10; i++) {
        const lab_tensor *t = *places[i];
        if (!t)
            continue;
        lab_graph *g = lab_graph_create(NULL);
        lab_dtype dtype = i < 7 ? c->dtype : lab_tensor_dtype(t);
        assert_int_equal(lab_tensor_clone(places[i], lab_cast(g, *places[i], dtype)), LAB_OK);
        lab_graph_destroy(&g);
    }
}

/* ---- Runs ------------------------------------------------------------------------------------------------------------ */

lab_tensor *case_run(lab_graph *g, attention_case *c)
{
    return lab_attention(g, c->q, c->k, c->v, &c->opts);
}

static void compare_stats(const char *what, const lab_attention_stats *got, const lab_attention_stats *want,
                          int64_t heads, double tolerance)
{
    for (int64_t h = 0; h < heads; h++) {
        assert_int_equal(got[h].rows, want[h].rows);
        assert_int_equal(got[h].empty_rows, want[h].empty_rows);
        const double *a = &got[h].p_max.min, *b = &want[h].p_max.min;
        for (int i = 0; i < 10; i++) /* three spreads and the share lie behind one another */
            if (!(fabs(a[i] - b[i]) <= tolerance * fmax(1e-3, fabs(b[i]))) && !(isnan(a[i]) && isnan(b[i])))
                fail_msg("seed %llu: %s: number %d of the statistics of head %lld is %.17g, should be %.17g",
                         (unsigned long long)check_seed(), what, i, (long long)h, a[i], b[i]);
    }
}

void case_matches_reference(const char *what, attention_case *c, double tolerance)
{
    char name[200];
    lab_tensor *lse = NULL, *probs = NULL;
    lab_attention_stats *stats = calloc((size_t)c->heads + 1, sizeof *stats);
    assert_non_null(stats);
    c->opts.lse = &lse;
    c->opts.probs = &probs;
    c->opts.stats = stats;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *out = case_run(g, c);
    expect_healthy(g);
    c->opts.lse = c->opts.probs = NULL;
    c->opts.stats = NULL;
    reference r;
    assert_true(reference_attention(&r, c->q, c->k, c->v, &c->opts, 0));
    int64_t rows = r.batch * r.heads * r.tq;
    snprintf(name, sizeof name, "%s: out", what);
    expect_close(name, out, r.out, rows * r.dv, tolerance);
    snprintf(name, sizeof name, "%s: lse", what);
    expect_close(name, lse, r.lse, rows, tolerance);
    snprintf(name, sizeof name, "%s: probs", what);
    expect_close(name, probs, r.probs, rows * r.tk, tolerance);
    compare_stats(what, stats, r.stats, c->heads, 100 * tolerance);
    reference_free(&r);
    free(stats);
    lab_graph_destroy(&g);
}

/* ---- Gradients -------------------------------------------------------------------------------------------------------- */

typedef struct differentiated {
    attention_case *c;
    bool with_lse;
    int slots; /* how many optional tensors are among the xs */
    int which[4];
} differentiated;

/* out and lse as one vector; an lse of -inf, which has no differences, as 0. */
static lab_tensor *function(lab_graph *g, lab_tensor **xs, void *ctx)
{
    differentiated *d = ctx;
    lab_attention_opts o = d->c->opts;
    lab_tensor **optional[] = {&o.scale_tensor, &o.bias, &o.sink, &o.alibi_slopes}, *lse = NULL;
    for (int i = 0; i < d->slots; i++)
        *optional[d->which[i]] = xs[3 + i];
    if (d->with_lse)
        o.lse = &lse;
    lab_tensor *out = lab_attention(g, xs[0], xs[1], xs[2], &o);
    int64_t flat = -1;
    if (!d->with_lse || !out)
        return out;
    lab_tensor *bottom = lab_full(g, d->c->dtype, 0, NULL, -INFINITY), *zero = lab_full(g, d->c->dtype, 0, NULL, 0);
    lse = lab_where(g, lab_equal(g, lse, bottom), zero, lse);
    lab_tensor *both[] = {lab_reshape(g, out, 1, &flat), lab_reshape(g, lse, 1, &flat)};
    return lab_concat(g, 2, both, 0);
}

void case_has_right_gradients(const char *what, attention_case *c, bool with_lse, const lab_gradcheck_opts *opts)
{
    differentiated d = {.c = c, .with_lse = with_lse};
    lab_tensor *optional[] = {c->opts.scale_tensor, c->opts.bias, c->opts.sink, c->opts.alibi_slopes};
    lab_tensor *xs[7] = {c->q, c->k, c->v};
    for (int i = 0; i < 4; i++)
        if (optional[i]) {
            d.which[d.slots] = i;
            xs[3 + d.slots++] = optional[i];
        }
    expect_gradients(what, function, &d, 3 + d.slots, xs, opts);
}
