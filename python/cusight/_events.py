"""Frames from the events of an event camera."""

# mypy: disable-error-code="overload-overlap"
# A name of a representation is a sequence of letters to mypy, which a list of them could be.

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Sequence, TypedDict, Union, overload

from . import _core
from ._columns import TimeUnit, four_columns, split, unit_number
from ._errors import LONG, Shown, choice, device_text, integer, integers, invalid, spelled, warn, wrong_type
from ._objects import Closeable, Options, filled
from ._types import (
    ArrayLike,
    Column,
    Device,
    EventsLike,
    HostColumn,
    HostEvents,
    Integer,
    Other,
    Pairs,
    Stream,
    Tensors,
    TensorT,
    TypeVar,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._types import F32, I8, U8, U64, Numbers

ByteKind = Literal["histogram", "mdes", "mdes_count", "mdes-count", "tencode", "stacked_histogram", "stacked-histogram"]
FloatKind = Literal["voxel_grid", "voxel-grid", "time_surface", "time-surface", "event_cube", "event-cube"]
SignedKind = Literal["event_diff", "event-diff", "mdes_diff", "mdes-diff"]
Kind = Union[ByteKind, FloatKind, SignedKind]
_KINDS = _core.Representation.words["kind"]
_NORMALIZATIONS = {"population": 1, "sample": 2}
_MICROSECONDS = {"us": 1.0, "ms": 1e3, "s": 1e6}


@dataclass(frozen=True)
class Windowing(Options):
    """How a recording is divided into windows. Window i covers [i * stride, i * stride + length).

    length: number of events, or microseconds from the first event if `unit` is "duration".
    stride: 0: as `length`. Less: windows overlap; more: gaps.
    keep_incomplete: make the last window too if it is not full; False leaves it out.

    Functions that take `windows` also take a number of events (``200_000``) or a duration (``"10ms"``, ``"500us"``, ``"1s"``).

    >>> import cusight
    >>> cusight.event_windows(count=5, windows=cusight.Windowing(3, stride=1, keep_incomplete=False)).tolist()
    [[0, 3], [1, 4], [2, 5]]
    """

    length: int = 200_000
    stride: int = 0
    unit: Literal["count", "duration"] = "count"
    keep_incomplete: bool = True

    def _made(self) -> Any:
        made = filled(_core.Windowing(), {"unit": self.unit})
        for name, value, least in (("length", self.length, 1), ("stride", self.stride, 0)):
            if not hasattr(value, "__int__") or isinstance(value, str):
                expected = "a number of events, or of microseconds with unit='duration'; windows='10ms' is both"
                raise wrong_type("Windowing", name, value, expected)
            if not least <= int(value) < 1 << 63:
                raise invalid("Windowing", name, value, f"at least {least}")
        return filled(made, {}, length=int(self.length), stride=int(self.stride), keep_incomplete=bool(self.keep_incomplete))

    def _text(self) -> str:
        return f"{self.length} {'events' if self.unit == 'count' else 'us'}"


Windows = Union[Integer, str, Windowing]
FramesT = TypeVar("FramesT", default=Any)  # frames in one representation, or a list of them


_recent_windows: dict[Any, Any] = {}  # of recent arguments, for calls that take microseconds
_recent_kinds: dict[Any, Any] = {}
_RECENT = 64


def _remember(known: dict[Any, Any], key: Any, value: Any) -> Any:
    if len(known) >= _RECENT:
        known.clear()
    known[key] = value
    return value


def duration(text: str) -> int:
    """Microseconds of a text such as "10ms"; 0 if it is none."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s)\s*", text)
    return round(float(match[1]) * _MICROSECONDS[match[2]]) if match else 0


def windowing(function: str, windows: object) -> Windowing:
    """A Windowing from a number of events, a duration, or itself."""
    if isinstance(windows, Windowing):
        return windows
    if isinstance(windows, str):
        length = duration(windows)
        if length >= 1:
            return Windowing(length, unit="duration")
    elif hasattr(windows, "__index__") and not isinstance(windows, bool) and not getattr(windows, "shape", ()):
        length = windows.__index__()
        if length >= 1:
            return Windowing(length)
    raise invalid(function, "windows", windows, "a number of events, a duration such as '10ms', or a Windowing")


@dataclass(frozen=True)
class Representation(Options):
    """What a frame shows; formulas and sources are in docs/events.md. None: the default of the kind.

    kind: "histogram" (uint8, 2 channels), "mdes" (`channels`), "mdes_count" (uint8, `channels`), "tencode" (uint8, 3), "stacked_histogram"
        (uint8, 2 * `channels`), "voxel_grid" (float32, `channels`), "time_surface" (float32, 2), "event_diff" (int8, 1),
        "event_cube" (float32, 2 * `channels`), "mdes_diff" (int8, `channels`).
    channels: 1 to 16, bins or stacks: default 10, or 5 for "voxel_grid".
    depth: of "mdes": "uint8" (default), "int8" or "float32"; of "voxel_grid", "time_surface" and "event_cube": "float32" (default) or
        "float16", the same values rounded.
    swap_channels: negative polarity first; RGB for "tencode".
    cutoff: "stacked_histogram": 1 to 255, where counts saturate.
    normalize: "voxel_grid": subtract the mean of the values that are not 0 and divide by their standard deviation: True or
        "population" with divisor n, as numpy.std; "sample" with n - 1, as torch.std in E-RAFT and DSEC.
    tau: "time_surface": microseconds.
    surface: "time_surface": "exponential", the "time" in microseconds from the window's begin, or "linear" from 0 to 1.
    window_times: "time_surface", "event_cube": the window begins and ends by its duration, not with its first and last event.
    lower, upper: "event_diff", "mdes_diff": bounds of the values, -128 to 0 and 0 to 127.
    clip_each_event: "event_diff": after each event, not at the end.
    scale, clip: "event_cube": values are `scale` times the sums of weights, at most `clip`.
    map: "voxel_grid": a rectification map, (rows, cols, 2) float32 on the device where frames are made: x and y of each pixel's events,
        whose weights are split between the four pixels around it (DSEC's `rectify_map`).

    >>> import cusight
    >>> kind = cusight.Representation("voxel_grid", 3, normalize=True)
    >>> cusight.stack_events([0, 1], [0, 1], [1, 0], [10, 20], (2, 4), representation=kind).shape
    (1, 2, 4, 3)
    """

    kind: Kind
    channels: int | None = None
    depth: Literal["uint8", "int8", "float16", "float32"] | None = None
    swap_channels: bool = False
    cutoff: int = 255
    normalize: bool | Literal["population", "sample"] = False
    tau: float = 50_000.0
    surface: Literal["exponential", "time", "linear"] = "exponential"
    window_times: bool = False
    lower: int = -128
    upper: int = 127
    clip_each_event: bool = False
    scale: float = 1.0
    clip: float = float("inf")
    map: ArrayLike | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", spelled(self.kind, _KINDS) or self.kind)

    def _made(self) -> Any:
        """The library's, and the map."""
        made = _core.Representation(self.kind)
        normalize: Any = self.normalize
        if isinstance(normalize, str):
            normalize = choice("Representation", "normalize", normalize, _NORMALIZATIONS)
        given = {name: value for name, value in self.__dict__.items() if value is not None}
        return filled(made, given, normalize=normalize), self._checked_map()

    def _checked_map(self) -> Any:
        if self.map is None:
            return None
        if self.kind != "voxel_grid":
            raise invalid("Representation", "map", Shown("an array"), f"None for {self.kind}")
        shape, dtype = tuple(getattr(self.map, "shape", ())), str(getattr(self.map, "dtype", "")).rpartition(".")[2]
        if len(shape) != 3 or shape[2] != 2 or dtype != "float32":
            raise invalid("Representation", "map", Shown(f"{shape} {dtype}"), "(rows, cols, 2) float32")
        return self.map


SeveralKinds = Sequence[Union[Kind, Representation]]
Representations = Union[Kind, Representation, SeveralKinds]



def representations(function: str, given: Any, bins: int | None) -> tuple[list[tuple[Any, Any]], bool]:
    """The options of each representation with its map, and whether a list was given."""
    if bins is None and type(given) is str:
        known: tuple[list[tuple[Any, Any]], bool] = _recent_kinds.get(given) or _remember(
            _recent_kinds, given, ([Representation(given)._options()], False)  # type: ignore[arg-type]
        )
        return known
    many = isinstance(given, (list, tuple))
    options = []
    for one in given if many else [given]:
        if isinstance(one, str):
            key = (one, bins)
            made = _recent_kinds.get(key) if bins is None or type(bins) is int else None
            if made is None:
                made = _remember(_recent_kinds, key, Representation(one, bins)._options())  # type: ignore[arg-type]
            options.append(made)
        elif isinstance(one, Representation):
            options.append(one._options())
        else:
            raise invalid(function, "representation", one, "a name, a Representation or a list of them")
    if not options:
        raise invalid(function, "representation", given, "at least one")
    return options, many


def kinds_of(given: Any, bins: int | None) -> list[Representation]:
    many = given if isinstance(given, (list, tuple)) else [given]
    return [one if isinstance(one, Representation) else Representation(one, bins) for one in many]


def kinds_text(given: Any) -> str:
    """The names of representations, for people."""
    return ", ".join(one.kind for one in kinds_of(given, None))


def frame_size(function: str, shape: Sequence[int]) -> tuple[int, int]:
    if type(shape) is tuple and len(shape) == 2:
        rows, cols = shape
        if type(rows) is type(cols) is int and 1 <= rows <= 65536 and 1 <= cols <= 65536:
            return rows, cols
    return grid_size(function, "shape", shape)


def grid_size(function: str, name: str, shape: Sequence[int]) -> tuple[int, int]:
    size = integers(function, name, shape, "(rows, cols), each 1 to 65536")
    if len(size) != 2 or not all(1 <= n <= 65536 for n in size):
        raise invalid(function, name, shape, "(rows, cols), each 1 to 65536")
    return size[0], size[1]


def _windows_argument(function: str, windows: Any) -> Any:
    if type(windows) is int or type(windows) is str:
        known = _recent_windows.get(windows)
        return known or _remember(_recent_windows, windows, windowing(function, windows)._options())
    if isinstance(windows, (list, tuple)) or len(getattr(windows, "shape", ())) > 0:
        return window_rows(function, "windows", windows)
    return windowing(function, windows)._options()


def window_rows(function: str, argument: str, rows: Any) -> Any:
    """Windows as an (n, 2) array of 64-bit integers in host memory."""
    import numpy

    try:
        listed = numpy.asarray(rows)
        found = f"an array of shape {listed.shape}, {listed.dtype}"
    except (TypeError, ValueError):  # on the GPU; rows of different lengths
        listed, found = numpy.zeros(0), type(rows).__name__
    if listed.ndim != 2 or listed.shape[1] != 2 or listed.dtype.kind not in "iu":
        expected = "(n, 2) integers in host memory, the first event and the one after the last of each window"
        raise invalid(function, argument, Shown(found), expected)
    return listed if listed.dtype.itemsize == 8 else listed.astype(numpy.int64)


def _outputs(out: Any, many: bool) -> Any:
    return None if out is None else list(out) if many else [out]


def event_windows(
    t: Column | None = None,
    *,
    windows: Windows = 200_000,
    count: Integer | None = None,
    time_unit: TimeUnit | None = None,
    stream: Stream | None = None,
) -> U64:
    """Lists the windows of events: (n, 2) uint64 in host memory, the first event and the one after the last of each.

    t: (n,) times, non-decreasing, as `stack_events`; on the GPU the call waits for the stream. Windows by count need only `count`,
        the number of events.
    Raises ValueError if the last time is before the first.
    """
    import numpy

    cut = windowing("event_windows", windows)
    if hasattr(t, "t") or hasattr(t, "frames"):
        raise wrong_type("event_windows", "t", t, "times: of events, events.t")
    if t is None and (count is None or cut.unit == "duration"):
        raise invalid("event_windows", "t", t, "times, or count= with windows by count")
    events = integer("event_windows", "count", 0 if count is None else count, 0, LONG)
    raw = _core.event_windows(t, events, cut._options(), unit_number("event_windows", time_unit), stream)
    return numpy.frombuffer(raw, numpy.uint64).reshape(-1, 2)


class CallOptions(TypedDict, total=False):
    """The arguments of `EventStacker` that do not change what it returns."""

    windows: Windows | Pairs
    time_unit: TimeUnit | None
    stream: Stream | None


class StackOptions(CallOptions, total=False):
    """The same of `stack_events`."""

    bins: int | None


@overload
def stack_events(
    events: Tensors[TensorT], shape: Sequence[int], /, *, representation: Kind | Representation = ..., columns: str | None = ...,
    out: TensorT | None = ..., **options: Unpack[StackOptions],
) -> TensorT: ...
@overload
def stack_events(
    events: Tensors[TensorT], shape: Sequence[int], /, *, representation: SeveralKinds, columns: str | None = ...,
    out: Sequence[TensorT] | None = ..., **options: Unpack[StackOptions],
) -> list[TensorT]: ...
@overload
def stack_events(
    events: Other, shape: Sequence[int], /, *, representation: Representations = ..., columns: str | None = ...,
    out: ArrayLike | Sequence[ArrayLike] | None = ..., **options: Unpack[StackOptions],
) -> Any: ...
@overload
def stack_events(
    events: HostEvents, shape: Sequence[int], /, *, representation: ByteKind = ..., columns: str | None = ..., out: U8 | None = ...,
    **options: Unpack[StackOptions],
) -> U8: ...
@overload
def stack_events(
    events: HostEvents, shape: Sequence[int], /, *, representation: FloatKind, columns: str | None = ..., out: F32 | None = ...,
    **options: Unpack[StackOptions],
) -> F32: ...
@overload
def stack_events(
    events: HostEvents, shape: Sequence[int], /, *, representation: SignedKind, columns: str | None = ..., out: I8 | None = ...,
    **options: Unpack[StackOptions],
) -> I8: ...
@overload
def stack_events(
    events: HostEvents, shape: Sequence[int], /, *, representation: Representation, columns: str | None = ...,
    out: Numbers | None = ..., **options: Unpack[StackOptions],
) -> Numbers: ...
@overload
def stack_events(
    events: HostEvents, shape: Sequence[int], /, *, representation: SeveralKinds, columns: str | None = ...,
    out: Sequence[Numbers] | None = ..., **options: Unpack[StackOptions],
) -> list[Numbers]: ...
@overload
def stack_events(
    events: EventsLike, shape: Sequence[int], /, *, representation: Representations = ..., columns: str | None = ...,
    out: ArrayLike | Sequence[ArrayLike] | None = ..., **options: Unpack[StackOptions],
) -> Any: ...
@overload
def stack_events(
    x: TensorT, y: TensorT, p: TensorT, t: TensorT | None, shape: Sequence[int], *, representation: Kind | Representation = ...,
    out: TensorT | None = ..., **options: Unpack[StackOptions],
) -> TensorT: ...
@overload
def stack_events(
    x: TensorT, y: TensorT, p: TensorT, t: TensorT | None, shape: Sequence[int], *, representation: SeveralKinds,
    out: Sequence[TensorT] | None = ..., **options: Unpack[StackOptions],
) -> list[TensorT]: ...
@overload
def stack_events(
    x: Other, y: Column, p: Column, t: Column | None, shape: Sequence[int], *, representation: Representations = ...,
    out: ArrayLike | Sequence[ArrayLike] | None = ..., **options: Unpack[StackOptions],
) -> Any: ...
@overload
def stack_events(
    x: HostColumn, y: HostColumn, p: HostColumn, t: HostColumn | None, shape: Sequence[int], *, representation: ByteKind = ...,
    out: U8 | None = ..., **options: Unpack[StackOptions],
) -> U8: ...
@overload
def stack_events(
    x: HostColumn, y: HostColumn, p: HostColumn, t: HostColumn | None, shape: Sequence[int], *, representation: FloatKind,
    out: F32 | None = ..., **options: Unpack[StackOptions],
) -> F32: ...
@overload
def stack_events(
    x: HostColumn, y: HostColumn, p: HostColumn, t: HostColumn | None, shape: Sequence[int], *, representation: SignedKind,
    out: I8 | None = ..., **options: Unpack[StackOptions],
) -> I8: ...
@overload
def stack_events(
    x: HostColumn, y: HostColumn, p: HostColumn, t: HostColumn | None, shape: Sequence[int], *, representation: Representation,
    out: Numbers | None = ..., **options: Unpack[StackOptions],
) -> Numbers: ...
@overload
def stack_events(
    x: HostColumn, y: HostColumn, p: HostColumn, t: HostColumn | None, shape: Sequence[int], *, representation: SeveralKinds,
    out: Sequence[Numbers] | None = ..., **options: Unpack[StackOptions],
) -> list[Numbers]: ...
@overload
def stack_events(
    x: Column, y: Column, p: Column, t: Column | None, shape: Sequence[int], *, representation: Representations = ...,
    out: ArrayLike | Sequence[ArrayLike] | None = ..., **options: Unpack[StackOptions],
) -> Any: ...
def stack_events(
    x: Column | EventsLike,
    y: Column | Sequence[int] | None = None,
    p: Column | None = None,
    t: Column | None = None,
    shape: Sequence[int] | None = None,
    *,
    windows: Windows | Pairs = 200_000,
    representation: Representations = "histogram",
    bins: int | None = None,
    columns: str | None = None,
    time_unit: TimeUnit | None = None,
    out: ArrayLike | Sequence[ArrayLike] | None = None,
    stream: Stream | None = None,
) -> Any:
    """Makes a frame of each window of events: ``stack_events(x, y, p, t, shape)`` or ``stack_events(events, shape)``.

    x, y: (n,) column and row, whole numbers from 0 to 65535; p: (n,) polarity, positive above 0, else negative: bool, 0 and 1, or
        -1 and 1; t: (n,) times, non-decreasing (None for windows by count in representations without times).
    events: all four in one: a structured array (the names of Metavision, tonic, dv, aedat), a dict, a table (pandas, Polars, h5py's
        group), a tuple with names such as `cusight.events.Events`, a list of columns, or an array of shape (n, 4).
    shape: (rows, cols) of the frames, the sensor's. Events outside are skipped; on the host with a warning if they are more than half.
    windows: number of events (200_000), duration ("10ms"), Windowing, or (n, 2) integers, an array or a list of pairs: the first event and
        the one after the last of each window.
    representation: a name, a Representation, or a list of them.
    bins: channels of a representation that is given by name.
    columns: the order of the columns of an array of shape (n, 4) or of a list ("xypt" by default), such as "txyp".
    time_unit: "us", "ms", "s" or "ns". By default integers are microseconds and floats are seconds, as other packages have them.
    out: array to write (a list of them for a list of representations); it must not overlap the events.

    x, y uint16, p uint8 or bool and t int64 without gaps are used where they are: nothing is copied. On the host every other type of
    integer or float, in arrays, lists and fields of structures, is converted in one pass first, which takes 1 to 7 ns of a core and
    up to 13 bytes an event; times of floats are rounded to microseconds. Arrays on the GPU, all on one device, must have the types
    above.

    Returns (windows, rows, cols, channels) in the framework of `x`; a list for a list of representations. On the GPU the work is
    queued in the stream. The workspace stays allocated for the next call: `release_workspace` frees it.
    Raises TypeError, ValueError (also for the first value that does not fit, by name and number), MemoryError, RuntimeError (CUDA).
    """
    if p is None and t is None and (y is None or shape is None):
        size: Any = y if shape is None else shape
        x, y, p, t = split("stack_events", x, columns)
    else:
        size = shape
        if columns is not None:
            raise invalid("stack_events", "columns", columns, "None with four arrays")
    unit = 0 if time_unit is None else unit_number("stack_events", time_unit)
    numbers, many = representations("stack_events", representation, bins)
    rows, cols = frame_size("stack_events", size)
    frames, outside = _core.stack_events(
        x, y, p, t, unit, rows, cols, _windows_argument("stack_events", windows), numbers, _outputs(out, many), stream
    )
    if outside:
        warn_outside("stack_events", (rows, cols))
    return frames if many else frames[0]


def warn_outside(function: str, shape: tuple[int, int]) -> None:
    warn(f"{function}: more than half of the events lie outside the frame: shape is {shape}, expected the sensor's (rows, cols)")


def release_workspace() -> None:
    """Frees what `stack_events` keeps for its next call: on the GPU up to 144 MiB for each of the last two kinds of call."""
    _core.release_idle()


class EventStacker(Closeable, Generic[FramesT]):
    """Makes frames of windows of events, with a workspace that is allocated once.

    shape: (rows, cols) of the frames. representation, bins: as `stack_events`. device: "cpu", "cuda" or "cuda:N".

    Use one object per thread or stream.

    >>> import cusight
    >>> with cusight.EventStacker((2, 3)) as stacker:
    ...     frames = stacker([0, 1, 1], [0, 0, 1], [1, 1, 0], [10, 20, 30], windows=2)
    >>> frames.shape, frames.sum(3).tolist()
    ((2, 2, 3, 2), [[[1, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 1, 0]]])
    """

    @overload
    def __init__(
        self: EventStacker[U8], shape: Sequence[int], representation: ByteKind = ..., *, bins: int | None = ...,
        device: Device = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: EventStacker[F32], shape: Sequence[int], representation: FloatKind, *, bins: int | None = ..., device: Device = ...
    ) -> None: ...
    @overload
    def __init__(
        self: EventStacker[I8], shape: Sequence[int], representation: SignedKind, *, bins: int | None = ..., device: Device = ...
    ) -> None: ...
    @overload
    def __init__(
        self: EventStacker[Numbers], shape: Sequence[int], representation: Representation, *, bins: int | None = ...,
        device: Device = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: EventStacker[list[Numbers]], shape: Sequence[int], representation: SeveralKinds, *, bins: int | None = ...,
        device: Device = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: EventStacker[Any], shape: Sequence[int], representation: Representations, *, bins: int | None = ...,
        device: Device = ...,
    ) -> None: ...
    def __init__(
        self,
        shape: Sequence[int],
        representation: Representations = "histogram",
        *,
        bins: int | None = None,
        device: Device = "cpu",
    ) -> None:
        numbers, self._many = representations("EventStacker", representation, bins)
        rows, cols = frame_size("EventStacker", shape)
        self._core = _core.EventStacker(rows, cols, numbers, device_text("EventStacker", device))
        self._size = rows, cols
        self._about = f"{rows} x {cols} pixels, {kinds_text(representation)}, {device}"

    @overload  # a list, as that of the representations
    def __call__(
        self: EventStacker[list[Numbers]], events: Tensors[TensorT], /, *, columns: str | None = ...,
        out: Sequence[TensorT] | None = ..., **options: Unpack[CallOptions],
    ) -> list[TensorT]: ...
    @overload
    def __call__(
        self: EventStacker[list[Numbers]], x: TensorT, y: TensorT, p: TensorT, t: TensorT | None = ..., *,
        out: Sequence[TensorT] | None = ..., **options: Unpack[CallOptions],
    ) -> list[TensorT]: ...
    @overload
    def __call__(
        self, events: Tensors[TensorT], /, *, columns: str | None = ..., out: TensorT | None = ..., **options: Unpack[CallOptions]
    ) -> TensorT: ...
    @overload
    def __call__(
        self, x: TensorT, y: TensorT, p: TensorT, t: TensorT | None = ..., *, out: TensorT | None = ...,
        **options: Unpack[CallOptions],
    ) -> TensorT: ...
    @overload
    def __call__(
        self, events: Other, /, *, columns: str | None = ..., out: ArrayLike | Sequence[ArrayLike] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Any: ...
    @overload
    def __call__(
        self, x: Other, y: Column, p: Column, t: Column | None = ..., *, out: ArrayLike | Sequence[ArrayLike] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Any: ...
    @overload
    def __call__(
        self, events: HostEvents, /, *, columns: str | None = ..., out: Numbers | Sequence[Numbers] | None = ...,
        **options: Unpack[CallOptions],
    ) -> FramesT: ...
    @overload
    def __call__(
        self, x: HostColumn, y: HostColumn, p: HostColumn, t: HostColumn | None = ..., *,
        out: Numbers | Sequence[Numbers] | None = ..., **options: Unpack[CallOptions],
    ) -> FramesT: ...
    def __call__(
        self,
        x: Column | EventsLike,
        y: Column | None = None,
        p: Column | None = None,
        t: Column | None = None,
        *,
        windows: Windows | Pairs = 200_000,
        columns: str | None = None,
        time_unit: TimeUnit | None = None,
        out: ArrayLike | Sequence[ArrayLike] | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """As `stack_events`, of x, y, p and t or of events in one."""
        x, y, p, t = four_columns("EventStacker", x, y, p, t, columns)
        unit = unit_number("EventStacker", time_unit)
        frames, outside = self._core.run(
            x, y, p, t, unit, _windows_argument("EventStacker", windows), _outputs(out, self._many), stream
        )
        if outside:
            warn_outside("EventStacker", self._size)
        return frames if self._many else frames[0]

    def skipped(self, *, stream: Stream | None = None) -> int:
        """Events skipped because they lie outside the frame, over all windows so far. Waits for the stream."""
        return self._core.skipped(stream)  # type: ignore[no-any-return]
