"""RVT's preprocessing: labels, the times of frames, and a small folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cusight import rvt

BOX = np.dtype(
    {
        "names": ["t", "x", "y", "w", "h", "class_id", "track_id", "class_confidence"],
        "formats": ["<i8", "<f4", "<f4", "<f4", "<f4", "<u4", "<u4", "<f4"],
        "offsets": [0, 8, 12, 16, 20, 24, 28, 32],
        "itemsize": 40,
    }
)


def boxes(*rows: tuple[float, ...]) -> Any:
    made = np.zeros(len(rows), BOX)
    for i, (t, x, y, w, h, *kind) in enumerate(rows):
        made[i] = (t, x, y, w, h, kind[0] if kind else 0, 0, 1)
    return made


def test_boxes_are_clipped_and_small_ones_dropped() -> None:
    labels = boxes((1, -10, 5, 60, 40), (1, 300, 5, 60, 60), (1, 5, 5, 9, 60), (1, 5, 5, 290, 60), (1, 5, 5, 20, 20))
    kept = rvt.select_labels(labels, rvt.DATASETS["gen1"], training=False)
    assert kept["x"].tolist() == [0, 5] and kept["w"].tolist() == [50, 290]  # the diagonal of the last is below 30
    assert rvt.select_labels(labels, rvt.DATASETS["gen1"], training=True)["w"].tolist() == [50]
    large = boxes((1, 5, 5, 20, 20, 2), (1, 5, 5, 20, 20, 3), (1, 5, 5, 4, 20, 0))
    assert rvt.select_labels(large, rvt.DATASETS["gen4"], training=True)["class_id"].tolist() == [2]


def test_frames_end_at_labels() -> None:
    used, ends = rvt.frame_times(np.array([50_000, 260_000, 511_000, 600_000, 1_010_500]), "gen1")
    assert used.tolist() == [260_000, 511_000, 1_010_500]
    assert ends[:5].tolist() == [60_000, 110_000, 160_000, 210_000, 260_000]
    assert set(used) <= set(ends) and len(ends) == 5 + 2 + 4
    with pytest.raises(ValueError, match="no label at or after 100000 us"):
        rvt.frame_times(np.array([99_999]), "gen1")
    with pytest.raises(ValueError, match="50 times a second, expected 30 or 60"):
        rvt.frame_times(np.arange(10) * 20_000 + 100_000, "gen4")


def test_labels_are_regular_files(tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "a_td.dat").touch()
    labels = tmp_path / "train" / "a_bbox.npy"
    os.mkfifo(labels)
    with pytest.raises(ValueError, match="expected a regular file"):  # a pipe would wait for ever
        rvt.preprocess(str(tmp_path), str(tmp_path / "out"))
    labels.unlink()
    with open(labels, "wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(ValueError, match="expected a file of at most 1073741824 bytes, not 1073741825"):
        rvt.preprocess(str(tmp_path), str(tmp_path / "out"))


def test_folder(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    generator = np.random.default_rng(1)
    rows, cols = rvt.DATASETS["gen1"].shape
    for split in ("train", "val", "test"):
        (tmp_path / "in" / split).mkdir(parents=True)
        np.save(tmp_path / "in" / split / "a_bbox.npy", boxes((300_000, 5, 5, 50, 50), (550_000, 5, 5, 50, 50)))
        with h5py.File(tmp_path / "in" / split / "a_td.h5", "w") as file:
            x, y = generator.integers(0, cols, 9000), generator.integers(0, rows, 9000)
            x[::3], y[::3] = 7, 9
            p, t = generator.integers(0, 2, 9000), np.sort(generator.integers(0, 700_000, 9000))
            for name, column, kind in (("x", x, "u2"), ("y", y, "u2"), ("p", p, "u1"), ("t", t, "i8")):
                file[f"events/{name}"] = column.astype(kind)
    assert rvt.preprocess(str(tmp_path / "in"), str(tmp_path / "out")) == 3 * 7
    assert rvt.preprocess(str(tmp_path / "in"), str(tmp_path / "out")) == 0  # they exist
    made = tmp_path / "out" / "test" / "a" / "event_representations_v2" / "stacked_histogram_dt=50_nbins=10"
    ends = np.load(made / "timestamps_us.npy")
    assert np.load(made / "objframe_idx_2_repr_idx.npy").tolist() == [4, 6]
    assert sorted(os.listdir(made)) == ["event_representations.h5", "objframe_idx_2_repr_idx.npy", "timestamps_us.npy"]
    with h5py.File(made / "event_representations.h5") as file:
        frames = file["data"][:]
    assert frames.shape == (7, 20, rows, cols) and frames.dtype == np.uint8
    for end, frame in zip(ends, frames):  # x, y, p, t are those of the last split
        inside = (t >= end - 50_000) & (t <= end)
        times = t[inside]
        bins = np.minimum((times - times[0]) * 10 // max(times[-1] - times[0], 1), 9)
        expected = np.zeros((20, rows, cols), int)
        np.add.at(expected, (p[inside] * 10 + bins, y[inside], x[inside]), 1)
        assert (frame == np.minimum(expected, 10)).all()


def test_folder_without_recordings(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a folder with train, val and test"):
        rvt.sequences(str(tmp_path))
    for split in ("train", "val", "test"):
        (tmp_path / split).mkdir()
    np.save(tmp_path / "val" / "b_bbox.npy", boxes())
    with pytest.raises(ValueError, match="b_td.h5"):
        rvt.sequences(str(tmp_path))
