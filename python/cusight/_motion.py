"""What moves in the frames of one or many cameras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Sequence, overload

from . import _core
from ._errors import Shown, device_text, integer, invalid, microseconds
from ._framediff import frame_shape
from ._objects import Closeable, filled
from ._types import ArrayLike, Device, Integer, Other, Stream, Tensor

if TYPE_CHECKING:
    from ._types import Picture


class MotionBox(NamedTuple):
    """A moving thing in one frame. Places in pixels; strength: mean difference of its moving pixels, in gray levels."""

    x: int
    y: int
    width: int
    height: int
    area: int
    center_x: float
    center_y: float
    strength: float
    track: int


class MotionTrack(NamedTuple):
    """Boxes of successive frames: id, times of the first and the last one, how many, the last one, steps since then, and which
    box of this step it is (-1: none)."""

    id: int
    first: int
    last: int
    boxes: int
    x: int
    y: int
    width: int
    height: int
    missed: int
    box: int


class Motion(NamedTuple):
    """What a camera's last step has found. state: "learning", "watching", "sudden" (everything changed) or "crowded" (too many
    components); moving: pixels; components: how many; threshold and noise in gray levels, noise -1 if it is not yet known."""

    time: int
    steps: int
    state: Literal["learning", "watching", "sudden", "crowded"]
    moving: int
    components: int
    threshold: float
    noise: float
    boxes: list[MotionBox]
    tracks: list[MotionTrack]


_STATES: Final = ("learning", "watching", "sudden", "crowded")


class MotionDetector(Closeable):
    """Finds what moves in front of a background that it learns, for one or many cameras, with the same result on CPU and GPU.

    shape: (rows, cols) or (rows, cols, 3) of the frames, uint8, BGR.
    shift: the background learns at the rate 1 / 2**shift a step; learn_us: or by time, its time constant in microseconds.
    threshold: gray levels; noise_factor: or that many times the camera's noise, if that is more.
    erode, dilate: pixels on each side; min_area: pixels that a moving thing has at least; max_boxes: the largest are kept.
    merge: merge boxes that overlap.
    sudden_percent: more moving pixels than that are a sudden change of everything; 100: never.
    shadows: percent of the background's light that shadow has at least, which then is not motion; 0: it is. ghosts: learn at once
    where something has left, and little of what moves. tight: boxes of moving pixels, not of the mask. split: cut boxes between things
    that stand side by side, where columns have less than that percent of the fullest one's moving pixels; 0: do not.
    warmup, track_gap: steps. device: "cpu", "cuda" or "cuda:N".

    cusight/motion.h defines all of them. Raises ValueError, MemoryError, RuntimeError.

    >>> import cusight, numpy
    >>> frames = numpy.zeros((12, 48, 64), numpy.uint8)
    >>> frames[-1, 10:30, 20:40] = 200
    >>> with cusight.MotionDetector((48, 64), min_area=50, dilate=1) as detector:
    ...     found = [detector(frame) for frame in frames]
    >>> [(box.x, box.y, box.width, box.height) for box in found[-1].boxes]
    [(20, 10, 20, 20)]
    """

    def __init__(
        self,
        shape: Sequence[int],
        cameras: int = 1,
        *,
        shift: int = 7,
        learn_us: Integer = 0,
        threshold: int = 25,
        noise_factor: int = 0,
        erode: int = 1,
        dilate: int = 4,
        min_area: int = 400,
        max_boxes: int = 64,
        merge: bool = False,
        sudden_percent: int = 60,
        warmup: int = 8,
        track_gap: int = 10,
        shadows: int = 0,
        ghosts: bool = False,
        tight: bool = False,
        split: int = 0,
        device: Device = "cpu",
    ) -> None:
        name = "MotionDetector"
        size = frame_shape(name, shape)
        self.cameras = integer(name, "cameras", cameras)
        options = filled(_core.MotionOptions(), locals(), learn_us=microseconds(name, "learn_us", learn_us))
        self._core = _core.MotionDetector(self.cameras, *size, options, device_text(name, device))
        self._about = f"{self.cameras} of {' x '.join(str(int(n)) for n in shape)}, {device}"

    @overload
    def __call__(self, frames: Picture | Tensor | Other, times: Integer | None = ..., *, stream: Stream | None = ...) -> Motion: ...
    @overload
    def __call__(
        self, frames: Sequence[Picture | Tensor | Other | None], times: Sequence[Integer] | None = ..., *,
        stream: Stream | None = ...,
    ) -> list[Motion]: ...
    def __call__(
        self,
        frames: ArrayLike | Sequence[ArrayLike | None],
        times: Integer | Sequence[Integer] | None = None,
        *,
        stream: Stream | None = None,
    ) -> Motion | list[Motion]:
        """A step, and what it found: a Motion, or a list with one for each of several cameras, which for a camera without a new frame is
        that of its last one. Waits for the stream."""
        self.step(frames, times, stream=stream)
        found = [self.found(camera, stream=stream) for camera in range(self.cameras)]
        return found if self.cameras > 1 or isinstance(frames, (list, tuple)) else found[0]

    def watch(self, mask: ArrayLike | None, camera: int = -1, *, stream: Stream | None = None) -> None:
        """From now on only pixels whose mask is not 0 are watched: of one camera, or of all with -1. None: all pixels."""
        self._core.watch(mask, integer("MotionDetector.watch", "camera", camera), stream)

    def step(
        self,
        frames: ArrayLike | Sequence[ArrayLike | None],
        times: Integer | Sequence[Integer] | None = None,
        *,
        stream: Stream | None = None,
    ) -> None:
        """A frame of each camera, as a list, in which None is a camera without a new one; of a single camera also the frame itself.
        times: microseconds, likewise; None: the numbers of the steps."""
        name = "MotionDetector.step"
        each: list[Any] = list(frames) if isinstance(frames, (list, tuple)) else [frames]
        if len(each) != self.cameras:
            expected = f"{self.cameras}, one for each camera; frames in a row need a call each"
            raise invalid(name, "frames", Shown(f"a list of {len(each)}"), expected)
        numbers: list[int] | None = None
        if times is not None:
            numbers = [microseconds(name, "times", t) for t in (times if isinstance(times, (list, tuple)) else [times])]
            if len(numbers) != self.cameras:
                raise invalid(name, "times", Shown(f"a list of {len(numbers)}"), f"{self.cameras}, one for each camera")
        self._core.step(each, numbers, stream)

    def found(self, camera: int = 0, *, stream: Stream | None = None) -> Motion:
        """What the camera's last step has found. Waits for the stream."""
        status, boxes, tracks = self._core.found(integer("MotionDetector.found", "camera", camera), stream)
        time, steps, state, moving, components, threshold, noise = status
        return Motion(
            time,
            steps,
            _STATES[state],
            moving,
            components,
            threshold,
            noise,
            [MotionBox(*b) for b in boxes],
            [MotionTrack(*t) for t in tracks],
        )

    def mask(self, camera: int = 0, *, stream: Stream | None = None) -> Any:
        """(rows, cols) uint8: 255 where something moves."""
        return self._core.mask(integer("MotionDetector.mask", "camera", camera), stream)
