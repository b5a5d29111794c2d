"""Builds without CUDA, and how to get one with it."""

from __future__ import annotations

import os
import warnings

from . import _core

HOW = "With CUDA: CUSIGHT_CUDA=ON pip install . (docs/python.md, Installing)"
_SIGNS = ("/dev/nvidiactl", "/usr/lib/wsl/lib/libcuda.so.1")  # of a GPU, as in cmake/gpu.cmake


def hint(message: str) -> str:
    """What an error of a build without CUDA says besides."""
    return "" if _core.cuda_built_for() else f". {HOW}"


def warn_of_unused_gpu() -> None:
    """Warns once per process, at the import of the package, if the machine has a GPU that this build cannot use and nothing hides it."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    if not _core.cuda_built_for() and not hidden and any(map(os.path.exists, _SIGNS)):
        text = f"this machine has a GPU, which this build of cusight cannot use: it has no CUDA code. {HOW}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
