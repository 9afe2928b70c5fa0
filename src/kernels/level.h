/* level.h - what one level gives to the table, for one type. */
#ifndef LAB_KERNELS_LEVEL_H
#define LAB_KERNELS_LEVEL_H

#include "kernels.h"

/* NULL where the level below does as well. */
typedef struct kernel_part {
    kernel_unary_fn unary[KERNEL_UNARY_COUNT];
    kernel_binary_fn binary[KERNEL_BINARY_COUNT];
    kernel_compare_fn compare[KERNEL_COMPARE_COUNT];
    kernel_row_fns row;
    kernel_tile_fn tile;
    kernel_matvec_fn matvec;
    kernel_panel_fns panel;
    kernel_query_fns query;
    kernel_norm_fns norm;
    kernel_loss_fns loss;
    kernel_rope_fn rope;
    kernel_gelu_fns gelu[KERNEL_GELU_KINDS];
    kernel_step_fn step[KERNEL_RULE_COUNT];
    double (*fma_peak)(double seconds);
} kernel_part;

/* With 64-byte vectors, blocks of the tile product are high for sums of so many steps or more, else low: the
 * processor's to say which is faster, and the same bits. (kernels.c; set before anything computes) */
extern int lab__kernel_high_from;

/* libm.c: what calls the C library for each element, the same at every level. */
extern const kernel_part lab__kernel_libm_f32, lab__kernel_libm_f64;

/* level.c, compiled once per level and type; which of them this build has is meson's to say (LAB_HAVE_...). */
extern const kernel_part lab__kernel_plain_f32, lab__kernel_plain_f64;
extern const kernel_part lab__kernel_avx2_f32, lab__kernel_avx2_f64;
extern const kernel_part lab__kernel_avx512_f32, lab__kernel_avx512_f64;
extern const kernel_part lab__kernel_neon_f32, lab__kernel_neon_f64;

#endif
