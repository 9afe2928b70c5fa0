/* support.c - the small words of nn_impl.h. */
#include "nn_impl.h"

#include <stdio.h>

lab_tensor *lab__number(lab_graph *g, const lab_tensor *like, double value)
{
    return lab_full(g, lab_tensor_dtype(like), 0, NULL, value);
}

lab_tensor *lab__whole(lab_graph *g, int64_t value)
{
    return lab_constant(g, LAB_I64, 0, NULL, &value);
}

lab_tensor *lab__count_along(lab_graph *g, int64_t n, int axis_from_end)
{
    lab_tensor *count = lab_arange(g, LAB_I64, 0, (double)n, 1);
    return axis_from_end == 1 ? count : lab_reshape(g, count, 2, (int64_t[]){n, 1});
}

int64_t lab__i64_at(const lab_tensor *t, int64_t index)
{
    return ((const int64_t *)lab_tensor_data(t))[lab__element_place(t, index)];
}

int64_t lab__row_place(const lab_tensor *t, int64_t row)
{
    int64_t place = 0;
    for (int axis = t->rank - 2; axis >= 0; axis--) {
        place += row % t->shape[axis] * t->strides[axis];
        row /= t->shape[axis];
    }
    return place;
}

int64_t lab__row_count(const lab_tensor *t)
{
    return t->rank > 0 ? lab__product(t->rank - 1, t->shape) : 1;
}

int64_t lab__row_length(const lab_tensor *t)
{
    return t->rank > 0 ? t->shape[t->rank - 1] : 1;
}

int64_t lab__row_stride(const lab_tensor *t)
{
    return t->rank > 0 ? t->strides[t->rank - 1] : 1;
}

int64_t lab__place_of_batch(const lab_tensor *t, const lab_tensor *q, int64_t index)
{
    int64_t place = 0;
    for (int axis = q->rank - 4; axis >= 0; axis--) {
        const int64_t at = index % q->shape[axis];
        const int own = axis - (q->rank - t->rank);
        index /= q->shape[axis];
        if (own >= 0 && t->shape[own] > 1)
            place += at * t->strides[own];
    }
    return place;
}

int64_t lab__product(int n, const int64_t *sizes)
{
    int64_t product = 1;
    for (int i = 0; i < n; i++)
        product *= sizes[i];
    return product;
}

bool lab__all_zero(const uint64_t reserved[8])
{
    for (int i = 0; i < 8; i++)
        if (reserved[i])
            return false;
    return true;
}

lab_tensor *lab__refuse_as_said(lab_graph *g, const char *name, lab_status status)
{
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", lab_last_message());
    return lab__refuse(g, name, status, "%s", sentence);
}
