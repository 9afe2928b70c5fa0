/* gpt_inspect.c - what a trained model looks like inside: its parameters, how sure its heads are, and what they can
 * see.
 *
 *     gpt_inspect run --text tinyshakespeare.txt
 */
#include <errno.h>
#include <llmlab.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { EXIT_BAD_INPUT = 2, SHOWN = 6 };

static const char usage[] =
    "usage: gpt_inspect DIR [--text FILE] [--export FOLDER]\n"
    "\n"
    "Shows the model in DIR/checkpoint.safetensors: its parameters by name and size; with --text, for each head, on "
    "the\n"
    "last windows of the text: the largest attention weight of a row (mean), the entropy (mean, in nats), and the "
    "share\n"
    "of rows that are saturated (largest weight over 0.99); and the largest singular values of Wq Wk^T of each head,\n"
    "which say in how many directions, and how strongly, it compares.\n"
    "\n"
    "--export writes the model into FOLDER as Hugging Face's transformers keeps them: config.json and "
    "model.safetensors.\n"
    "\n"
    "Exit status: 0; 1 if something failed; 2 if what was given makes no sense.\n";

static bool complain(const char *what)
{
    fprintf(stderr, "gpt_inspect: %s: %s\n", what, lab_last_message());
    return false;
}

/* ---- Parameters ------------------------------------------------------------------------------------------------------ */

static lab_status show_parameter(const char *name, lab_tensor **parameter, void *ctx)
{
    char shape[160] = "";
    const lab_tensor *t = *parameter;
    for (int axis = 0; axis < lab_tensor_rank(t); axis++) {
        const size_t length = strlen(shape);
        snprintf(shape + length, sizeof shape - length, "%s%lld", axis ? " x " : "",
                 (long long)lab_tensor_size(t, axis));
    }
    printf("  %-28s %-16s %12lld\n", name, shape, (long long)lab_tensor_numel(t));
    *(int64_t *)ctx += lab_tensor_numel(t);
    return LAB_OK;
}

static bool show_parameters(lab_gpt *m)
{
    int64_t count = 0;
    printf("parameters\n");
    if (lab_gpt_visit(m, NULL, show_parameter, &count) != LAB_OK)
        return complain("parameters");
    printf("  %-45s %12lld\n\n", "all", (long long)count);
    return true;
}

/* ---- Saturation ------------------------------------------------------------------------------------------------------ */

enum { WINDOWS = 16 };

/* The last windows of a text, as many as it has; freed by the caller. */
static int64_t *last_windows(const char *path, const lab_vocabulary *v, int64_t length, int64_t *rows)
{
    enum { MOST = 1 << 20 };
    lab_tokens *tokens = NULL;
    char *text = malloc(MOST);
    int64_t *out = malloc((size_t)(WINDOWS * length) * sizeof *out);
    FILE *f = text && out ? fopen(path, "rb") : NULL;
    if (!f)
        perror(path);
    const size_t size = f ? fread(text, 1, MOST, f) : 0; /* the first megabyte will do */
    size_t whole = size;
    while (size == MOST && whole > 0 && (text[whole - 1] & 0xc0) == 0x80) /* not half a character at the end */
        whole--;
    whole -= size == MOST && whole > 0;
    lab_status status = f ? lab_tokens_from_text(&tokens, v, text, whole) : LAB_ERR_IO;
    *rows = lab_tokens_count(tokens) / length < WINDOWS ? lab_tokens_count(tokens) / length : WINDOWS;
    if (status == LAB_OK)
        status = lab_tokens_read(tokens, lab_tokens_count(tokens) - *rows * length, *rows * length, out);
    if (f && status != LAB_OK)
        complain(path);
    if (status == LAB_OK && *rows == 0)
        fprintf(stderr, "gpt_inspect: %s has no window of %lld tokens\n", path, (long long)length);
    if (f)
        fclose(f);
    lab_tokens_close(&tokens);
    free(text);
    if (status == LAB_OK && *rows > 0)
        return out;
    free(out);
    return NULL;
}

static bool show_saturation(const lab_gpt *m, const int64_t *tokens, int64_t rows)
{
    const int64_t layers = m->config.layers, heads = m->config.heads, shape[] = {rows, m->config.context};
    lab_attention_stats *stats = calloc((size_t)(layers * heads), sizeof *stats);
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true});
    lab_tensor *t = stats ? lab_constant(g, LAB_I64, 2, shape, tokens) : NULL;
    const bool fine = lab_gpt_hidden(g, m, t, NULL, &(lab_gpt_opts){.stats = stats});
    printf("attention, on %lld windows of %lld tokens\n  layer  head  largest weight   entropy  saturated rows\n",
           (long long)rows, (long long)m->config.context);
    for (int64_t i = 0; i < layers * heads && fine; i++)
        printf("  %5lld %5lld %15.3f %9.3f %13.1f %%\n", (long long)(i / heads), (long long)(i % heads),
               stats[i].p_max.mean, stats[i].entropy.mean, 100 * stats[i].saturated_share);
    printf("\n");
    lab_graph_destroy(&g);
    free(stats);
    return fine || complain("attention");
}

/* ---- Singular values ------------------------------------------------------------------------------------------------- */

/* A head's rows of a weight [heads * d, width], transposed: [width, d]. */
static lab_status of_head(lab_tensor **out, const lab_tensor *weight, int64_t head, int64_t d)
{
    const int64_t width = lab_tensor_size(weight, 1);
    char *data =
        (char *)lab_tensor_data(weight) + (size_t)(head * d * width) * lab_dtype_size(lab_tensor_dtype(weight));
    return lab_tensor_wrap(out, lab_tensor_dtype(weight), 2, (int64_t[]){width, d}, (int64_t[]){1, width}, data, NULL,
                           NULL);
}

static bool show_head(const lab_gpt *m, int64_t layer, int64_t head)
{
    const lab_mha *a = &m->block[layer].attn;
    lab_tensor *q = NULL, *k = NULL, *s = NULL;
    lab_status status = of_head(&q, a->q.weight, head, a->head_dim);
    if (status == LAB_OK)
        status = of_head(&k, a->k.weight, head / (a->heads / a->kv_heads), a->head_dim);
    if (status == LAB_OK)
        status = lab_product_singular_values(q, k, &s);
    const int64_t n = lab_tensor_numel(s);
    printf("  %5lld %5lld  ", (long long)layer, (long long)head);
    for (int64_t i = 0; i < n && (i < SHOWN || i == n - 1); i++) {
        const double value = lab_tensor_dtype(s) == LAB_F32 ? (double)((float *)lab_tensor_data(s))[i]
                                                            : ((double *)lab_tensor_data(s))[i];
        printf("%s%9.4f", i == n - 1 && n > SHOWN ? "  ..." : "", value);
        if (i == SHOWN - 1 && n > SHOWN + 1)
            i = n - 2;
    }
    printf("\n");
    lab_tensor_destroy(&q);
    lab_tensor_destroy(&k);
    lab_tensor_destroy(&s);
    return status == LAB_OK || complain("singular values");
}

static bool show_heads(const lab_gpt *m)
{
    bool fine = true;
    printf("singular values of Wq Wk^T\n  layer  head  the largest ... the least of %lld\n",
           (long long)m->config.head_dim);
    for (int64_t i = 0; i < m->config.layers * m->config.heads && fine; i++)
        fine = show_head(m, i / m->config.heads, i % m->config.heads);
    return fine;
}

/* Makes the folder if it is not there. */
static bool export_model(lab_gpt *m, const char *folder)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        perror(folder);
        return false;
    }
    return lab_gpt_export(m, folder) == LAB_OK || complain("--export");
}

/* ---- All of it ------------------------------------------------------------------------------------------------------- */

static int inspect(const char *folder, const char *text, const char *export)
{
    char path[1024];
    lab_safetensors *file;
    lab_gpt m;
    lab_checkpoint_parts parts = {0};
    int64_t rows = 0, *tokens = NULL;
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", folder);
    if (lab_safetensors_open(&file, path) != LAB_OK)
        return complain("DIR") + EXIT_BAD_INPUT;
    const lab_status status = lab_checkpoint_load(file, &m, &parts);
    if (status != LAB_OK)
        complain(path);
    bool fine = status == LAB_OK;
    int exit_status = EXIT_BAD_INPUT;
    if (fine && text && lab_vocabulary_size(parts.vocabulary) != m.config.vocabulary) {
        fprintf(stderr, "gpt_inspect: --text: the model was trained on a token file: no text has its tokens\n");
        fine = false;
    }
    if (fine && text)
        fine = (tokens = last_windows(text, parts.vocabulary, m.config.context, &rows)) != NULL;
    fine = fine && (!export || export_model(&m, export));
    if (fine) {
        printf("%s: %lld steps, %s\n\n", path, (long long)parts.progress.step, parts.note ? parts.note : "");
        fine = show_parameters(&m) && (!tokens || show_saturation(&m, tokens, rows)) && show_heads(&m);
        exit_status = fine ? 0 : EXIT_FAILURE;
    }
    free(tokens);
    lab_vocabulary_destroy(&parts.vocabulary);
    lab_gpt_free(&m);
    lab_safetensors_close(&file);
    return exit_status;
}

int main(int argc, char **argv)
{
    const char *folder = NULL, *text = NULL, *export = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return 0;
        }
        if (strcmp(argv[i], "--text") == 0 && i + 1 < argc)
            text = argv[++i];
        else if (strcmp(argv[i], "--export") == 0 && i + 1 < argc)
            export = argv[++i];
        else if (argv[i][0] != '-' && !folder)
            folder = argv[i];
        else {
            fputs(usage, stderr);
            return EXIT_BAD_INPUT;
        }
    }
    if (!folder) {
        fputs(usage, stderr);
        return EXIT_BAD_INPUT;
    }
    return inspect(folder, text, export);
}
