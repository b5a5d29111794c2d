"""Event recordings as a map-style data set for PyTorch's DataLoader (and for anything else that takes one; PyTorch is optional).

    dataset = cusight.torch.EventDataset("runs/*.h5", windows="10ms", representation="voxel_grid", bins=5)
    for frames in torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=2):
        train(frames)  # (8, bins, rows, cols)
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from bisect import bisect_right
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Callable, Generic, Iterable, Sequence, TypedDict, overload

from . import _core
from . import events as _events
from ._columns import TimeUnit, unit_number
from ._errors import LONG, Shown, integer, invalid, wrong_type
from ._events import (
    EventStacker,
    Representations,
    Windowing,
    Windows,
    duration,
    frame_size,
    kinds_of,
    kinds_text,
    representations,
    window_rows,
    windowing,
)
from ._files import Paths, is_pattern, list_files
from ._frames import windows_within
from ._types import Labels, Lists, Pairs, TypeVar

if TYPE_CHECKING:
    import torch as _torch
    from torch import Tensor
    from torch.utils.data import Dataset as _Dataset
    from typing_extensions import Unpack

    from ._events import Kind, Representation, SeveralKinds
else:
    try:
        import torch as _torch
        from torch.utils.data import Dataset as _Dataset
    except ImportError:
        _torch, _Dataset = None, Generic

__all__ = ["EventDataset"]


def __dir__() -> list[str]:
    return __all__


ItemT = TypeVar("ItemT", default=Any)
FrameT = TypeVar("FrameT")  # what `transform` makes of a frame
_OPEN = 16  # recordings that a process keeps open
_PIECE = 1 << 16  # events read at once


class DatasetOptions(TypedDict, total=False):
    """What the data sets of `cusight.datasets` pass on to EventDataset."""

    shape: Sequence[int] | None
    channels_first: bool
    cache: int | str | os.PathLike[str] | None
    skip_bad: bool
    threads: int
    max_memory: int
    max_chunk: int


class _Options(_events.SizelessOptions, total=False):
    """The options of EventDataset that do not change what an index gives."""

    windows: Windows | Pairs | Iterable[Pairs] | None
    bins: int | None
    starts: Lists | None
    ends: Lists | None
    length: int | float | str | None
    time_unit: TimeUnit | None
    shape: Sequence[int] | None
    channels_first: bool
    cache: int | str | os.PathLike[str] | None


class EventDataset(_Dataset[ItemT]):  # type: ignore[misc, unused-ignore]
    """The windows of recordings: ``dataset[i]`` is the frame of window i, ``len(dataset)`` their number.

    paths: a recording, a pattern ("runs/*.h5") or a list of them. Windows are numbered from file to file.
    windows: of each recording, as `cusight.stack_events`; 200,000 events by default. (n, 2) integers are numbers of events there too: the
        first event and the one after the last of each window. representation, bins: as there.
    starts, ends, length: windows at these times instead, [start, end): both arrays, or one of them and the length of all windows ("50ms",
        or a number like the times). Integers are microseconds of the recording's clock and floats seconds, unless `time_unit` is "us",
        "ms", "s" or "ns". They may overlap, be in any order and have no events.
    labels: one for each window, which makes ``dataset[i]`` a pair (frame, label).
    shape: (rows, cols) of the frames; by default the sensor's, which all recordings must then share.
    channels_first: (channels, rows, cols) instead of (rows, cols, channels).
    transform: called with each frame.
    cache: frames are made once and kept: in a folder of this name, for all processes and runs, or in memory, at most this number of
        bytes in each process. A changed recording or option makes new ones; nothing is removed from a folder.
    options: of `cusight.events.open`.

    For a pattern or a list, (n, 2) windows, starts, ends and labels are lists with an array for each file, in the order of the files (`paths`); a label
    that is no array counts for all windows of the file.
    A frame is a torch.Tensor on the CPU if PyTorch is installed, else a NumPy array; a list of them for a list of representations.
    Pickles as its arguments; every process opens the files itself. Recordings in a format without an index (EVT2, EVT3, text) are read
    once when the data set is made, unless times are given, and up to the window for each frame.
    Raises FileNotFoundError, ValueError, TypeError and what `cusight.events.open` raises.
    """

    @overload
    def __init__(
        self: EventDataset[Tensor], paths: Paths, *, representation: Kind | Representation = ..., labels: None = ...,
        transform: None = ..., **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventDataset[list[Tensor]], paths: Paths, *, representation: SeveralKinds, labels: None = ..., transform: None = ...,
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventDataset[FrameT], paths: Paths, *, representation: Kind | Representation = ..., labels: None = ...,
        transform: Callable[[Any], FrameT], **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventDataset[list[FrameT]], paths: Paths, *, representation: SeveralKinds, labels: None = ...,
        transform: Callable[[Any], FrameT], **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventDataset[tuple[Tensor, Any]], paths: Paths, *, representation: Kind | Representation = ..., labels: Labels,
        transform: None = ..., **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventDataset[tuple[list[Tensor], Any]], paths: Paths, *, representation: SeveralKinds, labels: Labels,
        transform: None = ..., **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventDataset[tuple[FrameT, Any]], paths: Paths, *, representation: Kind | Representation = ..., labels: Labels,
        transform: Callable[[Any], FrameT], **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventDataset[tuple[list[FrameT], Any]], paths: Paths, *, representation: SeveralKinds, labels: Labels,
        transform: Callable[[Any], FrameT], **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventDataset[Any],
        paths: Paths,
        *,
        representation: Representations = ...,
        labels: Labels | None = ...,
        transform: Callable[[Any], Any] | None = ...,
        **options: Unpack[_Options],
    ) -> None: ...
    def __init__(
        self,
        paths: Paths,
        *,
        windows: Windows | Pairs | Iterable[Pairs] | None = None,
        representation: Representations = "histogram",
        bins: int | None = None,
        starts: Lists | None = None,
        ends: Lists | None = None,
        length: int | float | str | None = None,
        time_unit: TimeUnit | None = None,
        labels: Labels | None = None,
        shape: Sequence[int] | None = None,
        channels_first: bool = True,
        transform: Callable[[Any], Any] | None = None,
        cache: int | str | os.PathLike[str] | None = None,
        **options: Unpack[_events.SizelessOptions],
    ) -> None:
        self.paths: list[str] = list_files("EventDataset", paths)
        many = not isinstance(paths, (str, os.PathLike)) or is_pattern(os.fspath(paths))
        self.representation, self.bins = representation, bins
        representations("EventDataset", representation, bins)  # raises what is wrong
        self._kinds = kinds_of(representation, bins)
        self.channels_first, self.transform = channels_first, transform
        self.cache = _checked_cache(cache)
        self._options = options
        self._process = _Process()
        at_times = not (starts is None and ends is None and length is None)
        if at_times and windows is not None:
            raise invalid("EventDataset", "windows", windows, "None with starts, ends and length")
        listed = _is_list(windows)
        self.windows: Windowing | None = None
        if not at_times and not listed:
            self.windows = windowing("EventDataset", 200_000 if windows is None else windows)
            self.windows._options()
        self._by_time = at_times or bool(self.windows and self.windows.unit == "duration")
        spans: list[Any] = [None] * len(self.paths)
        if listed:
            spans = [_rows(path if many else "", one) for path, one in zip(self.paths, _each("windows", windows, self.paths, many))]
        if at_times:
            given = [_each(name, value, self.paths, many) for name, value in (("starts", starts), ("ends", ends))]
            unit = unit_number("EventDataset", time_unit)
            spans = [_spans(path if many else "", a, b, length, unit) for path, a, b in zip(self.paths, *given)]
        with ThreadPoolExecutor(min(16, len(self.paths))) as pool:
            self._files = list(pool.map(self._scan, self.paths, spans))
        self.shape = _common_shape(self._files) if shape is None else frame_size("EventDataset", shape)
        frame_size("EventDataset", self.shape)
        self._totals = list(accumulate(file.count for file in self._files))
        self._labels = _each("labels", labels, self.paths, many)
        for file, of_file in zip(self._files, self._labels):
            if _is_list(of_file) and len(of_file) != file.count:
                found = Shown(f"a {type(of_file).__name__} of {len(of_file)}")
                raise invalid("EventDataset", "labels", found, f"{file.count}, one for each window of {file.path}")
        self._labeled = labels is not None

    def __len__(self) -> int:
        return self._totals[-1]

    def __getitem__(self, index: int) -> ItemT:
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"window {index} of {len(self)}")
        number = bisect_right(self._totals, index)
        window = index - (self._totals[number - 1] if number else 0)
        frames = [self._finish(frame) for frame in self._frames(self._files[number], window)]
        result: Any = frames if isinstance(self.representation, (list, tuple)) else frames[0]
        if self._labeled:
            label = self._labels[number]
            result = result, label[window] if _is_list(label) else label
        return result  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        files = repr(self.paths[0]) if len(self.paths) == 1 else f"{len(self.paths)} recordings"
        size = f"{self.shape[0]} x {self.shape[1]} pixels"
        return f"EventDataset({files}, {len(self):,} windows, {size}, {kinds_text(self.representation)})"

    def _finish(self, frame: Any) -> Any:
        if self.channels_first:
            frame = frame.transpose(2, 0, 1)
        if _torch is not None:
            frame = _torch.from_numpy(frame).contiguous()
        return frame if self.transform is None else self.transform(frame)

    # ---- Windows ---------------------------------------------------------------------------------------------------------

    def _scan(self, path: str, spans: Any) -> _File:
        """What is known of a recording, and how many windows it has."""
        with _events.open(path, **self._options) as recording:
            if spans is not None:
                if not self._by_time and recording.count is not None:
                    for k in (spans[:, 1] > recording.count).nonzero()[0]:
                        raise _too_far(path, k, spans[k], recording.count)
                return _File(path, recording.shape, len(spans), spans=spans)
            assert self.windows is not None
            count, first, last = recording.count, recording.first_time, recording.last_time
            if count is None or (last is None and count):
                count = 0
                for part in recording:
                    first = int(part.t[0]) if not count else first
                    count += len(part.t)
                    last = int(part.t[-1])
            first = first or 0
            extent = count if self.windows.unit == "count" else 0 if last is None else last - first + 1
            return _File(path, recording.shape, windows_within(extent, self.windows), first, count)

    def _bounds(self, file: _File, window: int) -> tuple[bool, int, int]:
        """Whether the window is in microseconds, or else in numbers of events; its first and the one after its last."""
        if file.spans is not None:
            start, end = (int(bound) for bound in file.spans[window])
            return self._by_time, start, end
        assert self.windows is not None
        start = window * (self.windows.stride or self.windows.length)
        if not self._by_time:
            return False, start, min(start + self.windows.length, file.events)
        start += file.first_time
        return True, start, start + self.windows.length

    def _frames(self, file: _File, window: int) -> list[Any]:
        """The frame of a window in each representation, (rows, cols, channels), this time's own."""
        bounds = self._bounds(file, window)
        if self.cache is None:
            return self._make(file, window, bounds)
        if isinstance(self.cache, int):
            return self._process.remember((file.path, window), self.cache, lambda: self._make(file, window, bounds))
        return _stored(self.cache, self._key(file, bounds), len(self._kinds), lambda: self._make(file, window, bounds))

    def _make(self, file: _File, window: int, bounds: tuple[bool, int, int]) -> list[Any]:
        import numpy

        recording, stacker = self._process.open(self, file.path)
        part = _read(recording, *bounds)
        if not bounds[0] and len(part.t) < bounds[2] - bounds[1]:
            raise _too_far(file.path, window, bounds[1:], bounds[1] + len(part.t))
        frames = stacker(*part, windows=numpy.array([[0, len(part.t)]], numpy.int64))
        return [frame[0] for frame in (frames if isinstance(frames, list) else [frames])]

    def _key(self, file: _File, bounds: tuple[bool, int, int]) -> str:
        """All that a frame depends on."""
        about = os.stat(file.path)
        kinds = [(kind, kind.map is not None and _hash_of(kind.map)) for kind in self._kinds]
        parts = (_core.version(), file.path, about.st_size, about.st_mtime_ns, sorted(self._options.items()), bounds, kinds, self.shape)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_process": _Process()}


def _hash_of(map: Any) -> str:
    import numpy

    return hashlib.sha256(numpy.ascontiguousarray(map).tobytes()).hexdigest()


class _File:
    """A recording and its windows: `count` of them, those of `spans` if they are at given times."""

    def __init__(
        self, path: str, shape: tuple[int, int], count: int, first_time: int = 0, events: int = 0, spans: Any = None
    ) -> None:
        self.path, self.shape, self.count, self.spans = path, shape, count, spans
        self.first_time, self.events = first_time, events


class _Process:
    """What a process has of its own: open recordings, a workspace, and frames that are kept. A forked process must not share the
    position in a file."""

    def __init__(self) -> None:
        self._pid = 0
        self._recordings: OrderedDict[str, _events.Recording] = OrderedDict()
        self._stacker: EventStacker | None = None
        self._kept: OrderedDict[Any, list[Any]] = OrderedDict()
        self._bytes = 0

    def open(self, dataset: EventDataset[Any], path: str) -> tuple[_events.Recording, EventStacker]:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._recordings = OrderedDict()
            self._stacker = EventStacker(dataset.shape, dataset.representation, bins=dataset.bins)
        if path not in self._recordings:
            while len(self._recordings) >= _OPEN:
                self._recordings.popitem(last=False)[1].close()
            self._recordings[path] = _events.open(path, **dataset._options)
        self._recordings.move_to_end(path)
        assert self._stacker is not None
        return self._recordings[path], self._stacker

    def remember(self, key: Any, limit: int, make: Callable[[], list[Any]]) -> list[Any]:
        """Copies of frames that are kept, or new ones; the least recently used go first."""
        if key not in self._kept:
            frames = make()
            size = sum(frame.nbytes for frame in frames)
            if size > limit:
                return frames
            self._kept[key] = frames
            self._bytes += size
            while self._bytes > limit:
                self._bytes -= sum(frame.nbytes for frame in self._kept.popitem(last=False)[1])
        self._kept.move_to_end(key)
        return [frame.copy() for frame in self._kept[key]]


def _read(recording: _events.Recording, by_time: bool, start: int, end: int) -> _events.Events:
    """The events of a window."""
    import numpy

    if not by_time:
        recording.seek_index(start)
        x, y, p, t = recording.read(max(end - start, 1))
        n = end - start
        return _events.Events(x[:n], y[:n], p[:n], t[:n])
    recording.seek(max(start, 0))
    parts: list[_events.Events] = []
    while not parts or parts[-1].t[-1] < end:
        part = recording.read(_PIECE)
        if not len(part.t):
            break
        parts.append(part)
    columns: list[Any] = [numpy.concatenate(column) for column in zip(*(parts or [part]))]
    return _events.Events(*(column[: numpy.searchsorted(columns[3], end)] for column in columns))


def _stored(folder: str, key: str, count: int, make: Callable[[], list[Any]]) -> list[Any]:
    """Frames from files of the folder; if it does not have them, new ones, which are left there. Not compressed, since that takes longer
    than making most frames."""
    import numpy

    paths = [os.path.join(folder, f"{key}-{k}.npy") for k in range(count)]
    try:
        return [numpy.load(path) for path in paths]
    except FileNotFoundError:
        pass
    frames = make()
    os.makedirs(folder, exist_ok=True)
    for path, frame in zip(paths, frames):
        number, part = tempfile.mkstemp(".part", dir=folder)
        try:
            with os.fdopen(number, "wb") as file:
                numpy.save(file, frame)
            os.replace(part, path)  # other processes see whole files only
        except BaseException:
            os.unlink(part)
            raise
    return frames


# ---- Arguments -----------------------------------------------------------------------------------------------------------


def _checked_cache(cache: Any) -> int | str | None:
    if cache is None or isinstance(cache, (str, os.PathLike)):
        return None if cache is None else os.path.abspath(os.fspath(cache))
    expected = "a folder or a number of bytes"
    if isinstance(cache, bool):
        raise wrong_type("EventDataset", "cache", cache, expected)
    return integer("EventDataset", "cache", cache, 1, LONG, expected)


def _is_list(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes)) and getattr(value, "shape", None) != ()


def _each(name: str, value: Any, paths: list[str], many: bool) -> list[Any]:
    """One of an argument for each file."""
    if value is None or not many:
        return [value] * len(paths)
    if not _is_list(value):
        raise wrong_type("EventDataset", name, value, f"a list with one for each of {len(paths)} files")
    if len(value) != len(paths):
        raise invalid("EventDataset", name, Shown(f"a {type(value).__name__} of {len(value)}"), f"{len(paths)}, one for each file")
    return list(value)


def _spans(path: str, starts: Any, ends: Any, length: Any, unit: int) -> Any:
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


def _rows(path: str, rows: Any) -> Any:
    """Windows by numbers of events, (n, 2) int64."""
    import numpy

    name = f"windows of {os.path.basename(path)}" if path else "windows"
    listed = window_rows("EventDataset", name, rows).astype(numpy.int64)
    wrong = numpy.flatnonzero((listed[:, 0] < 0) | (listed[:, 1] < listed[:, 0]))
    if len(wrong):
        k = wrong[0]
        raise invalid("EventDataset", f"{name}[{k}]", Shown(f"{listed[k, 0]}, {listed[k, 1]}"), "first <= last, from 0")
    return listed


def _too_far(path: str, window: int, row: Any, count: int) -> Exception:
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


def _common_shape(files: list[_File]) -> tuple[int, int]:
    shape = files[0].shape
    for file in files:
        if file.shape != shape:
            raise invalid(
                "EventDataset", "shape", None, f"a size for all: {file.path} has {file.shape}, {files[0].path} has {shape} (rows, cols)"
            )
    return shape
