#!/usr/bin/env bash
# scripts/new-module: in a copy of the tree that holds no other module, a new one builds with warnings as errors (its CUDA code too
# if the build has CUDA), is formatted, passes its tests and measures its row. Arguments: build folder, source folder.
set -euo pipefail
. "$(dirname "$0")/../programs/support.sh"

# All that every module stands on, and nothing that belongs to one.
mkdir -p "$work/test/reference" "$work/test/variants" "$work/perf" "$work/docs" "$work/modules"
cp -r "$source/CMakeLists.txt" "$source/LICENSE" "$source/cmake" "$source/include" "$source/src" "$source/scripts" "$source/.clang-format" "$work/"
cp "$source"/test/{CMakeLists.txt,main.cpp,support.cpp,support.hpp,labels.cmake} "$work/test/"
cp "$source"/test/variants/instruction_set.[ch] "$work/test/variants/"
cp -r "$source"/perf/{CMakeLists.txt,harness} "$work/perf/"

for name in '' Upper a-b 9lives; do
    if scripts/new-module "$name" >said 2>&1; then die "the name '$name' is accepted"; fi
done
grep -q "NAME is '9lives', expected lowercase letters" said || die "a bad name is answered with: $(cat said)"
scripts/new-module brighten >said || die "$(cat said)"
if scripts/new-module brighten >said 2>&1; then die "a module is overwritten"; fi
grep -q 'brighten.h exists already' said || die "a name in use is answered with: $(cat said)"
grep -A 1 '"core.h"' include/cusight/cusight.h | grep >/dev/null -e '"brighten.h"' || die "cusight.h does not include brighten.h after core.h"
if grep -rnE '@[A-Za-z]+@' include/cusight modules test perf docs; then die "placeholders are left"; fi
if command -v clang-format-14 >/dev/null; then
    find include modules test perf -type f -name '*brighten*' -print0 | xargs -0 clang-format-14 --dry-run -Werror
fi

export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
cuda=(-DCUSIGHT_CUDA=OFF)
compiler=$(sed -n 's/^set(CMAKE_CUDA_COMPILER "\(.*\)")/\1/p' "$build"/CMakeFiles/*/CMakeCUDACompiler.cmake 2>/dev/null || true)
[ "$(option CUSIGHT_CUDA)" = OFF ] || [ -z "$compiler" ] || cuda=(-DCUSIGHT_CUDA=ON "-DCMAKE_CUDA_COMPILER=$compiler"
    "-DCMAKE_CUDA_ARCHITECTURES=$(option CMAKE_CUDA_ARCHITECTURES)")
launchers=()
for language in C CXX CUDA; do
    launcher=$(option CMAKE_${language}_COMPILER_LAUNCHER)
    [ -z "$launcher" ] || launchers+=("-DCMAKE_${language}_COMPILER_LAUNCHER=$launcher")
done
# It is tested and measured once: -O1 will do, and for two sources a precompiled header takes longer than it saves.
logged configure.log cmake -S . -B build -G "$(option CMAKE_GENERATOR)" -DCMAKE_BUILD_TYPE=Release -DCUSIGHT_WERROR=AUTO \
    -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
    -DCUSIGHT_OPENCV=OFF -DCUSIGHT_SAMPLES=OFF -DCUSIGHT_GSTREAMER=OFF -DCUSIGHT_FAULTS=OFF -DCUSIGHT_NVTX=OFF "${launchers[@]}" "${cuda[@]}"
logged build.log cmake --build build -j 2
logged test.log ctest --test-dir build -L unit --output-on-failure
grep -q '^10/10 Test ' test.log || die "not 10 tests: $(cat test.log)"
[ "$(grep -c 'Brighten.*/host.* Passed' test.log)" = 5 ] || die "not 5 tests passed on the host: $(cat test.log)"
logged perf.log build/perf/cusight_perf --perf_space=host --perf_once --gtest_filter='Brighten.*'
build/perf/cusight_perf --perf_space=host --list-rows | grep 'brighten/add/640x480' >/dev/null || die "the row is not listed"
echo "made, built (${cuda[0]#-D}), tested, thrown away"
