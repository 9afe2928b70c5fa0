/* filter.c - LAB_TEST_FILTER='*matmul*' runs only the test functions of that name, in any test program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void set_filter(void)
{
    const char *pattern = getenv("LAB_TEST_FILTER");
    if (pattern)
        cmocka_set_test_filter(pattern);
}
