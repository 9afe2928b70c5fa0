/* SPDX-License-Identifier: MIT
 * llmlab/check.h - is this derivative right?
 */
#ifndef LLMLAB_CHECK_H
#define LLMLAB_CHECK_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How lab_gradcheck works. Zero means the default; `reserved` must be zero. */
typedef struct lab_gradcheck_opts {
    double step;         /* of the central differences, relative to max(1, |x|); 0: chosen by dtype */
    double tolerance;    /* relative to the largest entry of the gradient; 0: 1e-7 in f64, 1e-2 in f32 */
    bool second_order;   /* check the derivative of the derivative (create_graph) instead */
    uint64_t seed;       /* of the random weights that make a scalar of f's result */
    int64_t max_entries; /* per tensor, spread evenly; 0: all of them */
    uint64_t reserved[8];
} lab_gradcheck_opts;

/** What lab_gradcheck found; the entry is the worst one. */
typedef struct lab_gradcheck_report {
    bool passed;
    double worst_error;       /* |analytic - numeric| / largest entry of that tensor's numeric gradient */
    int input;                /* which of the xs */
    int64_t element;          /* its row-major place */
    double analytic, numeric; /* the two values there */
    double step;              /* the step used there */
    double numeric_error;     /* estimated error of the numeric value (by halving the step) */
    int64_t entries;          /* how many were checked */
} lab_gradcheck_report;

/**
 * Compares the derivative of sum(w * f(xs)), w random, with central differences, entry by entry.
 *
 * Each difference is taken at two steps and extrapolated (Richardson), which also estimates its error. Gradients
 * smaller than what rounding does to the differences count as zero.
 *
 * @param f       called on graphs of lab_gradcheck's own; pure
 * @param xs      n leaves; floating-point ones are varied (and put back), the others only passed on
 * @param opts    NULL for the defaults
 * @param report  may be NULL
 * @return LAB_OK if it could be checked, whatever came out (report->passed says); f's failure; LAB_ERR_ARGUMENT
 */
LAB_API LAB_CHECKED lab_status lab_gradcheck(lab_fn f, void *ctx, int n, lab_tensor **xs,
                                             const lab_gradcheck_opts *opts, lab_gradcheck_report *report);

#ifdef __cplusplus
}
#endif
#endif
