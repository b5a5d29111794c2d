"""The peers' work in NumPy, which they must agree with, and its inputs."""
import numpy as np

THRESHOLD, STACK, SENSOR = 20, 200000, (720, 1280)
random = np.random.default_rng(1)


# ---- The work --------------------------------------------------------------------------------------------------------

def integral_truth(src):
    return src.astype(np.int64).cumsum(0).cumsum(1)


def match_truth(frame, templ):
    windows = np.lib.stride_tricks.sliding_window_view(frame.astype(np.int64), templ.shape)
    return int(((windows - templ.astype(np.int64)) ** 2).sum((2, 3)).argmin())


def heat_table():
    """Colors by the sum of a pixel's three differences."""
    n = np.pi * np.arange(766) / 765
    return np.stack([np.clip(255 * np.sin(phase), 0, 255).astype(np.uint8) for phase in (n + np.pi / 2, n, n - np.pi / 2)], 1)


def heatmap_truth(prev, cur):
    return heat_table()[np.abs(cur.astype(int) - prev).sum(2)]


def encode_truth(ref, cur):
    difference = cur.astype(int) - ref
    positions = np.flatnonzero(np.abs(difference) > THRESHOLD)
    after = ref.copy()
    after.ravel()[positions] = cur.ravel()[positions]
    return positions, (difference.ravel()[positions] & 255).astype(np.uint8), after


def histogram_truth(x, y, p, shape):
    counts = np.zeros((*shape, 2), int)
    np.add.at(counts, (y, x, np.where(p != 0, 0, 1)), 1)
    return np.minimum(counts, 255).astype(np.uint8)


def mdes_starts(n):
    """The first event that each of the ten channels shows."""
    starts, half = [0], n // 2
    while len(starts) < 10:
        starts.append(starts[-1] + half)
        half //= 2
    return np.array(starts)


def mdes_tencode_truth(x, y, p, t, shape):
    mdes, tencode = np.full((*shape, 10), 128, np.uint8), np.zeros((*shape, 3), np.uint8)
    starts, span = mdes_starts(len(x)), t[-1] - t[0]
    for i, (col, row, polarity) in enumerate(zip(x, y, p)):
        mdes[row, col, starts <= i] = 255 if polarity else 0
        tencode[row, col] = 0 if polarity else 255, 255 * (t[-1] - t[i]) // max(span, 1), 255 if polarity else 0
    return mdes, tencode


def voxels_truth(x, y, p, t, bins, shape):
    grid, span = np.zeros((bins, *shape)), max(t[-1] - t[0], 1)
    for col, row, polarity, time in zip(x, y, p, t):
        place = (bins - 1) * (time - t[0]) / span
        for b in range(bins):
            grid[b, row, col] += max(0, 1 - abs(b - place)) * (1 if polarity else -1)
    return grid


def contour_truth(left, right, shifts, window, fills, levels=10, threshold=0.2):
    """A torus, as published."""
    def edges(image):
        at = {(dy, dx): np.roll(image.astype(int), (-dy, -dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)}
        ul, u, ur, l, r, dl, d, dr = (at[k] for k in ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)))
        pairs = (ul + l + dl, ur + r + dr), (ul + u + ur, dl + d + dr), (ul + u + l, dr + d + r), (dl + d + l, ur + u + r)
        return np.logical_or.reduce([2 * abs(a - b) > np.float32(threshold) * (a + b).astype(np.float32) for a, b in pairs])
    a, b = edges(left), edges(right)
    best, elevation = np.zeros(a.shape, int), np.zeros(a.shape, int)
    reach = range(-(window // 2), window // 2 + 1)
    for s in range(shifts):
        same = (a == np.roll(b, -s, 1)).astype(int)
        score = sum(np.roll(same, (dy, dx), (0, 1)) for dy in reach for dx in reach) * same
        better = (score > 0) & (score >= best)
        best[better], elevation[better] = score[better], s + 1
    for _ in range(fills):
        around = sum(np.roll(elevation, step, axis) for axis in (0, 1) for step in (-1, 1)) // 4
        elevation = np.where(elevation > 0, elevation, around)
    interval = max(1, (elevation.max() - elevation.min()) // levels)
    return elevation, np.where((elevation - elevation.min()) % interval == 0, 255, 0)


# ---- Inputs ----------------------------------------------------------------------------------------------------------

def noise(*shape):
    return random.integers(0, 256, shape, np.uint8)


def changed(frame, share=0.03):
    """The same frame with about this share of the bytes changed by 128, in discs of radius 2."""
    rows, cols, _ = frame.shape
    discs = int(share * rows * cols / 13 * 1.015)
    y, x = random.integers(2, rows - 2, discs), random.integers(2, cols - 2, discs)
    mask = np.zeros((rows, cols), bool)
    for dy in range(-2, 3):
        for dx in range(-2, 3):
            if dx * dx + dy * dy <= 4:
                mask[y + dy, x + dx] = True
    return np.where(mask[:, :, None], frame ^ 128, frame)


def picture(rows, cols):
    y, x = np.mgrid[0:rows, 0:cols]
    wave = 127 + 60 * np.sin(0.031 * x + 0.017 * y) + 40 * np.sin(0.11 * x - 0.13 * y)
    return np.clip(wave + random.integers(0, 24, (rows, cols)), 0, 255).astype(np.uint8)


def stereo_pair(rows, cols):
    """Squares of random brightness with noise, the right image moved by 0 to 29 columns."""
    base = noise(rows // 8 + 1, (cols + 128) // 8 + 1)
    y, x = np.mgrid[0:rows, 0:cols]
    shift = (y // 100 + x // 100) % 30
    return [(base[y // 8, (x + 64 - s) // 8] // 2 + 64 + random.integers(0, 8, (rows, cols))).astype(np.uint8) for s in (0, shift)]


def events(n, shape):
    rows, cols = shape
    return (random.integers(0, cols, n).astype(np.int16), random.integers(0, rows, n).astype(np.int16),
            random.integers(0, 2, n).astype(np.uint8), np.arange(n, dtype=np.int64) // 10)
