/* SPDX-License-Identifier: MIT
 * llmlab/pretrained.h - models as Hugging Face's transformers keeps them: a folder with config.json and
 * model.safetensors.
 *
 *     lab_gpt model;
 *     status = lab_gpt_import(&model, "gpt2", LAB_F32);      what save_pretrained("gpt2") has written
 *     ...
 *     status = lab_gpt_export(&model, "mine");               for GPT2LMHeadModel.from_pretrained("mine")
 *
 * Two layouts: gpt2 (transformer.h.0.attn.c_attn.weight, ...: linear weights are [in, out], queries, keys and values
 * are one) and llama (model.layers.0.self_attn.q_proj.weight, ...).
 */
#ifndef LLMLAB_PRETRAINED_H
#define LLMLAB_PRETRAINED_H

#include "gpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A model out of a folder.
 *
 * @param out     receives the model, which the caller owns (lab_gpt_free); all zero on failure
 * @param folder  with config.json, whose model_type is gpt2 or llama, and model.safetensors: f32, f16, bf16, or what
 *                else the dtype holds. Tensors that the model has no use for are left alone.
 * @param dtype   LAB_F32 or LAB_F64
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL), LAB_ERR_IO (a file cannot be opened), LAB_ERR_FORMAT (config.json lacks a
 *         number; a tensor is missing or of another shape; what lab_safetensors_open says), LAB_ERR_UNSUPPORTED (a
 *         setting that lab_gpt does not have, by its name), and what lab_gpt_init fails with
 */
LAB_API LAB_CHECKED lab_status lab_gpt_import(lab_gpt *out, const char *folder, lab_dtype dtype);

/**
 * A folder for transformers. Each of its two files is replaced as a whole (lab_safetensors_save).
 *
 * A model with learned positions, LayerNorm and GELU becomes a gpt2, where biases that it does not have are zeros; one
 * with LAB_ROPE_HALVES, RMSNorm and the gated MLP, without biases, a llama.
 *
 * @param x       the model; stays the caller's, as it is
 * @param folder  which must be there
 * @return LAB_OK; LAB_ERR_ARGUMENT (NULL), LAB_ERR_UNSUPPORTED (neither of the two, and why), LAB_ERR_IO,
 *         LAB_ERR_MEMORY
 */
LAB_API LAB_CHECKED lab_status lab_gpt_export(lab_gpt *x, const char *folder);

#ifdef __cplusplus
}
#endif
#endif
