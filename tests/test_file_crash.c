/* test_file_crash.c - a file that is replaced is the old one or the new one, whatever call fails or is the last.
 *
 * The system calls that write are wrapped: any of them can be made to fail, or to be the process's end.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nn_check.h"

static char folder[] = "/tmp/llmlab-crash-XXXXXX";
static char path[sizeof folder + 32];

/* ---- System calls ---------------------------------------------------------------------------------------------------- */

typedef enum fate { FINE, FAILS, IS_THE_LAST } fate;

static struct {
    int calls, at; /* the call of this number, from 1 on, meets its fate */
    fate fate;
    char order[64]; /* w, s (fsync), r, in the order of the calls; writes once */
} system_calls;

static bool meets_its_fate(char letter)
{
    size_t length = strlen(system_calls.order);
    if (length + 1 < sizeof system_calls.order && (letter != 'w' || !length || system_calls.order[length - 1] != 'w'))
        system_calls.order[length] = letter;
    if (++system_calls.calls != system_calls.at || system_calls.fate == FINE)
        return false;
    if (system_calls.fate == IS_THE_LAST)
        _exit(0);
    errno = ENOSPC;
    return true;
}

ssize_t __real_write(int descriptor, const void *data, size_t bytes);
ssize_t __wrap_write(int descriptor, const void *data, size_t bytes);
int __real_fsync(int descriptor);
int __wrap_fsync(int descriptor);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);

/* Half of it at a time, as a system may. */
ssize_t __wrap_write(int descriptor, const void *data, size_t bytes)
{
    return meets_its_fate('w') ? -1 : __real_write(descriptor, data, bytes > 64 ? bytes / 2 : bytes);
}

int __wrap_fsync(int descriptor)
{
    return meets_its_fate('s') ? -1 : __real_fsync(descriptor);
}

int __wrap_rename(const char *from, const char *to)
{
    return meets_its_fate('r') ? -1 : __real_rename(from, to);
}

/* ---- Files ----------------------------------------------------------------------------------------------------------- */

enum { SIZE = 600 };

static lab_status save(double value)
{
    lab_tensor *t;
    lab_safetensors_writer *w;
    assert_int_equal(lab_tensor_create(&t, LAB_F32, 1, (int64_t[]){SIZE}), LAB_OK);
    assert_int_equal(lab_init_constant(t, value), LAB_OK);
    assert_int_equal(lab_safetensors_writer_create(&w), LAB_OK);
    assert_int_equal(lab_safetensors_add("t", &t, w), LAB_OK);
    lab_status status = lab_safetensors_save(w, path);
    lab_safetensors_writer_destroy(&w);
    lab_tensor_destroy(&t);
    return status;
}

/* The file is whole, and all of it is this. */
static float value_in_file(void)
{
    lab_tensor *t;
    lab_safetensors *file;
    assert_int_equal(lab_safetensors_open(&file, path), LAB_OK);
    assert_int_equal(lab_safetensors_tensor(&t, file, "t"), LAB_OK);
    const float value = *(float *)lab_tensor_data(t);
    expect_all("file", t, value);
    lab_tensor_destroy(&t);
    lab_safetensors_close(&file);
    return value;
}

static int files_in_folder(bool remove_temporary)
{
    DIR *d = opendir(folder);
    int count = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        count += e->d_name[0] != '.';
        if (remove_temporary && strstr(e->d_name, ".tmp"))
            assert_int_equal(unlinkat(dirfd(d), e->d_name, 0), 0);
    }
    closedir(d);
    return count;
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    return save(1) != LAB_OK;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static int calls_of_a_save(double value)
{
    memset(&system_calls, 0, sizeof system_calls);
    assert_int_equal(save(value), LAB_OK);
    return system_calls.calls;
}

/* ---- Tests ----------------------------------------------------------------------------------------------------------- */

static void the_file_is_synced_before_it_is_renamed_and_the_folder_after(void **state)
{
    (void)state;
    calls_of_a_save(1);
    assert_string_equal(system_calls.order, "wsrs");
    assert_int_equal(files_in_folder(false), 1);
}

static void a_call_that_fails_leaves_the_old_file_and_no_other(void **state)
{
    (void)state;
    const int calls = calls_of_a_save(1);
    assert_true(calls > 5);
    for (int at = 1; at <= calls; at++) {
        system_calls.calls = 0;
        system_calls.at = at;
        system_calls.fate = FAILS;
        const lab_status status = save(2);
        assert_int_equal(status, LAB_ERR_IO);
        assert_non_null(strstr(lab_last_message(), "No space"));
        assert_int_equal(files_in_folder(false), 1);
        system_calls.fate = FINE;
        assert_true(value_in_file() == (at < calls ? 1 : 2)); /* the last is the folder's sync */
    }
    assert_int_equal(save(3), LAB_OK);
    assert_true(value_in_file() == 3);
}

static void a_process_that_ends_anywhere_leaves_the_old_file_or_the_new(void **state)
{
    (void)state;
    const int calls = calls_of_a_save(4);
    int old = 0, new = 0;
    for (int at = 1; at <= calls + 1; at++) {
        assert_int_equal(save(4), LAB_OK);
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            system_calls.calls = 0;
            system_calls.at = at;
            system_calls.fate = IS_THE_LAST;
            _exit(save(5) != LAB_OK);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        const float value = value_in_file();
        assert_true(value == 4 || value == 5);
        old += value == 4;
        new += value == 5;
        files_in_folder(true); /* what the child has left */
    }
    assert_int_equal(old, calls - 1); /* all but after the rename */
    assert_int_equal(new, 2);
}

static struct {
    int64_t calls, fail_at, held;
} memory;

static void *allocate(size_t bytes, size_t alignment, void *ctx)
{
    (void)ctx;
    void *got = NULL;
    if (++memory.calls == memory.fail_at)
        return NULL;
    alignment = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    if (posix_memalign(&got, alignment, bytes ? bytes : 1) != 0)
        return NULL;
    memory.held++;
    return got;
}

static void release(void *data, size_t bytes, void *ctx)
{
    (void)bytes;
    (void)ctx;
    memory.held--;
    free(data);
}

/* Tensors that do not lie as they are written, so that there is something to ask for. */
static lab_status save_and_open(lab_tensor *t, lab_tensor *fill)
{
    lab_safetensors_writer *w = NULL;
    lab_safetensors *file = NULL;
    lab_tensor *read = NULL;
    lab_status status = lab_safetensors_writer_create(&w);
    if (status == LAB_OK)
        status = lab_safetensors_writer_store(w, LAB_STORED_F16);
    if (status == LAB_OK)
        status = lab_safetensors_add("t", &t, w);
    if (status == LAB_OK)
        status = lab_safetensors_set_metadata(w, "k", "v");
    if (status == LAB_OK)
        status = lab_safetensors_save(w, path);
    if (status == LAB_OK)
        status = lab_safetensors_open(&file, path);
    if (status == LAB_OK)
        status = lab_safetensors_tensor(&read, file, "t");
    if (status == LAB_OK)
        status = lab_safetensors_load("t", &fill, file);
    lab_tensor_destroy(&read);
    lab_safetensors_close(&file);
    lab_safetensors_writer_destroy(&w);
    return status;
}

static void without_memory_nothing_is_lost(void **state)
{
    (void)state;
    uint64_t draws = draw_start("memory");
    assert_int_equal(lab_set_allocator(&(lab_allocator){allocate, release, NULL}), LAB_OK);
    lab_tensor *t = leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){7, 5}, 1), *strided = leaf_strided(t);
    const int64_t held = memory.held;
    int failures = 0;
    for (bool done = false; !done; failures += !done) {
        memory.fail_at = memory.calls + failures + 1;
        lab_status status = save_and_open(strided, strided);
        done = memory.calls < memory.fail_at;
        memory.fail_at = 0;
        assert_int_equal(status, done ? LAB_OK : LAB_ERR_MEMORY);
        assert_int_equal(memory.held, held);
        assert_int_equal(files_in_folder(false), 1);
    }
    assert_true(failures >= 8);
    lab_tensor_destroy(&strided);
    lab_tensor_destroy(&t);
    assert_int_equal(lab_set_allocator(NULL), LAB_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_is_synced_before_it_is_renamed_and_the_folder_after),
        cmocka_unit_test(a_call_that_fails_leaves_the_old_file_and_no_other),
        cmocka_unit_test(a_process_that_ends_anywhere_leaves_the_old_file_or_the_new),
        cmocka_unit_test(without_memory_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder) != 0;
}
