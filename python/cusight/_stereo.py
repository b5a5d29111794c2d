"""Elevation and contour maps from rectified stereo pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Sequence, overload

from . import _core
from ._errors import choice, device_text, dtype_name, integer, integers, invalid, wrong_type
from ._objects import Closeable, Options, filled
from ._types import ArrayLike, Device, Other, Stream, Tensor, TensorT, TypeVar

if TYPE_CHECKING:
    from ._types import F32, U8, U16, Elevation, Numbers, Picture, Shorts

ElevationT = TypeVar("ElevationT", default=Any)


@dataclass(frozen=True)
class StereoOptions(Options):
    """Options of all stereo functions. `best` is semi-global matching, for smooth and repetitive scenes; `classic` is the method as
    published in 1986.

    border: pixels outside the image, "wrap" (the opposite side) or "zero".
    agreement: of a left and a right pixel, "equal", "edge" or "census".
    threshold: contrast of an edge, as a fraction of the mean of its two sides.
    shifts: 1 to 1024 disparities are tried; 0: as many as `stereo_find_shifts` finds, for which the call waits for the GPU, or
        a `ContourMapper`'s first.
    direction: +1: left x matches right x + s; -1: right x - s, as in a standard rectified pair.
    window: odd, 1 to 63: side of the matching window.
    prefer_smaller: of two equal scores the smaller shift wins.
    left_right_check: largest difference between the elevations of the two images; None: no check.
    fill: of holes, "none", "once", "lower" or "relax" (float32).
    iterations, tolerance: of "once" and "relax".
    median: 0, 3 or 5.
    lines: "modulo" or "crossing". levels: number of contour levels, 1 to 65535.
    subpixel_bits: 0, or 2 to 8 fraction bits of elevations, which then count 1 / 2**subpixel_bits pixel.
    min_confidence: 0 to 255; pixels of less confidence become holes.
    speckle_size: regions of at most so many pixels become holes.
    aggregation: what decides on a shift, a "window" or also "paths" to the pixel (semi-global matching), which need
        agreement="census" and a window of at most 15. paths: 4 or 8; 0: 4. p1, p2: penalties where the shift changes along a path
        by 1 and by more; 0: 3 window**2 and 7 window**2. p2_slope: what p2 loses for each gray level between the two pixels of a
        step, down to p1; only a ContourMapper, which has the images, takes it.

    Immutable and picklable; `dataclasses.replace` makes a changed copy.

    >>> import cusight, dataclasses
    >>> options = dataclasses.replace(cusight.StereoOptions.best(), shifts=64)
    >>> options.aggregation, options.shifts
    ('paths', 64)
    """

    border: Literal["wrap", "zero"] = "zero"
    agreement: Literal["equal", "edge", "census"] = "census"
    threshold: float = 0.2
    shifts: int = 0
    direction: int = -1
    window: int = 7
    prefer_smaller: bool = True
    left_right_check: int | None = 1
    fill: Literal["none", "once", "relax", "lower"] = "lower"
    iterations: int = 512
    tolerance: float = 0.001
    median: int = 5
    lines: Literal["modulo", "crossing"] = "crossing"
    levels: int = 10
    subpixel_bits: int = 0
    min_confidence: int = 0
    speckle_size: int = 0
    aggregation: Literal["window", "paths"] = "window"
    paths: int = 0
    p1: int = 0
    p2: int = 0
    p2_slope: int = 0

    @classmethod
    def best(cls) -> StereoOptions:
        """Semi-global matching: fewer errors at several times the time and memory."""
        return cls(window=3, speckle_size=49, aggregation="paths")

    @classmethod
    def classic(cls) -> StereoOptions:
        """The algorithm of Thinking Machines technical report 86.14 (1986)."""
        return cls("wrap", "equal", 0.2, 30, 1, 21, False, None, "once", 50, 0.0, 0, "modulo", 10)

    def _made(self) -> Any:
        check = -1 if self.left_right_check is None else self.left_right_check
        return filled(_core.StereoOptions(), self.__dict__, left_right_check=check)


_DEFAULTS = StereoOptions()


def _given(options: StereoOptions | None) -> Any:
    if options is None:
        return _DEFAULTS._options()
    if not isinstance(options, StereoOptions):
        raise wrong_type("stereo", "options", options, "StereoOptions, such as StereoOptions(shifts=64)")
    return options._options()


@overload
def stereo_edges(
    image: Picture, options: StereoOptions | None = ..., *, out: U8 | None = ..., stream: Stream | None = ...
) -> U8: ...
@overload
def stereo_edges(
    image: TensorT, options: StereoOptions | None = ..., *, out: TensorT | None = ..., stream: Stream | None = ...
) -> TensorT: ...
@overload
def stereo_edges(
    image: Other, options: StereoOptions | None = ..., *, out: ArrayLike | None = ..., stream: Stream | None = ...
) -> Any: ...
def stereo_edges(
    image: ArrayLike, options: StereoOptions | None = None, *, out: ArrayLike | None = None, stream: Stream | None = None
) -> Any:
    """Edges of one image: (rows, cols) uint8, 255 at an edge. image: (rows, cols) uint8, or float32 with brightness 0 to 1."""
    return _core.stereo_edges(image, _given(options), out, stream)


@overload
def stereo_census(
    image: Picture, options: StereoOptions | None = ..., *, out: U8 | None = ..., stream: Stream | None = ...
) -> U8: ...
@overload
def stereo_census(
    image: TensorT, options: StereoOptions | None = ..., *, out: TensorT | None = ..., stream: Stream | None = ...
) -> TensorT: ...
@overload
def stereo_census(
    image: Other, options: StereoOptions | None = ..., *, out: ArrayLike | None = ..., stream: Stream | None = ...
) -> Any: ...
def stereo_census(
    image: ArrayLike, options: StereoOptions | None = None, *, out: ArrayLike | None = None, stream: Stream | None = None
) -> Any:
    """Census transform (Zabih and Woodfill, 1994): (rows, cols) uint8, a bit for each neighbor that is brighter."""
    return _core.stereo_census(image, _given(options), out, stream)


@overload
def stereo_elevation(
    left: Picture, right: Picture | Other, options: StereoOptions | None = ..., *, out: U16 | None = ...,
    stream: Stream | None = ...,
) -> U16: ...
@overload
def stereo_elevation(
    left: TensorT, right: ArrayLike, options: StereoOptions | None = ..., *, out: TensorT | None = ..., stream: Stream | None = ...
) -> TensorT: ...
@overload
def stereo_elevation(
    left: Other, right: ArrayLike, options: StereoOptions | None = ..., *, out: ArrayLike | None = ..., stream: Stream | None = ...
) -> Any: ...
def stereo_elevation(
    left: ArrayLike, right: ArrayLike, options: StereoOptions | None = None, *, out: ArrayLike | None = None,
    stream: Stream | None = None,
) -> Any:
    """Elevation from the edges or census codes of both images: (rows, cols) uint16, 1 + the best shift, 0 for a hole."""
    return _core.stereo_elevation(left, right, _given(options), out, stream)


@overload
def stereo_elevation_confidence(
    left: Picture, right: Picture | Other, options: StereoOptions | None = ..., *, out: U16 | None = ...,
    confidence: U8 | None = ..., stream: Stream | None = ...,
) -> tuple[U16, U8]: ...
@overload
def stereo_elevation_confidence(
    left: TensorT, right: ArrayLike, options: StereoOptions | None = ..., *, out: TensorT | None = ...,
    confidence: TensorT | None = ..., stream: Stream | None = ...,
) -> tuple[TensorT, TensorT]: ...
@overload
def stereo_elevation_confidence(
    left: Other, right: ArrayLike, options: StereoOptions | None = ..., *, out: ArrayLike | None = ...,
    confidence: ArrayLike | None = ..., stream: Stream | None = ...,
) -> Any: ...
def stereo_elevation_confidence(
    left: ArrayLike,
    right: ArrayLike,
    options: StereoOptions | None = None,
    *,
    out: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    stream: Stream | None = None,
) -> Any:
    """The same, and the confidence: (rows, cols) uint8, 255 (best - second) / best of the scores, where the second best is no
    neighbor of the best; 0 at holes."""
    return _core.stereo_elevation_confidence(left, right, _given(options), out, confidence, stream)


def stereo_find_shifts(
    left: Picture | Tensor | Other, right: ArrayLike, options: StereoOptions | None = None, *, stream: Stream | None = None
) -> int:
    """How many shifts a pair needs, with a margin, from the edges or census codes of both images; waits for the GPU."""
    return _core.stereo_find_shifts(left, right, _given(options), stream)


@overload
def stereo_filter_speckles(
    elevation: Picture, options: StereoOptions | None = ..., *, out: U16 | None = ..., stream: Stream | None = ...
) -> U16: ...
@overload
def stereo_filter_speckles(
    elevation: TensorT, options: StereoOptions | None = ..., *, out: TensorT | None = ..., stream: Stream | None = ...
) -> TensorT: ...
@overload
def stereo_filter_speckles(
    elevation: Other, options: StereoOptions | None = ..., *, out: ArrayLike | None = ..., stream: Stream | None = ...
) -> Any: ...
def stereo_filter_speckles(
    elevation: ArrayLike, options: StereoOptions | None = None, *, out: ArrayLike | None = None, stream: Stream | None = None
) -> Any:
    """Makes holes of regions of at most `speckle_size` pixels, whose neighbors differ by at most one pixel: (rows, cols) uint16."""
    return _core.stereo_filter_speckles(elevation, _given(options), out, stream)


@overload
def stereo_fill(elevation: Picture, options: None = ..., *, out: U16 | None = ..., stream: Stream | None = ...) -> U16: ...
@overload
def stereo_fill(
    elevation: Picture, options: StereoOptions | None, *, out: Elevation | None = ..., stream: Stream | None = ...
) -> Numbers: ...
@overload
def stereo_fill(
    elevation: TensorT, options: StereoOptions | None = ..., *, out: TensorT | None = ..., stream: Stream | None = ...
) -> TensorT: ...
@overload
def stereo_fill(
    elevation: Other, options: StereoOptions | None = ..., *, out: ArrayLike | None = ..., stream: Stream | None = ...
) -> Any: ...
def stereo_fill(
    elevation: ArrayLike, options: StereoOptions | None = None, *, out: ArrayLike | None = None, stream: Stream | None = None
) -> Any:
    """Fills the holes of a uint16 elevation: uint16, or float32 with fill="relax"."""
    return _core.stereo_fill(elevation, _given(options), out, stream)


@overload
def stereo_median(elevation: Shorts, size: int = ..., *, out: U16 | None = ..., stream: Stream | None = ...) -> U16: ...
@overload
def stereo_median(elevation: F32, size: int = ..., *, out: F32 | None = ..., stream: Stream | None = ...) -> F32: ...
@overload
def stereo_median(elevation: Picture, size: int = ..., *, out: Elevation | None = ..., stream: Stream | None = ...) -> Numbers: ...
@overload
def stereo_median(elevation: TensorT, size: int = ..., *, out: TensorT | None = ..., stream: Stream | None = ...) -> TensorT: ...
@overload
def stereo_median(elevation: Other, size: int = ..., *, out: ArrayLike | None = ..., stream: Stream | None = ...) -> Any: ...
def stereo_median(elevation: ArrayLike, size: int = 5, *, out: ArrayLike | None = None, stream: Stream | None = None) -> Any:
    """Median of 3 x 3 or 5 x 5 pixels of a uint16 or float32 elevation."""
    return _core.stereo_median(elevation, integer("stereo_median", "size", size), out, stream)


@overload
def stereo_contours(
    elevation: Picture, options: StereoOptions | None = ..., *, out: U8 | None = ..., stream: Stream | None = ...
) -> U8: ...
@overload
def stereo_contours(
    elevation: TensorT, options: StereoOptions | None = ..., *, out: TensorT | None = ..., stream: Stream | None = ...
) -> TensorT: ...
@overload
def stereo_contours(
    elevation: Other, options: StereoOptions | None = ..., *, out: ArrayLike | None = ..., stream: Stream | None = ...
) -> Any: ...
def stereo_contours(
    elevation: ArrayLike, options: StereoOptions | None = None, *, out: ArrayLike | None = None, stream: Stream | None = None
) -> Any:
    """Contour lines of a uint16 or float32 elevation: (rows, cols) uint8, 255 on a line."""
    return _core.stereo_contours(elevation, _given(options), out, stream)


@overload
def stereo_picture(
    elevation: Picture, contours: ArrayLike | None = ..., *, out: U8 | None = ..., stream: Stream | None = ...
) -> U8: ...
@overload
def stereo_picture(
    elevation: TensorT, contours: ArrayLike | None = ..., *, out: TensorT | None = ..., stream: Stream | None = ...
) -> TensorT: ...
@overload
def stereo_picture(
    elevation: Other, contours: ArrayLike | None = ..., *, out: ArrayLike | None = ..., stream: Stream | None = ...
) -> Any: ...
def stereo_picture(
    elevation: ArrayLike, contours: ArrayLike | None = None, *, out: ArrayLike | None = None, stream: Stream | None = None
) -> Any:
    """Elevation in colors, (rows, cols, 3) uint8 BGR: blue (low) to red (high), holes and `contours` black."""
    return _core.stereo_picture(elevation, contours, out, stream)


class ContourMapper(Closeable, Generic[ElevationT]):
    """All stages for pairs of one size; mapping allocates only its outputs.

    shape: (rows, cols) of the images. dtype: "uint8", or "float32" with brightness 0 to 1. device: "cpu", "cuda" or "cuda:N".

    Use one object per thread or stream. Equals the stages called one by one.

    >>> import cusight, numpy
    >>> left = numpy.random.default_rng(1).integers(0, 256, (48, 64), numpy.uint8)
    >>> with cusight.ContourMapper(left.shape, cusight.StereoOptions(shifts=16)) as mapper:
    ...     elevation, contours = mapper(left, numpy.roll(left, -5, 1))
    >>> int(elevation[24, 40]), contours.shape
    (6, (48, 64))
    """

    @overload
    def __init__(
        self: ContourMapper[U16], shape: Sequence[int], options: None = ..., *, dtype: Literal["uint8", "float32"] = ...,
        device: Device = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: ContourMapper[Numbers], shape: Sequence[int], options: StereoOptions | None, *,
        dtype: Literal["uint8", "float32"] = ..., device: Device = ...,
    ) -> None: ...
    def __init__(
        self,
        shape: Sequence[int],
        options: StereoOptions | None = None,
        *,
        dtype: Literal["uint8", "float32"] = "uint8",
        device: Device = "cpu",
    ) -> None:
        size = integers("ContourMapper", "shape", shape, "(rows, cols)")
        if len(size) < 2:
            raise invalid("ContourMapper", "shape", shape, "(rows, cols)")
        floats = choice("ContourMapper", "dtype", dtype_name(dtype), {"uint8": 0, "float32": 1})
        self._about = f"{size[0]} x {size[1]} pixels, {dtype_name(dtype)}, {device}"
        self._core = _core.ContourMapper(size[0], size[1], bool(floats), device_text("ContourMapper", device), _given(options))

    @overload
    def __call__(
        self, left: Picture, right: Picture | Other, *, elevation: Elevation | None = ..., contours: U8 | None = ...,
        stream: Stream | None = ...,
    ) -> tuple[ElevationT, U8]: ...
    @overload
    def __call__(
        self, left: TensorT, right: ArrayLike, *, elevation: TensorT | None = ..., contours: TensorT | None = ...,
        stream: Stream | None = ...,
    ) -> tuple[TensorT, TensorT]: ...
    @overload
    def __call__(
        self, left: Other, right: ArrayLike, *, elevation: ArrayLike | None = ..., contours: ArrayLike | None = ...,
        stream: Stream | None = ...,
    ) -> tuple[Any, Any]: ...
    def __call__(
        self, left: ArrayLike, right: ArrayLike, *, elevation: ArrayLike | None = None, contours: ArrayLike | None = None,
        stream: Stream | None = None,
    ) -> tuple[Any, Any]:
        """Maps one pair. elevation, contours: arrays to write.

        Returns the elevation after fill and median, (rows, cols) uint16 (float32 with fill="relax"), and the contour lines,
        (rows, cols) uint8.
        """
        return self._core.run(left, right, elevation, True, contours, stream)  # type: ignore[no-any-return]
