/* test_lapack.c - QR and singular values: the factors multiply back, are orthonormal, in order and of one sign; memory
 * beside them survives; what LAPACK must not see never reaches it.
 */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "guarded.h"
#include "kernels/gemm.h"
#include "kernels/lapack.h"

static const int64_t shapes[][2] = {{1, 1},   {1, 7},   {7, 1},   {2, 2},    {5, 3},    {3, 5},
                                    {17, 17}, {40, 33}, {33, 70}, {200, 20}, {20, 200}, {150, 130}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct matrices {
    kernel_type type;
    int64_t m, n, r;
    guarded a, left, values, right, workspace; /* q and r, or u, s and vt */
} matrices;

static size_t size_of(kernel_type type)
{
    return type == KERNEL_F32 ? sizeof(float) : sizeof(double);
}

static double get(const matrices *x, const guarded *g, int64_t i)
{
    return x->type == KERNEL_F32 ? (double)((const float *)g->data)[i] : ((const double *)g->data)[i];
}

static void set(const matrices *x, guarded *g, int64_t i, double value)
{
    if (x->type == KERNEL_F32)
        ((float *)g->data)[i] = (float)value;
    else
        ((double *)g->data)[i] = value;
}

static matrices take_matrices(kernel_type type, int64_t m, int64_t n, size_t workspace, uint64_t *stream)
{
    matrices x = {.type = type, .m = m, .n = n, .r = m < n ? m : n};
    size_t size = size_of(type);
    x.a = guarded_take((size_t)(m * n) * size, stream);
    x.left = guarded_take((size_t)(m * x.r) * size, stream);
    x.right = guarded_take((size_t)(x.r * n) * size, stream);
    x.values = guarded_take((size_t)x.r * size, stream);
    for (int64_t i = 0; i < m * n; i++)
        set(&x, &x.a, i, guarded_uniform(stream));
    guarded_remember(&x.a);
    x.workspace = guarded_take(workspace, stream);
    return x;
}

static void free_matrices(matrices *x)
{
    guarded_free(&x->a);
    guarded_free(&x->left);
    guarded_free(&x->right);
    guarded_free(&x->values);
    guarded_free(&x->workspace);
}

static void assert_memory_survived(const matrices *x)
{
    assert_true(guarded_unchanged(&x->a, true));
    assert_true(guarded_unchanged(&x->left, false) && guarded_unchanged(&x->right, false));
    assert_true(guarded_unchanged(&x->values, false) && guarded_unchanged(&x->workspace, false));
}

static void assert_close(const matrices *x, double got, double want, double scale, const char *what)
{
    double epsilon = x->type == KERNEL_F32 ? FLT_EPSILON : DBL_EPSILON;
    if (!(fabs(got - want) <= 8 * epsilon * (double)(x->m + x->n) * scale))
        fail_msg("seed %llu: %s of %lldx%lld: %.17g, want %.17g", (unsigned long long)guarded_seed(), what,
                 (long long)x->m, (long long)x->n, got, want);
}

/* left diag(values) right = a, where no values are ones. */
static void assert_multiplies_back(const matrices *x, bool values, double scale)
{
    for (int64_t i = 0; i < x->m; i++)
        for (int64_t j = 0; j < x->n; j++) {
            double sum = 0.0;
            for (int64_t k = 0; k < x->r; k++)
                sum += get(x, &x->left, i * x->r + k) * (values ? get(x, &x->values, k) : 1.0) *
                       get(x, &x->right, k * x->n + j);
            assert_close(x, sum, get(x, &x->a, i * x->n + j), scale, "an element multiplied back");
        }
}

/* Vectors [count] of `length`, elements `step` apart, one vector from the next `next`. */
static void assert_orthonormal(const matrices *x, const guarded *g, int64_t length, int64_t step, int64_t next)
{
    for (int64_t i = 0; i < x->r; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0.0;
            for (int64_t k = 0; k < length; k++)
                sum += get(x, g, i * next + k * step) * get(x, g, j * next + k * step);
            assert_close(x, sum, i == j, 1.0, "a product of two vectors");
        }
}

/* ---- QR -------------------------------------------------------------------------------------------------------------- */

static int factor_qr(matrices *x)
{
    return lab__qr(x->type, x->m, x->n, x->a.data, x->left.data, x->right.data, x->workspace.data);
}

static void judge_qr(const matrices *x)
{
    assert_multiplies_back(x, false, 1.0);
    assert_orthonormal(x, &x->left, x->m, x->r, 1);
    for (int64_t i = 0; i < x->r; i++)
        for (int64_t j = 0; j <= i; j++)
            assert_true(i == j ? get(x, &x->right, i * x->n + j) >= 0.0 : get(x, &x->right, i * x->n + j) == 0.0);
    assert_memory_survived(x);
}

static void qr_is_orthonormal_times_upper_triangular(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    for (int i = 0; i < SHAPES * KERNEL_TYPES; i++) {
        kernel_type type = (kernel_type)(i % KERNEL_TYPES);
        int64_t m = shapes[i / KERNEL_TYPES][0], n = shapes[i / KERNEL_TYPES][1];
        matrices x = take_matrices(type, m, n, lab__qr_workspace(type, m, n), &stream);
        assert_int_equal(factor_qr(&x), 0);
        judge_qr(&x);
        free_matrices(&x);
    }
}

static void qr_of_a_matrix_without_full_rank_still_multiplies_back(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    for (int same_rows = 0; same_rows < 2; same_rows++) {
        matrices x = take_matrices(KERNEL_F64, 12, 9, lab__qr_workspace(KERNEL_F64, 12, 9), &stream);
        for (int64_t i = 0; i < 12 * 9; i++)
            set(&x, &x.a, i, same_rows ? get(&x, &x.a, i % 9) : 0.0);
        guarded_remember(&x.a);
        assert_int_equal(factor_qr(&x), 0);
        judge_qr(&x);
        free_matrices(&x);
    }
}

/* With the signs fixed there is one answer: that of Gram and Schmidt. */
static void qr_is_the_one_with_positive_diagonal(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    matrices x = take_matrices(KERNEL_F64, 3, 2, lab__qr_workspace(KERNEL_F64, 3, 2), &stream);
    static const double a[] = {-2, 3, 0, 4, 0, 0};
    static const double q[] = {-1, 0, 0, 1, 0, 0}, r[] = {2, -3, 0, 4};
    for (int i = 0; i < 6; i++)
        set(&x, &x.a, i, a[i]);
    guarded_remember(&x.a);
    assert_int_equal(factor_qr(&x), 0);
    for (int i = 0; i < 6; i++)
        assert_close(&x, get(&x, &x.left, i), q[i], 1.0, "q");
    for (int i = 0; i < 4; i++)
        assert_close(&x, get(&x, &x.right, i), r[i], 4.0, "r");
    free_matrices(&x);
}

/* ---- Singular values ----------------------------------------------------------------------------------------------------- */

static int factor_svd(matrices *x, bool vectors)
{
    return lab__svd(x->type, x->m, x->n, x->a.data, x->values.data, vectors ? x->left.data : NULL,
                    vectors ? x->right.data : NULL, x->workspace.data);
}

static void judge_svd(const matrices *x, double scale)
{
    assert_multiplies_back(x, true, scale);
    assert_orthonormal(x, &x->left, x->m, x->r, 1);
    assert_orthonormal(x, &x->right, x->n, 1, x->n);
    for (int64_t i = 0; i < x->r; i++)
        assert_true(get(x, &x->values, i) >= (i + 1 < x->r ? get(x, &x->values, i + 1) : 0.0));
    assert_memory_survived(x);
}

static void svd_multiplies_back_and_values_descend(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    for (int i = 0; i < SHAPES * KERNEL_TYPES; i++) {
        kernel_type type = (kernel_type)(i % KERNEL_TYPES);
        int64_t m = shapes[i / KERNEL_TYPES][0], n = shapes[i / KERNEL_TYPES][1];
        matrices x = take_matrices(type, m, n, lab__svd_workspace(type, m, n, true), &stream);
        assert_int_equal(factor_svd(&x, true), 0);
        judge_svd(&x, sqrt((double)(m + n)));
        free_matrices(&x);
    }
}

static void values_alone_are_those_with_vectors(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES * KERNEL_TYPES; i++) {
        kernel_type type = (kernel_type)(i % KERNEL_TYPES);
        int64_t m = shapes[i / KERNEL_TYPES][0], n = shapes[i / KERNEL_TYPES][1];
        matrices x[2];
        for (int vectors = 0; vectors < 2; vectors++) {
            uint64_t stream = guarded_stream(__func__);
            x[vectors] = take_matrices(type, m, n, lab__svd_workspace(type, m, n, vectors), &stream);
            assert_int_equal(factor_svd(&x[vectors], vectors), 0);
        }
        assert_memory_survived(&x[0]);
        assert_true(guarded_unchanged(&x[0].left, true) && guarded_unchanged(&x[0].right, true));
        for (int64_t j = 0; j < x[0].r; j++)
            assert_close(&x[0], get(&x[0], &x[0].values, j), get(&x[1], &x[1].values, j), sqrt((double)(m + n)),
                         "a singular value");
        free_matrices(&x[0]);
        free_matrices(&x[1]);
    }
}

/* Also where squares overflow or vanish. */
static void known_values_are_found_at_any_scale(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    static const double scales[] = {1.0, 1e-150, 1e150, 0.0};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        matrices x = take_matrices(KERNEL_F64, 4, 3, lab__svd_workspace(KERNEL_F64, 4, 3, true), &stream);
        for (int64_t j = 0; j < 12; j++)
            set(&x, &x.a, j, 0.0);
        set(&x, &x.a, 1 * 3 + 0, -5 * scales[i]);
        set(&x, &x.a, 3 * 3 + 1, 7 * scales[i]);
        set(&x, &x.a, 0 * 3 + 2, 2 * scales[i]);
        guarded_remember(&x.a);
        assert_int_equal(factor_svd(&x, true), 0);
        assert_close(&x, get(&x, &x.values, 0), 7 * scales[i], 7 * scales[i], "the largest value");
        assert_close(&x, get(&x, &x.values, 1), 5 * scales[i], 7 * scales[i], "the second value");
        assert_close(&x, get(&x, &x.values, 2), 2 * scales[i], 7 * scales[i], "the smallest value");
        judge_svd(&x, 7 * scales[i]);
        free_matrices(&x);
    }
}

static void what_is_not_finite_has_no_singular_values(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3 * KERNEL_TYPES; i++) {
        kernel_type type = (kernel_type)(i % KERNEL_TYPES);
        matrices x = take_matrices(type, 30, 40, lab__svd_workspace(type, 30, 40, true), &stream);
        set(&x, &x.a, guarded_below(&stream, 30 * 40), bad[i / KERNEL_TYPES]);
        guarded_remember(&x.a);
        assert_true(factor_svd(&x, true) > 0);
        assert_true(factor_svd(&x, false) > 0);
        assert_memory_survived(&x);
        free_matrices(&x);
    }
}

/* ---- Sizes ---------------------------------------------------------------------------------------------------------------- */

static void nothing_has_no_factors(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    for (int i = 0; i < 3; i++) {
        int64_t m = i & 1 ? 4 : 0, n = i & 2 ? 4 : 0;
        matrices x = take_matrices(KERNEL_F32, m, n, 0, &stream);
        assert_int_equal(factor_qr(&x), 0);
        assert_int_equal(factor_svd(&x, true), 0);
        assert_int_equal(lab__svd_workspace(KERNEL_F32, m, n, true), 0);
        assert_memory_survived(&x);
        free_matrices(&x);
    }
}

static void sizes_beyond_lapacks_int_are_refused_before_anything_is_touched(void **state)
{
    (void)state;
    const int64_t beyond = (int64_t)INT_MAX + 1;
    assert_true(lab__qr(KERNEL_F64, beyond, 1, NULL, NULL, NULL, NULL) < 0);
    assert_true(lab__qr(KERNEL_F64, 1, beyond, NULL, NULL, NULL, NULL) < 0);
    assert_true(lab__svd(KERNEL_F64, beyond, 1, NULL, NULL, NULL, NULL, NULL) < 0);
    assert_true(lab__svd(KERNEL_F64, 1, beyond, NULL, NULL, NULL, NULL, NULL) < 0);
    assert_true(lab__svd(KERNEL_F32, 30000, 30000, NULL, NULL, NULL, NULL, NULL) < 0); /* 4 * 30000^2 numbers of work */
    assert_true(lab__qr_workspace(KERNEL_F64, INT64_MAX, INT64_MAX) == SIZE_MAX);
}

extern __attribute__((weak)) int openblas_get_num_threads(void);
extern __attribute__((weak)) void openblas_set_num_threads(int n);

static void blas_keeps_the_number_of_threads_its_caller_set(void **state)
{
    (void)state;
    if (!openblas_get_num_threads || !openblas_set_num_threads || strcmp(lab__blas_threading(), "serial") == 0)
        skip();
    uint64_t stream = guarded_stream(__func__);
    size_t qr = lab__qr_workspace(KERNEL_F64, 20, 30), svd = lab__svd_workspace(KERNEL_F64, 20, 30, true);
    matrices x = take_matrices(KERNEL_F64, 20, 30, qr > svd ? qr : svd, &stream);
    openblas_set_num_threads(3);
    assert_int_equal(factor_svd(&x, true), 0);
    assert_int_equal(openblas_get_num_threads(), 3);
    assert_int_equal(factor_qr(&x), 0);
    assert_int_equal(openblas_get_num_threads(), 3);
    free_matrices(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qr_is_orthonormal_times_upper_triangular),
        cmocka_unit_test(qr_of_a_matrix_without_full_rank_still_multiplies_back),
        cmocka_unit_test(qr_is_the_one_with_positive_diagonal),
        cmocka_unit_test(svd_multiplies_back_and_values_descend),
        cmocka_unit_test(values_alone_are_those_with_vectors),
        cmocka_unit_test(known_values_are_found_at_any_scale),
        cmocka_unit_test(what_is_not_finite_has_no_singular_values),
        cmocka_unit_test(nothing_has_no_factors),
        cmocka_unit_test(sizes_beyond_lapacks_int_are_refused_before_anything_is_touched),
        cmocka_unit_test(blas_keeps_the_number_of_threads_its_caller_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
