/* reference.c - the kernels' definitions, in long double. */
#include "reference.h"

#include <math.h>

static long double sigmoid(long double x)
{
    return 1 / (1 + expl(-x));
}

/* x Phi(x); 0 where x is -inf. */
static long double gelu_erf(long double x)
{
    return x == -INFINITY ? -0.0L : x / 2 * erfcl(-x / sqrtl(2));
}

static long double gelu_tanh(long double x)
{
    long double u = sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x);
    return x == -INFINITY ? -0.0L : x * sigmoid(2 * u);
}

long double lab__reference_unary(kernel_unary op, long double x, long double parameter)
{
    switch (op) {
    case KERNEL_COPY:
        return x;
    case KERNEL_NEG:
        return -x;
    case KERNEL_ADD_SCALAR:
        return x + parameter;
    case KERNEL_MUL_SCALAR:
        return x * parameter;
    case KERNEL_POW_SCALAR:
        return powl(x, parameter);
    case KERNEL_EXP:
        return expl(x);
    case KERNEL_LOG:
        return logl(x);
    case KERNEL_SQRT:
        return sqrtl(x);
    case KERNEL_RSQRT:
        return 1 / sqrtl(x);
    case KERNEL_TANH:
        return tanhl(x);
    case KERNEL_SIGMOID:
        return sigmoid(x);
    case KERNEL_ERF:
        return erfl(x);
    case KERNEL_RELU:
        return x <= 0 ? 0 : x;
    case KERNEL_GELU_ERF:
        return gelu_erf(x);
    case KERNEL_GELU_TANH:
        return gelu_tanh(x);
    case KERNEL_SILU:
        return x == -INFINITY ? -0.0L : x * sigmoid(x);
    case KERNEL_ABS:
        return fabsl(x);
    case KERNEL_SIN:
        return sinl(x);
    case KERNEL_COS:
        return cosl(x);
    case KERNEL_UNARY_COUNT:
        break;
    }
    return NAN;
}

long double lab__reference_binary(kernel_binary op, long double a, long double b)
{
    bool nan = isnan(a) || isnan(b);
    switch (op) {
    case KERNEL_ADD:
        return a + b;
    case KERNEL_SUB:
        return a - b;
    case KERNEL_MUL:
        return a * b;
    case KERNEL_DIV:
        return a / b;
    case KERNEL_MAXIMUM:
        return nan ? NAN : a > b ? a : b;
    case KERNEL_MINIMUM:
        return nan ? NAN : a < b ? a : b;
    case KERNEL_BINARY_COUNT:
        break;
    }
    return NAN;
}

bool lab__reference_compare(kernel_compare op, long double a, long double b)
{
    switch (op) {
    case KERNEL_EQUAL:
        return a == b;
    case KERNEL_LESS:
        return a < b;
    case KERNEL_LESS_EQUAL:
        return a <= b;
    case KERNEL_COMPARE_COUNT:
        break;
    }
    return false;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

long double lab__reference_sum(int64_t n, const long double *x)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

long double lab__reference_dot(int64_t n, const long double *x, const long double *y)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

long double lab__reference_maximum(int64_t n, const long double *x)
{
    long double largest = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i]))
            return NAN;
        if (x[i] > largest)
            largest = x[i];
    }
    return largest;
}

/* sum(exp(x - max)), and the maximum: NaN where a NaN or +inf is in the row, 0 where nothing is larger than -inf. */
static long double exp_sum(int64_t n, const long double *x, long double *largest)
{
    long double sum = 0;
    *largest = lab__reference_maximum(n, x);
    if (*largest == -INFINITY)
        return 0;
    for (int64_t i = 0; i < n; i++)
        sum += expl(x[i] - *largest);
    return sum;
}

long double lab__reference_logsumexp(int64_t n, const long double *x)
{
    long double largest, sum = exp_sum(n, x, &largest);
    return largest + logl(sum);
}

void lab__reference_softmax(int64_t n, long double *y, const long double *x)
{
    long double largest, sum = exp_sum(n, x, &largest);
    for (int64_t i = 0; i < n; i++)
        y[i] = sum == 0 ? 0 : expl(x[i] - largest) / sum;
    for (int64_t i = 0; i < n && isnan(sum); i++)
        y[i] = NAN;
}

void lab__reference_log_softmax(int64_t n, long double *y, const long double *x)
{
    long double largest, sum = exp_sum(n, x, &largest);
    for (int64_t i = 0; i < n; i++)
        y[i] = sum == 0 ? -INFINITY : x[i] - largest - logl(sum);
}

void lab__reference_softmax_backward(int64_t n, long double *dx, const long double *y, const long double *dy, bool add)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += y[i] == 0 ? 0 : dy[i] * y[i];
    for (int64_t i = 0; i < n; i++) {
        long double d = y[i] == 0 ? 0 : y[i] * (dy[i] - sum);
        dx[i] = add ? dx[i] + d : d;
    }
}

void lab__reference_log_softmax_backward(int64_t n, long double *dx, const long double *y, const long double *dy,
                                         bool add)
{
    long double sum = lab__reference_sum(n, dy);
    for (int64_t i = 0; i < n; i++) {
        long double d = dy[i] - expl(y[i]) * sum;
        dx[i] = add ? dx[i] + d : d;
    }
}
