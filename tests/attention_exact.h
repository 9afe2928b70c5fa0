/* attention_exact.h - the results of a twin_case in long double: who is right where the two paths differ.
 *
 * Plain loops over the definition and its derivative, which share no code with src/.
 */
#ifndef TESTS_ATTENTION_EXACT_H
#define TESTS_ATTENTION_EXACT_H

#include "attention_twin.h"

typedef struct exact_run {
    int64_t n[TWIN_RESULTS];
    long double *results[TWIN_RESULTS]; /* row-major, of the leaves as they are; in the order of twin_names */
} exact_run;

/* Fails the test if there is no memory. */
exact_run exact_attend(const twin_case *t);
void exact_end(exact_run *r);

/* The largest |got - result i|; infinity where NaN or infinities do not match. */
double exact_difference(const lab_tensor *got, const exact_run *want, int i);

#endif
