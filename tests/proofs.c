/* proofs.c - what the proofs share. */
#include "proofs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 4 };

uint64_t first_seed(void)
{
    const char *given = getenv("LAB_TEST_SEED");
    return given ? strtoull(given, NULL, 10) : 1;
}

uint64_t last_seed(void)
{
    return getenv("LAB_TEST_SEED") ? first_seed() : SEEDS;
}

double worst_value, worst_gradient;

int proof_begin(void **state)
{
    (void)state;
    worst_value = worst_gradient = 0;
    return 0;
}

int proof_end(void **state)
{
    (void)state;
    matrices_free();
    return 0;
}

void say(const char *what)
{
    print_message("             %s: worst value error %.1e, worst gradient error %.1e\n", what, worst_value,
                  worst_gradient);
}

void value_is(uint64_t seed, const lab_tensor *y, matrix expected, double tolerance)
{
    assert_non_null(y);
    double error = matrix_error(y, expected);
    if (!(error <= tolerance))
        fail_msg("seed %llu: value differs by %.3g of the largest entry, allowed %.3g", (unsigned long long)seed, error,
                 tolerance);
    worst_value = fmax(worst_value, error);
}

static lab_tensor *random_leaf(int rank, const int64_t *shape, double size, uint64_t seed)
{
    lab_tensor *t = NULL;
    lab_graph *g = lab_graph_create(NULL);
    assert_int_equal(lab_tensor_clone(&t, lab_mul_scalar(g, lab_randn(g, LAB_F64, rank, shape, seed), size)), LAB_OK);
    lab_graph_destroy(&g);
    return t;
}

lab_tensor *add_leaf(leaves *l, int rank, const int64_t *shape, double size, uint64_t seed)
{
    l->owned = l->n + 1;
    return l->at[l->n++] = random_leaf(rank, shape, size, seed);
}

lab_status collect(const char *name, lab_tensor **parameter, void *ctx)
{
    leaves *l = ctx;
    lab_status status = lab_init_normal(*parameter, 0.4, 77, (uint64_t)l->n + 1);
    double *values = lab_tensor_data(*parameter);
    if (strstr(name, "gain"))
        for (int64_t i = 0; i < lab_tensor_numel(*parameter); i++)
            values[i] += 1;
    assert_true(l->n < MOST_LEAVES);
    l->at[l->n++] = *parameter;
    return status;
}

void free_leaves(leaves *l)
{
    for (int i = 0; i < l->owned; i++)
        lab_tensor_destroy(&l->at[i]);
    *l = (leaves){0};
}

void gradients_are_right(uint64_t seed, lab_fn f, void *ctx, leaves *l, bool second_order)
{
    lab_gradcheck_report r;
    lab_gradcheck_opts opts = {.tolerance = 1e-7, .seed = seed, .second_order = second_order};
    if (lab_gradcheck(f, ctx, l->n, l->at, &opts, &r) != LAB_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, lab_last_message());
    if (!r.passed)
        fail_msg("seed %llu: tensor %d, element %lld: analytic %.12g, numeric %.12g (%.3g of the largest entry)",
                 (unsigned long long)seed, r.input, (long long)r.element, r.analytic, r.numeric, r.worst_error);
    assert_true(r.entries > 0);
    worst_gradient = fmax(worst_gradient, r.worst_error);
}

static const lab_rope_opts block_rope = {.layout = LAB_ROPE_HALVES};
const lab_block_config blocks[BLOCKS] = {
    {.width = WIDTH, .heads = 2, .hidden = 12, .bias = true, .activation = LAB_ACTIVATION_GELU_TANH},
    {.width = WIDTH, .heads = 2, .hidden = 12, .bias = true, .norm_place = LAB_NORM_AFTER},
    {.width = WIDTH,
     .heads = 4,
     .kv_heads = 2,
     .hidden = 10,
     .norm = LAB_NORM_RMS,
     .rope = &block_rope,
     .activation = LAB_ACTIVATION_SILU_GATED},
};
lab_tensor *apply_block(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_block_apply(g, ctx, xs[0], NULL, &(lab_attention_opts){.causal = LAB_CAUSAL_TOP_LEFT});
}

lab_tensor *make_block(lab_block *b, leaves *l, int which, uint64_t seed)
{
    assert_int_equal(lab_block_init(b, &blocks[which], LAB_F64, seed), LAB_OK);
    lab_tensor *x = add_leaf(l, 2, (int64_t[]){T, WIDTH}, 1, seed);
    assert_int_equal(lab_block_visit(b, "block", collect, l), LAB_OK);
    return x;
}
