/* neighbour.h - a program that uses BLAS itself, beside the library: its step, its product, its thread counts. */
#ifndef LAB_TESTS_NEIGHBOUR_H
#define LAB_TESTS_NEIGHBOUR_H

#include <stdbool.h>

enum { NEIGHBOUR_SIZE = 256, NEIGHBOUR_RESULT = NEIGHBOUR_SIZE * NEIGHBOUR_SIZE };

/* Products large enough for the pool, softmax, attention; all the way back to the weight's gradient. Every call gives
 * the same bits. Returns NULL, or what went wrong. */
const char *neighbour_step(float *gradient);

/* The same, held against what the first call (made before there are threads) gave. */
const char *neighbour_step_again(void);

/* The program's own cblas_dgemm, of size^3, every element checked. */
bool neighbour_product_is_right(int size);

/* The BLAS has a thread count of the process that can be asked for and set. */
bool neighbour_has_count(void);
int neighbour_get_count(void);
void neighbour_set_count(int n);
/* OpenBLAS's serial build, which programs may call from one thread at a time only. */
bool neighbour_is_serial(void);

#endif
