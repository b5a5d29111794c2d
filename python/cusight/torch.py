"""Event recordings as a map-style data set for PyTorch's DataLoader (and for anything else that takes one; PyTorch is optional).

    dataset = cusight.torch.EventDataset("run.h5", windows="10ms", representation="voxel_grid", bins=5)
    for frames in torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=2):
        train(frames)  # (8, bins, rows, cols)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Sequence

from . import events as _events
from ._events import EventStacker, Representations, Windowing, Windows, frame_size, windowing

try:
    import torch as _torch
    from torch.utils.data import Dataset as _Dataset
except ImportError:
    _torch = None  # type: ignore[assignment, unused-ignore]
    _Dataset = object  # type: ignore[assignment, misc, unused-ignore]

if TYPE_CHECKING:
    _Base = object
else:
    _Base = _Dataset

__all__ = ["EventDataset"]


class EventDataset(_Base):
    """The windows of a recording: ``dataset[i]`` is the frame of window i, ``len(dataset)`` their number.

    path: of the recording. windows, representation, bins: as `cusight.stack_events`.
    shape: (rows, cols) of the frames; by default the sensor's.
    channels_first: (channels, rows, cols) instead of (rows, cols, channels).
    transform: called with each frame.
    options: of `cusight.events.open`.

    A frame is a torch.Tensor on the CPU if PyTorch is installed, else a NumPy array; a list of them for a list of representations.
    Pickles as its arguments; every process opens the file itself. Recordings in a format without an index (EVT2, EVT3, text) are read
    once when the data set is made.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        windows: Windows = 200_000,
        representation: Representations = "histogram",
        bins: int | None = None,
        shape: Sequence[int] | None = None,
        channels_first: bool = True,
        transform: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        self.path = os.fspath(path)
        self.windows: Windowing = windowing("EventDataset", windows)
        self.representation, self.bins = representation, bins
        self.channels_first, self.transform = channels_first, transform
        self._options = options
        self._local: tuple[int, _events.Recording, EventStacker] | None = None
        with _events.open(self.path, **options) as recording:
            self.shape = frame_size("EventDataset", recording.shape if shape is None else shape)
            count, first, last = recording.count, recording.first_time, recording.last_time
            if count is None or (last is None and count):
                count = 0
                for part in recording:
                    count += len(part.t)
                    last = int(part.t[-1])
        self._first_time = first or 0
        self._events = count
        if self.windows.unit == "count":
            extent = count
        else:
            extent = 0 if last is None else last - self._first_time + 1
        self._length = _events._windows_within(extent, self.windows)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(f"window {index} of {self._length}")
        recording, stacker = self._open()
        part = self._read(recording, index)
        import numpy

        whole = numpy.array([[0, len(part.t)]], numpy.int64)
        frames = stacker(*part, windows=whole)
        return [self._finish(f[0]) for f in frames] if isinstance(frames, list) else self._finish(frames[0])

    def _finish(self, frame: Any) -> Any:
        if self.channels_first:
            frame = frame.transpose(2, 0, 1)
        if _torch is not None:
            frame = _torch.from_numpy(frame).contiguous()
        return frame if self.transform is None else self.transform(frame)

    def _open(self) -> tuple[_events.Recording, EventStacker]:
        if self._local is None or self._local[0] != os.getpid():  # a forked process must not share the file's position
            stacker = EventStacker(self.shape, self.representation, bins=self.bins)
            self._local = (os.getpid(), _events.open(self.path, **self._options), stacker)
        return self._local[1], self._local[2]

    def _read(self, recording: _events.Recording, index: int) -> _events.Events:
        """The events of one window."""
        stride = self.windows.stride or self.windows.length
        start = index * stride
        if self.windows.unit == "count":
            recording.seek_index(start)
            return recording.read(min(self.windows.length, self._events - start))
        recording.seek(self._first_time + start)
        end = self._first_time + start + self.windows.length
        parts = []
        while True:
            part = recording.read(1 << 16)
            if not len(part.t):
                break
            parts.append(part)
            if part.t[-1] >= end:
                break
        import numpy

        if not parts:
            return part
        columns: list[Any] = [numpy.concatenate(column) for column in zip(*parts)]
        last = int(numpy.searchsorted(columns[3], end))
        return _events.Events(*(column[:last] for column in columns))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_local": None}
