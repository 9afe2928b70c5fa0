/* test_scale_study_why.c - the study's subcommands that ask why: signs and orders of magnitude of what they say.
 *
 *     test_scale_study_why SCALE_STUDY
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

#include <cmocka.h>

#include "program_check.h"
#include "study_check.h"

static double exponent(const json_t *document, const char *law, const char *key, const char *wanted)
{
    return number(find(document, "fits", law, 0, key, wanted), "exponent");
}

/* ---- mechanism ------------------------------------------------------------------------------------------------------- */

/* What theory says of every law: the moves of a first step, measured, by the derivative, and in closed form. */
static void expect_first_step(const json_t *document, const char *law, int64_t d)
{
    const json_t *row = find(document, "rows", law, d, NULL, NULL), *rate = find(document, "rates", law, d, NULL, NULL);
    const double start = number(rate, "start"), sharpness = number(row, "sharpness");
    assert_int_equal(number(row, "step"), 0);
    expect_between("score_std", number(row, "score_std"), 0.75 * start, 1.2 * start);
    expect_between("own score against the closed form", number(row, "move_own") / number(row, "move_own_closed_form"),
                   0.7, 1.4);
    expect_between("own score against the derivative", number(row, "move_own") / number(row, "move_own_first_order"),
                   0.8, 1.25);
    expect_between("others against the closed form", number(row, "move_rest") / number(row, "move_rest_closed_form"),
                   0.7, 1.4);
    expect_between("sharpness", sharpness, 0, 1e9);
    expect_between("2 / sharpness", number(rate, "two_over_sharpness_start") * sharpness, 1.5, 2.5);
}

static void moves_are_as_predicted_and_updates_not_starts_lower_the_highest_rate(void **state)
{
    static const char *const laws[] = {"none", "sqrt", "linear", "control", "start", "update"};
    (void)state;
    json_t *document = document_of("mechanism --quick");
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        expect_first_step(document, laws[i], 16);
        expect_first_step(document, laws[i], 64);
    }
    const double none = exponent(document, "none", NULL, NULL), root = exponent(document, "sqrt", NULL, NULL);
    const double unscaled_update = exponent(document, "start", NULL, NULL);
    const double unscaled_start = exponent(document, "update", NULL, NULL);
    expect_between("none", none, -0.9, -0.2);
    expect_between("sqrt", root, -0.1, 0.5);
    expect_between("linear", exponent(document, "linear", NULL, NULL), 0.5, 1.5);
    /* Laws of one start are one law with another unit of the rate: exact but for the bisection's grid and rounding. */
    expect_between("control", exponent(document, "control", NULL, NULL) - root, -0.6, -0.4);
    expect_between("start", unscaled_update - root, -1.1, -0.9);
    expect_between("update", unscaled_start - none, 0.9, 1.1);
    /* The task wants the identity. */
    const json_t *spectra = json_object_get(document, "spectra");
    assert_int_equal(json_array_size(spectra), 2 * 2 * sizeof laws / sizeof *laws);
    for (size_t i = 0; i < json_array_size(spectra); i += 2) {
        expect_between("identity before", number(json_array_get(spectra, i), "identity"), -0.3, 0.3);
        expect_between("identity after", number(json_array_get(spectra, i + 1), "identity"), 0.4, 1);
    }
    json_decref(document);
}

/* ---- correlated ------------------------------------------------------------------------------------------------------ */

/* At the start it is the head's size that counts; training leaves large heads the larger scores without a
 * scale only. */
static void expect_heads_that_train(const json_t *document)
{
    static const char *const laws[] = {"none", "sqrt", "linear"};
    const json_t *rows = json_object_get(document, "heads_trained"), *row;
    size_t i;
    assert_int_equal(json_array_size(rows), 2 * sizeof laws / sizeof *laws);
    json_array_foreach(rows, i, row)
    {
        assert_int_equal(number(row, "d") * number(row, "heads"), number(row, "width"));
        expect_between("heads' accuracy", number(row, "best_accuracy"), 0.95, 1);
        expect_between("heads' trained deviation", number(row, "trained_std"), 2, 30);
    }
    for (i = 0; i < sizeof laws / sizeof *laws; i++)
        expect_between("heads at the start",
                       number(find(document, "heads_fits", laws[i], 0, "when", "start"), "exponent"),
                       0.45 - 0.5 * (double)i, 0.55 - 0.5 * (double)i);
    const double none = number(find(document, "heads_fits", "none", 0, "when", "trained"), "exponent");
    const double root = number(find(document, "heads_fits", "sqrt", 0, "when", "trained"), "exponent");
    expect_between("trained heads, none", none, 0.1, 0.9);
    expect_between("trained heads, none less sqrt", none - root, 0.3, 1.5);
}

static void deviations_grow_with_the_root_where_independent_and_faster_where_they_agree(void **state)
{
    static const struct expected {
        const char *law;
        double power;
    } laws[] = {{"none", 0}, {"sqrt", -0.5}, {"linear", -1}};
    (void)state;
    json_t *document = document_of("correlated --quick");
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        const char *law = laws[i].law;
        const double power = laws[i].power, random = exponent(document, law, "case", "random");
        expect_between("random", random, power + 0.45, power + 0.55);
        expect_between("heads", exponent(document, law, "case", "random_heads"), power + 0.4, power + 0.6);
        expect_between("equal", exponent(document, law, "case", "equal"), power + 0.8, power + 1);
        expect_between("quarter", exponent(document, law, "case", "quarter"), random + 0.02, power + 0.8);
        const json_t *transfer = find(document, "transfer", law, 128, "tokens", "fresh");
        expect_between("the best accuracy", number(transfer, "best_accuracy"), 0.95, 1);
        expect_between("a carried-over loss over the best",
                       number(transfer, "tuned_loss") / number(transfer, "best_loss"), 1, INFINITY);
    }
    expect_heads_that_train(document);
    expect_between("sqrt at d = 128", number(find(document, "rows", "sqrt", 128, "case", "random"), "score_std"), 0.9,
                   1.05);
    json_decref(document);
}

/* ---- optim ----------------------------------------------------------------------------------------------------------- */

static void adaptive_optimisers_have_no_upper_end_and_momentum_has_one(void **state)
{
    static const char *const optimizers[] = {"momentum", "rmsprop", "adam", "adamw", "lion", "sign"};
    (void)state;
    json_t *document = document_of("optim --quick");
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        const json_t *row = find(document, "rows", "sqrt", 64, "optimizer", optimizers[i]);
        assert_int_equal(json_array_size(json_object_get(row, "grid")), 6);
        assert_int_equal(json_array_size(json_object_get(row, "accuracy")), 6);
        expect_between("rate_low", number(row, "rate_low"), 1e-5, number(row, "rate_high"));
        expect_between("steps_to_95", number(row, "steps_to_95"), 0, 100);
    }
    assert_true(
        json_is_true(json_object_get(find(document, "rows", "none", 64, "optimizer", "adam"), "rate_high_is_bound")));
    const double none = number(find(document, "rows", "none", 64, "optimizer", "momentum"), "rate_high");
    const double root = number(find(document, "rows", "sqrt", 64, "optimizer", "momentum"), "rate_high");
    expect_between("momentum: sqrt over none", root / none, 3, 100);
    json_decref(document);
}

/* ---- All of them ----------------------------------------------------------------------------------------------------- */

static void results_do_not_depend_on_threads(void **state)
{
    (void)state;
    expect_same_on_any_number_of_threads("mechanism --seeds 2 --d 8 --laws sqrt,none --refine 1.8");
    expect_same_on_any_number_of_threads("correlated --seeds 1 --d 128 --laws sqrt --rates 0.1,1");
    expect_same_on_any_number_of_threads(
        "optim --seeds 1 --d 8 --laws sqrt --optimizers momentum,adam --rates 0.1,1 --refine 4");
}

static void laws_that_are_more_than_a_scale_are_refused_where_scales_are_taken_apart(void **state)
{
    static const char *const commands[] = {"mechanism", "correlated"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char line[128];
        snprintf(line, sizeof line, "%s --laws sqrt,qknorm 2>&1", commands[i]);
        const outcome *o = run(study_program, line);
        expect_status(o, 2);
        expect_text(o, "qknorm");
    }
    expect_status(run(study_program, "optim --optimizers adamax 2>&1"), 2);
}

int main(int argc, char **argv)
{
    if (!study_check_begin(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(laws_that_are_more_than_a_scale_are_refused_where_scales_are_taken_apart),
        cmocka_unit_test(results_do_not_depend_on_threads),
        cmocka_unit_test(moves_are_as_predicted_and_updates_not_starts_lower_the_highest_rate),
        cmocka_unit_test(deviations_grow_with_the_root_where_independent_and_faster_where_they_agree),
        cmocka_unit_test(adaptive_optimisers_have_no_upper_end_and_momentum_has_one),
    };
    return study_check_end(cmocka_run_group_tests(tests, NULL, NULL));
}
