/* test_goals.c - goals.sh as a program: goals are held against what was measured, by us and by others. Nothing is
 * measured here.
 *
 *     test_goals GOALS
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "program_check.h"

static const char *goals;
static char folder[] = "/tmp/test_goals_XXXXXX";

/* An attn_bench that has measured already: a few rows, the same in every run. */
static const char pretended[] =
    "#!/bin/sh\n"
    "while [ $# -gt 0 ]; do case $1 in --csv) csv=$2 ;; --json) json=$2 ;; esac; shift; done\n"
    "cat >\"$csv\" <<'END'\n"
    "impl,dtype,causal,pass,batch,heads,kv_heads,d,tq,tk,window,threads,ms_min,gflops,share_of_fma,"
    "share_of_read,workspace_bytes\n"
    "fused,f32,false,forward,1,8,8,64,512,512,,1,2,80,0.9,,1000\n"
    "fused,f32,false,forward,1,8,8,64,1024,1024,,1,8,84,0.84,,1000\n"
    "fused,f32,false,forward,1,8,8,64,1024,1024,,2,4.2,10,0.8,,1000\n"
    "fused,f32,true,forward,1,8,8,64,8192,8192,255,1,4,10,0.5,,1000\n"
    "fused,f32,true,decode,1,32,32,64,1,4096,,1,4,10,0.1,0.79,1000\n"
    "fused,f32,true,backward,1,8,8,64,32768,32768,,2,4,10,0.1,,69206016\n"
    "fused,f32,true,backward,1,1,1,64,131072,131072,,2,4,10,0.1,,1000\n"
    "END\n"
    "printf '  \"kernels\": \"none\",\\n  \"fma_gflops\": 100.0,\\n  \"tile_gflops\": 96.0\\n"
    "  \"fma_gflops\": 50.0,\\n  \"tile_gflops\": 40.0\\n' >\"$json\"\n"
    "printf 'a machine\\n\\na table\\n'\n";

static void write_file(const char *path, const char *content)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0 && fchmod(fileno(file), 0700) == 0 && fclose(file) == 0);
}

static outcome *run_goals(const char *arguments)
{
    char command[1024];
    snprintf(command, sizeof command, "'%s' %s", goals, arguments);
    return run("bash", command);
}

static void goals_are_held_against_what_was_measured(void **state)
{
    (void)state;
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s/bench", folder);
    assert_int_equal(mkdir(arguments, 0700), 0);
    snprintf(arguments, sizeof arguments, "%s/bench/attn_bench", folder);
    write_file(arguments, pretended);
    snprintf(arguments, sizeof arguments, "--build '%s' 2> /dev/null", folder);
    outcome *o = run_goals(arguments);
    expect_status(o, 0);
    expect_text(o, "a machine\n");
    expect_line(o, "tile product, f32", "96.0 %    >=     95 %    met");
    expect_line(o, "tile product, f64", "80.0 %    >=     95 %    NOT MET");
    expect_line(o, "forward full, T = 512", "90.0 %    >=     85 %    met");
    expect_line(o, "forward full, T = 1024", "84.0 %    >=     85 %    NOT MET");
    expect_line(o, "forward full, T = 4096", "not measured");
    expect_line(o, "two threads against one, forward full, T = 1024", "1.90 x    >=   1.85 x    met");
    expect_line(o, "window (255, 0)", "50.0 %    >=     45 %    met");
    expect_line(o, "decoding, 32 heads, Tk", "79.0 %    >=     80 %    NOT MET");
    expect_line(o, "workspace", "64.0 MiB  <=     64 MiB  met");
    expect_line(o, "T = 131072, one head, causal: forward and backward", "run: met");
    expect_text(o, "6 of 26 goals met, 17 not measured");
}

/* Others who have been timed already, in the first turn faster than in the next. */
static const char pretended_others[] =
    "row() { printf '{\"impl\": \"%s\", \"dtype\": \"f32\", \"causal\": false, \"heads\": 8, \"d\": 64, \"tk\": %s, '"
    "'\"ms_min\": 9, \"gflops\": %s, \"pass\": \"forward\"}\\n' \"$@\"; }\n"
    "row torch-9.9 512 40\n"
    "if [ -e \"$0.again\" ]; then row ort-1.1 1024 21; else row ort-1.1 1024 42; fi\n"
    "touch \"$0.again\"\n";

static void goals_hold_ours_against_the_best_of_others(void **state)
{
    (void)state;
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s/others", folder);
    write_file(arguments, pretended_others);
    snprintf(arguments, sizeof arguments, "--build '%s' --beside --python sh --peers '%s/others' 2> /dev/null", folder,
             folder);
    outcome *o = run_goals(arguments);
    expect_status(o, 0);
    expect_text(o, "a machine\n");
    if (strstr(o->text, "two threads against one"))
        fail_msg("--beside measures more than that:\n%s", o->text);
    expect_line(o, "forward full, T = 512                  torch", "80.0     40.0       2.00 x    >=    1.1 x    met");
    expect_line(o, "forward full, T = 1024                 ort", "84.0     42.0       2.00 x");
    expect_line(o, "forward full, T = 1024                 torch", "not measured");
    expect_text(o, "1 of 16 goals met, 15 not measured");
}

static void goals_refuses_what_it_does_not_know(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"--speed", "unknown option '--speed'"},
        {"--rounds", "--rounds: its value is missing"},
        {"--beside", "--beside: --python and --peers are missing"},
        {"--python sh", "--python and --peers go together"},
        {"--build /nonexistent", "--build: there is no /nonexistent/bench/attn_bench"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "%s 2>&1 > /dev/null", cases[i][0]);
        outcome *o = run_goals(arguments);
        expect_status(o, 2);
        expect_text(o, cases[i][1]);
    }
    outcome *o = run_goals("--help");
    expect_status(o, 0);
    expect_text(o, "--short ");
}

int main(int argc, char **argv)
{
    if (argc != 2 || !mkdtemp(folder)) {
        fprintf(stderr, "usage: test_goals GOALS\n");
        return 1;
    }
    goals = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goals_are_held_against_what_was_measured),
        cmocka_unit_test(goals_hold_ours_against_the_best_of_others),
        cmocka_unit_test(goals_refuses_what_it_does_not_know),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command) != 0 || failed;
}
