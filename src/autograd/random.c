/* random.c - random numbers written into tensors that exist already. */
#include "random.h"

#include "../kernels/kernels.h"

enum { PIECE = 256 };

static void fill_f32(lab_tensor *t, float factor, uint64_t seed, uint64_t stream)
{
    float piece[PIECE];
    bool contiguous = lab__is_contiguous(t);
    for (int64_t first = 0; first < t->numel; first += PIECE) {
        int64_t n = t->numel - first < PIECE ? t->numel - first : PIECE;
        lab__kernel_normal(KERNEL_F32, n, piece, seed, stream, first);
        for (int64_t i = 0; i < n; i++)
            ((float *)t->data)[contiguous ? first + i : lab__element_place(t, first + i)] = piece[i] * factor;
    }
}

static void fill_f64(lab_tensor *t, double factor, uint64_t seed, uint64_t stream)
{
    double piece[PIECE];
    bool contiguous = lab__is_contiguous(t);
    for (int64_t first = 0; first < t->numel; first += PIECE) {
        int64_t n = t->numel - first < PIECE ? t->numel - first : PIECE;
        lab__kernel_normal(KERNEL_F64, n, piece, seed, stream, first);
        for (int64_t i = 0; i < n; i++)
            ((double *)t->data)[contiguous ? first + i : lab__element_place(t, first + i)] = piece[i] * factor;
    }
}

void lab__tensor_fill_normal(lab_tensor *t, double factor, uint64_t seed, uint64_t stream)
{
    if (t->dtype == LAB_F32)
        fill_f32(t, (float)factor, seed, stream);
    else
        fill_f64(t, factor, seed, stream);
}
