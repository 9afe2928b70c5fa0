/* test_ops_errors.c - what ops refuse, with which code, and what they say about it.
 *
 * A failure stays on the graph: the first one, until reset. Nothing here may crash, leak or print.
 */
#include "op_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Whether the graph failed as it should: the code, the op's name first, and everything that must be said. */
static void check_refusal(const run *r, lab_graph *g, const lab_tensor *y, lab_status status, const char *const *says,
                          int n_says)
{
    char prefix[64];
    const char *message = lab_graph_message(g);
    snprintf(prefix, sizeof prefix, "%s: ", r->c.op);
    if (y)
        row_fails(r, "returned a tensor, expected NULL");
    if (lab_graph_status(g) != status)
        row_fails(r, "status is %s, expected %s (\"%s\")", lab_status_name(lab_graph_status(g)),
                  lab_status_name(status), message);
    if (strncmp(message, prefix, strlen(prefix)) != 0)
        row_fails(r, "\"%s\" does not start with the op's name", message);
    for (int i = 0; i < n_says && says[i]; i++)
        if (!strstr(message, says[i]))
            row_fails(r, "\"%s\" does not say \"%s\"", message, says[i]);
    if (strcmp(message, lab_last_message()) != 0)
        row_fails(r, "lab_last_message is \"%s\", expected \"%s\"", lab_last_message(), message);
}

/* Afterwards the graph answers NULL, keeps its first failure, and is as new after reset. */
static void check_that_it_sticks(const run *r, lab_graph *g)
{
    char first[512];
    lab_status status = lab_graph_status(g);
    snprintf(first, sizeof first, "%s", lab_graph_message(g));
    lab_tensor *two = lab_full(g, LAB_F32, 0, NULL, 2);
    if (two || lab_add(g, two, two) || lab_graph_status(g) != status || strcmp(first, lab_graph_message(g)) != 0)
        row_fails(r, "a later op changed \"%s\" to \"%s\"", first, lab_graph_message(g));
    lab_graph_reset(g);
    two = lab_full(g, LAB_F32, 0, NULL, 2);
    if (lab_graph_status(g) != LAB_OK || !lab_add(g, two, two) || lab_graph_message(g)[0] != 0)
        row_fails(r, "reset did not heal the graph: %s", lab_graph_message(g));
}

static void bad_calls_are_refused_by_name(void **state)
{
    (void)state;
    rows_begin(__func__);
    for (int i = 0; i < bad_case_count(); i++) {
        const bad_case *bad = bad_case_at(i);
        run r = {.c = bad->call, .graph = lab_graph_create(NULL)};
        for (int k = 0; k < r.c.n_inputs; k++) {
            uint64_t random = test_seed();
            const case_input *in = &r.c.in[k];
            array_make(&r.xs[k], bad->dtypes[k], in->rank, in->shape);
            for (int64_t e = 0; e < r.xs[k].numel; e++)
                r.xs[k].data[e] = floorl(random_between(&random, in->low, in->high));
            r.leaves[k] = leaf_of(&r, &r.xs[k], ROW_MAJOR);
        }
        lab_tensor *y = case_apply(r.graph, r.leaves, &r.c);
        check_refusal(&r, r.graph, y, bad->status, bad->says, 3);
        check_that_it_sticks(&r, r.graph);
        run_free(&r);
    }
    rows_end();
}

/* The first case of every op, with operands. */
static bool first_of_its_op(int i)
{
    const op_case *c = op_case_at(i);
    return c->n_inputs > 0 && (i == 0 || strcmp(c->op, op_case_at(i - 1)->op) != 0);
}

static void a_missing_operand_is_named_by_its_position(void **state)
{
    (void)state;
    rows_begin(__func__);
    for (int i = 0; i < op_case_count(); i++)
        for (int k = 0; first_of_its_op(i) && k < op_case_at(i)->n_inputs; k++) {
            run r;
            char position[24];
            const char *says[] = {position, "NULL"};
            snprintf(position, sizeof position, "operand %d", k + 1);
            run_make(&r, op_case_at(i), LAB_F32);
            run_operands(&r, ROW_MAJOR);
            lab_tensor_destroy(&r.leaves[k]);
            check_refusal(&r, r.graph, case_apply(r.graph, r.leaves, &r.c), LAB_ERR_ARGUMENT, says, 2);
            check_that_it_sticks(&r, r.graph);
            run_free(&r);
        }
    rows_end();
}

static void operands_of_another_graph_are_refused(void **state)
{
    (void)state;
    rows_begin(__func__);
    for (int i = 0; i < op_case_count(); i++)
        for (int k = 0; first_of_its_op(i) && k < op_case_at(i)->n_inputs; k++) {
            run r;
            lab_graph *other = lab_graph_create(NULL);
            run_make(&r, op_case_at(i), LAB_F32);
            run_operands(&r, ROW_MAJOR);
            lab_tensor *leaf = r.leaves[k];
            r.leaves[k] = lab_contiguous(other, leaf);
            check_refusal(&r, r.graph, case_apply(r.graph, r.leaves, &r.c), LAB_ERR_STATE, NULL, 0);
            check_that_it_sticks(&r, r.graph);
            r.leaves[k] = leaf;
            lab_graph_destroy(&other);
            run_free(&r);
        }
    rows_end();
}

static void without_a_graph_there_is_no_tensor(void **state)
{
    (void)state;
    rows_begin(__func__);
    for (int i = 0; i < op_case_count(); i++) {
        run r;
        if (op_case_at(i)->flags & LARGE)
            continue;
        run_make(&r, op_case_at(i), LAB_F32);
        run_operands(&r, ROW_MAJOR);
        if (case_apply(NULL, r.leaves, &r.c))
            row_fails(&r, "returned a tensor without a graph");
        run_free(&r);
    }
    assert_int_equal(lab_graph_status(NULL), LAB_ERR_MEMORY);
    rows_end();
}

/* The index that does not fit is named with its place among the indices. */
static void a_bad_index_is_named_with_its_place(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *table = lab_full(g, LAB_F32, 2, (int64_t[]){5, 3}, 1);
    lab_tensor *indices = lab_constant(g, LAB_I64, 2, (int64_t[]){2, 3}, (int64_t[]){0, 1, 2, 3, 41, 4});
    assert_null(lab_gather_rows(g, table, indices));
    assert_int_equal(lab_graph_status(g), LAB_ERR_RANGE);
    assert_non_null(strstr(lab_graph_message(g), "41"));
    assert_non_null(strstr(lab_graph_message(g), "1, 1"));
    lab_graph_destroy(&g);
}

/* Memory without end, by a stride of 0: BLAS counts in int. */
static void check_too_large(int rank_a, const int64_t *a_shape, int rank_b, const int64_t *b_shape, lab_dtype dtype)
{
    double one = 1;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *dot = lab_full(g, dtype, 0, NULL, one);
    lab_tensor *a = lab_broadcast_to(g, dot, rank_a, a_shape), *b = lab_broadcast_to(g, dot, rank_b, b_shape);
    assert_int_equal(lab_graph_status(g), LAB_OK);
    lab_tensor *y = lab_matmul(g, a, b);
    if (y || lab_graph_status(g) != LAB_ERR_RANGE)
        fail_msg("rank %d @ rank %d: %s %s", rank_a, rank_b, lab_status_name(lab_graph_status(g)),
                 lab_graph_message(g));
    assert_non_null(strstr(lab_graph_message(g), "matmul: "));
    assert_non_null(strstr(lab_graph_message(g), "2147483648"));
    lab_graph_destroy(&g);
}

static void products_too_large_for_blas_are_out_of_range(void **state)
{
    (void)state;
    const int64_t many = (int64_t)INT32_MAX + 1;
    for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
        check_too_large(2, (int64_t[]){1, many}, 2, (int64_t[]){many, 1}, dtype);
        check_too_large(1, (int64_t[]){many}, 1, (int64_t[]){many}, dtype);
        check_too_large(2, (int64_t[]){many, 1}, 2, (int64_t[]){1, 1}, dtype);
        check_too_large(2, (int64_t[]){1, 1}, 2, (int64_t[]){1, many}, dtype);
        check_too_large(1, (int64_t[]){many}, 2, (int64_t[]){many, 2}, dtype);
        check_too_large(3, (int64_t[]){2, 3, many}, 2, (int64_t[]){many, 2}, dtype);
    }
}

/* A result whose bytes cannot be counted is refused before anything is asked for. */
static void results_that_overflow_are_out_of_range(void **state)
{
    (void)state;
    const int64_t many = (int64_t)1 << 40;
    lab_graph *g = lab_graph_create(NULL);
    for (int which = 0; which < 4; which++) {
        lab_tensor *one = lab_full(g, LAB_F32, 0, NULL, 1);
        lab_tensor *column = lab_broadcast_to(g, one, 2, (int64_t[]){many, 1});
        lab_tensor *row = lab_broadcast_to(g, one, 2, (int64_t[]){1, many});
        assert_int_equal(lab_graph_status(g), LAB_OK);
        lab_tensor *y = which == 0   ? lab_add(g, column, row)
                        : which == 1 ? lab_less(g, column, row)
                        : which == 2 ? lab_where(g, lab_full(g, LAB_BOOL, 0, NULL, 1), column, row)
                                     : lab_broadcast_to(g, one, 2, (int64_t[]){many, many});
        assert_null(y);
        if (lab_graph_status(g) != LAB_ERR_RANGE)
            fail_msg("%d: %s %s", which, lab_status_name(lab_graph_status(g)), lab_graph_message(g));
        lab_graph_reset(g);
    }
    lab_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_calls_are_refused_by_name),
        cmocka_unit_test(a_missing_operand_is_named_by_its_position),
        cmocka_unit_test(operands_of_another_graph_are_refused),
        cmocka_unit_test(without_a_graph_there_is_no_tensor),
        cmocka_unit_test(a_bad_index_is_named_with_its_place),
        cmocka_unit_test(products_too_large_for_blas_are_out_of_range),
        cmocka_unit_test(results_that_overflow_are_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
