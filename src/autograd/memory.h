/* memory.h - where every byte of the library comes from.
 *
 * Three shapes of it: the replaceable hook; an arena that only grows and is rewound, for what lives until reset; and
 * blocks of a few size classes that go back at their last use, for what backward needs for a while.
 */
#ifndef LAB_AUTOGRAD_MEMORY_H
#define LAB_AUTOGRAD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEMORY_ALIGNMENT = 64 };

/* The hook. Memory is not initialised; NULL when there is none (or bytes is absurd). */
void *lab__allocate(size_t bytes);
void lab__release(void *memory, size_t bytes);

/* *out = a * b, or a + b; false on overflow. The one place where sizes are multiplied. */
bool lab__multiply(size_t a, size_t b, size_t *out);
bool lab__add_sizes(size_t a, size_t b, size_t *out);

/* ---- Arena ----------------------------------------------------------------------------------------------------- */

struct arena_chunk;

typedef struct arena {
    struct arena_chunk *first, *current;
    size_t used; /* bytes taken of the current chunk */
    size_t held; /* bytes of all chunks */
} arena;

typedef struct arena_mark {
    struct arena_chunk *chunk;
    size_t used;
} arena_mark;

bool lab__arena_reserve(arena *a, size_t bytes);
/* Aligned to 16, or to 64 from 64 bytes on. NULL when out of memory. */
void *lab__arena_take(arena *a, size_t bytes);
arena_mark lab__arena_mark(const arena *a);
void lab__arena_rewind(arena *a, arena_mark mark);
void lab__arena_reset(arena *a);
void lab__arena_free(arena *a);

/* ---- Blocks ---------------------------------------------------------------------------------------------------- */

enum { BLOCK_CLASSES = 256 };

struct block;

/* Free lists by size class, last in first out, so that memory stays warm in cache. */
typedef struct block_pool {
    struct block *free[BLOCK_CLASSES];
    size_t held;
} block_pool;

/* Aligned to 64; NULL when out of memory. */
void *lab__block_take(block_pool *pool, size_t bytes);
void lab__block_give(block_pool *pool, void *memory);
/* Frees the free blocks; those still out must have come back. */
void lab__block_pool_free(block_pool *pool);

#endif
