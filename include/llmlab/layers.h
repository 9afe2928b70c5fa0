/* SPDX-License-Identifier: MIT
 * llmlab/layers.h - what a transformer is made of.
 *
 * A layer with weights is a plain struct with four functions:
 *
 *     lab_X_init(&x, &config, dtype, seed)     makes and draws its parameters; they require gradients
 *     lab_X_apply(g, &x, input, ...)           the layer's function, on a graph
 *     lab_X_visit(&x, "prefix", fn, ctx)       calls fn for every parameter, by name ("prefix.attn.q.weight")
 *     lab_X_free(&x)                           gives the parameters back
 *
 * init draws each parameter from (seed, stream = its number in visit order), so no two share draws. In a config, zero
 * means the default and `reserved` must be zero. The fields of a layer may be read and its parameters replaced; a layer
 * must not be copied by assignment and then freed twice.
 */

/** @file
 * Layers. What holds for all functions here, and is not said again:
 *
 *   - **Ownership.** init fills the caller's struct with parameters that the caller owns through it (lab_X_free); on
 *     failure the struct is all zero and there is nothing to free. What apply returns belongs to g, until its reset or
 *     destroy; g keeps the parameters it has seen alive as long.
 *   - **Errors of init**: LAB_ERR_ARGUMENT (x or config is NULL, reserved words, no such enumerator), LAB_ERR_DTYPE
 *     (not floating-point), LAB_ERR_RANGE (a size that is not positive, or too large; a number that is not finite),
 *     LAB_ERR_MEMORY; lab_last_message() has the sentence.
 *   - **Errors of apply**, and of the functions without weights: NULL is returned if the graph had failed before, or
 *     fails now; lab_graph_status(g) has the code and lab_graph_message(g) the sentence. LAB_ERR_ARGUMENT (the layer or
 *     an operand is NULL, reserved words), LAB_ERR_SHAPE, LAB_ERR_DTYPE, LAB_ERR_RANGE, LAB_ERR_STATE (an operand of
 *     another graph), LAB_ERR_MEMORY.
 *   - **Errors of visit**: LAB_ERR_ARGUMENT (x or fn is NULL), LAB_ERR_RANGE (a name of more than 255 characters), or
 *     what fn returns. A NULL prefix is none.
 *   - **Derivatives.** Layers are made of ops: they are differentiable in their input and in every parameter, to any
 *     order. What comes out is stated where it is short.
 */
#ifndef LLMLAB_LAYERS_H
#define LLMLAB_LAYERS_H

#include "attention.h"
#include "ops.h"
#include "position.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Called for each parameter. Optimisers, checkpoints and counters use nothing else.
 *
 * @param name       such as "block.0.attn.q.weight"; valid during the call only
 * @param parameter  where the layer keeps it, and goes on owning it
 * @param ctx        what the visit was given
 * @return LAB_OK to go on; anything else ends the visit, which returns it
 */
typedef lab_status (*lab_visit_fn)(const char *name, lab_tensor **parameter, void *ctx);

/**
 * @name Without weights of their own
 * @{
 */

/**
 * y = (x - mean) / sqrt(variance + eps) * gain + shift, along the last axis.
 *
 * Centred twice before the variance (the mean square of what is left) is taken, so that a large mean costs no digits.
 *
 * @param g      the graph that records the operation and owns the result
 * @param x      [..., width], float
 * @param gain   [width] or NULL for 1, of x's dtype
 * @param shift  [width] or NULL for 0, of x's dtype
 * @param eps    at least 0, finite
 * @return [..., width] as x, owned by g; NULL if the graph has failed: LAB_ERR_ARGUMENT (x is NULL), LAB_ERR_SHAPE
 *         (rank 0; gain's or shift's), LAB_ERR_DTYPE, LAB_ERR_RANGE (eps), LAB_ERR_STATE, LAB_ERR_MEMORY
 *
 * With n = (x - mean) / r, r = sqrt(variance + eps), and dn = dy gain: dx = (dn - mean(dn) - n mean(dn n)) / r,
 * dgain = sum of dy n and dshift = sum of dy over the rows.
 *
 * Source: Ba, Kiros and Hinton 2016.
 */
LAB_API lab_tensor *lab_layer_norm(lab_graph *g, lab_tensor *x, lab_tensor *gain, lab_tensor *shift, double eps);

/** The definition of lab_layer_norm, out of ops: [..., width] as there; same errors, same derivative. */
LAB_API lab_tensor *lab_layer_norm_composed(lab_graph *g, lab_tensor *x, lab_tensor *gain, lab_tensor *shift,
                                            double eps);

/**
 * y = x / sqrt(mean(x^2) + eps) * gain, along the last axis of x [..., width]; otherwise as lab_layer_norm.
 *
 * With n = x / r, r = sqrt(mean(x^2) + eps), and dn = dy gain: dx = (dn - n mean(dn n)) / r, dgain = sum of dy n.
 *
 * Squares are taken in double: no f32 row overflows. In f64, and in f32 in the composed form, a row whose squares
 * overflow gives 0.
 *
 * Source: Zhang and Sennrich 2019.
 */
LAB_API lab_tensor *lab_rms_norm(lab_graph *g, lab_tensor *x, lab_tensor *gain, double eps);

/** The definition of lab_rms_norm, out of ops: [..., width] as there; same errors, same derivative. */
LAB_API lab_tensor *lab_rms_norm_composed(lab_graph *g, lab_tensor *x, lab_tensor *gain, double eps);

/**
 * y = gelu(x + bias), element by element, as one op: what stands between the maps of an MLP with biases.
 *
 * @param g     the graph that records the operation and owns the result
 * @param x     [..., width], float
 * @param bias  [width], of x's dtype
 * @param kind  as for lab_gelu
 * @return [..., width] as x, owned by g; NULL if the graph has failed: LAB_ERR_ARGUMENT (NULL, no such kind),
 *         LAB_ERR_SHAPE, LAB_ERR_DTYPE, LAB_ERR_STATE, LAB_ERR_MEMORY
 *
 * Derivative: dx = dy gelu'(x + bias), dbias = its sum over the rows.
 */
LAB_API lab_tensor *lab_bias_gelu(lab_graph *g, lab_tensor *x, lab_tensor *bias, lab_gelu_kind kind);

/** The definition of lab_bias_gelu, out of ops: [..., width] as there; same errors, same derivative. */
LAB_API lab_tensor *lab_bias_gelu_composed(lab_graph *g, lab_tensor *x, lab_tensor *bias, lab_gelu_kind kind);

/** What becomes of the rows' losses. */
typedef enum lab_reduction {
    LAB_REDUCE_MEAN = 0, /**< over the rows that count; 0 if none does */
    LAB_REDUCE_SUM,
    LAB_REDUCE_NONE /**< a loss for each row, 0 for those ignored */
} lab_reduction;

/** The options of lab_cross_entropy. Zero means the default; `reserved` must be zero. */
typedef struct lab_cross_entropy_opts {
    bool ignore;          /**< leave out rows whose target is ignore_index; implied by an ignore_index other than 0 */
    int64_t ignore_index; /**< may be a class, or none, such as -100 */
    double smoothing;     /**< in [0, 1]: this share of the target is spread evenly over all classes */
    lab_reduction reduction;
    lab_path path; /**< the definition out of ops (LAB_PATH_COMPOSED), or one op that copies no logits (the others) */
    uint64_t reserved[8];
} lab_cross_entropy_opts;

/**
 * The cross-entropy of targets under p = softmax(logits): -(1 - a) ln p[target] - a mean over classes of ln p, for each
 * row; a is the smoothing, 0 by default.
 *
 * A row that is ignored leaves no trace: neither its logits nor its gradient are read, NaN included.
 *
 * @param g        the graph that records the operation and owns the result
 * @param logits   [..., classes], float
 * @param targets  i64 [...], each in [0, classes) or ignored
 * @param opts     NULL: every row counts, mean
 * @return rank 0, or [...] with LAB_REDUCE_NONE; owned by g; NULL if the graph has failed: LAB_ERR_RANGE (smoothing;
 *         the first target that is no class, with its place), LAB_ERR_SHAPE, LAB_ERR_DTYPE, LAB_ERR_ARGUMENT (NULL, no
 *         such enumerator, reserved words), LAB_ERR_STATE, LAB_ERR_MEMORY
 *
 * Derivative: dlogits = dy (p - (1 - a) e - a / classes) for each row, e being 1 at the target and 0 elsewhere; over
 * the number of rows that count, with LAB_REDUCE_MEAN. Exactly 0 in rows that are ignored.
 *
 * Source of the smoothing: Szegedy et al. 2016, section 7.
 */
LAB_API lab_tensor *lab_cross_entropy(lab_graph *g, lab_tensor *logits, lab_tensor *targets,
                                      const lab_cross_entropy_opts *opts);

/**
 * lab_cross_entropy of the logits hidden weight^T, which are computed a chunk of rows at a time and never exist as a
 * whole: the head of a language model and its loss. Backward computes them once more, so that this is for logits too
 * large to keep: where they are not, lab_cross_entropy takes three products instead of four.
 *
 * A row that is ignored leaves no trace: neither its hidden state nor its gradient are read, NaN included (with
 * LAB_PATH_COMPOSED, which makes all logits, a NaN in such a row reaches the weight's gradient).
 *
 * @param g        the graph that records the operation and owns the result
 * @param hidden   [..., width], float
 * @param weight   [classes, width], of hidden's dtype
 * @param targets  i64 [...], each in [0, classes) or ignored
 * @param opts     as for lab_cross_entropy
 * @return as lab_cross_entropy, owned by g; NULL if the graph has failed, as there
 *
 * Derivative: with dlogits as there, dhidden = dlogits weight and dweight = dlogits^T hidden.
 */
LAB_API lab_tensor *lab_linear_cross_entropy(lab_graph *g, lab_tensor *hidden, lab_tensor *weight, lab_tensor *targets,
                                             const lab_cross_entropy_opts *opts);

/** @} */

/**
 * @name Linear
 * y = x weight^T + bias.  dx = dy weight, dweight = dy^T x and dbias = sum of dy, over all rows.
 * @{
 */

/** How weights of linear maps are drawn; biases start at 0, gains at 1. */
typedef enum lab_init_kind {
    LAB_INIT_XAVIER = 0, /**< normal, variance 2 / (in + out) */
    LAB_INIT_NORMAL,     /**< normal, standard deviation init_std */
    LAB_INIT_ORTHOGONAL, /**< orthonormal rows or columns, whichever are fewer */
    LAB_INIT_ZEROS
} lab_init_kind;

/** What lab_linear_init makes. */
typedef struct lab_linear_config {
    int64_t in, out;
    bool bias;
    lab_init_kind init;
    double init_std;   /**< of LAB_INIT_NORMAL; 0: 0.02 */
    double init_scale; /**< what the draw is multiplied by; 0: 1 */
    uint64_t reserved[8];
} lab_linear_config;

/** y = x weight^T + bias. Visited: weight, bias. */
typedef struct lab_linear {
    lab_tensor *weight; /**< [out, in] */
    lab_tensor *bias;   /**< [out], or NULL */
} lab_linear;

/** Makes weight [out, in], and bias [out] if asked for. Errors: as above; of an orthogonal draw lab_qr's too. */
LAB_API LAB_CHECKED lab_status lab_linear_init(lab_linear *x, const lab_linear_config *config, lab_dtype dtype,
                                               uint64_t seed);
/** y = input weight^T + bias: [..., in] -> [..., out], owned by g; NULL if the graph has failed. */
LAB_API lab_tensor *lab_linear_apply(lab_graph *g, const lab_linear *x, lab_tensor *input);
/** Calls fn for each parameter, in the order above. Errors: as above. */
LAB_API LAB_CHECKED lab_status lab_linear_visit(lab_linear *x, const char *prefix, lab_visit_fn fn, void *ctx);
/** Gives its parameters back; NULL, and a layer that is all zero, are fine. */
LAB_API void lab_linear_free(lab_linear *x);

/** @} */

/**
 * @name MLP
 * y = down(activation(up(x))), or down(silu(gate(x)) * up(x)) (Shazeer 2020). Derivative: the ops'.
 * @{
 */

/** What stands between the maps of an MLP. */
typedef enum lab_activation {
    LAB_ACTIVATION_GELU_ERF = 0,
    LAB_ACTIVATION_GELU_TANH,
    LAB_ACTIVATION_SILU_GATED /**< silu(gate(x)) * up(x): one more linear map */
} lab_activation;

/** What lab_mlp_init makes. */
typedef struct lab_mlp_config {
    int64_t width;
    int64_t hidden; /**< 0: 4 width */
    lab_activation activation;
    bool bias;
    lab_init_kind init;
    double init_std;
    int64_t layers; /**< of the model, L: the last map's draw is multiplied by 1 / sqrt(2 L); 0: it is not */
    uint64_t reserved[8];
} lab_mlp_config;

/** y = down(activation(up(x))). Visited: up, gate (if gated), down. */
typedef struct lab_mlp {
    lab_activation activation;
    lab_linear up, gate, down;
} lab_mlp;

/** Makes up and gate [hidden, width], down [width, hidden], with biases if asked for. Errors: as above. */
LAB_API LAB_CHECKED lab_status lab_mlp_init(lab_mlp *x, const lab_mlp_config *config, lab_dtype dtype, uint64_t seed);
/** y = down(activation(up(input))): [..., width] -> [..., width], owned by g; NULL if the graph has failed. */
LAB_API lab_tensor *lab_mlp_apply(lab_graph *g, const lab_mlp *x, lab_tensor *input);
/** Calls fn for each parameter, in the order above. Errors: as above. */
LAB_API LAB_CHECKED lab_status lab_mlp_visit(lab_mlp *x, const char *prefix, lab_visit_fn fn, void *ctx);
/** Gives its parameters back; NULL, and a layer that is all zero, are fine. */
LAB_API void lab_mlp_free(lab_mlp *x);

/** @} */

/**
 * @name Multi-head attention
 * q = turn(split(x Wq)), k = turn(split(m Wk)), v = split(m Wv), y = join(attention(q, k, v)) Wo: split cuts the width
 * into heads, turn is lab_rope, m the memory or x itself. Derivative: the ops'. Source: Vaswani et al. 2017,
 * section 3.2.2; fewer heads of keys and values: Ainslie et al. 2023.
 * @{
 */

/** What lab_mha_init makes. */
typedef struct lab_mha_config {
    int64_t width;
    int64_t heads;
    int64_t kv_heads;     /**< 0: heads */
    int64_t head_dim;     /**< 0: width / heads, which must then be whole */
    int64_t memory_width; /**< of what keys and values are made from; 0: width */
    bool bias;
    const lab_rope_opts *rope; /**< turns queries and keys; copied; no positions; NULL: none */
    lab_init_kind init;
    double init_std;
    int64_t layers; /**< as in lab_mlp_config */
    uint64_t reserved[8];
} lab_mha_config;

/** Projections to heads, attention, and back. Visited: q, k, v, out. */
typedef struct lab_mha {
    int64_t heads, kv_heads, head_dim;
    lab_linear q, k, v, out;
    bool has_rope;
    lab_rope_opts rope;
} lab_mha;

/**
 * Makes q [heads head_dim, width], k and v [kv_heads head_dim, memory_width], out [width, heads head_dim].
 *
 * Errors: as above; LAB_ERR_RANGE also where heads, kv_heads and width do not divide as they must, and for a rotary
 * width that is odd or above head_dim; LAB_ERR_ARGUMENT also for rope's positions.
 */
LAB_API LAB_CHECKED lab_status lab_mha_init(lab_mha *x, const lab_mha_config *config, lab_dtype dtype, uint64_t seed);

/**
 * Attention of the input to the memory, or to itself.
 *
 * @param g       the graph that records the operation and owns the result
 * @param x       the layer
 * @param input   [..., T, width]: queries; 2 to 7 axes
 * @param memory  [..., S, memory_width]: keys and values (cross-attention); NULL: input itself
 * @param cache   NULL, or on an inference graph the layer's keys and values so far: the input's are appended, its
 *                positions start at the cache's length, and it attends to all of them as lab_attention_cached does.
 * With a memory: LAB_ERR_UNSUPPORTED. Where the graph fails, the cache is as it was.
 * @param opts    of the attention inside, as for lab_attention; NULL: plain
 * @return [..., T, width], owned by g; NULL if the graph has failed
 */
LAB_API lab_tensor *lab_mha_apply(lab_graph *g, const lab_mha *x, lab_tensor *input, lab_tensor *memory,
                                  lab_kv_cache *cache, const lab_attention_opts *opts);
/** Calls fn for each parameter, in the order above. Errors: as above. */
LAB_API LAB_CHECKED lab_status lab_mha_visit(lab_mha *x, const char *prefix, lab_visit_fn fn, void *ctx);
/** Gives its parameters back; NULL, and a layer that is all zero, are fine. */
LAB_API void lab_mha_free(lab_mha *x);

/** @} */

/**
 * @name Block
 * Attention and an MLP, each beside a way around it: lab_norm_place says in which order. Derivative: the ops'.
 * Source: Vaswani et al. 2017 (norms after), Xiong et al. 2020 (before).
 * @{
 */

/** lab_layer_norm or lab_rms_norm. */
typedef enum lab_norm_kind { LAB_NORM_LAYER = 0, LAB_NORM_RMS } lab_norm_kind;

/** Where the norms stand. */
typedef enum lab_norm_place {
    LAB_NORM_BEFORE = 0, /**< x = x + attn(norm1(x)); x = x + mlp(norm2(x)) */
    LAB_NORM_AFTER       /**< x = norm1(x + attn(x)); x = norm2(x + mlp(x)) */
} lab_norm_place;

/** What lab_block_init makes. */
typedef struct lab_block_config {
    int64_t width;
    int64_t heads, kv_heads, head_dim; /**< as in lab_mha_config */
    int64_t hidden;                    /**< as in lab_mlp_config */
    lab_activation activation;
    bool bias;     /**< of the linear maps */
    bool no_shift; /**< LayerNorm without its shift */
    lab_norm_kind norm;
    lab_norm_place norm_place;
    double norm_eps; /**< 0: 1e-5 */
    const lab_rope_opts *rope;
    lab_init_kind init;
    double init_std;
    int64_t layers; /**< L of the 1 / sqrt(2 L) rule for the maps that end a residual branch; 0: 1 in its place */
    uint64_t reserved[8];
} lab_block_config;

/** A transformer block. Visited: norm1.gain, norm1.shift (LayerNorm only, unless no_shift), attn..., norm2..., mlp...
 */
typedef struct lab_block {
    lab_norm_kind norm;
    lab_norm_place norm_place;
    double norm_eps;
    lab_tensor *norm1_gain, *norm1_shift, *norm2_gain, *norm2_shift;
    lab_mha attn;
    lab_mlp mlp;
} lab_block;

/** Makes the norms' gains (1) and shifts (0), attention and MLP. Errors: as lab_mha_init, and norm_eps's range. */
LAB_API LAB_CHECKED lab_status lab_block_init(lab_block *x, const lab_block_config *config, lab_dtype dtype,
                                              uint64_t seed);

/**
 * The block's function: see lab_norm_place.
 *
 * @param g      the graph that records the operation and owns the result
 * @param x      the layer
 * @param input  [..., T, width], of 2 to 7 axes
 * @param cache  NULL, or the attention's, as for lab_mha_apply
 * @param opts   of the attention inside, such as its causal rule; NULL: plain
 * @return as input, owned by g; NULL if the graph has failed
 */
LAB_API lab_tensor *lab_block_apply(lab_graph *g, const lab_block *x, lab_tensor *input, lab_kv_cache *cache,
                                    const lab_attention_opts *opts);
/** Calls fn for each parameter, in the order above. Errors: as above. */
LAB_API LAB_CHECKED lab_status lab_block_visit(lab_block *x, const char *prefix, lab_visit_fn fn, void *ctx);
/** Gives its parameters back; NULL, and a layer that is all zero, are fine. */
LAB_API void lab_block_free(lab_block *x);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
