/* panel_check.c - what the tests of panels share. */
#include "panel_check.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- Matrices between guards -------------------------------------------------------------------------------------------- */

block take(kernel_type type, int64_t rows, int64_t columns, int64_t step, uint64_t *stream)
{
    const int64_t elements = rows > 0 ? (rows - 1) * step + columns : 0;
    block b = {type, rows, columns, step, guarded_take((size_t)elements * check_size(type), stream)};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            check_put(type, b.memory.data, r * step + c, guarded_uniform(stream));
    guarded_remember(&b.memory);
    return b;
}

void *at(const block *b)
{
    return b->memory.data;
}

long double get(const block *b, int64_t r, int64_t c)
{
    return check_get(b->type, b->memory.data, r * b->step + c);
}

long double before(const block *b, int64_t r, int64_t c)
{
    return check_get(b->type, guarded_remembered(&b->memory), r * b->step + c);
}

void put(block *b, int64_t r, int64_t c, long double x)
{
    check_put(b->type, b->memory.data, r * b->step + c, x);
    guarded_remember(&b->memory);
}

void drop(block *b, bool written, const char *what)
{
    const unsigned long long seed = guarded_seed();
    const size_t size = check_size(b->type);
    if (!guarded_unchanged(&b->memory, !written))
        fail_msg("seed %llu: %s: wrote beside the matrix, or into an operand", seed, what);
    for (int64_t r = 0; r + 1 < b->rows && b->step > b->columns; r++) {
        const size_t gap = (size_t)(r * b->step + b->columns) * size, bytes = (size_t)(b->step - b->columns) * size;
        if (memcmp(b->memory.data + gap, guarded_remembered(&b->memory) + gap, bytes) != 0)
            fail_msg("seed %llu: %s: wrote behind row %lld", seed, what, (long long)r);
    }
    guarded_free(&b->memory);
}

long double rounded(kernel_type type, long double x)
{
    return type == KERNEL_F32 ? (long double)(float)x : (long double)(double)x;
}

long double epsilon(kernel_type type)
{
    return type == KERNEL_F32 ? FLT_EPSILON : DBL_EPSILON;
}

bool same(long double a, long double b)
{
    return a == b || (isnan(a) && isnan(b));
}

void expect_near(const char *what, int64_t n, int64_t j, int64_t i, long double got, long double want,
                 long double allowed)
{
    if (!same(got, want) && !(fabsl(got - want) <= allowed))
        fail_msg("seed %llu: %s, n %lld: element %lld of query %lld is %.20Lg, should be %.20Lg (%.2Lg allowed)",
                 (unsigned long long)guarded_seed(), what, (long long)n, (long long)j, (long long)i, got, want,
                 allowed);
}

const char *name(const kernel_table *table, kernel_type type, const char *function)
{
    return check_text(table, type, function, 0, 0, 0);
}

int64_t size_at(int i, int lanes)
{
    const int64_t sizes[SIZES] = {0, 1, 2, 3, 4, 5, 7, lanes - 1, lanes, lanes + 1, 29, 53};
    return sizes[i];
}

/* ---- Limits -------------------------------------------------------------------------------------------------------------- */

void draw_limits(limits *l, int width, int64_t n, uint64_t *stream)
{
    const int64_t kind = guarded_below(stream, 4);
    int64_t first = 0, stop = n;
    for (int i = 0; i < width; i++) {
        int64_t a = guarded_below(stream, n + 1), b = guarded_below(stream, n + 1);
        if (kind == 1) /* narrow edges, as of a diagonal */
            a = a < 3 ? a : 0, b = n - (b < 3 ? b : 0);
        l->first[i] = (int32_t)(kind == 0 ? 0 : a);
        l->stop[i] = (int32_t)(kind == 0 ? n : b);
        first = l->first[i] > first ? l->first[i] : first;
        stop = l->stop[i] < stop ? l->stop[i] : stop;
    }
    l->fns = (kernel_limits){.first = kind == 0 ? NULL : l->first,
                             .stop = kind == 0 ? NULL : l->stop,
                             .full_first = first < stop ? first : n,
                             .full_stop = first < stop ? stop : n};
}

bool within(const limits *l, int64_t j, int i)
{
    return l->first[i] <= j && j < l->stop[i];
}

/* ---- Scores ------------------------------------------------------------------------------------------------------------ */

void draw_scores(block *s, scores_kind kind, uint64_t *stream)
{
    for (int64_t j = 0; j < s->rows; j++)
        for (int64_t i = 0; i < s->columns; i++) {
            long double x = 8 * guarded_uniform(stream);
            const int64_t special = guarded_below(stream, 8);
            if (kind == WILD)
                x = special == 0 ? -INFINITY : special == 1 ? -1e30L : special == 2 ? 300 * x : x;
            if (kind == ALL_FORBIDDEN && i % 2)
                x = -INFINITY;
            check_put(s->type, s->memory.data, j * s->step + i, x);
        }
    if (kind == WITH_NAN && s->rows > 0)
        check_put(s->type, s->memory.data, guarded_below(stream, s->rows) * s->step + guarded_below(stream, s->columns),
                  NAN);
    guarded_remember(&s->memory);
}
