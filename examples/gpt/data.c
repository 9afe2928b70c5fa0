/* data.c - tokens out of a text or a token file, and the loss over what is held back. */
#include "data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool complain(const char *what)
{
    fprintf(stderr, "gpt_train: %s: %s\n", what, lab_last_message());
    return false;
}

/* All of a file, freed by the caller. */
static char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t room = 0;
    *size = 0;
    if (!f) {
        perror(path);
        return NULL;
    }
    do {
        room = room ? 2 * room : 1 << 16;
        char *more = realloc(text, room);
        if (!more) {
            fprintf(stderr, "gpt_train: %s: out of memory\n", path);
            break;
        }
        text = more;
        *size += fread(text + *size, 1, room - *size, f);
    } while (*size == room);
    const bool fine = !ferror(f) && *size < room;
    if (ferror(f))
        perror(path);
    fclose(f);
    if (fine)
        return text;
    free(text);
    return NULL;
}

static bool open_text(data *d, const settings *s, const lab_vocabulary *known)
{
    size_t size;
    char *text = read_file(s->text, &size);
    lab_vocabulary *own = NULL;
    lab_status status = text ? LAB_OK : LAB_ERR_IO;
    if (status == LAB_OK && !known)
        status = lab_vocabulary_create(&own, s->bytes ? NULL : text, size);
    const lab_vocabulary *v = known ? known : own;
    if (status == LAB_OK)
        status = lab_tokens_from_text(&d->tokens, v, text, size);
    if (status != LAB_OK && text)
        complain(s->text);
    free(text);
    if (status != LAB_OK) {
        lab_vocabulary_destroy(&own);
        return false;
    }
    d->vocabulary = lab_vocabulary_size(v);
    d->characters = own;
    return true;
}

static bool open_tokens(data *d, const settings *s)
{
    const bool wide = strcmp(s->token_type, "u32") == 0;
    if (!wide && strcmp(s->token_type, "u16") != 0) {
        fprintf(stderr, "gpt_train: --token-type: \"%s\" is neither u16 nor u32\n", s->token_type);
        return false;
    }
    if (lab_tokens_open(&d->tokens, s->tokens, wide ? LAB_TOKENS_U32 : LAB_TOKENS_U16) != LAB_OK)
        return complain("--tokens");
    const int64_t largest = lab_tokens_largest(d->tokens);
    d->vocabulary = s->vocabulary ? s->vocabulary : largest + 1;
    if (largest < d->vocabulary)
        return true;
    fprintf(stderr, "gpt_train: %s has a token %lld, and --vocabulary is %lld\n", s->tokens, (long long)largest,
            (long long)d->vocabulary);
    return false;
}

bool data_open(data *d, const settings *s, const lab_vocabulary *known)
{
    *d = (data){0};
    if (!s->text == !s->tokens) {
        fprintf(stderr, "gpt_train: %s of --text and --tokens is needed (--help)\n", s->text ? "only one" : "one");
        return false;
    }
    if (!(s->text ? open_text(d, s, known) : open_tokens(d, s))) {
        data_close(d);
        return false;
    }
    const int64_t count = lab_tokens_count(d->tokens);
    d->train = count - (int64_t)((double)count * s->validation);
    if (d->train >= s->context + 2 && count - d->train >= s->context + 1)
        return true;
    fprintf(stderr, "gpt_train: %lld tokens, of which %lld are for training, are too few for windows of %lld\n",
            (long long)count, (long long)d->train, (long long)s->context);
    data_close(d);
    return false;
}

void data_close(data *d)
{
    lab_tokens_close(&d->tokens);
    lab_vocabulary_destroy(&d->characters);
}

/* Windows at once: as many as a small model computes well with, few of a large one, which keeps what it has computed.
 */
enum { ROWS = 16, NUMBERS = 1 << 17 };

bool data_validate(const data *d, const lab_gpt *model, lab_graph *g, double *loss, lab_attention_stats *stats)
{
    const int64_t length = model->config.context, count = lab_tokens_count(d->tokens);
    const int64_t windows = (count - d->train - 1) / length, few = NUMBERS / (length * model->config.width);
    const int64_t at_once = few < 1 ? 1 : few < ROWS ? few : ROWS;
    int64_t *tokens = malloc((size_t)(2 * ROWS * length) * sizeof *tokens);
    double sum = 0;
    lab_status status = tokens ? LAB_OK : LAB_ERR_MEMORY;
    for (int64_t w = 0; w < windows && status == LAB_OK; w += at_once) {
        const int64_t rows = windows - w < at_once ? windows - w : at_once, shape[] = {rows, length};
        const int64_t first = d->train + w * length;
        lab_graph_reset(g);
        status = lab_tokens_read(d->tokens, first, rows * length, tokens);
        if (status == LAB_OK)
            status = lab_tokens_read(d->tokens, first + 1, rows * length, tokens + ROWS * length);
        lab_tensor *inputs = lab_constant(g, LAB_I64, 2, shape, tokens);
        lab_tensor *targets = lab_constant(g, LAB_I64, 2, shape, tokens + ROWS * length);
        lab_tensor *mean = lab_gpt_loss(g, model, inputs, targets, NULL, &(lab_gpt_opts){.stats = w ? NULL : stats});
        if (status == LAB_OK)
            status = lab_graph_status(g);
        if (status == LAB_OK)
            sum += (double)rows * (double)*(float *)lab_tensor_data(mean);
    }
    free(tokens);
    *loss = sum / (double)windows;
    return status == LAB_OK || complain("validation");
}
