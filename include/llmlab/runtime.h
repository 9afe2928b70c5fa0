/* SPDX-License-Identifier: MIT
 * llmlab/runtime.h - the library as a whole: version, threads, memory, kernels.
 */

/** @file
 * The library as a whole. Settings belong to the process; what a setter refuses changes nothing, and lab_last_message()
 * has the sentence. Environment, read once, at first need: LAB_NUM_THREADS, LAB_KERNELS. What makes no sense in them
 * is as if they were not set; lab_info says what is in force.
 */
#ifndef LLMLAB_RUNTIME_H
#define LLMLAB_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The version of the library, such as "0.1.0"; a static string, not to be freed. */
LAB_API const char *lab_version(void);

/**
 * One paragraph on what runs here: version, kernel level, BLAS with its core and threading, threads.
 *
 * @param buffer  the caller's, receives as much as fits, ended by a zero byte; NULL: only the length is asked for
 * @param size    its length in bytes
 * @return the length of the whole text without the zero byte, as snprintf does
 */
LAB_API size_t lab_info(char *buffer, size_t size);

/**
 * How many threads the library uses at most, the caller included, from the next op on. Results do not depend on it.
 *
 * @param n  0 for the default: the environment's LAB_NUM_THREADS, else the processors this process may run on
 * @return LAB_OK, LAB_ERR_RANGE (below 0 or above 256)
 */
LAB_API LAB_CHECKED lab_status lab_set_threads(int n);

/** How many threads the library uses at most, the caller included; at least 1. */
LAB_API int lab_get_threads(void);

/**
 * How many floating-point operations a second fused multiply-adds reach at best, at the kernel level in use: measured
 * on the calling thread for about `seconds`, times the number of threads. What nothing can be faster than.
 *
 * @param f64      of doubles; else of floats
 * @param seconds  such as 0.05; 0 for a number that makes no sense
 */
LAB_API double lab_fma_peak(bool f64, double seconds);

/**
 * Where the library's memory comes from. All of it passes through here; BLAS allocates for itself. The default is the
 * C library's; from 2 MiB on blocks begin at a multiple of that and ask for huge pages (Linux: madvise, MADV_HUGEPAGE).
 */
typedef struct lab_allocator {
    void *(*allocate)(size_t bytes, size_t alignment, void *ctx); /**< NULL when there is no memory */
    void (*release)(void *memory, size_t bytes, void *ctx);
    void *ctx;
} lab_allocator;

/**
 * Replaces the allocator. To be called while nothing of the library is in use: memory goes back through the
 * allocator in force when it is given back.
 *
 * @param allocator  copied; NULL for the default
 * @return LAB_OK, LAB_ERR_ARGUMENT (one function missing)
 */
LAB_API LAB_CHECKED lab_status lab_set_allocator(const lab_allocator *allocator);

/**
 * Forces the kernel level; a level may give other bits than another, always the same ones itself. To be called while
 * nothing computes.
 *
 * @param level  "avx512", "avx2", "neon", "plain"; NULL for the environment's LAB_KERNELS, else the best there is
 * @return LAB_OK, LAB_ERR_ARGUMENT (no such name), LAB_ERR_UNSUPPORTED (not on this processor)
 */
LAB_API LAB_CHECKED lab_status lab_set_kernel_level(const char *level);

#ifdef __cplusplus
}
#endif
#endif
