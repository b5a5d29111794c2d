"""Builds without CUDA, and how to get one with it."""

from __future__ import annotations

import os
import warnings
from typing import TypedDict, cast

from . import _core

HOW = "With CUDA: CUSIGHT_CUDA=ON pip install . (docs/python.md, Installing)"
_SIGNS = ("/dev/nvidiactl", "/usr/lib/wsl/lib/libcuda.so.1")  # of a GPU, as in cmake/gpu.cmake


class DeviceInfo(TypedDict):
    """What `device_info` returns."""

    name: str
    major: int
    minor: int
    multiprocessors: int
    l2_bytes: int
    shared_bytes: int
    memory_total: int
    memory_free: int
    driver_version: int
    runtime_version: int


def device_count() -> int:
    """How many GPUs can be used."""
    return _core.device_count()


def device_info(device: int) -> DeviceInfo:
    """Name, compute capability, sizes in bytes and versions of CUDA of a GPU, from 0. Raises ValueError if there is none of this number,
    RuntimeError if there is none at all."""
    return cast(DeviceInfo, _core.device_info(device))


def hint(message: str) -> str:
    """What an error of a build without CUDA says besides."""
    return "" if _core.cuda_built_for() else f". {HOW}"


def warn_of_unused_gpu() -> None:
    """Warns once per process, at the import of the package, if the machine has a GPU that this build cannot use and nothing hides it."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    if not _core.cuda_built_for() and not hidden and any(map(os.path.exists, _SIGNS)):
        text = f"this machine has a GPU, which this build of cusight cannot use: it has no CUDA code. {HOW}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
