/* SPDX-License-Identifier: MIT
 * llmlab/spectral.h - the ends of a spectrum: Lanczos on anything that multiplies vectors, and on a loss's Hessian.
 *
 *     double top, residual;                                        // the sharpest direction of a loss
 *     status = lab_hessian_eigenvalues(loss, ctx, n, weights, NULL, &top, &residual, NULL);
 */

/** @file
 * Eigenvalues of symmetric operators that are known by their products with vectors alone. Errors are returned, on
 * failure nothing is handed out, and lab_last_message() has the sentence. All memory that a call takes is given back;
 * everything is repeated to the bit by the same seed.
 */
#ifndef LLMLAB_SPECTRAL_H
#define LLMLAB_SPECTRAL_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A symmetric linear operator: y = A x.
 *
 * @param n    numbers in x and in y
 * @param x    not to be changed
 * @param y    receives the product
 * @param ctx  what lab_lanczos was given
 * @return LAB_OK to go on; anything else ends lab_lanczos, which returns it
 */
typedef lab_status (*lab_operator_fn)(int64_t n, const double *x, double *y, void *ctx);

/** What lab_lanczos looks for, and how long. Zero means the default; `reserved` must be zero. */
typedef struct lab_lanczos_opts {
    int64_t top, bottom; /**< how many of the largest and of the smallest eigenvalues; both 0: the largest */
    int64_t steps;       /**< products at most; 0: 100, or as many as are asked for twice over; never more than n */
    double tolerance;    /**< stop where every residual is so small beside the largest |eigenvalue|; 0: 1e-10 */
    uint64_t seed;       /**< of the first vector, normal numbers */
    double *vectors;     /**< the caller's [top + bottom, n], receives eigenvectors of length 1; NULL: none */
    uint64_t reserved[8];
} lab_lanczos_opts;

/** How it went. */
typedef struct lab_lanczos_report {
    bool converged; /**< every residual is within the tolerance */
    int64_t steps;  /**< products taken, and vectors kept at the end */
    double worst;   /**< the largest residual */
    uint64_t reserved[5];
} lab_lanczos_report;

/**
 * The largest and smallest eigenvalues of a symmetric operator.
 *
 * Every vector is orthogonalized against all before it, twice, so that no eigenvalue comes up a second time by
 * rounding. For the same reason a repeated eigenvalue is found once only, unless the operator is exhausted before. Not
 * to have converged within the steps is no failure: the values are then the best there are, with their residuals.
 *
 * @param n          rows and columns of the operator, at least 1
 * @param apply      y = A x; has to be symmetric, which nobody checks
 * @param ctx        passed to apply
 * @param opts       NULL for the largest eigenvalue alone
 * @param values     receives top + bottom numbers: the largest, descending, then the smallest, ascending
 * @param residuals  receives |A x - value x| for each, within which an eigenvalue of A lies; may be NULL
 * @param report     may be NULL
 * @return LAB_OK; LAB_ERR_ARGUMENT (apply or values is NULL, reserved words), LAB_ERR_RANGE (n, top, bottom, steps or
 *         tolerance; a product that is not finite), LAB_ERR_MEMORY (steps + 1 vectors are kept), or what apply returns.
 *         On failure values, residuals and vectors hold nothing of use; report is all zero.
 *
 * Source: Lanczos 1950; full reorthogonalization as in Parlett 1980, section 13.
 */
LAB_API LAB_CHECKED lab_status lab_lanczos(int64_t n, lab_operator_fn apply, void *ctx, const lab_lanczos_opts *opts,
                                           double *values, double *residuals, lab_lanczos_report *report);

/**
 * Products of y's Hessian: products[i] = sum over j of d^2 y / (dxs[i] dxs[j]) vs[j].
 *
 * By the derivative of sum over j of (dy/dxs[j] . vs[j]), with the first derivative recorded; the products are not, and
 * have no derivative.
 *
 * @param g         a recording graph
 * @param y         one element, floating-point, on g
 * @param n         how many xs
 * @param xs        on g: tensors computed on it, or leaves it has seen
 * @param vs        n tensors of the shapes and dtypes of xs
 * @param products  receives n tensors of the shapes of xs, owned by g; all NULL on failure
 * @return LAB_OK, or the graph's failure: LAB_ERR_ARGUMENT (NULL, n below 1), LAB_ERR_SHAPE (y has not one element; a
 *         v's shape), else as lab_grad with create_graph
 */
LAB_API lab_status lab_hessian_product(lab_graph *g, lab_tensor *y, int n, lab_tensor **xs, lab_tensor **vs,
                                       lab_tensor **products);

/**
 * lab_lanczos on the Hessian of a loss with respect to n leaves, taken together as one vector.
 *
 * Each product computes the loss and its first and second derivative anew, on a graph of its own. In f32 a residual
 * stays above 1e-7 of the largest eigenvalue or so: ask for no less.
 *
 * @param loss       of one element, written with ops on g; called once for each product
 * @param ctx        passed to loss
 * @param n          how many xs, at least 1
 * @param xs         floating-point leaves, passed to loss; not changed
 * @param opts       as for lab_lanczos; vectors are [top + bottom, elements of all xs], xs one behind another
 * @param values     as for lab_lanczos
 * @param residuals  as for lab_lanczos
 * @param report     as for lab_lanczos
 * @return as lab_lanczos; LAB_ERR_ARGUMENT also where loss, xs or one of them is NULL, LAB_ERR_DTYPE (an x is not
 *         floating-point), LAB_ERR_RANGE also where there are no elements; and what loss or a derivative fails with:
 *         LAB_ERR_UNSUPPORTED names an op whose derivative cannot be recorded
 */
LAB_API LAB_CHECKED lab_status lab_hessian_eigenvalues(lab_fn loss, void *ctx, int n, lab_tensor **xs,
                                                       const lab_lanczos_opts *opts, double *values, double *residuals,
                                                       lab_lanczos_report *report);

#ifdef __cplusplus
}
#endif
#endif
