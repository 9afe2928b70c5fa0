/* proofs.h - what the proofs share: seeds, leaves to differentiate by, the blocks they look at, and the worst error. */
#ifndef TESTS_PROOFS_H
#define TESTS_PROOFS_H

#include <llmlab.h>
#include <stdbool.h>
#include <stdint.h>

#include "proof_reference.h"

enum { MOST_LEAVES = 64 };

uint64_t first_seed(void); /* LAB_TEST_SEED=n: both are n */
uint64_t last_seed(void);

#define FOR_SEEDS(seed) for (uint64_t seed = first_seed(); seed <= last_seed(); seed++)

/* The worst value and gradient error of the proof that runs. */
extern double worst_value, worst_gradient;

int proof_begin(void **state);
int proof_end(void **state);
#define PROOF(name) cmocka_unit_test_setup_teardown(name, proof_begin, proof_end)

/* Prints the worst errors. */
void say(const char *what);

/* max |y - expected| / max |expected| is within the tolerance. */
void value_is(uint64_t seed, const lab_tensor *y, matrix expected, double tolerance);

/* The leaves that a proof differentiates by. */
typedef struct leaves {
    lab_tensor *at[MOST_LEAVES];
    int n, owned; /* the first `owned` are ours to destroy */
} leaves;

lab_tensor *add_leaf(leaves *l, int rank, const int64_t *shape, double size, uint64_t seed);
/* A visitor: parameters start at zero or one here and there; a proof wants none of them special. */
lab_status collect(const char *name, lab_tensor **parameter, void *ctx);
void free_leaves(leaves *l);

/* Central differences, to 1e-7 of the tensor's largest entry, for every leaf. */
void gradients_are_right(uint64_t seed, lab_fn f, void *ctx, leaves *l, bool second_order);

/* Blocks of small size: before and after norms, GPT-2's kind and Llama's. */
enum { T = 5, WIDTH = 8, BLOCKS = 3 };
extern const lab_block_config blocks[BLOCKS];

/* Initialises one, its parameters and an input [T, WIDTH] among the leaves. */
lab_tensor *make_block(lab_block *b, leaves *l, int which, uint64_t seed);
lab_tensor *apply_block(lab_graph *g, lab_tensor **xs, void *block); /* causal */

#endif
