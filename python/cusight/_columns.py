"""Events in the forms in which other packages have them, taken apart into four columns, whose values the module converts."""

from __future__ import annotations

import os
from typing import Any, Callable, Literal

from ._errors import Shown, choice, invalid, wrong_type

TimeUnit = Literal["us", "ms", "s", "ns"]
_UNITS = {"us": 1, "ms": 2, "s": 3, "ns": 4}
# As Metavision and tonic, Monash's and evlib's tuples, dv and Polars frames, the aedat package name them.
_NAMES = {
    "x": ("x", "xs"),
    "y": ("y", "ys"),
    "p": ("p", "ps", "polarity", "polarities", "pol", "on"),
    "t": ("t", "ts", "timestamp", "timestamps", "time"),
}
_EXPECTED = "x, y, p (or polarity, pol, on) and t (or ts, timestamp, time)"


def unit_number(function: str, time_unit: object) -> int:
    """What the module calls a unit of time; 0: microseconds for integers, seconds for floats."""
    return 0 if time_unit is None else choice(function, "time_unit", time_unit, _UNITS)


def four_columns(function: str, x: Any, y: Any, p: Any, t: Any, columns: str | None) -> tuple[Any, Any, Any, Any]:
    """The arguments of a function that takes four arrays, or all events as `x`."""
    if y is None and p is None and t is None:
        return split(function, x, columns)
    if columns is not None:
        raise invalid(function, "columns", columns, "None with four arrays")
    return x, y, p, t


def split(function: str, events: Any, columns: str | None) -> tuple[Any, Any, Any, Any]:
    """x, y, p and t of events in any form. Nothing is copied."""
    if isinstance(events, (str, os.PathLike)):
        expected = "events: cusight.events.open(path).read() has those of a file, .frames() makes frames"
        raise wrong_type(function, "events", os.fspath(events), expected)
    if hasattr(events, "frames") and hasattr(events, "read"):  # Recording
        expected = "its events: recording.read() has all, a loop over it some at a time, .frames() makes frames"
        raise wrong_type(function, "events", events, expected)
    if not hasattr(events, "shape") and callable(getattr(events, "numpy", None)):  # dv_processing.EventStore
        events = events.numpy()
    names, get = _named(events)
    if names is not None:
        if columns is not None:
            raise invalid(function, "columns", columns, f"None: events has columns with names, {_quoted(names)}")
        found = [next((name for name in _NAMES[key] if name in names), None) for key in "xypt"]
        if None in found:
            raise invalid(function, "events", Shown(f"columns {_quoted(names)}"), f"columns {_EXPECTED}")
        x, y, p, t = map(get, found)
        return x, y, p, t
    if columns is not None and (not isinstance(columns, str) or sorted(columns) != ["p", "t", "x", "y"]):
        raise invalid(function, "columns", columns, "the letters x, y, p and t in the order of the columns, such as 'txyp'")
    if isinstance(events, (list, tuple)):
        if len(events) != 4:
            raise invalid(function, "events", Shown(f"a {type(events).__name__} of {len(events)}"), "four columns, such as [x, y, p, t]")
        order = columns or "xypt"
        x, y, p, t = (events[order.index(key)] for key in "xypt")
        return x, y, p, t
    shape = getattr(events, "shape", None)
    if shape is None:
        raise wrong_type(function, "events", events, f"an array, or columns {_EXPECTED}")
    if len(shape) != 2 or shape[1] != 4:
        raise invalid(function, "events", Shown(f"an array of shape {tuple(shape)}"), "shape (n, 4), or fields with names")
    if columns is None:
        raise invalid(function, "columns", None, "the order of the columns of an array of shape (n, 4), such as 'txyp'")
    if isinstance(events, memoryview):  # has no columns
        import numpy

        events = numpy.asarray(events)
    x, y, p, t = (events[:, columns.index(key)] for key in "xypt")
    return x, y, p, t


def plain_column(function: str, name: str, column: Any, time: bool) -> tuple[Any, bool]:
    """A NumPy array of numbers, and whether they are times of a type of NumPy's, as microseconds; called by the module."""
    import numpy

    array = numpy.asarray(column)
    if not time or array.dtype.kind not in "mM":
        return array, False
    nowhen = numpy.flatnonzero(numpy.isnat(array))
    if len(nowhen):
        raise invalid(function, f"{name}[{nowhen[0]}]", Shown("NaT"), "a time")
    return array.astype(f"{array.dtype.kind}8[us]").view("int64"), True


def _quoted(names: Any) -> str:
    return ", ".join(repr(name) for name in names)


def _named(events: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The names of the columns and what gets a column; None if they have no names."""
    if isinstance(events, tuple) and hasattr(events, "_fields"):
        return events._fields, lambda name: getattr(events, name)
    fields = getattr(getattr(events, "dtype", None), "names", None)
    if fields:
        return fields, lambda name: events[name]
    if callable(getattr(events, "keys", None)):  # dict, pandas, h5py's groups, .npz
        return list(events.keys()), lambda name: events[name]
    if hasattr(events, "columns") and hasattr(events, "__getitem__"):  # Polars
        return list(events.columns), lambda name: events[name]
    return None, lambda name: None
