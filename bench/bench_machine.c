/* bench_machine.c - what computes here, and how fast it can at most.
 *
 * The peak of fused multiply-adds is easy to get wrong (accumulators that the compiler merges report more than the
 * machine can do), so it is held against clock x lanes x 2 x pipes, with a clock of our own: a chain of dependent
 * additions takes one cycle each, and what /proc/cpuinfo shows may be another clock.
 */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "autograd/memory.h"
#include "kernels/gemm.h"
#include "kernels/kernels.h"
#include "kernels/parallel.h"
#include "llmlab/runtime.h"

enum { GEMM_SIZE = 768, CHAIN = 1 << 20, SHORT_TRIES = 5, MAX_PIPES = 8 };
enum { READ_BYTES = 256 << 20, READ_STREAMS = 4, READ_AHEAD = 1024, LINE = 64 };
static const double peak_seconds = 0.002;

static const char *const type_names[BENCH_TYPES] = {"f32", "f64"};
static const char *const gemm_names[BENCH_TYPES] = {"sgemm", "dgemm"};

/* ---- Anchors --------------------------------------------------------------------------------------------------- */

typedef struct anchor {
    kernel_type type;
    void *memory; /* a, b and c of a product */
    bench_case timed;
} anchor;

static anchor clock_anchor, read_anchor, peak_anchors[BENCH_TYPES], gemm_anchors[BENCH_TYPES],
    tile_anchors[BENCH_TYPES];

/* Seconds per cycle: additions of registers, each of which waits for the one before. */
static double time_cycle(void)
{
    uint64_t sum = 0, one = 1;
    __asm__ volatile("" : "+r"(one));
    double start = bench_now();
    for (int i = 0; i < CHAIN / 16; i++) {
        for (int j = 0; j < 16; j++) {
            sum += one;
            __asm__ volatile("" : "+r"(sum));
        }
    }
    return (bench_now() - start) / CHAIN;
}

/* Seconds per operation of the vector units. */
static double time_fma(const anchor *self)
{
    double gflops = lab__kernels_fma_peak(lab__kernels(), self->type, peak_seconds);
    return gflops > 0 ? 1e-9 / gflops : -1;
}

/* Clock and peak are the best of a few short tries: a neighbour's time slice is longer than one of them. */
static double sample_clock(void *context)
{
    (void)context;
    double best = time_cycle();
    for (int i = 1; i < SHORT_TRIES; i++)
        best = fmin(best, time_cycle());
    return best;
}

static double sample_peak(void *context)
{
    double best = time_fma(context);
    for (int i = 1; i < SHORT_TRIES; i++)
        best = fmin(best, time_fma(context));
    return best;
}

/* Of one matrix. */
static size_t gemm_bytes(kernel_type type)
{
    return (size_t)(GEMM_SIZE * GEMM_SIZE) * (type == KERNEL_F64 ? sizeof(double) : sizeof(float));
}

/* Seconds per product. */
static double sample_gemm(void *context)
{
    anchor *self = context;
    int64_t n = GEMM_SIZE;
    const size_t bytes = gemm_bytes(self->type);
    if (!self->memory) {
        self->memory = lab__allocate(3 * bytes);
        if (!self->memory)
            return -1;
        lab__kernel_normal(self->type, 3 * n * n, self->memory, 1, 0, 0);
    }
    char *a = self->memory;
    lab__blas_guard_enter();
    double start = bench_now();
    lab__gemm_direct(self->type, n, n, n, a, a + bytes, a + 2 * bytes);
    double seconds = bench_now() - start;
    lab__blas_guard_leave();
    return seconds;
}

/* m, n, k of tiles as attention has them. */
static const int64_t tile_shapes[][3] = {{48, 256, 64}, {48, 64, 256}, {48, 384, 16}};
enum { TILE_SHAPES = sizeof tile_shapes / sizeof tile_shapes[0], TILE_NUMBERS = 1 << 16 };
static const double tile_seconds = 0.002; /* of one try, so that a slow build's takes no longer */

/* Seconds per operation of one shape. */
static double time_tile(const anchor *self, const int64_t *shape)
{
    int64_t m = shape[0], n = shape[1], k = shape[2], size = self->type == KERNEL_F64 ? sizeof(double) : sizeof(float);
    kernel_tile_fn tile = lab__kernels()->tile[self->type];
    char *a = self->memory, *b = a + m * k * size, *c = b + k * n * size;
    double start = bench_now(), seconds;
    int64_t calls = 0;
    do {
        tile(m, n, k, a, k, 1, b, n, c, n, KERNEL_SUM_NEW);
        calls++;
        seconds = bench_now() - start;
    } while (seconds < tile_seconds);
    return seconds / (2.0 * (double)(m * n * k) * (double)calls);
}

/* Seconds per operation of the slowest shape. */
static double sample_tile(void *context)
{
    anchor *self = context;
    if (!self->memory) {
        self->memory = aligned_alloc(64, TILE_NUMBERS * sizeof(double));
        if (!self->memory)
            return -1;
        lab__kernel_normal(self->type, TILE_NUMBERS, self->memory, 1, 0, 0);
    }
    double slowest = 0;
    for (int shape = 0; shape < TILE_SHAPES; shape++) {
        double best = time_tile(self, tile_shapes[shape]);
        for (int i = 1; i < SHORT_TRIES; i++)
            best = fmin(best, time_tile(self, tile_shapes[shape]));
        slowest = fmax(slowest, best);
    }
    return slowest;
}

typedef uint64_t line_part __attribute__((vector_size(16)));
enum { LINE_PARTS = LINE / sizeof(line_part) };

/* Several streams at once, and asked for ahead: one alone, as it comes, is read at little more than half the speed
 * (Zen 3, pages of 4 KiB). */
uint64_t bench_read_memory(const char *memory, size_t bytes)
{
    const size_t each = bytes / READ_STREAMS / LINE * LINE;
    line_part seen[LINE_PARTS] = {{0}};
    for (size_t at = 0; at < each; at += LINE)
        for (int stream = 0; stream < READ_STREAMS; stream++) {
            const line_part *line = (const line_part *)(memory + (size_t)stream * each + at);
            __builtin_prefetch((const char *)line + READ_AHEAD);
            for (int i = 0; i < LINE_PARTS; i++)
                seen[i] |= line[i];
        }
    const line_part all = (seen[0] | seen[1]) | (seen[2] | seen[3]);
    return all[0] | all[1];
}

/* Seconds per byte. */
static double sample_read(void *context)
{
    anchor *self = context;
    if (!self->memory) {
        self->memory = lab__allocate(READ_BYTES + READ_AHEAD);
        if (!self->memory)
            return -1;
        memset(self->memory, 1, READ_BYTES + READ_AHEAD);
    }
    double start = bench_now();
    const uint64_t seen = bench_read_memory(self->memory, READ_BYTES);
    __asm__ volatile("" : : "r"(seen));
    return (bench_now() - start) / READ_BYTES;
}

int bench_anchor_cases(bench_case **cases)
{
    int n = 0;
    clock_anchor.timed = (bench_case){.sample = sample_clock, .context = &clock_anchor};
    cases[n++] = &clock_anchor.timed;
    read_anchor.timed = (bench_case){.sample = sample_read, .context = &read_anchor};
    cases[n++] = &read_anchor.timed;
    for (int type = 0; type < BENCH_TYPES; type++) {
        anchor *peak = &peak_anchors[type], *gemm = &gemm_anchors[type], *tile = &tile_anchors[type];
        peak->type = gemm->type = tile->type = (kernel_type)type;
        peak->timed = (bench_case){.sample = sample_peak, .context = peak};
        gemm->timed = (bench_case){.sample = sample_gemm, .context = gemm};
        cases[n++] = &peak->timed;
        cases[n++] = &gemm->timed;
        tile->timed = (bench_case){.sample = sample_tile, .context = tile};
        cases[n++] = &tile->timed;
    }
    return n;
}

static double per_second(const anchor *measured, double amount)
{
    double seconds = bench_statistics_of(&measured->timed).min;
    return seconds > 0 ? amount / seconds : 0;
}

void bench_anchors_read(bench_anchors *anchors)
{
    double n = GEMM_SIZE;
    anchors->clock_ghz = per_second(&clock_anchor, 1e-9);
    anchors->read_gbs = per_second(&read_anchor, 1e-9);
    lab__release(read_anchor.memory, READ_BYTES + READ_AHEAD);
    read_anchor.memory = NULL;
    for (int type = 0; type < BENCH_TYPES; type++) {
        anchors->fma_gflops[type] = per_second(&peak_anchors[type], 1e-9);
        anchors->gemm_gflops[type] = per_second(&gemm_anchors[type], 2e-9 * n * n * n);
        anchors->tile_gflops[type] = per_second(&tile_anchors[type], 1e-9);
        int lanes = lab__kernels()->vector_bits / (type == KERNEL_F64 ? 64 : 32);
        double one_pipe = anchors->clock_ghz * lanes * 2;
        double pipes = one_pipe > 0 ? round(anchors->fma_gflops[type] / one_pipe) : 0;
        anchors->pipes[type] = pipes < 1 ? 1 : pipes > MAX_PIPES ? MAX_PIPES : (int)pipes;
        anchors->of_formula[type] = one_pipe > 0 ? anchors->fma_gflops[type] / (one_pipe * anchors->pipes[type]) : 0;
        lab__release(gemm_anchors[type].memory, 3 * gemm_bytes((kernel_type)type));
        gemm_anchors[type].memory = NULL;
        free(tile_anchors[type].memory);
        tile_anchors[type].memory = NULL;
    }
}

/* ---- Description ----------------------------------------------------------------------------------------------- */

static void find_cpu(char *name, size_t size)
{
    struct utsname system;
    snprintf(name, size, "%s", uname(&system) == 0 ? system.machine : "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        snprintf(name, size, "%s", value);
        break;
    }
    if (file)
        fclose(file);
}

void bench_machine_describe(bench_machine *machine, int threads)
{
    find_cpu(machine->cpu, sizeof machine->cpu);
    machine->kernels = lab__kernels()->level;
    machine->vector_bits = lab__kernels()->vector_bits;
    machine->blas = lab__blas_name();
    machine->blas_core = lab__blas_core();
    machine->blas_threading = lab__blas_threading();
    machine->threads = threads;
}

static void print_anchors(FILE *out, const bench_anchors *anchors, int type)
{
    double peak = anchors->fma_gflops[type], error = fabs(anchors->of_formula[type] - 1);
    int lanes = lab__kernels()->vector_bits / (type == KERNEL_F64 ? 64 : 32);
    double of_peak = peak > 0 ? 100 / peak : 0;
    fprintf(out, "%s, one thread: FMA peak %.1f GF/s, tile product %.1f (%.0f %%), %s %d^3 %.1f GF/s (%.0f %%)\n",
            type_names[type], peak, anchors->tile_gflops[type], of_peak * anchors->tile_gflops[type], gemm_names[type],
            (int)GEMM_SIZE, anchors->gemm_gflops[type], of_peak * anchors->gemm_gflops[type]);
    fprintf(out, "    the peak is %.1f %% of %.2f GHz x %d lanes x 2 x %d pipe%s%s\n", 100 * anchors->of_formula[type],
            anchors->clock_ghz, lanes, anchors->pipes[type], anchors->pipes[type] == 1 ? "" : "s",
            error <= 0.03 ? "" : ": MORE THAN 3 % APART, so shares of the peak are not to be trusted in this run");
}

void bench_print_machine(FILE *out, const bench_machine *machine, const bench_anchors *anchors)
{
    fprintf(out, "llm-lab %s on %s (%s kernels, %d-bit vectors), %s (", lab_version(), machine->cpu, machine->kernels,
            machine->vector_bits, machine->blas);
    if (*machine->blas_core)
        fprintf(out, "%s, ", machine->blas_core);
    fprintf(out, "%s), %d thread%s\n", machine->blas_threading, machine->threads, machine->threads == 1 ? "" : "s");
    for (int type = 0; type < BENCH_TYPES; type++)
        print_anchors(out, anchors, type);
    fprintf(out, "memory, one thread: %d MiB read at %.1f GB/s\n", READ_BYTES >> 20, anchors->read_gbs);
}

json_t *bench_machine_json(const bench_machine *machine)
{
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:i}", "cpu", machine->cpu, "vector_bits", machine->vector_bits,
                     "kernels", machine->kernels, "blas", machine->blas, "blas_core", machine->blas_core,
                     "blas_threading", machine->blas_threading, "threads", machine->threads);
}

json_t *bench_anchors_json(const bench_anchors *anchors)
{
    json_t *result = json_object();
    for (int type = 0; result && type < BENCH_TYPES; type++) {
        json_t *of_type = json_pack("{s:o, s:o, s:o}", "fma_gflops", bench_json_number(anchors->fma_gflops[type]),
                                    "gemm_gflops", bench_json_number(anchors->gemm_gflops[type]), "tile_gflops",
                                    bench_json_number(anchors->tile_gflops[type]));
        json_object_set_new(result, type_names[type], of_type);
    }
    if (result)
        json_object_set_new(result, "read_gbs", bench_json_number(anchors->read_gbs));
    return result;
}

/* ---- Memory ---------------------------------------------------------------------------------------------------- */

/* The number behind `name` at the start of a line; `otherwise` if there is no such file, line or number ("max"). */
static double number_in(const char *path, const char *name, double otherwise)
{
    FILE *file = fopen(path, "r");
    char line[128];
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, strlen(name)) != 0)
            continue;
        char *end, *digits = line + strlen(name);
        double value = strtod(digits, &end);
        otherwise = end == digits ? otherwise : value;
        break;
    }
    if (file)
        fclose(file);
    return otherwise;
}

double bench_memory_available(void)
{
    double of_system = 1024 * number_in("/proc/meminfo", "MemAvailable:", INFINITY);
    double of_container =
        number_in("/sys/fs/cgroup/memory.max", "", INFINITY) - number_in("/sys/fs/cgroup/memory.stat", "anon ", 0);
    return of_system < of_container ? of_system : of_container;
}
