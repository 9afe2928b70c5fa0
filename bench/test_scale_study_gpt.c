/* test_scale_study_gpt.c - the study's small GPT: signs and orders of magnitude of what it says, that this depends on
 * the seed line and the text alone, and what it refuses before computing.
 *
 *     test_scale_study_gpt SCALE_STUDY
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "program_check.h"
#include "study_check.h"

static void write_text(const char *name, const char *text, int times)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", study_folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < times; i++)
        assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Sentences of few words, so that there is something to learn in forty steps. */
static int make_text(void **state)
{
    static const char *const words[] = {"the",   "lion", "sees", "a",     "king",  "who", "gives",
                                        "night", "to",   "no",   "crown", "under", "our", "quiet"};
    char path[256];
    uint32_t draw = 1;
    (void)state;
    snprintf(path, sizeof path, "%s/text", study_folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 4000; i++) {
        draw = draw * 1664525 + 1013904223;
        fprintf(file, "%s%s", words[(draw >> 16) % 14], i % 7 == 6 ? ".\n" : " ");
    }
    assert_int_equal(fclose(file), 0);
    return 0;
}

/* Arguments in which %s is the folder. */
static const char *fill(const char *arguments)
{
    static char filled[1024];
    snprintf(filled, sizeof filled, arguments, study_folder, study_folder, study_folder);
    return filled;
}

/* The mean over layers of a row's curve, at its first (0), middle (5) or last (10) moment. */
static double along(const json_t *row, const char *curve, size_t moment)
{
    const json_t *layers = json_object_get(json_object_get(row, "along"), curve), *layer;
    size_t i;
    double sum = 0;
    json_array_foreach(layers, i, layer)
    {
        assert_int_equal(json_array_size(layer), 11);
        sum += json_number_value(json_array_get(layer, moment));
    }
    assert_true(i > 0);
    return sum / (double)i;
}

/* ---- What comes out ---------------------------------------------------------------------------------------------------- */

static void expect_row(const json_t *document, const char *optimizer, const char *law, int64_t d)
{
    const json_t *row = find(document, "rows", law, d, "optimizer", optimizer);
    const json_t *rates = json_object_get(row, "rates"), *good = json_array_get(rates, 0);
    const double factor = strcmp(optimizer, "adamw") == 0 ? 0.1 : 1;
    assert_int_equal(json_array_size(rates), 2);
    assert_int_equal(number(row, "heads") * (double)d, 128);
    expect_between("the rate", number(good, "rate"), 0.0299 * factor, 0.0301 * factor);
    expect_between("what is learned", number(good, "loss"), 0.5, 3);
    const json_t *losses = json_object_get(good, "train_loss");
    assert_int_equal(json_array_size(losses), 21);
    const double first = json_number_value(json_array_get(losses, 0));
    expect_between("the first loss", first, 2.7, 5);
    expect_between("the last loss", json_number_value(json_array_get(losses, 20)), 0.5, first - 0.15);
    /* At a rate a thousand times as high nothing is learned, or the loss isn't finite. */
    const json_t *bad = json_object_get(json_array_get(rates, 1), "loss");
    if (json_is_null(bad))
        number(json_array_get(rates, 1), "diverged_at");
    else
        assert_true(json_number_value(bad) > number(row, "bar"));
    expect_between("the best rate", number(row, "best_rate"), 0.0299 * factor, 0.0301 * factor);
    expect_between("largest weight at the end", along(row, "largest_weight", 10), 0.07, 1);
}

static void a_model_learns_at_one_rate_and_starts_saturated_without_a_scale(void **state)
{
    static const char *const optimizers[] = {"momentum", "adamw"};
    (void)state;
    json_t *document = document_of(fill("gpt --quick --text %s/text"));
    assert_string_equal(json_string_value(json_object_get(document, "command")), "gpt");
    assert_int_equal(json_array_size(json_object_get(document, "rows")), 2 * 2 * 2);
    assert_int_equal(json_array_size(json_object_get(document, "transfer")), 2 * 2);
    for (int i = 0; i < 2; i++) {
        for (int64_t d = 16; d <= 128; d *= 8) {
            expect_row(document, optimizers[i], "none", d);
            expect_row(document, optimizers[i], "sqrt", d);
            const json_t *root = find(document, "rows", "sqrt", d, "optimizer", optimizers[i]);
            expect_between("largest weight, sqrt", along(root, "largest_weight", 0), 0.15, 0.35);
            expect_between("entropy, sqrt", along(root, "entropy_ratio", 0), 0.75, 0.95);
        }
        const json_t *small = find(document, "rows", "none", 16, "optimizer", optimizers[i]);
        const json_t *large = find(document, "rows", "none", 128, "optimizer", optimizers[i]);
        expect_between("largest weight, none, d = 16", along(small, "largest_weight", 0), 0.5, 0.8);
        expect_between("largest weight, none, d = 128", along(large, "largest_weight", 0), 0.82, 0.99);
        expect_between("entropy, none, d = 128", along(large, "entropy_ratio", 0), 0.01, 0.2);
    }
    json_decref(document);
}

/* The control has the first scores of sqrt: the same draws, another factor; linear's are close to uniform. */
static void first_scores_are_as_the_laws_say(void **state)
{
    (void)state;
    json_t *document = document_of(fill("gpt --text %s/text --laws sqrt,control,linear --optimizers adamw --d 8,128 "
                                        "--seeds 1 --rates 0.1 --steps 20 --layers 1 --batch 1"));
    for (int64_t d = 8; d <= 128; d *= 16) {
        const json_t *root = find(document, "rows", "sqrt", d, NULL, NULL);
        const json_t *control = find(document, "rows", "control", d, NULL, NULL);
        expect_between("control over sqrt", along(control, "largest_weight", 0) / along(root, "largest_weight", 0),
                       0.999, 1.001);
    }
    const json_t *linear = find(document, "rows", "linear", 128, NULL, NULL);
    const double uniform = number(json_object_get(document, "settings"), "uniform_largest_weight");
    expect_between("uniform", uniform, 0.0741, 0.0742);
    expect_between("linear over uniform", along(linear, "largest_weight", 0) / uniform, 1, 1.3);
    expect_between("linear's entropy", along(linear, "entropy_ratio", 0), 0.99, 1);
    json_decref(document);
}

/* ---- What it depends on -------------------------------------------------------------------------------------------------- */

static const char small[] = "gpt --text %s/text --laws none,sqrt --d 32 --seeds 2 --rates 0.1,30 --steps 20 --layers 1 "
                            "--batch 2";

static void results_depend_on_the_seed_line_alone(void **state)
{
    (void)state;
    expect_same_on_any_number_of_threads(fill(small));
}

static json_t *load(const char *name)
{
    char path[256];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", study_folder, name);
    json_t *document = json_load_file(path, 0, &error);
    if (!document)
        fail_msg("%s: line %d: %s", path, error.line, error.text);
    return document;
}

/* Interrupts a run when some of its jobs are finished, whatever the machine's speed. */
static void interrupt(void)
{
    for (double seconds = 0.5; seconds > 0.005 && seconds < 100;) {
        char command[1400], arguments[1024];
        snprintf(arguments, sizeof arguments, "%s", fill(small));
        snprintf(command, sizeof command,
                 "--preserve-status -s INT %.3f '%s' %s --threads 1 --json %s/part.json > /dev/null 2>&1", seconds,
                 study_program, arguments, study_folder);
        const outcome *o = run("/usr/bin/timeout", command);
        if (o->status == 0) {
            seconds /= 2.5;
            continue;
        }
        expect_status(o, 130);
        json_t *document = load("part.json");
        const size_t finished = json_array_size(json_object_get(document, "finished"));
        json_decref(document);
        if (finished > 0)
            return;
        seconds *= 1.7;
    }
    fail_msg("it could not be interrupted half-way");
}

static void an_interrupted_run_goes_on_to_the_same_results(void **state)
{
    (void)state;
    if (access("/usr/bin/timeout", X_OK) != 0)
        skip();
    char *whole = document_text(fill(small));
    interrupt();
    /* Not with a text that has changed. */
    write_text("other", "It is another text. ", 100);
    assert_int_equal(system(fill("cp %s/text %s/kept")), 0);
    assert_int_equal(system(fill("cp %s/other %s/text")), 0);
    const outcome *o = run(study_program, fill("gpt --resume %s/part.json 2>&1 > /dev/null"));
    expect_status(o, 2);
    expect_text(o, "had another text");
    assert_int_equal(system(fill("cp %s/kept %s/text")), 0);
    expect_status(run(study_program, fill("gpt --resume %s/part.json --threads 2 > /dev/null 2>&1")), 0);
    char *part = results_text(load("part.json"));
    assert_string_equal(part, whole);
    free(part);
    free(whole);
}

/* ---- Pictures, refusals -------------------------------------------------------------------------------------------------- */

static void a_picture_is_drawn(void **state)
{
    (void)state;
    if (system("command -v gnuplot > /dev/null 2>&1") != 0)
        skip();
    expect_status(run(study_program, fill("gpt --text %s/text --laws sqrt --seeds 1 --rates 0.1 --steps 20 --layers 1 "
                                          "--batch 1 --plot %s/gpt.svg > /dev/null 2>&1")),
                  0);
    expect_text(run("/usr/bin/tail", fill("%s/gpt.svg")), "</svg>");
}

static void bad_input_is_named_before_anything_runs(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"gpt", "--text FILE is needed"},
        {"gpt --text %s/nothing", "--text: cannot read"},
        {"gpt --text %s", "--text: cannot read"},
        {"gpt --text %s/empty", "--text: "},
        {"gpt --text %s/short", "too few for windows of 64"},
        {"gpt --text %s/bytes", "UTF-8"},
        {"gpt --text '%s/a b'", "has a blank in it"},
        {"gpt --text %s/text --laws qknorm", "--laws: qknorm is more than a power of d"},
        {"gpt --text %s/text --optimizers lion", "--optimizers: lion is neither momentum nor adamw"},
        {"gpt --text %s/text --d 48", "--d: a width of 128 has no whole heads of 48"},
        {"gpt --text %s/text --d 256", "--d: '256' is not a whole number"},
        {"gpt --text %s/text --steps 19", "--steps: '19' is not a whole number from 20"},
        {"gpt --text %s/text --layers 0", "--layers: '0' is not a whole number from 1"},
        {"gpt --text %s/text --batch 0", "--batch: '0' is not a whole number from 1"},
        {"learn --text %s/text", "unknown option '--text'"},
    };
    write_text("empty", "", 1);
    write_text("short", "Too short. ", 50);
    write_text("bytes", "\xff\xfe no text. ", 200);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[1040];
        snprintf(arguments, sizeof arguments, "%s 2>&1", fill(cases[i][0]));
        const outcome *o = run(study_program, arguments);
        expect_status(o, 2);
        expect_text(o, cases[i][1]);
        if (strstr(o->text, "seed line: "))
            fail_msg("%s: it began to run", cases[i][0]);
    }
}

int main(int argc, char **argv)
{
    if (!study_check_begin(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_input_is_named_before_anything_runs),
        cmocka_unit_test(first_scores_are_as_the_laws_say),
        cmocka_unit_test(a_model_learns_at_one_rate_and_starts_saturated_without_a_scale),
        cmocka_unit_test(results_depend_on_the_seed_line_alone),
        cmocka_unit_test(an_interrupted_run_goes_on_to_the_same_results),
        cmocka_unit_test(a_picture_is_drawn),
    };
    return study_check_end(cmocka_run_group_tests(tests, make_text, NULL));
}
