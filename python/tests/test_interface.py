"""What a user sees of the package: names, types of arguments, and what objects print."""

from __future__ import annotations

import importlib.util
import inspect
import pickle
import re
import types

import cusight
import cusight.cameras
import cusight.cv2
import cusight.datasets
import cusight.ray
import cusight.torch
import numpy as np
import pytest

MODULES = [cusight, cusight.cameras, cusight.cv2, cusight.events, cusight.datasets, cusight.torch, cusight.ray]
if importlib.util.find_spec("torch"):
    MODULES.append(importlib.import_module("cusight.ops"))
IMAGE = np.zeros((20, 30), np.uint8)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_no_stray_names(module):
    """Completion offers what is meant to be used."""
    shown = {name for name in dir(module) if not name.startswith("_")}
    submodules = {name for name in shown if isinstance(getattr(module, name), types.ModuleType)}
    if module is cusight.cv2:  # and OpenCV's, if it is there
        shown -= set(dir(cusight.cv2._opencv)) - set(module.__all__)
        submodules = set()
    assert shown == set(module.__all__), shown ^ set(module.__all__)
    assert submodules <= {"events"}
    assert list(module.__all__) == sorted(module.__all__)
    if module is cusight:
        assert "__version__" in dir(module)


def functions():
    for module in MODULES:
        for name in module.__all__:
            thing = getattr(module, name)
            if thing in (cusight.FrameBatch, cusight.torch.SequenceBatch, cusight.cameras.Camera, cusight.Error):  # made by the library
                continue
            if inspect.isclass(thing):
                for method, function in vars(thing).items():
                    if isinstance(function, (types.FunctionType, classmethod)) and (method in ("__init__", "__call__") or method[0] != "_"):
                        yield f"{module.__name__}.{name}.{method}", getattr(thing, method)
            elif isinstance(thing, types.FunctionType):
                yield f"{module.__name__}.{name}", thing


FUNCTIONS = dict(functions())


@pytest.mark.parametrize("name, function", FUNCTIONS.items(), ids=FUNCTIONS)
def test_every_argument_has_a_type(name, function):
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self" or (name.endswith("__init__") and parameter.name in ("args", "kwargs")):
            continue
        assert parameter.annotation not in (parameter.empty, "Any", "object"), parameter
    assert inspect.signature(function).return_annotation is not inspect.Signature.empty


def test_every_public_thing_is_described():
    for module in MODULES:
        assert module.__doc__
        for name in module.__all__:
            assert getattr(module, name).__doc__ or name == "error", name  # OpenCV's


@pytest.fixture
def recording(tmp_path):
    (tmp_path / "run.txt").write_bytes(b"64 48\n10 1 1 1\n20 2 2 0\n35 2 2 0\n")
    return cusight.events.open(tmp_path / "run.txt")


def test_what_recordings_print(recording, tmp_path):
    path = re.escape(repr(str(tmp_path / "run.txt")))
    assert re.fullmatch(f"<Recording: {path}, text, 48 x 64 pixels>", repr(recording))
    assert repr(cusight.events.open(b"10 1 1 1\n20 2 2 0\n")) == "<Recording: 18 bytes in memory, text, pixels not known>"
    frames = recording.frames(windows=2, batch=4)
    assert re.fullmatch(f"<Frames: batches of 4, windows of 2 events, histogram, of <Recording: {path}, .*>>", repr(frames))
    events = recording.read(10)
    assert repr(events) == "Events(3 events, 10 .. 35 us)"
    assert repr(recording.read(10)) == "Events(0 events)"
    assert repr(pickle.loads(pickle.dumps(events))) == repr(events)
    recording.seek(0)
    batch = next(recording.frames(windows=1, representation=["histogram", "voxel_grid"]).batches())
    assert repr(batch) == "FrameBatch(first=0, windows=3, frames=[(3, 48, 64, 2) uint8, (3, 48, 64, 5) float32])"
    assert repr(next(recording.frames(windows=1, batch=2).batches())) == "FrameBatch(first=0, windows=2, frames=(2, 48, 64, 2) uint8)"
    recording.close()
    assert repr(recording).endswith(", closed>")
    writer = cusight.events.EventWriter(tmp_path / "run.h5", (48, 64))
    assert repr(writer) == f"<EventWriter: {str(tmp_path / 'run.h5')!r}, 48 x 64 pixels>"
    writer.write(events)
    writer.finish()
    with cusight.events.open(tmp_path / "run.h5") as written:
        assert repr(written).endswith("run.h5', M3ED, 48 x 64 pixels, 3 events, 10 .. 35 us>")
        assert repr(written.frames(windows="1ms")).startswith("<Frames: 1 batches of 16, windows of 1000 us, histogram, of <Recording: ")


@pytest.mark.parametrize("spelling", ["ccoeff-normed", "ccoeff_normed", "CCOEFF_NORMED"])
def test_names_in_any_spelling(spelling, tmp_path):
    assert repr(cusight.Matcher(IMAGE, (40, 50), method=spelling)) == "<Matcher: 1 template in 40 x 50 pixels, ccoeff-normed>"
    assert repr(cusight.PoseMatcher(IMAGE, (40, 50), method=spelling)) == "<PoseMatcher: 1 x 1 poses in 40 x 50 pixels, ccoeff-normed>"
    grid = "voxel_grid" if "_" in spelling else "Voxel-Grid"
    assert cusight.Representation(grid) == cusight.Representation("voxel_grid")
    assert repr(cusight.EventStacker((48, 64), grid)) == "<EventStacker: 48 x 64 pixels, voxel_grid, cpu>"
    with cusight.events.EventWriter(tmp_path / "run.raw", (48, 64), format="evt3"):
        pass
    assert cusight.events.open(tmp_path / "run.raw", format="Evt3").format == "EVT3"


def test_what_objects_print(tmp_path):
    two = ["mdes", cusight.Representation("voxel_grid", 3)]
    for thing, words in [
        (cusight.EventStacker((48, 64)), "<EventStacker: 48 x 64 pixels, histogram, cpu>"),
        (cusight.EventStacker((48, 64), two), "<EventStacker: 48 x 64 pixels, mdes, voxel_grid, cpu>"),
        (cusight.EventPipeline((48, 64), "mdes", print, windows="1ms"), "<EventPipeline: 48 x 64 pixels, mdes, windows of 1000 us, cpu>"),
        (cusight.events.EventGenerator((20, 30)), "<EventGenerator: 20 x 30 pixels>"),
        (cusight.Integrator((20, 30)), "<Integrator: up to 20 x 30 pixels, cpu>"),
        (cusight.Matcher([IMAGE, IMAGE], (40, 50), method="ccorr"), "<Matcher: 2 templates in 40 x 50 pixels, ccorr>"),
        (cusight.Matcher(IMAGE, (40, 50)), "<Matcher: 1 template in 40 x 50 pixels, ccoeff-normed>"),
        (cusight.PoseMatcher(IMAGE, (40, 50), angles=range(4)), "<PoseMatcher: 4 x 1 poses in 40 x 50 pixels, ccoeff-normed>"),
        (cusight.DiffEncoder((20, 30, 3)), "<DiffEncoder: 20 x 30 x 3, threshold 20, cpu>"),
        (cusight.DiffDecoder((20, 30)), "<DiffDecoder: 20 x 30, cpu>"),
        (cusight.SparseDiff((20, 30)), "<SparseDiff: of 20 x 30, cpu>"),
        (cusight.ContourMapper((20, 30)), "<ContourMapper: 20 x 30 pixels, uint8, cpu>"),
    ]:
        assert repr(thing) == words
        thing.close()
        assert repr(thing) == words[:-1] + ", closed>"
    (tmp_path / "run.txt").write_bytes(b"64 48\n10 1 1 1\n20 2 2 0\n35 2 2 0\n")
    dataset = cusight.torch.EventDataset(tmp_path / "run.txt", windows=2)
    assert repr(dataset) == f"EventDataset({str(tmp_path / 'run.txt')!r}, 2 windows, 48 x 64 pixels, histogram)"
    dataset = cusight.torch.EventDataset([tmp_path / "run.txt"] * 2, starts=[[0, 5], []], length=20)
    assert repr(dataset) == "EventDataset(2 recordings, 2 windows, 48 x 64 pixels, histogram)"
    failed = cusight.Matcher.__new__(cusight.Matcher)
    assert repr(failed) == "<Matcher: not created>"
    assert repr(cusight.ray.StackEvents(device="cpu")) == "<StackEvents: cpu>"
    assert repr(cusight.PipelineCounts(3, 2, 1)) == "PipelineCounts(events=3, windows=2, skipped=1)"


def test_types_are_installed():
    """Type checkers read py.typed, and the module's stub that the build made."""
    from pathlib import Path

    folder = Path(cusight.__file__).parent
    assert (folder / "py.typed").exists()
    stub = (folder / "_core.pyi").read_text()
    there = {name for name in dir(cusight._core) if not name.startswith("_")}
    assert there == set(re.findall(r"^(?:def|class) (\w+)", stub, re.M))
