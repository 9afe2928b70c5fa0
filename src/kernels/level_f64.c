/* level_f64.c - one level's kernels on double. */
#define TYPE  f64
#define real  double
#define FN(x) x##_f64

#define MANTISSA     52
#define BIAS         1023
#define POWER_BASE   (0x1.8p+52 + 2 * BIAS)
#define NORMAL_LEAST 0x1p-1022  /* of the normal numbers */
#define UPPER_HALF   -134217728 /* of the mantissa: its square is exact */

enum { EXP_DEGREE = 9, EXP_ZERO = -746, ERF_DEGREE = 11, TAIL_DEGREE = 20 };

static const double log2_e_f64 = 0x1.71547652b82fep+0, root_2_f64 = 0x1.6a09e667f3bcdp+0,
                    root_half_f64 = 0x1.6a09e667f3bcdp-1;
/* ln 2 in two parts; n times the first is exact. */
static const double ln2_high_f64 = 0x1.62e42feep-1, ln2_low_f64 = 0x1.a39ef35793c76p-33;
/* Beyond these, results are 0 (x e^x and gelu too), infinite, or 1; e^x is 0 up to EXP_ZERO, and from exp_normal on a
 * normal number. */
static const double exp_low_f64 = -760, exp_normal_f64 = -708, exp_high_f64 = 710, tanh_high_f64 = 60,
                    gelu_low_f64 = -22, tail_high_f64 = 40;

#include "level.c"
