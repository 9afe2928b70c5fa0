"""check_programs.py GPT_TRAIN GPT_SAMPLE GPT_INSPECT: the programs as people use them, on a small text.

Trains, stops, goes on: the checkpoint has the bytes of a run that never stopped. Samples: the same seed gives the same
text, with the cache and without, on one thread and on two. A disk that is full costs what is not written, and no more.
What makes no sense is named, changes nothing, and ends with status 2.
"""
import json
import os
import pathlib
import pty
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time

import checks
from checks import digest, head_of, log_of, run, say, step_of

TRAIN, SAMPLE, INSPECT = sys.argv[1:4]
TEXT = "It is a truth universally acknowledged, that a single man in possession of a good fortune — ☃ — must. " * 40
SMALL = ["--layers", "2", "--width", "16", "--heads", "2", "--context", "16", "--batch", "4", "--warmup", "4",
         "--dropout", "0.1", "--log-every", "2", "--eval-every", "8"]


def train(out, *options, **more):
    return run(TRAIN, "--text", out.parent / "text", "--out", out, *SMALL, *options, **more)


def training(work):
    done = train(work / "whole", "--steps", "24")
    say(done.returncode == 0 and b"step 24: training" in done.stdout, "24 steps", done.stderr)
    say(re.search(rb"\[#+\] 24/24  loss [\d.]+  \d+ tokens/s  \d+ % of FMA peak  0:00 left", done.stderr),
        "a bar: loss, tokens/s, share of the peak, time left", done.stderr)
    say((work / "whole/loss.svg").read_text().endswith("</svg>\n"), "a plot")
    lines = log_of(work / "whole")
    say([line["step"] for line in lines] == list(range(2, 25, 2)), "a line of the log every two steps", lines)
    say(all(set(line) == {"step", "train_loss", "val_loss", "lr", "grad_norm", "tokens_per_s", "attention"}
            for line in lines), "all keys in every line")
    say(lines[-1]["val_loss"] < lines[3]["val_loss"] and len(lines[-1]["attention"]) == 2 and
        all(0 < layer["largest_weight"] <= 1 and 0 < layer["entropy"] < 3 for layer in lines[-1]["attention"]),
        "it learns; each layer's largest weight and entropy", lines[-1])
    header, size = head_of(work / "whole")
    ends = sorted(t["data_offsets"] for name, t in header.items() if name != "__metadata__")
    say(header["model.token.weight"]["shape"] == [len(set(TEXT)), 16] and ends[0][0] == 0 and ends[-1][1] == size and
        all(a[1] == b[0] for a, b in zip(ends, ends[1:])), "the checkpoint is a safetensors file", header)


def bar_on_a_terminal(work):
    ours, theirs = pty.openpty()
    with subprocess.Popen([TRAIN, "--text", str(work / "text"), "--out", str(work / "bar"), *SMALL, "--steps", "24"],
                          stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while more := os.read(ours, 4096):
                shown += more
        except OSError:  # the program has closed its side
            pass
    os.close(ours)
    say(process.returncode == 0 and re.search(rb"\r\[#+\.*\] \d+/24  loss [\d.]+ .* left\x1b\[K", shown),
        "on a terminal the bar is one line, written over", shown)


def start(out, *options):
    """A run, when its first line is in the log. (The first run's, if it is to go on.)"""
    known = (out / "log.jsonl").stat().st_size if (out / "log.jsonl").exists() else 0
    process = subprocess.Popen([TRAIN, "--text", str(out.parent / "text"), "--out", str(out), *options],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    end = time.monotonic() + 120
    while time.monotonic() < end and not ((out / "log.jsonl").exists() and (out / "log.jsonl").stat().st_size > known):
        time.sleep(0.01)
    return process


def stopping(work):
    """A signal after some steps, another after some more; then the rest. The note remembers the settings, so all
    options stay away."""
    out = work / "stopped"
    first, then = [*SMALL, "--steps", "400", "--threads", "1"], ["--resume"]
    for number, options in (signal.SIGINT, first), (signal.SIGTERM, then):
        process = start(out, *options)
        process.send_signal(number)
        process.communicate(timeout=120)
        last = log_of(out)[-1]["step"]
        say(process.returncode == 128 + number and step_of(out) == last < 400,
            f"{number.name} after {last} steps: status {process.returncode}, a checkpoint of this step", step_of(out))
    done = run(TRAIN, "--resume", "--text", work / "text", "--out", out)
    say(done.returncode == 0, "the rest of 400 steps", done.stderr)
    whole = train(work / "400", "--steps", "400")
    say(whole.returncode == 0 and digest(work / "400") == digest(out),
        "the same bytes as without a stop, on other threads")


def full_disk(work):
    """No file may grow beyond a few bytes more than the log has: as where a disk fills while training goes on."""
    out = work / "disk"
    train(out, "--steps", "40", "--stop-at", "20", "--checkpoint-every", "8")
    before, lines, room = digest(out), len(log_of(out)), (out / "log.jsonl").stat().st_size + 10

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    # A build that counts its lines would cut its own counters off as well: they go where nobody reads them.
    elsewhere = {**os.environ, "GCOV_PREFIX": str(work / "counters")}
    done = train(out, "--resume", preexec_fn=fill, restore_signals=False, env=elsewhere)
    say(done.returncode == 1 and b"step 40: training" in done.stdout and done.stderr.count(b"training goes on") == 1 and
        done.stderr.count(b"the checkpoint is not written (the one before stays)") == 3,
        "a full disk: training goes on to its end, and what is not written is told", f"{done}")
    names = sorted(path.name for path in out.iterdir())
    say(digest(out) == before and len(log_of(out)) == lines and
        names == ["checkpoint.safetensors", "log.jsonl", "loss.svg"], "... all files are as they were before", names)
    done = train(out, "--resume")
    train(work / "room", "--steps", "40", "--checkpoint-every", "8")
    say(done.returncode == 0 and digest(out) == digest(work / "room"), "... with room again, it is made up for",
        done.stderr)


def sampling(work):
    def sample(*options, of="400", prompt="a good "):
        done = run(SAMPLE, work / of, "--tokens", "60", "--prompt", prompt, *options)
        return done.stdout if done.returncode == 0 else done.stderr

    usual = sample("--seed", "5")
    say(usual.startswith(b"a good ") and len(usual.decode()) == 7 + 60 + 1, "60 characters", usual)
    say(sample("--seed", "5", "--threads", "1") == usual, "the same seed: the same text on one thread")
    say(sample("--seed", "5", "--no-cache") == usual, "the same text without the cache")
    say(sample("--seed", "6") != usual, "another seed: another text")
    greedy = sample("--temperature", "0")
    say(sample("--top-k", "1") == greedy == sample("--top-p", "1e-9") == sample("--temperature", "0", "--no-cache"),
        "the likeliest token: by temperature, top-k, top-p, with and without a cache", greedy)
    numbers = sample(of="u16", prompt="0 5 63").split()
    say(numbers[:3] == [b"0", b"5", b"63"] and len(numbers) == 63 and all(0 <= int(n) < 64 for n in numbers),
        "numbers, where tokens have no characters", numbers)
    done = run(INSPECT, work / "400", "--text", work / "text", "--export", work / "exported")
    config = json.loads((work / "exported/config.json").read_text()) if done.returncode == 0 else {}
    say(config.get("model_type") == "gpt2" and
        (work / "exported/model.safetensors").stat().st_size > 4 * 2 * 12 * 16 * 16, "gpt_inspect exports", config)
    say(done.returncode == 0 and b"block.1.attn.k.weight" in done.stdout and b"singular values" in done.stdout and
        b"saturated rows" in done.stdout, "gpt_inspect", done.stderr)


def other_ways(work):
    """Token files, bytes, a file of settings, blocks computed again: what must come to the same comes to the same."""
    tokens = [(7 * i * i + i // 5) % 64 for i in range(4000)]
    (work / "u16.bin").write_bytes(struct.pack("<4000H", *tokens))
    (work / "u32.bin").write_bytes(struct.pack("<4000I", *tokens))
    (work / "settings.json").write_text(json.dumps({"layers": 2, "width": 16, "heads": 2, "context": 16, "batch": 4,
                                                    "warmup": 4, "dropout": 0.1, "log-every": 2, "eval-every": 8,
                                                    "steps": 24, "rate": 3}))

    def losses(out, *options):
        done = run(TRAIN, "--out", work / out, *options)
        lines = log_of(work / out) if done.returncode == 0 else done.stderr
        return [(line["train_loss"], line["val_loss"]) for line in lines] if done.returncode == 0 else lines

    short = losses("u16", "--tokens", work / "u16.bin", *SMALL, "--steps", "8")
    long = losses("u32", "--tokens", work / "u32.bin", "--token-type", "u32", *SMALL, "--steps", "8")
    say(len(short) == 4 and short == long, "token files of 16 and 32 bits", (short, long))
    (work / "bytes").write_bytes(bytes(tokens[i] * 4 for i in range(4000)))
    say(len(losses("of bytes", "--text", work / "bytes", "--bytes", *SMALL, "--steps", "8")) == 4 and
        head_of(work / "of bytes")[0]["model.token.weight"]["shape"] == [256, 16], "bytes, whatever they mean")
    losses("rope", "--text", work / "text", *SMALL, "--steps", "2", "--positions", "rope")
    want = [(line["train_loss"], line["val_loss"]) for line in log_of(work / "whole")]
    got = losses("by file", "--text", work / "text", "--config", work / "settings.json", "--rate", "1e-3")
    say(got == want, "settings from a file, and options over them", (got, want))
    got = losses("again", "--text", work / "text", *SMALL, "--steps", "24", "--recompute")
    say(got == want, "blocks that are computed again: the same bits", (got, want))
    got = losses("parts", "--text", work / "text", *SMALL, "--steps", "24", "--batch", "2", "--accumulate", "2",
                 "--dropout", "0")
    want = losses("no parts", "--text", work / "text", *SMALL, "--steps", "24", "--dropout", "0")
    say(all(abs(a[0] - b[0]) < 1e-4 for a, b in zip(got, want, strict=True)), "a batch in two parts: the same loss",
        (got, want))


def bad_input(work):
    before = digest(work / "whole")
    whole = (work / "whole/checkpoint.safetensors").read_bytes()
    for name, data in ("cut", whole[:-1]), ("short", whole[:7]), ("hostile", b"\xff" * 8 + whole[8:]):
        (work / name).mkdir()
        (work / name / "checkpoint.safetensors").write_bytes(data)
    for name, data in {"empty": b"", "latin1": b"caf\xe9 " * 100, "odd": b"\1\0" * 100 + b"\1", "list.json": b"[]",
                       "colour.json": b'{"colour": "red"}', "kind.json": b'{"steps": "many"}',
                       "cut.json": b'{"steps": 1'}.items():
        (work / name).write_bytes(data)
    text, numbers, new = work / "text", work / "u16.bin", work / "new"
    own = ["--text", text, "--out", new]
    missing, folder = work / "no such file", work / "whole"
    cases = [
        ("no arguments", [TRAIN], b"--out"),
        ("no text", [TRAIN, "--out", new], b"--text"),
        ("a missing text", [TRAIN, "--text", missing, "--out", new], b"no such file"),
        ("an empty text", [TRAIN, "--text", work / "empty", "--out", new], b"empty"),
        ("a text that is no UTF-8", [TRAIN, "--text", work / "latin1", "--out", new], b"byte 3"),
        ("a text that is too short", [TRAIN, *own, "--context", "4000"], b"too few"),
        ("a token and a half", [TRAIN, "--tokens", work / "odd", "--out", new], b"odd"),
        ("tokens beyond the vocabulary", [TRAIN, "--tokens", numbers, "--vocabulary", "60", "--out", new], b"63"),
        ("tokens of no known type", [TRAIN, "--tokens", numbers, "--token-type", "u8", "--out", new], b"u8"),
        ("an option that there is not", [TRAIN, "--colour", "red"], b"--colour"),
        ("a number that is none", [TRAIN, "--steps", "many"], b"many"),
        ("a preset that there is not", [TRAIN, "--preset", "gpt5"], b"gpt5"),
        ("a missing file of settings", [TRAIN, "--config", missing, *own], b"no such file"),
        ("settings that are cut off", [TRAIN, "--config", work / "cut.json", *own], b"cut.json"),
        ("settings that are a list", [TRAIN, "--config", work / "list.json", *own], b"no object"),
        ("a setting that there is not", [TRAIN, "--config", work / "colour.json", "--out", new], b'"colour"'),
        ("a setting of another kind", [TRAIN, "--config", work / "kind.json", "--out", new], b'"steps"'),
        ("a kind that there is not", [TRAIN, *own, "--norm", "batch"], b"batch"),
        ("heads that do not divide", [TRAIN, *own, "--heads", "3"], b"heads"),
        ("a folder that cannot be made", [TRAIN, "--text", text, "--out", work / "text/x"], b"text/x"),
        ("a folder that cannot be written to", [TRAIN, "--text", text, "--out", "/proc/self"], b"cannot be written to"),
        ("a folder with a checkpoint", [TRAIN, "--text", text, "--out", folder], b"--resume"),
        ("nothing to go on from", [TRAIN, "--resume", "--text", text, "--out", new], b"new/checkpoint"),
        ("a checkpoint of another shape",
         [TRAIN, "--resume", "--text", text, "--out", folder, "--width", "32"], b"width"),
        ("a checkpoint that is cut off", [TRAIN, "--resume", "--text", text, "--out", work / "cut"], b"past the end"),
        ("a checkpoint of 7 bytes", [TRAIN, "--resume", "--text", text, "--out", work / "short"], b"7 bytes"),
        ("a hostile checkpoint", [SAMPLE, work / "hostile"], b"header length"),
        ("another text's characters", [SAMPLE, folder, "--prompt", "Ж"], "Ж".encode()),
        ("characters for a model of numbers", [SAMPLE, work / "u16", "--prompt", "ROMEO"], b"0 to 63"),
        ("a number that is no token", [SAMPLE, work / "u16", "--prompt", "5 64"], b"0 to 63"),
        ("no folder", [SAMPLE], b"DIR"),
        ("an empty prompt", [SAMPLE, folder, "--prompt", ""], b"prompt"),
        ("a temperature below 0", [SAMPLE, folder, "--temperature", "-1"], b"--temperature"),
        ("a missing checkpoint", [INSPECT, new], b"checkpoint.safetensors"),
        ("a missing text to inspect on", [INSPECT, folder, "--text", missing], b"no such file"),
        ("a folder to export to that cannot be made", [INSPECT, folder, "--export", work / "text/x"], b"text/x"),
        ("a model that transformers lacks", [INSPECT, work / "rope", "--export", work / "exported"], b"--export"),
        ("a text for a model of numbers", [INSPECT, work / "u16", "--text", text], b"token file"),
    ]
    for what, command, word in cases:
        done = run(*command)
        say(done.returncode == 2 and word in done.stderr, what, f"{done.returncode}: {done.stderr}")
    say(digest(work / "whole") == before and (work / "cut/checkpoint.safetensors").read_bytes() == whole[:-1],
        "nothing was overwritten")
    done = train(work / "full", "--steps", "8", "--rate", "1e30", "--warmup", "0", "--clip", "0")
    say(done.returncode == 1 and re.search(
        rb"step \d: the loss is \S+\. \w+ gave f32 \[[\d, ]+\].* out of operand 1 f32 \[[\d, ]+\] from \S+ to \S+",
        done.stderr), "a loss that is not finite: the op that made it, its operands' shapes and ranges", f"{done}")


with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder)
    (place / "text").write_text(TEXT, encoding="utf-8")
    for part in training, bar_on_a_terminal, stopping, full_disk, other_ways, sampling, bad_input:
        part(place)
sys.exit(checks.failed > 0)
