#!/usr/bin/env python3
"""Ten steps of PyTorch's optimisers in float64, for test_optim.c: writes optim_torch.json beside this file.

A gradient is a function of the parameter, g = a p + b, so that a step's error shows in the next. Needs PyTorch, which
the project does not: the file is committed.
"""
import json
import pathlib

import torch

STEPS, SIZE = 10, 7
CASES = [
    ("SGD", {"lr": 0.1}, {"rule": "sgd"}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.05}, {"rule": "sgd"}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}, {"rule": "sgd"}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.05}, {"rule": "sgd"}),
    ("SGD", {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.05}, {"rule": "sgd"}),
    ("RMSprop", {"lr": 0.01}, {"rule": "rmsprop"}),
    ("RMSprop", {"lr": 0.01, "alpha": 0.9, "eps": 1e-3, "momentum": 0.7, "weight_decay": 0.1}, {"rule": "rmsprop"}),
    ("Adam", {"lr": 0.1}, {"rule": "adam"}),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.1}, {"rule": "adam"}),
    ("AdamW", {"lr": 0.1}, {"rule": "adamw"}),
    ("AdamW", {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.3}, {"rule": "adamw"}),
]


def config_of(cls, options, rule):
    """Every number spelled out, PyTorch's defaults included, under the names of lab_optimizer_config."""
    defaults = cls([torch.zeros(1)], **options).defaults
    config = {**rule, "rate": defaults["lr"], "decay": defaults["weight_decay"]}
    if "momentum" in defaults:
        config["momentum"] = defaults["momentum"]
    if defaults.get("nesterov"):
        config["nesterov"] = 1
    if "betas" in defaults:
        config["beta1"], config["beta2"] = defaults["betas"]
    if "alpha" in defaults:
        config["beta2"] = defaults["alpha"]
    if "eps" in defaults:
        config["eps"] = defaults["eps"]
    return config


def run(name, options, rule):
    cls = getattr(torch.optim, name)
    generator = torch.Generator().manual_seed(7)
    p0, a, b = (torch.randn(SIZE, dtype=torch.float64, generator=generator) for _ in range(3))
    p = p0.clone().requires_grad_()
    optimizer = cls([p], **options)
    after = []
    for _ in range(STEPS):
        p.grad = (a * p + b).detach()
        optimizer.step()
        after.append(p.detach().tolist())
    return {"config": config_of(cls, options, rule), "p": p0.tolist(), "a": a.tolist(), "b": b.tolist(), "after": after}


def main():
    cases = [run(*case) for case in CASES]
    lines = ",\n".join(json.dumps(case) for case in cases)
    text = f'{{"torch": "{torch.__version__}", "cases": [\n{lines}\n]}}'
    (pathlib.Path(__file__).parent / "optim_torch.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
