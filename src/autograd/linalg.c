/* linalg.c - factorizations of matrices that users own: checks and memory around kernels/lapack.h. */
#include "llmlab/linalg.h"

#include <limits.h>
#include <math.h>

#include "../kernels/gemm.h"
#include "../kernels/lapack.h"
#include "memory.h"
#include "tensor_impl.h"

/* A matrix laid out row-major, and room beside it, in one piece of memory. */
typedef struct matrix_work {
    kernel_type type;
    int64_t m, n, rank; /* rank: min(m, n) */
    size_t element;
    size_t bytes, used;
    char *memory;
} matrix_work;

static lab_status check_matrix(const char *name, const lab_tensor *a, matrix_work *w)
{
    if (!lab__is_float(a->dtype))
        return lab__fail(LAB_ERR_DTYPE, "%s: a is %s, must be f32 or f64", name, lab__tensor_text(a));
    if (a->rank != 2)
        return lab__fail(LAB_ERR_SHAPE, "%s: a is %s, must be a matrix", name, lab__tensor_text(a));
    int64_t m = a->shape[0], n = a->shape[1];
    if (m > INT_MAX || n > INT_MAX)
        return lab__fail(LAB_ERR_RANGE, "%s: a is %s, whose sizes LAPACK cannot count", name, lab__tensor_text(a));
    *w = (matrix_work){.type = a->dtype == LAB_F64 ? KERNEL_F64 : KERNEL_F32,
                       .m = m,
                       .n = n,
                       .rank = m < n ? m : n,
                       .element = lab_dtype_size(a->dtype)};
    return LAB_OK;
}

/* ---- Memory: first everything is asked for, then taken ----------------------------------------------------------- */

/* Adds room for a piece; every piece begins at a multiple of 64 bytes. False on overflow. */
static bool ask(matrix_work *w, size_t bytes)
{
    return lab__add_sizes(bytes, 63, &bytes) && lab__add_sizes(w->bytes, bytes / 64 * 64, &w->bytes);
}

static bool ask_matrix(matrix_work *w, int64_t m, int64_t n)
{
    size_t bytes;
    return lab__multiply((size_t)m, (size_t)n, &bytes) && lab__multiply(bytes, w->element, &bytes) && ask(w, bytes);
}

static lab_status get(const char *name, matrix_work *w, bool fits)
{
    w->memory = fits ? lab__allocate(w->bytes) : NULL;
    return w->memory ? LAB_OK : lab__fail(LAB_ERR_MEMORY, "%s: no memory to work in", name);
}

static void *take(matrix_work *w, size_t bytes)
{
    char *piece = w->memory + w->used;
    w->used += (bytes + 63) / 64 * 64;
    return piece;
}

static void *take_matrix(matrix_work *w, int64_t m, int64_t n)
{
    return take(w, (size_t)m * (size_t)n * w->element);
}

/* The elements of a, or of its transpose, row-major. */
static const void *take_copy(matrix_work *w, const lab_tensor *a, bool transposed)
{
    int row = transposed ? 1 : 0;
    const int64_t shape[] = {a->shape[row], a->shape[1 - row]}, strides[] = {a->strides[row], a->strides[1 - row]};
    lab_tensor seen, copy;
    lab__tensor_describe(&seen, a->dtype, 2, shape, strides);
    seen.data = a->data;
    lab__tensor_describe(&copy, a->dtype, 2, shape, NULL);
    copy.data = take_matrix(w, shape[0], shape[1]);
    lab__tensor_copy(&copy, &seen);
    return copy.data;
}

static void give_back(matrix_work *w)
{
    if (w->memory)
        lab__release(w->memory, w->bytes);
    w->memory = NULL;
}

static lab_status judge(const char *name, int info)
{
    if (info == 0)
        return LAB_OK;
    return info < 0 ? lab__fail(LAB_ERR_RANGE, "%s: LAPACK cannot count these sizes", name)
                    : lab__fail(LAB_ERR_RANGE, "%s: LAPACK's iteration did not converge (info %d)", name, info);
}

/* Keeps the status; gives the results back if it is a failure. */
static lab_status keep_or_destroy(lab_status status, int n, lab_tensor **const *results)
{
    for (int i = 0; i < n && status != LAB_OK; i++)
        lab_tensor_destroy(results[i]);
    return status;
}

static lab_status create_matrix(lab_tensor **out, const lab_tensor *like, int64_t m, int64_t n)
{
    return lab_tensor_create(out, like->dtype, 2, (int64_t[]){m, n});
}

/* ---- QR ---------------------------------------------------------------------------------------------------------- */

static lab_status qr_into(const lab_tensor *a, matrix_work *w, lab_tensor *q, lab_tensor *r)
{
    if (a->numel == 0)
        return LAB_OK;
    size_t workspace = lab__qr_workspace(w->type, w->m, w->n);
    bool fits = ask_matrix(w, w->m, w->n) && ask(w, workspace);
    lab_status status = get("lab_qr", w, fits);
    if (status != LAB_OK)
        return status;
    const void *copy = take_copy(w, a, false);
    status = judge("lab_qr", lab__qr(w->type, w->m, w->n, copy, q->data, r->data, take(w, workspace)));
    give_back(w);
    return status;
}

lab_status lab_qr(const lab_tensor *a, lab_tensor **q, lab_tensor **r)
{
    if (q)
        *q = NULL;
    if (r)
        *r = NULL;
    if (!a || !q || !r)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_qr: %s is NULL", !a ? "a" : !q ? "q" : "r");
    matrix_work w;
    lab_status status = check_matrix("lab_qr", a, &w);
    if (status == LAB_OK)
        status = create_matrix(q, a, w.m, w.rank);
    if (status == LAB_OK)
        status = create_matrix(r, a, w.rank, w.n);
    if (status == LAB_OK)
        status = qr_into(a, &w, *q, *r);
    return keep_or_destroy(status, 2, (lab_tensor * *[]){q, r});
}

/* ---- Singular values --------------------------------------------------------------------------------------------- */

/* LAPACK may loop or answer nonsense where there is a NaN. */
static lab_status check_finite(const char *name, const matrix_work *w, const void *copy, bool transposed)
{
    int64_t columns = transposed ? w->m : w->n, count = w->m * w->n;
    for (int64_t i = 0; i < count; i++) {
        double value = w->type == KERNEL_F32 ? (double)((const float *)copy)[i] : ((const double *)copy)[i];
        long long row = i / columns, column = i % columns;
        if (!isfinite(value))
            return lab__fail(LAB_ERR_RANGE, "%s: element [%lld, %lld] is %f", name, transposed ? column : row,
                             transposed ? row : column, value);
    }
    return LAB_OK;
}

static lab_status svd_into(const lab_tensor *a, matrix_work *w, lab_tensor *u, lab_tensor *s, lab_tensor *vt)
{
    if (a->numel == 0)
        return LAB_OK;
    size_t workspace = lab__svd_workspace(w->type, w->m, w->n, u != NULL);
    bool fits = ask_matrix(w, w->m, w->n) && ask(w, workspace);
    lab_status status = get("lab_svd", w, fits);
    if (status != LAB_OK)
        return status;
    const void *copy = take_copy(w, a, false);
    status = check_finite("lab_svd", w, copy, false);
    if (status == LAB_OK)
        status = judge("lab_svd", lab__svd(w->type, w->m, w->n, copy, s->data, u ? u->data : NULL, vt ? vt->data : NULL,
                                           take(w, workspace)));
    give_back(w);
    return status;
}

lab_status lab_svd(const lab_tensor *a, lab_tensor **u, lab_tensor **s, lab_tensor **vt)
{
    lab_tensor **results[] = {u, s, vt};
    for (int i = 0; i < 3; i++)
        if (results[i])
            *results[i] = NULL;
    if (!a || !s)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_svd: %s is NULL", !a ? "a" : "s");
    if (!u != !vt)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_svd: u and vt are asked for together, %s is NULL", !u ? "u" : "vt");
    matrix_work w;
    lab_status status = check_matrix("lab_svd", a, &w);
    if (status == LAB_OK)
        status = lab_tensor_create(s, a->dtype, 1, &w.rank);
    if (status == LAB_OK && u)
        status = create_matrix(u, a, w.m, w.rank);
    if (status == LAB_OK && vt)
        status = create_matrix(vt, a, w.rank, w.n);
    if (status == LAB_OK)
        status = svd_into(a, &w, u ? *u : NULL, *s, vt ? *vt : NULL);
    return keep_or_destroy(status, 3, results);
}

/* ---- Spectral norm ----------------------------------------------------------------------------------------------- */

/* The largest singular value of a tall matrix [m, n], of its R alone if it is not square. */
static int largest_value(matrix_work *w, int64_t m, int64_t n, const void *a, size_t workspace, double *norm)
{
    void *q = m > n ? take_matrix(w, m, n) : NULL, *r = m > n ? take_matrix(w, n, n) : NULL;
    void *values = take_matrix(w, n, 1), *scratch = take(w, workspace);
    int info = m > n ? lab__qr(w->type, m, n, a, q, r, scratch) : 0;
    if (info == 0)
        info = lab__svd(w->type, n, n, m > n ? r : a, values, NULL, NULL, scratch);
    if (info == 0)
        *norm = w->type == KERNEL_F32 ? (double)*(float *)values : *(double *)values;
    return info;
}

lab_status lab_spectral_norm(const lab_tensor *a, double *norm)
{
    const char *name = "lab_spectral_norm";
    if (norm)
        *norm = 0;
    if (!a || !norm)
        return lab__fail(LAB_ERR_ARGUMENT, "%s: %s is NULL", name, !a ? "a" : "norm");
    matrix_work w;
    lab_status status = check_matrix(name, a, &w);
    if (status != LAB_OK || a->numel == 0)
        return status;
    int64_t m = w.m > w.n ? w.m : w.n, n = w.rank;
    size_t qr = m > n ? lab__qr_workspace(w.type, m, n) : 0, svd = lab__svd_workspace(w.type, n, n, false);
    size_t workspace = qr > svd ? qr : svd;
    bool fits = ask_matrix(&w, m, n) && ask_matrix(&w, n, 1) && ask(&w, workspace);
    if (m > n)
        fits = fits && ask_matrix(&w, m, n) && ask_matrix(&w, n, n);
    status = get(name, &w, fits);
    if (status != LAB_OK)
        return status;
    const void *copy = take_copy(&w, a, w.m < w.n);
    status = check_finite(name, &w, copy, w.m < w.n);
    if (status == LAB_OK)
        status = judge(name, largest_value(&w, m, n, copy, workspace, norm));
    give_back(&w);
    return status;
}

/* ---- Singular values of a product -------------------------------------------------------------------------------- */

/* c = r t^T, all of them row-major. */
static lab_status multiply_transposed(const lab_tensor *r, const lab_tensor *t, lab_tensor *c)
{
    const gemm_product product = {.type = r->dtype == LAB_F64 ? KERNEL_F64 : KERNEL_F32,
                                  .m = r->shape[0],
                                  .n = t->shape[0],
                                  .k = r->shape[1],
                                  .a = r->data,
                                  .a_row = r->shape[1],
                                  .a_col = 1,
                                  .b = t->data,
                                  .b_row = 1,
                                  .b_col = r->shape[1],
                                  .c = c->data,
                                  .c_row = t->shape[0],
                                  .c_col = 1};
    const size_t bytes = lab__gemm_workspace(1, &product);
    void *workspace = bytes ? lab__allocate(bytes) : NULL;
    if (bytes && !workspace)
        return lab__fail(LAB_ERR_MEMORY, "lab_product_singular_values: no memory to work in");
    lab__gemm_run(1, &product, workspace);
    if (workspace)
        lab__release(workspace, bytes);
    return LAB_OK;
}

static lab_status check_pair(const lab_tensor *a, const lab_tensor *b)
{
    const char *name = "lab_product_singular_values";
    matrix_work w;
    lab_status status = check_matrix(name, a, &w);
    if (status == LAB_OK && (b->dtype != a->dtype || b->rank != 2 || b->shape[1] != a->shape[1]))
        return lab__fail(b->dtype != a->dtype ? LAB_ERR_DTYPE : LAB_ERR_SHAPE,
                         "%s: b is %s, a %s; dtypes and numbers of columns must be equal", name, lab__tensor_text(b),
                         lab__tensor_text(a));
    return status;
}

lab_status lab_product_singular_values(const lab_tensor *a, const lab_tensor *b, lab_tensor **s)
{
    lab_tensor *q = NULL, *r = NULL, *p = NULL, *t = NULL, *c = NULL;
    if (s)
        *s = NULL;
    if (!a || !b || !s)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_product_singular_values: %s is NULL", !a ? "a" : !b ? "b" : "s");
    lab_status status = check_pair(a, b);
    if (status == LAB_OK)
        status = lab_qr(a, &q, &r);
    lab_tensor_destroy(&q);
    if (status == LAB_OK)
        status = lab_qr(b, &p, &t);
    lab_tensor_destroy(&p);
    if (status == LAB_OK)
        status = create_matrix(&c, a, r->shape[0], t->shape[0]);
    if (status == LAB_OK)
        status = multiply_transposed(r, t, c);
    if (status == LAB_OK)
        status = lab_svd(c, NULL, s, NULL);
    lab_tensor_destroy(&r);
    lab_tensor_destroy(&t);
    lab_tensor_destroy(&c);
    return status;
}
