/* test_blas_neighbour.c - a program that has threads, forks and calls BLAS itself, with the library beside it: its
 * thread count is its own, its products are right, and so are ours.
 */
#include <llmlab.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "neighbour.h"

enum { PATIENCE_MS = 60000, MOST_THREADS = 3, SMALL_PRODUCT = 20, LARGE_PRODUCT = 200 };

/* ThreadSanitizer asks for this; by itself it ends a child that starts threads. */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

/* ---- Threads that run graphs ------------------------------------------------------------------------------------- */

typedef struct runner {
    pthread_t thread;
    int at_least;
    atomic_int steps;
    atomic_bool stop;
    const char *wrong;
} runner;

static void *run_steps(void *context)
{
    runner *r = context;
    while (!r->wrong && (atomic_load(&r->steps) < r->at_least || !atomic_load(&r->stop))) {
        r->wrong = neighbour_step_again();
        atomic_fetch_add(&r->steps, 1);
    }
    return NULL;
}

static void start(runner *r, int at_least)
{
    r->at_least = at_least;
    assert_int_equal(pthread_create(&r->thread, NULL, run_steps, r), 0);
}

static void finish(runner *r)
{
    atomic_store(&r->stop, true);
    pthread_join(r->thread, NULL);
    if (r->wrong)
        fail_msg("a step beside others: %s", r->wrong);
}

/* ---- The program's count ------------------------------------------------------------------------------------------- */

static void a_step_leaves_the_callers_thread_count_as_it_was(void **state)
{
    (void)state;
    if (!neighbour_has_count())
        skip();
    for (int count = 1; count <= MOST_THREADS; count++) {
        neighbour_set_count(count);
        assert_null(neighbour_step_again());
        assert_int_equal(neighbour_get_count(), count);
        assert_true(neighbour_product_is_right(LARGE_PRODUCT));
        assert_int_equal(neighbour_get_count(), count);
    }
}

static void two_graphs_at_once_leave_the_callers_thread_count_as_it_was(void **state)
{
    (void)state;
    if (!neighbour_has_count())
        skip();
    for (int count = 1; count <= MOST_THREADS; count++) {
        neighbour_set_count(count);
        runner runners[2] = {{.steps = 0}, {.steps = 0}};
        start(&runners[0], 5);
        start(&runners[1], 8);
        finish(&runners[0]);
        finish(&runners[1]);
        assert_int_equal(neighbour_get_count(), count);
    }
}

static void products_of_the_caller_beside_ours_are_right(void **state)
{
    (void)state;
    if (neighbour_is_serial()) /* bears one caller at a time */
        skip();
    if (neighbour_has_count())
        neighbour_set_count(2);
    runner other = {.steps = 0};
    start(&other, 3);
    int wrong = 0;
    for (int product = 0; product < 20 || atomic_load(&other.steps) < 3; product++)
        wrong += !neighbour_product_is_right(product % 2 ? LARGE_PRODUCT : SMALL_PRODUCT);
    finish(&other);
    assert_int_equal(wrong, 0);
    if (neighbour_has_count())
        assert_int_equal(neighbour_get_count(), 2);
}

/* ---- fork() -------------------------------------------------------------------------------------------------------- */

enum { CHILD_IS_FINE = 7 };

/* Its own product with one thread: BLAS on GCC's OpenMP would wait for threads that a fork loses. */
static int use_all_in_child(int count)
{
    if (neighbour_step_again() != NULL)
        return 1;
    if (neighbour_has_count() && neighbour_get_count() != count)
        return 2;
    if (neighbour_has_count())
        neighbour_set_count(1);
    return neighbour_product_is_right(LARGE_PRODUCT) ? CHILD_IS_FINE : 3;
}

/* The child's exit code, or minus the signal that ended it. */
static int fork_and_wait(int count)
{
    pid_t child = fork();
    if (child == 0)
        _exit(use_all_in_child(count));
    int status = 0;
    for (int ms = 0; waitpid(child, &status, WNOHANG) == 0; ms++) {
        if (ms == PATIENCE_MS)
            kill(child, SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void a_child_forked_while_graphs_run_computes_as_its_parent(void **state)
{
    (void)state;
    int count = neighbour_has_count() ? 2 : 1;
    if (neighbour_has_count())
        neighbour_set_count(count);
    runner runners[2] = {{.steps = 0}, {.steps = 0}};
    start(&runners[0], 1);
    start(&runners[1], 1);
    int codes[10];
    for (int i = 0; i < 10; i++)
        codes[i] = fork_and_wait(count);
    finish(&runners[0]);
    finish(&runners[1]);
    for (int i = 0; i < 10; i++)
        assert_int_equal(codes[i], CHILD_IS_FINE);
    if (neighbour_has_count())
        assert_int_equal(neighbour_get_count(), count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_leaves_the_callers_thread_count_as_it_was),
        cmocka_unit_test(two_graphs_at_once_leave_the_callers_thread_count_as_it_was),
        cmocka_unit_test(products_of_the_caller_beside_ours_are_right),
        cmocka_unit_test(a_child_forked_while_graphs_run_computes_as_its_parent),
    };
    if (lab_set_threads(2) != LAB_OK || neighbour_step_again() != NULL) /* the bits that all others must have */
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
