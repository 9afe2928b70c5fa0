/* test_layers.c - each layer against a scalar loop in long double, and its gradient against differences. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn_check.h"
#include "reference_layers.h"

static const double *numbers(const lab_tensor *t)
{
    return t ? lab_tensor_data(t) : NULL;
}

/* ---- Norms ----------------------------------------------------------------------------------------------------------- */

static lab_tensor *layer_norm_of(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_layer_norm(g, xs[0], xs[1], xs[2], *(double *)ctx);
}

static lab_tensor *rms_norm_of(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_rms_norm(g, xs[0], xs[1], *(double *)ctx);
}

static void norms_are_what_they_are_defined_to_be(void **state)
{
    (void)state;
    uint64_t draws = draw_start("norm");
    double eps = 1e-3, want[2 * 3 * 5];
    for (int64_t width = 1; width <= 5; width += 2) {
        lab_tensor *x = leaf_drawn(&draws, LAB_F64, 3, (int64_t[]){2, 3, width}, 2);
        lab_tensor *gain = leaf_drawn(&draws, LAB_F64, 1, &width, 2);
        lab_tensor *shift = leaf_drawn(&draws, LAB_F64, 1, &width, 2), *xs[] = {x, gain, shift};
        lab_graph *g = lab_graph_create(NULL);
        reference_layer_norm(6, width, numbers(x), numbers(gain), numbers(shift), eps, want);
        expect_close("layer_norm", lab_layer_norm(g, x, gain, shift, eps), want, 6 * width, 1e-14);
        reference_layer_norm(6, width, numbers(x), NULL, NULL, eps, want);
        expect_close("layer_norm, plain", lab_layer_norm_composed(g, x, NULL, NULL, eps), want, 6 * width, 1e-14);
        reference_rms_norm(6, width, numbers(x), numbers(gain), eps, want);
        expect_close("rms_norm", lab_rms_norm(g, x, gain, eps), want, 6 * width, 1e-14);
        reference_rms_norm(6, width, numbers(x), NULL, eps, want);
        expect_close("rms_norm, plain", lab_rms_norm_composed(g, x, NULL, eps), want, 6 * width, 1e-14);
        expect_healthy(g);
        if (width > 1) {
            expect_gradients("layer_norm", layer_norm_of, &eps, 3, xs, &(lab_gradcheck_opts){.step = 2e-4});
            expect_gradients("layer_norm, second order", layer_norm_of, &eps, 3, xs,
                             &(lab_gradcheck_opts){.second_order = true, .max_entries = 10});
        }
        expect_gradients("rms_norm", rms_norm_of, &eps, 2, xs, NULL);
        lab_graph_destroy(&g);
        for (int i = 0; i < 3; i++)
            lab_tensor_destroy(&xs[i]);
    }
}

/* Centred twice: 1e-12 holds at a mean of 1e6. In f32 a mean of 2000 costs no digits of the spread. */
static void layer_norm_survives_a_large_mean(void **state)
{
    (void)state;
    uint64_t draws = draw_start("mean");
    enum { WIDTH = 64 };
    double x[WIDTH], want[WIDTH];
    for (int i = 0; i < 2; i++) {
        lab_dtype dtype = i ? LAB_F32 : LAB_F64;
        double mean = i ? 2000 : 1e6;
        lab_tensor *leaf = leaf_drawn(&draws, dtype, 1, (int64_t[]){WIDTH}, 1);
        for (int j = 0; j < WIDTH; j++) {
            if (i)
                ((float *)lab_tensor_data(leaf))[j] += (float)mean;
            else
                ((double *)lab_tensor_data(leaf))[j] += mean;
            x[j] = element_of(leaf, j);
        }
        reference_layer_norm(1, WIDTH, x, NULL, NULL, 1e-5, want);
        lab_graph *g = lab_graph_create(NULL);
        expect_close("large mean", lab_layer_norm(g, leaf, NULL, NULL, 1e-5), want, WIDTH, i ? 1e-6 : 1e-12);
        expect_healthy(g);
        lab_graph_destroy(&g);
        lab_tensor_destroy(&leaf);
    }
}

/* A row without spread gives the shift; its gradient is that of a division by sqrt(eps). */
static void rows_without_spread_give_the_shift(void **state)
{
    (void)state;
    double values[256], grads[256];
    int64_t width = 256;
    for (int i = 0; i < 256; i++) {
        values[i] = 1234;
        grads[i] = i % 5;
    }
    for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
        lab_tensor *x = leaf_of_doubles((lab_dtype)dtype, 1, &width, values);
        lab_tensor *seed = leaf_of_doubles((lab_dtype)dtype, 1, &width, grads), *dx;
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *y = lab_layer_norm(g, x, NULL, NULL, 1e-5);
        lab_grad(g, y, seed, 1, &x, &dx, NULL);
        expect_healthy(g);
        expect_all("out", y, 0);
        double mean = 0, want[256];
        for (int i = 0; i < 256; i++)
            mean += grads[i] / 256;
        for (int i = 0; i < 256; i++)
            want[i] = (grads[i] - mean) / sqrt(1e-5);
        expect_close("dx", dx, want, 256, dtype == LAB_F32 ? 1e-5 : 1e-13);
        lab_graph_destroy(&g);
        lab_tensor_destroy(&x);
        lab_tensor_destroy(&seed);
    }
}

static void wrong_norms_are_named(void **state)
{
    (void)state;
    uint64_t draws = draw_start("norm bad");
    lab_tensor *x = leaf_drawn(&draws, LAB_F64, 2, (int64_t[]){2, 3}, 1),
               *four = leaf_drawn(&draws, LAB_F64, 1, (int64_t[]){4}, 1);
    lab_tensor *single = leaf_drawn(&draws, LAB_F32, 1, (int64_t[]){3}, 1),
               *scalar = leaf_drawn(&draws, LAB_F64, 0, NULL, 1);
    lab_graph *g = lab_graph_create(NULL);
    assert_null(lab_layer_norm(g, x, four, NULL, 0));
    expect_refusal(g, LAB_ERR_SHAPE, "gain");
    lab_graph_reset(g);
    assert_null(lab_layer_norm(g, x, NULL, four, 0));
    expect_refusal(g, LAB_ERR_SHAPE, "shift");
    lab_graph_reset(g);
    assert_null(lab_rms_norm(g, x, single, 0));
    expect_refusal(g, LAB_ERR_DTYPE, "gain");
    lab_graph_reset(g);
    assert_null(lab_rms_norm(g, x, NULL, -1));
    expect_refusal(g, LAB_ERR_RANGE, "eps");
    lab_graph_reset(g);
    assert_null(lab_layer_norm(g, scalar, NULL, NULL, 0));
    expect_refusal(g, LAB_ERR_SHAPE, "axis");
    lab_graph_reset(g);
    assert_null(lab_layer_norm(g, NULL, NULL, NULL, 0));
    expect_refusal(g, LAB_ERR_ARGUMENT, "operand 1");
    lab_graph_destroy(&g);
    lab_tensor *mine[] = {x, four, single, scalar};
    for (int i = 0; i < 4; i++)
        lab_tensor_destroy(&mine[i]);
}

/* ---- Positions ------------------------------------------------------------------------------------------------------- */

static void sinusoidal_table_has_even_and_odd_widths(void **state)
{
    (void)state;
    enum { LENGTH = 40 };
    lab_graph *g = lab_graph_create(NULL);
    for (int64_t width = 0; width <= 9; width++) {
        double want[LENGTH * 9];
        for (int64_t p = 0; p < LENGTH; p++)
            for (int64_t i = 0; i < width; i++) {
                long double angle = p * powl(10000, -(long double)(i / 2 * 2) / width);
                want[p * width + i] = (double)(i % 2 ? cosl(angle) : sinl(angle));
            }
        expect_close("f64", lab_sinusoidal(g, LAB_F64, LENGTH, width), want, LENGTH * width, 1e-14);
        expect_close("f32", lab_sinusoidal(g, LAB_F32, LENGTH, width), want, LENGTH * width, 1e-7);
        expect_healthy(g);
    }
    double far = sin(99999.0);
    lab_tensor *table = lab_sinusoidal(g, LAB_F32, 100000, 1);
    expect_close("far", lab_slice(g, table, 0, 99999, 100000, 1), &far, 1, 1e-7);
    assert_null(lab_sinusoidal(g, LAB_I64, 1, 1));
    expect_refusal(g, LAB_ERR_DTYPE, "i64");
    lab_graph_reset(g);
    assert_null(lab_sinusoidal(g, LAB_F64, -1, 1));
    expect_refusal(g, LAB_ERR_RANGE, "-1");
    lab_graph_destroy(&g);
}

static lab_tensor *rope_of(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_rope(g, xs[0], ctx);
}

static void rope_turns_pairs_by_their_position(void **state)
{
    (void)state;
    uint64_t draws = draw_start("rope");
    enum { T = 5, D = 6 };
    for (int i = 0; i < 12; i++) {
        lab_rope_opts o = {.layout = i % 2 ? LAB_ROPE_HALVES : LAB_ROPE_INTERLEAVED,
                           .width = (int64_t[]){0, 4, 2}[i / 2 % 3],
                           .base = i < 4 ? 0 : 500,
                           .offset = i < 6 ? 7 * i : 0};
        int64_t positions[T];
        for (int64_t t = 0; t < T; t++)
            positions[t] = i < 6 ? t + o.offset : draw_size(&draws, -5, 3000);
        if (i >= 6)
            o.positions = leaf_of_integers(1, (int64_t[]){T}, positions);
        lab_tensor *x = leaf_drawn(&draws, LAB_F64, 3, (int64_t[]){2, T, D}, 1);
        double want[2 * T * D];
        memcpy(want, numbers(x), sizeof want);
        reference_rope(2, T, D, &o, positions, want);
        lab_graph *g = lab_graph_create(NULL);
        expect_close("rope", lab_rope(g, x, &o), want, 2 * T * D, 1e-12);
        expect_close("rope, composed", lab_rope_composed(g, x, &o), want, 2 * T * D, 1e-12);
        expect_healthy(g);
        expect_gradients("rope", rope_of, &o, 1, &x, &(lab_gradcheck_opts){.max_entries = 12});
        lab_graph_destroy(&g);
        lab_tensor_destroy(&x);
        lab_tensor_destroy(&o.positions);
    }
}

/* Positions may differ by batch: [B, 1, T] beside x [B, H, T, d]. */
static void rope_positions_broadcast(void **state)
{
    (void)state;
    uint64_t draws = draw_start("rope positions");
    int64_t values[] = {3, 9, 4, 0, 1, 2};
    lab_tensor *positions = leaf_of_integers(3, (int64_t[]){2, 1, 3}, values);
    lab_tensor *x = leaf_drawn(&draws, LAB_F64, 4, (int64_t[]){2, 2, 3, 4}, 1);
    double want[48];
    memcpy(want, numbers(x), sizeof want);
    for (int b = 0; b < 2; b++)
        reference_rope(2, 3, 4, &(lab_rope_opts){0}, values + 3 * b, want + 24 * b);
    lab_graph *g = lab_graph_create(NULL);
    expect_close("rope", lab_rope(g, x, &(lab_rope_opts){.positions = positions}), want, 48, 1e-13);
    expect_close("rope", lab_rope_composed(g, x, &(lab_rope_opts){.positions = positions}), want, 48, 1e-13);
    expect_healthy(g);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&positions);
}

static void wrong_rotations_are_named(void **state)
{
    (void)state;
    uint64_t draws = draw_start("rope bad");
    lab_tensor *x = leaf_drawn(&draws, LAB_F32, 3, (int64_t[]){2, 3, 4}, 1);
    lab_tensor *odd = leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){3, 5}, 1);
    lab_tensor *two = leaf_of_integers(1, (int64_t[]){2}, (int64_t[]){1, 2});
    const struct {
        lab_tensor *x;
        const char *word;
        lab_status status;
        lab_rope_opts opts;
    } cases[] = {
        {x, "rotary width is 6", LAB_ERR_RANGE, {.width = 6}},
        {x, "rotary width is 3", LAB_ERR_RANGE, {.width = 3}},
        {x, "rotary width is -2", LAB_ERR_RANGE, {.width = -2}},
        {odd, "rotary width is 5", LAB_ERR_RANGE, {0}},
        {x, "base", LAB_ERR_RANGE, {.base = -1}},
        {x, "base", LAB_ERR_RANGE, {.base = NAN}},
        {x, "layout", LAB_ERR_ARGUMENT, {.layout = (lab_rope_layout)2}},
        {x, "positions", LAB_ERR_ARGUMENT, {.offset = 1, .positions = two}},
        {x, "positions", LAB_ERR_SHAPE, {.positions = two}},
        {x, "positions", LAB_ERR_DTYPE, {.positions = odd}},
        {x, "offset", LAB_ERR_RANGE, {.offset = INT64_MAX}},
        {x, "reserved", LAB_ERR_ARGUMENT, {.reserved = {1}}},
        {two, "x is i64", LAB_ERR_DTYPE, {0}},
        {NULL, "operand 1", LAB_ERR_ARGUMENT, {0}},
    };
    lab_graph *g = lab_graph_create(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_graph_reset(g);
        assert_null(lab_rope(g, cases[i].x, &cases[i].opts));
        expect_refusal(g, cases[i].status, cases[i].word);
    }
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&odd);
    lab_tensor_destroy(&two);
}

/* ---- Cross-entropy ---------------------------------------------------------------------------------------------------- */

typedef struct loss_case {
    lab_tensor *targets;
    lab_cross_entropy_opts opts;
} loss_case;

static lab_tensor *loss_of(lab_graph *g, lab_tensor **xs, void *ctx)
{
    loss_case *c = ctx;
    return lab_cross_entropy(g, xs[0], c->targets, &c->opts);
}

enum { ROWS = 6, CLASSES = 5 };

static void cross_entropy_is_what_it_is_defined_to_be(void **state)
{
    (void)state;
    uint64_t draws = draw_start("loss");
    int64_t targets[ROWS] = {0, 4, 2, -100, 2, 0};
    for (int j = 0; j < 36; j++) {
        int i = j / 2;
        lab_cross_entropy_opts o = {.smoothing = i / 3 % 2 ? 0.2 : 0,
                                    .reduction = (lab_reduction)(i % 3),
                                    .path = j % 2 ? LAB_PATH_FUSED : LAB_PATH_COMPOSED};
        targets[3] = i < 6 ? -100 : 1;
        if (i < 6)
            o.ignore_index = -100;
        else if (i < 12)
            o.ignore = true; /* class 0 */
        loss_case c = {.targets = leaf_of_integers(2, (int64_t[]){2, 3}, targets), .opts = o};
        lab_tensor *logits = leaf_drawn(&draws, LAB_F64, 3, (int64_t[]){2, 3, CLASSES}, 3);
        double rows[ROWS] = {0}, sum = 0, counted = 0;
        for (int r = 0; r < ROWS; r++) {
            if (i < 12 && targets[r] == o.ignore_index)
                continue;
            rows[r] = reference_cross_entropy(CLASSES, numbers(logits) + r * CLASSES, targets[r], o.smoothing);
            sum += rows[r];
            counted++;
        }
        double one = o.reduction == LAB_REDUCE_MEAN ? sum / counted : sum;
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *loss = loss_of(g, &logits, &c);
        expect_healthy(g);
        bool none = o.reduction == LAB_REDUCE_NONE;
        assert_int_equal(lab_tensor_rank(loss), none ? 2 : 0);
        expect_close("loss", loss, none ? rows : &one, none ? ROWS : 1, 1e-14);
        expect_gradients("loss", loss_of, &c, 1, &logits, NULL);
        expect_gradients("loss, second order", loss_of, &c, 1, &logits,
                         &(lab_gradcheck_opts){.second_order = true, .max_entries = 6});
        lab_graph_destroy(&g);
        lab_tensor_destroy(&logits);
        lab_tensor_destroy(&c.targets);
    }
}

/* Rows that are ignored leave no trace, NaN included; all of them ignored: the mean is 0, and so is the gradient. */
static void ignored_rows_leave_no_trace(void **state)
{
    (void)state;
    double logits[] = {NAN, -INFINITY, 1, 2, INFINITY, NAN}, clean[] = {0, 0, 1, 2, 0, 0};
    for (int i = 0; i < 4; i++) {
        const bool all = i % 2;
        const lab_cross_entropy_opts o = {.ignore_index = -1, .path = i / 2 ? LAB_PATH_FUSED : LAB_PATH_COMPOSED};
        int64_t targets[] = {-1, all ? -1 : 1, -1};
        lab_tensor *x = leaf_of_doubles(LAB_F64, 2, (int64_t[]){3, 2}, logits), *dx[2], *loss[2];
        lab_tensor *y = leaf_of_doubles(LAB_F64, 2, (int64_t[]){3, 2}, clean);
        lab_tensor *t = leaf_of_integers(1, (int64_t[]){3}, targets);
        lab_graph *g = lab_graph_create(NULL);
        loss[0] = lab_cross_entropy(g, x, t, &o);
        loss[1] = lab_cross_entropy(g, y, t, &o);
        lab_grad(g, loss[0], NULL, 1, &x, &dx[0], NULL);
        lab_grad(g, loss[1], NULL, 1, &y, &dx[1], NULL);
        expect_healthy(g);
        expect_same("loss", loss[0], loss[1]);
        expect_same("gradient", dx[0], dx[1]);
        if (all) {
            expect_all("loss", loss[0], 0);
            expect_all("gradient", dx[0], 0);
        }
        lab_graph_destroy(&g);
        lab_tensor_destroy(&x);
        lab_tensor_destroy(&y);
        lab_tensor_destroy(&t);
    }
}

/* -inf at a class that is not the target: loss and gradient as without it; at the target: +inf, not NaN. */
static void infinite_logits_have_their_limits(void **state)
{
    (void)state;
    lab_tensor *x = leaf_of_doubles(LAB_F32, 2, (int64_t[]){3, 2}, (double[]){1, -INFINITY, -INFINITY, 3, 0, -20000});
    lab_tensor *t = leaf_of_integers(1, (int64_t[]){3}, (int64_t[]){0, 0, 1}), *dx;
    lab_graph *g = lab_graph_create(NULL);
    for (int path = LAB_PATH_COMPOSED; path <= LAB_PATH_FUSED; path++) {
        const lab_cross_entropy_opts o = {.reduction = LAB_REDUCE_NONE, .path = (lab_path)path};
        lab_tensor *loss = lab_cross_entropy(g, x, t, &o);
        lab_grad(g, lab_slice(g, loss, 0, 0, 1, 1), NULL, 1, &x, &dx, NULL);
        expect_healthy(g);
        expect_close("loss", loss, (double[]){0, INFINITY, 20000}, 3, 1e-7);
        expect_all("gradient", dx, 0);
    }
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&t);
}

static void wrong_targets_are_named(void **state)
{
    (void)state;
    uint64_t draws = draw_start("loss bad");
    lab_tensor *x = leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){3, 4}, 1), *t[4];
    t[0] = leaf_of_integers(1, (int64_t[]){3}, (int64_t[]){0, 4, 1});
    t[1] = leaf_of_integers(1, (int64_t[]){3}, (int64_t[]){0, 1, -7});
    t[2] = leaf_of_integers(1, (int64_t[]){2}, (int64_t[]){0, 1});
    t[3] = leaf_of_integers(1, (int64_t[]){3}, (int64_t[]){0, 1, 2});
    const struct {
        int target;
        const char *word;
        lab_status status;
        lab_cross_entropy_opts opts;
    } cases[] = {
        {0, "target 4 of row 1", LAB_ERR_RANGE, {0}},
        {1, "target -7 of row 2", LAB_ERR_RANGE, {.ignore_index = -100}},
        {2, "targets [2]", LAB_ERR_SHAPE, {0}},
        {3, "smoothing", LAB_ERR_RANGE, {.smoothing = 1.5}},
        {3, "reduction", LAB_ERR_ARGUMENT, {.reduction = (lab_reduction)3}},
        {3, "path", LAB_ERR_ARGUMENT, {.path = (lab_path)3}},
        {3, "reserved", LAB_ERR_ARGUMENT, {.reserved = {1}}},
    };
    lab_graph *g = lab_graph_create(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_graph_reset(g);
        assert_null(lab_cross_entropy(g, x, t[cases[i].target], &cases[i].opts));
        expect_refusal(g, cases[i].status, cases[i].word);
    }
    lab_graph_reset(g);
    assert_null(lab_cross_entropy(g, x, x, NULL));
    expect_refusal(g, LAB_ERR_DTYPE, "i64");
    lab_graph_reset(g);
    assert_null(lab_cross_entropy(g, x, NULL, NULL));
    expect_refusal(g, LAB_ERR_ARGUMENT, "targets");
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    for (int i = 0; i < 4; i++)
        lab_tensor_destroy(&t[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_what_they_are_defined_to_be),
        cmocka_unit_test(layer_norm_survives_a_large_mean),
        cmocka_unit_test(rows_without_spread_give_the_shift),
        cmocka_unit_test(wrong_norms_are_named),
        cmocka_unit_test(sinusoidal_table_has_even_and_odd_widths),
        cmocka_unit_test(rope_turns_pairs_by_their_position),
        cmocka_unit_test(rope_positions_broadcast),
        cmocka_unit_test(wrong_rotations_are_named),
        cmocka_unit_test(cross_entropy_is_what_it_is_defined_to_be),
        cmocka_unit_test(ignored_rows_leave_no_trace),
        cmocka_unit_test(infinite_logits_have_their_limits),
        cmocka_unit_test(wrong_targets_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
