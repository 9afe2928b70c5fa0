/* hessian.c - products of a Hessian with vectors, by the derivative of a derivative, and the ends of its spectrum. */
#include <string.h>

#include "engine.h"
#include "llmlab/ops.h"
#include "llmlab/spectral.h"
#include "memory.h"

/* sum over i of (ds[i] . vs[i]) */
static lab_tensor *slope_along(lab_graph *g, int n, lab_tensor **ds, lab_tensor **vs)
{
    lab_tensor *sum = NULL;
    for (int i = 0; i < n; i++) {
        lab_tensor *share = lab_sum_all(g, lab_mul(g, ds[i], vs[i]));
        sum = sum ? lab_add(g, sum, share) : share;
    }
    return sum;
}

static lab_status check_vectors(lab_graph *g, lab_tensor *y, int n, lab_tensor **xs, lab_tensor **vs)
{
    const char *name = "hessian_product";
    for (int i = 0; i < n; i++)
        if (!xs[i] || !vs[i])
            lab__refuse(g, name, LAB_ERR_ARGUMENT, "%s[%d] is NULL", xs[i] ? "vs" : "xs", i);
        else if (!lab__same_shape(xs[i], vs[i]))
            lab__refuse(g, name, LAB_ERR_SHAPE, "vs[%d] is %s, xs[%d] %s", i,
                        lab__shape_text(vs[i]->rank, vs[i]->shape), i, lab__shape_text(xs[i]->rank, xs[i]->shape));
    if (lab__healthy(g) && y->numel != 1)
        lab__refuse(g, name, LAB_ERR_SHAPE, "y is %s, must have one element", lab__shape_text(y->rank, y->shape));
    return lab_graph_status(g);
}

lab_status lab_hessian_product(lab_graph *g, lab_tensor *y, int n, lab_tensor **xs, lab_tensor **vs,
                               lab_tensor **products)
{
    for (int i = 0; products && i < n; i++)
        products[i] = NULL;
    if (!lab__healthy(g))
        return lab_graph_status(g);
    if (!y || !xs || !vs || !products || n < 1) {
        lab__refuse(g, "hessian_product", LAB_ERR_ARGUMENT, "%s",
                    n < 1 ? "n is below 1" : "y, xs, vs or products is NULL");
        return lab_graph_status(g);
    }
    if (check_vectors(g, y, n, xs, vs) != LAB_OK)
        return lab_graph_status(g);
    /* The first derivatives wait where the products will be. */
    lab_status status = lab_grad(g, y, NULL, n, xs, products, &(lab_grad_opts){.create_graph = true});
    lab_tensor *slope = status == LAB_OK ? slope_along(g, n, products, vs) : NULL;
    for (int i = 0; i < n; i++)
        products[i] = NULL;
    return slope ? lab_grad(g, slope, NULL, n, xs, products, NULL) : lab_graph_status(g);
}

/* ---- The spectrum ------------------------------------------------------------------------------------------------ */

typedef struct hessian {
    lab_graph *g;
    lab_fn loss;
    void *ctx;
    int n;
    lab_tensor **xs, **vs, **products; /* the last two: room for n each */
} hessian;

static void write_part(lab_tensor *t, const double *x)
{
    for (int64_t i = 0; i < t->numel; i++)
        if (t->dtype == LAB_F64)
            ((double *)t->data)[i] = x[i];
        else
            ((float *)t->data)[i] = (float)x[i];
}

/* Row-major, whatever the strides. */
static void read_part(const lab_tensor *t, double *y)
{
    lab_tensor to;
    lab__tensor_describe(&to, t->dtype, t->rank, t->shape, NULL);
    to.data = (char *)y;
    lab__tensor_copy(&to, t);
    if (t->dtype == LAB_F32)
        for (int64_t i = t->numel - 1; i >= 0; i--) { /* from the end: a double takes the place of two floats */
            float value;
            memcpy(&value, (char *)y + (size_t)i * sizeof value, sizeof value);
            y[i] = value;
        }
}

static lab_status multiply(int64_t n, const double *x, double *y, void *ctx)
{
    (void)n;
    hessian *h = ctx;
    lab_graph_reset(h->g);
    lab_tensor *loss = h->loss(h->g, h->xs, h->ctx);
    for (int i = 0; i < h->n; i++) {
        const lab_tensor *like = h->xs[i];
        h->vs[i] = lab_full(h->g, like->dtype, like->rank, like->shape, 0);
        if (h->vs[i])
            write_part(h->vs[i], x);
        x += like->numel;
    }
    if (lab_hessian_product(h->g, loss, h->n, h->xs, h->vs, h->products) != LAB_OK)
        return lab__fail(lab_graph_status(h->g), "lab_hessian_eigenvalues: %s", lab_graph_message(h->g));
    for (int i = 0; i < h->n; i++) {
        read_part(h->products[i], y);
        y += h->xs[i]->numel;
    }
    return LAB_OK;
}

static lab_status check_leaves(const hessian *h, int64_t *elements)
{
    const char *name = "lab_hessian_eigenvalues";
    if (!h->loss || !h->xs || h->n < 1)
        return lab__fail(LAB_ERR_ARGUMENT, "%s: %s", name, h->n < 1 ? "n is below 1" : "loss or xs is NULL");
    for (int i = 0; i < h->n; i++) {
        const lab_tensor *x = h->xs[i];
        if (!x)
            return lab__fail(LAB_ERR_ARGUMENT, "%s: xs[%d] is NULL", name, i);
        if (!lab__is_float(x->dtype))
            return lab__fail(LAB_ERR_DTYPE, "%s: xs[%d] is %s, must be f32 or f64", name, i, lab__tensor_text(x));
        if (__builtin_add_overflow(*elements, x->numel, elements))
            return lab__fail(LAB_ERR_RANGE, "%s: more elements than can be counted", name);
    }
    return LAB_OK;
}

lab_status lab_hessian_eigenvalues(lab_fn loss, void *ctx, int n, lab_tensor **xs, const lab_lanczos_opts *opts,
                                   double *values, double *residuals, lab_lanczos_report *report)
{
    hessian h = {.loss = loss, .ctx = ctx, .n = n, .xs = xs};
    int64_t elements = 0;
    if (report)
        *report = (lab_lanczos_report){0};
    lab_status status = check_leaves(&h, &elements);
    if (status != LAB_OK)
        return status;
    const size_t bytes = 2 * (size_t)n * sizeof *h.vs;
    h.vs = lab__allocate(bytes);
    h.g = h.vs ? lab_graph_create(NULL) : NULL;
    if (h.g) {
        h.products = h.vs + n;
        status = lab_lanczos(elements, multiply, &h, opts, values, residuals, report);
    } else {
        status = lab__fail(LAB_ERR_MEMORY, "lab_hessian_eigenvalues: no memory");
    }
    lab_graph_destroy(&h.g);
    if (h.vs)
        lab__release(h.vs, bytes);
    return status;
}
