/* train_bench_memory.c - how fast memory is read and copied by as many threads as the rows have.
 *
 * memcpy alone is too low a bar: where it does not write past the caches, every line that it writes is read first. So a
 * copy that does is tried beside it, and the faster one counts.
 */
#include "train_bench.h"

#include <math.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "autograd/memory.h"
#include "kernels/parallel.h"

enum { COPY_LINE = 64, COPY_STREAMS = 2, COPY_AHEAD = 1024 };
static const size_t memory_bytes = (size_t)256 << 20; /* of each */

typedef struct stretch {
    char *from, *to;
    size_t each;
    bench_case timed;
} stretch;

static stretch reading, copying;

static char *touched(void)
{
    char *memory = lab__allocate(memory_bytes + COPY_AHEAD);
    if (memory)
        memset(memory, 1, memory_bytes + COPY_AHEAD);
    return memory;
}

static void read_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const stretch *s = context;
    const uint64_t seen = bench_read_memory(s->from + (size_t)piece * s->each, s->each);
    __asm__ volatile("" : : "r"(seen));
}

static void copy_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const stretch *s = context;
    const size_t at = (size_t)piece * s->each;
    memcpy(s->to + at, s->from + at, s->each);
    __asm__ volatile("" : : "r"(s->to) : "memory");
}

#ifdef __SSE2__
static void stream_line(char *to, const char *from)
{
    __m128i *t = (__m128i *)to;
    const __m128i *f = (const __m128i *)from;
    for (int i = 0; i < COPY_LINE / (int)sizeof *f; i++)
        _mm_stream_si128(t + i, _mm_load_si128(f + i));
}

static void stream_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const stretch *s = context;
    const size_t part = s->each / COPY_STREAMS, first = (size_t)piece * s->each;
    for (size_t at = first; at < first + part; at += COPY_LINE)
        for (size_t stream = 0; stream < COPY_STREAMS; stream++) {
            const char *from = s->from + stream * part + at;
            __builtin_prefetch(from + COPY_AHEAD);
            stream_line(s->to + stream * part + at, from);
        }
    _mm_sfence();
}
#endif

static double time_pieces(stretch *s, parallel_fn fn)
{
    const double start = bench_now();
    lab__parallel_run(lab_get_threads(), fn, s);
    return bench_now() - start;
}

/* Seconds per byte that is moved. */
static double sample(void *context)
{
    stretch *s = context;
    const int threads = lab_get_threads();
    const bool copies = s == &copying;
    if (!s->from)
        s->from = touched();
    if (copies && !s->to)
        s->to = touched();
    if (!s->from || (copies && !s->to))
        return -1;
    s->each = memory_bytes / (size_t)threads / 4096 * 4096;
    double seconds = time_pieces(s, copies ? copy_piece : read_piece);
#ifdef __SSE2__
    if (copies)
        seconds = fmin(seconds, time_pieces(s, stream_piece));
#endif
    return seconds / ((copies ? 2 : 1) * (double)s->each * threads);
}

int train_memory_cases(bench_case **cases)
{
    cases[0] = &reading.timed;
    cases[1] = &copying.timed;
    for (int i = 0; i < TRAIN_MEMORY_CASES; i++)
        *cases[i] = (bench_case){.sample = sample, .context = i ? &copying : &reading};
    return TRAIN_MEMORY_CASES;
}

static double gigabytes(stretch *s)
{
    const double seconds = bench_statistics_of(&s->timed).min;
    lab__release(s->from, memory_bytes + COPY_AHEAD);
    lab__release(s->to, memory_bytes + COPY_AHEAD);
    s->from = s->to = NULL;
    return seconds > 0 ? 1e-9 / seconds : 0;
}

void train_memory_read(double *read_gbs, double *copy_gbs)
{
    *read_gbs = gigabytes(&reading);
    *copy_gbs = gigabytes(&copying);
}
