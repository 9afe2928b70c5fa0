/* test_custom_op.c - a user's op, written with public headers only: two results, one of them saved and hidden, an
 * optional operand, attributes, scratch, both forms of derivative. */
#include <llmlab.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* y = power * x^2 (+ shift), the hidden result is x^2.   dx = 2 power x dy,  dshift = dy. */
typedef struct squares_attrs {
    double power;
} squares_attrs;

static lab_status squares_shape(lab_op_call *call)
{
    if (lab_tensor_dtype(call->in[0]) != LAB_F64)
        return lab_graph_fail(call->graph, LAB_ERR_DTYPE, "only f64, %s given",
                              lab_dtype_name(lab_tensor_dtype(call->in[0])));
    if (call->in[1] && lab_tensor_numel(call->in[1]) != lab_tensor_numel(call->in[0]))
        return lab_graph_fail(call->graph, LAB_ERR_SHAPE, "shift has another size");
    for (int i = 0; i < 2; i++) {
        call->specs[i].dtype = LAB_F64;
        call->specs[i].rank = lab_tensor_rank(call->in[0]);
        for (int axis = 0; axis < call->specs[i].rank; axis++)
            call->specs[i].shape[axis] = lab_tensor_size(call->in[0], axis);
    }
    return LAB_OK;
}

static size_t squares_scratch(const lab_op_call *call)
{
    return (size_t)lab_tensor_numel(call->in[0]) * sizeof(double);
}

static lab_status squares_forward(lab_op_call *call)
{
    const squares_attrs *attrs = call->attrs;
    int64_t n = lab_tensor_numel(call->in[0]);
    size_t bytes = (size_t)n * sizeof(double);
    double *x = call->scratch, *y = lab_tensor_data(call->out[0]), *square = lab_tensor_data(call->out[1]);
    if (lab_tensor_read(call->in[0], x, bytes) != LAB_OK)
        return LAB_ERR_STATE;
    for (int64_t i = 0; i < n; i++) {
        square[i] = x[i] * x[i];
        y[i] = attrs->power * square[i];
    }
    if (call->in[1]) {
        if (lab_tensor_read(call->in[1], x, bytes) != LAB_OK)
            return LAB_ERR_STATE;
        for (int64_t i = 0; i < n; i++)
            y[i] += x[i];
    }
    return LAB_OK;
}

static lab_status squares_vjp(lab_graph *g, lab_vjp_call *call)
{
    const squares_attrs *attrs = call->attrs;
    lab_tensor *dy = call->grad_out[0];
    if (call->wants[0])
        call->grad_in[0] = lab_mul(g, lab_mul_scalar(g, dy, 2 * attrs->power), call->in[0]);
    if (call->wants[1])
        call->grad_in[1] = dy;
    return lab_graph_status(g);
}

/* The same into a destination, to show that both agree. Contiguous places only need a loop each. */
static lab_status squares_backward(lab_vjp_call *call)
{
    const squares_attrs *attrs = call->attrs;
    int64_t n = lab_tensor_numel(call->in[0]);
    size_t bytes = (size_t)n * sizeof(double);
    double *dy = call->scratch, *other = dy + n, *place_values = other + n;
    for (int i = 0; i < 2; i++) {
        const lab_place *place = &call->places[i];
        if (!place->tensor)
            continue;
        if (lab_tensor_read(call->grad_out[0], dy, bytes) || lab_tensor_read(call->in[0], other, bytes) ||
            (place->add && lab_tensor_read(place->tensor, place_values, bytes)))
            return LAB_ERR_STATE;
        for (int64_t j = 0; j < n; j++)
            place_values[j] =
                (place->add ? place_values[j] : 0) + (i == 0 ? 2 * attrs->power * other[j] * dy[j] : dy[j]);
        if (lab_tensor_write(place->tensor, place_values, bytes))
            return LAB_ERR_STATE;
    }
    return LAB_OK;
}

static size_t squares_backward_scratch(const lab_vjp_call *call)
{
    return 3 * (size_t)lab_tensor_numel(call->in[0]) * sizeof(double);
}

#define SQUARES                                                                                                        \
    .name = "squares", .inputs = 2, .outputs = 2, .hidden = 1, .optional = 2, .shape = squares_shape,                  \
    .scratch = squares_scratch, .forward = squares_forward

static const lab_op squares_recorded = {SQUARES, .vjp = squares_vjp};
static const lab_op squares_destination = {SQUARES, .backward_scratch = squares_backward_scratch,
                                           .backward = squares_backward};
static const lab_op squares_both = {SQUARES, .vjp = squares_vjp, .backward_scratch = squares_backward_scratch,
                                    .backward = squares_backward};

static lab_tensor *squares(lab_graph *g, const lab_op *op, lab_tensor *x, lab_tensor *shift)
{
    lab_tensor *y;
    lab_custom_op(g, op, &(squares_attrs){1.5}, sizeof(squares_attrs), 2, (lab_tensor *[]){x, shift}, 1, &y);
    return y;
}

static lab_tensor *with_shift(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return squares(g, ctx, xs[0], xs[1]);
}

static lab_tensor *without_shift(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return squares(g, ctx, lab_transpose(g, xs[0], 0, 1), NULL);
}

static void make_leaves(lab_tensor **xs)
{
    double x[] = {0.5, -1, 2, 3, -0.25, 1}, shift[] = {1, 2, 3, 4, 5, 6};
    assert_int_equal(lab_tensor_from(&xs[0], LAB_F64, 2, (int64_t[]){2, 3}, x), LAB_OK);
    assert_int_equal(lab_tensor_from(&xs[1], LAB_F64, 2, (int64_t[]){2, 3}, shift), LAB_OK);
}

static void check(const lab_op *op, bool second_order)
{
    lab_tensor *xs[2];
    make_leaves(xs);
    lab_gradcheck_opts opts = {.second_order = second_order};
    lab_gradcheck_report report;
    assert_int_equal(lab_gradcheck(with_shift, (void *)(uintptr_t)op, 2, xs, &opts, &report), LAB_OK);
    assert_true(report.passed);
    assert_true(report.entries >= 12);
    assert_int_equal(lab_gradcheck(without_shift, (void *)(uintptr_t)op, 1, xs, &opts, &report), LAB_OK);
    assert_true(report.passed);
    lab_tensor_destroy(&xs[0]);
    lab_tensor_destroy(&xs[1]);
}

static void a_users_op_with_a_recorded_derivative_passes_gradcheck(void **state)
{
    (void)state;
    check(&squares_recorded, false);
}

static void a_users_op_with_a_destination_derivative_passes_gradcheck(void **state)
{
    (void)state;
    check(&squares_destination, false);
    check(&squares_both, false);
}

static void a_recorded_derivative_is_differentiated_again(void **state)
{
    (void)state;
    check(&squares_recorded, true);
    check(&squares_both, true);
}

static void without_a_recorded_derivative_the_second_order_is_refused_by_name(void **state)
{
    (void)state;
    lab_tensor *xs[2], *d;
    make_leaves(xs);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = squares(g, &squares_destination, xs[0], NULL);
    assert_int_equal(lab_grad(g, y, NULL, 1, xs, &d, &(lab_grad_opts){.create_graph = true}), LAB_ERR_UNSUPPORTED);
    assert_null(d);
    assert_non_null(strstr(lab_graph_message(g), "squares"));
    lab_graph_destroy(&g);
    lab_tensor_destroy(&xs[0]);
    lab_tensor_destroy(&xs[1]);
}

static void gradcheck_finds_a_wrong_derivative(void **state)
{
    (void)state;
    lab_tensor *xs[2];
    make_leaves(xs);
    static lab_op wrong;
    wrong = squares_recorded;
    wrong.vjp = NULL;
    wrong.backward = NULL;
    lab_gradcheck_report report;
    /* No derivative at all: an error by name. */
    assert_int_equal(lab_gradcheck(with_shift, &wrong, 2, xs, NULL, &report), LAB_ERR_UNSUPPORTED);
    assert_false(report.passed);
    /* One that is wrong in one operand: found, and the entry is named. */
    wrong.vjp = squares_vjp;
    wrong.constant = 1; /* claims that x has no derivative */
    assert_int_equal(lab_gradcheck(with_shift, &wrong, 2, xs, NULL, &report), LAB_OK);
    assert_false(report.passed);
    assert_int_equal(report.input, 0);
    assert_true(report.analytic == 0 && fabs(report.numeric) > 0.1);
    lab_tensor_destroy(&xs[0]);
    lab_tensor_destroy(&xs[1]);
}

static void a_bad_descriptor_or_call_is_refused(void **state)
{
    (void)state;
    lab_tensor *xs[2], *y[2] = {NULL, NULL};
    make_leaves(xs);
    const struct {
        lab_op op;
        int n_in, n_out;
    } cases[] = {
        {{SQUARES}, 1, 1},
        {{SQUARES}, 2, 2},
        {{SQUARES, .reserved = {1}}, 2, 1},
        {{.name = "nothing", .inputs = 2, .outputs = 1}, 2, 1},
        {{.name = "no_results", .inputs = 2, .shape = squares_shape, .forward = squares_forward}, 2, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lab_graph *g = lab_graph_create(NULL);
        y[0] = xs[0];
        assert_int_equal(lab_custom_op(g, &cases[i].op, NULL, 0, cases[i].n_in, xs, cases[i].n_out, y),
                         LAB_ERR_ARGUMENT);
        if (cases[i].n_out > 0)
            assert_null(y[0]);
        lab_graph_destroy(&g);
    }
    lab_graph *g = lab_graph_create(NULL);
    assert_int_equal(lab_custom_op(g, NULL, NULL, 0, 2, xs, 1, y), LAB_ERR_ARGUMENT);
    lab_graph_reset(g);
    /* A required operand that is missing, by position; the op's own refusal, by its name. */
    assert_null(squares(g, &squares_recorded, NULL, xs[1]));
    assert_non_null(strstr(lab_graph_message(g), "operand 1"));
    lab_graph_reset(g);
    assert_null(squares(g, &squares_recorded, lab_full(g, LAB_F32, 0, NULL, 1), NULL));
    assert_int_equal(lab_graph_status(g), LAB_ERR_DTYPE);
    assert_string_equal(lab_graph_message(g), "squares: only f64, f32 given");
    lab_graph_destroy(&g);
    lab_tensor_destroy(&xs[0]);
    lab_tensor_destroy(&xs[1]);
}

/* y = a + b, whose recorded derivative hands the one tensor dy to both operands. */
static lab_status sum_shape(lab_op_call *call)
{
    call->specs[0].dtype = LAB_F64;
    call->specs[0].rank = 1;
    call->specs[0].shape[0] = lab_tensor_numel(call->in[0]);
    return LAB_OK;
}

static lab_status sum_forward(lab_op_call *call)
{
    const double *a = lab_tensor_data(call->in[0]), *b = lab_tensor_data(call->in[1]);
    double *y = lab_tensor_data(call->out[0]);
    for (int64_t i = 0; i < lab_tensor_numel(call->out[0]); i++)
        y[i] = a[i] + b[i];
    return LAB_OK;
}

static lab_status sum_vjp(lab_graph *g, lab_vjp_call *call)
{
    call->grad_in[0] = call->grad_in[1] = call->grad_out[0];
    return lab_graph_status(g);
}

static const lab_op sum_op = {
    .name = "sum_of_two", .inputs = 2, .outputs = 1, .shape = sum_shape, .forward = sum_forward, .vjp = sum_vjp};

/* What an operand's other uses add stays its own: it is neither the other operand's nor y's, asked for or not. */
static void a_gradient_handed_to_two_operands_stays_apart(void **state)
{
    (void)state;
    double values[] = {1, -2, 3};
    lab_tensor *x;
    assert_int_equal(lab_tensor_from(&x, LAB_F64, 1, (int64_t[]){3}, values), LAB_OK);
    for (int ask_for_y = 0; ask_for_y < 2; ask_for_y++) {
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *a = lab_mul_scalar(g, x, 2), *b = lab_mul_scalar(g, x, 3), *y, *grads[2];
        lab_tensor *alone = lab_add(g, lab_sum_all(g, lab_mul(g, a, a)), lab_sum_all(g, lab_mul(g, b, b)));
        lab_custom_op(g, &sum_op, NULL, 0, 2, (lab_tensor *[]){a, b}, 1, &y); /* its gradient comes first */
        lab_tensor *loss = lab_add(g, alone, lab_sum_all(g, lab_mul(g, y, y)));
        lab_grad(g, loss, NULL, 1 + ask_for_y, (lab_tensor *[]){x, y}, grads, NULL);
        assert_int_equal(lab_graph_status(g), LAB_OK);
        double got[2][3]; /* loss = (2x)^2 + (3x)^2 + (5x)^2 */
        for (int i = 0; i <= ask_for_y; i++) {
            assert_int_equal(lab_tensor_read(grads[i], got[i], sizeof got[i]), LAB_OK);
            for (int j = 0; j < 3; j++)
                assert_true(fabs(got[i][j] - (i == 0 ? 76 : 10) * values[j]) < 1e-12);
        }
        lab_graph_destroy(&g);
    }
    lab_tensor_destroy(&x);
}

/* Two results that are both seen, twice and three times the sum of a; the derivative hands on a stretched number. */
static lab_status pair_shape(lab_op_call *call)
{
    for (int i = 0; i < 2; i++)
        call->specs[i] = (lab_spec){.dtype = LAB_F64, .rank = 1, .shape = {1}};
    return LAB_OK;
}

static lab_status pair_forward(lab_op_call *call)
{
    const double *a = lab_tensor_data(call->in[0]);
    double sum = a[0] + a[1] + a[2];
    *(double *)lab_tensor_data(call->out[0]) = 2 * sum;
    *(double *)lab_tensor_data(call->out[1]) = 3 * sum;
    return LAB_OK;
}

static lab_status pair_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *sum = NULL;
    for (int i = 0; i < 2; i++) {
        lab_tensor *part = call->grad_out[i] ? lab_mul_scalar(g, call->grad_out[i], 2 + i) : NULL;
        sum = sum && part ? lab_add(g, sum, part) : sum ? sum : part;
    }
    call->grad_in[0] = lab_broadcast_to(g, sum, 1, (int64_t[]){3});
    return lab_graph_status(g);
}

static const lab_op pair_op = {
    .name = "pair", .inputs = 1, .outputs = 2, .shape = pair_shape, .forward = pair_forward, .vjp = pair_vjp};

/* A gradient comes to one of two results alone, and what the operand's other use adds goes to each element once. */
static void either_result_is_enough_and_a_stretched_gradient_is_copied(void **state)
{
    (void)state;
    double values[] = {1, -2, 3}, got[3];
    lab_tensor *x, *dx;
    assert_int_equal(lab_tensor_from(&x, LAB_F64, 1, (int64_t[]){3}, values), LAB_OK);
    for (int used = 1; used <= 3; used++) {
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *a = lab_mul_scalar(g, x, 2), *y[2];
        lab_tensor *loss = lab_sum_all(g, lab_mul(g, a, a));
        lab_custom_op(g, &pair_op, NULL, 0, 1, &a, 2, y);
        for (int i = 0; i < 2; i++)
            loss = used >> i & 1 ? lab_add(g, loss, lab_sum_all(g, y[i])) : loss;
        lab_grad(g, loss, NULL, 1, &x, &dx, NULL);
        assert_int_equal(lab_graph_status(g), LAB_OK);
        assert_int_equal(lab_tensor_read(dx, got, sizeof got), LAB_OK);
        for (int j = 0; j < 3; j++)
            assert_true(got[j] == 8 * values[j] + 2 * ((used & 1 ? 2 : 0) + (used & 2 ? 3 : 0)));
        lab_graph_destroy(&g);
    }
    lab_tensor_destroy(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_users_op_with_a_recorded_derivative_passes_gradcheck),
        cmocka_unit_test(a_users_op_with_a_destination_derivative_passes_gradcheck),
        cmocka_unit_test(a_recorded_derivative_is_differentiated_again),
        cmocka_unit_test(without_a_recorded_derivative_the_second_order_is_refused_by_name),
        cmocka_unit_test(gradcheck_finds_a_wrong_derivative),
        cmocka_unit_test(a_gradient_handed_to_two_operands_stays_apart),
        cmocka_unit_test(either_result_is_enough_and_a_stretched_gradient_is_copied),
        cmocka_unit_test(a_bad_descriptor_or_call_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
