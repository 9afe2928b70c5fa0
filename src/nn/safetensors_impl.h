/* safetensors_impl.h - between reader and writer: the types of elements, and turning one into another. */
#ifndef LAB_NN_SAFETENSORS_IMPL_H
#define LAB_NN_SAFETENSORS_IMPL_H

#include <stdbool.h>

#include "llmlab/safetensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little-endian, and so must be the machine");

/* Bytes of an element; 0 for LAB_STORED_OTHER, whose width the name alone tells. */
size_t lab__stored_size(lab_stored stored);
/* "F32", ...; static. */
const char *lab__stored_name(lab_stored stored);
/* From its name in a header; false if the format has no such type. `bytes` is of an element. */
bool lab__stored_of(const char *name, lab_stored *stored, size_t *bytes);

lab_stored lab__stored_as(lab_dtype dtype);
/* Whether a dtype holds all values of a stored type. */
bool lab__holds(lab_dtype dtype, lab_stored stored);

/* n elements, from a file's into memory's and back: lab__holds, or floats narrower. No alignment is asked of the file's
 * side. */
void lab__decode(void *out, lab_dtype dtype, const void *in, lab_stored stored, int64_t n);
void lab__encode(void *out, lab_stored stored, const void *in, lab_dtype dtype, int64_t n);

/* An entry has been copied: where the file is mapped, it need not be in memory twice. */
void lab__safetensors_done(const lab_safetensors *file, const lab_safetensors_entry *entry);

#endif
