/* SPDX-License-Identifier: MIT
 * llmlab/tokens.h - text as numbers: characters or bytes, token files, and windows drawn from them.
 */

/** @file
 * Tokens. lab_last_message() has the sentence of a failure. There are no derivatives.
 */
#ifndef LLMLAB_TOKENS_H
#define LLMLAB_TOKENS_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @name Vocabulary
 * Which number stands for which character.
 * @{
 */

/** The characters of a text, numbered in order of their code points from 0 on; or all 256 bytes. */
typedef struct lab_vocabulary lab_vocabulary;

/**
 * The characters that a text has.
 *
 * @param out    receives the vocabulary, owned by the caller (lab_vocabulary_destroy); NULL on failure
 * @param text   UTF-8; NULL: all 256 bytes, whatever they mean
 * @param bytes  how long it is
 * @return LAB_OK; LAB_ERR_ARGUMENT (out is NULL), LAB_ERR_RANGE (no text: 0 bytes), LAB_ERR_FORMAT (no UTF-8: the
 *         place), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_vocabulary_create(lab_vocabulary **out, const char *text, size_t bytes);

/**
 * A vocabulary again, from what lab_vocabulary_characters gave.
 *
 * @param out         receives the vocabulary, owned by the caller; NULL on failure
 * @param characters  i64 [n], code points in ascending order; NULL: all 256 bytes
 * @return LAB_OK; LAB_ERR_ARGUMENT (out is NULL), LAB_ERR_FORMAT (another dtype or shape, no code points, not
 * ascending, none), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_vocabulary_restore(lab_vocabulary **out, const lab_tensor *characters);

/** Gives a vocabulary back and nulls the pointer; NULL, or a pointer to it, is fine. */
LAB_API void lab_vocabulary_destroy(lab_vocabulary **vocabulary);

/** How many tokens there are; 0 for NULL. */
LAB_API int64_t lab_vocabulary_size(const lab_vocabulary *vocabulary);

/** The code points, i64 [n], owned by the vocabulary; NULL for a vocabulary of bytes, or NULL. */
LAB_API lab_tensor *lab_vocabulary_characters(const lab_vocabulary *vocabulary);

/**
 * A text's tokens.
 *
 * @param vocabulary  of characters or bytes
 * @param text        UTF-8, or bytes
 * @param bytes       how long it is
 * @param tokens      receives at most `bytes` numbers; may be NULL: they are only counted
 * @param count       receives how many they are; 0 on failure; may be NULL
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL), LAB_ERR_FORMAT (no UTF-8: the place), LAB_ERR_RANGE (a character that the
 *         vocabulary lacks, and its place)
 */
LAB_API LAB_CHECKED lab_status lab_vocabulary_encode(const lab_vocabulary *vocabulary, const char *text, size_t bytes,
                                                     int64_t *tokens, int64_t *count);

/** A token's bytes into `text`; how many there are, 1 to 4, or 0 for NULL, or a token that there is not. */
LAB_API int lab_vocabulary_decode(const lab_vocabulary *vocabulary, int64_t token, char text[4]);

/** @} */

/**
 * @name Tokens in files and in memory
 * @{
 */

/** How a token file has its numbers: one behind the other, little-endian, nothing else. */
typedef enum lab_token_type { LAB_TOKENS_U16 = 0, LAB_TOKENS_U32 } lab_token_type;

/** A long row of tokens, for reading. */
typedef struct lab_tokens lab_tokens;

/**
 * Maps a token file. (What lab_safetensors_open says of mapped files holds here too.)
 *
 * @param out   receives the tokens, owned by the caller (lab_tokens_close); NULL on failure
 * @param path  where it is
 * @param type  of its numbers
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL, no such type), LAB_ERR_IO, LAB_ERR_FORMAT (no whole number of tokens, or
 *         none), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_tokens_open(lab_tokens **out, const char *path, lab_token_type type);

/**
 * The tokens of a text.
 *
 * @param out         receives the tokens, owned by the caller (lab_tokens_close); NULL on failure
 * @param vocabulary  of the text
 * @param text        may go afterwards
 * @param bytes       how long it is
 * @return as lab_vocabulary_encode; LAB_ERR_RANGE also for an empty text; LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_tokens_from_text(lab_tokens **out, const lab_vocabulary *vocabulary,
                                                    const char *text, size_t bytes);

/** Gives tokens back and nulls the pointer; NULL, or a pointer to it, is fine. */
LAB_API void lab_tokens_close(lab_tokens **tokens);

/** How many tokens there are; 0 for NULL. */
LAB_API int64_t lab_tokens_count(const lab_tokens *tokens);

/** The largest token: all of them are looked at; -1 for NULL. */
LAB_API int64_t lab_tokens_largest(const lab_tokens *tokens);

/** Copies `count` tokens from `first` on. LAB_OK; LAB_ERR_ARGUMENT (NULL), LAB_ERR_RANGE (there are fewer). */
LAB_API LAB_CHECKED lab_status lab_tokens_read(const lab_tokens *tokens, int64_t first, int64_t count, int64_t *out);

/** Which windows lab_tokens_draw draws. `reserved` must be zero. */
typedef struct lab_window_opts {
    int64_t first, stop; /**< windows, targets included, lie in tokens first ... stop - 1; stop 0: to the end */
    int64_t length;      /**< tokens of a window */
    uint64_t seed;
    uint64_t reserved[8];
} lab_window_opts;

/**
 * Windows at random places, and what comes next at each of theirs.
 *
 * Window number `number` is a function of the tokens and the options: nothing is remembered between calls, and who
 * wants to go on later keeps the number of the next one.
 *
 * @param tokens   from lab_tokens_open or lab_tokens_from_text
 * @param opts     where from, and how long
 * @param number   of the first window, at least 0
 * @param rows     how many windows
 * @param inputs   receives [rows, length] tokens
 * @param targets  receives [rows, length] tokens: those one place on
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL, reserved words), LAB_ERR_RANGE (a number that is negative; length below 1; no
 *         room for a window and the token behind it)
 */
LAB_API LAB_CHECKED lab_status lab_tokens_draw(const lab_tokens *tokens, const lab_window_opts *opts, int64_t number,
                                               int64_t rows, int64_t *inputs, int64_t *targets);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
