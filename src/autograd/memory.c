/* memory.c - the allocation hook, the arena, and blocks by size class_index. */
#include "memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "llmlab/runtime.h"
#include "tensor_impl.h"

enum { HUGE_PAGE = 2 << 20 };

/* From a huge page on, memory begins with one and asks for them, which a system may give to those who do: a large
 * tensor has far more pages of 4 KiB than a processor remembers where they are. Where it does not begin with one,
 * little is gained (1 % for 4). A rest that is less than a huge page stays in small ones, and a system without them
 * says no, which is as well. What it costs: 2 MiB of addresses for each block, up to as much memory where a chunk is
 * not used to its end, and that up to 32 MiB malloc would have kept what now goes back to the system, 0.1 to 0.4 ms to
 * take anew. */
static void *default_allocate(size_t bytes, size_t alignment, void *context)
{
    (void)context;
    void *memory = NULL;
    const bool huge = bytes >= HUGE_PAGE;
    if (posix_memalign(&memory, huge ? HUGE_PAGE : alignment, bytes) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (huge)
        (void)madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
    return memory;
}

static void default_release(void *memory, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    free(memory);
}

static const lab_allocator default_allocator = {default_allocate, default_release, NULL};
static lab_allocator current_allocator = {default_allocate, default_release, NULL};

lab_status lab_set_allocator(const lab_allocator *allocator)
{
    if (allocator && (!allocator->allocate || !allocator->release))
        return lab__fail(LAB_ERR_ARGUMENT, "lab_set_allocator: %s is NULL",
                         allocator->allocate ? "release" : "allocate");
    current_allocator = allocator ? *allocator : default_allocator;
    return LAB_OK;
}

void *lab__allocate(size_t bytes)
{
    if (bytes > PTRDIFF_MAX)
        return NULL;
    return current_allocator.allocate(bytes ? bytes : 1, MEMORY_ALIGNMENT, current_allocator.ctx);
}

void lab__release(void *memory, size_t bytes)
{
    if (memory)
        current_allocator.release(memory, bytes ? bytes : 1, current_allocator.ctx);
}

bool lab__multiply(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool lab__add_sizes(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* ---- Arena ----------------------------------------------------------------------------------------------------- */

struct arena_chunk {
    struct arena_chunk *next;
    size_t size; /* of the memory behind the header */
    char padding[MEMORY_ALIGNMENT - sizeof(void *) - sizeof(size_t)];
    char memory[];
};

enum { ARENA_FIRST_CHUNK = 64 << 10 };
static const size_t arena_largest_step = (size_t)64 << 20;

/* A new chunk of at least `bytes` behind `after` (or as the first): sizes double up to a step, so that a graph of any
 * size needs few of them and none has to guess. A large request leaves room for the small ones that follow it, which
 * would else take a whole step. */
static struct arena_chunk *arena_grow(arena *a, struct arena_chunk *after, size_t bytes)
{
    size_t size = a->held < ARENA_FIRST_CHUNK ? (size_t)ARENA_FIRST_CHUNK : a->held;
    if (size > arena_largest_step)
        size = arena_largest_step;
    size_t total, roomy;
    if (!lab__add_sizes(bytes, bytes / 16, &roomy))
        return NULL;
    if (size < roomy)
        size = roomy;
    if (!lab__add_sizes(size, sizeof(struct arena_chunk), &total))
        return NULL;
    struct arena_chunk *chunk = lab__allocate(total);
    if (!chunk)
        return NULL;
    chunk->size = size;
    chunk->next = after ? after->next : a->first;
    if (after)
        after->next = chunk;
    else
        a->first = chunk;
    a->held += size;
    return chunk;
}

bool lab__arena_reserve(arena *a, size_t bytes)
{
    if (a->first || bytes == 0)
        return true;
    a->current = arena_grow(a, NULL, bytes);
    a->used = 0;
    return a->current != NULL;
}

void *lab__arena_take(arena *a, size_t bytes)
{
    size_t alignment = bytes >= MEMORY_ALIGNMENT ? MEMORY_ALIGNMENT : 16;
    struct arena_chunk *chunk = a->current;
    if (__builtin_expect(chunk != NULL, 1)) {
        size_t start = (a->used + alignment - 1) & ~(alignment - 1);
        if (start <= chunk->size && bytes <= chunk->size - start) {
            a->used = start + bytes;
            return chunk->memory + start;
        }
    }
    /* The same requests after a rewind meet the same chunks, so that a loop stops allocating after its first step. */
    struct arena_chunk *next = chunk ? chunk->next : a->first;
    if (!next || next->size < bytes) {
        next = arena_grow(a, chunk, bytes);
        if (!next)
            return NULL;
    }
    a->current = next;
    a->used = bytes;
    return next->memory;
}

arena_mark lab__arena_mark(const arena *a)
{
    return (arena_mark){a->current, a->used};
}

void lab__arena_rewind(arena *a, arena_mark mark)
{
    a->current = mark.chunk ? mark.chunk : a->first;
    a->used = mark.chunk ? mark.used : 0;
}

void lab__arena_reset(arena *a)
{
    a->current = a->first;
    a->used = 0;
}

void lab__arena_free(arena *a)
{
    for (struct arena_chunk *chunk = a->first, *next; chunk; chunk = next) {
        next = chunk->next;
        lab__release(chunk, chunk->size + sizeof *chunk);
    }
    *a = (arena){0};
}

/* ---- Blocks ---------------------------------------------------------------------------------------------------- */

struct block {
    struct block *next;
    size_t size;
    int class_index;
    char padding[MEMORY_ALIGNMENT - sizeof(void *) - sizeof(size_t) - sizeof(int)];
    char memory[];
};

/* Four classes to each doubling, from 64 bytes on: at most a fifth of a block is unused. */
static int block_class(size_t bytes, size_t *size)
{
    if (bytes <= MEMORY_ALIGNMENT) {
        *size = MEMORY_ALIGNMENT;
        return 0;
    }
    int top = 63 - __builtin_clzll(bytes - 1); /* 2^top <= bytes - 1 */
    size_t quarter = (size_t)1 << (top - 2);
    size_t steps = (bytes - ((size_t)1 << top) + quarter - 1) / quarter; /* 1 ... 4 */
    *size = ((size_t)1 << top) + steps * quarter;
    return (top - 6) * 4 + (int)steps;
}

void *lab__block_take(block_pool *pool, size_t bytes)
{
    if (bytes > PTRDIFF_MAX / 2)
        return NULL;
    size_t size;
    int class_index = block_class(bytes, &size);
    struct block *b = pool->free[class_index];
    if (b) {
        pool->free[class_index] = b->next;
        return b->memory;
    }
    b = lab__allocate(size + sizeof *b);
    if (!b)
        return NULL;
    b->size = size;
    b->class_index = class_index;
    pool->held += size;
    return b->memory;
}

void lab__block_give(block_pool *pool, void *memory)
{
    if (!memory)
        return;
    struct block *b = (struct block *)((char *)memory - sizeof(struct block));
    b->next = pool->free[b->class_index];
    pool->free[b->class_index] = b;
}

void lab__block_pool_free(block_pool *pool)
{
    for (int class_index = 0; class_index < BLOCK_CLASSES; class_index++)
        for (struct block *b = pool->free[class_index], *next; b; b = next) {
            next = b->next;
            lab__release(b, b->size + sizeof *b);
        }
    *pool = (block_pool){0};
}
