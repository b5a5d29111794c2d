"""Sequences of windows for recurrent networks: which windows come, equal frames, workers, resuming, and RVT's data sets."""

from __future__ import annotations

import importlib.util
import pickle
from types import SimpleNamespace

import cusight
import cusight.datasets
import cusight.torch
import numpy as np
import pytest
from cusight import rvt

from test_datasets import clean, dsec  # noqa: F401  (fixtures)
from test_rvt import boxes

SHAPE = (48, 64)
TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture
def paths(tmp_path, clean):
    """9, 18 and 4 windows of 5 ms."""
    made = []
    for number, end in enumerate((45_000, 90_000, 20_000)):
        made.append(tmp_path / f"{number}.h5")
        keep = clean.t < end
        with cusight.events.EventWriter(made[-1], SHAPE) as writer:
            writer.write(*(column[keep] for column in clean))
    return made


@pytest.fixture
def windows(paths):
    starts = [np.arange(0, end, 5000) for end in (45_000, 90_000, 20_000)]
    labels = [[f"{file}.{k}" if (k + file) % 3 == 0 else None for k in range(len(of))] for file, of in enumerate(starts)]
    return cusight.torch.EventDataset(paths, starts=starts, length="5ms", labels=labels)


def plan(dataset, **options):
    """The labels of each lane's steps, "." for windows without, "-" where there is none; "*" where a sequence begins."""
    lanes = None
    for batch in dataset:
        lanes = lanes or [[] for _ in batch.first]
        for lane, into in enumerate(lanes):
            shown = [row[lane] or ("-" if batch.padded[i, lane] else ".") for i, row in enumerate(batch.labels)]
            into.append(("*" if batch.first[lane] else "") + " ".join(shown))
    return lanes


def test_streams(windows):
    dataset = cusight.torch.SequenceDataset(windows, length=4, batch=2)
    assert len(dataset) == 5
    assert plan(dataset) == [
        ["*0.0 . . 0.3", ". . 0.6 .", ". - - -", "*. . 1.2 .", "- - - -"],
        ["*. 1.5 . .", "1.8 . . 1.11", ". . 1.14 .", ". 1.17 - -", "*. 2.1 . ."],
    ]
    (nothing,) = cusight.torch.SequenceDataset(windows, length=40, rank=0, world_size=4)  # of three recordings the first rank has none
    assert bool(nothing.padded.all()) and not bool(nothing.frames.any())
    ranks = [plan(cusight.torch.SequenceDataset(windows, length=4, rank=rank, world_size=2))[0] for rank in (0, 1)]
    assert ranks == plan(dataset)  # the lanes are dealt to the processes
    assert repr(dataset) == "SequenceDataset(3 recordings, 31 windows, 4 x 2, cpu)"
    assert repr(next(iter(dataset))) == "SequenceBatch(epoch=0, step=0, 4 frames of 2 sequences)"


def test_random_sequences(windows):
    dataset = cusight.torch.SequenceDataset(windows, length=4, batch=3, sampling="random")
    ends = [lane.split()[-1] for step in zip(*plan(dataset)) for lane in step]
    assert ends == ["0.3", "0.6", "1.5", "1.8", "1.11", "1.14", "1.17", "-", "-"]
    assert [[bool(one) for one in batch.first] for batch in dataset] == [[True] * 3, [True] * 3, [True, False, False]]
    orders = []
    for seed, epoch in (1, 0), (1, 1), (1, 0), (2, 0):
        shuffled = cusight.torch.SequenceDataset(windows, length=4, batch=3, sampling="random", shuffle=True, seed=seed)
        shuffled.set_epoch(epoch)
        orders.append([lane.split()[-1] for step in zip(*plan(shuffled)) for lane in step])
        assert sorted(orders[-1]) == sorted(ends)
    assert orders[0] == orders[2] and len({tuple(one) for one in orders}) == 3
    plain = cusight.torch.EventDataset(windows.paths, windows="5ms")  # without labels each window is an end
    assert sum(len(b.first) for b in cusight.torch.SequenceDataset(plain, 4, sampling="random")) == len(plain) - 3 * 3


def test_shuffled_streams_have_whole_recordings(windows):
    dataset = cusight.torch.SequenceDataset(windows, length=4, shuffle=True)
    seen = set()
    for epoch in range(9):
        dataset.set_epoch(epoch)
        (lane,) = plan(dataset)
        firsts = [k for k, step in enumerate(lane) if step[0] == "*"]
        parts = [tuple(lane[a:b]) for a, b in zip(firsts, [*firsts[1:], None])]
        assert set(parts) == {tuple(part) for part in (
            ["*0.0 . . 0.3", ". . 0.6 .", ". - - -"],
            ["*. . 1.2 .", ". 1.5 . .", "1.8 . . 1.11", ". . 1.14 .", ". 1.17 - -"], ["*. 2.1 . ."],
        )}  # fmt: skip
        seen.add(tuple(parts))
    assert len(seen) > 2


KINDS = {
    "one": {"windows": "5ms", "representation": "voxel_grid", "bins": 3},
    "by count": {"windows": cusight.Windowing(400, stride=150), "representation": "mdes"},
    "two": {"windows": "4ms", "representation": ["event_diff", "time_surface"], "channels_first": False},
    "changed": {"windows": "5ms", "transform": lambda frame: frame[:, ::2] * 2},
}


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_frames_are_the_data_sets(paths, options, device):
    if device == "cuda" and not (TORCH and cusight.device_count()):
        pytest.skip("there is no GPU, or no PyTorch")
    windows = cusight.torch.EventDataset(paths[1], **options)
    dataset = cusight.torch.SequenceDataset(windows, length=3, batch=2, device=device, threads=3)
    empty = cusight.torch.EventDataset(paths[1], **{**options, "windows": [(0, 0)]})[0]
    empty = empty if isinstance(empty, list) else [empty]
    found: list = [[], []]
    for batch in dataset:
        each = batch.frames if isinstance(batch.frames, list) else [batch.frames]
        assert all(one.shape[:2] == (3, 2) for one in each) and (not TORCH or each[0].is_cuda == (device == "cuda"))
        for i in range(3):
            for lane in range(2):
                frames = [np.asarray(one[i, lane].cpu() if TORCH else one[i, lane]) for one in each]
                if batch.padded[i, lane]:
                    assert all(np.array_equal(a, np.asarray(b)) for a, b in zip(frames, empty, strict=True))
                else:
                    found[lane].append(frames)
    assert len(found[0]) + len(found[1]) == len(windows)
    for frames, expected in zip(found[0] + found[1], (windows[i] for i in range(len(windows)))):
        expected = expected if isinstance(expected, list) else [expected]
        assert all(np.array_equal(a, np.asarray(b)) for a, b in zip(frames, expected, strict=True))


def same(a, b):
    return (a.labels, a.epoch, a.step) == (b.labels, b.epoch, b.step) and all(
        bool((x == y).all()) for x, y in ((a.frames, b.frames), (a.first, b.first), (a.padded, b.padded))
    )


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_workers_and_resuming(windows, workers):
    options = {"length": 4, "batch": 2, "sampling": "random", "shuffle": True, "seed": 5}
    dataset = cusight.torch.SequenceDataset(windows, **options)
    dataset.set_epoch(3)
    whole = list(dataset)
    assert len(whole) == len(dataset) == 4
    if workers:
        torch = pytest.importorskip("torch")
        loader = lambda of: torch.utils.data.DataLoader(of, batch_size=None, num_workers=workers)
        assert all(map(same, whole, loader(dataset))) and len(loader(dataset)) == 4
    else:
        loader = iter
    for after in range(4):
        again = cusight.torch.SequenceDataset(windows, **options)
        again.load_state_dict(pickle.loads(pickle.dumps(dataset.state_dict(whole[after]))))
        rest = list(loader(again))
        assert len(rest) == 3 - after and all(map(same, whole[after + 1 :], rest))
        assert again.state_dict() == dataset.state_dict(whole[after])
    again.set_epoch(3)
    assert all(map(same, whole, again))
    other = cusight.torch.SequenceDataset(windows, **{**options, "length": 3})
    with pytest.raises(ValueError, match="SequenceDataset: state is .*, expected .* the options and windows of this data set"):
        other.load_state_dict(dataset.state_dict())


def test_steps_of_a_worker(windows, monkeypatch):
    """As DataLoader takes them, in turn; here without PyTorch."""
    dataset = cusight.torch.SequenceDataset(windows, length=4)
    dataset.load_state_dict({**dataset.state_dict(), "step": 2})
    steps = []
    for worker in range(3):
        info = SimpleNamespace(id=worker, num_workers=3)
        stand_in = SimpleNamespace(utils=SimpleNamespace(data=SimpleNamespace(get_worker_info=lambda info=info: info)))
        monkeypatch.setattr(cusight.torch, "_torch", stand_in)
        monkeypatch.setattr(cusight.torch.SequenceDataset, "_made", lambda self, frames, read, lanes, epoch, step: step)
        monkeypatch.setattr(cusight.torch.SequenceDataset, "_read", lambda self, *lane: None)
        steps.append(list(dataset))
    assert steps == [[2, 5, 8], [3, 6], [4, 7]]


def test_errors(windows, tmp_path):
    make, small = cusight.torch.SequenceDataset, cusight.torch.EventDataset(windows.paths, shape=(9, 9))
    for call, error in [
        (lambda: make([], 3), "dataset is list, expected an EventDataset, or a list of them"),
        (lambda: make(windows, 0), "length is 0, expected at least 1"),
        (lambda: make(windows, 3, rank=2, world_size=2), "rank is 2, expected at most 1"),
        (lambda: make(windows, 3, sampling="both"), "sampling is 'both', expected stream or random"),
        (lambda: make([windows, small], 3), r"expected \(48, 64\), channels_first and transform as of the first"),
    ]:
        with pytest.raises((TypeError, ValueError), match=error):
            call()
    (tmp_path / "bad.txt").write_text("64 48\n1000 1 1 1\n2000 2 2 0\n3000 3 3 x\n")
    damaged = cusight.torch.EventDataset(tmp_path / "bad.txt", starts=[0, 2500], length="2ms")
    with pytest.raises(ValueError, match="line 4, byte 28, is not"):
        list(make(damaged, 1))


def test_dsec_with_maps(dsec):  # noqa: F811
    pytest.importorskip("cv2")
    parts = [cusight.datasets.DSEC(dsec[0], "disparity", bins=3, rectify=rectify) for rectify in (True, False)]
    batches = list(cusight.torch.SequenceDataset(parts, length=1, batch=2))
    assert len(batches) == len(parts[0])
    for k, batch in enumerate(batches):
        for lane, part in enumerate(parts):
            frame, disparity = part[k]
            assert np.array_equal(batch.frames[0, lane], frame) and np.array_equal(batch.labels[0][lane], disparity, equal_nan=True)
    assert not np.array_equal(batches[0].frames[0, 0], batches[0].frames[0, 1])


@pytest.mark.parametrize("name", ["gen1", "gen4"])
def test_frames_are_those_of_preprocessing(tmp_path, name, rng):
    h5py = pytest.importorskip("h5py")
    rows, cols = rvt.DATASETS[name].shape
    period = 250_000 if name == "gen1" else 33_333
    for split in ("train", "val", "test"):
        (tmp_path / "in" / split).mkdir(parents=True)
    for number in range(2 if name == "gen1" else 1):
        labels = [(300_000 + k * period, 5, 5, 50 + k, 50) for k in range(2 if name == "gen1" else 10)]
        np.save(tmp_path / "in" / "val" / f"{number}_bbox.npy", boxes(*labels))
        x, y, p = (rng.integers(0, end, 9000) for end in (cols, rows, 2))
        t = np.sort(rng.integers(0, 700_000, 9000))
        t[4000:4010] = t[4000]  # several at the same time, also where a window ends
        t[100:110] = 300_000 - 50_000 * 3
        with h5py.File(tmp_path / "in" / "val" / f"{number}_td.h5", "w") as file:
            for column, values, kind in (("x", x, "u2"), ("y", y, "u2"), ("p", p, "u1"), ("t", np.sort(t), "i8")):
                file[f"events/{column}"] = values.astype(kind)
    assert rvt.preprocess(str(tmp_path / "in"), str(tmp_path / "out"), name)
    windows = cusight.datasets.Prophesee(tmp_path / "in", "val", dataset=name)
    dataset = cusight.torch.SequenceDataset(windows, length=4)
    batches = list(dataset)
    start = 0
    for number in range(len(windows.paths)):
        made = next((tmp_path / "out" / "val" / str(number) / "event_representations_v2").iterdir())
        with h5py.File(next(made.glob("*.h5"))) as file:
            expected = file["data"][:]
        listed = np.load(made.parents[1] / "labels_v2" / "labels.npz")["labels"]
        steps = batches[start : start + -(-len(expected) // 4)]
        start += len(steps)
        frames = np.concatenate([np.asarray(batch.frames)[:, 0] for batch in steps])
        assert np.array_equal(frames[: len(expected)], expected) and not frames[len(expected) :].any() and expected.any()
        found = [row[0] for batch in steps for row in batch.labels]
        assert np.array_equal(np.concatenate([one for one in found if one is not None]), listed)
        places = np.load(made / "objframe_idx_2_repr_idx.npy").tolist()
        assert [k for k, one in enumerate(found) if one is not None] == places
        assert [bool(batch.first[0]) for batch in steps] == [True] + [False] * (len(steps) - 1)
    assert start == len(batches)
    assert len(pickle.loads(pickle.dumps(windows))) == len(windows)
