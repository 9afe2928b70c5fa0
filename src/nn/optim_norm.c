/* optim_norm.c - the norm of all gradients, and clipping by it.
 *
 * A norm is kept as size * sqrt(squares), as LAPACK's lassq has it: size is 1 unless squares would overflow or vanish,
 * and infinite where a number is not finite.
 */
#include "optim_impl.h"

enum { MOST_PIECES = 256 };

typedef struct measuring {
    const lab_tensor *gradient;
    int64_t length; /* of a piece */
    lab_grad_norm of[MOST_PIECES];
} measuring;

static double at(const lab_tensor *t, int64_t i)
{
    return t->dtype == LAB_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

/* Where the plain sum of squares is not a good number: relative to the largest. */
static lab_grad_norm relative_norm(const lab_tensor *t, int64_t from, int64_t to)
{
    double largest = 0, squares = 0;
    for (int64_t i = from; i < to; i++) {
        double size = fabs(at(t, i));
        if (isnan(size))
            return (lab_grad_norm){.size = INFINITY, .squares = size};
        largest = size > largest ? size : largest;
    }
    if (largest == 0 || isinf(largest))
        return (lab_grad_norm){.size = largest, .squares = 1};
    for (int64_t i = from; i < to; i++)
        squares += at(t, i) / largest * (at(t, i) / largest);
    return (lab_grad_norm){.size = largest, .squares = squares};
}

static void measure_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    measuring *x = context;
    const lab_tensor *t = x->gradient;
    const int64_t from = piece * x->length, left = t->numel - from, n = left < x->length ? left : x->length;
    const char *data = t->data + (size_t)from * lab_dtype_size(t->dtype);
    double squares = lab__kernels()->row[t->dtype == LAB_F64 ? KERNEL_F64 : KERNEL_F32].dot(n, data, 1, data, 1);
    if (isfinite(squares) && squares > 1e-200)
        x->of[piece] = (lab_grad_norm){.size = 1, .squares = squares};
    else
        x->of[piece] = relative_norm(t, from, from + n);
}

/* Both relative to the larger size. */
static void join(lab_grad_norm *total, const lab_grad_norm *more)
{
    if (total->size == more->size) {
        total->squares += more->squares;
    } else if (total->size > more->size) {
        double ratio = more->size / total->size;
        total->squares += ratio * ratio * more->squares;
    } else {
        double ratio = total->size / more->size;
        total->squares = more->squares + ratio * ratio * total->squares;
        total->size = more->size;
    }
}

static void add(lab_grad_norm *total, const lab_tensor *gradient)
{
    measuring x = {.gradient = gradient, .length = OPTIM_PIECE};
    while ((gradient->numel - 1) / x.length >= MOST_PIECES)
        x.length *= 2;
    const int64_t pieces = gradient->numel ? (gradient->numel - 1) / x.length + 1 : 0;
    lab__parallel_run(pieces, measure_piece, &x);
    for (int64_t i = 0; i < pieces; i++)
        join(total, &x.of[i]);
}

lab_status lab_grad_norm_add(const char *name, lab_tensor **parameter, void *ctx)
{
    lab_status status = lab__check_visit(name, parameter, ctx);
    const lab_tensor *gradient = status == LAB_OK ? lab_tensor_grad(*parameter) : NULL;
    if (gradient)
        add(ctx, gradient);
    return status;
}

double lab_grad_norm_value(const lab_grad_norm *norm)
{
    return norm && norm->size != 0 ? norm->size * sqrt(norm->squares) : 0;
}

double lab_clip_factor(double norm, double max_norm)
{
    if (!isfinite(norm) || !(max_norm >= 0))
        return NAN;
    return norm > max_norm ? max_norm / norm : 1;
}

static lab_status check_clip(int64_t n, lab_tensor *const *parameters, double max_norm)
{
    if (n < 0 || (n > 0 && !parameters))
        return lab__fail(LAB_ERR_ARGUMENT, "lab_clip_grad_norm: %s", n < 0 ? "n is negative" : "parameters is NULL");
    for (int64_t i = 0; i < n; i++)
        if (!parameters[i])
            return lab__fail(LAB_ERR_ARGUMENT, "lab_clip_grad_norm: parameters[%lld] is NULL", (long long)i);
    if (!(max_norm >= 0))
        return lab__fail(LAB_ERR_RANGE, "lab_clip_grad_norm: max_norm is %g, must be at least 0", max_norm);
    return LAB_OK;
}

lab_status lab_clip_grad_norm(int64_t n, lab_tensor *const *parameters, double max_norm, double *norm)
{
    if (norm)
        *norm = 0;
    lab_status status = check_clip(n, parameters, max_norm);
    if (status != LAB_OK)
        return status;
    lab_grad_norm total = {0};
    int64_t bad = -1;
    for (int64_t i = 0; i < n; i++) {
        const lab_tensor *gradient = lab_tensor_grad(parameters[i]);
        if (gradient)
            add(&total, gradient);
        if (bad < 0 && !isfinite(lab_grad_norm_value(&total)))
            bad = i;
    }
    const double value = lab_grad_norm_value(&total);
    double factor = lab_clip_factor(value, max_norm);
    if (norm)
        *norm = value;
    if (bad >= 0)
        return lab__fail(LAB_ERR_RANGE, "lab_clip_grad_norm: the norm is %g, from the gradient of parameters[%lld] on",
                         value, (long long)bad);
    for (int64_t i = 0; i < n && status == LAB_OK; i++) {
        lab_tensor *parameter = parameters[i];
        status = lab_scale_grads(NULL, &parameter, &factor);
    }
    return status;
}
