# mypy: disable-error-code="overload-overlap"
"""A recording that comes in pieces, as batches of frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Generic, Literal, Sequence, TypedDict, overload

from . import _core
from ._columns import TimeUnit, four_columns, unit_number
from ._errors import choice, device_text, microseconds, wrong_type
from ._events import FramesT, Representation, Representations, Windows, frame_size, kinds_text, representations, warn_outside, windowing
from ._objects import Closeable, filled
from ._types import Column, Device, EventsLike, Integer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._events import ByteKind, FloatKind, SeveralKinds, SignedKind
    from ._types import F32, I8, U8, U64, Numbers


@dataclass(frozen=True, repr=False)
class FrameBatch(Generic[FramesT]):
    """Frames of consecutive windows: what an EventPipeline delivers.

    first: index of the first window in the recording. windows: (n, 2) uint64, first and last event of each.
    frames: (n, rows, cols, channels), or a list for a list of representations. It is the receiver's to keep.
    """

    first: int
    windows: U64
    frames: FramesT

    def __len__(self) -> int:
        return len(self.windows)

    def __repr__(self) -> str:
        frames: Any = self.frames
        many = isinstance(frames, list)
        shown = [f"{tuple(one.shape)} {str(one.dtype).rpartition('.')[2]}" for one in (frames if many else [frames])]
        return f"FrameBatch(first={self.first}, windows={len(self)}, frames={'[' + ', '.join(shown) + ']' if many else shown[0]})"


@dataclass(frozen=True)
class ReaderCounts:
    """What was read since a Recording was opened or last sought."""

    events: int
    triggers_rising: int
    triggers_falling: int
    bad_coordinates: int
    bad_polarity: int
    bad_time: int
    untimed: int
    bad_words: int


@dataclass(frozen=True)
class PipelineCounts:
    """Events pushed, windows delivered, and events skipped because they lie outside the frame."""

    events: int
    windows: int
    skipped: int


class PipelineOptions(TypedDict, total=False):
    """The options of `EventPipeline` that do not change the type of its frames."""

    bins: int | None
    windows: Windows
    first_window: int
    end_window: int
    max_events: int
    batch_windows: int
    max_gap: int


class HostPipeline(PipelineOptions, total=False):
    """The same of a pipeline whose frames are NumPy's."""

    device: Literal["cpu"]
    deliver: Literal["cpu"] | None
    framework: Literal["numpy"] | None


class EventPipeline(Closeable):
    """Makes frames of a recording of any length that is pushed in pieces, in fixed memory.

    shape, representation, bins: as `stack_events`.
    sink: called with a FrameBatch in window order during push and flush. An exception stops the pipeline and is raised there.
    windows: number of events, duration or Windowing.
    first_window, end_window: only windows first_window .. end_window - 1 are made; 0: no end.
    device: where frames are made. deliver: where the sink gets them, by default there.
    framework: of the frames, "numpy", "torch" or "cupy"; by default NumPy on the CPU, else the one that is imported.
    max_events: largest number of events in a window; 0: 4 Mi, or the length of windows by count. batch_windows: at most so many
        windows per batch; 0: 16 MiB of frames.
    max_gap: largest number of windows in a row, by duration, that lie between two events and so have none; 0: 1000.

    Raises ValueError (status CAPACITY) if a window by duration has more than max_events events, or if more than max_gap in a row
    have none.

    >>> import cusight
    >>> batches = []
    >>> with cusight.EventPipeline((2, 3), "histogram", batches.append, windows=2) as pipeline:
    ...     pipeline.push([0, 1, 1], [0, 0, 1], [1, 1, 0], [10, 20, 30])
    ...     pipeline.flush()
    >>> sum(len(batch) for batch in batches), batches[0].frames.shape[1:]
    (2, (2, 3, 2))
    """

    @overload
    def __init__(
        self, shape: Sequence[int], representation: ByteKind, sink: Callable[[FrameBatch[U8]], object], **options: Unpack[HostPipeline]
    ) -> None: ...
    @overload
    def __init__(
        self, shape: Sequence[int], representation: FloatKind, sink: Callable[[FrameBatch[F32]], object], **options: Unpack[HostPipeline]
    ) -> None: ...
    @overload
    def __init__(
        self, shape: Sequence[int], representation: SignedKind, sink: Callable[[FrameBatch[I8]], object], **options: Unpack[HostPipeline]
    ) -> None: ...
    @overload
    def __init__(
        self, shape: Sequence[int], representation: Representation, sink: Callable[[FrameBatch[Numbers]], object], **options: Unpack[HostPipeline]
    ) -> None: ...
    @overload
    def __init__(
        self, shape: Sequence[int], representation: SeveralKinds, sink: Callable[[FrameBatch[list[Numbers]]], object], **options: Unpack[HostPipeline]
    ) -> None: ...
    @overload
    def __init__(
        self,
        shape: Sequence[int],
        representation: Representations,
        sink: Callable[[FrameBatch[Any]], object],
        *,
        device: Device = ...,
        deliver: Device | None = ...,
        framework: str | None = ...,
        **options: Unpack[PipelineOptions],
    ) -> None: ...
    def __init__(
        self,
        shape: Sequence[int],
        representation: Representations,
        sink: Callable[[FrameBatch[Any]], object],
        *,
        bins: int | None = None,
        windows: Windows = 200_000,
        first_window: int = 0,
        end_window: int = 0,
        device: Device = "cpu",
        deliver: Device | None = None,
        framework: str | None = None,
        max_events: int = 0,
        batch_windows: int = 0,
        max_gap: int = 0,
    ) -> None:
        numbers, many = representations("EventPipeline", representation, bins)
        if not callable(sink):
            raise wrong_type("EventPipeline", "sink", sink, "a function of a FrameBatch")
        place = device_text("EventPipeline", device)
        options = filled(_core.PipelineOptions(), locals())
        if framework is not None:
            choice("EventPipeline", "framework", framework, {"numpy": 0, "torch": 1, "cupy": 2})
        self._stacked = 0  # events, once in each window

        def receive(first: int, rows: bytearray, frames: list[Any]) -> None:
            import numpy

            listed = numpy.frombuffer(rows, numpy.uint64).reshape(-1, 2)
            self._stacked += int((listed[:, 1] - listed[:, 0]).sum())
            sink(FrameBatch(first, listed, frames if many else frames[0]))

        self._size = rows, cols = frame_size("EventPipeline", shape)
        cut = windowing("EventPipeline", windows)
        self._about = f"{rows} x {cols} pixels, {kinds_text(representation)}, windows of {cut._text()}, {place}"
        self._core = _core.EventPipeline(
            rows,
            cols,
            numbers,
            receive,
            cut._options(),
            options,
            place,
            place if deliver is None else device_text("EventPipeline", deliver),
            framework,
        )

    def push(
        self,
        x: Column | EventsLike,
        y: Column | None = None,
        p: Column | None = None,
        t: Column | None = None,
        *,
        columns: str | None = None,
        time_unit: TimeUnit | None = None,
    ) -> None:
        """Adds the next events, in host memory, as `stack_events` takes them. The arrays may be reused afterwards."""
        self._core.push(*four_columns("EventPipeline.push", x, y, p, t, columns), unit_number("EventPipeline.push", time_unit))

    def advance(self, time: Integer) -> None:
        """Says that no event before `time` (microseconds) will come: windows by duration that end until then are delivered, also if the
        scene is still, and all others that are complete, which a GPU keeps until there are more. Does nothing before the first event."""
        self._core.advance(microseconds("EventPipeline.advance", "time", time))

    def flush(self) -> None:
        """Ends the recording and delivers its last frames. Warns if more than half of the events so far lie outside the frame."""
        self._core.flush()
        if 2 * self.counts().skipped > self._stacked:
            warn_outside("EventPipeline", self._size)

    def counts(self) -> PipelineCounts:
        """What was pushed, delivered and skipped since creation."""
        return PipelineCounts(*self._core.counts())
