/* train_bench_process.c - a row's process: asked for one sample at a time, through a pair of sockets. */
#include "train_bench.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- How often the library asks for memory ------------------------------------------------------------------------
 *
 * Its objects are linked into this program, and the linker sends what they call malloc and the like here (--wrap, in
 * meson.build). What BLAS allocates for itself is a library of its own and not counted.
 */
static atomic_llong malloc_calls;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    atomic_fetch_add(&malloc_calls, 1);
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    atomic_fetch_add(&malloc_calls, 1);
    return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    atomic_fetch_add(&malloc_calls, 1);
    return __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    atomic_fetch_add(&malloc_calls, 1);
    return __real_aligned_alloc(alignment, bytes);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    atomic_fetch_add(&malloc_calls, 1);
    return __real_posix_memalign(memory, alignment, bytes);
}

/* ---- The row's side ----------------------------------------------------------------------------------------------- */

typedef struct request {
    bool finish;
    double profile_seconds;
} request;

static bool read_all(int from, void *to, size_t bytes)
{
    for (char *at = to; bytes > 0;) {
        const ssize_t n = recv(from, at, bytes, MSG_WAITALL);
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static bool write_all(int to, const void *from, size_t bytes)
{
    for (const char *at = from; bytes > 0;) {
        const ssize_t n = send(to, at, bytes, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* Seconds per call; negative if one failed. What a call allocates is added up. Other rows' samples, and the anchors',
 * have had the caches meanwhile, which in training nobody has: so the first calls of a short row are not timed. */
static double sample(train_work *w, int64_t *allocated)
{
    const long long before = atomic_load(&malloc_calls);
    double start = bench_now();
    for (int i = -w->spec->warm; i < w->spec->calls; i++) {
        if (i == 0)
            start = bench_now();
        if (!train_work_call(w))
            return -1;
    }
    const double seconds = (bench_now() - start) / w->spec->calls;
    *allocated += atomic_load(&malloc_calls) - before;
    return seconds;
}

static bool report(int channel, train_work *w, int64_t allocated, double profile_seconds)
{
    static train_report r; /* too much for a stack */
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    r = (train_report){
        .flops = w->flops, .bytes = w->bytes, .peak_rss = 1024.0 * (double)used.ru_maxrss, .malloc_calls = allocated};
    return train_profile_take(&r.profile, w, profile_seconds) && write_all(channel, &r, sizeof r);
}

/* Until the parent asks for the report, or is gone. */
static bool serve(int channel, const train_spec *spec, int threads)
{
    static train_work w;
    request asked;
    int64_t allocated = 0;
    bool good = lab_set_threads(threads) == LAB_OK, prepared = false, done = false;
    while (good && !done && read_all(channel, &asked, sizeof asked)) {
        if (!prepared)
            good = prepared = train_work_prepare(&w, spec);
        if (!good)
            break;
        done = asked.finish;
        if (done) {
            good = report(channel, &w, allocated, asked.profile_seconds);
        } else {
            const double seconds = sample(&w, &allocated);
            good = seconds >= 0 && write_all(channel, &seconds, sizeof seconds);
        }
    }
    train_work_release(&w);
    return good;
}

/* ---- The parent's side -------------------------------------------------------------------------------------------- */

static double ask(void *context)
{
    train_row *row = context;
    const request r = {0};
    const double start = bench_now();
    double seconds;
    const bool good = write_all(row->channel, &r, sizeof r) && read_all(row->channel, &seconds, sizeof seconds);
    row->waited += bench_now() - start;
    return good ? seconds : -1;
}

bool train_row_start(train_row *row, const train_spec *spec, int threads)
{
    int ends[2];
    *row = (train_row){.spec = spec, .timed = {.sample = ask, .context = row}};
    fflush(NULL);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        perror("train_bench: socketpair");
        return false;
    }
    row->process = fork();
    if (row->process == 0) {
        close(ends[0]);
        exit(serve(ends[1], spec, threads) ? 0 : 1);
    }
    close(ends[1]);
    row->channel = ends[0];
    if (row->process > 0)
        return true;
    perror("train_bench: fork");
    close(ends[0]);
    return false;
}

bool train_row_finish(train_row *row, double profile_seconds)
{
    const request r = {.finish = true, .profile_seconds = profile_seconds};
    const bool said = !row->timed.failed && write_all(row->channel, &r, sizeof r) &&
                      read_all(row->channel, &row->report, sizeof row->report);
    int status = 0;
    close(row->channel);
    const bool ended = waitpid(row->process, &status, 0) == row->process;
    if (ended && said && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (ended && WIFSIGNALED(status))
        fprintf(stderr, "train_bench: %s: its process ended by signal %d\n", row->spec->name, WTERMSIG(status));
    else
        fprintf(stderr, "train_bench: %s: its process failed\n", row->spec->name);
    row->timed.taken = 0;
    return false;
}
