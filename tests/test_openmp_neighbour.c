/* test_openmp_neighbour.c - a program that uses OpenMP, with the library beside it: the number of threads of its
 * regions is its own, each thread of a region may run a graph, and a child may use the library.
 *
 * (OpenBLAS's build on OpenMP takes its thread count from OpenMP's, in each thread. .ci/run puts that build under this
 * program, and the others.)
 */
#include <llmlab.h>
#include <omp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "neighbour.h"

enum { PATIENCE_MS = 60000, MOST_THREADS = 3, LARGE_PRODUCT = 200, CHILD_IS_FINE = 7 };

static int threads_of_a_region(void)
{
    atomic_int threads = 0;
#pragma omp parallel
    atomic_fetch_add(&threads, 1);
    return atomic_load(&threads);
}

static void a_step_leaves_the_number_of_openmp_threads_as_it_was(void **state)
{
    (void)state;
    for (int count = 1; count <= MOST_THREADS; count++) {
        omp_set_num_threads(count);
        assert_null(neighbour_step_again());
        assert_int_equal(omp_get_max_threads(), count);
        assert_int_equal(threads_of_a_region(), count);
        assert_true(neighbour_product_is_right(LARGE_PRODUCT));
        assert_int_equal(omp_get_max_threads(), count);
    }
}

static void each_thread_of_a_region_runs_a_graph_and_keeps_its_own_number(void **state)
{
    (void)state;
    omp_set_num_threads(MOST_THREADS);
    atomic_int threads = 0, wrong = 0, changed = 0;
#pragma omp parallel
    {
        int mine = 2 + omp_get_thread_num();
        omp_set_num_threads(mine);
        for (int step = 0; step < 4; step++) {
            if (neighbour_step_again() != NULL)
                atomic_fetch_add(&wrong, 1);
            if (omp_get_max_threads() != mine)
                atomic_fetch_add(&changed, 1);
        }
        atomic_fetch_add(&threads, 1);
    }
    assert_int_equal(atomic_load(&threads), MOST_THREADS);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_int_equal(atomic_load(&changed), 0);
    assert_int_equal(omp_get_max_threads(), MOST_THREADS);
}

/* The child of a program that has used OpenMP cannot use OpenMP (GCC's waits for ever), but it can use the library. */
static void a_child_of_an_openmp_program_uses_the_library(void **state)
{
    (void)state;
    omp_set_num_threads(2);
    assert_int_equal(threads_of_a_region(), 2);
    assert_true(neighbour_product_is_right(LARGE_PRODUCT));
    pid_t child = fork();
    if (child == 0)
        _exit(neighbour_step_again() == NULL && omp_get_max_threads() == 2 ? CHILD_IS_FINE : 1);
    int status = 0;
    for (int ms = 0; waitpid(child, &status, WNOHANG) == 0; ms++) {
        if (ms == PATIENCE_MS)
            kill(child, SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), CHILD_IS_FINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_leaves_the_number_of_openmp_threads_as_it_was),
        cmocka_unit_test(each_thread_of_a_region_runs_a_graph_and_keeps_its_own_number),
        cmocka_unit_test(a_child_of_an_openmp_program_uses_the_library),
    };
    omp_set_dynamic(0);
    if (lab_set_threads(2) != LAB_OK || neighbour_step_again() != NULL) /* the bits that all others must have */
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
