/* scale_study_correlated.c - the other side: when 1/d is right, and when 1/sqrt(d) is.
 *
 * A score is a sum of d products. Where they are independent it grows with sqrt(d), where they agree with d. Three
 * places to look: queries and keys as drawn, from independent to equal; the same with the width cut into heads, where
 * the head's size takes the width's place; and after training, where a rate tuned at the smallest width is used at all.
 *
 * Training has two kinds of tokens. `fresh` ones are drawn anew every step, as in `learn`: no direction comes twice,
 * and a step moves the score of a token that it has not seen through one number only, the mean of its gradient. Those
 * of a `vocabulary` are taken from a fixed list of 32: each step has seen them, so their products with its gradient
 * agree.
 *
 * Several heads after training are in scale_study_heads.c.
 *
 * A job is one seed, width and kind of tokens, all laws and rates. A seed's jobs for several heads come after these.
 */
#include "scale_study_correlated.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, SETS = 64 };

/* Queries and keys as drawn: k = c q + sqrt(1 - c^2) noise, for the query's own key; the others are independent. */
static const double agreements[] = {0, 0.25, 1};
static const char *const agreement_words[] = {"random", "quarter", "equal", "random_heads", "equal_heads"};
enum { AGREEMENTS = sizeof agreements / sizeof *agreements, STILLS = AGREEMENTS + 2 };

/* Of a law, a job leaves the deviations of scores as drawn (times d to the law's power), and of every rate: accuracy
 * and loss on tokens of another draw after training, the deviation of scores there and what the copy's is above the
 * others'. */
enum { ACCURACY, LOSS, DEVIATION, GAP, EACH };

static int law_width(const study_settings *settings)
{
    return STILLS + EACH * settings->rates.count;
}

static int width(const study_settings *settings)
{
    const int own = settings->laws.count * law_width(settings), heads = heads_width(settings);
    return own > heads ? own : heads;
}

/* A seed's jobs: these, then those of scale_study_heads.c. */
static int64_t own_jobs(const study_settings *settings)
{
    return settings->d.count * KINDS;
}

static heads_place heads_of(const study_settings *settings)
{
    return (heads_place){own_jobs(settings), own_jobs(settings) + heads_jobs(settings)};
}

static int64_t jobs(const study_settings *settings)
{
    for (int i = 0; i < settings->laws.count; i++) {
        const study_rule *rule = &study_rules[settings->laws.values[i]];
        if (rule->normalised || rule->softcap > 0)
            bench_usage_error("scale_study correlated", "--laws: %s is more than a power of d", rule->name);
    }
    return settings->seeds.values[0] * heads_of(settings).stride;
}

static double cost(const study_settings *settings, int64_t job)
{
    const int64_t number = job % heads_of(settings).stride;
    if (number >= own_jobs(settings))
        return heads_cost(settings, (int)(number - own_jobs(settings)));
    const double d = (double)settings->d.values[number / KINDS];
    return 4e4 + 500 * d + 6 * d * d;
}

/* ---- Queries and keys as drawn ---------------------------------------------------------------------------------- */

/* Scores of SETS sequences, each of as many queries as keys, where query i agrees with key i; on `heads` heads of width
 * d / heads. */
static double still_deviation(double agreement, int64_t d, int64_t heads, uint64_t seed)
{
    const int64_t shape[] = {SETS, STUDY_TOKENS, heads, d / heads}, rows = SETS * heads * STUDY_TOKENS;
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true});
    lab_tensor *q = lab_randn(g, LAB_F64, 4, shape, seed + STREAM_QUERIES);
    lab_tensor *noise = lab_randn(g, LAB_F64, 4, shape, seed + STREAM_KEYS);
    lab_tensor *k =
        lab_add(g, lab_mul_scalar(g, q, agreement), lab_mul_scalar(g, noise, sqrt(1 - agreement * agreement)));
    lab_tensor *scores =
        lab_contiguous(g, lab_matmul(g, lab_transpose(g, q, 1, 2), lab_permute(g, k, (int[]){0, 2, 3, 1})));
    const double result = scores ? probe_deviation(rows, lab_tensor_data(scores)) : NAN;
    if (!scores)
        study_fail("d = %lld: %s", (long long)d, lab_graph_message(g));
    lab_graph_destroy(&g);
    return result;
}

static void still_deviations(int64_t d, uint64_t seed, double *deviations)
{
    for (int i = 0; i < AGREEMENTS; i++)
        deviations[i] = still_deviation(agreements[i], d, 1, seed);
    const bool whole = d % HEADS == 0;
    deviations[AGREEMENTS] = whole ? still_deviation(0, d, HEADS, seed) : NAN;
    deviations[AGREEMENTS + 1] = whole ? still_deviation(1, d, HEADS, seed) : NAN;
}

/* What a law makes of a deviation; heads are of size d / HEADS. */
static double scale_still(study_law law, int still, int64_t d)
{
    return pow((double)(still < AGREEMENTS ? d : d / HEADS), study_rules[law].scale_power);
}

/* ---- Training, and what it left ---------------------------------------------------------------------------------------- */

/* A visitor's context: gradient descent that keeps the weights of the last step. */
typedef struct keeping {
    lab_sgd sgd;
    int64_t step; /* the one that comes */
    study_head kept;
} keeping;

static lab_status begin_step(int64_t step, void *ctx)
{
    ((keeping *)ctx)->step = step;
    return LAB_OK;
}

static lab_status step_and_keep(const char *name, lab_tensor **parameter, void *ctx)
{
    keeping *k = ctx;
    lab_status status = lab_sgd_step(name, parameter, &k->sgd);
    if (status == LAB_OK && k->step == STUDY_STEPS - 1)
        status = lab_tensor_clone(strcmp(name, "q.weight") == 0 ? &k->kept.wq : &k->kept.wk, *parameter);
    return status;
}

/* Means over TESTS batches, in float64: losses go far below what float32 can tell from 0. */
static bool test_head(lab_graph *g, const study_head *head, study_tokens *tests, double *to)
{
    double squares = 0;
    to[ACCURACY] = to[LOSS] = to[GAP] = 0;
    for (int64_t step = 0; step < TESTS; step++) {
        double scores[PROBE_SCORES];
        lab_graph_reset(g);
        const study_head wide = probe_widen(g, head);
        const study_batch batch = probe_batch(g, tests, step);
        const study_step now = study_head_apply(g, &wide, &batch, LAB_PATH_AUTO);
        to[ACCURACY] += study_count_hits(g, &now, &batch) / (double)(TESTS * STUDY_BATCH);
        if (!probe_read(probe_scores(g, &wide, &batch), scores))
            return false;
        to[LOSS] += *(const double *)lab_tensor_data(now.loss) / TESTS;
        squares += pow(probe_deviation(STUDY_BATCH, scores), 2) / TESTS;
        to[GAP] += probe_gap(scores, &batch) / TESTS;
    }
    to[DEVIATION] = sqrt(squares);
    return true;
}

static bool train_and_test(lab_graph *g, study_training *training, double rate, study_tokens *tests, double *to)
{
    study_outcome outcome;
    keeping k = {.sgd = {.rate = rate}, .kept = {.law = training->law, .d = training->d}};
    training->ctx = &k;
    bool good = study_train(g, training, &outcome);
    for (int i = 0; i < EACH; i++)
        to[i] = NAN;
    to[ACCURACY] = 0; /* of a run that diverged */
    to[LOSS] = INFINITY;
    if (good && k.kept.wq && k.kept.wk && !test_head(g, &k.kept, tests, to)) {
        study_fail("d = %lld: %s", (long long)training->d, lab_graph_message(g));
        good = false;
    }
    if (!isfinite(to[LOSS])) {
        to[ACCURACY] = 0;
        to[LOSS] = INFINITY;
        to[DEVIATION] = to[GAP] = NAN;
    }
    study_head_free(&k.kept);
    return good;
}

static bool job(const study_settings *settings, int64_t number, double *values)
{
    const int64_t index = number / heads_of(settings).stride, own = number % heads_of(settings).stride;
    if (own >= own_jobs(settings))
        return heads_job(settings, index, (int)(own - own_jobs(settings)), values);
    const int64_t d = settings->d.values[own / KINDS];
    const uint64_t seed = study_seed(settings, index, d);
    double stills[STILLS];
    study_tokens tokens, tests;
    lab_graph *g = lab_graph_create(NULL);
    bool good = draw_kind((int)(own % KINDS), d, seed, &tokens, &tests);
    still_deviations(d, seed, stills);
    for (int i = 0; good && i < settings->laws.count; i++) {
        double *to = values + i * law_width(settings);
        study_training training = {.law = (study_law)settings->laws.values[i],
                                   .d = d,
                                   .dtype = LAB_F32,
                                   .seed = seed,
                                   .tokens = &tokens,
                                   .step = step_and_keep,
                                   .before = begin_step};
        for (int j = 0; j < STILLS; j++)
            to[j] = stills[j] * scale_still(training.law, j, d);
        for (int r = 0; good && r < settings->rates.count; r++)
            good = train_and_test(g, &training, settings->rates.values[r], &tests, to + STILLS + r * EACH);
    }
    free_kind(&tokens, &tests);
    lab_graph_destroy(&g);
    return good;
}

/* ---- What the seeds say ------------------------------------------------------------------------------------------------ */

typedef struct place {
    int law, d, kind; /* law and d are indices into the settings' lists */
} place;

static const char *law_name(const study *s, int law)
{
    return study_law_words[s->settings.laws.values[law]];
}

static double value_of(const study *s, place at, int64_t seed, int which)
{
    const study_settings *of = &s->settings;
    const double *values = study_values(s, seed * heads_of(of).stride + at.d * KINDS + at.kind);
    return values ? values[at.law * law_width(of) + which] : NAN;
}

static study_range range_of(const study *s, place at, int which, double *column)
{
    const int seeds = (int)s->settings.seeds.values[0];
    for (int seed = 0; seed < seeds; seed++)
        column[seed] = value_of(s, at, seed, which);
    return study_range_of(seeds, column);
}

static study_range trained(const study *s, place at, int rate, int which, double *column)
{
    return range_of(s, at, STILLS + rate * EACH + which, column);
}

/* The grid's rate of least median loss; -1 if every one diverged. */
static int best_rate(const study *s, place at, double *column)
{
    int best = -1;
    double least = INFINITY;
    for (int r = 0; r < s->settings.rates.count; r++) {
        const double loss = trained(s, at, r, LOSS, column).median;
        if (loss < least) {
            least = loss;
            best = r;
        }
    }
    return best;
}

/* A number of one seed's scores after training at a rate of the grid; NaN where that did not train it. */
static double deviation_at(const study *s, place at, int64_t seed, int rate)
{
    const int from = STILLS + rate * EACH;
    return value_of(s, at, seed, from + ACCURACY) >= study_accuracy_wanted ? value_of(s, at, seed, from + DEVIATION)
                                                                           : NAN;
}

static study_range deviation_trained(const study *s, place at, int rate, double *column)
{
    const int seeds = (int)s->settings.seeds.values[0];
    for (int seed = 0; seed < seeds; seed++)
        column[seed] = rate < 0 ? NAN : deviation_at(s, at, seed, rate);
    return study_range_of(seeds, column);
}

/* The exponent of a deviation as drawn (`which`), or after training at a rate (`which` negative). */
static study_fit fit_of(const study *s, int law, int kind, int which, int rate)
{
    const study_settings *of = &s->settings;
    const int seeds = (int)of->seeds.values[0], n = of->d.count;
    double x[BENCH_MAX_LIST], *y = calloc((size_t)(seeds * n) + 1, sizeof *y);
    study_fit fit = {NAN, NAN, NAN, 0};
    for (int d = 0; y && d < n; d++) {
        const place at = {law, d, kind};
        x[d] = (double)of->d.values[d];
        for (int seed = 0; seed < seeds; seed++)
            y[seed * n + d] = which < 0 ? deviation_at(s, at, seed, rate) : value_of(s, at, seed, which);
    }
    if (y)
        fit = study_fit_power(n, x, seeds, y);
    free(y);
    return fit;
}

static study_fit fit_still(const study *s, int law, int still)
{
    return fit_of(s, law, FRESH, still, 0);
}

/* The deviation's exponent after training at the rate that is best at the first width. */
static study_fit fit_trained(const study *s, int law, int kind, double *column)
{
    const int rate = best_rate(s, (place){law, 0, kind}, column);
    return rate < 0 ? (study_fit){NAN, NAN, NAN, 0} : fit_of(s, law, kind, -1, rate);
}

/* ---- For people ---------------------------------------------------------------------------------------------------------- */

static void rules(FILE *out, const study *s)
{
    char text[2][32];
    const bench_reals *rates = &s->settings.rates;
    fprintf(
        out,
        "deviation: root mean square of scores less the mean over the query's %d keys\n"
        "random: queries and keys are independent; quarter: the query's own key is 0.25 q + noise of variance\n"
        "1 - 0.25^2; equal: it is q; _heads: the same with d cut into %d heads, each scaled by its own size\n"
        "training: as scale_study learn has it; tokens fresh every step, or out of a vocabulary of %d; then accuracy,\n"
        "loss and deviation on %d queries of another draw; deviations are of runs that reach 95 %%\n"
        "rates: %d from %s to %s; the best is that of least loss (median over seeds), tuned at d = %lld, used at all\n",
        STUDY_TOKENS, HEADS, WORDS, TESTS * STUDY_BATCH, rates->count, study_number_text(rates->values[0], text[0]),
        study_number_text(rates->values[rates->count - 1], text[1]), (long long)s->settings.d.values[0]);
    heads_rules(out, s);
}

static void print_row(FILE *out, const study *s, int law, const char *name, const double *medians, study_fit fit)
{
    fprintf(out, "%-8s %-20s", law_name(s, law), name);
    for (int d = 0; d < s->settings.d.count; d++)
        fprintf(out, " %9.3g", medians[d]);
    fprintf(out, "  %+.2f (%+.2f to %+.2f)\n", fit.exponent, fit.low, fit.high);
}

static void report_deviations(FILE *out, const study *s, double *column)
{
    const int widths = s->settings.d.count;
    double medians[BENCH_MAX_LIST];
    fprintf(out, "deviation of scores\n%-8s %-20s", "law", "queries and keys");
    for (int d = 0; d < widths; d++)
        fprintf(out, "   d = %-4lld", (long long)s->settings.d.values[d]);
    fprintf(out, " exponent in d (95 %% of resampled seeds)\n");
    for (int law = 0; law < s->settings.laws.count; law++) {
        for (int still = 0; still < STILLS; still++) {
            for (int d = 0; d < widths; d++)
                medians[d] = range_of(s, (place){law, d, FRESH}, still, column).median;
            print_row(out, s, law, agreement_words[still], medians, fit_still(s, law, still));
        }
        for (int kind = 0; kind < KINDS; kind++) {
            char name[32];
            const int rate = best_rate(s, (place){law, 0, kind}, column);
            for (int d = 0; d < widths; d++)
                medians[d] = deviation_trained(s, (place){law, d, kind}, rate, column).median;
            snprintf(name, sizeof name, "trained, %s", kind_words[kind]);
            print_row(out, s, law, name, medians, fit_trained(s, law, kind, column));
        }
    }
}

static void report_transfer(FILE *out, const study *s, double *column)
{
    char text[2][32];
    fprintf(out, "\na rate tuned at d = %lld, used at others\n%-8s %-11s %5s %9s %9s %9s  %9s %9s %9s  %s\n",
            (long long)s->settings.d.values[0], "law", "tokens", "d", "rate", "accuracy", "loss", "best rate",
            "accuracy", "loss", "best / tuned");
    for (int kind = 0; kind < KINDS; kind++)
        for (int law = 0; law < s->settings.laws.count; law++) {
            const int tuned = best_rate(s, (place){law, 0, kind}, column);
            for (int d = 0; d < s->settings.d.count && tuned >= 0; d++) {
                const place at = {law, d, kind};
                const int best = best_rate(s, at, column);
                const double *rates = s->settings.rates.values;
                fprintf(out, "%-8s %-11s %5lld %9s %9.3f %9.3g", law_name(s, law), kind_words[kind],
                        (long long)s->settings.d.values[d], study_number_text(rates[tuned], text[0]),
                        trained(s, at, tuned, ACCURACY, column).median, trained(s, at, tuned, LOSS, column).median);
                if (best >= 0)
                    fprintf(out, "  %9s %9.3f %9.3g  %.3g\n", study_number_text(rates[best], text[1]),
                            trained(s, at, best, ACCURACY, column).median, trained(s, at, best, LOSS, column).median,
                            rates[best] / rates[tuned]);
                else
                    fprintf(out, "  every rate diverges\n");
            }
        }
}

static void report(FILE *out, const study *s)
{
    double *column = calloc((size_t)s->settings.seeds.values[0], sizeof *column);
    if (!column)
        return;
    report_deviations(out, s, column);
    report_transfer(out, s, column);
    heads_report(out, s, heads_of(&s->settings), column);
    free(column);
}

/* ---- For programs -------------------------------------------------------------------------------------------------------- */

static json_t *deviation_json(const study *s, place at, const char *name, study_range deviation)
{
    json_t *row = json_pack("{s:s, s:s, s:I, s:i, s:i}", "law", law_name(s, at.law), "case", name, "d",
                            (json_int_t)s->settings.d.values[at.d], "heads", strstr(name, "_heads") ? HEADS : 1,
                            "seeds", deviation.count);
    if (row && !study_put_range(row, "score_std", deviation)) {
        json_decref(row);
        return NULL;
    }
    return row;
}

static json_t *fit_json(const study *s, int law, const char *name, study_fit fit)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:o}", "law", law_name(s, law), "case", name, "exponent",
                     bench_json_number(fit.exponent), "exponent_lo", bench_json_number(fit.low), "exponent_hi",
                     bench_json_number(fit.high));
}

static json_t *transfer_json(const study *s, place at, double *column)
{
    const study_settings *of = &s->settings;
    const int tuned = best_rate(s, (place){at.law, 0, at.kind}, column), best = best_rate(s, at, column);
    json_t *row = json_pack("{s:s, s:s, s:I, s:I}", "law", law_name(s, at.law), "tokens", kind_words[at.kind],
                            "tuned_at", (json_int_t)of->d.values[0], "d", (json_int_t)of->d.values[at.d]);
    json_t *grid = json_array(), *accuracy = json_array(), *loss = json_array(), *deviation = json_array();
    for (int r = 0; r < of->rates.count; r++) {
        json_array_append_new(grid, json_real(of->rates.values[r]));
        json_array_append_new(accuracy, bench_json_number(trained(s, at, r, ACCURACY, column).median));
        json_array_append_new(loss, bench_json_number(trained(s, at, r, LOSS, column).median));
        json_array_append_new(deviation, bench_json_number(trained(s, at, r, DEVIATION, column).median));
    }
    bool good = row != NULL;
    good = json_object_set_new(row, "grid", grid) == 0 && good;
    good = json_object_set_new(row, "accuracy", accuracy) == 0 && good;
    good = json_object_set_new(row, "loss", loss) == 0 && good;
    good = json_object_set_new(row, "score_std", deviation) == 0 && good;
    for (int i = 0; good && i < 2; i++) {
        const int rate = i ? best : tuned;
        char name[32];
        snprintf(name, sizeof name, "%s_rate", i ? "best" : "tuned");
        json_object_set_new(row, name, rate < 0 ? json_null() : json_real(of->rates.values[rate]));
        if (rate < 0)
            continue;
        snprintf(name, sizeof name, "%s_accuracy", i ? "best" : "tuned");
        good = study_put_range(row, name, trained(s, at, rate, ACCURACY, column));
        snprintf(name, sizeof name, "%s_loss", i ? "best" : "tuned");
        good = good && study_put_range(row, name, trained(s, at, rate, LOSS, column));
        snprintf(name, sizeof name, "%s_gap", i ? "best" : "tuned");
        good = good && study_put_range(row, name, trained(s, at, rate, GAP, column));
    }
    if (!good) {
        json_decref(row);
        return NULL;
    }
    return row;
}

/* The rows and fits of one law. */
static void add_law(const study *s, int law, json_t *rows, json_t *transfer, json_t *fits, double *column)
{
    const int widths = s->settings.d.count;
    for (int still = 0; still < STILLS; still++) {
        for (int d = 0; d < widths; d++) {
            const place at = {law, d, FRESH};
            json_array_append_new(rows, deviation_json(s, at, agreement_words[still], range_of(s, at, still, column)));
        }
        json_array_append_new(fits, fit_json(s, law, agreement_words[still], fit_still(s, law, still)));
    }
    for (int kind = 0; kind < KINDS; kind++) {
        char name[32];
        const int tuned = best_rate(s, (place){law, 0, kind}, column);
        snprintf(name, sizeof name, "trained_%s", kind_words[kind]);
        for (int d = 0; d < widths; d++) {
            const place at = {law, d, kind};
            if (tuned >= 0)
                json_array_append_new(rows, deviation_json(s, at, name, deviation_trained(s, at, tuned, column)));
            json_array_append_new(transfer, transfer_json(s, at, column));
        }
        json_array_append_new(fits, fit_json(s, law, name, fit_trained(s, law, kind, column)));
    }
}

static bool describe(const study *s, json_t *document)
{
    double *column = calloc((size_t)s->settings.seeds.values[0], sizeof *column);
    json_t *rows = json_array(), *transfer = json_array(), *fits = json_array();
    for (int law = 0; column && law < s->settings.laws.count; law++)
        add_law(s, law, rows, transfer, fits, column);
    bool good = column && heads_describe(s, heads_of(&s->settings), document, column);
    free(column);
    good = json_object_set_new(document, "rows", rows) == 0 && good;
    good = json_object_set_new(document, "transfer", transfer) == 0 && good;
    return json_object_set_new(document, "fits", fits) == 0 && good;
}

/* ---- The picture --------------------------------------------------------------------------------------------------------- */

static void put_losses(FILE *script, const study *s, int kind, int law, double *column)
{
    const study_settings *of = &s->settings;
    for (int d = 0; d < of->d.count; d++) {
        fprintf(script, "$loss%d << END\n", d);
        for (int r = 0; r < of->rates.count; r++) {
            const study_range loss = trained(s, (place){law, d, kind}, r, LOSS, column);
            fprintf(script, "%g %g\n", of->rates.values[r], isfinite(loss.median) ? loss.median : NAN);
        }
        fprintf(script, "END\n");
    }
    fprintf(script, "set title '%s, %s tokens'\nplot", law_name(s, law), kind_words[kind]);
    for (int d = 0; d < of->d.count; d++)
        fprintf(script,
                "%s $loss%d using 1:2 with linespoints linewidth 2 pointtype 7 pointsize 0.6 linecolor rgb "
                "'%s' title 'd = %lld'",
                d ? "," : "", d, study_colors[d % STUDY_QKNORM], (long long)of->d.values[d]);
    fputc('\n', script);
}

static void draw(FILE *script, const study *s)
{
    const study_settings *of = &s->settings;
    double *column = calloc((size_t)of->seeds.values[0], sizeof *column);
    fprintf(script,
            "set logscale xy\nset format xy '%%g'\nset grid\nset key top right\nset xlabel 'learning rate'\n"
            "set ylabel 'loss after training'\nset yrange [1e-6:30]\nset multiplot layout %d,%d title 'Does a learning "
            "rate carry over from one width to another? Loss on new queries, medians of %lld seeds'\n",
            (int)KINDS, of->laws.count, (long long)of->seeds.values[0]);
    for (int kind = 0; column && kind < KINDS; kind++)
        for (int law = 0; law < of->laws.count; law++)
            put_losses(script, s, kind, law, column);
    fprintf(script, "unset multiplot\n");
    free(column);
}

const study_command study_correlated = {
    .name = "correlated",
    .summary = "when 1/d is right: queries and keys that agree, several heads, rates carried over",
    .notes =
        "The deviation of scores against d, per law: queries and keys drawn independent, agreeing in part, equal; cut\n"
        "into heads; after training on fresh tokens, and on a small vocabulary. Then the transfer test: the learning\n"
        "rate that is best at the first --d, used at the others, beside the best one there. Last, a width cut into "
        "heads\n"
        "that train side by side: the deviation of each one's scores before and after.",
    .takes = STUDY_TAKES_RATES,
    .usual = {.seeds = {1, {3}},
              .d = {3, {32, 128, 512}},
              .laws = {3, {STUDY_NONE, STUDY_SQRT, STUDY_LINEAR}},
              .rates = {11, {0.01, 0.0316228, 0.1, 0.316228, 1, 3.16228, 10, 31.6228, 100, 316.228, 1000}}},
    .quick = {.seeds = {1, {2}}, .d = {2, {32, 128}}, .rates = {7, {0.001, 0.01, 0.1, 1, 10, 100, 1000}}},
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
