"""Pictures of frame differences, counting colors, geometric transforms, and colors of video."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Sequence, overload

from . import _core
from ._errors import ArgumentValueError, Status, integer, integers, invalid
from ._objects import filled
from ._types import ArrayLike, Colors, Other, Stream, TensorT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer, TypedDict, TypeVar, Unpack

    from ._types import U8, Bytes, Picture

    class _Scale(TypedDict, total=False):
        full_scale: int
        colors: U8 | Buffer | None
        stream: Stream | None

    class _Yuv(TypedDict, total=False):
        matrix: Literal["bt601", "bt709", "bt2020"]
        siting: Literal["left", "center", "top-left", "top"]
        full_range: bool
        low_bits: bool
        stream: Stream | None

    PixelT = TypeVar("PixelT", bound=np.integer[Any] | np.floating[Any])


@overload
def heatmap(prev: Picture, cur: Picture, *, out: U8 | None = ..., **options: Unpack[_Scale]) -> U8: ...
@overload
def heatmap(prev: TensorT, cur: ArrayLike, *, out: TensorT | None = ..., **options: Unpack[_Scale]) -> TensorT: ...
@overload
def heatmap(prev: Other, cur: ArrayLike, *, out: ArrayLike | None = ..., **options: Unpack[_Scale]) -> Any: ...
@overload
def heatmap(
    prev: Sequence[Picture], cur: Sequence[Picture], *, out: Sequence[U8] | None = ..., **options: Unpack[_Scale]
) -> list[U8]: ...
@overload
def heatmap(
    prev: Sequence[TensorT], cur: Sequence[ArrayLike], *, out: Sequence[TensorT] | None = ..., **options: Unpack[_Scale]
) -> list[TensorT]: ...
def heatmap(
    prev: ArrayLike | Sequence[ArrayLike],
    cur: ArrayLike | Sequence[ArrayLike],
    *,
    full_scale: int = 765,
    colors: U8 | Buffer | None = None,
    out: ArrayLike | Sequence[ArrayLike] | None = None,
    stream: Stream | None = None,
) -> Any:
    """The difference of two frames in colors: blue where nothing changed, green at half scale, red at full scale.

    prev, cur: (rows, cols), (rows, cols, 3) or (rows, cols, 4) uint8, of equal shape. Or a batch: lists of such frames, or arrays
        (n, rows, cols, channels), of up to 1024 pairs, which a GPU takes together.
    full_scale: 1 to 65535, the summed difference of the channels that is shown pure red.
    colors: (766, 3) uint8 in host memory, the BGR color of each summed difference; full_scale is then ignored.
    out: (rows, cols, 3) uint8 to write; it must not overlap the inputs.

    Returns (rows, cols, 3) uint8 in BGR order; of a batch a list, or (n, rows, cols, 3), as `out` then has to be. Raises TypeError,
    ValueError.
    """
    table = None
    if colors is not None:
        view = memoryview(colors)  # type: ignore[arg-type, unused-ignore]
        if view.format != "B" or view.shape != (766, 3):
            about = f"{view.shape} of format {view.format!r}"
            raise ArgumentValueError(Status.VALUE, f"heatmap: colors is {about}, expected (766, 3) uint8")
        table = view.tobytes()
    return _core.heatmap(prev, cur, integer("heatmap", "full_scale", full_scale), table, out, stream)


@overload
def noise_view(prev: Picture, cur: Picture, *, threshold: int = ..., out: U8 | None = ..., stream: Stream | None = ...) -> U8: ...
@overload
def noise_view(
    prev: TensorT, cur: ArrayLike, *, threshold: int = ..., out: TensorT | None = ..., stream: Stream | None = ...
) -> TensorT: ...
@overload
def noise_view(
    prev: Other, cur: ArrayLike, *, threshold: int = ..., out: ArrayLike | None = ..., stream: Stream | None = ...
) -> Any: ...
def noise_view(
    prev: ArrayLike, cur: ArrayLike, *, threshold: int = 30, out: ArrayLike | None = None, stream: Stream | None = None
) -> Any:
    """Red where the summed difference of two frames is above `threshold` (0 to 765), black elsewhere. Otherwise as `heatmap`."""
    return _core.noise_view(prev, cur, integer("noise_view", "threshold", threshold), out, stream)


def hsv_triple(function: str, argument: str, values: Colors) -> list[int]:
    expected = "three numbers (h, s, v) of 0 to 255, where h is half of the hue in degrees, up to 179, as in OpenCV"
    numbers = integers(function, argument, values, expected)
    if len(numbers) != 3 or not all(0 <= v <= 255 for v in numbers):
        raise invalid(function, argument, values, expected)
    return list(numbers)


@overload
def hsv_count(
    src: Picture, lower: Colors, upper: Colors, *, mask: Literal[False] | None = ..., stream: Stream | None = ...
) -> int: ...
@overload
def hsv_count(
    src: Picture, lower: Colors, upper: Colors, *, mask: Literal[True] | U8, stream: Stream | None = ...
) -> tuple[int, U8]: ...
@overload
def hsv_count(
    src: TensorT, lower: Colors, upper: Colors, *, mask: Literal[False] | None = ..., stream: Stream | None = ...
) -> int | TensorT: ...
@overload
def hsv_count(
    src: TensorT, lower: Colors, upper: Colors, *, mask: Literal[True] | TensorT, stream: Stream | None = ...
) -> tuple[int | TensorT, TensorT]: ...
@overload
def hsv_count(
    src: ArrayLike, lower: Colors, upper: Colors, *, mask: bool | ArrayLike | None = ..., stream: Stream | None = ...
) -> Any: ...
def hsv_count(
    src: ArrayLike, lower: Colors, upper: Colors, *, mask: bool | ArrayLike | None = False, stream: Stream | None = None
) -> Any:
    """Counts the pixels whose color lies in a range of HSV, as OpenCV's 8-bit COLOR_BGR2HSV computes it.

    src: (rows, cols, 3) uint8 in BGR order.
    lower, upper: (h, s, v), both inclusive; h 0 to 179, s and v 0 to 255. lower h above upper h selects the hues that wrap around
        through 0 (reds).
    mask: True, or a (rows, cols) uint8 array to write: also return the mask, 255 in the range and 0 elsewhere.

    Returns the count, an int; on the GPU an int32 array with one element, ready in stream order. With `mask`, (count, mask).
    Raises TypeError, ValueError.
    """
    wanted = mask is not False and mask is not None
    count, image = _core.hsv_count(
        src,
        hsv_triple("hsv_count", "lower", lower),
        hsv_triple("hsv_count", "upper", upper),
        None,
        wanted,
        None if mask is True or not wanted else mask,
        stream,
    )
    return (count, image) if wanted else count


@overload
def remap(src: Bytes, map: Picture, *, out: U8 | None = ..., stream: Stream | None = ...) -> U8: ...
@overload
def remap(
    src: NDArray[PixelT], map: Picture, *, out: NDArray[PixelT] | None = ..., stream: Stream | None = ...
) -> NDArray[PixelT]: ...
@overload
def remap(src: TensorT, map: ArrayLike, *, out: TensorT | None = ..., stream: Stream | None = ...) -> TensorT: ...
@overload
def remap(src: Other, map: ArrayLike, *, out: ArrayLike | None = ..., stream: Stream | None = ...) -> Any: ...
@overload
def remap(
    src: Sequence[Bytes], map: Picture | Sequence[Picture], *, out: Sequence[U8] | None = ..., stream: Stream | None = ...
) -> list[U8]: ...
@overload
def remap(
    src: Sequence[NDArray[PixelT]], map: Picture | Sequence[Picture], *, out: Sequence[NDArray[PixelT]] | None = ...,
    stream: Stream | None = ...,
) -> list[NDArray[PixelT]]: ...
@overload
def remap(
    src: Sequence[TensorT], map: ArrayLike | Sequence[ArrayLike], *, out: Sequence[TensorT] | None = ..., stream: Stream | None = ...
) -> list[TensorT]: ...
def remap(
    src: ArrayLike | Sequence[ArrayLike],
    map: ArrayLike | Sequence[ArrayLike],
    *,
    out: ArrayLike | Sequence[ArrayLike] | None = None,
    stream: Stream | None = None,
) -> Any:
    """The pixels of `src` at the places that `map` gives, bilinear in 1/256 pixel; pixels outside `src` are 0.

    src: (rows, cols) or (rows, cols, 1 to 4), uint8 or float32. Or a batch: a list of such images, or (n, rows, cols, channels), of up to
        1024, which a GPU takes together.
    map: (rows, cols, 2) float32: x and y in `src`, such as the two maps of cv2.initUndistortRectifyMap, stacked. Of a batch one for all
        images, or one for each: a list, or (n, rows, cols, 2).
    out: an array of the result's shape and of src's dtype to write.

    Returns (rows of the map, columns of the map, channels of src); of a batch a list, or (n, ...). The CPU and the GPU give the same bits.
    Raises TypeError, ValueError.
    """
    return _core.remap(src, map, out, stream)


def _yuv(matrix: str, siting: str, full_range: bool, low_bits: bool) -> Any:
    return filled(_core.YuvOptions(), {"matrix": matrix, "siting": siting}, full_range=full_range, low_bits=low_bits)


@overload
def yuv_to_bgr(y: Picture, u: Picture, v: Picture | None = ..., *, out: U8 | None = ..., **options: Unpack[_Yuv]) -> U8: ...
@overload
def yuv_to_bgr(
    y: TensorT, u: ArrayLike, v: ArrayLike | None = ..., *, out: TensorT | None = ..., **options: Unpack[_Yuv]
) -> TensorT: ...
@overload
def yuv_to_bgr(y: Other, u: ArrayLike, v: ArrayLike | None = ..., *, out: ArrayLike | None = ..., **options: Unpack[_Yuv]) -> Any: ...
def yuv_to_bgr(
    y: ArrayLike,
    u: ArrayLike,
    v: ArrayLike | None = None,
    *,
    matrix: Literal["bt601", "bt709", "bt2020"] = "bt601",
    siting: Literal["left", "center", "top-left", "top"] = "left",
    full_range: bool = False,
    low_bits: bool = False,
    out: ArrayLike | None = None,
    stream: Stream | None = None,
) -> Any:
    """A decoder's picture in YCbCr 4:2:0 as BGR: NV12, I420, P010, or yuv420p10.

    y: (rows, cols), uint8, or uint16 with 10 bits.
    u, v: half of y's rows and columns, rounded up, of y's dtype: two planes; or u with a third axis of (u, v), and no v.
    matrix, siting, full_range: what the stream says of its colors, of the place of chroma, and of its range.
    low_bits: uint16 has samples in its lower 10 bits (yuv420p10), not in the upper 10 (P010).
    out: a (rows, cols, 3) uint8 array to write.

    Returns (rows, cols, 3) uint8. The CPU and the GPU give the same bits. Raises TypeError, ValueError.
    """
    return _core.yuv_to_bgr(y, u, v, _yuv(matrix, siting, full_range, low_bits), out, stream)


@overload
def yuv_to_gray(
    y: Picture, *, full_range: bool = ..., low_bits: bool = ..., out: U8 | None = ..., stream: Stream | None = ...
) -> U8: ...
@overload
def yuv_to_gray(
    y: TensorT, *, full_range: bool = ..., low_bits: bool = ..., out: TensorT | None = ..., stream: Stream | None = ...
) -> TensorT: ...
@overload
def yuv_to_gray(
    y: Other, *, full_range: bool = ..., low_bits: bool = ..., out: ArrayLike | None = ..., stream: Stream | None = ...
) -> Any: ...
def yuv_to_gray(
    y: ArrayLike,
    *,
    full_range: bool = False,
    low_bits: bool = False,
    out: ArrayLike | None = None,
    stream: Stream | None = None,
) -> Any:
    """A decoder's luma as gray, 0 to 255: the value of all three colors in `yuv_to_bgr` where chroma is neutral.

    y, full_range, low_bits: as for `yuv_to_bgr`. In full range with 8 bits the result equals y, which needs no call.
    out: a (rows, cols) uint8 array to write.

    Returns (rows, cols) uint8. Raises TypeError, ValueError.
    """
    return _core.yuv_to_gray(y, _yuv("bt601", "left", full_range, low_bits), out, stream)
