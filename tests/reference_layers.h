/* reference_layers.h - layers as plain loops in long double, on row-major arrays of doubles. */
#ifndef TESTS_REFERENCE_LAYERS_H
#define TESTS_REFERENCE_LAYERS_H

#include <llmlab.h>

/* Element-wise or row-wise; y may be x. gain and shift may be NULL. */
void reference_layer_norm(int64_t rows, int64_t width, const double *x, const double *gain, const double *shift,
                          double eps, double *y);
void reference_rms_norm(int64_t rows, int64_t width, const double *x, const double *gain, double eps, double *y);

/* y [rows, out] = x [rows, in] weight^T + bias; the layer's f64 parameters are read. */
void reference_linear(int64_t rows, const lab_linear *layer, const double *x, double *y);
void reference_mlp(int64_t rows, const lab_mlp *layer, const double *x, double *y);

/* x [heads, T, d] in place; row t stands at positions[t]. */
void reference_rope(int64_t heads, int64_t length, int64_t d, const lab_rope_opts *opts, const int64_t *positions,
                    double *x);

/* One batch: input [T, width], memory [S, width of memory]. False if out of memory. */
bool reference_mha(const lab_mha *layer, int64_t t, int64_t s, const double *input, const double *memory,
                   const lab_attention_opts *opts, double *y);
bool reference_block(const lab_block *layer, int64_t t, int64_t width, const double *input,
                     const lab_attention_opts *opts, double *y);

/* -log softmax(logits)[target], smoothed. */
double reference_cross_entropy(int64_t classes, const double *logits, int64_t target, double smoothing);

#endif
