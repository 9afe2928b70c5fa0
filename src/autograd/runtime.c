/* runtime.c - the library as a whole: version, threads, kernel level. */
#include "llmlab/runtime.h"

#include <stdio.h>
#include <string.h>

#include "../kernels/gemm.h"
#include "../kernels/kernels.h"
#include "../kernels/parallel.h"
#include "tensor_impl.h"
#include "version.h"

const char *lab_version(void)
{
    return LAB_VERSION;
}

size_t lab_info(char *buffer, size_t size)
{
    const kernel_table *kernels = lab__kernels();
    const char *core = lab__blas_core();
    int length = snprintf(
        buffer, buffer ? size : 0, "llm-lab %s, kernels %s (%d-bit vectors), %s%s%s%s, %s threading, %d thread%s",
        LAB_VERSION, kernels->level, kernels->vector_bits, lab__blas_name(), *core ? " (" : "", core, *core ? ")" : "",
        lab__blas_threading(), lab__parallel_threads(), lab__parallel_threads() == 1 ? "" : "s");
    return length < 0 ? 0 : (size_t)length;
}

lab_status lab_set_threads(int n)
{
    if (n < 0 || n > PARALLEL_MAX_THREADS)
        return lab__fail(LAB_ERR_RANGE, "lab_set_threads: %d threads, must be 0 (the default) to %d", n,
                         PARALLEL_MAX_THREADS);
    lab__parallel_set_threads(n);
    return LAB_OK;
}

int lab_get_threads(void)
{
    return lab__parallel_threads();
}

lab_status lab_set_kernel_level(const char *level)
{
    static const char *const names[] = {"plain", "avx2", "avx512", "neon"};
    if (lab__kernels_force(level))
        return LAB_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(level, names[i]) == 0)
            return lab__fail(LAB_ERR_UNSUPPORTED, "lab_set_kernel_level: this processor or build has no %s", level);
    return lab__fail(LAB_ERR_ARGUMENT, "lab_set_kernel_level: no level is called '%s' (avx512, avx2, neon, plain)",
                     level);
}

double lab_fma_peak(bool f64, double seconds)
{
    if (!(seconds > 0) || seconds > 60)
        return 0;
    return 1e9 * lab__kernels_fma_peak(lab__kernels(), f64 ? KERNEL_F64 : KERNEL_F32, seconds) *
           lab__parallel_threads();
}
