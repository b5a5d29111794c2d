#!/usr/bin/env bash
# The installed package: CMake and pkg-config find it, the README's programs build against it and run, and the shared library
# exports only cus* and has no undefined symbols.
set -euo pipefail
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd)
option() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
if [ -n "$(option CUSIGHT_SANITIZE)" ]; then
    echo "skipped: programs that link a library built with a sanitizer need the sanitizer too"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" >"$work/install.log"
library=$(find "$prefix" -name libcusight.so)
libdir=$(dirname "$library")

others=$(nm -D --defined-only "$library" | awk '$2 ~ /[A-Z]/ && $3 !~ /^cus/ { print $3 }')
[ -z "$others" ] || { echo "exports other symbols than cus*:" $others; exit 1; }
nm -D --defined-only "$library" | grep ' cusHeatmap$' >/dev/null || { echo "does not export cusHeatmap"; exit 1; }
ldd -r "$library" >"$work/ldd" 2>&1
! grep -E 'undefined symbol|not found' "$work/ldd" || exit 1
readelf -d "$library" | grep 'SONAME.*libcusight\.so\.[0-9]' >/dev/null || { echo "has no SONAME with a version"; exit 1; }

# The README's two programs, verbatim.
block() { awk -v language="$1" '/^```/ { on = ($0 == "```" language); next } on' "$source/README.md"; }
block c >"$work/main.c"
block cpp >"$work/main.cpp"
[ -s "$work/main.c" ] && [ -s "$work/main.cpp" ] || { echo "README.md lacks a C or a C++ program"; exit 1; }

cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(consumer C CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(cusight REQUIRED)
add_executable(shared main.c)
target_link_libraries(shared cusight::cusight)
if(TARGET cusight::cusight_static)
    add_executable(static main.c)
    target_link_libraries(static cusight::cusight_static)
    set_target_properties(static PROPERTIES LINKER_LANGUAGE CXX)
endif()
find_package(OpenCV QUIET COMPONENTS core imgcodecs)
if(OpenCV_FOUND)
    add_executable(opencv main.cpp)
    target_link_libraries(opencv cusight::cusight ${OpenCV_LIBS})
endif()
CMAKE
cmake -S "$work" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >"$work/log" 2>&1 &&
    cmake --build "$work/consumer" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/consumer/shared"
[ ! -e "$work/consumer/static" ] || "$work/consumer/static"
if [ -e "$work/consumer/opencv" ]; then
    cp "$source/docs/pictures/heatmap.jpg" "$work/a.jpg"
    cp "$source/docs/pictures/heatmap.jpg" "$work/b.jpg"
    (cd "$work" && ./consumer/opencv a.jpg b.jpg && [ -s map.png ])
fi

export PKG_CONFIG_PATH=$libdir/pkgconfig
# shellcheck disable=SC2046
"${CC:-cc}" -std=c11 -Wall -Werror "$work/main.c" -o "$work/plain" $(pkg-config --cflags --libs cusight)
LD_LIBRARY_PATH=$libdir "$work/plain"
echo "installed, found, linked, ran"
