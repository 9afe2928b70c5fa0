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
 * init draws each parameter from (seed, stream = its number in visit order), so no two share draws. On failure the
 * struct is all zero. In a config, zero means the default and `reserved` must be zero. The fields of a layer may be
 * read and its parameters replaced; a layer must not be copied by assignment and then freed twice.
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
 * @param parameter  where the layer keeps it
 * @return LAB_OK to go on; anything else ends the visit, which returns it
 */
typedef lab_status (*lab_visit_fn)(const char *name, lab_tensor **parameter, void *ctx);

/* ---- Without weights of their own ---------------------------------------------------------------------------------- */

/**
 * y = (x - mean) / sqrt(variance + eps) * gain + shift, along the last axis.
 *
 * Centred twice before the variance is taken, so that a large mean costs no digits.
 *
 * @param x      [..., width], float
 * @param gain   [width] or NULL for 1
 * @param shift  [width] or NULL for 0
 * @param eps    at least 0
 * @return as x, owned by g; NULL if the graph has failed (LAB_ERR_SHAPE, LAB_ERR_DTYPE, LAB_ERR_RANGE)
 *
 * Source: Ba, Kiros and Hinton 2016.
 */
LAB_API lab_tensor *lab_layer_norm(lab_graph *g, lab_tensor *x, lab_tensor *gain, lab_tensor *shift, double eps);

/** The definition of lab_layer_norm, out of ops. */
LAB_API lab_tensor *lab_layer_norm_composed(lab_graph *g, lab_tensor *x, lab_tensor *gain, lab_tensor *shift,
                                            double eps);

/**
 * y = x / sqrt(mean(x^2) + eps) * gain, along the last axis; otherwise as lab_layer_norm.
 *
 * Source: Zhang and Sennrich 2019.
 */
LAB_API lab_tensor *lab_rms_norm(lab_graph *g, lab_tensor *x, lab_tensor *gain, double eps);

/** The definition of lab_rms_norm, out of ops. */
LAB_API lab_tensor *lab_rms_norm_composed(lab_graph *g, lab_tensor *x, lab_tensor *gain, double eps);

/** What becomes of the rows' losses. */
typedef enum lab_reduction {
    LAB_REDUCE_MEAN = 0, /* over the rows that count; 0 if none does */
    LAB_REDUCE_SUM,
    LAB_REDUCE_NONE /* a loss for each row, 0 for those ignored */
} lab_reduction;

/** The options of lab_cross_entropy. Zero means the default; `reserved` must be zero. */
typedef struct lab_cross_entropy_opts {
    bool ignore;          /* leave out rows whose target is ignore_index; implied by an ignore_index other than 0 */
    int64_t ignore_index; /* may be a class, or none, such as -100 */
    double smoothing;     /* in [0, 1]: this share of the target is spread evenly over all classes */
    lab_reduction reduction;
    lab_path path; /* the definition out of ops (LAB_PATH_COMPOSED) or the fused kernel */
    uint64_t reserved[8];
} lab_cross_entropy_opts;

/**
 * The cross-entropy of targets under softmax(logits): -log_softmax(logits)[target] for each row.
 *
 * A row that is ignored leaves no trace: neither its logits nor its gradient are read, NaN included.
 *
 * @param logits   [..., classes], float
 * @param targets  i64 [...], each in [0, classes) or ignored
 * @param opts     NULL: every row counts, mean
 * @return rank 0, or [...] with LAB_REDUCE_NONE; owned by g; NULL if the graph has failed: LAB_ERR_RANGE names the
 *         first target that is no class and its place. Differentiable in logits.
 */
LAB_API lab_tensor *lab_cross_entropy(lab_graph *g, lab_tensor *logits, lab_tensor *targets,
                                      const lab_cross_entropy_opts *opts);

/* ---- Linear -------------------------------------------------------------------------------------------------------- */

/** How weights of linear maps are drawn; biases start at 0, gains at 1. */
typedef enum lab_init_kind {
    LAB_INIT_XAVIER = 0, /* normal, variance 2 / (in + out) */
    LAB_INIT_NORMAL,     /* normal, standard deviation init_std */
    LAB_INIT_ORTHOGONAL, /* orthonormal rows or columns, whichever are fewer */
    LAB_INIT_ZEROS
} lab_init_kind;

typedef struct lab_linear_config {
    int64_t in, out;
    bool bias;
    lab_init_kind init;
    double init_std;   /* of LAB_INIT_NORMAL; 0: 0.02 */
    double init_scale; /* what the draw is multiplied by; 0: 1 */
    uint64_t reserved[8];
} lab_linear_config;

/** y = x weight^T + bias. Visited: weight, bias. */
typedef struct lab_linear {
    lab_tensor *weight; /* [out, in] */
    lab_tensor *bias;   /* [out], or NULL */
} lab_linear;

/** @return LAB_OK, LAB_ERR_ARGUMENT, LAB_ERR_DTYPE, LAB_ERR_RANGE (a size that is not positive), LAB_ERR_MEMORY */
LAB_API LAB_CHECKED lab_status lab_linear_init(lab_linear *x, const lab_linear_config *config, lab_dtype dtype,
                                               uint64_t seed);
/** @param input  [..., in]  @return [..., out] */
LAB_API lab_tensor *lab_linear_apply(lab_graph *g, const lab_linear *x, lab_tensor *input);
/** Visits the parameters. @return what fn does; LAB_ERR_ARGUMENT (NULL), LAB_ERR_RANGE (a name too long) */
LAB_API LAB_CHECKED lab_status lab_linear_visit(lab_linear *x, const char *prefix, lab_visit_fn fn, void *ctx);
/** Gives its parameters back; NULL, and a layer that is all zero, are fine. */
LAB_API void lab_linear_free(lab_linear *x);

/* ---- MLP ------------------------------------------------------------------------------------------------------------ */

typedef enum lab_activation {
    LAB_ACTIVATION_GELU_ERF = 0,
    LAB_ACTIVATION_GELU_TANH,
    LAB_ACTIVATION_SILU_GATED /* silu(gate(x)) * up(x): one more linear map */
} lab_activation;

typedef struct lab_mlp_config {
    int64_t width;
    int64_t hidden; /* 0: 4 width */
    lab_activation activation;
    bool bias;
    lab_init_kind init;
    double init_std;
    int64_t layers; /* of the model, L: the last map's draw is multiplied by 1 / sqrt(2 L); 0: it is not */
    uint64_t reserved[8];
} lab_mlp_config;

/** y = down(activation(up(x))). Visited: up, gate (if gated), down. */
typedef struct lab_mlp {
    lab_activation activation;
    lab_linear up, gate, down;
} lab_mlp;

/** @return as lab_linear_init */
LAB_API LAB_CHECKED lab_status lab_mlp_init(lab_mlp *x, const lab_mlp_config *config, lab_dtype dtype, uint64_t seed);
/** @param input  [..., width]  @return as input */
LAB_API lab_tensor *lab_mlp_apply(lab_graph *g, const lab_mlp *x, lab_tensor *input);
/** Visits the parameters. @return what fn does; LAB_ERR_ARGUMENT (NULL), LAB_ERR_RANGE (a name too long) */
LAB_API LAB_CHECKED lab_status lab_mlp_visit(lab_mlp *x, const char *prefix, lab_visit_fn fn, void *ctx);
/** Gives its parameters back; NULL, and a layer that is all zero, are fine. */
LAB_API void lab_mlp_free(lab_mlp *x);

/* ---- Multi-head attention ------------------------------------------------------------------------------------------- */

typedef struct lab_mha_config {
    int64_t width;
    int64_t heads;
    int64_t kv_heads;     /* 0: heads */
    int64_t head_dim;     /* 0: width / heads, which must then be whole */
    int64_t memory_width; /* of what keys and values are made from; 0: width */
    bool bias;
    const lab_rope_opts *rope; /* turns queries and keys; copied; no positions; NULL: none */
    lab_init_kind init;
    double init_std;
    int64_t layers; /* as in lab_mlp_config */
    uint64_t reserved[8];
} lab_mha_config;

/** Projections to heads, attention, and back. Visited: q, k, v, out. */
typedef struct lab_mha {
    int64_t heads, kv_heads, head_dim;
    lab_linear q, k, v, out;
    bool has_rope;
    lab_rope_opts rope;
} lab_mha;

/** @return as lab_linear_init; LAB_ERR_RANGE also where heads, kv_heads and width do not divide as they must */
LAB_API LAB_CHECKED lab_status lab_mha_init(lab_mha *x, const lab_mha_config *config, lab_dtype dtype, uint64_t seed);

/**
 * @param input   [..., T, width]: queries
 * @param memory  [..., S, memory_width]: keys and values (cross-attention); NULL: input itself
 * @param cache   must be NULL for now (LAB_ERR_UNSUPPORTED)
 * @param opts    of the attention inside, as for lab_attention; NULL: plain
 * @return [..., T, width], owned by g; NULL if the graph has failed
 */
LAB_API lab_tensor *lab_mha_apply(lab_graph *g, const lab_mha *x, lab_tensor *input, lab_tensor *memory,
                                  lab_kv_cache *cache, const lab_attention_opts *opts);
/** Visits the parameters. @return what fn does; LAB_ERR_ARGUMENT (NULL), LAB_ERR_RANGE (a name too long) */
LAB_API LAB_CHECKED lab_status lab_mha_visit(lab_mha *x, const char *prefix, lab_visit_fn fn, void *ctx);
/** Gives its parameters back; NULL, and a layer that is all zero, are fine. */
LAB_API void lab_mha_free(lab_mha *x);

/* ---- Block ---------------------------------------------------------------------------------------------------------- */

typedef enum lab_norm_kind { LAB_NORM_LAYER = 0, LAB_NORM_RMS } lab_norm_kind;

/** Where the norms stand. */
typedef enum lab_norm_place {
    LAB_NORM_BEFORE = 0, /* x = x + attn(norm1(x)); x = x + mlp(norm2(x)) */
    LAB_NORM_AFTER       /* x = norm1(x + attn(x)); x = norm2(x + mlp(x)) */
} lab_norm_place;

typedef struct lab_block_config {
    int64_t width;
    int64_t heads, kv_heads, head_dim; /* as in lab_mha_config */
    int64_t hidden;                    /* as in lab_mlp_config */
    lab_activation activation;
    bool bias; /* of the linear maps */
    lab_norm_kind norm;
    lab_norm_place norm_place;
    double norm_eps; /* 0: 1e-5 */
    const lab_rope_opts *rope;
    lab_init_kind init;
    double init_std;
    int64_t layers; /* L of the 1 / sqrt(2 L) rule for the maps that end a residual branch; 0: 1 in its place */
    uint64_t reserved[8];
} lab_block_config;

/** A transformer block. Visited: norm1.gain, norm1.shift (LayerNorm only), attn..., norm2..., mlp... */
typedef struct lab_block {
    lab_norm_kind norm;
    lab_norm_place norm_place;
    double norm_eps;
    lab_tensor *norm1_gain, *norm1_shift, *norm2_gain, *norm2_shift;
    lab_mha attn;
    lab_mlp mlp;
} lab_block;

/** @return as lab_mha_init */
LAB_API LAB_CHECKED lab_status lab_block_init(lab_block *x, const lab_block_config *config, lab_dtype dtype,
                                              uint64_t seed);

/**
 * @param input  [..., T, width]
 * @param cache  must be NULL for now (LAB_ERR_UNSUPPORTED)
 * @param opts   of the attention inside, such as its causal rule; NULL: plain
 * @return as input, owned by g; NULL if the graph has failed
 */
LAB_API lab_tensor *lab_block_apply(lab_graph *g, const lab_block *x, lab_tensor *input, lab_kv_cache *cache,
                                    const lab_attention_opts *opts);
/** Visits the parameters. @return what fn does; LAB_ERR_ARGUMENT (NULL), LAB_ERR_RANGE (a name too long) */
LAB_API LAB_CHECKED lab_status lab_block_visit(lab_block *x, const char *prefix, lab_visit_fn fn, void *ctx);
/** Gives its parameters back; NULL, and a layer that is all zero, are fine. */
LAB_API void lab_block_free(lab_block *x);

#ifdef __cplusplus
}
#endif
#endif
