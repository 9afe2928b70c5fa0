#!/bin/sh
# setup.sh - from a fresh clone to a built library: installs what is missing, configures build/, compiles.
# Harmless to run again: it installs only what is not there, and rebuilds only what has changed.
set -eu

usage() {
    cat <<'TEXT'
usage: sh setup.sh [--ci] [--help]

Installs the packages that llm-lab needs and that are missing (Debian, Ubuntu: apt-get, as root or through sudo),
configures an optimised build in build/, and compiles it. Afterwards:

    build/bench/attn_bench      times attention across head sizes and sequence lengths
    meson test -C build         runs the tests

  --ci      also installs what only .ci/run needs: clang and its tools, the sanitizers, a C++ compiler, valgrind, qemu,
            a compiler for aarch64, every BLAS there is, doxygen, gcovr, abidiff, git; warnings are errors
  --help    prints this
TEXT
}

say() {
    printf 'setup.sh: %s\n' "$*"
}

fail() {
    printf 'setup.sh: %s\n' "$*" >&2
    exit 1
}

ci=no
for option in "$@"; do
    case $option in
    --ci) ci=yes ;;
    --help | -h)
        usage
        exit 0
        ;;
    *)
        printf 'setup.sh: unknown option %s\n\n' "$option" >&2
        usage >&2
        exit 2
        ;;
    esac
done

cd "$(dirname "$0")"

# ---- What is missing -------------------------------------------------------------------------------------------------

meson_needed=0.61 # Ubuntu 22.04's
missing=

# A tool may come from anywhere, a library's package must be installed.
need_tool() { # COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

need_meson() {
    if version=$(meson --version 2>/dev/null); then
        older=$(printf '%s\n' "$version" "$meson_needed" | sort -V | head -n 1)
        [ "$older" = "$meson_needed" ] && return
    fi
    missing="$missing meson"
}

need_libraries() { # PACKAGE...
    installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
    for package in "$@"; do
        case "
$installed
" in
        *"
$package installed
"*) ;;
        *) missing="$missing $package" ;;
        esac
    done
}

look() {
    missing=
    need_tool cc gcc
    need_tool pkg-config pkg-config
    need_meson
    need_tool ninja ninja-build
    need_tool gnuplot gnuplot-nox
    libraries='libc6-dev libopenblas-dev liblapacke-dev libcmocka-dev libjansson-dev'
    if [ $ci = yes ]; then
        need_tool git git
        need_tool c++ g++
        need_tool clang clang
        need_tool clang-format clang-format
        need_tool llvm-symbolizer llvm
        need_tool clang-tidy clang-tidy
        need_tool doxygen doxygen
        need_tool gcovr gcovr
        need_tool valgrind valgrind
        need_tool abidiff abigail-tools
        need_tool qemu-x86_64 qemu-user
        need_tool aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
        libraries="$libraries libclang-rt-dev libc6-dev-arm64-cross libopenblas0-pthread libopenblas0-openmp
            libopenblas0-serial libblis-dev libblis4-pthread libblis4-openmp libblis4-serial libblas-dev liblapack-dev"
    fi
    # shellcheck disable=SC2086 # a list of words
    need_libraries $libraries
}

# What only some of CI's parts need, and this system's packages do not have, is left out; the parts say so.
leave_out_unknown() {
    known=
    for package in $missing; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            known="$known $package"
        else
            say "there is no package $package here"
        fi
    done
    missing=${known# }
}

# ---- Getting it ------------------------------------------------------------------------------------------------------

if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
    cat >&2 <<TEXT
setup.sh: this is neither Debian nor Ubuntu, so I cannot install anything here. llm-lab needs
    a C compiler (gcc 11 or clang 14, or newer), pkg-config, meson >= $meson_needed, ninja,
    OpenBLAS, LAPACKE and jansson with their headers, cmocka (tests), gnuplot (plots; optional).
Once they are there:
    meson setup build && ninja -C build
TEXT
    exit 1
fi

look
if [ -n "$missing" ]; then
    missing=${missing# }
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null 2>&1; then
        as_root=sudo
    else
        fail "some packages are missing, and there is neither root nor sudo to install them. As root, run
    apt-get install $missing"
    fi
    say "installing $missing (this takes a minute or two)"
    log=$(mktemp)
    apt_get="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0"
    # shellcheck disable=SC2086 # lists of words
    $apt_get update </dev/null >"$log" || say "apt-get update failed; trying with the package lists that are here"
    [ $ci = no ] || leave_out_unknown
    # shellcheck disable=SC2086
    if ! $apt_get install -y --no-install-recommends $missing </dev/null >>"$log"; then
        tail -n 20 "$log" >&2
        fail "apt-get could not install $missing (all it said is in $log)"
    fi
    rm -f "$log"
    hash -r
    look
    case " $missing " in
    *' meson '*)
        fail "meson >= $meson_needed is needed, and this system's packages have only $(meson --version). A newer one:
    python3 -m pip install --user meson    (then put ~/.local/bin first in PATH and run this again)"
        ;;
    esac
    [ $ci = no ] || leave_out_unknown
    [ -z "$missing" ] || fail "still missing after the installation: $missing"
fi

# ---- Building --------------------------------------------------------------------------------------------------------

# CI does not let a warning pass; a stranger's compiler may know newer ones.
strict=
[ $ci = no ] || strict='-Dwarning_level=3 -Dwerror=true'
# shellcheck disable=SC2086 # a list of words
if [ ! -f build/build.ninja ]; then
    # What a configuration that failed half-way has left would be taken for a finished one.
    rm -rf build/meson-private build/meson-info
    meson setup build $strict
elif [ -n "$strict" ]; then
    meson configure build $strict
fi
ninja -C build
say 'ready: build/bench/attn_bench times attention, meson test -C build runs the tests'
