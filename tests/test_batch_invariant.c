/* test_batch_invariant.c - graphs on which a row's bits do not depend on the rows beside it: every product is the tile
 * product's, whatever its layout, and a row of a layer alone equals that row in a batch, forward and backward.
 */
#include <llmlab.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gemm_case.h"
#include "kernels/kernels.h"
#include "kernels/parallel.h"

static size_t size_of(kernel_type type)
{
    return type == KERNEL_F32 ? sizeof(float) : sizeof(double);
}

/* ---- Products ------------------------------------------------------------------------------------------------------ */

static const char *at(const void *x, int64_t i, size_t size)
{
    return (const char *)x + i * (int64_t)size;
}

/* Element (i, j) of batch `index`, as one accumulator gives it: all its terms, ascending. */
static void one_element(const gemm_case *x, const int64_t *index, int64_t i, int64_t j, void *sum)
{
    const gemm_product *p = &x->p;
    size_t size = size_of(p->type);
    int64_t c = i * p->c_row + j * p->c_col, terms = 1;
    for (int axis = 0; axis < p->batch_rank; axis++) {
        c += index[axis] * p->c_batch[axis];
        terms *= p->c_batch[axis] == 0 ? p->batch[axis] : 1;
    }
    memcpy(sum, guarded_remembered(&x->c) + (size_t)c * size, size);
    for (int64_t term = 0; term < terms; term++) {
        int64_t a = i * p->a_row, b = j * p->b_col, rest = term;
        for (int axis = p->batch_rank - 1; axis >= 0; axis--) {
            int64_t at_axis = p->c_batch[axis] == 0 ? rest % p->batch[axis] : index[axis];
            rest /= p->c_batch[axis] == 0 ? p->batch[axis] : 1;
            a += at_axis * p->a_batch[axis];
            b += at_axis * p->b_batch[axis];
        }
        lab__kernels()->tile[p->type](1, 1, p->k, at(p->a, a, size), p->a_row, p->a_col, at(p->b, b, size), p->b_row,
                                      sum, 1, p->add || term > 0 ? KERNEL_SUM_GOES_ON : KERNEL_SUM_NEW);
    }
}

static void judge_bits(const gemm_case *x)
{
    const gemm_product *p = &x->p;
    int64_t batches = 1;
    for (int axis = 0; axis < p->batch_rank; axis++)
        batches *= p->batch[axis];
    for (int64_t flat = 0; flat < batches * p->m * p->n; flat++) {
        int64_t index[GEMM_MAX_BATCH_RANK], rest = flat / (p->m * p->n), i = flat / p->n % p->m, j = flat % p->n;
        int64_t c = i * p->c_row + j * p->c_col;
        for (int axis = p->batch_rank - 1; axis >= 0; axis--) {
            index[axis] = rest % p->batch[axis];
            rest /= p->batch[axis];
            c += index[axis] * p->c_batch[axis];
        }
        double sum;
        one_element(x, index, i, j, &sum);
        if (memcmp(&sum, at(p->c, c, size_of(p->type)), size_of(p->type)) != 0)
            fail_msg("seed %llu: %s: c[%lld][%lld, %lld] has other bits than one ascending sum",
                     (unsigned long long)guarded_seed(), case_text(p), (long long)(flat / (p->m * p->n)), (long long)i,
                     (long long)j);
    }
}

static void try_product(const gemm_product *p, uint64_t *stream)
{
    gemm_product tiled = *p;
    tiled.tiled = true;
    gemm_case x = case_make(&tiled, stream);
    case_run(1, &x);
    const char *wrong = case_wrong(&x);
    if (wrong)
        fail_msg("seed %llu: %s: %s", (unsigned long long)guarded_seed(), case_text(p), wrong);
    judge_bits(&x);
    case_free(&x);
}

static void a_product_in_any_layout_has_the_bits_of_one_ascending_sum(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 19};
    uint64_t stream = guarded_stream(__func__);
    for (int i = 0; i < 27; i++)
        case_every_layout(sizes[i % 3], sizes[i / 3 % 3], sizes[i / 9], try_product, &stream);
}

static void batches_are_summed_in_their_order_whatever_their_strides(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    for (int i = 0; i < 1500; i++) {
        int64_t most = guarded_below(&stream, 4) ? 4 : 12;
        gemm_product p = {.m = 1 + guarded_below(&stream, most)};
        p.n = 1 + guarded_below(&stream, most);
        p.k = 1 + guarded_below(&stream, most);
        p.batch_rank = (int)guarded_below(&stream, 5);
        for (int axis = 0; axis < p.batch_rank; axis++)
            p.batch[axis] = 1 + guarded_below(&stream, 4);
        case_random_strides(&p, &stream);
        case_both_types(p, try_product, &stream);
    }
}

/* One thread gives each element one ascending sum; others give the same bits. Long sums in long double are slow, so
 * `values` says whether those are held against them as well. */
static void try_threads(const gemm_product *p, bool values, uint64_t *stream)
{
    gemm_case x = case_make(p, stream);
    void *alone = malloc(x.c.bytes);
    assert_non_null(alone);
    for (int i = 0; i < 3; i++) {
        const int threads = ((int[]){1, 2, 7})[i];
        assert_int_equal(lab_set_threads(threads), LAB_OK);
        memcpy(x.c.data, guarded_remembered(&x.c), x.c.bytes);
        case_run(1, &x);
        const char *wrong = values && i == 0 ? case_wrong(&x) : case_touched(&x);
        if (i == 0) {
            judge_bits(&x);
            memcpy(alone, x.c.data, x.c.bytes);
        } else if (memcmp(alone, x.c.data, x.c.bytes) != 0) {
            wrong = "other bits than on one thread";
        }
        if (wrong)
            fail_msg("seed %llu: %s: %d threads: %s", (unsigned long long)guarded_seed(), case_text(p), threads, wrong);
    }
    free(alone);
    case_free(&x);
}

/* Sizes that are cut into panels, blocks of columns and steps along k. */
static void large_products_have_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{401, 70, 300}, {40, 560, 290}, {700, 1, 515},
                                       {1, 1100, 513}, {33, 65, 1030}, {3, 1100, 70}};
    uint64_t stream = guarded_stream(__func__);
    for (int size = 0; size < 6; size++)
        for (int i = 0; i < 16; i++) {
            const int layouts = i / 4;
            gemm_product p = {.m = sizes[size][0], .n = sizes[size][1], .k = sizes[size][2], .tiled = true};
            p.type = (kernel_type)(i % 2);
            p.add = i / 2 % 2;
            case_layouts(&p, layouts & 1 ? LAYOUT_ROWS : LAYOUT_COLUMNS, layouts & 2 ? LAYOUT_ROWS : LAYOUT_COLUMNS,
                         (size + layouts + i) % 2 ? LAYOUT_ROWS : LAYOUT_STRIDED);
            try_threads(&p, i < 2, &stream);
        }
    assert_int_equal(lab_set_threads(0), LAB_OK);
}

/* ---- On graphs ------------------------------------------------------------------------------------------------------ */

static lab_graph *invariant_graph(void)
{
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.batch_invariant = true});
    assert_int_equal(lab_graph_status(g), LAB_OK);
    return g;
}

static void expect_healthy(const lab_graph *g)
{
    if (lab_graph_status(g) != LAB_OK)
        fail_msg("%s", lab_graph_message(g));
}

static lab_tensor *drawn(lab_dtype dtype, int64_t rows, int64_t columns)
{
    static uint64_t stream;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *t = NULL;
    if (stream == 0)
        stream = guarded_stream(__func__);
    assert_int_equal(lab_tensor_clone(&t, lab_randn(g, dtype, 2, (int64_t[]){rows, columns}, guarded_next(&stream))),
                     LAB_OK);
    lab_graph_destroy(&g);
    return t;
}

/* y, which lies row-major, is a b, each element one ascending sum. */
static void expect_product(const char *what, const lab_tensor *y, const lab_tensor *a, int a_row, const lab_tensor *b,
                           int b_row)
{
    kernel_type type = lab_tensor_dtype(y) == LAB_F64 ? KERNEL_F64 : KERNEL_F32;
    size_t size = size_of(type);
    int64_t m = lab_tensor_size(a, a_row), k = lab_tensor_size(a, 1 - a_row), n = lab_tensor_size(b, 1 - b_row);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            lab__kernels()->tile[type](1, 1, k, at(lab_tensor_data(a), i * lab_tensor_stride(a, a_row), size),
                                       lab_tensor_stride(a, a_row), lab_tensor_stride(a, 1 - a_row),
                                       at(lab_tensor_data(b), j * lab_tensor_stride(b, 1 - b_row), size),
                                       lab_tensor_stride(b, b_row), &sum, 1, KERNEL_SUM_NEW);
            if (memcmp(&sum, at(lab_tensor_data(y), i * n + j, size), size) != 0)
                fail_msg("seed %llu: %s: element [%lld, %lld] is not the tile product's",
                         (unsigned long long)guarded_seed(), what, (long long)i, (long long)j);
        }
}

static lab_tensor *multiply(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_matmul(g, xs[0], xs[1]);
}

typedef enum way { PLAINLY, CHECKPOINTED, RECORDED, CHECKPOINTED_RECORDED, WAYS } way;

/* Forward, and both gradients: products into their places, or recorded. */
static void every_product_of_a_graph_is_the_tile_product(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * WAYS; i++) {
        static const char *const names[WAYS] = {"plain", "checkpoint", "create_graph", "checkpoint, create_graph"};
        lab_dtype dtype = i % 2 ? LAB_F64 : LAB_F32;
        way how = (way)(i / 2);
        lab_tensor *xs[] = {drawn(dtype, 37, 150), drawn(dtype, 150, 41)}, *dy = drawn(dtype, 37, 41), *grads[2];
        lab_graph *g = invariant_graph();
        for (int round = 0; round < 2; round++) {
            bool inside = how == CHECKPOINTED || how == CHECKPOINTED_RECORDED;
            lab_tensor *y = inside ? lab_checkpoint(g, multiply, 2, xs, NULL) : multiply(g, xs, NULL);
            lab_grad(g, y, dy, 2, xs, grads, &(lab_grad_opts){.create_graph = how >= RECORDED});
            expect_healthy(g);
            expect_product(names[how], y, xs[0], 0, xs[1], 0);
            expect_product(names[how], grads[0], dy, 0, xs[1], 1);
            expect_product(names[how], grads[1], xs[0], 1, dy, 0);
            lab_graph_reset(g);
        }
        lab_graph_destroy(&g);
        lab_tensor_destroy(&xs[0]);
        lab_tensor_destroy(&xs[1]);
        lab_tensor_destroy(&dy);
    }
}

/* ---- A row alone, and in a batch ------------------------------------------------------------------------------------ */

enum { MOST_ROWS = 70 };

/* What the layers read beside their input; NULL where they need none. */
typedef struct weights {
    lab_linear linear;
    lab_mlp mlp;
    lab_tensor *gain, *shift, *square; /* [width], [width], [width, width + 3] */
} weights;

static lab_tensor *linear(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_linear_apply(g, &((weights *)ctx)->linear, xs[0]);
}

static lab_tensor *matmul(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_matmul(g, xs[0], ((weights *)ctx)->square);
}

static lab_tensor *layer_norm(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_layer_norm(g, xs[0], ((weights *)ctx)->gain, ((weights *)ctx)->shift, 1e-5);
}

static lab_tensor *rms_norm(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_rms_norm(g, xs[0], ((weights *)ctx)->gain, 1e-5);
}

static lab_tensor *gelu_erf(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_gelu(g, xs[0], LAB_GELU_ERF);
}

static lab_tensor *gelu_tanh(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_gelu(g, xs[0], LAB_GELU_TANH);
}

static lab_tensor *softmax(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_softmax(g, xs[0], -1);
}

static lab_tensor *log_softmax(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_log_softmax(g, xs[0], -1);
}

static lab_tensor *logsumexp(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_logsumexp(g, xs[0], -1, true);
}

static lab_tensor *mlp(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_mlp_apply(g, &((weights *)ctx)->mlp, xs[0]);
}

static lab_tensor *normed_mlp(lab_graph *g, lab_tensor **xs, void *ctx)
{
    lab_tensor *inner = layer_norm(g, xs, ctx);
    return lab_add(g, xs[0], lab_checkpoint(g, mlp, 1, &inner, ctx));
}

static const struct row_map {
    const char *name;
    lab_fn f;
} row_maps[] = {
    {"linear", linear},
    {"matmul", matmul},
    {"layer_norm", layer_norm},
    {"rms_norm", rms_norm},
    {"gelu by erf", gelu_erf},
    {"gelu by tanh", gelu_tanh},
    {"softmax", softmax},
    {"log_softmax", log_softmax},
    {"logsumexp", logsumexp},
    {"mlp", mlp},
    {"x + checkpoint(mlp(norm x))", normed_mlp},
};
enum { ROW_MAPS = sizeof row_maps / sizeof row_maps[0] };

static weights make_weights(lab_dtype dtype, int64_t width, int activation)
{
    weights w = {0};
    lab_linear_config config = {.in = width, .out = width + 2, .bias = true};
    lab_mlp_config mlp_config = {.width = width, .activation = (lab_activation)activation, .bias = true};
    assert_int_equal(lab_linear_init(&w.linear, &config, dtype, 3), LAB_OK);
    assert_int_equal(lab_mlp_init(&w.mlp, &mlp_config, dtype, 4), LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
    assert_int_equal(lab_tensor_clone(&w.gain, lab_randn(g, dtype, 1, &width, 5)), LAB_OK);
    assert_int_equal(lab_tensor_clone(&w.shift, lab_randn(g, dtype, 1, &width, 6)), LAB_OK);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&w.linear.bias); /* which began as zeros */
    w.linear.bias = NULL;
    g = lab_graph_create(NULL);
    assert_int_equal(lab_tensor_clone(&w.linear.bias, lab_randn(g, dtype, 1, (int64_t[]){width + 2}, 7)), LAB_OK);
    lab_graph_destroy(&g);
    w.square = drawn(dtype, width, width + 3);
    return w;
}

static void free_weights(weights *w)
{
    lab_linear_free(&w->linear);
    lab_mlp_free(&w->mlp);
    lab_tensor_destroy(&w->gain);
    lab_tensor_destroy(&w->shift);
    lab_tensor_destroy(&w->square);
}

/* One input of MOST_ROWS rows, and what a map makes of each row alone: y, and dx for a dy. */
typedef struct rows {
    const struct row_map *map;
    weights *w;
    lab_dtype dtype;
    int64_t width, out; /* of y */
    lab_tensor *x, *dy;
    char *y_alone, *dx_alone;
} rows;

/* Rows first .. first + count as a tensor of the given rank: [n], [1, n] or [2, n / 2, n]. */
static lab_tensor *some_rows(lab_graph *g, lab_tensor *all, int64_t first, int64_t count, int rank)
{
    int64_t columns = lab_tensor_size(all, 1);
    lab_tensor *x = lab_slice(g, all, 0, first, first + count, 1);
    if (rank == 1)
        return lab_reshape(g, x, 1, &columns);
    return rank == 3 ? lab_reshape(g, x, 3, (int64_t[]){2, count / 2, columns}) : x;
}

/* y and dx, row-major. */
static void run_map(const rows *r, int64_t first, int64_t count, int rank, char *y, char *dx)
{
    size_t row = lab_dtype_size(r->dtype) * (size_t)count;
    lab_graph *g = invariant_graph();
    lab_tensor *x = some_rows(g, r->x, first, count, rank), *grad = NULL;
    lab_tensor *result = r->map->f(g, &x, r->w);
    lab_grad(g, result, some_rows(g, r->dy, first, count, rank), 1, &x, &grad, NULL);
    expect_healthy(g);
    assert_int_equal(lab_tensor_read(result, y, row * (size_t)r->out), LAB_OK);
    assert_int_equal(lab_tensor_read(grad, dx, row * (size_t)r->width), LAB_OK);
    lab_graph_destroy(&g);
}

static void compare(const rows *r, const char *what, const char *got, const char *alone, int64_t row_elements,
                    int64_t first, int64_t count)
{
    size_t row = lab_dtype_size(r->dtype) * (size_t)row_elements;
    for (int64_t i = 0; i < count; i++)
        if (memcmp(got + (size_t)i * row, alone + (size_t)(first + i) * row, row) != 0)
            fail_msg("seed %llu: %s, %s, %s, width %lld, %d threads: row %lld of a batch of %lld: %s differs from the "
                     "row alone",
                     (unsigned long long)guarded_seed(), lab__kernels()->level, r->map->name,
                     r->dtype == LAB_F64 ? "f64" : "f32", (long long)r->width, lab_get_threads(), (long long)i,
                     (long long)count, what);
}

static void try_batches(rows *r)
{
    size_t size = lab_dtype_size(r->dtype);
    size_t y_row = size * (size_t)r->out, dx_row = size * (size_t)r->width;
    char *y = malloc(MOST_ROWS * y_row), *dx = malloc(MOST_ROWS * dx_row);
    r->y_alone = malloc(MOST_ROWS * y_row);
    r->dx_alone = malloc(MOST_ROWS * dx_row);
    assert_true(y && dx && r->y_alone && r->dx_alone);
    assert_int_equal(lab_set_threads(1), LAB_OK);
    for (int i = 0; i < MOST_ROWS; i++)
        run_map(r, i, 1, 1 + i % 2, r->y_alone + (size_t)i * y_row, r->dx_alone + (size_t)i * dx_row);
    for (int i = 0; i < 3 * (MOST_ROWS - 1); i++) {
        int count = 2 + i % (MOST_ROWS - 1), turn = i / (MOST_ROWS - 1);
        int64_t first = (MOST_ROWS - count) / 2;
        if (count == 2)
            assert_int_equal(lab_set_threads(((int[]){1, 2, 7})[turn]), LAB_OK);
        if (count % 3 != turn) /* each count on one number of threads */
            continue;
        run_map(r, first, count, count % 4 ? 2 : 3, y, dx);
        compare(r, "y", y, r->y_alone, r->out, first, count);
        compare(r, "dx", dx, r->dx_alone, r->width, first, count);
    }
    assert_int_equal(lab_set_threads(0), LAB_OK);
    free(y);
    free(dx);
    free(r->y_alone);
    free(r->dx_alone);
}

static void try_maps(lab_dtype dtype, int64_t width, int activation)
{
    weights w = make_weights(dtype, width, activation);
    for (int i = 0; i < ROW_MAPS; i++) {
        rows r = {.map = &row_maps[i], .w = &w, .dtype = dtype, .width = width, .x = drawn(dtype, MOST_ROWS, width)};
        lab_graph *g = invariant_graph();
        r.out = lab_tensor_size(r.map->f(g, &r.x, &w), -1);
        expect_healthy(g);
        lab_graph_destroy(&g);
        r.dy = drawn(dtype, MOST_ROWS, r.out);
        try_batches(&r);
        lab_tensor_destroy(&r.x);
        lab_tensor_destroy(&r.dy);
    }
    free_weights(&w);
}

static void try_levels(int64_t width, int activation)
{
    bool end = false;
    for (int i = 0; !end; i++) {
        const kernel_table *table = lab__kernels_level(i, &end);
        if (!table)
            continue;
        assert_int_equal(lab_set_kernel_level(table->level), LAB_OK);
        try_maps(LAB_F32, width, activation);
        try_maps(LAB_F64, width, activation);
    }
    assert_int_equal(lab_set_kernel_level(NULL), LAB_OK);
}

static void a_short_row_alone_has_the_bits_it_has_in_a_batch(void **state)
{
    (void)state;
    try_levels(1, LAB_ACTIVATION_GELU_ERF);
    try_levels(7, LAB_ACTIVATION_GELU_ERF);
    try_levels(61, LAB_ACTIVATION_SILU_GATED);
}

static void a_row_alone_has_the_bits_it_has_in_a_batch(void **state)
{
    (void)state;
    try_levels(96, LAB_ACTIVATION_GELU_TANH);
    try_levels(131, LAB_ACTIVATION_GELU_ERF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_in_any_layout_has_the_bits_of_one_ascending_sum),
        cmocka_unit_test(batches_are_summed_in_their_order_whatever_their_strides),
        cmocka_unit_test(large_products_have_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(every_product_of_a_graph_is_the_tile_product),
        cmocka_unit_test(a_short_row_alone_has_the_bits_it_has_in_a_batch),
        cmocka_unit_test(a_row_alone_has_the_bits_it_has_in_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
