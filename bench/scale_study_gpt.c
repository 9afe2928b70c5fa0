/* scale_study_gpt.c - does the law still matter in a small GPT, and does AdamW hide it?
 *
 * The `nano` preset of examples/gpt (4 layers, 128 wide, windows of 64 characters), its width cut into heads of d
 * numbers, trained on a text with a learning rate of a grid. Two things are as the laws want them: Wq and Wk are drawn
 * with the variance at which queries and keys begin with numbers of variance 1 (`none`, `sqrt`, `linear`), since laws
 * differ in nothing where scores begin near 0; and gradients are not clipped, which would be a second thing to hide
 * what a step does.
 *
 * A job is one run: seed, optimiser, head size, law, rate. All runs of a seed begin with the same weights, but for the
 * factor on Wq and Wk, and see the same windows.
 */
#include "scale_study_gpt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_Q = 1000, STREAM_K = 2000 };

static const double init_std = 0.06, held_back = 0.1; /* as nano has them */

/* ---- The text ------------------------------------------------------------------------------------------------------- */

/* Read once, before any job. */
static struct text {
    lab_tokens *tokens;
    int64_t vocabulary, bytes;
    int64_t train; /* tokens to train on; the others are held back */
    uint64_t hash;
} text;

static const char program[] = "scale_study gpt";

static char *read_text(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *read = NULL;
    size_t room = 0;
    *size = 0;
    if (!file)
        bench_usage_error(program, "--text: cannot read %s: %s", path, strerror(errno));
    do {
        room = room ? 2 * room : 1 << 16;
        char *more = realloc(read, room);
        if (!more)
            bench_usage_error(program, "--text: no memory for %s", path);
        read = more;
        *size += fread(read + *size, 1, room - *size, file);
    } while (*size == room);
    if (ferror(file))
        bench_usage_error(program, "--text: cannot read %s: %s", path, strerror(errno));
    fclose(file);
    return read;
}

/* FNV-1a: whether a file is the same, not whether somebody made it look so. */
static uint64_t hash_of(const char *bytes, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static void take_text(const char *path)
{
    size_t size;
    char *read = read_text(path, &size);
    lab_vocabulary *vocabulary = NULL;
    lab_status status = lab_vocabulary_create(&vocabulary, read, size);
    if (status == LAB_OK)
        status = lab_tokens_from_text(&text.tokens, vocabulary, read, size);
    if (status != LAB_OK)
        bench_usage_error(program, "--text: %s: %s", path, lab_last_message());
    text.vocabulary = lab_vocabulary_size(vocabulary);
    text.bytes = (int64_t)size;
    text.hash = hash_of(read, size);
    const int64_t count = lab_tokens_count(text.tokens);
    text.train = count - (int64_t)((double)count * held_back);
    if (count - text.train < 2 * GPT_CONTEXT)
        bench_usage_error(program,
                          "--text: %s has %lld characters, of which a tenth is held back: too few for windows "
                          "of %d",
                          path, (long long)count, (int)GPT_CONTEXT);
    lab_vocabulary_destroy(&vocabulary);
    free(read);
}

static void hash_text(char out[17])
{
    snprintf(out, 17, "%016llx", (unsigned long long)text.hash);
}

static void prepare(const study *s, const json_t *resumed)
{
    const char *path = s->settings.text;
    char hash[17];
    if (!path)
        bench_usage_error(program, "--text FILE is needed: what to train on");
    if (strpbrk(path, " \t\n"))
        bench_usage_error(program, "--text: '%s' has a blank in it, which a seed line cannot hold", path);
    take_text(path);
    hash_text(hash);
    const json_t *settings = json_object_get(resumed, "settings");
    const char *before = json_string_value(json_object_get(json_object_get(settings, "text"), "hash"));
    if (resumed && (!before || strcmp(before, hash) != 0))
        bench_usage_error(program, "--resume: the run had another text than what is in %s now", path);
}

static void finish(void)
{
    lab_tokens_close(&text.tokens);
}

int64_t gpt_text_tokens(void)
{
    return lab_tokens_count(text.tokens);
}

json_t *gpt_text_json(void)
{
    char hash[17];
    hash_text(hash);
    return json_pack("{s:I, s:I, s:I, s:s}", "bytes", (json_int_t)text.bytes, "characters", (json_int_t)text.vocabulary,
                     "train", (json_int_t)text.train, "hash", hash);
}

/* ---- Which runs, and what they leave ----------------------------------------------------------------------------------- */

const gpt_optimizer *gpt_optimizer_of(int64_t word)
{
    static const gpt_optimizer momentum = {{.rule = LAB_SGD, .momentum = 0.9}, 1, "SGD, momentum 0.9"};
    static const gpt_optimizer adamw = {
        {.rule = LAB_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .decay = 0.1, .group = lab_decay_matrices},
        0.1,
        "beta 0.9, 0.99, decay 0.1 of matrices"};
    return strcmp(study_optimizer_words[word], "momentum") == 0 ? &momentum
           : strcmp(study_optimizer_words[word], "adamw") == 0  ? &adamw
                                                                : NULL;
}

static int64_t jobs(const study_settings *settings)
{
    for (int i = 0; i < settings->laws.count; i++) {
        const study_rule *rule = &study_rules[settings->laws.values[i]];
        if (rule->normalised || rule->softcap > 0)
            bench_usage_error(program, "--laws: %s is more than a power of d", rule->name);
    }
    for (int i = 0; i < settings->optimizers.count; i++)
        if (!gpt_optimizer_of(settings->optimizers.values[i]))
            bench_usage_error(program, "--optimizers: %s is neither momentum nor adamw",
                              study_optimizer_words[settings->optimizers.values[i]]);
    for (int i = 0; i < settings->d.count; i++)
        if (GPT_WIDTH % settings->d.values[i] != 0)
            bench_usage_error(program, "--d: a width of %d has no whole heads of %lld", (int)GPT_WIDTH,
                              (long long)settings->d.values[i]);
    return settings->seeds.values[0] * settings->optimizers.count * settings->d.count * settings->laws.count *
           settings->rates.count;
}

int64_t gpt_job(const study_settings *of, int64_t seed, gpt_place at)
{
    const int64_t group = (seed * of->optimizers.count + at.optimizer) * of->d.count + at.d;
    return (group * of->laws.count + at.law) * of->rates.count + at.rate;
}

static gpt_place place_of(const study_settings *of, int64_t job, int64_t *seed)
{
    gpt_place at;
    at.rate = (int)(job % of->rates.count);
    job /= of->rates.count;
    at.law = (int)(job % of->laws.count);
    job /= of->laws.count;
    at.d = (int)(job % of->d.count);
    job /= of->d.count;
    at.optimizer = (int)(job % of->optimizers.count);
    *seed = job / of->optimizers.count;
    return at;
}

double gpt_rate(const study_settings *of, gpt_place at)
{
    return of->rates.values[at.rate] * gpt_optimizer_of(of->optimizers.values[at.optimizer])->grid;
}

int gpt_value(const study_settings *settings, gpt_curve curve, int layer, int moment)
{
    const int curves = (int)settings->layers.values[0] * 2;
    const int which = curve == GPT_TRAIN_LOSS ? 0 : 1 + 2 * layer + (curve == GPT_ENTROPY_RATIO);
    return GPT_CURVES + moment * (1 + curves) + which;
}

int gpt_width(const study_settings *settings)
{
    return gpt_value(settings, GPT_TRAIN_LOSS, 0, GPT_MOMENTS);
}

int64_t gpt_moment_step(const study_settings *settings, int moment)
{
    return settings->steps.values[0] * moment / (GPT_MOMENTS - 1);
}

/* ---- One run ----------------------------------------------------------------------------------------------------------- */

typedef struct training {
    const study_settings *settings;
    uint64_t windows; /* seed of the windows drawn */
    lab_gpt model;
    lab_optimizer *optimizer;
    lab_schedule schedule;
    lab_graph *g, *eval;
    int64_t *tokens; /* a batch's inputs, and behind them its targets */
    lab_attention_stats *stats;
    double *values;
    double loss_sum; /* of the steps since the last moment */
    int64_t loss_count;
    int moment; /* the next one */
} training;

/* Queries and keys that begin with numbers of variance d^(1 + init_power): 1, but with the control. */
static lab_status draw_heads(lab_gpt *model, study_law law, int64_t d, uint64_t seed)
{
    const double std = study_weight_std(law, d) * sqrt((double)d / GPT_WIDTH);
    lab_status status = LAB_OK;
    for (int64_t i = 0; i < model->config.layers && status == LAB_OK; i++) {
        status = lab_init_normal(model->block[i].attn.q.weight, std, seed, STREAM_Q + (uint64_t)i);
        if (status == LAB_OK)
            status = lab_init_normal(model->block[i].attn.k.weight, std, seed, STREAM_K + (uint64_t)i);
    }
    return status;
}

static lab_status begin(training *t, gpt_place at, int64_t index)
{
    const study_settings *of = t->settings;
    const int64_t d = of->d.values[at.d], heads = GPT_WIDTH / d, layers = of->layers.values[0];
    const int64_t steps = of->steps.values[0], batch = of->batch.values[0];
    const study_law law = (study_law)of->laws.values[at.law];
    const uint64_t seed = study_seed(of, index, GPT_WIDTH);
    const lab_gpt_config config = {.vocabulary = text.vocabulary,
                                   .context = GPT_CONTEXT,
                                   .layers = layers,
                                   .width = GPT_WIDTH,
                                   .heads = heads,
                                   .attention_scale = study_scale(law, d),
                                   .init_std = init_std};
    lab_optimizer_config by = gpt_optimizer_of(of->optimizers.values[at.optimizer])->config;
    const double rate = by.rate = gpt_rate(of, at);
    t->windows = study_seed(of, index, GPT_CONTEXT);
    t->schedule = (lab_schedule){LAB_SCHEDULE_COSINE, rate, rate / 10, steps / 10, steps, {0}};
    t->g = lab_graph_create(NULL);
    t->eval = lab_graph_create(&(lab_graph_opts){.inference = true});
    t->tokens = malloc((size_t)(2 * batch * GPT_CONTEXT) * sizeof *t->tokens);
    t->stats = calloc((size_t)(layers * heads), sizeof *t->stats);
    if (!t->g || !t->eval || !t->tokens || !t->stats)
        return LAB_ERR_MEMORY;
    lab_status status = lab_gpt_init(&t->model, &config, LAB_F32, seed);
    if (status == LAB_OK)
        status = draw_heads(&t->model, law, d, seed);
    return status == LAB_OK ? lab_optimizer_create(&t->optimizer, &by) : status;
}

static void end(training *t)
{
    lab_optimizer_destroy(&t->optimizer);
    lab_gpt_free(&t->model);
    lab_graph_destroy(&t->g);
    lab_graph_destroy(&t->eval);
    free(t->tokens);
    free(t->stats);
}

/* The loss of the batch in t->tokens. */
static lab_tensor *loss_of(lab_graph *g, training *t, lab_attention_stats *stats)
{
    const int64_t batch = t->settings->batch.values[0], shape[] = {batch, GPT_CONTEXT};
    return lab_gpt_loss(g, &t->model, lab_constant(g, LAB_I64, 2, shape, t->tokens),
                        lab_constant(g, LAB_I64, 2, shape, t->tokens + batch * GPT_CONTEXT), NULL,
                        &(lab_gpt_opts){.stats = stats});
}

/* Reads batch `number` of `batches`, whose windows are evenly spaced over what is held back. */
static lab_status read_held_back(training *t, int64_t number, int64_t batches)
{
    const int64_t batch = t->settings->batch.values[0];
    const int64_t room = lab_tokens_count(text.tokens) - text.train - GPT_CONTEXT - 1;
    lab_status status = LAB_OK;
    for (int64_t row = 0; row < batch && status == LAB_OK; row++) {
        const int64_t place = text.train + room * (number * batch + row) / (batches * batch);
        int64_t *inputs = t->tokens + row * GPT_CONTEXT;
        status = lab_tokens_read(text.tokens, place, GPT_CONTEXT, inputs);
        if (status == LAB_OK)
            status = lab_tokens_read(text.tokens, place + 1, GPT_CONTEXT, inputs + batch * GPT_CONTEXT);
    }
    return status;
}

/* The mean loss over so many batches of what is held back. */
static lab_status held_back_loss(training *t, int64_t batches, lab_attention_stats *stats, double *loss)
{
    double sum = 0;
    lab_status status = LAB_OK;
    for (int64_t number = 0; number < batches && status == LAB_OK; number++) {
        status = read_held_back(t, number, batches);
        lab_graph_reset(t->eval);
        const lab_tensor *mean = status == LAB_OK ? loss_of(t->eval, t, stats) : NULL;
        if (status == LAB_OK)
            status = lab_graph_status(t->eval);
        if (status == LAB_OK)
            sum += *(const float *)lab_tensor_data(mean);
    }
    *loss = sum / (double)batches;
    return status;
}

/* What a moment leaves, on windows that are the same at all moments of all runs. */
static lab_status look(training *t)
{
    double ignored;
    const lab_status status = held_back_loss(t, 1, t->stats, &ignored);
    const int64_t heads = t->model.config.heads;
    for (int layer = 0; status == LAB_OK && layer < t->model.config.layers; layer++) {
        double weight = 0, entropy = 0;
        for (int64_t h = 0; h < heads; h++) {
            weight += t->stats[layer * heads + h].p_max.mean / (double)heads;
            entropy += t->stats[layer * heads + h].entropy.mean / (double)heads;
        }
        t->values[gpt_value(t->settings, GPT_LARGEST_WEIGHT, layer, t->moment)] = weight;
        t->values[gpt_value(t->settings, GPT_ENTROPY_RATIO, layer, t->moment)] = entropy / gpt_uniform_entropy();
    }
    return status;
}

/* The loss is known at the first moment only after its step. */
static void keep_loss(training *t, int moment)
{
    t->values[gpt_value(t->settings, GPT_TRAIN_LOSS, 0, moment)] = t->loss_sum / (double)t->loss_count;
    t->loss_sum = 0;
    t->loss_count = 0;
}

/* *finite says whether the loss is; if not, the weights stay as they are. */
static lab_status train_step(training *t, int64_t step, bool *finite)
{
    const int64_t batch = t->settings->batch.values[0];
    const lab_window_opts windows = {.stop = text.train, .length = GPT_CONTEXT, .seed = t->windows};
    lab_status status =
        lab_tokens_draw(text.tokens, &windows, step * batch, batch, t->tokens, t->tokens + batch * GPT_CONTEXT);
    lab_graph_reset(t->g);
    lab_tensor *loss = status == LAB_OK ? loss_of(t->g, t, NULL) : NULL;
    if (status == LAB_OK)
        status = lab_graph_status(t->g);
    if (status != LAB_OK)
        return status;
    const double value = *(const float *)lab_tensor_data(loss);
    *finite = isfinite(value);
    if (!*finite)
        return LAB_OK;
    t->loss_sum += value;
    t->loss_count++;
    status = lab_backward(t->g, loss);
    if (status == LAB_OK)
        status = lab_optimizer_set_rate(t->optimizer, lab_schedule_rate(&t->schedule, step));
    if (status == LAB_OK)
        status = lab_gpt_visit(&t->model, NULL, lab_optimizer_step, t->optimizer);
    return status == LAB_OK ? lab_gpt_visit(&t->model, NULL, lab_clear_grads, NULL) : status;
}

static lab_status train(training *t, bool *stopped)
{
    const int64_t steps = t->settings->steps.values[0];
    bool finite = true;
    lab_status status = LAB_OK;
    for (int64_t step = 0; step < steps && status == LAB_OK && finite && !*stopped; step++) {
        const bool moment = step == gpt_moment_step(t->settings, t->moment);
        if (moment)
            status = look(t);
        if (moment && step > 0)
            keep_loss(t, t->moment);
        if (status == LAB_OK)
            status = train_step(t, step, &finite);
        if (moment && finite && step == 0)
            keep_loss(t, 0);
        t->moment += moment;
        if (!finite)
            t->values[GPT_DIVERGED_AT] = (double)step;
        *stopped = study_interrupted();
    }
    if (status != LAB_OK || !finite || *stopped)
        return status;
    keep_loss(t, t->moment);
    status = look(t);
    double loss = NAN;
    if (status == LAB_OK)
        status = held_back_loss(t, GPT_BATCHES, NULL, &loss);
    if (status == LAB_OK && isfinite(loss))
        t->values[GPT_LOSS] = loss;
    else if (status == LAB_OK)
        t->values[GPT_DIVERGED_AT] = (double)steps;
    return status;
}

static bool job(const study_settings *settings, int64_t number, double *values)
{
    int64_t index;
    const gpt_place at = place_of(settings, number, &index);
    training t = {.settings = settings, .values = values};
    bool stopped = false;
    for (int i = 0; i < gpt_width(settings); i++)
        values[i] = NAN;
    values[GPT_LOSS] = INFINITY;
    lab_status status = begin(&t, at, index);
    if (status == LAB_OK)
        status = train(&t, &stopped);
    if (status != LAB_OK)
        study_fail("%s, d = %lld, rate %g: %s", study_law_words[settings->laws.values[at.law]],
                   (long long)settings->d.values[at.d], gpt_rate(settings, at),
                   lab_graph_status(t.g) != LAB_OK ? lab_graph_message(t.g)
                   : *lab_last_message()           ? lab_last_message()
                                                   : "no memory");
    end(&t);
    return status == LAB_OK && !stopped;
}

const study_command study_gpt = {
    .name = "gpt",
    .summary = "whether the law still matters in a small GPT on a text, under AdamW and SGD with momentum",
    .notes =
        "Trains examples/gpt's nano model, its width of 128 cut into heads of --d numbers, with every law, optimiser "
        "and\n"
        "rate; the first lines of the output define when a rate works, and what counts as diverged. Per optimiser, d\n"
        "and law: the loss at every rate, the rates that work, and how sharply each layer looks along training.\n"
        "--rates are those of momentum; AdamW's are a tenth of them.",
    .takes = STUDY_TAKES_RATES | STUDY_TAKES_OPTIMIZERS | STUDY_TAKES_MODEL,
    .usual = {.seeds = {1, {2}},
              .d = {2, {16, 128}},
              .optimizers = {2, {1, 4}},
              .rates = {5, {0.003, 0.01, 0.03, 0.1, 0.3}}},
    .quick = {.seeds = {1, {1}},
              .laws = {2, {STUDY_NONE, STUDY_SQRT}},
              .rates = {2, {0.03, 30}},
              .steps = {1, {40}},
              .layers = {1, {2}},
              .batch = {1, {2}}},
    .most_d = GPT_WIDTH,
    .prepare = prepare,
    .finish = finish,
    .rules = gpt_rules,
    .jobs = jobs,
    .width = gpt_width,
    .job = job,
    .report = gpt_report,
    .describe = gpt_describe,
    .draw = gpt_draw,
    .plot_width = 1400,
    .plot_height = 1050,
};
