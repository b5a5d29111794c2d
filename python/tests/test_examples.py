"""Every example runs: scripts as programs, notebooks with nbclient."""

from __future__ import annotations

import runpy
import subprocess
import sys
import types
from pathlib import Path

import cusight
import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name, *arguments):
    done = subprocess.run([sys.executable, str(EXAMPLES / name), *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_train():
    out = run("train.py")
    assert "epoch 1: 15 windows" in out


def test_match_template():
    out = run("match_template.py")
    assert "smallest at x 200, y 100" in out and "match at x 200, y 100, score 1.000" in out


def test_match_boxes():
    assert run("match_boxes.py") == "32 boxes in 20 frames, 0 lost\n"
    if not cusight.device_count():
        return
    pytest.importorskip("torch")
    assert run("match_boxes.py", "--device", "cuda") == "32 boxes in 20 frames, 0 lost\n"


def test_match_poses(tmp_path):
    found = run("match_poses.py").splitlines()
    assert len(found) == 3 and any(", angle -137.5, scale 1.00, score 0.99" in line for line in found), found
    pytest.importorskip("cv2")
    run("match_poses.py", str(tmp_path / "found.png"))
    assert (tmp_path / "found.png").stat().st_size > 1000


def test_video_heatmap(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("PyNvVideoCodec")
    if not cusight.device_count():
        pytest.skip("there is no GPU")
    video = next(iter(sorted(Path("/usr/share").rglob("*.mp4"))), None)
    if video is None:
        pytest.skip("there is no video")
    assert "frames in" in run("video_heatmap.py", str(video), str(tmp_path / "last.ppm"))
    assert "with motion" in run("motion_cameras.py", str(video), "--cameras", "2", "--frames", "20")
    assert (tmp_path / "last.ppm").stat().st_size > 100


class Decoder:
    """What motion_cameras.py uses of PyNvVideoCodec.ThreadedDecoder: NV12 frames in which a thing moves, in memory that is reused."""

    def __init__(self, video, buffer_size):
        assert video == "street.mp4"
        self.frames, self.given, self.ended = [np.zeros((120, 160), np.uint8) for _ in range(buffer_size)], 0, False

    def __len__(self):
        return 60

    def get_batch_frames(self, count):
        assert not self.ended and count <= len(self.frames)
        count = min(count, len(self) - self.given)
        for i, frame in enumerate(self.frames[:count]):
            at = 2 * (self.given + i)
            frame[:80], frame[80:] = 60, 128
            frame[20:60, at : at + 30] = 200
        self.given += count
        return self.frames[:count]

    def end(self):
        self.ended = True


def test_motion_cameras_with_a_decoder_on_the_cpu(monkeypatch, capsys):
    waits = []
    torch = types.SimpleNamespace(from_dlpack=lambda frame: frame, cuda=types.SimpleNamespace(synchronize=lambda: waits.append(1)))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "PyNvVideoCodec", types.SimpleNamespace(ThreadedDecoder=Decoder))
    detector = cusight.MotionDetector
    monkeypatch.setattr(cusight, "device_count", lambda: 1)
    monkeypatch.setattr(cusight, "MotionDetector", lambda shape, cameras, device: detector(shape, cameras, min_area=50))
    example = runpy.run_path(str(EXAMPLES / "motion_cameras.py"))
    assert example["main"](["street.mp4", "--cameras", "3", "--frames", "20"]) == 0
    out = capsys.readouterr().out
    assert "3 cameras of 160 x 80, 3 boxes" in out and "with motion" in out and "motion alone" in out
    assert len(waits) == 2 * (1 + 3) + 1
    monkeypatch.setattr(Decoder, "__len__", lambda self: 10)
    with pytest.raises(SystemExit, match="too short"):
        example["main"](["street.mp4"])


@pytest.mark.parametrize("notebook", sorted(p.name for p in EXAMPLES.glob("*.ipynb")))
def test_notebook(notebook):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("matplotlib")
    pytest.importorskip("ipykernel")
    content = nbformat.read(EXAMPLES / notebook, as_version=4)
    nbclient.NotebookClient(content, timeout=120, kernel_name="python3").execute()
    pictures = [o for c in content.cells if c.cell_type == "code" for o in c.outputs if "image/png" in o.get("data", {})]
    assert pictures


def test_there_is_a_notebook_for_each_algorithm():
    assert {p.stem for p in EXAMPLES.glob("*.ipynb")} == {"events", "framediff", "hsv", "integral", "match", "stereo"}
