"""Frames a second of cusight.torch.SequenceDataset, and its share of a training step of 100 ms: recordings of 1280 x 720 pixels, stacked
histograms of 50 ms with 20 channels. Needs PyTorch, and 8 bytes of FOLDER for each event.

    python3 python/bench/sequences.py FOLDER [--device cuda] [--threads 14] [--files 8] [--seconds 10] [--rate 8.4e6]

8.4 million events a second are the mean of Prophesee's 1 Mpx data set (3.5 TB of DAT files, 14.65 hours)."""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from recordings import write_recordings

import cusight.torch


def finish(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def frames_a_second(sequences: cusight.torch.SequenceDataset, device: str, epochs: int) -> float:
    frames, start = 0, 0.0
    for epoch in range(epochs + 1):  # the first one warms up
        if epoch == 1:
            finish(device)
            start, frames = time.perf_counter(), 0
        sequences.set_epoch(epoch)
        for batch in sequences:
            frames += batch.frames.shape[0] * batch.frames.shape[1]
            finish(device)
    return frames / (time.perf_counter() - start)


def share_of_step(sequences: cusight.torch.SequenceDataset, step_ms: float) -> float:
    """Of steps that keep the GPU busy for step_ms; between them nothing is queued."""
    cycles = 10_000_000
    for _ in range(3):
        finish("cuda")
        start = time.perf_counter()
        torch.cuda._sleep(cycles)
        finish("cuda")
        cycles = int(cycles * step_ms * 1e-3 / (time.perf_counter() - start))
    times = []
    for epoch in range(3):
        sequences.set_epoch(epoch)
        last = time.perf_counter()
        for _ in sequences:
            torch.cuda._sleep(cycles)
            finish("cuda")
            now = time.perf_counter()
            times.append(now - last)
            last = now
    return float(np.median(times)) * 1e3 / step_ms - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--threads", type=int, default=14)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=8.4e6)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=40, help="sequences side by side, of 5 frames each (default 40)")
    options = parser.parse_args()
    paths = write_recordings(options.folder, options.files, options.seconds, options.rate)
    try:
        windows = cusight.torch.EventDataset(
            [str(path) for path in paths], windows="50ms", representation="stacked_histogram", bins=10, channels_first=True
        )
        sequences = cusight.torch.SequenceDataset(windows, 5, batch=options.batch, device=options.device, threads=options.threads)
        print(sequences)
        rate = frames_a_second(sequences, options.device, options.epochs)
        print(f"{rate:.0f} frames/s, {rate * options.rate * 0.05 / 1e6:.0f} million events/s")
        if options.device != "cpu":
            print(f"loader's share of a step of 100 ms with {5 * options.batch} frames: {100 * share_of_step(sequences, 100):.1f} %")
    finally:
        for path in paths:
            path.unlink()


if __name__ == "__main__":
    main()
