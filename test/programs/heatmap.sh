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

echo "-- what is missing"
film steps 60 2 0
rm steps/005.ppm steps/009.ppm
says 0 "steps/%03d.ppm: steps/005.ppm is missing, so the sequence ends before it; 5 later files, up to steps/011.ppm, are not read" "$bin/cusight-heatmap" steps/%03d.ppm --device cpu --headless --output last.ppm
grep -qx "frames: 5" said || fail "a sequence before its gap: $(cat said)"
(cd steps && says 0 "%03d.ppm: 005.ppm is missing" "$bin/cusight-heatmap" %03d.ppm --device cpu --headless --output ../last.ppm) || failed=1
rm steps/01* steps/00[678].ppm
says 0 "frames: 5" "$bin/cusight-heatmap" steps/%03d.ppm --device cpu --headless --output last.ppm
grep -q missing said && fail "the end of a sequence is called a gap: $(cat said)"
says 0 "steps/000.ppm: one picture alone shows no change; expected a video" "$bin/cusight-heatmap" steps/000.ppm --device cpu --headless --output last.ppm
says 0 "steps/000.ppm: nothing moves in one picture alone" "$bin/cusight-heatmap" steps/000.ppm --view motion --device cpu --headless --output last.ppm

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

echo "-- one image of a film is its last picture"
for frames in 12 5; do # more than the ring of slots has, and fewer
    mkdir all$frames
    scale dim --frames $frames >/dev/null
    "$bin/cusight-heatmap" dim --device cpu --headless --no-legend --frames $frames --output all$frames/%03d.ppm >/dev/null 2>&1
    cmp -s last.ppm "$(printf "all%d/%03d.ppm" $frames $((frames - 1)))" || fail "last.ppm is not picture $frames"
done

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

echo "-- motion: what sways in its place or flashes does not count; numbers have no gaps"
cat >sway.py <<'END'
import os
os.mkdir("sway")
for f in range(80):
    rows = [[60] * 160 for _ in range(120)]
    def fill(x, y, width, height):
        for v in range(y, y + height):
            rows[v][max(x, 0):max(x + width, 0)] = [200] * len(rows[v][max(x, 0):max(x + width, 0)])
    if f >= 12:
        fill(100 + 4 * (f % 2), 10, 24, 30)
    if 20 <= f < 23:
        fill(10, 10, 24, 24)
    fill(3 * (f - 30), 48, 24, 26)
    fill(160 - 4 * (f - 40) if f > 40 else 160, 92, 24, 26)
    with open(f"sway/{f:03d}.ppm", "wb") as out:
        out.write(b"P6 160 120 255\n" + bytes(v for row in rows for v in row for _ in range(3)))
END
python3 sway.py
says 0 "sway: 80 frames, 2 moving things" "$bin/cusight-heatmap" sway --report m.json --fps 10 --device cpu
python3 - <<'END' || fail "the numbers of what moves are wrong"
import json
first, second = json.load(open("m.json"))["inputs"][0]["things"]
assert (first["id"], second["id"]) == (1, 2) and 2 < first["start"] < 3.3 and 4 <= second["start"] < 4.3, (first, second)
END

echo "-- motion: cameras that are looked at together are reported as one by one"
mkdir short
cp walk/00*.ppm walk/01*.ppm walk/02[0-4].ppm short
inputs=(walk dim short nowhere still bright)
says 3 "2 moving things in 6 inputs, 1 of which failed" "$bin/cusight-heatmap" "${inputs[@]}" --report all.json --min-frames 8 --device cpu
for input in "${inputs[@]}"; do
    "$bin/cusight-heatmap" "$input" --report "one-$input.json" --min-frames 8 --device cpu >/dev/null 2>&1
done
python3 - "${inputs[@]}" <<'END' || fail "together and one by one differ"
import json, sys
every = json.load(open("all.json"))["inputs"]
assert every == [json.load(open(f"one-{name}.json"))["inputs"][0] for name in sys.argv[1:]]
assert [i["frames"] for i in every] == [40, 12, 25, 0, 40, 12] and every[0]["things"] and every[2]["things"]
END
seq -f "nowhere%g" 45 | xargs "$bin/cusight-heatmap" walk still --json --device cpu --report many.csv --min-frames 8 >many.json 2>err &&
    fail "45 missing inputs are no failure"
python3 - <<'END' || fail "the summary of 47 inputs is wrong"
import json
run = json.load(open("many.json"))
assert (run["inputs"], run["failed"], run["things"], run["exit_code"]) == (47, 45, 1, 3), run
END
if [ "$(script -qec 'echo a terminal' /dev/null </dev/null 2>/dev/null | tr -d '\r')" = "a terminal" ]; then
    script -qec "stty rows 24 cols 80; '$bin/cusight-heatmap' walk still --report m.csv --device cpu" seen >/dev/null </dev/null
    grep -q "frames of walk" seen && grep -q "frames of still" seen || fail "a camera has no line of progress"
    script -qec "stty rows 2 cols 80; '$bin/cusight-heatmap' walk still --report m.csv --device cpu" seen >/dev/null </dev/null
    grep -q "2 inputs" seen || fail "two cameras on a terminal of two rows"
else
    echo "   no terminal (script, /dev/pts): two tests of progress are skipped"
fi

echo "-- motion: light that changes at once, rain of noise, still hours"
cat >hard.py <<'END'
import os, random
r = random.Random(5)
def write(folder, f, pixels):
    with open(f"{folder}/{f:04d}.ppm", "wb") as out:
        out.write(b"P6 160 120 255\n" + bytes(v for p in pixels for v in (p, p, p)))
for folder in ("light", "rain", "hours"):
    os.mkdir(folder)
ground = [60 + r.randint(0, 40) for _ in range(160 * 120)]
for f in range(60):
    write("light", f, [p + 90 if f >= 30 else p for p in ground])
    write("rain", f, [r.choice((0, 255)) if r.random() < 0.04 else p for p in ground])
for f in range(16): # the noise of a sensor, again and again
    write("hours", f, [p + r.randint(-8, 8) for p in ground])
for f in range(16, 3600):
    os.link(f"hours/{r.randrange(16):04d}.ppm", f"hours/{f:04d}.ppm")
END
python3 hard.py
says 0 "0 moving things in 3 inputs, 0 of which failed" "$bin/cusight-heatmap" light rain hours --report hard.json --fps 1 --min-frames 1 --device cpu
python3 - <<'END' || fail "the report of light, rain and hours is wrong"
import json
light, rain, hours = json.load(open("hard.json"))["inputs"]
assert [c["t"] for c in light["sudden_changes"]] == [30.0] and "sudden_changes" not in rain and "sudden_changes" not in hours
assert (light["frames"], rain["frames"], hours["frames"]) == (60, 60, 3600)
END

echo "-- motion: clips"
mkdir clips
says 0 "1 clips" "$bin/cusight-heatmap" walk --clips clips --min-frames 12 --device cpu
says 0 "frames" "$bin/cusight-heatmap" clips/walk-001.mp4 --device cpu --headless --output last.ppm
finish
