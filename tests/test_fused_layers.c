/* test_fused_layers.c - fused layers beside the composed twins that define them: values, gradients of both orders, bits
 * for any number of threads, a row alone and among others, operands and gradients that lie askew in memory.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/engine.h"
#include "nn_check.h"

enum { MOST_OPERANDS = 3 };

/* One layer in both forms. Operands from the second on are [width]; `rows` is the first's shape without its last axis.
 */
typedef struct twin {
    const char *name;
    lab_fn fused, composed;
    int operands;
    double tolerance[2]; /* f32, f64 */
    bool detached;       /* its result depends on its operand in a way that its gradient leaves out */
    bool by_place;       /* a row's result depends on its number */
} twin;

static const double eps = 1e-5;

static lab_tensor *layer_norm(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_layer_norm(g, xs[0], xs[1], xs[2], eps);
}

static lab_tensor *layer_norm_composed(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_layer_norm_composed(g, xs[0], xs[1], xs[2], eps);
}

static lab_tensor *layer_norm_without_shift(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_layer_norm(g, xs[0], xs[1], NULL, eps);
}

static lab_tensor *layer_norm_without_shift_composed(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_layer_norm_composed(g, xs[0], xs[1], NULL, eps);
}

static lab_tensor *rms_norm(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_rms_norm(g, xs[0], xs[1], eps);
}

static lab_tensor *rms_norm_composed(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_rms_norm_composed(g, xs[0], xs[1], eps);
}

static lab_tensor *rms_norm_plain(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_rms_norm(g, xs[0], NULL, eps);
}

static lab_tensor *rms_norm_plain_composed(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_rms_norm_composed(g, xs[0], NULL, eps);
}

static lab_tensor *bias_gelu(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_bias_gelu(g, xs[0], xs[1], LAB_GELU_ERF);
}

static lab_tensor *bias_gelu_composed(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_bias_gelu_composed(g, xs[0], xs[1], LAB_GELU_ERF);
}

static lab_tensor *bias_gelu_tanh(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_bias_gelu(g, xs[0], xs[1], LAB_GELU_TANH);
}

static lab_tensor *bias_gelu_tanh_composed(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_bias_gelu_composed(g, xs[0], xs[1], LAB_GELU_TANH);
}

/* Classes along the last axis, each row's target a function of its first number; some are ignored, all are smoothed. */
static lab_tensor *loss_of(lab_graph *g, lab_tensor *logits, lab_path path)
{
    int64_t shape[LAB_MAX_RANK], classes = lab_tensor_size(logits, -1);
    int rank = lab_tensor_rank(logits) - 1;
    for (int i = 0; i < rank; i++)
        shape[i] = lab_tensor_size(logits, i);
    int64_t rows = count_of(rank, shape), *values = malloc((size_t)(rows + 1) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < rows; i++) {
        int64_t draw = classes == 0 ? 3 : (int64_t)fabs(1e6 * element_of(logits, i * classes));
        values[i] = draw % 5 == 3 ? -1 : draw % classes;
    }
    lab_tensor *targets = lab_constant(g, LAB_I64, rank, shape, values);
    free(values);
    lab_tensor *by_row = lab_cross_entropy(
        g, logits, targets,
        &(lab_cross_entropy_opts){.ignore_index = -1, .smoothing = 0.1, .reduction = LAB_REDUCE_NONE, .path = path});
    /* As wide as the other layers' results, with other gradients along each row. */
    shape[rank] = 1;
    lab_tensor *column = lab_reshape(g, by_row, rank + 1, shape);
    return lab_mul(g, lab_detach(g, logits), column);
}

static lab_tensor *cross_entropy(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return loss_of(g, xs[0], LAB_PATH_FUSED);
}

static lab_tensor *cross_entropy_composed(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return loss_of(g, xs[0], LAB_PATH_COMPOSED);
}

static const lab_rope_opts halves = {.layout = LAB_ROPE_HALVES, .width = 4, .base = 50, .offset = 700};
static const lab_rope_opts side_by_side = {.width = 4, .offset = -3};

static lab_tensor *rope_halves(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_rope(g, xs[0], &halves);
}

static lab_tensor *rope_halves_composed(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_rope_composed(g, xs[0], &halves);
}

static lab_tensor *rope(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_rope(g, xs[0], &side_by_side);
}

static lab_tensor *rope_composed(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_rope_composed(g, xs[0], &side_by_side);
}

static const twin twins[] = {
    {"layer_norm", layer_norm, layer_norm_composed, 3, {4e-6, 1e-14}},
    {"layer_norm without shift", layer_norm_without_shift, layer_norm_without_shift_composed, 2, {4e-6, 1e-14}},
    {"rms_norm", rms_norm, rms_norm_composed, 2, {4e-6, 1e-14}},
    {"bias_gelu", bias_gelu, bias_gelu_composed, 2, {1e-6, 1e-14}},
    {"bias_gelu, tanh", bias_gelu_tanh, bias_gelu_tanh_composed, 2, {1e-6, 1e-14}},
    {"cross_entropy", cross_entropy, cross_entropy_composed, 1, {2e-6, 1e-14}, true},
    {"rope", rope, rope_composed, 1, {1e-6, 1e-12}, .by_place = true},
    {"rope, halves", rope_halves, rope_halves_composed, 1, {1e-6, 1e-12}, .by_place = true},
    {"rms_norm, plain", rms_norm_plain, rms_norm_plain_composed, 1, {4e-6, 1e-14}},
};
enum { TWINS = sizeof twins / sizeof *twins };

static void draw_operands(const twin *t, lab_dtype dtype, int rank, const int64_t *shape, uint64_t *draws,
                          lab_tensor **xs)
{
    for (int i = 0; i < t->operands; i++)
        xs[i] = i == 0 ? leaf_drawn(draws, dtype, rank, shape, 2) : leaf_drawn(draws, dtype, 1, &shape[rank - 1], 1);
}

static void drop(int n, lab_tensor **xs)
{
    for (int i = 0; i < n; i++)
        lab_tensor_destroy(&xs[i]);
}

static double *doubles_of(const lab_tensor *t)
{
    double *values = malloc((size_t)(lab_tensor_numel(t) + 1) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < lab_tensor_numel(t); i++)
        values[i] = element_of(t, i);
    return values;
}

static void expect_twins(const char *what, const lab_tensor *got, const lab_tensor *want, double tolerance)
{
    assert_non_null(got);
    assert_non_null(want);
    double *values = doubles_of(want);
    expect_close(what, got, values, lab_tensor_numel(want), tolerance);
    free(values);
}

/* ---- Value and gradient ---------------------------------------------------------------------------------------------- */

static void expect_agreement(const twin *t, lab_dtype dtype, lab_tensor **xs, lab_tensor *seed, uint64_t *draws)
{
    (void)draws;
    lab_tensor *got[MOST_OPERANDS], *want[MOST_OPERANDS];
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = t->fused(g, xs, NULL), *z = t->composed(g, xs, NULL);
    double tolerance = t->tolerance[dtype == LAB_F64];
    expect_healthy(g);
    expect_twins(t->name, y, z, tolerance);
    lab_grad(g, y, seed, t->operands, xs, got, NULL);
    lab_grad(g, z, seed, t->operands, xs, want, NULL);
    expect_healthy(g);
    for (int i = 0; i < t->operands; i++)
        expect_twins(t->name, got[i], want[i], 4 * tolerance);
    /* A single operand at a time, into what is there already: the operand is used twice. */
    for (int i = 0; i < t->operands; i++) {
        lab_grad(g, lab_add(g, y, t->fused(g, xs, NULL)), seed, 1, &xs[i], got, NULL);
        lab_grad(g, lab_mul_scalar(g, z, 2), seed, 1, &xs[i], want, NULL);
        expect_healthy(g);
        expect_twins(t->name, got[0], want[0], 4 * tolerance);
    }
    lab_graph_destroy(&g);
}

static void fused_layers_agree_with_their_twins(void **state)
{
    (void)state;
    uint64_t draws = draw_start("twins");
    const int64_t widths[] = {5, 8, 15, 16, 33, 128}, lines[] = {1, 3, 70};
    for (int k = 0; k < TWINS; k++)
        for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++)
            for (int i = 0; i < 18; i++) {
                int64_t shape[] = {2, lines[i % 3], widths[i / 3]};
                lab_tensor *xs[MOST_OPERANDS], *seed = leaf_drawn(&draws, (lab_dtype)dtype, 3, shape, 1);
                draw_operands(&twins[k], (lab_dtype)dtype, 3, shape, &draws, xs);
                expect_agreement(&twins[k], (lab_dtype)dtype, xs, seed, &draws);
                drop(twins[k].operands, xs);
                lab_tensor_destroy(&seed);
            }
}

static void empty_operands_give_empty_results_and_no_gradient(void **state)
{
    (void)state;
    uint64_t draws = draw_start("empty");
    const int64_t shapes[][3] = {{0, 3, 8}, {2, 0, 8}, {2, 3, 0}}; /* the last is too narrow to be turned */
    for (int k = 0; k < TWINS; k++)
        for (int i = 0; i < 3 - twins[k].by_place; i++) {
            lab_tensor *xs[MOST_OPERANDS], *grads[MOST_OPERANDS];
            draw_operands(&twins[k], LAB_F32, 3, shapes[i], &draws, xs);
            lab_graph *g = lab_graph_create(NULL);
            lab_tensor *y = twins[k].fused(g, xs, NULL);
            lab_grad(g, y, NULL, twins[k].operands, xs, grads, NULL);
            expect_healthy(g);
            assert_int_equal(lab_tensor_numel(y), 0);
            for (int j = 0; j < twins[k].operands; j++)
                expect_all(twins[k].name, grads[j], 0);
            lab_graph_destroy(&g);
            drop(twins[k].operands, xs);
        }
}

static void derivatives_of_both_orders_pass_a_check(void **state)
{
    (void)state;
    uint64_t draws = draw_start("orders");
    for (int k = 0; k < TWINS; k++) {
        lab_tensor *xs[MOST_OPERANDS];
        if (twins[k].detached)
            continue; /* test_layers.c checks it */
        draw_operands(&twins[k], LAB_F64, 3, (int64_t[]){2, 2, 9}, &draws, xs);
        expect_gradients(twins[k].name, twins[k].fused, NULL, twins[k].operands, xs, NULL);
        expect_gradients(twins[k].name, twins[k].fused, NULL, twins[k].operands, xs,
                         &(lab_gradcheck_opts){.second_order = true, .max_entries = 10});
        drop(twins[k].operands, xs);
    }
}

/* The recorded derivative is another call, of the twin: it must be of the same options. (A check of the second order
 * holds it to differences of itself.) */
static void a_recorded_derivative_is_that_of_the_same_call(void **state)
{
    (void)state;
    uint64_t draws = draw_start("recorded");
    const int64_t shape[] = {3, 5, 12};
    for (int k = 0; k < TWINS; k++) {
        lab_tensor *xs[MOST_OPERANDS], *seed = leaf_drawn(&draws, LAB_F64, 3, shape, 1);
        lab_tensor *got[MOST_OPERANDS], *want[MOST_OPERANDS];
        draw_operands(&twins[k], LAB_F64, 3, shape, &draws, xs);
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *y = twins[k].fused(g, xs, NULL);
        lab_grad(g, y, seed, twins[k].operands, xs, got, &(lab_grad_opts){.create_graph = true});
        lab_grad(g, y, seed, twins[k].operands, xs, want, NULL);
        expect_healthy(g);
        for (int i = 0; i < twins[k].operands; i++)
            expect_twins(twins[k].name, got[i], want[i], 4 * twins[k].tolerance[1]);
        lab_graph_destroy(&g);
        drop(twins[k].operands, xs);
        drop(1, &seed);
    }
}

/* Whole rows, wider than what the kernel turns at once, at positions of their own for each batch. */
static void wide_rows_are_turned_as_their_twin_has_them(void **state)
{
    (void)state;
    uint64_t draws = draw_start("wide");
    const int64_t widths[] = {2, 30, 64, 1100}, positions[] = {0, 8, 63, 64, 4095, 511, 512, 700, -9, 1};
    lab_tensor *p = leaf_of_integers(3, (int64_t[]){2, 1, 5}, positions);
    lab_graph *g = lab_graph_create(NULL);
    for (int i = 0; i < 8; i++)
        for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
            const int64_t shape[] = {2, 3, 5, widths[i / 2]};
            const lab_rope_opts o = {.layout = (lab_rope_layout)(i % 2), .base = 500, .positions = p};
            const double tolerance = dtype == LAB_F32 ? 1e-6 : 1e-12;
            lab_tensor *x = leaf_drawn(&draws, (lab_dtype)dtype, 4, shape, 1),
                       *seed = leaf_drawn(&draws, (lab_dtype)dtype, 4, shape, 1), *got, *want;
            lab_graph_reset(g);
            lab_tensor *y = lab_rope(g, x, &o), *z = lab_rope_composed(g, x, &o);
            expect_twins("rope", y, z, tolerance);
            lab_grad(g, y, seed, 1, &x, &got, NULL);
            lab_grad(g, z, seed, 1, &x, &want, NULL);
            expect_twins("rope", got, want, tolerance);
            expect_healthy(g);
            drop(1, &x);
            drop(1, &seed);
        }
    lab_graph_destroy(&g);
    drop(1, &p);
}

/* ---- Memory that lies askew -------------------------------------------------------------------------------------------- */

static lab_status same_shape(lab_op_call *call)
{
    call->specs[0] = (lab_spec){.dtype = call->in[0]->dtype, .rank = call->in[0]->rank};
    memcpy(call->specs[0].shape, call->in[0]->shape, sizeof call->specs[0].shape);
    return LAB_OK;
}

static lab_status copy_forward(lab_op_call *call)
{
    lab__tensor_copy(call->out[0], call->in[0]);
    return LAB_OK;
}

static lab_status turned_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *turned = lab_contiguous(g, lab_transpose(g, call->grad_out[0], -1, -2));
    call->grad_in[0] = lab_transpose(g, turned, -1, -2);
    return lab_graph_status(g);
}

/* The identity; the gradient that it hands on lies the other way round in memory. */
static const lab_op turned_op = {
    .name = "turned", .inputs = 1, .outputs = 1, .shape = same_shape, .forward = copy_forward, .vjp = turned_vjp};

static void operands_and_gradients_may_lie_askew(void **state)
{
    (void)state;
    uint64_t draws = draw_start("askew");
    const int64_t shape[] = {3, 5, 12};
    for (int k = 0; k < TWINS; k++)
        for (int add = 0; add < 2; add++) {
            const twin *t = &twins[k];
            lab_tensor *xs[MOST_OPERANDS], *askew[MOST_OPERANDS], *got[MOST_OPERANDS], *want[MOST_OPERANDS], *y;
            lab_tensor *seed = leaf_drawn(&draws, LAB_F64, 3, shape, 1);
            draw_operands(t, LAB_F64, 3, shape, &draws, xs);
            memcpy(askew, xs, sizeof xs);
            askew[0] = leaf_strided(xs[0]);
            lab_graph *g = lab_graph_create(NULL);
            lab_tensor *z = t->fused(g, askew, NULL);
            lab_custom_op(g, &turned_op, NULL, 0, 1, &z, 1, &y);
            expect_same(t->name, y, t->fused(g, xs, NULL));
            lab_grad(g, y, seed, t->operands, askew, got, NULL);
            lab_grad(g, t->fused(g, xs, NULL), seed, t->operands, xs, want, NULL);
            expect_healthy(g);
            for (int i = 0; i < t->operands; i++)
                expect_same(t->name, got[i], want[i]);
            /* Into a place whose rows are not dense, as an outer graph may have. */
            lab_tensor *place = leaf_strided(xs[0]), *on_graph = lab__on_graph(g, xs[0], false);
            double *expected = doubles_of(want[0]);
            for (int64_t i = 0; i < lab_tensor_numel(xs[0]) && add; i++)
                expected[i] += element_of(xs[0], i);
            assert_int_equal(lab__backward_into(g, t->fused(g, xs, NULL), seed, 1, &on_graph,
                                                &(lab_place){.tensor = place, .add = add}),
                             LAB_OK);
            expect_close(t->name, place, expected, lab_tensor_numel(xs[0]), 1e-15);
            free(expected);
            lab_graph_destroy(&g);
            drop(t->operands, xs);
            drop(1, &askew[0]);
            drop(1, &place);
            drop(1, &seed);
        }
}

/* ---- Bits ------------------------------------------------------------------------------------------------------------ */

static void expect_bits(const char *what, const lab_tensor *got, const void *want)
{
    size_t bytes = (size_t)lab_tensor_numel(got) * lab_dtype_size(lab_tensor_dtype(got));
    if (memcmp(lab_tensor_data(got), want, bytes) != 0)
        fail_msg("%s: other bits (seed %llu)", what, (unsigned long long)check_seed());
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    uint64_t draws = draw_start("threads");
    const int64_t shape[] = {700, 96};
    const int threads[] = {1, 2, 7};
    for (int k = 0; k < TWINS; k++) {
        const twin *t = &twins[k];
        lab_tensor *xs[MOST_OPERANDS], *seed = leaf_drawn(&draws, LAB_F32, 2, shape, 1), *grads[MOST_OPERANDS];
        draw_operands(t, LAB_F32, 2, shape, &draws, xs);
        lab_tensor *first[1 + MOST_OPERANDS] = {0};
        for (int i = 0; i < 3; i++) {
            assert_int_equal(lab_set_threads(threads[i]), LAB_OK);
            lab_graph *g = lab_graph_create(NULL);
            lab_tensor *y = t->fused(g, xs, NULL);
            lab_grad(g, y, seed, t->operands, xs, grads, NULL);
            expect_healthy(g);
            for (int j = 0; j <= t->operands; j++) {
                lab_tensor *now = j == 0 ? y : grads[j - 1];
                if (i == 0)
                    assert_int_equal(lab_tensor_clone(&first[j], now), LAB_OK);
                else
                    expect_bits(t->name, now, lab_tensor_data(first[j]));
            }
            lab_graph_destroy(&g);
        }
        drop(1 + t->operands, first);
        drop(t->operands, xs);
        drop(1, &seed);
    }
    assert_int_equal(lab_set_threads(0), LAB_OK);
}

static void a_row_has_the_same_bits_alone_and_among_others(void **state)
{
    (void)state;
    uint64_t draws = draw_start("row");
    const int64_t shape[] = {37, 50};
    for (int k = 0; k < TWINS; k++) {
        const twin *t = &twins[k];
        if (t->by_place)
            continue;
        lab_tensor *xs[MOST_OPERANDS], *one[MOST_OPERANDS], *dx, *dx_one;
        lab_tensor *seed = leaf_drawn(&draws, LAB_F32, 2, shape, 1);
        draw_operands(t, LAB_F32, 2, shape, &draws, xs);
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *y = t->fused(g, xs, NULL);
        lab_grad(g, y, seed, 1, xs, &dx, NULL);
        memcpy(one, xs, sizeof xs);
        for (int64_t row = 0; row < shape[0]; row += 9) {
            one[0] = lab_slice(g, xs[0], 0, row, row + 1, 1);
            lab_tensor *y_one = t->fused(g, one, NULL);
            lab_grad(g, y_one, lab_slice(g, seed, 0, row, row + 1, 1), 1, one, &dx_one, NULL);
            expect_healthy(g);
            expect_bits(t->name, y_one, (const float *)lab_tensor_data(y) + row * shape[1]);
            expect_bits(t->name, dx_one, (const float *)lab_tensor_data(dx) + row * shape[1]);
        }
        lab_graph_destroy(&g);
        drop(t->operands, xs);
        drop(1, &seed);
    }
}

/* In f32 the fused form takes squares in double: it has no rows that overflow (the composed form gives 0 there). */
static void rms_norm_bears_squares_that_overflow(void **state)
{
    (void)state;
    lab_tensor *x = leaf_of_doubles(LAB_F32, 1, (int64_t[]){4}, (double[]){7e19, -7e19, 3e38, 1e30}), *dx;
    double squares = (7e19 * 7e19 * 2 + 9e76 + 1e60) / 4, want[4];
    for (int i = 0; i < 4; i++)
        want[i] = element_of(x, i) / sqrt(squares);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_rms_norm(g, x, NULL, 1e-5);
    lab_grad(g, y, NULL, 1, &x, &dx, NULL);
    expect_healthy(g);
    expect_close("rms_norm", y, want, 4, 1e-6);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

/* A token's rotation has the same bits wherever it comes from: a long run, an offset, a position given. */
static void a_position_is_turned_by_the_same_bits_however_it_is_given(void **state)
{
    (void)state;
    uint64_t draws = draw_start("position");
    enum { T = 600, D = 24 };
    lab_tensor *x = leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){T, D}, 1);
    lab_graph *g = lab_graph_create(NULL);
    for (int layout = 0; layout < 2; layout++) {
        lab_rope_opts o = {.layout = (lab_rope_layout)layout};
        lab_tensor *all = lab_rope(g, x, &o);
        for (int64_t row = 1; row < T; row += 37) {
            lab_tensor *one = lab_slice(g, x, 0, row, row + 1, 1);
            const float *want = (const float *)lab_tensor_data(all) + row * D;
            o.offset = row;
            expect_bits("offset", lab_rope(g, one, &o), want);
            o.offset = 0;
            o.positions = lab_constant(g, LAB_I64, 1, (int64_t[]){1}, &row);
            expect_bits("positions", lab_rope(g, one, &o), want);
            o.positions = NULL;
        }
        expect_healthy(g);
    }
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_layers_agree_with_their_twins),
        cmocka_unit_test(empty_operands_give_empty_results_and_no_gradient),
        cmocka_unit_test(derivatives_of_both_orders_pass_a_check),
        cmocka_unit_test(a_recorded_derivative_is_that_of_the_same_call),
        cmocka_unit_test(wide_rows_are_turned_as_their_twin_has_them),
        cmocka_unit_test(operands_and_gradients_may_lie_askew),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(a_row_has_the_same_bits_alone_and_among_others),
        cmocka_unit_test(rms_norm_bears_squares_that_overflow),
        cmocka_unit_test(a_position_is_turned_by_the_same_bits_however_it_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
