/* test_spectral.c - Lanczos against spectra that are known, and against dense ones; Hessians against their formula; the
 * singular values of a product against those of the product itself.
 */
#include "nn_check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Operators --------------------------------------------------------------------------------------------------- */

/* Row-major, symmetric. */
typedef struct dense {
    int64_t n;
    double *a;
    int64_t calls, fail_at; /* fails at this call, if it is above 0 */
    double bad;             /* and answers so from then on, if there is nothing to return */
} dense;

static lab_status multiply(int64_t n, const double *x, double *y, void *ctx)
{
    dense *d = ctx;
    assert_true(n == d->n);
    d->calls++;
    if (d->fail_at && d->calls >= d->fail_at && d->bad == 0)
        return LAB_ERR_IO;
    for (int64_t i = 0; i < n; i++) {
        y[i] = 0;
        for (int64_t j = 0; j < n; j++)
            y[i] += d->a[i * n + j] * x[j];
    }
    if (d->fail_at && d->calls >= d->fail_at)
        y[n - 1] = d->bad;
    return LAB_OK;
}

/* u diag(values) u^T for a random orthogonal u. */
static dense dense_of(int64_t n, const double *values, uint64_t *draws)
{
    dense d = {.n = n, .a = calloc((size_t)(n * n), sizeof *d.a)};
    lab_tensor *random = leaf_drawn(draws, LAB_F64, 2, (int64_t[]){n, n}, 1), *q, *r;
    assert_non_null(d.a);
    assert_int_equal(lab_qr(random, &q, &r), LAB_OK);
    const double *u = lab_tensor_data(q);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t k = 0; k < n; k++)
                d.a[i * n + j] += u[i * n + k] * values[k] * u[j * n + k];
    lab_tensor_destroy(&random);
    lab_tensor_destroy(&q);
    lab_tensor_destroy(&r);
    return d;
}

static void expect_number(const char *what, double got, double want, double allowed)
{
    if (!(fabs(got - want) <= allowed))
        fail_msg("seed %llu: %s: %.17g, expected %.17g within %.3g", (unsigned long long)check_seed(), what, got, want,
                 allowed);
}

/* |A x - value x|, and |x| = 1. */
static void expect_pair(dense *d, double value, const double *x, double allowed)
{
    double *y = malloc((size_t)d->n * sizeof *y), length = 0, off = 0;
    assert_non_null(y);
    assert_int_equal(multiply(d->n, x, y, d), LAB_OK);
    for (int64_t i = 0; i < d->n; i++) {
        length += x[i] * x[i];
        off += (y[i] - value * x[i]) * (y[i] - value * x[i]);
    }
    expect_number("length of an eigenvector", sqrt(length), 1, 1e-12);
    expect_number("residual of an eigenvector", sqrt(off), 0, allowed);
    free(y);
}

/* ---- Lanczos ----------------------------------------------------------------------------------------------------- */

static void lanczos_finds_both_ends(void **state)
{
    (void)state;
    uint64_t draws = draw_start("ends");
    enum { N = 120 };
    double wanted[N], values[7], residuals[7], *vectors = malloc(7 * N * sizeof *vectors);
    assert_non_null(vectors);
    for (int i = 0; i < N; i++) /* ascending, both ends apart */
        wanted[i] = i < 3 ? -9 + 2 * i : i >= N - 4 ? 5 + 3 * (i - (N - 4)) : draw_between(&draws, -1, 1);
    dense d = dense_of(N, wanted, &draws);
    lab_lanczos_report report;
    lab_lanczos_opts opts = {.top = 4, .bottom = 3, .seed = 5, .vectors = vectors};
    assert_int_equal(lab_lanczos(N, multiply, &d, &opts, values, residuals, &report), LAB_OK);
    assert_true(report.converged && report.steps == d.calls && report.steps < N);
    for (int i = 0; i < 7; i++) {
        expect_number("eigenvalue", values[i], i < 4 ? wanted[N - 1 - i] : wanted[i - 4], 1e-12 * 14);
        assert_true(residuals[i] <= 1e-10 * 14 && residuals[i] <= report.worst);
        expect_pair(&d, values[i], vectors + i * N, 2e-9);
    }
    free(vectors);
    free(d.a);
}

/* All of them: steps go to n, and nothing comes twice by rounding. */
static void lanczos_finds_the_whole_spectrum(void **state)
{
    (void)state;
    uint64_t draws = draw_start("whole");
    enum { N = 60 };
    double wanted[N], values[N];
    for (int i = 0; i < N; i++)
        wanted[i] = pow(10, -0.25 * i); /* over fifteen decades */
    dense d = dense_of(N, wanted, &draws);
    assert_int_equal(lab_lanczos(N, multiply, &d, &(lab_lanczos_opts){.top = N, .steps = N}, values, NULL, NULL),
                     LAB_OK);
    for (int i = 0; i < N; i++)
        expect_number("eigenvalue", values[i], wanted[i], 1e-13);
    free(d.a);
}

/* The residual bounds the error also where it has not converged, and no failure is made of that. */
static void few_steps_are_reported_as_such(void **state)
{
    (void)state;
    uint64_t draws = draw_start("few");
    enum { N = 100 };
    double wanted[N], value, residual;
    for (int i = 0; i < N; i++)
        wanted[i] = i;
    dense d = dense_of(N, wanted, &draws);
    lab_lanczos_report report;
    assert_int_equal(lab_lanczos(N, multiply, &d, &(lab_lanczos_opts){.steps = 8}, &value, &residual, &report), LAB_OK);
    assert_true(!report.converged && report.steps == 8 && report.worst == residual && residual > 1e-3);
    double nearest = INFINITY;
    for (int i = 0; i < N; i++)
        nearest = fmin(nearest, fabs(value - wanted[i]));
    assert_true(nearest <= residual && value > 80 && value <= 99);
    lab_lanczos_opts loose = {.tolerance = 0.1};
    assert_int_equal(lab_lanczos(N, multiply, &d, &loose, &value, &residual, &report), LAB_OK);
    assert_true(report.converged && report.steps < 40 && residual <= 0.1 * 99);
    free(d.a);
}

/* What A makes of the first vectors is exhausted before the space is: another start sees the rest. */
static void an_exhausted_start_is_followed_by_another(void **state)
{
    (void)state;
    uint64_t draws = draw_start("exhausted");
    double values[5], three[] = {2, 2, 2, -1, -1}, ones[] = {3, 3, 3, 3, 3}, none[5] = {0};
    const double *spectra[] = {three, ones, none};
    for (int k = 0; k < 3; k++) {
        dense d = dense_of(5, spectra[k], &draws);
        lab_lanczos_opts opts = {.top = 5, .seed = 1};
        lab_lanczos_report report;
        assert_int_equal(lab_lanczos(5, multiply, &d, &opts, values, NULL, &report), LAB_OK);
        assert_true(report.converged);
        for (int i = 0; i < 5; i++)
            expect_number("eigenvalue", values[i], spectra[k][i], 1e-13);
        free(d.a);
    }
    double one = 7, value; /* [1, 1] */
    dense d = {.n = 1, .a = &one};
    assert_int_equal(lab_lanczos(1, multiply, &d, NULL, &value, NULL, NULL), LAB_OK);
    expect_number("the only eigenvalue", value, 7, 1e-15);
}

static void the_same_seed_gives_the_same_bits(void **state)
{
    (void)state;
    uint64_t draws = draw_start("bits");
    enum { N = 50 };
    double wanted[N], a[3], b[3], c[3];
    for (int i = 0; i < N; i++)
        wanted[i] = draw_between(&draws, 0, 1);
    dense d = dense_of(N, wanted, &draws);
    lab_lanczos_opts opts = {.top = 2, .bottom = 1, .steps = 12, .seed = 3};
    assert_int_equal(lab_lanczos(N, multiply, &d, &opts, a, NULL, NULL), LAB_OK);
    assert_int_equal(lab_lanczos(N, multiply, &d, &opts, b, NULL, NULL), LAB_OK);
    opts.seed = 4;
    assert_int_equal(lab_lanczos(N, multiply, &d, &opts, c, NULL, NULL), LAB_OK);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    free(d.a);
}

static void lanczos_refuses_what_makes_no_sense(void **state)
{
    (void)state;
    double a[4] = {1, 0, 0, 2}, values[2], residuals[2];
    dense d = {.n = 2, .a = a};
    lab_lanczos_report report;
    static const struct {
        lab_status status;
        int64_t n;
        lab_lanczos_opts opts;
    } cases[] = {{LAB_ERR_RANGE, 0, {0}},
                 {LAB_ERR_RANGE, -1, {0}},
                 {LAB_ERR_RANGE, 2, {.top = 3}},
                 {LAB_ERR_RANGE, 2, {.top = -1}},
                 {LAB_ERR_RANGE, 2, {.bottom = INT64_MAX}},
                 {LAB_ERR_RANGE, 2, {.top = 2, .bottom = 1}},
                 {LAB_ERR_RANGE, 2, {.top = 2, .steps = 1}},
                 {LAB_ERR_RANGE, 2, {.steps = -1}},
                 {LAB_ERR_RANGE, 2, {.tolerance = -1}},
                 {LAB_ERR_RANGE, 2, {.tolerance = NAN}},
                 {LAB_ERR_MEMORY, INT64_MAX / 4, {.steps = 100}},
                 {LAB_ERR_ARGUMENT, 2, {.reserved = {[7] = 1}}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(&report, 0x55, sizeof report);
        assert_int_equal(lab_lanczos(cases[i].n, multiply, &d, &cases[i].opts, values, residuals, &report),
                         cases[i].status);
        assert_true(strstr(lab_last_message(), "lab_lanczos") && report.steps == 0 && !report.converged);
    }
    assert_int_equal(d.calls, 0);
    assert_int_equal(lab_lanczos(2, NULL, &d, NULL, values, NULL, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_lanczos(2, multiply, &d, NULL, NULL, NULL, NULL), LAB_ERR_ARGUMENT);
    d.fail_at = 1;
    assert_int_equal(lab_lanczos(2, multiply, &d, NULL, values, NULL, &report), LAB_ERR_IO);
    const double bad[] = {NAN, INFINITY, 1e200};
    for (int i = 0; i < 3; i++) {
        d.bad = bad[i];
        assert_int_equal(lab_lanczos(2, multiply, &d, NULL, values, NULL, &report), LAB_ERR_RANGE);
    }
}

/* ---- Hessians ---------------------------------------------------------------------------------------------------- */

/* 1/2 x^T A x + sum of x y^2, A in ctx: the Hessian is [A, 2 y on the diagonal; the same, 2 x on the diagonal]. */
static lab_tensor *quadratic(lab_graph *g, lab_tensor **xs, void *ctx)
{
    lab_tensor *a = *(lab_tensor **)ctx;
    lab_tensor *half = lab_mul_scalar(g, lab_sum_all(g, lab_mul(g, xs[0], lab_matmul(g, a, xs[0]))), 0.5);
    return lab_add(g, half, lab_sum_all(g, lab_mul(g, xs[0], lab_mul(g, xs[1], xs[1]))));
}

enum { WIDTH = 9 };

static dense hessian_of(const lab_tensor *a, const lab_tensor *x, const lab_tensor *y)
{
    dense d = {.n = 2 * WIDTH, .a = calloc((size_t)(4 * WIDTH * WIDTH), sizeof *d.a)};
    assert_non_null(d.a);
    for (int64_t i = 0; i < WIDTH; i++) {
        for (int64_t j = 0; j < WIDTH; j++)
            d.a[i * d.n + j] = element_of(a, i * WIDTH + j);
        d.a[i * d.n + WIDTH + i] = d.a[(WIDTH + i) * d.n + i] = 2 * element_of(y, i);
        d.a[(WIDTH + i) * d.n + WIDTH + i] = 2 * element_of(x, i);
    }
    return d;
}

static lab_tensor *symmetric(uint64_t *draws, lab_dtype dtype)
{
    double a[WIDTH * WIDTH];
    for (int i = 0; i < WIDTH; i++)
        for (int j = 0; j <= i; j++)
            a[i * WIDTH + j] = a[j * WIDTH + i] = draw_between(draws, -1, 1);
    return leaf_of_doubles(dtype, 2, (int64_t[]){WIDTH, WIDTH}, a);
}

static void hessian_products_are_their_formulas(void **state)
{
    (void)state;
    uint64_t draws = draw_start("products");
    lab_tensor *a = symmetric(&draws, LAB_F64), *xs[2], *vs[2], *products[2];
    for (int i = 0; i < 2; i++) {
        xs[i] = leaf_drawn(&draws, LAB_F64, 1, (int64_t[]){WIDTH}, 1);
        vs[i] = leaf_drawn(&draws, LAB_F64, 1, (int64_t[]){WIDTH}, 1);
    }
    dense d = hessian_of(a, xs[0], xs[1]);
    double v[2 * WIDTH], want[2 * WIDTH];
    for (int i = 0; i < 2 * WIDTH; i++)
        v[i] = element_of(vs[i / WIDTH], i % WIDTH);
    assert_int_equal(multiply(2 * WIDTH, v, want, &d), LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
    assert_int_equal(lab_hessian_product(g, quadratic(g, xs, &a), 2, xs, vs, products), LAB_OK);
    expect_close("first", products[0], want, WIDTH, 1e-13);
    expect_close("second", products[1], want + WIDTH, WIDTH, 1e-13);
    lab_graph_destroy(&g);
    for (int i = 0; i < 2; i++) {
        lab_tensor_destroy(&xs[i]);
        lab_tensor_destroy(&vs[i]);
    }
    lab_tensor_destroy(&a);
    free(d.a);
}

/* The ends of a Hessian are those of the matrix, in both precisions; a leaf's strides don't matter. */
static void hessian_eigenvalues_are_the_matrixs(void **state)
{
    (void)state;
    uint64_t draws = draw_start("hessian");
    for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
        lab_tensor *a = symmetric(&draws, (lab_dtype)dtype), *xs[2];
        for (int i = 0; i < 2; i++)
            xs[i] = leaf_drawn(&draws, (lab_dtype)dtype, 2, (int64_t[]){WIDTH, 1}, 1);
        lab_tensor *flat = xs[1];
        xs[1] = leaf_strided(flat);
        dense d = hessian_of(a, xs[0], xs[1]);
        double values[4], wanted[4], residuals[4], vectors[4 * 2 * WIDTH];
        lab_lanczos_opts opts = {.top = 2, .bottom = 2, .seed = 8, .vectors = vectors};
        lab_lanczos_report report;
        assert_int_equal(lab_lanczos(d.n, multiply, &d, &opts, wanted, NULL, NULL), LAB_OK);
        opts.tolerance = dtype == LAB_F32 ? 1e-5 : 0;
        assert_int_equal(lab_hessian_eigenvalues(quadratic, &a, 2, xs, &opts, values, residuals, &report), LAB_OK);
        assert_true(report.converged);
        for (int i = 0; i < 4; i++) {
            expect_number("eigenvalue", values[i], wanted[i], dtype == LAB_F32 ? 2e-5 : 1e-12);
            expect_pair(&d, values[i], vectors + i * d.n, dtype == LAB_F32 ? 1e-4 : 1e-9);
        }
        lab_tensor *leaves[] = {a, xs[0], xs[1], flat};
        for (int i = 0; i < 4; i++)
            lab_tensor_destroy(&leaves[i]);
        free(d.a);
    }
}

static lab_tensor *two_numbers(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_add_scalar(g, xs[0], 1);
}

static lab_tensor *nothing(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)g;
    (void)xs;
    (void)ctx;
    return NULL;
}

static void hessians_refuse_what_makes_no_sense(void **state)
{
    (void)state;
    lab_tensor *x = leaf_of_doubles(LAB_F64, 1, (int64_t[]){2}, (double[]){1, 2});
    lab_tensor *i = leaf_of_integers(1, (int64_t[]){2}, (int64_t[]){1, 2}), *empty, *none = NULL, *p = x;
    lab_tensor *short_v = leaf_of_doubles(LAB_F64, 1, (int64_t[]){1}, (double[]){1});
    double value;
    assert_int_equal(lab_tensor_create(&empty, LAB_F64, 1, (int64_t[]){0}), LAB_OK);
    assert_int_equal(lab_hessian_eigenvalues(NULL, NULL, 1, &x, NULL, &value, NULL, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_hessian_eigenvalues(two_numbers, NULL, 1, NULL, NULL, &value, NULL, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_hessian_eigenvalues(two_numbers, NULL, 0, &x, NULL, &value, NULL, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_hessian_eigenvalues(two_numbers, NULL, 1, &none, NULL, &value, NULL, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_hessian_eigenvalues(two_numbers, NULL, 1, &x, NULL, NULL, NULL, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_hessian_eigenvalues(nothing, NULL, 1, &x, NULL, &value, NULL, NULL), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_hessian_eigenvalues(two_numbers, NULL, 1, &i, NULL, &value, NULL, NULL), LAB_ERR_DTYPE);
    assert_int_equal(lab_hessian_eigenvalues(two_numbers, NULL, 1, &empty, NULL, &value, NULL, NULL), LAB_ERR_RANGE);
    assert_int_equal(lab_hessian_eigenvalues(two_numbers, NULL, 1, &x, NULL, &value, NULL, NULL), LAB_ERR_SHAPE);
    assert_non_null(strstr(lab_last_message(), "[2]"));
    lab_graph *g = lab_graph_create(NULL);
    const struct {
        lab_status status;
        int n;
        lab_tensor **xs, **vs;
    } cases[] = {{LAB_ERR_ARGUMENT, 0, &x, &x},    {LAB_ERR_ARGUMENT, 1, NULL, &x},  {LAB_ERR_ARGUMENT, 1, &x, NULL},
                 {LAB_ERR_ARGUMENT, 1, &none, &x}, {LAB_ERR_ARGUMENT, 1, &x, &none}, {LAB_ERR_SHAPE, 1, &x, &short_v}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        lab_graph_reset(g);
        lab_tensor *y = lab_sum_all(g, lab_mul(g, x, x));
        p = x;
        assert_int_equal(lab_hessian_product(g, y, cases[k].n, cases[k].xs, cases[k].vs, &p), cases[k].status);
        assert_true(cases[k].n == 0 || !p);
    }
    lab_graph_reset(g);
    assert_int_equal(lab_hessian_product(g, NULL, 1, &x, &x, &p), LAB_ERR_ARGUMENT);
    lab_graph_reset(g);
    assert_int_equal(lab_hessian_product(g, lab_sum_all(g, x), 1, &x, &x, NULL), LAB_ERR_ARGUMENT);
    lab_graph_destroy(&g);
    lab_tensor *leaves[] = {x, i, empty, short_v};
    for (int k = 0; k < 4; k++)
        lab_tensor_destroy(&leaves[k]);
}

/* ---- Singular values of a product -------------------------------------------------------------------------------- */

static void try_product(uint64_t *draws, lab_dtype dtype, int64_t m, int64_t n, int64_t k)
{
    lab_tensor *a = leaf_drawn(draws, dtype, 2, (int64_t[]){m, k}, 1),
               *b = leaf_drawn(draws, dtype, 2, (int64_t[]){n, k}, 1);
    lab_tensor *strided = leaf_strided(a), *product, *s, *all;
    lab_graph *g = lab_graph_create(NULL);
    assert_int_equal(lab_tensor_clone(&product, lab_matmul(g, a, lab_transpose(g, b, 0, 1))), LAB_OK);
    assert_int_equal(lab_product_singular_values(strided, b, &s), LAB_OK);
    assert_int_equal(lab_svd(product, NULL, &all, NULL), LAB_OK);
    const int64_t count = m < n ? m : n, kept = count < k ? count : k;
    assert_true(lab_tensor_rank(s) == 1 && lab_tensor_size(s, 0) == kept);
    const double unit = dtype == LAB_F32 ? FLT_EPSILON : DBL_EPSILON, size = count ? element_of(all, 0) : 0;
    for (int64_t i = 0; i < count; i++)
        expect_number("singular value", i < kept ? element_of(s, i) : 0, element_of(all, i), 40 * unit * size);
    lab_graph_destroy(&g);
    lab_tensor *leaves[] = {a, b, strided, product, s, all};
    for (int i = 0; i < 6; i++)
        lab_tensor_destroy(&leaves[i]);
}

static void a_products_singular_values_are_those_of_the_product(void **state)
{
    (void)state;
    uint64_t draws = draw_start("product");
    static const int64_t sizes[][3] = {{1, 1, 1}, {96, 80, 16}, {80, 96, 7}, {5, 64, 9}, {6, 4, 20}, {128, 128, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++)
            try_product(&draws, (lab_dtype)dtype, sizes[i][0], sizes[i][1], sizes[i][2]);
    static const int64_t nothing_there[][3] = {{0, 3, 2}, {3, 4, 0}};
    for (int i = 0; i < 2; i++) {
        lab_tensor *a, *b, *s;
        assert_int_equal(lab_tensor_create(&a, LAB_F64, 2, (int64_t[]){nothing_there[i][0], nothing_there[i][2]}),
                         LAB_OK);
        assert_int_equal(lab_tensor_create(&b, LAB_F64, 2, (int64_t[]){nothing_there[i][1], nothing_there[i][2]}),
                         LAB_OK);
        assert_int_equal(lab_product_singular_values(a, b, &s), LAB_OK);
        assert_int_equal(lab_tensor_numel(s), 0);
        lab_tensor_destroy(&a);
        lab_tensor_destroy(&b);
        lab_tensor_destroy(&s);
    }
}

static void products_of_no_matrices_are_refused(void **state)
{
    (void)state;
    lab_tensor *a = leaf_of_doubles(LAB_F64, 2, (int64_t[]){2, 2}, (double[]){1, 2, 3, 4}), *s = a;
    lab_tensor *wide = leaf_of_doubles(LAB_F64, 2, (int64_t[]){1, 3}, (double[]){1, 2, 3});
    lab_tensor *row = leaf_of_doubles(LAB_F64, 1, (int64_t[]){2}, (double[]){1, 2});
    lab_tensor *narrow = leaf_of_doubles(LAB_F32, 2, (int64_t[]){2, 2}, (double[]){1, 2, 3, 4});
    lab_tensor *bad = leaf_of_doubles(LAB_F64, 2, (int64_t[]){2, 2}, (double[]){1, NAN, 3, 4});
    lab_tensor *whole = leaf_of_integers(2, (int64_t[]){1, 2}, (int64_t[]){1, 2});
    const struct {
        lab_status status;
        lab_tensor *a, *b;
    } cases[] = {{LAB_ERR_ARGUMENT, NULL, a}, {LAB_ERR_ARGUMENT, a, NULL}, {LAB_ERR_SHAPE, a, wide},
                 {LAB_ERR_SHAPE, row, a},     {LAB_ERR_SHAPE, a, row},     {LAB_ERR_DTYPE, a, narrow},
                 {LAB_ERR_DTYPE, whole, a},   {LAB_ERR_RANGE, bad, a},     {LAB_ERR_RANGE, a, bad}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s = a;
        assert_int_equal(lab_product_singular_values(cases[i].a, cases[i].b, &s), cases[i].status);
        assert_null(s);
        assert_true(strlen(lab_last_message()) > 20);
    }
    assert_int_equal(lab_product_singular_values(a, a, NULL), LAB_ERR_ARGUMENT);
    lab_tensor *leaves[] = {a, wide, row, narrow, bad, whole};
    for (int i = 0; i < 6; i++)
        lab_tensor_destroy(&leaves[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanczos_finds_both_ends),
        cmocka_unit_test(lanczos_finds_the_whole_spectrum),
        cmocka_unit_test(few_steps_are_reported_as_such),
        cmocka_unit_test(an_exhausted_start_is_followed_by_another),
        cmocka_unit_test(the_same_seed_gives_the_same_bits),
        cmocka_unit_test(lanczos_refuses_what_makes_no_sense),
        cmocka_unit_test(hessian_products_are_their_formulas),
        cmocka_unit_test(hessian_eigenvalues_are_the_matrixs),
        cmocka_unit_test(hessians_refuse_what_makes_no_sense),
        cmocka_unit_test(a_products_singular_values_are_those_of_the_product),
        cmocka_unit_test(products_of_no_matrices_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
