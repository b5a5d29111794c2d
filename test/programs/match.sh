#!/usr/bin/env bash
# cusight-match: scores and limits in the units of the method, what it says and draws if nothing is within the limit, and poses.
# Arguments: the build folder, the source folder.
# shellcheck source=SCRIPTDIR/support.sh
. "$(dirname "$0")/support.sh"
need_programs

# Noise (a picture, a template cut out of it, the template of another), and the template at half the contrast.
python3 - <<'END'
import random
def noise(seed, w, h):
    r = random.Random(seed)
    return [[bytes(r.randrange(256) for _ in range(3)) for _ in range(w)] for _ in range(h)]
def save(name, rows):
    with open(name, "wb") as f:
        f.write(b"P6 %d %d 255\n" % (len(rows[0]), len(rows)) + b"".join(b"".join(row) for row in rows))
scene = noise(1, 90, 60)
part = [row[40:60] for row in scene[20:36]]
save("scene.ppm", scene)
save("part.ppm", part)
save("half.ppm", [[bytes(60 + v // 2 for v in p) for p in row] for row in part])
save("off.ppm", [[bytes(min(255, v + 10) if v < 246 else v - 10 for v in p) for p in row] for row in part])
save("other.ppm", noise(2, 20, 16))
save("flat.ppm", [[b"\7\7\7"] * 9] * 9)
turned = [[part[c][19 - r] for c in range(16)] for r in range(20)] # by 90 degrees, counterclockwise
def put(rows, x, y, to):
    return [to[r] if not y <= r < y + len(rows) else to[r][:x] + rows[r - y] + to[r][x + len(rows[0]):] for r in range(len(to))]
save("turned.ppm", put(turned, 30, 20, noise(3, 90, 60)))
save("both.ppm", put(part, 60, 5, put(turned, 30, 20, noise(3, 90, 60))))
save("mask.ppm", [[b"\0\0\0" if x < 19 else b"\377\377\377" for x in range(20)] for _ in range(16)])
END
match() { # CODE TEXT ARGUMENT...
    local code=$1 text=$2
    shift 2
    rm -f m.ppm
    says "$code" "$text" "$bin/cusight-match" "$@" --device cpu --headless --output m.ppm
}
# The JSON of a run, on which the Python expression holds.
json() { # EXPRESSION ARGUMENT...
    local holds=$1
    shift
    "$bin/cusight-match" "$@" --device cpu --headless --output m.ppm --json >json 2>/dev/null || fail "$* ended with $?"
    python3 -c "import json; o = json.load(open('json')); assert $holds" 2>/dev/null || fail "$*: not $holds: $(cat json)"
}
# Whether m.ppm has the color that marks the best candidate if there is no match.
orange() { python3 -c 'import sys; sys.exit(b"\377\226\0" * 5 not in open("m.ppm", "rb").read())'; }

echo "-- a copy, a likeness, nothing"
match 0 "first match: x 40, y 20, 1" scene.ppm --template part.ppm
"$bin/cusight-match" scene.ppm --template part.ppm --method CCOEFF_NORMED --device cpu --headless --output named.png >named 2>&1
grep -qx "template: 20 x 16, method ccoeff-normed, at least 0.8" named || fail "--method CCOEFF_NORMED is not ccoeff-normed: $(cat named)"
grep -qx "template: 20 x 16, method ccoeff-normed, at least 0.8" said || fail "the method and the limit are not named: $(cat said)"
orange && fail "a match is marked as none"
match 0 "first match: x 40, y 20, 0.999" scene.ppm --template half.ppm # not quite 1
match 0 "no match: above 0.8 (best 0." scene.ppm --template other.ppm
grep -qx "matches: 0" said || fail "there are matches: $(cat said)"
orange || fail "the best candidate is not drawn"
json "o['matches'] == 0 and 'first_match' not in o and 0 < o['no_match'][0]['score'] < 0.8 and o['limit'] == 0.8" scene.ppm --template other.ppm
match 0 "first match: x " scene.ppm --template other.ppm --limit -1
json "o['first_match']['template'] == 1 and [n['template'] for n in o['no_match']] == [0]" scene.ppm --template other.ppm --template part.ppm
match 0 "no match: of template 0 above 0.8" scene.ppm --template other.ppm --template part.ppm
# In a video a frame is named, and nothing is drawn where there is nothing.
"$bin/cusight-match" scene.ppm --template other.ppm --headless --device cpu --json-frames --save-matches none.csv --output m.ppm >json 2>/dev/null
[ "$(wc -l <none.csv)" = 1 ] || fail "--save-matches lists what is no match: $(cat none.csv)"
mkdir video && cp scene.ppm video/1.ppm && cp scene.ppm video/2.ppm
says 0 "of frame 0)" "$bin/cusight-match" video/%d.ppm --template other.ppm --device cpu --headless --output out_%d.ppm
mv out_1.ppm m.ppm
orange && fail "a video marks what is no match"

echo "-- units"
match 0 "first match: x 40, y 20, RMS 10" scene.ppm --template off.ppm --method sqdiff
match 0 "no match: below RMS 25 (best RMS " scene.ppm --template other.ppm --method sqdiff
match 0 "no match: below RMS 9.9 (best RMS 10 at 40,20)" scene.ppm --template off.ppm --method sqdiff --limit 9.9
match 0 "matches: 1" scene.ppm --template off.ppm --method sqdiff --limit 10 # the limit itself is accepted
match 0 "first match: x 40, y 20, RMS 0" scene.ppm --template part.ppm --method sqdiff --limit 0
match 0 "RMS 10" scene.ppm --template off.ppm --mask mask.ppm --method sqdiff # per value inside the mask
match 0 "RMS 9." scene.ppm --template off.ppm --gray --method sqdiff
for method in sqdiff-normed ccorr-normed ccoeff-normed; do
    json "0 <= o['first_match']['score'] <= 1 and (o['first_match']['x'], o['first_match']['y']) == (40, 20)" scene.ppm --template part.ppm --method $method
    match 0 "no match: " scene.ppm --template other.ppm --method $method
done
json "'limit' not in o and 4000 < o['first_match']['score'] < 7000" scene.ppm --template part.ppm --method ccoeff # the variance of noise
json "15000 < o['first_match']['score'] < 30000" scene.ppm --template part.ppm --method ccorr

echo "-- poses"
turns=(--template part.ppm --angles -180:179:45)
match 0 "first match: x 37.5, y 29.5, angle 90, scale 1, 1" turned.ppm "${turns[@]}"
grep -qx "poses: 8 angles, 1 scale" said || fail "the poses are not named: $(cat said)"
python3 - <<'END' || fail "the turned box is not drawn around columns 30 to 45 and rows 20 to 39"
data = open("m.ppm", "rb").read()
rows = data[data.index(b"255\n") + 4:]
green = {i // 3 for i in range(0, len(rows), 3) if rows[i:i + 3] == b"\0\xdc\0"}
assert all(90 * y + x in green for y in range(22, 38) for x in (30, 45))
assert all(90 * y + x in green for x in range(32, 44) for y in (20, 39))
assert all(90 * 29 + x in green for x in range(32, 37)) and 90 * 29 + 42 not in green # the line to the left: up
END
match 0 "angle 90, scale 1, RMS 0" turned.ppm "${turns[@]}" --method sqdiff --limit 0
for method in sqdiff-normed ccorr-normed; do match 0 "angle 90, scale 1, " turned.ppm "${turns[@]}" --method $method; done
poses=(scene.ppm --template other.ppm --angles 0:90:10 --scales 0.9:1.1:0.1)
match 0 "no match: above 0.8 (best 0." "${poses[@]}"
grep -Eqx "no match: above 0.8 \(best 0\.[0-9]+ at x [0-9.]+, y [0-9.]+, angle [0-9]+, scale [0-9.]+\)" said || fail "the best pose is not named: $(cat said)"
orange || fail "the best pose is not drawn"
json "o['matches'] == 0 and o['angles'] == 10 and o['scales'] == 3 and 0 < o['no_match'][0]['score'] < 0.8 and o['no_match'][0]['angle'] in range(0, 91, 10)" "${poses[@]}"
best=$(sed -n 's/.*(best \([^ ]*\) at \(.*\))/\2, \1/p' said)
match 0 "first match: $best" "${poses[@]}" --limit -1 # which is the best of all
json "o['matches'] == 2 and o['first_match'] == {'template': 0, 'rank': 0, 'x': 69.5, 'y': 12.5, 'angle': 0, 'scale': 1, 'score': 1}" both.ppm "${turns[@]}" --top-k 3 --save-matches found.csv
[ "$(cat found.csv)" = "frame,template,rank,x,y,angle,scale,score
0,0,0,69.5,12.5,0,1,1
0,0,1,37.5,29.5,90,1,1" ] || fail "--save-matches: $(cat found.csv)"
match 0 "matches: 1" both.ppm "${turns[@]}" --top-k 3 --min-distance 50
json "o['matches'] == 2 and [n['template'] for n in o['no_match']] == [1]" both.ppm --template part.ppm --template other.ppm --scales 1 --angles 0:90:90 --top-k 2
match 0 "angle 90, scale 1, 1" turned.ppm "${turns[@]}" --mask mask.ppm
json "90 != o['first_match']['angle'] and abs(o['first_match']['angle'] - 90) < 0.5 and abs(o['first_match']['x'] - 37.5) < 0.3" turned.ppm --template part.ppm --angles 88.5:91.5:1 --refine --limit 0.3
mkdir turns && cp turned.ppm turns/1.ppm && cp both.ppm turns/2.ppm && cp scene.ppm turns/3.ppm
"$bin/cusight-match" turns/ "${turns[@]}" --top-k 2 --headless --device cpu --save-matches turns.csv --output turns_%d.ppm >said 2>&1 || fail "a folder of pictures: $(cat said)"
[ "$(cut -d, -f1,6 <turns.csv | tr '\n' ' ')" = "frame,angle 0,90 1,0 1,90 2,0 " ] || fail "matches of a video: $(cat turns.csv)"

echo "-- folders of single pictures"
mkdir -p shots other/deep
python3 - <<'END'
import struct, zlib
def ppm(name):
    data = open(name, "rb").read()
    w, h = map(int, data.split(b"\n")[0].split()[1:3]) if b"\n" not in data[:9] else (0, 0)
    return w, h, data[data.index(b"255\n") + 4:]
w, h, scene = ppm("scene.ppm")
def save(name, x, y, cols, rows):
    with open(name, "wb") as f:
        f.write(b"P6 %d %d 255\n" % (cols, rows) + b"".join(scene[3 * (w * r + x):3 * (w * r + x + cols)] for r in range(y, y + rows)))
save("shots/b, left.ppm", 20, 10, 60, 40)
save("shots/c.ppm", 0, 0, 35, 50)
save("shots/d.ppm", 0, 0, 10, 10)
save("shots/=e.ppm", 38, 18, 40, 40)
def png(name, cols, rows, pixels, alpha):
    raw = b"".join(b"\0" + b"".join(pixels[3 * (cols * r + c):3 * (cols * r + c) + 3] + bytes([alpha(c, r)]) for c in range(cols)) for r in range(rows))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(name, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", cols, rows, 8, 6, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))
pw, ph, part = ppm("part.ppm")
spoiled = bytearray(part)
for r in range(ph):
    spoiled[3 * pw * r:3 * pw * r + 30] = bytes(30) # the left half is black
png("half.png", pw, ph, bytes(spoiled), lambda c, r: 0 if c < 10 else 255)
png("opaque.png", pw, ph, part, lambda c, r: 255)
png("clear.png", pw, ph, part, lambda c, r: 127)
END
cp scene.ppm shots/a.ppm
shots() { says "$1" "$2" "$bin/cusight-match" "${@:3}" --device cpu --headless; } # CODE TEXT ARGUMENT...
shots 0 '"pictures_without_match":2' shots --template part.ppm --output found/ --save-matches shots.csv --json-frames
grep -qx "d.ppm is smaller than a template, so nothing is found in it" said || fail "too small a picture is not named: $(cat said)"
[ "$(ls found | paste -sd '|')" = "=e.png|a.png|b, left.png|c.png|d.png" ] || fail "outputs are called $(ls found)"
python3 - <<'END' || fail "the pictures' names: $(cat shots.csv said)"
import csv, json
rows = list(csv.DictReader(open("shots.csv")))
found = {r["picture"].lstrip("'"): (int(r["x"]), int(r["y"])) for r in rows}
assert found == {"=e.ppm": (2, 2), "a.ppm": (40, 20), "b, left.ppm": (20, 10)}, found
lines = [json.loads(line) for line in open("said") if line.startswith("{")]
assert [line["picture"] for line in lines if "frame" in line and "picture" in line] == ["=e.ppm", "a.ppm", "b, left.ppm", "c.ppm", "d.ppm"]
END
shots 4 "found/" shots --template part.ppm --output found # nothing is replaced
[ "$(ls found | wc -l)" = 5 ] || fail "a second run leaves $(ls found)"
shots 0 "output: match/" shots/a.ppm shots/c.ppm --template part.ppm # what the shell makes of a pattern
[ "$(ls match | paste -sd ' ')" = "a.png c.png" ] || fail "the default folder has $(ls match)"
shots 2 "a video has one size" shots --template part.ppm --output shots.mp4
[ ! -e shots.mp4 ] || fail "a video of pictures of several sizes"
cp scene.ppm other/a.ppm
cp scene.ppm other/deep/a.ppm
cp half.png other/a.png
shots 0 "output: both/" other --template part.ppm --limit -1 --output both/
[ "$(ls both | paste -sd ' ')" = "a.png.png a.ppm.png" ] || fail "two pictures called a give $(ls both)"
shots 2 "would have one picture a.ppm.png for INPUT 'other/a.ppm' and 'other/deep/a.ppm'" other/a.ppm other/deep/a.ppm --template part.ppm --output both/
shots 0 "first match: x 40, y 20, 1, in other/a.ppm" other/a.ppm other/deep/a.ppm --template part.ppm --output last.png
shots 2 "it would replace other/a.png" other/a.png scene.ppm --template part.ppm --output other/
shots 0 "angle 90, scale 1" turned.ppm shots/a.ppm --template part.ppm --angles 0:90:90 --output poses/
cmp -s scene.ppm other/a.ppm && cmp -s half.png other/a.png || fail "an input was replaced"

echo "-- nothing found"
match 1 "no match: above 0.8" scene.ppm --template other.ppm --fail-without-match
grep -q "^output: m.ppm" said && [ -s m.ppm ] || fail "without a match nothing is written"
match 0 "matches: 1" scene.ppm --template part.ppm --fail-without-match
shots 0 "pictures without a match: 2 of 5" shots --template part.ppm --fail-without-match --output found2/
shots 1 "pictures without a match: 5 of 5" shots --template other.ppm --fail-without-match --output found3/ # d.ppm, too

echo "-- alpha channels"
match 0 "template: 20 x 16, mask of its alpha channel (50 % of the pixels count), method" scene.ppm --template half.png
grep -q "first match: x 40, y 20, 1$" said || fail "a template with an alpha channel: $(cat said)"
match 0 "x 40, y 20, RMS 0" scene.ppm --template half.png --method sqdiff --gray
json "o['templates'] == [{'width': 20, 'height': 16, 'counted': 0.5}, {'width': 20, 'height': 16}]" scene.ppm --template half.png --template part.ppm
match 0 "template: 20 x 16, method" scene.ppm --template opaque.png
match 0 "mask of --mask (5 % of the pixels count)" scene.ppm --template half.png --mask mask.ppm --limit -1
match 0 "angle 90, scale 1" turned.ppm --template half.png --angles 0:90:90
match 3 "clear.png is transparent everywhere" scene.ppm --template clear.png

echo "-- a long search that is interrupted"
python3 - <<'END'
import random
for name, side in ("large.pgm", 1200), ("piece.pgm", 80):
    with open(name, "wb") as f:
        f.write(b"P5 %d %d 255\n" % (side, side) + random.Random(side).randbytes(side * side))
END
# SIGNAL SECONDS: after so many.
interrupt() {
    "$bin/cusight-match" large.pgm --template piece.pgm --angles -180:179:0.5 --device cpu --headless --output long.png --json >said 2>err &
    pid=$!
    ready $pid
    sleep "$2"
    begun=$SECONDS
    end_with "$1" $pid
    [ $code = 130 ] || fail "$1 within a search: exit code $code: $(cat said err)"
    [ $((SECONDS - begun)) -le 10 ] || fail "$1 within a search took $((SECONDS - begun)) s" # 1 s, and what a busy machine adds
    python3 -c "import json; o = json.load(open('said')); assert o['frames'] == 0 and o['exit_code'] == 130 and 'output' not in o" || fail "an interrupted search says $(cat said)"
    [ ! -e long.png ] || fail "an interrupted search writes a picture"
}
interrupt TERM 1
for wait in 3 10 30; do # until there is a best so far
    interrupt INT $wait
    ! grep -q '"best_so_far":{"template":0' said || break
done
grep -q '"best_so_far":{"template":0' said || fail "the best so far is not named: $(cat said)"

echo "-- what cannot be"
for angles in 5:1:2 5:9 400 0:9:0 0:9:-1 a: 0:9:1:2 nan; do
    match 2 "--angles is '$angles', expected FIRST:LAST:STEP within -360..360" scene.ppm --template part.ppm --angles=$angles
done
match 2 "--scales is '0:1:0.1', expected FIRST:LAST:STEP within 0.0625..16" scene.ppm --template part.ppm --scales 0:1:0.1
match 2 "angles.step is 0.001, expected at most 65536 values" scene.ppm --template part.ppm --angles -360:360:0.001
match 2 "--refine needs --angles or --scales" scene.ppm --template part.ppm --refine
match 2 "--method is ccorr, which does not compare poses" scene.ppm --template part.ppm --angles 0:9:1 --method ccorr
match 2 "--hsv-lower and --hsv-upper count in upright boxes" scene.ppm --template part.ppm --angles 0:9:1 --hsv-lower 0,0,0
match 2 "--subpixel is for upright matches" scene.ppm --template part.ppm --angles 0:9:1 --subpixel
match 2 "template 0 is 20 x 16, at scale 4 larger than the frames, 90 x 60, at any angle" scene.ppm --template part.ppm --scales 4:5:1
match 2 "template 0 has one color, which --method ccoeff-normed cannot find" scene.ppm --template flat.ppm --angles 0:9:1
match 2 "--mask is 90 x 60, expected 20 x 16 like the template" scene.ppm --template part.ppm --angles 0:9:1 --mask scene.ppm
match 2 "--limit is 15, expected -1 to 1 for --method ccoeff-normed: correlation" scene.ppm --template part.ppm --limit 15
match 2 "--limit is 300, expected 0 to 255 for --method sqdiff: RMS difference per value" scene.ppm --template part.ppm --method sqdiff --limit 300
match 2 "template 0 has one color, which --method ccoeff-normed cannot find; try --method sqdiff" scene.ppm --template flat.ppm
match 0 "no match: below RMS 25" scene.ppm --template flat.ppm --method sqdiff
finish
