/* test_ops_operands.c - ops on operands of every kind: strided, viewed, broadcast, twice the same, scalar, empty.
 *
 * Where the row-major result is right (test_ops.c), these must be too.
 */
#include "op_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "llmlab/check.h"

enum { COUNT_MAX = 4096 };

static bool has_small_operands(const op_case *c)
{
    return c->n_inputs > 0 && !(c->flags & LARGE);
}

/* ---- Strides ------------------------------------------------------------------------------------------------ */

static const char *const layout_names[LAYOUTS] = {"row-major", "first axis densest", "every second place",
                                                  "first axis densest, every second place"};

static void operands_of_any_strides_do(void **state)
{
    (void)state;
    rows_begin(__func__);
    for (int i = 0; i < op_case_count(); i++) {
        const op_case *c = op_case_at(i);
        for (int how = REVERSED; how < LAYOUTS && has_small_operands(c); how++)
            for (lab_dtype real = case_is_real(c) ? LAB_F32 : LAB_F64; real <= LAB_F64; real++) {
                run r;
                run_make(&r, c, real);
                run_operands(&r, (layout)how);
                check_value_and_gradient(&r, layout_names[how]);
                run_free(&r);
            }
    }
    rows_end();
}

/* ---- Views on the graph ------------------------------------------------------------------------------------- */

typedef enum view_kind {
    TRANSPOSED, /* all axes reversed */
    SLICED,     /* every second element of every axis, from the second on */
    RESHAPED,   /* part of a long vector */
    SLICED_TRANSPOSED,
    VIEW_KINDS
} view_kind;

static const char *const view_names[VIEW_KINDS] = {"transposed view", "sliced view", "reshaped part of a vector",
                                                   "transposed slice"};

/* The shape of the tensor that a view of this kind and of x's shape is taken from. */
static void base_shape(view_kind kind, const array *x, int *rank, int64_t *shape)
{
    *rank = kind == RESHAPED ? 1 : x->rank;
    shape[0] = x->numel + 7;
    for (int axis = 0; axis < x->rank && kind != RESHAPED; axis++) {
        int64_t size = x->shape[kind == SLICED ? axis : x->rank - 1 - axis];
        shape[axis] = kind == TRANSPOSED ? size : 2 * size + 1;
    }
}

static lab_tensor *view_of(lab_graph *g, view_kind kind, lab_tensor *base, const array *x)
{
    const int reverse[LAB_MAX_RANK][LAB_MAX_RANK] = {{0},
                                                     {1, 0},
                                                     {2, 1, 0},
                                                     {3, 2, 1, 0},
                                                     {4, 3, 2, 1, 0},
                                                     {5, 4, 3, 2, 1, 0},
                                                     {6, 5, 4, 3, 2, 1, 0},
                                                     {7, 6, 5, 4, 3, 2, 1, 0}};
    lab_tensor *view = base;
    if (kind == RESHAPED)
        return lab_reshape(g, lab_slice(g, base, 0, 3, 3 + x->numel, 1), x->rank, x->shape);
    for (int axis = 0; axis < x->rank && kind != TRANSPOSED; axis++)
        view = lab_slice(g, view, axis, 1, INT64_MAX, 2);
    return kind == SLICED ? view : lab_permute(g, view, reverse[x->rank > 0 ? x->rank - 1 : 0]);
}

/* A tensor of which the view is x; NaN elsewhere. places[i]: where in it element i of the view lies. */
static lab_tensor *base_for(const run *r, view_kind kind, const array *x, int64_t *places)
{
    int rank;
    int64_t shape[LAB_MAX_RANK];
    array numbers, taken, base;
    base_shape(kind, x, &rank, shape);
    array_make(&numbers, LAB_I64, rank, shape);
    array_make(&base, x->dtype, rank, shape);
    for (int64_t i = 0; i < numbers.numel; i++) {
        numbers.data[i] = (long double)i;
        base.data[i] = x->dtype == LAB_I64 ? 1e15L : (long double)NAN;
    }
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *leaf = leaf_of(r, &numbers, ROW_MAJOR), *view = view_of(g, kind, leaf, x);
    if (!view || lab_tensor_numel(view) != x->numel || x->numel > COUNT_MAX) {
        row_fails(r, "%s: cannot be made: %s", view_names[kind], lab_graph_message(g));
    } else {
        array_of(view, &taken);
        for (int64_t i = 0; i < x->numel; i++) {
            places[i] = (int64_t)taken.data[i];
            base.data[places[i]] = x->data[i];
        }
    }
    lab_tensor_destroy(&leaf);
    lab_graph_destroy(&g);
    return leaf_of(r, &base, ROW_MAJOR);
}

/* The gradient of a view lies in its region of the base's gradient, and nothing lies elsewhere. */
static void check_region(const run *r, view_kind kind, int k, lab_tensor *grad, const int64_t *places,
                         const array *expected, long double limit)
{
    char text[128];
    array got, region;
    array_of(grad, &got);
    array_make(&region, expected->dtype, expected->rank, expected->shape);
    for (int64_t i = 0; i < expected->numel; i++) {
        region.data[i] = got.data[places[i]];
        got.data[places[i]] = 0;
    }
    snprintf(text, sizeof text, "%s: gradient %d", view_names[kind], k);
    agree(r, text, &region, expected, limit);
    for (int64_t i = 0; i < got.numel; i++)
        if (got.data[i] != 0) {
            row_fails(r, "%s: gradient %d outside of the view, element %lld, is %.17Lg, expected exactly 0",
                      view_names[kind], k, (long long)i, got.data[i]);
            return;
        }
}

static void check_through_views(run *r, view_kind kind)
{
    static int64_t places[CASE_INPUTS][COUNT_MAX];
    lab_tensor *bases[CASE_INPUTS] = {0}, *xs[CASE_INPUTS], *grads[CASE_INPUTS];
    int which[CASE_INPUTS], n;
    array plain, weights, expected[CASE_INPUTS];
    for (int k = 0; k < r->c.n_inputs; k++) {
        bases[k] = base_for(r, kind, &r->xs[k], places[k]);
        lab_tensor_destroy(&r->leaves[k]);
        r->leaves[k] = view_of(r->graph, kind, bases[k], &r->xs[k]);
    }
    lab_tensor *y = run_value(r);
    if (y && check_value(r, view_names[kind], y) && r->c.derivatives >= 1) {
        array_of(y, &plain);
        weights_for(r, &plain, &weights);
        n = run_real_operands(r, xs, which);
        for (int i = 0; i < n; i++)
            xs[i] = bases[which[i]];
        reference_gradients(r, &weights, expected);
        for (int recorded = 0; recorded < 2 && run_gradients(r, y, &weights, n, xs, grads, recorded); recorded++)
            for (int i = 0; i < n; i++)
                check_region(r, kind, which[i], grads[i], places[which[i]], &expected[which[i]],
                             gradient_limit(r, expected));
    }
    for (int k = 0; k < r->c.n_inputs; k++) {
        r->leaves[k] = NULL; /* the graph's, or the base itself */
        lab_tensor_destroy(&bases[k]);
    }
}

static void gradients_go_through_views_into_their_regions(void **state)
{
    (void)state;
    rows_begin(__func__);
    for (int i = 0; i < op_case_count(); i++)
        for (int kind = 0; kind < VIEW_KINDS && has_small_operands(op_case_at(i)); kind++) {
            run r;
            run_make(&r, op_case_at(i), LAB_F64);
            run_operands(&r, ROW_MAJOR);
            check_through_views(&r, (view_kind)kind);
            run_free(&r);
        }
    rows_end();
}

/* ---- Shapes ------------------------------------------------------------------------------------------------- */

typedef struct shape_set {
    const char *name;
    struct {
        int rank;
        int64_t shape[LAB_MAX_RANK];
    } of[CASE_INPUTS];
} shape_set;

static const shape_set equal_shapes[] = {
    {"rank 0", {{0, {0}}, {0, {0}}, {0, {0}}}},
    {"one element", {{1, {1}}, {1, {1}}, {1, {1}}}},
    {"size 0", {{1, {0}}, {1, {0}}, {1, {0}}}},
    {"size 0 inside", {{3, {2, 0, 3}}, {3, {2, 0, 3}}, {3, {2, 0, 3}}}},
    {"17 elements", {{1, {17}}, {1, {17}}, {1, {17}}}},
    {"rank 8", {{8, {1, 2, 1, 3, 1, 2, 1, 2}}, {8, {1, 2, 1, 3, 1, 2, 1, 2}}, {8, {1, 2, 1, 3, 1, 2, 1, 2}}}},
};

static const shape_set broadcast_shapes[] = {
    {"a row on the right", {{2, {3, 4}}, {1, {4}}, {1, {1}}}},
    {"a row on the left", {{1, {4}}, {2, {3, 4}}, {0, {0}}}},
    {"column by row", {{2, {3, 1}}, {2, {1, 4}}, {2, {3, 4}}}},
    {"both sides and a missing axis", {{3, {2, 1, 3}}, {2, {4, 1}}, {1, {3}}}},
    {"a scalar on the left", {{0, {0}}, {1, {3}}, {1, {3}}}},
    {"a scalar on the right", {{2, {2, 2}}, {0, {0}}, {2, {1, 2}}}},
    {"ones of higher rank", {{1, {1}}, {3, {1, 1, 1}}, {2, {1, 1}}}},
    {"size 1 against 0", {{1, {0}}, {1, {1}}, {1, {0}}}},
    {"size 1 against 0 inside", {{3, {2, 1, 3}}, {2, {0, 3}}, {1, {1}}}},
    {"one column", {{2, {5, 1}}, {2, {5, 3}}, {2, {5, 1}}}},
    {"rank 8, in turns", {{8, {1, 2, 1, 2, 1, 2, 1, 2}}, {8, {2, 1, 2, 1, 2, 1, 2, 1}}, {3, {2, 1, 1}}}},
};

static void check_under_shapes(const op_case *c, const shape_set *set, lab_dtype real, layout how)
{
    run r;
    op_case changed = *c;
    for (int k = 0; k < c->n_inputs; k++) {
        changed.in[k].rank = set->of[k].rank;
        memcpy(changed.in[k].shape, set->of[k].shape, sizeof set->of[k].shape);
    }
    run_make(&r, &changed, real);
    run_operands(&r, how);
    check_value_and_gradient(&r, set->name);
    if (real == LAB_F64 && c->derivatives == 2) {
        lab_gradcheck_report report;
        lab_gradcheck_opts opts = {.tolerance = 1e-7, .second_order = true};
        if (lab_gradcheck(case_apply, &r.c, r.c.n_inputs, r.leaves, &opts, &report) != LAB_OK)
            row_fails(&r, "%s: gradcheck failed: %s", set->name, lab_last_message());
        else if (!report.passed)
            row_fails(&r, "%s: second gradient of operand %d, element %lld: analytic %.17g, numeric %.17g", set->name,
                      report.input, (long long)report.element, report.analytic, report.numeric);
    }
    run_free(&r);
}

static void check_elementwise(const char *test, const shape_set *sets, int n_sets, int least_operands)
{
    rows_begin(test);
    for (int i = 0; i < op_case_count(); i++) {
        const op_case *c = op_case_at(i);
        for (int s = 0; s < n_sets; s++)
            for (lab_dtype real = case_is_real(c) ? LAB_F32 : LAB_F64; real <= LAB_F64; real++)
                if (c->flags & ELEMENTWISE && c->n_inputs >= least_operands)
                    for (layout how = ROW_MAJOR; how < LAYOUTS; how += REVERSED_GAPS)
                        check_under_shapes(c, &sets[s], real, how);
    }
    rows_end();
}

static void scalars_empty_and_rank_8_operands_do(void **state)
{
    (void)state;
    check_elementwise(__func__, equal_shapes, sizeof equal_shapes / sizeof *equal_shapes, 1);
}

static void operands_are_broadcast_and_gradients_summed_back(void **state)
{
    (void)state;
    check_elementwise(__func__, broadcast_shapes, sizeof broadcast_shapes / sizeof *broadcast_shapes, 2);
}

/* ---- Twice the same ----------------------------------------------------------------------------------------- */

/* Two operands that could be one tensor: float ones of one shape. */
static bool first_two_alike(const run *r, int *first, int *second)
{
    for (*first = 0; *first < r->c.n_inputs; ++*first)
        for (*second = *first + 1; *second < r->c.n_inputs; ++*second)
            if (r->c.in[*first].type == REAL && r->c.in[*second].type == REAL &&
                r->c.in[*first].rank == r->c.in[*second].rank &&
                memcmp(r->c.in[*first].shape, r->c.in[*second].shape, sizeof r->c.in[0].shape) == 0)
                return true;
    return false;
}

static void an_operand_may_be_used_twice_by_one_op(void **state)
{
    (void)state;
    rows_begin(__func__);
    int found = 0;
    for (int i = 0; i < op_case_count(); i++)
        for (lab_dtype real = LAB_F32; real <= LAB_F64; real++) {
            run r;
            int first, second;
            run_make(&r, op_case_at(i), real);
            if (!(r.c.flags & LARGE) && first_two_alike(&r, &first, &second)) {
                found++;
                r.xs[first] = r.xs[second];
                run_operands(&r, ROW_MAJOR);
                lab_tensor_destroy(&r.leaves[second]);
                r.leaves[second] = r.leaves[first];
                check_value_and_gradient(&r, "op(x, x)");
                r.leaves[second] = NULL;
            }
            run_free(&r);
        }
    assert_true(found >= 20);
    rows_end();
}

/* y = op(x) + op(x) + w x: two nodes and a direct use, all of which count. */
static void check_uses_add_up(run *r, bool viewed)
{
    lab_tensor *xs[CASE_INPUTS], *once[CASE_INPUTS], *thrice[CASE_INPUTS], *kept[CASE_INPUTS];
    int which[CASE_INPUTS];
    array plain, weights;
    lab_graph *g = r->graph;
    lab_tensor *y = run_value(r);
    if (!y || r->c.derivatives < 1)
        return;
    array_of(y, &plain);
    weights_for(r, &plain, &weights);
    int n = run_real_operands(r, xs, which);
    if (!run_gradients(r, y, &weights, n, xs, once, false))
        return;
    for (int i = 0; i < n; i++) { /* through a view, or the leaf itself */
        kept[which[i]] = r->leaves[which[i]];
        if (viewed)
            r->leaves[which[i]] = lab_reshape(g, xs[i], r->xs[which[i]].rank, r->xs[which[i]].shape);
    }
    lab_tensor *again = run_value(r);
    for (int i = 0; i < n; i++)
        r->leaves[which[i]] = kept[which[i]];
    lab_tensor *w = lab_constant(g, LAB_F64, 0, NULL, &(double){0.5}), *seed = leaf_of(r, &weights, ROW_MAJOR);
    lab_tensor *total = lab_sum_all(g, lab_mul(g, lab_add(g, again, case_apply(g, r->leaves, &r->c)), seed));
    for (int i = 0; i < n; i++)
        total = lab_add(g, total, lab_sum_all(g, lab_mul(g, xs[i], w)));
    if (lab_grad(g, total, NULL, n, xs, thrice, NULL) != LAB_OK)
        row_fails(r, "op(x) + op(x) + x / 2 failed: %s", lab_graph_message(g));
    for (int i = 0; i < n && lab_graph_status(g) == LAB_OK; i++) {
        array got, expected;
        array_of(thrice[i], &got);
        array_of(once[i], &expected);
        for (int64_t j = 0; j < expected.numel; j++)
            expected.data[j] = 2 * expected.data[j] + 0.5L;
        agree(r, viewed ? "gradient of op(view of x) + op(x) + x / 2" : "gradient of op(x) + op(x) + x / 2", &got,
              &expected, 1e-14L * fmaxl(1, largest_of(&expected)));
    }
    lab_tensor_destroy(&seed);
}

static void uses_of_an_operand_add_up(void **state)
{
    (void)state;
    rows_begin(__func__);
    for (int i = 0; i < op_case_count(); i++)
        for (int viewed = 0; viewed < 2; viewed++) {
            run r;
            run_make(&r, op_case_at(i), LAB_F64);
            run_operands(&r, ROW_MAJOR);
            if (!(r.c.flags & (LARGE | TO_F32)) && r.c.derivatives >= 1)
                check_uses_add_up(&r, viewed);
            run_free(&r);
        }
    rows_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_of_any_strides_do),
        cmocka_unit_test(gradients_go_through_views_into_their_regions),
        cmocka_unit_test(scalars_empty_and_rank_8_operands_do),
        cmocka_unit_test(operands_are_broadcast_and_gradients_summed_back),
        cmocka_unit_test(an_operand_may_be_used_twice_by_one_op),
        cmocka_unit_test(uses_of_an_operand_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
