/* nn_check.h - what the tests of attention and layers share: seeded leaves, comparisons that say where, refusals.
 *
 * Everything random comes from one seed, which is printed when something fails and accepted back in LAB_TEST_SEED.
 */
#ifndef TESTS_NN_CHECK_H
#define TESTS_NN_CHECK_H

#include <llmlab.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

uint64_t check_seed(void);
/* A stream of draws that is a function of the seed and of a name. */
uint64_t draw_start(const char *name);
uint64_t draw(uint64_t *state);
double draw_between(uint64_t *state, double low, double high);
int64_t draw_size(uint64_t *state, int64_t low, int64_t high); /* both included */

/* Leaves: drawn from [-1, 1] times scale, or given. Fail the test if there is no memory. */
lab_tensor *leaf_drawn(uint64_t *state, lab_dtype dtype, int rank, const int64_t *shape, double scale);
lab_tensor *leaf_of_doubles(lab_dtype dtype, int rank, const int64_t *shape, const double *values);
lab_tensor *leaf_of_integers(int rank, const int64_t *shape, const int64_t *values);
lab_tensor *leaf_of_bools(int rank, const int64_t *shape, const bool *values);
/* The same elements where the last two axes lie the other way round in memory, with a gap after each line. */
lab_tensor *leaf_strided(const lab_tensor *of);
int64_t count_of(int rank, const int64_t *shape);

/* Element `i` in row-major order, any strides and dtype. */
double element_of(const lab_tensor *t, int64_t i);
/* All of them, much faster; to be freed. */
double *elements_of(const lab_tensor *t);

/* max |got - want| <= tolerance * max |want|; NaN and infinities must match as they are. */
void expect_close(const char *what, const lab_tensor *got, const double *want, int64_t n, double tolerance);
/* The worst |got - want| / max |want| of it, without judging. */
double error_of(const lab_tensor *got, const double *want, int64_t n);
/* Equal as numbers, element by element (-0 equals 0, NaN equals NaN). */
void expect_same(const char *what, const lab_tensor *got, const lab_tensor *want);
void expect_all(const char *what, const lab_tensor *got, double value);

void expect_healthy(const lab_graph *g);
/* The graph has failed with this status, and its sentence contains `word`. */
void expect_refusal(const lab_graph *g, lab_status status, const char *word);

/* lab_gradcheck passes; prints the worst entry otherwise. */
void expect_gradients(const char *what, lab_fn f, void *ctx, int n, lab_tensor **xs, const lab_gradcheck_opts *opts);

#endif
