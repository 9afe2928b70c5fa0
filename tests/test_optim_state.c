/* test_optim_state.c - what an optimiser remembers: by name, carried over to another one, and nothing for those that
 * have no gradient; and what it refuses.
 */
#include "optim_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Names ------------------------------------------------------------------------------------------------------- */

typedef struct listing {
    char text[2000];
} listing;

static lab_status list(const char *name, lab_tensor **state, void *ctx)
{
    listing *l = ctx;
    size_t used = strlen(l->text);
    snprintf(l->text + used, sizeof l->text - used, "%s %s %d;", name, lab_dtype_name(lab_tensor_dtype(*state)),
             lab_tensor_rank(*state));
    return LAB_OK;
}

static void expect_listing(lab_optimizer *optimizer, const char *prefix, const char *want)
{
    listing l = {""};
    assert_int_equal(lab_optimizer_visit(optimizer, prefix, list, &l), LAB_OK);
    assert_string_equal(l.text, want);
}

static void state_has_the_names_that_the_rules_say(void **state)
{
    (void)state;
    static const struct {
        lab_optimizer_config config;
        const char *want;
    } cases[] = {
        {{.rule = LAB_SGD}, ""},
        {{.rule = LAB_SGD, .momentum = 0.9}, "momentum_buffer.w f32 2;momentum_buffer.b f64 1;"},
        {{.rule = LAB_SIGN_SGD}, ""},
        {{.rule = LAB_SIGN_SGD, .momentum = 0.9}, "momentum_buffer.w f32 2;momentum_buffer.b f64 1;"},
        {{.rule = LAB_RMSPROP}, "square_avg.w f32 2;square_avg.b f64 1;"},
        {{.rule = LAB_RMSPROP, .momentum = 0.9},
         "momentum_buffer.w f32 2;square_avg.w f32 2;momentum_buffer.b f64 1;square_avg.b f64 1;"},
        {{.rule = LAB_ADAM},
         "exp_avg.w f32 2;exp_avg_sq.w f32 2;step.w i64 0;exp_avg.b f64 1;exp_avg_sq.b f64 1;step.b i64 0;"},
        {{.rule = LAB_ADAMW},
         "exp_avg.w f32 2;exp_avg_sq.w f32 2;step.w i64 0;exp_avg.b f64 1;exp_avg_sq.b f64 1;step.b i64 0;"},
        {{.rule = LAB_LION}, "exp_avg.w f32 2;exp_avg.b f64 1;"},
    };
    uint64_t draws = draw_start("names");
    lab_tensor *w = parameter_drawn(&draws, LAB_F32, 2, (int64_t[]){2, 3});
    lab_tensor *b = parameter_drawn(&draws, LAB_F64, 1, (int64_t[]){4});
    lab_tensor *frozen = leaf_drawn(&draws, LAB_F32, 1, (int64_t[]){2}, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_optimizer *optimizer = optimizer_of(cases[i].config);
        expect_listing(optimizer, NULL, "");
        assert_int_equal(lab_optimizer_prepare("w", &w, optimizer), LAB_OK);
        assert_int_equal(lab_optimizer_prepare("frozen", &frozen, optimizer), LAB_OK); /* needs none */
        assert_int_equal(lab_optimizer_prepare("b", &b, optimizer), LAB_OK);
        expect_listing(optimizer, NULL, cases[i].want);
        lab_optimizer_destroy(&optimizer);
        assert_null(optimizer);
    }
    lab_optimizer *optimizer = optimizer_of(cases[8].config);
    assert_int_equal(lab_optimizer_prepare("w", &w, optimizer), LAB_OK);
    expect_listing(optimizer, "opt", "opt.exp_avg.w f32 2;");
    lab_optimizer_destroy(&optimizer);
    lab_tensor_destroy(&w);
    lab_tensor_destroy(&b);
    lab_tensor_destroy(&frozen);
}

/* ---- A run that stops and goes on -------------------------------------------------------------------------------- */

enum { PARAMETERS = 90, WIDTH = 3 }; /* more than the first table holds */

typedef struct model {
    lab_tensor *p[PARAMETERS];
} model;

static lab_status model_visit(model *m, lab_visit_fn fn, void *ctx)
{
    lab_status status = LAB_OK;
    for (int i = 0; i < PARAMETERS && status == LAB_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d.weight", i);
        status = fn(name, &m->p[i], ctx);
    }
    return status;
}

static model model_drawn(const char *name)
{
    model m;
    uint64_t draws = draw_start(name);
    for (int i = 0; i < PARAMETERS; i++)
        m.p[i] = parameter_drawn(&draws, LAB_F64, 1, (int64_t[]){WIDTH + i % 2});
    return m;
}

static void model_free(model *m)
{
    for (int i = 0; i < PARAMETERS; i++)
        lab_tensor_destroy(&m->p[i]);
}

/* Step t; every third parameter has no gradient at every second step. */
static void train(model *m, lab_optimizer *optimizer, int t)
{
    for (int i = 0; i < PARAMETERS; i++) {
        double gradient[WIDTH + 1];
        for (int k = 0; k <= WIDTH; k++)
            gradient[k] = sin(1.0 + t * 7 + i * 3 + k);
        if (i % 3 == 0 && t % 2 == 0)
            lab_tensor_clear_grad(m->p[i]);
        else
            give_gradient(m->p[i], gradient);
    }
    assert_int_equal(model_visit(m, lab_optimizer_step, optimizer), LAB_OK);
}

/* Into the tensor of that name of another optimiser. */
static lab_status carry_over(const char *name, lab_tensor **state, void *ctx)
{
    lab_tensor *to = state_named(ctx, name);
    const size_t bytes = (size_t)lab_tensor_numel(*state) * lab_dtype_size(lab_tensor_dtype(*state));
    assert_non_null(to);
    return lab_tensor_write(to, lab_tensor_data(*state), bytes);
}

static void expect_same_model(const model *a, const model *b)
{
    for (int i = 0; i < PARAMETERS; i++)
        expect_same("a parameter", a->p[i], b->p[i]);
}

static void a_run_goes_on_from_its_state_as_if_never_stopped(void **state)
{
    (void)state;
    for (int i = 0; i < optim_config_count; i++) {
        model whole = model_drawn("resume"), halves = model_drawn("resume");
        lab_optimizer *a = optimizer_of(optim_configs[i]), *b = optimizer_of(optim_configs[i]);
        for (int t = 0; t < 6; t++)
            train(&whole, a, t);
        for (int t = 0; t < 3; t++)
            train(&halves, b, t);
        lab_optimizer *c = optimizer_of(optim_configs[i]);
        assert_int_equal(model_visit(&halves, lab_optimizer_prepare, c), LAB_OK);
        assert_int_equal(lab_optimizer_visit(b, NULL, carry_over, c), LAB_OK);
        lab_optimizer_destroy(&b);
        for (int t = 3; t < 6; t++)
            train(&halves, c, t);
        expect_same_model(&whole, &halves);
        lab_optimizer_destroy(&a);
        lab_optimizer_destroy(&c);
        model_free(&whole);
        model_free(&halves);
    }
}

static lab_status in_any_order(model *m, lab_optimizer *optimizer, int stride)
{
    lab_status status = LAB_OK;
    for (int i = 0; i < PARAMETERS && status == LAB_OK; i++) {
        char name[32];
        int at = (i * stride + 5) % PARAMETERS;
        snprintf(name, sizeof name, "layer.%d.weight", at);
        status = lab_optimizer_step(name, &m->p[at], optimizer);
    }
    return status;
}

static void the_order_of_a_visit_does_not_matter(void **state)
{
    (void)state;
    static const int strides[] = {7, 11, 13, 17}; /* nothing in common with 90 */
    const lab_optimizer_config config = {.rule = LAB_ADAM, .rate = 0.1};
    model a = model_drawn("order"), b = model_drawn("order");
    lab_optimizer *x = optimizer_of(config), *y = optimizer_of(config);
    for (int t = 0; t < 4; t++) {
        train(&a, x, 2 * t + 1);
        lab_optimizer *idle = optimizer_of((lab_optimizer_config){.rule = LAB_SGD});
        train(&b, idle, 2 * t + 1); /* gives the gradients; a rate of 0 is a rate of 0 */
        assert_int_equal(in_any_order(&b, y, strides[t]), LAB_OK);
        lab_optimizer_destroy(&idle);
    }
    expect_same_model(&a, &b);
    lab_optimizer_destroy(&x);
    lab_optimizer_destroy(&y);
    model_free(&a);
    model_free(&b);
}

/* ---- Groups, rates, what has no gradient ------------------------------------------------------------------------- */

static void slow_and_firm(const char *name, const lab_tensor *parameter, lab_group *group, void *ctx)
{
    (void)parameter;
    assert_true(group->rate == 1 && group->decay == 1);
    ++*(int *)ctx;
    if (strcmp(name, "slow") == 0)
        group->rate = 0.25;
    if (strcmp(name, "firm") == 0)
        group->decay = 0;
}

static void groups_have_rates_and_decays_of_their_own(void **state)
{
    (void)state;
    static const char *const names[] = {"plain", "slow", "firm"};
    static const double rates[] = {0.1, 0.025, 0.1}, decays[] = {0.3, 0.3, 0};
    for (int i = 0; i < optim_config_count; i++) {
        lab_optimizer_config config = optim_configs[i];
        int asked = 0;
        config.decay = 0.3;
        config.group = slow_and_firm;
        config.group_ctx = &asked;
        lab_optimizer *optimizer = optimizer_of(config);
        for (int k = 0; k < 3; k++) {
            lab_tensor *p = leaf_of_doubles(LAB_F64, 1, (int64_t[]){2}, (double[]){0.5, -2});
            assert_int_equal(lab_tensor_require_grad(p, true), LAB_OK);
            moving x[2] = {{.p = 0.5}, {.p = -2}};
            config.rate = rates[k];
            config.decay = decays[k];
            for (int t = 1; t <= 3; t++) {
                double want[2];
                for (int e = 0; e < 2; e++) {
                    step_by_definition(&config, &x[e], 0.75, t);
                    want[e] = (double)x[e].p;
                }
                give_gradient(p, (double[]){0.75, 0.75});
                step_once(optimizer, names[k], p);
                expect_close(names[k], p, want, 2, 1e-12);
            }
            lab_tensor_destroy(&p);
        }
        assert_int_equal(asked, 3); /* once each */
        lab_optimizer_destroy(&optimizer);
    }
    lab_group group = {.rate = 1, .decay = 1};
    uint64_t draws = draw_start("groups");
    lab_tensor *row = leaf_drawn(&draws, LAB_F32, 1, (int64_t[]){2}, 1);
    lab_tensor *matrix = leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){2, 2}, 1);
    lab_decay_matrices("w", matrix, &group, NULL);
    assert_true(group.rate == 1 && group.decay == 1);
    lab_decay_matrices("b", row, &group, NULL);
    assert_true(group.rate == 1 && group.decay == 0);
    lab_decay_matrices("w", matrix, NULL, NULL);
    lab_tensor_destroy(&row);
    lab_tensor_destroy(&matrix);
}

static void the_rate_may_change_between_steps(void **state)
{
    (void)state;
    lab_optimizer_config config = {
        .rule = LAB_ADAMW, .rate = 0.5, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .decay = 0.1};
    lab_optimizer *optimizer = optimizer_of(config);
    lab_tensor *p = leaf_of_doubles(LAB_F64, 0, NULL, (double[]){3});
    assert_int_equal(lab_tensor_require_grad(p, true), LAB_OK);
    moving x = {.p = 3};
    assert_true(lab_optimizer_rate(optimizer) == 0.5 && lab_optimizer_rate(NULL) == 0);
    for (int t = 1; t <= 5; t++) {
        config.rate = 0.1 * (t - 1);
        assert_int_equal(lab_optimizer_set_rate(optimizer, config.rate), LAB_OK);
        assert_true(lab_optimizer_rate(optimizer) == config.rate);
        step_by_definition(&config, &x, t, t);
        give_gradient(p, (double[]){t});
        step_once(optimizer, "p", p);
        expect_close("p", p, (double[]){(double)x.p}, 1, 1e-12);
    }
    lab_optimizer_destroy(&optimizer);
    lab_tensor_destroy(&p);
}

/* Neither the parameter nor its step moves; and what backward read before is noticed to be overwritten. */
static void without_a_gradient_nothing_moves(void **state)
{
    (void)state;
    lab_optimizer *optimizer = optimizer_of((lab_optimizer_config){.rule = LAB_ADAMW, .rate = 0.1, .decay = 0.5});
    lab_tensor *p = leaf_of_doubles(LAB_F64, 1, (int64_t[]){1}, (double[]){2});
    assert_int_equal(lab_tensor_require_grad(p, true), LAB_OK);
    step_once(optimizer, "p", p);
    assert_true(element_of(p, 0) == 2 && !state_named(optimizer, "step.p"));
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_sum_all(g, lab_mul(g, p, p));
    assert_int_equal(lab_backward(g, y), LAB_OK);
    step_once(optimizer, "p", p);
    assert_true(element_of(p, 0) < 2 && element_of(state_named(optimizer, "step.p"), 0) == 1);
    assert_int_equal(lab_backward(g, y), LAB_ERR_STATE); /* p was written */
    lab_graph_destroy(&g);
    double before = element_of(p, 0);
    lab_tensor_clear_grad(p);
    step_once(optimizer, "p", p);
    assert_true(element_of(p, 0) == before && element_of(state_named(optimizer, "step.p"), 0) == 1);
    lab_optimizer_destroy(&optimizer);
    lab_tensor_destroy(&p);
}

/* Of a token that is never seen again: 0.9 of the smallest number is rounded back to it, for ever. But a gradient that
 * small, and a sign, are kept. */
static void a_moment_without_gradients_fades_to_nothing(void **state)
{
    (void)state;
    enum { MANY = 37 };
    static const struct {
        lab_optimizer_config config;
        const char *moment;
        bool fades;
    } cases[] = {
        {{.rule = LAB_ADAM, .rate = 0.1}, "exp_avg.p", true},
        {{.rule = LAB_ADAMW, .rate = 0.1}, "exp_avg.p", true},
        {{.rule = LAB_SGD, .rate = 0.1, .momentum = 0.9}, "momentum_buffer.p", true},
        {{.rule = LAB_SGD, .rate = 0.1, .momentum = 0.9, .nesterov = true}, "momentum_buffer.p", true},
        {{.rule = LAB_RMSPROP, .rate = 0.1, .momentum = 0.9}, "momentum_buffer.p", true},
        {{.rule = LAB_SIGN_SGD, .rate = 0.1, .momentum = 0.9}, "momentum_buffer.p", false},
    };
    double gradient[MANY], none[MANY] = {0}, small[MANY];
    for (int i = 0; i < MANY; i++) {
        gradient[i] = (i % 2 ? 1 : -1) * (1 + i % 5);
        small[i] = i % 2 ? 1e-39 : -1e-39;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_optimizer *optimizer = optimizer_of(cases[i].config);
        lab_tensor *p = leaf_of_doubles(LAB_F32, 1, (int64_t[]){MANY}, gradient);
        assert_int_equal(lab_tensor_require_grad(p, true), LAB_OK);
        give_gradient(p, gradient);
        step_once(optimizer, "p", p);
        give_gradient(p, none);
        for (int step = 0; step < 700; step++)
            step_once(optimizer, "p", p);
        for (int k = 0; k < MANY; k++)
            assert_true(element_of(state_named(optimizer, cases[i].moment), k) * gradient[k] > 0);
        for (int step = 0; step < 500; step++)
            step_once(optimizer, "p", p);
        for (int k = 0; k < MANY; k++)
            assert_true((element_of(state_named(optimizer, cases[i].moment), k) == 0) == cases[i].fades);
        give_gradient(p, small);
        step_once(optimizer, "p", p);
        for (int k = 0; k < MANY; k++)
            assert_true(element_of(state_named(optimizer, cases[i].moment), k) != 0);
        lab_optimizer_destroy(&optimizer);
        lab_tensor_destroy(&p);
    }
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

static void configs_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const struct {
        lab_status status;
        const char *word;
        lab_optimizer_config config;
    } cases[] = {
        {LAB_ERR_ARGUMENT, "rule", {.rule = (lab_rule)6}},
        {LAB_ERR_ARGUMENT, "rule", {.rule = (lab_rule)-1}},
        {LAB_ERR_ARGUMENT, "reserved", {.reserved = {[7] = 1}}},
        {LAB_ERR_ARGUMENT, "momentum", {.rule = LAB_ADAMW, .momentum = 0.9}},
        {LAB_ERR_ARGUMENT, "momentum", {.rule = LAB_SGD, .nesterov = true}},
        {LAB_ERR_ARGUMENT, "nesterov", {.rule = LAB_RMSPROP, .momentum = 0.5, .nesterov = true}},
        {LAB_ERR_ARGUMENT, "beta1", {.rule = LAB_SGD, .beta1 = 0.9}},
        {LAB_ERR_ARGUMENT, "beta2", {.rule = LAB_SIGN_SGD, .beta2 = 0.9}},
        {LAB_ERR_ARGUMENT, "eps", {.rule = LAB_LION, .eps = 1e-8}},
        {LAB_ERR_RANGE, "rate", {.rate = -1}},
        {LAB_ERR_RANGE, "rate", {.rate = INFINITY}},
        {LAB_ERR_RANGE, "rate", {.rate = NAN}},
        {LAB_ERR_RANGE, "momentum", {.momentum = 1}},
        {LAB_ERR_RANGE, "momentum", {.momentum = -0.1}},
        {LAB_ERR_RANGE, "momentum", {.momentum = NAN}},
        {LAB_ERR_RANGE, "beta1", {.rule = LAB_ADAM, .beta1 = 1}},
        {LAB_ERR_RANGE, "beta2", {.rule = LAB_ADAM, .beta2 = -1}},
        {LAB_ERR_RANGE, "eps", {.rule = LAB_ADAM, .eps = -1}},
        {LAB_ERR_RANGE, "eps", {.rule = LAB_ADAM, .eps = INFINITY}},
        {LAB_ERR_RANGE, "decay", {.decay = -1}},
        {LAB_ERR_RANGE, "decay", {.decay = NAN}},
    };
    lab_optimizer *made;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made = (lab_optimizer *)&made;
        assert_int_equal(lab_optimizer_create(&made, &cases[i].config), cases[i].status);
        assert_null(made);
        assert_non_null(strstr(lab_last_message(), cases[i].word));
    }
    assert_int_equal(lab_optimizer_create(&made, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_optimizer_create(NULL, &cases[0].config), LAB_ERR_ARGUMENT);
    lab_optimizer_destroy(NULL);
    made = NULL;
    lab_optimizer_destroy(&made);
}

static lab_status take_away(const char *name, lab_tensor **state, void *ctx)
{
    (void)name;
    (void)ctx;
    if (lab_tensor_rank(*state) == 1)
        lab_tensor_destroy(state);
    return LAB_OK;
}

static lab_status reshape(const char *name, lab_tensor **state, void *ctx)
{
    (void)name;
    (void)ctx;
    lab_tensor_destroy(state);
    return lab_tensor_create(state, LAB_F64, 1, (int64_t[]){3});
}

static lab_status make_negative(const char *name, lab_tensor **state, void *ctx)
{
    return strcmp(name, "step.p") == 0 ? lab_tensor_write(*state, ctx, sizeof(int64_t)) : LAB_OK;
}

static lab_status refuse_at_once(const char *name, lab_tensor **state, void *ctx)
{
    (void)name;
    (void)state;
    ++*(int *)ctx;
    return LAB_ERR_IO;
}

/* The parameter stays as it was. */
static void expect_no_step(lab_optimizer *optimizer, const char *name, lab_tensor *p, lab_status status,
                           const char *word)
{
    const double before = element_of(p, 0);
    assert_int_equal(lab_optimizer_step(name, &p, optimizer), status);
    assert_non_null(strstr(lab_last_message(), word));
    assert_true(element_of(p, 0) == before);
}

/* A parameter of no elements is a parameter; two optimisers of one layer, and parameters of two dtypes in one of them,
 * know nothing of each other. */
static void odd_parameters_are_parameters(void **state)
{
    (void)state;
    uint64_t draws = draw_start("odd");
    for (int i = 0; i < optim_config_count; i++) {
        lab_tensor *empty = parameter_drawn(&draws, LAB_F32, 2, (int64_t[]){0, 3});
        lab_tensor *single = parameter_drawn(&draws, LAB_F32, 1, (int64_t[]){1});
        lab_tensor *wide = parameter_drawn(&draws, LAB_F64, 1, (int64_t[]){1});
        lab_optimizer *one = optimizer_of(optim_configs[i]), *two = optimizer_of(optim_configs[i]);
        give_gradient(empty, (double[]){0});
        give_gradient(single, (double[]){1});
        give_gradient(wide, (double[]){1});
        for (int step = 0; step < 3; step++) {
            const double narrow_was = element_of(single, 0), wide_was = element_of(wide, 0);
            step_once(one, "empty", empty);
            step_once(one, "single", single);
            step_once(two, "single", wide); /* the name is free in the other */
            step_once(one, "wide", wide);
            assert_true(element_of(single, 0) < narrow_was && element_of(wide, 0) < wide_was);
        }
        lab_optimizer_destroy(&one);
        lab_optimizer_destroy(&two);
        lab_tensor_destroy(&empty);
        lab_tensor_destroy(&single);
        lab_tensor_destroy(&wide);
    }
}

static void steps_that_cannot_be_meant_are_refused(void **state)
{
    (void)state;
    const lab_optimizer_config config = {.rule = LAB_ADAM, .rate = 0.1};
    uint64_t draws = draw_start("refused");
    lab_tensor *p = parameter_drawn(&draws, LAB_F64, 1, (int64_t[]){2}), *none = NULL;
    lab_tensor *other = parameter_drawn(&draws, LAB_F64, 1, (int64_t[]){2});
    give_gradient(p, (double[]){1, 2});
    give_gradient(other, (double[]){1, 2});
    lab_optimizer *optimizer = optimizer_of(config);
    assert_int_equal(lab_optimizer_step("p", NULL, optimizer), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_optimizer_step("p", &none, optimizer), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_optimizer_step("p", &p, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_optimizer_prepare("p", &none, optimizer), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_optimizer_prepare("p", &p, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_optimizer_prepare(NULL, &p, optimizer), LAB_ERR_ARGUMENT);
    expect_no_step(optimizer, NULL, p, LAB_ERR_ARGUMENT, "name");
    step_once(optimizer, "p", p);
    expect_no_step(optimizer, "p", other, LAB_ERR_STATE, "p is the name of two");
    const int64_t counts[] = {-1, INT64_MAX, INT64_MIN};
    for (int i = 0; i < 3; i++) {
        int64_t count = counts[i];
        assert_int_equal(lab_optimizer_visit(optimizer, NULL, make_negative, &count), LAB_OK);
        expect_no_step(optimizer, "p", p, LAB_ERR_STATE, "step");
    }
    lab_optimizer_destroy(&optimizer);
    lab_visit_fn const spoil[] = {take_away, reshape};
    for (int i = 0; i < 2; i++) {
        optimizer = optimizer_of(config);
        step_once(optimizer, "p", p);
        assert_int_equal(lab_optimizer_visit(optimizer, NULL, spoil[i], NULL), LAB_OK);
        expect_no_step(optimizer, "p", p, LAB_ERR_STATE, "f64 [2]");
        lab_optimizer_destroy(&optimizer);
    }
    lab_tensor_destroy(&p);
    lab_tensor_destroy(&other);
}

static void odd_group(const char *name, const lab_tensor *parameter, lab_group *group, void *ctx)
{
    (void)name;
    (void)parameter;
    *group = *(const lab_group *)ctx;
}

static void settings_that_cannot_be_meant_are_refused(void **state)
{
    (void)state;
    lab_optimizer *optimizer = optimizer_of((lab_optimizer_config){.rule = LAB_LION, .rate = 0.1});
    uint64_t draws = draw_start("settings");
    lab_tensor *p = parameter_drawn(&draws, LAB_F64, 1, (int64_t[]){2});
    const double bad[] = {NAN, INFINITY, -INFINITY, -1};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(lab_optimizer_set_rate(optimizer, bad[i]), LAB_ERR_RANGE);
        if (i < 3)
            assert_int_equal(lab_optimizer_set_scale(optimizer, bad[i]), LAB_ERR_RANGE);
    }
    assert_true(lab_optimizer_rate(optimizer) == 0.1);
    assert_int_equal(lab_optimizer_set_rate(NULL, 1), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_optimizer_set_scale(NULL, 1), LAB_ERR_ARGUMENT);
    int calls = 0;
    char name[300];
    memset(name, 'n', sizeof name);
    name[250] = 0;
    assert_int_equal(lab_optimizer_prepare(name, &p, optimizer), LAB_OK);
    assert_int_equal(lab_optimizer_visit(NULL, NULL, refuse_at_once, &calls), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_optimizer_visit(optimizer, NULL, NULL, &calls), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_optimizer_visit(optimizer, NULL, refuse_at_once, &calls), LAB_ERR_RANGE); /* a long name */
    assert_int_equal(calls, 0);
    lab_optimizer_destroy(&optimizer);
    lab_group groups[] = {{.rate = NAN, .decay = 1},
                          {.rate = 1, .decay = INFINITY},
                          {.rate = -1, .decay = 1},
                          {.rate = 1, .decay = 1, .reserved = {[5] = 1}}};
    for (int i = 0; i < 4; i++) {
        lab_optimizer_config config = {.rule = LAB_ADAM, .rate = 0.1, .group = odd_group, .group_ctx = &groups[i]};
        optimizer = optimizer_of(config);
        give_gradient(p, (double[]){1, 2});
        expect_no_step(optimizer, "p", p, i < 3 ? LAB_ERR_RANGE : LAB_ERR_ARGUMENT, "p: its group");
        assert_null(state_named(optimizer, "step.p"));
        lab_optimizer_destroy(&optimizer);
    }
    lab_tensor_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_has_the_names_that_the_rules_say),
        cmocka_unit_test(a_run_goes_on_from_its_state_as_if_never_stopped),
        cmocka_unit_test(the_order_of_a_visit_does_not_matter),
        cmocka_unit_test(groups_have_rates_and_decays_of_their_own),
        cmocka_unit_test(the_rate_may_change_between_steps),
        cmocka_unit_test(without_a_gradient_nothing_moves),
        cmocka_unit_test(a_moment_without_gradients_fades_to_nothing),
        cmocka_unit_test(configs_that_make_no_sense_are_refused),
        cmocka_unit_test(odd_parameters_are_parameters),
        cmocka_unit_test(steps_that_cannot_be_meant_are_refused),
        cmocka_unit_test(settings_that_cannot_be_meant_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
