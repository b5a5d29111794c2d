# Shared by setup, demo, test and new-module; sourced, not run.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Downloaded clips and test pictures, kept for all checkouts of this user.
cache=${CUSIGHT_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/cusight}
jobs=$(nproc)

if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; else bold='' plain=''; fi
SECONDS=0
say() { printf '%s[%4d s] %s%s\n' "$bold" "$SECONDS" "$*" "$plain"; }
note() { printf '         %s\n' "$*"; }
die() {
    printf '%s\n' "$*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        return 127
    fi
}

# Waits up to ten minutes for another apt to release its lock (a fresh machine often runs unattended upgrades).
apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 -o Acquire::Retries=2 \
        -o Acquire::http::Timeout=30 "$@"
}

# Prints the architecture to build for: that of this machine's GPU, or 90 if there is none.
gpu_architecture() {
    local capability=''
    if command -v nvidia-smi >/dev/null; then
        capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -dc 0-9) || true
    fi
    echo "${capability:-90}"
}

# Sets the array cuda to the CMake options for CUDA: built where CMake finds an nvcc that works.
cuda_options() {
    cuda=(-DCUSIGHT_CUDA=AUTO "-DCMAKE_CUDA_ARCHITECTURES=$(gpu_architecture)")
    nvidia-smi >/dev/null 2>&1 && return
    # Without a GPU nothing runs the CUDA code: it is compiled for its errors and warnings, not for speed, and CUB's headers leave
    # out their types of 16 and 8 bits.
    local flags="-Xcicc -O1 -Xptxas -O1" nvcc
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
    [[ $("$nvcc" --help 2>/dev/null) != *--Ofast-compile* ]] || flags=--Ofast-compile=max
    cuda+=("-DCMAKE_CUDA_FLAGS=$flags -DCCCL_DISABLE_FP16_SUPPORT -DCCCL_DISABLE_BF16_SUPPORT -DCCCL_DISABLE_NVFP8_SUPPORT")
}
# Says what CMake wrote to the file LOG about CUDA and about optional libraries that it did not find.
say_found() { # LOG
    local line
    while read -r line; do note "$line"; done < <(sed -n 's/^-- \(CUDA backend: \|Not built: \|Without \)/\1/p' "$1")
}

if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    # nvcc would preprocess each source once more for ccache, which takes a seventh of its time.
    export CMAKE_CUDA_COMPILER_LAUNCHER="env;CCACHE_DEPEND=1;ccache"
    # Lets the build folders of one checkout share their objects.
    export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
    export CCACHE_SLOPPINESS=pch_defines,time_macros # for precompiled headers
fi

# fetch_package PACKAGE PATH: copies the files in PATH of a Debian package to $cache/data without installing the package.
# Returns 1 if the package is not available.
fetch_package() {
    local package=$1 path=$2 work
    [ -e "$cache/data/.$package" ] && return 0
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    mkdir -p "$cache/data"
    work=$(mktemp -d "$cache/fetch.XXXXXX")
    chmod 755 "$work"
    say "Fetching package $package (kept in $cache, not installed)"
    if (cd "$work" && apt-get -q -o Acquire::Retries=2 -o Acquire::http::Timeout=30 download "$package" >log 2>&1 ||
        { apt_get update >>log 2>&1 && apt-get -q download "$package" >>log 2>&1; }) &&
        dpkg-deb -x "$work/$package"_*.deb "$work/files" && [ -d "$work/files/$path" ]; then
        find "$work/files/$path" -maxdepth 1 -type f -exec cp -t "$cache/data" {} +
        find "$cache/data" -name '*.gz' -exec gunzip -f {} +
        touch "$cache/data/.$package"
    else
        note "not available: $(tail -n 1 "$work/log" 2>/dev/null)"
    fi
    rm -rf "$work"
    [ -e "$cache/data/.$package" ]
}
