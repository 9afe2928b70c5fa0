/* test_linear_cross_entropy.c - a head and its loss in chunks of rows, beside logits made as a whole. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn_check.h"

typedef struct head {
    lab_tensor *targets;
    lab_cross_entropy_opts opts;
} head;

static lab_tensor *head_of(lab_graph *g, lab_tensor **xs, void *ctx)
{
    const head *h = ctx;
    return lab_linear_cross_entropy(g, xs[0], xs[1], h->targets, &h->opts);
}

/* Two in five rows are ignored, if any are. */
static lab_tensor *targets_for(int64_t rows, int64_t classes, bool ignoring)
{
    int64_t *values = malloc((size_t)(rows + 1) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < rows; i++)
        values[i] = ignoring && i % 5 > 2 ? -7 : i * 31 % classes;
    lab_tensor *t = leaf_of_integers(1, &rows, values);
    free(values);
    return t;
}

static void expect_twins(const char *what, const lab_tensor *got, const lab_tensor *want, double tolerance)
{
    int64_t n = want ? lab_tensor_numel(want) : 0;
    double *values = malloc((size_t)(n + 1) * sizeof *values);
    assert_non_null(got);
    assert_non_null(want);
    assert_non_null(values);
    for (int64_t i = 0; i < n; i++)
        values[i] = element_of(want, i);
    expect_close(what, got, values, n, tolerance);
    free(values);
}

static void check_head(lab_dtype dtype, int64_t rows, int64_t classes, int variant, uint64_t *draws)
{
    const double tolerance = dtype == LAB_F32 ? 3e-6 : 1e-13;
    const int64_t width = 6;
    head h = {.opts = {.ignore_index = variant & 1 ? -7 : 0,
                       .smoothing = variant & 2 ? 0.3 : 0,
                       .reduction = (lab_reduction)(variant % 3)}};
    h.targets = targets_for(rows, classes, variant & 1);
    lab_tensor *seed = leaf_drawn(draws, dtype, variant % 3 == LAB_REDUCE_NONE ? 1 : 0, &rows, 1), *got[2], *want[2];
    lab_tensor *plain[] = {leaf_drawn(draws, dtype, 2, (int64_t[]){rows, width}, 1),
                           leaf_drawn(draws, dtype, 2, (int64_t[]){classes, width}, 1)};
    lab_tensor *xs[] = {plain[0], plain[1]};
    for (int i = 0; i < 2 && variant & 4; i++)
        xs[i] = leaf_strided(plain[i]);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *loss = head_of(g, xs, &h);
    h.opts.path = LAB_PATH_COMPOSED;
    lab_tensor *twin = head_of(g, xs, &h);
    h.opts.path = LAB_PATH_FUSED;
    expect_twins("loss", loss, twin, tolerance);
    for (int which = 1; which < 4; which++) { /* hidden, weight, both; used twice, so that places are added to */
        lab_tensor *of[2];
        int n = 0;
        for (int i = 0; i < 2; i++)
            if (which >> i & 1)
                of[n++] = xs[i];
        lab_grad(g, lab_add(g, loss, head_of(g, xs, &h)), seed, n, of, got, NULL);
        lab_grad(g, lab_mul_scalar(g, twin, 2), seed, n, of, want, NULL);
        expect_healthy(g);
        for (int i = 0; i < n; i++)
            expect_twins(which == 2 ? "dweight" : "dhidden", got[i], want[i], 4 * tolerance);
    }
    /* The recorded derivative is the twin's, of the same options. */
    lab_grad(g, loss, seed, 2, xs, got, NULL);
    lab_grad(g, loss, seed, 2, xs, want, &(lab_grad_opts){.create_graph = true});
    expect_healthy(g);
    for (int i = 0; i < 2; i++)
        expect_twins(i ? "dweight, recorded" : "dhidden, recorded", want[i], got[i], 4 * tolerance);
    lab_graph_destroy(&g);
    lab_tensor *mine[] = {h.targets, seed, plain[0], plain[1], variant & 4 ? xs[0] : NULL, variant & 4 ? xs[1] : NULL};
    for (int i = 0; i < 6; i++)
        lab_tensor_destroy(&mine[i]);
}

static void a_head_in_chunks_agrees_with_whole_logits(void **state)
{
    (void)state;
    uint64_t draws = draw_start("head");
    for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++)
        for (int variant = 0; variant < 12; variant++) {
            check_head((lab_dtype)dtype, 7, 5, variant, &draws);
            check_head((lab_dtype)dtype, 1, 3, variant, &draws);
        }
    check_head(LAB_F64, 470, 3000, 1, &draws); /* several chunks */
    check_head(LAB_F32, 470, 9000, 0, &draws);
}

static void its_derivatives_of_both_orders_pass_a_check(void **state)
{
    (void)state;
    uint64_t draws = draw_start("head orders");
    head h = {.targets = targets_for(5, 4, true), .opts = {.ignore_index = -7, .smoothing = 0.1}};
    lab_tensor *xs[] = {leaf_drawn(&draws, LAB_F64, 2, (int64_t[]){5, 3}, 1),
                        leaf_drawn(&draws, LAB_F64, 2, (int64_t[]){4, 3}, 1)};
    expect_gradients("head", head_of, &h, 2, xs, NULL);
    expect_gradients("head, second order", head_of, &h, 2, xs,
                     &(lab_gradcheck_opts){.second_order = true, .max_entries = 10});
    lab_tensor *mine[] = {h.targets, xs[0], xs[1]};
    for (int i = 0; i < 3; i++)
        lab_tensor_destroy(&mine[i]);
}

/* Neither a NaN in a row that is ignored nor one in its gradient; nothing counts: 0, and gradients of 0. */
static void rows_that_are_ignored_leave_no_trace(void **state)
{
    (void)state;
    uint64_t draws = draw_start("head ignored");
    for (int all = 0; all < 2; all++) {
        int64_t targets[] = {-7, all ? -7 : 1, -7, all ? -7 : 0};
        head h = {.targets = leaf_of_integers(1, (int64_t[]){4}, targets),
                  .opts = {.ignore_index = -7, .reduction = LAB_REDUCE_NONE}};
        lab_tensor *xs[] = {leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){4, 3}, 1),
                            leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){5, 3}, 1)};
        lab_tensor *clean[] = {NULL, xs[1]}, *got[2], *want[2];
        assert_int_equal(lab_tensor_clone(&clean[0], xs[0]), LAB_OK);
        lab_tensor *seed = leaf_of_doubles(LAB_F32, 1, (int64_t[]){4}, (double[]){NAN, 1, INFINITY, 2});
        lab_tensor *clean_seed = leaf_of_doubles(LAB_F32, 1, (int64_t[]){4}, (double[]){0, 1, 0, 2});
        float *hidden = lab_tensor_data(xs[0]);
        hidden[0] = NAN;
        hidden[7] = INFINITY;
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *loss = head_of(g, xs, &h), *other = head_of(g, clean, &h);
        expect_same("loss", loss, other);
        lab_grad(g, loss, seed, 2, xs, got, NULL);
        lab_grad(g, other, clean_seed, 2, clean, want, NULL);
        expect_healthy(g);
        for (int i = 0; i < 2; i++) {
            expect_same("gradient", got[i], want[i]);
            if (all)
                expect_all("gradient", got[i], 0);
        }
        lab_graph_destroy(&g);
        lab_tensor *mine[] = {h.targets, xs[0], xs[1], clean[0], seed, clean_seed};
        for (int i = 0; i < 6; i++)
            lab_tensor_destroy(&mine[i]);
    }
}

/* Bits: for any number of threads, and on a batch-invariant graph for a row alone and among others. */
static void its_bits_depend_on_the_row_alone(void **state)
{
    (void)state;
    uint64_t draws = draw_start("head bits");
    enum { ROWS = 300, WIDTH = 40, CLASSES = 700 };
    head h = {.targets = targets_for(ROWS, CLASSES, true), .opts = {.ignore_index = -7, .reduction = LAB_REDUCE_NONE}};
    lab_tensor *xs[] = {leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){ROWS, WIDTH}, 1),
                        leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){CLASSES, WIDTH}, 1)};
    lab_tensor *first[3] = {NULL}, *grads[2];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lab_set_threads((int[]){1, 2, 7}[i]), LAB_OK);
        lab_graph *g = lab_graph_create(&(lab_graph_opts){.batch_invariant = true});
        lab_tensor *loss = head_of(g, xs, &h);
        lab_grad(g, loss, NULL, 2, xs, grads, NULL);
        expect_healthy(g);
        lab_tensor *now[] = {loss, grads[0], grads[1]};
        for (int j = 0; j < 3; j++)
            if (i == 0)
                assert_int_equal(lab_tensor_clone(&first[j], now[j]), LAB_OK);
            else
                assert_memory_equal(lab_tensor_data(now[j]), lab_tensor_data(first[j]),
                                    (size_t)lab_tensor_numel(now[j]) * sizeof(float));
        for (int64_t row = 0; row < ROWS; row += 50) {
            lab_tensor *one[] = {lab_slice(g, xs[0], 0, row, row + 1, 1), xs[1]};
            head alone = {.targets = lab_slice(g, h.targets, 0, row, row + 1, 1), .opts = h.opts};
            lab_tensor *own = head_of(g, one, &alone);
            expect_healthy(g);
            assert_memory_equal(lab_tensor_data(own), (float *)lab_tensor_data(loss) + row, sizeof(float));
        }
        lab_graph_destroy(&g);
    }
    assert_int_equal(lab_set_threads(0), LAB_OK);
    lab_tensor *mine[] = {h.targets, xs[0], xs[1], first[0], first[1], first[2]};
    for (int i = 0; i < 6; i++)
        lab_tensor_destroy(&mine[i]);
}

static void wrong_heads_are_named(void **state)
{
    (void)state;
    uint64_t draws = draw_start("head bad");
    lab_tensor *x = leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){3, 4}, 1),
               *w = leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){5, 4}, 1);
    lab_tensor *narrow = leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){5, 3}, 1),
               *wide = leaf_drawn(&draws, LAB_F64, 2, (int64_t[]){5, 4}, 1);
    lab_tensor *t = targets_for(3, 5, false), *two = targets_for(2, 5, false), *high = targets_for(3, 90, false);
    const struct {
        lab_tensor *x, *w, *t;
        const char *word;
        lab_status status;
        lab_cross_entropy_opts opts;
    } cases[] = {
        {x, narrow, t, "weight [5, 3]", LAB_ERR_SHAPE, {0}},
        {x, wide, t, "f64", LAB_ERR_DTYPE, {0}},
        {x, w, two, "targets [2]", LAB_ERR_SHAPE, {0}},
        {x, w, high, "target 31 of row 1", LAB_ERR_RANGE, {0}},
        {x, w, x, "f32", LAB_ERR_DTYPE, {0}},
        {NULL, w, t, "hidden", LAB_ERR_ARGUMENT, {0}},
        {x, NULL, t, "weight", LAB_ERR_ARGUMENT, {0}},
        {x, w, NULL, "targets", LAB_ERR_ARGUMENT, {0}},
        {x, w, t, "smoothing", LAB_ERR_RANGE, {.smoothing = -1}},
    };
    lab_graph *g = lab_graph_create(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_graph_reset(g);
        assert_null(lab_linear_cross_entropy(g, cases[i].x, cases[i].w, cases[i].t, &cases[i].opts));
        expect_refusal(g, cases[i].status, cases[i].word);
    }
    lab_graph_destroy(&g);
    lab_tensor *mine[] = {x, w, narrow, wide, t, two, high};
    for (int i = 0; i < 7; i++)
        lab_tensor_destroy(&mine[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_in_chunks_agrees_with_whole_logits),
        cmocka_unit_test(its_derivatives_of_both_orders_pass_a_check),
        cmocka_unit_test(rows_that_are_ignored_leave_no_trace),
        cmocka_unit_test(its_bits_depend_on_the_row_alone),
        cmocka_unit_test(wrong_heads_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
