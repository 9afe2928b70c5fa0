/* norm_fused.c - LayerNorm and RMSNorm as one op each: a pass forward that keeps three numbers a row, a pass back.
 *
 * norm.c has the definition, and the second derivative. The gradients of gain and shift are summed in pieces of rows
 * that the sizes alone decide: within a few rows in the tensor's own type, from there on in double, in order.
 */
#include "fused.h"
#include "llmlab/layers.h"
#include "norm_impl.h"

#include <string.h>

enum { IN_X, IN_GAIN, IN_SHIFT, INS };
enum { OUT_Y, OUT_KEPT, OUTS };
enum { MOST_PIECES = 32 };

typedef struct norm_attrs {
    double eps;
    bool centred;
} norm_attrs;

static lab_status norm_shape(lab_op_call *call)
{
    const lab_tensor *x = call->in[IN_X];
    lab_spec *y = &call->specs[OUT_Y], *kept = &call->specs[OUT_KEPT];
    *y = (lab_spec){.dtype = x->dtype, .rank = x->rank};
    memcpy(y->shape, x->shape, sizeof y->shape);
    *kept = (lab_spec){.dtype = x->dtype, .rank = 2, .shape = {x->numel > 0 ? lab__row_count(x) : 0, KERNEL_NORM_KEPT}};
    return LAB_OK;
}

/* ---- Forward --------------------------------------------------------------------------------------------------------- */

typedef struct norm_run {
    const kernel_norm_fns *kernels;
    const norm_attrs *attrs;
    int64_t rows, length, piece_rows;
    row_view x, y, kept, dy, dx;
    const void *gain, *shift;
    bool add;
    /* Gradients of gain and shift: the numbers that each row adds to, and each piece's sums. */
    bool wants_gain, wants_shift;
    int64_t numbers;
    double *sums;
} norm_run;

static norm_run run_of(const void *attrs, lab_tensor *const *in, lab_tensor *const *out)
{
    const lab_tensor *x = in[IN_X];
    norm_run r = {.kernels = &lab__kernels()->norm[lab__type_of(x)],
                  .attrs = attrs,
                  .rows = x->numel > 0 ? lab__row_count(x) : 0,
                  .length = lab__row_length(x),
                  .x = lab__rows_of(x),
                  .y = lab__rows_of(out[OUT_Y]),
                  .kept = lab__rows_of(out[OUT_KEPT]),
                  .gain = in[IN_GAIN] ? in[IN_GAIN]->data : NULL,
                  .shift = in[IN_SHIFT] ? in[IN_SHIFT]->data : NULL};
    r.piece_rows = lab__rows_per_piece(r.rows, r.length, MOST_PIECES);
    return r;
}

static int64_t pieces_of(const norm_run *r)
{
    return (r->rows + r->piece_rows - 1) / r->piece_rows;
}

static void forward_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const norm_run *r = context;
    int64_t row = piece * r->piece_rows, end = row + r->piece_rows < r->rows ? row + r->piece_rows : r->rows;
    for (; row < end; row++)
        r->kernels->forward(r->length, lab__row_at(&r->y, row), lab__row_at(&r->x, row), r->gain, r->shift,
                            r->attrs->eps, r->attrs->centred, lab__row_at(&r->kept, row));
}

static lab_status norm_forward(lab_op_call *call)
{
    norm_run r = run_of(call->attrs, call->in, call->out);
    lab__parallel_run(pieces_of(&r), forward_piece, &r);
    return LAB_OK;
}

/* ---- Backward -------------------------------------------------------------------------------------------------------- */

static size_t norm_backward_scratch(const lab_vjp_call *call)
{
    norm_run r = run_of(call->attrs, call->in, call->out);
    size_t bytes = lab__stand_in_bytes(call->grad_out[OUT_Y]) + lab__stand_in_bytes(call->places[IN_X].tensor);
    int64_t numbers = (call->wants[IN_GAIN] + call->wants[IN_SHIFT]) * r.length;
    return bytes + (size_t)(pieces_of(&r) * lab__sums_step(numbers)) * sizeof(double);
}

static void backward_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const norm_run *r = context;
    int64_t row = piece * r->piece_rows, end = row + r->piece_rows < r->rows ? row + r->piece_rows : r->rows;
    row_sums sums = lab__sums_begin(r->sums + piece * lab__sums_step(r->numbers), r->numbers, r->x.size);
    void *dgain = r->wants_gain ? sums.few : NULL;
    void *dshift = r->wants_shift ? sums.few + (r->numbers - r->length) * (int64_t)r->x.size : NULL;
    for (; row < end; row++) {
        r->kernels->backward(r->length, lab__row_at(&r->dx, row), r->add, lab__row_at(&r->x, row),
                             lab__row_at(&r->dy, row), r->gain, r->attrs->centred, lab__row_at(&r->kept, row), dgain,
                             dshift);
        lab__sums_row(&sums);
    }
    lab__sums_end(&sums);
}

static lab_status norm_backward(lab_vjp_call *call)
{
    norm_run r = run_of(call->attrs, call->in, call->out);
    row_stand_in dy, dx;
    char *scratch = call->scratch;
    r.dy = lab__gradient_rows(&dy, call->grad_out[OUT_Y], &scratch);
    r.dx = lab__place_rows(&dx, &call->places[IN_X], &r.add, &scratch);
    r.wants_gain = call->places[IN_GAIN].tensor;
    r.wants_shift = call->places[IN_SHIFT].tensor;
    r.numbers = (r.wants_gain + r.wants_shift) * r.length;
    r.sums = (double *)(void *)scratch;
    int64_t pieces = pieces_of(&r), step = lab__sums_step(r.numbers);
    lab__parallel_run(pieces, backward_piece, &r);
    lab__place_settle(&dx);
    if (r.wants_gain)
        lab__place_piece_sums(&call->places[IN_GAIN], pieces, r.sums, step);
    if (r.wants_shift)
        lab__place_piece_sums(&call->places[IN_SHIFT], pieces, r.sums + (r.numbers - r.length), step);
    return LAB_OK;
}

/* ---- The ops --------------------------------------------------------------------------------------------------------- */

static lab_status layer_norm_vjp(lab_graph *g, lab_vjp_call *call)
{
    const norm_attrs *a = call->attrs;
    return lab__twin_vjp(g, call,
                         lab_layer_norm_composed(g, call->in[IN_X], call->in[IN_GAIN], call->in[IN_SHIFT], a->eps));
}

static lab_status rms_norm_vjp(lab_graph *g, lab_vjp_call *call)
{
    const norm_attrs *a = call->attrs;
    return lab__twin_vjp(g, call, lab_rms_norm_composed(g, call->in[IN_X], call->in[IN_GAIN], a->eps));
}

static double norm_flops(const lab_op_call *call)
{
    return 8 * (double)call->in[IN_X]->numel;
}

enum { X = 1 << IN_X, GAIN = 1 << IN_GAIN, KEPT = 1 << OUT_KEPT };
static const lab_reads norm_reads[] = {{X | GAIN, KEPT}, {X, KEPT}, {0, 0}};

static const lab_op layer_norm_op = {
    .name = "layer_norm",
    .inputs = INS,
    .outputs = OUTS,
    .hidden = 1,
    .optional = 1 << IN_GAIN | 1 << IN_SHIFT,
    .reads = norm_reads,
    .n_reads = INS,
    .shape = norm_shape,
    .forward = norm_forward,
    .vjp = layer_norm_vjp,
    .backward_scratch = norm_backward_scratch,
    .backward = norm_backward,
    .flops = norm_flops,
};

static const lab_op rms_norm_op = {
    .name = "rms_norm",
    .inputs = INS,
    .outputs = OUTS,
    .hidden = 1,
    .optional = 1 << IN_GAIN | 1 << IN_SHIFT,
    .reads = norm_reads,
    .n_reads = INS,
    .shape = norm_shape,
    .forward = norm_forward,
    .vjp = rms_norm_vjp,
    .backward_scratch = norm_backward_scratch,
    .backward = norm_backward,
    .flops = norm_flops,
};

static lab_tensor *normalise(lab_graph *g, const lab_op *op, lab_tensor *x, lab_tensor *gain, lab_tensor *shift,
                             double eps, bool centred)
{
    if (!lab__healthy(g))
        return NULL;
    lab_status status = lab__norm_check(x, gain, shift, eps);
    if (status != LAB_OK)
        return lab__refuse_as_said(g, op->name, status);
    const norm_attrs attrs = {.eps = eps, .centred = centred};
    lab_tensor *in[INS] = {lab__dense_rows(g, x), lab__dense_rows(g, gain), lab__dense_rows(g, shift)}, *y = NULL;
    lab_custom_op(g, op, &attrs, sizeof attrs, INS, in, 1, &y);
    return y;
}

lab_tensor *lab_layer_norm(lab_graph *g, lab_tensor *x, lab_tensor *gain, lab_tensor *shift, double eps)
{
    return normalise(g, &layer_norm_op, x, gain, shift, eps, true);
}

lab_tensor *lab_rms_norm(lab_graph *g, lab_tensor *x, lab_tensor *gain, double eps)
{
    return normalise(g, &rms_norm_op, x, gain, NULL, eps, false);
}
