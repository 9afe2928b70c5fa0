/* data.h - what is learned from: tokens, of which the first part is trained on and the rest is held back. */
#ifndef GPT_DATA_H
#define GPT_DATA_H

#include "settings.h"

typedef struct data {
    lab_tokens *tokens;
    lab_vocabulary *characters; /* NULL: a token file, or bytes */
    int64_t vocabulary, train;  /* how many tokens there are of kinds, and for training */
} data;

/* With `known` (a checkpoint's vocabulary) the text may have its characters only. False with a sentence on stderr. */
bool data_open(data *d, const settings *s, const lab_vocabulary *known);
void data_close(data *d);

/* The mean loss over windows side by side in what was held back. False with a sentence on stderr. `stats`: NULL, or
 * layers * heads entries, of the first windows. */
bool data_validate(const data *d, const lab_gpt *model, lab_graph *g, double *loss, lab_attention_stats *stats);

#endif
