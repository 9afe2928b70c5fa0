/* kernel_check.c - what the kernel tests share. */
#include "kernel_check.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

const char *const check_unary_names[KERNEL_UNARY_COUNT] = {
    [KERNEL_COPY] = "copy",
    [KERNEL_NEG] = "neg",
    [KERNEL_ADD_SCALAR] = "add_scalar",
    [KERNEL_MUL_SCALAR] = "mul_scalar",
    [KERNEL_POW_SCALAR] = "pow_scalar",
    [KERNEL_EXP] = "exp",
    [KERNEL_LOG] = "log",
    [KERNEL_SQRT] = "sqrt",
    [KERNEL_RSQRT] = "rsqrt",
    [KERNEL_TANH] = "tanh",
    [KERNEL_SIGMOID] = "sigmoid",
    [KERNEL_ERF] = "erf",
    [KERNEL_RELU] = "relu",
    [KERNEL_GELU_ERF] = "gelu_erf",
    [KERNEL_GELU_TANH] = "gelu_tanh",
    [KERNEL_SILU] = "silu",
    [KERNEL_ABS] = "abs",
    [KERNEL_SIN] = "sin",
    [KERNEL_COS] = "cos",
};

const char *const check_binary_names[KERNEL_BINARY_COUNT] = {
    [KERNEL_ADD] = "add", [KERNEL_SUB] = "sub",         [KERNEL_MUL] = "mul",
    [KERNEL_DIV] = "div", [KERNEL_MAXIMUM] = "maximum", [KERNEL_MINIMUM] = "minimum",
};

const char *const check_compare_names[KERNEL_COMPARE_COUNT] = {
    [KERNEL_EQUAL] = "equal",
    [KERNEL_LESS] = "less",
    [KERNEL_LESS_EQUAL] = "less_equal",
};

void check_levels(void (*fn)(const kernel_table *table))
{
    bool end;
    for (int i = 0;; i++) {
        const kernel_table *table = lab__kernels_level(i, &end);
        if (end)
            return;
        if (table)
            fn(table);
        else
            print_message("SKIPPED: level %d of this build, which this processor lacks\n", i);
    }
}

void check_levels_and_types(void (*fn)(const kernel_table *table, kernel_type type))
{
    bool end;
    for (int i = 0;; i++) {
        const kernel_table *table = lab__kernels_level(i, &end);
        if (end)
            return;
        if (!table)
            print_message("SKIPPED: level %d of this build, which this processor lacks\n", i);
        for (int type = 0; table && type < KERNEL_TYPES; type++)
            fn(table, (kernel_type)type);
    }
}

size_t check_size(kernel_type type)
{
    return type == KERNEL_F32 ? sizeof(float) : sizeof(double);
}

int check_lanes(const kernel_table *table, kernel_type type)
{
    return table->vector_bits / 8 / (int)check_size(type);
}

long double check_get(kernel_type type, const void *row, int64_t i)
{
    return type == KERNEL_F32 ? (long double)((const float *)row)[i] : (long double)((const double *)row)[i];
}

void check_put(kernel_type type, void *row, int64_t i, long double value)
{
    if (type == KERNEL_F32)
        ((float *)row)[i] = (float)value;
    else
        ((double *)row)[i] = (double)value;
}

double check_ulps(kernel_type type, long double got, long double expected)
{
    const int digits = type == KERNEL_F32 ? FLT_MANT_DIG : DBL_MANT_DIG;
    const int lowest = type == KERNEL_F32 ? FLT_MIN_EXP : DBL_MIN_EXP;
    /* The number that would follow the largest one: what overflows stands for it. */
    const long double beyond = ldexpl(1, type == KERNEL_F32 ? FLT_MAX_EXP : DBL_MAX_EXP);
    int exponent = lowest;
    if (isnan(got) || isnan(expected))
        return isnan(got) && isnan(expected) ? 0 : INFINITY;
    if (isinf(expected) && got != expected)
        return INFINITY;
    if (fabsl(got) > beyond)
        got = copysignl(beyond, got);
    if (fabsl(expected) > beyond)
        expected = copysignl(beyond, expected);
    if (fabsl(expected) >= ldexpl(1, lowest - 1))
        frexpl(expected, &exponent);
    return (double)(fabsl(got - expected) / ldexpl(1, exponent - digits));
}

enum { MOST_LEAD = 8 };

check_row check_row_take(kernel_type type, int64_t n, int64_t stride, uint64_t *stream)
{
    int64_t lead = guarded_below(stream, MOST_LEAD), elements = lead + (n == 0 ? 0 : stride * (n - 1) + 1);
    check_row r = {type, n, stride, NULL, guarded_take((size_t)elements * check_size(type), stream)};
    r.at = r.memory.data + (size_t)lead * check_size(type);
    return r;
}

long double check_row_get(const check_row *r, int64_t i)
{
    return check_get(r->type, r->at, i * r->stride);
}

void check_row_put(check_row *r, int64_t i, long double value)
{
    check_put(r->type, r->at, i * r->stride, value);
}

void check_row_remember(check_row *r)
{
    guarded_remember(&r->memory);
}

void check_row_untouched(const check_row *r, bool inside_too, const char *what)
{
    const unsigned long long seed = guarded_seed();
    size_t size = check_size(r->type), lead = (size_t)(r->at - r->memory.data);
    if (!guarded_unchanged(&r->memory, inside_too))
        fail_msg("seed %llu: %s: wrote beside the row, or into an operand", seed, what);
    if (memcmp(r->memory.data, guarded_remembered(&r->memory), lead) != 0)
        fail_msg("seed %llu: %s: wrote before the row", seed, what);
    for (int64_t i = 0; i + 1 < r->n && r->stride > 1; i++) {
        size_t gap = lead + (size_t)(i * r->stride + 1) * size, length = (size_t)(r->stride - 1) * size;
        if (memcmp(r->memory.data + gap, guarded_remembered(&r->memory) + gap, length) != 0)
            fail_msg("seed %llu: %s: wrote between elements %lld and %lld", seed, what, (long long)i, (long long)i + 1);
    }
}

void check_row_free(check_row *r)
{
    guarded_free(&r->memory);
}

long double check_any_number(kernel_type type, uint64_t *stream)
{
    const int range = type == KERNEL_F32 ? 40 : 300;
    double unit = guarded_uniform(stream);
    switch (guarded_below(stream, 48)) {
    case 0:
        return unit < 0 ? -0.0L : 0.0L;
    case 1:
        return unit < 0 ? -INFINITY : INFINITY;
    case 2:
        return NAN;
    case 3:
        return unit * (type == KERNEL_F32 ? 0x1p-128L : 0x1p-1024L);
    default:
        return ldexpl(unit, (int)guarded_below(stream, guarded_below(stream, 4) == 0 ? range : 6) - 2);
    }
}

const char *check_text(const kernel_table *table, kernel_type type, const char *op, int64_t n, int64_t y_stride,
                       int64_t x_stride)
{
    static char text[160];
    snprintf(text, sizeof text, "%s %s %s, n %lld, strides %lld and %lld", table->level,
             type == KERNEL_F32 ? "f32" : "f64", op, (long long)n, (long long)y_stride, (long long)x_stride);
    return text;
}
