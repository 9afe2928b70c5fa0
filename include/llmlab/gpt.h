/* SPDX-License-Identifier: MIT
 * llmlab/gpt.h - a decoder-only transformer: tokens in, logits of the next token out.
 *
 *     x = token[tokens] + position[0 ... T - 1]
 *     x = block(x), `layers` times, each attending backwards only
 *     logits = norm(x) head^T
 *
 * GPT-2 and Llama are two settings of one config:
 *
 *     GPT-2    {.vocabulary = 50257, .context = 1024, .layers = 12, .width = 768, .heads = 12, .bias = true,
 *               .activation = LAB_ACTIVATION_GELU_TANH}
 *     Llama    {.vocabulary = 32000, .context = 4096, .layers = 32, .width = 4096, .heads = 32, .hidden = 11008,
 *               .positions = LAB_POSITIONS_ROPE, .rope_layout = LAB_ROPE_HALVES, .norm = LAB_NORM_RMS,
 *               .activation = LAB_ACTIVATION_SILU_GATED, .untied = true}
 */

/** @file
 * The GPT. What layers.h says of all layers holds here too: who owns what, the errors of init, apply and visit, and
 * that derivatives are the ops'.
 */
#ifndef LLMLAB_GPT_H
#define LLMLAB_GPT_H

#include "layers.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How a token knows where it stands. */
typedef enum lab_positions {
    LAB_POSITIONS_LEARNED = 0, /**< a table [context, width], added to the tokens' */
    LAB_POSITIONS_ROPE,        /**< queries and keys are turned (lab_rope) */
    LAB_POSITIONS_NONE         /**< only through the causal rule */
} lab_positions;

/** What lab_gpt_init makes. Plain numbers, so that a file can hold them. */
typedef struct lab_gpt_config {
    int64_t vocabulary; /**< how many tokens there are */
    int64_t context;    /**< rows of the table of positions; room of a cache, unless it is told otherwise */
    int64_t layers;
    int64_t width;
    int64_t heads, kv_heads, head_dim; /**< as in lab_mha_config */
    int64_t hidden;                    /**< as in lab_mlp_config */
    lab_positions positions;
    lab_rope_layout rope_layout; /**< with LAB_POSITIONS_ROPE */
    double rope_base;            /**< with LAB_POSITIONS_ROPE; 0: 10000 */
    lab_activation activation;
    lab_norm_kind norm;
    double norm_eps;        /**< 0: 1e-5 */
    bool bias;              /**< of the linear maps, and the shift of LayerNorm */
    bool untied;            /**< a head of its own; else the token table is the head's weight as well */
    double attention_scale; /**< 0: 1 / sqrt(head_dim) */
    double init_std;        /**< of all tables and weights; maps that end a branch 1 / sqrt(2 layers) of it; 0: 0.02 */
    uint64_t reserved[8];
} lab_gpt_config;

/** A GPT. Visited: token.weight, position.weight, block.0..., ..., norm.gain, norm.shift, head.weight (if untied). */
typedef struct lab_gpt {
    lab_gpt_config config; /**< with the defaults of sizes filled in */
    lab_tensor *token;     /**< [vocabulary, width] */
    lab_tensor *position;  /**< [context, width], or NULL */
    lab_block *block;      /**< config.layers of them */
    lab_tensor *norm_gain, *norm_shift;
    lab_tensor *head; /**< [vocabulary, width], or NULL: token's */
} lab_gpt;

/** The options of lab_gpt_apply. Zero means the default; `reserved` must be zero. */
typedef struct lab_gpt_opts {
    /**
     * Of the attention in every block; NULL: plain. Where it has no causal rule, it is LAB_CAUSAL_TOP_LEFT without and
     * bottom-right with a cache; where it has no scale, the config's. Layer l draws its dropout from stream + l. lse,
     * probs and stats are one layer's and refused.
     */
    const lab_attention_opts *attention;
    lab_attention_stats *stats; /**< caller's array of layers * heads entries, a layer's behind one another; or NULL */
    bool recompute; /**< on a recording graph: what a block computes is computed again in backward (lab_checkpoint) */
    uint64_t reserved[8];
} lab_gpt_opts;

/** Keys and values of all layers. */
typedef struct lab_gpt_cache lab_gpt_cache;

/**
 * Makes and draws the parameters: everything normal, standard deviation init_std; biases and shifts 0, gains 1.
 *
 * @param x       receives the model, which the caller owns (lab_gpt_free); all zero on failure
 * @param config  copied
 * @param dtype   LAB_F32 or LAB_F64
 * @param seed    a parameter is a function of it and of its number in visit order
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL, reserved words, no such enumerator), LAB_ERR_DTYPE, LAB_ERR_RANGE (a size
 *         that is not positive, too large or does not divide; a number that is not finite), LAB_ERR_MEMORY
 *
 * Source: Radford et al. 2019 (GPT-2), section 2.3.
 */
LAB_API LAB_CHECKED lab_status lab_gpt_init(lab_gpt *x, const lab_gpt_config *config, lab_dtype dtype, uint64_t seed);

/**
 * The logits of the next token, at every place.
 *
 * @param g       the graph that records the operation and owns the result
 * @param x       the model
 * @param tokens  i64 [..., T], of 1 to 6 axes, each in [0, vocabulary); T at most context with learned positions
 * @param cache   NULL, or on an inference graph what came before: the tokens stand behind it, and are appended. Where
 *                the graph fails, the cache is as it was.
 * @param opts    NULL for the defaults
 * @return [..., T, vocabulary], owned by g; NULL if the graph has failed
 *
 * Derivative: the ops'. Errors: as for layers; LAB_ERR_RANGE also for a token that there is not, and for more places
 * than there are positions; LAB_ERR_UNSUPPORTED for stats with recompute on a recording graph.
 */
LAB_API lab_tensor *lab_gpt_apply(lab_graph *g, const lab_gpt *x, lab_tensor *tokens, lab_gpt_cache *cache,
                                  const lab_gpt_opts *opts);

/**
 * What lab_gpt_apply multiplies with the head: the normed output of the last block, [..., T, width], owned by g.
 *
 * Everything else is as there: tokens, cache, opts, the derivative; it fails as lab_gpt_apply does.
 */
LAB_API lab_tensor *lab_gpt_hidden(lab_graph *g, const lab_gpt *x, lab_tensor *tokens, lab_gpt_cache *cache,
                                   const lab_gpt_opts *opts);

/**
 * The mean cross-entropy of the targets: lab_cross_entropy(lab_gpt_apply(tokens), targets), or where there are more
 * than 2^24 logits lab_linear_cross_entropy, which does not keep them.
 *
 * @param g        the graph that records the operation and owns the result
 * @param x        the model
 * @param tokens   i64 [..., T], as for lab_gpt_apply
 * @param targets  i64, of the same shape: the token that comes next at each place
 * @param loss     of lab_cross_entropy; NULL for the defaults
 * @param opts     NULL for the defaults
 * @return rank 0 (or [..., T] with LAB_REDUCE_NONE), owned by g; NULL if the graph has failed
 *
 * Derivative: the ops'. Errors: as lab_gpt_apply and lab_cross_entropy.
 */
LAB_API lab_tensor *lab_gpt_loss(lab_graph *g, const lab_gpt *x, lab_tensor *tokens, lab_tensor *targets,
                                 const lab_cross_entropy_opts *loss, const lab_gpt_opts *opts);

/** Calls fn for each parameter, in the order of lab_gpt. LAB_ERR_ARGUMENT (x or fn is NULL), LAB_ERR_RANGE (a name of
 * more than 255 characters), or what fn returns. */
LAB_API LAB_CHECKED lab_status lab_gpt_visit(lab_gpt *x, const char *prefix, lab_visit_fn fn, void *ctx);

/** Gives its parameters back; NULL, and a model that is all zero, are fine. */
LAB_API void lab_gpt_free(lab_gpt *x);

/**
 * An empty cache for a model: one lab_kv_cache for each layer, of the model's dtype.
 *
 * @param out       receives the cache, which is the caller's to destroy; NULL on failure
 * @param x         the model
 * @param batch     how many sequences grow side by side; at least 0
 * @param capacity  places for each; 0: the config's context
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL), LAB_ERR_RANGE (a size), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_gpt_cache_create(lab_gpt_cache **out, const lab_gpt *x, int64_t batch,
                                                    int64_t capacity);

/** How many places batch `batch` has; 0 for NULL or a batch that there is not. */
LAB_API int64_t lab_gpt_cache_length(const lab_gpt_cache *cache, int64_t batch);

/** How many places a batch has room for; 0 for NULL. */
LAB_API int64_t lab_gpt_cache_capacity(const lab_gpt_cache *cache);

/** Forgets the places of one batch from `length` on. LAB_OK; LAB_ERR_ARGUMENT (cache is NULL), LAB_ERR_RANGE (no such
 * batch; length outside 0 ... its length). */
LAB_API LAB_CHECKED lab_status lab_gpt_cache_truncate(lab_gpt_cache *cache, int64_t batch, int64_t length);

/** Forgets all places of all batches, and keeps the memory. Nothing happens for NULL. */
LAB_API void lab_gpt_cache_reset(lab_gpt_cache *cache);

/** Destroys a cache and nulls the pointer. Nothing happens for NULL. */
LAB_API void lab_gpt_cache_destroy(lab_gpt_cache **cache);

#ifdef __cplusplus
}
#endif
#endif
