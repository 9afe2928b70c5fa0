/* scale_study_gpt_numbers.c - means over seeds, and which rates work. */
#include "scale_study_gpt.h"

#include <math.h>

const double gpt_margin = 0.1;

double gpt_uniform_weight(void)
{
    double sum = 0;
    for (int keys = 1; keys <= GPT_CONTEXT; keys++)
        sum += 1.0 / keys;
    return sum / GPT_CONTEXT;
}

double gpt_uniform_entropy(void)
{
    double sum = 0;
    for (int keys = 1; keys <= GPT_CONTEXT; keys++)
        sum += log(keys);
    return sum / GPT_CONTEXT;
}

double gpt_mean(const study *s, gpt_place at, int value)
{
    double sum = 0;
    int count = 0;
    for (int64_t seed = 0; seed < s->settings.seeds.values[0]; seed++) {
        const double *values = study_values(s, gpt_job(&s->settings, seed, at));
        if (!values || isnan(values[value]))
            continue;
        sum += values[value];
        count++;
    }
    return count ? sum / count : NAN;
}

/* The least loss of an optimiser, head size and law; NaN if all rates have diverged. */
static double least_loss(const study *s, gpt_place at)
{
    double least = INFINITY;
    for (at.rate = 0; at.rate < s->settings.rates.count; at.rate++)
        least = fmin(least, gpt_mean(s, at, GPT_LOSS));
    return isinf(least) ? NAN : least;
}

static gpt_range range_of(const study *s, gpt_place at, double bar)
{
    gpt_range range = {bar, -1, -1};
    for (at.rate = 0; at.rate < s->settings.rates.count; at.rate++)
        if (gpt_mean(s, at, GPT_LOSS) <= bar) {
            range.high = at.rate;
            range.low = range.low < 0 ? at.rate : range.low;
        }
    return range;
}

gpt_ends gpt_ends_of(const study *s, gpt_place at)
{
    gpt_ends ends = {.best = -1, .best_loss = least_loss(s, at)};
    double best_of_all = NAN;
    for (at.rate = s->settings.rates.count - 1; at.rate >= 0; at.rate--)
        if (gpt_mean(s, at, GPT_LOSS) <= ends.best_loss)
            ends.best = at.rate;
    ends.own = range_of(s, at, ends.best_loss + gpt_margin);
    for (gpt_place other = {at.optimizer, at.d, 0, 0}; other.law < s->settings.laws.count; other.law++)
        best_of_all = fmin(best_of_all, least_loss(s, other));
    ends.all = range_of(s, at, best_of_all + gpt_margin);
    return ends;
}
