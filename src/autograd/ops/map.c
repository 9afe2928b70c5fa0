/* map.c - y = f(x), f(a, b), c ? a : b over whole tensors: the row kernels carried over any strides.
 *
 * Tiny tensors go straight to the kernel. Results far larger than the cache are made in a buffer that stays in it and
 * written past it.
 */
#include "op_impl.h"

/* TINY is elements; STREAMED and BUFFER are bytes. */
enum { TINY = 4096, STREAMED = 16 << 20, BUFFER = 4096 };

/* Nanoseconds per element x 10, roughly, as lab__loop_run wants them. */
static const int unary_cost[KERNEL_UNARY_COUNT] = {
    [KERNEL_COPY] = 2,         [KERNEL_NEG] = 2,       [KERNEL_ADD_SCALAR] = 2, [KERNEL_MUL_SCALAR] = 2,
    [KERNEL_POW_SCALAR] = 200, [KERNEL_EXP] = 8,       [KERNEL_LOG] = 12,       [KERNEL_SQRT] = 5,
    [KERNEL_RSQRT] = 8,        [KERNEL_TANH] = 15,     [KERNEL_SIGMOID] = 12,   [KERNEL_ERF] = 20,
    [KERNEL_RELU] = 2,         [KERNEL_GELU_ERF] = 25, [KERNEL_GELU_TANH] = 20, [KERNEL_SILU] = 12,
    [KERNEL_ABS] = 2,          [KERNEL_SIN] = 20,      [KERNEL_COS] = 20,
};

static bool alike(const lab_tensor *y, const lab_tensor *x)
{
    if (x->rank != y->rank)
        return false;
    for (int i = 0; i < y->rank; i++)
        if (x->shape[i] != y->shape[i] || (x->strides[i] != y->strides[i] && x->shape[i] != 1))
            return false;
    return true;
}

/* Whether one call with strides of 1 does it all. */
static bool is_tiny(const lab_tensor *y, const lab_tensor *a, const lab_tensor *b)
{
    return y->numel <= TINY && alike(y, a) && (a == b || alike(y, b)) && lab__is_contiguous(y);
}

static bool is_streamed(const lab_tensor *y, const lab_tensor *a, const lab_tensor *b)
{
    return y->numel >= STREAMED / (int64_t)lab_dtype_size(y->dtype) && y->data != a->data && y->data != b->data;
}

/* ---- One operand ------------------------------------------------------------------------------------------------- */

typedef struct unary_map {
    kernel_unary_fn fn;
    double parameter;
    int size; /* of an element */
    bool stream;
} unary_map;

static void unary_body(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const unary_map *m = context;
    if (!m->stream || strides[0] != 1) {
        m->fn(n, data[0], strides[0], data[1], strides[1], m->parameter);
        return;
    }
    _Alignas(64) char buffer[BUFFER];
    int64_t chunk = BUFFER / m->size;
    for (int64_t i = 0; i < n; i += chunk) {
        int64_t part = n - i < chunk ? n - i : chunk;
        m->fn(part, buffer, 1, data[1] + i * strides[1] * m->size, strides[1], m->parameter);
        lab__kernel_stream((size_t)(part * m->size), data[0] + i * m->size, buffer);
    }
    lab__kernel_stream_end();
}

static void copy_bytes(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double unused)
{
    (void)unused;
    lab__kernel_copy(n, 1, y, y_stride, x, x_stride);
}

static void copy_words(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride, double unused)
{
    (void)unused;
    lab__kernel_copy(n, 8, y, y_stride, x, x_stride);
}

void lab__map_unary(kernel_unary op, lab_tensor *y, const lab_tensor *x, double parameter)
{
    kernel_unary_fn fn;
    if (lab__is_float(y->dtype))
        fn = lab__kernels()->unary[lab__kernel_type(y->dtype)][op];
    else
        fn = y->dtype == LAB_BOOL ? copy_bytes : copy_words;
    if (is_tiny(y, x, x)) {
        if (y->numel > 0)
            fn(y->numel, y->data, 1, x->data, 1, parameter);
        return;
    }
    loop l;
    lab__loop_make(&l, 2, (const lab_tensor *[]){y, x});
    unary_map m = {fn, parameter, l.element[0], is_streamed(y, x, x)};
    lab__loop_run(&l, unary_cost[op], unary_body, &m);
}

/* ---- Two operands ------------------------------------------------------------------------------------------------ */

typedef struct binary_map {
    kernel_binary_fn fn;
    int size;
    bool stream;
} binary_map;

static void binary_body(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const binary_map *m = context;
    if (!m->stream || strides[0] != 1) {
        m->fn(n, data[0], strides[0], data[1], strides[1], data[2], strides[2]);
        return;
    }
    _Alignas(64) char buffer[BUFFER];
    int64_t chunk = BUFFER / m->size;
    for (int64_t i = 0; i < n; i += chunk) {
        int64_t part = n - i < chunk ? n - i : chunk, at = i * m->size;
        m->fn(part, buffer, 1, data[1] + at * strides[1], strides[1], data[2] + at * strides[2], strides[2]);
        lab__kernel_stream((size_t)(part * m->size), data[0] + at, buffer);
    }
    lab__kernel_stream_end();
}

void lab__map_binary(kernel_binary op, lab_tensor *y, const lab_tensor *a, const lab_tensor *b)
{
    kernel_binary_fn fn =
        y->dtype == LAB_I64 ? lab__kernel_binary_i64(op) : lab__kernels()->binary[lab__kernel_type(y->dtype)][op];
    if (is_tiny(y, a, b)) {
        if (y->numel > 0)
            fn(y->numel, y->data, 1, a->data, 1, b->data, 1);
        return;
    }
    loop l;
    lab__loop_make(&l, 3, (const lab_tensor *[]){y, a, b});
    binary_map m = {fn, l.element[0], is_streamed(y, a, b)};
    lab__loop_run(&l, op == KERNEL_DIV ? 5 : 3, binary_body, &m);
}

/* ---- Selection --------------------------------------------------------------------------------------------------- */

static void where_body(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    lab__kernel_where(n, *(const int *)context, data[0], strides[0], (const uint8_t *)data[1], strides[1], data[2],
                      strides[2], data[3], strides[3]);
}

void lab__map_where(lab_tensor *y, const lab_tensor *condition, const lab_tensor *a, const lab_tensor *b)
{
    loop l;
    lab__loop_make(&l, 4, (const lab_tensor *[]){y, condition, a, b});
    lab__loop_run(&l, 4, where_body, &l.element[0]);
}
