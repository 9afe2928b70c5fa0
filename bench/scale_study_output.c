/* scale_study_output.c - the document for programs, and the picture. */
#include "scale_study.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const study_colors[STUDY_LAWS] = {
    [STUDY_NONE] = "#c8321e",    [STUDY_SQRT] = "#1f5fbf",   [STUDY_LINEAR] = "#1aa184", [STUDY_CONTROL] = "#e08a00",
    [STUDY_SOFTCAP] = "#7a3fa0", [STUDY_QKNORM] = "#606060", [STUDY_START] = "#c060a0",  [STUDY_UPDATE] = "#20a0c8",
};

const char *study_number_text(double value, char text[32])
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        const double back = strtod(text, NULL);
        if (!(back < value) && !(back > value))
            break;
    }
    return text;
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

static json_t *list_json(const bench_list *list, const char *const *words)
{
    json_t *result = json_array();
    for (int i = 0; result && i < list->count; i++)
        json_array_append_new(result, words ? json_string(words[list->values[i]]) : json_integer(list->values[i]));
    return result;
}

static json_t *reals_json(const bench_reals *reals)
{
    json_t *result = json_array();
    for (int i = 0; result && i < reals->count; i++)
        json_array_append_new(result, json_real(reals->values[i]));
    return result;
}

static json_t *settings_json(const study *s)
{
    const study_settings *of = &s->settings;
    const unsigned takes = s->command->takes;
    json_t *result = json_pack("{s:I, s:I, s:b, s:o, s:o}", "seed", (json_int_t)of->seed.values[0], "seeds",
                               (json_int_t)of->seeds.values[0], "quick", of->quick, "d", list_json(&of->d, NULL),
                               "laws", list_json(&of->laws, study_law_words));
    if (result && takes & STUDY_TAKES_N)
        json_object_set_new(result, "n", json_integer(of->n.values[0]));
    if (result && takes & STUDY_TAKES_OPTIMIZERS)
        json_object_set_new(result, "optimizers", list_json(&of->optimizers, study_optimizer_words));
    if (result && takes & STUDY_TAKES_DTYPE)
        json_object_set_new(result, "dtype", json_string(study_dtype_words[of->dtype.values[0]]));
    if (result && takes & STUDY_TAKES_RATES)
        json_object_set_new(result, "rates", reals_json(&of->rates));
    if (result && takes & STUDY_TAKES_REFINE)
        json_object_set_new(result, "refine", json_real(of->refine.values[0]));
    if (result && takes & STUDY_TAKES_MODEL) {
        json_object_set_new(result, "steps", json_integer(of->steps.values[0]));
        json_object_set_new(result, "layers", json_integer(of->layers.values[0]));
        json_object_set_new(result, "batch", json_integer(of->batch.values[0]));
    }
    return result;
}

static json_t *values_json(int width, const double *values)
{
    enum { EACH = 32 };
    char *text = calloc((size_t)width * EACH + 1, 1);
    size_t used = 0;
    for (int i = 0; text && i < width; i++)
        used += (size_t)snprintf(text + used, EACH, "%s%a", i ? " " : "", values[i]);
    json_t *result = text ? json_string(text) : NULL;
    free(text);
    return result;
}

/* The finished jobs of a run that is not done; NULL where all are, and where there is no memory. */
static json_t *finished_json(const study_results *results)
{
    json_t *list = json_array();
    int64_t count = 0;
    for (int64_t job = 0; list && job < results->jobs; job++) {
        if (!results->finished[job])
            continue;
        count++;
        json_array_append_new(list, json_pack("{s:I, s:o}", "job", (json_int_t)job, "values",
                                              values_json(results->width, results->values + job * results->width)));
    }
    if (count == results->jobs) {
        json_decref(list);
        return NULL;
    }
    return list;
}

json_t *study_document(const study *s)
{
    json_t *document = json_pack("{s:s, s:s, s:o, s:o}", "command", s->command->name, "seed_line", s->seed_line,
                                 "machine", bench_machine_json(&s->machine), "settings", settings_json(s));
    if (!document || !s->command->describe(s, document)) {
        json_decref(document);
        return NULL;
    }
    json_t *finished = finished_json(&s->results);
    if (finished)
        json_object_set_new(document, "finished", finished);
    return document;
}

bool study_write(const char *path, json_t *document)
{
    struct stat there;
    /* A device or a pipe is written to; to rename a file to its name would put the file in its place. */
    if (bench_is_stdout(path) || (stat(path, &there) == 0 && !S_ISREG(there.st_mode)))
        return bench_write_json("scale_study", path, document);
    char beside[4096];
    if (snprintf(beside, sizeof beside, "%s.part", path) >= (int)sizeof beside) {
        json_decref(document);
        fprintf(stderr, "scale_study: %s: the name is too long\n", path);
        return false;
    }
    if (!bench_write_json("scale_study", beside, document))
        return false;
    if (rename(beside, path) != 0) {
        fprintf(stderr, "scale_study: cannot write %s: %s\n", path, strerror(errno));
        return false;
    }
    return true;
}

/* ---- The picture --------------------------------------------------------------------------------------------------- */

/* Text in gnuplot's single quotes, where only the quote itself is special. */
static void put_quoted(FILE *script, const char *text)
{
    fputc('\'', script);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', script);
        fputc(*text, script);
    }
    fputc('\'', script);
}

static void put_script(FILE *script, const study *s)
{
    const int width = s->command->plot_width, height = s->command->plot_height;
    if (strcmp(s->plot_path + strlen(s->plot_path) - 4, ".svg") == 0)
        fprintf(script, "set terminal svg noenhanced size %d,%d font 'sans,13' background rgb 'white'\n", width,
                height);
    else
        fprintf(script,
                "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) set terminal pngcairo noenhanced size %d,%d font 'sans,11'; "
                "else set terminal png noenhanced size %d,%d\n",
                width, height, width, height);
    fprintf(script, "set output ");
    put_quoted(script, s->plot_path);
    fputc('\n', script);
    s->command->draw(script, s);
    fprintf(script, "unset output\n");
}

bool study_plot_possible(void)
{
    return system("command -v gnuplot > /dev/null 2>&1") == 0;
}

bool study_plot(const study *s)
{
    signal(SIGPIPE, SIG_IGN); /* a gnuplot that ends early shows in its status */
    FILE *script = popen("gnuplot", "w");
    if (script)
        put_script(script, s);
    const int status = script ? pclose(script) : -1;
    if (status != 0)
        fprintf(stderr, "scale_study: --plot: gnuplot could not draw %s\n", s->plot_path);
    return status == 0;
}
