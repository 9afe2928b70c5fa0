/* optim_rules.h - the rules: what a config may say, what is kept, and the numbers of a step. */
#ifndef LAB_NN_OPTIM_RULES_H
#define LAB_NN_OPTIM_RULES_H

#include "optim_impl.h"

/* A rule's state by name; NULL where it keeps none. */
typedef struct kept_state {
    const char *first, *second;
    bool counts; /* its steps */
} kept_state;

/* Checks a config and puts the defaults in. */
lab_status lab__optim_complete(lab_optimizer_config *config);

/* The kernel that a complete config asks for, what it keeps, and its numbers at a step (from 1) of a parameter whose
 * group multiplies rate and decay. */
kernel_rule lab__optim_rule(const lab_optimizer_config *config);
const kept_state *lab__optim_kept(kernel_rule rule);
kernel_step lab__optim_numbers(const lab_optimizer_config *config, double rate, double decay, int64_t step);

#endif
