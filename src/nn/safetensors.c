/* safetensors.c - reading: the header is parsed and all of it checked before anything is believed.
 *
 * jansson parses: it refuses keys that come twice, text that is no UTF-8, numbers beyond 64 bits and deep nesting, and
 * takes its memory by itself. The parsed header stays as long as the file is open, since entries point to its names.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "file_impl.h"
#include "nn_impl.h"
#include "safetensors_impl.h"

enum { LENGTH_BYTES = 8, LONGEST_HEADER = 100000000 };

typedef struct place {
    lab_safetensors_entry entry;
    uint64_t begin, end; /* in the elements' part */
} place;

struct lab_safetensors {
    const unsigned char *data;
    size_t bytes;
    bool mapped;
    json_t *header; /* the names are its */
    int64_t count;
    place *places;
};

/* ---- Numbers --------------------------------------------------------------------------------------------------------- */

static uint64_t header_length(const unsigned char *data)
{
    uint64_t length;
    memcpy(&length, data, sizeof length);
    return length;
}

static lab_status check_length(const char *of, const unsigned char *data, size_t bytes)
{
    if (bytes < LENGTH_BYTES)
        return lab__fail(LAB_ERR_FORMAT, "%s: %zu bytes, shorter than the 8-byte header length", of, bytes);
    const uint64_t length = header_length(data);
    if (length == 0)
        return lab__fail(LAB_ERR_FORMAT, "%s: the header length is 0", of);
    if (length > bytes - LENGTH_BYTES)
        return lab__fail(LAB_ERR_FORMAT, "%s: the header length is %llu, beyond the end of the file (%zu bytes)", of,
                         (unsigned long long)length, bytes);
    if (length > LONGEST_HEADER)
        return lab__fail(LAB_ERR_FORMAT, "%s: the header length is %llu, more than %d", of, (unsigned long long)length,
                         (int)LONGEST_HEADER);
    return LAB_OK;
}

/* ---- The header ------------------------------------------------------------------------------------------------------ */

static lab_status parse(lab_safetensors *file, const char *of)
{
    json_error_t error;
    const char *text = (const char *)file->data + LENGTH_BYTES;
    const size_t length = (size_t)header_length(file->data);
    if (text[0] != '{')
        return lab__fail(LAB_ERR_FORMAT, "%s: the header does not begin with '{'", of);
    file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (file->header)
        return LAB_OK;
    switch (json_error_code(&error)) {
    case json_error_out_of_memory:
        return lab__fail(LAB_ERR_MEMORY, "%s: no memory for the header", of);
    case json_error_duplicate_key:
        return lab__fail(LAB_ERR_FORMAT, "%s: duplicate name or key in the header: %s", of, error.text);
    case json_error_stack_overflow:
        return lab__fail(LAB_ERR_FORMAT, "%s: the header's brackets are nested too deep: %s", of, error.text);
    case json_error_invalid_utf8:
        return lab__fail(LAB_ERR_FORMAT, "%s: the header is not valid UTF-8: %s", of, error.text);
    case json_error_numeric_overflow:
        return lab__fail(LAB_ERR_FORMAT, "%s: a size or an offset in the header is above 2^63-1: %s", of, error.text);
    default:
        return lab__fail(LAB_ERR_FORMAT, "%s: the header is no JSON (unterminated or malformed): %s, at byte %d", of,
                         error.text, error.position);
    }
}

/* A number of the header: an integer that is not negative. */
static lab_status read_number(const char *of, const char *name, const char *what, const json_t *json, int64_t *out)
{
    if (!json_is_integer(json))
        return lab__fail(LAB_ERR_FORMAT, "%s: %s: %s is not an integer", of, name, what);
    *out = json_integer_value(json);
    if (*out < 0)
        return lab__fail(LAB_ERR_FORMAT, "%s: %s: %s is negative (%lld)", of, name, what, (long long)*out);
    return LAB_OK;
}

static lab_status read_shape(const char *of, const json_t *json, lab_safetensors_entry *e)
{
    if (!json_is_array(json))
        return lab__fail(LAB_ERR_FORMAT, "%s: %s: the shape is missing or no list", of, e->name);
    if (json_array_size(json) > LAB_MAX_RANK)
        return lab__fail(LAB_ERR_FORMAT, "%s: %s: the shape has %zu sizes, more than %d", of, e->name,
                         json_array_size(json), LAB_MAX_RANK);
    e->rank = (int)json_array_size(json);
    lab_status status = LAB_OK;
    for (int i = 0; i < e->rank && status == LAB_OK; i++)
        status = read_number(of, e->name, "a size", json_array_get(json, (size_t)i), &e->shape[i]);
    return status;
}

static lab_status read_offsets(const char *of, const json_t *json, place *p)
{
    int64_t begin = 0, end = 0;
    if (!json_is_array(json) || json_array_size(json) != 2)
        return lab__fail(LAB_ERR_FORMAT, "%s: %s: data_offsets must be two offsets, begin and end; there are %zu", of,
                         p->entry.name, json_array_size(json));
    lab_status status = read_number(of, p->entry.name, "an offset", json_array_get(json, 0), &begin);
    if (status == LAB_OK)
        status = read_number(of, p->entry.name, "an offset", json_array_get(json, 1), &end);
    p->begin = (uint64_t)begin;
    p->end = (uint64_t)end;
    return status;
}

static lab_status check_place(const lab_safetensors *file, const char *of, const place *p, size_t element)
{
    const lab_safetensors_entry *e = &p->entry;
    const unsigned long long begin = p->begin, end = p->end;
    const size_t there = file->bytes - LENGTH_BYTES - (size_t)header_length(file->data);
    size_t bytes = element;
    bool fits = true;
    for (int i = 0; i < e->rank && fits; i++)
        fits = lab__multiply(bytes, (size_t)e->shape[i], &bytes);
    const char *shape = lab__shape_text(e->rank, e->shape);
    if (!fits)
        return lab__fail(LAB_ERR_FORMAT,
                         "%s: %s: the element count of shape %s wraps: its size in bytes is above 2^64-1 (offsets %llu "
                         "to %llu)",
                         of, e->name, shape, begin, end);
    if (end < begin)
        return lab__fail(LAB_ERR_FORMAT, "%s: %s: its offsets end before they begin (%llu to %llu)", of, e->name, begin,
                         end);
    if (end > there)
        return lab__fail(LAB_ERR_FORMAT, "%s: %s reaches past the end of the file: offsets %llu to %llu of %zu bytes",
                         of, e->name, begin, end, there);
    if (end - begin != bytes)
        return lab__fail(LAB_ERR_FORMAT, "%s: %s: its shape %s needs %zu bytes, its offsets give %llu bytes", of,
                         e->name, shape, bytes, end - begin);
    return LAB_OK;
}

static lab_status read_entry(lab_safetensors *file, const char *of, const char *name, const json_t *json, place *p)
{
    size_t element = 0;
    const json_t *dtype = json_object_get(json, "dtype");
    p->entry.name = name;
    if (!json_is_object(json))
        return lab__fail(LAB_ERR_FORMAT, "%s: %s is no object with dtype, shape and data_offsets", of, name);
    if (!json_is_string(dtype))
        return lab__fail(LAB_ERR_FORMAT, "%s: %s: the dtype is missing or no text", of, name);
    if (!lab__stored_of(json_string_value(dtype), &p->entry.stored, &element))
        return lab__fail(LAB_ERR_FORMAT, "%s: %s: unknown dtype %.40s", of, name, json_string_value(dtype));
    lab_status status = read_shape(of, json_object_get(json, "shape"), &p->entry);
    if (status == LAB_OK)
        status = read_offsets(of, json_object_get(json, "data_offsets"), p);
    if (status == LAB_OK)
        status = check_place(file, of, p, element);
    p->entry.bytes = (size_t)(p->end - p->begin);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* One behind the other, from the first byte to the last. */
static lab_status check_order(lab_safetensors *file, const char *of)
{
    const size_t start = LENGTH_BYTES + (size_t)header_length(file->data);
    uint64_t at = 0;
    if (file->count > 0)
        qsort(file->places, (size_t)file->count, sizeof *file->places, by_place);
    for (int64_t i = 0; i < file->count; i++) {
        place *p = &file->places[i];
        const unsigned long long begin = p->begin, so_far = at;
        if (begin < so_far)
            return lab__fail(LAB_ERR_FORMAT, "%s: overlapping tensors: %s begins at %llu, %s ends at %llu", of,
                             p->entry.name, begin, file->places[i - 1].entry.name, so_far);
        if (begin > so_far)
            return lab__fail(LAB_ERR_FORMAT,
                             "%s: a hole between tensors: %s begins at %llu, the one before ends at %llu", of,
                             p->entry.name, begin, so_far);
        p->entry.data = file->data + start + p->begin;
        at = p->end;
    }
    if (at != file->bytes - start)
        return lab__fail(LAB_ERR_FORMAT, "%s: %llu bytes after the last tensor", of,
                         (unsigned long long)(file->bytes - start - at));
    return LAB_OK;
}

static lab_status check_metadata(const char *of, const json_t *metadata)
{
    const char *key;
    json_t *text;
    if (!json_is_object(metadata))
        return lab__fail(LAB_ERR_FORMAT, "%s: __metadata__ is no object", of);
    json_object_foreach((json_t *)metadata, key, text)
    {
        if (!json_is_string(text))
            return lab__fail(LAB_ERR_FORMAT, "%s: __metadata__: %.80s is no text", of, key);
    }
    return LAB_OK;
}

static lab_status read_all(lab_safetensors *file, const char *of)
{
    const char *name;
    json_t *json, *metadata = json_object_get(file->header, "__metadata__");
    lab_status status = metadata ? check_metadata(of, metadata) : LAB_OK;
    const size_t count = json_object_size(file->header) - (metadata != NULL);
    size_t bytes;
    if (status != LAB_OK || count == 0)
        return status == LAB_OK ? check_order(file, of) : status;
    if (!lab__multiply(count, sizeof *file->places, &bytes) || !(file->places = lab__allocate(bytes)))
        return lab__fail(LAB_ERR_MEMORY, "%s: no memory for %zu names", of, count);
    memset(file->places, 0, bytes);
    file->count = (int64_t)count;
    int64_t at = 0;
    json_object_foreach(file->header, name, json)
    {
        if (status == LAB_OK && json != metadata)
            status = read_entry(file, of, name, json, &file->places[at++]);
    }
    return status == LAB_OK ? check_order(file, of) : status;
}

/* The file takes the memory, if it is mapped, on failure too. */
static lab_status open_memory(lab_safetensors **out, const char *of, const void *data, size_t bytes, bool mapped)
{
    lab_safetensors *file = lab__allocate(sizeof *file);
    if (!file) {
        if (mapped)
            lab__file_unmap((void *)(uintptr_t)data, bytes);
        return lab__fail(LAB_ERR_MEMORY, "%s: no memory to open it", of);
    }
    *file = (lab_safetensors){.data = data, .bytes = bytes, .mapped = mapped};
    lab_status status = check_length(of, data, bytes);
    if (status == LAB_OK)
        status = parse(file, of);
    if (status == LAB_OK)
        status = read_all(file, of);
    if (status != LAB_OK)
        lab_safetensors_close(&file);
    *out = file;
    return status;
}

lab_status lab_safetensors_from_memory(lab_safetensors **out, const void *data, size_t bytes)
{
    if (out)
        *out = NULL;
    if (!out || (!data && bytes))
        return lab__fail(LAB_ERR_ARGUMENT, "safetensors: %s is NULL", out ? "data" : "out");
    return open_memory(out, "safetensors", data, bytes, false);
}

lab_status lab_safetensors_open(lab_safetensors **out, const char *path)
{
    if (out)
        *out = NULL;
    if (!out || !path)
        return lab__fail(LAB_ERR_ARGUMENT, "safetensors: %s is NULL", out ? "path" : "out");
    void *data;
    size_t bytes;
    lab_status status = lab__file_map(path, &data, &bytes);
    return status == LAB_OK ? open_memory(out, path, data, bytes, true) : status;
}

void lab_safetensors_close(lab_safetensors **file)
{
    if (!file || !*file)
        return;
    lab_safetensors *f = *file;
    json_decref(f->header);
    if (f->places)
        lab__release(f->places, (size_t)f->count * sizeof *f->places);
    if (f->mapped)
        lab__file_unmap((void *)(uintptr_t)f->data, f->bytes);
    lab__release(f, sizeof *f);
    *file = NULL;
}

void lab__safetensors_done(const lab_safetensors *file, const lab_safetensors_entry *entry)
{
    if (file->mapped)
        lab__file_done(entry->data, entry->bytes);
}

/* ---- What is in it --------------------------------------------------------------------------------------------------- */

int64_t lab_safetensors_count(const lab_safetensors *file)
{
    return file ? file->count : 0;
}

const lab_safetensors_entry *lab_safetensors_at(const lab_safetensors *file, int64_t index)
{
    return file && index >= 0 && index < file->count ? &file->places[index].entry : NULL;
}

const lab_safetensors_entry *lab_safetensors_find(const lab_safetensors *file, const char *name)
{
    const json_t *json = file && name ? json_object_get(file->header, name) : NULL;
    for (int64_t i = 0; json && i < file->count; i++)
        if (strcmp(file->places[i].entry.name, name) == 0)
            return &file->places[i].entry;
    return NULL;
}

const char *lab_safetensors_metadata(const lab_safetensors *file, const char *key)
{
    const json_t *metadata = file ? json_object_get(file->header, "__metadata__") : NULL;
    return key ? json_string_value(json_object_get(metadata, key)) : NULL;
}
