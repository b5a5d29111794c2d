"""Many recordings, videos and images on many machines, by Ray Data (`pip install cusight[ray]`).

    frames = cusight.ray.read_frames("runs/*.raw", windows="10ms", representation="voxel_grid", bins=5)
    frames.write_parquet("frames/")

`read_frames` makes frames of recordings where they are read. `read_recordings` gives the events themselves:

    windows = cusight.ray.read_recordings("runs/*.h5", windows="10ms")
    frames = windows.map_batches(
        cusight.ray.StackEvents,
        fn_constructor_kwargs={"representation": "voxel_grid", "bins": 5},
        batch_size=16,
        num_gpus=1,
        compute=ray.data.ActorPoolStrategy(size=8),
    )
    frames.write_parquet("frames/")

`StackEvents`, `Heatmap`, `Match` and `Contour` are callable classes for `map_batches`. Ray makes one object per worker, which keeps its
workspace from batch to batch. What comes out for a row depends on that row alone, so a batch that Ray repeats after a worker or a
machine has died gives the same rows again.

Rows come in any order unless Ray is told to keep it; `path` with `window` or `frame` says which is which. Every worker opens the files
itself: paths must mean the same on all machines.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Dict, Iterator, Sequence

from . import _core, _errors, _images
from . import events as _events
from ._events import EventStacker, Representations, Windowing, Windows, frame_size, windowing
from ._files import Paths, list_files
from ._frames import count_windows
from ._match import Matcher, MatcherOptions
from ._spans import cut_windows
from ._stereo import ContourMapper, StereoOptions
from ._types import ArrayLike, Device

if TYPE_CHECKING:
    import ray.data
    from typing_extensions import Unpack

__all__ = ["Contour", "Heatmap", "Match", "StackEvents", "read_frames", "read_recordings", "read_videos"]


def __dir__() -> list[str]:
    return __all__


Batch = Dict[str, Any]
_SHARD = 64 << 20  # bytes of a recording that one task makes frames of, about
_SHARDS = 64  # at most
_SPAN = 4 << 20  # events that one reading task takes, about
_BLOCK = 16 << 20  # bytes of video frames that are handed on at once, about


# ---- Reading ------------------------------------------------------------------------------------------------------------


def _ray_data(function: str) -> Any:
    try:
        import ray.data
    except ImportError as error:
        raise ImportError(f"{function} needs Ray Data: pip install 'cusight[ray]' ({error})") from None
    return ray.data


def read_recordings(
    paths: Paths, *, windows: Windows = 200_000, windows_per_task: int | None = None, **options: Unpack[_events.OpenOptions]
) -> ray.data.Dataset:
    """The windows of recordings of event cameras as a Ray Dataset, a row for each window.

    paths: a file, a pattern ("runs/**/*.h5") or a list of them.
    windows: number of events, duration or Windowing, as `cusight.stack_events`.
    windows_per_task: how many windows one task reads; by default about 4 Mi events. Only HDF5 recordings are read by several
        tasks; the other formats have no index, and neither has a recording read with skip_bad: one task reads all of it.
    options: of `cusight.events.open`.

    Columns: path; window, from 0; first, the number of its first event; rows and cols of the sensor; and the events of the window, x, y,
    p and t, as lists. A recording is opened here once to learn its length.
    Raises FileNotFoundError and what `cusight.events.open` raises. A recording that turns out to be damaged ends the execution with that
    error.
    """
    data = _ray_data("read_recordings")
    cut = windowing("read_recordings", windows)
    cut._options()
    if windows_per_task is not None and windows_per_task < 1:
        raise _errors.invalid("read_recordings", "windows_per_task", windows_per_task, "at least 1")
    files = list_files("read_recordings", paths)
    with ThreadPoolExecutor(min(16, len(files))) as pool:
        listed = pool.map(lambda path: _spans(path, cut, windows_per_task, options), files)
        spans = [span for of_file in listed for span in of_file]
    tasks = data.from_items(spans, override_num_blocks=len(spans))
    return tasks.map_batches(_read_windows, batch_size=1, fn_kwargs={"cut": cut, "options": options})


def read_frames(
    paths: Paths,
    *,
    windows: Windows = 200_000,
    representation: Representations = "histogram",
    bins: int | None = None,
    shards: int | None = None,
    device: Device = "auto",
    num_gpus: float = 0,
    **options: Unpack[_events.OpenOptions],
) -> ray.data.Dataset:
    """Frames of recordings of event cameras as a Ray Dataset, a row for each frame.

    paths: a file, a pattern ("runs/**/*.raw") or a list of them.
    windows, representation, bins: as `cusight.stack_events`.
    shards: tasks for each recording, of any format, each of which starts at its own place; by default one for 64 MiB of the file, up to 64,
        and with skip_bad one.
    device: "cpu", "cuda", or "auto": the GPU that Ray gave the task, else the CPU. num_gpus: GPUs, or a part of one, for each task.
    options: of `cusight.events.open`; shape is then that of the frames, too.

    Columns: path; window, from 0 in the whole recording; first and last, the numbers of its first event and of the one after it; and
    frames, (rows, cols, channels), or frames_0, frames_1 and so on for a list of representations.
    Raises FileNotFoundError. A damaged recording, or one that cannot be opened, ends the execution with its error.
    """
    data = _ray_data("read_frames")
    made: dict[str, Any] = {"windows": windowing("read_frames", windows), "representation": representation, "bins": bins}
    if shards is not None and shards < 1:
        raise _errors.invalid("read_frames", "shards", shards, "at least 1")
    tasks = []
    for path in list_files("read_frames", paths):
        # Each shard scans what is before it, or with skip_bad decodes all.
        count = shards or (1 if options.get("skip_bad") else min(os.path.getsize(path) // _SHARD + 1, _SHARDS))
        tasks += [{"path": path, "shard": shard, "shards": count} for shard in range(count)]
    return data.from_items(tasks, override_num_blocks=len(tasks)).map_batches(
        _make_frames, batch_size=1, fn_kwargs={"made": made, "device": device, "options": options}, num_gpus=num_gpus or None
    )


def _make_frames(batch: Batch, made: dict[str, Any], device: Device, options: _events.OpenOptions) -> Iterator[Batch]:
    """Runs in a task: the frames of a shard, some at a time."""
    import numpy

    worker = _Worker(device)
    several = isinstance(made["representation"], (list, tuple))
    for path, shard, shards in zip(batch["path"], batch["shard"], batch["shards"]):
        with _events.open(str(path), **options) as recording:
            parts = recording.frames(device=worker.device, shard=(int(shard), int(shards)), **made)
            for part in parts.batches():
                n = len(part.windows)
                rows: Batch = {"path": numpy.array([str(path)] * n), "window": numpy.arange(part.first, part.first + n)}
                rows["first"], rows["last"] = part.windows[:, 0], part.windows[:, 1]
                for k, frames in enumerate(part.frames if several else [part.frames]):
                    rows[f"frames_{k}" if several else "frames"] = worker.get(frames)
                yield rows


def _spans(path: str, cut: Windowing, windows_per_task: int | None, options: _events.OpenOptions) -> list[dict[str, Any]]:
    """What each task reads of a recording: windows first .. end - 1 (-1: to the end)."""
    with _events.open(path, **options) as recording:
        count = count_windows(recording, cut, 0)
        if recording.format not in ("M3ED", "DSEC", "Metavision", "HDF5", "MVSEC") or options.get("skip_bad") or not count:
            return [{"path": path, "first": 0, "end": -1}]
        step = windows_per_task or max(1, _SPAN * count // max(recording.count or 1, 1))
        return [{"path": path, "first": first, "end": min(first + step, count)} for first in range(0, count, step)]


def _read_windows(batch: Batch, cut: Windowing, options: _events.OpenOptions) -> Iterator[Any]:
    """Runs in a task: the windows of a span as Arrow tables."""
    import numpy
    import pyarrow

    for path, first, end in zip(batch["path"], batch["first"], batch["end"]):
        with _events.open(str(path), **options) as recording:
            rows, cols = recording.shape
            for part in cut_windows(recording, cut, int(first), None if end < 0 else int(end)):
                n = len(part.firsts)
                offsets = numpy.concatenate([[0], numpy.cumsum(part.lengths)])
                table: Batch = {
                    "path": [str(path)] * n,
                    "window": numpy.arange(part.window, part.window + n),
                    "first": part.firsts,
                    "rows": numpy.full(n, rows, numpy.int32),
                    "cols": numpy.full(n, cols, numpy.int32),
                }
                for name, column in zip("xypt", part.events):
                    table[name] = pyarrow.LargeListArray.from_arrays(offsets, column)
                yield pyarrow.table(table)


def read_videos(paths: Paths, *, pairs: bool = False) -> ray.data.Dataset:
    """The frames of videos as a Ray Dataset, a row for each frame. Decoded on the CPU by OpenCV (`pip install opencv-python-headless`),
    one task for each video.

    paths: a file, a pattern or a list of them.
    pairs: also give the frame before: what `Heatmap` takes.

    Columns: path; frame, from 0; image, (rows, cols, 3) uint8 in BGR order; with `pairs` also prev, and the rows start at frame 1.
    Raises FileNotFoundError. A file that is not a video ends the execution with OSError.
    """
    data = _ray_data("read_videos")
    files = [{"path": path} for path in list_files("read_videos", paths)]
    return data.from_items(files, override_num_blocks=len(files)).map_batches(
        _read_frames, batch_size=1, fn_kwargs={"pairs": pairs}
    )


def _read_frames(batch: Batch, pairs: bool) -> Iterator[Batch]:
    """Runs in a task: the frames of a video, some at a time."""
    import cv2
    import numpy

    for path in map(str, batch["path"]):
        video = cv2.VideoCapture(path)
        held: list[Any] = []
        index, previous = 0, None
        while True:
            good, image = video.read()
            if good:
                held.append((index, previous, image))
                index, previous = index + 1, image
            elif not index:
                raise _errors.InputOutputError(_errors.Status.IO, f"read_videos: {path} is not a video that OpenCV can read")
            ready = [one for one in held if one[1] is not None] if pairs else held
            if ready and (not good or len(held) * held[0][2].nbytes >= _BLOCK):
                rows: Batch = {
                    "path": numpy.array([path] * len(ready)),
                    "frame": numpy.array([one[0] for one in ready]),
                    "image": numpy.stack([one[2] for one in ready]),
                }
                if pairs:
                    rows["prev"] = numpy.stack([one[1] for one in ready])
                yield rows
                held = []
            if not good:
                break


# ---- Batches to the GPU and back -------------------------------------------------------------------------------------------


class _Worker:
    """What the callable classes share: the device, and batches there and back."""

    def __init__(self, device: Device) -> None:
        self.device = _granted() if device == "auto" else _errors.device_text(type(self).__name__, device)
        self._framework = ""
        if self.device == "cpu":
            return
        for name in ("torch", "cupy"):
            try:
                __import__(name)
            except ImportError:
                continue
            self._framework = name
            return
        raise RuntimeError(f"{type(self).__name__}: device is {self.device!r}, which needs PyTorch or CuPy to move batches to the GPU")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.device}>"

    def put(self, array: Any) -> Any:
        """A NumPy array on the device, without gaps."""
        import numpy

        array = numpy.ascontiguousarray(array)
        if self._framework == "torch":
            torch = sys.modules["torch"]
            return torch.from_numpy(array if array.flags.writeable else numpy.array(array)).to(self.device)
        if self._framework == "cupy":
            with sys.modules["cupy"].cuda.Device(int(self.device.partition(":")[2] or 0)):
                return sys.modules["cupy"].asarray(array)
        return array

    def get(self, array: Any) -> Any:
        """A NumPy array in host memory; waits for the work."""
        if self._framework == "torch":
            return array.cpu().numpy()
        return array.get() if self._framework == "cupy" else array


def _granted() -> str:
    """"cuda" if Ray gave this worker a GPU (num_gpus), or if there is one and this is no Ray worker."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized() and not ray.get_runtime_context().get_accelerator_ids().get("GPU"):
        return "cpu"
    return "cuda" if _core.device_count() else "cpu"


def _column(function: str, batch: Batch, name: str) -> Any:
    if name not in batch:
        raise _errors.invalid(function, "columns", ", ".join(batch), f"one named {name}")
    return batch[name]


def _rest(batch: Batch, used: Sequence[str], keep: bool) -> Batch:
    return dict(batch) if keep else {name: column for name, column in batch.items() if name not in used}


def _stacked(images: list[Any]) -> Any:
    """One array of images of one size; otherwise an array of arrays, as Ray has them."""
    import numpy

    if len({image.shape for image in images}) == 1:
        return numpy.stack(images)
    column = numpy.empty(len(images), object)
    for i, image in enumerate(images):
        column[i] = image
    return column


# ---- The callable classes ------------------------------------------------------------------------------------------------


class StackEvents(_Worker):
    """Frames from the windows of `read_recordings`, for `map_batches`.

    shape: (rows, cols) of the frames; by default the sensor's.
    representation, bins: as `cusight.stack_events`.
    device: "cpu", "cuda", or "auto": the GPU that Ray gave this worker (num_gpus), else the CPU. Batches are moved to the GPU and back by
        PyTorch or CuPy.
    keep: keep the events in the rows.

    Adds the column frames, (rows, cols, channels); frames_0, frames_1 and so on for a list of representations.

    >>> import cusight.ray, numpy
    >>> rows = {"x": numpy.array([[0, 1]]), "y": numpy.array([[0, 1]]), "p": numpy.array([[1, 0]]), "t": numpy.array([[10, 20]])}
    >>> batch = cusight.ray.StackEvents((2, 3), "mdes", device="cpu")(rows)  # Ray's map_batches calls it
    >>> batch["frames"].shape
    (1, 2, 3, 10)
    """

    def __init__(
        self,
        shape: Sequence[int] | None = None,
        representation: Representations = "histogram",
        *,
        bins: int | None = None,
        device: Device = "auto",
        keep: bool = False,
    ) -> None:
        super().__init__(device)
        self._shape = None if shape is None else frame_size("StackEvents", shape)
        self._representation, self._bins, self._keep = representation, bins, keep
        self._stackers: dict[tuple[int, int], EventStacker] = {}

    def __call__(self, batch: Batch) -> Batch:
        import numpy

        columns = [_column("StackEvents", batch, name) for name in "xypt"]
        shapes = self._shapes(batch, len(columns[0]))
        names = self._names()
        frames: list[Any] = [None] * len(shapes)
        for shape in sorted(set(shapes)):
            rows = [i for i, other in enumerate(shapes) if other == shape]
            ends = numpy.cumsum([len(columns[3][i]) for i in rows])
            windows = numpy.stack([numpy.concatenate([[0], ends[:-1]]), ends], 1)
            types = (numpy.uint16, numpy.uint16, numpy.uint8, numpy.int64)
            arrays = [numpy.concatenate([numpy.asarray(c[i], d) for i in rows]) for c, d in zip(columns, types)]
            made = self._stacker(shape)(*map(self.put, arrays), windows=windows)
            parts = [self.get(one) for one in (made if isinstance(made, list) else [made])]
            for k, i in enumerate(rows):
                frames[i] = [part[k] for part in parts]
        result = _rest(batch, "xypt", self._keep)
        for k, name in enumerate(names):
            result[name] = _stacked([one[k] for one in frames])
        return result

    def _names(self) -> list[str]:
        given = self._representation
        return [f"frames_{i}" for i in range(len(given))] if isinstance(given, (list, tuple)) else ["frames"]

    def _shapes(self, batch: Batch, n: int) -> list[tuple[int, int]]:
        if self._shape is not None:
            return [self._shape] * n
        rows, cols = _column("StackEvents", batch, "rows"), _column("StackEvents", batch, "cols")
        return [frame_size("StackEvents", (int(r), int(c))) for r, c in zip(rows, cols)]

    def _stacker(self, shape: tuple[int, int]) -> EventStacker:
        if shape not in self._stackers:
            self._stackers[shape] = EventStacker(shape, self._representation, bins=self._bins, device=self.device)
        return self._stackers[shape]


class Heatmap(_Worker):
    """Heatmaps of pairs of images, for `map_batches`: `cusight.heatmap`.

    prev, image: the columns of the two images, by default those of `read_videos(pairs=True)`.
    full_scale: as `cusight.heatmap`. device: as `StackEvents`. keep: keep the images in the rows.

    Adds the column heatmap, (rows, cols, 3) uint8 in BGR order.

    >>> import cusight.ray, numpy
    >>> rows = {"prev": numpy.zeros((2, 4, 6, 3), numpy.uint8), "image": numpy.ones((2, 4, 6, 3), numpy.uint8)}
    >>> cusight.ray.Heatmap(device="cpu")(rows)["heatmap"].shape
    (2, 4, 6, 3)
    """

    def __init__(
        self, prev: str = "prev", image: str = "image", *, full_scale: int = 765, device: Device = "auto", keep: bool = False
    ) -> None:
        super().__init__(device)
        self._prev, self._image, self._full_scale, self._keep = prev, image, full_scale, keep

    def __call__(self, batch: Batch) -> Batch:
        pairs = zip(_column("Heatmap", batch, self._prev), _column("Heatmap", batch, self._image))
        result = _rest(batch, (self._prev, self._image), self._keep)
        made = [_images.heatmap(self.put(a), self.put(b), full_scale=self._full_scale) for a, b in pairs]
        result["heatmap"] = _stacked([self.get(one) for one in made])
        return result


class Match(_Worker):
    """Template matching in images, for `map_batches`: `cusight.Matcher`.

    templates: NumPy array or list of them, as `cusight.Matcher`.
    image: the column of the images. device, keep: as `Heatmap`. options: of `cusight.Matcher`, without stream.

    Adds the columns x and y (int32, -1 where there is no match) and score (float64, NaN there), best match first: (max_matches,), or
    (templates, max_matches) for a list of templates.

    >>> import cusight.ray, numpy
    >>> images = numpy.random.default_rng(1).integers(0, 256, (2, 48, 64), numpy.uint8)
    >>> found = cusight.ray.Match(images[1, 20:30, 30:45], device="cpu")({"image": images})
    >>> found["x"][1].tolist(), found["y"][1].tolist(), found["score"][1].tolist()
    ([30], [20], [1.0])
    """

    def __init__(
        self,
        templates: ArrayLike | Sequence[ArrayLike],
        image: str = "image",
        *,
        device: Device = "auto",
        keep: bool = False,
        **options: Unpack[MatcherOptions],
    ) -> None:
        super().__init__(device)
        self._many = isinstance(templates, (list, tuple))
        self._templates: Any = [self.put(one) for one in templates] if isinstance(templates, (list, tuple)) else self.put(templates)
        self._image, self._keep, self._options = image, keep, options
        if options.get("mask") is not None:
            self._options = {**options, "mask": self.put(options["mask"])}
        self._matchers: dict[tuple[int, ...], Matcher] = {}

    def __call__(self, batch: Batch) -> Batch:
        import numpy

        images = _column("Match", batch, self._image)
        places = int(self._options.get("max_matches", 1))
        shape = (len(images), len(self._templates), places) if self._many else (len(images), places)
        x, y = numpy.full(shape, -1, numpy.int32), numpy.full(shape, -1, numpy.int32)
        score = numpy.full(shape, numpy.nan)
        for i, image in enumerate(images):
            found = self._matcher(image.shape[:2])(self.put(image))
            for k, hits in enumerate(found if self._many else [found]):
                at: Any = (i, k, slice(len(hits))) if self._many else (i, slice(len(hits)))
                x[at], y[at], score[at] = hits["x"], hits["y"], hits["score"]
        return {**_rest(batch, [self._image], self._keep), "x": x, "y": y, "score": score}

    def _matcher(self, shape: tuple[int, ...]) -> Matcher:
        if shape not in self._matchers:
            self._matchers[shape] = Matcher(self._templates, shape, **self._options)
        return self._matchers[shape]


class Contour(_Worker):
    """Elevation and contour maps of stereo pairs, for `map_batches`: `cusight.ContourMapper`.

    left, right: the columns of the two images, (rows, cols) uint8, or float32 with brightness 0 to 1.
    options: a StereoOptions; with shifts of 0 each pair finds its own, whichever worker gets it. device, keep: as `Heatmap`.

    Adds the columns elevation, uint16 (float32 with fill="relax"), and contours, uint8.

    >>> import cusight.ray, numpy
    >>> images = numpy.random.default_rng(1).integers(0, 256, (2, 48, 64), numpy.uint8)
    >>> found = cusight.ray.Contour(device="cpu")({"left": images, "right": numpy.roll(images, -5, 2)})
    >>> found["elevation"][:, 24, 40].tolist()
    [6, 6]
    """

    def __init__(
        self,
        left: str = "left",
        right: str = "right",
        options: StereoOptions | None = None,
        *,
        device: Device = "auto",
        keep: bool = False,
    ) -> None:
        super().__init__(device)
        self._left, self._right, self._options, self._keep = left, right, options, keep
        self._mappers: dict[Any, ContourMapper] = {}

    def __call__(self, batch: Batch) -> Batch:
        made = []
        for left, right in zip(_column("Contour", batch, self._left), _column("Contour", batch, self._right)):
            maps = self._mapper(left)(self.put(left), self.put(right))
            made.append([self.get(one) for one in maps])
        result = _rest(batch, (self._left, self._right), self._keep)
        result["elevation"] = _stacked([one[0] for one in made])
        result["contours"] = _stacked([one[1] for one in made])
        return result

    def _mapper(self, image: Any) -> ContourMapper:
        kind = (image.shape, image.dtype.name)
        if kind not in self._mappers or (self._options or StereoOptions()).shifts == 0:
            self._mappers[kind] = ContourMapper(image.shape, self._options, dtype=image.dtype.name, device=self.device)
        return self._mappers[kind]
