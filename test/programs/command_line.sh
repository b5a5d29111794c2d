#!/usr/bin/env bash
# The sample programs from the command line: options and versions of all, and of cusight-heatmap exit codes, messages, no
# display, a window, a full disk, Ctrl-C.
set -uo pipefail
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
need_programs
program=$bin/cusight-heatmap
trap 'umount "$work/small" 2>/dev/null; rm -rf "$work"' EXIT
# expect CODE TEXT ARGUMENT...: the program exits with CODE and prints TEXT on either stream.
expect() { says "$1" "$2" "$program" "${@:3}"; }
frames() { "$program" "$1" --headless --device cpu --output frames.png 2>/dev/null | sed -n 's/^frames: //p'; }

expect 0 "Exit codes" --help
expect 2 "INPUT is required"
expect 2 "--view is 'x', expected heatmap|noise|side" clip.avi --view x
expect 3 "missing.avi: No such file" missing.avi
expect 5 "--device cuda:99" synthetic:64x64@3 --device cuda:99
expect 4 "No such file or directory" synthetic:64x64@3 --device cpu --headless --output no/folder/a.mp4
ln -s /dev/full full.avi
expect 4 "full.avi cannot be written: No space left on device" synthetic:64x64@3 --device cpu --headless --output full.avi

# Every program explains itself and its exit codes, and says what it was built with.
for each in belt contour diffstream events heatmap info match; do
    program=$bin/cusight-$each
    expect 0 "Exit codes" --help
    expect 0 "(cusight " --version
    grep -qx "cusight-$each [0-9.]* (cusight [0-9.]*, CUDA \(yes\|no\))" said || fail "--version of $each: $(cat said)"
    expect 2 "unknown option --nonsense" --nonsense
done
program=$bin/cusight-info
expect 0 "Build type: "
for name in cusight Compiler Processor OpenCV system cpu driver; do
    grep -q "^$name: ." said || fail "cusight-info says no $name: $(cat said)"
done
expect 0 '"Processor": "' --json
program=$bin/cusight-heatmap

# Every view, and the results that scripts read.
for view in heatmap noise side; do
    expect 0 "frames: 5" synthetic:64x48@5 --device cpu --headless --view $view --output $view.png
done
[ "$(frames side.png)" = 1 ] || fail "side.png cannot be read back"
expect 0 "side.png, 128 x 48" side.png --device cpu --headless --output x.png
expect 0 "frames: 3" synthetic:64x48@5 --device cpu --headless --frames 3 --output x.avi
expect 0 "changed: 0.000 %" x.png --device cpu --headless --output y.png

# The output holds all frames before one of another size.
"$program" synthetic:64x48@4 --device cpu --headless --output sizes/ >/dev/null 2>&1
"$program" synthetic:66x48@1 --device cpu --headless --output sizes/000009.png >/dev/null 2>&1
expect 3 "frame 5 is 66 x 48" sizes --device cpu --headless --output kept.avi
[ "$(frames kept.avi)" = 4 ] || fail "kept.avi does not hold the 4 frames before the break"

# Without a display, a file and a line that says so. The same if the display does not respond.
expect 0 "no display (neither DISPLAY nor WAYLAND_DISPLAY is set): writing heatmap.mp4" synthetic:64x48@5 --device cpu
[ "$(frames heatmap.mp4)" = 5 ] || fail "heatmap.mp4 was not written"
DISPLAY=:4711 expect 0 "the display cannot be used: writing heatmap.mp4" synthetic:64x48@5 --device cpu

# interrupt PID: Ctrl-C; sets code to the exit code. A program that does not end is killed.
cat >interrupt.sh <<'FUNCTION'
interrupt() {
    kill -INT "$1"
    (
        sleep 60
        kill -KILL "$1"
    ) 2>/dev/null &
    local watch=$!
    wait "$1"
    code=$?
    kill $watch 2>/dev/null
}
FUNCTION
. ./interrupt.sh

# A window: a screenshot shows the heatmap, mostly the pure blue of no change; Ctrl-C ends it cleanly.
if command -v xvfb-run >/dev/null && command -v xauth >/dev/null && command -v import >/dev/null; then
    export program
    cat >screen.sh <<'SCREEN'
. ./interrupt.sh
"$program" synthetic:320x240@1000000 --device cpu >window.out 2>window.err &
pid=$!
for ((i = 0; i < 60; ++i)); do
    sleep 0.5
    import -window root -depth 8 shot.ppm 2>/dev/null
    blue=$(python3 -c 'b = open("shot.ppm", "rb").read()[-1024 * 768 * 3:]
print(sum(b[i:i + 3] == b"\0\0\xff" for i in range(0, len(b), 3)))')
    [ "${blue:-0}" -gt 20000 ] && break
done
interrupt $pid
echo "$code $blue" >window.end
SCREEN
    timeout 150 xvfb-run -a -s "-screen 0 1024x768x24" bash screen.sh
    read -r code blue <window.end
    [ "$code" = 130 ] || fail "the program with a window exited with $code: $(cat window.err)"
    grep -q "output: a window" window.out || fail "no window was used: $(cat window.out window.err)"
    [ "${blue:-0}" -gt 20000 ] || fail "the screenshot has only $blue blue pixels"
else
    echo "window: skipped, xvfb-run or import (ImageMagick) is not installed"
fi

# Ctrl-C: the file is complete and the exit code is 130.
"$program" synthetic:320x240@1000000 --device cpu --headless --output stopped.mp4 >said 2>&1 &
pid=$!
for ((i = 0; i < 300; ++i)); do
    ls .cusight-*.mp4 >/dev/null 2>&1 && break # its name until it is complete
    sleep 0.1
done
sleep 0.5
interrupt $pid
[ "$code" = 130 ] || fail "after Ctrl-C the exit code is $code: $(cat said)"
written=$(sed -n 's/^frames: //p' said)
[ "${written:-0}" -gt 0 ] || fail "no frame was written before Ctrl-C: $(cat said)"
expect 0 "frames: $written" stopped.mp4 --device cpu --headless --output frames.png

# A disk that fills up while writing (only root can mount one).
mkdir small
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=400k tmpfs small 2>/dev/null; then
    for output in small/a.avi small/a.mp4 small/%d.png; do
        expect 4 "cannot be written" synthetic:640x480@400 --device cpu --headless --output "$output"
        rm -f small/*
    done
else
    echo "full disk: only /dev/full was tested, a small file system cannot be mounted"
fi
[ $failed = 0 ] && echo "all as expected"
exit $failed
