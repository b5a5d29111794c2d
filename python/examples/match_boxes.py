"""Tracking boxes: each is sought around the place where it was, all boxes of a frame in one call.

    python match_boxes.py [--device cuda]

The areas to search are slices of the frame, on a GPU of the frame in its memory (PyTorch): nothing is copied.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import cusight

BOXES, SIDE, REACH = 32, 24, 12
SHAPE = 480, 640


def place(k: int, t: int) -> tuple[int, int]:
    """Where object k is in frame t: x, y."""
    return 40 + k % 8 * 72 + (k % 5 - 2) * t // 2, 60 + k // 8 * 110 + (k % 3 - 1) * t


def picture(t: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """In place of a camera: patterns that move on noise."""
    rng = np.random.default_rng(3)
    patterns = rng.integers(0, 256, (BOXES, SIDE, SIDE), dtype=np.uint8)
    frame = rng.integers(100, 140, SHAPE, dtype=np.uint8)
    for k in range(BOXES):
        x, y = place(k, t)
        frame[y : y + SIDE, x : x + SIDE] = patterns[k]
    return frame


def main() -> int:
    parser = argparse.ArgumentParser(description="Tracks 32 boxes")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    device = parser.parse_args().device

    def arrived(t: int) -> Any:
        if device == "cpu":
            return picture(t)
        import torch

        return torch.from_numpy(picture(t)).cuda()

    frame = arrived(0)
    boxes = [place(k, 0) for k in range(BOXES)]  # the first come from a detector
    templates = [frame[y : y + SIDE, x : x + SIDE] for x, y in boxes]
    around = SIDE + 2 * REACH, SIDE + 2 * REACH
    lost = 0
    with cusight.Matcher(templates, around, batch=BOXES) as matcher:
        for t in range(1, 20):
            frame = arrived(t)
            areas = [frame[y - REACH : y + SIDE + REACH, x - REACH : x + SIDE + REACH] for x, y in boxes]
            matcher.run(areas)
            found = matcher.results() if device == "cpu" else matcher.results().cpu().numpy()  # of all boxes at once
            best = found.view(cusight.match_dtype())[:, 0]
            boxes = [(x - REACH + int(hit["x"]), y - REACH + int(hit["y"])) for (x, y), hit in zip(boxes, best)]
            lost += sum(box != place(k, t) for k, box in enumerate(boxes))
    print(f"{BOXES} boxes in 20 frames, {lost} lost")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
