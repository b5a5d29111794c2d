"""Every example runs: scripts as programs, notebooks with nbclient."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cusight
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name, *arguments):
    done = subprocess.run([sys.executable, str(EXAMPLES / name), *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
