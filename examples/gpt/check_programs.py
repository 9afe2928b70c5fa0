"""check_programs.py GPT_TRAIN GPT_SAMPLE GPT_INSPECT: the programs as people use them, on a small text.

Trains, stops, goes on: the checkpoint has the bytes of a run that never stopped. Samples: the same seed gives the same
text, with the cache and without, on one thread and on two. What makes no sense is named, changes nothing, and ends with
status 2.
"""
import hashlib
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

TRAIN, SAMPLE, INSPECT = sys.argv[1:4]
TEXT = "It is a truth universally acknowledged, that a single man in possession of a good fortune — ☃ — must want. " * 40
SMALL = ["--layers", "2", "--width", "16", "--heads", "2", "--context", "16", "--batch", "4", "--warmup", "4",
         "--dropout", "0.1", "--log-every", "2", "--eval-every", "8"]
failed = 0


def say(good, what, detail=""):
    global failed
    failed += not good
    print(("ok      " if good else "FAILED  ") + what, flush=True)
    if not good:
        print(detail)


def run(*command, **more):
    return subprocess.run([str(part) for part in command], capture_output=True, timeout=300, **more)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def train(out, *options, **more):
    return run(TRAIN, "--text", out.parent / "text", "--out", out, *SMALL, *options, **more)


def training(work):
    done = train(work / "whole", "--steps", "24")
    say(done.returncode == 0 and b"step 24: training" in done.stdout, "24 steps", done.stderr)
    say((work / "whole/loss.svg").read_text().endswith("</svg>\n"), "a plot")
    lines = [json.loads(line) for line in (work / "whole/log.jsonl").read_text().splitlines()]
    say([line["step"] for line in lines] == list(range(2, 25, 2)), "a line of the log every two steps", lines)
    say(all(set(line) == {"step", "train_loss", "val_loss", "lr", "grad_norm", "tokens_per_s", "attention"}
            for line in lines), "all keys in every line")
    say(lines[-1]["val_loss"] < lines[3]["val_loss"] and len(lines[-1]["attention"]) == 2, "it learns", lines[-1])


def stopping(work):
    """A signal after some steps; then the rest. The note remembers the settings, so all options stay away."""
    process = subprocess.Popen([TRAIN, "--text", str(work / "text"), "--out", str(work / "stopped"), *SMALL, "--steps",
                                "400", "--threads", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    log = work / "stopped/log.jsonl"
    end = time.monotonic() + 120
    while time.monotonic() < end and not (log.exists() and log.stat().st_size):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    steps = json.loads(log.read_text().splitlines()[-1])["step"]
    say(process.returncode == 130 and steps < 400, f"SIGINT after {steps} steps, status {process.returncode}")
    done = run(TRAIN, "--resume", "--text", work / "text", "--out", work / "stopped")
    say(done.returncode == 0, "the rest of 400 steps", done.stderr)
    whole = train(work / "400", "--steps", "400")
    say(whole.returncode == 0 and digest(work / "400/checkpoint.safetensors") == digest(
        work / "stopped/checkpoint.safetensors"), "the same bytes as without a stop, on other threads")


def sampling(work):
    def sample(*options):
        done = run(SAMPLE, work / "400", "--tokens", "60", "--prompt", "a good ", *options)
        return done.stdout if done.returncode == 0 else done.stderr

    usual = sample("--seed", "5")
    say(usual.startswith(b"a good ") and len(usual.decode()) == 7 + 60 + 1, "60 characters", usual)
    say(sample("--seed", "5", "--threads", "1") == usual, "the same seed: the same text on one thread")
    say(sample("--seed", "5", "--no-cache") == usual, "the same text without the cache")
    say(sample("--seed", "6") != usual, "another seed: another text")
    greedy = sample("--temperature", "0")
    say(sample("--top-k", "1") == greedy == sample("--top-p", "1e-9") == sample("--temperature", "0", "--no-cache"),
        "the likeliest token: by temperature, top-k, top-p, with and without a cache", greedy)
    done = run(INSPECT, work / "400", "--text", work / "text")
    say(done.returncode == 0 and b"block.1.attn.k.weight" in done.stdout and b"singular values" in done.stdout,
        "gpt_inspect", done.stderr)


def bad_input(work):
    checkpoint = work / "whole/checkpoint.safetensors"
    before = digest(checkpoint)
    whole = checkpoint.read_bytes()
    for name, data in ("cut", whole[:-1]), ("short", whole[:7]), ("hostile", b"\xff" * 8 + whole[8:]):
        (work / name).mkdir()
        (work / name / "checkpoint.safetensors").write_bytes(data)
    (work / "empty").write_bytes(b"")
    (work / "latin1").write_bytes(b"caf\xe9 " * 100)
    text = work / "text"
    missing, folder = work / "no such file", work / "whole"
    cases = [
        ("no arguments", [TRAIN], b"--out"),
        ("no text", [TRAIN, "--out", work / "new"], b"--text"),
        ("a missing text", [TRAIN, "--text", missing, "--out", work / "new"], b"no such file"),
        ("an empty text", [TRAIN, "--text", work / "empty", "--out", work / "new"], b"empty"),
        ("a text that is no UTF-8", [TRAIN, "--text", work / "latin1", "--out", work / "new"], b"byte 3"),
        ("a text that is too short", [TRAIN, "--text", text, "--out", work / "new", "--context", "4000"], b"too few"),
        ("an option that there is not", [TRAIN, "--colour", "red"], b"--colour"),
        ("a number that is none", [TRAIN, "--steps", "many"], b"many"),
        ("a preset that there is not", [TRAIN, "--preset", "gpt5"], b"gpt5"),
        ("a kind that there is not", [TRAIN, "--text", text, "--out", work / "new", "--norm", "batch"], b"batch"),
        ("heads that do not divide", [TRAIN, "--text", text, "--out", work / "new", "--heads", "3"], b"heads"),
        ("a folder that cannot be made", [TRAIN, "--text", text, "--out", work / "text/x"], b"text/x"),
        ("a folder with a checkpoint", [TRAIN, "--text", text, "--out", folder], b"--resume"),
        ("nothing to go on from", [TRAIN, "--resume", "--text", text, "--out", work / "new"], b"new/checkpoint"),
        ("a checkpoint of another shape", [TRAIN, "--resume", "--text", text, "--out", folder, "--width", "32"], b"width"),
        ("a checkpoint that is cut off", [TRAIN, "--resume", "--text", text, "--out", work / "cut"], b"past the end"),
        ("a checkpoint of 7 bytes", [TRAIN, "--resume", "--text", text, "--out", work / "short"], b"7 bytes"),
        ("a hostile checkpoint", [SAMPLE, work / "hostile"], b"header length"),
        ("another text's characters", [SAMPLE, folder, "--prompt", "Ж"], "Ж".encode()),
        ("no folder", [SAMPLE], b"DIR"),
        ("an empty prompt", [SAMPLE, folder, "--prompt", ""], b"prompt"),
        ("a temperature below 0", [SAMPLE, folder, "--temperature", "-1"], b"--temperature"),
        ("a missing checkpoint", [INSPECT, work / "new"], b"checkpoint.safetensors"),
        ("a missing text to inspect on", [INSPECT, folder, "--text", missing], b"no such file"),
    ]
    for what, command, word in cases:
        done = run(*command)
        say(done.returncode == 2 and word in done.stderr, what, f"{done.returncode}: {done.stderr}")
    say(digest(checkpoint) == before and (work / "cut/checkpoint.safetensors").read_bytes() == whole[:-1],
        "nothing was overwritten")
    done = train(work / "full", "--steps", "8", "--rate", "1e30", "--warmup", "0", "--clip", "0")
    say(done.returncode == 1 and b"the loss is" in done.stderr and b" gave f32 [" in done.stderr,
        "a loss that is not finite names the op that made it", f"{done.returncode}: {done.stderr}")


with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder)
    (place / "text").write_text(TEXT, encoding="utf-8")
    training(place)
    stopping(place)
    sampling(place)
    bad_input(place)
sys.exit(failed > 0)
