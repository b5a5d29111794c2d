"""Pictures of frame differences, and counting colors."""

from __future__ import annotations

from typing import Any, Sequence

from . import _core
from ._errors import ArgumentValueError, Status, integer, integers, invalid
from ._types import Array, ArrayLike, Stream



def heatmap(
    prev: Array,
    cur: Array,
    *,
    full_scale: int = 765,
    colors: ArrayLike | None = None,
    out: ArrayLike | None = None,
    stream: Stream | None = None,
) -> Array:
    """The difference of two frames in colors: blue where nothing changed, green at half scale, red at full scale.

    prev, cur: (rows, cols), (rows, cols, 3) or (rows, cols, 4) uint8, of equal shape.
    full_scale: 1 to 65535, the summed difference of the channels that is shown pure red.
    colors: (766, 3) uint8 in host memory, the BGR color of each summed difference; full_scale is then ignored.
    out: (rows, cols, 3) uint8 to write; it must not overlap the inputs.

    Returns (rows, cols, 3) uint8 in BGR order. Raises TypeError, ValueError.
    """
    table = None
    if colors is not None:
        view = memoryview(colors)  # type: ignore[arg-type]
        if view.format != "B" or view.shape != (766, 3):
            about = f"{view.shape} of format {view.format!r}"
            raise ArgumentValueError(Status.VALUE, f"heatmap: colors is {about}, expected (766, 3) uint8")
        table = view.tobytes()
    return _core.heatmap(prev, cur, integer("heatmap", "full_scale", full_scale), table, out, stream)  # type: ignore[return-value]


def noise_view(prev: Array, cur: Array, *, threshold: int = 30, out: ArrayLike | None = None, stream: Stream | None = None) -> Array:
    """Red where the summed difference of two frames is above `threshold` (0 to 765), black elsewhere. Otherwise as `heatmap`."""
    return _core.noise_view(prev, cur, integer("noise_view", "threshold", threshold), out, stream)  # type: ignore[return-value]


def hsv_triple(function: str, argument: str, values: Sequence[int]) -> list[int]:
    expected = "three numbers (h, s, v) of 0 to 255, where h is half of the hue in degrees, up to 179, as in OpenCV"
    numbers = integers(function, argument, values, expected)
    if len(numbers) != 3 or not all(0 <= v <= 255 for v in numbers):
        raise invalid(function, argument, values, expected)
    return list(numbers)


def hsv_count(
    src: ArrayLike,
    lower: Sequence[int],
    upper: Sequence[int],
    *,
    mask: bool | ArrayLike = False,
    stream: Stream | None = None,
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


def remap(src: Array, map: Array, *, out: ArrayLike | None = None, stream: Stream | None = None) -> Array:
    """The pixels of `src` at the places that `map` gives, bilinear in 1/256 pixel; pixels outside `src` are 0.

    src: (rows, cols) or (rows, cols, 1 to 4), uint8 or float32.
    map: (rows, cols, 2) float32: x and y in `src`, such as the two maps of cv2.initUndistortRectifyMap, stacked.
    out: an array of the result's shape and of src's dtype to write.

    Returns (rows of the map, columns of the map, channels of src). The CPU and the GPU give the same bits.
    Raises TypeError, ValueError.
    """
    return _core.remap(src, map, out, stream)  # type: ignore[return-value]
