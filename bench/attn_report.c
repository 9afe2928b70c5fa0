/* attn_report.c - the rows of attn_bench as a table for people, and as JSON and CSV for programs. */
#include "attn_bench.h"

/* Rows that make one block of the table: all d and T of one way to compute. */
static bool same_block(const attn_row *a, const attn_row *b)
{
    return a->impl == b->impl && a->dtype == b->dtype && a->causal == b->causal && a->backward == b->backward &&
           a->batch == b->batch && a->heads == b->heads;
}

/* ---- For people ------------------------------------------------------------------------------------------------ */

static void print_cell(FILE *out, const attn_row *row)
{
    if (row->skipped[0]) {
        fprintf(out, "  %12s", "skipped");
        return;
    }
    double ms = 1e3 * row->time.min;
    fprintf(out, "  %7.*f %2.0f %%", ms < 1 ? 3 : ms < 10 ? 2 : ms < 100 ? 1 : 0, ms, 100 * row->share);
}

/* The line of one d: the cells of `first`'s block that have its d, in the order of T. */
static void print_line(FILE *out, const attn_table *table, const attn_row *first)
{
    fprintf(out, "%8lld", (long long)first->d);
    for (int i = 0; i < table->n; i++)
        if (same_block(&table->rows[i], first) && table->rows[i].d == first->d)
            print_cell(out, &table->rows[i]);
    fputc('\n', out);
}

static void print_block(FILE *out, const attn_table *table, const attn_row *first)
{
    fprintf(out, "\n%s, %s", attn_pass_name(first), first->causal ? "causal" : "full");
    fprintf(out, " (%s, %s, %lld head%s, batch %lld)\n", attn_impl_name(first->impl), lab_dtype_name(first->dtype),
            (long long)first->heads, first->heads == 1 ? "" : "s", (long long)first->batch);
    fprintf(out, "%8s", "d \\ T");
    for (int i = 0; i < table->n; i++)
        if (same_block(&table->rows[i], first) && table->rows[i].d == first->d)
            fprintf(out, "  %12lld", (long long)table->rows[i].t);
    fputc('\n', out);
    for (int i = 0; i < table->n; i++)
        if (same_block(&table->rows[i], first) && table->rows[i].t == first->t)
            print_line(out, table, &table->rows[i]);
}

void attn_print(FILE *out, const attn_table *table)
{
    bench_print_machine(out, &table->machine, &table->anchors);
    fprintf(out, "\nattention: milliseconds of the fastest sample, and its useful work in %% of the FMA peak%s\n",
            table->machine.threads > 1 ? " of all threads" : "");
    for (int i = 0; i < table->n; i++) {
        bool leads = true;
        for (int j = 0; j < i && leads; j++)
            leads = !same_block(&table->rows[i], &table->rows[j]);
        if (leads)
            print_block(out, table, &table->rows[i]);
    }
    fputc('\n', out);
    bench_print_quality(out, &table->quality);
    for (int i = 0; i < table->n; i++) {
        const attn_row *row = &table->rows[i];
        if (row->skipped[0])
            fprintf(out, "skipped: %s %s %s %s d = %lld T = %lld heads = %lld batch = %lld: %s\n",
                    attn_impl_name(row->impl), lab_dtype_name(row->dtype), row->causal ? "causal" : "full",
                    attn_pass_name(row), (long long)row->d, (long long)row->t, (long long)row->heads,
                    (long long)row->batch, row->skipped);
    }
}

/* ---- For programs ---------------------------------------------------------------------------------------------- */

static json_t *row_json(const attn_row *row, int threads)
{
    return json_pack("{s:s, s:s, s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:o, s:o, s:o, s:o, s:o, s:I}", "impl",
                     attn_impl_name(row->impl), "dtype", lab_dtype_name(row->dtype), "causal", row->causal, "pass",
                     attn_pass_name(row), "batch", (json_int_t)row->batch, "heads", (json_int_t)row->heads, "d",
                     (json_int_t)row->d, "tq", (json_int_t)row->t, "tk", (json_int_t)row->t, "threads", threads,
                     "ms_min", bench_json_number(1e3 * row->time.min), "ms_median",
                     bench_json_number(1e3 * row->time.median), "spread", bench_json_number(row->time.spread), "gflops",
                     bench_json_number(row->gflops), "share_of_fma", bench_json_number(row->share), "workspace_bytes",
                     (json_int_t)row->workspace_bytes);
}

bool attn_write_json(const char *path, const attn_table *table)
{
    json_t *rows = json_array();
    for (int i = 0; i < table->n; i++)
        if (!table->rows[i].skipped[0])
            json_array_append_new(rows, row_json(&table->rows[i], table->machine.threads));
    json_t *document = json_pack("{s:o, s:o, s:o}", "machine", bench_machine_json(&table->machine), "anchors",
                                 bench_anchors_json(&table->anchors), "rows", rows);
    return bench_write_json("attn_bench", path, document);
}

bool attn_write_csv(const char *path, const attn_table *table)
{
    FILE *file = bench_open("attn_bench", path);
    if (!file)
        return false;
    fputs("impl,dtype,causal,pass,batch,heads,d,tq,tk,threads,ms_min,ms_median,spread,gflops,share_of_fma,"
          "workspace_bytes\n",
          file);
    for (int i = 0; i < table->n; i++) {
        const attn_row *row = &table->rows[i];
        if (row->skipped[0])
            continue;
        fprintf(file, "%s,%s,%s,%s,%lld,%lld,%lld,%lld,%lld,%d,%.9g,%.9g,%.6g,%.6g,%.6g,%zu\n",
                attn_impl_name(row->impl), lab_dtype_name(row->dtype), row->causal ? "true" : "false",
                attn_pass_name(row), (long long)row->batch, (long long)row->heads, (long long)row->d, (long long)row->t,
                (long long)row->t, table->machine.threads, 1e3 * row->time.min, 1e3 * row->time.median,
                row->time.spread, row->gflops, row->share, row->workspace_bytes);
    }
    return bench_close("attn_bench", path, file);
}
