/* vector_avx512.h - the words of x86 with AVX-512 (F, DQ, VL, BW): 64-byte vectors. */
#ifndef LAB_KERNELS_VECTOR_AVX512_H
#define LAB_KERNELS_VECTOR_AVX512_H

#define VECTOR_BYTES 64
#include "vector_types.h"

#include <immintrin.h>

static inline vec_f32 vec_max_f32(vec_f32 a, vec_f32 b)
{
    return _mm512_max_ps(a, b);
}

static inline vec_f64 vec_max_f64(vec_f64 a, vec_f64 b)
{
    return _mm512_max_pd(a, b);
}

static inline vec_f32 vec_min_f32(vec_f32 a, vec_f32 b)
{
    return _mm512_min_ps(a, b);
}

static inline vec_f64 vec_min_f64(vec_f64 a, vec_f64 b)
{
    return _mm512_min_pd(a, b);
}

static inline vec_f32 vec_sqrt_f32(vec_f32 x)
{
    return _mm512_sqrt_ps(x);
}

static inline vec_f64 vec_sqrt_f64(vec_f64 x)
{
    return _mm512_sqrt_pd(x);
}

static inline vec_f32 vec_fma_f32(vec_f32 a, vec_f32 b, vec_f32 c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vec_f64 vec_fma_f64(vec_f64 a, vec_f64 b, vec_f64 c)
{
    return _mm512_fmadd_pd(a, b, c);
}

/* a * b and its rounding error. */
static inline vec_f32 vec_two_product_f32(vec_f32 a, vec_f32 b, vec_f32 *error)
{
    vec_f32 product = a * b;
    *error = _mm512_fmsub_ps(a, b, product);
    return product;
}

static inline vec_f64 vec_two_product_f64(vec_f64 a, vec_f64 b, vec_f64 *error)
{
    vec_f64 product = a * b;
    *error = _mm512_fmsub_pd(a, b, product);
    return product;
}

/* The nearest integer, and x * 2^n for whole n, rounded once. */
#define LEVEL_HAS_SCALE 1

static inline vec_f32 vec_round_f32(vec_f32 x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vec_f64 vec_round_f64(vec_f64 x)
{
    return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vec_f32 vec_scale_f32(vec_f32 x, vec_f32 n)
{
    return _mm512_scalef_ps(x, n);
}

static inline vec_f64 vec_scale_f64(vec_f64 x, vec_f64 n)
{
    return _mm512_scalef_pd(x, n);
}

/* The same, and 0 where `of` is `least` or below. An Intel takes 60 ns for each vector that has a result below the
 * normal numbers, if it is 0 too; but not in a lane that is left out. */
static inline vec_f32 vec_scale_above_f32(vec_f32 x, vec_f32 n, vec_f32 of, vec_f32 least)
{
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(of, least, _CMP_NLE_UQ), x, n);
}

static inline vec_f64 vec_scale_above_f64(vec_f64 x, vec_f64 n, vec_f64 of, vec_f64 least)
{
    return _mm512_maskz_scalef_pd(_mm512_cmp_pd_mask(of, least, _CMP_NLE_UQ), x, n);
}

/* 0 <= n <= the number of lanes. */
static inline __mmask16 first_lanes_f32(int64_t n)
{
    return (__mmask16)((1U << n) - 1);
}

static inline __mmask8 first_lanes_f64(int64_t n)
{
    return (__mmask8)((1U << n) - 1);
}

static inline vec_f32 vec_load_part_f32(const float *x, int64_t n, vec_f32 rest)
{
    return _mm512_mask_loadu_ps(rest, first_lanes_f32(n), x);
}

static inline vec_f64 vec_load_part_f64(const double *x, int64_t n, vec_f64 rest)
{
    return _mm512_mask_loadu_pd(rest, first_lanes_f64(n), x);
}

static inline void vec_store_part_f32(float *y, int64_t n, vec_f32 v)
{
    _mm512_mask_storeu_ps(y, first_lanes_f32(n), v);
}

static inline void vec_store_part_f64(double *y, int64_t n, vec_f64 v)
{
    _mm512_mask_storeu_pd(y, first_lanes_f64(n), v);
}

#define LEVEL_HAS_ANY 1

static inline bool vec_any_of_f32(mask_f32 m)
{
    return _mm512_movepi32_mask((__m512i)m) != 0;
}

static inline bool vec_any_of_f64(mask_f64 m)
{
    return _mm512_movepi64_mask((__m512i)m) != 0;
}

/* Rows and columns of four vectors exchanged within each quarter. */
static inline void turn_quarters(const vec_f32 r[4], vec_f64 turned[4])
{
    const vec_f64 low = (vec_f64)_mm512_unpacklo_ps(r[0], r[1]), high = (vec_f64)_mm512_unpackhi_ps(r[0], r[1]);
    const vec_f64 low2 = (vec_f64)_mm512_unpacklo_ps(r[2], r[3]), high2 = (vec_f64)_mm512_unpackhi_ps(r[2], r[3]);
    turned[0] = _mm512_unpacklo_pd(low, low2);
    turned[1] = _mm512_unpackhi_pd(low, low2);
    turned[2] = _mm512_unpacklo_pd(high, high2);
    turned[3] = _mm512_unpackhi_pd(high, high2);
}

/* Rows and columns exchanged: within the quarters of vectors first, which costs less than interleaving whole ones
 * does; then quarters. */
#define LEVEL_TURNS 1

static inline void turn_f32(vec_f32 x[16])
{
    vec_f64 fours[16], halves[16];
    for (int i = 0; i < 16; i += 4)
        turn_quarters(x + i, fours + i);
    for (int i = 0; i < 4; i++) {
        halves[i] = _mm512_shuffle_f64x2(fours[i], fours[i + 4], 0x88);
        halves[i + 4] = _mm512_shuffle_f64x2(fours[i], fours[i + 4], 0xdd);
        halves[i + 8] = _mm512_shuffle_f64x2(fours[i + 8], fours[i + 12], 0x88);
        halves[i + 12] = _mm512_shuffle_f64x2(fours[i + 8], fours[i + 12], 0xdd);
    }
    for (int i = 0; i < 8; i++) {
        x[i] = (vec_f32)_mm512_shuffle_f64x2(halves[i], halves[i + 8], 0x88);
        x[i + 8] = (vec_f32)_mm512_shuffle_f64x2(halves[i], halves[i + 8], 0xdd);
    }
}

static inline void turn_f64(vec_f64 x[8])
{
    vec_f64 pairs[8], halves[8];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = _mm512_unpacklo_pd(x[i], x[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_pd(x[i], x[i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        halves[i] = _mm512_shuffle_f64x2(pairs[i], pairs[i + 2], 0x88);
        halves[i + 2] = _mm512_shuffle_f64x2(pairs[i], pairs[i + 2], 0xdd);
        halves[i + 4] = _mm512_shuffle_f64x2(pairs[i + 4], pairs[i + 6], 0x88);
        halves[i + 6] = _mm512_shuffle_f64x2(pairs[i + 4], pairs[i + 6], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_shuffle_f64x2(halves[i], halves[i + 4], 0x88);
        x[i + 4] = _mm512_shuffle_f64x2(halves[i], halves[i + 4], 0xdd);
    }
}

/* The same from memory, row by row at x: vectors are loaded in halves, of rows that are half the vectors apart, which
 * saves a stage. Worth it where nothing else keeps the loads busy. */
#define LEVEL_TURNS_ROWS 1

static inline vec_f64 load_halves(const void *low, const void *high)
{
    return _mm512_mask_broadcast_f64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(low)), 0xf0, _mm256_loadu_pd(high));
}

static inline vec_f64 even_quarters(vec_f64 a, vec_f64 b)
{
    return _mm512_permutex2var_pd(a, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), b);
}

static inline vec_f64 odd_quarters(vec_f64 a, vec_f64 b)
{
    return _mm512_permutex2var_pd(a, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), b);
}

static inline void turn_rows_f32(vec_f32 y[16], const float *x, int64_t row)
{
    for (int h = 0; h < 16; h += 8) {
        vec_f64 fours[8];
        for (int i = 0; i < 8; i += 4) {
            vec_f32 r[4];
            for (int j = 0; j < 4; j++)
                r[j] = (vec_f32)load_halves(x + (i + j) * row + h, x + (i + j + 8) * row + h);
            turn_quarters(r, fours + i);
        }
        for (int i = 0; i < 4; i++) {
            y[h + i] = (vec_f32)even_quarters(fours[i], fours[i + 4]);
            y[h + i + 4] = (vec_f32)odd_quarters(fours[i], fours[i + 4]);
        }
    }
}

static inline void turn_rows_f64(vec_f64 y[8], const double *x, int64_t row)
{
    for (int h = 0; h < 8; h += 4) {
        vec_f64 pairs[4];
        for (int i = 0; i < 4; i += 2) {
            const vec_f64 a = load_halves(x + i * row + h, x + (i + 4) * row + h);
            const vec_f64 b = load_halves(x + (i + 1) * row + h, x + (i + 5) * row + h);
            pairs[i] = _mm512_unpacklo_pd(a, b);
            pairs[i + 1] = _mm512_unpackhi_pd(a, b);
        }
        for (int i = 0; i < 2; i++) {
            y[h + i] = even_quarters(pairs[i], pairs[i + 2]);
            y[h + i + 2] = odd_quarters(pairs[i], pairs[i + 2]);
        }
    }
}

#endif
