/* lapack.h - factorizations by LAPACKE's _work forms, on memory the caller hands over. lapack.c alone calls it.
 *
 * Matrices are row-major and contiguous. Every function has a twin that says how many bytes of workspace it needs
 * (aligned to 64). Results: 0 done, > 0 LAPACK's own info (no convergence), < 0 the sizes do not fit LAPACK's int.
 */
#ifndef LAB_KERNELS_LAPACK_H
#define LAB_KERNELS_LAPACK_H

#include "kernels.h"

/* a [m, n] -> q [m, r], r [r, n], r = min(m, n). `a` is kept. The diagonal of r is made non-negative, so that the
 * factorization is unique for a matrix of full rank. */
size_t lab__qr_workspace(kernel_type type, int64_t m, int64_t n);
int lab__qr(kernel_type type, int64_t m, int64_t n, const void *a, void *q, void *r, void *workspace);

/* Singular values of a [m, n], descending, into s [min(m, n)]; u [m, r] and vt [r, n] unless NULL. `a` is kept. */
size_t lab__svd_workspace(kernel_type type, int64_t m, int64_t n, bool vectors);
int lab__svd(kernel_type type, int64_t m, int64_t n, const void *a, void *s, void *u, void *vt, void *workspace);

/* The symmetric tridiagonal matrix of n >= 1 numbers on its diagonal and n - 1 below it: eigenvalues, ascending, into
 * `diagonal`; `below` (n numbers of room) is destroyed; eigenvector number i at vectors + i * n. `workspace`: 2 n. */
int lab__tridiagonal(int64_t n, double *diagonal, double *below, double *vectors, double *workspace);

#endif
