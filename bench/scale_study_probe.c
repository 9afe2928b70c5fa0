/* scale_study_probe.c - a head under the lens: its scores, how far a step moves them, how sharply its loss curves.
 *
 * Weights and tokens are those of the float32 training, widened: what is measured is not rounding.
 */
#include "scale_study_probe.h"

#include <math.h>

enum { WEIGHTS = 2 };

/* ---- Widening ---------------------------------------------------------------------------------------------------- */

study_batch probe_batch(lab_graph *g, study_tokens *tokens, int64_t step)
{
    study_batch batch = study_batch_of(g, tokens, step);
    batch.tokens = lab_cast(g, batch.tokens, LAB_F64);
    batch.queries = lab_cast(g, batch.queries, LAB_F64);
    batch.values = lab_cast(g, batch.values, LAB_F64);
    return batch;
}

study_head probe_widen(lab_graph *g, const study_head *head)
{
    study_head wide = *head;
    wide.wq = lab_cast(g, head->wq, LAB_F64);
    wide.wk = lab_cast(g, head->wk, LAB_F64);
    return wide;
}

/* ---- Scores -------------------------------------------------------------------------------------------------------- */

lab_tensor *probe_scores(lab_graph *g, const study_head *head, const study_batch *batch)
{
    const int64_t d = head->d, column[] = {STUDY_BATCH, d, 1}, rows[] = {STUDY_BATCH, STUDY_TOKENS, d};
    lab_tensor *q = lab_matmul(g, lab_matmul(g, batch->queries, lab_transpose(g, head->wq, 0, 1)), head->wk);
    lab_tensor *scores = lab_matmul(g, lab_reshape(g, batch->tokens, 3, rows), lab_reshape(g, q, 3, column));
    return lab_mul_scalar(g, lab_reshape(g, scores, 2, (int64_t[]){STUDY_BATCH, STUDY_TOKENS}),
                          study_scale(head->law, d));
}

bool probe_read(const lab_tensor *scores, double to[PROBE_SCORES])
{
    return scores && lab_tensor_read(scores, to, PROBE_SCORES * sizeof(double)) == LAB_OK;
}

double probe_deviation(int64_t rows, const double *scores)
{
    double squares = 0;
    for (int64_t r = 0; r < rows; r++) {
        const double *row = scores + r * STUDY_TOKENS;
        double sum = 0;
        for (int j = 0; j < STUDY_TOKENS; j++)
            sum += row[j];
        for (int j = 0; j < STUDY_TOKENS; j++)
            squares += (row[j] - sum / STUDY_TOKENS) * (row[j] - sum / STUDY_TOKENS);
    }
    return sqrt(squares / (double)(rows * STUDY_TOKENS));
}

double probe_gap(const double scores[PROBE_SCORES], const study_batch *batch)
{
    double gap = 0;
    for (int b = 0; b < STUDY_BATCH; b++) {
        const double *row = scores + (size_t)b * STUDY_TOKENS, own = row[batch->target[b]];
        double others = -own;
        for (int j = 0; j < STUDY_TOKENS; j++)
            others += row[j];
        gap += (own - others / (STUDY_TOKENS - 1)) / STUDY_BATCH;
    }
    return gap;
}

/* ---- How far a step moves the scores ------------------------------------------------------------------------------ */

/* The derivative of `scores` along `along`: the vector-Jacobian product is linear in its seed, and the derivative of
 * that in the seed is the Jacobian-vector product. */
static lab_tensor *derivative_along(lab_graph *g, lab_tensor *scores, lab_tensor **weights, lab_tensor **along)
{
    lab_tensor *back[WEIGHTS], *result = NULL;
    lab_tensor *seed = lab_full(g, LAB_F64, 2, (int64_t[]){STUDY_BATCH, STUDY_TOKENS}, 0);
    lab_grad(g, scores, seed, WEIGHTS, weights, back, &(lab_grad_opts){.create_graph = true});
    lab_tensor *product =
        lab_add(g, lab_sum_all(g, lab_mul(g, back[0], along[0])), lab_sum_all(g, lab_mul(g, back[1], along[1])));
    lab_grad(g, product, NULL, 1, &seed, &result, NULL);
    return result;
}

/* Mean over queries of the copy's entry, and root mean square of the others. */
static void own_and_rest(const double *scores, const int64_t *target, double *own, double *rest)
{
    *own = *rest = 0;
    for (int b = 0; b < STUDY_BATCH; b++)
        for (int j = 0; j < STUDY_TOKENS; j++) {
            const double s = scores[b * STUDY_TOKENS + j];
            if (j == target[b])
                *own += s / STUDY_BATCH;
            else
                *rest += s * s / (STUDY_BATCH * (STUDY_TOKENS - 1));
        }
    *rest = sqrt(*rest);
}

static void weight_numbers(const double *weights, const int64_t *target, double *numbers)
{
    double largest = 0, error = 0;
    for (int b = 0; b < STUDY_BATCH; b++) {
        double most = 0;
        for (int j = 0; j < STUDY_TOKENS; j++) {
            const double p = weights[b * STUDY_TOKENS + j], off = p - (j == target[b]);
            most = p > most ? p : most;
            error += off * off;
        }
        largest += most;
    }
    numbers[PROBE_P_MAX] = largest / STUDY_BATCH;
    numbers[PROBE_ERROR] = error / STUDY_BATCH;
}

/* `after` is the head after the step, `gradient` what it went along. */
static bool move_numbers(lab_graph *g, const study_head *head, const study_head *after, lab_tensor **gradient,
                         const study_batch *seen, const study_batch *fresh, double rate, double *numbers)
{
    double now[PROBE_SCORES], later[PROBE_SCORES], first[PROBE_SCORES], seen_now[PROBE_SCORES],
        seen_later[PROBE_SCORES], squares = 0;
    lab_tensor *weights[WEIGHTS] = {head->wq, head->wk};
    lab_tensor *scores = probe_scores(g, head, fresh);
    lab_tensor *predicted = lab_neg(g, derivative_along(g, scores, weights, gradient));
    if (!probe_read(scores, now) || !probe_read(probe_scores(g, after, fresh), later) ||
        !probe_read(predicted, first) || !probe_read(probe_scores(g, head, seen), seen_now) ||
        !probe_read(probe_scores(g, after, seen), seen_later))
        return false;
    for (int i = 0; i < PROBE_SCORES; i++) {
        later[i] = (later[i] - now[i]) / rate;
        squares += pow((seen_later[i] - seen_now[i]) / rate, 2) / PROBE_SCORES;
    }
    numbers[PROBE_SCORE_STD] = probe_deviation(STUDY_BATCH, now);
    numbers[PROBE_OWN_GAP] = probe_gap(now, fresh);
    own_and_rest(later, fresh->target, &numbers[PROBE_MOVE_OWN], &numbers[PROBE_MOVE_REST]);
    own_and_rest(first, fresh->target, &numbers[PROBE_MOVE_OWN_FIRST], &numbers[PROBE_MOVE_REST_FIRST]);
    numbers[PROBE_MOVE_SEEN] = sqrt(squares);
    return true;
}

/* ---- The Hessian --------------------------------------------------------------------------------------------------- */

/* The loss's gradient, recorded once, so that products of its derivative with vectors can be asked for. */
typedef struct hessian {
    lab_graph *g;
    lab_tensor *weights[WEIGHTS], *gradient[WEIGHTS];
    int64_t d;
} hessian;

/* out = H v, both [2, d, d]: the derivative of gradient . v. */
static lab_status multiply(int64_t n, const double *v, double *out, void *ctx)
{
    hessian *h = ctx;
    const int64_t square[] = {h->d, h->d}, each = n / WEIGHTS;
    lab_tensor *part[WEIGHTS], *product[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++)
        part[i] =
            lab_sum_all(h->g, lab_mul(h->g, h->gradient[i], lab_constant(h->g, LAB_F64, 2, square, v + i * each)));
    lab_status status = lab_grad(h->g, lab_add(h->g, part[0], part[1]), NULL, WEIGHTS, h->weights, product, NULL);
    for (int i = 0; status == LAB_OK && i < WEIGHTS; i++)
        status = lab_tensor_read(product[i], out + i * each, (size_t)each * sizeof *out);
    return status;
}

/* An eigenvalue is off by no more than the square of its residual over the gap beside it: a residual of 1 % will do. */
static lab_status sharpness(hessian *h, double *largest)
{
    const lab_lanczos_opts opts = {.top = 1, .steps = 40, .tolerance = 0.01, .seed = 1};
    return lab_lanczos(WEIGHTS * h->d * h->d, multiply, h, &opts, largest, NULL, NULL);
}

/* ---- All of it ------------------------------------------------------------------------------------------------------- */

static double norm_of(lab_graph *g, lab_tensor **parts)
{
    double sum = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        const lab_tensor *squares = lab_sum_all(g, lab_mul(g, parts[i], parts[i]));
        sum += squares ? *(const double *)lab_tensor_data(squares) : NAN;
    }
    return sqrt(sum);
}

static study_head stepped(lab_graph *g, const study_head *head, lab_tensor **gradient, double rate)
{
    study_head after = *head;
    after.wq = lab_sub(g, head->wq, lab_mul_scalar(g, gradient[0], rate));
    after.wk = lab_sub(g, head->wk, lab_mul_scalar(g, gradient[1], rate));
    return after;
}

static bool probe_on(lab_graph *g, const study_head *head, study_tokens *tokens, int64_t step, double rate,
                     double *numbers)
{
    double weights[PROBE_SCORES];
    lab_graph_reset(g);
    const study_head wide = probe_widen(g, head);
    const study_batch seen = probe_batch(g, tokens, step);
    const study_step now = study_head_apply(g, &wide, &seen, LAB_PATH_COMPOSED);
    hessian h = {.g = g, .weights = {wide.wq, wide.wk}, .d = head->d};
    lab_grad(g, now.loss, NULL, WEIGHTS, h.weights, h.gradient, &(lab_grad_opts){.create_graph = true});
    const study_head after = stepped(g, &wide, h.gradient, rate);
    const study_batch fresh = probe_batch(g, tokens, step + 1);
    if (!move_numbers(g, &wide, &after, h.gradient, &seen, &fresh, rate, numbers) || !probe_read(now.weights, weights))
        return false;
    weight_numbers(weights, seen.target, numbers);
    numbers[PROBE_LOSS] = *(const double *)lab_tensor_data(now.loss);
    numbers[PROBE_GRAD_NORM] = norm_of(g, h.gradient);
    return sharpness(&h, &numbers[PROBE_SHARPNESS]) == LAB_OK && lab_graph_status(g) == LAB_OK;
}

bool probe_head(lab_graph *g, const study_head *head, study_tokens *tokens, int64_t step, double rate,
                double numbers[PROBE_NUMBERS])
{
    const bool good = probe_on(g, head, tokens, step, rate, numbers);
    if (!good)
        study_fail("d = %lld: %s", (long long)head->d,
                   lab_graph_status(g) != LAB_OK ? lab_graph_message(g) : lab_last_message());
    lab_graph_reset(g);
    return good;
}

/* ---- The spectrum ---------------------------------------------------------------------------------------------------- */

static void spectrum_numbers(int64_t d, double trace, const double *values, double scale, double *numbers)
{
    double squares = 0, fourths = 0;
    for (int64_t i = 0; i < d; i++) {
        squares += values[i] * values[i];
        fourths += pow(values[i], 4);
    }
    numbers[SPECTRUM_EFFECTIVE_RANK] = squares * squares / fourths;
    numbers[SPECTRUM_IDENTITY] = trace / sqrt((double)d * squares);
    for (int i = 0; i < SPECTRUM_POINTS; i++) {
        const double place = (double)(d - 1) * (1 - i / (SPECTRUM_POINTS - 1.0)); /* values descend */
        const int64_t above = (int64_t)place, below = above + 1 < d ? above + 1 : above;
        const double part = place - (double)above;
        numbers[SPECTRUM_QUANTILES + i] = scale * (values[above] * (1 - part) + values[below] * part);
    }
}

bool probe_spectrum(const study_head *head, double numbers[SPECTRUM_NUMBERS])
{
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true});
    const study_head wide = probe_widen(g, head);
    const lab_tensor *q = lab_transpose(g, wide.wq, 0, 1), *k = lab_transpose(g, wide.wk, 0, 1);
    const lab_tensor *trace = lab_sum_all(g, lab_mul(g, wide.wq, wide.wk));
    lab_tensor *values = NULL;
    lab_status status = lab_graph_status(g);
    if (status == LAB_OK)
        status = lab_product_singular_values(q, k, &values);
    if (status == LAB_OK)
        spectrum_numbers(head->d, *(const double *)lab_tensor_data(trace), lab_tensor_data(values),
                         study_scale(head->law, head->d), numbers);
    else
        study_fail("d = %lld: the spectrum: %s", (long long)head->d, lab_last_message());
    lab_tensor_destroy(&values);
    lab_graph_destroy(&g);
    return status == LAB_OK;
}
