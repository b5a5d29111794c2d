"""cusight.ray: the callable classes on batches, and whole pipelines on a local Ray cluster of two CPU workers."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import cusight
import cusight._spans
import cusight.ray
import numpy as np
import pytest

SHAPE = (48, 64)
DEVICES = ["cpu", "cuda"]


@pytest.fixture(params=DEVICES)
def device(request):
    if request.param == "cuda":
        if not cusight.device_count():
            pytest.skip("there is no GPU")
        if not any(importlib.util.find_spec(name) for name in ("torch", "cupy")):
            pytest.skip("neither torch nor cupy is installed")
    return request.param


@pytest.fixture
def clean(events):
    """Events inside the sensor."""
    keep = (events.x < 64) & (events.y < 48)
    return cusight.events.Events(*(a[keep] for a in events))


def write_text(path, events):
    lines = [f"{t} {x} {y} {p}" for x, y, p, t in zip(*events)]
    path.write_text("64 48\n" + "\n".join(lines) + "\n")


def write(path, events):
    with cusight.events.EventWriter(path, SHAPE, chunk=1024) as writer:
        writer.write(*events)


# ---- Windows of a part of a recording --------------------------------------------------------------------------------------

CUTS = [
    cusight.Windowing(length, stride, unit, keep)
    for unit, lengths in (("count", (700, 4000, 9000)), ("duration", (300, 7000, 200_000)))
    for length in lengths
    for stride in (0, length // 2, length * 3)
    for keep in (False, True)
]


@pytest.mark.parametrize("cut", CUTS, ids=lambda c: f"{c.unit}-{c.length}-{c.stride}-{c.keep_incomplete}")
@pytest.mark.parametrize("form", ["indexed", "text"])
def test_windows_of_a_part(cut, form, clean, tmp_path, monkeypatch):
    monkeypatch.setattr(cusight._spans, "_PIECE", 97)
    monkeypatch.setattr(cusight._spans, "_BLOCK", 500)
    gap = clean.t.copy()
    gap[2500:] += 40_000  # windows without events
    events = clean._replace(t=gap)
    path = tmp_path / form
    (write if form == "indexed" else write_text)(path, events)
    whole = cusight.event_windows(events.t, windows=cut)
    with cusight.events.open(path) as recording:
        parts = [(0, None), (0, 2)]
        if recording.format == "M3ED":
            parts += [(1, 3), (2, None), (3, 3), (len(whole), None)]
        for first, end in parts:
            found = []
            for part in cusight._spans.cut_windows(recording, cut, first, end):
                assert part.window == first + len(found)
                found += zip(part.firsts, part.lengths)
                ends = np.cumsum(part.lengths)
                for low, n, stop in zip(part.firsts, part.lengths, ends):
                    for column, expected in zip(part.events, events):
                        assert np.array_equal(column[stop - n : stop], expected[low : low + n]) and column.dtype == expected.dtype
            assert [n for _, n in found] == [int(b - a) for a, b in whole[first:end]]
            assert [at for at, n in found if n] == [int(a) for a, b in whole[first:end] if b > a]


# ---- The callable classes, without Ray ---------------------------------------------------------------------------------------


def rows_of(events, windows, **more):
    columns = {}
    for name, column in zip("xypt", events):
        columns[name] = np.empty(len(windows), object)
        for i, (first, last) in enumerate(windows):
            columns[name][i] = column[first:last]
    return {"window": np.arange(len(windows)), **columns, **more}


def test_stack_events(device, clean):
    windows = cusight.event_windows(clean.t, windows="9ms")
    n = len(windows)
    whole = cusight.stack_events(*clean, SHAPE, windows="9ms", representation="voxel_grid", bins=3)
    make = cusight.ray.StackEvents(representation="voxel_grid", bins=3, device=device)
    batch = rows_of(clean, windows, rows=np.full(n, 48), cols=np.full(n, 64))
    for _ in range(2):
        made = make(batch)
        assert set(made) == {"window", "rows", "cols", "frames"} and made["frames"].dtype == np.float32
        assert np.array_equal(made["frames"], whole)
    both = cusight.ray.StackEvents((20, 30), ["histogram", cusight.Representation("mdes", 4)], device=device, keep=True)(batch)
    expected = cusight.stack_events(*clean, (20, 30), windows="9ms", representation=["histogram", cusight.Representation("mdes", 4)])
    assert all(np.array_equal(both[f"frames_{i}"], expected[i]) for i in range(2)) and both["x"] is batch["x"]


def test_stack_events_of_several_sensors(clean):
    windows = np.array([[0, 900], [900, 900], [900, 2000]])
    batch = rows_of(clean, windows, rows=np.array([48, 20, 48]), cols=np.array([64, 30, 64]))
    frames = cusight.ray.StackEvents(device="cpu")(batch)["frames"]
    for frame, (first, last), shape in zip(frames, windows, [SHAPE, (20, 30), SHAPE]):
        assert np.array_equal(frame, cusight.stack_events(*clean, shape, windows=np.array([[first, last]]))[0])


def test_heatmap_match_and_contour(device, rng):
    images = rng.integers(0, 256, (4, 40, 50, 3), dtype=np.uint8)
    batch = {"prev": images[:3], "image": images[1:], "frame": np.arange(3)}
    made = cusight.ray.Heatmap(full_scale=300, device=device)(batch)
    assert set(made) == {"frame", "heatmap"}
    assert np.array_equal(made["heatmap"], [cusight.heatmap(a, b, full_scale=300) for a, b in zip(images, images[1:])])
    templates = [images[2, 5:15, 6:20].copy(), images[3, 7:17, 1:15].copy()]
    made = cusight.ray.Match(templates, method="sqdiff", max_matches=2, score_limit=0, device=device)(batch)
    assert made["x"].tolist() == [[[-1, -1]] * 2, [[6, -1], [-1, -1]], [[-1, -1], [1, -1]]]
    assert made["y"][1, 0, 0] == 5 and made["score"][2, 1, 0] == 0 and np.isnan(made["score"][0]).all()
    one = cusight.ray.Match(templates[0], device=device, keep=True)(batch)
    assert one["x"].shape == (3, 1) and one["x"][1, 0] == 6 and one["image"] is batch["image"]
    for kind in (np.uint8, np.float32):
        left = images[..., 0] if kind == np.uint8 else images[..., 0].astype(np.float32) / 255
        options = cusight.StereoOptions(shifts=8)
        made = cusight.ray.Contour(options=options, device=device)({"left": left[:2], "right": left[1:3]})
        with cusight.ContourMapper((40, 50), options, dtype=np.dtype(kind).name) as mapper:
            for i in range(2):
                elevation, contours = mapper(left[i].copy(), left[i + 1].copy())
                assert np.array_equal(made["elevation"][i], elevation) and np.array_equal(made["contours"][i], contours)


def test_contour_finds_the_range_of_each_pair(device, rng):
    right = rng.integers(0, 256, (40, 160), dtype=np.uint8)
    left = [np.roll(right, shift, 1) for shift in (5, 60, 5)]
    made = cusight.ray.Contour(device=device)({"left": left, "right": [right] * 3})
    assert [int(np.median(one)) - 1 for one in made["elevation"]] == [5, 60, 5]


def test_bad_arguments(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="columns is 'x, y', expected one named p"):
        cusight.ray.StackEvents(device="cpu")({"x": [], "y": []})
    with pytest.raises(ValueError, match="expected one named image"):
        cusight.ray.Match(np.zeros((2, 2), np.uint8), device="cpu")({})
    with pytest.raises(ValueError, match="expected one named prev"):
        cusight.ray.Heatmap(device="cpu")({"image": []})
    with pytest.raises(ValueError, match="shape is"):
        cusight.ray.StackEvents((3,), device="cpu")
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match="StackEvents: device is 'cuda:1', which needs PyTorch or CuPy"):
        cusight.ray.StackEvents(device="cuda:1")
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.data", None)
    for read in (cusight.ray.read_recordings, cusight.ray.read_videos):
        with pytest.raises(ImportError, match=r"needs Ray Data: pip install 'cusight\[ray\]'"):
            read(tmp_path / "a.h5")


# ---- On a cluster ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    import ray.data

    context = ray.init(
        num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False, logging_level="error", object_store_memory=100 << 20
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield context
    ray.shutdown()


def pool(**options):
    import ray.data

    return {"compute": ray.data.ActorPoolStrategy(size=1), "num_cpus": 0.25, **options}


def test_recordings_with_a_worker_killed(cluster, clean, tmp_path):
    """The frames are those of `stack_events`, although a worker is killed in the middle."""
    import ray.data

    write(tmp_path / "a.h5", clean)
    write_text(tmp_path / "b.txt", clean)
    died = tmp_path / "died"

    class Dying(cusight.ray.StackEvents):
        calls = 0

        def __call__(self, batch):
            self.calls += 1
            result = super().__call__(batch)
            if self.calls == 3 and not died.exists():
                died.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            return {**result, "pid": np.full(len(batch["window"]), os.getpid())}

    windows = cusight.Windowing(500, 300, keep_incomplete=True)
    dataset = cusight.ray.read_recordings([tmp_path / "a.h5", str(tmp_path / "*.txt")], windows=windows, windows_per_task=3)
    frames = dataset.map_batches(
        Dying,
        fn_constructor_kwargs={"representation": "voxel_grid", "bins": 3},
        batch_size=2,
        compute=ray.data.ActorPoolStrategy(size=2),
    )
    rows = frames.take_all()
    assert int(died.read_text()) not in {row["pid"] for row in rows}
    whole = cusight.stack_events(*clean, SHAPE, windows=windows, representation="voxel_grid", bins=3)
    listed = cusight.event_windows(clean.t, windows=windows)
    for name in ("a.h5", "b.txt"):
        mine = sorted((row for row in rows if row["path"] == str(tmp_path / name)), key=lambda row: row["window"])
        assert [row["window"] for row in mine] == list(range(len(whole)))
        assert [row["first"] for row in mine] == [int(first) for first, _ in listed]
        assert all(row["rows"] == 48 and row["cols"] == 64 for row in mine)
        assert np.array_equal([row["frames"] for row in mine], whole)
    assert len(rows) == 2 * len(whole)


@pytest.mark.parametrize("windows", [700, "9ms"], ids=str)
def test_frames(cluster, clean, tmp_path, windows):
    """Two workers make what one process makes."""
    write(tmp_path / "a.h5", clean)
    write_text(tmp_path / "b.txt", clean)
    kinds = ["histogram", cusight.Representation("voxel_grid", 3)]
    rows = cusight.ray.read_frames(tmp_path / "*.*", windows=windows, representation=kinds, shards=5, device="cpu").take_all()
    whole = cusight.stack_events(*clean, SHAPE, windows=windows, representation=kinds)
    listed = cusight.event_windows(clean.t, windows=windows)
    assert len(rows) == 2 * len(listed)
    for name in ("a.h5", "b.txt"):
        mine = sorted((row for row in rows if row["path"] == str(tmp_path / name)), key=lambda row: row["window"])
        assert [row["window"] for row in mine] == list(range(len(listed)))
        assert [(row["first"], row["last"]) for row in mine] == [(int(a), int(b)) for a, b in listed]
        for k, frames in enumerate(whole):
            assert np.array_equal([row[f"frames_{k}"] for row in mine], frames)
    one = cusight.ray.read_frames(tmp_path / "b.txt", windows=windows, shape=(50, 70)).take_all()
    assert one[0]["frames"].shape[:2] == (50, 70) and len(one) == len(listed)


def test_videos(cluster, rng, tmp_path):
    cv2 = pytest.importorskip("cv2", reason="OpenCV's Python module is not installed")
    written = rng.integers(0, 256, (6, 6, 8, 3), dtype=np.uint8).repeat(8, 1).repeat(8, 2)
    path = tmp_path / "a.avi"
    video = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 25, (64, 48))
    for frame in written:
        video.write(frame)
    video.release()
    reader = cv2.VideoCapture(str(path))
    frames = [reader.read()[1] for _ in written]
    template = frames[3][8:24, 16:40].copy()
    gray = lambda batch: {**batch, "left": batch["image"][..., 0], "right": batch["prev"][..., 0]}  # noqa: E731
    dataset = cusight.ray.read_videos(tmp_path / "*.avi", pairs=True).map_batches(gray)
    dataset = dataset.map_batches(cusight.ray.Match, fn_constructor_args=(template,), fn_constructor_kwargs={"keep": True}, **pool())
    dataset = dataset.map_batches(cusight.ray.Heatmap, **pool())
    rows = dataset.map_batches(cusight.ray.Contour, **pool()).take_all()
    rows.sort(key=lambda row: row["frame"])
    assert [row["frame"] for row in rows] == [1, 2, 3, 4, 5]
    for row in rows:
        prev, image = frames[row["frame"] - 1 : row["frame"] + 1]
        assert np.array_equal(row["heatmap"], cusight.heatmap(prev, image))
        with cusight.ContourMapper((48, 64)) as mapper:
            elevation, contours = mapper(image[..., 0].copy(), prev[..., 0].copy())
        assert np.array_equal(row["elevation"], elevation) and np.array_equal(row["contours"], contours)
    assert (rows[2]["x"][0], rows[2]["y"][0], rows[2]["score"][0]) == (16, 8, 1)


def test_bad_files(cluster, clean, tmp_path):
    with pytest.raises(FileNotFoundError, match="read_recordings: .*none.h5 is not a file"):
        cusight.ray.read_recordings(tmp_path / "none.h5")
    with pytest.raises(ValueError, match="expected at least one file"):
        cusight.ray.read_recordings(tmp_path / "*.h5")
    with pytest.raises(ValueError, match="windows_per_task is 0"):
        cusight.ray.read_recordings(tmp_path, windows_per_task=0)
    with pytest.raises(ValueError, match="read_frames: shards is 0, expected at least 1"):
        cusight.ray.read_frames(Path(__file__), shards=0)
    bad = tmp_path / "bad.txt"
    bad.write_text("64 48\n10 1 1 1\n20 1 1 1\n30 one 1 1\n")
    with pytest.raises(ValueError, match="bad.txt|cusEventReaderRead"):
        cusight.ray.read_recordings(bad, windows=1).take_all()
    with pytest.raises(ValueError, match="line 4"):
        cusight.ray.read_frames(bad, windows=1).take_all()


def test_example(cluster):
    example = Path(__file__).parent.parent / "examples" / "ray_pipeline.py"
    environment = {**os.environ, "RAY_ADDRESS": cluster.address_info["address"]}
    done = subprocess.run([sys.executable, str(example)], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "square1.txt: 10 windows" in done.stdout and "square2.txt: 10 windows" in done.stdout
