/* scale_study_heads.c - several heads after training: one width D cut into H heads of d = D / H numbers each.
 *
 * Head h has its own Wq, Wk [d, D] and has to find the copy by itself: the loss is the sum over heads of the task's
 * loss, so that a learning rate means to each head what it means to one alone; what is reported is the mean. (A loss of
 * the heads' averaged weights or scores would let some of them idle, and a head that idles says nothing of its law.)
 *
 * The heads share keys, which need not be projected (scale_study_task.c says why), so that they are H queries of one
 * attention: row h is scale Wk_h^T Wq_h x.
 *
 * Tokens are fresh. A job is one seed and count of heads, all laws and rates.
 */
#include "scale_study_correlated.h"

#include <math.h>
#include <stdlib.h>

static const int counts[] = {1, 4, 8};
enum { COUNTS = sizeof counts / sizeof *counts, LEAST_D = 16, MOST_WIDTH = 128 };

/* Of a law, a job leaves the deviation of scores at the start, and of every rate: accuracy, loss and deviation after
 * training, all on tokens of another draw and means over the heads. */
enum { ACCURACY, LOSS, DEVIATION, EACH };

enum { STREAM_HEADS_Q = 21, STREAM_HEADS_K };

static int law_width(const study_settings *settings)
{
    return 1 + EACH * settings->rates.count;
}

int heads_width(const study_settings *settings)
{
    return settings->laws.count * law_width(settings);
}

/* D: half the largest width, if that does not cost too much. */
static int64_t whole_width(const study_settings *settings)
{
    int64_t most = 0;
    for (int i = 0; i < settings->d.count; i++)
        most = settings->d.values[i] > most ? settings->d.values[i] : most;
    return most / 2 < MOST_WIDTH ? most / 2 : MOST_WIDTH;
}

/* Counts that leave whole heads of LEAST_D numbers and more: 16 tokens are hard to tell apart by fewer. */
static int usable_counts(const study_settings *settings)
{
    const int64_t width = whole_width(settings);
    int usable = 0;
    while (usable < COUNTS && width % counts[usable] == 0 && width / counts[usable] >= LEAST_D)
        usable++;
    return usable;
}

int heads_jobs(const study_settings *settings)
{
    return usable_counts(settings);
}

double heads_cost(const study_settings *settings, int job)
{
    const double width = (double)whole_width(settings), heads = counts[job];
    return 4e4 + 500 * width + 6 * width * width + 100 * heads * width;
}

/* ---- The heads ------------------------------------------------------------------------------------------------------ */

typedef struct heads {
    study_law law;
    int64_t width, count, d; /* d = width / count */
    lab_tensor *wq, *wk;     /* [count, d, width] */
} heads;

/* What a head's first scores are made of is the task's: with one head these are study_head_init's distributions. */
static lab_status heads_init(heads *h, uint64_t seed)
{
    const int64_t shape[] = {h->count, h->d, h->width};
    const double std = study_weight_std(h->law, h->d) * sqrt((double)h->d / (double)h->width);
    lab_status status = LAB_OK;
    for (int i = 0; status == LAB_OK && i < 2; i++) {
        lab_tensor **w = i ? &h->wk : &h->wq;
        status = lab_tensor_create(w, LAB_F32, 3, shape);
        if (status == LAB_OK)
            status = lab_init_normal(*w, std, seed, i ? STREAM_HEADS_K : STREAM_HEADS_Q);
        if (status == LAB_OK)
            status = lab_tensor_require_grad(*w, true);
    }
    return status;
}

static void heads_free(heads *h)
{
    lab_tensor_destroy(&h->wq);
    lab_tensor_destroy(&h->wk);
}

static lab_status heads_visit(heads *h, lab_visit_fn fn, void *ctx)
{
    const lab_status status = fn("q.weight", &h->wq, ctx);
    return status == LAB_OK ? fn("k.weight", &h->wk, ctx) : status;
}

/* Wk_h^T Wq_h x of all queries and heads: [STUDY_BATCH, 1, count, width]. */
static lab_tensor *heads_queries(lab_graph *g, const heads *h, const study_batch *batch)
{
    const int64_t rows[] = {1, STUDY_BATCH, h->width}, split[] = {STUDY_BATCH, 1, h->count, h->width};
    lab_tensor *q = lab_matmul(g, lab_reshape(g, batch->queries, 3, rows), lab_transpose(g, h->wq, 1, 2));
    return lab_reshape(g, lab_contiguous(g, lab_transpose(g, lab_matmul(g, q, h->wk), 0, 1)), 4, split);
}

typedef struct heads_step {
    lab_tensor *loss;    /* rank 0: mean over batch and heads */
    lab_tensor *weights; /* [STUDY_BATCH, 1, count, STUDY_TOKENS] */
} heads_step;

static heads_step heads_apply(lab_graph *g, const heads *h, const study_batch *batch)
{
    heads_step step = {0};
    const double scale = study_scale(h->law, h->d);
    const int64_t one[] = {STUDY_BATCH, 1, 1, h->width};
    lab_tensor *lse, *q = heads_queries(g, h, batch);
    step.weights =
        lab_attention(g, q, batch->tokens, batch->values, &(lab_attention_opts){.scale = scale, .lse = &lse});
    lab_tensor *own = lab_sum(g, lab_mul(g, q, lab_reshape(g, batch->queries, 4, one)), 1, (int[]){3}, false);
    step.loss = lab_mean_all(g, lab_sub(g, lse, lab_mul_scalar(g, own, scale)));
    return step;
}

/* ---- Training, and what it left --------------------------------------------------------------------------------------- */

/* *diverged: the loss was not finite, and the weights are as they were then. */
static lab_status train_step(lab_graph *g, heads *h, study_tokens *tokens, int64_t step, lab_sgd *sgd, bool *diverged)
{
    lab_graph_reset(g);
    const study_batch batch = study_batch_of(g, tokens, step);
    const heads_step now = heads_apply(g, h, &batch);
    if (lab_graph_status(g) != LAB_OK)
        return lab_graph_status(g);
    *diverged = !isfinite(*(const float *)lab_tensor_data(now.loss));
    if (*diverged)
        return LAB_OK;
    lab_status status = lab_backward(g, lab_mul_scalar(g, now.loss, (double)h->count));
    if (status == LAB_OK)
        status = heads_visit(h, lab_sgd_step, sgd);
    return status == LAB_OK ? heads_visit(h, lab_clear_grads, NULL) : status;
}

static double hit_share(lab_graph *g, const heads *h, const heads_step *step, const study_batch *batch)
{
    int64_t *found = malloc((size_t)(STUDY_BATCH * h->count) * sizeof *found), hits = 0;
    lab_tensor *largest = lab_contiguous(g, lab_argmax(g, step->weights, -1, false));
    const bool good =
        found && largest && lab_tensor_read(largest, found, (size_t)(STUDY_BATCH * h->count) * sizeof *found) == LAB_OK;
    for (int64_t i = 0; good && i < STUDY_BATCH * h->count; i++)
        hits += found[i] == batch->target[i / h->count];
    free(found);
    return (double)hits / (double)(STUDY_BATCH * h->count);
}

/* Means over TESTS batches, in float64 like one head's. The deviation is each head's, then the mean over heads. */
static bool test_heads(lab_graph *g, const heads *h, study_tokens *tests, double *to)
{
    double *squares = calloc((size_t)h->count, sizeof *squares);
    bool good = squares != NULL;
    to[ACCURACY] = to[LOSS] = to[DEVIATION] = 0;
    for (int64_t step = 0; good && step < TESTS; step++) {
        lab_graph_reset(g);
        heads wide = *h;
        wide.wq = lab_cast(g, h->wq, LAB_F64);
        wide.wk = lab_cast(g, h->wk, LAB_F64);
        const study_batch batch = probe_batch(g, tests, step);
        const heads_step now = heads_apply(g, &wide, &batch);
        lab_tensor *products = lab_matmul(g, heads_queries(g, &wide, &batch), lab_transpose(g, batch.tokens, 2, 3));
        lab_tensor *scores =
            lab_contiguous(g, lab_transpose(g, lab_mul_scalar(g, products, study_scale(h->law, h->d)), 0, 2));
        good = scores != NULL;
        if (!good)
            break;
        to[ACCURACY] += hit_share(g, h, &now, &batch) / TESTS;
        to[LOSS] += *(const double *)lab_tensor_data(now.loss) / TESTS;
        const double *of = lab_tensor_data(scores);
        for (int64_t i = 0; i < h->count; i++)
            squares[i] += pow(probe_deviation(STUDY_BATCH, of + i * PROBE_SCORES), 2) / TESTS;
    }
    for (int64_t i = 0; good && i < h->count; i++)
        to[DEVIATION] += sqrt(squares[i]) / (double)h->count;
    free(squares);
    return good;
}

/* Trains at one rate; at rate 0 not at all. */
static bool train_and_test(lab_graph *g, heads h, uint64_t seed, double rate, study_tokens *tokens, study_tokens *tests,
                           double *to)
{
    lab_sgd sgd = {.rate = rate};
    bool diverged = false, stopped = false;
    lab_status status = heads_init(&h, seed);
    for (int64_t step = 0; rate > 0 && status == LAB_OK && step < STUDY_STEPS && !diverged && !stopped; step++) {
        status = train_step(g, &h, tokens, step, &sgd, &diverged);
        stopped = study_interrupted();
    }
    bool good = status == LAB_OK;
    if (good && !diverged && !stopped)
        good = test_heads(g, &h, tests, to);
    if (!good)
        study_fail("D = %lld, %lld heads: %s", (long long)h.width, (long long)h.count,
                   lab_graph_status(g) != LAB_OK ? lab_graph_message(g) : lab_last_message());
    if (diverged || !isfinite(to[LOSS])) {
        to[ACCURACY] = 0;
        to[LOSS] = INFINITY;
        to[DEVIATION] = NAN;
    }
    lab_graph_reset(g);
    heads_free(&h);
    return good && !stopped;
}

bool heads_job(const study_settings *settings, int64_t index, int job, double *values)
{
    const int64_t width = whole_width(settings), count = counts[job];
    const uint64_t seed = study_seed(settings, index, width);
    study_tokens tokens, tests;
    lab_graph *g = lab_graph_create(NULL);
    bool good = draw_kind(FRESH, width, seed, &tokens, &tests);
    for (int i = 0; good && i < settings->laws.count; i++) {
        const heads h = {
            .law = (study_law)settings->laws.values[i], .width = width, .count = count, .d = width / count};
        double *to = values + i * law_width(settings), start[EACH] = {0};
        good = train_and_test(g, h, seed, 0, &tokens, &tests, start);
        to[0] = start[DEVIATION];
        for (int r = 0; good && r < settings->rates.count; r++)
            good = train_and_test(g, h, seed, settings->rates.values[r], &tokens, &tests, to + 1 + r * EACH);
    }
    free_kind(&tokens, &tests);
    lab_graph_destroy(&g);
    return good;
}

/* ---- What the seeds say ------------------------------------------------------------------------------------------------ */

/* Where numbers are, and a place to sort them in. */
typedef struct view {
    const study *s;
    heads_place jobs;
    double *column;
} view;

typedef struct place {
    int law, count; /* law is an index into the settings' list, count into counts */
} place;

static double value_of(const view *v, place at, int64_t seed, int which)
{
    const study_settings *of = &v->s->settings;
    const double *values = study_values(v->s, v->jobs.first + seed * v->jobs.stride + at.count);
    return values ? values[at.law * law_width(of) + which] : NAN;
}

static study_range range_of(const view *v, place at, int which)
{
    const int seeds = (int)v->s->settings.seeds.values[0];
    for (int seed = 0; seed < seeds; seed++)
        v->column[seed] = value_of(v, at, seed, which);
    return study_range_of(seeds, v->column);
}

static int place_of(int rate, int which)
{
    return 1 + rate * EACH + which;
}

/* The rate of least loss among those that train (medians over seeds); -1 if none does. */
static int best_rate(const view *v, place at)
{
    int best = -1;
    double least = INFINITY;
    for (int r = 0; r < v->s->settings.rates.count; r++) {
        const double loss = range_of(v, at, place_of(r, LOSS)).median;
        if (range_of(v, at, place_of(r, ACCURACY)).median >= study_accuracy_wanted && loss < least) {
            least = loss;
            best = r;
        }
    }
    return best;
}

/* The exponent in d = D / H of the deviation at the start, or after training at each count's best rate; all heads
 * have to train for the second. */
static study_fit fit_of(const view *v, int law, bool trained)
{
    const study_settings *of = &v->s->settings;
    const int seeds = (int)of->seeds.values[0], n = usable_counts(of);
    double x[COUNTS], *y = calloc((size_t)(seeds * n) + 1, sizeof *y);
    study_fit fit = {NAN, NAN, NAN, 0};
    for (int c = 0; y && c < n; c++) {
        const place at = {law, c};
        const int rate = trained ? best_rate(v, at) : 0;
        x[c] = (double)(whole_width(of) / counts[c]);
        for (int seed = 0; seed < seeds; seed++)
            y[seed * n + c] = rate < 0 ? NAN : value_of(v, at, seed, trained ? place_of(rate, DEVIATION) : 0);
    }
    if (y)
        fit = study_fit_power(n, x, seeds, y);
    free(y);
    return fit;
}

/* ---- For people, and for programs ---------------------------------------------------------------------------------------- */

static const char *law_name(const view *v, int law)
{
    return study_law_words[v->s->settings.laws.values[law]];
}

void heads_rules(FILE *out, const study *s)
{
    fprintf(
        out,
        "several heads: D = %lld cut into H heads of d = D / H, each with Wq, Wk [d, D] and the whole task, on fresh\n"
        "tokens; the loss is the sum over heads, figures are means over them; the rate is that of least loss among\n"
        "those that reach %g %%, for each law and H\n",
        (long long)whole_width(&s->settings), 100 * study_accuracy_wanted);
}

static void report_row(FILE *out, const view *v, place at)
{
    char text[32];
    const study_settings *of = &v->s->settings;
    const int rate = best_rate(v, at);
    fprintf(out, "%-8s %3d %5lld %9.3g", law_name(v, at.law), counts[at.count],
            (long long)(whole_width(of) / counts[at.count]), range_of(v, at, 0).median);
    if (rate < 0)
        fprintf(out, "  no rate reaches %g %%\n", 100 * study_accuracy_wanted);
    else
        fprintf(out, " %9.3g  %9s %9.3f %9.3g\n", range_of(v, at, place_of(rate, DEVIATION)).median,
                study_number_text(of->rates.values[rate], text), range_of(v, at, place_of(rate, ACCURACY)).median,
                range_of(v, at, place_of(rate, LOSS)).median);
}

void heads_report(FILE *out, const study *s, heads_place jobs, double *column)
{
    const view v = {s, jobs, column};
    const study_settings *of = &s->settings;
    if (usable_counts(of) == 0)
        return;
    fprintf(out, "\nseveral heads, D = %lld: deviation of a head's scores\n%-8s %3s %5s %9s %9s  %9s %9s %9s\n",
            (long long)whole_width(of), "law", "H", "d", "start", "trained", "rate", "accuracy", "loss");
    for (int law = 0; law < of->laws.count; law++) {
        for (int c = 0; c < usable_counts(of); c++)
            report_row(out, &v, (place){law, c});
        const study_fit start = fit_of(&v, law, false), end = fit_of(&v, law, true);
        fprintf(out, "%-8s exponent in d: %+.2f at the start, %+.2f (%+.2f to %+.2f) trained\n", law_name(&v, law),
                start.exponent, end.exponent, end.low, end.high);
    }
}

static json_t *row_json(const view *v, place at)
{
    const study_settings *of = &v->s->settings;
    const int rate = best_rate(v, at);
    const study_range start = range_of(v, at, 0);
    json_t *row = json_pack("{s:s, s:I, s:i, s:I, s:i}", "law", law_name(v, at.law), "width",
                            (json_int_t)whole_width(of), "heads", counts[at.count], "d",
                            (json_int_t)(whole_width(of) / counts[at.count]), "seeds", start.count);
    bool good = row && study_put_range(row, "start_std", start);
    json_t *lists[EACH + 1];
    static const char *const names[EACH + 1] = {"accuracy", "loss", "score_std", "grid"};
    for (int i = 0; i <= EACH; i++)
        lists[i] = json_array();
    for (int r = 0; r < of->rates.count; r++) {
        for (int i = 0; i < EACH; i++)
            json_array_append_new(lists[i], bench_json_number(range_of(v, at, place_of(r, i)).median));
        json_array_append_new(lists[EACH], json_real(of->rates.values[r]));
    }
    for (int i = 0; i <= EACH; i++)
        good = json_object_set_new(row, names[i], lists[i]) == 0 && good;
    good =
        good && json_object_set_new(row, "best_rate", rate < 0 ? json_null() : json_real(of->rates.values[rate])) == 0;
    if (good && rate >= 0)
        good = study_put_range(row, "best_accuracy", range_of(v, at, place_of(rate, ACCURACY))) &&
               study_put_range(row, "best_loss", range_of(v, at, place_of(rate, LOSS))) &&
               study_put_range(row, "trained_std", range_of(v, at, place_of(rate, DEVIATION)));
    if (!good) {
        json_decref(row);
        return NULL;
    }
    return row;
}

static json_t *fit_json(const view *v, int law, bool trained)
{
    const study_fit fit = fit_of(v, law, trained);
    return json_pack("{s:s, s:s, s:o, s:o, s:o}", "law", law_name(v, law), "when", trained ? "trained" : "start",
                     "exponent", bench_json_number(fit.exponent), "exponent_lo", bench_json_number(fit.low),
                     "exponent_hi", bench_json_number(fit.high));
}

bool heads_describe(const study *s, heads_place jobs, json_t *document, double *column)
{
    const view v = {s, jobs, column};
    json_t *rows = json_array(), *fits = json_array();
    bool good = true;
    for (int law = 0; law < s->settings.laws.count; law++) {
        for (int c = 0; c < usable_counts(&s->settings); c++)
            good = json_array_append_new(rows, row_json(&v, (place){law, c})) == 0 && good;
        for (int trained = 0; trained < 2 && usable_counts(&s->settings) > 0; trained++)
            good = json_array_append_new(fits, fit_json(&v, law, trained)) == 0 && good;
    }
    good = json_object_set_new(document, "heads_trained", rows) == 0 && good;
    return json_object_set_new(document, "heads_fits", fits) == 0 && good;
}
