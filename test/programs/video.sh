#!/usr/bin/env bash
# Videos from the command line: variable frame rates, parts, several inputs, encodings, pipes, live video that is recorded. video.cpp has
# what needs no whole programs. Usage: video.sh BUILD SOURCE
set -uo pipefail
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
need_programs
# made TEXT PROGRAM ARGUMENT...: it succeeds and prints TEXT.
made() { says 0 "$1" "$bin/cusight-$2" "${@:3}" --device cpu --headless; }
refused() { says "$1" "$2" "$bin/cusight-heatmap" "${@:3}" --device cpu --headless; } # CODE TEXT ARGUMENT...
# The times of a video's frames, after its first: by ffprobe, which knows nothing of these programs, if there is one.
times() {
    if command -v ffprobe >/dev/null; then
        ffprobe -v error -select_streams v -show_entries packet=pts_time -of csv=p=0 "$1" | tr -d , | sort -n
    else
        "$bin/cusight-heatmap" "$1" --device cpu --headless --json-frames --output times.png | sed -n 's/.*"seconds":\([0-9.e-]*\),.*/\1/p'
    fi | awk 'NR == 1 { first = $1 } { printf "%s%.2f", (NR > 1 ? " " : ""), $1 - first }'
}
expect_times() { [ "$(times "$1")" = "$2" ] || fail "$1 has the times $(times "$1"), expected $2"; }

echo "-- times"
made "frames: 3" heatmap synthetic:96x64@3 --fps 10 --no-legend --output slow.mp4
made "frames: 4" heatmap synthetic:96x64@4 --fps 50 --no-legend --output fast.mp4
uneven="0.00 0.10 0.20 0.30 0.32 0.34 0.36"
made "frames: 7" match slow.mp4 fast.mp4 --roi 8,8,9,9 --method sqdiff --output uneven.mkv # one after the other
expect_times uneven.mkv "$uneven"
made "frames: 7" heatmap uneven.mkv --output h.mp4
expect_times h.mp4 "$uneven"
made "frames: 7" contour uneven.mkv --shifts 8 --output c.webm
expect_times c.webm "$uneven"
for pace in --unpaced ""; do # every frame, at its time, however long encoding takes
    # shellcheck disable=SC2086
    made "frames received: 7," diffstream demo uneven.mkv $pace --output d.mp4
    expect_times d.mp4 "$uneven"
done
made "frames: 3" heatmap uneven.mkv --start 0.2 --duration 0.13 --output p.mp4
expect_times p.mp4 "0.00 0.10 0.12"
made "frames: 7" heatmap uneven.mkv --fps 10 --output h.mp4
expect_times h.mp4 "0.00 0.10 0.20 0.30 0.40"
made "frames received: 7," diffstream demo uneven.mkv --fps 20 --output d.mp4
expect_times d.mp4 "0.00 0.05 0.10 0.15 0.20 0.25 0.30"
made "input: uneven.mkv, 40 x 30" heatmap uneven.mkv --crop 2,3,40,30 --output p.png
# Events happen between the frames that they come from.
made "360000 us" events info uneven.mkv
refused 3 "uneven.mkv has no frame between 9 s and its end; its last one is at 0.36 s" uneven.mkv --start 9
refused 2 "--crop is 90,0,10,10, expected a rectangle inside the frame, 96 x 64" uneven.mkv --crop 90,0,10,10
made "frames: 4" heatmap uneven.mkv --start 0:00.3 --duration 1:00 --output p.mp4
expect_times p.mp4 "0.00 0.02 0.04 0.06"
refused 3 "no frame between 65 s and its end" uneven.mkv --start 1:05
refused 2 "--start is '1:65', expected a number from 0 to 1e+09 (seconds), or a time such as 500ms or 1:05" uneven.mkv --start 1:65
refused 2 "--duration is '-1', expected a number from 0" uneven.mkv --duration -1
refused 2 "--output is 'fast.mp4', expected another file than INPUT 'fast.mp4'" slow.mp4 fast.mp4 --output fast.mp4

echo "-- encodings"
made "output: x.mp4" heatmap uneven.mkv --codec h264 --crf 40 --preset ultrafast --output x.mp4
made "output: x.avi" heatmap uneven.mkv --codec FFVHuff --output x.avi # names are taken in any case
made "output: x.mp4" contour uneven.mkv --shifts 8 --preset ultrafast --output x.mp4
refused 2 "--codec is 'x', expected h264, hevc, " uneven.mkv --codec x
refused 2 "Error setting preset" uneven.mkv --preset x
refused 2 "--crf is 'good', expected a number from 0 to 255" uneven.mkv --crf good
"$bin/cusight-match" uneven.mkv --roi 8,8,9,9 --method sqdiff --device cpu --headless --output - 2>err | head -n 1 >header
grep -aq "^YUV4MPEG2 W96 H64 F50:1 .*C420" header || fail "a pipe begins with $(head -c 80 header)"
"$bin/cusight-heatmap" uneven.mkv --no-legend --device cpu --headless --output -.mkv 2>err | "$bin/cusight-heatmap" - --device cpu --headless --output y.mkv >said 2>&1
expect_times y.mkv "$uneven"

echo "-- ended while it encodes"
printf precious >k.mp4
"$bin/cusight-heatmap" synthetic:640x480@1000000 --device cpu --headless --output k.mp4 >said 2>&1 &
pid=$!
awaited is_begun '.cusight-*' 50k
end_with INT $pid
[ $code = 130 ] || fail "Ctrl-C: exit code $code: $(cat said)"
[ "$(frames_in k.mp4)" = "$(sed -n 's/^frames: //p' said)" ] || fail "after Ctrl-C there are $(frames_in k.mp4) frames: $(cat said)"
"$bin/cusight-heatmap" synthetic:640x480@1000000 --device cpu --headless -q --output -.mkv 2>err | head -c 100000 >/dev/null
[ "${PIPESTATUS[0]}" = 4 ] || fail "a reader that goes away: exit code ${PIPESTATUS[0]}"
grep -q "cannot be written: Broken pipe" err || fail "a reader that goes away: $(cat err)"
finish
