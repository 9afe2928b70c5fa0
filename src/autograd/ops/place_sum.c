/* place_sum.c - what goes back through broadcasting: a gradient summed over the axes that were stretched.
 *
 * Sums are kept in double, in an order that the sizes alone decide, and rounded once. Where the axis on which x lies
 * densest is kept (the gradient of a bias), a panel of columns is summed row by row; where it is summed, a unit is one
 * element of the result. Few units with much to sum are cut into chunks, whose sums are added in order.
 */
#include "op_impl.h"

/* PANEL columns a unit; BLOCK elements go through the row kernel at once; SLOTS sums of chunks fit on the stack. */
enum { PANEL = 256, BLOCK = 4096, SLOTS = 16, PIECE_ELEMENTS = 65536 };

#define real  float
#define FN(x) x##_f32
#include "place_sum_tmpl.c"
#undef real
#undef FN
#define real  double
#define FN(x) x##_f64
#include "place_sum_tmpl.c"
#undef real
#undef FN

typedef struct axes {
    int rank;
    int64_t shape[LAB_MAX_RANK], x[LAB_MAX_RANK], y[LAB_MAX_RANK]; /* strides in bytes */
    int64_t numel;
} axes;

typedef struct reduction {
    kernel_type type;
    int64_t size; /* of an element */
    const char *x;
    char *y;
    int64_t n, x_step, y_step; /* the inner axis, strides in elements */
    bool inner_kept;
    axes kept, summed; /* the outer axes */
    int64_t panels, width, blocks;
    int64_t units, unit_steps; /* a step is a row of a panel, or a block of a row */
    int64_t piece_units;       /* without chunks */
    int64_t chunks, chunk_steps;
    double *partial;
    double factor;
    bool add;
} reduction;

static void push_axis(axes *a, int64_t size, int64_t x, int64_t y)
{
    a->shape[a->rank] = size;
    a->x[a->rank] = x;
    a->y[a->rank++] = y;
    a->numel *= size;
}

/* Offsets of an index into these axes, in bytes. */
static int64_t offset_of(int rank, const int64_t *shape, const int64_t *strides, int64_t index)
{
    int64_t offset = 0;
    for (int i = rank - 1; i >= 0; i--) {
        offset += index % shape[i] * strides[i];
        index /= shape[i];
    }
    return offset;
}

/* Rows [step, end) of a panel of `columns` at x. */
static void sum_panel(const reduction *r, const char *x, int64_t columns, int64_t step, int64_t end, double *sums)
{
    int last = r->summed.rank - 1;
    int64_t run = last >= 0 ? r->summed.shape[last] : 1, stride = last >= 0 ? r->summed.x[last] : 0;
    while (step < end) {
        int64_t within = step % run, rows = run - within;
        const char *from = x + within * stride;
        if (last > 0)
            from += offset_of(last, r->summed.shape, r->summed.x, step / run);
        if (rows > end - step)
            rows = end - step;
        if (r->type == KERNEL_F64)
            add_rows_f64(rows, columns, sums, (const double *)from, stride / r->size, r->x_step);
        else
            add_rows_f32(rows, columns, sums, (const float *)from, stride / r->size, r->x_step);
        step += rows;
    }
}

/* Blocks [step, end) of the rows at x, into one sum. */
static void sum_blocks(const reduction *r, const char *x, int64_t step, int64_t end, double *sum)
{
    const kernel_row_fns *row = &lab__kernels()->row[r->type];
    for (; step < end; step++) {
        int64_t start = step % r->blocks * BLOCK, left = r->n - start;
        const char *from = x + offset_of(r->summed.rank, r->summed.shape, r->summed.x, step / r->blocks);
        *sum += row->sum(left < BLOCK ? left : BLOCK, from + start * r->x_step * r->size, r->x_step);
    }
}

static int64_t columns_of(const reduction *r, int64_t unit)
{
    int64_t left = r->inner_kept ? r->n - unit % r->panels * PANEL : 1;
    return left < r->width ? left : r->width;
}

static void sum_unit(const reduction *r, int64_t unit, int64_t step, int64_t end, double *sums)
{
    const char *x = r->x + offset_of(r->kept.rank, r->kept.shape, r->kept.x, unit / r->panels);
    memset(sums, 0, (size_t)r->width * sizeof *sums);
    if (r->inner_kept)
        sum_panel(r, x + unit % r->panels * PANEL * r->x_step * r->size, columns_of(r, unit), step, end, sums);
    else
        sum_blocks(r, x, step, end, sums);
}

static void put_unit(const reduction *r, int64_t unit, const double *sums)
{
    char *y = r->y + offset_of(r->kept.rank, r->kept.shape, r->kept.y, unit / r->panels) +
              unit % r->panels * PANEL * r->y_step * r->size;
    if (r->type == KERNEL_F64)
        put_f64(columns_of(r, unit), (double *)y, r->y_step, sums, r->factor, r->add);
    else
        put_f32(columns_of(r, unit), (float *)y, r->y_step, sums, r->factor, r->add);
}

static void run_units(void *context, int64_t piece, int worker)
{
    const reduction *r = context;
    int64_t first = piece * r->piece_units, end = first + r->piece_units;
    double sums[PANEL];
    (void)worker;
    for (int64_t unit = first; unit < end && unit < r->units; unit++) {
        sum_unit(r, unit, 0, r->unit_steps, sums);
        put_unit(r, unit, sums);
    }
}

static void run_chunk(void *context, int64_t piece, int worker)
{
    const reduction *r = context;
    int64_t step = piece % r->chunks * r->chunk_steps, end = step + r->chunk_steps;
    (void)worker;
    sum_unit(r, piece / r->chunks, step, end < r->unit_steps ? end : r->unit_steps, r->partial + piece * r->width);
}

static void reduce_in_chunks(reduction *r)
{
    double partial[SLOTS * PANEL];
    r->partial = partial;
    lab__parallel_run(r->units * r->chunks, run_chunk, r);
    for (int64_t unit = 0; unit < r->units; unit++) {
        double *sums = partial + unit * r->chunks * r->width;
        for (int64_t c = 1; c < r->chunks; c++)
            for (int64_t j = 0; j < r->width; j++)
                sums[j] += sums[c * r->width + j];
        put_unit(r, unit, sums);
    }
}

/* How the work is cut: by sizes only. */
static void plan(reduction *r, int64_t numel)
{
    r->panels = r->inner_kept ? (r->n + PANEL - 1) / PANEL : 1;
    r->width = !r->inner_kept ? 1 : r->n < PANEL ? r->n : PANEL;
    r->blocks = r->inner_kept ? 1 : (r->n + BLOCK - 1) / BLOCK;
    r->units = r->kept.numel * r->panels;
    r->unit_steps = r->summed.numel * r->blocks;
    int64_t unit_elements = numel / r->units + 1;
    r->piece_units = PIECE_ELEMENTS / unit_elements > 0 ? PIECE_ELEMENTS / unit_elements : 1;
    r->chunks = 1;
    if (r->units <= SLOTS / 2 && numel >= 2 * PIECE_ELEMENTS) {
        int64_t most = SLOTS / r->units, wanted = (numel + PIECE_ELEMENTS - 1) / PIECE_ELEMENTS / r->units;
        r->chunks = wanted < 1 ? 1 : wanted < most ? wanted : most;
    }
    r->chunk_steps = (r->unit_steps + r->chunks - 1) / r->chunks;
    r->chunks = (r->unit_steps + r->chunk_steps - 1) / r->chunk_steps;
}

void lab__place_sum(const lab_place *place, const lab_tensor *x, double factor)
{
    lab_tensor *y = place->tensor;
    if (x->numel == 0) {
        if (!place->add)
            lab__tensor_fill(y, 0);
        return;
    }
    if (lab__same_shape(y, x)) {
        lab__place_unary(place, factor < 0 ? KERNEL_NEG : KERNEL_COPY, x, 0, NULL);
        return;
    }
    loop l;
    lab__loop_make(&l, 2, (const lab_tensor *[]){x, y});
    reduction r = {
        .type = lab__kernel_type(x->dtype),
        .size = l.element[0],
        .x = x->data,
        .y = y->data,
        .n = l.inner,
        .x_step = l.inner_stride[0],
        .y_step = l.inner_stride[1],
        .inner_kept = l.inner_stride[1] != 0,
        .kept.numel = 1,
        .summed.numel = 1,
        .factor = factor,
        .add = place->add,
    };
    for (int i = 0; i < l.rank; i++)
        push_axis(l.strides[1][i] != 0 ? &r.kept : &r.summed, l.shape[i], l.strides[0][i], l.strides[1][i]);
    plan(&r, x->numel);
    int64_t pieces = (r.units + r.piece_units - 1) / r.piece_units;
    if (r.chunks > 1)
        reduce_in_chunks(&r);
    else if (pieces == 1)
        run_units(&r, 0, 0);
    else
        lab__parallel_run(pieces, run_units, &r);
}

/* ---- The same, recorded ------------------------------------------------------------------------------------------ */

lab_tensor *lab__sum_to_shape_of(lab_graph *g, lab_tensor *x, const lab_tensor *like)
{
    if (!x || lab__same_shape(x, like))
        return x;
    int stretched[LAB_MAX_RANK], n = 0;
    for (int i = 0; i < x->rank; i++) {
        int own = i - (x->rank - like->rank);
        if (x->shape[i] != (own < 0 ? 1 : like->shape[own]))
            stretched[n++] = i;
    }
    if (n > 0)
        x = lab_sum(g, x, n, stretched, true);
    return x && x->rank != like->rank ? lab_reshape(g, x, like->rank, like->shape) : x;
}

lab_tensor *lab__zeros_like(lab_graph *g, const lab_tensor *x)
{
    return lab_full(g, x->dtype, x->rank, x->shape, 0);
}
