/* attention_case.h - one problem of attention with its leaves, run through the library and through the reference. */
#ifndef TESTS_ATTENTION_CASE_H
#define TESTS_ATTENTION_CASE_H

#include "nn_check.h"
#include "reference_attention.h"

typedef struct attention_case {
    lab_dtype dtype;
    int batch_rank;
    int64_t batch[4];
    int64_t heads, kv_heads, tq, tk, d, dv;
    double magnitude; /* of q and k; 0: 1 */
    lab_tensor *q, *k, *v;
    lab_attention_opts opts; /* its tensors are leaves of the case too */
} attention_case;

/* Draws q, k and v; sizes and options are given. */
void case_make(attention_case *c, uint64_t *state);
void case_free(attention_case *c);

/* Leaves for the options, of the shapes that go with the case. */
int case_batch_shape(const attention_case *c, int64_t *shape); /* [...] */
void case_full_shape(const attention_case *c, int64_t *shape); /* [..., Hq, Tq, Tk] */
lab_tensor *case_bias(const attention_case *c, uint64_t *state, unsigned broadcast,
                      double scale); /* bit i: axis of size 1 */
lab_tensor *case_mask(const attention_case *c, uint64_t *state, unsigned broadcast, double share);
lab_tensor *case_per_head(const attention_case *c, uint64_t *state, double scale);
lab_tensor *case_per_batch(const attention_case *c, uint64_t *state, int64_t low, int64_t high);

/* Sizes and options at random; small enough for central differences when `small`. */
void case_draw(attention_case *c, uint64_t *state, bool small);
/* Of the options: slopes, sink, soft cap and dropout, two bits of `choices` each; and dropout's seed. */
void case_draw_of_heads(attention_case *c, uint64_t *state, uint64_t choices, double slopes);

lab_tensor *case_run(lab_graph *g, attention_case *c);

/* out, lse, probs and stats are the reference's, to a tolerance relative to the largest entry. */
void case_matches_reference(const char *what, attention_case *c, double tolerance);

/* Gradients of out (and lse) with respect to every float tensor of the case. */
void case_has_right_gradients(const char *what, attention_case *c, bool with_lse, const lab_gradcheck_opts *opts);

/* The same case in the other precision. */
void case_other_precision(attention_case *c, const attention_case *of);

#endif
