/* train_bench.c - how fast a GPT trains and talks, against what this machine could do at most.
 *
 *     build/bench/train_bench
 *     build/bench/train_bench --rows nano-step --json -
 *
 * Goals that need another program beside this one (PyTorch's step, llm.c's) are not judged here; those that need only
 * this run's anchors are.
 */
#include "train_bench.h"

#include <math.h>
#include <string.h>

#include "kernels/parallel.h"

enum { TRAIN_ROWS = 5, ROWS_BY_DEFAULT = 4 };
static const double aim_seconds = 35, limit_seconds = 60, profile_seconds = 1.5;

/* As gpt_train's presets have them. */
#define NANO .layers = 4, .heads = 4, .width = 128, .context = 64, .vocabulary = 65, .init_std = 0.06
#define GPT2                                                                                                           \
    .layers = 12, .heads = 12, .width = 768, .vocabulary = 50257, .bias = true, .activation = LAB_ACTIVATION_GELU_TANH
#define TINY .layers = 2, .heads = 2, .width = 32, .context = 128, .vocabulary = 65

/* What is measured; with --quick, the same of almost nothing. */
static const train_spec specs[2][TRAIN_ROWS] = {
    {{.name = "nano-step",
      .text = "4 layers, 128 wide, batch 12 x 64",
      .kind = TRAIN_STEP,
      .config = {NANO},
      .batch = 12,
      .length = 64,
      .warm = 3,
      .calls = 1,
      .memory = 1e8},
     {.name = "gpt2-124m-step",
      .text = "GPT-2 124 M, batch 4 x 64",
      .kind = TRAIN_STEP,
      .config = {GPT2, .context = 64},
      .batch = 4,
      .length = 64,
      .calls = 1,
      .memory = 2.8e9},
     {.name = "gpt2-124m-decode",
      .text = "GPT-2 124 M, a token, batch 1",
      .kind = TRAIN_DECODE,
      .config = {GPT2, .context = 1024},
      .length = 64,
      .warm = 1,
      .calls = 8,
      .memory = 7e8},
     {.name = "adamw-100m",
      .text = "AdamW, 100 M parameters",
      .kind = TRAIN_ADAMW,
      .parameters = 100000000,
      .calls = 1,
      .memory = 1.7e9},
     {.name = "gpt2-124m-decode-plain",
      .text = "the same, not batch-invariant",
      .kind = TRAIN_DECODE,
      .plain = true,
      .config = {GPT2, .context = 1024},
      .length = 64,
      .warm = 1,
      .calls = 8,
      .memory = 7e8}},
    {{.name = "nano-step",
      .text = "quick: 2 layers, 32 wide",
      .kind = TRAIN_STEP,
      .config = {TINY},
      .batch = 2,
      .length = 16,
      .warm = 1,
      .calls = 1},
     {.name = "gpt2-124m-step",
      .text = "quick: 2 layers, 32 wide, biases",
      .kind = TRAIN_STEP,
      .config = {TINY, .bias = true},
      .batch = 2,
      .length = 16,
      .calls = 1},
     {.name = "gpt2-124m-decode",
      .text = "quick: 2 layers, 32 wide",
      .kind = TRAIN_DECODE,
      .config = {TINY, .bias = true},
      .length = 16,
      .calls = 2},
     {.name = "adamw-100m", .text = "quick: 100000 parameters", .kind = TRAIN_ADAMW, .parameters = 100000, .calls = 1},
     {.name = "gpt2-124m-decode-plain",
      .text = "quick: 2 layers, 32 wide",
      .kind = TRAIN_DECODE,
      .plain = true,
      .config = {TINY, .bias = true},
      .length = 16,
      .calls = 2}}};

typedef struct train_table {
    int n;
    train_row rows[TRAIN_ROWS];
    bench_machine machine;
    bench_anchors anchors;
    double read_gbs, copy_gbs; /* on all threads */
    bench_quality quality;
} train_table;

/* ---- What was found ------------------------------------------------------------------------------------------------ */

static double seconds_of(const train_row *row)
{
    return bench_statistics_of(&row->timed).min;
}

static double tokens_of(const train_row *row)
{
    return row->spec->kind == TRAIN_STEP ? (double)(row->spec->batch * row->spec->length)
                                         : (row->spec->kind == TRAIN_DECODE ? 1 : 0);
}

/* NaN: says nothing here. */
static double tokens_per_second(const train_row *row)
{
    const double seconds = seconds_of(row), tokens = tokens_of(row);
    return seconds > 0 && tokens > 0 ? tokens / seconds : NAN;
}

static double share_of_fma(const train_table *t, const train_row *row)
{
    const double peak = 1e9 * t->anchors.fma_gflops[LAB_F32] * t->machine.threads, seconds = seconds_of(row);
    return seconds > 0 && peak > 0 && row->report.flops > 0 ? row->report.flops / seconds / peak : NAN;
}

/* Of reading where a token is made, of copying where an optimiser steps. */
static double share_of_memory(const train_table *t, const train_row *row)
{
    const double of = 1e9 * (row->spec->kind == TRAIN_ADAMW ? t->copy_gbs : t->read_gbs), seconds = seconds_of(row);
    return seconds > 0 && of > 0 && row->report.bytes > 0 ? row->report.bytes / seconds / of : NAN;
}

/* ---- For people ---------------------------------------------------------------------------------------------------- */

static void print_goals(FILE *out, const train_table *t, const train_row *row, bool quick)
{
    const double gib = row->report.peak_rss / (1 << 30), share = share_of_memory(t, row);
    fprintf(out, "    malloc calls after the first: %lld, goal 0, %s\n", (long long)row->report.malloc_calls,
            row->report.malloc_calls ? "MISS" : "pass");
    if (isfinite(share))
        fprintf(out, "    of what %s memory reaches: %.0f %%, goal >= 80 %%%s\n",
                row->spec->kind == TRAIN_ADAMW ? "copying" : "reading", 100 * share,
                quick          ? ""
                : share >= 0.8 ? ", pass"
                               : ", MISS");
    if (strcmp(row->spec->name, "nano-step") == 0)
        fprintf(out, "    goal: 0.55 of PyTorch's step, not measured here\n");
    if (strcmp(row->spec->name, "gpt2-124m-step") == 0)
        fprintf(out, "    memory: %.2f GiB, goal <= 2.6%s; 0.75 of PyTorch's step, not measured here\n", gib,
                quick        ? ""
                : gib <= 2.6 ? ", pass"
                             : ", MISS");
}

/* Matmul, attention, and the rest by name: milliseconds of a step, from the samples' shares. */
static void print_profile(FILE *out, const train_row *row)
{
    const train_profile *p = &row->report.profile;
    const double ms = 1e3 * seconds_of(row) / (double)(p->samples > 0 ? p->samples : 1);
    double matmul = 0, attention = 0, rest = 0;
    for (int i = 0; i < p->lines; i++)
        *(strcmp(p->line[i].name, "matmul") == 0      ? &matmul
          : strcmp(p->line[i].name, "attention") == 0 ? &attention
                                                      : &rest) += ms * (double)p->line[i].samples;
    fprintf(out, "    ms: matmul %.2f, attention %.2f, the rest %.2f. By op:", matmul, attention, rest);
    for (int i = 0; i < p->lines && (double)p->line[i].samples >= 0.01 * (double)p->samples; i++) {
        const bool of_step = p->line[i].phase == PHASE_BACKWARD;
        fprintf(out, "%s%s%s %.2f", i % 5 ? ", " : "\n      ", p->line[i].name, of_step ? "'" : "",
                ms * (double)p->line[i].samples);
    }
    fputc('\n', out);
}

static void print_table(FILE *out, const train_table *t, bool quick)
{
    bench_print_machine(out, &t->machine, &t->anchors);
    fprintf(out, "memory, %d thread%s: read at %.1f GB/s, copied at %.1f (read and written bytes)\n\n",
            t->machine.threads, t->machine.threads == 1 ? "" : "s", t->read_gbs, t->copy_gbs);
    fprintf(out, "%-22s %-36s %9s %9s %9s %8s %9s\n", "row", "", "ms min", "median", "tokens/s", "of FMA", "peak RSS");
    for (int i = 0; i < t->n; i++) {
        const train_row *row = &t->rows[i];
        const bench_statistics s = bench_statistics_of(&row->timed);
        if (row->timed.taken == 0)
            continue;
        const double tokens = tokens_per_second(row), share = share_of_fma(t, row);
        fprintf(out, "%-22s %-36s %9.3f %9.3f ", row->spec->name, row->spec->text, 1e3 * s.min, 1e3 * s.median);
        if (isfinite(tokens))
            fprintf(out, "%9.0f %6.1f %% ", tokens, 100 * share);
        else
            fprintf(out, "%9s %8s ", "-", "-");
        fprintf(out, "%5.0f MiB\n", row->report.peak_rss / (1 << 20));
        print_goals(out, t, row, quick);
        print_profile(out, row);
    }
    fprintf(out, "\nEach row is a process of its own, whose peak RSS it is. By op: ' is backward.\n");
    bench_print_quality(out, &t->quality);
}

/* ---- For programs -------------------------------------------------------------------------------------------------- */

static json_t *profile_json(const train_profile *p)
{
    json_t *lines = json_array();
    for (int i = 0; i < p->lines; i++)
        json_array_append_new(lines, json_pack("{s:s, s:s, s:f}", "name", p->line[i].name, "phase",
                                               train_phase_names[p->line[i].phase], "share",
                                               (double)p->line[i].samples / (double)p->samples));
    return lines;
}

static json_t *row_json(const train_table *t, const train_row *row)
{
    const bench_statistics s = bench_statistics_of(&row->timed);
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "name", row->spec->name, "ms_min",
                     bench_json_number(1e3 * s.min), "ms_median", bench_json_number(1e3 * s.median), "tokens_per_s",
                     bench_json_number(tokens_per_second(row)), "share_of_fma", bench_json_number(share_of_fma(t, row)),
                     "peak_rss_bytes", json_integer((json_int_t)row->report.peak_rss), "share_of_memory",
                     bench_json_number(share_of_memory(t, row)), "malloc_calls", (json_int_t)row->report.malloc_calls,
                     "profile", profile_json(&row->report.profile));
}

static bool write_json(const char *path, const train_table *t)
{
    json_t *rows = json_array(), *anchors = bench_anchors_json(&t->anchors);
    json_object_set_new(anchors, "read_threads_gbs", bench_json_number(t->read_gbs));
    json_object_set_new(anchors, "copy_threads_gbs", bench_json_number(t->copy_gbs));
    for (int i = 0; i < t->n; i++)
        if (t->rows[i].timed.taken > 0)
            json_array_append_new(rows, row_json(t, &t->rows[i]));
    return bench_write_json(
        "train_bench", path,
        json_pack("{s:o, s:o, s:o}", "machine", bench_machine_json(&t->machine), "anchors", anchors, "rows", rows));
}

/* ---- The program --------------------------------------------------------------------------------------------------- */

static const char *const row_names[] = {"nano-step",  "gpt2-124m-step",         "gpt2-124m-decode",
                                        "adamw-100m", "gpt2-124m-decode-plain", NULL};

static struct {
    bench_list rows, threads, rounds;
    bool quick;
    const char *json;
} chosen = {.rows = {ROWS_BY_DEFAULT, {0, 1, 2, 3}}, .threads = {1, {2}}};

static const bench_option options[] = {
    {"--rows", "NAMES",
     "nano-step, gpt2-124m-step, gpt2-124m-decode, adamw-100m (default: these), and gpt2-124m-decode-plain:\n"
     "decoding on a graph that isn't batch-invariant, as gpt_sample's is",
     &chosen.rows, true, 0, 0, row_names, NULL, NULL},
    {"--threads", "N", "of every row, and of reading and copying memory (default 2)", &chosen.threads, false, 1,
     PARALLEL_MAX_THREADS, NULL, NULL, NULL},
    {"--rounds", "N", "samples of every row, whatever the time (default: as many as fit into about 35 s)",
     &chosen.rounds, false, 1, BENCH_MAX_ROUNDS, NULL, NULL, NULL},
    {"--quick", "", "the same rows of tiny sizes: to see that it runs, not to measure", .flag = &chosen.quick},
    {"--json", "FILE", "results for programs; - is stdout, and the table goes to stderr then", NULL, false, 0, 0, NULL,
     &chosen.json, NULL},
};

static const bench_program program = {
    .name = "train_bench",
    .summary =
        "Times a step of training a small GPT and GPT-2 124 M, a token of GPT-2 124 M out of its cache, and AdamW\n"
        "on 100 M parameters, beside this machine's arithmetic and memory.",
    .notes = "Every row is a process of its own. The fastest samples count. Where a row's time goes is sampled\n"
             "afterwards, in calls that are not timed.\n"
             "Exit status: 0 done, whatever was met; 1 a failure; 2 a bad option.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
};

/* All rows' processes, before there are threads or large memory that they would inherit. */
static bool start_rows(train_table *t)
{
    double left = bench_memory_available() - 1.2e9; /* the anchors' */
    for (int i = 0; i < chosen.rows.count; i++) {
        const train_spec *spec = &specs[chosen.quick][chosen.rows.values[i]];
        if (spec->memory > left && !chosen.quick) {
            fprintf(stderr, "train_bench: skipped: %s needs about %.1f GB, %.1f GB are free\n", spec->name,
                    1e-9 * spec->memory, 1e-9 * fmax(left, 0));
            continue;
        }
        left -= spec->memory;
        if (!train_row_start(&t->rows[t->n], spec, (int)chosen.threads.values[0]))
            return false;
        t->n++;
    }
    return true;
}

static bool measure(train_table *t)
{
    bench_case *cases[BENCH_ANCHOR_CASES + TRAIN_MEMORY_CASES + TRAIN_ROWS];
    int n = bench_anchor_cases(cases);
    n += train_memory_cases(cases + n);
    for (int i = 0; i < t->n; i++)
        cases[n++] = &t->rows[i].timed;
    const int rounds = chosen.rounds.count ? (int)chosen.rounds.values[0] : 0;
    const double start = bench_now();
    t->quality = bench_run(n, cases, &(bench_plan){.aim = aim_seconds, .limit = limit_seconds, .rounds = rounds});
    /* Waiting for a row is no time that others have taken. */
    const double took = bench_now() - start;
    double waited = 0;
    for (int i = 0; i < t->n; i++)
        waited += t->rows[i].waited;
    if (took > waited)
        t->quality.processors *= took / (took - waited);
    bench_anchors_read(&t->anchors);
    train_memory_read(&t->read_gbs, &t->copy_gbs);
    bool good = true;
    for (int i = 0; i < t->n; i++)
        good = train_row_finish(&t->rows[i], chosen.quick ? 0.05 : profile_seconds) && good;
    return good;
}

int main(int argc, char **argv)
{
    static train_table table;
    bench_now();
    bench_options_parse(&program, argc, argv);
    const int threads = (int)chosen.threads.values[0];
    if (!start_rows(&table) || lab_set_threads(threads) != LAB_OK)
        return 1;
    bench_machine_describe(&table.machine, threads);
    bool good = measure(&table);
    FILE *people = bench_is_stdout(chosen.json) ? stderr : stdout;
    print_table(people, &table, chosen.quick);
    good = fflush(people) == 0 && good;
    good = (!chosen.json || write_json(chosen.json, &table)) && good;
    return good ? 0 : 1;
}
