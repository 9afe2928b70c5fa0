/* engine.h - the graph from inside: the tape, its modes, and how an op is applied.
 *
 * The engine has never heard of any op but those it needs to add gradients up (add, full). A new op is one descriptor
 * and touches nothing here.
 */
#ifndef LAB_AUTOGRAD_ENGINE_H
#define LAB_AUTOGRAD_ENGINE_H

#include "llmlab/graph.h"
#include "llmlab/op.h"
#include "memory.h"
#include "tensor_impl.h"

/* One application of an op, on the tape. The arrays follow it in the arena. */
typedef struct node {
    const lab_op *op;
    const void *attrs;
    int n_in, n_out;
    int64_t index;
    uint64_t reached; /* number of the walk that came by */
    bool is_view;
    lab_tensor **in, **out;
    uint64_t *versions; /* of the operands', then the results' storages, when the op ran */
} node;

typedef enum graph_mode {
    MODE_RECORD,    /* every op becomes a node */
    MODE_INFERENCE, /* nothing is recorded; memory by mark and release */
    MODE_TEMPORARY  /* inside a derivative that nobody differentiates: results go back at their last use */
} graph_mode;

typedef struct foreign {
    const lab_tensor *origin; /* key; NULL: free */
    lab_tensor *proxy;
} foreign;

struct lab_graph {
    graph_mode mode, base_mode;
    bool batch_invariant; /* products go to the tile product */
    lab_status status;
    bool refused; /* for good: its options ask for what there is not */
    char message[512];
    const lab_op *running; /* the op whose function is being called, for messages */

    arena results;     /* forward results, nodes, proxies: until reset */
    arena walk;        /* what one backward needs */
    block_pool blocks; /* temporaries and scratch */
    lab_tensor *temporaries;

    node **nodes;
    int64_t n_nodes, nodes_capacity;
    int64_t floor; /* inside a recorded derivative: lab_grad goes back no further than this node */
    uint64_t walks;

    foreign *foreigns; /* hash table, open addressing */
    int64_t n_foreign, foreign_capacity;
    lab_tensor **foreign_list; /* the proxies in the order they were seen */

    lab_graph *parent, *child; /* the child is kept for the next checkpoint */
    double flops;
    int checkpoint_depth; /* checkpointed functions that run on this graph itself */
    bool suspended;       /* a checkpointed function runs on the child: here nothing may be computed meanwhile */
    uint64_t epoch;       /* no other graph's, and another after each reset: marks carry it */
};

/* ---- Applying ops ---------------------------------------------------------------------------------------------- */

/* Applies an op; results into out[0 .. outputs - hidden). NULL operands that are not optional are refused. */
lab_status lab__apply(lab_graph *g, const lab_op *op, const void *attrs, size_t attrs_bytes, int n_in,
                      lab_tensor *const *in, lab_tensor **out);

/* The same for ops of one visible result and few operands; NULL on failure. */
lab_tensor *lab__apply0(lab_graph *g, const lab_op *op, const void *attrs, size_t attrs_bytes);
lab_tensor *lab__apply1(lab_graph *g, const lab_op *op, const void *attrs, size_t attrs_bytes, lab_tensor *a);
lab_tensor *lab__apply2(lab_graph *g, const lab_op *op, const void *attrs, size_t attrs_bytes, lab_tensor *a,
                        lab_tensor *b);
lab_tensor *lab__apply3(lab_graph *g, const lab_op *op, const void *attrs, size_t attrs_bytes, lab_tensor *a,
                        lab_tensor *b, lab_tensor *c);

/* Fails with "name: sentence"; used before an op is applied (a bad axis, a NULL list). Returns NULL. */
lab_tensor *lab__refuse(lab_graph *g, const char *name, lab_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* True if g is there and healthy. */
bool lab__healthy(const lab_graph *g);

/* ---- What layers may ask of a graph ------------------------------------------------------------------------------ */

/* False on an inference graph, whose results have no gradients. */
bool lab__is_recording(const lab_graph *g);

/* Whether products go to the tile product. */
bool lab__is_batch_invariant(const lab_graph *g);

/* Memory that lives as long as what is computed on g now; NULL if there is none, which is the caller's to say. */
void *lab__keep(lab_graph *g, size_t bytes);

/* ---- Between the engine's own files ---------------------------------------------------------------------------- */

/* g's own header for t: t itself if computed on g, the proxy of a foreign tensor (made at first sight when `make`),
 * or NULL (not on this graph; out of memory, which fails the graph). */
lab_tensor *lab__on_graph(lab_graph *g, lab_tensor *t, bool make);

/* Enters a proxy into the table and the list; there is room. */
void lab__foreign_insert(lab_graph *g, lab_tensor *proxy);

/* Whether a graph may read t: a leaf, a gradient, its own or an ancestor's. */
bool lab__readable(const lab_graph *g, const lab_tensor *t);

/* Tensors in the memory of g's mode; NULL fails the graph. */
lab_tensor *lab__new_tensor(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape); /* row-major */
lab_tensor *lab__new_alias(lab_graph *g, const lab_tensor *of); /* the same memory under a header of its own */
void lab__free_temporary(lab_graph *g, lab_tensor *t);

/* Gives back every temporary made since `until` headed the list. */
void lab__sweep_temporaries(lab_graph *g, lab_tensor *until);

/* Whether a view of such a shape stays inside its base's memory. */
bool lab__view_fits(const lab_tensor *base, const lab_spec *spec, const lab_view *view);

/* Fails g unless a derivative may serve as t's gradient. */
lab_status lab__check_gradient(lab_graph *g, const lab_tensor *t, const lab_tensor *gradient);

/* What is said to those who compute on a suspended graph. */
extern const char lab__suspended_text[];

/* Fails g with LAB_ERR_MEMORY, and the words for what there was no memory for. */
lab_status lab__out_of_memory(lab_graph *g, const char *what);

/* Whether what is computed now will be computed again: only a checkpoint's result may leave it. */
bool lab__in_checkpoint(const lab_graph *g);

/* The child graph for a checkpoint: reset, in the given mode. NULL fails g. */
lab_graph *lab__child(lab_graph *g, graph_mode mode);

/* Backward from y into given places: for the children of checkpoints. targets are tensors on g (or NULL: skipped);
 * places[i].tensor NULL: not wanted. */
lab_status lab__backward_into(lab_graph *g, lab_tensor *y, const lab_tensor *seed, int n, lab_tensor *const *targets,
                              const lab_place *places);

#endif
