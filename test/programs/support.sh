# For tests of the sample programs: build, bin, source, an empty folder to work in, fail.
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd)
bin=$build/bin
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
# runs CODE TEXT COMMAND...: it exits with CODE and prints TEXT, a regular expression, on stderr. Its output is in out.txt, err.txt.
runs() {
    local code=$1 text=$2 got=0
    shift 2
    "$@" >out.txt 2>err.txt || got=$?
    [ $got = "$code" ] || fail "${*#"$bin/"} exited with $got, expected $code: $(cat err.txt)"
    grep -q -e "$text" err.txt || fail "${*#"$bin/"} printed no '$text' but: $(cat err.txt)"
}
# says CODE TEXT COMMAND...: it exits with CODE and prints TEXT on either stream. Its output is in the file said.
says() {
    local code=$1 words=$2 got=0
    shift 2
    timeout 60 "$@" >said 2>&1 </dev/null || got=$?
    [ $got = "$code" ] || fail "${*#"$bin/"} exited with $got, expected $code: $(cat said)"
    grep -qF -- "$words" said || fail "${*#"$bin/"} printed no '$words' but: $(cat said)"
}
need_programs() {
    [ -x "$bin/cusight-heatmap" ] && return
    echo "skipped: built without samples"
    exit 77
}
