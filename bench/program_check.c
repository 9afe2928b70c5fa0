/* program_check.c - see program_check.h. */
#include "program_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

outcome *run(const char *program, const char *arguments)
{
    static outcome o;
    char command[2048];
    snprintf(command, sizeof command, "'%s' %s", program, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(o.text, 1, sizeof o.text - 1, pipe);
    o.text[n] = '\0';
    int status = pclose(pipe);
    o.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return &o;
}

void expect_text(const outcome *o, const char *expected)
{
    if (!strstr(o->text, expected))
        fail_msg("'%s' is not in:\n%s", expected, o->text);
}

void expect_status(const outcome *o, int status)
{
    if (o->status != status)
        fail_msg("exit status %d, expected %d; output:\n%s", o->status, status, o->text);
}

void expect_line(const outcome *o, const char *beginning, const char *end)
{
    const char *line = strstr(o->text, beginning);
    if (!line)
        fail_msg("no line begins with '%s':\n%s", beginning, o->text);
    const char *stop = line + strcspn(line, "\n");
    if ((size_t)(stop - line) < strlen(end) || strncmp(stop - strlen(end), end, strlen(end)) != 0)
        fail_msg("'%.*s' does not end with '%s'", (int)(stop - line), line, end);
}
