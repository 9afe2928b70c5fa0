/* SPDX-License-Identifier: MIT
 * llmlab/optim.h - steps along gradients. They are visitors: hand one to a layer's visit function.
 *
 *     lab_optimizer *opt;
 *     status = lab_optimizer_create(&opt, &(lab_optimizer_config){.rule = LAB_ADAMW, .rate = 1e-3, .decay = 0.1});
 *     ...                                                          each step:
 *     lab_backward(g, loss);
 *     status = lab_block_visit(&block, "block", lab_optimizer_step, opt);
 *     status = lab_block_visit(&block, "block", lab_clear_grads, NULL);
 *     ...
 *     lab_optimizer_destroy(&opt);
 *
 * Clipping and a schedule, before the step (the factor goes into the step's one pass over memory):
 *
 *     lab_grad_norm norm = {0};
 *     status = lab_block_visit(&block, "block", lab_grad_norm_add, &norm);
 *     status = lab_optimizer_set_scale(opt, lab_clip_factor(lab_grad_norm_value(&norm), 1.0));
 *     status = lab_optimizer_set_rate(opt, lab_schedule_rate(&schedule, step));
 *
 * Gradient accumulation needs no function: lab_backward adds. After n calls of it, with the mean wanted and not the
 * sum, the norm is lab_grad_norm_value(&norm) / n and the scale lab_clip_factor(norm, 1.0) / n.
 */

/** @file
 * Optimisers. The visitors are of the type lab_visit_fn: `name` is the parameter's, `*parameter` stays the layer's,
 * nothing is handed out. A status other than LAB_OK ends the visit, which returns it; parameters visited before keep
 * their step. lab_last_message() has the sentence.
 *
 * Parameters are f32 or f64, of any shape and strides; a parameter without a gradient is left as it is, its state too.
 * The arithmetic is of the parameter's type, factors (a rate over a bias correction, ...) are worked out in double. The
 * bits do not depend on the number of threads or on strides. A moment m whose gradient is 0 becomes 0 when it falls
 * below the type's normal numbers, but not where a rule goes by its sign.
 */
#ifndef LLMLAB_OPTIM_H
#define LLMLAB_OPTIM_H

#include "layers.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @name Optimisers with a state
 *
 * A lab_optimizer is used by one thread at a time. From the second step of a loop on it calls no malloc.
 * @{
 */

/**
 * How a step goes from the gradient g and the state to the parameter p. State starts at 0; all products are
 * elementwise; sign(0) = 0. In brackets, the state by name.
 */
typedef enum lab_rule {
    /**
     * g += decay p; m = momentum m + g; p -= rate m, or with nesterov p -= rate (g + momentum m). Without momentum
     * there is no state, p -= rate g. [momentum_buffer] As torch.optim.SGD with dampening 0.
     */
    LAB_SGD = 0,
    /**
     * m = momentum m + (1 - momentum) g; p = (1 - rate decay) p - rate sign(m). [momentum_buffer] Without momentum
     * m is g and not kept. Bernstein et al. 2018 (signSGD, Signum).
     */
    LAB_SIGN_SGD,
    /**
     * g += decay p; v = beta2 v + (1 - beta2) g^2; u = g / (sqrt(v) + eps); p -= rate u, or with momentum
     * m = momentum m + u; p -= rate m. [square_avg, momentum_buffer] As torch.optim.RMSprop; Hinton 2012.
     */
    LAB_RMSPROP,
    /**
     * g += decay p; t += 1; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
     * p -= rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps). [exp_avg, exp_avg_sq, step] As torch.optim.Adam;
     * Kingma and Ba 2015.
     */
    LAB_ADAM,
    /** As LAB_ADAM, with p = (1 - rate decay) p first in place of g += decay p. Loshchilov and Hutter 2019. */
    LAB_ADAMW,
    /**
     * p = (1 - rate decay) p - rate sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g. [exp_avg]
     * Chen et al. 2023.
     */
    LAB_LION
} lab_rule;

/** What a parameter's rate and decay are multiplied by: 1 and 1 unless a lab_group_fn changes them. */
typedef struct lab_group {
    double rate, decay;
    uint64_t reserved[6];
} lab_group;

/**
 * Says to which group a parameter belongs, by its name, its rank, or as it likes. Called once for each parameter, when
 * its state is made.
 *
 * @param name       the parameter's; valid during the call only
 * @param parameter  not to be kept
 * @param group      {1, 1}, to be changed: finite numbers that are at least 0
 * @param ctx        the config's group_ctx
 */
typedef void (*lab_group_fn)(const char *name, const lab_tensor *parameter, lab_group *group, void *ctx);

/** What lab_optimizer_create makes. Zero means the default; `reserved` must be zero; a field that the rule does not
 * have must be zero, too. */
typedef struct lab_optimizer_config {
    lab_rule rule;
    double rate;        /**< at least 0; 0 is a rate of 0 */
    double momentum;    /**< of LAB_SGD, LAB_SIGN_SGD and LAB_RMSPROP, in [0, 1) */
    bool nesterov;      /**< of LAB_SGD with momentum */
    double beta1;       /**< in (0, 1); 0: 0.9 */
    double beta2;       /**< in (0, 1); 0: 0.999, of LAB_RMSPROP and LAB_LION 0.99 */
    double eps;         /**< of LAB_RMSPROP, LAB_ADAM and LAB_ADAMW, above 0; 0: 1e-8 */
    double decay;       /**< at least 0; 0: none. Everything decays, unless group says otherwise */
    lab_group_fn group; /**< NULL: one group; lab_decay_matrices is one */
    void *group_ctx;    /**< passed to group */
    uint64_t reserved[8];
} lab_optimizer_config;

/** A lab_group_fn by which matrices and more (rank 2 and above) decay, and gains, shifts and biases do not; ctx is not
 * used. A NULL parameter counts as one of rank 0; a NULL group is left. */
LAB_API void lab_decay_matrices(const char *name, const lab_tensor *parameter, lab_group *group, void *ctx);

/** A rule with its settings, and the state of every parameter that it has met. */
typedef struct lab_optimizer lab_optimizer;

/**
 * A new optimiser. It knows no parameters yet: their state is made when they first come with a gradient.
 *
 * @param out     receives the optimiser, owned by the caller (lab_optimizer_destroy); NULL on failure
 * @param config  copied
 * @return LAB_OK, LAB_ERR_ARGUMENT (out or config is NULL, no such rule, a field that the rule does not have, reserved
 *         words), LAB_ERR_RANGE (a number outside of what its field says), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_optimizer_create(lab_optimizer **out, const lab_optimizer_config *config);

/** Gives an optimiser and its state back, and sets the pointer to NULL; NULL, or a pointer to it, is fine. */
LAB_API void lab_optimizer_destroy(lab_optimizer **optimizer);

/**
 * A visitor: one step of one parameter, in place, by its gradient times the optimiser's scale. Moves the version.
 *
 * State is found by name, so every parameter needs one of its own. A name belongs to the tensor that came with it
 * first: another tensor under it is an error, since two parameters of one name would share their state. (A layer whose
 * parameter was replaced wants a new optimiser; its state can be carried over by lab_optimizer_visit.)
 *
 * @param name       the parameter's; copied
 * @param parameter  where the leaf is
 * @param ctx        a lab_optimizer
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL, or a group that changed its reserved words), LAB_ERR_STATE (the name is
 * another tensor's; a state tensor was taken away or given another shape, or its step is negative), LAB_ERR_RANGE (a
 * group's numbers), LAB_ERR_MEMORY. On failure the parameter and its state are as they were.
 */
LAB_API LAB_CHECKED lab_status lab_optimizer_step(const char *name, lab_tensor **parameter, void *ctx);

/**
 * A visitor: makes the state of a parameter that requires a gradient, all zero, without a step. What is read back from
 * a file needs it (lab_optimizer_visit), or who wants the memory taken at once.
 *
 * @param name       the parameter's; copied
 * @param parameter  where the leaf is
 * @param ctx        a lab_optimizer
 * @return as lab_optimizer_step
 */
LAB_API LAB_CHECKED lab_status lab_optimizer_prepare(const char *name, lab_tensor **parameter, void *ctx);

/**
 * Calls fn for each state tensor: by name, such as "exp_avg.block.0.attn.q.weight", parameters in the order in which
 * they came, for each the state that its rule has (lab_rule). Of the parameter's shape and dtype; "step..." is i64 of
 * rank 0. What fn writes into them is the state from then on: who reads a checkpoint makes them (lab_optimizer_prepare)
 * and then fills them. A tensor that it puts in another's place must be like it, and is then owned by the optimiser.
 *
 * @param optimizer  whose state
 * @param prefix     NULL or "": none
 * @param fn         what to call
 * @param ctx        passed to fn
 * @return LAB_OK, LAB_ERR_ARGUMENT (optimizer or fn is NULL), LAB_ERR_RANGE (a name of more than 255 characters), or
 *         what fn returns
 */
LAB_API LAB_CHECKED lab_status lab_optimizer_visit(lab_optimizer *optimizer, const char *prefix, lab_visit_fn fn,
                                                   void *ctx);

/** The rate of the steps from now on. LAB_ERR_ARGUMENT (NULL), LAB_ERR_RANGE (negative, or not finite). */
LAB_API LAB_CHECKED lab_status lab_optimizer_set_rate(lab_optimizer *optimizer, double rate);

/** The rate; 0 for NULL. */
LAB_API double lab_optimizer_rate(const lab_optimizer *optimizer);

/** What gradients are multiplied by in the steps from now on, 1 at first. They themselves stay as they are.
 * LAB_ERR_ARGUMENT (NULL), LAB_ERR_RANGE (not finite, as lab_clip_factor has it for a norm that isn't). */
LAB_API LAB_CHECKED lab_status lab_optimizer_set_scale(lab_optimizer *optimizer, double scale);

/** @} */

/**
 * @name Visitors without a state
 * `name` is for messages here, and may be NULL.
 * @{
 */

/** Gradient descent. `reserved` must be zero; a rate of 0 is a rate of 0. */
typedef struct lab_sgd {
    double rate;
    uint64_t reserved[8];
} lab_sgd;

/**
 * p = p - rate * gradient, in place, for p of any shape. Moves the version. Allocates nothing.
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

/** Multiplies the gradient by *(const double *)ctx, in place; a factor of 1 changes no bit. LAB_ERR_ARGUMENT where the
 * parameter or ctx is NULL, LAB_ERR_RANGE (a factor that is not finite). */
LAB_API LAB_CHECKED lab_status lab_scale_grads(const char *name, lab_tensor **parameter, void *ctx);

/** Adds the parameter's number of elements to *(int64_t *)ctx. LAB_ERR_ARGUMENT where either is NULL. */
LAB_API LAB_CHECKED lab_status lab_count_parameters(const char *name, lab_tensor **parameter, void *ctx);

/** @} */

/**
 * @name The norm of all gradients
 * @{
 */

/** Adds up a norm; all zero to start with. The norm is size * sqrt(squares): no square overflows. */
typedef struct lab_grad_norm {
    double size, squares;
    uint64_t reserved[2];
} lab_grad_norm;

/** A visitor that adds the gradient's squares to *(lab_grad_norm *)ctx; nothing if there is no gradient. In double,
 * whatever the dtype. LAB_ERR_ARGUMENT where the parameter or ctx is NULL. */
LAB_API LAB_CHECKED lab_status lab_grad_norm_add(const char *name, lab_tensor **parameter, void *ctx);

/** The square root of the sum of squares so far: infinite or NaN where a gradient is; 0 for NULL. */
LAB_API double lab_grad_norm_value(const lab_grad_norm *norm);

/** What makes a norm at most max_norm: 1 where it is so already, max_norm / norm where it is larger; NaN where the norm
 * is infinite or NaN, or max_norm negative or NaN, which lab_optimizer_set_scale and lab_scale_grads refuse. */
LAB_API double lab_clip_factor(double norm, double max_norm);

/**
 * One norm over the gradients of all parameters, and if it is larger than max_norm each gradient times max_norm / norm.
 *
 * As torch.nn.utils.clip_grad_norm_, but for its 1e-6 beside the norm, and that a norm which is not finite leaves every
 * gradient as it is: multiplied by 0 or NaN, one bad number would become all of them.
 *
 * @param n           how many parameters
 * @param parameters  leaves; those without a gradient count as 0
 * @param max_norm    at least 0; infinite: measures only
 * @param norm        receives the norm before clipping, also where it is not finite, and 0 on other failures; may be
 *                    NULL
 * @return LAB_OK, LAB_ERR_ARGUMENT (parameters or one of them is NULL, n is negative), LAB_ERR_RANGE (max_norm is
 *         negative or NaN; the norm is not finite: the sentence has the first parameter whose gradient isn't)
 */
LAB_API LAB_CHECKED lab_status lab_clip_grad_norm(int64_t n, lab_tensor *const *parameters, double max_norm,
                                                  double *norm);

/** @} */

/**
 * @name Rates by step
 * @{
 */

/** How a rate goes on after the warm-up. */
typedef enum lab_schedule_kind {
    LAB_SCHEDULE_CONSTANT = 0, /**< it stays */
    LAB_SCHEDULE_LINEAR,       /**< straight to final_rate */
    LAB_SCHEDULE_COSINE        /**< half a cosine to final_rate. Loshchilov and Hutter 2017 */
} lab_schedule_kind;

/** A rate for every step: r (t + 1) / (w + 1) in the w steps of the warm-up, then from r, which it has at step w, to
 * the final rate, which it has from step `steps` on. `reserved` must be zero. */
typedef struct lab_schedule {
    lab_schedule_kind kind;
    double rate;       /**< r, at least 0 */
    double final_rate; /**< at least 0 */
    int64_t warmup;    /**< w, at least 0 */
    int64_t steps;     /**< at least w; not used by LAB_SCHEDULE_CONSTANT */
    uint64_t reserved[8];
} lab_schedule;

/** The rate at a step, counted from 0: a pure function. NaN, which lab_optimizer_set_rate refuses, for NULL, a negative
 * step, and a schedule that makes no sense. */
LAB_API double lab_schedule_rate(const lab_schedule *schedule, int64_t step);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
