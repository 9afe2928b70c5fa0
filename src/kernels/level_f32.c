/* level_f32.c - one level's kernels on float. */
#define TYPE  f32
#define real  float
#define FN(x) x##_f32

#define MANTISSA     23
#define BIAS         127
#define POWER_BASE   (0x1.8p+23f + 2 * BIAS)
#define NORMAL_LEAST 0x1p-126f /* of the normal numbers */
#define UPPER_HALF   -4096     /* of the mantissa: its square is exact */

enum { EXP_DEGREE = 4, EXP_ZERO = -104, ERF_DEGREE = 5, TAIL_DEGREE = 8 };

static const float log2_e_f32 = 0x1.715476p+0f, root_2_f32 = 0x1.6a09e6p+0f, root_half_f32 = 0x1.6a09e6p-1f;
/* ln 2 in two parts; n times the first is exact. */
static const float ln2_high_f32 = 0x1.62e4p-1f, ln2_low_f32 = 0x1.7f7d1cp-20f;
/* Beyond these, results are 0 (x e^x and gelu too), infinite, or 1; e^x is 0 up to EXP_ZERO, and from exp_normal on a
 * normal number. */
static const float exp_low_f32 = -120, exp_normal_f32 = -87, exp_high_f32 = 89, tanh_high_f32 = 40,
                   gelu_low_f32 = -11.5f, tail_high_f32 = 16;

#include "level.c"
