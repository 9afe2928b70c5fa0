/* reference.h - what each kernel computes, one element after another in long double: the definitions that tests hold
 * the kernels to. Written apart from them, plainly, and always built; nothing that runs uses them.
 *
 * Rows are dense here, and wide enough to be exact for elements of float and double.
 */
#ifndef LAB_KERNELS_REFERENCE_H
#define LAB_KERNELS_REFERENCE_H

#include "kernels.h"

long double lab__reference_unary(kernel_unary op, long double x, long double parameter);
long double lab__reference_binary(kernel_binary op, long double a, long double b);
bool lab__reference_compare(kernel_compare op, long double a, long double b);

long double lab__reference_sum(int64_t n, const long double *x);
long double lab__reference_dot(int64_t n, const long double *x, const long double *y);
long double lab__reference_maximum(int64_t n, const long double *x);
long double lab__reference_logsumexp(int64_t n, const long double *x);
void lab__reference_softmax(int64_t n, long double *y, const long double *x);
void lab__reference_log_softmax(int64_t n, long double *y, const long double *x);
void lab__reference_softmax_backward(int64_t n, long double *dx, const long double *y, const long double *dy, bool add);
void lab__reference_log_softmax_backward(int64_t n, long double *dx, const long double *y, const long double *dy,
                                         bool add);

#endif
