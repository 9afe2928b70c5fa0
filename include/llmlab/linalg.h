/* SPDX-License-Identifier: MIT
 * llmlab/linalg.h - factorizations of matrices, by LAPACK.
 */

/** @file
 * Factorizations. They read any tensor of rank 2 and any strides, a graph's too, and are not recorded: no derivative.
 * What they hand out is the caller's (lab_tensor_destroy); on failure every out-pointer is NULL, and there is nothing
 * to free. Errors are returned; lab_last_message() has the sentence.
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
 * @param a  [m, n], float; not changed. NaN and infinity spread.
 * @param q  receives [m, min(m, n)], owned by the caller; NULL on failure
 * @param r  receives [min(m, n), n], likewise
 * @return LAB_OK, LAB_ERR_ARGUMENT (NULL), LAB_ERR_DTYPE (not floating-point), LAB_ERR_SHAPE (not a matrix),
 *         LAB_ERR_RANGE (sizes LAPACK cannot count), LAB_ERR_MEMORY
 *
 * Source: Householder 1958, as LAPACK's geqrf has it; the signs are turned afterwards, which makes it unique.
 */
LAB_API LAB_CHECKED lab_status lab_qr(const lab_tensor *a, lab_tensor **q, lab_tensor **r);

/**
 * a = u diag(s) vt, singular values descending.
 *
 * @param a      [m, n], float; not changed
 * @param u, vt  receive [m, k] and [k, n], k = min(m, n), owned by the caller; both may be NULL for the values alone
 * @param s      receives [k], likewise
 * @return as lab_qr; LAB_ERR_ARGUMENT also where one of u and vt is NULL, LAB_ERR_RANGE also for a matrix with NaN or
 *         infinity, or no convergence
 */
LAB_API LAB_CHECKED lab_status lab_svd(const lab_tensor *a, lab_tensor **u, lab_tensor **s, lab_tensor **vt);

/**
 * The spectral norm of a matrix: its largest singular value, max |a x| / |x|; 0 for an empty one.
 *
 * A tall or wide matrix is first reduced to a square one by QR.
 *
 * @param a     [m, n], float; not changed
 * @param norm  receives the norm; 0 on failure
 * @return as lab_svd
 */
LAB_API LAB_CHECKED lab_status lab_spectral_norm(const lab_tensor *a, double *norm);

/**
 * The singular values of a b^T, descending, for two tall matrices: W_q W_k^T of an attention head is such a product.
 *
 * With a = q r and b = p t, they are those of r t^T, since q and p are orthonormal: the product of [k, k] at most is
 * the only one that is formed. All others of a b^T are exactly 0.
 *
 * @param a  [m, k], float; not changed
 * @param b  [n, k], of a's dtype; not changed
 * @param s  receives [min(m, n, k)], owned by the caller; NULL on failure
 * @return LAB_OK, LAB_ERR_ARGUMENT (NULL), LAB_ERR_DTYPE (not floating-point; two dtypes), LAB_ERR_SHAPE (not matrices;
 *         their numbers of columns differ), LAB_ERR_RANGE (sizes LAPACK cannot count; NaN or infinity; no convergence),
 *         LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_product_singular_values(const lab_tensor *a, const lab_tensor *b, lab_tensor **s);

#ifdef __cplusplus
}
#endif
#endif
