"""Matching and integral images beside OpenCV's wheel (opencv-python-headless), which has Intel's IPP inside, in one run.

    OMP_NUM_THREADS=1 python python/bench/opencv.py [--threads 1] [--rounds 7]

Both take turns; a time is the least of all rounds. OpenCV's includes minMaxLoc, since cusight's call finds the best match. OMP_NUM_THREADS is
how many threads cusight takes, --threads how many OpenCV.
"""

from __future__ import annotations

import argparse
import time
from typing import Callable

import cusight
import cv2
import numpy as np

FRAMES = [(480, 640), (720, 1280), (1080, 1920), (2160, 3840)]
SIDES = [16, 32, 64, 100, 200]
METHODS = {"sqdiff": cv2.TM_SQDIFF, "ccoeff-normed": cv2.TM_CCOEFF_NORMED}


def least(rounds: int, *calls: Callable[[], object]) -> list[float]:
    """Milliseconds of each."""
    times = [float("inf")] * len(calls)
    for _ in range(rounds):
        for k, call in enumerate(calls):
            start = time.perf_counter()
            call()
            times[k] = min(times[k], 1e3 * (time.perf_counter() - start))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    cv2.setNumThreads(options.threads)
    random = np.random.default_rng(1)
    print(f"OpenCV {cv2.__version__}; ms of cusight, of OpenCV, and how many times as long OpenCV takes")
    for rows, cols in FRAMES:
        coarse = random.integers(0, 256, (rows // 8, cols // 8), np.uint8)
        frame = cv2.add(cv2.resize(coarse, (cols, rows), interpolation=cv2.INTER_CUBIC), random.integers(0, 20, (rows, cols), np.uint8))
        table = np.empty((rows + 1, cols + 1), np.int32)
        ours, theirs = least(20 * options.rounds, lambda: cusight.integral(frame, out=table), lambda: cv2.integral(frame, table))
        print(f"integral {cols}x{rows}: {ours:.3f} {theirs:.3f} {theirs / ours:.2f}", flush=True)
        scores = {side: np.empty((rows - side + 1, cols - side + 1), np.float32) for side in SIDES}
        for side in SIDES:
            templ = np.ascontiguousarray(frame[rows // 3 : rows // 3 + side, cols // 3 : cols // 3 + side])
            for method, number in METHODS.items():
                with cusight.Matcher(templ, frame.shape, method=method) as matcher:
                    ours, theirs = least(
                        options.rounds,
                        lambda: matcher.run(frame),
                        lambda: cv2.minMaxLoc(cv2.matchTemplate(frame, templ, number, scores[side])),
                    )
                print(f"match {method} {cols}x{rows} {side}x{side}: {ours:.2f} {theirs:.2f} {theirs / ours:.2f}", flush=True)


if __name__ == "__main__":
    main()
