/* peak_tmpl.c - how many multiply-adds a second this processor can do at this level, at best.
 *
 * Enough accumulators to hide the latency, few enough to stay in registers. They start different: the compiler merges
 * equal ones, and would measure a quarter more than there is.
 */

#if VECTOR_BYTES == 64 || defined(__aarch64__)
enum { CHAIN_ROWS = 6 }; /* of 32 registers */
#else
enum { CHAIN_ROWS = 3 }; /* of 16 */
#endif
enum { CHAIN_COLUMNS = 4, CHAINS = CHAIN_ROWS * CHAIN_COLUMNS };

/* `rounds` multiply-adds on each chain; they converge to b / (1 - a). */
static __attribute__((noinline)) real FN(run_chains)(int64_t rounds, real a, real b)
{
    vec chain[CHAIN_ROWS][CHAIN_COLUMNS], factor = FN(broadcast)(a), summand = FN(broadcast)(b);
    for (int i = 0; i < CHAIN_ROWS; i++)
        for (int j = 0; j < CHAIN_COLUMNS; j++)
            chain[i][j] = FN(broadcast)((real)(1 + i * CHAIN_COLUMNS + j));
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAIN_ROWS; i++)
            for (int j = 0; j < CHAIN_COLUMNS; j++)
                chain[i][j] = FN(vec_fma)(chain[i][j], factor, summand);
    real sum = 0;
    for (int i = 0; i < CHAIN_ROWS; i++)
        for (int j = 0; j < CHAIN_COLUMNS; j++)
            sum += chain[i][j][0];
    return sum;
}

static double FN(now)(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Short runs, of which the fastest counts: others disturb, none helps. */
static double FN(fma_peak)(double seconds)
{
    const int64_t rounds = 20000;
    double start = FN(now)(), end = start, fastest = INFINITY;
    volatile real factor = (real)0.75, summand = (real)0.5, sink = 0;
    do {
        double before = end;
        sink = FN(run_chains)(rounds, factor, summand);
        end = FN(now)();
        if (end - before < fastest && end > before)
            fastest = end - before;
    } while (end - start < seconds);
    (void)sink;
    return isfinite(fastest) ? 2e-9 * (double)(rounds * CHAINS * LANES) / fastest : 0;
}
