/* bench_output.c - where numbers go: files, or stdout by the name "-". */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <string.h>

bool bench_is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

FILE *bench_open(const char *program, const char *path)
{
    FILE *file = bench_is_stdout(path) ? stdout : fopen(path, "w");
    if (!file)
        fprintf(stderr, "%s: cannot write %s: %s\n", program, path, strerror(errno));
    return file;
}

bool bench_close(const char *program, const char *path, FILE *file)
{
    bool good = fflush(file) == 0 && !ferror(file);
    if (file != stdout && fclose(file) != 0)
        good = false;
    if (!good)
        fprintf(stderr, "%s: writing %s failed: %s\n", program, path, strerror(errno));
    return good;
}

bool bench_write_json(const char *program, const char *path, json_t *document)
{
    FILE *file = document ? bench_open(program, path) : NULL;
    if (!document)
        fprintf(stderr, "%s: no memory for the JSON document\n", program);
    bool good = file != NULL;
    if (file) {
        good = json_dumpf(document, file, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 && fputc('\n', file) != EOF;
        good = bench_close(program, path, file) && good;
    }
    json_decref(document);
    return good;
}

json_t *bench_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
