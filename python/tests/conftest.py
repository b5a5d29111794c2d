"""Fixtures: the frameworks that are there (tests of the others are skipped by name), and the C library."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

# Before the library is loaded: threads that wait must not take the cores from those that work.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import clib  # noqa: E402
import cusight  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

# The same in each run, so that no test passes or fails by chance, unless it is told: a number, or "random".
_seed = os.environ.get("CUSIGHT_TEST_SEED") or "1"
SEED = int.from_bytes(os.urandom(4), "little") if _seed == "random" else int(_seed, 0)


def pytest_report_header(config: pytest.Config) -> str:
    return f"CUSIGHT_TEST_SEED={SEED}, GPUs: {cusight.device_count()}, C library: {os.environ.get('CUSIGHT_LIBRARY', 'none')}"


class Space:
    """A framework on a device: makes arrays from NumPy's, and NumPy's from arrays."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.framework, _, device = name.partition("-")
        self.device = device or "cpu"

    def put(self, array: Any) -> Any:
        if self.framework == "numpy":
            return array
        if self.framework == "torch":
            import torch

            return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
        import cupy

        return cupy.asarray(array)

    def get(self, array: Any) -> Any:
        if self.framework == "numpy":
            assert type(array) is np.ndarray
            return array
        if self.framework == "torch":
            import torch

            assert isinstance(array, torch.Tensor) and array.device.type == self.device
            return array.cpu().numpy()
        import cupy

        assert isinstance(array, cupy.ndarray)
        return cupy.asnumpy(array)


SPACES = ["numpy", "torch", "torch-cuda", "cupy-cuda"]


def space_or_skip(name: str) -> Space:
    space = Space(name)
    if space.framework != "numpy" and importlib.util.find_spec(space.framework) is None:
        pytest.skip(f"{space.framework} is not installed")
    if space.device == "cuda" and not cusight.device_count():
        pytest.skip("there is no GPU")
    return space


@pytest.fixture(params=SPACES)
def space(request: pytest.FixtureRequest) -> Space:
    return space_or_skip(request.param)


@pytest.fixture
def gpu() -> Space:
    """PyTorch or CuPy on a GPU."""
    if not cusight.device_count():
        pytest.skip("there is no GPU")
    for name in ("torch-cuda", "cupy-cuda"):
        if importlib.util.find_spec(name.partition("-")[0]) is not None:
            return Space(name)
    pytest.skip("neither torch nor cupy is installed")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


@pytest.fixture(scope="session")
def c() -> clib.Library:
    """The C library, called by ctypes."""
    path = os.environ.get("CUSIGHT_LIBRARY")
    if not path:
        pytest.skip("CUSIGHT_LIBRARY does not name libcusight.so")
    return clib.Library(path)


@pytest.fixture
def events(rng: np.random.Generator) -> Any:
    """5000 random events in 48 x 64 pixels, a few of them outside."""
    n = 5000
    x = rng.integers(0, 66, n).astype(np.uint16)
    y = rng.integers(0, 49, n).astype(np.uint16)
    p = rng.integers(0, 2, n).astype(np.uint8)
    t = np.sort(rng.integers(1000, 90_000, n)).astype(np.int64)
    return cusight.events.Events(x, y, p, t)
