/* test_attention_fused.c - the fused path held to the composed one, which defines it: every result and every gradient.
 *
 * Cases are drawn from a seed (LAB_TEST_SEED); case number i is a function of the seed and i, so that a failure can be
 * run alone:
 *
 *     test_attention_fused [--count N] [--first I]     N cases from number I on; without it, what a minute takes
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_exact.h"

static int64_t mixtures = 2400, packed_mixtures = 300, single_mixtures = 300, first_case;

static uint64_t state_of(const char *name, int64_t number)
{
    char text[64];
    snprintf(text, sizeof text, "%s %lld", name, (long long)number);
    return draw_start(text);
}

static void fail_at(const twin_case *t, int64_t number, int result, const lab_tensor *got, const lab_tensor *want,
                    int64_t where, double error, double allowed)
{
    fail_msg("seed %llu, case %lld (%s): %s[%lld] is %.17g, the composed path's is %.17g (off by %.2g, %.2g allowed)",
             (unsigned long long)check_seed(), (long long)number, twin_text(t), twin_names[result], (long long)where,
             element_of(got, where), element_of(want, where), error, allowed);
}

static void compare_stats(const twin_case *t, int64_t number, const twin_run *got, const twin_run *want)
{
    for (int64_t h = 0; h < t->c.heads; h++) {
        const lab_attention_stats *a = &got->stats[h], *b = &want->stats[h];
        const double *x = &a->p_max.min, *y = &b->p_max.min;
        bool fine = a->rows == b->rows && a->empty_rows == b->empty_rows;
        for (int i = 0; i < 10; i++) /* three spreads and the share lie behind one another */
            fine = fine && fabs(x[i] - y[i]) <= 1e-12 * fmax(1, fabs(y[i]));
        if (!fine)
            fail_msg("seed %llu, case %lld (%s): the statistics of head %lld differ", (unsigned long long)check_seed(),
                     (long long)number, twin_text(t), (long long)h);
    }
}

/* Where the paths differ by more than the bound, the exact answer says which of them is off. */
static void fail_beside_the_exact_answer(const twin_case *t, int64_t number, int result, const twin_run *fused,
                                         const twin_run *composed, double allowed)
{
    const lab_tensor *got = fused->results[result], *want = composed->results[result];
    int64_t where;
    const double apart = twin_difference(got, want, &where);
    exact_run exact = exact_attend(t);
    const double error = exact_difference(got, &exact, result), others = exact_difference(want, &exact, result);
    exact_end(&exact);
    fail_msg("seed %llu, case %lld (%s): %s[%lld] is %.17g, the composed path's is %.17g: off by %.2g, %.2g allowed; "
             "the fused path is off the exact answer by %.2g, the composed one by %.2g",
             (unsigned long long)check_seed(), (long long)number, twin_text(t), twin_names[result], (long long)where,
             element_of(got, where), element_of(want, where), apart, allowed, error, others);
}

static void compare_paths(const twin_case *t, int64_t number, bool with_gradients)
{
    twin_run fused = twin_attend(t, LAB_PATH_FUSED, with_gradients);
    twin_run composed = twin_attend(t, LAB_PATH_COMPOSED, with_gradients);
    for (int i = 0; i < TWIN_RESULTS; i++) {
        const lab_tensor *got = fused.results[i], *want = composed.results[i];
        if (!got && !want)
            continue;
        int64_t where;
        const double error = twin_difference(got, want, &where), allowed = 1e-12 * twin_measure(t, &composed, i);
        if (!(error <= allowed) && isfinite(error) && with_gradients)
            fail_beside_the_exact_answer(t, number, i, &fused, &composed, allowed);
        else if (!(error <= allowed))
            fail_at(t, number, i, got, want, where, error, allowed);
    }
    compare_stats(t, number, &fused, &composed);
    twin_end(&fused);
    twin_end(&composed);
}

/* The exact answer, which is asked rarely, is that of both paths. */
static void the_exact_answer_is_that_of_both_paths(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 150; i++) {
        uint64_t draws = state_of("exact", i);
        twin_case t;
        if (i % 3 == 0)
            twin_draw_packed(&t, &draws);
        else
            twin_draw(&t, &draws);
        exact_run exact = exact_attend(&t);
        for (int path = LAB_PATH_COMPOSED; path <= LAB_PATH_FUSED; path++) {
            twin_run run = twin_attend(&t, (lab_path)path, true);
            for (int r = 0; r < TWIN_RESULTS; r++) {
                const double allowed = 4e-12 * twin_measure(&t, &run, r);
                const double error = run.results[r] ? exact_difference(run.results[r], &exact, r) : 0;
                if (!(error <= allowed))
                    fail_msg("seed %llu, case %lld (%s): %s is off the exact answer by %.2g, %.2g allowed",
                             (unsigned long long)check_seed(), (long long)i, twin_text(&t), twin_names[r], error,
                             allowed);
            }
            twin_end(&run);
        }
        exact_end(&exact);
        twin_free(&t);
    }
}

/* out, lse, statistics, and the gradients of q, k, v, scale, bias, sink and slopes. */
static void every_mixture_of_options_agrees_with_the_composed_path(void **state)
{
    (void)state;
    for (int64_t i = first_case; i < first_case + mixtures; i++) {
        uint64_t draws = state_of("mixture", i);
        twin_case t;
        twin_draw(&t, &draws);
        compare_paths(&t, i, true);
        twin_free(&t);
    }
}

static void packed_mixtures_agree_with_the_composed_path(void **state)
{
    (void)state;
    for (int64_t i = first_case; i < first_case + packed_mixtures; i++) {
        uint64_t draws = state_of("packed", i);
        twin_case t;
        twin_draw_packed(&t, &draws);
        compare_paths(&t, i, true);
        twin_free(&t);
    }
}

static void draw_either(twin_case *t, uint64_t *draws, bool packed)
{
    if (packed)
        twin_draw_packed(t, draws);
    else
        twin_draw(t, draws);
}

/* Without queries, keys or batches there is a bias of no elements: what lies behind it in memory stays as it is. */
static void a_bias_without_elements_is_left_alone(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 3; i++) {
        uint64_t draws = state_of("no bias", i);
        twin_case t = {.c = {.dtype = LAB_F64,
                             .batch_rank = 1,
                             .batch = {i == 0 ? 0 : 2},
                             .heads = 2,
                             .kv_heads = 1,
                             .tq = i == 1 ? 0 : 3,
                             .tk = i == 2 ? 0 : 5,
                             .d = 3,
                             .dv = 2},
                       .out_wanted = true,
                       .lse_wanted = true};
        t.c.opts.bias = case_bias(&t.c, &draws, 2, 1);
        t.c.opts.sink = case_per_head(&t.c, &draws, 1);
        t.c.opts.alibi_slopes = case_per_head(&t.c, &draws, 1);
        twin_make(&t, &draws);
        compare_paths(&t, i, true);
        twin_free(&t);
    }
}

/* What others give for rows without keys, forward only. */
static void rows_without_keys_give_what_is_asked_for(void **state)
{
    (void)state;
    int64_t empty = 0;
    for (int64_t i = first_case; i < first_case + 200; i++) {
        uint64_t draws = state_of("empty row", i);
        twin_case t;
        draw_either(&t, &draws, i % 4 == 0);
        bool every_sequence_has_keys = t.c.tk > 0;
        for (int64_t s = 1; t.cu_k && s < lab_tensor_numel(t.cu_k); s++)
            every_sequence_has_keys &= element_of(t.cu_k, s) > element_of(t.cu_k, s - 1);
        t.c.opts.empty_row = i & 1 && every_sequence_has_keys ? LAB_EMPTY_UNIFORM : LAB_EMPTY_NAN;
        compare_paths(&t, i, false);
        twin_run r = twin_attend(&t, LAB_PATH_FUSED, false);
        for (int64_t h = 0; h < t.c.heads; h++)
            empty += r.stats[h].empty_rows;
        twin_end(&r);
        twin_free(&t);
    }
    assert_true(empty > 100);
}

/* Errors in units of the last place, each of them counted as 64 at most, over all cases. */
typedef struct error_sums {
    double fused[TWIN_RESULTS], composed[TWIN_RESULTS];
} error_sums;

/* Of the last place of x in float32. */
static double unit_of(double x)
{
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, exponent - FLT_MANT_DIG);
}

/* How far a result may be off: 4 times the composed path's error against float64, or 8 units of the last place of its
 * largest entry. Gradients that are one number for many pairs come from float64 and are rounded once, whatever that
 * path does: half a unit, and what their two sums in float64 may differ by. */
static double allowed_in_single(int result, const lab_tensor *want, double measure, double others)
{
    const double own = twin_largest(want);
    if (result == D_SCALE || result == D_SINK || result == D_SLOPES)
        return (own > 0 ? 0.51 * unit_of(own) : 0) + 1e-12 * measure;
    return fmax(8 * unit_of(measure), 4 * others);
}

/* Each result of each case by itself; over all cases together within 4 times the composed path's errors. */
static void judge_single(const twin_case *t, int64_t number, error_sums *sums)
{
    twin_case exact;
    twin_other_precision(&exact, t);
    twin_run fused = twin_attend(t, LAB_PATH_FUSED, true), composed = twin_attend(t, LAB_PATH_COMPOSED, true);
    twin_run want = twin_attend(&exact, LAB_PATH_COMPOSED, true);
    for (int i = 0; i < TWIN_RESULTS; i++) {
        const double measure = twin_measure(t, &want, i);
        if (!want.results[i] || measure == 0)
            continue;
        int64_t where, unused;
        const double others = twin_difference(composed.results[i], want.results[i], &unused);
        const double allowed = allowed_in_single(i, want.results[i], measure, others);
        const double error = twin_difference(fused.results[i], want.results[i], &where);
        sums->fused[i] += fmin(error / unit_of(measure), 64);
        sums->composed[i] += fmin(others / unit_of(measure), 64);
        if (!(error <= allowed))
            fail_at(t, number, i, fused.results[i], want.results[i], where, error, allowed);
    }
    twin_end(&fused);
    twin_end(&composed);
    twin_end(&want);
    twin_free(&exact);
}

static void judge_singles(bool batch_invariant)
{
    error_sums sums = {{0}, {0}};
    for (int64_t i = first_case; i < first_case + single_mixtures; i++) {
        uint64_t draws = state_of("single", i);
        twin_case drawn, t;
        draw_either(&drawn, &draws, i % 8 == 0);
        twin_other_precision(&t, &drawn);
        t.batch_invariant = batch_invariant;
        judge_single(&t, i, &sums);
        twin_free(&t);
        twin_free(&drawn);
    }
    for (int i = 0; i < TWIN_RESULTS && single_mixtures >= 100; i++)
        if (!(sums.fused[i] <= 4 * sums.composed[i]))
            fail_msg("seed %llu: %s: %.2g times the error of the composed path", (unsigned long long)check_seed(),
                     twin_names[i], sums.fused[i] / sums.composed[i]);
}

static void in_single_precision_it_is_as_exact_as_the_composed_path(void **state)
{
    (void)state;
    judge_singles(false);
    judge_singles(true);
}

/* The root of the mean square of a result's errors in float32, of what the exact result's is. */
static void errors_of_lengths(int64_t tq, int64_t tk, double errors[TWIN_RESULTS])
{
    uint64_t draws = state_of("lengths", tq < tk);
    twin_case exact, t = {.c = {.dtype = LAB_F32, .heads = 1, .kv_heads = 1, .d = 16, .dv = 16, .tq = tq, .tk = tk},
                          .out_wanted = true};
    twin_make(&t, &draws);
    twin_other_precision(&exact, &t);
    twin_run fused = twin_attend(&t, LAB_PATH_FUSED, true), want = twin_attend(&exact, LAB_PATH_COMPOSED, true);
    for (int i = 0; i < TWIN_RESULTS; i++) {
        double error = 0, all = 0;
        for (int64_t k = 0; want.results[i] && k < lab_tensor_numel(want.results[i]); k++) {
            const double x = element_of(want.results[i], k), apart = element_of(fused.results[i], k) - x;
            error += apart * apart;
            all += x * x;
        }
        errors[i] = all > 0 ? sqrt(error / all) : 0;
    }
    twin_end(&fused);
    twin_end(&want);
    twin_free(&exact);
    twin_free(&t);
}

/* Out and dq are sums over keys, dk and dv over queries: 64 times as many lose 1.6 times as much, and would lose 7
 * times as much in one accumulator. */
static void errors_hardly_grow_with_the_length(void **state)
{
    (void)state;
    const int64_t few = 32, some = 192, many = 12288;
    const int results[2][2] = {{0, 2}, {3, 4}};
    for (int over_queries = 0; over_queries < 2; over_queries++) {
        double of_some[TWIN_RESULTS], of_many[TWIN_RESULTS];
        errors_of_lengths(over_queries ? some : few, over_queries ? few : some, of_some);
        errors_of_lengths(over_queries ? many : few, over_queries ? few : many, of_many);
        for (int i = 0; i < 2; i++) {
            const int result = results[over_queries][i];
            if (!(of_many[result] <= 3 * of_some[result]))
                fail_msg("seed %llu: %s: an error of %.2g over %lld, of %.2g over %lld",
                         (unsigned long long)check_seed(), twin_names[result], of_some[result], (long long)some,
                         of_many[result], (long long)many);
        }
    }
}

/* ---- The backward pass over ranges of keys ------------------------------------------------------------------------------ */

/* Fewer than 8 key heads and 4096 keys or more: dq comes from ranges of the keys, for two key heads at a time. */
static void ranges_of_keys_add_up(void **state)
{
    (void)state;
    const int64_t keys[] = {4096, 4097, 6145, 9000};
    for (int64_t i = 0; i < 16; i++) {
        uint64_t draws = state_of("ranges", i);
        twin_case t = {.c = {.dtype = LAB_F64, .batch_rank = 1, .batch = {1}, .kv_heads = 1, .d = 2, .dv = 1}};
        attention_case *c = &t.c;
        c->batch[0] = i == 3 ? 3 : 1;
        c->kv_heads = i & 1 ? 3 : 1;
        c->heads = c->kv_heads * (i & 2 ? 2 : 1);
        c->tk = keys[i / 4];
        c->tq = draw_size(&draws, 3, 21);
        if (i % 4 == 1)
            c->opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
        if (i % 4 == 2)
            c->opts.window = (lab_window){true, 3000, 1000}, c->opts.offset = 3500;
        if (i % 4 == 3)
            c->opts.key_lengths = case_per_batch(c, &draws, 0, c->tk), c->opts.sink = case_per_head(c, &draws, 1);
        c->opts.scale_tensor = i & 4 ? leaf_drawn(&draws, LAB_F64, 0, NULL, 2) : NULL;
        c->opts.alibi_slopes = i & 1 ? case_per_head(c, &draws, 1e-3) : NULL;
        t.out_wanted = true;
        t.lse_wanted = i & 1;
        for (int k = 0; k < 3; k++)
            t.views[k] = i & 4 ? (operand_view)draw_size(&draws, 0, OPERAND_VIEWS - 1) : OPERAND_PLAIN;
        twin_make(&t, &draws);
        compare_paths(&t, i, true);
        twin_free(&t);
    }
}

/* The longest sequence decides; the others are shorter than a range, or empty. */
static void ranges_of_keys_add_up_in_packed_sequences(void **state)
{
    (void)state;
    uint64_t draws = state_of("packed ranges", 0);
    twin_case t = {.c = {.dtype = LAB_F64, .kv_heads = 1, .heads = 2, .d = 2, .dv = 3, .tq = 30, .tk = 9000},
                   .out_wanted = true,
                   .lse_wanted = true};
    t.cu_q = leaf_of_integers(1, (int64_t[]){5}, (int64_t[]){0, 9, 12, 20, 30});
    t.cu_k = leaf_of_integers(1, (int64_t[]){5}, (int64_t[]){0, 17, 17, 6170, 9000});
    t.c.opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
    t.c.opts.sink = case_per_head(&t.c, &draws, 1);
    twin_make(&t, &draws);
    compare_paths(&t, 0, true);
    twin_free(&t);
}

/* ---- Second derivatives --------------------------------------------------------------------------------------------------- */

/* Through a fused result, against differences. */
static void second_derivatives_go_through_a_fused_result(void **state)
{
    (void)state;
    const lab_gradcheck_opts second = {.second_order = true, .tolerance = 1e-6, .max_entries = 12};
    for (int64_t i = 0; i < 12; i++) {
        uint64_t draws = state_of("second", i);
        attention_case c;
        case_draw(&c, &draws, true);
        c.opts.path = LAB_PATH_FUSED;
        case_has_right_gradients("second derivative", &c, i & 1, &second);
        case_free(&c);
    }
}

/* A derivative that is recorded is the twin's: it must be of the same call. */
static void recorded_derivatives_are_of_the_same_call(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 120; i++) {
        uint64_t draws = state_of("recorded", i);
        twin_case t;
        draw_either(&t, &draws, i % 3 == 0);
        t.recorded = true;
        compare_paths(&t, i, true);
        twin_free(&t);
    }
}

/* d of sum(dq^2): the result itself comes from the kernel, in more than one panel. */
static lab_tensor *curvature(lab_graph *g, const twin_case *t, lab_path path)
{
    const lab_grad_opts record = {.create_graph = true};
    lab_attention_opts o = t->c.opts;
    lab_tensor *dq, *again, *q = t->c.q, *lse;
    o.path = path;
    o.lse = &lse;
    lab_tensor *out = lab_attention(g, q, t->c.k, t->c.v, &o);
    lab_tensor *loss = lab_add(g, lab_sum_all(g, lab_mul(g, out, t->weights)), lab_sum_all(g, lab_mul(g, lse, lse)));
    lab_grad(g, loss, NULL, 1, &q, &dq, &record);
    lab_grad(g, lab_sum_all(g, lab_mul(g, dq, dq)), NULL, 1, &q, &again, NULL);
    expect_healthy(g);
    return again;
}

static void second_derivatives_agree_with_the_composed_path(void **state)
{
    (void)state;
    uint64_t draws = state_of("curvature", 0);
    twin_case t = {.c = {.dtype = LAB_F64, .kv_heads = 2, .heads = 4, .tq = 37, .tk = 101, .d = 5, .dv = 3}};
    t.c.opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
    t.c.opts.alibi_slopes = case_per_head(&t.c, &draws, 0.1);
    twin_make(&t, &draws);
    lab_graph *a = lab_graph_create(NULL), *b = lab_graph_create(NULL);
    const lab_tensor *got = curvature(a, &t, LAB_PATH_FUSED), *want = curvature(b, &t, LAB_PATH_COMPOSED);
    int64_t where;
    const double error = twin_difference(got, want, &where);
    if (!(error <= 1e-12 * twin_largest(want)))
        fail_at(&t, 0, 2, got, want, where, error, 1e-12 * twin_largest(want));
    lab_graph_destroy(&a);
    lab_graph_destroy(&b);
    twin_free(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exact_answer_is_that_of_both_paths),
        cmocka_unit_test(every_mixture_of_options_agrees_with_the_composed_path),
        cmocka_unit_test(packed_mixtures_agree_with_the_composed_path),
        cmocka_unit_test(a_bias_without_elements_is_left_alone),
        cmocka_unit_test(rows_without_keys_give_what_is_asked_for),
        cmocka_unit_test(in_single_precision_it_is_as_exact_as_the_composed_path),
        cmocka_unit_test(errors_hardly_grow_with_the_length),
        cmocka_unit_test(ranges_of_keys_add_up),
        cmocka_unit_test(ranges_of_keys_add_up_in_packed_sequences),
        cmocka_unit_test(recorded_derivatives_are_of_the_same_call),
        cmocka_unit_test(second_derivatives_go_through_a_fused_result),
        cmocka_unit_test(second_derivatives_agree_with_the_composed_path),
    };
    for (int i = 1; i + 1 < argc; i += 2) {
        const int64_t number = strtoll(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--count") == 0)
            mixtures = packed_mixtures = single_mixtures = number;
        else if (strcmp(argv[i], "--first") == 0)
            first_case = number;
        else
            return 2;
    }
    print_message("seed %llu\n", (unsigned long long)check_seed());
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
