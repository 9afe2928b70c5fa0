/* test_gemm.c - products: every layout against a loop, large ones by Freivalds' check, the same bits for any number of
 * threads, NaN and infinity, nothing times nothing, BLAS's int.
 */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gemm_case.h"
#include "kernels/gemm_plan.h"
#include "kernels/parallel.h"

static void judge(const gemm_case *x)
{
    const char *wrong = case_wrong(x);
    if (wrong)
        fail_msg("seed %llu: %s: %s", (unsigned long long)guarded_seed(), case_text(&x->p), wrong);
}

static void try_product(const gemm_product *p, uint64_t *stream)
{
    gemm_case x = case_make(p, stream);
    case_run(1, &x);
    judge(&x);
    case_free(&x);
}

/* ---- Against a loop ---------------------------------------------------------------------------------------------------- */

static void every_layout_gives_the_product_and_touches_nothing_else(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 5};
    uint64_t stream = guarded_stream(__func__);
    for (int i = 0; i < 27; i++)
        case_every_layout(sizes[i % 3], sizes[i / 3 % 3], sizes[i / 9], try_product, &stream);
    case_every_layout(17, 33, 9, try_product, &stream);
}

static void random_batches_are_broadcast_and_summed(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    for (int i = 0; i < 6000; i++) {
        int64_t most = guarded_below(&stream, 4) ? 4 : 12;
        gemm_product p = {.type = (kernel_type)(i % 2), .add = i / 2 % 2};
        p.m = 1 + guarded_below(&stream, most);
        p.n = 1 + guarded_below(&stream, most);
        p.k = 1 + guarded_below(&stream, most);
        p.batch_rank = (int)guarded_below(&stream, i % 50 ? 4 : GEMM_MAX_BATCH_RANK + 1);
        for (int axis = 0; axis < p.batch_rank; axis++)
            p.batch[axis] = 1 + guarded_below(&stream, p.batch_rank > 4 ? 2 : 4);
        case_random_strides(&p, &stream);
        try_product(&p, &stream);
    }
}

static void products_beside_each_other_do_not_disturb_one_another(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    lab__parallel_set_threads(2);
    for (int i = 0; i < 200; i++) {
        enum { MOST = 9 };
        gemm_case cases[MOST];
        int count = 1 + (int)guarded_below(&stream, MOST);
        for (int j = 0; j < count; j++) {
            gemm_product p = {.type = (kernel_type)guarded_below(&stream, 2), .add = guarded_below(&stream, 2)};
            p.m = 1 + guarded_below(&stream, 9);
            p.n = 1 + guarded_below(&stream, 9);
            p.k = guarded_below(&stream, 9);
            p.batch_rank = 1;
            p.batch[0] = 1 + guarded_below(&stream, 3);
            case_random_strides(&p, &stream);
            cases[j] = case_make(&p, &stream);
        }
        case_run(count, cases);
        for (int j = 0; j < count; j++) {
            judge(&cases[j]);
            case_free(&cases[j]);
        }
    }
    lab__parallel_set_threads(0);
}

/* ---- Large ones: Freivalds' check ---------------------------------------------------------------------------------------- */

/* A (B x) = C x for a random x of signs, row by row: a wrong element is missed with probability 1/2 in each of three
 * rounds. */
static void check_by_random_vectors(const gemm_case *c, uint64_t *stream)
{
    const gemm_product *p = &c->p;
    double *x = malloc((size_t)p->n * sizeof *x), *bx = malloc((size_t)p->k * sizeof *bx);
    for (int round = 0; round < 3; round++) {
        for (int64_t j = 0; j < p->n; j++)
            x[j] = guarded_below(stream, 2) ? 1.0 : -1.0;
        for (int64_t k = 0; k < p->k; k++) {
            bx[k] = 0.0;
            for (int64_t j = 0; j < p->n; j++)
                bx[k] += x[j] * case_element(p, p->b, k * p->b_row + j * p->b_col);
        }
        for (int64_t i = 0; i < p->m; i++) {
            double want = 0.0, got = 0.0;
            for (int64_t k = 0; k < p->k; k++)
                want += bx[k] * case_element(p, p->a, i * p->a_row + k * p->a_col);
            for (int64_t j = 0; j < p->n; j++)
                got += x[j] * case_element(p, p->c, i * p->c_row + j * p->c_col);
            /* Each element is off by a few roundings of numbers around sqrt(k); one wrong by its size is far beyond. */
            double bound = (p->type == KERNEL_F32 ? 1e-6 : 1e-14) * (double)p->k * sqrt((double)p->n) / 2;
            if (!(fabs(want - got) <= bound))
                fail_msg("seed %llu: %s: row %lld: %g instead of %g, %g allowed", (unsigned long long)guarded_seed(),
                         case_text(p), (long long)i, got, want, bound);
        }
    }
    free(x);
    free(bx);
}

static void large_products_pass_freivalds_check(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {
        {800, 401, 150}, {100, 1541, 64}, {1001, 1, 700}, {1, 769, 513}, {385, 385, 385}};
    uint64_t stream = guarded_stream(__func__);
    lab__parallel_set_threads(2);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int layouts = 0; layouts < 16; layouts++) {
            gemm_product p = {.type = (kernel_type)(layouts % 2), .m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2]};
            case_layouts(&p, (case_layout)(layouts % LAYOUT_RESULTS), (case_layout)((layouts / 2 + 1) % LAYOUT_RESULTS),
                         (case_layout)((layouts / 4 + 2) % LAYOUT_RESULTS));
            gemm_case x = case_make(&p, &stream);
            case_run(1, &x);
            check_by_random_vectors(&x, &stream);
            case_free(&x);
        }
    lab__parallel_set_threads(0);
}

/* ---- Bits -------------------------------------------------------------------------------------------------------------- */

enum { BIT_CASES = 8 };

/* One of everything that is cut, grouped, folded, copied, or run beside another. */
static gemm_product bit_case(int i)
{
    gemm_product all[BIT_CASES] = {
        {.m = 800, .n = 200, .k = 300},
        {.m = 150, .n = 1100, .k = 90},
        {.m = 2000, .n = 1, .k = 600},
        {.m = 1, .n = 2100, .k = 555},
        {.m = 64, .n = 64, .k = 64, .batch_rank = 1, .batch = {48}},
        {.m = 3, .n = 5, .k = 7, .batch_rank = 2, .batch = {40, 50}},
        {.m = 96, .n = 420, .k = 130, .batch_rank = 1, .batch = {3}},
        {.m = 250, .n = 390, .k = 120},
    };
    gemm_product p = all[i];
    case_layouts(&p, i == 7 ? LAYOUT_STRIDED : LAYOUT_COLUMNS, LAYOUT_ROWS, i == 7 ? LAYOUT_STRIDED : LAYOUT_ROWS);
    if (i == 6) {
        p.c_batch[0] = 0; /* summed */
        p.a_batch[0] += 1;
    }
    return p;
}

static void run_bit_cases(kernel_type type, int threads, gemm_case *cases)
{
    uint64_t stream = guarded_stream("bits");
    lab__parallel_set_threads(threads);
    for (int i = 0; i < BIT_CASES; i++) {
        gemm_product p = bit_case(i);
        p.type = type;
        p.add = i % 2;
        cases[i] = case_make(&p, &stream);
    }
    for (int i = 0; i < BIT_CASES - 2; i++)
        case_run(1, &cases[i]);
    case_run(2, &cases[BIT_CASES - 2]);
    lab__parallel_set_threads(0);
}

static void bits_do_not_depend_on_the_number_of_threads(void **state)
{
    (void)state;
    static const int threads[] = {2, 7, 2, 7, 3};
    for (int type = 0; type < KERNEL_TYPES; type++) {
        gemm_case alone[BIT_CASES], together[BIT_CASES];
        run_bit_cases((kernel_type)type, 1, alone);
        uint64_t taken = 0;
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            uint64_t before = lab__parallel_pieces_taken();
            run_bit_cases((kernel_type)type, threads[t], together);
            taken += lab__parallel_pieces_taken() - before;
            for (int i = 0; i < BIT_CASES; i++) {
                if (memcmp(alone[i].c.data, together[i].c.data, alone[i].c.bytes) != 0)
                    fail_msg("seed %llu: %s: other bits with %d threads", (unsigned long long)guarded_seed(),
                             case_text(&alone[i].p), threads[t]);
                case_free(&together[i]);
            }
        }
        assert_true(taken > 0);
        for (int i = 0; i < BIT_CASES; i++)
            case_free(&alone[i]);
    }
}

/* ---- What is folded and cut ------------------------------------------------------------------------------------------------ */

static gemm_plan plan_of(gemm_product p)
{
    gemm_plan plan;
    assert_true(lab__gemm_fits(&p));
    lab__gemm_plan(&plan, &p);
    return plan;
}

/* A linear layer on [batch, time, k]: forward, and the gradient of its weight, are one call each. */
static void batches_that_continue_are_one_product(void **state)
{
    (void)state;
    gemm_product forward = {.m = 64, .n = 96, .k = 32, .batch_rank = 2, .batch = {5, 7}};
    case_layouts(&forward, LAYOUT_ROWS, LAYOUT_COLUMNS, LAYOUT_ROWS);
    memset(forward.b_batch, 0, sizeof forward.b_batch);
    gemm_plan plan = plan_of(forward);
    assert_int_equal(plan.rank, 0);
    assert_int_equal(plan.m, 5 * 7 * 64);
    assert_int_equal(lab__gemm_workspace(1, &forward), 0);

    gemm_product weight = {.m = 32, .n = 96, .k = 64, .batch_rank = 2, .batch = {5, 7}};
    case_layouts(&weight, LAYOUT_COLUMNS, LAYOUT_ROWS, LAYOUT_ROWS);
    memset(weight.c_batch, 0, sizeof weight.c_batch);
    plan = plan_of(weight);
    assert_int_equal(plan.rank, 0);
    assert_int_equal(plan.k, 5 * 7 * 64);
    assert_int_equal(lab__gemm_workspace(1, &weight), 0);

    /* One row of each: a vector times a matrix, 5 * 7 times, is a matrix times a matrix. */
    gemm_product rows = {.m = 1, .n = 96, .k = 32, .batch_rank = 2, .batch = {5, 7}};
    case_layouts(&rows, LAYOUT_ROWS, LAYOUT_ROWS, LAYOUT_ROWS);
    memset(rows.b_batch, 0, sizeof rows.b_batch);
    plan = plan_of(rows);
    assert_int_equal(plan.rank, 0);
    assert_false(plan.vector);
    assert_int_equal(plan.m, 35);

    /* What would only be readable through a copy is left as it is. */
    gemm_product same = {.m = 1, .n = 96, .k = 32, .batch_rank = 1, .batch = {5}};
    case_layouts(&same, LAYOUT_ROWS, LAYOUT_ROWS, LAYOUT_ROWS);
    same.a_batch[0] = same.b_batch[0] = 0;
    assert_int_equal(plan_of(same).rank, 1);
    assert_int_equal(lab__gemm_workspace(1, &same), 0);
}

static void large_products_are_cut_into_a_power_of_two_of_equal_panels(void **state)
{
    (void)state;
    static const int64_t sides[] = {191, 383, 384, 512, 767, 768, 1000, 1024, 4095, 20000};
    static const int64_t panels[] = {1, 1, 2, 2, 2, 4, 4, 4, 16, 64};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        gemm_product p = {.m = 128, .n = sides[i], .k = 512};
        case_layouts(&p, LAYOUT_ROWS, LAYOUT_ROWS, LAYOUT_ROWS);
        gemm_plan plan = plan_of(p);
        assert_int_equal(plan.panels, panels[i]);
        int64_t least = INT64_MAX, most = 0;
        for (int64_t panel = 0; panel < plan.panels; panel++) {
            int64_t length = lab__gemm_panel_start(&plan, panel + 1) - lab__gemm_panel_start(&plan, panel);
            least = length < least ? length : least;
            most = length > most ? length : most;
        }
        assert_true(plan.panels == 1 || least >= 192);
        assert_true(most - least < 32);
        assert_int_equal(lab__gemm_panel_start(&plan, plan.panels), sides[i]);
    }
}

/* Who multiplies what could go to cblas: a matter of speed, by sizes, strides and the width of vectors alone. */
static void the_tile_product_takes_what_it_is_faster_at(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        int64_t m, n, k;
        bool across, columns, narrow, wide; /* how A and B lie; whether vectors of 256 and 512 bits take it */
    } products[] = {
        {"a layer's map", 768, 128, 128, false, true, true, true},
        {"back through it", 128, 768, 512, false, false, true, true},
        {"its weight's gradient", 512, 128, 768, true, false, false, true},
        {"large", 1024, 1024, 1024, false, false, false, true},
        {"across", 256, 256, 1024, true, false, false, true},
        {"long sums", 256, 256, 1025, false, false, false, false},
        {"three columns", 1024, 3, 1024, false, false, false, false},
        {"small", 64, 64, 64, true, false, true, true},
        {"small, longer", 64, 64, 65, true, false, false, false},
        {"few rows and dense columns", 7, 40, 300, false, true, true, false},
        {"more rows", 8, 40, 300, false, true, true, true},
        {"few rows and dense rows", 7, 40, 300, false, false, true, true},
    };
    const char *const levels[] = {"plain", "avx2", "avx512"};
    for (int level = 0; level < 3; level++) {
        if (!lab__kernels_force(levels[level]))
            continue;
        for (size_t i = 0; i < 2 * sizeof products / sizeof *products; i++) {
            gemm_product p = {.m = products[i / 2].m, .n = products[i / 2].n, .k = products[i / 2].k};
            case_layout a = products[i / 2].across ? LAYOUT_COLUMNS : LAYOUT_ROWS;
            case_layout b = products[i / 2].columns ? LAYOUT_COLUMNS : LAYOUT_ROWS;
            case_layouts(&p, a, b, LAYOUT_ROWS);
            if (i % 2) { /* C^T = B^T A^T is the same product */
                p = (gemm_product){.m = p.n, .n = p.m, .k = p.k};
                case_layouts(&p, b == LAYOUT_ROWS ? LAYOUT_COLUMNS : LAYOUT_ROWS,
                             a == LAYOUT_ROWS ? LAYOUT_COLUMNS : LAYOUT_ROWS, LAYOUT_COLUMNS);
            }
            const bool want = level == 2 ? products[i / 2].wide : level == 1 && products[i / 2].narrow;
            if (plan_of(p).tiled != want)
                fail_msg("%s: %s (%s): must%s be the tile product's", levels[level], products[i / 2].what,
                         case_text(&p), want ? "" : " not");
        }
    }
    lab__kernels_force(NULL);
}

/* ---- NaN, infinity, nothing ------------------------------------------------------------------------------------------------ */

static void not_a_number_stays_in_its_row(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 40; n += 39)
        for (int transposed = 0; transposed < 2; transposed++) {
            uint64_t stream = guarded_stream(__func__);
            gemm_product p = {.type = KERNEL_F64, .m = 30, .n = n, .k = 20};
            case_layouts(&p, transposed ? LAYOUT_COLUMNS : LAYOUT_ROWS, LAYOUT_ROWS, LAYOUT_ROWS);
            gemm_case x = case_make(&p, &stream);
            double *a = (double *)x.a.data, *c = (double *)x.c.data;
            a[7 * p.a_row + 3 * p.a_col] = NAN;
            a[11 * p.a_row + 4 * p.a_col] = INFINITY;
            memset(x.b.data, 0, x.b.bytes); /* 0 * NaN and 0 * inf are NaN */
            case_run(1, &x);
            for (int64_t i = 0; i < p.m; i++)
                for (int64_t j = 0; j < n; j++)
                    assert_int_equal(isnan(c[i * n + j]) != 0, i == 7 || i == 11);
            case_free(&x);
        }
}

static void sums_of_nothing_are_zero_or_leave_what_is_there(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    for (int layout = 0; layout < LAYOUT_RESULTS; layout++)
        for (int i = 0; i < 8; i++) {
            gemm_product p = {.type = (kernel_type)(i % 2), .add = i / 2 % 2, .m = 4, .n = 70, .k = 3};
            p.batch_rank = 2;
            p.batch[0] = 3;
            p.batch[1] = i / 4 ? 0 : 2;
            p.k = i / 4 ? 3 : 0;
            case_layouts(&p, LAYOUT_ROWS, LAYOUT_ROWS, (case_layout)layout);
            if (i / 4) { /* an empty sum over the batch: case_wrong expects no element at all, so it is told of k = 0 */
                p.c_batch[1] = 0;
                p.c_batch[0] = 2 * 4 * 80 * 2;
                gemm_product as_zero_k = p;
                as_zero_k.batch[1] = 1;
                as_zero_k.k = 0;
                gemm_case x = case_make(&as_zero_k, &stream);
                x.p.batch[1] = 0;
                x.p.k = 3;
                case_run(1, &x);
                x.p.batch[1] = 1;
                x.p.k = 0;
                judge(&x);
                case_free(&x);
            } else {
                try_product(&p, &stream);
            }
        }
}

static void no_elements_is_no_work(void **state)
{
    (void)state;
    uint64_t stream = guarded_stream(__func__);
    for (int i = 0; i < 16; i++) {
        gemm_product p = {.m = i & 1 ? 0 : 3, .n = i & 2 ? 0 : 4, .k = i & 4 ? 0 : 5, .batch_rank = 1};
        p.batch[0] = i & 8 ? 0 : 2;
        case_layouts(&p, LAYOUT_ROWS, LAYOUT_STRIDED, LAYOUT_COLUMNS);
        if (i != 0)
            assert_int_equal(lab__gemm_workspace(1, &p), 0);
        try_product(&p, &stream);
    }
}

/* ---- BLAS's int -------------------------------------------------------------------------------------------------------------- */

static void what_blas_cannot_count_is_refused(void **state)
{
    (void)state;
    const int64_t beyond = (int64_t)INT_MAX + 1;
    for (int i = 0; i < 3; i++) {
        gemm_product p = {.m = 2, .n = 2, .k = 2};
        int64_t *size = i == 0 ? &p.m : i == 1 ? &p.n : &p.k;
        *size = INT_MAX;
        case_layouts(&p, LAYOUT_COLUMNS, LAYOUT_ROWS, i == 0 ? LAYOUT_COLUMNS : LAYOUT_ROWS);
        assert_true(lab__gemm_fits(&p));
        *size = beyond;
        case_layouts(&p, LAYOUT_COLUMNS, LAYOUT_ROWS, i == 0 ? LAYOUT_COLUMNS : LAYOUT_ROWS);
        assert_false(lab__gemm_fits(&p));
        case_layouts(&p, LAYOUT_ONE_ELEMENT, LAYOUT_ONE_ELEMENT, LAYOUT_ROWS);
        assert_false(lab__gemm_fits(&p));
    }
    for (int i = 0; i < 3; i++) {
        gemm_product p = {.m = 2, .n = 3, .k = 4};
        case_layouts(&p, LAYOUT_ROWS, LAYOUT_ROWS, LAYOUT_ROWS);
        int64_t *row = i == 0 ? &p.a_row : i == 1 ? &p.b_row : &p.c_row;
        *row = INT_MAX;
        assert_true(lab__gemm_fits(&p));
        *row = beyond;
        assert_false(lab__gemm_fits(&p));
        *(i == 1 ? &p.k : &p.m) = 1; /* the stride of an axis of size 1 means nothing */
        assert_true(lab__gemm_fits(&p));
    }
}

static void folding_stops_where_blas_cannot_count(void **state)
{
    (void)state;
    gemm_product p = {.m = 1 << 20, .n = 4, .k = 4, .batch_rank = 1, .batch = {4096}};
    case_layouts(&p, LAYOUT_ROWS, LAYOUT_ROWS, LAYOUT_ROWS);
    p.b_batch[0] = 0;
    assert_true(lab__gemm_fits(&p));
    assert_int_equal(plan_of(p).m, 1 << 20);
    p.batch[0] = 2047;
    assert_int_equal(plan_of(p).m, INT64_C(2047) << 20);
}

static void copies_too_large_to_count_ask_for_all_memory(void **state)
{
    (void)state;
    gemm_product p = {.type = KERNEL_F64, .m = 2, .n = INT_MAX, .k = INT_MAX};
    case_layouts(&p, LAYOUT_ROWS, LAYOUT_ONE_ELEMENT, LAYOUT_ROWS);
    p.batch_rank = 1;
    p.batch[0] = 8;
    p.b_batch[0] = 1;
    p.a_batch[0] = 1;
    p.c_batch[0] = INT64_C(2) * INT_MAX;
    assert_true(lab__gemm_fits(&p));
    assert_true(lab__gemm_workspace(1, &p) == SIZE_MAX);
    assert_true(lab__gemm_workspace(2, (gemm_product[]){p, p}) == SIZE_MAX);
}

/* Vectors of 128 bits multiply nothing: cblas is all there is. */
static int leave_all_to_cblas(void **state)
{
    (void)state;
    return lab__kernels_force("plain") ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_gives_the_product_and_touches_nothing_else),
        cmocka_unit_test(random_batches_are_broadcast_and_summed),
        cmocka_unit_test(products_beside_each_other_do_not_disturb_one_another),
        cmocka_unit_test(large_products_pass_freivalds_check),
        cmocka_unit_test(bits_do_not_depend_on_the_number_of_threads),
        cmocka_unit_test(batches_that_continue_are_one_product),
        cmocka_unit_test(large_products_are_cut_into_a_power_of_two_of_equal_panels),
        cmocka_unit_test(not_a_number_stays_in_its_row),
        cmocka_unit_test(sums_of_nothing_are_zero_or_leave_what_is_there),
        cmocka_unit_test(no_elements_is_no_work),
        cmocka_unit_test(what_blas_cannot_count_is_refused),
        cmocka_unit_test(folding_stops_where_blas_cannot_count),
        cmocka_unit_test(copies_too_large_to_count_ask_for_all_memory),
    };
    const struct CMUnitTest choice[] = {cmocka_unit_test(the_tile_product_takes_what_it_is_faster_at)};
    const int failed = cmocka_run_group_tests_name("whoever multiplies", tests, NULL, NULL) +
                       cmocka_run_group_tests_name("who multiplies", choice, NULL, NULL);
    return failed + cmocka_run_group_tests_name("cblas", tests, leave_all_to_cblas, NULL);
}
