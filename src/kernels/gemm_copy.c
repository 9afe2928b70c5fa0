/* gemm_copy.c - operands and results that BLAS cannot read where they are, through copies in the workspace. */
#include "gemm_plan.h"
#include "parallel.h"

enum { COPY_TILE = 32, COPY_ELEMENTS = 1 << 15 /* of a piece */ };

/* Between a matrix of any strides and one of its copy: in, out, or zeros out. */
typedef struct transfer {
    const gemm_plan *p;
    const gemm_operand *x;
    bool out, zero;
    int64_t rows, cols, matrices;
    int64_t band, bands; /* rows of a piece, pieces of a matrix */
} transfer;

static void move_f32(int64_t n, float *to, int64_t to_step, const float *from, int64_t from_step, bool add)
{
    if (add)
        for (int64_t i = 0; i < n; i++)
            to[i * to_step] += from[i * from_step];
    else
        for (int64_t i = 0; i < n; i++)
            to[i * to_step] = from[i * from_step];
}

static void move_f64(int64_t n, double *to, int64_t to_step, const double *from, int64_t from_step, bool add)
{
    if (add)
        for (int64_t i = 0; i < n; i++)
            to[i * to_step] += from[i * from_step];
    else
        for (int64_t i = 0; i < n; i++)
            to[i * to_step] = from[i * from_step];
}

static void move_row(const transfer *t, int64_t n, char *to, int64_t to_step, const char *from, int64_t from_step)
{
    static const double nothing = 0.0;
    if (t->zero)
        from = (const char *)&nothing, from_step = 0;
    bool add = t->out && t->p->add && !t->p->tiled;
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
    const gemm_plan *p = t->p;
    const gemm_operand *x = t->x;
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

static void run_transfer(const gemm_plan *p, const gemm_operand *x, int64_t rows, int64_t cols, bool out, bool zero)
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

void lab__gemm_copy_in(const gemm_plan *p)
{
    if (p->a.copied)
        run_transfer(p, &p->a, p->m, p->k, false, false);
    if (p->b.copied)
        run_transfer(p, &p->b, p->k, p->n, false, false);
    if (p->c.copied && p->tiled && p->add) /* the sum starts there */
        run_transfer(p, &p->c, p->m, p->n, false, false);
}

void lab__gemm_copy_out(const gemm_plan *p)
{
    if (p->c.copied)
        run_transfer(p, &p->c, p->m, p->n, true, false);
}

void lab__gemm_zero(const gemm_plan *p)
{
    gemm_operand c = p->c;
    c.from_row = c.row;
    c.from_col = c.col;
    for (int axis = 0; axis < p->rank; axis++)
        c.from_batch[axis] = c.batch[axis];
    run_transfer(p, &c, p->m, p->n, true, true);
}
