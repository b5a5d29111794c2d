# cusight-events merge: the bytes of one process from shards. events_merge.sh BUILD SOURCE
set -u
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
need_programs
program=$bin/cusight-events
events() { "$program" --device cpu --headless "$@" >out.txt 2>err.txt || fail "$* exited with $?: $(cat err.txt)"; }
expect() { runs "$1" "$2" "$program" merge "${@:3}"; } # CODE TEXT ARGUMENT...
awk 'BEGIN { print "160 120"; t = 1000; srand(7)
    for (i = 0; i < 20000; ++i) { t += int(rand() * 12); print t, int(rand() * 160), int(rand() * 120), int(rand() * 2) } }' >r.txt
types="raw h5"
events r.txt --events-per-frame 1500 --output try.h5 --checksum
[ -s try.h5 ] || types=raw
for type in $types; do
    counts=''
    for how in "--events-per-frame 1500" "--us-per-frame 9000 --stride 4000 --representation voxel_grid --keep-incomplete" \
        "--events-per-frame 1500 --compression none"; do
        [ $type = h5 ] || how=${how/--compression none/}
        events r.txt $how --output whole.$type
        for n in ${counts:-1 11}; do
            rm -f part-*
            for i in $(seq $n); do
                events r.txt $how --shard $i/$n --output part-$(printf %02d $i).$type
            done
            files=$(ls part-*.$type)
            [ $type = raw ] || files=$(ls -r part-*.$type) # any order
            "$program" merge $files --output all.$type >out.txt 2>err.txt || fail "merge $files: $(cat err.txt)"
            cmp whole.$type all.$type || fail "$how: $n shards give another $type"
            grep -q "^shards: $n$" out.txt || fail "says: $(cat out.txt)"
        done
        counts=3
    done
done
# More shards than frames.
for i in 1 2 3 4 5; do events r.txt --events-per-frame 8000 --shard $i/5 --output few$i.raw; done
events r.txt --events-per-frame 8000 --output whole.raw
"$program" merge few?.raw --output all.raw >/dev/null 2>&1 && cmp all.raw whole.raw || fail "empty shards"

expect 3 "none.raw: No such file" none.raw --output x.raw
expect 2 "expected a name that ends in .raw like --output" part-01.h5 --output x.raw
expect 2 "expected another file than INPUT" few1.raw few2.raw --output few1.raw
expect 2 "\-\-output is 'x.mp4'" few1.raw --output x.mp4
expect 4 "cannot be written" few1.raw --output none/x.raw
if [ "$types" = "raw h5" ]; then
    rm -f part-*
    for i in 1 2 3; do events r.txt --events-per-frame 1500 --shard $i/3 --output part-$i.h5; done
    expect 3 "shard 2 of 3 is missing" part-1.h5 part-3.h5 --output x.h5
    expect 3 "shard 3 of 3 is missing" part-1.h5 part-2.h5 --output x.h5
    cp part-1.h5 again.h5
    expect 3 "are the same shard" part-1.h5 part-2.h5 part-3.h5 again.h5 --output x.h5
    events r.txt --events-per-frame 1501 --shard 2/3 --output other.h5
    expect 3 "other.h5 is a shard of another run than part-1.h5" part-1.h5 other.h5 part-3.h5 --output x.h5
    events r.txt --events-per-frame 1500 --shard 2/3 --resize 80x60 --output other.h5
    expect 3 "other.h5 has other frames than part-1.h5" part-1.h5 other.h5 part-3.h5 --output x.h5
    head -c 3000 part-2.h5 >other.h5
    expect 3 "other.h5" part-1.h5 other.h5 part-3.h5 --output x.h5
    events r.txt --save-events recording.h5
    expect 3 "recording.h5 is not a file of frames" recording.h5 --output x.h5
    ( ulimit -f 20; "$program" merge part-?.h5 --output x.h5 >/dev/null 2>err.txt )
    [ $? -eq 4 ] || fail "full disk: $(cat err.txt)"
fi
[ ! -e x.raw ] && [ ! -e x.h5 ] && [ -z "$(find . -name '.cus*')" ] || fail "a failed merge leaves $(find . -name '.cus*' -o -name 'x.*')"
exit $failed
