"""OpenCV's functions, as far as the library has them: its names, arguments, defaults and results.

    import cusight.cv2 as cv2  # was: import cv2

`matchTemplate`, `minMaxLoc`, `integral`, `integral2`, `remap` and `StereoBM_create` take arrays of NumPy, PyTorch and CuPy and work on
the device where those are. Every other name is that of the installed OpenCV itself, which takes NumPy's arrays only.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Any, Callable, Sequence, overload

from . import _images, _integral, _match, _stereo
from ._advice import FIXED_POINT
from ._errors import Error, Shown, dtype_name, integer, invalid, wrong_type
from ._types import ArrayLike, TensorT, TypeVar

_opencv: Any
try:
    import cv2 as _opencv
except ImportError:
    _opencv = None

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    from ._types import F32, F64, Numbers, Picture

    Extremes = tuple[float, float, tuple[int, int], tuple[int, int]]
    Parameters = ParamSpec("Parameters")

    class error(Exception):
        """OpenCV's exception, if it is installed."""

        code: int
        err: str
        func: str
        msg: str

elif _opencv is None:

    class error(Exception):
        """OpenCV's exception where it is not installed."""

else:
    error = _opencv.error

ResultT = TypeVar("ResultT")

TM_SQDIFF, TM_SQDIFF_NORMED, TM_CCORR, TM_CCORR_NORMED, TM_CCOEFF, TM_CCOEFF_NORMED = range(6)
CV_8U, CV_16S, CV_32S, CV_32F, CV_64F = 0, 3, 4, 5, 6
INTER_LINEAR, BORDER_CONSTANT = 1, 0
_ASSERTION = -215  # the code of most of OpenCV's errors

__all__ = [
    "BORDER_CONSTANT", "CV_16S", "CV_32F", "CV_32S", "CV_64F", "CV_8U", "INTER_LINEAR", "StereoBM", "StereoBM_create", "TM_CCOEFF",
    "TM_CCOEFF_NORMED", "TM_CCORR", "TM_CCORR_NORMED", "TM_SQDIFF", "TM_SQDIFF_NORMED", "error", "integral", "integral2",
    "matchTemplate", "minMaxLoc", "remap",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if _opencv is not None and not name.startswith("__"):
        return getattr(_opencv, name)
    raise AttributeError(f"cusight.cv2 has no {name!r}: the library does not have it, and OpenCV, which may, is not installed")


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(_opencv)})


_METHODS = {number: name for name, number in _match._METHODS.items()}


def _opencv_errors(function: Callable[Parameters, ResultT]) -> Callable[Parameters, ResultT]:
    """The library's errors as OpenCV's, whose cause they are."""

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> ResultT:
        try:
            return function(*args, **kwargs)
        except Error as failure:
            made = error(f"cusight.cv2: {failure}")
            made.code, made.err, made.func, made.msg = _ASSERTION, str(failure), function.__name__, str(made)
            raise made from failure

    return call


_ARRAY = "an array of NumPy, PyTorch or CuPy"


def _shape(function: str, argument: str, array: Any, least: int = 2) -> tuple[int, ...]:
    shape = getattr(array, "shape", None)
    if not isinstance(shape, tuple):
        missing = "; cv2.imread gives None for a file that it cannot read" if array is None else ""
        raise wrong_type(function, argument, array, _ARRAY + missing)
    if len(shape) < least:
        raise invalid(function, argument, Shown(f"of shape {tuple(shape)}"), "(rows, cols) or (rows, cols, channels)")
    return tuple(shape)


def _type(function: str, argument: str, array: Any) -> str:
    if not hasattr(array, "dtype"):
        _shape(function, argument, array)
        raise wrong_type(function, argument, array, _ARRAY)
    return dtype_name(array.dtype)


def _if_fits(function: str, argument: str, given: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """An array to write, if it has the result's size and type; otherwise, as OpenCV does, a new one is made."""
    if given is None or _shape(function, argument, given, 0) != shape or _type(function, argument, given) != dtype:
        return None
    return given


def _combined(function: str, argument: str, other: Any, first: Any, make: Callable[[], Any]) -> Any:
    """What `make` gives of two arrays, which must be of one framework and on one device."""
    try:
        return make()
    except Exception as failure:
        raise wrong_type(function, argument, other, f"an array like the first, {type(first).__name__}, on its device") from failure


def _only(function: str, argument: str, value: Any, *allowed: int) -> int:
    if integer(function, argument, value) not in allowed:
        raise invalid(function, argument, value, " or ".join(map(str, allowed)))
    return int(value)


@overload
def matchTemplate(image: Picture, templ: Picture, method: int, result: F32 | None = ..., mask: Picture | None = ...) -> F32: ...
@overload
def matchTemplate(
    image: TensorT, templ: TensorT, method: int, result: TensorT | None = ..., mask: TensorT | None = ...
) -> TensorT: ...
@_opencv_errors
def matchTemplate(
    image: ArrayLike, templ: ArrayLike, method: int, result: ArrayLike | None = None, mask: ArrayLike | None = None
) -> Any:
    """The score at every position where the template fits, float32: `cusight.match_template` in OpenCV's form.

    image, templ: (rows, cols) or (rows, cols, 2 to 4), uint8 or float32. method: TM_SQDIFF to TM_CCOEFF_NORMED.
    result: written if it has the right size and type. mask: of uint8, or weights of float32 for all but the TM_CCOEFF methods.

    >>> import cusight.cv2 as cv2, numpy
    >>> image = numpy.random.default_rng(1).integers(0, 256, (48, 64), numpy.uint8)
    >>> scores = cv2.matchTemplate(image, image[20:30, 30:45], cv2.TM_CCOEFF_NORMED)
    >>> scores.shape, numpy.unravel_index(scores.argmax(), scores.shape)
    ((39, 50), (np.int64(20), np.int64(30)))
    """
    large, small = _shape("matchTemplate", "image", image)[:2], _shape("matchTemplate", "templ", templ)[:2]
    if mask is None and large != small and large[0] <= small[0] and large[1] <= small[1]:
        image, templ, large, small = templ, image, small, large  # OpenCV lets them be exchanged
    name = _METHODS[_only("matchTemplate", "method", method, *_METHODS)]
    out = _if_fits("matchTemplate", "result", result, (large[0] - small[0] + 1, large[1] - small[1] + 1), "float32")
    if mask is not None:
        _shape("matchTemplate", "mask", mask)
    return _match.match_template(image, templ, name, mask=mask, out=out)


@overload
def minMaxLoc(src: Picture, mask: Picture | None = ...) -> Extremes: ...
@overload
def minMaxLoc(src: TensorT, mask: TensorT | None = ...) -> Extremes: ...
@_opencv_errors
def minMaxLoc(src: ArrayLike, mask: ArrayLike | None = None) -> Any:
    """The smallest and the largest number, and the place (x, y) of each, the first in reading order; NaN is passed over.

    src: (rows, cols). mask: of src's shape, uint8 or bool: only numbers where it is not 0 count. Without any: 0, 0, (-1, -1), (-1, -1).

    >>> import cusight.cv2 as cv2, numpy
    >>> cv2.minMaxLoc(numpy.array([[5, 2, 9], [2, 9, 5]], numpy.uint8))
    (2.0, 9.0, (1, 0), (2, 0))
    """
    image: Any = src
    rows, cols, *channels = shape = _shape("minMaxLoc", "src", src)
    kind = _type("minMaxLoc", "src", src)
    if not hasattr(image, "reshape"):
        raise wrong_type("minMaxLoc", "src", src, _ARRAY)
    if channels not in ([], [1]) or kind.rstrip("0123456789") not in ("bool", "int", "uint", "float"):
        raise invalid("minMaxLoc", "src", Shown(f"{kind} of shape {shape}"), "numbers of shape (rows, cols)")
    if kind in ("bool", "uint16", "uint32") and hasattr(image, "data_ptr"):
        image = image.long()  # PyTorch does not order these
    numbers, counted, places = image.reshape(-1), None, None
    if mask is not None:
        inside: Any = mask
        kind, shape = _type("minMaxLoc", "mask", mask), _shape("minMaxLoc", "mask", mask)
        if shape[:2] != (rows, cols) or kind not in ("uint8", "int8", "bool"):
            raise invalid("minMaxLoc", "mask", Shown(f"{kind} of shape {shape}"), f"uint8 or bool of shape {(rows, cols)}")
        counted = _combined("minMaxLoc", "mask", mask, src, lambda: (numbers == numbers) & (inside.reshape(-1) != 0))
    elif len(numbers) and bool((least := numbers.min()) != least):  # NaN, if there is one
        counted = numbers == numbers
    if counted is not None:
        places = counted.nonzero()
        places = places[0] if isinstance(places, tuple) else places[:, 0]
        numbers = numbers[places]
    if not len(numbers):
        return 0.0, 0.0, (-1, -1), (-1, -1)
    ends = int(numbers.argmin()), int(numbers.argmax())
    low, high = (i if places is None else int(places[i]) for i in ends)
    return float(numbers[ends[0]]), float(numbers[ends[1]]), (low % cols, low // cols), (high % cols, high // cols)


def _tables(function: str, src: Any, sums: Any, sdepth: int, sqsum: Any, sqdepth: int, squares: bool) -> Any:
    floats = _type(function, "src", src) == "float32"
    depth = _only(function, "sdepth", sdepth, -1, CV_64F) if floats else _only(function, "sdepth", sdepth, -1, CV_32S, CV_64F)
    _only(function, "sqdepth", sqdepth, -1, CV_64F)
    rows, cols, *channels = _shape(function, "src", src)
    shape = (rows + 1, cols + 1, *channels)
    name = "float64" if floats or depth == CV_64F else "int32"
    out = _if_fits(function, "sum", sums, shape, name)
    if squares:
        out = out, _if_fits(function, "sqsum", sqsum, shape, "float64")
    return _integral.integral(src, sum_depth=name, sqsum=squares, out=out)  # type: ignore[call-overload]


@overload
def integral(src: Picture, sum: Numbers | None = ..., sdepth: int = ...) -> Numbers: ...
@overload
def integral(src: TensorT, sum: TensorT | None = ..., sdepth: int = ...) -> TensorT: ...
@_opencv_errors
def integral(src: ArrayLike, sum: ArrayLike | None = None, sdepth: int = -1) -> Any:
    """The integral image: `cusight.integral` in OpenCV's form.

    src: (rows, cols) or (rows, cols, 2 to 4), uint8 or float32. sdepth: CV_32S, the default of uint8, or CV_64F, that of float32.

    >>> import cusight.cv2 as cv2, numpy
    >>> cv2.integral(numpy.ones((2, 3), numpy.uint8))[-1]
    array([0, 2, 4, 6], dtype=int32)
    """
    return _tables("integral", src, sum, sdepth, None, -1, False)


@overload
def integral2(
    src: Picture, sum: Numbers | None = ..., sqsum: F64 | None = ..., sdepth: int = ..., sqdepth: int = ...
) -> tuple[Numbers, F64]: ...
@overload
def integral2(
    src: TensorT, sum: TensorT | None = ..., sqsum: TensorT | None = ..., sdepth: int = ..., sqdepth: int = ...
) -> tuple[TensorT, TensorT]: ...
@_opencv_errors
def integral2(
    src: ArrayLike, sum: ArrayLike | None = None, sqsum: ArrayLike | None = None, sdepth: int = -1, sqdepth: int = -1
) -> Any:
    """As `integral`, and the integral image of the squares, float64 (sqdepth: CV_64F)."""
    return _tables("integral2", src, sum, sdepth, sqsum, sqdepth, True)


@overload
def remap(
    src: Picture, map1: F32, map2: F32 | None, interpolation: int, dst: Numbers | None = ..., borderMode: int = ...,
    borderValue: float | Sequence[float] | None = ...,
) -> Numbers: ...
@overload
def remap(
    src: TensorT, map1: TensorT, map2: TensorT | None, interpolation: int, dst: TensorT | None = ..., borderMode: int = ...,
    borderValue: float | Sequence[float] | None = ...,
) -> TensorT: ...
@_opencv_errors
def remap(
    src: ArrayLike, map1: ArrayLike, map2: ArrayLike | None, interpolation: int, dst: ArrayLike | None = None,
    borderMode: int = BORDER_CONSTANT, borderValue: float | Sequence[float] | None = None,
) -> Any:
    """The pixels of `src` at the places of the map: `cusight.remap` in OpenCV's form, in 1/256 pixel (OpenCV: 1/32).

    src: uint8 or float32, up to 4 channels. map1: x and map2: y, float32; or map1 (rows, cols, 2) and map2 None.
    interpolation: INTER_LINEAR. borderMode, borderValue: BORDER_CONSTANT, 0.

    >>> import cusight.cv2 as cv2, numpy
    >>> x, y = numpy.meshgrid(numpy.arange(3, dtype=numpy.float32), numpy.zeros(1, numpy.float32))
    >>> cv2.remap(numpy.array([[10, 20, 30]], numpy.uint8), x + 0.5, y, cv2.INTER_LINEAR)
    array([[15, 25, 15]], dtype=uint8)
    """
    _only("remap", "interpolation", interpolation, INTER_LINEAR)
    _only("remap", "borderMode", borderMode, BORDER_CONSTANT)
    if borderValue and (not isinstance(borderValue, Sequence) or any(borderValue)):
        raise invalid("remap", "borderValue", borderValue, "0")
    shape, size, places = _shape("remap", "src", src), _shape("remap", "map1", map1), map1
    if _type("remap", "map1", map1) == "int16":
        raise invalid("remap", "map1", Shown("int16, a map in fixed point"), FIXED_POINT)
    if map2 is not None:
        other = _shape("remap", "map2", map2)
        if other != size:
            raise invalid("remap", "map2", Shown(f"of shape {other}"), f"{size} like map1")
        framework = type(map1).__module__.partition(".")[0]
        places = _combined("remap", "map2", map2, map1, lambda: sys.modules[framework].stack((map1, map2), -1))
    return _images.remap(src, places, out=_if_fits("remap", "dst", dst, (*size[:2], *shape[2:]), _type("remap", "src", src)))


class StereoBM:
    """A stereo map in the form of OpenCV's StereoBM: disparities of the left image in 1/16 pixel, int16, and -16 where there is none.
    They are matched by census, so they are not OpenCV's. `cusight.ContourMapper` also fills holes and draws contour lines.

    Made by `StereoBM_create`. Options: numDisparities (a multiple of 16), blockSize (odd, 5 to 63), disp12MaxDiff (left-right check;
    -1: none) and speckleWindowSize, with OpenCV's setters and getters.

    >>> import cusight.cv2 as cv2, numpy
    >>> left = numpy.random.default_rng(1).integers(0, 256, (40, 96), numpy.uint8)
    >>> disparity = cv2.StereoBM_create(16, 9).compute(left, numpy.roll(left, -5, 1))
    >>> disparity.dtype, int(disparity[20, 50]) / 16
    (dtype('int16'), 5.0)
    """

    def __init__(self, numDisparities: int = 0, blockSize: int = 21) -> None:
        self.setNumDisparities(numDisparities or 64)
        self.setBlockSize(blockSize)
        self._check, self._speckles = 1, 0

    def setNumDisparities(self, numDisparities: int) -> None:
        self._shifts = _integer("numDisparities", numDisparities, 16, 1024, 16)

    def setBlockSize(self, blockSize: int) -> None:
        self._window = _integer("blockSize", blockSize, 5, 63, 2, 1)

    def setDisp12MaxDiff(self, disp12MaxDiff: int) -> None:
        self._check = _integer("disp12MaxDiff", disp12MaxDiff, -1, 1024)

    def setSpeckleWindowSize(self, speckleWindowSize: int) -> None:
        self._speckles = _integer("speckleWindowSize", speckleWindowSize, 0, 0x7FFFFFFF)

    def getNumDisparities(self) -> int:
        return self._shifts

    def getBlockSize(self) -> int:
        return self._window

    def getDisp12MaxDiff(self) -> int:
        return self._check

    def getSpeckleWindowSize(self) -> int:
        return self._speckles

    @overload
    def compute(self, left: Picture, right: Picture, disparity: Numbers | None = ...) -> Numbers: ...
    @overload
    def compute(self, left: TensorT, right: TensorT, disparity: TensorT | None = ...) -> TensorT: ...
    @_opencv_errors
    def compute(self, left: ArrayLike, right: ArrayLike, disparity: ArrayLike | None = None) -> Any:
        """The disparities of a rectified pair, (rows, cols) uint8."""
        for argument, image in ("left", left), ("right", right):
            _shape("StereoBM", argument, image)
            if _type("StereoBM", argument, image) != "uint8":
                raise invalid("StereoBM", argument, Shown(_type("StereoBM", argument, image)), "uint8")
        options = _stereo.StereoOptions(
            shifts=self._shifts, window=self._window, left_right_check=None if self._check < 0 else self._check,
            subpixel_bits=4, speckle_size=self._speckles,
        )  # fmt: skip
        codes: Any = _stereo.stereo_census(left, options)
        elevation: Any = _stereo.stereo_elevation(codes, _stereo.stereo_census(right, options), options)
        if self._speckles:
            elevation = _stereo.stereo_filter_speckles(elevation, options)
        made = elevation.view(sys.modules["torch"].int16 if hasattr(elevation, "data_ptr") else "int16")
        made -= 16  # 1 + the shift; 0 becomes a hole's -16
        out = _if_fits("StereoBM", "disparity", disparity, tuple(made.shape), "int16")
        if out is None:
            return made
        out[...] = made
        return out


@_opencv_errors
def _integer(argument: str, value: Any, least: int, most: int, step: int = 1, rest: int = 0) -> int:
    number = integer("StereoBM", argument, value, least, most)
    if number % step != rest:
        raise invalid("StereoBM", argument, value, "an odd number" if rest else f"a multiple of {step}")
    return number


def StereoBM_create(numDisparities: int = 0, blockSize: int = 21) -> StereoBM:
    """A StereoBM; numDisparities 0: 64."""
    return StereoBM(numDisparities, blockSize)
