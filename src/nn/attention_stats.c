/* attention_stats.c - how sharply heads look, from their masked scores, in double.
 *
 * With m a row's maximum so far, and the sums taken without the largest term itself (whose e^0 is 1):
 *
 *     u = sum e^(s - m)    u2 = sum e^(2 (s - m))    a = sum (s - m) e^(s - m)    l = 1 + u
 *
 *     largest probability   1 / l
 *     entropy               ln l - a / l                      log1p(u), which does not lose a small u
 *     gain = 1 - sum p^2    1 - (1 + u2) / l^2                (2 u + u^2 - u2) / l^2, which does not cancel
 */
#include "attention_impl.h"

typedef struct row_stats {
    double p_max, entropy, gain;
    bool empty;
} row_stats;

void lab__stats_row_begin(stats_row *row)
{
    *row = (stats_row){.largest = -INFINITY};
}

void lab__stats_row_add(stats_row *row, double score)
{
    if (score == -INFINITY || isnan(row->largest))
        return;
    if (isnan(score) || score > row->largest) {
        const double ahead = row->largest - score, r = exp(ahead);
        if (r > 0) {
            row->a = r * (row->a + ahead * (row->u + 1));
            row->u = r * (row->u + 1);
            row->u2 = r * r * (row->u2 + 1);
        } else {
            row->a = row->u = row->u2 = 0;
        }
        row->largest = score;
        return;
    }
    const double below = score - row->largest, weight = exp(below);
    row->u += weight;
    row->u2 += weight * weight;
    row->a += weight > 0 ? below * weight : 0;
}

static row_stats end_of(const stats_row *row)
{
    if (row->largest == -INFINITY)
        return (row_stats){.empty = true};
    double u = row->largest < INFINITY ? row->u : NAN, l = 1 + u; /* as the probabilities of such a row are */
    return (row_stats){.p_max = 1 / l, .entropy = log1p(u) - row->a / l, .gain = (2 * u + u * u - row->u2) / (l * l)};
}

/* The sum is kept in the place of the mean until the end. A NaN stays. */
static void spread_add(lab_spread *spread, double x, bool first)
{
    spread->min = first || isnan(x) || x < spread->min ? x : spread->min;
    spread->max = first || isnan(x) || x > spread->max ? x : spread->max;
    spread->mean += x;
}

void lab__stats_row_end(lab_attention_stats *stats, const stats_row *scores)
{
    const row_stats row = end_of(scores);
    bool first = stats->rows == stats->empty_rows;
    stats->rows++;
    if (row.empty) {
        stats->empty_rows++;
        return;
    }
    spread_add(&stats->p_max, row.p_max, first);
    spread_add(&stats->entropy, row.entropy, first);
    spread_add(&stats->gain, row.gain, first);
    stats->saturated_share += row.p_max > 0.99;
}

static double score_at(const lab_tensor *scores, int64_t place)
{
    return scores->dtype == LAB_F32 ? ((const float *)scores->data)[place] : ((const double *)scores->data)[place];
}

void lab__stats_add(const attention *a, const lab_tensor *scores)
{
    if (!scores)
        return;
    for (int64_t i = 0; i < a->batch * a->heads * a->tq; i++) {
        stats_row row;
        lab__stats_row_begin(&row);
        for (int64_t j = 0; j < a->tk; j++)
            lab__stats_row_add(&row, score_at(scores, i * a->tk + j));
        lab__stats_row_end(&a->opts->stats[i / a->tq % a->heads], &row);
    }
}

void lab__stats_finish(int64_t heads, lab_attention_stats *stats)
{
    for (int64_t h = 0; h < heads; h++) {
        double rows = (double)(stats[h].rows - stats[h].empty_rows);
        if (rows == 0)
            continue;
        stats[h].p_max.mean /= rows;
        stats[h].entropy.mean /= rows;
        stats[h].gain.mean /= rows;
        stats[h].saturated_share /= rows;
    }
}
