/* kernels.c - the table, filled from the lowest level up, and the choice of a level. */
#include "kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "level.h"

/* The levels of this build, upwards. */
typedef struct level {
    const char *name;
    int vector_bits;
    const kernel_part *part[KERNEL_TYPES];
} level;

static const level levels[] = {
    {"plain", 128, {&lab__kernel_plain_f32, &lab__kernel_plain_f64}},
#ifdef LAB_HAVE_NEON
    {"neon", 128, {&lab__kernel_neon_f32, &lab__kernel_neon_f64}},
#endif
#ifdef LAB_HAVE_AVX2
    {"avx2", 256, {&lab__kernel_avx2_f32, &lab__kernel_avx2_f64}},
#endif
#ifdef LAB_HAVE_AVX512
    {"avx512", 512, {&lab__kernel_avx512_f32, &lab__kernel_avx512_f64}},
#endif
};

enum { LEVELS = sizeof levels / sizeof levels[0] };

static pthread_once_t filled = PTHREAD_ONCE_INIT;
static kernel_table tables[LEVELS];
static bool present[LEVELS]; /* Whether this processor has the level. */
static _Atomic(const kernel_table *) in_use;
static const kernel_table *by_default; /* what the environment says, else the best */

/* On a Zen 5 many stores in a row keep the multipliers waiting, 19 cycles at the end of a high block and 4 of a low
 * one. An Intel's go out beside them: there, high blocks are 4 to 15 % faster at 32 and 64 steps, and as fast at 16. */
int lab__kernel_high_from = 80;

static void ask_processor(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (__builtin_cpu_is("intel"))
        lab__kernel_high_from = 0;
#endif
}

static bool processor_has(const char *name)
{
#if defined(__x86_64__) || defined(__i386__)
    if (strcmp(name, "avx2") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
#else
    (void)name;
#endif
    return true; /* plain; NEON, which is AArch64's baseline */
}

/* Where a part has nothing, what the table has already stays. */
static void fill_from(kernel_table *t, kernel_type type, const kernel_part *part)
{
    for (int i = 0; i < KERNEL_UNARY_COUNT; i++)
        if (part->unary[i])
            t->unary[type][i] = part->unary[i];
    for (int i = 0; i < KERNEL_BINARY_COUNT; i++)
        if (part->binary[i])
            t->binary[type][i] = part->binary[i];
    for (int i = 0; i < KERNEL_COMPARE_COUNT; i++)
        if (part->compare[i])
            t->compare[type][i] = part->compare[i];
    if (part->row.sum)
        t->row[type] = part->row;
    if (part->tile)
        t->tile[type] = part->tile;
    if (part->matvec)
        t->matvec[type] = part->matvec;
    if (part->panel.width)
        t->panel[type] = part->panel;
    if (part->query.scores)
        t->query[type] = part->query;
    if (part->norm.forward)
        t->norm[type] = part->norm;
    if (part->loss.forward)
        t->loss[type] = part->loss;
    if (part->rope)
        t->rope[type] = part->rope;
    for (int i = 0; i < KERNEL_GELU_KINDS; i++)
        if (part->gelu[i].forward)
            t->gelu[type][i] = part->gelu[i];
    for (int i = 0; i < KERNEL_RULE_COUNT; i++)
        if (part->step[i])
            t->step[type][i] = part->step[i];
}

static const kernel_table *best_table(void)
{
    int best = 0;
    for (int i = 0; i < LEVELS; i++)
        if (present[i])
            best = i;
    return &tables[best];
}

/* NULL if the processor lacks it, or there is none of that name. */
static const kernel_table *table_named(const char *name)
{
    for (int i = 0; i < LEVELS; i++)
        if (present[i] && strcmp(levels[i].name, name) == 0)
            return &tables[i];
    return NULL;
}

static void fill(void)
{
    kernel_table t = {0};
    ask_processor();
    fill_from(&t, KERNEL_F32, &lab__kernel_libm_f32);
    fill_from(&t, KERNEL_F64, &lab__kernel_libm_f64);
    for (int i = 0; i < LEVELS; i++) {
        present[i] = processor_has(levels[i].name);
        for (int type = 0; type < KERNEL_TYPES; type++)
            fill_from(&t, (kernel_type)type, levels[i].part[type]);
        t.level = levels[i].name;
        t.vector_bits = levels[i].vector_bits;
        tables[i] = t;
    }
    const char *asked = getenv("LAB_KERNELS");
    const kernel_table *chosen = asked ? table_named(asked) : NULL;
    by_default = chosen ? chosen : best_table();
    atomic_store(&in_use, by_default);
}

const kernel_table *lab__kernels(void)
{
    const kernel_table *t = atomic_load_explicit(&in_use, memory_order_acquire);
    if (t)
        return t;
    pthread_once(&filled, fill);
    return atomic_load(&in_use);
}

bool lab__kernels_force(const char *level)
{
    pthread_once(&filled, fill);
    const kernel_table *t = level ? table_named(level) : by_default;
    if (t)
        atomic_store(&in_use, t);
    return t != NULL;
}

const kernel_table *lab__kernels_level(int i, bool *end)
{
    pthread_once(&filled, fill);
    *end = i < 0 || i >= LEVELS;
    return *end || !present[i] ? NULL : &tables[i];
}

double lab__kernels_fma_peak(const kernel_table *table, kernel_type type, double seconds)
{
    return levels[table - tables].part[type]->fma_peak(seconds);
}
