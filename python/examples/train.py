"""A training-style loop over a recording: shuffled windows in batches, with PyTorch's DataLoader if it is installed.

    python train.py recording.h5        # M3ED, DSEC, EVT2, EVT3, DAT or text
    python train.py                     # a small recording made from a moving square
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any, Iterator

import cusight
import cusight.torch
import numpy as np


def make_recording(path: Path) -> None:
    """Events of a bright square that moves to the right, as text."""
    rows, cols = 96, 128
    lines = [f"{cols} {rows}"]
    with cusight.events.EventGenerator((rows, cols)) as generator:
        for step in range(60):
            frame = np.full((rows, cols), 40, np.uint8)
            frame[30:60, step : step + 30] = 200
            events = generator.push(frame, step * 5000)
            lines += [f"{t} {x} {y} {p}" for x, y, p, t in zip(*events)]
    path.write_text("\n".join(lines) + "\n")


def batches(dataset: cusight.torch.EventDataset, size: int, epoch: int) -> Iterator[Any]:
    """Shuffled batches, by PyTorch if it is there."""
    try:
        from torch.utils.data import DataLoader
    except ImportError:
        order = np.random.default_rng(epoch).permutation(len(dataset))
        for first in range(0, len(order), size):
            yield np.stack([dataset[int(i)] for i in order[first : first + size]])
        return
    yield from DataLoader(dataset, batch_size=size, shuffle=True, num_workers=2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", nargs="?", type=Path)
    parser.add_argument("--windows", default="20ms", help="length of a window (default 20ms)")
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.recording
        if path is None:
            path = Path(folder) / "square.txt"
            make_recording(path)
        dataset = cusight.torch.EventDataset(path, windows=options.windows, representation="voxel_grid", bins=5)
        weight = 0.0
        for epoch in range(options.epochs):
            loss = 0.0
            for frames in batches(dataset, 4, epoch):
                # A model goes here; this one learns the mean of the frames.
                mean = float(frames.mean())
                loss += (mean - weight) ** 2
                weight += 0.1 * (mean - weight)
            print(f"epoch {epoch}: {len(dataset)} windows, loss {loss:.6f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
