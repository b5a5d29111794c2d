#!/usr/bin/env bash
# What the programs do to the files of the user: outputs that are inputs, what was there before, links, full disks, interrupts,
# pipes. outputs.sh BUILD SOURCE
set -uo pipefail
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
need_programs
at_end() {
    umount "$work/small" 2>/dev/null
    umount "$work/locked" 2>/dev/null
}
# expect CODE TEXT PROGRAM ARGUMENT...: cusight-PROGRAM exits with CODE and prints TEXT on either stream.
expect() {
    local headless=--headless
    case "$3 $4" in "diffstream send") headless= ;; esac
    says "$1" "$2" "$bin/cusight-$3" "${@:4}" $headless
}
# Nothing unfinished was left behind in the folders.
clean() {
    local left
    left=$(find "$@" -name '.cusight-*' -o -name '*.part*')
    [ -z "$left" ] || { fail "left behind: $left"; rm -rf $left; }
}
kept() { cmp -s "$1" "kept/$(basename "$1")" || fail "$1 was changed by: $2"; }

# The user's files.
made_events 320 240 40000 >a.txt
cp a.txt a.raw
expect 0 "events in: a.h5" events a.txt --device cpu --save-events a.h5
expect 0 "" heatmap synthetic:64x48@12 --device cpu --output a.avi
expect 0 "" heatmap synthetic:64x48@3 --device cpu --output a.png
mkdir frames other kept
expect 0 "" heatmap synthetic:64x48@5 --device cpu --output frames/
for n in 1 2 3; do cp frames/00000$n.png frames/f_$n.png; done
cp a.* frames/* kept/

echo "-- an output that is an input"
ln -s a.raw link.raw
ln a.raw hard.raw
ln -s . here
ln a.avi hard.avi
ln -s a.avi link.avi
for name in a.raw ./a.raw "$work/a.raw" hard.raw link.raw here/a.raw frames/../a.raw; do
    expect 2 "--output is '$name', expected another file than INPUT 'a.raw'" events a.raw --device cpu --events-per-frame 9000 --output "$name"
done
expect 2 "expected another file than INPUT 'link.raw'" events link.raw --device cpu --output a.raw
for name in a.avi ./a.avi hard.avi link.avi here/a.avi; do
    expect 2 "--output is '$name', expected another file than INPUT 'a.avi'" heatmap a.avi --device cpu --output "$name"
done
expect 2 "expected another file than INPUT" match a.avi --device cpu --roi 1,1,8,8 --method sqdiff --output link.avi
expect 2 "expected another file than LEFT" contour a.avi --device cpu --output link.avi
expect 2 "expected another file than INPUT" events a.avi --device cpu --output link.avi
expect 2 "expected another file than INPUT" diffstream demo a.avi --device cpu --output link.avi
expect 2 "expected another file than INPUT" heatmap missing.avi --device cpu --output missing.avi
expect 2 "--save-events is 'a.h5', expected another file than INPUT 'a.h5'" events a.h5 --device cpu --save-events a.h5
expect 2 "--output is 'a.png', expected another file than --template 'a.png'" match a.avi --template a.png --output a.png
expect 2 "expected another file than --mask 'a.png'" match a.avi --template frames/000001.png --mask a.png --output a.png
expect 2 "--save-matches is 'a.png', expected another file than --template" match a.avi --template a.png --save-matches a.png
for option in --output --save-elevation --save-cloud --save-lines --save-edges; do
    expect 2 "$option is 'a.png', expected another file than RIGHT 'a.png'" contour frames/000001.png a.png $option a.png
done
for pattern in frames/ frames frames/%06d.png here/frames/ frames/f_%d.png; do
    expect 2 "expected another file than INPUT" heatmap frames --device cpu --output "$pattern"
done
expect 2 "it would replace frames/000000.png" heatmap frames/%06d.png --device cpu --output frames/%06d.png
expect 2 "it would replace frames/000001.png" heatmap frames/000001.png --device cpu --output frames/%06d.png
ln frames/000002.png other/000007.png
expect 2 "it would replace other/000007.png" heatmap frames --device cpu --output other/
rm other/*
cp a.avi heatmap.mp4
expect 0 "output: heatmap-2.mp4" heatmap heatmap.mp4 --device cpu
expect 0 "output: heatmap-2.mp4" heatmap heatmap.mp4 --device cpu --overwrite # an input is never replaced
cmp -s heatmap.mp4 a.avi || fail "the default output replaced an input"
rm heatmap*.mp4
echo 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef >stream.key
cp stream.key kept/
expect 2 "expected another file than --key" diffstream send a.avi --key stream.key --frame-checksums stream.key
expect 2 "expected another file than INPUT" diffstream send a.avi --frame-checksums a.avi
# Two outputs with one name.
expect 2 "--save-events is './x.h5', expected another file than --output 'x.h5'" events a.raw --output x.h5 --save-events ./x.h5
expect 2 "expected another file than --save-lines 'x.png'" contour frames/000001.png frames/000002.png --save-lines x.png --save-edges here/x.png
expect 2 "FOLDER is '.', expected another file than --output './capsule.png'" belt . --output ./capsule.png
expect 0 "frames: 5" heatmap frames/%06d.png --device cpu --output frames/out.avi # beside them is fine
rm frames/out.avi
for file in a.txt a.raw a.avi a.png frames/* stream.key; do kept "$file" "an output that is an input"; done

# Inputs that name files themselves: the check of the outputs cannot see those.
for name in "file://$work/a.avi" "concat://a.avi" "cache:///$work/a.avi"; do
    expect 3 "is not a URL of http" heatmap "$name" --device cpu --output a.avi
    kept a.avi "heatmap $name --output a.avi"
done
printf 'ffconcat version 1.0\nfile a.avi\n' >list.avi
printf '#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\na.avi\n' >list.m3u8
for name in list.avi list.m3u8; do
    expect 3 "is a list of other files or streams" heatmap $name --device cpu --output a.avi
    kept a.avi "heatmap $name --output a.avi"
done

echo "-- endings"
expect 2 "--save-elevation is 'e.jpg', expected a name that ends in .png" contour a.avi --save-elevation e.jpg
expect 2 "--save-cloud is 'c.xyz', expected a name that ends in .ply" contour a.avi --save-cloud c.xyz
expect 2 "--save-lines is 'l.txt', expected a name that ends in" contour a.avi --save-lines l.txt
expect 2 "--save-edges is 'l', expected a name that ends in" contour a.avi --save-edges l
expect 2 "--save-events is 'x.png', expected a name that ends in .h5 .hdf5 .raw .aedat4 .dat .csv .txt" events a.raw --save-events x.png
expect 2 "OUTPUT is 'x.png', expected a name that ends in" events convert a.raw x.png
expect 2 "--format is dat, expected evt3 or evt2 for OUTPUT 'x.raw'" events convert a.raw x.raw --format dat
expect 2 "OUTPUT is './a.raw', expected another file than INPUT 'a.raw'" events convert a.raw ./a.raw
expect 2 "--save-matches is 'x.txt', expected a name that ends in .csv" match a.avi --roi 1,1,8,8 --method sqdiff --save-matches x.txt
expect 2 "--frame-checksums is 'x.mp4', expected the name of a text file" diffstream send a.avi --frame-checksums x.mp4
for name in x.xyz x_%d.xyz x 'a_%d/x.png'; do expect 2 "--output is '$name'" heatmap a.avi --device cpu --output "$name"; done
for type in png jpg bmp tif pgm ppm webp mp4 avi; do
    expect 0 "output: x.$type" heatmap a.avi --device cpu --output x.$type
    expect 0 "x.$type" heatmap x.$type --device cpu --output y.png
done
expect 2 "at most 16383 x 16383" heatmap synthetic:16400x2@1 --device cpu --output x.webp
for type in png tif pgm; do expect 0 "elevation" contour frames/000001.png frames/000002.png --shifts 8 --device cpu --output y.png --save-elevation e.$type; done

echo "-- no frames"
expect 0 "incomplete: the last frame has 40000 events, --events-per-frame is 200000" events a.raw --device cpu --output few.raw
expect 0 " us of events, --us-per-frame is 900000" events a.raw --device cpu --us-per-frame 900000 --checksum
expect 3 "no frame: --range" events a.raw --device cpu --range 5000:5001 --output none.mp4
expect 3 "no frame: --shard is 9/9" events a.raw --device cpu --events-per-frame 20000 --shard 9/9 --output none.avi
expect 0 "frames: 0" events a.raw --device cpu --events-per-frame 20000 --shard 9/9 --output empty.raw
expect 0 "frames: 1 " events a.raw --device cpu --keep-incomplete --output one.raw
expect 0 "events in: x.h5" events a.raw --device cpu --save-events x.h5
for name in none.mp4 none.avi; do [ ! -e $name ] || fail "$name was written without frames"; done
clean .

echo "-- what was there before"
printf 'precious' >kept/precious
for name in p.avi p.mp4 p.mkv p.png p.raw; do
    cp kept/precious $name
    cp kept/precious target
    ln -sf target link_$name
    run="heatmap a.avi"
    [ $name = p.raw ] && run="events a.raw --events-per-frame 1000"
    expect 0 "" $run --device cpu --output $name
    cmp -s $name kept/precious && fail "$name was not replaced"
    expect 0 "" $run --device cpu --output link_$name # a link is replaced, not followed
    cmp -s target kept/precious || fail "link_$name was followed"
    [ ! -L link_$name ] || fail "link_$name is still a link"
done
# A planted link under the old, predictable name.
ln -s precious.txt x.h5.part
cp kept/precious precious.txt
expect 0 "" events a.raw --device cpu --events-per-frame 1000 --output x.h5
cmp -s precious.txt kept/precious || fail "x.h5.part redirected the output"
rm -f x.h5.part
# A limit on the size of files: nothing new, and what was there stays.
for case in "heatmap synthetic:320x240@60 --output l.avi" "heatmap synthetic:320x240@60 --output l.mp4" "heatmap synthetic:320x240@60 --output l.webm" \
    "heatmap synthetic:320x240@60 --output l.mkv" "heatmap synthetic:640x480@2 --output l.bmp" "events a.raw --events-per-frame 500 --output l.raw" \
    "heatmap synthetic:640x480@3 --overwrite --output l_%d.bmp" "belt . --overwrite --frames 30 --output l.avi" "diffstream demo synthetic:320x240@60 --output l.mp4" \
    "contour synthetic:640x240@2 --shifts 8 --output y.png --save-cloud l.ply" "events a.raw --events-per-frame 500 --output l.h5" "events a.raw --checksum --keep-incomplete --save-events l.h5"; do
    output=${case##* }
    output=${output/\%d/0}
    cp kept/precious $output
    cp kept/precious capsule.png
    runs 4 "cannot be written\|could not be written" bash -c "ulimit -f 16; exec '$bin/cusight-'$case --device cpu --headless"
    cmp -s $output kept/precious || fail "$case past the limit changed $output"
    cmp -s capsule.png kept/precious || fail "$case past the limit changed capsule.png"
    clean .
done
rm -f l* capsule* truth.csv

echo "-- a disk that fills up, a folder that cannot be written"
mkdir small locked
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=100k tmpfs small 2>/dev/null && mount -t tmpfs tmpfs locked 2>/dev/null; then
    for output in a.avi a.mp4 a.webm a.mkv %d.png a.bmp; do
        printf 'precious' >small/a.avi
        rm -f small/a.bmp
        expect 4 "cannot be written" heatmap synthetic:640x480@400 --device cpu --output small/$output
        cmp -s small/a.avi kept/precious || fail "small/a.avi was changed by $output"
        [ "$(find small -type f | wc -l)" = 1 ] || fail "$output left on a full disk: $(ls -A small)"
        find small -mindepth 1 -delete
    done
    expect 4 "cannot be written" events a.raw --device cpu --events-per-frame 500 --output small/a.raw
    expect 4 "cannot be written" events a.raw --device cpu --events-per-frame 100 --representation voxel_grid --output small/a.h5
    dd if=/dev/zero of=small/fill bs=1k count=500 2>/dev/null
    expect 4 "cannot be written" events a.raw --device cpu --save-events small/b.h5
    for name in b.h5 b.hdf5 b.raw b.dat b.csv b.txt; do expect 4 "cannot be written" events convert a.raw small/$name; done
    expect 4 "cannot be written" contour synthetic:640x240@2 --device cpu --shifts 8 --output y.png --save-cloud small/c.ply
    expect 4 "cannot be written" belt small --device cpu --frames 5 --output y.avi
    expect 4 "cannot be written" match a.avi --device cpu --roi 1,1,4,4 --method sqdiff --top-k 900 --min-distance 1 --save-matches small/m.csv --output y.avi
    expect 4 "cannot be written" diffstream demo synthetic:640x480@60 --device cpu --output small/d.mp4
    [ "$(ls -A small)" = fill ] || fail "left on a full disk: $(ls -A small)"
    umount small
    cp a.avi a.raw locked
    mount -o remount,ro locked
    for output in locked/b.avi locked/a.avi locked/x.png locked/%d.png locked/; do
        expect 4 "cannot be written: Read-only file system" heatmap synthetic:64x48@3 --device cpu --output $output
    done
    expect 4 "Read-only file system" events a.raw --device cpu --events-per-frame 1000 --output locked/b.raw
    expect 4 "cannot be written" events a.raw --device cpu --save-events locked/b.h5
    expect 4 "Read-only file system" belt locked
    umount locked
else
    echo "   no small file system can be mounted: skipped"
fi

echo "-- printing"
for case in "heatmap a.avi --output y.avi" "events a.raw --events-per-frame 1000 --checksum" "events info a.raw" "contour frames/000001.png frames/000002.png --shifts 8 --output y.png" \
    "match a.avi --roi 1,1,8,8 --method sqdiff --output y.avi" "belt . --overwrite --frames 3 --output y.avi" "diffstream demo a.avi --output y.avi" "heatmap --help" "match --version"; do
    more="--device cpu --headless"
    case $case in *--help | *--version) more= ;; esac
    runs 4 "stdout cannot be written" bash -c "exec '$bin/cusight-'$case $more >/dev/full"
done
for case in "heatmap a.avi --output y.avi" "events info a.raw"; do
    runs 4 "stdout cannot be written" bash -c "exec '$bin/cusight-'$case --device cpu --headless >&-"
done
got=0
timeout 60 "$bin/cusight-heatmap" a.avi --headless --device cpu --output y.avi <&- >&- 2>&- || got=$?
[ $got = 4 ] || fail "all streams closed: exit code $got"
expect 0 "y.avi, " heatmap y.avi --device cpu --output z.png # and no text in it
expect 4 "/dev/full cannot be written" diffstream send a.avi --bind 127.0.0.1:0 --device cpu --frame-checksums /dev/full
ln -sf /dev/full full.csv
expect 4 "full.csv cannot be written" match a.avi --roi 1,1,8,8 --method sqdiff --device cpu --top-k 900 --save-matches full.csv --output y.avi
expect 0 "frame,template,rank" match a.avi --roi 1,1,8,8 --method sqdiff --device cpu --save-matches /dev/stdout --output y.avi
clean .

echo "-- pipes"
mkfifo pipe pipe.avi pipe_0.png pipe.h5
for case in "heatmap pipe.avi --output y.avi" "heatmap pipe --output y.avi" "heatmap pipe_%d.png --output y.avi" "events pipe --checksum" "events info pipe" "match pipe.avi --roi 1,1,8,8 --method sqdiff --output y.avi" \
    "match a.avi --template pipe_0.png --output y.avi" "contour a.png pipe_0.png --output y.png" "diffstream send pipe.avi"; do
    expect 3 "is a pipe, expected a regular file" $case
done
expect 3 "is not a URL of http" heatmap "file://$work/pipe.avi" --output y.avi
expect 3 "is a device, expected a regular file" heatmap /dev/zero --output y.avi
expect 4 "cannot be written" events a.raw --device cpu --events-per-frame 1000 --output pipe.h5
[ -p pipe.h5 ] || fail "pipe.h5 was replaced"
mkdir a_folder.h5
expect 4 "cannot be written: Is a directory" events a.raw --device cpu --events-per-frame 1000 --output a_folder.h5

echo "-- one signal ends a program that waits"
# waits SIGNAL COMMAND...: the command, in the background, ends within a second (and a margin).
waits() {
    local signal=$1 pid start
    shift
    "$@" >said 2>&1 &
    pid=$!
    ready $pid
    sleep 1
    kill -0 $pid 2>/dev/null || { fail "$* did not wait: $(cat said)"; return; }
    start=$(date +%s%N)
    end_with $signal $pid
    local took=$((($(date +%s%N) - start) / 1000000))
    [ $took -lt "$(patience 2000)" ] || fail "$* took $took ms to end"
    [ $code = 130 ] || fail "$* ended with $code: $(cat said)"
}
waits TERM "$bin/cusight-diffstream" send a.avi --bind 127.0.0.1:0 --min-viewers 1
waits INT "$bin/cusight-diffstream" send a.avi --bind 127.0.0.1:0 --fps 0.01
waits TERM "$bin/cusight-diffstream" view 127.0.0.1:1 --headless --reconnect 60
waits INT "$bin/cusight-match" a.avi --roi 1,1,8,8 --method sqdiff --headless --device cpu --output y.avi --save-matches pipe
if command -v python3 >/dev/null; then # a URL that accepts and never answers
    python3 -c 'import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); open("port", "w").write(str(s.getsockname()[1])); time.sleep(120)' &
    server=$!
    awaited test -s port
    waits TERM "$bin/cusight-heatmap" "http://127.0.0.1:$(cat port)/x.mp4" --headless --device cpu --output y.avi
    kill $server
    wait $server 2>/dev/null
fi
clean .

echo "-- ended in the middle"
for signal in KILL "INT INT" INT; do
    for output in m.mp4 m.raw m_%d.png; do
        printf precious >m.mp4
        cp m.mp4 m.raw
        cp m.mp4 m_0.png
        program=heatmap input=synthetic:320x240@1000000 more=--overwrite
        [ $output = m.raw ] && program=events more="--events-per-frame 500"
        "$bin/cusight-$program" $input --headless --device cpu $more --output $output >said 2>&1 &
        pid=$!
        begun=".cusight-*.${output#*.}"
        [ $output != m_%d.png ] || begun=m_1.png
        awaited is_begun "$begun" 8k || fail "$output was not begun: $(cat said)"
        [ "$signal" != "INT INT" ] || kill -INT $pid
        end_with ${signal#* } $pid
        if [ "$signal" = INT ]; then
            [ $code = 130 ] || fail "$output: exit code $code after INT: $(cat said)"
            cmp -s ${output/\%d/0} kept/precious && fail "$output was not finished after INT"
            clean .
        elif [ "$signal" = KILL ]; then
            cmp -s ${output/\%d/0} kept/precious || fail "$output was changed by a run that was killed"
            rm -rf .cusight-*
        elif [ $code = 130 ]; then # the second signal came together with the first
            rm -rf .cusight-*
        else
            cmp -s ${output/\%d/0} kept/precious || fail "$output was changed by a run that was ended at once"
            [ $output = m_%d.png ] || clean .
            rm -rf .cusight-*
        fi
    done
    rm -f m_*.png
done
finish
