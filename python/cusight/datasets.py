"""DSEC, M3ED and Prophesee's automotive data sets (Gen1, 1 Mpx) as map-style data sets: frames of events with images or ground truth
of the same times.

    dataset = cusight.datasets.DSEC("train/zurich_city_01_a", "disparity", representation="voxel_grid", bins=15, length="50ms")
    frame, disparity = dataset[0]

Folders and files are as their authors publish them. Events are read by this package; ground truth in HDF5 needs h5py, pictures need OpenCV.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Callable, Literal, Sequence, Tuple, overload

from ._errors import MissingFileError, Status, choice, invalid
from ._events import Representation, Representations, kinds_of
from ._files import existing, h5py, optional, regular
from ._types import TypeVar
from .rvt import BINS, CUTOFF, DATASETS, STEP, frame_times, select_labels, sequences
from .torch import EventDataset

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from torch import Tensor
    from typing_extensions import Unpack

    from ._events import Kind
    from ._types import F32, U8
    from .torch import DatasetOptions

    class _Options(DatasetOptions, total=False):
        camera: Literal["left", "right"]
        length: int | str
        bins: int | None

    class _Tensors(_Options, total=False):
        """What gives one tensor a window."""

        representation: Kind | Representation
        transform: None

    class _Frames(_Options, total=False):
        representation: Representations
        transform: Callable[[Any], Any] | None

__all__ = ["DSEC", "M3ED", "Prophesee"]


def __dir__() -> list[str]:
    return __all__


def _numbers(path: str) -> NDArray[numpy.int64]:
    """The rows of a text file of integers, which may begin with a line of names."""
    import numpy

    with open(regular("datasets", path, 1 << 26)) as file:
        rows = [line.replace(",", " ").split() for line in file if line.strip() and not line.startswith("#")]
    try:
        return numpy.array([[int(word) for word in row] for row in rows], numpy.int64).reshape(len(rows), -1)
    except ValueError:
        raise invalid("datasets", "timestamps", path, "a file of whole numbers, in columns") from None


FrameT = TypeVar("FrameT", default=Any)
TargetT = TypeVar("TargetT", default=Any)


class _Sequence(EventDataset[Tuple[FrameT, TargetT]]):
    """One recording whose windows have labels that are read when they are asked for."""

    def _label(self, number: int, window: int) -> Any:
        return self._target(window)

    def _target(self, index: int) -> Any:
        raise NotImplementedError


def _windows(times: NDArray[numpy.int64], length: int | str | None) -> dict[str, Any]:
    """Windows between two columns of times, or of a length before one."""
    if times.shape[1] > 1:
        return {"starts": times[:, 0], "ends": times[:, 1]}
    return {"ends": times[:, 0], "length": length}


class DSEC(_Sequence[FrameT, TargetT]):
    """A sequence of DSEC (Gehrig et al. 2021): ``dataset[i]`` is (frame, target).

    folder: of the sequence, with `events/left/events.h5` and the target's own, as in the archives of the data set: `disparity`, `flow`,
        `images`.
    target: "disparity": (480, 640) float32 pixels, NaN where there is none, `view` "event" or "image"; "flow": (480, 640, 2) float32 pixels,
        x and y, from the window's start to its end, NaN where not valid; "images": the rectified picture, (rows, cols, 3) uint8, BGR.
    camera: "left" or "right".
    length: of the windows before each disparity or image, [t - length, t); windows of flow are those that it is for.
    rectify: voxel grids are rectified by the sequence's map, `rectify_map.h5`, as the benchmark's loader does it.
    The other arguments are those of `cusight.torch.EventDataset`.
    Raises FileNotFoundError; NotImplementedError if h5py or OpenCV is needed and missing.

    >>> import cusight.datasets
    >>> dataset = cusight.datasets.DSEC("train/zurich_city_01_a", "disparity", bins=15, length="50ms")  # needs the data set
    >>> frame, disparity = dataset[0]
    >>> tuple(frame.shape), disparity.shape
    ((15, 480, 640), (480, 640))
    """

    @overload
    def __init__(
        self: DSEC[Tensor, F32], folder: str | os.PathLike[str], target: Literal["disparity", "flow"] = ..., *, view: Literal["event", "image"] = ..., rectify: bool = ...,
        **options: Unpack[_Tensors],
    ) -> None: ...
    @overload
    def __init__(
        self: DSEC[Tensor, U8], folder: str | os.PathLike[str], target: Literal["images"], *, view: Literal["event", "image"] = ..., rectify: bool = ...,
        **options: Unpack[_Tensors],
    ) -> None: ...
    @overload
    def __init__(
        self: DSEC[Any, F32], folder: str | os.PathLike[str], target: Literal["disparity", "flow"] = ..., *, view: Literal["event", "image"] = ..., rectify: bool = ...,
        **options: Unpack[_Frames],
    ) -> None: ...
    @overload
    def __init__(
        self: DSEC[Any, U8], folder: str | os.PathLike[str], target: Literal["images"], *, view: Literal["event", "image"] = ..., rectify: bool = ...,
        **options: Unpack[_Frames],
    ) -> None: ...
    def __init__(
        self,
        folder: str | os.PathLike[str],
        target: Literal["disparity", "flow", "images"] = "disparity",
        *,
        camera: Literal["left", "right"] = "left",
        view: Literal["event", "image"] = "event",
        length: int | str = "50ms",
        rectify: bool = True,
        representation: Representations = "voxel_grid",
        bins: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        **options: Unpack[DatasetOptions],
    ) -> None:
        choice("DSEC", "target", target, {"disparity": 0, "flow": 1, "images": 2})
        choice("DSEC", "camera", camera, {"left": 0, "right": 1})
        choice("DSEC", "view", view, {"event": 0, "image": 1})
        at = os.fspath(folder)
        self.target = target
        place, times = {
            "disparity": (("disparity", view), ("disparity", "timestamps.txt")),
            "flow": (("flow", "forward"), ("flow", "forward_timestamps.txt")),
            "images": (("images", camera, "rectified"), ("images", "timestamps.txt")),
        }[target]
        files = existing("DSEC", os.path.join(at, *place))
        listed = _numbers(existing("DSEC", os.path.join(at, *times)))
        self._pictures = [os.path.join(files, name) for name in sorted(os.listdir(files)) if name.endswith(".png")]
        if len(self._pictures) != len(listed):
            raise invalid("DSEC", "folder", at, f"{len(listed)} pictures in {files}, one for each of the timestamps, not {len(self._pictures)}")
        events = os.path.join(at, "events", camera)
        if rectify:
            representation, bins = _rectified(representation, bins, os.path.join(events, "rectify_map.h5")), None
        windows = _windows(listed[:, :2] if target == "flow" else listed[:, :1], length)
        super().__init__(
            existing("DSEC", os.path.join(events, "events.h5")),
            representation=representation,
            bins=bins,
            labels=range(len(listed)),
            transform=transform,
            **windows,
            **options,
        )

    def _target(self, index: int) -> Any:
        import numpy

        cv2 = optional("DSEC", "cv2", "opencv-python-headless", "pictures")
        picture = cv2.imread(regular("DSEC", self._pictures[index], 1 << 30), cv2.IMREAD_UNCHANGED)
        if picture is None:
            raise MissingFileError(Status.IO, f"DSEC: {self._pictures[index]} cannot be read as a picture")
        if self.target == "images":
            return picture
        if self.target == "disparity":
            return numpy.where(picture > 0, picture.astype(numpy.float32) / 256, numpy.float32("nan"))
        flow = (picture[..., :0:-1].astype(numpy.float32) - 2**15) / 128  # red and green of BGR; blue: valid
        flow[picture[..., 0] == 0] = numpy.nan
        return flow


def _rectified(given: Representations, bins: int | None, path: str) -> Representations:
    """The same with the map for each voxel grid; read only if there is one."""
    kinds = kinds_of(given, bins)
    if any(one.kind == "voxel_grid" for one in kinds):
        with h5py("DSEC").File(existing("DSEC", path)) as file:
            table = file["rectify_map"][:]
        kinds = [replace(one, map=table) if one.kind == "voxel_grid" else one for one in kinds]
    return kinds if isinstance(given, (list, tuple)) else kinds[0]


class M3ED(_Sequence[FrameT, TargetT]):
    """A sequence of M3ED (Chaney et al. 2023): ``dataset[i]`` is (frame, target).

    folder: of the sequence, with `NAME_data.h5` (or `NAME.h5`) and, for ground truth, `NAME_depth_gt.h5` or `NAME_gt_flow.h5` (not part of
        the data set; F3's script makes it from depth and poses), where NAME is the folder's own name.
    target: "depth": (720, 1280) float32, as stored; "flow": (720, 1280, 2) float32, x and y, from the time before to its own, which are the
        window; the first time has none; "left", "right", "rgb": a picture of that camera, (rows, cols, channels).
    camera: "left" or "right", of the events; depth and flow must be there for it.
    length: of the windows before each depth map or picture, [t - length, t).
    The other arguments are those of `cusight.torch.EventDataset`.
    Raises FileNotFoundError; NotImplementedError if h5py is missing.

    >>> import cusight.datasets
    >>> dataset = cusight.datasets.M3ED("spot_indoor_stairs", "depth", bins=5, length="50ms")  # needs the data set
    >>> frame, depth = dataset[0]
    >>> len(frame), frame[0].shape == depth.shape
    (5, True)
    """

    @overload
    def __init__(
        self: M3ED[Tensor, F32], folder: str | os.PathLike[str], target: Literal["depth", "flow"] = ...,
        **options: Unpack[_Tensors],
    ) -> None: ...
    @overload
    def __init__(
        self: M3ED[Tensor, U8], folder: str | os.PathLike[str], target: Literal["left", "right", "rgb"],
        **options: Unpack[_Tensors],
    ) -> None: ...
    @overload
    def __init__(
        self: M3ED[Any, F32], folder: str | os.PathLike[str], target: Literal["depth", "flow"] = ...,
        **options: Unpack[_Frames],
    ) -> None: ...
    @overload
    def __init__(
        self: M3ED[Any, U8], folder: str | os.PathLike[str], target: Literal["left", "right", "rgb"],
        **options: Unpack[_Frames],
    ) -> None: ...
    def __init__(
        self,
        folder: str | os.PathLike[str],
        target: Literal["depth", "flow", "left", "right", "rgb"] = "depth",
        *,
        camera: Literal["left", "right"] = "left",
        length: int | str = "50ms",
        representation: Representations = "voxel_grid",
        bins: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        **options: Unpack[DatasetOptions],
    ) -> None:
        import numpy

        choice("M3ED", "target", target, {"depth": 0, "flow": 1, "left": 2, "right": 3, "rgb": 4})
        choice("M3ED", "camera", camera, {"left": 0, "right": 1})
        at = os.path.normpath(os.fspath(folder))
        self._camera, self.target = camera, target
        start = os.path.join(at, os.path.basename(at))
        recording = existing("M3ED", f"{start}_data.h5", f"{start}.h5")
        self._truth = recording if target in ("left", "right", "rgb") else existing("M3ED", f"{start}_{'gt_flow' if target == 'flow' else 'depth_gt'}.h5")
        self._open: Any = None  # in each process, at the first target
        with h5py("M3ED").File(self._truth) as file:
            times = file["ovc/ts" if self._truth == recording else "ts"][:].astype(numpy.int64)
            times = times[: min(len(file[name]) for name in self._names())]
        times = times[:, None] if target != "flow" else numpy.stack([times[:-1], times[1:]], axis=1)
        super().__init__(
            recording,
            representation=representation,
            bins=bins,
            labels=range(len(times)),
            transform=transform,
            camera=camera,
            **_windows(times, length),
            **options,
        )

    def _names(self) -> Sequence[str]:
        """The data sets of the target."""
        if self.target == "flow":
            return [f"flow/prophesee/{self._camera}/{axis}" for axis in "xy"]
        return [f"depth/prophesee/{self._camera}" if self.target == "depth" else f"ovc/{self.target}/data"]

    def _target(self, index: int) -> Any:
        import numpy

        if self._open is None:
            self._open = h5py("M3ED").File(self._truth)
        parts = [self._open[name][index + (self.target == "flow")] for name in self._names()]
        return parts[0] if len(parts) == 1 else numpy.stack(parts, axis=-1)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_open": None}


class Prophesee(EventDataset[Tuple[Any, Any]]):
    """The sequences of a split of Gen1 or 1 Mpx: ``dataset[i]`` is (frame, boxes), as RVT trains from them, without preprocessing.

    folder: with train, val and test, as `cusight.rvt` reads it. split: one of them. dataset: "gen1" or "gen4" (1 Mpx).
    Windows, 50 ms long, and boxes are those that `cusight.rvt` makes: boxes are a structured array with the fields of the data set's
    files, those of the window's end, or None where it has no label. Frames of 1 Mpx have every other row and column.
    representation: by default RVT's stacked histograms. transform: called with each frame.
    Give it to `cusight.torch.SequenceDataset`. Raises FileNotFoundError, ValueError.

    >>> import cusight.datasets
    >>> dataset = cusight.datasets.Prophesee("gen1/", "val")  # needs the data set
    >>> frame, boxes = dataset[-1]
    >>> tuple(frame.shape), boxes.dtype.names[:5]
    ((20, 240, 304), ('t', 'x', 'y', 'w', 'h'))
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        split: Literal["train", "val", "test"] = "train",
        *,
        dataset: Literal["gen1", "gen4"] = "gen1",
        representation: Representations | None = None,
        bins: int | None = None,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        import numpy

        choice("Prophesee", "split", split, {"train": 0, "val": 1, "test": 2})
        choice("Prophesee", "dataset", dataset, {"gen1": 0, "gen4": 1})
        about = DATASETS[dataset]
        paths, ends, labels = [], [], []
        for file, recording, name, training in sequences(os.fspath(folder)):
            if os.path.dirname(name) != split:
                continue
            boxes = select_labels(numpy.load(regular("Prophesee", file, 1 << 30)), about, training)
            if not len(boxes):
                continue
            used, times = frame_times(numpy.unique(boxes["t"].astype(numpy.int64)), dataset)
            of_time = {int(time): boxes[boxes["t"] == time] for time in used}
            paths.append(recording)
            ends.append(times + 1)  # an event at the end counts
            labels.append([of_time.get(int(time)) for time in times])
        if representation is None:
            representation = Representation("stacked_histogram", BINS, swap_channels=True, cutoff=CUTOFF)
        rows, cols = about.shape
        opened: dict[str, Any] = {"width": cols, "height": rows, "skip_bad": True}
        super().__init__(
            paths,
            ends=ends,
            length=STEP + 1,
            time_unit="us",
            labels=labels,
            representation=representation,
            bins=bins,
            shape=about.shape,
            transform=_Halved(transform) if about.halve else transform,
            **opened,
        )


@dataclass(frozen=True)
class _Halved:
    """Every other row and column of a frame, then `transform`."""

    transform: Callable[[Any], Any] | None

    def __call__(self, frame: Any) -> Any:
        frame = frame[..., 1::2, 1::2]
        return frame if self.transform is None else self.transform(frame)
