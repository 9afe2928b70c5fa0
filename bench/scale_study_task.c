/* scale_study_task.c - the task that learning rates are tried on: find the copy of the query among 16 tokens.
 *
 * One head learns Wq and Wk. A score is (Wq x) . (Wk t) = (Wk^T (Wq x)) . t, so keys need not be projected: attention
 * of the query Wk^T (Wq x) on the tokens themselves has the same scores, and so the same derivatives, at a sixteenth of
 * the cost (tests/test_scale_study.c holds the two together). QK-norm stands between, and has to project.
 */
#include "scale_study.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/kernels.h"

const double study_accuracy_wanted = 0.95;

static const double most_bytes = 340e6; /* of tokens kept, in each thread */

enum { STREAM_WQ = 1, STREAM_WK, STREAM_TOKENS, STREAM_TARGETS };

/* ---- The head ------------------------------------------------------------------------------------------------------ */

/* Normal draws, the same numbers in both precisions: what float64 adds is arithmetic, not other data. */
static void draw_normal(lab_dtype dtype, int64_t n, void *to, double std, uint64_t seed, uint64_t stream, int64_t first)
{
    enum { PART = 256 };
    float part[PART];
    for (int64_t start = 0; start < n; start += PART) {
        const int64_t count = n - start < PART ? n - start : PART;
        lab__kernel_normal(KERNEL_F32, count, part, seed, stream, first + start);
        for (int64_t i = 0; i < count; i++) {
            const float number = (float)std * part[i];
            if (dtype == LAB_F64)
                ((double *)to)[start + i] = number;
            else
                ((float *)to)[start + i] = number;
        }
    }
}

static lab_status make_weight(lab_tensor **out, lab_dtype dtype, int64_t d, double std, uint64_t seed, uint64_t stream)
{
    lab_status status = lab_tensor_create(out, dtype, 2, (int64_t[]){d, d});
    if (status == LAB_OK)
        draw_normal(dtype, d * d, lab_tensor_data(*out), std, seed, stream, 0);
    return status;
}

lab_status study_head_init(study_head *head, study_law law, int64_t d, lab_dtype dtype, uint64_t seed)
{
    const double std = study_weight_std(law, d);
    const bool norm = study_rules[law].normalised;
    *head = (study_head){.law = law, .d = d};
    lab_status status = make_weight(&head->wq, dtype, d, std, seed, STREAM_WQ);
    if (status == LAB_OK)
        status = make_weight(&head->wk, dtype, d, std, seed, STREAM_WK);
    for (int i = 0; norm && status == LAB_OK && i < 2; i++) {
        lab_tensor **gain = i ? &head->gain_k : &head->gain_q;
        status = lab_tensor_create(gain, dtype, 1, &d);
        if (status == LAB_OK)
            status = lab_init_constant(*gain, 1);
    }
    lab_tensor **all[] = {&head->wq, &head->wk, &head->gain_q, &head->gain_k};
    for (int i = 0; status == LAB_OK && i < (norm ? 4 : 2); i++)
        status = lab_tensor_require_grad(*all[i], true);
    return status;
}

lab_status study_head_visit(study_head *head, const char *prefix, lab_visit_fn fn, void *ctx)
{
    lab_tensor **all[] = {&head->wq, &head->wk, &head->gain_q, &head->gain_k};
    const char *const names[] = {"q.weight", "k.weight", "q.gain", "k.gain"};
    lab_status status = LAB_OK;
    for (int i = 0; status == LAB_OK && i < 4; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s%s", prefix ? prefix : "", prefix ? "." : "", names[i]);
        if (*all[i])
            status = fn(name, all[i], ctx);
    }
    return status;
}

void study_head_free(study_head *head)
{
    lab_tensor_destroy(&head->wq);
    lab_tensor_destroy(&head->wk);
    lab_tensor_destroy(&head->gain_q);
    lab_tensor_destroy(&head->gain_k);
}

/* ---- Tokens ---------------------------------------------------------------------------------------------------------- */

/* Draws step `step` to place `place`: the same numbers whether all steps are kept or one. */
static void draw_step(study_tokens *tokens, int64_t step, int64_t place)
{
    const int64_t each = STUDY_BATCH * STUDY_TOKENS * tokens->d;
    const lab_dtype dtype = lab_tensor_dtype(tokens->leaf);
    char *to = (char *)lab_tensor_data(tokens->leaf) +
               place * each * (int64_t)(dtype == LAB_F64 ? sizeof(double) : sizeof(float));
    draw_normal(dtype, each, to, 1, tokens->seed, STREAM_TOKENS, step * each);
    lab_tensor_touch(tokens->leaf);
}

bool study_tokens_draw(study_tokens *tokens, int64_t d, lab_dtype dtype, uint64_t seed)
{
    const double bytes = (double)STUDY_STEPS * STUDY_BATCH * STUDY_TOKENS * (double)d * (dtype == LAB_F64 ? 8 : 4);
    *tokens = (study_tokens){.d = d, .seed = seed, .kept = bytes <= most_bytes ? STUDY_STEPS : 1};
    double identity[STUDY_TOKENS * STUDY_TOKENS] = {0};
    for (int i = 0; i < STUDY_TOKENS; i++)
        identity[i * STUDY_TOKENS + i] = 1;
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true});
    const int64_t square[] = {STUDY_TOKENS, STUDY_TOKENS};
    lab_tensor *values = lab_cast(g, lab_constant(g, LAB_F64, 2, square, identity), dtype);
    lab_status status = lab_graph_status(g);
    if (status == LAB_OK)
        status = lab_tensor_clone(&tokens->values, values);
    lab_graph_destroy(&g);
    if (status == LAB_OK)
        status = lab_tensor_create(&tokens->leaf, dtype, 4, (int64_t[]){tokens->kept, STUDY_BATCH, STUDY_TOKENS, d});
    if (status != LAB_OK)
        study_fail("no memory for the tokens of d = %lld", (long long)d);
    for (int64_t step = 0; status == LAB_OK && tokens->kept > 1 && step < tokens->kept; step++) {
        if (study_interrupted())
            return false;
        draw_step(tokens, step, step);
    }
    return status == LAB_OK;
}

void study_tokens_free(study_tokens *tokens)
{
    lab_tensor_destroy(&tokens->leaf);
    lab_tensor_destroy(&tokens->values);
}

study_batch study_batch_of(lab_graph *g, study_tokens *tokens, int64_t step)
{
    study_batch batch = {0};
    const int64_t d = tokens->d;
    double places[STUDY_BATCH];
    int64_t rows[STUDY_BATCH];
    lab__kernel_uniform(KERNEL_F64, STUDY_BATCH, places, tokens->seed, STREAM_TARGETS, step * STUDY_BATCH);
    for (int b = 0; b < STUDY_BATCH; b++) {
        batch.target[b] = (int64_t)(places[b] * STUDY_TOKENS);
        rows[b] = b * STUDY_TOKENS + batch.target[b];
    }
    if (tokens->kept == 1)
        draw_step(tokens, step, 0);
    const int64_t place = tokens->kept == 1 ? 0 : step;
    lab_tensor *all = lab_slice(g, tokens->leaf, 0, place, place + 1, 1);
    batch.tokens = lab_reshape(g, all, 4, (int64_t[]){STUDY_BATCH, 1, STUDY_TOKENS, d});
    batch.rows = lab_constant(g, LAB_I64, 1, (int64_t[]){STUDY_BATCH}, rows);
    batch.queries = lab_gather_rows(g, lab_reshape(g, all, 2, (int64_t[]){STUDY_BATCH * STUDY_TOKENS, d}), batch.rows);
    batch.values = lab_broadcast_to(g, tokens->values, 4, (int64_t[]){STUDY_BATCH, 1, STUDY_TOKENS, STUDY_TOKENS});
    return batch;
}

/* ---- Attention and loss ------------------------------------------------------------------------------------------------ */

static lab_tensor *project(lab_graph *g, lab_tensor *x, lab_tensor *weight)
{
    return lab_matmul(g, x, lab_transpose(g, weight, 0, 1));
}

/* Sums of products along the last axis of [STUDY_BATCH, d]. */
static lab_tensor *row_products(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    return lab_sum(g, lab_mul(g, a, b), 1, (int[]){1}, false);
}

study_step study_head_apply(lab_graph *g, const study_head *head, const study_batch *batch, lab_path path)
{
    study_step step = {0};
    const study_rule *rule = &study_rules[head->law];
    const int64_t d = head->d, wide[] = {STUDY_BATCH, 1, 1, d}, flat[] = {STUDY_BATCH};
    const int64_t all[] = {STUDY_BATCH * STUDY_TOKENS, d}, split[] = {STUDY_BATCH, 1, STUDY_TOKENS, d};
    const double scale = study_scale(head->law, d);
    lab_tensor *q = project(g, batch->queries, head->wq), *keys = batch->tokens, *own_key = batch->queries;
    if (rule->normalised) {
        q = lab_rms_norm(g, q, head->gain_q, 0);
        keys = lab_rms_norm(g, project(g, lab_reshape(g, keys, 2, all), head->wk), head->gain_k, 0);
        own_key = lab_gather_rows(g, keys, batch->rows);
        keys = lab_reshape(g, keys, 4, split);
    } else {
        q = lab_matmul(g, q, head->wk);
    }
    step.weights =
        lab_attention(g, lab_reshape(g, q, 4, wide), keys, batch->values,
                      &(lab_attention_opts){.scale = scale, .softcap = rule->softcap, .path = path, .lse = &step.lse});
    step.lse = lab_reshape(g, step.lse, 1, flat);
    step.own = lab_mul_scalar(g, row_products(g, q, own_key), scale);
    if (rule->softcap > 0)
        step.own = lab_mul_scalar(g, lab_tanh(g, lab_mul_scalar(g, step.own, 1 / rule->softcap)), rule->softcap);
    step.loss = lab_mean_all(g, lab_sub(g, step.lse, step.own));
    return step;
}

int study_count_hits(lab_graph *g, const study_step *step, const study_batch *batch)
{
    lab_tensor *largest = lab_reshape(g, lab_argmax(g, step->weights, -1, false), 1, (int64_t[]){STUDY_BATCH});
    int64_t found[STUDY_BATCH];
    if (!largest || lab_tensor_read(largest, found, sizeof found) != LAB_OK)
        return 0;
    int hits = 0;
    for (int b = 0; b < STUDY_BATCH; b++)
        hits += found[b] == batch->target[b];
    return hits;
}

/* ---- Training ---------------------------------------------------------------------------------------------------------- */

static double scalar_of(const lab_tensor *x)
{
    if (!x)
        return NAN;
    return lab_tensor_dtype(x) == LAB_F64 ? *(const double *)lab_tensor_data(x) : *(const float *)lab_tensor_data(x);
}

/* What accuracy is made of, as training goes. */
typedef struct tally {
    int hits[STUDY_STEPS];
    int64_t steps;
} tally;

/* One step of training. *diverged says that the loss was not finite: the weights are as they were then. */
static lab_status train_step(lab_graph *g, study_head *head, const study_training *t, int64_t step, tally *seen,
                             study_outcome *outcome)
{
    lab_graph_reset(g);
    const study_batch batch = study_batch_of(g, t->tokens, step);
    const study_step now = study_head_apply(g, head, &batch, LAB_PATH_AUTO);
    seen->hits[seen->steps++] = study_count_hits(g, &now, &batch);
    if (lab_graph_status(g) != LAB_OK)
        return lab_graph_status(g);
    outcome->loss = scalar_of(now.loss);
    if (!isfinite(outcome->loss)) {
        outcome->diverged_at = (double)step;
        return LAB_OK;
    }
    lab_status status = lab_backward(g, now.loss);
    if (status == LAB_OK && t->before)
        status = t->before(step, t->ctx);
    if (status == LAB_OK)
        status = study_head_visit(head, NULL, t->step, t->ctx);
    return status == LAB_OK ? study_head_visit(head, NULL, lab_clear_grads, NULL) : status;
}

/* The share of hits in the last `count` of the first `end` steps. */
static double share(const tally *seen, int64_t end, int64_t count)
{
    int64_t hits = 0;
    for (int64_t i = end - count; i < end; i++)
        hits += seen->hits[i];
    return (double)hits / (double)(count * STUDY_BATCH);
}

bool study_train(lab_graph *g, const study_training *t, study_outcome *outcome)
{
    enum { WINDOW = 10 };
    study_head head;
    tally seen = {0};
    *outcome = (study_outcome){.steps_to_95 = NAN, .diverged_at = NAN, .loss = NAN};
    lab_status status = study_head_init(&head, t->law, t->d, t->dtype, t->seed);
    bool stopped = false;
    for (int64_t step = 0; status == LAB_OK && step < STUDY_STEPS && !stopped && isnan(outcome->diverged_at); step++) {
        status = train_step(g, &head, t, step, &seen, outcome);
        if (seen.steps >= WINDOW && isnan(outcome->steps_to_95) &&
            share(&seen, seen.steps, WINDOW) >= study_accuracy_wanted)
            outcome->steps_to_95 = (double)(seen.steps - WINDOW);
        stopped = study_interrupted();
    }
    if (status != LAB_OK)
        study_fail("d = %lld: %s", (long long)t->d,
                   lab_graph_status(g) != LAB_OK ? lab_graph_message(g) : lab_last_message());
    else if (!stopped && isnan(outcome->diverged_at))
        outcome->accuracy = share(&seen, STUDY_STEPS, STUDY_LAST);
    lab_graph_reset(g);
    study_head_free(&head);
    return status == LAB_OK && !stopped;
}

/* ---- Which rates work -------------------------------------------------------------------------------------------------- */

/* Bisects between a rate that works and one that does not, in logarithms; leaves the one that works in *works. */
static bool bisect(double *works, double fails, double factor, study_try_fn try_rate, void *ctx)
{
    while (fails / *works > factor || *works / fails > factor) {
        double middle = sqrt(*works * fails), accuracy;
        if (!try_rate(ctx, middle, &accuracy))
            return false;
        if (accuracy >= study_accuracy_wanted)
            *works = middle;
        else
            fails = middle;
    }
    return true;
}

bool study_search_rates(const study_settings *settings, study_try_fn try_rate, void *ctx, study_search *search)
{
    const bench_reals *grid = &settings->rates;
    int lowest = -1, highest = -1;
    *search = (study_search){.low = NAN, .high = NAN};
    for (int i = 0; i < grid->count; i++) {
        if (!try_rate(ctx, grid->values[i], &search->accuracy[i]))
            return false;
        if (search->accuracy[i] < study_accuracy_wanted)
            continue;
        highest = i;
        lowest = lowest < 0 ? i : lowest;
    }
    if (lowest < 0)
        return true;
    const double factor = settings->refine.values[0];
    search->low = grid->values[lowest];
    search->high = grid->values[highest];
    return (lowest == 0 || bisect(&search->low, grid->values[lowest - 1], factor, try_rate, ctx)) &&
           (highest == grid->count - 1 || bisect(&search->high, grid->values[highest + 1], factor, try_rate, ctx));
}
