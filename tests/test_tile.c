/* test_tile.c - the tile product at every level: against a loop in long double, nothing read or written beside the
 * matrices, and an element's bits the same alone, in any tile, and with its sum cut anywhere.
 */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "guarded.h"
#include "kernels/kernels.h"
#include "kernels/level.h"

/* One product, its matrices with gaps between rows. */
typedef struct tile_case {
    const kernel_table *table;
    kernel_type type;
    int64_t m, n, k, a_row, a_column, b_row, c_row;
    kernel_sum sum;
    guarded a, b, c;
} tile_case;

static size_t size_of(kernel_type type)
{
    return type == KERNEL_F32 ? sizeof(float) : sizeof(double);
}

static double get(kernel_type type, const void *x, int64_t i)
{
    return type == KERNEL_F32 ? ((const float *)x)[i] : ((const double *)x)[i];
}

static void fill(kernel_type type, guarded *g, uint64_t *stream)
{
    for (size_t i = 0; i < g->bytes / size_of(type); i++)
        if (type == KERNEL_F32)
            ((float *)g->data)[i] = (float)guarded_uniform(stream);
        else
            ((double *)g->data)[i] = guarded_uniform(stream);
    guarded_remember(g);
}

/* From the first element to the last; what is behind the last element is guarded. */
static guarded take(kernel_type type, int64_t rows, int64_t row, int64_t columns, int64_t column, uint64_t *stream)
{
    int64_t span = rows > 0 && columns > 0 ? (rows - 1) * row + (columns - 1) * column + 1 : 0;
    guarded g = guarded_take((size_t)span * size_of(type), stream);
    fill(type, &g, stream);
    return g;
}

/* `gap` more elements between rows than are needed. */
static tile_case make(const kernel_table *table, kernel_type type, int64_t m, int64_t n, int64_t k, bool transposed,
                      int64_t gap, kernel_sum sum, uint64_t *stream)
{
    tile_case t = {.table = table, .type = type, .m = m, .n = n, .k = k, .sum = sum};
    t.a_row = transposed ? 1 : k + gap;
    t.a_column = transposed ? m + gap : 1;
    t.b_row = n + gap;
    t.c_row = n + 2 * gap;
    t.a = take(type, m, t.a_row, k, t.a_column, stream);
    t.b = take(type, k, t.b_row, n, 1, stream);
    t.c = take(type, m, t.c_row, n, 1, stream);
    return t;
}

static void run(tile_case *t)
{
    t->table->tile[t->type](t->m, t->n, t->k, t->a.data, t->a_row, t->a_column, t->b.data, t->b_row, t->c.data,
                            t->c_row, t->sum);
}

static void drop(tile_case *t)
{
    guarded_free(&t->a);
    guarded_free(&t->b);
    guarded_free(&t->c);
}

static const char *const sums[] = {"", ", going on", ", added"};

static void complain(const tile_case *t, int64_t i, int64_t j, const char *what)
{
    fail_msg("seed %llu: %s %s %lld x %lld x %lld, strides %lld, %lld of A%s: C[%lld, %lld] %s",
             (unsigned long long)guarded_seed(), t->table->level, t->type == KERNEL_F32 ? "f32" : "f64",
             (long long)t->m, (long long)t->n, (long long)t->k, (long long)t->a_row, (long long)t->a_column,
             sums[t->sum], (long long)i, (long long)j, what);
}

/* A sum of k + 1 terms is off by at most k roundings of the sum of magnitudes. */
static void judge_element(const tile_case *t, int64_t i, int64_t j)
{
    long double sum = t->sum != KERNEL_SUM_NEW ? get(t->type, guarded_remembered(&t->c), i * t->c_row + j) : 0,
                size = fabsl(sum);
    for (int64_t k = 0; k < t->k; k++) {
        long double term = (long double)get(t->type, t->a.data, i * t->a_row + k * t->a_column) *
                           get(t->type, t->b.data, k * t->b_row + j);
        sum += term;
        size += fabsl(term);
    }
    long double unit = t->type == KERNEL_F32 ? FLT_EPSILON / 2 : DBL_EPSILON / 2;
    long double bound = (long double)(t->k + 1) * unit * size;
    if (!(fabsl(get(t->type, t->c.data, i * t->c_row + j) - sum) <= bound))
        complain(t, i, j, "is not the sum");
}

/* Elements of C's memory that are not C's. */
static void judge_gaps(const tile_case *t)
{
    size_t size = size_of(t->type);
    for (int64_t i = 0; i + 1 < t->m; i++)
        for (int64_t j = t->n; j < t->c_row; j++) {
            size_t at = (size_t)(i * t->c_row + j) * size;
            if (memcmp(t->c.data + at, guarded_remembered(&t->c) + at, size) != 0)
                complain(t, i, j, "is behind the row, and was written");
        }
}

static void judge(const tile_case *t)
{
    if (!guarded_unchanged(&t->a, true) || !guarded_unchanged(&t->b, true) || !guarded_unchanged(&t->c, false))
        complain(t, 0, 0, "is not all: something beside C was written");
    judge_gaps(t);
    for (int64_t i = 0; i < t->m; i++)
        for (int64_t j = 0; j < t->n; j++)
            judge_element(t, i, j);
}

static void try_all(int64_t m, int64_t n, int64_t k, int64_t gap, uint64_t *stream)
{
    bool end;
    for (int level = 0;; level++) {
        const kernel_table *table = lab__kernels_level(level, &end);
        if (end)
            return;
        for (int i = 0; table && i < 12; i++) {
            tile_case t = make(table, (kernel_type)(i & 1), m, n, k, i & 2, gap, (kernel_sum)(i / 4), stream);
            run(&t);
            judge(&t);
            drop(&t);
        }
    }
}

static void every_size_to_past_a_block_gives_the_product(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    for (int64_t n = 1; n <= 17; n++) /* lanes of the widest vector, and one */
        for (int64_t m = 1; m <= 13; m++)
            try_all(m, n, 1 + (m * 5 + n) % 9, (m + n) % 3, &stream);
    for (int64_t k = 1; k <= 17; k++)
        try_all(7, 9, k, k % 2, &stream);
}

static void primes_and_wide_strides_give_the_product(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 53, 67, 127};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    uint64_t stream = guarded_stream(__func__);
    for (int i = 0; i < 30; i++) {
        int64_t m = sizes[guarded_below(&stream, SIZES - 3)], n = sizes[guarded_below(&stream, SIZES)];
        int64_t k = sizes[guarded_below(&stream, SIZES)];
        try_all(m, n, k, guarded_below(&stream, 2) * guarded_below(&stream, 90), &stream);
    }
}

static void nothing_times_nothing_is_zero_or_leaves_what_is_there(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    try_all(5, 19, 0, 1, &stream);
    try_all(0, 5, 3, 0, &stream);
    try_all(5, 0, 3, 0, &stream);
}

/* `bytes` zeros, with a page that may not be touched before or behind them. */
static char *beside_a_wall(size_t bytes, bool wall_behind)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    char *whole = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(whole != MAP_FAILED);
    assert_int_equal(mprotect(wall_behind ? whole + room : whole, page, PROT_NONE), 0);
    return wall_behind ? whole + room - bytes : whole + page;
}

static void free_beside_a_wall(char *data, size_t bytes, bool wall_behind)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    munmap(wall_behind ? data + bytes - room : data - page, room + page);
}

/* Would end the program by a signal. */
static void nothing_beside_the_matrices_is_touched(void **state)
{
    (void)state;
    bool end = false;
    for (int level = 0; !end; level++) {
        const kernel_table *table = lab__kernels_level(level, &end);
        for (int i = 0; table && i < 4 * 140; i++) {
            kernel_type type = (kernel_type)(i & 1);
            bool behind = i & 2;
            int64_t n = 1 + i / 4, m = 1 + n % 8, k = 1 + n % 5;
            size_t size = size_of(type),
                   bytes[] = {(size_t)(m * k) * size, (size_t)(k * n) * size, (size_t)(m * n) * size};
            char *x[3];
            for (int at = 0; at < 3; at++)
                x[at] = beside_a_wall(bytes[at], behind);
            table->tile[type](m, n, k, x[0], k, 1, x[1], n, x[2], n, KERNEL_SUM_NEW);
            table->tile[type](m, n, k, x[0], 1, m, x[1], n, x[2], n, KERNEL_SUM_GOES_ON);
            table->tile[type](m, n, k, x[0], k, 1, x[1], n, x[2], n, KERNEL_SUM_ADDED);
            for (int at = 0; at < 3; at++)
                free_beside_a_wall(x[at], bytes[at], behind);
        }
    }
}

/* ---- Bits ---------------------------------------------------------------------------------------------------------- */

/* Rows i.. and columns j.. of C once more, from what they were, must give the bits that the whole gave. */
static void judge_part(const tile_case *t, int64_t i, int64_t j, int64_t m, int64_t n)
{
    size_t size = size_of(t->type);
    int64_t row = n + 3;
    unsigned char *part = calloc((size_t)(m * row), size);
    assert_non_null(part);
    for (int64_t r = 0; r < m; r++)
        memcpy(part + (size_t)(r * row) * size, guarded_remembered(&t->c) + (size_t)((i + r) * t->c_row + j) * size,
               (size_t)n * size);
    t->table->tile[t->type](m, n, t->k, t->a.data + (size_t)(i * t->a_row) * size, t->a_row, t->a_column,
                            t->b.data + (size_t)j * size, t->b_row, part, row, t->sum);
    for (int64_t r = 0; r < m; r++)
        for (int64_t s = 0; s < n; s++)
            if (memcmp(part + (size_t)(r * row + s) * size, t->c.data + (size_t)((i + r) * t->c_row + j + s) * size,
                       size) != 0)
                complain(t, i + r, j + s, "has other bits in another tile");
    free(part);
}

/* The product over k = 0..cut, and then over the rest. */
static void judge_cut(const tile_case *t, int64_t cut)
{
    size_t size = size_of(t->type);
    unsigned char *whole = malloc(t->c.bytes);
    assert_non_null(whole);
    memcpy(whole, guarded_remembered(&t->c), t->c.bytes);
    kernel_tile_fn tile = t->table->tile[t->type];
    tile(t->m, t->n, cut, t->a.data, t->a_row, t->a_column, t->b.data, t->b_row, whole, t->c_row, t->sum);
    tile(t->m, t->n, t->k - cut, t->a.data + (size_t)(cut * t->a_column) * size, t->a_row, t->a_column,
         t->b.data + (size_t)(cut * t->b_row) * size, t->b_row, whole, t->c_row, KERNEL_SUM_GOES_ON);
    if (memcmp(whole, t->c.data, t->c.bytes) != 0)
        complain(t, 0, 0, "or another has other bits when the sum is cut");
    free(whole);
}

/* The same A with the other pair of strides. */
static void judge_transposed(const tile_case *t)
{
    size_t size = size_of(t->type);
    unsigned char *a = malloc((size_t)(t->m * t->k) * size), *c = malloc(t->c.bytes);
    assert_true(a && c);
    for (int64_t i = 0; i < t->m; i++)
        for (int64_t k = 0; k < t->k; k++)
            memcpy(a + (size_t)(k * t->m + i) * size, t->a.data + (size_t)(i * t->a_row + k * t->a_column) * size,
                   size);
    memcpy(c, guarded_remembered(&t->c), t->c.bytes);
    t->table->tile[t->type](t->m, t->n, t->k, a, 1, t->m, t->b.data, t->b_row, c, t->c_row, t->sum);
    if (memcmp(c, t->c.data, t->c.bytes) != 0)
        complain(t, 0, 0, "or another has other bits with A transposed in memory");
    free(a);
    free(c);
}

/* What is added to C is the new product, rounded once more. */
static void judge_added(const tile_case *t)
{
    unsigned char *product = malloc(t->c.bytes);
    assert_non_null(product);
    memcpy(product, guarded_remembered(&t->c), t->c.bytes);
    t->table->tile[t->type](t->m, t->n, t->k, t->a.data, t->a_row, t->a_column, t->b.data, t->b_row, product, t->c_row,
                            KERNEL_SUM_NEW);
    for (int64_t i = 0; i < t->m; i++)
        for (int64_t j = 0; j < t->n; j++) {
            const int64_t at = i * t->c_row + j;
            const double before = get(t->type, guarded_remembered(&t->c), at), more = get(t->type, product, at);
            const double want = t->type == KERNEL_F32 ? (double)((float)before + (float)more) : before + more;
            if (get(t->type, t->c.data, at) != want)
                complain(t, i, j, "is not what was there and the new sum");
        }
    free(product);
}

static void judge_height(const tile_case *t)
{
    const int before = lab__kernel_high_from;
    unsigned char *c = malloc(t->c.bytes);
    assert_non_null(c);
    for (int high = 0; high < 2; high++) {
        lab__kernel_high_from = high ? 0 : INT_MAX;
        memcpy(c, guarded_remembered(&t->c), t->c.bytes);
        t->table->tile[t->type](t->m, t->n, t->k, t->a.data, t->a_row, t->a_column, t->b.data, t->b_row, c, t->c_row,
                                t->sum);
        if (memcmp(c, t->c.data, t->c.bytes) != 0)
            complain(t, 0, 0,
                     high ? "or another has other bits in high blocks" : "or another has other bits in low blocks");
    }
    lab__kernel_high_from = before;
    free(c);
}

static void judge_bits(const tile_case *t, uint64_t *stream)
{
    judge_height(t);
    if (t->sum == KERNEL_SUM_ADDED)
        judge_added(t);
    for (int64_t i = 0; i < t->m; i++)
        for (int64_t j = 0; j < t->n; j++)
            judge_part(t, i, j, 1, 1);
    for (int part = 0; part < 20; part++) {
        int64_t i = guarded_below(stream, t->m), j = guarded_below(stream, t->n);
        judge_part(t, i, j, 1 + guarded_below(stream, t->m - i), 1 + guarded_below(stream, t->n - j));
        if (t->sum != KERNEL_SUM_ADDED)
            judge_cut(t, guarded_below(stream, t->k + 1));
    }
    judge_transposed(t);
}

static void an_element_has_its_bits_alone_in_any_tile_and_with_its_sum_cut(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    bool end = false;
    for (int level = 0; !end; level++) {
        const kernel_table *table = lab__kernels_level(level, &end);
        for (int i = 0; table && i < 12; i++) {
            int64_t m = 1 + guarded_below(&stream, 26), n = 1 + guarded_below(&stream, 300);
            tile_case t = make(table, (kernel_type)(i & 1), m, n, 1 + guarded_below(&stream, 40), i & 2, i % 3,
                               (kernel_sum)(i / 4), &stream);
            run(&t);
            judge_bits(&t, &stream);
            drop(&t);
        }
    }
}

static void not_a_number_stays_in_its_row_and_column(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    bool end = false;
    for (int level = 0; !end; level++) {
        const kernel_table *table = lab__kernels_level(level, &end);
        for (int type = 0; table && type < KERNEL_TYPES; type++) {
            tile_case t = make(table, (kernel_type)type, 13, 37, 5, false, 0, KERNEL_SUM_NEW, &stream);
            if (type == KERNEL_F32) {
                ((float *)t.a.data)[7 * t.a_row + 2] = NAN;
                ((float *)t.b.data)[3 * t.b_row + 36] = NAN;
            } else {
                ((double *)t.a.data)[7 * t.a_row + 2] = NAN;
                ((double *)t.b.data)[3 * t.b_row + 36] = NAN;
            }
            run(&t);
            for (int64_t i = 0; i < t.m; i++)
                for (int64_t j = 0; j < t.n; j++)
                    if (!!isnan(get(t.type, t.c.data, i * t.c_row + j)) != (i == 7 || j == 36))
                        complain(&t, i, j, "is a number, or is not, against row and column");
            drop(&t);
        }
    }
}

/* ---- A vector -------------------------------------------------------------------------------------------------------- */

/* Each element of y again, by the tile product; and A, which has memory beside it that may not be touched. */
static void try_matvec(const kernel_table *table, kernel_type type, bool add, uint64_t *stream)
{
    const int64_t m = 1 + guarded_below(stream, 70), k = 1 + guarded_below(stream, 80);
    const int64_t gap = guarded_below(stream, 3) * guarded_below(stream, 20), a_row = k + gap;
    const int64_t x_step = 1 + gap % 2 * 3, y_step = 1 + gap % 3 * 2;
    const size_t size = size_of(type), bytes = (size_t)((m - 1) * a_row + k) * size;
    guarded like_a = take(type, m, a_row, k, 1, stream), x = take(type, k, x_step, 1, 1, stream);
    guarded y = take(type, m, y_step, 1, 1, stream);
    char *a = beside_a_wall(bytes, gap % 4 < 2);
    memcpy(a, like_a.data, bytes);
    table->matvec[type](m, k, a, a_row, x.data, x_step, y.data, y_step, add);
    assert_true(guarded_unchanged(&x, true) && guarded_unchanged(&y, false));
    unsigned char *expected = malloc(y.bytes);
    assert_non_null(expected);
    memcpy(expected, guarded_remembered(&y), y.bytes);
    for (int64_t i = 0; i < m; i++)
        table->tile[type](1, 1, k, a + (size_t)(i * a_row) * size, a_row, 1, x.data, x_step,
                          expected + (size_t)(i * y_step) * size, 1, add ? KERNEL_SUM_GOES_ON : KERNEL_SUM_NEW);
    if (memcmp(expected, y.data, y.bytes) != 0)
        fail_msg("seed %llu: %s %s %lld x %lld%s: other bits than the tile product's",
                 (unsigned long long)guarded_seed(), table->level, type == KERNEL_F32 ? "f32" : "f64", (long long)m,
                 (long long)k, add ? ", added" : "");
    free(expected);
    free_beside_a_wall(a, bytes, gap % 4 < 2);
    guarded_free(&like_a);
    guarded_free(&x);
    guarded_free(&y);
}

static void a_matrix_times_a_vector_has_the_bits_of_the_tile_product(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    bool end = false;
    for (int level = 0; !end; level++) {
        const kernel_table *table = lab__kernels_level(level, &end);
        for (int i = 0; table && i < 400; i++)
            try_matvec(table, (kernel_type)(i & 1), i & 2, &stream);
    }
}

static int low_blocks(void **state)
{
    (void)state;
    lab__kernels(); /* asks the processor, once */
    lab__kernel_high_from = INT_MAX;
    return 0;
}

static int high_blocks(void **state)
{
    (void)state;
    lab__kernels();
    lab__kernel_high_from = 0;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_to_past_a_block_gives_the_product),
        cmocka_unit_test(primes_and_wide_strides_give_the_product),
        cmocka_unit_test(nothing_times_nothing_is_zero_or_leaves_what_is_there),
        cmocka_unit_test(nothing_beside_the_matrices_is_touched),
        cmocka_unit_test(an_element_has_its_bits_alone_in_any_tile_and_with_its_sum_cut),
        cmocka_unit_test(not_a_number_stays_in_its_row_and_column),
        cmocka_unit_test(a_matrix_times_a_vector_has_the_bits_of_the_tile_product),
    };
    const int failed = cmocka_run_group_tests_name("low blocks", tests, low_blocks, NULL);
    return failed + cmocka_run_group_tests_name("high blocks", tests, high_blocks, NULL);
}
