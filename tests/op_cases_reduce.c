/* op_cases_reduce.c - sums, means, the largest element. */
#include "op_cases.h"

/* Which axes go, and the shape of what stays. */
static void reduced_shape(const op_case *c, const array *x, bool *gone, int *rank, int64_t *shape)
{
    for (int axis = 0; axis < x->rank; axis++)
        gone[axis] = false;
    for (int i = 0; i < c->args.n; i++)
        gone[axis_of(x->rank, c->args.axes[i])] = true;
    *rank = 0;
    for (int axis = 0; axis < x->rank; axis++)
        if (!gone[axis] || c->args.keep)
            shape[(*rank)++] = gone[axis] ? 1 : x->shape[axis];
}

/* Where an element of x goes. */
static int64_t reduced_place(const array *x, const bool *gone, const int64_t *index)
{
    int64_t place = 0;
    for (int axis = 0; axis < x->rank; axis++)
        if (!gone[axis])
            place = place * x->shape[axis] + index[axis];
    return place;
}

static void reference_sum(const op_case *c, const array *xs, array *y)
{
    const array *x = &xs[0];
    bool gone[LAB_MAX_RANK];
    int rank;
    int64_t shape[LAB_MAX_RANK], index[LAB_MAX_RANK] = {0};
    reduced_shape(c, x, gone, &rank, shape);
    array_make(y, x->dtype, rank, shape);
    for (int64_t i = 0; i < x->numel; i++) {
        y->data[reduced_place(x, gone, index)] += x->data[i];
        index_next(x->rank, x->shape, index);
    }
}

static void reference_mean(const op_case *c, const array *xs, array *y)
{
    const array *x = &xs[0];
    long double count = 1;
    bool gone[LAB_MAX_RANK];
    int rank;
    int64_t shape[LAB_MAX_RANK];
    reduced_shape(c, x, gone, &rank, shape);
    for (int axis = 0; axis < x->rank; axis++)
        count *= gone[axis] ? x->shape[axis] : 1;
    reference_sum(c, xs, y);
    for (int64_t i = 0; i < y->numel; i++)
        y->data[i] /= count;
}

/* The place along the axis of the first largest element, or its value. */
static void largest(const op_case *c, const array *x, array *y, bool place)
{
    bool gone[LAB_MAX_RANK];
    int rank, axis = axis_of(x->rank, c->args.axes[0]);
    int64_t shape[LAB_MAX_RANK], index[LAB_MAX_RANK] = {0};
    array best;
    reduced_shape(c, x, gone, &rank, shape);
    array_make(y, place ? LAB_I64 : x->dtype, rank, shape);
    array_make(&best, x->dtype, rank, shape);
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t to = reduced_place(x, gone, index);
        if (index[axis] == 0 || x->data[i] > best.data[to]) {
            best.data[to] = x->data[i];
            y->data[to] = place ? (long double)index[axis] : x->data[i];
        }
        index_next(x->rank, x->shape, index);
    }
}

static void reference_max(const op_case *c, const array *xs, array *y)
{
    largest(c, &xs[0], y, false);
}

static void reference_argmax(const op_case *c, const array *xs, array *y)
{
    largest(c, &xs[0], y, true);
}

static void reference_sum_all(const op_case *c, const array *xs, array *y)
{
    (void)c;
    array_make(y, xs[0].dtype, 0, NULL);
    for (int64_t i = 0; i < xs[0].numel; i++)
        y->data[0] += xs[0].data[i];
}

static void reference_mean_all(const op_case *c, const array *xs, array *y)
{
    reference_sum_all(c, xs, y);
    y->data[0] /= (long double)xs[0].numel;
}

static lab_tensor *build_sum(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_sum(g, xs[0], c->args.n, c->args.axes, c->args.keep);
}

static lab_tensor *build_mean(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_mean(g, xs[0], c->args.n, c->args.axes, c->args.keep);
}

static lab_tensor *build_max(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_max(g, xs[0], c->args.axes[0], c->args.keep);
}

static lab_tensor *build_argmax(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    return lab_argmax(g, xs[0], c->args.axes[0], c->args.keep);
}

/* clang-format off */
#define SUM .op = "sum", .build = build_sum, .reference = reference_sum, .n_inputs = 1
#define MEAN .op = "mean", .build = build_mean, .reference = reference_mean, .n_inputs = 1
#define MAX .op = "max", .build = build_max, .reference = reference_max, .n_inputs = 1
#define ARGMAX .op = "argmax", .build = build_argmax, .reference = reference_argmax, .n_inputs = 1
#define SUM_ALL .op = "sum_all", .one = lab_sum_all, .reference = reference_sum_all, .n_inputs = 1
#define MEAN_ALL .op = "mean_all", .one = lab_mean_all, .reference = reference_mean_all, .n_inputs = 1

const op_case op_cases_reduce[] = {
    {SUM, .variant = "first axis", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}}, .args = {.n = 1, .axes = {0}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {SUM, .variant = "last axis", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}}, .args = {.n = 1, .axes = {-1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {SUM, .variant = "middle axis", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 4}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {SUM, .variant = "outer axes, kept", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 4}}},
     .args = {.n = 2, .axes = {0, -1}, .keep = true}, .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {SUM, .variant = "all axes out of order", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 4}}},
     .args = {.n = 3, .axes = {2, 0, 1}}, .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {SUM, .variant = "no axes", .in = {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.n = 0, .axes = {0}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {SUM, .variant = "rank 0", .in = {{REAL, ANY, -3, 3, 0, {0}}}, .args = {.n = 0, .axes = {0}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {SUM, .variant = "size 1", .in = {{REAL, ANY, -3, 3, 3, {3, 1, 2}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {SUM, .variant = "nothing to add up", .in = {{REAL, ANY, -3, 3, 3, {2, 0, 3}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {SUM, .variant = "empty result", .in = {{REAL, ANY, -3, 3, 3, {2, 0, 3}}},
     .args = {.n = 1, .axes = {0}, .keep = true}, .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {SUM, .variant = "rank 8", .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 2, 1, 2}}},
     .args = {.n = 3, .axes = {1, -1, 4}, .keep = true}, .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {SUM, .variant = "i64", .in = {{WHOLE, ANY, -50, 50, 2, {3, 4}}}, .args = {.n = 1, .axes = {0}}},
    {SUM, .variant = "i64, all axes", .in = {{WHOLE, ANY, -50, 50, 2, {3, 4}}}, .args = {.n = 2, .axes = {0, 1}}},
    {SUM, .variant = "large, last axis", .in = {{REAL, ANY, -3, 3, 2, {300, 700}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2, .ulps = {64, 64}, .flags = BY_MAGNITUDE | LARGE},
    {SUM, .variant = "large, first axis", .in = {{REAL, ANY, -3, 3, 2, {700, 300}}}, .args = {.n = 1, .axes = {0}},
     .derivatives = 2, .ulps = {256, 256}, .flags = BY_MAGNITUDE | LARGE},
    {SUM, .variant = "large, middle axis", .in = {{REAL, ANY, -3, 3, 3, {20, 300, 40}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2, .ulps = {64, 64}, .flags = BY_MAGNITUDE | LARGE},
    {SUM, .variant = "large, one long row", .in = {{REAL, ANY, -3, 3, 2, {1, 300000}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2, .ulps = {512, 512}, .flags = BY_MAGNITUDE | LARGE},
    {MEAN, .variant = "first axis", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}}, .args = {.n = 1, .axes = {0}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MEAN, .variant = "last axis", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}}, .args = {.n = 1, .axes = {-1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MEAN, .variant = "middle axis", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 4}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MEAN, .variant = "outer axes, kept", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 4}}},
     .args = {.n = 2, .axes = {0, -1}, .keep = true}, .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MEAN, .variant = "all axes out of order", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 4}}},
     .args = {.n = 3, .axes = {2, 0, 1}}, .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MEAN, .variant = "no axes", .in = {{REAL, ANY, -3, 3, 2, {2, 3}}}, .args = {.n = 0, .axes = {0}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MEAN, .variant = "rank 0", .in = {{REAL, ANY, -3, 3, 0, {0}}}, .args = {.n = 0, .axes = {0}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MEAN, .variant = "size 1", .in = {{REAL, ANY, -3, 3, 3, {3, 1, 2}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MEAN, .variant = "nothing to add up", .in = {{REAL, ANY, -3, 3, 3, {2, 0, 3}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MEAN, .variant = "empty result", .in = {{REAL, ANY, -3, 3, 3, {2, 0, 3}}},
     .args = {.n = 1, .axes = {0}, .keep = true}, .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MEAN, .variant = "rank 8", .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 2, 1, 2}}},
     .args = {.n = 3, .axes = {1, -1, 4}, .keep = true}, .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MEAN, .variant = "large, last axis", .in = {{REAL, ANY, -3, 3, 2, {300, 700}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2, .ulps = {64, 64}, .flags = BY_MAGNITUDE | LARGE},
    {MEAN, .variant = "large, first axis", .in = {{REAL, ANY, -3, 3, 2, {700, 300}}}, .args = {.n = 1, .axes = {0}},
     .derivatives = 2, .ulps = {256, 256}, .flags = BY_MAGNITUDE | LARGE},
    {MEAN, .variant = "large, middle axis", .in = {{REAL, ANY, -3, 3, 3, {20, 300, 40}}},
     .args = {.n = 1, .axes = {1}}, .derivatives = 2, .ulps = {64, 64}, .flags = BY_MAGNITUDE | LARGE},
    {MEAN, .variant = "large, one long row", .in = {{REAL, ANY, -3, 3, 2, {1, 300000}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2, .ulps = {512, 512}, .flags = BY_MAGNITUDE | LARGE},
    {MAX, .variant = "first axis", .in = {{REAL, DISTINCT, -3, 3, 2, {3, 4}}}, .args = {.n = 1, .axes = {0}},
     .derivatives = 2},
    {MAX, .variant = "last axis", .in = {{REAL, DISTINCT, -3, 3, 2, {3, 4}}}, .args = {.n = 1, .axes = {-1}},
     .derivatives = 2},
    {MAX, .variant = "middle axis, kept", .in = {{REAL, DISTINCT, -3, 3, 3, {2, 3, 4}}},
     .args = {.n = 1, .axes = {1}, .keep = true}, .derivatives = 2},
    {MAX, .variant = "size 1", .in = {{REAL, DISTINCT, -3, 3, 2, {3, 1}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2},
    {MAX, .variant = "vector", .in = {{REAL, DISTINCT, -3, 3, 1, {6}}}, .args = {.n = 1, .axes = {0}},
     .derivatives = 2},
    {MAX, .variant = "no rows", .in = {{REAL, DISTINCT, -3, 3, 2, {0, 3}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2},
    {MAX, .variant = "rank 8", .in = {{REAL, DISTINCT, -3, 3, 8, {1, 2, 1, 2, 1, 3, 1, 2}}},
     .args = {.n = 1, .axes = {5}}, .derivatives = 2},
    {MAX, .variant = "i64 with ties", .in = {{WHOLE, ANY, 0, 3, 2, {4, 6}}}, .args = {.n = 1, .axes = {1}}},
    {MAX, .variant = "large, last axis", .in = {{REAL, ANY, -3, 3, 2, {300, 700}}}, .args = {.n = 1, .axes = {1}},
     .derivatives = 2, .flags = LARGE},
    {MAX, .variant = "large, first axis", .in = {{REAL, ANY, -3, 3, 2, {300, 700}}}, .args = {.n = 1, .axes = {0}},
     .derivatives = 2, .flags = LARGE},
    {ARGMAX, .variant = "first axis", .in = {{REAL, DISTINCT, -3, 3, 2, {3, 4}}}, .args = {.n = 1, .axes = {0}}},
    {ARGMAX, .variant = "last axis", .in = {{REAL, DISTINCT, -3, 3, 2, {3, 4}}}, .args = {.n = 1, .axes = {-1}}},
    {ARGMAX, .variant = "middle axis, kept", .in = {{REAL, DISTINCT, -3, 3, 3, {2, 3, 4}}},
     .args = {.n = 1, .axes = {1}, .keep = true}},
    {ARGMAX, .variant = "size 1", .in = {{REAL, DISTINCT, -3, 3, 2, {3, 1}}}, .args = {.n = 1, .axes = {1}}},
    {ARGMAX, .variant = "vector", .in = {{REAL, DISTINCT, -3, 3, 1, {6}}}, .args = {.n = 1, .axes = {0}}},
    {ARGMAX, .variant = "no rows", .in = {{REAL, DISTINCT, -3, 3, 2, {0, 3}}}, .args = {.n = 1, .axes = {1}}},
    {ARGMAX, .variant = "rank 8", .in = {{REAL, DISTINCT, -3, 3, 8, {1, 2, 1, 2, 1, 3, 1, 2}}},
     .args = {.n = 1, .axes = {5}}},
    {ARGMAX, .variant = "i64 with ties", .in = {{WHOLE, ANY, 0, 3, 2, {4, 6}}}, .args = {.n = 1, .axes = {1}}},
    {ARGMAX, .variant = "large, last axis", .in = {{REAL, ANY, -3, 3, 2, {300, 700}}}, .args = {.n = 1, .axes = {1}},
     .flags = LARGE},
    {ARGMAX, .variant = "large, first axis", .in = {{REAL, ANY, -3, 3, 2, {300, 700}}}, .args = {.n = 1, .axes = {0}},
     .flags = LARGE},
    {SUM_ALL, .variant = "matrix", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}}, .derivatives = 2, .ulps = {8, 8},
     .flags = BY_MAGNITUDE},
    {SUM_ALL, .variant = "rank 0", .in = {{REAL, ANY, -3, 3, 0, {0}}}, .derivatives = 2, .ulps = {8, 8},
     .flags = BY_MAGNITUDE},
    {SUM_ALL, .variant = "empty", .in = {{REAL, ANY, -3, 3, 1, {0}}}, .derivatives = 2, .ulps = {8, 8},
     .flags = BY_MAGNITUDE},
    {SUM_ALL, .variant = "rank 8", .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 2, 1, 2}}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {SUM_ALL, .variant = "large", .in = {{REAL, ANY, -1, 3, 2, {300, 1000}}}, .derivatives = 2, .ulps = {64, 64},
     .flags = BY_MAGNITUDE | LARGE},
    {MEAN_ALL, .variant = "matrix", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}}, .derivatives = 2, .ulps = {8, 8},
     .flags = BY_MAGNITUDE},
    {MEAN_ALL, .variant = "rank 0", .in = {{REAL, ANY, -3, 3, 0, {0}}}, .derivatives = 2, .ulps = {8, 8},
     .flags = BY_MAGNITUDE},
    {MEAN_ALL, .variant = "empty", .in = {{REAL, ANY, -3, 3, 1, {0}}}, .derivatives = 2, .ulps = {8, 8},
     .flags = BY_MAGNITUDE},
    {MEAN_ALL, .variant = "rank 8", .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 2, 1, 2, 1, 2}}}, .derivatives = 2,
     .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MEAN_ALL, .variant = "large", .in = {{REAL, ANY, -1, 3, 2, {300, 1000}}}, .derivatives = 2, .ulps = {64, 64},
     .flags = BY_MAGNITUDE | LARGE},
    {SUM_ALL, .variant = "i64", .in = {{WHOLE, ANY, -50, 50, 2, {3, 4}}}},
    {.op = NULL},
};
/* clang-format on */
