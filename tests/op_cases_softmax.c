/* op_cases_softmax.c - softmax, its logarithm, and the logarithm of its denominator. */
#include "op_cases.h"

/* Walks over rows along an axis: element j of row r is at starts[r] + j * stride. */
static int64_t row_start(const array *x, int axis, int64_t row, int64_t *stride)
{
    *stride = 1;
    for (int after = axis + 1; after < x->rank; after++)
        *stride *= x->shape[after];
    return row / *stride * (*stride * x->shape[axis]) + row % *stride;
}

static int64_t row_count(const array *x, int axis)
{
    int64_t rows = 1;
    for (int other = 0; other < x->rank; other++)
        rows *= other == axis ? 1 : x->shape[other];
    return rows;
}

/* ln of the sum of e^x over a row. */
static long double row_logsumexp(const array *x, int axis, int64_t row)
{
    int64_t stride, start = row_start(x, axis, row, &stride), n = x->shape[axis];
    long double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        top = fmaxl(top, x->data[start + j * stride]);
    for (int64_t j = 0; j < n; j++)
        sum += expl(x->data[start + j * stride] - top);
    return n ? top + logl(sum) : -INFINITY;
}

static void reference_log_softmax(const op_case *c, const array *xs, array *y)
{
    const array *x = &xs[0];
    int axis = axis_of(x->rank, c->args.axes[0]);
    array_make(y, x->dtype, x->rank, x->shape);
    for (int64_t row = 0; row < row_count(x, axis); row++) {
        int64_t stride, start = row_start(x, axis, row, &stride);
        long double log_sum = row_logsumexp(x, axis, row);
        for (int64_t j = 0; j < x->shape[axis]; j++)
            y->data[start + j * stride] = x->data[start + j * stride] - log_sum;
    }
}

static void reference_softmax(const op_case *c, const array *xs, array *y)
{
    reference_log_softmax(c, xs, y);
    for (int64_t i = 0; i < y->numel; i++)
        y->data[i] = expl(y->data[i]);
}

static void reference_logsumexp(const op_case *c, const array *xs, array *y)
{
    const array *x = &xs[0];
    int axis = axis_of(x->rank, c->args.axes[0]), rank = 0;
    int64_t shape[LAB_MAX_RANK];
    for (int other = 0; other < x->rank; other++)
        if (other != axis || c->args.keep)
            shape[rank++] = other == axis ? 1 : x->shape[other];
    array_make(y, x->dtype, rank, shape);
    for (int64_t row = 0; row < y->numel; row++)
        y->data[row] = row_logsumexp(x, axis, row);
}

static lab_tensor *build_softmax(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_softmax(g, xs[0], c->args.axes[0]);
}

static lab_tensor *build_log_softmax(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_log_softmax(g, xs[0], c->args.axes[0]);
}

static lab_tensor *build_logsumexp(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_logsumexp(g, xs[0], c->args.axes[0], c->args.keep);
}

/* clang-format off */
#define SOFTMAX .op = "softmax", .build = build_softmax, .reference = reference_softmax, .n_inputs = 1
#define LOG_SOFTMAX .op = "log_softmax", .build = build_log_softmax, .reference = reference_log_softmax, .n_inputs = 1
#define LOGSUMEXP .op = "logsumexp", .build = build_logsumexp, .reference = reference_logsumexp, .n_inputs = 1

const op_case op_cases_softmax[] = {
    {SOFTMAX, .variant = "last axis", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}}, .args = {.axes = {-1}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_LARGEST},
    {SOFTMAX, .variant = "first axis", .in = {{REAL, ANY, -3, 3, 2, {4, 3}}}, .args = {.axes = {0}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_LARGEST},
    {SOFTMAX, .variant = "middle axis", .in = {{REAL, ANY, -3, 3, 3, {2, 4, 3}}}, .args = {.axes = {1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_LARGEST},
    {SOFTMAX, .variant = "vector", .in = {{REAL, ANY, -3, 3, 1, {6}}}, .args = {.axes = {0}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_LARGEST},
    {SOFTMAX, .variant = "size 1", .in = {{REAL, ANY, -3, 3, 2, {3, 1}}}, .args = {.axes = {1}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_LARGEST},
    {SOFTMAX, .variant = "no rows", .in = {{REAL, ANY, -3, 3, 2, {0, 3}}}, .args = {.axes = {1}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_LARGEST},
    {SOFTMAX, .variant = "empty rows", .in = {{REAL, ANY, -3, 3, 2, {2, 0}}}, .args = {.axes = {1}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_LARGEST},
    {SOFTMAX, .variant = "rank 8", .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 3, 1, 2}}}, .args = {.axes = {5}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_LARGEST},
    {SOFTMAX, .variant = "large values, last axis", .in = {{REAL, ANY, -1e4, 1e4, 2, {4, 7}}}, .args = {.axes = {-1}},
     .derivatives = 1, .ulps = {8, 8}, .flags = BY_LARGEST | STEEP},
    {SOFTMAX, .variant = "large values, first axis", .in = {{REAL, ANY, -1e4, 1e4, 2, {7, 4}}}, .args = {.axes = {0}},
     .derivatives = 1, .ulps = {8, 8}, .flags = BY_LARGEST | STEEP},
    {SOFTMAX, .variant = "large, last axis", .in = {{REAL, ANY, -3, 3, 2, {300, 700}}}, .args = {.axes = {1}},
     .derivatives = 2, .ulps = {64, 64}, .flags = BY_LARGEST | LARGE},
    {SOFTMAX, .variant = "large, first axis", .in = {{REAL, ANY, -3, 3, 2, {700, 300}}}, .args = {.axes = {0}},
     .derivatives = 2, .ulps = {64, 64}, .flags = BY_LARGEST | LARGE},
    {SOFTMAX, .variant = "large, middle axis", .in = {{REAL, ANY, -3, 3, 3, {30, 60, 40}}}, .args = {.axes = {1}},
     .derivatives = 2, .ulps = {64, 64}, .flags = BY_LARGEST | LARGE},
    {LOG_SOFTMAX, .variant = "last axis", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}}, .args = {.axes = {-1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOG_SOFTMAX, .variant = "first axis", .in = {{REAL, ANY, -3, 3, 2, {4, 3}}}, .args = {.axes = {0}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOG_SOFTMAX, .variant = "middle axis", .in = {{REAL, ANY, -3, 3, 3, {2, 4, 3}}}, .args = {.axes = {1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOG_SOFTMAX, .variant = "vector", .in = {{REAL, ANY, -3, 3, 1, {6}}}, .args = {.axes = {0}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOG_SOFTMAX, .variant = "size 1", .in = {{REAL, ANY, -3, 3, 2, {3, 1}}}, .args = {.axes = {1}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOG_SOFTMAX, .variant = "no rows", .in = {{REAL, ANY, -3, 3, 2, {0, 3}}}, .args = {.axes = {1}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOG_SOFTMAX, .variant = "empty rows", .in = {{REAL, ANY, -3, 3, 2, {2, 0}}}, .args = {.axes = {1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOG_SOFTMAX, .variant = "rank 8", .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 3, 1, 2}}}, .args = {.axes = {5}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOG_SOFTMAX, .variant = "large values, last axis", .in = {{REAL, ANY, -1e4, 1e4, 2, {4, 7}}},
     .args = {.axes = {-1}}, .derivatives = 1, .ulps = {8, 8}, .flags = BY_LARGEST | STEEP},
    {LOG_SOFTMAX, .variant = "large values, first axis", .in = {{REAL, ANY, -1e4, 1e4, 2, {7, 4}}},
     .args = {.axes = {0}}, .derivatives = 1, .ulps = {8, 8}, .flags = BY_LARGEST | STEEP},
    {LOG_SOFTMAX, .variant = "large, last axis", .in = {{REAL, ANY, -3, 3, 2, {300, 700}}}, .args = {.axes = {1}},
     .derivatives = 2, .ulps = {64, 64}, .flags = BY_LARGEST | LARGE},
    {LOG_SOFTMAX, .variant = "large, first axis", .in = {{REAL, ANY, -3, 3, 2, {700, 300}}}, .args = {.axes = {0}},
     .derivatives = 2, .ulps = {64, 64}, .flags = BY_LARGEST | LARGE},
    {LOG_SOFTMAX, .variant = "large, middle axis", .in = {{REAL, ANY, -3, 3, 3, {30, 60, 40}}}, .args = {.axes = {1}},
     .derivatives = 2, .ulps = {64, 64}, .flags = BY_LARGEST | LARGE},
    {LOGSUMEXP, .variant = "last axis", .in = {{REAL, ANY, -3, 3, 2, {3, 5}}}, .args = {.axes = {-1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOGSUMEXP, .variant = "first axis", .in = {{REAL, ANY, -3, 3, 2, {4, 3}}}, .args = {.axes = {0}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOGSUMEXP, .variant = "middle axis", .in = {{REAL, ANY, -3, 3, 3, {2, 4, 3}}},
     .args = {.axes = {1}, .keep = true}, .derivatives = 2, .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOGSUMEXP, .variant = "vector", .in = {{REAL, ANY, -3, 3, 1, {6}}}, .args = {.axes = {0}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOGSUMEXP, .variant = "size 1", .in = {{REAL, ANY, -3, 3, 2, {3, 1}}}, .args = {.axes = {1}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOGSUMEXP, .variant = "no rows", .in = {{REAL, ANY, -3, 3, 2, {0, 3}}}, .args = {.axes = {1}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOGSUMEXP, .variant = "empty rows", .in = {{REAL, ANY, -3, 3, 2, {2, 0}}}, .args = {.axes = {1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOGSUMEXP, .variant = "rank 8", .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 3, 1, 2}}}, .args = {.axes = {5}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_LARGEST},
    {LOGSUMEXP, .variant = "large values, last axis", .in = {{REAL, ANY, -1e4, 1e4, 2, {4, 7}}},
     .args = {.axes = {-1}}, .derivatives = 1, .ulps = {8, 8}, .flags = BY_LARGEST | STEEP},
    {LOGSUMEXP, .variant = "large values, first axis", .in = {{REAL, ANY, -1e4, 1e4, 2, {7, 4}}},
     .args = {.axes = {0}}, .derivatives = 1, .ulps = {8, 8}, .flags = BY_LARGEST | STEEP},
    {LOGSUMEXP, .variant = "large, last axis", .in = {{REAL, ANY, -3, 3, 2, {300, 700}}}, .args = {.axes = {1}},
     .derivatives = 2, .ulps = {64, 64}, .flags = BY_LARGEST | LARGE},
    {LOGSUMEXP, .variant = "large, first axis", .in = {{REAL, ANY, -3, 3, 2, {700, 300}}}, .args = {.axes = {0}},
     .derivatives = 2, .ulps = {64, 64}, .flags = BY_LARGEST | LARGE},
    {LOGSUMEXP, .variant = "large, middle axis", .in = {{REAL, ANY, -3, 3, 3, {30, 60, 40}}}, .args = {.axes = {1}},
     .derivatives = 2, .ulps = {64, 64}, .flags = BY_LARGEST | LARGE},
    {.op = NULL},
};
/* clang-format on */
