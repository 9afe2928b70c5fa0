/* attention_exact.c - attention and its gradients in long double, one row after the other. */
#include "attention_exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference_attention.h"

/* A call: operands as attention sees them, row-major, and their gradients. */
typedef struct call {
    const twin_case *t;
    exact_run *run;
    int rank; /* of the scores */
    long double scale;
    double *q, *k, *v, *weights, *lse_weights;
    long double *dq, *dk, *dv;
} call;

/* A row: head `head` of batch (or sequence) `batch`, query `query` of it. */
typedef struct row {
    const call *c;
    int64_t batch, head, query, position, keys;
    int64_t q, k, k_step;                 /* the row of q; the first row of k and v, and from key to key */
    int64_t weights;                      /* the row of the loss's weights; -1 where it has none */
    int64_t index[LAB_MAX_RANK];          /* [..., head, query, key] */
    long double *raw, *soft, *s, *p, *dp; /* [keys]: q.k, tanh(s / cap), scores, probabilities, dp with dropout */
    double *kept;                         /* dropout's factors */
} row;

static void *numbers(int64_t n, size_t size)
{
    void *memory = calloc((size_t)(n > 0 ? n : 1), size);
    assert_non_null(memory);
    return memory;
}

static int64_t place_in(const lab_tensor *t, int rank, const int64_t *index)
{
    const int own = lab_tensor_rank(t);
    int64_t place = 0;
    for (int axis = 0; axis < own; axis++) {
        const int64_t size = lab_tensor_size(t, axis);
        place = place * size + (size != 1 ? index[rank - own + axis] : 0);
    }
    return place;
}

static bool is_allowed(row *r, int64_t key)
{
    const lab_attention_opts *o = &r->c->t->c.opts;
    const bool left = o->window.limited && o->window.left >= 0, right = o->window.limited && o->window.right >= 0;
    r->index[r->c->rank - 1] = key;
    return !(o->causal != LAB_CAUSAL_NONE && key > r->position) && !(left && key < r->position - o->window.left) &&
           !(right && key > r->position + o->window.right) &&
           !(o->mask && reference_element(o->mask, r->c->rank, r->index) == 0);
}

static void score(row *r, int64_t key)
{
    const call *c = r->c;
    const lab_attention_opts *o = &c->t->c.opts;
    const int64_t d = c->t->c.d;
    r->raw[key] = r->soft[key] = 0;
    r->s[key] = -INFINITY;
    if (!is_allowed(r, key))
        return;
    for (int64_t e = 0; e < d; e++)
        r->raw[key] += (long double)c->q[r->q * d + e] * c->k[(r->k + key * r->k_step) * d + e];
    long double s = r->raw[key] * c->scale;
    if (o->softcap > 0) {
        r->soft[key] = tanhl(s / o->softcap);
        s = o->softcap * r->soft[key];
    }
    if (o->bias)
        s += reference_element(o->bias, c->rank, r->index);
    if (o->alibi_slopes)
        s -= (long double)element_of(o->alibi_slopes, r->head) * llabs(r->position - key);
    r->s[key] = s;
}

/* out and lse of a row; gives delta. */
static long double forward(row *r)
{
    const call *c = r->c;
    const lab_attention_opts *o = &c->t->c.opts;
    const int64_t dv = c->t->c.dv;
    const long double sink = o->sink ? element_of(o->sink, r->head) : -INFINITY;
    long double m = sink, l = 0, delta = 0;
    for (int64_t j = 0; j < r->keys; j++) {
        score(r, j);
        m = fmaxl(m, r->s[j]);
    }
    for (int64_t j = 0; j < r->keys; j++)
        l += r->p[j] = r->s[j] == -INFINITY ? 0 : expl(r->s[j] - m);
    l += sink == -INFINITY ? 0 : expl(sink - m);
    c->run->results[1][r->q] = m == -INFINITY ? -INFINITY : m + logl(l);
    for (int64_t j = 0; j < r->keys; j++) {
        const double *v = c->v + (r->k + j * r->k_step) * dv;
        r->dp[j] = 0;
        r->kept[j] = 1;
        if (r->p[j] == 0)
            continue;
        r->p[j] /= l;
        if (o->dropout > 0)
            r->kept[j] = reference_keeps(o, r->batch, r->head, r->position, j) ? 1 / (1 - o->dropout) : 0;
        for (int64_t e = 0; e < dv; e++) {
            c->run->results[0][r->q * dv + e] += r->p[j] * r->kept[j] * v[e];
            r->dp[j] += r->weights < 0 ? 0 : (long double)c->weights[r->weights * dv + e] * v[e] * r->kept[j];
        }
        delta += r->p[j] * r->dp[j];
    }
    delta -= c->t->lse_wanted ? c->lse_weights[r->q] : 0;
    if (sink != -INFINITY)
        c->run->results[D_SINK][r->head] -= expl(sink - m) / l * delta;
    return delta;
}

static void backward(row *r, long double delta)
{
    const call *c = r->c;
    const lab_attention_opts *o = &c->t->c.opts;
    const int64_t d = c->t->c.d, dv = c->t->c.dv;
    for (int64_t j = 0; j < r->keys; j++) {
        if (r->p[j] == 0)
            continue;
        const int64_t key = r->k + j * r->k_step;
        long double ds = r->p[j] * (r->dp[j] - delta);
        r->index[c->rank - 1] = j;
        if (o->bias)
            c->run->results[D_BIAS][place_in(o->bias, c->rank, r->index)] += ds;
        if (o->alibi_slopes)
            c->run->results[D_SLOPES][r->head] -= ds * llabs(r->position - j);
        ds *= 1 - r->soft[j] * r->soft[j];
        if (o->scale_tensor)
            c->run->results[D_SCALE][0] += ds * r->raw[j];
        for (int64_t e = 0; e < d; e++) {
            c->dq[r->q * d + e] += ds * c->scale * c->k[key * d + e];
            c->dk[key * d + e] += ds * c->scale * c->q[r->q * d + e];
        }
        for (int64_t e = 0; e < dv && r->weights >= 0; e++)
            c->dv[key * dv + e] += r->p[j] * r->kept[j] * c->weights[r->weights * dv + e];
    }
}

static int64_t number_at(const lab_tensor *t, int64_t i)
{
    return (int64_t)element_of(t, i);
}

/* Row `query` of a head; batches are sequences where rows are packed. */
static void enter(row *r, int64_t batch, int64_t head, int64_t query, int64_t tq)
{
    const twin_case *t = r->c->t;
    const attention_case *a = &t->c;
    const lab_attention_opts *o = &a->opts;
    const int64_t start = t->cu_q ? number_at(t->cu_q, batch) : 0, of_keys = head / (a->heads / a->kv_heads);
    const int64_t within = start + query, rows = a->tq;
    r->batch = batch;
    r->head = head;
    r->q = t->cu_q ? within * a->heads + head : (batch * a->heads + head) * tq + query;
    r->k = t->cu_q ? number_at(t->cu_k, batch) * a->kv_heads + of_keys : (batch * a->kv_heads + of_keys) * a->tk;
    r->k_step = t->cu_q ? a->kv_heads : 1;
    r->position = query + (o->causal == LAB_CAUSAL_BOTTOM_RIGHT ? r->keys - tq
                           : o->causal == LAB_CAUSAL_TOP_LEFT   ? 0
                           : o->offsets && t->cu_q              ? number_at(o->offsets, batch)
                           : o->offsets ? (int64_t)reference_element(o->offsets, r->c->rank - 3, r->index)
                                        : o->offset);
    r->weights = t->result == RESULT_SUMMED ? t->cu_q ? head : (batch * a->heads + head) * tq : r->q;
    if (!t->out_wanted || (t->result == RESULT_CUT && within < rows / 2))
        r->weights = -1;
    r->index[r->c->rank - 3] = head;
    r->index[r->c->rank - 2] = query;
}

static void all_rows(const call *c)
{
    const twin_case *t = c->t;
    const attention_case *a = &t->c;
    int64_t shape[LAB_MAX_RANK];
    const int axes = t->cu_q ? 0 : case_batch_shape(a, shape);
    const int64_t batches = t->cu_q ? lab_tensor_numel(t->cu_q) - 1 : count_of(axes, shape);
    long double *work = numbers(5 * a->tk, sizeof *work);
    row r = {.c = c, .raw = work, .soft = work + a->tk, .s = work + 2 * a->tk, .p = work + 3 * a->tk};
    r.dp = work + 4 * a->tk;
    r.kept = numbers(a->tk, sizeof *r.kept);
    for (int64_t b = 0; b < batches; b++) {
        for (int64_t axis = axes - 1, rest = b; axis >= 0; rest /= shape[axis--])
            r.index[axis] = rest % shape[axis];
        const int64_t tq = t->cu_q ? number_at(t->cu_q, b + 1) - number_at(t->cu_q, b) : a->tq;
        r.keys = t->cu_q               ? number_at(t->cu_k, b + 1) - number_at(t->cu_k, b)
                 : a->opts.key_lengths ? (int64_t)reference_element(a->opts.key_lengths, axes, r.index)
                                       : a->tk;
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t i = 0; i < tq; i++) {
                enter(&r, b, h, i, tq);
                backward(&r, forward(&r));
            }
    }
    free(work);
    free(r.kept);
}

/* The gradient of an operand carried back through its view, in two parts of double precision. */
static void to_leaf(const twin_case *t, int which, const long double *gradient, exact_run *run)
{
    int64_t shape[LAB_MAX_RANK];
    twin_case wide = *t;
    lab_tensor *leaves[] = {t->c.q, t->c.k, t->c.v}, **places[] = {&wide.c.q, &wide.c.k, &wide.c.v};
    lab_graph *g = lab_graph_create(NULL);
    double *values = elements_of(leaves[which]);
    for (int i = 0; i < lab_tensor_rank(leaves[which]); i++)
        shape[i] = lab_tensor_size(leaves[which], i);
    lab_tensor *leaf = leaf_of_doubles(LAB_F64, lab_tensor_rank(leaves[which]), shape, values);
    *places[which] = leaf;
    lab_tensor *operand = twin_operand(g, &wide, which);
    const int64_t n = lab_tensor_numel(operand);
    run->n[2 + which] = lab_tensor_numel(leaf);
    run->results[2 + which] = numbers(run->n[2 + which], sizeof(long double));
    for (int i = 0; i < lab_tensor_rank(operand); i++)
        shape[i] = lab_tensor_size(operand, i);
    free(values);
    values = numbers(n, sizeof *values);
    for (int part = 0; part < 2; part++) {
        for (int64_t i = 0; i < n; i++)
            values[i] = part == 0 ? (double)gradient[i] : (double)(gradient[i] - (double)gradient[i]);
        lab_tensor *weights = leaf_of_doubles(LAB_F64, lab_tensor_rank(operand), shape, values), *back;
        lab_grad(g, lab_sum_all(g, lab_mul(g, operand, weights)), NULL, 1, &leaf, &back, NULL);
        expect_healthy(g);
        double *more = elements_of(back);
        for (int64_t i = 0; i < run->n[2 + which]; i++)
            run->results[2 + which][i] += more[i];
        free(more);
        lab_tensor_destroy(&weights);
    }
    free(values);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&leaf);
}

static void take(exact_run *run, int i, int64_t n)
{
    run->n[i] = n;
    run->results[i] = numbers(n, sizeof(long double));
}

exact_run exact_attend(const twin_case *t)
{
    const attention_case *a = &t->c;
    const lab_attention_opts *o = &a->opts;
    exact_run run = {{0}, {0}};
    call c = {.t = t, .run = &run, .rank = t->cu_q ? 3 : a->batch_rank + 3};
    lab_graph *g = lab_graph_create(NULL);
    double **dense[] = {&c.q, &c.k, &c.v};
    long double **gradients[] = {&c.dq, &c.dk, &c.dv};
    for (int i = 0; i < 3; i++) {
        lab_tensor *operand = twin_operand(g, t, i);
        *dense[i] = elements_of(operand);
        *gradients[i] = numbers(lab_tensor_numel(operand), sizeof(long double));
        if (i == 0)
            take(&run, 1, lab_tensor_numel(operand) / a->d);
    }
    take(&run, 0, run.n[1] * a->dv);
    take(&run, D_SCALE, o->scale_tensor != NULL);
    take(&run, D_BIAS, o->bias ? lab_tensor_numel(o->bias) : 0);
    take(&run, D_SINK, o->sink ? a->heads : 0);
    take(&run, D_SLOPES, o->alibi_slopes ? a->heads : 0);
    c.weights = elements_of(t->weights);
    c.lse_weights = elements_of(t->lse_weights);
    c.scale = o->scale_tensor ? element_of(o->scale_tensor, 0) : o->scale != 0 ? o->scale : 1 / sqrt((double)a->d);
    all_rows(&c);
    for (int i = 0; i < 3; i++) {
        to_leaf(t, i, *gradients[i], &run);
        free(*gradients[i]);
        free(*dense[i]);
    }
    free(c.weights);
    free(c.lse_weights);
    lab_graph_destroy(&g);
    return run;
}

void exact_end(exact_run *r)
{
    for (int i = 0; i < TWIN_RESULTS; i++)
        free(r->results[i]);
    *r = (exact_run){{0}, {0}};
}

double exact_difference(const lab_tensor *got, const exact_run *want, int i)
{
    double worst = 0, *x = elements_of(got);
    assert_int_equal(lab_tensor_numel(got), want->n[i]);
    for (int64_t k = 0; k < want->n[i]; k++) {
        const long double b = want->results[i][k], apart = fabsl(x[k] - b);
        const bool same = x[k] == b || (isnan(x[k]) && isnan(b));
        worst = same ? worst : isfinite(apart) ? fmax(worst, (double)apart) : INFINITY;
    }
    free(x);
    return worst;
}
