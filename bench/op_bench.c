/* op_bench.c - single ops against what they could do at best: cblas itself, memcpy, one thread, a count of
 * nanoseconds.
 *
 *     build/bench/op_bench
 *     build/bench/op_bench --json -
 *
 * Everything is called as a user calls it. Each row and what it is held against take samples in turn (bench_rounds.c),
 * and the fastest of each are compared, so that a neighbour's work does not count for or against.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/gemm.h"
#include "kernels/kernels.h"
#include "kernels/parallel.h"
#include "llmlab.h"

enum { SMALL = 64, PRODUCTS = 96, SOFTMAX_ROWS = 32, SOFTMAX_WIDTH = 1024, CHAIN = 10000 };
static const int64_t large_bytes = (int64_t)64 << 20;
static const double aim_seconds = 25, limit_seconds = 40;

/* ---- What is timed --------------------------------------------------------------------------------------------- */

typedef enum work {
    MATMUL,    /* lab_matmul */
    DIRECT,    /* cblas, or a loop of it */
    ADD_LARGE, /* lab_add */
    COPY_LARGE /* memcpy */,
    SOFTMAX,
    CHAIN_FORWARD, /* one-element adds, recorded */
    CHAIN_BACKWARD
} work;

/* One timed thing: `batch` products of n x n, or whatever else `work` says. */
typedef struct subject {
    work work;
    lab_dtype dtype;
    int threads;
    int64_t n, batch;
    lab_graph *graph;
    lab_tensor *a, *b; /* operands; seeds where there are none to choose */
    void *out;         /* of what runs without the library */
    bench_case timed;
} subject;

static lab_tensor *apply(lab_graph *g, subject *s)
{
    return s->work == MATMUL      ? lab_matmul(g, s->a, s->b)
           : s->work == ADD_LARGE ? lab_add(g, s->a, s->b)
                                  : lab_softmax(g, s->a, -1);
}

/* Seconds per op on an inference graph, whose result goes back at once: warm memory. */
static double time_op(subject *s, int repeats)
{
    double start = bench_now();
    for (int i = 0; i < repeats; i++) {
        lab_mark mark = lab_graph_mark(s->graph);
        apply(s->graph, s);
        lab_graph_release(s->graph, mark);
    }
    return (bench_now() - start) / repeats;
}

/* Seconds per call (or loop of calls) of what the op is held against. */
static double time_direct(subject *s, int repeats)
{
    size_t step = (size_t)(s->n * s->n) * lab_dtype_size(s->dtype);
    char *a = lab_tensor_data(s->a), *b = lab_tensor_data(s->b), *c = s->out;
    kernel_type type = s->dtype == LAB_F64 ? KERNEL_F64 : KERNEL_F32;
    lab__blas_guard_enter();
    double start = bench_now();
    for (int i = 0; i < repeats; i++) {
        if (s->work == COPY_LARGE) {
            memcpy(c, a, (size_t)large_bytes);
            __asm__ volatile("" : : "r"(c) : "memory");
            continue;
        }
        for (int64_t j = 0; j < s->batch; j++)
            lab__gemm_direct(type, s->n, s->n, s->n, a + (size_t)j * step, b + (size_t)j * step, c + (size_t)j * step);
    }
    double seconds = (bench_now() - start) / repeats;
    lab__blas_guard_leave();
    return seconds;
}

/* Seconds per add of a chain y = y + b on a recording graph that has been used before, or per add of its backward,
 * the gradients of both operands included. */
static double time_chain(subject *s)
{
    lab_graph_reset(s->graph);
    double start = bench_now();
    lab_tensor *y = s->a, *grads[2];
    for (int i = 0; i < CHAIN; i++)
        y = lab_add(s->graph, y, s->b);
    double middle = bench_now();
    if (s->work == CHAIN_FORWARD)
        return (middle - start) / CHAIN;
    lab_grad(s->graph, y, NULL, 2, (lab_tensor *[]){s->a, s->b}, grads, NULL);
    return (bench_now() - middle) / CHAIN;
}

static double sample(void *context)
{
    subject *s = context;
    if (lab_set_threads(s->threads) != LAB_OK)
        return -1;
    double seconds;
    if (s->work == CHAIN_FORWARD || s->work == CHAIN_BACKWARD) {
        seconds = time_chain(s);
    } else {
        bool direct = s->work == DIRECT || s->work == COPY_LARGE;
        int repeats = bench_repeats(direct ? time_direct(s, 1) : time_op(s, 1));
        seconds = direct ? time_direct(s, repeats) : time_op(s, repeats);
    }
    if (s->graph && lab_graph_status(s->graph) != LAB_OK) {
        fprintf(stderr, "op_bench: %s\n", lab_graph_message(s->graph));
        return -1;
    }
    return seconds;
}

/* ---- Operands -------------------------------------------------------------------------------------------------- */

static bool make_operand(lab_tensor **out, lab_dtype dtype, int rank, const int64_t *shape, uint64_t seed)
{
    if (lab_tensor_create(out, dtype, rank, shape) != LAB_OK)
        return false;
    lab__kernel_normal(dtype == LAB_F64 ? KERNEL_F64 : KERNEL_F32, lab_tensor_numel(*out), lab_tensor_data(*out), seed,
                       0, 0);
    return true;
}

/* Memory that has been written once, so that no page of it is new to the clock. */
static void *touched(size_t bytes)
{
    void *memory = aligned_alloc(64, bytes);
    if (memory)
        memset(memory, 1, bytes);
    return memory;
}

static bool prepare(subject *s)
{
    int64_t shape[3] = {s->batch, s->n, s->n};
    int rank = 3;
    if (s->work == ADD_LARGE || s->work == COPY_LARGE) {
        shape[0] = large_bytes / (int64_t)sizeof(float);
        rank = 1;
    } else if (s->work == SOFTMAX) {
        shape[0] = SOFTMAX_ROWS;
        shape[1] = SOFTMAX_WIDTH;
        rank = 2;
    } else if (s->work == CHAIN_FORWARD || s->work == CHAIN_BACKWARD) {
        rank = 0;
    }
    s->timed = (bench_case){.sample = sample, .context = s};
    if (!make_operand(&s->a, s->dtype, rank, shape, 1) || !make_operand(&s->b, s->dtype, rank, shape, 2))
        return false;
    if (s->work == DIRECT || s->work == COPY_LARGE) {
        s->out = touched((size_t)lab_tensor_numel(s->a) * lab_dtype_size(s->dtype));
        return s->out != NULL;
    }
    bool recording = s->work == CHAIN_FORWARD || s->work == CHAIN_BACKWARD;
    s->graph = lab_graph_create(&(lab_graph_opts){.inference = !recording});
    return lab_graph_status(s->graph) == LAB_OK;
}

static void release(subject *s)
{
    lab_graph_destroy(&s->graph);
    lab_tensor_destroy(&s->a);
    lab_tensor_destroy(&s->b);
    free(s->out);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------ */

typedef enum measure {
    SPEED_OF_REFERENCE, /* time of the reference / time of the row: higher is better */
    BYTES_OF_REFERENCE, /* the same, for three arrays moved where the reference moves two */
    GIGA_ELEMENTS,      /* elements per nanosecond */
    NANOSECONDS         /* per op: lower is better */
} measure;

enum { MAX_SUBJECTS = 24, MAX_ROWS = 16 };

typedef struct row {
    const char *name, *text;
    measure measure;
    int of, against; /* subjects; against -1: none */
    double goal;     /* 0: none here */
    double measured;
} row;

typedef struct op_table {
    int n_subjects, n_rows;
    subject subjects[MAX_SUBJECTS];
    row rows[MAX_ROWS];
    bench_machine machine;
    bench_anchors anchors;
    bench_quality quality;
} op_table;

static int add_subject(op_table *t, work work, lab_dtype dtype, int threads, int64_t batch, int64_t n)
{
    t->subjects[t->n_subjects] = (subject){.work = work, .dtype = dtype, .threads = threads, .batch = batch, .n = n};
    return t->n_subjects++;
}

static void add_row(op_table *t, const char *name, const char *text, measure measure, int of, int against, double goal)
{
    t->rows[t->n_rows++] = (row){name, text, measure, of, against, goal, 0};
}

/* Products against cblas; returns the subject, for the rows that compare threads. */
static int add_product(op_table *t, const char *name, const char *text, lab_dtype dtype, int64_t batch, int64_t n,
                       double goal)
{
    int of = add_subject(t, MATMUL, dtype, 1, batch, n);
    add_row(t, name, text, SPEED_OF_REFERENCE, of, add_subject(t, DIRECT, dtype, 1, batch, n), goal);
    return of;
}

static void add_threaded(op_table *t, const char *name, const char *text, int one, int threads)
{
    const subject *s = &t->subjects[one];
    int of = add_subject(t, MATMUL, s->dtype, threads, s->batch, s->n);
    add_row(t, name, text, SPEED_OF_REFERENCE, of, one, 0.9 * threads);
}

static void make_table(op_table *t, int threads)
{
    int half = add_product(t, "matmul_512_f32", "matmul 512^3 f32, one thread, of cblas' speed", LAB_F32, 1, 512, 0.96);
    int full =
        add_product(t, "matmul_1024_f32", "matmul 1024^3 f32, one thread, of cblas' speed", LAB_F32, 1, 1024, 0.96);
    add_product(t, "matmul_512_f64", "matmul 512^3 f64, one thread, of cblas' speed", LAB_F64, 1, 512, 0.96);
    add_product(t, "matmul_1024_f64", "matmul 1024^3 f64, one thread, of cblas' speed", LAB_F64, 1, 1024, 0.96);
    int batch = add_product(t, "matmul_batch_f32", "96 products 64^3 f32 in a batch, of a loop of cblas' speed",
                            LAB_F32, PRODUCTS, SMALL, 0.90);
    if (threads > 1) {
        add_threaded(t, "threads_1024_f32", "matmul 1024^3 f32, all threads, of one thread's speed", full, threads);
        add_threaded(t, "threads_512_f32", "matmul 512^3 f32, all threads, of one thread's speed", half, threads);
        add_threaded(t, "threads_batch_f32", "96 products 64^3 f32, all threads, of one thread's speed", batch,
                     threads);
    }
    int add = add_subject(t, ADD_LARGE, LAB_F32, 1, 1, 1);
    add_row(t, "add_64mib", "add of 64 MiB operands, bytes per second, of memcpy's", BYTES_OF_REFERENCE, add,
            add_subject(t, COPY_LARGE, LAB_F32, 1, 1, 1), 1.0);
    add_row(t, "softmax_1024", "softmax of 1024-wide f32 rows in cache, one thread, G elements/s", GIGA_ELEMENTS,
            add_subject(t, SOFTMAX, LAB_F32, 1, 1, 1), -1, 0);
    add_row(t, "add_one_recorded", "add of one element, recorded, ns", NANOSECONDS,
            add_subject(t, CHAIN_FORWARD, LAB_F32, 1, 1, 1), -1, 250);
    add_row(t, "add_one_backward", "its backward, both operands, ns", NANOSECONDS,
            add_subject(t, CHAIN_BACKWARD, LAB_F32, 1, 1, 1), -1, 400);
}

/* What softmax should reach depends on the vectors: their width, and whether 64-byte ones run at full rate. */
static double softmax_goal(const op_table *t)
{
    if (t->machine.vector_bits >= 512)
        return t->anchors.pipes[KERNEL_F32] >= 2 ? 4 : 3;
    return strcmp(t->machine.kernels, "avx2") == 0 ? 2 : 0;
}

static void finish(op_table *t)
{
    for (int i = 0; i < t->n_rows; i++) {
        row *r = &t->rows[i];
        double seconds = bench_statistics_of(&t->subjects[r->of].timed).min;
        double reference = r->against < 0 ? 0 : bench_statistics_of(&t->subjects[r->against].timed).min;
        if (r->measure == GIGA_ELEMENTS)
            r->goal = softmax_goal(t);
        if (!(seconds > 0) || (r->against >= 0 && !(reference > 0)))
            continue;
        r->measured = r->measure == SPEED_OF_REFERENCE   ? reference / seconds
                      : r->measure == BYTES_OF_REFERENCE ? 1.5 * reference / seconds
                      : r->measure == GIGA_ELEMENTS      ? 1e-9 * SOFTMAX_ROWS * SOFTMAX_WIDTH / seconds
                                                         : 1e9 * seconds;
    }
}

static bool passed(const row *r)
{
    return r->measured > 0 && (r->measure == NANOSECONDS ? r->measured <= r->goal : r->measured >= r->goal);
}

/* ---- Results --------------------------------------------------------------------------------------------------- */

static void print_rate(FILE *out, const op_table *t, int index)
{
    if (index < 0)
        return;
    const subject *s = &t->subjects[index];
    double seconds = bench_statistics_of(&s->timed).min, n = (double)s->n;
    if (!(seconds > 0))
        return;
    if (s->work == MATMUL || s->work == DIRECT)
        fprintf(out, "  %6.1f GF/s", 2e-9 * n * n * n * (double)s->batch / seconds);
    else
        fprintf(out, "  %6.1f GB/s", 1e-9 * (s->work == COPY_LARGE ? 2 : 3) * (double)large_bytes / seconds);
}

static void print_table(FILE *out, const op_table *t)
{
    bench_print_machine(out, &t->machine, &t->anchors);
    fprintf(out, "\n%-66s %8s %8s         row, and what it is held against\n", "", "measured", "goal");
    for (int i = 0; i < t->n_rows; i++) {
        const row *r = &t->rows[i];
        fprintf(out, "%-66s %8.3g ", r->text, r->measured);
        if (r->goal > 0)
            fprintf(out, "%s%6.3g  %s", r->measure == NANOSECONDS ? "<=" : ">=", r->goal, passed(r) ? "pass" : "MISS");
        else
            fprintf(out, "%8s  %4s", "none", "");
        if (r->against >= 0) {
            print_rate(out, t, r->of);
            print_rate(out, t, r->against);
        }
        fputc('\n', out);
    }
    fputc('\n', out);
    bench_print_quality(out, &t->quality);
}

static json_t *row_json(const op_table *t, const row *r)
{
    bench_statistics of = bench_statistics_of(&t->subjects[r->of].timed), against = {0};
    if (r->against >= 0)
        against = bench_statistics_of(&t->subjects[r->against].timed);
    return json_pack("{s:s, s:s, s:i, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "name", r->name, "what", r->text, "threads",
                     t->subjects[r->of].threads, "measured", r->measured > 0 ? json_real(r->measured) : json_null(),
                     "goal", r->goal > 0 ? json_real(r->goal) : json_null(), "better",
                     r->measure == NANOSECONDS ? "lower" : "higher", "passed",
                     r->goal > 0 ? json_boolean(passed(r)) : json_null(), "ms_min", bench_json_number(1e3 * of.min),
                     "spread", bench_json_number(of.spread), "reference_ms_min",
                     r->against >= 0 ? bench_json_number(1e3 * against.min) : json_null());
}

static bool write_json(const char *path, const op_table *t)
{
    json_t *rows = json_array();
    for (int i = 0; i < t->n_rows; i++)
        json_array_append_new(rows, row_json(t, &t->rows[i]));
    return bench_write_json("op_bench", path,
                            json_pack("{s:o, s:o, s:o}", "machine", bench_machine_json(&t->machine), "anchors",
                                      bench_anchors_json(&t->anchors), "rows", rows));
}

/* ---- The program ----------------------------------------------------------------------------------------------- */

static struct {
    bench_list threads, rounds;
    const char *json;
} chosen = {.threads = {1, {2}}};

static const bench_option options[] = {
    {"--threads", "N", "threads of the rows that compare with one (default 2; 1 leaves them out)", &chosen.threads,
     false, 1, PARALLEL_MAX_THREADS, NULL, NULL, NULL},
    {"--rounds", "N", "samples of every row, whatever the time (default: as many as fit into about 25 s)",
     &chosen.rounds, false, 1, BENCH_MAX_ROUNDS, NULL, NULL, NULL},
    {"--json", "FILE", "results for programs; - is stdout, and the table goes to stderr then", NULL, false, 0, 0, NULL,
     &chosen.json, NULL},
};

static const bench_program program = {
    .name = "op_bench",
    .summary =
        "Times single ops against cblas, memcpy, one thread, or a number of nanoseconds, and says which goals are\n"
        "met.",
    .notes = "The fastest samples are compared. Exit status: 0 done, whatever was met; 1 a failure; 2 a bad option.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
};

static bool measure_table(op_table *t)
{
    bench_case *cases[BENCH_ANCHOR_CASES + MAX_SUBJECTS];
    int n = bench_anchor_cases(cases);
    for (int i = 0; i < t->n_subjects; i++) {
        if (!prepare(&t->subjects[i])) {
            fprintf(stderr, "op_bench: no memory for the operands\n");
            return false;
        }
        cases[n++] = &t->subjects[i].timed;
    }
    int rounds = chosen.rounds.count ? (int)chosen.rounds.values[0] : 0;
    t->quality = bench_run(n, cases, &(bench_plan){.aim = aim_seconds, .limit = limit_seconds, .rounds = rounds});
    bench_anchors_read(&t->anchors);
    finish(t);
    return true;
}

int main(int argc, char **argv)
{
    static op_table table;
    bench_now();
    bench_options_parse(&program, argc, argv);
    int threads = (int)chosen.threads.values[0], processors = lab_get_threads();
    if (processors == 1 && threads > 1) {
        fprintf(stderr, "op_bench: one processor (or LAB_NUM_THREADS=1): rows that compare threads are left out\n");
        threads = 1;
    }
    make_table(&table, threads);
    bench_machine_describe(&table.machine, threads);
    bool good = measure_table(&table);
    if (good) {
        FILE *people = bench_is_stdout(chosen.json) ? stderr : stdout;
        print_table(people, &table);
        good = fflush(people) == 0;
        good = (!chosen.json || write_json(chosen.json, &table)) && good;
    }
    for (int i = 0; i < table.n_subjects; i++)
        release(&table.subjects[i]);
    return good ? 0 : 1;
}
