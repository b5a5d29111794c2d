#!/usr/bin/env bash
# What the sample programs print and where: JSON, --quiet, stdin and stdout, manual pages, completion.
# streams.sh BUILD SOURCE
set -uo pipefail
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
need_programs
run() { # PROGRAM ARGUMENT...: stdout in out, stderr in err
    local program=$1 code=0
    shift
    timeout 60 "$bin/cusight-$program" "$@" --headless >out 2>err || code=$?
    return $code
}
refused() { says 2 "$1" "$bin/cusight-$2" "${@:3}" --headless; } # TEXT PROGRAM ARGUMENT...
json() { # EXPRESSION: true for the last object of out, called o; all objects are the list l
    python3 -c "import json, sys
l = [json.loads(line) for line in open('out')]
o = l[-1]
sys.exit(not ($1))" || fail "not so: $1 of $(cat out)"
}
awk 'BEGIN { print "x,y,p,t"; srand(7)
    for (i = 0; i < 9000; ++i) print int(rand() * 320) "," int(rand() * 240) "," int(rand() * 2) "," 1000 + 5 * i }' >r.csv
"$bin/cusight-heatmap" synthetic:320x240@4 --headless --device cpu --output frames/ >/dev/null 2>&1 || fail "no frames"
png=frames/000003.png
# stages MEMBER NAME...: that object has these stages, and none takes longer than the run.
stages() { json "list(o['$1']) == '${*:2}'.split() and all(0 < t <= 1.001 * o['$1']['overall'] for t in o['$1'].values())"; }

echo "-- JSON"
for case in "heatmap synthetic:64x48@5 --output h.avi" "match $png --roi 50,50,20,20 --top-k 2 --output m.png" \
    "contour $png $png --shifts 8 --output c.png" "events r.csv --events-per-frame 3000 --output e.avi" "events info r.csv" \
    "belt . --overwrite --frames 5 --output b.avi" "diffstream demo synthetic:64x48@5 --unpaced"; do
    # shellcheck disable=SC2086
    run $case --device cpu --json || fail "$case exited with $?: $(cat err)"
    [ "$(wc -l <out)" = 1 ] || fail "$case printed $(wc -l <out) lines with --json"
    json "o['program'] == 'cusight-${case%% *}' and o['exit_code'] == 0 and 'error' not in o and len(o) > 4"
    json "all(k.replace('_', '').isalnum() and k.islower() for k in o)"
    case $case in
    "heatmap"*) stages stages_ms decode compute write overall ;;
    "events info"*) json "'stages_ms' not in o" ;;
    "belt"*) stages stages_ms draw write overall ;;
    "diffstream"*) stages stages_ms capture difference pack send overall && stages viewer_stages_ms decode overall ;;
    "events"*) stages stages_ms compute draw write overall ;;
    *) # one after the other
        stages stages_ms decode compute draw write overall
        json "sum(o['stages_ms'].values()) < 2.001 * o['stages_ms']['overall']"
        ;;
    esac
    case $case in "events info"*) continue ;; esac
    # shellcheck disable=SC2086
    run $case --device cpu --json-frames || fail "$case exited with $?: $(cat err)"
    case $case in
    "contour"*) json "len(l) == 1" ;; # a pair is no sequence
    *) json "len(l) == 1 + o.get('frames', o.get('frames_received', 5)) and all(len(f) > 1 for f in l)" ;;
    esac
done
run heatmap synthetic:64x48@5 --device cpu --output h.avi --json
json "o['frames'] == 5 and o['width'] == 64 and 0 < o['changed_mean'] < 1"
run match $png --roi 50,50,20,20 --top-k 2 --limit -1 --device cpu --output m.png --json-frames
json "l[0]['matches'][0]['x'] == 50 and o['first_match']['score'] == 1 and o['matches'] == 2"
run heatmap missing.avi --device cpu --json
[ $? = 3 ] || fail "missing.avi"
json "o['exit_code'] == 3 and 'missing.avi' in o['error']"
grep -q "missing.avi" err || fail "with --json the error is not on stderr too"

echo "-- the times of the stages"
for case in "match synthetic:64x48@5 --roi 5,5,20,20" "contour synthetic:128x48@5 --shifts 8" "events r.csv --events-per-frame 3000"; do
    # shellcheck disable=SC2086
    run $case --device cpu:2 --json --output t.avi || fail "$case: $(cat err)"
    names="decode compute draw write overall"
    [ "${case#events}" = "$case" ] || names=${names#decode } # one call reads, decodes and makes frames
    json "list(o['stages_ms']) == '$names'.split()"
done
run events r.csv --events-per-frame 3000 --device cpu --json --save-events t.h5 && stages stages_ms decode compute write overall
# More templates, more to compute.
run match synthetic:640x480@4 --roi 40,40,40,40 --device cpu --json --output t.avi
few=$(python3 -c 'import json; print(json.load(open("out"))["stages_ms"]["compute"])')
run match synthetic:640x480@4 --roi 40,40,40,40 --roi 40,40,41,40 --roi 40,40,42,40 --roi 40,40,43,40 --roi 40,40,44,40 --roi 40,40,45,40 --device cpu --json --output t.avi
json "o['stages_ms']['compute'] > 1.2 * $few"

echo "-- quiet"
for case in "heatmap synthetic:64x48@5" "match $png --roi 50,50,20,20 --top-k 2" "contour $png $png --shifts 8" \
    "events r.csv --events-per-frame 3000" "belt . --overwrite --frames 5" "diffstream demo synthetic:64x48@5 --unpaced"; do
    # shellcheck disable=SC2086
    run $case --device cpu --output q.avi --quiet 2>/dev/null || true
    # shellcheck disable=SC2086
    "$bin/cusight-"$case --device cpu --headless --output q.png -q >out 2>&1 </dev/null || fail "$case --quiet exited with $?"
    [ ! -s out ] || fail "$case --quiet printed: $(cat out)"
done
"$bin/cusight-heatmap" synthetic:64x48@5 -q >out 2>&1 || fail "-q without a display"
[ ! -s out ] || fail "-q printed: $(cat out)"
"$bin/cusight-heatmap" missing.avi -q >out 2>&1 && fail "missing.avi with -q"
grep -q "missing.avi" out || fail "-q hides errors"

echo "-- stdin and stdout"
run heatmap $png --device cpu --output file.png
"$bin/cusight-heatmap" - --device cpu --headless --output - <$png >pipe.png 2>err || fail "a picture through pipes: $(cat err)"
cmp -s file.png pipe.png || fail "a picture from stdin to stdout differs"
grep -q "output: stdout" err || fail "the results are not on stderr: $(cat err)"
cat $png | "$bin/cusight-heatmap" - --device cpu --headless --json --output -.png 2>err >pipe.png || fail "from a pipe: $(cat err)"
cmp -s file.png pipe.png || fail "a picture from a pipe differs"
tail -n 1 err | python3 -c 'import json, sys; sys.exit(json.loads(sys.stdin.read())["output"] != "stdout")' || fail "--json with - : $(cat err)"
"$bin/cusight-heatmap" synthetic:320x240@7 --device cpu --headless -q --no-legend --output - | "$bin/cusight-heatmap" - --device cpu --headless --output y.avi >out 2>err ||
    fail "a video through a pipe: $(cat err)"
grep -qx "frames: 7" out || fail "a video through a pipe: $(cat out)"
grep -qx "input: stdin, 320 x 240" out || fail "a video through a pipe: $(cat out)"
for how in "<r.csv" "< <(cat r.csv)"; do # a file, a pipe
    eval "\"$bin/cusight-events\" - --device cpu --headless --events-per-frame 3000 --checksum --output -.raw $how >pipe.raw 2>said" || fail "events $how: $(cat said)"
    run events r.csv --device cpu --events-per-frame 3000 --checksum --output file.raw
    cmp -s pipe.raw file.raw || fail "events $how differ"
    [ "$(grep checksum said)" = "$(grep checksum out)" ] || fail "events $how: $(cat said)"
done
"$bin/cusight-events" info - <r.csv >out 2>err || fail "events info -: $(cat err)"
grep -qx "events: 9000" out && grep -qx "input: stdin, text" out || fail "events info - says: $(cat out)"
"$bin/cusight-match" $png --template - --device cpu --headless --output m.png --save-matches - <$png >out 2>err || fail "match: $(cat err)"
[ "$(head -n 1 out)" = "frame,template,rank,x,y,score,pixels,filled" ] || fail "--save-matches - printed: $(cat out)"
"$bin/cusight-contour" $png - --device cpu --headless --shifts 8 --output c.png --save-cloud - <$png >out 2>err || fail "contour: $(cat err)"
[ "$(head -n 1 out)" = ply ] || fail "--save-cloud - printed: $(head -n 2 out)"
run contour $png $png --device cpu --shifts 8 --output c.png --save-elevation - && cp out e.png
run heatmap e.png --device cpu --output y.png || fail "--save-elevation - is no picture: $(cat err)"
"$bin/cusight-diffstream" demo synthetic:64x48@9 --unpaced --headless --output - --device cpu 2>err | "$bin/cusight-heatmap" - --device cpu --headless --output y.avi >out ||
    fail "diffstream demo: $(cat err)"
grep -qx "frames: [1-9]" out || fail "diffstream demo to stdout: $(cat out err)"
refused "--output is '-', expected a file, since --save-matches is stdout" match $png --roi 1,1,9,9 --output - --save-matches -
refused "expected what can be read again for --loop" diffstream demo - --loop
refused "RIGHT is '-', expected a file, since LEFT is stdin" contour - -
for ending in .mp4 .mkv .webm .avi; do # also those that are usually written back and forth
    "$bin/cusight-heatmap" synthetic:64x48@5 --device cpu --headless --output -$ending 2>err | cat >piped$ending
    [ "$(frames_in piped$ending)" = 5 ] || fail "$ending through a pipe: $(cat err)"
done
refused "HDF5 cannot be written to stdout" events r.csv --output -.h5
refused "HDF5 cannot be written to stdout" events r.csv --save-events -
refused "--mask is 320 x 272, expected 20 x 20 like the template" match $png --roi 9,9,20,20 --mask $png
head -c 40 r.csv >cut.csv && echo nonsense >>cut.csv
run events cut.csv --checksum
grep -qx "cusight-events: cut.csv: line [0-9]*, byte [0-9]*, is not \"x y p t\".*" err || fail "the library's function is named: $(cat err)"
run diffstream view 127.0.0.1:1 --reconnect 0
[ $? = 3 ] && [ ! -s out ] || fail "a viewer that reaches no sender prints figures: $(cat out)"
run contour $png $png --shifts 8 --device cpu --output c.png
grep -qx "input: $png and $png, 320 x 272" out || fail "contour says its input as: $(cat out)"
for video in a.avi a.mkv; do
    run heatmap synthetic:64x48@6 --device cpu --output $video
    "$bin/cusight-heatmap" - --device cpu --headless --output y.avi <$video >out 2>err || fail "$video from stdin: $(cat err)"
    grep -qx "frames: 6" out || fail "$video from stdin: $(cat out)"
done
unreadable() { # TEXT CONTENT: what is said of that stdin
    printf "$2" | "$bin/cusight-heatmap" - --headless >out 2>&1 && fail "'$2' is accepted"
    grep -q "$1" out || fail "of '$2' is said: $(cat out)"
}
unreadable "stdin is empty" ""
unreadable "stdin is not a video" "RIFF"
unreadable "stdin is a list of other files or streams, expected a video" "ffconcat version 1.0\nfile p.png\n"
unreadable "stdin is not an image that can be decoded" "\x89PNG and no more"
unreadable "stdin is not a video that can be decoded without seeking" "neither picture nor video"
"$bin/cusight-heatmap" synthetic:320x240@900 --device cpu --headless -q --output - 2>err | head -c 1000 >/dev/null
[ "${PIPESTATUS[0]}" = 4 ] || fail "a reader that goes away: exit code ${PIPESTATUS[0]}"
grep -q "cannot be written: Broken pipe" err || fail "a reader that goes away: $(cat err)"

echo "-- the same options everywhere"
for program in heatmap match contour events belt "diffstream demo" "diffstream view"; do
    # shellcheck disable=SC2086
    "$bin/cusight-"$program --help >out 2>&1
    for option in --output --headless --json --json-frames --quiet; do
        grep -q -e "$option" out || fail "$program has no $option"
    done
    [ "$program" = "diffstream view" ] || grep -q -e "--device" out || fail "$program has no --device"
    case $program in diffstream* | heatmap | match | contour) grep -q -e "--frames" out || fail "$program has no --frames" ;; esac
done
run diffstream demo synthetic:64x48@5 --device cpu --unpaced --frames 3 --frame-checksums sums.txt --output d.avi || fail "demo: $(cat err)"
[ "$(wc -l <sums.txt)" -ge 1 ] || fail "demo --frame-checksums wrote nothing"

echo "-- pairs that are not rectified"
python3 - <<'PAIR'
import random
random.seed(4)
W, H = 420, 300
rough = [[random.randrange(256) for _ in range(W // 4 + 2)] for _ in range(H // 4 + 2)]
scene = [[rough[y // 4][x // 4] for x in range(W)] for y in range(H)]
def write(name, left, top):
    with open(name, "wb") as f:
        f.write(b"P5\n400 280\n255\n")
        for y in range(280):
            f.write(bytes(scene[y + top][left:left + 400]))
write("left.pgm", 0, 5)
write("right.pgm", 8, 5)
write("low.pgm", 8, 10)
PAIR
run contour left.pgm right.pgm --shifts 16 --device cpu --output c.png || fail "contour: $(cat err)"
! grep -q rectified err || fail "a rectified pair: $(cat err)"
run contour left.pgm low.pgm --shifts 16 --device cpu --output c.png || fail "contour: $(cat err)"
grep -q "the pair does not look rectified: matching points lie -5.0 rows apart" err || fail "a pair 5 rows apart: $(cat err)"
# Holes are those before they are filled; the elevation's scale is said in words.
run contour left.pgm right.pgm --shifts 16 --device cpu --output c.png --save-elevation e.png
grep -q "^elevation in: e.png, 16 bits: 256 (1 + shift in pixels), 0 for a hole$" out || fail "the scale is not said: $(cat out)"
run contour left.pgm right.pgm --shifts 16 --device cpu --output c.png --save-cloud c.ply
python3 - <<'PLY' || fail "the point cloud: $(head -c 300 c.ply | head -n 11)"
import struct
head, points = open("c.ply", "rb").read().split(b"end_header\n", 1)
n = int(head.split(b"element vertex ")[1].split()[0])
assert b"format binary_little_endian 1.0" in head and n > 50000 and len(points) == 15 * n, (head, n, len(points))
for at in range(0, len(points), 15 * 997): # shift 8 or so, of noise; at least 1/256
    x, y, z, r, g, b = struct.unpack("<fffBBB", points[at:at + 15])
    assert 400 / 17 <= z <= 400 * 256 and abs(x) <= z / 2 and abs(y) <= z / 2 and r == g == b, (x, y, z, r, g, b)
PLY
run contour left.pgm right.pgm --shifts 16 --device cpu --output c.png --json
json "0 < o['holes'] < 0.5 and o['holes_left'] < o['holes'] and o['rectified'] and o['row_offset'] == 0"

echo "-- manual pages and completion"
manuals=$build/manuals
grep -q '^CUSIGHT_HELP2MAN:.*=/' "$build/CMakeCache.txt" || echo "skipped: manual pages, which need help2man"
check_page() { # NAME
    grep -q '^CUSIGHT_HELP2MAN:.*=/' "$build/CMakeCache.txt" || return 0
    local name=$1 page
    page=$(ls "$manuals/$name".1* 2>/dev/null)
    [ -s "$page" ] || { fail "there is no manual page of $name"; return 0; }
    case $page in *.gz) gzip -cd "$page" >page ;; *) cp "$page" page ;; esac
    grep -q "^.SH OPTIONS" page && grep -q 'json\\-frames' page || fail "the manual page of $name says no options"
    grep -q "^.TH ${name^^} \"1\"" page && grep -q "^$name \\\\- [a-z]" page || fail "the manual page of $name has no name: $(head -n 5 page)"
    if command -v groff >/dev/null; then
        groff -man -Tutf8 -wall page >text 2>warned || fail "groff: $(cat warned)"
        [ ! -s warned ] || fail "groff warns of $name: $(cat warned)"
        sed 's/.\x08//g' text | grep >/dev/null -e "EXIT STATUS" || fail "groff of $name shows no exit status"
    fi
}
for program in belt contour diffstream events heatmap info match; do
    name=cusight-$program
    check_page "$name"
    bash -n "$manuals/$name" || fail "bash cannot read the completion of $name"
    ! command -v zsh >/dev/null || zsh -n "$manuals/_$name" || fail "zsh cannot read the completion of $name"
done
complete_with() { # PROGRAM WORD...: what bash offers for the last word
    bash -c '. "$1/$2"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); f=_${1//-/_}; "$f" 2>/dev/null; printf "%s\n" "${COMPREPLY[@]}"' - "$manuals" "$@" | sort | paste -sd ' '
}
offered() { # EXPECTED PROGRAM WORD...
    local expected=$1 got
    shift
    got=$(complete_with "$@")
    [ "$got" = "$expected" ] || fail "completion of '$*' is '$got', expected '$expected'"
}
offered "heatmap motion noise side" cusight-heatmap --view ""
offered "noise" cusight-heatmap --view n
offered "auto" cusight-match x.png --device a
offered "--json --json-frames" cusight-contour --json
offered "demo" cusight-diffstream dem
offered "auto" cusight-diffstream demo --drop a
offered "--min-viewers" cusight-diffstream send --min-v
offered "auto cpu cuda cuda:0" cusight-diffstream demo --device ""
offered "auto cpu cpu:2 cpu:4 cuda cuda:0 cuda:all" cusight-match --device ""
offered "hevc" cusight-heatmap --codec he
offered "vp8 vp9" cusight-events --codec v
offered "veryfast veryslow" cusight-match --preset very
offered "classic" cusight-heatmap --palette c
mkdir -p folders/inside && touch folders/file
offered "folders/inside" cusight-heatmap --clips folders/
offered "folders/file folders/inside" cusight-match --template folders/
! grep -lE -- "-W '[^']*[][<>.]" "$manuals"/cusight-* || fail "a completion offers what is no value"
offered "r.csv" cusight-events --representation histogram r.c
finish
