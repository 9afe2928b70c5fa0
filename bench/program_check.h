/* program_check.h - programs run by tests: what they print, and how they end. */
#ifndef PROGRAM_CHECK_H
#define PROGRAM_CHECK_H

/* What a program left behind: the first part of its output, and its exit status (-1: it did not exit by itself). */
typedef struct outcome {
    int status;
    char text[1 << 16];
} outcome;

/* Runs it by the shell, which reads the arguments; valid until the next run. */
outcome *run(const char *program, const char *arguments);

void expect_text(const outcome *o, const char *expected);
void expect_status(const outcome *o, int status);

/* The first line that begins so ends so. */
void expect_line(const outcome *o, const char *beginning, const char *end);

#endif
