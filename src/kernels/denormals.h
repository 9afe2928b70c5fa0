/* denormals.h - stretches of work in which a result below the normal numbers, 1.2e-38 in float32 and 2.2e-308 in
 * float64, is 0. What is read is taken as it is.
 *
 * An Intel leaves its fast path for such a number: 36 ns for a vector's multiply-add where 0.2 would do, 60 for its
 * scaling by a power of two. An exponential of softmax is one where its score is 87 to 104 below the row's largest, and
 * is multiplied with a whole row of values: attention with scores of that range took 60 times as long. Other processors
 * do not need it.
 */
#ifndef LAB_KERNELS_DENORMALS_H
#define LAB_KERNELS_DENORMALS_H

#include <stdint.h>

#if defined(__SSE2__)
#include <xmmintrin.h>

/* The mode is the thread's own: what it was is put back at the end. Exceptions that were raised stay raised. */
static inline uint32_t lab__flush_begin(void)
{
    const uint32_t before = _mm_getcsr() & _MM_FLUSH_ZERO_MASK;
    _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON);
    return before;
}

static inline void lab__flush_end(uint32_t before)
{
    _mm_setcsr((_mm_getcsr() & ~(uint32_t)_MM_FLUSH_ZERO_MASK) | before);
}

#else

static inline uint32_t lab__flush_begin(void)
{
    return 0;
}

static inline void lab__flush_end(uint32_t before)
{
    (void)before;
}

#endif

#endif
