/* op_cases_matmul.c - the matrix product, with NumPy's rules for vectors and batches. */
#include "op_cases.h"

#include <string.h>

/* y[.., i, j] = sum of a[.., i, k] b[.., k, j]; a vector is a row on the left and a column on the right. */
static void reference_matmul(const op_case *c, const array *xs, array *y)
{
    (void)c;
    array a = xs[0], b = xs[1];
    if (a.rank == 1) {
        a.rank = 2;
        a.shape[1] = a.shape[0];
        a.shape[0] = 1;
    }
    if (b.rank == 1) {
        b.rank = 2;
        b.shape[1] = 1;
    }
    int rank = a.rank > b.rank ? a.rank : b.rank;
    int64_t rows = a.shape[a.rank - 2], inner = a.shape[a.rank - 1], columns = b.shape[b.rank - 1];
    int64_t shape[LAB_MAX_RANK], index[LAB_MAX_RANK] = {0};
    for (int axis = 0; axis < rank - 2; axis++) {
        int of_a = axis - (rank - a.rank), of_b = axis - (rank - b.rank);
        shape[axis] = of_a >= 0 && a.shape[of_a] != 1 ? a.shape[of_a] : of_b >= 0 ? b.shape[of_b] : 1;
    }
    shape[rank - 2] = rows;
    shape[rank - 1] = columns;
    array_make(y, a.dtype, rank, shape);
    for (int64_t place = 0; place < y->numel; place++) {
        int64_t at_a[LAB_MAX_RANK], at_b[LAB_MAX_RANK];
        memcpy(at_a, index, sizeof at_a);
        memcpy(at_b, index, sizeof at_b);
        at_a[rank - 1] = at_b[rank - 2] = 0;
        const long double *row = a.data + index_place(&a, rank, at_a);
        const long double *column = b.data + index_place(&b, rank, at_b);
        for (int64_t k = 0; k < inner; k++)
            y->data[place] += row[k] * column[k * columns];
        index_next(rank, shape, index);
    }
    if (xs[1].rank == 1)
        y->rank--;
    if (xs[0].rank == 1) { /* the row's axis is the last but one, or the last where the column's is gone */
        y->shape[y->rank - (xs[1].rank == 1 ? 1 : 2)] = columns;
        y->rank--;
    }
}

/* clang-format off */
#define MATMUL .op = "matmul", .two = lab_matmul, .reference = reference_matmul, .n_inputs = 2

const op_case op_cases_matmul[] = {
    {MATMUL, .variant = "matrices", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {REAL, ANY, -3, 3, 2, {4, 5}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "square", .in = {{REAL, ANY, -3, 3, 2, {4, 4}}, {REAL, ANY, -3, 3, 2, {4, 4}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "vector @ vector", .in = {{REAL, ANY, -3, 3, 1, {5}}, {REAL, ANY, -3, 3, 1, {5}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "vector @ matrix", .in = {{REAL, ANY, -3, 3, 1, {4}}, {REAL, ANY, -3, 3, 2, {4, 3}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "matrix @ vector", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {REAL, ANY, -3, 3, 1, {4}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "batch", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 4}}, {REAL, ANY, -3, 3, 3, {2, 4, 3}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "batch @ matrix", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 4}}, {REAL, ANY, -3, 3, 2, {4, 3}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "matrix @ batch", .in = {{REAL, ANY, -3, 3, 2, {3, 4}}, {REAL, ANY, -3, 3, 3, {2, 4, 3}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "batches broadcast on both sides",
     .in = {{REAL, ANY, -3, 3, 4, {2, 1, 2, 3}}, {REAL, ANY, -3, 3, 3, {3, 3, 2}}}, .derivatives = 2, .ulps = {8, 8},
     .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "vector @ batch", .in = {{REAL, ANY, -3, 3, 1, {4}}, {REAL, ANY, -3, 3, 3, {2, 4, 3}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "batch @ vector", .in = {{REAL, ANY, -3, 3, 3, {2, 3, 4}}, {REAL, ANY, -3, 3, 1, {4}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "one by one", .in = {{REAL, ANY, -3, 3, 2, {1, 1}}, {REAL, ANY, -3, 3, 2, {1, 1}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "inner size 0 gives zeros",
     .in = {{REAL, ANY, -3, 3, 2, {3, 0}}, {REAL, ANY, -3, 3, 2, {0, 2}}}, .derivatives = 2, .ulps = {8, 8},
     .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "no rows", .in = {{REAL, ANY, -3, 3, 2, {0, 4}}, {REAL, ANY, -3, 3, 2, {4, 2}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "no columns", .in = {{REAL, ANY, -3, 3, 2, {2, 4}}, {REAL, ANY, -3, 3, 2, {4, 0}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "empty batch", .in = {{REAL, ANY, -3, 3, 3, {0, 2, 3}}, {REAL, ANY, -3, 3, 2, {3, 2}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "empty vectors", .in = {{REAL, ANY, -3, 3, 1, {0}}, {REAL, ANY, -3, 3, 1, {0}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "rank 8",
     .in = {{REAL, ANY, -3, 3, 8, {1, 2, 1, 1, 2, 1, 2, 3}}, {REAL, ANY, -3, 3, 8, {1, 1, 1, 1, 2, 1, 3, 2}}},
     .derivatives = 2, .ulps = {8, 8}, .flags = BY_MAGNITUDE},
    {MATMUL, .variant = "large", .in = {{REAL, ANY, -3, 3, 2, {600, 310}}, {REAL, ANY, -3, 3, 2, {310, 330}}},
     .derivatives = 2, .ulps = {64, 64}, .flags = BY_MAGNITUDE | LARGE},
    {MATMUL, .variant = "large inner size",
     .in = {{REAL, ANY, -3, 3, 2, {8, 20000}}, {REAL, ANY, -3, 3, 2, {20000, 8}}}, .derivatives = 2,
     .ulps = {256, 256}, .flags = BY_MAGNITUDE | LARGE},
    {MATMUL, .variant = "large batch",
     .in = {{REAL, ANY, -3, 3, 3, {48, 64, 64}}, {REAL, ANY, -3, 3, 3, {48, 64, 64}}}, .derivatives = 2,
     .ulps = {16, 16}, .flags = BY_MAGNITUDE | LARGE},
    {.op = NULL},
};
/* clang-format on */
