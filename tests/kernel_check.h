/* kernel_check.h - what the kernel tests share: walking over the levels, elements of either precision, units in the
 * last place.
 */
#ifndef LAB_TESTS_KERNEL_CHECK_H
#define LAB_TESTS_KERNEL_CHECK_H

#include "guarded.h"
#include "kernels/kernels.h"

/* Calls fn for every level that this processor has, with the table in use as it was. A level that it lacks is named
 * as skipped, once per test. */
void check_levels(void (*fn)(const kernel_table *table));

/* Runs on each level and each type. */
void check_levels_and_types(void (*fn)(const kernel_table *table, kernel_type type));

extern const char *const check_unary_names[KERNEL_UNARY_COUNT];
extern const char *const check_binary_names[KERNEL_BINARY_COUNT];
extern const char *const check_compare_names[KERNEL_COMPARE_COUNT];

size_t check_size(kernel_type type);
int check_lanes(const kernel_table *table, kernel_type type);
long double check_get(kernel_type type, const void *row, int64_t i);
void check_put(kernel_type type, void *row, int64_t i, long double value);

/* |got - expected| in units of the last place of `expected`, of which there are none below the smallest denormal
 * number. 0 where both are NaN or the same infinity, infinite where only one is. */
double check_ulps(kernel_type type, long double got, long double expected);

/* A row of `n` elements at a stride, aligned to its elements only, surrounded by random bytes; gaps between elements
 * are random bytes, too. */
typedef struct check_row {
    kernel_type type;
    int64_t n, stride;
    unsigned char *at;
    guarded memory;
} check_row;

check_row check_row_take(kernel_type type, int64_t n, int64_t stride, uint64_t *stream);
long double check_row_get(const check_row *r, int64_t i);
void check_row_put(check_row *r, int64_t i, long double value);
/* After the last put: what is to survive. */
void check_row_remember(check_row *r);
/* Fails unless everything but the elements (everything, if `inside_too`) is as it was. */
void check_row_untouched(const check_row *r, bool inside_too, const char *what);
void check_row_free(check_row *r);

/* Numbers of all sizes, with now and then a zero, an infinity, a NaN or a denormal number. */
long double check_any_number(kernel_type type, uint64_t *stream);

/* Where a value is and what it belongs to, for failures; valid until the next call. */
const char *check_text(const kernel_table *table, kernel_type type, const char *op, int64_t n, int64_t y_stride,
                       int64_t x_stride);

#endif
