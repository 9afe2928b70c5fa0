/* safetensors_save.c - writing: what a visit has added becomes one file.
 *
 * Tensors of wide elements lie first and the header is padded to eight bytes, so that every element is aligned.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "file_impl.h"
#include "nn_impl.h"
#include "safetensors_impl.h"

typedef struct item {
    const char *name; /* the key in `names` */
    const lab_tensor *tensor;
    lab_stored stored;
    size_t bytes; /* in the file */
} item;

struct lab_safetensors_writer {
    json_t *names; /* each once; the values say nothing */
    json_t *metadata;
    lab_stored store;
    item *items;
    int64_t count, room;
};

/* ---- What is to be written ------------------------------------------------------------------------------------------- */

lab_status lab_safetensors_writer_create(lab_safetensors_writer **out)
{
    if (!out)
        return lab__fail(LAB_ERR_ARGUMENT, "safetensors: out is NULL");
    lab_safetensors_writer *w = lab__allocate(sizeof *w);
    *out = w;
    if (w)
        *w = (lab_safetensors_writer){.names = json_object(), .metadata = json_object()};
    if (w && w->names && w->metadata)
        return LAB_OK;
    lab_safetensors_writer_destroy(out);
    return lab__fail(LAB_ERR_MEMORY, "safetensors: no memory for a writer");
}

void lab_safetensors_writer_destroy(lab_safetensors_writer **writer)
{
    if (!writer || !*writer)
        return;
    lab_safetensors_writer *w = *writer;
    json_decref(w->names);
    json_decref(w->metadata);
    if (w->items)
        lab__release(w->items, (size_t)w->room * sizeof *w->items);
    lab__release(w, sizeof *w);
    *writer = NULL;
}

lab_status lab_safetensors_writer_store(lab_safetensors_writer *writer, lab_stored stored)
{
    if (!writer || (unsigned)stored > LAB_STORED_BF16)
        return lab__fail(LAB_ERR_ARGUMENT, "safetensors: %s",
                         writer ? "floats are stored as they are, f64, f32, f16 or bf16" : "the writer is NULL");
    writer->store = stored;
    return LAB_OK;
}

static bool make_room(lab_safetensors_writer *w)
{
    if (w->count < w->room)
        return true;
    const int64_t room = w->room ? 2 * w->room : 64;
    size_t bytes;
    item *items = lab__multiply((size_t)room, sizeof *items, &bytes) ? lab__allocate(bytes) : NULL;
    if (!items)
        return false;
    if (w->items) {
        memcpy(items, w->items, (size_t)w->count * sizeof *items);
        lab__release(w->items, (size_t)w->room * sizeof *items);
    }
    w->items = items;
    w->room = room;
    return true;
}

static bool is_text(const char *text)
{
    json_t *json = json_string(text); /* NULL where it is no UTF-8 */
    json_decref(json);
    return json;
}

lab_status lab_safetensors_add(const char *name, lab_tensor **parameter, void *ctx)
{
    lab_safetensors_writer *w = ctx;
    if (!name || !parameter || !*parameter || !w)
        return lab__fail(LAB_ERR_ARGUMENT, "safetensors: %s is NULL",
                         !name ? "a tensor's name"
                         : !w  ? "the writer"
                               : name);
    if (strcmp(name, "__metadata__") == 0 || json_object_get(w->names, name))
        return lab__fail(LAB_ERR_ARGUMENT, "safetensors: there is a tensor %s already", name);
    if (!is_text(name))
        return lab__fail(LAB_ERR_ARGUMENT, "safetensors: the name %s is no UTF-8", name);
    const lab_tensor *t = *parameter;
    item new = {.tensor = t, .stored = lab__stored_as(t->dtype)};
    if (lab__is_float(t->dtype) && w->store != LAB_STORED_AS_IS)
        new.stored = w->store;
    if (!lab__multiply((size_t)lab_tensor_numel(t), lab__stored_size(new.stored), &new.bytes) || !make_room(w) ||
        json_object_set_new(w->names, name, json_integer((json_int_t)w->count)) != 0)
        return lab__fail(LAB_ERR_MEMORY, "safetensors: no memory for the name of %s", name);
    new.name = json_object_iter_key(json_object_iter_at(w->names, name));
    w->items[w->count++] = new;
    return LAB_OK;
}

lab_status lab_safetensors_set_metadata(lab_safetensors_writer *writer, const char *key, const char *text)
{
    if (!writer || !key || !text)
        return lab__fail(LAB_ERR_ARGUMENT, "safetensors: %s is NULL", !writer ? "the writer" : key ? "text" : "key");
    if (!is_text(key) || !is_text(text))
        return lab__fail(LAB_ERR_ARGUMENT, "safetensors: metadata %s is no UTF-8", key);
    if (json_object_set_new(writer->metadata, key, json_string(text)) != 0)
        return lab__fail(LAB_ERR_MEMORY, "safetensors: no memory for metadata %s", key);
    return LAB_OK;
}

/* ---- The header ------------------------------------------------------------------------------------------------------ */

static int by_width(const void *a, const void *b)
{
    const item *x = a, *y = b;
    const size_t wide = lab__stored_size(x->stored), other = lab__stored_size(y->stored);
    return wide != other ? (wide > other ? -1 : 1) : strcmp(x->name, y->name);
}

/* {"dtype": ..., "shape": [...], "data_offsets": [...]}; NULL without memory. */
static json_t *describe(const item *i, size_t begin)
{
    json_t *shape = json_array();
    for (int axis = 0; axis < i->tensor->rank; axis++)
        if (json_array_append_new(shape, json_integer(i->tensor->shape[axis])) != 0) {
            json_decref(shape);
            return NULL;
        }
    const size_t end = begin + i->bytes;
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", lab__stored_name(i->stored), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

static json_t *make_header(const lab_safetensors_writer *w, const item *items)
{
    json_t *header = json_object();
    size_t begin = 0;
    bool fine = header != NULL;
    if (fine && json_object_size(w->metadata) > 0)
        fine = json_object_set(header, "__metadata__", w->metadata) == 0;
    for (int64_t i = 0; i < w->count && fine; i++) {
        fine = begin <= INT64_MAX - items[i].bytes &&
               json_object_set_new(header, items[i].name, describe(&items[i], begin)) == 0;
        begin += items[i].bytes;
    }
    if (!fine) {
        json_decref(header);
        return NULL;
    }
    return header;
}

/* Length and text, padded to eight bytes with spaces. NULL without memory. */
static char *header_bytes(const lab_safetensors_writer *w, const item *items, size_t *bytes)
{
    json_t *header = make_header(w, items);
    const size_t length = header ? json_dumpb(header, NULL, 0, JSON_COMPACT) : 0;
    const uint64_t padded = (length + 7) / 8 * 8;
    char *text = length ? lab__allocate(sizeof padded + padded) : NULL;
    if (text) {
        memcpy(text, &padded, sizeof padded);
        memset(text + sizeof padded, ' ', padded);
        json_dumpb(header, text + sizeof padded, length, JSON_COMPACT);
    }
    *bytes = sizeof padded + padded;
    json_decref(header);
    return text;
}

/* ---- The file -------------------------------------------------------------------------------------------------------- */

/* Row-major, then as it is stored: in two buffers where it does not lie so already. */
static lab_status write_item(file_writer *file, const item *i)
{
    const lab_tensor *t = i->tensor;
    const int64_t n = lab_tensor_numel(t);
    const size_t bytes = (size_t)n * lab_dtype_size(t->dtype);
    const bool plain = lab__stored_as(t->dtype) == i->stored && t->dtype != LAB_BOOL, dense = lab__is_contiguous(t);
    if (plain && dense)
        return lab__file_write(file, t->data, i->bytes);
    lab_status status = LAB_OK;
    void *rows = dense ? NULL : lab__allocate(bytes), *stored = plain ? NULL : lab__allocate(i->bytes);
    if ((!dense && !rows) || (!plain && !stored))
        status = lab__fail(LAB_ERR_MEMORY, "%s: no memory to write %s", file->path, i->name);
    if (status == LAB_OK && !dense)
        status = lab_tensor_read(t, rows, bytes);
    if (status == LAB_OK && !plain)
        lab__encode(stored, i->stored, dense ? t->data : rows, t->dtype, n);
    if (status == LAB_OK)
        status = lab__file_write(file, plain ? rows : stored, i->bytes);
    if (rows)
        lab__release(rows, bytes);
    if (stored)
        lab__release(stored, i->bytes);
    return status;
}

static lab_status write_all(const lab_safetensors_writer *w, const item *items, const char *header, size_t header_size,
                            const char *path)
{
    file_writer file;
    lab_status status = lab__file_create(&file, path);
    if (status != LAB_OK)
        return status;
    status = lab__file_write(&file, header, header_size);
    for (int64_t i = 0; i < w->count && status == LAB_OK; i++)
        status = write_item(&file, &items[i]);
    if (status == LAB_OK)
        status = lab__file_replace(&file);
    if (status != LAB_OK)
        lab__file_abandon(&file);
    return status;
}

lab_status lab_safetensors_save(const lab_safetensors_writer *writer, const char *path)
{
    if (!writer || !path)
        return lab__fail(LAB_ERR_ARGUMENT, "safetensors: %s is NULL", writer ? "path" : "the writer");
    const size_t bytes = (size_t)writer->count * sizeof(item);
    item *items = lab__allocate(bytes + 1);
    if (!items)
        return lab__fail(LAB_ERR_MEMORY, "%s: no memory to write it", path);
    if (writer->count > 0) {
        memcpy(items, writer->items, bytes);
        qsort(items, (size_t)writer->count, sizeof *items, by_width);
    }
    size_t header_size;
    char *header = header_bytes(writer, items, &header_size);
    lab_status status = header ? write_all(writer, items, header, header_size, path)
                               : lab__fail(LAB_ERR_MEMORY, "%s: no memory for its header", path);
    if (header)
        lab__release(header, header_size);
    lab__release(items, bytes + 1);
    return status;
}
