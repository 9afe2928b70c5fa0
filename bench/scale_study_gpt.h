/* scale_study_gpt.h - between the files of `gpt`: what a run leaves behind, and when a rate works. */
#ifndef LAB_SCALE_STUDY_GPT_H
#define LAB_SCALE_STUDY_GPT_H

#include "scale_study.h"

enum { GPT_WIDTH = 128, GPT_CONTEXT = 64, GPT_MOMENTS = 21, GPT_BATCHES = 20 /* of what is held back */ };

/* Of the optimisers that options name, these; rates are the settings' times `grid`. */
typedef struct gpt_optimizer {
    lab_optimizer_config config;
    double grid;
    const char *words;
} gpt_optimizer;

/* An index into study_optimizer_words; NULL for one that this study does not have. */
const gpt_optimizer *gpt_optimizer_of(int64_t word);

/* ---- Runs: scale_study_gpt.c ------------------------------------------------------------------------------------- */

/* The text in use: its characters, and how the document describes it. */
int64_t gpt_text_tokens(void);
json_t *gpt_text_json(void);

/* A run is one job: indices into the settings' lists. */
typedef struct gpt_place {
    int optimizer, d, law, rate;
} gpt_place;

int64_t gpt_job(const study_settings *settings, int64_t seed, gpt_place at);
double gpt_rate(const study_settings *settings, gpt_place at);

/* The numbers that a run leaves. Moments are evenly spaced, the first before training, the last after it; NaN from
 * where the run diverged. */
enum {
    GPT_LOSS,        /* on what is held back; infinite if the run diverged */
    GPT_DIVERGED_AT, /* the step whose loss was not finite; NaN: none */
    GPT_CURVES
};
typedef enum gpt_curve {
    GPT_TRAIN_LOSS,     /* mean of the steps since the moment before; of the first step at the first */
    GPT_LARGEST_WEIGHT, /* of a layer: mean over its heads and queries */
    GPT_ENTROPY_RATIO   /* of a layer: entropy over that of weights that are all the same */
} gpt_curve;

int gpt_width(const study_settings *settings);
int gpt_value(const study_settings *settings, gpt_curve curve, int layer, int moment);
int64_t gpt_moment_step(const study_settings *settings, int moment);

/* ---- Means over seeds: scale_study_gpt_numbers.c ------------------------------------------------------------------- */

/* A rate works if the loss is at most so much above the best of its optimiser, head size and law. */
extern const double gpt_margin;

/* The mean largest weight, and entropy, of a window's queries where query i looks at its i + 1 keys alike. */
double gpt_uniform_weight(void);
double gpt_uniform_entropy(void);

/* Of a place's runs: a number's mean over the seeds that finished and have it, NaN if none; infinite where one is. */
double gpt_mean(const study *s, gpt_place at, int value);

/* The lowest and the highest rate whose loss is at most `bar`; -1: none. */
typedef struct gpt_range {
    double bar;
    int low, high;
} gpt_range;

/* Which rates of an optimiser, head size and law work; at.rate is not read. */
typedef struct gpt_ends {
    gpt_range own, all; /* by the law's own best loss, and by the best of all laws */
    int best;           /* the rate of least loss; -1: all have diverged */
    double best_loss;   /* NaN: none */
} gpt_ends;
gpt_ends gpt_ends_of(const study *s, gpt_place at);

/* ---- For people, for programs: scale_study_gpt_report.c; the picture: scale_study_gpt_draw.c ---------------------------- */

void gpt_rules(FILE *out, const study *s);
void gpt_report(FILE *out, const study *s);
bool gpt_describe(const study *s, json_t *document);
void gpt_draw(FILE *script, const study *s);

#endif
