/* guarded.c - random numbers from one seed, and memory that notices what is written beside it. */
#include "guarded.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BESIDE = 256 };

uint64_t guarded_seed(void)
{
    static uint64_t seed;
    static bool known;
    if (!known) {
        const char *text = getenv("LAB_TEST_SEED");
        seed = text ? strtoull(text, NULL, 10) : (uint64_t)time(NULL);
        known = true;
    }
    return seed;
}

uint64_t guarded_stream(const char *name)
{
    uint64_t stream = guarded_seed() + 1;
    for (; *name; name++)
        stream = (stream ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return stream;
}

/* splitmix64 */
uint64_t guarded_next(uint64_t *stream)
{
    uint64_t z = *stream += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t guarded_below(uint64_t *stream, int64_t n)
{
    return (int64_t)(guarded_next(stream) % (uint64_t)n);
}

double guarded_uniform(uint64_t *stream)
{
    return (double)(guarded_next(stream) >> 11) * 0x1p-52 - 1.0;
}

guarded guarded_take(size_t bytes, uint64_t *stream)
{
    size_t whole = (bytes + 63) / 64 * 64 + 2 * BESIDE;
    guarded g = {.bytes = bytes, .whole = aligned_alloc(64, whole), .copy = malloc(whole)};
    if (!g.whole || !g.copy)
        abort();
    for (size_t i = 0; i < whole; i += sizeof(uint64_t)) {
        uint64_t word = guarded_next(stream);
        memcpy(g.whole + i, &word, sizeof word);
    }
    g.data = g.whole + BESIDE;
    guarded_remember(&g);
    return g;
}

void guarded_remember(guarded *g)
{
    memcpy(g->copy, g->whole, (g->bytes + 63) / 64 * 64 + 2 * BESIDE);
}

bool guarded_unchanged(const guarded *g, bool inside_too)
{
    size_t end = BESIDE + g->bytes, whole = (g->bytes + 63) / 64 * 64 + 2 * BESIDE;
    return memcmp(g->whole, g->copy, inside_too ? whole : BESIDE) == 0 &&
           memcmp(g->whole + end, g->copy + end, whole - end) == 0;
}

const unsigned char *guarded_remembered(const guarded *g)
{
    return g->copy + BESIDE;
}

void guarded_free(guarded *g)
{
    free(g->whole);
    free(g->copy);
    g->whole = g->copy = g->data = NULL;
}
