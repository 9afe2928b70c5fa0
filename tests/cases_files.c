/* cases_files.c - the parts on files: their bytes, given or described, and the tensors in them. */
#include <stdlib.h>
#include <string.h>

#include "cases.h"

/* ---- Bytes ------------------------------------------------------------------------------------------------------- */

typedef struct bytes {
    unsigned char *data;
    size_t size, room;
} bytes;

static bool put(bytes *b, const void *data, size_t size)
{
    if (size > b->room - b->size)
        return false;
    memcpy(b->data + b->size, data, size);
    b->size += size;
    return true;
}

/* One term of a description: u64le(N), 'text', N times 'text', N data bytes. NULL if it is none, or too long. */
static const char *put_term(bytes *b, const char *at)
{
    char *end;
    const char *close;
    unsigned long long count = 1;
    if (strncmp(at, "u64le(", 6) == 0) {
        count = strtoull(at + 6, &end, 10);
        return *end == ')' && put(b, &count, 8) ? end + 1 : NULL;
    }
    if (*at != '\'') {
        count = strtoull(at, &end, 10);
        if (end == at)
            return NULL;
        if (strncmp(end, " data bytes", 11) == 0) {
            for (; count > 0; count--)
                if (!put(b, "", 1))
                    return NULL;
            return end + 11;
        }
        if (strncmp(end, " times '", 8) != 0)
            return NULL;
        at = end + 7;
    }
    close = strchr(at + 1, '\'');
    for (; close && count > 0; count--)
        if (!put(b, at + 1, (size_t)(close - at - 1)))
            return NULL;
    return close ? close + 1 : NULL;
}

static bool build(bytes *b, const char *description)
{
    for (const char *at = description; (at = put_term(b, at)); at += 3) {
        if (!*at)
            return b->size == b->room;
        if (strncmp(at, " + ", 3) != 0)
            return false;
    }
    return false;
}

/* In memory of exactly that size, so that a sanitizer sees who reads on. NULL: the runner cannot make it. */
static unsigned char *make_file(run *r, size_t *size)
{
    const array *a = input_array(r, "file");
    if (!a || !a->bytes)
        return NULL;
    bytes b = {.data = malloc(a->count ? (size_t)a->count : 1), .room = (size_t)a->count};
    const json_t *json = json_object_get(json_object_get(r->part->json, "inputs"), "file");
    bool fine = b.data;
    if (fine && a->in_words)
        fine = build(&b, json_string_value(json_object_get(json, "build")));
    for (int64_t i = 0; fine && !a->in_words && i < a->count; i++)
        b.data[i] = (unsigned char)a->integers[i];
    if (!fine) {
        free(b.data);
        return NULL;
    }
    *size = b.room;
    return b.data;
}

/* ---- safetensors ------------------------------------------------------------------------------------------------- */

/* Every tensor of the file is wanted, and those that are wanted are there. */
static void give_tensors(run *r, const lab_safetensors *file)
{
    const char *name;
    json_t *expected;
    json_t *expectation = json_object_get(r->part->json, "expect");
    if (lab_safetensors_count(file) != (int64_t)json_object_size(expectation))
        fail(r, "the file has %lld tensors, %zu are wanted", (long long)lab_safetensors_count(file),
             json_object_size(expectation));
    json_object_foreach(expectation, name, expected)
    {
        lab_tensor *t;
        if (lab_safetensors_tensor(&t, file, name) != LAB_OK) {
            fail(r, "%s", lab_last_message());
            continue;
        }
        int64_t shape[LAB_MAX_RANK];
        for (int i = 0; i < lab_tensor_rank(t); i++)
            shape[i] = lab_tensor_size(t, i);
        give(r, name, lab_constant(r->g, lab_tensor_dtype(t), lab_tensor_rank(t), shape, lab_tensor_data(t)));
        lab_tensor_destroy(&t);
    }
}

void call_load_safetensors(run *r)
{
    size_t size = 0;
    lab_safetensors *file;
    unsigned char *data = make_file(r, &size);
    if (!data) {
        cannot(r, "the bytes of the file are described in words that the runner does not know");
        return;
    }
    lab_status status = lab_safetensors_from_memory(&file, data, size);
    if (status != LAB_OK)
        lab_graph_fail(r->g, status, "%s", lab_last_message());
    else
        give_tensors(r, file);
    lab_safetensors_close(&file);
    free(data);
}
