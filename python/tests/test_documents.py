"""Every block of Python in the documents runs in a process of its own, and prints what the comment behind its print says."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import cusight
import numpy as np
import pytest

from test_datasets import clean, dsec, m3ed  # noqa: F401  (fixtures)

ROOT = Path(__file__).resolve().parents[2]
GIVEN = """
from typing import Any
import cusight
import numpy
rng = numpy.random.default_rng(1)
image = frame = gray = rng.integers(0, 256, (96, 128), numpy.uint8)
template = gray_part = templ = image[30:54, 40:72].copy()
run = cusight.events.open("run.h5")
x, y, p, t = run.read(1000)
recording = run
boxes_a = boxes_b = numpy.array([(60_000,), (70_000,)], [("t", "i8")])
frames, times = rng.integers(0, 256, (3, 600, 800), numpy.uint8), numpy.arange(3) * 10_000
def train(batch: Any) -> None:
    assert batch.shape[1:] == (720, 1280, 2)
"""


# A package neuromorphic_drivers whose camera gives the recording run.raw.
CAMERA = f"""
import pathlib, sys
sys.path.append({str(Path(__file__).parent)!r})
from test_cameras import Device, bytes_of
def open(*arguments, **options):
    return Device([bytes_of(pathlib.Path("run.raw"))], shape=(720, 1280))
"""


def blocks():
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = file.read_text(encoding="utf-8")
        for block in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S):
            yield pytest.param(block[1], id=f"{file.name}:{text.count(chr(10), 0, block.start()) + 1}")


def test_there_are_blocks():
    assert len(list(blocks())) >= 8


@pytest.mark.parametrize("block", list(blocks()))
def test_block(block, rng, tmp_path, request):
    if re.search(r"\bray\.", block):
        pytest.importorskip("ray")
    if "ops." in block:
        pytest.importorskip("torch")
    if "datasets." in block:
        request.getfixturevalue("dsec"), request.getfixturevalue("m3ed")
        (tmp_path / "train").mkdir()
        (tmp_path / "train/zurich_city_01_a").symlink_to(tmp_path)
    n = 210_000
    columns = [rng.integers(0, 1280, n, np.uint16), rng.integers(0, 720, n, np.uint16), rng.integers(0, 2, n, np.uint8), np.arange(n) // 2]
    (tmp_path / "runs").mkdir()
    for name in ("run.h5", "a.h5", "b.h5", "runs/1.h5"):
        with cusight.events.EventWriter(tmp_path / name, (720, 1280)) as writer:
            writer.write(*columns)
    if "cameras." in block:
        with cusight.events.EventWriter(tmp_path / "run.raw", (720, 1280), format="EVT3") as writer:
            writer.write(*columns)
        (tmp_path / "neuromorphic_drivers.py").write_text(CAMERA)
    device = "cuda" if cusight.device_count() and importlib.util.find_spec("torch") else "cpu"
    if device == "cpu":  # and few processes
        block = block.replace('"cuda"', '"cpu"').replace("num_gpus=1", "num_cpus=1").replace("size=8", "size=1")
    moved = "" if device == "cpu" else "import torch\nframes = torch.from_numpy(frames).cuda()\n"
    script = f"{GIVEN}{moved}{block}"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:1] == re.findall(r"^ *print\(.*\) +# (.*)$", block, re.M)[:1] or "m[" in block
