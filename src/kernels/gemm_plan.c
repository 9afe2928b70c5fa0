/* gemm_plan.c - from strides to BLAS's flags: folding, who multiplies, copying, cutting.
 *
 * Panels depend on the size of the product alone, so the bits do not depend on threads. How many of them make up a
 * piece of work is for speed only.
 */
#include <limits.h>
#include <string.h>

#include "gemm_plan.h"

enum {
    PANEL_LEAST = 192, /* rows or columns: smaller ones cost 10 % */
    PANEL_ROUND = 16,  /* panels begin at multiples of it: whole vectors, no shared cache lines */
    PANELS_MOST = 64,  /* of all entries together: more do not help, and each costs a little */
    WORKSPACE_ALIGN = 64,
};

/* Where the tile product takes what could go to cblas: for sums of few bytes of A, and vectors that meet a matrix too
 * large for a core's cache. */
enum { TILED_BITS = 256, TILED_SUM = 4096, TILED_ACROSS = 64, READ_BYTES = 1 << 20, READ_SUM = 8192 };

/* The same with vectors of 512 bits: multiplications beyond which OpenBLAS has no code for small products; the longest
 * sums, and the least sides. */
enum { WIDE_BITS = 512, WIDE_LARGE = 1000000, WIDE_SUM = 1024, WIDE_SIDE = 4, WIDE_DOTS = 8 };

/* An estimate for the size of pieces: what a call costs; what is worth handing over, some 10 us; how much longer a
 * number of a matrix takes when it meets one vector only. */
static const double CALL_FLOPS = 10e3, PIECE_FLOPS = 1e6, VECTOR_FACTOR = 4.0;

/* ---- Strides as BLAS sees them --------------------------------------------------------------------------------- */

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The leading dimension of a matrix whose rows lie one behind the other, 0 if they do not. The stride of an axis of
 * size 1 means nothing. */
static int64_t row_major(int64_t rows, int64_t cols, int64_t row, int64_t col)
{
    if (cols > 1 && col != 1)
        return 0;
    int64_t dense = largest(cols, 1);
    if (rows <= 1)
        return dense;
    return row >= dense ? row : 0;
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

static void set_operand(gemm_operand *x, const void *data, int64_t row, int64_t col, int rank, const int64_t *batch)
{
    x->data = (char *)data;
    x->row = row;
    x->col = col;
    x->copied = false;
    memcpy(x->batch, batch, (size_t)rank * sizeof *batch);
}

static void swap_strides(gemm_operand *x)
{
    int64_t row = x->row;
    x->row = x->col;
    x->col = row;
}

static void move_axis(gemm_plan *p, int to, int from)
{
    p->batch[to] = p->batch[from];
    p->a.batch[to] = p->a.batch[from];
    p->b.batch[to] = p->b.batch[from];
    p->c.batch[to] = p->c.batch[from];
}

static void remove_axis(gemm_plan *p, int axis)
{
    for (int i = axis; i + 1 < p->rank; i++)
        move_axis(p, i, i + 1);
    p->rank--;
}

/* Makes the batch axis a continuation of the axis of `size` that x and y share; along it they have x_stride and
 * y_stride, along their other axes, of sizes x_size and y_size, x_other and y_other. False, and nothing is changed, if
 * the one does not continue the other, or if BLAS could no longer read what it can. */
static bool join(gemm_plan *p, int axis, int64_t *size, gemm_operand *x, int64_t *x_stride, int64_t x_other,
                 int64_t x_size, gemm_operand *y, int64_t *y_stride, int64_t y_other, int64_t y_size)
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

/* Whether an axis that is summed comes behind this one: the tile product keeps their order. */
static bool sums_behind(const gemm_plan *p, int axis)
{
    while (++axis < p->rank)
        if (p->c.batch[axis] == 0)
            return true;
    return false;
}

static bool fold_axis(gemm_plan *p, int axis)
{
    gemm_operand *a = &p->a, *b = &p->b, *c = &p->c;
    if (b->batch[axis] == 0 && join(p, axis, &p->m, a, &a->row, a->col, p->k, c, &c->row, c->col, p->n))
        return true;
    if (a->batch[axis] == 0 && join(p, axis, &p->n, b, &b->col, b->row, p->k, c, &c->col, c->row, p->m))
        return true;
    if (p->tiled && sums_behind(p, axis))
        return false;
    return c->batch[axis] == 0 && join(p, axis, &p->k, a, &a->col, a->row, p->m, b, &b->row, b->col, p->n);
}

/* Leaves out axes of size 1 and folds what can be folded; a fold may make another one possible. */
static void fold(gemm_plan *p)
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

static void swap_axes(gemm_plan *p, int i, int j)
{
    int64_t *const sizes[] = {p->batch, p->a.batch, p->b.batch, p->c.batch};
    for (int x = 0; x < 4; x++) {
        int64_t swapped = sizes[x][i];
        sizes[x][i] = sizes[x][j];
        sizes[x][j] = swapped;
    }
}

/* Axes along which C stands still go behind the others; the order stays within each kind. */
static void sort_axes(gemm_plan *p)
{
    p->entries = p->terms = 1;
    for (int axis = 0; axis < p->rank; axis++) {
        if (p->c.batch[axis] == 0) {
            p->terms *= p->batch[axis];
            continue;
        }
        p->entries *= p->batch[axis];
        for (int i = axis; i > p->entry_rank; i--)
            swap_axes(p, i, i - 1);
        p->entry_rank++;
    }
}

/* From now on x is a copy, packed. */
static void make_copy(gemm_operand *x, int64_t rows, int64_t cols, const gemm_plan *p)
{
    x->copied = true;
    x->from_row = x->row;
    x->from_col = x->col;
    memcpy(x->from_batch, x->batch, (size_t)p->rank * sizeof *x->batch);
    x->ld = x->row = largest(cols, 1);
    x->col = 1;
    int64_t next = rows * cols; /* both fit an int; what follows may wrap, then the workspace cannot be had either */
    for (int axis = p->rank - 1; axis >= 0; axis--)
        if (x->batch[axis] != 0) {
            x->batch[axis] = next;
            next = (int64_t)((uint64_t)next * (uint64_t)p->batch[axis]);
        }
}

/* Decides how cblas reads x, or that it reads a copy. */
static void choose_layout(gemm_operand *x, int64_t rows, int64_t cols, const gemm_plan *p)
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
    make_copy(x, rows, cols, p);
}

/* The same for a vector, which BLAS reads with any stride of at least 1. */
static void choose_vector_layout(gemm_operand *x, int64_t size, const gemm_plan *p)
{
    x->transposed = false;
    x->ld = size == 1 ? 1 : x->row;
    if (x->ld < 1)
        make_copy(x, size, 1, p);
}

static void choose_panels(gemm_plan *p)
{
    p->cut_rows = p->m >= p->n;
    int64_t side = p->cut_rows ? p->m : p->n, most = PANELS_MOST / p->entries;
    bool vector = p->m == 1 || p->n == 1;
    double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k * (vector ? VECTOR_FACTOR : 1.0);
    p->panels = 1;
    while (2 * p->panels <= most && side / (2 * p->panels) >= PANEL_LEAST &&
           flops * (double)p->terms / (double)(2 * p->panels) >= PIECE_FLOPS)
        p->panels *= 2;
    p->work = (flops / (double)p->panels + CALL_FLOPS) * (double)p->terms;
    p->group = p->work >= PIECE_FLOPS ? 1 : (int64_t)(PIECE_FLOPS / p->work) + 1;
    int64_t units = p->entries * p->panels;
    p->pieces = units / p->group + (units % p->group != 0);
}

int64_t lab__gemm_panel_start(const gemm_plan *p, int64_t panel)
{
    int64_t side = p->cut_rows ? p->m : p->n;
    return panel == p->panels ? side : side * panel / p->panels / PANEL_ROUND * PANEL_ROUND;
}

static bool is_empty(const gemm_product *g)
{
    bool empty = g->m == 0 || g->n == 0 || g->k == 0;
    for (int axis = 0; axis < g->batch_rank; axis++)
        empty = empty || g->batch[axis] == 0;
    return empty;
}

/* C^T = B^T A^T. */
static void transpose_product(gemm_plan *p)
{
    gemm_operand a = p->a;
    p->a = p->b;
    p->b = a;
    swap_strides(&p->a);
    swap_strides(&p->b);
    swap_strides(&p->c);
    int64_t m = p->m;
    p->m = p->n;
    p->n = m;
}

static bool by_columns(const gemm_plan *p)
{
    return row_major(p->m, p->n, p->c.row, p->c.col) == 0 && row_major(p->n, p->m, p->c.col, p->c.row) > 0;
}

/* The tile product's vectors lie along a row of B and C: a product with one row or one column becomes one row if they
 * are dense then, else one column, which may have any stride. */
static void choose_tile_layouts(gemm_plan *p)
{
    bool row_fits = p->b.col == 1 && p->c.col == 1, column_fits = p->a.row == 1 && p->c.row == 1;
    if (p->n > 1 && (p->m > 1 ? by_columns(p) : !row_fits))
        transpose_product(p);
    else if (p->n == 1 && p->m > 1 && column_fits)
        transpose_product(p);
    p->vector = p->a.copied = p->b.copied = false;
    if (p->n > 1 && row_major(p->m, p->n, p->c.row, p->c.col) == 0)
        make_copy(&p->c, p->m, p->n, p);
}

static void choose_layouts(gemm_plan *p)
{
    if (p->m == 1 || (p->n > 1 && by_columns(p)))
        transpose_product(p);
    p->vector = p->n == 1;
    choose_layout(&p->a, p->m, p->k, p);
    if (p->vector) {
        choose_vector_layout(&p->b, p->k, p);
        choose_vector_layout(&p->c, p->m, p);
    } else {
        choose_layout(&p->b, p->k, p->n, p);
        choose_layout(&p->c, p->m, p->n, p);
    }
}

/* A product that could go to cblas goes to the tile product where that is the faster, by the sizes and strides of all
 * of it alone. Vectors of 128 bits are no match for a BLAS that knows the processor.
 *
 * Measured on Zen 3 against OpenBLAS 0.3.21, one core: sums of up to 4 KiB of a row of A take 0.3 to 0.97 of its time,
 * since OpenBLAS packs both operands at each call (0.82 for 192 x 128 x 128, 0.94 for 256 x 192 x 768, 0.46 for
 * 2 x 512 x 512); 1024^3 takes 1.04. Where A lies across, that holds for short sums only (0.75 for 64^3, but 1.05 for
 * 512 x 128 x 768). A vector that meets dense rows takes 0.73 (rows of 3 KB) to 0.92 where they come from memory.
 *
 * With vectors of 512 bits, on Zen 5, over 1700 random products: beyond WIDE_LARGE 0.5 to 0.9 of its time, f64 0.4 to
 * 0.85, however A and B lie (a weight's gradient, 512 x 128 x 768 across: 0.87; 1024^3: 1.00). Below, OpenBLAS takes
 * what is small as it lies, and is as fast; and up to 20 times as fast where a few rows meet columns that are dense. It
 * keeps longer sums, which it takes apart: 0 to 7 % slower, f64 20 %, and more exact, of 1024 numbers 1.9 times, of
 * 4096 3.4. */
static bool is_better_tiled(const gemm_plan *p)
{
    const int64_t size = (int64_t)p->size, side = least(p->m, p->n);
    const int bits = lab__kernels()->vector_bits;
    if (bits < TILED_BITS)
        return false;
    if (p->m == 1)
        return p->b.row == 1 && p->k <= READ_SUM && p->n >= READ_BYTES / size / p->k;
    if (p->n == 1)
        return p->a.col == 1 && p->k <= READ_SUM && p->m >= READ_BYTES / size / p->k;
    if (bits >= WIDE_BITS && p->m > WIDE_LARGE / p->n / p->k)
        return side >= WIDE_SIDE && p->k <= WIDE_SUM;
    const bool turned = by_columns(p), across = turned ? p->b.col < p->b.row : p->a.row < p->a.col;
    const bool dots = (turned ? p->a.col : p->b.row) == 1;
    if (bits >= WIDE_BITS && dots && side < WIDE_DOTS)
        return false;
    return p->k <= TILED_ACROSS || (!across && p->k * size < TILED_SUM);
}

static void make_plan(gemm_plan *p, const gemm_product *g, bool for_blas)
{
    p->type = g->type;
    p->size = g->type == KERNEL_F32 ? sizeof(float) : sizeof(double);
    p->add = g->add;
    p->tiled = g->tiled;
    p->empty = is_empty(g);
    p->m = g->m;
    p->n = g->n;
    p->k = g->k;
    p->rank = g->batch_rank;
    p->entry_rank = 0;
    memcpy(p->batch, g->batch, (size_t)p->rank * sizeof *p->batch);
    set_operand(&p->a, g->a, g->a_row, g->a_col, p->rank, g->a_batch);
    set_operand(&p->b, g->b, g->b_row, g->b_col, p->rank, g->b_batch);
    set_operand(&p->c, g->c, g->c_row, g->c_col, p->rank, g->c_batch);
    if (p->empty)
        return;
    fold(p);
    sort_axes(p);
    p->tiled = p->tiled || (!for_blas && is_better_tiled(p));
    if (p->tiled)
        choose_tile_layouts(p);
    else
        choose_layouts(p);
    choose_panels(p);
}

void lab__gemm_plan(gemm_plan *p, const gemm_product *g)
{
    make_plan(p, g, false);
}

/* ---- The workspace ----------------------------------------------------------------------------------------------- */

/* Bytes of the copy of x, SIZE_MAX if there are too many. */
static size_t copy_bytes(const gemm_plan *p, const gemm_operand *x, int64_t rows, int64_t cols)
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

static size_t plan_bytes(const gemm_plan *p, size_t bytes[3])
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
    if (is_empty(product) || product->tiled) /* BLAS is not asked */
        return true;
    if (product->m > INT_MAX || product->n > INT_MAX || product->k > INT_MAX)
        return false;
    gemm_plan p;
    make_plan(&p, product, true); /* what is refused does not depend on who multiplies */
    return p.a.ld <= INT_MAX && p.b.ld <= INT_MAX && p.c.ld <= INT_MAX;
}

size_t lab__gemm_workspace(int count, const gemm_product *products)
{
    size_t sum = 0;
    for (int i = 0; i < count; i++) {
        gemm_plan p;
        size_t bytes[3];
        lab__gemm_plan(&p, &products[i]);
        if (__builtin_add_overflow(sum, plan_bytes(&p, bytes), &sum))
            return SIZE_MAX;
    }
    return sum;
}

char *lab__gemm_place_copies(gemm_plan *p, char *workspace)
{
    size_t bytes[3];
    if (plan_bytes(p, bytes) == 0)
        return workspace; /* which may be NULL */
    p->a.copy = workspace;
    p->b.copy = p->a.copy + bytes[0];
    p->c.copy = p->b.copy + bytes[1];
    return p->c.copy + bytes[2];
}
