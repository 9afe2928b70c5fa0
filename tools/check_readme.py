#!/usr/bin/env python3
"""Programs in the README are programs: each C block is, to the letter, a file in examples/, which is built and run.

With a build folder, its commands are commands too: the library is installed into an empty folder, the first program is
written as first.c, and each command that calls the compiler is run as it stands; so is the program that comes out.
(What setup.sh does is typed by .ci/run, and nothing here is installed into the system.)

usage: check_readme.py SOURCE_ROOT [BUILD]
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def installed_environment(build, prefix):
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", prefix], check=True,
                   stdout=subprocess.DEVNULL)
    package = next(pathlib.Path(prefix).rglob("llmlab.pc"))
    return dict(os.environ, PKG_CONFIG_PATH=str(package.parent), PKG_CONFIG_SYSROOT_DIR=prefix,
                LD_LIBRARY_PATH=str(package.parent.parent))


def run_commands(text, build):
    """Runs the compiler's commands; returns how many there were, and how many failed."""
    with tempfile.TemporaryDirectory() as work:
        environment = installed_environment(build, os.path.join(work, "prefix"))
        pathlib.Path(work, "first.c").write_text(blocks(text, "c")[0], encoding="utf-8")
        commands = [line for block in blocks(text, "sh") for line in block.splitlines() if re.match(r"(cc|c\+\+) ", line)]
        failed = 0
        for command in commands:
            program = re.search(r"-o (\w+)", command).group(1)
            done = subprocess.run(f"{command} && ./{program}", shell=True, cwd=work, env=environment)
            failed += done.returncode != 0
            print(("FAILED  " if done.returncode else "ok      ") + command, flush=True)
        return len(commands), failed


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    root = pathlib.Path(sys.argv[1])
    text = (root / "README.md").read_text(encoding="utf-8")
    programs = blocks(text, "c")
    examples = [path.read_text(encoding="utf-8") for path in sorted((root / "examples").glob("*.c"))]
    lost = [program for program in programs if not any(program in example for example in examples)]
    print(*lost, sep="\n")
    print(f"{len(programs)} C programs in the README, {len(lost)} of them not in examples/")
    wrong = bool(lost) or not programs
    if len(sys.argv) > 2:
        commands, failed = run_commands(text, os.path.abspath(sys.argv[2]))
        print(f"{commands} commands of the README compile a program, {failed} of them fail")
        wrong = wrong or failed > 0 or commands == 0
    return int(wrong)


sys.exit(main())
