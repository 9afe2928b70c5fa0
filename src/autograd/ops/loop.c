/* loop.c - walking over tensors of any strides, row by row, on the pool.
 *
 * The axes of all operands are brought to the fewest that describe them; the one on which operand 0 lies densest
 * becomes the row. Work is cut by size alone, so that nothing depends on the number of threads.
 */
#include "op_impl.h"

/* A piece is about 20 us of work, but never more data than a core's own cache holds, nor less than is worth handing
 * over. Multiples of 64 elements, so that cuts in a row fall on cache lines. */
enum { PIECE_TENTHS = 200000, PIECE_MOST = 65536, PIECE_LEAST = 1024, STRIP = 64 };

/* One axis of all operands. Strides in elements. */
typedef struct axis {
    int64_t size;
    int64_t stride[LOOP_MAX_OPERANDS];
} axis;

/* The stride of operand `t` on axis i of an operand of rank `rank` to which it is broadcast. */
static int64_t broadcast_stride(const lab_tensor *t, int rank, int i)
{
    int own = i - (rank - t->rank);
    return own >= 0 && t->shape[own] != 1 ? t->strides[own] : 0;
}

static axis axis_of(int operands, const lab_tensor *const *tensors, int i)
{
    axis a = {.size = tensors[0]->shape[i]};
    for (int k = 0; k < operands; k++)
        a.stride[k] = broadcast_stride(tensors[k], tensors[0]->rank, i);
    return a;
}

/* Whether `outer` goes on where `inner` ends, in every operand. */
static bool continues(int operands, const axis *outer, const axis *inner)
{
    for (int k = 0; k < operands; k++)
        if (outer->stride[k] != inner->stride[k] * inner->size)
            return false;
    return true;
}

/* Axes longer than 1, but `skipped`, from the widest stride of operand 0 to the densest, merged. Returns how many. */
static int collect_axes(int operands, const lab_tensor *const *tensors, int skipped, axis *axes)
{
    int n = 0;
    for (int i = 0; i < tensors[0]->rank; i++) {
        if (i == skipped || tensors[0]->shape[i] == 1)
            continue;
        axis a = axis_of(operands, tensors, i);
        int at = n++;
        for (; at > 0 && axes[at - 1].stride[0] < a.stride[0]; at--)
            axes[at] = axes[at - 1];
        axes[at] = a;
    }
    int merged = 0;
    for (int i = 0; i < n; i++) {
        if (merged > 0 && continues(operands, &axes[merged - 1], &axes[i])) {
            axes[i].size *= axes[merged - 1].size;
            axes[merged - 1] = axes[i];
        } else
            axes[merged++] = axes[i];
    }
    return merged;
}

static void fill_loop(loop *l, int operands, const lab_tensor *const *tensors, int n_outer, const axis *outer,
                      const axis *inner)
{
    l->operands = operands;
    l->inner = inner->size;
    l->rank = n_outer;
    l->rows = 1;
    for (int i = 0; i < n_outer; i++) {
        l->shape[i] = outer[i].size;
        l->rows *= outer[i].size;
    }
    for (int k = 0; k < operands; k++) {
        l->element[k] = (int)lab_dtype_size(tensors[k]->dtype);
        l->data[k] = tensors[k]->data;
        l->inner_stride[k] = inner->size == 1 ? 1 : inner->stride[k];
        for (int i = 0; i < n_outer; i++)
            l->strides[k][i] = outer[i].stride[k] * l->element[k];
    }
    if (l->inner == 0)
        l->rows = 0;
}

void lab__loop_make(loop *l, int operands, const lab_tensor *const *tensors)
{
    axis axes[LAB_MAX_RANK];
    int n = collect_axes(operands, tensors, -1, axes);
    const axis single = {.size = 1};
    if (n == 0)
        fill_loop(l, operands, tensors, 0, axes, &single);
    else
        fill_loop(l, operands, tensors, n - 1, axes, &axes[n - 1]);
}

void lab__loop_make_axis(loop *l, int operands, const lab_tensor *const *tensors, int axis_index)
{
    axis axes[LAB_MAX_RANK], inner = axis_of(operands, tensors, axis_index);
    int n = collect_axes(operands, tensors, axis_index, axes);
    fill_loop(l, operands, tensors, n, axes, &inner);
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

/* Either a piece is `rows` whole rows, or a row is `segments` pieces of `segment` elements. Rows are walked in strips
 * of `strip` elements. */
typedef struct run {
    const loop *l;
    loop_body body;
    void *context;
    int64_t rows, segment, segments, strip;
} run;

/* Elements [start, start + n) of `count` rows. */
static void run_strip(const run *r, int64_t first, int64_t count, int64_t start, int64_t n)
{
    const loop *l = r->l;
    char *data[LOOP_MAX_OPERANDS] = {0};
    int64_t index[LAB_MAX_RANK];
    int64_t rest = first;
    for (int k = 0; k < l->operands; k++)
        data[k] = l->data[k] + start * l->inner_stride[k] * l->element[k];
    for (int i = l->rank - 1; i >= 0; i--) {
        index[i] = rest % l->shape[i];
        rest /= l->shape[i];
        for (int k = 0; k < l->operands; k++)
            data[k] += index[i] * l->strides[k][i];
    }
    for (;;) {
        r->body(r->context, n, data, l->inner_stride);
        if (--count == 0)
            return;
        for (int i = l->rank - 1; i >= 0; i--) {
            int64_t back = ++index[i] < l->shape[i] ? 0 : l->shape[i];
            for (int k = 0; k < l->operands; k++)
                data[k] += (back ? 1 - back : 1) * l->strides[k][i];
            if (back == 0)
                break;
            index[i] = 0;
        }
    }
}

static void run_piece(void *context, int64_t piece, int worker)
{
    const run *r = context;
    int64_t first = piece / r->segments * r->rows, rows = r->l->rows - first;
    int64_t start = piece % r->segments * r->segment, end = start + r->segment;
    (void)worker;
    if (rows > r->rows)
        rows = r->rows;
    if (end > r->l->inner)
        end = r->l->inner;
    for (; start < end; start += r->strip)
        run_strip(r, first, rows, start, end - start < r->strip ? end - start : r->strip);
}

/* An operand that lies across the rows (a transposed view): the next row reads the cache lines that this row has
 * fetched, so strips must be short enough for them to stay. */
static bool lies_across(const loop *l)
{
    for (int k = 1; k < l->operands; k++)
        if (l->rank > 0 && l->inner_stride[k] > 1 && l->strides[k][l->rank - 1] == l->element[k])
            return true;
    return false;
}

static int64_t piece_elements(int cost)
{
    int64_t n = PIECE_TENTHS / (cost > 0 ? cost : 1) / 64 * 64;
    return n > PIECE_MOST ? PIECE_MOST : n < PIECE_LEAST ? PIECE_LEAST : n;
}

static void run_loop(const loop *l, int cost, loop_body body, void *context, bool cut_rows)
{
    if (l->rows == 0)
        return;
    int64_t most = piece_elements(cost);
    run r = {
        .l = l, .body = body, .context = context, .rows = 1, .segment = l->inner, .segments = 1, .strip = l->inner};
    int64_t pieces = l->rows;
    if (cut_rows && l->inner > most) {
        r.segment = most;
        r.segments = (l->inner + most - 1) / most;
        pieces = l->rows * r.segments;
    } else if (l->inner < most) {
        r.rows = most / l->inner;
        pieces = (l->rows + r.rows - 1) / r.rows;
    }
    if (cut_rows && lies_across(l))
        r.strip = STRIP;
    if (pieces == 1)
        run_piece(&r, 0, 0);
    else
        lab__parallel_run(pieces, run_piece, &r);
}

void lab__loop_run(const loop *l, int cost, loop_body body, void *context)
{
    run_loop(l, cost, body, context, true);
}

void lab__loop_run_rows(const loop *l, int cost, loop_body body, void *context)
{
    run_loop(l, cost, body, context, false);
}
