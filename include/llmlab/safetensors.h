/* SPDX-License-Identifier: MIT
 * llmlab/safetensors.h - tensors in files that others read: the safetensors format, in both directions.
 *
 *     lab_safetensors_writer *w;                                      writing: whatever has a visit function
 *     status = lab_safetensors_writer_create(&w);
 *     status = lab_gpt_visit(&model, "model", lab_safetensors_add, w);
 *     status = lab_safetensors_save(w, "model.safetensors");
 *     lab_safetensors_writer_destroy(&w);
 *
 *     lab_safetensors *file;                                          reading: first all is looked at, then all is read
 *     status = lab_safetensors_open(&file, "model.safetensors");
 *     status = lab_gpt_visit(&model, "model", lab_safetensors_check, file);
 *     status = lab_gpt_visit(&model, "model", lab_safetensors_load, file);
 *     lab_safetensors_close(&file);
 *
 * The format: eight bytes with the length of a header, little-endian; the header, JSON, which gives each tensor's
 * dtype, shape and place; then the elements, row-major, without holes. https://github.com/huggingface/safetensors
 */

/** @file
 * safetensors. What holds for all functions here:
 *
 *   - **What is read is checked**: nothing in a file is believed before it is known to fit. LAB_ERR_FORMAT's sentence
 *     names the tensor and what is wrong with it: a header that is longer than the file, or than 100 MB, or no JSON in
 *     UTF-8, or nested too deep; a name that comes twice; a dtype that there is not; sizes that are negative or
 *     overflow; offsets that are missing, no integers, out of order, beyond the file, or of another length than the
 *     shape's; tensors that overlap, holes between them, bytes behind the last.
 *   - **What is written replaces a file as a whole.** It goes to a new file beside it, which is synced and renamed, and
 *     the folder synced: whenever the process or the machine stops, the path has the old file or the new one. A failure
 *     takes the new one away again.
 *   - lab_last_message() has the sentence of a failure. There are no derivatives.
 */
#ifndef LLMLAB_SAFETENSORS_H
#define LLMLAB_SAFETENSORS_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How elements lie in a file. */
typedef enum lab_stored {
    LAB_STORED_AS_IS = 0, /**< when written: as the tensor's dtype */
    LAB_STORED_F64,
    LAB_STORED_F32,
    LAB_STORED_F16,  /**< IEEE's half precision */
    LAB_STORED_BF16, /**< the upper half of an f32 */
    LAB_STORED_I64,
    LAB_STORED_I32,
    LAB_STORED_I16,
    LAB_STORED_I8,
    LAB_STORED_U64,
    LAB_STORED_U32,
    LAB_STORED_U16,
    LAB_STORED_U8,
    LAB_STORED_BOOL,
    LAB_STORED_OTHER /**< known to the format, but not to this library: 8-bit floats, complex numbers */
} lab_stored;

/** A tensor in a file. All of it belongs to the file, and goes when that is closed. */
typedef struct lab_safetensors_entry {
    const char *name;
    lab_stored stored;
    int rank;
    int64_t shape[LAB_MAX_RANK];
    const void *data; /**< the elements, row-major, of any alignment */
    size_t bytes;
} lab_safetensors_entry;

/** A file that is open for reading. */
typedef struct lab_safetensors lab_safetensors;

/**
 * Opens a file and checks all of its header. The elements are mapped, not read: a file that another program makes
 * shorter meanwhile (instead of replacing it) ends the process when they are, as mapped files do.
 *
 * @param out   receives the file, owned by the caller (lab_safetensors_close); NULL on failure
 * @param path  where it is
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL), LAB_ERR_IO (it cannot be opened or mapped, or is no regular file),
 *         LAB_ERR_FORMAT (see above), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_safetensors_open(lab_safetensors **out, const char *path);

/**
 * The same from memory: `bytes` bytes at `data`, which stay the caller's and must not change or go before the close.
 *
 * @param out    receives the file, owned by the caller (lab_safetensors_close); NULL on failure
 * @param data   what a file would hold; of any alignment
 * @param bytes  how many
 * @return as lab_safetensors_open, but LAB_ERR_IO
 */
LAB_API LAB_CHECKED lab_status lab_safetensors_from_memory(lab_safetensors **out, const void *data, size_t bytes);

/** Closes a file and nulls the pointer; NULL, or a pointer to it, is fine. */
LAB_API void lab_safetensors_close(lab_safetensors **file);

/** How many tensors there are; 0 for NULL. */
LAB_API int64_t lab_safetensors_count(const lab_safetensors *file);

/** Tensor `index`, in the order in which they lie; owned by the file; NULL for NULL, or an index that there is not. */
LAB_API const lab_safetensors_entry *lab_safetensors_at(const lab_safetensors *file, int64_t index);

/** The tensor of that name; owned by the file; NULL if there is none, or for NULL. */
LAB_API const lab_safetensors_entry *lab_safetensors_find(const lab_safetensors *file, const char *name);

/** The text under a key of the header's __metadata__; owned by the file; NULL if there is none, or for NULL. */
LAB_API const char *lab_safetensors_metadata(const lab_safetensors *file, const char *key);

/**
 * A tensor out of a file: f64, i64 and bool as they are, f32, f16 and bf16 as f32, shorter integers as i64.
 *
 * @param out   receives the tensor, owned by the caller; NULL on failure
 * @param file  from lab_safetensors_open
 * @param name  which one
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL, or there is no tensor of that name), LAB_ERR_UNSUPPORTED (LAB_STORED_U64 and
 *         _OTHER), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_safetensors_tensor(lab_tensor **out, const lab_safetensors *file, const char *name);

/**
 * A visitor that asks whether lab_safetensors_load would succeed, and reads nothing.
 *
 * @param name       the parameter's, and the tensor's in the file
 * @param parameter  where it is
 * @param ctx        a lab_safetensors
 * @return LAB_OK; LAB_ERR_FORMAT: the file has no tensor of that name, it has another shape, or elements that the
 *         parameter's dtype does not hold; LAB_ERR_ARGUMENT (NULL)
 */
LAB_API LAB_CHECKED lab_status lab_safetensors_check(const char *name, lab_tensor **parameter, void *ctx);

/**
 * A visitor that reads a parameter's elements: of its own dtype or one that it holds without loss (f16, bf16 and f32 in
 * f32, all floats in f64, integers up to 32 bits in i64). Moves the version.
 *
 * @param name       the parameter's, and the tensor's in the file
 * @param parameter  where it is; on failure it is as it was
 * @param ctx        a lab_safetensors
 * @return as lab_safetensors_check; LAB_ERR_STATE (a parameter whose strides overlap), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_safetensors_load(const char *name, lab_tensor **parameter, void *ctx);

/** What is to become a file. */
typedef struct lab_safetensors_writer lab_safetensors_writer;

/** A new, empty writer, owned by the caller (lab_safetensors_writer_destroy). LAB_OK; LAB_ERR_ARGUMENT (out is NULL),
 * LAB_ERR_MEMORY. */
LAB_API LAB_CHECKED lab_status lab_safetensors_writer_create(lab_safetensors_writer **out);

/** Gives a writer back and nulls the pointer; NULL, or a pointer to it, is fine. */
LAB_API void lab_safetensors_writer_destroy(lab_safetensors_writer **writer);

/** How floats that are added from now on are stored: as they are, f64, f32, or rounded to f16 or bf16 (to nearest,
 * ties to even). LAB_OK; LAB_ERR_ARGUMENT (NULL, or another type). */
LAB_API LAB_CHECKED lab_status lab_safetensors_writer_store(lab_safetensors_writer *writer, lab_stored stored);

/**
 * A visitor that adds a tensor. It is read when the file is saved, and must stay until then.
 *
 * @param name       its name in the file, in UTF-8; copied
 * @param parameter  where the tensor is; of any strides, a graph's too
 * @param ctx        a lab_safetensors_writer
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL; a name that is there already, is no UTF-8, or "__metadata__"), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_safetensors_add(const char *name, lab_tensor **parameter, void *ctx);

/** Puts a text under a key of __metadata__; both in UTF-8, copied. LAB_OK; LAB_ERR_ARGUMENT (NULL, or no UTF-8),
 * LAB_ERR_MEMORY. */
LAB_API LAB_CHECKED lab_status lab_safetensors_set_metadata(lab_safetensors_writer *writer, const char *key,
                                                            const char *text);

/**
 * Writes the file, as a whole or not at all. The writer stays as it is.
 *
 * @param writer  with all that is to be in it
 * @param path    what is replaced
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL), LAB_ERR_IO (the path, and what the system says;
 *         what is there and no regular file is not replaced), LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_safetensors_save(const lab_safetensors_writer *writer, const char *path);

#ifdef __cplusplus
}
#endif
#endif
