#!/usr/bin/env bash
# cusight-match: scores and limits in the units of the method, and what it says and draws if nothing is within the limit.
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

echo "-- what cannot be"
match 2 "--limit is 15, expected -1 to 1 for --method ccoeff-normed: correlation" scene.ppm --template part.ppm --limit 15
match 2 "--limit is 300, expected 0 to 255 for --method sqdiff: RMS difference per value" scene.ppm --template part.ppm --method sqdiff --limit 300
match 2 "template 0 has one color, which --method ccoeff-normed cannot find; try --method sqdiff" scene.ppm --template flat.ppm
match 0 "no match: below RMS 25" scene.ppm --template flat.ppm --method sqdiff
finish
