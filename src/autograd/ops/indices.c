/* indices.c - checks of indices. */
#include "indices.h"

/* The coordinates of element `place`, counted row-major, as text. */
static const char *place_text(const lab_tensor *t, int64_t place)
{
    int64_t coordinates[LAB_MAX_RANK];
    for (int i = t->rank - 1; i >= 0; i--) {
        coordinates[i] = place % t->shape[i];
        place /= t->shape[i];
    }
    return lab__shape_text(t->rank, coordinates);
}

lab_status lab__require_indices(lab_op_call *call, int operand, int64_t size)
{
    const lab_tensor *indices = call->in[operand];
    bool dense = lab__is_contiguous(indices);
    const int64_t *data = (const int64_t *)indices->data;
    for (int64_t place = 0; place < indices->numel; place++) {
        int64_t index = dense ? data[place] : lab__index_at(indices, place);
        if (index < 0 || index >= size)
            return lab_graph_fail(call->graph, LAB_ERR_RANGE,
                                  "index %lld at %s is out of range for a size of %lld (of %s)", (long long)index,
                                  place_text(indices, place), (long long)size, lab__tensor_text(call->in[0]));
    }
    return LAB_OK;
}

bool lab__equal_but(const lab_tensor *a, const lab_tensor *b, int axis)
{
    bool equal = a->rank == b->rank;
    for (int i = 0; equal && i < a->rank; i++)
        equal = i == axis || a->shape[i] == b->shape[i];
    return equal;
}
