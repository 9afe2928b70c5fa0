/* attention_fused.h - attention without the T x T array: what the files of the fused op share.
 *
 *     attention_fused.c            the op: operands, results, which path a call takes
 *     attention_fused_problem.c    a call as the kernels see it: sequences, panels of queries, limits
 *     attention_fused_scores.c     the scores of a panel: product, soft cap, bias, ALiBi, mask; dropout
 *     attention_fused_forward.c    one pass over the keys with a running maximum
 *     attention_fused_query.c      one query for each head; how a row ends
 *     attention_fused_slopes.c     probabilities again, and the derivative of the scores
 *     attention_fused_backward.c   the gradients: five products
 *     attention_fused_bias.c       the bias's gradient: a second sweep
 *     attention_fused_numbers.c    the gradients of float32's scale, slopes and sink: another, in float64
 *
 * Queries go in panels (kernels.h): a panel's scores lie key after key, `width` queries beside each other. Keys go in
 * tiles that start at multiples of a width which depends on d, dv, precision and kernel level only; so a row's bits do
 * not depend on the rows it is computed with.
 */
#ifndef LAB_NN_ATTENTION_FUSED_H
#define LAB_NN_ATTENTION_FUSED_H

#include "attention_impl.h"
#include "kernels/denormals.h"
#include "kernels/kernels.h"
#include "kernels/parallel.h"

/* The op's operands and results. All but the first three may be missing. */
enum {
    IN_Q,
    IN_K,
    IN_V,
    IN_BIAS,
    IN_SLOPES,
    IN_SINK,
    IN_SCALE,
    IN_MASK,
    IN_LENGTHS,
    IN_OFFSETS,
    IN_CU_Q,
    IN_CU_K,
    INS
};
enum { OUT_RESULT, OUT_LSE, OUT_MAXIMUM, OUT_INVERSE, OUTS };

typedef struct fused_attrs {
    lab_causal causal;
    lab_empty_row empty_row;
    bool rows;                   /* lse, maximum and the sum's inverse are wanted */
    bool row_by_row;             /* a row's gradient must not depend on those beside it */
    bool packed;                 /* q [total, heads, d]; sequences from the cumulative lengths */
    int workers;                 /* scratch is taken for so many */
    int64_t left, right, offset; /* of the window, -1: open */
    double scale, softcap, dropout;
    uint64_t seed, stream; /* of dropout's numbers */
    lab_attention_stats *stats;
} fused_attrs;

/* What all sequences and heads have in common. */
typedef struct fused_problem {
    const fused_attrs *attrs;
    lab_tensor *const *in;
    const kernel_table *kernels;
    kernel_panel_fns panel;
    kernel_tile_fn multiply;
    kernel_type type, stored; /* of the arithmetic; of operands in memory: the same, or narrower */
    size_t size;              /* of an element, of type `type` */
    int64_t batch, heads, kv_heads, group, d, dv;
    uint32_t key[2];     /* of dropout's numbers */
    int64_t tq, tk;      /* of one sequence; packed: of the longest */
    double scale;        /* scale_tensor's value, if there is one */
    int64_t width;       /* queries of a panel */
    int64_t key_tile;    /* keys of a tile, forward */
    int64_t query_block; /* queries that share a piece, whole panels */
    int64_t backward_tile, backward_block;
} fused_problem;

/* One sequence of one batch: where its heads begin, in elements, and which keys it has. */
typedef struct fused_sequence {
    int64_t index; /* in the batch, as dropout counts */
    int64_t tq, keys;
    int64_t offset;                                 /* of positions */
    int64_t q, k, v, out, rows, bias, mask;         /* first element; rows: of lse */
    int64_t q_row, k_row, v_row, out_row, row_step; /* from query to query, key to key; of lse */
    int64_t q_head, k_head, v_head, out_head, row_head;
} fused_sequence;

/* Queries first .. first + rows - 1 of one head. */
typedef struct fused_panel {
    const fused_sequence *sequence;
    int64_t head, first, rows;
    int64_t lowest, end; /* keys that one of them at least may see by position and length: lowest <= j < end */
} fused_panel;

/* The most queries of a panel, the panels of a block, the most keys of a tile; and the keys that a query's sum goes
 * over, and queries a key's, before it is added to those before it: many short sums lose less than a long one. */
enum { FUSED_MAX_WIDTH = 64, FUSED_PANELS = 8, FUSED_MOST_KEYS = 528, FUSED_SUMMED = 96 };

/* Memory for a panel's scores. */
typedef struct fused_scores {
    char *scores; /* [n][stride] */
    int64_t stride;
    char *extra;           /* [n][width], for a while */
    char *softened;        /* [n][width]: tanh(s / cap); NULL if not wanted */
    char *largest, *least; /* [width]: of plain scores without limits; NULL if not wanted */
    bool ranged;           /* they are there */
    const char *keys;      /* [n][d], where operands are stored narrower; then too */
    char *raw;             /* [n][stride]: products of keys and queries, which are not scaled there; else NULL */
    kernel_ahead *ahead;   /* asked for meanwhile; or NULL */
    char *sum;             /* [columns][width]: by_query's, of a panel whose halves see different keys */
    int32_t first[FUSED_MAX_WIDTH], stop[FUSED_MAX_WIDTH];
    kernel_limits limits;
    int64_t both_first, both_stop; /* keys that both halves of the panel need; those before only its first half does,
                                      those behind only its second */
} fused_scores;

/* ---- attention_fused_problem.c ----------------------------------------------------------------------------------------- */

fused_problem lab__fused_problem(const fused_attrs *attrs, lab_tensor *const *in);
fused_sequence lab__fused_sequence(const fused_problem *p, int64_t index);
fused_panel lab__fused_panel(const fused_problem *p, const fused_sequence *s, int64_t head, int64_t first, int64_t end);

/* Which keys a query may see by position and length alone: [*first, *stop), empty where *stop <= *first. */
void lab__fused_keys_of(const fused_problem *p, const fused_sequence *s, int64_t query, int64_t *first, int64_t *stop);

static inline char *lab__at(const lab_tensor *t, size_t size, int64_t element)
{
    return t->data + element * (int64_t)size;
}

static inline double lab__number_at(kernel_type type, const void *x, int64_t i)
{
    return type == KERNEL_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

static inline void lab__number_set(kernel_type type, void *x, int64_t i, double value)
{
    if (type == KERNEL_F32)
        ((float *)x)[i] = (float)value;
    else
        ((double *)x)[i] = value;
}

static inline size_t lab__fused_round(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* ---- attention_fused_scores.c ------------------------------------------------------------------------------------------ */

/* Scores of keys `key` .. key + n - 1 (key a multiple of 4) from the panel of scaled queries, with everything that
 * happens to them before the limits; and the limits. False if a mask forbids all of them: nothing is written then. */
bool lab__fused_scores(const fused_problem *p, const fused_panel *panel, int64_t key, int64_t n, const char *queries,
                       int64_t queries_stride, fused_scores *out);

/* y[j] = x_j . panel for keys first .. stop - 1 of the piece, x and y from its first one on; and y += sum_j x_j
 * weights[j] of its n keys, of which the first is the tile's key `key`, a panel of stride `width`: without the half of
 * the panel that sees no such key, where y[j] stays what it was, and weights[j], 0 there, are not read. */
void lab__fused_by_key(const fused_problem *p, const fused_scores *s, int64_t first, int64_t stop, int64_t columns,
                       const char *x, int64_t x_row, const char *panel, int64_t panel_stride, char *y);
void lab__fused_by_query(const fused_problem *p, const fused_scores *s, int64_t key, int64_t n, int64_t columns,
                         const char *x, int64_t x_row, const char *weights, char *y);

/* The same over allowed pairs only, added, for numbers that are not finite. */
void lab__fused_add_allowed(const fused_problem *p, int64_t key, int64_t n, int64_t columns, const char *x,
                            int64_t x_row, const uint8_t *allowed, int64_t allowed_stride, const char *weights,
                            int64_t stride, char *y);

/* Where the sum ends that key j of a piece of n belongs to, when the piece begins with the tile's key `key`; and that
 * query j of a block of n belongs to, with key = 0. */
int64_t lab__fused_sum_end(int64_t key, int64_t j, int64_t n);

/* Whether every query of the panel may see every one of the keys `key` .. key + n - 1, whatever their scores. */
bool lab__fused_all_meet(const fused_problem *p, const fused_panel *panel, int64_t key, int64_t n);

/* Dropout's factors, 0 or 1 / (1 - p), [n][width]. */
void lab__fused_dropout(const fused_problem *p, const fused_panel *panel, int64_t key, int64_t n, char *factors);

/* Numbers of float32 as float64, from rows and columns of any strides to others. */
void lab__fused_widen(int64_t rows, int64_t columns, double *to, int64_t to_row, int64_t to_column, const char *from,
                      int64_t row, int64_t column);

/* y = y op x in each row of n x width numbers. */
void lab__fused_rows(const fused_problem *p, kernel_binary op, int64_t n, char *y, int64_t stride, const char *x);

/* ---- attention_fused_query.c ------------------------------------------------------------------------------------------- */

/* Whether the call is one query for each head, with options that need no panel; and that call. */
bool lab__fused_is_one_query(const fused_problem *p);
size_t lab__fused_one_query_scratch(const fused_problem *p);
void lab__fused_one_query(const fused_problem *p, lab_tensor *const *out, char *scratch);

/* The sink joins a row's maximum and sum; gives what the output is to be multiplied with. */
double lab__fused_join_sink(const fused_problem *p, int64_t head, double *maximum, double *sum);

/* Writes a row's lse, and for backward its maximum, -inf where it has no keys whatever the sink, and its
 * sum's inverse. */
void lab__fused_save_row(const fused_problem *p, lab_tensor *const *out, const fused_sequence *s, int64_t head,
                         int64_t query, double saved, double maximum, double sum);

/* What a row without keys gives where others' answers are asked for: NaN, or the mean of v over all keys. */
void lab__fused_fill_empty(const fused_problem *p, const fused_sequence *s, int64_t head, char *row);

/* ---- attention_fused_slopes.c ------------------------------------------------------------------------------------------ */

/* A number in twice the precision of a double: high + low, |low| at most half a unit of high's last place. */
typedef struct fused_number {
    double high, low;
} fused_number;

/* The backward's block: queries of one head, and what their gradients need of them. Rows beside one another in tiles of
 * `stride` = panels * width columns. */
typedef struct fused_block {
    const fused_problem *p;
    lab_tensor *const *out, *const *grad_out;
    fused_sequence sequence;
    int64_t head, first, rows, stride;
    int64_t keys; /* of a tile */
    int count;    /* panels */
    fused_panel panels[FUSED_PANELS];
    char *queries;         /* [rows][d], scaled */
    const char *gradients; /* [rows][dv]: as they come in, or in this memory */
    char *gradients_apart;
    char *queries_turned, *gradients_turned; /* [d][stride], [dv][stride] */
    char *maxima, *inverses, *deltas;        /* [stride] */
    char *rests;                             /* [stride]: what rounding left of the deltas */
    bool exact[FUSED_PANELS];                /* whether a panel's are subtracted too */
    char *probabilities, *slopes;            /* a tile, [keys][stride] */
    char *extra, *softened, *factors;        /* [keys][width] */
    uint8_t *allowed;                        /* [keys][stride]; wanted where not all is finite */
    bool finite;                             /* queries and gradients */
    bool before_cap;                         /* slopes: of the scores after the soft cap, as bias and ALiBi want them */
    const fused_number *sums;                /* of all rows: what stands for dO . O, see lab__fused_row_sums; or NULL */
    bool without_deltas;                     /* they count as 0 */
    fused_scores scores;
} fused_block;

/* Takes a block's memory from *at on, for tiles of `keys` keys. */
void lab__fused_block_memory(fused_block *b, const fused_problem *p, int64_t keys, char **at);

/* Reads queries first .. first + rows - 1 of a head. */
void lab__fused_block_begin(fused_block *b, int64_t head, int64_t first, int64_t rows);

/* A query's place among rows; where the gradient of its result is, element after element `*column` apart; and that of
 * its lse, 0 if there is none. */
int64_t lab__fused_row_of(const fused_block *b, int64_t query);
const char *lab__fused_gradient_at(const fused_block *b, int64_t query, int64_t *column);
double lab__fused_lse_gradient(const fused_block *b, int64_t query);

/* Probabilities (after dropout) and dS of a panel and the keys `key` .. key + n - 1, into rows `row` .. of the tile;
 * and `allowed`, if it is wanted. False if a mask forbids all of them. */
bool lab__fused_slopes(fused_block *b, int panel, int64_t key, int64_t n, int64_t row, bool wants_allowed);

/* The sums over a row of dO and O less the gradient of lse: delta. */
fused_number lab__fused_delta(const fused_block *b, int64_t query);

/* The probability of a head's sink in a row of this maximum and sum's inverse, 0 without one; in row i of the block. */
double lab__fused_sink_share(const fused_problem *p, int64_t head, double maximum, double inverse);
double lab__fused_sink_weight(const fused_block *b, int64_t i);

/* The sum of ds over the keys of row i of the block, which has sums. */
double lab__fused_row_of_slopes(const fused_block *b, int64_t i);

/* sum_j p_ij dp_ij of a block's queries, which is dO_i . O_i but for rounding, into `sums` in the order of rows. Sums
 * of ds over keys cancel as far as this agrees with the dp_ij that they are made of. Goes over all keys; the block
 * begins without deltas. */
void lab__fused_row_sums(fused_block *b, fused_number *sums);

/* ---- attention_fused_numbers.c ----------------------------------------------------------------------------------------- */

/* What a piece of work has of gradients that are sums over all pairs of a head. */
typedef struct head_sums {
    double slope, sink, scale;
} head_sums;

/* Those of float32, [batch][heads][blocks]: a worker's memory and the blocks of a head; and all of them. */
size_t lab__fused_numbers_memory(const lab_vjp_call *call, const fused_problem *p, int64_t *blocks);
void lab__fused_numbers(const lab_vjp_call *call, const fused_problem *p, head_sums *sums, char *memory,
                        size_t memory_each);

/* ---- attention_fused_forward.c, attention_fused_backward.c, attention_fused_bias.c --------------------------------------- */

size_t lab__fused_forward_scratch(const lab_op_call *call);
lab_status lab__fused_forward(lab_op_call *call);
size_t lab__fused_backward_scratch(const lab_vjp_call *call);
lab_status lab__fused_backward(lab_vjp_call *call);
size_t lab__fused_bias_scratch(const lab_vjp_call *call, const fused_problem *p);
void lab__fused_bias_backward(const lab_vjp_call *call, const fused_problem *p, const fused_number *row_sums,
                              char *scratch);

/* The next `bytes` of a worker's memory. Counting goes on numbers, for sizes are found out by starting from NULL. */
static inline char *lab__take(char **at, size_t bytes)
{
    char *memory = *at;
    *at = (char *)((uintptr_t)memory + lab__fused_round(bytes));
    return memory;
}

/* ---- attention_fused.c ---------------------------------------------------------------------------------------------------- */

/* Which path this call takes, and why; LAB_PATH_FUSED where it must and can. */
lab_path lab__attention_choose(const attention *a, const char **why);

/* The fused op. Sets *lse where asked for. cu_q and cu_k are NULL unless packed. */
lab_tensor *lab__attend_fused(lab_graph *g, const attention *a, lab_tensor *q, lab_tensor *k, lab_tensor *v,
                              lab_tensor *cu_q, lab_tensor *cu_k);

#endif
