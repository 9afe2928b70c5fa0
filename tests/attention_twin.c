/* attention_twin.c - one call of attention on two paths. */
#include "attention_twin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const twin_names[TWIN_RESULTS] = {"out", "lse", "dq", "dk", "dv", "dscale", "dbias", "dsink", "dslopes"};

/* ---- Views ----------------------------------------------------------------------------------------------------------- */

/* The shape of q (0), k (1) or v (2) as attention sees it. */
static int operand_shape(const twin_case *t, int which, int64_t *shape)
{
    const attention_case *c = &t->c;
    int rank = case_batch_shape(c, shape);
    const int64_t heads = which == 0 ? c->heads : c->kv_heads, rows = which == 0 ? c->tq : c->tk;
    shape[rank] = t->cu_q ? rows : heads;
    shape[rank + 1] = t->cu_q ? heads : rows;
    shape[rank + 2] = which == 2 ? c->dv : c->d;
    return rank + 3;
}

/* The axis of rows, and of heads. */
static int row_axis(const twin_case *t)
{
    return t->cu_q ? -3 : -2;
}

static int head_axis(const twin_case *t)
{
    return t->cu_q ? -2 : -3;
}

static void exchange(int64_t *a, int64_t *b)
{
    const int64_t kept = *a;
    *a = *b;
    *b = kept;
}

/* Heads and batches are repeated. (Keys or values that are all the same in a head leave nothing of gradients but
 * rounding.) */
static void leaf_shape(const twin_case *t, int which, int rank, int64_t *shape)
{
    switch (t->views[which]) {
    case OPERAND_TURNED:
        exchange(&shape[rank - 1], &shape[rank - 2]);
        break;
    case OPERAND_BY_TIME:
        exchange(&shape[rank - 2], &shape[rank - 3]);
        break;
    case OPERAND_REPEATED:
        shape[rank + head_axis(t)] = 1;
        for (int i = 0; i < rank - 3; i++)
            shape[i] = 1;
        break;
    case OPERAND_CUT:
        shape[rank + row_axis(t)] = 2 * shape[rank + row_axis(t)] + 1;
        break;
    default:
        break;
    }
}

static lab_tensor *draw_operand(const twin_case *t, int which, uint64_t *state)
{
    int64_t shape[LAB_MAX_RANK];
    const double magnitude = which < 2 && t->c.magnitude != 0 ? t->c.magnitude : 1;
    const int rank = operand_shape(t, which, shape);
    leaf_shape(t, which, rank, shape);
    lab_tensor *leaf = leaf_drawn(state, t->c.dtype, rank, shape, magnitude);
    if (t->views[which] == OPERAND_STRIDED) {
        lab_tensor *dense = leaf;
        leaf = leaf_strided(dense);
        lab_tensor_destroy(&dense);
    }
    return leaf;
}

lab_tensor *twin_operand(lab_graph *g, const twin_case *t, int which)
{
    lab_tensor *leaves[] = {t->c.q, t->c.k, t->c.v}, *leaf = leaves[which];
    int64_t shape[LAB_MAX_RANK];
    const int rank = operand_shape(t, which, shape);
    switch (t->views[which]) {
    case OPERAND_TURNED:
        return lab_transpose(g, leaf, -1, -2);
    case OPERAND_BY_TIME:
        return lab_transpose(g, leaf, -2, -3);
    case OPERAND_REPEATED:
        return lab_broadcast_to(g, leaf, rank, shape);
    case OPERAND_CUT:
        return lab_slice(g, leaf, row_axis(t), 1, 2 * shape[rank + row_axis(t)] + 1, 2);
    default:
        return leaf;
    }
}

/* sum(weights * out), out and its weights seen through a view. */
static lab_tensor *weigh(lab_graph *g, const twin_case *t, lab_tensor *out)
{
    lab_tensor *weights = t->weights;
    const int axis = row_axis(t);
    const int64_t rows = lab_tensor_size(out, axis), half = rows / 2;
    switch (t->result) {
    case RESULT_TURNED:
        out = lab_transpose(g, out, -1, -2);
        weights = lab_transpose(g, weights, -1, -2);
        break;
    case RESULT_SUMMED:
        out = lab_sum(g, out, 1, &axis, true);
        weights = rows ? lab_slice(g, weights, axis, 0, 1, 1) : lab_sum(g, weights, 1, &axis, true);
        break;
    case RESULT_CUT:
        out = lab_slice(g, out, axis, half, rows, 1);
        weights = lab_slice(g, weights, axis, half, rows, 1);
        break;
    default:
        break;
    }
    return lab_sum_all(g, lab_mul(g, out, weights));
}

/* ---- Draws ----------------------------------------------------------------------------------------------------------- */

/* Sizes next to multiples of what the fused path cuts queries and keys into. */
static int64_t draw_near(uint64_t *state, const int64_t *edges, int64_t n)
{
    const int64_t size = edges[draw_size(state, 0, n - 1)] + draw_size(state, -1, 1);
    return size;
}

static int64_t draw_rows(uint64_t *state, int64_t budget, bool of_keys)
{
    static const int64_t query_edges[] = {4, 8, 16, 32, 48, 64, 96, 128, 192, 256};
    static const int64_t key_edges[] = {4, 12, 24, 36, 48, 96, 144, 192, 240, 288, 384, 768};
    const int64_t *edges = of_keys ? key_edges : query_edges, count = of_keys ? 12 : 10;
    int64_t fitting = 0;
    while (fitting < count && edges[fitting] < budget)
        fitting++;
    const int64_t kind = draw_size(state, 0, 31);
    if (kind == 0)
        return 0;
    return kind < 14 || fitting == 0 ? draw_size(state, 1, budget < 19 ? budget : 19)
                                     : draw_near(state, edges, fitting);
}

/* Small as a rule; now and then as wide as heads are. */
static int64_t draw_width(uint64_t *state)
{
    static const int64_t wide[] = {16, 31, 32, 33, 63, 64, 65, 96, 128, 129, 255, 256, 257, 511, 512};
    const int64_t kind = draw_size(state, 0, 15);
    return kind < 13 ? draw_size(state, 1, 9) : wide[draw_size(state, 0, kind == 13 ? 14 : 5)];
}

static void draw_positions(twin_case *t, uint64_t *state, uint64_t choices)
{
    lab_attention_opts *o = &t->c.opts;
    const int64_t most = t->c.tk < 8 ? 8 : t->c.tk;
    if (choices & 1)
        o->causal = (lab_causal)draw_size(state, 0, 3);
    if (o->causal == LAB_CAUSAL_OFFSET || o->causal == LAB_CAUSAL_NONE) {
        const int64_t low = -(t->c.tq + 3) / 2, high = most;
        if ((choices >> 1 & 3) == 1)
            o->offset = draw_size(state, low, high);
        else if ((choices >> 1 & 3) == 2)
            o->offsets = t->cu_q ? NULL : case_per_batch(&t->c, state, low, high);
    }
    if ((choices >> 3 & 3) == 1)
        o->window = (lab_window){true, draw_size(state, -1, most), draw_size(state, -1, draw(state) & 1 ? 1 : most)};
}

static void draw_options(twin_case *t, uint64_t *state)
{
    attention_case *c = &t->c;
    lab_attention_opts *o = &c->opts;
    const unsigned broadcast = (unsigned)draw(state);
    const uint64_t choices = draw(state);
    draw_positions(t, state, choices);
    if ((choices >> 5 & 3) == 1)
        o->scale = draw_between(state, -2, 2) / sqrt((double)c->d);
    else if ((choices >> 5 & 3) == 2)
        o->scale_tensor = leaf_drawn(state, c->dtype, (int)draw_size(state, 0, 1), (int64_t[]){1}, 2);
    if ((choices >> 7 & 3) == 1 && !t->cu_q)
        o->mask = case_mask(c, state, broadcast, broadcast >> 8 & 1 ? 0.7 : 0.1);
    if ((choices >> 9 & 3) == 1 && !t->cu_q)
        o->bias = case_bias(c, state, broadcast >> 9, 2);
    if ((choices >> 11 & 3) == 1 && !t->cu_q)
        o->key_lengths = case_per_batch(c, state, 0, c->tk);
    case_draw_of_heads(c, state, choices >> 13, 0.5);
    t->out_wanted = (choices >> 21 & 7) != 0;
    t->lse_wanted = (choices >> 21 & 7) < 4;
    t->result = (result_view)(choices >> 24 & 3);
    for (int i = 0; i < 3; i++)
        t->views[i] = draw(state) & 1 ? OPERAND_PLAIN : (operand_view)draw_size(state, 0, OPERAND_VIEWS - 1);
}

/* One query for each head, with the options that decoding has. */
static void make_one_query(twin_case *t)
{
    lab_attention_opts *o = &t->c.opts;
    lab_tensor_destroy(&o->mask);
    lab_tensor_destroy(&o->bias);
    lab_tensor_destroy(&o->alibi_slopes);
    o->softcap = o->dropout = 0;
    t->no_stats = true;
}

void twin_draw(twin_case *t, uint64_t *state)
{
    *t = (twin_case){.c = {.dtype = LAB_F64, .batch_rank = (int)draw_size(state, 0, 2)}};
    attention_case *c = &t->c;
    c->kv_heads = draw_size(state, 1, 3);
    c->heads = c->kv_heads * draw_size(state, 1, 3);
    for (int i = 0; i < c->batch_rank; i++)
        c->batch[i] = draw_size(state, draw(state) & 31 ? 1 : 0, 2);
    c->d = draw_width(state);
    c->dv = draw(state) & 1 ? c->d : draw(state) & 15 ? draw_width(state) : 0;
    /* Scores of about a hundred thousand numbers and products of a few million at most. */
    const int64_t batch = count_of(c->batch_rank, c->batch), wide = c->d > c->dv ? c->d : c->dv;
    int64_t pairs = 100000 / (c->heads * (batch ? batch : 1)) * 12 / (wide + 12);
    if (draw(state) & 3)
        pairs = pairs < 2000 ? pairs : 2000;
    const bool one = draw_size(state, 0, 9) == 0;
    c->tq = one ? 1 : draw_rows(state, pairs / 2 < 260 ? pairs / 2 : 260, false);
    c->tk = draw_rows(state, pairs / (c->tq ? c->tq : 1), true);
    draw_options(t, state);
    if (one)
        make_one_query(t);
    twin_make(t, state);
}

/* Sequences of their own lengths, some of them empty. */
static lab_tensor *draw_lengths(uint64_t *state, int64_t sequences, int64_t *total, bool of_keys)
{
    int64_t values[8] = {0};
    for (int64_t s = 0; s < sequences; s++)
        values[s + 1] = values[s] + (draw(state) & 3 ? draw_rows(state, of_keys ? 50 : 40, of_keys) : 0);
    *total = values[sequences];
    return leaf_of_integers(1, (int64_t[]){sequences + 1}, values);
}

void twin_draw_packed(twin_case *t, uint64_t *state)
{
    *t = (twin_case){.c = {.dtype = LAB_F64, .kv_heads = draw_size(state, 1, 2), .d = draw_width(state)}};
    attention_case *c = &t->c;
    const int64_t sequences = draw_size(state, 0, 5);
    c->heads = c->kv_heads * draw_size(state, 1, 3);
    c->dv = draw(state) & 1 ? c->d : draw_width(state);
    t->cu_q = draw_lengths(state, sequences, &c->tq, false);
    t->cu_k = draw_lengths(state, sequences, &c->tk, true);
    draw_options(t, state);
    if (c->opts.offset == 0 && (c->opts.causal == LAB_CAUSAL_OFFSET || c->opts.causal == LAB_CAUSAL_NONE)) {
        int64_t values[8];
        for (int i = 0; i < 8; i++)
            values[i] = draw_size(state, -5, 20);
        c->opts.offsets = leaf_of_integers(1, &sequences, values);
    }
    twin_make(t, state);
}

void twin_make(twin_case *t, uint64_t *state)
{
    int64_t shape[LAB_MAX_RANK];
    lab_tensor **leaves[] = {&t->c.q, &t->c.k, &t->c.v};
    for (int i = 0; i < 3; i++)
        *leaves[i] = draw_operand(t, i, state);
    const int rank = operand_shape(t, 0, shape);
    shape[rank - 1] = t->c.dv;
    t->weights = leaf_drawn(state, t->c.dtype, rank, shape, 1);
    t->lse_weights = leaf_drawn(state, t->c.dtype, rank - 1, shape, 1);
}

static void own_tensors(twin_case *t, lab_tensor **places[4])
{
    lab_tensor **all[] = {&t->weights, &t->lse_weights, &t->cu_q, &t->cu_k};
    memcpy(places, all, sizeof all);
}

void twin_free(twin_case *t)
{
    lab_tensor **places[4];
    own_tensors(t, places);
    for (int i = 0; i < 4; i++)
        lab_tensor_destroy(places[i]);
    case_free(&t->c);
}

void twin_other_precision(twin_case *t, const twin_case *of)
{
    lab_tensor **places[4];
    *t = *of;
    case_other_precision(&t->c, &of->c);
    own_tensors(t, places);
    lab_graph *g = lab_graph_create(NULL);
    for (int i = 0; i < 4; i++)
        if (*places[i]) {
            lab_tensor *x = i < 2 ? lab_cast(g, *places[i], t->c.dtype) : *places[i];
            assert_int_equal(lab_tensor_clone(places[i], x), LAB_OK);
        }
    lab_graph_destroy(&g);
}

/* ---- Runs ------------------------------------------------------------------------------------------------------------ */

twin_run twin_attend(const twin_case *t, lab_path path, bool with_gradients)
{
    twin_run r = {.g = lab_graph_create(&(lab_graph_opts){.batch_invariant = t->batch_invariant})};
    const attention_case *c = &t->c;
    lab_attention_opts o = c->opts;
    lab_tensor *operands[3], *lse = NULL, *loss = NULL;
    for (int i = 0; i < 3; i++)
        operands[i] = twin_operand(r.g, t, i);
    o.path = path;
    o.lse = &lse;
    o.stats = t->no_stats ? NULL : r.stats;
    lab_tensor *out = t->cu_q ? lab_attention_packed(r.g, operands[0], operands[1], operands[2], t->cu_q, t->cu_k, &o)
                              : lab_attention(r.g, operands[0], operands[1], operands[2], &o);
    expect_healthy(r.g);
    r.results[0] = out;
    r.results[1] = lse;
    if (!with_gradients)
        return r;
    if (t->out_wanted)
        loss = weigh(r.g, t, out);
    if (t->lse_wanted) {
        lab_tensor *more = lab_sum_all(r.g, lab_mul(r.g, lse, t->lse_weights));
        loss = loss ? lab_add(r.g, loss, more) : more;
    }
    lab_tensor *leaves[TWIN_LEAVES] = {c->q, c->k, c->v, o.scale_tensor, o.bias, o.sink, o.alibi_slopes};
    lab_tensor *xs[TWIN_LEAVES], *grads[TWIN_LEAVES];
    int n = 0;
    for (int i = 0; i < TWIN_LEAVES; i++)
        if (leaves[i])
            xs[n++] = leaves[i];
    lab_grad(r.g, loss, NULL, n, xs, grads, &(lab_grad_opts){.create_graph = t->recorded});
    expect_healthy(r.g);
    for (int i = 0, k = 0; i < TWIN_LEAVES; i++)
        if (leaves[i])
            r.results[2 + i] = grads[k++];
    for (int i = 0; i < TWIN_LEAVES; i++)
        r.largest_gradient = fmax(r.largest_gradient, twin_largest(r.results[2 + i]));
    return r;
}

void twin_end(twin_run *r)
{
    lab_graph_destroy(&r->g);
}

const char *twin_text(const twin_case *t)
{
    static const char *const causals[] = {"none", "top-left", "bottom-right", "offset"};
    static char text[640];
    const attention_case *c = &t->c;
    const lab_attention_opts *o = &c->opts;
    snprintf(text, sizeof text,
             "%s%s batch %lldd [%lld, %lld] heads %lld/%lld tq %lld tk %lld d %lld dv %lld views %d %d %d result %d "
             "loss%s%s causal %s offset %lld window %d (%lld, %lld)%s%s%s%s%s%s%s%s%s",
             c->dtype == LAB_F64 ? "f64" : "f32", t->cu_q ? " packed" : "", (long long)c->batch_rank,
             (long long)c->batch[0], (long long)c->batch[1], (long long)c->heads, (long long)c->kv_heads,
             (long long)c->tq, (long long)c->tk, (long long)c->d, (long long)c->dv, (int)t->views[0], (int)t->views[1],
             (int)t->views[2], (int)t->result, t->out_wanted ? " out" : "", t->lse_wanted ? " lse" : "",
             causals[o->causal], (long long)o->offset, o->window.limited, (long long)o->window.left,
             (long long)o->window.right, o->offsets ? " offsets" : "", o->scale_tensor ? " scale_tensor" : "",
             o->mask ? " mask" : "", o->bias ? " bias" : "", o->key_lengths ? " lengths" : "",
             o->alibi_slopes ? " alibi" : "", o->sink ? " sink" : "", o->softcap > 0 ? " softcap" : "",
             o->dropout > 0 ? " dropout" : "");
    return text;
}

/* ---- Comparisons ----------------------------------------------------------------------------------------------------- */

double twin_largest(const lab_tensor *t)
{
    if (!t)
        return 0;
    double largest = 0, *values = elements_of(t);
    for (int64_t i = 0; i < lab_tensor_numel(t); i++) {
        const double x = fabs(values[i]);
        largest = x < INFINITY && x > largest ? x : largest;
    }
    free(values);
    return largest;
}

double twin_difference(const lab_tensor *got, const lab_tensor *want, int64_t *where)
{
    double worst = 0;
    assert_int_equal(lab_tensor_numel(got), lab_tensor_numel(want));
    *where = 0;
    double *x = elements_of(got), *y = elements_of(want);
    for (int64_t i = 0; i < lab_tensor_numel(got); i++) {
        const double a = x[i], b = y[i];
        const double apart = a == b || (isnan(a) && isnan(b)) ? 0 : isfinite(a - b) ? fabs(a - b) : INFINITY;
        if (apart > worst) {
            worst = apart;
            *where = i;
        }
    }
    free(x);
    free(y);
    return worst;
}

double twin_measure(const twin_case *t, const twin_run *want, int i)
{
    const double nothing = t->c.dtype == LAB_F64 ? 1e-13 : 1e-5, all = want->largest_gradient;
    const double own = twin_largest(want->results[i]), rows = (double)t->c.tq, keys = (double)t->c.tk;
    switch (i) {
    case D_SCALE:
    case D_SINK:
        return fmax(own, 0.01 * fmax(rows, 1) * all);
    case D_SLOPES:
        return fmax(own, 0.01 * fmax(rows + keys, 1) * all);
    case D_BIAS:
        return own <= nothing * all ? all : fmax(own, 0.001 * all);
    default:
        return i >= 2 && own <= nothing * all ? all : own;
    }
}
