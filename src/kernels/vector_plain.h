/* vector_plain.h - the words of the baseline's level: 16-byte vectors, no flags. */
#ifndef LAB_KERNELS_VECTOR_PLAIN_H
#define LAB_KERNELS_VECTOR_PLAIN_H

#define VECTOR_BYTES 16
#include "vector_types.h"

#include "vector_part.h"

#if defined(__SSE2__)
#include <emmintrin.h>

static inline vec_f32 vec_max_f32(vec_f32 a, vec_f32 b)
{
    return _mm_max_ps(a, b);
}

static inline vec_f64 vec_max_f64(vec_f64 a, vec_f64 b)
{
    return _mm_max_pd(a, b);
}

static inline vec_f32 vec_min_f32(vec_f32 a, vec_f32 b)
{
    return _mm_min_ps(a, b);
}

static inline vec_f64 vec_min_f64(vec_f64 a, vec_f64 b)
{
    return _mm_min_pd(a, b);
}

static inline vec_f32 vec_sqrt_f32(vec_f32 x)
{
    return _mm_sqrt_ps(x);
}

static inline vec_f64 vec_sqrt_f64(vec_f64 x)
{
    return _mm_sqrt_pd(x);
}

#else

static inline vec_f32 vec_max_f32(vec_f32 a, vec_f32 b)
{
    mask_f32 wins = a > b;
    return (vec_f32)(((mask_f32)a & wins) | ((mask_f32)b & ~wins));
}

static inline vec_f64 vec_max_f64(vec_f64 a, vec_f64 b)
{
    mask_f64 wins = a > b;
    return (vec_f64)(((mask_f64)a & wins) | ((mask_f64)b & ~wins));
}

static inline vec_f32 vec_min_f32(vec_f32 a, vec_f32 b)
{
    mask_f32 wins = a < b;
    return (vec_f32)(((mask_f32)a & wins) | ((mask_f32)b & ~wins));
}

static inline vec_f64 vec_min_f64(vec_f64 a, vec_f64 b)
{
    mask_f64 wins = a < b;
    return (vec_f64)(((mask_f64)a & wins) | ((mask_f64)b & ~wins));
}

static inline vec_f32 vec_sqrt_f32(vec_f32 x)
{
    for (int i = 0; i < LANES_f32; i++)
        x[i] = __builtin_sqrtf(x[i]);
    return x;
}

static inline vec_f64 vec_sqrt_f64(vec_f64 x)
{
    for (int i = 0; i < LANES_f64; i++)
        x[i] = __builtin_sqrt(x[i]);
    return x;
}

#endif

/* The baseline may have no fused multiply-add; this level's results do not ask for one. */
#define LEVEL_ROUNDS_TWICE 1

static inline vec_f32 vec_fma_f32(vec_f32 a, vec_f32 b, vec_f32 c)
{
    return a * b + c;
}

static inline vec_f64 vec_fma_f64(vec_f64 a, vec_f64 b, vec_f64 c)
{
    return a * b + c;
}

/* a * b and its rounding error (Dekker 1971), from halves whose products are exact (but for the last of f64's). */
static inline vec_f32 vec_two_product_f32(vec_f32 a, vec_f32 b, vec_f32 *error)
{
    vec_f32 a_high = (vec_f32)((mask_f32)a & -4096), b_high = (vec_f32)((mask_f32)b & -4096);
    vec_f32 a_low = a - a_high, b_low = b - b_high, product = a * b;
    *error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
    return product;
}

static inline vec_f64 vec_two_product_f64(vec_f64 a, vec_f64 b, vec_f64 *error)
{
    vec_f64 a_high = (vec_f64)((mask_f64)a & -134217728), b_high = (vec_f64)((mask_f64)b & -134217728);
    vec_f64 a_low = a - a_high, b_low = b - b_high, product = a * b;
    *error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
    return product;
}

#endif
