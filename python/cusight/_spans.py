"""The windows of a recording, or of a part of it, with their events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, NamedTuple

from ._events import Windowing

if TYPE_CHECKING:
    from .events import Events, Recording

_PIECE = 1 << 18  # events read at once
_BLOCK = 1 << 20  # events handed on at once, about


class Windows(NamedTuple):
    """Consecutive windows: the number of the first one; for each the number of its first event and how many it has; and the events, one
    window after the other."""

    window: int
    firsts: list[int]
    lengths: list[int]
    events: Events


class _Tail:
    """The events from a place on, as far as they have been read."""

    def __init__(self, recording: Recording, base: int) -> None:
        self.recording = recording
        self.base = base  # number of the first event held
        self.ended = False
        self.held = recording.read(_PIECE)

    def read_more(self, unneeded: int) -> None:
        """Reads another piece, and forgets the first `unneeded` events."""
        import numpy

        more = self.recording.read(max(_PIECE, len(self.held.t) - unneeded))
        self.ended = not len(more.t)
        columns: list[tuple[Any, Any]] = list(zip(self.held, more))
        kept = (numpy.concatenate([column[unneeded:], new]) for column, new in columns)
        self.held = type(more)(*kept)
        self.base += unneeded


def cut_windows(recording: Recording, cut: Windowing, first: int, end: int | None) -> Iterator[Windows]:
    """Windows first .. end - 1 (None: to the end of the recording), those of `stack_events` for the whole recording. With `first` above 0
    the recording must have an index."""
    by_time = cut.unit == "duration"
    stride = cut.stride or cut.length
    origin = 0
    if first and by_time:
        origin = recording.first_time or 0
        base = recording.seek(origin + first * stride)
    else:
        base = first * stride
        recording.seek_index(base)
    tail = _Tail(recording, base)
    if by_time and not first:
        if not len(tail.held.t):
            return
        origin = int(tail.held.t[0])
    ready: list[tuple[int, int, int]] = []  # window, place of its first event in what is held, length
    size = 0
    window = first
    while end is None or window < end:
        start = origin + window * stride
        low, high = _place(tail, start, by_time), _place(tail, start + cut.length, by_time)
        known = len(tail.held.t) if by_time else len(tail.held.t) + 1
        if high >= known and not tail.ended:  # the window's end is not among the events held
            if ready:
                yield _made(tail, ready)
                ready, size = [], 0
            tail.read_more(min(low, len(tail.held.t)))
            continue
        if tail.ended and not _complete(tail, start + cut.length, by_time):
            before = window == 0 or _complete(tail, start - stride + cut.length, by_time)
            if not cut.keep_incomplete or not before or not _begun(tail, start, by_time):
                break
            end = window + 1  # the first window that is not complete is the last
        ready.append((window, low, min(high, len(tail.held.t)) - low))
        size += ready[-1][2] + 1
        window += 1
        if size >= _BLOCK:
            yield _made(tail, ready)
            ready, size = [], 0
    if ready:
        yield _made(tail, ready)


def _place(tail: _Tail, limit: int, by_time: bool) -> int:
    """Where the first event from `limit` on is, a time or a number, among those held."""
    if by_time:
        return int(tail.held.t.searchsorted(limit))
    return max(limit - tail.base, 0)


def _complete(tail: _Tail, stop: int, by_time: bool) -> bool:
    held = tail.held.t
    if by_time:
        return bool(len(held)) and int(held[-1]) >= stop - 1
    return tail.base + len(held) >= stop


def _begun(tail: _Tail, start: int, by_time: bool) -> bool:
    held = tail.held.t
    if by_time:
        return bool(len(held)) and int(held[-1]) >= start
    return tail.base + len(held) > start


def _made(tail: _Tail, ready: list[tuple[int, int, int]]) -> Windows:
    import numpy

    columns: list[Any] = [numpy.concatenate([column[low : low + n] for _, low, n in ready]) for column in tail.held]
    return Windows(ready[0][0], [tail.base + low for _, low, _ in ready], [n for _, _, n in ready], type(tail.held)(*columns))
