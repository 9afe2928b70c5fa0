/* cast.c - elements in another dtype.    Between floats dx = dy, cast back. */
#include "op_impl.h"

static lab_dtype target_of(const void *attrs)
{
    return *(const lab_dtype *)attrs;
}

static lab_status cast_shape(lab_op_call *call)
{
    lab_status status = lab__shape_same(call);
    call->specs[0].dtype = target_of(call->attrs);
    return status;
}

/* Towards 0; NaN gives 0, what does not fit the nearest that does. */
static int64_t to_i64(double value)
{
    if (value >= 0x1p63)
        return INT64_MAX;
    if (value < -0x1p63)
        return INT64_MIN;
    return value == value ? (int64_t)value : 0;
}

typedef struct conversion {
    lab_dtype from, to;
} conversion;

/* Everything but i64 is exact in a double, which therefore stands between. */
static double as_double(lab_dtype from, const char *x, int64_t i)
{
    switch (from) {
    case LAB_F32:
        return (double)((const float *)x)[i];
    case LAB_F64:
        return ((const double *)x)[i];
    case LAB_BOOL:
        return x[i] != 0;
    default:
        return (double)((const int64_t *)x)[i];
    }
}

static void from_i64(lab_dtype to, int64_t n, char *y, int64_t y_stride, const int64_t *x, int64_t x_stride)
{
    if (to == LAB_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)y)[i * y_stride] = (float)x[i * x_stride];
    else if (to == LAB_F64)
        for (int64_t i = 0; i < n; i++)
            ((double *)y)[i * y_stride] = (double)x[i * x_stride];
    else
        for (int64_t i = 0; i < n; i++)
            y[i * y_stride] = x[i * x_stride] != 0;
}

static void cast_body(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const conversion *c = context;
    char *y = data[0];
    const char *x = data[1];
    int64_t step = strides[0], from = strides[1];
    if (c->from == LAB_I64)
        from_i64(c->to, n, y, step, (const int64_t *)x, from);
    else if (c->from == LAB_F32 && c->to == LAB_F64)
        for (int64_t i = 0; i < n; i++)
            ((double *)y)[i * step] = (double)((const float *)x)[i * from];
    else if (c->from == LAB_F64 && c->to == LAB_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)y)[i * step] = (float)((const double *)x)[i * from];
    else if (c->to == LAB_I64)
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)y)[i * step] = to_i64(as_double(c->from, x, i * from));
    else if (c->to == LAB_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)y)[i * step] = (float)as_double(c->from, x, i * from);
    else if (c->to == LAB_F64)
        for (int64_t i = 0; i < n; i++)
            ((double *)y)[i * step] = as_double(c->from, x, i * from);
    else
        for (int64_t i = 0; i < n; i++)
            y[i * step] = as_double(c->from, x, i * from) != 0;
}

static lab_status cast_forward(lab_op_call *call)
{
    lab_tensor *y = call->out[0];
    const lab_tensor *x = call->in[0];
    conversion c = {x->dtype, y->dtype};
    if (c.from == c.to) {
        lab__map_unary(KERNEL_COPY, y, x, 0);
        return LAB_OK;
    }
    loop l;
    lab__loop_make(&l, 2, (const lab_tensor *[]){y, x});
    lab__loop_run(&l, 5, cast_body, &c);
    return LAB_OK;
}

static lab_status cast_vjp(lab_graph *g, lab_vjp_call *call)
{
    if (lab__is_float(call->in[0]->dtype))
        call->grad_in[0] = lab_cast(g, call->grad_out[0], call->in[0]->dtype);
    return lab_graph_status(g);
}

static const lab_reads cast_reads[] = {{0, 0}};

const lab_op lab__op_cast = {
    .name = "cast",
    .inputs = 1,
    .outputs = 1,
    .reads = cast_reads,
    .n_reads = 1,
    .shape = cast_shape,
    .forward = cast_forward,
    .vjp = cast_vjp,
    .flops = lab__flops_elementwise,
};

lab_tensor *lab_cast(lab_graph *g, lab_tensor *x, lab_dtype dtype)
{
    if (lab_dtype_size(dtype) == 0)
        return lab__refuse(g, "cast", LAB_ERR_DTYPE, "%d is no dtype", (int)dtype);
    return lab__apply1(g, &lab__op_cast, &dtype, sizeof dtype, x);
}
