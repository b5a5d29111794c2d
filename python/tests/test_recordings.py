"""Recordings: reading, writing, frames in batches, pipelines and the data set."""

from __future__ import annotations

import pickle

import cusight
import cusight.torch
import numpy as np
import pytest

SHAPE = (48, 64)


@pytest.fixture
def clean(events):
    """Events inside the sensor."""
    keep = (events.x < 64) & (events.y < 48)
    return cusight.events.Events(*(a[keep] for a in events))


def text_of(events):
    lines = [f"{t} {x} {y} {p}" for x, y, p, t in zip(*events)]
    return ("64 48\n" + "\n".join(lines) + "\n").encode()


@pytest.fixture(params=["hdf5", "text"])
def path(request, clean, tmp_path):
    file = tmp_path / request.param
    if request.param == "text":
        file.write_bytes(text_of(clean))
        return file
    with cusight.events.EventWriter(file, SHAPE, chunk=1024) as writer:
        writer.write(*(a[:2000] for a in clean))
        writer.write(*(a[2000:] for a in clean))
    return file


def same(a, b):
    return all(np.array_equal(m, n) and m.dtype == n.dtype for m, n in zip(a, b))


def test_reading_and_seeking(path, clean):
    with cusight.events.open(path) as recording:
        assert recording.shape == SHAPE and recording.format in ("M3ED", "text")
        assert same(recording.read(10_000), clean)
        assert len(recording.read(1).t) == 0
        middle = int(clean.t[2500])
        index = recording.seek(middle)
        assert index == np.searchsorted(clean.t, middle)
        assert same(recording.read(7), [a[index : index + 7] for a in clean])
        recording.seek_index(100)
        assert same(next(iter(recording)), [a[100:] for a in clean])
        assert recording.counts().events == len(clean.t) - 100
        recording.seek(10**9)
        assert len(recording.read(5).t) == 0
        copy = pickle.loads(pickle.dumps(recording))
    assert same(copy.read(10_000), clean)
    if recording.format == "M3ED":
        assert len(recording) == recording.count == len(clean.t)
        assert (recording.first_time, recording.last_time) == (clean.t[0], clean.t[-1])
    else:
        with pytest.raises(TypeError):
            len(recording)


def test_reading_into_arrays(path, clean):
    out = cusight.events.Events(*(np.full(len(a) + 5, 7, a.dtype) for a in clean))
    with cusight.events.open(path) as recording:
        some = recording.read(100, out=cusight.events.Events(*(a[10:110] for a in out)))
        assert same(some, [a[:100] for a in clean]) and same([a[10:110] for a in out], some)
        assert all((a[:10] == 7).all() and (a[110:] == 7).all() for a in out)
        rest = recording.read(out=out)
        assert same(rest, [a[100:] for a in clean]) and all(np.shares_memory(m, n) for m, n in zip(rest, out))
        with pytest.raises(ValueError, match=r"Recording.read: x has shape .*, expected \(3,\)"):
            recording.read(3, out=out)
        with pytest.raises(ValueError, match="Recording.read: count is 0, expected at least 1"):
            recording.read(out=cusight.events.Events(*(a[:0] for a in out)))
        with pytest.raises(TypeError, match="Recording.read: p "):
            recording.read(out=out._replace(p=out.p.astype("f4")))


def test_triggers(path):
    words = [10 << 28, 8 << 28 | 10]  # a trigger before the first time word has no time
    for i in range(70_000):
        words += [1 << 28 | (i & 63) << 22 | 5 << 11 | 7, 10 << 28 | (i & 63) << 22 | 3 << 8 | i & 1, 8 << 28 | 10 + i]
    data = b"% evt 2.0\n% geometry 64x48\n% end\n" + np.array(words, "<u4").tobytes()
    with cusight.events.open(data, skip_bad=True) as recording:
        recording.read(1000)
        triggers = recording.triggers
        assert repr(triggers).startswith("Triggers(70,000 triggers, 640 .. ")
        assert triggers.t.dtype == np.int64 and triggers.id.dtype == np.int16 and triggers.value.dtype == np.uint8
        i = np.arange(70_000)
        assert np.array_equal(triggers.t, np.maximum(10 + i - 1, 10) << 6 | i & 63)
        assert np.all(triggers.id == 3) and np.array_equal(triggers.value, i & 1)
        assert recording.triggers is triggers and len(recording.read(1000).t) == 1000
    with cusight.events.open(path) as recording:
        assert len(recording.triggers.t) == 0 and repr(recording.triggers) == "Triggers(0 triggers)"
    with cusight.events.open(data + b"x") as recording:
        with pytest.raises(EOFError, match="ends at byte"):
            recording.triggers


@pytest.mark.parametrize(
    "windows",
    [700, "7ms", cusight.Windowing(500, 300, keep_incomplete=True), cusight.Windowing(9000, 4000, "duration", True)],
    ids=str,
)
def test_frames_are_those_of_the_whole(path, clean, windows):
    whole = cusight.stack_events(*clean, SHAPE, windows=windows, representation="voxel_grid", bins=3)
    with cusight.events.open(path) as recording:
        frames = recording.frames(windows=windows, representation="voxel_grid", bins=3, batch=4)
        for _ in range(2):
            batches = list(frames)
            assert [len(b) for b in batches[:-1]] == [4] * (len(batches) - 1)
            assert np.array_equal(np.concatenate(batches), whole)
        if recording.count is not None:
            assert frames.windows == len(whole) and len(frames) == len(batches)
        part = recording.frames(windows=windows, representation="voxel_grid", bins=3, first_window=2, end_window=5)
        assert np.array_equal(np.concatenate(list(part)), whole[2:5])
        described = list(frames.batches())
        assert [b.first for b in described] == list(range(0, len(whole), 4))
        assert np.array_equal(np.concatenate([b.windows for b in described]), cusight.event_windows(clean.t, windows=windows))


@pytest.mark.parametrize("windows", [700, "7ms", cusight.Windowing(500, 300)], ids=str)
def test_shards_are_the_whole(path, clean, windows):
    whole = cusight.stack_events(*clean, SHAPE, windows=windows)
    with cusight.events.open(path) as recording:
        parts = [recording.frames(windows=windows, shard=(i, 3), batch=4) for i in range(3)]
        assert all(part.windows is None for part in parts)
        assert np.array_equal(np.concatenate([batch for part in parts for batch in part]), whole)
        with pytest.raises(ValueError, match="shard is 3, expected less than shards, 3"):
            list(recording.frames(windows=windows, shard=(3, 3)))


def test_shard_of_a_launcher(path, monkeypatch):
    with cusight.events.open(path) as recording:
        with pytest.raises(ValueError, match="no launcher has started this process"):
            recording.frames(shard="auto")
        monkeypatch.setenv("PMI_RANK", "1")
        monkeypatch.setenv("PMI_SIZE", "3")
        firsts = [
            [batch.first for batch in recording.frames(windows=100, shard=shard).batches()] for shard in ("auto", (1, 3))
        ]
        assert firsts[0] == firsts[1]
        for wrong in ((1,), "some", 3):
            with pytest.raises((ValueError, TypeError), match=r'shard is .*expected \(I, N\) or "auto"'):
                recording.frames(shard=wrong)


def test_frames_from_a_time(path, clean):
    start = int(clean.t[2000])
    first = int(np.searchsorted(clean.t, start))
    rest = [a[first:] for a in clean]
    with cusight.events.open(path) as recording:
        for windows in (600, "5ms"):
            whole = cusight.stack_events(*rest, SHAPE, windows=windows)
            frames = recording.frames(windows=windows).seek(start)
            assert np.array_equal(np.concatenate(list(frames)), whole)
            if recording.count is not None:
                assert frames.windows == len(whole)


def test_frames_in_several_representations(path, clean):
    both = ["histogram", cusight.Representation("mdes", 4)]
    whole = cusight.stack_events(*clean, SHAPE, windows=900, representation=both)
    with cusight.events.open(path) as recording:
        batches = list(recording.frames(windows=900, representation=both, batch=3))
    for i in range(2):
        assert np.array_equal(np.concatenate([b[i] for b in batches]), whole[i])


def test_recordings_in_memory(clean):
    source = text_of(clean)
    recording = cusight.events.open(memoryview(source))
    del source
    assert same(recording.read(10_000), clean)
    assert same(pickle.loads(pickle.dumps(recording)).read(10_000), clean)


def test_bad_recordings(tmp_path, clean):
    with pytest.raises(FileNotFoundError) as caught:
        cusight.events.open(tmp_path / "none.h5")
    assert caught.value.status is cusight.Status.IO
    with pytest.raises(OSError):
        cusight.events.open(tmp_path)
    (tmp_path / "wrong").write_bytes(b"\x00\x01\x02 no recording")
    with pytest.raises(cusight.Error) as caught:
        cusight.events.open(tmp_path / "wrong")
    assert isinstance(caught.value, ValueError) and caught.value.status is cusight.Status.FORMAT
    damaged = text_of([a[:100] for a in clean]) + b"x y z\n"
    recording = cusight.events.open(damaged)
    assert len(recording.read(1000).t) == 100
    with pytest.raises(ValueError):
        recording.read(1000)
    assert len(cusight.events.open(damaged, skip_bad=True).read(1000).t) == 100
    for wrong in ({"format": "AVI"}, {"threads": -1}, {"width": -3}, {"max_memory": 5}):
        with pytest.raises(ValueError):
            cusight.events.open(damaged, **wrong)
    with pytest.raises(ValueError):
        recording.read(0)


def test_writers_leave_whole_files_only(tmp_path, clean):
    path = tmp_path / "run.h5"
    with pytest.raises(KeyError):
        with cusight.events.EventWriter(path, SHAPE) as writer:
            writer.write(*clean)
            raise KeyError
    assert list(tmp_path.iterdir()) == []
    writer = cusight.events.EventWriter(path, SHAPE)
    with pytest.raises(ValueError):
        writer.write(clean.x + 64, clean.y, clean.p, clean.t)
    with pytest.raises(ValueError):
        writer.write(clean.x, clean.y, clean.p, None)
    writer.write(*clean)
    writer.finish()
    with pytest.raises(ValueError, match="closed"):
        writer.write(*clean)
    assert same(cusight.events.open(path).read(10_000), clean)
    with cusight.events.FrameWriter(tmp_path / "frames.h5", (48, 64, 2), "uint8") as frames:
        frames.write(cusight.stack_events(*clean, SHAPE, windows=1000))
        with pytest.raises(cusight.Error):
            frames.write(np.zeros((1, 48, 64, 3), np.uint8))
        with pytest.raises(ValueError):
            frames.write(np.zeros((1, 24, 64, 2), np.uint8))
    assert (tmp_path / "frames.h5").stat().st_size > 1000


@pytest.mark.parametrize("format, name", [("M3ED", "a.h5"), ("Metavision", "a.hdf5"), ("EVT2", "2.raw"), ("EVT3", "3.raw"), ("DAT", "a.dat"), ("text", "a.txt"), ("text", "a.csv")])
def test_each_format_keeps_the_events(tmp_path, clean, format, name):
    with cusight.events.EventWriter(tmp_path / name, SHAPE, format=format) as writer:
        writer.write(*clean)
    with cusight.events.open(tmp_path / name) as recording:
        assert recording.format == format
        assert recording.shape == tuple(SHAPE)
        assert same(recording.read(10_000), clean)


def test_formats_that_are_not_written(tmp_path):
    for wrong in ({"format": "EVT4"}, {"format": "any?"}, {"format": "DSEC"}, {"compress": "lzma"}):
        with pytest.raises(ValueError, match="format is|compress is"):
            cusight.events.EventWriter(tmp_path / "w", SHAPE, **wrong)
    with pytest.raises(ValueError, match="expected 1..2048"):
        cusight.events.EventWriter(tmp_path / "w", (10, 4000), format="EVT3")
    assert list(tmp_path.iterdir()) == []


def test_pipeline(clean):
    batches = []
    with cusight.EventPipeline(SHAPE, "mdes", batches.append, windows=1000, max_events=4000) as pipeline:
        for first in range(0, len(clean.t), 333):
            pipeline.push(*(a[first : first + 333] for a in clean))
        pipeline.flush()
        counts = pipeline.counts()
    whole = cusight.stack_events(*clean, SHAPE, windows=1000, representation="mdes")
    assert np.array_equal(np.concatenate([b.frames for b in batches]), whole)
    assert (counts.events, counts.windows, counts.skipped) == (len(clean.t), len(whole), 0)


def test_exceptions_of_a_sink_come_out_of_push(clean):
    def sink(batch):
        raise KeyError("stop here")

    pipeline = cusight.EventPipeline(SHAPE, "mdes", sink, windows=1000)
    with pytest.raises(KeyError, match="stop here"):
        pipeline.push(*clean)
        pipeline.flush()
    with pytest.raises(cusight.Error):
        pipeline.flush()


def test_a_sink_must_not_call_its_pipeline(clean):
    pipeline = cusight.EventPipeline(SHAPE, "mdes", lambda batch: pipeline.flush(), windows=1000)
    with pytest.raises(ValueError, match="in use by another call"):
        pipeline.push(*clean)
        pipeline.flush()


def test_windows_with_too_many_events(clean):
    with cusight.EventPipeline(SHAPE, "mdes", print, windows="50ms", max_events=100) as pipeline:
        with pytest.raises(cusight.Error) as caught:
            pipeline.push(*(a[:400] for a in clean))
            pipeline.push(*(a[400:] for a in clean))
        assert caught.value.status is cusight.Status.CAPACITY


def test_windows_without_events():
    def pushed(gap, **options):
        batches, cut = [], cusight.Windowing(1000, unit="duration", keep_incomplete=False)
        with cusight.EventPipeline(SHAPE, "histogram", batches.append, windows=cut, **options) as pipeline:
            pipeline.push([0, 0], [0, 0], [1, 1], [0, gap])
            pipeline.flush()
        return sum(map(len, batches))

    assert pushed(1_001_500) == 1001
    with pytest.raises(ValueError, match="1001 windows in a row have no events") as caught:
        pushed(1_002_500)
    assert caught.value.status is cusight.Status.CAPACITY
    assert pushed(1_002_500, max_gap=1001) == 1002


def test_header_that_is_no_text():
    with cusight.events.open(b"% evt 3.0\n% plugin_name \x9bx\n% end\n\0\x80\1 ") as recording:
        assert recording.camera == "\\x9bx"


def test_generator():
    with cusight.events.EventGenerator((10, 12)) as generator:
        dark, bright = np.full((10, 12), 50, np.uint8), np.full((10, 12), 100, np.uint8)
        assert len(generator.push(dark, 0).t) == 0
        made = generator.push(bright, 1000)
    assert len(made.t) == 120 * 3 and made.p.all() and (np.diff(made.t) >= 0).all()


def test_generator_run(space, rng):
    frames = rng.integers(0, 256, (5, 10, 12), np.uint8)
    times = np.arange(5) * 1000
    options = {"threshold_spread": 0.03, "refractory_us": 300, "leak_rate": 20, "leak_jitter": 0.1, "shot_rate": 100, "seed": 7}
    with cusight.events.EventGenerator((10, 12), device=space.device, **options) as generator:
        made = [space.get(column) for column in generator.run(space.put(frames), times)]
    with cusight.events.EventGenerator((10, 12), **options) as generator:
        pushed = [generator.push(frame, int(time)) for frame, time in zip(frames, times)]
    for column, parts in zip(made, zip(*pushed)):
        assert np.array_equal(column, np.concatenate(parts))
    with cusight.events.EventGenerator((10, 12), **{**options, "seed": 8}) as generator:
        first, second = generator.run(frames, times), generator.run(frames[:1], np.array([5000]))
        assert len(first.t) and not np.array_equal(first.t, made[3]) and len(second.t) and second.t[-1] <= 5000


# ---- What is lost --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [True, False])
def test_fewer_events_than_a_window(path, clean, kept):
    """One frame by default, from arrays and recordings alike; none on request."""
    cut = 200_000 if kept else cusight.Windowing(keep_incomplete=False)
    by_time = "100s" if kept else cusight.Windowing(100_000_000, unit="duration", keep_incomplete=False)
    for windows in (cut, by_time):
        whole = cusight.stack_events(*clean, SHAPE, windows=windows)
        assert len(whole) == kept == len(cusight.event_windows(clean.t, windows=windows))
        opened = cusight.events.open(path)
        made = list(opened.frames(windows=windows))
        assert len(made) == kept and (not kept or np.array_equal(made[0], whole))
        assert len(cusight.torch.EventDataset(path, windows=windows)) == kept
    if kept:
        assert whole.sum() == len(clean.t)
        assert np.array_equal(cusight.stack_events(*clean, SHAPE), whole) and len(list(cusight.events.open(path).frames())) == 1


def test_rows_and_columns_exchanged(path, clean, recwarn):
    """A warning at the caller's line if most events lie outside the frame, and none otherwise."""
    x = np.minimum(clean.x, 9)
    narrow, wrong = cusight.events.Events(x, clean.y, clean.p, clean.t), (10, 48)
    cusight.stack_events(*narrow, (48, 10))
    assert len(list(cusight.events.open(path).frames())) == 1
    assert not recwarn.list

    def said(call):
        recwarn.clear()
        call()
        (warning,) = recwarn.list
        assert warning.category is UserWarning and warning.filename == __file__
        return str(warning.message)

    outside = int((narrow.y >= 10).sum())
    assert outside > len(narrow.y) / 2
    text = "more than half of the events lie outside the frame: shape is (10, 48), expected the sensor's (rows, cols)"
    assert said(lambda: cusight.stack_events(*narrow, wrong)) == "stack_events: " + text
    assert said(lambda: cusight.stack_events(narrow, wrong, windows=cusight.Windowing(500, 100))) == "stack_events: " + text
    with cusight.EventStacker(wrong) as stacker:
        assert said(lambda: stacker(*narrow)) == "EventStacker: " + text

    def push():
        with cusight.EventPipeline(wrong, "histogram", lambda batch: None, windows=300) as pipeline:
            pipeline.push(*narrow)
            pipeline.flush()

    assert said(push) == "EventPipeline: " + text
    recwarn.clear()
    written = path.parent / "narrow.txt"
    written.write_bytes(text_of(narrow).replace(b"64 48\n", b""))
    assert said(lambda: list(cusight.events.open(written).frames(shape=wrong))) == "Recording.frames: " + text
    skipping = cusight.events.open(written, width=48, height=10, skip_bad=True)
    assert said(lambda: list(skipping.frames())).startswith("Recording.frames: more than half of the events lie outside the sensor")
    recwarn.clear()
    cusight.stack_events([0, 0, 0, 0], [0, 0, 10, 10], [1, 1, 1, 1], [1, 2, 3, 4], wrong)  # half is not more than half
    assert not recwarn.list


# ---- The data set -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("windows", [700, "7ms", cusight.Windowing(500, 300, keep_incomplete=True)], ids=str)
def test_data_set(path, clean, windows):
    dataset = cusight.torch.EventDataset(path, windows=windows, representation="voxel_grid", bins=3)
    whole = cusight.stack_events(*clean, SHAPE, windows=windows, representation="voxel_grid", bins=3)
    assert len(dataset) == len(whole)
    for i in (0, len(whole) // 2, len(whole) - 1, -1):
        assert np.array_equal(np.asarray(dataset[i]), whole[i].transpose(2, 0, 1))
    with pytest.raises(IndexError):
        dataset[len(whole)]
    copy = pickle.loads(pickle.dumps(dataset))
    assert np.array_equal(np.asarray(copy[1]), np.asarray(dataset[1]))
    last = cusight.torch.EventDataset(path, windows=windows, channels_first=False, transform=lambda f: f[..., :1])
    assert tuple(last[0].shape) == (48, 64, 1)


def test_data_set_in_forked_processes(path, clean):
    import multiprocessing

    dataset = cusight.torch.EventDataset(path, windows=500)
    expected = np.asarray(dataset[3]).sum()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        sums = pool.map_async(lambda_sum, [(dataset, i) for i in (3, 1, 3, 0)]).get(60)
    assert sums[0] == sums[2] == expected


def lambda_sum(work):
    dataset, i = work
    return np.asarray(dataset[i]).sum()


def test_data_loader(path):
    torch = pytest.importorskip("torch")
    dataset = cusight.torch.EventDataset(path, windows=500, representation="voxel_grid")
    assert isinstance(dataset, torch.utils.data.Dataset) and isinstance(dataset[0], torch.Tensor)
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=2)
    together = torch.cat(list(loader))
    assert torch.equal(together, torch.stack([dataset[i] for i in range(len(dataset))]))


def test_frames_in_a_framework(space, path, clean):
    whole = cusight.stack_events(*clean, SHAPE, windows=700)
    with cusight.events.open(path) as recording:
        batches = list(recording.frames(windows=700, batch=4, device=space.device, framework=space.framework))
    assert np.array_equal(np.concatenate([space.get(b) for b in batches]), whole)


def test_frames_of_several_devices(space, path, clean):
    devices = [space.device] * (3 if space.device == "cuda" else 1)
    whole = cusight.stack_events(*clean, SHAPE, windows=700)
    pins = space.device == "cuda" and str(path).endswith((".raw", ".dat"))
    with cusight.events.open(path) as recording:
        frames = recording.frames(windows=700, batch=4, device=devices, framework=space.framework, pin_file=pins)
        for _ in range(3):
            assert np.array_equal(np.concatenate([space.get(b) for b in frames]), whole)


def test_what_cannot_be_pinned(clean):
    with pytest.raises((NotImplementedError, cusight.Error), match="pin_file is 1, expected 0 for a recording in memory"):
        list(cusight.events.open(text_of(clean), shape=SHAPE).frames(pin_file=True))


def test_all_that_is_left(path, clean):
    with cusight.events.open(path) as recording:
        assert same(recording.read(), clean) and len(recording.read().t) == 0
        recording.seek_index(1234)
        recording.read(66)
        assert same(recording.read(), [column[1300:] for column in clean])
    many = np.arange((1 << 20) + 5)  # more than one piece
    lines = b"\n".join(b"%d 1 1 1" % t for t in many)
    assert np.array_equal(cusight.events.open(b"64 48\n" + lines).read().t, many)


def test_all_before_the_damage(clean):
    recording = cusight.events.open(text_of(clean) + b"not an event\n")
    assert same(recording.read(), clean)
    for _ in range(2):
        with pytest.raises(ValueError):
            recording.read()


def test_the_size_of_the_sensor():
    for options in ({"shape": (48, 64)}, {"shape": np.zeros((48, 64)).shape}, {"height": 48, "width": 64}):
        assert cusight.events.open(b"10 1 1 1\n", **options).shape == (48, 64)
    assert cusight.events.open(b"10 1 1 1\n", shape=None).shape == (0, 0)
    copy = pickle.loads(pickle.dumps(cusight.events.open(b"10 1 1 1\n", shape=(48, 64))))
    assert copy.shape == (48, 64)
    for wrong, words in [({"shape": 48}, "shape is 48, expected"), ({"shape": (4, 4), "width": 4}, "expected None with width and height")]:
        with pytest.raises(cusight.Error, match=words):
            cusight.events.open(b"10 1 1 1\n", **wrong)
