// The first program of the README from C++17: the same calls.
#include <array>
#include <cstdio>
#include <llmlab.h>

int main()
{
    const std::array<int64_t, 4> shape{1, 8, 128, 64};
    lab_graph *g = lab_graph_create(nullptr);
    lab_tensor *q = lab_randn(g, LAB_F32, 4, shape.data(), 1);
    lab_tensor *k = lab_randn(g, LAB_F32, 4, shape.data(), 2);
    lab_tensor *v = lab_randn(g, LAB_F32, 4, shape.data(), 3);
    lab_attention_opts opts{};
    opts.causal = LAB_CAUSAL_TOP_LEFT;
    lab_tensor *y = lab_attention(g, q, k, v, &opts);
    lab_tensor *dq = nullptr;
    const lab_status status = lab_grad(g, lab_sum_all(g, y), nullptr, 1, &q, &dq, nullptr);
    if (status != LAB_OK)
        std::fprintf(stderr, "%s\n", lab_graph_message(g));
    else
        std::printf("%d heads, %d tokens; d sum(y) / d q begins with %g, ends with %g\n",
                    static_cast<int>(lab_tensor_size(y, 1)), static_cast<int>(lab_tensor_size(y, 2)),
                    *static_cast<float *>(lab_tensor_data(dq)),
                    static_cast<float *>(lab_tensor_data(dq))[lab_tensor_numel(dq) - 1]);
    lab_graph_destroy(&g);
    return status != LAB_OK;
}
