/* test_benches.c - the benches as programs: what they print, write and refuse. Their numbers are nobody's business
 * here, except that they must be there and fit one another.
 *
 *     test_benches ATTN_BENCH OP_BENCH...
 */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "program_check.h"

static const char *attn_bench, *op_bench;
static char folder[] = "/tmp/test_benches_XXXXXX";

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *document = json_loads(text, 0, &error);
    if (!document)
        fail_msg("not JSON: line %d: %s:\n%s", error.line, error.text, text);
    return document;
}

static const json_t *member(const json_t *object, const char *key, json_type type)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        fail_msg("key '%s' is missing", key);
    if (json_typeof(value) != type && !(type == JSON_TRUE && json_is_boolean(value)))
        fail_msg("key '%s' has type %d, expected %d", key, (int)json_typeof(value), (int)type);
    return value;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("'%s' is not a number", key);
    return json_number_value(value);
}

static void expect_keys(const json_t *object, size_t count)
{
    if (json_object_size(object) != count)
        fail_msg("%zu keys, expected %zu", json_object_size(object), count);
}

static void check_machine_and_anchors(const json_t *document)
{
    const json_t *machine = member(document, "machine", JSON_OBJECT);
    expect_keys(machine, 7);
    const char *texts[] = {"cpu", "kernels", "blas", "blas_core", "blas_threading"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        member(machine, texts[i], JSON_STRING);
    assert_true(number(machine, "vector_bits") >= 64);
    assert_true(number(machine, "threads") >= 1);
    const json_t *anchors = member(document, "anchors", JSON_OBJECT);
    expect_keys(anchors, 3);
    assert_true(number(anchors, "read_gbs") > 0);
    const char *types[] = {"f32", "f64"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *anchor = member(anchors, types[i], JSON_OBJECT);
        expect_keys(anchor, 3);
        assert_true(number(anchor, "fma_gflops") > 0);
        assert_true(number(anchor, "gemm_gflops") > 0);
        assert_true(number(anchor, "tile_gflops") > 0);
    }
}

/* ---- attn_bench ------------------------------------------------------------------------------------------------ */

#define TINY "--d 4,8 --t 5,16 --heads 2 --batch 3 --dtype f32,f64 --rounds 3 "
enum { TINY_SERIES = 2 * 2 * 2 * 2, TINY_ROWS = 2 * 2 * TINY_SERIES, ROW_KEYS = 20, CROSSOVER_KEYS = 12 };

static const char *text(const json_t *object, const char *key)
{
    return json_string_value(member(object, key, JSON_STRING));
}

static bool is_causal(const json_t *row)
{
    return json_is_true(member(row, "causal", JSON_TRUE));
}

static bool is_decode(const json_t *row)
{
    return strcmp(text(row, "pass"), "decode") == 0 || strcmp(text(row, "pass"), "cached") == 0;
}

static bool has_impl(const json_t *row, const char *name)
{
    return strcmp(text(row, "impl"), name) == 0;
}

static void expect_close(const char *what, double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-5 * fabs(expected)))
        fail_msg("%s is %.9g, expected %.9g", what, value, expected);
}

/* Pairs of a query and a key that may meet, counted one by one. */
static double count_pairs(const json_t *row)
{
    const json_t *given = json_object_get(row, "window");
    int t = (int)number(row, "tk"), window = json_is_null(given) ? t : (int)number(row, "window");
    double pairs = 0;
    for (int i = t - (int)number(row, "tq"); i < t; i++)
        for (int j = 0; j < t; j++)
            pairs += (!is_causal(row) || j <= i) && abs(i - j) <= window;
    return pairs;
}

/* gflops, shares and bytes follow from the row's own sizes and time, as the issue defines them. */
static void check_attn_row(const json_t *row, const json_t *anchors)
{
    expect_keys(row, ROW_KEYS);
    assert_true(has_impl(row, "fused") || has_impl(row, "composed"));
    const char *dtype = text(row, "dtype");
    double d = number(row, "d"), seconds = 1e-3 * number(row, "ms_min"), batch = number(row, "batch");
    double flops = batch * number(row, "heads") * 4 * count_pairs(row) * d;
    if (strcmp(text(row, "pass"), "backward") == 0)
        flops *= 2.5;
    expect_close("gflops", number(row, "gflops"), 1e-9 * flops / seconds);
    const double threads = number(row, "threads"), peak = number(json_object_get(anchors, dtype), "fma_gflops");
    expect_close("share_of_fma", number(row, "share_of_fma"), number(row, "gflops") / (peak * threads));
    if (is_decode(row)) {
        double bytes = 2 * batch * number(row, "kv_heads") * count_pairs(row) * d * (dtype[1] == '6' ? 8 : 4);
        expect_close("gbs", number(row, "gbs"), 1e-9 * bytes / seconds);
        expect_close("share_of_read", number(row, "share_of_read"),
                     number(row, "gbs") / (number(anchors, "read_gbs") * threads));
    } else {
        assert_true(json_is_null(json_object_get(row, "gbs")) && json_is_null(json_object_get(row, "share_of_read")));
    }
    assert_true(number(row, "tq") == (is_decode(row) ? 1 : number(row, "tk")));
    assert_true(number(row, "ms_median") >= number(row, "ms_min"));
    assert_true(number(row, "spread") >= 0);
    assert_true(number(row, "workspace_bytes") >= 1);
}

/* Runs attn_bench and gives the document that it prints, to be dropped; it must have so many rows, all of them right.
 */
static json_t *run_json(const char *arguments, size_t expected_rows)
{
    char command[512];
    snprintf(command, sizeof command, "%s --json - 2> /dev/null", arguments);
    outcome *o = run(attn_bench, command);
    expect_status(o, 0);
    json_t *document = parse(o->text);
    expect_keys(document, 4);
    check_machine_and_anchors(document);
    const json_t *rows = member(document, "rows", JSON_ARRAY);
    assert_int_equal(json_array_size(rows), expected_rows);
    for (size_t i = 0; i < json_array_size(rows); i++)
        check_attn_row(json_array_get(rows, i), json_object_get(document, "anchors"));
    return document;
}

static size_t count_rows(const json_t *document, const char *key, double value)
{
    const json_t *rows = json_object_get(document, "rows");
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(rows); i++)
        count += number(json_array_get(rows, i), key) == value;
    return count;
}

static void attn_bench_json_has_every_key_and_row(void **state)
{
    (void)state;
    json_t *document = run_json(TINY, TINY_ROWS);
    const json_t *rows = json_object_get(document, "rows");
    size_t fused = 0;
    for (size_t i = 0; i < TINY_ROWS; i++)
        fused += has_impl(json_array_get(rows, i), "fused");
    assert_int_equal(fused, TINY_ROWS / 2);
    assert_int_equal(count_rows(document, "heads", 2), TINY_ROWS);
    assert_int_equal(count_rows(document, "kv_heads", 2), TINY_ROWS);
    assert_int_equal(count_rows(document, "batch", 3), TINY_ROWS);
    assert_int_equal(count_rows(document, "threads", 1), TINY_ROWS);
    assert_int_equal(count_rows(document, "tk", 16), TINY_ROWS / 2);
    json_decref(document);
}

/* The row of this series, T and path. */
static const json_t *find_row(const json_t *rows, const json_t *series, const char *impl, double t)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (has_impl(row, impl) && number(row, "tk") == t && number(row, "d") == number(series, "d") &&
            strcmp(text(row, "pass"), text(series, "pass")) == 0 && is_causal(row) == is_causal(series) &&
            strcmp(text(row, "dtype"), text(series, "dtype")) == 0)
            return row;
    }
    fail_msg("a series has no %s row at T = %g", impl, t);
    return NULL;
}

/* What the crossover says of a series follows from the rows, T = 5 and 16. */
static void attn_bench_says_from_which_t_on_fused_is_faster(void **state)
{
    (void)state;
    json_t *document = run_json(TINY, TINY_ROWS);
    const json_t *rows = json_object_get(document, "rows"), *series = member(document, "crossover", JSON_ARRAY);
    assert_int_equal(json_array_size(series), TINY_SERIES);
    for (size_t i = 0; i < TINY_SERIES; i++) {
        const json_t *one = json_array_get(series, i), *from = json_object_get(one, "faster_from");
        expect_keys(one, CROSSOVER_KEYS);
        double times[2];
        for (int j = 0; j < 2; j++)
            times[j] = number(find_row(rows, one, "composed", j ? 16 : 5), "ms_min") /
                       number(find_row(rows, one, "fused", j ? 16 : 5), "ms_min");
        assert_true(number(one, "largest_t") == 16);
        expect_close("times_faster", number(one, "times_faster"), times[1]);
        if (times[1] < 1)
            assert_true(json_is_null(from));
        else
            assert_int_equal(json_integer_value(from), times[0] < 1 ? 16 : 5);
    }
    json_decref(document);
}

static void attn_bench_decodes_with_one_query(void **state)
{
    (void)state;
    json_t *document = run_json("--pass decode,cached --d 8 --t 100 --heads 4 --kv-heads 0,2 --dtype f32,f64 --batch 2 "
                                "--rounds 2",
                                16);
    assert_int_equal(count_rows(document, "tq", 1), 16);
    assert_int_equal(count_rows(document, "kv_heads", 2), 8);
    json_decref(document);
    document = run_json("--pass decode --impl fused --rounds 0", 2);
    assert_int_equal(count_rows(document, "heads", 32), 2);
    assert_int_equal(count_rows(document, "kv_heads", 4), 1);
    assert_int_equal(count_rows(document, "tk", 4096), 2);
    assert_int_equal(count_rows(document, "d", 64), 2);
    json_decref(document);
    outcome *o = run(attn_bench, "--pass decode --d 8 --t 100 --heads 4 --kv-heads 2 --rounds 1 2> /dev/null");
    expect_text(o, "decode (fused, f32, 4 heads over 2 of keys, batch 1)");
    expect_text(o, "GB/s");
}

static void attn_bench_counts_what_a_window_leaves(void **state)
{
    (void)state;
    json_t *document = run_json("--window 3,0 --t 10 --d 4 --rounds 1 --pass forward,decode", 2 * 2 * 2 + 2 * 2 * 2);
    json_decref(document);
}

static void attn_bench_takes_groups_of_rows(void **state)
{
    (void)state;
    json_t *document =
        run_json("--d 4 --t 9 --pass forward --threads 1,2 --causal none --rounds 1 --and --pass backward "
                 "--t 7 --d 5 --causal causal --impl fused --and --d 4 --t 9 --pass forward "
                 "--causal none",
                 5);
    assert_int_equal(count_rows(document, "d", 5), 1);
    assert_int_equal(count_rows(document, "threads", 2), 2);
    assert_true(number(json_object_get(document, "machine"), "threads") == 2);
    json_decref(document);
}

/* Cold, each once: enough to see that the fused path needs no T x T array. */
static void attn_bench_sees_what_the_fused_path_saves(void **state)
{
    (void)state;
    json_t *document = run_json("--d 16 --t 1024 --rounds 0", 8);
    const json_t *rows = json_object_get(document, "rows");
    for (size_t i = 0; i < 8; i++) {
        const json_t *row = json_array_get(rows, i);
        const double bytes = number(row, "workspace_bytes"), scores = 4.0 * 1024 * 1024;
        if (has_impl(row, "fused") ? bytes >= scores : bytes < scores)
            fail_msg("%s %s: workspace_bytes is %g", text(row, "impl"), text(row, "pass"), bytes);
    }
    json_decref(document);
}

static void attn_bench_csv_has_one_line_a_row(void **state)
{
    (void)state;
    outcome *o = run(attn_bench, TINY "--csv - 2> /dev/null");
    expect_status(o, 0);
    int lines = 0;
    for (char *line = strtok(o->text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        int commas = 0;
        for (const char *c = line; *c; c++)
            commas += *c == ',';
        assert_int_equal(commas, ROW_KEYS - 1);
        if (lines == 0)
            assert_ptr_equal(strstr(line, "impl,dtype,causal,pass,batch,heads,kv_heads,d,tq,tk,window,threads,"), line);
    }
    assert_int_equal(lines, 1 + TINY_ROWS);
}

static void attn_bench_says_three_sentences_under_its_table(void **state)
{
    (void)state;
    outcome *o = run(attn_bench, "--d 4,8 --t 16 --rounds 2 2> /dev/null");
    expect_status(o, 0);
    expect_text(o, "llm-lab ");
    expect_text(o, "forward, full (fused, f32, 1 head, batch 1)");
    expect_text(o, "backward, causal (composed, f32, 1 head, batch 1)");
    expect_text(o, "fused against composed");
    expect_text(o, "Doubling d from 4 to 8 makes attention at T = 16");
    expect_text(o, "In a model of a given width");
}

static void attn_bench_writes_files_and_draws(void **state)
{
    (void)state;
    char arguments[512], command[128];
    snprintf(arguments, sizeof arguments,
             "--d 4 --t 5,9 --rounds 1 --json %s/a.json --csv=%s/a.csv --plot %s/a.svg 2>&1", folder, folder, folder);
    outcome *o = run(attn_bench, arguments);
    expect_status(o, 0);
    snprintf(command, sizeof command, "-c 'wc -l < %s/a.csv; cat %s/a.json'", folder, folder);
    outcome *files = run("sh", command);
    expect_text(files, "17\n{");
    if (system("command -v gnuplot > /dev/null 2>&1") != 0)
        return; /* the numbers came without it */
    snprintf(command, sizeof command, "-c 'head -c 20000 %s/a.svg'", folder);
    expect_text(run("sh", command), "<svg");
}

static void attn_bench_skips_what_does_not_fit_into_memory(void **state)
{
    (void)state;
    outcome *o = run(attn_bench, "--d 4 --t 8,16777216 --rounds 1 --pass forward --causal none --impl composed 2>&1");
    expect_status(o, 0);
    expect_text(o, "skipped: composed f32 full forward d = 4 T = 16777216");
    expect_text(o, "GB are free");
}

/* ---- What is refused ------------------------------------------------------------------------------------------- */

static void bad_options_are_named_and_exit_2(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"--d 0", "--d: '0' is not a whole number from 1 to"},
        {"--d abc", "--d: 'abc' is not a whole number"},
        {"--d 16,,32", "--d: '' is not a whole number"},
        {"--d -4", "--d: '-4' is not a whole number"},
        {"--t 99999999999999999999", "--t: '99999999999999999999' is not a whole number"},
        {"--threads 0", "--threads: '0' is not a whole number from 1 to 256"},
        {"--rounds 1,2", "--rounds: '1,2' is not a whole number from 0 to"},
        {"--heads 4 --kv-heads 3", "--kv-heads: 4 heads cannot share 3 heads of keys evenly"},
        {"--d 4 --and --d 0", "--d: '0' is not a whole number from 1 to"},
        {"--and=3", "--and: it takes no value"},
        {"--dtype f16", "--dtype: 'f16' is none of f32, f64"},
        {"--causal yes", "--causal: 'yes' is none of none, causal"},
        {"--pass both", "--pass: 'both' is none of forward, backward, decode, cached"},
        {"--impl magic", "--impl: 'magic' is none of composed, fused"},
        {"--json", "--json: its value is missing"},
        {"--json --csv x", "--json: its value is missing"},
        {"--csv /nonexistent/x.csv", "--csv: cannot write '/nonexistent/x.csv'"},
        {"--plot x.pdf", "--plot: 'x.pdf' must end in .svg or .png"},
        {"--json - --csv -", "--json and --csv: only one of them can go to stdout"},
        {"--speed", "unknown option '--speed'"},
        {"stray", "unknown option 'stray'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "%s 2>&1 > /dev/null", cases[i][0]);
        outcome *o = run(attn_bench, arguments);
        if (o->status != 2)
            fail_msg("%s: exit status %d, expected 2", cases[i][0], o->status);
        expect_text(o, cases[i][1]);
        assert_null(strchr(o->text, '\n')[1] ? o->text : NULL); /* one line, and before any measuring */
    }
}

static void help_names_every_option(void **state)
{
    (void)state;
    static const char *const names[] = {"--d ",    "--t ",    "--heads ",    "--batch ",  "--dtype ", "--causal ",
                                        "--pass ", "--impl ", "--threads ",  "--rounds ", "--json ",  "--csv ",
                                        "--plot ", "--help ", "--kv-heads ", "--window ", "--and "};
    outcome *o = run(attn_bench, "--help");
    expect_status(o, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        expect_text(o, names[i]);
    o = run(op_bench, "--help");
    expect_status(o, 0);
    expect_text(o, "--json ");
}

/* ---- op_bench -------------------------------------------------------------------------------------------------- */

static void op_bench_json_has_every_row(void **state)
{
    (void)state;
    static const char *const names[] = {"matmul_512_f32",   "matmul_1024_f32",  "matmul_512_f64", "matmul_1024_f64",
                                        "matmul_batch_f32", "threads_1024_f32", "add_64mib",      "softmax_1024",
                                        "add_one_recorded", "add_one_backward"};
    outcome *o = run(op_bench, "--rounds 1 --json - 2> /dev/null");
    expect_status(o, 0);
    json_t *document = parse(o->text);
    check_machine_and_anchors(document);
    const json_t *rows = member(document, "rows", JSON_ARRAY);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *found = NULL;
        for (size_t j = 0; j < json_array_size(rows); j++)
            if (strcmp(json_string_value(json_object_get(json_array_get(rows, j), "name")), names[i]) == 0)
                found = json_array_get(rows, j);
        if (!found && strncmp(names[i], "threads", 7) == 0)
            continue; /* left out on one processor */
        if (!found)
            fail_msg("row '%s' is missing", names[i]);
        assert_true(number(found, "measured") > 0);
        assert_true(number(found, "ms_min") > 0);
    }
    json_decref(document);
}

int main(int argc, char **argv)
{
    if (argc < 3 || !mkdtemp(folder)) {
        fprintf(stderr, "usage: test_benches ATTN_BENCH OP_BENCH...\n");
        return 1;
    }
    attn_bench = argv[1];
    op_bench = argv[2];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attn_bench_json_has_every_key_and_row),
        cmocka_unit_test(attn_bench_says_from_which_t_on_fused_is_faster),
        cmocka_unit_test(attn_bench_decodes_with_one_query),
        cmocka_unit_test(attn_bench_counts_what_a_window_leaves),
        cmocka_unit_test(attn_bench_takes_groups_of_rows),
        cmocka_unit_test(attn_bench_sees_what_the_fused_path_saves),
        cmocka_unit_test(attn_bench_csv_has_one_line_a_row),
        cmocka_unit_test(attn_bench_says_three_sentences_under_its_table),
        cmocka_unit_test(attn_bench_writes_files_and_draws),
        cmocka_unit_test(attn_bench_skips_what_does_not_fit_into_memory),
        cmocka_unit_test(bad_options_are_named_and_exit_2),
        cmocka_unit_test(help_names_every_option),
        cmocka_unit_test(op_bench_json_has_every_row),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? failures : failures + 1;
}
