#!/usr/bin/env bash
# The Debian packages in a clean root, as `scripts/fresh RELEASE packages` runs it: they install with their dependencies, a program in C
# compiles and links with pkg-config and with CMake, to the shared library and to the static one, and runs; so do the programs; removed,
# they leave nothing. Argument: the folder with the packages. Needs root; changes the system that it runs on.
set -euo pipefail
packages=$1 consumers=$(cd "$(dirname "$0")" && pwd) work=$(mktemp -d)
export DEBIAN_FRONTEND=noninteractive
die() {
    echo "FAILED: $*"
    exit 1
}
install() { # OPTION|PACKAGE...
    apt-get install -y -qq "$@" >"$work/apt.log" 2>&1 || die "apt-get install $*: $(tail -n 20 "$work/apt.log")"
}
ours() { find /usr /etc /var/lib -xdev -name '*cusight*'; }
apt-get update -qq
ours >"$work/before"

install --no-install-recommends "$packages"/libcusight0*.deb
library=$(dpkg -L libcusight0.3 | grep 'libcusight.so.0.3$')
! ldd "$library" | grep 'not found' || die "libcusight0.3 lacks dependencies"
ldconfig -p | grep -q 'libcusight.so.0.3 ' || die "ldconfig was not called"

# Only a compiler and what libcusight-dev asks for. A build with CUDA from no package cannot say what its static library needs.
install --no-install-recommends "$packages"/libcusight-dev*.deb gcc libc6-dev
install --no-install-recommends cmake make pkg-config
static=yes
! pkg-config --static --libs cusight | grep -q cudart || static=no
cd "$work"
# shellcheck disable=SC2046
gcc "$consumers/main.c" -o shared $(pkg-config --cflags --libs cusight)
ldd shared | grep -q 'libcusight.so.0.3 => /' || die "pkg-config: not linked to the shared library"
./shared
if [ $static = yes ]; then
    # shellcheck disable=SC2046
    gcc "$consumers/main.c" -o static $(pkg-config --cflags --static --libs cusight | sed 's/-lcusight/-l:libcusight.a/')
    ! ldd static | grep -q libcusight || die "pkg-config --static: linked to the shared library"
    ./static
    cmake -S "$consumers/c" -B c >cmake.log 2>&1 && cmake --build c >>cmake.log 2>&1 || die "CMake: $(cat cmake.log)"
    c/shared
    c/static
fi
echo "compiled, linked, ran: shared, static ($static)"

programs=$(compgen -G "$packages/cusight-*.deb" || true)
# shellcheck disable=SC2086
[ -z "$programs" ] || install $programs # with what they recommend
for program in /usr/bin/cusight-*; do
    [ -e "$program" ] || continue
    ! ldd "$program" | grep 'not found' || die "$program lacks libraries"
    "$program" --version
done
if [ -e /usr/bin/cusight-heatmap ]; then
    cusight-heatmap synthetic:64x48@3 --headless --output %03d.png >heatmap.log 2>&1 || die "cusight-heatmap: $(cat heatmap.log)"
fi

# The README's pipelines, with a film and pictures made here.
if compgen -G "$packages/gstreamer1.0-cusight*.deb" >/dev/null; then
    install --no-install-recommends "$packages"/gstreamer1.0-cusight*.deb
    plugin=$(dpkg -L gstreamer1.0-cusight | grep 'libgstcusight.so$')
    ! ldd "$plugin" | grep 'not found' || die "gstreamer1.0-cusight lacks dependencies"
    install --no-install-recommends gstreamer1.0-{tools,plugins-base,plugins-good,plugins-bad,libav,x} xvfb xauth
    mkdir -p out/data
    gst-launch-1.0 -q videotestsrc pattern=ball num-buffers=30 ! video/x-raw,framerate=10/1 ! jpegenc ! avimux ! filesink location=out/data/vtest.avi
    gst-launch-1.0 -q videotestsrc num-buffers=1 ! pngenc ! filesink location=out/data/pic1.png
    gst-launch-1.0 -q videotestsrc num-buffers=1 ! videocrop left=200 top=150 right=60 bottom=40 ! pngenc ! filesink location=out/data/templ.png
    mapfile -t lines < <(sed -n 's/^    \(gst-launch-1.0 .*\)/\1/p' "$consumers/../../../README.md")
    [ ${#lines[@]} = 3 ] || die "README.md has ${#lines[@]} pipelines"
    for line in "${lines[@]}"; do
        xvfb-run -a -s "-noreset -screen 0 1024x768x24" bash -c "$line" >pipeline.log 2>&1 || die "'$line' ended with $?: $(tail -n 20 pipeline.log)"
        ! grep ERROR pipeline.log || die "'$line' complains"
    done
    grep -q 'cusmatch, .*x.=.(int.)200.* y.=.(int.)150' pipeline.log || die "the picture is not found at 200, 150: $(grep cusmatch, pipeline.log)"
    echo "${#lines[@]} pipelines ran"
fi

names=$(dpkg-query -W -f '${Package}\n' '*cusight*' | paste -sd ' ')
# shellcheck disable=SC2086
apt-get purge -y -qq $names >apt.log 2>&1 || die "purge: $(tail apt.log)"
ours >after
diff before after || die "files are left"
rm -rf "$work"
echo "installed, used, removed: $names"
