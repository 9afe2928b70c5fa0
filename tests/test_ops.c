/* test_ops.c - every op of the engine: its value, its gradient, the gradient's gradient, and the same ones again.
 *
 * One table (op_cases_*.c) drives everything here. Operands in other layouts are test_ops_operands.c's subject, threads
 * test_ops_threads.c's, bad calls test_ops_errors.c's.
 */
#include "op_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autograd/ops/op_impl.h"
#include "llmlab/check.h"

/* The ops of api.md, in its order. */
static const char *const promised[] = {"add",
                                       "sub",
                                       "mul",
                                       "div",
                                       "neg",
                                       "add_scalar",
                                       "mul_scalar",
                                       "exp",
                                       "log",
                                       "sqrt",
                                       "rsqrt",
                                       "tanh",
                                       "sigmoid",
                                       "erf",
                                       "relu",
                                       "gelu",
                                       "silu",
                                       "pow_scalar",
                                       "abs",
                                       "sin",
                                       "cos",
                                       "maximum",
                                       "minimum",
                                       "equal",
                                       "less",
                                       "less_equal",
                                       "logical_and",
                                       "logical_or",
                                       "logical_not",
                                       "where",
                                       "matmul",
                                       "sum",
                                       "mean",
                                       "max",
                                       "argmax",
                                       "sum_all",
                                       "mean_all",
                                       "softmax",
                                       "log_softmax",
                                       "logsumexp",
                                       "reshape",
                                       "transpose",
                                       "permute",
                                       "slice",
                                       "concat",
                                       "broadcast_to",
                                       "cast",
                                       "contiguous",
                                       "gather_rows",
                                       "take_along_axis",
                                       "scatter_add_along_axis",
                                       "index_add",
                                       "constant",
                                       "full",
                                       "arange",
                                       "randn",
                                       "rand"};

enum { PROMISED = sizeof promised / sizeof *promised };

static bool has_case(const char *op)
{
    for (int i = 0; i < op_case_count(); i++)
        if (strcmp(op_case_at(i)->op, op) == 0)
            return true;
    return false;
}

/* The engine's table, the list above and the cases name the same ops. */
static void every_op_has_a_case(void **state)
{
    (void)state;
    int in_table = 0;
    for (; lab__op_table[in_table]; in_table++) {
        assert_true(in_table < PROMISED);
        assert_string_equal(lab__op_table[in_table]->name, promised[in_table]);
        if (!has_case(lab__op_table[in_table]->name))
            fail_msg("%s: has no case in tests/op_cases_*.c", lab__op_table[in_table]->name);
    }
    assert_int_equal(in_table, PROMISED);
    for (int i = 0; i < op_case_count(); i++) {
        bool known = false;
        for (int j = 0; j < PROMISED && !known; j++)
            known = strcmp(op_case_at(i)->op, promised[j]) == 0;
        if (!known)
            fail_msg("%s: a case for an op that does not exist", op_case_at(i)->op);
    }
}

/* An op is differentiable, by a formula or by design not; nothing in between is found out at run time. */
static void every_op_says_whether_it_is_differentiable(void **state)
{
    (void)state;
    for (int i = 0; lab__op_table[i]; i++) {
        const lab_op *op = lab__op_table[i];
        bool has_derivative = op->vjp || op->backward;
        bool constant = (op->flags & LAB_OP_NOT_DIFFERENTIABLE) != 0 || op->inputs == 0;
        if (has_derivative == constant)
            fail_msg("%s: %s", op->name, constant ? "not differentiable, yet has a derivative" : "lacks a derivative");
        if (has_derivative && !op->vjp)
            fail_msg("%s: its derivative cannot be recorded", op->name);
    }
}

/* Runs `body` for every case and dtype; cases without a float operand run once. */
static void for_every_row(const char *test, bool f32, void (*body)(run *r))
{
    rows_begin(test);
    for (int i = 0; i < op_case_count(); i++) {
        const op_case *c = op_case_at(i);
        for (lab_dtype real = f32 && case_is_real(c) ? LAB_F32 : LAB_F64; real <= LAB_F64; real++) {
            run r;
            run_make(&r, c, real);
            run_operands(&r, ROW_MAJOR);
            body(&r);
            run_free(&r);
        }
    }
    rows_end();
}

static void value_of_row(run *r)
{
    lab_tensor *y = run_value(r);
    if (y)
        check_value(r, "y", y);
}

static void values_agree_with_a_scalar_loop(void **state)
{
    (void)state;
    for_every_row(__func__, true, value_of_row);
}

static void gradient_of_row(run *r)
{
    if (r->c.derivatives >= 1 && !(r->c.flags & LARGE))
        check_value_and_gradient(r, "row");
}

static void gradients_agree_with_differences_of_the_scalar_loop(void **state)
{
    (void)state;
    for_every_row(__func__, true, gradient_of_row);
}

static void check_by_gradcheck(run *r, bool second_order)
{
    lab_gradcheck_report report;
    lab_gradcheck_opts opts = {.tolerance = 1e-7, .second_order = second_order, .seed = test_seed()};
    if (r->c.derivatives < (second_order ? 2 : 1) || r->c.flags & (LARGE | TO_F32 | STEEP))
        return;
    lab_status status = lab_gradcheck(case_apply, &r->c, r->c.n_inputs, r->leaves, &opts, &report);
    if (status != LAB_OK)
        row_fails(r, "gradcheck failed: %s: %s", lab_status_name(status), lab_last_message());
    else if (!report.passed)
        row_fails(r, "operand %d, element %lld: analytic %.17g, numeric %.17g (error %.3g, numeric error %.3g)",
                  report.input, (long long)report.element, report.analytic, report.numeric, report.worst_error,
                  report.numeric_error);
}

static void first_order_of_row(run *r)
{
    check_by_gradcheck(r, false);
}

static void gradients_pass_gradcheck(void **state)
{
    (void)state;
    for_every_row(__func__, false, first_order_of_row);
}

static void second_order_of_row(run *r)
{
    check_by_gradcheck(r, true);
}

static void second_gradients_pass_gradcheck(void **state)
{
    (void)state;
    for_every_row(__func__, false, second_order_of_row);
}

/* y, and the gradients of sum(weights * y) in the two forms. */
typedef struct outcome {
    lab_tensor *y, *plain[CASE_INPUTS], *recorded[CASE_INPUTS];
    int n, which[CASE_INPUTS];
    bool differentiated;
} outcome;

static bool outcome_of(run *r, outcome *o)
{
    array y, weights;
    lab_tensor *xs[CASE_INPUTS];
    *o = (outcome){.y = run_value(r)};
    if (!o->y)
        return false;
    if (r->c.derivatives < 1)
        return true;
    array_of(o->y, &y);
    weights_for(r, &y, &weights);
    o->n = run_real_operands(r, xs, o->which);
    o->differentiated = run_gradients(r, o->y, &weights, o->n, xs, o->plain, false) &&
                        run_gradients(r, o->y, &weights, o->n, xs, o->recorded, true);
    return o->differentiated;
}

static void both_forms_of_row(run *r)
{
    outcome o;
    array plain[CASE_INPUTS], recorded[CASE_INPUTS];
    if (!outcome_of(r, &o) || !o.differentiated)
        return;
    for (int i = 0; i < o.n; i++) {
        array_of(o.plain[i], &plain[o.which[i]]);
        array_of(o.recorded[i], &recorded[o.which[i]]);
    }
    for (int i = 0; i < o.n; i++) {
        int k = o.which[i];
        agree(r, k ? "plain gradient of a later operand" : "plain gradient of the first operand", &plain[k],
              &recorded[k], gradient_limit(r, recorded));
    }
}

static void destination_and_recorded_forms_agree(void **state)
{
    (void)state;
    for_every_row(__func__, true, both_forms_of_row);
}

static void second_step_of_row(run *r)
{
    outcome o;
    void *y, *plain[CASE_INPUTS], *recorded[CASE_INPUTS];
    if (r->c.flags & LARGE || !outcome_of(r, &o)) /* large ones: test_ops_threads.c */
        return;
    int n = o.n;
    y = bits_of(o.y);
    for (int i = 0; i < n; i++) {
        plain[i] = bits_of(o.plain[i]);
        recorded[i] = bits_of(o.recorded[i]);
    }
    for (int step = 2; step <= 3; step++) {
        lab_graph_reset(r->graph);
        if (!outcome_of(r, &o))
            break;
        same_bits(r, "y, next step", o.y, y);
        for (int i = 0; i < n; i++) {
            same_bits(r, "gradient, next step", o.plain[i], plain[i]);
            same_bits(r, "recorded gradient, next step", o.recorded[i], recorded[i]);
        }
    }
    free(y);
    for (int i = 0; i < n; i++) {
        free(plain[i]);
        free(recorded[i]);
    }
}

static void steps_after_reset_give_the_same_bits(void **state)
{
    (void)state;
    for_every_row(__func__, true, second_step_of_row);
}

/* Operand k is overwritten after the forward pass: the gradient by operand number i of those that have one fails, or is
 * what it was. */
static void overwrite_and_differentiate(run *r, int k, int i)
{
    lab_tensor *xs[CASE_INPUTS], *gradient, *y = run_value(r);
    int which[CASE_INPUTS];
    array values, weights;
    if (!y)
        return;
    array_of(y, &values);
    weights_for(r, &values, &weights);
    run_real_operands(r, xs, which);
    lab_tensor *seed = leaf_of(r, &weights, ROW_MAJOR);
    assert_int_equal(lab_grad(r->graph, y, seed, 1, &xs[i], &gradient, NULL), LAB_OK);
    void *before = bits_of(gradient), *kept = bits_of(r->leaves[k]);
    size_t bytes = (size_t)r->xs[k].numel * lab_dtype_size(r->xs[k].dtype);
    char *other = calloc(1, bytes + 1); /* zeros fit every operand, indices too */
    assert_non_null(other);
    assert_int_equal(lab_tensor_write(r->leaves[k], other, bytes), LAB_OK);
    lab_status status = lab_grad(r->graph, y, seed, 1, &xs[i], &gradient, NULL);
    if (status == LAB_OK)
        same_bits(r, "gradient after an operand that nobody should read was overwritten", gradient, before);
    else if (status != LAB_ERR_STATE || !strstr(lab_graph_message(r->graph), r->c.op))
        row_fails(r, "an overwritten operand: %s: %s", lab_status_name(status), lab_graph_message(r->graph));
    assert_int_equal(lab_tensor_write(r->leaves[k], kept, bytes), LAB_OK);
    lab_graph_reset(r->graph);
    lab_tensor_destroy(&seed);
    free(before);
    free(other);
    free(kept);
}

static void overwritten_operands_of_row(run *r)
{
    lab_tensor *xs[CASE_INPUTS];
    int which[CASE_INPUTS], n = r->c.derivatives && !(r->c.flags & LARGE) ? run_real_operands(r, xs, which) : 0;
    for (int k = 0; k < r->c.n_inputs; k++)
        for (int i = 0; i < n; i++)
            overwrite_and_differentiate(r, k, i);
}

/* What a derivative reads is declared, operand by operand: it fails when that was overwritten, and where it goes on
 * nothing has moved. */
static void derivatives_read_what_they_declare(void **state)
{
    (void)state;
    for_every_row(__func__, false, overwritten_operands_of_row);
}

/* On an inference graph too; there is no way back from it. */
static void inference_of_row(run *r)
{
    void *recorded;
    lab_tensor *y = r->c.flags & LARGE ? NULL : run_value(r);
    if (!y)
        return;
    recorded = bits_of(y);
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true});
    lab_tensor *again = case_apply(g, r->leaves, &r->c);
    if (again)
        same_bits(r, "y on an inference graph", again, recorded);
    else
        row_fails(r, "failed on an inference graph: %s", lab_graph_message(g));
    free(recorded);
    lab_graph_destroy(&g);
}

static void inference_graphs_give_the_same_bits(void **state)
{
    (void)state;
    for_every_row(__func__, true, inference_of_row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_case),
        cmocka_unit_test(every_op_says_whether_it_is_differentiable),
        cmocka_unit_test(values_agree_with_a_scalar_loop),
        cmocka_unit_test(gradients_agree_with_differences_of_the_scalar_loop),
        cmocka_unit_test(gradients_pass_gradcheck),
        cmocka_unit_test(second_gradients_pass_gradcheck),
        cmocka_unit_test(destination_and_recorded_forms_agree),
        cmocka_unit_test(steps_after_reset_give_the_same_bits),
        cmocka_unit_test(derivatives_read_what_they_declare),
        cmocka_unit_test(inference_graphs_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
