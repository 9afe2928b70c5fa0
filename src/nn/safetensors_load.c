/* safetensors_load.c - tensors out of an open file: new ones, or into parameters by name. */
#include "nn_impl.h"
#include "safetensors_impl.h"

static lab_dtype dtype_for(lab_stored stored)
{
    if (stored == LAB_STORED_F64)
        return LAB_F64;
    if (stored == LAB_STORED_BOOL)
        return LAB_BOOL;
    return lab__holds(LAB_F32, stored) ? LAB_F32 : LAB_I64;
}

lab_status lab_safetensors_tensor(lab_tensor **out, const lab_safetensors *file, const char *name)
{
    if (out)
        *out = NULL;
    if (!out || !file || !name)
        return lab__fail(LAB_ERR_ARGUMENT, "safetensors: %s is NULL", !out ? "out" : file ? "name" : "file");
    const lab_safetensors_entry *e = lab_safetensors_find(file, name);
    if (!e)
        return lab__fail(LAB_ERR_ARGUMENT, "safetensors: there is no tensor %s in the file", name);
    const lab_dtype dtype = dtype_for(e->stored);
    if (!lab__holds(dtype, e->stored))
        return lab__fail(LAB_ERR_UNSUPPORTED, "safetensors: %s is %s, which no dtype holds", name,
                         lab__stored_name(e->stored));
    lab_status status = lab_tensor_create(out, dtype, e->rank, e->shape);
    if (status == LAB_OK) {
        lab__decode((*out)->data, dtype, e->data, e->stored, lab_tensor_numel(*out));
        lab__safetensors_done(file, e);
    }
    return status;
}

static lab_status check(const char *name, lab_tensor **parameter, const lab_safetensors *file,
                        const lab_safetensors_entry **out)
{
    if (!name || !parameter || !*parameter || !file)
        return lab__fail(LAB_ERR_ARGUMENT, "safetensors: %s is NULL",
                         !name   ? "the parameter's name"
                         : !file ? "the file"
                                 : name);
    const lab_tensor *t = *parameter;
    const lab_safetensors_entry *e = lab_safetensors_find(file, name);
    if (!e)
        return lab__fail(LAB_ERR_FORMAT, "safetensors: the file has no tensor %s %s", name, lab__tensor_text(t));
    bool same = e->rank == t->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = e->shape[i] == t->shape[i];
    if (!same)
        return lab__fail(LAB_ERR_FORMAT, "safetensors: %s is %s in the file, and must be %s", name,
                         lab__shape_text(e->rank, e->shape), lab__shape_text(t->rank, t->shape));
    if (!lab__holds(t->dtype, e->stored))
        return lab__fail(LAB_ERR_FORMAT, "safetensors: %s is %s in the file, which %s does not hold", name,
                         lab__stored_name(e->stored), lab_dtype_name(t->dtype));
    *out = e;
    return LAB_OK;
}

lab_status lab_safetensors_check(const char *name, lab_tensor **parameter, void *ctx)
{
    const lab_safetensors_entry *e = NULL;
    return check(name, parameter, ctx, &e);
}

lab_status lab_safetensors_load(const char *name, lab_tensor **parameter, void *ctx)
{
    const lab_safetensors_entry *e = NULL;
    lab_status status = check(name, parameter, ctx, &e);
    if (status != LAB_OK)
        return status;
    lab_tensor *t = *parameter;
    const int64_t n = lab_tensor_numel(t);
    if (lab__is_contiguous(t)) {
        lab__decode(t->data, t->dtype, e->data, e->stored, n);
        lab__safetensors_done(ctx, e);
        lab_tensor_touch(t);
        return LAB_OK;
    }
    const size_t bytes = (size_t)n * lab_dtype_size(t->dtype);
    void *rows = lab__allocate(bytes);
    if (!rows)
        return lab__fail(LAB_ERR_MEMORY, "safetensors: no memory for %s", name);
    lab__decode(rows, t->dtype, e->data, e->stored, n);
    status = lab_tensor_write(t, rows, bytes);
    lab__release(rows, bytes);
    return status;
}
