"""Time of cusight.rvt on recordings of the layout and the counts of 1 Mpx's validation split: 18 of 60 s, 21,560 frames of 20 x 360 x 640
in all. Needs h5py; 8 bytes of FOLDER for each event, and 4.6 MB for each frame.

    python3 python/bench/rvt.py FOLDER [--part 0.1] [--processes 16] [--device cpu] [--rate 8.4e6]

--part makes recordings that much shorter. Events are uniform, so that frames hardly become smaller: a second run without compression shows
what of the time compression is."""

import argparse
import shutil
import time
from pathlib import Path

import numpy as np
from recordings import write_recordings

import cusight.rvt

RECORDINGS, SECONDS = 18, 60
BOX = [("t", "<u8"), ("x", "<f4"), ("y", "<f4"), ("w", "<f4"), ("h", "<f4"), ("class_id", "u1"), ("class_confidence", "<f4"), ("track_id", "<u4")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--part", type=float, default=1)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rate", type=float, default=8.4e6)
    options = parser.parse_args()
    source, target, seconds = options.folder / "gen4", options.folder / "gen4-rvt", SECONDS * options.part
    for split in "train", "val", "test":
        (source / split).mkdir(parents=True)
    labels = np.zeros(int(seconds * 60), BOX)
    labels["t"] = np.arange(1, len(labels) + 1) * 1_000_000 // 60
    labels["x"] = labels["y"] = labels["w"] = labels["h"] = 100
    try:
        for path in write_recordings(source / "val", RECORDINGS, seconds, options.rate):
            np.save(path.with_name(path.name.replace("_td.dat", "_bbox.npy")), labels)
        compressed = cusight.rvt._storage
        for name, storage in ("compressed", compressed), ("not compressed", dict):
            cusight.rvt._storage = storage  # type: ignore[assignment]
            start = time.perf_counter()
            frames = cusight.rvt.preprocess(str(source), str(target), "gen4", device=options.device, processes=options.processes)
            elapsed = time.perf_counter() - start
            values = frames * 20 * 360 * 640
            print(f"{name} ({storage()}): {frames} frames, {values / 1e9:.1f} G values, {elapsed:.1f} s, {values / elapsed / 1e9:.2f} G values/s")
            shutil.rmtree(target)
    finally:
        shutil.rmtree(options.folder / "gen4", ignore_errors=True)
        shutil.rmtree(options.folder / "gen4-rvt", ignore_errors=True)


if __name__ == "__main__":
    main()
