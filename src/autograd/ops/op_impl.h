/* op_impl.h - what the files of ops share: the list of descriptors, shape rules, loops over strides.
 *
 * A family of ops has one file. An op adds its formula and nothing else: one descriptor, one line in the list below,
 * one row in the table of tests/op_cases.c.
 */
#ifndef LAB_AUTOGRAD_OP_IMPL_H
#define LAB_AUTOGRAD_OP_IMPL_H

#include <math.h>
#include <string.h>

#include "../../kernels/kernels.h"
#include "../../kernels/parallel.h"
#include "../engine.h"
#include "llmlab/op.h"
#include "llmlab/ops.h"

/* Every op of the engine, in the order of api.md: X(name) stands for `const lab_op lab__op_name`. */
/* clang-format off */
#define LAB_OP_LIST(X)                                                                                                 \
    X(add) X(sub) X(mul) X(div) X(neg) X(add_scalar) X(mul_scalar) X(exp) X(log) X(sqrt) X(rsqrt) X(tanh) X(sigmoid)   \
    X(erf) X(relu) X(gelu) X(silu) X(pow_scalar) X(abs) X(sin) X(cos) X(maximum) X(minimum)                            \
    X(equal) X(less) X(less_equal) X(logical_and) X(logical_or) X(logical_not) X(where) X(matmul)                      \
    X(sum) X(mean) X(max) X(argmax) X(sum_all) X(mean_all) X(softmax) X(log_softmax) X(logsumexp)                      \
    X(reshape) X(transpose) X(permute) X(slice) X(concat) X(broadcast_to) X(cast) X(contiguous)                        \
    X(gather_rows) X(take_along_axis) X(scatter_add_along_axis) X(index_add)                                           \
    X(constant) X(full) X(arange) X(randn) X(rand)
/* clang-format on */

#define LAB_OP_DECLARE(name) extern const lab_op lab__op_##name;
LAB_OP_LIST(LAB_OP_DECLARE)
#undef LAB_OP_DECLARE

/* The list as data, ended by NULL. */
extern const lab_op *const lab__op_table[];

/* ---- Shape rules and checks (each fails the graph with a sentence and returns its status) ----------------------- */

lab_status lab__shape_same(lab_op_call *call);      /* result 0 as operand 0 */
lab_status lab__shape_broadcast(lab_op_call *call); /* operands of one dtype, broadcast; result of that dtype */
lab_status lab__shape_compare(lab_op_call *call);   /* the same, result bool */

enum { ALLOW_FLOAT = 1, ALLOW_I64 = 2, ALLOW_BOOL = 4, ALLOW_ANY = 7 };
lab_status lab__require_dtype(lab_op_call *call, int operand, int allowed);
lab_status lab__require_same_dtype(lab_op_call *call, int operand_a, int operand_b);
/* Broadcasts shape `b` into `rank`/`shape` in place; false if they do not fit. */
bool lab__broadcast_shapes(int *rank, int64_t *shape, int rank_b, const int64_t *shape_b);
/* One operation per element of result 0. */
double lab__flops_elementwise(const lab_op_call *call);
/* Whether a number can be an i64 without loss. */
bool lab__is_whole(double value);

static inline kernel_type lab__kernel_type(lab_dtype dtype)
{
    return dtype == LAB_F64 ? KERNEL_F64 : KERNEL_F32;
}

/* ---- Loops ------------------------------------------------------------------------------------------------------ */

enum { LOOP_MAX_OPERANDS = 4 };

/* An iteration over up to four tensors of (broadcast) equal shape: rows along one inner axis, the rest outside. */
typedef struct loop {
    int operands;
    int64_t inner;                           /* length of a row */
    int64_t inner_stride[LOOP_MAX_OPERANDS]; /* in elements */
    int rank;                                /* of the outer axes */
    int64_t shape[LAB_MAX_RANK];
    int64_t strides[LOOP_MAX_OPERANDS][LAB_MAX_RANK]; /* in bytes */
    char *data[LOOP_MAX_OPERANDS];
    int element[LOOP_MAX_OPERANDS]; /* bytes of one element */
    int64_t rows;
} loop;

/* Operand 0 gives the shape; the others are broadcast to it (aligned at the last axis). Axes that continue one
 * another in every operand are merged, the axis on which operand 0 lies densest becomes the inner one. */
void lab__loop_make(loop *l, int operands, const lab_tensor *const *tensors);

/* The same, but the inner axis is `axis` of operand 0 (counted from the front) and nothing is merged into it. */
void lab__loop_make_axis(loop *l, int operands, const lab_tensor *const *tensors, int axis);

/* Calls body(context, n, pointers, strides in elements) for pieces of rows, cut by size only, on the pool. `cost` is a
 * rough number of nanoseconds per element x 10 (1: a copy in cache; 100: a logarithm). Rows may be cut into pieces. */
typedef void (*loop_body)(void *context, int64_t n, char *const *data, const int64_t *strides);
void lab__loop_run(const loop *l, int cost, loop_body body, void *context);

/* The same with whole rows only. */
void lab__loop_run_rows(const loop *l, int cost, loop_body body, void *context);

/* y = kernel(x...) over tensors of any strides; the operands are broadcast to y. Nothing is allocated. KERNEL_COPY
 * takes any dtype, the others float. */
void lab__map_unary(kernel_unary op, lab_tensor *y, const lab_tensor *x, double parameter);
void lab__map_binary(kernel_binary op, lab_tensor *y, const lab_tensor *a, const lab_tensor *b); /* float and i64 */
void lab__map_where(lab_tensor *y, const lab_tensor *condition, const lab_tensor *a, const lab_tensor *b);

/* ---- Pieces of derivatives --------------------------------------------------------------------------------------- */

/* Recorded: x summed over the axes along which `like`'s shape was stretched to x's. Returns x itself if none was. */
lab_tensor *lab__sum_to_shape_of(lab_graph *g, lab_tensor *x, const lab_tensor *like);
/* Destination: place (+)= factor * x, summed over stretched axes; factor 1 or -1. Nothing is allocated. */
void lab__place_sum(const lab_place *place, const lab_tensor *x, double factor);
/* Destination: place (+)= produce(dy, further inputs), elementwise on rows of at most PLACE_CHUNK_BYTES bytes, summed
 * over stretched axes. The inputs are broadcast to dy, which is xs[0]. `scratch` holds lab__place_scratch bytes. */
enum { PLACE_CHUNK_BYTES = 1024, PLACE_MAX_INPUTS = LOOP_MAX_OPERANDS - 1 };
typedef void (*place_fn)(const void *context, kernel_type type, int64_t n, void *y, int64_t y_stride, char *const *x,
                         const int64_t *x_strides);
void lab__place_compute(const lab_place *place, int inputs, const lab_tensor *const *xs, int cost, place_fn produce,
                        const void *context, void *scratch);
/* For backward_scratch: the bytes of dy if an operand that is wanted was stretched, else 0. */
size_t lab__place_scratch(const lab_vjp_call *call);
/* Zeros, as many as such a row has: where takes vectors faster than one number. */
extern const double lab__zero_row[PLACE_CHUNK_BYTES / sizeof(double)];
/* Ready-made: place (+)= f(dy), and place (+)= f(dy, b). */
void lab__place_unary(const lab_place *place, kernel_unary op, const lab_tensor *dy, double parameter, void *scratch);
void lab__place_binary(const lab_place *place, kernel_binary op, const lab_tensor *dy, const lab_tensor *b,
                       void *scratch);
/* Recorded: zeros of x's shape and dtype. */
lab_tensor *lab__zeros_like(lab_graph *g, const lab_tensor *x);

#endif
