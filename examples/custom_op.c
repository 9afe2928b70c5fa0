/* custom_op.c - an op of one's own: y = x / (1 + |x|), with its derivative, checked against differences.
 *
 * 1 - |y| = 1 / (1 + |x|), so y' = 1 / (1 + |x|)^2 = (1 - |y|)^2: the result is all that the derivative reads.
 */
#include <llmlab.h>
#include <math.h>
#include <stdio.h>

/* What will come out: the same dtype and shape as what goes in. */
static lab_status softsign_shape(lab_op_call *call)
{
    const lab_tensor *x = call->in[0];
    if (lab_tensor_dtype(x) != LAB_F64)
        return lab_graph_fail(call->graph, LAB_ERR_DTYPE, "needs f64, got %s", lab_dtype_name(lab_tensor_dtype(x)));
    call->specs[0].dtype = LAB_F64;
    call->specs[0].rank = lab_tensor_rank(x);
    for (int axis = 0; axis < call->specs[0].rank; axis++)
        call->specs[0].shape[axis] = lab_tensor_size(x, axis);
    return LAB_OK;
}

/* The result is row-major; the operand may have any strides, so it is read into the result first. */
static lab_status softsign_forward(lab_op_call *call)
{
    double *y = lab_tensor_data(call->out[0]);
    int64_t n = lab_tensor_numel(call->out[0]);
    lab_status status = lab_tensor_read(call->in[0], y, (size_t)n * sizeof(double));
    for (int64_t i = 0; i < n; i++)
        y[i] = y[i] / (1 + fabs(y[i]));
    return status;
}

/* dx = dy (1 - |y|)^2, written with ops: so it has a derivative, too, and lab_grad with create_graph works. Called only
 * when somebody wants dx, which with one operand need not be asked. */
static lab_status softsign_vjp(lab_graph *g, lab_vjp_call *call)
{
    lab_tensor *rest = lab_add_scalar(g, lab_neg(g, lab_abs(g, call->out[0])), 1);
    call->grad_in[0] = lab_mul(g, call->grad_out[0], lab_mul(g, rest, rest));
    return lab_graph_status(g);
}

/* Operands read by the derivative: none; results: the first. Without this all count as read, and overwriting x between
 * forward and backward would be an error. */
static const lab_reads reads_result = {.in = 0, .out = 1};

static const lab_op softsign_op = {
    .name = "softsign", /* stands before its error messages */
    .inputs = 1,
    .outputs = 1,
    .reads = &reads_result,
    .n_reads = 1,
    .shape = softsign_shape,
    .forward = softsign_forward,
    .vjp = softsign_vjp,
};

static lab_tensor *softsign(lab_graph *g, lab_tensor *x)
{
    lab_tensor *y; /* NULL if g has failed: like the library's own ops */
    lab_custom_op(g, &softsign_op, NULL, 0, 1, &x, 1, &y);
    return y;
}

static lab_tensor *network(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return softsign(g, lab_matmul(g, softsign(g, xs[0]), xs[1]));
}

int main(void)
{
    lab_tensor *xs[2];
    if (lab_tensor_from(&xs[0], LAB_F64, 2, (int64_t[]){2, 3}, (double[]){1, -2, 0.5, -0.25, 3, -1}) ||
        lab_tensor_from(&xs[1], LAB_F64, 2, (int64_t[]){3, 2}, (double[]){0.5, 1, -1, 2, 0.1, -0.3})) {
        fprintf(stderr, "%s\n", lab_last_message());
        return 1;
    }
    for (int order = 1; order <= 2; order++) {
        lab_gradcheck_report report;
        if (lab_gradcheck(network, NULL, 2, xs, &(lab_gradcheck_opts){.second_order = order == 2}, &report) != LAB_OK) {
            fprintf(stderr, "%s\n", lab_last_message());
            return 1;
        }
        printf("derivative of order %d: %s, worst error %.1e of the largest entry (%lld entries)\n", order,
               report.passed ? "right" : "WRONG", report.worst_error, (long long)report.entries);
        if (!report.passed)
            return 1;
    }
    lab_tensor_destroy(&xs[0]);
    lab_tensor_destroy(&xs[1]);
}
