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
finish
