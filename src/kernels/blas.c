/* blas.c - which BLAS this is, and how it is kept to one thread while the library's own pool runs it.
 *
 * The library that was linked may be another at run time (Debian's alternatives, LD_LIBRARY_PATH), so everything that
 * only one BLAS has is a weak symbol, asked for before it is called. Three kinds of thread counts are met:
 *
 *   - of the process (OpenBLAS on pthreads, BLIS): set to 1 when the first of our threads enters, put back when the
 *     last one leaves;
 *   - of the calling thread (MKL): set and put back by each;
 *   - of OpenMP in the calling thread (OpenBLAS on OpenMP: 1 means 1, anything else becomes the process's too).
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gemm.h"

#define WEAK __attribute__((weak))

extern WEAK int openblas_get_num_threads(void);
extern WEAK void openblas_set_num_threads(int n);
extern WEAK int openblas_get_parallel(void);
extern WEAK char *openblas_get_corename(void);
extern WEAK char *openblas_get_config(void);

extern WEAK int omp_get_max_threads(void);
extern WEAK void omp_set_num_threads(int n);

extern WEAK int64_t bli_thread_get_num_threads(void);
extern WEAK void bli_thread_set_num_threads(int64_t n);
extern WEAK char *bli_info_get_version_str(void);
extern WEAK int64_t bli_info_get_enable_openmp(void);
extern WEAK int64_t bli_info_get_enable_pthreads(void);

extern WEAK int MKL_Set_Num_Threads_Local(int n);

enum { OPENBLAS_SERIAL, OPENBLAS_PTHREAD, OPENBLAS_OPENMP };

/* ---- Thread counts ----------------------------------------------------------------------------------------------- */

/* Both can be there: BLIS has no LAPACK, so it may come from OpenBLAS. */
enum { OPENBLAS, BLIS, PROCESS_COUNTS };

static struct {
    pthread_mutex_t lock;
    pthread_mutex_t calling; /* held by a piece where there may be one at a time */
    int entered;
    bool registered, left_behind; /* the fork handler; the count is still 1 because of threads that a fork lost */
    int saved[PROCESS_COUNTS];
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER, .calling = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int entered_here, saved_here;
static _Thread_local bool piece_ready;

static bool on_openmp(void)
{
    return openblas_get_parallel && openblas_get_parallel() == OPENBLAS_OPENMP && omp_get_max_threads &&
           omp_set_num_threads;
}

/* OpenBLAS's serial build deals out its buffers without a lock: two callers may get the same. */
static bool one_at_a_time(void)
{
    return openblas_get_parallel && openblas_get_parallel() == OPENBLAS_SERIAL;
}

/* Not of OpenBLAS on OpenMP: in setting it, it takes the buffers away from who is multiplying. */
static int get_process_threads(int which)
{
    if (which == OPENBLAS && openblas_get_num_threads && openblas_set_num_threads && !on_openmp())
        return openblas_get_num_threads();
    if (which == BLIS && bli_thread_get_num_threads && bli_thread_set_num_threads)
        return (int)bli_thread_get_num_threads();
    return 1;
}

static void set_process_threads(int which, int n)
{
    if (get_process_threads(which) == n)
        return;
    if (which == OPENBLAS)
        openblas_set_num_threads(n);
    else
        bli_thread_set_num_threads(n);
}

/* Sets the count of the calling thread; returns what it was. 0 where threads have none (and MKL's word for none). */
static int exchange_thread_threads(int n)
{
    if (MKL_Set_Num_Threads_Local)
        return MKL_Set_Num_Threads_Local(n);
    if (!on_openmp() || n == 0)
        return 0;
    int before = omp_get_max_threads();
    if (before != n)
        omp_set_num_threads(n);
    return before;
}

/* ---- The guard ------------------------------------------------------------------------------------------------- */

/* A piece that is inside BLAS may hold one of BLAS's locks, which nobody would open in the child: a fork waits for the
 * pieces that are inside, and those that come meanwhile wait for the fork. */
static atomic_int pieces_inside;
static atomic_bool forking;

static void before_fork(void)
{
    pthread_mutex_lock(&guard.calling);
    pthread_mutex_lock(&guard.lock);
    atomic_store(&forking, true);
    while (atomic_load(&pieces_inside) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

static void after_fork_in_parent(void)
{
    atomic_store(&forking, false);
    pthread_mutex_unlock(&guard.lock);
    pthread_mutex_unlock(&guard.calling);
}

/* The threads that were inside are not here to leave. What they saved is put back by the next to leave. */
static void after_fork_in_child(void)
{
    guard.left_behind = guard.left_behind || guard.entered > entered_here;
    guard.entered = entered_here;
    atomic_store(&pieces_inside, 0);
    after_fork_in_parent();
}

void lab__blas_guard_enter(void)
{
    if (entered_here++ == 0)
        saved_here = exchange_thread_threads(1);
    pthread_mutex_lock(&guard.lock);
    if (!guard.registered)
        guard.registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
    bool first = guard.entered++ == 0 && !guard.left_behind;
    guard.left_behind = false;
    for (int which = 0; which < PROCESS_COUNTS; which++) {
        if (first)
            guard.saved[which] = get_process_threads(which);
        set_process_threads(which, 1);
    }
    pthread_mutex_unlock(&guard.lock);
}

void lab__blas_guard_leave(void)
{
    pthread_mutex_lock(&guard.lock);
    bool last = --guard.entered == 0;
    for (int which = 0; which < PROCESS_COUNTS && last; which++)
        set_process_threads(which, guard.saved[which]);
    pthread_mutex_unlock(&guard.lock);
    if (--entered_here == 0)
        exchange_thread_threads(saved_here);
}

void lab__blas_piece_begin(void)
{
    if (entered_here == 0 && !piece_ready) {
        exchange_thread_threads(1); /* for good: this is a worker of ours */
        piece_ready = true;
    }
    if (one_at_a_time())
        pthread_mutex_lock(&guard.calling);
    for (atomic_fetch_add(&pieces_inside, 1); atomic_load(&forking); atomic_fetch_add(&pieces_inside, 1)) {
        atomic_fetch_sub(&pieces_inside, 1);
        pthread_mutex_lock(&guard.lock); /* which the fork holds */
        pthread_mutex_unlock(&guard.lock);
    }
}

void lab__blas_piece_end(void)
{
    atomic_fetch_sub(&pieces_inside, 1);
    if (one_at_a_time())
        pthread_mutex_unlock(&guard.calling);
}

/* ---- Names ----------------------------------------------------------------------------------------------------- */

typedef enum blas_kind { KIND_REFERENCE, KIND_OPENBLAS, KIND_BLIS, KIND_MKL, KINDS } blas_kind;

/* Several can be in one process: LAPACK's library brings a BLAS along, and so may the program. Asked is the one whose
 * cblas_sgemm is ours: a function of it that others lack lies in the same file; or, where a libblas.so.3 hides who it
 * is, the file's name without its links tells (Debian: .../blis-pthread/libblas.so.3). */
static blas_kind find_kind(void)
{
    const void *marks[KINDS] = {NULL, (const void *)(uintptr_t)openblas_get_num_threads,
                                (const void *)(uintptr_t)bli_info_get_version_str,
                                (const void *)(uintptr_t)MKL_Set_Num_Threads_Local};
    static const char *const words[KINDS] = {NULL, "openblas", "blis", "mkl"};
    Dl_info product, other;
    char path[PATH_MAX];
    bool known = dladdr(lab__gemm_address(), &product) != 0;
    bool resolved = known && realpath(product.dli_fname, path);
    for (int kind = KINDS - 1; kind > KIND_REFERENCE; kind--)
        if (marks[kind] && (!known || (dladdr(marks[kind], &other) && other.dli_fbase == product.dli_fbase)))
            return (blas_kind)kind;
    for (int kind = KINDS - 1; kind > KIND_REFERENCE && resolved; kind--)
        if (strstr(path, words[kind]))
            return (blas_kind)kind;
    return KIND_REFERENCE;
}

static char name[64];
static blas_kind kind;
static pthread_once_t name_once = PTHREAD_ONCE_INIT;

static void find_name(void)
{
    static const char *const names[KINDS] = {"reference BLAS", "OpenBLAS", "BLIS", "Intel MKL"};
    kind = find_kind();
    const char *detail = "";
    if (kind == KIND_BLIS && bli_info_get_version_str)
        detail = bli_info_get_version_str();
    else if (kind == KIND_OPENBLAS && openblas_get_config)
        detail = openblas_get_config() + strlen("OpenBLAS "); /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." */
    snprintf(name, sizeof name, "%s%s%s", names[kind], *detail ? " " : "", detail);
    char *space = strchr(name, ' ');
    if (space && (space = strchr(space + 1, ' ')) != NULL)
        *space = '\0';
}

static blas_kind get_kind(void)
{
    pthread_once(&name_once, find_name);
    return kind;
}

const char *lab__blas_name(void)
{
    get_kind();
    return name;
}

const char *lab__blas_core(void)
{
    const char *core = get_kind() == KIND_OPENBLAS && openblas_get_corename ? openblas_get_corename() : NULL;
    return core ? core : "";
}

const char *lab__blas_threading(void)
{
    static const char *const names[] = {"serial", "pthread", "openmp"};
    int parallel = -1;
    if (get_kind() == KIND_REFERENCE)
        parallel = OPENBLAS_SERIAL;
    else if (kind == KIND_OPENBLAS && openblas_get_parallel)
        parallel = openblas_get_parallel();
    else if (kind == KIND_BLIS && bli_info_get_enable_openmp && bli_info_get_enable_pthreads)
        parallel = bli_info_get_enable_openmp()     ? OPENBLAS_OPENMP
                   : bli_info_get_enable_pthreads() ? OPENBLAS_PTHREAD
                                                    : OPENBLAS_SERIAL;
    return parallel >= OPENBLAS_SERIAL && parallel <= OPENBLAS_OPENMP ? names[parallel] : "unknown";
}
