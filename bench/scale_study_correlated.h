/* scale_study_correlated.h - between the files of `correlated`: its tokens of two kinds, and several heads that train.
 */
#ifndef LAB_SCALE_STUDY_CORRELATED_H
#define LAB_SCALE_STUDY_CORRELATED_H

#include "scale_study_probe.h"

/* ---- Tokens: scale_study_kinds.c ------------------------------------------------------------------------------- */

/* Fresh ones are drawn anew for every query; the others out of a list that is fixed for the run. */
enum { FRESH, VOCABULARY, KINDS };
enum { WORDS = 32, TESTS = 8 };
extern const char *const kind_words[KINDS];

/* Streams of a seed's draws that correlated has beside the task's own. */
enum { STREAM_QUERIES = 11, STREAM_KEYS, STREAM_TRAIN, STREAM_TEST, STREAM_WORDS, STREAM_PICKS };

/* STUDY_STEPS batches to train on and TESTS to test with, which study_tokens_free gives back: the first as a whole, of
 * the second the leaf alone, the rest is the first's. False when it was interrupted, or after study_fail. */
bool draw_kind(int kind, int64_t d, uint64_t seed, study_tokens *tokens, study_tokens *tests);
void free_kind(study_tokens *tokens, study_tokens *tests);

/* ---- Several heads: scale_study_heads.c ------------------------------------------------------------------------ */

/* Jobs of one seed; they come after correlated's own of that seed, `first` is the first one's number for seed 0 and
 * `stride` what a seed adds. */
typedef struct heads_place {
    int64_t first, stride;
} heads_place;

int heads_jobs(const study_settings *settings);
int heads_width(const study_settings *settings);
double heads_cost(const study_settings *settings, int job);
bool heads_job(const study_settings *settings, int64_t seed, int job, double *values);

void heads_rules(FILE *out, const study *s);
void heads_report(FILE *out, const study *s, heads_place jobs, double *column);
bool heads_describe(const study *s, heads_place jobs, json_t *document, double *column);

#endif
