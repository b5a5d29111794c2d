"""Representations under the names of tonic: each by its published formula here, and by tonic itself where it is installed."""

from __future__ import annotations

import cusight
import numpy as np
import pytest

SHAPE = (48, 64)
SENSOR = (64, 48, 2)  # as tonic has it: x, y, polarities
DT, TAU, BINS = 7000, 2500.0, 6


@pytest.fixture
def recording(events):
    """As tonic's structured array."""
    keep = (events.x < 64) & (events.y < 48)
    made = np.zeros(np.count_nonzero(keep), [("x", "<i8"), ("y", "<i8"), ("t", "<i8"), ("p", "<i8")])
    for name, column in zip("xypt", events):
        made[name] = column[keep]
    return made


def slices_by_time(e):
    """Whole windows of DT from the first event on."""
    count = int((e["t"][-1] - e["t"][0]) // DT)
    cuts = np.searchsorted(e["t"], e["t"][0] + np.arange(count + 1) * DT)
    return [e[a:b] for a, b in zip(cuts, cuts[1:])]


def frames_by_time(e):
    """(windows, polarity, rows, cols): events are counted."""
    frames = np.zeros((len(slices_by_time(e)), 2, *SHAPE))
    for frame, part in zip(frames, slices_by_time(e)):
        np.add.at(frame, (part["p"], part["y"], part["x"]), 1)
    return frames


def surfaces_by_time(e):
    """exp((last - end) / tau) at the end of each window, of all events so far."""
    last, surfaces = np.full((2, *SHAPE), -np.inf), []
    for k, part in enumerate(slices_by_time(e)):
        last[part["p"], part["y"], part["x"]] = part["t"]
        surfaces.append(np.exp((last - (e["t"][0] + (k + 1) * DT)) / TAU))
    return np.array(surfaces)


def voxels(e):
    """(bins, 1, rows, cols): +-1 split between the bins floor(t*) and floor(t*) + 1, t* = BINS (t - first) / (last - first)."""
    grid = np.zeros((BINS + 2, *SHAPE))
    star = BINS * (e["t"] - e["t"][0]) / (e["t"][-1] - e["t"][0])
    below, sign = np.floor(star).astype(int), np.where(e["p"] > 0, 1, -1)
    for k, share in ((below, 1 - (star - below)), (below + 1, star - below)):
        np.add.at(grid, (k, e["y"], e["x"]), sign * share)
    return grid[:BINS, None]


@pytest.fixture(params=["formula", "tonic"])
def owner(request):
    """Three functions of a recording: frames, time surfaces, a voxel grid."""
    if request.param == "formula":
        return frames_by_time, surfaces_by_time, voxels
    functional = pytest.importorskip("tonic.functional", exc_type=ImportError)
    return (
        lambda e: functional.to_frame_numpy(e, SENSOR, time_window=DT),
        lambda e: functional.to_timesurface_numpy(e, SENSOR, DT, TAU),
        lambda e: functional.to_voxel_grid_numpy(e.copy(), SENSOR, BINS),
    )


def channels_first(frames):
    return frames.transpose(0, 3, 1, 2)


def test_frames(owner, recording):
    expected = owner[0](recording)
    kind = cusight.Representation("histogram", swap_channels=True)
    frames = channels_first(cusight.stack_events(recording, SHAPE, windows=cusight.Windowing(DT, 0, "duration", False), representation=kind))
    assert len(expected) > 5 and np.array_equal(frames[: len(expected)], expected)


def test_time_surfaces(owner, recording):
    """The surface's memory: windows that begin 104 tau earlier, or with the recording, which all of these do."""
    expected = owner[1](recording)
    kind = cusight.Representation("time_surface", tau=TAU, swap_channels=True, window_times=True)
    for k, surface in enumerate(expected):
        cut = cusight.Windowing((k + 1) * DT, 0, "duration", False)
        frame = channels_first(cusight.stack_events(recording, SHAPE, windows=cut, representation=kind))[0]
        assert np.allclose(frame, surface, rtol=3e-7, atol=1e-37)


def test_voxel_grids(owner, recording):
    expected = owner[2](recording)
    frames = channels_first(cusight.stack_events(recording, SHAPE, windows=len(recording), representation="voxel_grid", bins=BINS + 1))
    assert np.abs(frames[0, :BINS] - expected[:, 0]).max() < 1e-5
