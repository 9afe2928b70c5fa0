/* scale_study_kinds.c - the two kinds of tokens that correlated trains on: fresh ones, and words of a vocabulary. */
#include "scale_study_correlated.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

const char *const kind_words[KINDS] = {"fresh", "vocabulary"};

/* Fills `leaf` [steps, STUDY_BATCH, STUDY_TOKENS, d] with words, for each query STUDY_TOKENS different ones. */
static void take_words(lab_tensor *leaf, int64_t d, uint64_t seed, uint64_t stream, float *words)
{
    const int64_t queries = lab_tensor_numel(leaf) / (STUDY_TOKENS * d);
    float *to = lab_tensor_data(leaf);
    lab__kernel_normal(KERNEL_F32, WORDS * d, words, seed, STREAM_WORDS, 0);
    for (int64_t b = 0; b < queries; b++) {
        double draws[STUDY_TOKENS];
        int order[WORDS];
        lab__kernel_uniform(KERNEL_F64, STUDY_TOKENS, draws, seed, STREAM_PICKS + stream, b * STUDY_TOKENS);
        for (int i = 0; i < WORDS; i++)
            order[i] = i;
        for (int j = 0; j < STUDY_TOKENS; j++) {
            const int other = j + (int)(draws[j] * (WORDS - j)), kept = order[j];
            order[j] = order[other];
            order[other] = kept;
            memcpy(to + (b * STUDY_TOKENS + j) * d, words + order[j] * d, (size_t)d * sizeof *to);
        }
    }
    lab_tensor_touch(leaf);
}

/* Tokens of one kind for so many steps, in place of those that `tokens` came with. */
static bool draw_steps(study_tokens *tokens, int kind, int64_t steps, uint64_t stream)
{
    const int64_t d = tokens->d;
    tokens->kept = steps;
    lab_status status = lab_tensor_create(&tokens->leaf, LAB_F32, 4, (int64_t[]){steps, STUDY_BATCH, STUDY_TOKENS, d});
    if (status == LAB_OK && kind == FRESH)
        status = lab_init_normal(tokens->leaf, 1, tokens->seed, stream);
    float *words = malloc((size_t)(WORDS * d) * sizeof *words);
    if (status == LAB_OK && words && kind == VOCABULARY)
        take_words(tokens->leaf, d, tokens->seed, stream, words);
    const bool good = status == LAB_OK && words;
    if (!good)
        study_fail("no memory for the tokens of d = %lld", (long long)d);
    free(words);
    return good;
}

bool draw_kind(int kind, int64_t d, uint64_t seed, study_tokens *tokens, study_tokens *tests)
{
    /* For what it makes beside the tokens, which are of other kinds here. */
    const bool good = study_tokens_draw(tokens, 1, LAB_F32, seed);
    tokens->d = d;
    lab_tensor_destroy(&tokens->leaf);
    *tests = *tokens;
    return good && draw_steps(tokens, kind, STUDY_STEPS, STREAM_TRAIN) && draw_steps(tests, kind, TESTS, STREAM_TEST);
}

void free_kind(study_tokens *tokens, study_tokens *tests)
{
    lab_tensor_destroy(&tests->leaf);
    study_tokens_free(tokens);
}
