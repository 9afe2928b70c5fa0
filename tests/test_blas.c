/* test_blas.c - BLAS's own thread count is 1 while the library multiplies, and its caller's again afterwards; names. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "gemm_case.h"
#include "kernels/parallel.h"

/* ThreadSanitizer asks for this; by itself it ends a child that starts threads, as OpenBLAS does. */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

extern __attribute__((weak)) int openblas_get_num_threads(void);
extern __attribute__((weak)) void openblas_set_num_threads(int n);
extern __attribute__((weak)) int openblas_get_parallel(void);
extern __attribute__((weak)) int omp_get_max_threads(void);

/* OpenBLAS on OpenMP: each thread has a count, which openblas_set_num_threads sets too. */
static bool count_is_of_thread(void)
{
    return openblas_get_parallel() == 2;
}

static int get_count(void)
{
    return count_is_of_thread() ? omp_get_max_threads() : openblas_get_num_threads();
}

/* Only OpenBLAS's count can be asked for here. */
static bool has_threads(void)
{
    return openblas_get_num_threads && openblas_set_num_threads && strcmp(lab__blas_threading(), "serial") != 0;
}

static void *multiply_once(void *unused)
{
    (void)unused;
    uint64_t stream = 1;
    gemm_product p = {.m = 5, .n = 6, .k = 7};
    case_layouts(&p, LAYOUT_ROWS, LAYOUT_ROWS, LAYOUT_ROWS);
    gemm_case x = case_make(&p, &stream);
    case_run(1, &x);
    const char *wrong = case_wrong(&x);
    case_free(&x);
    return wrong ? "wrong" : NULL;
}

static void blas_keeps_the_number_of_threads_its_caller_set(void **state)
{
    (void)state;
    if (!has_threads())
        skip();
    for (int threads = 1; threads <= 3; threads++) {
        openblas_set_num_threads(threads);
        assert_null(multiply_once(NULL));
        assert_int_equal(get_count(), threads);
        lab__blas_guard_enter();
        assert_int_equal(get_count(), 1);
        pthread_t other; /* comes and goes while we are inside */
        void *wrong;
        assert_int_equal(pthread_create(&other, NULL, multiply_once, NULL), 0);
        pthread_join(other, &wrong);
        assert_null(wrong);
        assert_int_equal(get_count(), 1);
        assert_null(multiply_once(NULL));
        assert_int_equal(get_count(), 1);
        lab__blas_guard_leave();
        assert_int_equal(get_count(), threads);
    }
}

static void *multiply_for_a_while(void *stop)
{
    uint64_t stream = 1;
    gemm_product p = {.m = 300, .n = 300, .k = 300};
    case_layouts(&p, LAYOUT_ROWS, LAYOUT_ROWS, LAYOUT_ROWS);
    gemm_case x = case_make(&p, &stream);
    while (!atomic_load((atomic_bool *)stop))
        case_run(1, &x);
    case_free(&x);
    return NULL;
}

static void blas_has_one_thread_while_it_multiplies(void **state)
{
    (void)state;
    if (!has_threads() || count_is_of_thread()) /* nobody sees another thread's count */
        skip();
    openblas_set_num_threads(3);
    atomic_bool stop = false;
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, multiply_for_a_while, &stop), 0);
    int threads = 3;
    for (int patience = 0; patience < 20000 && threads != 1; patience++) {
        threads = get_count();
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    atomic_store(&stop, true);
    pthread_join(other, NULL);
    assert_int_equal(threads, 1);
    assert_int_equal(get_count(), 3);
}

/* In a child whose parent had a thread inside the guard, which is not there to leave. */
static int child_of_a_guarded_parent(void)
{
    if (multiply_once(NULL) != NULL)
        return 1;
    return get_count() == 3 ? 7 : 2;
}

static void *stay_inside(void *context)
{
    atomic_int *where = context;
    lab__blas_guard_enter();
    atomic_store(where, 1);
    while (atomic_load(where) == 1)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    lab__blas_guard_leave();
    return NULL;
}

static void a_child_after_fork_gives_back_what_its_parent_had_set(void **state)
{
    (void)state;
    if (!has_threads())
        skip();
    lab__parallel_set_threads(1);
    openblas_set_num_threads(3);
    atomic_int where = 0;
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, stay_inside, &where), 0);
    while (atomic_load(&where) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(child_of_a_guarded_parent());
    int status = 0;
    waitpid(child, &status, 0);
    atomic_store(&where, 2);
    pthread_join(other, NULL);
    lab__parallel_set_threads(0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(get_count(), 3);
}

static void blas_has_a_name(void **state)
{
    (void)state;
    assert_true(strlen(lab__blas_name()) > 3);
    assert_non_null(lab__blas_core());
    const char *threading = lab__blas_threading();
    assert_true(!strcmp(threading, "serial") || !strcmp(threading, "pthread") || !strcmp(threading, "openmp") ||
                !strcmp(threading, "unknown"));
    if (strncmp(lab__blas_name(), "OpenBLAS", 8) == 0) {
        assert_memory_equal(lab__blas_name(), "OpenBLAS 0.", 11);
        assert_true(strlen(lab__blas_core()) > 0);
        assert_string_not_equal(threading, "unknown");
    }
    const char *expected = getenv("LAB_TEST_BLAS"); /* what .ci/run has put under us, "BLIS pthread" */
    if (expected) {
        size_t length = strcspn(expected, " ");
        assert_memory_equal(lab__blas_name(), expected, length);
        assert_string_equal(threading, strrchr(expected, ' ') + 1);
    }
}

static void the_direct_call_gives_the_product(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    for (int type = 0; type < KERNEL_TYPES; type++) {
        gemm_product p = {.type = (kernel_type)type, .m = 7, .n = 13, .k = 9};
        case_layouts(&p, LAYOUT_ROWS, LAYOUT_ROWS, LAYOUT_ROWS);
        gemm_case x = case_make(&p, &stream);
        lab__blas_guard_enter();
        lab__gemm_direct(p.type, p.m, p.n, p.k, x.p.a, x.p.b, x.p.c);
        lab__blas_guard_leave();
        assert_null(case_wrong(&x));
        case_free(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blas_keeps_the_number_of_threads_its_caller_set),
        cmocka_unit_test(blas_has_one_thread_while_it_multiplies),
        cmocka_unit_test(a_child_after_fork_gives_back_what_its_parent_had_set),
        cmocka_unit_test(blas_has_a_name),
        cmocka_unit_test(the_direct_call_gives_the_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
