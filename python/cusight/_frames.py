"""Batches of frames of a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Iterator, Sequence, TypedDict

from ._errors import Error, warn
from ._events import FramesT, Windowing, Windows, kinds_text
from ._pipeline import EventPipeline, FrameBatch
from ._types import Integer

if TYPE_CHECKING:
    from .events import Recording

_WORDS = ("EVT2", "EVT2.1", "EVT3", "EVT4", "DAT")  # formats whose raw bytes a pipeline decodes on the CPU too
_LEAST_BYTES, _MOST_BYTES = 1 << 16, 1 << 25  # of them at once


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


class Frames(Generic[FramesT]):
    """Batches of frames of a Recording. Each iteration starts again at the same place; the length is the number of batches, where
    the recording knows it. Two iterations of one recording must not run at the same time."""

    def __init__(self, recording: Recording, size: tuple[int, int], batch: int, arguments: dict[str, Any]) -> None:
        self._recording, self._size, self._batch, self._arguments = recording, size, batch, arguments
        self._start = recording._start
        self.windows = self._count_windows()

    def _count_windows(self) -> int | None:
        """How many windows there are, or None."""
        count = count_windows(self._recording, self._arguments["windows"], self._start)
        if count is None:
            return None
        first_window: int = self._arguments["first_window"]
        end: int = self._arguments["end_window"]
        return max((min(count, end) if end else count) - first_window, 0)

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
        recording, ready = self._recording, list[FrameBatch[FramesT]]()
        recording._core.seek_index(self._start)
        recording._counted = None
        decodes = not self._start and self._decodes()
        source = recording if decodes else None
        with EventPipeline(self._size, sink=ready.append, recording=source, **self._arguments) as pipeline:
            pieces = self._push_bytes(pipeline, ready) if decodes else self._push_events(pipeline)
            held: list[FrameBatch[FramesT]] = []
            failure: Error | None = None
            while failure is None:
                try:
                    next(pieces)
                except StopIteration:
                    break
                except Error as error:  # what came before it first
                    failure = error
                yield from self._regroup(held, ready)
            try:
                pipeline.flush()
            except Error as error:
                failure = failure or error
            if decodes:
                recording._counted = pipeline.counts().decoded
            read = recording.counts()
            if read.bad_coordinates > read.events:
                warn("Recording.frames: more than half of the events lie outside the sensor: width and height are "
                     f"{recording.shape[1]} and {recording.shape[0]}")
            yield from self._regroup(held, ready)
            if held:
                yield _join(held)
            if failure:
                raise failure

    def _decodes(self) -> bool:
        """Whether a pipeline decodes the recording's bytes. On the CPU the reader is faster with chunks: it takes all cores."""
        format, core = self._recording.format, self._recording._core
        return format in _WORDS or (self._arguments["device"] != "cpu" and core.has_bytes())

    def _push_events(self, pipeline: EventPipeline) -> Iterator[None]:
        for events in self._recording:
            pipeline.push(*events)
            yield None

    def _push_bytes(self, pipeline: EventPipeline, ready: list[FrameBatch[FramesT]]) -> Iterator[None]:
        """Pieces of so many bytes that each makes a few batches, which wait in memory."""
        count = _LEAST_BYTES
        while pipeline.push_recording(count):
            made = sum(map(len, ready))
            count = max(_LEAST_BYTES, count // 2) if made > 4 * self._batch else min(_MOST_BYTES, 2 * count)
            yield None

    def _regroup(self, held: list[FrameBatch[FramesT]], ready: list[FrameBatch[FramesT]]) -> Iterator[FrameBatch[FramesT]]:
        """Batches of exactly the length that was asked for; what is left stays in `held`."""
        have = sum(map(len, held))
        while ready:
            head = ready.pop(0)
            while have + len(head) >= self._batch:
                cut = self._batch - have
                held.append(_slice(head, 0, cut))
                whole = _join(held)
                head = _slice(head, cut, len(head))
                held.clear()
                have = 0
                yield whole
            if len(head):
                held.append(head)
                have += len(head)


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


def _slice(batch: FrameBatch[FramesT], first: int, last: int) -> FrameBatch[FramesT]:
    if first == 0 and last == len(batch):
        return batch
    whole: Any = batch.frames
    frames: Any = [f[first:last] for f in whole] if isinstance(whole, list) else whole[first:last]
    return FrameBatch(batch.first + first, batch.windows[first:last], frames)


def _concatenate(arrays: list[Any]) -> Any:
    import sys

    module = type(arrays[0]).__module__.partition(".")[0]
    if module == "torch":
        return sys.modules["torch"].cat(arrays)
    if module == "numpy" or module == "cupy":
        return sys.modules[module].concatenate(arrays)
    raise TypeError("batches on the GPU need framework='torch' or 'cupy'")


def _join(batches: list[FrameBatch[FramesT]]) -> FrameBatch[FramesT]:
    if len(batches) == 1:
        return batches[0]
    import numpy

    parts: list[Any] = [b.frames for b in batches]
    frames: Any = [_concatenate(list(each)) for each in zip(*parts)] if isinstance(parts[0], list) else _concatenate(parts)
    return FrameBatch(batches[0].first, numpy.concatenate([b.windows for b in batches]), frames)
