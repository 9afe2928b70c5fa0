#!/usr/bin/env python3
"""Public headers: every prototype has its comment, which says what a caller has to know; each header compiles alone, as
strict C11 and as C++.

What a caller has to know stands in the function's own comment, in its group's (@name ... @{), or, but for derivatives
and shapes, at the top of the header:

    a function that records on a graph    its derivative (or that it has none), shapes, who owns the result, errors
    a lab_status                          the codes; who owns what comes out
    another pointer                       who owns it
    a number, or nothing                  what NULL gives

That these words are there is checked here, that they are true is not.

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


RULES = {
    "its derivative": r"\bd\w+ = |[Dd]erivative|[Dd]ifferentiable",
    "shapes": r"\[|shape|rank",
    "who owns the result": r"\b[Oo]wn|[Ss]tatic|belongs|caller's|to be freed",
    "errors": r"LAB_ERR_|never fail|as lab_",
    "what NULL gives": r"NULL|[Ss]ettings|never fail",
}


def needs_of(returned, parameters):
    """What the comment of such a function has to say: in the function's or the group's, or anywhere."""
    if returned == "lab_tensor *" and parameters.startswith("lab_graph *"):
        return ["its derivative", "shapes"], ["who owns the result", "errors"]
    if returned == "lab_status":
        return [], ["errors"] + ["who owns the result"] * bool(re.search(r"\*\*(?!parameter)", parameters))
    if returned.endswith("*"):
        return [], ["who owns the result"]
    return [], ["what NULL gives"] * ("*" in parameters)


def unsaid(path):
    text = path.read_text(encoding="utf-8")
    top, group = text[:text.find("#ifndef")], ""
    comment = r"/\*\*(?P<comment>(?:(?!\*/).)*)\*/"
    prototype = r"LAB_API (?:LAB_CHECKED )?(?P<returned>[\w ]+?[ *])(?P<name>lab_\w+)\((?P<parameters>[^;]*)\)"
    own, at = "", 0
    for found in re.finditer(f"{comment}|{prototype}", text, re.DOTALL):
        if found["comment"] is not None:
            own, at = found["comment"], found.end()
            group = own if "@{" in own else "" if "@}" in own else group
            continue
        if text[at:found.start()].strip():
            continue
        first, anywhere = needs_of(found["returned"].removeprefix("const ").strip(), found["parameters"])
        said = own + group
        line = text.count("\n", 0, found.start()) + 1
        for what in first + anywhere:
            if not re.search(RULES[what], said if what in first else said + top):
                yield f"{path.name}:{line}: {found['name']}: the comment does not say {what}"


def does_not_compile(path, root, compiler, language):
    command = [*compiler, "-x", *language, *STRICT, "-I", str(root / "include"), "-"]
    program = f'#include "{path.relative_to(root / "include").as_posix()}"\n'
    result = subprocess.run(command, input=program * 2, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        yield f"{path.name} does not compile alone ({' '.join(command)}):\n{result.stderr}"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    root = pathlib.Path(sys.argv[1]).resolve()
    compilers = [(sys.argv[2:], ["c", "-std=c11"])]
    cxx = next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), None)
    if cxx:
        compilers.append(([cxx], ["c++", "-std=c++11"]))
    headers = sorted((root / "include").rglob("*.h"))
    found = []
    for path in headers:
        found += undocumented(path)
        found += unsaid(path)
        for compiler, language in compilers:
            found += does_not_compile(path, root, compiler, language)
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(headers)} headers, {len(found)} complaints" + ("" if cxx else " (C++ not tried: no compiler)"))
    return 1 if found or not headers else 0


sys.exit(main())
