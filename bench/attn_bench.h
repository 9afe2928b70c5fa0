/* attn_bench.h - between attn_bench's files: a row of its table, and what is made of rows. */
#ifndef LAB_ATTN_BENCH_H
#define LAB_ATTN_BENCH_H

#include "bench.h"
#include "llmlab.h"

/* One line of results: a shape, a way to compute it, and how long it took. */
typedef struct attn_row {
    lab_path impl;
    lab_dtype dtype;
    bool causal, backward;
    int64_t batch, heads, d, t;
    size_t workspace_bytes; /* what a graph takes beyond operands and results */
    char skipped[256];      /* why there is no result; "" if there is one */
    double last;            /* seconds of the last call, whether it counts or not */
    bench_case timed;
    bench_statistics time;
    double gflops, share; /* of useful work, at the fastest sample; of the peak of all threads */
} attn_row;

typedef struct attn_table {
    int n;
    attn_row *rows; /* neighbours share sizes: what differs last is d */
    bench_machine machine;
    bench_anchors anchors;
    bench_quality quality;
} attn_table;

const char *attn_impl_name(lab_path impl);
const char *attn_pass_name(const attn_row *row);

/* ---- attn_rows.c: measuring ------------------------------------------------------------------------------------ */

/* Marks the rows that need more memory than there is, and makes the operands of the others. False: no memory. */
bool attn_prepare(attn_table *table);

/* One sample of a row, as bench_run wants it. */
double attn_sample(void *row);

/* Fills in what follows from the samples and the anchors. */
void attn_finish(attn_table *table);

/* Gives back operands and graphs. */
void attn_release(void);

/* LAB_OK if an implementation works; else lab_attention's own sentence. */
lab_status attn_try(lab_path impl, lab_dtype dtype, char *message, size_t size);

/* ---- attn_report.c: for people and programs -------------------------------------------------------------------- */

void attn_print(FILE *out, const attn_table *table);
bool attn_write_json(const char *path, const attn_table *table);
bool attn_write_csv(const char *path, const attn_table *table);

/* ---- attn_words.c: what the numbers say about head size, in three sentences ------------------------------------ */

void attn_print_words(FILE *out, const attn_table *table);

/* ---- attn_plot.c ----------------------------------------------------------------------------------------------- */

/* GF/s over T, a line for every d, a panel for every pass. False after a message (no gnuplot, a file error). */
bool attn_plot(const char *path, const attn_table *table);
bool attn_plot_possible(void);

#endif
