#include <llmlab.h>
#include <stdio.h>

int main(void)
{
    lab_graph *g = lab_graph_create(NULL);
    /* Queries, keys and values: 1 sequence, 8 heads, 128 tokens, 64 numbers each; random, with seeds 1, 2, 3. */
    lab_tensor *q = lab_randn(g, LAB_F32, 4, (int64_t[]){1, 8, 128, 64}, 1);
    lab_tensor *k = lab_randn(g, LAB_F32, 4, (int64_t[]){1, 8, 128, 64}, 2);
    lab_tensor *v = lab_randn(g, LAB_F32, 4, (int64_t[]){1, 8, 128, 64}, 3);
    lab_tensor *y = lab_attention(g, q, k, v, &(lab_attention_opts){.causal = LAB_CAUSAL_TOP_LEFT});
    lab_tensor *dq;
    lab_grad(g, lab_sum_all(g, y), NULL, 1, &q, &dq, NULL); /* d sum(y) / d q */
    if (lab_graph_status(g) != LAB_OK)                      /* asked once, for all of it */
        fprintf(stderr, "%s\n", lab_graph_message(g));
    else
        printf("%d heads, %d tokens; the last number of d sum(y) / d q is %.4f\n", (int)lab_tensor_size(y, 1),
               (int)lab_tensor_size(y, 2), ((float *)lab_tensor_data(dq))[lab_tensor_numel(dq) - 1]);
    lab_graph_destroy(&g);
}
