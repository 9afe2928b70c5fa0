/* denormals.c - pieces of work in which numbers below the normal ones, 1.2e-38 in float32 and 2.2e-308 in float64,
 * count as 0, read or computed.
 *
 * An Intel leaves its fast path for such a number: 36 ns for a vector's multiply-add where 0.2 would do, 60 for its
 * scaling by a power of two. An exponential of softmax lies there when its score is 87 to 104 below the row's largest,
 * and is multiplied with a whole row of values: attention with scores of that range took 60 times as long.
 */
#include "parallel.h"

#if defined(__SSE2__)
#include <xmmintrin.h>

typedef unsigned int mode;
enum { DENORMALS_ARE_ZERO = 0x40, FLUSH_TO_ZERO = 0x8000 };

static mode flush(void)
{
    const mode before = _mm_getcsr();
    _mm_setcsr(before | DENORMALS_ARE_ZERO | FLUSH_TO_ZERO);
    return before;
}

static void restore(mode before)
{
    _mm_setcsr(before);
}

#elif defined(__aarch64__)

typedef uint64_t mode;
static const mode flush_to_zero = (mode)1 << 24; /* FPCR.FZ: what is read, too */

static mode flush(void)
{
    mode before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | flush_to_zero) : "memory");
    return before;
}

static void restore(mode before)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(before) : "memory");
}

#else

typedef int mode;

static mode flush(void)
{
    return 0;
}

static void restore(mode before)
{
    (void)before;
}

#endif

typedef struct work {
    parallel_fn fn;
    void *context;
} work;

/* The mode is a thread's own, and a piece may run in its caller's: so it is put back after each. */
static void run_piece(void *context, int64_t piece, int worker)
{
    const work *w = context;
    const mode before = flush();
    w->fn(w->context, piece, worker);
    restore(before);
}

void lab__parallel_run_flushed(int workers, int64_t pieces, parallel_fn fn, void *context)
{
    work w = {fn, context};
    lab__parallel_run_within(workers, pieces, run_piece, &w);
}
