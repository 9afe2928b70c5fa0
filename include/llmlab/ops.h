/* SPDX-License-Identifier: MIT
 * llmlab/ops.h - the ops: functions from tensors to tensors, each with a derivative that can itself be differentiated.
 *
 * Common to all of them:
 *   - g records the op and owns the result; the operands are kept alive by g until reset. NULL is returned if the
 *     graph has failed, and lab_graph_message(g) says why. Functions of several operands demand equal dtypes: nothing
 *     is promoted silently.
 *   - Operands of elementwise ops are broadcast as NumPy does it: shapes are aligned at the last axis, a size of 1
 *     (or a missing axis) is stretched. A gradient is summed back to its operand's shape.
 *   - "float" means LAB_F32 or LAB_F64. Axes may be negative (from the end). Any strides, any size 0.
 *   - Errors: LAB_ERR_ARGUMENT (a NULL operand, by position), LAB_ERR_DTYPE, LAB_ERR_SHAPE, LAB_ERR_RANGE (axes,
 *     ranks, indices, sizes that overflow), LAB_ERR_STATE (an operand of another graph), LAB_ERR_MEMORY.
 *   - dy stands for the gradient that comes in.
 */
#ifndef LLMLAB_OPS_H
#define LLMLAB_OPS_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Elementwise, two operands: float and i64
 * ------------------------------------------------------------------------- */

/** y = a + b.  da = dy, db = dy. */
LAB_API lab_tensor *lab_add(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = a - b.  da = dy, db = -dy. */
LAB_API lab_tensor *lab_sub(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = a * b.  da = dy b, db = dy a. */
LAB_API lab_tensor *lab_mul(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = a / b, float only.  da = dy / b, db = -dy y / b. */
LAB_API lab_tensor *lab_div(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = max(a, b), NaN if either is.  The gradient goes to the larger operand, to a where they are equal. */
LAB_API lab_tensor *lab_maximum(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = min(a, b), NaN if either is.  The gradient goes to the smaller operand, to a where they are equal. */
LAB_API lab_tensor *lab_minimum(lab_graph *g, lab_tensor *a, lab_tensor *b);

/* ---- Elementwise, one operand: float (neg, add_scalar, mul_scalar and abs: i64 too)
 * ----------------------------------- */

/** y = -x.  dx = -dy. */
LAB_API lab_tensor *lab_neg(lab_graph *g, lab_tensor *x);

/** y = x + s, s rounded to x's dtype (i64: s must be a whole number).  dx = dy. */
LAB_API lab_tensor *lab_add_scalar(lab_graph *g, lab_tensor *x, double s);

/** y = x * s, s rounded to x's dtype (i64: s must be a whole number).  dx = dy s. */
LAB_API lab_tensor *lab_mul_scalar(lab_graph *g, lab_tensor *x, double s);

/** y = e^x, to 1.1 ulp.  dx = dy y. */
LAB_API lab_tensor *lab_exp(lab_graph *g, lab_tensor *x);

/** y = ln x; NaN below 0, -inf at 0.  dx = dy / x. */
LAB_API lab_tensor *lab_log(lab_graph *g, lab_tensor *x);

/** y = sqrt(x); NaN below 0.  dx = dy / (2 y). */
LAB_API lab_tensor *lab_sqrt(lab_graph *g, lab_tensor *x);

/** y = 1 / sqrt(x).  dx = -dy y / (2 x). */
LAB_API lab_tensor *lab_rsqrt(lab_graph *g, lab_tensor *x);

/** y = tanh x.  dx = dy (1 - y^2). */
LAB_API lab_tensor *lab_tanh(lab_graph *g, lab_tensor *x);

/** y = 1 / (1 + e^-x).  dx = dy y (1 - y). */
LAB_API lab_tensor *lab_sigmoid(lab_graph *g, lab_tensor *x);

/** y = erf x.  dx = dy 2/sqrt(pi) e^(-x^2). */
LAB_API lab_tensor *lab_erf(lab_graph *g, lab_tensor *x);

/** y = max(x, 0).  dx = dy where x > 0, else 0. */
LAB_API lab_tensor *lab_relu(lab_graph *g, lab_tensor *x);

/** Which GELU: x times the normal distribution's integral, or the approximation by tanh (as GPT-2 has it). */
typedef enum lab_gelu_kind { LAB_GELU_ERF = 0, LAB_GELU_TANH = 1 } lab_gelu_kind;

/**
 * LAB_GELU_ERF: y = x Phi(x) = x (1 + erf(x / sqrt 2)) / 2.  LAB_GELU_TANH: y = x (1 + tanh(u)) / 2 with
 * u = sqrt(2/pi) (x + 0.044715 x^3).  dx = dy y'(x).
 *
 * Source: Hendrycks and Gimpel 2016.
 */
LAB_API lab_tensor *lab_gelu(lab_graph *g, lab_tensor *x, lab_gelu_kind kind);

/** y = x sigmoid(x).  dx = dy (s + y (1 - s)), s = sigmoid(x). */
LAB_API lab_tensor *lab_silu(lab_graph *g, lab_tensor *x);

/** y = x^p, as pow does.  dx = dy p x^(p-1); 0 for p = 0. */
LAB_API lab_tensor *lab_pow_scalar(lab_graph *g, lab_tensor *x, double p);

/** y = |x|.  dx = dy sign(x), 0 at 0. */
LAB_API lab_tensor *lab_abs(lab_graph *g, lab_tensor *x);

/** y = sin x.  dx = dy cos x. */
LAB_API lab_tensor *lab_sin(lab_graph *g, lab_tensor *x);

/** y = cos x.  dx = -dy sin x. */
LAB_API lab_tensor *lab_cos(lab_graph *g, lab_tensor *x);

/* ---- Comparison, logic, selection: results of LAB_BOOL have no derivative
 * --------------------------------------------- */

/** y = (a == b), bool; any dtype. NaN equals nothing. */
LAB_API lab_tensor *lab_equal(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = (a < b), bool; float or i64. */
LAB_API lab_tensor *lab_less(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = (a <= b), bool; float or i64. */
LAB_API lab_tensor *lab_less_equal(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = a and b; bool. */
LAB_API lab_tensor *lab_logical_and(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = a or b; bool. */
LAB_API lab_tensor *lab_logical_or(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = not a; bool. */
LAB_API lab_tensor *lab_logical_not(lab_graph *g, lab_tensor *a);

/**
 * y = condition ? a : b, all three broadcast; condition is bool, a and b of one dtype, any.
 *
 * The derivative selects too: da = dy where the condition holds, else exactly 0 (a NaN in dy that is not selected
 * leaves no trace), db the other way round.
 */
LAB_API lab_tensor *lab_where(lab_graph *g, lab_tensor *condition, lab_tensor *a, lab_tensor *b);

/* ---- Matrix product
 * --------------------------------------------------------------------------------------------------- */

/**
 * y[..., i, j] = sum over k of a[..., i, k] b[..., k, j]; float.
 *
 * NumPy's rules: leading axes are broadcast; a vector as first operand is a row, as second a column, and that axis
 * is left out of the result. Transposed views cost no copy. da = dy b^T, db = a^T dy. Sizes that BLAS cannot count
 * give LAB_ERR_RANGE.
 */
LAB_API lab_tensor *lab_matmul(lab_graph *g, lab_tensor *a, lab_tensor *b);

/* ---- Reductions
 * ------------------------------------------------------------------------------------------------------- */

/**
 * y = the sum over the axes given (float or i64); n_axes = 0 sums over none of them.
 *
 * @param keep  leave the axes in, with size 1. dx = dy stretched.
 */
LAB_API lab_tensor *lab_sum(lab_graph *g, lab_tensor *x, int n_axes, const int *axes, bool keep);

/** y = sum / number of elements summed, float; NaN where that number is 0.  dx = dy / number, stretched. */
LAB_API lab_tensor *lab_mean(lab_graph *g, lab_tensor *x, int n_axes, const int *axes, bool keep);

/**
 * y = the largest element along an axis (float or i64), NaN if there is one. The axis must not be empty.
 *
 * dx: dy at the first largest element, 0 elsewhere.
 */
LAB_API lab_tensor *lab_max(lab_graph *g, lab_tensor *x, int axis, bool keep);

/** The place of the first largest element along an axis (the first NaN if there is one), i64. No derivative. */
LAB_API lab_tensor *lab_argmax(lab_graph *g, lab_tensor *x, int axis, bool keep);

/** y = the sum of all elements, rank 0. */
LAB_API lab_tensor *lab_sum_all(lab_graph *g, lab_tensor *x);

/** y = the mean of all elements, rank 0; NaN if there are none. */
LAB_API lab_tensor *lab_mean_all(lab_graph *g, lab_tensor *x);

/**
 * y = e^(x - max x) / sum of the same, along an axis; float.
 *
 * A row of nothing but -inf gives zeros and zero gradient; NaN or +inf gives NaN for that row alone.
 * dx = y (dy - sum(dy y)); exactly 0 where y is 0.
 */
LAB_API lab_tensor *lab_softmax(lab_graph *g, lab_tensor *x, int axis);

/** y = x - logsumexp(x) along an axis; -inf throughout for a row of -inf.  dx = dy - e^y sum(dy). */
LAB_API lab_tensor *lab_log_softmax(lab_graph *g, lab_tensor *x, int axis);

/**
 * y = ln sum e^x along an axis, with the maximum taken out; float.
 *
 * A row of nothing but -inf, or an empty one, gives -inf and zero gradient; one with +inf gives +inf, and one with
 * NaN gives NaN, for that row alone (both have NaN as gradient). dx = dy e^(x - y).
 */
LAB_API lab_tensor *lab_logsumexp(lab_graph *g, lab_tensor *x, int axis, bool keep);

/* ---- Shape: views where strides allow; nothing is copied unless said
 * -------------------------------------------------- */

/** The same elements in row-major order under other sizes; one size may be -1. Copies where strides force it. */
LAB_API lab_tensor *lab_reshape(lab_graph *g, lab_tensor *x, int rank, const int64_t *shape);

/** Two axes exchanged. */
LAB_API lab_tensor *lab_transpose(lab_graph *g, lab_tensor *x, int axis_a, int axis_b);

/** Axis i of the result is axis axes[i] of x; axes is a permutation of 0 ... rank-1 (negative ones count from the end).
 */
LAB_API lab_tensor *lab_permute(lab_graph *g, lab_tensor *x, const int *axes);

/**
 * Elements start, start + step, ... below stop along an axis; step > 0. Negative start and stop count from the
 * end; both are clamped to the axis, as Python does.
 */
LAB_API lab_tensor *lab_slice(lab_graph *g, lab_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);

/** n >= 1 tensors put behind one another along an axis; any dtype. Copies. dx_i = its part of dy. */
LAB_API lab_tensor *lab_concat(lab_graph *g, int n, lab_tensor **xs, int axis);

/** x stretched to a shape, by strides of 0. dx = dy summed back. */
LAB_API lab_tensor *lab_broadcast_to(lab_graph *g, lab_tensor *x, int rank, const int64_t *shape);

/**
 * Elements in another dtype. To bool: other than 0 (NaN included) is true. Float to i64: towards 0; NaN gives 0 and
 * what does not fit the nearest that does. Between floats differentiable: dx = dy cast back.
 */
LAB_API lab_tensor *lab_cast(lab_graph *g, lab_tensor *x, lab_dtype dtype);

/** The same elements laid out row-major; a view if they are already. */
LAB_API lab_tensor *lab_contiguous(lab_graph *g, lab_tensor *x);

/* ---- Indices: i64; out of range is LAB_ERR_RANGE, and the message names the index and its place
 * ----------------------- */

/**
 * y[i..., :] = table[indices[i...], :]: rows of a table [n, ...] picked by indices of any shape.
 *
 * dtable = the rows of dy added up, in ascending order of their place.
 */
LAB_API lab_tensor *lab_gather_rows(lab_graph *g, lab_tensor *table, lab_tensor *indices);

/**
 * y[..., j, ...] = x[..., indices[..., j, ...], ...]; x and indices have equal sizes but on `axis`.
 *
 * dx: dy added up at the places taken.
 */
LAB_API lab_tensor *lab_take_along_axis(lab_graph *g, lab_tensor *x, lab_tensor *indices, int axis);

/**
 * y = x, and y[..., indices[..., j, ...], ...] += source[..., j, ...]; float.
 *
 * indices and source have equal shapes, equal to x's but on `axis`. dx = dy, dsource = dy taken at the indices.
 */
LAB_API lab_tensor *lab_scatter_add_along_axis(lab_graph *g, lab_tensor *x, lab_tensor *indices, lab_tensor *source,
                                               int axis);

/**
 * y = x, and y[..., indices[j], ...] += source[..., j, ...]; float; indices of rank 1.
 *
 * source has x's shape but on `axis`, where it has as many entries as indices. dx = dy, dsource = dy at the indices.
 */
LAB_API lab_tensor *lab_index_add(lab_graph *g, lab_tensor *x, int axis, lab_tensor *indices, lab_tensor *source);

/* ---- Creation: tensors of the graph
 * ----------------------------------------------------------------------------------- */

/** A copy of `data`, row-major. */
LAB_API lab_tensor *lab_constant(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, const void *data);

/** Every element `value`, converted to dtype (i64: must be a whole number). */
LAB_API lab_tensor *lab_full(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, double value);

/**
 * start, start + step, ... before stop: ceil((stop - start) / step) elements, at least 0; float or i64. step is not 0
 * and may be negative. Element i is start + i step, computed in double.
 */
LAB_API lab_tensor *lab_arange(lab_graph *g, lab_dtype dtype, double start, double stop, double step);

/**
 * Unit-normal random numbers: element i is a function of (seed, i) alone; float.
 *
 * Source: Philox 4x32-10 (Salmon et al. 2011), Box and Muller 1958.
 */
LAB_API lab_tensor *lab_randn(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, uint64_t seed);

/** Uniform random numbers in [0, 1): element i is a function of (seed, i) alone; float. */
LAB_API lab_tensor *lab_rand(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
