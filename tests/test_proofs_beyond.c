/* test_proofs_beyond.c - beyond the fourteen: second derivatives, merging by lse, dropout's mean. */
#include <llmlab.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proofs.h"

static void second_derivatives_of_the_block(void **state)
{
    (void)state;
    FOR_SEEDS(seed)
    {
        lab_block b;
        leaves l = {0};
        make_block(&b, &l, (int)(seed % BLOCKS), seed);
        gradients_are_right(seed, apply_block, &b, &l, true);
        free_leaves(&l);
        lab_block_free(&b);
    }
    say("second derivatives of the block");
}

/* out = (e^(a-m) out_a + e^(b-m) out_b) / (e^(a-m) + e^(b-m)), a and b the halves' lse. */
static void two_halves_of_the_keys_merge_by_lse_into_the_whole(void **state)
{
    (void)state;
    enum { N = 10, D = 8 };
    FOR_SEEDS(seed)
    {
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *q = lab_randn(g, LAB_F64, 3, (int64_t[]){2, N, D}, 3 * seed);
        lab_tensor *k = lab_randn(g, LAB_F64, 3, (int64_t[]){2, 2 * N, D}, 3 * seed + 1);
        lab_tensor *v = lab_randn(g, LAB_F64, 3, (int64_t[]){2, 2 * N, D}, 3 * seed + 2);
        lab_tensor *half[2], *lse[3], *merged = NULL, *xs[] = {q, k, v}, *d[2][3];
        for (int i = 0; i < 2; i++)
            half[i] = lab_attention(g, q, lab_slice(g, k, 1, i * N, (i + 1) * N, 1),
                                    lab_slice(g, v, 1, i * N, (i + 1) * N, 1), &(lab_attention_opts){.lse = &lse[i]});
        lab_tensor *whole = lab_attention(g, q, k, v, &(lab_attention_opts){.lse = &lse[2]});
        lab_tensor *both = lab_concat(g, 2,
                                      (lab_tensor *[]){lab_reshape(g, lse[0], 3, (int64_t[]){2, N, 1}),
                                                       lab_reshape(g, lse[1], 3, (int64_t[]){2, N, 1})},
                                      -1);
        lab_tensor *share = lab_softmax(g, both, -1);
        for (int i = 0; i < 2; i++) {
            lab_tensor *part = lab_mul(g, half[i], lab_slice(g, share, -1, i, i + 1, 1));
            merged = merged ? lab_add(g, merged, part) : part;
        }
        lab_tensor *merged_lse = lab_logsumexp(g, both, -1, false);
        for (int i = 0; i < 2; i++) {
            lab_tensor *y = i ? whole : merged;
            lab_tensor *loss = lab_add(g, lab_sum_all(g, lab_mul(g, y, y)), lab_sum_all(g, i ? lse[2] : merged_lse));
            lab_grad(g, loss, NULL, 3, xs, d[i], NULL); /* through lse too */
        }
        assert_int_equal(lab_graph_status(g), LAB_OK);
        value_is(seed, merged, matrix_of(whole), 1e-14);
        value_is(seed, merged_lse, matrix_of(lse[2]), 1e-15);
        for (int i = 0; i < 3; i++) {
            double error = matrix_error(d[0][i], matrix_of(d[1][i]));
            assert_true(error < 1e-13);
            worst_gradient = fmax(worst_gradient, error);
        }
        lab_graph_destroy(&g);
    }
    say("two halves merged");
}

static void dropouts_mean_over_seeds_is_attention_without_it(void **state)
{
    (void)state;
    enum { N = 6, D = 4, RUNS = 4000 };
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true});
    lab_tensor *x[3];
    for (int i = 0; i < 3; i++)
        x[i] = lab_randn(g, LAB_F64, 3, (int64_t[]){1, N, D}, 1 + (uint64_t)i);
    matrix expected = matrix_of(lab_attention(g, x[0], x[1], x[2], NULL)), mean = matrix_zeros(N, D),
           square = matrix_zeros(N, D);
    lab_mark mark = lab_graph_mark(g);
    for (uint64_t run = 0; run < RUNS; run++) {
        lab_tensor *y =
            lab_attention(g, x[0], x[1], x[2], &(lab_attention_opts){.dropout = 0.3, .seed = 5, .stream = run});
        double values[N * D];
        assert_int_equal(lab_tensor_read(y, values, sizeof values), LAB_OK);
        for (int i = 0; i < N * D; i++) {
            mean.at[i] += values[i] / RUNS;
            square.at[i] += (long double)values[i] * values[i] / RUNS;
        }
        lab_graph_release(g, mark);
    }
    for (int i = 0; i < N * D; i++) { /* five standard errors of the mean */
        double error = (double)sqrtl((square.at[i] - mean.at[i] * mean.at[i]) / RUNS);
        double away = (double)fabsl(mean.at[i] - expected.at[i]) / error;
        if (!(error > 0 && away < 5))
            fail_msg("element %d: %.2f standard errors away", i, away);
        worst_value = fmax(worst_value, away);
    }
    lab_graph_destroy(&g);
    print_message("             mean over %d streams: %.1f standard errors away at most\n", RUNS, worst_value);
}

int main(void)
{
    const struct CMUnitTest proofs[] = {
        PROOF(second_derivatives_of_the_block),
        PROOF(two_halves_of_the_keys_merge_by_lse_into_the_whole),
        PROOF(dropouts_mean_over_seeds_is_attention_without_it),
    };
    return cmocka_run_group_tests(proofs, NULL, NULL) != 0;
}
