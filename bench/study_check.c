/* study_check.c - scale_study run by tests: its documents, and what is in them. */
#include "study_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program_check.h"

const char *study_program;
char study_folder[] = "/tmp/test_scale_study_XXXXXX";

bool study_check_begin(int argc, char **argv)
{
    if (argc != 2 || !mkdtemp(study_folder)) {
        fprintf(stderr, "usage: %s SCALE_STUDY\n", argv[0]);
        return false;
    }
    study_program = argv[1];
    return true;
}

int study_check_end(int failed)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r '%s'", study_folder);
    return system(command) != 0 || failed;
}

json_t *document_of(const char *arguments)
{
    char filled[1024], path[256];
    json_error_t error;
    snprintf(path, sizeof path, "%s/out.json", study_folder);
    snprintf(filled, sizeof filled, "%s --json %s", arguments, path);
    expect_status(run(study_program, filled), 0);
    json_t *document = json_load_file(path, 0, &error);
    if (!document)
        fail_msg("%s: line %d: %s", path, error.line, error.text);
    return document;
}

char *results_text(json_t *document)
{
    json_object_del(document, "machine");
    char *text = json_dumps(document, JSON_INDENT(1));
    json_decref(document);
    assert_non_null(text);
    return text;
}

char *document_text(const char *arguments)
{
    return results_text(document_of(arguments));
}

static bool text_is(const json_t *object, const char *key, const char *wanted)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && strcmp(text, wanted) == 0;
}

const json_t *find(const json_t *document, const char *list, const char *law, int64_t d, const char *key,
                   const char *wanted)
{
    const json_t *entry;
    size_t i;
    json_array_foreach(json_object_get(document, list), i, entry)
    {
        if (text_is(entry, "law", law) && (!d || json_integer_value(json_object_get(entry, "d")) == d) &&
            (!key || text_is(entry, key, wanted)))
            return entry;
    }
    fail_msg("%s: no entry of %s, d = %d, %s", list, law, (int)d, wanted ? wanted : "");
    return NULL;
}

double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("'%s' is not a number", key);
    return json_number_value(value);
}

void expect_between(const char *what, double value, double low, double high)
{
    if (!(value >= low && value <= high))
        fail_msg("%s is %g, expected %g to %g", what, value, low, high);
}

void expect_same_on_any_number_of_threads(const char *arguments)
{
    char line[512], *text[2];
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "%s --threads %d", arguments, i + 1);
        text[i] = document_text(line);
    }
    assert_string_equal(text[0], text[1]);
    free(text[0]);
    free(text[1]);
}
