/* op_run.h - runs a row of the op table: operands in any layout, results and gradients beside the reference's.
 *
 * A row that fails prints a line and the run goes on; rows_end fails the test if any did. Everything random comes from
 * one seed, which is printed and can be given back in LAB_TEST_SEED.
 */
#ifndef TESTS_OP_RUN_H
#define TESTS_OP_RUN_H

#include "op_cases.h"

/* One row with its operands' values, for one dtype. The case is a copy, so that shapes can be changed. */
typedef struct run {
    op_case c;
    lab_dtype real;
    array xs[CASE_INPUTS];
    lab_tensor *leaves[CASE_INPUTS];
    lab_graph *graph;
} run;

typedef enum layout {
    ROW_MAJOR,
    REVERSED, /* the first axis is the densest */
    GAPS,     /* every second place, NaN between */
    REVERSED_GAPS,
    LAYOUTS
} layout;

void rows_begin(const char *test);
void rows_end(void);
void row_fails(const run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

uint64_t test_seed(void);
uint64_t random_next(uint64_t *state);
double random_between(uint64_t *state, double low, double high);

/* Operands for a case; leaves and graph come with run_operands or are the test's own. */
void run_make(run *r, const op_case *c, lab_dtype real);
void run_operands(run *r, layout how);
void run_free(run *r); /* frees every array too */
/* Whether the case has an operand of the run's dtype; cases that have none run once. */
bool case_is_real(const op_case *c);

/* A leaf that holds an array; NULL (and a failed row) if it cannot be made. */
lab_tensor *leaf_of(const run *r, const array *a, layout how);
/* The value in the storage of dtype that is nearest. */
void store_value(void *to, lab_dtype dtype, int64_t i, long double value);
void array_of(const lab_tensor *t, array *a);
/* Random weights of magnitude 1/2 to 3/2, of y's shape and the run's dtype. */
void weights_for(const run *r, const array *y, array *weights);

/* Compares; fails the row with `what`, the index and both values. True if they agree. */
bool agree_in_ulps(const run *r, const char *what, const array *got, const array *expected, const array *scale,
                   double ulps); /* of the scale's entries */
bool agree(const run *r, const char *what, const array *got, const array *expected, long double limit);
long double largest_of(const array *a);
bool same_bits(const run *r, const char *what, const lab_tensor *got, const void *expected);

/* Row-major bytes of a tensor, to be freed by the caller. */
void *bits_of(const lab_tensor *t);

/* y of the row's operands; the row fails if the graph does. */
lab_tensor *run_value(run *r);
bool check_value(const run *r, const char *what, const lab_tensor *y);

/* d sum(weights * y) / d xs for the n tensors; false if it failed. */
bool run_gradients(run *r, lab_tensor *y, const array *weights, int n, lab_tensor **xs, lab_tensor **grads,
                   bool create_graph);
/* The same from the reference by differences of long doubles. Operands that share data are varied together. */
void reference_gradients(run *r, const array *weights, array *grads);
/* How far a gradient may be off: relative to the largest entry of all of them, as terms may cancel in one. */
long double gradient_limit(const run *r, const array *grads);

/* The operands that have a gradient. */
int run_real_operands(const run *r, lab_tensor **xs, int *which);

/* Value against the reference, and, where there is one, gradient against its differences. */
void check_value_and_gradient(run *r, const char *what);

#endif
