/* fuzz_ops.c - every op of the case table on shapes and strides of the fuzzer's choice, against the scalar loop.
 *
 * Sizes that are equal in a row of the table stay equal: each distinct size is given another. Elementwise ops get any
 * shapes that broadcast. A layout is chosen for the operands; then value and gradient are compared.
 */
#include <string.h>

#include "../op_run.h"
#include "fuzz.h"

enum { LARGEST_SIZE = 7 };

/* Rows whose other arguments do not depend on sizes. */
static bool can_be_resized(const op_case *c)
{
    if (c->flags & LARGE || c->n_inputs == 0)
        return false;
    for (int i = 0; i < LAB_MAX_RANK; i++)
        if (c->args.numbers[i] != 0)
            return false;
    for (int k = 0; k < c->n_inputs; k++)
        if (c->in[k].fill == COUNTING || (c->in[k].type == WHOLE && !(c->flags & ELEMENTWISE)))
            return false; /* indices, whose range is a size */
    return true;
}

static void rename_sizes(op_case *c, bytes *b)
{
    int64_t from[32], to[32];
    int n = 0;
    for (int k = 0; k < c->n_inputs; k++)
        for (int axis = 0; axis < c->in[k].rank; axis++) {
            int64_t *size = &c->in[k].shape[axis];
            int i = 0;
            while (i < n && from[i] != *size)
                i++;
            if (i == n) {
                from[n] = *size;
                to[n++] = *size <= 1 ? *size : 1 + choose(b, LARGEST_SIZE);
            }
            *size = to[i];
        }
}

/* A shape of rank 0 to 4, and for each operand a part of it with some sizes 1 and some leading axes left out. */
static void broadcast_shapes(op_case *c, bytes *b)
{
    int rank = choose(b, 5);
    int64_t shape[4];
    for (int axis = 0; axis < rank; axis++)
        shape[axis] = choose(b, LARGEST_SIZE);
    for (int k = 0; k < c->n_inputs; k++) {
        int skip = rank ? choose(b, rank + 1) : 0, stretched = next_byte(b);
        c->in[k].rank = rank - skip;
        for (int axis = skip; axis < rank; axis++)
            c->in[k].shape[axis - skip] = stretched >> axis & 1 && stretched & 64 ? 1 : shape[axis];
    }
}

/* Whether there is time for gradients: a slope is the scalar loop twice for each element. */
static bool is_small(const op_case *c)
{
    int64_t elements = 0;
    for (int k = 0; k < c->n_inputs; k++) {
        int64_t n = 1;
        for (int axis = 0; axis < c->in[k].rank; axis++)
            n *= c->in[k].shape[axis];
        elements += n;
    }
    return elements <= 2000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bytes b = {data, size};
    char seed[32];
    op_case c = *op_case_at((next_byte(&b) | next_byte(&b) << 8) % op_case_count());
    snprintf(seed, sizeof seed, "%d", next_byte(&b));
    setenv("LAB_TEST_SEED", seed, 1);
    if (c.flags & LARGE)
        return 0;
    if (c.flags & ELEMENTWISE)
        broadcast_shapes(&c, &b);
    else if (can_be_resized(&c))
        rename_sizes(&c, &b);
    layout how = (layout)choose(&b, LAYOUTS);
    run r;
    rows_begin("fuzz_ops");
    run_make(&r, &c, case_is_real(&c) && next_byte(&b) % 2 ? LAB_F64 : LAB_F32);
    run_operands(&r, how);
    if (r.real == LAB_F64 && is_small(&c))
        check_value_and_gradient(&r, "fuzzed");
    else /* in f32 a gradient that cancels to nothing has no digits to compare */
        check_value(&r, "fuzzed", run_value(&r));
    run_free(&r);
    rows_end(); /* ends the program if a row failed */
    return 0;
}
