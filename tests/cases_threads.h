/* cases_threads.h - callers on threads of their own, for the parts of O26. */
#ifndef TESTS_CASES_THREADS_H
#define TESTS_CASES_THREADS_H

#include <llmlab.h>

enum { MOST_CALLERS = 40, MOST_VALUES = 4 };

typedef struct caller {
    double value[MOST_VALUES];
    char message[256]; /* "" if all went well */
} caller;

/* Computes on g and leaves its numbers in c. */
typedef void (*concurrent_call)(lab_graph *g, lab_tensor *const *xs, caller *c);

/* n threads, each with a graph of its own, begin together and make the call `repeats` times. */
void call_at_once(int n, int repeats, concurrent_call call, lab_tensor *const *xs, caller callers[MOST_CALLERS]);

/* c = a b: trace, sum, sum of squares. */
void multiply_and_sum(lab_graph *g, lab_tensor *const *xs, caller *c);
/* Causal attention on the default path, q k v dout: sum of the output, sums of squares of dq, dk, dv. */
void attend_and_sum(lab_graph *g, lab_tensor *const *xs, caller *c);

/* O26c: what one process does, by name; its exit status. The other side of `run_process`. */
int process_main(const char *what);
/* Starts this program anew for it, with an environment ("NAME=value" or NULL); the exit status, -1 after 10 seconds or
 * a signal. What the process said on stderr is shown. */
int run_process(const char *what, const char *const *environment);

#endif
