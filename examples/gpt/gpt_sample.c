/* gpt_sample.c - goes on with a text: token by token, out of a cache of keys and values.
 *
 *     gpt_sample run --prompt "ROMEO:"
 *
 * Everything is computed so that a token's logits have the same bits from a cache as in one pass over the text, with
 * any number of threads: the same seed gives the same text.
 */
#include <errno.h>
#include <llmlab.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_BAD_INPUT = 2 };

static const char usage[] =
    "usage: gpt_sample DIR [--prompt TEXT] [--tokens N] [--temperature X] [--top-k N] [--top-p X] [--seed N]\n"
    "                  [--threads N] [--no-cache]\n"
    "\n"
    "Goes on with TEXT (default: a line's end) for N tokens (500), as the model in DIR/checkpoint.safetensors has it.\n"
    "Of a model that was trained on a token file, TEXT and what follows it are the tokens' numbers.\n"
    "\n"
    "  --temperature X  what the logits are divided by; 0: always the likeliest token (default 1)\n"
    "  --top-k N        of the N likeliest tokens only (0: of all)\n"
    "  --top-p X        of the likeliest that together have at least X (default 1)\n"
    "  --seed N         another text (default 1)\n"
    "  --threads N      0: all processors; the text does not depend on it\n"
    "  --no-cache       every token by a pass over all before it: the same text, slowly\n"
    "\n"
    "Exit status: 0; 1 if sampling failed; 2 if what was given makes no sense.\n";

typedef struct options {
    const char *folder, *prompt;
    int64_t tokens, top_k, seed, threads;
    double temperature, top_p;
    bool no_cache;
} options;

typedef struct sampler {
    options o;
    lab_gpt model;
    lab_vocabulary *vocabulary;
    lab_graph *g;
    lab_gpt_cache *cache;
    int64_t *tokens, count; /* the prompt and what came of it */
    int64_t *heap, *chosen; /* of a token's choice, each as long as the vocabulary */
} sampler;

static bool complain(const char *what)
{
    fprintf(stderr, "gpt_sample: %s: %s\n", what, lab_last_message());
    return false;
}

/* ---- Options --------------------------------------------------------------------------------------------------------- */

static bool read_number(const char *name, const char *value, double least, double *out)
{
    char *rest;
    *out = value ? strtod(value, &rest) : NAN;
    if (value && rest != value && !*rest && *out >= least && isfinite(*out))
        return true;
    fprintf(stderr, "gpt_sample: %s: \"%s\" must be a number that is at least %g\n", name, value ? value : "", least);
    return false;
}

static bool read_options(options *o, int argc, char **argv)
{
    *o = (options){.prompt = "\n", .tokens = 500, .temperature = 1, .top_p = 1, .seed = 1};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        double x = 0;
        if (strcmp(name, "--no-cache") == 0) {
            o->no_cache = true;
            continue;
        }
        if (strncmp(name, "--", 2) != 0) {
            if (o->folder) {
                fprintf(stderr, "gpt_sample: two folders: %s and %s\n", o->folder, name);
                return false;
            }
            o->folder = name;
            continue;
        }
        const char *value = i + 1 < argc ? argv[++i] : NULL;
        if (strcmp(name, "--prompt") == 0 && value) {
            o->prompt = value;
            continue;
        }
        int64_t *const whole = strcmp(name, "--tokens") == 0    ? &o->tokens
                               : strcmp(name, "--top-k") == 0   ? &o->top_k
                               : strcmp(name, "--seed") == 0    ? &o->seed
                               : strcmp(name, "--threads") == 0 ? &o->threads
                                                                : NULL;
        double *const real = strcmp(name, "--temperature") == 0 ? &o->temperature
                             : strcmp(name, "--top-p") == 0     ? &o->top_p
                                                                : NULL;
        if (!whole && !real) {
            fprintf(stderr, "gpt_sample: there is no option %s\n\n%s", name, usage);
            return false;
        }
        if (!read_number(name, value, 0, &x))
            return false;
        if (whole && (x != floor(x) || x > 1e15)) {
            fprintf(stderr, "gpt_sample: %s: %s is no whole number\n", name, value);
            return false;
        }
        if (whole)
            *whole = (int64_t)x;
        else
            *real = x;
    }
    if (o->folder && o->top_p > 0 && o->top_p <= 1 && *o->prompt)
        return true;
    fprintf(stderr, "gpt_sample: %s\n\n%s",
            !o->folder   ? "which DIR?"
            : *o->prompt ? "--top-p: must be in (0, 1]"
                         : "the prompt is empty",
            usage);
    return false;
}

/* ---- Beginning ------------------------------------------------------------------------------------------------------- */

static bool open_model(sampler *s)
{
    char path[1024];
    lab_safetensors *file;
    lab_checkpoint_parts parts = {0};
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", s->o.folder);
    if (lab_safetensors_open(&file, path) != LAB_OK)
        return complain("DIR");
    const lab_status status = lab_checkpoint_load(file, &s->model, &parts);
    lab_safetensors_close(&file);
    s->vocabulary = parts.vocabulary;
    if (status != LAB_OK)
        return complain(path);
    if (lab_vocabulary_size(s->vocabulary) != s->model.config.vocabulary) /* of a token file */
        lab_vocabulary_destroy(&s->vocabulary);
    return true;
}

/* The prompt's tokens: its characters, or the numbers that stand there. */
static bool read_prompt(sampler *s)
{
    const long long kinds = s->model.config.vocabulary;
    const char *at = s->o.prompt;
    if (s->vocabulary)
        return lab_vocabulary_encode(s->vocabulary, at, strlen(at), s->tokens, &s->count) == LAB_OK ||
               complain("--prompt");
    for (char *rest; *(at += strspn(at, " \n")); at = rest) {
        errno = 0;
        const long long token = strtoll(at, &rest, 10);
        if (rest == at || errno || token < 0 || token >= kinds)
            break;
        s->tokens[s->count++] = token;
    }
    if (s->count > 0 && !*at)
        return true;
    fprintf(stderr,
            "gpt_sample: --prompt \"%s\": the model was trained on a token file, which has no characters for its "
            "tokens: give their numbers, 0 to %lld, as in --prompt \"%lld 0\"\n",
            s->o.prompt, kinds - 1, kinds - 1);
    return false;
}

/* A token, or the blank and the number that it is; false where that cannot be written. */
static bool write_token(const sampler *s, int64_t token)
{
    char text[32];
    const int length = s->vocabulary ? lab_vocabulary_decode(s->vocabulary, token, text)
                                     : snprintf(text, sizeof text, " %lld", (long long)token);
    if (fwrite(text, 1, (size_t)length, stdout) == (size_t)length && fflush(stdout) == 0)
        return true;
    perror("gpt_sample");
    return false;
}

static bool begin(sampler *s)
{
    const size_t prompt = strlen(s->o.prompt);
    if (lab_set_threads((int)s->o.threads) != LAB_OK)
        return complain("--threads");
    if (!open_model(s))
        return false;
    const size_t vocabulary = (size_t)s->model.config.vocabulary;
    s->tokens = calloc(prompt + (size_t)s->o.tokens + 1, sizeof *s->tokens);
    s->heap = calloc(vocabulary, sizeof *s->heap);
    s->chosen = calloc(vocabulary, sizeof *s->chosen);
    s->g = lab_graph_create(&(lab_graph_opts){.inference = true, .batch_invariant = true});
    if (!s->tokens || !s->heap || !s->chosen || !s->g) {
        fprintf(stderr, "gpt_sample: out of memory\n");
        return false;
    }
    return read_prompt(s) &&
           (s->o.no_cache || lab_gpt_cache_create(&s->cache, &s->model, 1, 0) == LAB_OK || complain("the cache"));
}

static void end(sampler *s)
{
    lab_gpt_cache_destroy(&s->cache);
    lab_graph_destroy(&s->g);
    lab_vocabulary_destroy(&s->vocabulary);
    lab_gpt_free(&s->model);
    free(s->tokens);
    free(s->heap);
    free(s->chosen);
}

/* ---- A token --------------------------------------------------------------------------------------------------------- */

/* The logits behind the last token. What the cache has is not computed again; when the context is full, its later half
 * is read anew, from position 0. */
static lab_tensor *next_logits(sampler *s)
{
    const int64_t context = s->model.config.context, half = (context + 1) / 2;
    int64_t start = 0;
    if (s->count > context) /* the start moves by half a context at a time, so that it does not depend on the cache */
        start = (s->count - context + half - 1) / half * half;
    const int64_t known = s->cache ? lab_gpt_cache_length(s->cache, 0) : 0, in_window = s->count - start;
    int64_t from = known;
    if (known >= in_window) {
        lab_gpt_cache_reset(s->cache);
        from = 0;
    }
    lab_graph_reset(s->g);
    lab_tensor *tokens = lab_constant(s->g, LAB_I64, 2, (int64_t[]){1, in_window - from}, s->tokens + start + from);
    lab_tensor *hidden = lab_gpt_hidden(s->g, &s->model, tokens, s->cache, NULL);
    lab_tensor *head = s->model.head ? s->model.head : s->model.token;
    lab_tensor *last = hidden ? lab_slice(s->g, hidden, 1, in_window - from - 1, in_window - from, 1) : NULL;
    lab_tensor *logits = last ? lab_matmul(s->g, last, lab_transpose(s->g, head, 0, 1)) : NULL;
    if (!logits)
        complain("the model");
    return logits;
}

/* Of all tokens, from the logits: divided by the temperature once the largest is 0, so that none overflows. */
static const float *probabilities(sampler *s, lab_tensor *logits)
{
    lab_tensor *below = lab_sub(s->g, logits, lab_max(s->g, logits, -1, true));
    lab_tensor *p = lab_softmax(s->g, lab_mul_scalar(s->g, below, fmin(1 / s->o.temperature, 1e30)), -1);
    if (!p)
        complain("the model");
    return p ? lab_tensor_data(p) : NULL;
}

/* Whether token x comes before y: the likelier, of equals the first. */
static bool is_before(const float *p, int64_t x, int64_t y)
{
    return p[x] != p[y] ? p[x] > p[y] : x < y;
}

/* Of a heap, whose parents come before their children, all but the token at `at` being so. */
static void sift(const float *p, int64_t *heap, int64_t n, int64_t at)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && is_before(p, heap[child + 1], heap[child]);
        if (is_before(p, heap[at], heap[child]))
            return;
        const int64_t token = heap[at];
        heap[at] = heap[child];
        heap[child] = token;
    }
}

/* The tokens that top-k and top-p leave, the likeliest first, into s->chosen; how many. Only as many are put in order
 * as come out of the heap, and what is less likely than an equal share of what top-p leaves out does not get there. */
static int64_t likeliest(sampler *s, const float *p, int64_t n)
{
    const bool cut = s->o.top_k > 0 && s->o.top_k < n;
    const float least = cut ? 0 : (float)((1 - s->o.top_p) / (2 * (double)n));
    int64_t waiting = 0, count = 0, few = 0;
    double sum = 0, enough = s->o.top_p;
    for (int64_t i = 0; i < n; i++)
        if (p[i] >= least)
            s->heap[waiting++] = i;
    for (int64_t i = waiting / 2; i-- > 0;)
        sift(p, s->heap, waiting, i);
    for (; waiting > 0 && (cut ? count < s->o.top_k : count == 0 || sum < enough); count++) {
        s->chosen[count] = s->heap[0];
        sum += (double)p[s->heap[0]];
        s->heap[0] = s->heap[--waiting];
        sift(p, s->heap, waiting, 0);
    }
    if (!cut)
        return count;
    enough *= sum; /* of those that top-k left */
    for (sum = 0; few < count && (few == 0 || sum < enough); few++)
        sum += (double)p[s->chosen[few]];
    return few;
}

/* A number in [0, 1) that is a function of the seed and of the token's place (splitmix64). */
static double uniform(int64_t seed, int64_t place)
{
    uint64_t z = ((uint64_t)seed + 1) * 0x9e3779b97f4a7c15 + (uint64_t)place * 0xd1342543de82ef95;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static int64_t largest(const float *logits, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* The next token, -1 after a message. Where nothing is left out, tokens need no order. */
static int64_t choose(sampler *s, lab_tensor *logits)
{
    const int64_t n = s->model.config.vocabulary;
    if (s->o.temperature == 0)
        return largest(lab_tensor_data(logits), n);
    const float *p = probabilities(s, logits);
    if (!p)
        return -1;
    const bool ordered = (s->o.top_k > 0 && s->o.top_k < n) || s->o.top_p < 1;
    const int64_t count = ordered ? likeliest(s, p, n) : n;
    double sum = 0, so_far = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)p[ordered ? s->chosen[i] : i];
    if (!(sum > 0)) {
        fprintf(stderr, "gpt_sample: the model's logits are not finite\n");
        return -1;
    }
    const double at = uniform(s->o.seed, s->count) * sum;
    for (int64_t i = 0; i < count; i++) {
        const int64_t token = ordered ? s->chosen[i] : i;
        so_far += (double)p[token];
        if (at < so_far)
            return token;
    }
    return ordered ? s->chosen[count - 1] : n - 1;
}

static bool sample(sampler *s)
{
    fputs(s->o.prompt, stdout);
    for (int64_t i = 0; i < s->o.tokens; i++) {
        lab_tensor *logits = next_logits(s);
        const int64_t token = logits ? choose(s, logits) : -1;
        if (token < 0)
            return false;
        s->tokens[s->count++] = token;
        if (!write_token(s, token))
            return false;
    }
    putchar('\n');
    return fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
    sampler s = {0};
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    int status = EXIT_BAD_INPUT;
    if (read_options(&s.o, argc, argv) && begin(&s))
        status = sample(&s) ? 0 : EXIT_FAILURE;
    end(&s);
    return status;
}
