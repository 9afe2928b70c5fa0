/* apply.c - one op applied: operands checked, shapes ruled, results made, the node recorded. */
#include "engine.h"

#include <string.h>

enum { FEW_OPERANDS = 8, MAX_OUTPUTS = 8, NODES_AT_FIRST = 256 };

/* What one application works on, wherever its arrays lie (on the stack, or behind the node in the arena). */
typedef struct application {
    lab_op_call call;
    node *node;
    lab_tensor **in, **out;
    lab_spec specs[MAX_OUTPUTS];
    lab_tensor *few_in[FEW_OPERANDS], *few_out[MAX_OUTPUTS];
} application;

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Room for the operands, and on a recording graph for the whole node: header, operands, results, versions, attrs. */
static bool make_room(lab_graph *g, application *a, const lab_op *op, const void *attrs, size_t attrs_bytes, int n_in)
{
    a->in = a->few_in;
    a->out = a->few_out;
    a->node = NULL;
    a->call.attrs = attrs;
    size_t pointers = ((size_t)n_in + (size_t)op->outputs) * sizeof(lab_tensor *);
    if (g->mode == MODE_RECORD) {
        size_t versions = ((size_t)n_in + (size_t)op->outputs) * sizeof(uint64_t);
        size_t head = round_up(sizeof(node) + pointers + versions, 16);
        node *n = lab__arena_take(&g->results, head + attrs_bytes);
        if (!n)
            return false;
        a->node = n;
        a->in = n->in = (lab_tensor **)(n + 1);
        a->out = n->out = n->in + n_in;
        n->versions = (uint64_t *)(n->out + op->outputs);
        n->op = op;
        n->n_in = n_in;
        n->n_out = op->outputs;
        n->reached = 0;
        n->is_view = false;
        n->attrs = NULL;
        if (attrs_bytes) {
            memcpy((char *)n + head, attrs, attrs_bytes);
            n->attrs = (char *)n + head;
        }
        a->call.attrs = n->attrs;
    } else if (n_in > FEW_OPERANDS) {
        a->in = lab__arena_take(&g->results, (size_t)n_in * sizeof(lab_tensor *));
        if (!a->in)
            return false;
    }
    return true;
}

static lab_status take_operands(lab_graph *g, application *a, const lab_op *op, int n_in, lab_tensor *const *in)
{
    for (int i = 0; i < n_in; i++) {
        lab_tensor *t = in[i];
        if (__builtin_expect(!t, 0)) {
            if (i >= 64 || !(op->optional >> i & 1))
                return lab_graph_fail(g, LAB_ERR_ARGUMENT, "operand %d is NULL", i + 1);
            a->in[i] = NULL;
            continue;
        }
        if (t->graph != g) {
            if (!lab__readable(g, t))
                return lab_graph_fail(g, LAB_ERR_STATE, "operand %d (%s) was computed on another graph", i + 1,
                                      lab__tensor_text(t));
            t = lab__on_graph(g, t, true);
            if (!t)
                return g->status;
        }
        a->in[i] = t;
    }
    return LAB_OK;
}

static lab_status check_specs(lab_graph *g, const application *a, const lab_op *op)
{
    for (int i = 0; i < op->outputs; i++) {
        const lab_spec *spec = &a->specs[i];
        int64_t numel;
        size_t bytes;
        if (spec->rank < 0 || spec->rank > LAB_MAX_RANK || lab_dtype_size(spec->dtype) == 0)
            return lab_graph_fail(g, LAB_ERR_RANGE, "result %d would have rank %d, must be 0 to %d", i + 1, spec->rank,
                                  LAB_MAX_RANK);
        if (!lab__shape_bytes(spec->dtype, spec->rank, spec->shape, &numel, &bytes))
            return lab_graph_fail(g, LAB_ERR_RANGE, "the size in bytes of result %d, %s %s, overflows", i + 1,
                                  lab_dtype_name(spec->dtype), lab__shape_text(spec->rank, spec->shape));
    }
    return LAB_OK;
}

/* An op may answer with a code and no words. */
static lab_status settle(lab_graph *g, lab_status status)
{
    if (status != LAB_OK)
        lab_graph_fail(g, status, "failed with %s", lab_status_name(status));
    return g->status;
}

bool lab__view_fits(const lab_tensor *base, const lab_spec *spec, const lab_view *view)
{
    int64_t element = (int64_t)lab_dtype_size(spec->dtype), first, step;
    if (spec->dtype != base->dtype)
        return false;
    for (int i = 0; i < spec->rank; i++)
        if (spec->shape[i] == 0)
            return true;
    if (base->numel == 0 ||
        __builtin_add_overflow((base->data - base->storage->data) / element, view->offset, &first) || first < 0)
        return false;
    int64_t last = first;
    for (int i = 0; i < spec->rank; i++)
        if (view->strides[i] < 0 || __builtin_mul_overflow(spec->shape[i] - 1, view->strides[i], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    return last < (int64_t)base->storage->bytes / element;
}

static lab_status make_view(lab_graph *g, application *a, const lab_view *view)
{
    const lab_spec *spec = &a->specs[0];
    lab_tensor *base = a->in[0];
    if (!lab__view_fits(base, spec, view))
        return lab_graph_fail(g, LAB_ERR_RANGE, "its view %s %s leaves the memory of the operand (%s)",
                              lab_dtype_name(spec->dtype), lab__shape_text(spec->rank, spec->shape),
                              lab__tensor_text(base));
    lab_tensor *t = lab__new_alias(g, base);
    if (!t)
        return g->status;
    lab__tensor_describe(t, spec->dtype, spec->rank, spec->shape, view->strides);
    t->overlapping = base->overlapping || (a->call.op->flags & LAB_OP_VIEW_OVERLAPS);
    if (t->numel > 0)
        t->data = base->data + view->offset * (int64_t)lab_dtype_size(spec->dtype);
    a->out[0] = t;
    if (a->node)
        a->node->is_view = true;
    return LAB_OK;
}

static lab_status compute(lab_graph *g, application *a, const lab_op *op)
{
    for (int i = 0; i < op->outputs; i++) {
        a->out[i] = lab__new_tensor(g, a->specs[i].dtype, a->specs[i].rank, a->specs[i].shape);
        if (!a->out[i])
            return g->status;
    }
    a->call.out = a->out;
    size_t bytes = op->scratch ? op->scratch(&a->call) : 0;
    if (bytes) {
        a->call.scratch = lab__block_take(&g->blocks, bytes);
        if (!a->call.scratch)
            return lab_graph_fail(g, LAB_ERR_MEMORY, "no memory for %zu bytes of scratch", bytes);
    }
    lab_status status = settle(g, op->forward ? op->forward(&a->call) : LAB_ERR_UNSUPPORTED);
    if (bytes)
        lab__block_give(&g->blocks, a->call.scratch);
    return status;
}

static bool append_node(lab_graph *g, node *n)
{
    if (g->n_nodes == g->nodes_capacity) {
        int64_t capacity = g->nodes_capacity ? 2 * g->nodes_capacity : NODES_AT_FIRST;
        node **nodes = lab__allocate((size_t)capacity * sizeof(node *));
        if (!nodes)
            return false;
        if (g->n_nodes)
            memcpy(nodes, g->nodes, (size_t)g->n_nodes * sizeof(node *));
        lab__release(g->nodes, (size_t)g->nodes_capacity * sizeof(node *));
        g->nodes = nodes;
        g->nodes_capacity = capacity;
    }
    n->index = g->n_nodes;
    g->nodes[g->n_nodes++] = n;
    return true;
}

static lab_status record(lab_graph *g, node *n)
{
    if (!append_node(g, n))
        return lab__out_of_memory(g, "the tape");
    for (int i = 0; i < n->n_in; i++)
        n->versions[i] = n->in[i] ? atomic_load_explicit(&n->in[i]->storage->version, memory_order_relaxed) : 0;
    for (int i = 0; i < n->n_out; i++) {
        n->versions[n->n_in + i] = atomic_load_explicit(&n->out[i]->storage->version, memory_order_relaxed);
        n->out[i]->node = n;
    }
    return LAB_OK;
}

static lab_status apply(lab_graph *g, application *a, const lab_op *op, const void *attrs, size_t attrs_bytes, int n_in,
                        lab_tensor *const *in)
{
    if (!make_room(g, a, op, attrs, attrs_bytes, n_in))
        return lab__out_of_memory(g, "the tape");
    lab_status status = take_operands(g, a, op, n_in, in);
    if (status != LAB_OK)
        return status;
    a->call.graph = g;
    a->call.op = op;
    a->call.n_in = n_in;
    a->call.n_out = op->outputs;
    a->call.in = a->in;
    a->call.specs = a->specs;
    a->call.out = NULL;
    a->call.scratch = NULL;
    status = settle(g, op->shape ? op->shape(&a->call) : LAB_ERR_UNSUPPORTED);
    if (status == LAB_OK)
        status = check_specs(g, a, op);
    if (status != LAB_OK)
        return status;
    lab_view view;
    status = op->view && op->view(&a->call, &view) ? make_view(g, a, &view) : compute(g, a, op);
    if (status != LAB_OK)
        return status;
    if (op->flops)
        g->flops += op->flops(&a->call);
    return a->node ? record(g, a->node) : LAB_OK;
}

lab_status lab__apply(lab_graph *g, const lab_op *op, const void *attrs, size_t attrs_bytes, int n_in,
                      lab_tensor *const *in, lab_tensor **out)
{
    int visible = op->outputs - op->hidden;
    for (int i = 0; i < visible; i++)
        out[i] = NULL;
    if (!lab__healthy(g))
        return lab_graph_status(g);
    if (__builtin_expect(g->suspended, 0)) {
        lab__refuse(g, op->name, LAB_ERR_STATE, "%s", lab__suspended_text);
        return g->status;
    }
    application a;
    const lab_op *outer = g->running;
    g->running = op;
    lab_status status = apply(g, &a, op, attrs, attrs_bytes, n_in, in);
    g->running = outer;
    if (status == LAB_OK)
        for (int i = 0; i < visible; i++)
            out[i] = a.out[i];
    return status;
}

lab_tensor *lab__apply0(lab_graph *g, const lab_op *op, const void *attrs, size_t attrs_bytes)
{
    lab_tensor *y;
    lab__apply(g, op, attrs, attrs_bytes, 0, NULL, &y);
    return y;
}

lab_tensor *lab__apply1(lab_graph *g, const lab_op *op, const void *attrs, size_t attrs_bytes, lab_tensor *a)
{
    lab_tensor *y;
    lab__apply(g, op, attrs, attrs_bytes, 1, &a, &y);
    return y;
}

lab_tensor *lab__apply2(lab_graph *g, const lab_op *op, const void *attrs, size_t attrs_bytes, lab_tensor *a,
                        lab_tensor *b)
{
    lab_tensor *y;
    lab__apply(g, op, attrs, attrs_bytes, 2, (lab_tensor *const[]){a, b}, &y);
    return y;
}

lab_tensor *lab__apply3(lab_graph *g, const lab_op *op, const void *attrs, size_t attrs_bytes, lab_tensor *a,
                        lab_tensor *b, lab_tensor *c)
{
    lab_tensor *y;
    lab__apply(g, op, attrs, attrs_bytes, 3, (lab_tensor *const[]){a, b, c}, &y);
    return y;
}

/* ---- Ops from outside ----------------------------------------------------------------------------------------------
 */

static lab_status check_descriptor(lab_graph *g, const lab_op *op, const void *attrs, size_t attrs_bytes, int n_in,
                                   lab_tensor **inputs, int n_out, lab_tensor **outputs)
{
    if (!op || !op->name || !op->shape || (!op->forward && !op->view))
        return lab_graph_fail(g, LAB_ERR_ARGUMENT, "the descriptor lacks a name, a shape rule or a forward function");
    if (op->outputs < 1 || op->outputs > MAX_OUTPUTS || op->hidden < 0 || op->hidden >= op->outputs)
        return lab_graph_fail(g, LAB_ERR_ARGUMENT, "%s: %d results, %d of them hidden; must be 1 to %d, one visible",
                              op->name, op->outputs, op->hidden, MAX_OUTPUTS);
    if (op->view && (op->outputs != 1 || op->inputs == 0 || op->optional & 1))
        return lab_graph_fail(g, LAB_ERR_ARGUMENT, "%s: a view has one result, and an operand that is always there",
                              op->name);
    if (op->reads && op->n_reads < 1)
        return lab_graph_fail(g, LAB_ERR_ARGUMENT, "%s: reads is given, but n_reads is %d", op->name, op->n_reads);
    for (int i = 0; i < 8; i++)
        if (op->reserved[i])
            return lab_graph_fail(g, LAB_ERR_ARGUMENT, "%s: the descriptor's reserved words are not zero", op->name);
    if (op->view && n_in == 0)
        return lab_graph_fail(g, LAB_ERR_ARGUMENT, "%s: a view of no operand", op->name);
    if (n_in < 0 || (op->inputs >= 0 && n_in != op->inputs))
        return lab_graph_fail(g, LAB_ERR_ARGUMENT, "%s: %d operands given, takes %d", op->name, n_in, op->inputs);
    if (n_out != op->outputs - op->hidden)
        return lab_graph_fail(g, LAB_ERR_ARGUMENT, "%s: %d results asked for, gives %d", op->name, n_out,
                              op->outputs - op->hidden);
    if ((n_in > 0 && !inputs) || !outputs || (attrs_bytes > 0 && !attrs))
        return lab_graph_fail(g, LAB_ERR_ARGUMENT, "%s: %s is NULL", op->name,
                              !outputs                    ? "outputs"
                              : attrs_bytes > 0 && !attrs ? "attrs"
                                                          : "inputs");
    return LAB_OK;
}

lab_status lab_custom_op(lab_graph *g, const lab_op *op, const void *attrs, size_t attrs_bytes, int n_in,
                         lab_tensor **inputs, int n_out, lab_tensor **outputs)
{
    for (int i = 0; outputs && i < n_out; i++)
        outputs[i] = NULL;
    if (!lab__healthy(g))
        return lab_graph_status(g);
    const lab_op *outer = g->running;
    g->running = NULL;
    lab_status status = check_descriptor(g, op, attrs, attrs_bytes, n_in, inputs, n_out, outputs);
    g->running = outer;
    return status == LAB_OK ? lab__apply(g, op, attrs, attrs_bytes, n_in, inputs, outputs) : status;
}
