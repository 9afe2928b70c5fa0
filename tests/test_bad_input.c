/* test_bad_input.c - every public function that is not an op, given what it cannot take: the right code, a sentence
 * that names what was wrong, and nothing lost. (The ops have a table of their own, op_cases_bad*.c.) */
#include <llmlab.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define refused(call, status, words)                                                                                   \
    do {                                                                                                               \
        assert_int_equal(call, status);                                                                                \
        if (!strstr(lab_last_message(), words))                                                                        \
            fail_msg("%s: \"%s\" does not say \"%s\"", #call, lab_last_message(), words);                              \
    } while (0)

static const int64_t two_by_three[] = {2, 3};

static void making_tensors(void **state)
{
    (void)state;
    lab_tensor *t = NULL;
    double data[6] = {0};
    refused(lab_tensor_create(NULL, LAB_F32, 2, two_by_three), LAB_ERR_ARGUMENT, "out");
    refused(lab_tensor_create(&t, (lab_dtype)9, 2, two_by_three), LAB_ERR_DTYPE, "9");
    refused(lab_tensor_create(&t, LAB_F32, 9, two_by_three), LAB_ERR_RANGE, "rank 9");
    refused(lab_tensor_create(&t, LAB_F32, -1, two_by_three), LAB_ERR_RANGE, "rank -1");
    refused(lab_tensor_create(&t, LAB_F32, 2, NULL), LAB_ERR_ARGUMENT, "shape");
    refused(lab_tensor_create(&t, LAB_F32, 2, (int64_t[]){2, -3}), LAB_ERR_RANGE, "-3");
    refused(lab_tensor_create(&t, LAB_F32, 3, (int64_t[]){1 << 30, 1 << 30, 1 << 30}), LAB_ERR_RANGE, "overflows");
    refused(lab_tensor_create(&t, LAB_F64, 2, (int64_t[]){INT64_MAX, 0}), LAB_ERR_RANGE, "overflows");
    refused(lab_tensor_from(&t, LAB_F64, 2, two_by_three, NULL), LAB_ERR_ARGUMENT, "data");
    assert_null(t);
    refused(lab_tensor_wrap(&t, LAB_F64, 2, two_by_three, NULL, NULL, NULL, NULL), LAB_ERR_ARGUMENT, "data");
    refused(lab_tensor_wrap(&t, LAB_F64, 2, two_by_three, (int64_t[]){3, -1}, data, NULL, NULL), LAB_ERR_RANGE,
            "stride -1");
    refused(lab_tensor_wrap(&t, LAB_F64, 2, (int64_t[]){0, 3}, (int64_t[]){3, -1}, NULL, NULL, NULL), LAB_ERR_RANGE,
            "negative");
    refused(lab_tensor_wrap(&t, LAB_F64, 2, two_by_three, (int64_t[]){INT64_MAX, INT64_MAX}, data, NULL, NULL),
            LAB_ERR_RANGE, "overflows");
    refused(lab_tensor_wrap(&t, LAB_F64, 1, (int64_t[]){2}, NULL, (char *)data + 1, NULL, NULL), LAB_ERR_ARGUMENT,
            "aligned");
    refused(lab_tensor_clone(&t, NULL), LAB_ERR_ARGUMENT, "NULL");
    assert_null(t);
    assert_int_equal(lab_tensor_from(&t, LAB_F64, 2, (int64_t[]){0, 3}, NULL), LAB_OK); /* nothing to copy */
    refused(lab_tensor_clone(NULL, t), LAB_ERR_ARGUMENT, "out");
    lab_tensor_destroy(&t);
}

static void reading_and_writing(void **state)
{
    (void)state;
    lab_tensor *t;
    double data[6] = {0};
    assert_int_equal(lab_tensor_create(&t, LAB_F64, 2, two_by_three), LAB_OK);
    refused(lab_tensor_read(NULL, data, sizeof data), LAB_ERR_ARGUMENT, "NULL");
    refused(lab_tensor_read(t, NULL, sizeof data), LAB_ERR_ARGUMENT, "buffer");
    refused(lab_tensor_read(t, data, sizeof data - 1), LAB_ERR_SHAPE, "47 bytes");
    refused(lab_tensor_write(NULL, data, sizeof data), LAB_ERR_ARGUMENT, "NULL");
    refused(lab_tensor_write(t, data, sizeof data + 8), LAB_ERR_SHAPE, "f64 [2, 3] has 48");
    refused(lab_tensor_write(t, NULL, sizeof data), LAB_ERR_ARGUMENT, "buffer");
    lab_tensor_destroy(&t);
    /* Elements that share a place are for reading. */
    assert_int_equal(lab_tensor_wrap(&t, LAB_F64, 2, two_by_three, (int64_t[]){0, 1}, data, NULL, NULL), LAB_OK);
    assert_int_equal(lab_tensor_read(t, (double[6]){0}, sizeof data), LAB_OK);
    refused(lab_tensor_write(t, data, sizeof data), LAB_ERR_STATE, "share");
    refused(lab_tensor_require_grad(t, true), LAB_ERR_STATE, "share");
    lab_tensor_destroy(&t);
    assert_int_equal(lab_tensor_wrap(&t, LAB_F64, 2, two_by_three, (int64_t[]){2, 1}, data, NULL, NULL), LAB_OK);
    refused(lab_tensor_write(t, data, sizeof data), LAB_ERR_STATE, "share");
    lab_tensor_destroy(&t);
}

static void getters_answer_nothing_for_nothing(void **state)
{
    (void)state;
    lab_tensor *t;
    assert_int_equal(lab_tensor_create(&t, LAB_BOOL, 2, two_by_three), LAB_OK);
    assert_true(lab_tensor_size(t, 2) == 0 && lab_tensor_size(t, -3) == 0 && lab_tensor_size(t, -1) == 3);
    assert_true(lab_tensor_stride(t, 2) == 0 && lab_tensor_stride(t, 0) == 3);
    assert_true(lab_tensor_numel(NULL) == 0 && lab_tensor_rank(NULL) == 0 && lab_tensor_dtype(NULL) == LAB_F32);
    assert_null(lab_tensor_data(NULL));
    assert_null(lab_tensor_grad(NULL));
    assert_null(lab_tensor_grad(t));
    lab_tensor_touch(NULL);
    lab_tensor_clear_grad(NULL);
    assert_string_equal(lab_dtype_name((lab_dtype)77), "unknown");
    assert_int_equal(lab_dtype_size((lab_dtype)77), 0);
    assert_string_equal(lab_status_name((lab_status)-55), "unknown status");
    assert_string_equal(lab_status_name(LAB_ERR_FORMAT), "LAB_ERR_FORMAT");
    lab_tensor_destroy(&t);
}

static void requiring_gradients(void **state)
{
    (void)state;
    lab_tensor *t, *x;
    assert_int_equal(lab_tensor_create(&t, LAB_I64, 0, NULL), LAB_OK);
    refused(lab_tensor_require_grad(NULL, true), LAB_ERR_ARGUMENT, "NULL");
    refused(lab_tensor_require_grad(t, true), LAB_ERR_DTYPE, "i64");
    lab_tensor_destroy(&t);
    lab_graph *g = lab_graph_create(NULL);
    x = lab_full(g, LAB_F32, 0, NULL, 1);
    refused(lab_tensor_require_grad(x, true), LAB_ERR_STATE, "graph");
    assert_int_equal(lab_tensor_create(&t, LAB_F32, 0, NULL), LAB_OK);
    assert_int_equal(lab_tensor_require_grad(t, true), LAB_OK);
    lab_backward(g, lab_mul(g, t, x));
    assert_non_null(lab_tensor_grad(t));
    refused(lab_tensor_require_grad(lab_tensor_grad(t), true), LAB_ERR_STATE, "gradient");
    lab_tensor *gradient = lab_tensor_grad(t);
    lab_tensor_destroy(&gradient); /* only the pointer */
    assert_non_null(lab_tensor_grad(t));
    lab_graph_destroy(&g);
    lab_tensor_destroy(&t);
}

/* Each call starts on a graph that is well. */
#define graph_refused(g, call, status, words)                                                                          \
    do {                                                                                                               \
        lab_graph_reset(g);                                                                                            \
        lab_tensor *y = lab_full(g, LAB_F64, 1, (int64_t[]){2}, 1), *x = y, *d = y;                                    \
        lab_tensor *one = lab_sum_all(g, y), *whole = lab_full(g, LAB_I64, 0, NULL, 1);                                \
        (void)x, (void)d, (void)one, (void)whole;                                                                      \
        call;                                                                                                          \
        assert_int_equal(lab_graph_status(g), status);                                                                 \
        if (!strstr(lab_graph_message(g), words))                                                                      \
            fail_msg("%s: \"%s\" does not say \"%s\"", #call, lab_graph_message(g), words);                            \
    } while (0)

static void differentiating(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL), *other = lab_graph_create(NULL);
    lab_tensor *stranger = lab_full(other, LAB_F64, 0, NULL, 1);
    graph_refused(g, lab_backward(g, NULL), LAB_ERR_ARGUMENT, "y is NULL");
    graph_refused(g, lab_backward(g, y), LAB_ERR_SHAPE, "[2]");
    graph_refused(g, lab_backward(g, whole), LAB_ERR_DTYPE, "i64");
    graph_refused(g, lab_backward(g, stranger), LAB_ERR_STATE, "not on this graph");
    graph_refused(g, lab_grad(g, NULL, NULL, 1, &x, &d, NULL), LAB_ERR_ARGUMENT, "y is NULL");
    graph_refused(g, lab_grad(g, stranger, NULL, 1, &x, &d, NULL), LAB_ERR_STATE, "not on this graph");
    graph_refused(g, lab_grad(g, one, y, 1, &x, &d, NULL), LAB_ERR_SHAPE, "seed");
    graph_refused(g, lab_grad(g, one, whole, 1, &x, &d, NULL), LAB_ERR_DTYPE, "seed");
    graph_refused(g, lab_grad(g, one, stranger, 1, &x, &d, NULL), LAB_ERR_STATE, "seed");
    graph_refused(g, lab_grad(g, one, NULL, -1, &x, &d, NULL), LAB_ERR_ARGUMENT, "negative");
    graph_refused(g, lab_grad(g, one, NULL, 1, NULL, &d, NULL), LAB_ERR_ARGUMENT, "xs");
    graph_refused(g, lab_grad(g, one, NULL, 1, &x, NULL, NULL), LAB_ERR_ARGUMENT, "grads");
    graph_refused(g, lab_grad(g, one, NULL, 1, &whole, &d, NULL), LAB_ERR_DTYPE, "xs[0]");
    graph_refused(g, lab_grad(g, one, NULL, 2, (lab_tensor *[]){x, NULL}, (lab_tensor *[]){d, d}, NULL),
                  LAB_ERR_ARGUMENT, "xs[1]");
    graph_refused(g, lab_grad(g, one, NULL, 1, &x, &d, &(lab_grad_opts){.reserved = {0, 0, 3}}), LAB_ERR_ARGUMENT,
                  "reserved");
    graph_refused(g, lab_detach(g, NULL), LAB_ERR_ARGUMENT, "detach");
    graph_refused(g, lab_graph_release(g, (lab_mark){{0}}), LAB_ERR_STATE, "inference");
    lab_graph_destroy(&g);
    lab_graph_destroy(&other);
}

static lab_tensor *identity(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_add_scalar(g, xs[0], 0);
}

static lab_tensor *whole_numbers(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_cast(g, xs[0], LAB_I64);
}

static void checkpoints_and_gradcheck(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL), *other = lab_graph_create(NULL);
    lab_tensor *stranger = lab_full(other, LAB_F64, 0, NULL, 1), *leaf;
    graph_refused(g, lab_checkpoint(g, NULL, 1, &x, NULL), LAB_ERR_ARGUMENT, "f is NULL");
    graph_refused(g, lab_checkpoint(g, identity, -1, &x, NULL), LAB_ERR_ARGUMENT, "negative");
    graph_refused(g, lab_checkpoint(g, identity, 1, NULL, NULL), LAB_ERR_ARGUMENT, "xs is NULL");
    graph_refused(g, lab_checkpoint(g, identity, 1, (lab_tensor *[]){NULL}, NULL), LAB_ERR_ARGUMENT, "xs[0]");
    graph_refused(g, lab_checkpoint(g, identity, 1, &stranger, NULL), LAB_ERR_STATE, "another graph");
    assert_int_equal(lab_tensor_from(&leaf, LAB_F64, 1, (int64_t[]){2}, (double[]){1, 2}), LAB_OK);
    lab_gradcheck_report report;
    refused(lab_gradcheck(NULL, NULL, 1, &leaf, NULL, &report), LAB_ERR_ARGUMENT, "f is NULL");
    refused(lab_gradcheck(identity, NULL, -1, &leaf, NULL, &report), LAB_ERR_ARGUMENT, "negative");
    refused(lab_gradcheck(identity, NULL, 1, NULL, NULL, &report), LAB_ERR_ARGUMENT, "xs is NULL");
    refused(lab_gradcheck(identity, NULL, 1, (lab_tensor *[]){NULL}, NULL, &report), LAB_ERR_ARGUMENT, "xs[0]");
    refused(lab_gradcheck(identity, NULL, 1, &stranger, NULL, &report), LAB_ERR_STATE, "leaf");
    refused(lab_gradcheck(identity, NULL, 1, &leaf, &(lab_gradcheck_opts){.step = -1}, &report), LAB_ERR_RANGE,
            "negative");
    refused(lab_gradcheck(identity, NULL, 1, &leaf, &(lab_gradcheck_opts){.tolerance = NAN}, &report), LAB_ERR_RANGE,
            "tolerance");
    refused(lab_gradcheck(identity, NULL, 1, &leaf, &(lab_gradcheck_opts){.reserved = {1}}, &report), LAB_ERR_ARGUMENT,
            "reserved");
    refused(lab_gradcheck(whole_numbers, NULL, 1, &leaf, NULL, &report), LAB_ERR_DTYPE, "i64");
    assert_int_equal(lab_gradcheck(identity, NULL, 1, &leaf, NULL, NULL), LAB_OK);
    lab_tensor_destroy(&leaf);
    lab_graph_destroy(&g);
    lab_graph_destroy(&other);
}

static void linear_algebra(void **state)
{
    (void)state;
    lab_tensor *cube, *whole, *bad, *q, *r, *s;
    double norm;
    assert_int_equal(lab_tensor_create(&cube, LAB_F64, 3, (int64_t[]){2, 2, 2}), LAB_OK);
    assert_int_equal(lab_tensor_create(&whole, LAB_I64, 2, two_by_three), LAB_OK);
    assert_int_equal(lab_tensor_from(&bad, LAB_F64, 2, (int64_t[]){1, 2}, (double[]){NAN, 1}), LAB_OK);
    refused(lab_qr(NULL, &q, &r), LAB_ERR_ARGUMENT, "lab_qr");
    refused(lab_qr(cube, NULL, &r), LAB_ERR_ARGUMENT, "q");
    refused(lab_qr(cube, &q, &r), LAB_ERR_SHAPE, "[2, 2, 2]");
    refused(lab_qr(whole, &q, &r), LAB_ERR_DTYPE, "i64");
    assert_null(q);
    assert_null(r);
    refused(lab_svd(cube, NULL, &s, NULL), LAB_ERR_SHAPE, "[2, 2, 2]");
    refused(lab_svd(bad, NULL, NULL, NULL), LAB_ERR_ARGUMENT, "s");
    refused(lab_svd(bad, NULL, &s, NULL), LAB_ERR_RANGE, "lab_svd");
    assert_null(s);
    refused(lab_spectral_norm(bad, NULL), LAB_ERR_ARGUMENT, "norm");
    refused(lab_spectral_norm(bad, &norm), LAB_ERR_RANGE, "lab_spectral_norm");
    refused(lab_spectral_norm(whole, &norm), LAB_ERR_DTYPE, "i64");
    lab_tensor_destroy(&cube);
    lab_tensor_destroy(&whole);
    lab_tensor_destroy(&bad);
}

static void runtime_settings(void **state)
{
    (void)state;
    char text[200];
    refused(lab_set_threads(-1), LAB_ERR_RANGE, "-1");
    refused(lab_set_threads(257), LAB_ERR_RANGE, "257");
    refused(lab_set_kernel_level("sse9"), LAB_ERR_ARGUMENT, "sse9");
#if defined(__x86_64__)
    refused(lab_set_kernel_level("neon"), LAB_ERR_UNSUPPORTED, "neon");
#endif
    refused(lab_set_allocator(&(lab_allocator){0}), LAB_ERR_ARGUMENT, "allocate");
    size_t length = lab_info(NULL, 0);
    assert_true(length > 20);
    assert_int_equal(lab_info(NULL, sizeof text), length);
    assert_int_equal(lab_info(text, sizeof text), length);
    assert_int_equal(strlen(text), length);
    assert_int_equal(lab_info(text, 5), length);
    assert_int_equal(strlen(text), 4);
    assert_non_null(strstr(lab_version(), "."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(making_tensors),
        cmocka_unit_test(reading_and_writing),
        cmocka_unit_test(getters_answer_nothing_for_nothing),
        cmocka_unit_test(requiring_gradients),
        cmocka_unit_test(differentiating),
        cmocka_unit_test(checkpoints_and_gradcheck),
        cmocka_unit_test(linear_algebra),
        cmocka_unit_test(runtime_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
