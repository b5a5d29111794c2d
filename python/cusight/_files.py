"""Files named by a path, a pattern or a list of them."""

from __future__ import annotations

import glob
import importlib
import os
import stat
from typing import Any, Sequence, Union

from ._errors import MissingFileError, Status, UnsupportedError, invalid, wrong_type

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


def list_files(function: str, paths: Paths) -> list[str]:
    """The files of a path, a pattern or a list of them, in order."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not hasattr(given, "__iter__") or isinstance(given, bytes):
        raise wrong_type(function, "paths", paths, "a path, a pattern or a list of them")
    found: list[str] = []
    listed: list[Any] = list(given)
    for one in listed:
        if not isinstance(one, (str, os.PathLike)):
            raise wrong_type(function, "paths", one, "a path, a pattern or a list of them")
    for path in [os.fspath(one) for one in listed]:
        matching = sorted(glob.glob(path, recursive=True)) if is_pattern(path) else [path]
        for name in matching:
            if not os.path.isfile(name):
                raise MissingFileError(Status.IO, f"{function}: {name} is not a file")
        found += map(os.path.abspath, matching)
    if not found:
        raise invalid(function, "paths", paths, "at least one file that exists")
    return found


def is_pattern(path: str) -> bool:
    return glob.has_magic(path) and not os.path.exists(path)


def optional(function: str, module: str, package: str, purpose: str) -> Any:
    """A module that only some uses need."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UnsupportedError(Status.UNSUPPORTED, f"{function}: {purpose} need {module}: pip install {package}") from None


def h5py(function: str) -> Any:
    """h5py, with the filters of hdf5plugin if that is installed."""
    try:
        importlib.import_module("hdf5plugin")
    except ImportError:
        pass
    return optional(function, "h5py", "h5py", "maps and ground truth in HDF5")


def existing(function: str, *candidates: str) -> str:
    """The first of these paths that exists."""
    for path in candidates:
        if os.path.exists(path):
            return path
    raise MissingFileError(Status.IO, f"{function}: there is no {' or '.join(candidates)}")


def regular(function: str, path: str, most: int) -> str:
    """`path`, if it is a regular file of at most `most` bytes: labels, timestamps and pictures of data sets are not trusted."""
    about = os.stat(path)
    if not stat.S_ISREG(about.st_mode):
        raise invalid(function, "path", path, "a regular file")
    if about.st_size > most:
        raise invalid(function, "path", path, f"a file of at most {most} bytes, not {about.st_size}")
    return path
