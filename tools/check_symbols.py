#!/usr/bin/env python3
"""What the library lets the linker see: lab_ outside, lab_ and lab__ inside, and all that the headers declare.

usage: check_symbols.py SOURCE_ROOT SHARED_LIBRARY STATIC_LIBRARY
"""
import pathlib
import re
import subprocess
import sys

DECLARED = re.compile(r"^LAB_API\b[^;({]*?\b(lab_\w+)\s*(?:\(|;|\[)", re.MULTILINE)


def defined(*arguments):
    listing = subprocess.run(["nm", "--defined-only", "--format=posix", *arguments],
                             capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listing.splitlines() if len(line.split()) > 2}


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__.strip())
    root, shared, static = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    exported = defined("--dynamic", shared)
    inside = defined("--extern-only", static)
    headers = "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / "include").rglob("*.h")))
    declared = set(DECLARED.findall(headers))

    found = [f"the shared library exports {name}" for name in sorted(exported)
             if not re.match(r"lab_[^_]", name)]
    found += [f"a public header declares no {name}, which is exported" for name in sorted(exported - declared)
              if re.match(r"lab_[^_]", name)]
    found += [f"{name} is declared in a public header, and not exported" for name in sorted(declared - exported)]
    found += [f"{name} in the static library starts with neither lab_ nor lab__" for name in sorted(inside)
              if not name.startswith("lab_")]
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(exported)} symbols exported, {len(declared)} declared, {len(inside)} in the static library, "
          f"{len(found)} complaints")
    return 1 if found or not declared else 0


sys.exit(main())
