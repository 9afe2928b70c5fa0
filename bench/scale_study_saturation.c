/* scale_study_saturation.c - how sharp attention is before any training, and what comes back through softmax.
 *
 * A job is one seed at one width: 256 queries and n keys, the same for all laws. Queries are heads of one query each
 * that share their keys, so that lab_attention's statistics, which are of a head, are of a query. Its values are the
 * identity, so that its result is its weights and the gradient that comes in is the weights'; a bias of zeros is added
 * to the scores, and the gradient of the bias is the one that comes back to softmax's input.
 */
#include "scale_study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUERIES = 256, STREAM_QUERIES = 1, STREAM_KEYS, STREAM_UPSTREAM };

/* What a job leaves for each law; the names are those of the JSON rows. */
enum { SCORE_STD, P_MAX_MEAN, P_MAX_MEDIAN, ENTROPY_RATIO, EFFECTIVE_KEYS, GAIN, GRAD_NORM, FIGURES };
static const char *const figure_names[FIGURES] = {"score_std",      "p_max_mean", "p_max_median", "entropy_ratio",
                                                  "effective_keys", "gain",       "grad_norm"};

static int width(const study_settings *settings)
{
    return settings->laws.count * FIGURES;
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
    return 1000 + (double)d_of(settings, job);
}

/* ---- One job --------------------------------------------------------------------------------------------------------- */

/* The operands of one seed, leaves that all laws read. */
typedef struct operands {
    lab_tensor *q, *k;           /* [256, d], [n, d], unit normal */
    lab_tensor *upstream, *ones; /* [1, 256, 1, n], unit normal; [d] */
    lab_tensor *values, *bias;   /* [1, 1, n, n], the identity; [1, 256, 1, n], zeros */
} operands;

static lab_status make_normal(lab_tensor **out, int rank, const int64_t *shape, uint64_t seed, uint64_t stream)
{
    lab_status status = lab_tensor_create(out, LAB_F64, rank, shape);
    return status == LAB_OK ? lab_init_normal(*out, 1, seed, stream) : status;
}

static lab_status make_operands(operands *o, int64_t n, int64_t d, uint64_t seed)
{
    const int64_t rows[] = {1, QUERIES, 1, n};
    lab_status status = make_normal(&o->q, 2, (int64_t[]){QUERIES, d}, seed, STREAM_QUERIES);
    if (status == LAB_OK)
        status = make_normal(&o->k, 2, (int64_t[]){n, d}, seed, STREAM_KEYS);
    if (status == LAB_OK)
        status = make_normal(&o->upstream, 4, rows, seed, STREAM_UPSTREAM);
    if (status == LAB_OK)
        status = lab_tensor_create(&o->bias, LAB_F64, 4, rows);
    if (status == LAB_OK)
        status = lab_tensor_create(&o->ones, LAB_F64, 1, &d);
    if (status == LAB_OK)
        status = lab_init_constant(o->ones, 1);
    if (status == LAB_OK)
        status = lab_tensor_create(&o->values, LAB_F64, 4, (int64_t[]){1, 1, n, n});
    for (int64_t i = 0; status == LAB_OK && i < n; i++)
        ((double *)lab_tensor_data(o->values))[i * n + i] = 1;
    return status;
}

static void free_operands(operands *o)
{
    lab_tensor **all[] = {&o->q, &o->k, &o->upstream, &o->ones, &o->values, &o->bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        lab_tensor_destroy(all[i]);
}

static double deviation_of(int64_t n, const double *numbers)
{
    double mean = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
        mean += numbers[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        sum += (numbers[i] - mean) * (numbers[i] - mean);
    return sqrt(sum / (double)n);
}

static void read_statistics(const lab_attention_stats *stats, int64_t n, double *to)
{
    double p_max[QUERIES];
    for (int i = 0; i < QUERIES; i++) {
        p_max[i] = stats[i].p_max.mean;
        to[P_MAX_MEAN] += stats[i].p_max.mean / QUERIES;
        to[ENTROPY_RATIO] += stats[i].entropy.mean / log((double)n) / QUERIES;
        to[EFFECTIVE_KEYS] += exp(stats[i].entropy.mean) / QUERIES;
        to[GAIN] += stats[i].gain.mean / QUERIES;
    }
    to[P_MAX_MEDIAN] = study_quantile(QUERIES, p_max, 0.5);
}

/* Median over queries of the length of a row of gradient [1, 256, 1, n]. */
static double median_length(const lab_tensor *gradient, int64_t n)
{
    const double *data = lab_tensor_data((lab_tensor *)gradient);
    double lengths[QUERIES];
    for (int i = 0; i < QUERIES; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++)
            sum += data[i * n + j] * data[i * n + j];
        lengths[i] = sqrt(sum);
    }
    return study_quantile(QUERIES, lengths, 0.5);
}

/* The figures of one law. */
static lab_status measure(lab_graph *g, const operands *o, study_law law, int64_t n, int64_t d, double *to)
{
    const study_rule *rule = &study_rules[law];
    /* Wq and Wk of variance d^-1 give queries of variance 1; drawn smaller, smaller ones. */
    const double std = study_weight_std(law, d) * sqrt((double)d), scale = study_scale(law, d);
    lab_tensor *q = lab_mul_scalar(g, o->q, std), *k = lab_mul_scalar(g, o->k, std), *gradient = NULL;
    if (rule->normalised) {
        q = lab_rms_norm(g, q, o->ones, 0);
        k = lab_rms_norm(g, k, o->ones, 0);
    }
    lab_tensor *scores = lab_mul_scalar(g, lab_matmul(g, q, lab_transpose(g, k, 0, 1)), scale);
    if (rule->softcap > 0)
        scores = lab_mul_scalar(g, lab_tanh(g, lab_mul_scalar(g, scores, 1 / rule->softcap)), rule->softcap);
    lab_attention_stats stats[QUERIES];
    lab_tensor *weights = lab_attention(
        g, lab_reshape(g, q, 4, (int64_t[]){1, QUERIES, 1, d}), lab_reshape(g, k, 4, (int64_t[]){1, 1, n, d}),
        o->values, &(lab_attention_opts){.scale = scale, .softcap = rule->softcap, .bias = o->bias, .stats = stats});
    if (lab_grad(g, weights, o->upstream, 1, (lab_tensor *[]){o->bias}, &gradient, NULL) != LAB_OK)
        return lab_graph_status(g);
    memset(to, 0, FIGURES * sizeof *to);
    to[SCORE_STD] = deviation_of(QUERIES * n, lab_tensor_data(scores));
    read_statistics(stats, n, to);
    to[GRAD_NORM] = median_length(gradient, n);
    return LAB_OK;
}

static bool job(const study_settings *settings, int64_t number, double *values)
{
    const int64_t n = settings->n.values[0], d = d_of(settings, number);
    operands o = {NULL};
    lab_graph *g = lab_graph_create(NULL);
    lab_status status = make_operands(&o, n, d, study_seed(settings, number / settings->d.count, d));
    for (int i = 0; status == LAB_OK && i < settings->laws.count; i++) {
        lab_graph_reset(g);
        status = measure(g, &o, (study_law)settings->laws.values[i], n, d, values + i * FIGURES);
    }
    if (status != LAB_OK)
        study_fail("d = %lld: %s", (long long)d, lab_graph_status(g) ? lab_graph_message(g) : lab_last_message());
    lab_graph_destroy(&g);
    free_operands(&o);
    return status == LAB_OK;
}

/* ---- What the seeds say ------------------------------------------------------------------------------------------------ */

static int column_of(const study *s, int law, int d, int figure, double *column)
{
    const study_settings *of = &s->settings;
    int count = 0;
    for (int64_t seed = 0; seed < of->seeds.values[0]; seed++) {
        const double *values = study_values(s, seed * of->d.count + d);
        column[seed] = values ? values[law * FIGURES + figure] : NAN;
        count += values != NULL;
    }
    return count;
}

static study_range range_of(const study *s, int law, int d, int figure, double *column)
{
    column_of(s, law, d, figure, column);
    return study_range_of((int)s->settings.seeds.values[0], column);
}

/* The place of a law among those of the run; -1: it is not. */
static int place_of(const study *s, study_law law)
{
    for (int i = 0; i < s->settings.laws.count; i++)
        if (s->settings.laws.values[i] == law)
            return i;
    return -1;
}

/* By seed, how many times longer the gradient is with / sqrt(d) than without: NULL unless both laws ran. */
static double *ratios_of(const study *s, int d)
{
    const int scaled = place_of(s, STUDY_SQRT), plain = place_of(s, STUDY_NONE),
              seeds = (int)s->settings.seeds.values[0];
    double *ratios = calloc((size_t)seeds, sizeof *ratios), *column = calloc((size_t)seeds, sizeof *column);
    if (scaled < 0 || plain < 0 || !ratios || !column) {
        free(ratios);
        free(column);
        return NULL;
    }
    column_of(s, scaled, d, GRAD_NORM, ratios);
    column_of(s, plain, d, GRAD_NORM, column);
    for (int i = 0; i < seeds; i++)
        ratios[i] /= column[i];
    free(column);
    return ratios;
}

static void report_ratios(FILE *out, const study *s)
{
    const int seeds = (int)s->settings.seeds.values[0];
    fprintf(out,
            "\nHow many times longer the gradient is with / sqrt(d) than without, seed by seed:\n"
            "%6s  %10s  %22s  %22s\n",
            "d", "median", "quartiles", "5 to 95 %");
    for (int d = 0; d < s->settings.d.count; d++) {
        double *ratios = ratios_of(s, d);
        if (!ratios)
            return;
        fprintf(out, "%6lld  %10.4g  %10.4g  %10.4g  %10.4g  %10.4g\n", (long long)s->settings.d.values[d],
                study_quantile(seeds, ratios, 0.5), study_quantile(seeds, ratios, 0.25),
                study_quantile(seeds, ratios, 0.75), study_quantile(seeds, ratios, 0.05),
                study_quantile(seeds, ratios, 0.95));
        free(ratios);
    }
}

static void report(FILE *out, const study *s)
{
    double *column = calloc((size_t)s->settings.seeds.values[0], sizeof *column);
    fprintf(out, "%-8s %5s %6s %10s %11s %13s %13s %10s %8s  %s\n", "law", "d", "seeds", "score std", "p max mean",
            "p max median", "entropy/ln n", "keys e^H", "gain", "gradient norm (5 to 95 %)");
    for (int i = 0; column && i < s->settings.laws.count; i++)
        for (int d = 0; d < s->settings.d.count; d++) {
            double medians[FIGURES];
            for (int f = 0; f < FIGURES; f++)
                medians[f] = range_of(s, i, d, f, column).median;
            const study_range norm = range_of(s, i, d, GRAD_NORM, column);
            fprintf(out, "%-8s %5lld %6d %10.4g %11.4f %13.4f %13.5f %10.3f %8.4f  %.3g (%.2g to %.2g)\n",
                    study_law_words[s->settings.laws.values[i]], (long long)s->settings.d.values[d], norm.count,
                    medians[SCORE_STD], medians[P_MAX_MEAN], medians[P_MAX_MEDIAN], medians[ENTROPY_RATIO],
                    medians[EFFECTIVE_KEYS], medians[GAIN], norm.median, norm.low, norm.high);
        }
    report_ratios(out, s);
    free(column);
}

static void rules(FILE *out, const study *s)
{
    fprintf(
        out,
        "%d unit-normal queries against n = %lld unit-normal keys, float64. Of a seed: score std over all scores; "
        "largest\n"
        "    weight, entropy over ln n, e^entropy and gain 1 - sum p^2: means over queries, p max also their median;\n"
        "    gradient norm: median over queries of the L2 norm of the gradient at softmax's input for a unit-normal\n"
        "    gradient on the weights. Shown: medians over seeds\n",
        QUERIES, (long long)s->settings.n.values[0]);
}

/* ---- For programs -------------------------------------------------------------------------------------------------------- */

static json_t *row_json(const study *s, int law, int d, double *column)
{
    const int seeds = column_of(s, law, d, GRAD_NORM, column);
    json_t *row =
        json_pack("{s:s, s:I, s:I, s:i}", "law", study_law_words[s->settings.laws.values[law]], "d",
                  (json_int_t)s->settings.d.values[d], "n", (json_int_t)s->settings.n.values[0], "seeds", seeds);
    for (int f = 0; row && f < FIGURES; f++)
        if (!study_put_range(row, figure_names[f], range_of(s, law, d, f, column))) {
            json_decref(row);
            return NULL;
        }
    return row;
}

static json_t *ratio_json(const study *s, int d, double *ratios)
{
    const int seeds = (int)s->settings.seeds.values[0];
    json_t *ratio = json_pack("{s:I}", "d", (json_int_t)s->settings.d.values[d]);
    if (!ratio || !study_put_range(ratio, "sqrt_over_none", study_range_of(seeds, ratios))) {
        json_decref(ratio);
        return NULL;
    }
    json_object_set_new(ratio, "quartile_1", bench_json_number(study_quantile(seeds, ratios, 0.25)));
    json_object_set_new(ratio, "quartile_3", bench_json_number(study_quantile(seeds, ratios, 0.75)));
    return ratio;
}

static bool describe(const study *s, json_t *document)
{
    double *column = calloc((size_t)s->settings.seeds.values[0], sizeof *column);
    json_t *rows = json_array(), *ratios = json_array();
    for (int i = 0; column && i < s->settings.laws.count; i++)
        for (int d = 0; d < s->settings.d.count; d++)
            json_array_append_new(rows, row_json(s, i, d, column));
    for (int d = 0; d < s->settings.d.count; d++) {
        double *of_seeds = ratios_of(s, d);
        if (of_seeds)
            json_array_append_new(ratios, ratio_json(s, d, of_seeds));
        free(of_seeds);
    }
    bool good =
        column && json_object_set_new(json_object_get(document, "settings"), "queries", json_integer(QUERIES)) == 0;
    good = json_object_set_new(document, "rows", rows) == 0 && good;
    good = json_object_set_new(document, "gradient_ratios", ratios) == 0 && good;
    free(column);
    return good;
}

/* ---- The picture --------------------------------------------------------------------------------------------------------- */

static void put_panel(FILE *script, const study *s, const char *title, const char *axes, int figure)
{
    fprintf(script, "set title '%s'\n%s\nplot", title, axes);
    for (int i = 0; i < s->settings.laws.count; i++) {
        const int column = 2 + 3 * figure;
        const char *name = study_law_words[s->settings.laws.values[i]],
                   *color = study_colors[s->settings.laws.values[i]];
        fprintf(
            script,
            "%s $law%d using 1:%d:%d with filledcurves linecolor rgb '%s' fillstyle transparent solid 0.15 noborder "
            "notitle, $law%d using 1:%d with linespoints pointtype 7 pointsize 0.5 linewidth 2 linecolor rgb '%s' "
            "title '%s'",
            i ? "," : "", i, column + 1, column + 2, color, i, column, color, name);
    }
    fputc('\n', script);
}

static void draw(FILE *script, const study *s)
{
    const study_settings *of = &s->settings;
    double *column = calloc((size_t)of->seeds.values[0], sizeof *column);
    for (int i = 0; column && i < of->laws.count; i++) {
        fprintf(script, "$law%d << END\n", i);
        for (int d = 0; d < of->d.count; d++) {
            fprintf(script, "%lld", (long long)of->d.values[d]);
            for (int f = 0; f < FIGURES; f++) {
                const study_range range = range_of(s, i, d, f, column);
                fprintf(script, " %.6g %.6g %.6g", range.median, range.low, range.high);
            }
            fputc('\n', script);
        }
        fprintf(script, "END\n");
    }
    free(column);
    fprintf(
        script,
        "set logscale x 2\nset grid\nset xlabel 'd, size of queries and keys'\nset key outside right top samplen 2\n"
        "set multiplot layout 2,2 title 'Attention before training: %d random queries, %lld random keys "
        "(median of %lld seeds, shaded 5 to 95 %%)'\n",
        QUERIES, (long long)of->n.values[0], (long long)of->seeds.values[0]);
    put_panel(script, s, "standard deviation of the scores", "set logscale y; set format y '%g'", SCORE_STD);
    put_panel(script, s, "largest weight, mean over queries", "unset logscale y; set yrange [0:1]", P_MAX_MEAN);
    put_panel(script, s, "entropy / ln n", "set yrange [0:1.02]", ENTROPY_RATIO);
    put_panel(script, s, "gradient at softmax input", "set logscale y; set yrange [1e-12:1]; set format y '%.0e'",
              GRAD_NORM);
    fprintf(script, "unset multiplot\n");
}

const study_command study_saturation = {
    .name = "saturation",
    .summary = "how sharp attention is before training, and how much gradient comes back through softmax",
    .notes =
        "Random queries and keys, no training. Statistics come from lab_attention itself, of each query; the gradient\n"
        "from lab_grad through it. Per law and d: medians over seeds, in JSON with 5 and 95 % points.",
    .takes = STUDY_TAKES_N,
    .usual = {.d = {10, {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}},
              .laws = {5, {STUDY_NONE, STUDY_SQRT, STUDY_LINEAR, STUDY_SOFTCAP, STUDY_QKNORM}}},
    .quick = {.seeds = {1, {5}}, .d = {4, {8, 64, 256, 1024}}},
    .rules = rules,
    .jobs = jobs,
    .width = width,
    .cost = cost,
    .job = job,
    .report = report,
    .describe = describe,
    .draw = draw,
    .plot_width = 1240,
    .plot_height = 860,
};
