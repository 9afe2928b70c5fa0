/* attn_words.c - what the table says about head size, in three sentences computed from its numbers.
 *
 * Nothing is said that was not measured: the sentences take the rows of one T (1024 if it is there) and one way to
 * compute, the first of the table, and add forward and backward up where both were measured.
 */
#include "attn_bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One head size, as measured at the T that is spoken about. */
typedef struct point {
    int64_t d;
    double seconds, gflops, share;
} point;

typedef struct subject {
    const attn_row *like; /* first row of its kind: T, dtype, causal and so on are meant to be equal to its */
    bool both;            /* forward and backward together */
    int n;
    point points[BENCH_MAX_LIST]; /* d ascending */
} subject;

/* Forward and backward together; decoding is another matter. */
static bool same_kind(const attn_row *a, attn_row b)
{
    b.pass = a->pass;
    return attn_same_block(a, &b);
}

/* How far a T is from 1024, in doublings. */
static double distance(const attn_row *row)
{
    return fabs(log2((double)row->t / 1024));
}

/* The first row whose T is nearest to 1024. */
static const attn_row *choose_like(const attn_table *table)
{
    const attn_row *best = NULL;
    for (int i = 0; i < table->n; i++) {
        const attn_row *row = &table->rows[i];
        if (!row->skipped[0] && !attn_decodes(row) &&
            (!best || (same_kind(row, *best) && distance(row) < distance(best))))
            best = row;
    }
    return best;
}

static const attn_row *find(const attn_table *table, const attn_row *like, int64_t d, attn_pass pass)
{
    for (int i = 0; i < table->n; i++) {
        const attn_row *row = &table->rows[i];
        if (same_kind(row, *like) && row->t == like->t && row->d == d && row->pass == pass && !row->skipped[0])
            return row;
    }
    return NULL;
}

static attn_pass other_pass(attn_pass pass)
{
    return pass == PASS_FORWARD ? PASS_BACKWARD : PASS_FORWARD;
}

static int by_d(const void *a, const void *b)
{
    int64_t x = ((const point *)a)->d, y = ((const point *)b)->d;
    return (x > y) - (x < y);
}

static subject choose(const attn_table *table)
{
    subject s = {.like = choose_like(table)};
    if (!s.like)
        return s;
    s.both = find(table, s.like, s.like->d, PASS_BACKWARD) && find(table, s.like, s.like->d, PASS_FORWARD);
    for (int i = 0; i < table->n; i++) {
        const attn_row *row = &table->rows[i];
        if (find(table, s.like, row->d, s.like->pass) != row || s.n == BENCH_MAX_LIST)
            continue;
        const attn_row *other = s.both ? find(table, s.like, row->d, other_pass(row->pass)) : NULL;
        if (s.both && !other)
            continue;
        double seconds = row->time.min + (other ? other->time.min : 0);
        double work = row->gflops * row->time.min + (other ? other->gflops * other->time.min : 0);
        double share_of = row->share > 0 ? row->gflops / row->share : 1;
        s.points[s.n++] = (point){row->d, seconds, work / seconds, work / seconds / share_of};
    }
    qsort(s.points, (size_t)s.n, sizeof *s.points, by_d);
    return s;
}

static const point *point_of(const subject *s, int64_t d)
{
    for (int i = 0; i < s->n; i++)
        if (s->points[i].d == d)
            return &s->points[i];
    return NULL;
}

/* Two head sizes to compare: 64 and 128 if measured, else a pair of which one is twice the other, else the ends. */
static void choose_pair(const subject *s, const point **small, const point **large)
{
    *small = point_of(s, 64);
    *large = point_of(s, 128);
    for (int i = s->n - 1; i >= 0 && !(*small && *large); i--) {
        *small = &s->points[i];
        *large = point_of(s, 2 * s->points[i].d);
    }
    if (!*small || !*large) {
        *small = &s->points[0];
        *large = &s->points[s->n - 1];
    }
}

/* ---- The sentences --------------------------------------------------------------------------------------------- */

static void print_larger(FILE *out, const subject *s)
{
    const point *small, *large;
    choose_pair(s, &small, &large);
    double slower = large->seconds / small->seconds, better = large->gflops / small->gflops - 1;
    if (large->d == 2 * small->d)
        fprintf(out, "Doubling d from %lld to %lld", (long long)small->d, (long long)large->d);
    else
        fprintf(out, "Going from d = %lld to d = %lld", (long long)small->d, (long long)large->d);
    fprintf(out, " makes attention at T = %lld (%s, %s, %s) ", (long long)s->like->t, attn_impl_name(s->like->impl),
            s->like->causal ? "causal" : "full", s->both ? "forward and backward" : attn_pass_name(s->like));
    fprintf(out,
            "%.2f times %s and %.0f %% %s efficient: %.1f GF/s instead of %.1f, %.0f %% of the FMA peak instead of",
            slower >= 1 ? slower : 1 / slower, slower >= 1 ? "slower" : "faster", 100 * fabs(better),
            better >= 0 ? "more" : "less", large->gflops, small->gflops, 100 * large->share);
    fprintf(out, " %.0f %%.\n", 100 * small->share);
}

/* The straight line seconds = fixed + per_d * d through all head sizes, by least squares of the relative errors: the
 * small times count as much as the large ones. */
static double fixed_seconds(const subject *s)
{
    double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    for (int i = 0; i < s->n; i++) {
        double x = (double)s->points[i].d, y = s->points[i].seconds, weight = 1 / (y * y);
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    return (wy * wxx - wx * wxy) / (w * wxx - wx * wx);
}

static void print_fixed(FILE *out, const subject *s)
{
    double fixed = fixed_seconds(s);
    if (!(fixed > 0)) {
        fprintf(out, "A straight line through these times leaves nothing that does not grow with d: what is done once "
                     "for every score, softmax above all, is too cheap to see.\n");
        return;
    }
    fprintf(out,
            "What is done once for every score, whatever d is (softmax, scale, mask, memory), takes about %.3g ms of "
            "that by a straight line through the times:",
            1e3 * fixed);
    const point *shown[3] = {&s->points[0], NULL, &s->points[s->n - 1]};
    shown[1] = point_of(s, 64) && s->n > 2 ? point_of(s, 64) : NULL;
    if (shown[1] == shown[0] || shown[1] == shown[2])
        shown[1] = NULL;
    for (int i = 0; i < 3; i++)
        if (shown[i])
            fprintf(out, "%s %.0f %% at d = %lld", i ? "," : "", fmin(100, 100 * fixed / shown[i]->seconds),
                    (long long)shown[i]->d);
    fprintf(out, ".\n");
}

/* A model's width is heads x d: the time of a layer of fixed width goes by seconds / d. */
static void print_width(FILE *out, const subject *s)
{
    const point *reference = point_of(s, 64) ? point_of(s, 64) : &s->points[0], *best = reference;
    for (int i = 0; i < s->n; i++)
        if (s->points[i].seconds / (double)s->points[i].d < best->seconds / (double)best->d)
            best = &s->points[i];
    double unit = reference->seconds / (double)reference->d;
    fprintf(out, "In a model of a given width (heads x d) it takes, with heads of d = %lld as the unit,",
            (long long)reference->d);
    bool first = true;
    for (int i = 0; i < s->n; i++) {
        if (&s->points[i] == reference)
            continue;
        fprintf(out, "%s %.2f of the time with d = %lld", first ? "" : ",",
                s->points[i].seconds / (double)s->points[i].d / unit, (long long)s->points[i].d);
        first = false;
    }
    fprintf(out, ": d = %lld is the fastest measured.\n", (long long)best->d);
}

void attn_print_words(FILE *out, const attn_table *table)
{
    subject s = choose(table);
    fputc('\n', out);
    if (s.n < 2) {
        fprintf(out, "To say something about head size takes two of them at least.\n");
        return;
    }
    print_larger(out, &s);
    print_fixed(out, &s);
    print_width(out, &s);
}
