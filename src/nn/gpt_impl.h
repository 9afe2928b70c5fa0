/* gpt_impl.h - a model's cache from inside. */
#ifndef LAB_NN_GPT_IMPL_H
#define LAB_NN_GPT_IMPL_H

#include <stdbool.h>

#include "llmlab/gpt.h"

struct lab_gpt_cache {
    int64_t layers, batch;
    int64_t *length; /* of each batch, where all layers agree */
    lab_kv_cache *layer[];
};

/* After a pass of the model: what the layers have appended stays, or is taken off again. A NULL cache is fine. */
void lab__gpt_cache_settle(lab_gpt_cache *cache, bool stays);

#endif
