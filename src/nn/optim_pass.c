/* optim_pass.c - one pass over a parameter, its gradient and its state, in pieces for all threads. */
#include "optim_impl.h"

typedef struct pass {
    kernel_step_fn step;
    const kernel_step *by;
    lab_tensor *p;
    bool flat;
    size_t size; /* of an element */
    const char *gradient;
    char *m, *v;
} pass;

static char *element(char *base, int64_t index, size_t size)
{
    return base ? base + (size_t)index * size : NULL;
}

static void flat_part(const pass *x, int64_t from, int64_t n, void *p)
{
    x->step(n, p, x->gradient + (size_t)from * x->size, element(x->m, from, x->size), element(x->v, from, x->size),
            x->by);
}

/* A parameter of other strides goes through a buffer, along its rows. */
static void strided_part(const pass *x, int64_t from, int64_t n)
{
    enum { BUFFER = 512 };
    double buffer[BUFFER];
    const int64_t length = lab__row_length(x->p), stride = lab__row_stride(x->p);
    while (n > 0) {
        int64_t column = from % length, count = length - column;
        count = count > n ? n : count;
        count = count > BUFFER ? BUFFER : count;
        void *place = element(x->p->data, lab__row_place(x->p, from / length) + column * stride, x->size);
        lab__kernel_copy(count, (int)x->size, buffer, 1, place, stride);
        flat_part(x, from, count, buffer);
        lab__kernel_copy(count, (int)x->size, place, stride, buffer, 1);
        from += count;
        n -= count;
    }
}

static void run_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const pass *x = context;
    const int64_t from = piece * OPTIM_PIECE, left = x->p->numel - from;
    const int64_t n = left < OPTIM_PIECE ? left : OPTIM_PIECE;
    if (x->flat)
        flat_part(x, from, n, element(x->p->data, from, x->size));
    else
        strided_part(x, from, n);
}

void lab__optim_pass(lab_tensor *p, const lab_tensor *gradient, lab_tensor *m, lab_tensor *v, kernel_rule rule,
                     const kernel_step *by)
{
    pass x = {.step = lab__kernels()->step[p->dtype == LAB_F64 ? KERNEL_F64 : KERNEL_F32][rule],
              .by = by,
              .p = p,
              .flat = lab__is_contiguous(p),
              .size = lab_dtype_size(p->dtype),
              .gradient = gradient->data,
              .m = m ? m->data : NULL,
              .v = v ? v->data : NULL};
    lab__parallel_run((p->numel + OPTIM_PIECE - 1) / OPTIM_PIECE, run_piece, &x);
    lab_tensor_touch(p);
}
