/* train_bench.h - a row is a process of its own: what it does again and again, and how it is asked.
 *
 * The parent measures the machine, and asks one row after another, round by round, for one sample. A row's largest
 * resident memory is therefore that of a program that does nothing else, and what one row leaves in the allocator
 * does not make another faster or slower.
 */
#ifndef LAB_TRAIN_BENCH_H
#define LAB_TRAIN_BENCH_H

#include "bench.h"
#include "llmlab.h"

/* ---- What a row does: train_bench_work.c ------------------------------------------------------------------------- */

typedef enum train_kind { TRAIN_STEP, TRAIN_DECODE, TRAIN_ADAMW } train_kind;

typedef struct train_spec {
    const char *name, *text;
    train_kind kind;
    lab_gpt_config config;
    int64_t batch, length; /* of a step's windows; length: of the prompt, too */
    int64_t parameters;    /* of TRAIN_ADAMW */
    bool plain;            /* TRAIN_DECODE: on a graph that isn't batch-invariant, as gpt_sample's is */
    int warm, calls;       /* of one sample: steps, or tokens, that are not timed, then some that are */
    double memory;         /* bytes that it needs, at a guess */
} train_spec;

/* Where a call is: for the profile. */
typedef enum train_phase {
    PHASE_IDLE,
    PHASE_DATA,
    PHASE_FORWARD,
    PHASE_BACKWARD,
    PHASE_CLIP,
    PHASE_OPTIMIZER,
    PHASE_CHOICE,
    TRAIN_PHASES
} train_phase;
extern const char *const train_phase_names[TRAIN_PHASES];

typedef struct train_work {
    const train_spec *spec;
    volatile train_phase phase;
    lab_graph *g;
    lab_gpt model;
    lab_tensor *flat; /* of TRAIN_ADAMW */
    lab_optimizer *optimizer;
    lab_schedule schedule;
    lab_tokens *tokens;
    lab_gpt_cache *cache;
    int64_t *inputs, *targets;
    int64_t windows, steps, last_token;
    double flops, bytes; /* of one call: arithmetic, and what has to be moved at least (0: says nothing here) */
} train_work;

/* Everything up to the first call, and that call: false after a message. */
bool train_work_prepare(train_work *w, const train_spec *spec);
/* One step, or one token. */
bool train_work_call(train_work *w);
void train_work_release(train_work *w);

/* ---- Where its time goes: train_bench_profile.c ------------------------------------------------------------------ */

enum { PROFILE_LINES = 48, PROFILE_NAME = 32 };

typedef struct profile_line {
    char name[PROFILE_NAME]; /* an op's, or what is done outside of ops */
    train_phase phase;
    int64_t samples;
} profile_line;

typedef struct train_profile {
    int lines;
    int64_t samples;
    profile_line line[PROFILE_LINES]; /* the most first */
} train_profile;

/* Calls for at least so many seconds, and looks every quarter of a millisecond at what the calling thread is doing. */
bool train_profile_take(train_profile *p, train_work *w, double seconds);

/* ---- How it is asked: train_bench_process.c ---------------------------------------------------------------------- */

typedef struct train_report {
    double flops, bytes, peak_rss;
    int64_t malloc_calls; /* of the library, after the first call */
    train_profile profile;
} train_report;

typedef struct train_row {
    const train_spec *spec;
    int process, channel;
    double waited; /* seconds in which the parent did nothing but wait */
    bench_case timed;
    train_report report;
} train_row;

/* Starts the row's process; false after a message. */
bool train_row_start(train_row *row, const train_spec *spec, int threads);
/* What it has to say after its samples; false if it has ended. */
bool train_row_finish(train_row *row, double profile_seconds);

/* ---- Memory, on all threads: train_bench_memory.c ---------------------------------------------------------------- */

enum { TRAIN_MEMORY_CASES = 2 };
/* Reading, and copying, memory much larger than a cache: seconds per byte moved; a copy moves two for each. */
int train_memory_cases(bench_case **cases);
void train_memory_read(double *read_gbs, double *copy_gbs);

#endif
