/* test_out_of_memory.c - the k-th allocation fails, for every k, in every public function: an error code, no leak, and
 * the library works afterwards.
 *
 * A scenario is run with an allocator that fails at its k-th call, for k = 1, 2, ... until it gets through. What it
 * makes it must be able to give back, whatever failed.
 */
#include <limits.h>
#include <llmlab.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "op_cases.h"

static long budget; /* allocations still granted */
static long held;   /* given and not given back */
static bool refused;

static void *failing_allocate(size_t bytes, size_t alignment, void *ctx)
{
    (void)ctx;
    void *memory = NULL;
    if (budget-- <= 0) {
        refused = true;
        return NULL;
    }
    if (posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    memset(memory, 0xA5, bytes); /* nobody may count on zeros */
    held++;
    return memory;
}

static void failing_release(void *memory, size_t bytes, void *ctx)
{
    (void)ctx;
    memset(memory, 0x5A, bytes); /* the size given back must be right: AddressSanitizer looks */
    held--;
    free(memory);
}

/* LAB_OK if it got through. */
typedef lab_status (*scenario)(const void *what);

static void starve(const char *name, scenario run, const void *what)
{
    const lab_allocator failing = {failing_allocate, failing_release, NULL};
    assert_int_equal(lab_set_allocator(&failing), LAB_OK);
    lab_status status = LAB_ERR_MEMORY;
    long k = 0;
    for (; k < 10000 && status != LAB_OK; k++) {
        budget = k;
        held = 0;
        refused = false;
        status = run(what);
        budget = LONG_MAX;
        if (held != 0)
            fail_msg("%s: %ld allocations leaked when number %ld failed", name, held, k + 1);
        if (refused != (status != LAB_OK))
            fail_msg("%s: allocation %ld %s and the status is %s (%s)", name, k + 1, refused ? "failed" : "was given",
                     lab_status_name(status), lab_last_message());
        if (refused && status != LAB_ERR_MEMORY)
            fail_msg("%s: allocation %ld failed, the status is %s (%s)", name, k + 1, lab_status_name(status),
                     lab_last_message());
    }
    assert_int_equal(status, LAB_OK);
    assert_true(k > 1);
    assert_int_equal(lab_set_allocator(NULL), LAB_OK);
}

/* ---- Tensors and graphs ----------------------------------------------------------------------------------------------- */

static const int64_t small[] = {3, 4};

static lab_status making_tensors(const void *what)
{
    (void)what;
    static double data[12];
    lab_tensor *a = NULL, *b = NULL, *c = NULL, *d = NULL;
    lab_status status = lab_tensor_create(&a, LAB_F64, 2, small);
    if (status == LAB_OK)
        status = lab_tensor_from(&b, LAB_F64, 2, small, data);
    if (status == LAB_OK)
        status = lab_tensor_wrap(&c, LAB_F64, 2, small, NULL, data, NULL, NULL);
    if (status == LAB_OK)
        status = lab_tensor_clone(&d, c);
    if (status != LAB_OK)
        assert_null(d);
    lab_tensor_destroy(&a);
    lab_tensor_destroy(&b);
    lab_tensor_destroy(&c);
    lab_tensor_destroy(&d);
    return status;
}

static lab_status making_a_graph(const void *what)
{
    (void)what;
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.reserve = 100000});
    lab_status status = lab_graph_status(g);
    lab_graph_destroy(&g);
    return status;
}

static lab_status factorizing(const void *what)
{
    (void)what;
    static const double data[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13};
    lab_tensor *a = NULL, *parts[5] = {NULL};
    double norm;
    lab_status status = lab_tensor_from(&a, LAB_F64, 2, small, data);
    if (status == LAB_OK)
        status = lab_qr(a, &parts[0], &parts[1]);
    if (status == LAB_OK)
        status = lab_svd(a, &parts[2], &parts[3], &parts[4]);
    if (status == LAB_OK)
        status = lab_spectral_norm(a, &norm);
    lab_tensor_destroy(&a);
    for (int i = 0; i < 5; i++)
        lab_tensor_destroy(&parts[i]);
    return status;
}

static lab_tensor *bowl(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_sum_all(g, lab_mul(g, xs[0], lab_mul(g, xs[0], xs[0])));
}

static lab_status finding_eigenvalues(const void *what)
{
    (void)what;
    static const double data[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13};
    lab_tensor *a = NULL, *s = NULL;
    double values[3], vectors[36];
    lab_lanczos_opts opts = {.top = 2, .bottom = 1, .vectors = vectors};
    lab_lanczos_report report;
    lab_status status = lab_tensor_from(&a, LAB_F64, 2, small, data);
    if (status == LAB_OK)
        status = lab_product_singular_values(a, a, &s);
    if (status == LAB_OK)
        status = lab_hessian_eigenvalues(bowl, NULL, 1, &a, &opts, values, NULL, &report);
    if (status == LAB_OK)
        assert_true(report.converged && values[0] > 77.9 && values[0] < 78.1);
    lab_tensor_destroy(&a);
    lab_tensor_destroy(&s);
    return status;
}

/* ---- A training step, with many leaves, a checkpoint, gradients kept and gradients added --------------------------------- */

static lab_tensor *block(lab_graph *g, lab_tensor **xs, void *ctx)
{
    return lab_tanh(g, lab_matmul(g, lab_transpose(g, xs[0], 0, 1), *(lab_tensor **)ctx));
}

static lab_status training(const void *what)
{
    enum { LEAVES = 40 }; /* more than the first table of foreign tensors holds */
    (void)what;
    lab_tensor *leaves[LEAVES] = {NULL}, *d;
    lab_status status = LAB_OK;
    lab_graph *g = lab_graph_create(NULL);
    for (int i = 0; i < LEAVES && status == LAB_OK; i++) {
        status = lab_tensor_create(&leaves[i], LAB_F32, 2, (int64_t[]){4, 4});
        if (status == LAB_OK)
            status = lab_tensor_require_grad(leaves[i], i % 2);
    }
    for (int round = 0; round < 2 && status == LAB_OK; round++) {
        lab_graph_reset(g);
        lab_tensor *h = leaves[0];
        for (int i = 1; i < LEAVES; i++)
            h = lab_add(g, lab_checkpoint(g, block, 1, &h, &leaves[i]), leaves[i]);
        lab_tensor *y = lab_mean_all(g, h);
        lab_backward(g, y);
        lab_grad(g, y, NULL, 1, leaves, &d, &(lab_grad_opts){.create_graph = true});
        status = lab_graph_status(g);
    }
    if (!g)
        status = LAB_ERR_MEMORY;
    for (int i = 1; i < LEAVES && status != LAB_OK; i += 2) /* all or nothing */
        if (leaves[i])
            assert_true(!lab_tensor_grad(leaves[i]) == !lab_tensor_grad(leaves[1]));
    lab_graph_destroy(&g);
    for (int i = 0; i < LEAVES; i++)
        lab_tensor_destroy(&leaves[i]);
    return status;
}

static lab_tensor *cube(lab_graph *g, lab_tensor **xs, void *ctx)
{
    (void)ctx;
    return lab_mul(g, xs[0], lab_mul(g, xs[0], xs[0]));
}

static lab_status checking(const void *what)
{
    lab_tensor *x = NULL;
    lab_gradcheck_report report;
    lab_status status = lab_tensor_from(&x, LAB_F64, 1, (int64_t[]){2}, (double[]){1, 2});
    if (status == LAB_OK)
        status = lab_gradcheck(cube, NULL, 1, &x, &(lab_gradcheck_opts){.second_order = what != NULL}, &report);
    if (status == LAB_OK)
        assert_true(report.passed);
    lab_tensor_destroy(&x);
    return status;
}

static lab_status attending(const void *what)
{
    (void)what;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *xs[3], *grads[3];
    for (int i = 0; i < 3; i++)
        xs[i] = lab_randn(g, LAB_F32, 3, (int64_t[]){2, 5, 4}, (uint64_t)i);
    lab_tensor *bias = lab_full(g, LAB_F32, 2, (int64_t[]){5, 5}, 0.5);
    lab_tensor *y =
        lab_attention(g, xs[0], xs[1], xs[2], &(lab_attention_opts){.causal = LAB_CAUSAL_TOP_LEFT, .bias = bias});
    lab_grad(g, y, NULL, 3, xs, grads, NULL);
    lab_status status = lab_graph_status(g);
    lab_graph_destroy(&g);
    return status;
}

/* Every option at once, and every output. */
static lab_status attending_with_everything(const void *what)
{
    (void)what;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *xs[5], *grads[5], *lse, *probs;
    lab_attention_stats stats[4];
    for (int i = 0; i < 3; i++)
        xs[i] = lab_randn(g, LAB_F64, 3, (int64_t[]){i == 0 ? 4 : 2, 3, 2}, (uint64_t)i);
    xs[3] = lab_randn(g, LAB_F64, 1, (int64_t[]){4}, 3);
    xs[4] = lab_randn(g, LAB_F64, 1, (int64_t[]){4}, 4);
    int64_t length = 2;
    lab_attention_opts opts = {.causal = LAB_CAUSAL_BOTTOM_RIGHT,
                               .window = {true, 2, 1},
                               .key_lengths = lab_constant(g, LAB_I64, 0, NULL, &length),
                               .mask = lab_full(g, LAB_BOOL, 0, NULL, 1),
                               .alibi_slopes = xs[3],
                               .sink = xs[4],
                               .softcap = 2,
                               .dropout = 0.5,
                               .lse = &lse,
                               .probs = &probs,
                               .stats = stats};
    lab_tensor *y = lab_attention(g, xs[0], xs[1], xs[2], &opts);
    lab_grad(g, lab_add(g, lab_sum_all(g, y), lab_sum_all(g, lse)), NULL, 5, xs, grads, NULL);
    lab_status status = lab_graph_status(g);
    assert_true(status == LAB_OK || (!grads[0] && (y || (!lse && !probs))));
    lab_graph_destroy(&g);
    return status;
}

/* Everything that the fused path takes, its backward in one range of keys and in two. */
static lab_status attending_fused(const void *what)
{
    const int64_t keys = what ? 4096 : 3;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *xs[7], *grads[7], *lse;
    lab_attention_stats stats[4];
    for (int i = 0; i < 3; i++)
        xs[i] = lab_randn(g, LAB_F64, 3, (int64_t[]){i == 0 ? 4 : 2, i == 0 ? 3 : keys, 2}, (uint64_t)i);
    xs[3] = lab_randn(g, LAB_F64, 1, (int64_t[]){4}, 3);
    xs[4] = lab_randn(g, LAB_F64, 1, (int64_t[]){4}, 4);
    xs[5] = lab_randn(g, LAB_F64, 2, (int64_t[]){3, keys}, 5);
    xs[6] = lab_randn(g, LAB_F64, 0, NULL, 6);
    lab_attention_opts opts = {.causal = LAB_CAUSAL_BOTTOM_RIGHT,
                               .alibi_slopes = xs[3],
                               .sink = xs[4],
                               .bias = xs[5],
                               .scale_tensor = xs[6],
                               .softcap = 2,
                               .dropout = 0.5,
                               .path = LAB_PATH_FUSED,
                               .lse = &lse,
                               .stats = stats};
    lab_tensor *y = lab_attention(g, xs[0], xs[1], xs[2], &opts);
    lab_grad(g, lab_add(g, lab_sum_all(g, y), lab_sum_all(g, lse)), NULL, 7, xs, grads, NULL);
    lab_status status = lab_graph_status(g);
    assert_true(status == LAB_OK ? y && lse && grads[6] : !grads[0] && !grads[6] && (y || !lse));
    lab_graph_destroy(&g);
    return status;
}

/* Scores so large that each result is an allocation of its own: a call that fails half-way leaves no output set. */
static lab_status attending_to_many_keys(const void *what)
{
    (void)what;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *x = lab_full(g, LAB_F32, 3, (int64_t[]){1, 600, 1}, 1), *lse, *probs;
    lab_tensor *y = lab_attention(g, x, x, x, &(lab_attention_opts){.dropout = 0.5, .lse = &lse, .probs = &probs});
    lab_status status = lab_graph_status(g);
    assert_true(status == LAB_OK ? y && lse && probs : !y && !lse && !probs);
    lab_graph_destroy(&g);
    return status;
}

static lab_status attending_to_packed_sequences(const void *what)
{
    (void)what;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *x = lab_randn(g, LAB_F32, 3, (int64_t[]){6, 2, 4}, 1), *lse, *dx;
    lab_tensor *cu = lab_constant(g, LAB_I64, 1, (int64_t[]){4}, (int64_t[]){0, 2, 2, 6});
    lab_tensor *y = lab_attention_packed(g, x, x, x, cu, cu, &(lab_attention_opts){.lse = &lse});
    lab_grad(g, y, NULL, 1, &x, &dx, NULL);
    lab_status status = lab_graph_status(g);
    lab_graph_destroy(&g);
    return status;
}

/* ---- Layers ---------------------------------------------------------------------------------------------------------- */

static lab_status training_a_block(const void *what)
{
    const lab_block_config *config = what;
    lab_block block;
    lab_status status = lab_block_init(&block, config, LAB_F32, 1);
    if (status != LAB_OK)
        assert_true(!block.norm1_gain && !block.attn.q.weight && !block.mlp.down.weight);
    lab_graph *g = status == LAB_OK ? lab_graph_create(NULL) : NULL;
    if (status == LAB_OK) {
        lab_tensor *x = lab_add(g, lab_randn(g, LAB_F32, 2, (int64_t[]){3, 4}, 1), lab_sinusoidal(g, LAB_F32, 3, 4));
        lab_tensor *targets = lab_constant(g, LAB_I64, 1, (int64_t[]){3}, (int64_t[]){0, -1, 3});
        lab_tensor *y = lab_block_apply(g, &block, x, NULL, &(lab_attention_opts){.causal = LAB_CAUSAL_TOP_LEFT});
        lab_cross_entropy_opts opts = {.ignore_index = -1, .smoothing = 0.1};
        status = lab_backward(g, lab_cross_entropy(g, y, targets, &opts));
    }
    if (status == LAB_OK)
        status = lab_block_visit(&block, "block", lab_sgd_step, &(lab_sgd){.rate = 0.1});
    lab_graph_destroy(&g);
    lab_block_free(&block);
    return status;
}

/* More parameters than the first table of an optimiser holds; state read through and steps taken. */
static lab_status look_at(const char *name, lab_tensor **state, void *ctx)
{
    (void)name;
    ++*(int *)ctx;
    return *state ? LAB_OK : LAB_ERR_STATE;
}

static lab_status optimising(const void *what)
{
    enum { PARAMETERS = 35 };
    (void)what;
    lab_tensor *p[PARAMETERS] = {NULL};
    lab_optimizer *optimizer;
    int seen = 0;
    lab_status status = lab_optimizer_create(&optimizer, &(lab_optimizer_config){.rule = LAB_ADAMW, .rate = 0.1});
    lab_graph *g = status == LAB_OK ? lab_graph_create(NULL) : NULL;
    if (!g)
        status = LAB_ERR_MEMORY;
    for (int i = 0; i < PARAMETERS && status == LAB_OK; i++) {
        char name[20];
        snprintf(name, sizeof name, "p%d", i);
        status = lab_tensor_create(&p[i], LAB_F32, 1, small);
        if (status == LAB_OK)
            status = lab_tensor_require_grad(p[i], true);
        if (status == LAB_OK)
            status = lab_backward(g, lab_sum_all(g, p[i]));
        if (status == LAB_OK)
            status = lab_optimizer_step(name, &p[i], optimizer);
        if (status == LAB_OK)
            status = lab_clip_grad_norm(i + 1, p, 1, NULL);
    }
    if (optimizer)
        assert_int_equal(lab_optimizer_visit(optimizer, NULL, look_at, &seen), LAB_OK);
    assert_true(seen % 3 == 0 && (status != LAB_OK || seen == 3 * PARAMETERS));
    lab_graph_destroy(&g);
    lab_optimizer_destroy(&optimizer);
    for (int i = 0; i < PARAMETERS; i++)
        lab_tensor_destroy(&p[i]);
    return status;
}

/* ---- Every op, from the table ------------------------------------------------------------------------------------------- */

/* A leaf for an operand: small whole numbers, good for any of the table's ops. */
static lab_status make_operand(lab_tensor **t, const case_input *in)
{
    static const lab_dtype dtypes[] = {[REAL] = LAB_F64, [WHOLE] = LAB_I64, [TRUTH] = LAB_BOOL};
    int64_t numel = 1;
    union {
        double real[512];
        int64_t whole[512];
        uint8_t truth[512];
    } data;
    for (int i = 0; i < in->rank; i++)
        numel *= in->shape[i];
    assert_true(numel <= 512);
    for (int64_t i = 0; i < numel; i++) {
        double value = in->low + (in->high - in->low) * (double)(i % 7) / 8;
        if (in->type == REAL)
            data.real[i] = value;
        else if (in->type == WHOLE)
            data.whole[i] = in->fill == COUNTING ? i : (int64_t)value;
        else
            data.truth[i] = (uint8_t)(i % 2);
    }
    return lab_tensor_from(t, dtypes[in->type], in->rank, in->shape, &data);
}

static lab_status applying(const void *what)
{
    const op_case *c = what;
    lab_tensor *xs[CASE_INPUTS] = {NULL}, *reals[CASE_INPUTS], *grads[CASE_INPUTS];
    lab_status status = LAB_OK;
    int n = 0;
    for (int i = 0; i < c->n_inputs && status == LAB_OK; i++) {
        status = make_operand(&xs[i], &c->in[i]);
        if (c->in[i].type == REAL)
            reals[n++] = xs[i];
    }
    lab_graph *g = status == LAB_OK ? lab_graph_create(NULL) : NULL;
    if (status == LAB_OK) {
        op_case copy = *c;
        lab_tensor *y = case_apply(g, xs, &copy);
        if (c->derivatives > 0 && n > 0) {
            lab_grad(g, y, NULL, n, reals, grads, NULL);
            lab_grad(g, y, NULL, n, reals, grads, &(lab_grad_opts){.create_graph = c->derivatives > 1});
        }
        status = lab_graph_status(g);
    }
    lab_graph_destroy(&g);
    for (int i = 0; i < c->n_inputs; i++)
        lab_tensor_destroy(&xs[i]);
    return status;
}

static void every_op_survives_the_failure_of_any_allocation(void **state)
{
    (void)state;
    for (int i = 0; i < op_case_count(); i++) {
        const op_case *c = op_case_at(i);
        int64_t largest = 0;
        for (int k = 0; k < c->n_inputs; k++) {
            int64_t numel = 1;
            for (int axis = 0; axis < c->in[k].rank; axis++)
                numel *= c->in[k].shape[axis];
            largest = numel > largest ? numel : largest;
        }
        if (largest > 512 || c->flags & LARGE)
            continue; /* the op has a small row as well */
        char name[100];
        snprintf(name, sizeof name, "%s (%s)", c->op, c->variant ? c->variant : "");
        starve(name, applying, c);
    }
}

static void tensors_survive_the_failure_of_any_allocation(void **state)
{
    (void)state;
    starve("tensors", making_tensors, NULL);
    starve("lab_graph_create", making_a_graph, NULL);
    starve("linear algebra", factorizing, NULL);
    starve("eigenvalues", finding_eigenvalues, NULL);
}

static void training_survives_the_failure_of_any_allocation(void **state)
{
    (void)state;
    starve("training", training, NULL);
}

static void gradcheck_survives_the_failure_of_any_allocation(void **state)
{
    (void)state;
    starve("lab_gradcheck", checking, NULL);
    starve("lab_gradcheck, second order", checking, "second");
}

static void attention_survives_the_failure_of_any_allocation(void **state)
{
    (void)state;
    starve("lab_attention", attending, NULL);
    starve("lab_attention, every option", attending_with_everything, NULL);
    starve("lab_attention, fused", attending_fused, NULL);
    starve("lab_attention, fused, many keys", attending_fused, "many keys");
    starve("lab_attention, large scores", attending_to_many_keys, NULL);
    starve("lab_attention_packed", attending_to_packed_sequences, NULL);
}

static void layers_survive_the_failure_of_any_allocation(void **state)
{
    (void)state;
    lab_block_config gelu = {.width = 4, .heads = 2, .kv_heads = 1, .bias = true, .init = LAB_INIT_ORTHOGONAL};
    lab_block_config silu = {.width = 4,
                             .heads = 2,
                             .activation = LAB_ACTIVATION_SILU_GATED,
                             .norm = LAB_NORM_RMS,
                             .norm_place = LAB_NORM_AFTER,
                             .rope = &(lab_rope_opts){0}};
    starve("lab_block", training_a_block, &gelu);
    starve("lab_block, gated", training_a_block, &silu);
    starve("lab_optimizer", optimising, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_survive_the_failure_of_any_allocation),
        cmocka_unit_test(training_survives_the_failure_of_any_allocation),
        cmocka_unit_test(gradcheck_survives_the_failure_of_any_allocation),
        cmocka_unit_test(attention_survives_the_failure_of_any_allocation),
        cmocka_unit_test(layers_survive_the_failure_of_any_allocation),
        cmocka_unit_test(every_op_survives_the_failure_of_any_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
