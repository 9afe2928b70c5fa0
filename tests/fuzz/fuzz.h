/* fuzz.h - a fuzz target is a function of bytes. libFuzzer (clang, -Dfuzz=true) searches for bytes that break it;
 * replay.c feeds it kept files and random bytes, so that it also runs as a test with any compiler.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Decisions, read from the bytes; 0 when they are used up. */
typedef struct bytes {
    const uint8_t *data;
    size_t size;
} bytes;

static inline uint8_t next_byte(bytes *b)
{
    if (b->size == 0)
        return 0;
    b->size--;
    return *b->data++;
}

/* 0 ... n - 1 */
static inline int choose(bytes *b, int n)
{
    return next_byte(b) % n;
}

/* A finding ends the program: libFuzzer keeps the bytes, the test fails. */
#define FOUND(...)                                                                                                     \
    do {                                                                                                               \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fputc('\n', stderr);                                                                                           \
        abort();                                                                                                       \
    } while (0)

#endif
