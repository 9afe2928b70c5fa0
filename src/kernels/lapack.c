/* lapack.c - QR, singular values, tridiagonal eigenvalues, by LAPACKE's _work forms.
 *
 * LAPACK's matrices are column-major, and LAPACKE's row-major forms allocate transposed copies. So none is asked for:
 * QR copies a transposed into the workspace, and the SVD reads row-major `a` as what it is in column-major, a^T, whose
 * left singular vectors are the right ones of `a`:  a = u s vt  <=>  a^T = vt^T s u^T.
 */
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <lapacke.h>

#include "gemm.h"
#include "lapack.h"

enum { ALIGN = 64, BLOCK = 64 /* columns that geqrf and orgqr work on at once, at most */ };

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A part of the workspace after another: the sizes are added up with saturation, and with memory each gets its place.
 */
typedef struct layout {
    char *base; /* NULL: only counting */
    size_t used;
} layout;

static void *take(layout *l, size_t size, int64_t count_a, int64_t count_b)
{
    size_t bytes = size;
    bool over = __builtin_mul_overflow(bytes, (size_t)count_a, &bytes) ||
                __builtin_mul_overflow(bytes, (size_t)count_b, &bytes) ||
                __builtin_add_overflow(bytes, (size_t)(ALIGN - 1), &bytes);
    void *place = l->base ? l->base + l->used : NULL;
    if (over || __builtin_add_overflow(l->used, bytes & ~(size_t)(ALIGN - 1), &l->used))
        l->used = SIZE_MAX;
    return place;
}

static size_t size_of(kernel_type type)
{
    return type == KERNEL_F32 ? sizeof(float) : sizeof(double);
}

/* to[j][i] = from[i][j], both contiguous. */
static void transpose(kernel_type type, int64_t rows, int64_t cols, const void *from, void *to)
{
    enum { TILE = 16 };
    for (int64_t i0 = 0; i0 < rows; i0 += TILE)
        for (int64_t j = 0; j < cols; j++)
            for (int64_t i = i0; i < smaller(i0 + TILE, rows); i++)
                if (type == KERNEL_F32)
                    ((float *)to)[j * rows + i] = ((const float *)from)[i * cols + j];
                else
                    ((double *)to)[j * rows + i] = ((const double *)from)[i * cols + j];
}

/* ---- QR ---------------------------------------------------------------------------------------------------------- */

typedef struct qr_places {
    void *a, *tau, *work;
    int64_t work_count;
} qr_places;

static qr_places place_qr(layout *l, kernel_type type, int64_t m, int64_t n)
{
    qr_places p = {.work_count = larger(larger(m, n), 1)};
    if (__builtin_mul_overflow(p.work_count, BLOCK, &p.work_count) || p.work_count > INT_MAX)
        p.work_count = larger(larger(m, n), 1);
    p.a = take(l, size_of(type), m, n);
    p.tau = take(l, size_of(type), smaller(m, n), 1);
    p.work = take(l, size_of(type), p.work_count, 1);
    return p;
}

size_t lab__qr_workspace(kernel_type type, int64_t m, int64_t n)
{
    layout l = {0};
    place_qr(&l, type, m, n);
    return l.used;
}

/* r = the upper triangle of the factored matrix. */
static void take_r(kernel_type type, int64_t m, int64_t n, const void *factored, void *r)
{
    for (int64_t i = 0; i < smaller(m, n); i++)
        for (int64_t j = 0; j < n; j++)
            if (type == KERNEL_F32)
                ((float *)r)[i * n + j] = j < i ? 0.0f : ((const float *)factored)[j * m + i];
            else
                ((double *)r)[i * n + j] = j < i ? 0.0 : ((const double *)factored)[j * m + i];
}

static void negate(kernel_type type, int64_t n, void *x)
{
    for (int64_t i = 0; i < n; i++)
        if (type == KERNEL_F32)
            ((float *)x)[i] = -((float *)x)[i];
        else
            ((double *)x)[i] = -((double *)x)[i];
}

/* Rows of r with a negative diagonal change sign, and so do the columns of q, which are contiguous here. */
static void choose_signs(kernel_type type, int64_t m, int64_t n, void *q, void *r)
{
    size_t size = size_of(type);
    for (int64_t i = 0; i < smaller(m, n); i++) {
        char *row = (char *)r + (size_t)(i * n) * size, *diagonal = row + (size_t)i * size;
        if (type == KERNEL_F32 ? signbit(*(float *)diagonal) : signbit(*(double *)diagonal)) {
            negate(type, n - i, diagonal);
            negate(type, m, (char *)q + (size_t)(i * m) * size);
        }
    }
}

static int factor(kernel_type type, int m, int n, const qr_places *p)
{
    int count = (int)p->work_count;
    return type == KERNEL_F32 ? LAPACKE_sgeqrf_work(LAPACK_COL_MAJOR, m, n, p->a, m, p->tau, p->work, count)
                              : LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, m, n, p->a, m, p->tau, p->work, count);
}

static int expand_q(kernel_type type, int m, int rank, const qr_places *p)
{
    int count = (int)p->work_count;
    return type == KERNEL_F32 ? LAPACKE_sorgqr_work(LAPACK_COL_MAJOR, m, rank, rank, p->a, m, p->tau, p->work, count)
                              : LAPACKE_dorgqr_work(LAPACK_COL_MAJOR, m, rank, rank, p->a, m, p->tau, p->work, count);
}

int lab__qr(kernel_type type, int64_t m, int64_t n, const void *a, void *q, void *r, void *workspace)
{
    int64_t rank = smaller(m, n);
    if (m > INT_MAX || n > INT_MAX)
        return -1;
    if (rank == 0)
        return 0;
    layout l = {.base = workspace};
    qr_places p = place_qr(&l, type, m, n);
    transpose(type, m, n, a, p.a);
    lab__blas_guard_enter();
    lab__blas_piece_begin();
    int info = factor(type, (int)m, (int)n, &p);
    if (info == 0) {
        take_r(type, m, n, p.a, r);
        info = expand_q(type, (int)m, (int)rank, &p);
    }
    lab__blas_piece_end();
    lab__blas_guard_leave();
    if (info != 0)
        return info;
    choose_signs(type, m, n, p.a, r);
    transpose(type, rank, m, p.a, q);
    return 0;
}

/* ---- SVD --------------------------------------------------------------------------------------------------------- */

typedef struct svd_places {
    void *a, *work, *integers;
    int64_t work_count;
} svd_places;

/* LAPACK counts its workspace in an int and does not notice when that overflows: 4 r^2 + 7 r numbers at least. */
static bool svd_fits(int64_t m, int64_t n)
{
    enum { LARGEST = 23000 };
    return m <= INT_MAX / BLOCK / 2 && n <= INT_MAX / BLOCK / 2 && smaller(m, n) <= LARGEST;
}

/* How gesdd reads a: column-major, n rows, m columns. */
static int call_svd(kernel_type type, int64_t m, int64_t n, const svd_places *p, void *s, void *u, void *vt, int count)
{
    int rows = (int)n, cols = (int)m, rank = (int)smaller(m, n);
    char job = u && vt ? 'S' : 'N';
    return type == KERNEL_F32 ? LAPACKE_sgesdd_work(LAPACK_COL_MAJOR, job, rows, cols, p->a, rows, s, vt, rows, u, rank,
                                                    p->work, count, p->integers)
                              : LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, job, rows, cols, p->a, rows, s, vt, rows, u, rank,
                                                    p->work, count, p->integers);
}

static int64_t svd_work_count(kernel_type type, int64_t m, int64_t n, bool vectors)
{
    union {
        float f32;
        double f64;
    } answer = {.f64 = 0.0}, unread = {.f64 = 0.0};
    int integer;
    svd_places query = {.a = &unread, .work = &answer, .integers = &integer};
    void *vector = vectors ? &unread : NULL;
    int info = call_svd(type, m, n, &query, &unread, vector, vector, -1);
    double count = info == 0 ? (type == KERNEL_F32 ? (double)answer.f32 : answer.f64) : 0.0;
    /* In single precision the answer may have been rounded down. */
    int64_t r = smaller(m, n), least = larger(4 * r * r + 7 * r, 3 * r + larger(larger(m, n), 7 * r));
    return smaller(larger((int64_t)(count * 1.000001) + 1, least), INT_MAX);
}

static svd_places place_svd(layout *l, kernel_type type, int64_t m, int64_t n, bool vectors)
{
    svd_places p = {.work_count = svd_work_count(type, m, n, vectors)};
    p.a = take(l, size_of(type), m, n);
    p.work = take(l, size_of(type), p.work_count, 1);
    p.integers = take(l, sizeof(lapack_int), 8, smaller(m, n));
    return p;
}

size_t lab__svd_workspace(kernel_type type, int64_t m, int64_t n, bool vectors)
{
    if (!svd_fits(m, n) || smaller(m, n) == 0)
        return 0;
    layout l = {0};
    place_svd(&l, type, m, n, vectors);
    return l.used;
}

/* x - x is 0 for every finite number and NaN for all others. */
static bool all_finite(kernel_type type, int64_t count, const void *x)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        double value = type == KERNEL_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
        sum += value - value;
    }
    return sum == 0.0;
}

int lab__svd(kernel_type type, int64_t m, int64_t n, const void *a, void *s, void *u, void *vt, void *workspace)
{
    int64_t rank = smaller(m, n);
    if (!svd_fits(m, n))
        return -1;
    if (rank == 0)
        return 0;
    if (!all_finite(type, m * n, a)) /* LAPACK might not come back */
        return 1;
    layout l = {.base = workspace};
    svd_places p = place_svd(&l, type, m, n, u && vt);
    memcpy(p.a, a, (size_t)(m * n) * size_of(type));
    lab__blas_guard_enter();
    lab__blas_piece_begin();
    int info = call_svd(type, m, n, &p, s, u, vt, (int)p.work_count);
    lab__blas_piece_end();
    lab__blas_guard_leave();
    return info;
}

/* ---- Tridiagonal matrices ---------------------------------------------------------------------------------------- */

int lab__tridiagonal(int64_t n, double *diagonal, double *below, double *vectors, double *workspace)
{
    if (n > INT_MAX)
        return -1;
    if (!all_finite(KERNEL_F64, n, diagonal) || !all_finite(KERNEL_F64, n - 1, below))
        return 1;
    lab__blas_guard_enter();
    lab__blas_piece_begin();
    int info = LAPACKE_dstev_work(LAPACK_COL_MAJOR, 'V', (int)n, diagonal, below, vectors, (int)n, workspace);
    lab__blas_piece_end();
    lab__blas_guard_leave();
    return info;
}
