/* SPDX-License-Identifier: MIT
 * llmlab/linalg.h - factorizations of matrices you own, by LAPACK.
 */
#ifndef LLMLAB_LINALG_H
#define LLMLAB_LINALG_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * a = q r with orthonormal columns in q and a non-negative diagonal in r (upper triangular).
 *
 * @param a  [m, n], float; not changed
 * @param q  receives [m, min(m, n)], owned by the caller; NULL on failure
 * @param r  receives [min(m, n), n], likewise
 * @return LAB_OK, LAB_ERR_ARGUMENT, LAB_ERR_DTYPE, LAB_ERR_SHAPE (not a matrix), LAB_ERR_RANGE (sizes LAPACK cannot
 *         count), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_qr(const lab_tensor *a, lab_tensor **q, lab_tensor **r);

/**
 * a = u diag(s) vt, singular values descending.
 *
 * @param u, vt  receive [m, k] and [k, n], k = min(m, n), owned by the caller; both may be NULL for the values alone
 * @param s      receives [k]
 * @return as lab_qr; LAB_ERR_RANGE also for a matrix with NaN or infinity, or no convergence
 */
LAB_API LAB_CHECKED lab_status lab_svd(const lab_tensor *a, lab_tensor **u, lab_tensor **s, lab_tensor **vt);

/**
 * The spectral norm of a matrix: its largest singular value, max |a x| / |x|; 0 for an empty one.
 *
 * A tall or wide matrix is first reduced to a square one by QR.
 *
 * @return as lab_svd
 */
LAB_API LAB_CHECKED lab_status lab_spectral_norm(const lab_tensor *a, double *norm);

#ifdef __cplusplus
}
#endif
#endif
