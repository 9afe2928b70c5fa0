/* SPDX-License-Identifier: MIT
 * llmlab/op.h - ops of your own. The library's ops are made of the same descriptor.
 *
 * An op is one static const lab_op: a name, how many operands and results, and functions for shapes, values and the
 * derivative. It is applied with lab_custom_op. The derivative comes in one or both of two forms:
 *
 *   recorded (vjp)         written with ops on the graph, so that it can be differentiated again
 *   destination (backward) writes or adds into places that the engine hands over; nothing is copied just to be summed
 *
 * When both exist, backward serves first derivatives and vjp serves create_graph. With neither, backward through the op
 * is LAB_ERR_UNSUPPORTED.
 */
#ifndef LLMLAB_OP_H
#define LLMLAB_OP_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An op: see its fields below. */
typedef struct lab_op lab_op;

/** What one result will be: filled in by the shape rule. */
typedef struct lab_spec {
    lab_dtype dtype;
    int rank;
    int64_t shape[LAB_MAX_RANK];
} lab_spec;

/** How a result lies in its operand's memory, in elements. */
typedef struct lab_view {
    int64_t offset;
    int64_t strides[LAB_MAX_RANK];
} lab_view;

/** What the shape rule and the forward function see. */
typedef struct lab_op_call {
    lab_graph *graph;
    const lab_op *op;
    const void *attrs;      /**< the copy that the graph keeps, aligned to 16 */
    int n_in, n_out;        /**< n_out counts hidden results too */
    lab_tensor *const *in;  /**< NULL where an optional operand was left out */
    lab_spec *specs;        /**< the shape rule writes them */
    lab_tensor *const *out; /**< forward writes into them; row-major, not initialised. NULL in the shape rule */
    void *scratch;          /**< what `scratch` asked for, aligned to 64 */
} lab_op_call;

/** Where a gradient goes: `tensor` is NULL if nobody wants it. Any strides, but every element has its own place. */
typedef struct lab_place {
    lab_tensor *tensor;
    bool add; /**< add to what is there; otherwise write every element */
} lab_place;

/** What the derivative sees, in either form. */
typedef struct lab_vjp_call {
    lab_graph *graph;
    const lab_op *op;
    const void *attrs;
    int n_in, n_out;
    lab_tensor *const *in, *const *out; /**< operands and results of forward, hidden ones included */
    lab_tensor *const *grad_out;        /**< incoming gradients; NULL is zero (always for hidden results) */
    const bool *wants;                  /**< per operand: does anybody need its gradient */
    lab_tensor **grad_in;               /**< vjp: set those wanted, NULL for zero */
    const lab_place *places;            /**< backward: per operand */
    void *scratch;                      /**< backward: what `backward_scratch` asked for, aligned to 64 */
} lab_vjp_call;

/** Which values the derivative with respect to one operand reads: bit i for operand i and result i (i < 64). */
typedef struct lab_reads {
    uint64_t in, out;
} lab_reads;

enum {
    LAB_OP_NOT_DIFFERENTIABLE = 1, /**< gradients stop here, by design */
    LAB_OP_VIEW_OVERLAPS = 2       /**< several elements of its view may share a place */
};

/** The description of an op. Zero means none or the default; `reserved` must be zero. Must outlive every graph. */
struct lab_op {
    const char *name;
    int inputs;             /**< how many operands; -1: any number */
    int outputs;            /**< how many results, hidden ones included; 1 to 8 */
    int hidden;             /**< the last `hidden` results are kept for the derivative only */
    uint64_t optional;      /**< bit i: operand i may be NULL */
    uint64_t constant;      /**< bit i: there is no derivative with respect to operand i */
    unsigned flags;         /**< LAB_OP_... */
    const lab_reads *reads; /**< n_reads entries, the last one for all further operands; NULL: everything is read */
    int n_reads;
    lab_status (*shape)(lab_op_call *call);                /**< checks operands, fills specs */
    bool (*view)(const lab_op_call *call, lab_view *view); /**< the one result as a view of operand 0, if possible */
    size_t (*scratch)(const lab_op_call *call);            /**< bytes forward needs for a while */
    lab_status (*forward)(lab_op_call *call);              /**< not called when view answered true */
    lab_status (*vjp)(lab_graph *g, lab_vjp_call *call);   /**< recorded form */
    size_t (*backward_scratch)(const lab_vjp_call *call);
    lab_status (*backward)(lab_vjp_call *call); /**< destination form */
    double (*flops)(const lab_op_call *call);
    uint64_t reserved[8];
};

/**
 * Applies an op.
 *
 * @param g            records it and owns the results
 * @param op           the descriptor; must outlive g
 * @param attrs        copied into the graph; NULL when attrs_bytes is 0. Pointers inside are yours to keep alive.
 * @param attrs_bytes  how long they are
 * @param n_in         how many operands: op->inputs, unless that is -1
 * @param inputs       the operands, NULL for those that are optional and left out; g keeps them alive
 * @param n_out        how many results are visible: op->outputs - op->hidden
 * @param outputs      receives them, of the shapes that the op's shape rule says, owned by g; all NULL on failure
 * @return LAB_OK, or the graph's failure: LAB_ERR_ARGUMENT (a descriptor without name, shape rule or forward, with
 *         reserved words or impossible counts; n_in or n_out not as it says; a NULL array or operand),
 *         LAB_ERR_STATE (an operand of another graph), LAB_ERR_RANGE (a rank or size that the shape rule gives,
 *         a view that leaves its operand's memory), LAB_ERR_MEMORY, or what the op's own functions return
 *
 * Derivative: the op's.
 */
LAB_API lab_status lab_custom_op(lab_graph *g, const lab_op *op, const void *attrs, size_t attrs_bytes, int n_in,
                                 lab_tensor **inputs, int n_out, lab_tensor **outputs);

/**
 * Makes the graph fail, for use inside an op: the message is preceded by the op's name. The first failure stays.
 *
 * @param g       the graph
 * @param status  the code; LAB_OK is taken as LAB_ERR_ARGUMENT
 * @param format  the sentence, as printf has it, with what belongs to it
 * @return the graph's status: that of the first failure; LAB_ERR_MEMORY where g is NULL
 */
LAB_API lab_status lab_graph_fail(lab_graph *g, lab_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Floating-point operations of all ops applied since creation or reset, derivatives' own included where they are made
 * of ops; only ops that say how many they need count (`flops`). 0 for NULL. */
LAB_API double lab_graph_flops(const lab_graph *g);

/** Bytes of memory that the graph holds: results, derivatives in flight, scratch, its children's included. A reset
 * gives none of it back. 0 for NULL. */
LAB_API size_t lab_graph_bytes(const lab_graph *g);

#ifdef __cplusplus
}
#endif
#endif
