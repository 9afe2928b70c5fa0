/* loss_impl.h - what the forms of cross-entropy share: options and targets, checked and counted. */
#ifndef LAB_NN_LOSS_IMPL_H
#define LAB_NN_LOSS_IMPL_H

#include "fused.h"
#include "llmlab/layers.h"

/* A call's options, and what its targets say. */
typedef struct loss {
    double smoothing;
    lab_reduction reduction;
    lab_path path;
    bool ignores;
    int64_t ignore_index;
    int64_t rows, counted, classes;
} loss;

/* Reads the options (NULL: the defaults). */
lab_status lab__loss_options(loss *l, const lab_cross_entropy_opts *opts);
/* Counts the rows that count; the first target that is no class is an error. */
lab_status lab__loss_targets(loss *l, const lab_tensor *targets, int64_t classes);
/* Options to call the twin with. */
lab_cross_entropy_opts lab__loss_twin(const loss *l);

/* The losses' shape: the targets', or rank 0. */
void lab__loss_shape(const loss *l, lab_spec *spec, lab_dtype dtype, const lab_tensor *targets);
/* Losses by row, 0 where ignored, as the result has them. */
void lab__loss_put(const loss *l, lab_tensor *out, const double *by_row);
/* The derivative of the result by the loss of one row, which counts. */
double lab__loss_factor(const loss *l, const lab_tensor *dy, int64_t row);

static inline bool lab__loss_counts(const loss *l, int64_t target)
{
    return !(l->ignores && target == l->ignore_index);
}

/* lab_cross_entropy as one op; the arguments have been checked. */
lab_tensor *lab__cross_entropy_fused(lab_graph *g, const loss *l, lab_tensor *logits, lab_tensor *targets);

#endif
