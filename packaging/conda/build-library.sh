#!/bin/bash
# The C library. conda-build sets PREFIX, SRC_DIR, CMAKE_ARGS and, with CUDA, CUDAARCHS.
set -e
# shellcheck disable=SC2086
cmake -G Ninja -S "$SRC_DIR" -B build $CMAKE_ARGS -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$PREFIX" \
    -DCUSIGHT_SAMPLES=OFF -DCUSIGHT_GSTREAMER=OFF -DCUSIGHT_TESTS=OFF -DCUSIGHT_PERF=OFF -DCUSIGHT_OPENCV=OFF
cmake --build build
cmake --install build
