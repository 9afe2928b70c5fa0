/* rope_fused.c - RoPE as one op: each pair turned where it lies, from a table of the positions that occur.
 *
 * The derivative of a rotation is the rotation back: the same op, in either form and to any order.
 *
 * The table is made without a cosine for each of its entries. A position is a sum of digits in base 8, d_k 8^k, and its
 * rotation the product of the digits' rotations; those come from the C library, 7 a digit and pair. So an entry's bits
 * depend on its position alone. position.c has the definition.
 */
#include "fused.h"
#include "rope_impl.h"

#include <string.h>

enum { IN_X, IN_POSITIONS, INS };
enum { DIGITS = 22, BASE = 8, BITS = 3, MOST_PIECES = 64, ALIGNMENT = 64 };

typedef struct rope_attrs {
    rope_turn turn;
    bool back;
} rope_attrs;

/* ---- The table ------------------------------------------------------------------------------------------------------- */

typedef struct rope_run {
    const rope_turn *turn;
    const lab_tensor *x, *positions;
    kernel_type type;
    size_t size;
    int64_t rows, length, pairs, entries, piece_rows;
    int digits;
    double *parts; /* [digits][BASE][cosine, sine][pairs] */
    char *table;   /* [entries][cosine, sine][pairs], of x's type */
    row_view from, to;
    row_stand_in dy, dx;
    bool back, add;
    void (*rotate)(int64_t pairs, void *y, const void *x, const void *cosines, const void *sines, bool side_by_side,
                   bool back);
} rope_run;

static int64_t position_of(const rope_run *r, int64_t entry)
{
    return r->positions ? lab__i64_at(r->positions, entry) : r->turn->offset + entry;
}

static uint64_t size_of(int64_t position)
{
    return position < 0 ? -(uint64_t)position : (uint64_t)position;
}

static rope_run run_of(const rope_attrs *attrs, lab_tensor *const *in)
{
    const lab_tensor *x = in[IN_X];
    rope_run r = {.turn = &attrs->turn,
                  .x = x,
                  .positions = in[IN_POSITIONS],
                  .type = lab__type_of(x),
                  .size = lab_dtype_size(x->dtype),
                  .rows = x->numel > 0 ? lab__row_count(x) : 0,
                  .length = lab__row_length(x),
                  .pairs = attrs->turn.width / 2};
    r.rotate = lab__kernels()->rope[r.type];
    if (r.rows > 0)
        r.entries = r.positions ? r.positions->numel : x->shape[x->rank - 2];
    uint64_t most = 0;
    for (int64_t i = 0; i < r.entries; i++) {
        uint64_t size = size_of(position_of(&r, i));
        most = size > most ? size : most;
    }
    while (most >> BITS * r.digits > 0 && ++r.digits < DIGITS)
        ;
    r.piece_rows = lab__rows_per_piece(r.rows, r.length, MOST_PIECES);
    return r;
}

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t part_bytes(const rope_run *r)
{
    return rounded((size_t)(r->digits * BASE * 2 * r->pairs) * sizeof(double));
}

/* A row's rotation is put together in double beside the table. */
static size_t table_bytes(const rope_run *r)
{
    return part_bytes(r) + rounded((size_t)(2 * r->pairs) * sizeof(double)) +
           rounded((size_t)(r->entries * 2 * r->pairs) * r->size);
}

static double *part_at(const rope_run *r, int digit, int value)
{
    return r->parts + (digit * BASE + value) * 2 * r->pairs;
}

static void make_parts(const rope_run *r)
{
    for (int64_t i = 0; i < r->pairs; i++) {
        double frequency = exp(-2 * log(r->turn->base) / (double)r->turn->width * (double)i);
        for (int digit = 0; digit < r->digits; digit++)
            for (int value = 0; value < BASE; value++) {
                double *part = part_at(r, digit, value), angle = ldexp((double)value, BITS * digit) * frequency;
                part[i] = value ? cos(angle) : 1;
                part[r->pairs + i] = value ? sin(angle) : 0;
            }
    }
}

static void multiply_by(int64_t pairs, double *restrict product, const double *restrict part)
{
    for (int64_t i = 0; i < pairs; i++) {
        double c = product[i], s = product[pairs + i];
        product[i] = c * part[i] - s * part[pairs + i];
        product[pairs + i] = s * part[i] + c * part[pairs + i];
    }
}

static void make_entry(const rope_run *r, int64_t entry, double *product)
{
    int64_t position = position_of(r, entry), n = 2 * r->pairs;
    uint64_t size = size_of(position);
    memcpy(product, part_at(r, 0, (int)(size % BASE)), (size_t)n * sizeof *product);
    for (int digit = 1; digit < r->digits; digit++)
        if (size >> BITS * digit & (BASE - 1))
            multiply_by(r->pairs, product, part_at(r, digit, (int)(size >> BITS * digit & (BASE - 1))));
    char *to = r->table + entry * n * (int64_t)r->size;
    for (int64_t i = 0; i < n; i++) {
        double value = position < 0 && i >= r->pairs ? -product[i] : product[i];
        if (r->type == KERNEL_F64)
            ((double *)(void *)to)[i] = value;
        else
            ((float *)(void *)to)[i] = (float)value;
    }
}

static void make_table(rope_run *r, char *scratch)
{
    if (r->digits == 0)
        r->digits = 1;
    r->parts = (double *)(void *)scratch;
    double *product = (double *)(void *)(scratch + part_bytes(r));
    r->table = scratch + part_bytes(r) + rounded((size_t)(2 * r->pairs) * sizeof(double));
    make_parts(r);
    for (int64_t entry = 0; entry < r->entries; entry++)
        make_entry(r, entry, product);
}

/* Which entry belongs to a row of x: the positions are broadcast to x's rows. */
static int64_t entry_of(const rope_run *r, int64_t row)
{
    if (!r->positions)
        return row % r->entries;
    int64_t entry = 0, step = 1;
    for (int axis = r->x->rank - 2, own = r->positions->rank - 1; own >= 0; axis--, own--) {
        if (r->positions->shape[own] > 1)
            entry += row % r->x->shape[axis] * step;
        step *= r->positions->shape[own];
        row /= r->x->shape[axis];
    }
    return entry;
}

/* ---- Turning --------------------------------------------------------------------------------------------------------- */

static void turn_row(const rope_run *r, int64_t row, char *to, const char *from)
{
    const char *cosines = r->table + entry_of(r, row) * 2 * r->pairs * (int64_t)r->size;
    r->rotate(r->pairs, to, from, cosines, cosines + r->pairs * (int64_t)r->size,
              r->turn->layout == LAB_ROPE_INTERLEAVED, r->back);
    int64_t still = 2 * r->pairs * (int64_t)r->size;
    memcpy(to + still, from + still, (size_t)r->length * r->size - (size_t)still);
}

static void turn_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const rope_run *r = context;
    int64_t row = piece * r->piece_rows, end = r->rows - row < r->piece_rows ? r->rows : row + r->piece_rows;
    for (; row < end; row++)
        turn_row(r, row, lab__row_at(&r->to, row), lab__row_at(&r->from, row));
}

static void turn_all(rope_run *r)
{
    lab__parallel_run((r->rows + r->piece_rows - 1) / r->piece_rows, turn_piece, r);
}

static lab_status rope_shape(lab_op_call *call)
{
    const lab_tensor *x = call->in[IN_X];
    call->specs[0] = (lab_spec){.dtype = x->dtype, .rank = x->rank};
    memcpy(call->specs[0].shape, x->shape, sizeof x->shape);
    return LAB_OK;
}

static size_t forward_scratch(const lab_op_call *call)
{
    rope_run r = run_of(call->attrs, call->in);
    r.digits += r.digits == 0;
    return table_bytes(&r);
}

static lab_status forward(lab_op_call *call)
{
    const rope_attrs *attrs = call->attrs;
    rope_run r = run_of(attrs, call->in);
    make_table(&r, call->scratch);
    r.back = attrs->back;
    r.from = lab__rows_of(call->in[IN_X]);
    r.to = lab__rows_of(call->out[0]);
    turn_all(&r);
    return LAB_OK;
}

static size_t whole_bytes(const lab_vjp_call *call)
{
    return rounded((size_t)call->in[IN_X]->numel * lab_dtype_size(call->in[IN_X]->dtype));
}

static size_t backward_scratch(const lab_vjp_call *call)
{
    rope_run r = run_of(call->attrs, call->in);
    r.digits += r.digits == 0;
    return table_bytes(&r) + lab__stand_in_bytes(call->grad_out[0]) +
           (call->places[IN_X].add ? whole_bytes(call) : lab__stand_in_bytes(call->places[IN_X].tensor));
}

/* What is added to is turned beside it first: rare, as queries and keys are turned once. */
static lab_status backward(lab_vjp_call *call)
{
    const rope_attrs *attrs = call->attrs;
    const lab_place *place = &call->places[IN_X];
    rope_run r = run_of(attrs, call->in);
    make_table(&r, call->scratch);
    char *scratch = (char *)call->scratch + table_bytes(&r);
    r.back = !attrs->back;
    r.from = lab__gradient_rows(&r.dy, call->grad_out[0], &scratch);
    lab_tensor whole = {0};
    if (place->add) {
        lab__tensor_describe(&whole, r.x->dtype, r.x->rank, r.x->shape, NULL);
        whole.data = scratch;
        r.to = lab__rows_of(&whole);
    } else {
        r.to = lab__place_rows(&r.dx, place, &r.add, &scratch);
    }
    turn_all(&r);
    if (place->add)
        lab__tensor_accumulate(place->tensor, &whole);
    else
        lab__place_settle(&r.dx);
    return LAB_OK;
}

static lab_tensor *apply(lab_graph *g, lab_tensor *x, lab_tensor *positions, const rope_attrs *attrs);

static lab_status vjp(lab_graph *g, lab_vjp_call *call)
{
    rope_attrs attrs = *(const rope_attrs *)call->attrs;
    attrs.back = !attrs.back;
    call->grad_in[IN_X] = apply(g, call->grad_out[0], call->in[IN_POSITIONS], &attrs);
    return lab_graph_status(g);
}

static double flops(const lab_op_call *call)
{
    return 3 * (double)call->in[IN_X]->numel;
}

static const lab_reads rope_reads[] = {{1 << IN_POSITIONS, 0}};

static const lab_op rope_op = {
    .name = "rope",
    .inputs = INS,
    .outputs = 1,
    .optional = 1 << IN_POSITIONS,
    .constant = 1 << IN_POSITIONS,
    .reads = rope_reads,
    .n_reads = 1,
    .shape = rope_shape,
    .scratch = forward_scratch,
    .forward = forward,
    .vjp = vjp,
    .backward_scratch = backward_scratch,
    .backward = backward,
    .flops = flops,
};

static lab_tensor *apply(lab_graph *g, lab_tensor *x, lab_tensor *positions, const rope_attrs *attrs)
{
    lab_tensor *in[INS] = {lab__dense_rows(g, x), positions}, *y = NULL;
    lab_custom_op(g, &rope_op, attrs, sizeof *attrs, INS, in, 1, &y);
    return y;
}

lab_tensor *lab_rope(lab_graph *g, lab_tensor *x, const lab_rope_opts *opts)
{
    if (!lab__healthy(g))
        return NULL;
    rope_attrs attrs = {.back = false};
    lab_status status = lab__rope_check(x, opts, &attrs.turn);
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "rope", status);
    return apply(g, x, opts ? opts->positions : NULL, &attrs);
}
