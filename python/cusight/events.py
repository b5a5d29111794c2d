"""Event cameras: recordings, frames from them, writers, and events from video.

    for batch in cusight.events.open("run.h5").frames(windows="10ms", representation="voxel_grid", bins=5):
        train(batch)  # (windows, rows, cols, bins) float32
"""

# mypy: disable-error-code="overload-overlap"
# As in _events.py.

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator, Literal, NamedTuple, Sequence, TypedDict, Union, overload

from . import _core
from ._columns import TimeUnit, four_columns, unit_number
from ._errors import (
    LONG,
    Error,
    InputOutputError,
    MissingFileError,
    Status,
    device_text,
    dtype_name,
    integer,
    integers,
    invalid,
    microseconds,
    spelled,
    wrong_type,
)
from ._events import (
    EventStacker,
    Representation,
    Representations,
    Windowing,
    Windows,
    event_windows,
    frame_size,
    grid_size,
    release_workspace,
    stack_events,
    windowing,
)
from ._framediff import frame_shape
from ._frames import Frames
from ._objects import Closeable, filled
from ._pipeline import EventPipeline, FrameBatch, PipelineCounts, ReaderCounts
from ._types import ArrayLike, Column, Device, EventsLike, Integer, Other, Stream, Tensor, TensorT

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from ._events import ByteKind, FloatKind, SeveralKinds, SignedKind
    from ._frames import FramesOptions, HostFrames
    from ._types import F32, I8, U8, Numbers, Picture

__all__ = [
    "EventFilter",
    "EventGenerator",
    "EventPipeline",
    "EventStacker",
    "EventWriter",
    "Events",
    "FrameBatch",
    "FrameWriter",
    "Frames",
    "PipelineCounts",
    "ReaderCounts",
    "Recording",
    "Representation",
    "Triggers",
    "Windowing",
    "event_windows",
    "open",
    "release_workspace",
    "stack_events",
]


def __dir__() -> list[str]:
    return __all__


Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview]
Format = Literal["any", "M3ED", "DSEC", "EVT2", "EVT3", "DAT", "text", "EVT2.1", "Metavision", "HDF5", "MVSEC", "EVT4",
                 "AEDAT4", "bag", "MCAP"]
_FORMATS = _core.ReaderOptions.words["format"]
_PIECE = 1 << 20  # events read at once


class SizelessOptions(TypedDict, total=False):
    """The options of `open` but for the sensor's size, which EventDataset gives as `shape`."""

    camera: str | None
    format: Format
    skip_bad: bool
    threads: int
    max_memory: int
    max_chunk: int


class OpenOptions(SizelessOptions, total=False):
    """The options of `open`."""

    shape: Sequence[int] | None
    width: int
    height: int


def _extent(what: str, t: NDArray[numpy.int64]) -> str:
    times = f", {t[0]} .. {t[-1]} us" if len(t) else ""
    return f"{len(t):,} {what}{times}"


class Events(NamedTuple):
    """Events as parallel NumPy arrays: x, y uint16 (pixels), p uint8 (0 negative, 1 positive), t int64 (microseconds)."""

    x: NDArray[numpy.uint16]
    y: NDArray[numpy.uint16]
    p: NDArray[numpy.uint8]
    t: NDArray[numpy.int64]

    def __repr__(self) -> str:
        return f"Events({_extent('events', self.t)})"


if TYPE_CHECKING:

    class TensorEvents(tuple[TensorT, TensorT, TensorT, TensorT]):
        """Events of tensors, which NamedTuple can say from Python 3.11 on."""

        @property
        def x(self) -> TensorT: ...
        @property
        def y(self) -> TensorT: ...
        @property
        def p(self) -> TensorT: ...
        @property
        def t(self) -> TensorT: ...


class Triggers(NamedTuple):
    """External triggers as parallel NumPy arrays: t int64 (microseconds), id int16 (of the camera's input), value uint8 (1 rising, 0
    falling)."""

    t: NDArray[numpy.int64]
    id: NDArray[numpy.int16]
    value: NDArray[numpy.uint8]

    def __repr__(self) -> str:
        return f"Triggers({_extent('triggers', self.t)})"


class Recording(Closeable):
    """A recording of an event camera, opened by `cusight.events.open`.

    Iterating gives Events of up to 2^20 at a time. Pickles as its path and options, at the beginning (a recording in memory pickles
    its bytes).

    format: "M3ED", "DSEC", "Metavision", "MVSEC", "HDF5", "EVT2", "EVT2.1", "EVT3", "EVT4", "DAT", "AEDAT4", "bag", "MCAP" or "text".
    shape: (rows, cols) of the sensor; (0, 0) if neither the file nor the options give them.
    count: events in the file, None if that is known only after reading all of it.
    first_time, last_time: microseconds, None if not known (or no event).
    camera: the camera being read, or "".

    >>> import cusight
    >>> recording = cusight.events.open(b"64 48\\n10 1 1 1\\n20 2 2 0\\n35 2 2 0\\n")  # or a path
    >>> recording.shape, recording.read(2)
    ((48, 64), Events(2 events, 10 .. 20 us))
    >>> recording.seek(20)
    1
    >>> recording.read()
    Events(2 events, 20 .. 35 us)
    """

    def __init__(self, source: Source, options: OpenOptions) -> None:
        self._options = options
        self._source = os.fspath(source) if isinstance(source, (str, os.PathLike)) else source
        if self._source is None or isinstance(self._source, (int, float, list, tuple)):
            raise wrong_type("events.open", "source", source, "a path or the bytes of a recording; several need a call each, or an EventDataset")
        try:
            self._core = _core.EventReader(self._source, options["camera"], _reader_options(options))
        except InputOutputError as error:
            if isinstance(self._source, str) and not os.path.exists(self._source):
                raise MissingFileError(Status.IO, str(error)) from None
            raise
        form, width, height, count, first, last, camera = self._core.info()
        self.format: str = form
        self.camera: str = camera
        self.shape: tuple[int, int] = (height, width)
        self.count: int | None = int(count) if count >= 0 else None
        self.first_time: int | None = int(first) if first >= 0 else None
        self.last_time: int | None = int(last) if last >= 0 else None
        self._start = 0
        self._triggers: Triggers | None = None
        self._counted: ReaderCounts | None = None  # by the last iteration of frames
        place = repr(self._source) if isinstance(self._source, str) else f"{memoryview(self._source).nbytes:,} bytes in memory"
        size = f"{height} x {width} pixels" if height else "pixels not known"
        self._about = f"{place}, {self.format}, {size}"
        if self.count is not None:
            self._about += f", {self.count:,} events"
        if self.first_time is not None and self.last_time is not None:
            self._about += f", {self.first_time} .. {self.last_time} us"

    def read(self, count: Integer | None = None, *, out: Events | None = None) -> Events:
        """Reads up to `count` events, fewer only at the end; None: all that are left, in 13 bytes each. If the recording is damaged, the
        events before the damage are returned and the next call raises (EOFError, ValueError, OSError).

        out: arrays for `count` events, of which the result is a view; without it the arrays are new."""
        if out is not None:
            count = len(out.t) if count is None else count
        elif count is None:
            return self._rest()
        most = integer("Recording.read", "count", count, 1, LONG)
        self._counted = None
        x, y, p, t, n = self._core.read(most, *(out or [None] * 4))
        if n == most:
            return Events(x, y, p, t)
        if out is not None:
            return Events(x[:n], y[:n], p[:n], t[:n])
        return Events(x[:n].copy(), y[:n].copy(), p[:n].copy(), t[:n].copy())

    def _rest(self) -> Events:
        import numpy

        parts = [self.read(_PIECE)]
        while len(parts[-1].t):
            try:
                parts.append(self.read(_PIECE))
            except Error:
                break
        return Events(*(numpy.concatenate(column) for column in zip(*parts)))

    def __iter__(self) -> Iterator[Events]:
        while True:
            events = self.read(_PIECE)
            if not len(events.t):
                return
            yield events

    def seek(self, time: Integer) -> int:
        """The next event read will be the first with t >= `time` (microseconds). Returns its index. `frames` starts there too."""
        index = int(self._core.seek_time(microseconds("Recording.seek", "time", time)))
        self._start, self._counted = index, None
        return index

    def seek_index(self, index: Integer) -> None:
        """The next event read will be number `index`, from 0."""
        self._start, self._counted = integer("Recording.seek_index", "index", index, 0, LONG), None
        self._core.seek_index(self._start)

    @property
    def triggers(self) -> Triggers:
        """All external triggers of the recording, wherever it has been read: those of EVT2, EVT2.1, EVT3, EVT4 and Metavision; other formats
        have none. RAW is read once more for them, at the first use. Raises if the recording is damaged."""
        if self._triggers is None:
            self._triggers = Triggers(*self._core.triggers())
        return self._triggers

    def counts(self) -> ReaderCounts:
        """What was read, and what was skipped, since the recording was opened or last sought, or by the last iteration of frames."""
        return self._counted or ReaderCounts(*self._core.counts())

    @overload
    def frames(self, *, representation: ByteKind = ..., **options: Unpack[HostFrames]) -> Frames[U8]: ...
    @overload
    def frames(self, *, representation: FloatKind, **options: Unpack[HostFrames]) -> Frames[F32]: ...
    @overload
    def frames(self, *, representation: SignedKind, **options: Unpack[HostFrames]) -> Frames[I8]: ...
    @overload
    def frames(self, *, representation: Representation, **options: Unpack[HostFrames]) -> Frames[Numbers]: ...
    @overload
    def frames(self, *, representation: SeveralKinds, **options: Unpack[HostFrames]) -> Frames[list[Numbers]]: ...
    @overload
    def frames(
        self, *, representation: Representations = ..., device: Device | Sequence[Device] = ..., framework: str | None = ...,
        **options: Unpack[FramesOptions],
    ) -> Frames[Any]: ...
    def frames(
        self,
        *,
        windows: Windows = 200_000,
        representation: Representations = "histogram",
        bins: int | None = None,
        batch: int = 16,
        shape: Sequence[int] | None = None,
        device: Device | Sequence[Device] = "cpu",
        framework: str | None = None,
        first_window: int = 0,
        end_window: int = 0,
        max_events: int = 0,
        max_gap: int = 0,
        shard: tuple[int, int] | Literal["auto"] | None = None,
        pin_file: bool = False,
    ) -> Frames[Any]:
        """Frames of the recording from the place last sought (or the beginning), in batches.

        windows, representation, bins: as `stack_events`.
        batch: windows per batch; the last one may be shorter.
        shape: (rows, cols) of the frames; by default the sensor's.
        device: "cpu", "cuda" or "cuda:N": where frames are made, and stay. A list of GPUs: batches are made on all of them side by side,
            and each stays on its own; all in the order of their windows, the same as of one GPU. EVT2, EVT2.1, EVT3, EVT4 and DAT from the
            beginning; the first makes all of other recordings.
        framework: "numpy", "torch" or "cupy"; by default NumPy on the CPU, else the one that is imported.
        first_window, end_window: only these windows; 0: no end.
        max_events: largest number of events in a window by duration; 0: 4 Mi.
        max_gap: largest number of windows in a row, by duration, that lie between two events and so have none; 0: 1000.
        shard: (I, N): only the windows of the I-th of N about equal parts, I from 0, which is read from its own place. The N shards one
            after the other are the windows of the whole recording, whoever makes them. "auto": which one is this process's, as Slurm (job
            arrays, srun) or MPI says. Not after `seek`.
        pin_file: map the file and pin it while the result lives, so that GPUs copy it straight from the page cache: for iterating several
            times, since pinning takes as long as reading. EVT2, EVT2.1, EVT3, EVT4 and DAT; `open` needs a max_memory of at least its size.

        EVT2, EVT2.1, EVT3, EVT4 and DAT from the beginning are decoded where frames are made, from the file's bytes, and so is HDF5 if
        frames are made on a GPU and its chunks are compressed by ECF (Metavision) or LZF (M3ED). If the recording is
        damaged, iterating gives the frames before the damage, then raises. Warns at the end if more than half of the events lie outside
        the frame, or outside the sensor if the recording was opened with skip_bad.
        """
        if shape is None and self.shape == (0, 0):
            raise invalid("Recording.frames", "shape", None, "(rows, cols), since the recording does not have the sensor's size")
        size = frame_size("Recording.frames", self.shape if shape is None else shape)
        integer("Recording.frames", "batch", batch, 1)
        arguments = {
            "representation": representation,
            "bins": bins,
            "windows": windowing("Recording.frames", windows),
            "first_window": first_window,
            "end_window": end_window,
            "device": _devices_text(device),
            "framework": framework,
            "max_events": max_events,
            "max_gap": max_gap,
            "shard": shard,
            "pin_file": bool(pin_file),
        }
        return Frames(self, size, batch, arguments)

    def __len__(self) -> int:
        if self.count is None:
            raise TypeError("the number of events is known only after reading all of the recording")
        return self.count

    def _reader_at(self, index: int, pin_file: bool = False) -> Any:
        """Another reader of the same, at event `index`."""
        self._core.info()  # raises if the recording is closed
        options = filled(_reader_options(self._options), {"pin_file": pin_file})
        reader = _core.EventReader(self._source, self._options["camera"], options)
        reader.seek_index(index)
        return reader

    def __reduce__(self) -> Any:
        source = self._source if isinstance(self._source, str) else bytes(self._source)
        return Recording, (source, self._options)


def _devices_text(device: Device | Sequence[Device]) -> str:
    """One device, or several GPUs with commas."""
    if not isinstance(device, (list, tuple)):
        return device_text("Recording.frames", device)
    texts = [device_text("Recording.frames", one) for one in device]
    if not texts or (len(texts) > 1 and "cpu" in texts):
        raise invalid("Recording.frames", "device", device, "cpu, or one or more of cuda and cuda:N")
    return ",".join(texts)


def _reader_options(given: OpenOptions) -> Any:
    for name, value in (("max_memory", given["max_memory"]), ("max_chunk", given["max_chunk"])):
        integer("events.open", name, value, 0, LONG, "a number of bytes")
    camera: Any = given["camera"]
    if camera is not None and not isinstance(camera, str):
        raise wrong_type("events.open", "camera", camera, "left or right")
    options = filled(_core.ReaderOptions(), given, bad_events="skip" if given["skip_bad"] else "stop")
    if given["shape"] is not None:
        if options.width or options.height:
            raise invalid("events.open", "shape", given["shape"], "None with width and height")
        options.height, options.width = frame_size("events.open", given["shape"])
    return options


def open(
    source: Source,
    *,
    shape: Sequence[int] | None = None,
    width: int = 0,
    height: int = 0,
    camera: str | None = None,
    format: Format = "any",
    skip_bad: bool = False,
    threads: int = 0,
    max_memory: int = 0,
    max_chunk: int = 0,
) -> Recording:
    """Opens a recording: HDF5 (M3ED, DSEC, Metavision, MVSEC, e2vid), Prophesee EVT 2.0, 2.1, 3.0, 4.0 and DAT, AEDAT4, ROS bags, MCAP, or text. The format is detected from the content.

    source: a path, or a whole file in memory (bytes, memoryview), which is not copied.
    shape: (rows, cols) of the sensor; None: from the file. width, height: the same in two.
    camera: of an M3ED or MVSEC file, "left" or "right"; of AEDAT4, the camera's name or the stream's number; of a ROS bag or MCAP, the
        topic or parts of it. None: the first with events.
    format: "any", or the only one accepted.
    skip_bad: skip and count events that are outside the sensor, out of order or malformed, instead of raising.
    threads: for decompression; 0: as many as OpenMP uses.
    max_memory, max_chunk: bytes that the reader, and one decompressed chunk or packet, may take; 0: 2^30 and 2^26. What needs more raises
        ValueError (status CAPACITY).

    Raises FileNotFoundError, OSError, ValueError (malformed, of another format), EOFError (ends early), NotImplementedError (a
    compression or filter that this build does not decode).
    """
    options: OpenOptions = {
        "shape": shape,
        "width": width,
        "height": height,
        "camera": camera,
        "format": format,
        "skip_bad": skip_bad,
        "threads": threads,
        "max_memory": max_memory,
        "max_chunk": max_chunk,
    }
    return Recording(source, options)


class EventFilter(Closeable):
    """Drops and moves events of a recording that comes in pieces, on the CPU. What one step drops the next does not know.

    shape: (rows, cols) of the sensor; events outside are dropped.
    begin, end: only events with begin <= t < end, microseconds.
    hot_events, hot_period: only so many events of each pixel in each period of microseconds, from the first event on; 0: all.
    activity: only events with another at most so many microseconds before at one of the eight pixels around; 0: all.
    region: (x, y, cols, rows), whose upper left pixel becomes 0, 0. `shape` is then that of the region.
    flip_x, flip_y: mirror its columns, its rows.
    resize: (rows, cols) of the grid of pixels that it is mapped to; by default it stays. `shape` is then that.

        quiet = cusight.events.EventFilter(recording.shape, activity=5000)
        for piece in recording:
            pipeline.push(quiet(piece))

    >>> import cusight
    >>> with cusight.events.EventFilter((2, 3), hot_events=1) as keep:
    ...     events = keep([0, 0, 1], [0, 0, 1], [1, 1, 0], [10, 20, 30])
    >>> events
    Events(2 events, 10 .. 30 us)
    """

    def __init__(
        self,
        shape: Sequence[int],
        *,
        begin: Integer | None = None,
        end: Integer | None = None,
        hot_events: int = 0,
        hot_period: int = 1_000_000,
        activity: int = 0,
        region: Sequence[int] | None = None,
        flip_x: bool = False,
        flip_y: bool = False,
        resize: Sequence[int] | None = None,
    ) -> None:
        rows, cols = frame_size("EventFilter", shape)
        for name, value in (("hot_period", hot_period), ("activity", activity)):
            integer("EventFilter", name, value, 0, LONG)
        part = (0, 0, 0, 0) if region is None else integers("EventFilter", "region", region, "(x, y, cols, rows)")
        if len(part) != 4 or (region is not None and 0 in part[2:]):
            raise invalid("EventFilter", "region", region, "(x, y, cols, rows)")
        self.shape = (rows, cols) if region is None else (part[3], part[2])
        grid = (0, 0) if resize is None else grid_size("EventFilter", "resize", resize)
        if resize is not None:
            self.shape = grid
        self._about = f"{rows} x {cols} pixels"
        times = {"begin": -(1 << 63) if begin is None else begin, "end": (1 << 63) - 1 if end is None else end}
        options = filled(_core.FilterOptions(), {**locals(), **times}, width=cols, height=rows, flip_x=bool(flip_x), flip_y=bool(flip_y))
        options.x, options.y, options.region_width, options.region_height = part
        options.grid_height, options.grid_width = grid
        self._core = _core.EventFilter(options)

    def __call__(
        self,
        x: Column | EventsLike,
        y: Column | None = None,
        p: Column | None = None,
        t: Column | None = None,
        *,
        columns: str | None = None,
        time_unit: TimeUnit | None = None,
    ) -> Events:
        """The next events, as `stack_events` takes them, that stay: new arrays. The sizes of calls do not matter. Raises ValueError if
        times decrease."""
        taken = four_columns("EventFilter", x, y, p, t, columns)
        *kept, n = self._core.run(*taken, unit_number("EventFilter", time_unit))
        return Events(*(column[:n] for column in kept))


class _Writer(Closeable):
    """Leaving a `with` block finishes the file, or removes it if there was an exception."""

    def finish(self) -> None:
        """Completes the file, renames it to its path and closes the writer."""
        self._core.finish()

    def close(self) -> None:
        """Closes the writer and removes the file unless it was finished."""
        self._core.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None and not self.closed:
            self.finish()
        self.close()


class EventWriter(_Writer):
    """Writes a recording. Until it is finished, the file has a hidden name beside `path`.

    shape: (rows, cols) of the sensor. format: "M3ED" (the default, HDF5), "Metavision" (its HDF5), "EVT2", "EVT3", "AEDAT4", "DAT" or "text" (CSV if
    the path ends in .csv). camera: of M3ED, "left" (default) or "right"; of AEDAT4, any name. chunk: events in a chunk of HDF5 or packet of
    AEDAT4; 0: the format's own. compress: True: LZF, Metavision's ECF, LZ4 of AEDAT4; "gzip" (HDF5); "zstd" (AEDAT4); False. threads: 0: as many as OpenMP uses.

    >>> import cusight, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with cusight.events.EventWriter(f"{folder.name}/run.raw", (48, 64), format="EVT3") as writer:
    ...     writer.write([0, 1, 2], [0, 0, 1], [1, 1, 0], [10, 20, 30])
    >>> cusight.events.open(f"{folder.name}/run.raw").read()
    Events(3 events, 10 .. 30 us)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        shape: Sequence[int],
        *,
        format: Format = "M3ED",
        camera: str | None = None,
        chunk: int = 0,
        compress: bool | Literal["gzip", "zstd"] = True,
        threads: int = 0,
    ) -> None:
        rows, cols = frame_size("EventWriter", shape)
        name = spelled(format, _FORMATS)
        if name is None:
            raise ValueError(f"EventWriter: format is {format!r}, expected M3ED, Metavision, EVT2, EVT3, AEDAT4, DAT or text")
        packed = "zstd" if name == "AEDAT4" else "gzip"
        if isinstance(compress, str) and compress != packed:
            raise ValueError(f"EventWriter: compress is {compress!r}, expected True, False or {packed!r} for {name}")
        self._about = f"{os.fspath(path)!r}, {rows} x {cols} pixels"
        how = 2 if isinstance(compress, str) else int(bool(compress))
        options = filled(_core.WriterOptions(), locals(), width=cols, height=rows, compress=how, format=name)
        self._core = _core.EventWriter(os.fspath(path), camera, options)

    def write(
        self,
        x: Column | EventsLike,
        y: Column | None = None,
        p: Column | None = None,
        t: Column | None = None,
        *,
        columns: str | None = None,
        time_unit: TimeUnit | None = None,
    ) -> None:
        """Appends events, as `stack_events` takes them, with times that do not decrease. Raises ValueError that names the first event
        that is outside the sensor or out of order."""
        self._core.write(*four_columns("EventWriter.write", x, y, p, t, columns), unit_number("EventWriter.write", time_unit))


class FrameWriter(_Writer):
    """Writes frames to HDF5: one dataset, /frames, (frames, rows, cols, channels), LZF compressed, readable by h5py.

    shape: (rows, cols, channels) of a frame. dtype: "uint8", "int8", "uint16", "int16", "int32", "float16", "float32" or "float64".

    >>> import cusight, h5py, numpy, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with cusight.events.FrameWriter(f"{folder.name}/frames.h5", (48, 64, 2), "uint8") as writer:
    ...     writer.write(numpy.ones((5, 48, 64, 2), numpy.uint8))
    >>> h5py.File(f"{folder.name}/frames.h5")["frames"].shape
    (5, 48, 64, 2)
    """

    def __init__(self, path: str | os.PathLike[str], shape: Sequence[int], dtype: str) -> None:
        rows, cols, channels = frame_shape("FrameWriter", shape)
        name = dtype_name(dtype)
        self._about = f"{os.fspath(path)!r}, {rows} x {cols} x {channels}, {name}"
        self._core = _core.FrameWriter(os.fspath(path), rows, cols, channels, name)

    def write(self, frames: ArrayLike) -> None:
        """Appends frames: (n, rows, cols, channels) in host memory, without gaps."""
        self._core.write(frames)


class EventGenerator(Closeable):
    """Makes events from video, as an event camera would, with the noise of its sensor or, by default, without.

    shape: (rows, cols) of the frames. positive, negative: contrast thresholds in log intensity, 0.01 to 10.
    threshold_spread: their standard deviation over the pixels, up to 1.
    refractory_us: microseconds in which a pixel rests after an event, up to 1,000,000.
    leak_rate: leak events of a pixel per second, up to 100.
    leak_jitter: standard deviation of the time between them, as a part of it, up to 0.2.
    shot_rate: random events of a black pixel per second, up to 1000; a white one has a quarter of them.
    seed: of the noise. The same seed gives the same events on every device.
    device: "cpu", "cuda" or "cuda:N": where `run` takes frames and makes events.
    max_events: on a GPU the most events of a run, at 16 bytes each; 0: 2^24.
    Method: ESIM (Rebecq et al. 2018), mapping and noise of v2e (Hu et al. 2021); docs/eventgen.md.

    >>> import cusight, numpy
    >>> with cusight.events.EventGenerator((2, 3)) as generator:
    ...     for time, brightness in (0, 50), (1000, 100):
    ...         events = generator.push(numpy.full((2, 3), brightness, numpy.uint8), time)
    >>> events
    Events(18 events, 289 .. 866 us)
    """

    def __init__(
        self,
        shape: Sequence[int],
        *,
        positive: float = 0.2,
        negative: float = 0.2,
        threshold_spread: float = 0,
        refractory_us: int = 0,
        leak_rate: float = 0,
        leak_jitter: float = 0,
        shot_rate: float = 0,
        seed: int = 0,
        device: Device = "cpu",
        max_events: int = 0,
    ) -> None:
        rows, cols = frame_size("EventGenerator", shape)
        self._about = f"{rows} x {cols} pixels"
        options = filled(_core.GeneratorOptions(), locals())
        self._core = _core.EventGenerator(rows, cols, options, device_text("EventGenerator", device))

    def push(self, frame: Picture | Tensor | Other, time: Integer) -> Events:
        """Events between the previous frame and this one, (rows, cols) uint8 at `time` in microseconds; none for the first.

        For generators on the CPU.
        """
        return Events(*self._core.push(frame, microseconds("EventGenerator.push", "time", time)))

    @overload
    def run(self, frames: Picture, times: Column, *, stream: Stream | None = ...) -> Events: ...
    @overload
    def run(self, frames: TensorT, times: Column, *, stream: Stream | None = ...) -> TensorEvents[TensorT]: ...
    @overload
    def run(self, frames: Other, times: Column, *, stream: Stream | None = ...) -> Any: ...
    def run(self, frames: ArrayLike, times: Column, *, stream: Stream | None = None) -> Any:
        """Events of many frames, (n, rows, cols) uint8 on the generator's device, at `times` in microseconds.

        The events are arrays on the same device. Frames are processed twice, first to count; many at once are faster than few.
        Waits for the stream.
        """
        at = _core.event_times("EventGenerator.run", "times", times, unit_number("EventGenerator.run", "us"))
        return Events(*self._core.run(frames, at, stream))
