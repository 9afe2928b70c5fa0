/* test_train_bench.c - train_bench as a program: its rows, what programs and people read in it, and what it refuses.
 * How fast anything is, no test asks.
 *
 *     test_train_bench TRAIN_BENCH
 */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "program_check.h"

enum { ROWS = 4, ROW_KEYS = 9 };
static const char *const names[ROWS] = {"nano-step", "gpt2-124m-step", "gpt2-124m-decode", "adamw-100m"};
static const char *train_bench;

static json_t *run_json(const char *arguments, size_t rows)
{
    char command[256];
    json_error_t error;
    snprintf(command, sizeof command, "%s --json - 2> /dev/null", arguments);
    const outcome *o = run(train_bench, command);
    expect_status(o, 0);
    json_t *document = json_loads(o->text, 0, &error);
    if (!document)
        fail_msg("not JSON: line %d: %s:\n%s", error.line, error.text, o->text);
    assert_int_equal(json_array_size(json_object_get(document, "rows")), rows);
    return document;
}

static const json_t *row_of(const json_t *document, const char *name)
{
    const json_t *rows = json_object_get(document, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(rows, i), "name")), name) == 0)
            return json_array_get(rows, i);
    fail_msg("there is no row %s", name);
    return NULL;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("'%s' is not a number", key);
    return json_number_value(value);
}

static void every_row_has_every_key(void **state)
{
    (void)state;
    json_t *document = run_json("--quick --rounds 2", ROWS);
    for (int i = 0; i < ROWS; i++) {
        const json_t *row = row_of(document, names[i]);
        assert_int_equal(json_object_size(row), ROW_KEYS);
        assert_true(number(row, "ms_min") > 0);
        assert_true(number(row, "ms_median") >= number(row, "ms_min"));
        assert_true(number(row, "peak_rss_bytes") > 1e6);
        const int arithmetic = i < 3, memory = i >= 2; /* adamw-100m makes no tokens; a step isn't bound by memory */
        if (arithmetic)
            assert_true(number(row, "tokens_per_s") > 0 && number(row, "share_of_fma") > 0);
        else
            assert_true(json_is_null(json_object_get(row, "tokens_per_s")));
        if (memory)
            assert_true(number(row, "share_of_memory") > 0);
        else
            assert_true(json_is_null(json_object_get(row, "share_of_memory")));
    }
    json_decref(document);
}

/* One that is asked for by name only. */
static void decoding_without_invariance_is_a_row(void **state)
{
    (void)state;
    json_t *document = run_json("--quick --rounds 1 --rows gpt2-124m-decode-plain", 1);
    assert_true(number(row_of(document, "gpt2-124m-decode-plain"), "share_of_memory") > 0);
    json_decref(document);
}

static void machine_and_anchors_are_those_of_the_run(void **state)
{
    (void)state;
    json_t *document = run_json("--quick --rounds 1 --threads 1 --rows nano-step", 1);
    const json_t *anchors = json_object_get(document, "anchors");
    assert_true(number(json_object_get(document, "machine"), "threads") == 1);
    assert_true(number(json_object_get(anchors, "f32"), "fma_gflops") > 0);
    assert_true(number(anchors, "read_gbs") > 0);
    assert_true(number(anchors, "read_threads_gbs") > 0);
    assert_true(number(anchors, "copy_threads_gbs") > 0);
    json_decref(document);
}

/* Batch 2 x 16 of a step, one token of decoding: what --quick has. */
static void tokens_per_second_follow_from_the_fastest(void **state)
{
    (void)state;
    json_t *document = run_json("--quick --rounds 2 --rows nano-step,gpt2-124m-decode", 2);
    const double tokens[] = {2 * 16, 1};
    const char *const of[] = {"nano-step", "gpt2-124m-decode"};
    for (int i = 0; i < 2; i++) {
        const json_t *row = row_of(document, of[i]);
        const double expected = 1e3 * tokens[i] / number(row, "ms_min");
        if (!(fabs(number(row, "tokens_per_s") - expected) <= 1e-5 * expected))
            fail_msg("%s: %g tokens/s, expected %g", of[i], number(row, "tokens_per_s"), expected);
    }
    json_decref(document);
}

static void the_library_calls_no_malloc_after_the_first_call(void **state)
{
    (void)state;
    json_t *document = run_json("--quick --rounds 5", ROWS);
    for (int i = 0; i < ROWS; i++)
        if (number(row_of(document, names[i]), "malloc_calls") != 0)
            fail_msg("%s: %g", names[i], number(row_of(document, names[i]), "malloc_calls"));
    json_decref(document);
}

static void a_profile_names_ops_and_adds_up_to_one(void **state)
{
    (void)state;
    json_t *document = run_json("--quick --rounds 1 --rows nano-step", 1);
    const json_t *profile = json_object_get(row_of(document, "nano-step"), "profile");
    double sum = 0;
    int backward = 0;
    assert_true(json_array_size(profile) > 1);
    for (size_t i = 0; i < json_array_size(profile); i++) {
        const json_t *line = json_array_get(profile, i);
        assert_true(json_string_length(json_object_get(line, "name")) > 0);
        backward |= strcmp(json_string_value(json_object_get(line, "phase")), "backward") == 0;
        sum += number(line, "share");
    }
    assert_true(backward);
    if (!(fabs(sum - 1) < 1e-6))
        fail_msg("the shares' sum is %g", sum);
    json_decref(document);
}

static void people_read_goals_beside_the_rows(void **state)
{
    (void)state;
    const outcome *o = run(train_bench, "--quick --rounds 1 2> /dev/null");
    expect_status(o, 0);
    for (int i = 0; i < ROWS; i++)
        expect_text(o, names[i]);
    expect_text(o, "malloc calls after the first: 0, goal 0, pass");
    expect_text(o, "of what reading memory reaches: ");
    expect_text(o, "of what copying memory reaches: ");
    expect_text(o, "GiB, goal <= 2.6");
    expect_text(o, "ms: matmul ");
    expect_text(o, "Each row is a process of its own");
}

static void bad_options_are_named_and_exit_2(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"--rows nano", "--rows: 'nano' is none of nano-step, gpt2-124m-step"},
        {"--threads 0", "--threads: '0' is not a whole number from 1 to 256"},
        {"--rounds 0", "--rounds: '0' is not a whole number from 1 to"},
        {"--quick=1", "--quick: it takes no value"},
        {"--json /nonexistent/x.json", "--json: cannot write '/nonexistent/x.json'"},
        {"--speed", "unknown option '--speed'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "%s 2>&1 > /dev/null", cases[i][0]);
        const outcome *o = run(train_bench, arguments);
        expect_status(o, 2);
        expect_text(o, cases[i][1]);
    }
}

static void help_names_every_option(void **state)
{
    (void)state;
    static const char *const options[] = {"--rows ", "--threads ", "--rounds ", "--quick ", "--json ", "--help "};
    const outcome *o = run(train_bench, "--help");
    expect_status(o, 0);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        expect_text(o, options[i]);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: test_train_bench TRAIN_BENCH\n");
        return 1;
    }
    train_bench = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_every_key),
        cmocka_unit_test(decoding_without_invariance_is_a_row),
        cmocka_unit_test(machine_and_anchors_are_those_of_the_run),
        cmocka_unit_test(tokens_per_second_follow_from_the_fastest),
        cmocka_unit_test(the_library_calls_no_malloc_after_the_first_call),
        cmocka_unit_test(a_profile_names_ops_and_adds_up_to_one),
        cmocka_unit_test(people_read_goals_beside_the_rows),
        cmocka_unit_test(bad_options_are_named_and_exit_2),
        cmocka_unit_test(help_names_every_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
