/* test_ops_threads.c - the same bits for any number of threads, forward and backward, while the threads do work. */
#include "op_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/parallel.h"
#include "llmlab/runtime.h"

/* Large enough to be cut into pieces. */
static void enlarge(op_case *c)
{
    for (int k = 0; k < c->n_inputs; k++) {
        c->in[k].rank = 2;
        c->in[k].shape[0] = 2;
        c->in[k].shape[1] = 50021;
        c->in[k].fill = c->in[k].fill == DISTINCT ? ANY : c->in[k].fill;
    }
    c->flags |= LARGE;
}

/* Whether a case is large, or can be made so. */
static bool large_case(int i, op_case *c)
{
    *c = *op_case_at(i);
    if (c->flags & ELEMENTWISE)
        enlarge(c);
    return (c->flags & LARGE) != 0;
}

static void set_threads(int n)
{
    assert_int_equal(lab_set_threads(n), LAB_OK);
    assert_int_equal(lab_get_threads(), n);
}

static uint64_t taken_forward, taken_backward;

enum { RESULTS = 1 + 2 * CASE_INPUTS };

/* y and both kinds of gradients; returns how many, 0 on failure. The weights are made when they are not there yet. */
static int results_with_threads(run *r, int threads, array *weights, lab_tensor **results)
{
    lab_tensor *xs[CASE_INPUTS];
    int which[CASE_INPUTS], n = 0;
    set_threads(threads);
    lab_graph_reset(r->graph);
    uint64_t before = lab__parallel_pieces_taken();
    results[0] = run_value(r);
    taken_forward += lab__parallel_pieces_taken() - before;
    if (!results[0])
        return 0;
    if (r->c.derivatives >= 1) {
        if (!weights->data) {
            array y;
            array_of(results[0], &y);
            weights_for(r, &y, weights);
        }
        n = run_real_operands(r, xs, which);
        before = lab__parallel_pieces_taken();
        if (!run_gradients(r, results[0], weights, n, xs, results + 1, false) ||
            !run_gradients(r, results[0], weights, n, xs, results + 1 + n, true))
            return 0;
        taken_backward += lab__parallel_pieces_taken() - before;
    }
    return 1 + 2 * n;
}

static void check_threads(run *r)
{
    static const int counts[] = {2, 7};
    void *bits[RESULTS];
    lab_tensor *results[RESULTS];
    array weights = {.data = NULL};
    int n = results_with_threads(r, 1, &weights, results);
    for (int k = 0; k < n; k++)
        bits[k] = bits_of(results[k]);
    for (int i = 0; i < 2 && n; i++)
        if (results_with_threads(r, counts[i], &weights, results) == n)
            for (int k = 0; k < n; k++)
                if (!same_bits(r, k ? "gradient" : "y", results[k], bits[k]))
                    row_fails(r, "result %d with %d threads is not that of one thread", k, counts[i]);
    for (int k = 0; k < n; k++)
        free(bits[k]);
}

static void bits_do_not_depend_on_the_number_of_threads(void **state)
{
    (void)state;
    rows_begin(__func__);
    taken_forward = taken_backward = 0;
    for (int i = 0; i < op_case_count(); i++) {
        op_case c;
        for (lab_dtype real = LAB_F32; large_case(i, &c) && real <= LAB_F64; real++) {
            run r;
            if (real == LAB_F32 && !case_is_real(&c))
                continue;
            run_make(&r, &c, real);
            run_operands(&r, ROW_MAJOR);
            check_threads(&r);
            run_free(&r);
        }
    }
    print_message("pieces taken by other threads: %llu forward, %llu backward\n", (unsigned long long)taken_forward,
                  (unsigned long long)taken_backward);
    assert_true(taken_forward > 0);
    assert_true(taken_backward > 0);
    set_threads(1);
    rows_end();
}

/* Ops that only look at memory differently have nothing to share, and a product is never cut along what it sums. */
static bool has_work(const op_case *c)
{
    if (strcmp(c->variant, "large inner size") == 0)
        return false;
    static const char *const views[] = {"reshape", "transpose", "permute", "slice", "broadcast_to", "contiguous"};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (strcmp(c->op, views[i]) == 0)
            return false;
    return true;
}

/* How often the op runs before somebody else has taken a piece of it; -1 if nobody does. */
static int tries_until_taken(run *r)
{
    enum { TRIES = 300 };
    for (int i = 1; i <= TRIES; i++) {
        uint64_t before = lab__parallel_pieces_taken();
        lab_graph_reset(r->graph);
        if (!run_value(r))
            return i;
        if (lab__parallel_pieces_taken() > before)
            return i;
    }
    return -1;
}

static void every_op_with_work_shares_it(void **state)
{
    (void)state;
    rows_begin(__func__);
    set_threads(2);
    for (int i = 0; i < op_case_count(); i++) {
        op_case c;
        run r;
        if (!large_case(i, &c) || !has_work(&c))
            continue;
        run_make(&r, &c, LAB_F64);
        run_operands(&r, ROW_MAJOR);
        if (tries_until_taken(&r) < 0)
            row_fails(&r, "no piece of it was ever taken by another thread");
        run_free(&r);
    }
    set_threads(1);
    rows_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_the_number_of_threads),
        cmocka_unit_test(every_op_with_work_shares_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
