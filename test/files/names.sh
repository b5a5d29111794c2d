#!/usr/bin/env bash
# Names that a program makes up or that come from outside: clips, default files, reports, and recordings that were killed.
# names.sh BUILD SOURCE
set -uo pipefail
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
need_programs
heatmap() { says "$1" "$2" "$bin/cusight-heatmap" "${@:3}" --device cpu --headless; }

# A film in which something moves.
python3 - <<'END' || die "no film"
import os
os.mkdir("film")
for f in range(60):
    rows = [[60] * 96 for _ in range(72)]
    at = f - 12
    if 0 <= at < 18:
        for y in range(20, 50):
            rows[y][4 * at:4 * at + 20] = [200] * 20
    open(f"film/{f:02d}.ppm", "wb").write(b"P6 96 72 255\n" + bytes(v for row in rows for v in row for _ in range(3)))
END
heatmap 0 "output: v.avi" film --view side --no-legend --output v.avi
heatmap 0 "output: quiet.avi" synthetic:64x48@5 --output quiet.avi
clips() { heatmap "$1" "$2" "${@:3}" --min-frames 4; }

echo "-- clips"
cp v.avi kept.avi
cp quiet.avi v-001.mp4 # an input
cp v-001.mp4 kept.mp4
clips 2 "--clips is '.', expected another file than INPUT 'v-001.mp4': it would replace ./v-001.mp4" v.avi v-001.mp4 --clips .
clips 2 "it would replace ./v-001.mp4" v.avi v-001.mp4 --clips . --overwrite
clips 4 "--clips is '.', but ./v-001.mp4 exists" v.avi --clips .
cmp -s v-001.mp4 kept.mp4 && cmp -s v.avi kept.avi || fail "clips replaced the user's files"
mkdir cam1 cam2
cp v.avi cam1/v.avi
cp v.avi cam2/v.avi
clips 0 "files: c/new/v-001.mp4, c/new/v-2-001.mp4, r.json" cam1/v.avi cam2/v.avi --clips c/new --report r.json
python3 - <<'END' || fail "the report names clips that are not those of its inputs: $(ls c/new)"
import json, os
clips = [[clip["file"] for clip in i["clips"]] for i in json.load(open("r.json"))["inputs"]]
assert clips == [["c/new/v-001.mp4"], ["c/new/v-2-001.mp4"]], clips
assert all(os.path.getsize(f) for both in clips for f in both)
END
mkdir im
cp film/* im/
clips 0 "1 clips" im/ --clips d
[ -s d/im-001.mp4 ] && [ ! -e d/-001.mp4 ] || fail "clips of a folder are called $(ls d)"
clips 0 "1 clips" im/. --clips e
[ -s e/im-001.mp4 ] || fail "clips of im/. are called $(ls e)"

echo "-- a view is what --view says"
heatmap 0 "output: plain.ppm" v.avi --output plain.ppm
heatmap 0 "files: beside.json" v.avi --output beside.ppm --report beside.json
grep -q "^things: " said && grep -q "^view: heatmap$" said || fail "heatmap and report: $(cat said)"
cmp -s plain.ppm beside.ppm || fail "--report changes what --output is"
heatmap 0 "files: " v.avi --report alone.json
python3 -c 'import json
a, b = (json.load(open(f + ".json"))["inputs"] for f in ("alone", "beside"))
assert a == b and a[0]["things"], (a, b)' ||
    fail "the report beside a heatmap is another one"
heatmap 0 "" v.avi --view motion --output boxes.ppm --report boxes.json
cmp -s plain.ppm boxes.ppm && fail "--view motion is a heatmap"

echo "-- default names"
for name in heatmap heatmap-2 heatmap-3; do heatmap 0 "output: $name.mp4" quiet.avi; done
cp heatmap.mp4 before.mp4
heatmap 0 "output: heatmap.mp4" v.avi --overwrite
cmp -s heatmap.mp4 before.mp4 && fail "--overwrite replaced nothing"

echo "-- names in CSV"
for name in '=cmd(1).avi' '@sum,"x".avi' $'two\nlines.avi' $'esc\e[31m.avi' '-1.avi' "plain.avi"; do cp v.avi "./$name"; done
for name in '=cmd(1).avi' '@sum,"x".avi' $'two\nlines.avi' $'esc\e[31m.avi' './-1.avi' "plain.avi"; do
    heatmap 0 "" "$name" --report names.csv
    python3 - "$name" <<'END' || fail "$name in CSV: $(head -n 2 names.csv)"
import csv, sys
raw = open("names.csv", newline="").read()
rows = list(csv.reader(raw.splitlines(keepends=True)))
cells = {row[0] for row in rows[1:]}
name = sys.argv[1]
expected = ("'" if name[0] in "=+-@\t\r" else "") + name.replace("\x1b", "\\x1b")
assert len(rows) > 1 and cells == {expected} and all(len(row) == len(rows[0]) for row in rows), (cells, expected)
END
done

echo "-- recordings that are killed"
mkfifo live
# record OUTPUT: a heatmap of a pipe that does not end, in the background; sets recorder.
record() {
    "$bin/cusight-heatmap" synthetic:160x120@1000000 --device cpu --headless --output - >live 2>/dev/null &
    sender=$!
    "$bin/cusight-heatmap" - --device cpu --headless --full-scale 300 --output "$1" <live >recorded 2>&1 &
    recorder=$!
}
stop() { # SIGNAL
    kill -"$1" $recorder
    wait $recorder 2>/dev/null
    kill -9 $sender 2>/dev/null
    wait $sender 2>/dev/null
}
# FILE: more than ten frames are there, compressed or not.
growing() { awaited is_begun "$1" $([[ $1 == *.y4m ]] && echo 500k || echo 100k) || fail "$1 does not grow: $(cat recorded)"; }
for case in mp4:mkv mkv:mkv webm:mkv avi:avi y4m:y4m; do
    type=${case%:*} part=cam.part.${case#*:} again=cam.part-2.${case#*:}
    rm -f cam.*
    echo precious >cam.$type
    record cam.$type
    growing $part
    stop KILL
    [ "$(cat cam.$type)" = precious ] || fail "$type: a killed recording changed what was there"
    frames=$(frames_in $part)
    [ "${frames:-0}" -gt 10 ] || fail "$part has '$frames' frames after kill -9"
    cp $part killed
    ln -s elsewhere $again # is not followed
    record cam.$type
    growing cam.part-3.${case#*:}
    stop INT
    grep -q "$part is there" recorded || fail "$type: the next run does not say that $part is there: $(cat recorded)"
    cmp -s $part killed || fail "the next run changed $part"
    [ ! -e elsewhere ] && [ -L $again ] && [ ! -e cam.part-3.${case#*:} ] || fail "$type: $(ls -l cam.* elsewhere)"
    frames=$(frames_in cam.$type)
    [ "${frames:-0}" -gt 10 ] || fail "cam.$type has '$frames' frames: $(cat recorded)"
done
# A file is no such source.
"$bin/cusight-heatmap" - --device cpu --headless --output fromfile.mp4 <v.avi >said 2>&1 || fail "stdin that is a file: $(cat said)"
"$bin/cusight-heatmap" synthetic:160x120@1000000 --device cpu --headless --output file.mp4 >/dev/null 2>&1 &
recorder=$!
awaited is_begun '.cusight-*' 50k
[ -z "$(find . -name 'file.part*')" ] || fail "a file is recorded as if it were live"
kill -KILL $recorder
wait $recorder 2>/dev/null
[ -z "$(find . -name 'file*.mp4' ! -name 'fromfile.mp4')" ] || fail "a killed run left file.mp4"
# Nothing came: nothing is left.
says 3 "" "$bin/cusight-heatmap" - --device cpu --headless --output none.mp4
[ -z "$(find . -name 'none*')" ] || fail "an empty recording left $(ls none*)"
finish
