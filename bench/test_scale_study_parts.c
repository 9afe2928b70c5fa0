/* test_scale_study_parts.c - what the study's figures rest on: the task and its short cut, the laws, the search for
 * rates, medians and exponents. Everything random comes from one seed, printed on failure, accepted in LAB_TEST_SEED.
 */
#include "scale_study.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"

static uint64_t test_seed(void)
{
    const char *text = getenv("LAB_TEST_SEED");
    return text ? strtoull(text, NULL, 0) : 20251129;
}

static void expect_close(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("LAB_TEST_SEED=%llu: %s: %.17g, expected %.17g within %g", (unsigned long long)test_seed(), what, got,
                 want, tolerance);
}

/* max |got - want| <= tolerance * max |want| over n numbers. */
static void expect_near(const char *what, int64_t n, const double *got, const double *want, double tolerance)
{
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs(got[i] - want[i]));
        largest = fmax(largest, fabs(want[i]));
        assert_false(isnan(got[i]));
    }
    if (!(worst <= tolerance * largest))
        fail_msg("LAB_TEST_SEED=%llu: %s: off by %g of %g", (unsigned long long)test_seed(), what, worst, largest);
    assert_true(largest > 0);
}

static void expect_healthy(const lab_graph *g)
{
    if (lab_graph_status(g) != LAB_OK)
        fail_msg("%s", lab_graph_message(g));
}

/* ---- The task -------------------------------------------------------------------------------------------------------- */

enum { D = 12, TOKENS = STUDY_TOKENS, BATCH = STUDY_BATCH };

/* A head, its tokens and a graph, in float64. */
typedef struct fixture {
    lab_graph *g;
    study_head head;
    study_tokens tokens;
    study_batch batch;
} fixture;

static void begin(fixture *f, study_law law)
{
    f->g = lab_graph_create(NULL);
    assert_int_equal(study_head_init(&f->head, law, D, LAB_F64, test_seed()), LAB_OK);
    assert_true(study_tokens_draw(&f->tokens, D, LAB_F64, test_seed()));
    f->batch = study_batch_of(f->g, &f->tokens, 3);
    expect_healthy(f->g);
}

static void end(fixture *f)
{
    expect_healthy(f->g);
    lab_graph_destroy(&f->g);
    study_head_free(&f->head);
    study_tokens_free(&f->tokens);
}

static const double *numbers(const lab_tensor *t)
{
    return lab_tensor_data((lab_tensor *)t);
}

/* The head as one would write it: queries and keys are projected, and meet in attention. */
static study_step apply_projected(lab_graph *g, const study_head *head, const study_batch *batch)
{
    study_step step = {0};
    const double scale = study_scale(head->law, D);
    lab_tensor *q = lab_matmul(g, batch->queries, lab_transpose(g, head->wq, 0, 1));
    lab_tensor *k = lab_matmul(g, batch->tokens, lab_transpose(g, head->wk, 0, 1));
    lab_tensor *flat = lab_reshape(g, k, 2, (int64_t[]){BATCH * TOKENS, D});
    step.weights = lab_attention(g, lab_reshape(g, q, 4, (int64_t[]){BATCH, 1, 1, D}), k, batch->values,
                                 &(lab_attention_opts){.scale = scale, .lse = &step.lse});
    step.lse = lab_reshape(g, step.lse, 1, (int64_t[]){BATCH});
    step.own = lab_mul_scalar(g, lab_sum(g, lab_mul(g, q, lab_gather_rows(g, flat, batch->rows)), 1, (int[]){1}, false),
                              scale);
    step.loss = lab_mean_all(g, lab_sub(g, step.lse, step.own));
    return step;
}

/* The short cut of the training task: attention of Wk^T (Wq x) on the tokens is attention of Wq x on Wk t, in scores
 * (so lse, the own score and the weights) and in what Wq and Wk receive. */
static void keys_that_are_not_projected_change_nothing(void **state)
{
    (void)state;
    const study_law laws[] = {STUDY_NONE, STUDY_SQRT, STUDY_LINEAR, STUDY_CONTROL};
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        fixture f;
        begin(&f, laws[i]);
        const study_step fast = study_head_apply(f.g, &f.head, &f.batch, LAB_PATH_AUTO);
        const study_step plain = apply_projected(f.g, &f.head, &f.batch);
        lab_tensor *weights[] = {f.head.wq, f.head.wk}, *got[2], *want[2];
        lab_grad(f.g, fast.loss, NULL, 2, weights, got, NULL);
        lab_grad(f.g, plain.loss, NULL, 2, weights, want, NULL);
        expect_healthy(f.g);
        expect_near("lse", BATCH, numbers(fast.lse), numbers(plain.lse), 1e-13);
        expect_near("own score", BATCH, numbers(fast.own), numbers(plain.own), 1e-13);
        expect_near("weights", BATCH * TOKENS, numbers(fast.weights), numbers(plain.weights), 1e-13);
        expect_near("dWq", D * D, numbers(got[0]), numbers(want[0]), 1e-12);
        expect_near("dWk", D * D, numbers(got[1]), numbers(want[1]), 1e-12);
        end(&f);
    }
}

/* y = W x, in long double. */
static void project(const double *w, const double *x, long double *y)
{
    for (int i = 0; i < D; i++) {
        y[i] = 0;
        for (int j = 0; j < D; j++)
            y[i] += (long double)w[i * D + j] * x[j];
    }
}

static void divide_by_root_mean_square(long double *y)
{
    long double squares = 0;
    for (int i = 0; i < D; i++)
        squares += y[i] * y[i] / D;
    for (int i = 0; i < D; i++)
        y[i] /= sqrtl(squares);
}

static long double plain_score(const study_head *head, const double *x, const double *token)
{
    long double q[D], k[D], score = 0;
    project(numbers(head->wq), x, q);
    project(numbers(head->wk), token, k);
    if (head->law == STUDY_QKNORM) {
        divide_by_root_mean_square(q);
        divide_by_root_mean_square(k);
    }
    for (int i = 0; i < D; i++)
        score += q[i] * k[i];
    if (head->law == STUDY_SQRT || head->law == STUDY_QKNORM)
        score /= sqrtl(D);
    if (head->law == STUDY_LINEAR || head->law == STUDY_UPDATE)
        score /= D;
    if (head->law == STUDY_START)
        score *= sqrtl(D);
    return head->law == STUDY_SOFTCAP ? 50 * tanhl(score / 50) : score;
}

static void every_law_is_what_its_words_say(void **state)
{
    (void)state;
    for (study_law law = STUDY_NONE; law < STUDY_LAWS; law++) {
        fixture f;
        begin(&f, law);
        const study_step step = study_head_apply(f.g, &f.head, &f.batch, LAB_PATH_AUTO);
        expect_healthy(f.g);
        double weights[BATCH * TOKENS], loss = 0;
        for (int b = 0; b < BATCH; b++) {
            const double *tokens = numbers(f.batch.tokens) + b * TOKENS * D;
            const double *x = tokens + f.batch.target[b] * D;
            long double sum = 0;
            for (int j = 0; j < TOKENS; j++)
                sum += expl(plain_score(&f.head, x, tokens + j * D));
            for (int j = 0; j < TOKENS; j++)
                weights[b * TOKENS + j] = (double)(expl(plain_score(&f.head, x, tokens + j * D)) / sum);
            loss -= log(weights[b * TOKENS + f.batch.target[b]]) / BATCH;
        }
        expect_near(study_rules[law].name, BATCH * TOKENS, numbers(step.weights), weights, 1e-12);
        expect_close(study_rules[law].name, *numbers(step.loss), loss, 1e-12 * fmax(1, loss));
        end(&f);
    }
}

static double deviation(int64_t n, const float *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sqrt(sum / (double)n);
}

/* The control starts where / sqrt(d) does: entries of variance d^(-3/2) in both matrices. */
static void the_control_is_drawn_smaller_by_a_quarter_power(void **state)
{
    (void)state;
    for (int64_t d = 64; d <= 256; d *= 4) {
        study_head plain, control;
        assert_int_equal(study_head_init(&plain, STUDY_NONE, d, LAB_F32, test_seed()), LAB_OK);
        assert_int_equal(study_head_init(&control, STUDY_CONTROL, d, LAB_F32, test_seed()), LAB_OK);
        const double one = deviation(d * d, lab_tensor_data(plain.wq)),
                     other = deviation(d * d, lab_tensor_data(control.wk));
        expect_close("deviation x sqrt(d)", one * sqrt((double)d), 1, 0.05);
        expect_close("deviation x d^(3/4)", other * pow((double)d, 0.75), 1, 0.05);
        study_head_free(&plain);
        study_head_free(&control);
    }
}

/* Kept or drawn again, float32 or float64: the same tokens; queries are copies; no two steps are alike. */
static void tokens_are_a_function_of_seed_and_step(void **state)
{
    (void)state;
    const int64_t widths[] = {8, 1200}; /* the second does not fit, and keeps one step */
    for (int i = 0; i < 2; i++) {
        const int64_t d = widths[i], each = BATCH * TOKENS * d;
        float *expected = malloc((size_t)each * sizeof(float));
        study_tokens tokens, wide;
        assert_non_null(expected);
        assert_true(study_tokens_draw(&tokens, d, LAB_F32, 7));
        assert_true(study_tokens_draw(&wide, 8, LAB_F64, 7));
        assert_int_equal(tokens.kept, i ? 1 : STUDY_STEPS);
        lab_graph *g = lab_graph_create(NULL);
        for (int64_t step = 5; step >= 4; step--) {
            lab_graph_reset(g);
            const study_batch batch = study_batch_of(g, &tokens, step), same = study_batch_of(g, &wide, step);
            expect_healthy(g);
            const float *got = lab_tensor_data(batch.tokens), *query = lab_tensor_data(batch.queries);
            lab__kernel_normal(KERNEL_F32, each, expected, 7, 3, step * each);
            assert_memory_equal(got, expected, (size_t)each * sizeof(float));
            for (int b = 0; b < BATCH; b++)
                assert_memory_equal(query + b * d, got + (b * TOKENS + batch.target[b]) * d, (size_t)d * sizeof(float));
            for (int64_t j = 0; d == 8 && j < each; j++)
                assert_true(fabs(numbers(same.tokens)[j] - got[j]) <= 0);
        }
        lab_graph_destroy(&g);
        study_tokens_free(&tokens);
        study_tokens_free(&wide);
        free(expected);
    }
}

static study_outcome train(study_law law, int64_t d, double rate)
{
    study_outcome outcome;
    study_tokens tokens;
    lab_graph *g = lab_graph_create(NULL);
    assert_true(study_tokens_draw(&tokens, d, LAB_F32, 11));
    const study_training training = {.law = law,
                                     .d = d,
                                     .dtype = LAB_F32,
                                     .seed = 11,
                                     .tokens = &tokens,
                                     .step = lab_sgd_step,
                                     .ctx = &(lab_sgd){.rate = rate}};
    assert_true(study_train(g, &training, &outcome));
    study_tokens_free(&tokens);
    lab_graph_destroy(&g);
    return outcome;
}

static void a_run_learns_or_diverges_and_says_when(void **state)
{
    (void)state;
    const study_outcome good = train(STUDY_SQRT, 32, 1), again = train(STUDY_SQRT, 32, 1);
    assert_true(good.accuracy >= 0.95 && good.accuracy <= 1 && isnan(good.diverged_at));
    assert_true(good.steps_to_95 > 0 && good.steps_to_95 < STUDY_STEPS);
    assert_memory_equal(&good, &again, sizeof good);
    const study_outcome bad = train(STUDY_NONE, 32, 1e8);
    assert_true(bad.accuracy <= 0 && bad.diverged_at >= 1 && isnan(bad.steps_to_95));
    /* At a rate of nothing, a head that has not learned finds the copy about as often as chance does. */
    const study_outcome idle = train(STUDY_SQRT, 32, 1e-12);
    assert_true(idle.accuracy < 0.2 && isnan(idle.diverged_at));
}

/* ---- The search for rates ---------------------------------------------------------------------------------------------- */

/* Works from low to high; with a hole at 1, where that is well inside. */
typedef struct pretended {
    double low, high;
    int tries;
} pretended;

static bool pretend(void *ctx, double rate, double *accuracy)
{
    pretended *p = ctx;
    p->tries++;
    const bool hole = p->low < 0.05 && p->high > 20 && fabs(rate - 1) < 1e-9;
    *accuracy = rate >= p->low && rate <= p->high && !hole ? 0.95 : 0.9499;
    return true;
}

static void the_search_finds_both_ends_to_the_factor(void **state)
{
    (void)state;
    const double ends[][2] = {{0.02, 7}, {0.1, 10}, {0.011, 99}, {1e-9, 50}, {0.2, 1e9}, {1e-9, 1e9}};
    study_settings settings = {.rates = {5, {0.01, 0.1, 1, 10, 100}}, .refine = {1, {1.25}}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        pretended p = {ends[i][0], ends[i][1], 0};
        study_search found;
        assert_true(study_search_rates(&settings, pretend, &p, &found));
        const double low = fmax(p.low, 0.01), high = fmin(p.high, 100);
        assert_true(found.low >= low && found.low <= low * 1.25);
        assert_true(found.high <= high && found.high >= high / 1.25);
        assert_true(p.tries <= 5 + 2 * 4);
    }
    pretended never = {3, 2, 0};
    study_search found;
    assert_true(study_search_rates(&settings, pretend, &never, &found));
    assert_true(isnan(found.low) && isnan(found.high) && never.tries == 5);
}

/* ---- Numbers ------------------------------------------------------------------------------------------------------------- */

static void quantiles_leave_out_what_is_missing(void **state)
{
    (void)state;
    double some[] = {NAN, 5, 1, NAN, 3, 2, 4};
    const study_range range = study_range_of(7, some);
    assert_int_equal(range.count, 5);
    expect_close("median", range.median, 3, 0);
    expect_close("5 %", range.low, 1.2, 1e-12);
    expect_close("95 %", range.high, 4.8, 1e-12);
    double none[] = {NAN};
    assert_true(isnan(study_quantile(1, none, 0.5)));
    double endless[] = {1, INFINITY, INFINITY};
    assert_true(isinf(study_quantile(3, endless, 0.75)));
}

static void the_fit_finds_the_exponent_and_how_sure_it_is(void **state)
{
    (void)state;
    enum { WIDTHS = 6, SEEDS = 20 };
    double x[WIDTHS], exact[SEEDS * WIDTHS], noisy[SEEDS * WIDTHS], noise[SEEDS * WIDTHS];
    lab__kernel_normal(KERNEL_F64, SEEDS * WIDTHS, noise, test_seed(), 0, 0);
    for (int i = 0; i < SEEDS * WIDTHS; i++) {
        x[i % WIDTHS] = 16 << i % WIDTHS;
        exact[i] = 3 * pow(x[i % WIDTHS], -0.6);
        noisy[i] = exact[i] * exp(0.3 * noise[i]);
    }
    exact[3] = NAN; /* one seed without a rate at one width is no harm */
    study_fit fit = study_fit_power(WIDTHS, x, SEEDS, exact);
    assert_int_equal(fit.points, WIDTHS);
    expect_close("exponent", fit.exponent, -0.6, 1e-12);
    expect_close("interval", fit.high - fit.low, 0, 1e-12);
    fit = study_fit_power(WIDTHS, x, SEEDS, noisy);
    assert_true(fit.low < fit.exponent && fit.exponent < fit.high);
    expect_close("noisy exponent", fit.exponent, -0.6, 0.15);
    assert_true(fit.high - fit.low > 0.02 && fit.high - fit.low < 0.4);
    for (int seed = 0; seed < SEEDS; seed++)
        for (int i = 1; i < WIDTHS; i++)
            exact[seed * WIDTHS + i] = NAN;
    fit = study_fit_power(WIDTHS, x, SEEDS, exact);
    assert_true(fit.points == 1 && isnan(fit.exponent) && isnan(fit.low));
}

static void numbers_read_back_as_they_were(void **state)
{
    (void)state;
    const double some[] = {0.001, 0.00316228, 1.0 / 3, 100, 0.1 + 0.2, 1e-300};
    char text[32];
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        expect_close("number", strtod(study_number_text(some[i], text), NULL), some[i], 0);
    assert_string_equal(study_number_text(0.1, text), "0.1");
}

static void seeds_and_widths_share_no_draws(void **state)
{
    (void)state;
    uint64_t seen[4 * 4 * 4];
    int n = 0;
    for (int64_t seed = 0; seed < 4; seed++)
        for (int64_t index = 0; index < 4; index++)
            for (int64_t d = 16; d <= 128; d *= 2) {
                const study_settings settings = {.seed = {1, {seed}}};
                seen[n] = study_seed(&settings, index, d);
                for (int i = 0; i < n; i++)
                    assert_true(seen[i] != seen[n]);
                n++;
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_that_are_not_projected_change_nothing),
        cmocka_unit_test(every_law_is_what_its_words_say),
        cmocka_unit_test(the_control_is_drawn_smaller_by_a_quarter_power),
        cmocka_unit_test(tokens_are_a_function_of_seed_and_step),
        cmocka_unit_test(a_run_learns_or_diverges_and_says_when),
        cmocka_unit_test(the_search_finds_both_ends_to_the_factor),
        cmocka_unit_test(quantiles_leave_out_what_is_missing),
        cmocka_unit_test(the_fit_finds_the_exponent_and_how_sure_it_is),
        cmocka_unit_test(numbers_read_back_as_they_were),
        cmocka_unit_test(seeds_and_widths_share_no_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
