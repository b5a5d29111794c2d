"""Frames of many recordings on all machines of a Ray cluster, one row a window.

    python ray_pipeline.py runs/*.h5 --windows 10ms --gpus 8 --output frames/
    python ray_pipeline.py                      # two small recordings made from a moving square, on this machine

Needs `pip install cusight[ray]`. Ray connects to the cluster that RAY_ADDRESS names, or starts one on this machine. Each GPU worker asks
for a whole GPU; with --gpus 0 the CPU does the work. A worker that dies is replaced, and its batch is made again.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from pathlib import Path
from typing import Any

import cusight
import cusight.ray
import numpy as np
import ray
import ray.data


def make_recording(path: Path, speed: int) -> None:
    """Events of a bright square that moves to the right, as text."""
    rows, cols = 96, 128
    lines = [f"{cols} {rows}"]
    with cusight.events.EventGenerator((rows, cols)) as generator:
        for step in range(40):
            frame = np.full((rows, cols), 40, np.uint8)
            frame[30:60, step * speed : step * speed + 30] = 200
            events = generator.push(frame, step * 5000)
            lines += [f"{t} {x} {y} {p}" for x, y, p, t in zip(*events)]
    path.write_text("\n".join(lines) + "\n")


def summarize(batch: Any) -> Any:
    """What a training step would go in place of: how much moved in each window."""
    frames = batch["frames"]
    activity = [float(np.abs(frame).sum()) for frame in frames]
    return {"path": batch["path"], "window": batch["window"], "activity": np.array(activity)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="*")
    parser.add_argument("--windows", default="20ms", help="length of a window (default 20ms)")
    parser.add_argument("--gpus", type=int, default=0, help="workers with a GPU each (default 0: CPU)")
    parser.add_argument("--output", help="write the frames here, as Parquet")
    options = parser.parse_args()
    ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        paths = options.recordings
        if not paths:
            paths = [str(Path(folder) / f"square{speed}.txt") for speed in (1, 2)]
            for speed, path in enumerate(paths, 1):
                make_recording(Path(path), speed)
        windows = cusight.ray.read_recordings(paths, windows=options.windows)
        frames = windows.map_batches(
            cusight.ray.StackEvents,
            fn_constructor_kwargs={"representation": "voxel_grid", "bins": 5},
            batch_size=16,
            num_gpus=1 if options.gpus else 0,
            compute=ray.data.ActorPoolStrategy(size=options.gpus or 1),
        )
        if options.output:
            frames.write_parquet(options.output)
            return 0
        rows = frames.map_batches(summarize).take_all()
    rows.sort(key=lambda row: (row["path"], row["window"]))  # rows come as they are ready
    for path in paths:
        mine = [row["activity"] for row in rows if row["path"] == str(Path(path).absolute())]
        print(f"{Path(path).name}: {len(mine)} windows, mean activity {np.mean(mine):.1f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
