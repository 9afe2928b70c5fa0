/* layers_impl.h - how layers make, draw and name their parameters. */
#ifndef LAB_NN_LAYERS_IMPL_H
#define LAB_NN_LAYERS_IMPL_H

#include "llmlab/init.h"
#include "llmlab/layers.h"
#include "nn_impl.h"

/* Where first values come from: each parameter made takes the next stream, so making goes in visit order. */
typedef struct source {
    lab_dtype dtype;
    uint64_t seed, stream;
} source;

/* A leaf that requires its gradient: one value throughout, or drawn. Takes a stream either way. */
lab_status lab__make_vector(lab_tensor **out, source *from, int64_t size, double value);
lab_status lab__make_weight(lab_tensor **out, source *from, const lab_linear_config *config);

/* What lab_X_init does after its config is checked, with streams counted on. What is made before a failure stays in x
 * for lab_X_free. */
lab_status lab__linear_make(lab_linear *x, const lab_linear_config *config, source *from);
lab_status lab__mlp_make(lab_mlp *x, const lab_mlp_config *config, source *from);
lab_status lab__mha_make(lab_mha *x, const lab_mha_config *config, source *from);
lab_status lab__block_make(lab_block *x, const lab_block_config *config, source *from);

/* Arguments of an init function: x and config there, a floating-point dtype, reserved words zero. */
lab_status lab__check_init(const char *name, const void *x, const void *config, const uint64_t *reserved,
                           lab_dtype dtype);
lab_status lab__check_positive(const char *name, const char *field, int64_t size);

enum { LAB_NAME_LENGTH = 256 };

/* name = "prefix.part", or "part" where there is no prefix. */
lab_status lab__join_name(char name[LAB_NAME_LENGTH], const char *prefix, const char *part);

/* Visits one parameter; NULL ones are not there. */
lab_status lab__visit_parameter(const char *prefix, const char *part, lab_tensor **parameter, lab_visit_fn fn,
                                void *ctx);

#endif
