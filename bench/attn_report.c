/* attn_report.c - the rows of attn_bench as a table for people, and as JSON and CSV for programs. */
#include "attn_bench.h"

/* ---- For people ------------------------------------------------------------------------------------------------ */

void attn_describe(char *text, size_t size, const attn_row *row, bool with_impl)
{
    char keys[32] = "", window[48] = "", threads[32] = "";
    if (row->kv_heads != row->heads)
        snprintf(keys, sizeof keys, " over %lld of keys", (long long)row->kv_heads);
    if (row->window != NO_WINDOW)
        snprintf(window, sizeof window, ", window of %lld", (long long)row->window);
    if (row->threads > 1)
        snprintf(threads, sizeof threads, ", %d threads", row->threads);
    snprintf(text, size, "%s%s (%s%s%s, %lld head%s%s, batch %lld%s%s)", attn_pass_name(row),
             attn_decodes(row) ? ""
             : row->causal     ? ", causal"
                               : ", full",
             with_impl ? attn_impl_name(row->impl) : "", with_impl ? ", " : "", lab_dtype_name(row->dtype),
             (long long)row->heads, row->heads == 1 ? "" : "s", keys, (long long)row->batch, window, threads);
}

/* How many characters a cell is wide. */
static int width_of(const attn_row *row)
{
    return attn_decodes(row) ? 21 : 12;
}

static void print_cell(FILE *out, const attn_row *row)
{
    if (row->skipped[0]) {
        fprintf(out, "  %*s", width_of(row), "skipped");
        return;
    }
    double ms = 1e3 * row->time.min;
    int digits = ms < 1 ? 3 : ms < 10 ? 2 : ms < 100 ? 1 : 0;
    if (attn_decodes(row))
        fprintf(out, "  %6.*f %5.1f GB/s %2.0f %%", digits, ms, row->gbs, 100 * row->read_share);
    else
        fprintf(out, "  %7.*f %2.0f %%", digits, ms, 100 * row->share);
}

/* The line of one d: the cells of `first`'s block that have its d, in the order of T. */
static void print_line(FILE *out, const attn_table *table, const attn_row *first)
{
    fprintf(out, "%8lld", (long long)first->d);
    for (int i = 0; i < table->n; i++)
        if (attn_same_block(&table->rows[i], first) && table->rows[i].d == first->d)
            print_cell(out, &table->rows[i]);
    fputc('\n', out);
}

static void print_block(FILE *out, const attn_table *table, const attn_row *first)
{
    char text[256];
    attn_describe(text, sizeof text, first, true);
    fprintf(out, "\n%s\n%8s", text, "d \\ T");
    for (int i = 0; i < table->n; i++)
        if (attn_same_block(&table->rows[i], first) && table->rows[i].d == first->d)
            fprintf(out, "  %*lld", width_of(first), (long long)table->rows[i].t);
    fputc('\n', out);
    for (int i = 0; i < table->n; i++)
        if (attn_same_block(&table->rows[i], first) && table->rows[i].t == first->t)
            print_line(out, table, &table->rows[i]);
}

static bool any_decodes(const attn_table *table)
{
    for (int i = 0; i < table->n; i++)
        if (attn_decodes(&table->rows[i]))
            return true;
    return false;
}

void attn_print(FILE *out, const attn_table *table)
{
    bench_print_machine(out, &table->machine, &table->anchors);
    fprintf(out, "\nattention: milliseconds of the fastest sample, and its useful work in %% of the FMA peak%s\n",
            table->machine.threads > 1 ? " of its threads" : "");
    if (any_decodes(table))
        fprintf(out, "decoding: milliseconds, keys and values read, in %% of what can be read\n");
    for (int i = 0; i < table->n; i++) {
        bool leads = true;
        for (int j = 0; j < i && leads; j++)
            leads = !attn_same_block(&table->rows[i], &table->rows[j]);
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

static json_int_t queries(const attn_row *row)
{
    return attn_decodes(row) ? 1 : (json_int_t)row->t;
}

/* The number, or null where the row has none. */
static json_t *number_if(bool there, double value)
{
    return there ? bench_json_number(value) : json_null();
}

static json_t *row_json(const attn_row *row)
{
    const bool decodes = attn_decodes(row);
    return json_pack(
        "{s:s, s:s, s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:I}",
        "impl", attn_impl_name(row->impl), "dtype", lab_dtype_name(row->dtype), "causal", row->causal, "pass",
        attn_pass_name(row), "batch", (json_int_t)row->batch, "heads", (json_int_t)row->heads, "kv_heads",
        (json_int_t)row->kv_heads, "d", (json_int_t)row->d, "tq", queries(row), "tk", (json_int_t)row->t, "window",
        row->window == NO_WINDOW ? json_null() : json_integer((json_int_t)row->window), "threads", row->threads,
        "ms_min", bench_json_number(1e3 * row->time.min), "ms_median", bench_json_number(1e3 * row->time.median),
        "spread", bench_json_number(row->time.spread), "gflops", bench_json_number(row->gflops), "share_of_fma",
        bench_json_number(row->share), "gbs", number_if(decodes, row->gbs), "share_of_read",
        number_if(decodes, row->read_share), "workspace_bytes", (json_int_t)row->workspace_bytes);
}

bool attn_write_json(const char *path, const attn_table *table)
{
    json_t *rows = json_array();
    for (int i = 0; i < table->n; i++)
        if (!table->rows[i].skipped[0])
            json_array_append_new(rows, row_json(&table->rows[i]));
    json_t *document =
        json_pack("{s:o, s:o, s:o, s:o}", "machine", bench_machine_json(&table->machine), "anchors",
                  bench_anchors_json(&table->anchors), "rows", rows, "crossover", attn_versus_json(table));
    return bench_write_json("attn_bench", path, document);
}

bool attn_write_csv(const char *path, const attn_table *table)
{
    FILE *file = bench_open("attn_bench", path);
    if (!file)
        return false;
    fputs("impl,dtype,causal,pass,batch,heads,kv_heads,d,tq,tk,window,threads,ms_min,ms_median,spread,gflops,"
          "share_of_fma,gbs,share_of_read,workspace_bytes\n",
          file);
    for (int i = 0; i < table->n; i++) {
        const attn_row *row = &table->rows[i];
        if (row->skipped[0])
            continue;
        char window[24] = "", read[64] = ",";
        if (row->window != NO_WINDOW)
            snprintf(window, sizeof window, "%lld", (long long)row->window);
        if (attn_decodes(row))
            snprintf(read, sizeof read, "%.6g,%.6g", row->gbs, row->read_share);
        fprintf(file, "%s,%s,%s,%s,%lld,%lld,%lld,%lld,%lld,%lld,%s,%d,%.9g,%.9g,%.6g,%.6g,%.6g,%s,%zu\n",
                attn_impl_name(row->impl), lab_dtype_name(row->dtype), row->causal ? "true" : "false",
                attn_pass_name(row), (long long)row->batch, (long long)row->heads, (long long)row->kv_heads,
                (long long)row->d, (long long)queries(row), (long long)row->t, window, row->threads,
                1e3 * row->time.min, 1e3 * row->time.median, row->time.spread, row->gflops, row->share, read,
                row->workspace_bytes);
    }
    return bench_close("attn_bench", path, file);
}
