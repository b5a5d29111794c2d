#!/usr/bin/env bash
# Windows under a virtual display, with keys: speed, pause, steps, help, full screen, still pictures. window.sh BUILD SOURCE
set -uo pipefail
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
need_programs
for tool in xvfb-run xauth import xdotool python3; do
    command -v $tool >/dev/null || { echo "skipped: there is no $tool (Debian: xvfb, xauth, imagemagick, xdotool)"; exit 77; }
done
export bin
"$bin/cusight-heatmap" synthetic:320x240@1 --device cpu --headless --output still.png >/dev/null 2>&1 || exit 1

cat >session.sh <<'SESSION'
fail() { echo "FAILED: $*" >>failures; }
# Prints the visible window of that name, once there is one. A search that meets a window just closing ends with an error of X.
find_window() { # NAME [OTHER_WINDOW]
    local i
    for ((i = 0; i < 600; ++i)); do
        timeout 10 xdotool search --onlyvisible --name "$1" 2>/dev/null | grep -vx "${2:-none}" | tail -n 1 | grep . && return
        sleep 0.1
    done
}
start() { # PROGRAM ARGUMENT...: runs it and waits for its window
    local program=$1
    shift
    "$bin/cusight-$program" "$@" --device cpu >out 2>err &
    pid=$!
    window=$(find_window "cusight-$program")
    [ -n "$window" ] || fail "$program opened no window: $(cat out err)"
    sleep 1
}
# Without --window, which sends the press to the window that has the focus and, once that has closed, the release elsewhere: the key
# would stay down and repeat in the next window.
key() { # KEY
    timeout 5 xdotool windowfocus --sync "$window" 2>/dev/null
    xdotool key "$1" 2>/dev/null
    sleep 0.7
}
# The picture that is shown, once it has been drawn.
shot() { import -window "$window" -depth 8 rgb:- 2>/dev/null | md5sum; }
# Waits up to 20 s for the program to end; sets code.
ended() {
    local i
    for ((i = 0; i < 200; ++i)); do
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    if kill -0 $pid 2>/dev/null; then
        fail "$* did not end"
        kill -KILL $pid
    fi
    code=0
    wait $pid || code=$?
}
# Presses the key until the program has ended: a window may be there before it listens.
closes() { # KEY WHAT
    local i
    for ((i = 0; i < 10; ++i)); do
        key "$1"
        kill -0 $pid 2>/dev/null || break
    done
    ended "$2"
}
# Presses the key until another picture is shown than SHOT. Sets shown.
changes() { # KEY SHOT WHAT
    local i
    for ((i = 0; i < 100; ++i)); do
        [ $((i % 25)) != 0 ] || key "$1"
        shown=$(shot)
        [ "$shown" = "$2" ] || return 0
        sleep 0.2
    done
    fail "$3"
}
# Waits until a picture stays for 0.7 s, and presses the key until one does. Sets shown.
stays() { # WHAT [KEY]
    local i before
    for ((i = 0; i < 20; ++i)); do
        [ $# = 1 ] || [ $((i % 5)) != 0 ] || key "$2"
        before=$(shot)
        sleep 0.7
        shown=$(shot)
        [ "$shown" != "$before" ] || return 0
    done
    fail "$1"
}

# A still picture stays until a key; h and f are no reason to close it.
start heatmap still.png
sleep 1
kill -0 $pid 2>/dev/null || fail "a still picture did not stay: $(cat out err)"
grep -q "^output: a window" out || fail "the results of a still picture come before the key: $(cat out)"
stays "a still picture is drawn again and again"
before=$shown
changes h "$before" "h shows no keys"
stays "its keys are drawn again and again"
changes h "$shown" "h does not hide the keys"
stays "a still picture is drawn again and again after h"
[ "$shown" = "$before" ] || fail "another picture is shown after the keys than before"
kill -0 $pid 2>/dev/null || fail "h closed a still picture"
closes x "a still picture after a key"
[ "$code" = 0 ] || fail "a still picture: exit code $code"

# A pause holds the picture, s goes one further, space goes on; full screen fills the display; q ends with what was done.
start heatmap synthetic:320x240@100000
stays "space did not pause" space
a=$shown
blue=$(import -window "$window" -depth 8 rgb:- | python3 -c 'import sys
b = sys.stdin.buffer.read()
print(sum(b[i:i + 3] == b"\0\0\xff" for i in range(0, len(b), 3)))')
[ "$blue" -gt 20000 ] || fail "the heatmap has only $blue pixels in the blue of no change"
changes s "$a" "s did not step"
stays "s did not stay paused"
b=$shown
key f # without a window manager nothing shows, but nothing breaks either
key f
kill -0 $pid 2>/dev/null || fail "f ended the program: $(cat err)"
changes space "$b" "space did not go on"
closes q "a video after q"
[ "$code" = 0 ] || fail "a video after q: exit code $code: $(cat err)"
grep -q "^frames: [1-9]" out || fail "a video after q: $(cat out)"

# A video plays at its own speed, and --speed changes it: 50 frames at 25 a second.
seconds() { # ARGUMENT...
    timeout 60 "$bin/cusight-heatmap" synthetic:320x240@50 --device cpu "$@" >out 2>err || fail "a video of 50 frames: $(cat err)"
    python3 -c 'import re; print(50 / float(re.search(r"rate: ([0-9.]+)", open("out").read()).group(1)))'
}
took=$(seconds)
python3 -c "import sys; sys.exit(not 1.8 < $took < 12)" || fail "2 s of video took $took s"
slow=$(seconds --speed 0.2) # 10 s, less what the first picture is late, since the others catch up
python3 -c "import sys; sys.exit(not 5 < $slow)" || fail "2 s of video at a fifth of the speed took $slow s"
fast=$(seconds --speed 0)
python3 -c "import sys; sys.exit(not $fast < $slow)" || fail "as fast as possible took $fast s, at a fifth of the speed $slow s"

# A recording plays at --speed: 2 s of events.
awk 'BEGIN { print "320 240"; srand(7); for (i = 0; i < 20000; ++i) print 100 * i, int(rand() * 320), int(rand() * 240), int(rand() * 2) }' >r.txt
start events r.txt --us-per-frame 100000 --speed 0.5 --json
ended "a recording"
python3 -c 'import json, sys; sys.exit(not 20000 / json.load(open("out"))["events_per_second"] > 3)' ||
    fail "a recording of 2 s at half the speed: $(cat out)"

# Live video freezes in a pause while frames keep coming; trackbars close with q.
start diffstream demo synthetic:320x240@100000
stays "a viewer did not pause" space
closes q "a viewer after q"
start heatmap synthetic:320x240@100000
kill -INT $pid
ended "a video after Ctrl-C"
[ "$code" = 130 ] || fail "a video after Ctrl-C: exit code $code: $(cat err)"
start contour still.png still.png --shifts 8
closes q "a contour map after q"
[ "$code" = 0 ] || fail "a contour map: exit code $code: $(cat err)"
SESSION

# On a small screen everything fits, and rectangles of the picture that is shown reduced are those of the picture.
python3 -c 'import random; open("large.ppm", "wb").write(b"P6 1600 1200 255\n" + random.Random(1).randbytes(3 * 1600 * 1200))'
{ sed '/^# A still picture stays/,$d' session.sh; cat <<'SMALL'; } >small.sh
fits() { # the window lies on the screen
    eval "$(xdotool getwindowgeometry --shell "$window")"
    [ "$WIDTH" -ge 300 ] && [ $((X + WIDTH)) -le 640 ] && [ $((Y + HEIGHT)) -le 480 ] || fail "$1: a window of $WIDTH x $HEIGHT at $X, $Y"
}
drag() { # X Y X Y, in the window
    for step in "mousemove $((X + $1)) $((Y + $2))" "mousedown 1" "mousemove $((X + $1 + 9)) $((Y + $2 + 9))" "mousemove $((X + $3)) $((Y + $4))" "mouseup 1"; do
        # shellcheck disable=SC2086
        xdotool $step
        sleep 0.4
    done
}
start heatmap large.ppm
fits "a heatmap"
closes q "a large heatmap"
start contour large.ppm large.ppm --shifts 8
if python3 -c 'import sys; sys.exit(tuple(map(int, sys.argv[1].split(".")[:2])) >= (4, 6))' "$(pkg-config --modversion opencv4 || echo 9.0)"; then
    echo "skipped: the size of a contour map's window: five sliders of OpenCV before 4.6 do not fit a screen of 480 rows"
else
    fits "a contour map"
fi
closes q "a large contour map"
start match large.ppm --save-matches m.csv --output found.png --json
fits "a selection"
drag 30 60 90 120
drag 100 50 160 110
drag 200 200 260 260
key BackSpace
key Return
window=$(find_window '^cusight-match$' "$window") # the selection's window closes, and one of the same name opens
[ -n "$window" ] || fail "no window with the matches: $(cat out err)"
fits "matches"
closes x "matches of a selection"
[ "$code" = 0 ] || fail "a selection: exit code $code: $(cat err)"
python3 - <<'END' || fail "two rectangles give $(cat out err m.csv)"
import csv, json
scale = 1600 / 576 # of 640 columns nine tenths
templates = json.load(open("out"))["templates"]
assert len(templates) == 2 and all(abs(t[side] - 60 * scale) <= 5 for t in templates for side in ("width", "height")), templates
rows = list(csv.DictReader(open("m.csv")))
assert all(abs(int(r["x"]) - x * scale) <= 5 and abs(int(r["y"]) - y * scale) <= 5 for r, (x, y) in zip(rows, ((30, 60), (100, 50)))), rows
END
start match large.ppm --output none.png
closes Escape "a selection that is canceled"
[ "$code" = 0 ] && grep -q "nothing was selected, so there is nothing to find" err || fail "a selection that is canceled: exit code $code: $(cat err)"
[ ! -e none.png ] || fail "a selection that is canceled writes a picture"
SMALL
: >failures
# Without -noreset the server begins anew when its last program ends, and refuses the one that connects meanwhile.
timeout 200 xvfb-run -a -s "-noreset -screen 0 640x480x24" bash small.sh || echo "FAILED: the session on a small screen ended with $?" >>failures
timeout 400 xvfb-run -a -s "-noreset -screen 0 1024x768x24" bash session.sh
status=$?
[ $status = 0 ] || { [ $status = 124 ] && echo "FAILED: the session took too long" >>failures; }
[ ! -s failures ] && { echo "all as expected"; exit 0; }
cat failures
exit 1
