/* SPDX-License-Identifier: MIT */
/** @file
 * llmlab.h - tensors, reverse-mode derivatives, and attention, in C.
 *
 *     #include <llmlab.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         lab_graph *g = lab_graph_create(NULL);
 *         lab_tensor *q = lab_randn(g, LAB_F32, 4, (int64_t[]){1, 8, 128, 64}, 1);
 *         lab_tensor *k = lab_randn(g, LAB_F32, 4, (int64_t[]){1, 8, 128, 64}, 2);
 *         lab_tensor *v = lab_randn(g, LAB_F32, 4, (int64_t[]){1, 8, 128, 64}, 3);
 *         lab_tensor *y = lab_attention(g, q, k, v, &(lab_attention_opts){.causal = LAB_CAUSAL_TOP_LEFT});
 *         lab_tensor *dq;
 *         lab_grad(g, lab_sum_all(g, y), NULL, 1, &q, &dq, NULL);
 *         if (lab_graph_status(g) != LAB_OK)
 *             fprintf(stderr, "%s\n", lab_graph_message(g));
 *         lab_graph_destroy(&g);
 *     }
 *
 * Three ideas carry the rest:
 *   - A graph is a tape and a memory. Ops take it first, compute at once, and leave their results on it.
 *   - What you create you free; what an op returns belongs to its graph, until reset or destroy.
 *   - The graph keeps the first failure; every later op on it returns NULL. Ask once, at the end.
 *
 * Then: ops.h for what there is to compute with, attention.h and layers.h for transformers, tensor.h and graph.h for
 * who owns what, and the folder examples/.
 */
#ifndef LLMLAB_H
#define LLMLAB_H

#include "llmlab/attention.h"
#include "llmlab/check.h"
#include "llmlab/checkpoint_file.h"
#include "llmlab/gpt.h"
#include "llmlab/graph.h"
#include "llmlab/init.h"
#include "llmlab/layers.h"
#include "llmlab/linalg.h"
#include "llmlab/op.h"
#include "llmlab/ops.h"
#include "llmlab/optim.h"
#include "llmlab/position.h"
#include "llmlab/pretrained.h"
#include "llmlab/runtime.h"
#include "llmlab/spectral.h"
#include "llmlab/safetensors.h"
#include "llmlab/status.h"
#include "llmlab/tensor.h"

#endif
