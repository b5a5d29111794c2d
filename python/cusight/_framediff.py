"""Sparse frame differences with error feedback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, Sequence, overload

from . import _core
from ._errors import Shown, device_text, integer, integers, invalid, wrong_type
from ._objects import Closeable
from ._types import ArrayLike, Device, Other, Stream, Tensor, TensorT, TypeVar

if TYPE_CHECKING:
    from ._types import I32, U8, U32, Bytes, Numbers, Picture

ArrayT = TypeVar("ArrayT", default=Any)  # the arrays of its framework: NumPy's, tensors


def frame_shape(function: str, shape: Sequence[int]) -> tuple[int, int, int]:
    """rows, cols and channels of (rows, cols) or (rows, cols, channels)."""
    numbers = integers(function, "shape", shape, "(rows, cols) or (rows, cols, channels)")
    if len(numbers) not in (2, 3) or min(numbers) < 1 or max(numbers) > 0x7FFFFFFF or (len(numbers) == 3 and numbers[2] > 512):
        raise invalid(function, "shape", tuple(shape), "(rows, cols) or (rows, cols, channels)")
    return numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else 1


def _text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


class SparseDiff(Closeable, Generic[ArrayT]):
    """One encoded frame: the positions of the bytes that changed and their differences modulo 256.

    shape: (rows, cols), (rows, cols, 3) or (rows, cols, 4) of the frames, uint8.
    capacity: how many changed bytes fit; 0: every byte of a frame.
    mask: also keep a bit for every byte of the frame.
    device: "cpu", "cuda" or "cuda:N".

    Made by `DiffEncoder.encode` or `from_arrays`. Pickles its positions and values (on the CPU).

    >>> import cusight, numpy
    >>> diff = cusight.SparseDiff.from_arrays(numpy.array([8], numpy.uint32), numpy.array([90], numpy.uint8), (4, 6))
    >>> len(diff), diff.positions().tolist(), diff.values().tolist()
    (1, [8], [90])
    """

    @overload
    def __init__(
        self: SparseDiff[Numbers], shape: Sequence[int], *, capacity: int = ..., mask: bool = ..., device: Literal["cpu"] = ...
    ) -> None: ...
    @overload
    def __init__(self: SparseDiff[Any], shape: Sequence[int], *, capacity: int = ..., mask: bool = ..., device: Device) -> None: ...
    def __init__(self, shape: Sequence[int], *, capacity: int = 0, mask: bool = False, device: Device = "cpu") -> None:
        size = frame_shape("SparseDiff", shape)
        self.shape = tuple(int(n) for n in shape)
        places = integer("SparseDiff", "capacity", capacity, 0)
        self._core = _core.SparseDiff(*size, places, bool(mask), device_text("SparseDiff", device))
        self._about = f"of {_text(self.shape)}, {device}"

    @overload
    @classmethod
    def from_arrays(
        cls, positions: I32 | U32, values: Bytes, shape: Sequence[int], *, stream: Stream | None = ...
    ) -> SparseDiff[Numbers]: ...
    @overload
    @classmethod
    def from_arrays(
        cls, positions: TensorT, values: TensorT, shape: Sequence[int], *, stream: Stream | None = ...
    ) -> SparseDiff[TensorT]: ...
    @overload
    @classmethod
    def from_arrays(
        cls, positions: Other, values: ArrayLike, shape: Sequence[int], *, stream: Stream | None = ...
    ) -> SparseDiff[Any]: ...
    @classmethod
    def from_arrays(
        cls, positions: ArrayLike, values: ArrayLike, shape: Sequence[int], *, stream: Stream | None = None
    ) -> SparseDiff[Any]:
        """A difference from its parts, which are copied. positions: (n,) uint32 or int32, strictly ascending; values: (n,) uint8."""
        self = cls.__new__(cls)
        self.shape = tuple(int(n) for n in shape)
        self._core = _core.SparseDiff.from_arrays(*frame_shape("SparseDiff", shape), positions, values, stream)
        self._about = f"of {_text(self.shape)}"
        return self

    def count(self, *, stream: Stream | None = None) -> int:
        """How many bytes changed. Waits for the stream. Raises ValueError (status CAPACITY) if they did not fit."""
        return self._core.count(stream)  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return self.count()

    @overload
    def positions(self: SparseDiff[Numbers], *, stream: Stream | None = ...) -> U32: ...
    @overload
    def positions(self, *, stream: Stream | None = ...) -> ArrayT: ...
    def positions(self, *, stream: Stream | None = None) -> Any:
        """(n,) uint32: index (y * cols + x) * channels + c of each changed byte, ascending. A view, until the next encode."""
        array = self._core.arrays(stream)[0]
        torch_type = getattr(array, "get_device", None)
        if torch_type is None:
            return array.view("uint32") if hasattr(array, "view") else array
        import torch

        return array.view(torch.uint32)

    @overload
    def values(self: SparseDiff[Numbers], *, stream: Stream | None = ...) -> U8: ...
    @overload
    def values(self, *, stream: Stream | None = ...) -> ArrayT: ...
    def values(self, *, stream: Stream | None = None) -> Any:
        """(n,) uint8: the difference of each changed byte modulo 256. A view, until the next encode."""
        return self._core.arrays(stream)[1]

    @overload
    def mask(self: SparseDiff[Numbers], *, stream: Stream | None = ...) -> U8 | None: ...
    @overload
    def mask(self, *, stream: Stream | None = ...) -> ArrayT | None: ...
    def mask(self, *, stream: Stream | None = None) -> Any:
        """(rows, ceil(cols * channels / 8)) uint8, a bit for each byte (the lowest first), or None without a mask. A view."""
        return self._core.arrays(stream)[2]

    def __reduce__(self) -> Any:
        arrays: Any = self.positions(), self.values()
        return _restore, (*(array.copy() for array in arrays), self.shape)


def _check_diff(function: str, diff: object, shape: tuple[int, ...]) -> None:
    """A position means another pixel in frames of another shape."""
    if not isinstance(diff, SparseDiff):
        raise wrong_type(function, "diff", diff, "a SparseDiff")
    if diff.shape != shape:
        raise invalid(function, "diff", Shown(f"one of {_text(diff.shape)}"), f"one of {_text(shape)}, as the frames")


def _list(function: str, argument: str, objects: object, kind: type) -> list[Any]:
    if not isinstance(objects, (list, tuple)) or not all(isinstance(one, kind) for one in objects):
        raise wrong_type(function, argument, objects, f"a list of {kind.__name__}")
    return list(objects)


def _restore(positions: Any, values: Any, shape: tuple[int, ...]) -> SparseDiff[Any]:
    return SparseDiff.from_arrays(positions, values, shape)


class DiffEncoder(Closeable):
    """Encodes frames as sparse differences. The small errors that are not sent stay in the next difference, so that the decoder is
    never off by more than `threshold`.

    shape: (rows, cols), (rows, cols, 3) or (rows, cols, 4) of the frames, uint8.
    threshold: 0 to 255, changes up to this value are not sent; 0 is lossless.
    min_neighbors: 0 to 8, a changed pixel with fewer changed neighbors is treated as noise.
    device: "cpu", "cuda" or "cuda:N".

    The reference starts black. Use one object per thread or stream. Raises ValueError, MemoryError, RuntimeError.

    >>> import cusight, numpy
    >>> frame = numpy.zeros((4, 6), numpy.uint8)
    >>> frame[1, 2] = 90
    >>> with cusight.DiffEncoder(frame.shape) as encoder:
    ...     diff = encoder.encode(frame)
    >>> diff.positions().tolist(), diff.values().tolist()
    ([8], [90])
    """

    def __init__(self, shape: Sequence[int], *, threshold: int = 20, min_neighbors: int = 0, device: Device = "cpu") -> None:
        size = frame_shape("DiffEncoder", shape)
        self.shape = tuple(int(n) for n in shape)
        self._device = device_text("DiffEncoder", device)
        limits = integer("DiffEncoder", "threshold", threshold), integer("DiffEncoder", "min_neighbors", min_neighbors)
        self._core = _core.DiffEncoder(*size, self._device, *limits)
        self._about = f"{_text(self.shape)}, threshold {threshold}, {device}"

    @overload
    def encode(self, frame: Picture, diff: SparseDiff[Any] | None = ..., *, stream: Stream | None = ...) -> SparseDiff[Numbers]: ...
    @overload
    def encode(self, frame: TensorT, diff: SparseDiff[Any] | None = ..., *, stream: Stream | None = ...) -> SparseDiff[TensorT]: ...
    @overload
    def encode(self, frame: Other, diff: SparseDiff[Any] | None = ..., *, stream: Stream | None = ...) -> SparseDiff[Any]: ...
    def encode(self, frame: ArrayLike, diff: SparseDiff[Any] | None = None, *, stream: Stream | None = None) -> SparseDiff[Any]:
        """Encodes a frame and updates the reference. Without `diff` a new one is made; pass it again to allocate nothing.
        Raises ValueError (status CAPACITY) if the changes do not fit; the reference is then unchanged."""
        if diff is None:
            diff = SparseDiff(self.shape, device=self._device)
        _check_diff("DiffEncoder.encode", diff, self.shape)
        self._core.encode(frame, diff._core, stream)
        return diff

    @overload
    @staticmethod
    def encode_batch(
        encoders: Sequence[DiffEncoder],
        frames: Picture | Sequence[Picture],
        diffs: Sequence[SparseDiff[Any]] | None = ...,
        *,
        stream: Stream | None = ...,
    ) -> list[SparseDiff[Numbers]]: ...
    @overload
    @staticmethod
    def encode_batch(
        encoders: Sequence[DiffEncoder],
        frames: TensorT | Sequence[TensorT],
        diffs: Sequence[SparseDiff[Any]] | None = ...,
        *,
        stream: Stream | None = ...,
    ) -> list[SparseDiff[TensorT]]: ...
    @overload
    @staticmethod
    def encode_batch(
        encoders: Sequence[DiffEncoder],
        frames: Other,
        diffs: Sequence[SparseDiff[Any]] | None = ...,
        *,
        stream: Stream | None = ...,
    ) -> list[SparseDiff[Any]]: ...
    @staticmethod
    def encode_batch(
        encoders: Sequence[DiffEncoder],
        frames: ArrayLike | Sequence[ArrayLike],
        diffs: Sequence[SparseDiff[Any]] | None = None,
        *,
        stream: Stream | None = None,
    ) -> Any:
        """Encodes a frame of each of up to 1024 encoders of one shape and device, which a GPU takes together.

        encoders: different ones. frames: a list with one frame for each, or an array (n, rows, cols, channels).
        diffs: one for each to write, or None: new ones.

        Returns the list of diffs. If some changes do not fit on the CPU, raises ValueError (status CAPACITY) once all are encoded; only
        the references of those encoders are then unchanged.
        """
        function = "DiffEncoder.encode_batch"
        each = _list(function, "encoders", encoders, DiffEncoder)
        if len({id(encoder) for encoder in each}) < len(each):
            raise invalid(function, "encoders", Shown("a list with one of them twice"), "one for each frame")
        made = [SparseDiff(e.shape, device=e._device) for e in each] if diffs is None else _list(function, "diffs", diffs, SparseDiff)
        if len(made) != len(each):
            raise invalid(function, "diffs", Shown(f"a list of {len(made)}"), f"{len(each)} like encoders")
        for encoder, diff in zip(each, made):
            _check_diff(function, diff, encoder.shape)
        _core.DiffEncoder.encode_batch([encoder._core for encoder in each], frames, [diff._core for diff in made], stream)
        return made

    def reset(self, frame: Picture | Tensor | Other | None = None, *, stream: Stream | None = None) -> None:
        """Starts again from a key frame, or from black."""
        self._core.reset(frame, stream)

    def reference(self, *, stream: Stream | None = None) -> Any:
        """The frame that the decoder has: a view, which changes with each encode."""
        return self._core.reference(stream)


class DiffDecoder(Closeable):
    """Rebuilds frames from sparse differences. Parameters as `DiffEncoder`.

    >>> import cusight, numpy
    >>> diff = cusight.SparseDiff.from_arrays(numpy.array([8], numpy.uint32), numpy.array([90], numpy.uint8), (4, 6))
    >>> with cusight.DiffDecoder((4, 6)) as decoder:
    ...     frame = decoder.decode(diff)
    >>> frame[1].tolist()
    [0, 0, 90, 0, 0, 0]
    """

    def __init__(self, shape: Sequence[int], *, device: Device = "cpu") -> None:
        size = frame_shape("DiffDecoder", shape)
        self.shape = tuple(int(n) for n in shape)
        self._core = _core.DiffDecoder(*size, device_text("DiffDecoder", device))
        self._about = f"{_text(self.shape)}, {device}"

    @overload
    def decode(self, diff: SparseDiff[Numbers], *, stream: Stream | None = ...) -> U8: ...
    @overload
    def decode(self, diff: SparseDiff[ArrayT], *, stream: Stream | None = ...) -> ArrayT: ...
    def decode(self, diff: SparseDiff[Any], *, stream: Stream | None = None) -> Any:
        """Applies a difference and returns the frame: a view, which changes with each decode.
        Raises ValueError if a position lies outside the frame (on the CPU; nothing is changed then)."""
        _check_diff("DiffDecoder.decode", diff, self.shape)
        self._core.decode(diff._core, stream)
        return self._core.frame(stream)

    def reset(self, frame: Picture | Tensor | Other | None = None, *, stream: Stream | None = None) -> None:
        """Starts again from a key frame, or from black."""
        self._core.reset(frame, stream)

    def frame(self, *, stream: Stream | None = None) -> Any:
        """The decoded frame: a view, which changes with each decode."""
        return self._core.frame(stream)
