/* scale_study_gpt_report.c - what gpt's runs say: for people a table, for programs a document. */
#include "scale_study_gpt.h"

#include <math.h>
#include <stdlib.h>

static const char *law_name(const study *s, int law)
{
    return study_law_words[s->settings.laws.values[law]];
}

static const char *optimizer_name(const study *s, int optimizer)
{
    return study_optimizer_words[s->settings.optimizers.values[optimizer]];
}

static int layers_of(const study *s)
{
    return (int)s->settings.layers.values[0];
}

/* The rate whose runs are shown along training: the best, or the lowest where all have diverged. */
static gpt_place shown(const study *s, gpt_place at)
{
    const int best = gpt_ends_of(s, at).best;
    at.rate = best < 0 ? 0 : best;
    return at;
}

/* ---- For people -------------------------------------------------------------------------------------------------------- */

void gpt_rules(FILE *out, const study *s)
{
    const study_settings *of = &s->settings;
    fprintf(
        out,
        "model: GPT, %lld layers, width %d cut into %d / d heads, windows of %d characters, no biases, tied head; as\n"
        "gpt_train's nano, but Wq and Wk are drawn so that queries and keys begin with variance 1 (control: less)\n"
        "training: %lld steps of %lld windows, %lld steps of warm-up, then a cosine to a tenth of the rate, no "
        "clipping\n"
        "text: %lld characters of which the last tenth is held back; loss: mean over %d windows of that, evenly "
        "spaced\n",
        (long long)layers_of(s), (int)GPT_WIDTH, (int)GPT_WIDTH, (int)GPT_CONTEXT, (long long)of->steps.values[0],
        (long long)of->batch.values[0], (long long)(of->steps.values[0] / 10), (long long)gpt_text_tokens(),
        (int)(GPT_BATCHES * of->batch.values[0]));
    fprintf(
        out,
        "a rate works (+) if the loss, mean over seeds, is at most %g above the best of its optimiser, head size and "
        "law;\nit is as good as any (*) if it is so above the best of all laws\n"
        "a run diverges at the first step whose loss is not finite; it stops there, and its rate does not work\n",
        gpt_margin);
    for (int i = 0; i < of->optimizers.count; i++) {
        const gpt_optimizer *o = gpt_optimizer_of(of->optimizers.values[i]);
        fprintf(out, "%s %s (%s): rates", i ? "          " : "optimisers", optimizer_name(s, i), o->words);
        for (int r = 0; r < of->rates.count; r++)
            fprintf(out, " %.4g", gpt_rate(of, (gpt_place){.optimizer = i, .rate = r}));
        fputc('\n', out);
    }
}

static void print_losses(FILE *out, const study *s, gpt_place at)
{
    const gpt_ends ends = gpt_ends_of(s, at);
    for (at.rate = 0; at.rate < s->settings.rates.count; at.rate++) {
        const double loss = gpt_mean(s, at, GPT_LOSS);
        char text[32] = "-";
        if (isinf(loss))
            snprintf(text, sizeof text, "diverges");
        else if (!isnan(loss))
            snprintf(text, sizeof text, "%.3f%s", loss, loss <= ends.all.bar ? "*" : loss <= ends.own.bar ? "+" : " ");
        fprintf(out, " %9s", text);
    }
    if (ends.best < 0) {
        fprintf(out, "  none works\n");
        return;
    }
    at.rate = ends.own.low;
    fprintf(out, "  %s%.3g", at.rate == 0 ? "<= " : "", gpt_rate(&s->settings, at));
    at.rate = ends.own.high;
    fprintf(out, " to %s%.3g\n", at.rate == s->settings.rates.count - 1 ? ">= " : "", gpt_rate(&s->settings, at));
}

static void print_saturation(FILE *out, const study *s, gpt_place at)
{
    static const int moments[] = {0, GPT_MOMENTS / 2, GPT_MOMENTS - 1};
    fprintf(out, " %8.3g", gpt_rate(&s->settings, at));
    for (int i = 0; i < 3; i++) {
        fputs(" ", out);
        for (int layer = 0; layer < layers_of(s); layer++)
            fprintf(out, " %.2f", gpt_mean(s, at, gpt_value(&s->settings, GPT_LARGEST_WEIGHT, layer, moments[i])));
    }
    fputc('\n', out);
}

void gpt_report(FILE *out, const study *s)
{
    const study_settings *of = &s->settings;
    for (int o = 0; o < of->optimizers.count; o++) {
        fprintf(out, "%-9s %4s %-8s", "optimiser", "d", "law");
        for (int r = 0; r < of->rates.count; r++)
            fprintf(out, " %8.3g ", gpt_rate(of, (gpt_place){.optimizer = o, .rate = r}));
        fprintf(out, " rates that work\n");
        for (int d = 0; d < of->d.count; d++)
            for (int law = 0; law < of->laws.count; law++) {
                fprintf(out, "%-9s %4lld %-8s", optimizer_name(s, o), (long long)of->d.values[d], law_name(s, law));
                print_losses(out, s, (gpt_place){o, d, law, 0});
            }
    }
    fprintf(out,
            "\nlargest weight by layer at the best rate, before training, half-way, after it (all alike: %.3f)\n"
            "%-9s %4s %-8s %8s\n",
            gpt_uniform_weight(), "optimiser", "d", "law", "rate");
    for (int o = 0; o < of->optimizers.count; o++)
        for (int d = 0; d < of->d.count; d++)
            for (int law = 0; law < of->laws.count; law++) {
                fprintf(out, "%-9s %4lld %-8s", optimizer_name(s, o), (long long)of->d.values[d], law_name(s, law));
                print_saturation(out, s, shown(s, (gpt_place){o, d, law, 0}));
            }
}

/* ---- For programs -------------------------------------------------------------------------------------------------------- */

enum { ALONG = 11 /* moments in the document; the picture has all */ };

/* With four digits: there are many of these, and seeds differ in the third. */
static json_t *short_number(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.4g", value);
    return bench_json_number(strtod(text, NULL));
}

/* A curve's numbers at so many moments, evenly spaced from the first to the last. */
static json_t *curve_json(const study *s, gpt_place at, gpt_curve curve, int layer, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        const int moment = i * (GPT_MOMENTS - 1) / (count - 1);
        json_array_append_new(list, short_number(gpt_mean(s, at, gpt_value(&s->settings, curve, layer, moment))));
    }
    return list;
}

static json_t *layers_json(const study *s, gpt_place at, gpt_curve curve, int count)
{
    json_t *list = json_array();
    for (int layer = 0; layer < layers_of(s); layer++)
        json_array_append_new(list, curve_json(s, at, curve, layer, count));
    return list;
}

/* Every layer's number after training. */
static json_t *ends_json(const study *s, gpt_place at, gpt_curve curve)
{
    json_t *list = json_array();
    for (int layer = 0; layer < layers_of(s); layer++)
        json_array_append_new(list,
                              short_number(gpt_mean(s, at, gpt_value(&s->settings, curve, layer, GPT_MOMENTS - 1))));
    return list;
}

/* The loss of every finished seed; null where it diverged. */
static json_t *seeds_json(const study *s, gpt_place at)
{
    json_t *list = json_array();
    for (int64_t seed = 0; seed < s->settings.seeds.values[0]; seed++) {
        const double *values = study_values(s, gpt_job(&s->settings, seed, at));
        if (values)
            json_array_append_new(list, short_number(values[GPT_LOSS]));
    }
    return list;
}

static json_t *rate_json(const study *s, gpt_place at)
{
    return json_pack("{s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "rate", gpt_rate(&s->settings, at), "loss",
                     short_number(gpt_mean(s, at, GPT_LOSS)), "loss_by_seed", seeds_json(s, at), "diverged_at",
                     short_number(gpt_mean(s, at, GPT_DIVERGED_AT)), "train_loss",
                     curve_json(s, at, GPT_TRAIN_LOSS, 0, GPT_MOMENTS), "largest_weight",
                     ends_json(s, at, GPT_LARGEST_WEIGHT), "entropy_ratio", ends_json(s, at, GPT_ENTROPY_RATIO));
}

static json_t *rate_or_null(const study *s, gpt_place at, int rate)
{
    at.rate = rate;
    return rate < 0 ? json_null() : json_real(gpt_rate(&s->settings, at));
}

static bool put_range(json_t *row, const study *s, gpt_place at, const char *suffix, gpt_range range)
{
    static const char *const names[] = {"bar", "rate_low", "rate_high"};
    char name[3][64];
    for (int i = 0; i < 3; i++)
        snprintf(name[i], sizeof name[i], "%s%s", names[i], suffix);
    return json_object_set_new(row, name[0], short_number(range.bar)) == 0 &&
           json_object_set_new(row, name[1], rate_or_null(s, at, range.low)) == 0 &&
           json_object_set_new(row, name[2], rate_or_null(s, at, range.high)) == 0;
}

static json_t *row_json(const study *s, gpt_place at)
{
    const int64_t d = s->settings.d.values[at.d];
    const int rates = s->settings.rates.count;
    const gpt_ends ends = gpt_ends_of(s, at);
    const gpt_place along = shown(s, at);
    json_t *row = json_pack("{s:s, s:I, s:I, s:s, s:o, s:o, s:b, s:b}", "law", law_name(s, at.law), "d", (json_int_t)d,
                            "heads", (json_int_t)(GPT_WIDTH / d), "optimizer", optimizer_name(s, at.optimizer),
                            "best_rate", rate_or_null(s, at, ends.best), "best_loss", short_number(ends.best_loss),
                            "rate_low_is_bound", ends.own.low == 0, "rate_high_is_bound", ends.own.high == rates - 1);
    bool good = row && put_range(row, s, at, "", ends.own) && put_range(row, s, at, "_of_all", ends.all);
    json_t *list = json_array();
    for (int r = 0; r < rates; r++)
        json_array_append_new(list, rate_json(s, (gpt_place){at.optimizer, at.d, at.law, r}));
    good = json_object_set_new(row, "rates", list) == 0 && good;
    json_t *curves = json_pack("{s:f, s:o, s:o}", "rate", gpt_rate(&s->settings, along), "largest_weight",
                               layers_json(s, along, GPT_LARGEST_WEIGHT, ALONG), "entropy_ratio",
                               layers_json(s, along, GPT_ENTROPY_RATIO, ALONG));
    if (json_object_set_new(row, "along", curves) == 0 && good)
        return row;
    json_decref(row);
    return NULL;
}

/* The rate that is best at the first head size, used at the last one. */
static json_t *transfer_json(const study *s, int optimizer, int law)
{
    const int last = s->settings.d.count - 1;
    gpt_place at = {optimizer, last, law, 0};
    const gpt_ends from = gpt_ends_of(s, (gpt_place){optimizer, 0, law, 0}), to = gpt_ends_of(s, at);
    at.rate = from.best;
    const double loss = from.best < 0 ? NAN : gpt_mean(s, at, GPT_LOSS);
    return json_pack("{s:s, s:s, s:I, s:o, s:I, s:o, s:o, s:o}", "law", law_name(s, law), "optimizer",
                     optimizer_name(s, optimizer), "from_d", (json_int_t)s->settings.d.values[0], "tuned_rate",
                     rate_or_null(s, at, from.best), "to_d", (json_int_t)s->settings.d.values[last], "tuned_loss",
                     short_number(loss), "best_rate", rate_or_null(s, at, to.best), "best_loss",
                     short_number(to.best_loss));
}

static json_t *moments_json(const study *s, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_integer(gpt_moment_step(&s->settings, i * (GPT_MOMENTS - 1) / (count - 1))));
    return list;
}

static bool describe_settings(const study *s, json_t *settings)
{
    json_t *more =
        json_pack("{s:i, s:i, s:i, s:f, s:s, s:f, s:o, s:o, s:o}", "width", GPT_WIDTH, "context", GPT_CONTEXT,
                  "windows", (int)(GPT_BATCHES * s->settings.batch.values[0]), "margin", gpt_margin, "diverged",
                  "the loss was not finite", "uniform_largest_weight", gpt_uniform_weight(), "train_loss_steps",
                  moments_json(s, GPT_MOMENTS), "along_steps", moments_json(s, ALONG), "text", gpt_text_json());
    const bool good = more && json_object_update(settings, more) == 0;
    json_decref(more);
    return good;
}

bool gpt_describe(const study *s, json_t *document)
{
    const study_settings *of = &s->settings;
    json_t *rows = json_array(), *transfer = json_array();
    bool good = describe_settings(s, json_object_get(document, "settings"));
    for (int o = 0; o < of->optimizers.count; o++)
        for (int law = 0; law < of->laws.count; law++) {
            for (int d = 0; d < of->d.count; d++)
                good = json_array_append_new(rows, row_json(s, (gpt_place){o, d, law, 0})) == 0 && good;
            good = json_array_append_new(transfer, transfer_json(s, o, law)) == 0 && good;
        }
    good = json_object_set_new(document, "rows", rows) == 0 && good;
    return json_object_set_new(document, "transfer", transfer) == 0 && good;
}
