/* nn_impl.h - small words that the layers share: a number as a tensor, reading whole numbers, refusing a call. */
#ifndef LAB_NN_IMPL_H
#define LAB_NN_IMPL_H

#include <math.h>

#include "autograd/engine.h"
#include "llmlab/ops.h"

/* A number as a tensor of rank 0, which broadcasts to anything; `like` gives the dtype. */
lab_tensor *lab__number(lab_graph *g, const lab_tensor *like, double value);
lab_tensor *lab__whole(lab_graph *g, int64_t value);

/* 0, 1, ... n - 1 as i64, along the last of `rank` axes (1), or the one before it (2: a column). */
lab_tensor *lab__count_along(lab_graph *g, int64_t n, int axis_from_end);

/* Element `index`, in row-major order, of an i64 tensor of any strides. */
int64_t lab__i64_at(const lab_tensor *t, int64_t index);

/* Where row `row` of a tensor begins, in elements: rows lie along the last axis, counted in row-major order. */
int64_t lab__row_place(const lab_tensor *t, int64_t row);
int64_t lab__row_count(const lab_tensor *t);
int64_t lab__row_length(const lab_tensor *t);
int64_t lab__row_stride(const lab_tensor *t);

/* The element at which batch `index` begins: t's axes but for the last three, broadcast against those of q. */
int64_t lab__place_of_batch(const lab_tensor *t, const lab_tensor *q, int64_t index);

/* The product of the first n sizes. */
int64_t lab__product(int n, const int64_t *sizes);

/* Whether the `reserved` words of an option struct are zero. */
bool lab__all_zero(const uint64_t reserved[8]);

/* Makes the graph fail with "name: " and what lab__fail has just said; returns NULL. */
lab_tensor *lab__refuse_as_said(lab_graph *g, const char *name, lab_status status);

#endif
