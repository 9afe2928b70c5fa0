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

#endif
