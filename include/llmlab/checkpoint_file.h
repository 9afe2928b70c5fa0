/* SPDX-License-Identifier: MIT
 * llmlab/checkpoint_file.h - training, kept: a model, its optimiser, and where they stand, in one file.
 *
 * The file is a safetensors file: "model..." are the weights, "optimizer..." the optimiser's state, "vocabulary" the
 * characters; __metadata__ has the model's config, the progress and a note of the program's. Who goes on from it gets
 * the same bits as who never stopped.
 */
#ifndef LLMLAB_CHECKPOINT_FILE_H
#define LLMLAB_CHECKPOINT_FILE_H

#include "gpt.h"
#include "optim.h"
#include "safetensors.h"
#include "tokens.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Where training stands. What is random is a function of the seed and of numbers, so these are all of its state. */
typedef struct lab_progress {
    int64_t step;    /**< steps done */
    int64_t windows; /**< windows drawn (lab_tokens_draw): the number of the next one */
    uint64_t seed;
    uint64_t reserved[5];
} lab_progress;

/** What a checkpoint holds beside the model. Zero means that there is none; `reserved` must be zero. */
typedef struct lab_checkpoint_parts {
    lab_optimizer *optimizer;   /**< which steps with the names of lab_gpt_visit without a prefix */
    lab_vocabulary *vocabulary; /**< of characters; one of bytes leaves nothing in the file */
    lab_progress progress;
    const char *note; /**< UTF-8, the program's own: its settings, say */
    uint64_t reserved[8];
} lab_checkpoint_parts;

/**
 * Writes a checkpoint in place of what is there, as a whole or not at all.
 *
 * @param path   what is replaced
 * @param x      the model; stays the caller's
 * @param parts  what else is to be kept; all of it stays the caller's; NULL: nothing
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL, reserved words, a note that is no UTF-8), LAB_ERR_IO, LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_checkpoint_save(const char *path, lab_gpt *x, const lab_checkpoint_parts *parts);

/**
 * Reads a checkpoint. The note (lab_safetensors_metadata(file, "note")) may be read before, and tell how the optimiser
 * is to be made.
 *
 * @param file   from lab_safetensors_open; may be closed afterwards, but then parts' note is gone
 * @param x      receives the model, of the dtype it was saved with, owned by the caller (lab_gpt_free); all zero on
 *               failure
 * @param parts  optimizer: NULL, or one without steps, of the settings of the one that was saved, which is filled;
 *               vocabulary: receives one, of bytes if the file has no characters, owned by the caller; progress and
 *               note (which is the file's) are received too. NULL: the model alone
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL, reserved words), LAB_ERR_FORMAT (no checkpoint; what is missing, or has
 *         another shape, by name), what lab_gpt_init fails with, LAB_ERR_STATE (an optimiser of another model),
 *         LAB_ERR_MEMORY. On failure no state of the optimiser has been read.
 */
LAB_API LAB_CHECKED lab_status lab_checkpoint_load(const lab_safetensors *file, lab_gpt *x,
                                                   lab_checkpoint_parts *parts);

#ifdef __cplusplus
}
#endif
#endif
