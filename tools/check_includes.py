#!/usr/bin/env python3
"""Includes point one way only: nn -> autograd -> kernels. And BLAS and LAPACKE are each called from one file.

usage: check_includes.py SOURCE_ROOT
"""
import pathlib
import re
import sys

# What each layer may include of the library. A public header belongs to the layer that implements it.
ALLOWED = {
    "kernels": {"kernels"},
    "autograd": {"autograd", "kernels", "public autograd"},
    "nn": {"nn", "autograd", "kernels", "public autograd", "public nn"},
    "public autograd": {"public autograd"},
    "public nn": {"public autograd", "public nn"},
    "examples": {"examples", "public autograd", "public nn"},
}
# Every other header in include/llmlab, and llmlab.h itself, which includes them all, belongs to nn.
ENGINE_HEADERS = {"check.h", "graph.h", "linalg.h", "op.h", "ops.h", "runtime.h", "spectral.h", "status.h",
                  "tensor.h"}

# A name that only some files may use: (pattern, the files, why).
ONLY_IN = [
    (re.compile(r"\bcblas_\w+\s*\("), {"src/kernels/gemm.c"}, "gemm.c is the one file that calls cblas"),
    (re.compile(r"\bLAPACKE_\w+\s*\("), {"src/kernels/lapack.c"}, "lapack.c is the one file that calls LAPACKE"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def layer_of(path, root):
    parts = path.relative_to(root).parts
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[0] == "include":
        return "public autograd" if parts[-1] in ENGINE_HEADERS else "public nn"
    return parts[0] if parts[0] == "examples" else None


def resolve(name, includer, root):
    """The file of ours that an #include means, or None: one of the system, or a generated one."""
    for folder in (includer.parent, root / "include", root / "src"):
        candidate = (folder / name).resolve()
        if candidate.is_file() and root in candidate.parents:
            return candidate
    return None


def complaints(path, root):
    layer = layer_of(path, root)
    text = path.read_text(encoding="utf-8")
    where = path.relative_to(root).as_posix()
    for match in INCLUDE.finditer(text):
        target = resolve(match.group(2), path, root)
        target_layer = layer_of(target, root) if target else None
        line = text.count("\n", 0, match.start(1)) + 1
        if target and target_layer not in ALLOWED[layer]:
            yield f"{where}:{line}: {layer} must not include {target.relative_to(root)} (of {target_layer})"
        if target and layer.startswith("public") and match.group(1) == "<":
            yield f"{where}:{line}: public headers include each other with quotes, to work from any folder"
    code = COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), text)
    for pattern, files, why in ONLY_IN:
        if where.startswith("src/") and where not in files:
            for match in pattern.finditer(code):
                yield f"{where}:{code.count(chr(10), 0, match.start()) + 1}: {match.group()}...): {why}"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    root = pathlib.Path(sys.argv[1]).resolve()
    files = [path for folder in ("include", "src", "examples") for path in sorted((root / folder).rglob("*.[ch]"))]
    files = [path for path in files if layer_of(path, root) in ALLOWED]
    found = [complaint for path in files for complaint in complaints(path, root)]
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(files)} files, {len(found)} includes or calls in the wrong direction")
    return 1 if found or not files else 0


sys.exit(main())
