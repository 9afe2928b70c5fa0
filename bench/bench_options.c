/* bench_options.c - the command line, from one table that also writes --help. */
#include "bench.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void bench_usage_error(const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

static void print_help(const bench_program *program)
{
    printf("usage: %s [OPTION]...\n\n%s\n\n", program->name, program->summary);
    for (int i = 0; i < program->n_options; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", program->options[i].name, program->options[i].argument);
        /* The help of an option may have several lines; the later ones are moved under the first. */
        const char *help = program->options[i].help;
        for (bool first = true; *help; first = false) {
            int length = (int)strcspn(help, "\n");
            printf("  %-24s %.*s\n", first ? left : "", length, help);
            help += length + (help[length] == '\n');
        }
    }
    printf("  %-24s %s\n\n%s\n", "--help", "this text", program->notes);
    exit(fflush(stdout) == 0 ? 0 : 1);
}

/* ---- Values ---------------------------------------------------------------------------------------------------- */

static void add_value(const char *program, const bench_option *option, int64_t value)
{
    bench_list *list = option->list;
    for (int i = 0; i < list->count; i++)
        if (list->values[i] == value)
            return; /* said twice: measured once */
    if (list->count == BENCH_MAX_LIST)
        bench_usage_error(program, "%s: more than %d values", option->name, (int)BENCH_MAX_LIST);
    list->values[list->count++] = value;
}

static void parse_number(const char *program, const bench_option *option, const char *text)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || value < option->least || value > option->most)
        bench_usage_error(program, "%s: '%s' is not a whole number from %lld to %lld", option->name, text,
                          (long long)option->least, (long long)option->most);
    add_value(program, option, value);
}

static void parse_real(const char *program, const bench_option *option, const char *text)
{
    bench_reals *reals = option->reals;
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)*text) || !isfinite(value) || !(value > option->above))
        bench_usage_error(program, "%s: '%s' is not a number above %g", option->name, text, option->above);
    for (int i = 0; i < reals->count; i++)
        if (!(reals->values[i] < value) && !(reals->values[i] > value))
            return;
    if (reals->count == BENCH_MAX_LIST)
        bench_usage_error(program, "%s: more than %d values", option->name, (int)BENCH_MAX_LIST);
    reals->values[reals->count++] = value;
}

static void parse_word(const char *program, const bench_option *option, const char *text)
{
    char known[128] = "";
    for (int i = 0; option->words[i]; i++) {
        if (strcmp(option->words[i], text) == 0) {
            add_value(program, option, i);
            return;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", option->words[i]);
    }
    bench_usage_error(program, "%s: '%s' is none of %s", option->name, text, known);
}

static void parse_list(const char *program, const bench_option *option, const char *text)
{
    /* In place of the default, or of what was said before. */
    if (option->reals)
        option->reals->count = 0;
    else
        option->list->count = 0;
    for (;;) {
        char item[64];
        size_t length = option->many ? strcspn(text, ",") : strlen(text);
        if (length >= sizeof item)
            bench_usage_error(program, "%s: '%s' is too long", option->name, text);
        memcpy(item, text, length);
        item[length] = '\0';
        if (option->reals)
            parse_real(program, option, item);
        else if (option->words)
            parse_word(program, option, item);
        else
            parse_number(program, option, item);
        if (text[length] == '\0')
            return;
        text += length + 1;
    }
}

/* A long run must not end at a file that cannot be written: try now, and leave no trace. */
static void parse_file(const char *program, const bench_option *option, const char *path)
{
    bool right = option->endings == NULL;
    for (int i = 0; option->endings && option->endings[i]; i++) {
        size_t length = strlen(path), ending = strlen(option->endings[i]);
        right |= length > ending && strcmp(path + length - ending, option->endings[i]) == 0;
    }
    if (!right)
        bench_usage_error(program, "%s: '%s' must end in %s or %s", option->name, path, option->endings[0],
                          option->endings[1]);
    *option->file = path;
    if (!option->endings && bench_is_stdout(path))
        return;
    bool existed = access(path, F_OK) == 0;
    FILE *file = fopen(path, "a");
    if (!file)
        bench_usage_error(program, "%s: cannot write '%s': %s", option->name, path, strerror(errno));
    fclose(file);
    if (!existed)
        remove(path);
}

/* ---- The command line ------------------------------------------------------------------------------------------ */

/* "--name" or "--name=value" */
static const bench_option *find_option(const bench_program *program, const char *argument, const char **value)
{
    size_t length = strcspn(argument, "=");
    *value = argument[length] == '=' ? argument + length + 1 : NULL;
    for (int i = 0; i < program->n_options; i++)
        if (strlen(program->options[i].name) == length && strncmp(program->options[i].name, argument, length) == 0)
            return &program->options[i];
    return NULL;
}

void bench_options_parse(const bench_program *program, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0)
            print_help(program);
    for (int i = 1; i < argc; i++) {
        const char *value;
        const bench_option *option = find_option(program, argv[i], &value);
        if (!option)
            bench_usage_error(program->name, "unknown option '%s'; --help lists them", argv[i]);
        if (option->flag && !value) {
            *option->flag = true;
            continue;
        }
        if (!option->list && !option->string && !option->file && !option->reals)
            bench_usage_error(program->name, "%s: it takes no value", option->name);
        if (!value && i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0)
            value = argv[++i];
        if (!value || !*value)
            bench_usage_error(program->name, "%s: its value is missing (%s)", option->name, option->argument);
        if (option->string)
            *option->string = value;
        else if (option->file)
            parse_file(program->name, option, value);
        else
            parse_list(program->name, option, value);
    }
}
