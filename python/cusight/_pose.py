"""Template matching under rotation and scale, with the exact best match of a grid of poses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Iterable, Literal, Sequence, Union

from . import _core
from ._errors import Shown, integer, invalid, spelled, wrong_type
from ._match import _METHODS, frame_shape_of, moved
from ._objects import Closeable, filled, record_type
from ._types import ArrayLike, Device, Other, Stream, Tensor

if TYPE_CHECKING:
    import numpy

    from ._types import Hits, Picture

PoseMethod = Literal["sqdiff", "sqdiff-normed", "ccorr-normed", "ccoeff-normed", "sqdiff_normed", "ccorr_normed", "ccoeff_normed"]
Values = Union[float, Iterable[float]]

_FIELDS = [
    ("x", "<f8"),
    ("y", "<f8"),
    ("angle", "<f8"),
    ("scale", "<f8"),
    ("score", "<f8"),
    ("col", "<i4"),
    ("row", "<i4"),
    ("angle_index", "<i4"),
    ("scale_index", "<i4"),
    ("pixels", "<i4"),
    ("reserved", "<i4"),
]


def pose_dtype() -> numpy.dtype[numpy.void]:
    """The NumPy type of one match of a `PoseMatcher`: 64 bytes with x, y, angle, scale, score, col, row, angle_index, scale_index,
    pixels and reserved."""
    return record_type(*_FIELDS)


def _numbers(argument: str, values: Any) -> list[float]:
    try:
        if isinstance(values, str):
            raise TypeError
        numbers = [float(v) for v in values] if hasattr(values, "__iter__") else [float(values)]
    except (TypeError, ValueError):
        raise wrong_type("PoseMatcher", argument, values, "a number or several") from None
    if not numbers:
        raise invalid("PoseMatcher", argument, values, "a number or several")
    return numbers


def _check_fit(template: Any, size: tuple[int, ...], scales: list[float]) -> None:
    """Refuses a template whose smallest size has more pixels than the frames, by any angle: template and image were exchanged."""
    shape = tuple(getattr(template, "shape", ()))
    if len(shape) == 2 and math.prod(max(side * min(scales) - 2, 0) for side in shape) > size[0] * size[1]:
        expected = f"at most the frames' {size[0]} x {size[1]} pixels, as in PoseMatcher(part, image.shape)"
        raise invalid("PoseMatcher", "template", Shown(f"{shape[0]} x {shape[1]}"), expected)


class PoseMatcher(Closeable):
    """Finds a template in frames of one size, rotated and scaled. Everything is allocated and every pose prepared here.

    template: (h, w) uint8.
    shape: (rows, cols) of the frames; further axes are ignored, so ``frame.shape`` of a gray frame fits.
    angles: degrees, counterclockwise, -360 to 360: a number or several, such as ``range(-180, 180)``.
    scales: 1/16 to 16, likewise, such as ``numpy.linspace(0.9, 1.1, 11)``. Angles times scales: at most 65536 poses.
    method: "sqdiff" (mean squared difference of a pixel), "sqdiff-normed", "ccorr-normed" or "ccoeff-normed".
    mask: (h, w) uint8 or bool; only pixels that are not 0 count.
    max_matches: 1 to 1024, best first.
    min_distance, min_angle: the centers of any two matches differ by at least min_distance pixels in x or in y, or their angles by at
        least min_angle degrees.
    score_limit: a match must be at least this good: <= for "sqdiff" and "sqdiff-normed", >= for the others. None: no limit.
    refine: move x, y, angle and scale between the pixels and the values of the grid. If the ground around the part varies, a mask
        without the outer two pixels of the template keeps it from biasing the scale.
    device: "cpu", "cuda" or "cuda:N": where frames are searched. Template and mask are copied there. None: where the template is.

    The best match is that of brute force over all poses and positions. Use one object per thread. It is a context manager. Raises
    TypeError (element types), ValueError (sizes, options, device), MemoryError, RuntimeError (CUDA).
    Method: docs/pose.md.

    >>> import cusight, numpy
    >>> image = numpy.random.default_rng(1).integers(0, 256, (48, 64), numpy.uint8)
    >>> with cusight.PoseMatcher(image[10:34, 20:44], (64, 48), angles=range(0, 360, 90)) as matcher:
    ...     best = matcher(numpy.rot90(image).copy())[0]
    >>> float(best["angle"]), float(best["scale"]), float(best["score"])
    (90.0, 1.0, 1.0)
    """

    def __init__(
        self,
        template: Picture | Tensor | Other,
        shape: Sequence[int],
        *,
        angles: Values = 0.0,
        scales: Values = 1.0,
        method: PoseMethod = "ccoeff-normed",
        mask: ArrayLike | None = None,
        max_matches: int = 1,
        min_distance: int = 1,
        min_angle: float = 360.0,
        score_limit: float | None = None,
        refine: bool = False,
        device: Device | None = None,
        stream: Stream | None = None,
    ) -> None:
        name = "PoseMatcher"
        size = frame_shape_of(name, shape)
        #: The values of the grid, in the order of angle_index and scale_index.
        self.angles = _numbers("angles", angles)
        self.scales = _numbers("scales", scales)
        _check_fit(template, size, self.scales)
        self._about = f"{len(self.angles)} x {len(self.scales)} poses in {size[0]} x {size[1]} pixels, {spelled(method, _METHODS)}"
        limit = math.nan if score_limit is None else score_limit
        options = filled(_core.PoseOptions(), locals(), score_limit=limit, refine=bool(refine))
        self._core = _core.PoseMatcher(
            moved(name, "template", template, device),
            size[0],
            size[1],
            self.angles,
            self.scales,
            options,
            moved(name, "mask", mask, device),
            stream,
        )

    def __call__(self, frame: Picture | Tensor | Other, *, stream: Stream | None = None) -> Hits:
        """Finds the template in a frame, (rows, cols) uint8, and returns the matches, best first: a structured NumPy array (see
        `pose_dtype`). Waits for the stream. x and y are the center of the template in the frame, col and row the first pixel of the window compared."""
        self._core.run(frame, stream)
        return self.matches()

    def run(self, frame: Picture | Tensor | Other, *, stream: Stream | None = None) -> None:
        """As `__call__`, which waits, too; `matches` returns what was found."""
        self._core.run(frame, stream)

    def matches(self) -> Hits:
        """The matches of the last run, as `__call__` returns them."""
        import numpy

        return numpy.frombuffer(self._core.get(), pose_dtype())

    def nearest(self) -> Hits:
        """The best match of the last run or, where nothing reaches `score_limit`, the best of the positions that were tried first: an
        array as `matches` returns it, of one element, or of none if nothing was tried."""
        import numpy

        return numpy.frombuffer(self._core.nearest(), pose_dtype())

    def template(self, angle_index: int, scale_index: int) -> tuple[Any, Any]:
        """The window of a pose as it is compared: the resampled template, and its mask, 255 where a pixel counts and 0 elsewhere. Both
        are (rows, cols) uint8 on the host."""
        name = "PoseMatcher.template"
        pixels, mask = self._core.template(integer(name, "angle_index", angle_index), integer(name, "scale_index", scale_index))
        return pixels, mask
