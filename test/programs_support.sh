# For tests of the sample programs: build, bin, source, an empty folder to work in, fail.
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd)
bin=$build/samples
export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
unset DISPLAY WAYLAND_DISPLAY QT_QPA_PLATFORM
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}
need_programs() {
    [ -x "$bin/cusight-heatmap" ] && return
    echo "skipped: built without samples"
    exit 77
}
