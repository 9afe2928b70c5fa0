/* walk.h - one backward pass: which nodes matter, and where each tensor's gradient lies while it is being added up.
 *
 *     mark (walk.c)       which nodes lie between y and the targets, how often each tensor is used; versions checked
 *     places (places.c)   the memory of each gradient: its own, or a region of the one its tensor is a view of
 *     run (backward.c)    the nodes from the last to the first
 *
 * Walks nest (a derivative may itself ask for gradients), so a slot remembers the one it hides.
 */
#ifndef LAB_AUTOGRAD_WALK_H
#define LAB_AUTOGRAD_WALK_H

#include "engine.h"

/* The gradient of one tensor during one walk. */
typedef struct slot {
    lab_tensor *tensor;
    struct walk *walk;
    struct slot *hidden; /* tensor->slot of an outer walk */
    struct slot *next;   /* list of the walk */
    lab_tensor *place;   /* where it lies; NULL: nowhere yet. With create_graph: its value on the tape */
    bool filled;         /* holds something: later contributions are added */
    bool taken_over;     /* the place is what a recorded derivative returned, and may be shared */
    bool given;          /* the place came from outside and stays */
    int uses;            /* operands of marked nodes that want it */
    struct slot *base;   /* the tensor is a view of base's, and its gradient may lie inside base's */
    bool merged;         /* ... and does */
    bool whole;          /* it covers all of base */
    /* As the base of views that cover parts of it: */
    struct slot *parts, *next_part;
    int n_parts;
    bool tiled; /* the parts are disjoint, nothing else adds to it, and what none covers has been zeroed */
    bool prepared;
} slot;

typedef struct walk {
    lab_graph *graph;
    uint64_t number;
    bool create_graph;
    node **nodes; /* marked, ascending */
    int64_t n_nodes;
    slot *slots;
    lab_tensor *temporaries; /* the graph's list as it was */
    arena_mark mark;
} walk;

static inline slot *lab__slot_of(const walk *w, const lab_tensor *t)
{
    return t && t->slot && t->slot->walk == w ? t->slot : NULL;
}

/* Whether the derivative with respect to operand i is asked for. */
bool lab__wanted(const walk *w, const node *n, int i);

slot *lab__slot_make(walk *w, lab_tensor *t);

void lab__walk_begin(walk *w, lab_graph *g, bool create_graph);
/* Marks what lies between y and the tensors that have slots already. */
lab_status lab__walk_mark(walk *w, lab_tensor *y);
void lab__walk_end(walk *w);

/* ---- places.c -------------------------------------------------------------------------------------------------------
 */

/* A place to write into (*add false) or to add to. False: out of memory, the graph has failed. */
bool lab__place_open(walk *w, slot *s, bool *add);
/* What was opened has been written. */
void lab__place_filled(slot *s);
/* Whether anything has come in. */
bool lab__place_has(const slot *s);
/* Adds a tensor that a recorded derivative made; takes it over where that is possible. */
lab_status lab__place_accumulate(walk *w, slot *s, lab_tensor *gradient);
/* Zeroes parts that nothing came into; to be called before the whole is read. */
bool lab__place_finish(walk *w, slot *s);
/* Gives the place back, if it is the slot's own. */
void lab__place_free(walk *w, slot *s);
/* Whether writing into one may touch the other. */
bool lab__places_share(const slot *a, const slot *b);

#endif
