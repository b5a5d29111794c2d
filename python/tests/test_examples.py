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


def test_the_chapter(tmp_path, monkeypatch, rng):
    """The blocks of docs/python.md that need no data set and no cluster, with what they take as given; on the CPU."""
    text = (EXAMPLES.parent.parent / "docs" / "python.md").read_text().replace('device="cuda"', 'device="cpu"')
    blocks = [block.partition("```")[0] for block in text.split("```python\n")[1:]]
    blocks = [block for block in blocks if "cusight.ray" not in block and "cusight.datasets" not in block]
    assert len(blocks) == 4
    monkeypatch.chdir(tmp_path)
    gray, n = rng.integers(0, 256, (80, 90), dtype=np.uint8), 20_000
    x, y = rng.integers(0, 1280, n).astype(np.uint16), rng.integers(0, 720, n).astype(np.uint16)
    p, t = rng.integers(0, 2, n).astype(np.uint8), np.sort(rng.integers(1_980_000, 2_020_000, n))
    (tmp_path / "runs").mkdir()
    for name in ("run.h5", "a.h5", "b.h5", "runs/c.h5"):
        with cusight.events.EventWriter(name, (720, 1280)) as writer:
            writer.write(x, y, p, t)
    boxes = np.zeros(2, [("t", np.int64), ("x", np.int32)])
    boxes["t"] = 2_000_000, 2_010_000
    given = {"image": gray, "frame": gray, "gray": gray, "template": gray[:20, :20], "gray_part": gray[:16, :16], "train": len}
    given |= {"x": x[:500], "y": y[:500], "p": p[:500], "t": t[:500], "boxes_a": boxes, "boxes_b": boxes}
    given |= {"frames": np.zeros((2, 600, 800), np.uint8), "times": [0, 1000], "cusight": cusight}
    for block in blocks:
        exec(block, given)  # the last block's frames are the generator's
        given["frames"] = np.zeros((2, 600, 800), np.uint8)


def test_train():
    out = run("train.py")
    assert "epoch 1: 14 windows" in out


def test_match_template():
    out = run("match_template.py")
    assert "smallest at x 200, y 100" in out and "match at x 200, y 100, score 0" in out


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
