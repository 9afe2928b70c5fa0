/* SPDX-License-Identifier: MIT
 * llmlab/tensor.h - tensors that you own: parameters and inputs.
 *
 * What you create you free (lab_tensor_destroy); what an op returns belongs to its graph. Either kind is a
 * lab_tensor, and every function here that only reads takes both.
 */

/** @file
 * Tensors that you own. What holds for all functions here:
 *
 *   - **Ownership.** `out` receives a tensor that the caller owns; on failure it receives NULL, and there is nothing to
 *     free. Arguments that go in are copied (but for lab_tensor_wrap's memory) and stay the caller's.
 *   - **Errors.** A lab_status other than LAB_OK; nothing has changed, and lab_last_message() has the sentence. Getters
 *     cannot fail: they return 0 or NULL for NULL or a bad axis.
 *   - Shapes are `rank` sizes, rank 0 to LAB_MAX_RANK, each at least 0. Negative axes count from the end.
 */
#ifndef LLMLAB_TENSOR_H
#define LLMLAB_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The type of a tensor's elements. A dtype may be added, never renumbered. */
typedef enum lab_dtype {
    LAB_F32 = 0,
    LAB_F64 = 1,
    LAB_I64 = 2,
    LAB_BOOL = 3 /**< one byte; other than 0 is true */
} lab_dtype;

enum { LAB_MAX_RANK = 8 };

/** A tensor: dtype, rank 0 to LAB_MAX_RANK, sizes (0 allowed), strides in elements, and shared storage. */
typedef struct lab_tensor lab_tensor;

/** The name of a dtype, "f32", "f64", "i64" or "bool"; "unknown" for a number that is none. Static, not to be freed. */
LAB_API const char *lab_dtype_name(lab_dtype dtype);

/** The size of one element in bytes; 0 for a number that is no dtype. */
LAB_API size_t lab_dtype_size(lab_dtype dtype);

/**
 * A new tensor of zeros, row-major.
 *
 * @param out    receives the tensor, owned by the caller; NULL on failure
 * @param dtype  of the elements
 * @param rank   how many axes, 0 to LAB_MAX_RANK
 * @param shape  `rank` sizes, each >= 0; may be NULL when rank is 0
 * @return LAB_OK; LAB_ERR_ARGUMENT (out or shape is NULL), LAB_ERR_DTYPE (none), LAB_ERR_RANGE (rank, a negative size,
 *         a size in bytes that overflows), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_tensor_create(lab_tensor **out, lab_dtype dtype, int rank, const int64_t *shape);

/**
 * A new tensor with a copy of `data`, row-major.
 *
 * @param out    receives the tensor, owned by the caller; NULL on failure
 * @param dtype  of the elements
 * @param rank   how many axes
 * @param shape  `rank` sizes
 * @param data   as many elements as the shape has; may be NULL when that is 0
 * @return as lab_tensor_create; LAB_ERR_ARGUMENT also where data is NULL
 */
LAB_API LAB_CHECKED lab_status lab_tensor_from(lab_tensor **out, lab_dtype dtype, int rank, const int64_t *shape,
                                               const void *data);

/**
 * A tensor around memory of your own; nothing is copied.
 *
 * @param out      receives the tensor, owned by the caller; NULL on failure
 * @param dtype    of the elements
 * @param rank     how many axes
 * @param shape    `rank` sizes
 * @param strides  in elements, >= 0; NULL for row-major. A tensor whose strides make two elements share a place is
 *                 for reading: lab_tensor_write and lab_tensor_require_grad refuse it.
 * @param data     of element [0, ..., 0], aligned to its element's size; may be NULL when the tensor has no elements
 * @param release  called once with (data, ctx) when nothing uses the memory any more (the last graph that saw the
 *                 tensor included); may be NULL. Not called on failure. The last use may end in another thread.
 * @param ctx      passed to release
 * @return as lab_tensor_create; LAB_ERR_ARGUMENT also where data is NULL or not aligned, LAB_ERR_RANGE also for a
 *         negative stride or an extent that overflows
 */
LAB_API LAB_CHECKED lab_status lab_tensor_wrap(lab_tensor **out, lab_dtype dtype, int rank, const int64_t *shape,
                                               const int64_t *strides, void *data,
                                               void (*release)(void *data, void *ctx), void *ctx);

/**
 * A copy that you own, row-major, of any tensor: a graph's or a gradient too. It does not require a gradient.
 *
 * @param out  receives the tensor, owned by the caller; NULL on failure
 * @param t    of any strides
 * @return LAB_OK, LAB_ERR_ARGUMENT (out or t is NULL), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_tensor_clone(lab_tensor **out, const lab_tensor *t);

/**
 * Gives a tensor back, its gradient too, and sets the pointer to NULL. A graph that has seen the tensor keeps its
 * memory until reset. For a graph's tensor or a gradient it only sets the pointer to NULL. NULL, and a pointer to NULL,
 * are fine.
 */
LAB_API void lab_tensor_destroy(lab_tensor **t);

/** The type of the elements; LAB_F32 (0) for NULL. */
LAB_API lab_dtype lab_tensor_dtype(const lab_tensor *t);
/** The number of axes; 0 for NULL. */
LAB_API int lab_tensor_rank(const lab_tensor *t);
/** The size along an axis; negative axes count from the end; 0 for NULL or an axis that is not there. */
LAB_API int64_t lab_tensor_size(const lab_tensor *t, int axis);
/** The stride along an axis, in elements; negative axes count from the end; 0 for NULL or an axis that is not there. */
LAB_API int64_t lab_tensor_stride(const lab_tensor *t, int axis);
/** The number of elements: the product of the sizes, 1 for rank 0; 0 for NULL. */
LAB_API int64_t lab_tensor_numel(const lab_tensor *t);
/** The memory of element [0, ..., 0], owned by t; NULL for NULL. After writing through it, call lab_tensor_touch. */
LAB_API void *lab_tensor_data(const lab_tensor *t);

/** Says that memory was written from outside: a later backward that would read the old values fails instead. NULL is
 * fine. */
LAB_API void lab_tensor_touch(lab_tensor *t);

/**
 * Copies the elements out, row-major whatever the strides.
 *
 * @param t       any tensor
 * @param buffer  receives the elements; may be NULL when there are none; not touched on failure
 * @param bytes   must be the number of elements times their size
 * @return LAB_OK, LAB_ERR_ARGUMENT (t or buffer is NULL), LAB_ERR_SHAPE (bytes)
 */
LAB_API LAB_CHECKED lab_status lab_tensor_read(const lab_tensor *t, void *buffer, size_t bytes);

/**
 * Copies row-major elements in, and moves the version: a later backward that would read the old values fails.
 *
 * @param t       any tensor whose elements have a place each; not touched on failure
 * @param buffer  the elements; may be NULL when there are none
 * @param bytes   must be the number of elements times their size
 * @return LAB_OK, LAB_ERR_ARGUMENT (t or buffer is NULL), LAB_ERR_SHAPE (bytes), LAB_ERR_STATE (strides that overlap)
 */
LAB_API LAB_CHECKED lab_status lab_tensor_write(lab_tensor *t, const void *buffer, size_t bytes);

/**
 * Marks a leaf as one into which lab_backward adds its gradient (or no longer). lab_grad needs no mark.
 *
 * @param t   a floating-point tensor that you own
 * @param on  whether it is marked from now on
 * @return LAB_OK, LAB_ERR_ARGUMENT (t is NULL), LAB_ERR_DTYPE (not floating-point), LAB_ERR_STATE (a graph's tensor, a
 *         gradient, strides that overlap)
 */
LAB_API LAB_CHECKED lab_status lab_tensor_require_grad(lab_tensor *t, bool on);

/**
 * What lab_backward has added up for a leaf so far.
 *
 * @param t  a leaf
 * @return NULL if there is none (t NULL included); else a row-major tensor of t's shape and dtype, owned by t: it goes
 *         with t, and graphs' resets do not touch it
 */
LAB_API lab_tensor *lab_tensor_grad(const lab_tensor *t);

/** Marks the gradient absent and keeps its memory; the next lab_backward writes it anew. NULL is fine. */
LAB_API void lab_tensor_clear_grad(lab_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
