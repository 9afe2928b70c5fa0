/* gemm.h - matrix products on cblas, or on the tile product. gemm.c is the one file that calls cblas.
 *
 * BLAS runs single-threaded inside the pieces of the library's pool: its own thread count, which is process-wide,
 * is set to 1 by a counted guard on the first entry and restored on the last.
 */
#ifndef LAB_KERNELS_GEMM_H
#define LAB_KERNELS_GEMM_H

#include "kernels.h"

enum { GEMM_MAX_BATCH_RANK = 8 };

/* C[m, n] = (add ? C : 0) + A[m, k] B[k, n] for every index of the batch. Strides in elements, any but those of C
 * distinct per element, except that a batch stride of C may be 0: those products are summed, in ascending order.
 * k = 0 gives zeros (or leaves C as it is when adding).
 *
 * `tiled` keeps cblas out, which otherwise takes what it is faster at: every element has one accumulator, which starts
 * at 0, or at C's element when adding, k ascends, and so do the products that are summed. Its bits depend on its row of
 * A, its column of B and what it is added to alone; not on m, n, any stride, or the products beside it. */
typedef struct gemm_product {
    kernel_type type;
    bool add, tiled;
    int64_t m, n, k;
    const void *a;
    int64_t a_row, a_col;
    const void *b;
    int64_t b_row, b_col;
    void *c;
    int64_t c_row, c_col;
    int batch_rank;
    int64_t batch[GEMM_MAX_BATCH_RANK];
    int64_t a_batch[GEMM_MAX_BATCH_RANK], b_batch[GEMM_MAX_BATCH_RANK], c_batch[GEMM_MAX_BATCH_RANK];
} gemm_product;

/* Whether every size and leading dimension fits BLAS's int; true where BLAS is not asked. */
bool lab__gemm_fits(const gemm_product *product);

/* Bytes of workspace that lab__gemm_run needs for these products: copies of operands of which neither stride is 1 (of
 * the result alone when tiled).
 * Depends on the sizes and strides only. 0 for most; SIZE_MAX if no size_t holds it. */
size_t lab__gemm_workspace(int count, const gemm_product *products);

/* Computes up to a few products that do not depend on one another (their C do not overlap), beside each other where
 * each alone is too small to be cut into panels. `workspace` is aligned to 64 bytes. Same bits for any number of
 * threads. Folds batches into m or k where strides allow it. */
void lab__gemm_run(int count, const gemm_product *products, void *workspace);

/* ---- What BLAS this is ----------------------------------------------------------------------------------------- */

/* "OpenBLAS 0.3.21", "BLIS 0.9.0", "reference BLAS"; never NULL. */
const char *lab__blas_name(void);
/* OpenBLAS's core ("Haswell", "Cooperlake"); "" where there is no such notion. */
const char *lab__blas_core(void);
/* "serial", "pthread", "openmp" or "unknown". */
const char *lab__blas_threading(void);

/* Where the product's code is: tells whose it is. */
const void *lab__gemm_address(void);

/* The counted guard, for other callers of BLAS inside the library (lapack.c) and for benches. */
void lab__blas_guard_enter(void);
void lab__blas_guard_leave(void);
/* Around the calls of BLAS of one piece, inside the guard: some builds keep a thread count in each thread, also in each
 * worker; and OpenBLAS's serial build does not bear two callers at a time. */
void lab__blas_piece_begin(void);
void lab__blas_piece_end(void);

/* The direct call, row-major, one thread, for benches: C[m,n] = A[m,k] B[k,n]. */
void lab__gemm_direct(kernel_type type, int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c);

#endif
