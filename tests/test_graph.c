/* test_graph.c - what a graph promises: ownership, the first error, versions, views' gradients, memory given back. */
#include <llmlab.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define assert_healthy(g)                                                                                              \
    do {                                                                                                               \
        if (lab_graph_status(g) != LAB_OK)                                                                             \
            fail_msg("%s", lab_graph_message(g));                                                                      \
    } while (0)

static lab_tensor *leaf(int rank, const int64_t *shape, const double *data)
{
    lab_tensor *t = NULL;
    assert_int_equal(lab_tensor_from(&t, LAB_F64, rank, shape, data), LAB_OK);
    return t;
}

static lab_tensor *scalar_leaf(double value)
{
    return leaf(0, NULL, &value);
}

static double at(const lab_tensor *t, int64_t i)
{
    double values[64];
    assert_non_null(t);
    assert_true(lab_tensor_numel(t) <= 64);
    assert_int_equal(lab_tensor_read(t, values, (size_t)lab_tensor_numel(t) * sizeof(double)), LAB_OK);
    return values[i];
}

/* ---- Ownership ------------------------------------------------------------------------------------------------------ */

static int released;

static void count_release(void *data, void *ctx)
{
    (void)data;
    assert_ptr_equal(ctx, &released);
    released++;
}

static void wrapped_memory_is_released_once_after_its_last_use(void **state)
{
    (void)state;
    double memory[3] = {1, 2, 3};
    lab_tensor *t = NULL;
    released = 0;
    assert_int_equal(lab_tensor_wrap(&t, LAB_F64, 1, (int64_t[]){3}, NULL, memory, count_release, &released), LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_slice(g, t, 0, 1, 3, 1);
    lab_tensor_destroy(&t);
    assert_null(t);
    assert_int_equal(released, 0); /* y is a view of it */
    assert_true(at(y, 0) == 2 && at(y, 1) == 3);
    lab_graph_reset(g);
    assert_int_equal(released, 1);
    lab_graph_destroy(&g);
    assert_null(g);
    assert_int_equal(released, 1);
    lab_graph_destroy(&g);
    lab_graph_destroy(NULL);
    lab_tensor_destroy(NULL);
    lab_tensor_destroy(&t);
}

static void release_is_not_called_when_wrapping_fails(void **state)
{
    (void)state;
    double memory[3];
    lab_tensor *t = NULL;
    released = 0;
    assert_int_equal(lab_tensor_wrap(&t, LAB_F64, 1, (int64_t[]){3}, (int64_t[]){-1}, memory, count_release, &released),
                     LAB_ERR_RANGE);
    assert_null(t);
    assert_int_equal(released, 0);
}

static void a_leaf_destroyed_while_in_use_still_gives_gradients(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *x = leaf(1, (int64_t[]){2}, (double[]){3, 4}), *alias = x, *dx = NULL;
    lab_tensor *y = lab_sum_all(g, lab_mul(g, x, x));
    lab_tensor_destroy(&x);
    assert_int_equal(lab_grad(g, y, NULL, 1, &alias, &dx, NULL), LAB_OK);
    assert_true(at(dx, 0) == 6 && at(dx, 1) == 8);
    lab_graph_destroy(&g);
}

static void destroying_a_graphs_tensor_only_clears_the_pointer(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *x = lab_full(g, LAB_F64, 0, NULL, 7), *again = x;
    lab_tensor_destroy(&x);
    assert_null(x);
    assert_true(at(again, 0) == 7);
    lab_graph_destroy(&g);
}

static void a_clone_outlives_its_graph(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_transpose(g, lab_reshape(g, lab_arange(g, LAB_F64, 0, 6, 1), 2, (int64_t[]){2, 3}), 0, 1);
    lab_tensor *copy = NULL;
    assert_int_equal(lab_tensor_clone(&copy, y), LAB_OK);
    lab_graph_destroy(&g);
    assert_true(at(copy, 1) == 3 && at(copy, 4) == 2);
    assert_int_equal(lab_tensor_stride(copy, 0), 2);
    lab_tensor_destroy(&copy);
}

/* ---- Errors ---------------------------------------------------------------------------------------------------------- */

static void the_first_failure_stays_and_everything_after_it_gives_null(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *a = lab_full(g, LAB_F32, 2, (int64_t[]){2, 3}, 1);
    lab_tensor *b = lab_full(g, LAB_F32, 2, (int64_t[]){4, 5}, 1);
    lab_tensor *y = lab_matmul(g, a, b), *dx = a;
    assert_null(y);
    assert_int_equal(lab_graph_status(g), LAB_ERR_SHAPE);
    assert_non_null(strstr(lab_graph_message(g), "matmul"));
    assert_non_null(strstr(lab_graph_message(g), "[2, 3]"));
    assert_non_null(strstr(lab_graph_message(g), "[4, 5]"));
    assert_string_equal(lab_last_message(), lab_graph_message(g));
    char first[512];
    snprintf(first, sizeof first, "%s", lab_graph_message(g));
    assert_null(lab_add(g, y, a));
    assert_null(lab_add(g, a, a));
    assert_int_equal(lab_grad(g, a, NULL, 1, &a, &dx, NULL), LAB_ERR_SHAPE);
    assert_null(dx);
    assert_string_equal(lab_graph_message(g), first);
    lab_graph_reset(g);
    assert_int_equal(lab_graph_status(g), LAB_OK);
    assert_string_equal(lab_graph_message(g), "");
    assert_non_null(lab_full(g, LAB_F32, 0, NULL, 1));
    lab_graph_destroy(&g);
}

static void a_null_operand_is_a_failure_that_names_its_position(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *a = lab_full(g, LAB_F32, 0, NULL, 1);
    assert_null(lab_add(g, a, NULL));
    assert_int_equal(lab_graph_status(g), LAB_ERR_ARGUMENT);
    assert_non_null(strstr(lab_graph_message(g), "add"));
    assert_non_null(strstr(lab_graph_message(g), "operand 2"));
    lab_graph_destroy(&g);
}

static void a_null_graph_is_out_of_memory(void **state)
{
    (void)state;
    lab_tensor *x = scalar_leaf(1), *dx = x;
    assert_null(lab_add(NULL, x, x));
    assert_null(lab_full(NULL, LAB_F32, 0, NULL, 1));
    assert_null(lab_detach(NULL, x));
    assert_null(lab_checkpoint(NULL, NULL, 0, NULL, NULL));
    assert_int_equal(lab_graph_status(NULL), LAB_ERR_MEMORY);
    assert_non_null(lab_graph_message(NULL));
    assert_int_equal(lab_backward(NULL, x), LAB_ERR_MEMORY);
    assert_int_equal(lab_grad(NULL, x, NULL, 1, &x, &dx, NULL), LAB_ERR_MEMORY);
    assert_null(dx);
    lab_graph_reset(NULL);
    lab_tensor_destroy(&x);
}

static void a_tensor_of_another_graph_is_refused(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL), *other = lab_graph_create(NULL);
    lab_tensor *a = lab_full(g, LAB_F32, 0, NULL, 1), *b = lab_full(other, LAB_F32, 0, NULL, 1);
    assert_null(lab_add(g, a, b));
    assert_int_equal(lab_graph_status(g), LAB_ERR_STATE);
    assert_int_equal(lab_graph_status(other), LAB_OK);
    lab_graph_destroy(&g);
    lab_graph_destroy(&other);
}

static void options_that_make_no_sense_give_a_failed_graph(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.reserved = {0, 1}});
    assert_int_equal(lab_graph_status(g), LAB_ERR_ARGUMENT);
    assert_non_null(strstr(lab_graph_message(g), "reserved"));
    lab_graph_reset(g); /* never silence: what was asked for is still not there */
    assert_int_equal(lab_graph_status(g), LAB_ERR_ARGUMENT);
    assert_non_null(strstr(lab_graph_message(g), "reserved"));
    lab_graph_destroy(&g);
    g = lab_graph_create(&(lab_graph_opts){.reserve = 1 << 20});
    assert_int_equal(lab_graph_status(g), LAB_OK);
    assert_true(lab_graph_bytes(g) >= 1 << 20);
    lab_graph_destroy(&g);
}

/* ---- What backward reads and where it adds --------------------------------------------------------------------------- */

static void backward_adds_into_leaves_that_require_it(void **state)
{
    (void)state;
    lab_tensor *x = scalar_leaf(3), *c = scalar_leaf(5);
    assert_int_equal(lab_tensor_require_grad(x, true), LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
    for (int round = 1; round <= 3; round++) {
        lab_backward(g, lab_mul(g, lab_mul(g, x, x), c));
        assert_healthy(g);
        assert_true(at(lab_tensor_grad(x), 0) == 30.0 * round);
        assert_null(lab_tensor_grad(c));
        lab_graph_reset(g);
    }
    lab_tensor *gradient = lab_tensor_grad(x);
    lab_tensor_clear_grad(x);
    assert_null(lab_tensor_grad(x));
    lab_backward(g, lab_mul(g, x, c));
    assert_ptr_equal(lab_tensor_grad(x), gradient); /* its memory was kept */
    assert_true(at(gradient, 0) == 5);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&c);
}

static void the_tape_stays_after_backward(void **state)
{
    (void)state;
    lab_tensor *x = scalar_leaf(2), *dx;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_exp(g, x);
    for (int i = 0; i < 3; i++) {
        lab_grad(g, y, NULL, 1, &x, &dx, NULL);
        assert_true(fabs(at(dx, 0) - exp(2)) < 1e-14);
    }
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

static void a_value_written_after_its_use_fails_only_the_derivatives_that_read_it(void **state)
{
    (void)state;
    lab_tensor *a = scalar_leaf(2), *b = scalar_leaf(3), *d = NULL;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *sum = lab_add(g, a, b), *product = lab_mul(g, a, b);
    assert_int_equal(lab_tensor_write(a, &(double){10}, sizeof(double)), LAB_OK);
    assert_int_equal(lab_grad(g, sum, NULL, 1, &a, &d, NULL), LAB_OK);     /* reads nothing */
    assert_int_equal(lab_grad(g, product, NULL, 1, &a, &d, NULL), LAB_OK); /* reads b */
    assert_true(at(d, 0) == 3);
    assert_int_equal(lab_grad(g, product, NULL, 1, &b, &d, NULL), LAB_ERR_STATE); /* reads a */
    assert_null(d);
    assert_non_null(strstr(lab_graph_message(g), "mul"));
    lab_graph_reset(g);
    product = lab_mul(g, a, b);
    ((double *)lab_tensor_data(a))[0] = 4;
    lab_tensor_touch(a);
    assert_int_equal(lab_grad(g, product, NULL, 1, &b, &d, NULL), LAB_ERR_STATE);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&a);
    lab_tensor_destroy(&b);
}

/* The same for a result that is read: e^x is its own derivative. */
static void a_result_written_since_fails_the_derivatives_that_read_it(void **state)
{
    (void)state;
    lab_tensor *x = scalar_leaf(2), *d = NULL;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *sum = lab_add(g, x, x), *power = lab_exp(g, x);
    lab_tensor_touch(sum);
    assert_int_equal(lab_grad(g, sum, NULL, 1, &x, &d, NULL), LAB_OK); /* reads nothing */
    lab_tensor_touch(power);
    assert_int_equal(lab_grad(g, power, NULL, 1, &x, &d, NULL), LAB_ERR_STATE);
    assert_non_null(strstr(lab_graph_message(g), "exp"));
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

/* No derivative goes through lab_detach, so what was read behind it may be written. */
static void what_lies_behind_detach_may_be_written(void **state)
{
    (void)state;
    lab_tensor *x = scalar_leaf(3), *a = scalar_leaf(2), *d[2];
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_mul(g, lab_neg(g, x), lab_detach(g, lab_mul(g, a, a)));
    assert_int_equal(lab_tensor_write(a, &(double){10}, sizeof(double)), LAB_OK);
    assert_int_equal(lab_grad(g, y, NULL, 2, (lab_tensor *[]){x, a}, d, NULL), LAB_OK);
    assert_true(at(d[0], 0) == -4 && at(d[1], 0) == 0);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&a);
}

static void backward_is_refused_for_more_than_one_element(void **state)
{
    (void)state;
    lab_tensor *x = scalar_leaf(3);
    assert_int_equal(lab_tensor_require_grad(x, true), LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
    assert_int_equal(lab_backward(g, lab_broadcast_to(g, x, 1, (int64_t[]){2})), LAB_ERR_SHAPE);
    assert_non_null(strstr(lab_graph_message(g), "one element"));
    assert_null(lab_tensor_grad(x));
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

static void a_failed_backward_leaves_gradients_as_they_were(void **state)
{
    (void)state;
    lab_tensor *a = scalar_leaf(2), *b = scalar_leaf(3);
    assert_int_equal(lab_tensor_require_grad(a, true), LAB_OK);
    assert_int_equal(lab_tensor_require_grad(b, true), LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
    lab_backward(g, lab_mul(g, a, lab_exp(g, a)));
    double before = at(lab_tensor_grad(a), 0);
    lab_graph_reset(g);
    lab_tensor *y = lab_mul(g, lab_mul(g, a, b), b);
    lab_tensor_touch(a);
    assert_int_equal(lab_backward(g, y), LAB_ERR_STATE);
    assert_true(at(lab_tensor_grad(a), 0) == before);
    assert_null(lab_tensor_grad(b));
    lab_graph_destroy(&g);
    lab_tensor_destroy(&a);
    lab_tensor_destroy(&b);
}

static void gradients_are_asked_of_leaves_results_and_views_alike(void **state)
{
    (void)state;
    lab_tensor *x = leaf(2, (int64_t[]){2, 2}, (double[]){1, 2, 3, 4});
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *row = lab_slice(g, x, 0, 0, 1, 1); /* [1, 2] and used twice */
    lab_tensor *square = lab_mul(g, row, row);
    lab_tensor *y = lab_add(g, lab_sum_all(g, square), lab_sum_all(g, x)); /* x is used beside its view */
    lab_tensor *xs[] = {x, row, square, y}, *grads[4];
    assert_int_equal(lab_grad(g, y, NULL, 4, xs, grads, NULL), LAB_OK);
    assert_true(at(grads[0], 0) == 3 && at(grads[0], 1) == 5 && at(grads[0], 2) == 1 && at(grads[0], 3) == 1);
    assert_true(at(grads[1], 0) == 2 && at(grads[1], 1) == 4); /* the view's own uses only */
    assert_true(at(grads[2], 0) == 1 && at(grads[3], 0) == 1);
    lab_tensor *unused = lab_full(g, LAB_F64, 1, (int64_t[]){2}, 1);
    assert_int_equal(lab_grad(g, y, NULL, 1, &unused, grads, NULL), LAB_OK);
    assert_true(at(grads[0], 0) == 0 && at(grads[0], 1) == 0);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

static void an_x_that_is_not_on_the_graph_is_a_state_error(void **state)
{
    (void)state;
    lab_tensor *x = scalar_leaf(1), *stranger = scalar_leaf(1), *d;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_exp(g, x);
    assert_int_equal(lab_grad(g, y, NULL, 1, &stranger, &d, NULL), LAB_ERR_STATE);
    assert_non_null(strstr(lab_graph_message(g), "xs[0]"));
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&stranger);
}

static void detach_stops_gradients(void **state)
{
    (void)state;
    lab_tensor *x = scalar_leaf(3), *d;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_mul(g, x, lab_detach(g, x));
    assert_int_equal(lab_grad(g, y, NULL, 1, &x, &d, NULL), LAB_OK);
    assert_true(at(d, 0) == 3);
    assert_int_equal(lab_grad(g, lab_detach(g, x), NULL, 1, &x, &d, NULL), LAB_OK);
    assert_true(at(d, 0) == 0);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

static void derivatives_of_any_order_come_from_create_graph(void **state)
{
    (void)state;
    lab_tensor *x = scalar_leaf(2);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_mul(g, lab_mul(g, x, x), lab_mul(g, x, x)); /* x^4 */
    double expected[] = {32, 48, 48, 24, 0};
    for (int order = 0; order < 5; order++) {
        lab_tensor *d;
        assert_int_equal(lab_grad(g, y, NULL, 1, &x, &d, &(lab_grad_opts){.create_graph = true}), LAB_OK);
        assert_true(at(d, 0) == expected[order]);
        y = d;
    }
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

static void slices_of_one_tensor_add_into_their_own_regions(void **state)
{
    (void)state;
    double data[12];
    for (int i = 0; i < 12; i++)
        data[i] = i + 1;
    lab_tensor *x = leaf(2, (int64_t[]){2, 6}, data), *d;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *q = lab_slice(g, x, 1, 0, 2, 1), *k = lab_slice(g, x, 1, 3, 5, 1); /* columns 2 and 5 uncovered */
    lab_tensor *y = lab_sum_all(g, lab_mul(g, q, k));
    assert_int_equal(lab_grad(g, y, NULL, 1, &x, &d, NULL), LAB_OK);
    double expected[] = {4, 5, 0, 1, 2, 0, 10, 11, 0, 7, 8, 0};
    for (int i = 0; i < 12; i++)
        assert_true(at(d, i) == expected[i]);
    /* The same with an overlapping third slice and a direct use. */
    lab_tensor *both = lab_slice(g, x, 1, 1, 4, 1);
    y = lab_add(g, y, lab_add(g, lab_sum_all(g, both), lab_sum_all(g, x)));
    assert_int_equal(lab_grad(g, y, NULL, 1, &x, &d, NULL), LAB_OK);
    double more[] = {5, 7, 2, 3, 3, 1, 11, 13, 2, 9, 9, 1};
    for (int i = 0; i < 12; i++)
        assert_true(at(d, i) == more[i]);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

static void views_of_a_view_used_twice_add_up_in_one_place(void **state)
{
    (void)state;
    lab_tensor *x = leaf(2, (int64_t[]){2, 2}, (double[]){1, 2, 3, 4}), *d;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *doubled = lab_mul_scalar(g, x, 2);
    lab_tensor *turned = lab_transpose(g, lab_reshape(g, doubled, 3, (int64_t[]){2, 1, 2}), 0, 2);
    lab_tensor *y = lab_add(g, lab_sum_all(g, lab_mul(g, turned, turned)), lab_sum_all(g, lab_exp(g, turned)));
    y = lab_add(g, y, lab_sum_all(g, turned));
    assert_int_equal(lab_grad(g, y, NULL, 1, &x, &d, NULL), LAB_OK);
    for (int i = 0; i < 4; i++) {
        double expected = 2 * (2 * 2 * (i + 1) + exp(2 * (i + 1)) + 1);
        assert_true(fabs(at(d, i) - expected) <= 1e-12 * expected);
    }
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

/* ---- Inference ------------------------------------------------------------------------------------------------------- */

static void an_inference_graph_gives_memory_back_and_refuses_gradients(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true});
    lab_tensor *x = scalar_leaf(1), *other = scalar_leaf(2), *d;
    lab_tensor *kept = lab_exp(g, x);
    lab_mark mark = lab_graph_mark(g);
    lab_tensor *big = lab_full(g, LAB_F64, 1, (int64_t[]){100000}, 1);
    lab_add(g, big, other);
    size_t held = lab_graph_bytes(g);
    for (int i = 0; i < 100; i++) {
        lab_graph_release(g, mark);
        big = lab_full(g, LAB_F64, 1, (int64_t[]){100000}, 1);
        lab_add(g, big, other);
        lab_add(g, kept, x);
    }
    assert_healthy(g);
    assert_true(lab_graph_bytes(g) == held);
    assert_true(fabs(at(kept, 0) - exp(1)) < 1e-15);
    assert_int_equal(lab_grad(g, kept, NULL, 1, &x, &d, NULL), LAB_ERR_STATE);
    lab_graph_destroy(&g);
    g = lab_graph_create(NULL);
    lab_graph_mark(g);
    assert_int_equal(lab_graph_status(g), LAB_ERR_STATE);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&other);
}

static void a_million_nodes_go_forward_and_back_without_recursion(void **state)
{
    (void)state;
    lab_tensor *x = scalar_leaf(1), *d;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = x;
    for (int i = 0; i < 1000000; i++)
        y = lab_add_scalar(g, y, 1);
    assert_healthy(g);
    assert_true(at(y, 0) == 1000001);
    assert_int_equal(lab_grad(g, y, NULL, 1, &x, &d, NULL), LAB_OK);
    assert_true(at(d, 0) == 1);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrapped_memory_is_released_once_after_its_last_use),
        cmocka_unit_test(release_is_not_called_when_wrapping_fails),
        cmocka_unit_test(a_leaf_destroyed_while_in_use_still_gives_gradients),
        cmocka_unit_test(destroying_a_graphs_tensor_only_clears_the_pointer),
        cmocka_unit_test(a_clone_outlives_its_graph),
        cmocka_unit_test(the_first_failure_stays_and_everything_after_it_gives_null),
        cmocka_unit_test(a_null_operand_is_a_failure_that_names_its_position),
        cmocka_unit_test(a_null_graph_is_out_of_memory),
        cmocka_unit_test(a_tensor_of_another_graph_is_refused),
        cmocka_unit_test(options_that_make_no_sense_give_a_failed_graph),
        cmocka_unit_test(backward_adds_into_leaves_that_require_it),
        cmocka_unit_test(the_tape_stays_after_backward),
        cmocka_unit_test(a_value_written_after_its_use_fails_only_the_derivatives_that_read_it),
        cmocka_unit_test(a_result_written_since_fails_the_derivatives_that_read_it),
        cmocka_unit_test(what_lies_behind_detach_may_be_written),
        cmocka_unit_test(backward_is_refused_for_more_than_one_element),
        cmocka_unit_test(a_failed_backward_leaves_gradients_as_they_were),
        cmocka_unit_test(gradients_are_asked_of_leaves_results_and_views_alike),
        cmocka_unit_test(an_x_that_is_not_on_the_graph_is_a_state_error),
        cmocka_unit_test(detach_stops_gradients),
        cmocka_unit_test(derivatives_of_any_order_come_from_create_graph),
        cmocka_unit_test(slices_of_one_tensor_add_into_their_own_regions),
        cmocka_unit_test(views_of_a_view_used_twice_add_up_in_one_place),
        cmocka_unit_test(an_inference_graph_gives_memory_back_and_refuses_gradients),
        cmocka_unit_test(a_million_nodes_go_forward_and_back_without_recursion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
