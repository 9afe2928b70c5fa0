/* walk.c - which nodes matter to a backward pass. */
#include "walk.h"

#include <string.h>

slot *lab__slot_make(walk *w, lab_tensor *t)
{
    slot *s = lab__slot_of(w, t);
    if (s)
        return s;
    s = lab__arena_take(&w->graph->walk, sizeof *s);
    if (!s) {
        lab__out_of_memory(w->graph, "the gradients' bookkeeping");
        return NULL;
    }
    memset(s, 0, sizeof *s);
    s->tensor = t;
    s->walk = w;
    s->hidden = t->slot;
    s->next = w->slots;
    w->slots = s;
    t->slot = s;
    return s;
}

void lab__walk_begin(walk *w, lab_graph *g, bool create_graph)
{
    *w = (walk){.graph = g, .number = ++g->walks, .create_graph = create_graph, .temporaries = g->temporaries};
    w->mark = lab__arena_mark(&g->walk);
}

void lab__walk_end(walk *w)
{
    for (slot *s = w->slots; s; s = s->next) {
        lab__place_free(w, s);
        s->tensor->slot = s->hidden;
    }
    lab__sweep_temporaries(w->graph, w->temporaries);
    lab__arena_rewind(&w->graph->walk, w->mark);
}

bool lab__wanted(const walk *w, const node *n, int i)
{
    return n->in[i] && lab__slot_of(w, n->in[i]) && lab__is_float(n->in[i]->dtype) &&
           !(i < 64 && (n->op->constant >> i & 1));
}

/* The values that the derivative with respect to operand i reads must be those that forward saw. */
static lab_status check_versions(lab_graph *g, const node *n, int i)
{
    lab_reads reads = {UINT64_MAX, UINT64_MAX};
    if (n->op->reads)
        reads = n->op->reads[i < n->op->n_reads ? i : n->op->n_reads - 1];
    for (int j = 0; j < n->n_in + n->n_out; j++) {
        bool is_result = j >= n->n_in;
        int bit = is_result ? j - n->n_in : j;
        uint64_t mask = is_result ? reads.out : reads.in;
        /* Operands beyond the 64th share the last bit. */
        if (!(mask >> (bit < 64 ? bit : 63) & 1))
            continue;
        const lab_tensor *t = is_result ? n->out[bit] : n->in[bit];
        if (t && atomic_load_explicit(&t->storage->version, memory_order_relaxed) != n->versions[j])
            return lab_graph_fail(g, LAB_ERR_STATE,
                                  "%s: %s %d (%s), which its derivative reads, was written since it was used",
                                  n->op->name, is_result ? "result" : "operand", bit + 1, lab__tensor_text(t));
    }
    return LAB_OK;
}

/* Notes what a marked node will add to: how often a gradient is used, and which views may share memory. */
static lab_status mark_node(walk *w, node *n)
{
    lab_graph *g = w->graph;
    const lab_op *op = n->op;
    if (w->create_graph ? !op->vjp : !op->vjp && !op->backward)
        return lab_graph_fail(g, LAB_ERR_UNSUPPORTED,
                              w->create_graph && op->backward
                                  ? "%s has no derivative that can be recorded (create_graph)"
                                  : "%s has no derivative",
                              op->name);
    for (int i = 0; i < n->n_in; i++) {
        if (!lab__wanted(w, n, i))
            continue;
        lab__slot_of(w, n->in[i])->uses++;
        lab_status status = check_versions(g, n, i);
        if (status != LAB_OK)
            return status;
    }
    for (int i = 0; i < n->n_out - op->hidden; i++)
        if (lab__is_float(n->out[i]->dtype) && !lab__slot_make(w, n->out[i]))
            return g->status;
    slot *s = lab__slot_of(w, n->out[0]);
    if (n->is_view && n->n_in == 1 && s && !s->given && lab__wanted(w, n, 0) && !w->create_graph &&
        !(op->flags & LAB_OP_VIEW_OVERLAPS)) {
        s->base = lab__slot_of(w, n->in[0]);
        s->whole = s->base->tensor->numel == s->tensor->numel;
        if (!s->whole) {
            s->next_part = s->base->parts;
            s->base->parts = s;
            s->base->n_parts++;
        }
    }
    w->nodes[w->n_nodes++] = n;
    return LAB_OK;
}

/* From y down: which nodes y depends on. Returns the lowest of them, or y's own index + 1. */
static int64_t mark_reached(walk *w, const lab_tensor *y, int64_t *count)
{
    lab_graph *g = w->graph;
    int64_t lowest = y->node->index + 1, pending = 1;
    y->node->reached = w->number;
    *count = 0;
    for (int64_t i = y->node->index; i >= g->floor && pending > 0; i--) {
        node *n = g->nodes[i];
        if (n->reached != w->number)
            continue;
        pending--;
        lowest = i;
        ++*count;
        if (n->op->flags & LAB_OP_NOT_DIFFERENTIABLE)
            continue;
        for (int j = 0; j < n->n_in; j++) {
            node *from = n->in[j] ? n->in[j]->node : NULL;
            if (from && from->index >= g->floor && from->reached != w->number) {
                from->reached = w->number;
                pending++;
            }
        }
    }
    return lowest;
}

lab_status lab__walk_mark(walk *w, lab_tensor *y)
{
    lab_graph *g = w->graph;
    if (!y->node || y->node->index < g->floor)
        return LAB_OK;
    int64_t count, lowest = mark_reached(w, y, &count);
    w->nodes = lab__arena_take(&g->walk, (size_t)count * sizeof(node *));
    if (!w->nodes)
        return lab__out_of_memory(g, "the gradients' bookkeeping");
    for (int64_t i = lowest; i <= y->node->index; i++) {
        node *n = g->nodes[i];
        if (n->reached != w->number || (n->op->flags & LAB_OP_NOT_DIFFERENTIABLE))
            continue;
        bool wanted = false;
        for (int j = 0; j < n->n_in && !wanted; j++)
            wanted = lab__wanted(w, n, j);
        if (wanted && mark_node(w, n) != LAB_OK)
            return g->status;
    }
    return LAB_OK;
}
