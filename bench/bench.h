/* bench.h - what the benches share: samples taken in rounds, the machine and its anchors, options, output.
 *
 * A time alone says little: clocks change, and neighbours take their share. So every bench measures in the same run,
 * round by round between its own rows, what the processor can do at most (the anchors), and reports shares of that.
 * Benches are linked with the library's objects, because the anchors call kernels that the library does not export.
 */
#ifndef LAB_BENCH_H
#define LAB_BENCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- Samples and rounds: bench_rounds.c ------------------------------------------------------------------------ */

enum { BENCH_MAX_ROUNDS = 64 };

/* Something that is timed again and again. */
typedef struct bench_case {
    /* One sample: seconds per call, warm. Negative: it cannot be taken, and the case is left out from then on. */
    double (*sample)(void *context);
    void *context;
    bool failed;
    int planned, taken;
    double cost; /* seconds that the last sample took, with all that had to be prepared for it */
    double seconds[BENCH_MAX_ROUNDS];
} bench_case;

typedef struct bench_statistics {
    double min, median;
    double spread; /* (median - min) / min: how much the neighbours disturbed */
} bench_statistics;

/* How long a run may take, in seconds from the start of the process. */
typedef struct bench_plan {
    double aim;   /* rounds are fitted to this */
    double limit; /* no sample is taken after this, however few there were, but for those that warm up */
    int rounds;   /* 0: fitted; else exactly so many, whatever the time */
    bool once;    /* one sample of each, not warmed up, and that is all */
} bench_plan;

/* How a run went, anchors included. */
typedef struct bench_quality {
    int cases, fewest, most; /* samples of each */
    int disturbed;           /* cases whose median is more than 5 % above the fastest */
    double processors;       /* processor time per time: below 1 where others were running */
} bench_quality;

/* Seconds since the start of the process, monotonic. */
double bench_now(void);

/* Warms every case up (until two samples agree), then takes samples in rounds: one of every case, and again. Cases
 * that take long skip rounds, evenly; each has at least three samples if the time allows it. */
bench_quality bench_run(int n, bench_case **cases, const bench_plan *plan);

/* Says how far the times are to be trusted. */
void bench_print_quality(FILE *out, const bench_quality *quality);

/* Of the samples taken; zeros if there are none. */
bench_statistics bench_statistics_of(const bench_case *timed);

/* How often to repeat a call within a sample, so that the clock's resolution does not matter. */
int bench_repeats(double seconds_per_call);

/* Progress for people, on stderr: one line that changes on a terminal, now and then a line elsewhere. */
void bench_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void bench_progress_end(void);

/* ---- The machine and its anchors: bench_machine.c -------------------------------------------------------------- */

typedef struct bench_machine {
    char cpu[128];
    const char *kernels, *blas, *blas_core, *blas_threading;
    int vector_bits, threads;
} bench_machine;

enum { BENCH_TYPES = 2 }; /* f32 and f64, as LAB_F32 and KERNEL_F32 number them */

typedef struct bench_anchors {
    double clock_ghz;
    double fma_gflops[BENCH_TYPES];
    double gemm_gflops[BENCH_TYPES]; /* 768 x 768 x 768, by cblas itself */
    double tile_gflops[BENCH_TYPES]; /* the library's tile product, the slowest of three shapes (bench_machine.c) */
    int pipes[BENCH_TYPES];          /* how many fused multiply-adds a cycle explain the peak best */
    double of_formula[BENCH_TYPES];  /* peak / (clock x lanes x 2 x pipes); 1 within 3 % if all is well */
    double read_gbs;                 /* reading memory much larger than a cache, GB/s */
} bench_anchors;

/* The cases that belong into every run, all of them of one thread: the clock, FMA peak, gemm and tile product in both
 * precisions, and reading memory. Returns how many. */
enum { BENCH_ANCHOR_CASES = 8 };
int bench_anchor_cases(bench_case **cases);
/* What they found, once they have run. */
void bench_anchors_read(bench_anchors *anchors);

/* Reads memory as fast as one thread can; what it returns depends on every byte. */
uint64_t bench_read_memory(const char *memory, size_t bytes);

void bench_machine_describe(bench_machine *machine, int threads);
void bench_print_machine(FILE *out, const bench_machine *machine, const bench_anchors *anchors);
json_t *bench_machine_json(const bench_machine *machine);
json_t *bench_anchors_json(const bench_anchors *anchors);

/* Bytes that can be taken without pushing anything out: the system's word, or the container's limit if lower. */
double bench_memory_available(void);

/* ---- Options: bench_options.c ---------------------------------------------------------------------------------- */

enum { BENCH_MAX_LIST = 32 };

typedef struct bench_list {
    int count;
    int64_t values[BENCH_MAX_LIST];
} bench_list;

typedef struct bench_reals {
    int count;
    double values[BENCH_MAX_LIST];
} bench_reals;

/* An option takes numbers (into `list`, comma-separated if many), words (their indices into `list`), a text (into
 * `string`), the name of a file to write (into `file`), real numbers (into `reals`), or none: then it sets `flag`. One
 * with none of these is for the program itself to look for: it is here for --help. */
typedef struct bench_option {
    const char *name;     /* "--d" */
    const char *argument; /* what --help calls its value */
    const char *help;
    bench_list *list;
    bool many;
    int64_t least, most;      /* of numbers */
    const char *const *words; /* NULL-terminated; NULL: numbers */
    const char **file;
    const char *const *endings; /* a file's name must end so; NULL: any name, and "-" for stdout */
    bench_reals *reals;
    double above; /* what real numbers must be greater than */
    bool *flag;
    const char **string; /* any text: it points into the arguments */
} bench_option;

typedef struct bench_program {
    const char *name, *summary, *notes;
    const bench_option *options;
    int n_options;
} bench_program;

/* Fills the options' targets from the command line. --help prints and ends the program with 0; a bad option or value
 * is named, and ends it with 2, as does a file that cannot be written. */
void bench_options_parse(const bench_program *program, int argc, char **argv);

/* Ends the program with status 2 after "name: message". */
_Noreturn void bench_usage_error(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Output: bench_output.c ------------------------------------------------------------------------------------ */

/* Whether the file name stands for stdout. */
bool bench_is_stdout(const char *path);

/* Opens a file, or stdout for "-"; NULL after a message. bench_close says whether everything got there. */
FILE *bench_open(const char *program, const char *path);
bool bench_close(const char *program, const char *path, FILE *file);

/* Writes a JSON document and drops it. */
bool bench_write_json(const char *program, const char *path, json_t *document);

/* A finite number, or null. */
json_t *bench_json_number(double value);

#endif
