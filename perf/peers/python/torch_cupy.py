#!/usr/bin/env python3
"""Times the work of the performance suite's rows in PyTorch and CuPy, written as their users would write it: whole arrays, no
custom kernels. Prints one JSON object {row id: {"torch": ms, "cupy": ms, ...}}. Missing packages and failed work are reported
on standard error. All work is first compared with NumPy on small inputs.

Timing follows perf/harness: batches of at least 2 ms between two events after a warm-up, median, over buffers that rotate
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

from cupy_peer import Cupy  # noqa: E402
from numpy_reference import (SENSOR, STACK, changed, contour_truth, encode_truth, events, heatmap_truth, histogram_truth,  # noqa: E402
                             integral_truth, match_truth, mdes_tencode_truth, noise, picture, stereo_pair, voxels_truth)
from torch_peer import Torch  # noqa: E402

BATCH_MS, WARM_UP_MS, ENOUGH_MS, TOO_LONG_MS = 2, 20, 60, 1500
DEADLINE = math.inf


# ---- Checks and rows -------------------------------------------------------------------------------------------------

def same(name, got, truth):
    if not np.array_equal(got, truth):
        raise AssertionError(f"{name} differs from NumPy")


def verify(lib):
    """Compares all work with NumPy on small inputs. Returns the names of what failed."""
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
            raise AssertionError(f"voxels: {error} away from NumPy's")

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
    except Exception as error:  # whatever a package throws, the others are still measured
        print(f"{name}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
        return False


def median_ms(lib, call):
    """The median time of call(i), with i counting calls."""
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
    ms = batch(1)  # the first call says nothing about the next
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
        """make() uploads the input and returns call(i)."""
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
    parser.add_argument("--rows", default="", help="comma-separated row ids (default all)")
    parser.add_argument("--check", action="store_true", help="only compare with NumPy")
    parser.add_argument("--seconds", type=float, default=60, help="start no further work after this time (default 60)")
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
