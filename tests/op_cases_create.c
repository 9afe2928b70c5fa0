/* op_cases_create.c - ops that make tensors out of nothing. */
#include "op_cases.h"

enum { SEED = 77 };

/* Philox 4x32-10, written from the paper (Salmon et al. 2011, section 3.3 and table 2). */
static void philox(uint64_t seed, uint64_t block, uint32_t out[4])
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t x[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
    for (int round = 0; round < 10; round++) {
        uint64_t first = (uint64_t)0xD2511F53 * x[0], second = (uint64_t)0xCD9E8D57 * x[2];
        uint32_t next[4] = {(uint32_t)(second >> 32) ^ x[1] ^ key[0], (uint32_t)second,
                            (uint32_t)(first >> 32) ^ x[3] ^ key[1], (uint32_t)first};
        for (int i = 0; i < 4; i++)
            x[i] = next[i];
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    for (int i = 0; i < 4; i++)
        out[i] = x[i];
}

/* Uniform number i: one word in f32, two in f64 (the first is the low half). */
static long double uniform(lab_dtype type, uint64_t seed, uint64_t i)
{
    uint32_t word[4];
    if (type == LAB_F32) {
        philox(seed, i / 4, word);
        return ldexpl(word[i % 4] >> 8, -24);
    }
    philox(seed, i / 2, word);
    uint64_t both = (uint64_t)word[i % 2 * 2 + 1] << 32 | word[i % 2 * 2];
    return ldexpl((long double)(both >> 11), -53);
}

static void reference_rand(const op_case *c, const array *xs, array *y)
{
    (void)xs;
    array_make(y, c->args.dtype, c->args.n, c->args.numbers);
    for (int64_t i = 0; i < y->numel; i++)
        y->data[i] = uniform(y->dtype, SEED, (uint64_t)i);
}

/* Measured by the largest, as the angle's rounding counts where its cosine is nearly 0.
 * Box and Muller: a pair of normals from a pair of uniforms, of which the first is taken from 1 so that it is not 0. */
static void reference_randn(const op_case *c, const array *xs, array *y)
{
    (void)xs;
    array_make(y, c->args.dtype, c->args.n, c->args.numbers);
    for (int64_t i = 0; i < y->numel; i++) {
        uint64_t first = (uint64_t)i & ~(uint64_t)1;
        long double radius = sqrtl(-2 * logl(1 - uniform(y->dtype, SEED, first)));
        long double angle = 2 * acosl(-1) * uniform(y->dtype, SEED, first + 1);
        y->data[i] = radius * (i % 2 ? sinl(angle) : cosl(angle));
    }
}

static long double made_up(lab_dtype dtype, int64_t i)
{
    return dtype == LAB_BOOL ? i % 3 == 1 : dtype == LAB_I64 ? 7 * i - 5 : 0.75L * i - 2;
}

static void reference_constant(const op_case *c, const array *xs, array *y)
{
    (void)xs;
    array_make(y, c->args.dtype, c->args.n, c->args.numbers);
    for (int64_t i = 0; i < y->numel; i++)
        y->data[i] = made_up(y->dtype, i);
}

static void reference_full(const op_case *c, const array *xs, array *y)
{
    (void)xs;
    array_make(y, c->args.dtype, c->args.n, c->args.numbers);
    for (int64_t i = 0; i < y->numel; i++)
        y->data[i] = case_scalar(c, c->args.dtype);
}

/* scalar: where to stop. */
static void reference_arange(const op_case *c, const array *xs, array *y)
{
    (void)xs;
    double count = ceil((c->args.scalar - c->args.start) / c->args.step);
    array_make(y, c->args.dtype, 1, (int64_t[]){count > 0 ? (int64_t)count : 0});
    for (int64_t i = 0; i < y->numel; i++)
        y->data[i] = c->args.start + (double)i * c->args.step;
}

static lab_tensor *build_constant(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    enum { MOST = 64 };
    float f32[MOST];
    double f64[MOST];
    int64_t i64[MOST];
    uint8_t truth[MOST];
    const void *data[] = {[LAB_F32] = f32, [LAB_F64] = f64, [LAB_I64] = i64, [LAB_BOOL] = truth};
    (void)xs;
    for (int i = 0; i < MOST; i++) {
        f32[i] = (float)made_up(LAB_F32, i);
        f64[i] = (double)made_up(LAB_F64, i);
        i64[i] = (int64_t)made_up(LAB_I64, i);
        truth[i] = (uint8_t)made_up(LAB_BOOL, i);
    }
    return lab_constant(g, c->args.dtype, c->args.n, c->args.numbers, data[c->args.dtype]);
}

static lab_tensor *build_full(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs;
    return lab_full(g, c->args.dtype, c->args.n, c->args.numbers, c->args.scalar);
}

static lab_tensor *build_arange(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs;
    return lab_arange(g, c->args.dtype, c->args.start, c->args.scalar, c->args.step);
}

static lab_tensor *build_randn(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs;
    return lab_randn(g, c->args.dtype, c->args.n, c->args.numbers, SEED);
}

static lab_tensor *build_rand(lab_graph *g, lab_tensor **xs, const op_case *c)
{
    (void)xs;
    return lab_rand(g, c->args.dtype, c->args.n, c->args.numbers, SEED);
}

/* clang-format off */
#define CONSTANT .op = "constant", .build = build_constant, .reference = reference_constant, .n_inputs = 0
#define FULL .op = "full", .build = build_full, .reference = reference_full, .n_inputs = 0
#define ARANGE .op = "arange", .build = build_arange, .reference = reference_arange, .n_inputs = 0
#define RANDN .op = "randn", .build = build_randn, .reference = reference_randn, .n_inputs = 0
#define RAND .op = "rand", .build = build_rand, .reference = reference_rand, .n_inputs = 0

const op_case op_cases_create[] = {
    {CONSTANT, .variant = "f32", .args = {.n = 2, .numbers = {3, 4}, .dtype = LAB_F32}},
    {CONSTANT, .variant = "f64", .args = {.n = 2, .numbers = {3, 4}, .dtype = LAB_F64}},
    {CONSTANT, .variant = "i64", .args = {.n = 2, .numbers = {3, 4}, .dtype = LAB_I64}},
    {CONSTANT, .variant = "bool", .args = {.n = 2, .numbers = {3, 4}, .dtype = LAB_BOOL}},
    {CONSTANT, .variant = "rank 0", .args = {.n = 0, .numbers = {0}, .dtype = LAB_F64}},
    {CONSTANT, .variant = "empty", .args = {.n = 2, .numbers = {2, 0}, .dtype = LAB_I64}},
    {CONSTANT, .variant = "rank 8", .args = {.n = 8, .numbers = {1, 2, 1, 2, 1, 3, 1, 2}, .dtype = LAB_F32}},
    {FULL, .variant = "f32", .args = {.n = 2, .numbers = {3, 4}, .dtype = LAB_F32, .scalar = 0.1}},
    {FULL, .variant = "f64", .args = {.n = 2, .numbers = {3, 4}, .dtype = LAB_F64, .scalar = 0.1}},
    {FULL, .variant = "i64", .args = {.n = 2, .numbers = {3, 4}, .dtype = LAB_I64, .scalar = -3}},
    {FULL, .variant = "bool", .args = {.n = 2, .numbers = {3, 4}, .dtype = LAB_BOOL, .scalar = 1}},
    {FULL, .variant = "rank 0", .args = {.n = 0, .numbers = {0}, .dtype = LAB_F32, .scalar = -INFINITY}},
    {FULL, .variant = "empty", .args = {.n = 1, .numbers = {0}, .dtype = LAB_F64, .scalar = 1}},
    {FULL, .variant = "large", .args = {.n = 2, .numbers = {600, 500}, .dtype = LAB_F32, .scalar = 2.5},
     .flags = LARGE},
    {ARANGE, .variant = "whole steps", .args = {.dtype = LAB_F64, .start = 0, .scalar = 5, .step = 1},
     .ulps = {0.5001, 0.5001}},
    {ARANGE, .variant = "steps of 0.1", .args = {.dtype = LAB_F64, .start = 0, .scalar = 1, .step = 0.1},
     .ulps = {0.5001, 0.5001}},
    {ARANGE, .variant = "f32", .args = {.dtype = LAB_F32, .start = 1, .scalar = 3, .step = 0.25},
     .ulps = {0.5001, 0.5001}},
    {ARANGE, .variant = "i64", .args = {.dtype = LAB_I64, .start = -3, .scalar = 8, .step = 2},
     .ulps = {0.5001, 0.5001}},
    {ARANGE, .variant = "downwards", .args = {.dtype = LAB_I64, .start = 5, .scalar = -2, .step = -3},
     .ulps = {0.5001, 0.5001}},
    {ARANGE, .variant = "downwards, float", .args = {.dtype = LAB_F64, .start = 1, .scalar = 0, .step = -0.3},
     .ulps = {0.5001, 0.5001}},
    {ARANGE, .variant = "empty", .args = {.dtype = LAB_F32, .start = 3, .scalar = 3, .step = 1},
     .ulps = {0.5001, 0.5001}},
    {ARANGE, .variant = "the wrong way", .args = {.dtype = LAB_F64, .start = 0, .scalar = 5, .step = -1},
     .ulps = {0.5001, 0.5001}},
    {RANDN, .variant = "f32", .args = {.n = 2, .numbers = {5, 7}, .dtype = LAB_F32}, .ulps = {4, 4},
     .flags = BY_LARGEST},
    {RANDN, .variant = "f64", .args = {.n = 2, .numbers = {5, 7}, .dtype = LAB_F64}, .ulps = {4, 4},
     .flags = BY_LARGEST},
    {RANDN, .variant = "rank 0", .args = {.n = 0, .numbers = {0}, .dtype = LAB_F64}, .ulps = {4, 4},
     .flags = BY_LARGEST},
    {RANDN, .variant = "empty", .args = {.n = 2, .numbers = {0, 3}, .dtype = LAB_F32}, .ulps = {4, 4},
     .flags = BY_LARGEST},
    {RANDN, .variant = "large", .args = {.n = 2, .numbers = {300, 401}, .dtype = LAB_F32}, .ulps = {4, 4},
     .flags = LARGE | BY_LARGEST},
    {RAND, .variant = "f32", .args = {.n = 2, .numbers = {5, 7}, .dtype = LAB_F32}},
    {RAND, .variant = "f64", .args = {.n = 2, .numbers = {5, 7}, .dtype = LAB_F64}},
    {RAND, .variant = "rank 0", .args = {.n = 0, .numbers = {0}, .dtype = LAB_F64}},
    {RAND, .variant = "empty", .args = {.n = 2, .numbers = {0, 3}, .dtype = LAB_F32}},
    {RAND, .variant = "large", .args = {.n = 2, .numbers = {300, 401}, .dtype = LAB_F32}, .flags = LARGE},
    {.op = NULL},
};
/* clang-format on */
