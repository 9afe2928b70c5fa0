/* position.c - where a token stands: the sinusoidal table and rotations, as they are defined.
 *
 *     angle_pi = p base^(-2i / width)
 *     sinusoidal:  [sin angle_p0, cos angle_p0, sin angle_p1, ...]
 *     rope:        x cos + (x R) sin, where R turns every pair by a right angle: (a, b) R = (-b, a)
 *
 * R is one fixed matrix, so that a rotation is one matmul; the tables of cos and sin are constants.
 * The fused twin of rope is in rope_fused.c.
 */
#include "rope_impl.h"

#include <string.h>

/* p [..., 1] -> p base^(-2i / width) for i = 0 ... pairs - 1: [..., pairs]; in double, the power in log space. */
static lab_tensor *angles_of(lab_graph *g, lab_tensor *positions, int64_t pairs, double width, double base)
{
    lab_tensor *pair = lab_arange(g, LAB_F64, 0, (double)pairs, 1);
    lab_tensor *frequency = lab_exp(g, lab_mul_scalar(g, pair, width > 0 ? -2 * log(base) / width : 0));
    return lab_mul(g, lab_cast(g, positions, LAB_F64), frequency);
}

/* a and b [..., n] -> [..., 2n]: a0 b0 a1 b1 ... */
static lab_tensor *interleaved(lab_graph *g, lab_tensor *a, lab_tensor *b)
{
    int rank = lab_tensor_rank(a);
    int64_t pairs[LAB_MAX_RANK], flat[LAB_MAX_RANK];
    for (int i = 0; i < rank; i++)
        pairs[i] = flat[i] = lab_tensor_size(a, i);
    if (rank == 0 || rank == LAB_MAX_RANK)
        return NULL; /* the graph has failed; check_positions leaves an axis to spare */
    pairs[rank] = 1;
    flat[rank - 1] *= 2;
    lab_tensor *two[] = {lab_reshape(g, a, rank + 1, pairs), lab_reshape(g, b, rank + 1, pairs)};
    return lab_reshape(g, lab_concat(g, 2, two, rank), rank, flat);
}

/* ---- Sinusoidal ------------------------------------------------------------------------------------------------------ */

lab_tensor *lab_sinusoidal(lab_graph *g, lab_dtype dtype, int64_t length, int64_t width)
{
    if (!lab__healthy(g))
        return NULL;
    if (!lab__is_float(dtype))
        return lab__refuse(g, "sinusoidal", LAB_ERR_DTYPE, "dtype is %s, must be f32 or f64", lab_dtype_name(dtype));
    int64_t shape[] = {length, width};
    if (length < 0 || width < 0 || width == INT64_MAX)
        return lab__refuse(g, "sinusoidal", LAB_ERR_RANGE, "the size %s is out of range", lab__shape_text(2, shape));
    lab_tensor *angles = angles_of(g, lab__count_along(g, length, 2), (width + 1) / 2, (double)width, 10000);
    lab_tensor *table = interleaved(g, lab_sin(g, angles), lab_cos(g, angles));
    return lab_cast(g, lab_slice(g, table, -1, 0, width, 1), dtype);
}

/* ---- RoPE ------------------------------------------------------------------------------------------------------------ */

typedef struct rotation {
    lab_rope_layout layout;
    lab_dtype dtype;
    int64_t d, width;
} rotation;

static lab_status turn_shape(lab_op_call *call)
{
    const rotation *r = call->attrs;
    call->specs[0] = (lab_spec){.dtype = r->dtype, .rank = 2, .shape = {r->d, r->d}};
    return LAB_OK;
}

static void put(lab_tensor *matrix, int64_t row, int64_t column, double value)
{
    int64_t place = row * matrix->shape[1] + column;
    if (matrix->dtype == LAB_F32)
        ((float *)matrix->data)[place] = (float)value;
    else
        ((double *)matrix->data)[place] = value;
}

static lab_status turn_forward(lab_op_call *call)
{
    const rotation *r = call->attrs;
    lab_tensor *matrix = call->out[0];
    memset(matrix->data, 0, (size_t)matrix->numel * lab_dtype_size(matrix->dtype));
    for (int64_t i = 0; i < r->width / 2; i++) {
        int64_t first = r->layout == LAB_ROPE_HALVES ? i : 2 * i;
        int64_t second = r->layout == LAB_ROPE_HALVES ? i + r->width / 2 : 2 * i + 1;
        put(matrix, second, first, -1);
        put(matrix, first, second, 1);
    }
    return LAB_OK;
}

/* The matrix R [d, d]: a constant. */
static const lab_op right_angle = {
    .name = "rope",
    .outputs = 1,
    .flags = LAB_OP_NOT_DIFFERENTIABLE,
    .shape = turn_shape,
    .forward = turn_forward,
};

/* Numbers of pairs [..., r / 2] at both channels of each pair, and `rest` at those that don't turn: [..., d]. */
static lab_tensor *by_channel(lab_graph *g, const rotation *r, lab_tensor *pairs, double rest)
{
    lab_tensor *turning = r->layout == LAB_ROPE_HALVES ? lab_concat(g, 2, (lab_tensor *[]){pairs, pairs}, -1)
                                                       : interleaved(g, pairs, pairs);
    int rank = lab_tensor_rank(turning);
    if (r->width == r->d || rank == 0)
        return lab_cast(g, turning, r->dtype);
    int64_t shape[LAB_MAX_RANK];
    for (int i = 0; i < rank; i++)
        shape[i] = lab_tensor_size(turning, i);
    shape[rank - 1] = r->d - r->width;
    lab_tensor *still = lab_full(g, LAB_F64, rank, shape, rest);
    return lab_cast(g, lab_concat(g, 2, (lab_tensor *[]){turning, still}, -1), r->dtype);
}

/* Positions as a column beside the rows of x: [T, 1], or [..., 1]. */
static lab_tensor *positions_of(lab_graph *g, const lab_tensor *x, lab_tensor *given, int64_t offset)
{
    if (!given)
        return lab_add(g, lab__count_along(g, lab_tensor_size(x, -2), 2), lab__whole(g, offset));
    int rank = lab_tensor_rank(given);
    int64_t column[LAB_MAX_RANK];
    for (int i = 0; i < rank; i++)
        column[i] = lab_tensor_size(given, i);
    column[rank] = 1;
    return lab_reshape(g, given, rank + 1, column);
}

static lab_status check_positions(const lab_tensor *x, const lab_rope_opts *opts)
{
    const lab_tensor *p = opts->positions;
    int64_t rows = lab_tensor_size(x, -2);
    if (!p && (opts->offset > INT64_MAX - rows))
        return lab__fail(LAB_ERR_RANGE, "offset %lld: positions would overflow", (long long)opts->offset);
    if (!p)
        return LAB_OK;
    if (opts->offset != 0)
        return lab__fail(LAB_ERR_ARGUMENT, "both offset (%lld) and positions are given", (long long)opts->offset);
    if (p->dtype != LAB_I64)
        return lab__fail(LAB_ERR_DTYPE, "positions is %s, must be i64", lab_dtype_name(p->dtype));
    if (p->rank > LAB_MAX_RANK - 2)
        return lab__fail(LAB_ERR_UNSUPPORTED, "positions with %d axes, at most %d", p->rank, LAB_MAX_RANK - 2);
    bool fits = p->rank < x->rank;
    for (int i = 0; fits && i < p->rank; i++)
        fits = p->shape[i] == 1 || p->shape[i] == x->shape[x->rank - 1 - p->rank + i];
    if (!fits)
        return lab__fail(LAB_ERR_SHAPE, "positions %s does not broadcast to the rows %s of x",
                         lab__shape_text(p->rank, p->shape), lab__shape_text(x->rank - 1, x->shape));
    return LAB_OK;
}

lab_status lab__rope_check(const lab_tensor *x, const lab_rope_opts *opts, rope_turn *turn)
{
    static const lab_rope_opts defaults = {0};
    opts = opts ? opts : &defaults;
    if (!x)
        return lab__fail(LAB_ERR_ARGUMENT, "operand 1 (x) is NULL");
    if (!lab__all_zero(opts->reserved))
        return lab__fail(LAB_ERR_ARGUMENT, "the options' reserved words are not zero");
    if (!lab__is_float(x->dtype))
        return lab__fail(LAB_ERR_DTYPE, "x is %s, must be f32 or f64", lab_dtype_name(x->dtype));
    if (x->rank < 2)
        return lab__fail(LAB_ERR_SHAPE, "x %s must be [..., T, d]", lab__shape_text(x->rank, x->shape));
    if ((unsigned)opts->layout > LAB_ROPE_HALVES)
        return lab__fail(LAB_ERR_ARGUMENT, "layout is %d, must be a lab_rope_layout", (int)opts->layout);
    int64_t d = x->shape[x->rank - 1], width = opts->width ? opts->width : d;
    if (width < 0 || width > d || width % 2)
        return lab__fail(LAB_ERR_RANGE, "the rotary width is %lld, must be even and 0 to the last size of x %s",
                         (long long)width, lab__shape_text(x->rank, x->shape));
    if (!(opts->base >= 0) || isinf(opts->base))
        return lab__fail(LAB_ERR_RANGE, "base is %g, must be positive and finite, or 0 for 10000", opts->base);
    *turn = (rope_turn){
        .layout = opts->layout, .width = width, .base = opts->base > 0 ? opts->base : 10000, .offset = opts->offset};
    return check_positions(x, opts);
}

lab_tensor *lab_rope_composed(lab_graph *g, lab_tensor *x, const lab_rope_opts *opts)
{
    if (!lab__healthy(g))
        return NULL;
    rope_turn t;
    lab_status status = lab__rope_check(x, opts, &t);
    if (status != LAB_OK)
        return lab__refuse_as_said(g, "rope", status);
    rotation r = {.layout = t.layout, .dtype = x->dtype, .d = lab_tensor_size(x, -1), .width = t.width};

    lab_tensor *positions = positions_of(g, x, opts ? opts->positions : NULL, t.offset);
    lab_tensor *angles = angles_of(g, positions, r.width / 2, (double)r.width, t.base);
    lab_tensor *cosines = by_channel(g, &r, lab_cos(g, angles), 1), *sines = by_channel(g, &r, lab_sin(g, angles), 0);
    lab_tensor *turn;
    lab_custom_op(g, &right_angle, &r, sizeof r, 0, NULL, 1, &turn);
    return lab_add(g, lab_mul(g, x, cosines), lab_mul(g, lab_matmul(g, x, turn), sines));
}
