/* SPDX-License-Identifier: MIT
 * llmlab/ops.h - the ops: functions from tensors to tensors, each with a derivative that can itself be differentiated.
 */

/**
 * @file
 * The ops. What holds for each of them, and is not said again below:
 *
 *   - **Return, ownership.** g records the op and owns the result, until its reset or destroy. NULL is returned if the
 *     graph had failed before, or fails now: lab_graph_status(g) has the code of the first failure and
 *     lab_graph_message(g) the sentence. Operands that were yours stay yours; g keeps them alive until its reset.
 *   - **Errors.** LAB_ERR_ARGUMENT: an operand, or an array of sizes, axes or data, is NULL. LAB_ERR_STATE: an operand
 *     was computed on another graph (a parent's excepted). LAB_ERR_DTYPE: an operand's dtype is none of those stated,
 *     or two differ that must be equal; nothing is promoted silently. LAB_ERR_SHAPE: shapes do not fit each other.
 *     LAB_ERR_RANGE: an axis, a rank, or a size in bytes that overflows. LAB_ERR_MEMORY. What a group or an op adds
 *     to this is said there.
 *   - **Operands** have any strides and sizes, 0 included. "float" means LAB_F32 or LAB_F64, "number" those or LAB_I64,
 *     "any" LAB_BOOL too. The result's dtype is the operands' unless stated. Axes may be negative (from the end).
 *   - **Broadcasting** is NumPy's: shapes are aligned at the last axis, a size of 1 (or a missing axis) is stretched.
 *   - **Derivatives.** dy is the gradient that comes in, da and so on what goes back to operand a: of a's shape, summed
 *     over the axes along which a was stretched. Tensors of i64 and bool have none, and gradients stop there.
 */
#ifndef LLMLAB_OPS_H
#define LLMLAB_OPS_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @name Elementwise, two operands
 * a and b broadcast; y has the shape they broadcast to. Numbers, where not stated otherwise. Errors: LAB_ERR_SHAPE
 * where a and b do not broadcast. i64 wraps around where it overflows.
 * @{
 */

/** y = a + b.  da = dy, db = dy. */
LAB_API lab_tensor *lab_add(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = a - b.  da = dy, db = -dy. */
LAB_API lab_tensor *lab_sub(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = a * b, element by element.  da = dy b, db = dy a. */
LAB_API lab_tensor *lab_mul(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = a / b; float.  da = dy / b, db = -dy y / b. */
LAB_API lab_tensor *lab_div(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = max(a, b), NaN if either is.  Derivative: dy to the larger operand, to a where they are equal or a is NaN. */
LAB_API lab_tensor *lab_maximum(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = min(a, b), NaN if either is.  Derivative: dy to the smaller operand, to a where they are equal or a is NaN. */
LAB_API lab_tensor *lab_minimum(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** @} */

/**
 * @name Elementwise, one operand
 * y has x's shape. Float; neg, add_scalar, mul_scalar and abs take i64 too. Outside a function's domain y is what C's
 * function of that name gives: NaN or an infinity, never an error.
 * @{
 */

/** y = -x.  dx = -dy. */
LAB_API lab_tensor *lab_neg(lab_graph *g, lab_tensor *x);

/** y = x + s, s rounded to x's dtype.  dx = dy.  Errors: LAB_ERR_RANGE where x is i64 and s no whole number of it. */
LAB_API lab_tensor *lab_add_scalar(lab_graph *g, lab_tensor *x, double s);

/** y = x * s, s rounded to x's dtype.  dx = dy s.  Errors: LAB_ERR_RANGE where x is i64 and s no whole number of it. */
LAB_API lab_tensor *lab_mul_scalar(lab_graph *g, lab_tensor *x, double s);

/** y = e^x, to 1.1 ulp.  dx = dy y. */
LAB_API lab_tensor *lab_exp(lab_graph *g, lab_tensor *x);

/** y = ln x; NaN below 0, -inf at 0.  dx = dy / x. */
LAB_API lab_tensor *lab_log(lab_graph *g, lab_tensor *x);

/** y = sqrt(x); NaN below 0.  dx = dy / (2 y). */
LAB_API lab_tensor *lab_sqrt(lab_graph *g, lab_tensor *x);

/** y = 1 / sqrt(x); NaN below 0, inf at 0.  dx = -dy y / (2 x). */
LAB_API lab_tensor *lab_rsqrt(lab_graph *g, lab_tensor *x);

/** y = tanh x.  dx = dy (1 - y^2). */
LAB_API lab_tensor *lab_tanh(lab_graph *g, lab_tensor *x);

/** y = 1 / (1 + e^-x).  dx = dy y (1 - y). */
LAB_API lab_tensor *lab_sigmoid(lab_graph *g, lab_tensor *x);

/** y = erf x = 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x.  dx = dy 2/sqrt(pi) e^(-x^2). */
LAB_API lab_tensor *lab_erf(lab_graph *g, lab_tensor *x);

/** y = max(x, 0), NaN where x is.  dx = dy where x > 0, else 0. */
LAB_API lab_tensor *lab_relu(lab_graph *g, lab_tensor *x);

/** Which GELU: x times the normal distribution's integral, or the approximation by tanh (as GPT-2 has it). */
typedef enum lab_gelu_kind { LAB_GELU_ERF = 0, LAB_GELU_TANH = 1 } lab_gelu_kind;

/**
 * y = x Phi(x), Phi the integral of the normal density: a gate that depends on x itself.
 *
 * LAB_GELU_ERF: Phi(x) = (1 + erf(x / sqrt 2)) / 2, and dx = dy (Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi)).
 * LAB_GELU_TANH: (1 + t) / 2 in its place, t = tanh u, u = sqrt(2/pi) (x + 0.044715 x^3), and
 * dx = dy ((1 + t) / 2 + x (1 - t^2) u' / 2).  Errors: LAB_ERR_ARGUMENT for another kind.
 *
 * Source: Hendrycks and Gimpel 2016.
 */
LAB_API lab_tensor *lab_gelu(lab_graph *g, lab_tensor *x, lab_gelu_kind kind);

/** y = x s, s = sigmoid(x).  dx = dy (s + y (1 - s)).  Source: Elfwing, Uchibe and Doya 2017. */
LAB_API lab_tensor *lab_silu(lab_graph *g, lab_tensor *x);

/** y = x^p, as C's pow.  dx = dy p x^(p-1); 0 for p = 0. */
LAB_API lab_tensor *lab_pow_scalar(lab_graph *g, lab_tensor *x, double p);

/** y = |x|.  dx = dy sign(x), 0 at 0. */
LAB_API lab_tensor *lab_abs(lab_graph *g, lab_tensor *x);

/** y = sin x.  dx = dy cos x. */
LAB_API lab_tensor *lab_sin(lab_graph *g, lab_tensor *x);

/** y = cos x.  dx = -dy sin x. */
LAB_API lab_tensor *lab_cos(lab_graph *g, lab_tensor *x);

/** @} */

/**
 * @name Comparison, logic, selection
 * Operands broadcast; y has the shape they broadcast to. Errors: LAB_ERR_SHAPE where they do not. Results of LAB_BOOL
 * (all but lab_where's) are 0 or 1 and have no derivative.
 * @{
 */

/** y = (a == b), bool; a and b of one dtype, any. NaN equals nothing, itself included. No derivative. */
LAB_API lab_tensor *lab_equal(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = (a < b), bool; numbers. False where either is NaN. No derivative. */
LAB_API lab_tensor *lab_less(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = (a <= b), bool; numbers. False where either is NaN. No derivative. */
LAB_API lab_tensor *lab_less_equal(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = a and b; bool. No derivative. */
LAB_API lab_tensor *lab_logical_and(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = a or b; bool. No derivative. */
LAB_API lab_tensor *lab_logical_or(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** y = not a; bool, of a's shape. No derivative. */
LAB_API lab_tensor *lab_logical_not(lab_graph *g, lab_tensor *a);

/**
 * y = condition ? a : b, all three broadcast; condition is bool, a and b of one dtype, any.
 *
 * The derivative selects too: da = dy where the condition holds, else exactly 0 (a NaN in dy that is not selected
 * leaves no trace), db the other way round.
 */
LAB_API lab_tensor *lab_where(lab_graph *g, lab_tensor *condition, lab_tensor *a, lab_tensor *b);

/** @} */

/**
 * @name Matrix product
 * @{
 */

/**
 * y[..., i, j] = sum over k of a[..., i, k] b[..., k, j]: a [..., m, k], b [..., k, n], y [..., m, n]; float.
 *
 * NumPy's rules: leading axes are broadcast; a vector [k] as first operand is a row, as second a column, and that axis
 * is left out of the result. Transposed views cost no copy.
 *
 * da = dy b^T, db = a^T dy, summed over leading axes that were stretched.
 * Errors: LAB_ERR_SHAPE (inner or leading sizes that differ, an operand of rank 0), LAB_ERR_RANGE (sizes or strides
 * that BLAS cannot count).
 */
LAB_API lab_tensor *lab_matmul(lab_graph *g, lab_tensor *a, lab_tensor *b);

/** @} */

/**
 * @name Reductions
 * y has x's shape without the axes reduced, or with size 1 in their place if `keep`; softmax and log_softmax keep x's
 * shape. Floats are added up in double. Errors: LAB_ERR_RANGE for an axis that x does not have (softmax of rank 0
 * included).
 * @{
 */

/**
 * y = the sum over n_axes axes, numbers; n_axes = 0 sums over none of them, and y = x.
 *
 * dx = dy stretched back to x's shape.
 * Errors: LAB_ERR_ARGUMENT (an axis given twice), LAB_ERR_RANGE (n_axes below 0 or above 8).
 */
LAB_API lab_tensor *lab_sum(lab_graph *g, lab_tensor *x, int n_axes, const int *axes, bool keep);

/**
 * y = the sum over n_axes axes, divided by the number of elements summed; float. NaN where that number is 0.
 *
 * dx = dy / number, stretched back to x's shape. Errors: as lab_sum.
 */
LAB_API lab_tensor *lab_mean(lab_graph *g, lab_tensor *x, int n_axes, const int *axes, bool keep);

/**
 * y = the largest element along an axis; numbers. NaN if there is one.
 *
 * Derivative: dy goes to the first largest element (the first NaN if there is one), 0 to the others.
 * Errors: LAB_ERR_RANGE (an axis of size 0 too).
 */
LAB_API lab_tensor *lab_max(lab_graph *g, lab_tensor *x, int axis, bool keep);

/**
 * y = the place of the first largest element along an axis (of the first NaN if there is one), i64; x numbers.
 *
 * No derivative. Errors: LAB_ERR_RANGE (an axis of size 0 too).
 */
LAB_API lab_tensor *lab_argmax(lab_graph *g, lab_tensor *x, int axis, bool keep);

/** y = the sum of all elements, of rank 0; numbers.  dx = dy everywhere. */
LAB_API lab_tensor *lab_sum_all(lab_graph *g, lab_tensor *x);

/** y = the mean of all elements, of rank 0; float. NaN if there are none.  dx = dy / number everywhere. */
LAB_API lab_tensor *lab_mean_all(lab_graph *g, lab_tensor *x);

/**
 * y = e^(x - max x) / sum of the same, along an axis; float, y of x's shape.
 *
 * A row of nothing but -inf gives zeros and zero gradient; NaN or +inf gives NaN for that row alone.
 * dx = y (dy - sum(dy y)); exactly 0 where y is 0, whatever dy holds there.
 */
LAB_API lab_tensor *lab_softmax(lab_graph *g, lab_tensor *x, int axis);

/** y = x - logsumexp(x) along an axis; float; -inf throughout for a row of -inf.  dx = dy - e^y sum(dy). */
LAB_API lab_tensor *lab_log_softmax(lab_graph *g, lab_tensor *x, int axis);

/**
 * y = ln sum e^x along an axis, with the maximum taken out; float.
 *
 * A row of nothing but -inf, or an empty one, gives -inf and zero gradient; one with +inf gives +inf, and one with
 * NaN gives NaN, for that row alone (both have NaN as gradient). dx = dy e^(x - y).
 */
LAB_API lab_tensor *lab_logsumexp(lab_graph *g, lab_tensor *x, int axis, bool keep);

/** @} */

/**
 * @name Shape
 * Any dtype. Views where strides allow, with x's memory; nothing is copied unless said. The gradient with respect to a
 * view counts the uses of that view.
 * @{
 */

/**
 * The same elements in row-major order, as a tensor of `rank` sizes; one size may be -1: what the others leave for it.
 *
 * A view, or a copy where strides force one. dx = dy in x's shape.
 * Errors: LAB_ERR_SHAPE (another number of elements), LAB_ERR_ARGUMENT (-1 twice), LAB_ERR_RANGE (a size below -1).
 */
LAB_API lab_tensor *lab_reshape(lab_graph *g, lab_tensor *x, int rank, const int64_t *shape);

/** y = x with two axes exchanged: shape and strides are.  dx = dy with the same two exchanged. */
LAB_API lab_tensor *lab_transpose(lab_graph *g, lab_tensor *x, int axis_a, int axis_b);

/**
 * y = x with its axes in another order: axis i of y is axis axes[i] of x; axes has as many entries as x has axes.
 *
 * dx = dy with the axes put back. Errors: LAB_ERR_ARGUMENT (an axis twice), LAB_ERR_RANGE (one that x does not have).
 */
LAB_API lab_tensor *lab_permute(lab_graph *g, lab_tensor *x, const int *axes);

/**
 * y = elements start, start + step, ... below stop along an axis; y has x's shape but on that axis.
 *
 * Negative start and stop count from the end; both are clamped to the axis, as Python does.
 * dx = dy at these places, 0 elsewhere. Errors: LAB_ERR_RANGE (the axis, or a step below 1).
 */
LAB_API lab_tensor *lab_slice(lab_graph *g, lab_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);

/**
 * y = n >= 1 tensors of one dtype behind one another along an axis, copied; their shapes are equal but on that axis.
 *
 * dx_i = its part of dy. Errors: LAB_ERR_ARGUMENT (n below 1), LAB_ERR_SHAPE, LAB_ERR_RANGE (the axis).
 */
LAB_API lab_tensor *lab_concat(lab_graph *g, int n, lab_tensor **xs, int axis);

/**
 * y = x stretched to `rank` sizes, by strides of 0: aligned at the last axis, x's sizes are equal to them or 1.
 *
 * dx = dy summed over the axes stretched. Errors: LAB_ERR_SHAPE, LAB_ERR_RANGE (a negative size).
 */
LAB_API lab_tensor *lab_broadcast_to(lab_graph *g, lab_tensor *x, int rank, const int64_t *shape);

/**
 * y = x's elements in another dtype, of x's shape, copied.
 *
 * To bool: other than 0 (NaN included) is true. Float to i64: towards 0; NaN gives 0 and what does not fit the nearest
 * that does. Between floats dx = dy cast back; no derivative otherwise. Errors: LAB_ERR_DTYPE (no dtype).
 */
LAB_API lab_tensor *lab_cast(lab_graph *g, lab_tensor *x, lab_dtype dtype);

/** y = x, of the same shape, laid out row-major: a view if it is already, else a copy.  dx = dy. */
LAB_API lab_tensor *lab_contiguous(lab_graph *g, lab_tensor *x);

/** @} */

/**
 * @name Indices
 * `indices` are i64, counted from 0, never negative, and have no derivative. Errors: LAB_ERR_RANGE where one is out of
 * range (the message names the index and its place), LAB_ERR_SHAPE where shapes are not as stated.
 * @{
 */

/**
 * y[i..., :] = table[indices[i...], :]: rows of a table [n, ...] of any dtype, picked by indices of any shape [i...].
 *
 * dtable = the rows of dy added up, in ascending order of their place; 0 for rows that were not picked.
 */
LAB_API lab_tensor *lab_gather_rows(lab_graph *g, lab_tensor *table, lab_tensor *indices);

/**
 * y[..., j, ...] = x[..., indices[..., j, ...], ...]; x of any dtype. x and indices have equal sizes but on `axis`; y
 * has the indices' shape.
 *
 * dx = dy added up at the places taken, 0 elsewhere.
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
 * y = x, and y[..., indices[j], ...] += source[..., j, ...]; float; indices [n].
 *
 * source has x's shape but on `axis`, where it has n entries. dx = dy, dsource = dy at the indices.
 */
LAB_API lab_tensor *lab_index_add(lab_graph *g, lab_tensor *x, int axis, lab_tensor *indices, lab_tensor *source);

/** @} */

/**
 * @name Creation
 * Tensors of the graph, of `rank` sizes, row-major; no derivative goes through them (though lab_grad may ask for the
 * gradient with respect to one). Errors: LAB_ERR_DTYPE, LAB_ERR_RANGE (rank, a negative size, a size in bytes that
 * overflows), LAB_ERR_ARGUMENT (shape NULL where rank is above 0).
 * @{
 */

/** A copy of `data`, row-major, as many elements as the shape has; NULL will do where that is 0. */
LAB_API lab_tensor *lab_constant(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, const void *data);

/** Every element `value`, converted to dtype. Errors: LAB_ERR_RANGE where dtype is i64 and value no whole number. */
LAB_API lab_tensor *lab_full(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, double value);

/**
 * [n] numbers start, start + step, ... before stop: n = ceil((stop - start) / step), at least 0. step is not 0 and may
 * be negative.
 *
 * Element i is start + i step, computed in double and then rounded to dtype (no bool). Errors: LAB_ERR_RANGE (a number
 * that is not finite, a step of 0, too many elements; with i64 a start or step that is no whole number).
 */
LAB_API lab_tensor *lab_arange(lab_graph *g, lab_dtype dtype, double start, double stop, double step);

/**
 * Unit-normal random numbers: element i is a function of (seed, i) alone; float.
 *
 * Source: Philox 4x32-10 (Salmon et al. 2011), Box and Muller 1958.
 */
LAB_API lab_tensor *lab_randn(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, uint64_t seed);

/**
 * Uniform random numbers in [0, 1): element i is a function of (seed, i) alone; float.
 *
 * Source: Philox 4x32-10 (Salmon et al. 2011).
 */
LAB_API lab_tensor *lab_rand(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, uint64_t seed);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
