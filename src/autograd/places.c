/* places.c - where gradients lie while they are added up, so that nothing is copied just to be summed.
 *
 * The gradient of a view lies inside the gradient of what it is a view of:
 *
 *     x [T, 3, d] ----- slice q ---- uses of q write (or add) straight into dx[:, 0]
 *                 \---- slice k ----                                       dx[:, 1]
 *                  \--- reshape ---- all of dx
 *
 * A view that covers all of its base shares the base's state. Views that cover parts are tiles if they are disjoint
 * and nothing else adds to the base: each is written the first time, and what no tile covers is zeroed once.
 * Otherwise the base is zeroed as a whole, and every part adds.
 *
 * A tensor that a recorded derivative returned is taken over as it is; it may be shared or even have strides of 0, so
 * before anything is added to it, it is made exclusive.
 */
#include "walk.h"

#include <string.h>

enum { MAX_TILES = 64 };

bool lab__place_has(const slot *s)
{
    while (s->merged && s->whole)
        s = s->base;
    return s->filled;
}

void lab__place_filled(slot *s)
{
    while (s->merged && s->whole)
        s = s->base;
    s->filled = true;
}

/* A temporary that was just made leaves the list that is swept: its slot frees it. */
static lab_tensor *keep(lab_graph *g, lab_tensor *t)
{
    if (t)
        g->temporaries = t->next_temporary;
    return t;
}

static lab_tensor *own_place(walk *w, const slot *s)
{
    graph_mode mode = w->graph->mode;
    w->graph->mode = MODE_TEMPORARY;
    lab_tensor *t = lab__new_tensor(w->graph, s->tensor->dtype, s->tensor->rank, s->tensor->shape);
    w->graph->mode = mode;
    return keep(w->graph, t);
}

static lab_tensor *alias_place(walk *w, const lab_tensor *of)
{
    graph_mode mode = w->graph->mode;
    w->graph->mode = MODE_TEMPORARY;
    lab_tensor *t = lab__new_alias(w->graph, of);
    w->graph->mode = mode;
    return keep(w->graph, t);
}

/* The region of the base's place that the view takes, by the op's own rule. False if it is no view of such strides. */
static bool find_region(walk *w, slot *s)
{
    const node *n = s->tensor->node;
    lab_tensor *in = s->base->place;
    lab_spec spec = {.dtype = s->tensor->dtype, .rank = s->tensor->rank};
    memcpy(spec.shape, s->tensor->shape, sizeof spec.shape);
    lab_op_call call = {
        .graph = w->graph, .op = n->op, .attrs = n->attrs, .n_in = 1, .n_out = 1, .in = &in, .specs = &spec};
    lab_view view;
    if (!n->op->view(&call, &view) || !lab__view_fits(in, &spec, &view))
        return false;
    s->place = alias_place(w, in);
    if (!s->place)
        return false;
    lab__tensor_describe(s->place, spec.dtype, spec.rank, spec.shape, view.strides);
    if (s->place->numel > 0)
        s->place->data = in->data + view.offset * (int64_t)lab_dtype_size(spec.dtype);
    return true;
}

/* ---- Tiles ----------------------------------------------------------------------------------------------------------
 */

typedef struct tile {
    int64_t start, stop;
} tile;

/* The range of one axis that a part covers, if it differs from the base's place in nothing else. */
static bool tile_of(const lab_tensor *base, const lab_tensor *part, int *axis, tile *t)
{
    if (base->rank != part->rank)
        return false;
    int found = -1;
    for (int i = 0; i < base->rank; i++) {
        if (base->shape[i] != part->shape[i]) {
            if (found >= 0)
                return false;
            found = i;
        }
        if (part->shape[i] > 1 && base->strides[i] != part->strides[i])
            return false;
    }
    if (found < 0 || base->strides[found] <= 0)
        return false;
    int64_t offset = part->numel ? (part->data - base->data) / (int64_t)lab_dtype_size(base->dtype) : 0;
    *axis = found;
    t->start = offset / base->strides[found];
    t->stop = t->start + part->shape[found];
    return offset % base->strides[found] == 0 && t->stop <= base->shape[found];
}

/* Nobody but its parts may add to the base, on the way down to the gradient that really has memory. */
static bool exclusive_base(const slot *b)
{
    if (b->n_parts != b->uses)
        return false;
    while (b->merged && b->whole) {
        b = b->base;
        if (b->uses != 1)
            return false;
    }
    return true;
}

static void zero_range(const lab_tensor *base, int axis, int64_t start, int64_t stop)
{
    if (start >= stop)
        return;
    lab_tensor gap = *base;
    gap.data += start * base->strides[axis] * (int64_t)lab_dtype_size(base->dtype);
    gap.numel = base->shape[axis] ? base->numel / base->shape[axis] * (stop - start) : 0;
    gap.shape[axis] = stop - start;
    lab__tensor_fill(&gap, 0);
}

/* Sorts the parts of a base into tiles; zeroes what none covers. False if they are none. Parts have their regions. */
static bool lay_tiles(slot *b)
{
    tile tiles[MAX_TILES];
    int n = 0, axis = -1;
    if (b->n_parts > MAX_TILES || !exclusive_base(b))
        return false;
    for (slot *part = b->parts; part; part = part->next_part) {
        int own_axis = -1;
        tile t;
        if (!part->merged || !tile_of(b->place, part->place, &own_axis, &t) || (axis >= 0 && own_axis != axis))
            return false;
        axis = own_axis;
        int i = n++;
        for (; i > 0 && tiles[i - 1].start > t.start; i--)
            tiles[i] = tiles[i - 1];
        tiles[i] = t;
    }
    for (int i = 1; i < n; i++)
        if (tiles[i].start < tiles[i - 1].stop)
            return false;
    int64_t covered = 0;
    for (int i = 0; i < n; i++) {
        zero_range(b->place, axis, covered, tiles[i].start);
        covered = tiles[i].stop;
    }
    zero_range(b->place, axis, covered, b->place->shape[axis]);
    return true;
}

/* Before the first part of a base is opened: its memory, every part's region, and tiles or zeros. */
static bool prepare_base(walk *w, slot *b)
{
    bool add;
    if (b->prepared)
        return true;
    b->prepared = true;
    if (!lab__place_open(w, b, &add))
        return false;
    for (slot *part = b->parts; part; part = part->next_part) {
        if (find_region(w, part))
            part->merged = true;
        else if (w->graph->status != LAB_OK)
            return false;
        else
            part->base = NULL;
    }
    b->tiled = !add && lay_tiles(b);
    if (!b->tiled && !add)
        lab__tensor_fill(b->place, 0);
    if (!b->tiled)
        for (slot *part = b->parts; part; part = part->next_part)
            part->filled = part->merged;
    lab__place_filled(b);
    return true;
}

/* ---- Opening and closing
 * ---------------------------------------------------------------------------------------------- */

static bool injective(const lab_tensor *t)
{
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] > 1 && t->strides[i] == 0)
            return false;
    return !t->overlapping;
}

/* What was taken over from a recorded derivative may be shared: before it is written to or given parts, it is copied.
 */
static bool make_exclusive(walk *w, slot *s)
{
    lab_tensor *t = s->place;
    s->taken_over = false;
    if (t->storage->block && atomic_load_explicit(&t->storage->references, memory_order_relaxed) == 1 && injective(t))
        return true;
    lab_tensor *copy = own_place(w, s);
    if (!copy)
        return false;
    lab__tensor_copy(copy, t);
    lab__free_temporary(w->graph, t);
    s->place = copy;
    return true;
}

static bool find_place(walk *w, slot *s)
{
    if (s->base && !s->whole) {
        if (!prepare_base(w, s->base))
            return false;
    } else if (s->base) {
        bool add;
        if (!lab__place_open(w, s->base, &add))
            return false;
        if (find_region(w, s))
            s->merged = true;
        else if (w->graph->status != LAB_OK)
            return false;
        else
            s->base = NULL;
    }
    if (!s->place)
        s->place = own_place(w, s);
    return s->place != NULL;
}

bool lab__place_open(walk *w, slot *s, bool *add)
{
    if (!s->place && !find_place(w, s))
        return false;
    if (s->taken_over && !make_exclusive(w, s))
        return false;
    *add = lab__place_has(s);
    return true;
}

lab_status lab__check_gradient(lab_graph *g, const lab_tensor *t, const lab_tensor *gradient)
{
    if (!lab__readable(g, gradient))
        return lab_graph_fail(g, LAB_ERR_STATE, "its derivative (%s) was computed on another graph",
                              lab__tensor_text(gradient));
    if (gradient->dtype != t->dtype || !lab__same_shape(gradient, t))
        return lab_graph_fail(g, LAB_ERR_SHAPE, "its derivative is %s where %s was needed", lab__tensor_text(gradient),
                              lab__tensor_text(t));
    return LAB_OK;
}

lab_status lab__place_accumulate(walk *w, slot *s, lab_tensor *gradient)
{
    if (lab__check_gradient(w->graph, s->tensor, gradient) != LAB_OK)
        return w->graph->status;
    if (!s->place && !s->base && !s->n_parts) {
        s->place = alias_place(w, gradient);
        s->filled = s->taken_over = true;
        return s->place ? LAB_OK : w->graph->status;
    }
    bool add;
    if (!lab__place_open(w, s, &add))
        return w->graph->status;
    if (add)
        lab__tensor_accumulate(s->place, gradient);
    else
        lab__tensor_copy(s->place, gradient);
    lab__place_filled(s);
    return LAB_OK;
}

/* A tile that nobody wrote is zeroed while it still has its region: later, its slot would be given memory of its own.
 */
static bool finish_tile(walk *w, slot *s)
{
    bool add;
    if (!s->merged || s->whole || !s->base->tiled || lab__place_has(s))
        return true;
    if (!lab__place_open(w, s, &add))
        return false;
    lab__tensor_fill(s->place, 0);
    s->filled = true;
    return true;
}

bool lab__place_finish(walk *w, slot *s)
{
    if (!finish_tile(w, s))
        return false;
    if (s->parts && !s->prepared && lab__place_has(s))
        return true; /* filled by others, no part had anything to add */
    if (!s->tiled)
        return true;
    for (slot *part = s->parts; part; part = part->next_part) {
        bool add;
        if (part->filled)
            continue;
        if (!lab__place_open(w, part, &add))
            return false;
        lab__tensor_fill(part->place, 0);
        part->filled = true;
    }
    return true;
}

void lab__place_free(walk *w, slot *s)
{
    if (s->place && !s->given && !w->create_graph)
        lab__free_temporary(w->graph, s->place);
    if (!s->given)
        s->place = NULL;
}

bool lab__places_share(const slot *a, const slot *b)
{
    /* Every slot on a's way down to its memory, against every one on b's: the first they have in common decides. */
    const slot *below_a = NULL;
    for (const slot *x = a;; below_a = x, x = x->base) {
        const slot *below_b = NULL;
        for (const slot *y = b;; below_b = y, y = y->base) {
            if (x == y)
                return !(x->tiled && below_a && below_b && below_a != below_b);
            if (!y->merged)
                break;
        }
        if (!x->merged)
            break;
    }
    return false;
}
