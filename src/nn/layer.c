/* layer.c - what layers share: making parameters, and calling them by name. */
#include "layers_impl.h"

#include <stdio.h>

/* ---- Making ---------------------------------------------------------------------------------------------------------- */

static lab_status make(lab_tensor **out, source *from, int rank, const int64_t *shape)
{
    lab_status status = lab_tensor_create(out, from->dtype, rank, shape);
    return status == LAB_OK ? lab_tensor_require_grad(*out, true) : status;
}

lab_status lab__make_vector(lab_tensor **out, source *from, int64_t size, double value)
{
    lab_status status = make(out, from, 1, &size);
    from->stream++;
    return status == LAB_OK ? lab_init_constant(*out, value) : status;
}

lab_status lab__make_weight(lab_tensor **out, source *from, const lab_linear_config *config)
{
    lab_status status = make(out, from, 2, (int64_t[]){config->out, config->in});
    uint64_t stream = from->stream++;
    if (status != LAB_OK)
        return status;
    double scale = config->init_scale != 0 ? config->init_scale : 1;
    double std = config->init_std != 0 ? config->init_std : 0.02;
    switch (config->init) {
    case LAB_INIT_XAVIER:
        return lab_init_xavier(*out, scale, from->seed, stream);
    case LAB_INIT_NORMAL:
        return lab_init_normal(*out, scale * std, from->seed, stream);
    case LAB_INIT_ORTHOGONAL:
        return lab_init_orthogonal(*out, scale, from->seed, stream);
    case LAB_INIT_ZEROS:
        return LAB_OK;
    }
    return lab__fail(LAB_ERR_ARGUMENT, "init is %d, must be a lab_init_kind", (int)config->init);
}

lab_status lab__check_init(const char *name, const void *x, const void *config, const uint64_t *reserved,
                           lab_dtype dtype)
{
    if (!x || !config)
        return lab__fail(LAB_ERR_ARGUMENT, "%s: %s is NULL", name, x ? "config" : "the layer");
    if (!lab__all_zero(reserved))
        return lab__fail(LAB_ERR_ARGUMENT, "%s: the config's reserved words are not zero", name);
    if (!lab__is_float(dtype))
        return lab__fail(LAB_ERR_DTYPE, "%s: dtype is %s, must be f32 or f64", name, lab_dtype_name(dtype));
    return LAB_OK;
}

lab_status lab__check_positive(const char *name, const char *field, int64_t size)
{
    if (size < 1)
        return lab__fail(LAB_ERR_RANGE, "%s: %s is %lld, must be at least 1", name, field, (long long)size);
    return LAB_OK;
}

/* ---- Names ----------------------------------------------------------------------------------------------------------- */

lab_status lab__join_name(char name[LAB_NAME_LENGTH], const char *prefix, const char *part)
{
    bool has_prefix = prefix && prefix[0];
    int length = snprintf(name, LAB_NAME_LENGTH, "%s%s%s", has_prefix ? prefix : "", has_prefix ? "." : "", part);
    if (length < 0 || length >= LAB_NAME_LENGTH)
        return lab__fail(LAB_ERR_RANGE, "a parameter's name is longer than %d characters", LAB_NAME_LENGTH - 1);
    return LAB_OK;
}

lab_status lab__visit_parameter(const char *prefix, const char *part, lab_tensor **parameter, lab_visit_fn fn,
                                void *ctx)
{
    if (!fn)
        return lab__fail(LAB_ERR_ARGUMENT, "the function to visit with is NULL");
    if (!*parameter)
        return LAB_OK;
    char name[LAB_NAME_LENGTH];
    lab_status status = lab__join_name(name, prefix, part);
    return status == LAB_OK ? fn(name, parameter, ctx) : status;
}
