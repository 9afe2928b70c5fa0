/* file.c - files as a whole: mapped for reading, or replaced by new ones.
 *
 * A file is never written where it is. Its successor is written beside it, synced, and renamed over it; then the folder
 * is synced, since a rename is the folder's. Whoever stops in between leaves the old file, and perhaps a temporary one.
 */
#include "file_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn_impl.h"

static lab_status failed(const char *path, const char *what)
{
    char buffer[128];
    const int number = errno;
    return lab__fail(LAB_ERR_IO, "%s: %s: %s", path, what, strerror_r(number, buffer, sizeof buffer));
}

/* ---- Reading --------------------------------------------------------------------------------------------------------- */

lab_status lab__file_map(const char *path, void **data, size_t *bytes)
{
    struct stat about;
    *data = NULL;
    *bytes = 0;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return failed(path, "cannot be opened");
    lab_status status = fstat(descriptor, &about) == 0 ? LAB_OK : failed(path, "cannot be looked at");
    if (status == LAB_OK && !S_ISREG(about.st_mode))
        status = lab__fail(LAB_ERR_IO, "%s: is no regular file", path);
    if (status == LAB_OK && about.st_size > 0) {
        *bytes = (size_t)about.st_size;
        *data = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (*data == MAP_FAILED) {
            status = failed(path, "cannot be mapped");
            *data = NULL;
            *bytes = 0;
        }
    }
    close(descriptor);
    return status;
}

void lab__file_unmap(void *data, size_t bytes)
{
    if (bytes)
        munmap(data, bytes);
}

/* Whole pages only: at the edges others may be reading. */
void lab__file_done(const void *data, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)data, end = begin + bytes;
    const uintptr_t first = (begin + page - 1) / page * page, stop = end / page * page;
    if (stop > first)
        (void)madvise((void *)first, stop - first, MADV_DONTNEED);
}

/* ---- Writing --------------------------------------------------------------------------------------------------------- */

/* Beside the file, since a rename stays on its device. The name is one that no other writer uses meanwhile. What is not
 * a file (/dev/null, say) stays: a rename would put a file in its place. */
lab_status lab__file_create(file_writer *w, const char *path)
{
    static atomic_uint count;
    enum { MORE = 48 };
    *w = (file_writer){.path = path, .descriptor = -1, .temporary_bytes = strlen(path) + MORE};
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return lab__fail(LAB_ERR_IO, "%s: it is no regular file, and stays what it is", path);
    w->temporary = lab__allocate(w->temporary_bytes);
    if (!w->temporary)
        return lab__fail(LAB_ERR_MEMORY, "%s: no memory to write it", path);
    snprintf(w->temporary, w->temporary_bytes, "%s.%ld.%u.tmp", path, (long)getpid(), atomic_fetch_add(&count, 1));
    w->descriptor = open(w->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (w->descriptor >= 0)
        return LAB_OK;
    lab_status status = failed(w->temporary, "cannot be created");
    lab__release(w->temporary, w->temporary_bytes);
    w->temporary = NULL;
    return status;
}

lab_status lab__file_write(file_writer *w, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        const size_t most = bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30;
        const ssize_t written = write(w->descriptor, from, most);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return failed(w->path, "cannot be written");
        from += written;
        bytes -= (size_t)written;
    }
    return LAB_OK;
}

/* The folder's name is made where the temporary file's was: there is room, and nothing that can fail. */
static lab_status sync_folder(file_writer *w)
{
    char *folder = w->temporary, *slash = strrchr(folder, '/');
    if (slash)
        slash[1] = 0;
    else
        memcpy(folder, ".", 2);
    const int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    lab_status status = descriptor >= 0 ? LAB_OK : failed(folder, "cannot be opened");
    if (status == LAB_OK && fsync(descriptor) != 0 &&
        errno != EINVAL) /* EINVAL: a file system that has no such thing */
        status = failed(folder, "cannot be synced");
    if (descriptor >= 0)
        close(descriptor);
    return status;
}

lab_status lab__file_replace(file_writer *w)
{
    if (fsync(w->descriptor) != 0)
        return failed(w->path, "cannot be synced");
    const int closed = close(w->descriptor);
    w->descriptor = -1;
    if (closed != 0)
        return failed(w->path, "cannot be closed");
    if (rename(w->temporary, w->path) != 0)
        return failed(w->path, "cannot be replaced");
    lab_status status = sync_folder(w);
    lab__release(w->temporary, w->temporary_bytes);
    w->temporary = NULL;
    return status;
}

void lab__file_abandon(file_writer *w)
{
    if (w->descriptor >= 0)
        close(w->descriptor);
    if (w->temporary) {
        unlink(w->temporary);
        lab__release(w->temporary, w->temporary_bytes);
    }
    *w = (file_writer){.descriptor = -1};
}
