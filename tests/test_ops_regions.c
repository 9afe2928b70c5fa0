/* test_ops_regions.c - gradients that arrive piece by piece: slices of one tensor add up in its gradient, each in its
 * region, and what no slice covers is exactly 0.
 */
#include <llmlab.h>

#include "op_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The library's memory comes filled with NaN, so that what nobody wrote shows. */
static void *allocate_nan(size_t bytes, size_t alignment, void *ctx)
{
    (void)ctx;
    void *memory = NULL;
    return posix_memalign(&memory, alignment, bytes) == 0 ? memset(memory, 0xFF, bytes) : NULL;
}

static void release_nan(void *memory, size_t bytes, void *ctx)
{
    (void)bytes;
    (void)ctx;
    free(memory);
}

enum { ROWS = 6, COLUMNS = 5 };

/* x[i, j] is a leaf of ROWS x COLUMNS; a test says what the derivative of its loss with respect to x[i, j] is. */
typedef struct fixture {
    lab_graph *g;
    lab_tensor *x;
    double values[ROWS][COLUMNS];
} fixture;

static void fixture_make(fixture *f)
{
    uint64_t random = test_seed();
    f->g = lab_graph_create(NULL);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            f->values[i][j] = random_between(&random, 0.5, 2);
    assert_int_equal(lab_tensor_from(&f->x, LAB_F64, 2, (int64_t[]){ROWS, COLUMNS}, f->values), LAB_OK);
    assert_int_equal(lab_tensor_require_grad(f->x, true), LAB_OK);
}

static void fixture_free(fixture *f)
{
    lab_tensor_destroy(&f->x);
    lab_graph_destroy(&f->g);
}

static void check_entries(const char *how, const lab_tensor *grad, double expected[ROWS][COLUMNS])
{
    double got[ROWS][COLUMNS];
    if (!grad || lab_tensor_read(grad, got, sizeof got) != LAB_OK)
        fail_msg("%s: no gradient: %s", how, lab_last_message());
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            if (!(fabs(got[i][j] - expected[i][j]) <= 1e-14 * fabs(expected[i][j])))
                fail_msg("%s: seed %llu: d x[%d, %d] is %.17g, expected %.17g", how, (unsigned long long)test_seed(), i,
                         j, got[i][j], expected[i][j]);
}

/* The gradient by lab_grad in both forms and by lab_backward, twice: the second time it is added. */
static void check_loss(fixture *f, lab_tensor *loss, double expected[ROWS][COLUMNS])
{
    double twice[ROWS][COLUMNS];
    lab_tensor *grad;
    if (lab_graph_status(f->g) != LAB_OK)
        fail_msg("%s", lab_graph_message(f->g));
    assert_int_equal(lab_grad(f->g, loss, NULL, 1, &f->x, &grad, NULL), LAB_OK);
    check_entries("lab_grad", grad, expected);
    assert_int_equal(lab_grad(f->g, loss, NULL, 1, &f->x, &grad, &(lab_grad_opts){.create_graph = true}), LAB_OK);
    check_entries("lab_grad with create_graph", grad, expected);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            twice[i][j] = 2 * expected[i][j];
    assert_int_equal(lab_backward(f->g, loss), LAB_OK);
    check_entries("lab_backward", lab_tensor_grad(f->x), expected);
    assert_int_equal(lab_backward(f->g, loss), LAB_OK);
    check_entries("lab_backward twice", lab_tensor_grad(f->x), twice);
}

static lab_tensor *squares(lab_graph *g, lab_tensor *x)
{
    return lab_sum_all(g, lab_mul(g, x, x));
}

/* Loss: sum x^2 over three parts, times 1, 2, 3. */
static void three_slices_that_cover_everything(void **state)
{
    (void)state;
    fixture f;
    fixture_make(&f);
    double expected[ROWS][COLUMNS];
    lab_tensor *loss = NULL;
    for (int part = 0; part < 3; part++) {
        lab_tensor *slice = lab_slice(f.g, f.x, 0, 2 * part, 2 * part + 2, 1);
        lab_tensor *term = lab_mul_scalar(f.g, squares(f.g, slice), part + 1);
        loss = loss ? lab_add(f.g, loss, term) : term;
    }
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            expected[i][j] = 2 * (i / 2 + 1) * f.values[i][j];
    check_loss(&f, loss, expected);
    fixture_free(&f);
}

static void overlapping_slices_add_up(void **state)
{
    (void)state;
    fixture f;
    fixture_make(&f);
    double expected[ROWS][COLUMNS];
    lab_tensor *rows = lab_slice(f.g, f.x, 0, 1, 5, 1), *columns = lab_slice(f.g, f.x, 1, 0, 5, 2);
    lab_tensor *loss = lab_add(f.g, squares(f.g, rows), lab_mul_scalar(f.g, squares(f.g, columns), 10));
    loss = lab_add(f.g, loss, lab_sum_all(f.g, lab_exp(f.g, f.x))); /* x itself is used too, in the middle */
    loss = lab_add(f.g, loss, lab_sum_all(f.g, lab_slice(f.g, rows, 0, 1, 3, 1)));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            expected[i][j] = (i >= 1 && i < 5 ? 2 * f.values[i][j] : 0) + (j % 2 == 0 ? 20 * f.values[i][j] : 0) +
                             exp(f.values[i][j]) + (i >= 2 && i < 4 ? 1 : 0);
    check_loss(&f, loss, expected);
    fixture_free(&f);
}

/* The same where nothing but slices uses x: along one axis, and along two that cross. */
static void slices_alone_that_overlap_add_up(void **state)
{
    (void)state;
    for (int crossed = 0; crossed < 2; crossed++) {
        fixture f;
        fixture_make(&f);
        double expected[ROWS][COLUMNS];
        lab_tensor *a = lab_slice(f.g, f.x, 0, 0, crossed ? 2 : 4, 1);
        lab_tensor *b = lab_slice(f.g, f.x, crossed, 2, crossed ? COLUMNS : ROWS, 1);
        lab_tensor *loss = lab_add(f.g, squares(f.g, a), lab_mul_scalar(f.g, squares(f.g, b), 10));
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++)
                expected[i][j] = f.values[i][j] * ((i < (crossed ? 2 : 4) ? 2 : 0) + ((crossed ? j : i) >= 2 ? 20 : 0));
        check_loss(&f, loss, expected);
        fixture_free(&f);
    }
}

/* Two halves, and between their uses one of x itself, or of what x is reshaped to before it is cut. */
static void a_use_of_the_whole_between_its_slices_counts(void **state)
{
    (void)state;
    for (int reshaped = 0; reshaped < 2; reshaped++) {
        fixture f;
        fixture_make(&f);
        double expected[ROWS][COLUMNS];
        lab_tensor *base = reshaped ? lab_reshape(f.g, f.x, 3, (int64_t[]){ROWS, 1, COLUMNS}) : f.x;
        lab_tensor *first = squares(f.g, lab_slice(f.g, base, 0, 0, 3, 1));
        lab_tensor *whole = lab_sum_all(f.g, lab_exp(f.g, f.x));
        lab_tensor *second = squares(f.g, lab_slice(f.g, base, 0, 3, 6, 1));
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++)
                expected[i][j] = 2 * f.values[i][j] + exp(f.values[i][j]);
        check_loss(&f, lab_add(f.g, lab_add(f.g, first, whole), second), expected);
        fixture_free(&f);
    }
}

/* x^0 has no derivative to hand on: the slice that it was taken of gets zeros all the same, first or last in the walk.
 */
static void a_slice_that_no_gradient_reaches_is_zero(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        fixture f;
        fixture_make(&f);
        double expected[ROWS][COLUMNS] = {{0}};
        lab_tensor *terms[2];
        for (int i = 0; i < 2; i++) {
            bool constant = i == last;
            lab_tensor *slice = lab_slice(f.g, f.x, 0, constant ? 3 : 0, constant ? 6 : 3, 1);
            terms[i] = constant ? lab_sum_all(f.g, lab_pow_scalar(f.g, slice, 0)) : squares(f.g, slice);
        }
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < COLUMNS; j++)
                expected[i][j] = 2 * f.values[i][j];
        check_loss(&f, lab_add(f.g, terms[0], terms[1]), expected);
        fixture_free(&f);
    }
}

static void what_no_slice_covers_is_exactly_zero(void **state)
{
    (void)state;
    fixture f;
    fixture_make(&f);
    double expected[ROWS][COLUMNS] = {{0}};
    lab_tensor *few = lab_slice(f.g, lab_slice(f.g, f.x, 0, 1, 6, 3), 1, 1, 4, 2); /* rows 1, 4; columns 1, 3 */
    for (int i = 1; i < ROWS; i += 3)
        for (int j = 1; j < 4; j += 2)
            expected[i][j] = 2 * f.values[i][j];
    check_loss(&f, squares(f.g, few), expected);
    fixture_free(&f);
}

/* Rows 1 and 3 of the 10 x 3 matrix that x^T is in row-major order: the reshape in between has to copy. */
static void a_slice_of_a_reshape_of_a_transpose(void **state)
{
    (void)state;
    fixture f;
    fixture_make(&f);
    double expected[ROWS][COLUMNS] = {{0}};
    lab_tensor *reshaped = lab_reshape(f.g, lab_transpose(f.g, f.x, 0, 1), 2, (int64_t[]){10, 3});
    lab_tensor *loss = squares(f.g, lab_slice(f.g, reshaped, 0, 1, 5, 2));
    for (int place = 0; place < ROWS * COLUMNS; place++)
        if (place / 3 == 1 || place / 3 == 3)
            expected[place % ROWS][place / ROWS] = 2 * f.values[place % ROWS][place / ROWS];
    check_loss(&f, loss, expected);
    fixture_free(&f);
}

/* The same where strides allow a view all the way: split, transpose, slice. */
static void a_slice_of_a_transpose_of_a_reshape(void **state)
{
    (void)state;
    fixture f;
    fixture_make(&f);
    double expected[ROWS][COLUMNS] = {{0}};
    lab_tensor *split = lab_reshape(f.g, f.x, 3, (int64_t[]){2, 3, COLUMNS}); /* row i is [i / 3, i % 3] */
    lab_tensor *moved = lab_permute(f.g, split, (int[]){2, 1, 0});
    lab_tensor *loss = squares(f.g, lab_slice(f.g, lab_slice(f.g, moved, 1, 1, 3, 1), 0, 0, 5, 4));
    loss = lab_add(f.g, loss, lab_sum_all(f.g, lab_contiguous(f.g, lab_slice(f.g, moved, 2, 1, 2, 1))));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            expected[i][j] = (i % 3 >= 1 && j % 4 == 0 ? 2 * f.values[i][j] : 0) + (i / 3 == 1 ? 1 : 0);
    check_loss(&f, loss, expected);
    fixture_free(&f);
}

/* Slices hold the operands of ops that write into a destination each in their own way. */
static void regions_take_what_products_and_gathers_write(void **state)
{
    (void)state;
    fixture f;
    fixture_make(&f);
    double expected[ROWS][COLUMNS] = {{0}}, *v = f.values[0];
    lab_tensor *a = lab_slice(f.g, f.x, 0, 0, 2, 1);                           /* rows 0 and 1 */
    lab_tensor *b = lab_transpose(f.g, lab_slice(f.g, f.x, 0, 2, 6, 2), 0, 1); /* rows 2 and 4, as columns */
    lab_tensor *twice = lab_constant(f.g, LAB_I64, 1, (int64_t[]){3}, (int64_t[]){1, 1, 0});
    lab_tensor *rows = lab_gather_rows(f.g, lab_slice(f.g, f.x, 0, 1, 4, 1), twice); /* rows 2, 2 and 1 of x */
    lab_tensor *product = lab_sum_all(f.g, lab_matmul(f.g, a, b));
    lab_tensor *loss = lab_add(f.g, product, lab_sum_all(f.g, rows));
    loss =
        lab_add(f.g, loss,
                lab_sum_all(f.g, lab_broadcast_to(f.g, lab_slice(f.g, f.x, 0, 5, 6, 1), 2, (int64_t[]){7, COLUMNS})));
    for (int j = 0; j < COLUMNS; j++) {
        expected[0][j] = v[2 * COLUMNS + j] + v[4 * COLUMNS + j];
        expected[1][j] = expected[0][j] + 1;
        expected[2][j] = v[j] + v[COLUMNS + j] + 2;
        expected[4][j] = v[j] + v[COLUMNS + j];
        expected[5][j] = 7;
    }
    check_loss(&f, loss, expected);
    fixture_free(&f);
}

/* The gradient with respect to a view counts the uses of that view, and none of its base or of other views. */
static void the_gradient_of_a_view_counts_its_own_uses(void **state)
{
    (void)state;
    fixture f;
    fixture_make(&f);
    double got[2][COLUMNS];
    lab_tensor *view = lab_slice(f.g, f.x, 0, 3, 5, 1), *same = lab_slice(f.g, f.x, 0, 3, 5, 1), *grads[2];
    lab_tensor *loss = lab_add(f.g, squares(f.g, view), lab_add(f.g, squares(f.g, f.x), squares(f.g, same)));
    loss = lab_add(f.g, loss, lab_sum_all(f.g, view));
    for (int create_graph = 0; create_graph < 2; create_graph++) {
        lab_grad_opts opts = {.create_graph = create_graph};
        assert_int_equal(lab_grad(f.g, loss, NULL, 2, (lab_tensor *[]){view, f.x}, grads, &opts), LAB_OK);
        assert_int_equal(lab_tensor_read(grads[0], got, sizeof got), LAB_OK);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < COLUMNS; j++)
                if (fabs(got[i][j] - (2 * f.values[3 + i][j] + 1)) > 1e-14)
                    fail_msg("d view[%d, %d] is %.17g, expected %.17g", i, j, got[i][j], 2 * f.values[3 + i][j] + 1);
        double expected[ROWS][COLUMNS];
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++)
                expected[i][j] = i == 3 || i == 4 ? 6 * f.values[i][j] + 1 : 2 * f.values[i][j];
        check_entries("x beside its view", grads[1], expected);
    }
    fixture_free(&f);
}

/* A view whose gradient is asked for has memory of its own; its base is zero where the view is not. */
static void what_a_view_that_is_asked_for_does_not_cover_is_zero(void **state)
{
    (void)state;
    const int64_t ranges[][4] = {{0, 2, 4, 1}, {0, 0, 3, 1}, {0, 4, 6, 1}, {0, 1, 6, 2}, {1, 1, 3, 1}, {1, 0, 5, 3}};
    for (size_t c = 0; c < sizeof ranges / sizeof *ranges; c++) {
        fixture f;
        fixture_make(&f);
        const int64_t *r = ranges[c];
        double expected[ROWS][COLUMNS] = {{0}};
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++) {
                int64_t place = r[0] == 0 ? i : j;
                if (place >= r[1] && place < r[2] && (place - r[1]) % r[3] == 0)
                    expected[i][j] = 2 * f.values[i][j];
            }
        lab_tensor *view = lab_slice(f.g, f.x, (int)r[0], r[1], r[2], r[3]), *grads[2];
        assert_int_equal(lab_grad(f.g, squares(f.g, view), NULL, 2, (lab_tensor *[]){view, f.x}, grads, NULL), LAB_OK);
        check_entries("the base of a view that is asked for", grads[1], expected);
        fixture_free(&f);
    }
}

/* Nothing depends on x: zeros, not absent, and of x's shape. */
static void what_nothing_depends_on_has_gradient_zero(void **state)
{
    (void)state;
    fixture f;
    fixture_make(&f);
    double expected[ROWS][COLUMNS] = {{0}};
    lab_tensor *grad, *unused = lab_mul(f.g, f.x, f.x);
    lab_tensor *loss = lab_sum_all(f.g, lab_detach(f.g, unused));
    assert_int_equal(lab_grad(f.g, loss, NULL, 1, &f.x, &grad, NULL), LAB_OK);
    check_entries("behind lab_detach", grad, expected);
    loss = lab_sum_all(f.g, lab_cast(f.g, lab_less(f.g, f.x, unused), LAB_F64));
    assert_int_equal(lab_grad(f.g, loss, NULL, 1, &f.x, &grad, NULL), LAB_OK);
    check_entries("behind a comparison", grad, expected);
    loss = lab_sum_all(f.g, lab_cast(f.g, lab_argmax(f.g, f.x, 0, false), LAB_F64));
    assert_int_equal(lab_grad(f.g, loss, NULL, 1, &f.x, &grad, NULL), LAB_OK);
    check_entries("behind argmax", grad, expected);
    loss = lab_sum_all(f.g, lab_cast(f.g, lab_cast(f.g, f.x, LAB_I64), LAB_F64));
    assert_int_equal(lab_grad(f.g, loss, NULL, 1, &f.x, &grad, NULL), LAB_OK);
    check_entries("behind whole numbers", grad, expected);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_slices_that_cover_everything),
        cmocka_unit_test(overlapping_slices_add_up),
        cmocka_unit_test(slices_alone_that_overlap_add_up),
        cmocka_unit_test(a_use_of_the_whole_between_its_slices_counts),
        cmocka_unit_test(a_slice_that_no_gradient_reaches_is_zero),
        cmocka_unit_test(what_no_slice_covers_is_exactly_zero),
        cmocka_unit_test(a_slice_of_a_reshape_of_a_transpose),
        cmocka_unit_test(a_slice_of_a_transpose_of_a_reshape),
        cmocka_unit_test(regions_take_what_products_and_gathers_write),
        cmocka_unit_test(the_gradient_of_a_view_counts_its_own_uses),
        cmocka_unit_test(what_a_view_that_is_asked_for_does_not_cover_is_zero),
        cmocka_unit_test(what_nothing_depends_on_has_gradient_zero),
    };
    if (lab_set_allocator(&(lab_allocator){allocate_nan, release_nan, NULL}) != LAB_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
