"""The data set: one recording or many, windows at given times, labels, frames that are kept."""

from __future__ import annotations

import os
import pickle

import cusight
import cusight.torch
import numpy as np
import pytest

from test_recordings import SHAPE, clean, path, text_of  # noqa: F401  (fixtures)

EventDataset = cusight.torch.EventDataset


@pytest.fixture
def runs(events, tmp_path):
    """Three recordings of different lengths, as text: their paths and events."""
    keep = (events.x < 64) & (events.y < 48)
    inside = cusight.events.Events(*(column[keep] for column in events))
    cuts = [inside, *(cusight.events.Events(*(column[first:last] for column in inside)) for first, last in ((0, 1500), (2000, 4000)))]
    paths = [tmp_path / f"run{k}.txt" for k in range(3)]
    for file, part in zip(paths, cuts):
        file.write_bytes(text_of(part))
    return paths, cuts


def frames_at(events, starts, ends, **options):
    """What windows at these times show, by NumPy."""
    rows = np.stack([np.searchsorted(events.t, starts), np.searchsorted(events.t, ends)], 1)
    return cusight.stack_events(*events, SHAPE, windows=rows, **options)


def array(frame):
    return np.asarray(frame)


# ---- Many recordings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("windows", [700, "9ms", cusight.Windowing(500, 300, keep_incomplete=True)], ids=str)
def test_windows_are_numbered_from_file_to_file(runs, windows):
    paths, parts = runs
    dataset = EventDataset(paths, windows=windows, channels_first=False)
    whole = np.concatenate([cusight.stack_events(part, SHAPE, windows=windows) for part in parts])
    assert len(dataset) == len(whole) and dataset.paths == [str(one) for one in paths]
    for i in [*range(len(whole)), -1, -len(whole)]:
        assert np.array_equal(array(dataset[i]), whole[i]), i
    for i in (len(whole), -len(whole) - 1):
        with pytest.raises(IndexError):
            dataset[i]


def test_patterns_and_lists(runs, tmp_path):
    paths, _ = runs
    listed = EventDataset(paths, windows=700)
    for given in (str(tmp_path / "run*.txt"), [str(tmp_path / "run*.txt")], map(str, paths)):
        dataset = EventDataset(given, windows=700)
        assert dataset.paths == listed.paths and len(dataset) == len(listed)
    (tmp_path / "run[0]").write_bytes(paths[0].read_bytes())  # a name that looks like a pattern
    assert len(EventDataset(tmp_path / "run[0]", windows=700)) == len(EventDataset(paths[0], windows=700))


def test_more_recordings_than_are_kept_open(runs, tmp_path):
    paths = [tmp_path / f"more{k:02}.txt" for k in range(40)]
    for one in paths:
        one.symlink_to(runs[0][1])
    dataset = EventDataset(paths, windows=cusight.Windowing(1000, keep_incomplete=False))
    first = array(dataset[0])
    opened = len(os.listdir("/proc/self/fd"))
    assert all(np.array_equal(array(dataset[i]), first) for i in range(40))
    assert len(os.listdir("/proc/self/fd")) - opened <= 16


def test_recordings_of_different_sizes(runs, tmp_path):
    paths, parts = runs
    (tmp_path / "other.txt").write_bytes(b"32 24\n10 1 1 1\n20 2 2 0\n")
    with pytest.raises(ValueError, match=r"shape is None, expected a size for all: .*other.txt has \(24, 32\), .*run0.txt has \(48, 64\)"):
        EventDataset([paths[0], tmp_path / "other.txt"], windows=2)
    dataset = EventDataset([paths[0], tmp_path / "other.txt"], windows=2, shape=SHAPE, channels_first=False)
    assert array(dataset[-1]).shape == (48, 64, 2) and array(dataset[-1]).sum() == 2


# ---- Windows at given times -----------------------------------------------------------------------------------------------


def test_windows_at_times(path, clean, rng):  # noqa: F811
    starts = rng.integers(-5000, 95_000, 40)
    ends = starts + rng.integers(0, 20_000, 40)
    ends[3] = starts[3]  # no events
    options = {"representation": ["voxel_grid", "histogram"], "bins": 3}
    for arrays in ({"starts": starts, "ends": ends}, {"starts": starts.tolist(), "ends": list(ends / 1e6)}):
        dataset = EventDataset(path, **arrays, channels_first=False, **options)
        assert len(dataset) == 40 and dataset.windows is None
        expected = frames_at(clean, starts, ends, **options)
        for i in range(40):
            assert all(np.array_equal(array(a), b[i]) for a, b in zip(dataset[i], expected)), (i, starts[i], ends[i])


@pytest.mark.parametrize("length", ["7ms", 7000, 0.007, np.int32(7000)], ids=str)
def test_windows_of_one_length(path, clean, rng, length):  # noqa: F811
    times = rng.integers(0, 90_000, 10)
    ended = EventDataset(path, ends=times, length=length, channels_first=False)
    begun = EventDataset(path, starts=times, length=length, channels_first=False)
    for i in range(10):
        assert np.array_equal(array(ended[i]), frames_at(clean, times - 7000, times)[i])
        assert np.array_equal(array(begun[i]), frames_at(clean, times, times + 7000)[i])
    assert len(EventDataset(path, ends=times / 1000, length=7, time_unit="ms")) == 10


def test_windows_at_times_of_many_recordings(runs, rng):
    paths, parts = runs
    ends = [np.sort(rng.integers(part.t[0], part.t[-1], n)) for part, n in zip(parts, (5, 0, 3))]
    labels = [list("abcde"), [], ["x", "y", "z"]]
    dataset = EventDataset(paths, ends=ends, length="5ms", labels=labels, channels_first=False)
    assert len(dataset) == 8
    expected = [frame for part, times in zip(parts, ends) for frame in frames_at(part, times - 5000, times)]
    for i, label in enumerate("abcdexyz"):
        frame, given = dataset[i]
        assert given == label and np.array_equal(array(frame), expected[i])


# ---- Labels ----------------------------------------------------------------------------------------------------------------


def test_labels(runs):
    paths, _ = runs
    plain = EventDataset(paths[0], windows=700)
    boxes = np.arange(len(plain) * 4).reshape(-1, 4)
    one = EventDataset(paths[0], windows=700, labels=boxes)
    for i in (0, len(one) - 1, -1):
        frame, label = one[i]
        assert np.array_equal(array(frame), array(plain[i])) and np.array_equal(label, boxes[i])
    counts = [len(EventDataset(file, windows=700)) for file in paths]
    for labels in (["cat", "dog", "cow"], np.array([3, 1, 4]), [np.float32(3), np.array(1), [7] * counts[2]]):
        many = EventDataset(paths, windows=700, labels=labels)
        expected = [label for label, count in zip(labels, counts) for label in ([label] * count if np.ndim(label) == 0 else label)]
        assert [many[i][1] for i in range(len(many))] == expected
    copy = pickle.loads(pickle.dumps(many))
    assert copy[2][1] == many[2][1] and np.array_equal(array(copy[2][0]), array(many[2][0]))


# ---- Frames that are kept --------------------------------------------------------------------------------------------------


@pytest.fixture
def reads(monkeypatch):
    """Counts the windows that are read."""
    counted = []
    read = cusight.torch._read
    monkeypatch.setattr(cusight.torch, "_read", lambda *arguments: counted.append(arguments) or read(*arguments))
    return counted


BOTH = {"representation": ["histogram", cusight.Representation("voxel_grid", 2)], "windows": 700, "channels_first": False}


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_frames_are_made_once(runs, reads, tmp_path, kind):
    paths, _ = runs
    plain = EventDataset(paths, **BOTH)
    expected = [[array(f).copy() for f in plain[i]] for i in range(len(plain))]
    reads.clear()
    kept = EventDataset(paths, cache=1 << 30 if kind == "memory" else tmp_path / "kept" / "frames", **BOTH)
    for turn in range(3):
        for i in range(len(kept)):
            frames = kept[i]
            assert all(np.array_equal(array(a), b) for a, b in zip(frames, expected[i]))
            for frame in frames:  # belongs to whoever asked
                frame[:] = 7
        assert len(reads) == len(kept)
    again = pickle.loads(pickle.dumps(kept))
    assert np.array_equal(array(again[1][0]), expected[1][0])
    assert len(reads) == len(kept) + (kind == "memory")


def test_memory_is_limited(runs, reads):
    paths, _ = runs
    size = 48 * 64 * 2
    dataset = EventDataset(paths[0], windows=700, cache=2 * size + 5)
    for i, new in [(0, 1), (1, 1), (0, 0), (2, 1), (0, 0), (1, 1), (2, 1), (1, 0)]:  # the least recently used goes
        reads.clear()
        dataset[i]
        assert len(reads) == new, i
    small = EventDataset(paths[0], windows=700, cache=size - 1)
    reads.clear()
    small[0], small[0]
    assert len(reads) == 2


def test_a_folder_knows_what_its_frames_show(runs, reads, tmp_path):
    paths, parts = runs
    folder = str(tmp_path / "kept")
    options = [
        {"windows": 700},
        {"windows": 701},
        {"windows": "7ms"},
        {"windows": 700, "representation": "mdes"},
        {"windows": 700, "representation": "mdes", "bins": 3},
        {"windows": 700, "shape": (40, 60)},
        {"windows": 700, "skip_bad": True},
        {"starts": [0], "ends": [5000]},
        {"starts": [0], "ends": [5001]},
    ]
    for turn in range(2):
        reads.clear()
        for one in options:
            assert np.array_equal(array(EventDataset(paths[0], cache=folder, **one)[0]), array(EventDataset(paths[0], **one)[0]))
        assert len(reads) == len(options) * (2 - turn)
    paths[0].write_bytes(text_of(parts[2]))
    assert np.array_equal(array(EventDataset(paths[0], cache=folder, **options[0])[0]), array(EventDataset(paths[0], **options[0])[0]))
    assert not [name for name in os.listdir(folder) if not name.endswith(".npy")]


# ---- What is refused -------------------------------------------------------------------------------------------------------

WRONG = [
    # options, exception, part of the message
    ({"starts": [1]}, ValueError, "windows is given by starts, expected two of starts, ends and length"),
    ({"length": "5ms"}, ValueError, "windows is given by length, expected two of"),
    ({"starts": [1], "ends": [2], "length": 5}, ValueError, "windows is given by starts, ends, length, expected two of"),
    ({"starts": [1], "ends": [2], "windows": 700}, ValueError, "windows is 700, expected None with starts, ends and length"),
    ({"starts": [1, 5], "ends": [2]}, ValueError, "ends is 1 times, expected 2 like starts"),
    ({"starts": [1, 5], "ends": [2, 4]}, ValueError, "ends[1] is 4 us, expected at least its start, 5 us"),
    ({"starts": [1.0, np.nan], "ends": [2, 4]}, ValueError, "starts[1] is nan, expected seconds"),
    ({"starts": [[1]], "ends": [2]}, ValueError, "starts has shape (1, 1), expected one axis"),
    ({"starts": ["now"], "ends": [2]}, TypeError, "starts has elements of format"),
    ({"starts": 5, "ends": [2]}, TypeError, "starts is int, expected an array"),
    ({"ends": [2], "length": "5 parsecs"}, ValueError, "length is '5 parsecs', expected a duration such as '50ms' or a number"),
    ({"ends": [2], "length": 0}, ValueError, "length is 0, expected a duration"),
    ({"ends": [2], "length": True}, TypeError, "length is True, expected a duration"),
    ({"ends": [2], "length": [5]}, TypeError, "length is list, expected a duration"),
    ({"ends": [2], "length": 5, "time_unit": "h"}, ValueError, "time_unit is 'h', expected us, ms, s or ns"),
    ({"windows": 700, "labels": [1, 2]}, ValueError, "labels is a list of 2, expected"),
    ({"windows": 0}, ValueError, "windows is 0"),
    ({"cache": 0}, ValueError, "cache is 0, expected at least 1"),
    ({"cache": True}, TypeError, "cache is True, expected a folder or a number of bytes"),
    ({"cache": 1.5}, TypeError, "cache is 1.5, expected a folder or a number of bytes"),
    ({"representation": "hologram"}, ValueError, "kind is 'hologram'"),
    ({"shape": (0, 5)}, ValueError, "shape is (0, 5)"),
]


@pytest.mark.parametrize("options, kind, words", WRONG, ids=[w[2][:40].replace(" ", "-") for w in WRONG])
def test_what_is_wrong_is_named(runs, options, kind, words):
    with pytest.raises(cusight.Error) as caught:
        EventDataset(runs[0][0], **options)
    assert isinstance(caught.value, kind) and words in str(caught.value), str(caught.value)


def test_what_is_wrong_in_one_of_many(runs, tmp_path):
    paths, _ = runs
    for options, words in [
        ({"starts": [[1], [2]], "ends": [[1], [2], [3]]}, "starts is a list of 2, expected 3, one for each file"),
        ({"starts": [[1], [2, 3], [3]], "ends": [[1], [2], [3]]}, "ends of run1.txt is 1 times, expected 2 like starts"),
        ({"starts": [[1], [2], [0, 3]], "ends": [[1], [2], [3, 1]]}, "ends of run2.txt[1] is 1 us, expected at least its start, 3 us"),
        ({"ends": [[1], [np.nan], [3]], "length": 1}, "ends of run1.txt[0] is nan"),
        ({"labels": "abc", "windows": 700}, "labels is 'abc', expected a list with one for each of 3 files"),
        ({"labels": [1, 2, [3]], "windows": 700}, "labels is a list of 1, expected 3, one for each window of"),
    ]:
        with pytest.raises(cusight.Error) as caught:
            EventDataset(paths, **options)
        assert words in str(caught.value), str(caught.value)
    for given, words in [([], "at least one file"), (tmp_path / "no*.txt", "at least one file"), (5, "paths is 5, expected a path")]:
        with pytest.raises(cusight.Error, match=words):
            EventDataset(given)
    with pytest.raises(FileNotFoundError, match="none.txt is not a file"):
        EventDataset([paths[0], tmp_path / "none.txt"])


def test_a_data_loader_takes_labels(runs):
    torch = pytest.importorskip("torch")
    paths, _ = runs
    dataset = EventDataset(paths, windows=700, labels=[0, 1, 2])
    loader = torch.utils.data.DataLoader(dataset, batch_size=3, num_workers=2)
    frames, labels = zip(*loader)
    assert torch.equal(torch.cat(frames), torch.stack([dataset[i][0] for i in range(len(dataset))]))
    assert torch.cat(labels).tolist() == [dataset[i][1] for i in range(len(dataset))]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32, list], ids=str)
def test_windows_by_numbers_of_events(path, clean, dtype):  # noqa: F811
    rows = np.array([[0, 300], [200, 900], [400, 400], [len(clean.t) - 5, len(clean.t)], [10, 20]])
    expected = cusight.stack_events(*clean, SHAPE, windows=rows.tolist())
    given = rows.tolist() if dtype is list else rows.astype(dtype)
    assert np.array_equal(cusight.stack_events(*clean, SHAPE, windows=given), expected)
    dataset = EventDataset(path, windows=given, channels_first=False, labels=list("abcde"))
    assert len(dataset) == 5 and dataset.windows is None
    assert all(np.array_equal(array(dataset[i][0]), expected[i]) for i in range(5)) and dataset[3][1] == "d"


def test_windows_by_numbers_of_events_of_many_recordings(runs, tmp_path):
    paths, parts = runs
    rows = [[(0, 100), (50, 60)], [], np.array([[7, 9]])]
    rows[1] = np.zeros((0, 2), int)
    for options in ({}, {"cache": str(tmp_path / "cache")}, {"cache": 1 << 20}):
        dataset = EventDataset(paths, windows=rows, channels_first=False, **options)
        expected = [frame for part, of_file in zip(parts, rows) for frame in cusight.stack_events(*part, SHAPE, windows=np.asarray(of_file, int))]
        assert len(dataset) == 3 and all(np.array_equal(array(dataset[i]), expected[i]) for i in (0, 1, 2, 0))
    for wrong, words in [
        ([rows[0]] * 2, "windows is a list of 2, expected 3, one for each file"),
        ([rows[0], [(0, 1.5)], rows[2]], "windows of run1.txt is an array of shape (1, 2), float64, expected (n, 2) integers"),
        ([rows[0], [(5, 4)], rows[2]], "windows of run1.txt[0] is 5, 4, expected first <= last, from 0"),
        ([rows[0], [(-1, 4)], rows[2]], "windows of run1.txt[0] is -1, 4, expected first <= last, from 0"),
    ]:
        with pytest.raises(ValueError) as caught:
            EventDataset(paths, windows=wrong)
        assert words in str(caught.value)


def test_windows_past_the_end(path, clean):  # noqa: F811
    n = len(clean.t)
    with pytest.raises(ValueError, match=rf"EventDataset: windows\[1\] is 5, {n + 1}, expected at most {n}, the events of .*"):
        EventDataset(path, windows=[(0, n), (5, n + 1)])[1]
