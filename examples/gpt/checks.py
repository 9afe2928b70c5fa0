"""checks.py - what the checks share: running a program, a line for each thing checked, a checkpoint's head."""
import hashlib
import json
import struct
import subprocess

failed = 0


def say(good, what, detail=""):
    global failed
    failed += not good
    print(("ok      " if good else "FAILED  ") + what, flush=True)
    if not good:
        print(detail, flush=True)
    return good


def run(*command, **more):
    return subprocess.run([str(part) for part in command], capture_output=True, timeout=600, check=False, **more)


def digest(folder):
    return hashlib.sha256((folder / "checkpoint.safetensors").read_bytes()).hexdigest()


def log_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def head_of(folder):
    """The header of the folder's checkpoint, and how many bytes of tensors follow it."""
    data = (folder / "checkpoint.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + length]), len(data) - 8 - length


def step_of(folder):
    return json.loads(head_of(folder)[0]["__metadata__"]["progress"])["step"]
