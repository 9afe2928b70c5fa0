/* fuzz_safetensors.c - files of any bytes: refused with a sentence, or open with every tensor inside them.
 *
 * The first byte says how the others are used: as a file, as they are; or as decisions by which a header is written
 * that is nearly right, since bytes by chance are hardly ever JSON.
 */
#include <llmlab.h>
#include <stdarg.h>
#include <string.h>

#include "fuzz.h"

enum { LONGEST = 4096, MOST_TENSORS = 6 };

typedef struct text {
    char data[LONGEST];
    size_t length;
} text;

__attribute__((format(printf, 2, 3))) static void say(text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t room = sizeof t->data - t->length;
    const int length = vsnprintf(t->data + t->length, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        t->length += (size_t)length < room ? (size_t)length : room - 1;
}

static void say_number(text *t, bytes *b, uint64_t right)
{
    static const char *const wrong[] = {"-1",
                                        "0.5",
                                        "9223372036854775807",
                                        "18446744073709551615",
                                        "1e99",
                                        "null",
                                        "\"4\"",
                                        "[]",
                                        "4611686018427387904",
                                        "",
                                        "0"};
    const int n = sizeof wrong / sizeof *wrong, how = choose(b, 64);
    if (how < n)
        say(t, "%s", wrong[how]);
    else
        say(t, "%llu", (unsigned long long)right + (how == n) - (how == n + 1));
}

/* One tensor behind `at` bytes; returns where it ends. */
static uint64_t say_tensor(text *t, bytes *b, int index, uint64_t at)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } types[] = {{"F32", 4}, {"F64", 8}, {"F16", 2},  {"BF16", 2}, {"I64", 8},     {"U8", 1},
                 {"I32", 4}, {"I16", 2}, {"BOOL", 1}, {"U64", 8},  {"F8_E4M3", 1}, {"F33", 4}};
    const int type = choose(b, sizeof types / sizeof *types), rank = choose(b, 12) - (choose(b, 2) ? 8 : 0);
    uint64_t count = types[type].bytes;
    say(t, "%s\"%s%d\":{\"dtype\":\"%s\",\"shape\":[", index ? "," : "", choose(b, 30) ? "t" : "\\u00e9",
        choose(b, 30) ? index : 0, types[type].name);
    for (int i = 0; i < rank; i++) {
        const uint64_t size = (uint64_t)choose(b, 4);
        say(t, i ? "," : "");
        say_number(t, b, size);
        count *= size;
    }
    say(t, "],\"data_offsets\":[");
    say_number(t, b, at);
    say(t, ",");
    say_number(t, b, at + count);
    say(t, choose(b, 60) ? "]}" : "]");
    return at + count;
}

static size_t write_file(uint8_t *file, bytes *b)
{
    static text t;
    uint64_t at = 0;
    t.length = 0;
    say(&t, "{");
    const int count = choose(b, MOST_TENSORS);
    for (int i = 0; i < count; i++)
        at = say_tensor(&t, b, i, at);
    say(&t, choose(b, 4) ? "}" : ",\"__metadata__\":{\"a\":\"b\"}}");
    const uint64_t length = t.length + (choose(b, 30) ? 0 : (uint64_t)choose(b, 5));
    memcpy(file, &length, 8);
    memcpy(file + 8, t.data, t.length);
    at = at < LONGEST ? at : LONGEST;
    memset(file + 8 + t.length, 0x41, at);
    return 8 + t.length + at;
}

/* In memory of exactly that size. */
static void open_file(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    lab_safetensors *file;
    lab_gpt model;
    if (!exact)
        return;
    memcpy(exact, data, size);
    const lab_status status = lab_safetensors_from_memory(&file, exact, size);
    if (status != LAB_OK && (file || !*lab_last_message() || (status != LAB_ERR_FORMAT && status != LAB_ERR_MEMORY)))
        abort();
    for (int64_t i = 0; i < lab_safetensors_count(file); i++) {
        lab_tensor *t;
        const lab_safetensors_entry *e = lab_safetensors_at(file, i);
        const uint8_t *from = e->data;
        if (from < exact || e->bytes > size || from + e->bytes > exact + size || !lab_safetensors_find(file, e->name))
            abort();
        if (lab_safetensors_tensor(&t, file, e->name) == LAB_OK)
            lab_tensor_destroy(&t);
    }
    if (file && lab_checkpoint_load(file, &model, NULL) == LAB_OK)
        lab_gpt_free(&model);
    lab_safetensors_close(&file);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[8 + 2 * LONGEST];
    bytes b = {data, size};
    if (size > LONGEST)
        return 0;
    if (next_byte(&b) % 2 == 0)
        open_file(b.data, b.size);
    else
        open_file(file, write_file(file, &b));
    return 0;
}
