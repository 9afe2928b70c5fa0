/* test_parallel.c - the pool: every piece once, the caller takes part, nesting, busy pools, fork, threads that cannot
 * be made.
 *
 * pthread_create passes through __wrap_pthread_create (a linker option in meson.build), so that it can be made to fail;
 * likewise pthread_cond_broadcast, so that a wake-up can be lost.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/parallel.h"

enum { PATIENCE_MS = 20000 };

/* ---- Threads that cannot be made ----------------------------------------------------------------------------------- */

static atomic_int threads_allowed = 1 << 20, threads_refused;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    if (atomic_fetch_sub(&threads_allowed, 1) > 0)
        return __real_pthread_create(thread, attributes, start, argument);
    atomic_fetch_add(&threads_refused, 1);
    return EAGAIN;
}

/* ---- Wake-ups that are lost ---------------------------------------------------------------------------------------- */

static atomic_int broadcasts_to_lose;

int __real_pthread_cond_broadcast(pthread_cond_t *condition);
int __wrap_pthread_cond_broadcast(pthread_cond_t *condition);

int __wrap_pthread_cond_broadcast(pthread_cond_t *condition)
{
    return atomic_fetch_sub(&broadcasts_to_lose, 1) > 0 ? 0 : __real_pthread_cond_broadcast(condition);
}

/* ThreadSanitizer asks for this; by itself it ends a child that starts threads. */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

/* ---- Waiting with patience ----------------------------------------------------------------------------------------- */

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* False if it took too long. */
static bool wait_until(atomic_int *counter, int at_least)
{
    for (int64_t start = milliseconds(); atomic_load(counter) < at_least; nap())
        if (milliseconds() - start > PATIENCE_MS)
            return false;
    return true;
}

/* Pieces that can only end when `needed` of them run at the same time. */
typedef struct meeting {
    atomic_int arrived, late;
    int needed;
} meeting;

static void meet(void *context, int64_t piece, int worker)
{
    (void)piece, (void)worker;
    meeting *m = context;
    atomic_fetch_add(&m->arrived, 1);
    if (!wait_until(&m->arrived, m->needed))
        atomic_fetch_add(&m->late, 1);
}

static bool threads_meet(int threads)
{
    meeting m = {.needed = threads};
    lab__parallel_set_threads(threads);
    lab__parallel_run(threads, meet, &m);
    return atomic_load(&m.late) == 0;
}

/* ---- Every piece once ---------------------------------------------------------------------------------------------- */

enum { MOST_PIECES = 5000 };

typedef struct tally {
    atomic_int runs[MOST_PIECES], in_use[PARALLEL_MAX_THREADS], bad_worker, shared_worker;
    int threads;
} tally;

static void count_piece(void *context, int64_t piece, int worker)
{
    tally *t = context;
    if (worker < 0 || worker >= t->threads) {
        atomic_fetch_add(&t->bad_worker, 1);
        return;
    }
    if (atomic_fetch_add(&t->in_use[worker], 1) != 0)
        atomic_fetch_add(&t->shared_worker, 1);
    atomic_fetch_add(&t->runs[piece], 1);
    atomic_fetch_sub(&t->in_use[worker], 1);
}

static void every_piece_runs_once_and_no_two_workers_are_the_same(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 7, 3, 32}, pieces[] = {0, 1, 2, 3, 7, 8, 100, MOST_PIECES};
    static tally t;
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        for (size_t j = 0; j < sizeof pieces / sizeof *pieces; j++) {
            memset(&t, 0, sizeof t);
            t.threads = threads[i];
            lab__parallel_set_threads(threads[i]);
            lab__parallel_run(pieces[j], count_piece, &t);
            assert_int_equal(atomic_load(&t.bad_worker), 0);
            assert_int_equal(atomic_load(&t.shared_worker), 0);
            for (int piece = 0; piece < MOST_PIECES; piece++)
                assert_int_equal(atomic_load(&t.runs[piece]), piece < pieces[j]);
        }
}

static void add_one(void *context, int64_t piece, int worker)
{
    (void)piece, (void)worker;
    atomic_fetch_add((atomic_int *)context, 1);
}

static void thousands_of_short_runs_lose_no_wake_up(void **state)
{
    (void)state;
    static const int threads[] = {2, 7};
    for (int i = 0; i < 2; i++) {
        lab__parallel_set_threads(threads[i]);
        atomic_int sum = 0;
        for (int run = 0; run < 3000; run++) {
            lab__parallel_run(3, add_one, &sum);
            assert_int_equal(atomic_load(&sum), 3 * (run + 1));
            if (run % 100 == 0)
                nap(); /* long enough for the workers to fall asleep */
        }
    }
}

/* ---- Who works ------------------------------------------------------------------------------------------------------ */

static void several_threads_work_at_the_same_time(void **state)
{
    (void)state;
    for (int threads = 2; threads <= 7; threads += 5) {
        uint64_t before = lab__parallel_pieces_taken();
        assert_true(threads_meet(threads));
        assert_int_equal(lab__parallel_pieces_taken() - before, threads - 1);
    }
}

typedef struct whereabouts {
    pthread_t caller;
    atomic_int elsewhere, other_worker;
} whereabouts;

static void look_around(void *context, int64_t piece, int worker)
{
    (void)piece;
    whereabouts *w = context;
    if (!pthread_equal(w->caller, pthread_self()))
        atomic_fetch_add(&w->elsewhere, 1);
    if (worker != 0)
        atomic_fetch_add(&w->other_worker, 1);
}

static void one_thread_is_the_caller_alone(void **state)
{
    (void)state;
    whereabouts w = {.caller = pthread_self()};
    lab__parallel_set_threads(1);
    uint64_t before = lab__parallel_pieces_taken();
    lab__parallel_run(1000, look_around, &w);
    assert_int_equal(atomic_load(&w.elsewhere) + atomic_load(&w.other_worker), 0);
    assert_int_equal(lab__parallel_pieces_taken(), before);
}

typedef struct nest {
    pthread_t thread;
    int worker;
    atomic_int wrong, inner;
    atomic_int outer_arrived;
    int outer;
} nest;

static void inner_piece(void *context, int64_t piece, int worker)
{
    (void)piece;
    nest *n = context;
    if (!pthread_equal(n->thread, pthread_self()) || n->worker != worker)
        atomic_fetch_add(&n->wrong, 1);
    atomic_fetch_add(&n->inner, 1);
}

static void outer_piece(void *context, int64_t piece, int worker)
{
    nest *shared = context, mine = {.thread = pthread_self(), .worker = worker};
    atomic_fetch_add(&shared->outer_arrived, 1);
    wait_until(&shared->outer_arrived, shared->outer);
    lab__parallel_run(50, inner_piece, &mine);
    lab__parallel_run(1, inner_piece, &mine);
    lab__parallel_run(50, inner_piece, &mine);
    atomic_fetch_add(&shared->wrong, atomic_load(&mine.wrong));
    atomic_fetch_add(&shared->inner, atomic_load(&mine.inner));
    (void)piece;
}

static void a_run_inside_a_piece_stays_with_its_worker(void **state)
{
    (void)state;
    lab__parallel_set_threads(2);
    for (int outer = 1; outer <= 2; outer++) {
        nest n = {.outer = outer};
        lab__parallel_run(outer, outer_piece, &n);
        assert_int_equal(atomic_load(&n.outer_arrived), outer);
        assert_int_equal(atomic_load(&n.inner), 101 * outer);
        assert_int_equal(atomic_load(&n.wrong), 0);
    }
    assert_true(threads_meet(2)); /* and what is no piece is not taken for one */
}

/* ---- Two callers ---------------------------------------------------------------------------------------------------- */

typedef struct occupation {
    atomic_int begun, released, done;
} occupation;

static void hold_pool(void *context, int64_t piece, int worker)
{
    (void)piece, (void)worker;
    occupation *o = context;
    atomic_fetch_add(&o->begun, 1);
    wait_until(&o->released, 1);
}

static void *occupy(void *context)
{
    occupation *o = context;
    lab__parallel_run(2, hold_pool, o);
    atomic_fetch_add(&o->done, 1);
    return NULL;
}

static void who_comes_while_the_pool_is_busy_works_alone(void **state)
{
    (void)state;
    lab__parallel_set_threads(2);
    occupation o = {.begun = 0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, occupy, &o), 0);
    assert_true(wait_until(&o.begun, 2));
    whereabouts w = {.caller = pthread_self()};
    lab__parallel_run(100, look_around, &w);
    assert_int_equal(atomic_load(&w.elsewhere) + atomic_load(&w.other_worker), 0);
    atomic_store(&o.released, 1);
    pthread_join(thread, NULL);
    assert_true(threads_meet(2));
}

static void *run_many(void *context)
{
    atomic_int *bad = context;
    for (int run = 0; run < 500; run++) {
        atomic_int sum = 0;
        lab__parallel_run(5, add_one, &sum);
        if (atomic_load(&sum) != 5)
            atomic_fetch_add(bad, 1);
    }
    return NULL;
}

static void callers_from_many_threads_do_not_disturb_one_another(void **state)
{
    (void)state;
    lab__parallel_set_threads(3);
    atomic_int bad = 0;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, &bad), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&bad), 0);
}

/* ---- fork() --------------------------------------------------------------------------------------------------------- */

/* The exit code of a child that does `work`; -1 if it had to be killed. */
static int in_child(int (*work)(void))
{
    pid_t child = fork();
    if (child == 0)
        _exit(work());
    int status = 0;
    for (int64_t start = milliseconds(); waitpid(child, &status, WNOHANG) == 0; nap())
        if (milliseconds() - start > 2 * PATIENCE_MS) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return -1;
        }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int child_work(void)
{
    return threads_meet(2) && threads_meet(3) ? 7 : 1;
}

static void a_child_after_fork_starts_its_own_workers(void **state)
{
    (void)state;
    assert_true(threads_meet(3));
    assert_int_equal(in_child(child_work), 7);
    assert_true(threads_meet(3));
}

static void a_child_forked_while_the_pool_is_busy_is_free(void **state)
{
    (void)state;
    lab__parallel_set_threads(2);
    occupation o = {.begun = 0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, occupy, &o), 0);
    assert_true(wait_until(&o.begun, 2));
    int code = in_child(child_work);
    atomic_store(&o.released, 1);
    pthread_join(thread, NULL);
    assert_int_equal(code, 7);
    assert_true(threads_meet(2));
}

/* Ends as a program does, its workers asleep. */
static int lose_a_wake_up_at_the_end(void)
{
    if (!threads_meet(4))
        return 1;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    atomic_store(&broadcasts_to_lose, 1);
    exit(7);
}

static void a_program_ends_though_a_wake_up_was_lost(void **state)
{
    (void)state;
    fflush(NULL); /* or the child prints it again */
    assert_int_equal(in_child(lose_a_wake_up_at_the_end), 7);
}

/* ---- Too few threads ------------------------------------------------------------------------------------------------ */

/* In a child, whose pool is empty. */
static int work_without_threads(void)
{
    static tally t;
    atomic_store(&threads_allowed, 0);
    t.threads = 5;
    lab__parallel_set_threads(5);
    for (int run = 0; run < 10; run++)
        lab__parallel_run(100, count_piece, &t);
    for (int piece = 0; piece < 100; piece++)
        if (atomic_load(&t.runs[piece]) != 10)
            return 1;
    if (atomic_load(&threads_refused) != 1) /* it is not tried again at every run */
        return 2;
    atomic_store(&threads_allowed, 1);
    lab__parallel_set_threads(4);
    lab__parallel_run(100, count_piece, &t);
    if (atomic_load(&threads_refused) != 2)
        return 3;
    meeting m = {.needed = 2}; /* of the three workers asked for there is one */
    lab__parallel_run(2, meet, &m);
    return atomic_load(&m.late) == 0 ? 7 : 4;
}

static void threads_that_cannot_be_made_are_done_without(void **state)
{
    (void)state;
    assert_int_equal(in_child(work_without_threads), 7);
}

/* ---- How many ------------------------------------------------------------------------------------------------------- */

/* What a fresh program says, with LAB_NUM_THREADS as given, pinned to one processor or not. */
static int threads_of_program(const char *setting, bool pinned)
{
    pid_t child = fork();
    if (child == 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        if (pinned && sched_setaffinity(0, sizeof one, &one) != 0)
            _exit(0);
        setenv("TEST_PARALLEL_COUNT", "1", 1);
        if (setting)
            setenv("LAB_NUM_THREADS", setting, 1);
        else
            unsetenv("LAB_NUM_THREADS");
        execl("/proc/self/exe", "test_parallel", (char *)NULL);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void the_environment_and_then_the_processors_decide(void **state)
{
    (void)state;
    int processors = threads_of_program(NULL, false);
    assert_true(processors >= 1);
    assert_int_equal(threads_of_program(NULL, true), 1);
    assert_int_equal(threads_of_program("5", false), 5);
    assert_int_equal(threads_of_program("5", true), 5);
    assert_int_equal(threads_of_program("1", false), 1);
    assert_int_equal(threads_of_program("99999999999999999999", false), 250); /* the most, see main */
    static const char *const nonsense[] = {"0", "-3", "", "many", "3x"};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++)
        assert_int_equal(threads_of_program(nonsense[i], false), processors);
}

static void a_number_set_holds_until_it_is_taken_back(void **state)
{
    (void)state;
    lab__parallel_set_threads(0);
    int by_default = lab__parallel_threads();
    lab__parallel_set_threads(by_default + 3);
    assert_int_equal(lab__parallel_threads(), by_default + 3);
    lab__parallel_set_threads(100000);
    assert_int_equal(lab__parallel_threads(), PARALLEL_MAX_THREADS);
    lab__parallel_set_threads(0);
    assert_int_equal(lab__parallel_threads(), by_default);
}

int main(void)
{
    if (getenv("TEST_PARALLEL_COUNT")) /* see threads_of_program */
        return lab__parallel_threads() < 250 ? lab__parallel_threads() : 250;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_runs_once_and_no_two_workers_are_the_same),
        cmocka_unit_test(thousands_of_short_runs_lose_no_wake_up),
        cmocka_unit_test(several_threads_work_at_the_same_time),
        cmocka_unit_test(one_thread_is_the_caller_alone),
        cmocka_unit_test(a_run_inside_a_piece_stays_with_its_worker),
        cmocka_unit_test(who_comes_while_the_pool_is_busy_works_alone),
        cmocka_unit_test(callers_from_many_threads_do_not_disturb_one_another),
        cmocka_unit_test(a_child_after_fork_starts_its_own_workers),
        cmocka_unit_test(a_child_forked_while_the_pool_is_busy_is_free),
        cmocka_unit_test(a_program_ends_though_a_wake_up_was_lost),
        cmocka_unit_test(threads_that_cannot_be_made_are_done_without),
        cmocka_unit_test(the_environment_and_then_the_processors_decide),
        cmocka_unit_test(a_number_set_holds_until_it_is_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
