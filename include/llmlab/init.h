/* SPDX-License-Identifier: MIT
 * llmlab/init.h - first values of parameters.
 */

/** @file
 * First values. What holds for all functions of a tensor here:
 *
 *   - They write into a leaf of the caller's, of any strides that don't overlap, and move its version; on failure it is
 *     as it was. Nothing is handed out, so nothing is to be freed.
 *   - The draw at (seed, stream, index) is a function of these three: it does not depend on threads or order. Source:
 *     Philox 4x32-10 (Salmon et al. 2011), Box and Muller 1958.
 *   - They return LAB_OK, LAB_ERR_ARGUMENT (t is NULL), LAB_ERR_DTYPE (not floating-point), LAB_ERR_STATE (no leaf, or
 *     strides that overlap), LAB_ERR_RANGE (a number that is not finite); lab_last_message() has the sentence. Those
 *     for matrices also LAB_ERR_SHAPE (the rank is not 2).
 */
#ifndef LLMLAB_INIT_H
#define LLMLAB_INIT_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** t = value, in every element; t of any shape. */
LAB_API LAB_CHECKED lab_status lab_init_constant(lab_tensor *t, double value);

/** t = 0, in every element; t of any shape. */
LAB_API LAB_CHECKED lab_status lab_init_zeros(lab_tensor *t);

/** t = std times normal draws of mean 0 and variance 1; t of any shape. */
LAB_API LAB_CHECKED lab_status lab_init_normal(lab_tensor *t, double std, uint64_t seed, uint64_t stream);

/**
 * t = gain sqrt(2 / (in + out)) times normal draws, for a matrix [out, in].
 *
 * Source: Glorot and Bengio 2010.
 */
LAB_API LAB_CHECKED lab_status lab_init_xavier(lab_tensor *t, double gain, uint64_t seed, uint64_t stream);

/**
 * t = gain times orthonormal rows or columns, whichever are fewer, uniformly distributed, for a matrix [out, in].
 *
 * Computed in float64: q of the QR factorization of a normal matrix, r's diagonal positive. LAB_ERR_MEMORY and lab_qr's
 * errors too.
 *
 * Source: Saxe, McClelland and Ganguli 2014; Mezzadri 2007 on the diagonal.
 */
LAB_API LAB_CHECKED lab_status lab_init_orthogonal(lab_tensor *t, double gain, uint64_t seed, uint64_t stream);

/**
 * 1 / sqrt(2 layers): what the maps that end a residual branch are multiplied by, so that the sum of all branches
 * starts at the size of one. 1 for layers < 1; never fails.
 *
 * @param layers  of the model; each has two branches
 * @return the factor
 *
 * Source: Radford et al. 2019 (GPT-2), section 2.3.
 */
LAB_API double lab_residual_scale(int64_t layers);

#ifdef __cplusplus
}
#endif
#endif
