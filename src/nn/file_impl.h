/* file_impl.h - files as a whole: mapped for reading, or replaced by new ones. */
#ifndef LAB_NN_FILE_IMPL_H
#define LAB_NN_FILE_IMPL_H

#include <stddef.h>

#include "llmlab/status.h"

/* All of a regular file, for reading; NULL where it is empty. LAB_ERR_IO. */
lab_status lab__file_map(const char *path, void **data, size_t *bytes);
void lab__file_unmap(void *data, size_t bytes);
/* Of a mapped file: these bytes have been read. Their pages are no longer held in memory for this process; whoever
 * reads them again gets them again. */
void lab__file_done(const void *data, size_t bytes);

/* A file that is to take the place of `path`. It lies beside it until lab__file_replace has put it there, synced. */
typedef struct file_writer {
    const char *path; /* the caller's, until the end */
    char *temporary;
    size_t temporary_bytes;
    int descriptor;
} file_writer;

/* LAB_ERR_IO, LAB_ERR_MEMORY. After a failure of write or replace, and only then, comes lab__file_abandon. */
lab_status lab__file_create(file_writer *w, const char *path);
lab_status lab__file_write(file_writer *w, const void *data, size_t bytes);
lab_status lab__file_replace(file_writer *w);
/* Takes the new file away. */
void lab__file_abandon(file_writer *w);

#endif
