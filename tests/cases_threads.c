/* cases_threads.c - many callers at once, in this process and inside a caller's parallel region in another. */
#include "cases_threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

/* ---- Callers ----------------------------------------------------------------------------------------------------- */

typedef struct job {
    pthread_barrier_t *start;
    int repeats;
    concurrent_call call;
    lab_tensor *const *xs;
    caller *caller;
} job;

static void *work(void *context)
{
    job *j = context;
    lab_graph *g = lab_graph_create(NULL);
    pthread_barrier_wait(j->start);
    for (int i = 0; i < j->repeats && !j->caller->message[0]; i++) {
        j->call(g, j->xs, j->caller);
        if (lab_graph_status(g) != LAB_OK)
            snprintf(j->caller->message, sizeof j->caller->message, "%s", lab_graph_message(g));
        lab_graph_reset(g);
    }
    lab_graph_destroy(&g);
    return NULL;
}

void call_at_once(int n, int repeats, concurrent_call call, lab_tensor *const *xs, caller callers[MOST_CALLERS])
{
    pthread_barrier_t start;
    pthread_t threads[MOST_CALLERS];
    job jobs[MOST_CALLERS];
    pthread_barrier_init(&start, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        callers[i] = (caller){0};
        jobs[i] = (job){&start, repeats, call, xs, &callers[i]};
        if (pthread_create(&threads[i], NULL, work, &jobs[i]) != 0)
            abort(); /* the others wait for it for ever */
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
}

/* Element i of a tensor of the graph, which lies row-major. */
static double element(const lab_tensor *t, int64_t i)
{
    const void *data = lab_tensor_data(t);
    return lab_tensor_dtype(t) == LAB_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static double sum_of(lab_graph *g, lab_tensor *t, int power)
{
    double sum = 0;
    t = lab_contiguous(g, t);
    for (int64_t i = 0; i < lab_tensor_numel(t); i++)
        sum += power == 2 ? element(t, i) * element(t, i) : element(t, i);
    return sum;
}

void multiply_and_sum(lab_graph *g, lab_tensor *const *xs, caller *c)
{
    lab_tensor *product = lab_matmul(g, xs[0], xs[1]);
    c->value[0] = 0;
    for (int64_t i = 0; i < lab_tensor_size(product, 0); i++)
        c->value[0] += element(product, i * lab_tensor_size(product, 1) + i);
    c->value[1] = sum_of(g, product, 1);
    c->value[2] = sum_of(g, product, 2);
}

void attend_and_sum(lab_graph *g, lab_tensor *const *xs, caller *c)
{
    lab_attention_opts opts = {.scale = 0.25, .causal = LAB_CAUSAL_TOP_LEFT};
    lab_tensor *operands[] = {xs[0], xs[1], xs[2]}, *grads[3];
    lab_tensor *out = lab_attention(g, xs[0], xs[1], xs[2], &opts);
    lab_grad(g, out, xs[3], 3, operands, grads, NULL);
    c->value[0] = sum_of(g, out, 1);
    for (int i = 0; i < 3; i++)
        c->value[1 + i] = sum_of(g, grads[i], 2);
}

/* ---- Processes of O26c ------------------------------------------------------------------------------------------- */

enum { ONES = 512, SECONDS = 10, SECONDS_FOR_FORTY = 60 /* of which the reference BLAS needs a few */ };

static void multiply_ones(lab_graph *g, lab_tensor *const *xs, caller *c)
{
    (void)xs;
    lab_tensor *ones = lab_full(g, LAB_F32, 2, (int64_t[]){ONES, ONES}, 1);
    lab_tensor *product = lab_matmul(g, ones, ones);
    for (int64_t i = 0; i < lab_tensor_numel(product); i++)
        if (element(product, i) != ONES)
            snprintf(c->message, sizeof c->message, "element %lld is %g", (long long)i, element(product, i));
    if (!product)
        snprintf(c->message, sizeof c->message, "%s", lab_graph_message(g));
}

/* The product inside a parallel region of the caller's, whose own threads are then `threads`. */
static int inside_a_region(int threads)
{
    int wrong = 0;
    (void)threads;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) reduction(+ : wrong)
#endif
    {
        caller c = {0};
        lab_graph *g = lab_graph_create(NULL);
        multiply_ones(g, NULL, &c);
        lab_graph_destroy(&g);
        if (c.message[0])
            fprintf(stderr, "%s\n", c.message);
        wrong += c.message[0] != 0;
    }
    return wrong;
}

typedef int (*get_threads)(void);
typedef void (*set_threads)(int n);

int process_main(const char *what)
{
    alarm(strcmp(what, "forty") == 0 ? SECONDS_FOR_FORTY : SECONDS);
    get_threads get; /* absent in another BLAS */
    set_threads set;
    *(void **)&get = dlsym(RTLD_DEFAULT, "openblas_get_num_threads"); /* as POSIX has it: ISO C knows no such cast */
    *(void **)&set = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
    int wrong = 0;
    if (strcmp(what, "two-in-two") == 0) {
        wrong += lab_set_threads(2) != LAB_OK;
        if (set)
            set(2);
    }
#ifdef _OPENMP
    if (strcmp(what, "one-level") == 0)
        omp_set_max_active_levels(1);
#endif
    int before = get ? get() : 0;
    if (strcmp(what, "forty") == 0) {
        caller callers[MOST_CALLERS];
        call_at_once(MOST_CALLERS, 1, multiply_ones, NULL, callers);
        for (int i = 0; i < MOST_CALLERS; i++)
            wrong += callers[i].message[0] != 0;
    } else {
        wrong += inside_a_region(strcmp(what, "one-level") == 0 ? 4 : 2);
    }
    int after = get ? get() : 0;
    if (after != before)
        fprintf(stderr, "%s: BLAS had %d threads, has %d\n", what, before, after);
    return wrong > 0 || after != before;
}

int run_process(const char *what, const char *const *environment)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        for (; environment && *environment; environment++)
            putenv((char *)*environment);
        execl("/proc/self/exe", "test_cases_by_hand", "--process", what, (char *)NULL);
        _exit(126);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    if (WIFSIGNALED(status))
        fprintf(stderr, "%s: ended by %s\n", what, strsignal(WTERMSIG(status)));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
