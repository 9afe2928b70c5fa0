/* test_optim.c - optimisers' steps: against their published rules, against PyTorch, and the same bits whatever the
 * strides, the threads and the way a factor takes.
 */
#include "optim_check.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/parallel.h"

static const char *text_of(const lab_optimizer_config *c)
{
    static char text[200];
    snprintf(text, sizeof text, "seed %llu: rule %d, rate %g, momentum %g%s, betas %g %g, eps %g, decay %g",
             (unsigned long long)check_seed(), (int)c->rule, c->rate, c->momentum, c->nesterov ? " nesterov" : "",
             c->beta1, c->beta2, c->eps, c->decay);
    return text;
}

/* ---- Rules ------------------------------------------------------------------------------------------------------- */

/* The first state, if the rule has one, is m or v by its name. */
static const char *first_state(const lab_optimizer_config *c)
{
    switch (c->rule) {
    case LAB_SGD:
    case LAB_SIGN_SGD:
        return c->momentum > 0 ? "momentum_buffer.p" : NULL;
    case LAB_RMSPROP:
        return c->momentum > 0 ? "momentum_buffer.p" : NULL;
    case LAB_ADAM:
    case LAB_ADAMW:
    case LAB_LION:
        break;
    }
    return "exp_avg.p";
}

static const char *second_state(const lab_optimizer_config *c)
{
    return c->rule == LAB_RMSPROP                        ? "square_avg.p"
           : c->rule == LAB_ADAM || c->rule == LAB_ADAMW ? "exp_avg_sq.p"
                                                         : NULL;
}

enum { SIZE = 37, STEPS = 20 };

static void follow_definition(lab_optimizer_config c, lab_dtype dtype, uint64_t *draws)
{
    lab_tensor *p = parameter_drawn(draws, dtype, 1, (int64_t[]){SIZE});
    lab_optimizer *optimizer = optimizer_of(c);
    moving x[SIZE] = {{0}};
    double gradient[SIZE], want[SIZE], want_m[SIZE], want_v[SIZE];
    const double tolerance = dtype == LAB_F64 ? 1e-12 : 2e-5;
    for (int i = 0; i < SIZE; i++)
        x[i].p = element_of(p, i);
    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < SIZE; i++) {
            gradient[i] = (float)draw_between(draws, -1, 1);
            step_by_definition(&c, &x[i], gradient[i], t);
            want[i] = (double)x[i].p;
            want_m[i] = (double)x[i].m;
            want_v[i] = (double)x[i].v;
        }
        give_gradient(p, gradient);
        step_once(optimizer, "p", p);
        expect_close(text_of(&c), p, want, SIZE, tolerance);
    }
    if (first_state(&c))
        expect_close(text_of(&c), state_named(optimizer, first_state(&c)), want_m, SIZE, tolerance);
    if (second_state(&c))
        expect_close(text_of(&c), state_named(optimizer, second_state(&c)), want_v, SIZE, tolerance);
    lab_optimizer_destroy(&optimizer);
    lab_tensor_destroy(&p);
}

static void steps_follow_the_published_rules(void **state)
{
    (void)state;
    uint64_t draws = draw_start("rules");
    for (int i = 0; i < optim_config_count; i++)
        for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++)
            follow_definition(optim_configs[i], (lab_dtype)dtype, &draws);
}

/* What is left out of a config is what optim.h says. */
static void zero_means_the_default(void **state)
{
    (void)state;
    uint64_t draws = draw_start("defaults");
    static const lab_optimizer_config given[] = {{.rule = LAB_RMSPROP, .rate = 0.1},
                                                 {.rule = LAB_ADAM, .rate = 0.1},
                                                 {.rule = LAB_ADAMW, .rate = 0.1},
                                                 {.rule = LAB_LION, .rate = 0.1}};
    static const lab_optimizer_config meant[] = {
        {.rule = LAB_RMSPROP, .rate = 0.1, .beta2 = 0.99, .eps = 1e-8},
        {.rule = LAB_ADAM, .rate = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
        {.rule = LAB_ADAMW, .rate = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
        {.rule = LAB_LION, .rate = 0.1, .beta1 = 0.9, .beta2 = 0.99}};
    for (int i = 0; i < 4; i++) {
        lab_tensor *p = parameter_drawn(&draws, LAB_F64, 1, (int64_t[]){5}), *q;
        lab_optimizer *a = optimizer_of(given[i]), *b = optimizer_of(meant[i]);
        assert_int_equal(lab_tensor_clone(&q, p), LAB_OK);
        assert_int_equal(lab_tensor_require_grad(q, true), LAB_OK);
        for (int t = 0; t < 3; t++) {
            double gradient[5];
            for (int k = 0; k < 5; k++)
                gradient[k] = 1e-7 * draw_between(&draws, -1, 1); /* small: eps shows */
            give_gradient(p, gradient);
            give_gradient(q, gradient);
            step_once(a, "p", p);
            step_once(b, "p", q);
        }
        expect_same(text_of(&meant[i]), p, q);
        lab_optimizer_destroy(&a);
        lab_optimizer_destroy(&b);
        lab_tensor_destroy(&p);
        lab_tensor_destroy(&q);
    }
}

/* ---- PyTorch ----------------------------------------------------------------------------------------------------- */

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static lab_optimizer_config config_of(const json_t *json)
{
    static const char *const names[] = {"sgd", "sign", "rmsprop", "adam", "adamw", "lion"};
    const char *rule = json_string_value(json_object_get(json, "rule"));
    int at = 0;
    while (at < 6 && strcmp(names[at], rule) != 0)
        at++;
    assert_true(at < 6);
    return (lab_optimizer_config){.rule = (lab_rule)at,
                                  .rate = number_of(json, "rate"),
                                  .momentum = number_of(json, "momentum"),
                                  .nesterov = number_of(json, "nesterov") != 0,
                                  .beta1 = number_of(json, "beta1"),
                                  .beta2 = number_of(json, "beta2"),
                                  .eps = number_of(json, "eps"),
                                  .decay = number_of(json, "decay")};
}

static int numbers_of(const json_t *list, double *numbers)
{
    int n = (int)json_array_size(list);
    assert_true(n <= SIZE);
    for (int i = 0; i < n; i++)
        numbers[i] = json_number_value(json_array_get(list, (size_t)i));
    return n;
}

static void follow_torch(const json_t *json)
{
    double start[SIZE], a[SIZE], b[SIZE], gradient[SIZE], want[SIZE];
    const json_t *after = json_object_get(json, "after"), *step;
    const int n = numbers_of(json_object_get(json, "p"), start);
    assert_int_equal(numbers_of(json_object_get(json, "a"), a), n);
    assert_int_equal(numbers_of(json_object_get(json, "b"), b), n);
    lab_optimizer_config c = config_of(json_object_get(json, "config"));
    lab_optimizer *optimizer = optimizer_of(c);
    lab_tensor *p = leaf_of_doubles(LAB_F64, 1, (int64_t[]){n}, start);
    assert_int_equal(lab_tensor_require_grad(p, true), LAB_OK);
    size_t t;
    assert_int_equal(json_array_size(after), 10);
    json_array_foreach(after, t, step)
    {
        assert_int_equal(numbers_of(step, want), n);
        for (int i = 0; i < n; i++)
            gradient[i] = a[i] * element_of(p, i) + b[i];
        give_gradient(p, gradient);
        step_once(optimizer, "p", p);
        expect_close(text_of(&c), p, want, n, 1e-12);
    }
    lab_optimizer_destroy(&optimizer);
    lab_tensor_destroy(&p);
}

static void ten_steps_are_pytorchs(void **state)
{
    (void)state;
    json_error_t error;
    json_t *root = json_load_file(OPTIM_TORCH, 0, &error), *cases = json_object_get(root, "cases"), *json;
    size_t i;
    if (!root)
        fail_msg("%s:%d: %s", OPTIM_TORCH, error.line, error.text);
    assert_int_equal(json_array_size(cases), 11);
    json_array_foreach(cases, i, json) follow_torch(json);
    json_decref(root);
}

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

/* Any strides give the bits of the row-major parameter. */
static void strides_change_no_bit(void **state)
{
    (void)state;
    uint64_t draws = draw_start("strides");
    enum { ROWS = 6, COLUMNS = 1037, N = ROWS * COLUMNS };
    static double gradient[N];
    for (int i = 0; i < optim_config_count; i++)
        for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
            lab_tensor *flat = parameter_drawn(&draws, (lab_dtype)dtype, 3, (int64_t[]){2, ROWS / 2, COLUMNS});
            lab_tensor *strided = leaf_strided(flat);
            assert_int_equal(lab_tensor_require_grad(strided, true), LAB_OK);
            lab_optimizer *a = optimizer_of(optim_configs[i]), *b = optimizer_of(optim_configs[i]);
            for (int t = 0; t < 2; t++) {
                for (int k = 0; k < N; k++)
                    gradient[k] = draw_between(&draws, -1, 1);
                give_gradient(flat, gradient);
                give_gradient(strided, gradient);
                step_once(a, "p", flat);
                step_once(b, "p", strided);
                expect_same(text_of(&optim_configs[i]), strided, flat);
            }
            lab_optimizer_destroy(&a);
            lab_optimizer_destroy(&b);
            lab_tensor_destroy(&flat);
            lab_tensor_destroy(&strided);
        }
}

/* Five pieces of work and a bit. */
static void threads_change_no_bit(void **state)
{
    (void)state;
    uint64_t draws = draw_start("threads");
    enum { N = 5 * 32768 + 77 };
    double *gradient = malloc(N * sizeof *gradient);
    assert_non_null(gradient);
    for (int k = 0; k < N; k++)
        gradient[k] = draw_between(&draws, -1, 1);
    const uint64_t taken = lab__parallel_pieces_taken();
    for (int i = 0; i < optim_config_count; i++) {
        lab_tensor *p[2] = {parameter_drawn(&draws, LAB_F32, 1, (int64_t[]){N})};
        double norm[2];
        assert_int_equal(lab_tensor_clone(&p[1], p[0]), LAB_OK);
        assert_int_equal(lab_tensor_require_grad(p[1], true), LAB_OK);
        for (int k = 0; k < 2; k++) {
            lab_optimizer *optimizer = optimizer_of(optim_configs[i]);
            assert_int_equal(lab_set_threads(k ? 3 : 1), LAB_OK);
            give_gradient(p[k], gradient);
            assert_int_equal(lab_clip_grad_norm(1, &p[k], 3, &norm[k]), LAB_OK);
            step_once(optimizer, "p", p[k]);
            step_once(optimizer, "p", p[k]);
            lab_optimizer_destroy(&optimizer);
        }
        expect_same(text_of(&optim_configs[i]), p[1], p[0]);
        assert_true(norm[0] == norm[1] && norm[0] > 200);
        lab_tensor_destroy(&p[0]);
        lab_tensor_destroy(&p[1]);
    }
    assert_int_equal(lab_set_threads(0), LAB_OK);
    assert_true(lab__parallel_pieces_taken() > taken);
    free(gradient);
}

/* The optimiser's scale does what scaling the gradients does, to the bit. */
static void a_scale_is_a_factor_of_the_gradient(void **state)
{
    (void)state;
    uint64_t draws = draw_start("scale");
    for (int i = 0; i < optim_config_count; i++) {
        lab_tensor *p = parameter_drawn(&draws, LAB_F32, 1, (int64_t[]){SIZE}), *q;
        lab_optimizer *a = optimizer_of(optim_configs[i]), *b = optimizer_of(optim_configs[i]);
        double gradient[SIZE], factor = 0.3;
        assert_int_equal(lab_tensor_clone(&q, p), LAB_OK);
        assert_int_equal(lab_tensor_require_grad(q, true), LAB_OK);
        for (int t = 0; t < 3; t++) {
            for (int k = 0; k < SIZE; k++)
                gradient[k] = draw_between(&draws, -1, 1);
            give_gradient(p, gradient);
            give_gradient(q, gradient);
            assert_int_equal(lab_optimizer_set_scale(a, factor), LAB_OK);
            step_once(a, "p", p);
            assert_int_equal(lab_scale_grads("p", &q, &factor), LAB_OK);
            step_once(b, "p", q);
            factor *= 1.7;
        }
        expect_same(text_of(&optim_configs[i]), p, q);
        lab_optimizer_destroy(&a);
        lab_optimizer_destroy(&b);
        lab_tensor_destroy(&p);
        lab_tensor_destroy(&q);
    }
}

/* A NaN or an infinity in one gradient reaches its own parameter only; an infinite parameter stays as it is where
 * nothing decays. */
static void what_is_not_finite_stays_in_its_place(void **state)
{
    (void)state;
    uint64_t draws = draw_start("not finite");
    for (int i = 0; i < optim_config_count; i++) {
        lab_optimizer_config c = optim_configs[i];
        lab_tensor *p = parameter_drawn(&draws, LAB_F32, 1, (int64_t[]){SIZE});
        double gradient[SIZE];
        for (int k = 0; k < SIZE; k++)
            gradient[k] = draw_between(&draws, 0.1, 1);
        gradient[11] = NAN;
        ((float *)lab_tensor_data(p))[20] = INFINITY;
        lab_optimizer *optimizer = optimizer_of(c);
        give_gradient(p, gradient);
        step_once(optimizer, "p", p);
        for (int k = 0; k < SIZE; k++)
            if (k != 20 && !isfinite(element_of(p, k)) != (k == 11))
                fail_msg("%s: element %d is %g", text_of(&c), k, element_of(p, k));
        assert_true(isnan(element_of(p, 11)));
        if (c.decay == 0)
            assert_true(element_of(p, 20) == INFINITY);
        lab_optimizer_destroy(&optimizer);
        lab_tensor_destroy(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_follow_the_published_rules),
        cmocka_unit_test(zero_means_the_default),
        cmocka_unit_test(ten_steps_are_pytorchs),
        cmocka_unit_test(strides_change_no_bit),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(a_scale_is_a_factor_of_the_gradient),
        cmocka_unit_test(what_is_not_finite_stays_in_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
