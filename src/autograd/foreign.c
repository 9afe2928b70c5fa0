/* foreign.c - the table of tensors that a graph uses but did not compute, each behind a proxy of the graph's own.
 *
 * A leaf is kept alive by its entry until reset. A proxy carries what belongs to one graph (the gradient slot of a
 * running backward), so that two graphs in two threads never write into the tensor they share.
 */
#include "engine.h"

#include <string.h>

bool lab__readable(const lab_graph *g, const lab_tensor *t)
{
    if (!t->graph)
        return true;
    for (; g; g = g->parent)
        if (t->graph == g)
            return true;
    return false;
}

static size_t hash(const lab_tensor *t, size_t mask)
{
    return (size_t)(((uint64_t)(uintptr_t)t * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & mask;
}

static foreign *find(const lab_graph *g, const lab_tensor *origin)
{
    size_t mask = (size_t)g->foreign_capacity - 1;
    for (size_t i = hash(origin, mask);; i = (i + 1) & mask)
        if (!g->foreigns[i].origin || g->foreigns[i].origin == origin)
            return &g->foreigns[i];
}

void lab__foreign_insert(lab_graph *g, lab_tensor *proxy)
{
    *find(g, proxy->origin) = (foreign){proxy->origin, proxy};
    g->foreign_list[g->n_foreign++] = proxy;
}

/* The table is at most half full; the list beside it has half as many places. */
static bool grow(lab_graph *g)
{
    int64_t capacity = g->foreign_capacity ? g->foreign_capacity * 2 : 64;
    foreign *table = lab__allocate((size_t)capacity * sizeof *table);
    lab_tensor **list = lab__allocate((size_t)capacity / 2 * sizeof *list);
    if (!table || !list) {
        lab__release(table, (size_t)capacity * sizeof *table);
        lab__release(list, (size_t)capacity / 2 * sizeof *list);
        return false;
    }
    memset(table, 0, (size_t)capacity * sizeof *table);
    foreign *old_table = g->foreigns;
    lab_tensor **old_list = g->foreign_list;
    int64_t n = g->n_foreign, old_capacity = g->foreign_capacity;
    g->foreigns = table;
    g->foreign_list = list;
    g->foreign_capacity = capacity;
    g->n_foreign = 0;
    for (int64_t i = 0; i < n; i++)
        lab__foreign_insert(g, old_list[i]);
    lab__release(old_table, (size_t)old_capacity * sizeof *old_table);
    lab__release(old_list, (size_t)old_capacity / 2 * sizeof(lab_tensor *));
    return true;
}

static lab_tensor *make_proxy(lab_graph *g, lab_tensor *origin)
{
    if (2 * (g->n_foreign + 1) > g->foreign_capacity && !grow(g)) {
        lab__out_of_memory(g, "the table of tensors in use");
        return NULL;
    }
    lab_tensor *proxy = lab__arena_take(&g->results, sizeof *proxy);
    if (!proxy) {
        lab__out_of_memory(g, "a tensor");
        return NULL;
    }
    memset(proxy, 0, sizeof *proxy);
    proxy->kind = TENSOR_PROXY;
    lab__tensor_describe(proxy, origin->dtype, origin->rank, origin->shape, origin->strides);
    proxy->overlapping = origin->overlapping;
    proxy->data = origin->data;
    proxy->storage = origin->storage;
    proxy->graph = g;
    proxy->origin = origin;
    if (!origin->graph)
        lab__tensor_retain(origin);
    lab__foreign_insert(g, proxy);
    return proxy;
}

lab_tensor *lab__on_graph(lab_graph *g, lab_tensor *t, bool make)
{
    if (t->graph == g)
        return t;
    /* An ancestor's proxy stands for the tensor behind it. */
    while (t->kind == TENSOR_PROXY)
        t = t->origin;
    if (t->graph == g)
        return t;
    if (g->foreign_capacity) {
        foreign *entry = find(g, t);
        if (entry->origin)
            return entry->proxy;
    }
    return make ? make_proxy(g, t) : NULL;
}
