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
    double step;         /**< of the central differences, relative to max(1, |x|); 0: chosen by dtype */
    double tolerance;    /**< relative to the largest entry of the gradient; 0: 1e-7 in f64, 1e-2 in f32 */
    bool second_order;   /**< check the derivative of the derivative (create_graph) instead */
    uint64_t seed;       /**< of the random weights that make a scalar of f's result */
    int64_t max_entries; /**< per tensor, spread evenly; 0: all of them */
    uint64_t reserved[8];
} lab_gradcheck_opts;

/** What lab_gradcheck found; the entry is the worst one. */
typedef struct lab_gradcheck_report {
    bool passed;
    double worst_error;       /**< |analytic - numeric| / largest entry of that tensor's numeric gradient */
    int input;                /**< which of the xs */
    int64_t element;          /**< its row-major place */
    double analytic, numeric; /**< the two values there */
    double step;              /**< the step used there */
    double numeric_error;     /**< estimated error of the numeric value (by halving the step) */
    int64_t entries;          /**< how many were checked */
} lab_gradcheck_report;

/**
 * Compares the derivative of sum(w * f(xs)), w random, with central differences, entry by entry.
 *
 * Each difference is taken at two steps and extrapolated (Richardson), which also estimates its error. Gradients
 * smaller than what rounding does to the differences count as zero.
 *
 * With D(h) = (s(x + h) - s(x - h)) / 2h, the numeric value is (4 D(h/2) - D(h)) / 3, and |D(h/2) - D(h)| / 3 the
 * estimate of its error. Source: Richardson 1911.
 *
 * @param f       called on a graph of lab_gradcheck's own, four times for each entry; pure
 * @param ctx     passed to f
 * @param n       how many xs
 * @param xs      leaves; floating-point ones are varied (and put back, on failure too), the others only passed on
 * @param opts    NULL for the defaults
 * @param report  the caller's, may be NULL; all zero on failure
 * @return LAB_OK if it could be checked, whatever came out (report->passed says); f's failure; LAB_ERR_ARGUMENT (f, xs
 *         or an x is NULL, n is negative, reserved words, f gave NULL), LAB_ERR_RANGE (a negative number in opts),
 *         LAB_ERR_STATE (an x that is no leaf, or whose strides overlap; f's result changes its size),
 *         LAB_ERR_DTYPE (f's result is not floating-point), LAB_ERR_UNSUPPORTED (second_order through an op without
 *         recorded derivative), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_gradcheck(lab_fn f, void *ctx, int n, lab_tensor **xs,
                                             const lab_gradcheck_opts *opts, lab_gradcheck_report *report);

#ifdef __cplusplus
}
#endif
#endif
