/* scale_study.h - between scale_study's files: what a subcommand is, how its runs are done, what is made of numbers.
 *
 * A subcommand is one entry of the table in scale_study.c. Its work is a list of jobs, each a function of the settings
 * and the job's number alone, which leaves a fixed count of numbers behind. The runner does jobs side by side, keeps
 * their numbers by the job's number, saves them on the way and takes them up again; the subcommand then makes a table,
 * JSON and a picture of the finished ones. So results depend neither on threads nor on interruptions.
 *
 * To add a subcommand: a file scale_study_NAME.c that defines `const study_command study_NAME`, a line for it below, in
 * the table of scale_study.c and in meson.build.
 */
#ifndef LAB_SCALE_STUDY_H
#define LAB_SCALE_STUDY_H

#include "bench.h"
#include "llmlab.h"

/* ---- Laws: scale_study_laws.c ---------------------------------------------------------------------------------- */

typedef enum study_law {
    STUDY_NONE,
    STUDY_SQRT,
    STUDY_LINEAR,
    STUDY_CONTROL,
    STUDY_SOFTCAP,
    STUDY_QKNORM,
    STUDY_START,
    STUDY_UPDATE,
    STUDY_LAWS
} study_law;

/* What a law does with queries and keys of d numbers. */
typedef struct study_rule {
    const char *name, *words;
    double scale_power; /* scores are multiplied by d to this power */
    double init_power;  /* entries of Wq and Wk are drawn with variance d to this power */
    double softcap;     /* 0: none; else s = cap tanh(s / cap) */
    bool normalised;    /* queries and keys are divided by their root mean square, times a learned gain that is 1 */
} study_rule;

extern const study_rule study_rules[STUDY_LAWS];
extern const char *const study_law_words[STUDY_LAWS + 1]; /* the names, for options; NULL at the end */

double study_scale(study_law law, int64_t d);
/* Standard deviation of the entries of Wq and Wk [d, d]. */
double study_weight_std(study_law law, int64_t d);

/* ---- Settings and subcommands: scale_study.c ------------------------------------------------------------------- */

/* What the command line says, with the subcommand's defaults where it says nothing. */
typedef struct study_settings {
    bench_list seed, seeds, threads, n; /* one value each; `seed` is what the seed line starts from */
    bench_list d, laws, optimizers;     /* laws are study_law, optimizers indices into study_optimizer_words */
    bench_list dtype;                   /* one lab_dtype: LAB_F32 or LAB_F64 */
    bench_reals rates, refine;          /* rates ascend; refine is one value */
    bench_list steps, layers, batch;    /* of a model: one value each */
    const char *text;                   /* the file it is trained on */
    bool quick;
} study_settings;

/* Options that a subcommand takes besides --seed --seeds --threads --d --laws --quick --json --plot --resume --help. */
enum {
    STUDY_TAKES_N = 1,
    STUDY_TAKES_RATES = 2,
    STUDY_TAKES_REFINE = 4,
    STUDY_TAKES_OPTIMIZERS = 8,
    STUDY_TAKES_DTYPE = 16,
    STUDY_TAKES_MODEL = 32 /* --text --steps --layers --batch */
};

/* The finished part of a run. */
typedef struct study_results {
    int64_t jobs;
    int width;      /* numbers that a job leaves */
    double *values; /* [jobs][width] */
    bool *finished; /* [jobs] */
} study_results;

typedef struct study_command study_command;

typedef struct study {
    const study_command *command;
    study_settings settings;
    bench_machine machine;
    study_results results;
    char seed_line[2048], resumed_line[2048]; /* of the second, in pieces, names are part of the settings */
    const char *json_path, *plot_path, *resume_path;
} study;

struct study_command {
    const char *name;
    const char *summary;         /* one line, for scale_study --help */
    const char *notes;           /* for scale_study NAME --help: what is measured, and how */
    unsigned takes;              /* STUDY_TAKES_... */
    study_settings usual, quick; /* defaults, without and with --quick; a list with count 0: as in study_basics */
    int64_t most_d;              /* for --d; 0: 65536 */

    /* Makes ready what jobs share: text that they read. `resumed` is the document that the run goes on from, or NULL.
     * Ends the program with 2 where that cannot be. And gives it back. NULL: nothing is shared. */
    void (*prepare)(const study *s, const json_t *resumed);
    void (*finish)(void);

    /* Definitions that are fixed before anything runs, printed first; NULL: none. */
    void (*rules)(FILE *out, const study *s);
    /* How many jobs there are, how many numbers each leaves, and what each costs relative to the others (NULL: alike).
     * Jobs are done in order: put the seed outermost, so that what an interrupted run leaves is whole in fewer seeds.
     */
    int64_t (*jobs)(const study_settings *settings);
    int (*width)(const study_settings *settings);
    double (*cost)(const study_settings *settings, int64_t job);
    /* Does one. Called from several threads at once; the library's own ops run in the calling thread. Long jobs return
     * false when study_interrupted() says so; false otherwise means that the run cannot go on, after study_fail. */
    bool (*job)(const study_settings *settings, int64_t job, double *values);

    /* Of the finished jobs: a table for people; members that are added to the document beside command, seed_line,
     * machine, settings ("rows", "fits", ...), false when there is no memory; and the plot commands of a picture, which
     * study_plot sets up (NULL: this subcommand has none). */
    void (*report)(FILE *out, const study *s);
    bool (*describe)(const study *s, json_t *document);
    void (*draw)(FILE *script, const study *s);
    int plot_width, plot_height;
};

extern const study_command study_saturation, study_learn, study_optim, study_mechanism, study_correlated, study_gpt;

extern const char *const study_optimizer_words[], *const study_dtype_words[]; /* NULL-terminated */

/* The numbers of a job, or NULL where it has not finished. */
const double *study_values(const study *s, int64_t job);

/* ---- The runner: scale_study_run.c ----------------------------------------------------------------------------- */

/* Whether Ctrl-C was pressed (or SIGTERM came). */
bool study_interrupted(void);

/* Keeps the first message, for the end; from any thread. */
void study_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Does the jobs that are not finished, on settings.threads threads. False after study_fail, with its message shown; an
 * interrupted run is true. */
bool study_run(study *s);

/* Room for the results of all jobs; false: no memory. */
bool study_allocate(study *s);

/* Allocates, and takes the finished jobs from the document of an interrupted run. Ends the program with 2 where the
 * document has none, or not of this run. */
void study_take_up(study *s, const json_t *document);

/* ---- Random numbers ---------------------------------------------------------------------------------------------- */

/* The library's seed of run `index` at width d: mixed, so that neighbouring seeds and widths share no draws. Streams
 * tell the draws of one run apart. */
uint64_t study_seed(const study_settings *settings, int64_t index, int64_t d);

/* ---- Numbers: scale_study_numbers.c ------------------------------------------------------------------------------ */

/* The p-quantile (0 <= p <= 1, linear between neighbours) of the numbers that are not NaN; NaN if there are none.
 * Reorders them. */
double study_quantile(int n, double *numbers, double p);

/* Median and 5 and 95 % points of the numbers that are not NaN. Reorders them. */
typedef struct study_range {
    double median, low, high;
    int count;
} study_range;
study_range study_range_of(int n, double *numbers);

/* Adds "name", "name_lo", "name_hi" to a row; NaN becomes null. */
bool study_put_range(json_t *row, const char *name, study_range range);

/* ln y = a + exponent ln x by least squares through the medians over seeds, y[seed][i] at x[i], NaN where there is
 * none; x without a median in some resample are left out there. The interval holds 95 % of bootstrap resamples of the
 * seeds, drawn from a fixed stream. NaN with fewer than two x. */
typedef struct study_fit {
    double exponent, low, high;
    int points; /* x that have a median */
} study_fit;
study_fit study_fit_power(int n_x, const double *x, int seeds, const double *y);

/* ---- Output: scale_study_output.c -------------------------------------------------------------------------------- */

/* The whole document; while jobs are missing with the finished ones' numbers, so that --resume can go on. NULL: no
 * memory. */
json_t *study_document(const study *s);

/* Writes a document and drops it; to a file beside `path` first, so that an old one is never half overwritten. False
 * after a message. */
bool study_write(const char *path, json_t *document);

/* The picture: terminal, size and file by plot_path, then the subcommand's draw. False after a message. */
bool study_plot(const study *s);
bool study_plot_possible(void);

/* Colours of laws, the same in all pictures. */
extern const char *const study_colors[STUDY_LAWS];

/* A number as text that reads back the same, with as few digits as that takes. */
const char *study_number_text(double value, char text[32]);

/* ---- The task that learn, optim and mechanism share: scale_study_task.c -------------------------------------------- */

enum { STUDY_TOKENS = 16, STUDY_BATCH = 32, STUDY_STEPS = 300, STUDY_LAST = 50 };

/* One head on one law: Wq, Wk [d, d]; with QK-norm also gains [d]. In float64 it starts from the same numbers. */
typedef struct study_head {
    study_law law;
    int64_t d;
    lab_tensor *wq, *wk, *gain_q, *gain_k; /* gains NULL without QK-norm */
} study_head;

lab_status study_head_init(study_head *head, study_law law, int64_t d, lab_dtype dtype, uint64_t seed);
lab_status study_head_visit(study_head *head, const char *prefix, lab_visit_fn fn, void *ctx);
void study_head_free(study_head *head);

/* All tokens of one seed and width, the same for all laws, rates and optimisers: kept where they fit, because drawing
 * them costs more than a step. */
typedef struct study_tokens {
    int64_t d;
    uint64_t seed;
    int64_t kept;       /* steps that `leaf` has room for: STUDY_STEPS, or 1 where all would take too much memory */
    lab_tensor *leaf;   /* [kept, STUDY_BATCH, STUDY_TOKENS, d] */
    lab_tensor *values; /* [STUDY_TOKENS, STUDY_TOKENS], the identity: with these values attention gives its weights */
} study_tokens;

/* False when it was interrupted, or after study_fail. */
bool study_tokens_draw(study_tokens *tokens, int64_t d, lab_dtype dtype, uint64_t seed);
void study_tokens_free(study_tokens *tokens);

/* What one step sees, owned by g. */
typedef struct study_batch {
    lab_tensor *tokens;  /* [STUDY_BATCH, 1, STUDY_TOKENS, d] */
    lab_tensor *queries; /* [STUDY_BATCH, d]: of each, number target[b], copied */
    lab_tensor *values;  /* [STUDY_BATCH, 1, STUDY_TOKENS, STUDY_TOKENS] */
    lab_tensor *rows;    /* i64 [STUDY_BATCH]: the copies' rows in tokens [STUDY_BATCH * STUDY_TOKENS, d] */
    int64_t target[STUDY_BATCH];
} study_batch;

/* NULL members after a failure of g. */
study_batch study_batch_of(lab_graph *g, study_tokens *tokens, int64_t step);

/* The head's attention on a batch. */
typedef struct study_step {
    lab_tensor *loss;    /* rank 0: mean over the batch of lse - own score */
    lab_tensor *own;     /* [STUDY_BATCH]: the copy's own score */
    lab_tensor *lse;     /* [STUDY_BATCH] */
    lab_tensor *weights; /* [STUDY_BATCH, 1, 1, STUDY_TOKENS] */
} study_step;

/* `path` AUTO for training; COMPOSED where second derivatives are wanted. NULL members after a failure of g. */
study_step study_head_apply(lab_graph *g, const study_head *head, const study_batch *batch, lab_path path);

/* How many of the batch's queries give the copy the largest weight. */
int study_count_hits(lab_graph *g, const study_step *step, const study_batch *batch);

/* One training run. */
typedef struct study_training {
    study_law law;
    int64_t d;
    lab_dtype dtype;
    uint64_t seed;        /* of the weights */
    study_tokens *tokens; /* of the same width and dtype */
    lab_visit_fn step;    /* the optimiser, as a visitor of parameters; a NULL name never comes */
    void *ctx;
    /* Called before each step, if not NULL, once the step's optimiser can be set up (rates that change, counting). */
    lab_status (*before)(int64_t step, void *ctx);
} study_training;

typedef struct study_outcome {
    double accuracy;    /* over the last STUDY_LAST steps; 0 if it diverged */
    double steps_to_95; /* the first step from which the last 10 steps' accuracy was at least 95 %; NaN: never */
    double diverged_at; /* the step whose loss was not finite; NaN: none */
    double loss;        /* the last */
} study_outcome;

/* False when it was interrupted, or after study_fail. g is reset. */
bool study_train(lab_graph *g, const study_training *training, study_outcome *outcome);

/* A rate works if the accuracy is at least this. */
extern const double study_accuracy_wanted;

/* Lowest and highest working rate by the grid and bisection at both ends. `try_rate` trains at one rate. */
typedef struct study_search {
    double low, high;                /* NaN: no rate of the grid works */
    double accuracy[BENCH_MAX_LIST]; /* of the grid's rates */
} study_search;
typedef bool (*study_try_fn)(void *ctx, double rate, double *accuracy);
bool study_search_rates(const study_settings *settings, study_try_fn try_rate, void *ctx, study_search *search);

/* ---- Rates that work, over seeds: scale_study_rates.c, for learn and optim ----------------------------------------- */

/* Of a law, a job leaves: lowest and highest working rate, the fewest steps to 95 % at any rate tried, the rate that
 * took them, and the accuracy at the grid's rates. */
enum { STUDY_LOW, STUDY_HIGH, STUDY_FEWEST, STUDY_FASTEST, STUDY_GRID };

typedef struct study_place {
    int law, optimizer, d; /* indices into the settings' lists */
} study_place;

int study_rates_width(const study_settings *settings); /* numbers of one law */
int64_t study_rates_job(const study_settings *settings, int64_t seed, study_place at);
double study_rates_cost(int64_t width);

typedef struct study_rates {
    int seeds;                              /* finished */
    study_range low, high, fewest, fastest; /* over the seeds that have a working rate */
    bool low_is_bound, high_is_bound;       /* the grid's own end, in at least half of these seeds */
    const bench_reals *grid;                /* the caller's */
    double accuracy[BENCH_MAX_LIST];        /* means over seeds, at the grid's rates */
} study_rates;

/* `column` has room for a number of each seed. */
study_rates study_rates_of(const study *s, study_place at, const bench_reals *grid, double *column);

/* The exponent of one of STUDY_LOW ... STUDY_FEWEST in d; a rate that is a bound has no part in it. at.d is not read.
 */
study_fit study_rates_fit(const study *s, study_place at, const bench_reals *grid, int which);

void study_print_rate(FILE *out, study_range range, const char *mark);

/* A row for programs; NULL: no memory. */
json_t *study_rates_json(const study *s, study_place at, const study_rates *rates);

#endif
