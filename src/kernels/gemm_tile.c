/* gemm_tile.c - one panel of a result by the library's own tile product: for products of which an element's bits may
 * depend on nothing but its row, its column and what it is added to (tile_tmpl.c says why they do not).
 *
 * The tile product wants the rows of B dense, and B in cache. So B is taken block by block, through a buffer on the
 * stack where its rows are not dense or so far apart that they would push each other out of the cache. k is walked in
 * steps, ascending: the sums wait in C and go on where they stopped, which gives the bits of a sum that was never cut.
 *
 * A few rows, or columns, leave nothing to be kept in a cache: then the other operand is read once, where it lies.
 */
#include <string.h>

#include "gemm_plan.h"

enum {
    PACK_BYTES = 65536,
    PACK_COLUMNS = 64, /* of a block that goes through the buffer: whole blocks of registers at every level */
    ACROSS_STEPS = 64, /* of A whose columns are dense: more would come from lines that push each other out of L2 */
    PACK_ROWS = 32,    /* of A: from here on a dense B is worth packing, if it is too large for the cache */
    CACHED_BYTES = 65536,
    BLOCK_STEPS = 256, /* of a block of B that is read where it is: some 256 KiB */
    BLOCK_BYTES = 262144,
    FEW = 3,   /* vectors: more of them are worth B's way through the buffer */
    MANY = 16, /* rows that are worth their being read side by side */
    /* Vectors of 512 bits come with an L2 of 1 MiB and more, and, two of them side by side, read B's rows by pairs of
     * lines: B is worth its way through the buffer where it is beyond L2 alone (512 x 128 x 768 across takes 0.93 of
     * the time on Zen 5, 768^3 0.96), and A across has more steps (256 x 50257 x 768 across 0.88). */
    WIDE_BITS = 512,
    WIDE_ACROSS_STEPS = 256,
    WIDE_CACHED_BYTES = 4 << 20
};

/* C (+)= A B. Rows of A and B are `row` elements apart. */
typedef struct panel {
    kernel_tile_fn tile;
    kernel_type type;
    int64_t m, n, k, size;
    const char *a, *b;
    int64_t a_row, a_col, b_row, b_col;
    char *c;
    int64_t c_row;
    bool add;
} panel;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A block of B, row-major, PACK_COLUMNS apart: a panel's pack turns B's columns as registers can (factor 1 changes
 * nothing), and may write up to there. */
static void pack(const panel *p, int64_t rows, int64_t cols, char *to, const char *b)
{
    const kernel_panel_fns *panels = &lab__kernels()->panel[p->type];
    if (p->b_col == 1)
        for (int64_t i = 0; i < rows; i++)
            memcpy(to + i * PACK_COLUMNS * p->size, b + i * p->b_row * p->size, (size_t)(cols * p->size));
    else
        for (int64_t j = 0; j < cols; j += panels->width)
            panels->pack(least(panels->width, cols - j), rows, to + j * p->size, PACK_COLUMNS,
                         b + j * p->b_col * p->size, p->b_col, p->b_row, 1.0);
}

/* All of k for columns first .. first + cols. */
static void multiply_columns(const panel *p, int64_t first, int64_t cols, int64_t steps, char *buffer)
{
    char *c = p->c + first * p->size;
    for (int64_t k = 0; k < p->k; k += steps) {
        int64_t depth = least(steps, p->k - k), row = p->b_row;
        const char *a = p->a + k * p->a_col * p->size, *b = p->b + (k * p->b_row + first * p->b_col) * p->size;
        if (buffer) {
            pack(p, depth, cols, buffer, b);
            b = buffer;
            row = PACK_COLUMNS;
        }
        p->tile(p->m, cols, depth, a, p->a_row, p->a_col, b, row, c, p->c_row,
                p->add || k > 0 ? KERNEL_SUM_GOES_ON : KERNEL_SUM_NEW);
    }
}

/* Rows of A times each of a few vectors, so many rows at a time that the second vector meets them in the cache. */
static void multiply_vectors(const panel *p, int64_t m, int64_t vectors, const char *a, int64_t a_row, const char *x,
                             int64_t x_step, int64_t x_next, char *c, int64_t c_step, int64_t c_next)
{
    int64_t rows = vectors == 1 ? m : BLOCK_BYTES / 2 / p->size / p->k;
    rows = rows < MANY ? MANY : rows;
    for (int64_t first = 0; first < m; first += rows)
        for (int64_t v = 0; v < vectors; v++)
            lab__kernels()->matvec[p->type](least(rows, m - first), p->k, a + first * a_row * p->size, a_row,
                                            x + v * x_next * p->size, x_step,
                                            c + (first * c_step + v * c_next) * p->size, c_step, p->add);
}

/* If one side is a few vectors and the other's lie dense along k. */
static bool multiply_few(const panel *p)
{
    if (p->n <= FEW && p->m >= MANY && p->a_col == 1)
        multiply_vectors(p, p->m, p->n, p->a, p->a_row, p->b, p->b_row, p->b_col, p->c, p->c_row, 1);
    else if (p->m <= FEW && p->n >= MANY && p->b_row == 1)
        multiply_vectors(p, p->n, p->m, p->b, p->b_col, p->a, p->a_col, p->a_row, p->c, 1, p->c_row);
    else
        return false;
    return true;
}

static bool must_pack(const panel *p, bool wide)
{
    if (p->n == 1)
        return false;
    const int64_t cached = (wide ? WIDE_CACHED_BYTES : CACHED_BYTES) / p->size;
    return p->b_col != 1 || (p->m >= PACK_ROWS && p->k * p->b_row > cached);
}

void lab__gemm_tile(const gemm_plan *plan, int64_t m, int64_t n, const void *a, const void *b, bool add, void *c)
{
    const gemm_operand *x = &plan->a, *y = &plan->b;
    const panel p = {lab__kernels()->tile[plan->type],
                     plan->type,
                     m,
                     n,
                     plan->k,
                     (int64_t)plan->size,
                     a,
                     b,
                     x->row,
                     x->col,
                     y->row,
                     y->col,
                     c,
                     plan->c.row,
                     add};
    if (multiply_few(&p))
        return;
    _Alignas(64) char buffer[PACK_BYTES];
    const bool wide = lab__kernels()->vector_bits >= WIDE_BITS, packed = must_pack(&p, wide);
    int64_t steps = packed ? PACK_BYTES / PACK_COLUMNS / p.size : BLOCK_STEPS;
    if (packed && p.a_row < p.a_col)
        steps = least(steps, wide ? WIDE_ACROSS_STEPS : ACROSS_STEPS);
    int64_t width = packed ? PACK_COLUMNS : BLOCK_BYTES / BLOCK_STEPS / p.size;
    for (int64_t first = 0; first < n; first += width)
        multiply_columns(&p, first, least(width, n - first), steps, packed ? buffer : NULL);
}
