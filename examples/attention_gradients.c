/* attention_gradients.c - who looks where, how the answer moves when the question does, and the formula for that by
 * hand. */
#include <llmlab.h>
#include <math.h>
#include <stdio.h>

enum { TOKENS = 5, D = 4 };

typedef double matrix[TOKENS][TOKENS]; /* as much of it as is needed */

/* The elements of the one head, row by row: lab_tensor_read copes with any strides. */
static lab_status take(const char *title, const lab_tensor *t, matrix m)
{
    double values[TOKENS * TOKENS];
    int64_t rows = lab_tensor_size(t, -2), columns = lab_tensor_size(t, -1);
    lab_status status = lab_tensor_read(t, values, (size_t)(rows * columns) * sizeof(double));
    if (title && status == LAB_OK)
        printf("%s\n", title);
    for (int64_t i = 0; i < rows && status == LAB_OK; i++)
        for (int64_t j = 0; j < columns; j++) {
            m[i][j] = values[i * columns + j];
            if (title)
                printf("%8.4f%s", m[i][j], j + 1 < columns ? "" : "\n");
        }
    return status;
}

/* dq of the last query, when every number of its answer counts once (dO = 1), as docs/attention-mathematics.md has it.
 */
static void last_query_by_hand(matrix p, matrix k, matrix v, double *dq)
{
    double dp[TOKENS], delta = 0;
    for (int j = 0; j < TOKENS; j++) {
        dp[j] = 0;
        for (int c = 0; c < D; c++)
            dp[j] += v[j][c]; /* dP_j = dO . v_j */
        delta += p[TOKENS - 1][j] * dp[j];
    }
    for (int c = 0; c < D; c++) {
        dq[c] = 0;
        for (int j = 0; j < TOKENS; j++)
            dq[c] += p[TOKENS - 1][j] * (dp[j] - delta) * k[j][c] / sqrt(D); /* scale dS_j k_j */
    }
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

    matrix p, keys, values, dq, dk, dv;
    if (lab_graph_status(g) != LAB_OK || take("weights: row i is where token i looks", probs, p) ||
        take(NULL, k, keys) || take(NULL, v, values) ||
        take("d(last answer)/dq: only the last query matters", grads[0], dq) ||
        take("d(last answer)/dk: columns add up to 0, softmax does not see what all keys share", grads[1], dk) ||
        take("d(last answer)/dv: the last row of the weights, in every column", grads[2], dv)) {
        fprintf(stderr, "%s\n", lab_last_message());
        return 1;
    }
    printf("largest weight %.3f on average, entropy %.3f\n", stats.p_max.mean, stats.entropy.mean);

    double by_hand[D], worst = 0;
    last_query_by_hand(p, keys, values, by_hand);
    for (int c = 0; c < D; c++)
        worst = fmax(worst, fabs(by_hand[c] - dq[TOKENS - 1][c]));
    printf("the formula by hand gives the same dq, to %.1e\n", worst);
    lab_graph_destroy(&g);
    return !(worst < 1e-14);
}
