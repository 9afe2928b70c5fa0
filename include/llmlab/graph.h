/* SPDX-License-Identifier: MIT
 * llmlab/graph.h - the tape, and the memory of everything computed on it.
 *
 * Ops compute at once and take the graph first: y = lab_matmul(g, a, b). They return a tensor, or NULL. The graph
 * keeps the first failure, with a sentence; from then on every op on it returns NULL at once. So a whole expression
 * is written without checks and asked about once.
 *
 * A graph is used by one thread at a time. Two threads may each run a graph and share leaves, for reading and for
 * lab_grad; lab_backward into shared leaves is for the caller to order.
 */

/** @file
 * The graph. What holds for all functions here:
 *
 *   - **Ownership.** You own the graph (lab_graph_destroy); the graph owns every tensor that is computed on it, until
 *     its reset or destroy, and keeps the leaves that it has seen alive as long.
 *   - **Errors.** They are kept by the graph, the first one only: lab_graph_status, lab_graph_message. A function that
 *     returns lab_status returns that of the graph. On a graph that has failed nothing is done. A graph that is NULL
 *     has status LAB_ERR_MEMORY, and every function here takes it.
 */
#ifndef LLMLAB_GRAPH_H
#define LLMLAB_GRAPH_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A tape, the tensors on it, and their memory. */
typedef struct lab_graph lab_graph;

/** A function of tensors, written with ops on g. */
typedef lab_tensor *(*lab_fn)(lab_graph *g, lab_tensor **xs, void *ctx);

/**
 * How a graph behaves. Zero means the default; `reserved` must be zero.
 *
 * `batch_invariant` promises that a row's bits do not depend on the rows beside it: one row alone, in a batch, or from
 * a cache gives the same result, and the same gradient with respect to that row, on any number of threads, where its
 * elements lie one behind another. Every product (lab_matmul, forward and backward, in checkpoints too) then goes to
 * the library's own product instead of BLAS: each element is one sum, in ascending order, that starts at what it is
 * added to, whatever the shapes and strides. What it costs is in the page on threads and determinism. Bits still differ
 * between kernel levels; they no longer depend on the BLAS.
 */
typedef struct lab_graph_opts {
    bool inference;       /**< records nothing: no derivatives, memory goes back by lab_graph_release */
    bool batch_invariant; /**< a row's bits do not depend on the rows beside it */
    size_t reserve;       /**< bytes of memory to start with */
    uint64_t reserved[8];
} lab_graph_opts;

/** How lab_grad behaves. Zero means the default; `reserved` must be zero. */
typedef struct lab_grad_opts {
    bool create_graph; /**< record the derivative itself, so that it can be differentiated */
    uint64_t reserved[8];
} lab_grad_opts;

/**
 * A new graph.
 *
 * @param opts  NULL for the defaults. Options that make no sense give a graph that has failed already, and fails again
 *              after a reset: LAB_ERR_ARGUMENT (`reserved`)
 * @return owned by the caller (lab_graph_destroy); NULL only when out of memory, `reserve` included
 */
LAB_API lab_graph *lab_graph_create(const lab_graph_opts *opts);

/** Forgets every tensor that the graph owns, and the error; keeps the memory for the next round. Pointers to these
 * tensors are dead. NULL is fine. */
LAB_API void lab_graph_reset(lab_graph *g);

/** Gives a graph, its tensors and its memory back, and sets the pointer to NULL; NULL, or a pointer to it, is fine. */
LAB_API void lab_graph_destroy(lab_graph **g);

/** The first failure since creation or reset; LAB_OK if there was none, LAB_ERR_MEMORY for NULL. */
LAB_API lab_status lab_graph_status(const lab_graph *g);

/** The sentence of the first failure: the op's name and what was wrong. "" if there was none; never NULL. Owned by the
 * graph, until its reset or destroy. */
LAB_API const char *lab_graph_message(const lab_graph *g);

/**
 * The first op on the tape that made a NaN or +infinity, with shapes and ranges of its operands and results. (-infinity
 * alone is how masks forbid, and is passed over.) For a loss that is not finite: before lab_backward, or after it.
 *
 * @param g       a recording graph; of another, or of NULL, nothing is known
 * @param buffer  the caller's, receives as much of the sentence as fits, ended by a zero byte; NULL: only the length is
 *                asked for
 * @param size    its length in bytes
 * @return the length of the whole sentence without the zero byte, as snprintf does; 0: all results are finite
 */
LAB_API size_t lab_graph_find_nonfinite(const lab_graph *g, char *buffer, size_t size);

/** A place in an inference graph's memory. */
typedef struct lab_mark {
    uint64_t place[4];
} lab_mark;

/** Remembers how much of an inference graph's memory is in use, for lab_graph_release; good until the next reset.
 * LAB_ERR_STATE on a recording graph. */
LAB_API lab_mark lab_graph_mark(lab_graph *g);

/** Gives back everything an inference graph computed since the mark; those tensors must not be used any more.
 * LAB_ERR_STATE on a recording graph, and for a mark of another graph or from before a reset. */
LAB_API void lab_graph_release(lab_graph *g, lab_mark mark);

/**
 * Adds dy/dx into lab_tensor_grad(x) for every leaf x on the graph that requires it.
 *
 * @param g  a recording graph. The tape stays, for further calls.
 * @param y  one element, floating-point, on g
 * @return LAB_OK, or the graph's failure: LAB_ERR_ARGUMENT (y is NULL), LAB_ERR_SHAPE (y has not one element),
 *         LAB_ERR_DTYPE (y is not floating-point), LAB_ERR_STATE (a value that a derivative reads was written since; y
 *         not on g; an inference graph; called inside an op or a checkpointed function), LAB_ERR_UNSUPPORTED (an op has
 *         no derivative; its name), LAB_ERR_MEMORY, or what an op's derivative fails with. On failure the leaves'
 *         gradients are as they were.
 */
LAB_API lab_status lab_backward(lab_graph *g, lab_tensor *y);

/**
 * The vector-Jacobian product: grads[i] = sum over elements of seed * dy/dxs[i].
 *
 * @param g      a recording graph. The tape stays.
 * @param y      on g, floating-point, of any shape
 * @param seed   of y's shape and dtype; NULL means ones
 * @param n      how many xs
 * @param xs     on g: tensors computed on it, or leaves it has seen
 * @param grads  receives n tensors of the shapes of xs, owned by g; zeros where y does not depend on x; all NULL on
 *               failure
 * @param opts   NULL for the defaults
 * @return LAB_OK, or the graph's failure: LAB_ERR_ARGUMENT (y, xs, an x or grads is NULL, n is negative, reserved
 *         words), LAB_ERR_STATE (an x is not on this graph, the seed is of another), LAB_ERR_DTYPE (an x is not
 *         floating-point, the seed is not as y), LAB_ERR_SHAPE (the seed's), else as lab_backward; LAB_ERR_UNSUPPORTED
 *         names an op whose derivative cannot be recorded (create_graph)
 */
LAB_API lab_status lab_grad(lab_graph *g, lab_tensor *y, lab_tensor *seed, int n, lab_tensor **xs, lab_tensor **grads,
                            const lab_grad_opts *opts);

/**
 * y = x with no way back: gradients stop here, dx = 0.
 *
 * @param g  the graph
 * @param x  any tensor
 * @return a view of x, of its shape, owned by g; NULL on failure: LAB_ERR_ARGUMENT (x is NULL), LAB_ERR_STATE (of
 *         another graph), LAB_ERR_MEMORY
 */
LAB_API lab_tensor *lab_detach(lab_graph *g, lab_tensor *x);

/**
 * y = f(g', xs, ctx), where f's inner results are not kept but computed again in backward.
 *
 * f may read leaves and tensors of g through ctx: they count as used on g and get their gradients like xs. It computes
 * on g' alone: g answers LAB_ERR_STATE meanwhile. Only the returned tensor leaves f. f is pure and runs once more per
 * backward; with create_graph it runs on g itself; on an inference graph it just runs.
 *
 * @param g    the graph; f gets a child g' of it, or g itself
 * @param f    what to compute
 * @param n    how many xs
 * @param xs   passed to f, seen from g'
 * @param ctx  passed to f; must live as long as a backward may come
 * @return f's result (on a recording graph a copy of it), owned by g; NULL on failure: f's is the graph's;
 *         LAB_ERR_ARGUMENT (f, xs or an x is NULL, n is negative, f gave NULL), LAB_ERR_STATE (an x of another graph),
 *         LAB_ERR_UNSUPPORTED (lse, probs or stats asked for inside f), LAB_ERR_MEMORY. Its backward fails with
 *         LAB_ERR_STATE where f gives another shape the second time.
 *
 * Derivative: f's. Source: Chen et al. 2016.
 */
LAB_API lab_tensor *lab_checkpoint(lab_graph *g, lab_fn f, int n, lab_tensor **xs, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
