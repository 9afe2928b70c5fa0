/* settings.c - one table of all settings: an option, a line of the help, a key of a file, and a part of the note. */
#include "settings.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { WHOLE, REAL, FLAG, WORD } kind;

typedef struct setting {
    const char *name;
    kind kind;
    size_t offset;
    bool kept; /* in the note */
    const char *help;
} setting;

#define SETTING(field, name, kind, kept, help)                                                                         \
    {                                                                                                                  \
        name, kind, offsetof(settings, field), kept, help                                                              \
    }

static const setting all[] = {
    SETTING(text, "text", WORD, false, "FILE   the text to learn from, UTF-8; its last part is kept for validation"),
    SETTING(tokens, "tokens", WORD, false, "FILE  or a file of tokens, one number behind the other"),
    SETTING(out, "out", WORD, false, "DIR    the folder for checkpoint, log and plot; made if it is not there"),
    SETTING(preset, "preset", WORD, false, "NAME   nano (0.8 M, the default) or gpt2 (124 M)"),
    SETTING(config, "config", WORD, false, "FILE   settings by these names, as JSON; options go over them"),
    SETTING(resume, "resume", FLAG, false, "       go on from the checkpoint in --out, with its settings"),
    SETTING(help, "help", FLAG, false, "       this text"),
    SETTING(layers, "layers", WHOLE, true, "N      blocks"),
    SETTING(heads, "heads", WHOLE, true, "N      heads of queries"),
    SETTING(kv_heads, "kv-heads", WHOLE, true, "N      heads of keys and values; 0: as many"),
    SETTING(head_dim, "head-dim", WHOLE, true, "N      0: width / heads"),
    SETTING(width, "width", WHOLE, true, "N      of the stream"),
    SETTING(hidden, "hidden", WHOLE, true, "N      of the MLP; 0: 4 width"),
    SETTING(context, "context", WHOLE, true, "N      tokens of a window"),
    SETTING(bias, "bias", FLAG, true, "       biases in linear maps and LayerNorm"),
    SETTING(untied, "untied", FLAG, true, "       a head of its own"),
    SETTING(positions, "positions", WORD, true, "KIND   learned, rope or none"),
    SETTING(norm, "norm", WORD, true, "KIND   layer or rms"),
    SETTING(activation, "activation", WORD, true, "KIND   gelu, gelu-tanh or silu-gated"),
    SETTING(init_std, "init-std", REAL, true, "X      standard deviation of first weights; 0: 0.02"),
    SETTING(token_type, "token-type", WORD, true, "TYPE   of --tokens: u16 or u32"),
    SETTING(vocabulary, "vocabulary", WHOLE, true, "N      of --tokens; 0: one more than the largest"),
    SETTING(bytes, "bytes", FLAG, true, "       bytes for tokens, not characters"),
    SETTING(validation, "validation", REAL, true, "X      share of the text that is kept for validation"),
    SETTING(batch, "batch", WHOLE, true, "N      windows at once"),
    SETTING(accumulate, "accumulate", WHOLE, true, "N      batches to a step"),
    SETTING(steps, "steps", WHOLE, true, "N      of the optimiser"),
    SETTING(stop_at, "stop-at", WHOLE, false, "N      stop after this step of them, for --resume to go on; 0: not"),
    SETTING(warmup, "warmup", WHOLE, true, "N      steps in which the rate rises"),
    SETTING(rate, "rate", REAL, true, "X      the highest rate"),
    SETTING(final_rate, "final-rate", REAL, true, "X      the last one"),
    SETTING(schedule, "schedule", WORD, true, "KIND   constant, linear or cosine"),
    SETTING(beta1, "beta1", REAL, true, "X      of AdamW"),
    SETTING(beta2, "beta2", REAL, true, "X      of AdamW"),
    SETTING(decay, "decay", REAL, true, "X      of matrices"),
    SETTING(clip, "clip", REAL, true, "X      the longest gradient; 0: any"),
    SETTING(dropout, "dropout", REAL, true, "X      of attention's probabilities"),
    SETTING(seed, "seed", WHOLE, true, "N      of weights, windows and dropout"),
    SETTING(recompute, "recompute", FLAG, true, "       blocks are computed again in backward: less memory"),
    SETTING(threads, "threads", WHOLE, false, "N      0: all processors"),
    SETTING(log_every, "log-every", WHOLE, true, "N      steps from one line of the log to the next"),
    SETTING(eval_every, "eval-every", WHOLE, true, "N      steps from one validation to the next; 0: at the end only"),
    SETTING(checkpoint_every, "checkpoint-every", WHOLE, true, "N      steps; 0: at the end only"),
};

enum { SETTINGS = sizeof all / sizeof *all };

bool settings_defaults(settings *s, const char *preset)
{
    const settings kept = *s;
    *s = (settings){.init_std = 0.06,
                    .layers = 4,
                    .heads = 4,
                    .width = 128,
                    .context = 64,
                    .batch = 12,
                    .steps = 2000,
                    .rate = 1e-3,
                    .final_rate = 1e-4,
                    .warmup = 100,
                    .beta1 = 0.9,
                    .beta2 = 0.99,
                    .decay = 0.1,
                    .clip = 1,
                    .positions = "learned",
                    .norm = "layer",
                    .activation = "gelu",
                    .schedule = "cosine",
                    .token_type = "u16",
                    .validation = 0.1,
                    .accumulate = 1,
                    .seed = 1,
                    .log_every = 10,
                    .eval_every = 250,
                    .checkpoint_every = 250};
    s->text = kept.text, s->tokens = kept.tokens, s->out = kept.out, s->config = kept.config, s->resume = kept.resume;
    s->preset = preset ? preset : "nano";
    if (strcmp(s->preset, "nano") == 0)
        return true;
    if (strcmp(s->preset, "gpt2") != 0) {
        fprintf(stderr, "gpt_train: there is no preset \"%s\": nano or gpt2\n", s->preset);
        return false;
    }
    s->layers = s->heads = 12, s->width = 768, s->batch = 4, s->bias = true, s->activation = "gelu-tanh";
    s->init_std = 0, s->context = 64, s->rate = 6e-4, s->final_rate = 6e-5, s->beta2 = 0.95;
    return true;
}

/* ---- Reading --------------------------------------------------------------------------------------------------------- */

static void *place(settings *s, const setting *of)
{
    return (char *)s + of->offset;
}

static bool set(settings *s, const setting *of, const char *value, const char *from)
{
    char *end = (char *)(uintptr_t)value;
    double real = 0;
    long long whole = 0;
    errno = 0;
    if (of->kind == REAL)
        real = strtod(value, &end);
    else if (of->kind == WHOLE)
        whole = strtoll(value, &end, 10);
    const bool number = of->kind == REAL || of->kind == WHOLE;
    if (number && (end == value || *end || errno || !isfinite(real) || real < 0 || whole < 0)) {
        fprintf(stderr, "gpt_train: %s%s: \"%s\" is no %s number that is at least 0\n", from, of->name, value,
                of->kind == REAL ? "finite" : "whole");
        return false;
    }
    if (of->kind == REAL)
        *(double *)place(s, of) = real;
    else if (of->kind == WHOLE)
        *(int64_t *)place(s, of) = whole;
    else if (of->kind == FLAG)
        *(bool *)place(s, of) = strcmp(value, "false") != 0;
    else
        *(const char **)place(s, of) = value;
    return true;
}

static const setting *find(const char *name)
{
    for (int i = 0; i < SETTINGS; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

/* --name VALUE, --name=VALUE, --flag, --no-flag */
bool settings_read_arguments(settings *s, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char name[64];
        const char *value = strchr(argv[i], '=');
        const size_t length = value ? (size_t)(value - argv[i]) : strlen(argv[i]);
        if (strncmp(argv[i], "--", 2) != 0 || length >= sizeof name) {
            fprintf(stderr, "gpt_train: \"%s\" is no option (--help lists them)\n", argv[i]);
            return false;
        }
        snprintf(name, sizeof name, "%.*s", (int)length - 2, argv[i] + 2);
        const bool no = strncmp(name, "no-", 3) == 0;
        const setting *of = find(no ? name + 3 : name);
        if (!of || (no && of->kind != FLAG) || (value && of->kind == FLAG)) {
            fprintf(stderr, "gpt_train: there is no option --%s (--help lists them)\n", name);
            return false;
        }
        if (of->kind != FLAG && !value && i + 1 == argc) {
            fprintf(stderr, "gpt_train: --%s needs a value\n", name);
            return false;
        }
        const char *given = of->kind == FLAG ? (no ? "false" : "true") : value ? value + 1 : argv[++i];
        if (!set(s, of, given, "--"))
            return false;
    }
    return true;
}

/* A copy that lives as long as the program, as what argv holds does. */
static const char *keep(const char *word)
{
    static struct kept {
        struct kept *next;
        char word[];
    } * all;
    const size_t bytes = strlen(word) + 1;
    struct kept *k = malloc(sizeof *k + bytes);
    if (!k)
        return NULL;
    memcpy(k->word, word, bytes);
    k->next = all;
    all = k;
    return k->word;
}

static bool set_json(settings *s, const char *key, const json_t *json, const char *of)
{
    char number[64];
    const setting *found = find(key);
    const char *value = json_string_value(json);
    if (json_is_integer(json) || json_is_real(json)) {
        snprintf(number, sizeof number, json_is_real(json) ? "%.17g" : "%.0f", json_number_value(json));
        value = number;
    } else if (json_is_boolean(json))
        value = json_is_true(json) ? "true" : "false";
    if (!found || !value || (found->kind == FLAG) != json_is_boolean(json) ||
        (found->kind == WORD) != json_is_string(json)) {
        fprintf(stderr, "gpt_train: %s: %s\n", of, found ? "a value of another kind" : "there is no such setting");
        fprintf(stderr, "gpt_train: the setting is \"%s\"\n", key);
        return false;
    }
    if (found->kind == WORD)
        value = keep(value);
    return value && set(s, found, value, "");
}

bool settings_read_json(settings *s, const char *text, const char *of)
{
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error), *value;
    const char *key;
    bool fine = json_is_object(json);
    if (!fine)
        fprintf(stderr, "gpt_train: %s: %s\n", of, json ? "is no object" : error.text);
    json_object_foreach(json, key, value)
    {
        fine = fine && set_json(s, key, value, of);
    }
    json_decref(json);
    return fine;
}

bool settings_read_file(settings *s, const char *path)
{
    json_error_t error;
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    char *text = json ? json_dumps(json, 0) : NULL;
    json_decref(json);
    if (!text)
        fprintf(stderr, "gpt_train: %s: %s\n", path, json ? "out of memory" : error.text);
    const bool fine = text && settings_read_json(s, text, path);
    free(text);
    return fine;
}

char *settings_to_json(const settings *s)
{
    json_t *json = json_object();
    for (int i = 0; i < SETTINGS; i++) {
        const char *at = (const char *)s + all[i].offset;
        json_t *value = !all[i].kept           ? NULL
                        : all[i].kind == WHOLE ? json_integer(*(const int64_t *)(const void *)at)
                        : all[i].kind == REAL  ? json_real(*(const double *)(const void *)at)
                        : all[i].kind == FLAG  ? json_boolean(*(const bool *)at)
                                               : json_string(*(const char *const *)(const void *)at);
        if (all[i].kept && json_object_set_new(json, all[i].name, value) != 0) {
            json_decref(json);
            return NULL;
        }
    }
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}

void settings_print_help(void)
{
    puts(
        "usage: gpt_train (--text FILE | --tokens FILE) --out DIR [--preset NAME] [OPTION ...]\n"
        "       gpt_train --resume (--text FILE | --tokens FILE) --out DIR [OPTION ...]\n\n"
        "Trains a GPT. DIR receives checkpoint.safetensors, log.jsonl (an object for each logged step) and loss.svg.\n"
        "SIGINT and SIGTERM finish the step and write the checkpoint. Exit status: 0; 1 if training failed; 2 if what\n"
        "was given makes no sense; 130 or 143 after a signal.\n");
    for (int i = 0; i < SETTINGS; i++)
        printf("  --%-16s %s\n", all[i].name, all[i].help);
}

/* ---- For the library ------------------------------------------------------------------------------------------------- */

static bool choose(const char *option, const char *value, int n, const char *const *words, int *out)
{
    for (int i = 0; i < n; i++)
        if (strcmp(value, words[i]) == 0) {
            *out = i;
            return true;
        }
    fprintf(stderr, "gpt_train: --%s: \"%s\" is none of", option, value);
    for (int i = 0; i < n; i++)
        fprintf(stderr, " %s%s", words[i], i + 1 < n ? "," : "\n");
    return false;
}

bool settings_model(const settings *s, int64_t vocabulary, lab_gpt_config *out)
{
    int positions, norm, activation;
    if (!choose("positions", s->positions, 3, (const char *[]){"learned", "rope", "none"}, &positions) ||
        !choose("norm", s->norm, 2, (const char *[]){"layer", "rms"}, &norm) ||
        !choose("activation", s->activation, 3, (const char *[]){"gelu", "gelu-tanh", "silu-gated"}, &activation))
        return false;
    *out = (lab_gpt_config){.vocabulary = vocabulary,
                            .context = s->context,
                            .layers = s->layers,
                            .width = s->width,
                            .heads = s->heads,
                            .kv_heads = s->kv_heads,
                            .head_dim = s->head_dim,
                            .hidden = s->hidden,
                            .positions = (lab_positions)positions,
                            .rope_layout = LAB_ROPE_HALVES,
                            .activation = (lab_activation)activation,
                            .norm = (lab_norm_kind)norm,
                            .bias = s->bias,
                            .untied = s->untied,
                            .init_std = s->init_std};
    return true;
}

bool settings_schedule(const settings *s, lab_schedule *out)
{
    int kind;
    if (!choose("schedule", s->schedule, 3, (const char *[]){"constant", "linear", "cosine"}, &kind))
        return false;
    *out = (lab_schedule){.kind = (lab_schedule_kind)kind,
                          .rate = s->rate,
                          .final_rate = s->final_rate,
                          .warmup = s->warmup < s->steps ? s->warmup : s->steps,
                          .steps = s->steps};
    return true;
}

lab_optimizer_config settings_optimizer(const settings *s)
{
    return (lab_optimizer_config){.rule = LAB_ADAMW,
                                  .rate = s->rate,
                                  .beta1 = s->beta1,
                                  .beta2 = s->beta2,
                                  .decay = s->decay,
                                  .group = lab_decay_matrices};
}
