/* vector_avx2.h - the words of x86 with AVX2 and FMA: 32-byte vectors. */
#ifndef LAB_KERNELS_VECTOR_AVX2_H
#define LAB_KERNELS_VECTOR_AVX2_H

#define VECTOR_BYTES 32
#include "vector_types.h"

#include <immintrin.h>

static inline vec_f32 vec_max_f32(vec_f32 a, vec_f32 b)
{
    return _mm256_max_ps(a, b);
}

static inline vec_f64 vec_max_f64(vec_f64 a, vec_f64 b)
{
    return _mm256_max_pd(a, b);
}

static inline vec_f32 vec_min_f32(vec_f32 a, vec_f32 b)
{
    return _mm256_min_ps(a, b);
}

static inline vec_f64 vec_min_f64(vec_f64 a, vec_f64 b)
{
    return _mm256_min_pd(a, b);
}

static inline vec_f32 vec_sqrt_f32(vec_f32 x)
{
    return _mm256_sqrt_ps(x);
}

static inline vec_f64 vec_sqrt_f64(vec_f64 x)
{
    return _mm256_sqrt_pd(x);
}

static inline vec_f32 vec_fma_f32(vec_f32 a, vec_f32 b, vec_f32 c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vec_f64 vec_fma_f64(vec_f64 a, vec_f64 b, vec_f64 c)
{
    return _mm256_fmadd_pd(a, b, c);
}

/* a * b and its rounding error. */
static inline vec_f32 vec_two_product_f32(vec_f32 a, vec_f32 b, vec_f32 *error)
{
    vec_f32 product = a * b;
    *error = _mm256_fmsub_ps(a, b, product);
    return product;
}

static inline vec_f64 vec_two_product_f64(vec_f64 a, vec_f64 b, vec_f64 *error)
{
    vec_f64 product = a * b;
    *error = _mm256_fmsub_pd(a, b, product);
    return product;
}

static inline mask_f32 first_lanes_f32(int64_t n)
{
    const mask_f32 lane = {0, 1, 2, 3, 4, 5, 6, 7};
    return lane < (int32_t)n;
}

static inline mask_f64 first_lanes_f64(int64_t n)
{
    const mask_f64 lane = {0, 1, 2, 3};
    return lane < n;
}

static inline vec_f32 vec_load_part_f32(const float *x, int64_t n, vec_f32 rest)
{
    mask_f32 first = first_lanes_f32(n);
    return _mm256_blendv_ps(rest, _mm256_maskload_ps(x, (__m256i)first), (__m256)first);
}

static inline vec_f64 vec_load_part_f64(const double *x, int64_t n, vec_f64 rest)
{
    mask_f64 first = first_lanes_f64(n);
    return _mm256_blendv_pd(rest, _mm256_maskload_pd(x, (__m256i)first), (__m256d)first);
}

static inline void vec_store_part_f32(float *y, int64_t n, vec_f32 v)
{
    _mm256_maskstore_ps(y, (__m256i)first_lanes_f32(n), v);
}

static inline void vec_store_part_f64(double *y, int64_t n, vec_f64 v)
{
    _mm256_maskstore_pd(y, (__m256i)first_lanes_f64(n), v);
}

#define LEVEL_HAS_ANY 1

static inline bool vec_any_of_f32(mask_f32 m)
{
    return _mm256_movemask_ps((__m256)m) != 0;
}

static inline bool vec_any_of_f64(mask_f64 m)
{
    return _mm256_movemask_pd((__m256d)m) != 0;
}

/* Rows and columns exchanged: within the halves of vectors first, which costs half of what interleaving whole ones
 * does. */
#define LEVEL_TURNS 1

static inline void turn_f32(vec_f32 x[8])
{
    vec_f32 pairs[8], fours[8];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
        fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
        fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
        fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        x[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
        x[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
    }
}

static inline void turn_f64(vec_f64 x[4])
{
    vec_f64 pairs[4];
    for (int i = 0; i < 4; i += 2) {
        pairs[i] = _mm256_unpacklo_pd(x[i], x[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_pd(x[i], x[i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        x[i] = _mm256_permute2f128_pd(pairs[i], pairs[i + 2], 0x20);
        x[i + 2] = _mm256_permute2f128_pd(pairs[i], pairs[i + 2], 0x31);
    }
}

#endif
