/* test_scale_study.c - the study as a program: what its figures say (signs and orders of magnitude; the sharp figures
 * are docs/why-sqrt-d.md's), that they depend on the seed line alone, and what it refuses before computing.
 *
 *     test_scale_study SCALE_STUDY
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
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "program_check.h"

static const char *program;
static char folder[] = "/tmp/test_scale_study_XXXXXX";

/* Runs it with arguments in which %s is the folder for files. */
static outcome *study(const char *arguments)
{
    char filled[1024];
    snprintf(filled, sizeof filled, arguments, folder, folder);
    return run(program, filled);
}

static json_t *load(const char *name)
{
    char path[256];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *document = json_load_file(path, 0, &error);
    if (!document)
        fail_msg("%s: line %d: %s", path, error.line, error.text);
    return document;
}

static bool exists(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static const json_t *row(const json_t *document, const char *law, int64_t d)
{
    const json_t *rows = json_object_get(document, "rows"), *entry;
    size_t i;
    json_array_foreach(rows, i, entry)
    {
        if (strcmp(json_string_value(json_object_get(entry, "law")), law) == 0 &&
            json_integer_value(json_object_get(entry, "d")) == d)
            return entry;
    }
    fail_msg("no row of %s, d = %d", law, (int)d);
    return NULL;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("'%s' is not a number", key);
    return json_number_value(value);
}

static double figure(const json_t *document, const char *law, int64_t d, const char *key)
{
    return number(row(document, law, d), key);
}

static void expect_between(const char *what, double value, double low, double high)
{
    if (!(value >= low && value <= high))
        fail_msg("%s is %g, expected %g to %g", what, value, low, high);
}

/* Of the document: what does not depend on the machine. */
static char *text_of(const char *name)
{
    json_t *document = load(name);
    assert_int_equal(json_object_del(document, "machine"), 0);
    char *text = json_dumps(document, JSON_INDENT(1));
    assert_non_null(text);
    json_decref(document);
    return text;
}

static void expect_same_results(const char *a, const char *b)
{
    char *one = text_of(a), *other = text_of(b);
    if (strcmp(one, other) != 0) {
        size_t at = 0;
        while (one[at] == other[at])
            at++;
        fail_msg("%s and %s differ: '%.60s' and '%.60s'", a, b, one + at, other + at);
    }
    free(one);
    free(other);
}

/* ---- What comes out ---------------------------------------------------------------------------------------------------- */

static const char *const saturation_keys[] = {"score_std",      "p_max_mean", "p_max_median", "entropy_ratio",
                                              "effective_keys", "gain",       "grad_norm"};

static void expect_row_of_saturation(const json_t *entry)
{
    assert_int_equal(number(entry, "n"), 32);
    assert_int_equal(number(entry, "seeds"), 5);
    for (size_t i = 0; i < sizeof saturation_keys / sizeof *saturation_keys; i++) {
        char low[64], high[64];
        snprintf(low, sizeof low, "%s_lo", saturation_keys[i]);
        snprintf(high, sizeof high, "%s_hi", saturation_keys[i]);
        expect_between(saturation_keys[i], number(entry, saturation_keys[i]), number(entry, low), number(entry, high));
    }
}

static void saturation_without_scaling_and_none_with_it(void **state)
{
    (void)state;
    expect_status(study("saturation --quick --json %s/saturation.json > /dev/null 2>&1"), 0);
    json_t *document = load("saturation.json");
    assert_string_equal(json_string_value(json_object_get(document, "command")), "saturation");
    const json_t *rows = json_object_get(document, "rows"), *entry;
    size_t i;
    assert_int_equal(json_array_size(rows), 5 * 4);
    json_array_foreach(rows, i, entry) expect_row_of_saturation(entry);
    for (int64_t d = 8; d <= 1024; d *= d == 8 ? 8 : 4) {
        const double root = sqrt((double)d);
        expect_between("scores, none", figure(document, "none", d, "score_std"), 0.8 * root, 1.2 * root);
        expect_between("scores, sqrt", figure(document, "sqrt", d, "score_std"), 0.8, 1.2);
        expect_between("scores, linear", figure(document, "linear", d, "score_std"), 0.8 / root, 1.2 / root);
        expect_between("gradient, sqrt", figure(document, "sqrt", d, "grad_norm"), 0.19, 0.24);
        expect_between("scores, qknorm", figure(document, "qknorm", d, "score_std"), 0.95, 1.05);
    }
    expect_between("largest weight", figure(document, "none", 1024, "p_max_mean"), 0.9, 0.99);
    expect_between("gradient, none", figure(document, "none", 1024, "grad_norm"), 1e-6, 1e-3);
    expect_between("entropy, linear", figure(document, "linear", 1024, "entropy_ratio"), 0.999, 1);
    expect_between("keys, none", figure(document, "none", 1024, "effective_keys"), 1, 1.5);
    expect_between("gain, none", figure(document, "none", 1024, "gain"), 0, 0.15);
    const json_t *ratios = json_object_get(document, "gradient_ratios");
    expect_between("ratio", number(json_array_get(ratios, 3), "sqrt_over_none"), 500, 50000);
    json_decref(document);
}

static double exponent(const json_t *document, const char *law)
{
    const json_t *fits = json_object_get(document, "fits"), *entry;
    size_t i;
    json_array_foreach(fits, i, entry)
    {
        if (strcmp(json_string_value(json_object_get(entry, "law")), law) == 0)
            return number(entry, "exponent");
    }
    fail_msg("no fit of %s", law);
    return 0;
}

static void rates_that_work_keep_their_place_with_the_root_alone(void **state)
{
    (void)state;
    outcome *o = study("learn --quick --json %s/learn.json 2> /dev/null");
    expect_status(o, 0);
    expect_text(o, "\nseed line: scale_study learn --quick --seed 1 --seeds 3 --d 16,64");
    expect_text(o, "a rate works if");
    expect_text(o, "a run diverges at");
    expect_text(o, "grid: 0.001 0.01");
    json_t *document = load("learn.json");
    assert_int_equal(json_array_size(json_object_get(document, "rows")), 4 * 2);
    for (int64_t d = 16; d <= 64; d *= 4) {
        expect_between("sqrt, low", figure(document, "sqrt", d, "rate_low"), 0.005, 0.1);
        expect_between("sqrt, high", figure(document, "sqrt", d, "rate_high"), 1, 10);
        assert_true(figure(document, "none", d, "rate_high") < figure(document, "sqrt", d, "rate_high"));
        assert_true(figure(document, "control", d, "rate_high") < figure(document, "sqrt", d, "rate_high"));
        assert_true(figure(document, "linear", d, "rate_high") > figure(document, "sqrt", d, "rate_high"));
        const json_t *entry = row(document, "sqrt", d), *accuracy = json_object_get(entry, "accuracy");
        assert_string_equal(json_string_value(json_object_get(entry, "optimizer")), "sgd");
        assert_int_equal(json_array_size(accuracy), 6);
        assert_int_equal(json_array_size(json_object_get(entry, "grid")), 6);
        expect_between("accuracy at 1", json_number_value(json_array_get(accuracy, 3)), 0.95, 1);
        expect_between("accuracy at 0.001", json_number_value(json_array_get(accuracy, 0)), 0, 0.5);
    }
    assert_true(exponent(document, "linear") > 0.3 && exponent(document, "none") < exponent(document, "linear"));
    json_decref(document);
}

static void a_law_that_never_works_gives_null(void **state)
{
    (void)state;
    expect_status(study("learn --laws linear --d 16 --seeds 2 --rates 1e-6 --json %s/never.json > /dev/null 2>&1"), 0);
    json_t *document = load("never.json");
    const json_t *entry = row(document, "linear", 16);
    assert_true(json_is_null(json_object_get(entry, "rate_low")));
    assert_true(json_is_null(json_object_get(entry, "rate_high_hi")));
    json_decref(document);
}

/* A rate at the grid's own end says "at least": it is marked, and no exponent is drawn from it. */
static void a_rate_at_the_end_of_the_grid_is_a_bound(void **state)
{
    (void)state;
    expect_status(study("learn --laws sqrt --d 16,32 --seeds 2 --rates 0.001,1 --json %s/bound.json > /dev/null 2>&1"),
                  0);
    json_t *document = load("bound.json");
    const json_t *entry = row(document, "sqrt", 32), *fit = json_array_get(json_object_get(document, "fits"), 0);
    assert_true(json_is_true(json_object_get(entry, "rate_high_is_bound")));
    assert_true(json_is_false(json_object_get(entry, "rate_low_is_bound")));
    assert_true(json_is_null(json_object_get(fit, "exponent")) && number(fit, "low_exponent") < 0);
    json_decref(document);
}

/* ---- What it depends on -------------------------------------------------------------------------------------------------- */

static const char small[] = "learn --d 12,20 --laws none,sqrt --seeds 3 --rates 0.1,1,10 --refine 1.5";

static void results_depend_on_the_seed_line_alone(void **state)
{
    (void)state;
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s --threads 1 --json %%s/one.json > /dev/null 2>&1", small);
    expect_status(study(arguments), 0);
    snprintf(arguments, sizeof arguments, "%s --threads 2 --json %%s/two.json > /dev/null 2>&1", small);
    expect_status(study(arguments), 0);
    expect_same_results("one.json", "two.json");
    /* What the seed line says, typed in again. */
    json_t *document = load("one.json");
    const char *line = json_string_value(json_object_get(document, "seed_line"));
    assert_int_equal(strncmp(line, "scale_study ", 12), 0);
    snprintf(arguments, sizeof arguments, "%s --threads 3 --json %%s/again.json > /dev/null 2>&1", line + 12);
    json_decref(document);
    expect_status(study(arguments), 0);
    expect_same_results("one.json", "again.json");
    snprintf(arguments, sizeof arguments, "%s --seed 2 --json %%s/other.json > /dev/null 2>&1", small);
    expect_status(study(arguments), 0);
    char *one = text_of("one.json"), *other = text_of("other.json");
    assert_true(strcmp(strstr(one, "\"rows\""), strstr(other, "\"rows\"")) != 0);
    free(one);
    free(other);
    expect_status(study("saturation --d 8,24 --seeds 3 --threads 1 --json %s/s1.json > /dev/null 2>&1"), 0);
    expect_status(study("saturation --d 8,24 --seeds 3 --threads 2 --json %s/s2.json > /dev/null 2>&1"), 0);
    expect_same_results("s1.json", "s2.json");
}

enum { LONG_JOBS = 30 };
static const char long_one[] = "learn --d 16 --laws sqrt --seeds 30 --rates 0.1,1 --refine 2";

/* Interrupts the long run when some of its jobs are finished, whatever the machine's speed; returns how many. */
static size_t interrupt(void)
{
    for (double seconds = 0.5; seconds > 0.01 && seconds < 100;) {
        char command[512];
        snprintf(command, sizeof command,
                 "--preserve-status -s INT %.3f '%s' %s --threads 1 --json %s/part.json > %s/part.txt 2>&1", seconds,
                 program, long_one, folder, folder);
        const outcome *o = run("/usr/bin/timeout", command);
        if (o->status == 0) {
            seconds /= 3;
            continue;
        }
        expect_status(o, 130);
        json_t *document = load("part.json");
        const size_t finished = json_array_size(json_object_get(document, "finished"));
        assert_non_null(json_object_get(document, "finished"));
        json_decref(document);
        if (finished > 0)
            return finished;
        seconds *= 2;
    }
    fail_msg("it could not be interrupted half-way");
    return 0;
}

static void an_interrupted_run_goes_on_to_the_same_results(void **state)
{
    (void)state;
    if (access("/usr/bin/timeout", X_OK) != 0)
        skip();
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s --json %%s/whole.json > /dev/null 2>&1", long_one);
    expect_status(study(arguments), 0);
    const size_t finished = interrupt();
    assert_true(finished < LONG_JOBS);
    /* What was finished has been printed. */
    snprintf(arguments, sizeof arguments, "%s/part.txt", folder);
    const outcome *o = run("/bin/cat", arguments);
    snprintf(arguments, sizeof arguments, "interrupted: %zu of %d jobs are finished", finished, (int)LONG_JOBS);
    expect_text(o, arguments);
    snprintf(arguments, sizeof arguments, "\nsqrt        16 %6zu", finished);
    expect_text(o, arguments);
    /* A run of another seed is not gone on with; this one is, by its file alone, and leaves nothing to go on with. */
    o = study("learn --resume %s/part.json --seed 2 2>&1 > /dev/null");
    expect_status(o, 2);
    expect_text(o, "is of another run");
    o = study("saturation --resume %s/part.json 2>&1 > /dev/null");
    expect_status(o, 2);
    expect_status(study("learn --resume %s/part.json --threads 2 > /dev/null 2>&1"), 0);
    expect_same_results("whole.json", "part.json");
    o = study("learn --resume %s/part.json 2>&1 > /dev/null");
    expect_status(o, 2);
    expect_text(o, "has come to its end");
}

/* ---- Pictures, help, refusals ------------------------------------------------------------------------------------------ */

static void pictures_are_drawn(void **state)
{
    (void)state;
    if (system("command -v gnuplot > /dev/null 2>&1") != 0)
        skip();
    expect_status(study("saturation --d 8,16 --seeds 2 --plot %s/saturation.svg > /dev/null 2>&1"), 0);
    expect_status(study("learn --d 8,16 --seeds 2 --rates 0.1,1 --laws none,sqrt --plot %s/learn.svg > /dev/null 2>&1"),
                  0);
    assert_true(exists("saturation.svg") && exists("learn.svg"));
    char path[256];
    snprintf(path, sizeof path, "%s/learn.svg", folder);
    outcome *o = run("/usr/bin/tail", path);
    expect_text(o, "</svg>");
}

static void bad_input_is_named_before_anything_runs(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "a command is missing"},
        {"train", "'train' is none of the commands saturation, learn"},
        {"learn --laws sqrt,cube", "--laws: 'cube' is none of none, sqrt, linear"},
        {"learn --laws", "--laws: its value is missing"},
        {"learn --d 0", "--d: '0' is not a whole number"},
        {"saturation --d 8,-16", "--d: '-16' is not a whole number"},
        {"saturation --d 8,x", "--d: 'x' is not a whole number"},
        {"saturation --n 1", "--n: '1' is not a whole number from 2"},
        {"learn --rates 0.1,fast", "--rates: 'fast' is not a number above 0"},
        {"learn --rates 0.1,,1", "--rates: '' is not a number above 0"},
        {"learn --rates 0", "--rates: '0' is not a number above 0"},
        {"learn --rates -1", "--rates: '-1' is not a number above 0"},
        {"learn --rates inf", "--rates: 'inf' is not a number above 0"},
        {"learn --rates nan", "--rates: 'nan' is not a number above 0"},
        {"learn --refine 1", "--refine: '1' is not a number above 1"},
        {"learn --seeds 0", "--seeds: '0' is not a whole number from 1"},
        {"learn --threads 0", "--threads: '0' is not a whole number from 1"},
        {"learn --n 32", "unknown option '--n'"},
        {"learn --quick=3", "--quick: it takes no value"},
        {"learn --json %s/no/such/folder.json", "cannot write"},
        {"learn --plot %s/no/such/folder.svg", "cannot write"},
        {"learn --plot %s/picture.txt", "must end in .svg or .png"},
        {"learn --resume %s/nothing.json", "--resume: cannot read"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments, "%s 2>&1", cases[i][0]);
        const outcome *o = study(arguments);
        expect_status(o, 2);
        expect_text(o, cases[i][1]);
        if (strstr(o->text, "seed line"))
            fail_msg("%s: it began to run", cases[i][0]);
    }
    assert_false(exists("nothing.json"));
}

static void write_text(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A file to go on from is somebody's: cut short, of another program, or edited. */
static void a_foreign_file_is_not_gone_on_from(void **state)
{
    (void)state;
    static const char line[] =
        "scale_study learn --seed 1 --seeds 2 --d 8 --laws sqrt --dtype f32 --rates 1 --refine 2";
    static const char *const cases[][2] = {
        {"", "cannot read"},
        {"{\"seed_line\": \"scale_st", "cannot read"},
        {"[1, 2]", "has no seed line"},
        {"{\"seed_line\": 3}", "has no seed line"},
        {"{\"seed_line\": \"scale_study\"}", "not of the command learn"},
        {"{\"seed_line\": \"scale_study optim --seeds 1\"}", "not of the command learn"},
        {"{\"seed_line\": \"scale_study learn --seeds 0\"}", "--seeds: '0' is not a whole number"},
        {"{\"seed_line\": \"scale_study learn --seeds 2\"}", "is of another run"},
        {"{\"seed_line\": \"%s\"}", "has come to its end"},
        {"{\"seed_line\": \"%s\", \"finished\": 5}", "is no list"},
        {"{\"seed_line\": \"%s\", \"finished\": [3]}", "entry 0 of finished"},
        {"{\"seed_line\": \"%s\", \"finished\": [{\"values\": \"1 1 1\"}]}", "entry 0 of finished"},
        {"{\"seed_line\": \"%s\", \"finished\": [{\"job\": 2, \"values\": \"1 1 1\"}]}", "entry 0 of finished"},
        {"{\"seed_line\": \"%s\", \"finished\": [{\"job\": 0, \"values\": \"1 1\"}]}", "entry 0 of finished"},
        {"{\"seed_line\": \"%s\", \"finished\": [{\"job\": 0, \"values\": \"1 1 1 1\"}]}", "entry 0 of finished"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        const char *gap = strstr(cases[i][0], "%s");
        snprintf(text, sizeof text, "%.*s%s%s", gap ? (int)(gap - cases[i][0]) : 0, cases[i][0], gap ? line : "",
                 gap ? gap + 2 : cases[i][0]);
        write_text("foreign.json", text);
        const outcome *o = study("learn --resume %s/foreign.json 2>&1");
        expect_status(o, 2);
        expect_text(o, cases[i][1]);
    }
}

/* A file of the name is never put in the place of a device: root would lose /dev/full. */
static void a_device_is_written_to_and_stays(void **state)
{
    (void)state;
    char path[256];
    struct stat there;
    snprintf(path, sizeof path, "%s/device.json", folder);
    if (symlink("/dev/full", path) != 0 || stat(path, &there) != 0 || !S_ISCHR(there.st_mode))
        skip();
    const outcome *o = study("saturation --d 8 --seeds 1 --laws sqrt --json %s/device.json 2>&1");
    expect_status(o, 1);
    expect_text(o, "No space left on device");
    assert_true(lstat(path, &there) == 0 && S_ISLNK(there.st_mode));
}

static void help_says_what_there_is(void **state)
{
    (void)state;
    const outcome *o = study("--help");
    expect_status(o, 0);
    expect_text(o, "\n  saturation ");
    expect_text(o, "\n  learn ");
    expect_text(o, "\n  control ");
    o = study("learn --help");
    expect_status(o, 0);
    expect_text(o, "--resume FILE");
    expect_text(o, "--refine FACTOR");
}

int main(int argc, char **argv)
{
    if (argc != 2 || !mkdtemp(folder)) {
        fprintf(stderr, "usage: test_scale_study SCALE_STUDY\n");
        return 1;
    }
    program = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_input_is_named_before_anything_runs),
        cmocka_unit_test(a_foreign_file_is_not_gone_on_from),
        cmocka_unit_test(a_device_is_written_to_and_stays),
        cmocka_unit_test(help_says_what_there_is),
        cmocka_unit_test(saturation_without_scaling_and_none_with_it),
        cmocka_unit_test(rates_that_work_keep_their_place_with_the_root_alone),
        cmocka_unit_test(a_law_that_never_works_gives_null),
        cmocka_unit_test(a_rate_at_the_end_of_the_grid_is_a_bound),
        cmocka_unit_test(results_depend_on_the_seed_line_alone),
        cmocka_unit_test(an_interrupted_run_goes_on_to_the_same_results),
        cmocka_unit_test(pictures_are_drawn),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command) != 0 || failed;
}
