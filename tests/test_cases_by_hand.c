/* test_cases_by_hand.c - the parts of cases/open.json that say in words what must hold: a test of its own for each.
 *
 * Numbers come from the file, so that they are written once; test_cases names these tests in its lines.
 */
#include "cases.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cases_by_hand.h"
#include "cases_threads.h"

/* ---- Parts of the file ------------------------------------------------------------------------------------------- */

static json_t *file;

static int open_file(void **state)
{
    (void)state;
    json_error_t error;
    file = json_load_file(CASES_FILE, JSON_REJECT_DUPLICATES, &error);
    if (!file)
        fprintf(stderr, "%s:%d: %s\n", CASES_FILE, error.line, error.text);
    return file ? 0 : -1;
}

static int close_file(void **state)
{
    (void)state;
    json_decref(file);
    return 0;
}

static part part_named(const char *id)
{
    size_t i;
    json_t *json;
    part p = {0};
    char why[REASON_LENGTH];
    json_array_foreach(json_object_get(file, "cases"), i, json)
    {
        const char *name = json_string_value(json_object_get(json, "id"));
        if (name && strcmp(name, id) == 0) {
            if (!read_part(&p, json, why))
                fail_msg("%s", why);
            return p;
        }
    }
    fail_msg("the file has no part %s", id);
    return p;
}

static const array *array_named(const part *p, const char *name)
{
    for (int i = 0; i < p->inputs; i++)
        if (strcmp(p->name[i], name) == 0)
            return &p->input[i];
    fail_msg("%s has no input %s", p->id, name);
    return NULL;
}

/* A leaf with the numbers of an input, in a precision of our choice if they are floats. */
static lab_tensor *leaf(const part *p, const char *name, lab_dtype dtype)
{
    const array *a = array_named(p, name);
    lab_tensor *t;
    if (a->dtype == LAB_I64) {
        assert_int_equal(lab_tensor_from(&t, LAB_I64, a->rank, a->shape, a->integers), LAB_OK);
        return t;
    }
    assert_int_equal(lab_tensor_create(&t, dtype, a->rank, a->shape), LAB_OK);
    for (int64_t i = 0; i < a->count; i++)
        if (dtype == LAB_F32)
            ((float *)lab_tensor_data(t))[i] = (float)a->numbers[i];
        else
            ((double *)lab_tensor_data(t))[i] = a->numbers[i];
    return t;
}

static const json_t *expectation(const part *p, const char *name)
{
    return json_object_get(json_object_get(p->json, "expect"), name);
}

/* n numbers are what the part wants under this name; in float32 to its float32_tol. */
static void numbers_are_wanted(const part *p, const char *name, int64_t n, const double *got, lab_dtype dtype)
{
    array want;
    char why[REASON_LENGTH];
    const json_t *json = expectation(p, name), *coarse = json_object_get(p->json, "float32_tol");
    if (!read_array(&want, json, why))
        fail_msg("%s: %s: %s", p->id, name, why);
    const json_t *tolerances = dtype == LAB_F32 && coarse ? coarse : json;
    double rtol = json_number_value(json_object_get(tolerances, "rtol"));
    double atol = json_number_value(json_object_get(tolerances, "atol"));
    assert_int_equal(n, want.count);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want.numbers[i]) <= atol + rtol * fabs(want.numbers[i])))
            fail_msg("%s: %s[%lld] is %.17g, not %.17g", p->id, name, (long long)i, got[i], want.numbers[i]);
    free_array(&want);
}

static double at(const lab_tensor *t, int64_t i)
{
    assert_non_null(t);
    return lab_tensor_dtype(t) == LAB_F32 ? (double)((float *)lab_tensor_data(t))[i]
                                          : ((double *)lab_tensor_data(t))[i];
}

/* A small row-major tensor. */
static void is_wanted(const part *p, const char *name, const lab_tensor *t)
{
    double got[16];
    int64_t n = lab_tensor_numel(t);
    assert_in_range(n, 1, 16);
    for (int64_t i = 0; i < n; i++)
        got[i] = at(t, i);
    numbers_are_wanted(p, name, n, got, lab_tensor_dtype(t));
}

static void is_healthy(const lab_graph *g)
{
    if (lab_graph_status(g) != LAB_OK)
        fail_msg("%s", lab_graph_message(g));
}

/* ---- Attention, softmax, positions ------------------------------------------------------------------------------- */

/* out of O01a. */
static void rows_equal_o01a(lab_graph *g, lab_tensor *out, lab_dtype dtype)
{
    part masked = part_named("O01a");
    array want;
    char why[REASON_LENGTH];
    assert_true(read_array(&want, expectation(&masked, "out"), why));
    for (int64_t i = 0; i < 9; i++)
        if (i / 3 != 1 && !(fabs(at(out, i) - want.numbers[i]) <= 2e-5 + 2e-4 * fabs(want.numbers[i])))
            fail_msg("%s: out[%lld] is %.9g, not %.9g as in O01a", lab_dtype_name(dtype), (long long)i, at(out, i),
                     want.numbers[i]);
    is_healthy(g);
    free_array(&want);
    free_part(&masked);
}

static void o01d_lowest_finite_bias_gives_no_nan_and_a_mix_of_values(void **state)
{
    (void)state;
    part p = part_named("O01d");
    for (int run = 0; run < 4; run++) { /* both precisions, both paths */
        const lab_dtype dtype = run & 1 ? LAB_F64 : LAB_F32;
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *xs[] = {leaf(&p, "q", dtype), leaf(&p, "k", dtype), leaf(&p, "v", dtype), leaf(&p, "bias", dtype)};
        lab_tensor *dout = leaf(&p, "dout", dtype), *grads[3];
        lab_attention_opts opts = {.scale =
                                       json_number_value(json_object_get(json_object_get(p.json, "params"), "scale")),
                                   .bias = xs[3],
                                   .path = run & 2 ? LAB_PATH_FUSED : LAB_PATH_COMPOSED};
        lab_tensor *out = lab_contiguous(g, lab_attention(g, xs[0], xs[1], xs[2], &opts));
        lab_grad(g, out, dout, 3, xs, grads, NULL);
        is_healthy(g);
        for (int64_t i = 0; i < 9; i++)
            assert_true(isfinite(at(out, i)));
        for (int which = 0; which < 3; which++)
            for (int64_t i = 0; i < lab_tensor_numel(grads[which]); i++)
                assert_true(isfinite(at(lab_contiguous(g, grads[which]), i)));
        rows_equal_o01a(g, out, dtype);
        for (int64_t column = 0; column < 3; column++) {
            double low = INFINITY, high = -INFINITY, mixed = at(out, 3 + column);
            for (int64_t row = 0; row < 4; row++) {
                low = fmin(low, at(xs[2], 3 * row + column));
                high = fmax(high, at(xs[2], 3 * row + column));
            }
            assert_true(mixed >= low && mixed <= high);
        }
        lab_graph_destroy(&g);
        for (int i = 0; i < 4; i++)
            lab_tensor_destroy(&xs[i]);
        lab_tensor_destroy(&dout);
    }
    free_part(&p);
}

static void o10g_softmax_of_one_element_is_one_and_of_minus_infinity_zero(void **state)
{
    (void)state;
    part p = part_named("O10g");
    for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *x = leaf(&p, "x", dtype), *y = lab_softmax(g, x, -1);
        is_healthy(g);
        assert_true(at(y, 0) == 1);
        assert_true(at(y, 1) == 0);
        lab_graph_destroy(&g);
        lab_tensor_destroy(&x);
    }
    free_part(&p);
}

/* The channels [0, 2, 1, 3] of the last axis. */
static lab_tensor *permuted(lab_graph *g, lab_tensor *x)
{
    lab_tensor *parts[4];
    static const int64_t channels[] = {0, 2, 1, 3};
    for (int i = 0; i < 4; i++)
        parts[i] = lab_slice(g, x, -1, channels[i], channels[i] + 1, 1);
    return lab_concat(g, 4, parts, -1);
}

static void no_further_apart(lab_tensor *a, lab_tensor *b, double most)
{
    assert_non_null(a);
    assert_int_equal(lab_tensor_numel(a), lab_tensor_numel(b));
    for (int64_t i = 0; i < lab_tensor_numel(a); i++)
        if (!(fabs(at(a, i) - at(b, i)) <= most))
            fail_msg("element %lld: %.17g and %.17g", (long long)i, at(a, i), at(b, i));
}

static void o23f_rope_layouts_are_a_permutation_and_scores_depend_on_distance(void **state)
{
    (void)state;
    part p = part_named("O23f");
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *x = leaf(&p, "x", LAB_F64), *positions = leaf(&p, "pos", LAB_F64);
    double base = json_number_value(json_object_get(json_object_get(p.json, "params"), "base"));
    lab_rope_opts halves = {.layout = LAB_ROPE_HALVES, .base = base, .positions = positions};
    lab_rope_opts pairs = {.base = base, .positions = positions};
    no_further_apart(permuted(g, lab_rope(g, x, &pairs)), lab_rope(g, permuted(g, x), &halves), 1e-12);
    lab_tensor *later = lab_add_scalar(g, positions, 7), *k = permuted(g, lab_neg(g, x));
    lab_rope_opts *both[] = {&pairs, &halves};
    for (int i = 0; i < 2; i++) {
        lab_rope_opts shifted = *both[i];
        shifted.positions = later;
        lab_tensor *here = lab_matmul(g, lab_rope(g, x, both[i]), lab_transpose(g, lab_rope(g, k, both[i]), -1, -2));
        lab_tensor *there = lab_matmul(g, lab_rope(g, x, &shifted), lab_transpose(g, lab_rope(g, k, &shifted), -1, -2));
        is_healthy(g);
        no_further_apart(here, there, 1e-12);
    }
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&positions);
    free_part(&p);
}

/* ---- Derivatives of tensors used more than once ------------------------------------------------------------------ */

typedef lab_tensor *(*expression)(lab_graph *g, lab_tensor *const *x);

/* y and the gradients of the leaves, by lab_grad and by lab_backward. */
static void expression_is(const char *id, int n, const char *const *names, const char *const *gradients, expression f)
{
    part p = part_named(id);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *xs[2], *grads[2];
    for (int i = 0; i < n; i++) {
        xs[i] = leaf(&p, names[i], LAB_F64);
        assert_int_equal(lab_tensor_require_grad(xs[i], true), LAB_OK);
    }
    lab_tensor *y = f(g, xs);
    lab_grad(g, y, NULL, n, xs, grads, NULL);
    lab_backward(g, y);
    is_healthy(g);
    if (expectation(&p, "y"))
        is_wanted(&p, "y", y);
    for (int i = 0; i < n; i++) {
        is_wanted(&p, gradients[i], lab_contiguous(g, grads[i]));
        is_wanted(&p, gradients[i], lab_tensor_grad(xs[i]));
    }
    lab_graph_destroy(&g);
    for (int i = 0; i < n; i++)
        lab_tensor_destroy(&xs[i]);
    free_part(&p);
}

static lab_tensor *doubled_twice(lab_graph *g, lab_tensor *const *x)
{
    lab_tensor *b = lab_add(g, x[0], x[0]);
    return lab_add(g, b, b);
}

static void o27a_a_tensor_added_to_itself_twice(void **state)
{
    (void)state;
    expression_is("O27a", 1, (const char *[]){"a"}, (const char *[]){"da"}, doubled_twice);
}

static lab_tensor *diamond(lab_graph *g, lab_tensor *const *x)
{
    lab_tensor *c = lab_add(g, x[0], x[1]), *d = lab_mul(g, x[0], x[1]);
    return lab_add(g, lab_add(g, c, d), lab_mul(g, c, d));
}

static void o27b_a_diamond(void **state)
{
    (void)state;
    expression_is("O27b", 2, (const char *[]){"a", "b"}, (const char *[]){"da", "db"}, diamond);
}

static lab_tensor *cube(lab_graph *g, lab_tensor *const *x)
{
    return lab_mul(g, lab_mul(g, x[0], x[0]), x[0]);
}

static void o27c_a_cube(void **state)
{
    (void)state;
    expression_is("O27c", 1, (const char *[]){"x"}, (const char *[]){"dx"}, cube);
}

static lab_tensor *sum_of_square(lab_graph *g, lab_tensor *const *x)
{
    return lab_sum_all(g, lab_matmul(g, x[0], x[0]));
}

static void o27d_one_tensor_on_both_sides_of_a_product(void **state)
{
    (void)state;
    expression_is("O27d", 1, (const char *[]){"x"}, (const char *[]){"dx"}, sum_of_square);
}

static void fourth_power_backward(lab_tensor *a)
{
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *b = lab_mul(g, a, a);
    lab_backward(g, lab_mul(g, b, b));
    is_healthy(g);
    assert_null(lab_tensor_grad(b)); /* only leaves keep one */
    lab_graph_destroy(&g);
}

static void o27f_leaf_gradients_add_up_and_inner_ones_do_not_carry_over(void **state)
{
    (void)state;
    part p = part_named("O27f");
    lab_tensor *a = leaf(&p, "a", LAB_F64);
    assert_int_equal(lab_tensor_require_grad(a, true), LAB_OK);
    fourth_power_backward(a);
    is_wanted(&p, "da_after_first", lab_tensor_grad(a));
    fourth_power_backward(a);
    is_wanted(&p, "da_after_second", lab_tensor_grad(a));
    lab_tensor_clear_grad(a);
    fourth_power_backward(a);
    is_wanted(&p, "da_after_first", lab_tensor_grad(a));
    lab_tensor_destroy(&a);
    free_part(&p);
}

static void o27g_detach_stops_one_path_and_unused_leaves_stay(void **state)
{
    (void)state;
    part p = part_named("O27g");
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *a = leaf(&p, "a", LAB_F64), *w = leaf(&p, "w", LAB_F64);
    assert_int_equal(lab_tensor_require_grad(a, true), LAB_OK);
    assert_int_equal(lab_tensor_require_grad(w, true), LAB_OK);
    lab_backward(g, lab_mul(g, a, lab_detach(g, a)));
    is_healthy(g);
    is_wanted(&p, "da", lab_tensor_grad(a));
    assert_null(lab_tensor_grad(w)); /* absent, as tensor.h says */
    lab_sgd sgd = {.rate = 0.5};
    assert_int_equal(lab_sgd_step("a", &a, &sgd), LAB_OK);
    assert_int_equal(lab_sgd_step("w", &w, &sgd), LAB_OK);
    assert_true(at(a, 0) == 2 - 0.5 * 2);
    assert_true(at(w, 0) == 5);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&a);
    lab_tensor_destroy(&w);
    free_part(&p);
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

/* Every number of callers that the part asks for, in both precisions; their values have the names given. */
static void callers_agree(const char *id, int n_inputs, const char *const *inputs, concurrent_call call, int repeats,
                          int n_values, const char *const *names)
{
    part p = part_named(id);
    const json_t *threads = json_object_get(json_object_get(p.json, "params"), "threads");
    caller callers[MOST_CALLERS];
    lab_tensor *xs[4];
    assert_true(json_array_size(threads) > 0);
    for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
        for (int i = 0; i < n_inputs; i++)
            xs[i] = leaf(&p, inputs[i], dtype);
        for (size_t i = 0; i < json_array_size(threads); i++) {
            int n = (int)json_integer_value(json_array_get(threads, i));
            assert_in_range(n, 1, MOST_CALLERS);
            call_at_once(n, repeats, call, xs, callers);
            for (int c = 0; c < n; c++) {
                if (callers[c].message[0])
                    fail_msg("caller %d of %d: %s", c, n, callers[c].message);
                for (int v = 0; v < n_values; v++)
                    numbers_are_wanted(&p, names[v], 1, &callers[c].value[v], dtype);
            }
        }
        for (int i = 0; i < n_inputs; i++)
            lab_tensor_destroy(&xs[i]);
    }
    free_part(&p);
}

static void o26a_many_threads_multiply_at_once(void **state)
{
    (void)state;
    callers_agree("O26a", 2, (const char *[]){"a", "b"}, multiply_and_sum, 50, 3,
                  (const char *[]){"trace", "sum", "sumsq"});
}

static void o26b_many_threads_attend_forward_and_backward(void **state)
{
    (void)state;
    callers_agree("O26b", 4, (const char *[]){"q", "k", "v", "dout"}, attend_and_sum, 5, 4,
                  (const char *[]){"out_sum", "dq_sumsq", "dk_sumsq", "dv_sumsq"});
}

/* Each in a process of its own, which ends with the right numbers, and BLAS's threads as they were; a region within 10
 * seconds, forty threads within a minute. */
static void o26c_callers_parallel_regions_and_forty_threads(void **state)
{
    (void)state;
    assert_int_equal(run_process("two-in-two", NULL), 0);
    assert_int_equal(run_process("one-level", (const char *[]){"OMP_NUM_THREADS=4", "OMP_MAX_ACTIVE_LEVELS=1", NULL}),
                     0);
    assert_int_equal(run_process("forty", NULL), 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--process") == 0)
        return process_main(argv[2]);
    const struct CMUnitTest tests[] = {
#define TEST(part, test) cmocka_unit_test(test),
        CASES_BY_HAND(TEST)
#undef TEST
    };
    return cmocka_run_group_tests(tests, open_file, close_file);
}
