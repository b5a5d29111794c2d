"""Exceptions. Each is a cusight.Error and the built-in class that people expect for its status."""

from __future__ import annotations

import operator
import sys
import warnings
from enum import IntEnum
from typing import Any, Callable, Iterable

from . import _cuda
from ._advice import for_size, for_type


class Status(IntEnum):
    """Why a call failed: the C library's cusStatus."""

    NULL = 1
    VALUE = 2
    TYPE = 3
    SIZE = 4
    SPACE = 5
    ALIAS = 6
    CAPACITY = 7
    NO_MEMORY = 8
    NO_CUDA = 9
    CUDA = 10
    IO = 11
    FORMAT = 12
    TRUNCATED = 13
    UNSUPPORTED = 14
    BUSY = 15
    CANCELLED = 16


class Error(Exception):
    """A call was rejected. The message names the function, the argument, its value and what was expected.

    Errors are also instances of the built-in class for their kind: TypeError (TYPE), ValueError (NULL, VALUE, SIZE, SPACE,
    ALIAS, CAPACITY, FORMAT), MemoryError (NO_MEMORY), RuntimeError (NO_CUDA, CUDA, BUSY, CANCELLED), OSError (IO), EOFError
    (TRUNCATED), NotImplementedError (UNSUPPORTED).
    """

    status: Status

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = Status(status)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[object, tuple[int, str]]:
        return make, (int(self.status), str(self))


class ArgumentTypeError(Error, TypeError):
    """An array has elements of a type that the function does not accept."""


class ArgumentValueError(Error, ValueError):
    """A number, size, device or option is out of range, or an object is closed or in use."""


class OutOfMemoryError(Error, MemoryError):
    """Host or device memory is exhausted."""


class DeviceError(Error, RuntimeError):
    """There is no GPU, no driver or no CUDA support in this build, or CUDA reports an error."""


class InputOutputError(Error, OSError):
    """A file could not be opened, read or written."""


class MissingFileError(InputOutputError, FileNotFoundError):
    """There is no such file."""


class FormatError(Error, ValueError):
    """A file is malformed or of an unknown format."""


class TruncatedError(Error, EOFError):
    """A file ends early; everything before that was delivered."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not supported by this build, or not while a CUDA stream is captured."""


class BusyError(Error, RuntimeError):
    """Another call is using the object."""


class CancelledError(Error, RuntimeError):
    """The function of cusight.progress has returned False."""


_CLASSES: dict[int, type[Error]] = {
    Status.TYPE: ArgumentTypeError,
    Status.NO_MEMORY: OutOfMemoryError,
    Status.NO_CUDA: DeviceError,
    Status.CUDA: DeviceError,
    Status.IO: InputOutputError,
    Status.FORMAT: FormatError,
    Status.TRUNCATED: TruncatedError,
    Status.UNSUPPORTED: UnsupportedError,
    Status.BUSY: BusyError,
    Status.CANCELLED: CancelledError,
}


_ADVICE: dict[int, Callable[[str], str]] = {Status.TYPE: for_type, Status.SIZE: for_size, Status.NO_CUDA: _cuda.hint}


def make(status: int, message: str) -> Error:
    """The exception for a status; called by the module."""
    if status in _ADVICE:
        message += _ADVICE[status](message)
    return _CLASSES.get(status, ArgumentValueError)(status, message)


class Shown:
    """A value in a message, as these words."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __repr__(self) -> str:
        return self.words


def invalid(function: str, argument: str, value: object, expected: str) -> Error:
    return ArgumentValueError(Status.VALUE, f"{function}: {argument} is {value!r}, expected {expected}")


def wrong_type(function: str, argument: str, value: object, expected: str) -> Error:
    shown = repr(value) if value is None or isinstance(value, (str, int, float)) else type(value).__name__
    return ArgumentTypeError(Status.TYPE, f"{function}: {argument} is {shown}, expected {expected}")


def warn(message: str) -> None:
    """A UserWarning at the line outside this package that called it."""
    level, frame = 1, sys._getframe()
    while frame and str(frame.f_globals.get("__name__", "")).partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, stacklevel=level)


LONG = (1 << 63) - 1


def integer(
    function: str, argument: str, value: Any, least: int = -0x80000000, most: int = 0x7FFFFFFF, expected: str = "an integer"
) -> int:
    """A number that fits into a C int, or within other bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise wrong_type(function, argument, value, expected) from None
    if not least <= number <= most:
        raise invalid(function, argument, value, f"at least {least}" if number < least else f"at most {most}")
    return number


def microseconds(function: str, argument: str, time: Any) -> int:
    """A time, which has 64 bits."""
    return integer(function, argument, time, -LONG - 1, LONG, "microseconds, an integer")


def real(function: str, argument: str, value: Any) -> float:
    """A number."""
    if not isinstance(value, str) and hasattr(value, "__float__"):
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
    raise wrong_type(function, argument, value, "a number")


def integers(function: str, argument: str, values: Any, expected: str) -> tuple[int, ...]:
    """The numbers of a shape or another sequence."""
    if len(getattr(values, "shape", ())) > 1:
        found = Shown(f"an array of shape {tuple(values.shape)}")
        raise ArgumentTypeError(Status.TYPE, f"{function}: {argument} is {found!r}, expected {expected}")
    try:
        numbers = tuple(values)
    except TypeError:
        raise wrong_type(function, argument, values, expected) from None
    if isinstance(values, (str, bytes)):
        raise wrong_type(function, argument, values, expected)
    return tuple(integer(function, argument, number) for number in numbers)


def device_text(function: str, device: Any) -> str:
    """ "cpu", "cuda" or "cuda:N"; a torch.device says the same."""
    if isinstance(device, str):
        return device
    if hasattr(device, "type") and hasattr(device, "index"):
        return str(device)
    raise wrong_type(function, "device", device, "cpu, cuda or cuda:N")


def dtype_name(dtype: Any) -> str:
    """ "uint8" of that word, numpy.uint8, numpy.dtype("uint8") or torch.uint8."""
    return str(getattr(dtype, "name", None) or getattr(dtype, "__name__", dtype)).rpartition(".")[2]


def spelled(value: object, names: Iterable[str]) -> str | None:
    """Which of the names this is, in any case and with hyphens or underscores."""
    words = value.replace("_", "-").lower() if isinstance(value, str) else None
    return next((name for name in names if name.replace("_", "-").lower() == words), None)


def choice(function: str, argument: str, value: object, names: dict[str, int]) -> int:
    """The number of an option that is given by name."""
    name = spelled(value, names)
    if name is None:
        raise invalid(function, argument, value, " or ".join([", ".join(list(names)[:-1]), list(names)[-1]]))
    return names[name]
