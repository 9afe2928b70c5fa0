#!/usr/bin/env bash
# .ci/aarch64.sh DIR - what a build for aarch64 needs beside Debian's cross compiler: its libraries, unpacked into DIR
# (the system's packages stay as they are), and DIR/cross.ini, a cross file for meson whose programs run under qemu.
#
# Ends with 77 where they cannot be had: no arm64 among this system's packages, or no network.
set -eu -o pipefail
dir=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$dir"

packages=(libcmocka0 libcmocka-dev libjansson4 libjansson-dev libopenblas0-pthread libopenblas-pthread-dev libblas3
    liblapack3 liblapacke liblapacke-dev libtmglib3 libgfortran5 libgomp1)

if [ ! -f unpacked ]; then
    mkdir -p lists/partial cache/archives/partial debs root
    apt=(apt-get -q -o "APT::Architectures::=arm64" -o "Dir::State::lists=$dir/lists" -o "Dir::Cache=$dir/cache"
        -o "APT::Sandbox::User=root" -o "Acquire::Retries=3")
    "${apt[@]}" update >update.log 2>&1 || { tail -n 5 update.log; echo 'skipped: no package lists'; exit 77; }
    ls lists/*arm64_Packages* >/dev/null 2>&1 || { echo 'skipped: the package lists here have no arm64'; exit 77; }
    (cd debs && "${apt[@]}" download "${packages[@]/%/:arm64}") >download.log 2>&1 ||
        { tail -n 5 download.log; echo 'skipped: a package for arm64 could not be fetched'; exit 77; }
    for deb in debs/*.deb; do
        dpkg-deb -x "$deb" root
    done
    touch unpacked
fi

libraries=$dir/root/usr/lib/aarch64-linux-gnu
blas=$libraries/openblas-pthread
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static)
cat >cross.ini <<TEXT
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'

[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['$qemu', '-L', '/usr/aarch64-linux-gnu', '-E', 'LD_LIBRARY_PATH=$blas:$libraries']

[properties]
sys_root = '$dir/root'
pkg_config_libdir = ['$blas/pkgconfig', '$libraries/pkgconfig']

[built-in options]
c_args = ['-isystem', '$dir/root/usr/include/aarch64-linux-gnu/openblas-pthread', '-isystem', '$dir/root/usr/include',
          '-isystem', '$dir/root/usr/include/aarch64-linux-gnu']
c_link_args = ['-L$blas', '-L$libraries', '-Wl,-rpath-link,$blas', '-Wl,-rpath-link,$libraries']
TEXT
