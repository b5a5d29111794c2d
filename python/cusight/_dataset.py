"""The arguments of EventDataset: windows of each recording, caches, sizes."""

from __future__ import annotations

import os
from typing import Any, Sequence

from . import _core
from ._errors import LONG, Shown, integer, invalid, wrong_type
from ._events import duration, window_rows


def checked_cache(cache: Any) -> int | str | None:
    if cache is None or isinstance(cache, (str, os.PathLike)):
        return None if cache is None else os.path.abspath(os.fspath(cache))
    expected = "a folder or a number of bytes"
    if isinstance(cache, bool):
        raise wrong_type("EventDataset", "cache", cache, expected)
    return integer("EventDataset", "cache", cache, 1, LONG, expected)


def is_list(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes)) and getattr(value, "shape", None) != ()


def for_each(name: str, value: Any, paths: list[str], many: bool) -> list[Any]:
    """One of an argument for each file."""
    if value is None or not many:
        return [value] * len(paths)
    if not is_list(value):
        raise wrong_type("EventDataset", name, value, f"a list with one for each of {len(paths)} files")
    if len(value) != len(paths):
        raise invalid("EventDataset", name, Shown(f"a {type(value).__name__} of {len(value)}"), f"{len(paths)}, one for each file")
    return list(value)


def windows_at_times(path: str, starts: Any, ends: Any, length: Any, unit: int) -> Any:
    """The windows at given times, (n, 2) int64 microseconds."""
    import numpy

    of_file = f" of {os.path.basename(path)}" if path else ""
    if (starts is None) + (ends is None) + (length is None) != 1:
        given = ", ".join(name for name, value in (("starts", starts), ("ends", ends), ("length", length)) if value is not None)
        raise invalid("EventDataset", "windows", Shown(f"given by {given}{of_file}"), "two of starts, ends and length")
    times: list[Any] = [
        None if value is None else _times(name + of_file, value, unit)
        for name, value in (("starts", starts), ("ends", ends))
    ]
    first, last = times
    if length is not None:
        first = last - _microseconds(length, unit) if first is None else first
        last = first + _microseconds(length, unit) if last is None else last
    if len(first) != len(last):
        raise invalid("EventDataset", "ends" + of_file, Shown(f"{len(last)} times"), f"{len(first)} like starts")
    wrong = numpy.flatnonzero(first > last)
    if len(wrong):
        k = wrong[0]
        raise invalid("EventDataset", f"ends{of_file}[{k}]", Shown(f"{last[k]} us"), f"at least its start, {first[k]} us")
    return numpy.stack([first, last], 1)


def listed_windows(path: str, rows: Any) -> Any:
    """Windows by numbers of events, (n, 2) int64."""
    import numpy

    name = f"windows of {os.path.basename(path)}" if path else "windows"
    listed = window_rows("EventDataset", name, rows).astype(numpy.int64)
    wrong = numpy.flatnonzero((listed[:, 0] < 0) | (listed[:, 1] < listed[:, 0]))
    if len(wrong):
        k = wrong[0]
        raise invalid("EventDataset", f"{name}[{k}]", Shown(f"{listed[k, 0]}, {listed[k, 1]}"), "first <= last, from 0")
    return listed


def too_far(path: str, window: int, row: Any, count: int) -> Exception:
    return invalid("EventDataset", f"windows[{window}]", Shown(f"{row[0]}, {row[1]}"), f"at most {count}, the events of {path}")


def _times(name: str, times: Any, unit: int) -> Any:
    return _core.event_times("EventDataset", name, times, unit)


def _microseconds(length: Any, unit: int) -> int:
    """Microseconds of a length, at least 1."""
    if isinstance(length, bool) or not (isinstance(length, str) or hasattr(length, "__float__")):
        raise wrong_type("EventDataset", "length", length, "a duration such as '50ms' or a number")
    found = duration(length) if isinstance(length, str) else int(_times("length", [length], unit)[0])
    if found < 1:
        raise invalid("EventDataset", "length", length, "a duration such as '50ms' or a number, at least a microsecond")
    return found


def common_shape(files: Sequence[Any]) -> tuple[int, int]:
    shape: tuple[int, int] = files[0].shape
    for file in files:
        if file.shape != shape:
            raise invalid(
                "EventDataset", "shape", None, f"a size for all: {file.path} has {file.shape}, {files[0].path} has {shape} (rows, cols)"
            )
    return shape
