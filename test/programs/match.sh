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
says 0 "of frame 0)" "$bin/cusight-match" video/ --template other.ppm --device cpu --headless --output out_%d.ppm
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
match 0 "no match: above 0.8" scene.ppm --template other.ppm --angles 0:90:10 --scales 0.9:1.1:0.1
json "o['no_match'] == [{'template': 0}] and o['matches'] == 0 and o['angles'] == 10 and o['scales'] == 3" scene.ppm --template other.ppm --angles 0:90:10 --scales 0.9:1.1:0.1
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
