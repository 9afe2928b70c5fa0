/* test_optim_norm.c - the norm of all gradients, clipping by it, gradients that add up, and rates by step. */
#include "optim_check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The norm ---------------------------------------------------------------------------------------------------- */

static lab_tensor *with_gradient(lab_dtype dtype, int64_t n, const double *gradient)
{
    lab_tensor *p;
    assert_int_equal(lab_tensor_create(&p, dtype, 1, &n), LAB_OK);
    assert_int_equal(lab_tensor_require_grad(p, true), LAB_OK);
    give_gradient(p, gradient);
    return p;
}

static double norm_of(int n, lab_tensor **p)
{
    lab_grad_norm norm = {0};
    for (int i = 0; i < n; i++)
        assert_int_equal(lab_grad_norm_add(NULL, &p[i], &norm), LAB_OK);
    return lab_grad_norm_value(&norm);
}

/* Many pieces of work, of both dtypes, against long double; a parameter without a gradient counts as 0. */
static void the_norm_is_over_all_gradients(void **state)
{
    (void)state;
    uint64_t draws = draw_start("norm");
    enum { LONG = 100003, SHORT = 5 };
    double *gradient = malloc(LONG * sizeof *gradient);
    assert_non_null(gradient);
    long double squares = 0;
    lab_tensor *p[4];
    for (int i = 0; i < 3; i++) {
        const int n = i < 2 ? LONG : SHORT;
        for (int k = 0; k < n; k++) {
            gradient[k] = (float)draw_between(&draws, -1, 1);
            squares += (long double)gradient[k] * gradient[k];
        }
        p[i] = with_gradient(i == 1 ? LAB_F64 : LAB_F32, n, gradient);
    }
    p[3] = parameter_drawn(&draws, LAB_F32, 1, (int64_t[]){3});
    assert_true(fabsl(norm_of(4, p) - sqrtl(squares)) <= 1e-14L * sqrtl(squares));
    assert_true(norm_of(1, &p[3]) == 0 && lab_grad_norm_value(NULL) == 0);
    for (int i = 0; i < 4; i++)
        lab_tensor_destroy(&p[i]);
    free(gradient);
}

/* Squares that no double holds, beside others. */
static void no_square_overflows_or_vanishes(void **state)
{
    (void)state;
    static const struct {
        double a[2], b[2], norm;
    } cases[] = {
        {{3e200, 0}, {0, 4e200}, 5e200},
        {{3e-200, 0}, {0, 4e-200}, 5e-200},
        {{3e200, 4e200}, {1, 2}, 5e200},
        {{1, 2}, {3e200, 4e200}, 5e200},
        {{3e-200, 4e-200}, {5, 12}, 13},
        {{3e-310, 4e-310}, {0, 0}, 5e-310},
        {{0, 0}, {3, 4}, 5},
        {{0, 0}, {0, 0}, 0},
        {{1e308, 0}, {0, 1e308}, 1e308 * 1.4142135623730951},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_tensor *p[] = {with_gradient(LAB_F64, 2, cases[i].a), with_gradient(LAB_F64, 2, cases[i].b)};
        const double norm = norm_of(2, p);
        if (!(fabs(norm - cases[i].norm) <= 4e-16 * cases[i].norm + 1e-323))
            fail_msg("case %zu: the norm is %.17g, not %.17g", i, norm, cases[i].norm);
        lab_tensor_destroy(&p[0]);
        lab_tensor_destroy(&p[1]);
    }
}

static void a_norm_that_is_not_finite_says_so_and_changes_nothing(void **state)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++)
        for (int at = 0; at < 2; at++)
            for (int i = 0; i < 3; i++) {
                lab_tensor *p[] = {with_gradient((lab_dtype)dtype, 2, (double[]){3, 4}),
                                   with_gradient((lab_dtype)dtype, 2, (double[]){1e30, 2})};
                double norm = 0;
                give_gradient(p[at], (double[]){1, bad[i]});
                assert_int_equal(lab_clip_grad_norm(2, p, 1, &norm), LAB_ERR_RANGE);
                assert_non_null(strstr(lab_last_message(), at ? "parameters[1]" : "parameters[0]"));
                assert_true(i == 0 ? isnan(norm) : norm == INFINITY);
                assert_true(element_of(lab_tensor_grad(p[at]), 0) == 1);
                assert_true(element_of(lab_tensor_grad(p[1 - at]), 1) == (at ? 4 : 2));
                assert_true(isnan(lab_clip_factor(norm, 1)));
                lab_tensor_destroy(&p[0]);
                lab_tensor_destroy(&p[1]);
            }
    lab_tensor *p[] = {with_gradient(LAB_F64, 1, (double[]){INFINITY}), with_gradient(LAB_F64, 1, (double[]){NAN})};
    assert_true(isnan(norm_of(2, p)));
    lab_tensor_destroy(&p[0]);
    lab_tensor_destroy(&p[1]);
}

static void clipping_scales_to_the_limit(void **state)
{
    (void)state;
    uint64_t draws = draw_start("clip");
    lab_tensor *p[] = {with_gradient(LAB_F64, 2, (double[]){3, 4}), with_gradient(LAB_F32, 1, (double[]){12}),
                       parameter_drawn(&draws, LAB_F32, 1, (int64_t[]){3})};
    double norm;
    assert_int_equal(lab_clip_grad_norm(3, p, 13, &norm), LAB_OK); /* at the limit: not a bit */
    assert_true(norm == 13 && element_of(lab_tensor_grad(p[1]), 0) == 12);
    assert_int_equal(lab_clip_grad_norm(3, p, INFINITY, NULL), LAB_OK);
    assert_true(element_of(lab_tensor_grad(p[0]), 1) == 4);
    assert_int_equal(lab_clip_grad_norm(3, p, 6.5, &norm), LAB_OK);
    assert_true(norm == 13 && element_of(lab_tensor_grad(p[1]), 0) == 6 && element_of(lab_tensor_grad(p[0]), 0) == 1.5);
    assert_null(lab_tensor_grad(p[2]));
    assert_int_equal(lab_clip_grad_norm(3, p, 0, &norm), LAB_OK);
    assert_true(norm == 6.5 && norm_of(3, p) == 0);
    assert_int_equal(lab_clip_grad_norm(0, NULL, 1, &norm), LAB_OK);
    assert_true(norm == 0);
    assert_true(lab_clip_factor(13, 6.5) == 0.5 && lab_clip_factor(13, 13) == 1 && lab_clip_factor(0, 0) == 1);
    assert_true(lab_clip_factor(5, INFINITY) == 1 && isnan(lab_clip_factor(5, NAN)) && isnan(lab_clip_factor(5, -1)));
    for (int i = 0; i < 3; i++)
        lab_tensor_destroy(&p[i]);
}

static void clips_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    lab_tensor *p[] = {with_gradient(LAB_F64, 2, (double[]){3, 4}), NULL};
    double norm = 7, one = 1, bad = NAN;
    lab_grad_norm sum = {0};
    assert_int_equal(lab_clip_grad_norm(2, p, 1, &norm), LAB_ERR_ARGUMENT);
    assert_true(norm == 0 && strstr(lab_last_message(), "parameters[1]"));
    assert_int_equal(lab_clip_grad_norm(-1, p, 1, &norm), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_clip_grad_norm(1, NULL, 1, &norm), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_clip_grad_norm(1, p, -1, &norm), LAB_ERR_RANGE);
    assert_int_equal(lab_clip_grad_norm(1, p, NAN, &norm), LAB_ERR_RANGE);
    assert_int_equal(lab_grad_norm_add("p", NULL, &sum), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_grad_norm_add("p", &p[1], &sum), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_grad_norm_add("p", &p[0], NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_scale_grads("p", &p[1], &one), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_scale_grads("p", &p[0], NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_scale_grads("p", &p[0], &bad), LAB_ERR_RANGE);
    assert_true(element_of(lab_tensor_grad(p[0]), 0) == 3);
    lab_tensor_destroy(&p[0]);
}

/* Two halves of a batch, one after the other, with half the scale: the step of the whole batch's mean. */
static void gradients_add_up_over_small_batches(void **state)
{
    (void)state;
    lab_tensor *p = leaf_of_doubles(LAB_F64, 1, (int64_t[]){2}, (double[]){1, 2}), *q;
    assert_int_equal(lab_tensor_clone(&q, p), LAB_OK);
    assert_int_equal(lab_tensor_require_grad(p, true), LAB_OK);
    const lab_optimizer_config config = {.rule = LAB_ADAMW, .rate = 0.1, .eps = 0.5};
    lab_optimizer *a = optimizer_of(config), *b = optimizer_of(config);
    lab_graph *g = lab_graph_create(NULL);
    for (int half = 0; half < 2; half++) {
        lab_graph_reset(g);
        lab_backward(g, lab_sum_all(g, lab_mul_scalar(g, p, half ? 3 : 5)));
        expect_healthy(g);
    }
    assert_true(norm_of(1, &p) / 2 == 4 * sqrt(2));
    assert_int_equal(lab_optimizer_set_scale(a, 0.5), LAB_OK);
    step_once(a, "p", p);
    assert_int_equal(lab_tensor_require_grad(q, true), LAB_OK);
    give_gradient(q, (double[]){4, 4});
    step_once(b, "p", q);
    expect_same("p", p, q);
    lab_graph_destroy(&g);
    lab_optimizer_destroy(&a);
    lab_optimizer_destroy(&b);
    lab_tensor_destroy(&p);
    lab_tensor_destroy(&q);
}

/* ---- Schedules --------------------------------------------------------------------------------------------------- */

static void expect_rate(const lab_schedule *s, int64_t step, double want)
{
    const double got = lab_schedule_rate(s, step);
    if (!(fabs(got - want) <= 1e-15 * fabs(want)))
        fail_msg("kind %d, step %lld: %.17g, not %.17g", (int)s->kind, (long long)step, got, want);
}

static void schedules_are_their_formulas(void **state)
{
    (void)state;
    lab_schedule s = {.rate = 2};
    expect_rate(&s, 0, 2);
    expect_rate(&s, INT64_MAX, 2);
    s.warmup = 3;
    expect_rate(&s, 0, 0.5);
    expect_rate(&s, 2, 1.5);
    expect_rate(&s, 3, 2);
    s = (lab_schedule){.kind = LAB_SCHEDULE_LINEAR, .rate = 2, .final_rate = 1, .warmup = 4, .steps = 14};
    expect_rate(&s, 3, 1.6);
    expect_rate(&s, 4, 2);
    expect_rate(&s, 9, 1.5);
    expect_rate(&s, 13, 1.1);
    expect_rate(&s, 14, 1);
    expect_rate(&s, 1000, 1);
    /* nanoGPT's, on tiny Shakespeare. */
    s = (lab_schedule){.kind = LAB_SCHEDULE_COSINE, .rate = 1e-3, .final_rate = 1e-4, .warmup = 100, .steps = 2000};
    expect_rate(&s, 0, 1e-3 / 101);
    expect_rate(&s, 99, 1e-3 * 100 / 101);
    expect_rate(&s, 100, 1e-3);
    expect_rate(&s, 1050, 1e-4 + 0.5 * 9e-4);
    expect_rate(&s, 575, 1e-4 + 0.5 * (1 + sqrt(0.5)) * 9e-4);
    expect_rate(&s, 2000, 1e-4);
    expect_rate(&s, INT64_MAX, 1e-4);
    s.steps = s.warmup; /* nothing between */
    expect_rate(&s, 99, 1e-3 * 100 / 101);
    expect_rate(&s, 100, 1e-4);
}

static void schedules_that_make_no_sense_are_not_numbers(void **state)
{
    (void)state;
    static const lab_schedule bad[] = {{.kind = (lab_schedule_kind)3, .rate = 1},
                                       {.kind = (lab_schedule_kind)-1, .rate = 1},
                                       {.rate = -1},
                                       {.rate = NAN},
                                       {.rate = INFINITY},
                                       {.rate = 1, .final_rate = -1},
                                       {.rate = 1, .final_rate = NAN},
                                       {.rate = 1, .warmup = -1},
                                       {.kind = LAB_SCHEDULE_LINEAR, .rate = 1, .warmup = 5, .steps = 4},
                                       {.rate = 1, .reserved = {1}}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_true(isnan(lab_schedule_rate(&bad[i], 0)));
    assert_true(isnan(lab_schedule_rate(NULL, 0)) && isnan(lab_schedule_rate(&(lab_schedule){.rate = 1}, -1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_norm_is_over_all_gradients),
        cmocka_unit_test(no_square_overflows_or_vanishes),
        cmocka_unit_test(a_norm_that_is_not_finite_says_so_and_changes_nothing),
        cmocka_unit_test(clipping_scales_to_the_limit),
        cmocka_unit_test(clips_that_make_no_sense_are_refused),
        cmocka_unit_test(gradients_add_up_over_small_batches),
        cmocka_unit_test(schedules_are_their_formulas),
        cmocka_unit_test(schedules_that_make_no_sense_are_not_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
