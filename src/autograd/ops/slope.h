/* slope.h - the derivative of an elementwise function, said once for both forms.
 *
 * A slope is written like its formula:
 *
 *     static slope_value tanh_slope(slope *s, slope_value y)       1 - y^2
 *     {
 *         return lab__slope_shift(s, lab__slope_scale(s, lab__slope_mul(s, y, y), -1), 1);
 *     }
 *
 * Recorded, a value is a tensor and each step an op on the graph. Into a destination, a value is a short row on the
 * stack and each step a kernel, so that nothing but dy and x or y is read from memory.
 */
#ifndef LAB_AUTOGRAD_OPS_SLOPE_H
#define LAB_AUTOGRAD_OPS_SLOPE_H

#include "op_impl.h"

typedef struct slope slope;

typedef struct slope_value {
    lab_tensor *tensor;
    const void *row;
} slope_value;

typedef slope_value (*slope_fn)(slope *s, slope_value v);

slope_value lab__slope_mul(slope *s, slope_value a, slope_value b);
slope_value lab__slope_add(slope *s, slope_value a, slope_value b);
slope_value lab__slope_scale(slope *s, slope_value a, double factor);
slope_value lab__slope_shift(slope *s, slope_value a, double term);
/* One of EXP, TANH, SIGMOID, ERF, SIN, COS. */
slope_value lab__slope_apply(slope *s, kernel_unary function, slope_value a);
/* Between -bound and bound, NaN kept: where a slope is flat far out, and infinity would make it inf * 0. */
slope_value lab__slope_clamp(slope *s, slope_value a, double bound);

/* grad_in[0] = dy * slope(v), recorded. */
lab_status lab__slope_vjp(lab_graph *g, lab_vjp_call *call, slope_fn fn, lab_tensor *v);
/* places[0] (+)= dy * slope(v). `cost` as in lab__loop_run. */
lab_status lab__slope_backward(lab_vjp_call *call, slope_fn fn, const lab_tensor *v, int cost);

#endif
