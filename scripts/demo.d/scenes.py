"""Writes stereo pairs that a local window cannot decide: python3 scenes.py FOLDER makes plane_left.pgm, plane_right.pgm, fence_left.pgm
and fence_right.pgm. test/stereo/scenes.hpp has them with ground truth."""

import math
import random
import sys
from pathlib import Path

ROWS, COLS, MOST = 240, 420, 64
FENCE, FAR = 30, 10  # shifts of the posts, and of what is behind


def photograph(seed):
    """Rows of noise of seven octaves, whose amplitude grows with their size as in photographs."""
    draw = random.Random(seed)
    wide = COLS + MOST
    rows = [[128.0] * wide for _ in range(ROWS)]
    for octave in range(7):
        size = 1 << octave
        grid = [[draw.uniform(-1, 1) for _ in range(wide // size + 2)] for _ in range(ROWS // size + 2)]
        for y, row in enumerate(rows):
            (upper, lower), v = grid[y // size : y // size + 2], y % size / size
            line = [(a * (1 - v) + b * v) * 1.6 * size**0.85 for a, b in zip(upper, lower)]
            for x in range(wide):
                i, u = x // size, x % size / size
                row[x] += line[i] * (1 - u) + line[i + 1] * u
    return rows


def save(path, brightness):
    """Writes what a sensor sees: noise of up to two levels is added."""
    noise = random.Random(path.name)
    seen = [min(255, max(0, round(brightness(y, x) + noise.uniform(-2, 2)))) for y in range(ROWS) for x in range(COLS)]
    path.write_bytes(b"P5 %d %d 255\n" % (COLS, ROWS) + bytes(seen))


def main():
    folder, near, far = Path(sys.argv[1]), photograph(1), photograph(2)

    def plane(y, x):
        at = x - (8 + 30 * x / COLS + 8 * y / ROWS) + MOST
        whole = math.floor(at)
        return near[y][whole] + (at - whole) * (near[y][whole + 1] - near[y][whole])

    save(folder / "plane_left.pgm", plane)
    save(folder / "plane_right.pgm", lambda y, x: near[y][x + MOST])
    save(folder / "fence_left.pgm", lambda y, x: near[y][x] if x % 40 < 8 else far[y][x - FAR + MOST])
    save(folder / "fence_right.pgm", lambda y, x: near[y][x + FENCE] if (x + FENCE) % 40 < 8 else far[y][x + MOST])


if __name__ == "__main__":
    main()
