/* test_ops_random.c - random numbers are a function of seed and index: neither shape nor order nor threads matter. */
#include "op_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef lab_tensor *(*random_op)(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, uint64_t seed);

static const struct {
    const char *name;
    random_op make;
} random_ops[] = {{"randn", lab_randn}, {"rand", lab_rand}};

static void a_value_depends_on_seed_and_index_alone(void **state)
{
    (void)state;
    const uint64_t seed = test_seed();
    lab_graph *g = lab_graph_create(NULL);
    for (int op = 0; op < 2; op++)
        for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
            size_t size = lab_dtype_size(dtype);
            char *whole = bits_of(random_ops[op].make(g, dtype, 1, (int64_t[]){5000}, seed));
            char *again = bits_of(random_ops[op].make(g, dtype, 1, (int64_t[]){5000}, seed));
            char *other = bits_of(random_ops[op].make(g, dtype, 1, (int64_t[]){5000}, seed + 1));
            char *cube = bits_of(random_ops[op].make(g, dtype, 3, (int64_t[]){7, 1, 11}, seed));
            char *scalar = bits_of(random_ops[op].make(g, dtype, 0, NULL, seed));
            if (memcmp(whole, again, 5000 * size) != 0)
                fail_msg("%s: two calls differ", random_ops[op].name);
            if (memcmp(whole, cube, 77 * size) != 0)
                fail_msg("%s: values depend on the shape", random_ops[op].name);
            if (memcmp(whole, scalar, size) != 0)
                fail_msg("%s: element 0 depends on the rank", random_ops[op].name);
            for (int i = 0, same = 0; i < 5000; i++)
                if ((same += memcmp(whole + (size_t)i * size, other + (size_t)i * size, size) == 0) > 5)
                    fail_msg("%s: another seed gives the same values", random_ops[op].name);
            free(whole), free(again), free(other), free(cube), free(scalar);
        }
    lab_graph_destroy(&g);
}

/* Sums of powers up to the fourth, and of products of neighbours, within 5 standard deviations of what they should be.
 * The variance of a moment follows from the moments of twice its order. */
static void check_moments(const char *name, lab_dtype dtype, const lab_tensor *t, const double *moments)
{
    array x;
    array_of(t, &x);
    const double n = (double)x.numel;
    for (int power = 1; power <= 4; power++) {
        double sum = 0, variance = moments[2 * power] - moments[power] * moments[power];
        for (int64_t i = 0; i < x.numel; i++)
            sum += pow((double)x.data[i], power);
        if (!(fabs(sum / n - moments[power]) <= 5 * sqrt(variance / n)))
            fail_msg("%s %s: seed %llu: moment %d is %.6g, expected %.6g +- %.2g", name, lab_dtype_name(dtype),
                     (unsigned long long)test_seed(), power, sum / n, moments[power], sqrt(variance / n));
    }
    for (int lag = 1; lag <= 4; lag++) {
        double sum = 0, deviation = moments[2] - moments[1] * moments[1];
        for (int64_t i = 0; i + lag < x.numel; i++)
            sum += (double)((x.data[i] - moments[1]) * (x.data[i + lag] - moments[1]));
        if (!(fabs(sum / n) <= 5 * deviation / sqrt(n)))
            fail_msg("%s %s: seed %llu: neighbours at distance %d are correlated: %.3g", name, lab_dtype_name(dtype),
                     (unsigned long long)test_seed(), lag, sum / n / deviation);
    }
    arrays_free();
}

static void moments_are_those_of_the_distribution(void **state)
{
    (void)state;
    const double normal[] = {1, 0, 1, 0, 3, 0, 15, 0, 105};
    double uniform[9];
    for (int power = 0; power <= 8; power++)
        uniform[power] = 1.0 / (power + 1);
    lab_graph *g = lab_graph_create(NULL);
    for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
        check_moments("randn", dtype, lab_randn(g, dtype, 1, (int64_t[]){200000}, test_seed()), normal);
        check_moments("rand", dtype, lab_rand(g, dtype, 1, (int64_t[]){200000}, test_seed()), uniform);
    }
    lab_graph_destroy(&g);
}

static void uniform_numbers_are_in_the_half_open_interval(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    for (lab_dtype dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
        array x;
        array_of(lab_rand(g, dtype, 2, (int64_t[]){300, 1000}, test_seed()), &x);
        for (int64_t i = 0; i < x.numel; i++)
            if (!(x.data[i] >= 0 && x.data[i] < 1))
                fail_msg("rand: element %lld is %.17Lg", (long long)i, x.data[i]);
        arrays_free();
    }
    lab_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_depends_on_seed_and_index_alone),
        cmocka_unit_test(moments_are_those_of_the_distribution),
        cmocka_unit_test(uniform_numbers_are_in_the_half_open_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
