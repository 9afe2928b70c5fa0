/* tensor_inspect.c - questions about tensors, and the words that describe them. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "memory.h"
#include "tensor_impl.h"

const char *lab_dtype_name(lab_dtype dtype)
{
    switch (dtype) {
    case LAB_F32:
        return "f32";
    case LAB_F64:
        return "f64";
    case LAB_I64:
        return "i64";
    case LAB_BOOL:
        return "bool";
    }
    return "unknown";
}

size_t lab_dtype_size(lab_dtype dtype)
{
    switch (dtype) {
    case LAB_F32:
        return 4;
    case LAB_F64:
    case LAB_I64:
        return 8;
    case LAB_BOOL:
        return 1;
    }
    return 0;
}

bool lab__is_float(lab_dtype dtype)
{
    return dtype == LAB_F32 || dtype == LAB_F64;
}

bool lab__shape_bytes(lab_dtype dtype, int rank, const int64_t *shape, int64_t *numel, size_t *bytes)
{
    /* A size of 0 must not hide an overflow of the others: strides are made of them. */
    size_t count = 1, elements = 1;
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0 || !lab__multiply(count, (size_t)(shape[i] ? shape[i] : 1), &count))
            return false;
        elements *= (size_t)shape[i];
    }
    if (!lab__multiply(count, lab_dtype_size(dtype), &count) || count > PTRDIFF_MAX)
        return false;
    *numel = (int64_t)elements;
    *bytes = elements * lab_dtype_size(dtype);
    return true;
}

bool lab__is_contiguous(const lab_tensor *t)
{
    int64_t expected = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->shape[i] != 1 && t->strides[i] != expected)
            return t->numel == 0;
        expected *= t->shape[i];
    }
    return true;
}

int64_t lab__element_place(const lab_tensor *t, int64_t index)
{
    int64_t place = 0;
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        place += index % t->shape[axis] * t->strides[axis];
        index /= t->shape[axis];
    }
    return place;
}

bool lab__same_shape(const lab_tensor *a, const lab_tensor *b)
{
    return a->rank == b->rank && memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) == 0;
}

int lab__axis(int rank, int axis)
{
    if (axis < -rank || axis >= rank)
        return -1;
    return axis < 0 ? axis + rank : axis;
}

lab_dtype lab_tensor_dtype(const lab_tensor *t)
{
    return t ? t->dtype : LAB_F32;
}

int lab_tensor_rank(const lab_tensor *t)
{
    return t ? t->rank : 0;
}

int64_t lab_tensor_size(const lab_tensor *t, int axis)
{
    int i = t ? lab__axis(t->rank, axis) : -1;
    return i < 0 ? 0 : t->shape[i];
}

int64_t lab_tensor_stride(const lab_tensor *t, int axis)
{
    int i = t ? lab__axis(t->rank, axis) : -1;
    return i < 0 ? 0 : t->strides[i];
}

int64_t lab_tensor_numel(const lab_tensor *t)
{
    return t ? t->numel : 0;
}

void *lab_tensor_data(const lab_tensor *t)
{
    return t ? t->data : NULL;
}

/* ---- Words ------------------------------------------------------------------------------------------------------- */

enum { TEXTS = 8, TEXT_LENGTH = 200 };

static char *next_text(void)
{
    static _Thread_local char texts[TEXTS][TEXT_LENGTH];
    static _Thread_local int next;
    return texts[next++ % TEXTS];
}

static void write_shape(char *text, size_t size, int rank, const int64_t *shape)
{
    size_t length = 0;
    text[length++] = '[';
    for (int i = 0; i < rank; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%lld", i ? ", " : "", (long long)shape[i]);
    snprintf(text + length, size - length, "]");
}

const char *lab__shape_text(int rank, const int64_t *shape)
{
    char *text = next_text();
    write_shape(text, TEXT_LENGTH, rank, shape);
    return text;
}

const char *lab__tensor_text(const lab_tensor *t)
{
    char *text = next_text();
    int length = snprintf(text, TEXT_LENGTH, "%s ", lab_dtype_name(t->dtype));
    write_shape(text + length, TEXT_LENGTH - (size_t)length, t->rank, t->shape);
    return text;
}
