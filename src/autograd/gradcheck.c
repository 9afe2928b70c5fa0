/* gradcheck.c - derivatives against central differences.
 *
 * The scalar is the sum of w * f(xs) with random w. Each difference is taken at h and h/2 and extrapolated
 * (Richardson): with D(h) = (s(x+h) - s(x-h)) / 2h, the value is (4 D(h/2) - D(h)) / 3 with an error of order h^4, and
 * |D(h/2) - D(h)| / 3 estimates the error before that last step. The differences of f's elements are taken before
 * they are weighted and summed, so that nothing large cancels.
 */
#include "llmlab/check.h"

#include <math.h>
#include <string.h>

#include "../kernels/kernels.h"
#include "engine.h"
#include "llmlab/ops.h"

typedef struct check {
    lab_fn f;
    void *ctx;
    int n;    /* tensors, the seed of the second order included */
    int n_xs; /* those that f gets */
    lab_tensor **xs;
    bool second;
    uint64_t seed;
    lab_graph *g;
    lab_tensor **outs; /* what is weighted and summed */
    int n_outs;
    double *weights, *plus, *minus, *analytic, *numeric, *estimate;
    int64_t n_values, n_entries;
} check;

static bool varies(const lab_tensor *x)
{
    return lab__is_float(x->dtype);
}

/* f's result, or (second order) its vector-Jacobian products with a seed that is varied too. */
static lab_status find_outs(check *c)
{
    lab_graph *g = c->g;
    lab_graph_reset(g);
    lab_tensor *y = c->f(g, c->xs, c->ctx);
    if (lab_graph_status(g) == LAB_OK && !y)
        lab__refuse(g, "lab_gradcheck", LAB_ERR_ARGUMENT, "f gave NULL");
    if (lab_graph_status(g) != LAB_OK)
        return lab_graph_status(g);
    c->n_outs = 0;
    if (!c->second) {
        c->outs[c->n_outs++] = y;
        return LAB_OK;
    }
    lab_tensor **wanted = c->outs + c->n;
    int count = 0;
    for (int i = 0; i < c->n_xs; i++)
        if (varies(c->xs[i]) && lab__on_graph(g, c->xs[i], false))
            wanted[count++] = c->xs[i];
    c->n_outs = count;
    return lab_grad(g, y, c->xs[c->n_xs], count, wanted, c->outs, &(lab_grad_opts){.create_graph = true});
}

/* The same, of as many elements as the first time: there is memory for no more. */
static lab_status evaluate(check *c)
{
    lab_status status = find_outs(c);
    int64_t count = 0;
    for (int k = 0; k < c->n_outs && status == LAB_OK; k++) {
        count += c->outs[k]->numel;
        if (!lab__is_float(c->outs[k]->dtype))
            status = lab__fail(LAB_ERR_DTYPE, "lab_gradcheck: f's result %s has no derivative",
                               lab__tensor_text(c->outs[k]));
    }
    if (status == LAB_OK && c->weights && count != c->n_values)
        status = lab__fail(LAB_ERR_STATE, "lab_gradcheck: f gave %lld elements, %lld the first time", (long long)count,
                           (long long)c->n_values);
    return status;
}

static double element(const lab_tensor *t, const char *place)
{
    return t->dtype == LAB_F64 ? *(const double *)place : (double)*(const float *)place;
}

/* The place of the i-th element, row-major. */
static char *place_of(const lab_tensor *t, int64_t i)
{
    return t->data + lab__element_place(t, i) * (int64_t)lab_dtype_size(t->dtype);
}

static lab_status values(check *c, double *to)
{
    lab_status status = evaluate(c);
    for (int k = 0; k < c->n_outs && status == LAB_OK; k++)
        for (int64_t i = 0; i < c->outs[k]->numel; i++)
            *to++ = element(c->outs[k], place_of(c->outs[k], i));
    return status;
}

/* The weights' sum as a tensor, differentiated by the library. */
static lab_status find_analytic(check *c)
{
    lab_status status = evaluate(c);
    if (status != LAB_OK)
        return status;
    lab_graph *g = c->g;
    lab_tensor *total = NULL;
    double *w = c->weights;
    for (int k = 0; k < c->n_outs; k++) {
        lab_tensor *out = c->outs[k];
        lab_tensor *weight = lab_constant(g, LAB_F64, out->rank, out->shape, w);
        w += out->numel;
        lab_tensor *part = lab_sum_all(g, lab_mul(g, out, lab_cast(g, weight, out->dtype)));
        total = total ? lab_add(g, lab_cast(g, total, part ? part->dtype : LAB_F64), part) : part;
    }
    double *to = c->analytic;
    for (int i = 0; i < c->n; i++) {
        lab_tensor *x = c->xs[i], *gradient = NULL;
        if (!varies(x))
            continue;
        if (total && lab__on_graph(g, x, false))
            status = lab_grad(g, total, NULL, 1, &x, &gradient, NULL);
        if (lab_graph_status(g) != LAB_OK)
            return lab_graph_status(g);
        for (int64_t j = 0; j < x->numel; j++)
            *to++ = gradient ? element(gradient, place_of(gradient, j)) : 0;
    }
    return status;
}

static void set_element(lab_tensor *t, char *place, double value)
{
    if (t->dtype == LAB_F64)
        *(double *)place = value;
    else
        *(float *)place = (float)value;
    lab_tensor_touch(t);
}

/* One central difference. In float32 the step is what the two rounded points are apart. */
static lab_status difference(check *c, lab_tensor *x, char *place, double h, double *d)
{
    double before = element(x, place);
    set_element(x, place, before + h);
    double high = element(x, place);
    lab_status status = values(c, c->plus);
    if (status == LAB_OK) {
        set_element(x, place, before - h);
        double low = element(x, place);
        status = values(c, c->minus);
        long double sum = 0;
        for (int64_t i = 0; i < c->n_values; i++)
            sum += (long double)c->weights[i] * ((long double)c->plus[i] - c->minus[i]);
        *d = (double)(sum / ((long double)high - low));
    }
    set_element(x, place, before);
    return status;
}

static double default_step(const lab_tensor *x)
{
    return x->dtype == LAB_F64 ? 1e-3 : 2e-2;
}

static double step_at(const lab_tensor *x, const char *place, const lab_gradcheck_opts *opts)
{
    double size = fabs(element(x, place));
    return (opts->step > 0 ? opts->step : default_step(x)) * (size > 1 ? size : 1);
}

static lab_status find_numeric(check *c, const lab_gradcheck_opts *opts)
{
    int64_t at = 0;
    for (int i = 0; i < c->n; i++) {
        lab_tensor *x = c->xs[i];
        if (!varies(x))
            continue;
        int64_t every = opts->max_entries > 0 && x->numel > opts->max_entries
                            ? (x->numel + opts->max_entries - 1) / opts->max_entries
                            : 1;
        for (int64_t j = 0; j < x->numel; j++, at++) {
            c->estimate[at] = -1; /* not looked at */
            if (j % every)
                continue;
            char *place = place_of(x, j);
            double h = step_at(x, place, opts), coarse, fine;
            lab_status status = difference(c, x, place, h, &coarse);
            if (status == LAB_OK)
                status = difference(c, x, place, h / 2, &fine);
            if (status != LAB_OK)
                return status;
            c->numeric[at] = (4 * fine - coarse) / 3;
            c->estimate[at] = fabs(fine - coarse) / 3;
        }
    }
    return LAB_OK;
}

/* Rounding alone makes differences of about this size: gradients below it cannot be told from zero. */
static double noise(const check *c, const lab_tensor *x, double step)
{
    double sum = 0;
    for (int64_t i = 0; i < c->n_values; i++)
        sum += fabs(c->weights[i] * c->plus[i]);
    return sum * (x->dtype == LAB_F64 ? 0x1p-52 : 0x1p-23) / step;
}

static void compare(const check *c, const lab_gradcheck_opts *opts, lab_gradcheck_report *report)
{
    int64_t first = 0;
    *report = (lab_gradcheck_report){.passed = true, .worst_error = -1};
    for (int i = 0; i < c->n; first += varies(c->xs[i]) ? c->xs[i]->numel : 0, i++) {
        const lab_tensor *x = c->xs[i];
        if (!varies(x))
            continue;
        double tolerance = opts->tolerance > 0 ? opts->tolerance : x->dtype == LAB_F64 ? 1e-7 : 1e-2;
        double step = opts->step > 0 ? opts->step : default_step(x);
        double scale = 8 * noise(c, x, step) / tolerance;
        for (int64_t j = 0; j < x->numel; j++)
            if (c->estimate[first + j] >= 0 && fabs(c->numeric[first + j]) > scale)
                scale = fabs(c->numeric[first + j]);
        for (int64_t j = 0; j < x->numel; j++) {
            int64_t at = first + j;
            if (c->estimate[at] < 0)
                continue;
            report->entries++;
            double gap = fabs(c->analytic[at] - c->numeric[at]);
            double error = gap == 0 ? 0 : gap / scale;
            if (error <= report->worst_error)
                continue;
            bool bad = !(error <= tolerance); /* NaN is bad */
            if (!report->passed && !bad)
                continue;
            report->passed = report->passed && !bad;
            report->worst_error = isnan(error) ? INFINITY : error;
            report->input = i;
            report->element = j;
            report->analytic = c->analytic[at];
            report->numeric = c->numeric[at];
            report->step = step_at(x, place_of(x, j), opts);
            report->numeric_error = c->estimate[at];
        }
    }
    if (report->worst_error < 0)
        report->worst_error = 0;
}

/* The seed of the second order: a leaf like f's result, normal. */
static lab_status make_seed(check *c)
{
    lab_tensor *y = c->f(c->g, c->xs, c->ctx);
    if (lab_graph_status(c->g) != LAB_OK)
        return lab_graph_status(c->g);
    if (!y || !lab__is_float(y->dtype))
        return lab__fail(LAB_ERR_DTYPE, "lab_gradcheck: f's result %s has no derivative",
                         y ? lab__tensor_text(y) : "NULL");
    lab_status status = lab_tensor_create(&c->xs[c->n_xs], y->dtype, y->rank, y->shape);
    if (status == LAB_OK)
        lab__kernel_normal(y->dtype == LAB_F64 ? KERNEL_F64 : KERNEL_F32, y->numel, c->xs[c->n_xs]->data, c->seed, 1,
                           0);
    return status;
}

/* Memory for everything, once the sizes are known from a first run. */
static lab_status prepare(check *c, double **memory, size_t *bytes)
{
    lab_status status = evaluate(c);
    if (status != LAB_OK)
        return status;
    c->n_values = c->n_entries = 0;
    for (int k = 0; k < c->n_outs; k++)
        c->n_values += c->outs[k]->numel;
    for (int i = 0; i < c->n; i++)
        c->n_entries += varies(c->xs[i]) ? c->xs[i]->numel : 0;
    size_t count = 3 * ((size_t)c->n_values + (size_t)c->n_entries);
    if (!lab__multiply(count, sizeof(double), bytes) || !(*memory = lab__allocate(*bytes)))
        return lab__fail(LAB_ERR_MEMORY, "lab_gradcheck: no memory for %zu numbers", count);
    c->weights = *memory;
    c->plus = c->weights + c->n_values;
    c->minus = c->plus + c->n_values;
    c->analytic = c->minus + c->n_values;
    c->numeric = c->analytic + c->n_entries;
    c->estimate = c->numeric + c->n_entries;
    memset(c->plus, 0, (size_t)c->n_values * sizeof(double));
    memset(c->numeric, 0, (size_t)c->n_entries * sizeof(double));
    lab__kernel_normal(KERNEL_F64, c->n_values, c->weights, c->seed, 0, 0);
    return LAB_OK;
}

static lab_status check_arguments(lab_fn f, int n, lab_tensor **xs, const lab_gradcheck_opts *opts)
{
    if (!f || n < 0 || (n > 0 && !xs))
        return lab__fail(LAB_ERR_ARGUMENT, "lab_gradcheck: %s",
                         !f      ? "f is NULL"
                         : n < 0 ? "n is negative"
                                 : "xs is NULL");
    for (int i = 0; i < 8; i++)
        if (opts->reserved[i])
            return lab__fail(LAB_ERR_ARGUMENT, "lab_gradcheck: the options' reserved words are not zero");
    if (!(opts->step >= 0) || !(opts->tolerance >= 0) || opts->max_entries < 0)
        return lab__fail(LAB_ERR_RANGE, "lab_gradcheck: step, tolerance and max_entries must not be negative");
    for (int i = 0; i < n; i++) {
        if (!xs[i])
            return lab__fail(LAB_ERR_ARGUMENT, "lab_gradcheck: xs[%d] is NULL", i);
        if (xs[i]->kind != TENSOR_LEAF || xs[i]->overlapping)
            return lab__fail(LAB_ERR_STATE, "lab_gradcheck: xs[%d] (%s) cannot be varied: %s", i,
                             lab__tensor_text(xs[i]),
                             xs[i]->overlapping ? "its elements share places" : "it is no leaf");
    }
    return LAB_OK;
}

static lab_status run(check *c, const lab_gradcheck_opts *opts, lab_gradcheck_report *report)
{
    double *memory = NULL;
    size_t bytes = 0;
    lab_status status = c->second ? make_seed(c) : LAB_OK;
    if (status == LAB_OK)
        status = prepare(c, &memory, &bytes);
    if (status == LAB_OK)
        status = find_analytic(c);
    if (status == LAB_OK)
        status = find_numeric(c, opts);
    if (status == LAB_OK)
        compare(c, opts, report);
    lab__release(memory, bytes);
    return status;
}

lab_status lab_gradcheck(lab_fn f, void *ctx, int n, lab_tensor **xs, const lab_gradcheck_opts *opts,
                         lab_gradcheck_report *report)
{
    static const lab_gradcheck_opts defaults = {0};
    lab_gradcheck_report unused;
    opts = opts ? opts : &defaults;
    report = report ? report : &unused;
    *report = (lab_gradcheck_report){0};
    lab_status status = check_arguments(f, n, xs, opts);
    if (status != LAB_OK)
        return status;
    check c = {
        .f = f, .ctx = ctx, .n_xs = n, .n = n + opts->second_order, .second = opts->second_order, .seed = opts->seed};
    size_t bytes = 3 * ((size_t)n + 2) * sizeof(lab_tensor *);
    lab_tensor **pointers = lab__allocate(bytes);
    c.g = lab_graph_create(NULL);
    if (pointers && c.g) {
        memset(pointers, 0, bytes);
        c.xs = pointers;
        c.outs = pointers + n + 1;
        if (n > 0)
            memcpy(c.xs, xs, (size_t)n * sizeof *xs);
        status = run(&c, opts, report);
        if (c.second)
            lab_tensor_destroy(&c.xs[n]);
    } else {
        status = lab__fail(LAB_ERR_MEMORY, "lab_gradcheck: no memory for a graph");
    }
    lab_graph_destroy(&c.g);
    lab__release(pointers, bytes);
    return status;
}
