#!/usr/bin/env python3
"""Public headers: every prototype has its comment, and each header compiles alone, as strict C11 and as C++.

usage: check_headers.py SOURCE_ROOT C_COMPILER [ARGS...]
"""
import pathlib
import re
import shutil
import subprocess
import sys

STRICT = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def undocumented(path):
    """A declaration starts with LAB_API; the line before it must end a comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        before = lines[number - 1].rstrip() if number else ""
        if re.match(r"LAB_API\b", line) and not before.endswith("*/"):
            yield f"{path.name}:{number + 1}: no comment before: {line}"
        continued = before.startswith("LAB_API") and not before.endswith(";")
        if re.match(r"(?!LAB_API|typedef|static)\w[^=]*\blab_\w+\s*\([^)]*\)", line) and not continued:
            yield f"{path.name}:{number + 1}: a prototype without LAB_API: {line}"


def does_not_compile(path, root, compiler, language):
    command = [*compiler, "-x", *language, *STRICT, "-I", str(root / "include"), "-"]
    program = f'#include "{path.relative_to(root / "include").as_posix()}"\n'
    result = subprocess.run(command, input=program * 2, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        yield f"{path.name} does not compile alone ({' '.join(command)}):\n{result.stderr}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    compilers = [(sys.argv[2:], ["c", "-std=c11"])]
    cxx = next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), None)
    if cxx:
        compilers.append(([cxx], ["c++", "-std=c++11"]))
    headers = sorted((root / "include").rglob("*.h"))
    found = []
    for path in headers:
        found += undocumented(path)
        for compiler, language in compilers:
            found += does_not_compile(path, root, compiler, language)
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(headers)} headers, {len(found)} complaints" + ("" if cxx else " (C++ not tried: no compiler)"))
    return 1 if found or not headers else 0


sys.exit(main())
