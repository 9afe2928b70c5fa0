/* checkpoint.c - results that are computed again in backward instead of being kept.
 *
 * Forward runs f on a child graph that records nothing and notes which tensors f read: those are the operands of one
 * node on the tape. Backward runs f again on the child, recording, and walks it straight into the operands' places.
 */
#include <string.h>

#include "engine.h"
#include "ops/op_impl.h"

typedef struct checkpoint {
    lab_fn f;
    void *ctx;
    int n;              /* how many xs */
    lab_tensor *result; /* on the child graph; while forward runs only */
    int operand[];      /* which operand each x is */
} checkpoint;

const char lab__suspended_text[] =
    "a checkpointed function must compute on the graph it is given, not on the outer one";

bool lab__in_checkpoint(const lab_graph *g)
{
    return g->parent || g->checkpoint_depth > 0;
}

/* f on a graph; its result on that graph, or NULL with g (the caller's) failed. */
static lab_tensor *run(lab_graph *g, lab_graph *on, const checkpoint *c, lab_tensor **xs)
{
    const lab_op *outer = on->running;
    on->running = NULL;
    on->checkpoint_depth++;
    g->suspended = on != g;
    lab_tensor *y = c->f(on, xs, c->ctx);
    g->suspended = false;
    on->checkpoint_depth--;
    on->running = outer;
    if (on != g && g->status != LAB_OK)
        return NULL;
    if (on->status != LAB_OK) {
        if (on != g)
            lab_graph_fail(g, on->status, "%s", on->message);
        return NULL;
    }
    if (!y || !lab__readable(on, y)) {
        lab_graph_fail(g, LAB_ERR_ARGUMENT, y ? "the function's result is of another graph" : "the function gave NULL");
        return NULL;
    }
    return lab__on_graph(on, y, true);
}

static lab_status checkpoint_shape(lab_op_call *call)
{
    const checkpoint *c = call->attrs;
    call->specs[0].dtype = c->result->dtype;
    call->specs[0].rank = c->result->rank;
    memcpy(call->specs[0].shape, c->result->shape, sizeof call->specs[0].shape);
    return LAB_OK;
}

static lab_status checkpoint_forward(lab_op_call *call)
{
    const checkpoint *c = call->attrs;
    lab__tensor_copy(call->out[0], c->result);
    return LAB_OK;
}

/* The xs as f wants them, from the operands. */
static lab_tensor **collect_xs(const lab_vjp_call *call, const checkpoint *c)
{
    lab_tensor **xs = lab__arena_take(&call->graph->walk, (size_t)(c->n + 1) * sizeof *xs);
    for (int i = 0; xs && i < c->n; i++)
        xs[i] = call->in[c->operand[i]];
    return xs;
}

static lab_status checkpoint_backward(lab_vjp_call *call)
{
    lab_graph *g = call->graph;
    const checkpoint *c = call->attrs;
    lab_graph *child = lab__child(g, MODE_RECORD);
    lab_tensor **xs = collect_xs(call, c);
    lab_tensor **targets = lab__arena_take(&g->walk, (size_t)(call->n_in + 1) * sizeof *targets);
    if (!child || !xs || !targets)
        return lab__out_of_memory(g, "a checkpoint");
    lab_tensor *y = run(g, child, c, xs);
    if (y && (y->dtype != call->out[0]->dtype || !lab__same_shape(y, call->out[0])))
        return lab_graph_fail(g, LAB_ERR_STATE, "the function gave %s the second time, %s the first",
                              lab__tensor_text(y), lab__tensor_text(call->out[0]));
    if (!y)
        return g->status;
    for (int i = 0; i < call->n_in; i++) {
        targets[i] = lab__on_graph(child, call->in[i], false);
        const lab_place *place = &call->places[i];
        if (!targets[i] && place->tensor && !place->add)
            lab__tensor_fill(place->tensor, 0);
    }
    if (lab__backward_into(child, y, call->grad_out[0], call->n_in, targets, call->places) != LAB_OK)
        lab_graph_fail(g, child->status, "%s", child->message);
    lab_graph_reset(child);
    return g->status;
}

/* With create_graph, f is recorded on g itself; lab_grad goes no further back than that. */
static lab_status checkpoint_vjp(lab_graph *g, lab_vjp_call *call)
{
    const checkpoint *c = call->attrs;
    size_t n = (size_t)call->n_in + 1;
    lab_tensor **xs = collect_xs(call, c);
    lab_tensor **wanted = lab__arena_take(&g->walk, n * sizeof *wanted);
    lab_tensor **grads = lab__arena_take(&g->walk, n * sizeof *grads);
    if (!xs || !wanted || !grads)
        return lab__out_of_memory(g, "a checkpoint");
    lab_tensor *y = run(g, g, c, xs);
    int count = 0;
    for (int i = 0; i < call->n_in; i++)
        if (call->wants[i])
            wanted[count++] = call->in[i];
    lab_status status = lab_grad(g, y, call->grad_out[0], count, wanted, grads, &(lab_grad_opts){.create_graph = true});
    count = 0;
    for (int i = 0; i < call->n_in && status == LAB_OK; i++)
        if (call->wants[i])
            call->grad_in[i] = grads[count++];
    return lab_graph_status(g);
}

static const lab_reads reads_operands = {.in = UINT64_MAX};

static const lab_op checkpoint_op = {
    .name = "checkpoint",
    .inputs = -1,
    .outputs = 1,
    .reads = &reads_operands,
    .n_reads = 1,
    .shape = checkpoint_shape,
    .forward = checkpoint_forward,
    .vjp = checkpoint_vjp,
    .backward = checkpoint_backward,
};

/* f once on the child, then one node on g whose operands are all that f read. */
static lab_tensor *record_checkpoint(lab_graph *g, checkpoint *c, size_t bytes, lab_tensor **xs)
{
    lab_graph *child = lab__child(g, MODE_INFERENCE);
    if (!child)
        return NULL;
    for (int i = 0; i < c->n; i++) {
        lab_tensor *proxy = lab__on_graph(child, xs[i], true);
        if (!proxy)
            return lab__refuse(g, NULL, child->status, "%s", child->message);
        int64_t place = 0;
        while (child->foreign_list[place] != proxy)
            place++;
        c->operand[i] = (int)place;
    }
    c->result = run(g, child, c, xs);
    if (!c->result)
        return NULL;
    int n_in = (int)child->n_foreign;
    lab_tensor **in = lab__arena_take(&g->results, (size_t)(n_in + 1) * sizeof *in);
    if (!in)
        return lab__refuse(g, "lab_checkpoint", LAB_ERR_MEMORY, "no memory for its operands");
    for (int i = 0; i < n_in; i++)
        in[i] = child->foreign_list[i]->origin;
    lab_tensor *y;
    lab__apply(g, &checkpoint_op, c, bytes, n_in, in, &y);
    lab_graph_reset(child);
    return y;
}

lab_tensor *lab_checkpoint(lab_graph *g, lab_fn f, int n, lab_tensor **xs, void *ctx)
{
    static const char *const name = "lab_checkpoint";
    if (!lab__healthy(g))
        return NULL;
    if (g->suspended)
        return lab__refuse(g, name, LAB_ERR_STATE, "%s", lab__suspended_text);
    if (!f || n < 0 || (n > 0 && !xs))
        return lab__refuse(g, name, LAB_ERR_ARGUMENT, !f ? "f is NULL" : n < 0 ? "n is negative" : "xs is NULL");
    for (int i = 0; i < n; i++) {
        if (!xs[i])
            return lab__refuse(g, name, LAB_ERR_ARGUMENT, "xs[%d] is NULL", i);
        if (!lab__readable(g, xs[i]))
            return lab__refuse(g, name, LAB_ERR_STATE, "xs[%d] was computed on another graph", i);
    }
    size_t bytes = sizeof(checkpoint) + (size_t)n * sizeof(int);
    checkpoint *c = lab__arena_take(&g->results, bytes);
    if (!c)
        return lab__refuse(g, name, LAB_ERR_MEMORY, "no memory for its operands");
    c->f = f;
    c->ctx = ctx;
    c->n = n;
    c->result = NULL;
    if (g->mode != MODE_RECORD)
        return run(g, g, c, xs);
    return record_checkpoint(g, c, bytes, xs);
}
