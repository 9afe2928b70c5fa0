/* vector_neon.h - the words of AArch64: 16-byte vectors, fused multiply-adds. */
#ifndef LAB_KERNELS_VECTOR_NEON_H
#define LAB_KERNELS_VECTOR_NEON_H

#define VECTOR_BYTES 16
#include "vector_types.h"

#include "vector_part.h"

#include <arm_neon.h>

static inline vec_f32 vec_max_f32(vec_f32 a, vec_f32 b)
{
    return (vec_f32)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}

static inline vec_f64 vec_max_f64(vec_f64 a, vec_f64 b)
{
    return (vec_f64)vmaxq_f64((float64x2_t)a, (float64x2_t)b);
}

static inline vec_f32 vec_min_f32(vec_f32 a, vec_f32 b)
{
    return (vec_f32)vminq_f32((float32x4_t)a, (float32x4_t)b);
}

static inline vec_f64 vec_min_f64(vec_f64 a, vec_f64 b)
{
    return (vec_f64)vminq_f64((float64x2_t)a, (float64x2_t)b);
}

static inline vec_f32 vec_sqrt_f32(vec_f32 x)
{
    return (vec_f32)vsqrtq_f32((float32x4_t)x);
}

static inline vec_f64 vec_sqrt_f64(vec_f64 x)
{
    return (vec_f64)vsqrtq_f64((float64x2_t)x);
}

static inline vec_f32 vec_fma_f32(vec_f32 a, vec_f32 b, vec_f32 c)
{
    return (vec_f32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}

static inline vec_f64 vec_fma_f64(vec_f64 a, vec_f64 b, vec_f64 c)
{
    return (vec_f64)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}

/* a * b and its rounding error. */
static inline vec_f32 vec_two_product_f32(vec_f32 a, vec_f32 b, vec_f32 *error)
{
    vec_f32 product = a * b;
    *error = vec_fma_f32(a, b, -product);
    return product;
}

static inline vec_f64 vec_two_product_f64(vec_f64 a, vec_f64 b, vec_f64 *error)
{
    vec_f64 product = a * b;
    *error = vec_fma_f64(a, b, -product);
    return product;
}

#endif
