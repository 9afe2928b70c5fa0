/* attn_bench.c - how fast attention is over head sizes d and sequence lengths T, and what that says about d.
 *
 *     build/bench/attn_bench
 *     build/bench/attn_bench --d 64,128 --t 1024 --heads 8 --threads 2 --json result.json --plot result.svg
 *
 * What is measured and how is in attn_rows.c, the rounds in bench_rounds.c.
 */
#include "attn_bench.h"

#include <stdlib.h>

enum { MAX_ROWS = 4096 };
static const double aim_seconds = 40, limit_seconds = 50; /* of a run that no --rounds was given for */

typedef struct choices {
    bench_list d, t, heads, batch, dtype, causal, pass, impl, threads, rounds;
    const char *json, *csv, *plot;
} choices;

static const char *const dtype_words[] = {"f32", "f64", NULL};
static const char *const causal_words[] = {"none", "causal", NULL};
static const char *const pass_words[] = {"forward", "backward", NULL};
static const char *const impl_words[] = {"composed", "fused", NULL};
static const lab_path impls[] = {LAB_PATH_COMPOSED, LAB_PATH_FUSED};
static const char *const plot_endings[] = {".svg", ".png", NULL};

static choices chosen = {
    .d = {5, {16, 32, 64, 128, 256}},
    .t = {6, {128, 256, 512, 1024, 2048, 4096}},
    .heads = {1, {1}},
    .batch = {1, {1}},
    .dtype = {1, {LAB_F32}},
    .causal = {2, {false, true}},
    .pass = {2, {false, true}},
    .impl = {1, {0}},
    .threads = {1, {1}},
};

static const bench_option options[] = {
    {"--d", "LIST", "head sizes (default 16,32,64,128,256)", &chosen.d, true, 1, 65536, NULL, NULL, NULL},
    {"--t", "LIST", "sequence lengths, of queries and keys (default 128,256,512,1024,2048,4096)", &chosen.t, true, 1,
     1 << 24, NULL, NULL, NULL},
    {"--heads", "LIST", "numbers of heads (default 1)", &chosen.heads, true, 1, 4096, NULL, NULL, NULL},
    {"--batch", "LIST", "batch sizes (default 1)", &chosen.batch, true, 1, 65536, NULL, NULL, NULL},
    {"--dtype", "LIST", "f32, f64 (default f32)", &chosen.dtype, true, 0, 0, dtype_words, NULL, NULL},
    {"--causal", "LIST", "none, causal (default both)", &chosen.causal, true, 0, 0, causal_words, NULL, NULL},
    {"--pass", "LIST", "forward, backward (default both)", &chosen.pass, true, 0, 0, pass_words, NULL, NULL},
    {"--impl", "LIST", "composed, fused (default composed)", &chosen.impl, true, 0, 0, impl_words, NULL, NULL},
    {"--threads", "N", "threads (default 1)", &chosen.threads, false, 1, 256, NULL, NULL, NULL},
    {"--rounds", "N", "samples of every row, whatever the time (default: as many as fit into about 40 s)",
     &chosen.rounds, false, 1, BENCH_MAX_ROUNDS, NULL, NULL, NULL},
    {"--json", "FILE", "results for programs; - is stdout, and the table goes to stderr then", NULL, false, 0, 0, NULL,
     &chosen.json, NULL},
    {"--csv", "FILE", "the rows, comma-separated; - is stdout, and the table goes to stderr then", NULL, false, 0, 0,
     NULL, &chosen.csv, NULL},
    {"--plot", "FILE", "GF/s over T, a line for every d, by gnuplot; FILE ends in .svg or .png", NULL, false, 0, 0,
     NULL, &chosen.plot, plot_endings},
};

static const bench_program program = {
    .name = "attn_bench",
    .summary = "Times attention over head sizes and sequence lengths, forward and backward, causal and full.\n"
               "A LIST is one value or several with commas between them.",
    .notes = "Work counted per head: forward 4 T^2 d floating-point operations, causal 2 T (T+1) d; backward 2.5\n"
             "times that, timed without its forward. Shares are of the peak of fused multiply-adds, one thread's\n"
             "peak times the number of threads. Times are of the fastest sample; the spread in JSON and CSV is\n"
             "(median - fastest) / fastest. A row that needs more memory than is free is skipped.\n"
             "Exit status: 0 done, 1 a file could not be written, 2 a bad option.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
};

/* Takes the list's value that `*index` stands for, and leaves in it what stands for the other lists. */
static int64_t pick(const bench_list *list, int64_t *index)
{
    int64_t value = list->values[*index % list->count];
    *index /= list->count;
    return value;
}

/* Every combination of what was chosen: d changes first, and sizes that share a graph are neighbours. */
static attn_row make_row(int64_t index)
{
    attn_row row = {0};
    row.d = pick(&chosen.d, &index);
    row.causal = pick(&chosen.causal, &index) != 0;
    row.backward = pick(&chosen.pass, &index) != 0;
    row.t = pick(&chosen.t, &index);
    row.heads = pick(&chosen.heads, &index);
    row.batch = pick(&chosen.batch, &index);
    row.dtype = (lab_dtype)pick(&chosen.dtype, &index);
    row.impl = impls[pick(&chosen.impl, &index)];
    return row;
}

static attn_table make_table(void)
{
    const bench_list *lists[] = {&chosen.d,     &chosen.causal, &chosen.pass,  &chosen.t,
                                 &chosen.heads, &chosen.batch,  &chosen.dtype, &chosen.impl};
    int n = 1;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        n *= lists[i]->count;
        if (n > MAX_ROWS)
            bench_usage_error(program.name, "these lists make more than %d rows", (int)MAX_ROWS);
    }
    attn_table table = {.n = n, .rows = calloc((size_t)n, sizeof(attn_row))};
    for (int i = 0; table.rows && i < n; i++)
        table.rows[i] = make_row(i);
    return table;
}

/* Refuses before the long run what could not work after it. */
static void check_choices(void)
{
    if (bench_is_stdout(chosen.json) && bench_is_stdout(chosen.csv))
        bench_usage_error(program.name, "--json and --csv: only one of them can go to stdout");
    char message[512];
    for (int i = 0; i < chosen.impl.count; i++)
        for (int j = 0; j < chosen.dtype.count; j++)
            if (attn_try(impls[chosen.impl.values[i]], (lab_dtype)chosen.dtype.values[j], message, sizeof message) !=
                LAB_OK)
                bench_usage_error(program.name, "--impl %s: %s", impl_words[chosen.impl.values[i]], message);
    if (chosen.plot && !attn_plot_possible()) {
        fprintf(stderr, "%s: --plot: there is no gnuplot here; the numbers come all the same\n", program.name);
        chosen.plot = NULL;
    }
}

static bool measure(attn_table *table)
{
    int most = BENCH_ANCHOR_CASES + table->n, n = 0;
    bench_case **cases = calloc((size_t)most, sizeof(bench_case *));
    if (!cases || !attn_prepare(table)) {
        free(cases);
        return false;
    }
    n = bench_anchor_cases(cases);
    for (int i = 0; i < table->n; i++)
        if (!table->rows[i].skipped[0])
            cases[n++] = &table->rows[i].timed;
    int rounds = chosen.rounds.count ? (int)chosen.rounds.values[0] : 0;
    table->quality = bench_run(n, cases, &(bench_plan){.aim = aim_seconds, .limit = limit_seconds, .rounds = rounds});
    bench_anchors_read(&table->anchors);
    attn_finish(table);
    attn_release();
    free(cases);
    return true;
}

int main(int argc, char **argv)
{
    bench_now();
    bench_options_parse(&program, argc, argv);
    int threads = (int)chosen.threads.values[0];
    if (lab_set_threads(threads) != LAB_OK)
        bench_usage_error(program.name, "--threads: %s", lab_last_message());
    check_choices();
    attn_table table = make_table();
    if (!table.rows) {
        fprintf(stderr, "%s: no memory for %d rows\n", program.name, table.n);
        return 1;
    }
    bench_machine_describe(&table.machine, threads);
    bool good = measure(&table);
    if (!good) {
        fprintf(stderr, "%s: no memory for the operands\n", program.name);
    } else {
        FILE *people = bench_is_stdout(chosen.json) || bench_is_stdout(chosen.csv) ? stderr : stdout;
        attn_print(people, &table);
        attn_print_words(people, &table);
        good = !chosen.json || attn_write_json(chosen.json, &table);
        good = (!chosen.csv || attn_write_csv(chosen.csv, &table)) && good;
        good = (!chosen.plot || attn_plot(chosen.plot, &table)) && good;
        good = fflush(people) == 0 && good;
    }
    free(table.rows);
    return good ? 0 : 1;
}
