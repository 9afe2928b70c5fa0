/* fuzz_calls.c - the API under random sequences of valid and invalid calls: it never crashes, leaks or hangs.
 *
 * A small state machine: some leaves, two graphs, the tensors that came out of them. Tensors are forgotten when their
 * graph is reset or destroyed, since using them afterwards is undefined, as with free. Everything else is allowed:
 * NULL, tensors of the other graph, axes and shapes that make no sense, calls on graphs that have failed.
 */
#include <llmlab.h>
#include <math.h>
#include <string.h>

#include "fuzz.h"

enum { LEAVES = 6, GRAPHS = 2, RESULTS = 24, MOST_CALLS = 300 };

typedef struct machine {
    bytes b;
    lab_tensor *leaves[LEAVES];
    lab_graph *graphs[GRAPHS];
    lab_tensor *results[GRAPHS][RESULTS];
} machine;

static lab_tensor *pick(machine *m, int g)
{
    int from = choose(&m->b, 16);
    if (from == 0)
        return NULL;
    if (from == 1)
        g = 1 - g;
    if (from < 6)
        return m->leaves[choose(&m->b, LEAVES)];
    lab_tensor *t = m->results[g][choose(&m->b, RESULTS)];
    return t ? t : m->leaves[choose(&m->b, LEAVES)];
}

static void keep(machine *m, int g, lab_tensor *t)
{
    if (t && lab_tensor_numel(t) < 4096)
        m->results[g][choose(&m->b, RESULTS)] = t;
}

static int any_axis(machine *m)
{
    return choose(&m->b, 8) - 4;
}

static int any_shape(machine *m, int64_t *shape)
{
    int rank = choose(&m->b, 4);
    for (int i = 0; i < rank; i++)
        shape[i] = choose(&m->b, 32) == 0 ? -1 : choose(&m->b, 5);
    return choose(&m->b, 40) == 0 ? 9 : rank;
}

static lab_dtype any_dtype(machine *m)
{
    static const lab_dtype dtypes[] = {LAB_F64, LAB_F64, LAB_F32, LAB_F64, LAB_I64, LAB_BOOL, LAB_F64, (lab_dtype)7};
    return dtypes[choose(&m->b, 8)];
}

static void forget(machine *m, int g)
{
    memset(m->results[g], 0, sizeof m->results[g]);
}

/* ---- Calls ------------------------------------------------------------------------------------------------------------ */

static void leaf_call(machine *m)
{
    lab_tensor **t = &m->leaves[choose(&m->b, LEAVES)];
    int64_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    double data[4096] = {0};
    size_t bytes = *t ? (size_t)lab_tensor_numel(*t) * lab_dtype_size(lab_tensor_dtype(*t)) : 8;
    lab_status status = LAB_OK;
    switch (choose(&m->b, 8)) {
    case 0:
    case 1:
    case 2: {
        lab_tensor_destroy(t);
        int rank = any_shape(m, shape);
        status = lab_tensor_create(t, any_dtype(m), rank, shape);
        break;
    }
    case 3:
        status = lab_tensor_require_grad(*t, choose(&m->b, 2));
        break;
    case 4:
        lab_tensor_clear_grad(*t);
        break;
    case 5:
        for (int i = 0; i < 64; i++)
            data[i] = choose(&m->b, 7) - 3;
        status = lab_tensor_write(*t, data, choose(&m->b, 9) ? bytes : bytes + 1);
        break;
    case 6:
        lab_tensor_touch(*t);
        break;
    case 7: {
        lab_tensor *copy = NULL;
        status = lab_tensor_clone(&copy, *t ? lab_tensor_grad(*t) : NULL);
        lab_tensor_destroy(&copy);
        break;
    }
    }
    if (status != LAB_OK && !*lab_last_message())
        FOUND("a failure without a message");
}

static lab_tensor *unary_call(machine *m, lab_graph *g, lab_tensor *x)
{
    int64_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    int axes[LAB_MAX_RANK];
    for (int i = 0; i < LAB_MAX_RANK; i++)
        axes[i] = any_axis(m);
    switch (choose(&m->b, 20)) {
    case 0:
        return lab_exp(g, x);
    case 1:
        return lab_tanh(g, x);
    case 2:
        return lab_gelu(g, x, (lab_gelu_kind)choose(&m->b, 3));
    case 3:
        return lab_sum(g, x, choose(&m->b, 4), axes, choose(&m->b, 2));
    case 4:
        return lab_softmax(g, x, axes[0]);
    case 5:
        return lab_logsumexp(g, x, axes[0], choose(&m->b, 2));
    case 6:
        return lab_transpose(g, x, axes[0], axes[1]);
    case 7: {
        int rank = any_shape(m, shape);
        return lab_reshape(g, x, rank, shape);
    }
    case 8:
        return lab_slice(g, x, axes[0], any_axis(m), any_axis(m) + 2, choose(&m->b, 4));
    case 9: {
        int rank = any_shape(m, shape);
        return lab_broadcast_to(g, x, rank, shape);
    }
    case 10:
        return lab_cast(g, x, any_dtype(m));
    case 11:
        return lab_max(g, x, axes[0], choose(&m->b, 2));
    case 12:
        return lab_permute(g, x, axes);
    case 13:
        return lab_mul_scalar(g, x, choose(&m->b, 9) - 4);
    case 14:
        return lab_detach(g, x);
    case 15:
        return lab_contiguous(g, x);
    case 16:
        return lab_mean_all(g, x);
    case 17:
        return lab_relu(g, x);
    case 18:
        return lab_layer_norm(g, x, NULL, NULL, 1e-5);
    default:
        return lab_sqrt(g, x);
    }
}

static lab_tensor *many_call(machine *m, lab_graph *g, int which)
{
    lab_tensor *a = pick(m, which), *b = pick(m, which), *c = pick(m, which);
    switch (choose(&m->b, 14)) {
    case 0:
        return lab_add(g, a, b);
    case 1:
        return lab_mul(g, a, b);
    case 2:
        return lab_div(g, a, b);
    case 3:
        return lab_maximum(g, a, b);
    case 4:
    case 5:
        return lab_matmul(g, a, b);
    case 6:
        return lab_where(g, lab_less(g, a, b), a, c);
    case 7:
        return lab_concat(g, choose(&m->b, 4), (lab_tensor *[]){a, b, c}, any_axis(m));
    case 8:
        return lab_gather_rows(g, a, lab_cast(g, b, LAB_I64));
    case 9:
        return lab_take_along_axis(g, a, lab_argmax(g, b, any_axis(m), true), any_axis(m));
    case 10:
        return lab_index_add(g, a, any_axis(m), lab_cast(g, b, LAB_I64), c);
    case 11: {
        lab_attention_opts opts = {.causal = (lab_causal)choose(&m->b, 5),
                                   .offset = choose(&m->b, 3),
                                   .dropout = choose(&m->b, 12) / 10.0,
                                   .bias = choose(&m->b, 4) ? NULL : b,
                                   .path = (lab_path)choose(&m->b, 4)};
        return lab_attention(g, a, b, c, choose(&m->b, 2) ? &opts : NULL);
    }
    case 12:
        return lab_rope(g, a, &(lab_rope_opts){.width = choose(&m->b, 5), .layout = (lab_rope_layout)choose(&m->b, 3)});
    default:
        return lab_cross_entropy(g, a, lab_cast(g, b, LAB_I64), NULL);
    }
}

static lab_tensor *checkpointed(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_tanh(g, lab_mul(g, xs[0], ctx ? (lab_tensor *)ctx : xs[0]));
}

static void derivative_call(machine *m, int which)
{
    lab_graph *g = m->graphs[which];
    lab_tensor *xs[3] = {pick(m, which), pick(m, which), pick(m, which)}, *grads[3];
    lab_tensor *y = pick(m, which), *seed = choose(&m->b, 3) ? NULL : pick(m, which);
    lab_grad_opts opts = {.create_graph = choose(&m->b, 2)};
    switch (choose(&m->b, 4)) {
    case 0:
        lab_backward(g, choose(&m->b, 4) ? lab_sum_all(g, y) : y);
        break;
    case 1:
        if (lab_grad(g, y, seed, choose(&m->b, 4), xs, grads, &opts) == LAB_OK)
            keep(m, which, lab_add_scalar(g, lab_sum_all(g, y), 0));
        break;
    case 2:
        if (lab_grad(g, lab_sum_all(g, y), NULL, 1, xs, grads, &opts) == LAB_OK)
            keep(m, which, grads[0]);
        else if (grads[0])
            FOUND("a gradient in spite of a failure");
        break;
    case 3:
        keep(m, which, lab_checkpoint(g, checkpointed, 1, xs, xs[1]));
        break;
    }
}

static void graph_call(machine *m, int which)
{
    lab_graph **g = &m->graphs[which];
    lab_graph_opts opts = {.inference = choose(&m->b, 3) == 0, .reserve = choose(&m->b, 3) * 1000u};
    switch (choose(&m->b, 4)) {
    case 0:
        forget(m, which);
        lab_graph_destroy(g);
        *g = lab_graph_create(choose(&m->b, 2) ? &opts : NULL);
        break;
    case 1:
        if (lab_set_threads(1 + choose(&m->b, 3)) != LAB_OK)
            FOUND("threads");
        break;
    default:
        forget(m, which);
        lab_graph_reset(*g);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    machine m = {.b = {data, size}};
    for (int g = 0; g < GRAPHS; g++)
        m.graphs[g] = lab_graph_create(NULL);
    for (int call = 0; call < MOST_CALLS && m.b.size > 0; call++) {
        int which = choose(&m.b, GRAPHS), kind = choose(&m.b, 16);
        lab_graph *g = m.graphs[which];
        if (kind < 3)
            leaf_call(&m);
        else if (kind < 7)
            keep(&m, which, unary_call(&m, g, pick(&m, which)));
        else if (kind < 11)
            keep(&m, which, many_call(&m, g, which));
        else if (kind < 14)
            derivative_call(&m, which);
        else if (lab_graph_status(g) != LAB_OK || kind == 15)
            graph_call(&m, which);
        if (lab_graph_status(m.graphs[which]) != LAB_OK && !*lab_graph_message(m.graphs[which]))
            FOUND("a failure without a message");
    }
    for (int g = 0; g < GRAPHS; g++)
        lab_graph_destroy(&m.graphs[g]);
    for (int i = 0; i < LEAVES; i++)
        lab_tensor_destroy(&m.leaves[i]);
    return lab_set_threads(0) != LAB_OK;
}
