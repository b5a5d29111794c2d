"""Frames from a recording's raw bytes: those of its events, in every format that has them."""

from __future__ import annotations

import cusight
import numpy as np
import pytest

SHAPE = (48, 64)
FORMATS = ["EVT2", "EVT2.1", "EVT2.1 legacy", "EVT3", "EVT4", "DAT"]  # decoded from bytes on the CPU too
WINDOWS = [700, "7ms", cusight.Windowing(500, 300, keep_incomplete=True), cusight.Windowing(9000, 4000, "duration", True)]


def words_of(e, high, word):
    """Each event's word, behind a time word where the upper part of its time is another than before."""
    parts = []
    last = -1
    for x, y, p, t in zip(*(column.tolist() for column in e)):
        if t >> 6 != last:
            last = t >> 6
            parts.append(high(last))
        parts.append(word(x, y, p, t & 63))
    return parts


def encoded(tmp_path, e, format):
    """The events as a recording of the format."""
    if format in ("EVT2", "EVT3", "DAT"):
        with cusight.events.EventWriter(tmp_path / "recording", SHAPE, format=format) as writer:
            writer.write(*e)
        return (tmp_path / "recording").read_bytes()
    if format == "EVT4":
        words = words_of(e, lambda t: 0xE << 28 | t, lambda x, y, p, t: 0xA + p << 28 | t << 22 | x << 11 | y)
        return b"% evt 4.0\n% geometry 64x48\n% end\n" + np.array(words, "<u4").tobytes()
    words = np.array(
        words_of(e, lambda t: 8 << 60 | t << 32, lambda x, y, p, t: p << 60 | t << 54 | x << 43 | y << 32 | 1), "<u8"
    )
    header = b"% evt 2.1\n% geometry 64x48\n"
    if format == "EVT2.1 legacy":
        return header + b"% format EVT21;endianness=legacy\n% end\n" + words.view("<u4").reshape(-1, 2)[:, ::-1].tobytes()
    return header + b"% end\n" + words.tobytes()


@pytest.fixture(params=FORMATS)
def recording(request, events, tmp_path):
    """A recording of the format, and its events."""
    keep = (events.x < 64) & (events.y < 48)
    clean = cusight.events.Events(*(column[keep] for column in events))
    data = encoded(tmp_path, clean, request.param)
    with cusight.events.open(data) as opened:
        yield opened, clean, data


def by_events(recording, shape=SHAPE, **options):
    """Its frames through a pipeline that takes events."""
    batches = []
    recording.seek_index(0)
    with cusight.EventPipeline(shape, sink=batches.append, **options) as pipeline:
        try:
            for piece in recording:
                pipeline.push(piece)
        except (ValueError, EOFError):  # what came before the damage
            pass
        pipeline.flush()
    return np.concatenate([b.frames for b in batches]), np.concatenate([b.windows for b in batches])


@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_frames_are_those_of_the_events(recording, monkeypatch, windows):
    opened, clean, _ = recording
    assert len(opened.read(len(clean.t) + 1).t) == len(clean.t)
    options = {"windows": windows, "representation": "voxel_grid"}
    frames, listed = by_events(opened, **options)
    whole = cusight.stack_events(clean, SHAPE, **options)
    assert np.array_equal(frames, whole)
    counts = opened.counts()
    monkeypatch.setattr(cusight.events.Recording, "read", None)  # no event is read
    opened.seek_index(0)
    batches = list(opened.frames(batch=3, **options).batches())
    assert [len(b) for b in batches[:-1]] == [3] * (len(batches) - 1)
    assert np.array_equal(np.concatenate([b.frames for b in batches]), whole)
    assert np.array_equal(np.concatenate([b.windows for b in batches]), listed)
    assert opened.counts() == counts and counts.events == len(clean.t)
    shard = np.concatenate(list(opened.frames(first_window=2, end_window=5, **options)))
    assert np.array_equal(shard, whole[2:5])


def test_iterations_do_not_disturb_each_other(recording):
    opened, clean, _ = recording
    whole = cusight.stack_events(clean, SHAPE, windows=1000, representation="mdes")
    frames = opened.frames(windows=1000, representation="mdes", batch=2)
    first, second = iter(frames), iter(frames)
    got = [[], []]
    for _ in range(-(-len(whole) // 2)):
        got[0].append(next(first))
        assert len(opened.read(7).t) == 7  # reading goes on where it was
        got[1].append(next(second))
    for batches in got:
        assert np.array_equal(np.concatenate(batches), whole)
    later = iter(frames)
    assert np.array_equal(next(later), whole[:2])
    later.close()  # in the middle
    opened.close()
    with pytest.raises(ValueError, match="Recording is closed"):
        next(iter(frames))


def test_on_a_device(recording, space):
    opened, clean, _ = recording
    frames = opened.frames(windows="7ms", device=space.device, framework=space.framework)
    whole = cusight.stack_events(clean, SHAPE, windows="7ms")
    assert np.array_equal(np.concatenate([space.get(batch) for batch in frames]), whole)


def narrower(data, cols):
    """The same recording of a sensor with fewer columns, of which its header tells."""
    for words in (b"64x48", b"width=64", b"Width 64"):
        data = data.replace(words, words.replace(b"64", b"%d" % cols))
    return data


@pytest.mark.parametrize("format", FORMATS)
def test_damage_comes_after_the_frames_before_it(events, tmp_path, format):
    """An event outside the sensor in the middle, and an end within a word: by bytes as by events."""
    keep = (events.x < 60) & (events.y < 48)
    clean = cusight.events.Events(*(column[keep] for column in events))
    middle = len(clean.t) // 2
    clean.x[middle] = 63
    data = encoded(tmp_path, clean, format)
    cut = cusight.Windowing(10, keep_incomplete=True)
    whole = cusight.stack_events(clean, SHAPE, windows=cut)
    for damaged, error, least in ((narrower(data, 60), ValueError, -(-middle // 10)), (data[:-1], EOFError, len(whole) - 4)):
        opened = cusight.events.open(damaged)
        got = []
        with pytest.raises(error, match="byte|event [0-9]"):
            for batch in opened.frames(windows=cut, batch=4, shape=SHAPE).batches():
                got.append(batch)
        assert [len(batch) for batch in got[:-1]] == [4] * (len(got) - 1)
        frames = np.concatenate([batch.frames for batch in got])
        assert np.array_equal(frames, by_events(opened, representation="histogram", windows=cut)[0])
        assert least <= len(frames) <= (least if error is ValueError else len(whole))
        assert np.array_equal(frames[:-1], whole[: len(frames) - 1])


def test_bad_events_are_skipped_and_counted(recording):
    opened, clean, data = recording
    small = cusight.events.open(narrower(data, 32), skip_bad=True)
    options = {"windows": 100, "representation": "histogram"}
    frames, _ = by_events(small, small.shape, **options)
    counts = small.counts()
    small.seek_index(0)
    assert np.array_equal(np.concatenate(list(small.frames(**options))), frames)
    assert small.counts() == counts and counts.bad_coordinates == np.count_nonzero(clean.x >= 32)
    assert counts.events == np.count_nonzero(clean.x < 32)


@pytest.fixture(params=["Metavision", "M3ED"])
def chunks(request, events, tmp_path):
    """A recording of HDF5 in chunks that a decoder takes, and its events."""
    keep = (events.x < 64) & (events.y < 48)
    clean = cusight.events.Events(*(column[keep] for column in events))
    with cusight.events.EventWriter(tmp_path / "chunks.hdf5", SHAPE, format=request.param, chunk=1024) as writer:
        writer.write(*clean)
    with cusight.events.open(tmp_path / "chunks.hdf5") as opened:
        yield opened, clean


def test_chunks_on_a_device(chunks, space):
    opened, clean = chunks
    frames = opened.frames(windows="7ms", device=space.device, framework=space.framework)
    whole = cusight.stack_events(clean, SHAPE, windows="7ms")
    assert np.array_equal(np.concatenate([space.get(batch) for batch in frames]), whole)


def test_damage_in_the_file_comes_after_the_chunks_before_it(events, tmp_path):
    keep = (events.x < 64) & (events.y < 48)
    clean = cusight.events.Events(*(column[keep] for column in events))
    with cusight.events.EventWriter(tmp_path / "cut.hdf5", SHAPE, format="Metavision", chunk=1024) as writer:
        writer.write(*clean)
    data = bytearray((tmp_path / "cut.hdf5").read_bytes())
    third = data.index(int(clean.t[2048]).to_bytes(8, "little"), 4) - 4  # the chunk's header: its number of events, the first time
    assert int.from_bytes(data[third : third + 4], "little") >> 2 == 1024
    data[third : third + 4] = b"\xff" * 4
    batches = []
    with pytest.raises(ValueError, match="chunk of /CD/events that starts at event 2048 is damaged"):
        for frames in cusight.events.open(bytes(data)).frames(windows=8, representation="mdes"):
            batches.append(frames)
    whole = cusight.stack_events(clean, SHAPE, windows=8, representation="mdes")
    assert np.array_equal(np.concatenate(batches), whole[: 2048 // 8])
