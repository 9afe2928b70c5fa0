/* optim_check.h - what the tests of optimisers share: parameters with gradients, and the rules written down plainly. */
#ifndef TESTS_OPTIM_CHECK_H
#define TESTS_OPTIM_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "nn_check.h"

/* A leaf that requires its gradient, drawn from [-1, 1]. */
lab_tensor *parameter_drawn(uint64_t *draws, lab_dtype dtype, int rank, const int64_t *shape);

/* The gradient becomes these values (row-major), by a backward pass. */
void give_gradient(lab_tensor *parameter, const double *values);

lab_optimizer *optimizer_of(lab_optimizer_config config);
/* A step of one parameter; fails the test unless it is done. */
void step_once(lab_optimizer *optimizer, const char *name, lab_tensor *parameter);

/* The state tensor of that full name, NULL if there is none; it stays the optimiser's. */
lab_tensor *state_named(lab_optimizer *optimizer, const char *name);

/* A parameter's element and its state, in long double, and one step of it as optim.h writes it. The config has no
 * defaults left to put in. */
typedef struct moving {
    long double p, m, v;
} moving;
void step_by_definition(const lab_optimizer_config *config, moving *x, long double gradient, int64_t step);

/* Configs of every rule with every option, complete, to run tests over. */
extern const lab_optimizer_config optim_configs[];
extern const int optim_config_count;

#endif
