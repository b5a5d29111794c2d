"""Prophesee's automotive data sets (Gen1, 1 Mpx) in the layout that RVT, recurrent vision transformers, trains from.

    python -m cusight.rvt gen1/ gen1-rvt/ --dataset gen1 --processes 8

INPUT has the folders train, val and test, with NAME_bbox.npy and the recording NAME_td.dat, NAME_td.dat.h5 or NAME_td.h5 of each
sequence. OUTPUT gets labels, times, and stacked histograms of the 50 ms before each time, one every 50 ms up to the last label. It is
what RVT's own script makes, except that counts which pass 255 stay there, and that events whose time decreases are left out.
NumPy and h5py must be installed; frames are compressed as RVT's if hdf5plugin is, else with LZF.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterator

from . import events as _events
from ._errors import choice, invalid
from ._files import regular

if TYPE_CHECKING:
    from ._types import I64, Hits, Numbers

__all__ = ["DATASETS", "DataSet", "frame_times", "preprocess", "select_labels", "sequences"]

STEP = 50_000  # microseconds from a frame to the next, and that a frame covers
BINS, CUTOFF = 10, 10
_FIRST_LABEL = 100_000  # labels before are not used
_JITTER = 2_000  # of the times of labels
_BATCH = 20  # frames made together


@dataclass(frozen=True)
class DataSet:
    """What differs between the data sets: the sensor, which boxes count, and the size of frames."""

    shape: tuple[int, int]
    least_side: float  # pixels of a box
    least_diagonal: float
    classes: int | None  # the first so many; None: all
    halve: bool  # frames take every other row and column


DATASETS = {
    "gen1": DataSet((240, 304), 10, 30, None, False),
    "gen4": DataSet((720, 1280), 5, 0, 3, True),
}

# Their labels are all dropped by RVT's filters, so it leaves these out.
_WITHOUT_LABELS = {
    "17-04-06_09-57-37_6344500000_6404500000",
    "17-04-13_19-17-27_976500000_1036500000",
    "17-04-06_15-14-36_1159500000_1219500000",
    "17-04-11_15-13-23_122500000_182500000",
}


# ---- Labels -----------------------------------------------------------------------------------------------------------------


def select_labels(labels: Hits, data_set: DataSet, training: bool) -> Hits:
    """The boxes that count, clipped to the sensor. Boxes that span nine tenths of it are wrong and left out of training."""
    import numpy as np

    rows, cols = data_set.shape
    boxes = labels.copy()
    if data_set.classes is not None:
        boxes = boxes[boxes["class_id"] < data_set.classes]
    left, top = np.clip(boxes["x"], 0, cols - 1), np.clip(boxes["y"], 0, rows - 1)
    right = np.clip(boxes["x"] + boxes["w"], 0, cols - 1)
    bottom = np.clip(boxes["y"] + boxes["h"], 0, rows - 1)
    boxes["x"], boxes["y"], boxes["w"], boxes["h"] = left, top, right - left, bottom - top
    keep = (boxes["w"] > 0) & (boxes["h"] > 0) & (boxes["w"] >= data_set.least_side) & (boxes["h"] >= data_set.least_side)
    keep &= boxes["w"] ** 2 + boxes["h"] ** 2 >= data_set.least_diagonal**2
    if training:
        keep &= boxes["w"] <= 9 * cols // 10
    return boxes[keep]


def _label_period(times: Any, name: str) -> int:
    """Microseconds between the labels that are used: 250 ms of Gen1, about 100 ms of the others."""
    import numpy as np

    if name == "gen1":
        return 250_000
    middle = float(np.median(np.diff(times)))
    rate = round(1e6 / middle)
    if rate not in (30, 60):
        raise ValueError(f"rvt: labels come {rate} times a second, expected 30 or 60")
    return int((6 if rate == 60 else 3) * middle)


def frame_times(times: Numbers, name: str) -> tuple[I64, I64]:
    """The times of labels that are used, and the times at which frames end, of which these are some.

    times: sorted, without repetition. From one label to the next that is a whole number of periods later (up to 2 ms more or less),
    frames divide the time evenly, two for each period; before the first they come every 50 ms.
    """
    import numpy as np

    period = _label_period(times, name)
    first = int(np.searchsorted(times, _FIRST_LABEL))
    if first == len(times):
        raise ValueError(f"rvt: no label at or after {_FIRST_LABEL} us")
    used, parts = [int(times[first])], []
    for time in times[first + 1 :]:
        gap = int(time) - used[-1]
        periods = round(gap / period)
        if abs(gap - periods * period) <= _JITTER:
            used.append(int(time))
            parts.append(2 * periods)
    ends = [int(t) for t in np.arange(used[0] - STEP, 0, -STEP)[::-1]][1:] + [used[0]]
    for start, end, count in zip(used, used[1:], parts):
        ends += np.linspace(start, end, count + 1).astype(np.int64)[1:].tolist()
    return np.asarray(used, np.int64), np.asarray(ends, np.int64)


def _save_labels(folder: str, boxes: Any, used: Any) -> None:
    import numpy as np

    os.makedirs(folder, exist_ok=True)
    starts, ends = np.searchsorted(boxes["t"], used, "left"), np.searchsorted(boxes["t"], used, "right")
    listed = np.concatenate([boxes[a:b] for a, b in zip(starts, ends)])
    firsts = np.concatenate([[0], np.cumsum(ends - starts)[:-1]]).astype(np.int64)
    np.savez(os.path.join(folder, "labels.npz"), labels=listed, objframe_idx_2_label_idx=firsts)
    np.save(os.path.join(folder, "timestamps_us.npy"), used)


# ---- Frames -----------------------------------------------------------------------------------------------------------------


def _frames(recording: _events.Recording, shape: tuple[int, int], ends: Any, device: str) -> Iterator[Any]:
    """Stacked histograms of [end - STEP, end], (channels, rows, cols), negative events first."""
    import numpy as np

    kind = _events.Representation("stacked_histogram", BINS, swap_channels=True, cutoff=CUTOFF)
    with _events.EventStacker(shape, kind, device=device) as stacker:
        for i in range(0, len(ends), _BATCH):
            some = ends[i : i + _BATCH]
            last = recording.seek(int(some[-1]) + 1)
            first = recording.seek(max(int(some[0]) - STEP, 0))
            x, y, p, t = recording.read(last - first) if last > first else (np.empty(0, d) for d in ("u2", "u2", "u1", "i8"))
            windows = np.stack([np.searchsorted(t, some - STEP, "left"), np.searchsorted(t, some, "right")], 1)
            if device != "cpu":
                import cupy

                x, y, p, t = (cupy.asarray(column) for column in (x, y, p, t))
            frames: Any = stacker(x, y, p, t, windows=windows)
            yield from (frames if device == "cpu" else frames.get()).transpose(0, 3, 1, 2)


def _storage() -> dict[str, Any]:
    try:
        import hdf5plugin
    except ImportError:
        return {"compression": "lzf"}
    return dict(hdf5plugin.Blosc(cname="zstd", clevel=1, shuffle=hdf5plugin.Blosc.SHUFFLE))


def _save_frames(path: str, recording: str, data_set: DataSet, ends: Any, device: str) -> None:
    import h5py

    rows, cols = (side // 2 if data_set.halve else side for side in data_set.shape)
    unfinished = path + ".unfinished"
    with _events.open(recording, shape=data_set.shape, skip_bad=True) as source:
        with h5py.File(unfinished, "w") as file:
            frame = (2 * BINS, rows, cols)
            out = file.create_dataset("data", (len(ends), *frame), "uint8", chunks=(1, *frame), maxshape=(None, *frame), **_storage())
            for i, values in enumerate(_frames(source, data_set.shape, ends, device)):
                out[i] = values[:, 1 : 2 * rows : 2, 1 : 2 * cols : 2] if data_set.halve else values
    os.replace(unfinished, path)


def _one(labels: str, recording: str, target: str, name: str, training: bool, device: str) -> int:
    """Makes a sequence; the number of its frames, 0 if it has no labels or was made before."""
    import numpy as np

    data_set = DATASETS[name]
    histograms = os.path.join(target, "event_representations_v2", f"stacked_histogram_dt={STEP // 1000}_nbins={BINS}")
    path = os.path.join(histograms, f"event_representations{'_ds2_nearest' if data_set.halve else ''}.h5")
    boxes = select_labels(np.load(regular("rvt", labels, 1 << 30)), data_set, training)
    if not len(boxes) or os.path.exists(path):
        return 0
    used, ends = frame_times(np.unique(boxes["t"].astype(np.int64)), name)
    _save_labels(os.path.join(target, "labels_v2"), boxes, used)
    os.makedirs(histograms, exist_ok=True)
    np.save(os.path.join(histograms, "objframe_idx_2_repr_idx.npy"), np.searchsorted(ends, used))
    np.save(os.path.join(histograms, "timestamps_us.npy"), ends)
    _save_frames(path, recording, data_set, ends, device)
    return len(ends)


# ---- A folder ---------------------------------------------------------------------------------------------------------------


def sequences(source: str) -> list[tuple[str, str, str, bool]]:
    """The labels, the recording, the name below the target and whether it is for training, of each sequence in a folder."""
    found = []
    for split in ("train", "val", "test"):
        folder = os.path.join(source, split)
        if not os.path.isdir(folder):
            raise invalid("rvt", "source", source, "a folder with train, val and test")
        for file in sorted(os.listdir(folder)):
            name = file[: -len("_bbox.npy")]
            if not file.endswith("_bbox.npy") or name in _WITHOUT_LABELS:
                continue
            recordings = [os.path.join(folder, name + ending) for ending in ("_td.h5", "_td.dat.h5", "_td.dat")]
            recording = next((path for path in recordings if os.path.exists(path)), None)
            if recording is None:
                raise invalid("rvt", "source", source, f"a recording such as {recordings[0]}")
            found.append((os.path.join(folder, file), recording, os.path.join(split, name), split == "train"))
    return found


def preprocess(source: str, target: str, dataset: str = "gen1", *, device: str = "cpu", processes: int = 1) -> int:
    """Makes all sequences of a folder that do not exist yet. Returns the number of frames.

    dataset: "gen1" or "gen4" (1 Mpx). device: where frames are made; on "cuda" CuPy must be installed.
    """
    choice("rvt", "dataset", dataset, {name: 0 for name in DATASETS})
    jobs = [(labels, recording, os.path.join(target, to), dataset, training, device)
            for labels, recording, to, training in sequences(source)]
    if processes == 1:
        return sum(_one(*job) for job in jobs)
    with ProcessPoolExecutor(processes) as pool:
        return sum(pool.map(_one, *zip(*jobs))) if jobs else 0


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m cusight.rvt", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", metavar="INPUT")
    parser.add_argument("target", metavar="OUTPUT")
    parser.add_argument("--dataset", choices=sorted(DATASETS), default="gen1")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--processes", type=int, default=1, help="sequences made at the same time")
    a = parser.parse_args(arguments)
    print(f"{preprocess(a.source, a.target, a.dataset, device=a.device, processes=a.processes)} frames")
    return 0


if __name__ == "__main__":
    sys.exit(main())
