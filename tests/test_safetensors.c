/* test_safetensors.c - files of tensors: what is written is read back, and what is broken is refused by name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn_check.h"

static char folder[] = "/tmp/llmlab-safetensors-XXXXXX";
static char path[sizeof folder + 32];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void expect_failure(lab_status got, lab_status want, const char *word)
{
    if (got != want || !strstr(lab_last_message(), word))
        fail_msg("%s \"%s\", wanted %s and \"%s\"", lab_status_name(got), lab_last_message(), lab_status_name(want),
                 word);
}

/* ---- There and back -------------------------------------------------------------------------------------------------- */

enum { TENSORS = 9 };
static const char *const names[TENSORS] = {"f32",   "f64",    "i64",     "bool",  "rank 0",
                                           "empty", "rank 8", "strided", "žluť ☃"};

static void make_tensors(lab_tensor *t[TENSORS])
{
    uint64_t draws = draw_start("tensors");
    t[0] = leaf_drawn(&draws, LAB_F32, 2, (int64_t[]){3, 5}, 1);
    t[1] = leaf_drawn(&draws, LAB_F64, 1, (int64_t[]){7}, 1e300);
    t[2] = leaf_of_integers(1, (int64_t[]){3}, (int64_t[]){INT64_MIN, -1, INT64_MAX});
    t[3] = leaf_of_bools(1, (int64_t[]){3}, (bool[]){true, false, true});
    t[4] = leaf_drawn(&draws, LAB_F32, 0, NULL, 1);
    t[5] = leaf_drawn(&draws, LAB_F64, 2, (int64_t[]){0, 3}, 1);
    t[6] = leaf_drawn(&draws, LAB_F32, 8, (int64_t[]){1, 2, 1, 2, 1, 1, 2, 1}, 1);
    t[7] = leaf_strided(t[0]);
    t[8] = leaf_drawn(&draws, LAB_F32, 1, (int64_t[]){1}, 1);
}

static lab_safetensors_writer *writer_of(lab_tensor *t[TENSORS])
{
    lab_safetensors_writer *w;
    assert_int_equal(lab_safetensors_writer_create(&w), LAB_OK);
    for (int i = 0; i < TENSORS; i++)
        assert_int_equal(lab_safetensors_add(names[i], &t[i], w), LAB_OK);
    assert_int_equal(lab_safetensors_set_metadata(w, "format", "pt"), LAB_OK);
    assert_int_equal(lab_safetensors_set_metadata(w, "said", "\"\\\n☃"), LAB_OK);
    return w;
}

static void free_tensors(lab_tensor *t[TENSORS])
{
    for (int i = 0; i < TENSORS; i++)
        lab_tensor_destroy(&t[i]);
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    lab_tensor *t[TENSORS];
    lab_safetensors *file;
    make_tensors(t);
    lab_safetensors_writer *w = writer_of(t);
    for (int again = 0; again < 2; again++) /* over itself */
        assert_int_equal(lab_safetensors_save(w, path), LAB_OK);
    assert_int_equal(lab_safetensors_open(&file, path), LAB_OK);
    assert_int_equal(lab_safetensors_count(file), TENSORS);
    assert_string_equal(lab_safetensors_metadata(file, "said"), "\"\\\n☃");
    assert_null(lab_safetensors_metadata(file, "unsaid"));
    for (int i = 0; i < TENSORS; i++) {
        lab_tensor *read;
        const lab_safetensors_entry *e = lab_safetensors_find(file, names[i]);
        assert_non_null(e);
        assert_int_equal((uintptr_t)e->data % lab_dtype_size(lab_tensor_dtype(t[i])), 0);
        assert_int_equal(lab_safetensors_tensor(&read, file, names[i]), LAB_OK);
        assert_int_equal(lab_tensor_dtype(read), lab_tensor_dtype(t[i]));
        assert_int_equal(lab_tensor_rank(read), lab_tensor_rank(t[i]));
        for (int axis = 0; axis < lab_tensor_rank(read); axis++)
            assert_int_equal(lab_tensor_size(read, axis), lab_tensor_size(t[i], axis));
        expect_same(names[i], read, t[i]);
        lab_tensor_destroy(&read);
    }
    assert_null(lab_safetensors_find(file, "none"));
    assert_null(lab_safetensors_find(file, "__metadata__"));
    assert_null(lab_safetensors_at(file, TENSORS));
    lab_safetensors_close(&file);
    assert_null(file);
    lab_safetensors_writer_destroy(&w);
    free_tensors(t);
}

static void parameters_are_filled_by_name_whatever_their_strides(void **state)
{
    (void)state;
    lab_tensor *t[TENSORS], *fresh[TENSORS];
    lab_safetensors *file;
    make_tensors(t);
    lab_safetensors_writer *w = writer_of(t);
    assert_int_equal(lab_safetensors_save(w, path), LAB_OK);
    assert_int_equal(lab_safetensors_open(&file, path), LAB_OK);
    for (int i = 0; i < TENSORS; i++) {
        fresh[i] = i == 7 ? leaf_strided(t[0]) : NULL;
        assert_true(i == 7 || lab_tensor_clone(&fresh[i], t[i]) == LAB_OK);
        const size_t bytes = (size_t)lab_tensor_numel(t[i]) * lab_dtype_size(lab_tensor_dtype(t[i]));
        char *zeros = calloc(1, bytes + 1);
        assert_int_equal(lab_tensor_write(fresh[i], zeros, bytes), LAB_OK);
        free(zeros);
        assert_int_equal(lab_safetensors_check(names[i], &fresh[i], file), LAB_OK);
        assert_int_equal(lab_safetensors_load(names[i], &fresh[i], file), LAB_OK);
        expect_same(names[i], fresh[i], t[i]);
    }
    lab_tensor *wide;
    assert_int_equal(lab_tensor_create(&wide, LAB_F64, 2, (int64_t[]){3, 5}), LAB_OK);
    assert_int_equal(lab_safetensors_load("f32", &wide, file), LAB_OK);
    expect_same("f32 in f64", wide, t[0]);
    /* What does not fit is named, and nothing is written. */
    expect_failure(lab_safetensors_load("none", &fresh[0], file), LAB_ERR_FORMAT, "no tensor none f32 [3, 5]");
    expect_failure(lab_safetensors_load("f64", &fresh[0], file), LAB_ERR_FORMAT, "[7] in the file, and must be [3, 5]");
    expect_failure(lab_safetensors_load("bool", &fresh[2], file), LAB_ERR_FORMAT, "BOOL in the file, which i64");
    expect_failure(lab_safetensors_load("f64", NULL, file), LAB_ERR_ARGUMENT, "NULL");
    expect_failure(lab_safetensors_load("f64", &fresh[1], NULL), LAB_ERR_ARGUMENT, "NULL");
    lab_tensor *narrow;
    assert_int_equal(lab_tensor_create(&narrow, LAB_F32, 1, (int64_t[]){7}), LAB_OK);
    expect_failure(lab_safetensors_check("f64", &narrow, file), LAB_ERR_FORMAT, "F64 in the file, which f32");
    lab_tensor_destroy(&narrow);
    expect_failure(lab_safetensors_tensor(&narrow, file, "none"), LAB_ERR_ARGUMENT, "no tensor none");
    expect_same("untouched", fresh[0], t[0]);
    assert_null(narrow);
    lab_tensor_destroy(&wide);
    free_tensors(fresh);
    lab_safetensors_close(&file);
    lab_safetensors_writer_destroy(&w);
    free_tensors(t);
}

/* ---- Types ----------------------------------------------------------------------------------------------------------- */

/* A file in memory: one tensor "a" of this dtype and as many elements as the bytes hold. Freed by the caller. */
static unsigned char *file_of(const char *dtype, size_t element, const void *data, size_t bytes, size_t *size)
{
    char header[160];
    int length = snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}",
                          dtype, bytes / element, bytes);
    uint64_t length64 = (uint64_t)length;
    *size = 8 + (size_t)length + bytes;
    unsigned char *file = malloc(*size);
    assert_non_null(file);
    memcpy(file, &length64, 8);
    memcpy(file + 8, header, (size_t)length);
    memcpy(file + 8 + length, data, bytes);
    return file;
}

static lab_tensor *read_as(const char *dtype, size_t element, const void *data, size_t bytes)
{
    size_t size;
    lab_safetensors *file;
    lab_tensor *t;
    unsigned char *memory = file_of(dtype, element, data, bytes, &size);
    assert_int_equal(lab_safetensors_from_memory(&file, memory, size), LAB_OK);
    assert_int_equal(lab_safetensors_tensor(&t, file, "a"), LAB_OK);
    lab_safetensors_close(&file);
    free(memory);
    return t;
}

/* A short float by its definition. */
static double value_of(uint16_t bits, int exponent_bits)
{
    const int digits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1, last = (1 << exponent_bits) - 1;
    const int exponent = bits >> digits & last, fraction = bits & ((1 << digits) - 1);
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == last)
        return fraction ? NAN : sign * INFINITY;
    return exponent ? sign * ldexp(fraction + (1 << digits), exponent - bias - digits)
                    : sign * ldexp(fraction, 1 - bias - digits);
}

enum { SHORTS = 65536 };

static void every_short_float_is_read_as_its_value_and_written_as_itself(void **state)
{
    (void)state;
    static uint16_t all[SHORTS];
    for (int i = 0; i < SHORTS; i++)
        all[i] = (uint16_t)i;
    const lab_stored types[] = {LAB_STORED_F16, LAB_STORED_BF16};
    for (int type = 0; type < 2; type++) {
        const int exponent_bits = type == 0 ? 5 : 8;
        lab_tensor *t = read_as(type == 0 ? "F16" : "BF16", 2, all, sizeof all);
        assert_int_equal(lab_tensor_dtype(t), LAB_F32);
        const float *values = lab_tensor_data(t);
        for (int i = 0; i < SHORTS; i++) {
            const double want = value_of((uint16_t)i, exponent_bits);
            if (isnan(want) ? !isnan(values[i]) : values[i] != want || !signbit(values[i]) != !signbit(want))
                fail_msg("%04x is read as %g, and is %g", i, values[i], want);
        }
        lab_safetensors_writer *w;
        lab_safetensors *file;
        assert_int_equal(lab_safetensors_writer_create(&w), LAB_OK);
        assert_int_equal(lab_safetensors_writer_store(w, types[type]), LAB_OK);
        assert_int_equal(lab_safetensors_add("a", &t, w), LAB_OK);
        assert_int_equal(lab_safetensors_save(w, path), LAB_OK);
        assert_int_equal(lab_safetensors_open(&file, path), LAB_OK);
        const uint16_t *written = lab_safetensors_find(file, "a")->data;
        for (int i = 0; i < SHORTS; i++)
            if (isnan(value_of((uint16_t)i, exponent_bits)) ? !isnan(value_of(written[i], exponent_bits))
                                                            : written[i] != all[i])
                fail_msg("%04x comes back as %04x", i, written[i]);
        lab_safetensors_close(&file);
        lab_safetensors_writer_destroy(&w);
        lab_tensor_destroy(&t);
    }
}

/* Of two neighbours the nearer one, the even one in the middle; of doubles too, without a rounding in between. */
static void short_floats_are_rounded_to_nearest(void **state)
{
    (void)state;
    enum { N = 3 * 20000 };
    static double values[N];
    const lab_stored types[] = {LAB_STORED_F16, LAB_STORED_BF16};
    uint64_t draws = draw_start("round");
    for (int type = 0; type < 2; type++) {
        const int exponent_bits = type == 0 ? 5 : 8;
        const uint16_t infinite = type == 0 ? 0x7c00 : 0x7f80;
        for (int i = 0; i < N; i += 3) {
            const uint16_t low = (uint16_t)draw_size(&draws, 0, infinite - 2);
            const double a = value_of(low, exponent_bits), b = value_of((uint16_t)(low + 1), exponent_bits);
            values[i] = (a + b) / 2; /* and just beside it, nearer than a float can tell */
            values[i + 1] = nextafter(values[i], INFINITY);
            values[i + 2] = -nextafter(values[i], 0);
        }
        lab_tensor *t = leaf_of_doubles(LAB_F64, 1, (int64_t[]){N}, values);
        lab_safetensors_writer *w;
        lab_safetensors *file;
        assert_int_equal(lab_safetensors_writer_create(&w), LAB_OK);
        assert_int_equal(lab_safetensors_writer_store(w, types[type]), LAB_OK);
        assert_int_equal(lab_safetensors_add("a", &t, w), LAB_OK);
        assert_int_equal(lab_safetensors_save(w, path), LAB_OK);
        assert_int_equal(lab_safetensors_open(&file, path), LAB_OK);
        const uint16_t *written = lab_safetensors_find(file, "a")->data;
        for (int i = 0; i < N; i += 3) {
            const uint16_t low = written[i + 2] & 0x7fff, high = written[i + 1], middle = written[i];
            const double a = value_of(low, exponent_bits), b = value_of(high, exponent_bits);
            if (high != low + 1 || (a + b) / 2 != values[i] || (middle & 1) || (middle != low && middle != high))
                fail_msg("seed %llu: %a becomes %04x, just above %04x, just below %04x",
                         (unsigned long long)check_seed(), values[i], middle, high, low);
        }
        lab_safetensors_close(&file);
        lab_safetensors_writer_destroy(&w);
        lab_tensor_destroy(&t);
    }
}

static void integers_and_bools_are_widened(void **state)
{
    (void)state;
    const struct {
        const char *dtype;
        size_t element;
        int64_t value;
    } cases[] = {{"I8", 1, -128},         {"U8", 1, 255},         {"I16", 2, -32768},   {"U16", 2, 65535},
                 {"I32", 4, -2147483647}, {"U32", 4, 4294967295}, {"I64", 8, INT64_MIN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_tensor *t = read_as(cases[i].dtype, cases[i].element, &cases[i].value, cases[i].element);
        assert_int_equal(lab_tensor_dtype(t), LAB_I64);
        assert_int_equal(*(int64_t *)lab_tensor_data(t), cases[i].value);
        lab_tensor_destroy(&t);
    }
    lab_tensor *t = read_as("BOOL", 1, "\0\1\7", 3);
    assert_memory_equal(lab_tensor_data(t), "\0\1\1", 3);
    lab_tensor_destroy(&t);
    const char *const unknown[] = {"U64", "F8_E4M3", "F8_E5M2", "C64"};
    const size_t element[] = {8, 1, 1, 8};
    for (int i = 0; i < 4; i++) {
        size_t size;
        lab_safetensors *file;
        unsigned char *memory = file_of(unknown[i], element[i], "12345678", 8, &size);
        assert_int_equal(lab_safetensors_from_memory(&file, memory, size), LAB_OK); /* beside others it may stand */
        expect_failure(lab_safetensors_tensor(&t, file, "a"), LAB_ERR_UNSUPPORTED, "a is");
        assert_null(t);
        lab_safetensors_close(&file);
        free(memory);
    }
}

/* ---- Broken files ---------------------------------------------------------------------------------------------------- */

static unsigned char *bytes_of_file(size_t *size)
{
    FILE *f = fopen(path, "rb");
    struct stat about;
    assert_true(f && fstat(fileno(f), &about) == 0);
    *size = (size_t)about.st_size;
    unsigned char *memory = malloc(*size + 1);
    assert_int_equal(fread(memory, 1, *size, f), *size);
    fclose(f);
    return memory;
}

static unsigned char *good_file(size_t *size)
{
    lab_tensor *t[TENSORS];
    make_tensors(t);
    lab_safetensors_writer *w = writer_of(t);
    assert_int_equal(lab_safetensors_save(w, path), LAB_OK);
    lab_safetensors_writer_destroy(&w);
    free_tensors(t);
    return bytes_of_file(size);
}

/* In memory of exactly that size, so that a sanitizer sees who reads on. What opens has all its elements inside. */
static bool opens(const unsigned char *data, size_t size)
{
    lab_safetensors *file;
    unsigned char *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    lab_status status = lab_safetensors_from_memory(&file, copy, size);
    assert_true(status == LAB_OK || (status == LAB_ERR_FORMAT && !file && *lab_last_message()));
    for (int64_t i = 0; i < lab_safetensors_count(file); i++) {
        lab_tensor *t;
        const lab_safetensors_entry *e = lab_safetensors_at(file, i);
        const unsigned char *data_of = e->data;
        assert_true(data_of >= copy + 8 && data_of + e->bytes <= copy + size);
        status = lab_safetensors_tensor(&t, file, e->name);
        assert_true(status == LAB_OK || status == LAB_ERR_UNSUPPORTED);
        lab_tensor_destroy(&t);
    }
    const bool open = file;
    lab_safetensors_close(&file);
    free(copy);
    return open;
}

static void a_file_cut_off_anywhere_is_refused(void **state)
{
    (void)state;
    size_t size;
    unsigned char *data = good_file(&size);
    assert_true(opens(data, size));
    for (size_t length = 0; length < size; length++)
        assert_false(opens(data, length));
    data[size] = 0;
    assert_false(opens(data, size + 1));
    expect_failure(LAB_ERR_FORMAT, LAB_ERR_FORMAT, "1 bytes after the last tensor");
    free(data);
}

static void a_header_with_other_bytes_is_refused_or_makes_sense(void **state)
{
    (void)state;
    size_t size;
    unsigned char *data = good_file(&size);
    uint64_t draws = draw_start("bytes"), header;
    memcpy(&header, data, 8);
    const unsigned char values[] = {0, '0', '9', '-', '"', ',', '[', ']', '{', '}', 0xff, ' ', '\\'};
    int refused = 0;
    for (size_t at = 0; at < 8 + header; at++)
        for (size_t v = 0; v < sizeof values + 2; v++) {
            const unsigned char old = data[at];
            data[at] = v < sizeof values ? values[v] : (unsigned char)draw_size(&draws, 0, 255);
            refused += !opens(data, size);
            data[at] = old;
        }
    assert_true(refused > 1000);
    free(data);
}

static void refuse(const char *header, const void *data, size_t bytes, const char *word)
{
    unsigned char memory[1024];
    const uint64_t length = strlen(header);
    lab_safetensors *file;
    assert_true(8 + length + bytes <= sizeof memory);
    memcpy(memory, &length, 8);
    memcpy(memory + 8, header, length);
    memcpy(memory + 8 + length, data, bytes);
    expect_failure(lab_safetensors_from_memory(&file, memory, 8 + length + bytes), LAB_ERR_FORMAT, word);
    assert_null(file);
}

/* Beside those of tests/cases/open.md (O29). */
static void hostile_headers_are_refused_by_name(void **state)
{
    (void)state;
#define A(rest) "{\"a\":{\"dtype\":\"F32\"," rest "}}"
    const char zeros[16] = {0};
    refuse(" {}", zeros, 0, "does not begin with '{'");
    refuse("[]", zeros, 0, "does not begin with '{'");
    refuse("{}", zeros, 3, "3 bytes after the last tensor");
    refuse("{\"a\":7}", zeros, 0, "a is no object");
    refuse("{\"__metadata__\":7}", zeros, 0, "__metadata__ is no object");
    refuse("{\"__metadata__\":{\"k\":7}}", zeros, 0, "k is no text");
    refuse("{\"a\":{\"dtype\":1,\"shape\":[],\"data_offsets\":[0,4]}}", zeros, 4, "dtype is missing or no text");
    refuse(A("\"data_offsets\":[0,4]"), zeros, 4, "shape is missing");
    refuse(A("\"shape\":7,\"data_offsets\":[0,4]"), zeros, 4, "shape is missing or no list");
    refuse(A("\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]"), zeros, 4, "9 sizes, more than 8");
    refuse(A("\"shape\":[\"1\"],\"data_offsets\":[0,4]"), zeros, 4, "a size is not an integer");
    refuse(A("\"shape\":[-1],\"data_offsets\":[0,4]"), zeros, 4, "a size is negative (-1)");
    refuse(A("\"shape\":[4294967296,4294967296,4294967296],\"data_offsets\":[0,0]"), zeros, 0, "wraps");
    refuse(A("\"shape\":[9223372036854775807,9223372036854775807,0],\"data_offsets\":[0,0]"), zeros, 0, "wraps");
    refuse(A("\"shape\":[1],\"data_offsets\":[0,4,4]"), zeros, 4, "there are 3");
    refuse(A("\"shape\":[1],\"data_offsets\":{}"), zeros, 4, "two offsets");
    refuse(A("\"shape\":[1],\"data_offsets\":[-4,0]"), zeros, 4, "an offset is negative (-4)");
    refuse(A("\"shape\":[1],\"data_offsets\":[4,8]"), zeros, 8, "a hole");
    refuse(A("\"shape\":[1],\"data_offsets\":[9223372036854775803,9223372036854775807]"), zeros, 4, "past the end");
    refuse("{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,1]}}", zeros, 1, "unknown dtype F4");
    refuse("{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", zeros, 4, "JSON");
    refuse("{\"a\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
           zeros, 2, "overlapping");
#undef A
    lab_safetensors *file;
    expect_failure(lab_safetensors_from_memory(&file, NULL, 5), LAB_ERR_ARGUMENT, "NULL");
    expect_failure(lab_safetensors_from_memory(NULL, zeros, 5), LAB_ERR_ARGUMENT, "NULL");
    expect_failure(lab_safetensors_from_memory(&file, NULL, 0), LAB_ERR_FORMAT, "0 bytes");
    const unsigned char nothing[] = {2, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    assert_true(opens(nothing, sizeof nothing));
}

static void files_that_cannot_be_opened_are_named(void **state)
{
    (void)state;
    lab_safetensors *file;
    expect_failure(lab_safetensors_open(&file, "/tmp/no such folder/x"), LAB_ERR_IO, "/tmp/no such folder/x");
    expect_failure(lab_safetensors_open(&file, "/tmp"), LAB_ERR_IO, "no regular file");
    expect_failure(lab_safetensors_open(&file, "/dev/zero"), LAB_ERR_IO, "no regular file");
    expect_failure(lab_safetensors_open(&file, "/dev/null"), LAB_ERR_IO, "no regular file");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fclose(f);
    expect_failure(lab_safetensors_open(&file, path), LAB_ERR_FORMAT, "0 bytes, shorter");
    expect_failure(lab_safetensors_open(NULL, path), LAB_ERR_ARGUMENT, "NULL");
    expect_failure(lab_safetensors_open(&file, NULL), LAB_ERR_ARGUMENT, "NULL");
    assert_null(file);
    lab_safetensors_close(&file);
    lab_safetensors_close(NULL);
    assert_int_equal(lab_safetensors_count(NULL), 0);
    assert_null(lab_safetensors_at(NULL, 0));
    assert_null(lab_safetensors_find(NULL, "a"));
    assert_null(lab_safetensors_metadata(NULL, "a"));
}

static void what_a_file_cannot_hold_is_refused_by_the_writer(void **state)
{
    (void)state;
    lab_tensor *t = leaf_of_doubles(LAB_F32, 0, NULL, (double[]){1}), *none = NULL;
    lab_safetensors_writer *w;
    assert_int_equal(lab_safetensors_writer_create(&w), LAB_OK);
    assert_int_equal(lab_safetensors_add("a", &t, w), LAB_OK);
    expect_failure(lab_safetensors_add("a", &t, w), LAB_ERR_ARGUMENT, "a already");
    expect_failure(lab_safetensors_add("__metadata__", &t, w), LAB_ERR_ARGUMENT, "__metadata__");
    expect_failure(lab_safetensors_add("\xff", &t, w), LAB_ERR_ARGUMENT, "UTF-8");
    expect_failure(lab_safetensors_add("b", &none, w), LAB_ERR_ARGUMENT, "b is NULL");
    expect_failure(lab_safetensors_add(NULL, &t, w), LAB_ERR_ARGUMENT, "NULL");
    expect_failure(lab_safetensors_add("b", &t, NULL), LAB_ERR_ARGUMENT, "NULL");
    expect_failure(lab_safetensors_set_metadata(w, "\xff", "b"), LAB_ERR_ARGUMENT, "UTF-8");
    expect_failure(lab_safetensors_set_metadata(w, "b", "\xff"), LAB_ERR_ARGUMENT, "UTF-8");
    expect_failure(lab_safetensors_set_metadata(w, NULL, "b"), LAB_ERR_ARGUMENT, "NULL");
    expect_failure(lab_safetensors_writer_store(w, LAB_STORED_I8), LAB_ERR_ARGUMENT, "f64, f32, f16");
    expect_failure(lab_safetensors_writer_store(NULL, LAB_STORED_F32), LAB_ERR_ARGUMENT, "NULL");
    expect_failure(lab_safetensors_writer_create(NULL), LAB_ERR_ARGUMENT, "NULL");
    expect_failure(lab_safetensors_save(NULL, path), LAB_ERR_ARGUMENT, "NULL");
    expect_failure(lab_safetensors_save(w, NULL), LAB_ERR_ARGUMENT, "NULL");
    expect_failure(lab_safetensors_save(w, "/tmp/no such folder/x"), LAB_ERR_IO, "/tmp/no such folder/x");
    expect_failure(lab_safetensors_save(w, folder), LAB_ERR_IO, folder);
    struct stat pipe;
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_failure(lab_safetensors_save(w, path), LAB_ERR_IO, "no regular file");
    assert_true(stat(path, &pipe) == 0 && S_ISFIFO(pipe.st_mode));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(lab_safetensors_save(w, path), LAB_OK); /* the first one alone */
    lab_safetensors *file;
    assert_int_equal(lab_safetensors_open(&file, path), LAB_OK);
    assert_int_equal(lab_safetensors_count(file), 1);
    lab_safetensors_close(&file);
    lab_safetensors_writer_destroy(&w);
    lab_safetensors_writer_destroy(&w);
    lab_safetensors_writer_destroy(NULL);
    lab_tensor_destroy(&t);
}

static int64_t pages_of_files(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long long of_files = 0;
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %*d %lld", &of_files), 1);
    fclose(f);
    return of_files;
}

/* A model of gigabytes is not in memory twice while it is loaded: what has been copied is let go. */
static void what_has_been_read_is_not_held(void **state)
{
    (void)state;
    enum { MEGABYTES = 8, NUMBERS = MEGABYTES << 18 };
    const int64_t slack = ((int64_t)2 << 20) / sysconf(_SC_PAGESIZE);
    lab_safetensors_writer *w;
    lab_safetensors *file;
    lab_tensor *t, *own = NULL;
    uint64_t draws = draw_start("held");
    t = leaf_drawn(&draws, LAB_F32, 1, (int64_t[]){NUMBERS}, 1);
    assert_int_equal(lab_safetensors_writer_create(&w), LAB_OK);
    assert_int_equal(lab_safetensors_add("t", &t, w), LAB_OK);
    assert_int_equal(lab_safetensors_save(w, path), LAB_OK);
    assert_int_equal(lab_safetensors_open(&file, path), LAB_OK);
    const int64_t before = pages_of_files();
    assert_int_equal(lab_safetensors_tensor(&own, file, "t"), LAB_OK);
    assert_true(pages_of_files() < before + slack);
    assert_int_equal(lab_safetensors_load("t", &own, file), LAB_OK);
    assert_true(pages_of_files() < before + slack);
    assert_memory_equal(lab_tensor_data(own), lab_safetensors_find(file, "t")->data, sizeof(float) * NUMBERS);
    assert_memory_equal(lab_tensor_data(own), lab_tensor_data(t), sizeof(float) * NUMBERS);
    lab_safetensors_close(&file);
    lab_safetensors_writer_destroy(&w);
    lab_tensor_destroy(&t);
    lab_tensor_destroy(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(parameters_are_filled_by_name_whatever_their_strides),
        cmocka_unit_test(every_short_float_is_read_as_its_value_and_written_as_itself),
        cmocka_unit_test(short_floats_are_rounded_to_nearest),
        cmocka_unit_test(integers_and_bools_are_widened),
        cmocka_unit_test(a_file_cut_off_anywhere_is_refused),
        cmocka_unit_test(a_header_with_other_bytes_is_refused_or_makes_sense),
        cmocka_unit_test(hostile_headers_are_refused_by_name),
        cmocka_unit_test(files_that_cannot_be_opened_are_named),
        cmocka_unit_test(what_a_file_cannot_hold_is_refused_by_the_writer),
        cmocka_unit_test(what_has_been_read_is_not_held),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder) != 0;
}
