#!/usr/bin/env bash
# What CMake says of compilers and libraries that do not fit. Arguments: build folder, source folder.
set -u
. "$(dirname "$0")/../programs/support.sh"
configure() { # OPTION...: the library alone; 0 if CMake succeeds
    rm -rf "$work/build"
    cmake -S "$source" -B "$work/build" -DCUSIGHT_OPENCV=OFF -DCUSIGHT_SAMPLES=OFF -DCUSIGHT_TESTS=OFF -DCUSIGHT_PERF=OFF \
        -DCUSIGHT_HARDENING=OFF -DCMAKE_CUDA_ARCHITECTURES=90 "$@" >"$work/log" 2>&1
}
says() { # LINES PATTERN
    [ "$(tr '\n' ' ' <"$work/log" | tr -s ' ' | grep -oE "$2" | wc -l)" = "$1" ] || fail "not $1 times '$2': $(tail -n 20 "$work/log")"
}
program() { # FILE: a script from stdin
    cat >"$1"
    chmod +x "$1"
}

# An option that is gone; caches of earlier versions hold AUTO.
! configure -DCUSIGHT_CUDA=OFF -DCUSIGHT_MPI=ON || fail "CUSIGHT_MPI=ON is taken"
says 1 "CUSIGHT_MPI is ON, but cusight-events --shard auto and merge replace cusight-events-mpi, as docs/cluster.md says \(From cusight-events-mpi\)"
grep -qx "## From cusight-events-mpi" "$source/docs/cluster.md" || fail "docs/cluster.md does not say how to move from cusight-events-mpi"
for value in AUTO OFF; do
    configure -DCUSIGHT_CUDA=OFF -DCUSIGHT_MPI=$value || fail "CUSIGHT_MPI=$value is refused"
done

# An nvcc that refuses every host compiler: no CUDA backend, one line; an error where CUDA is demanded.
program "$work/nvcc" <<'END'
#!/bin/sh
case $* in *--version*) echo "Cuda compilation tools, release 12.4, V12.4.131" ;; *) echo "error: unsupported GNU version" >&2; exit 1 ;; esac
END
unset CUDAHOSTCXX CUDACXX
configure "-DCMAKE_CUDA_COMPILER=$work/nvcc" || fail "a refused host compiler ends CMake: $(tail -n 20 "$work/log")"
says 1 "CUDA backend: no, since nvcc 12.4 \([^)]*\) refuses the system's C\+\+ compiler, and there is no other that it takes. Install one"
says 1 "[0-9]: CUDA OFF"
! configure "-DCMAKE_CUDA_COMPILER=$work/nvcc" -DCUSIGHT_CUDA=ON || fail "CUSIGHT_CUDA=ON succeeds without CUDA"
says 1 "CUSIGHT_CUDA is ON, but nvcc 12.4 \([^)]*\) refuses the system's C\+\+ compiler"
CUDAHOSTCXX=c++ configure "-DCMAKE_CUDA_COMPILER=$work/nvcc" || fail "CUDAHOSTCXX: $(tail -n 20 "$work/log")"
says 1 "CUDA backend: no, since nvcc 12.4 \([^)]*\) refuses the host compiler c\+\+"
# Its headers contradict the system's: said as such. The question is asked again, in the same folder, after a refusal.
again() { cmake -S "$source" -B "$work/build" "$@" >"$work/log" 2>&1; } # OPTION...
configure "-DCMAKE_CUDA_COMPILER=$work/nvcc" || fail "a refused host compiler ends CMake"
sed -i 's,error: unsupported GNU version,/usr/include/math.h(9): error: exception specification,' "$work/nvcc"
again || fail "CMake ends: $(tail -n 20 "$work/log")"
says 1 "CUDA backend: no, since nvcc 12.4 \([^)]*\) does not go with this system's headers [^:]*: /usr/include/math.h\(9\): error: exception spec"
sed -i 's/12\.4/11.5/g' "$work/nvcc"
configure "-DCMAKE_CUDA_COMPILER=$work/nvcc" || fail "an old nvcc ends CMake"
says 1 "CUDA backend: no, since nvcc 11.5 \([^)]*\) is too old, expected 11.8 or later"

# A default compiler that nvcc refuses (gcc claims to be version 99), and an older one beside it.
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
older=$(for n in 16 15 14 13 12 11 10 9; do command -v "g++-$n" && break; done)
gcc=$(command -v gcc) cxx=$(command -v g++)
if [ -x "$nvcc" ] && "$nvcc" -ccbin "${older:-none}" -E -x cu /dev/null >/dev/null 2>&1; then
    mkdir "$work/bin"
    for name in gcc g++; do printf '#!/bin/sh\nexec /usr/bin/%s -U__GNUC__ -D__GNUC__=99 "$@"\n' $name | program "$work/bin/$name"; done
    PATH=$work/bin:$PATH configure "-DCMAKE_CUDA_COMPILER=$nvcc" "-DCMAKE_C_COMPILER=$gcc" "-DCMAKE_CXX_COMPILER=$cxx" ||
        fail "no host compiler is found: $(tail -n 20 "$work/log")"
    says 1 "CUDA backend: yes, with nvcc [0-9.]+ \([^)]*\) and the host compiler g\+\+-[0-9]+"
    says 1 "[0-9]: CUDA ON"
else
    echo "skipped: an nvcc with a second host compiler"
fi

# Architectures: what is set, then CUDAARCHS, then the default, which for the Python package is this machine's.
# shellcheck disable=SC2016
printf 'include(%s/cmake/cuda_architectures.cmake)\nmessage("[${CMAKE_CUDA_ARCHITECTURES}]")\n' "$source" >"$work/architectures.cmake"
printf '#!/bin/sh\nprintf "8.6\\n9.0\\n8.6\\n"\n' | program "$work/nvidia-smi"
architectures() { # EXPECTED DEFINITION...
    local expected=$1 said
    shift
    said=$(cmake "-DCUSIGHT_NVIDIA_SMI=$work/nvidia-smi" "$@" -P "$work/architectures.cmake" 2>&1 | sed -n 's/^\[\(.*\)\]$/\1/p')
    [ "$said" = "$expected" ] || fail "architectures with $*: $said, expected $expected"
}
unset CUDAARCHS
architectures all-major
architectures "86;90" -DCUSIGHT_PYTHON=ON
architectures all-major -DCUSIGHT_PYTHON=ON -DCMAKE_CUDA_ARCHITECTURES=all-major
CUDAARCHS=75 architectures 75 -DCUSIGHT_PYTHON=ON
CUDAARCHS=75 architectures "86;90" -DCMAKE_CUDA_ARCHITECTURES=native
CUDAARCHS=native architectures "86;90"

# The Python package has CUDA code where there is a GPU, or where it is asked for; what nvcc says to that comes later.
# shellcheck disable=SC2016
printf 'include(%s/cmake/python_cuda.cmake)\nmessage("[${CUSIGHT_CUDA}]${cuda_missing}")\n' "$source" >"$work/python.cmake"
backend() { # EXPECTED DEFINITION...
    local expected=$1 said
    shift
    said=$(cmake "-DCUSIGHT_NVIDIA_SMI=$work/nvidia-smi" "$@" -P "$work/python.cmake" 2>&1 | sed -n 's/^\[//p')
    [ "$said" = "$expected" ] || fail "the Python package with $*: $said, expected $expected"
}
unset CUSIGHT_CUDA
backend "AUTO]" -DCUSIGHT_CUDA=AUTO
backend "ON]" -DCUSIGHT_CUDA=ON -DCUSIGHT_NVIDIA_SMI=/bin/false
backend "OFF]CUSIGHT_CUDA was OFF" -DCUSIGHT_CUDA=OFF
CUSIGHT_CUDA=ON backend "ON]" -DCUSIGHT_CUDA=AUTO -DCUSIGHT_NVIDIA_SMI=/bin/false
CUSIGHT_CUDA=OFF backend "OFF]CUSIGHT_CUDA was OFF" -DCUSIGHT_CUDA=AUTO
CUSIGHT_CUDA=OFF backend "ON]" -DCUSIGHT_CUDA=ON
if [ -e /dev/nvidiactl ] || [ -e /usr/lib/wsl/lib/libcuda.so.1 ]; then
    architectures all-major -DCUSIGHT_PYTHON=ON -DCUSIGHT_NVIDIA_SMI=/bin/false
    backend "AUTO]" -DCUSIGHT_CUDA=AUTO -DCUSIGHT_NVIDIA_SMI=/bin/false
else
    architectures 90 -DCUSIGHT_PYTHON=ON -DCUSIGHT_NVIDIA_SMI=/bin/false
    backend "OFF]no NVIDIA GPU was found" -DCUSIGHT_CUDA=AUTO -DCUSIGHT_NVIDIA_SMI=/bin/false
fi

# A library that is too old is not used, and what is missing is said once.
mkdir "$work/old"
printf '#define ZSTD_VERSION_MAJOR 1\n#define ZSTD_VERSION_MINOR 3\n#define ZSTD_VERSION_RELEASE 8\n' >"$work/old/zstd.h"
configure -DCUSIGHT_CUDA=OFF "-DZSTD_INCLUDE_DIR=$work/old" || fail "an old zstd ends CMake"
says 1 "Without zstd 1.4.0 or later \(is needed, found 1.3.8; Debian: libzstd-dev\): live video is CUS_ERROR_UNSUPPORTED"
configure -DCUSIGHT_CUDA=OFF -DCUSIGHT_ZSTD=OFF || fail "without zstd"
says 0 "Without zstd"
! configure -DCUSIGHT_CUDA=OFF -DCUSIGHT_SAMPLES=ON -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON || fail "programs without nlohmann_json"
says 1 "Programs and fuzzers need nlohmann_json 3.9 or later \(Debian: nlohmann-json3-dev\)"
if [ -x "$build/bin/cusight-heatmap" ]; then # the programs' libraries are there: FFmpeg's, found by pkg-config, are too old, or missing
    for name in libavformat libavcodec libavutil libswscale; do printf 'Name: %s\nDescription: old\nVersion: 58.29.100\n' $name >"$work/old/$name.pc"; done
    PKG_CONFIG_LIBDIR=$work/old configure -DCUSIGHT_CUDA=OFF -DCUSIGHT_OPENCV=ON -DCUSIGHT_SAMPLES=ON || fail "an old libavformat ends CMake"
    says 1 "Without libavformat 58.76 or later \(is needed, found 58.29.100; Debian: pkg-config libavformat-dev libavcodec-dev libswscale-dev\): of the programs only cusight-info and cusight-events, without windows"
    # What cusight-diffstream needs.
    mkdir "$work/old/boost"
    printf '#define BOOST_LIB_VERSION "1_71"\n' >"$work/old/boost/version.hpp"
    configure -DCUSIGHT_CUDA=OFF -DCUSIGHT_OPENCV=ON -DCUSIGHT_SAMPLES=ON "-DCUSIGHT_BOOST_INCLUDE_DIR=$work/old" || fail "an old Boost ends CMake"
    says 1 "Without Boost 1.74 or later \(is needed, found 1.71; Debian: libboost-dev\): no cusight-diffstream, and cusight-events has no --web"
    again -DCUSIGHT_BOOST_INCLUDE_DIR= || fail "without Boost"
    says 1 "Without Boost 1.74 or later \(was not found; Debian: libboost-dev\): no cusight-diffstream, and cusight-events has no --web"
    # What --web needs; each of these is looked for only if the one before it is there.
    configure -DCUSIGHT_CUDA=OFF -DCUSIGHT_OPENCV=ON -DCUSIGHT_SAMPLES=ON -DCUSIGHT_WASM_CLANG= -DCUSIGHT_HELP2MAN= || fail "without a clang for WebAssembly"
    says 1 "Without help2man \(was not found; Debian: help2man\): no manual pages of the programs"
    says 1 "Without --web of cusight-diffstream and cusight-events: this build found no clang for WebAssembly \(Debian: clang lld"
    ! again -DCUSIGHT_WEB=ON || fail "CUSIGHT_WEB=ON succeeds without a clang for WebAssembly"
    says 1 "CUSIGHT_WEB is ON, but this build found no clang for WebAssembly"
    again -DCUSIGHT_WEB=OFF || fail "without --web"
    says 0 "Without --web"
    if grep -q '^CUSIGHT_WASM_C:INTERNAL=ON' "$build/CMakeCache.txt"; then
        again -DCUSIGHT_WEB=AUTO "-DCUSIGHT_WASM_CLANG=$(option CUSIGHT_WASM_CLANG)" "-DCUSIGHT_ZSTD_SOURCE=$work" || fail "without zstd's source"
        says 1 "Without --web of cusight-diffstream and cusight-events: this build found no zstd\.c in [^ ]* \(scripts/setup fetches it\)"
        configure -DCUSIGHT_CUDA=OFF -DCUSIGHT_OPENCV=ON -DCUSIGHT_SAMPLES=ON "-DCUSIGHT_ZSTD_SOURCE=$(option CUSIGHT_ZSTD_SOURCE)" -DCUSIGHT_PYTHON3=/bin/false || fail "without Python's clang"
        says 1 "Without --web of cusight-diffstream and cusight-events: this build found no clang for Python \(Debian: python3-clang\)"
    fi
    PKG_CONFIG_LIBDIR=$work configure -DCUSIGHT_CUDA=OFF -DCUSIGHT_OPENCV=ON -DCUSIGHT_SAMPLES=ON || fail "without libavformat"
    says 1 "Without libavformat 58.76 or later \(was not found; Debian: pkg-config libavformat-dev"
fi
exit $failed
