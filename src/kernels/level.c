/* level.c - one level's kernels for one type: the templates, in their order, and the table that is made of them.
 *
 * Included by level_f32.c and level_f64.c, which name the type, and compiled once per level with that level's flags and
 * LEVEL, LEVEL_HEADER (meson.build). All but the table is static: no code of a higher level can come to stand for a
 * shared function of a lower one.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "coefficients.h"
#include "level.h"

#include LEVEL_HEADER

/* An argument that is a function is inlined along with the function that it is given to. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

#define vec   FN(vec)
#define mask  FN(mask)
#define bits  FN(bits)
#define LANES FN(LANES)

/* Columns that are summed, or brought into a buffer, at once; doubles in a vector; columns of one step of a sum. */
enum { BLOCK = 1024, WIDE = LANES_f64, GROUP = 4 * WIDE };

typedef real FN(vec_any) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));
typedef int8_t FN(bytes) __attribute__((vector_size(LANES)));

#include "vector_tmpl.c"

#include "map_tmpl.c"

#include "exp_tmpl.c"

#include "erf_tmpl.c"

#include "elementwise_tmpl.c"

#include "reduce_tmpl.c"

#include "softmax_tmpl.c"

#include "tile_tmpl.c"

#include "panel_tmpl.c"

#include "matvec_tmpl.c"

#include "query_tmpl.c"

#include "norm_tmpl.c"

#include "gelu_tmpl.c"

#include "loss_tmpl.c"

#include "rope_tmpl.c"

#include "step_tmpl.c"

#include "peak_tmpl.c"

#define PART_OF(level, type) lab__kernel_##level##_##type
#define PART(level, type)    PART_OF(level, type)

const kernel_part PART(LEVEL, TYPE) = {
    .unary =
        {
            [KERNEL_COPY] = FN(copy_row),
            [KERNEL_NEG] = FN(neg_row),
            [KERNEL_ADD_SCALAR] = FN(add_scalar_row),
            [KERNEL_MUL_SCALAR] = FN(mul_scalar_row),
            [KERNEL_EXP] = FN(exp_row),
            [KERNEL_SQRT] = FN(sqrt_row),
            [KERNEL_RSQRT] = FN(rsqrt_row),
            [KERNEL_TANH] = FN(tanh_row),
            [KERNEL_SIGMOID] = FN(sigmoid_row),
            [KERNEL_ERF] = FN(erf_row),
            [KERNEL_RELU] = FN(relu_row),
            [KERNEL_GELU_ERF] = FN(gelu_erf_row),
            [KERNEL_GELU_TANH] = FN(gelu_tanh_row),
            [KERNEL_SILU] = FN(silu_row),
            [KERNEL_ABS] = FN(abs_row),
        },
    .binary =
        {
            [KERNEL_ADD] = FN(add_row),
            [KERNEL_SUB] = FN(sub_row),
            [KERNEL_MUL] = FN(mul_row),
            [KERNEL_DIV] = FN(div_row),
            [KERNEL_MAXIMUM] = FN(maximum_row),
            [KERNEL_MINIMUM] = FN(minimum_row),
        },
    .compare =
        {
            [KERNEL_EQUAL] = FN(equal_row),
            [KERNEL_LESS] = FN(less_row),
            [KERNEL_LESS_EQUAL] = FN(less_equal_row),
        },
    .row =
        {
            .sum = FN(sum),
            .dot = FN(dot),
            .maximum = FN(maximum_of_row),
            .softmax = FN(softmax),
            .log_softmax = FN(log_softmax),
            .logsumexp = FN(logsumexp),
            .softmax_backward = FN(softmax_backward),
            .log_softmax_backward = FN(log_softmax_backward),
        },
    .tile = FN(tile),
    .matvec = FN(matvec),
    .panel =
        {
            .width = PANEL,
#ifdef LEVEL_ROUNDS_TWICE
            .rounds_twice = true,
#endif
            .columns = SCORE_COLUMNS,
            .pack = FN(panel_pack),
            .unpack = FN(panel_unpack),
            .scores = FN(panel_scores),
            .maximum = FN(panel_maximum),
            .exponentials = FN(panel_exponentials),
            .multiply = FN(panel_multiply),
            .distances = FN(panel_distances),
            .forbid = FN(panel_forbid),
            .slopes = FN(panel_slopes),
            .totals = FN(panel_totals),
            .finite = FN(panel_finite),
            .allowed = FN(panel_allowed),
            .add_by_query = FN(panel_add_by_query),
            .add_by_key = FN(panel_add_by_key),
        },
    .step =
        {
            [KERNEL_PLAIN] = FN(step_plain),
            [KERNEL_MOMENTUM] = FN(step_momentum),
            [KERNEL_NESTEROV] = FN(step_nesterov),
            [KERNEL_SIGN] = FN(step_sign),
            [KERNEL_SIGN_MOMENTUM] = FN(step_sign_momentum),
            [KERNEL_RMSPROP] = FN(step_rmsprop),
            [KERNEL_RMSPROP_MOMENTUM] = FN(step_rmsprop_momentum),
            [KERNEL_ADAM] = FN(step_adam),
            [KERNEL_LION] = FN(step_lion),
        },
    .query = {.scores = FN(query_scores), .softmax = FN(query_softmax), .values = FN(query_values)},
    .gelu = {{FN(gelu_erf_forward), FN(gelu_erf_backward)}, {FN(gelu_tanh_forward), FN(gelu_tanh_backward)}},
    .loss = {.forward = FN(loss_forward), .backward = FN(loss_backward)},
    .rope = FN(rope),
    .norm = {.forward = FN(norm_forward), .backward = FN(norm_backward)},
    .fma_peak = FN(fma_peak),
};
