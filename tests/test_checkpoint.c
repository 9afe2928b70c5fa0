/* test_checkpoint.c - results computed again instead of kept: the same gradients, less memory. */
#include <llmlab.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct layer {
    lab_tensor *weight; /* a leaf, read through ctx */
    lab_tensor *extra;  /* a tensor of the graph, read through ctx; may be NULL */
    int calls;
} layer;

static lab_tensor *layer_run(lab_graph *g, lab_tensor **xs, void *ctx)
{
    layer *l = ctx;
    l->calls++;
    lab_tensor *h = lab_tanh(g, lab_matmul(g, xs[0], l->weight));
    h = lab_mul(g, h, lab_sigmoid(g, h));
    return l->extra ? lab_add(g, h, lab_mul(g, l->extra, xs[0])) : h;
}

static lab_tensor *nested(lab_graph *g, lab_tensor **xs, void *ctx)
{
    lab_tensor *h = lab_checkpoint(g, layer_run, 1, xs, ctx);
    return lab_checkpoint(g, layer_run, 1, &h, ctx);
}

static void random_leaf(lab_tensor **t, int64_t n, uint64_t seed)
{
    lab_graph *g = lab_graph_create(NULL);
    assert_int_equal(lab_tensor_clone(t, lab_randn(g, LAB_F64, 2, (int64_t[]){n, n}, seed)), LAB_OK);
    lab_graph_destroy(&g);
}

/* The loss over a few layers, each checkpointed or plain; gradients of x and the weight into dx and dw. */
static void gradients(lab_fn f, bool checkpointed, lab_tensor *x, layer *l, bool create_graph, double *dx, double *dw,
                      size_t bytes)
{
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *scaled = lab_mul_scalar(g, x, 0.5), *h = scaled, *grads[2];
    l->extra = lab_exp(g, scaled); /* depends on x, and is read through ctx */
    for (int i = 0; i < 3; i++)
        h = checkpointed ? lab_checkpoint(g, f, 1, &h, l) : f(g, &h, l);
    lab_tensor *loss = lab_sum_all(g, lab_mul(g, h, h));
    if (create_graph) {
        lab_tensor *first;
        lab_grad(g, loss, NULL, 1, &x, &first, &(lab_grad_opts){.create_graph = true});
        loss = lab_sum_all(g, lab_mul(g, first, first));
    }
    lab_grad(g, loss, NULL, 2, (lab_tensor *[]){x, l->weight}, grads, NULL);
    if (lab_graph_status(g) != LAB_OK)
        fail_msg("%s", lab_graph_message(g));
    assert_int_equal(lab_tensor_read(grads[0], dx, bytes), LAB_OK);
    assert_int_equal(lab_tensor_read(grads[1], dw, bytes), LAB_OK);
    lab_graph_destroy(&g);
}

static void compare(lab_fn f, bool create_graph)
{
    enum { N = 5 };
    lab_tensor *x;
    layer l = {0};
    random_leaf(&x, N, 1);
    random_leaf(&l.weight, N, 2);
    double dx[2][N * N], dw[2][N * N];
    for (int checkpointed = 0; checkpointed < 2; checkpointed++)
        gradients(f, checkpointed, x, &l, create_graph, dx[checkpointed], dw[checkpointed], sizeof dx[0]);
    double largest = 0, worst = 0;
    for (int i = 0; i < N * N; i++) {
        largest = fmax(largest, fmax(fabs(dx[0][i]), fabs(dw[0][i])));
        worst = fmax(worst, fmax(fabs(dx[0][i] - dx[1][i]), fabs(dw[0][i] - dw[1][i])));
    }
    assert_true(largest > 0.01);
    assert_true(worst <= 1e-13 * largest);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&l.weight);
}

static void gradients_are_those_of_the_plain_function(void **state)
{
    (void)state;
    compare(layer_run, false);
}

static void a_checkpoint_inside_a_checkpoint_works(void **state)
{
    (void)state;
    compare(nested, false);
}

static void second_derivatives_run_the_function_on_the_graph_itself(void **state)
{
    (void)state;
    compare(layer_run, true);
    compare(nested, true);
}

static void inner_results_are_not_kept(void **state)
{
    (void)state;
    lab_tensor *x;
    layer l = {0};
    random_leaf(&x, 128, 1);
    random_leaf(&l.weight, 128, 2);
    size_t held[2];
    for (int checkpointed = 0; checkpointed < 2; checkpointed++) {
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *h = x, *d;
        for (int i = 0; i < 40; i++)
            h = checkpointed ? lab_checkpoint(g, layer_run, 1, &h, &l) : layer_run(g, &h, &l);
        assert_int_equal(lab_grad(g, lab_sum_all(g, h), NULL, 1, &x, &d, NULL), LAB_OK);
        held[checkpointed] = lab_graph_bytes(g);
        lab_graph_destroy(&g);
    }
    assert_true(held[1] < held[0] / 2);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&l.weight);
}

static lab_tensor *fails(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_matmul(g, xs[0], lab_full(g, LAB_F64, 2, (int64_t[]){77, 1}, 1));
}

static lab_tensor *gives_null(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)g;
    (void)xs;
    (void)ctx;
    return NULL;
}

static lab_tensor *gives_its_operand(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)g;
    (void)ctx;
    return xs[0];
}

static void the_functions_failure_is_the_graphs(void **state)
{
    (void)state;
    lab_tensor *x;
    random_leaf(&x, 3, 1);
    lab_graph *g = lab_graph_create(NULL);
    assert_null(lab_checkpoint(g, fails, 1, &x, NULL));
    assert_int_equal(lab_graph_status(g), LAB_ERR_SHAPE);
    assert_non_null(strstr(lab_graph_message(g), "[77, 1]"));
    lab_graph_reset(g);
    assert_null(lab_checkpoint(g, gives_null, 1, &x, NULL));
    assert_int_equal(lab_graph_status(g), LAB_ERR_ARGUMENT);
    lab_graph_reset(g);
    assert_null(lab_checkpoint(g, NULL, 1, &x, NULL));
    assert_int_equal(lab_graph_status(g), LAB_ERR_ARGUMENT);
    lab_graph_reset(g);
    lab_tensor *d, *y = lab_checkpoint(g, gives_its_operand, 1, &x, NULL);
    assert_int_equal(lab_grad(g, lab_sum_all(g, y), NULL, 1, &x, &d, NULL), LAB_OK);
    double values[9];
    assert_int_equal(lab_tensor_read(d, values, sizeof values), LAB_OK);
    assert_true(values[0] == 1 && values[8] == 1);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

/* xs[0] e^xs[1], which reads its operands in the other order and leaves the third alone. */
static lab_tensor *of_three(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_mul(g, lab_exp(g, xs[1]), xs[0]);
}

/* Each operand its own gradient; zeros to one that the function does not read, on memory that held something else. */
static void every_operand_gets_its_own_gradient(void **state)
{
    (void)state;
    lab_tensor *x[3], *grads[3];
    for (int i = 0; i < 3; i++)
        random_leaf(&x[i], 3, (uint64_t)i);
    lab_graph *g = lab_graph_create(NULL);
    for (int step = 0; step < 2; step++) {
        lab_graph_reset(g);
        lab_tensor *xs[3];
        for (int i = 0; i < 3; i++)
            xs[i] = lab_mul_scalar(g, x[i], 2);
        lab_tensor *y = lab_checkpoint(g, of_three, 3, xs, NULL);
        assert_int_equal(lab_grad(g, lab_sum_all(g, y), NULL, 3, x, grads, NULL), LAB_OK);
        for (int i = 0; i < 9; i++) {
            const double *a = lab_tensor_data(x[0]), *b = lab_tensor_data(x[1]);
            double want[] = {2 * exp(2 * b[i]), 4 * a[i] * exp(2 * b[i]), 0};
            for (int j = 0; j < 3; j++)
                assert_true(fabs(((double *)lab_tensor_data(grads[j]))[i] - want[j]) <= 1e-13 * fabs(want[j]));
        }
    }
    lab_graph_destroy(&g);
    for (int i = 0; i < 3; i++)
        lab_tensor_destroy(&x[i]);
}

/* One row fewer every time it is called. */
static lab_tensor *shrinks(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_slice(g, xs[0], 0, 0, 3 - (*(int *)ctx)++, 1);
}

static void another_shape_the_second_time_is_a_state_error(void **state)
{
    (void)state;
    lab_tensor *x, *d;
    int calls = 0;
    random_leaf(&x, 3, 1);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_checkpoint(g, shrinks, 1, &x, &calls);
    assert_int_equal(lab_grad(g, y, NULL, 1, &x, &d, NULL), LAB_ERR_STATE);
    assert_non_null(strstr(lab_graph_message(g), "second time"));
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

/* The library's memory comes filled with NaN, so that what nobody wrote shows. */
static void *allocate_nan(size_t bytes, size_t alignment, void *ctx)
{
    (void)ctx;
    void *memory = NULL;
    return posix_memalign(&memory, alignment, bytes) == 0 ? memset(memory, 0xFF, bytes) : NULL;
}

static void release_nan(void *memory, size_t bytes, void *ctx)
{
    (void)bytes;
    (void)ctx;
    free(memory);
}

static void the_function_runs_once_forward_and_once_per_backward(void **state)
{
    (void)state;
    lab_tensor *x, *d;
    layer l = {0};
    random_leaf(&x, 3, 1);
    random_leaf(&l.weight, 3, 2);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_checkpoint(g, layer_run, 1, &x, &l);
    assert_int_equal(l.calls, 1);
    lab_grad(g, y, NULL, 1, &x, &d, NULL);
    assert_int_equal(l.calls, 2);
    lab_graph_destroy(&g);
    g = lab_graph_create(&(lab_graph_opts){.inference = true});
    lab_checkpoint(g, layer_run, 1, &x, &l);
    assert_int_equal(l.calls, 3);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&l.weight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_plain_function),
        cmocka_unit_test(a_checkpoint_inside_a_checkpoint_works),
        cmocka_unit_test(second_derivatives_run_the_function_on_the_graph_itself),
        cmocka_unit_test(inner_results_are_not_kept),
        cmocka_unit_test(the_functions_failure_is_the_graphs),
        cmocka_unit_test(every_operand_gets_its_own_gradient),
        cmocka_unit_test(another_shape_the_second_time_is_a_state_error),
        cmocka_unit_test(the_function_runs_once_forward_and_once_per_backward),
    };
    if (lab_set_allocator(&(lab_allocator){allocate_nan, release_nan, NULL}) != LAB_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
