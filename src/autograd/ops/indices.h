/* indices.h - what ops with tensors of indices share. */
#ifndef LAB_AUTOGRAD_OPS_INDICES_H
#define LAB_AUTOGRAD_OPS_INDICES_H

#include "axes.h"

/* Where element `place`, counted row-major, lies, in elements from t's first. */
static inline int64_t lab__element_offset(const lab_tensor *t, int64_t place)
{
    int64_t offset = 0;
    for (int i = t->rank - 1; i > 0; i--) {
        offset += place % t->shape[i] * t->strides[i];
        place /= t->shape[i];
    }
    return t->rank > 0 ? offset + place * t->strides[0] : 0;
}

static inline int64_t lab__index_at(const lab_tensor *indices, int64_t place)
{
    return ((const int64_t *)indices->data)[lab__element_offset(indices, place)];
}

/* Fails with LAB_ERR_RANGE unless every index of the operand is in [0, size). */
lab_status lab__require_indices(lab_op_call *call, int operand, int64_t size);

/* Whether two tensors have equal sizes, but perhaps on one axis. */
bool lab__equal_but(const lab_tensor *a, const lab_tensor *b, int axis);

#endif
