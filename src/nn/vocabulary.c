/* vocabulary.c - text as numbers: characters in the order of their code points, or bytes. */
#include <stdlib.h>
#include <string.h>

#include "llmlab/tokens.h"
#include "nn_impl.h"

enum { CODE_POINTS = 0x110000, BYTES = 256 };

struct lab_vocabulary {
    lab_tensor *characters; /* NULL: bytes */
    const int64_t *code;    /* its elements */
    int64_t size;
};

/* ---- UTF-8 ----------------------------------------------------------------------------------------------------------- */

/* The code point at the front of the text, and its length; -1 where that is no UTF-8: cut off, too long for what it
 * says, a surrogate, or beyond the last. */
static int64_t decode(const unsigned char *text, size_t bytes, int *length)
{
    static const int64_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = text[0];
    *length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0x80)
        return first;
    if (first < 0xc2 || first > 0xf4 || bytes < (size_t)*length)
        return -1;
    int64_t code = first & (0xff >> (*length + 1));
    for (int i = 1; i < *length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return -1;
        code = code << 6 | (text[i] & 0x3f);
    }
    return code < least[*length] || code >= CODE_POINTS || (code >= 0xd800 && code < 0xe000) ? -1 : code;
}

static int encode(int64_t code, char text[4])
{
    const int length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char front[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = length - 1; i > 0; i--) {
        text[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    text[0] = (char)(front[length] | code);
    return length;
}

static lab_status no_utf8(size_t at, unsigned char byte)
{
    return lab__fail(LAB_ERR_FORMAT, "vocabulary: byte %zu of the text (0x%02x) begins no UTF-8 character", at, byte);
}

/* ---- Making ---------------------------------------------------------------------------------------------------------- */

/* Takes the characters, on failure too. */
static lab_status make(lab_vocabulary **out, lab_tensor *characters)
{
    lab_vocabulary *v = lab__allocate(sizeof *v);
    if (!v) {
        lab_tensor_destroy(&characters);
        return lab__fail(LAB_ERR_MEMORY, "vocabulary: no memory");
    }
    *v = (lab_vocabulary){.characters = characters, .size = BYTES};
    if (characters) {
        v->code = (const int64_t *)(const void *)characters->data;
        v->size = lab_tensor_numel(characters);
    }
    *out = v;
    return LAB_OK;
}

static lab_status mark(unsigned char *seen, const unsigned char *text, size_t bytes, int64_t *count)
{
    int length;
    for (size_t at = 0; at < bytes; at += (size_t)length) {
        const int64_t code = decode(text + at, bytes - at, &length);
        if (code < 0)
            return no_utf8(at, text[at]);
        *count += !seen[code];
        seen[code] = 1;
    }
    return LAB_OK;
}

lab_status lab_vocabulary_create(lab_vocabulary **out, const char *text, size_t bytes)
{
    if (!out)
        return lab__fail(LAB_ERR_ARGUMENT, "vocabulary: out is NULL");
    *out = NULL;
    if (!text)
        return make(out, NULL);
    if (bytes == 0)
        return lab__fail(LAB_ERR_RANGE, "vocabulary: the text is empty");
    unsigned char *seen = lab__allocate(CODE_POINTS);
    if (!seen)
        return lab__fail(LAB_ERR_MEMORY, "vocabulary: no memory");
    memset(seen, 0, CODE_POINTS);
    int64_t count = 0, at = 0;
    lab_tensor *characters = NULL;
    lab_status status = mark(seen, (const unsigned char *)text, bytes, &count);
    if (status == LAB_OK)
        status = lab_tensor_create(&characters, LAB_I64, 1, &count);
    for (int64_t code = 0; code < CODE_POINTS && status == LAB_OK; code++)
        if (seen[code])
            ((int64_t *)characters->data)[at++] = code;
    lab__release(seen, CODE_POINTS);
    return status == LAB_OK ? make(out, characters) : status;
}

lab_status lab_vocabulary_restore(lab_vocabulary **out, const lab_tensor *characters)
{
    if (!out)
        return lab__fail(LAB_ERR_ARGUMENT, "vocabulary: out is NULL");
    *out = NULL;
    if (!characters)
        return make(out, NULL);
    if (characters->dtype != LAB_I64 || characters->rank != 1 || characters->shape[0] < 1)
        return lab__fail(LAB_ERR_FORMAT, "vocabulary: the characters are %s, must be i64 [n]",
                         lab__tensor_text(characters));
    lab_tensor *copy;
    lab_status status = lab_tensor_clone(&copy, characters);
    int64_t before = -1;
    for (int64_t i = 0; status == LAB_OK && i < copy->shape[0]; i++) {
        const int64_t code = ((const int64_t *)copy->data)[i];
        if (code <= before || code >= CODE_POINTS || (code >= 0xd800 && code < 0xe000))
            status = lab__fail(LAB_ERR_FORMAT,
                               "vocabulary: character %lld is %lld, behind %lld: no code point, or not "
                               "in ascending order",
                               (long long)i, (long long)code, (long long)before);
        before = code;
    }
    if (status == LAB_OK)
        return make(out, copy);
    lab_tensor_destroy(&copy);
    return status;
}

void lab_vocabulary_destroy(lab_vocabulary **vocabulary)
{
    if (!vocabulary || !*vocabulary)
        return;
    lab_tensor_destroy(&(*vocabulary)->characters);
    lab__release(*vocabulary, sizeof **vocabulary);
    *vocabulary = NULL;
}

/* ---- Using ----------------------------------------------------------------------------------------------------------- */

int64_t lab_vocabulary_size(const lab_vocabulary *vocabulary)
{
    return vocabulary ? vocabulary->size : 0;
}

lab_tensor *lab_vocabulary_characters(const lab_vocabulary *vocabulary)
{
    return vocabulary ? vocabulary->characters : NULL;
}

/* Where a code point is; -1: nowhere. */
static int64_t number_of(const lab_vocabulary *v, int64_t code)
{
    int64_t low = 0, high = v->size;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (v->code[middle] < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < v->size && v->code[low] == code ? low : -1;
}

lab_status lab_vocabulary_encode(const lab_vocabulary *vocabulary, const char *text, size_t bytes, int64_t *tokens,
                                 int64_t *count)
{
    if (count)
        *count = 0;
    if (!vocabulary || (!text && bytes))
        return lab__fail(LAB_ERR_ARGUMENT, "vocabulary: %s is NULL", vocabulary ? "the text" : "the vocabulary");
    const unsigned char *from = (const unsigned char *)text;
    int64_t n = 0;
    int length = 1;
    for (size_t at = 0; at < bytes; at += (size_t)length) {
        int64_t token = from[at];
        if (vocabulary->characters) {
            const int64_t code = decode(from + at, bytes - at, &length);
            if (code < 0)
                return no_utf8(at, from[at]);
            token = number_of(vocabulary, code);
            if (token < 0)
                return lab__fail(LAB_ERR_RANGE, "vocabulary: the character %.*s (U+%04llX, byte %zu) is not in it",
                                 length, (const char *)from + at, (unsigned long long)code, at);
        }
        if (tokens)
            tokens[n] = token;
        n++;
    }
    if (count)
        *count = n;
    return LAB_OK;
}

int lab_vocabulary_decode(const lab_vocabulary *vocabulary, int64_t token, char text[4])
{
    if (!vocabulary || !text || token < 0 || token >= vocabulary->size)
        return 0;
    if (vocabulary->characters)
        return encode(vocabulary->code[token], text);
    text[0] = (char)token;
    return 1;
}
