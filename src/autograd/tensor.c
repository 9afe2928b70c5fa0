/* tensor.c - tensors that the user owns, and what can be asked of any tensor. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "ops/op_impl.h"

/* ---- Making leaves ---------------------------------------------------------------------------------------------- */

void lab__tensor_describe(lab_tensor *t, lab_dtype dtype, int rank, const int64_t *shape, const int64_t *strides)
{
    t->dtype = dtype;
    t->rank = rank;
    t->numel = 1;
    for (int i = rank - 1; i >= 0; i--) {
        t->shape[i] = shape[i];
        t->strides[i] = strides ? strides[i] : t->numel;
        t->numel *= shape[i];
    }
}

/* Checks what describes a tensor; *bytes is its row-major size. */
static lab_status check_description(const char *function, lab_dtype dtype, int rank, const int64_t *shape,
                                    int64_t *numel, size_t *bytes)
{
    if (lab_dtype_size(dtype) == 0)
        return lab__fail(LAB_ERR_DTYPE, "%s: %d is no dtype", function, (int)dtype);
    if (rank < 0 || rank > LAB_MAX_RANK)
        return lab__fail(LAB_ERR_RANGE, "%s: rank %d, must be 0 to %d", function, rank, LAB_MAX_RANK);
    if (rank > 0 && !shape)
        return lab__fail(LAB_ERR_ARGUMENT, "%s: shape is NULL", function);
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0)
            return lab__fail(LAB_ERR_RANGE, "%s: size %lld of axis %d in %s is negative", function, (long long)shape[i],
                             i, lab__shape_text(rank, shape));
    if (!lab__shape_bytes(dtype, rank, shape, numel, bytes))
        return lab__fail(LAB_ERR_RANGE, "%s: the size in bytes of %s %s overflows", function, lab_dtype_name(dtype),
                         lab__shape_text(rank, shape));
    return LAB_OK;
}

/* A header and a storage in one allocation. */
struct leaf {
    lab_tensor tensor;
    storage storage;
};

static lab_tensor *new_leaf(lab_dtype dtype, int rank, const int64_t *shape, const int64_t *strides, void *data,
                            size_t bytes)
{
    struct leaf *leaf = lab__allocate(sizeof *leaf);
    if (!leaf)
        return NULL;
    memset(leaf, 0, sizeof *leaf);
    lab__tensor_describe(&leaf->tensor, dtype, rank, shape, strides);
    leaf->storage.data = data;
    leaf->storage.bytes = bytes;
    atomic_init(&leaf->storage.version, 0);
    atomic_init(&leaf->storage.references, 1);
    atomic_init(&leaf->tensor.references, 1);
    leaf->tensor.storage = &leaf->storage;
    leaf->tensor.data = data;
    return &leaf->tensor;
}

static void release_own(void *data, void *context)
{
    lab__release(data, (size_t)(uintptr_t)context);
}

static lab_status create(const char *function, lab_tensor **out, lab_dtype dtype, int rank, const int64_t *shape)
{
    if (!out)
        return lab__fail(LAB_ERR_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    int64_t numel;
    size_t bytes;
    lab_status status = check_description(function, dtype, rank, shape, &numel, &bytes);
    if (status != LAB_OK)
        return status;
    void *data = lab__allocate(bytes);
    lab_tensor *t = data ? new_leaf(dtype, rank, shape, NULL, data, bytes) : NULL;
    if (!t) {
        lab__release(data, bytes);
        return lab__fail(LAB_ERR_MEMORY, "%s: no memory for %s %s", function, lab_dtype_name(dtype),
                         lab__shape_text(rank, shape));
    }
    t->storage->release = release_own;
    t->storage->context = (void *)(uintptr_t)bytes;
    *out = t;
    return LAB_OK;
}

lab_status lab_tensor_create(lab_tensor **out, lab_dtype dtype, int rank, const int64_t *shape)
{
    lab_status status = create("lab_tensor_create", out, dtype, rank, shape);
    if (status == LAB_OK)
        memset((*out)->data, 0, (*out)->storage->bytes);
    return status;
}

lab_status lab_tensor_from(lab_tensor **out, lab_dtype dtype, int rank, const int64_t *shape, const void *data)
{
    lab_status status = create("lab_tensor_from", out, dtype, rank, shape);
    if (status != LAB_OK || (*out)->storage->bytes == 0)
        return status;
    if (!data) {
        lab_tensor_destroy(out);
        return lab__fail(LAB_ERR_ARGUMENT, "lab_tensor_from: data is NULL");
    }
    memcpy((*out)->data, data, (*out)->storage->bytes);
    return LAB_OK;
}

/* Whether two elements may share a place: sorted by stride, each stride must step over all that smaller ones reach. */
static bool strides_overlap(int rank, const int64_t *shape, const int64_t *strides)
{
    int64_t reach = 0; /* of the axes handled so far */
    bool used[LAB_MAX_RANK] = {false};
    for (int done = 0; done < rank; done++) {
        int next = -1;
        for (int i = 0; i < rank; i++)
            if (!used[i] && (next < 0 || strides[i] < strides[next]))
                next = i;
        used[next] = true;
        if (shape[next] <= 1)
            continue;
        if (strides[next] <= reach)
            return true;
        reach += (shape[next] - 1) * strides[next];
    }
    return false;
}

/* The extent in bytes of a tensor that has elements. A stride that leads to no second element need not be countable:
 * it becomes 0 in `kept`, so that whoever multiplies by it does not overflow. */
static lab_status check_strides(int rank, const int64_t *shape, const int64_t *strides, size_t element, size_t *extent,
                                int64_t *kept)
{
    size_t last = 0;
    for (int i = 0; i < rank; i++) {
        size_t step;
        kept[i] = shape[i] > 1 || (size_t)strides[i] <= PTRDIFF_MAX / element ? strides[i] : 0;
        if (shape[i] > 1 &&
            (!lab__multiply((size_t)(shape[i] - 1), (size_t)strides[i], &step) || !lab__add_sizes(last, step, &last)))
            last = SIZE_MAX;
    }
    if (last >= PTRDIFF_MAX || !lab__multiply(last + 1, element, extent) || *extent > PTRDIFF_MAX)
        return lab__fail(LAB_ERR_RANGE, "lab_tensor_wrap: the extent of %s with strides %s overflows",
                         lab__shape_text(rank, shape), lab__shape_text(rank, strides));
    return LAB_OK;
}

lab_status lab_tensor_wrap(lab_tensor **out, lab_dtype dtype, int rank, const int64_t *shape, const int64_t *strides,
                           void *data, void (*release)(void *data, void *ctx), void *ctx)
{
    if (!out)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_tensor_wrap: out is NULL");
    *out = NULL;
    int64_t numel;
    size_t bytes, extent;
    lab_status status = check_description("lab_tensor_wrap", dtype, rank, shape, &numel, &bytes);
    if (status != LAB_OK)
        return status;
    extent = bytes;
    for (int i = 0; strides && i < rank; i++)
        if (strides[i] < 0)
            return lab__fail(LAB_ERR_RANGE, "lab_tensor_wrap: stride %lld of axis %d is negative",
                             (long long)strides[i], i);
    int64_t kept[LAB_MAX_RANK];
    if (numel > 0 && strides) {
        status = check_strides(rank, shape, strides, lab_dtype_size(dtype), &extent, kept);
        if (status != LAB_OK)
            return status;
        strides = kept;
    } else {
        strides = NULL; /* nothing lies anywhere, or row-major was asked for */
    }
    if (numel > 0 && !data)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_tensor_wrap: data is NULL");
    if ((uintptr_t)data % lab_dtype_size(dtype) != 0)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_tensor_wrap: data is not aligned to the %zu bytes of %s",
                         lab_dtype_size(dtype), lab_dtype_name(dtype));
    lab_tensor *t = new_leaf(dtype, rank, shape, strides, data, extent);
    if (!t)
        return lab__fail(LAB_ERR_MEMORY, "lab_tensor_wrap: no memory for the header");
    t->overlapping = strides && strides_overlap(rank, shape, strides);
    t->storage->release = release;
    t->storage->context = ctx;
    *out = t;
    return LAB_OK;
}

lab_status lab_tensor_clone(lab_tensor **out, const lab_tensor *t)
{
    if (out)
        *out = NULL;
    if (!t)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_tensor_clone: the tensor is NULL");
    lab_status status = create("lab_tensor_clone", out, t->dtype, t->rank, t->shape);
    if (status == LAB_OK)
        lab__tensor_copy(*out, t);
    return status;
}

/* ---- Who keeps what alive ---------------------------------------------------------------------------------------- */

void lab__tensor_retain(lab_tensor *t)
{
    atomic_fetch_add_explicit(&t->references, 1, memory_order_relaxed);
}

void lab__tensor_drop(lab_tensor *t)
{
    if (atomic_fetch_sub_explicit(&t->references, 1, memory_order_acq_rel) != 1)
        return;
    if (t->gradient)
        lab__tensor_drop(t->gradient);
    storage *s = t->storage;
    if (s->release)
        s->release(s->data, s->context);
    lab__release(t, sizeof(struct leaf));
}

void lab_tensor_destroy(lab_tensor **t)
{
    if (!t || !*t)
        return;
    if ((*t)->kind == TENSOR_LEAF)
        lab__tensor_drop(*t);
    *t = NULL;
}

lab_tensor *lab__leaf_gradient(lab_tensor *leaf)
{
    if (!leaf->gradient) {
        lab_tensor *gradient;
        if (lab_tensor_create(&gradient, leaf->dtype, leaf->rank, leaf->shape) != LAB_OK)
            return NULL;
        gradient->kind = TENSOR_GRADIENT;
        leaf->gradient = gradient;
    }
    return leaf->gradient;
}

lab_status lab_tensor_require_grad(lab_tensor *t, bool on)
{
    if (!t)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_tensor_require_grad: the tensor is NULL");
    if (t->kind != TENSOR_LEAF)
        return lab__fail(LAB_ERR_STATE, "lab_tensor_require_grad: %s is %s, only tensors you own can require it",
                         lab__tensor_text(t), t->kind == TENSOR_GRADIENT ? "a gradient" : "computed on a graph");
    if (!lab__is_float(t->dtype))
        return lab__fail(LAB_ERR_DTYPE, "lab_tensor_require_grad: %s has no derivative", lab_dtype_name(t->dtype));
    if (t->overlapping)
        return lab__fail(LAB_ERR_STATE, "lab_tensor_require_grad: elements of %s with strides %s share places",
                         lab__tensor_text(t), lab__shape_text(t->rank, t->strides));
    t->requires_grad = on;
    return LAB_OK;
}

lab_tensor *lab_tensor_grad(const lab_tensor *t)
{
    return t && t->gradient && t->gradient_present ? t->gradient : NULL;
}

void lab_tensor_clear_grad(lab_tensor *t)
{
    if (t)
        t->gradient_present = false;
}

/* ---- Elements in and out ------------------------------------------------------------------------------------------
 */

void lab_tensor_touch(lab_tensor *t)
{
    if (t)
        atomic_fetch_add_explicit(&t->storage->version, 1, memory_order_relaxed);
}

static lab_status check_transfer(const char *function, const lab_tensor *t, const void *buffer, size_t bytes)
{
    if (!t)
        return lab__fail(LAB_ERR_ARGUMENT, "%s: the tensor is NULL", function);
    size_t own = (size_t)t->numel * lab_dtype_size(t->dtype);
    if (bytes != own)
        return lab__fail(LAB_ERR_SHAPE, "%s: %zu bytes given, %s has %zu", function, bytes, lab__tensor_text(t), own);
    if (bytes > 0 && !buffer)
        return lab__fail(LAB_ERR_ARGUMENT, "%s: the buffer is NULL", function);
    return LAB_OK;
}

/* A header for row-major memory, good for a copy. */
static lab_tensor row_major(const lab_tensor *like, void *data)
{
    lab_tensor t = {.kind = TENSOR_TEMPORARY};
    lab__tensor_describe(&t, like->dtype, like->rank, like->shape, NULL);
    t.data = data;
    return t;
}

lab_status lab_tensor_read(const lab_tensor *t, void *buffer, size_t bytes)
{
    lab_status status = check_transfer("lab_tensor_read", t, buffer, bytes);
    if (status == LAB_OK && bytes > 0) {
        lab_tensor destination = row_major(t, buffer);
        lab__tensor_copy(&destination, t);
    }
    return status;
}

lab_status lab_tensor_write(lab_tensor *t, const void *buffer, size_t bytes)
{
    lab_status status = check_transfer("lab_tensor_write", t, buffer, bytes);
    if (status != LAB_OK)
        return status;
    if (t->overlapping)
        return lab__fail(LAB_ERR_STATE, "lab_tensor_write: elements of %s with strides %s share places",
                         lab__tensor_text(t), lab__shape_text(t->rank, t->strides));
    if (bytes > 0) {
        lab_tensor source = row_major(t, (void *)(uintptr_t)buffer);
        lab__tensor_copy(t, &source);
    }
    lab_tensor_touch(t);
    return LAB_OK;
}

struct copy_context {
    int size;
};

static void copy_row(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    struct copy_context *c = context;
    lab__kernel_copy(n, c->size, data[0], strides[0], data[1], strides[1]);
}

void lab__tensor_copy(lab_tensor *dst, const lab_tensor *src)
{
    size_t size = lab_dtype_size(src->dtype);
    if (src->numel == 0)
        return;
    if (lab__is_contiguous(dst) && lab__is_contiguous(src) && src->numel <= 64) {
        memcpy(dst->data, src->data, (size_t)src->numel * size);
        return;
    }
    loop l;
    lab__loop_make(&l, 2, (const lab_tensor *const[]){dst, src});
    lab__loop_run(&l, 2, copy_row, &(struct copy_context){(int)size});
}

void lab__tensor_accumulate(lab_tensor *dst, const lab_tensor *src)
{
    lab__map_binary(KERNEL_ADD, dst, dst, src);
}

void lab__tensor_fill(lab_tensor *dst, double value)
{
    union {
        float f32;
        double f64;
        int64_t i64;
        uint8_t boolean;
    } element = {0};
    switch (dst->dtype) {
    case LAB_F32:
        element.f32 = (float)value;
        break;
    case LAB_F64:
        element.f64 = value;
        break;
    case LAB_I64:
        element.i64 = (int64_t)value;
        break;
    case LAB_BOOL:
        element.boolean = value != 0;
        break;
    }
    lab_tensor source = {.kind = TENSOR_TEMPORARY, .dtype = dst->dtype, .numel = 1, .data = (char *)&element};
    loop l;
    lab__loop_make(&l, 2, (const lab_tensor *const[]){dst, &source});
    lab__loop_run(&l, 1, copy_row, &(struct copy_context){(int)lab_dtype_size(dst->dtype)});
}
