#!/usr/bin/env bash
# Several devices: the example in C of docs/several-gpus.md, and the programs with --device cpu:N, whose output equals that of one device byte for
# byte. many_devices.sh BUILD SOURCE
set -uo pipefail
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"

# The example: in the document as it is compiled; the same result on one thread, on three, and on all GPUs.
awk '/^```/ { code = $0 == "```c"; next } code' "$source/docs/several-gpus.md" >example.c
diff example.c "$source/test/packaging/consumers/many_devices.c" || fail "docs/several-gpus.md and test/packaging/consumers/many_devices.c differ"
example=$build/test/cusight_many_devices
for workers in 1 3 ""; do
    "$example" $workers >"found$workers.txt" 2>said || fail "the example with '$workers': $(cat said)"
    cmp -s found1.txt "found$workers.txt" || fail "the example differs with '$workers': $(cat said)"
done
[ "$(sed -n 61p found1.txt)" = "" ] && [ "$(sed -n 60p found1.txt)" = "frame 59: x 295, y 177" ] ||
    fail "the example finds: $(tail -1 found1.txt)"
if [ ! -x "$bin/cusight-heatmap" ]; then
    echo "programs: skipped, built without samples"
    exit $failed
fi

# expect CODE TEXT PROGRAM ARGUMENT...
expect() {
    says "$1" "$2" "$bin/cusight-$3" "${@:4}" --headless
    [ "$(grep -c "^cusight-$3: " said)" -le 1 ] || fail "${*:3} printed several messages: $(cat said)"
}
# same PROGRAM ARGUMENT...: writes the same files in o/ and prints the same results on one device and on several.
devices="cpu cpu:2 cpu:3 cpu:7"
same() {
    local program=$1 device
    shift
    for device in $devices; do
        rm -rf o
        mkdir o
        timeout 100 "$bin/cusight-$program" "$@" --headless --device $device >said 2>err || fail "$program $* $device: $(cat err)"
        sed -i 's/, [0-9.]* frames.s$//; /^device:/d; /^rate:/d; /^stages:/d' said
        [ -n "$(ls o)" ] || fail "$program $* $device wrote nothing"
        cat said o/* >"result.$device"
        cmp -s result.cpu "result.$device" || fail "$program $*: $device differs from cpu: $(diff result.cpu "result.$device" | head -5)"
    done
    rm -f result.*
    devices="cpu cpu:3" # from the second time on
}

for view in heatmap noise side; do
    same heatmap synthetic:161x47@12 --view $view --output o/
done
same heatmap synthetic:80x60@12 --threshold 4 --min-neighbors 3 --output o/
same heatmap synthetic:40x4@9 --output o/ # fewer rows than workers
same heatmap synthetic:40x30@1 --output o/
same heatmap synthetic:40x30@9 --frames 4 --output o/
same match synthetic:161x97@13 --roi 3,3,19,11 --roi 40,20,9,9 --top-k 3 --save-matches o/matches.csv --output o/
same match synthetic:161x97@13 --roi 3,3,19,11 --gray --method ccoeff-normed --hsv-lower 0,0,0 --hsv-upper 90,255,255 \
    --frames 5 --save-matches o/matches.csv --output o/
same contour synthetic:192x60@7 --output o/ --save-elevation o/elevation.png --save-lines o/lines.png

made_events 66 48 30000 >recording.txt
for how in "--events-per-frame 3000" "--events-per-frame 3000 --stride 1100 --representation voxel_grid" \
    "--us-per-frame 9000 --stride 2500 --keep-incomplete --representation tencode" "--us-per-frame 100 --stride 2000" \
    "--us-per-frame 10000 --range 0.03: --keep-incomplete --representation time_surface" \
    "--us-per-frame 3000 --stride 1000 --shard 3/4 --representation mdes" "--events-per-frame 500 --shard 2/3"; do
    same events recording.txt $how --checksum --output o/frames.raw
done
same events recording.txt --events-per-frame 4000 --output o/
made_events 66 48 1000000 >long.txt # 8 MB, for several devices
"$bin/cusight-events" convert long.txt long.dat >said 2>&1 || fail "long.dat: $(cat said)"
for how in "--events-per-frame 9000 --stride 4000" "--us-per-frame 90000" "--events-per-frame 9000 --shard 2/3"; do
    same events long.dat $how --checksum --output o/frames.raw
done
same events synthetic:96x64@20 --events-per-frame 800 --checksum --output o/frames.raw

# Inputs that end early: the output holds what was before.
"$bin/cusight-heatmap" synthetic:64x48@4 --device cpu --headless --output sizes/ >/dev/null 2>&1
"$bin/cusight-heatmap" synthetic:66x48@1 --device cpu --headless --output sizes/000009.png >/dev/null 2>&1
for device in cpu cpu:3; do
    for program in heatmap "contour --shifts 8"; do
        rm -f kept.avi
        # shellcheck disable=SC2086
        expect 3 "frame 5 is 66 x 48" ${program%% *} sizes ${program#${program%% *}} --device $device --output kept.avi
        kept=$(frames_in kept.avi)
        [ "$kept" = 4 ] || fail "$program $device: kept.avi has '$kept' frames, not the 4 before the break"
    done
    # Single pictures may differ in size; those of a video may not.
    expect 2 "a picture is 66 x 48 and the first one 64 x 48, but a video has one size: expected a folder" match sizes --roi 3,3,9,9 --method sqdiff \
        --device $device --output kept.avi
done
head -c 60000 recording.txt >cut.txt
echo "70000 x" >>cut.txt
expect 3 "cut.txt" events cut.txt --device cpu:3 --events-per-frame 500 --output cut.raw
[ -s cut.raw ] || fail "no frames of cut.txt"

# One message, and no output, when the workers fail.
expect 2 "shifts" contour synthetic:64x48@5 --shifts 200 --device cpu:3 --output none.mp4
expect 2 "template 0 is 64 x 48, larger than the frames, 32 x 24" match synthetic:32x24@5 --template sizes/000000.png --device cpu:3 \
    --output none.mp4
[ ! -e none.mp4 ] || fail "none.mp4 was written"

# Which lists are accepted, and by whom.
for list in cpu:0 cpu:65 "cuda:0," cuda:all,1; do
    expect 2 "--device is '$list', expected auto, cpu, cpu:N, cuda, cuda:n, cuda:n,m or cuda:all" heatmap synthetic:64x48@3 --device $list
done
expect 2 "--device is 'cuda:all', expected auto, cpu, cuda or cuda:n" diffstream demo synthetic:64x48@3 --device cuda:all
expect 2 "--device is 'cpu:2', expected auto, cpu, cuda or cuda:n" diffstream demo synthetic:64x48@3 --device cpu:2
expect 5 "--device cuda:0,999: " match synthetic:64x48@3 --roi 3,3,9,9 --device cuda:0,999

# Ctrl-C: the file is complete and the exit code is 130.
for program in heatmap "match --roi 3,3,9,9" "contour --shifts 8" "events --events-per-frame 2000"; do
    rm -f stopped.avi
    # shellcheck disable=SC2086
    "$bin/cusight-${program%% *}" synthetic:160x120@1000000 ${program#${program%% *}} --device cpu:3 --headless --output stopped.avi >said 2>&1 &
    pid=$!
    awaited is_begun '.cusight-*.avi' 20k
    end_with INT $pid
    [ $code = 130 ] || fail "$program: after Ctrl-C the exit code is $code: $(cat said)"
    written=$(sed -n 's/^frames: \([0-9]*\).*/\1/p' said)
    kept=$(frames_in stopped.avi)
    [ "${written:-0}" -gt 0 ] && [ "$kept" = "$written" ] || fail "$program: stopped.avi has '$kept' frames, said '$written'"
done
finish
