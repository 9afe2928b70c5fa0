#!/usr/bin/env python3
"""The tests that docs/attention-contract.md names exist, and each of its clauses names one.

usage: check_contract.py SOURCE_ROOT
"""
import pathlib
import re
import sys


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    root = pathlib.Path(sys.argv[1])
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / "tests").glob("test_*.c")))
    tests = set(re.findall(r"(?:cmocka_unit_test|PROOF)\((\w+)\)", source))
    page = (root / "docs" / "attention-contract.md").read_text(encoding="utf-8")
    wrong, clauses = [], 0
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 5 or cells[1] in ("clause", "---"):
            continue
        clauses += 1
        names = re.findall(r"`(\w+)`", cells[2])
        wrong += [f"{cells[1]}: no test {name}" for name in names if name not in tests]
        wrong += [] if names else [f"{cells[1]}: names no test"]
    print(*wrong, sep="\n")
    print(f"{clauses} clauses")
    return 1 if wrong or not clauses else 0


sys.exit(main())
