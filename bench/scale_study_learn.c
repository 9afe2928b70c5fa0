/* scale_study_learn.c - which learning rates train a head to find the copy, by law and head size.
 *
 * A job is one seed at one width, all laws and rates: they share its tokens.
 */
#include "scale_study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int width(const study_settings *settings)
{
    return settings->laws.count * study_rates_width(settings);
}

static int64_t jobs(const study_settings *settings)
{
    return settings->seeds.values[0] * settings->d.count;
}

static int64_t d_of(const study_settings *settings, int64_t job)
{
    return settings->d.values[job % settings->d.count];
}

static double cost(const study_settings *settings, int64_t job)
{
    return study_rates_cost(d_of(settings, job));
}

/* ---- One job --------------------------------------------------------------------------------------------------------- */

typedef struct trial {
    lab_graph *g;
    study_training training;
    lab_sgd sgd;
} trial;

static bool try_rate(void *ctx, double rate, double *accuracy)
{
    trial *t = ctx;
    study_outcome outcome;
    t->sgd = (lab_sgd){.rate = rate};
    t->training.ctx = &t->sgd;
    if (!study_train(t->g, &t->training, &outcome))
        return false;
    *accuracy = outcome.accuracy;
    return true;
}

static bool job(const study_settings *settings, int64_t number, double *values)
{
    const int64_t d = d_of(settings, number);
    const uint64_t seed = study_seed(settings, number / settings->d.count, d);
    const lab_dtype dtype = (lab_dtype)settings->dtype.values[0];
    study_tokens tokens;
    trial t = {.g = lab_graph_create(NULL),
               .training = {.d = d, .dtype = dtype, .seed = seed, .tokens = &tokens, .step = lab_sgd_step}};
    bool good = study_tokens_draw(&tokens, d, dtype, seed);
    for (int i = 0; good && i < settings->laws.count; i++) {
        study_search search;
        double *to = values + i * study_rates_width(settings);
        t.training.law = (study_law)settings->laws.values[i];
        good = study_search_rates(settings, try_rate, &t, &search);
        to[STUDY_LOW] = search.low;
        to[STUDY_HIGH] = search.high;
        to[STUDY_FEWEST] = to[STUDY_FASTEST] = NAN; /* optim's */
        memcpy(to + STUDY_GRID, search.accuracy, (size_t)settings->rates.count * sizeof(double));
    }
    study_tokens_free(&tokens);
    lab_graph_destroy(&t.g);
    return good;
}

/* ---- What the seeds say ------------------------------------------------------------------------------------------------ */

static study_rates rates_of(const study *s, int law, int d, double *column)
{
    return study_rates_of(s, (study_place){.law = law, .d = d}, &s->settings.rates, column);
}

static study_fit fit_of(const study *s, int law, int which)
{
    return study_rates_fit(s, (study_place){.law = law}, &s->settings.rates, which);
}

/* ---- For people ---------------------------------------------------------------------------------------------------------- */

static void rules(FILE *out, const study *s)
{
    char text[32];
    const bench_reals *grid = &s->settings.rates;
    fprintf(
        out,
        "task: %d unit-normal tokens of width d, the query a copy of one; one head learns Wq and Wk (variance 1/d);\n"
        "    loss: lse - the copy's own score, mean over a batch of %d; fresh tokens every step; %d steps of plain SGD;"
        " %s\n",
        STUDY_TOKENS, STUDY_BATCH, STUDY_STEPS, study_dtype_words[s->settings.dtype.values[0]]);
    fprintf(out, "a rate works if the copy has the largest weight in at least %.0f %% of the last %d steps' queries\n",
            100 * study_accuracy_wanted, STUDY_LAST);
    fprintf(
        out,
        "a run diverges at the first step whose loss is not finite; it stops there, and its accuracy counts as 0\n");
    fprintf(out, "grid:");
    for (int i = 0; i < grid->count; i++)
        fprintf(out, " %s", study_number_text(grid->values[i], text));
    fprintf(out, "; both ends of what works bisected to a factor of %s\n",
            study_number_text(s->settings.refine.values[0], text));
    fprintf(out, "a rate at the grid's own end is a bound (marked <= or >=), and has no part in a fit\n");
}

static void report_fits(FILE *out, const study *s)
{
    fprintf(out, "\nexponent of the highest working rate in d (95 %% of resampled seeds), and of the lowest:\n");
    for (int i = 0; i < s->settings.laws.count; i++) {
        fprintf(out, "%-8s", study_law_words[s->settings.laws.values[i]]);
        for (int which = STUDY_HIGH; which >= STUDY_LOW; which--) {
            const study_fit fit = fit_of(s, i, which);
            char text[64];
            snprintf(text, sizeof text, "%+.2f (%+.2f to %+.2f), %d widths", fit.exponent, fit.low, fit.high,
                     fit.points);
            if (fit.points < 2)
                snprintf(text, sizeof text, "no fit: %d width%s", fit.points, fit.points == 1 ? "" : "s");
            fprintf(out, "  %-36s", text);
        }
        fputc('\n', out);
    }
}

static void report(FILE *out, const study *s)
{
    double *column = calloc((size_t)s->settings.seeds.values[0], sizeof *column);
    if (!column)
        return;
    fprintf(out, "%-8s %5s %6s  %-30s  %-30s  %s\n", "law", "d", "seeds", "lowest rate (5 to 95 %)",
            "highest rate (5 to 95 %)", "seeds with any");
    for (int i = 0; i < s->settings.laws.count; i++)
        for (int d = 0; d < s->settings.d.count; d++) {
            const study_rates r = rates_of(s, i, d, column);
            fprintf(out, "%-8s %5lld %6d", study_law_words[s->settings.laws.values[i]],
                    (long long)s->settings.d.values[d], r.seeds);
            study_print_rate(out, r.low, r.low_is_bound ? "<= " : "");
            study_print_rate(out, r.high, r.high_is_bound ? ">= " : "");
            fprintf(out, "  %d\n", r.high.count);
        }
    report_fits(out, s);
    free(column);
}

/* ---- For programs -------------------------------------------------------------------------------------------------------- */

static json_t *row_json(const study *s, int law, int d, double *column)
{
    const study_rates r = rates_of(s, law, d, column);
    return study_rates_json(s, (study_place){.law = law, .d = d}, &r);
}

static json_t *fit_json(const study *s, int law)
{
    const study_fit high = fit_of(s, law, STUDY_HIGH), low = fit_of(s, law, STUDY_LOW);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:i}", "law",
                     study_law_words[s->settings.laws.values[law]], "optimizer", "sgd", "exponent",
                     bench_json_number(high.exponent), "exponent_lo", bench_json_number(high.low), "exponent_hi",
                     bench_json_number(high.high), "widths", high.points, "low_exponent",
                     bench_json_number(low.exponent), "low_exponent_lo", bench_json_number(low.low), "low_exponent_hi",
                     bench_json_number(low.high), "low_widths", low.points);
}

static bool describe(const study *s, json_t *document)
{
    double *column = calloc((size_t)s->settings.seeds.values[0], sizeof *column);
    json_t *rows = json_array(), *fits = json_array(), *settings = json_object_get(document, "settings");
    for (int i = 0; column && i < s->settings.laws.count; i++) {
        for (int d = 0; d < s->settings.d.count; d++)
            json_array_append_new(rows, row_json(s, i, d, column));
        json_array_append_new(fits, fit_json(s, i));
    }
    json_t *task = json_pack("{s:i, s:i, s:i, s:i, s:f, s:s}", "tokens", STUDY_TOKENS, "batch", STUDY_BATCH, "steps",
                             STUDY_STEPS, "last_steps", STUDY_LAST, "accuracy_wanted", study_accuracy_wanted,
                             "diverged", "the loss was not finite; accuracy 0");
    bool good = column && task && json_object_update(settings, task) == 0;
    good = json_object_set_new(document, "rows", rows) == 0 && good;
    good = json_object_set_new(document, "fits", fits) == 0 && good;
    json_decref(task);
    free(column);
    return good;
}

/* ---- The picture --------------------------------------------------------------------------------------------------------- */

/* Where a rate lies among the grid's, which are drawn at 0, 1, 2, ... */
static double place_of(const bench_reals *grid, double rate)
{
    int below = 0;
    while (below + 2 < grid->count && rate > grid->values[below + 1])
        below++;
    if (grid->count < 2)
        return 0;
    return below + log(rate / grid->values[below]) / log(grid->values[below + 1] / grid->values[below]);
}

static void put_law_data(FILE *script, const study *s, int law, double *column)
{
    const bench_reals *grid = &s->settings.rates;
    fprintf(script, "$map%d << END\n", law);
    for (int d = 0; d < s->settings.d.count; d++) {
        const study_rates r = rates_of(s, law, d, column);
        for (int i = 0; i < grid->count; i++)
            fprintf(script, "%d %d %.4f\n", d, i, isnan(r.accuracy[i]) ? 0 : r.accuracy[i]);
    }
    fprintf(script, "END\n$ends%d << END\n", law);
    for (int d = 0; d < s->settings.d.count; d++) {
        const study_rates r = rates_of(s, law, d, column);
        if (r.high.count)
            fprintf(script, "%d %.4f %.4f %.4f %.4f %.4f %.4f\n", d, place_of(grid, r.low.median),
                    place_of(grid, r.low.low), place_of(grid, r.low.high), place_of(grid, r.high.median),
                    place_of(grid, r.high.low), place_of(grid, r.high.high));
    }
    fprintf(script, "END\n");
}

static bool any_works(const study *s, int law, double *column)
{
    for (int d = 0; d < s->settings.d.count; d++)
        if (rates_of(s, law, d, column).high.count)
            return true;
    return false;
}

static void draw(FILE *script, const study *s)
{
    const study_settings *of = &s->settings;
    const int laws = of->laws.count, columns = laws > 1 ? 2 : 1;
    double *column = calloc((size_t)of->seeds.values[0], sizeof *column);
    for (int i = 0; column && i < laws; i++)
        put_law_data(script, s, i, column);
    fprintf(
        script,
        "set palette defined (0 '#ffffff', 0.5 '#c9d8ee', 0.94 '#6f9ad3', 0.95 '#2f6db5', 1 '#12407a') maxcolors 20\n"
        "set cbrange [0:1]\nset cblabel 'accuracy, last %d steps'\nunset key\nset xlabel 'head size d'\n"
        "set ylabel 'learning rate'\nset xrange [-0.5:%g]\nset yrange [-0.5:%g]\nset xtics (",
        STUDY_LAST, of->d.count - 0.5, of->rates.count - 0.5);
    for (int d = 0; d < of->d.count; d++)
        fprintf(script, "%s'%lld' %d", d ? ", " : "", (long long)of->d.values[d], d);
    fprintf(script, ")\nset ytics (");
    for (int i = 0; i < of->rates.count; i++)
        fprintf(script, "%s'%.3g' %d", i ? ", " : "", of->rates.values[i], i);
    fprintf(script,
            ")\nset multiplot layout %d,%d title 'Which learning rates find the copy: accuracy over rate and head size "
            "(mean of %lld seeds; lines: lowest and highest working rate, median and 5-95 %%)'\n",
            (laws + columns - 1) / columns, columns, (long long)of->seeds.values[0]);
    for (int i = 0; column && i < laws; i++) {
        fprintf(script, "set title '%s: %s'\nplot $map%d using 1:2:3 with image pixels",
                study_law_words[of->laws.values[i]], study_rules[of->laws.values[i]].words, i);
        if (any_works(s, i, column))
            for (int which = STUDY_LOW; which <= STUDY_HIGH; which++) {
                const int at = which == STUDY_LOW ? 2 : 5;
                fprintf(script,
                        ", $ends%d using 1:%d with lines linewidth 2 linecolor rgb '#ff9d00', $ends%d using 1:%d:%d:%d "
                        "with yerrorbars pointtype 7 pointsize 0.5 linewidth 2 linecolor rgb '#ff9d00'",
                        i, at, i, at, at + 1, at + 2);
            }
        fputc('\n', script);
    }
    fprintf(script, "unset multiplot\n");
    free(column);
}

const study_command study_learn = {
    .name = "learn",
    .summary = "which learning rates train a head to find a copy, by law and head size",
    .notes =
        "Every run trains one head with plain SGD; the first lines of the output define the task, when a rate works,\n"
        "and what counts as diverged. Per law and d: the lowest and the highest working rate, medians over seeds with\n"
        "5 and 95 % points, and the exponent of each in d. Seeds share weights and tokens across laws and rates.",
    .takes = STUDY_TAKES_RATES | STUDY_TAKES_REFINE | STUDY_TAKES_DTYPE,
    .quick = {.seeds = {1, {3}},
              .d = {2, {16, 64}},
              .rates = {6, {0.001, 0.01, 0.1, 1, 10, 100}},
              .refine = {1, {1.8}}},
    .rules = rules,
    .jobs = jobs,
    .width = width,
    .cost = cost,
    .job = job,
    .report = report,
    .describe = describe,
    .draw = draw,
    .plot_width = 1240,
    .plot_height = 940,
};
