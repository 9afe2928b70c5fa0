/* optim_rules.c - the rules: what a config may say, what is kept, and the numbers of a step. */
#include "optim_rules.h"

/* Which fields a rule has. */
typedef struct rule_fields {
    const char *name;
    bool momentum, nesterov, beta1, eps;
    double beta2;   /* its default; 0: no such field */
    bool decoupled; /* decay shrinks the parameter, and is not added to the gradient */
} rule_fields;

static const rule_fields fields[] = {
    [LAB_SGD] = {"LAB_SGD", .momentum = true, .nesterov = true},
    [LAB_SIGN_SGD] = {"LAB_SIGN_SGD", .momentum = true, .decoupled = true},
    [LAB_RMSPROP] = {"LAB_RMSPROP", .momentum = true, .eps = true, .beta2 = 0.99},
    [LAB_ADAM] = {"LAB_ADAM", .beta1 = true, .eps = true, .beta2 = 0.999},
    [LAB_ADAMW] = {"LAB_ADAMW", .beta1 = true, .eps = true, .beta2 = 0.999, .decoupled = true},
    [LAB_LION] = {"LAB_LION", .beta1 = true, .beta2 = 0.99, .decoupled = true},
};

enum { RULES = sizeof fields / sizeof *fields };

/* ---- A config ---------------------------------------------------------------------------------------------------- */

static lab_status check_known(const lab_optimizer_config *c)
{
    if ((int)c->rule < 0 || (int)c->rule >= RULES)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_optimizer_create: rule is %d, must be a lab_rule", (int)c->rule);
    if (!lab__all_zero(c->reserved))
        return lab__fail(LAB_ERR_ARGUMENT, "lab_optimizer_create: the config's reserved words are not zero");
    const rule_fields *has = &fields[c->rule];
    const char *without = c->momentum != 0 && !has->momentum ? "momentum"
                          : c->nesterov && !has->nesterov    ? "nesterov"
                          : c->beta1 != 0 && !has->beta1     ? "beta1"
                          : c->beta2 != 0 && has->beta2 == 0 ? "beta2"
                          : c->eps != 0 && !has->eps         ? "eps"
                                                             : NULL;
    if (without)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_optimizer_create: %s has no %s", has->name, without);
    if (c->nesterov && c->momentum == 0)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_optimizer_create: nesterov asks for a momentum above 0");
    return LAB_OK;
}

static lab_status check_number(const char *name, double value, bool in_range, const char *range)
{
    return in_range ? LAB_OK
                    : lab__fail(LAB_ERR_RANGE, "lab_optimizer_create: %s is %g, must be %s", name, value, range);
}

lab_status lab__optim_complete(lab_optimizer_config *c)
{
    lab_status status = check_known(c);
    if (status != LAB_OK)
        return status;
    const rule_fields *has = &fields[c->rule];
    c->beta1 = has->beta1 && c->beta1 == 0 ? 0.9 : c->beta1;
    c->beta2 = c->beta2 == 0 ? has->beta2 : c->beta2;
    c->eps = has->eps && c->eps == 0 ? 1e-8 : c->eps;
    status = check_number("rate", c->rate, c->rate >= 0 && isfinite(c->rate), "finite and at least 0");
    if (status == LAB_OK)
        status = check_number("momentum", c->momentum, c->momentum >= 0 && c->momentum < 1, "in [0, 1)");
    if (status == LAB_OK)
        status = check_number("beta1", c->beta1, c->beta1 >= 0 && c->beta1 < 1, "in (0, 1)");
    if (status == LAB_OK)
        status = check_number("beta2", c->beta2, c->beta2 >= 0 && c->beta2 < 1, "in (0, 1)");
    if (status == LAB_OK)
        status = check_number("eps", c->eps, c->eps >= 0 && isfinite(c->eps), "finite and above 0");
    if (status == LAB_OK)
        status = check_number("decay", c->decay, c->decay >= 0 && isfinite(c->decay), "finite and at least 0");
    return status;
}

/* ---- Its kernel -------------------------------------------------------------------------------------------------- */

kernel_rule lab__optim_rule(const lab_optimizer_config *config)
{
    const bool moves = config->momentum > 0;
    switch (config->rule) {
    case LAB_SGD:
        return config->nesterov ? KERNEL_NESTEROV : moves ? KERNEL_MOMENTUM : KERNEL_PLAIN;
    case LAB_SIGN_SGD:
        return moves ? KERNEL_SIGN_MOMENTUM : KERNEL_SIGN;
    case LAB_RMSPROP:
        return moves ? KERNEL_RMSPROP_MOMENTUM : KERNEL_RMSPROP;
    case LAB_LION:
        return KERNEL_LION;
    case LAB_ADAM:
    case LAB_ADAMW:
        break;
    }
    return KERNEL_ADAM;
}

const kept_state *lab__optim_kept(kernel_rule rule)
{
    static const kept_state kept[KERNEL_RULE_COUNT] = {
        [KERNEL_MOMENTUM] = {.first = "momentum_buffer"},
        [KERNEL_NESTEROV] = {.first = "momentum_buffer"},
        [KERNEL_SIGN_MOMENTUM] = {.first = "momentum_buffer"},
        [KERNEL_RMSPROP] = {.second = "square_avg"},
        [KERNEL_RMSPROP_MOMENTUM] = {.first = "momentum_buffer", .second = "square_avg"},
        [KERNEL_ADAM] = {.first = "exp_avg", .second = "exp_avg_sq", .counts = true},
        [KERNEL_LION] = {.first = "exp_avg"},
    };
    return &kept[rule];
}

kernel_step lab__optim_numbers(const lab_optimizer_config *config, double rate, double decay, int64_t step)
{
    const bool decoupled = fields[config->rule].decoupled;
    rate *= config->rate;
    decay *= config->decay;
    kernel_step by = {.rate = rate,
                      .scale = 1,
                      .coupled = decoupled ? 0 : decay,
                      .keep = decoupled ? 1 - rate * decay : 1,
                      .first = fields[config->rule].beta1 ? config->beta1 : config->momentum,
                      .second = config->beta2,
                      .root = 1,
                      .eps = config->eps};
    if (config->rule == LAB_ADAM || config->rule == LAB_ADAMW) {
        by.rate = rate / (1 - pow(config->beta1, (double)step));
        by.root = 1 / sqrt(1 - pow(config->beta2, (double)step));
    }
    return by;
}

void lab_decay_matrices(const char *name, const lab_tensor *parameter, lab_group *group, void *ctx)
{
    (void)name;
    (void)ctx;
    if (group && lab_tensor_rank(parameter) < 2)
        group->decay = 0;
}
