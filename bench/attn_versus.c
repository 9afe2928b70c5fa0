/* attn_versus.c - the fused path against the composed one: how many times faster, and from which T on.
 *
 * The composed path holds the T x T probabilities, so its backward need not compute them again: four products against
 * five. Where they fit into a cache this can make it the faster one; where they don't, it waits for memory.
 */
#include "attn_bench.h"

#include <string.h>

/* One d of one task, over all T at which both paths were measured. */
typedef struct versus {
    int n; /* of these T */
    int64_t least, most;
    int64_t lost;   /* the largest T at which the composed path is the faster one; -1: none */
    int64_t from;   /* the smallest T measured above that; -1: none */
    double at_most; /* composed time / fused time at `most` */
} versus;

static const attn_row *composed_twin(const attn_table *table, const attn_row *fused)
{
    for (int i = 0; i < table->n; i++) {
        const attn_row *row = &table->rows[i];
        if (row->impl == LAB_PATH_COMPOSED && attn_same_task(row, fused) && row->d == fused->d && row->t == fused->t &&
            !row->skipped[0])
            return row;
    }
    return NULL;
}

/* composed time / fused time; 0 where one of them is missing. */
static double ratio(const attn_table *table, const attn_row *fused)
{
    const attn_row *twin = fused->impl == LAB_PATH_FUSED && !fused->skipped[0] ? composed_twin(table, fused) : NULL;
    return twin ? twin->time.min / fused->time.min : 0;
}

static versus compare(const attn_table *table, const attn_row *like)
{
    versus v = {.lost = -1, .from = -1};
    for (int i = 0; i < table->n; i++) {
        const attn_row *row = &table->rows[i];
        const double times = attn_same_block(row, like) && row->d == like->d ? ratio(table, row) : 0;
        if (times == 0)
            continue;
        if (v.n++ == 0 || row->t < v.least)
            v.least = row->t;
        if (row->t >= v.most) {
            v.most = row->t;
            v.at_most = times;
        }
        if (times < 1 && row->t > v.lost)
            v.lost = row->t;
    }
    for (int i = 0; i < table->n; i++) {
        const attn_row *row = &table->rows[i];
        if (attn_same_block(row, like) && row->d == like->d && ratio(table, row) > 0 && row->t > v.lost &&
            (v.from < 0 || row->t < v.from))
            v.from = row->t;
    }
    return v;
}

/* Whether rows[i] is the first fused row of its kind that has a composed twin; of its task alone, or also of its d. */
static bool leads(const attn_table *table, int i, bool and_d)
{
    if (ratio(table, &table->rows[i]) == 0)
        return false;
    for (int j = 0; j < i; j++)
        if (attn_same_block(&table->rows[i], &table->rows[j]) && (!and_d || table->rows[i].d == table->rows[j].d) &&
            ratio(table, &table->rows[j]) > 0)
            return false;
    return true;
}

/* The first row of the kind of `first` with this d, or NULL. */
static const attn_row *find(const attn_table *table, const attn_row *first, int64_t d)
{
    for (int i = 0; i < table->n; i++)
        if (attn_same_block(&table->rows[i], first) && table->rows[i].d == d && ratio(table, &table->rows[i]) > 0)
            return &table->rows[i];
    return NULL;
}

static int list_sizes(const attn_table *table, int64_t *sizes)
{
    int n = 0;
    for (int i = 0; i < table->n; i++) {
        bool known = ratio(table, &table->rows[i]) == 0;
        for (int j = 0; j < n; j++)
            known |= sizes[j] == table->rows[i].d;
        if (!known && n < BENCH_MAX_LIST)
            sizes[n++] = table->rows[i].d;
    }
    return n;
}

static void print_cell(FILE *out, const attn_table *table, const attn_row *row)
{
    versus v = row ? compare(table, row) : (versus){0};
    char text[32] = "";
    if (row && v.from < 0)
        snprintf(text, sizeof text, "%.2f never", v.at_most);
    else if (row && v.from == v.least)
        snprintf(text, sizeof text, "%.2f all", v.at_most);
    else if (row)
        snprintf(text, sizeof text, "%.2f >= %lld", v.at_most, (long long)v.from);
    fprintf(out, "  %-12s", text);
}

static int width_of_tasks(const attn_table *table)
{
    int width = 0;
    for (int i = 0; i < table->n; i++) {
        char text[256];
        attn_describe(text, sizeof text, &table->rows[i], false);
        if (leads(table, i, false) && (int)strlen(text) > width)
            width = (int)strlen(text);
    }
    return width;
}

void attn_print_versus(FILE *out, const attn_table *table)
{
    int64_t sizes[BENCH_MAX_LIST];
    int n = list_sizes(table, sizes), width = width_of_tasks(table);
    if (n == 0)
        return;
    fprintf(out,
            "\nfused against composed: how many times faster at the largest T; and the T from which on it is faster\n"
            "%*s",
            width, "d =");
    for (int i = 0; i < n; i++)
        fprintf(out, "  %-12lld", (long long)sizes[i]);
    fputc('\n', out);
    for (int i = 0; i < table->n; i++) {
        if (!leads(table, i, false))
            continue;
        char text[256];
        attn_describe(text, sizeof text, &table->rows[i], false);
        fprintf(out, "%-*s", width, text);
        for (int j = 0; j < n; j++)
            print_cell(out, table, find(table, &table->rows[i], sizes[j]));
        fputc('\n', out);
    }
}

json_t *attn_versus_json(const attn_table *table)
{
    json_t *result = json_array();
    for (int i = 0; result && i < table->n; i++) {
        const attn_row *row = &table->rows[i];
        if (!leads(table, i, true))
            continue;
        versus v = compare(table, row);
        json_array_append_new(result,
                              json_pack("{s:s, s:b, s:s, s:I, s:I, s:I, s:I, s:o, s:i, s:o, s:I, s:o}", "dtype",
                                        lab_dtype_name(row->dtype), "causal", row->causal, "pass", attn_pass_name(row),
                                        "batch", (json_int_t)row->batch, "heads", (json_int_t)row->heads, "kv_heads",
                                        (json_int_t)row->kv_heads, "d", (json_int_t)row->d, "window",
                                        row->window == NO_WINDOW ? json_null() : json_integer(row->window), "threads",
                                        row->threads, "faster_from", v.from < 0 ? json_null() : json_integer(v.from),
                                        "largest_t", (json_int_t)v.most, "times_faster", bench_json_number(v.at_most)));
    }
    return result;
}
