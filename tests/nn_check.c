/* nn_check.c - leaves, comparisons and refusals for the tests of attention and layers. */
#include "nn_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Draws ----------------------------------------------------------------------------------------------------------- */

uint64_t check_seed(void)
{
    const char *text = getenv("LAB_TEST_SEED");
    return text ? strtoull(text, NULL, 0) : 20240607;
}

uint64_t draw(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u; /* splitmix64 */
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint64_t draw_start(const char *name)
{
    uint64_t state = check_seed();
    for (; *name; name++)
        state = state * 31 + (uint64_t)*name;
    draw(&state);
    return state;
}

double draw_between(uint64_t *state, double low, double high)
{
    return low + (high - low) * (double)(draw(state) >> 11) * 0x1p-53;
}

int64_t draw_size(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(draw(state) % (uint64_t)(high - low + 1));
}

/* ---- Leaves ---------------------------------------------------------------------------------------------------------- */

int64_t count_of(int rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    return count;
}

static void store(void *data, lab_dtype dtype, int64_t i, double value)
{
    if (dtype == LAB_F32)
        ((float *)data)[i] = (float)value;
    else if (dtype == LAB_F64)
        ((double *)data)[i] = value;
    else if (dtype == LAB_I64)
        ((int64_t *)data)[i] = (int64_t)value;
    else
        ((bool *)data)[i] = value != 0;
}

lab_tensor *leaf_of_doubles(lab_dtype dtype, int rank, const int64_t *shape, const double *values)
{
    lab_tensor *t;
    assert_int_equal(lab_tensor_create(&t, dtype, rank, shape), LAB_OK);
    for (int64_t i = 0; i < lab_tensor_numel(t); i++)
        store(lab_tensor_data(t), dtype, i, values[i]);
    return t;
}

lab_tensor *leaf_drawn(uint64_t *state, lab_dtype dtype, int rank, const int64_t *shape, double scale)
{
    lab_tensor *t;
    assert_int_equal(lab_tensor_create(&t, dtype, rank, shape), LAB_OK);
    for (int64_t i = 0; i < lab_tensor_numel(t); i++)
        store(lab_tensor_data(t), dtype, i, scale * draw_between(state, -1, 1));
    return t;
}

lab_tensor *leaf_of_integers(int rank, const int64_t *shape, const int64_t *values)
{
    lab_tensor *t;
    assert_int_equal(lab_tensor_from(&t, LAB_I64, rank, shape, values), LAB_OK);
    return t;
}

lab_tensor *leaf_of_bools(int rank, const int64_t *shape, const bool *values)
{
    lab_tensor *t;
    assert_int_equal(lab_tensor_from(&t, LAB_BOOL, rank, shape, values), LAB_OK);
    return t;
}

static void release(void *data, void *ctx)
{
    (void)ctx;
    free(data);
}

static int64_t place_of(const lab_tensor *t, int64_t i)
{
    int64_t place = 0;
    for (int axis = lab_tensor_rank(t) - 1; axis >= 0; axis--) {
        place += i % lab_tensor_size(t, axis) * lab_tensor_stride(t, axis);
        i /= lab_tensor_size(t, axis);
    }
    return place;
}

lab_tensor *leaf_strided(const lab_tensor *of)
{
    int rank = lab_tensor_rank(of);
    int64_t shape[LAB_MAX_RANK], strides[LAB_MAX_RANK], stride = 1;
    for (int i = 0; i < rank; i++)
        shape[i] = lab_tensor_size(of, i);
    strides[rank - 2] = stride;
    stride *= shape[rank - 2] + 1;
    strides[rank - 1] = stride;
    stride *= shape[rank - 1] + 1;
    for (int i = rank - 3; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape[i];
    }
    void *data = calloc((size_t)stride + 1, lab_dtype_size(lab_tensor_dtype(of)));
    assert_non_null(data);
    lab_tensor *t;
    assert_int_equal(lab_tensor_wrap(&t, lab_tensor_dtype(of), rank, shape, strides, data, release, NULL), LAB_OK);
    for (int64_t i = 0; i < lab_tensor_numel(of); i++)
        store(data, lab_tensor_dtype(of), place_of(t, i), element_of(of, i));
    return t;
}

double element_of(const lab_tensor *t, int64_t i)
{
    int64_t place = place_of(t, i);
    const void *data = lab_tensor_data(t);
    switch (lab_tensor_dtype(t)) {
    case LAB_F32:
        return ((const float *)data)[place];
    case LAB_F64:
        return ((const double *)data)[place];
    case LAB_I64:
        return (double)((const int64_t *)data)[place];
    case LAB_BOOL:
        return ((const bool *)data)[place];
    }
    return NAN;
}

double *elements_of(const lab_tensor *t)
{
    const size_t n = (size_t)lab_tensor_numel(t);
    double *values = malloc(n * sizeof *values + 1);
    assert_non_null(values);
    if (lab_tensor_dtype(t) == LAB_F64) {
        assert_int_equal(lab_tensor_read(t, values, n * sizeof *values), LAB_OK);
        return values;
    }
    float *singles = lab_tensor_dtype(t) == LAB_F32 ? malloc(n * sizeof *singles + 1) : NULL;
    if (singles)
        assert_int_equal(lab_tensor_read(t, singles, n * sizeof *singles), LAB_OK);
    for (size_t i = 0; i < n; i++)
        values[i] = singles ? (double)singles[i] : element_of(t, (int64_t)i);
    free(singles);
    return values;
}

/* ---- Comparisons ------------------------------------------------------------------------------------------------------ */

/* Worst error relative to the largest finite |want|; infinity where NaN or infinities do not match. */
static double worst(const lab_tensor *got, const double *want, int64_t n, int64_t *where)
{
    double largest = 0, error = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(want[i]) && fabs(want[i]) > largest)
            largest = fabs(want[i]);
    *where = 0;
    double *values = elements_of(got);
    for (int64_t i = 0; i < n; i++) {
        double value = values[i], apart = fabs(value - want[i]);
        if (isnan(value) && isnan(want[i]))
            continue;
        if (!isfinite(value) || !isfinite(want[i]))
            apart = value == want[i] ? 0 : INFINITY;
        if (apart > error) {
            error = apart;
            *where = i;
        }
    }
    free(values);
    return error == 0 ? 0 : largest > 0 ? error / largest : INFINITY;
}

double error_of(const lab_tensor *got, const double *want, int64_t n)
{
    int64_t where;
    return worst(got, want, n, &where);
}

void expect_close(const char *what, const lab_tensor *got, const double *want, int64_t n, double tolerance)
{
    if (!got)
        fail_msg("seed %llu: %s: there is no tensor", (unsigned long long)check_seed(), what);
    assert_int_equal(lab_tensor_numel(got), n);
    int64_t where;
    double error = worst(got, want, n, &where);
    if (!(error <= tolerance))
        fail_msg("seed %llu: %s: element %lld is %.17g, should be %.17g (error %.2g of the largest, %.2g allowed)",
                 (unsigned long long)check_seed(), what, (long long)where, element_of(got, where), want[where], error,
                 tolerance);
}

void expect_same(const char *what, const lab_tensor *got, const lab_tensor *want)
{
    if (!got || !want)
        fail_msg("seed %llu: %s: there is no tensor", (unsigned long long)check_seed(), what);
    assert_int_equal(lab_tensor_numel(got), lab_tensor_numel(want));
    for (int64_t i = 0; i < lab_tensor_numel(got); i++) {
        double a = element_of(got, i), b = element_of(want, i);
        if (!(a == b) && !(isnan(a) && isnan(b)))
            fail_msg("seed %llu: %s: element %lld is %.17g, should be exactly %.17g", (unsigned long long)check_seed(),
                     what, (long long)i, a, b);
    }
}

void expect_all(const char *what, const lab_tensor *got, double value)
{
    if (!got)
        fail_msg("seed %llu: %s: there is no tensor", (unsigned long long)check_seed(), what);
    for (int64_t i = 0; i < lab_tensor_numel(got); i++) {
        double a = element_of(got, i);
        if (!(a == value) && !(isnan(a) && isnan(value)))
            fail_msg("seed %llu: %s: element %lld is %.17g, should be exactly %.17g", (unsigned long long)check_seed(),
                     what, (long long)i, a, value);
    }
}

void expect_healthy(const lab_graph *g)
{
    if (lab_graph_status(g) != LAB_OK)
        fail_msg("seed %llu: the graph failed: %s", (unsigned long long)check_seed(), lab_graph_message(g));
}

void expect_refusal(const lab_graph *g, lab_status status, const char *word)
{
    if (lab_graph_status(g) != status)
        fail_msg("%s expected (about %s), the graph has %s: %s", lab_status_name(status), word,
                 lab_status_name(lab_graph_status(g)), lab_graph_message(g));
    if (!strstr(lab_graph_message(g), word))
        fail_msg("the message should name %s: %s", word, lab_graph_message(g));
}

void expect_gradients(const char *what, lab_fn f, void *ctx, int n, lab_tensor **xs, const lab_gradcheck_opts *opts)
{
    lab_gradcheck_report report;
    lab_status status = lab_gradcheck(f, ctx, n, xs, opts, &report);
    if (status != LAB_OK)
        fail_msg("seed %llu: %s: %s", (unsigned long long)check_seed(), what, lab_last_message());
    if (!report.passed)
        fail_msg("seed %llu: %s: gradient of input %d, element %lld is %.12g, by differences %.12g (error %.2g)",
                 (unsigned long long)check_seed(), what, report.input, (long long)report.element, report.analytic,
                 report.numeric, report.worst_error);
    assert_true(report.entries > 0);
}
