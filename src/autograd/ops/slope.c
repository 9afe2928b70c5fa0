/* slope.c - the steps of a slope, on tensors or on rows. */
#include <assert.h>

#include "slope.h"

/* Each step of a slope fills a row of its own; no slope here takes more. */
enum { SLOPE_ROWS = 20 };

struct slope {
    lab_graph *graph; /* NULL: on rows */
    kernel_type type;
    int64_t n;
    char (*rows)[PLACE_CHUNK_BYTES];
    int used;
};

static slope_value from_tensor(lab_tensor *tensor)
{
    return (slope_value){.tensor = tensor};
}

static void *next_row(slope *s)
{
    assert(s->used < SLOPE_ROWS);
    return s->rows[s->used++];
}

static slope_value unary_step(slope *s, kernel_unary op, slope_value a, double parameter)
{
    void *row = next_row(s);
    lab__kernels()->unary[s->type][op](s->n, row, 1, a.row, 1, parameter);
    return (slope_value){.row = row};
}

/* b_stride 0: b is one number. */
static slope_value binary_step(slope *s, kernel_binary op, slope_value a, const void *b, int64_t b_stride)
{
    void *row = next_row(s);
    lab__kernels()->binary[s->type][op](s->n, row, 1, a.row, 1, b, b_stride);
    return (slope_value){.row = row};
}

slope_value lab__slope_mul(slope *s, slope_value a, slope_value b)
{
    if (s->graph)
        return from_tensor(lab_mul(s->graph, a.tensor, b.tensor));
    return binary_step(s, KERNEL_MUL, a, b.row, 1);
}

slope_value lab__slope_add(slope *s, slope_value a, slope_value b)
{
    if (s->graph)
        return from_tensor(lab_add(s->graph, a.tensor, b.tensor));
    return binary_step(s, KERNEL_ADD, a, b.row, 1);
}

slope_value lab__slope_scale(slope *s, slope_value a, double factor)
{
    if (s->graph)
        return from_tensor(lab_mul_scalar(s->graph, a.tensor, factor));
    return unary_step(s, KERNEL_MUL_SCALAR, a, factor);
}

slope_value lab__slope_shift(slope *s, slope_value a, double term)
{
    if (s->graph)
        return from_tensor(lab_add_scalar(s->graph, a.tensor, term));
    return unary_step(s, KERNEL_ADD_SCALAR, a, term);
}

slope_value lab__slope_apply(slope *s, kernel_unary function, slope_value a)
{
    if (!s->graph)
        return unary_step(s, function, a, 0);
    switch (function) {
    case KERNEL_EXP:
        return from_tensor(lab_exp(s->graph, a.tensor));
    case KERNEL_TANH:
        return from_tensor(lab_tanh(s->graph, a.tensor));
    case KERNEL_SIGMOID:
        return from_tensor(lab_sigmoid(s->graph, a.tensor));
    case KERNEL_ERF:
        return from_tensor(lab_erf(s->graph, a.tensor));
    case KERNEL_SIN:
        return from_tensor(lab_sin(s->graph, a.tensor));
    default:
        return from_tensor(lab_cos(s->graph, a.tensor));
    }
}

slope_value lab__slope_clamp(slope *s, slope_value a, double bound)
{
    if (s->graph) {
        lab_dtype dtype = lab_tensor_dtype(a.tensor);
        lab_tensor *low = lab_full(s->graph, dtype, 0, NULL, -bound), *high = lab_full(s->graph, dtype, 0, NULL, bound);
        return from_tensor(lab_minimum(s->graph, lab_maximum(s->graph, a.tensor, low), high));
    }
    const double wide[] = {-bound, bound};
    const float narrow[] = {(float)-bound, (float)bound};
    const bool is_wide = s->type == KERNEL_F64;
    a = binary_step(s, KERNEL_MAXIMUM, a, is_wide ? (const void *)&wide[0] : &narrow[0], 0);
    return binary_step(s, KERNEL_MINIMUM, a, is_wide ? (const void *)&wide[1] : &narrow[1], 0);
}

lab_status lab__slope_vjp(lab_graph *g, lab_vjp_call *call, slope_fn fn, lab_tensor *v)
{
    slope s = {.graph = g};
    call->grad_in[0] = lab_mul(g, call->grad_out[0], fn(&s, from_tensor(v)).tensor);
    return lab_graph_status(g);
}

/* x is dy and v. */
static void produce_slope(const void *context, kernel_type type, int64_t n, void *y, int64_t y_stride, char *const *x,
                          const int64_t *x_strides)
{
    _Alignas(64) char rows[SLOPE_ROWS][PLACE_CHUNK_BYTES];
    slope s = {.type = type, .n = n, .rows = rows};
    const void *v = x[1];
    if (x_strides[1] != 1) {
        lab__kernels()->unary[type][KERNEL_COPY](n, rows[s.used], 1, v, x_strides[1], 0);
        v = rows[s.used++];
    }
    slope_value result = (*(const slope_fn *)context)(&s, (slope_value){.row = v});
    lab__kernels()->binary[type][KERNEL_MUL](n, y, y_stride, x[0], x_strides[0], result.row, 1);
}

lab_status lab__slope_backward(lab_vjp_call *call, slope_fn fn, const lab_tensor *v, int cost)
{
    lab__place_compute(&call->places[0], 2, (const lab_tensor *[]){call->grad_out[0], v}, cost, produce_slope, &fn,
                       NULL);
    return LAB_OK;
}
