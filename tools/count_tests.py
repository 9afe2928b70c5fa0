#!/usr/bin/env python3
"""Counts the test functions in meson's JSON log, and prints: PASSED FAILED SKIPPED.

A cmocka program counts with each of its functions, any other test as one. Functions that a program never came to
(it crashed, or ran out of time) have failed; so has one more where a program fails after its last function, with a
leak for instance.

usage: count_tests.py BUILD/meson-logs/testlog.json
"""
import json
import re
import sys


def count_program(run):
    output = run.get("stdout", "")  # the summaries, which say it all a second time, go to stderr
    announced = sum(int(n) for n in re.findall(r"\[={10}\] (?:.*: )?Running (\d+) test", output))
    good = run["result"] == "OK"
    if announced == 0:
        skipped = run["result"] == "SKIP"
        return int(good), int(not good and not skipped), int(skipped)
    passed = output.count("[       OK ] ")
    skipped = output.count("[  SKIPPED ] ")
    failed = announced - passed - skipped
    if failed == 0 and not good and run["result"] != "SKIP":
        failed = 1
    return passed, failed, skipped


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    totals = [0, 0, 0]
    try:
        with open(sys.argv[1], encoding="utf-8") as log:
            for line in log:
                totals = [a + b for a, b in zip(totals, count_program(json.loads(line)))]
    except (OSError, ValueError) as problem:
        print(f"count_tests.py: {problem}", file=sys.stderr)
        return 1
    print(*totals)
    return 0


sys.exit(main())
