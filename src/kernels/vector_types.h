/* vector_types.h - the vector types of a level; its header defines VECTOR_BYTES and then includes this. */
#ifndef LAB_KERNELS_VECTOR_TYPES_H
#define LAB_KERNELS_VECTOR_TYPES_H

#include <stdint.h>

#define VECTOR __attribute__((vector_size(VECTOR_BYTES)))

typedef float vec_f32 VECTOR;
typedef double vec_f64 VECTOR;
/* What a comparison gives: 0 or -1 in each lane. */
typedef int32_t mask_f32 VECTOR;
typedef int64_t mask_f64 VECTOR;
typedef uint32_t bits_f32 VECTOR;
typedef uint64_t bits_f64 VECTOR;

enum { LANES_f32 = VECTOR_BYTES / 4, LANES_f64 = VECTOR_BYTES / 8 };

/* The first half of a and b, element by element in turn, and the second; and back: what stands at even places, at odd
 * ones. */
#if VECTOR_BYTES == 64
#define LOW_f32  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_f32 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW_f64  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_f64 4, 12, 5, 13, 6, 14, 7, 15
#define EVEN_f32 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_f32  1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define EVEN_f64 0, 2, 4, 6, 8, 10, 12, 14
#define ODD_f64  1, 3, 5, 7, 9, 11, 13, 15
#elif VECTOR_BYTES == 32
#define LOW_f32  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_f32 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_f64  0, 4, 1, 5
#define HIGH_f64 2, 6, 3, 7
#define EVEN_f32 0, 2, 4, 6, 8, 10, 12, 14
#define ODD_f32  1, 3, 5, 7, 9, 11, 13, 15
#define EVEN_f64 0, 2, 4, 6
#define ODD_f64  1, 3, 5, 7
#else
#define LOW_f32  0, 4, 1, 5
#define HIGH_f32 2, 6, 3, 7
#define LOW_f64  0, 2
#define HIGH_f64 1, 3
#define EVEN_f32 0, 2, 4, 6
#define ODD_f32  1, 3, 5, 7
#define EVEN_f64 0, 2
#define ODD_f64  1, 3
#endif

static inline vec_f32 interleave_low_f32(vec_f32 a, vec_f32 b)
{
    return __builtin_shufflevector(a, b, LOW_f32);
}

static inline vec_f32 interleave_high_f32(vec_f32 a, vec_f32 b)
{
    return __builtin_shufflevector(a, b, HIGH_f32);
}

static inline vec_f64 interleave_low_f64(vec_f64 a, vec_f64 b)
{
    return __builtin_shufflevector(a, b, LOW_f64);
}

static inline vec_f64 interleave_high_f64(vec_f64 a, vec_f64 b)
{
    return __builtin_shufflevector(a, b, HIGH_f64);
}

static inline vec_f32 even_places_f32(vec_f32 a, vec_f32 b)
{
    return __builtin_shufflevector(a, b, EVEN_f32);
}

static inline vec_f32 odd_places_f32(vec_f32 a, vec_f32 b)
{
    return __builtin_shufflevector(a, b, ODD_f32);
}

static inline vec_f64 even_places_f64(vec_f64 a, vec_f64 b)
{
    return __builtin_shufflevector(a, b, EVEN_f64);
}

static inline vec_f64 odd_places_f64(vec_f64 a, vec_f64 b)
{
    return __builtin_shufflevector(a, b, ODD_f64);
}

#undef LOW_f32
#undef HIGH_f32
#undef LOW_f64
#undef HIGH_f64
#undef EVEN_f32
#undef ODD_f32
#undef EVEN_f64
#undef ODD_f64

#endif
