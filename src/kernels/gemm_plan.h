/* gemm_plan.h - a product made ready for BLAS; shared by the gemm*.c files only.
 *
 * A plan has its result row-major (C^T = B^T A^T where its columns are the contiguous ones), batch axes folded into
 * m, n or k where the strides continue, and operands marked for copying that BLAS cannot read. What remains is
 * `entries` results, each the sum of `terms` products, cut into equal panels. The tile product reads every operand
 * where it is; its plans differ in what is transposed, and copy a result whose rows are not dense.
 */
#ifndef LAB_KERNELS_GEMM_PLAN_H
#define LAB_KERNELS_GEMM_PLAN_H

#include "gemm.h"

/* One of A, B, C: a matrix for each index of the batch axes. */
typedef struct gemm_operand {
    char *data;
    int64_t row, col;
    int64_t batch[GEMM_MAX_BATCH_RANK];
    int64_t ld;      /* of a vector: its stride */
    bool transposed; /* as cblas sees it */
    bool copied;     /* through the workspace: the strides are those of the copy, the operand's own are in from_... */
    char *copy;
    int64_t from_row, from_col, from_batch[GEMM_MAX_BATCH_RANK];
} gemm_operand;

typedef struct gemm_plan {
    kernel_type type;
    size_t size; /* of an element */
    bool add, empty, tiled;
    bool vector; /* n = 1: a matrix times a vector */
    int64_t m, n, k;
    gemm_operand a, b, c;
    int rank, entry_rank; /* the axes of entries come first, then those that are summed */
    int64_t batch[GEMM_MAX_BATCH_RANK];
    int64_t entries, terms;
    int64_t panels;
    bool cut_rows;
    double work;           /* of a panel with all its terms, in flops or their worth */
    int64_t group, pieces; /* panels of entries in a piece; pieces */
} gemm_plan;

/* The sizes of the product must fit (lab__gemm_fits). */
void lab__gemm_plan(gemm_plan *plan, const gemm_product *product);

/* Where panel `panel` begins; for panel = panels, where the last one ends. */
int64_t lab__gemm_panel_start(const gemm_plan *plan, int64_t panel);

/* One panel of one result, m x n, by the tile product. (gemm_tile.c) */
void lab__gemm_tile(const gemm_plan *plan, int64_t m, int64_t n, const void *a, const void *b, bool add, void *c);

/* Gives the copies their places; returns what is behind them. */
char *lab__gemm_place_copies(gemm_plan *plan, char *workspace);

/* Operands into their copies, before the products; results out of theirs, after them. */
void lab__gemm_copy_in(const gemm_plan *plan);
void lab__gemm_copy_out(const gemm_plan *plan);

/* The result of an empty plan that does not add. */
void lab__gemm_zero(const gemm_plan *plan);

#endif
