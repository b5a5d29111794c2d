"""Live cameras: recorded packets, given by a stand-in for neuromorphic_drivers; the names of the real package if it is installed."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types

import cusight
import cusight.cameras
import numpy as np
import pytest

from test_datasets import clean  # noqa: F401  (fixture)

SHAPE = (48, 64)


class Device:
    """Gives recorded packets. `queued`: how many come while one is used; the queue has room for `room` of them."""

    def __init__(self, packets, queued=1, room=1000, name="Prophesee EVK4", shape=SHAPE):
        self.packets, self.queued, self.room, self.label, self.shape = list(packets), queued, room, name, shape
        self.ring, self.lost, self.gap, self.closed, self.opened = [], 0, False, False, {}

    def _arrive(self):
        for _ in range(self.queued):
            if self.packets:
                packet = self.packets.pop(0)
                if len(self.ring) < self.room:
                    self.ring.append((packet, self.gap))
                    self.gap = False
                else:
                    self.lost, self.gap = self.lost + 1, True

    def __iter__(self):
        return self

    def __next__(self):
        if not self.ring:
            self._arrive()
        if not self.ring:
            return types.SimpleNamespace(ring=None), None  # nothing came in time
        packet, after_overflow = self.ring.pop(0)
        self._arrive()
        ring = types.SimpleNamespace(raw_packets=1, overflow_indices=[0] if after_overflow else None, dropped_packets=self.lost)
        return types.SimpleNamespace(ring=ring), packet

    def backlog(self):
        return len(self.ring)

    def clear_backlog(self, until):
        del self.ring[: len(self.ring) - until]

    def name(self):
        return types.SimpleNamespace(value=self.label)

    def serial(self):
        return "0123"

    def properties(self):
        return types.SimpleNamespace(width=self.shape[1], height=self.shape[0])

    def close(self):
        self.closed = True


def bytes_of(path):
    """Of an EVT 3.0 recording, without its header."""
    raw = path.read_bytes()
    while raw.startswith(b"% "):
        raw = raw[raw.index(b"\n") + 1 :]
    return raw


@pytest.fixture
def packets(clean, tmp_path, rng):  # noqa: F811
    """Those of a recording, cut anywhere."""
    with cusight.events.EventWriter(tmp_path / "run.raw", SHAPE, format="EVT3") as writer:
        writer.write(clean)
    raw = bytes_of(tmp_path / "run.raw")
    cuts = [0, *sorted(rng.integers(0, len(raw), 60)), len(raw)]
    return [raw[a:b] for a, b in zip(cuts, cuts[1:])]


@pytest.fixture
def camera_of(monkeypatch):
    def make(device, **options):
        def open(configuration=None, iterator_timeout=None, raw=False, serial=None):
            assert raw
            device.opened = {"configuration": configuration, "iterator_timeout": iterator_timeout, "serial": serial}
            return device

        monkeypatch.setitem(sys.modules, "neuromorphic_drivers", types.SimpleNamespace(open=open))
        return cusight.cameras.open(**options)

    return make


def joined(parts):
    return [np.concatenate(column) for column in zip(*parts)]


def test_events(packets, clean, camera_of):  # noqa: F811
    device = Device(packets)
    with camera_of(device, serial="0123", timeout=0.5, configuration="biases") as camera:
        assert repr(camera) == "<Camera: Prophesee EVK4 0123, 48 x 64 pixels>" and camera.shape == SHAPE
        parts = list(camera)
        assert all(np.array_equal(a, b) for a, b in zip(joined(parts), clean, strict=True))
        assert [a.dtype for a in parts[0]] == [a.dtype for a in clean]
        counts = camera.counts()
        assert (counts.packets, counts.bytes, counts.decoded.events) == (61, sum(map(len, packets)), len(clean.t))
        assert counts.overflows == counts.dropped == counts.cleared == 0
    assert device.closed and device.opened == {"configuration": "biases", "iterator_timeout": 0.5, "serial": "0123"}
    assert list(camera) == [] and repr(camera).endswith(", closed>")


def test_frames(packets, clean, camera_of, space):  # noqa: F811
    expected = cusight.stack_events(*clean, SHAPE, windows="4ms", representation="voxel_grid", bins=3)
    with camera_of(Device(packets)) as camera:
        options = {"windows": "4ms", "representation": "voxel_grid", "bins": 3, "device": space.device, "framework": space.framework}
        frames = np.concatenate([space.get(batch) for batch in camera.frames(**options)])
    assert len(expected) - len(frames) in (0, 1) and np.array_equal(frames, expected[: len(frames)])  # the last window is not complete
    with camera_of(Device(packets)) as camera:
        options |= {"windows": 1000, "representation": ["histogram", "event_diff"], "bins": None}
        both = list(camera.frames(**options))
        expected = cusight.stack_events(*clean, SHAPE, windows=1000)[: len(clean.t) // 1000]
        assert np.array_equal(np.concatenate([space.get(two[0]) for two in both]), expected)


def test_frames_come_at_once(packets, camera_of, space):
    """With the packet that completes their windows, on every device: a GPU does not wait for a batch of them."""

    def made(windows, device, framework):
        with camera_of(Device(packets)) as camera:
            each = camera.frames(windows=windows, device=device, framework=framework)
            return [(len(frames), camera.counts().decoded.events) for frames in each]

    by_count, total = made(500, space.device, space.framework), 0
    for frames, events in by_count:
        total += frames
        assert total == events // 500
    assert len(by_count) > 5 and made("4ms", space.device, space.framework) == made("4ms", "cpu", "numpy")


def test_packets_that_are_lost(packets, clean, camera_of):  # noqa: F811
    """The queue is full again and again: what is missing is counted, and times never decrease."""
    with camera_of(Device(packets, queued=3, room=4)) as camera:
        x, y, p, t = joined(list(camera))
        counts = camera.counts()
    assert counts.packets + counts.dropped == 61 and counts.dropped > 20 and counts.overflows > 5
    assert 0 < len(t) == counts.decoded.events < len(clean.t) and (np.diff(t) >= 0).all() and x.max() < 64 and y.max() < 48


def test_latest(packets, camera_of):
    """Three packets come while one is used: the other two are passed over."""
    with camera_of(Device(packets, queued=3), latest=True) as camera:
        parts = list(camera)
        counts = camera.counts()
        assert counts.packets == len(parts) and counts.packets + counts.cleared == 61 and counts.cleared >= 2 * counts.packets - 3
    with camera_of(Device([b"".join(packets)]), latest=True) as camera:
        (frames,) = camera.frames(windows="4ms")
        with camera_of(Device(packets)) as all_of_them:
            expected = np.concatenate(list(all_of_them.frames(windows="4ms")))
        assert np.array_equal(frames, expected[-1:]) and camera.counts().frames_skipped == len(expected) - 1
    with camera_of(Device([b"".join(packets)]), latest=True) as camera:
        (two,) = camera.frames(windows="4ms", representation=["mdes", "event_diff"])
        assert [one.shape for one in two] == [(1, 48, 64, 10), (1, 48, 64, 1)]


def test_a_still_scene(packets, camera_of):
    """The camera's time words alone make frames, without events."""
    words = [np.array([0x8000 | high], "<u2").tobytes() for high in range(23, 43)]  # every 4096 us, up to 172,032
    with camera_of(Device([*packets, *words])) as camera:
        frames = np.concatenate(list(camera.frames(windows="4ms")))
        counts = camera.counts()
    first = 0
    with camera_of(Device(packets)) as camera:
        first = int(next(events.t[0] for events in camera if len(events.t)))
    assert counts.decoded.bad_words == 0 and len(frames) == (42 * 4096 - first) // 4000 and not frames[23:].any() and frames[20].any()


def test_advance(clean):  # noqa: F811
    """Of a pipeline alone."""
    made = []
    with cusight.EventPipeline(SHAPE, "histogram", made.append, windows="10ms") as pipeline:
        pipeline.advance(50_000)  # before the first event
        pipeline.push(*(column[:9] for column in clean))
        assert not made
        pipeline.advance(int(clean.t[0]) + 25_000)
        assert sum(map(len, made)) == 2 and made[0].frames.any()
        with pytest.raises(ValueError):
            pipeline.push(*(column[9:12] for column in clean))  # earlier
        with pytest.raises(TypeError, match="time is 'now', expected microseconds"):
            pipeline.advance("now")


def test_hostile_packets(camera_of, rng):
    """Noise gives no error: what it is taken for is inside the sensor and in order, the rest is counted."""
    noise = [rng.bytes(int(n)) for n in rng.integers(0, 5000, 40)]
    with camera_of(Device(noise, shape=(1024, 1024))) as camera:
        x, y, _, t = joined(list(camera))
        decoded = camera.counts().decoded
        assert decoded.events == len(t) > 1000 and decoded.bad_coordinates and (x < 1024).all() and (y < 1024).all()
        assert (np.diff(t) >= 0).all()
    with camera_of(Device(noise, shape=(1024, 1024))) as camera:
        assert sum(map(len, camera.frames(windows=500))) == decoded.events // 500


def test_what_cannot_be_opened(camera_of, monkeypatch):
    device = Device([], name="iniVation DAVIS 346")
    with pytest.raises(NotImplementedError, match="the camera is iniVation DAVIS 346, expected a camera that sends EVT 3.0: Prophesee"):
        camera_of(device)
    assert device.closed
    monkeypatch.setitem(sys.modules, "neuromorphic_drivers", None)
    with pytest.raises(NotImplementedError, match="cameras need neuromorphic_drivers: pip install neuromorphic-drivers"):
        cusight.cameras.open()


def test_names_of_the_real_package():
    nd = pytest.importorskip("neuromorphic_drivers")
    assert {"configuration", "iterator_timeout", "raw", "serial"} <= set(inspect.signature(nd.open).parameters)
    from neuromorphic_drivers import status

    assert {"raw_packets", "overflow_indices", "dropped_packets"} <= {one.name for one in dataclasses.fields(status.RawRingStatus)}
    assert {"backlog", "clear_backlog", "name", "serial", "properties", "close"} <= set(dir(nd.GenericDevice))
    assert set(cusight.cameras._EVT3) <= {name.value for name in nd.Name}
    assert "until" in inspect.signature(nd.GenericDevice.clear_backlog).parameters
