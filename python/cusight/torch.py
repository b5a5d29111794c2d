"""Event recordings as data sets for PyTorch's DataLoader (and for anything else that takes one; PyTorch is optional).

    dataset = cusight.torch.EventDataset("runs/*.h5", windows="10ms", representation="voxel_grid", bins=5)
    for frames in torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=2):
        train(frames)  # (8, bins, rows, cols)

`SequenceDataset` makes sequences of consecutive windows of it, for recurrent networks.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from bisect import bisect_right
from collections import OrderedDict, deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from threading import local
from typing import TYPE_CHECKING, Any, Callable, Generic, Iterable, Iterator, Literal, Sequence, TypedDict, overload

from . import _core
from . import events as _events
from ._columns import TimeUnit, unit_number
from ._dataset import checked_cache, common_shape, for_each, is_list, listed_windows, too_far, windows_at_times
from ._errors import Shown, choice, device_text, integer, invalid, wrong_type
from ._events import (
    EventStacker,
    Representations,
    Windowing,
    Windows,
    frame_size,
    kinds_of,
    kinds_text,
    representations,
    windowing,
)
from ._files import Paths, is_pattern, list_files, optional
from ._frames import windows_within
from ._types import Device, Labels, Lists, Pairs, TypeVar

if TYPE_CHECKING:
    import torch as _torch
    from torch import Tensor
    from torch.utils.data import Dataset as _Dataset
    from torch.utils.data import IterableDataset as _IterableDataset
    from typing_extensions import Unpack

    from ._events import Kind, Representation, SeveralKinds
else:
    try:
        import torch as _torch
        from torch.utils.data import Dataset as _Dataset
        from torch.utils.data import IterableDataset as _IterableDataset
    except ImportError:
        _torch, _Dataset, _IterableDataset = None, Generic, Iterable

__all__ = ["EventDataset", "SequenceBatch", "SequenceDataset"]


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
    once when the data set is made, unless times are given, and in each process once up to the window; then from a place near it.
    Raises FileNotFoundError, ValueError, TypeError and what `cusight.events.open` raises.

    >>> import cusight.torch, numpy, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> numpy.savetxt(f"{folder.name}/run.txt", [(10_000 * i, i, i, 1) for i in range(10)], fmt="%d")  # t, x, y, p
    >>> dataset = cusight.torch.EventDataset(f"{folder.name}/run.txt", windows="10ms", labels=range(10), shape=(16, 16))
    >>> frame, label = dataset[3]
    >>> len(dataset), tuple(frame.shape), label
    (10, (2, 16, 16), 3)
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
        self.cache = checked_cache(cache)
        self._options = options
        self._process = _Process()
        at_times = not (starts is None and ends is None and length is None)
        if at_times and windows is not None:
            raise invalid("EventDataset", "windows", windows, "None with starts, ends and length")
        listed = is_list(windows)
        self.windows: Windowing | None = None
        if not at_times and not listed:
            self.windows = windowing("EventDataset", 200_000 if windows is None else windows)
            self.windows._options()
        self._by_time = at_times or bool(self.windows and self.windows.unit == "duration")
        spans: list[Any] = [None] * len(self.paths)
        if listed:
            spans = [listed_windows(path if many else "", one) for path, one in zip(self.paths, for_each("windows", windows, self.paths, many))]
        if at_times:
            given = [for_each(name, value, self.paths, many) for name, value in (("starts", starts), ("ends", ends))]
            unit = unit_number("EventDataset", time_unit)
            spans = [windows_at_times(path if many else "", a, b, length, unit) for path, a, b in zip(self.paths, *given)]
        with ThreadPoolExecutor(min(16, len(self.paths))) as pool:
            self._files = list(pool.map(self._scan, self.paths, spans))
        self.shape = common_shape(self._files) if shape is None else frame_size("EventDataset", shape)
        frame_size("EventDataset", self.shape)
        self._totals = list(accumulate(file.count for file in self._files))
        self._labels = for_each("labels", labels, self.paths, many)
        for file, of_file in zip(self._files, self._labels):
            if is_list(of_file) and len(of_file) != file.count:
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
            result = result, self._label(number, window)
        return result  # type: ignore[no-any-return]

    def _label(self, number: int, window: int) -> Any:
        label = self._labels[number]
        return label[window] if is_list(label) else label

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
                        raise too_far(path, k, spans[k], recording.count)
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
            raise too_far(file.path, window, bounds[1:], bounds[1] + len(part.t))
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


class _Recordings:
    """Recordings that are kept open, the most recently used ones."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, _events.Recording] = OrderedDict()

    def open(self, dataset: EventDataset[Any], path: str) -> _events.Recording:
        if path not in self._open:
            while len(self._open) >= _OPEN:
                self._open.popitem(last=False)[1].close()
            self._open[path] = _events.open(path, **dataset._options)
        self._open.move_to_end(path)
        return self._open[path]


class _Process:
    """What a process has of its own: open recordings, a workspace, and frames that are kept. A forked process must not share the
    position in a file."""

    def __init__(self) -> None:
        self._pid = 0
        self._recordings = _Recordings()
        self._stacker: EventStacker | None = None
        self._kept: OrderedDict[Any, list[Any]] = OrderedDict()
        self._bytes = 0

    def open(self, dataset: EventDataset[Any], path: str) -> tuple[_events.Recording, EventStacker]:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._recordings = _Recordings()
            self._stacker = EventStacker(dataset.shape, dataset.representation, bins=dataset.bins)
        assert self._stacker is not None
        return self._recordings.open(dataset, path), self._stacker

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
    size = _PIECE
    while not parts or parts[-1].t[-1] < end:
        part = recording.read(size)
        if not len(part.t):
            break
        parts.append(part)
        first, last = int(parts[0].t[0]), int(part.t[-1])  # the rest, at the rate so far
        rest = sum(len(one.t) for one in parts) * max(end - last, 0) // max(last - first, 1)
        size = min(_PIECE + rest, 64 * _PIECE)
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


# ---- Sequences -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class SequenceBatch:
    """A step of several sequences side by side, the lanes of a batch: what a SequenceDataset gives.

    frames: (length, lanes, channels, rows, cols), or a list of them for a list of representations; in memory channels are last.
    labels: ``labels[i][lane]``, those of the data set; None where there is none.
    first: of each lane, whether its sequence begins here, so that the network's state is to be reset.
    padded: (length, lanes), where there is no window: the frame has no events.
    epoch, step: which one it is.
    """

    frames: Any
    labels: list[list[Any]]
    first: Any
    padded: Any
    epoch: int
    step: int

    def __repr__(self) -> str:
        return f"SequenceBatch(epoch={self.epoch}, step={self.step}, {len(self.labels)} frames of {len(self.first)} sequences)"


class SequenceDataset(_IterableDataset[SequenceBatch]):  # type: ignore[misc, unused-ignore]
    """Sequences of consecutive windows of recordings, with labels, for training and evaluating recurrent networks without preprocessing.

    dataset: an EventDataset, or several, such as the sequences of `cusight.datasets`, whose frames have one size. Each recording's windows
        follow each other in their order.
    length: windows of a sequence. batch: sequences side by side, the lanes.
    sampling: "stream": each lane goes through recordings from end to end, so that the network's state is carried from a batch to the next,
        and reset where `first` says so. All lanes together have each window once; they are equally long, and one may begin within a
        recording. "random": `length` windows that end at one with a label, each with `first` (windows of which all labels are None are
        no ends; those with too few windows before them are left out).
    shuffle: the order of recordings ("stream") or of sequences ("random") is another in each epoch, by `seed`.
    rank, world_size: which of how many processes (GPUs) this is. Each has lanes of its own, and all have as many steps.
    device: where frames are made and stay, "cpu", "cuda" or "cuda:N". threads: read ahead, and on the CPU make the frames, too.

    Give it to ``DataLoader(dataset, batch_size=None)``, with workers if frames are made on the CPU, or iterate over it: batches and their
    order are the same. Call `set_epoch` before each epoch. ``len()`` is the number of steps of an epoch. Frames are those of the data
    set, whose `transform` is applied to each; its `cache` is not used.

    >>> import cusight.torch, numpy, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> numpy.savetxt(f"{folder.name}/run.txt", [(10_000 * i, i, i, 1) for i in range(10)], fmt="%d")  # t, x, y, p
    >>> windows = cusight.torch.EventDataset(f"{folder.name}/run.txt", windows="10ms", labels=range(10), shape=(16, 16))
    >>> for batch in cusight.torch.SequenceDataset(windows, length=3, batch=2):
    ...     print(batch.labels, [bool(one) for one in batch.first])
    [[0, 6], [1, 7], [2, 8]] [True, True]
    [[3, 9], [4, None], [5, None]] [False, False]
    >>> tuple(batch.frames.shape)
    (3, 2, 2, 16, 16)
    """

    def __init__(
        self,
        dataset: EventDataset[Any] | Sequence[EventDataset[Any]],
        length: int,
        *,
        batch: int = 1,
        sampling: Literal["stream", "random"] = "stream",
        shuffle: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        device: Device = "cpu",
        threads: int = 2,
    ) -> None:
        name = "SequenceDataset"
        self._datasets = [dataset] if isinstance(dataset, EventDataset) else list(dataset)
        if not self._datasets or not all(isinstance(one, EventDataset) for one in self._datasets):
            raise wrong_type(name, "dataset", dataset, "an EventDataset, or a list of them")
        first = self._datasets[0]
        for one in self._datasets:
            if (one.shape, one.channels_first, one.transform) != (first.shape, first.channels_first, first.transform):
                raise invalid(name, "dataset", one, f"{first.shape}, channels_first and transform as of the first")
        self._length = integer(name, "length", length, 1)
        self._batch = integer(name, "batch", batch, 1)
        self._random = choice(name, "sampling", sampling, {"stream": 0, "random": 1}) == 1
        self._shuffle, self._seed = bool(shuffle), integer(name, "seed", seed, 0)
        self._world_size = integer(name, "world_size", world_size, 1)
        self._rank = integer(name, "rank", rank, 0, self._world_size - 1)
        self._device = device_text(name, device)
        if self._device != "cpu":
            optional(name, "torch", "torch", "frames on a GPU")
        self._threads = integer(name, "threads", threads, 1)
        self._files = [(one, number) for one in self._datasets for number in range(len(one._files))]
        self._like: Any = None  # of each representation the frame of a window without events
        self._epoch = self._start = 0

    def set_epoch(self, epoch: int) -> None:
        """The epoch that is iterated next, from its first step on."""
        self._epoch, self._start = integer("SequenceDataset.set_epoch", "epoch", epoch, 0), 0

    def state_dict(self, after: SequenceBatch | None = None) -> dict[str, Any]:
        """The place after a batch, however many batches workers have made ahead; None: where iterating begins."""
        epoch, step = (self._epoch, self._start) if after is None else (after.epoch, after.step + 1)
        return {"epoch": epoch, "step": step, "of": self._what()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Iterating begins at the place, with the batches that would have come. The data set must have the same options, but for the
        number of workers, threads and the device."""
        if state["of"] != self._what():
            raise invalid("SequenceDataset", "state", state["of"], f"{self._what()}, the options and windows of this data set")
        self._epoch, self._start = state["epoch"], state["step"]

    def _what(self) -> list[int]:
        options = [self._length, self._batch, int(self._random), int(self._shuffle), self._seed, self._world_size]
        return [*options, *(dataset._files[number].count for dataset, number in self._files)]

    def __len__(self) -> int:
        return -(-len(self._sequences()) // (self._batch * self._world_size))

    def __repr__(self) -> str:
        windows = sum(len(one) for one in self._datasets)
        return f"SequenceDataset({len(self._files)} recordings, {windows:,} windows, {self._length} x {self._batch}, {self._device})"

    # ---- Which windows ------------------------------------------------------------------------------------------------------

    def _sequences(self) -> list[tuple[int, int]]:
        """All of the epoch, in order: the recording's number and the first window."""
        import numpy

        shuffled = numpy.random.default_rng([self._seed, self._epoch]).permutation if self._shuffle else range
        if not self._random:
            files = [int(number) for number in shuffled(len(self._files))]
            return [(number, first) for number in files for first in range(0, self._count(number), self._length)]
        found = [(number, last + 1 - self._length) for number in range(len(self._files)) for last in self._ends(number)]
        return [found[int(i)] for i in shuffled(len(found))]

    def _count(self, number: int) -> int:
        dataset, file = self._files[number]
        return dataset._files[file].count

    def _ends(self, number: int) -> list[int]:
        dataset, file = self._files[number]
        labels, after = dataset._labels[file], range(self._length - 1, self._count(number))
        return [k for k in after if labels[k] is not None] if is_list(labels) else list(after)

    def _lanes(self) -> list[list[tuple[int, int] | None]]:
        """For each step the sequences of this process's lanes; None after the end of a shorter one."""
        whole, steps = self._sequences(), len(self)
        lanes = self._batch * self._world_size
        mine = range(self._rank * self._batch, (self._rank + 1) * self._batch)
        parts = [whole[lane::lanes] if self._random else whole[len(whole) * lane // lanes : len(whole) * (lane + 1) // lanes]
                 for lane in mine]  # fmt: skip
        return [[part[step] if step < len(part) else None for part in parts] for step in range(steps)]

    # ---- Batches ------------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[SequenceBatch]:
        info = None if _torch is None else _torch.utils.data.get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        lanes, epoch = self._lanes(), self._epoch
        steps = range(self._start + worker, len(lanes), workers)
        begun: deque[tuple[list[Any], list[Future[Any]]]] = deque()
        begin_ahead = 1 + -(-self._threads // self._batch)  # steps, so that no thread waits for the last lane of one
        own = local()  # of each thread
        with ThreadPoolExecutor(self._threads) as pool:
            for k in range(len(steps) + begin_ahead):
                if k < len(steps):
                    begun.append(self._begun(pool, lanes[steps[k]], own))
                if k >= begin_ahead:
                    yield self._made(*begun.popleft(), lanes, epoch, steps[k - begin_ahead])

    def _begun(self, pool: ThreadPoolExecutor, lanes: list[tuple[int, int] | None], own: Any) -> tuple[list[Any], list[Future[Any]]]:
        """The frames of a step, (lanes, windows, rows, cols, channels), and what fills them: each lane is work of a thread."""
        import numpy

        if self._like is None:
            first, none = self._datasets[0], [numpy.empty(0, kind) for kind in ("u2", "u2", "u1", "i8")]
            self._like = EventStacker(first.shape, first._kinds)(*none, windows=numpy.zeros((1, 2), numpy.int64))
        sizes = [(self._batch, self._length, *one.shape[1:]) for one in self._like]
        if self._device == "cpu":
            frames, since = [numpy.empty(size, one.dtype) for size, one in zip(sizes, self._like)], None
        else:
            kinds = [_torch.from_numpy(one).dtype for one in self._like]
            frames = [_torch.empty(size, dtype=kind, device=self._device) for size, kind in zip(sizes, kinds)]
            since = _torch.cuda.current_stream(self._device).record_event()  # work before may still use the memory
        return frames, [pool.submit(self._read, lane, [one[k] for one in frames], since, own) for k, lane in enumerate(lanes)]

    def _read(self, lane: tuple[int, int] | None, frames: list[Any], since: Any, own: Any) -> Any:
        """Makes the frames of a lane. Returns its labels, how many windows it has, and for a GPU the event after which they are there."""
        if not hasattr(own, "maker"):
            own.maker, own.recordings = _Maker(self._device), _Recordings()
        dataset, number = self._files[lane[0] if lane else 0]
        file = dataset._files[number]
        windows = range(lane[1], min(lane[1] + self._length, file.count)) if lane else range(0)
        labels = [dataset._label(number, window) if dataset._labeled else None for window in windows]
        columns = own.maker.columns()
        rows = _windows_of(own.recordings, columns, dataset, file, windows, self._length)
        made = own.maker.make(columns, dataset, rows, frames, since)
        return labels + [None] * (self._length - len(windows)), len(windows), made

    def _made(self, frames: list[Any], lanes_read: list[Future[Any]], lanes: list[Any], epoch: int, step: int) -> SequenceBatch:
        import numpy

        labels, counts, events = zip(*(read.result() for read in lanes_read))
        for event in events if self._device != "cpu" else ():
            _torch.cuda.current_stream(self._device).wait_event(event)
        dataset = self._datasets[0]
        # In memory lanes and windows are first and channels last, as frames are made: to change that takes longer than to make them.
        order = (1, 0, 4, 2, 3) if dataset.channels_first else (1, 0, 2, 3, 4)
        each = [one.transpose(order) if _torch is None else _torch.as_tensor(one).permute(order) for one in frames]
        if dataset.transform is not None:
            each = [_stacked([_stacked([dataset.transform(frame) for frame in windows]) for windows in one]) for one in each]
        tensor = numpy.array if _torch is None else _torch.tensor
        first = [lane is not None and (self._random or step == 0 or lane[1] == 0) for lane in lanes[step]]
        padded = [[i >= count for count in counts] for i in range(self._length)]
        many = isinstance(dataset.representation, (list, tuple))
        rows = [list(row) for row in zip(*labels)]
        return SequenceBatch(each if many else each[0], rows, tensor(first), tensor(padded), epoch, step)


class _Columns:
    """Events of a lane, in arrays that grow and last; for a GPU page-locked."""

    def __init__(self, page_locked: bool) -> None:
        self._page_locked = page_locked
        self._arrays: list[Any] = []  # x, y, p, t; for a GPU tensors
        self._rate = 0.0  # events in a microsecond, of the last ones that were read by times
        self.sent: Any = None  # event after which they may change again
        self.count = 0
        self._grow(0, 0)

    def read(self, recording: _events.Recording, by_time: bool, start: int, end: int) -> None:
        """The events of a range of times, or of numbers."""
        have = 0
        if by_time:
            recording.seek(max(start, 0))
            size = int(self._rate * (end - start)) + _PIECE
        else:
            recording.seek_index(start)
            size = max(end - start, 1)
        while True:
            self._grow(have + size, have)
            part = recording.read(size, out=_events.Events(*(self._numpy(k)[have : have + size] for k in range(4))))
            have += len(part.t)
            if not by_time or not len(part.t) or part.t[-1] >= end:
                break
            first, last = int(self._numpy(3)[0]), int(part.t[-1])  # the rest, at the rate so far
            rest = have * max(end - last, 0) // max(last - first, 1)
            size = min(_PIECE + rest, 64 * _PIECE)
        self.count = int(self._numpy(3)[:have].searchsorted(end)) if by_time else min(have, end - start)
        if by_time:
            self._rate = self.count / max(end - start, 1)

    def times(self) -> Any:
        return self._numpy(3)[: self.count]

    def all(self) -> list[Any]:
        return [column[: self.count] for column in self._arrays]

    def _numpy(self, k: int) -> Any:
        return self._arrays[k].numpy() if self._page_locked else self._arrays[k]

    def _grow(self, least: int, have: int) -> None:
        """Makes room, and keeps the first `have` events."""
        import numpy

        if self._arrays and least <= len(self._arrays[0]):
            return
        room = least + least // 2 if self._arrays else least
        kept = [column[:have] for column in self._arrays]
        self._arrays = [numpy.empty(room, kind) for kind in ("u2", "u2", "u1", "i8")]
        if self._page_locked:
            self._arrays = [_torch.empty(room, dtype=_torch.from_numpy(one[:0]).dtype, pin_memory=True) for one in self._arrays]
        for new, old in zip(self._arrays, kept):
            new[:have] = old


def _windows_of(recordings: _Recordings, columns: _Columns, dataset: EventDataset[Any], file: _File, windows: range, length: int) -> Any:
    """Reads the events of consecutive windows. Which belong to each, (length, 2); those that are lacking have none."""
    import numpy

    rows = numpy.zeros((length, 2), numpy.int64)
    if windows:
        bounds = numpy.array([dataset._bounds(file, window)[1:] for window in windows])
        first, last = int(bounds[:, 0].min()), int(bounds[:, 1].max())
        columns.read(recordings.open(dataset, file.path), dataset._by_time, first, last)
        rows[: len(windows)] = columns.times().searchsorted(bounds) if dataset._by_time else bounds - first
    return rows


class _Maker:
    """Makes the frames of one thread, on a GPU in a stream of its own, beside the network's work."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._stream = None if device == "cpu" else _torch.cuda.Stream(device)
        self._columns = [_Columns(device != "cpu") for _ in range(1 if device == "cpu" else 2)]  # the one is sent, the other is filled
        self._stackers: OrderedDict[Any, EventStacker] = OrderedDict()  # by representations, of which maps differ

    def columns(self) -> _Columns:
        """Without events."""
        self._columns.reverse()
        columns = self._columns[0]
        if columns.sent is not None:
            columns.sent.synchronize()
        columns.count = 0
        return columns

    def make(self, columns: _Columns, dataset: EventDataset[Any], rows: Any, frames: list[Any], since: Any) -> Any:
        """Fills frames, (windows, rows, cols, channels) of each representation, on a GPU after `since`; returns the event that tells when."""
        if self._stream is None:
            return self._stack(columns.all(), dataset, rows, frames)
        with _torch.cuda.stream(self._stream):
            on_device = [column.to(self._device, non_blocking=True) for column in columns.all()]
            columns.sent = self._stream.record_event()
            self._stream.wait_event(since)
            self._stack(on_device, dataset, rows, frames)
            for one in frames:
                one.record_stream(self._stream)  # if they are dropped before they are there
            return self._stream.record_event()

    def _stack(self, columns: list[Any], dataset: EventDataset[Any], rows: Any, frames: list[Any]) -> None:
        key = (dataset.shape, *((kind, id(kind.map)) for kind in dataset._kinds))
        if key not in self._stackers:
            while len(self._stackers) >= _OPEN:
                self._stackers.popitem(last=False)[1].close()
            self._stackers[key] = EventStacker(dataset.shape, [self._moved(kind) for kind in dataset._kinds], device=self._device)
        self._stackers.move_to_end(key)
        self._stackers[key](*columns, windows=rows, out=frames)

    def _moved(self, kind: Any) -> Any:
        if self._device == "cpu" or kind.map is None:
            return kind
        return replace(kind, map=_torch.as_tensor(kind.map, device=self._device))


def _stacked(arrays: list[Any]) -> Any:
    import numpy

    return numpy.stack(arrays) if _torch is None else _torch.stack(arrays)
