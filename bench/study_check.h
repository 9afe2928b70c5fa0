/* study_check.h - scale_study run by tests: its documents, and what is in them. */
#ifndef STUDY_CHECK_H
#define STUDY_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The program, and a folder for files that goes with the test. */
extern const char *study_program;
extern char study_folder[];

/* Takes the program's name from the arguments, and makes the folder; false after a message. */
bool study_check_begin(int argc, char **argv);
/* Removes the folder; the status of the test whose functions `failed`. */
int study_check_end(int failed);

/* What the subcommand writes with these arguments. */
json_t *document_of(const char *arguments);
/* The same as text, without what depends on the machine; freed by the caller. */
char *document_text(const char *arguments);
/* A document's text, which is dropped. */
char *results_text(json_t *document);

/* The list's first entry that has these: `key` is a further member, NULL for none; d 0 fits all. */
const json_t *find(const json_t *document, const char *list, const char *law, int64_t d, const char *key,
                   const char *wanted);
double number(const json_t *object, const char *key);
void expect_between(const char *what, double value, double low, double high);
void expect_same_on_any_number_of_threads(const char *arguments);

#endif
