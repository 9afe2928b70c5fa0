/* lanczos.c - the ends of a symmetric operator's spectrum.
 *
 *     A V = V T + beta v e^T:   V has orthonormal columns, T is tridiagonal, v is the next column.
 *
 * An eigenvalue t of T with vector s gives A (V s) = t (V s) + beta s_last v, and |beta s_last| is its residual.
 */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "../kernels/kernels.h"
#include "../kernels/lapack.h"
#include "llmlab/spectral.h"
#include "memory.h"
#include "random.h"
#include "tensor_impl.h"

typedef struct lanczos {
    int64_t n, most, steps; /* columns of V at most, and so far */
    lab_operator_fn apply;
    void *ctx;
    uint64_t seed, stream;
    int64_t top, asked;
    double tolerance;
    double *basis;              /* V: column j at j * n; one more than `most` */
    double *diagonal, *below;   /* T */
    double *values, *copy;      /* eigenvalues of T; what its solver destroys */
    double *turned, *workspace; /* eigenvectors of T: number i at i * steps */
    double scale;               /* the largest number in T */
    size_t bytes;
    void *memory;
} lanczos;

/* ---- Vectors ----------------------------------------------------------------------------------------------------- */

static double dot(int64_t n, const double *x, const double *y)
{
    return lab__kernels()->row[KERNEL_F64].dot(n, x, 1, y, 1);
}

static void subtract(int64_t n, double *x, double factor, const double *y)
{
    for (int64_t i = 0; i < n; i++)
        x[i] -= factor * y[i];
}

static void multiply(int64_t n, double *x, double factor)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

static double *column(const lanczos *l, int64_t j)
{
    return l->basis + j * l->n;
}

/* x without its part in the first `columns` columns. Returns what it had of the last. */
static double orthogonalize(const lanczos *l, int64_t columns, double *x)
{
    double last = 0;
    for (int64_t j = 0; j < columns; j++) {
        double share = dot(l->n, column(l, j), x);
        subtract(l->n, x, share, column(l, j));
        last = share;
    }
    return last;
}

/* A random column number `at`, orthogonal to those before it. */
static void begin(lanczos *l, int64_t at)
{
    lab_tensor x;
    double length = 0;
    lab__tensor_describe(&x, LAB_F64, 1, &l->n, NULL);
    x.data = (char *)column(l, at);
    for (int attempt = 0; attempt < 8 && length < 1e-3; attempt++) {
        lab__tensor_fill_normal(&x, 1, l->seed, l->stream++);
        multiply(l->n, column(l, at), 1 / sqrt(dot(l->n, column(l, at), column(l, at))));
        for (int pass = 0; pass < 2; pass++)
            orthogonalize(l, at, column(l, at));
        length = sqrt(dot(l->n, column(l, at), column(l, at)));
    }
    multiply(l->n, column(l, at), 1 / length);
    orthogonalize(l, at, column(l, at));
    multiply(l->n, column(l, at), 1 / sqrt(dot(l->n, column(l, at), column(l, at))));
}

/* ---- One step ---------------------------------------------------------------------------------------------------- */

/* One column and one row of T more. */
static lab_status extend(lanczos *l)
{
    const int64_t j = l->steps;
    double *next = column(l, j + 1);
    lab_status status = l->apply(l->n, column(l, j), next, l->ctx);
    if (status != LAB_OK)
        return status;
    if (!isfinite(dot(l->n, next, next)))
        return lab__fail(LAB_ERR_RANGE, "lab_lanczos: product %lld is not finite, or too large", (long long)j);
    const double alpha = orthogonalize(l, j + 1, next);
    orthogonalize(l, j + 1, next);
    double beta = sqrt(dot(l->n, next, next));
    l->scale = fmax(l->scale, fabs(alpha));
    /* Nothing is left: what A makes of these columns lies among them. Another start sees the rest. */
    bool exhausted = beta <= 10 * DBL_EPSILON * l->scale * sqrt((double)l->n);
    l->diagonal[j] = alpha;
    l->below[j] = exhausted ? 0 : beta;
    l->scale = fmax(l->scale, l->below[j]);
    l->steps = j + 1;
    if (!exhausted)
        multiply(l->n, next, 1 / beta);
    else if (l->steps < l->most)
        begin(l, l->steps);
    return LAB_OK;
}

/* Which eigenvalue of T, of `steps` ascending ones, is answer number i. */
static int64_t place_of(const lanczos *l, int64_t i)
{
    return i < l->top ? l->steps - 1 - i : i - l->top;
}

/* Rounding leaves more than the formula says once that is tiny. */
static double residual(const lanczos *l, int64_t i)
{
    double said = fabs(l->below[l->steps - 1] * l->turned[place_of(l, i) * l->steps + l->steps - 1]);
    return fmax(said, DBL_EPSILON * l->scale);
}

/* Solves T; whether all that is asked for is good enough. */
static lab_status judge(lanczos *l, bool *done)
{
    const int64_t m = l->steps;
    memcpy(l->values, l->diagonal, (size_t)m * sizeof *l->values);
    memcpy(l->copy, l->below, (size_t)m * sizeof *l->copy);
    if (lab__tridiagonal(m, l->values, l->copy, l->turned, l->workspace) != 0)
        return lab__fail(LAB_ERR_RANGE, "lab_lanczos: LAPACK's iteration did not converge");
    const double largest = fmax(fabs(l->values[0]), fabs(l->values[m - 1]));
    *done = m >= l->asked;
    for (int64_t i = 0; i < l->asked && *done; i++)
        *done = residual(l, i) <= l->tolerance * largest;
    return LAB_OK;
}

/* Steps until it is done. T is solved now and then only: that costs the cube of its size. */
static lab_status run(lanczos *l, bool *done)
{
    lab_status status = LAB_OK;
    begin(l, 0);
    *done = false;
    for (int64_t look = l->asked; status == LAB_OK && !*done && l->steps < l->most;) {
        status = extend(l);
        if (status == LAB_OK && (l->steps >= look || l->steps == l->most)) {
            status = judge(l, done);
            look = l->steps + 1 + l->steps / 8;
        }
    }
    return status;
}

/* ---- The call ---------------------------------------------------------------------------------------------------- */

static lab_status check(lanczos *l, const lab_lanczos_opts *opts)
{
    for (int i = 0; i < 8; i++)
        if (opts->reserved[i])
            return lab__fail(LAB_ERR_ARGUMENT, "lab_lanczos: the reserved words are not zero");
    const long long n = l->n, top = opts->top, bottom = opts->bottom, steps = opts->steps;
    if (n < 1 || top < 0 || bottom < 0 || top > n || bottom > n || top + bottom > n)
        return lab__fail(LAB_ERR_RANGE, "lab_lanczos: %lld largest and %lld smallest eigenvalues of %lld", top, bottom,
                         n);
    if (steps < 0 || (steps > 0 && steps < top + bottom) || !(opts->tolerance >= 0))
        return lab__fail(LAB_ERR_RANGE, "lab_lanczos: %lld steps, tolerance %g", steps, opts->tolerance);
    l->top = top + bottom == 0 ? 1 : top;
    l->asked = l->top + bottom;
    l->most = steps ? steps : l->asked > 50 ? 2 * l->asked : 100;
    l->most = l->most > n ? n : l->most;
    l->tolerance = opts->tolerance > 0 ? opts->tolerance : 1e-10;
    l->seed = opts->seed;
    if (l->most > INT_MAX)
        return lab__fail(LAB_ERR_RANGE, "lab_lanczos: %lld steps, which LAPACK cannot count", (long long)l->most);
    return LAB_OK;
}

static lab_status take_memory(lanczos *l)
{
    const size_t m = (size_t)l->most, n = (size_t)l->n;
    size_t basis, square, all;
    bool fits = lab__multiply(m + 1, n, &basis) && lab__multiply(m, m, &square) &&
                lab__add_sizes(basis, square, &all) && lab__add_sizes(all, 6 * m, &all) &&
                lab__multiply(all, sizeof(double), &l->bytes);
    l->memory = fits ? lab__allocate(l->bytes) : NULL;
    if (!l->memory)
        return lab__fail(LAB_ERR_MEMORY, "lab_lanczos: no memory for %lld vectors of %lld numbers",
                         (long long)l->most + 1, (long long)l->n);
    l->basis = l->memory;
    l->turned = l->basis + basis;
    l->diagonal = l->turned + square;
    l->below = l->diagonal + m;
    l->values = l->below + m;
    l->copy = l->values + m;
    l->workspace = l->copy + m; /* 2 m */
    return LAB_OK;
}

/* Eigenvector of T -> eigenvector of A. */
static void turn_back(const lanczos *l, int64_t i, double *vector)
{
    const double *weights = l->turned + place_of(l, i) * l->steps;
    memset(vector, 0, (size_t)l->n * sizeof *vector);
    for (int64_t j = 0; j < l->steps; j++)
        subtract(l->n, vector, -weights[j], column(l, j));
}

static void hand_out(const lanczos *l, const lab_lanczos_opts *opts, double *values, double *residuals, bool done,
                     lab_lanczos_report *report)
{
    double worst = 0;
    for (int64_t i = 0; i < l->asked; i++) {
        values[i] = l->values[place_of(l, i)];
        worst = fmax(worst, residual(l, i));
        if (residuals)
            residuals[i] = residual(l, i);
        if (opts->vectors)
            turn_back(l, i, opts->vectors + i * l->n);
    }
    if (report)
        *report = (lab_lanczos_report){.converged = done, .steps = l->steps, .worst = worst};
}

lab_status lab_lanczos(int64_t n, lab_operator_fn apply, void *ctx, const lab_lanczos_opts *opts, double *values,
                       double *residuals, lab_lanczos_report *report)
{
    static const lab_lanczos_opts defaults;
    if (report)
        *report = (lab_lanczos_report){0};
    if (!apply || !values)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_lanczos: %s is NULL", apply ? "values" : "apply");
    lanczos l = {.n = n, .apply = apply, .ctx = ctx};
    opts = opts ? opts : &defaults;
    bool done;
    lab_status status = check(&l, opts);
    if (status == LAB_OK)
        status = take_memory(&l);
    if (status != LAB_OK)
        return status;
    status = run(&l, &done);
    if (status == LAB_OK)
        hand_out(&l, opts, values, residuals, done, report);
    lab__release(l.memory, l.bytes);
    return status;
}
