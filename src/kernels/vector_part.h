/* vector_part.h - the first n lanes of a vector, for levels whose processors have no loads and stores by mask. */
#ifndef LAB_KERNELS_VECTOR_PART_H
#define LAB_KERNELS_VECTOR_PART_H

#include "vector_types.h"

static inline vec_f32 vec_load_part_f32(const float *x, int64_t n, vec_f32 rest)
{
    for (int i = 0; i < LANES_f32; i++)
        if (i < n)
            rest[i] = x[i];
    return rest;
}

static inline vec_f64 vec_load_part_f64(const double *x, int64_t n, vec_f64 rest)
{
    for (int i = 0; i < LANES_f64; i++)
        if (i < n)
            rest[i] = x[i];
    return rest;
}

static inline void vec_store_part_f32(float *y, int64_t n, vec_f32 v)
{
    for (int i = 0; i < LANES_f32; i++)
        if (i < n)
            y[i] = v[i];
}

static inline void vec_store_part_f64(double *y, int64_t n, vec_f64 v)
{
    for (int i = 0; i < LANES_f64; i++)
        if (i < n)
            y[i] = v[i];
}

#endif
