/* linear_cross_entropy.c - the head of a language model and its loss in one: logits = hidden weight^T, a chunk of rows
 * at a time, so that rows x classes numbers never exist.
 *
 *     forward:   chunk = X W^T;   by row: loss, maximum, ln sum
 *     backward:  chunk = X W^T;   by row, in place: G = dy (p - y);   dX = G W,   dW += G^T X
 *
 * The price is the product that backward repeats: one more than the three that logits kept in memory take. Only rows
 * that count are looked at: they are brought together first, so what is ignored meets no product.
 */
#include "kernels/gemm.h"
#include "loss_impl.h"

#include <string.h>

enum { IN_HIDDEN, IN_WEIGHT, IN_TARGETS, INS };
enum { OUT_LOSS, OUT_KEPT, OUTS };
/* Logits of a chunk: bytes, and rows below which products get slow. */
enum { CHUNK_BYTES = 4 << 20, FEWEST_ROWS = 64, PIECES = 16, ALIGNMENT = 64 };

/* ---- A chunk --------------------------------------------------------------------------------------------------------- */

typedef struct head_run {
    const loss *l;
    const kernel_loss_fns *kernels;
    const lab_tensor *hidden, *weight, *targets, *dy;
    kernel_type type;
    size_t size;
    bool tiled;
    int64_t width, chunk; /* rows of a chunk */
    /* Rows of the chunk: their numbers, hidden states, logits (then G), dX. */
    int64_t n, *row;
    char *x, *logits, *dx;
    void *workspace;
    row_view hidden_rows, kept, place;
    bool add;
    double *by_row;
    int64_t piece_rows;
} head_run;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t chunk_rows(const loss *l, size_t size)
{
    int64_t rows = l->classes > 0 ? CHUNK_BYTES / (int64_t)size / l->classes / FEWEST_ROWS * FEWEST_ROWS : 0;
    return least(rows < FEWEST_ROWS ? FEWEST_ROWS : rows, l->counted);
}

static head_run run_of(const lab_graph *g, const void *attrs, lab_tensor *const *in)
{
    const loss *l = attrs;
    const lab_tensor *hidden = in[IN_HIDDEN];
    head_run r = {.l = l,
                  .kernels = &lab__kernels()->loss[lab__type_of(hidden)],
                  .hidden = hidden,
                  .weight = in[IN_WEIGHT],
                  .targets = in[IN_TARGETS],
                  .type = lab__type_of(hidden),
                  .size = lab_dtype_size(hidden->dtype),
                  .tiled = lab__is_batch_invariant(g),
                  .width = lab__row_length(hidden),
                  .hidden_rows = lab__rows_of(hidden)};
    r.chunk = chunk_rows(l, r.size);
    return r;
}

static gemm_product product(const head_run *r, int64_t m, int64_t n, int64_t k)
{
    return (gemm_product){.type = r->type, .tiled = r->tiled, .m = m, .n = n, .k = k};
}

static gemm_product logits_product(const head_run *r)
{
    gemm_product p = product(r, r->n, r->l->classes, r->width);
    p.a = r->x, p.a_row = r->width, p.a_col = 1;
    p.b = r->weight->data, p.b_row = r->weight->strides[1], p.b_col = r->weight->strides[0];
    p.c = r->logits, p.c_row = r->l->classes, p.c_col = 1;
    return p;
}

static gemm_product hidden_product(const head_run *r)
{
    gemm_product p = product(r, r->n, r->width, r->l->classes);
    p.a = r->logits, p.a_row = r->l->classes, p.a_col = 1;
    p.b = r->weight->data, p.b_row = r->weight->strides[0], p.b_col = r->weight->strides[1];
    p.c = r->dx, p.c_row = r->width, p.c_col = 1;
    return p;
}

static gemm_product weight_product(const head_run *r, const lab_tensor *place)
{
    gemm_product p = product(r, r->l->classes, r->width, r->n);
    p.a = r->logits, p.a_row = 1, p.a_col = r->l->classes;
    p.b = r->x, p.b_row = r->width, p.b_col = 1;
    p.c = place->data, p.c_row = place->strides[0], p.c_col = place->strides[1];
    return p;
}

static size_t rounded(int64_t rows, int64_t columns, size_t size)
{
    return ((size_t)(rows * columns) * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static char *take(char **scratch, int64_t rows, int64_t columns, size_t size)
{
    char *memory = *scratch;
    *scratch += rounded(rows, columns, size);
    return memory;
}

/* Numbers of rows, hidden states and logits. */
static size_t chunk_bytes(const head_run *r)
{
    return rounded(r->chunk, 1, sizeof(int64_t)) + rounded(r->chunk, r->width, r->size) +
           rounded(r->chunk, r->l->classes, r->size);
}

static void take_chunk(head_run *r, char **scratch)
{
    r->row = (int64_t *)(void *)take(scratch, r->chunk, 1, sizeof(int64_t));
    r->x = take(scratch, r->chunk, r->width, r->size);
    r->logits = take(scratch, r->chunk, r->l->classes, r->size);
}

/* The next rows that count, from row *next on; false at the end. */
static bool collect(head_run *r, int64_t *next)
{
    r->n = 0;
    for (; *next < r->l->rows && r->n < r->chunk; ++*next) {
        if (!lab__loss_counts(r->l, lab__i64_at(r->targets, *next)))
            continue;
        r->row[r->n] = *next;
        memcpy(r->x + r->n++ * r->width * (int64_t)r->size, lab__row_at(&r->hidden_rows, *next),
               (size_t)r->width * r->size);
    }
    r->piece_rows = lab__rows_per_piece(r->n, r->l->classes, PIECES);
    return r->n > 0;
}

static void run_rows(head_run *r, parallel_fn fn)
{
    lab__parallel_run((r->n + r->piece_rows - 1) / r->piece_rows, fn, r);
}

/* ---- Forward --------------------------------------------------------------------------------------------------------- */

static lab_status head_shape(lab_op_call *call)
{
    const loss *l = call->attrs;
    lab_dtype dtype = call->in[IN_HIDDEN]->dtype;
    head_run r = run_of(call->graph, l, call->in);
    r.n = r.chunk;
    gemm_product p = logits_product(&r);
    if (!lab__gemm_fits(&p))
        return lab_graph_fail(call->graph, LAB_ERR_RANGE,
                              "a product of %lld x %lld x %lld has sizes or strides that BLAS cannot count",
                              (long long)p.m, (long long)p.n, (long long)p.k);
    lab__loss_shape(l, &call->specs[OUT_LOSS], dtype, call->in[IN_TARGETS]);
    call->specs[OUT_KEPT] = (lab_spec){.dtype = dtype, .rank = 2, .shape = {l->rows, KERNEL_LOSS_KEPT}};
    return LAB_OK;
}

static void forward_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const head_run *r = context;
    int64_t i = piece * r->piece_rows, end = least(i + r->piece_rows, r->n);
    for (; i < end; i++) {
        int64_t row = r->row[i];
        r->by_row[row] = r->kernels->forward(r->l->classes, r->logits + i * r->l->classes * (int64_t)r->size,
                                             lab__i64_at(r->targets, row), r->l->smoothing, lab__row_at(&r->kept, row));
    }
}

static size_t forward_scratch(const lab_op_call *call)
{
    head_run r = run_of(call->graph, call->attrs, call->in);
    r.n = r.chunk;
    gemm_product p = logits_product(&r);
    return rounded(r.l->rows, 1, sizeof(double)) + chunk_bytes(&r) + lab__gemm_workspace(1, &p);
}

static lab_status forward(lab_op_call *call)
{
    head_run r = run_of(call->graph, call->attrs, call->in);
    char *scratch = call->scratch;
    r.by_row = (double *)(void *)take(&scratch, r.l->rows, 1, sizeof(double));
    memset(r.by_row, 0, (size_t)r.l->rows * sizeof(double));
    take_chunk(&r, &scratch);
    r.kept = lab__rows_of(call->out[OUT_KEPT]);
    for (int64_t next = 0; collect(&r, &next);) {
        gemm_product p = logits_product(&r);
        lab__gemm_run(1, &p, scratch);
        run_rows(&r, forward_piece);
    }
    lab__loss_put(r.l, call->out[OUT_LOSS], r.by_row);
    return LAB_OK;
}

/* ---- Backward -------------------------------------------------------------------------------------------------------- */

static void slope_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const head_run *r = context;
    int64_t i = piece * r->piece_rows, end = least(i + r->piece_rows, r->n);
    for (; i < end; i++) {
        int64_t row = r->row[i];
        char *logits = r->logits + i * r->l->classes * (int64_t)r->size;
        r->kernels->backward(r->l->classes, logits, false, logits, lab__row_at(&r->kept, row),
                             lab__i64_at(r->targets, row), r->l->smoothing, lab__loss_factor(r->l, r->dy, row));
    }
}

/* The chunk's dX to where it belongs. */
static void put_rows(const head_run *r)
{
    kernel_binary_fn add = lab__kernels()->binary[r->type][KERNEL_ADD];
    for (int64_t i = 0; i < r->n; i++) {
        char *to = lab__row_at(&r->place, r->row[i]), *from = r->dx + i * r->width * (int64_t)r->size;
        if (r->add)
            add(r->width, to, 1, to, 1, from, 1);
        else
            memcpy(to, from, (size_t)r->width * r->size);
    }
}

static int backward_products(const head_run *r, const lab_vjp_call *call, gemm_product *products)
{
    const lab_place *weight = &call->places[IN_WEIGHT];
    int count = 0;
    if (r->dx)
        products[count++] = hidden_product(r);
    if (weight->tensor) {
        products[count] = weight_product(r, weight->tensor);
        products[count++].add = true;
    }
    return count;
}

static size_t backward_scratch(const lab_vjp_call *call)
{
    head_run r = run_of(call->graph, call->attrs, call->in);
    r.n = r.chunk;
    char nothing;
    r.dx = call->wants[IN_HIDDEN] ? &nothing : NULL;
    gemm_product again = logits_product(&r), products[2];
    int count = backward_products(&r, call, products);
    size_t first = lab__gemm_workspace(1, &again), second = lab__gemm_workspace(count, products);
    return lab__stand_in_bytes(call->places[IN_HIDDEN].tensor) + chunk_bytes(&r) +
           (r.dx ? rounded(r.chunk, r.width, r.size) : 0) + (first > second ? first : second);
}

static lab_status backward(lab_vjp_call *call)
{
    head_run r = run_of(call->graph, call->attrs, call->in);
    row_stand_in stand_in;
    char *scratch = call->scratch;
    r.dy = call->grad_out[OUT_LOSS];
    r.kept = lab__rows_of(call->out[OUT_KEPT]);
    r.place = lab__place_rows(&stand_in, &call->places[IN_HIDDEN], &r.add, &scratch);
    take_chunk(&r, &scratch);
    r.dx = call->places[IN_HIDDEN].tensor ? take(&scratch, r.chunk, r.width, r.size) : NULL;
    for (int64_t row = 0; r.place.tensor && !r.add && row < r.l->rows; row++)
        if (!lab__loss_counts(r.l, lab__i64_at(r.targets, row)))
            memset(lab__row_at(&r.place, row), 0, (size_t)r.width * r.size);
    bool summed = !call->places[IN_WEIGHT].tensor || call->places[IN_WEIGHT].add;
    for (int64_t next = 0; collect(&r, &next);) {
        gemm_product again = logits_product(&r), products[2];
        lab__gemm_run(1, &again, scratch);
        run_rows(&r, slope_piece);
        int count = backward_products(&r, call, products);
        products[count - 1].add = summed && call->places[IN_WEIGHT].tensor;
        lab__gemm_run(count, products, scratch);
        summed = true;
        if (r.dx)
            put_rows(&r);
    }
    if (!summed)
        lab__tensor_fill(call->places[IN_WEIGHT].tensor, 0);
    lab__place_settle(&stand_in);
    return LAB_OK;
}

/* ---- The op ---------------------------------------------------------------------------------------------------------- */

static lab_tensor *composed(lab_graph *g, const loss *l, lab_tensor *hidden, lab_tensor *weight, lab_tensor *targets)
{
    const lab_cross_entropy_opts opts = lab__loss_twin(l);
    return lab_cross_entropy(g, lab_matmul(g, hidden, lab_transpose(g, weight, 0, 1)), targets, &opts);
}

static lab_status vjp(lab_graph *g, lab_vjp_call *call)
{
    return lab__twin_vjp(g, call,
                         composed(g, call->attrs, call->in[IN_HIDDEN], call->in[IN_WEIGHT], call->in[IN_TARGETS]));
}

static double flops(const lab_op_call *call)
{
    const loss *l = call->attrs;
    return 2 * (double)l->counted * (double)l->classes * (double)lab__row_length(call->in[IN_HIDDEN]);
}

enum { HIDDEN = 1 << IN_HIDDEN, WEIGHT = 1 << IN_WEIGHT, TARGETS = 1 << IN_TARGETS, KEPT = 1 << OUT_KEPT };
static const lab_reads head_reads[] = {{HIDDEN | WEIGHT | TARGETS, KEPT}};

static const lab_op head_op = {
    .name = "linear_cross_entropy",
    .inputs = INS,
    .outputs = OUTS,
    .hidden = 1,
    .constant = TARGETS,
    .reads = head_reads,
    .n_reads = 1,
    .shape = head_shape,
    .scratch = forward_scratch,
    .forward = forward,
    .vjp = vjp,
    .backward_scratch = backward_scratch,
    .backward = backward,
    .flops = flops,
};

static lab_status check(const lab_graph *g, const lab_tensor *hidden, const lab_tensor *weight,
                        const lab_tensor *targets)
{
    if (!hidden || !weight || !targets)
        return lab__fail(LAB_ERR_ARGUMENT, "operand %s is NULL",
                         !hidden   ? "1 (hidden)"
                         : !weight ? "2 (weight)"
                                   : "3 (targets)");
    if (!lab__readable(g, hidden) || !lab__readable(g, weight) || !lab__readable(g, targets))
        return lab__fail(LAB_ERR_STATE, "an operand was computed on another graph");
    if (!lab__is_float(hidden->dtype) || weight->dtype != hidden->dtype || targets->dtype != LAB_I64)
        return lab__fail(LAB_ERR_DTYPE, "hidden is %s, weight %s, targets %s; must be f32 or f64, the same, and i64",
                         lab_dtype_name(hidden->dtype), lab_dtype_name(weight->dtype), lab_dtype_name(targets->dtype));
    if (hidden->rank != targets->rank + 1 ||
        memcmp(hidden->shape, targets->shape, (size_t)targets->rank * sizeof targets->shape[0]) != 0)
        return lab__fail(LAB_ERR_SHAPE, "targets %s must be the shape of hidden %s without its last axis",
                         lab__shape_text(targets->rank, targets->shape), lab__shape_text(hidden->rank, hidden->shape));
    if (weight->rank != 2 || weight->shape[1] != hidden->shape[hidden->rank - 1])
        return lab__fail(LAB_ERR_SHAPE, "weight %s must be [classes, width], hidden is %s",
                         lab__shape_text(weight->rank, weight->shape), lab__shape_text(hidden->rank, hidden->shape));
    return LAB_OK;
}

lab_tensor *lab_linear_cross_entropy(lab_graph *g, lab_tensor *hidden, lab_tensor *weight, lab_tensor *targets,
                                     const lab_cross_entropy_opts *opts)
{
    if (!lab__healthy(g))
        return NULL;
    loss l;
    lab_status status = lab__loss_options(&l, opts);
    if (status == LAB_OK)
        status = check(g, hidden, weight, targets);
    if (status == LAB_OK)
        status = lab__loss_targets(&l, targets, weight->shape[0]);
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "linear_cross_entropy", status);
    if (l.path == LAB_PATH_COMPOSED || weight->shape[1] == 0) /* of no width: as many classes as one likes */
        return composed(g, &l, hidden, weight, targets);
    lab_tensor *in[INS] = {lab__dense_rows(g, hidden), weight, targets}, *y = NULL;
    lab_custom_op(g, &head_op, &l, sizeof l, INS, in, 1, &y);
    return y;
}
