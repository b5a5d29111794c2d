"""Progress of long calls, and ending them."""

from __future__ import annotations

from types import TracebackType
from typing import Callable

from . import _core
from ._errors import wrong_type


class progress:
    """While the block runs, calls of this thread that take long call `function(done, seconds_left)` about every 50 ms, and once more at
    their end. `done` is 0 to 1, `seconds_left` an estimate, or None while there is none.

    What the function raises ends the call, which raises it; if it returns False, the call raises CancelledError. Then objects are as
    before the call, and arrays that it writes have unspecified contents; docs/progress.md has the table of calls and exceptions.
    Ctrl-C ends calls of the main thread with KeyboardInterrupt, with or without this. Other threads are not asked.

    >>> import cusight, numpy
    >>> holes = numpy.zeros((1000, 1000), numpy.uint16)
    >>> holes[0, 0] = 60_000
    >>> try:
    ...     with cusight.progress(lambda done, seconds_left: done < 0.01):  # gives up after a hundredth of the work
    ...         cusight.stereo_fill(holes, cusight.StereoOptions(fill="relax", iterations=100_000, tolerance=0))
    ... except cusight.Error as error:
    ...     print(error.status.name)
    CANCELLED
    """

    def __init__(self, function: Callable[[float, float | None], object]) -> None:
        if not callable(function):
            raise wrong_type("progress", "function", function, "a function of what is done and the seconds that are left")
        self._function = function

    def __enter__(self) -> progress:
        self._outer = _core.set_progress(self._function)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _core.set_progress(self._outer)
