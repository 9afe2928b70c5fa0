/* guarded.h - random numbers from one seed, and memory that notices what is written beside it: for kernel tests.
 *
 * The seed is printed when a test fails and accepted back in LAB_TEST_SEED.
 */
#ifndef LAB_TESTS_GUARDED_H
#define LAB_TESTS_GUARDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t guarded_seed(void);

/* A stream that is a function of the seed and of `name`. */
uint64_t guarded_stream(const char *name);
uint64_t guarded_next(uint64_t *stream);
int64_t guarded_below(uint64_t *stream, int64_t n); /* 0 <= result < n */
double guarded_uniform(uint64_t *stream);           /* in [-1, 1) */

/* `bytes` of memory, aligned to 64, filled with random bytes, and random bytes before and behind. */
typedef struct guarded {
    unsigned char *data;
    size_t bytes;
    unsigned char *whole, *copy;
} guarded;

guarded guarded_take(size_t bytes, uint64_t *stream);

/* Remembers the contents, to be compared by guarded_unchanged. */
void guarded_remember(guarded *g);

/* Whether nothing beside `data` was written; all of it if `inside_too`. */
bool guarded_unchanged(const guarded *g, bool inside_too);

/* The place at which byte `i` was when it was remembered. */
const unsigned char *guarded_remembered(const guarded *g);

void guarded_free(guarded *g);

#endif
