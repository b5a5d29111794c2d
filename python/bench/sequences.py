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


def frames_a_second(sequences: cusight.torch.SequenceDataset, device: str) -> float:
    """From the first batch of an epoch to its last one; an epoch before warms up."""
    frames, start = 0, 0.0
    for epoch in range(2):
        sequences.set_epoch(epoch)
        for step, batch in enumerate(sequences):
            finish(device)
            frames = step * batch.frames.shape[0] * batch.frames.shape[1]
            start = time.perf_counter() if step == 0 else start
    return frames / (time.perf_counter() - start)


def share_of_step(sequences: cusight.torch.SequenceDataset, step_ms: float) -> float:
    """Of steps that keep the GPU busy for step_ms; between them nothing is queued. The mean from the first batch of an epoch on."""
    cycles = 10_000_000
    for _ in range(3):
        finish("cuda")
        start = time.perf_counter()
        torch.cuda._sleep(cycles)
        finish("cuda")
        cycles = int(cycles * step_ms * 1e-3 / (time.perf_counter() - start))
    sequences.set_epoch(2)
    start = 0.0
    for step, _ in enumerate(sequences):
        start = time.perf_counter() if step == 0 else start
        torch.cuda._sleep(cycles)
        finish("cuda")
    return (time.perf_counter() - start) * 1e3 / ((step + 1) * step_ms) - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--threads", type=int, default=14)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=8.4e6)
    parser.add_argument("--repeat", type=int, default=10, help="times that each file is in an epoch, which should have many steps (default 10)")
    parser.add_argument("--batch", type=int, default=40, help="sequences side by side, of 5 frames each (default 40)")
    options = parser.parse_args()
    paths = write_recordings(options.folder, options.files, options.seconds, options.rate)
    try:
        windows = cusight.torch.EventDataset(
            [str(path) for path in paths] * options.repeat, windows="50ms", representation="stacked_histogram", bins=10, channels_first=True
        )
        sequences = cusight.torch.SequenceDataset(windows, 5, batch=options.batch, device=options.device, threads=options.threads)
        print(sequences)
        rate = frames_a_second(sequences, options.device)
        print(f"{rate:.0f} frames/s, {rate * options.rate * 0.05 / 1e6:.0f} million events/s")
        if options.device != "cpu":
            print(f"loader's share of a step of 100 ms with {5 * options.batch} frames: {100 * share_of_step(sequences, 100):.1f} %")
    finally:
        for path in paths:
            path.unlink()


if __name__ == "__main__":
    main()
