"""Rectification maps, filters, and DSEC and M3ED folders that the tests make in their layout."""

from __future__ import annotations

import builtins
import pickle

import cusight
import cusight.datasets
import numpy as np
import pytest

SHAPE = (48, 64)


@pytest.fixture
def clean(events):
    keep = (events.x < 64) & (events.y < 48)
    return cusight.events.Events(*(column[keep] for column in events))


# ---- Rectification ------------------------------------------------------------------------------------------------------


def rectified_voxels(e, table, bins):
    """DSEC's way: each event's weight split between two bins and four pixels."""
    grid = np.zeros((*SHAPE, bins))
    star = (bins - 1) * (e.t - e.t[0]) / max(int(e.t[-1] - e.t[0]), 1)
    for (x, y), s, p in zip(table[e.y, e.x].astype(np.float64), star, e.p):
        for col in (int(np.floor(x)), int(np.floor(x)) + 1):
            for row in (int(np.floor(y)), int(np.floor(y)) + 1):
                for k in (int(s), int(s) + 1):
                    weight = (1 - abs(col - x)) * (1 - abs(row - y)) * (1 - abs(k - s))
                    if 0 <= col < 64 and 0 <= row < 48 and k < bins:
                        grid[row, col, k] += (1 if p else -1) * weight
    return grid


@pytest.fixture
def table(rng):
    """Where each pixel's events belong; some outside the frame."""
    y, x = np.mgrid[0:48, 0:64]
    return (np.stack([x, y], axis=-1) + rng.uniform(-3, 3, (48, 64, 2))).astype(np.float32)


def test_maps(space, clean, table):
    e = cusight.events.Events(*(column[:700] for column in clean))
    kind = cusight.Representation("voxel_grid", 5, map=space.put(table))
    on_device = cusight.events.Events(*(space.put(column) for column in e))
    expected = rectified_voxels(e, table, 5)
    for _ in range(2):  # nothing of a call's map is left for the next
        frames = space.get(cusight.stack_events(*on_device, SHAPE, windows=700, representation=kind))
        assert np.allclose(frames[0], expected, atol=1e-4)
        plain = space.get(cusight.stack_events(*on_device, SHAPE, windows=700, representation="voxel_grid"))
        assert not np.array_equal(plain, frames)
    with cusight.EventStacker(SHAPE, kind, device=space.device) as stacker:
        assert np.array_equal(space.get(stacker(*on_device, windows=700)), frames)
    batches = []
    with cusight.EventPipeline(SHAPE, kind, batches.append, windows=700, device=space.device, framework=space.framework) as pipeline:
        del kind
        pipeline.push(e)
        pipeline.flush()
    assert np.array_equal(space.get(batches[0].frames), frames)


def test_maps_are_part_of_what_is_cached(tmp_path, clean, table):
    with cusight.events.EventWriter(tmp_path / "run.h5", SHAPE) as writer:
        writer.write(clean)
    frames = []
    for one in (table, table + np.float32(0.5), table):
        kind = cusight.Representation("voxel_grid", map=one)
        dataset = cusight.torch.EventDataset(tmp_path / "run.h5", windows=900, representation=kind, cache=tmp_path / "cache")
        frames.append(np.asarray(pickle.loads(pickle.dumps(dataset))[1]))
    assert np.array_equal(frames[0], frames[2]) and not np.array_equal(frames[0], frames[1])
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_maps_that_do_not_fit(clean, table):
    for kind, error in (
        (cusight.Representation("histogram", map=table), "Representation: map is an array, expected None for histogram"),
        (cusight.Representation("voxel_grid", map=table[..., :1]), r"map is \(48, 64, 1\) float32, expected \(rows, cols, 2\) float32"),
        (cusight.Representation("voxel_grid", map=table.astype(float)), r"map is \(48, 64, 2\) float64"),
        (cusight.Representation("voxel_grid", map=table[:40]), "voxel_grid's map is 40 x 64, expected 48 x 64 like the frame"),
    ):
        with pytest.raises(ValueError, match=error):
            cusight.stack_events(clean, SHAPE, representation=kind)


# ---- Filters ------------------------------------------------------------------------------------------------------------


def test_filters(clean, rng):
    """In pieces of any size, as an independent loop over all events has it."""
    options = {"begin": 20_000, "end": 70_000, "hot_events": 2, "hot_period": 10_000, "activity": 700, "region": (5, 6, 50, 40), "flip_x": True}
    with cusight.events.EventFilter(SHAPE, **options) as keep:
        cuts = [0, *sorted(rng.integers(0, len(clean.t), 5)), len(clean.t)]
        parts = [keep(*(column[a:b] for column in clean)) for a, b in zip(cuts, cuts[1:])]
        assert keep.shape == (40, 50)
    got = [np.concatenate(column) for column in zip(*parts)]
    inside = (clean.t >= 20_000) & (clean.t < 70_000)
    e = [column[inside] for column in clean]
    count, kept, seen = {}, [], []
    for x, y, p, t in zip(*(column.tolist() for column in e)):
        period = x, y, (t - int(e[3][0])) // 10_000
        count[period] = count.get(period, 0) + 1
        if count[period] > 2:
            continue
        near = any(abs(x - u) <= 1 and abs(y - v) <= 1 and (u, v) != (x, y) and t - s <= 700 for u, v, s in reversed(seen[-200:]))
        seen.append((x, y, t))
        if near and 5 <= x < 55 and 6 <= y < 46:
            kept.append((49 - (x - 5), y - 6, p, t))
    assert 20 < len(kept) < len(clean.t) // 2
    assert np.array_equal(np.stack(got, axis=1), np.array(kept))
    assert [column.dtype for column in got] == [np.uint16, np.uint16, np.uint8, np.int64]
    keep = cusight.events.EventFilter(SHAPE, resize=(20, 100), **options)
    smaller = keep(*clean)
    assert keep.shape == (20, 100)
    assert np.array_equal(smaller.x, got[0].astype(int) * 100 // 50) and np.array_equal(smaller.y, got[1].astype(int) * 20 // 40)


def test_filters_that_do_not_fit(clean):
    for wrong, error in (
        ({"hot_events": -1}, "hot_events is -1, expected at least 0"),
        ({"activity": 1 << 63}, "activity is 9223372036854775808"),
        ({"begin": 5, "end": 4}, "window is 5..4 us, expected begin <= end"),
        ({"region": (60, 0, 5, 5)}, "region is 5 x 5 at 60, 0, expected a part of the 64 x 48 sensor"),
        ({"resize": (0, 5)}, r"resize is \(0, 5\), expected \(rows, cols\), each 1 to 65536"),
        ({"region": (0, 0, 5)}, r"region is \(0, 0, 5\), expected \(x, y, cols, rows\)"),
    ):
        with pytest.raises(ValueError, match=error):
            cusight.events.EventFilter(SHAPE, **wrong)
    with pytest.raises(TypeError, match="activity is 0.5, expected an integer"):
        cusight.events.EventFilter(SHAPE, activity=0.5)
    keep = cusight.events.EventFilter(SHAPE)
    before = [column.copy() for column in clean]
    assert all(np.array_equal(a, b) for a, b in zip(keep(clean), before))
    with pytest.raises(ValueError, match="event 0 has time .*, expected .* or more"):
        keep(clean)
    with pytest.raises(ValueError, match="t is None, expected times"):
        keep(clean.x, clean.y, clean.p, None)


# ---- DSEC ---------------------------------------------------------------------------------------------------------------

OFFSET = 50_000_000_000  # of DSEC's clock


@pytest.fixture
def dsec(tmp_path, clean, rng):
    """A sequence: events, map, disparity, flow, images."""
    h5py, cv2 = pytest.importorskip("h5py"), pytest.importorskip("cv2")
    for folder in ("events/left", "disparity/event", "flow/forward", "images/left/rectified"):
        (tmp_path / folder).mkdir(parents=True)
    with h5py.File(tmp_path / "events/left/events.h5", "w") as file:
        for name, column in zip("xypt", clean):
            file[f"events/{name}"] = column.astype("u4" if name == "t" else column.dtype)
        file["t_offset"] = OFFSET
        file["ms_to_idx"] = np.searchsorted(clean.t, np.arange(90) * 1000).astype("u8")
    y, x = np.mgrid[0:480, 0:640]
    table = (np.stack([x, y], axis=-1) + 0.25).astype(np.float32)
    with h5py.File(tmp_path / "events/left/rectify_map.h5", "w") as file:
        file["rectify_map"] = table
    times = np.array([30_000, 50_000, 70_000]) + OFFSET
    values = rng.integers(0, 1 << 16, (3, 480, 640, 3)).astype(np.uint16)
    values[..., 2][rng.random((3, 480, 640)) < 0.3] = 0
    values[..., 2][values[..., 2] > 0] = 1
    values[0, 0, 0, 2], values[0, 0, 1, 2] = 0, 1
    for k in range(3):
        cv2.imwrite(str(tmp_path / f"disparity/event/{2 * k:06d}.png"), values[k, ..., 0])
        cv2.imwrite(str(tmp_path / f"flow/forward/{k:06d}.png"), np.ascontiguousarray(values[k, ..., ::-1]))
        cv2.imwrite(str(tmp_path / f"images/left/rectified/{k:06d}.png"), (values[k] & 255).astype(np.uint8))
    for name in ("disparity", "images"):
        (tmp_path / name / "timestamps.txt").write_text("".join(f"{t}\n" for t in times))
    rows = "".join(f"{t}, {t + 9000}\n" for t in times)
    (tmp_path / "flow/forward_timestamps.txt").write_text("# from_timestamp_us, to_timestamp_us\n" + rows)
    return tmp_path, clean, table, times, values


def window(e, begin, end):
    first, last = np.searchsorted(e.t + OFFSET, [begin, end])
    return cusight.events.Events(*(column[first:last] for column in e))


def test_dsec(dsec):
    folder, e, table, times, values = dsec
    kind = cusight.Representation("voxel_grid", 3, map=table)
    disparity = cusight.datasets.DSEC(folder, "disparity", length="10ms", bins=3, channels_first=False)
    flow = cusight.datasets.DSEC(folder, "flow", representation="histogram")
    images = cusight.datasets.DSEC(folder, "images", length=5000, rectify=False)
    assert len(disparity) == len(flow) == len(images) == 3
    for k, t in enumerate(times):
        frame, target = disparity[k]
        part = window(e, t - 10_000, t)
        assert np.array_equal(np.asarray(frame), cusight.stack_events(part, (480, 640), windows=len(part.t), representation=kind)[0])
        assert target.dtype == np.float32 and np.array_equal(np.nan_to_num(target, nan=0) * 256, values[k, ..., 0])
        assert np.array_equal(np.isnan(target), values[k, ..., 0] == 0)
        frame, target = pickle.loads(pickle.dumps(flow))[k]
        part = window(e, t, t + 9000)
        assert np.array_equal(np.asarray(frame), cusight.stack_events(part, (480, 640), windows=len(part.t))[0].transpose(2, 0, 1))
        valid = values[k, ..., 2] == 1
        assert np.array_equal(target[valid], (values[k, ..., :2][valid] - 32768.0) / 128) and np.isnan(target[~valid]).all()
        frame, target = images[k]
        part = window(e, t - 5000, t)
        whole = cusight.stack_events(part, (480, 640), windows=len(part.t), representation="voxel_grid")
        assert np.array_equal(np.asarray(frame), whole[0].transpose(2, 0, 1))
        assert np.array_equal(target, values[k] & 255)


def test_dsec_folders_that_lack_something(dsec, monkeypatch):
    folder = dsec[0]
    with pytest.raises(FileNotFoundError, match="DSEC: there is no .*events/right"):
        cusight.datasets.DSEC(folder, camera="right")
    with pytest.raises(ValueError, match="DSEC: target is 'depth', expected disparity, flow or images"):
        cusight.datasets.DSEC(folder, "depth")
    (folder / "flow/forward/000001.png").unlink()
    with pytest.raises(ValueError, match="expected 3 pictures in .*forward, one for each of the timestamps, not 2"):
        cusight.datasets.DSEC(folder, "flow")
    (folder / "disparity/timestamps.txt").write_text("12\nx\n")
    with pytest.raises(ValueError, match="expected a file of whole numbers"):
        cusight.datasets.DSEC(folder)
    load = builtins.__import__
    import importlib

    monkeypatch.setattr(importlib, "import_module", lambda name: load("no_such_module"))
    with pytest.raises(NotImplementedError, match="DSEC: maps and ground truth in HDF5 need h5py: pip install h5py"):
        cusight.datasets.DSEC(folder, "images")


# ---- M3ED ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def m3ed(tmp_path, clean, rng):
    h5py = pytest.importorskip("h5py")
    folder = tmp_path / "spot_indoor_stairs"
    folder.mkdir()
    with cusight.events.EventWriter(folder / "spot_indoor_stairs_data.h5", SHAPE) as writer:
        writer.write(clean)
    times = np.array([30_000, 50_000, 70_000])
    maps = rng.random((3, 48, 64)).astype(np.float32)
    pictures = rng.integers(0, 256, (3, 20, 30, 1), np.uint8)
    with h5py.File(folder / "spot_indoor_stairs_data.h5", "r+") as file:
        file["ovc/ts"], file["ovc/left/data"] = times, pictures
    with h5py.File(folder / "spot_indoor_stairs_depth_gt.h5", "w") as file:
        file["ts"], file["depth/prophesee/left"] = times, maps
    with h5py.File(folder / "spot_indoor_stairs_gt_flow.h5", "w") as file:
        file["ts"], file["flow/prophesee/left/x"], file["flow/prophesee/left/y"] = times, maps, -maps
    return folder, clean, times, maps, pictures


def test_m3ed(m3ed):
    folder, e, times, maps, pictures = m3ed
    sets = {target: cusight.datasets.M3ED(folder, target, length="8ms", representation="histogram", channels_first=False) for target in ("depth", "flow", "left")}
    assert [len(one) for one in sets.values()] == [3, 2, 3]
    for k, t in enumerate(times):
        part = window(e, t - 8000 + OFFSET, t + OFFSET)
        before = cusight.stack_events(part, SHAPE, windows=len(part.t))[0]
        for target, truth in (("depth", maps), ("left", pictures)):
            frame, got = pickle.loads(pickle.dumps(sets[target]))[k]
            assert np.array_equal(np.asarray(frame), before) and np.array_equal(got, truth[k])
    for k in range(2):
        frame, got = sets["flow"][k]
        part = window(e, times[k] + OFFSET, times[k + 1] + OFFSET)
        assert np.array_equal(np.asarray(frame), cusight.stack_events(part, SHAPE, windows=len(part.t))[0])
        assert np.array_equal(got, np.stack([maps[k + 1], -maps[k + 1]], axis=-1))
    with pytest.raises(FileNotFoundError, match="there is no .*_data.h5 or "):
        cusight.datasets.M3ED(folder.parent)
