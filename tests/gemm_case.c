/* gemm_case.c - products in guarded memory, in every layout, and a plain loop in long double that judges them. */
#include "gemm_case.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 3 };

static size_t size_of(const gemm_product *p)
{
    return p->type == KERNEL_F32 ? sizeof(float) : sizeof(double);
}

double case_element(const gemm_product *p, const void *data, int64_t offset)
{
    return p->type == KERNEL_F32 ? (double)((const float *)data)[offset] : ((const double *)data)[offset];
}

static void set_element(const gemm_product *p, void *data, int64_t offset, double value)
{
    if (p->type == KERNEL_F32)
        ((float *)data)[offset] = (float)value;
    else
        ((double *)data)[offset] = value;
}

/* ---- Layouts --------------------------------------------------------------------------------------------------------- */

/* Strides of a matrix, and how far one of a batch is from the next. */
static int64_t lay_out(case_layout layout, int64_t rows, int64_t cols, int64_t *row, int64_t *col)
{
    switch (layout) {
    case LAYOUT_ROWS:
        *row = cols, *col = 1;
        return rows * cols;
    case LAYOUT_ROWS_APART:
        *row = cols + GAP, *col = 1;
        return rows * *row;
    case LAYOUT_COLUMNS:
        *row = 1, *col = rows;
        return rows * cols;
    case LAYOUT_COLUMNS_APART:
        *row = 1, *col = rows + GAP;
        return cols * *col;
    case LAYOUT_STRIDED:
        *row = 2 * cols + GAP, *col = 2;
        return rows * *row;
    case LAYOUT_ONE_ROW:
        *row = 0, *col = 1;
        return cols;
    case LAYOUT_ONE_COLUMN:
        *row = 1, *col = 0;
        return rows;
    case LAYOUT_WINDOWS:
        *row = *col = 1;
        return rows + cols - 1;
    default:
        *row = *col = 0;
        return 1;
    }
}

static void batch_strides(const gemm_product *p, int64_t *strides, int64_t step)
{
    for (int axis = p->batch_rank - 1; axis >= 0; axis--) {
        strides[axis] = step;
        step *= p->batch[axis];
    }
}

void case_layouts(gemm_product *p, case_layout a, case_layout b, case_layout c)
{
    batch_strides(p, p->a_batch, lay_out(a, p->m, p->k, &p->a_row, &p->a_col));
    batch_strides(p, p->b_batch, lay_out(b, p->k, p->n, &p->b_row, &p->b_col));
    batch_strides(p, p->c_batch, lay_out(c, p->m, p->n, &p->c_row, &p->c_col));
}

void case_both_types(gemm_product p, void (*fn)(const gemm_product *p, uint64_t *stream), uint64_t *stream)
{
    for (int i = 0; i < 4; i++) {
        p.type = i % 2 ? KERNEL_F64 : KERNEL_F32;
        p.add = i / 2;
        fn(&p, stream);
    }
}

void case_every_layout(int64_t m, int64_t n, int64_t k, void (*fn)(const gemm_product *p, uint64_t *stream),
                       uint64_t *stream)
{
    for (int layouts = 0; layouts < LAYOUTS * LAYOUTS * LAYOUT_RESULTS; layouts++) {
        gemm_product p = {.m = m, .n = n, .k = k};
        case_layouts(&p, (case_layout)(layouts % LAYOUTS), (case_layout)(layouts / LAYOUTS % LAYOUTS),
                     (case_layout)(layouts / LAYOUTS / LAYOUTS));
        case_both_types(p, fn, stream);
    }
}

/* Axes in a random order from the innermost outwards, some with gaps, some of stride 0 if that is allowed. */
static void random_strides(uint64_t *stream, int count, const int64_t *sizes, int64_t **strides, int may_repeat,
                           int64_t gap_in)
{
    int order[CASE_AXES];
    for (int i = 0; i < count; i++)
        order[i] = i;
    if (guarded_below(stream, 2)) /* else as they are usually: the last axis innermost */
        for (int i = count - 1; i > 0; i--) {
            int j = (int)guarded_below(stream, i + 1), swapped = order[i];
            order[i] = order[j];
            order[j] = swapped;
        }
    int64_t step = guarded_below(stream, gap_in) == 0 ? 2 : 1;
    for (int i = count - 1; i >= 0; i--) {
        int axis = order[i];
        if (axis < may_repeat && guarded_below(stream, 3) == 0) {
            *strides[axis] = 0;
            continue;
        }
        *strides[axis] = sizes[axis] == 1 && guarded_below(stream, 2) ? guarded_below(stream, 1000) : step;
        step *= sizes[axis];
        if (guarded_below(stream, gap_in) == 0)
            step += GAP;
    }
}

void case_random_strides(gemm_product *p, uint64_t *stream)
{
    int64_t *strides[CASE_AXES], sizes[CASE_AXES];
    int rank = p->batch_rank, batch_may_repeat = guarded_below(stream, 2) ? rank : 0;
    memcpy(sizes, p->batch, (size_t)rank * sizeof *sizes);
    struct {
        int64_t *batch, rows, cols, *row, *col;
    } x[3] = {{p->a_batch, p->m, p->k, &p->a_row, &p->a_col},
              {p->b_batch, p->k, p->n, &p->b_row, &p->b_col},
              {p->c_batch, p->m, p->n, &p->c_row, &p->c_col}};
    for (int i = 0; i < 3; i++) {
        for (int axis = 0; axis < rank; axis++)
            strides[axis] = &x[i].batch[axis];
        sizes[rank] = x[i].rows;
        sizes[rank + 1] = x[i].cols;
        strides[rank] = x[i].row;
        strides[rank + 1] = x[i].col;
        int may_repeat = i < 2 && guarded_below(stream, 8) == 0 ? rank + 2 : batch_may_repeat;
        random_strides(stream, rank + 2, sizes, strides, may_repeat, guarded_below(stream, 2) ? 8 : 1000000);
    }
}

/* ---- Walking ----------------------------------------------------------------------------------------------------------- */

static int64_t batches(const gemm_product *p)
{
    int64_t count = 1;
    for (int axis = 0; axis < p->batch_rank; axis++)
        count *= p->batch[axis];
    return count;
}

static int64_t batch_offset(const gemm_product *p, const int64_t *strides, int64_t flat)
{
    int64_t offset = 0;
    for (int axis = p->batch_rank - 1; axis >= 0; axis--) {
        offset += flat % p->batch[axis] * strides[axis];
        flat /= p->batch[axis];
    }
    return offset;
}

/* Elements from the first to the last. */
static int64_t extent(const gemm_product *p, const int64_t *batch, int64_t rows, int64_t cols, int64_t row, int64_t col)
{
    if (rows == 0 || cols == 0 || batches(p) == 0)
        return 0;
    int64_t last = (rows - 1) * row + (cols - 1) * col;
    for (int axis = 0; axis < p->batch_rank; axis++)
        last += (p->batch[axis] - 1) * batch[axis];
    return last + 1;
}

static void randomize(const gemm_product *p, guarded *g, uint64_t *stream)
{
    for (int64_t i = 0; i < (int64_t)(g->bytes / size_of(p)); i++)
        set_element(p, g->data, i, guarded_uniform(stream));
}

/* ---- A case ------------------------------------------------------------------------------------------------------------ */

gemm_case case_make(const gemm_product *p, uint64_t *stream)
{
    size_t size = size_of(p);
    gemm_case x = {.p = *p};
    x.a = guarded_take(size * (size_t)extent(p, p->a_batch, p->m, p->k, p->a_row, p->a_col), stream);
    x.b = guarded_take(size * (size_t)extent(p, p->b_batch, p->k, p->n, p->b_row, p->b_col), stream);
    x.c = guarded_take(size * (size_t)extent(p, p->c_batch, p->m, p->n, p->c_row, p->c_col), stream);
    randomize(p, &x.a, stream);
    randomize(p, &x.b, stream);
    randomize(p, &x.c, stream);
    for (int64_t q = 0; q < batches(p) && !p->add; q++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++)
                set_element(p, x.c.data, batch_offset(p, p->c_batch, q) + i * p->c_row + j * p->c_col, NAN);
    guarded_remember(&x.a);
    guarded_remember(&x.b);
    guarded_remember(&x.c);
    x.p.a = x.a.data;
    x.p.b = x.b.data;
    x.p.c = x.c.data;
    return x;
}

void case_free(gemm_case *x)
{
    guarded_free(&x->a);
    guarded_free(&x->b);
    guarded_free(&x->c);
    guarded_free(&x->workspace);
}

void case_run(int count, gemm_case *cases)
{
    enum { MOST = 16 };
    gemm_product products[MOST];
    uint64_t stream = 1;
    for (int i = 0; i < count; i++)
        products[i] = cases[i].p;
    guarded_free(&cases[0].workspace);
    cases[0].workspace = guarded_take(lab__gemm_workspace(count, products), &stream);
    lab__gemm_run(count, products, cases[0].workspace.data);
}

/* The sum of the products that go into one element of the result, and of their absolute values. */
static long double element_sum(const gemm_case *x, int64_t c_offset, int64_t i, int64_t j, long double *absolute)
{
    const gemm_product *p = &x->p;
    long double sum = 0.0L;
    for (int64_t q = 0; q < batches(p); q++) {
        if (batch_offset(p, p->c_batch, q) != c_offset)
            continue;
        int64_t a = batch_offset(p, p->a_batch, q) + i * p->a_row, b = batch_offset(p, p->b_batch, q) + j * p->b_col;
        for (int64_t k = 0; k < p->k; k++) {
            long double term = (long double)case_element(p, p->a, a + k * p->a_col) *
                               (long double)case_element(p, p->b, b + k * p->b_row);
            sum += term;
            *absolute += fabsl(term);
        }
    }
    return sum;
}

/* What is wrong with the elements of the result. */
static const char *wrong_element(const gemm_case *x)
{
    static char text[256];
    const gemm_product *p = &x->p;
    double epsilon = p->type == KERNEL_F32 ? FLT_EPSILON : DBL_EPSILON;
    const char *wrong = NULL;
    unsigned char *seen = calloc(x->c.bytes / size_of(p) + 1, 1); /* an element of several batches is judged once */
    for (int64_t q = 0; q < batches(p) && !wrong; q++)
        for (int64_t i = 0; i < p->m && !wrong; i++)
            for (int64_t j = 0; j < p->n && !wrong; j++) {
                int64_t batch = batch_offset(p, p->c_batch, q), at = batch + i * p->c_row + j * p->c_col;
                if (seen[at])
                    continue;
                seen[at] = 1;
                long double absolute = 0.0L, want = element_sum(x, batch, i, j, &absolute);
                if (p->add) {
                    double before = case_element(p, guarded_remembered(&x->c), at);
                    want += before;
                    absolute += fabs(before);
                }
                double got = case_element(p, p->c, at);
                if (fabsl(got - want) <= absolute * epsilon * (long double)(p->k + batches(p) + 4) && !isnan(got))
                    continue;
                snprintf(text, sizeof text, "c[%lld][%lld, %lld] is %.17g, want %.17Lg", (long long)q, (long long)i,
                         (long long)j, got, want);
                wrong = text;
            }
    free(seen);
    return wrong;
}

/* Whether what lies between the elements of the result is as it was. */
static bool gaps_unchanged(const gemm_case *x)
{
    const gemm_product *p = &x->p;
    const size_t size = size_of(p), count = x->c.bytes / size;
    unsigned char *of_result = calloc(count + 1, 1);
    for (int64_t q = 0; q < batches(p); q++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++)
                of_result[batch_offset(p, p->c_batch, q) + i * p->c_row + j * p->c_col] = 1;
    bool same = true;
    for (size_t i = 0; i < count && same; i++)
        same = of_result[i] || memcmp(x->c.data + i * size, guarded_remembered(&x->c) + i * size, size) == 0;
    free(of_result);
    return same;
}

const char *case_touched(const gemm_case *x)
{
    if (!gaps_unchanged(x))
        return "an element between those of the result was written";
    if (!(guarded_unchanged(&x->a, true) && guarded_unchanged(&x->b, true)))
        return "an operand was written";
    if (!guarded_unchanged(&x->c, false))
        return "memory beside the result was written";
    if (x->workspace.data && !guarded_unchanged(&x->workspace, false))
        return "memory beside the workspace was written";
    return NULL;
}

const char *case_wrong(const gemm_case *x)
{
    const char *wrong = wrong_element(x);
    return wrong ? wrong : case_touched(x);
}

const char *case_text(const gemm_product *p)
{
    static char text[1024];
    int used = snprintf(text, sizeof text, "%s%s %lldx%lldx%lld a(%lld, %lld) b(%lld, %lld) c(%lld, %lld)",
                        p->type == KERNEL_F32 ? "f32" : "f64", p->add ? " add" : "", (long long)p->m, (long long)p->n,
                        (long long)p->k, (long long)p->a_row, (long long)p->a_col, (long long)p->b_row,
                        (long long)p->b_col, (long long)p->c_row, (long long)p->c_col);
    for (int axis = 0; axis < p->batch_rank && used < (int)sizeof text; axis++)
        used += snprintf(text + used, sizeof text - (size_t)used, " [%lld: a %lld b %lld c %lld]",
                         (long long)p->batch[axis], (long long)p->a_batch[axis], (long long)p->b_batch[axis],
                         (long long)p->c_batch[axis]);
    return text;
}
