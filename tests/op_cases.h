/* op_cases.h - the table that the tests of ops run on: one row per op and variant, and a plain reference for each.
 *
 * A reference is a scalar loop in long double over row-major arrays, written from the op's definition in ops.h and
 * from nothing else. A new op gets a row in the file of its family (op_cases_*.c); test_ops.c fails until it has one.
 */
#ifndef TESTS_OP_CASES_H
#define TESTS_OP_CASES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "llmlab/ops.h"

enum { CASE_INPUTS = 3 };

/* What a tensor holds, row-major. The memory is given back by arrays_free. */
typedef struct array {
    lab_dtype dtype;
    int rank;
    int64_t shape[LAB_MAX_RANK];
    int64_t numel;
    long double *data;
} array;

typedef enum input_type {
    REAL, /* the float dtype of the run; differentiated */
    WHOLE,
    TRUTH
} input_type;

typedef enum input_fill {
    ANY,      /* uniform in [low, high]; whole numbers in [low, high) */
    SIGNED,   /* magnitude in [low, high], either sign: keeps away from 0 */
    DISTINCT, /* no two alike, in all operands together: keeps away from ties */
    COUNTING  /* 0, 1, 2, ...: an index that takes every place once */
} input_fill;

typedef struct case_input {
    input_type type;
    input_fill fill;
    double low, high;
    int rank;
    int64_t shape[LAB_MAX_RANK];
} case_input;

/* What an op takes besides tensors; each op uses what it needs. */
typedef struct case_args {
    double scalar, start, step;
    int n; /* axes, or the rank of `numbers` as a shape */
    int axes[LAB_MAX_RANK];
    int64_t numbers[LAB_MAX_RANK];
    bool keep;
    lab_dtype dtype;
} case_args;

enum {
    ELEMENTWISE = 1,  /* works on any shapes that broadcast; `element` is its reference */
    BY_LARGEST = 2,   /* ulps count at the tensor's largest entry, not at each entry */
    BY_MAGNITUDE = 4, /* ulps count at the result of the operands' magnitudes: for sums, where terms cancel */
    LARGE = 8,        /* big enough to be cut into pieces; too big for differences */
    TO_F32 = 16,      /* the result is f32 whatever the operand is: too rough for gradcheck's differences */
    STEEP = 32        /* changes within a step of gradcheck: only differences of the reference count */
};

typedef struct op_case {
    const char *op, *variant;

    /* The op: a public function of tensors alone, or a function that adds the arguments. */
    lab_tensor *(*one)(lab_graph *g, lab_tensor *x);
    lab_tensor *(*two)(lab_graph *g, lab_tensor *a, lab_tensor *b);
    lab_tensor *(*build)(lab_graph *g, lab_tensor **xs, const struct op_case *c);

    /* The reference: of one element, or of the whole. */
    long double (*element)(const struct op_case *c, lab_dtype type, const long double *x);
    void (*reference)(const struct op_case *c, const array *xs, array *y);

    int n_inputs;
    case_input in[CASE_INPUTS];
    case_args args;
    bool truth;      /* an elementwise op with a bool result */
    int derivatives; /* 0, 1 or 2 */
    double ulps[2];  /* tolerance in f32 and f64 */
    unsigned flags;
} op_case;

/* A row of the table of bad calls. Operands are made as stated, or are NULL. */
typedef struct bad_case {
    op_case call; /* op, variant, build or one or two, n_inputs, args; in[] gives shapes and ranges */
    lab_dtype dtypes[CASE_INPUTS];
    unsigned missing; /* bit i: operand i is NULL */
    lab_status status;
    const char *says[3]; /* what the message must contain besides the op's name */
} bad_case;

int op_case_count(void);
const op_case *op_case_at(int i);
int bad_case_count(void);
const bad_case *bad_case_at(int i);

/* Families; each ends with a row whose op is NULL. */
extern const op_case op_cases_binary[], op_cases_unary[], op_cases_select[], op_cases_matmul[], op_cases_reduce[],
    op_cases_softmax[], op_cases_shape[], op_cases_index[], op_cases_create[];
extern const bad_case bad_cases_elementwise[], bad_cases_shape[], bad_cases_index[];

/* ---- For references ----------------------------------------------------------------------------------------- */

/* Zeros of a shape. */
void array_make(array *a, lab_dtype dtype, int rank, const int64_t *shape);
void arrays_free(void);

/* Moves a multi-index on in row-major order; false after the last one. */
bool index_next(int rank, const int64_t *shape, int64_t *index);
/* The row-major place of a multi-index; axes of size 1 are not moved along (broadcasting), aligned at the last axis. */
int64_t index_place(const array *a, int rank, const int64_t *index);
int axis_of(int rank, int axis);

/* y = op on long doubles; the case's reference, elementwise or not. */
void case_reference(const op_case *c, const array *xs, array *y);
/* y = op on tensors. */
lab_tensor *case_apply(lab_graph *g, lab_tensor **xs, void *c);

/* The scalar argument as the op sees it. */
long double case_scalar(const op_case *c, lab_dtype type);

#endif
