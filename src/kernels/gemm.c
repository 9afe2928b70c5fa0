/* gemm.c - matrix products on cblas: how a product becomes calls, and the calls pieces of a run.
 *
 * A plan is a product made ready. The result is turned to row-major (C^T = B^T A^T where its columns are the
 * contiguous ones), batch axes are folded into m, n or k where the strides continue, what BLAS cannot read is marked
 * for copying. What remains is `entries` results, each the sum of `terms` products, cut into equal panels.
 *
 * Panels depend on the size of the product alone, so the bits do not depend on threads. How many of them make up a
 * piece of work is for speed only.
 */
#include <limits.h>
#include <string.h>

#if __has_include(<cblas.h>)
#include <cblas.h>
#else
#include <mkl_cblas.h>
#endif

#include "gemm.h"
#include "parallel.h"

enum {
    MAX_PLANS = 4, /* products that run beside each other */
    MAX_AXES = GEMM_MAX_BATCH_RANK,
    PANEL_LEAST = 192, /* rows or columns: smaller ones cost 10 % */
    PANEL_ROUND = 16,  /* panels begin at multiples of it: whole vectors, no shared cache lines */
    WORKSPACE_ALIGN = 64,
};

/* An estimate for the size of pieces: what a call costs, what is multiplied meanwhile, what handing over is worth. */
static const double CALL_FLOPS = 10e3, PIECE_FLOPS = 1e6;

/* One of A, B, C: a matrix for each index of the batch axes. */
typedef struct operand {
    char *data;
    int64_t row, col;
    int64_t batch[MAX_AXES];
    int64_t ld;
    bool transposed; /* as cblas sees it */
    bool copied;     /* through the workspace, at `copy`; its strides are those of the copy, the old ones in `from` */
    char *copy;
    int64_t from_row, from_col, from_batch[MAX_AXES];
} operand;

typedef struct plan {
    kernel_type type;
    size_t size; /* of an element */
    bool add, empty;
    int64_t m, n, k;
    operand a, b, c;
    int rank, entry_rank; /* the axes of entries come first, then those that are summed */
    int64_t batch[MAX_AXES];
    int64_t entries, terms;
    int64_t panels;
    bool cut_rows;
    int64_t group, pieces; /* panels of entries in a piece; pieces */
} plan;

/* ---- Strides as BLAS sees them --------------------------------------------------------------------------------- */

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The leading dimension of a matrix whose rows lie one behind the other, 0 if they do not. The stride of an axis of
 * size 1 means nothing. */
static int64_t row_major(int64_t rows, int64_t cols, int64_t row, int64_t col)
{
    if (cols > 1 && col != 1)
        return 0;
    int64_t least = largest(cols, 1);
    if (rows <= 1)
        return least;
    return row >= least ? row : 0;
}

static bool readable(int64_t rows, int64_t cols, int64_t row, int64_t col)
{
    return row_major(rows, cols, row, col) > 0 || row_major(cols, rows, col, row) > 0;
}

/* Whether a step along the batch is `size` steps along the axis, so that the two are one longer axis. */
static bool continues(int64_t size, int64_t stride, int64_t batch_stride)
{
    int64_t product;
    return size == 1 || (!__builtin_mul_overflow(size, stride, &product) && product == batch_stride);
}

/* ---- From a product to a plan ---------------------------------------------------------------------------------- */

static operand make_operand(const void *data, int64_t row, int64_t col, const int64_t *batch)
{
    operand x = {.data = (char *)data, .row = row, .col = col};
    memcpy(x.batch, batch, sizeof x.batch);
    return x;
}

static void swap_strides(operand *x)
{
    int64_t row = x->row;
    x->row = x->col;
    x->col = row;
}

static void move_axis(plan *p, int to, int from)
{
    p->batch[to] = p->batch[from];
    p->a.batch[to] = p->a.batch[from];
    p->b.batch[to] = p->b.batch[from];
    p->c.batch[to] = p->c.batch[from];
}

static void remove_axis(plan *p, int axis)
{
    for (int i = axis; i + 1 < p->rank; i++)
        move_axis(p, i, i + 1);
    p->rank--;
}

/* x and y, matrices of rows [size] along their `row` and `y_stride` strides, get the batch axis as more of these
 * rows. False, and nothing is changed, if they do not continue or would become unreadable. */
static bool join(plan *p, int axis, int64_t *size, operand *x, int64_t *x_stride, int64_t x_other, int64_t x_size,
                 operand *y, int64_t *y_stride, int64_t y_other, int64_t y_size)
{
    int64_t longer;
    if (__builtin_mul_overflow(*size, p->batch[axis], &longer) || longer > INT_MAX)
        return false;
    if (!continues(*size, *x_stride, x->batch[axis]) || !continues(*size, *y_stride, y->batch[axis]))
        return false;
    int64_t x_new = *size == 1 ? x->batch[axis] : *x_stride, y_new = *size == 1 ? y->batch[axis] : *y_stride;
    if ((!readable(longer, x_size, x_new, x_other) && readable(*size, x_size, *x_stride, x_other)) ||
        (!readable(longer, y_size, y_new, y_other) && readable(*size, y_size, *y_stride, y_other)))
        return false;
    *size = longer;
    *x_stride = x_new;
    *y_stride = y_new;
    return true;
}

static bool fold_axis(plan *p, int axis)
{
    operand *a = &p->a, *b = &p->b, *c = &p->c;
    if (b->batch[axis] == 0 && join(p, axis, &p->m, a, &a->row, a->col, p->k, c, &c->row, c->col, p->n))
        return true;
    if (a->batch[axis] == 0 && join(p, axis, &p->n, b, &b->col, b->row, p->k, c, &c->col, c->row, p->m))
        return true;
    return c->batch[axis] == 0 && join(p, axis, &p->k, a, &a->col, a->row, p->m, b, &b->row, b->col, p->n);
}

/* Leaves out axes of size 1 and folds what can be folded; a fold may make another one possible. */
static void fold(plan *p)
{
    for (int axis = p->rank - 1; axis >= 0; axis--)
        if (p->batch[axis] == 1)
            remove_axis(p, axis);
    for (int axis = p->rank - 1; axis >= 0;)
        if (fold_axis(p, axis)) {
            remove_axis(p, axis);
            axis = p->rank - 1;
        } else {
            axis--;
        }
}

/* Axes along which C stands still go behind the others; the order stays within each kind. */
static void sort_axes(plan *p)
{
    plan old = *p;
    int to = 0;
    for (int summed = 0; summed < 2; summed++) {
        for (int axis = 0; axis < old.rank; axis++) {
            if ((old.c.batch[axis] == 0) != (summed == 1))
                continue;
            p->batch[to] = old.batch[axis];
            p->a.batch[to] = old.a.batch[axis];
            p->b.batch[to] = old.b.batch[axis];
            p->c.batch[to] = old.c.batch[axis];
            to++;
        }
        if (!summed)
            p->entry_rank = to;
    }
    p->entries = p->terms = 1;
    for (int axis = 0; axis < p->rank; axis++)
        *(axis < p->entry_rank ? &p->entries : &p->terms) *= p->batch[axis];
}

/* Decides how cblas reads x, or that it reads a copy. */
static void choose_layout(operand *x, int64_t rows, int64_t cols, const plan *p)
{
    x->transposed = false;
    x->ld = row_major(rows, cols, x->row, x->col);
    if (x->ld > 0)
        return;
    x->ld = row_major(cols, rows, x->col, x->row);
    if (x->ld > 0) {
        x->transposed = true;
        return;
    }
    x->copied = true;
    x->from_row = x->row;
    x->from_col = x->col;
    memcpy(x->from_batch, x->batch, sizeof x->batch);
    x->ld = x->row = largest(cols, 1);
    x->col = 1;
    int64_t next = rows * cols; /* both fit an int; what follows may wrap, then the workspace cannot be had either */
    for (int axis = p->rank - 1; axis >= 0; axis--)
        if (x->batch[axis] != 0) {
            x->batch[axis] = next;
            next = (int64_t)((uint64_t)next * (uint64_t)p->batch[axis]);
        }
}

static void choose_panels(plan *p)
{
    p->cut_rows = p->m >= p->n;
    int64_t side = p->cut_rows ? p->m : p->n;
    p->panels = 1;
    while (side / (2 * p->panels) >= PANEL_LEAST)
        p->panels *= 2;
    double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k / (double)p->panels;
    double unit = (flops + CALL_FLOPS) * (double)p->terms;
    p->group = unit >= PIECE_FLOPS ? 1 : (int64_t)(PIECE_FLOPS / unit) + 1;
    int64_t units = p->entries * p->panels;
    p->pieces = p->empty ? 0 : units / p->group + (units % p->group != 0);
}

static bool is_empty(const gemm_product *g)
{
    bool empty = g->m == 0 || g->n == 0 || g->k == 0;
    for (int axis = 0; axis < g->batch_rank; axis++)
        empty = empty || g->batch[axis] == 0;
    return empty;
}

static void make_plan(plan *p, const gemm_product *g)
{
    *p = (plan){.type = g->type, .add = g->add, .m = g->m, .n = g->n, .k = g->k, .rank = g->batch_rank};
    p->size = g->type == KERNEL_F32 ? sizeof(float) : sizeof(double);
    p->empty = is_empty(g);
    p->a = make_operand(g->a, g->a_row, g->a_col, g->a_batch);
    p->b = make_operand(g->b, g->b_row, g->b_col, g->b_batch);
    p->c = make_operand(g->c, g->c_row, g->c_col, g->c_batch);
    memcpy(p->batch, g->batch, sizeof p->batch);
    if (p->empty) {
        sort_axes(p);
        return;
    }
    fold(p);
    sort_axes(p);
    if (row_major(p->m, p->n, p->c.row, p->c.col) == 0 && row_major(p->n, p->m, p->c.col, p->c.row) > 0) {
        operand a = p->a;
        p->a = p->b;
        p->b = a;
        swap_strides(&p->a);
        swap_strides(&p->b);
        swap_strides(&p->c);
        int64_t m = p->m;
        p->m = p->n;
        p->n = m;
    }
    choose_layout(&p->a, p->m, p->k, p);
    choose_layout(&p->b, p->k, p->n, p);
    choose_layout(&p->c, p->m, p->n, p);
    choose_panels(p);
}

/* ---- The workspace ----------------------------------------------------------------------------------------------- */

/* Bytes of the copy of x, SIZE_MAX if there are too many. */
static size_t copy_bytes(const plan *p, const operand *x, int64_t rows, int64_t cols)
{
    if (!x->copied)
        return 0;
    size_t bytes = p->size;
    bool over =
        __builtin_mul_overflow(bytes, (size_t)rows, &bytes) || __builtin_mul_overflow(bytes, (size_t)cols, &bytes);
    for (int axis = 0; axis < p->rank; axis++)
        if (x->from_batch[axis] != 0)
            over = over || __builtin_mul_overflow(bytes, (size_t)p->batch[axis], &bytes);
    over = over || __builtin_add_overflow(bytes, (size_t)(WORKSPACE_ALIGN - 1), &bytes);
    return over ? SIZE_MAX : bytes & ~(size_t)(WORKSPACE_ALIGN - 1);
}

static size_t plan_bytes(const plan *p, size_t bytes[3])
{
    bytes[0] = copy_bytes(p, &p->a, p->m, p->k);
    bytes[1] = copy_bytes(p, &p->b, p->k, p->n);
    bytes[2] = copy_bytes(p, &p->c, p->m, p->n);
    size_t sum = 0;
    for (int i = 0; i < 3; i++)
        if (__builtin_add_overflow(sum, bytes[i], &sum))
            return SIZE_MAX;
    return sum;
}

bool lab__gemm_fits(const gemm_product *product)
{
    if (is_empty(product)) /* BLAS is not asked */
        return true;
    if (product->m > INT_MAX || product->n > INT_MAX || product->k > INT_MAX)
        return false;
    plan p;
    make_plan(&p, product);
    return p.a.ld <= INT_MAX && p.b.ld <= INT_MAX && p.c.ld <= INT_MAX;
}

size_t lab__gemm_workspace(int count, const gemm_product *products)
{
    size_t sum = 0;
    for (int i = 0; i < count; i++) {
        plan p;
        size_t bytes[3];
        make_plan(&p, &products[i]);
        if (__builtin_add_overflow(sum, plan_bytes(&p, bytes), &sum))
            return SIZE_MAX;
    }
    return sum;
}

static char *place_copies(plan *p, char *workspace)
{
    size_t bytes[3];
    plan_bytes(p, bytes);
    p->a.copy = workspace;
    p->b.copy = p->a.copy + bytes[0];
    p->c.copy = p->b.copy + bytes[1];
    return p->c.copy + bytes[2];
}

/* ---- The index of a batch ---------------------------------------------------------------------------------------- */

/* Where the matrices of one index of the batch begin, in elements. */
typedef struct offsets {
    int64_t index[MAX_AXES];
    int64_t a, b, c;
} offsets;

static void seek(const plan *p, offsets *o, int first, int last, int64_t flat)
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
static void step(const plan *p, offsets *o, int first, int last)
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

static void call_blas(const plan *p, int64_t m, int64_t n, const void *a, const void *b, bool add, void *c)
{
    CBLAS_TRANSPOSE ta = p->a.transposed ? CblasTrans : CblasNoTrans, tb = p->b.transposed ? CblasTrans : CblasNoTrans;
    int k = (int)p->k, a_ld = (int)p->a.ld, b_ld = (int)p->b.ld, c_ld = (int)p->c.ld;
    if (p->type == KERNEL_F32)
        cblas_sgemm(CblasRowMajor, ta, tb, (int)m, (int)n, k, 1.0f, a, a_ld, b, b_ld, add ? 1.0f : 0.0f, c, c_ld);
    else
        cblas_dgemm(CblasRowMajor, ta, tb, (int)m, (int)n, k, 1.0, a, a_ld, b, b_ld, add ? 1.0 : 0.0, c, c_ld);
}

static int64_t panel_start(const plan *p, int64_t panel)
{
    int64_t side = p->cut_rows ? p->m : p->n;
    return panel == p->panels ? side : side * panel / p->panels / PANEL_ROUND * PANEL_ROUND;
}

/* One panel of one entry: all its terms, in ascending order. */
static void multiply_panel(const plan *p, offsets *o, int64_t panel)
{
    int64_t start = panel_start(p, panel), length = panel_start(p, panel + 1) - start;
    int64_t m = p->cut_rows ? length : p->m, n = p->cut_rows ? p->n : length;
    const char *a = p->a.copied ? p->a.copy : p->a.data, *b = p->b.copied ? p->b.copy : p->b.data;
    char *c = p->c.copied ? p->c.copy : p->c.data;
    /* With an axis of size 1 the stride may be anything; it is multiplied by 0 then. */
    a += p->cut_rows ? start * p->a.row * (int64_t)p->size : 0;
    b += p->cut_rows ? 0 : start * p->b.col * (int64_t)p->size;
    c += start * (p->cut_rows ? p->c.row : p->c.col) * (int64_t)p->size;
    bool add = p->add && !p->c.copied;
    for (int64_t term = 0; term < p->terms; term++) {
        call_blas(p, m, n, a + o->a * (int64_t)p->size, b + o->b * (int64_t)p->size, add || term > 0,
                  c + o->c * (int64_t)p->size);
        step(p, o, p->entry_rank, p->rank);
    }
}

typedef struct run {
    int count;
    plan plans[MAX_PLANS];
} run;

static void multiply_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const run *r = context;
    const plan *p = r->plans;
    while (piece >= p->pieces)
        piece -= p++->pieces;
    int64_t unit = piece * p->group, end = unit + p->group, units = p->entries * p->panels;
    if (end > units)
        end = units;
    lab__blas_guard_piece();
    offsets o = {0};
    seek(p, &o, 0, p->entry_rank, unit / p->panels);
    for (int64_t panel = unit % p->panels; unit < end; unit++) {
        multiply_panel(p, &o, panel);
        if (++panel == p->panels) {
            panel = 0;
            step(p, &o, 0, p->entry_rank);
        }
    }
}

/* ---- Copies and sums of nothing ---------------------------------------------------------------------------------- */

enum { COPY_TILE = 32, COPY_ELEMENTS = 1 << 15 /* of a piece */ };

/* Between a matrix of any strides and one of its copy: in, out, or zeros out. */
typedef struct transfer {
    const plan *p;
    const operand *x;
    bool out, zero;
    int64_t rows, cols, matrices;
    int64_t band, bands; /* rows of a piece, pieces of a matrix */
} transfer;

static void move_f32(int64_t n, float *to, int64_t to_step, const float *from, int64_t from_step, bool add)
{
    for (int64_t i = 0; i < n; i++)
        to[i * to_step] = from[i * from_step] + (add ? to[i * to_step] : 0.0f);
}

static void move_f64(int64_t n, double *to, int64_t to_step, const double *from, int64_t from_step, bool add)
{
    for (int64_t i = 0; i < n; i++)
        to[i * to_step] = from[i * from_step] + (add ? to[i * to_step] : 0.0);
}

static void move_row(const transfer *t, int64_t n, char *to, int64_t to_step, const char *from, int64_t from_step)
{
    static const double nothing = 0.0;
    if (t->zero)
        from = (const char *)&nothing, from_step = 0;
    bool add = t->out && t->p->add;
    if (t->p->type == KERNEL_F32)
        move_f32(n, (float *)to, to_step, (const float *)from, from_step, add);
    else
        move_f64(n, (double *)to, to_step, (const double *)from, from_step, add);
}

/* Some rows of one matrix, in tiles, so that whichever side has its neighbours in a column finds them in cache. */
static void transfer_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const transfer *t = context;
    const plan *p = t->p;
    const operand *x = t->x;
    int64_t strided = 0, packed = 0, flat = piece / t->bands, size = (int64_t)p->size;
    for (int axis = p->rank - 1; axis >= 0; axis--)
        if (x->from_batch[axis] != 0) {
            strided += flat % p->batch[axis] * x->from_batch[axis];
            packed += flat % p->batch[axis] * x->batch[axis];
            flat /= p->batch[axis];
        }
    int64_t first = piece % t->bands * t->band, last = first + t->band < t->rows ? first + t->band : t->rows;
    for (int64_t col = 0; col < t->cols; col += COPY_TILE)
        for (int64_t row = first; row < last; row++) {
            int64_t n = t->cols - col < COPY_TILE ? t->cols - col : COPY_TILE;
            char *there = x->data + (strided + row * x->from_row + col * x->from_col) * size;
            char *here = t->zero ? NULL : x->copy + (packed + row * x->row + col) * size;
            if (t->out)
                move_row(t, n, there, x->from_col, here, 1);
            else
                move_row(t, n, here, 1, there, x->from_col);
        }
}

static void run_transfer(const plan *p, const operand *x, int64_t rows, int64_t cols, bool out, bool zero)
{
    transfer t = {.p = p, .x = x, .rows = rows, .cols = cols, .out = out, .zero = zero, .matrices = 1};
    for (int axis = 0; axis < p->rank; axis++)
        if (x->from_batch[axis] != 0)
            t.matrices *= p->batch[axis];
    if (rows == 0 || cols == 0 || t.matrices == 0)
        return;
    t.band = COPY_ELEMENTS / cols + 1;
    t.bands = (rows + t.band - 1) / t.band;
    lab__parallel_run(t.matrices * t.bands, transfer_piece, &t);
}

static void zero_result(plan *p)
{
    operand *c = &p->c;
    c->from_row = c->row;
    c->from_col = c->col;
    memcpy(c->from_batch, c->batch, sizeof c->batch);
    run_transfer(p, c, p->m, p->n, true, true);
}

/* ---- A run --------------------------------------------------------------------------------------------------------- */

/* Those with the largest pieces first, so that the run ends with small ones. */
static void sort_plans(run *r)
{
    for (int i = 1; i < r->count; i++)
        for (int j = i; j > 0; j--) {
            plan *p = &r->plans[j], *before = p - 1;
            double work = (double)p->m * (double)p->n * (double)p->k * (double)p->terms / (double)p->panels;
            double work_before = (double)before->m * (double)before->n * (double)before->k * (double)before->terms /
                                 (double)before->panels;
            if (work <= work_before)
                break;
            plan swapped = *p;
            *p = *before;
            *before = swapped;
        }
}

static void run_plans(run *r)
{
    int64_t pieces = 0;
    sort_plans(r);
    for (int i = 0; i < r->count; i++) {
        plan *p = &r->plans[i];
        if (p->a.copied)
            run_transfer(p, &p->a, p->m, p->k, false, false);
        if (p->b.copied)
            run_transfer(p, &p->b, p->k, p->n, false, false);
        pieces += p->pieces;
    }
    lab__blas_guard_enter();
    lab__parallel_run(pieces, multiply_piece, r);
    lab__blas_guard_leave();
    for (int i = 0; i < r->count; i++)
        if (r->plans[i].c.copied)
            run_transfer(&r->plans[i], &r->plans[i].c, r->plans[i].m, r->plans[i].n, true, false);
}

void lab__gemm_run(int count, const gemm_product *products, void *workspace)
{
    run r = {.count = 0};
    for (int i = 0; i < count; i++) {
        plan *p = &r.plans[r.count];
        make_plan(p, &products[i]);
        if (p->empty) {
            if (!p->add)
                zero_result(p);
            continue;
        }
        workspace = place_copies(p, workspace);
        if (++r.count == MAX_PLANS) {
            run_plans(&r);
            r.count = 0;
        }
    }
    if (r.count > 0)
        run_plans(&r);
}

void lab__gemm_direct(kernel_type type, int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c)
{
    if (type == KERNEL_F32)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1.0f, a, (int)largest(k, 1), b,
                    (int)largest(n, 1), 0.0f, c, (int)largest(n, 1));
    else
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1.0, a, (int)largest(k, 1), b,
                    (int)largest(n, 1), 0.0, c, (int)largest(n, 1));
}
