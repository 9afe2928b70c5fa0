/* test_benches.c - the benches as programs: what they print, write and refuse. Their numbers are nobody's business
 * here, except that they must be there and fit one another.
 *
 *     test_benches ATTN_BENCH OP_BENCH
 */
#include <errno.h>
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *attn_bench, *op_bench;
static char folder[] = "/tmp/test_benches_XXXXXX";

/* What a program left behind: the first part of its output, and its exit status (-1: it did not exit by itself). */
typedef struct outcome {
    int status;
    char text[1 << 16];
} outcome;

static outcome *run(const char *program, const char *arguments)
{
    static outcome o;
    char command[1024];
    snprintf(command, sizeof command, "'%s' %s", program, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(o.text, 1, sizeof o.text - 1, pipe);
    o.text[n] = '\0';
    int status = pclose(pipe);
    o.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return &o;
}

static void expect_text(const outcome *o, const char *expected)
{
    if (!strstr(o->text, expected))
        fail_msg("'%s' is not in:\n%s", expected, o->text);
}

static void expect_status(const outcome *o, int status)
{
    if (o->status != status)
        fail_msg("exit status %d, expected %d; output:\n%s", o->status, status, o->text);
}

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
    expect_keys(anchors, 2);
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
enum { TINY_ROWS = 2 * 2 * 2 * 2 * 2, ROW_KEYS = 16 };

/* gflops and share follow from the row's own sizes and time, as the issue defines them. */
static void check_attn_row(const json_t *row, const json_t *anchors)
{
    expect_keys(row, ROW_KEYS);
    assert_string_equal(json_string_value(member(row, "impl", JSON_STRING)), "composed");
    bool causal = json_is_true(member(row, "causal", JSON_TRUE));
    const char *dtype = json_string_value(member(row, "dtype", JSON_STRING));
    const char *pass = json_string_value(member(row, "pass", JSON_STRING));
    double d = number(row, "d"), t = number(row, "tq"), pairs = causal ? t * (t + 1) / 2 : t * t;
    assert_true(number(row, "tk") == t && number(row, "heads") == 2 && number(row, "batch") == 3);
    double flops = 3 * 2 * 4 * pairs * d * (strcmp(pass, "backward") == 0 ? 2.5 : 1);
    double expected = flops * 1e-6 / number(row, "ms_min"), gflops = number(row, "gflops");
    if (!(fabs(gflops - expected) <= 1e-6 * expected))
        fail_msg("%s, d = %g, T = %g: gflops %.9g, expected %.9g", pass, d, t, gflops, expected);
    double share = gflops / number(json_object_get(anchors, dtype), "fma_gflops");
    assert_true(fabs(number(row, "share_of_fma") - share) <= 1e-6 * share);
    assert_true(number(row, "ms_median") >= number(row, "ms_min"));
    assert_true(number(row, "spread") >= 0);
    assert_true(number(row, "workspace_bytes") >= 1);
    assert_true(number(row, "threads") == 1);
}

static void attn_bench_json_has_every_key_and_row(void **state)
{
    (void)state;
    outcome *o = run(attn_bench, TINY "--json - 2> /dev/null");
    expect_status(o, 0);
    json_t *document = parse(o->text);
    expect_keys(document, 3);
    check_machine_and_anchors(document);
    const json_t *rows = member(document, "rows", JSON_ARRAY);
    assert_int_equal(json_array_size(rows), TINY_ROWS);
    for (size_t i = 0; i < json_array_size(rows); i++)
        check_attn_row(json_array_get(rows, i), json_object_get(document, "anchors"));
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
            assert_memory_equal(line, "impl,dtype,causal,pass,batch,heads,d,tq,tk,threads,ms_min,", 58);
    }
    assert_int_equal(lines, 1 + TINY_ROWS);
}

static void attn_bench_says_three_sentences_under_its_table(void **state)
{
    (void)state;
    outcome *o = run(attn_bench, "--d 4,8 --t 16 --rounds 2 2> /dev/null");
    expect_status(o, 0);
    expect_text(o, "llm-lab ");
    expect_text(o, "forward, full (composed, f32, 1 head, batch 1)");
    expect_text(o, "backward, causal (composed, f32, 1 head, batch 1)");
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
    expect_text(files, "9\n{");
    if (system("command -v gnuplot > /dev/null 2>&1") != 0)
        return; /* the numbers came without it */
    snprintf(command, sizeof command, "-c 'head -c 20000 %s/a.svg'", folder);
    expect_text(run("sh", command), "<svg");
}

static void attn_bench_skips_what_does_not_fit_into_memory(void **state)
{
    (void)state;
    outcome *o = run(attn_bench, "--d 4 --t 8,16777216 --rounds 1 --pass forward --causal none 2>&1");
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
        {"--threads 1,2", "--threads: '1,2' is not a whole number from 1 to 256"},
        {"--dtype f16", "--dtype: 'f16' is none of f32, f64"},
        {"--causal yes", "--causal: 'yes' is none of none, causal"},
        {"--pass both", "--pass: 'both' is none of forward, backward"},
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
    static const char *const names[] = {"--d ",      "--t ",    "--heads ", "--batch ",   "--dtype ",
                                        "--causal ", "--pass ", "--impl ",  "--threads ", "--rounds ",
                                        "--json ",   "--csv ",  "--plot ",  "--help "};
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
    if (argc != 3 || !mkdtemp(folder)) {
        fprintf(stderr, "usage: test_benches ATTN_BENCH OP_BENCH\n");
        return 1;
    }
    attn_bench = argv[1];
    op_bench = argv[2];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attn_bench_json_has_every_key_and_row),
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
