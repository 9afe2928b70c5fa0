/* SPDX-License-Identifier: MIT
 * llmlab/position.h - where a token stands: the sinusoidal table, and rotations (RoPE).
 */
#ifndef LLMLAB_POSITION_H
#define LLMLAB_POSITION_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The sinusoidal table: y[p, 2i] = sin(p w_i), y[p, 2i + 1] = cos(p w_i), w_i = 10000^(-2i / width).
 *
 * The frequencies are computed in log space, all of it in double; an odd width ends with a sine.
 *
 * @param g       the graph that owns the result
 * @param dtype   LAB_F32 or LAB_F64
 * @param length  number of positions, from 0; may be 0
 * @param width   may be 0
 * @return [length, width], owned by g; NULL if the graph has failed: LAB_ERR_DTYPE (another dtype), LAB_ERR_RANGE (a
 *         negative size, or one that overflows), LAB_ERR_MEMORY
 *
 * A constant: no derivative.
 * Source: Vaswani et al. 2017, section 3.5.
 */
LAB_API lab_tensor *lab_sinusoidal(lab_graph *g, lab_dtype dtype, int64_t length, int64_t width);

/** Which two channels turn together, r being the rotary width. */
typedef enum lab_rope_layout {
    LAB_ROPE_INTERLEAVED = 0, /**< 2i and 2i + 1 */
    LAB_ROPE_HALVES           /**< i and i + r/2 */
} lab_rope_layout;

/** How lab_rope turns. Zero means the default; `reserved` must be zero. */
typedef struct lab_rope_opts {
    lab_rope_layout layout;
    int64_t width;         /**< rotary width r: channels r and up are left alone; even, at most d; 0: all of them */
    double base;           /**< 0: 10000 */
    int64_t offset;        /**< position of the first row */
    lab_tensor *positions; /**< i64, instead of offset: broadcasts to x's shape without its last axis */
    uint64_t reserved[8];
} lab_rope_opts;

/**
 * Rotary positions: pair i of a row at position p is turned by the angle p base^(-2i / r).
 *
 * y_a = x_a cos - x_b sin, y_b = x_a sin + x_b cos, for the pair of channels (a, b). Scores of rotated queries and keys
 * depend on the distance of their positions only. Angles are computed in double.
 *
 * @param g     the graph that records the operation and owns the result
 * @param x     [..., T, d], float; row t stands at offset + t, or where positions says
 * @param opts  NULL: interleaved, all channels, base 10000, from 0
 * @return [..., T, d] as x, owned by g; NULL if the graph has failed: LAB_ERR_ARGUMENT (x is NULL, reserved words, no
 *         layout of that number, offset and positions both), LAB_ERR_SHAPE (x's rank is below 2, positions do not
 *         broadcast), LAB_ERR_DTYPE, LAB_ERR_RANGE (width, base, an offset that overflows), LAB_ERR_STATE (another
 *         graph's tensor), LAB_ERR_UNSUPPORTED (positions of more than 6 axes), LAB_ERR_MEMORY
 *
 * Derivative: dx = dy turned back, by the opposite angles.
 * Source: Su et al. 2021 (RoFormer), eq. 34.
 */
LAB_API lab_tensor *lab_rope(lab_graph *g, lab_tensor *x, const lab_rope_opts *opts);

/**
 * The definition of lab_rope, out of ops, with one fixed matrix.
 *
 * @param g     as for lab_rope
 * @param x     as for lab_rope
 * @param opts  as for lab_rope
 * @return [..., T, d] as x, owned by g; NULL if the graph has failed: errors as lab_rope's
 *
 * Derivative: lab_rope's.
 */
LAB_API lab_tensor *lab_rope_composed(lab_graph *g, lab_tensor *x, const lab_rope_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
