/* linear_regression.c - fits y = 2 a - 3 b + 1 to noisy points by gradient descent, down to the noise: 0.1^2. */
#include <llmlab.h>
#include <stdio.h>

int main(void)
{
    lab_tensor *weight, *offset; /* what is learned: tensors that we own */
    if (lab_tensor_create(&weight, LAB_F64, 2, (int64_t[]){2, 1}) || lab_tensor_create(&offset, LAB_F64, 0, NULL) ||
        lab_tensor_require_grad(weight, true) || lab_tensor_require_grad(offset, true)) {
        fprintf(stderr, "%s\n", lab_last_message());
        return 1;
    }
    lab_graph *g = lab_graph_create(NULL);
    for (int step = 0; step <= 200; step++) {
        lab_graph_reset(g); /* forgets the last step, keeps the memory */
        lab_tensor *points = lab_randn(g, LAB_F64, 2, (int64_t[]){256, 2}, 1); /* one seed: the same ones every time */
        lab_tensor *truth = lab_constant(g, LAB_F64, 2, (int64_t[]){2, 1}, (double[]){2, -3});
        lab_tensor *noise = lab_mul_scalar(g, lab_randn(g, LAB_F64, 2, (int64_t[]){256, 1}, 2), 0.1);
        lab_tensor *wanted = lab_add(g, lab_add_scalar(g, lab_matmul(g, points, truth), 1), noise);

        lab_tensor *miss = lab_sub(g, lab_add(g, lab_matmul(g, points, weight), offset), wanted); /* [256, 1] */
        lab_tensor *loss = lab_mean_all(g, lab_mul(g, miss, miss));
        lab_backward(g, loss); /* adds into the gradients of weight and offset */
        lab_sgd sgd = {.rate = 0.05};
        if (lab_graph_status(g) != LAB_OK || lab_sgd_step("weight", &weight, &sgd) ||
            lab_sgd_step("offset", &offset, &sgd)) {
            fprintf(stderr, "%s\n", lab_last_message());
            return 1;
        }
        if (step % 50 == 0)
            printf("step %3d: loss %.5f\n", step, *(double *)lab_tensor_data(loss));
        lab_tensor_clear_grad(weight);
        lab_tensor_clear_grad(offset);
    }
    const double *w = lab_tensor_data(weight);
    printf("y = %.3f a %+.3f b %+.3f\n", w[0], w[1], *(double *)lab_tensor_data(offset));
    lab_graph_destroy(&g);
    lab_tensor_destroy(&weight);
    lab_tensor_destroy(&offset);
}
