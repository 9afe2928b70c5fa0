"""check_training.py GPT_TRAIN GPT_SAMPLE GPT_INSPECT: fifty steps of the small GPT on a text that is here, held to
losses that are written down; and what the README says to type, on a fresh clone.

The losses are those of AVX2's kernels on OpenBLAS. Other kernels and another BLAS sum in another order: after fifty
steps AVX-512, the plain level, OpenBLAS's kernels for Cooper Lake, Haswell and Nehalem, BLIS, and the reference BLAS had
the same nine digits.
A rate 1 % higher is off by 1e-3, a decay of 0.11 for 0.1 by 1e-5.
"""
import pathlib
import re
import sys
import tempfile

import checks
from checks import digest, log_of, run, say, step_of

TRAIN, SAMPLE, INSPECT = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = ROOT / "examples/gpt/coriolanus.txt"
SETTINGS = ["--preset", "nano", "--steps", "50", "--warmup", "10", "--log-every", "10", "--eval-every", "50"]
LOSSES = {10: 3.18939352, 20: 2.85921717, 30: 2.58989215, 40: 2.59329414, 50: 2.55443048}
VALIDATION = 2.53312666
TOLERANCE = 5e-6 # 20 units in the last place of such a loss


def losses_of(folder):
    return {line["step"]: (line["train_loss"], line["val_loss"], line["grad_norm"]) for line in log_of(folder)}


def fifty_steps(work):
    done = run(TRAIN, "--text", TEXT, "--out", work / "whole", *SETTINGS)
    got = losses_of(work / "whole") if done.returncode == 0 else {}
    if not say(list(got) == list(LOSSES), "fifty steps", done.stderr):
        return
    off = max(abs(got[step][0] - loss) for step, loss in LOSSES.items())
    off = max(off, abs(got[50][1] - VALIDATION))
    say(off < TOLERANCE, f"the losses are off by up to {off:.1e}", got)
    first = run(TRAIN, "--text", TEXT, "--out", work / "parts", *SETTINGS, "--stop-at", "25", "--threads", "1")
    stopped_at = step_of(work / "parts")
    second = run(TRAIN, "--text", TEXT, "--out", work / "parts", "--resume")
    say(first.returncode == second.returncode == 0 and stopped_at == 25, "25 steps, and 25 more",
        first.stderr + second.stderr)
    say(digest(work / "whole") == digest(work / "parts") and got == losses_of(work / "parts"),
        "the bits of fifty without a stop, also in the log")


def greedy(work):
    def sample(*options):
        return run(SAMPLE, work / "parts", "--prompt", "MENENIUS:\n", "--temperature", "0", "--tokens", "100", *options)

    done = sample()
    say(done.returncode == 0 and done.stdout.startswith(b"MENENIUS:\n") and len(done.stdout) == 10 + 100 + 1,
        "the likeliest text, past the context's end", done)
    say(sample("--no-cache", "--threads", "1").stdout == done.stdout, "the same without a cache, on one thread")


def words_of_the_readme(work):
    """To the letter, but for --steps: in a folder that has what a clone has once it is built."""
    (work / "build/examples").mkdir(parents=True)
    (work / "build/examples/gpt").symlink_to(TRAIN.parent)
    (work / "examples").symlink_to(ROOT / "examples")
    block = re.search(r"^```sh\n(build/examples/gpt/gpt_train .*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    commands = [re.sub(" +#.*", "", line) for line in block.group(1).splitlines()]
    say([re.match(r"build/examples/gpt/(\w+) ", line).group(1) for line in commands] ==
        ["gpt_train", "gpt_sample", "gpt_inspect"], "the README's words: train, sample, inspect", commands)
    for command in [commands[0] + " --steps 4", *commands[1:], commands[0] + " --resume --steps 6"]:
        done = run("sh", "-c", command, cwd=work)
        say(done.returncode == 0 and done.stdout, command, done.stderr)
    say(step_of(work / "run") == 6, "it went on to step 6")


with tempfile.TemporaryDirectory() as folder:
    for part in fifty_steps, greedy, words_of_the_readme:
        part(pathlib.Path(folder))
sys.exit(checks.failed > 0)
