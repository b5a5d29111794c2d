"""Template matching with the exact best match, and inspection."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, Literal, Sequence, TypedDict, overload

from . import _core
from ._errors import Shown, device_text, integer, integers, invalid, real, spelled, wrong_type
from ._images import hsv_triple
from ._objects import Closeable, filled, record_type
from ._types import ArrayLike, Colors, Device, Other, Stream, Tensor, TensorT, TypeVar

if TYPE_CHECKING:
    import numpy
    from typing_extensions import Unpack

    from ._types import F32, Hits, Picture

Method = Literal[
    "sqdiff", "sqdiff-normed", "ccorr", "ccorr-normed", "ccoeff", "ccoeff-normed", "sqdiff_normed", "ccorr_normed", "ccoeff_normed"
]
Algorithm = Literal["auto", "direct", "fft"]

_METHODS = _core.MatcherOptions.words["method"]
_ALGORITHMS = _core.MatcherOptions.words["algorithm"]
_FIELDS = [
    ("x", "<i4"),
    ("y", "<i4"),
    ("score", "<f8"),
    ("dx", "<f4"),
    ("dy", "<f4"),
    ("pixels", "<u4"),
    ("filled", "<i4"),
]


def match_dtype() -> numpy.dtype[numpy.void]:
    """The NumPy type of one match: 32 bytes with x, y, score, dx, dy, pixels and filled."""
    return record_type(*_FIELDS)


def _hits(raw: bytearray) -> Hits:
    import numpy

    return numpy.frombuffer(raw, match_dtype())


def frame_shape_of(function: str, shape: Sequence[int]) -> tuple[int, ...]:
    """rows and cols of frames, and further axes, which are ignored."""
    expected = f"(rows, cols) of the frames, as in {function}(part, image.shape)"
    size = integers(function, "shape", shape, expected)
    if len(size) < 2:
        raise invalid(function, "shape", shape, expected)
    return size


def moved(function: str, argument: str, array: Any, device: Device | None) -> Any:
    """A template or mask on a device; None: where it is."""
    return array if array is None or device is None else _core.moved(function, argument, array, device_text(function, device))


class _OneFrame(TypedDict, total=False):
    """The options of `Matcher` but for those that change what it returns, and the device."""

    method: Method
    algorithm: Algorithm
    mask: ArrayLike | None
    max_matches: int
    min_distance: int
    score_limit: float | None
    subpixel: bool


class MatcherOptions(_OneFrame, total=False):
    """The options of `Matcher` that are not a stream."""

    batch: int


FoundT = TypeVar("FoundT", default=Any)  # what a call returns


class Matcher(Closeable, Generic[FoundT]):
    """Finds templates in frames of one size. Everything is allocated and prepared here; matching allocates nothing.

    templates: (h, w) or (h, w, 2 to 4), uint8 or float32; or a list of such arrays of one size and type, at most 1024.
    shape: (rows, cols) of the frames; further axes are ignored, so ``frame.shape`` fits.
    method: as in cv2.matchTemplate: "sqdiff", "sqdiff-normed", "ccorr", "ccorr-normed", "ccoeff", "ccoeff-normed".
    algorithm: "auto" (the faster one), "direct" or "fft".
    mask: (h, w) uint8 or bool; only pixels that are not 0 count. "sqdiff", "ccorr" and their normed methods also take weights of
        frame and template: (h, w) float32, or the template's shape in float32, or in uint8 a mask for each channel.
    max_matches: 1 to 1024 matches per template, best first.
    min_distance: any two matches differ by at least this many pixels in x or in y.
    score_limit: a match must be at least this good: <= for "sqdiff" and "sqdiff-normed", >= for the others. None: no limit.
    subpixel: also fit a parabola through the exact scores at and beside each match (dx, dy).
    batch: frames to match in one call, at most 1024. Above 1, `frame` is a list of them or an array with one more axis; there is
        one template for all, or a list with one for each; and results are lists with an element for each frame.
    device: "cpu", "cuda" or "cuda:N": where frames are matched. Templates and mask are copied there. None: where the templates are.

    The best match is that of brute force: for uint8 images position and score are exact. Use one object per thread or stream. It
    is a context manager.
    Raises TypeError (element types), ValueError (sizes, options), MemoryError, RuntimeError (CUDA), NotImplementedError ("fft" on
    the CPU in a build without a host FFT).
    Method: docs/match.md.

    >>> import cusight, numpy
    >>> frame = numpy.random.default_rng(1).integers(0, 256, (48, 64), numpy.uint8)
    >>> with cusight.Matcher(frame[20:30, 30:45], frame.shape) as matcher:
    ...     best = matcher(frame)[0]
    >>> int(best["x"]), int(best["y"]), float(best["score"])
    (30, 20, 1.0)
    """

    @overload
    def __init__(
        self: Matcher[Hits],
        templates: Picture | Tensor | Other,
        shape: Sequence[int],
        *,
        batch: Literal[1] = ...,
        device: Device | None = ...,
        stream: Stream | None = ...,
        **options: Unpack[_OneFrame],
    ) -> None: ...
    @overload  # a batch of several, or templates of several
    def __init__(
        self: Matcher[list[Hits]],
        templates: Picture | Tensor | Other | Sequence[Picture | Tensor | Other],
        shape: Sequence[int],
        *,
        batch: int = ...,
        device: Device | None = ...,
        stream: Stream | None = ...,
        **options: Unpack[_OneFrame],
    ) -> None: ...
    def __init__(
        self,
        templates: ArrayLike | Sequence[ArrayLike],
        shape: Sequence[int],
        *,
        method: Method = "ccoeff-normed",
        algorithm: Algorithm = "auto",
        mask: ArrayLike | None = None,
        max_matches: int = 1,
        min_distance: int = 1,
        score_limit: float | None = None,
        subpixel: bool = False,
        batch: int = 1,
        device: Device | None = None,
        stream: Stream | None = None,
    ) -> None:
        self._batch = integer("Matcher", "batch", batch)
        self._many = self._batch > 1 or isinstance(templates, (list, tuple))
        items: list[Any] = list(templates) if isinstance(templates, (list, tuple)) else [templates]
        if not items:
            raise invalid("Matcher", "templates", templates, "an array or a list with at least one")
        size = frame_shape_of("Matcher", shape)
        limit = math.nan if score_limit is None else score_limit
        options = filled(_core.MatcherOptions(), locals(), score_limit=limit, subpixel=bool(subpixel))
        self._count = self._batch if self._batch > 1 else len(items)
        self._about = f"{len(items)} template{'s' * (len(items) > 1)} in {size[0]} x {size[1]} pixels, {spelled(method, _METHODS)}"
        self._core = _core.Matcher(
            [moved("Matcher", "templates", item, device) for item in items],
            size[0],
            size[1],
            options,
            moved("Matcher", "mask", mask, device),
            stream,
        )

    def _frames(self, frame: Any) -> list[Any]:
        listed = isinstance(frame, (list, tuple))
        if self._batch == 1:
            if listed and all(hasattr(one, "shape") for one in frame):
                expected = f"one array: call it for each of them, or make a Matcher with batch={len(frame)}"
                raise wrong_type("Matcher", "frame", frame, expected)
            return [frame]
        if not listed and len(getattr(frame, "shape", (1, 1, 1))) < 3:
            found = Shown(f"an array of shape {tuple(frame.shape)}")
            raise invalid("Matcher", "frame", found, f"{self._batch} frames, the batch: a list, or an array with one more axis")
        return list(frame) if listed else [frame[i] for i in range(len(frame))]

    @property
    def algorithm(self) -> str:
        """The algorithm taken: "direct" or "fft", which floats always take, and masks on the CPU."""
        number = self._core.algorithm
        return str(next(name for name, value in _ALGORITHMS.items() if value == number))

    def __call__(self, frame: ArrayLike | Sequence[ArrayLike], *, stream: Stream | None = None) -> FoundT:
        """Matches one frame and returns the matches, best first: a structured NumPy array with the fields x, y, score, dx, dy,
        pixels and filled (see `match_dtype`); a list of them if the Matcher has a list of templates or a batch. Waits for the
        stream."""
        self._core.run(self._frames(frame), None, stream)
        return self.matches(stream=stream)

    @overload
    def run(
        self, frame: ArrayLike | Sequence[ArrayLike], *, scores: Literal[False] | None = ..., stream: Stream | None = ...
    ) -> None: ...
    @overload
    def run(self: Matcher[Hits], frame: Picture, *, scores: Literal[True] | F32, stream: Stream | None = ...) -> F32: ...
    @overload
    def run(self: Matcher[Hits], frame: TensorT, *, scores: Literal[True] | TensorT, stream: Stream | None = ...) -> TensorT: ...
    @overload
    def run(
        self: Matcher[list[Hits]],
        frame: Picture | Sequence[Picture],
        *,
        scores: Literal[True] | F32 | Sequence[F32],
        stream: Stream | None = ...,
    ) -> list[F32]: ...
    @overload
    def run(
        self: Matcher[list[Hits]],
        frame: TensorT | Sequence[TensorT],
        *,
        scores: Literal[True] | TensorT | Sequence[TensorT],
        stream: Stream | None = ...,
    ) -> list[TensorT]: ...
    @overload
    def run(
        self,
        frame: ArrayLike | Sequence[ArrayLike],
        *,
        scores: bool | ArrayLike | Sequence[ArrayLike] | None,
        stream: Stream | None = ...,
    ) -> Any: ...
    def run(
        self,
        frame: ArrayLike | Sequence[ArrayLike],
        *,
        scores: bool | ArrayLike | Sequence[ArrayLike] | None = False,
        stream: Stream | None = None,
    ) -> Any:
        """Matches one frame without waiting for the GPU; `matches` returns what was found.

        scores: True, or arrays to write: also return the score maps, (rows - h + 1, cols - w + 1) float32, one or a list as the
            templates, or of a batch one for each frame. Otherwise returns None.
        """
        if scores is False or scores is None:
            self._core.run(self._frames(frame), None, stream)
            return None
        given: list[Any]
        if scores is True:
            given = [None] * self._count
        else:
            given = list(scores) if isinstance(scores, (list, tuple)) else [scores]
        maps = self._core.run(self._frames(frame), given, stream)
        return maps if self._many else maps[0]

    def inspect(
        self,
        frame: ArrayLike | Sequence[ArrayLike],
        lower: Colors,
        upper: Colors,
        *,
        min_fill: float = 0.3,
        stream: Stream | None = None,
    ) -> FoundT:
        """After a match: counts the pixels of `frame` (the color image, (rows, cols, 3) uint8 in BGR order) whose HSV color lies
        from `lower` to `upper` (h 0 to 179, s and v 0 to 255, both inclusive) inside each match, and returns the matches with
        `pixels` and `filled` (1 where pixels >= min_fill * h * w, else 0) set. Waits for the stream."""
        name = "Matcher.inspect"
        colors = hsv_triple(name, "lower", lower), hsv_triple(name, "upper", upper)
        self._core.inspect(self._frames(frame), *colors, real(name, "min_fill", min_fill), stream)
        return self.matches(stream=stream)

    def matches(self, *, stream: Stream | None = None) -> FoundT:
        """The matches of the last run, as `__call__` returns them."""
        found: Any
        if self._many:
            found = [_hits(raw) for raw in self._core.get(stream)]
        else:
            found = _hits(self._core.get(stream)[0])
        return found  # type: ignore[no-any-return]

    def results(self, *, stream: Stream | None = None) -> Any:
        """The memory of the matches, without waiting or copying: (templates or frames of a batch, max_matches * 32) uint8 in the framework and on the
        device of the templates, 32 bytes as `match_dtype` for each match. Its contents change with each run."""
        return self._core.results(stream)


class _MapOptions(TypedDict, total=False):
    """The options of `match_template` that do not change what it returns."""

    mask: ArrayLike | None
    algorithm: Algorithm
    stream: Stream | None


@overload
def match_template(
    image: Picture, templ: Picture | Other, method: Method = ..., *, out: F32 | None = ..., **options: Unpack[_MapOptions]
) -> F32: ...
@overload
def match_template(
    image: TensorT, templ: ArrayLike, method: Method = ..., *, out: TensorT | None = ..., **options: Unpack[_MapOptions]
) -> TensorT: ...
@overload
def match_template(
    image: Other, templ: ArrayLike, method: Method = ..., *, out: ArrayLike | None = ..., **options: Unpack[_MapOptions]
) -> Any: ...
def match_template(
    image: ArrayLike,
    templ: ArrayLike,
    method: Method = "ccoeff-normed",
    *,
    mask: ArrayLike | None = None,
    algorithm: Algorithm = "auto",
    out: ArrayLike | None = None,
    stream: Stream | None = None,
) -> Any:
    """The score at every position where `templ` fits into `image`, as cv2.matchTemplate.

    image: (rows, cols) or (rows, cols, 2 to 4), uint8 or float32. templ: the same type, not larger. Options as `Matcher`,
    which is faster for more than one frame and finds the exact best match.
    out: (rows - h + 1, cols - w + 1) float32 to write.

    Returns the score map, float32. Errors as `Matcher`.
    """
    shape: Any = getattr(image, "shape", None)
    if shape is None:
        try:
            shape = memoryview(image).shape  # type: ignore[arg-type]
        except TypeError:
            raise wrong_type("match_template", "image", image, "an array: numpy.asarray makes one of a list") from None
    one: Any = templ
    with Matcher(one, shape, method=method, algorithm=algorithm, mask=mask, stream=stream) as matcher:
        return matcher.run(image, scores=True if out is None else out, stream=stream)
