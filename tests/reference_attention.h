/* reference_attention.h - the whole contract of attention as plain loops in long double, to compare with.
 *
 * Written from docs, not from the library: it shares no code with src/, Philox included. It takes what lab_attention
 * takes (options that make sense; it checks nothing) and looks at tensors through public getters, any strides.
 */
#ifndef TESTS_REFERENCE_ATTENTION_H
#define TESTS_REFERENCE_ATTENTION_H

#include <llmlab.h>

/* Everything row-major; freed by reference_free. */
typedef struct reference {
    int64_t batch, heads, tq, tk, dv;
    double *out;                /* [batch, heads, tq, dv] */
    double *lse;                /* [batch, heads, tq] */
    double *probs;              /* [batch, heads, tq, tk], before dropout */
    bool *empty;                /* [batch, heads, tq] */
    lab_attention_stats *stats; /* [heads] */
} reference;

/* first_batch is what dropout calls batch 0 (the number of a packed sequence). False if out of memory. */
bool reference_attention(reference *r, const lab_tensor *q, const lab_tensor *k, const lab_tensor *v,
                         const lab_attention_opts *opts, int64_t first_batch);
void reference_free(reference *r);

/* Element of t at an index of `rank` axes, to which t broadcasts; any dtype. */
double reference_element(const lab_tensor *t, int rank, const int64_t *index);

/* Whether dropout keeps a probability. */
bool reference_keeps(const lab_attention_opts *opts, int64_t batch, int64_t head, int64_t position, int64_t key);

#endif
