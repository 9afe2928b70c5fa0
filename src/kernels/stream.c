/* stream.c - copying past the cache: for results so large that nothing of them would still be there when they are
 * read. An ordinary store first fetches the line that it is about to overwrite, a third of the traffic of an add.
 */
#include <string.h>

#include "kernels.h"

#if defined(__SSE2__)
#include <emmintrin.h>

enum { LINE = 64 };

void lab__kernel_stream(size_t bytes, void *y, const void *x)
{
    char *to = y;
    const char *from = x;
    size_t head = (size_t)(-(uintptr_t)to % LINE);
    if (head > bytes)
        head = bytes;
    memcpy(to, from, head);
    for (bytes -= head, to += head, from += head; bytes >= LINE; bytes -= LINE, to += LINE, from += LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)from), b = _mm_loadu_si128((const __m128i *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(from + 32)), d = _mm_loadu_si128((const __m128i *)(from + 48));
        _mm_stream_si128((__m128i *)to, a);
        _mm_stream_si128((__m128i *)(to + 16), b);
        _mm_stream_si128((__m128i *)(to + 32), c);
        _mm_stream_si128((__m128i *)(to + 48), d);
    }
    memcpy(to, from, bytes);
}

void lab__kernel_stream_end(void)
{
    _mm_sfence();
}

#else

void lab__kernel_stream(size_t bytes, void *y, const void *x)
{
    memcpy(y, x, bytes);
}

void lab__kernel_stream_end(void)
{
}

#endif
