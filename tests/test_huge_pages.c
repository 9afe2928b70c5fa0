/* test_huge_pages.c - large memory asks for huge pages, small memory does not, and a system that has none is no harm.
 */
#include <errno.h>
#include <llmlab.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { HUGE_PAGE = 2 << 20, MOST_ASKED = 64 };

/* What madvise was asked since begin(). */
static struct {
    int calls;
    char *at[MOST_ASKED];
    size_t bytes[MOST_ASKED];
    bool refuses;
} asked;

int __real_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice);

int __wrap_madvise(void *at, size_t bytes, int advice)
{
#ifdef MADV_HUGEPAGE
    assert_int_equal(advice, MADV_HUGEPAGE);
#endif
    assert_in_range(asked.calls, 0, MOST_ASKED - 1);
    asked.at[asked.calls] = at;
    asked.bytes[asked.calls++] = bytes;
    if (asked.refuses) {
        errno = EINVAL;
        return -1;
    }
    return __real_madvise(at, bytes, advice);
}

static void begin(bool refuses)
{
    asked.calls = 0;
    asked.refuses = refuses;
}

static lab_tensor *tensor_of(int64_t bytes)
{
    lab_tensor *t;
    assert_int_equal(lab_tensor_create(&t, LAB_F32, 1, (const int64_t[]){bytes / 4}), LAB_OK);
    return t;
}

/* Whole huge pages, all that there are room for, from the tensor's first number on. */
static void expect_asked_for(const lab_tensor *t, int64_t bytes)
{
#ifdef MADV_HUGEPAGE
    assert_int_equal(asked.calls, 1);
    assert_ptr_equal(asked.at[0], lab_tensor_data(t));
    assert_int_equal((uintptr_t)asked.at[0] % HUGE_PAGE, 0);
    assert_int_equal(asked.bytes[0], bytes / HUGE_PAGE * HUGE_PAGE);
#else
    (void)t;
    (void)bytes;
    assert_int_equal(asked.calls, 0);
#endif
}

static void a_tensor_asks_from_a_huge_page_on(void **state)
{
    (void)state;
    static const int64_t sizes[] = {HUGE_PAGE, HUGE_PAGE + 4, 3 * HUGE_PAGE - 4, 17 * HUGE_PAGE + 4096};
    for (int i = 0; i < 4; i++) {
        begin(false);
        lab_tensor *t = tensor_of(sizes[i]);
        expect_asked_for(t, sizes[i]);
        lab_tensor_destroy(&t);
    }
    begin(false);
    lab_tensor *small = tensor_of(HUGE_PAGE - 4);
    assert_int_equal(asked.calls, 0);
    lab_tensor_destroy(&small);
}

static void a_graphs_large_results_lie_in_what_was_asked_for(void **state)
{
    (void)state;
    lab_graph *g = lab_graph_create(NULL);
    assert_non_null(g);
    begin(false);
    const lab_tensor *t = lab_randn(g, LAB_F32, 2, (const int64_t[]){1024, 4096}, 1);
    assert_non_null(t);
#ifdef MADV_HUGEPAGE
    assert_int_equal(asked.calls, 1);
    assert_in_range((uintptr_t)lab_tensor_data(t) - (uintptr_t)asked.at[0], 0, 4096);
    assert_true(asked.bytes[0] >= (size_t)16 << 20);
#endif
    lab_graph_destroy(&g);
}

static void a_system_without_them_is_no_error(void **state)
{
    (void)state;
    begin(true);
    lab_tensor *t = tensor_of(4 * HUGE_PAGE);
    expect_asked_for(t, 4 * HUGE_PAGE);
    lab_tensor_destroy(&t);
}

static void *own_allocate(size_t bytes, size_t alignment, void *context)
{
    void *memory = NULL;
    *(size_t *)context = alignment;
    return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

static void own_release(void *memory, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    free(memory);
}

static void ones_own_allocator_is_asked_for_nothing_of_that_kind(void **state)
{
    (void)state;
    size_t alignment = 0;
    const lab_allocator own = {own_allocate, own_release, &alignment};
    assert_int_equal(lab_set_allocator(&own), LAB_OK);
    begin(false);
    lab_tensor *t = tensor_of(4 * HUGE_PAGE);
    assert_int_equal(asked.calls, 0);
    assert_int_equal(alignment, 64);
    lab_tensor_destroy(&t);
    assert_int_equal(lab_set_allocator(NULL), LAB_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_asks_from_a_huge_page_on),
        cmocka_unit_test(a_graphs_large_results_lie_in_what_was_asked_for),
        cmocka_unit_test(a_system_without_them_is_no_error),
        cmocka_unit_test(ones_own_allocator_is_asked_for_nothing_of_that_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
