/* pretrained_import.c - a model out of config.json and model.safetensors. */
#include <stdio.h>
#include <string.h>

#include "layers_impl.h"
#include "pretrained_impl.h"
#include "safetensors_impl.h"

typedef struct import {
    const lab_safetensors *file;
    layout layout;
    const char *prefix;
} import;

/* The tensor that holds a parameter, which has the shape and the elements for it. */
static lab_status find(const import *from, const char *name, const lab_tensor *t, their_place *place,
                       const lab_safetensors_entry **out)
{
    if (!lab__their_place(place, from->layout, from->prefix, name))
        return lab__fail(LAB_ERR_UNSUPPORTED, "transformers has no place for %s", name);
    const lab_safetensors_entry *e = lab_safetensors_find(from->file, place->name);
    if (!e)
        return lab__fail(LAB_ERR_FORMAT, "the file has no tensor %s", place->name);
    int64_t shape[2] = {t->shape[0] * place->parts, t->rank == 2 ? t->shape[1] : 1};
    if (place->transposed) {
        shape[1] = shape[0];
        shape[0] = t->shape[1];
    }
    if (e->rank != t->rank || e->shape[0] != shape[0] || (t->rank == 2 && e->shape[1] != shape[1]))
        return lab__fail(LAB_ERR_FORMAT, "%s is %s in the file, and config.json makes it %s", place->name,
                         lab__shape_text(e->rank, e->shape), lab__shape_text(t->rank, shape));
    if (!lab__holds(t->dtype, e->stored))
        return lab__fail(LAB_ERR_FORMAT, "%s is %s in the file, which %s does not hold", place->name,
                         lab__stored_name(e->stored), lab_dtype_name(t->dtype));
    *out = e;
    return LAB_OK;
}

/* Row `in` of [in, parts * out] is column `in` of the parameter. */
static lab_status read_transposed(lab_tensor *t, const lab_safetensors_entry *e, const their_place *place)
{
    const int64_t outs = t->shape[0], ins = t->shape[1];
    const size_t element = lab__stored_size(e->stored), size = lab_dtype_size(t->dtype), bytes = (size_t)outs * size;
    char *row = lab__allocate(bytes), *to = t->data;
    if (!row)
        return lab__fail(LAB_ERR_MEMORY, "no memory to read %s", place->name);
    for (int64_t in = 0; in < ins; in++) {
        const int64_t first = (in * place->parts + place->part) * outs;
        lab__decode(row, t->dtype, (const char *)e->data + (size_t)first * element, e->stored, outs);
        for (int64_t out = 0; out < outs; out++)
            memcpy(to + (size_t)(out * ins + in) * size, row + (size_t)out * size, size);
    }
    lab__release(row, bytes);
    return LAB_OK;
}

static lab_status read_parameter(const char *name, lab_tensor **parameter, void *ctx)
{
    their_place place;
    lab_tensor *t = *parameter;
    const lab_safetensors_entry *e = NULL;
    lab_status status = find(ctx, name, t, &place, &e);
    if (status != LAB_OK)
        return status;
    const int64_t n = lab_tensor_numel(t);
    if (place.transposed)
        status = read_transposed(t, e, &place);
    else
        lab__decode(t->data, t->dtype, (const char *)e->data + (size_t)(place.part * n) * lab__stored_size(e->stored),
                    e->stored, n);
    lab_tensor_touch(t);
    return status;
}

static lab_status read_model(lab_gpt *x, const lab_gpt_config *config, layout layout, const char *path, lab_dtype dtype)
{
    lab_safetensors *file;
    lab_status status = lab_safetensors_open(&file, path);
    if (status != LAB_OK)
        return status;
    status = lab_gpt_init(x, config, dtype, 0);
import from = {.file = file, .layout = layout };
    from.prefix = lab_safetensors_find(file, "transformer.wte.weight") ? "transformer." : "";
    if (status == LAB_OK)
        status = lab_gpt_visit(x, NULL, read_parameter, &from);
    if (status != LAB_OK)
        lab_gpt_free(x);
    lab_safetensors_close(&file);
    return status;
}

lab_status lab_gpt_import(lab_gpt *out, const char *folder, lab_dtype dtype)
{
    if (out)
        *out = (lab_gpt){0};
    if (!out || !folder)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_gpt_import: %s is NULL", out ? "folder" : "out");
    lab_gpt_config config;
    layout layout;
    char *settings = lab__path_in(folder, "config.json");
    char *weights = settings ? lab__path_in(folder, "model.safetensors") : NULL;
    lab_status status = weights ? lab__read_config(&config, &layout, settings) : LAB_ERR_MEMORY;
    if (status == LAB_OK)
        status = read_model(out, &config, layout, weights, dtype);
    lab__free_path(settings);
    lab__free_path(weights);
    return status;
}
