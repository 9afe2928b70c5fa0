/* gpt_train.c - trains a GPT on a text: a bar to watch, a log, a plot, and a checkpoint that training can go on from.
 *
 *     gpt_train --text tinyshakespeare.txt --out run
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data.h"
#include "journal.h"
#include "settings.h"

typedef struct training {
    settings s;
    data d;
    lab_gpt model;
    lab_checkpoint_parts parts;
    lab_schedule schedule;
    lab_graph *g, *eval; /* of steps; of validation */
    int64_t *inputs, *targets;
    lab_attention_stats *stats;
    char checkpoint[512], log[512], plot[512];
    bool log_failed;
} training;

static volatile sig_atomic_t stopped_by;

static void on_signal(int number)
{
    stopped_by = number;
}

static bool complain(const char *what)
{
    fprintf(stderr, "gpt_train: %s: %s\n", what, lab_last_message());
    return false;
}

/* ---- Beginning ------------------------------------------------------------------------------------------------------- */

static bool folder_is_writable(const char *folder)
{
    char path[600];
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "gpt_train: --out %s: %s\n", folder, strerror(errno));
        return false;
    }
    snprintf(path, sizeof path, "%s/.gpt_train-%ld", folder, (long)getpid());
    FILE *f = fopen(path, "wb");
    const bool fine = f && fputc('x', f) != EOF && fflush(f) == 0;
    if (!fine)
        fprintf(stderr, "gpt_train: --out %s: cannot be written to: %s\n", folder, strerror(errno));
    if (f)
        fclose(f);
    unlink(path);
    return fine;
}

static bool name_files(training *t)
{
    if (!t->s.out || strlen(t->s.out) > sizeof t->log - 64) {
        fprintf(stderr, "gpt_train: --out is %s (--help)\n", t->s.out ? "too long" : "needed");
        return false;
    }
    snprintf(t->checkpoint, sizeof t->checkpoint, "%s/checkpoint.safetensors", t->s.out);
    snprintf(t->log, sizeof t->log, "%s/log.jsonl", t->s.out);
    snprintf(t->plot, sizeof t->plot, "%s/loss.svg", t->s.out);
    const bool there = access(t->checkpoint, F_OK) == 0;
    if (there && !t->s.resume)
        fprintf(stderr, "gpt_train: %s is there already: --resume goes on from it, or take another --out\n",
                t->checkpoint);
    return (t->s.resume || !there) && folder_is_writable(t->s.out);
}

/* The order in which settings go over each other: preset, file, checkpoint, command line. */
static bool read_settings(training *t, int argc, char **argv, const char *note)
{
    settings first = {0};
    if (!settings_read_arguments(&first, argc, argv))
        return false;
    t->s = first;
    if (first.help)
        return true;
    return settings_defaults(&t->s, first.preset) && (!first.config || settings_read_file(&t->s, first.config)) &&
           (!note || settings_read_json(&t->s, note, "the checkpoint's note")) &&
           settings_read_arguments(&t->s, argc, argv);
}

static bool start_anew(training *t)
{
    lab_gpt_config config;
    const lab_optimizer_config by = settings_optimizer(&t->s);
    if (!data_open(&t->d, &t->s, NULL) || !settings_model(&t->s, t->d.vocabulary, &config))
        return false;
    t->parts.progress.seed = (uint64_t)t->s.seed;
    if (lab_gpt_init(&t->model, &config, LAB_F32, (uint64_t)t->s.seed) != LAB_OK)
        return complain("the model");
    return lab_optimizer_create(&t->parts.optimizer, &by) == LAB_OK || complain("the optimiser");
}

/* What the command line makes of the model must be what the checkpoint has. */
static bool same_shape(const training *t)
{
    lab_gpt_config want;
    const lab_gpt_config *have = &t->model.config;
    if (!settings_model(&t->s, t->d.vocabulary, &want))
        return false;
    const struct {
        const char *name;
        int64_t want, have;
    } all[] = {{"vocabulary", want.vocabulary, have->vocabulary},
               {"context", want.context, have->context},
               {"layers", want.layers, have->layers},
               {"width", want.width, have->width},
               {"heads", want.heads, have->heads},
               {"kv-heads", want.kv_heads ? want.kv_heads : want.heads, have->kv_heads},
               {"hidden", want.hidden ? want.hidden : 4 * want.width, have->hidden},
               {"positions", want.positions, have->positions},
               {"norm", want.norm, have->norm},
               {"activation", want.activation, have->activation},
               {"bias", want.bias, have->bias},
               {"untied", want.untied, have->untied}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].want != all[i].have) {
            fprintf(stderr, "gpt_train: %s: the checkpoint is of another shape: its %s is %lld, not %lld\n",
                    t->checkpoint, all[i].name, (long long)all[i].have, (long long)all[i].want);
            return false;
        }
    return true;
}

static bool go_on(training *t, lab_safetensors *file)
{
    const lab_optimizer_config by = settings_optimizer(&t->s);
    if (lab_optimizer_create(&t->parts.optimizer, &by) != LAB_OK)
        return complain("the optimiser");
    if (lab_checkpoint_load(file, &t->model, &t->parts) != LAB_OK)
        return complain(t->checkpoint);
    t->parts.note = NULL; /* which goes with the file */
    return data_open(&t->d, &t->s, t->parts.vocabulary) && same_shape(t);
}

static bool begin(training *t, int argc, char **argv)
{
    lab_safetensors *file = NULL;
    if (!read_settings(t, argc, argv, NULL) || t->s.help)
        return t->s.help;
    if (!name_files(t))
        return false;
    if (t->s.resume && lab_safetensors_open(&file, t->checkpoint) != LAB_OK)
        return complain("--resume");
    bool fine = !file || read_settings(t, argc, argv, lab_safetensors_metadata(file, "note"));
    if (fine && (t->s.batch < 1 || t->s.accumulate < 1 || t->s.steps < 1 || t->s.log_every < 1)) {
        fprintf(stderr, "gpt_train: batch, accumulate, steps and log-every must be at least 1\n");
        fine = false;
    }
    if (fine && lab_set_threads((int)t->s.threads) != LAB_OK)
        fine = complain("--threads");
    fine = fine && settings_schedule(&t->s, &t->schedule) && (file ? go_on(t, file) : start_anew(t));
    lab_safetensors_close(&file);
    if (!fine)
        return false;
    const size_t tokens = (size_t)(t->s.batch * t->s.context) * sizeof(int64_t);
    t->g = lab_graph_create(NULL);
    t->eval = lab_graph_create(&(lab_graph_opts){.inference = true});
    t->inputs = malloc(tokens);
    t->targets = malloc(tokens);
    t->stats = calloc((size_t)(t->model.config.layers * t->model.config.heads), sizeof *t->stats);
    if (t->g && t->eval && t->inputs && t->targets && t->stats)
        return true;
    fprintf(stderr, "gpt_train: out of memory\n");
    return false;
}

static void end(training *t)
{
    lab_vocabulary_destroy(&t->parts.vocabulary);
    lab_optimizer_destroy(&t->parts.optimizer);
    lab_gpt_free(&t->model);
    data_close(&t->d);
    lab_graph_destroy(&t->g);
    lab_graph_destroy(&t->eval);
    free(t->inputs);
    free(t->targets);
    free(t->stats);
}

/* ---- A step ---------------------------------------------------------------------------------------------------------- */

/* Forward and backward of one batch; its loss is added. */
static bool add_batch(training *t, double *loss)
{
    lab_progress *p = &t->parts.progress;
    const int64_t shape[] = {t->s.batch, t->s.context};
    const lab_window_opts windows = {.stop = t->d.train, .length = t->s.context, .seed = p->seed};
    const lab_attention_opts attention = {
        .dropout = t->s.dropout, .seed = p->seed, .stream = (uint64_t)p->windows << 16};
    if (lab_tokens_draw(t->d.tokens, &windows, p->windows, t->s.batch, t->inputs, t->targets) != LAB_OK)
        return complain("the next batch");
    p->windows += t->s.batch;
    lab_graph_reset(t->g);
    lab_tensor *mean = lab_gpt_loss(t->g, &t->model, lab_constant(t->g, LAB_I64, 2, shape, t->inputs),
                                    lab_constant(t->g, LAB_I64, 2, shape, t->targets), NULL,
                                    &(lab_gpt_opts){.attention = &attention, .recompute = t->s.recompute});
    if (mean && !isfinite(*(float *)lab_tensor_data(mean))) {
        char where[512];
        lab_graph_find_nonfinite(t->g, where, sizeof where);
        fprintf(stderr, "\ngpt_train: step %lld: the loss is %g. %s\n", (long long)p->step + 1,
                (double)*(float *)lab_tensor_data(mean), where);
        return false;
    }
    if (lab_backward(t->g, mean) != LAB_OK)
        return complain("backward");
    *loss += *(float *)lab_tensor_data(mean);
    return true;
}

static bool step(training *t, entry *e)
{
    lab_grad_norm norm = {0};
    lab_optimizer *optimizer = t->parts.optimizer;
    const double n = (double)t->s.accumulate, started = now();
    e->train_loss = 0;
    for (int64_t i = 0; i < t->s.accumulate; i++)
        if (!add_batch(t, &e->train_loss))
            return false;
    lab_status status = lab_gpt_visit(&t->model, NULL, lab_grad_norm_add, &norm);
    e->train_loss /= n;
    e->grad_norm = lab_grad_norm_value(&norm) / n;
    e->rate = lab_schedule_rate(&t->schedule, t->parts.progress.step);
    const double scale = t->s.clip > 0 ? lab_clip_factor(e->grad_norm, t->s.clip) : 1;
    if (status == LAB_OK)
        status = lab_optimizer_set_scale(optimizer, scale / n);
    if (status == LAB_OK)
        status = lab_optimizer_set_rate(optimizer, e->rate);
    if (status == LAB_OK)
        status = lab_gpt_visit(&t->model, NULL, lab_optimizer_step, optimizer);
    if (status == LAB_OK)
        status = lab_gpt_visit(&t->model, NULL, lab_clear_grads, NULL);
    e->step = ++t->parts.progress.step;
    e->tokens_per_s = (double)(t->s.accumulate * t->s.batch * t->s.context) / (now() - started);
    return status == LAB_OK || complain("the step");
}

/* ---- What is kept ---------------------------------------------------------------------------------------------------- */

static bool save(training *t)
{
    char *note = settings_to_json(&t->s);
    lab_checkpoint_parts parts = t->parts;
    parts.vocabulary = t->d.characters ? t->d.characters : t->parts.vocabulary;
    parts.note = note;
    const bool fine = lab_checkpoint_save(t->checkpoint, &t->model, &parts) == LAB_OK;
    if (!fine)
        fprintf(stderr, "\ngpt_train: the checkpoint is not written (the one before stays): %s\n", lab_last_message());
    free(note);
    return fine;
}

static void keep_log(training *t, const entry *e)
{
    if (journal_append(t->log, e) || t->log_failed)
        return;
    t->log_failed = true;
    fprintf(stderr, "\ngpt_train: %s cannot be written: %s; training goes on without it\n", t->log, strerror(errno));
}

static bool is_due(int64_t step, int64_t every, int64_t last)
{
    return step == last || (every > 0 && step % every == 0);
}

/* 6 for each weight that a token meets, forward and backward, and attention over the half of the window it sees. */
static double flops_per_token(training *t)
{
    int64_t parameters = 0;
    const lab_gpt_config *c = &t->model.config;
    if (lab_gpt_visit(&t->model, NULL, lab_count_parameters, &parameters) != LAB_OK)
        return 0;
    if (c->untied || c->positions == LAB_POSITIONS_LEARNED)
        parameters -= (c->untied ? c->vocabulary : 0) * c->width +
                      (c->positions == LAB_POSITIONS_LEARNED ? c->context * c->width : 0);
    return 6.0 * (double)parameters + 6.0 * (double)(c->layers * c->heads * c->head_dim * c->context);
}

static bool train(training *t)
{
    const int64_t last = t->s.steps, first = t->parts.progress.step;
    const int64_t stop = t->s.stop_at > 0 && t->s.stop_at < last ? t->s.stop_at : last;
    bar b = {.terminal = isatty(STDERR_FILENO), .started = now(), .first_step = first, .steps = last};
    b.flops_per_token = flops_per_token(t);
    b.peak = lab_fma_peak(false, 0.05);
    bool fine = true, saved = true;
    int64_t saved_at = first; /* a signal may come when a step has been looked after already */
    for (int64_t i = first; i < stop && fine && !stopped_by; i++) {
        entry e = {.val_loss = NAN, .layers = t->model.config.layers, .heads = t->model.config.heads};
        fine = step(t, &e);
        if (fine && (is_due(e.step, t->s.eval_every, last) || stopped_by)) {
            fine = data_validate(&t->d, &t->model, t->eval, &e.val_loss, t->stats);
            e.attention = t->stats;
        }
        if (fine && (is_due(e.step, t->s.log_every, last) || !isnan(e.val_loss)))
            keep_log(t, &e);
        if (fine)
            bar_show(&b, &e);
        if (fine && (is_due(e.step, t->s.checkpoint_every, last) || stopped_by))
            saved = save(t), saved_at = e.step;
        if (fine && !isnan(e.val_loss)) {
            bar_end(&b);
            printf("step %lld: training %.4f, validation %.4f\n", (long long)e.step, e.train_loss, e.val_loss);
            fflush(stdout);
        }
    }
    bar_end(&b);
    if (fine && t->parts.progress.step != saved_at)
        saved = save(t);
    if (!journal_plot(t->log, t->plot) && !t->log_failed)
        fprintf(stderr, "gpt_train: %s could not be drawn\n", t->plot);
    return fine && saved;
}

int main(int argc, char **argv)
{
    training t = {0};
    if (!begin(&t, argc, argv)) {
        end(&t);
        return EXIT_BAD_INPUT;
    }
    if (t.s.help) {
        settings_print_help();
        return 0;
    }
    const struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    const bool fine = train(&t);
    end(&t);
    return !fine ? EXIT_FAILURE : stopped_by ? 128 + stopped_by : 0;
}
