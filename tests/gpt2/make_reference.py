#!/usr/bin/env python3
"""make_reference.py: small random models of transformers, and the logits that it computes from them.

Writes beside itself the folders gpt2/ and llama/, each with config.json, model.safetensors and reference.json
({"tokens": [[...], ...], "logits": [[[...], ...], ...]}). They are committed: this program runs only when they are to be
made anew, with torch and transformers at hand.

    make_reference.py [--check FOLDER]

With --check it opens a folder that lab_gpt_export has written, and prints the largest difference of the logits from
FOLDER/reference.json's.
"""
import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).parent


def configs():
    yield "gpt2", GPT2LMHeadModel, GPT2Config(vocab_size=61, n_positions=24, n_embd=32, n_layer=2, n_head=4,
                                              attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)
    yield "llama", LlamaForCausalLM, LlamaConfig(vocab_size=61, max_position_embeddings=24, hidden_size=32,
                                                 num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                                 intermediate_size=44, rope_theta=500.0, tie_word_embeddings=False)


def logits_of(model, tokens):
    with torch.no_grad():
        return model.eval()(torch.tensor(tokens)).logits.tolist()


def make():
    torch.manual_seed(8)
    for name, kind, config in configs():
        model = kind(config)
        for parameter in model.parameters():  # biases and gains too, and large enough to tell mistakes apart
            torch.nn.init.normal_(parameter, std=0.3)
        tokens = torch.randint(0, 61, (2, 17)).tolist()
        model.save_pretrained(HERE / name, safe_serialization=True)
        (HERE / name / "generation_config.json").unlink(missing_ok=True)
        reference = {"tokens": tokens, "logits": logits_of(model, tokens)}
        (HERE / name / "reference.json").write_text(json.dumps(reference) + "\n")


def check(folder):
    reference = json.loads((folder / "reference.json").read_text())
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    print({key: sorted(names) for key, names in report.items() if names} or "every weight has found its place")
    got, want = torch.tensor(logits_of(model, reference["tokens"])), torch.tensor(reference["logits"])
    print("largest difference of the logits", (got - want).abs().max().item(), "largest logit", want.abs().max().item())


if __name__ == "__main__":
    check(pathlib.Path(sys.argv[2])) if sys.argv[1:2] == ["--check"] else make()
