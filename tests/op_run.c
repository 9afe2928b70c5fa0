/* op_run.c - operands, results, comparisons: what every test of ops does with a row of the table. */
#include "op_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Failures ----------------------------------------------------------------------------------------------- */

static const char *current_test;
static int failed_rows;

void rows_begin(const char *test)
{
    current_test = test;
    failed_rows = 0;
}

void rows_end(void)
{
    arrays_free();
    if (failed_rows)
        fail_msg("%s: %d failures, seed %llu", current_test, failed_rows, (unsigned long long)test_seed());
}

void row_fails(const run *r, const char *format, ...)
{
    enum { SHOWN = 60 };
    char sentence[512];
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    if (failed_rows++ < SHOWN)
        print_error("%s: %s (%s) %s: seed %llu: %s\n", current_test, r->c.op, r->c.variant, lab_dtype_name(r->real),
                    (unsigned long long)test_seed(), sentence);
}

/* ---- Random values ------------------------------------------------------------------------------------------ */

uint64_t test_seed(void)
{
    const char *text = getenv("LAB_TEST_SEED");
    return text ? strtoull(text, NULL, 10) : 1;
}

/* splitmix64 (Steele, Lea, Flood 2014). */
uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

double random_between(uint64_t *state, double low, double high)
{
    return low + (high - low) * ((double)(random_next(state) >> 11) * 0x1p-53);
}

/* A row's random numbers are its own, wherever it stands in the table. */
static uint64_t seed_of(const op_case *c, int operand)
{
    uint64_t seed = test_seed() * 1000003u + (uint64_t)operand;
    for (const char *p = c->op; *p; p++)
        seed = seed * 131 + (unsigned char)*p;
    for (const char *p = c->variant; *p; p++)
        seed = seed * 137 + (unsigned char)*p;
    return seed;
}

/* Places on a grid, shuffled; operand k is shifted by its part of a step. */
static void fill_distinct(const case_input *in, int operand, uint64_t *state, array *x)
{
    enum { PLACES = 128 };
    int64_t order[PLACES];
    for (int64_t i = 0; i < PLACES; i++)
        order[i] = i;
    for (int64_t i = PLACES - 1; i > 0; i--) {
        int64_t j = (int64_t)(random_next(state) % (uint64_t)(i + 1)), keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
    for (int64_t i = 0; i < x->numel; i++)
        x->data[i] =
            in->low + (in->high - in->low) * ((double)order[i % PLACES] + (operand + 1) / (CASE_INPUTS + 1.0)) / PLACES;
}

static void fill_operand(const op_case *c, int operand, array *x)
{
    const case_input *in = &c->in[operand];
    uint64_t state = seed_of(c, operand);
    if (in->fill == DISTINCT)
        fill_distinct(in, operand, &state, x);
    for (int64_t i = 0; i < x->numel; i++) {
        double value = random_between(&state, in->low, in->high);
        if (in->fill == DISTINCT)
            value = (double)x->data[i];
        if (in->fill == SIGNED && random_next(&state) % 2)
            value = -value;
        if (in->fill == COUNTING)
            value = (double)i;
        if (x->dtype == LAB_I64)
            value = floor(value);
        if (x->dtype == LAB_BOOL)
            value = (double)(random_next(&state) % 2);
        x->data[i] = x->dtype == LAB_F32 ? (float)value : value;
    }
}

bool case_is_real(const op_case *c)
{
    for (int k = 0; k < c->n_inputs; k++)
        if (c->in[k].type == REAL)
            return true;
    return false;
}

void run_make(run *r, const op_case *c, lab_dtype real)
{
    *r = (run){.c = *c, .real = real};
    for (int k = 0; k < c->n_inputs; k++) {
        const case_input *in = &c->in[k];
        lab_dtype dtype = in->type == REAL ? real : in->type == WHOLE ? LAB_I64 : LAB_BOOL;
        array_make(&r->xs[k], dtype, in->rank, in->shape);
        fill_operand(c, k, &r->xs[k]);
    }
}

void run_operands(run *r, layout how)
{
    r->graph = lab_graph_create(NULL);
    for (int k = 0; k < r->c.n_inputs; k++)
        r->leaves[k] = leaf_of(r, &r->xs[k], how);
}

void run_free(run *r)
{
    for (int k = 0; k < CASE_INPUTS; k++)
        lab_tensor_destroy(&r->leaves[k]);
    lab_graph_destroy(&r->graph);
    arrays_free();
}

/* ---- Tensors and arrays ------------------------------------------------------------------------------------- */

void store_value(void *to, lab_dtype dtype, int64_t i, long double value)
{
    if (dtype == LAB_F32)
        ((float *)to)[i] = (float)value;
    else if (dtype == LAB_F64)
        ((double *)to)[i] = (double)value;
    else if (dtype == LAB_I64)
        ((int64_t *)to)[i] = (int64_t)value;
    else
        ((uint8_t *)to)[i] = value != 0;
}

static long double load_value(const void *from, lab_dtype dtype, int64_t i)
{
    if (dtype == LAB_F32)
        return ((const float *)from)[i];
    if (dtype == LAB_F64)
        return ((const double *)from)[i];
    if (dtype == LAB_I64)
        return ((const int64_t *)from)[i];
    return ((const uint8_t *)from)[i];
}

static void release_memory(void *data, void *context)
{
    (void)context;
    free(data);
}

lab_tensor *leaf_of(const run *r, const array *a, layout how)
{
    int64_t strides[LAB_MAX_RANK], gap = how == GAPS || how == REVERSED_GAPS ? 2 : 1, extent = gap;
    int64_t index[LAB_MAX_RANK] = {0};
    bool reversed = how == REVERSED || how == REVERSED_GAPS;
    for (int i = 0; i < a->rank; i++) {
        int axis = reversed ? i : a->rank - 1 - i;
        strides[axis] = extent;
        extent *= (a->shape[axis] > 0 ? a->shape[axis] : 1) * gap;
    }
    char *data = malloc((size_t)extent * lab_dtype_size(a->dtype));
    if (!data)
        abort();
    for (int64_t i = 0; i < extent; i++) /* what lies between must not be looked at */
        store_value(data, a->dtype, i, a->dtype == LAB_I64 ? 1e15L : (long double)NAN);
    for (int64_t i = 0; i < a->numel; i++) {
        int64_t place = 0;
        for (int axis = 0; axis < a->rank; axis++)
            place += index[axis] * strides[axis];
        store_value(data, a->dtype, place, a->data[i]);
        index_next(a->rank, a->shape, index);
    }
    lab_tensor *leaf = NULL;
    if (lab_tensor_wrap(&leaf, a->dtype, a->rank, a->shape, strides, data, release_memory, NULL) != LAB_OK) {
        row_fails(r, "an operand cannot be made: %s", lab_last_message());
        free(data);
    }
    return leaf;
}

void *bits_of(const lab_tensor *t)
{
    size_t bytes = (size_t)lab_tensor_numel(t) * lab_dtype_size(lab_tensor_dtype(t));
    void *data = malloc(bytes + 1);
    if (!data || lab_tensor_read(t, data, bytes) != LAB_OK)
        abort();
    return data;
}

void array_of(const lab_tensor *t, array *a)
{
    int64_t shape[LAB_MAX_RANK];
    for (int axis = 0; axis < lab_tensor_rank(t); axis++)
        shape[axis] = lab_tensor_size(t, axis);
    array_make(a, lab_tensor_dtype(t), lab_tensor_rank(t), shape);
    void *data = bits_of(t);
    for (int64_t i = 0; i < a->numel; i++)
        a->data[i] = load_value(data, a->dtype, i);
    free(data);
}

void weights_for(const run *r, const array *y, array *weights)
{
    uint64_t state = seed_of(&r->c, CASE_INPUTS);
    array_make(weights, y->dtype, y->rank, y->shape);
    for (int64_t i = 0; i < y->numel; i++) {
        double w = random_between(&state, 0.5, 1.5);
        weights->data[i] = (float)(random_next(&state) % 2 ? w : -w); /* exact in either dtype */
    }
}

/* ---- Comparing ---------------------------------------------------------------------------------------------- */

static const char *index_text(const array *a, int64_t place, char *text, size_t size)
{
    int64_t index[LAB_MAX_RANK];
    size_t used = 0;
    for (int axis = a->rank - 1; axis >= 0; axis--) {
        index[axis] = place % a->shape[axis];
        place /= a->shape[axis];
    }
    text[0] = 0;
    for (int axis = 0; axis < a->rank && used < size; axis++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", axis ? ", " : "", (long long)index[axis]);
    return text;
}

static bool same_form(const run *r, const char *what, const array *got, const array *expected)
{
    bool same = got->dtype == expected->dtype && got->rank == expected->rank;
    for (int axis = 0; same && axis < got->rank; axis++)
        same = got->shape[axis] == expected->shape[axis];
    if (!same)
        row_fails(r, "%s: got %s of rank %d (first sizes %lld, %lld), expected %s of rank %d (%lld, %lld)", what,
                  lab_dtype_name(got->dtype), got->rank, (long long)got->shape[0], (long long)got->shape[1],
                  lab_dtype_name(expected->dtype), expected->rank, (long long)expected->shape[0],
                  (long long)expected->shape[1]);
    return same;
}

long double largest_of(const array *a)
{
    long double largest = 0;
    for (int64_t i = 0; i < a->numel; i++)
        if (isfinite(a->data[i]) && fabsl(a->data[i]) > largest)
            largest = fabsl(a->data[i]);
    return largest;
}

/* Fails with the entry that is furthest off its own limit. */
static bool entries_agree(const run *r, const char *what, const array *got, const array *expected,
                          const long double *limits)
{
    int64_t worst = -1;
    long double excess = 1;
    for (int64_t i = 0; i < got->numel; i++) {
        long double a = got->data[i], b = expected->data[i];
        if (a == b || (isnan(a) && isnan(b)))
            continue;
        long double off = fabsl(a - b) / limits[i];
        if (!(off <= excess)) {
            worst = i;
            excess = isnan(off) ? INFINITY : off;
        }
    }
    if (worst < 0)
        return true;
    char text[128];
    row_fails(r, "%s[%s] is %.20Lg, expected %.20Lg (%.3Lg times the tolerance)", what,
              index_text(got, worst, text, sizeof text), got->data[worst], expected->data[worst], excess);
    return false;
}

bool agree_in_ulps(const run *r, const char *what, const array *got, const array *expected, const array *scale,
                   double ulps)
{
    array limits;
    if (!same_form(r, what, got, expected))
        return false;
    int digits = got->dtype == LAB_F32 ? 23 : 52;
    bool exact = got->dtype == LAB_I64 || got->dtype == LAB_BOOL;
    array_make(&limits, LAB_F64, got->rank, got->shape);
    for (int64_t i = 0; i < got->numel; i++) {
        long double at = fabsl(scale->data[i]);
        limits.data[i] = at > 0 && isfinite(at) && !exact ? ulps * ldexpl(1, ilogbl(at) - digits) : 0;
    }
    return entries_agree(r, what, got, expected, limits.data);
}

bool agree(const run *r, const char *what, const array *got, const array *expected, long double limit)
{
    array limits;
    if (!same_form(r, what, got, expected))
        return false;
    array_make(&limits, LAB_F64, got->rank, got->shape);
    for (int64_t i = 0; i < got->numel; i++)
        limits.data[i] = limit;
    return entries_agree(r, what, got, expected, limits.data);
}

bool same_bits(const run *r, const char *what, const lab_tensor *got, const void *expected)
{
    size_t bytes = (size_t)lab_tensor_numel(got) * lab_dtype_size(lab_tensor_dtype(got));
    void *data = bits_of(got);
    bool same = memcmp(data, expected, bytes) == 0;
    for (int64_t i = 0; !same && i < lab_tensor_numel(got); i++) {
        size_t size = lab_dtype_size(lab_tensor_dtype(got)), at = (size_t)i * size;
        if (memcmp((char *)data + at, (const char *)expected + at, size) == 0)
            continue;
        row_fails(r, "%s: element %lld is %.20Lg, expected the bits of %.20Lg", what, (long long)i,
                  load_value(data, lab_tensor_dtype(got), i), load_value(expected, lab_tensor_dtype(got), i));
        break;
    }
    free(data);
    return same;
}

/* ---- Values and gradients ----------------------------------------------------------------------------------- */

lab_tensor *run_value(run *r)
{
    lab_tensor *y = case_apply(r->graph, r->leaves, &r->c);
    if (!y || lab_graph_status(r->graph) != LAB_OK) {
        row_fails(r, "failed: %s: %s", lab_status_name(lab_graph_status(r->graph)), lab_graph_message(r->graph));
        return NULL;
    }
    return y;
}

/* At what size an error of an ulp is measured, entry by entry. */
static void value_scale(const run *r, const array *expected, array *scale)
{
    array magnitudes[CASE_INPUTS];
    *scale = *expected;
    if (r->c.flags & BY_LARGEST) {
        array_make(scale, expected->dtype, expected->rank, expected->shape);
        long double largest = largest_of(expected);
        for (int64_t i = 0; i < scale->numel; i++)
            scale->data[i] = largest;
    }
    if (r->c.flags & BY_MAGNITUDE) {
        for (int k = 0; k < r->c.n_inputs; k++) {
            array_make(&magnitudes[k], r->xs[k].dtype, r->xs[k].rank, r->xs[k].shape);
            for (int64_t i = 0; i < r->xs[k].numel; i++)
                magnitudes[k].data[i] = fabsl(r->xs[k].data[i]);
        }
        case_reference(&r->c, magnitudes, scale);
    }
}

bool check_value(const run *r, const char *what, const lab_tensor *y)
{
    array got, expected, scale;
    array_of(y, &got);
    case_reference(&r->c, r->xs, &expected);
    value_scale(r, &expected, &scale);
    return agree_in_ulps(r, what, &got, &expected, &scale, r->c.ulps[got.dtype == LAB_F32 ? 0 : 1]);
}

bool run_gradients(run *r, lab_tensor *y, const array *weights, int n, lab_tensor **xs, lab_tensor **grads,
                   bool create_graph)
{
    array plain = *weights;
    plain.dtype = lab_tensor_dtype(y);
    lab_tensor *leaf = leaf_of(r, &plain, ROW_MAJOR);
    lab_status status = lab_grad(r->graph, y, leaf, n, xs, grads, &(lab_grad_opts){.create_graph = create_graph});
    lab_tensor_destroy(&leaf);
    if (status != LAB_OK)
        row_fails(r, "%s gradient failed: %s: %s", create_graph ? "recorded" : "plain", lab_status_name(status),
                  lab_graph_message(r->graph));
    return status == LAB_OK;
}

static long double weighted_reference(run *r, const array *weights)
{
    array y;
    long double sum = 0;
    case_reference(&r->c, r->xs, &y);
    for (int64_t i = 0; i < y.numel; i++)
        sum += weights->data[i] * y.data[i];
    return sum;
}

void reference_gradients(run *r, const array *weights, array *grads)
{
    const long double h = 1e-4L; /* five points: the error is of order h^4 */
    for (int k = 0; k < r->c.n_inputs; k++) {
        array *x = &r->xs[k];
        if (r->c.in[k].type != REAL)
            continue;
        array_make(&grads[k], x->dtype, x->rank, x->shape);
        for (int64_t i = 0; i < x->numel; i++) {
            long double keep = x->data[i], at[4];
            const long double steps[4] = {-2 * h, -h, h, 2 * h};
            for (int s = 0; s < 4; s++) {
                x->data[i] = keep + steps[s];
                at[s] = weighted_reference(r, weights);
            }
            x->data[i] = keep;
            long double slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h);
            grads[k].data[i] = fabsl(slope) > 1e-13L ? slope : 0; /* less is the rounding of the differences */
        }
    }
}

long double gradient_limit(const run *r, const array *grads)
{
    long double x = 1, gradient = 0;
    bool f32 = r->real == LAB_F32 || r->c.flags & TO_F32;
    for (int k = 0; k < r->c.n_inputs; k++)
        if (r->c.in[k].type == REAL) {
            x = fmaxl(x, largest_of(&r->xs[k]));
            gradient = fmaxl(gradient, largest_of(&grads[k]));
        }
    /* the last term: what the reference's differences lose by rounding x */
    return (64 * (f32 ? 0x1p-23 : 0x1p-52) * x + 1e-10L) * (gradient > 0 ? gradient : 1) + 1e-15L * x;
}

int run_real_operands(const run *r, lab_tensor **xs, int *which)
{
    int n = 0;
    for (int k = 0; k < r->c.n_inputs; k++)
        if (r->c.in[k].type == REAL) {
            xs[n] = r->leaves[k];
            which[n++] = k;
        }
    return n;
}

void check_value_and_gradient(run *r, const char *what)
{
    char text[128];
    int which[CASE_INPUTS];
    lab_tensor *xs[CASE_INPUTS], *grads[CASE_INPUTS], *y = run_value(r);
    array plain, weights, expected[CASE_INPUTS];
    snprintf(text, sizeof text, "%s: y", what);
    if (!y || !check_value(r, text, y) || r->c.derivatives < 1)
        return;
    array_of(y, &plain);
    weights_for(r, &plain, &weights);
    int n = run_real_operands(r, xs, which);
    if (!run_gradients(r, y, &weights, n, xs, grads, false))
        return;
    reference_gradients(r, &weights, expected);
    for (int i = 0; i < n; i++) {
        array got;
        array_of(grads[i], &got);
        snprintf(text, sizeof text, "%s: gradient %d", what, which[i]);
        agree(r, text, &got, &expected[which[i]], gradient_limit(r, expected));
    }
}
