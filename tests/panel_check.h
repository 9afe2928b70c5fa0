/* panel_check.h - what the tests of panels share: matrices between guards, limits, scores. */
#ifndef TESTS_PANEL_CHECK_H
#define TESTS_PANEL_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "kernel_check.h"

/* rows x columns numbers, dense in a row, `step` apart from row to row. */
typedef struct block {
    kernel_type type;
    int64_t rows, columns, step;
    guarded memory;
} block;

block take(kernel_type type, int64_t rows, int64_t columns, int64_t step, uint64_t *stream);
void *at(const block *b);
long double get(const block *b, int64_t r, int64_t c);
/* As it was when the matrix was taken, or last put to. */
long double before(const block *b, int64_t r, int64_t c);
/* To be read by the kernel as it is now. */
void put(block *b, int64_t r, int64_t c, long double x);
/* Frees it. Nothing beside the numbers was written, and no number either of what is only read. */
void drop(block *b, bool written, const char *what);

long double rounded(kernel_type type, long double x);
long double epsilon(kernel_type type);
bool same(long double a, long double b);
void expect_near(const char *what, int64_t n, int64_t j, int64_t i, long double got, long double want,
                 long double allowed);
/* Of a function at a level. */
const char *name(const kernel_table *table, kernel_type type, const char *function);

/* Sizes around a vector, a panel and the four lanes of a sum. */
enum { SIZES = 12, MOST_WIDTH = 64 };
int64_t size_at(int i, int lanes);

typedef struct limits {
    int32_t first[MOST_WIDTH], stop[MOST_WIDTH];
    kernel_limits fns;
} limits;

/* Intervals at arbitrary keys, some of them empty; all keys for each query now and then. */
void draw_limits(limits *l, int width, int64_t n, uint64_t *stream);
bool within(const limits *l, int64_t j, int i);

/* Scores of a piece: calm ones; with -inf, -1e30 and large ones among them; with a NaN in one query; -inf only in every
 * other query. */
typedef enum scores_kind { CALM, WILD, WITH_NAN, ALL_FORBIDDEN, KINDS } scores_kind;
void draw_scores(block *s, scores_kind kind, uint64_t *stream);

#endif
