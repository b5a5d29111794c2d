#!/usr/bin/env python3
"""What PyTorch and CuPy take for the work of the rows of the performance suite, written as one would write it with them:
whole arrays, no kernels of one's own. Prints one JSON object {row id: {"torch": ms, "cupy": ms, ...}}; a package that is
not here, and work that fails, is named on the standard error. Each piece of work is first compared with NumPy on a small
input.

Timed as perf/harness times: batches of 2 ms or more between two events after a warm-up, median, over buffers that rotate
through more than the L2 cache where the work comes from memory."""
import argparse
import json
import math
import sys
import time

try:
    import numpy as np
except ImportError as missing:
    print(f"torch and cupy: skipped: {missing}", file=sys.stderr)
    print("{}")
    sys.exit(0)

BATCH_MS, WARM_UP_MS, ENOUGH_MS, TOO_LONG_MS = 2, 20, 60, 1500
THRESHOLD, STACK, SENSOR = 20, 200000, (720, 1280)
DEADLINE = math.inf
random = np.random.default_rng(1)


# ---- The work in NumPy: what the others are checked against ----------------------------------------------------------

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
    """Where each of the ten channels begins to look."""
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


# ---- The two packages ------------------------------------------------------------------------------------------------

class Torch:
    name = "torch"

    def __init__(self):
        import torch
        import torch.nn.functional as functional
        if not torch.cuda.is_available():
            raise ImportError("no GPU for it")
        self.np, self.functional = torch, functional
        self.l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.starts = self.put(mdes_starts(STACK))
        self.heat = self.put(heat_table())

    def put(self, array):
        return self.np.from_numpy(np.ascontiguousarray(array)).cuda()

    def get(self, array):
        return array.cpu().numpy()

    def event(self):
        return self.np.cuda.Event(enable_timing=True)

    def elapsed(self, start, stop):
        stop.synchronize()
        return start.elapsed_time(stop)

    def integral(self, src):
        return src.cumsum(0, dtype=self.np.int32).cumsum(1, dtype=self.np.int32)

    def squares(self, src):
        wide = src.double()
        return (wide * wide).cumsum(0).cumsum(1)

    def template(self, templ, rows, cols):
        """What is prepared once: the spectrum and the sum of squares."""
        values = templ.double() - templ.double().mean()
        spectrum = self.np.fft.rfft2(values.float(), s=(rows, cols)).conj()
        return spectrum, templ.double().mean(), (templ.double() ** 2).sum(), templ.shape

    def window_sums(self, values, h, w):
        table = self.functional.pad(values, (1, 0, 1, 0)).cumsum(0).cumsum(1)
        return table[h:, w:] - table[:-h, w:] - table[h:, :-w] + table[:-h, :-w]

    def match(self, frame, prepared):
        """S2 - 2 corr + T2, the template without its mean in the transform, so that float will do."""
        spectrum, mean, squares, (h, w) = prepared
        rows, cols = frame.shape
        values = frame.float()
        corr = self.np.fft.irfft2(self.np.fft.rfft2(values) * spectrum, s=(rows, cols))[:rows - h + 1, :cols - w + 1]
        wide = frame.double()
        scores = self.window_sums(wide * wide, h, w) - 2 * (corr + mean * self.window_sums(wide, h, w)) + squares
        return scores.argmin()

    def heatmap(self, prev, cur):
        return self.heat[(cur.short() - prev.short()).abs().sum(2)]

    def encode(self, ref, cur):
        difference = (cur.short() - ref.short()).flatten()
        positions = (difference.abs() > THRESHOLD).nonzero().flatten()
        ref.flatten()[positions] = cur.flatten()[positions]
        return positions, difference[positions].to(self.np.uint8)

    def keys(self, x, y, p, stack, shape):
        """Place in the frames of each event's stack, one behind the other: positive first."""
        n = self.np.arange(x.numel(), device="cuda") // stack
        return ((n * shape[0] + y) * shape[1] + x) * 2 + (p == 0)

    def counted(self, counts):
        return counts.clamp(max=255).to(self.np.uint8)

    def histogram_scatter_add(self, x, y, p, stack, shape):
        keys = self.keys(x, y, p, stack, shape)
        counts = self.np.zeros(math.ceil(x.numel() / stack) * shape[0] * shape[1] * 2, dtype=self.np.int32, device="cuda")
        return self.counted(counts.scatter_add_(0, keys, self.np.ones_like(keys, dtype=self.np.int32)))

    def histogram_index_put(self, x, y, p, stack, shape):
        keys = self.keys(x, y, p, stack, shape)
        counts = self.np.zeros(math.ceil(x.numel() / stack) * shape[0] * shape[1] * 2, dtype=self.np.int32, device="cuda")
        return self.counted(counts.index_put_((keys,), self.np.ones((), dtype=self.np.int32, device="cuda"), accumulate=True))

    def histogram_bincount(self, x, y, p, stack, shape):
        size = math.ceil(x.numel() / stack) * shape[0] * shape[1] * 2
        return self.counted(self.keys(x, y, p, stack, shape).bincount(minlength=size))

    histograms = {"scatter_add_": histogram_scatter_add, "index_put_": histogram_index_put, "bincount": histogram_bincount}

    def mdes_tencode(self, x, y, p, t, shape):
        """One stack: the last event of each pixel, by the largest index; a channel shows it where it is recent enough."""
        np_, n = self.np, x.numel()
        index = np_.arange(n, device="cuda", dtype=np_.int32)
        key = y.long() * shape[1] + x
        last = np_.full((shape[0] * shape[1],), -1, dtype=np_.int32, device="cuda")
        last.scatter_reduce_(0, key, index, "amax")
        seen, at = last >= 0, last.clamp(min=0)
        polarity = p[at] != 0
        starts = self.starts if n == STACK else self.put(mdes_starts(n))
        value = polarity.to(np_.uint8) * 255
        mdes = np_.where(seen[:, None] & (last[:, None] >= starts), value[:, None], 128)
        age = (255 * (t[-1] - t[at]) // (t[-1] - t[0]).clamp(min=1)).to(np_.uint8)
        tencode = np_.stack([255 - value, age, value], 1) * seen[:, None]
        return mdes.view(*shape, 10), tencode.view(*shape, 3)

    def voxels(self, x, y, p, t, bins, shape):
        """One stack, bin after bin as is usual there; one more bin takes what the last event gives to none."""
        time = (bins - 1) * (t - t[0]).double() / (t[-1] - t[0]).clamp(min=1)
        first = time.floor()
        share, sign = (time - first).float(), (p != 0).float() * 2 - 1
        size = shape[0] * shape[1]
        key = first.long() * size + y.long() * shape[1] + x
        grid = self.np.zeros((bins + 1) * size, device="cuda")
        grid.index_add_(0, key, sign * (1 - share)).index_add_(0, key + size, sign * share)
        return grid[:bins * size].view(bins, *shape)

    def contour(self, left, right, shifts, window, fills, levels=10, threshold=0.2):
        np_, functional = self.np, self.functional

        def edges(image):
            p = functional.pad(image.float()[None, None], (1, 1, 1, 1), mode="circular")[0, 0]
            ul, u, ur, l, r, dl, d, dr = (p[i:i + image.shape[0], k:k + image.shape[1]] for i, k in
                                          ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)))
            differ = lambda a, b: 2 * (a - b).abs() > threshold * (a + b)  # noqa: E731
            return (differ(ul + l + dl, ur + r + dr) | differ(ul + u + ur, dl + d + dr) | differ(ul + u + l, dr + d + r)
                    | differ(dl + d + l, ur + u + r))
        a, b = edges(left), edges(right)
        best, elevation = np_.zeros_like(a, dtype=np_.float32), np_.zeros_like(a, dtype=np_.int32)
        k = window // 2
        for s in range(shifts):
            same = (a == b.roll(-s, 1)).float()
            wide = functional.pad(same[None, None], (k, k, k, k), mode="circular")
            rows = functional.avg_pool2d(wide, (1, window), 1, divisor_override=1)
            score = functional.avg_pool2d(rows, (window, 1), 1, divisor_override=1)[0, 0] * same
            better = (score > 0) & (score >= best)
            best = np_.where(better, score, best)
            elevation = np_.where(better, s + 1, elevation)
        for _ in range(fills):
            around = (elevation.roll(1, 0) + elevation.roll(-1, 0) + elevation.roll(1, 1) + elevation.roll(-1, 1)) // 4
            elevation = np_.where(elevation > 0, elevation, around)
        least = elevation.min()
        interval = ((elevation.max() - least) // levels).clamp(min=1)
        return elevation, np_.where((elevation - least) % interval == 0, 255, 0).to(np_.uint8)


class Cupy:
    name = "cupy"

    def __init__(self):
        import cupy
        import cupyx
        import cupyx.scipy.signal
        self.np, self.x = cupy, cupyx
        self.l2 = cupy.cuda.Device().attributes["L2CacheSize"]
        self.starts = self.put(mdes_starts(STACK))
        self.heat = self.put(heat_table())

    def put(self, array):
        return self.np.asarray(array)

    def get(self, array):
        return self.np.asnumpy(array)

    def event(self):
        return self.np.cuda.Event()

    def elapsed(self, start, stop):
        stop.synchronize()
        return self.np.cuda.get_elapsed_time(start, stop)

    def integral(self, src):
        return src.cumsum(0, dtype=np.int32).cumsum(1, dtype=np.int32)

    def squares(self, src):
        wide = src.astype(np.float64)
        return (wide * wide).cumsum(0).cumsum(1)

    def template(self, templ, _rows, _cols):
        mean = templ.astype(np.float64).mean()
        turned = (templ - mean).astype(np.float32)[::-1, ::-1]
        return turned, mean, (templ.astype(np.float64) ** 2).sum(), templ.shape

    def window_sums(self, values, h, w):
        table = self.np.pad(values, ((1, 0), (1, 0))).cumsum(0).cumsum(1)
        return table[h:, w:] - table[:-h, w:] - table[h:, :-w] + table[:-h, :-w]

    def match(self, frame, prepared):
        turned, mean, squares, (h, w) = prepared
        corr = self.x.scipy.signal.fftconvolve(frame.astype(np.float32), turned, mode="valid")
        wide = frame.astype(np.float64)
        scores = self.window_sums(wide * wide, h, w) - 2 * (corr + mean * self.window_sums(wide, h, w)) + squares
        return scores.argmin()

    def heatmap(self, prev, cur):
        return self.heat[self.np.abs(cur.astype(np.int16) - prev.astype(np.int16)).sum(2)]

    def encode(self, ref, cur):
        difference = (cur.astype(np.int16) - ref.astype(np.int16)).ravel()
        positions = self.np.flatnonzero(self.np.abs(difference) > THRESHOLD)
        ref.ravel()[positions] = cur.ravel()[positions]
        return positions, difference[positions].astype(np.uint8)

    def keys(self, x, y, p, stack, shape):
        n = self.np.arange(x.size) // stack
        return ((n * shape[0] + y) * shape[1] + x) * 2 + (p == 0)

    def counted(self, counts):
        return self.np.minimum(counts, 255).astype(np.uint8)

    def histogram_add_at(self, x, y, p, stack, shape):
        counts = self.np.zeros(math.ceil(x.size / stack) * shape[0] * shape[1] * 2, np.uint32)
        self.np.add.at(counts, self.keys(x, y, p, stack, shape), np.uint32(1))
        return self.counted(counts)

    def histogram_bincount(self, x, y, p, stack, shape):
        size = math.ceil(x.size / stack) * shape[0] * shape[1] * 2
        return self.counted(self.np.bincount(self.keys(x, y, p, stack, shape), minlength=size))

    histograms = {"add.at": histogram_add_at, "bincount": histogram_bincount}

    def mdes_tencode(self, x, y, p, t, shape):
        np_, n = self.np, x.size
        last = np_.full(shape[0] * shape[1], -1, np.int32)
        np_.maximum.at(last, y.astype(np.int32) * shape[1] + x, np_.arange(n, dtype=np.int32))
        seen, at = last >= 0, np_.maximum(last, 0)
        polarity = p[at] != 0
        starts = self.starts if n == STACK else self.put(mdes_starts(n))
        value = np_.where(polarity, np.uint8(255), np.uint8(0))
        mdes = np_.where(seen[:, None] & (last[:, None] >= starts), value[:, None], np.uint8(128))
        age = 255 * (t[-1] - t[at]) // np_.maximum(t[-1] - t[0], 1)
        tencode = np_.stack([255 - value, age.astype(np.uint8), value], 1) * seen[:, None]
        return mdes.reshape(*shape, 10), tencode.reshape(*shape, 3)

    def voxels(self, x, y, p, t, bins, shape):
        np_ = self.np
        time = (bins - 1) * (t - t[0]) / np_.maximum(t[-1] - t[0], 1)
        first = np_.floor(time)
        share, sign = (time - first).astype(np.float32), np_.where(p != 0, np.float32(1), np.float32(-1))
        size = shape[0] * shape[1]
        key = first.astype(np.int64) * size + y.astype(np.int64) * shape[1] + x
        grid = np_.zeros((bins + 1) * size, np.float32)
        np_.add.at(grid, key, sign * (1 - share))
        np_.add.at(grid, key + size, sign * share)
        return grid[:bins * size].reshape(bins, *shape)

    contour = None  # as plain in CuPy as in PyTorch, and slower by the pads it would have to copy


# ---- Checks and rows -------------------------------------------------------------------------------------------------

def same(name, got, truth):
    if not np.array_equal(got, truth):
        raise AssertionError(f"{name} gives another result than NumPy")


def verify(lib):
    """Every piece of work against NumPy, on small inputs. Returns the names of those that failed."""
    image, prev = noise(37, 53), noise(24, 40, 3)
    cur, (x, y, p, t) = changed(prev, 0.1), events(2000, (12, 17))
    frame, other = picture(60, 80), picture(60, 80)
    device = [lib.put(a) for a in (x, y, p, t)]

    def encode():
        ref = lib.put(prev.copy())
        for got, truth in zip((*lib.encode(ref, lib.put(cur)), ref), encode_truth(prev, cur)):
            same("encode", lib.get(got), truth)

    def histogram(way):
        got = lib.get(lib.histograms[way](lib, *device[:3], 1000, (12, 17))).reshape(2, 12, 17, 2)
        for k in range(2):
            part = slice(1000 * k, 1000 * k + 1000)
            same(way, got[k], histogram_truth(x[part], y[part], p[part], (12, 17)))

    def mdes_tencode():
        for got, truth in zip(lib.mdes_tencode(*device, (12, 17)), mdes_tencode_truth(x, y, p, t, (12, 17))):
            same("mdes_tencode", lib.get(got), truth)

    def voxels():
        error = np.abs(lib.get(lib.voxels(*device, 5, (12, 17))) - voxels_truth(x, y, p, t, 5, (12, 17))).max()
        if error > 1e-4:
            raise AssertionError(f"voxels: {error} off NumPy's")

    def contour():
        left, right = stereo_pair(48, 64)
        for got, truth in zip(lib.contour(lib.put(left), lib.put(right), 8, 5, 4, 3), contour_truth(left, right, 8, 5, 4, 3)):
            same("contour", lib.get(got), truth)

    checks = {
        "integral": lambda: same("integral", lib.get(lib.integral(lib.put(image))), integral_truth(image)),
        "squares": lambda: same("squares", lib.get(lib.squares(lib.put(image))), integral_truth(image.astype(np.int64) ** 2)),
        "match": lambda: same("match", int(lib.match(lib.put(frame), lib.template(lib.put(other[9:29, 13:38]), 60, 80))),
                              match_truth(frame, other[9:29, 13:38])),
        "heatmap": lambda: same("heatmap", lib.get(lib.heatmap(lib.put(prev), lib.put(cur))), heatmap_truth(prev, cur)),
        "encode": encode,
        **{way: lambda way=way: histogram(way) for way in lib.histograms},
        "mdes_tencode": mdes_tencode,
        "voxels": voxels,
    }
    if lib.contour:
        checks["contour"] = contour
    return {name for name, check in checks.items() if not attempt(f"{lib.name}: {name}", check)}


def attempt(name, work):
    if time.monotonic() > DEADLINE:
        print(f"{name}: no time left", file=sys.stderr)
        return False
    try:
        work()
        return True
    except Exception as error:  # whatever a package throws: the others are still measured
        print(f"{name}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
        return False


def median_ms(lib, call):
    """call(i), i counting up."""
    turn = 0

    def batch(calls):
        nonlocal turn
        start, stop = lib.event(), lib.event()
        start.record()
        for _ in range(calls):
            call(turn)
            turn += 1
        stop.record()
        return lib.elapsed(start, stop)

    begin, calls, n = time.monotonic(), 1, 1
    ms = batch(1)  # the first call is no measure of the next
    while True:
        spent = (time.monotonic() - begin) * 1000
        if spent > WARM_UP_MS and (ms > BATCH_MS or spent > 10 * WARM_UP_MS):
            break
        ms = batch(n)
        calls = max(1, math.ceil(BATCH_MS * n / max(ms, 1e-3)))
        n = min(calls, 2 * n)
    samples, begin = [], time.monotonic()
    while True:
        spent = (time.monotonic() - begin) * 1000
        if len(samples) >= 3 and (spent > TOO_LONG_MS or (len(samples) >= 20 and spent > ENOUGH_MS)):
            return sorted(samples)[len(samples) // 2]
        samples.append(batch(calls) / calls)


def rows_of(lib, wrong, wanted):
    """{row id: {peer: ms}} of one package."""
    found = {}

    def row(name, work, make, peer=lib.name):
        """make() puts the input in place and returns call(i)."""
        if work not in wrong and (not wanted or name in wanted):
            attempt(f"{peer}: {name}", lambda: found.setdefault(name, {}).__setitem__(peer, median_ms(lib, make())))

    def sets(bytes_a_set, make):
        made = [make() for _ in range(min(1 + math.ceil(2 * lib.l2 / bytes_a_set), 64))]
        return lambda i: made[i % len(made)]

    def integral(rows, cols, squares=False):
        source = sets(rows * cols * (13 if squares else 5), lambda image=noise(rows, cols): lib.put(image))
        return (lambda i: (lib.integral(source(i)), lib.squares(source(i)))) if squares else (lambda i: lib.integral(source(i)))

    def match(rows, cols, h, w):
        frame, other = lib.put(picture(rows, cols)), lib.put(picture(rows, cols))
        y, x = (rows - h) // 2, (cols - w) // 3
        prepared = lib.template(other[y:y + h, x:x + w], rows, cols)
        return lambda i: lib.match(frame, prepared)

    def pair(rows, cols, disc):
        frame = noise(rows, cols, 3)
        other = changed(frame) if disc else noise(rows, cols, 3)
        return sets(frame.size * 3, lambda: (lib.put(frame), lib.put(other), lib.put(frame)))

    def heatmap(rows, cols):
        frames = pair(rows, cols, False)
        return lambda i: lib.heatmap(*frames(i)[:2])

    def encode(rows, cols):
        frames, turns = pair(rows, cols, True), {}

        def call(i):
            first, second, ref = frames(i)
            turns[id(ref)] = not turns.get(id(ref), False)
            return lib.encode(ref, second if turns[id(ref)] else first)
        return call

    recording = []

    def recorded():
        if not recording:
            recording.extend(lib.put(a) for a in events(60000000, SENSOR))
        return recording

    def histogram(way):
        x, y, p, _ = recorded()
        parts = [slice(k, k + 50 * STACK) for k in range(0, len(x), 50 * STACK)]  # 50 stacks at a time
        return lambda i: [lib.histograms[way](lib, x[part], y[part], p[part], STACK, SENSOR) for part in parts]

    def stacks(work, *more):
        arrays = recorded()
        parts = [slice(k, k + STACK) for k in range(0, len(arrays[0]), STACK)]
        return lambda i: [work(*(a[part] for a in arrays), *more, SENSOR) for part in parts]

    def contour(rows, cols):
        left, right = (lib.put(image) for image in stereo_pair(rows, cols))
        return lambda i: lib.contour(left, right, 30, 21, 50)

    for cols, rows in ((640, 480), (1326, 1025), (1920, 1080), (3840, 2160), (7680, 4320), (16384, 16384)):
        row(f"integral/8u32s/{cols}x{rows}", "integral", lambda: integral(rows, cols))
    for cols, rows in ((640, 480), (1920, 1080), (3840, 2160), (7680, 4320)):
        row(f"integral/8u32s64f/{cols}x{rows}", "squares", lambda: integral(rows, cols, True))
    for cols, rows, w, h in ((1326, 1025, 479, 432), (1200, 1983, 150, 150)):
        row(f"match/ssd/{cols}x{rows}/{w}x{h}", "match", lambda: match(rows, cols, h, w))
    for cols, rows in ((640, 480), (1920, 1080), (3840, 2160)):
        row(f"framediff/heatmap/{cols}x{rows}", "heatmap", lambda: heatmap(rows, cols))
        row(f"framediff/encode/{cols}x{rows}/3pct", "encode", lambda: encode(rows, cols))
    for way in lib.histograms:
        row("events/histogram/60M", way, lambda: histogram(way), f"{lib.name} {way}")
    row("events/mdes10+tencode/60M", "mdes_tencode", lambda: stacks(lib.mdes_tencode))
    row("events/voxel_grid/60M", "voxels", lambda: stacks(lib.voxels, 5))
    recording.clear()
    if lib.contour:
        for cols, rows in ((640, 480), (3840, 2160)):
            row(f"stereo/contour/{cols}x{rows}", "contour", lambda: contour(rows, cols))
    return found


def main():
    global DEADLINE
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="ids, with commas between them (default all)")
    parser.add_argument("--check", action="store_true", help="only compare with NumPy")
    parser.add_argument("--seconds", type=float, default=60, help="begin nothing after so many (default 60)")
    options = parser.parse_args()
    DEADLINE = time.monotonic() + options.seconds
    found, good = {}, True
    for package in (Torch, Cupy):
        begin = time.monotonic()
        try:
            lib = package()
        except Exception as error:  # not installed, or no GPU that it can use
            print(f"{package.name}: skipped: {error}", file=sys.stderr)
            continue
        wrong = verify(lib)
        good = good and not wrong
        if not options.check:
            for name, peers in rows_of(lib, wrong, options.rows.split(",") if options.rows else []).items():
                found.setdefault(name, {}).update(peers)
        print(f"{package.name}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
    print(json.dumps(found))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
