/* test_misuse.c - calls whose arguments are each fine, but that should not be made then, there, or by such a function:
 * an error, where there was a crash or a wrong number. Found by attacking the library from outside. */
#include <llmlab.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static lab_tensor *pair(double a, double b)
{
    lab_tensor *t = NULL;
    assert_int_equal(lab_tensor_from(&t, LAB_F64, 1, (int64_t[]){2}, (double[]){a, b}), LAB_OK);
    return t;
}

static void assert_pair(const lab_tensor *t, double a, double b)
{
    double got[2];
    assert_int_equal(lab_tensor_read(t, got, sizeof got), LAB_OK);
    if (got[0] != a || got[1] != b)
        fail_msg("%g %g instead of %g %g", got[0], got[1], a, b);
}

static void assert_failed(lab_graph *g, lab_status status, const char *words)
{
    if (lab_graph_status(g) != status || !strstr(lab_graph_message(g), words))
        fail_msg("%s, \"%s\" does not say \"%s\"", lab_status_name(lab_graph_status(g)), lab_graph_message(g), words);
    lab_graph_reset(g);
}

/* ---- Gradients as operands -------------------------------------------------------------------------------------- */

/* The new gradient would be written where the old one lies, which the rest of the walk has yet to read. */
static void a_cleared_gradient_that_the_tape_reads_keeps_its_values(void **state)
{
    (void)state;
    lab_tensor *p = pair(2, 3);
    assert_int_equal(lab_tensor_require_grad(p, true), LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
    lab_backward(g, lab_sum_all(g, lab_mul(g, p, p)));
    lab_graph_reset(g);
    lab_tensor *old = lab_tensor_grad(p); /* 4, 6 */
    lab_tensor *first = lab_mul(g, old, p), *second = lab_mul(g, lab_mul(g, p, p), old);
    lab_tensor *y = lab_sum_all(g, lab_add(g, first, second));
    lab_tensor_clear_grad(p);
    assert_int_equal(lab_backward(g, y), LAB_OK);
    assert_pair(lab_tensor_grad(p), 4 + 2 * 2 * 4, 6 + 2 * 3 * 6);
    assert_ptr_equal(lab_tensor_grad(p), old);
    /* Now they are gone, and a second walk says so. */
    assert_int_equal(lab_backward(g, y), LAB_ERR_STATE);
    assert_pair(lab_tensor_grad(p), 4 + 2 * 2 * 4, 6 + 2 * 3 * 6);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&p);
}

/* ---- Checkpointed functions that reach for the outer graph ------------------------------------------------------ */

typedef struct outside {
    lab_graph *outer;
    lab_tensor *x;
} outside;

static lab_tensor *on_the_outer_graph(lab_graph *g, lab_tensor **xs, void *ctx)
{
    const outside *o = ctx;
    (void)g;
    return lab_exp(o->outer, xs[0]);
}

static lab_tensor *partly_on_the_outer_graph(lab_graph *g, lab_tensor **xs, void *ctx)
{
    const outside *o = ctx;
    lab_tensor *e = lab_exp(o->outer, o->x);
    return lab_mul(g, xs[0], e ? e : xs[0]);
}

static lab_tensor *square(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_mul(g, xs[0], xs[0]);
}

static lab_tensor *checkpoint_on_the_outer_graph(lab_graph *g, lab_tensor **xs, void *ctx)
{
    outside *o = ctx;
    lab_tensor *e = lab_exp(g, xs[0]); /* on the graph that the inner checkpoint would take */
    lab_checkpoint(o->outer, square, 1, &o->x, NULL);
    return lab_mul(g, e, e);
}

static lab_tensor *grad_on_the_outer_graph(lab_graph *g, lab_tensor **xs, void *ctx)
{
    outside *o = ctx;
    lab_tensor *d;
    lab_grad(o->outer, o->x, NULL, 1, &o->x, &d, NULL);
    return lab_mul(g, xs[0], xs[0]);
}

static void a_checkpointed_function_that_uses_the_outer_graph_is_an_error(void **state)
{
    (void)state;
    const lab_fn functions[] = {on_the_outer_graph, partly_on_the_outer_graph, checkpoint_on_the_outer_graph,
                                grad_on_the_outer_graph};
    lab_tensor *leaf = pair(0.5, 2);
    lab_graph *g = lab_graph_create(NULL);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        lab_tensor *x = lab_mul_scalar(g, leaf, 1);
        outside o = {g, x};
        assert_null(lab_checkpoint(g, functions[i], 1, &x, &o));
        assert_failed(g, LAB_ERR_STATE, "not on the outer one");
        assert_non_null(lab_exp(g, leaf)); /* and after a reset all is well */
    }
    lab_graph_destroy(&g);
    lab_tensor_destroy(&leaf);
}

/* ---- Descriptors and functions of users' ops -------------------------------------------------------------------- */

static lab_status shape_of_two(lab_op_call *call)
{
    for (int i = 0; i < call->n_out; i++)
        call->specs[i] = (lab_spec){.dtype = LAB_F64, .rank = 1, .shape = {2}};
    return LAB_OK;
}

static lab_status shape_of_a_thousand(lab_op_call *call)
{
    call->specs[0] = (lab_spec){.dtype = LAB_F64, .rank = 1, .shape = {1000}};
    return LAB_OK;
}

static lab_status shape_of_floats(lab_op_call *call)
{
    call->specs[0] = (lab_spec){.dtype = LAB_F32, .rank = 1, .shape = {2}};
    return LAB_OK;
}

static bool view_of_all(const lab_op_call *call, lab_view *view)
{
    (void)call;
    *view = (lab_view){.strides = {1}};
    return true;
}

static bool view_far_away(const lab_op_call *call, lab_view *view)
{
    (void)call;
    *view = (lab_view){.offset = 1 << 20, .strides = {1}};
    return true;
}

static bool view_before(const lab_op_call *call, lab_view *view)
{
    (void)call;
    *view = (lab_view){.offset = -1, .strides = {1}};
    return true;
}

static bool view_backwards(const lab_op_call *call, lab_view *view)
{
    (void)call;
    *view = (lab_view){.offset = 1, .strides = {-1}};
    return true;
}

static bool view_beyond_counting(const lab_op_call *call, lab_view *view)
{
    (void)call;
    *view = (lab_view){.offset = INT64_MAX, .strides = {INT64_MAX}};
    return true;
}

static lab_status fill(lab_op_call *call)
{
    for (int i = 0; i < 2; i++)
        ((double *)lab_tensor_data(call->out[0]))[i] = 7;
    return LAB_OK;
}

static lab_status backward_in_backward(lab_vjp_call *call)
{
    lab_graph *g = call->graph;
    return lab_backward(g, lab_sum_all(g, lab_exp(g, call->in[0])));
}

static const lab_reads one_read[] = {{1, 0}};

static void apply(lab_graph *g, const lab_op *op, lab_tensor *x, lab_tensor *y)
{
    lab_tensor *in[] = {op->optional ? NULL : x, y}, *out[2];
    lab_custom_op(g, op, NULL, 0, op->inputs < 0 ? 0 : op->inputs, in, op->outputs - op->hidden, out);
    assert_null(out[0]);
}

static void a_descriptor_whose_view_or_reads_cannot_be_is_refused(void **state)
{
    (void)state;
    const lab_op ops[] = {
        {.name = "of_nothing", .outputs = 1, .shape = shape_of_two, .view = view_of_all},
        {.name = "of_none_of_many", .inputs = -1, .outputs = 1, .shape = shape_of_two, .view = view_of_all},
        {.name = "of_an_option", .inputs = 1, .optional = 1, .outputs = 1, .shape = shape_of_two, .view = view_of_all},
        {.name = "two_results", .inputs = 1, .outputs = 2, .shape = shape_of_two, .view = view_of_all},
        {.name = "hidden", .inputs = 1, .outputs = 2, .hidden = 1, .shape = shape_of_two, .view = view_of_all},
        {.name = "reads", .inputs = 1, .outputs = 1, .shape = shape_of_two, .forward = fill, .reads = one_read},
        {.name = "n",
         .inputs = 1,
         .outputs = 1,
         .shape = shape_of_two,
         .forward = fill,
         .reads = one_read,
         .n_reads = -5},
    };
    lab_tensor *x = pair(1, 2);
    lab_graph *g = lab_graph_create(NULL);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        apply(g, &ops[i], x, NULL);
        assert_failed(g, LAB_ERR_ARGUMENT, ops[i].name);
    }
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

static void a_view_that_leaves_its_operands_memory_is_refused(void **state)
{
    (void)state;
    const lab_op ops[] = {
        {.name = "far", .inputs = 1, .outputs = 1, .shape = shape_of_two, .view = view_far_away},
        {.name = "large", .inputs = 1, .outputs = 1, .shape = shape_of_a_thousand, .view = view_of_all},
        {.name = "before", .inputs = 1, .outputs = 1, .shape = shape_of_two, .view = view_before},
        {.name = "backwards", .inputs = 1, .outputs = 1, .shape = shape_of_two, .view = view_backwards},
        {.name = "uncounted", .inputs = 1, .outputs = 1, .shape = shape_of_two, .view = view_beyond_counting},
        {.name = "floats", .inputs = 1, .outputs = 1, .shape = shape_of_floats, .view = view_of_all},
    };
    lab_tensor *x = pair(1, 2);
    lab_graph *g = lab_graph_create(NULL);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        apply(g, &ops[i], x, NULL);
        assert_failed(g, LAB_ERR_RANGE, "leaves the memory");
    }
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

/* The view asks its second operand; the engine, which asks it again about gradients, has none to show then. */
static lab_status shape_of_one(lab_op_call *call)
{
    call->specs[0] = (lab_spec){.dtype = LAB_F64, .rank = 1, .shape = {1}};
    return LAB_OK;
}

static bool view_at_second(const lab_op_call *call, lab_view *view)
{
    *view = (lab_view){.offset = *(int64_t *)lab_tensor_data(call->in[1]), .strides = {1}};
    return true;
}

static lab_status element_backward(lab_vjp_call *call)
{
    const lab_place *place = &call->places[0];
    double *dx = lab_tensor_data(place->tensor), dy;
    lab_status status = lab_tensor_read(call->grad_out[0], &dy, sizeof dy);
    for (int64_t i = 0; i < 2; i++)
        dx[i] = (place->add ? dx[i] : 0) + (i == *(int64_t *)lab_tensor_data(call->in[1]) ? dy : 0);
    return status;
}

static void a_view_with_two_operands_gets_its_gradient_from_its_derivative(void **state)
{
    (void)state;
    const lab_op element = {.name = "element",
                            .inputs = 2,
                            .outputs = 1,
                            .constant = 2,
                            .shape = shape_of_one,
                            .view = view_at_second,
                            .backward = element_backward};
    lab_tensor *x = pair(3, 4), *dx, *y;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *in[] = {lab_mul_scalar(g, x, 2), lab_full(g, LAB_I64, 0, NULL, 1)};
    lab_custom_op(g, &element, NULL, 0, 2, in, 1, &y);
    assert_int_equal(lab_grad(g, lab_sum_all(g, lab_mul(g, y, y)), NULL, 1, &x, &dx, NULL), LAB_OK);
    assert_pair(dx, 0, 2 * 8 * 2);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

static lab_graph *another;

static lab_status vjp_of_another_graph(lab_graph *g, lab_vjp_call *call)
{
    (void)g;
    call->grad_in[0] = lab_full(another, LAB_F64, 1, (int64_t[]){2}, 5);
    return LAB_OK;
}

static void a_derivative_from_another_graph_or_that_walks_itself_is_an_error(void **state)
{
    (void)state;
    const lab_op elsewhere = {.name = "elsewhere",
                              .inputs = 1,
                              .outputs = 1,
                              .shape = shape_of_two,
                              .forward = fill,
                              .vjp = vjp_of_another_graph};
    const lab_op walks = {.name = "walks",
                          .inputs = 1,
                          .outputs = 1,
                          .shape = shape_of_two,
                          .forward = fill,
                          .backward = backward_in_backward};
    lab_tensor *x = pair(1, 2), *dx, *y;
    assert_int_equal(lab_tensor_require_grad(x, true), LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
    another = lab_graph_create(NULL);
    for (int order = 0; order < 2; order++) {
        lab_custom_op(g, &elsewhere, NULL, 0, 1, &x, 1, &y);
        lab_grad(g, y, NULL, 1, &x, &dx, &(lab_grad_opts){.create_graph = order == 1});
        assert_null(dx);
        assert_failed(g, LAB_ERR_STATE, "another graph");
    }
    lab_custom_op(g, &walks, NULL, 0, 1, &x, 1, &y);
    lab_backward(g, lab_sum_all(g, y));
    assert_null(lab_tensor_grad(x));
    assert_failed(g, LAB_ERR_STATE, "inside an op");
    lab_graph_destroy(&another);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

/* ---- gradcheck -------------------------------------------------------------------------------------------------- */

/* The larger x, the more elements: more than gradcheck has met, or a dtype that it has not. */
static lab_tensor *grows(lab_graph *g, lab_tensor **xs, void *ctx)
{
    const double x = *(double *)lab_tensor_data(xs[0]);
    lab_tensor *y = lab_sum_all(g, xs[0]);
    if (ctx && x != 0.5)
        return lab_cast(g, y, LAB_BOOL);
    return lab_broadcast_to(g, y, 1, (int64_t[]){x > 0.5 ? 4000 : 2});
}

static void gradcheck_refuses_a_function_whose_shape_or_dtype_changes(void **state)
{
    (void)state;
    lab_tensor *x = pair(0.5, 2);
    lab_gradcheck_report report;
    const lab_gradcheck_opts second = {.second_order = true};
    int changes_dtype;
    assert_int_equal(lab_gradcheck(grows, NULL, 1, &x, NULL, &report), LAB_ERR_STATE);
    assert_non_null(strstr(lab_last_message(), "the first time"));
    assert_int_equal(lab_gradcheck(grows, &changes_dtype, 1, &x, NULL, &report), LAB_ERR_DTYPE);
    assert_int_not_equal(lab_gradcheck(grows, NULL, 1, &x, &second, &report), LAB_OK);
    assert_pair(x, 0.5, 2); /* as it was */
    lab_tensor_destroy(&x);
}

/* ---- Marks ------------------------------------------------------------------------------------------------------ */

static void a_mark_of_another_graph_or_from_before_a_reset_is_refused(void **state)
{
    (void)state;
    const lab_graph_opts inference = {.inference = true};
    lab_graph *g = lab_graph_create(&inference), *other = lab_graph_create(&inference);
    lab_full(other, LAB_F64, 1, (int64_t[]){100}, 1);
    lab_mark gone = lab_graph_mark(other), garbage, early = lab_graph_mark(g);
    lab_graph_destroy(&other);
    memset(&garbage, 0x5A, sizeof garbage);
    lab_graph_release(g, gone);
    assert_failed(g, LAB_ERR_STATE, "mark");
    lab_graph_release(g, garbage);
    assert_failed(g, LAB_ERR_STATE, "mark");
    lab_graph_release(g, early);
    assert_failed(g, LAB_ERR_STATE, "mark");
    lab_mark fine = lab_graph_mark(g);
    for (int i = 0; i < 3; i++) {
        assert_non_null(lab_full(g, LAB_F64, 1, (int64_t[]){100000}, 1));
        lab_graph_release(g, fine);
    }
    assert_int_equal(lab_graph_status(g), LAB_OK);
    lab_graph_destroy(&g);
}

/* ---- Strides that lead nowhere ---------------------------------------------------------------------------------- */

static void a_stride_without_a_second_element_may_be_any(void **state)
{
    (void)state;
    double data[] = {1, 2, 3, 4}, got[4];
    const int64_t far = INT64_MAX;
    lab_tensor *x, *empty, *dx;
    assert_int_equal(
        lab_tensor_wrap(&x, LAB_F64, 3, (int64_t[]){1, 4, 1}, (int64_t[]){far, 1, far - 1}, data, NULL, NULL), LAB_OK);
    assert_int_equal(
        lab_tensor_wrap(&empty, LAB_F64, 3, (int64_t[]){0, 4, 3}, (int64_t[]){far, far, far}, NULL, NULL, NULL),
        LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *rows = lab_gather_rows(g, x, lab_full(g, LAB_I64, 1, (int64_t[]){2}, 0));
    assert_int_equal(lab_grad(g, rows, NULL, 1, &x, &dx, NULL), LAB_OK);
    assert_int_equal(lab_tensor_read(dx, got, sizeof got), LAB_OK);
    for (int i = 0; i < 4; i++)
        assert_true(got[i] == 2);
    lab_tensor *twice = lab_concat(g, 2, (lab_tensor *[]){empty, lab_exp(g, empty)}, 0);
    assert_int_equal(lab_grad(g, lab_sum_all(g, twice), NULL, 1, &empty, &dx, NULL), LAB_OK);
    assert_int_equal(lab_tensor_numel(dx), 0);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cleared_gradient_that_the_tape_reads_keeps_its_values),
        cmocka_unit_test(a_checkpointed_function_that_uses_the_outer_graph_is_an_error),
        cmocka_unit_test(a_descriptor_whose_view_or_reads_cannot_be_is_refused),
        cmocka_unit_test(a_view_that_leaves_its_operands_memory_is_refused),
        cmocka_unit_test(a_view_with_two_operands_gets_its_gradient_from_its_derivative),
        cmocka_unit_test(a_derivative_from_another_graph_or_that_walks_itself_is_an_error),
        cmocka_unit_test(gradcheck_refuses_a_function_whose_shape_or_dtype_changes),
        cmocka_unit_test(a_mark_of_another_graph_or_from_before_a_reset_is_refused),
        cmocka_unit_test(a_stride_without_a_second_element_may_be_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
