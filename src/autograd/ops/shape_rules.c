/* shape_rules.c - what operands must be, and what results will be: the rules that families of ops share. */
#include "op_impl.h"

static const char *const position[] = {"first", "second", "third", "fourth"};

static const char *position_of(int operand)
{
    return operand >= 0 && operand < 4 ? position[operand] : "later";
}

static int dtype_bit(lab_dtype dtype)
{
    return dtype == LAB_I64 ? ALLOW_I64 : dtype == LAB_BOOL ? ALLOW_BOOL : ALLOW_FLOAT;
}

static const char *allowed_text(int allowed)
{
    switch (allowed) {
    case ALLOW_FLOAT:
        return "f32 or f64";
    case ALLOW_I64:
        return "i64";
    case ALLOW_BOOL:
        return "bool";
    case ALLOW_FLOAT | ALLOW_I64:
        return "f32, f64 or i64";
    case ALLOW_I64 | ALLOW_BOOL:
        return "i64 or bool";
    default:
        return "another dtype";
    }
}

lab_status lab__require_dtype(lab_op_call *call, int operand, int allowed)
{
    const lab_tensor *x = call->in[operand];
    if (dtype_bit(x->dtype) & allowed)
        return LAB_OK;
    return lab_graph_fail(call->graph, LAB_ERR_DTYPE, "the %s operand is %s, must be %s", position_of(operand),
                          lab__tensor_text(x), allowed_text(allowed));
}

lab_status lab__require_same_dtype(lab_op_call *call, int operand_a, int operand_b)
{
    const lab_tensor *a = call->in[operand_a], *b = call->in[operand_b];
    if (a->dtype == b->dtype)
        return LAB_OK;
    return lab_graph_fail(call->graph, LAB_ERR_DTYPE,
                          "dtypes differ: the %s operand is %s, the %s is %s; cast one of them", position_of(operand_a),
                          lab__tensor_text(a), position_of(operand_b), lab__tensor_text(b));
}

bool lab__broadcast_shapes(int *rank, int64_t *shape, int rank_b, const int64_t *shape_b)
{
    int grown = rank_b - *rank;
    if (grown > 0) {
        memmove(shape + grown, shape, (size_t)*rank * sizeof *shape);
        for (int i = 0; i < grown; i++)
            shape[i] = 1;
        *rank = rank_b;
    }
    for (int i = 0; i < rank_b; i++) {
        int64_t *size = &shape[*rank - rank_b + i];
        if (*size == 1)
            *size = shape_b[i];
        else if (shape_b[i] != 1 && shape_b[i] != *size)
            return false;
    }
    return true;
}

static void spec_as(lab_spec *spec, const lab_tensor *x)
{
    spec->dtype = x->dtype;
    spec->rank = x->rank;
    memcpy(spec->shape, x->shape, (size_t)x->rank * sizeof *x->shape);
}

lab_status lab__shape_same(lab_op_call *call)
{
    spec_as(&call->specs[0], call->in[0]);
    return LAB_OK;
}

/* The shape to which all operands are stretched. */
static lab_status broadcast_all(lab_op_call *call)
{
    lab_spec *spec = &call->specs[0];
    spec_as(spec, call->in[0]);
    for (int i = 1; i < call->n_in; i++) {
        const lab_tensor *b = call->in[i];
        if (i == 1 && lab__same_shape(call->in[0], b))
            continue;
        lab_spec before = *spec;
        if (!lab__broadcast_shapes(&spec->rank, spec->shape, b->rank, b->shape))
            return lab_graph_fail(
                call->graph, LAB_ERR_SHAPE,
                "shapes do not broadcast: %s and %s (the %s operand); aligned at the last axis, sizes "
                "must be equal or 1",
                lab__shape_text(before.rank, before.shape), lab__shape_text(b->rank, b->shape), position_of(i));
    }
    return LAB_OK;
}

lab_status lab__shape_broadcast(lab_op_call *call)
{
    lab_status status = LAB_OK;
    for (int i = 1; i < call->n_in && status == LAB_OK; i++)
        status = lab__require_same_dtype(call, 0, i);
    return status == LAB_OK ? broadcast_all(call) : status;
}

lab_status lab__shape_compare(lab_op_call *call)
{
    lab_status status = lab__shape_broadcast(call);
    call->specs[0].dtype = LAB_BOOL;
    return status;
}

double lab__flops_elementwise(const lab_op_call *call)
{
    double count = 1;
    for (int i = 0; i < call->specs[0].rank; i++)
        count *= (double)call->specs[0].shape[i];
    return count;
}
