"""Files named by a path, a pattern or a list of them."""

from __future__ import annotations

import glob
import os
from typing import Sequence, Union

from ._errors import MissingFileError, Status, invalid, wrong_type

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


def list_files(function: str, paths: Paths) -> list[str]:
    """The files of a path, a pattern or a list of them, in order."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not hasattr(given, "__iter__") or isinstance(given, bytes):
        raise wrong_type(function, "paths", paths, "a path, a pattern or a list of them")
    found: list[str] = []
    for path in [os.fspath(one) for one in given]:
        matching = sorted(glob.glob(path, recursive=True)) if is_pattern(path) else [path]
        for name in matching:
            if not os.path.isfile(name):
                raise MissingFileError(Status.IO, f"{function}: {name} is not a file")
        found += map(os.path.abspath, matching)
    if not found:
        raise invalid(function, "paths", paths, "at least one file")
    return found


def is_pattern(path: str) -> bool:
    return glob.has_magic(path) and not os.path.exists(path)
