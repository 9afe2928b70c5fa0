/* train_bench_profile.c - where a row's time goes, op by op.
 *
 * The graph knows which op runs, for its messages. A timer's signal comes to the calling thread now and then, sees that
 * op, and counts: what is measured costs nothing to be measurable, and no op has to be told. What a worker does counts
 * as the op that the caller waits for.
 */
#include "train_bench.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "autograd/engine.h"

#ifndef sigev_notify_thread_id /* glibc before 2.38 has the field, but not its name */
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { PERIOD_NS = 250000 };

/* What the handler sees and counts; it runs on the thread that works. */
static struct {
    const train_work *work;
    int seen;
    struct {
        const lab_op *op;
        train_phase phase;
        int64_t samples;
    } count[PROFILE_LINES];
} sampled;

static void on_timer(int number)
{
    (void)number;
    const train_phase phase = sampled.work->phase;
    const lab_op *op = sampled.work->g && phase != PHASE_IDLE ? sampled.work->g->running : NULL;
    int i = 0;
    while (i < sampled.seen && (sampled.count[i].op != op || sampled.count[i].phase != phase))
        i++;
    if (i == PROFILE_LINES)
        return;
    if (i == sampled.seen) {
        sampled.count[i].op = op;
        sampled.count[i].phase = phase;
        sampled.count[i].samples = 0;
        sampled.seen = i + 1;
    }
    sampled.count[i].samples++;
}

static int by_samples(const void *a, const void *b)
{
    const int64_t x = ((const profile_line *)a)->samples, y = ((const profile_line *)b)->samples;
    return (x < y) - (x > y);
}

/* Two descriptors of one name are one line. */
static void keep(train_profile *p, const char *name, train_phase phase, int64_t samples)
{
    int i = 0;
    while (i < p->lines && (strcmp(p->line[i].name, name) != 0 || p->line[i].phase != phase))
        i++;
    if (i == p->lines) {
        p->line[p->lines++] = (profile_line){.phase = phase};
        snprintf(p->line[i].name, sizeof p->line[i].name, "%s", name);
    }
    p->line[i].samples += samples;
    p->samples += samples;
}

static void collect(train_profile *p)
{
    *p = (train_profile){0};
    for (int i = 0; i < sampled.seen; i++) {
        const train_phase phase = sampled.count[i].phase;
        const lab_op *op = sampled.count[i].op;
        if (phase == PHASE_IDLE)
            continue;
        keep(p,
             op                        ? op->name
             : phase <= PHASE_BACKWARD ? "between ops"
                                       : train_phase_names[phase],
             phase, sampled.count[i].samples);
    }
    qsort(p->line, (size_t)p->lines, sizeof *p->line, by_samples);
}

bool train_profile_take(train_profile *p, train_work *w, double seconds)
{
    struct sigaction act = {.sa_handler = on_timer, .sa_flags = SA_RESTART}, before;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
    const struct itimerspec every = {{0, PERIOD_NS}, {0, PERIOD_NS}};
    timer_t timer;
    event.sigev_notify_thread_id = gettid();
    sampled.work = w;
    sampled.seen = 0;
    if (sigaction(SIGALRM, &act, &before) != 0)
        return false;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) {
        sigaction(SIGALRM, &before, NULL);
        return false;
    }
    bool good = timer_settime(timer, 0, &every, NULL) == 0;
    const double start = bench_now();
    do
        good = good && train_work_call(w);
    while (good && bench_now() - start < seconds);
    timer_delete(timer);
    act.sa_handler = SIG_IGN; /* one may be under way */
    sigaction(SIGALRM, &act, NULL);
    sigaction(SIGALRM, &before, NULL);
    collect(p);
    return good;
}
