#!/usr/bin/env bash
# The Debian packages and the source archive of this build: built, installed into a folder by dpkg (whose dependencies this machine
# must satisfy), used by projects in C and in C++ and by hand, removed without a trace; the sources configure.
# Arguments: build folder, source folder. Exit code 77: skipped.
set -euo pipefail
. "$(dirname "$0")/../programs/support.sh"
for tool in dpkg dpkg-deb dpkg-shlibdeps cpack; do
    command -v $tool >/dev/null || { echo "skipped: there is no $tool"; exit 77; }
done
[ -z "$(option CUSIGHT_SANITIZE)" ] || { echo "skipped: a library built with a sanitizer is not packaged"; exit 77; }
chmod 755 "$work"

# gzip instead of xz, which takes a minute of a processor more; the rest is as in scripts/package.
logged cpack.log cpack --config "$build/CPackConfig.cmake" -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip -B "$work/packages"
mapfile -t packages < <(find "$work/packages" -maxdepth 1 -name '*.deb' | sort)
names=$(for package in "${packages[@]}"; do dpkg-deb -f "$package" Package; done | sort | paste -sd ' ')
expected="libcusight-dev libcusight0.3"
[ ! -x "$build/bin/cusight-heatmap" ] || expected="cusight-mpi cusight-tools $expected"
[ ! -e "$build/plugins/gstreamer/libgstcusight.so" ] || expected="${expected/libcusight-dev/gstreamer1.0-cusight libcusight-dev}"
[ "$names" = "$expected" ] || die "the packages are $names, expected $expected"
field() { dpkg-deb -f "$work/packages/$1"_*.deb "$2"; }
[[ $(field libcusight0.3 Depends) == *libc6* ]] || die "libcusight0.3 depends on $(field libcusight0.3 Depends)"
[[ $(field libcusight-dev Depends) == "libcusight0.3 (= $(field libcusight0.3 Version))"* ]] ||
    die "libcusight-dev depends on $(field libcusight-dev Depends)"
# A static link needs the packages of these files.
for path in $(sed -n '/^foreach(cusight_needed \//,/)/p' "$build/cusight-config.cmake" | grep -o '/[^ ;)]*'); do
    package=$(dpkg-query -S "$path" 2>/dev/null | sed 's/[:,].*//') || continue
    [[ ", $(field libcusight-dev Depends)," == *", $package,"* ]] || die "libcusight-dev does not depend on $package, which has $path"
done
if [[ $names == *cusight-mpi* ]]; then
    [ "$(field cusight-mpi Depends)" = "cusight-tools (>= $(field cusight-tools Version))" ] || die "cusight-mpi depends on $(field cusight-mpi Depends)"
    [ "$(field cusight-mpi Section) $(field cusight-mpi Architecture)" = "oldlibs all" ] || die "cusight-mpi: $(dpkg-deb -f "$work"/packages/cusight-mpi_*.deb)"
    [[ $(field cusight-mpi Description) == "transitional package for cusight-tools"* ]] || die "cusight-mpi is a $(field cusight-mpi Description)"
    ! dpkg-deb -c "$work"/packages/cusight-mpi_*.deb | grep '^[^d]' | grep -v ' ./usr/share/doc/cusight-mpi/' || die "cusight-mpi is not empty"
fi

if command -v lintian >/dev/null; then
    lintian --fail-on none "${packages[@]}" >"$work/lintian" 2>"$work/lintian.err" || die "lintian ends with $?: $(cat "$work/lintian.err")"
    # With another prefix, the libraries are not where Debian has them.
    known='^$'
    [ "$(option CMAKE_INSTALL_PREFIX)" = /usr ] || known=': pkg-config-'
    ! grep -v "$known" "$work/lintian" || die "lintian complains"
else
    echo "skipped: there is no lintian"
fi

# A root of its own, with this machine's list of installed packages.
root=$work/root
mkdir -p "$root/var/lib/dpkg/"{info,updates,triggers} "$root/var/log"
cp /var/lib/dpkg/status "$root/var/lib/dpkg/"
touch "$root/var/lib/dpkg/available"
files() { find "$root" -path "$root/var" -prune -o ! -type d -print | sed "s,^$root,," | sort; }
# ldconfig is called by a trigger, which this root's libc does not have; scripts would run outside the root.
for package in "${packages[@]}"; do
    files_of=$(dpkg-deb --ctrl-tarfile "$package" | tar -t | sort | paste -sd ' ')
    expected="./ ./control ./md5sums"
    [[ $package != */libcusight0* ]] || expected+=" ./shlibs ./triggers"
    [ "$files_of" = "$expected" ] || die "the control files of $package are $files_of, expected $expected"
done
dpkg_here() { dpkg --root="$root" --force-not-root --force-script-chrootless --force-bad-path "$@"; }
logged install.log dpkg_here --install "${packages[@]}"
libdir=$(dirname "$(find "$root/usr" -name 'libcusight.so.0.3')")
[ -d "$libdir" ] || die "libcusight.so.0.3 is not installed: $(files)"
for file in usr/include/cusight/core.h "${libdir#"$root/"}/libcusight.a" "${libdir#"$root/"}/libcusight.so"; do
    [ -e "$root/$file" ] || die "$file is not installed: $(files)"
done
! dpkg_here --verify $names 2>/dev/null | grep . || die "files differ from the packages"
! find "$root/usr" \( -perm /022 -o ! -perm -444 \) ! -type l | grep . || die "files with unusual permissions"

# What is inside each, by SPDX.
mapfile -t sboms < <(find "$root/usr/share/doc" -name sbom.spdx.json | sort)
[ ${#sboms[@]} = ${#packages[@]} ] || die "there are ${#sboms[@]} SPDX documents in ${#packages[@]} packages"
for i in "${!sboms[@]}"; do
    case ${sboms[i]} in
    *-tools/*) sboms[i]+==cusight,libc.so,libopencv_core ;;
    *gstreamer*) sboms[i]+==cusight,libc.so,libgstvideo-1.0 ;;
    *-mpi/*) sboms[i]+==cusight-mpi ;;
    *-dev/*) sboms[i]+==libcusight-dev ;;
    *) sboms[i]+==libcusight,libc.so,libm.so ;;
    esac
    [[ ${sboms[i]} == *-dev/* ]] || ! grep -q '^CMAKE_CUDA_COMPILER:' "$build/CMakeCache.txt" || sboms[i]+=",CUDA runtime,CUB"
done
logged sbom.log python3 "$source/test/packaging/sbom.py" "${sboms[@]}"

for language in c cxx; do
    logged $language.log cmake -S "$source/test/packaging/consumers/$language" -B "$work/$language" -G "$(option CMAKE_GENERATOR)" \
        -DCMAKE_PREFIX_PATH="$root/usr" -DCMAKE_C_COMPILER="$(option CMAKE_C_COMPILER)" -DCMAKE_CXX_COMPILER="$(option CMAKE_CXX_COMPILER)"
    logged $language.log cmake --build "$work/$language"
    logged $language.log "$work/$language/shared"
    logged $language.log "$work/$language/static"
done
if [ -x "$root/usr/bin/cusight-heatmap" ]; then
    for program in "$root"/usr/bin/cusight-*; do
        said=$("$program" --version) || die "$program --version ended with $?"
        [[ $said == "$(basename "$program") $(field cusight-tools Version)"* ]] || die "$program --version says: $said"
        name=$(basename "$program")
        expected=("bash-completion/completions/$name" "zsh/*/_$name")
        ! command -v help2man >/dev/null || expected+=("man/man1/$name.1*")
        for file in "${expected[@]}"; do
            [ -n "$(compgen -G "$root/usr/share/$file")" ] || die "usr/share/$file is not installed: $(files)"
        done
    done
    (cd "$work" && logged heatmap.log "$root/usr/bin/cusight-heatmap" synthetic:64x48@3 --headless --output "$work/%03d.png")
    [ -s "$work/000.png" ] || [ -s "$work/001.png" ] || die "cusight-heatmap wrote nothing: $(ls "$work")"
fi
plugin=$(find "$root/usr/lib" -name libgstcusight.so)
if [[ $names == *gstreamer* ]]; then
    [[ $plugin == */gstreamer-1.0/libgstcusight.so ]] || die "the plug-in of GStreamer is not installed: $(files)"
    [[ $(field gstreamer1.0-cusight Depends) == *libgstreamer1.0-0* ]] || die "gstreamer1.0-cusight depends on $(field gstreamer1.0-cusight Depends)"
    ! command -v gst-inspect-1.0 >/dev/null || says 0 "5 elements" env GST_REGISTRY="$work/registry.bin" gst-inspect-1.0 "$plugin"
fi
# shellcheck disable=SC2086
logged remove.log dpkg_here --remove $names
left=$(files)
[ -z "$left" ] || die "these files are left after removal: $left"

logged source.log cpack --config "$build/CPackSourceConfig.cmake" -B "$work/sources"
archive=$(find "$work/sources" -maxdepth 1 -name 'cusight-*.tar.gz')
tar -xzf "$archive" -C "$work"
folder=$work/$(basename "$archive" .tar.gz)
if [ -d "$source/.git" ] || [ -f "$source/.git" ]; then
    (cd "$source" && git ls-files --cached --others --exclude-standard | while read -r f; do [ ! -e "$f" ] || echo "$f"; done | sort) >"$work/tracked"
    (cd "$folder" && find . ! -type d | sed 's,^\./,,' | sort) >"$work/packed"
    diff "$work/tracked" "$work/packed" >"$work/diff" || die "the source archive differs from the sources: $(head -n 20 "$work/diff")"
    built=$(LC_ALL=C grep -rlaP '^\x7fELF' "$folder" || true)
    [ -z "$built" ] || die "built files are among the sources: $built"
fi
logged configure.log cmake -S "$folder" -B "$work/unpacked" -DCUSIGHT_CUDA=OFF -DCUSIGHT_SAMPLES=OFF -DCUSIGHT_TESTS=OFF -DCUSIGHT_PERF=OFF
echo "packed, installed, used, removed: $names"
