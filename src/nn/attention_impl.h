/* attention_impl.h - one call of attention, checked, and the parts that make up its definition.
 *
 *     attention_options.c   is the call well formed?
 *     mask.c                who may look where
 *     bias.c                what happens to the scores before that: soft cap, bias, ALiBi
 *     dropout.c             what happens to the probabilities
 *     empty_rows.c          what a query without allowed keys gives
 *     attention.c           the definition itself
 *     attention_stats.c     how sharply heads look
 */
#ifndef LAB_NN_ATTENTION_IMPL_H
#define LAB_NN_ATTENTION_IMPL_H

#include "llmlab/attention.h"
#include "nn_impl.h"

typedef struct attention {
    const lab_attention_opts *opts; /* never NULL */
    lab_dtype dtype;
    int rank;                    /* of q, k, v, out and the scores */
    int64_t shape[LAB_MAX_RANK]; /* of the scores: [..., Hq, Tq, Tk] */
    int64_t batch;               /* the leading sizes' product */
    int64_t heads, kv_heads;     /* Hq, Hk */
    int64_t tq, tk, d, dv;
    double scale;           /* the one that applies, unless scale_tensor does */
    int64_t first_batch;    /* what dropout counts batches from: the sequence's number when packed */
    bool rows_may_be_empty; /* false only if every row surely has an allowed key */
} attention;

/* Reads a call. Anything wrong: a status, and a sentence for lab_last_message. */
lab_status lab__attention_read(const lab_graph *g, attention *a, const lab_tensor *q, const lab_tensor *k,
                               const lab_tensor *v, const lab_attention_opts *opts);

/* Likewise the options that lab_dropout_mask reads; everything else of `a` is filled in. */
lab_status lab__attention_read_dropout(const lab_graph *g, const attention *a);

/* Whether positions from an offset are whole numbers of 64 bits, offsets[index] being named if not. */
lab_status lab__attention_offset_fits(int64_t offset, int64_t tq, int64_t tk, int64_t index);

/* The definition. Sets *lse and *probs where asked for; adds to stats, which lab__stats_finish divides.
 * (lab_attention is lab__attention_read, this, and the stats' end.) */
lab_tensor *lab__attend(lab_graph *g, lab_tensor *q, lab_tensor *k, lab_tensor *v, const attention *a);

/* The offset of positions, i64: a number, or [..., 1, 1, 1]. pos_i = i + offset: [Tq, 1] or [..., 1, Tq, 1]. */
lab_tensor *lab__attention_offset(lab_graph *g, const attention *a);
lab_tensor *lab__attention_positions(lab_graph *g, const attention *a);

/* Scores where a query may look, -inf where it may not. */
lab_tensor *lab__attention_mask(lab_graph *g, const attention *a, lab_tensor *scores);

/* Soft cap, bias, ALiBi. */
lab_tensor *lab__attention_bias(lab_graph *g, const attention *a, lab_tensor *scores);

/* Philox's key for the dropout of one call. */
void lab__dropout_key(uint64_t seed, uint64_t stream, uint32_t key[2]);

/* Probabilities kept and scaled, or dropped. */
lab_tensor *lab__attention_dropout(lab_graph *g, const attention *a, lab_tensor *weights);

/* Rows without keys: whether there may be any; which rows have one, from masked scores ([..., Hq, Tq, 1], or NULL:
 * all of them); and what the others give, in the weights and in the output. */
bool lab__rows_may_be_empty(const attention *a, const lab_tensor *q, const lab_tensor *k);
lab_tensor *lab__rows_with_keys(lab_graph *g, const attention *a, lab_tensor *scores);
lab_tensor *lab__empty_row_weights(lab_graph *g, const attention *a, lab_tensor *with_keys, lab_tensor *weights);
lab_tensor *lab__empty_row_output(lab_graph *g, const attention *a, lab_tensor *with_keys, lab_tensor *out);

/* Statistics of one row, score by score (-inf: a forbidden key), which go to its head at the end. */
typedef struct stats_row {
    double largest, u, u2, a;
} stats_row;

void lab__stats_row_begin(stats_row *row);
void lab__stats_row_add(stats_row *row, double score);
void lab__stats_row_end(lab_attention_stats *stats, const stats_row *row);

/* Statistics of masked scores [..., Hq, Tq, Tk]: sums first, divided at the end. */
void lab__stats_add(const attention *a, const lab_tensor *scores);
void lab__stats_finish(int64_t heads, lab_attention_stats *stats);

#endif
