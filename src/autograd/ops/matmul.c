/* matmul.c - y[..., i, j] = sum over k of a[..., i, k] b[..., k, j].    da = dy b^T,    db = a^T dy.
 *
 * One gemm_product each: a transposed view is a pair of strides, a broadcast operand a batch stride of 0, also in the
 * result, where it means a sum. A vector is a matrix of one row (first operand) or one column (second), and that axis
 * is left out of the result. Gradients are written straight into their places, both in one run.
 */
#include "axes.h"

#include "../../kernels/gemm.h"

/* The sizes of a product: y is [batch..., m, n] but for the axes that vectors leave out. */
typedef struct product_sizes {
    bool rows, columns; /* y has an axis for m, for n */
    int64_t m, n, k;
    int rank;
    int64_t batch[LAB_MAX_RANK];
} product_sizes;

/* Fills all but the batch. */
static void size_up(product_sizes *s, const lab_tensor *a, const lab_tensor *b)
{
    s->rows = a->rank > 1;
    s->columns = b->rank > 1;
    s->m = s->rows ? a->shape[a->rank - 2] : 1;
    s->n = s->columns ? b->shape[b->rank - 1] : 1;
    s->k = a->shape[a->rank - 1];
    s->rank = 0;
}

static bool broadcast_batch(product_sizes *s, const lab_tensor *a, const lab_tensor *b)
{
    s->rank = s->rows ? a->rank - 2 : 0;
    memcpy(s->batch, a->shape, (size_t)s->rank * sizeof *s->batch);
    return lab__broadcast_shapes(&s->rank, s->batch, s->columns ? b->rank - 2 : 0, b->shape);
}

/* ---- Tensors as matrices ------------------------------------------------------------------------------------------
 */

typedef struct matrix {
    char *data;
    int64_t row, column; /* strides; 1 for an axis that is not there */
    int64_t batch[LAB_MAX_RANK];
} matrix;

static matrix as_matrix(const lab_tensor *t, bool rows, bool columns, int batch_rank)
{
    matrix x = {.data = t->data, .row = 1, .column = 1};
    int axis = t->rank;
    if (columns)
        x.column = t->strides[--axis];
    if (rows)
        x.row = t->strides[--axis];
    for (int i = batch_rank - 1; i >= 0 && axis > 0; i--) {
        axis--;
        x.batch[i] = t->shape[axis] == 1 ? 0 : t->strides[axis];
    }
    return x;
}

static matrix transposed(matrix x)
{
    int64_t row = x.row;
    x.row = x.column;
    x.column = row;
    return x;
}

static gemm_product product_of(const lab_graph *g, const product_sizes *s, lab_dtype dtype, int64_t m, int64_t n,
                               int64_t k, matrix a, matrix b, matrix c)
{
    gemm_product p = {.type = lab__kernel_type(dtype), .tiled = g->batch_invariant, .m = m, .n = n, .k = k};
    p.a = a.data, p.a_row = a.row, p.a_col = a.column;
    p.b = b.data, p.b_row = b.row, p.b_col = b.column;
    p.c = c.data, p.c_row = c.row, p.c_col = c.column;
    p.batch_rank = s->rank;
    for (int i = 0; i < s->rank; i++) {
        p.batch[i] = s->batch[i];
        p.a_batch[i] = a.batch[i];
        p.b_batch[i] = b.batch[i];
        p.c_batch[i] = c.batch[i];
    }
    return p;
}

static lab_status too_large(lab_graph *g, const gemm_product *p)
{
    return lab_graph_fail(g, LAB_ERR_RANGE,
                          "a product of %lld x %lld x %lld has sizes or strides that BLAS cannot count",
                          (long long)p->m, (long long)p->n, (long long)p->k);
}

/* ---- Forward ------------------------------------------------------------------------------------------------------
 */

static gemm_product forward_product(const lab_graph *g, const lab_tensor *a, const lab_tensor *b, const lab_tensor *y)
{
    product_sizes s;
    size_up(&s, a, b);
    broadcast_batch(&s, a, b);
    return product_of(g, &s, a->dtype, s.m, s.n, s.k, as_matrix(a, s.rows, true, s.rank),
                      as_matrix(b, true, s.columns, s.rank), as_matrix(y, s.rows, s.columns, s.rank));
}

/* Told before memory for such a result is asked for. */
static lab_status check_countable(const lab_op_call *call)
{
    const lab_spec *spec = &call->specs[0];
    int64_t numel;
    size_t bytes;
    if (!lab__shape_bytes(spec->dtype, spec->rank, spec->shape, &numel, &bytes))
        return LAB_OK; /* the engine will refuse it */
    lab_tensor y = {0};
    lab__tensor_describe(&y, spec->dtype, spec->rank, spec->shape, NULL);
    gemm_product p = forward_product(call->graph, call->in[0], call->in[1], &y);
    return lab__gemm_fits(&p) ? LAB_OK : too_large(call->graph, &p);
}

static lab_status matmul_shape(lab_op_call *call)
{
    const lab_tensor *a = call->in[0], *b = call->in[1];
    lab_status status = lab__require_dtype(call, 0, ALLOW_FLOAT);
    if (status == LAB_OK)
        status = lab__require_same_dtype(call, 0, 1);
    if (status != LAB_OK)
        return status;
    if (a->rank == 0 || b->rank == 0)
        return lab_graph_fail(call->graph, LAB_ERR_SHAPE, "%s @ %s: the %s operand has no axis to multiply along",
                              lab__shape_text(a->rank, a->shape), lab__shape_text(b->rank, b->shape),
                              a->rank == 0 ? "first" : "second");
    product_sizes s;
    size_up(&s, a, b);
    int64_t inner = b->shape[s.columns ? b->rank - 2 : 0];
    const char *a_text = lab__shape_text(a->rank, a->shape), *b_text = lab__shape_text(b->rank, b->shape);
    if (inner != s.k)
        return lab_graph_fail(call->graph, LAB_ERR_SHAPE,
                              "inner sizes differ: %s @ %s; the last size of the first operand (%lld) must equal the "
                              "%s of the second (%lld)",
                              a_text, b_text, (long long)s.k, s.columns ? "second-last" : "only one", (long long)inner);
    if (!broadcast_batch(&s, a, b))
        return lab_graph_fail(call->graph, LAB_ERR_SHAPE,
                              "leading sizes differ: %s @ %s; aligned before the last two, they must be equal or 1",
                              a_text, b_text);
    lab_spec *y = &call->specs[0];
    y->dtype = a->dtype;
    y->rank = s.rank;
    memcpy(y->shape, s.batch, (size_t)s.rank * sizeof *s.batch);
    if (s.rows)
        y->shape[y->rank++] = s.m;
    if (s.columns)
        y->shape[y->rank++] = s.n;
    return check_countable(call);
}

static size_t matmul_scratch(const lab_op_call *call)
{
    gemm_product p = forward_product(call->graph, call->in[0], call->in[1], call->out[0]);
    return lab__gemm_workspace(1, &p);
}

static lab_status matmul_forward(lab_op_call *call)
{
    gemm_product p = forward_product(call->graph, call->in[0], call->in[1], call->out[0]);
    if (call->out[0]->numel > 0)
        lab__gemm_run(1, &p, call->scratch);
    return LAB_OK;
}

static double matmul_flops(const lab_op_call *call)
{
    const lab_tensor *a = call->in[0];
    double results = 1.0;
    for (int i = 0; i < call->specs[0].rank; i++)
        results *= (double)call->specs[0].shape[i];
    return 2.0 * results * (double)a->shape[a->rank - 1];
}

/* ---- Derivative ---------------------------------------------------------------------------------------------------
 */

/* A vector with the axis of size 1 that it leaves out. */
static lab_tensor *with_axis(lab_graph *g, lab_tensor *x, int axis)
{
    int64_t shape[LAB_MAX_RANK];
    int rank = lab_tensor_rank(x);
    axis += rank + 1;
    for (int i = 0, from = 0; i <= rank && rank < LAB_MAX_RANK; i++)
        shape[i] = i == axis ? 1 : lab_tensor_size(x, from++);
    return lab_reshape(g, x, rank + 1, shape);
}

static lab_status matmul_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *a = call->in[0], *b = call->in[1], *dy = call->grad_out[0];
    if (b->rank == 1)
        dy = with_axis(g, dy, -1);
    if (a->rank == 1)
        dy = with_axis(g, dy, -2);
    if (call->wants[0]) {
        lab_tensor *columns = b->rank == 1 ? with_axis(g, b, -1) : b;
        lab_tensor *da = lab_matmul(g, dy, lab_transpose(g, columns, -2, -1));
        call->grad_in[0] = lab__sum_to_shape_of(g, da, a);
    }
    if (call->wants[1]) {
        lab_tensor *rows = a->rank == 1 ? with_axis(g, a, -2) : a;
        lab_tensor *db = lab_matmul(g, lab_transpose(g, rows, -2, -1), dy);
        if (b->rank == 1)
            db = lab_reshape(g, lab__sum_to_shape_of(g, db, with_axis(g, b, -1)), 1, b->shape);
        call->grad_in[1] = b->rank == 1 ? db : lab__sum_to_shape_of(g, db, b);
    }
    return lab_graph_status(g);
}

/* The products for the places that somebody wants; how many. */
static int backward_products(const lab_vjp_call *call, gemm_product *products)
{
    const lab_tensor *a = call->in[0], *b = call->in[1], *dy = call->grad_out[0];
    product_sizes s;
    size_up(&s, a, b);
    broadcast_batch(&s, a, b);
    matrix dc = as_matrix(dy, s.rows, s.columns, s.rank);
    int count = 0;
    if (call->places[0].tensor) {
        products[count] =
            product_of(call->graph, &s, a->dtype, s.m, s.k, s.n, dc, transposed(as_matrix(b, true, s.columns, s.rank)),
                       as_matrix(call->places[0].tensor, s.rows, true, s.rank));
        products[count++].add = call->places[0].add;
    }
    if (call->places[1].tensor) {
        products[count] =
            product_of(call->graph, &s, a->dtype, s.k, s.n, s.m, transposed(as_matrix(a, s.rows, true, s.rank)), dc,
                       as_matrix(call->places[1].tensor, true, s.columns, s.rank));
        products[count++].add = call->places[1].add;
    }
    return count;
}

static size_t matmul_backward_scratch(const lab_vjp_call *call)
{
    gemm_product products[2];
    int count = backward_products(call, products);
    for (int i = 0; i < count; i++)
        if (!lab__gemm_fits(&products[i]))
            return 0;
    return lab__gemm_workspace(count, products);
}

static lab_status matmul_backward(lab_vjp_call *call)
{
    gemm_product products[2];
    int count = backward_products(call, products);
    for (int i = 0; i < count; i++)
        if (!lab__gemm_fits(&products[i]))
            return too_large(call->graph, &products[i]);
    if (call->grad_out[0]->numel > 0) {
        lab__gemm_run(count, products, call->scratch);
        return LAB_OK;
    }
    for (int i = 0; i < 2; i++) /* sums of nothing */
        if (call->places[i].tensor && !call->places[i].add)
            lab__tensor_fill(call->places[i].tensor, 0.0);
    return LAB_OK;
}

/* da reads b alone, db reads a alone. */
static const lab_reads matmul_reads[] = {{.in = 2}, {.in = 1}};

const lab_op lab__op_matmul = {
    .name = "matmul",
    .inputs = 2,
    .outputs = 1,
    .reads = matmul_reads,
    .n_reads = 2,
    .shape = matmul_shape,
    .scratch = matmul_scratch,
    .forward = matmul_forward,
    .vjp = matmul_vjp,
    .backward_scratch = matmul_backward_scratch,
    .backward = matmul_backward,
    .flops = matmul_flops,
};

lab_tensor *lab_matmul(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return lab__apply2(g, &lab__op_matmul, NULL, 0, a, b);
}
