/* random.c - random numbers as a function of (seed, stream, index).
 *
 * An index's block is four 32-bit words: four elements of float, two of double.
 */
#include <math.h>

#include "kernels.h"

enum { WORDS = 4 };

/* The block of words number `block`. */
static void words_of(uint64_t seed, uint64_t stream, uint64_t block, uint32_t words[WORDS])
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
    lab__philox(counter, key, words);
}

/* The upper 53 bits of two words, the low one first. */
static uint64_t bits_53(const uint32_t *words)
{
    return ((uint64_t)words[1] << 32 | words[0]) >> 11;
}

/* All elements of a block. */
typedef void (*block_fn)(const uint32_t words[WORDS], double values[WORDS]);

static void uniform_f32(const uint32_t words[WORDS], double values[WORDS])
{
    for (int i = 0; i < 4; i++)
        values[i] = (double)(words[i] >> 8) * 0x1p-24;
}

static void uniform_f64(const uint32_t words[WORDS], double values[WORDS])
{
    for (int i = 0; i < 2; i++)
        values[i] = (double)bits_53(words + 2 * i) * 0x1p-53;
}

/* Box and Muller: two independent normal numbers from two uniform ones. 1 less the first is never 0. The angle is
 * taken from the nearest quarter turn, exactly, so that small results are as accurate as others. */
static void normal_pair(double values[2])
{
    const double half_pi = 1.5707963267948966192;
    double radius = sqrt(-2 * log(1 - values[0])), quarters = nearbyint(4 * values[1]);
    double angle = half_pi * (4 * values[1] - quarters), along = radius * cos(angle), across = radius * sin(angle);
    const double turned[5][2] = {
        {along, across}, {-across, along}, {-along, -across}, {across, -along}, {along, across}};
    values[0] = turned[(int)quarters][0];
    values[1] = turned[(int)quarters][1];
}

static void normal_f32(const uint32_t words[WORDS], double values[WORDS])
{
    uniform_f32(words, values);
    normal_pair(values);
    normal_pair(values + 2);
}

static void normal_f64(const uint32_t words[WORDS], double values[WORDS])
{
    uniform_f64(words, values);
    normal_pair(values);
}

static void fill(kernel_type type, int64_t n, void *y, uint64_t seed, uint64_t stream, int64_t first, block_fn fn)
{
    uint32_t words[WORDS];
    double values[WORDS];
    const int per_block = type == KERNEL_F32 ? 4 : 2;
    int64_t skipped = first % per_block;
    for (int64_t i = -skipped; i < n; i += per_block) {
        words_of(seed, stream, (uint64_t)(first + i) / (uint64_t)per_block, words);
        fn(words, values);
        for (int k = i < 0 ? (int)skipped : 0; k < per_block && i + k < n; k++)
            if (type == KERNEL_F32)
                ((float *)y)[i + k] = (float)values[k];
            else
                ((double *)y)[i + k] = values[k];
    }
}

void lab__kernel_uniform(kernel_type type, int64_t n, void *y, uint64_t seed, uint64_t stream, int64_t first)
{
    fill(type, n, y, seed, stream, first, type == KERNEL_F32 ? uniform_f32 : uniform_f64);
}

void lab__kernel_normal(kernel_type type, int64_t n, void *y, uint64_t seed, uint64_t stream, int64_t first)
{
    fill(type, n, y, seed, stream, first, type == KERNEL_F32 ? normal_f32 : normal_f64);
}
