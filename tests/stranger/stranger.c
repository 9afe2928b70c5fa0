/* stranger.c - a program of somebody who has only installed the library: it trains in threads of its own, forks in the
 * middle, and calls BLAS itself. One source for C11 and C++17. Prints what it has seen; returns 0 if all of it is
 * right.
 */
#include <cblas.h>
#include <llmlab.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { BATCH = 16, T = 12, WIDTH = 32, HALF = BATCH / 2, ROUNDS = 30, BLAS_THREADS = 2, OPENMP_THREADS = 3, N = 192 };

static int failures;
static int blas_threads; /* as the program has set them: not 2 on a serial BLAS, and OpenMP's number on that */

static void check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "FAILED: %s\n", what);
        __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    }
}

static void must(lab_status status, const char *what)
{
    if (status != LAB_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, lab_status_name(status), lab_last_message());
        exit(1);
    }
}

/* ---- Training: a block learns to say each place's predecessor ---------------------------------------------------- */

typedef struct trainer {
    lab_tensor *input, *target; /* shared by all trainers, read only */
    lab_block block;
    lab_graph *graph;
    float first, last;
} trainer;

static void trainer_open(trainer *t, lab_tensor *input, lab_tensor *target, uint64_t seed)
{
    lab_block_config config;
    memset(&config, 0, sizeof config);
    config.width = WIDTH;
    config.heads = 2;
    config.bias = true;
    memset(t, 0, sizeof *t);
    t->input = input;
    t->target = target;
    t->graph = lab_graph_create(NULL);
    must(lab_block_init(&t->block, &config, LAB_F32, seed), "block");
}

static void trainer_close(trainer *t)
{
    lab_block_free(&t->block);
    lab_graph_destroy(&t->graph);
}

static lab_tensor *loss_of(lab_graph *g, const lab_block *block, lab_tensor *input, lab_tensor *target)
{
    lab_attention_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.causal = LAB_CAUSAL_TOP_LEFT;
    lab_tensor *rest = lab_sub(g, lab_block_apply(g, block, input, NULL, &opts), target);
    return lab_mean_all(g, lab_mul(g, rest, rest));
}

static float item(const lab_tensor *t)
{
    float value = NAN;
    must(lab_tensor_read(t, &value, sizeof value), "read");
    return value;
}

static void train(trainer *t, int rounds)
{
    lab_sgd sgd;
    memset(&sgd, 0, sizeof sgd);
    sgd.rate = 0.5;
    for (int round = 0; round < rounds; round++) {
        lab_graph_reset(t->graph);
        lab_tensor *loss = loss_of(t->graph, &t->block, t->input, t->target);
        must(lab_backward(t->graph, loss), "backward");
        t->last = item(loss);
        if (t->first == 0)
            t->first = t->last;
        must(lab_block_visit(&t->block, "block", lab_sgd_step, &sgd), "step");
        must(lab_block_visit(&t->block, "block", lab_clear_grads, NULL), "clear");
    }
}

static void *train_in_thread(void *ctx)
{
    train((trainer *)ctx, ROUNDS);
    return NULL;
}

/* ---- BLAS, called by the program itself -------------------------------------------------------------------------- */

static void multiply(void)
{
    static float a[N * N], b[N * N], c[N * N];
    for (int i = 0; i < N * N; i++) {
        a[i] = (float)(i % 7) - 3;
        b[i] = (float)(i % 5) - 2;
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, a, N, b, N, 0, c, N);
    bool same = true;
    for (int i = 0; i < N; i += 17)
        for (int j = 0; j < N; j += 13) {
            float sum = 0;
            for (int k = 0; k < N; k++)
                sum += a[i * N + k] * b[k * N + j];
            same = same && sum == c[i * N + j]; /* small whole numbers: exact in any order */
        }
    check(same, "cblas_sgemm of the program");
}

static void check_own_settings(const char *where)
{
    check(openblas_get_num_threads() == blas_threads, where);
#ifdef _OPENMP
    check(omp_get_max_threads() == OPENMP_THREADS, "OpenMP's thread count is the program's");
#endif
}

/* ---- The parts --------------------------------------------------------------------------------------------------- */

/* Two models at once over the same data, while the program multiplies; then each again, alone: the same bits. */
static void in_two_threads(lab_tensor *input, lab_tensor *target)
{
    trainer t[2], alone[2];
    for (int i = 0; i < 2; i++) {
        trainer_open(&t[i], input, target, 1 + (uint64_t)i);
        trainer_open(&alone[i], input, target, 1 + (uint64_t)i);
    }
#ifdef _OPENMP
#pragma omp parallel for num_threads(OPENMP_THREADS) schedule(static, 1)
    for (int i = 0; i < OPENMP_THREADS; i++) {
        if (i < 2)
            train(&t[i], ROUNDS);
        else
            multiply();
    }
#else
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        check(pthread_create(&threads[i], NULL, train_in_thread, &t[i]) == 0, "a thread starts");
    for (int i = 0; i < 20; i++)
        multiply();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
#endif
    for (int i = 0; i < 2; i++) {
        train(&alone[i], ROUNDS);
        printf("thread %d: loss from %.4f to %.4f\n", i, (double)t[i].first, (double)t[i].last);
        check(t[i].last < 0.5F * t[i].first, "the loss falls");
        check(t[i].last == alone[i].last, "the same bits as alone");
        trainer_close(&t[i]);
        trainer_close(&alone[i]);
    }
    check_own_settings("BLAS's thread count after training in threads");
}

/* One model, two threads: each takes the gradient over half of the batch, with lab_grad. */
typedef struct half {
    const lab_block *block;
    lab_tensor *input, *target, *gradient; /* the last one is a clone, row-major */
} half;

static void *gradient_of_half(void *ctx)
{
    half *h = (half *)ctx;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *weight = h->block->mlp.up.weight, *gradient = NULL;
    must(lab_grad(g, loss_of(g, h->block, h->input, h->target), NULL, 1, &weight, &gradient, NULL), "grad");
    must(lab_tensor_clone(&h->gradient, gradient), "clone");
    lab_graph_destroy(&g);
    return NULL;
}

static void with_shared_parameters(lab_tensor *input, lab_tensor *target)
{
    trainer whole;
    trainer_open(&whole, input, target, 3);
    lab_graph *g = lab_graph_create(NULL);
    half halves[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        halves[i].block = &whole.block;
        halves[i].gradient = NULL;
        must(lab_tensor_clone(&halves[i].input, lab_slice(g, input, 0, i * HALF, (i + 1) * HALF, 1)), "half");
        must(lab_tensor_clone(&halves[i].target, lab_slice(g, target, 0, i * HALF, (i + 1) * HALF, 1)), "half");
    }
    for (int i = 0; i < 2; i++)
        check(pthread_create(&threads[i], NULL, gradient_of_half, &halves[i]) == 0, "a thread starts");
    lab_tensor *weight = whole.block.mlp.up.weight, *gradient = NULL;
    must(lab_grad(g, loss_of(g, &whole.block, input, target), NULL, 1, &weight, &gradient, NULL), "grad");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    float worst = 0, largest = 0;
    const float *all = (const float *)lab_tensor_data(gradient);
    const float *a = (const float *)lab_tensor_data(halves[0].gradient);
    const float *b = (const float *)lab_tensor_data(halves[1].gradient);
    for (int64_t i = 0; i < lab_tensor_numel(gradient); i++) {
        worst = fmaxf(worst, fabsf(0.5F * (a[i] + b[i]) - all[i]));
        largest = fmaxf(largest, fabsf(all[i]));
    }
    printf("halves: off by %.1e of the largest entry\n", (double)(worst / largest));
    check(largest > 0 && worst < 1e-4F * largest, "halves' gradients make the whole one");
    for (int i = 0; i < 2; i++) {
        lab_tensor_destroy(&halves[i].input);
        lab_tensor_destroy(&halves[i].target);
        lab_tensor_destroy(&halves[i].gradient);
    }
    lab_graph_destroy(&g);
    trainer_close(&whole);
}

/* A fork while two threads train: the child, in which these threads do not exist, and the parent both go on. */
static void with_a_fork(lab_tensor *input, lab_tensor *target)
{
    trainer t, neighbours[2];
    pthread_t threads[2];
    int ends[2];
    trainer_open(&t, input, target, 4);
    train(&t, ROUNDS / 2);
    for (int i = 0; i < 2; i++) {
        trainer_open(&neighbours[i], input, target, 5 + (uint64_t)i);
        check(pthread_create(&threads[i], NULL, train_in_thread, &neighbours[i]) == 0, "a thread starts");
    }
    multiply();
    check(pipe(ends) == 0, "a pipe");
    fflush(stdout);
    const pid_t child = fork();
    train(&t, ROUNDS / 2);
    if (child == 0) {
        check_own_settings("BLAS's thread count in the child");
        if (openblas_get_parallel() == 2)
            openblas_set_num_threads(1); /* OpenMP does not survive a fork: OpenBLAS on it would hang, llm-lab or not */
    }
    multiply();
    if (child == 0) {
        const bool sent = write(ends[1], &t.last, sizeof t.last) == (ssize_t)sizeof t.last;
        _exit(failures > 0 || !sent);
    }
    float last = NAN;
    int status = -1;
    check(read(ends[0], &last, sizeof last) == (ssize_t)sizeof last, "the child answers");
    check(waitpid(child, &status, 0) == child && status == 0, "the child ends well");
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        check(neighbours[i].last < 0.5F * neighbours[i].first, "the loss falls in threads beside a fork");
        trainer_close(&neighbours[i]);
    }
    printf("fork: loss from %.4f to %.4f here, %.4f in the child\n", (double)t.first, (double)t.last, (double)last);
    check(t.last < 0.5F * t.first, "the loss falls after a fork");
    check(t.last == last, "the child and the parent get the same bits");
    check_own_settings("BLAS's thread count after a fork");
    close(ends[0]);
    close(ends[1]);
    trainer_close(&t);
}

static void with_errors(lab_tensor *input)
{
    const int64_t shape[2] = {3, WIDTH}, bad[2] = {3, -1};
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *narrow = lab_randn(g, LAB_F32, 2, shape, 1);
    lab_tensor *y = lab_mean_all(g, lab_matmul(g, input, narrow)); /* [..., WIDTH] @ [3, WIDTH] */
    check(y == NULL && lab_graph_status(g) == LAB_ERR_SHAPE, "a product of the wrong shapes fails");
    check(strncmp(lab_graph_message(g), "matmul: ", 8) == 0, "the message names the op");
    check(strcmp(lab_graph_message(g), lab_last_message()) == 0, "lab_last_message has the graph's sentence");
    printf("an error: %s\n", lab_graph_message(g));
    check(lab_backward(g, y) == LAB_ERR_SHAPE, "backward answers the first failure");
    check(lab_exp(g, input) == NULL, "a failed graph computes nothing");
    lab_graph_reset(g);
    check(lab_graph_status(g) == LAB_OK && lab_exp(g, input) != NULL, "reset forgets the failure");
    lab_tensor *none = input;
    check(lab_tensor_create(&none, LAB_F32, 2, bad) == LAB_ERR_RANGE && none == NULL, "a negative size is refused");
    check(lab_last_message()[0] != 0, "with a sentence");
    lab_graph_destroy(&g);
    check(g == NULL && lab_graph_status(g) == LAB_ERR_MEMORY, "no graph is a graph without memory");
}

int main(void)
{
    const int64_t shape[3] = {BATCH, T, WIDTH};
    char info[512];
    lab_info(info, sizeof info);
    printf("%s\n", info);
    openblas_set_num_threads(BLAS_THREADS);
#ifdef _OPENMP
    omp_set_num_threads(OPENMP_THREADS);
#endif
    multiply(); /* OpenBLAS on OpenMP takes OpenMP's number, but with its next call only */
    blas_threads = openblas_get_num_threads();
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *input = NULL, *target = NULL;
    must(lab_tensor_clone(&input, lab_randn(g, LAB_F32, 3, shape, 10)), "input");
    must(lab_tensor_clone(&target, lab_mul_scalar(g, input, 0.5)), "target");
    lab_graph_destroy(&g);
    in_two_threads(input, target);
    with_shared_parameters(input, target);
    with_a_fork(input, target);
    with_errors(input);
    lab_tensor_destroy(&input);
    lab_tensor_destroy(&target);
    return failures > 0;
}
