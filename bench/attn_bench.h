/* attn_bench.h - between attn_bench's files: a row of its table, and what is made of rows. */
#ifndef LAB_ATTN_BENCH_H
#define LAB_ATTN_BENCH_H

#include "bench.h"
#include "llmlab.h"

/* Decoding is the forward pass of one query, the last one, over all keys; from a cache, a key and a value are appended
 * to it before. */
typedef enum attn_pass { PASS_FORWARD, PASS_BACKWARD, PASS_DECODE, PASS_CACHED } attn_pass;

enum { NO_WINDOW = -1 };

/* One line of results: a shape, a way to compute it, and how long it took. */
typedef struct attn_row {
    lab_path impl;
    lab_dtype dtype;
    attn_pass pass;
    bool causal;
    int threads;
    int64_t batch, heads, kv_heads, d, t;
    int64_t window;         /* keys on either side, causal: before the query's own; or NO_WINDOW */
    int64_t turn;           /* of decoding: the next of several sets of keys and values */
    size_t workspace_bytes; /* what a graph takes beyond operands and results */
    char skipped[256];      /* why there is no result; "" if there is one */
    double last;            /* seconds of the last call, whether it counts or not */
    bench_case timed;
    bench_statistics time;
    double gflops, share;   /* of useful work, at the fastest sample; of the peak of all threads */
    double gbs, read_share; /* decoding: keys and values read, GB/s; of the read bandwidth. Else 0 */
} attn_row;

typedef struct attn_table {
    int n;
    attn_row *rows; /* neighbours share sizes: what differs last is d */
    bench_machine machine;
    bench_anchors anchors;
    bench_quality quality;
} attn_table;

static inline bool attn_decodes(const attn_row *row)
{
    return row->pass == PASS_DECODE || row->pass == PASS_CACHED;
}

const char *attn_impl_name(lab_path impl);
const char *attn_pass_name(const attn_row *row);

/* Whether two rows are alike in everything but the way to compute, d and T; also in the first. */
bool attn_same_task(const attn_row *a, const attn_row *b);
bool attn_same_block(const attn_row *a, const attn_row *b);

/* What rows that are alike have in common, for people: "forward, causal (f32, 8 heads, batch 1)"; with the way to
 * compute in front of f32 if that is wanted. */
void attn_describe(char *text, size_t size, const attn_row *row, bool with_impl);

/* ---- attn_rows.c: measuring ------------------------------------------------------------------------------------ */

/* Marks the rows that need more memory than there is, and makes the operands of the others. False: no memory. */
bool attn_prepare(attn_table *table);

/* One sample of a row, as bench_run wants it. */
double attn_sample(void *row);

/* Fills in what follows from the samples and the anchors. */
void attn_finish(attn_table *table);

/* Gives back operands and graphs. */
void attn_release(void);

/* ---- attn_report.c: for people and programs -------------------------------------------------------------------- */

void attn_print(FILE *out, const attn_table *table);
bool attn_write_json(const char *path, const attn_table *table);
bool attn_write_csv(const char *path, const attn_table *table);

/* ---- attn_words.c: what the numbers say about head size, in three sentences ------------------------------------ */

void attn_print_words(FILE *out, const attn_table *table);

/* ---- attn_versus.c: the fused path against the composed one ---------------------------------------------------- */

/* From which T on the fused path is the faster one, where both were measured. */
void attn_print_versus(FILE *out, const attn_table *table);
json_t *attn_versus_json(const attn_table *table);

/* ---- attn_plot.c ----------------------------------------------------------------------------------------------- */

/* GF/s over T, a line for every d, a panel for every pass but decoding. False after a message (no gnuplot, a file
 * error). */
bool attn_plot(const char *path, const attn_table *table);
bool attn_plot_possible(void);

#endif
