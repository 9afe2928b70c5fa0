/* scale_study_probe.h - what is measured of one head at one moment, in float64: its scores, and how a step changes
 * them.
 */
#ifndef LAB_SCALE_STUDY_PROBE_H
#define LAB_SCALE_STUDY_PROBE_H

#include "scale_study.h"

/* A batch of float32 tokens in float64. */
study_batch probe_batch(lab_graph *g, study_tokens *tokens, int64_t step);

/* A head's weights in float64, owned by g; it has no gains. */
study_head probe_widen(lab_graph *g, const study_head *head);

/* scale (Wk^T Wq x) . t of every query x with its tokens t: [STUDY_BATCH, STUDY_TOKENS]. Attention makes the same
 * scores, but hands out no more than their softmax. Not for laws that are more than a scale. */
lab_tensor *probe_scores(lab_graph *g, const study_head *head, const study_batch *batch);
enum { PROBE_SCORES = STUDY_BATCH * STUDY_TOKENS };
bool probe_read(const lab_tensor *scores, double to[PROBE_SCORES]);

/* Root mean square of [rows][STUDY_TOKENS] scores less their row's mean: what softmax sees of them. */
double probe_deviation(int64_t rows, const double *scores);

/* The mean over a batch's queries of the copy's score less the mean of the others. */
double probe_gap(const double scores[PROBE_SCORES], const study_batch *batch);

/* "Fresh" is the next step's batch, which the step has not seen; "rest" are the scores that are not the copy's. Moves
 * are per unit of learning rate. */
typedef enum probe_number {
    PROBE_SCORE_STD,       /* probe_deviation, fresh */
    PROBE_OWN_GAP,         /* probe_gap, fresh */
    PROBE_P_MAX,           /* largest weight, mean over queries */
    PROBE_ERROR,           /* sum over keys of (weight - target)^2, mean over queries */
    PROBE_LOSS,            /* of the step's batch */
    PROBE_GRAD_NORM,       /* over Wq and Wk */
    PROBE_MOVE_OWN,        /* mean move of the copy's score, fresh */
    PROBE_MOVE_OWN_FIRST,  /* the same by the first-order prediction */
    PROBE_MOVE_REST,       /* root mean square of the others' moves, fresh */
    PROBE_MOVE_REST_FIRST, /* the same by the first-order prediction */
    PROBE_MOVE_SEEN,       /* root mean square of all moves on the step's own batch */
    PROBE_SHARPNESS,       /* largest eigenvalue of the Hessian of the step's loss over (Wq, Wk) */
    PROBE_NUMBERS
} probe_number;

/* What a step of this rate on batch `step` does to the head, which stays as it is. False after study_fail. */
bool probe_head(lab_graph *g, const study_head *head, study_tokens *tokens, int64_t step, double rate,
                double numbers[PROBE_NUMBERS]);

/* Singular values of scale Wq^T Wk, the form that makes a score of two tokens. */
enum { SPECTRUM_POINTS = 11 };
typedef enum spectrum_number {
    SPECTRUM_EFFECTIVE_RANK, /* (sum of squares)^2 / sum of fourth powers */
    SPECTRUM_IDENTITY,       /* cosine between the form and the identity, which is what the task asks for */
    SPECTRUM_QUANTILES,      /* singular values at 0, 10, ... 100 % */
    SPECTRUM_NUMBERS = SPECTRUM_QUANTILES + SPECTRUM_POINTS
} spectrum_number;

bool probe_spectrum(const study_head *head, double numbers[SPECTRUM_NUMBERS]);

#endif
