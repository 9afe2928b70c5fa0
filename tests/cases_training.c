/* cases_training.c - the parts on training: steps of AdamW, and clipping by the norm of all gradients. */
#include "cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A copy on the graph, which outlives the leaf. */
static lab_tensor *kept(run *r, const lab_tensor *t)
{
    int64_t shape[LAB_MAX_RANK];
    for (int i = 0; i < lab_tensor_rank(t); i++)
        shape[i] = lab_tensor_size(t, i);
    return lab_constant(r->g, lab_tensor_dtype(t), lab_tensor_rank(t), shape, lab_tensor_data(t));
}

/* A leaf like `values`, of zeros or of them, that requires its gradient. */
static lab_tensor *parameter_like(run *r, const lab_tensor *values, bool zeros)
{
    lab_tensor *p;
    if (lab_tensor_clone(&p, values) != LAB_OK || lab_tensor_require_grad(p, true) != LAB_OK)
        fail(r, "%s", lab_last_message());
    if (p && zeros)
        memset(lab_tensor_data(p), 0, (size_t)lab_tensor_numel(p) * lab_dtype_size(lab_tensor_dtype(p)));
    return p;
}

/* The gradient of sum(p * gradient). */
static void give_gradient(run *r, lab_tensor *p, lab_tensor *gradient)
{
    lab_tensor_clear_grad(p);
    lab_backward(r->g, lab_sum_all(r->g, lab_mul(r->g, p, gradient)));
}

/* ---- AdamW ------------------------------------------------------------------------------------------------------- */

static lab_status hand_over(const char *name, lab_tensor **state, void *ctx)
{
    run *r = ctx;
    if (strcmp(name, "exp_avg.p") == 0)
        give(r, "m", kept(r, *state));
    if (strcmp(name, "exp_avg_sq.p") == 0)
        give(r, "v", kept(r, *state));
    return LAB_OK;
}

static void steps(run *r, lab_optimizer *optimizer, lab_tensor *p, lab_tensor *grads)
{
    const int64_t n = lab_tensor_size(grads, 0);
    lab_tensor *after[16];
    for (int64_t t = 0; t < n && t < 16; t++) {
        give_gradient(r, p, lab_reshape(r->g, lab_slice(r->g, grads, 0, t, t + 1, 1), 1, (int64_t[]){-1}));
        if (lab_optimizer_step("p", &p, optimizer) != LAB_OK)
            fail(r, "%s", lab_last_message());
        after[t] = lab_reshape(r->g, kept(r, p), 2, (int64_t[]){1, -1});
    }
    give(r, "p_after_each_step", lab_concat(r->g, (int)n, after, 0));
    if (lab_optimizer_visit(optimizer, NULL, hand_over, r) != LAB_OK)
        fail(r, "%s", lab_last_message());
}

void call_adamw(run *r)
{
    const lab_optimizer_config config = {.rule = LAB_ADAMW,
                                         .rate = parameter(r, "lr", 0),
                                         .beta1 = parameter(r, "beta1", 0),
                                         .beta2 = parameter(r, "beta2", 0),
                                         .eps = parameter(r, "eps", 0),
                                         .decay = parameter(r, "weight_decay", 0)};
    lab_optimizer *optimizer;
    lab_tensor *p = parameter_like(r, input(r, "p0"), false);
    if (lab_optimizer_create(&optimizer, &config) != LAB_OK)
        fail(r, "%s", lab_last_message());
    if (p && optimizer)
        steps(r, optimizer, p, input(r, "grads"));
    lab_optimizer_destroy(&optimizer);
    lab_tensor_destroy(&p);
}

/* ---- Clipping ---------------------------------------------------------------------------------------------------- */

/* A norm that is not finite has to be said, and every gradient left. */
static void check_clipped(run *r, lab_status status, double norm, int n, lab_tensor *const *p,
                          lab_tensor *const *before)
{
    if (isfinite(norm)) {
        if (status != LAB_OK)
            fail(r, "%s", lab_last_message());
        return;
    }
    if (status != LAB_ERR_RANGE || !strstr(lab_last_message(), "parameters[0]"))
        fail(r, "the norm is %g, and the caller is not told where from: %s", norm, lab_last_message());
    for (int i = 0; i < n; i++) {
        double *got = elements(lab_tensor_grad(p[i])), *want = elements(before[i]);
        for (int64_t k = 0; k < lab_tensor_numel(p[i]) && got && want; k++)
            if (got[k] != want[k] && !(isnan(got[k]) && isnan(want[k])))
                fail(r, "a gradient of %g became %g", want[k], got[k]);
        free(got);
        free(want);
    }
}

static void clip(run *r, double max_norm)
{
    static const char *const names[] = {"g1", "g2"};
    lab_tensor *p[2], *before[2];
    double norm;
    int n = 0;
    for (int i = 0; i < 2; i++)
        if ((before[n] = input(r, names[i])) && (p[n] = parameter_like(r, before[n], true))) {
            give_gradient(r, p[n], before[n]);
            n++;
        }
    lab_status status = lab_clip_grad_norm(n, p, max_norm, &norm);
    check_clipped(r, status, norm, n, p, before);
    give(r, "norm", lab_constant(r->g, LAB_F64, 0, NULL, &norm));
    for (int i = 0; i < n; i++) {
        give(r, names[i], kept(r, lab_tensor_grad(p[i])));
        lab_tensor_destroy(&p[i]);
    }
}

void call_clip_grad_norm(run *r)
{
    clip(r, parameter(r, "max_norm", 0));
}

/* O22d: "Same with Inf in place of NaN". */
bool check_clip_grad_norm(run *r)
{
    const array *g1 = input_array(r, "g1");
    for (int64_t i = 0; i < g1->count; i++)
        if (isnan(g1->numbers[i])) {
            g1->numbers[i] = INFINITY;
            run again = *r;
            again.results = 0;
            memset(again.leaf, 0, sizeof again.leaf);
            memset(again.tensor, 0, sizeof again.tensor);
            clip(&again, parameter(r, "max_norm", 0));
            for (int k = 0; k < MOST_ARRAYS; k++)
                lab_tensor_destroy(&again.leaf[k]);
            g1->numbers[i] = NAN;
        }
    return r->verdict->outcome == PASSED;
}
