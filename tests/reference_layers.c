/* reference_layers.c - layers as plain loops in long double. */
#include "reference_layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference_attention.h"

static void scale_row(int64_t width, double *y, long double factor, const double *gain, const double *shift)
{
    for (int64_t i = 0; i < width; i++)
        y[i] = (double)(y[i] * factor * (gain ? gain[i] : 1) + (shift ? shift[i] : 0));
}

void reference_layer_norm(int64_t rows, int64_t width, const double *x, const double *gain, const double *shift,
                          double eps, double *y)
{
    for (int64_t r = 0; r < rows; r++, x += width, y += width) {
        long double mean = 0, variance = 0;
        for (int64_t i = 0; i < width; i++)
            mean += (long double)x[i] / width;
        for (int64_t i = 0; i < width; i++)
            variance += (x[i] - mean) * (x[i] - mean) / width;
        for (int64_t i = 0; i < width; i++)
            y[i] = (double)(x[i] - mean);
        scale_row(width, y, 1 / sqrtl(variance + eps), gain, shift);
    }
}

void reference_rms_norm(int64_t rows, int64_t width, const double *x, const double *gain, double eps, double *y)
{
    for (int64_t r = 0; r < rows; r++, x += width, y += width) {
        long double squares = 0;
        for (int64_t i = 0; i < width; i++)
            squares += (long double)x[i] * x[i] / width;
        memmove(y, x, (size_t)width * sizeof *y);
        scale_row(width, y, 1 / sqrtl(squares + eps), gain, NULL);
    }
}

void reference_linear(int64_t rows, const lab_linear *layer, const double *x, double *y)
{
    int64_t in = lab_tensor_size(layer->weight, 1), out = lab_tensor_size(layer->weight, 0);
    const double *weight = lab_tensor_data(layer->weight), *bias = lab_tensor_data(layer->bias);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out; o++) {
            long double sum = bias ? bias[o] : 0;
            for (int64_t i = 0; i < in; i++)
                sum += (long double)x[r * in + i] * weight[o * in + i];
            y[r * out + o] = (double)sum;
        }
}

static long double activation(lab_activation kind, long double x)
{
    switch (kind) {
    case LAB_ACTIVATION_GELU_ERF:
        return x * (1 + erfl(x / sqrtl(2))) / 2;
    case LAB_ACTIVATION_GELU_TANH:
        return x * (1 + tanhl(sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x))) / 2;
    case LAB_ACTIVATION_SILU_GATED:
        return x / (1 + expl(-x));
    }
    return NAN;
}

void reference_mlp(int64_t rows, const lab_mlp *layer, const double *x, double *y)
{
    int64_t hidden = lab_tensor_size(layer->up.weight, 0), n = rows * hidden;
    double *up = malloc((size_t)(2 * n + 1) * sizeof *up), *gate = up + n;
    if (!up)
        return;
    reference_linear(rows, &layer->up, x, up);
    if (layer->activation == LAB_ACTIVATION_SILU_GATED)
        reference_linear(rows, &layer->gate, x, gate);
    for (int64_t i = 0; i < n; i++)
        up[i] = layer->activation == LAB_ACTIVATION_SILU_GATED
                    ? (double)(activation(layer->activation, gate[i]) * up[i])
                    : (double)activation(layer->activation, up[i]);
    reference_linear(rows, &layer->down, up, y);
    free(up);
}

void reference_rope(int64_t heads, int64_t length, int64_t d, const lab_rope_opts *opts, const int64_t *positions,
                    double *x)
{
    int64_t width = opts->width ? opts->width : d;
    long double base = opts->base != 0 ? opts->base : 10000;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t t = 0; t < length; t++, x += d)
            for (int64_t i = 0; i < width / 2; i++) {
                long double angle = positions[t] * powl(base, -2 * (long double)i / width);
                int64_t first = opts->layout == LAB_ROPE_HALVES ? i : 2 * i;
                int64_t second = opts->layout == LAB_ROPE_HALVES ? i + width / 2 : 2 * i + 1;
                long double a = x[first], b = x[second];
                x[first] = (double)(a * cosl(angle) - b * sinl(angle));
                x[second] = (double)(a * sinl(angle) + b * cosl(angle));
            }
}

/* [T, heads * d] -> [heads, T, d], turned if the layer asks for it, as a leaf. */
static lab_tensor *heads_of(const lab_mha *layer, const lab_linear *map, int64_t length, int64_t heads, const double *x,
                            bool turns)
{
    int64_t d = layer->head_dim, shape[] = {heads, length, d}, n = length * heads * d;
    double *flat = malloc((size_t)(2 * n + 1) * sizeof *flat), *split = flat + n;
    int64_t *positions = malloc((size_t)(length + 1) * sizeof *positions);
    lab_tensor *leaf = NULL;
    if (flat && positions) {
        reference_linear(length, map, x, flat);
        for (int64_t h = 0; h < heads; h++)
            for (int64_t t = 0; t < length; t++)
                memcpy(split + (h * length + t) * d, flat + (t * heads + h) * d, (size_t)d * sizeof *flat);
        for (int64_t t = 0; t < length; t++)
            positions[t] = t + layer->rope.offset;
        if (turns && layer->has_rope)
            reference_rope(heads, length, d, &layer->rope, positions, split);
        if (lab_tensor_from(&leaf, LAB_F64, 3, shape, split) != LAB_OK)
            leaf = NULL;
    }
    free(flat);
    free(positions);
    return leaf;
}

bool reference_mha(const lab_mha *layer, int64_t t, int64_t s, const double *input, const double *memory,
                   const lab_attention_opts *opts, double *y)
{
    int64_t d = layer->head_dim;
    lab_tensor *q = heads_of(layer, &layer->q, t, layer->heads, input, true);
    lab_tensor *k = heads_of(layer, &layer->k, s, layer->kv_heads, memory, true);
    lab_tensor *v = heads_of(layer, &layer->v, s, layer->kv_heads, memory, false);
    double *joined = malloc((size_t)(t * layer->heads * d + 1) * sizeof *joined);
    reference r = {0};
    bool fine = q && k && v && joined && reference_attention(&r, q, k, v, opts, 0);
    for (int64_t h = 0; fine && h < layer->heads; h++)
        for (int64_t i = 0; i < t; i++)
            memcpy(joined + (i * layer->heads + h) * d, r.out + (h * t + i) * d, (size_t)d * sizeof *joined);
    if (fine)
        reference_linear(t, &layer->out, joined, y);
    reference_free(&r);
    free(joined);
    lab_tensor_destroy(&q);
    lab_tensor_destroy(&k);
    lab_tensor_destroy(&v);
    return fine;
}

static void norm(const lab_block *b, int64_t t, int64_t width, bool second, const double *x, double *y)
{
    const double *gain = lab_tensor_data(second ? b->norm2_gain : b->norm1_gain);
    const double *shift = lab_tensor_data(second ? b->norm2_shift : b->norm1_shift);
    if (b->norm == LAB_NORM_RMS)
        reference_rms_norm(t, width, x, gain, b->norm_eps, y);
    else
        reference_layer_norm(t, width, x, gain, shift, b->norm_eps, y);
}

bool reference_block(const lab_block *b, int64_t t, int64_t width, const double *input, const lab_attention_opts *opts,
                     double *y)
{
    int64_t n = t * width;
    double *x = malloc((size_t)(2 * n + 1) * sizeof *x), *branch = x + n;
    if (!x)
        return false;
    bool before = b->norm_place == LAB_NORM_BEFORE;
    memcpy(x, input, (size_t)n * sizeof *x);
    if (before)
        norm(b, t, width, false, input, x);
    bool fine = reference_mha(&b->attn, t, t, x, x, opts, branch);
    for (int64_t i = 0; i < n; i++)
        y[i] = input[i] + branch[i];
    if (!before)
        norm(b, t, width, false, y, y);
    memcpy(x, y, (size_t)n * sizeof *x);
    if (before)
        norm(b, t, width, true, y, x);
    reference_mlp(t, &b->mlp, x, branch);
    for (int64_t i = 0; i < n; i++)
        y[i] += branch[i];
    if (!before)
        norm(b, t, width, true, y, y);
    free(x);
    return fine;
}

double reference_cross_entropy(int64_t classes, const double *logits, int64_t target, double smoothing)
{
    long double largest = -INFINITY, sum = 0, mean = 0;
    for (int64_t c = 0; c < classes; c++)
        largest = fmaxl(largest, logits[c]);
    for (int64_t c = 0; c < classes; c++)
        sum += expl(logits[c] - largest);
    long double lse = largest + logl(sum);
    for (int64_t c = 0; c < classes; c++)
        mean += (lse - logits[c]) / classes;
    long double loss = (1 - smoothing) * (lse - logits[target]);
    return (double)(smoothing > 0 ? loss + smoothing * mean : loss);
}
