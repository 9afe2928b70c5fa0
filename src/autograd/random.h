/* random.h - random numbers written into tensors that exist already. */
#ifndef LAB_AUTOGRAD_RANDOM_H
#define LAB_AUTOGRAD_RANDOM_H

#include "tensor_impl.h"

/* Normal numbers times `factor` into a floating-point tensor of any strides; the element that is number i in row-major
 * order gets the value at (seed, stream, i). Allocates nothing; the caller moves the version. */
void lab__tensor_fill_normal(lab_tensor *t, double factor, uint64_t seed, uint64_t stream);

#endif
