/* compare.c - ops whose results are true or false. Gradients stop here. */
#include "op_impl.h"

static lab_status shape_numbers(lab_op_call *call)
{
    lab_status status = lab__require_dtype(call, 0, ALLOW_FLOAT | ALLOW_I64);
    return status == LAB_OK ? lab__shape_compare(call) : status;
}

static lab_status shape_logical(lab_op_call *call)
{
    for (int i = 0; i < call->n_in; i++) {
        lab_status status = lab__require_dtype(call, i, ALLOW_BOOL);
        if (status != LAB_OK)
            return status;
    }
    return lab__shape_compare(call);
}

static void compare_body(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    (*(const kernel_compare_fn *)context)(n, (uint8_t *)data[0], strides[0], data[1], strides[1], data[2], strides[2]);
}

static lab_status compare(lab_op_call *call, kernel_compare op)
{
    const lab_dtype dtype = call->in[0]->dtype;
    kernel_compare_fn fn = dtype == LAB_I64    ? lab__kernel_compare_i64(op)
                           : dtype == LAB_BOOL ? lab__kernel_compare_bool(op)
                                               : lab__kernels()->compare[lab__kernel_type(dtype)][op];
    loop l;
    lab__loop_make(&l, 3, (const lab_tensor *[]){call->out[0], call->in[0], call->in[1]});
    lab__loop_run(&l, 3, compare_body, &fn);
    return LAB_OK;
}

static lab_status equal_forward(lab_op_call *call)
{
    return compare(call, KERNEL_EQUAL);
}

const lab_op lab__op_equal = {
    .name = "equal",
    .inputs = 2,
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = lab__shape_compare,
    .forward = equal_forward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_equal(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return lab__apply2(g, &lab__op_equal, NULL, 0, a, b);
}

static lab_status less_forward(lab_op_call *call)
{
    return compare(call, KERNEL_LESS);
}

const lab_op lab__op_less = {
    .name = "less",
    .inputs = 2,
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = shape_numbers,
    .forward = less_forward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_less(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return lab__apply2(g, &lab__op_less, NULL, 0, a, b);
}

static lab_status less_equal_forward(lab_op_call *call)
{
    return compare(call, KERNEL_LESS_EQUAL);
}

const lab_op lab__op_less_equal = {
    .name = "less_equal",
    .inputs = 2,
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = shape_numbers,
    .forward = less_equal_forward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_less_equal(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return lab__apply2(g, &lab__op_less_equal, NULL, 0, a, b);
}

/* ---- Logic ------------------------------------------------------------------------------------------------------- */

static void and_body(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    (void)context;
    lab__kernel_logical_and(n, (uint8_t *)data[0], strides[0], (const uint8_t *)data[1], strides[1],
                            (const uint8_t *)data[2], strides[2]);
}

static lab_status logical_and_forward(lab_op_call *call)
{
    loop l;
    lab__loop_make(&l, 3, (const lab_tensor *[]){call->out[0], call->in[0], call->in[1]});
    lab__loop_run(&l, 2, and_body, NULL);
    return LAB_OK;
}

const lab_op lab__op_logical_and = {
    .name = "logical_and",
    .inputs = 2,
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = shape_logical,
    .forward = logical_and_forward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_logical_and(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return lab__apply2(g, &lab__op_logical_and, NULL, 0, a, b);
}

static void or_body(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    (void)context;
    lab__kernel_logical_or(n, (uint8_t *)data[0], strides[0], (const uint8_t *)data[1], strides[1],
                           (const uint8_t *)data[2], strides[2]);
}

static lab_status logical_or_forward(lab_op_call *call)
{
    loop l;
    lab__loop_make(&l, 3, (const lab_tensor *[]){call->out[0], call->in[0], call->in[1]});
    lab__loop_run(&l, 2, or_body, NULL);
    return LAB_OK;
}

const lab_op lab__op_logical_or = {
    .name = "logical_or",
    .inputs = 2,
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = shape_logical,
    .forward = logical_or_forward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_logical_or(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return lab__apply2(g, &lab__op_logical_or, NULL, 0, a, b);
}

static void not_body(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    (void)context;
    lab__kernel_logical_not(n, (uint8_t *)data[0], strides[0], (const uint8_t *)data[1], strides[1]);
}

static lab_status logical_not_forward(lab_op_call *call)
{
    loop l;
    lab__loop_make(&l, 2, (const lab_tensor *[]){call->out[0], call->in[0]});
    lab__loop_run(&l, 2, not_body, NULL);
    return LAB_OK;
}

const lab_op lab__op_logical_not = {
    .name = "logical_not",
    .inputs = 1,
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = shape_logical,
    .forward = logical_not_forward,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_logical_not(lab_graph *g, lab_tensor *a)
{
    return lab__apply1(g, &lab__op_logical_not, NULL, 0, a);
}
