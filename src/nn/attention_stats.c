/* attention_stats.c - how sharply heads look, from their masked scores, in double.
 *
 * With m a row's maximum, and the sums taken without the largest term itself (whose e^0 is 1):
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

static double score_at(const lab_tensor *scores, int64_t place)
{
    return scores->dtype == LAB_F32 ? ((const float *)scores->data)[place] : ((const double *)scores->data)[place];
}

static row_stats stats_of_row(const lab_tensor *scores, int64_t first, int64_t n)
{
    double largest = -INFINITY;
    int64_t where = -1;
    for (int64_t j = 0; j < n; j++) {
        double s = score_at(scores, first + j);
        if (isnan(s) || s > largest) {
            largest = s;
            where = j;
        }
        if (isnan(s))
            break;
    }
    if (where < 0)
        return (row_stats){.empty = true};
    double u = 0, u2 = 0, a = 0;
    for (int64_t j = 0; j < n; j++) {
        double below = score_at(scores, first + j) - largest;
        if (j == where || below == -INFINITY)
            continue;
        double weight = exp(below);
        u += weight;
        u2 += weight * weight;
        a += below * weight;
    }
    double l = 1 + u;
    if (largest == INFINITY)
        l = u = NAN; /* as the probabilities of such a row are */
    return (row_stats){.p_max = 1 / l, .entropy = log1p(u) - a / l, .gain = (2 * u + u * u - u2) / (l * l)};
}

/* The sum is kept in the place of the mean until the end. A NaN stays. */
static void spread_add(lab_spread *spread, double x, bool first)
{
    spread->min = first || isnan(x) || x < spread->min ? x : spread->min;
    spread->max = first || isnan(x) || x > spread->max ? x : spread->max;
    spread->mean += x;
}

static void add_row(lab_attention_stats *stats, row_stats row)
{
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

void lab__stats_add(const attention *a, const lab_tensor *scores)
{
    if (!scores)
        return;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t i = 0; i < a->tq; i++)
                add_row(&a->opts->stats[h], stats_of_row(scores, ((b * a->heads + h) * a->tq + i) * a->tk, a->tk));
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
