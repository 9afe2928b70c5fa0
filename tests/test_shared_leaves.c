/* test_shared_leaves.c - two threads, a graph each, the same leaves: for reading and for lab_grad. Run under
 * ThreadSanitizer in CI. */
#include <llmlab.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { N = 160, THREADS = 2, ROUNDS = 6 };

static lab_tensor *weight, *input;

typedef struct result {
    float gradient[N * N];
    lab_status status;
} result;

static lab_tensor *inner(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_gelu(g, lab_matmul(g, xs[0], weight), LAB_GELU_TANH);
}

static void *run(void *argument)
{
    result *r = argument;
    lab_graph *g = lab_graph_create(NULL);
    for (int round = 0; round < ROUNDS; round++) {
        lab_graph_reset(g);
        lab_tensor *d, *x = input;
        lab_tensor *h = lab_checkpoint(g, inner, 1, &x, NULL);
        lab_tensor *y = lab_mean_all(g, lab_softmax(g, lab_matmul(g, h, lab_transpose(g, weight, 0, 1)), -1));
        lab_tensor *loss = lab_add(g, y, lab_sum_all(g, lab_mul(g, weight, input)));
        lab_grad(g, loss, NULL, 1, &weight, &d, NULL);
        r->status = lab_graph_status(g);
        if (r->status != LAB_OK || lab_tensor_read(d, r->gradient, sizeof r->gradient) != LAB_OK)
            break;
    }
    lab_graph_destroy(&g);
    return NULL;
}

static void two_threads_share_leaves_and_get_the_same_bits(void **state)
{
    (void)state;
    static result results[THREADS + 1];
    lab_graph *g = lab_graph_create(NULL);
    assert_int_equal(lab_tensor_clone(&weight, lab_randn(g, LAB_F32, 2, (int64_t[]){N, N}, 1)), LAB_OK);
    assert_int_equal(lab_tensor_clone(&input, lab_randn(g, LAB_F32, 2, (int64_t[]){N, N}, 2)), LAB_OK);
    lab_graph_destroy(&g);
    run(&results[THREADS]);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, &results[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i <= THREADS; i++) {
        assert_int_equal(results[i].status, LAB_OK);
        assert_memory_equal(results[i].gradient, results[THREADS].gradient, sizeof results[i].gradient);
    }
    lab_tensor_destroy(&weight);
    lab_tensor_destroy(&input);
}

/* One thread destroys its reference while the other's graph still reads the leaf. */
static void *use_and_drop(void *argument)
{
    lab_tensor *mine = argument;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_sum_all(g, lab_mul(g, mine, mine));
    double value;
    lab_status status = lab_tensor_read(y, &value, sizeof value);
    lab_graph_destroy(&g);
    return status == LAB_OK && value == 30 ? NULL : argument;
}

static void a_leaf_lives_until_its_last_graph_in_any_thread(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        lab_tensor *x;
        pthread_t thread;
        assert_int_equal(lab_tensor_from(&x, LAB_F64, 1, (int64_t[]){4}, (double[]){1, 2, 3, 4}), LAB_OK);
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *y = lab_exp(g, x);
        assert_int_equal(pthread_create(&thread, NULL, use_and_drop, x), 0);
        lab_graph_destroy(&g);
        (void)y;
        void *failed;
        assert_int_equal(pthread_join(thread, &failed), 0);
        assert_null(failed);
        lab_tensor_destroy(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads_share_leaves_and_get_the_same_bits),
        cmocka_unit_test(a_leaf_lives_until_its_last_graph_in_any_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
