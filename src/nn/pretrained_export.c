/* pretrained_export.c - config.json and model.safetensors out of a model.
 *
 * What lies as they want it is written as it is; a transposed weight is a view of ours; what they keep in one tensor,
 * and the zeros for biases that there are not, are made, and live until the file is written.
 */
#include <stdio.h>
#include <string.h>

#include "file_impl.h"
#include "layers_impl.h"
#include "llmlab/safetensors.h"
#include "pretrained_impl.h"

typedef struct writing {
    layout layout;
    lab_safetensors_writer *writer;
    lab_tensor **made; /* views, joined tensors, zeros */
    int64_t count, room;
} writing;

/* The tensor is the export's from here on. */
static lab_status add_made(writing *to, const char *name, lab_tensor *t)
{
    to->made[to->count++] = t;
    return lab_safetensors_add(name, &to->made[to->count - 1], to->writer);
}

/* ---- One tensor of theirs -------------------------------------------------------------------------------------------- */

static lab_status add_transposed(writing *to, const char *name, const lab_tensor *t)
{
    lab_tensor *view;
    lab_status status = lab_tensor_wrap(&view, t->dtype, 2, (int64_t[]){t->shape[1], t->shape[0]},
                                        (int64_t[]){t->strides[1], t->strides[0]}, t->data, NULL, NULL);
    return status == LAB_OK ? add_made(to, name, view) : status;
}

static lab_status add_zeros(writing *to, const char *name, lab_dtype dtype, int64_t size)
{
    lab_tensor *zeros;
    lab_status status = lab_tensor_create(&zeros, dtype, 1, &size);
    return status == LAB_OK ? add_made(to, name, zeros) : status;
}

/* q, k and v [out, in] side by side, transposed: [in, 3 out]. */
static lab_status add_joined(writing *to, const char *name, lab_tensor *const parts[3])
{
    const int64_t outs = parts[0]->shape[0], ins = parts[0]->shape[1];
    const size_t size = lab_dtype_size(parts[0]->dtype);
    lab_tensor *joined;
    lab_status status = lab_tensor_create(&joined, parts[0]->dtype, 2, (int64_t[]){ins, 3 * outs});
    if (status != LAB_OK)
        return status;
    char *into = joined->data;
    for (int p = 0; p < 3; p++)
        for (int64_t out = 0; out < outs; out++)
            for (int64_t in = 0; in < ins; in++) {
                const int64_t from = out * parts[p]->strides[0] + in * parts[p]->strides[1];
                memcpy(into + (size_t)(in * 3 * outs + p * outs + out) * size,
                       (const char *)parts[p]->data + (size_t)from * size, size);
            }
    return add_made(to, name, joined);
}

static lab_status add_joined_bias(writing *to, const char *name, lab_tensor *const parts[3], int64_t size)
{
    if (!parts[0] || !parts[1] || !parts[2])
        return LAB_OK; /* which then are zeros: see add_bias */
    const size_t bytes = (size_t)size * lab_dtype_size(parts[0]->dtype);
    lab_tensor *joined;
    lab_status status = lab_tensor_create(&joined, parts[0]->dtype, 1, (int64_t[]){3 * size});
    for (int p = 0; p < 3 && status == LAB_OK; p++)
        status = lab_tensor_read(parts[p], (char *)joined->data + (size_t)p * bytes, bytes);
    if (status == LAB_OK)
        return add_made(to, name, joined);
    lab_tensor_destroy(&joined);
    return status;
}

/* ---- All of them ----------------------------------------------------------------------------------------------------- */

static lab_status add_parameter(const char *name, lab_tensor **parameter, void *ctx)
{
    writing *to = ctx;
    their_place place;
    if (!lab__their_place(&place, to->layout, "transformer.", name))
        return lab__fail(LAB_ERR_UNSUPPORTED, "transformers has no place for %s", name);
    if (place.parts > 1)
        return LAB_OK; /* add_block joins them */
    return place.transposed ? add_transposed(to, place.name, *parameter)
                            : lab_safetensors_add(place.name, parameter, to->writer);
}

static lab_status theirs(their_place *place, int64_t block, const char *part)
{
    char name[LAB_NAME_LENGTH];
    snprintf(name, sizeof name, "block.%lld.%s", (long long)block, part);
    if (lab__their_place(place, LAYOUT_GPT2, "transformer.", name))
        return LAB_OK;
    return lab__fail(LAB_ERR_UNSUPPORTED, "transformers has no place for %s", name);
}

/* What a gpt2 has beside the parameters that stand for themselves: c_attn, and all biases. */
static lab_status add_block(writing *to, const lab_gpt *x, int64_t i)
{
    const lab_block *b = &x->block[i];
    const int64_t width = x->config.width;
    const lab_dtype dtype = b->attn.q.weight->dtype;
    their_place place;
    lab_status status = theirs(&place, i, "attn.q.weight");
    if (status == LAB_OK)
        status = add_joined(to, place.name, (lab_tensor *[]){b->attn.q.weight, b->attn.k.weight, b->attn.v.weight});
    lab_tensor *const biases[] = {b->attn.q.bias, b->attn.k.bias, b->attn.v.bias};
    if (status == LAB_OK)
        status = theirs(&place, i, "attn.q.bias");
    if (status == LAB_OK)
        status = add_joined_bias(to, place.name, biases, width);
    const struct {
        const char *part;
        const lab_tensor *there;
        int64_t size;
    } all[] = {{"attn.q.bias", biases[0], 3 * width},
               {"attn.out.bias", b->attn.out.bias, width},
               {"norm1.shift", b->norm1_shift, width},
               {"norm2.shift", b->norm2_shift, width},
               {"mlp.up.bias", b->mlp.up.bias, x->config.hidden},
               {"mlp.down.bias", b->mlp.down.bias, width}};
    for (size_t k = 0; k < sizeof all / sizeof *all && status == LAB_OK; k++)
        if (!all[k].there && (status = theirs(&place, i, all[k].part)) == LAB_OK)
            status = add_zeros(to, place.name, dtype, all[k].size);
    return status;
}

enum { MADE_IN_A_BLOCK = 16 };

static lab_status add_all(writing *to, lab_gpt *x)
{
    to->room = x->config.layers * MADE_IN_A_BLOCK + 1;
    to->made = lab__allocate((size_t)to->room * sizeof *to->made);
    if (!to->made)
        return lab__fail(LAB_ERR_MEMORY, "lab_gpt_export: no memory for the names");
    lab_status status = lab_safetensors_set_metadata(to->writer, "format", "pt");
    if (status == LAB_OK)
        status = lab_gpt_visit(x, NULL, add_parameter, to);
    for (int64_t i = 0; i < x->config.layers && to->layout == LAYOUT_GPT2 && status == LAB_OK; i++)
        status = add_block(to, x, i);
    if (status == LAB_OK && to->layout == LAYOUT_GPT2 && !x->norm_shift)
        status = add_zeros(to, "transformer.ln_f.bias", x->token->dtype, x->config.width);
    return status;
}

static lab_status write_weights(lab_gpt *x, layout layout, const char *path)
{
    writing to = {.layout = layout};
    lab_status status = lab_safetensors_writer_create(&to.writer);
    if (status == LAB_OK)
        status = lab_safetensors_writer_store(to.writer, LAB_STORED_F32);
    if (status == LAB_OK)
        status = add_all(&to, x);
    if (status == LAB_OK)
        status = lab_safetensors_save(to.writer, path);
    for (int64_t i = 0; i < to.count; i++)
        lab_tensor_destroy(&to.made[i]);
    if (to.made)
        lab__release(to.made, (size_t)to.room * sizeof *to.made);
    lab_safetensors_writer_destroy(&to.writer);
    return status;
}

static lab_status write_settings(const lab_gpt_config *config, layout layout, const char *path)
{
    file_writer file;
    json_t *json = lab__config_json(config, layout);
    const size_t flags = JSON_INDENT(2), bytes = json ? json_dumpb(json, NULL, 0, flags) : 0;
    char *text = bytes ? lab__allocate(bytes) : NULL;
    if (text)
        json_dumpb(json, text, bytes, flags);
    json_decref(json);
    if (!text)
        return lab__fail(LAB_ERR_MEMORY, "%s: no memory to write it", path);
    lab_status status = lab__file_create(&file, path);
    if (status == LAB_OK && (status = lab__file_write(&file, text, bytes)) == LAB_OK)
        status = lab__file_replace(&file);
    if (status != LAB_OK)
        lab__file_abandon(&file);
    lab__release(text, bytes);
    return status;
}

lab_status lab_gpt_export(lab_gpt *x, const char *folder)
{
    layout layout;
    if (!x || !x->block || !folder)
        return lab__fail(LAB_ERR_ARGUMENT, "lab_gpt_export: %s",
                         folder ? "the model is NULL or empty" : "folder is NULL");
    lab_status status = lab__layout_for(&layout, &x->config);
    if (status != LAB_OK)
        return status;
    char *settings = lab__path_in(folder, "config.json");
    char *weights = settings ? lab__path_in(folder, "model.safetensors") : NULL;
    status = weights ? write_weights(x, layout, weights) : LAB_ERR_MEMORY;
    if (status == LAB_OK)
        status = write_settings(&x->config, layout, settings);
    lab__free_path(settings);
    lab__free_path(weights);
    return status;
}
