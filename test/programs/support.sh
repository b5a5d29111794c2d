# For tests of programs and packages, sourced with their arguments: build, bin, source, an empty folder to work in, fail.
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd)
option() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; } # of the build
bin=$build/bin
export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
unset DISPLAY WAYLAND_DISPLAY QT_QPA_PLATFORM
work=$(mktemp -d)
# A background shell that a signal ends before it becomes its program runs the trap, too (bash 5.1).
at_end() { :; } # what a test does before its folder is removed
trap '[ "$BASHPID" != $$ ] || { at_end; rm -rf "$work"; }' EXIT
cd "$work" || exit 1
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}
die() {
    fail "$@"
    exit 1
}
# logged LOG COMMAND...: with its output in $work/LOG, which is shown if it fails.
logged() {
    local log=$work/$1
    shift
    "$@" >"$log" 2>&1 || die "$* ended with $?: $(tail -n 60 "$log")"
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
# copy_sources FOLDER: the sources without what builds made. Built in a folder of that, with FOLDER as CCACHE_BASEDIR, ccache finds
# the objects of this build.
copy_sources() {
    mkdir -p "$1"
    find "$source" -mindepth 1 -maxdepth 1 ! -name 'build*' ! -name .git ! -name out ! -name dist -exec cp -a -t "$1" {} +
}
# The number of frames in a file.
frames_in() { "$bin/cusight-heatmap" "$1" --headless --device cpu --output frames_in.png 2>/dev/null | sed -n 's/^frames: //p'; }
# made_events COLUMNS ROWS COUNT: that many events as text, times in us, with a pause every 9000th.
made_events() {
    awk -v w="$1" -v h="$2" -v n="$3" 'BEGIN { print w, h; t = 1000; srand(7)
        for (i = 0; i < n; ++i) {
            t += i % 9000 == 8999 ? 30000 : int(rand() * 12)
            print t, int(rand() * w), int(rand() * h), int(rand() * 2)
        } }'
}
# awaited COMMAND...: waits until it succeeds, for two minutes at most: enough for a machine that does other things, too.
awaited() {
    local end=$((SECONDS + 120))
    until "$@"; do [ $SECONDS -lt $end ] || return 1; sleep 0.1; done
}
is_begun() { find . -name "$1" -size +"${2:-0}" 2>/dev/null | grep -q .; } # NAME [SIZE]: a file with more than that
# The milliseconds MS, and more where even a small program takes long.
patience() { # MS
    local start
    start=$(date +%s%N)
    "$bin/cusight-heatmap" --version >/dev/null 2>&1
    echo $(($1 + ($(date +%s%N) - start) / 50000)) # 20 times as long
}
# Waits until the program PID has installed its handlers of SIGINT and SIGTERM: before, a signal is not its own to handle, and the shell
# has it ignore SIGINT.
ready() { # PID
    local status mask i
    for ((i = 0; i < 300; ++i)); do
        status=$(cat "/proc/$1/status" 2>/dev/null)
        [[ -n $status && ! $status =~ State:[[:space:]]*Z ]] || return 0 # it has ended
        mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' <<<"$status")
        [ -n "$mask" ] && [ $((0x$mask & 0x4002)) = $((0x4002)) ] && return 0
        sleep 0.1
    done
}
# The signal SIGNAL to the process PID, once it is ready for it, which is killed if it has not ended within 60 s; sets code to its exit code.
end_with() { # SIGNAL PID
    ready "$2"
    kill -"$1" "$2"
    timeout 60 tail -s 0.1 --pid="$2" -f /dev/null || kill -KILL "$2"
    code=0
    wait "$2" 2>/dev/null || code=$?
}
finish() {
    [ $failed = 0 ] && echo "all as expected"
    exit $failed
}
need_programs() {
    [ -x "$bin/cusight-heatmap" ] && return
    echo "skipped: not all programs were built"
    exit 77
}
