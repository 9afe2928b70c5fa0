/* journal.h - what training leaves behind and shows: a line of JSON for each logged step, a plot, and a bar. */
#ifndef GPT_JOURNAL_H
#define GPT_JOURNAL_H

#include <llmlab.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct entry {
    int64_t step;
    double train_loss, val_loss; /* val_loss NaN: not asked */
    double rate, grad_norm, tokens_per_s;
    const lab_attention_stats *attention; /* NULL: not asked; layers * heads */
    int64_t layers, heads;
} entry;

/* Appends to DIR/log.jsonl. False if it could not be written; training goes on. */
bool journal_append(const char *path, const entry *e);

/* Draws the losses of a log as an SVG picture. False if it could not be. */
bool journal_plot(const char *log_path, const char *svg_path);

/* One line on stderr that is written over, where that is a terminal; else a line now and then. */
typedef struct bar {
    bool terminal, shown;
    double started, last;
    int64_t first_step, steps;
    double flops_per_token, peak;
} bar;

double now(void);
void bar_show(bar *b, const entry *e);
void bar_end(bar *b);

#endif
