"""Integral images (summed-area tables) and sums over rectangles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Sequence, TypedDict, Union, overload

from . import _core
from ._errors import choice, device_text, integer, integers, invalid, real, wrong_type
from ._objects import Closeable
from ._types import ArrayLike, Device, Other, Stream, Tensor, TensorT

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._types import F32, F64, I32, Bytes, Numbers, Picture

    Pair = tuple[I32 | None, F64 | None] | None
    WidePair = tuple[F64 | None, F64 | None] | None

Depth = Literal["int32", "float64"]
Outputs = Union[ArrayLike, "tuple[ArrayLike | None, ArrayLike | None]", None]  # a pair with sqsum
Batch = Union[Sequence[ArrayLike], None]
_DEPTHS = {"int32": 0, "float64": 1}


class _Rest(TypedDict, total=False):
    """The arguments that do not change what is returned."""

    reproducible: bool
    range: float
    stream: Stream | None


def _arithmetic(function: str, sum_depth: str, reproducible: bool, range: float) -> tuple[bool, bool, float]:
    return choice(function, "sum_depth", sum_depth, _DEPTHS) == 1, bool(reproducible), real(function, "range", range)


def _pair(out: Any, sqsum: bool) -> tuple[Any, Any]:
    if not sqsum:
        return out, None
    if out is None:
        return None, None
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise wrong_type("integral", "out", out, "a pair of arrays, since sqsum is True")
    return out[0], out[1]


@overload
def integral(
    src: Bytes, *, sum_depth: Literal["int32"] = ..., sqsum: Literal[False] = ..., out: I32 | None = ..., **options: Unpack[_Rest]
) -> I32: ...
@overload
def integral(
    src: Bytes, *, sum_depth: Literal["float64"], sqsum: Literal[False] = ..., out: F64 | None = ..., **options: Unpack[_Rest]
) -> F64: ...
@overload
def integral(
    src: F32, *, sum_depth: Depth = ..., sqsum: Literal[False] = ..., out: F64 | None = ..., **options: Unpack[_Rest]
) -> F64: ...
@overload
def integral(
    src: Picture, *, sum_depth: Depth = ..., sqsum: Literal[False] = ..., out: I32 | F64 | None = ..., **options: Unpack[_Rest]
) -> Numbers: ...
@overload
def integral(
    src: TensorT, *, sum_depth: Depth = ..., sqsum: Literal[False] = ..., out: TensorT | None = ..., **options: Unpack[_Rest]
) -> TensorT: ...
@overload
def integral(
    src: Bytes, *, sum_depth: Literal["int32"] = ..., sqsum: Literal[True], out: Pair = ..., **options: Unpack[_Rest]
) -> tuple[I32, F64]: ...
@overload
def integral(
    src: Bytes, *, sum_depth: Literal["float64"], sqsum: Literal[True], out: WidePair = ..., **options: Unpack[_Rest]
) -> tuple[F64, F64]: ...
@overload
def integral(
    src: F32, *, sum_depth: Depth = ..., sqsum: Literal[True], out: WidePair = ..., **options: Unpack[_Rest]
) -> tuple[F64, F64]: ...
@overload
def integral(
    src: Picture, *, sum_depth: Depth = ..., sqsum: Literal[True], out: Pair | WidePair = ..., **options: Unpack[_Rest]
) -> tuple[Numbers, F64]: ...
@overload
def integral(
    src: TensorT, *, sum_depth: Depth = ..., sqsum: Literal[True], out: tuple[TensorT | None, TensorT | None] | None = ...,
    **options: Unpack[_Rest],
) -> tuple[TensorT, TensorT]: ...
@overload
def integral(
    src: Picture | TensorT | Other, *, sum_depth: Depth = ..., sqsum: bool = ..., out: Outputs = ..., **options: Unpack[_Rest]
) -> Any: ...
def integral(
    src: ArrayLike, *, sum_depth: Depth = "int32", reproducible: bool = False, range: float = 0.0,
    sqsum: bool = False, out: Outputs = None, stream: Stream | None = None
) -> Any:
    """The integral image of `src`, and with `sqsum` also that of its squares.

    ``table[y, x]`` is the sum of ``src[:y, :x]``, as in cv2.integral; of several channels, each has its own.

    src: (rows, cols) or (rows, cols, channels) with up to 4 channels, uint8 or float32. Rows may be padded.
    sum_depth: type of the table of a uint8 source, "int32" (exact modulo 2^32) or "float64" (exact). A float32 source always gives
        float64.
    reproducible: the tables of a float32 source have the same bits on CPU and GPU. Values become multiples of a power of two far below the
        largest, and are added exactly (integral.h says how far); those of uint8 are exact anyway.
    range: with `reproducible`, no value of a float32 source has a larger magnitude. Saves a pass over it. A value beyond makes the
        entries below and to the right of it NaN. 0: unknown.
    sqsum: also return the table of squares, float64.
    out: array to write, (rows + 1, cols + 1) or (rows + 1, cols + 1, channels); with `sqsum` a pair of them. It must not overlap `src`.
    stream: CUDA stream; the framework's current one by default.

    Returns the table, or a pair of tables, in the framework of `src`. On the GPU the work is queued in the stream.
    Raises TypeError for other element types, ValueError for other shapes, mixed devices and overlapping arrays.
    Method: F. C. Crow, "Summed-area tables for texture mapping", 1984.
    """
    first, second = _pair(out, sqsum)
    tables = _core.integral(src, *_arithmetic("integral", sum_depth, reproducible, range), True, first, bool(sqsum), second, stream)
    return tables if sqsum else tables[0]


@overload
def box_sums(table: I32 | F64, boxes: I32 | Other, *, out: F64 | None = ..., stream: Stream | None = ...) -> F64: ...
@overload
def box_sums(table: TensorT, boxes: ArrayLike, *, out: TensorT | None = ..., stream: Stream | None = ...) -> TensorT: ...
@overload
def box_sums(table: Other, boxes: ArrayLike, *, out: ArrayLike | None = ..., stream: Stream | None = ...) -> Any: ...
def box_sums(table: ArrayLike, boxes: ArrayLike, *, out: ArrayLike | None = None, stream: Stream | None = None) -> Any:
    """Sums over many rectangles at once, from an integral image.

    table: int32 or float64, from `integral`.
    boxes: (n, 4) int32, each row x, y, width, height in pixels of the source.
    out: (n,) float64 to write, or (n, channels).

    Returns (n,) float64, or (n, channels): the sum over each rectangle, or NaN where it is not inside the source.
    Raises TypeError, ValueError as `integral`.
    """
    return _core.box_sums(table, boxes, out, stream)


class Integrator(Closeable):
    """Integral images of sources up to a size, with a workspace that is allocated once.

    max_shape: (rows, cols) of the largest source, or (rows, cols, channels). Channels count as columns: an object for
        (1080, 1920, 3) also takes (1080, 5760). (n, rows, cols, channels): room for a batch of n, which a GPU then takes together.
    device: "cpu", "cuda" or "cuda:N".

    Use one object per thread or stream. Closing it frees the workspace; it is also a context manager.

    >>> import cusight, numpy
    >>> with cusight.Integrator((1080, 1920)) as integrator:
    ...     table = integrator(numpy.ones((2, 3), numpy.uint8))
    >>> table[-1].tolist()
    [0, 2, 4, 6]
    """

    def __init__(
        self, max_shape: tuple[int, int] | tuple[int, int, int] | tuple[int, int, int, int], *, device: Device = "cpu"
    ) -> None:
        size = integers("Integrator", "max_shape", max_shape, "(rows, cols)")
        images, size = (size[0], size[1:]) if len(size) == 4 else (1, size)
        if len(size) not in (2, 3) or not 1 <= images <= 1024 or (len(size) == 3 and not 1 <= size[2] <= 4):
            expected = "(rows, cols), (rows, cols, channels) with up to 4 channels, or (n, rows, cols, channels) with n up to 1024"
            raise invalid("Integrator", "max_shape", max_shape, expected)
        rows, cols, channels = (*size, 1)[:3]
        values = integer("Integrator", "max_shape", images * cols * channels)
        self._core = _core.Integrator(rows, values, device_text("Integrator", device))
        batch = f"{images} images of " if images > 1 else ""
        self._about = f"up to {batch}{rows} x {cols} pixels{f' of {channels} channels' if channels > 1 else ''}, {device}"

    @overload
    def __call__(
        self, src: Bytes, *, sum_depth: Literal["int32"] = ..., sqsum: Literal[False] = ..., out: I32 | None = ...,
        **options: Unpack[_Rest],
    ) -> I32: ...
    @overload
    def __call__(
        self, src: Bytes, *, sum_depth: Literal["float64"], sqsum: Literal[False] = ..., out: F64 | None = ...,
        **options: Unpack[_Rest],
    ) -> F64: ...
    @overload
    def __call__(
        self, src: F32, *, sum_depth: Depth = ..., sqsum: Literal[False] = ..., out: F64 | None = ..., **options: Unpack[_Rest]
    ) -> F64: ...
    @overload
    def __call__(
        self, src: Picture, *, sum_depth: Depth = ..., sqsum: Literal[False] = ..., out: I32 | F64 | None = ...,
        **options: Unpack[_Rest],
    ) -> Numbers: ...
    @overload
    def __call__(
        self, src: TensorT, *, sum_depth: Depth = ..., sqsum: Literal[False] = ..., out: TensorT | None = ...,
        **options: Unpack[_Rest],
    ) -> TensorT: ...
    @overload
    def __call__(
        self, src: Bytes, *, sum_depth: Literal["int32"] = ..., sqsum: Literal[True], out: Pair = ..., **options: Unpack[_Rest]
    ) -> tuple[I32, F64]: ...
    @overload
    def __call__(
        self, src: Bytes, *, sum_depth: Literal["float64"], sqsum: Literal[True], out: WidePair = ..., **options: Unpack[_Rest]
    ) -> tuple[F64, F64]: ...
    @overload
    def __call__(
        self, src: F32, *, sum_depth: Depth = ..., sqsum: Literal[True], out: WidePair = ..., **options: Unpack[_Rest]
    ) -> tuple[F64, F64]: ...
    @overload
    def __call__(
        self, src: Picture, *, sum_depth: Depth = ..., sqsum: Literal[True], out: Pair | WidePair = ..., **options: Unpack[_Rest]
    ) -> tuple[Numbers, F64]: ...
    @overload
    def __call__(
        self, src: TensorT, *, sum_depth: Depth = ..., sqsum: Literal[True], out: tuple[TensorT | None, TensorT | None] | None = ...,
        **options: Unpack[_Rest],
    ) -> tuple[TensorT, TensorT]: ...
    @overload
    def __call__(
        self, src: Picture | TensorT | Other, *, sum_depth: Depth = ..., sqsum: bool = ..., out: Outputs = ...,
        **options: Unpack[_Rest],
    ) -> Any: ...
    @overload
    def __call__(
        self, src: Sequence[Picture], *, sum_depth: Depth = ..., sqsum: Literal[False] = ..., out: Sequence[I32 | F64] | None = ...,
        **options: Unpack[_Rest],
    ) -> list[Numbers]: ...
    @overload
    def __call__(
        self, src: Sequence[TensorT], *, sum_depth: Depth = ..., sqsum: Literal[False] = ..., out: Sequence[TensorT] | None = ...,
        **options: Unpack[_Rest],
    ) -> list[TensorT]: ...
    @overload
    def __call__(
        self, src: Sequence[Picture] | Sequence[Tensor], *, sum_depth: Depth = ..., sqsum: Literal[True],
        out: tuple[Batch, Batch] | None = ..., **options: Unpack[_Rest],
    ) -> tuple[list[Any], list[Any]]: ...
    def __call__(
        self, src: ArrayLike | Sequence[ArrayLike], *, sum_depth: Depth = "int32", reproducible: bool = False, range: float = 0.0,
        sqsum: bool = False, out: Outputs | Batch | tuple[Batch, Batch] = None, stream: Stream | None = None
    ) -> Any:
        """As the function `integral`, without allocating a workspace. Also of a batch: a list of sources, or (n, rows, cols, channels), of
        up to 1024; `out` and what is returned are lists, or have an axis of n, too."""
        first, second = _pair(out, sqsum)
        tables = self._core.run(src, *_arithmetic("Integrator", sum_depth, reproducible, range), True, first, bool(sqsum), second, stream)
        return tables if sqsum else tables[0]
