/* scale_study_run.c - jobs side by side: each writes the numbers of its own place, so that neither the number of
 * threads nor an interruption shows in the results. */
#include "scale_study.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/parallel.h"

static const double save_seconds = 30; /* between two savings of an unfinished run */

static volatile sig_atomic_t interrupted;

static struct {
    pthread_mutex_t lock;
    study *s;
    int64_t *missing; /* the jobs to do, in order */
    int64_t count, done;
    double cost, cost_done, started, saved;
    bool failed;
    char message[256];
} run = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_signal(int number)
{
    interrupted = 1;
    signal(number, SIG_DFL); /* the second one ends the process */
}

bool study_interrupted(void)
{
    return interrupted != 0;
}

void study_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&run.lock);
    if (!run.failed)
        vsnprintf(run.message, sizeof run.message, format, arguments);
    run.failed = true;
    pthread_mutex_unlock(&run.lock);
    va_end(arguments);
}

uint64_t study_seed(const study_settings *settings, int64_t index, int64_t d)
{
    /* SplitMix64's last steps after each word. */
    const uint64_t words[] = {(uint64_t)settings->seed.values[0], (uint64_t)index, (uint64_t)d};
    uint64_t mixed = 0;
    for (int i = 0; i < 3; i++) {
        mixed += words[i] + UINT64_C(0x9e3779b97f4a7c15);
        mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
        mixed ^= mixed >> 31;
    }
    return mixed;
}

/* ---- Doing jobs -------------------------------------------------------------------------------------------------- */

static double cost_of(const study *s, int64_t job)
{
    return s->command->cost ? s->command->cost(&s->settings, job) : 1;
}

/* With the lock held. */
static void keep(int64_t job)
{
    study *s = run.s;
    s->results.finished[job] = true;
    run.done++;
    run.cost_done += cost_of(s, job);
    const double now = bench_now(), taken = now - run.started;
    bench_progress("%s: %lld of %lld jobs, %.0f s, about %.0f s to go", s->command->name, (long long)run.done,
                   (long long)run.count, taken, taken * (run.cost / run.cost_done - 1));
    if (s->json_path && !bench_is_stdout(s->json_path) && now - run.saved > save_seconds && run.done < run.count) {
        study_write(s->json_path, study_document(s));
        run.saved = bench_now();
    }
}

static void do_job(void *context, int64_t piece, int worker)
{
    (void)context;
    (void)worker;
    study *s = run.s;
    const int64_t job = run.missing[piece];
    pthread_mutex_lock(&run.lock);
    const bool go_on = !interrupted && !run.failed;
    pthread_mutex_unlock(&run.lock);
    if (!go_on || !s->command->job(&s->settings, job, s->results.values + job * s->results.width))
        return;
    pthread_mutex_lock(&run.lock);
    keep(job);
    pthread_mutex_unlock(&run.lock);
}

bool study_run(study *s)
{
    run.s = s;
    run.missing = calloc((size_t)s->results.jobs + 1, sizeof *run.missing);
    if (!run.missing) {
        fprintf(stderr, "scale_study: no memory for the list of jobs\n");
        return false;
    }
    for (int64_t job = 0; job < s->results.jobs; job++)
        if (!s->results.finished[job]) {
            run.missing[run.count++] = job;
            run.cost += cost_of(s, job);
        }
    run.started = run.saved = bench_now();
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    lab__parallel_run(run.count, do_job, NULL);
    bench_progress_end();
    free(run.missing);
    if (run.failed)
        fprintf(stderr, "scale_study: %s\n", run.message);
    return !run.failed;
}

const double *study_values(const study *s, int64_t job)
{
    return s->results.finished[job] ? s->results.values + job * s->results.width : NULL;
}

/* ---- Stopping and going on ----------------------------------------------------------------------------------------- */

bool study_allocate(study *s)
{
    study_results *results = &s->results;
    results->jobs = s->command->jobs(&s->settings);
    results->width = s->command->width(&s->settings);
    results->values = calloc((size_t)results->jobs * (size_t)results->width + 1, sizeof(double));
    results->finished = calloc((size_t)results->jobs + 1, sizeof(bool));
    return results->values && results->finished;
}

/* Numbers in hexadecimal, so that they come back the same, NaN and infinities too. */
static bool read_values(const char *text, int width, double *values)
{
    for (int i = 0; i < width; i++) {
        char *end;
        values[i] = strtod(text, &end);
        if (end == text)
            return false;
        text = end;
    }
    return *text == '\0';
}

void study_take_up(study *s, const json_t *document)
{
    const json_t *finished = json_object_get(document, "finished"), *entry;
    size_t i;
    if (!finished)
        bench_usage_error("scale_study", "--resume: %s is of a run that has come to its end", s->resume_path);
    if (!study_allocate(s))
        bench_usage_error("scale_study", "no memory for results");
    if (!json_is_array(finished))
        bench_usage_error("scale_study", "--resume: finished in %s is no list", s->resume_path);
    json_array_foreach(finished, i, entry)
    {
        const json_t *number = json_object_get(entry, "job");
        const json_int_t job = json_is_integer(number) ? json_integer_value(number) : -1;
        const char *text = json_string_value(json_object_get(entry, "values"));
        if (!text || job < 0 || job >= s->results.jobs ||
            !read_values(text, s->results.width, s->results.values + job * s->results.width))
            bench_usage_error("scale_study", "--resume: entry %zu of finished in %s is not of this run", i,
                              s->resume_path);
        s->results.finished[job] = true;
    }
}
