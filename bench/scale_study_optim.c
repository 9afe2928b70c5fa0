/* scale_study_optim.c - whether the law still matters under optimisers other than plain gradient descent.
 *
 * The task of `learn`, and its definitions. A job is one seed, width and optimiser, all laws and rates: they share its
 * tokens. Rates mean different things to different optimisers, so each has the grid times a factor of its own.
 */
#include "scale_study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In the order of study_optimizer_words. */
static const struct optimizer {
    lab_optimizer_config config;
    double grid; /* its rates are the grid's times this */
    const char *words;
} optimizers[] = {
    {{.rule = LAB_SGD}, 1, "plain gradient descent"},
    {{.rule = LAB_SGD, .momentum = 0.9}, 0.1, "momentum 0.9"},
    {{.rule = LAB_RMSPROP, .beta2 = 0.99}, 0.1, "beta2 0.99"},
    {{.rule = LAB_ADAM}, 0.1, "beta 0.9, 0.999"},
    {{.rule = LAB_ADAMW, .decay = 0.01}, 0.1, "beta 0.9, 0.999, decay 0.01"},
    {{.rule = LAB_LION}, 0.01, "beta 0.9, 0.99"},
    {{.rule = LAB_SIGN_SGD}, 0.01, "the sign of the gradient"},
};

static int width(const study_settings *settings)
{
    return settings->laws.count * study_rates_width(settings);
}

static int64_t jobs(const study_settings *settings)
{
    return settings->seeds.values[0] * settings->d.count * settings->optimizers.count;
}

static int64_t d_of(const study_settings *settings, int64_t job)
{
    return settings->d.values[job / settings->optimizers.count % settings->d.count];
}

static double cost(const study_settings *settings, int64_t job)
{
    return study_rates_cost(d_of(settings, job));
}

/* The grid of one optimiser. */
static study_settings settings_of(const study_settings *settings, int optimizer)
{
    study_settings own = *settings;
    for (int i = 0; i < own.rates.count; i++)
        own.rates.values[i] *= optimizers[optimizer].grid;
    return own;
}

/* ---- One job --------------------------------------------------------------------------------------------------------- */

typedef struct trial {
    lab_graph *g;
    study_training training;
    lab_optimizer_config config;
    double steps, fastest;
} trial;

static bool try_rate(void *ctx, double rate, double *accuracy)
{
    trial *t = ctx;
    lab_optimizer *optimizer;
    study_outcome outcome;
    t->config.rate = rate;
    if (lab_optimizer_create(&optimizer, &t->config) != LAB_OK) {
        study_fail("%s", lab_last_message());
        return false;
    }
    t->training.ctx = optimizer;
    const bool good = study_train(t->g, &t->training, &outcome);
    lab_optimizer_destroy(&optimizer);
    if (good && (isnan(t->steps) || outcome.steps_to_95 < t->steps) && !isnan(outcome.steps_to_95)) {
        t->steps = outcome.steps_to_95;
        t->fastest = rate;
    }
    *accuracy = outcome.accuracy;
    return good;
}

static bool job(const study_settings *settings, int64_t number, double *values)
{
    const int64_t d = d_of(settings, number);
    const int optimizer = (int)settings->optimizers.values[number % settings->optimizers.count];
    const uint64_t seed = study_seed(settings, number / settings->optimizers.count / settings->d.count, d);
    const study_settings own = settings_of(settings, optimizer);
    study_tokens tokens;
    trial t = {.g = lab_graph_create(NULL),
               .config = optimizers[optimizer].config,
               .training = {.d = d, .dtype = LAB_F32, .seed = seed, .tokens = &tokens, .step = lab_optimizer_step}};
    bool good = study_tokens_draw(&tokens, d, LAB_F32, seed);
    for (int i = 0; good && i < own.laws.count; i++) {
        study_search search;
        double *to = values + i * study_rates_width(settings);
        t.training.law = (study_law)own.laws.values[i];
        t.steps = t.fastest = NAN;
        good = study_search_rates(&own, try_rate, &t, &search);
        to[STUDY_LOW] = search.low;
        to[STUDY_HIGH] = search.high;
        to[STUDY_FEWEST] = t.steps;
        to[STUDY_FASTEST] = t.fastest;
        memcpy(to + STUDY_GRID, search.accuracy, (size_t)own.rates.count * sizeof(double));
    }
    study_tokens_free(&tokens);
    lab_graph_destroy(&t.g);
    return good;
}

/* ---- What the seeds say ------------------------------------------------------------------------------------------------ */

static bench_reals grid_of(const study *s, int optimizer)
{
    return settings_of(&s->settings, (int)s->settings.optimizers.values[optimizer]).rates;
}

static study_fit fit_of(const study *s, int law, int optimizer, int which)
{
    const bench_reals grid = grid_of(s, optimizer);
    return study_rates_fit(s, (study_place){.law = law, .optimizer = optimizer}, &grid, which);
}

/* ---- For people ---------------------------------------------------------------------------------------------------------- */

static const char *optimizer_name(const study *s, int i)
{
    return study_optimizer_words[s->settings.optimizers.values[i]];
}

static const char *law_name(const study *s, int i)
{
    return study_law_words[s->settings.laws.values[i]];
}

static void rules(FILE *out, const study *s)
{
    char text[2][32];
    fprintf(out,
            "task, when a rate works, and what diverges: as scale_study learn has it, float32\n"
            "steps to 95 %%: the fewest, over all rates tried, before %d steps whose accuracy together is 95 %%\n",
            10);
    for (int i = 0; i < s->settings.optimizers.count; i++) {
        const struct optimizer *o = &optimizers[s->settings.optimizers.values[i]];
        const study_settings own = settings_of(&s->settings, (int)s->settings.optimizers.values[i]);
        fprintf(out, "%s %s (%s): %d rates from %s to %s\n", i ? "          " : "optimisers", optimizer_name(s, i),
                o->words, own.rates.count, study_number_text(own.rates.values[0], text[0]),
                study_number_text(own.rates.values[own.rates.count - 1], text[1]));
    }
    fprintf(out,
            "both ends of what works are bisected to a factor of %s; <= and >= mark a grid's own end, which is a\n"
            "bound and has no part in a fit\n",
            study_number_text(s->settings.refine.values[0], text[0]));
}

static void print_fit(FILE *out, study_fit fit)
{
    char text[64];
    if (fit.points < 2)
        snprintf(text, sizeof text, "no fit");
    else
        snprintf(text, sizeof text, "%+.2f (%+.2f to %+.2f)", fit.exponent, fit.low, fit.high);
    fprintf(out, "  %-24s", text);
}

static void report_fits(FILE *out, const study *s)
{
    fprintf(out, "\nexponents in d, with what 95 %% of resampled seeds give:\n%-9s %-8s  %-24s  %-24s  %s\n",
            "optimiser", "law", "highest rate", "lowest rate", "fewest steps to 95 %");
    for (int o = 0; o < s->settings.optimizers.count; o++)
        for (int law = 0; law < s->settings.laws.count; law++) {
            fprintf(out, "%-9s %-8s", optimizer_name(s, o), law_name(s, law));
            print_fit(out, fit_of(s, law, o, STUDY_HIGH));
            print_fit(out, fit_of(s, law, o, STUDY_LOW));
            print_fit(out, fit_of(s, law, o, STUDY_FEWEST));
            fputc('\n', out);
        }
}

static void report(FILE *out, const study *s)
{
    const study_settings *of = &s->settings;
    double *column = calloc((size_t)of->seeds.values[0], sizeof *column);
    if (!column)
        return;
    fprintf(out, "%-9s %-8s %5s %5s  %-30s  %-30s  %s\n", "optimiser", "law", "d", "seeds", "lowest rate (5 to 95 %)",
            "highest rate (5 to 95 %)", "fewest steps to 95 %");
    for (int o = 0; o < of->optimizers.count; o++) {
        const bench_reals grid = grid_of(s, o);
        for (int law = 0; law < of->laws.count; law++)
            for (int d = 0; d < of->d.count; d++) {
                const study_rates r = study_rates_of(s, (study_place){law, o, d}, &grid, column);
                fprintf(out, "%-9s %-8s %5lld %5d", optimizer_name(s, o), law_name(s, law), (long long)of->d.values[d],
                        r.seeds);
                study_print_rate(out, r.low, r.low_is_bound ? "<= " : "");
                study_print_rate(out, r.high, r.high_is_bound ? ">= " : "");
                study_print_rate(out, r.fewest, "");
                fputc('\n', out);
            }
    }
    report_fits(out, s);
    free(column);
}

/* ---- For programs -------------------------------------------------------------------------------------------------------- */

static json_t *row_json(const study *s, study_place at, double *column)
{
    const bench_reals grid = grid_of(s, at.optimizer);
    const study_rates r = study_rates_of(s, at, &grid, column);
    json_t *row = study_rates_json(s, at, &r);
    if (!row || !study_put_range(row, "steps_to_95", r.fewest) || !study_put_range(row, "rate_fastest", r.fastest)) {
        json_decref(row);
        return NULL;
    }
    return row;
}

static bool put_fit(json_t *object, const char *name, study_fit fit)
{
    return study_put_range(object, name, (study_range){fit.exponent, fit.low, fit.high, fit.points});
}

static json_t *fit_json(const study *s, int law, int optimizer)
{
    json_t *result = json_pack("{s:s, s:s}", "law", law_name(s, law), "optimizer", optimizer_name(s, optimizer));
    if (!result || !put_fit(result, "exponent", fit_of(s, law, optimizer, STUDY_HIGH)) ||
        !put_fit(result, "low_exponent", fit_of(s, law, optimizer, STUDY_LOW)) ||
        !put_fit(result, "steps_exponent", fit_of(s, law, optimizer, STUDY_FEWEST))) {
        json_decref(result);
        return NULL;
    }
    return result;
}

static bool describe(const study *s, json_t *document)
{
    const study_settings *of = &s->settings;
    double *column = calloc((size_t)of->seeds.values[0], sizeof *column);
    json_t *rows = json_array(), *fits = json_array();
    for (int o = 0; column && o < of->optimizers.count; o++)
        for (int law = 0; law < of->laws.count; law++) {
            for (int d = 0; d < of->d.count; d++)
                json_array_append_new(rows, row_json(s, (study_place){law, o, d}, column));
            json_array_append_new(fits, fit_json(s, law, o));
        }
    const bool good = json_object_set_new(document, "rows", rows) == 0 && column;
    free(column);
    return json_object_set_new(document, "fits", fits) == 0 && good;
}

/* ---- The picture --------------------------------------------------------------------------------------------------------- */

/* One panel for each optimiser: the band of working rates over d, per law. */
static void put_panel(FILE *script, const study *s, int optimizer, double *column)
{
    const study_settings *of = &s->settings;
    const bench_reals grid = grid_of(s, optimizer);
    for (int law = 0; law < of->laws.count; law++) {
        fprintf(script, "$band%d << END\n", law);
        for (int d = 0; d < of->d.count; d++) {
            const study_rates r = study_rates_of(s, (study_place){law, optimizer, d}, &grid, column);
            /* Laws side by side, so that bars of one width can be told apart. */
            const double beside = pow(1.08, law - (of->laws.count - 1) / 2.0);
            if (r.high.count)
                fprintf(script, "%g %g %g\n", (double)of->d.values[d] * beside, r.low.median, r.high.median);
        }
        fprintf(script, "0 NaN NaN\nEND\n");
    }
    fprintf(script, "set title '%s'\nset yrange [%g:%g]\nplot", optimizer_name(s, optimizer), grid.values[0] / 2,
            grid.values[grid.count - 1] * 2);
    for (int law = 0; law < of->laws.count; law++) {
        const char *color = study_colors[of->laws.values[law]];
        fprintf(
            script,
            "%s $band%d using 1:2 with linespoints linecolor rgb '%s' dashtype 2 pointtype 6 pointsize 0.6 notitle, "
            "$band%d using 1:3 with linespoints linecolor rgb '%s' linewidth 2 pointtype 7 pointsize 0.6 title '%s'",
            law ? "," : "", law, color, law, color, law_name(s, law));
    }
    fputc('\n', script);
}

static void draw(FILE *script, const study *s)
{
    const study_settings *of = &s->settings;
    double *column = calloc((size_t)of->seeds.values[0], sizeof *column);
    const int panels = of->optimizers.count, columns = panels < 3 ? panels : 3;
    fprintf(
        script,
        "set logscale xy\nset format y '%%g'\nset grid\nset key outside right top samplen 1\nset xlabel 'head size d'\n"
        "set ylabel 'learning rate'\nset xtics (");
    for (int d = 0; d < of->d.count; d++)
        fprintf(script, "%s%lld", d ? ", " : "", (long long)of->d.values[d]);
    fprintf(script,
            ")\nset xrange [%g:%g]\nset multiplot layout %d,%d title 'Highest (full) and lowest (dashed) working rate "
            "by optimiser; medians of %lld seeds'\n",
            0.7 * (double)of->d.values[0], 1.4 * (double)of->d.values[of->d.count - 1],
            (panels + columns - 1) / columns, columns, (long long)of->seeds.values[0]);
    for (int o = 0; column && o < panels; o++)
        put_panel(script, s, o, column);
    fprintf(script, "unset multiplot\n");
    free(column);
}

const study_command study_optim = {
    .name = "optim",
    .summary = "whether the law still matters under momentum, RMSprop, Adam, AdamW, Lion and sign-SGD",
    .notes =
        "The task of `learn` with other optimisers, each with the grid times a factor of its own (printed first). Per\n"
        "optimiser, law and d: the lowest and the highest working rate, and the fewest steps to 95 % accuracy at any\n"
        "rate tried; and the exponent of each in d.",
    .takes = STUDY_TAKES_RATES | STUDY_TAKES_REFINE | STUDY_TAKES_OPTIMIZERS,
    .usual = {.seeds = {1, {5}}, .d = {3, {16, 64, 256}}, .optimizers = {6, {1, 2, 3, 4, 5, 6}}, .refine = {1, {1.8}}},
    .quick = {.seeds = {1, {1}},
              .d = {2, {16, 64}},
              .laws = {2, {STUDY_NONE, STUDY_SQRT}},
              .optimizers = {6, {1, 2, 3, 4, 5, 6}},
              .rates = {6, {0.001, 0.01, 0.1, 1, 10, 100}},
              .refine = {1, {4}}},
    .rules = rules,
    .jobs = jobs,
    .width = width,
    .cost = cost,
    .job = job,
    .report = report,
    .describe = describe,
    .draw = draw,
    .plot_width = 1240,
    .plot_height = 800,
};
