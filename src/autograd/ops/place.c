/* place.c - elementwise derivatives straight into the places that the engine hands over.
 *
 * A derivative is made in short rows. Where it is written, the kernel writes it; where it is added, it is made in a
 * buffer on the stack and added from there; where the operand was stretched, it is made in scratch memory and summed.
 */
#include "op_impl.h"

const double lab__zero_row[PLACE_CHUNK_BYTES / sizeof(double)];

typedef struct place_rows {
    const loop *l;
    place_fn produce;
    const void *context;
    kernel_type type;
    bool add;
} place_rows;

static void place_body(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const place_rows *p = context;
    const loop *l = p->l;
    const int64_t chunk = PLACE_CHUNK_BYTES / l->element[0];
    kernel_binary_fn add = lab__kernels()->binary[p->type][KERNEL_ADD];
    _Alignas(64) char buffer[PLACE_CHUNK_BYTES];
    for (int64_t i = 0; i < n; i += chunk) {
        int64_t part = n - i < chunk ? n - i : chunk;
        char *at[LOOP_MAX_OPERANDS] = {0};
        for (int k = 0; k < l->operands; k++)
            at[k] = data[k] + i * strides[k] * l->element[k];
        if (p->add) {
            p->produce(p->context, p->type, part, buffer, 1, at + 1, strides + 1);
            add(part, at[0], strides[0], at[0], strides[0], buffer, 1);
        } else
            p->produce(p->context, p->type, part, at[0], strides[0], at + 1, strides + 1);
    }
}

void lab__place_compute(const lab_place *place, int inputs, const lab_tensor *const *xs, int cost, place_fn produce,
                        const void *context, void *scratch)
{
    const lab_tensor *dy = xs[0];
    bool stretched = !lab__same_shape(place->tensor, dy);
    lab_tensor whole, *y = place->tensor;
    if (stretched) {
        lab__tensor_describe(&whole, dy->dtype, dy->rank, dy->shape, NULL);
        whole.data = scratch;
        y = &whole;
    }
    const lab_tensor *operands[LOOP_MAX_OPERANDS] = {y};
    for (int k = 0; k < inputs; k++)
        operands[k + 1] = xs[k];
    loop l;
    lab__loop_make(&l, inputs + 1, operands);
    place_rows rows = {&l, produce, context, lab__kernel_type(dy->dtype), place->add && !stretched};
    lab__loop_run(&l, cost, place_body, &rows);
    if (stretched)
        lab__place_sum(place, &whole, 1);
}

size_t lab__place_scratch(const lab_vjp_call *call)
{
    const lab_tensor *dy = call->grad_out[0];
    for (int i = 0; i < call->n_in; i++)
        if (call->wants[i] && !lab__same_shape(call->in[i], dy))
            return (size_t)dy->numel * lab_dtype_size(dy->dtype);
    return 0;
}

/* ---- Ready-made -------------------------------------------------------------------------------------------------- */

typedef struct unary_call {
    kernel_unary op;
    double parameter;
} unary_call;

static void produce_unary(const void *context, kernel_type type, int64_t n, void *y, int64_t y_stride, char *const *x,
                          const int64_t *x_strides)
{
    const unary_call *call = context;
    lab__kernels()->unary[type][call->op](n, y, y_stride, x[0], x_strides[0], call->parameter);
}

void lab__place_unary(const lab_place *place, kernel_unary op, const lab_tensor *dy, double parameter, void *scratch)
{
    unary_call call = {op, parameter};
    if (!lab__same_shape(place->tensor, dy))
        lab__place_compute(place, 1, &dy, 3, produce_unary, &call, scratch);
    else if (!place->add)
        lab__map_unary(op, place->tensor, dy, parameter);
    else if (op == KERNEL_COPY || op == KERNEL_NEG)
        lab__map_binary(op == KERNEL_COPY ? KERNEL_ADD : KERNEL_SUB, place->tensor, place->tensor, dy);
    else
        lab__place_compute(place, 1, &dy, 3, produce_unary, &call, scratch);
}

static void produce_binary(const void *context, kernel_type type, int64_t n, void *y, int64_t y_stride, char *const *x,
                           const int64_t *x_strides)
{
    lab__kernels()->binary[type][*(const kernel_binary *)context](n, y, y_stride, x[0], x_strides[0], x[1],
                                                                  x_strides[1]);
}

void lab__place_binary(const lab_place *place, kernel_binary op, const lab_tensor *dy, const lab_tensor *b,
                       void *scratch)
{
    if (!place->add && lab__same_shape(place->tensor, dy))
        lab__map_binary(op, place->tensor, dy, b);
    else
        lab__place_compute(place, 2, (const lab_tensor *[]){dy, b}, 4, produce_binary, &op, scratch);
}
