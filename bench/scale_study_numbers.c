/* scale_study_numbers.c - medians, ranges, and the exponent of a power law with its interval. */
#include "scale_study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

/* ---- Quantiles --------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Moves the numbers that are not NaN to the front, sorted; returns how many. */
static int sort_numbers(int n, double *numbers)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (!isnan(numbers[i]))
            numbers[kept++] = numbers[i];
    qsort(numbers, (size_t)kept, sizeof *numbers, by_value);
    return kept;
}

static double quantile_of_sorted(int n, const double *sorted, double p)
{
    if (n == 0)
        return NAN;
    double place = p * (n - 1);
    int below = (int)floor(place);
    if (below >= n - 1)
        return sorted[n - 1];
    double part = place - below;
    /* Not a difference where there is none: both may be infinite. */
    return part > 0 ? sorted[below] * (1 - part) + sorted[below + 1] * part : sorted[below];
}

double study_quantile(int n, double *numbers, double p)
{
    return quantile_of_sorted(sort_numbers(n, numbers), numbers, p);
}

study_range study_range_of(int n, double *numbers)
{
    int kept = sort_numbers(n, numbers);
    return (study_range){quantile_of_sorted(kept, numbers, 0.5), quantile_of_sorted(kept, numbers, 0.05),
                         quantile_of_sorted(kept, numbers, 0.95), kept};
}

bool study_put_range(json_t *row, const char *name, study_range range)
{
    char low[64], high[64];
    snprintf(low, sizeof low, "%s_lo", name);
    snprintf(high, sizeof high, "%s_hi", name);
    return json_object_set_new(row, name, bench_json_number(range.median)) == 0 &&
           json_object_set_new(row, low, bench_json_number(range.low)) == 0 &&
           json_object_set_new(row, high, bench_json_number(range.high)) == 0;
}

/* ---- Exponents --------------------------------------------------------------------------------------------------- */

enum { RESAMPLES = 2000 };
static const uint64_t resample_seed = 20; /* the draws are part of the method, not of the data */

/* Least squares of ln y on ln x over the points that have a y. */
static double slope(int n, const double *x, const double *y, int *points)
{
    double sum_x = 0, sum_y = 0, xx = 0, xy = 0;
    *points = 0;
    for (int i = 0; i < n; i++) {
        if (!(y[i] > 0) || !isfinite(y[i]))
            continue;
        ++*points;
        sum_x += log(x[i]);
        sum_y += log(y[i]);
    }
    if (*points < 2)
        return NAN;
    for (int i = 0; i < n; i++) {
        if (!(y[i] > 0) || !isfinite(y[i]))
            continue;
        double from_mean = log(x[i]) - sum_x / *points;
        xx += from_mean * from_mean;
        xy += from_mean * (log(y[i]) - sum_y / *points);
    }
    return xx > 0 ? xy / xx : NAN;
}

/* The slope through the medians over the seeds that `chosen` names. */
static double slope_of_medians(int n_x, const double *x, int seeds, const double *y, const int *chosen, double *column,
                               int *points)
{
    double medians[BENCH_MAX_LIST];
    for (int i = 0; i < n_x; i++) {
        for (int s = 0; s < seeds; s++)
            column[s] = y[chosen[s] * n_x + i];
        medians[i] = study_quantile(seeds, column, 0.5);
    }
    return slope(n_x, x, medians, points);
}

study_fit study_fit_power(int n_x, const double *x, int seeds, const double *y)
{
    study_fit fit = {NAN, NAN, NAN, 0};
    int *chosen = calloc((size_t)seeds + 1, sizeof *chosen), ignored;
    double *column = calloc((size_t)seeds + 1, sizeof *column), *slopes = calloc(RESAMPLES, sizeof *slopes);
    if (chosen && column && slopes && n_x <= BENCH_MAX_LIST) {
        for (int s = 0; s < seeds; s++)
            chosen[s] = s;
        fit.exponent = slope_of_medians(n_x, x, seeds, y, chosen, column, &fit.points);
        for (int r = 0; r < RESAMPLES; r++) {
            lab__kernel_uniform(KERNEL_F64, seeds, column, resample_seed, (uint64_t)r, 0);
            for (int s = 0; s < seeds; s++) {
                int drawn = (int)(column[s] * seeds);
                chosen[s] = drawn < seeds ? drawn : seeds - 1;
            }
            slopes[r] = slope_of_medians(n_x, x, seeds, y, chosen, column, &ignored);
        }
        fit.low = study_quantile(RESAMPLES, slopes, 0.025);
        fit.high = study_quantile(RESAMPLES, slopes, 0.975);
    }
    free(chosen);
    free(column);
    free(slopes);
    return fit;
}
