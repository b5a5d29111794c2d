#!/usr/bin/env bash
# The installed library: the README's programs and the projects in test/packaging/consumers build against it and run, found by CMake and by
# pkg-config, with the shared library and with the static one. The shared library exports only cus*, has no undefined symbols and
# is named by what may break.
set -euo pipefail
. "$(dirname "$0")/../programs/support.sh"
if [ -n "$(option CUSIGHT_SANITIZE)" ]; then
    echo "skipped: programs that link a library built with a sanitizer need the sanitizer too"
    exit 77
fi
prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" >"$work/install.log"
library=$(find "$prefix" -name libcusight.so)
libdir=$(dirname "$library")

# The version node itself (CUSIGHT_0.3) is an absolute symbol.
others=$(nm -D --defined-only "$library" | awk '$2 ~ /[B-Z]/ && $3 !~ /^cus/ { print $3 }')
[ -z "$others" ] || { echo "exports other symbols than cus*:" $others; exit 1; }
nm -D --defined-only "$library" | grep -E ' cusHeatmap(@|$)' >/dev/null || { echo "does not export cusHeatmap"; exit 1; }
ldd -r "$library" >"$work/ldd" 2>&1
! grep -E 'undefined symbol|not found' "$work/ldd" || exit 1
version=$(sed -n 's/^#define CUSIGHT_VERSION_M[A-Z]* //p' "$source/include/cusight/core.h" | paste -sd .) # 0.3
readelf -d "$library" | grep -F "soname: [libcusight.so.$version]" >/dev/null || { echo "SONAME is not libcusight.so.$version"; exit 1; }

# The README's two programs, verbatim.
block() { awk -v language="$1" '/^```/ { if (on) exit; on = ($0 == "```" language); next } on' "$source/README.md"; } # the first
block c >"$work/main.c"
block cpp >"$work/main.cpp"
[ -s "$work/main.c" ] && [ -s "$work/main.cpp" ] || { echo "README.md lacks a C or a C++ program"; exit 1; }

cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(readme C CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(cusight REQUIRED)
add_executable(shared main.c)
target_link_libraries(shared cusight::cusight)
find_package(OpenCV QUIET COMPONENTS core imgcodecs)
if(OpenCV_FOUND)
    add_executable(opencv main.cpp)
    target_link_libraries(opencv cusight::cusight ${OpenCV_LIBS})
endif()
CMAKE
# project NAME SOURCE: configures and builds it in $work/NAME.
project() {
    cmake -S "$2" -B "$work/$1" -G "$(option CMAKE_GENERATOR)" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_COMPILER="$(option CMAKE_C_COMPILER)" -DCMAKE_CXX_COMPILER="$(option CMAKE_CXX_COMPILER)" >"$work/log" 2>&1 &&
        cmake --build "$work/$1" >>"$work/log" 2>&1 || { echo "$1:"; cat "$work/log"; exit 1; }
}
project readme "$work"
"$work/readme/shared"
if [ -e "$work/readme/opencv" ]; then
    cp "$source/docs/pictures/heatmap.jpg" "$work/a.jpg"
    cp "$source/docs/pictures/heatmap.jpg" "$work/b.jpg"
    (cd "$work" && ./readme/opencv a.jpg b.jpg && [ -s map.png ])
fi
for language in c cxx; do
    project $language "$source/test/packaging/consumers/$language"
    "$work/$language/shared"
    "$work/$language/static"
    ! ldd "$work/$language/static" | grep libcusight || { echo "$language/static is linked to the shared library"; exit 1; }
done
cuda=$(cmake -S "$source/test/packaging/consumers/c" -B "$work/c" | sed -n 's/.*cusight_HAVE_CUDA=\(O[A-Z]*\) .*/\1/p')
has_cuda=$(nm "$libdir/libcusight.a" 2>/dev/null | grep ' U cudaLaunchKernel\| U __cudaRegisterFunction' >/dev/null && echo ON || echo OFF)
[ "$cuda" = "$has_cuda" ] || { echo "cusight_HAVE_CUDA is '$cuda', expected $has_cuda"; exit 1; }

# The component static is missing, and says why, where a library that it links is missing.
sed "s,foreach(cusight_needed [^@]*\(/[^ )]*\).*,foreach(cusight_needed /nowhere/libhdf5.so),; s,foreach(cusight_needed )$,foreach(cusight_needed /nowhere/libhdf5.so)," \
    -i "$libdir/cmake/cusight/cusight-config.cmake"
grep -q nowhere "$libdir/cmake/cusight/cusight-config.cmake" || { echo "cusight-config.cmake lists no library files"; exit 1; }
if cmake -S "$source/test/packaging/consumers/cxx" -B "$work/cxx" >"$work/log" 2>&1; then echo "finds a static library that cannot link"; exit 1; fi
tr -s ' \n' ' ' <"$work/log" | grep >/dev/null -e 'needs what was not found: */nowhere/libhdf5.so' || { cat "$work/log"; exit 1; }
project readme "$work" # the shared library needs nothing

export PKG_CONFIG_PATH=$libdir/pkgconfig
cc=$(option CMAKE_C_COMPILER)
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall ${CI:+-Werror} "$work/main.c" -o "$work/plain" $(pkg-config --cflags --libs cusight)
LD_LIBRARY_PATH=$libdir "$work/plain"
# With --static: where there is only the static library, and where there are both, all of it.
mkdir "$work/archive"
cp "$libdir/libcusight.a" "$work/archive"
static=$(pkg-config --static --libs cusight)
# shellcheck disable=SC2046,SC2086
"$cc" -std=c11 -Wall ${CI:+-Werror} "$source/test/packaging/consumers/main.c" -o "$work/plain-static" $(pkg-config --cflags cusight) \
    $(sed "s,^-L[^ ]*,-L$work/archive," <<<"$static")
"$work/plain-static"
# shellcheck disable=SC2046,SC2086
"$cc" "$source/test/packaging/consumers/main.c" -o "$work/plain-whole" $(pkg-config --cflags cusight) \
    ${static/-lcusight/-Wl,--whole-archive -l:libcusight.a -Wl,--no-whole-archive}
"$work/plain-whole"
! ldd "$work/plain-static" "$work/plain-whole" | grep libcusight || { echo "pkg-config --static: linked to the shared library"; exit 1; }
echo "installed, found, linked, ran"
