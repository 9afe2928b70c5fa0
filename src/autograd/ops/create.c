/* create.c - tensors from nothing: constant, full, arange, randn, rand. They are ops without operands. */
#include "op_impl.h"

/* The attributes of all of them; each uses its own. */
typedef struct creation {
    lab_spec spec;
    const void *data; /* the caller's, read once, when the op is applied */
    double start, step;
    uint64_t seed;
} creation;

bool lab__is_whole(double value)
{
    return value >= -0x1p63 && value < 0x1p63 && value == floor(value);
}

static lab_status creation_shape(lab_op_call *call)
{
    call->specs[0] = ((const creation *)call->attrs)->spec;
    return LAB_OK;
}

/* Fills in the result's dtype and shape; false, and g has failed, where they are none. */
static bool describe(lab_graph *g, const char *name, creation *c, lab_dtype dtype, int rank, const int64_t *shape)
{
    *c = (creation){.spec = {.dtype = dtype, .rank = rank}};
    int64_t numel;
    size_t bytes;
    if (lab_dtype_size(dtype) == 0)
        lab__refuse(g, name, LAB_ERR_DTYPE, "%d is no dtype", (int)dtype);
    else if (rank < 0 || rank > LAB_MAX_RANK)
        lab__refuse(g, name, LAB_ERR_RANGE, "rank %d is not between 0 and %d", rank, LAB_MAX_RANK);
    else if (rank > 0 && !shape)
        lab__refuse(g, name, LAB_ERR_ARGUMENT, "shape is NULL, rank %d", rank);
    else if (!lab__shape_bytes(dtype, rank, shape, &numel, &bytes))
        lab__refuse(g, name, LAB_ERR_RANGE, "shape %s has a negative size, or more bytes than can be counted",
                    lab__shape_text(rank, shape));
    else {
        if (rank > 0)
            memcpy(c->spec.shape, shape, (size_t)rank * sizeof *shape);
        return true;
    }
    return false;
}

static bool describe_float(lab_graph *g, const char *name, creation *c, lab_dtype dtype, int rank, const int64_t *shape)
{
    if (!describe(g, name, c, dtype, rank, shape))
        return false;
    if (!lab__is_float(dtype))
        lab__refuse(g, name, LAB_ERR_DTYPE, "dtype is %s, must be f32 or f64", lab_dtype_name(dtype));
    return lab__is_float(dtype);
}

/* ---- constant ---------------------------------------------------------------------------------------------------- */

static lab_status constant_forward(lab_op_call *call)
{
    lab_tensor *y = call->out[0];
    if (y->numel > 0)
        memcpy(y->data, ((const creation *)call->attrs)->data, (size_t)y->numel * lab_dtype_size(y->dtype));
    return LAB_OK;
}

const lab_op lab__op_constant = {
    .name = "constant",
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = creation_shape,
    .forward = constant_forward,
};

lab_tensor *lab_constant(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, const void *data)
{
    creation c;
    if (!describe(g, "constant", &c, dtype, rank, shape))
        return NULL;
    bool empty = false;
    for (int i = 0; i < rank; i++)
        empty |= shape[i] == 0;
    if (!data && !empty)
        return lab__refuse(g, "constant", LAB_ERR_ARGUMENT, "data is NULL, shape %s", lab__shape_text(rank, shape));
    c.data = data;
    return lab__apply0(g, &lab__op_constant, &c, sizeof c);
}

/* ---- full -------------------------------------------------------------------------------------------------------- */

static lab_status full_forward(lab_op_call *call)
{
    double value = ((const creation *)call->attrs)->start;
    lab_tensor *y = call->out[0], scalar;
    union {
        float f32;
        double f64;
        int64_t i64;
        uint8_t truth;
    } element;
    if (y->dtype == LAB_F32)
        element.f32 = (float)value;
    else if (y->dtype == LAB_F64)
        element.f64 = value;
    else if (y->dtype == LAB_I64)
        element.i64 = (int64_t)value;
    else
        element.truth = value != 0;
    lab__tensor_describe(&scalar, y->dtype, 0, NULL, NULL);
    scalar.data = (char *)&element;
    lab__map_unary(KERNEL_COPY, y, &scalar, 0);
    return LAB_OK;
}

const lab_op lab__op_full = {
    .name = "full",
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = creation_shape,
    .forward = full_forward,
};

lab_tensor *lab_full(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, double value)
{
    creation c;
    if (!describe(g, "full", &c, dtype, rank, shape))
        return NULL;
    if (dtype == LAB_I64 && !lab__is_whole(value))
        return lab__refuse(g, "full", LAB_ERR_RANGE, "the value %g is no i64", value);
    c.start = value;
    return lab__apply0(g, &lab__op_full, &c, sizeof c);
}

/* ---- arange ------------------------------------------------------------------------------------------------------ */

typedef struct progression {
    const creation *c;
    const lab_tensor *y;
} progression;

/* Where in y a row begins. */
static int64_t place_in(const lab_tensor *y, const char *row)
{
    return (row - y->data) / (int64_t)lab_dtype_size(y->dtype);
}

static void arange_body(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const progression *p = context;
    int64_t first = place_in(p->y, data[0]);
    (void)strides;
    for (int64_t i = 0; i < n; i++) {
        double value = p->c->start + (double)(first + i) * p->c->step;
        if (p->y->dtype == LAB_F32)
            ((float *)data[0])[i] = (float)value;
        else if (p->y->dtype == LAB_F64)
            ((double *)data[0])[i] = value;
        else
            ((int64_t *)data[0])[i] = (int64_t)value;
    }
}

static lab_status arange_forward(lab_op_call *call)
{
    progression p = {call->attrs, call->out[0]};
    loop l;
    lab__loop_make(&l, 1, (const lab_tensor *[]){call->out[0]});
    lab__loop_run(&l, 10, arange_body, &p);
    return LAB_OK;
}

const lab_op lab__op_arange = {
    .name = "arange",
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = creation_shape,
    .forward = arange_forward,
};

lab_tensor *lab_arange(lab_graph *g, lab_dtype dtype, double start, double stop, double step)
{
    if (dtype != LAB_F32 && dtype != LAB_F64 && dtype != LAB_I64)
        return lab__refuse(g, "arange", LAB_ERR_DTYPE, "dtype is %s (%d), must be f32, f64 or i64",
                           lab_dtype_name(dtype), (int)dtype);
    if (!isfinite(start) || !isfinite(stop) || !isfinite(step) || step == 0)
        return lab__refuse(g, "arange", LAB_ERR_RANGE, "start %g, stop %g, step %g: all must be finite, step not 0",
                           start, stop, step);
    double count = ceil((stop - start) / step);
    if (!(count > 0))
        count = 0;
    if (!(count < 0x1p60))
        return lab__refuse(g, "arange", LAB_ERR_RANGE, "start %g, stop %g, step %g make more elements than fit", start,
                           stop, step);
    if (dtype == LAB_I64 &&
        (!lab__is_whole(start) || !lab__is_whole(step) || (count > 0 && !lab__is_whole(start + (count - 1) * step))))
        return lab__refuse(g, "arange", LAB_ERR_RANGE, "start %g and step %g must be whole numbers that fit i64", start,
                           step);
    creation c;
    if (!describe(g, "arange", &c, dtype, 1, &(int64_t){(int64_t)count}))
        return NULL;
    c.start = start;
    c.step = step;
    return lab__apply0(g, &lab__op_arange, &c, sizeof c);
}

/* ---- randn, rand: element i is a function of (seed, i) ----------------------------------------------------------- */

static void randn_body(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const progression *p = context;
    (void)strides;
    lab__kernel_normal(lab__kernel_type(p->y->dtype), n, data[0], p->c->seed, 0, place_in(p->y, data[0]));
}

static void rand_body(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const progression *p = context;
    (void)strides;
    lab__kernel_uniform(lab__kernel_type(p->y->dtype), n, data[0], p->c->seed, 0, place_in(p->y, data[0]));
}

static lab_status randn_forward(lab_op_call *call)
{
    progression p = {call->attrs, call->out[0]};
    loop l;
    lab__loop_make(&l, 1, (const lab_tensor *[]){call->out[0]});
    lab__loop_run(&l, 200, randn_body, &p);
    return LAB_OK;
}

static lab_status rand_forward(lab_op_call *call)
{
    progression p = {call->attrs, call->out[0]};
    loop l;
    lab__loop_make(&l, 1, (const lab_tensor *[]){call->out[0]});
    lab__loop_run(&l, 50, rand_body, &p);
    return LAB_OK;
}

const lab_op lab__op_randn = {
    .name = "randn",
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = creation_shape,
    .forward = randn_forward,
};

const lab_op lab__op_rand = {
    .name = "rand",
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = creation_shape,
    .forward = rand_forward,
};

lab_tensor *lab_randn(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, uint64_t seed)
{
    creation c;
    if (!describe_float(g, "randn", &c, dtype, rank, shape))
        return NULL;
    c.seed = seed;
    return lab__apply0(g, &lab__op_randn, &c, sizeof c);
}

lab_tensor *lab_rand(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, uint64_t seed)
{
    creation c;
    if (!describe_float(g, "rand", &c, dtype, rank, shape))
        return NULL;
    c.seed = seed;
    return lab__apply0(g, &lab__op_rand, &c, sizeof c);
}
