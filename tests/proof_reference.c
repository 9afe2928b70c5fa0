/* proof_reference.c - layers as plain loops in long double. */
#include "proof_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MATRICES = 4096 };
static long double *made[MOST_MATRICES];
static int n_made;

matrix matrix_zeros(int64_t rows, int64_t cols)
{
    matrix m = {rows, cols, calloc((size_t)(rows * cols) + 1, sizeof(long double))};
    if (!m.at || n_made == MOST_MATRICES)
        abort();
    made[n_made++] = m.at;
    return m;
}

void matrices_free(void)
{
    while (n_made > 0)
        free(made[--n_made]);
}

matrix matrix_of(const lab_tensor *t)
{
    if (!t)
        return (matrix){0};
    int64_t n = lab_tensor_numel(t), cols = lab_tensor_rank(t) ? lab_tensor_size(t, -1) : 1;
    matrix m = matrix_zeros(cols ? n / cols : 0, cols);
    size_t bytes = (size_t)n * lab_dtype_size(lab_tensor_dtype(t));
    void *values = malloc(bytes + 1);
    if (!values || lab_tensor_read(t, values, bytes) != LAB_OK)
        abort();
    for (int64_t i = 0; i < n; i++)
        m.at[i] = lab_tensor_dtype(t) == LAB_F64 ? ((double *)values)[i] : ((float *)values)[i];
    free(values);
    return m;
}

double matrix_error(const lab_tensor *t, matrix m)
{
    long double worst = 0, largest = 0;
    matrix got = matrix_of(t);
    if (got.rows * got.cols != m.rows * m.cols)
        return INFINITY;
    for (int64_t i = 0; i < m.rows * m.cols; i++) {
        long double error = fabsl(got.at[i] - m.at[i]);
        if (!(error <= worst))
            worst = error;
        largest = fmaxl(largest, fabsl(m.at[i]));
    }
    return largest > 0 ? (double)(worst / largest) : (double)worst;
}

/* x @ w^T + bias */
matrix reference_linear(const lab_linear *l, matrix x)
{
    matrix w = matrix_of(l->weight), bias = matrix_of(l->bias), y = matrix_zeros(x.rows, w.rows);
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t o = 0; o < w.rows; o++) {
            long double sum = bias.at ? bias.at[o] : 0;
            for (int64_t k = 0; k < x.cols; k++)
                sum += x.at[i * x.cols + k] * w.at[o * x.cols + k];
            y.at[i * w.rows + o] = sum;
        }
    return y;
}

matrix reference_layer_norm(matrix x, matrix gain, matrix shift, double eps)
{
    matrix y = matrix_zeros(x.rows, x.cols);
    for (int64_t i = 0; i < x.rows; i++) {
        const long double *row = x.at + i * x.cols;
        long double mean = 0, variance = 0;
        for (int64_t j = 0; j < x.cols; j++)
            mean += row[j] / x.cols;
        for (int64_t j = 0; j < x.cols; j++)
            variance += (row[j] - mean) * (row[j] - mean) / x.cols;
        for (int64_t j = 0; j < x.cols; j++)
            y.at[i * x.cols + j] =
                (row[j] - mean) / sqrtl(variance + eps) * (gain.at ? gain.at[j] : 1) + (shift.at ? shift.at[j] : 0);
    }
    return y;
}

matrix reference_rms_norm(matrix x, matrix gain, double eps)
{
    matrix y = matrix_zeros(x.rows, x.cols);
    for (int64_t i = 0; i < x.rows; i++) {
        long double square = 0;
        for (int64_t j = 0; j < x.cols; j++)
            square += x.at[i * x.cols + j] * x.at[i * x.cols + j] / x.cols;
        for (int64_t j = 0; j < x.cols; j++)
            y.at[i * x.cols + j] = x.at[i * x.cols + j] / sqrtl(square + eps) * (gain.at ? gain.at[j] : 1);
    }
    return y;
}

static long double activate(lab_activation kind, long double x)
{
    const long double pi = acosl(-1.0L);
    switch (kind) {
    case LAB_ACTIVATION_GELU_ERF:
        return x * (1 + erfl(x / sqrtl(2))) / 2;
    case LAB_ACTIVATION_GELU_TANH:
        return x * (1 + tanhl(sqrtl(2 / pi) * (x + 0.044715L * x * x * x))) / 2;
    case LAB_ACTIVATION_SILU_GATED:
        return x / (1 + expl(-x));
    }
    return NAN;
}

matrix reference_mlp(const lab_mlp *m, matrix x)
{
    matrix hidden = reference_linear(&m->up, x);
    bool gated = m->activation == LAB_ACTIVATION_SILU_GATED;
    matrix gate = gated ? reference_linear(&m->gate, x) : hidden;
    for (int64_t i = 0; i < hidden.rows * hidden.cols; i++)
        hidden.at[i] =
            gated ? activate(m->activation, gate.at[i]) * hidden.at[i] : activate(m->activation, hidden.at[i]);
    return reference_linear(&m->down, hidden);
}

void reference_rope(matrix x, int64_t d, lab_rope_layout layout, int64_t width, double base, int64_t offset)
{
    int64_t r = width ? width : d;
    long double b = base != 0 ? base : 10000;
    for (int64_t t = 0; t < x.rows; t++)
        for (int64_t head = 0; head < x.cols / d; head++)
            for (int64_t i = 0; i < r / 2; i++) {
                long double *row = x.at + t * x.cols + head * d;
                long double *first = row + (layout == LAB_ROPE_HALVES ? i : 2 * i);
                long double *second = row + (layout == LAB_ROPE_HALVES ? i + r / 2 : 2 * i + 1);
                long double angle = (offset + t) * powl(b, -2.0L * i / r), a = *first, c = *second;
                *first = a * cosl(angle) - c * sinl(angle);
                *second = a * sinl(angle) + c * cosl(angle);
            }
}

/* One head: columns [q0, q0 + d) of q against [k0, k0 + d) of k and v, added into columns q0 of out. */
static void reference_head(matrix q, matrix k, matrix v, int64_t q0, int64_t k0, int64_t d, bool causal, matrix out)
{
    for (int64_t i = 0; i < q.rows; i++) {
        int64_t keys = causal ? i + 1 : k.rows;
        matrix p = matrix_zeros(1, keys);
        long double largest = -INFINITY, sum = 0;
        for (int64_t j = 0; j < keys; j++) {
            for (int64_t c = 0; c < d; c++)
                p.at[j] += q.at[i * q.cols + q0 + c] * k.at[j * k.cols + k0 + c] / sqrtl(d);
            largest = fmaxl(largest, p.at[j]);
        }
        for (int64_t j = 0; j < keys; j++)
            sum += p.at[j] = expl(p.at[j] - largest);
        for (int64_t j = 0; j < keys; j++)
            for (int64_t c = 0; c < d; c++)
                out.at[i * out.cols + q0 + c] += p.at[j] / sum * v.at[j * v.cols + k0 + c];
    }
}

matrix reference_mha(const lab_mha *m, matrix x, bool causal)
{
    matrix q = reference_linear(&m->q, x), k = reference_linear(&m->k, x), v = reference_linear(&m->v, x);
    if (m->has_rope) {
        reference_rope(q, m->head_dim, m->rope.layout, m->rope.width, m->rope.base, m->rope.offset);
        reference_rope(k, m->head_dim, m->rope.layout, m->rope.width, m->rope.base, m->rope.offset);
    }
    matrix heads = matrix_zeros(x.rows, m->heads * m->head_dim);
    for (int64_t h = 0; h < m->heads; h++)
        reference_head(q, k, v, h * m->head_dim, h / (m->heads / m->kv_heads) * m->head_dim, m->head_dim, causal,
                       heads);
    return reference_linear(&m->out, heads);
}

static matrix norm(const lab_block *b, matrix x, const lab_tensor *gain, const lab_tensor *shift)
{
    return b->norm == LAB_NORM_RMS ? reference_rms_norm(x, matrix_of(gain), b->norm_eps)
                                   : reference_layer_norm(x, matrix_of(gain), matrix_of(shift), b->norm_eps);
}

static matrix sum(matrix a, matrix b)
{
    matrix y = matrix_zeros(a.rows, a.cols);
    for (int64_t i = 0; i < a.rows * a.cols; i++)
        y.at[i] = a.at[i] + b.at[i];
    return y;
}

matrix reference_block(const lab_block *b, matrix x, bool causal)
{
    if (b->norm_place == LAB_NORM_BEFORE) {
        x = sum(x, reference_mha(&b->attn, norm(b, x, b->norm1_gain, b->norm1_shift), causal));
        return sum(x, reference_mlp(&b->mlp, norm(b, x, b->norm2_gain, b->norm2_shift)));
    }
    x = norm(b, sum(x, reference_mha(&b->attn, x, causal)), b->norm1_gain, b->norm1_shift);
    return norm(b, sum(x, reference_mlp(&b->mlp, x)), b->norm2_gain, b->norm2_shift);
}
