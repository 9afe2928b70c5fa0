#!/usr/bin/env python3
"""Programs in the README are programs: each C block is, to the letter, a file in examples/, which is built and run.

usage: check_readme.py SOURCE_ROOT
"""
import pathlib
import re
import sys


def main():
    root = pathlib.Path(sys.argv[1])
    blocks = re.findall(r"^```c\n(.*?)^```", (root / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    examples = [path.read_text(encoding="utf-8") for path in sorted((root / "examples").glob("*.c"))]
    lost = [block for block in blocks if not any(block in example for example in examples)]
    print(*lost, sep="\n")
    print(f"{len(blocks)} C programs in the README, {len(lost)} of them not in examples/")
    return 1 if lost or not blocks else 0


sys.exit(main())
