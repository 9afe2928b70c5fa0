/* bench_rounds.c - samples in interleaved rounds, as many as the time allows.
 *
 * Rows are not measured one after another but round by round, so that a neighbour who works for ten seconds slows one
 * sample of many rows and not all samples of one. The minimum is what the machine can do; median and spread say how
 * far to trust it.
 */
#include "bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LEAST_ROUNDS = 3, FITTED_ROUNDS = 50, WARM_UP_SAMPLES = 8 };
static const double warm_up_seconds = 0.1; /* of one case: long samples need no more than one to be warm */
static const double agreement = 0.05;      /* two samples that differ by less agree */
static const double sample_seconds = 2e-4; /* short calls are repeated until a sample takes this long */

double bench_now(void)
{
    static struct timespec start;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (start.tv_sec == 0 && start.tv_nsec == 0)
        start = now;
    return (double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec);
}

int bench_repeats(double seconds_per_call)
{
    if (!(seconds_per_call > 0))
        return 1;
    double repeats = ceil(sample_seconds / seconds_per_call);
    return repeats < 1 ? 1 : repeats > 1000 ? 1000 : (int)repeats;
}

static bool progress_open; /* a line on a terminal is waiting to be replaced */

void bench_progress(const char *format, ...)
{
    static double last = -10;
    bool terminal = isatty(STDERR_FILENO) == 1;
    double now = bench_now();
    if (now - last < (terminal ? 0.1 : 5))
        return;
    last = now;
    va_list arguments;
    va_start(arguments, format);
    if (terminal)
        fputs("\r\033[K", stderr);
    vfprintf(stderr, format, arguments);
    if (!terminal)
        fputc('\n', stderr);
    fflush(stderr);
    progress_open = terminal;
    va_end(arguments);
}

void bench_progress_end(void)
{
    if (progress_open)
        fputs("\r\033[K", stderr);
    progress_open = false;
}

/* ---- Statistics ------------------------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_statistics bench_statistics_of(const bench_case *timed)
{
    bench_statistics result = {0};
    int n = timed->taken;
    if (n == 0)
        return result;
    double sorted[BENCH_MAX_ROUNDS];
    memcpy(sorted, timed->seconds, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    result.min = sorted[0];
    result.median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    result.spread = result.min > 0 ? (result.median - result.min) / result.min : 0;
    return result;
}

/* ---- Rounds ---------------------------------------------------------------------------------------------------- */

static double take(bench_case *timed)
{
    double start = bench_now();
    double seconds = timed->sample(timed->context);
    timed->cost = bench_now() - start;
    if (seconds < 0)
        timed->failed = true;
    return seconds;
}

/* Leaves its last sample in seconds[0], not counted as taken. */
static void warm_up(bench_case *timed)
{
    double start = bench_now(), previous = -1;
    for (int i = 0; i < WARM_UP_SAMPLES; i++) {
        double seconds = timed->seconds[0] = take(timed);
        if (timed->failed || bench_now() - start > warm_up_seconds)
            return;
        if (previous > 0 && fabs(seconds - previous) < agreement * previous)
            return;
        previous = seconds;
    }
}

static void keep_sample(bench_case *timed)
{
    double seconds = take(timed);
    if (!timed->failed && timed->taken < BENCH_MAX_ROUNDS)
        timed->seconds[timed->taken++] = seconds;
}

/* Rounds of a case when each may cost up to `share` seconds in all, at least `least`. */
static int rounds_for(const bench_case *timed, double share, int least)
{
    double rounds = 1 + floor(share / (timed->cost + 1e-6));
    return rounds < least ? least : rounds > FITTED_ROUNDS ? FITTED_ROUNDS : (int)rounds;
}

static double cost_of_plan(int n, bench_case **cases, double share, int least)
{
    double cost = 0;
    for (int i = 0; i < n; i++)
        if (!cases[i]->failed)
            cost += (rounds_for(cases[i], share, least) - 1) * cases[i]->cost;
    return cost;
}

/* Gives every case the same share of the time left: short ones get many rounds, long ones few. */
static void fit_rounds(int n, bench_case **cases, const bench_plan *plan)
{
    double left = plan->aim - bench_now(), most = plan->limit - bench_now();
    int least = LEAST_ROUNDS;
    while (least > 1 && cost_of_plan(n, cases, 0, least) > most)
        least--;
    double low = 0, high = 100;
    for (int i = 0; i < 50; i++) {
        double middle = (low + high) / 2;
        if (cost_of_plan(n, cases, middle, least) <= left)
            low = middle;
        else
            high = middle;
    }
    for (int i = 0; i < n; i++)
        cases[i]->planned = rounds_for(cases[i], low, least);
}

/* Whether a case with `planned` samples takes one in this round: spread evenly, the first round always. */
static bool takes_part(const bench_case *timed, int round, int rounds)
{
    int later = timed->planned - 1;
    return round == 0 || (round * later) / (rounds - 1) > ((round - 1) * later) / (rounds - 1);
}

/* The time is up: a case without a sample keeps the one that warmed it up. */
static void timed_out(bench_case *timed)
{
    if (timed->taken == 0)
        timed->taken = 1;
}

static double processor_seconds(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static bench_quality judge(int n, bench_case **cases, double processors)
{
    bench_quality q = {.fewest = BENCH_MAX_ROUNDS, .processors = processors};
    for (int i = 0; i < n; i++) {
        int taken = cases[i]->taken;
        if (taken == 0)
            continue;
        q.cases++;
        q.fewest = taken < q.fewest ? taken : q.fewest;
        q.most = taken > q.most ? taken : q.most;
        q.disturbed += bench_statistics_of(cases[i]).spread > agreement;
    }
    return q;
}

void bench_print_quality(FILE *out, const bench_quality *quality)
{
    if (quality->cases == 0)
        return;
    fprintf(out, "Samples of each: %d to %d; in %d of %d cases the median is more than %.0f %% above the fastest.\n",
            quality->fewest, quality->most, quality->disturbed, quality->cases, 100 * agreement);
    if (quality->processors < 0.9)
        fprintf(out, "THIS MACHINE WAS BUSY: others left %.0f %% of one processor, so times are too long here.\n",
                100 * quality->processors);
    else if (quality->fewest < LEAST_ROUNDS)
        fprintf(out, "Fewer than %d samples make a rough minimum; --rounds asks for more.\n", (int)LEAST_ROUNDS);
}

bench_quality bench_run(int n, bench_case **cases, const bench_plan *plan)
{
    double start = bench_now(), used = processor_seconds();
    if (plan->once) {
        for (int i = 0; i < n; i++) {
            bench_progress("%d of %d, %.0f s", i + 1, n, bench_now());
            keep_sample(cases[i]);
        }
        bench_progress_end();
        return judge(n, cases, (processor_seconds() - used) / (bench_now() - start));
    }
    for (int i = 0; i < n; i++) {
        bench_progress("warming up: %d of %d", i + 1, n);
        warm_up(cases[i]);
    }
    int rounds = plan->rounds ? plan->rounds : FITTED_ROUNDS;
    for (int i = 0; i < n; i++)
        cases[i]->planned = rounds;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < n; i++) {
            if (cases[i]->failed || !takes_part(cases[i], round, rounds))
                continue;
            if (!plan->rounds && bench_now() > plan->limit) {
                timed_out(cases[i]);
                continue;
            }
            bench_progress("round %d of %d: row %d of %d, %.0f s", round + 1, rounds, i + 1, n, bench_now());
            keep_sample(cases[i]);
        }
        if (round == 0 && !plan->rounds)
            fit_rounds(n, cases, plan);
    }
    bench_progress_end();
    return judge(n, cases, (processor_seconds() - used) / (bench_now() - start));
}
