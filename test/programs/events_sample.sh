# cusight-events from the command line: shards, outputs, checksums, exit codes. events_sample.sh BUILD SOURCE
set -u
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
need_programs
program=$bin/cusight-events
events() { "$program" --device cpu --headless "$@" 2>err.txt || fail "$* exited with $?: $(cat err.txt)"; }
value() { sed -n "s/^$1: //p"; }
crc32c() { # of stdin, bit by bit from the polynomial
    python3 -c 'import sys
table = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    table.append(i)
crc = 0xFFFFFFFF
for byte in sys.stdin.buffer.read():
    crc = crc >> 8 ^ table[(crc ^ byte) & 255]
print("%08x" % (crc ^ 0xFFFFFFFF))'
}
expect() { runs "$1" "$2" "$program" --device cpu --headless "${@:3}"; } # CODE TEXT ARGUMENT...

# A recording: text, with a burst, a pause and a hot pixel.
awk 'BEGIN { print "320 240"; t = 1000; srand(7)
    for (i = 0; i < 40000; ++i) {
        t += i % 9000 == 8999 ? 30000 : int(rand() * 12)
        if (i % 50 == 0) print t, 7, 9, 1; else print t, int(rand() * 320), int(rand() * 240), int(rand() * 2)
    } }' >recording.txt

# The frames of all shards, concatenated, equal the whole byte for byte.
for how in "--events-per-frame 3000" "--events-per-frame 3000 --stride 1100" "--events-per-frame 500 --stride 3000 --keep-incomplete" \
    "--us-per-frame 20000" "--us-per-frame 20000 --stride 7000 --keep-incomplete" "--us-per-frame 5000 --stride 30000" \
    "--events-per-frame 2500 --range 0.05:0.2" "--us-per-frame 10000 --range 0.03: --keep-incomplete"; do
    [ -n "${kinds:-}" ] && kinds=histogram || kinds="histogram mdes tencode voxel_grid" # all of them for the first
    for kind in $kinds; do
        sum=$(events recording.txt $how --representation $kind --checksum --output whole.raw | value checksum)
        [ -s whole.raw ] || fail "$how: no frames"
        [ "$how" != "--us-per-frame 20000" ] || [ "$sum" = "$(crc32c <whole.raw)" ] ||
            fail "$how $kind: --checksum is $sum, not that of the frames"
        : >all.raw
        for i in 1 2 3; do
            rm -f part.raw
            events recording.txt $how --representation $kind --shard $i/3 --output part.raw >/dev/null
            cat part.raw >>all.raw
        done
        cmp -s whole.raw all.raw || fail "$how --representation $kind: 3 shards differ from the whole"
    done
done

# More shards than frames: some are empty.
: >all.raw
events recording.txt --events-per-frame 15000 --output whole.raw >/dev/null
for i in 1 2 3 4 5; do
    events recording.txt --events-per-frame 15000 --shard $i/5 --output part.raw >/dev/null
    cat part.raw >>all.raw
done
cmp -s whole.raw all.raw || fail "5 shards of 2 frames differ from the whole"

# info
"$program" info recording.txt >info.txt 2>/dev/null || fail "info exited with $?"
grep -q "^sensor: 320 x 240$" info.txt && grep -q "^events: 40000$" info.txt &&
    grep -q "^hot pixels: 1 .*(7, 9) 80[0-9]" info.txt || fail "info says: $(cat info.txt)"

# Events generated from video; saved as a recording, they give the same frames.
made=$(events synthetic:96x64@30 --events-per-frame 800 --checksum --save-events made.h5 | value checksum)
if [ -s made.h5 ]; then
    again=$(events made.h5 --events-per-frame 800 --checksum | value checksum)
    [ -n "$made" ] && [ "$made" = "$again" ] || fail "video gives $made, its saved events $again"
    a=$(events made.h5 --events-per-frame 800 --checksum --shard 2/3 | value checksum)
    b=$(events synthetic:96x64@30 --events-per-frame 800 --checksum --shard 2/3 | value checksum)
    [ "$a" = "$b" ] || fail "shards of HDF5 and video differ"
    events made.h5 --events-per-frame 800 --output frames.h5 >/dev/null
    [ -s frames.h5 ] && [ ! -e frames.h5.part ] || fail "no frames.h5"
fi

# Pictures and a coarser grid.
events recording.txt --events-per-frame 10000 --resize 160x120 --representation tencode --output pictures/ | grep "^frames: 4 of tencode, 160 x 120$" >/dev/null ||
    fail "resize"
[ "$(ls pictures | wc -l)" -eq 4 ] || fail "pictures: $(ls pictures)"

# Errors.
expect 3 "No such file\|cannot\|no such" nothing.raw
expect 2 "\-\-shard is '4/3'" recording.txt --shard 4/3 --checksum
expect 2 "\-\-range is 'x'" recording.txt --range x --checksum
expect 2 "\-\-sensor-size is '5'" recording.txt --sensor-size 5 --checksum
expect 3 "event .* is outside the 100 x 100 sensor" recording.txt --sensor-size 100x100 --checksum
events recording.txt --sensor-size 100x100 --skip-bad --checksum --events-per-frame 1000 | grep "^frames: [1-9]" >/dev/null || fail "--skip-bad"
printf '%% evt 4.0\n%% end\n' >new.raw
expect 3 "EVT 4.0" new.raw --checksum
printf '%% evt 2.0\n%% geometry 640x480\n%% end\n\001\000\000\200\001\010\000\020\002' >cut.raw
expect 3 "the file ends at byte" cut.raw --checksum --events-per-frame 1
grep -q "^frames: 1 " out.txt || fail "frames before the end of the file are missing"
expect 4 "cannot be written" recording.txt --output none/there.raw
exit $failed
