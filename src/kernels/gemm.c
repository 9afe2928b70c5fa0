/* gemm.c - matrix products: the calls of cblas, and how products, whoever multiplies, are dealt to the pool.
 *
 * What is to be called is in the plan (gemm_plan.h). A piece of work is one panel of one result, or a group of results
 * where each alone would not be worth handing over.
 */
#if __has_include(<cblas.h>)
#include <cblas.h>
#else
#include <mkl_cblas.h>
#endif

#include "gemm_plan.h"
#include "parallel.h"

enum { MAX_PLANS = 4 }; /* products that run beside each other */

/* ---- The index of a batch ---------------------------------------------------------------------------------------- */

/* Where the matrices of one index of the batch begin, in elements. */
typedef struct offsets {
    int64_t index[GEMM_MAX_BATCH_RANK];
    int64_t a, b, c;
} offsets;

static void seek(const gemm_plan *p, offsets *o, int first, int last, int64_t flat)
{
    for (int axis = last - 1; axis >= first; axis--) {
        o->index[axis] = flat % p->batch[axis];
        flat /= p->batch[axis];
        o->a += o->index[axis] * p->a.batch[axis];
        o->b += o->index[axis] * p->b.batch[axis];
        o->c += o->index[axis] * p->c.batch[axis];
    }
}

/* The next index of the axes [first, last), the last fastest; after the last one comes the first again. */
static void step(const gemm_plan *p, offsets *o, int first, int last)
{
    for (int axis = last - 1; axis >= first; axis--) {
        int64_t by = 1;
        if (++o->index[axis] == p->batch[axis]) {
            o->index[axis] = 0;
            by = 1 - p->batch[axis];
        }
        o->a += by * p->a.batch[axis];
        o->b += by * p->b.batch[axis];
        o->c += by * p->c.batch[axis];
        if (by == 1)
            return;
    }
}

/* ---- Multiplying ------------------------------------------------------------------------------------------------- */

static void multiply_matrix(const gemm_plan *p, int64_t rows, int64_t cols, const void *a, const void *b, bool add,
                            void *c)
{
    CBLAS_TRANSPOSE a_is = p->a.transposed ? CblasTrans : CblasNoTrans;
    CBLAS_TRANSPOSE b_is = p->b.transposed ? CblasTrans : CblasNoTrans;
    int m = (int)rows, n = (int)cols, k = (int)p->k, a_ld = (int)p->a.ld, b_ld = (int)p->b.ld, c_ld = (int)p->c.ld;
    if (p->type == KERNEL_F32)
        cblas_sgemm(CblasRowMajor, a_is, b_is, m, n, k, 1.0f, a, a_ld, b, b_ld, add ? 1.0f : 0.0f, c, c_ld);
    else
        cblas_dgemm(CblasRowMajor, a_is, b_is, m, n, k, 1.0, a, a_ld, b, b_ld, add ? 1.0 : 0.0, c, c_ld);
}

/* Several times as fast as a product with one column. The result is set to 0 here: of all things in a BLAS, beta = 0 in
 * gemv is the least sure not to read what it overwrites. */
static void multiply_vector(const gemm_plan *p, int64_t rows, const void *a, const void *b, bool add, void *c)
{
    CBLAS_TRANSPOSE a_is = p->a.transposed ? CblasTrans : CblasNoTrans;
    int m = (int)(p->a.transposed ? p->k : rows), n = (int)(p->a.transposed ? rows : p->k);
    int a_ld = (int)p->a.ld, b_step = (int)p->b.ld, c_step = (int)p->c.ld;
    if (p->type == KERNEL_F32) {
        for (int64_t i = 0; i < rows && !add; i++)
            ((float *)c)[i * c_step] = 0.0f;
        cblas_sgemv(CblasRowMajor, a_is, m, n, 1.0f, a, a_ld, b, b_step, 1.0f, c, c_step);
    } else {
        for (int64_t i = 0; i < rows && !add; i++)
            ((double *)c)[i * c_step] = 0.0;
        cblas_dgemv(CblasRowMajor, a_is, m, n, 1.0, a, a_ld, b, b_step, 1.0, c, c_step);
    }
}

/* One panel of one entry: all its terms, in ascending order. */
static void multiply_panel(const gemm_plan *p, offsets *o, int64_t panel)
{
    int64_t start = lab__gemm_panel_start(p, panel), length = lab__gemm_panel_start(p, panel + 1) - start;
    int64_t m = p->cut_rows ? length : p->m, n = p->cut_rows ? p->n : length, size = (int64_t)p->size;
    const char *a = p->a.copied ? p->a.copy : p->a.data, *b = p->b.copied ? p->b.copy : p->b.data;
    char *c = p->c.copied ? p->c.copy : p->c.data;
    if (start > 0) {
        a += p->cut_rows ? start * p->a.row * size : 0;
        b += p->cut_rows ? 0 : start * p->b.col * size;
        c += start * (p->cut_rows ? p->c.row : p->c.col) * size;
    }
    bool add = p->add && (!p->c.copied || p->tiled);
    for (int64_t term = 0; term < p->terms; term++) {
        const char *a_term = a + o->a * size, *b_term = b + o->b * size;
        if (p->tiled)
            lab__gemm_tile(p, m, n, a_term, b_term, add, c + o->c * size);
        else if (p->vector)
            multiply_vector(p, m, a_term, b_term, add, c + o->c * size);
        else
            multiply_matrix(p, m, n, a_term, b_term, add, c + o->c * size);
        add = true;
        step(p, o, p->entry_rank, p->rank);
    }
}

typedef struct run {
    int count;
    gemm_plan plans[MAX_PLANS];
} run;

static void multiply_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const run *r = context;
    const gemm_plan *p = r->plans;
    while (piece >= p->pieces)
        piece -= p++->pieces;
    int64_t unit = piece * p->group, end = unit + p->group, units = p->entries * p->panels;
    if (end > units)
        end = units;
    offsets o = {0};
    seek(p, &o, 0, p->entry_rank, unit / p->panels);
    if (!p->tiled)
        lab__blas_piece_begin();
    for (int64_t panel = unit % p->panels; unit < end; unit++) {
        multiply_panel(p, &o, panel);
        if (++panel == p->panels) {
            panel = 0;
            step(p, &o, 0, p->entry_rank);
        }
    }
    if (!p->tiled)
        lab__blas_piece_end();
}

/* ---- A run --------------------------------------------------------------------------------------------------------- */

/* Those with the largest pieces first, so that the run ends with small ones. */
static void sort_plans(run *r)
{
    for (int i = 1; i < r->count; i++)
        for (int j = i; j > 0 && r->plans[j].work > r->plans[j - 1].work; j--) {
            gemm_plan swapped = r->plans[j];
            r->plans[j] = r->plans[j - 1];
            r->plans[j - 1] = swapped;
        }
}

static void run_plans(run *r)
{
    int64_t pieces = 0;
    sort_plans(r);
    for (int i = 0; i < r->count; i++) {
        lab__gemm_copy_in(&r->plans[i]);
        pieces += r->plans[i].pieces;
    }
    lab__blas_guard_enter();
    lab__parallel_run(pieces, multiply_piece, r);
    lab__blas_guard_leave();
    for (int i = 0; i < r->count; i++)
        lab__gemm_copy_out(&r->plans[i]);
}

void lab__gemm_run(int count, const gemm_product *products, void *workspace)
{
    run r; /* a plan is too large to be cleared for nothing */
    r.count = 0;
    for (int i = 0; i < count; i++) {
        gemm_plan *p = &r.plans[r.count];
        lab__gemm_plan(p, &products[i]);
        if (p->empty) {
            if (!p->add)
                lab__gemm_zero(p);
            continue;
        }
        workspace = lab__gemm_place_copies(p, workspace);
        if (++r.count == MAX_PLANS) {
            run_plans(&r);
            r.count = 0;
        }
    }
    if (r.count > 0)
        run_plans(&r);
}

static int least_ld(int64_t cols)
{
    return cols > 1 ? (int)cols : 1;
}

void lab__gemm_direct(kernel_type type, int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c)
{
    if (type == KERNEL_F32)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1.0f, a, least_ld(k), b,
                    least_ld(n), 0.0f, c, least_ld(n));
    else
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1.0, a, least_ld(k), b,
                    least_ld(n), 0.0, c, least_ld(n));
}

const void *lab__gemm_address(void)
{
    return (const void *)(uintptr_t)cblas_sgemm;
}
