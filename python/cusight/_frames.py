"""Batches of frames of a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Iterator, Literal, Sequence, TypedDict

from . import _core
from ._errors import LONG, Error, choice, integer, integers, invalid, warn
from ._events import FramesT, Windowing, Windows, kinds_text, representations, warn_outside
from ._objects import filled
from ._pipeline import FrameBatch, ReaderCounts
from ._types import Integer

if TYPE_CHECKING:
    from .events import Recording


class FramesOptions(TypedDict, total=False):
    """The options of `Recording.frames` that do not change their type."""

    windows: Windows
    bins: int | None
    batch: int
    shape: Sequence[int] | None
    first_window: int
    end_window: int
    max_events: int
    max_gap: int
    shard: tuple[int, int] | Literal["auto"] | None
    pin_file: bool


class HostFrames(FramesOptions, total=False):
    """The same of frames that are NumPy's."""

    device: Literal["cpu"]
    framework: Literal["numpy"] | None


class Frames(Generic[FramesT]):
    """Batches of frames of a Recording. Each iteration starts again at the same place, and reads for itself: several may run at the same
    time. The length is the number of batches, where the recording knows it.

    >>> import cusight
    >>> recording = cusight.events.open(b"64 48\\n10 1 1 1\\n20 2 2 0\\n35 2 2 0\\n")
    >>> [batch.shape for batch in recording.frames(windows=1, batch=2)]
    [(2, 48, 64, 2), (1, 48, 64, 2)]
    """

    def __init__(self, recording: Recording, size: tuple[int, int], batch: int, arguments: dict[str, Any]) -> None:
        self._recording, self._size, self._batch, self._arguments = recording, size, batch, arguments
        self._start = recording._start
        self._opened()  # raises what is wrong with the arguments
        self._many = isinstance(arguments["representation"], (list, tuple))
        self.windows = self._count_windows()
        self._pinned: Any = None  # between two iterations: the next one reads what is pinned

    def _opened(self) -> tuple[Any, ...]:
        """What the module takes beside the reader."""
        name, given = "Recording.frames", self._arguments
        kinds, _ = representations(name, given["representation"], given["bins"])
        if given["framework"] is not None:
            choice(name, "framework", given["framework"], {"numpy": 0, "torch": 1, "cupy": 2})
        rows, cols = self._size
        shard, shards = shard_of(name, given["shard"])
        options = filled(_core.FramesOptions(), {**given, **locals()}, batch_windows=self._batch)
        return kinds, given["windows"]._options(), options, given["device"], given["framework"]

    def _count_windows(self) -> int | None:
        """How many windows there are, or None."""
        if self._arguments["shard"]:
            return None
        count = count_windows(self._recording, self._arguments["windows"], self._start)
        if count is None:
            return None
        first_window: int = self._arguments["first_window"]
        end: int = self._arguments["end_window"]
        return max((min(count, end) if end else count) - first_window, 0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pinned": None}

    def __repr__(self) -> str:
        count = "" if self.windows is None else f"{len(self):,} "
        kinds, cut = kinds_text(self._arguments["representation"]), self._arguments["windows"]
        return f"<Frames: {count}batches of {self._batch}, windows of {cut._text()}, {kinds}, of {self._recording!r}>"

    def __len__(self) -> int:
        if self.windows is None:
            raise TypeError("the number of windows is known only after reading all of the recording")
        return -(-self.windows // self._batch)

    def seek(self, time: Integer) -> Frames[FramesT]:
        """The same frames from the first event with t >= `time` (microseconds); windows are counted from there."""
        self._recording.seek(time)
        return Frames(self._recording, self._size, self._batch, self._arguments)

    def __iter__(self) -> Iterator[FramesT]:
        for batch in self.batches():
            yield batch.frames

    def batches(self) -> Iterator[FrameBatch[FramesT]]:
        """The batches as FrameBatch: frames with the indices of their windows and events."""
        import numpy

        pins: bool = self._arguments["pin_file"]
        frames, self._pinned = self._pinned, None
        if frames:
            self._recording._core.info()  # raises if the recording is closed
            frames.restart()
        else:
            reader = self._recording._reader_at(self._start, pins)
            frames = _core.EventFrames(reader, *self._opened())
        stacked = 0  # events, once in each window
        failure: Error | None = None
        try:
            while failure is None:
                try:
                    made: Any = frames.next()
                except Error as error:
                    failure = error
                    break
                if made is None:
                    break
                windows = numpy.frombuffer(made[1], numpy.uint64).reshape(-1, 2)
                stacked += int((windows[:, 1] - windows[:, 0]).sum())
                yield FrameBatch(made[0], windows, made[2] if self._many else made[2][0])
            skipped, read = frames.counts()
            self._recording._counted = counts = ReaderCounts(*read)
            if 2 * skipped > stacked:
                warn_outside("Recording.frames", self._size)
            if counts.bad_coordinates > counts.events:
                warn("Recording.frames: more than half of the events lie outside the sensor: width and height are "
                     f"{self._recording.shape[1]} and {self._recording.shape[0]}")
            if failure:
                raise failure
        finally:
            if pins:
                self._pinned = frames
            else:
                frames.close()


def shard_of(function: str, shard: Any) -> tuple[int, int]:
    if shard is None:
        return 0, 0
    if shard == "auto":
        return _core.launcher_shard()
    numbers = integers(function, "shard", shard, '(I, N) or "auto"')
    if len(numbers) != 2:
        raise invalid(function, "shard", shard, '(I, N) or "auto"')
    return integer(function, "shard", numbers[0], 0, LONG), integer(function, "shard", numbers[1], 0, LONG)


def count_windows(recording: Recording, cut: Windowing, start: int) -> int | None:
    """How many windows there are from event number `start` on, or None if only reading would tell."""
    if recording.count is None or (cut.unit == "duration" and recording.last_time is None):
        return None
    if cut.unit == "count":
        return windows_within(max(recording.count - start, 0), cut)
    if recording.count <= start or recording.last_time is None:
        return 0
    first = recording.first_time or 0
    if start:
        recording._core.seek_index(start)
        first = int(recording.read(1).t[0])
        recording._core.seek_index(start)
    return windows_within(recording.last_time - first + 1, cut)


def windows_within(extent: int, cut: Windowing) -> int:
    """Windows in so many events or microseconds."""
    stride = cut.stride or cut.length
    complete = (extent - cut.length) // stride + 1 if extent >= cut.length else 0
    return complete + int(cut.keep_incomplete and complete * stride < extent)
