/* train_bench_work.c - what is timed: a step of training as gpt_train does it, a token as gpt_sample makes it, AdamW
 * alone.
 */
#include "train_bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/kernels.h"

enum { TEXT_TOKENS = 1 << 18, DECODE_ROOM = 64 };

const char *const train_phase_names[TRAIN_PHASES] = {"idle", "data", "forward", "backward", "clip", "adamw", "choice"};

static bool complain(const train_work *w, const char *what)
{
    const char *graph = lab_graph_status(w->g) != LAB_OK && w->g ? lab_graph_message(w->g) : "";
    fprintf(stderr, "train_bench: %s: %s: %s\n", w->spec->name, what, *graph ? graph : lab_last_message());
    return false;
}

/* A number in [0, n) that is a function of its place (splitmix64). */
static int64_t drawn(uint64_t place, int64_t n)
{
    uint64_t z = (place + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (int64_t)((z ^ z >> 31) % (uint64_t)n);
}

/* ---- Preparation -------------------------------------------------------------------------------------------------- */

/* A file of random tokens, which is gone as soon as it is mapped. */
static bool open_tokens(train_work *w)
{
    char path[] = "/tmp/train_bench_XXXXXX";
    const int descriptor = mkstemp(path);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    if (!file) {
        perror("train_bench: a file of tokens in /tmp");
        return false;
    }
    bool good = true;
    for (uint64_t i = 0; i < TEXT_TOKENS && good; i++) {
        const uint16_t token = (uint16_t)drawn(i, w->spec->config.vocabulary);
        good = fwrite(&token, sizeof token, 1, file) == 1;
    }
    good = fclose(file) == 0 && good;
    if (good && lab_tokens_open(&w->tokens, path, LAB_TOKENS_U16) != LAB_OK)
        good = complain(w, "the tokens");
    unlink(path);
    return good;
}

/* What every call multiplies with, and what comes on top of that in attention: as gpt_train counts it, 2 operations for
 * each weight and token; backward is twice forward. */
static void count_work(train_work *w)
{
    const lab_gpt_config *c = &w->model.config;
    int64_t parameters = 0;
    if (lab_gpt_visit(&w->model, NULL, lab_count_parameters, &parameters) != LAB_OK)
        return;
    parameters -= c->context * c->width; /* positions are added */
    const double attention = (double)(c->layers * c->heads * c->head_dim);
    if (w->spec->kind == TRAIN_STEP) {
        const double tokens = (double)(w->spec->batch * w->spec->length);
        w->flops = tokens * (6.0 * (double)parameters + 6.0 * attention * (double)w->spec->length);
    } else {
        w->flops = 2.0 * (double)parameters + 4.0 * attention * (double)(w->spec->length + DECODE_ROOM / 2);
        w->bytes = sizeof(float) * (double)parameters;
    }
}

static bool prepare_step(train_work *w)
{
    const size_t bytes = (size_t)(w->spec->batch * w->spec->length) * sizeof(int64_t);
    const lab_optimizer_config by = {
        .rule = LAB_ADAMW, .rate = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .decay = 0.1, .group = lab_decay_matrices};
    w->schedule =
        (lab_schedule){.kind = LAB_SCHEDULE_COSINE, .rate = 1e-3, .final_rate = 1e-4, .warmup = 100, .steps = 2000};
    w->inputs = malloc(bytes);
    w->targets = malloc(bytes);
    w->g = lab_graph_create(NULL);
    if (!w->inputs || !w->targets || !w->g)
        return complain(w, "no memory for a batch");
    return (lab_optimizer_create(&w->optimizer, &by) == LAB_OK || complain(w, "the optimiser")) && open_tokens(w);
}

/* Runs the prompt, so that the cache has it. */
static bool prepare_decode(train_work *w)
{
    const int64_t shape[] = {1, w->spec->length};
    w->inputs = malloc((size_t)w->spec->length * sizeof *w->inputs);
    w->g = lab_graph_create(&(lab_graph_opts){.inference = true, .batch_invariant = !w->spec->plain});
    if (!w->inputs || !w->g || lab_gpt_cache_create(&w->cache, &w->model, 1, 0) != LAB_OK)
        return complain(w, "no memory for the cache");
    for (int64_t i = 0; i < w->spec->length; i++)
        w->inputs[i] = drawn((uint64_t)i, w->spec->config.vocabulary);
    lab_tensor *prompt = lab_constant(w->g, LAB_I64, 2, shape, w->inputs);
    return lab_gpt_hidden(w->g, &w->model, prompt, w->cache, NULL) || complain(w, "the prompt");
}

/* One long parameter, whose gradient is written once and stays. */
static bool prepare_adamw(train_work *w)
{
    const int64_t n = w->spec->parameters;
    const lab_optimizer_config by = {.rule = LAB_ADAMW, .rate = 1e-3, .decay = 0.1};
    if (lab_tensor_create(&w->flat, LAB_F32, 1, &n) != LAB_OK || lab_tensor_require_grad(w->flat, true) != LAB_OK ||
        lab_optimizer_create(&w->optimizer, &by) != LAB_OK)
        return complain(w, "the parameter");
    lab__kernel_normal(KERNEL_F32, n, lab_tensor_data(w->flat), 1, 0, 0);
    lab_graph *g = lab_graph_create(NULL);
    const bool good = lab_backward(g, lab_sum_all(g, w->flat)) == LAB_OK;
    lab_graph_destroy(&g);
    if (!good)
        return complain(w, "the gradient");
    lab__kernel_normal(KERNEL_F32, n, lab_tensor_data(lab_tensor_grad(w->flat)), 2, 0, 0);
    w->bytes = 28.0 * (double)n; /* p, m and v read and written, g read */
    return true;
}

bool train_work_prepare(train_work *w, const train_spec *spec)
{
    *w = (train_work){.spec = spec};
    if (spec->kind == TRAIN_ADAMW)
        return prepare_adamw(w) && train_work_call(w);
    if (lab_gpt_init(&w->model, &spec->config, LAB_F32, 1) != LAB_OK)
        return complain(w, "the model");
    count_work(w);
    return (spec->kind == TRAIN_STEP ? prepare_step(w) : prepare_decode(w)) && train_work_call(w);
}

void train_work_release(train_work *w)
{
    lab_gpt_cache_destroy(&w->cache);
    lab_graph_destroy(&w->g);
    lab_optimizer_destroy(&w->optimizer);
    lab_tokens_close(&w->tokens);
    lab_gpt_free(&w->model);
    lab_tensor_destroy(&w->flat);
    free(w->inputs);
    free(w->targets);
    w->inputs = w->targets = NULL;
}

/* ---- A step of training: as gpt_train's --------------------------------------------------------------------------- */

static bool forward_and_backward(train_work *w)
{
    const int64_t shape[] = {w->spec->batch, w->spec->length};
    const lab_window_opts windows = {.stop = lab_tokens_count(w->tokens), .length = w->spec->length, .seed = 1};
    const lab_attention_opts attention = {.seed = 1, .stream = (uint64_t)w->windows << 16};
    w->phase = PHASE_DATA;
    if (lab_tokens_draw(w->tokens, &windows, w->windows, w->spec->batch, w->inputs, w->targets) != LAB_OK)
        return complain(w, "the next batch");
    w->windows += w->spec->batch;
    w->phase = PHASE_FORWARD;
    lab_graph_reset(w->g);
    lab_tensor *mean =
        lab_gpt_loss(w->g, &w->model, lab_constant(w->g, LAB_I64, 2, shape, w->inputs),
                     lab_constant(w->g, LAB_I64, 2, shape, w->targets), NULL, &(lab_gpt_opts){.attention = &attention});
    if (!mean || !isfinite(*(float *)lab_tensor_data(mean)))
        return complain(w, "the loss");
    w->phase = PHASE_BACKWARD;
    return lab_backward(w->g, mean) == LAB_OK || complain(w, "backward");
}

static bool step(train_work *w)
{
    lab_grad_norm norm = {0};
    if (!forward_and_backward(w))
        return false;
    w->phase = PHASE_CLIP;
    lab_status status = lab_gpt_visit(&w->model, NULL, lab_grad_norm_add, &norm);
    w->phase = PHASE_OPTIMIZER;
    if (status == LAB_OK)
        status = lab_optimizer_set_scale(w->optimizer, lab_clip_factor(lab_grad_norm_value(&norm), 1));
    if (status == LAB_OK)
        status = lab_optimizer_set_rate(w->optimizer, lab_schedule_rate(&w->schedule, w->steps++));
    if (status == LAB_OK)
        status = lab_gpt_visit(&w->model, NULL, lab_optimizer_step, w->optimizer);
    if (status == LAB_OK)
        status = lab_gpt_visit(&w->model, NULL, lab_clear_grads, NULL);
    return status == LAB_OK || complain(w, "the step");
}

/* ---- A token: as gpt_sample's, at temperature 1 ------------------------------------------------------------------- */

static int64_t choose(const train_work *w, const float *logits)
{
    const int64_t n = w->spec->config.vocabulary;
    float largest = logits[0];
    double sum = 0, so_far = 0;
    for (int64_t i = 1; i < n; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    for (int64_t i = 0; i < n; i++)
        sum += (double)expf(logits[i] - largest);
    const double at = sum * (double)drawn((uint64_t)w->steps, 1 << 30) / (1 << 30);
    for (int64_t i = 0; i < n; i++) {
        so_far += (double)expf(logits[i] - largest);
        if (at < so_far)
            return i;
    }
    return n - 1;
}

static bool decode(train_work *w)
{
    if (lab_gpt_cache_length(w->cache, 0) >= w->spec->length + DECODE_ROOM &&
        lab_gpt_cache_truncate(w->cache, 0, w->spec->length) != LAB_OK)
        return complain(w, "the cache");
    w->phase = PHASE_FORWARD;
    lab_graph_reset(w->g);
    lab_tensor *token = lab_constant(w->g, LAB_I64, 2, (int64_t[]){1, 1}, &w->last_token);
    lab_tensor *logits = lab_gpt_apply(w->g, &w->model, token, w->cache, NULL);
    if (!logits)
        return complain(w, "the model");
    w->phase = PHASE_CHOICE;
    w->last_token = choose(w, lab_tensor_data(logits));
    w->steps++;
    return true;
}

bool train_work_call(train_work *w)
{
    bool good;
    if (w->spec->kind == TRAIN_ADAMW) {
        w->phase = PHASE_OPTIMIZER;
        good = lab_optimizer_step("flat", &w->flat, w->optimizer) == LAB_OK || complain(w, "the step");
    } else {
        good = w->spec->kind == TRAIN_STEP ? step(w) : decode(w);
    }
    w->phase = PHASE_IDLE;
    return good;
}
