/* kernels.h - the table of row kernels and the tile product, and how a level of it is chosen.
 *
 * A kernel works on one row: a length, pointers, strides in elements. It allocates nothing, reports nothing, and
 * knows no tensor. Two rules hold for all of them, because results must not depend on tiling or threads:
 *
 *   - an element's bits do not depend on its place in a vector or on the length of the row (a tail goes through the
 *     same vector arithmetic as the rest);
 *   - the lanes of a row's sum go by absolute column.
 *
 * Results may differ between levels, never within one.
 */
#ifndef LAB_KERNELS_H
#define LAB_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layer_kernels.h"

/* The precision a kernel is compiled for; also the index into the table's rows. */
typedef enum kernel_type { KERNEL_F32, KERNEL_F64, KERNEL_TYPES } kernel_type;

/* y[i] = f(x[i]); `parameter` is the scalar of the *_SCALAR kernels (rounded to the kernel's type), else unused. */
typedef enum kernel_unary {
    KERNEL_COPY,
    KERNEL_NEG,
    KERNEL_ADD_SCALAR,
    KERNEL_MUL_SCALAR,
    KERNEL_POW_SCALAR,
    KERNEL_EXP,
    KERNEL_LOG,
    KERNEL_SQRT,
    KERNEL_RSQRT,
    KERNEL_TANH,
    KERNEL_SIGMOID,
    KERNEL_ERF,
    KERNEL_RELU,
    KERNEL_GELU_ERF,
    KERNEL_GELU_TANH,
    KERNEL_SILU,
    KERNEL_ABS,
    KERNEL_SIN,
    KERNEL_COS,
    KERNEL_UNARY_COUNT
} kernel_unary;

/* y[i] = f(a[i], b[i]). NaN in either operand gives NaN, in maximum and minimum too. */
typedef enum kernel_binary {
    KERNEL_ADD,
    KERNEL_SUB,
    KERNEL_MUL,
    KERNEL_DIV,
    KERNEL_MAXIMUM,
    KERNEL_MINIMUM,
    KERNEL_BINARY_COUNT
} kernel_binary;

/* y[i] = a[i] ? b[i], one byte, 0 or 1. */
typedef enum kernel_compare { KERNEL_EQUAL, KERNEL_LESS, KERNEL_LESS_EQUAL, KERNEL_COMPARE_COUNT } kernel_compare;

/* Strides are in elements, at least 0 on inputs (0: the same element again and again) and at least 1 on outputs.
 * An output may be one of the inputs exactly (same pointer, same stride); otherwise they do not overlap. */
typedef void (*kernel_unary_fn)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride,
                                double parameter);
typedef void (*kernel_binary_fn)(int64_t n, void *y, int64_t y_stride, const void *a, int64_t a_stride, const void *b,
                                 int64_t b_stride);
typedef void (*kernel_compare_fn)(int64_t n, uint8_t *y, int64_t y_stride, const void *a, int64_t a_stride,
                                  const void *b, int64_t b_stride);

typedef struct kernel_row_fns {
    /* The sum of x[0..n), lanes by absolute column, and of x[i] * y[i]; 0 for n = 0. */
    double (*sum)(int64_t n, const void *x, int64_t x_stride);
    double (*dot)(int64_t n, const void *x, int64_t x_stride, const void *y, int64_t y_stride);
    /* The largest element (NaN if there is one); -inf for n = 0. */
    double (*maximum)(int64_t n, const void *x, int64_t x_stride);
    /* y = softmax(x). A row of -inf only gives zeros; a NaN or +inf gives NaN throughout. y may be x. */
    void (*softmax)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride);
    /* y = x - logsumexp(x). A row of -inf only gives -inf; a NaN or +inf gives NaN throughout. y may be x. */
    void (*log_softmax)(int64_t n, void *y, int64_t y_stride, const void *x, int64_t x_stride);
    /* max + ln(sum(exp(x - max))); -inf for a row of -inf or n = 0, NaN if there is a NaN or +inf. */
    double (*logsumexp)(int64_t n, const void *x, int64_t x_stride);
    /* dx (+)= y * (dy - sum(dy * y)): the derivative of softmax from its result, which sums to 1. Where y is 0 nothing
     * of dy is read into the result: dx is exactly 0 there, whatever dy holds. */
    void (*softmax_backward)(int64_t n, void *dx, int64_t dx_stride, const void *y, int64_t y_stride, const void *dy,
                             int64_t dy_stride, bool add);
    /* dx (+)= dy - exp(y) * sum(dy): the derivative of log_softmax from its result. */
    void (*log_softmax_backward)(int64_t n, void *dx, int64_t dx_stride, const void *y, int64_t y_stride,
                                 const void *dy, int64_t dy_stride, bool add);
} kernel_row_fns;

/* What becomes of a product's sums: C = A B; a sum that goes on from C's elements, so that products over k = 0..p and
 * then over p..q have the bits of one over 0..q; or C + A B, each sum by itself from 0 on and then added, once, so that
 * a long sum has many short ones' errors and not its own. */
typedef enum kernel_sum { KERNEL_SUM_NEW, KERNEL_SUM_GOES_ON, KERNEL_SUM_ADDED } kernel_sum;

/* C = A B, or with C, as `sum` says: the product of tiles that live in cache. A is m x k with any strides (A^T is the
 * same with the two exchanged), the rows of B, k x n, and of C, m x n, are dense and b_row, c_row apart. Sizes from 0;
 * C overlaps neither A nor B; nothing beside the three is read or written.
 *
 * Each element has one accumulator, and k ascends. So its bits depend on its row of A, its column of B, and the element
 * of C that it goes on from or is added to, alone: not on m, n, strides, or its place in C. (Where there are several
 * NaNs to choose from, which of them comes out is not said.) */
typedef void (*kernel_tile_fn)(int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row, int64_t a_column,
                               const void *b, int64_t b_row, void *c, int64_t c_row, kernel_sum sum);

/* y = A x, or y += A x: A is m x k, its rows dense and a_row apart. Bits are the tile product's; A is read once, as it
 * comes from memory. */
typedef void (*kernel_matvec_fn)(int64_t m, int64_t k, const void *a, int64_t a_row, const void *x, int64_t x_step,
                                 void *y, int64_t y_step, bool add);

/* Which of a piece's n keys a query may see: [first, stop), one for each query of a panel, from the piece's first key
 * on; and the keys that all of them may see, full_first <= j < full_stop. first and stop are NULL where these are all
 * n. */
typedef struct kernel_limits {
    const int32_t *first, *stop;
    int64_t full_first, full_stop;
} kernel_limits;

/* Rows of `bytes` bytes, `row` bytes apart. */
typedef struct kernel_rows {
    const char *at;
    int64_t count, row, bytes;
} kernel_rows;

/* What will be read or written soon: rows first .. stop - 1 of these, which are counted one after another. */
typedef struct kernel_ahead {
    const kernel_rows *rows;
    int64_t first, stop;
} kernel_ahead;

/* Panels, the rows of fused attention turned on their side: `width` queries beside each other, element j of query i at
 * [j * stride + i]. Nothing is summed across queries: a query's bits do not depend on those beside it. A piece of a
 * row begins at a multiple of 4 keys. */
typedef struct kernel_panel_fns {
    int width;
    bool rounds_twice; /* a multiply-add is a product and a sum, each rounded: sums lose more */
    int64_t columns;   /* a score's sum goes over so many, and is then added to those before it */
    /* The panel of x, rows x columns of any strides, times factor; 0 where there is no row. */
    void (*pack)(int64_t rows, int64_t columns, void *panel, int64_t stride, const void *x, int64_t x_row,
                 int64_t x_column, double factor);
    /* y (+)= the panel turned back, each query times its factor. */
    void (*unpack)(int64_t rows, int64_t columns, void *y, int64_t y_row, int64_t y_column, const void *panel,
                   int64_t stride, const void *factors, bool add);
    /* Scores of n keys, the tile product's of `columns` at a time, and each query's largest and least; the least is NaN
     * where any score is. Meanwhile rows ahead are asked for, as many as cost little, and are ahead no more; `ahead`
     * may be NULL. */
    void (*scores)(int64_t n, int64_t d, const void *keys, int64_t k_row, const void *queries, int64_t q_stride,
                   void *scores, int64_t stride, void *largest, void *least, kernel_ahead *ahead);
    /* Scores of n keys more: those beyond a query's limits become -inf; `maximum` becomes the largest yet, and
     * `rescale` e^(maximum before - maximum now). True if e^(score - maximum) is a normal number for each key within
     * the limits, so that none of these has the score -inf. */
    bool (*maximum)(int64_t n, void *scores, int64_t stride, const kernel_limits *limits, const void *largest,
                    const void *least, void *maximum, void *rescale);
    /* scores = e^(scores - maximum), and sums = sums * rescale + their sum: four lanes, key j in lane j mod 4. `near`
     * is what maximum said. */
    void (*exponentials)(int64_t n, void *scores, int64_t stride, const kernel_limits *limits, const void *maximum,
                         const void *rescale, double *sums, bool near);
    /* Each query's n elements times its factor. */
    void (*multiply)(int64_t n, void *panel, int64_t stride, const void *factors);
    /* panel = |ahead + i - j|, stride `width`: query 0 is `ahead` keys ahead of key 0. */
    void (*distances)(int64_t n, void *panel, int64_t ahead);
    /* Scores become -inf where `allowed`, rows x n bytes of any strides, is 0. */
    void (*forbid)(int64_t rows, int64_t n, void *scores, int64_t stride, const uint8_t *allowed, int64_t allowed_row,
                   int64_t allowed_column);
    /* The derivative of softmax: scores become p = e^(scores - maximum) inverses, 0 beyond the limits, times
     * factors (a panel of stride `width`, dropout's; NULL: 1); gradients become p ((gradients * factors - deltas) -
     * rests), and 0 where p is 0, whatever was there. rests may be NULL. */
    void (*slopes)(int64_t n, void *scores, void *gradients, int64_t stride, const kernel_limits *limits,
                   const void *maximum, const void *inverses, const void *deltas, const void *rests,
                   const void *factors, const void *softened);
    /* Each query's sums of p (gradients * factors) and of p, the same p, added in twice the precision to `totals`
     * [4][width]: the first sum, what rounding left of it, the second, what it left of that. */
    void (*totals)(int64_t n, void *scores, const void *gradients, int64_t stride, const kernel_limits *limits,
                   const void *maximum, const void *inverses, const void *factors, void *totals);
    /* Whether rows x columns numbers, dense in a row, are all finite. */
    bool (*finite)(int64_t rows, int64_t columns, const void *x, int64_t x_row);
    /* 1 for each pair within the limits whose score is not -inf, else 0. */
    void (*allowed)(int64_t n, const void *scores, int64_t stride, const kernel_limits *limits, uint8_t *allowed,
                    int64_t allowed_stride);
    /* The tile product over allowed pairs only, added (KERNEL_SUM_ADDED), the same bits otherwise, for numbers that are
     * not finite: sum[c][query] += weights[j][query] x[j][c], a panel of stride `width`, and
     * sum[j][c] += weights[j][query] x[query][c]. */
    void (*add_by_query)(int64_t n, int64_t columns, void *sum, const uint8_t *allowed, int64_t allowed_stride,
                         const void *weights, int64_t stride, const void *x, int64_t x_row, int64_t x_column);
    void (*add_by_key)(int64_t n, int64_t rows, int64_t columns, void *sum, int64_t sum_row, const uint8_t *allowed,
                       int64_t allowed_stride, const void *weights, int64_t stride, const void *x, int64_t x_row);
} kernel_panel_fns;

/* One query, or the few that share a key head, along the keys, with the bits of a panel. Rows are dense. */
typedef struct kernel_query_fns {
    /* s[i][j] = q[i] . k[j]: rows x n, the queries d apart, keys k_row apart. */
    void (*scores)(int64_t rows, int64_t n, int64_t d, const void *queries, const void *keys, int64_t k_row,
                   void *scores, int64_t s_row);
    /* One row's n scores more, all of keys it may see, as in a panel's maximum and exponentials; the first key's place
     * among the sum's four lanes is `phase`. */
    bool (*softmax)(int64_t n, int64_t phase, void *scores, void *maximum, void *rescale, double *sum);
    /* outputs += weights . values: rows x n times n x columns. */
    void (*values)(int64_t rows, int64_t n, int64_t columns, const void *weights, int64_t w_row, const void *values,
                   int64_t v_row, void *outputs, int64_t o_row);
} kernel_query_fns;

/* A step of an optimiser (step_tmpl.c; the rules are in llmlab/optim.h): p, and what the rule keeps of earlier
 * gradients, m and v, by the gradient g. All dense, none overlaps another; NULL where the rule has none. */
typedef enum kernel_rule {
    KERNEL_PLAIN,
    KERNEL_MOMENTUM,
    KERNEL_NESTEROV,
    KERNEL_SIGN,
    KERNEL_SIGN_MOMENTUM,
    KERNEL_RMSPROP,
    KERNEL_RMSPROP_MOMENTUM,
    KERNEL_ADAM,
    KERNEL_LION,
    KERNEL_RULE_COUNT
} kernel_rule;

typedef struct kernel_step {
    double rate;          /* of Adam, over the first bias correction */
    double scale;         /* of gradients */
    double coupled;       /* so much of p is added to the gradient; 0: p is not looked at */
    double keep;          /* what p is multiplied by */
    double first, second; /* momentum or beta1; beta2 */
    double root, eps;     /* the denominator is sqrt(v) root + eps */
} kernel_step;

typedef void (*kernel_step_fn)(int64_t n, void *p, const void *g, void *m, void *v, const kernel_step *by);

typedef struct kernel_table {
    const char *level; /* "plain", "avx2", "avx512", "neon" */
    int vector_bits;
    kernel_unary_fn unary[KERNEL_TYPES][KERNEL_UNARY_COUNT];
    kernel_binary_fn binary[KERNEL_TYPES][KERNEL_BINARY_COUNT];
    kernel_compare_fn compare[KERNEL_TYPES][KERNEL_COMPARE_COUNT];
    kernel_row_fns row[KERNEL_TYPES];
    kernel_tile_fn tile[KERNEL_TYPES];
    kernel_matvec_fn matvec[KERNEL_TYPES];
    kernel_panel_fns panel[KERNEL_TYPES];
    kernel_query_fns query[KERNEL_TYPES];
    kernel_norm_fns norm[KERNEL_TYPES];
    kernel_loss_fns loss[KERNEL_TYPES];
    kernel_rope_fn rope[KERNEL_TYPES];
    kernel_gelu_fns gelu[KERNEL_TYPES][KERNEL_GELU_KINDS];
    kernel_step_fn step[KERNEL_TYPES][KERNEL_RULE_COUNT];
} kernel_table;

/* The table in use. Chosen once by processor, and by the environment variable LAB_KERNELS if it names a level this
 * processor has. Never NULL. Thread-safe. */
const kernel_table *lab__kernels(void);

/* Forces a level ("avx512", "avx2", "neon", "plain"), NULL for the one at first (LAB_KERNELS or the best). False if the
 * processor lacks it or the name is unknown; nothing changes then. */
bool lab__kernels_force(const char *level);

/* Level i (0: plain, upwards) if this build and this processor have it, else NULL; for tests that run them all.
 * Returns a table, and *end is set once i is past the last level of this build. */
const kernel_table *lab__kernels_level(int i, bool *end);

/* What runs: the measured peak of fused multiply-adds in GF/s on one thread at the level of `table`, for benches.
 * Independent accumulators started different; `seconds` is how long to measure. */
double lab__kernels_fma_peak(const kernel_table *table, kernel_type type, double seconds);

/* ---- Kernels that need no level: integers, booleans, selection, random numbers -------------------------------- */

/* 64-bit integers: KERNEL_ADD, _SUB, _MUL (wrapping, no undefined overflow), _MAXIMUM, _MINIMUM. NULL for _DIV. */
kernel_binary_fn lab__kernel_binary_i64(kernel_binary op);
kernel_compare_fn lab__kernel_compare_i64(kernel_compare op);
kernel_compare_fn lab__kernel_compare_bool(kernel_compare op); /* other than 0 is true: 2 equals 1 */

/* y = a & b, a | b, !a on bytes where other than 0 is true; the result is 0 or 1. */
void lab__kernel_logical_and(int64_t n, uint8_t *y, int64_t y_stride, const uint8_t *a, int64_t a_stride,
                             const uint8_t *b, int64_t b_stride);
void lab__kernel_logical_or(int64_t n, uint8_t *y, int64_t y_stride, const uint8_t *a, int64_t a_stride,
                            const uint8_t *b, int64_t b_stride);
void lab__kernel_logical_not(int64_t n, uint8_t *y, int64_t y_stride, const uint8_t *a, int64_t a_stride);

/* y = condition ? a : b, elements of `size` 1, 4 or 8 bytes, moved as bits. */
void lab__kernel_where(int64_t n, int size, void *y, int64_t y_stride, const uint8_t *condition,
                       int64_t condition_stride, const void *a, int64_t a_stride, const void *b, int64_t b_stride);

/* y = x, elements of `size` 1, 4 or 8 bytes, moved as bits. */
void lab__kernel_copy(int64_t n, int size, void *y, int64_t y_stride, const void *x, int64_t x_stride);

/* y = x by stores that go past the cache, for results much larger than it; they do not overlap. Others may read what
 * was written after lab__kernel_stream_end in the thread that wrote it. (stream.c) */
void lab__kernel_stream(size_t bytes, void *y, const void *x);
void lab__kernel_stream_end(void);

/* Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). */
void lab__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* The value at (seed, stream, index) is a function: key = low and high word of seed, counter = low and high word of
 * the index's block, low and high word of stream. Element `first + i` is written to y[i].
 * uniform: in [0, 1), one 32-bit word an element in f32 (upper 24 bits), two in f64 (low word first, upper 53 bits).
 * normal: Box-Muller on the uniforms u, v of an even index and the next, sqrt(-2 ln(1 - u)) times cos(2 pi v) and
 * sin(2 pi v), in double, rounded at the end; finite always. */
void lab__kernel_uniform(kernel_type type, int64_t n, void *y, uint64_t seed, uint64_t stream, int64_t first);
void lab__kernel_normal(kernel_type type, int64_t n, void *y, uint64_t seed, uint64_t stream, int64_t first);

#endif
