/* SPDX-License-Identifier: MIT
 * llmlab/init.h - first values of parameters.
 *
 * The value at (seed, stream, index) is a function of these three: it does not depend on threads or order. All of them
 * write into a leaf, of any strides that don't overlap, and move its version. They return LAB_OK, LAB_ERR_ARGUMENT
 * (NULL), LAB_ERR_DTYPE (not floating-point), LAB_ERR_STATE (not a leaf, or strides that overlap), LAB_ERR_RANGE (a
 * number that is not finite), LAB_ERR_SHAPE, LAB_ERR_MEMORY.
 */
#ifndef LLMLAB_INIT_H
#define LLMLAB_INIT_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Every element `value`. */
LAB_API LAB_CHECKED lab_status lab_init_constant(lab_tensor *t, double value);

/** Zeros. */
LAB_API LAB_CHECKED lab_status lab_init_zeros(lab_tensor *t);

/** Normal with mean 0 and standard deviation `std`. */
LAB_API LAB_CHECKED lab_status lab_init_normal(lab_tensor *t, double std, uint64_t seed, uint64_t stream);

/**
 * A matrix [out, in], normal with standard deviation gain sqrt(2 / (in + out)).
 *
 * Source: Glorot and Bengio 2010.
 */
LAB_API LAB_CHECKED lab_status lab_init_xavier(lab_tensor *t, double gain, uint64_t seed, uint64_t stream);

/**
 * A matrix: gain times orthonormal rows or columns, whichever are fewer, uniformly distributed.
 *
 * Source: Saxe, McClelland and Ganguli 2014; the QR factorization of a normal matrix, r's diagonal positive.
 */
LAB_API LAB_CHECKED lab_status lab_init_orthogonal(lab_tensor *t, double gain, uint64_t seed, uint64_t stream);

/**
 * 1 / sqrt(2 layers): what the maps that end a residual branch are multiplied by, so that the sum of all branches
 * starts at the size of one. 1 for layers < 1.
 *
 * Source: Radford et al. 2019 (GPT-2), section 2.3.
 */
LAB_API double lab_residual_scale(int64_t layers);

#ifdef __cplusplus
}
#endif
#endif
