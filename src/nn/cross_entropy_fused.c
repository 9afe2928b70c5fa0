/* cross_entropy_fused.c - cross-entropy over given logits as one op.
 *
 * Forward reads each row of logits and keeps two numbers of it; backward reads it again and writes the gradient where
 * it belongs. Nothing else of the logits' size is ever made. cross_entropy.c has the definition.
 */
#include "loss_impl.h"

#include <string.h>

enum { IN_LOGITS, IN_TARGETS, INS };
enum { OUT_LOSS, OUT_KEPT, OUTS };
enum { MOST_PIECES = 64 };

static lab_status loss_shape(lab_op_call *call)
{
    const loss *l = call->attrs;
    lab_dtype dtype = call->in[IN_LOGITS]->dtype;
    lab__loss_shape(l, &call->specs[OUT_LOSS], dtype, call->in[IN_TARGETS]);
    call->specs[OUT_KEPT] = (lab_spec){.dtype = dtype, .rank = 2, .shape = {l->rows, KERNEL_LOSS_KEPT}};
    return LAB_OK;
}

typedef struct loss_run {
    const kernel_loss_fns *kernels;
    const loss *l;
    const lab_tensor *targets, *dy;
    int64_t piece_rows;
    row_view logits, kept, d;
    bool add;
    double *by_row;
} loss_run;

static loss_run run_of(const void *attrs, lab_tensor *const *in, lab_tensor *const *out)
{
    const loss *l = attrs;
    return (loss_run){.kernels = &lab__kernels()->loss[lab__type_of(in[IN_LOGITS])],
                      .l = l,
                      .targets = in[IN_TARGETS],
                      .piece_rows = lab__rows_per_piece(l->rows, l->classes, MOST_PIECES),
                      .logits = lab__rows_of(in[IN_LOGITS]),
                      .kept = lab__rows_of(out[OUT_KEPT])};
}

static int64_t pieces_of(const loss_run *r)
{
    return (r->l->rows + r->piece_rows - 1) / r->piece_rows;
}

static int64_t end_of_piece(const loss_run *r, int64_t first)
{
    return r->l->rows - first < r->piece_rows ? r->l->rows : first + r->piece_rows;
}

static void forward_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const loss_run *r = context;
    int64_t row = piece * r->piece_rows, end = end_of_piece(r, row);
    for (; row < end; row++) {
        int64_t target = lab__i64_at(r->targets, row);
        r->by_row[row] = 0;
        if (lab__loss_counts(r->l, target))
            r->by_row[row] = r->kernels->forward(r->l->classes, lab__row_at(&r->logits, row), target, r->l->smoothing,
                                                 lab__row_at(&r->kept, row));
    }
}

static size_t forward_scratch(const lab_op_call *call)
{
    return (size_t)((const loss *)call->attrs)->rows * sizeof(double);
}

static lab_status forward(lab_op_call *call)
{
    loss_run r = run_of(call->attrs, call->in, call->out);
    r.by_row = call->scratch;
    lab__parallel_run(pieces_of(&r), forward_piece, &r);
    lab__loss_put(r.l, call->out[OUT_LOSS], r.by_row);
    return LAB_OK;
}

static void backward_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const loss_run *r = context;
    int64_t row = piece * r->piece_rows, end = end_of_piece(r, row);
    for (; row < end; row++) {
        int64_t target = lab__i64_at(r->targets, row);
        char *d = lab__row_at(&r->d, row);
        if (lab__loss_counts(r->l, target))
            r->kernels->backward(r->l->classes, d, r->add, lab__row_at(&r->logits, row), lab__row_at(&r->kept, row),
                                 target, r->l->smoothing, lab__loss_factor(r->l, r->dy, row));
        else if (!r->add)
            memset(d, 0, (size_t)r->l->classes * r->d.size);
    }
}

static size_t backward_scratch(const lab_vjp_call *call)
{
    return lab__stand_in_bytes(call->places[IN_LOGITS].tensor);
}

static lab_status backward(lab_vjp_call *call)
{
    loss_run r = run_of(call->attrs, call->in, call->out);
    row_stand_in d;
    char *scratch = call->scratch;
    r.dy = call->grad_out[OUT_LOSS];
    r.d = lab__place_rows(&d, &call->places[IN_LOGITS], &r.add, &scratch);
    lab__parallel_run(pieces_of(&r), backward_piece, &r);
    lab__place_settle(&d);
    return LAB_OK;
}

static lab_status vjp(lab_graph *g, lab_vjp_call *call)
{
    const lab_cross_entropy_opts opts = lab__loss_twin(call->attrs);
    return lab__twin_vjp(g, call, lab_cross_entropy(g, call->in[IN_LOGITS], call->in[IN_TARGETS], &opts));
}

static double flops(const lab_op_call *call)
{
    return 4 * (double)call->in[IN_LOGITS]->numel;
}

static const lab_reads loss_reads[] = {{1 << IN_LOGITS | 1 << IN_TARGETS, 1 << OUT_KEPT}};

static const lab_op cross_entropy_op = {
    .name = "cross_entropy",
    .inputs = INS,
    .outputs = OUTS,
    .hidden = 1,
    .constant = 1 << IN_TARGETS,
    .reads = loss_reads,
    .n_reads = 1,
    .shape = loss_shape,
    .scratch = forward_scratch,
    .forward = forward,
    .vjp = vjp,
    .backward_scratch = backward_scratch,
    .backward = backward,
    .flops = flops,
};

lab_tensor *lab__cross_entropy_fused(lab_graph *g, const loss *l, lab_tensor *logits, lab_tensor *targets)
{
    lab_tensor *in[INS] = {lab__dense_rows(g, logits), targets}, *y = NULL;
    lab_custom_op(g, &cross_entropy_op, l, sizeof *l, INS, in, 1, &y);
    return y;
}
