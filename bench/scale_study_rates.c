/* scale_study_rates.c - the rates that work, over seeds: what learn and optim make of their jobs' numbers. */
#include "scale_study.h"

#include <math.h>
#include <stdlib.h>

int study_rates_width(const study_settings *settings)
{
    return STUDY_GRID + settings->rates.count;
}

int64_t study_rates_job(const study_settings *settings, int64_t seed, study_place at)
{
    return (seed * settings->d.count + at.d) * settings->optimizers.count + at.optimizer;
}

/* A step has a part that does not grow, one with d (tokens) and one with d^2 (weights). */
double study_rates_cost(int64_t width)
{
    const double d = (double)width;
    return 4e4 + 500 * d + 6 * d * d;
}

/* One number of every seed, NaN where the job has not finished. */
static void column_of(const study *s, study_place at, int which, double *column)
{
    for (int64_t seed = 0; seed < s->settings.seeds.values[0]; seed++) {
        const double *values = study_values(s, study_rates_job(&s->settings, seed, at));
        column[seed] = values ? values[at.law * study_rates_width(&s->settings) + which] : NAN;
    }
}

/* Whether at least half of the seeds that have a rate have the grid's end. */
static bool is_bound(int seeds, const double *column, double end)
{
    int count = 0, any = 0;
    for (int i = 0; i < seeds; i++) {
        any += !isnan(column[i]);
        count += fabs(column[i] - end) <= 1e-9 * end;
    }
    return any && 2 * count >= any;
}

static double end_of(const bench_reals *grid, int which)
{
    return grid->values[which == STUDY_HIGH ? grid->count - 1 : 0];
}

study_rates study_rates_of(const study *s, study_place at, const bench_reals *grid, double *column)
{
    const int seeds = (int)s->settings.seeds.values[0];
    study_rates r = {.grid = grid};
    column_of(s, at, STUDY_LOW, column);
    r.low_is_bound = is_bound(seeds, column, end_of(grid, STUDY_LOW));
    r.low = study_range_of(seeds, column);
    column_of(s, at, STUDY_HIGH, column);
    r.high_is_bound = is_bound(seeds, column, end_of(grid, STUDY_HIGH));
    r.high = study_range_of(seeds, column);
    column_of(s, at, STUDY_FEWEST, column);
    r.fewest = study_range_of(seeds, column);
    column_of(s, at, STUDY_FASTEST, column);
    r.fastest = study_range_of(seeds, column);
    for (int i = 0; i < grid->count; i++) {
        double sum = 0;
        r.seeds = 0;
        column_of(s, at, STUDY_GRID + i, column);
        for (int seed = 0; seed < seeds; seed++) {
            r.seeds += !isnan(column[seed]);
            sum += isnan(column[seed]) ? 0 : column[seed];
        }
        r.accuracy[i] = r.seeds ? sum / r.seeds : NAN;
    }
    return r;
}

study_fit study_rates_fit(const study *s, study_place at, const bench_reals *grid, int which)
{
    const study_settings *of = &s->settings;
    const int seeds = (int)of->seeds.values[0], n = of->d.count;
    double x[BENCH_MAX_LIST], *y = calloc((size_t)(seeds * n) + 1, sizeof *y);
    double *column = calloc((size_t)seeds, sizeof *y);
    study_fit fit = {NAN, NAN, NAN, 0};
    for (at.d = 0; y && column && at.d < n; at.d++) {
        x[at.d] = (double)of->d.values[at.d];
        column_of(s, at, which, column);
        const bool bound = which <= STUDY_HIGH && is_bound(seeds, column, end_of(grid, which));
        for (int seed = 0; seed < seeds; seed++)
            y[seed * n + at.d] = bound ? NAN : column[seed];
    }
    if (y && column)
        fit = study_fit_power(n, x, seeds, y);
    free(y);
    free(column);
    return fit;
}

void study_print_rate(FILE *out, study_range range, const char *mark)
{
    char text[64];
    if (range.count == 0)
        snprintf(text, sizeof text, "none");
    else
        snprintf(text, sizeof text, "%s%.3g (%.3g to %.3g)", mark, range.median, range.low, range.high);
    fprintf(out, "  %-30s", text);
}

static json_t *numbers_json(int n, const double *numbers)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, bench_json_number(numbers[i]));
    return list;
}

json_t *study_rates_json(const study *s, study_place at, const study_rates *r)
{
    const study_settings *of = &s->settings;
    json_t *row = json_pack("{s:s, s:I, s:s, s:i, s:i}", "law", study_law_words[of->laws.values[at.law]], "d",
                            (json_int_t)of->d.values[at.d], "optimizer",
                            study_optimizer_words[of->optimizers.values[at.optimizer]], "seeds", r->seeds,
                            "seeds_working", r->high.count);
    if (!row || !study_put_range(row, "rate_low", r->low) || !study_put_range(row, "rate_high", r->high) ||
        json_object_set_new(row, "rate_low_is_bound", json_boolean(r->low_is_bound)) != 0 ||
        json_object_set_new(row, "rate_high_is_bound", json_boolean(r->high_is_bound)) != 0 ||
        json_object_set_new(row, "grid", numbers_json(r->grid->count, r->grid->values)) != 0 ||
        json_object_set_new(row, "accuracy", numbers_json(r->grid->count, r->accuracy)) != 0) {
        json_decref(row);
        return NULL;
    }
    return row;
}
