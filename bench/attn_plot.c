/* attn_plot.c - GF/s over T by gnuplot: a panel for every pass, full and causal, and in it a line for every d.
 *
 * The script goes to gnuplot's standard input, data inline, so that no file is left behind but the picture.
 */
#include "attn_bench.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Which of a series' properties differ within the table, and so belong into its label. */
typedef struct varying {
    bool impl, dtype, batch, heads;
} varying;

static bool same_panel(const attn_row *a, const attn_row *b)
{
    return a->backward == b->backward && a->causal == b->causal;
}

static bool same_series(const attn_row *a, const attn_row *b)
{
    return same_panel(a, b) && a->impl == b->impl && a->dtype == b->dtype && a->batch == b->batch &&
           a->heads == b->heads && a->d == b->d;
}

/* Whether rows[i] is the first of its kind. */
static bool leads(const attn_table *table, int i, bool (*same)(const attn_row *, const attn_row *))
{
    if (table->rows[i].skipped[0])
        return false;
    for (int j = 0; j < i; j++)
        if (!table->rows[j].skipped[0] && same(&table->rows[i], &table->rows[j]))
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

static varying what_varies(const attn_table *table)
{
    varying v = {0};
    for (int i = 1; i < table->n; i++) {
        const attn_row *a = &table->rows[0], *b = &table->rows[i];
        v.impl |= a->impl != b->impl;
        v.dtype |= a->dtype != b->dtype;
        v.batch |= a->batch != b->batch;
        v.heads |= a->heads != b->heads;
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

static void put_label(FILE *script, const attn_row *row, varying v)
{
    fprintf(script, "'d = %lld", (long long)row->d);
    if (v.impl)
        fprintf(script, ", %s", attn_impl_name(row->impl));
    if (v.dtype)
        fprintf(script, ", %s", lab_dtype_name(row->dtype));
    if (v.heads)
        fprintf(script, ", %lld heads", (long long)row->heads);
    if (v.batch)
        fprintf(script, ", batch %lld", (long long)row->batch);
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
            if (!table->rows[j].skipped[0] && same_series(&table->rows[i], &table->rows[j]))
                fprintf(script, "%lld %.6g\n", (long long)table->rows[j].t, table->rows[j].gflops);
        fprintf(script, "END\n");
    }
}

static void put_title(FILE *script, const attn_table *table, varying v)
{
    const attn_row *row = &table->rows[0];
    char text[512], what[128] = "";
    if (!v.impl)
        snprintf(what + strlen(what), sizeof what - strlen(what), "%s, ", attn_impl_name(row->impl));
    if (!v.dtype)
        snprintf(what + strlen(what), sizeof what - strlen(what), "%s, ", lab_dtype_name(row->dtype));
    if (!v.heads)
        snprintf(what + strlen(what), sizeof what - strlen(what), "%lld head%s, ", (long long)row->heads,
                 row->heads == 1 ? "" : "s");
    if (!v.batch && row->batch != 1)
        snprintf(what + strlen(what), sizeof what - strlen(what), "batch %lld, ", (long long)row->batch);
    snprintf(text, sizeof text, "Attention (%s%d thread%s) on %s, %s kernels, %s", what, table->machine.threads,
             table->machine.threads == 1 ? "" : "s", table->machine.cpu, table->machine.kernels, table->machine.blas);
    put_quoted(script, text);
}

/* Marks at the T that were measured, thinned out by gnuplot itself if they are many. */
static void put_axes(FILE *script, const attn_table *table)
{
    int64_t seen[BENCH_MAX_LIST], least = table->rows[0].t, most = least;
    int n = 0;
    fprintf(script, "set logscale x 2\nset xtics (");
    for (int i = 0; i < table->n; i++) {
        int64_t t = table->rows[i].t;
        bool known = false;
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

/* What tells series of one d apart within a panel. */
static bool same_but_d(const attn_row *a, const attn_row *b)
{
    return a->impl == b->impl && a->dtype == b->dtype && a->batch == b->batch && a->heads == b->heads;
}

/* The number of rows[i]'s kind, counted from the table's start. */
static int number_of(const attn_table *table, int i, bool (*same)(const attn_row *, const attn_row *))
{
    int number = -1;
    for (int j = 0; j < table->n; j++) {
        number += leads(table, j, same);
        if (!table->rows[j].skipped[0] && same(&table->rows[i], &table->rows[j]))
            break;
    }
    return number < 0 ? 0 : number;
}

static void put_panel(FILE *script, const attn_table *table, const attn_row *first, varying v)
{
    fprintf(script, "set title '%s, %s'\nplot", attn_pass_name(first), first->causal ? "causal" : "full");
    bool of_type[BENCH_TYPES] = {false};
    const char *separator = " ";
    for (int i = 0; i < table->n; i++) {
        const attn_row *row = &table->rows[i];
        if (!same_panel(row, first) || !leads(table, i, same_series))
            continue;
        fprintf(script, "%s$series%d using 1:2 with linespoints linecolor rgb '%s' linewidth 2 pointtype %d title ",
                separator, i, colors[number_of(table, i, same_d) % COLORS],
                points[number_of(table, i, same_but_d) % POINTS]);
        put_label(script, row, v);
        separator = ", ";
        of_type[row->dtype] = true;
    }
    for (int type = 0; type < BENCH_TYPES; type++)
        if (of_type[type])
            fprintf(script, ", %.6g with lines dashtype %d linewidth 2 linecolor rgb '#606060' title 'FMA peak%s%s'",
                    table->anchors.fma_gflops[type] * table->machine.threads, 2 + type, v.dtype ? ", " : "",
                    v.dtype ? lab_dtype_name((lab_dtype)type) : "");
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
        fprintf(stderr, "attn_bench: --plot: every row was skipped, there is nothing to draw\n");
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
