/* test_init.c - first values of parameters: their spread, and which draws they are. */
#include <math.h>
#include <string.h>

#include "nn_check.h"

static void moments(const lab_tensor *t, double *mean, double *variance)
{
    double n = (double)lab_tensor_numel(t);
    *mean = *variance = 0;
    for (int64_t i = 0; i < lab_tensor_numel(t); i++)
        *mean += element_of(t, i) / n;
    for (int64_t i = 0; i < lab_tensor_numel(t); i++)
        *variance += pow(element_of(t, i) - *mean, 2) / n;
}

static void initialisers_have_their_spread(void **state)
{
    (void)state;
    for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
        lab_tensor *t;
        double mean, variance;
        assert_int_equal(lab_tensor_create(&t, (lab_dtype)dtype, 2, (int64_t[]){100, 300}), LAB_OK);
        assert_int_equal(lab_init_normal(t, 3, check_seed(), 4), LAB_OK);
        moments(t, &mean, &variance);
        assert_true(fabs(mean) < 5 * 3 / sqrt(30000) && fabs(variance / 9 - 1) < 0.05);
        assert_int_equal(lab_init_xavier(t, 2, check_seed(), 5), LAB_OK);
        moments(t, &mean, &variance);
        assert_true(fabs(variance / (4 * 2.0 / 400) - 1) < 0.05);
        assert_int_equal(lab_init_zeros(t), LAB_OK);
        expect_all("zeros", t, 0);
        assert_int_equal(lab_init_constant(t, -2), LAB_OK);
        expect_all("constant", t, -2);
        lab_tensor_destroy(&t);
    }
}

/* Rows of a wide matrix and columns of a tall one are orthonormal, times the gain. */
static void orthogonal_matrices_are_orthogonal(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        int64_t rows = i % 2 ? 7 : 4, columns = i % 2 ? 4 : 7, few = 4, many = 7;
        lab_dtype dtype = i < 2 ? LAB_F64 : LAB_F32;
        lab_tensor *t;
        assert_int_equal(lab_tensor_create(&t, dtype, 2, (int64_t[]){rows, columns}), LAB_OK);
        assert_int_equal(lab_init_orthogonal(t, 3, check_seed(), 1), LAB_OK);
        for (int64_t a = 0; a < few; a++)
            for (int64_t b = 0; b < few; b++) {
                double dot = 0;
                for (int64_t j = 0; j < many; j++)
                    dot += rows < columns ? element_of(t, a * many + j) * element_of(t, b * many + j)
                                          : element_of(t, j * few + a) * element_of(t, j * few + b);
                assert_true(fabs(dot - (a == b ? 9 : 0)) < (i < 2 ? 1e-13 : 1e-5));
            }
        lab_tensor_destroy(&t);
    }
}

static lab_status draw_as(int kind, lab_tensor *t, uint64_t seed, uint64_t stream)
{
    return kind == 0   ? lab_init_normal(t, 1, seed, stream)
           : kind == 1 ? lab_init_xavier(t, 1, seed, stream)
                       : lab_init_orthogonal(t, 1, seed, stream);
}

/* Another seed, or another stream, and every draw is another. */
static void seeds_and_streams_share_no_draws(void **state)
{
    (void)state;
    const uint64_t seeds[] = {5, 6, 5, 5, 5 + (1ull << 32)}, streams[] = {1, 1, 2, 1 + (1ull << 32), 1};
    for (int kind = 0; kind < 3; kind++) {
        lab_tensor *t[5];
        for (int i = 0; i < 5; i++) {
            assert_int_equal(lab_tensor_create(&t[i], LAB_F64, 2, (int64_t[]){3, 5}), LAB_OK);
            assert_int_equal(draw_as(kind, t[i], seeds[i], streams[i]), LAB_OK);
            for (int64_t j = 0; i > 0 && j < 15; j++)
                assert_true(element_of(t[i], j) != element_of(t[0], j));
        }
        for (int i = 0; i < 5; i++)
            lab_tensor_destroy(&t[i]);
    }
}

static void draws_do_not_depend_on_strides(void **state)
{
    (void)state;
    lab_tensor *t;
    assert_int_equal(lab_tensor_create(&t, LAB_F64, 2, (int64_t[]){30, 20}), LAB_OK);
    assert_int_equal(lab_init_normal(t, 0.02, 3, 9), LAB_OK);
    lab_tensor *strided = leaf_strided(t);
    assert_int_equal(lab_init_zeros(strided), LAB_OK);
    assert_int_equal(lab_init_normal(strided, 0.02, 3, 9), LAB_OK);
    expect_same("draws", strided, t);
    lab_tensor_destroy(&t);
    lab_tensor_destroy(&strided);
}

static void wrong_initialisers_are_named(void **state)
{
    (void)state;
    lab_tensor *whole = leaf_of_integers(1, (int64_t[]){1}, (int64_t[]){0}), *vector;
    assert_int_equal(lab_tensor_create(&vector, LAB_F32, 1, (int64_t[]){3}), LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
    assert_int_equal(lab_init_normal(NULL, 1, 0, 0), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_init_normal(whole, 1, 0, 0), LAB_ERR_DTYPE);
    assert_int_equal(lab_init_constant(vector, NAN), LAB_ERR_RANGE);
    assert_int_equal(lab_init_xavier(vector, 1, 0, 0), LAB_ERR_SHAPE);
    assert_non_null(strstr(lab_last_message(), "matrix"));
    assert_int_equal(lab_init_orthogonal(vector, 1, 0, 0), LAB_ERR_SHAPE);
    assert_int_equal(lab_init_zeros(lab_neg(g, vector)), LAB_ERR_STATE);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&whole);
    lab_tensor_destroy(&vector);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initialisers_have_their_spread),   cmocka_unit_test(orthogonal_matrices_are_orthogonal),
        cmocka_unit_test(seeds_and_streams_share_no_draws), cmocka_unit_test(draws_do_not_depend_on_strides),
        cmocka_unit_test(wrong_initialisers_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
