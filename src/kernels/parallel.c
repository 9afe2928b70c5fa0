/* parallel.c - the pool: who runs a piece, and how a run begins and ends.
 *
 * A run lives in one static place. Two atomic numbers steer it. `next` hands out pieces. `gate` says whether workers
 * may come in: its upper half counts the free places, its lower half the workers inside. A worker enters by taking a
 * place, and the place's number is its index in the run; whoever finds no piece left closes the gate; the caller
 * returns when the gate is closed and nobody is inside. So a worker that wakes too late finds a closed gate and touches
 * nothing, and nobody ever waits for a worker that has not begun.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "parallel.h"

enum {
    GATE_PLACE = 1 << 16, /* one place; one worker inside is 1 */
    SPIN_NANOSECONDS = 100 * 1000,
    SPIN_LOOKS = 32, /* at the gate, between two looks at the clock */
};

static struct {
    /* The run. Written before the gate opens, read by those inside. */
    parallel_fn fn;
    void *context;
    int64_t pieces;
    /* Cache lines of their own for what everybody writes. */
    _Alignas(64) atomic_int_fast64_t next;
    _Alignas(64) atomic_uint gate;
    _Alignas(64) atomic_int sleepers; /* workers that must be woken */
    atomic_bool caller_sleeps;
    atomic_bool busy; /* one caller at a time owns all of this */
    atomic_bool stop;
    atomic_bool spin; /* a processor for each thread: waiting a little keeps nobody from working */
    int workers;      /* that exist; with `busy` only */
    int failed_at;    /* so many could not be made; not tried again until the number asked for changes */
    bool registered;  /* the fork handler */
    pthread_mutex_t lock;
    pthread_cond_t opened, emptied;
    pthread_t threads[PARALLEL_MAX_THREADS];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER, .emptied = PTHREAD_COND_INITIALIZER};

static atomic_int threads_asked;
static atomic_int threads_default;
static atomic_uint_fast64_t pieces_taken;

/* This thread is running pieces, as this worker. */
static _Thread_local bool inside;
static _Thread_local int inside_worker;

/* ---- How many threads ------------------------------------------------------------------------------------------ */

static int count_processors(void)
{
    cpu_set_t sets[8]; /* 1024 processors each: the system refuses a set smaller than its own */
    CPU_ZERO_S(sizeof sets, sets);
    if (sched_getaffinity(0, sizeof sets, sets) != 0)
        return 1;
    return CPU_COUNT_S(sizeof sets, sets);
}

/* Those that this process may run on, as it was when first asked. */
static int processors(void)
{
    static atomic_int known;
    int n = atomic_load_explicit(&known, memory_order_relaxed);
    if (n == 0) {
        n = count_processors();
        atomic_store_explicit(&known, n, memory_order_relaxed);
    }
    return n;
}

static int within_limits(long n)
{
    return n < 1 ? 1 : n > PARALLEL_MAX_THREADS ? PARALLEL_MAX_THREADS : (int)n;
}

/* A whole positive number, else 0. */
static long threads_from_environment(void)
{
    const char *text = getenv("LAB_NUM_THREADS");
    if (!text || !*text)
        return 0;
    char *end;
    long n = strtol(text, &end, 10);
    return *end || n < 0 ? 0 : n;
}

int lab__parallel_threads(void)
{
    int n = atomic_load_explicit(&threads_asked, memory_order_relaxed);
    if (n > 0)
        return n;
    n = atomic_load_explicit(&threads_default, memory_order_relaxed);
    if (n == 0) {
        long asked = threads_from_environment();
        n = within_limits(asked > 0 ? asked : processors());
        atomic_store_explicit(&threads_default, n, memory_order_relaxed);
    }
    return n;
}

void lab__parallel_set_threads(int n)
{
    atomic_store_explicit(&threads_asked, n <= 0 ? 0 : within_limits(n), memory_order_relaxed);
}

uint64_t lab__parallel_pieces_taken(void)
{
    return atomic_load_explicit(&pieces_taken, memory_order_relaxed);
}

/* ---- Waiting --------------------------------------------------------------------------------------------------- */

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool gate_is_open(void)
{
    return atomic_load(&pool.gate) >= GATE_PLACE || atomic_load(&pool.stop);
}

static bool gate_is_empty(void)
{
    return atomic_load(&pool.gate) % GATE_PLACE == 0;
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static bool spin_until(bool (*done)(void))
{
    for (int64_t start = nanoseconds(); nanoseconds() - start < SPIN_NANOSECONDS;)
        for (int i = 0; i < SPIN_LOOKS; i++) {
            if (done())
                return true;
            relax();
        }
    return false;
}

/* ---- Inside a run ---------------------------------------------------------------------------------------------- */

static int64_t run_pieces(int worker)
{
    int64_t piece, count = 0;
    inside = true;
    inside_worker = worker;
    while ((piece = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed)) < pool.pieces) {
        pool.fn(pool.context, piece, worker);
        count++;
    }
    inside = false;
    atomic_fetch_and(&pool.gate, GATE_PLACE - 1); /* no places left */
    return count;
}

/* The index of this worker in the run, 0 if there is no place. */
static int enter(void)
{
    unsigned gate = atomic_load(&pool.gate);
    while (gate >= GATE_PLACE)
        if (atomic_compare_exchange_weak(&pool.gate, &gate, gate - GATE_PLACE + 1))
            return (int)(gate / GATE_PLACE);
    return 0;
}

static void leave(void)
{
    /* The order of these two, and of their mirror images in wait_for_workers, is what keeps a wake-up from being lost;
     * atomics without a named order are sequentially consistent. */
    unsigned before = atomic_fetch_sub(&pool.gate, 1);
    if (before % GATE_PLACE == 1 && atomic_load(&pool.caller_sleeps)) {
        pthread_mutex_lock(&pool.lock);
        pthread_cond_signal(&pool.emptied);
        pthread_mutex_unlock(&pool.lock);
    }
}

/* Until somebody opens the gate; it may be closed again by the time this thread runs. */
static void sleep_until_woken(void)
{
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.sleepers, 1);
    if (!gate_is_open())
        pthread_cond_wait(&pool.opened, &pool.lock);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.lock);
}

static void *work(void *unused)
{
    (void)unused;
    while (!atomic_load(&pool.stop)) {
        int worker = enter();
        if (worker > 0) {
            int64_t count = run_pieces(worker);
            atomic_fetch_add_explicit(&pieces_taken, (uint64_t)count, memory_order_relaxed);
            leave();
        }
        /* Whoever was woken too late waits a little, too: where there was a run there will be another. */
        if (!atomic_load_explicit(&pool.spin, memory_order_relaxed) || !spin_until(gate_is_open))
            sleep_until_woken();
    }
    return NULL;
}

/* ---- Starting and stopping ------------------------------------------------------------------------------------- */

/* In a child after fork() none of the workers exist, whatever the parent was doing. */
static void start_afresh(void)
{
    static const pthread_mutex_t fresh_lock = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t fresh_condition = PTHREAD_COND_INITIALIZER;
    pool.lock = fresh_lock;
    pool.opened = pool.emptied = fresh_condition;
    atomic_store(&pool.gate, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.caller_sleeps, false);
    atomic_store(&pool.busy, false);
    pool.workers = pool.failed_at = 0;
}

/* Makes workers until there are `wanted`, or as many as can be made. They take no signals: these are the program's. */
static void make_workers(int wanted)
{
    if (!pool.registered && pthread_atfork(NULL, NULL, start_afresh) != 0)
        return;
    pool.registered = true;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.workers < wanted && pthread_create(&pool.threads[pool.workers], NULL, work, NULL) == 0)
        pool.workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pool.failed_at = pool.workers < wanted ? wanted : 0;
}

/* Wakes whoever sleeps until the thread has ended: glibc before 2.41 loses a wake-up now and then where several threads
 * wait (its bug 25847). In a run that is a worker less; here it would be for ever. */
static void join(pthread_t thread)
{
    struct timespec until;
    do {
        pthread_mutex_lock(&pool.lock);
        pthread_cond_broadcast(&pool.opened);
        pthread_mutex_unlock(&pool.lock);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
    } while (pthread_timedjoin_np(thread, NULL, &until) == ETIMEDOUT);
}

/* When the program ends or lets go of the library: no worker may be left in code that is about to be unmapped. */
__attribute__((destructor)) static void stop_workers(void)
{
    bool idle = false;
    if (inside || !atomic_compare_exchange_strong(&pool.busy, &idle, true))
        return; /* exit() in the middle of a run; and `busy` stays set, so that later runs do without */
    atomic_store(&pool.stop, true);
    for (int i = 0; i < pool.workers; i++)
        join(pool.threads[i]);
    pool.workers = 0;
}

/* ---- A run ----------------------------------------------------------------------------------------------------- */

static void open_gate(int places)
{
    atomic_store(&pool.gate, (unsigned)places * GATE_PLACE);
    int sleepers = atomic_load(&pool.sleepers);
    if (sleepers == 0)
        return;
    /* Whoever has counted itself among the sleepers and not yet seen the open gate holds the lock until it sleeps. */
    pthread_mutex_lock(&pool.lock);
    pthread_mutex_unlock(&pool.lock);
    if (places >= sleepers)
        pthread_cond_broadcast(&pool.opened);
    else
        for (int i = 0; i < places; i++)
            pthread_cond_signal(&pool.opened);
}

static void wait_for_workers(void)
{
    if (gate_is_empty() || (atomic_load_explicit(&pool.spin, memory_order_relaxed) && spin_until(gate_is_empty)))
        return;
    pthread_mutex_lock(&pool.lock);
    atomic_store(&pool.caller_sleeps, true);
    while (!gate_is_empty())
        pthread_cond_wait(&pool.emptied, &pool.lock);
    atomic_store(&pool.caller_sleeps, false);
    pthread_mutex_unlock(&pool.lock);
}

static void run_shared(int64_t pieces, parallel_fn fn, void *context, int threads)
{
    if (pool.workers < threads - 1 && pool.failed_at != threads - 1)
        make_workers(threads - 1);
    int places = pool.workers < threads - 1 ? pool.workers : threads - 1;
    if (places > pieces - 1)
        places = (int)(pieces - 1);
    pool.fn = fn;
    pool.context = context;
    pool.pieces = pieces;
    atomic_store_explicit(&pool.spin, places < processors(), memory_order_relaxed);
    atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
    open_gate(places);
    run_pieces(0);
    wait_for_workers();
}

/* Everything in this thread, as one worker. */
static void run_alone(int64_t pieces, parallel_fn fn, void *context)
{
    bool nested = inside;
    if (!nested)
        inside_worker = 0;
    inside = true;
    for (int64_t piece = 0; piece < pieces; piece++)
        fn(context, piece, inside_worker);
    inside = nested;
}

void lab__parallel_run_within(int workers, int64_t pieces, parallel_fn fn, void *context)
{
    int threads = lab__parallel_threads();
    bool idle = false;
    if (threads > workers)
        threads = workers;
    if (pieces <= 1 || threads == 1 || inside || !atomic_compare_exchange_strong(&pool.busy, &idle, true)) {
        run_alone(pieces, fn, context);
        return;
    }
    run_shared(pieces, fn, context, threads);
    atomic_store(&pool.busy, false);
}

void lab__parallel_run(int64_t pieces, parallel_fn fn, void *context)
{
    lab__parallel_run_within(PARALLEL_MAX_THREADS, pieces, fn, context);
}
