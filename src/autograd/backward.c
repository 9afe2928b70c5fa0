/* backward.c - the walk from the last node to the first, and what users call: lab_backward, lab_grad. */
#include "walk.h"

#include <string.h>

#include "ops/op_impl.h"

/* ---- One node, first derivatives
 * --------------------------------------------------------------------------------------- */

enum { FEW = 16, MAX_OUTPUTS = 8 };

/* The arrays a derivative works on; from the walk's arena when there are many operands. */
typedef struct node_call {
    lab_vjp_call call;
    lab_tensor *grad_out[MAX_OUTPUTS];
    bool *wants, *apart; /* apart: this operand's place is memory of its own, added afterwards */
    lab_place *places;
    lab_tensor **grad_in;
    bool few_wants[FEW], few_apart[FEW];
    lab_place few_places[FEW];
    lab_tensor *few_in[FEW];
} node_call;

static bool make_call(walk *w, const node *n, node_call *c)
{
    size_t n_in = (size_t)n->n_in;
    c->wants = c->few_wants;
    c->apart = c->few_apart;
    c->places = c->few_places;
    c->grad_in = c->few_in;
    if (n->n_in > FEW) {
        c->wants = lab__arena_take(&w->graph->walk, 2 * n_in * sizeof *c->wants);
        c->places = lab__arena_take(&w->graph->walk, n_in * sizeof *c->places);
        c->grad_in = lab__arena_take(&w->graph->walk, n_in * sizeof *c->grad_in);
        if (!c->wants || !c->places || !c->grad_in) {
            lab__out_of_memory(w->graph, "the gradients' bookkeeping");
            return false;
        }
        c->apart = c->wants + n_in;
    }
    for (int i = 0; i < n->n_in; i++) {
        c->wants[i] = lab__wanted(w, n, i);
        c->apart[i] = false;
        c->places[i] = (lab_place){NULL, false};
        c->grad_in[i] = NULL;
    }
    c->call = (lab_vjp_call){.graph = w->graph,
                             .op = n->op,
                             .attrs = n->attrs,
                             .n_in = n->n_in,
                             .n_out = n->n_out,
                             .in = n->in,
                             .out = n->out,
                             .grad_out = c->grad_out,
                             .wants = c->wants,
                             .grad_in = c->grad_in,
                             .places = c->places};
    return true;
}

/* The incoming gradients, complete. False if none has come. */
static bool collect(walk *w, const node *n, lab_tensor **grad_out)
{
    bool any = false;
    for (int i = 0; i < n->n_out; i++) {
        slot *s = lab__slot_of(w, n->out[i]);
        grad_out[i] = NULL;
        if (!s || !lab__place_has(s) || !lab__place_finish(w, s))
            continue;
        grad_out[i] = s->place;
        any = any || grad_out[i];
    }
    return any;
}

/* A place for every operand that wants one. Two operands whose places share memory cannot both be handed out: the
 * later one gets memory of its own, which is added when the op is done. */
static lab_status open_places(walk *w, const node *n, node_call *c)
{
    lab_graph *g = w->graph;
    for (int i = 0; i < n->n_in; i++) {
        if (!c->wants[i])
            continue;
        slot *s = lab__slot_of(w, n->in[i]);
        if (!lab__place_open(w, s, &c->places[i].add))
            return g->status;
        c->places[i].tensor = s->place;
        for (int j = 0; j < i && !c->apart[i]; j++)
            c->apart[i] = c->wants[j] && lab__places_share(lab__slot_of(w, n->in[j]), s);
        if (!c->apart[i])
            continue;
        graph_mode mode = g->mode;
        g->mode = MODE_TEMPORARY;
        c->places[i] = (lab_place){lab__new_tensor(g, s->tensor->dtype, s->tensor->rank, s->tensor->shape), false};
        g->mode = mode;
        if (!c->places[i].tensor)
            return g->status;
    }
    return LAB_OK;
}

static lab_status run_backward(walk *w, const node *n, node_call *c)
{
    lab_graph *g = w->graph;
    lab_tensor *before = g->temporaries;
    if (open_places(w, n, c) != LAB_OK)
        return g->status;
    size_t bytes = n->op->backward_scratch ? n->op->backward_scratch(&c->call) : 0;
    if (bytes && !(c->call.scratch = lab__block_take(&g->blocks, bytes)))
        return lab_graph_fail(g, LAB_ERR_MEMORY, "no memory for %zu bytes of scratch", bytes);
    lab_status status = n->op->backward(&c->call);
    if (status != LAB_OK)
        lab_graph_fail(g, status, "its derivative failed with %s", lab_status_name(status));
    lab__block_give(&g->blocks, c->call.scratch);
    for (int i = 0; i < n->n_in && g->status == LAB_OK; i++) {
        if (!c->wants[i])
            continue;
        slot *s = lab__slot_of(w, n->in[i]);
        if (c->apart[i])
            lab__place_accumulate(w, s, c->places[i].tensor);
        else
            lab__place_filled(s);
    }
    lab__sweep_temporaries(g, before);
    return g->status;
}

/* The recorded form with nothing recorded: its results are taken over or added, the rest goes back at once. */
static lab_status run_vjp(walk *w, const node *n, node_call *c)
{
    lab_graph *g = w->graph;
    lab_tensor *before = g->temporaries;
    graph_mode mode = g->mode;
    g->mode = MODE_TEMPORARY;
    lab_status status = n->op->vjp(g, &c->call);
    if (status != LAB_OK)
        lab_graph_fail(g, status, "its derivative failed with %s", lab_status_name(status));
    g->mode = mode;
    for (int i = 0; i < n->n_in && g->status == LAB_OK; i++)
        if (c->wants[i] && c->grad_in[i])
            lab__place_accumulate(w, lab__slot_of(w, n->in[i]), c->grad_in[i]);
    lab__sweep_temporaries(g, before);
    return g->status;
}

static lab_status run_node(walk *w, const node *n)
{
    node_call c;
    slot *view = n->is_view ? lab__slot_of(w, n->out[0]) : NULL;
    if (view && view->merged) {
        lab__place_finish(w, view);
    } else if (collect(w, n, c.grad_out) && make_call(w, n, &c)) {
        const lab_op *outer = w->graph->running;
        w->graph->running = n->op;
        if (n->op->backward)
            run_backward(w, n, &c);
        else
            run_vjp(w, n, &c);
        w->graph->running = outer;
    }
    for (int i = 0; i < n->n_out; i++) {
        slot *s = lab__slot_of(w, n->out[i]);
        if (s)
            lab__place_free(w, s);
    }
    return w->graph->status;
}

/* y's own gradient: the seed, or 1. */
static lab_status start_at(walk *w, slot *s, const lab_tensor *seed)
{
    const lab_dtype dtype = s->tensor->dtype;
    lab_tensor one = {.dtype = dtype, .numel = 1, .kind = TENSOR_TEMPORARY};
    union {
        float f32;
        double f64;
    } value = {0};
    bool add;
    if (!lab__place_open(w, s, &add))
        return w->graph->status;
    if (dtype == LAB_F32)
        value.f32 = 1;
    else
        value.f64 = 1;
    one.data = (char *)&value;
    if (add)
        lab__tensor_accumulate(s->place, seed ? seed : &one);
    else if (seed)
        lab__tensor_copy(s->place, seed);
    else
        lab__tensor_fill(s->place, 1);
    lab__place_filled(s);
    return LAB_OK;
}

/* Everything between the targets (slots with given places) and y. The targets' places hold the result. */
static lab_status run(walk *w, lab_tensor *y, const lab_tensor *seed)
{
    lab_graph *g = w->graph;
    slot *s = lab__slot_of(w, y);
    if (s && seed && lab__is_contiguous(seed)) {
        if (lab__place_accumulate(w, s, (lab_tensor *)seed) != LAB_OK) /* read where it lies */
            return g->status;
    } else if (s && start_at(w, s, seed) != LAB_OK) {
        return g->status;
    }
    for (int64_t i = w->n_nodes - 1; i >= 0; i--)
        if (run_node(w, w->nodes[i]) != LAB_OK)
            return g->status;
    for (slot *t = w->slots; t; t = t->next) {
        if (!t->given)
            continue;
        if (!lab__place_finish(w, t))
            return g->status;
        if (!lab__place_has(t))
            lab__tensor_fill(t->place, 0);
    }
    return LAB_OK;
}

/* ---- One node, recorded
 * ------------------------------------------------------------------------------------------------ */

static lab_status record_node(walk *w, const node *n)
{
    lab_graph *g = w->graph;
    node_call c;
    bool any = false;
    for (int i = 0; i < n->n_out; i++) {
        slot *s = lab__slot_of(w, n->out[i]);
        c.grad_out[i] = s ? s->place : NULL;
        any = any || c.grad_out[i];
    }
    if (!any || !make_call(w, n, &c))
        return g->status;
    const lab_op *outer = g->running;
    int64_t floor = g->floor;
    g->running = n->op;
    g->floor = g->n_nodes;
    lab_status status = n->op->vjp(g, &c.call);
    if (status != LAB_OK)
        lab_graph_fail(g, status, "its derivative failed with %s", lab_status_name(status));
    g->floor = floor;
    for (int i = 0; i < n->n_in && g->status == LAB_OK; i++) {
        slot *s = c.wants[i] ? lab__slot_of(w, n->in[i]) : NULL;
        lab_tensor *gradient = c.grad_in[i];
        if (!s || !gradient)
            continue;
        if (lab__check_gradient(g, s->tensor, gradient) != LAB_OK)
            break;
        s->place = s->place ? lab_add(g, s->place, gradient) : gradient;
    }
    g->running = outer;
    return g->status;
}

static lab_status run_recorded(walk *w, lab_tensor *y, lab_tensor *seed)
{
    lab_graph *g = w->graph;
    slot *s = lab__slot_of(w, y);
    if (s)
        s->place = seed ? seed : lab_full(g, y->dtype, y->rank, y->shape, 1);
    for (int64_t i = w->n_nodes - 1; i >= 0 && g->status == LAB_OK; i--)
        record_node(w, w->nodes[i]);
    return g->status;
}

/* ---- What users call
 * ------------------------------------------------------------------------------------------------------ */

static lab_status check_start(lab_graph *g, const lab_tensor *y)
{
    if (!y)
        return lab_graph_fail(g, LAB_ERR_ARGUMENT, "y is NULL");
    if (g->suspended)
        return lab_graph_fail(g, LAB_ERR_STATE, "%s", lab__suspended_text);
    if (g->base_mode != MODE_RECORD)
        return lab_graph_fail(g, LAB_ERR_STATE, "an inference graph records nothing that could be differentiated");
    if (g->mode != MODE_RECORD)
        return lab_graph_fail(
            g, LAB_ERR_STATE,
            "called inside a first derivative, where nothing is recorded; give the op a destination form");
    if (!lab__is_float(y->dtype))
        return lab_graph_fail(g, LAB_ERR_DTYPE, "y is %s, which has no derivative", lab__tensor_text(y));
    return LAB_OK;
}

static lab_tensor *find_on_graph(lab_graph *g, lab_tensor *t)
{
    return t && lab__readable(g, t) ? lab__on_graph(g, t, false) : NULL;
}

static lab_status check_seed(lab_graph *g, const lab_tensor *y, const lab_tensor *seed)
{
    if (!seed)
        return LAB_OK;
    if (!lab__readable(g, seed))
        return lab_graph_fail(g, LAB_ERR_STATE, "the seed was computed on another graph");
    if (seed->dtype != y->dtype)
        return lab_graph_fail(g, LAB_ERR_DTYPE, "the seed is %s, y is %s", lab_dtype_name(seed->dtype),
                              lab_dtype_name(y->dtype));
    if (!lab__same_shape(seed, y))
        return lab_graph_fail(g, LAB_ERR_SHAPE, "the seed is %s, y is %s", lab__tensor_text(seed), lab__tensor_text(y));
    return LAB_OK;
}

/* Slots for the xs, with memory for their gradients unless they are to be recorded. */
static lab_status make_targets(walk *w, int n, lab_tensor **xs, lab_tensor **grads)
{
    lab_graph *g = w->graph;
    for (int i = 0; i < n; i++) {
        lab_tensor *x = find_on_graph(g, xs[i]);
        if (!xs[i])
            return lab_graph_fail(g, LAB_ERR_ARGUMENT, "xs[%d] is NULL", i);
        if (!x)
            return lab_graph_fail(g, LAB_ERR_STATE, "xs[%d] (%s) is not on this graph", i, lab__tensor_text(xs[i]));
        if (!lab__is_float(x->dtype))
            return lab_graph_fail(g, LAB_ERR_DTYPE, "xs[%d] (%s) has no derivative", i, lab__tensor_text(x));
        slot *s = lab__slot_make(w, x);
        if (!s)
            return g->status;
        if (!s->given && !w->create_graph) {
            s->place = lab__new_tensor(g, x->dtype, x->rank, x->shape);
            if (!s->place)
                return g->status;
        }
        s->given = true;
        grads[i] = s->place;
    }
    return LAB_OK;
}

static lab_status grad(lab_graph *g, lab_tensor *y, lab_tensor *seed, int n, lab_tensor **xs, lab_tensor **grads,
                       bool create_graph)
{
    walk w;
    lab_tensor *on_graph = find_on_graph(g, y);
    if (!on_graph)
        return lab_graph_fail(g, LAB_ERR_STATE, "y (%s) is not on this graph", lab__tensor_text(y));
    lab_status status = check_seed(g, on_graph, seed);
    if (status != LAB_OK)
        return status;
    lab__walk_begin(&w, g, create_graph);
    status = make_targets(&w, n, xs, grads);
    if (status == LAB_OK)
        status = lab__walk_mark(&w, on_graph);
    if (status == LAB_OK)
        status = create_graph ? run_recorded(&w, on_graph, seed) : run(&w, on_graph, seed);
    for (int i = 0; i < n && create_graph && status == LAB_OK; i++) {
        lab_tensor *x = find_on_graph(g, xs[i]);
        grads[i] = lab__slot_of(&w, x)->place;
        if (!grads[i])
            grads[i] = lab_full(g, x->dtype, x->rank, x->shape, 0);
        else if (grads[i]->graph != g)
            grads[i] = lab__on_graph(g, grads[i], true);
    }
    lab__walk_end(&w);
    return g->status;
}

lab_status lab_grad(lab_graph *g, lab_tensor *y, lab_tensor *seed, int n, lab_tensor **xs, lab_tensor **grads,
                    const lab_grad_opts *opts)
{
    for (int i = 0; grads && i < n; i++)
        grads[i] = NULL;
    if (!lab__healthy(g))
        return lab_graph_status(g);
    static const lab_op name = {.name = "lab_grad"};
    const lab_op *outer = g->running;
    g->running = &name;
    lab_status status = check_start(g, y);
    if (status == LAB_OK && (n < 0 || (n > 0 && (!xs || !grads))))
        status = lab_graph_fail(g, LAB_ERR_ARGUMENT, n < 0 ? "n is negative" : !xs ? "xs is NULL" : "grads is NULL");
    for (int i = 0; status == LAB_OK && opts && i < 8; i++)
        if (opts->reserved[i])
            status = lab_graph_fail(g, LAB_ERR_ARGUMENT, "the options' reserved words are not zero");
    if (status == LAB_OK)
        status = grad(g, y, seed, n, xs, grads, opts && opts->create_graph);
    g->running = outer;
    for (int i = 0; status != LAB_OK && grads && i < n; i++)
        grads[i] = NULL;
    return status;
}

/* The leaves that take part: memory first, so that a failure on the way changes none of them. */
static lab_status make_leaf_targets(walk *w)
{
    lab_graph *g = w->graph;
    for (int64_t i = 0; i < g->n_foreign; i++) {
        lab_tensor *proxy = g->foreign_list[i], *leaf = proxy->origin;
        if (leaf->kind != TENSOR_LEAF || !leaf->requires_grad)
            continue;
        slot *s = lab__slot_make(w, proxy);
        if (!s)
            return g->status;
        lab_tensor *gradient = lab__leaf_gradient(leaf);
        if (!gradient)
            return lab_graph_fail(g, LAB_ERR_MEMORY, "no memory for the gradient of %s", lab__tensor_text(leaf));
        /* Absent, it is written where it lies; unless an op of this graph has read its old values and may yet again. */
        if (leaf->gradient_present || lab__on_graph(g, gradient, false)) {
            g->mode = MODE_TEMPORARY;
            s->place = lab__new_tensor(g, leaf->dtype, leaf->rank, leaf->shape);
            g->mode = g->base_mode;
            if (!s->place)
                return g->status;
        } else {
            s->place = gradient;
        }
        s->given = true;
    }
    return LAB_OK;
}

static void settle_leaves(walk *w)
{
    for (slot *s = w->slots; s; s = s->next) {
        if (!s->given)
            continue;
        lab_tensor *leaf = s->tensor->origin;
        if (leaf->gradient_present)
            lab__tensor_accumulate(leaf->gradient, s->place);
        else if (s->place->storage != leaf->gradient->storage)
            lab__tensor_copy(leaf->gradient, s->place);
        leaf->gradient_present = true;
        lab_tensor_touch(leaf->gradient);
    }
}

lab_status lab_backward(lab_graph *g, lab_tensor *y)
{
    if (!lab__healthy(g))
        return lab_graph_status(g);
    static const lab_op name = {.name = "lab_backward"};
    const lab_op *outer = g->running;
    g->running = &name;
    lab_status status = check_start(g, y);
    if (status == LAB_OK && (outer || lab__in_checkpoint(g)))
        status = lab_graph_fail(g, LAB_ERR_STATE, "called inside an op or a checkpointed function");
    lab_tensor *on_graph = status == LAB_OK ? find_on_graph(g, y) : NULL;
    if (status == LAB_OK && !on_graph)
        status = lab_graph_fail(g, LAB_ERR_STATE, "y (%s) is not on this graph", lab__tensor_text(y));
    if (status == LAB_OK && y->numel != 1)
        status = lab_graph_fail(g, LAB_ERR_SHAPE, "y is %s, must have one element", lab__tensor_text(y));
    if (status == LAB_OK) {
        walk w;
        lab__walk_begin(&w, g, false);
        status = make_leaf_targets(&w);
        if (status == LAB_OK)
            status = lab__walk_mark(&w, on_graph);
        if (status == LAB_OK)
            status = run(&w, on_graph, NULL);
        if (status == LAB_OK)
            settle_leaves(&w);
        lab__walk_end(&w);
    }
    g->running = outer;
    return g->status;
}

lab_status lab__backward_into(lab_graph *g, lab_tensor *y, const lab_tensor *seed, int n, lab_tensor *const *targets,
                              const lab_place *places)
{
    walk w;
    lab_tensor *on_graph = find_on_graph(g, y);
    if (!on_graph)
        return lab_graph_fail(g, LAB_ERR_STATE, "y is not on the graph");
    lab__walk_begin(&w, g, false);
    for (int i = 0; i < n && g->status == LAB_OK; i++) {
        slot *s = targets[i] && places[i].tensor ? lab__slot_make(&w, targets[i]) : NULL;
        if (!s)
            continue;
        s->place = places[i].tensor;
        s->filled = places[i].add;
        s->given = true;
    }
    lab_status status = g->status == LAB_OK ? lab__walk_mark(&w, on_graph) : g->status;
    if (status == LAB_OK)
        status = run(&w, on_graph, seed);
    lab__walk_end(&w);
    return status;
}

/* ---- Stopping gradients
 * ----------------------------------------------------------------------------------------------------- */

static bool detach_view(const lab_op_call *call, lab_view *view)
{
    view->offset = 0;
    memcpy(view->strides, call->in[0]->strides, sizeof view->strides);
    return true;
}

static const lab_op detach_op = {
    .name = "detach",
    .inputs = 1,
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = lab__shape_same,
    .view = detach_view,
};

lab_tensor *lab_detach(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &detach_op, NULL, 0, x);
}
