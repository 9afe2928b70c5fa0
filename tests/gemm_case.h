/* gemm_case.h - products in guarded memory, in every layout, and a plain loop in long double that judges them. */
#ifndef LAB_TESTS_GEMM_CASE_H
#define LAB_TESTS_GEMM_CASE_H

#include "guarded.h"
#include "kernels/gemm.h"

enum { CASE_AXES = GEMM_MAX_BATCH_RANK + 2 };

/* How the elements of an operand lie in memory: axes from the innermost outwards, the gaps between them. */
typedef enum case_layout {
    LAYOUT_ROWS,          /* row-major */
    LAYOUT_ROWS_APART,    /* with a gap between rows */
    LAYOUT_COLUMNS,       /* column-major */
    LAYOUT_COLUMNS_APART, /* with a gap between columns */
    LAYOUT_STRIDED,       /* neither stride is 1 */
    LAYOUT_RESULTS,       /* so many a result may have; the others repeat elements */
    LAYOUT_ONE_ROW = LAYOUT_RESULTS,
    LAYOUT_ONE_COLUMN,
    LAYOUT_ONE_ELEMENT,
    LAYOUT_WINDOWS, /* each row begins one element after the row before */
    LAYOUTS
} case_layout;

typedef struct gemm_case {
    gemm_product p;
    guarded a, b, c, workspace;
} gemm_case;

/* Sizes come from `p`; strides that are still 0 are chosen, batch axes at random (some repeated: stride 0). */
void case_layouts(gemm_product *p, case_layout a, case_layout b, case_layout c);
void case_random_strides(gemm_product *p, uint64_t *stream);

/* Calls fn for `p` in both types, written and added; for every layout of both operands and the result, each so. */
void case_both_types(gemm_product p, void (*fn)(const gemm_product *p, uint64_t *stream), uint64_t *stream);
void case_every_layout(int64_t m, int64_t n, int64_t k, void (*fn)(const gemm_product *p, uint64_t *stream),
                       uint64_t *stream);

/* Memory of the extent that the strides of `p` need, random operands; the result is NaN, or random if it is added to.
 */
gemm_case case_make(const gemm_product *p, uint64_t *stream);
void case_free(gemm_case *x);

/* Runs products beside each other, one workspace for all. */
void case_run(int count, gemm_case *cases);

/* NULL if every element is right, nothing beside them was written, and the operands are as they were. */
const char *case_wrong(const gemm_case *x);

/* The same, but for the values of the elements. */
const char *case_touched(const gemm_case *x);

/* One element as a double; `axis` i < batch_rank is the batch's, then row, then column. */
double case_element(const gemm_product *p, const void *data, int64_t offset);

/* "f32 [3] 4x5x6 a(5,1;20) ...": what is being multiplied. */
const char *case_text(const gemm_product *p);

#endif
