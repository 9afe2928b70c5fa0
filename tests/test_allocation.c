/* test_allocation.c - from the second step of a loop on, no malloc at all: not the library's, not anybody's.
 *
 * malloc itself is counted, not only the library's hook: by interposing it, or under AddressSanitizer by its hooks.
 * BLAS allocates for itself (BLIS does in each call), which is not counted where its library is one of its own,
 * nor what OpenMP allocates for it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <llmlab.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/parallel.h"

static atomic_int counting, allocations;
static void *_Atomic others[2]; /* where the libraries of BLAS and of the OpenMP under it begin */

static void *library_of(const void *address)
{
    Dl_info info;
    return address && dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* `caller` asks for memory. */
static void note(const void *caller)
{
    if (!atomic_load(&counting))
        return;
    const void *library = library_of(caller);
    if (!library || (library != atomic_load(&others[0]) && library != atomic_load(&others[1])))
        atomic_fetch_add(&allocations, 1);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

#ifdef SANITIZED
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *, size_t),
                                              void (*free_hook)(const volatile void *));

static void malloc_hook(const volatile void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    note(NULL);
}

static void free_hook(const volatile void *memory)
{
    (void)memory;
}

/* There is room for few hooks: one is enough for all tests. */
static void watch_malloc(void)
{
    static bool watching;
    if (watching)
        return;
    watching = true;
    assert_true(__sanitizer_install_malloc_and_free_hooks(malloc_hook, free_hook) > 0);
}
#else
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_calloc(n, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_realloc(memory, bytes);
}

void *memalign(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    note(__builtin_return_address(0));
    *memory = __libc_memalign(alignment, bytes);
    return *memory ? 0 : ENOMEM;
}

static void watch_malloc(void)
{
    static const char *const functions[] = {"cblas_sgemm", "omp_get_max_threads"};
    for (int i = 0; i < 2; i++) {
        void *library = library_of(dlsym(RTLD_DEFAULT, functions[i]));
        atomic_store(&others[i], library == library_of(&counting) ? NULL : library); /* a part of this program counts */
    }
}
#endif

/* ---- The loops -------------------------------------------------------------------------------------------------------- */

enum { BATCH = 48, WIDTH = 64, HIDDEN = 96, PARAMETERS = 4 };

typedef struct model {
    lab_tensor *parameters[PARAMETERS]; /* w1 [WIDTH, HIDDEN], b1, w2 [HIDDEN, WIDTH], b2 */
    lab_tensor *input;
    bool checkpointed;
} model;

static void model_make(model *m, bool checkpointed)
{
    const int64_t shapes[PARAMETERS][2] = {{WIDTH, HIDDEN}, {1, HIDDEN}, {HIDDEN, WIDTH}, {1, WIDTH}};
    m->checkpointed = checkpointed;
    lab_graph *g = lab_graph_create(NULL);
    for (int i = 0; i < PARAMETERS; i++) {
        lab_tensor *draw = lab_mul_scalar(g, lab_randn(g, LAB_F32, 2, shapes[i], (uint64_t)i + 1), 0.1);
        assert_int_equal(lab_tensor_clone(&m->parameters[i], draw), LAB_OK);
        assert_int_equal(lab_tensor_require_grad(m->parameters[i], true), LAB_OK);
    }
    assert_int_equal(lab_tensor_clone(&m->input, lab_randn(g, LAB_F32, 2, (int64_t[]){BATCH, WIDTH}, 9)), LAB_OK);
    lab_graph_destroy(&g);
}

static void model_free(model *m)
{
    for (int i = 0; i < PARAMETERS; i++)
        lab_tensor_destroy(&m->parameters[i]);
    lab_tensor_destroy(&m->input);
}

static lab_tensor *hidden_layer(lab_graph *g, lab_tensor **xs, void *ctx)
{
    model *m = ctx;
    lab_tensor *h = lab_add(g, lab_matmul(g, xs[0], m->parameters[0]), m->parameters[1]);
    lab_tensor *halves[] = {lab_slice(g, h, 1, 0, HIDDEN / 2, 1), lab_slice(g, h, 1, HIDDEN / 2, HIDDEN, 1)};
    return lab_gelu(g, lab_softmax(g, lab_concat(g, 2, halves, 1), -1), LAB_GELU_TANH);
}

static lab_tensor *loss(lab_graph *g, model *m)
{
    lab_tensor *x = m->input;
    lab_tensor *h = m->checkpointed ? lab_checkpoint(g, hidden_layer, 1, &x, m) : hidden_layer(g, &x, m);
    lab_tensor *y = lab_add(g, lab_matmul(g, h, m->parameters[2]), m->parameters[3]);
    return lab_add(g, lab_mean_all(g, lab_mul(g, y, y)), lab_mean_all(g, lab_logsumexp(g, y, 1, false)));
}

/* A step of plain gradient descent by hand. */
static void step(lab_graph *g, model *m)
{
    lab_graph_reset(g);
    lab_backward(g, loss(g, m));
    for (int i = 0; i < PARAMETERS; i++) {
        float *p = lab_tensor_data(m->parameters[i]);
        const float *d = lab_tensor_data(lab_tensor_grad(m->parameters[i]));
        for (int64_t j = 0; d && j < lab_tensor_numel(m->parameters[i]); j++)
            p[j] -= 0.01f * d[j];
        lab_tensor_touch(m->parameters[i]);
        lab_tensor_clear_grad(m->parameters[i]);
    }
}

/* A piece that ends when each thread of the pool has one. */
static void meet(void *context, int64_t piece, int worker)
{
    (void)piece;
    (void)worker;
    atomic_int *missing = context;
    atomic_fetch_sub(missing, 1);
    while (atomic_load(missing) > 0)
        sched_yield();
}

/* A thread of the pool starts when the system pleases, and its start allocates (under AddressSanitizer at least). */
static void start_threads(int threads)
{
    atomic_int missing = threads;
    assert_int_equal(lab_set_threads(threads), LAB_OK);
    lab__parallel_run(threads, meet, &missing);
}

static void count_steps(bool checkpointed, int threads)
{
    model m;
    watch_malloc();
    model_make(&m, checkpointed);
    start_threads(threads);
    lab_graph *g = lab_graph_create(NULL);
    step(g, &m);
    atomic_store(&allocations, 0);
    atomic_store(&counting, 1);
    for (int i = 0; i < 5; i++)
        step(g, &m);
    atomic_store(&counting, 0);
    assert_int_equal(lab_graph_status(g), LAB_OK);
    assert_int_equal(atomic_load(&allocations), 0);
    lab_graph_destroy(&g);
    model_free(&m);
    assert_int_equal(lab_set_threads(0), LAB_OK);
}

static void a_training_loop_calls_no_malloc_after_its_first_step(void **state)
{
    (void)state;
    count_steps(false, 1);
    count_steps(false, 3);
}

static void a_loop_with_checkpoints_calls_no_malloc_after_its_first_step(void **state)
{
    (void)state;
    count_steps(true, 1);
}

static void a_loop_with_second_derivatives_calls_no_malloc_after_its_first_step(void **state)
{
    (void)state;
    model m;
    watch_malloc();
    model_make(&m, false);
    lab_graph *g = lab_graph_create(NULL);
    for (int i = 0; i < 4; i++) {
        atomic_store(&allocations, 0);
        atomic_store(&counting, i > 0);
        lab_graph_reset(g);
        lab_tensor *first, *second;
        lab_grad(g, loss(g, &m), NULL, 1, &m.parameters[0], &first, &(lab_grad_opts){.create_graph = true});
        lab_grad(g, lab_sum_all(g, lab_mul(g, first, first)), NULL, 1, &m.parameters[0], &second, NULL);
        atomic_store(&counting, 0);
        assert_int_equal(lab_graph_status(g), LAB_OK);
        assert_int_equal(atomic_load(&allocations), 0);
    }
    lab_graph_destroy(&g);
    model_free(&m);
}

/* A transformer block, its loss and a step along the gradient, with the library's own layers. */
static void a_blocks_step_calls_no_malloc_after_the_first(void **state)
{
    (void)state;
    lab_block block;
    lab_block_config config = {.width = 16, .heads = 4, .kv_heads = 2, .bias = true, .rope = &(lab_rope_opts){0}};
    watch_malloc();
    assert_int_equal(lab_set_threads(1), LAB_OK); /* a thread that starts allocates when it pleases */
    assert_int_equal(lab_block_init(&block, &config, LAB_F32, 1), LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
    lab_attention_opts opts = {.causal = LAB_CAUSAL_TOP_LEFT, .dropout = 0.1};
    for (int i = 0; i < 4; i++) {
        atomic_store(&allocations, 0);
        atomic_store(&counting, i > 0);
        lab_graph_reset(g);
        opts.stream = (uint64_t)i;
        lab_tensor *x = lab_randn(g, LAB_F32, 3, (int64_t[]){2, 12, 16}, 1);
        lab_tensor *targets =
            lab_cast(g, lab_mul_scalar(g, lab_rand(g, LAB_F32, 2, (int64_t[]){2, 12}, 2), 16), LAB_I64);
        lab_backward(g, lab_cross_entropy(g, lab_block_apply(g, &block, x, NULL, &opts), targets, NULL));
        lab_status stepped = lab_block_visit(&block, "block", lab_sgd_step, &(lab_sgd){.rate = 0.1});
        lab_status cleared = lab_block_visit(&block, "block", lab_clear_grads, NULL);
        atomic_store(&counting, 0);
        assert_int_equal(lab_graph_status(g), LAB_OK);
        assert_true(stepped == LAB_OK && cleared == LAB_OK);
        assert_int_equal(atomic_load(&allocations), 0);
    }
    lab_graph_destroy(&g);
    lab_block_free(&block);
    assert_int_equal(lab_set_threads(0), LAB_OK);
}

/* Norm, clipping and the step of every rule, by visits in the order of the layers. */
static void optimisers_call_no_malloc_after_their_first_step(void **state)
{
    (void)state;
    lab_block block;
    lab_block_config config = {.width = 16, .heads = 4, .bias = true};
    watch_malloc();
    start_threads(3);
    assert_int_equal(lab_block_init(&block, &config, LAB_F32, 1), LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
    for (int rule = LAB_SGD; rule <= LAB_LION; rule++) {
        const double momentum = rule <= LAB_RMSPROP ? 0.9 : 0;
        lab_optimizer *optimizer;
        lab_optimizer_config how = {.rule = (lab_rule)rule, .rate = 1e-3, .momentum = momentum, .decay = 0.1};
        assert_int_equal(lab_optimizer_create(&optimizer, &how), LAB_OK);
        for (int i = 0; i < 3; i++) {
            lab_graph_reset(g);
            lab_tensor *x = lab_randn(g, LAB_F32, 3, (int64_t[]){2, 12, 16}, 1);
            assert_int_equal(lab_backward(g, lab_sum_all(g, lab_block_apply(g, &block, x, NULL, NULL))), LAB_OK);
            atomic_store(&allocations, 0);
            atomic_store(&counting, i > 0);
            lab_grad_norm norm = {0};
            lab_status status = lab_block_visit(&block, "block", lab_grad_norm_add, &norm);
            if (status == LAB_OK)
                status = lab_optimizer_set_scale(optimizer, lab_clip_factor(lab_grad_norm_value(&norm), 1));
            if (status == LAB_OK)
                status = lab_block_visit(&block, "block", lab_optimizer_step, optimizer);
            if (status == LAB_OK)
                status = lab_block_visit(&block, "block", lab_clear_grads, NULL);
            atomic_store(&counting, 0);
            assert_int_equal(status, LAB_OK);
            assert_int_equal(atomic_load(&allocations), 0);
        }
        lab_optimizer_destroy(&optimizer);
    }
    lab_graph_destroy(&g);
    lab_block_free(&block);
    assert_int_equal(lab_set_threads(0), LAB_OK);
}

/* Every option of the fused path, its backward over ranges of keys, and packed sequences, by three threads. */
static void fused_attention_calls_no_malloc_after_its_first_step(void **state)
{
    (void)state;
    watch_malloc();
    start_threads(3);
    lab_graph *g = lab_graph_create(NULL);
    for (int i = 0; i < 4; i++) {
        const int64_t heads = 2, lengths[] = {0, 3, 9, 40};
        lab_tensor *xs[7], *grads[7], *lse;
        atomic_store(&allocations, 0);
        atomic_store(&counting, i > 0);
        lab_graph_reset(g);
        for (int k = 0; k < 3; k++)
            xs[k] = lab_randn(g, LAB_F32, 3, (int64_t[]){2, k == 0 ? 40 : 4100, 4}, (uint64_t)k);
        xs[3] = lab_randn(g, LAB_F32, 3, (int64_t[]){1, 40, 4100}, 3);
        xs[4] = lab_randn(g, LAB_F32, 1, &heads, 4);
        xs[5] = lab_randn(g, LAB_F32, 1, &heads, 5);
        xs[6] = lab_randn(g, LAB_F32, 0, NULL, 6);
        lab_attention_stats stats[2];
        lab_attention_opts opts = {.causal = LAB_CAUSAL_BOTTOM_RIGHT,
                                   .bias = xs[3],
                                   .alibi_slopes = xs[4],
                                   .sink = xs[5],
                                   .scale_tensor = xs[6],
                                   .softcap = 3,
                                   .dropout = 0.2,
                                   .path = LAB_PATH_FUSED,
                                   .lse = &lse,
                                   .stats = stats};
        lab_tensor *y = lab_attention(g, xs[0], xs[1], xs[2], &opts);
        lab_grad(g, lab_add(g, lab_sum_all(g, y), lab_sum_all(g, lse)), NULL, 7, xs, grads, NULL);
        lab_tensor *rows = lab_transpose(g, xs[0], 0, 1), *cu = lab_constant(g, LAB_I64, 1, (int64_t[]){4}, lengths);
        y = lab_attention_packed(g, rows, rows, rows, cu, cu, &(lab_attention_opts){.path = LAB_PATH_FUSED});
        lab_grad(g, lab_sum_all(g, y), NULL, 1, xs, grads, NULL);
        atomic_store(&counting, 0);
        assert_int_equal(lab_graph_status(g), LAB_OK);
        assert_int_equal(atomic_load(&allocations), 0);
    }
    lab_graph_destroy(&g);
    assert_int_equal(lab_set_threads(0), LAB_OK);
}

static void the_counter_counts(void **state)
{
    (void)state;
    watch_malloc();
    atomic_store(&allocations, 0);
    atomic_store(&counting, 1);
    lab_graph *g = lab_graph_create(NULL);
    lab_full(g, LAB_F32, 1, (int64_t[]){1 << 20}, 1);
    atomic_store(&counting, 0);
    assert_true(atomic_load(&allocations) >= 2);
    lab_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_blocks_step_calls_no_malloc_after_the_first),
        cmocka_unit_test(optimisers_call_no_malloc_after_their_first_step),
        cmocka_unit_test(the_counter_counts),
        cmocka_unit_test(fused_attention_calls_no_malloc_after_its_first_step),
        cmocka_unit_test(a_training_loop_calls_no_malloc_after_its_first_step),
        cmocka_unit_test(a_loop_with_checkpoints_calls_no_malloc_after_its_first_step),
        cmocka_unit_test(a_loop_with_second_derivatives_calls_no_malloc_after_its_first_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
