/* test_tokens.c - text as numbers and back, token files, and windows that are a function of their number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn_check.h"

static char path[] = "/tmp/llmlab-tokens-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    const int descriptor = mkstemp(path);
    return descriptor < 0 || close(descriptor) != 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void expect_failure(lab_status got, lab_status want, const char *word)
{
    if (got != want || !strstr(lab_last_message(), word))
        fail_msg("%s \"%s\", wanted %s and \"%s\"", lab_status_name(got), lab_last_message(), lab_status_name(want),
                 word);
}

/* ---- Vocabulary ------------------------------------------------------------------------------------------------------ */

static void characters_are_numbered_by_their_code_points_and_come_back(void **state)
{
    (void)state;
    static const char text[] = "b☃a\0é\U0010ffff b";
    const size_t bytes = sizeof text - 1;
    lab_vocabulary *v, *again, *all;
    assert_int_equal(lab_vocabulary_create(&v, text, bytes), LAB_OK);
    assert_int_equal(lab_vocabulary_size(v), 7);
    assert_int_equal(lab_vocabulary_restore(&again, lab_vocabulary_characters(v)), LAB_OK);
    assert_int_equal(lab_vocabulary_create(&all, NULL, 0), LAB_OK);
    assert_int_equal(lab_vocabulary_size(all), 256);
    assert_null(lab_vocabulary_characters(all));
    const lab_vocabulary *each[] = {v, again, all};
    const int64_t want[] = {3, 5, 2, 0, 4, 6, 1, 3};
    for (int i = 0; i < 3; i++) {
        int64_t tokens[64], count;
        char back[64];
        size_t length = 0;
        assert_int_equal(lab_vocabulary_encode(each[i], text, bytes, tokens, &count), LAB_OK);
        assert_int_equal(count, i < 2 ? 8 : (int64_t)bytes);
        assert_true(i == 2 || memcmp(tokens, want, sizeof want) == 0);
        for (int64_t k = 0; k < count; k++)
            length += (size_t)lab_vocabulary_decode(each[i], tokens[k], back + length);
        assert_int_equal(length, bytes);
        assert_memory_equal(back, text, bytes);
    }
    char none[4];
    assert_int_equal(lab_vocabulary_decode(v, 7, none) + lab_vocabulary_decode(v, -1, none), 0);
    assert_int_equal(lab_vocabulary_decode(NULL, 0, none), 0);
    int64_t count = 7;
    expect_failure(lab_vocabulary_encode(v, "abc", 3, NULL, &count), LAB_ERR_RANGE, "c (U+0063, byte 2)");
    assert_int_equal(count, 0);
    expect_failure(lab_vocabulary_encode(v, "a\xff", 2, NULL, NULL), LAB_ERR_FORMAT, "byte 1");
    expect_failure(lab_vocabulary_encode(NULL, "a", 1, NULL, NULL), LAB_ERR_ARGUMENT, "NULL");
    lab_vocabulary_destroy(&v);
    expect_failure(lab_vocabulary_create(&v, "", 0), LAB_ERR_RANGE, "empty");
    assert_null(v);
    lab_vocabulary_destroy(&again);
    lab_vocabulary_destroy(&all);
    lab_vocabulary_destroy(&all);
}

/* Cut off, too long, surrogates, beyond the last: none of it is a character. */
static void text_that_is_no_utf8_is_refused_with_its_place(void **state)
{
    (void)state;
    const char *const bad[] = {"\x80",
                               "\xc3",
                               "\xc3(",
                               "\xe2\x98",
                               "\xe2(\xa1",
                               "\xf0\x9f\x98",
                               "\xc0\x80",
                               "\xc1\xbf",
                               "\xe0\x80\x80",
                               "\xe0\x9f\xbf",
                               "\xf0\x80\x80\x80",
                               "\xf0\x8f\xbf\xbf",
                               "\xed\xa0\x80",
                               "\xed\xbf\xbf",
                               "\xf4\x90\x80\x80",
                               "\xf5\x80\x80\x80",
                               "\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[16];
        lab_vocabulary *v;
        snprintf(text, sizeof text, "ab%s", bad[i]);
        char *exact = malloc(strlen(text)); /* so that a sanitizer sees who reads on */
        memcpy(exact, text, strlen(text));
        expect_failure(lab_vocabulary_create(&v, exact, strlen(text)), LAB_ERR_FORMAT, "byte 2 ");
        assert_null(v);
        free(exact);
    }
    lab_vocabulary *v;
    lab_tensor *t = leaf_of_integers(1, (int64_t[]){2}, (int64_t[]){5, 5});
    expect_failure(lab_vocabulary_restore(&v, t), LAB_ERR_FORMAT, "ascending");
    *(int64_t *)lab_tensor_data(t) = -1;
    expect_failure(lab_vocabulary_restore(&v, t), LAB_ERR_FORMAT, "no code point");
    lab_tensor_destroy(&t);
    t = leaf_of_doubles(LAB_F32, 1, (int64_t[]){1}, (double[]){65});
    expect_failure(lab_vocabulary_restore(&v, t), LAB_ERR_FORMAT, "f32 [1]");
    lab_tensor_destroy(&t);
}

/* ---- Tokens ---------------------------------------------------------------------------------------------------------- */

static void write_file(const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(data, 1, bytes, f) == bytes);
    fclose(f);
}

static void token_files_are_read_and_broken_ones_refused(void **state)
{
    (void)state;
    const uint16_t narrow[] = {7, 0, 65535};
    const uint32_t wide[] = {4294967295, 3, 70000};
    int64_t read[3];
    lab_tokens *t;
    write_file(narrow, sizeof narrow);
    assert_int_equal(lab_tokens_open(&t, path, LAB_TOKENS_U16), LAB_OK);
    assert_int_equal(lab_tokens_count(t), 3);
    assert_int_equal(lab_tokens_largest(t), 65535);
    assert_int_equal(lab_tokens_read(t, 0, 3, read), LAB_OK);
    assert_true(read[0] == 7 && read[1] == 0 && read[2] == 65535);
    expect_failure(lab_tokens_read(t, 1, 3, read), LAB_ERR_RANGE, "there are 3");
    expect_failure(lab_tokens_read(t, -1, 1, read), LAB_ERR_RANGE, "there are 3");
    expect_failure(lab_tokens_read(t, INT64_MAX, INT64_MAX, read), LAB_ERR_RANGE, "there are 3");
    lab_tokens_close(&t);
    expect_failure(lab_tokens_open(&t, path, LAB_TOKENS_U32), LAB_ERR_FORMAT, "6 bytes");
    write_file(wide, sizeof wide);
    assert_int_equal(lab_tokens_open(&t, path, LAB_TOKENS_U32), LAB_OK);
    assert_int_equal(lab_tokens_read(t, 0, 3, read), LAB_OK);
    assert_true(read[0] == 4294967295 && read[1] == 3 && read[2] == 70000);
    lab_tokens_close(&t);
    write_file(wide, 0);
    expect_failure(lab_tokens_open(&t, path, LAB_TOKENS_U16), LAB_ERR_FORMAT, "no tokens");
    expect_failure(lab_tokens_open(&t, "/tmp/no such file", LAB_TOKENS_U16), LAB_ERR_IO, "/tmp/no such file");
    expect_failure(lab_tokens_open(&t, path, (lab_token_type)2), LAB_ERR_ARGUMENT, "type");
    expect_failure(lab_tokens_open(&t, NULL, LAB_TOKENS_U16), LAB_ERR_ARGUMENT, "path");
    assert_null(t);
    lab_tokens_close(&t);
    assert_int_equal(lab_tokens_count(NULL), 0);
    assert_int_equal(lab_tokens_largest(NULL), -1);
}

static void windows_lie_inside_and_are_a_function_of_their_number(void **state)
{
    (void)state;
    enum { N = 40, LENGTH = 5, ROWS = 500 };
    char text[N];
    for (int i = 0; i < N; i++)
        text[i] = (char)i;
    lab_vocabulary *v;
    lab_tokens *t;
    assert_int_equal(lab_vocabulary_create(&v, NULL, 0), LAB_OK);
    assert_int_equal(lab_tokens_from_text(&t, v, text, N), LAB_OK);
    const lab_window_opts opts = {.first = 10, .stop = 30, .length = LENGTH, .seed = check_seed()};
    static int64_t inputs[ROWS * LENGTH], targets[ROWS * LENGTH], one[LENGTH], next[LENGTH];
    int met[N] = {0};
    assert_int_equal(lab_tokens_draw(t, &opts, 0, ROWS, inputs, targets), LAB_OK);
    for (int64_t r = 0; r < ROWS; r++) {
        met[inputs[r * LENGTH]]++;
        for (int i = 0; i < LENGTH; i++) {
            assert_int_equal(inputs[r * LENGTH + i], inputs[r * LENGTH] + i);
            assert_int_equal(targets[r * LENGTH + i], inputs[r * LENGTH] + i + 1);
        }
        assert_int_equal(lab_tokens_draw(t, &opts, r, 1, one, next), LAB_OK);
        assert_memory_equal(one, inputs + r * LENGTH, sizeof one);
    }
    for (int i = 0; i < N; i++) /* 15 places, each 33 times on average */
        assert_true(i >= 10 && i < 25 ? met[i] > 5 : met[i] == 0);
    lab_window_opts other = opts;
    other.seed++;
    assert_int_equal(lab_tokens_draw(t, &other, 0, ROWS, targets, inputs), LAB_OK);
    int64_t moved = 0;
    for (int64_t r = 0; r < ROWS; r++) {
        assert_int_equal(lab_tokens_draw(t, &opts, r, 1, one, next), LAB_OK);
        moved += one[0] != targets[r * LENGTH];
    }
    assert_true(moved > ROWS / 2); /* another seed, other windows */
#define REFUSED(field, value, status, word)                                                                            \
    other = opts;                                                                                                      \
    other.field = (value);                                                                                             \
    expect_failure(lab_tokens_draw(t, &other, 0, 1, one, next), status, word);
    REFUSED(length, 20, LAB_ERR_RANGE, "20 are too few for windows of 20")
    REFUSED(length, 0, LAB_ERR_RANGE, "windows of 0")
    REFUSED(stop, 41, LAB_ERR_RANGE, "of 40")
    REFUSED(first, 35, LAB_ERR_RANGE, "0 are too few")
    REFUSED(reserved[0], 1, LAB_ERR_ARGUMENT, "reserved")
#undef REFUSED
    expect_failure(lab_tokens_draw(t, &opts, -1, 1, one, next), LAB_ERR_RANGE, "number -1");
    expect_failure(lab_tokens_draw(t, &opts, INT64_MAX, 1, one, next), LAB_ERR_RANGE, "number");
    expect_failure(lab_tokens_draw(NULL, &opts, 0, 1, one, next), LAB_ERR_ARGUMENT, "NULL");
    lab_tokens *none;
    expect_failure(lab_tokens_from_text(&none, v, "", 0), LAB_ERR_RANGE, "empty");
    assert_null(none);
    lab_tokens_close(&t);
    lab_vocabulary_destroy(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_are_numbered_by_their_code_points_and_come_back),
        cmocka_unit_test(text_that_is_no_utf8_is_refused_with_its_place),
        cmocka_unit_test(token_files_are_read_and_broken_ones_refused),
        cmocka_unit_test(windows_lie_inside_and_are_a_function_of_their_number),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file) != 0;
}
