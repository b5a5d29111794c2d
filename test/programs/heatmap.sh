#!/usr/bin/env bash
# cusight-heatmap: the full scale that it chooses, and palettes. Arguments: the build folder, the source folder.
# shellcheck source=SCRIPTDIR/support.sh
. "$(dirname "$0")/support.sh"
need_programs

# Films of a square that moves on a noisy background: film FOLDER BRIGHTNESS-OF-THE-SQUARE NOISE FRAMES-BEFORE-IT-MOVES.
cat >film.py <<'END'
import os, random, sys
folder, square, noise, still = sys.argv[1], *map(int, sys.argv[2:])
os.mkdir(folder)
r = random.Random(3)
for f in range(12):
    rows = [[50 + r.randint(0, noise) for _ in range(80)] for _ in range(60)]
    at = 5 + 4 * max(0, f - still)
    for y in range(10, 30):
        rows[y][at:at + 20] = [50 + square] * 20
    with open(f"{folder}/{f:03d}.ppm", "wb") as out:
        out.write(b"P6 80 60 255\n" + bytes(v for row in rows for v in row for _ in range(3)))
END
film() { python3 film.py "$@"; }
# The full scale of a film.
scale() { "$bin/cusight-heatmap" "$@" --device cpu --headless --no-legend --output last.ppm 2>err | sed -n 's/^full scale: \([0-9]*\).*/\1/p'; }
# has R G B: whether last.ppm has this color.
has() { python3 -c 'import sys; b = open("last.ppm", "rb").read()[13:]; c = bytes(map(int, sys.argv[1:])); sys.exit(c not in [b[i:i + 3] for i in range(0, len(b), 3)])' "$@"; }

echo "-- the full scale suits the film"
film dim 60 2 0
film bright 200 2 0
film noise 0 12 99
film frozen 60 0 99
dim=$(scale dim)
has 255 0 0 || fail "a dim square is not red at its edge"
bright=$(scale bright)
[ "$dim" -ge 150 ] && [ "$dim" -le 200 ] && [ "$bright" -ge 550 ] && [ "$bright" -le 610 ] || fail "full scales are $dim and $bright"
noise=$(scale noise)
has 255 0 0 && fail "noise alone is red: full scale $noise"
[ "$(scale frozen)" = 250 ] || fail "the full scale of a still film is $(scale frozen)"
[ "$(scale dim/000.ppm)" = 250 ] || fail "the full scale of one picture is $(scale dim/000.ppm)"
says 0 "full scale: $dim, chosen from the first 12 frames" "$bin/cusight-heatmap" dim --device cpu --headless --output last.ppm
says 0 "full scale: 300" "$bin/cusight-heatmap" dim --full-scale 300 --device cpu --headless --output last.ppm
grep -q chosen said && fail "a given full scale is said to be chosen"
says 0 "frames: 12" "$bin/cusight-heatmap" dim --device cpu:3 --headless --no-legend --output three.ppm
"$bin/cusight-heatmap" dim --device cpu --headless --no-legend --output last.ppm >/dev/null 2>&1
cmp -s last.ppm three.ppm || fail "three workers choose another scale"

echo "-- beyond the full scale"
scale bright --full-scale 100 >/dev/null # changes of 600, which the formula would show blue again
has 255 0 0 || fail "changes beyond the full scale are not red"

echo "-- palettes"
for palette in "classic 0 0 255 255 0 0" "gray 0 0 0 255 255 255" "turbo 48 18 59 122 4 3" "viridis 68 1 84 253 231 37" "inferno 0 0 4 252 255 164"; do
    read -r name r g b R G B <<<"$palette"
    scale frozen --palette "$name" >/dev/null
    has "$r" "$g" "$b" || fail "$name: no change is not $r $g $b"
    scale bright --palette "$name" --full-scale 100 >/dev/null
    has "$R" "$G" "$B" || fail "$name: a large change is not $R $G $B"
done
says 2 "--palette is 'jet', expected classic|turbo|viridis|inferno|gray" "$bin/cusight-heatmap" dim --palette jet

echo "-- motion: one thing in one film, none in another"
cat >walk.py <<'END'
import os
for folder, walks in (("walk", True), ("still", False)):
    os.mkdir(folder)
    for f in range(40):
        rows = [[60] * 160 for _ in range(120)]
        if walks and 12 <= f < 30:
            for y in range(30, 80):
                rows[y][3 * f:3 * f + 25] = [200] * 25
        with open(f"{folder}/{f:03d}.ppm", "wb") as out:
            out.write(b"P6 160 120 255\n" + bytes(v for row in rows for v in row for _ in range(3)))
END
python3 walk.py
says 0 "walk: 40 frames, 1 moving things" "$bin/cusight-heatmap" walk still --report m.json --min-frames 12 --device cpu
grep -q "still: 40 frames, 0 moving things" said || fail "the still film moves"
python3 - <<'END' || fail "motion.json is wrong"
import json
walk, still = json.load(open("m.json"))["inputs"]
(thing,) = [t for t in walk["things"] if t["strength"] > 60 and t["frames"] >= 12]
assert "things" not in still and walk["frames"] == still["frames"] == 40
assert abs(thing["start"] - 12 / 25) < 1e-6 and thing["end"] >= 29 / 25 - 1e-6, thing
assert thing["boxes"][0]["x"] in range(30, 37) and thing["boxes"][0]["height"] in range(50, 60)
END
says 3 "nowhere: 0 frames, 0 moving things, 0 sudden changes, 0 clips; failed: " "$bin/cusight-heatmap" nowhere still --report m.csv --device cpu
grep -q "still: 40 frames" said || fail "an input that fails stops the others"
grep -q "^input,id,t,x,y,width,height" m.csv || fail "there is no report after an input that failed"
says 0 "walk: 40 frames, 0 moving things" "$bin/cusight-heatmap" walk --region 0,90,160,30 --report m.csv --device cpu
python3 -c 'open("mask.pgm", "wb").write(b"P5 160 120 255\n" + b"\xff" * 160 * 120)'
says 0 "walk: 40 frames, 0 moving things" "$bin/cusight-heatmap" walk --ignore mask.pgm --report m.csv --device cpu
python3 -c 'open("mask.pgm", "wb").write(b"P5 16 12 255\n" + b"\xff" * 16 * 12)'
says 3 "16 x 12, expected 160 x 120 like the frames" "$bin/cusight-heatmap" walk --ignore mask.pgm --report m.csv --device cpu
says 2 "expected one INPUT" "$bin/cusight-heatmap" walk still --view motion --output m.png --device cpu
mkdir clips
says 0 "1 clips" "$bin/cusight-heatmap" walk --clips clips --min-frames 12 --device cpu
says 0 "frames" "$bin/cusight-heatmap" clips/walk-001.mp4 --device cpu --headless --output last.ppm
finish
