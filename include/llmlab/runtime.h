/* SPDX-License-Identifier: MIT
 * llmlab/runtime.h - the library as a whole: version, threads, memory, kernels.
 */
#ifndef LLMLAB_RUNTIME_H
#define LLMLAB_RUNTIME_H

#include <stddef.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The version of the library, such as "0.1.0"; a static string. */
LAB_API const char *lab_version(void);

/**
 * One paragraph on what runs here: version, kernel level, BLAS with its core and threading, threads.
 *
 * @return the length of the text, as snprintf does; `buffer` may be NULL when `size` is 0
 */
LAB_API size_t lab_info(char *buffer, size_t size);

/**
 * How many threads the library uses at most, the caller included. Results do not depend on it.
 *
 * @param n  0 for the default: the environment's LAB_NUM_THREADS, else the processors this process may run on
 * @return LAB_OK, LAB_ERR_RANGE (below 0 or above 256)
 */
LAB_API LAB_CHECKED lab_status lab_set_threads(int n);

/** How many threads the library uses at most. */
LAB_API int lab_get_threads(void);

/** Where the library's memory comes from. All of it passes through here; BLAS allocates for itself. */
typedef struct lab_allocator {
    void *(*allocate)(size_t bytes, size_t alignment, void *ctx); /* NULL when there is no memory */
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
 * Forces the kernel level; a level may give other bits than another, always the same ones itself.
 *
 * @param level  "avx512", "avx2", "neon", "plain"; NULL for the environment's LAB_KERNELS, else the best there is
 * @return LAB_OK, LAB_ERR_ARGUMENT (no such name), LAB_ERR_UNSUPPORTED (not on this processor)
 */
LAB_API LAB_CHECKED lab_status lab_set_kernel_level(const char *level);

#ifdef __cplusplus
}
#endif
#endif
