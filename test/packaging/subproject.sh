#!/usr/bin/env bash
# cusight inside another project (test/packaging/consumers/subproject), by add_subdirectory and by FetchContent of a tag: it builds, links and runs,
# leaves the project's build type alone, and installs nothing unless CUSIGHT_INSTALL asks for it. Every CMake option is in docs/build.md.
# Arguments: build folder, source folder.
set -euo pipefail
. "$(dirname "$0")/../programs/support.sh"

# Options: set(... CACHE ...) and option() in all of the project's CMake files.
options=$(find "$source" -name 'build*' -prune -o \( -name CMakeLists.txt -o -name '*.cmake' \) -print0 |
    xargs -0 sed -nE 's/^ *option\((CUSIGHT_[A-Z0-9_]+) .*/\1/p; s/^ *set\((CUSIGHT_[A-Z0-9_]+) .* CACHE (STRING|PATH) .*/\1/p' | sort -u)
[ "$(wc -w <<<"$options")" -ge 12 ] || die "these are not all options: $options"
for name in $options; do
    grep -qE "^\|.*\`$name\`" "$source/docs/build.md" || die "docs/build.md lacks the option $name"
    [ "$name" = CUSIGHT_FUZZ ] || [ -n "$(sed -n "/^$name:/p" "$build/CMakeCache.txt")" ] || die "$name is not in the cache"
done
sed -nE 's/^\| .*/&/p' "$source/docs/build.md" | grep -oE '`CUSIGHT_[A-Z0-9_]+`' | tr -d '`' | sort -u >"$work/described"
for name in $(cat "$work/described"); do
    grep -qx "$name" <<<"$options" || [[ $name == CUSIGHT_TEST_* ]] || die "docs/build.md describes $name, which is not an option"
done

# The library is compiled once more here, to be linked and run, not to be fast.
printf '#!/bin/sh\nexec %s "$@" -O1\n' "$(option CMAKE_C_COMPILER_LAUNCHER)" >"$work/launcher"
chmod +x "$work/launcher"
launchers=("-DCMAKE_C_COMPILER_LAUNCHER=$work/launcher" "-DCMAKE_CXX_COMPILER_LAUNCHER=$work/launcher")
export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1
consumer() { # NAME CMAKE_OPTION...
    local name=$1
    shift
    cmake -S "$source/test/packaging/consumers/subproject" -B "$work/$name" -G "$(option CMAKE_GENERATOR)" -DCONSUMER_SOURCE="$source" \
        -DCUSIGHT_CUDA=OFF -DCMAKE_C_COMPILER="$(option CMAKE_C_COMPILER)" -DCMAKE_CXX_COMPILER="$(option CMAKE_CXX_COMPILER)" \
        "${launchers[@]}" "$@" >"$work/$name.log" 2>&1 || die "$name: $(cat "$work/$name.log")"
}
installed() { # NAME: the files that the project installs
    cmake --install "$work/$1" --prefix "$work/$1-prefix" >/dev/null || die "$1: cannot be installed"
    (cd "$work/$1-prefix" && find . ! -type d | sort | paste -sd ' ')
}

consumer subdirectory
cmake --build "$work/subdirectory" -j 2 >"$work/log" 2>&1 || die "subdirectory: $(cat "$work/log")"
"$work/subdirectory/shared" || die "subdirectory/shared ended with $?"
"$work/subdirectory/static" || die "subdirectory/static ended with $?"
files=$(installed subdirectory)
[ "$files" = ./bin/shared ] || die "the project installs $files, expected ./bin/shared"

# A repository with the sources as they are, tagged.
copy_sources "$work/repository"
in_repository() { git -C "$work/repository" -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false -c init.defaultBranch=main "$@"; }
logged git.log in_repository init -q
logged git.log in_repository add .
logged git.log in_repository commit -q -m sources
logged git.log in_repository tag v0
consumer fetched -DCONSUMER_TAG=v0 "-DCONSUMER_SOURCE=file://$work/repository" -DCUSIGHT_INSTALL=ON
ln -s "$work/subdirectory/cusight/"libcusight.* "$work/fetched/_deps/cusight-build/" # the build above
ln -s "$work/subdirectory/shared" "$work/fetched/"
files=$(installed fetched)
for file in ./bin/shared ./include/cusight/core.h ./lib/libcusight.so ./lib/libcusight.a ./lib/pkgconfig/cusight.pc; do
    [[ " $files " == *" $file "* ]] || die "with CUSIGHT_INSTALL=ON, the project installs $files, expected $file too"
done
consumer commit "-DCONSUMER_TAG=$(in_repository rev-parse HEAD)" "-DCONSUMER_SOURCE=file://$work/repository" -DCUSIGHT_OPENMP=OFF
# docs/build.md shows this with a repository whose owner readers fill in, in one place.
grep -qF 'GIT_REPOSITORY ${CUSIGHT_REPOSITORY} GIT_TAG' "$source/docs/build.md" || die "docs/build.md does not show FetchContent"
[ "$(cat "$source"/README.md "$source"/docs/*.md | grep -c 'OWNER/cusight')" = 1 ] || die "OWNER/cusight is not named once in the documents"
echo "included, built, ran; $(wc -w <<<"$options") options are described"
