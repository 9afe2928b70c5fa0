/* attention_gradients.c - who looks where, and how the answer moves when the question does. */
#include <llmlab.h>
#include <stdio.h>

enum { TOKENS = 5, D = 4 };

static void print(const char *name, const lab_tensor *t)
{
    double values[TOKENS * TOKENS];
    int64_t rows = lab_tensor_size(t, -2), columns = lab_tensor_size(t, -1);
    if (lab_tensor_read(t, values, (size_t)(rows * columns) * sizeof(double)) != LAB_OK) /* row-major, any strides */
        return;
    printf("%s\n", name);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            printf("%8.4f%s", values[i * columns + j], j + 1 < columns ? "" : "\n");
}

int main(void)
{
    const int64_t shape[] = {1, TOKENS, D}; /* one head */
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *q = lab_randn(g, LAB_F64, 3, shape, 1);
    lab_tensor *k = lab_randn(g, LAB_F64, 3, shape, 2);
    lab_tensor *v = lab_randn(g, LAB_F64, 3, shape, 3);

    lab_tensor *probs;
    lab_attention_stats stats;
    lab_attention_opts opts = {.causal = LAB_CAUSAL_TOP_LEFT, .probs = &probs, .stats = &stats};
    lab_tensor *out = lab_attention(g, q, k, v, &opts);

    /* The gradient of the last token's answer, and of nothing else. */
    lab_tensor *last = lab_sum_all(g, lab_slice(g, out, 1, TOKENS - 1, TOKENS, 1));
    lab_tensor *xs[] = {q, k, v}, *grads[3];
    lab_grad(g, last, NULL, 3, xs, grads, NULL);
    if (lab_graph_status(g) != LAB_OK) {
        fprintf(stderr, "%s\n", lab_graph_message(g));
        return 1;
    }
    print("weights: row i is where token i looks", probs);
    print("d(last answer)/dq: only the last query matters", grads[0]);
    print("d(last answer)/dk", grads[1]);
    print("d(last answer)/dv: the last row of the weights, in every column", grads[2]);
    printf("largest weight %.3f on average, entropy %.3f\n", stats.p_max.mean, stats.entropy.mean);
    lab_graph_destroy(&g);
}
