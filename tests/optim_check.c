/* optim_check.c - parameters with gradients, and the rules written down plainly. */
#include "optim_check.h"

#include <math.h>
#include <string.h>

lab_tensor *parameter_drawn(uint64_t *draws, lab_dtype dtype, int rank, const int64_t *shape)
{
    lab_tensor *p = leaf_drawn(draws, dtype, rank, shape, 1);
    assert_int_equal(lab_tensor_require_grad(p, true), LAB_OK);
    return p;
}

void give_gradient(lab_tensor *parameter, const double *values)
{
    int64_t shape[LAB_MAX_RANK];
    for (int i = 0; i < lab_tensor_rank(parameter); i++)
        shape[i] = lab_tensor_size(parameter, i);
    lab_tensor *factors = leaf_of_doubles(lab_tensor_dtype(parameter), lab_tensor_rank(parameter), shape, values);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor_clear_grad(parameter);
    lab_backward(g, lab_sum_all(g, lab_mul(g, parameter, factors)));
    expect_healthy(g);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&factors);
}

lab_optimizer *optimizer_of(lab_optimizer_config config)
{
    lab_optimizer *made;
    assert_int_equal(lab_optimizer_create(&made, &config), LAB_OK);
    return made;
}

void step_once(lab_optimizer *optimizer, const char *name, lab_tensor *parameter)
{
    if (lab_optimizer_step(name, &parameter, optimizer) != LAB_OK)
        fail_msg("seed %llu: %s: %s", (unsigned long long)check_seed(), name, lab_last_message());
}

typedef struct search {
    const char *name;
    lab_tensor *found;
} search;

static lab_status compare_name(const char *name, lab_tensor **state, void *ctx)
{
    search *s = ctx;
    if (strcmp(s->name, name) == 0)
        s->found = *state;
    return LAB_OK;
}

lab_tensor *state_named(lab_optimizer *optimizer, const char *name)
{
    search s = {name, NULL};
    assert_int_equal(lab_optimizer_visit(optimizer, NULL, compare_name, &s), LAB_OK);
    return s.found;
}

/* ---- Definitions ------------------------------------------------------------------------------------------------- */

static long double sign(long double x)
{
    return (long double)(x > 0) - (long double)(x < 0);
}

static void sgd(const lab_optimizer_config *c, moving *x, long double g)
{
    g += c->decay * x->p;
    x->m = c->momentum * x->m + g;
    x->p -= c->rate * (c->nesterov ? g + c->momentum * x->m : x->m);
}

static void sign_sgd(const lab_optimizer_config *c, moving *x, long double g)
{
    x->m = c->momentum * x->m + (1 - c->momentum) * g;
    x->p = (1 - c->rate * c->decay) * x->p - c->rate * sign(x->m);
}

static void rmsprop(const lab_optimizer_config *c, moving *x, long double g)
{
    g += c->decay * x->p;
    x->v = c->beta2 * x->v + (1 - (long double)c->beta2) * g * g;
    x->m = c->momentum * x->m + g / (sqrtl(x->v) + c->eps);
    x->p -= c->rate * x->m;
}

static void adam(const lab_optimizer_config *c, moving *x, long double g, int64_t t)
{
    if (c->rule == LAB_ADAM)
        g += c->decay * x->p;
    else
        x->p *= 1 - (long double)c->rate * c->decay;
    x->m = c->beta1 * x->m + (1 - (long double)c->beta1) * g;
    x->v = c->beta2 * x->v + (1 - (long double)c->beta2) * g * g;
    long double m = x->m / (1 - powl(c->beta1, (long double)t)), v = x->v / (1 - powl(c->beta2, (long double)t));
    x->p -= c->rate * m / (sqrtl(v) + c->eps);
}

static void lion(const lab_optimizer_config *c, moving *x, long double g)
{
    long double direction = sign(c->beta1 * x->m + (1 - (long double)c->beta1) * g);
    x->p = (1 - (long double)c->rate * c->decay) * x->p - c->rate * direction;
    x->m = c->beta2 * x->m + (1 - (long double)c->beta2) * g;
}

void step_by_definition(const lab_optimizer_config *config, moving *x, long double gradient, int64_t step)
{
    switch (config->rule) {
    case LAB_SGD:
        sgd(config, x, gradient);
        break;
    case LAB_SIGN_SGD:
        sign_sgd(config, x, gradient);
        break;
    case LAB_RMSPROP:
        rmsprop(config, x, gradient);
        break;
    case LAB_ADAM:
    case LAB_ADAMW:
        adam(config, x, gradient, step);
        break;
    case LAB_LION:
        lion(config, x, gradient);
        break;
    }
}

const lab_optimizer_config optim_configs[] = {
    {.rule = LAB_SGD, .rate = 0.1},
    {.rule = LAB_SGD, .rate = 0.1, .decay = 0.3},
    {.rule = LAB_SGD, .rate = 0.1, .momentum = 0.9},
    {.rule = LAB_SGD, .rate = 0.1, .momentum = 0.9, .decay = 0.3},
    {.rule = LAB_SGD, .rate = 0.1, .momentum = 0.9, .decay = 0.3, .nesterov = true},
    {.rule = LAB_SIGN_SGD, .rate = 0.1},
    {.rule = LAB_SIGN_SGD, .rate = 0.1, .momentum = 0.8, .decay = 0.3},
    {.rule = LAB_RMSPROP, .rate = 0.1, .beta2 = 0.99, .eps = 1e-8},
    {.rule = LAB_RMSPROP, .rate = 0.1, .beta2 = 0.9, .eps = 1e-3, .momentum = 0.7, .decay = 0.3},
    {.rule = LAB_ADAM, .rate = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
    {.rule = LAB_ADAM, .rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .decay = 0.3},
    {.rule = LAB_ADAMW, .rate = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
    {.rule = LAB_ADAMW, .rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .decay = 0.3},
    {.rule = LAB_LION, .rate = 0.1, .beta1 = 0.9, .beta2 = 0.99},
    {.rule = LAB_LION, .rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .decay = 0.3},
};

const int optim_config_count = sizeof optim_configs / sizeof *optim_configs;
