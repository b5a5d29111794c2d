# cusight-events from the command line: shards and merge, outputs, checksums, exit codes. events.sh BUILD SOURCE
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
rejects() { runs "$1" "$2" "$program" merge "${@:3}"; }                  # CODE TEXT ARGUMENT...

# A burst, a pause and a hot pixel.
made_events 320 240 40000 | awk 'NR % 50 == 2 { $2 = 7; $3 = 9; $4 = 1 } { print }' >recording.txt
made_events 160 120 20000 >r.txt

# shards TYPE INPUT HOW N: the shards, merged, give the bytes of the whole, and frames as they are also when one follows another.
shards() {
    local type=$1 input=$2 how=$3 n=$4 i files
    rm -f part-*
    for i in $(seq "$n"); do
        events $input $how --shard $i/$n --output part-$(printf %02d $i).$type >/dev/null
    done
    files=$(ls part-*.$type)
    [ $type = raw ] || files=$(ls -r part-*.$type) # any order
    "$program" merge $files --output all.$type >out.txt 2>err.txt || fail "merge $files: $(cat err.txt)"
    cmp whole.$type all.$type || fail "$how: $n shards give another $type"
    grep -q "^shards: $n$" out.txt || fail "merge says: $(cat out.txt)"
    [ $type != raw ] || cat part-* | cmp whole.raw - || fail "$how: $n shards are not the whole"
}
for how in "--events-per-frame 3000" "--events-per-frame 3000 --stride 1100" "--events-per-frame 500 --stride 3000 --keep-incomplete" \
    "--us-per-frame 20000" "--us-per-frame 20000 --stride 7000 --keep-incomplete" "--us-per-frame 5000 --stride 30000" \
    "--events-per-frame 2500 --range 0.05:0.2" "--us-per-frame 10000 --range 0.03: --keep-incomplete"; do
    [ -n "${kinds:-}" ] && kinds=histogram ||
        kinds="histogram mdes mdes_count tencode stacked_histogram voxel_grid time_surface event_diff event_cube mdes_diff" # for the first
    for kind in $kinds; do
        sum=$(events recording.txt $how --representation $kind --checksum --output whole.raw | value checksum)
        [ -s whole.raw ] || fail "$how: no frames"
        [ "$how" != "--us-per-frame 20000" ] || [ "$sum" = "$(crc32c <whole.raw)" ] ||
            fail "$how $kind: --checksum is $sum, not that of the frames"
        shards raw recording.txt "$how --representation $kind" 3
    done
done
# Times with units are those in microseconds and seconds.
for same in "--us-per-frame 20ms:--us-per-frame 20000" "--us-per-frame 0.02s --stride 7ms:--us-per-frame 20000 --stride 7000" \
    "--range 50ms?0.2s:--range 0.05?0.2" "--activity 1.5ms:--activity 1500" "--representation Voxel-Grid:--representation voxel_grid"; do
    with=${same%%:*} without=${same#*:}
    a=$(events recording.txt ${with/\?/:} --checksum | value checksum) b=$(events recording.txt ${without/\?/:} --checksum | value checksum)
    [ -n "$a" ] && [ "$a" = "$b" ] || fail "$with gives $a, $without $b: $(cat err.txt)"
done
says 2 "--stride is 7000 us, expected a number of events like --events-per-frame" "$program" --device cpu --headless recording.txt \
    --stride 7ms --checksum
says 2 "--us-per-frame is '10m', expected an integer from 0 to 2000000000 (microseconds), or a duration such as 10ms" "$program" \
    recording.txt --us-per-frame 10m
# More shards than frames: some are empty.
events recording.txt --events-per-frame 15000 --output whole.raw >/dev/null
shards raw recording.txt "--events-per-frame 15000" 5
events r.txt --events-per-frame 1500 --output whole.h5 >/dev/null
if [ -s whole.h5 ]; then
    shards h5 r.txt "--events-per-frame 1500" 1
    shards h5 r.txt "--events-per-frame 1500" 11
    for how in "--us-per-frame 9000 --stride 4000 --representation voxel_grid --keep-incomplete" "--events-per-frame 1500 --compression none"; do
        events r.txt $how --output whole.h5 >/dev/null
        shards h5 r.txt "$how" 3
    done
fi

# Merges that cannot be.
for i in 1 2; do events r.txt --events-per-frame 8000 --shard $i/2 --output few$i.raw >/dev/null; done
rejects 3 "none.raw: No such file" none.raw --output x.raw
rejects 2 "expected a name that ends in .raw like --output" part-01.h5 --output x.raw
rejects 2 "expected another file than INPUT" few1.raw few2.raw --output few1.raw
rejects 2 "\-\-output is 'x.mp4'" few1.raw --output x.mp4
rejects 4 "cannot be written" few1.raw --output none/x.raw
if [ -s whole.h5 ]; then
    events r.txt --events-per-frame 1500 --output whole.h5 >/dev/null
    shards h5 r.txt "--events-per-frame 1500" 3
    rejects 3 "shard 2 of 3 is missing" part-01.h5 part-03.h5 --output x.h5
    rejects 3 "shard 3 of 3 is missing" part-01.h5 part-02.h5 --output x.h5
    cp part-01.h5 again.h5
    rejects 3 "are the same shard" part-01.h5 part-02.h5 part-03.h5 again.h5 --output x.h5
    events r.txt --events-per-frame 1501 --shard 2/3 --output other.h5 >/dev/null
    rejects 3 "other.h5 is a shard of another run than part-01.h5" part-01.h5 other.h5 part-03.h5 --output x.h5
    events r.txt --events-per-frame 1500 --shard 2/3 --resize 80x60 --output other.h5 >/dev/null
    rejects 3 "other.h5 has other frames than part-01.h5" part-01.h5 other.h5 part-03.h5 --output x.h5
    head -c 3000 part-02.h5 >other.h5
    rejects 3 "other.h5" part-01.h5 other.h5 part-03.h5 --output x.h5
    events r.txt --save-events made.h5 >/dev/null
    rejects 3 "made.h5 is not a file of frames" made.h5 --output x.h5
    ( ulimit -f 20; "$program" merge part-*.h5 --output x.h5 >/dev/null 2>err.txt )
    [ $? -eq 4 ] || fail "full disk: $(cat err.txt)"
    # A part that is there is not made again, unless it is of another recording, with other content of the same size.
    made=$(stat -c %Y.%i part-02.h5)
    events r.txt --events-per-frame 1500 --shard 2/3 --output part-02.h5 >out.txt
    grep -q "part-02.h5, which is this shard already" out.txt && [ "$made" = "$(stat -c %Y.%i part-02.h5)" ] || fail "made again: $(cat out.txt)"
    sed '15000s/0$/1/;15000t;15000s/1$/0/' r.txt >same_size.txt
    [ "$(stat -c %s r.txt)" = "$(stat -c %s same_size.txt)" ] && ! cmp -s r.txt same_size.txt || fail "no other recording"
    events same_size.txt --events-per-frame 1500 --shard 2/3 --output part-02.h5 >/dev/null
    rejects 3 "part-02.h5 is a shard of another run than part-01.h5" part-01.h5 part-02.h5 part-03.h5 --output x.h5
    # Damage: its shard has the frames before it, and merging ends there as one run does.
    sed '12345s/.*/no event/' r.txt >damaged.txt
    for how in "--events-per-frame 700" "--us-per-frame 5000 --stride 1500" "--events-per-frame 700 --compression none"; do
        expect 3 "damaged.txt: line 12345" damaged.txt $how --output whole.h5
        for i in 1 2 3 4; do "$program" --device cpu --headless damaged.txt $how --shard $i/4 --output part-0$i.h5 >/dev/null 2>&1; done
        rejects 3 "part-03.h5: the recording is damaged after these frames; those of later shards are left out" part-0[1-4].h5 --output all.h5
        cmp whole.h5 all.h5 || fail "$how: shards of a damaged recording give other frames"
        # Several devices, and --save-events, go another way.
        for i in 1 2; do "$program" --device cpu:2 --headless damaged.txt $how --shard $i/4 --output part-0$i.h5 --overwrite >out.txt 2>err.txt || fail "$how: damage that is another shard's: $(cat err.txt)"; done
        rm all.h5
        "$program" merge part-0[1-3].h5 --output all.h5 >/dev/null 2>&1 # the fourth is not needed
        cmp whole.h5 all.h5 || fail "$how: shards by two devices give other frames"
        rm all.h5
    done
    # The shard that meets it has no frame.
    for i in 1 2; do expect 3 "line 12345" damaged.txt --events-per-frame 30000 --no-keep-incomplete --shard $i/2 --output part-0$i.h5; done
    rejects 3 "no frame: all shards are empty" part-01.h5 part-02.h5 --output all.h5
    rm part-0*.h5
    # Stdin may be another recording each time; frames stored otherwise are another run's.
    for i in 1 2; do
        events - --events-per-frame 1500 --shard 1/2 --output part-01.h5 <r.txt >out.txt
        ! grep -q already out.txt || fail "stdin: $(cat out.txt)"
    done
    for how in lzf none; do events r.txt --events-per-frame 1500 --shard 1/2 --output part-01.h5 --compression $how >out.txt; done
    ! grep -q already out.txt || fail "--compression none: $(cat out.txt)"
    for i in 1 2; do events r.txt --events-per-frame 1500 --shard $i/2 --output part-0$i.h5 >/dev/null; done
    events r.txt --events-per-frame 1500 --output whole.h5 >/dev/null
    shards h5 r.txt "--events-per-frame 1500" 24
    (ulimit -n 20; "$program" merge part-*.h5 --output all.h5 >/dev/null 2>err.txt) || fail "24 shards in 20 files: $(cat err.txt)"
    # By a launcher.
    events r.txt --events-per-frame 1500 --output whole.h5 >/dev/null
    for i in 0 1 2; do PMI_RANK=$i PMI_SIZE=3 events r.txt --events-per-frame 1500 --shard auto --output auto.h5 >/dev/null; done
    "$program" merge auto.part-?-of-3.h5 --output all.h5 >/dev/null && cmp whole.h5 all.h5 || fail "--shard auto"
    expect 2 "\-\-shard is 'auto', but no launcher has started this process" r.txt --shard auto --checksum
    export PMI_RANK=0 PMI_SIZE=2
    echo mine >keep.part-1-of-2.h5
    expect 4 "keep.part-1-of-2.h5 exists" r.txt --shard auto --output keep.h5
    [ "$(cat keep.part-1-of-2.h5)" = mine ] || fail "--shard auto replaces a file of mine"
    expect 2 "expected NAME.raw or NAME.h5 with --shard auto" r.txt --shard auto --output out%03d.png
    expect 2 "\-\-save-events is 'e.h5', which every process of --shard auto would write" r.txt --shard auto --save-events e.h5
    unset PMI_RANK PMI_SIZE
fi
[ ! -e x.raw ] && [ ! -e x.h5 ] && [ -z "$(find . -name '.cus*')" ] || fail "a failed merge leaves $(find . -name '.cus*' -o -name 'x.*')"

# info
"$program" info recording.txt >info.txt 2>/dev/null || fail "info exited with $?"
grep -q "^sensor: 320 x 240$" info.txt && grep -q "^events: 40000$" info.txt &&
    grep -q "^hot pixels: 1 .*(7, 9) 80[0-9]" info.txt || fail "info says: $(cat info.txt)"

# Events generated from video; saved as a recording, they give the same frames.
made=$(events synthetic:96x64@30 --events-per-frame 800 --checksum --save-events made.h5 | value checksum)
again=$(events made.h5 --events-per-frame 800 --checksum | value checksum)
[ -n "$made" ] && [ "$made" = "$again" ] || fail "video gives $made, its saved events $again"
a=$(events made.h5 --events-per-frame 800 --checksum --shard 2/3 | value checksum)
b=$(events synthetic:96x64@30 --events-per-frame 800 --checksum --shard 2/3 | value checksum)
[ "$a" = "$b" ] || fail "shards of HDF5 and video differ"

# convert: from each format to each, the events and what info says of the format stay.
checksum() { events "$1" --events-per-frame 5000 --checksum | value checksum; }
right=$(checksum recording.txt)
from=recording.txt
for how in "c.h5 M3ED" "c.hdf5 Metavision" "c.raw EVT3" "d.raw EVT2 --format evt2" "c.aedat4 AEDAT4" "d.aedat4 AEDAT4 --compression none" "c.dat DAT" "c.csv text" "d.txt text" "d.h5 Metavision --format metavision --compression none" \
    "d.hdf5 M3ED --format m3ed --compression gzip" "e.raw EVT3 --format evt3"; do
    read -r name format more <<<"$how"
    "$program" convert $from $name $more >out.txt 2>err.txt || fail "convert $from $how: $(cat err.txt)"
    grep -q "^events: 40000$" out.txt && grep -q "^events in: $name, $format$" out.txt || fail "convert $how says: $(cat out.txt)"
    [ "$(checksum $name)" = "$right" ] || fail "convert $how changes the events"
    "$program" info $name | grep "^sensor: 320 x 240$" >/dev/null || fail "$name has another sensor"
    runs 3 "$name is a recording of an event camera, expected a video; use cusight-events" "$bin/cusight-heatmap" $name --headless --device cpu --output h.mp4
    from=$name
done
for name in c.raw c.aedat4 c.csv c.h5; do
    runs 3 "stdin is a recording of an event camera" "$bin/cusight-heatmap" - --headless --device cpu --output h.mp4 <$name
done
"$program" convert c.raw part.dat --range 0.1:0.2 >/dev/null 2>err.txt || fail "convert --range: $(cat err.txt)"
a=$("$program" recording.txt --headless --range 0.1:0.2 --events-per-frame 500 --checksum 2>/dev/null | value checksum)
[ -n "$a" ] && [ "$(events part.dat --events-per-frame 500 --checksum | value checksum)" = "$a" ] || fail "convert --range gives other events"
runs 3 "no event: --range contains no events" "$program" convert c.raw none.dat --range 5000:5001

# Triggers go along: an event, input 3 rising, an event; AEDAT4 has no inputs.
printf '%% evt 2.0\n%% geometry 320x240\n%% end\n\x01\x00\x00\x80\x05\x28\x00\x10\x01\x03\x40\xa0\x06\x30\x80\x00' >t.raw
for name in t2.raw t2.hdf5 t2.aedat4; do
    "$program" convert t.raw $name >out.txt 2>err.txt || fail "convert t.raw $name: $(cat err.txt)"
    if [ $name = t2.aedat4 ]; then
        grep -q "^triggers: 0, and 1 that the format cannot store$" out.txt || fail "convert t.raw $name says: $(cat out.txt)"
    else
        grep -q "^triggers: 1$" out.txt || fail "convert t.raw $name says: $(cat out.txt)"
        "$program" $name --headless --triggers t.csv --events-per-frame 1 >/dev/null 2>err.txt || fail "$name: $(cat err.txt)"
        grep -q "^65,3,1$" t.csv || fail "$name has triggers $(cat t.csv)"
    fi
done

# Filters: mirrored twice is as before; a part of the sensor has its size; a hot pixel loses events.
"$program" convert recording.txt f.raw --flip both >/dev/null 2>err.txt || fail "convert --flip: $(cat err.txt)"
[ "$(checksum f.raw)" != "$right" ] || fail "--flip changes nothing"
"$program" convert f.raw g.raw --flip both >/dev/null 2>err.txt && [ "$(checksum g.raw)" = "$right" ] || fail "mirrored twice is not as before"
"$program" convert recording.txt f.raw --crop 5,6,100,80 >/dev/null 2>err.txt || fail "convert --crop: $(cat err.txt)"
"$program" info f.raw | grep "^sensor: 100 x 80$" >/dev/null || fail "--crop: $("$program" info f.raw)"
"$program" convert recording.txt f.raw --hot-pixels 100 >out.txt 2>err.txt || fail "convert --hot-pixels: $(cat err.txt)"
kept=$(value events <out.txt)
[ "$kept" -gt 30000 ] && [ "$kept" -lt 40000 ] || fail "--hot-pixels keeps $kept of 40000 events"
"$program" convert recording.txt f.raw --activity 10 >out.txt 2>err.txt || fail "convert --activity: $(cat err.txt)"
[ "$(value events <out.txt)" -lt 40000 ] || fail "--activity keeps all"
# What left no event is named.
for how in "--crop 0,0,1,1 --activity 1" "--crop 0,0,1,1 --activity 1 --range 0.01:"; do
    runs 3 "no event: --crop and --activity keep none of those that are there" "$program" convert recording.txt none.raw $how
    runs 3 "no frame: --crop and --activity keep none of those that are there" "$program" recording.txt --headless --device cpu --checksum $how
done
runs 3 "no frame: --range contains no events" "$program" recording.txt --headless --device cpu --checksum --range 5000: --crop 0,0,1,1

# With noise: more events, the same in every run with one seed, others with another.
noisy() { events synthetic:96x64@30 --events-per-frame 800 --checksum --shot-rate 20 --leak-rate 1 --refractory 500 "$@" | value checksum; }
made=$(noisy)
[ -n "$made" ] && [ "$made" = "$(noisy --seed 0)" ] && [ "$made" != "$(noisy --seed 1)" ] && [ "$made" != "$(noisy --shot-rate 0)" ] ||
    fail "noise: $made"

# Pictures and a coarser grid.
events recording.txt --events-per-frame 10000 --resize 160x120 --representation tencode --output pictures/ | grep "^frames: 4 of tencode, 160 x 120$" >/dev/null ||
    fail "resize"
[ "$(ls pictures | wc -l)" -eq 4 ] || fail "pictures: $(ls pictures)"

# The last frame is made although it is not full, also if it is the only one, which is said; what is left out is said, too.
for how in "--events-per-frame 40001" "--us-per-frame 2000000000"; do
    for device in cpu cpu:3; do
        rm -f few.raw few.h5
        "$program" recording.txt $how --device $device --headless --checksum --output few.raw --save-events few.h5 >out.txt 2>err.txt || fail "$how: $(cat err.txt)"
        grep -q "^frames: 1 " out.txt || fail "$how $device makes no frame: $(cat out.txt)"
        grep -q "^incomplete: the .*, ${how% *} is ${how#* }$" out.txt || fail "$how $device does not say so: $(cat out.txt)"
        events recording.txt $how --keep-incomplete --checksum | grep "^checksum" | grep -qf - out.txt || fail "$how: another frame"
        [ ! -s few.h5 ] || [ "$("$program" info few.h5 | value events)" = 40000 ] || fail "$how saves events twice"
    done
done
events recording.txt --events-per-frame 40000 --checksum | grep incomplete && fail "a full window is called incomplete"
events recording.txt --events-per-frame 30000 --checksum >out.txt
grep -q "^frames: 2 " out.txt && grep -q "^incomplete: the last frame has 10000 events, --events-per-frame is 30000$" out.txt ||
    fail "an incomplete window after a full one: $(cat out.txt)"
events recording.txt --events-per-frame 30000 --no-keep-incomplete --checksum >out.txt
grep -q "^frames: 1 " out.txt && grep -q "^left out: 10000 events" out.txt || fail "--no-keep-incomplete: $(cat out.txt)"
expect 3 "no frame: --events-per-frame is 40001, more than there is in 40000 events" recording.txt --events-per-frame 40001 --no-keep-incomplete --checksum
events synthetic:96x64@3 --events-per-frame 800000 --checksum | grep "^incomplete" >/dev/null || fail "few events from video"
expect 3 "no frame: --shard is 2/2, and no frame begins in that part" recording.txt --events-per-frame 40001 --shard 2/2 --output few.mp4

# Frames that are only seen: all events, a video of 5 s or more; stored frames keep their default.
events recording.txt --output seen.mp4 >out.txt
made=$(value frames <out.txt)
[ "${made%% *}" -ge 149 ] && [ "${made%% *}" -le 153 ] && [ "$(frames_in seen.mp4)" = "${made%% *}" ] &&
    grep -q "^frame length: 33333 us, one every [0-9]* us, shown at 0\.[0-9]* times the speed of the recording$" out.txt ||
    fail "a view of 0.4 s: $(cat out.txt)"
grep -q "^left out\|^incomplete" out.txt && fail "a view leaves out events: $(cat out.txt)"
awk 'NR == 1 { print; next } { $1 *= 20; print }' recording.txt >long.txt
events long.txt --output seen.mp4 >out.txt
grep -q "^frame length: 33333 us, one every 33333 us, shown at 1 times" out.txt || fail "a view of 8 s: $(cat out.txt)"
events recording.txt --speed 0.5 --output seen.mp4 | grep "^frame length: 33333 us, one every 16667 us" >/dev/null || fail "a view with --speed"
events synthetic:96x64@60 --output seen.mp4 | grep "^frame length: 33333 us, one every 33333 us" >/dev/null || fail "a view of a video"
for how in "--output seen.h5" --checksum "--checksum --output seen.mp4"; do
    events recording.txt $how | grep "^frames: 1 of" >/dev/null || fail "$how changes the default of stored frames"
done
events recording.txt --events-per-frame 10000 --output seen.png | grep "^not shown: 3 frames before that in seen.png$" >/dev/null || fail "one picture"

# What a recording claims costs little: two pixels in 2^32.
printf '0 65535 65535 1\n1 3 4 1\n2 3 4 0\n3 65535 65535 1\n4 65535 0 1\n' >claims.txt
printf '%% evt 3.0\n%% geometry 65536x65536\n%% end\n\001\140\000\200\001\000\001\050' >claims.raw
limited() { (ulimit -v 3000000; "$program" "$@") }
for name in claims.txt claims.raw; do
    limited info $name >out.txt 2>err.txt || fail "info $name: $(cat err.txt)"
    grep -q "^active pixels: [13]$" out.txt || fail "info $name says: $(cat out.txt)"
    for how in "--checksum" "--output claims.mp4" "--output claims.h5" "--checksum --representation voxel_grid" \
        "--output claims.raw2/ --save-events claims.dat"; do
        runs 3 "frames of 65536 x 65536 pixels need .* that --max-memory, .* leaves for them" limited $name --headless --device cpu --max-memory 2G $how
    done
    runs 3 "the times of --activity for 65536 x 65536 pixels need .*--max-memory" limited convert $name claims.dat --activity 9 --max-memory 2G
    runs 3 "the counts of --hot-pixels for 65536 x 65536 pixels need .*--max-memory" limited convert $name claims.dat --hot-pixels 9 --max-memory 2G
    limited $name --headless --device cpu --checksum --resize 64x64 >/dev/null 2>err.txt || fail "--resize: $(cat err.txt)"
done
# Many pixels are too many for a limit that is too small; the rest is said nevertheless.
made_events 8000 6000 40000 >many.txt
"$program" info many.txt --max-memory 128M >out.txt 2>err.txt || fail "info --max-memory: $(cat err.txt)"
grep -q "^events: 40000$" out.txt && grep -q "^active pixels: not counted: .*--max-memory" out.txt || fail "info --max-memory says: $(cat out.txt)"
runs 3 "frames of 8000 x 6000 pixels need .*--max-memory, 0.1 GiB" "$program" many.txt --headless --device cpu --checksum --max-memory 128M
expect 2 "\-\-max-memory is '5M'" recording.txt --max-memory 5M --checksum

runs 3 "events from frames of 16384 x 16384 pixels need .*--max-memory" "$program" info synthetic:16384x16384@1 --max-memory 2G
# Rows and columns exchanged: most events are outside, which is said on stderr and in JSON.
made_events 64 640 10000 | tail -n +2 >plain.txt
for how in "--checksum" "info" "convert"; do
    case $how in
    info) set -- info plain.txt ;;
    convert) set -- convert plain.txt swapped.dat ;;
    *) set -- plain.txt --headless --device cpu --checksum ;;
    esac
    "$program" "$@" --sensor-size 640x64 --skip-bad --json >out.txt 2>err.txt || fail "$how swapped: $(cat err.txt)"
    grep -q "warning: more than half of the events lie outside" err.txt && grep -q '"warning":"more than half' out.txt ||
        fail "$how does not warn: $(cat err.txt out.txt)"
    "$program" "$@" --sensor-size 64x640 --skip-bad --json >out.txt 2>err.txt || fail "$how: $(cat err.txt)"
    grep -q "warning" err.txt out.txt && fail "$how warns without a reason: $(cat err.txt out.txt)"
done

# A page: the program says that it waits for a browser, or does not wait.
"$program" r.txt --device cpu --headless --events-per-frame 5000 --web 0 --no-wait >out.txt 2>err.txt && code=0 || code=$?
if ! grep -q "not available" err.txt; then
    [ $code = 0 ] && grep -q "^in a browser: http://127.0.0.1:" err.txt && grep -q "^frames: 4 " out.txt || fail "--no-wait: $code, $(cat out.txt err.txt)"
    "$program" r.txt --device cpu --headless --events-per-frame 5000 --web 0 >out.txt 2>err.txt &
    waits=$!
    awaited grep -q "^waiting for a browser at http://127.0.0.1:[0-9]*/$" err.txt || fail "--web does not say that it waits: $(cat err.txt)"
    end_with INT $waits
    [ $code = 130 ] || fail "--web waits, Ctrl-C: $code, $(cat err.txt)"
fi

# Errors.
expect 3 "No such file\|cannot\|no such" nothing.raw
expect 2 "\-\-shard is '4/3'" recording.txt --shard 4/3 --checksum
expect 2 "\-\-range is 'x'" recording.txt --range x --checksum
expect 2 "\-\-sensor-size is '5'" recording.txt --sensor-size 5 --checksum
expect 3 "event .* is outside the 100 x 100 sensor" recording.txt --sensor-size 100x100 --checksum
events recording.txt --sensor-size 100x100 --skip-bad --checksum --events-per-frame 1000 | grep "^frames: [1-9]" >/dev/null || fail "--skip-bad"
printf '%% evt 5.0\n%% end\n' >new.raw
expect 3 "EVT 5.0" new.raw --checksum
printf '#!AER-DAT2.0\r\n# Timestamps tick is 1 us\r\n\000\001\002\003\000\000\000\144' >old.aedat
expect 3 "old.aedat: the file is AEDAT 2.0, expected AEDAT 4.0" old.aedat --checksum
# Messages of the library in words of the command line.
runs 3 "h5repack" "$program" info "$source/test/data/m3ed_bitshuffle.h5"
grep -q "plugins" err.txt && fail "an option that there is not: $(cat err.txt)"
printf '%% evt 2.0\n%% geometry 640x480\n%% end\n\001\000\000\200\001\010\000\020\002' >cut.raw
expect 3 "ends at byte" cut.raw --checksum --events-per-frame 1
grep -q "^frames: 1 " out.txt || fail "frames before the end of the file are missing"
runs 3 "ends at byte" "$program" convert cut.raw cut.dat
[ "$("$program" info cut.dat | value events)" = 1 ] || fail "events before the end of the file are missing"
expect 4 "cannot be written" recording.txt --output none/there.raw
finish
