/* reduce.c - sum and mean over axes, or over everything.    dx = dy stretched back (over the number, for mean).
 *
 * What is added up for one result is cut into blocks of fixed sizes: each block is summed in double, then the blocks
 * in order. So a result's bits depend on what it sums and on nothing else, whether blocks run beside one another (few
 * results, much to sum) or results do.
 */
#include "axes.h"

enum {
    SHORT_ROW = 64,   /* not worth a kernel's call */
    PANEL = 256,      /* columns that are summed side by side */
    ROW_PIECE = 4096, /* of a long row that is summed at once */
    BLOCK_ROWS = 256,
    BLOCK_ELEMENTS = 16384,
    ENOUGH_UNITS = 32 /* from here on results alone keep the threads busy */
};

typedef struct reduce_attrs {
    int n_axes;
    int axes[LAB_MAX_RANK];
    bool keep;
} reduce_attrs;

/* The axes as bits; without attributes all of them. */
static unsigned reduced_axes(const reduce_attrs *attrs, int rank)
{
    if (!attrs)
        return (1u << rank) - 1;
    unsigned axes = 0;
    for (int i = 0; i < attrs->n_axes; i++)
        axes |= 1u << lab__axis(rank, attrs->axes[i]);
    return axes;
}

static lab_status reduce_shape(lab_op_call *call)
{
    const reduce_attrs *attrs = call->attrs;
    int rank = call->in[0]->rank;
    for (int i = 0; attrs && i < attrs->n_axes; i++) {
        lab_status status = lab__require_axis(call, attrs->axes[i]);
        if (status != LAB_OK)
            return status;
        for (int j = 0; j < i; j++)
            if (lab__axis(rank, attrs->axes[j]) == lab__axis(rank, attrs->axes[i]))
                return lab_graph_fail(call->graph, LAB_ERR_ARGUMENT, "axis %d is given twice", attrs->axes[i]);
    }
    lab__shape_without(call, reduced_axes(attrs, rank), attrs && attrs->keep);
    return LAB_OK;
}

static lab_status sum_shape(lab_op_call *call)
{
    lab_status status = lab__require_dtype(call, 0, ALLOW_FLOAT | ALLOW_I64);
    return status == LAB_OK ? reduce_shape(call) : status;
}

static lab_status mean_shape(lab_op_call *call)
{
    lab_status status = lab__require_dtype(call, 0, ALLOW_FLOAT);
    return status == LAB_OK ? reduce_shape(call) : status;
}

/* ---- The plan: who sums what --------------------------------------------------------------------------------------- */

typedef struct plan_axes {
    int rank;
    int64_t shape[LAB_MAX_RANK], x[LAB_MAX_RANK], y[LAB_MAX_RANK]; /* strides in elements */
} plan_axes;

typedef struct plan {
    lab_dtype dtype;
    const char *x;
    char *y;
    double *partials;
    double divisor;
    plan_axes kept, summed;           /* without the inner axis */
    bool columns;                     /* the inner axis is kept: panels of it are summed side by side */
    int64_t inner, inner_x, inner_y;  /* the axis that goes by columns, or makes the rows */
    int64_t panels, pieces, width;    /* of the inner axis: when kept, when summed; of a whole panel */
    int64_t rows, block_rows, blocks; /* rows (or pieces of them) that one unit sums */
    int64_t units, group;             /* units: results, or panels of them */
} plan;

/* Appends an axis, to the last one if it continues that. */
static void append_axis(plan_axes *axes, bool apart, int64_t size, int64_t x, int64_t y)
{
    int last = axes->rank - 1;
    if (!apart && last >= 0 && axes->x[last] == size * x) {
        axes->shape[last] *= size;
        axes->x[last] = x;
        axes->y[last] = y;
        return;
    }
    axes->shape[axes->rank] = size;
    axes->x[axes->rank] = x;
    axes->y[axes->rank++] = y;
}

/* The axis of a list on which x lies densest, or -1. */
static int densest(const plan_axes *axes)
{
    int best = -1;
    for (int i = axes->rank - 1; i >= 0; i--)
        if (axes->x[i] > 0 && (best < 0 || axes->x[i] < axes->x[best]))
            best = i;
    return best < 0 ? axes->rank - 1 : best;
}

/* Takes the inner axis out of its list: the densest; but short rows are summed side by side, also one of them alone,
 * which has its bits then. */
static void choose_inner(plan *p)
{
    int kept = densest(&p->kept), summed = densest(&p->summed);
    p->columns =
        summed < 0 || p->summed.shape[summed] < SHORT_ROW || (kept >= 0 && p->kept.x[kept] < p->summed.x[summed]);
    plan_axes *from = p->columns ? &p->kept : &p->summed;
    int at = p->columns ? kept : summed;
    p->inner = at >= 0 ? from->shape[at] : 1;
    p->inner_x = at >= 0 ? from->x[at] : 1;
    p->inner_y = at >= 0 ? from->y[at] : 0;
    if (at < 0)
        return;
    from->rank--;
    for (int i = at; i < from->rank; i++) {
        from->shape[i] = from->shape[i + 1];
        from->x[i] = from->x[i + 1];
        from->y[i] = from->y[i + 1];
    }
}

static int64_t count_of(const plan_axes *axes)
{
    int64_t count = 1;
    for (int i = 0; i < axes->rank; i++)
        count *= axes->shape[i];
    return count;
}

/* For an x that has elements. */
static void make_plan(plan *p, const lab_tensor *x, unsigned axes)
{
    *p = (plan){.dtype = x->dtype, .x = x->data};
    int64_t y_strides[LAB_MAX_RANK] = {0}, next = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        bool summed = axes >> i & 1;
        y_strides[i] = summed ? 0 : next;
        next *= summed ? 1 : x->shape[i];
    }
    int previous = -1; /* whether the last axis of size > 1 was kept (0) or summed (1) */
    for (int i = 0; i < x->rank; i++) {
        if (x->shape[i] == 1)
            continue;
        int summed = axes >> i & 1;
        append_axis(summed ? &p->summed : &p->kept, summed != previous, x->shape[i], x->strides[i], y_strides[i]);
        previous = summed;
    }
    choose_inner(p);
    p->panels = p->columns ? (p->inner + PANEL - 1) / PANEL : 1;
    p->pieces = p->columns ? 1 : (p->inner + ROW_PIECE - 1) / ROW_PIECE;
    int64_t row = p->inner < ROW_PIECE ? p->inner : ROW_PIECE;
    p->block_rows = p->columns ? BLOCK_ROWS : (BLOCK_ELEMENTS + row - 1) / row;
    p->rows = count_of(&p->summed) * p->pieces;
    p->blocks = (p->rows + p->block_rows - 1) / p->block_rows;
    p->units = count_of(&p->kept) * p->panels;
    p->width = p->columns ? (p->inner < PANEL ? p->inner : PANEL) : 1;
    int64_t work = p->rows * (p->columns ? p->width : row);
    p->group = work < BLOCK_ELEMENTS ? (BLOCK_ELEMENTS + work - 1) / work : 1;
}

static bool blocks_run_apart(const plan *p)
{
    return p->blocks > 1 && p->units < ENOUGH_UNITS;
}

static int64_t offset_of(const plan_axes *axes, int64_t index, const int64_t *strides)
{
    int64_t offset = 0;
    for (int i = axes->rank - 1; i > 0; i--) {
        offset += index % axes->shape[i] * strides[i];
        index /= axes->shape[i];
    }
    return axes->rank > 0 ? offset + index * strides[0] : 0;
}

/* Where a unit begins, and how many results it has. */
typedef struct unit_at {
    const char *x;
    char *y;
    int64_t width;
} unit_at;

static unit_at find_unit(const plan *p, int64_t unit)
{
    int64_t panel = 0, kept = unit, element = (int64_t)lab_dtype_size(p->dtype);
    if (p->panels > 1) {
        panel = unit % p->panels * PANEL;
        kept = unit / p->panels;
    }
    unit_at u = {.width = 1};
    u.x = p->x + (offset_of(&p->kept, kept, p->kept.x) + panel * p->inner_x) * element;
    u.y = p->y + (offset_of(&p->kept, kept, p->kept.y) + panel * p->inner_y) * element;
    if (p->columns)
        u.width = p->inner - panel < PANEL ? p->inner - panel : PANEL;
    return u;
}

/* The first element of row (or piece of a row) `row` that a unit sums, and how many of it when rows are summed. */
static const void *find_row(const plan *p, const unit_at *u, int64_t row, int64_t *length)
{
    int64_t piece = 0;
    if (p->pieces > 1) {
        piece = row % p->pieces * ROW_PIECE;
        row /= p->pieces;
    }
    *length = p->inner - piece < ROW_PIECE ? p->inner - piece : ROW_PIECE;
    return u->x + (offset_of(&p->summed, row, p->summed.x) + piece * p->inner_x) * (int64_t)lab_dtype_size(p->dtype);
}

/* ---- Sums of floats ------------------------------------------------------------------------------------------------ */

/* sums[j] += x[0][j] + ... of up to four rows: more of them are on the way from memory at once. */
enum { ROWS_AT_ONCE = 4 };

static void add_columns_f32(int64_t n, double *restrict sums, int rows, const void *const *x, int64_t stride)
{
    const float *a = x[0], *b = x[1], *c = x[2], *d = x[3];
    if (rows < ROWS_AT_ONCE)
        for (int row = 0; row < rows; row++)
            for (int64_t i = 0; i < n; i++)
                sums[i] += (double)((const float *)x[row])[i * stride];
    else if (stride == 1)
        for (int64_t i = 0; i < n; i++)
            sums[i] += ((double)a[i] + (double)b[i]) + ((double)c[i] + (double)d[i]);
    else
        for (int64_t i = 0, j = 0; i < n; i++, j += stride)
            sums[i] += ((double)a[j] + (double)b[j]) + ((double)c[j] + (double)d[j]);
}

static void add_columns_f64(int64_t n, double *restrict sums, int rows, const void *const *x, int64_t stride)
{
    const double *a = x[0], *b = x[1], *c = x[2], *d = x[3];
    if (rows < ROWS_AT_ONCE)
        for (int row = 0; row < rows; row++)
            for (int64_t i = 0; i < n; i++)
                sums[i] += ((const double *)x[row])[i * stride];
    else if (stride == 1)
        for (int64_t i = 0; i < n; i++)
            sums[i] += (a[i] + b[i]) + (c[i] + d[i]);
    else
        for (int64_t i = 0, j = 0; i < n; i++, j += stride)
            sums[i] += (a[j] + b[j]) + (c[j] + d[j]);
}

static void sum_columns(const plan *p, const unit_at *u, int64_t first, int64_t end, double *sums)
{
    memset(sums, 0, (size_t)u->width * sizeof *sums);
    for (int64_t row = first; row < end; row += ROWS_AT_ONCE) {
        const void *x[ROWS_AT_ONCE] = {0};
        int64_t length;
        int rows = end - row < ROWS_AT_ONCE ? (int)(end - row) : ROWS_AT_ONCE;
        for (int i = 0; i < rows; i++)
            x[i] = find_row(p, u, row + i, &length);
        if (p->dtype == LAB_F32)
            add_columns_f32(u->width, sums, rows, x, p->inner_x);
        else
            add_columns_f64(u->width, sums, rows, x, p->inner_x);
    }
}

static void sum_rows(const plan *p, const unit_at *u, int64_t first, int64_t end, double *sum)
{
    const kernel_row_fns *kernels = &lab__kernels()->row[lab__kernel_type(p->dtype)];
    *sum = 0;
    for (int64_t row = first; row < end; row++) {
        int64_t length;
        const void *x = find_row(p, u, row, &length);
        *sum += kernels->sum(length, x, p->inner_x);
    }
}

static void sum_block(const plan *p, const unit_at *u, int64_t block, double *sums)
{
    int64_t first = block * p->block_rows;
    int64_t end = first + p->block_rows < p->rows ? first + p->block_rows : p->rows;
    if (p->columns)
        sum_columns(p, u, first, end, sums);
    else
        sum_rows(p, u, first, end, sums);
}

static void put_results(const plan *p, const unit_at *u, const double *sums)
{
    for (int64_t i = 0; i < u->width; i++)
        if (p->dtype == LAB_F32)
            ((float *)u->y)[i * p->inner_y] = (float)(sums[i] / p->divisor);
        else
            ((double *)u->y)[i * p->inner_y] = sums[i] / p->divisor;
}

static void run_units(void *context, int64_t piece, int worker)
{
    (void)worker;
    const plan *p = context;
    double total[PANEL], sums[PANEL];
    int64_t end = (piece + 1) * p->group < p->units ? (piece + 1) * p->group : p->units;
    for (int64_t unit = piece * p->group; unit < end; unit++) {
        unit_at u = find_unit(p, unit);
        sum_block(p, &u, 0, total);
        for (int64_t block = 1; block < p->blocks; block++) {
            sum_block(p, &u, block, sums);
            for (int64_t i = 0; i < u.width; i++)
                total[i] += sums[i];
        }
        put_results(p, &u, total);
    }
}

static void run_block(void *context, int64_t piece, int worker)
{
    (void)worker;
    const plan *p = context;
    unit_at u = find_unit(p, piece / p->blocks);
    sum_block(p, &u, piece % p->blocks, p->partials + piece * p->width);
}

static void add_blocks_up(const plan *p)
{
    for (int64_t unit = 0; unit < p->units; unit++) {
        unit_at u = find_unit(p, unit);
        double *total = p->partials + unit * p->blocks * p->width;
        for (int64_t block = 1; block < p->blocks; block++)
            for (int64_t i = 0; i < u.width; i++)
                total[i] += total[block * p->width + i];
        put_results(p, &u, total);
    }
}

/* ---- Sums of integers: order means nothing to them, they wrap ------------------------------------------------------ */

static void sum_integers(void *context, int64_t piece, int worker)
{
    (void)worker;
    const plan *p = context;
    int64_t end = (piece + 1) * p->group < p->units ? (piece + 1) * p->group : p->units;
    for (int64_t unit = piece * p->group; unit < end; unit++) {
        uint64_t sums[PANEL] = {0};
        unit_at u = find_unit(p, unit);
        for (int64_t row = 0; row < p->rows; row++) {
            int64_t length;
            const int64_t *x = find_row(p, &u, row, &length);
            if (p->columns)
                length = u.width;
            for (int64_t i = 0; i < length; i++)
                sums[p->columns ? i : 0] += (uint64_t)x[i * p->inner_x];
        }
        for (int64_t i = 0; i < u.width; i++)
            ((int64_t *)u.y)[i * p->inner_y] = (int64_t)sums[i];
    }
}

/* ---- Forward ------------------------------------------------------------------------------------------------------- */

static int64_t number_summed(const lab_tensor *x, unsigned axes)
{
    int64_t number = 1;
    for (int i = 0; i < x->rank; i++)
        number *= axes >> i & 1 ? x->shape[i] : 1;
    return number;
}

static size_t reduce_scratch(const lab_op_call *call)
{
    const lab_tensor *x = call->in[0];
    if (x->numel == 0 || x->dtype == LAB_I64)
        return 0;
    plan p;
    make_plan(&p, x, reduced_axes(call->attrs, x->rank));
    return blocks_run_apart(&p) ? (size_t)(p.units * p.blocks * p.width) * sizeof(double) : 0;
}

static lab_status reduce(lab_op_call *call, double divisor)
{
    const lab_tensor *x = call->in[0];
    if (x->numel == 0) {
        lab__tensor_fill(call->out[0], 0.0 / divisor);
        return LAB_OK;
    }
    plan p;
    make_plan(&p, x, reduced_axes(call->attrs, x->rank));
    p.y = call->out[0]->data;
    p.divisor = divisor;
    p.partials = call->scratch;
    int64_t groups = (p.units + p.group - 1) / p.group;
    if (x->dtype == LAB_I64) {
        lab__parallel_run(groups, sum_integers, &p);
    } else if (blocks_run_apart(&p)) {
        lab__parallel_run(p.units * p.blocks, run_block, &p);
        add_blocks_up(&p);
    } else {
        lab__parallel_run(groups, run_units, &p);
    }
    return LAB_OK;
}

static lab_status sum_forward(lab_op_call *call)
{
    return reduce(call, 1.0);
}

static lab_status mean_forward(lab_op_call *call)
{
    const lab_tensor *x = call->in[0];
    return reduce(call, (double)number_summed(x, reduced_axes(call->attrs, x->rank)));
}

/* ---- Derivative ---------------------------------------------------------------------------------------------------- */

static lab_status sum_vjp(lab_graph *g, lab_vjp_call *call)
{
    const lab_tensor *x = call->in[0];
    lab_tensor *dy = lab__with_axes(g, call->grad_out[0], x, reduced_axes(call->attrs, x->rank));
    call->grad_in[0] = lab_broadcast_to(g, dy, x->rank, x->shape);
    return lab_graph_status(g);
}

static lab_status sum_backward(lab_vjp_call *call)
{
    const lab_tensor *x = call->in[0];
    lab_tensor dx;
    lab__stretched(&dx, call->grad_out[0], x, reduced_axes(call->attrs, x->rank));
    if (call->places[0].tensor)
        lab__place_put(&call->places[0], &dx);
    return LAB_OK;
}

static double mean_factor(const lab_vjp_call *call)
{
    const lab_tensor *x = call->in[0];
    int64_t number = number_summed(x, reduced_axes(call->attrs, x->rank));
    return number > 0 ? 1.0 / (double)number : 0.0;
}

static lab_status mean_vjp(lab_graph *g, lab_vjp_call *call)
{
    const lab_tensor *x = call->in[0];
    lab_tensor *dy = lab_mul_scalar(g, call->grad_out[0], mean_factor(call));
    dy = lab__with_axes(g, dy, x, reduced_axes(call->attrs, x->rank));
    call->grad_in[0] = lab_broadcast_to(g, dy, x->rank, x->shape);
    return lab_graph_status(g);
}

/* dy over the number, before it is stretched. */
static size_t mean_backward_scratch(const lab_vjp_call *call)
{
    const lab_tensor *dy = call->grad_out[0];
    return (size_t)dy->numel * lab_dtype_size(dy->dtype);
}

static lab_status mean_backward(lab_vjp_call *call)
{
    const lab_tensor *x = call->in[0], *dy = call->grad_out[0];
    if (!call->places[0].tensor || x->numel == 0)
        return LAB_OK;
    lab_tensor share, dx;
    lab__tensor_describe(&share, dy->dtype, dy->rank, dy->shape, NULL);
    share.data = call->scratch;
    lab__map_unary(KERNEL_MUL_SCALAR, &share, dy, mean_factor(call));
    lab__stretched(&dx, &share, x, reduced_axes(call->attrs, x->rank));
    lab__place_put(&call->places[0], &dx);
    return LAB_OK;
}

/* ---- Descriptors --------------------------------------------------------------------------------------------------- */

static const lab_reads reads_nothing[] = {{0}};

const lab_op lab__op_sum = {
    .name = "sum",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = sum_shape,
    .scratch = reduce_scratch,
    .forward = sum_forward,
    .vjp = sum_vjp,
    .backward = sum_backward,
};

const lab_op lab__op_sum_all = {
    .name = "sum_all",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = sum_shape,
    .scratch = reduce_scratch,
    .forward = sum_forward,
    .vjp = sum_vjp,
    .backward = sum_backward,
};

const lab_op lab__op_mean = {
    .name = "mean",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = mean_shape,
    .scratch = reduce_scratch,
    .forward = mean_forward,
    .vjp = mean_vjp,
    .backward_scratch = mean_backward_scratch,
    .backward = mean_backward,
};

const lab_op lab__op_mean_all = {
    .name = "mean_all",
    .inputs = 1,
    .outputs = 1,
    .reads = reads_nothing,
    .n_reads = 1,
    .shape = mean_shape,
    .scratch = reduce_scratch,
    .forward = mean_forward,
    .vjp = mean_vjp,
    .backward_scratch = mean_backward_scratch,
    .backward = mean_backward,
};

static lab_tensor *apply_reduction(lab_graph *g, const lab_op *op, lab_tensor *x, int n_axes, const int *axes,
                                   bool keep)
{
    if (!lab__healthy(g))
        return NULL;
    if (n_axes < 0 || n_axes > LAB_MAX_RANK)
        return lab__refuse(g, op->name, LAB_ERR_RANGE, "%d axes, must be 0 to %d", n_axes, LAB_MAX_RANK);
    if (n_axes > 0 && !axes)
        return lab__refuse(g, op->name, LAB_ERR_ARGUMENT, "axes is NULL");
    reduce_attrs attrs = {.n_axes = n_axes, .keep = keep};
    if (n_axes > 0)
        memcpy(attrs.axes, axes, (size_t)n_axes * sizeof *axes);
    return lab__apply1(g, op, &attrs, sizeof attrs, x);
}

lab_tensor *lab_sum(lab_graph *g, lab_tensor *x, int n_axes, const int *axes, bool keep)
{
    return apply_reduction(g, &lab__op_sum, x, n_axes, axes, keep);
}

lab_tensor *lab_mean(lab_graph *g, lab_tensor *x, int n_axes, const int *axes, bool keep)
{
    return apply_reduction(g, &lab__op_mean, x, n_axes, axes, keep);
}

lab_tensor *lab_sum_all(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_sum_all, NULL, 0, x);
}

lab_tensor *lab_mean_all(lab_graph *g, lab_tensor *x)
{
    return lab__apply1(g, &lab__op_mean_all, NULL, 0, x);
}
