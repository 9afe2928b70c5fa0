/* test_nonfinite.c - the first op that made a NaN or an infinity is found, with what it was given. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn_check.h"

static void expect_found(const lab_graph *g, const char *const *words)
{
    char text[512], cut[8];
    const size_t length = lab_graph_find_nonfinite(g, text, sizeof text);
    assert_int_equal(length, strlen(text));
    for (; *words; words++)
        if (!strstr(text, *words))
            fail_msg("\"%s\" does not say \"%s\"", text, *words);
    assert_int_equal(lab_graph_find_nonfinite(g, cut, sizeof cut), length); /* as snprintf does */
    assert_true(strlen(cut) == sizeof cut - 1 && strncmp(cut, text, sizeof cut - 1) == 0);
    assert_int_equal(lab_graph_find_nonfinite(g, NULL, 0), length);
}

static void the_first_op_is_named_with_its_operands(void **state)
{
    (void)state;
    lab_tensor *x = leaf_of_doubles(LAB_F64, 2, (int64_t[]){2, 2}, (double[]){1, -2, 3, 800});
    lab_tensor *ones = leaf_of_doubles(LAB_F32, 1, (int64_t[]){2}, (double[]){1, -1});
    lab_graph *g = lab_graph_create(NULL);
    char text[64] = "x";
    lab_tensor *y = lab_add(g, lab_transpose(g, x, 0, 1), x);
    assert_int_equal(lab_graph_find_nonfinite(g, text, sizeof text), 0);
    assert_string_equal(text, "");
    lab_log(g, lab_sub(g, lab_exp(g, y), lab_exp(g, y)));
    expect_found(g, (const char *[]){"exp gave f64 [2, 2] from ", ", 1 infinite", "operand 1 f64 [2, 2] from ",
                                     "to 1600", NULL});
    lab_graph_reset(g);
    lab_tensor *forbidden = lab_log(g, lab_relu(g, ones)); /* -inf alone is how masks forbid */
    assert_int_equal(lab_graph_find_nonfinite(g, text, sizeof text), 0);
    lab_mul(g, forbidden, lab_relu(g, ones));
    expect_found(g, (const char *[]){"mul gave f32 [2] from 0 to 0, 1 NaN, out of operand 1 f32 [2] from 0 to 0, 1 "
                                     "infinite, operand 2 f32 [2] from 0 to 1",
                                     NULL});
    expect_healthy(g);
    assert_int_equal(lab_graph_find_nonfinite(NULL, text, sizeof text), 0);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&x);
    lab_tensor_destroy(&ones);
}

static void the_peak_is_a_number_of_operations(void **state)
{
    (void)state;
    double f32 = 0, f64 = 0;
    for (int i = 0; i < 5; i++) { /* another program may have the processor for a while */
        f32 = fmax(f32, lab_fma_peak(false, 0.01));
        f64 = fmax(f64, lab_fma_peak(true, 0.01));
    }
    assert_true(f32 > 1e8 && f64 > 1e8 && f32 < 1e15 && f64 < 1e15);
    assert_true(lab_fma_peak(false, 0) == 0 && lab_fma_peak(false, -1) == 0 && lab_fma_peak(false, 1e9) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_op_is_named_with_its_operands),
        cmocka_unit_test(the_peak_is_a_number_of_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
