/* SPDX-License-Identifier: MIT
 * llmlab/optim.h - steps along gradients. They are visitors: hand one to a layer's visit function.
 *
 *     lab_backward(g, loss);
 *     status = lab_block_visit(&block, "block", lab_sgd_step, &(lab_sgd){.rate = 0.1});
 *     status = lab_block_visit(&block, "block", lab_clear_grads, NULL);
 */

/** @file
 * Optimisers. All are of the type lab_visit_fn: `name` is for messages and may be NULL, `*parameter` stays the layer's,
 * nothing is handed out. A status other than LAB_OK ends the visit, which returns it; parameters visited before keep
 * their step. lab_last_message() has the sentence.
 */
#ifndef LLMLAB_OPTIM_H
#define LLMLAB_OPTIM_H

#include "layers.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Gradient descent. `reserved` must be zero; a rate of 0 is a rate of 0. */
typedef struct lab_sgd {
    double rate;
    uint64_t reserved[8];
} lab_sgd;

/**
 * p = p - rate * gradient, in place, for p of any shape; a parameter without a gradient stays as it is. Moves the
 * version. Allocates nothing.
 *
 * @param name       for messages; may be NULL
 * @param parameter  where the leaf is
 * @param ctx        a lab_sgd
 * @return LAB_OK, LAB_ERR_ARGUMENT (a NULL pointer, or reserved words), LAB_ERR_RANGE (a rate that is not finite)
 */
LAB_API LAB_CHECKED lab_status lab_sgd_step(const char *name, lab_tensor **parameter, void *ctx);

/** Marks gradients absent, as lab_tensor_clear_grad does; ctx is not used. LAB_ERR_ARGUMENT where the parameter is
 * NULL. */
LAB_API LAB_CHECKED lab_status lab_clear_grads(const char *name, lab_tensor **parameter, void *ctx);

/** Adds the parameter's number of elements to *(int64_t *)ctx. LAB_ERR_ARGUMENT where either is NULL. */
LAB_API LAB_CHECKED lab_status lab_count_parameters(const char *name, lab_tensor **parameter, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
