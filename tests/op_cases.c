/* op_cases.c - the table's rows put together, and what references share: index arithmetic and memory. */
#include "op_cases.h"

#include <stdlib.h>
#include <string.h>

static const op_case *const families[] = {op_cases_binary, op_cases_unary,  op_cases_select,
                                          op_cases_matmul, op_cases_reduce, op_cases_softmax,
                                          op_cases_shape,  op_cases_index,  op_cases_create};
static const bad_case *const bad_families[] = {bad_cases_elementwise, bad_cases_shape, bad_cases_index};

enum { FAMILIES = sizeof families / sizeof *families, BAD_FAMILIES = sizeof bad_families / sizeof *bad_families };

const op_case *op_case_at(int i)
{
    for (int f = 0; f < FAMILIES; f++)
        for (const op_case *c = families[f]; c->op; c++)
            if (i-- == 0)
                return c;
    return NULL;
}

int op_case_count(void)
{
    int count = 0;
    for (int f = 0; f < FAMILIES; f++)
        for (const op_case *c = families[f]; c->op; c++)
            count++;
    return count;
}

const bad_case *bad_case_at(int i)
{
    for (int f = 0; f < BAD_FAMILIES; f++)
        for (const bad_case *c = bad_families[f]; c->call.op; c++)
            if (i-- == 0)
                return c;
    return NULL;
}

int bad_case_count(void)
{
    int count = 0;
    for (int f = 0; f < BAD_FAMILIES; f++)
        for (const bad_case *c = bad_families[f]; c->call.op; c++)
            count++;
    return count;
}

/* ---- Memory ------------------------------------------------------------------------------------------------- */

typedef struct block {
    struct block *next;
    long double data[];
} block;

static block *blocks;

void array_make(array *a, lab_dtype dtype, int rank, const int64_t *shape)
{
    *a = (array){.dtype = dtype, .rank = rank, .numel = 1};
    for (int i = 0; i < rank; i++) {
        a->shape[i] = shape[i];
        a->numel *= shape[i];
    }
    block *b = calloc(1, sizeof *b + (size_t)a->numel * sizeof(long double));
    if (!b)
        abort(); /* a test without memory has nothing to say */
    b->next = blocks;
    blocks = b;
    a->data = b->data;
}

void arrays_free(void)
{
    while (blocks) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

/* ---- Indices ------------------------------------------------------------------------------------------------ */

bool index_next(int rank, const int64_t *shape, int64_t *index)
{
    for (int axis = rank - 1; axis >= 0; axis--) {
        if (++index[axis] < shape[axis])
            return true;
        index[axis] = 0;
    }
    return false;
}

int64_t index_place(const array *a, int rank, const int64_t *index)
{
    int64_t place = 0;
    for (int axis = 0; axis < a->rank; axis++) {
        int64_t i = index[axis + rank - a->rank];
        place = place * a->shape[axis] + (a->shape[axis] == 1 ? 0 : i);
    }
    return place;
}

int axis_of(int rank, int axis)
{
    return axis < 0 ? axis + rank : axis;
}

/* ---- Calling ------------------------------------------------------------------------------------------------ */

long double case_scalar(const op_case *c, lab_dtype type)
{
    return type == LAB_F32 ? (long double)(float)c->args.scalar : (long double)c->args.scalar;
}

/* The shape that the operands broadcast to: per axis from the end, the size that is not 1. */
static void broadcast_result(const op_case *c, const array *xs, array *y)
{
    int rank = 0;
    int64_t shape[LAB_MAX_RANK];
    for (int k = 0; k < c->n_inputs; k++)
        rank = xs[k].rank > rank ? xs[k].rank : rank;
    for (int axis = 0; axis < rank; axis++) {
        shape[axis] = 1;
        for (int k = 0; k < c->n_inputs; k++) {
            int own = axis - (rank - xs[k].rank);
            if (own >= 0 && xs[k].shape[own] != 1)
                shape[axis] = xs[k].shape[own];
        }
    }
    array_make(y, c->truth ? LAB_BOOL : xs[c->n_inputs - 1].dtype, rank, shape);
}

void case_reference(const op_case *c, const array *xs, array *y)
{
    if (!c->element) {
        c->reference(c, xs, y);
        return;
    }
    int64_t index[LAB_MAX_RANK] = {0};
    broadcast_result(c, xs, y);
    for (int64_t i = 0; i < y->numel; i++) {
        long double x[CASE_INPUTS] = {0};
        for (int k = 0; k < c->n_inputs; k++)
            x[k] = xs[k].data[index_place(&xs[k], y->rank, index)];
        y->data[i] = c->element(c, xs[c->n_inputs - 1].dtype, x);
        index_next(y->rank, y->shape, index);
    }
}

lab_tensor *case_apply(lab_graph *g, lab_tensor **xs, void *context)
{
    const op_case *c = context;
    if (c->one)
        return c->one(g, xs[0]);
    if (c->two)
        return c->two(g, xs[0], xs[1]);
    return c->build(g, xs, c);
}
