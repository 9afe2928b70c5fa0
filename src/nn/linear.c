/* linear.c - y = x weight^T + bias. */
#include "layers_impl.h"

lab_status lab__linear_make(lab_linear *x, const lab_linear_config *config, source *from)
{
    lab_status status = lab__check_positive("linear", "in", config->in);
    if (status == LAB_OK)
        status = lab__check_positive("linear", "out", config->out);
    if (status == LAB_OK)
        status = lab__make_weight(&x->weight, from, config);
    if (status == LAB_OK && config->bias)
        status = lab__make_vector(&x->bias, from, config->out, 0);
    return status;
}

lab_status lab_linear_init(lab_linear *x, const lab_linear_config *config, lab_dtype dtype, uint64_t seed)
{
    lab_status status = lab__check_init("linear", x, config, config ? config->reserved : NULL, dtype);
    if (x)
        *x = (lab_linear){0};
    if (status == LAB_OK)
        status = lab__linear_make(x, config, &(source){.dtype = dtype, .seed = seed});
    if (status != LAB_OK)
        lab_linear_free(x);
    return status;
}

lab_tensor *lab_linear_apply(lab_graph *g, const lab_linear *x, lab_tensor *input)
{
    if (!lab__healthy(g))
        return NULL;
    if (!x || !x->weight || !input)
        return lab__refuse(g, "linear", LAB_ERR_ARGUMENT, "%s is NULL",
                           !x           ? "the layer"
                           : !x->weight ? "its weight"
                                        : "the input");
    if (lab_tensor_rank(input) < 1 || lab_tensor_size(input, -1) != lab_tensor_size(x->weight, 1))
        return lab__refuse(g, "linear", LAB_ERR_SHAPE,
                           "the last size of the input %s must be %lld, as the weight %s has it",
                           lab__shape_text(input->rank, input->shape), (long long)lab_tensor_size(x->weight, 1),
                           lab__shape_text(x->weight->rank, x->weight->shape));
    lab_tensor *y = lab_matmul(g, input, lab_transpose(g, x->weight, 0, 1));
    return x->bias ? lab_add(g, y, x->bias) : y;
}

lab_status lab_linear_visit(lab_linear *x, const char *prefix, lab_visit_fn fn, void *ctx)
{
    if (!x)
        return lab__fail(LAB_ERR_ARGUMENT, "linear: the layer is NULL");
    lab_status status = lab__visit_parameter(prefix, "weight", &x->weight, fn, ctx);
    return status == LAB_OK ? lab__visit_parameter(prefix, "bias", &x->bias, fn, ctx) : status;
}

void lab_linear_free(lab_linear *x)
{
    if (!x)
        return;
    lab_tensor_destroy(&x->weight);
    lab_tensor_destroy(&x->bias);
}
