/* fused.c - what the fused ops of rows share (fused.h). */
#include "fused.h"

#include <string.h>

enum { PIECE_ELEMENTS = 16384, ROWS_AT_ONCE = 32, ALIGNMENT = 64, MOST_OPERANDS = 8 };

lab_status lab__twin_vjp(lab_graph *g, lab_vjp_call *call, lab_tensor *y)
{
    lab_tensor *wanted[MOST_OPERANDS], *grads[MOST_OPERANDS];
    int count = 0;
    for (int i = 0; i < call->n_in; i++)
        if (call->wants[i])
            wanted[count++] = call->in[i];
    if (lab_grad(g, y, call->grad_out[0], count, wanted, grads, &(lab_grad_opts){.create_graph = true}) != LAB_OK)
        return lab_graph_status(g);
    for (int i = 0, n = 0; i < call->n_in; i++)
        if (call->wants[i])
            call->grad_in[i] = grads[n++];
    return LAB_OK;
}

/* ---- Rows ------------------------------------------------------------------------------------------------------------ */

static bool is_dense(const lab_tensor *t)
{
    return lab__row_length(t) <= 1 || lab__row_stride(t) == 1;
}

lab_tensor *lab__dense_rows(lab_graph *g, lab_tensor *x)
{
    return x && !is_dense(x) ? lab_contiguous(g, x) : x;
}

row_view lab__rows_of(const lab_tensor *t)
{
    row_view v = {.tensor = t};
    if (!t)
        return v;
    v.size = lab_dtype_size(t->dtype);
    if (lab__is_contiguous(t))
        v.step = lab__row_length(t);
    else if (t->rank == 2)
        v.step = t->strides[0];
    return v;
}

size_t lab__stand_in_bytes(const lab_tensor *t)
{
    if (!t || is_dense(t))
        return 0;
    return ((size_t)t->numel * lab_dtype_size(t->dtype) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void stand_in(row_stand_in *s, const lab_tensor *t, char **scratch)
{
    s->copy = (lab_tensor){0};
    lab__tensor_describe(&s->copy, t->dtype, t->rank, t->shape, NULL);
    s->copy.data = *scratch;
    *scratch += lab__stand_in_bytes(t);
}

row_view lab__gradient_rows(row_stand_in *s, const lab_tensor *gradient, char **scratch)
{
    s->place = NULL;
    if (is_dense(gradient))
        return lab__rows_of(gradient);
    stand_in(s, gradient, scratch);
    lab__tensor_copy(&s->copy, gradient);
    return lab__rows_of(&s->copy);
}

row_view lab__place_rows(row_stand_in *s, const lab_place *place, bool *add, char **scratch)
{
    s->place = NULL;
    *add = place->add;
    if (!place->tensor || is_dense(place->tensor))
        return lab__rows_of(place->tensor);
    stand_in(s, place->tensor, scratch);
    s->place = place->tensor;
    s->add = place->add;
    *add = false;
    return lab__rows_of(&s->copy);
}

void lab__place_settle(row_stand_in *s)
{
    if (!s->place)
        return;
    if (s->add)
        lab__tensor_accumulate(s->place, &s->copy);
    else
        lab__tensor_copy(s->place, &s->copy);
}

/* ---- Pieces ---------------------------------------------------------------------------------------------------------- */

int64_t lab__rows_per_piece(int64_t rows, int64_t length, int64_t most)
{
    int64_t fewest = (rows + most - 1) / most, worth = length > 0 ? PIECE_ELEMENTS / length : PIECE_ELEMENTS;
    int64_t n = worth > fewest ? worth : fewest;
    return n > 0 ? n : 1;
}

int64_t lab__sums_step(int64_t numbers)
{
    return (2 * numbers + 7) / 8 * 8;
}

row_sums lab__sums_begin(double *memory, int64_t numbers, size_t size)
{
    if (numbers > 0)
        memset(memory, 0, (size_t)lab__sums_step(numbers) * sizeof *memory);
    return (row_sums){
        .numbers = numbers, .size = size, .sums = memory, .few = numbers > 0 ? (char *)(memory + numbers) : NULL};
}

void lab__sums_end(row_sums *s)
{
    if (s->size == sizeof(double))
        for (int64_t j = 0; j < s->numbers; j++)
            s->sums[j] += ((double *)(void *)s->few)[j];
    else
        for (int64_t j = 0; j < s->numbers; j++)
            s->sums[j] += (double)((float *)(void *)s->few)[j];
    if (s->numbers > 0)
        memset(s->few, 0, (size_t)s->numbers * s->size);
}

void lab__sums_row(row_sums *s)
{
    if (++s->rows % ROWS_AT_ONCE == 0)
        lab__sums_end(s);
}

void lab__place_piece_sums(const lab_place *place, int64_t pieces, const double *sums, int64_t step)
{
    lab_tensor *t = place->tensor;
    if (!t)
        return;
    for (int64_t j = 0; j < t->numel; j++) {
        double sum = 0;
        for (int64_t i = 0; i < pieces; i++)
            sum += sums[i * step + j];
        int64_t at = j * t->strides[0];
        if (t->dtype == LAB_F64)
            ((double *)t->data)[at] = place->add ? ((double *)t->data)[at] + sum : sum;
        else
            ((float *)t->data)[at] = (float)(place->add ? ((float *)t->data)[at] + sum : sum);
    }
}
