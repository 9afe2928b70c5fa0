/* init.c - first values of parameters. */
#include "llmlab/init.h"

#include "autograd/random.h"
#include "llmlab/linalg.h"
#include "nn_impl.h"

static lab_status check(const lab_tensor *t, const char *name, double number)
{
    if (!t)
        return lab__fail(LAB_ERR_ARGUMENT, "%s: the tensor is NULL", name);
    if (!lab__is_float(t->dtype))
        return lab__fail(LAB_ERR_DTYPE, "%s: the tensor is %s, must be f32 or f64", name, lab_dtype_name(t->dtype));
    if (t->kind != TENSOR_LEAF || t->overlapping)
        return lab__fail(LAB_ERR_STATE, "%s: %s", name,
                         t->overlapping ? "elements share places, so the tensor is for reading"
                                        : "only a tensor that you own can be drawn anew");
    if (!isfinite(number))
        return lab__fail(LAB_ERR_RANGE, "%s: %g is not finite", name, number);
    return LAB_OK;
}

static lab_status check_matrix(const lab_tensor *t, const char *name, double number)
{
    lab_status status = check(t, name, number);
    if (status == LAB_OK && t->rank != 2)
        return lab__fail(LAB_ERR_SHAPE, "%s: the tensor %s must be a matrix [out, in]", name,
                         lab__shape_text(t->rank, t->shape));
    return status;
}

lab_status lab_init_constant(lab_tensor *t, double value)
{
    lab_status status = check(t, "init_constant", value);
    if (status != LAB_OK)
        return status;
    lab__tensor_fill(t, value);
    lab_tensor_touch(t);
    return LAB_OK;
}

lab_status lab_init_zeros(lab_tensor *t)
{
    return lab_init_constant(t, 0);
}

lab_status lab_init_normal(lab_tensor *t, double std, uint64_t seed, uint64_t stream)
{
    lab_status status = check(t, "init_normal", std);
    if (status != LAB_OK)
        return status;
    lab__tensor_fill_normal(t, std, seed, stream);
    lab_tensor_touch(t);
    return LAB_OK;
}

lab_status lab_init_xavier(lab_tensor *t, double gain, uint64_t seed, uint64_t stream)
{
    lab_status status = check_matrix(t, "init_xavier", gain);
    if (status != LAB_OK)
        return status;
    double fans = (double)t->shape[0] + (double)t->shape[1];
    lab__tensor_fill_normal(t, fans > 0 ? gain * sqrt(2 / fans) : 0, seed, stream);
    lab_tensor_touch(t);
    return LAB_OK;
}

/* t = gain q, or gain q^T where t is wide; q is row-major in double. */
static void put_rows(lab_tensor *t, const lab_tensor *q, double gain, bool wide)
{
    const double *from = lab_tensor_data(q);
    for (int64_t i = 0; i < t->shape[0]; i++)
        for (int64_t j = 0; j < t->shape[1]; j++) {
            int64_t place = i * t->strides[0] + j * t->strides[1];
            double value = gain * (wide ? from[j * t->shape[0] + i] : from[i * t->shape[1] + j]);
            if (t->dtype == LAB_F32)
                ((float *)t->data)[place] = (float)value;
            else
                ((double *)t->data)[place] = value;
        }
}

/* The columns of a tall normal matrix, made orthonormal; for a wide one the rows of its transpose. */
lab_status lab_init_orthogonal(lab_tensor *t, double gain, uint64_t seed, uint64_t stream)
{
    lab_status status = check_matrix(t, "init_orthogonal", gain);
    if (status != LAB_OK)
        return status;
    bool wide = t->shape[0] < t->shape[1];
    int64_t tall[] = {wide ? t->shape[1] : t->shape[0], wide ? t->shape[0] : t->shape[1]};
    lab_tensor *normal, *q = NULL, *r = NULL;
    status = lab_tensor_create(&normal, LAB_F64, 2, tall);
    if (status == LAB_OK) {
        lab__tensor_fill_normal(normal, 1, seed, stream);
        status = lab_qr(normal, &q, &r);
    }
    if (status == LAB_OK) {
        put_rows(t, q, gain, wide);
        lab_tensor_touch(t);
    }
    lab_tensor_destroy(&normal);
    lab_tensor_destroy(&q);
    lab_tensor_destroy(&r);
    return status;
}

double lab_residual_scale(int64_t layers)
{
    return layers < 1 ? 1 : 1 / sqrt(2 * (double)layers);
}
