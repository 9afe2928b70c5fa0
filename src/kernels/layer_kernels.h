/* layer_kernels.h - the part of the table that fused layers use. Rows are dense.
 *
 * The rules of kernels.h hold: a row's bits depend on nothing but the row.
 */
#ifndef LAB_KERNELS_LAYER_KERNELS_H
#define LAB_KERNELS_LAYER_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* What a norm keeps of a row: three numbers of the kernel's type. The row is then ((x - mean) - rest) * scale, in this
 * order, which costs a large mean no digits; mean and rest are 0 where nothing is centred. */
enum { KERNEL_NORM_KEPT = 3 };

typedef struct kernel_norm_fns {
    /* y = normalised x * gain + shift; gain and shift may be NULL. `centred`: LayerNorm, else RMSNorm. y may be x. */
    void (*forward)(int64_t n, void *y, const void *x, const void *gain, const void *shift, double eps, bool centred,
                    void *kept);
    /* With h the normalised row, dh = dy gain: dx (+)= (dh - [mean(dh)] - h mean(dh h)) scale, the mean in brackets
     * where centred; dgain += dy h; dshift += dy. gain, dx, dgain and dshift may be NULL; dx may be dy. */
    void (*backward)(int64_t n, void *dx, bool add, const void *x, const void *dy, const void *gain, bool centred,
                     const void *kept, void *dgain, void *dshift);
} kernel_norm_fns;

/* GELU of x + bias, or of x where bias is NULL: with erf, with tanh. */
enum { KERNEL_BY_ERF, KERNEL_BY_TANH, KERNEL_GELU_KINDS };

typedef struct kernel_gelu_fns {
    void (*forward)(int64_t n, void *y, const void *x, const void *bias);
    /* dx (+)= dy gelu'(x + bias), and dbias += the same; dx and dbias may be NULL, dx may be dy. */
    void (*backward)(int64_t n, void *dx, bool add, const void *x, const void *bias, const void *dy, void *dbias);
} kernel_gelu_fns;

/* The pairs of a row turned by their angles, or back: (a, b) becomes (a cos - b sin, b cos + a sin). A pair lies side
 * by side, at 2i and 2i + 1, or at i and i + pairs. y may be x; what is not turned is not touched. */
typedef void (*kernel_rope_fn)(int64_t pairs, void *y, const void *x, const void *cosines, const void *sines,
                               bool side_by_side, bool back);

/* Cross-entropy of a row of logits: -(1 - a) ln p[target] - a mean of ln p, a the smoothing. A row keeps its maximum
 * and the logarithm of the sum of e^(x - maximum). */
enum { KERNEL_LOSS_KEPT = 2 };

typedef struct kernel_loss_fns {
    double (*forward)(int64_t n, const void *x, int64_t target, double smoothing, void *kept);
    /* d (+)= factor (p - a / n - (1 - a) at the target); d may be x. */
    void (*backward)(int64_t n, void *d, bool add, const void *x, const void *kept, int64_t target, double smoothing,
                     double factor);
} kernel_loss_fns;

#endif
