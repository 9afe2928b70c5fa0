/* tokens.c - long rows of tokens, mapped or made from a text, and windows drawn from them. */
#include <string.h>

#include "file_impl.h"
#include "kernels/kernels.h"
#include "llmlab/tokens.h"
#include "nn_impl.h"

struct lab_tokens {
    const unsigned char *data; /* of any alignment that the type has */
    size_t bytes, held;        /* held: what was allocated; 0: mapped */
    int width;                 /* of a token, 2 or 4 */
    int64_t count;
};

/* ---- Making ---------------------------------------------------------------------------------------------------------- */

static lab_status make(lab_tokens **out, lab_tokens made)
{
    *out = lab__allocate(sizeof **out);
    if (!*out)
        return lab__fail(LAB_ERR_MEMORY, "tokens: no memory");
    **out = made;
    return LAB_OK;
}

lab_status lab_tokens_open(lab_tokens **out, const char *path, lab_token_type type)
{
    void *data;
    size_t bytes;
    if (out)
        *out = NULL;
    if (!out || !path || (unsigned)type > LAB_TOKENS_U32)
        return lab__fail(LAB_ERR_ARGUMENT, "tokens: %s",
                         !out    ? "out is NULL"
                         : !path ? "path is NULL"
                                 : "the type is neither LAB_TOKENS_U16 nor _U32");
    lab_status status = lab__file_map(path, &data, &bytes);
    const int width = type == LAB_TOKENS_U16 ? 2 : 4;
    if (status == LAB_OK && bytes % (size_t)width != 0)
        status =
            lab__fail(LAB_ERR_FORMAT, "%s: %zu bytes are no whole number of tokens of %d bytes", path, bytes, width);
    if (status == LAB_OK && bytes == 0)
        status = lab__fail(LAB_ERR_FORMAT, "%s: there are no tokens in it", path);
    if (status == LAB_OK)
        status = make(out, (lab_tokens){.data = data, .bytes = bytes, .width = width, .count = (int64_t)bytes / width});
    if (status != LAB_OK)
        lab__file_unmap(data, bytes);
    return status;
}

/* Eight bytes a token while they are encoded, two or four while they are kept. */
lab_status lab_tokens_from_text(lab_tokens **out, const lab_vocabulary *vocabulary, const char *text, size_t bytes)
{
    int64_t count = 0;
    if (out)
        *out = NULL;
    if (!out)
        return lab__fail(LAB_ERR_ARGUMENT, "tokens: out is NULL");
    lab_status status = lab_vocabulary_encode(vocabulary, text, bytes, NULL, &count);
    if (status == LAB_OK && count == 0)
        status = lab__fail(LAB_ERR_RANGE, "tokens: the text is empty");
    if (status != LAB_OK)
        return status;
    const int width = lab_vocabulary_size(vocabulary) <= 65536 ? 2 : 4;
    const size_t wide_bytes = (size_t)count * sizeof(int64_t), held = (size_t)count * (size_t)width;
    int64_t *wide = lab__allocate(wide_bytes);
    unsigned char *kept = lab__allocate(held);
    status = wide && kept ? lab_vocabulary_encode(vocabulary, text, bytes, wide, NULL)
                          : lab__fail(LAB_ERR_MEMORY, "tokens: no memory for %lld of them", (long long)count);
    for (int64_t i = 0; i < count && status == LAB_OK; i++)
        memcpy(kept + i * width, &wide[i], (size_t)width); /* the lower bytes: little-endian */
    if (status == LAB_OK)
        status = make(out, (lab_tokens){.data = kept, .bytes = held, .held = held, .width = width, .count = count});
    if (wide)
        lab__release(wide, wide_bytes);
    if (status != LAB_OK && kept)
        lab__release(kept, held);
    return status;
}

void lab_tokens_close(lab_tokens **tokens)
{
    if (!tokens || !*tokens)
        return;
    lab_tokens *t = *tokens;
    void *data = (void *)(uintptr_t)t->data;
    if (t->held)
        lab__release(data, t->held);
    else
        lab__file_unmap(data, t->bytes);
    lab__release(t, sizeof *t);
    *tokens = NULL;
}

/* ---- Reading --------------------------------------------------------------------------------------------------------- */

static int64_t token_at(const lab_tokens *t, int64_t i)
{
    uint32_t token = 0;
    memcpy(&token, t->data + i * t->width, (size_t)t->width);
    return token;
}

int64_t lab_tokens_count(const lab_tokens *tokens)
{
    return tokens ? tokens->count : 0;
}

int64_t lab_tokens_largest(const lab_tokens *tokens)
{
    int64_t largest = -1;
    for (int64_t i = 0; tokens && i < tokens->count; i++)
        largest = token_at(tokens, i) > largest ? token_at(tokens, i) : largest;
    return largest;
}

lab_status lab_tokens_read(const lab_tokens *tokens, int64_t first, int64_t count, int64_t *out)
{
    if (!tokens || (!out && count > 0))
        return lab__fail(LAB_ERR_ARGUMENT, "tokens: %s is NULL", tokens ? "out" : "tokens");
    if (first < 0 || count < 0 || first > tokens->count || count > tokens->count - first)
        return lab__fail(LAB_ERR_RANGE, "tokens: %lld from %lld on: there are %lld", (long long)count, (long long)first,
                         (long long)tokens->count);
    for (int64_t i = 0; i < count; i++)
        out[i] = token_at(tokens, first + i);
    return LAB_OK;
}

__extension__ typedef unsigned __int128 uint128; /* of gcc and clang on 64-bit machines */

/* A whole number below n: the upper half of n times a fraction of 64 bits, which Philox has at (seed, number). */
static int64_t draw_below(int64_t n, uint64_t seed, int64_t number)
{
    const uint64_t index = (uint64_t)number;
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0x746f6b, 0}; /* a stream of its own */
    uint32_t word[4];
    lab__philox(counter, key, word);
    const uint64_t fraction = (uint64_t)word[1] << 32 | word[0];
    return (int64_t)((uint128)fraction * (uint64_t)n >> 64);
}

lab_status lab_tokens_draw(const lab_tokens *tokens, const lab_window_opts *opts, int64_t number, int64_t rows,
                           int64_t *inputs, int64_t *targets)
{
    if (!tokens || !opts || !inputs || !targets || !lab__all_zero(opts->reserved))
        return lab__fail(LAB_ERR_ARGUMENT, "tokens: an argument is NULL, or reserved words are not zero");
    const int64_t stop = opts->stop ? opts->stop : tokens->count, length = opts->length;
    if (number < 0 || rows < 0 || number > INT64_MAX - rows || length < 1 || opts->first < 0 || stop > tokens->count)
        return lab__fail(LAB_ERR_RANGE,
                         "tokens: %lld windows of %lld tokens, from number %lld on, in tokens %lld to %lld of %lld",
                         (long long)rows, (long long)length, (long long)number, (long long)opts->first, (long long)stop,
                         (long long)tokens->count);
    const int64_t places = stop - opts->first - length;
    if (places < 1)
        return lab__fail(LAB_ERR_RANGE, "tokens: %lld are too few for windows of %lld and the token behind",
                         (long long)(stop > opts->first ? stop - opts->first : 0), (long long)length);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t start = opts->first + draw_below(places, opts->seed, number + r);
        for (int64_t i = 0; i < length; i++) {
            inputs[r * length + i] = token_at(tokens, start + i);
            targets[r * length + i] = token_at(tokens, start + i + 1);
        }
    }
    return LAB_OK;
}
