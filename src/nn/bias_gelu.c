/* bias_gelu.c - gelu(x + bias) as one op, and as it is defined.
 *
 * Neither x + bias nor the slope is ever in memory; the gradient of the bias is summed while that of x is made.
 */
#include "fused.h"
#include "llmlab/layers.h"

#include <string.h>

enum { IN_X, IN_BIAS, INS };
enum { MOST_PIECES = 32 };

static lab_gelu_kind kind_of(const void *attrs)
{
    return *(const lab_gelu_kind *)attrs;
}

static lab_status check(const lab_tensor *x, const lab_tensor *bias, lab_gelu_kind kind)
{
    if (!x || !bias)
        return lab__fail(LAB_ERR_ARGUMENT, "operand %s is NULL", x ? "2 (bias)" : "1 (x)");
    if (kind != LAB_GELU_ERF && kind != LAB_GELU_TANH)
        return lab__fail(LAB_ERR_ARGUMENT, "kind %d is neither LAB_GELU_ERF nor LAB_GELU_TANH", (int)kind);
    if (!lab__is_float(x->dtype) || bias->dtype != x->dtype)
        return lab__fail(LAB_ERR_DTYPE, "x is %s, bias %s; must both be f32, or f64", lab_dtype_name(x->dtype),
                         lab_dtype_name(bias->dtype));
    if (x->rank < 1 || bias->rank != 1 || bias->shape[0] != x->shape[x->rank - 1])
        return lab__fail(LAB_ERR_SHAPE, "bias %s must be [width], the last size of x %s",
                         lab__shape_text(bias->rank, bias->shape), lab__shape_text(x->rank, x->shape));
    return LAB_OK;
}

lab_tensor *lab_bias_gelu_composed(lab_graph *g, lab_tensor *x, lab_tensor *bias, lab_gelu_kind kind)
{
    if (!lab__healthy(g))
        return NULL;
    lab_status status = check(x, bias, kind);
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "bias_gelu", status);
    return lab_gelu(g, lab_add(g, x, bias), kind);
}

/* ---- The op ---------------------------------------------------------------------------------------------------------- */

static lab_status gelu_shape(lab_op_call *call)
{
    const lab_tensor *x = call->in[IN_X];
    call->specs[0] = (lab_spec){.dtype = x->dtype, .rank = x->rank};
    memcpy(call->specs[0].shape, x->shape, sizeof x->shape);
    return LAB_OK;
}

typedef struct gelu_run {
    const kernel_gelu_fns *kernels;
    int64_t rows, length, piece_rows, pieces;
    row_view x, y, dy, dx;
    const void *bias;
    bool add;
    int64_t numbers; /* of the bias's gradient that each row adds to, and each piece's sums */
    double *sums;
} gelu_run;

static gelu_run run_of(const void *attrs, lab_tensor *const *in)
{
    const lab_tensor *x = in[IN_X];
    const int kind = kind_of(attrs) == LAB_GELU_TANH ? KERNEL_BY_TANH : KERNEL_BY_ERF;
    gelu_run r = {.kernels = &lab__kernels()->gelu[lab__type_of(x)][kind],
                  .rows = x->numel > 0 ? lab__row_count(x) : 0,
                  .length = lab__row_length(x),
                  .x = lab__rows_of(x),
                  .bias = in[IN_BIAS]->data};
    r.piece_rows = lab__rows_per_piece(r.rows, r.length, MOST_PIECES);
    r.pieces = (r.rows + r.piece_rows - 1) / r.piece_rows;
    return r;
}

static void forward_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const gelu_run *r = context;
    int64_t row = piece * r->piece_rows, end = row + r->piece_rows < r->rows ? row + r->piece_rows : r->rows;
    for (; row < end; row++)
        r->kernels->forward(r->length, lab__row_at(&r->y, row), lab__row_at(&r->x, row), r->bias);
}

static lab_status gelu_forward(lab_op_call *call)
{
    gelu_run r = run_of(call->attrs, call->in);
    r.y = lab__rows_of(call->out[0]);
    lab__parallel_run(r.pieces, forward_piece, &r);
    return LAB_OK;
}

static size_t gelu_backward_scratch(const lab_vjp_call *call)
{
    gelu_run r = run_of(call->attrs, call->in);
    size_t bytes = lab__stand_in_bytes(call->grad_out[0]) + lab__stand_in_bytes(call->places[IN_X].tensor);
    return bytes + (size_t)(r.pieces * lab__sums_step(call->wants[IN_BIAS] ? r.length : 0)) * sizeof(double);
}

static void backward_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const gelu_run *r = context;
    int64_t row = piece * r->piece_rows, end = row + r->piece_rows < r->rows ? row + r->piece_rows : r->rows;
    row_sums sums = lab__sums_begin(r->sums + piece * lab__sums_step(r->numbers), r->numbers, r->x.size);
    for (; row < end; row++) {
        r->kernels->backward(r->length, lab__row_at(&r->dx, row), r->add, lab__row_at(&r->x, row), r->bias,
                             lab__row_at(&r->dy, row), sums.few);
        lab__sums_row(&sums);
    }
    lab__sums_end(&sums);
}

static lab_status gelu_backward(lab_vjp_call *call)
{
    gelu_run r = run_of(call->attrs, call->in);
    row_stand_in dy, dx;
    char *scratch = call->scratch;
    r.dy = lab__gradient_rows(&dy, call->grad_out[0], &scratch);
    r.dx = lab__place_rows(&dx, &call->places[IN_X], &r.add, &scratch);
    r.numbers = call->places[IN_BIAS].tensor ? r.length : 0;
    r.sums = (double *)(void *)scratch;
    lab__parallel_run(r.pieces, backward_piece, &r);
    lab__place_settle(&dx);
    lab__place_piece_sums(&call->places[IN_BIAS], r.pieces, r.sums, lab__sums_step(r.numbers));
    return LAB_OK;
}

static lab_status gelu_vjp(lab_graph *g, lab_vjp_call *call)
{
    return lab__twin_vjp(g, call, lab_bias_gelu_composed(g, call->in[IN_X], call->in[IN_BIAS], kind_of(call->attrs)));
}

static double gelu_flops(const lab_op_call *call)
{
    return 2 * (double)call->in[IN_X]->numel;
}

static const lab_reads gelu_reads[] = {{1 << IN_X | 1 << IN_BIAS, 0}};

static const lab_op bias_gelu_op = {
    .name = "bias_gelu",
    .inputs = INS,
    .outputs = 1,
    .reads = gelu_reads,
    .n_reads = 1,
    .shape = gelu_shape,
    .forward = gelu_forward,
    .vjp = gelu_vjp,
    .backward_scratch = gelu_backward_scratch,
    .backward = gelu_backward,
    .flops = gelu_flops,
};

lab_tensor *lab_bias_gelu(lab_graph *g, lab_tensor *x, lab_tensor *bias, lab_gelu_kind kind)
{
    if (!lab__healthy(g))
        return NULL;
    lab_status status = check(x, bias, kind);
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "bias_gelu", status);
    lab_tensor *in[INS] = {lab__dense_rows(g, x), lab__dense_rows(g, bias)}, *y = NULL;
    lab_custom_op(g, &bias_gelu_op, &kind, sizeof kind, INS, in, 1, &y);
    return y;
}
