/* SPDX-License-Identifier: MIT
 * llmlab/attention.h - scaled dot-product attention.
 */

/** @file
 * Attention. What holds for the functions that return a tensor:
 *
 *   - **Return, ownership.** g records the operation and owns the result, extra outputs included, until its reset or
 *     destroy; it keeps the operands alive as long. NULL if the graph had failed before, or fails now: extra outputs
 *     (*lse, *probs) are NULL then, and what is in stats means nothing.
 *   - **Errors**: lab_graph_status(g) has the code, lab_graph_message(g) the sentence. LAB_ERR_ARGUMENT (an operand is
 *     NULL, reserved words, no such enumerator, options that exclude each other: scale and scale_tensor, offset and
 *     offsets, one of these with a causal rule that has its own, sizes of a window that is not limited),
 *     LAB_ERR_SHAPE and LAB_ERR_DTYPE (q, k, v and every tensor in the options), LAB_ERR_RANGE (a number that is not
 *     finite or not in its range: scale, softcap, dropout, window, offsets, key_lengths; UNIFORM rows without keys),
 *     LAB_ERR_STATE (a tensor of another graph), LAB_ERR_UNSUPPORTED (names the option), LAB_ERR_MEMORY.
 */
#ifndef LLMLAB_ATTENTION_H
#define LLMLAB_ATTENTION_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which keys the causal rule lets a query see: those at or before its position, j <= pos_i = i + offset. */
typedef enum lab_causal {
    LAB_CAUSAL_NONE = 0,     /**< all of them */
    LAB_CAUSAL_TOP_LEFT,     /**< offset 0: query 0 sees key 0 */
    LAB_CAUSAL_BOTTOM_RIGHT, /**< offset (key length - Tq): the last query sees the last key */
    LAB_CAUSAL_OFFSET        /**< the offset, or offsets, stated */
} lab_causal;

/** Keys from pos_i - left to pos_i + right; -1 leaves a side open. */
typedef struct lab_window {
    bool limited;
    int64_t left, right;
} lab_window;

/** Which implementation: the composed definition or the fused kernel. */
typedef enum lab_path { LAB_PATH_AUTO = 0, LAB_PATH_COMPOSED, LAB_PATH_FUSED } lab_path;

/** What a query without allowed keys gives: zeros; or, forward only, NaN or the mean of v as other systems do. */
typedef enum lab_empty_row { LAB_EMPTY_ZERO = 0, LAB_EMPTY_NAN, LAB_EMPTY_UNIFORM } lab_empty_row;

/** Keys and values of one layer, kept from step to step. */
typedef struct lab_kv_cache lab_kv_cache;

/** Smallest, mean and largest over the rows of a head. */
typedef struct lab_spread {
    double min, mean, max;
} lab_spread;

/** How sharply a head looks, before dropout, over its rows that have keys (0 where every row is empty). */
typedef struct lab_attention_stats {
    lab_spread p_max;       /**< the largest probability */
    lab_spread entropy;     /**< -sum p ln p */
    lab_spread gain;        /**< 1 - sum p^2: the trace of softmax's Jacobian */
    double saturated_share; /**< of rows whose largest probability is over 0.99 */
    int64_t rows, empty_rows;
} lab_attention_stats;

/** The options of lab_attention. Zero means the default; `reserved` must be zero. */
typedef struct lab_attention_opts {
    double scale;             /**< 0: 1/sqrt(d); may be negative */
    lab_tensor *scale_tensor; /**< one element; instead of scale, differentiable */
    lab_causal causal;
    int64_t offset;      /**< with LAB_CAUSAL_OFFSET or _NONE */
    lab_tensor *offsets; /**< i64, one per batch; instead of offset */
    lab_window window;
    lab_tensor *mask;         /**< bool, broadcasts to [..., Hq, Tq, Tk]; true: may attend */
    lab_tensor *bias;         /**< float, broadcasts likewise, added to the scores; differentiable */
    lab_tensor *key_lengths;  /**< i64, one per batch, 0 ... Tk */
    lab_tensor *alibi_slopes; /**< [Hq]: - slope |pos_i - j| is added to the scores; differentiable */
    lab_tensor *sink;         /**< [Hq]: one more logit per head, without a value; differentiable */
    double softcap;           /**< > 0: s = cap tanh(s / cap), before bias and mask */
    double dropout;           /**< of the probabilities, in [0, 1) */
    uint64_t seed, stream;    /**< of dropout's random numbers */
    lab_path path;
    lab_empty_row empty_row;
    lab_tensor **lse;           /**< receives [..., Hq, Tq]: ln of softmax's denominator; differentiable */
    lab_tensor **probs;         /**< receives [..., Hq, Tq, Tk]: the probabilities before dropout; composed path */
    lab_attention_stats *stats; /**< caller's array of Hq entries */
    uint64_t reserved[8];
} lab_attention_opts;

/**
 * Scaled dot-product attention: softmax(scale * q k^T) v over the keys that each query may attend to.
 *
 * @param g     the graph that records the operation and owns the result
 * @param q     queries [..., Hq, Tq, d]
 * @param k     keys    [..., Hk, Tk, d], Hq a multiple of Hk: query head h reads key head h / (Hq / Hk)
 * @param v     values  [..., Hk, Tk, dv]
 * @param opts  NULL for plain attention with scale 1/sqrt(d)
 * @return      [..., Hq, Tq, dv], owned by g; NULL if the graph has failed (lab_graph_message says why)
 *
 * With p the probabilities and f = dy v^T (f_ij = dy_i . v_j): dv = p^T dy, and the scores' gradient is
 * ds = p (f - sum over keys of p f), of which dq = scale ds k, dk = scale ds^T q; key heads add up what their group of
 * query heads sends. Differentiable in opts' bias, alibi_slopes, sink and scale_tensor too. A query with no allowed key
 * gives 0, and takes no gradient; with LAB_EMPTY_NAN and _UNIFORM a backward through the result is LAB_ERR_UNSUPPORTED.
 * A score of -inf forbids its key, whatever made it; a NaN, or +inf, on an allowed key gives NaN in that row alone. The
 * composed path selects scores, but multiplies v by zeros where a key is forbidden, so it needs finite v there (and
 * finite q and k for their gradients). On the fused path weights and sums below the normal numbers, 1.2e-38
 * in float32 and 2.2e-308 in float64, are 0 where a processor is slow with such (x86-64).
 * Errors: as above; LAB_ERR_UNSUPPORTED also for lse, probs and stats inside a checkpoint.
 * Source: Vaswani et al. 2017, eq. 1; the order of what is optional is in docs/attention-mathematics.md.
 */
LAB_API lab_tensor *lab_attention(lab_graph *g, lab_tensor *q, lab_tensor *k, lab_tensor *v,
                                  const lab_attention_opts *opts);

/**
 * Which path lab_attention would take.
 *
 * @param g, q, k, v, opts  as for lab_attention
 * @param why  receives a sentence, static; may be NULL
 * @return LAB_PATH_COMPOSED or LAB_PATH_FUSED; LAB_PATH_AUTO if the call would fail
 */
LAB_API lab_path lab_attention_path(lab_graph *g, lab_tensor *q, lab_tensor *k, lab_tensor *v,
                                    const lab_attention_opts *opts, const char **why);

/**
 * Attention on sequences of different lengths that lie behind one another, each on its own.
 *
 * Alignment, offsets and windows count within a sequence; dropout takes the sequence's number for the batch.
 *
 * @param g     the graph that records the operation and owns the result
 * @param q     [total_q, Hq, d]
 * @param k, v  [total_k, Hk, d], [total_k, Hk, dv]
 * @param cu_q  i64 [n + 1], from 0 to total_q, not decreasing: sequence s has the rows cu_q[s] ... cu_q[s + 1] - 1
 * @param cu_k  likewise for k and v
 * @param opts  as for lab_attention; offsets are [n], lse is [total_q, Hq]. mask, bias, probs and key_lengths are
 *              refused (LAB_ERR_UNSUPPORTED).
 * @return      [total_q, Hq, dv], owned by g; NULL if the graph has failed
 *
 * Derivative: lab_attention's, sequence by sequence. Errors: as above; LAB_ERR_RANGE also where cu_q or cu_k decreases,
 * or does not run from 0 to the total; LAB_ERR_SHAPE where they do not count the same sequences.
 */
LAB_API lab_tensor *lab_attention_packed(lab_graph *g, lab_tensor *q, lab_tensor *k, lab_tensor *v, lab_tensor *cu_q,
                                         lab_tensor *cu_k, const lab_attention_opts *opts);

/**
 * Which probabilities lab_attention keeps with these options: what dropout draws, made visible.
 *
 * The draw at (batch, head, query, key) is a function of opts' seed and stream, and of the query's position: the key of
 * Philox 4x32-10 is the first two words of Philox(key = seed, counter = (stream, 0, 0)), its counter the low 32 bits of
 * (batch, head, i + offset, floor(j / 4)), the word j mod 4; kept where its upper 24 bits times 2^-24 are at least
 * `dropout`, compared in double. (Those that are kept are multiplied by 1 / (1 - dropout).)
 *
 * @param g      the graph that owns the result
 * @param opts   dropout, seed, stream; causal, offset, offsets, key_lengths for positions (the latter two are [batch])
 * @param batch  the product of the batch dimensions; the number of sequences when packed
 * @param heads  Hq
 * @param tq     how many queries
 * @param tk     how many keys
 * @return bool [batch, heads, tq, tk], true: kept; owned by g; NULL if the graph has failed
 *
 * No derivative. Errors: as above, of the options it reads; LAB_ERR_RANGE for a negative size.
 * Source: Srivastava et al. 2014; Philox 4x32-10 (Salmon et al. 2011).
 */
LAB_API lab_tensor *lab_dropout_mask(lab_graph *g, const lab_attention_opts *opts, int64_t batch, int64_t heads,
                                     int64_t tq, int64_t tk);

/**
 * Keys and values of one layer, with room for `capacity` rows in each batch; empty at first.
 *
 * @param out       receives the cache, which is the caller's to destroy; NULL on failure
 * @param dtype     LAB_F32 or LAB_F64
 * @param batch     how many sequences grow side by side, each with a length of its own; at least 0
 * @param kv_heads  Hk, at least 1
 * @param capacity  rows, at least 0
 * @param d, dv     sizes of a key and of a value; at least 1 and 0
 * @return LAB_OK; LAB_ERR_ARGUMENT (out is NULL), LAB_ERR_DTYPE, LAB_ERR_RANGE (a size), LAB_ERR_MEMORY
 *
 * No derivative: a cache is for inference.
 */
LAB_API LAB_CHECKED lab_status lab_kv_cache_create(lab_kv_cache **out, lab_dtype dtype, int64_t batch, int64_t kv_heads,
                                                   int64_t capacity, int64_t d, int64_t dv);

/**
 * Copies rows of k and v behind those that the cache has.
 *
 * @param g       an inference graph; a failure is the graph's as well
 * @param cache   from lab_kv_cache_create
 * @param k       [..., Hk, t, d], any strides, the product of the leading sizes being the cache's batch
 * @param v       [..., Hk, t, dv]
 * @param counts  how many of the t rows each batch takes, from the first on; NULL: all of them
 * @return LAB_OK, or with nothing written: LAB_ERR_RANGE (a batch would be over its capacity; a count outside 0 ... t),
 *         LAB_ERR_SHAPE, LAB_ERR_DTYPE, LAB_ERR_ARGUMENT (NULL), LAB_ERR_STATE (a recording graph; another graph's
 *         tensor), or what the graph had failed with before
 *
 * No derivative. k and v stay the caller's.
 */
LAB_API lab_status lab_kv_cache_append(lab_graph *g, lab_kv_cache *cache, lab_tensor *k, lab_tensor *v,
                                       const int64_t *counts);

/** How many rows batch `batch` has; 0 for NULL or a batch that there is not. Owns nothing. */
LAB_API int64_t lab_kv_cache_length(const lab_kv_cache *cache, int64_t batch);

/** How many rows a batch has room for; 0 for NULL. */
LAB_API int64_t lab_kv_cache_capacity(const lab_kv_cache *cache);

/**
 * Forgets the rows of one batch from `length` on.
 *
 * @return LAB_OK; LAB_ERR_ARGUMENT (cache is NULL), LAB_ERR_RANGE (no such batch; length outside 0 ... its length)
 */
LAB_API LAB_CHECKED lab_status lab_kv_cache_truncate(lab_kv_cache *cache, int64_t batch, int64_t length);

/** Forgets all rows of all batches, and keeps the memory. Nothing happens for NULL. */
LAB_API void lab_kv_cache_reset(lab_kv_cache *cache);

/** Destroys a cache and nulls the pointer. Nothing happens for NULL. A graph that still reads it keeps what it reads.
 */
LAB_API void lab_kv_cache_destroy(lab_kv_cache **cache);

/**
 * Attention of q on the keys and values of a cache: lab_attention on the rows that there are.
 *
 * The lengths are the cache's, Tk is the longest. Unless opts say otherwise (a causal rule, an offset) the last query
 * sees the last key of its batch, the one before it all but that: LAB_CAUSAL_BOTTOM_RIGHT. On the fused path a row has
 * the same bits as in one pass over all of the sequence.
 *
 * @param g      an inference graph; owns the result
 * @param q      [..., Hq, Tq, d], the product of the leading sizes being the cache's batch; Hq a multiple of Hk
 * @param cache  what has been appended so far, this step's rows included
 * @param opts   as for lab_attention, NULL for the defaults; key_lengths is refused
 * @return [..., Hq, Tq, dv], owned by g; NULL if the graph has failed: LAB_ERR_STATE (a recording graph; another
 * graph's tensor), LAB_ERR_ARGUMENT (NULL, key_lengths), LAB_ERR_SHAPE, and what lab_attention fails with
 *
 * No derivative.
 */
LAB_API lab_tensor *lab_attention_cached(lab_graph *g, lab_tensor *q, lab_kv_cache *cache,
                                         const lab_attention_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
