/* attn_bench.c - how fast attention is over head sizes d and sequence lengths T, fused and composed, and what that
 * says.
 *
 *     build/bench/attn_bench
 *     build/bench/attn_bench --d 64,128 --t 1024 --heads 8 --threads 1,2 --json result.json --plot result.svg
 *     build/bench/attn_bench --pass decode --and --pass forward --d 64 --t 1024 --heads 32 --kv-heads 32,4
 *
 * What is measured and how is in attn_rows.c, the rounds in bench_rounds.c. bench/goals.sh holds the rows against
 * goals.
 */
#include "attn_bench.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 4096 };
static const double aim_seconds = 40, limit_seconds = 50; /* of a run that no --rounds was given for */

/* Values of every option that makes rows. Every combination of them is a row. */
typedef struct choices {
    bench_list d, t, heads, kv_heads, batch, dtype, causal, pass, impl, window, threads;
} choices;

static const char *const dtype_words[] = {"f32", "f64", NULL};
static const char *const causal_words[] = {"none", "causal", NULL};
static const char *const pass_words[] = {"forward", "backward", "decode", "cached", NULL};
static const char *const impl_words[] = {"composed", "fused", NULL};
static const lab_path impls[] = {LAB_PATH_COMPOSED, LAB_PATH_FUSED};
static const char *const plot_endings[] = {".svg", ".png", NULL};

/* What an option is that is not given. 0 key heads: as many as heads. */
static const choices defaults = {
    .d = {5, {16, 32, 64, 128, 256}},
    .t = {7, {64, 128, 256, 512, 1024, 2048, 4096}},
    .heads = {1, {1}},
    .kv_heads = {1, {0}},
    .batch = {1, {1}},
    .dtype = {1, {LAB_F32}},
    .causal = {2, {false, true}},
    .pass = {2, {PASS_FORWARD, PASS_BACKWARD}},
    .impl = {2, {1, 0}},
    .window = {1, {NO_WINDOW}},
    .threads = {1, {1}},
};
/* The same for decoding; the one query is the last, so nothing is hidden from it by the causal rule. */
static const choices decode_defaults = {
    .d = {1, {64}},
    .t = {1, {4096}},
    .heads = {1, {32}},
    .kv_heads = {2, {0, 4}},
    .batch = {1, {1}},
    .dtype = {1, {LAB_F32}},
    .causal = {1, {true}},
    .pass = {1, {PASS_DECODE}},
    .impl = {2, {1, 0}},
    .window = {1, {NO_WINDOW}},
    .threads = {1, {1}},
};

static choices chosen; /* lists of options that are not given are empty */
static bench_list rounds_given;
static const char *json_path, *csv_path, *plot_path;

static const bench_option options[] = {
    {"--d", "LIST", "head sizes (default 16,32,64,128,256; decode: 64)", &chosen.d, true, 1, 65536, NULL, NULL, NULL},
    {"--t", "LIST",
     "sequence lengths, of queries and keys, decode: of keys\n(default 64,128,256,512,1024,2048,4096; decode: 4096)",
     &chosen.t, true, 1, 1 << 24, NULL, NULL, NULL},
    {"--heads", "LIST", "numbers of heads (default 1; decode: 32)", &chosen.heads, true, 1, 4096, NULL, NULL, NULL},
    {"--kv-heads", "LIST", "numbers of heads of keys; 0: as many as heads (default 0; decode: 0,4)", &chosen.kv_heads,
     true, 0, 4096, NULL, NULL, NULL},
    {"--batch", "LIST", "batch sizes (default 1)", &chosen.batch, true, 1, 65536, NULL, NULL, NULL},
    {"--dtype", "LIST", "f32, f64 (default f32)", &chosen.dtype, true, 0, 0, dtype_words, NULL, NULL},
    {"--causal", "LIST", "none, causal (default both)", &chosen.causal, true, 0, 0, causal_words, NULL, NULL},
    {"--window", "LIST", "how many keys before its own a query sees; not causal: and behind (default all)",
     &chosen.window, true, 0, 1 << 24, NULL, NULL, NULL},
    {"--pass", "LIST",
     "forward, backward; decode: one query over all keys; cached: the same from a cache\n(default forward,backward)",
     &chosen.pass, true, 0, 0, pass_words, NULL, NULL},
    {"--impl", "LIST", "composed, fused (default fused,composed)", &chosen.impl, true, 0, 0, impl_words, NULL, NULL},
    {"--threads", "LIST", "threads (default 1)", &chosen.threads, true, 1, 256, NULL, NULL, NULL},
    {"--and", "", "more rows, in the same rounds: those of the options behind it", NULL, false, 0, 0, NULL, NULL, NULL},
    {"--rounds", "N",
     "samples of every row, whatever the time (default: as many as fit into about 40 s);\n"
     "0: one call of each, cold, as workspace needs it",
     &rounds_given, false, 0, BENCH_MAX_ROUNDS, NULL, NULL, NULL},
    {"--json", "FILE", "results for programs; - is stdout, and the table goes to stderr then", NULL, false, 0, 0, NULL,
     &json_path, NULL},
    {"--csv", "FILE", "the rows, comma-separated; - is stdout, and the table goes to stderr then", NULL, false, 0, 0,
     NULL, &csv_path, NULL},
    {"--plot", "FILE", "GF/s over T, a line for every d, by gnuplot; FILE ends in .svg or .png", NULL, false, 0, 0,
     NULL, &plot_path, plot_endings},
};

static const bench_program program = {
    .name = "attn_bench",
    .summary =
        "Times attention over head sizes and sequence lengths, forward and backward, causal and full; the fused\n"
        "path, which is the library's default, and the composed one, which is its definition.\n"
        "A LIST is one value or several with commas between them.",
    .notes = "Work counted per head: forward 4 T^2 d floating-point operations, causal 2 T (T+1) d; backward 2.5\n"
             "times that, timed without its forward. Shares are of the peak of fused multiply-adds, one thread's\n"
             "peak times the number of threads; of decoding, keys and values read of the bandwidth of reading\n"
             "memory, one thread's times the number of threads. Times are of the fastest sample; the spread in JSON\n"
             "and CSV is (median - fastest) / fastest. workspace_bytes is what a first call takes on a new graph,\n"
             "backward with its forward, beyond operands and results. A row that needs more memory than is free is\n"
             "skipped. Exit status: 0 done, 1 a file could not be written, 2 a bad option.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
};

/* ---- Rows ------------------------------------------------------------------------------------------------------ */

/* Takes the list's value that `*index` stands for, and leaves in it what stands for the other lists. */
static int64_t pick(const bench_list *list, int64_t *index)
{
    int64_t value = list->values[*index % list->count];
    *index /= list->count;
    return value;
}

/* Every combination of what was chosen: d changes first, and sizes that share a graph are neighbours. */
static attn_row make_row(const choices *c, int64_t index)
{
    attn_row row = {0};
    row.d = pick(&c->d, &index);
    row.causal = pick(&c->causal, &index) != 0;
    row.pass = (attn_pass)pick(&c->pass, &index);
    row.t = pick(&c->t, &index);
    row.kv_heads = pick(&c->kv_heads, &index);
    row.heads = pick(&c->heads, &index);
    row.batch = pick(&c->batch, &index);
    row.window = pick(&c->window, &index);
    row.dtype = (lab_dtype)pick(&c->dtype, &index);
    row.threads = (int)pick(&c->threads, &index);
    row.impl = impls[pick(&c->impl, &index)];
    if (row.kv_heads == 0)
        row.kv_heads = row.heads;
    if (row.heads % row.kv_heads != 0)
        bench_usage_error(program.name, "--kv-heads: %lld heads cannot share %lld heads of keys evenly",
                          (long long)row.heads, (long long)row.kv_heads);
    return row;
}

static bool same_row(const attn_row *a, const attn_row *b)
{
    return attn_same_block(a, b) && a->d == b->d && a->t == b->t;
}

static void add_row(attn_table *table, attn_row row)
{
    for (int i = 0; i < table->n; i++)
        if (same_row(&table->rows[i], &row))
            return; /* asked for twice: measured once */
    if (table->n == MAX_ROWS)
        bench_usage_error(program.name, "these lists make more than %d rows", (int)MAX_ROWS);
    table->rows[table->n++] = row;
}

/* The rows of one group of options. */
static void add_rows(attn_table *table, const choices *c)
{
    const bench_list *lists[] = {&c->d,     &c->causal, &c->pass,  &c->t,       &c->kv_heads, &c->heads,
                                 &c->batch, &c->window, &c->dtype, &c->threads, &c->impl};
    int64_t n = 1;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        n *= lists[i]->count;
        if (n > MAX_ROWS)
            bench_usage_error(program.name, "these lists make more than %d rows", (int)MAX_ROWS);
    }
    for (int64_t i = 0; i < n; i++)
        add_row(table, make_row(c, i));
}

/* What was given, and for the rest what stands in its place. */
static choices filled(const choices *otherwise)
{
    choices result = chosen;
    bench_list *to = (bench_list *)&result;
    const bench_list *from = (const bench_list *)otherwise;
    for (size_t i = 0; i < sizeof result / sizeof *to; i++)
        if (to[i].count == 0)
            to[i] = from[i];
    return result;
}

static void add_chosen(attn_table *table)
{
    choices whole = filled(&defaults), decode = filled(&decode_defaults);
    bench_list passes[2] = {{0}, {0}};
    for (int i = 0; i < whole.pass.count; i++) {
        const attn_row row = {.pass = (attn_pass)whole.pass.values[i]};
        bench_list *list = &passes[attn_decodes(&row)];
        list->values[list->count++] = row.pass;
    }
    whole.pass = passes[0];
    decode.pass = passes[1];
    decode.causal = decode_defaults.causal;
    if (whole.pass.count)
        add_rows(table, &whole);
    if (decode.pass.count)
        add_rows(table, &decode);
}

/* The command line is groups of options with --and between them. */
static void parse(int argc, char **argv, attn_table *table)
{
    for (int start = 0, end; start < argc; start = end) {
        for (end = start + 1; end < argc && strcmp(argv[end], "--and") != 0; end++)
            ;
        chosen = (choices){0};
        bench_options_parse(&program, end - start, argv + start);
        add_chosen(table);
    }
}

/* Refuses before the long run what could not work after it. */
static void check_files(void)
{
    if (bench_is_stdout(json_path) && bench_is_stdout(csv_path))
        bench_usage_error(program.name, "--json and --csv: only one of them can go to stdout");
    if (plot_path && !attn_plot_possible()) {
        fprintf(stderr, "%s: --plot: there is no gnuplot here; the numbers come all the same\n", program.name);
        plot_path = NULL;
    }
}

/* ---- The run --------------------------------------------------------------------------------------------------- */

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
    int rounds = rounds_given.count ? (int)rounds_given.values[0] : 0;
    bench_plan plan = {.aim = aim_seconds, .limit = limit_seconds, .rounds = rounds};
    plan.once = rounds_given.count && rounds == 0;
    table->quality = bench_run(n, cases, &plan);
    bench_anchors_read(&table->anchors);
    attn_finish(table);
    attn_release();
    free(cases);
    return true;
}

static bool report(const attn_table *table)
{
    FILE *people = bench_is_stdout(json_path) || bench_is_stdout(csv_path) ? stderr : stdout;
    attn_print(people, table);
    attn_print_versus(people, table);
    attn_print_words(people, table);
    bool good = !json_path || attn_write_json(json_path, table);
    good = (!csv_path || attn_write_csv(csv_path, table)) && good;
    good = (!plot_path || attn_plot(plot_path, table)) && good;
    return fflush(people) == 0 && good;
}

int main(int argc, char **argv)
{
    bench_now();
    attn_table table = {.rows = calloc(MAX_ROWS, sizeof(attn_row))};
    if (!table.rows) {
        fprintf(stderr, "%s: no memory for rows\n", program.name);
        return 1;
    }
    parse(argc, argv, &table);
    check_files();
    int threads = 1;
    for (int i = 0; i < table.n; i++)
        threads = table.rows[i].threads > threads ? table.rows[i].threads : threads;
    bench_machine_describe(&table.machine, threads);
    bool good = measure(&table);
    if (good)
        good = report(&table);
    else
        fprintf(stderr, "%s: no memory for the operands\n", program.name);
    free(table.rows);
    return good ? 0 : 1;
}
