/* scale_study_mechanism.c - why the law decides which rates train: how large scores start, and how far a step moves
 * them.
 *
 * With scores scale (Wq x) . (Wk t), weights of variance v and tokens of width d, the scores start with a deviation of
 * scale v d^(3/2), and a step of plain gradient descent moves a copy's own score, on tokens not seen before, by about
 * 2 (1 - p) scale^2 v d^2 times the rate. The first number is "the start", the second, without 2 (1 - p), "the update".
 * Scale and v set both at will, so the four corners {start 1, sqrt(d)} x {update 1, d} are four laws: sqrt, start,
 * update, none. Weights times a, scale over a^2 and rate times a^2 are the same run, so laws of one start differ in
 * their rates only: the measured exponents say how true the program is to that.
 *
 * A job is one seed, width and law.
 */
#include "scale_study_probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps that are looked at, before they are done. */
static const int64_t moments[] = {0, 1, 3, 10, 30, 100, STUDY_STEPS - 2};
enum { MOMENTS = sizeof moments / sizeof *moments, LADDER = 10 };

/* Rates that are tried, as rate times update: the same for every law and width. */
static const double ladder_start = 0.02;

/* The run that is looked at has the highest working rate over this. */
static const double below_highest = 3;

/* What a job leaves. */
enum {
    HIGH,     /* highest working rate */
    IS_BOUND, /* whether it is the ladder's highest */
    TRAINED,  /* accuracy of the run that is looked at */
    SPECTRUM, /* before and after */
    PROBES = SPECTRUM + 2 * SPECTRUM_NUMBERS,
    VALUES = PROBES + MOMENTS * PROBE_NUMBERS
};

static int width(const study_settings *settings)
{
    (void)settings;
    return VALUES;
}

static int64_t jobs(const study_settings *settings)
{
    for (int i = 0; i < settings->laws.count; i++) {
        const study_rule *rule = &study_rules[settings->laws.values[i]];
        if (rule->normalised || rule->softcap > 0)
            bench_usage_error("scale_study mechanism", "--laws: %s is more than a scale, which is what is taken apart",
                              rule->name);
    }
    return settings->seeds.values[0] * settings->d.count * settings->laws.count;
}

static int64_t d_of(const study_settings *settings, int64_t job)
{
    return settings->d.values[job / settings->laws.count % settings->d.count];
}

static double cost(const study_settings *settings, int64_t job)
{
    const double d = (double)d_of(settings, job);
    return 4e4 + 500 * d + 9 * d * d;
}

static double variance_of(study_law law, int64_t d)
{
    return pow(study_weight_std(law, d), 2);
}

static double start_of(study_law law, int64_t d)
{
    return study_scale(law, d) * variance_of(law, d) * pow((double)d, 1.5);
}

static double update_of(study_law law, int64_t d)
{
    return pow(study_scale(law, d) * (double)d, 2) * variance_of(law, d);
}

/* ---- The highest rate ------------------------------------------------------------------------------------------------ */

typedef struct trial {
    lab_graph *g;
    study_training training;
} trial;

static bool works(trial *t, double rate, bool *yes)
{
    study_outcome outcome;
    t->training.ctx = &(lab_sgd){.rate = rate};
    const bool good = study_train(t->g, &t->training, &outcome);
    *yes = good && outcome.accuracy >= study_accuracy_wanted;
    return good;
}

/* From the ladder's top down to the first rate that works, then by bisection. */
static bool find_highest(trial *t, double unit, double factor, double *values)
{
    const double rung = sqrt(10);
    double rate = NAN;
    bool yes = false;
    int i = LADDER;
    while (i > 0 && !yes) {
        rate = unit * ladder_start * pow(rung, --i);
        if (!works(t, rate, &yes))
            return false;
    }
    values[HIGH] = yes ? rate : NAN;
    values[IS_BOUND] = yes && i == LADDER - 1;
    for (double fails = rate * rung; yes && i < LADDER - 1 && fails / values[HIGH] > factor;) {
        bool better;
        rate = sqrt(values[HIGH] * fails);
        if (!works(t, rate, &better))
            return false;
        *(better ? &values[HIGH] : &fails) = rate;
    }
    return true;
}

/* ---- A run under the lens ---------------------------------------------------------------------------------------------- */

static bool train_and_probe(trial *t, double rate, double *values)
{
    const study_training *of = &t->training;
    study_head head;
    lab_graph *lens = lab_graph_create(NULL);
    lab_status status = study_head_init(&head, of->law, of->d, of->dtype, of->seed);
    bool good = status == LAB_OK && probe_spectrum(&head, values + SPECTRUM);
    int hits = 0;
    for (int64_t step = 0, moment = 0; good && step < STUDY_STEPS; step++) {
        if (moment < MOMENTS && moments[moment] == step)
            good = probe_head(lens, &head, of->tokens, step, rate, values + PROBES + moment++ * PROBE_NUMBERS);
        lab_graph_reset(t->g);
        const study_batch batch = study_batch_of(t->g, of->tokens, step);
        const study_step now = study_head_apply(t->g, &head, &batch, LAB_PATH_AUTO);
        hits += step >= STUDY_STEPS - STUDY_LAST ? study_count_hits(t->g, &now, &batch) : 0;
        status = lab_backward(t->g, now.loss);
        if (status == LAB_OK)
            status = study_head_visit(&head, NULL, lab_sgd_step, &(lab_sgd){.rate = rate});
        if (status == LAB_OK)
            status = study_head_visit(&head, NULL, lab_clear_grads, NULL);
        good = good && status == LAB_OK && !study_interrupted();
    }
    values[TRAINED] = hits / (double)(STUDY_LAST * STUDY_BATCH);
    good = good && probe_spectrum(&head, values + SPECTRUM + SPECTRUM_NUMBERS);
    if (status != LAB_OK)
        study_fail("d = %lld: %s", (long long)of->d,
                   lab_graph_status(t->g) != LAB_OK ? lab_graph_message(t->g) : lab_last_message());
    lab_graph_destroy(&lens);
    study_head_free(&head);
    return good;
}

static bool job(const study_settings *settings, int64_t number, double *values)
{
    const int64_t d = d_of(settings, number);
    const study_law law = (study_law)settings->laws.values[number % settings->laws.count];
    const uint64_t seed = study_seed(settings, number / settings->laws.count / settings->d.count, d);
    study_tokens tokens;
    trial t = {
        .g = lab_graph_create(NULL),
        .training = {.law = law, .d = d, .dtype = LAB_F32, .seed = seed, .tokens = &tokens, .step = lab_sgd_step}};
    for (int i = 0; i < VALUES; i++)
        values[i] = NAN;
    const double unit = 1 / update_of(law, d);
    const bool good = study_tokens_draw(&tokens, d, LAB_F32, seed) &&
                      find_highest(&t, unit, settings->refine.values[0], values) &&
                      (isnan(values[HIGH]) || train_and_probe(&t, values[HIGH] / below_highest, values));
    study_tokens_free(&tokens);
    lab_graph_destroy(&t.g);
    return good;
}

/* ---- What the seeds say ------------------------------------------------------------------------------------------------ */

typedef struct place {
    int law, d; /* indices into the settings' lists */
} place;

static study_law law_at(const study *s, place at)
{
    return (study_law)s->settings.laws.values[at.law];
}

static int64_t d_at(const study *s, place at)
{
    return s->settings.d.values[at.d];
}

static const char *law_name(const study *s, int law)
{
    return study_law_words[s->settings.laws.values[law]];
}

/* A number of one seed, NaN where the job has not finished. */
static double value_of(const study *s, place at, int64_t seed, int which)
{
    const study_settings *of = &s->settings;
    const double *values = study_values(s, (seed * of->d.count + at.d) * of->laws.count + at.law);
    return values ? values[which] : NAN;
}

static study_range range_of(const study *s, place at, int which, double *column)
{
    const int seeds = (int)s->settings.seeds.values[0];
    for (int seed = 0; seed < seeds; seed++)
        column[seed] = value_of(s, at, seed, which);
    return study_range_of(seeds, column);
}

static int probe_place(int moment, int number)
{
    return PROBES + moment * PROBE_NUMBERS + number;
}

static study_range probe_range(const study *s, place at, int moment, probe_number number, double *column)
{
    return range_of(s, at, probe_place(moment, (int)number), column);
}

/* 2 / sharpness at the start, or where the run is sharpest. */
static study_range edge_range(const study *s, place at, bool start, double *column)
{
    const int seeds = (int)s->settings.seeds.values[0];
    for (int seed = 0; seed < seeds; seed++) {
        double most = NAN;
        for (int moment = 0; moment < (start ? 1 : MOMENTS); moment++)
            most = fmax(most, value_of(s, at, seed, probe_place(moment, PROBE_SHARPNESS)));
        column[seed] = 2 / most;
    }
    return study_range_of(seeds, column);
}

static study_fit fit_of(const study *s, int law)
{
    const study_settings *of = &s->settings;
    const int seeds = (int)of->seeds.values[0], n = of->d.count;
    double x[BENCH_MAX_LIST], *y = calloc((size_t)(seeds * n) + 1, sizeof *y);
    study_fit fit = {NAN, NAN, NAN, 0};
    for (int d = 0; y && d < n; d++) {
        x[d] = (double)of->d.values[d];
        for (int seed = 0; seed < seeds; seed++) {
            const bool bound = value_of(s, (place){law, d}, seed, IS_BOUND) > 0;
            y[seed * n + d] = bound ? NAN : value_of(s, (place){law, d}, seed, HIGH);
        }
    }
    if (y)
        fit = study_fit_power(n, x, seeds, y);
    free(y);
    return fit;
}

/* What the move's mean is by the closed form, at a step where weights are still as drawn. The others' moves: two terms,
 * one for each weight matrix, x^T A Wk^T Wk t and x^T Wq^T Wq A t, where A is the mean over the batch and its keys of
 * (weight - target) x t^T: -(1 - p) times the identity, and noise whose squares sum up to d^2 error / batch. W^T W is
 * v d times the identity, and noise that doubles each term's square and leaves their product alone: 2 + 2 + 2 = 6. */
static double closed_own(const study *s, place at)
{
    return 2 * update_of(law_at(s, at), d_at(s, at)) * (1 - 1.0 / STUDY_TOKENS);
}

static double closed_rest(const study *s, place at, double error)
{
    const double off = 1 - 1.0 / STUDY_TOKENS;
    return sqrt(6 * (error + (STUDY_BATCH - 1) * off * off / (double)d_at(s, at)) / STUDY_BATCH) *
           update_of(law_at(s, at), d_at(s, at));
}

/* ---- For people ---------------------------------------------------------------------------------------------------------- */

static void rules(FILE *out, const study *s)
{
    char text[2][32];
    fprintf(
        out,
        "task, when a rate works, and what diverges: as scale_study learn has it, float32\n"
        "start: the scores' deviation before training, scale v d^(3/2), v the variance of the weights' entries;\n"
        "update: scale^2 v d^2; a step moves an unseen copy's own score by 2 (1 - p) update rate, to first order\n"
        "highest rate: from rate times update = %s down in steps of sqrt(10), then bisected to a factor of %s\n"
        "one run at a third of that rate is looked at, in float64: moves are (scores after - before) / rate on the\n"
        "next batch; sharpness is the Hessian's largest eigenvalue on the step's batch, by Lanczos\n",
        study_number_text(ladder_start * pow(10, (LADDER - 1) / 2.0), text[0]),
        study_number_text(s->settings.refine.values[0], text[1]));
}

static void report_rates(FILE *out, const study *s, double *column)
{
    fprintf(out, "%-8s %5s %9s %9s  %-28s %12s %12s %14s %14s\n", "law", "d", "start", "update",
            "highest rate (5 to 95 %)", "rate*update", "over start", "2/sharpness", "2/sharpest");
    for (int law = 0; law < s->settings.laws.count; law++)
        for (int d = 0; d < s->settings.d.count; d++) {
            const place at = {law, d};
            const study_range high = range_of(s, at, HIGH, column);
            const double start = start_of(law_at(s, at), d_at(s, at)), update = update_of(law_at(s, at), d_at(s, at));
            char text[64];
            snprintf(text, sizeof text, "%.3g (%.3g to %.3g)", high.median, high.low, high.high);
            fprintf(out, "%-8s %5lld %9.3g %9.3g  %-28s %12.3g %12.3g", law_name(s, law), (long long)d_at(s, at), start,
                    update, text, high.median * update, high.median * update / start);
            fprintf(out, " %14.3g", edge_range(s, at, true, column).median);
            fprintf(out, " %14.3g\n", edge_range(s, at, false, column).median);
        }
    fprintf(out, "\nexponents in d (95 %% of resampled seeds):\n%-8s %9s %9s  %-28s %s\n", "law", "start", "update",
            "highest rate", "rate*update");
    for (int law = 0; law < s->settings.laws.count; law++) {
        const study_rule *rule = &study_rules[s->settings.laws.values[law]];
        const study_fit fit = fit_of(s, law);
        const double update = 2 * rule->scale_power + rule->init_power + 2;
        char text[64];
        snprintf(text, sizeof text, "%+.2f (%+.2f to %+.2f)", fit.exponent, fit.low, fit.high);
        fprintf(out, "%-8s %+9.2f %+9.2f  %-28s %+.2f\n", rule->name, rule->scale_power + rule->init_power + 1.5,
                update, text, fit.exponent + update);
    }
}

static void report_moments(FILE *out, const study *s, int d, double *column)
{
    fprintf(out,
            "\nalong training at d = %lld, at a third of the highest rate; moves per unit of rate on unseen tokens\n"
            "%-8s %5s %9s %9s %6s %9s %10s %10s %10s %10s %10s %10s\n",
            (long long)s->settings.d.values[d], "law", "step", "score std", "own gap", "p max", "gradient", "own moves",
            "1st order", "rest moves", "1st order", "sharpness", "2/sharpn.");
    for (int law = 0; law < s->settings.laws.count; law++)
        for (int moment = 0; moment < MOMENTS; moment++) {
            static const probe_number shown[] = {PROBE_SCORE_STD, PROBE_OWN_GAP,         PROBE_P_MAX,
                                                 PROBE_GRAD_NORM, PROBE_MOVE_OWN,        PROBE_MOVE_OWN_FIRST,
                                                 PROBE_MOVE_REST, PROBE_MOVE_REST_FIRST, PROBE_SHARPNESS};
            static const int wide[] = {9, 9, 6, 9, 10, 10, 10, 10, 10};
            const place at = {law, d};
            fprintf(out, "%-8s %5lld", law_name(s, law), (long long)moments[moment]);
            for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
                fprintf(out, " %*.3g", wide[i], probe_range(s, at, moment, shown[i], column).median);
            fprintf(out, " %10.3g\n", 2 / probe_range(s, at, moment, PROBE_SHARPNESS, column).median);
        }
}

static void report_start(FILE *out, const study *s, double *column)
{
    fprintf(out,
            "\nthe first step against the closed form (own: 2 (15/16) update; rest: see the source)\n"
            "%-8s %5s %12s %12s %12s %12s\n",
            "law", "d", "own moves", "predicted", "rest moves", "predicted");
    for (int law = 0; law < s->settings.laws.count; law++)
        for (int d = 0; d < s->settings.d.count; d++) {
            const place at = {law, d};
            const double error = probe_range(s, at, 0, PROBE_ERROR, column).median;
            fprintf(out, "%-8s %5lld %12.4g %12.4g", law_name(s, law), (long long)d_at(s, at),
                    probe_range(s, at, 0, PROBE_MOVE_OWN, column).median, closed_own(s, at));
            fprintf(out, " %12.4g %12.4g\n", probe_range(s, at, 0, PROBE_MOVE_REST, column).median,
                    closed_rest(s, at, error));
        }
}

static void report_spectra(FILE *out, const study *s, double *column)
{
    static const char *const when[] = {"start", "end"};
    fprintf(out,
            "\nscale Wq^T Wk: singular values (median over seeds), effective rank / d, cosine with the identity\n"
            "%-8s %5s %6s %10s %10s %10s %10s %10s\n",
            "law", "d", "when", "largest", "median", "least", "rank / d", "identity");
    for (int law = 0; law < s->settings.laws.count; law++)
        for (int d = 0; d < s->settings.d.count; d++)
            for (int i = 0; i < 2; i++) {
                const place at = {law, d};
                const int from = SPECTRUM + i * SPECTRUM_NUMBERS, first = from + SPECTRUM_QUANTILES;
                fprintf(out, "%-8s %5lld %6s %10.3g %10.3g %10.3g", law_name(s, law), (long long)d_at(s, at), when[i],
                        range_of(s, at, first + SPECTRUM_POINTS - 1, column).median,
                        range_of(s, at, first + SPECTRUM_POINTS / 2, column).median,
                        range_of(s, at, first, column).median);
                fprintf(out, " %10.3g %10.3g\n",
                        range_of(s, at, from + SPECTRUM_EFFECTIVE_RANK, column).median / (double)d_at(s, at),
                        range_of(s, at, from + SPECTRUM_IDENTITY, column).median);
            }
}

static void report(FILE *out, const study *s)
{
    double *column = calloc((size_t)s->settings.seeds.values[0], sizeof *column);
    if (!column)
        return;
    report_rates(out, s, column);
    report_start(out, s, column);
    report_moments(out, s, s->settings.d.count - 1, column);
    report_spectra(out, s, column);
    free(column);
}

/* ---- For programs -------------------------------------------------------------------------------------------------------- */

static const char *const probe_words[PROBE_NUMBERS] = {
    [PROBE_SCORE_STD] = "score_std", [PROBE_OWN_GAP] = "own_gap",
    [PROBE_P_MAX] = "p_max_mean",    [PROBE_ERROR] = "error",
    [PROBE_LOSS] = "loss",           [PROBE_GRAD_NORM] = "grad_norm",
    [PROBE_MOVE_OWN] = "move_own",   [PROBE_MOVE_OWN_FIRST] = "move_own_first_order",
    [PROBE_MOVE_REST] = "move_rest", [PROBE_MOVE_REST_FIRST] = "move_rest_first_order",
    [PROBE_MOVE_SEEN] = "move_seen", [PROBE_SHARPNESS] = "sharpness",
};

/* With five digits: there are many of these, and seeds differ in the second. */
static json_t *short_json(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.5g", value);
    return bench_json_number(strtod(text, NULL));
}

/* Medians alone: what seeds scatter by is in `rates`. */
static json_t *moment_json(const study *s, place at, int moment, double *column)
{
    json_t *row = json_pack("{s:s, s:I, s:I}", "law", law_name(s, at.law), "d", (json_int_t)d_at(s, at), "step",
                            (json_int_t)moments[moment]);
    bool good = row != NULL;
    for (int i = 0; good && i < PROBE_NUMBERS; i++) {
        const double median = probe_range(s, at, moment, (probe_number)i, column).median;
        good = json_object_set_new(row, probe_words[i], short_json(median)) == 0;
    }
    if (good && moment == 0) {
        const double error = probe_range(s, at, 0, PROBE_ERROR, column).median;
        good = json_object_set_new(row, "move_own_closed_form", short_json(closed_own(s, at))) == 0 &&
               json_object_set_new(row, "move_rest_closed_form", short_json(closed_rest(s, at, error))) == 0;
    }
    if (!good) {
        json_decref(row);
        return NULL;
    }
    return row;
}

static json_t *rate_json(const study *s, place at, double *column)
{
    const study_range high = range_of(s, at, HIGH, column);
    json_t *row = json_pack("{s:s, s:I, s:i, s:o, s:o}", "law", law_name(s, at.law), "d", (json_int_t)d_at(s, at),
                            "seeds", high.count, "start", bench_json_number(start_of(law_at(s, at), d_at(s, at))),
                            "update", bench_json_number(update_of(law_at(s, at), d_at(s, at))));
    if (!row || !study_put_range(row, "rate_high", high) ||
        !study_put_range(row, "two_over_sharpness_start", edge_range(s, at, true, column)) ||
        !study_put_range(row, "two_over_sharpest", edge_range(s, at, false, column)) ||
        !study_put_range(row, "accuracy_at_third", range_of(s, at, TRAINED, column))) {
        json_decref(row);
        return NULL;
    }
    return row;
}

static json_t *spectrum_json(const study *s, place at, bool end, double *column)
{
    const int from = SPECTRUM + end * SPECTRUM_NUMBERS;
    json_t *row = json_pack("{s:s, s:I, s:s}", "law", law_name(s, at.law), "d", (json_int_t)d_at(s, at), "when",
                            end ? "end" : "start");
    json_t *quantiles = json_array();
    for (int i = 0; i < SPECTRUM_POINTS; i++)
        json_array_append_new(quantiles,
                              bench_json_number(range_of(s, at, from + SPECTRUM_QUANTILES + i, column).median));
    if (!row || json_object_set_new(row, "singular_values_by_tenths", quantiles) != 0 ||
        !study_put_range(row, "effective_rank", range_of(s, at, from + SPECTRUM_EFFECTIVE_RANK, column)) ||
        !study_put_range(row, "identity", range_of(s, at, from + SPECTRUM_IDENTITY, column))) {
        json_decref(row);
        return NULL;
    }
    return row;
}

static json_t *fit_json(const study *s, int law)
{
    const study_rule *rule = &study_rules[s->settings.laws.values[law]];
    const study_fit fit = fit_of(s, law);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:f, s:f}", "law", rule->name, "optimizer", "sgd", "exponent",
                     bench_json_number(fit.exponent), "exponent_lo", bench_json_number(fit.low), "exponent_hi",
                     bench_json_number(fit.high), "start_exponent", rule->scale_power + rule->init_power + 1.5,
                     "update_exponent", 2 * rule->scale_power + rule->init_power + 2);
}

static bool describe(const study *s, json_t *document)
{
    double *column = calloc((size_t)s->settings.seeds.values[0], sizeof *column);
    json_t *rows = json_array(), *rates = json_array(), *spectra = json_array(), *fits = json_array();
    for (int law = 0; column && law < s->settings.laws.count; law++) {
        for (int d = 0; d < s->settings.d.count; d++) {
            const place at = {law, d};
            for (int moment = 0; moment < MOMENTS; moment++)
                json_array_append_new(rows, moment_json(s, at, moment, column));
            json_array_append_new(rates, rate_json(s, at, column));
            json_array_append_new(spectra, spectrum_json(s, at, false, column));
            json_array_append_new(spectra, spectrum_json(s, at, true, column));
        }
        json_array_append_new(fits, fit_json(s, law));
    }
    bool good = column != NULL;
    free(column);
    good = json_object_set_new(document, "rows", rows) == 0 && good;
    good = json_object_set_new(document, "rates", rates) == 0 && good;
    good = json_object_set_new(document, "spectra", spectra) == 0 && good;
    return json_object_set_new(document, "fits", fits) == 0 && good;
}

/* ---- The picture --------------------------------------------------------------------------------------------------------- */

/* x and a number per law; the law's line is drawn from it. */
static void put_block(FILE *script, const study *s, const char *name, int law, bool over_d, int which, double *column)
{
    const study_settings *of = &s->settings;
    fprintf(script, "$%s%d << END\n", name, law);
    for (int i = 0; i < (over_d ? of->d.count : MOMENTS); i++) {
        const place at = {law, over_d ? i : of->d.count - 1};
        const study_range range = range_of(s, at, over_d ? which : probe_place(i, which), column);
        /* Steps are drawn from 1 on, because their axis is a logarithm. */
        if (range.count)
            fprintf(script, "%lld %.6g %.6g %.6g %.6g %.6g\n", (long long)(over_d ? of->d.values[i] : moments[i] + 1),
                    range.median, range.low, range.high, update_of(law_at(s, at), d_at(s, at)),
                    start_of(law_at(s, at), d_at(s, at)));
    }
    fprintf(script, "0 NaN NaN NaN NaN NaN\nEND\n");
}

/* Laws of one start lie on one another in some panels: the first are drawn wide, the last thin. */
static void put_plot(FILE *script, const study *s, const char *name, const char *title, const char *x, const char *y,
                     const char *column)
{
    const int laws = s->settings.laws.count;
    fprintf(script, "set title '%s'\nset xlabel '%s'\nset ylabel '%s'\nplot", title, x, y);
    for (int law = 0; law < laws; law++)
        fprintf(script,
                "%s $%s%d using 1:%s with linespoints linewidth %d pointtype 7 pointsize 0.4 linecolor rgb '%s' "
                "title '%s'",
                law ? "," : "", name, law, column, 2 * (laws - law), study_colors[s->settings.laws.values[law]],
                law_name(s, law));
    fputc('\n', script);
}

static void put_widths(FILE *script, const bench_list *d)
{
    fprintf(script, "set xtics (");
    for (int i = 0; i < d->count; i++)
        fprintf(script, "%s%lld", i ? ", " : "", (long long)d->values[i]);
    fprintf(script, ")\n");
}

static void draw(FILE *script, const study *s)
{
    const study_settings *of = &s->settings;
    double *column = calloc((size_t)of->seeds.values[0], sizeof *column);
    char title[128];
    for (int law = 0; column && law < of->laws.count; law++) {
        put_block(script, s, "high", law, true, HIGH, column);
        put_block(script, s, "std", law, false, PROBE_SCORE_STD, column);
        put_block(script, s, "move", law, false, PROBE_MOVE_OWN, column);
        put_block(script, s, "sharp", law, false, PROBE_SHARPNESS, column);
        put_block(script, s, "pmax", law, false, PROBE_P_MAX, column);
    }
    fprintf(script,
            "set logscale xy\nset format y '%%g'\nset grid\nset key outside right top samplen 2\n"
            "set multiplot layout 3,2 title 'How large scores start, and how far a step moves them (medians of "
            "%lld seeds)'\n",
            (long long)of->seeds.values[0]);
    put_widths(script, &of->d);
    put_plot(script, s, "high", "highest working rate", "head size d", "rate", "2");
    put_plot(script, s, "high", "the same as a move of scores, over the deviation they start with", "head size d",
             "rate x update / start", "($2*$5/$6)");
    fprintf(script, "set xtics autofreq\n");
    snprintf(title, sizeof title, "deviation of scores, d = %lld", (long long)of->d.values[of->d.count - 1]);
    put_plot(script, s, "std", title, "step + 1", "score std", "2");
    put_plot(script, s, "move", "move of an unseen copy''s score per rate, in units of update", "step + 1",
             "move / update", "($2/$5)");
    put_plot(script, s, "sharp", "sharpness in units of update", "step + 1", "sharpness / update", "($2/$5)");
    put_plot(script, s, "pmax", "largest weight", "step + 1", "largest weight", "2");
    fprintf(script, "unset multiplot\n");
    free(column);
}

const study_command study_mechanism = {
    .name = "mechanism",
    .summary = "why: the starting size of scores against how far one update moves them",
    .notes =
        "Laws are taken apart into two numbers: the deviation that scores start with, and how far a step at rate 1 "
        "moves\n"
        "them. sqrt, start, update and none are the four corners of scaled and unscaled start and update. Per law and\n"
        "d: the highest working rate, and along one run at a third of it the scores, their moves per step measured "
        "and\n"
        "predicted, the largest weight, the gradient, the top of the loss's Hessian, and the spectrum of Wq^T Wk at\n"
        "both ends.",
    .takes = STUDY_TAKES_REFINE,
    .usual = {.seeds = {1, {5}},
              .d = {5, {16, 32, 64, 128, 256}},
              .laws = {6, {STUDY_NONE, STUDY_SQRT, STUDY_LINEAR, STUDY_CONTROL, STUDY_START, STUDY_UPDATE}}},
    .quick = {.seeds = {1, {2}}, .d = {2, {16, 64}}},
    .rules = rules,
    .jobs = jobs,
    .width = width,
    .cost = cost,
    .job = job,
    .report = report,
    .describe = describe,
    .draw = draw,
    .plot_width = 1240,
    .plot_height = 1200,
};
