"""Live event cameras by the package neuromorphic-drivers, without a maker's SDK: Prophesee EVK3 HD and EVK4, CenturyArks VGA, Lucid
Triton.

    with cusight.cameras.open() as camera:
        for frames in camera.frames(windows="10ms", representation="voxel_grid", bins=5, device="cuda"):
            show(frames[-1])
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Iterator

from . import _core
from ._errors import Status, UnsupportedError
from ._events import Representations, Windows
from ._files import optional
from ._objects import Closeable, filled
from ._pipeline import EventPipeline, FrameBatch, ReaderCounts
from ._types import CameraConfiguration, Device
from .events import Events

__all__ = ["Camera", "CameraCounts", "open"]

_EVT3 = ("Prophesee EVK3 HD", "Prophesee EVK4", "CenturyArks VGA", "Lucid Triton")


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class CameraCounts:
    """What came and what was lost since a Camera was opened.

    packets, bytes: received. decoded: events, and what was skipped as bad, as of a recording.
    overflows: how often the driver's queue was full, so that packets are missing. dropped: of these, as the driver counts them.
    cleared: packets that `latest` passed over. frames_skipped: frames that it did.
    """

    packets: int
    bytes: int
    overflows: int
    dropped: int
    cleared: int
    frames_skipped: int
    decoded: ReaderCounts


class Camera(Closeable):
    """A live event camera, opened by `cusight.cameras.open`. Iterating gives Events, those of what has come together; it ends if nothing
    comes for `timeout` seconds. The camera's clock gives the times, which begin anywhere. After packets were lost, the first events may
    have the row and time of earlier ones; events that are outside the sensor or earlier than the previous one are skipped and counted.

    name, serial: of the camera. shape: (rows, cols).

    >>> import cusight.cameras
    >>> with cusight.cameras.open(timeout=1) as camera:  # needs a camera
    ...     for frames in camera.frames(windows="10ms"):
    ...         pass
    >>> frames.shape[1:]
    (720, 1280, 2)
    """

    def __init__(self, device: Any, latest: bool) -> None:
        self.name = str(getattr(device.name(), "value", device.name()))
        if self.name not in _EVT3:
            device.close()
            expected = f"a camera that sends EVT 3.0: {', '.join(_EVT3)}"
            raise UnsupportedError(Status.UNSUPPORTED, f"cameras.open: the camera is {self.name}, expected {expected}")
        self._device, self._latest = device, latest
        self.serial = str(device.serial())
        size = device.properties()
        self.shape = int(size.height), int(size.width)
        self._counts, self._now = CameraCounts(0, 0, 0, 0, 0, 0, ReaderCounts(0, 0, 0, 0, 0, 0, 0, 0)), -1
        self._about = f"{self.name} {self.serial}, {self.shape[0]} x {self.shape[1]} pixels"
        options = filled(_core.DecoderOptions(), {}, format="EVT3", bad_events="skip", width=self.shape[1], height=self.shape[0])
        self._core = _core.EventDecoder(options)

    def __iter__(self) -> Iterator[Events]:
        while not self.closed:
            counts = self._counts
            waiting = self._device.backlog() if self._latest else 0
            if waiting:
                self._device.clear_backlog(until=0)
            status: Any
            status, packet = next(self._device, (None, None))
            if packet is None:
                return
            *columns, decoded, self._now = self._core.run(packet)
            self._counts = replace(
                counts,
                packets=counts.packets + status.ring.raw_packets,
                bytes=counts.bytes + len(packet),
                overflows=counts.overflows + len(status.ring.overflow_indices or ()),
                dropped=getattr(status.ring, "dropped_packets", 0),
                cleared=counts.cleared + waiting,
                decoded=ReaderCounts(*decoded),
            )
            yield Events(*columns)

    def frames(
        self,
        *,
        windows: Windows = "10ms",
        representation: Representations = "histogram",
        bins: int | None = None,
        device: Device = "cpu",
        framework: str | None = None,
    ) -> Iterator[Any]:
        """Frames as they are complete, (n, rows, cols, channels), or lists of them: as `EventPipeline`; by duration also of a still scene.
        With `latest` only the newest one, (1, rows, cols, channels), of those that became complete together. Raises ValueError (status
        CAPACITY) if packets are missing for more than 1000 windows."""
        made: deque[FrameBatch[Any]] = deque()
        with EventPipeline(
            self.shape, representation, made.append, bins=bins, windows=windows, device=device, framework=framework
        ) as pipeline:  # fmt: skip
            for events in self:
                pipeline.push(events)
                pipeline.advance(self._now)
                if self._latest and made:
                    skipped = sum(map(len, made)) - 1
                    self._counts = replace(self._counts, frames_skipped=self._counts.frames_skipped + skipped)
                    frames = made[-1].frames
                    made.clear()
                    yield [one[-1:] for one in frames] if isinstance(frames, list) else frames[-1:]
                while made:
                    yield made.popleft().frames

    def counts(self) -> CameraCounts:
        """What came and what was lost so far."""
        return self._counts

    def close(self) -> None:
        """Closes the camera."""
        if not self.closed:
            self._device.close()
        super().close()


def open(
    serial: str | None = None, *, latest: bool = False, timeout: float | None = None, configuration: CameraConfiguration | None = None
) -> Camera:
    """Opens the camera with this serial number, or the first one.

    latest: for live views: what has queued up while the last events were used is passed over, and counted.
    timeout: seconds without data after which iterating ends; None: it waits for ever.
    configuration: biases and so on, as neuromorphic_drivers has it for each camera.
    Raises NotImplementedError if the package neuromorphic-drivers is not installed or the camera does not send EVT 3.0; what the package
    raises if there is no camera.

        with cusight.cameras.open(timeout=1) as camera:
            for events in camera:
                print(events)
    """
    driver = optional("cameras.open", "neuromorphic_drivers", "neuromorphic-drivers", "cameras")
    return Camera(driver.open(configuration, iterator_timeout=timeout, raw=True, serial=serial), bool(latest))
