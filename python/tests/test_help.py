"""help() of every class that is made or called shows an example, and the examples of all classes and functions run."""

from __future__ import annotations

import dataclasses
import doctest
import enum
import importlib
import inspect
import sys
import types

import cusight
import cusight.rvt
import numpy as np
import pytest

from test_cameras import Device, bytes_of
from test_datasets import clean, dsec, m3ed  # noqa: F401  (fixtures)
from test_interface import MODULES
from test_rvt import boxes

PUBLIC = {}
for module in [*MODULES, cusight.rvt]:
    for name in module.__all__:
        thing = getattr(module, name)
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and thing.__module__.startswith("cusight"):
            PUBLIC.setdefault(thing, f"{module.__name__}.{name}")
EXAMPLES = {name: thing for thing, name in PUBLIC.items() if ">>>" in (thing.__doc__ or "")}
# Packages that an example needs.
NEEDED = {"DSEC": ["h5py", "cv2"], "M3ED": ["h5py", "cv2"], "FrameWriter": ["h5py"]}


def is_record(thing):
    """What another class's call gives: a tuple with names, numbers, a constant or an error. Options are made by the user."""
    numbers = dataclasses.is_dataclass(thing) and not issubclass(thing, cusight._objects.Options)
    return numbers or issubclass(thing, (tuple, enum.Enum, BaseException))


def test_every_class_has_an_example():
    without = {name for thing, name in PUBLIC.items() if inspect.isclass(thing) and name not in EXAMPLES and not is_record(thing)}
    assert not without and len(EXAMPLES) > 30


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, request, monkeypatch, tmp_path, rng):
    """What needs a data set or a camera gets one that is made here."""
    short = name.rpartition(".")[2]
    for package in NEEDED.get(short, []):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    if short in ("DSEC", "M3ED"):
        request.getfixturevalue(short.lower())
        (tmp_path / "train").mkdir()
        (tmp_path / "train/zurich_city_01_a").symlink_to(tmp_path)
    elif short == "Prophesee":
        for split in ("train", "val", "test"):
            (tmp_path / "gen1" / split).mkdir(parents=True)
        np.save(tmp_path / "gen1/val/1_bbox.npy", boxes((300_000, 5, 5, 50, 50)))
        with cusight.events.EventWriter(tmp_path / "gen1/val/1_td.dat", (240, 304), format="DAT") as writer:
            writer.write([1, 2, 3], [1, 2, 3], [1, 0, 1], [270_000, 280_000, 290_000])
    elif short == "Camera":
        with cusight.events.EventWriter(tmp_path / "run.raw", (720, 1280), format="EVT3") as writer:
            writer.write([1, 2, 3], [1, 2, 3], [1, 0, 1], [1000, 15_000, 40_000])
        driver = types.SimpleNamespace(open=lambda *a, **k: Device([bytes_of(tmp_path / "run.raw")], shape=(720, 1280)))
        monkeypatch.setitem(sys.modules, "neuromorphic_drivers", driver)
    for test in doctest.DocTestFinder(recurse=False).find(EXAMPLES[name], name, importlib.import_module("cusight"), globs={}):
        ran = doctest.DocTestRunner().run(test)
        assert ran.attempted and not ran.failed
