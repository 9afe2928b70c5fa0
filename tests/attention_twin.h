/* attention_twin.h - one call of attention on two paths, with every result and every gradient, to hold them together.
 *
 * Sizes are drawn around the edges of what the fused path works on: panels of queries, blocks of panels, tiles of keys.
 * q, k and v are views of leaves, and the result's gradient comes in through a view as well.
 */
#ifndef TESTS_ATTENTION_TWIN_H
#define TESTS_ATTENTION_TWIN_H

#include "attention_case.h"

/* How an operand is seen: as it lies in memory, or through a view of it. */
typedef enum operand_view {
    OPERAND_PLAIN,
    OPERAND_STRIDED,  /* the leaf itself: columns far apart, gaps between them */
    OPERAND_TURNED,   /* the last two axes exchanged */
    OPERAND_BY_TIME,  /* heads beside each other in each row: [..., T, H, d] */
    OPERAND_REPEATED, /* one head of one batch again and again: stride 0 */
    OPERAND_CUT,      /* every second row of a longer one, from the second on */
    OPERAND_VIEWS
} operand_view;

/* What becomes of the result before its gradient is asked for. */
typedef enum result_view { RESULT_PLAIN, RESULT_TURNED, RESULT_SUMMED, RESULT_CUT, RESULT_VIEWS } result_view;

enum { TWIN_LEAVES = 7, TWIN_RESULTS = 2 + TWIN_LEAVES, TWIN_MOST_HEADS = 16 };
/* Results that are a few numbers each, by their place among them. */
enum { D_SCALE = 5, D_BIAS, D_SINK, D_SLOPES };

extern const char *const twin_names[TWIN_RESULTS]; /* out, lse, then gradients */

typedef struct twin_case {
    attention_case c; /* c.q, c.k, c.v are the leaves below the views */
    operand_view views[3];
    result_view result;
    bool recorded;                     /* gradients are asked for with create_graph: the fused op's are its twin's */
    bool batch_invariant;              /* products are the library's own on both paths */
    bool no_stats;                     /* as one query alone, which goes a way of its own, must have it */
    bool out_wanted, lse_wanted;       /* the loss is of the result, of lse, or of both */
    lab_tensor *weights, *lse_weights; /* of the loss */
    lab_tensor *cu_q, *cu_k;           /* packed: batch_rank is 0, tq and tk are totals; else NULL */
} twin_case;

typedef struct twin_run {
    lab_graph *g;
    lab_tensor *results[TWIN_RESULTS]; /* NULL where there is none */
    double largest_gradient;           /* the largest finite entry of all gradients */
    lab_attention_stats stats[TWIN_MOST_HEADS];
} twin_run;

void twin_draw(twin_case *t, uint64_t *state);
void twin_draw_packed(twin_case *t, uint64_t *state);
/* Leaves of q, k and v under their views, and the weights; sizes, options and views are given. */
void twin_make(twin_case *t, uint64_t *state);
void twin_free(twin_case *t);

/* The same case in the other precision. */
void twin_other_precision(twin_case *t, const twin_case *of);

/* What lab_attention is given for q, k or v. */
lab_tensor *twin_operand(lab_graph *g, const twin_case *t, int which);

twin_run twin_attend(const twin_case *t, lab_path path, bool with_gradients);
void twin_end(twin_run *r);

/* The case in words: for a failure. */
const char *twin_text(const twin_case *t);

/* The largest finite entry, 0 if there is none. */
double twin_largest(const lab_tensor *t);

/* The largest |got - want|; infinity where NaN or infinities do not match. */
double twin_difference(const lab_tensor *got, const lab_tensor *want, int64_t *where);

/* What a difference in result `i` is measured by: its largest entry in `want`; the largest of all gradients where that
 * gradient is nothing but rounding, as for a row with a single key. Gradients of scale, sink and slopes, and of a bias
 * that is stretched, are sums over many rows and keys, which cancel; a slope's has distances in it. They are measured
 * by no less than a small share of what they are sums of. */
double twin_measure(const twin_case *t, const twin_run *want, int i);

#endif
