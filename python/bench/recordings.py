"""Recordings of 1280 x 720 pixels for measurements, in folders that need 8 bytes for each event."""

from pathlib import Path

import numpy as np


def write_recordings(folder: Path, files: int, seconds: float, rate: float) -> list[Path]:
    count = int(seconds * rate)
    random = np.random.default_rng(1)
    words = np.empty((count, 2), np.uint32)
    words[:, 0] = np.linspace(0, seconds * 1e6, count, endpoint=False)
    words[:, 1] = random.integers(1280, size=count) | random.integers(720, size=count) << 14 | random.integers(2, size=count) << 28
    paths = [folder / f"{k}_td.dat" for k in range(files)]
    for path in paths:
        with open(path, "wb") as file:
            file.write(b"% Data file containing Event2D events.\n% Version 2\n% Height 720\n% Width 1280\n" + bytes([12, 8]))
            words.tofile(file)
    return paths
