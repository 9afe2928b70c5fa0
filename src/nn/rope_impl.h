/* rope_impl.h - what the two forms of RoPE share. */
#ifndef LAB_NN_ROPE_IMPL_H
#define LAB_NN_ROPE_IMPL_H

#include "llmlab/position.h"
#include "nn_impl.h"

/* A call's options with their defaults filled in. */
typedef struct rope_turn {
    lab_rope_layout layout;
    int64_t width; /* how much of a row is turned: even */
    double base;
    int64_t offset;
} rope_turn;

/* Checks x and the options (NULL: the defaults); else says why. */
lab_status lab__rope_check(const lab_tensor *x, const lab_rope_opts *opts, rope_turn *turn);

#endif
