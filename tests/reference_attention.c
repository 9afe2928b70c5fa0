/* reference_attention.c - attention, one query row after the other. */
#include "reference_attention.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

double reference_element(const lab_tensor *t, int rank, const int64_t *index)
{
    int own = lab_tensor_rank(t);
    int64_t place = 0;
    for (int axis = 0; axis < own; axis++)
        if (lab_tensor_size(t, axis) != 1)
            place += index[rank - own + axis] * lab_tensor_stride(t, axis);
    const void *data = lab_tensor_data(t);
    switch (lab_tensor_dtype(t)) {
    case LAB_F32:
        return ((const float *)data)[place];
    case LAB_F64:
        return ((const double *)data)[place];
    case LAB_I64:
        return (double)((const int64_t *)data)[place];
    case LAB_BOOL:
        return ((const unsigned char *)data)[place] != 0;
    }
    return NAN;
}

/* ---- Dropout --------------------------------------------------------------------------------------------------------- */

static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
        for (int i = 0; i < 4; i++)
            c[i] = next[i];
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

bool reference_keeps(const lab_attention_opts *o, int64_t batch, int64_t head, int64_t position, int64_t key)
{
    uint32_t seed[2] = {(uint32_t)o->seed, (uint32_t)(o->seed >> 32)}, words[4];
    philox((uint32_t[]){(uint32_t)o->stream, (uint32_t)(o->stream >> 32), 0, 0}, seed, words);
    uint32_t call_key[2] = {words[0], words[1]};
    philox((uint32_t[]){(uint32_t)batch, (uint32_t)head, (uint32_t)(uint64_t)position, (uint32_t)(key / 4)}, call_key,
           words);
    return (double)(words[key % 4] >> 8) / 16777216.0 >= o->dropout;
}

/* ---- One row --------------------------------------------------------------------------------------------------------- */

typedef struct row {
    const lab_tensor *q, *k, *v;
    const lab_attention_opts *o;
    int rank;
    int64_t index[LAB_MAX_RANK]; /* of the row: [..., head, i, unused] */
    int64_t kv_head, tk, d, dv, position, length;
    long double *scores; /* [tk], -inf where forbidden */
} row;

static bool is_allowed(row *r, int64_t j)
{
    const lab_attention_opts *o = r->o;
    if (o->causal != LAB_CAUSAL_NONE && j > r->position)
        return false;
    if (o->window.limited && o->window.left >= 0 && j < (long double)r->position - o->window.left)
        return false;
    if (o->window.limited && o->window.right >= 0 && j > (long double)r->position + o->window.right)
        return false;
    if (j >= r->length)
        return false;
    r->index[r->rank - 1] = j;
    return !o->mask || reference_element(o->mask, r->rank, r->index) != 0;
}

/* What the operands' precision cannot hold is infinite, and then counts as such. */
static long double held(const row *r, long double x)
{
    return fabsl(x) > (lab_tensor_dtype(r->q) == LAB_F32 ? FLT_MAX : DBL_MAX) ? copysignl(INFINITY, x) : x;
}

static long double score(row *r, int64_t j)
{
    const lab_attention_opts *o = r->o;
    int64_t at_q[LAB_MAX_RANK], at_k[LAB_MAX_RANK];
    for (int i = 0; i < r->rank; i++)
        at_q[i] = at_k[i] = r->index[i];
    at_k[r->rank - 3] = r->kv_head;
    at_k[r->rank - 2] = j;
    long double product = 0;
    for (int64_t c = 0; c < r->d; c++) {
        at_q[r->rank - 1] = at_k[r->rank - 1] = c;
        product += (long double)reference_element(r->q, r->rank, at_q) * reference_element(r->k, r->rank, at_k);
    }
    product = held(r, product);
    int64_t head = r->index[r->rank - 3], zero[LAB_MAX_RANK] = {0};
    long double scale = o->scale_tensor ? reference_element(o->scale_tensor, LAB_MAX_RANK, zero)
                        : o->scale != 0 ? o->scale
                                        : 1 / sqrtl((long double)r->d);
    long double s = scale * product;
    if (o->softcap > 0)
        s = o->softcap * tanhl(s / o->softcap);
    r->index[r->rank - 1] = j;
    if (o->bias)
        s += reference_element(o->bias, r->rank, r->index);
    if (o->alibi_slopes)
        s -= reference_element(o->alibi_slopes, 1, &head) * fabsl((long double)r->position - j);
    return held(r, s);
}

static void count_row(lab_attention_stats *stats, const long double *p, int64_t n, bool empty)
{
    stats->rows++;
    stats->empty_rows += empty;
    if (empty)
        return;
    long double largest = 0, entropy = 0, others = 0;
    for (int64_t j = 0; j < n; j++) {
        largest = p[j] > largest ? p[j] : largest;
        entropy -= p[j] > 0 ? p[j] * logl(p[j]) : 0;
    }
    /* 1 - sum p^2 = sum over pairs of p_i p_j, which loses nothing */
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            others += i == j ? 0 : p[i] * p[j];
    lab_spread *spreads[] = {&stats->p_max, &stats->entropy, &stats->gain};
    double values[] = {(double)largest, (double)entropy, (double)others};
    bool first = stats->rows - stats->empty_rows == 1;
    for (int s = 0; s < 3; s++) {
        spreads[s]->min = first || values[s] < spreads[s]->min ? values[s] : spreads[s]->min;
        spreads[s]->max = first || values[s] > spreads[s]->max ? values[s] : spreads[s]->max;
        spreads[s]->mean += values[s];
    }
    stats->saturated_share += largest > 0.99L;
}

/* weights[j] = e^(s_j - m) / l and the same over keys only; returns whether no key is allowed. */
static bool softmax_row(row *r, long double *weights, long double *over_keys, long double *lse)
{
    const lab_attention_opts *o = r->o;
    long double m = -INFINITY, sum = 0, sink = -INFINITY, keys = 0, m_keys;
    bool has_nan = false, has_infinity = false;
    for (int64_t j = 0; j < r->tk; j++) {
        r->scores[j] = is_allowed(r, j) ? score(r, j) : -INFINITY;
        has_nan |= isnan(r->scores[j]);
        has_infinity |= r->scores[j] == INFINITY;
        m = fmaxl(m, r->scores[j]);
    }
    m_keys = m;
    if (o->sink) {
        sink = reference_element(o->sink, 1, &r->index[r->rank - 3]);
        m = fmaxl(m, sink);
    }
    for (int64_t j = 0; j < r->tk; j++) {
        weights[j] = r->scores[j] == -INFINITY ? 0 : expl(r->scores[j] - m);
        over_keys[j] = r->scores[j] == -INFINITY ? 0 : expl(r->scores[j] - m_keys);
        sum += weights[j];
        keys += over_keys[j];
    }
    if (sink != -INFINITY)
        sum += expl(sink - m);
    *lse = has_nan ? NAN : has_infinity ? INFINITY : m == -INFINITY ? -INFINITY : m + logl(sum);
    has_nan |= has_infinity; /* inf - inf: the weights are nothing */
    for (int64_t j = 0; j < r->tk; j++) {
        weights[j] = has_nan ? NAN : weights[j] > 0 ? weights[j] / sum : 0;
        over_keys[j] = has_nan ? NAN : over_keys[j] > 0 ? over_keys[j] / keys : 0;
    }
    return !has_nan && m_keys == -INFINITY;
}

static long double output(row *r, const long double *weights, bool empty, int64_t flat_batch, int64_t c)
{
    const lab_attention_opts *o = r->o;
    int64_t at[LAB_MAX_RANK], head = r->index[r->rank - 3];
    if (empty && o->empty_row == LAB_EMPTY_NAN)
        return NAN;
    for (int i = 0; i < r->rank; i++)
        at[i] = r->index[i];
    at[r->rank - 3] = r->kv_head;
    at[r->rank - 1] = c;
    long double sum = 0;
    for (int64_t j = 0; j < r->tk; j++) {
        at[r->rank - 2] = j;
        long double p = weights[j];
        if (empty)
            p = o->empty_row == LAB_EMPTY_UNIFORM ? 1 / (long double)r->tk : 0;
        else if (o->dropout > 0)
            p = reference_keeps(o, flat_batch, head, r->position, j) ? p / (1 - (long double)o->dropout) : 0;
        if (p != 0)
            sum += p * reference_element(r->v, r->rank, at);
    }
    return sum;
}

/* ---- All rows -------------------------------------------------------------------------------------------------------- */

static void *numbers(int64_t n, size_t size)
{
    return calloc((size_t)(n > 0 ? n : 1), size);
}

/* index[0 .. rank - 3) of a flat batch; the position of row i and the number of keys there. */
static void enter_row(row *r, const reference *res, int64_t batch, int64_t head, int64_t i)
{
    const lab_attention_opts *o = r->o;
    int64_t rest = batch;
    for (int axis = r->rank - 4; axis >= 0; axis--) {
        r->index[axis] = rest % lab_tensor_size(r->q, axis);
        rest /= lab_tensor_size(r->q, axis);
    }
    r->index[r->rank - 3] = head;
    r->index[r->rank - 2] = i;
    r->kv_head = head / (res->heads / lab_tensor_size(r->k, -3));
    r->length = o->key_lengths ? (int64_t)reference_element(o->key_lengths, r->rank - 3, r->index) : r->tk;
    r->position = i + (o->causal == LAB_CAUSAL_BOTTOM_RIGHT ? r->length - res->tq
                       : o->causal == LAB_CAUSAL_TOP_LEFT   ? 0
                       : o->offsets ? (int64_t)reference_element(o->offsets, r->rank - 3, r->index)
                                    : o->offset);
}

static void all_rows(reference *res, row *r, long double *weights, long double *over_keys, int64_t first_batch)
{
    int64_t n = 0;
    for (int64_t b = 0; b < res->batch; b++)
        for (int64_t h = 0; h < res->heads; h++)
            for (int64_t i = 0; i < res->tq; i++, n++) {
                long double lse;
                enter_row(r, res, b, h, i);
                bool empty = res->empty[n] = softmax_row(r, weights, over_keys, &lse);
                res->lse[n] = (double)lse;
                for (int64_t j = 0; j < r->tk; j++)
                    res->probs[n * r->tk + j] = (double)weights[j];
                for (int64_t c = 0; c < r->dv; c++)
                    res->out[n * r->dv + c] = (double)output(r, weights, empty, first_batch + b, c);
                count_row(&res->stats[h], over_keys, r->tk, empty);
            }
    for (int64_t h = 0; h < res->heads; h++) {
        lab_attention_stats *s = &res->stats[h];
        double rows = (double)(s->rows - s->empty_rows);
        double *means[] = {&s->p_max.mean, &s->entropy.mean, &s->gain.mean, &s->saturated_share};
        for (int m = 0; m < 4 && rows > 0; m++)
            *means[m] /= rows;
    }
}

bool reference_attention(reference *res, const lab_tensor *q, const lab_tensor *k, const lab_tensor *v,
                         const lab_attention_opts *opts, int64_t first_batch)
{
    static const lab_attention_opts defaults = {0};
    row r = {.q = q, .k = k, .v = v, .o = opts ? opts : &defaults, .rank = lab_tensor_rank(q)};
    *res = (reference){.batch = 1, .heads = lab_tensor_size(q, -3), .tq = lab_tensor_size(q, -2)};
    for (int axis = 0; axis < r.rank - 3; axis++)
        res->batch *= lab_tensor_size(q, axis);
    r.tk = res->tk = lab_tensor_size(k, -2);
    r.d = lab_tensor_size(q, -1);
    r.dv = res->dv = lab_tensor_size(v, -1);
    int64_t rows = res->batch * res->heads * res->tq;
    res->out = numbers(rows * r.dv, sizeof *res->out);
    res->lse = numbers(rows, sizeof *res->lse);
    res->probs = numbers(rows * r.tk, sizeof *res->probs);
    res->empty = numbers(rows, sizeof *res->empty);
    res->stats = numbers(res->heads, sizeof *res->stats);
    long double *work = numbers(3 * r.tk, sizeof *work);
    bool fine = res->out && res->lse && res->probs && res->empty && res->stats && work;
    if (fine) {
        r.scores = work;
        all_rows(res, &r, work + r.tk, work + 2 * r.tk, first_batch);
    }
    free(work);
    return fine;
}

void reference_free(reference *res)
{
    free(res->out);
    free(res->lse);
    free(res->probs);
    free(res->empty);
    free(res->stats);
    *res = (reference){0};
}
