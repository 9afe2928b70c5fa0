#!/usr/bin/env bash
# tools/release.sh - is this commit the version that it says it is? And the tag, when asked for.
set -eu -o pipefail

usage() {
    cat <<'TEXT'
usage: tools/release.sh [--tag] [--list-symbols] [--help]

Checks that
    - the work tree is clean,
    - VERSION is three numbers, no tag v<VERSION> is there yet, and it is later than the last tag,
    - CHANGELOG.md begins with that version and its date: "## 1.2.3 (2026-11-29)",
    - a fresh build (in build-release) says it is that version, and passes its whole suite,
    - the symbols exported are those listed in tools/symbols.txt,
and stops there, a dry run, with the command that remains. All checks are made, whatever fails.

  --tag           if all is well, makes the annotated tag v<VERSION> with the section of CHANGELOG.md (nothing is pushed)
  --list-symbols  prints what build-release exports, for tools/symbols.txt, and does nothing else
  --help          prints this
TEXT
}

cd "$(dirname "$0")/.."
build="build-release"
tag_it=no
list=no
for option in "$@"; do
    case $option in
    --tag) tag_it=yes ;;
    --list-symbols) list=yes ;;
    --help | -h)
        usage
        exit 0
        ;;
    *)
        printf 'release.sh: unknown option %s\n\n' "$option" >&2
        usage >&2
        exit 2
        ;;
    esac
done

wrong=0
check() { # STATUS WHAT
    if [ "$1" -eq 0 ]; then
        printf 'ok      %s\n' "$2"
    else
        printf 'FAILED  %s\n' "$2"
        wrong=$((wrong + 1))
    fi
}

# Runs the command, and counts whether it went well.
holds() { # WHAT COMMAND...
    local what=$1 status=0
    shift
    "$@" || status=$?
    check $status "$what"
}

symbols() {
    nm --dynamic --defined-only --format=posix "$build/src/libllmlab.so" | cut -d ' ' -f 1 | LC_ALL=C sort
}

build_it() {
    if [ ! -f $build/build.ninja ]; then
        rm -rf $build
        meson setup $build >/dev/null
    fi
    ninja -C $build >$build.log 2>&1 || { tail -n 30 $build.log && return 1; }
}

later() { # OLDER NEWER
    [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

built_version() {
    grep -q "LAB_VERSION \"$version\"" $build/src/version.h
}

if [ $list = yes ]; then
    build_it
    symbols
    exit 0
fi

version=$(cat VERSION)
tag=v$version
last=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)

check "$(git status --porcelain | grep -c . | sed 's/^[1-9].*/1/' || true)" "the work tree is clean"
holds "VERSION ($version) is three numbers" grep -qxE '[0-9]+\.[0-9]+\.[0-9]+' VERSION
check "$(git rev-parse -q --verify "refs/tags/$tag" >/dev/null && echo 1 || echo 0)" "there is no tag $tag yet"
[ -z "$last" ] || [ "$last" = "$tag" ] || holds "$version is later than the last tag, $last" later "${last#v}" "$version"
first_heading=$(grep -m 1 '^## ' CHANGELOG.md || true)
holds "CHANGELOG.md begins with $version and a date (it has: $first_heading)" \
    grep -qxE "## ${version//./\\.} \([0-9]{4}-[0-9]{2}-[0-9]{2}\)" <<<"$first_heading"
if build_it; then
    holds "the build says $version" built_version
    holds "the suite passes" meson test -C $build --no-rebuild --quiet
    holds "the exported symbols are those of tools/symbols.txt" diff -u tools/symbols.txt <(symbols)
else
    check 1 "it builds"
fi

if [ $wrong -gt 0 ]; then
    printf '%d of these are in the way of %s\n' $wrong "$tag"
    exit 1
fi
notes=$(awk -v heading="## $version " 'index($0, heading) == 1 { inside = 1; next } /^## / { inside = 0 } inside' CHANGELOG.md)
if [ $tag_it = yes ]; then
    git tag -a "$tag" -m "llm-lab $version" -m "$notes"
    printf '%s is made; git push origin %s publishes it\n' "$tag" "$tag"
else
    printf 'all well; what remains: tools/release.sh --tag\n'
fi
