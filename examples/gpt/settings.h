/* settings.h - what gpt_train can be told, on the command line or in a file, and what a checkpoint remembers of it. */
#ifndef GPT_SETTINGS_H
#define GPT_SETTINGS_H

#include <llmlab.h>
#include <stdbool.h>
#include <stdint.h>

enum { EXIT_BAD_INPUT = 2 };

typedef struct settings {
    /* where from and where to; not remembered */
    const char *text, *tokens, *out, *preset, *config;
    bool resume, help;
    /* the model */
    int64_t layers, heads, kv_heads, head_dim, width, hidden, context;
    bool bias, untied;
    const char *positions, *norm, *activation;
    double init_std;
    /* the data */
    const char *token_type;
    int64_t vocabulary; /* of a token file; 0: one more than the largest token */
    bool bytes;
    double validation;
    /* training */
    int64_t batch, accumulate, steps, stop_at, warmup;
    double rate, final_rate, beta1, beta2, decay, clip, dropout;
    const char *schedule;
    int64_t seed;
    bool recompute;
    /* the program */
    int64_t threads, log_every, eval_every, checkpoint_every;
} settings;

/* Defaults, then --config's file, then the command line (and with --resume, before all, the checkpoint's note). False
 * with a sentence on stderr. */
bool settings_defaults(settings *s, const char *preset);
bool settings_read_arguments(settings *s, int argc, char **argv);
bool settings_read_file(settings *s, const char *path);
bool settings_read_json(settings *s, const char *text, const char *of);

/* What is remembered, as JSON; freed by the caller, NULL without memory. */
char *settings_to_json(const settings *s);

void settings_print_help(void);

/* The library's structs for them; false with a sentence on stderr. */
bool settings_model(const settings *s, int64_t vocabulary, lab_gpt_config *out);
bool settings_schedule(const settings *s, lab_schedule *out);
lab_optimizer_config settings_optimizer(const settings *s);

#endif
