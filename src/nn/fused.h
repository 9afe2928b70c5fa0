/* fused.h - what the fused ops of rows share: rows as the kernels want them, pieces of work, and the twin's derivative.
 *
 * Kernels take rows whose elements lie side by side. Operands are brought into that form by an op (lab__dense_rows);
 * what the engine hands over in backward, gradients and places, almost always has it, and goes through scratch memory
 * where not.
 */
#ifndef LAB_NN_FUSED_H
#define LAB_NN_FUSED_H

#include "kernels/kernels.h"
#include "kernels/parallel.h"
#include "nn_impl.h"

static inline kernel_type lab__type_of(const lab_tensor *t)
{
    return t->dtype == LAB_F64 ? KERNEL_F64 : KERNEL_F32;
}

/* The recorded derivative of an op with one visible result that somebody can ask about: that of `y`, which the composed
 * twin has just computed from call->in. */
lab_status lab__twin_vjp(lab_graph *g, lab_vjp_call *call, lab_tensor *y);

/* x itself where the elements of its rows lie side by side, else a copy; NULL stays NULL. */
lab_tensor *lab__dense_rows(lab_graph *g, lab_tensor *x);

/* The rows of a tensor along its last axis, each dense. */
typedef struct row_view {
    const lab_tensor *tensor; /* NULL: there are none */
    size_t size;              /* of an element */
    int64_t step;             /* elements from a row to the next; 0: no such number */
} row_view;

row_view lab__rows_of(const lab_tensor *t);

static inline char *lab__row_at(const row_view *v, int64_t row)
{
    if (!v->tensor)
        return NULL;
    return v->tensor->data + (v->step ? row * v->step : lab__row_place(v->tensor, row)) * (int64_t)v->size;
}

/* Rows in scratch memory: of a gradient that came in, or of a place, in its stead. */
typedef struct row_stand_in {
    lab_tensor copy;
    lab_tensor *place; /* NULL: nothing is to be brought back */
    bool add;
} row_stand_in;

/* Bytes of scratch for such, a multiple of 64; 0 where the tensor is NULL or its rows are dense already. */
size_t lab__stand_in_bytes(const lab_tensor *t);
/* The rows to read, and to write (*add says how). Both move *scratch on by those bytes. */
row_view lab__gradient_rows(row_stand_in *s, const lab_tensor *gradient, char **scratch);
row_view lab__place_rows(row_stand_in *s, const lab_place *place, bool *add, char **scratch);
/* Brings what stood in for a place to it. */
void lab__place_settle(row_stand_in *s);

/* Rows of a piece, by sizes alone: enough elements to be worth handing over, and no more than `most` pieces. */
int64_t lab__rows_per_piece(int64_t rows, int64_t length, int64_t most);

/* Sums over rows of `numbers` numbers each, of one piece: a few rows' in the tensor's own type, to which the kernels
 * add, from there on in double. Each piece has lab__sums_step doubles. */
typedef struct row_sums {
    int64_t numbers, rows;
    size_t size;
    double *sums;
    char *few; /* where kernels add; NULL: nothing is summed */
} row_sums;

int64_t lab__sums_step(int64_t numbers);
row_sums lab__sums_begin(double *memory, int64_t numbers, size_t size);
/* After each row, and at the end. */
void lab__sums_row(row_sums *s);
void lab__sums_end(row_sums *s);

/* place (+)= the sum over pieces of numbers [pieces][step], element j of each, in order. place [length], any stride;
 * nothing happens where there is none. */
void lab__place_piece_sums(const lab_place *place, int64_t pieces, const double *sums, int64_t step);

#endif
