# cusight-events as a whole: shards, outputs, checksums, exit codes. test_events_sample.sh BUILD SOURCE
set -u
export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
program=$1/samples/cusight-events
source=$2
[ -x "$program" ] || { echo "cusight-events was not built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failed=0
fail() { echo "FAILED: $*"; failed=1; }
events() { "$program" --device cpu --headless "$@" 2>err.txt || fail "$* exited with $?: $(cat err.txt)"; }
value() { sed -n "s/^$1: //p"; }
expect() { # CODE TEXT ARGUMENTS: ends with CODE and says TEXT
    code=$1 text=$2
    shift 2
    "$program" --device cpu --headless "$@" >out.txt 2>err.txt
    got=$?
    [ $got -eq "$code" ] || fail "$*: exit code $got, not $code: $(cat err.txt)"
    grep -q -e "$text" err.txt || fail "$*: no '$text' in: $(cat err.txt)"
}

# A recording: text, with a burst, a pause and a hot pixel.
awk 'BEGIN { print "320 240"; t = 1000; srand(7)
    for (i = 0; i < 40000; ++i) {
        t += i % 9000 == 8999 ? 30000 : int(rand() * 12)
        if (i % 50 == 0) print t, 7, 9, 1; else print t, int(rand() * 320), int(rand() * 240), int(rand() * 2)
    } }' >recording.txt

# Every shard's frames, one after the other, are the whole, byte for byte.
for how in "--events-per-frame 3000" "--events-per-frame 3000 --stride 1100" "--events-per-frame 500 --stride 3000 --keep-last" \
    "--window-us 20000" "--window-us 20000 --stride 7000 --keep-last" "--window-us 5000 --stride 30000" \
    "--events-per-frame 2500 --range 0.05:0.2" "--window-us 10000 --range 0.03: --keep-last"; do
    [ -n "${reprs:-}" ] && reprs=histogram || reprs="histogram mdes tencode voxel_grid" # all of them once
    for repr in $reprs; do
        sum=$(events recording.txt $how --repr $repr --md5 --output whole.raw | value md5)
        [ -s whole.raw ] || fail "$how: no frames"
        [ "$sum" = "$(md5sum <whole.raw | cut -d' ' -f1)" ] || fail "$how $repr: --md5 is $sum, not that of the frames"
        : >all.raw
        for i in 1 2 3; do
            rm -f part.raw
            events recording.txt $how --repr $repr --shard $i/3 --output part.raw >/dev/null
            cat part.raw >>all.raw
        done
        cmp -s whole.raw all.raw || fail "$how --repr $repr: 3 shards are not the whole"
    done
done

# More shards than frames: some are empty.
: >all.raw
events recording.txt --events-per-frame 15000 --output whole.raw >/dev/null
for i in 1 2 3 4 5; do
    events recording.txt --events-per-frame 15000 --shard $i/5 --output part.raw >/dev/null
    cat part.raw >>all.raw
done
cmp -s whole.raw all.raw || fail "5 shards of 2 frames are not the whole"

# info
"$program" info recording.txt >info.txt 2>/dev/null || fail "info exited with $?"
grep -q "^sensor: 320 x 240$" info.txt && grep -q "^events: 40000$" info.txt &&
    grep -q "^hot pixels: 1 .*(7, 9) 80[0-9]" info.txt || fail "info says: $(cat info.txt)"

# Events made from video; saved, they are a recording that gives the same frames, whatever its format.
made=$(events synthetic:96x64@30 --events-per-frame 800 --md5 --save made.h5 | value md5)
if [ -s made.h5 ]; then
    again=$(events made.h5 --events-per-frame 800 --md5 | value md5)
    [ -n "$made" ] && [ "$made" = "$again" ] || fail "video gives $made, its saved events $again"
    a=$(events made.h5 --events-per-frame 800 --md5 --shard 2/3 | value md5)
    b=$(events synthetic:96x64@30 --events-per-frame 800 --md5 --shard 2/3 | value md5)
    [ "$a" = "$b" ] || fail "shards of HDF5 and video differ"
    events made.h5 --events-per-frame 800 --output frames.h5 >/dev/null
    [ -s frames.h5 ] && [ ! -e frames.h5.part ] || fail "no frames.h5"
fi

# Pictures and a coarser grid.
events recording.txt --events-per-frame 10000 --resize 160x120 --repr tencode --output pictures/ | grep -q "^frames: 4 of tencode, 160 x 120$" ||
    fail "resize"
[ "$(ls pictures | wc -l)" -eq 4 ] || fail "pictures: $(ls pictures)"

# What goes wrong says so.
expect 3 "No such file\|cannot\|no such" nothing.raw
expect 2 "\-\-shard is '4/3'" recording.txt --shard 4/3 --md5
expect 2 "\-\-range is 'x'" recording.txt --range x --md5
expect 2 "\-\-size is '5'" recording.txt --size 5 --md5
expect 3 "event .* is outside the 100 x 100 sensor" recording.txt --size 100x100 --md5
events recording.txt --size 100x100 --skip-bad --md5 --events-per-frame 1000 | grep -q "^frames: [1-9]" || fail "--skip-bad"
printf '%% evt 2.1\n%% end\n' >new.raw
expect 3 "EVT 2.1" new.raw --md5
printf '%% evt 2.0\n%% geometry 640x480\n%% end\n\001\000\000\200\001\010\000\020\002' >cut.raw
expect 3 "the file ends at byte" cut.raw --md5 --events-per-frame 1
grep -q "^frames: 1 " out.txt || fail "what came before the break is not delivered"
expect 4 "cannot be written" recording.txt --output none/there.raw
exit $failed
