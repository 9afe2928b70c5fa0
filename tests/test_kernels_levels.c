/* test_kernels_levels.c - the choice of a level: by processor, by LAB_KERNELS, by force, by several threads at once.
 *
 * A process chooses once, so each case of LAB_KERNELS is a child, forked before this program has chosen.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/kernels.h"

enum { THREADS = 8, MOST_LEVELS = 8 };

static int present_levels(const kernel_table *tables[MOST_LEVELS])
{
    int n = 0;
    bool end = false;
    for (int i = 0; !end; i++) {
        const kernel_table *table = lab__kernels_level(i, &end);
        if (table)
            tables[n++] = table;
    }
    return n;
}

static void every_entry_of_every_level_is_there(void **state)
{
    (void)state;
    const kernel_table *tables[MOST_LEVELS];
    int n = present_levels(tables);
    assert_true(n >= 1);
    assert_string_equal(tables[0]->level, "plain");
    for (int i = 0; i < n; i++)
        for (int type = 0; type < KERNEL_TYPES; type++) {
            const kernel_row_fns *row = &tables[i]->row[type];
            for (int op = 0; op < KERNEL_UNARY_COUNT; op++)
                assert_true(tables[i]->unary[type][op] != NULL);
            for (int op = 0; op < KERNEL_BINARY_COUNT; op++)
                assert_true(tables[i]->binary[type][op] != NULL);
            for (int op = 0; op < KERNEL_COMPARE_COUNT; op++)
                assert_true(tables[i]->compare[type][op] != NULL);
            assert_true(row->sum && row->dot && row->maximum && row->softmax && row->log_softmax && row->logsumexp &&
                        row->softmax_backward && row->log_softmax_backward);
        }
}

static void a_level_can_be_forced_and_the_best_is_the_last(void **state)
{
    (void)state;
    const kernel_table *tables[MOST_LEVELS];
    int n = present_levels(tables);
    for (int i = 0; i < n; i++) {
        assert_true(lab__kernels_force(tables[i]->level));
        assert_ptr_equal(lab__kernels(), tables[i]);
        assert_false(lab__kernels_force("mmx"));
        assert_false(lab__kernels_force(""));
        assert_ptr_equal(lab__kernels(), tables[i]);
    }
    assert_true(lab__kernels_force(NULL));
    if (!getenv("LAB_KERNELS"))
        assert_ptr_equal(lab__kernels(), tables[n - 1]);
}

static void levels_end(void **state)
{
    (void)state;
    bool end = false;
    assert_null(lab__kernels_level(MOST_LEVELS, &end));
    assert_true(end);
    end = false;
    assert_null(lab__kernels_level(-1, &end));
    assert_true(end);
}

/* ---- LAB_KERNELS ------------------------------------------------------------------------------------------------- */

/* The level that this says if it is there, else the best; also once another one was forced for a while. */
static bool chosen_by(const char *asked)
{
    setenv("LAB_KERNELS", asked, 1);
    const kernel_table *table = lab__kernels(), *tables[MOST_LEVELS];
    int n = present_levels(tables);
    for (int i = 0; i < n; i++)
        if (!lab__kernels_force(tables[i]->level) || !lab__kernels_force(NULL) || lab__kernels() != table)
            return false;
    for (int i = 0; i < n; i++)
        if (strcmp(tables[i]->level, asked) == 0)
            return table == tables[i];
    return table == tables[n - 1];
}

/* Run first. */
static void the_environment_chooses_a_level_that_is_there(void **state)
{
    (void)state;
    static const char *const asked[] = {"plain", "neon", "avx2", "avx512", "", "no such level"};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        int status = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(!chosen_by(asked[i]));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("LAB_KERNELS='%s' chose another level", asked[i]);
    }
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

static void *ask(void *context)
{
    const kernel_table **got = context;
    *got = lab__kernels();
    lab__kernels_force(NULL);
    return NULL;
}

/* Run second, so that the threads find no choice made yet. */
static void several_threads_may_ask_first(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    const kernel_table *got[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &got[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_non_null(got[i]);
        assert_non_null(got[i]->level);
    }
}

/* ---- The peak ---------------------------------------------------------------------------------------------------- */

static double best_peak(const kernel_table *table, kernel_type type)
{
    double best = 0;
    for (int i = 0; i < 5; i++)
        best = fmax(best, lab__kernels_fma_peak(table, type, 0.004));
    return best;
}

/* Whether it is the machine's own is for the bench to say, which knows the clock. A vector holds twice as many floats;
 * but where the compiler does not optimise, or there is an emulator, it is not the vector units that are measured. */
static void the_peak_doubles_with_the_lanes(void **state)
{
    (void)state;
    const kernel_table *tables[MOST_LEVELS];
    int n = present_levels(tables);
    for (int i = 0; i < n; i++) {
        double f32 = best_peak(tables[i], KERNEL_F32), f64 = best_peak(tables[i], KERNEL_F64);
        print_message("%s: %.1f and %.1f GF/s\n", tables[i]->level, f32, f64);
        assert_true(isfinite(f32) && f32 > 0 && isfinite(f64) && f64 > 0);
#ifdef NDEBUG
        if (f32 < 1)
            print_message("SKIPPED: an emulator has no vector units\n");
        else
            assert_true(f32 > 1.3 * f64 && f32 < 3 * f64);
#endif
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_chooses_a_level_that_is_there),
        cmocka_unit_test(several_threads_may_ask_first),
        cmocka_unit_test(every_entry_of_every_level_is_there),
        cmocka_unit_test(a_level_can_be_forced_and_the_best_is_the_last),
        cmocka_unit_test(levels_end),
        cmocka_unit_test(the_peak_doubles_with_the_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
