/* axes.h - what ops along an axis share: the check, and headers that show a tensor in another shape.
 *
 * The headers are the caller's own, on its stack, over memory that is there: nothing is copied.
 */
#ifndef LAB_AUTOGRAD_OPS_AXES_H
#define LAB_AUTOGRAD_OPS_AXES_H

#include "op_impl.h"

/* The attributes of ops that know nothing but an axis, as the caller counted it. */
typedef struct axis_attrs {
    int axis;
    bool keep;
} axis_attrs;

/* The axis of these attributes, counted from the front of t. */
static inline int lab__axis_of(const void *attrs, const lab_tensor *t)
{
    return lab__axis(t->rank, ((const axis_attrs *)attrs)->axis);
}

/* The attributes of ops that know a shape. */
typedef struct shape_attrs {
    int rank;
    int64_t shape[LAB_MAX_RANK];
} shape_attrs;

/* Copies a shape of the caller's, sizes of `least` and more, into attributes; false (and g has failed) if it is none.
 */
bool lab__take_shape(lab_graph *g, const char *name, shape_attrs *attrs, int rank, const int64_t *shape, int64_t least);

/* Fails with LAB_ERR_RANGE unless operand 0 has the axis. */
lab_status lab__require_axis(lab_op_call *call, int axis);

/* Spec 0 is operand 0 without the axes of a set (bit i: axis i), or with size 1 there. */
void lab__shape_without(lab_op_call *call, unsigned axes, bool keep);

/* Every step-th of `count` places of an axis, from `start` on. */
void lab__part(lab_tensor *part, const lab_tensor *whole, int axis, int64_t start, int64_t count, int64_t step);

/* y, which came from reducing the axes of x, stretched to x's shape again by strides of 0. */
void lab__stretched(lab_tensor *header, const lab_tensor *y, const lab_tensor *x, unsigned axes);

/* Recorded: y with the reduced axes in it again, of size 1. Returns y itself if they are. */
lab_tensor *lab__with_axes(lab_graph *g, lab_tensor *y, const lab_tensor *x, unsigned axes);

/* place (+)= x, of the place's shape and dtype. */
static inline void lab__place_put(const lab_place *place, const lab_tensor *x)
{
    if (place->add)
        lab__tensor_accumulate(place->tensor, x);
    else
        lab__tensor_copy(place->tensor, x);
}

#endif
