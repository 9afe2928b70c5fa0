/* attn_plot.c - GF/s over T by gnuplot: a panel for every pass, full and causal, and in it a line for every d; a thin
 * one with dashes for the composed path, where the fused one was measured as well. Decoding has no place here: what
 * counts there is bytes.
 *
 * The script goes to gnuplot's standard input, data inline, so that no file is left behind but the picture.
 */
#include "attn_bench.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/parallel.h"

/* Which of a series' properties differ within the table, and so belong into its label. */
typedef struct varying {
    bool impl, dtype, batch, heads, window, threads;
} varying;

/* Whether a row is in the picture. */
static bool drawn(const attn_row *row)
{
    return !row->skipped[0] && !attn_decodes(row);
}

static bool same_panel(const attn_row *a, const attn_row *b)
{
    return a->pass == b->pass && a->causal == b->causal;
}

static bool same_series(const attn_row *a, const attn_row *b)
{
    return attn_same_block(a, b) && a->d == b->d;
}

/* Whether rows[i] is the first of its kind. */
static bool leads(const attn_table *table, int i, bool (*same)(const attn_row *, const attn_row *))
{
    if (!drawn(&table->rows[i]))
        return false;
    for (int j = 0; j < i; j++)
        if (drawn(&table->rows[j]) && same(&table->rows[i], &table->rows[j]))
            return false;
    return true;
}

static int count(const attn_table *table, bool (*same)(const attn_row *, const attn_row *))
{
    int n = 0;
    for (int i = 0; i < table->n; i++)
        n += leads(table, i, same);
    return n;
}

/* The first row that is drawn; there is one. */
static const attn_row *first_drawn(const attn_table *table)
{
    const attn_row *row = table->rows;
    while (!drawn(row))
        row++;
    return row;
}

static varying what_varies(const attn_table *table)
{
    varying v = {0};
    const attn_row *a = first_drawn(table);
    for (const attn_row *b = a; b < table->rows + table->n; b++) {
        if (!drawn(b))
            continue;
        v.impl |= a->impl != b->impl;
        v.dtype |= a->dtype != b->dtype;
        v.batch |= a->batch != b->batch;
        v.heads |= a->heads != b->heads || a->kv_heads != b->kv_heads;
        v.window |= a->window != b->window;
        v.threads |= a->threads != b->threads;
    }
    return v;
}

/* Text in gnuplot's single quotes, where only the quote itself is special. */
static void put_quoted(FILE *script, const char *text)
{
    fputc('\'', script);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', script);
        fputc(*text == '\n' ? ' ' : *text, script);
    }
    fputc('\'', script);
}

static bool dashed(const attn_row *row, varying v)
{
    return v.impl && row->impl == LAB_PATH_COMPOSED;
}

/* Nothing for a line with dashes: the one of its colour says what it is. */
static void put_label(FILE *script, const attn_row *row, varying v)
{
    if (dashed(row, v)) {
        fprintf(script, "''");
        return;
    }
    fprintf(script, "'d = %lld", (long long)row->d);
    if (v.dtype)
        fprintf(script, ", %s", lab_dtype_name(row->dtype));
    if (v.heads)
        fprintf(script, ", %lld heads", (long long)row->heads);
    if (v.heads && row->heads != row->kv_heads)
        fprintf(script, " over %lld", (long long)row->kv_heads);
    if (v.batch)
        fprintf(script, ", batch %lld", (long long)row->batch);
    if (v.window)
        fprintf(script, row->window == NO_WINDOW ? ", no window" : ", window %lld", (long long)row->window);
    if (v.threads)
        fprintf(script, ", %d thread%s", row->threads, row->threads == 1 ? "" : "s");
    fputc('\'', script);
}

/* ---- The script ------------------------------------------------------------------------------------------------ */

static void put_data(FILE *script, const attn_table *table)
{
    for (int i = 0; i < table->n; i++) {
        if (!leads(table, i, same_series))
            continue;
        fprintf(script, "$series%d << END\n", i);
        for (int j = 0; j < table->n; j++)
            if (drawn(&table->rows[j]) && same_series(&table->rows[i], &table->rows[j]))
                fprintf(script, "%lld %.6g\n", (long long)table->rows[j].t, table->rows[j].gflops);
        fprintf(script, "END\n");
    }
}

static void put_title(FILE *script, const attn_table *table, varying v)
{
    const attn_row *row = first_drawn(table);
    char text[512], what[128] = "";
    snprintf(what, sizeof what, "%s, ", v.impl ? "fused" : attn_impl_name(row->impl));
    if (!v.dtype)
        snprintf(what + strlen(what), sizeof what - strlen(what), "%s, ", lab_dtype_name(row->dtype));
    if (!v.heads)
        snprintf(what + strlen(what), sizeof what - strlen(what), "%lld head%s, ", (long long)row->heads,
                 row->heads == 1 ? "" : "s");
    if (!v.batch && row->batch != 1)
        snprintf(what + strlen(what), sizeof what - strlen(what), "batch %lld, ", (long long)row->batch);
    if (!v.window && row->window != NO_WINDOW)
        snprintf(what + strlen(what), sizeof what - strlen(what), "window of %lld, ", (long long)row->window);
    if (!v.threads)
        snprintf(what + strlen(what), sizeof what - strlen(what), "%d thread%s, ", row->threads,
                 row->threads == 1 ? "" : "s");
    what[strlen(what) - 2] = '\0';
    snprintf(text, sizeof text, "Attention (%s%s) on %s, %s kernels, %s", what, v.impl ? "; dashes: composed" : "",
             table->machine.cpu, table->machine.kernels, table->machine.blas);
    put_quoted(script, text);
}

/* Marks at the T that were measured, thinned out by gnuplot itself if they are many. */
static void put_axes(FILE *script, const attn_table *table)
{
    int64_t seen[BENCH_MAX_LIST], least = first_drawn(table)->t, most = least;
    int n = 0;
    fprintf(script, "set logscale x 2\nset xtics (");
    for (int i = 0; i < table->n; i++) {
        int64_t t = table->rows[i].t;
        bool known = !drawn(&table->rows[i]);
        for (int j = 0; j < n; j++)
            known |= seen[j] == t;
        if (known || n == BENCH_MAX_LIST)
            continue;
        fprintf(script, "%s%lld", n ? ", " : "", (long long)t);
        seen[n++] = t;
        least = t < least ? t : least;
        most = t > most ? t : most;
    }
    fprintf(script, ")\nset xrange [%g:%g]\nset yrange [0:*]\n", 0.85 * (double)least, 1.18 * (double)most);
    fprintf(script, "set xlabel 'sequence length T'\nset ylabel 'GF/s of useful work'\nset grid\n"
                    "set key outside right top samplen 2\n");
}

/* Colours for d, from dark to light; points for what else differs. */
static const char *const colors[] = {"#30123b", "#1f5fbf", "#1aa184", "#7fb800",
                                     "#e08a00", "#c8321e", "#7a0403", "#999999"};
static const int points[] = {7, 5, 9, 11, 13, 6, 4, 8};
enum { COLORS = sizeof colors / sizeof *colors, POINTS = sizeof points / sizeof *points };

static bool same_d(const attn_row *a, const attn_row *b)
{
    return a->d == b->d;
}

/* What tells series of one d apart within a panel, but for the way to compute, which dashes tell. */
static bool same_but_d(const attn_row *a, const attn_row *b)
{
    return a->dtype == b->dtype && a->batch == b->batch && a->heads == b->heads && a->kv_heads == b->kv_heads &&
           a->window == b->window && a->threads == b->threads;
}

/* The number of rows[i]'s kind, counted from the table's start. */
static int number_of(const attn_table *table, int i, bool (*same)(const attn_row *, const attn_row *))
{
    int number = -1;
    for (int j = 0; j < table->n; j++) {
        number += leads(table, j, same);
        if (drawn(&table->rows[j]) && same(&table->rows[i], &table->rows[j]))
            break;
    }
    return number < 0 ? 0 : number;
}

/* A line for every number of threads that the panel's rows of a type have. */
static void put_peaks(FILE *script, const attn_table *table, const attn_row *first, varying v)
{
    bool done[BENCH_TYPES][PARALLEL_MAX_THREADS + 1] = {{false}};
    for (int i = 0; i < table->n; i++) {
        const attn_row *row = &table->rows[i];
        if (!drawn(row) || !same_panel(row, first) || done[row->dtype][row->threads])
            continue;
        done[row->dtype][row->threads] = true;
        fprintf(script, ", %.6g with lines dashtype %d linewidth 2 linecolor rgb '#606060' title 'FMA peak",
                table->anchors.fma_gflops[row->dtype] * row->threads, 3 + (int)row->dtype);
        if (v.dtype)
            fprintf(script, ", %s", lab_dtype_name(row->dtype));
        if (v.threads)
            fprintf(script, ", %d thread%s", row->threads, row->threads == 1 ? "" : "s");
        fputc('\'', script);
    }
}

static void put_panel(FILE *script, const attn_table *table, const attn_row *first, varying v)
{
    fprintf(script, "set title '%s, %s'\nplot", attn_pass_name(first), first->causal ? "causal" : "full");
    const char *separator = " ";
    for (int i = 0; i < table->n; i++) {
        const attn_row *row = &table->rows[i];
        if (!same_panel(row, first) || !leads(table, i, same_series))
            continue;
        const bool thin = dashed(row, v);
        fprintf(script, "%s$series%d using 1:2 with %s linecolor rgb '%s' linewidth %d dashtype %d", separator, i,
                thin ? "lines" : "linespoints", colors[number_of(table, i, same_d) % COLORS], thin ? 1 : 2,
                thin ? 2 : 1);
        if (!thin)
            fprintf(script, " pointtype %d pointsize 0.7", points[number_of(table, i, same_but_d) % POINTS]);
        fprintf(script, " title ");
        put_label(script, row, v);
        separator = ", ";
    }
    put_peaks(script, table, first, v);
    fprintf(script, "\n");
}

static void put_script(FILE *script, const char *path, const attn_table *table)
{
    varying v = what_varies(table);
    int panels = count(table, same_panel), columns = panels > 1 ? 2 : 1, lines = (panels + columns - 1) / columns;
    int width = columns == 2 ? 1240 : 760, height = 60 + 440 * lines;
    put_data(script, table);
    if (strcmp(path + strlen(path) - 4, ".svg") == 0)
        fprintf(script, "set terminal svg noenhanced size %d,%d font 'sans,13' background rgb 'white'\n", width,
                height);
    else
        fprintf(script,
                "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) set terminal pngcairo noenhanced size %d,%d font 'sans,11'; "
                "else set terminal png noenhanced size %d,%d\n",
                width, height, width, height);
    fprintf(script, "set output ");
    put_quoted(script, path);
    fputc('\n', script);
    put_axes(script, table);
    fprintf(script, "set multiplot layout %d,%d title ", lines, columns);
    put_title(script, table, v);
    fputc('\n', script);
    for (int i = 0; i < table->n; i++)
        if (leads(table, i, same_panel))
            put_panel(script, table, &table->rows[i], v);
    fprintf(script, "unset multiplot\nunset output\n");
}

bool attn_plot_possible(void)
{
    return system("command -v gnuplot > /dev/null 2>&1") == 0;
}

bool attn_plot(const char *path, const attn_table *table)
{
    if (count(table, same_panel) == 0) {
        fprintf(stderr, "attn_bench: --plot: there is no row to draw\n");
        return true;
    }
    signal(SIGPIPE, SIG_IGN); /* a gnuplot that ends early shows in its status */
    FILE *script = popen("gnuplot", "w");
    if (script)
        put_script(script, path, table);
    int status = script ? pclose(script) : -1;
    if (status != 0)
        fprintf(stderr, "attn_bench: --plot: gnuplot could not draw %s\n", path);
    return status == 0;
}
