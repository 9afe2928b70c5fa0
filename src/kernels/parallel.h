/* parallel.h - the library's one thread pool.
 *
 * Work is cut into pieces by the problem's size only, never by the number of threads; who runs a piece does not
 * matter for its result. The pool starts at first need, its workers sleep after a short spin, a child after fork()
 * starts afresh, the caller takes part, and a second user thread that comes while the pool is busy runs its pieces
 * itself. Fewer threads are used if some cannot be made. Nothing here allocates from the heap.
 */
#ifndef LAB_KERNELS_PARALLEL_H
#define LAB_KERNELS_PARALLEL_H

#include <stdint.h>

enum { PARALLEL_MAX_THREADS = 256 };

/* `worker` is 0 <= worker < lab__parallel_threads() as it was when the run started, different for pieces that run
 * at the same time: an index into scratch memory that was taken for all workers. */
typedef void (*parallel_fn)(void *context, int64_t piece, int worker);

/* Runs fn for every piece in [0, pieces), in any order, and returns when all are done. Called from inside a piece,
 * it runs everything in the calling worker (worker index of the caller). */
void lab__parallel_run(int64_t pieces, parallel_fn fn, void *context);

/* The same with at most so many workers, 0 <= worker < `workers`: for scratch memory that was taken before. */
void lab__parallel_run_within(int workers, int64_t pieces, parallel_fn fn, void *context);

/* How many workers a run may have at most (caller included): lab_set_threads, else LAB_NUM_THREADS, else the
 * processors this process may run on. */
int lab__parallel_threads(void);

/* 0: back to the default. Takes effect with the next run. */
void lab__parallel_set_threads(int n);

/* How many pieces have been run by workers other than the calling thread since the start: for tests. */
uint64_t lab__parallel_pieces_taken(void);

#endif
