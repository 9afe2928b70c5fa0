/* proof_reference.h - layers as plain loops in long double, for the proofs to compare with. Nothing of src/ is used. */
#ifndef TESTS_PROOF_REFERENCE_H
#define TESTS_PROOF_REFERENCE_H

#include <llmlab.h>

typedef struct matrix {
    int64_t rows, cols;
    long double *at; /* row-major */
} matrix;

/* Zeros. All of them are freed together. */
matrix matrix_zeros(int64_t rows, int64_t cols);
void matrices_free(void);

/* The last axis becomes the columns, the others the rows; a vector is one row. NULL gives 0 x 0. */
matrix matrix_of(const lab_tensor *t);

/* max |t - m| / max |m|. */
double matrix_error(const lab_tensor *t, matrix m);

matrix reference_linear(const lab_linear *l, matrix x);
matrix reference_layer_norm(matrix x, matrix gain, matrix shift, double eps);
matrix reference_rms_norm(matrix x, matrix gain, double eps);
matrix reference_mlp(const lab_mlp *m, matrix x);
/* Row t of x is turned by position offset + t, in place, `width` channels of each head of `d`. */
void reference_rope(matrix x, int64_t d, lab_rope_layout layout, int64_t width, double base, int64_t offset);
/* One sequence: x [T, width]. */
matrix reference_mha(const lab_mha *m, matrix x, bool causal);
matrix reference_block(const lab_block *b, matrix x, bool causal);

#endif
