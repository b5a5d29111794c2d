"""Programs whose types are right. mypy and pyright check what assert_type says of each value; run, `values.assert_type` asks the value."""

# pyright: strict
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

import cusight
import cusight.cv2
import cusight.datasets
import cusight.ray
import cusight.rvt
import numpy as np
import torch
from cusight.torch import EventDataset, SequenceBatch, SequenceDataset
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from torch.utils.data import DataLoader
    from typing_extensions import assert_type
else:
    from values import assert_type

Array = NDArray[Any]
U8 = NDArray[np.uint8]
I8 = NDArray[np.int8]
U16 = NDArray[np.uint16]
I32 = NDArray[np.int32]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Hits = NDArray[np.void]
SHAPE = (20, 30)
CLASSIC = cusight.StereoOptions.classic()
TWO = cusight.Representation("mdes", depth="float32")


def pictures(image: U8, any_image: Array, yes: bool) -> None:
    floats, bits, loose = image.astype(np.float32), image > 9, image.data
    tensor, float_tensor = torch.from_numpy(image), torch.from_numpy(floats)
    table, wide = np.zeros((21, 31), np.int32), np.zeros((21, 31))
    out = torch.from_numpy(wide.copy())

    assert_type(cusight.integral(image), I32)
    assert_type(cusight.integral(bits, out=table), I32)
    assert_type(cusight.integral(np.zeros((20, 30), np.uint8), sum_depth="float64"), F64)
    assert_type(cusight.integral(floats, out=wide), F64)
    assert_type(cusight.integral(image.astype(np.float32)), F64)
    assert_type(cusight.integral(np.zeros((20, 30), np.float32)), F64)
    assert_type(cusight.integral(tensor), Tensor)
    assert_type(cusight.integral(float_tensor, out=out), Tensor)
    assert_type(cusight.integral(loose), Any)
    assert_type(cusight.integral(image, sqsum=True), tuple[I32, F64])
    assert_type(cusight.integral(image, sqsum=True, out=(table, None)), tuple[I32, F64])
    assert_type(cusight.integral(image, sum_depth="float64", sqsum=True, out=(None, wide)), tuple[F64, F64])
    assert_type(cusight.integral(floats, sqsum=True), tuple[F64, F64])
    assert_type(cusight.integral(tensor, sqsum=True), tuple[Tensor, Tensor])
    assert_type(cusight.integral(image, sqsum=yes), Any)
    with cusight.Integrator(SHAPE) as integrator:
        assert_type(integrator, cusight.Integrator)
        assert_type(integrator(image), I32)
        assert_type(integrator(image, sum_depth="float64"), F64)
        assert_type(integrator(floats), F64)
        assert_type(integrator(tensor), Tensor)
        assert_type(integrator(loose), Any)
        assert_type(integrator(image, sqsum=True), tuple[I32, F64])
        assert_type(integrator(image, sum_depth="float64", sqsum=True), tuple[F64, F64])
        assert_type(integrator(floats, sqsum=True), tuple[F64, F64])
        assert_type(integrator(tensor, sqsum=True), tuple[Tensor, Tensor])
        assert_type(integrator([image]), list[Array])
        assert_type(integrator([tensor]), list[Tensor])
        assert_type(integrator([image], sqsum=True), tuple[list[Any], list[Any]])
    boxes = np.array([[0, 0, 3, 4]], np.int32)
    assert_type(cusight.box_sums(cusight.integral(image), boxes), F64)
    assert_type(cusight.box_sums(wide, boxes, out=np.zeros(1)), F64)
    assert_type(cusight.box_sums(cusight.integral(tensor), torch.from_numpy(boxes)), Tensor)
    assert_type(cusight.box_sums(table.data, boxes), Any)

    color, places = np.zeros((20, 30, 3), np.uint8), np.zeros((20, 30, 2), np.float32)
    color_tensor = torch.from_numpy(color)
    assert_type(cusight.heatmap(image, image, colors=np.zeros((766, 3), np.uint8)), U8)
    assert_type(cusight.heatmap(color, color, out=color.copy()), U8)
    assert_type(cusight.heatmap(tensor, tensor), Tensor)
    assert_type(cusight.heatmap(loose, image), Any)
    assert_type(cusight.heatmap([image], [image]), list[U8])
    assert_type(cusight.heatmap([tensor], [tensor]), list[Tensor])
    assert_type(cusight.noise_view(bits, image, threshold=3), U8)
    assert_type(cusight.noise_view(tensor, tensor), Tensor)
    assert_type(cusight.noise_view(loose, loose), Any)
    assert_type(cusight.hsv_count(color, (0, 0, 0), np.array([9, 255, 255])), int)
    assert_type(cusight.hsv_count(color, [0, 0, 0], [9, 9, 9], mask=True), tuple[int, U8])
    assert_type(cusight.hsv_count(color, (0, 0, 0), (9, 9, 9), mask=image.copy()), tuple[int, U8])
    assert_type(cusight.hsv_count(color_tensor, (0, 0, 0), (9, 9, 9)), Union[int, Tensor])
    assert_type(cusight.hsv_count(color_tensor, (0, 0, 0), (9, 9, 9), mask=True), tuple[Union[int, Tensor], Tensor])
    assert_type(cusight.hsv_count(color, (0, 0, 0), (9, 9, 9), mask=yes), Any)
    assert_type(cusight.remap(image, places), U8)
    assert_type(cusight.remap(bits, places), U8)
    assert_type(cusight.remap(floats, places, out=floats.copy()), F32)
    assert_type(cusight.remap(tensor, torch.from_numpy(places)), Tensor)
    assert_type(cusight.remap(loose, places), Any)
    assert_type(cusight.remap([image], places), list[U8])
    assert_type(cusight.remap([floats], [places]), list[F32])
    assert_type(cusight.remap([tensor], [torch.from_numpy(places)]), list[Tensor])
    chroma = np.zeros((*((n + 1) // 2 for n in image.shape[:2]), 2), np.uint8)
    assert_type(cusight.yuv_to_bgr(image, chroma, matrix="bt709"), U8)
    assert_type(cusight.yuv_to_bgr(tensor, torch.from_numpy(chroma)), Tensor)
    assert_type(cusight.yuv_to_bgr(loose, chroma), Any)
    assert_type(cusight.yuv_to_gray(image, full_range=True), U8)
    assert_type(cusight.yuv_to_gray(tensor), Tensor)
    assert_type(cusight.yuv_to_gray(loose), Any)
    across, down = places[..., 0].copy(), places[..., 1].copy()
    in_tensors = torch.from_numpy(across), torch.from_numpy(down)
    assert_type(cusight.cv2.matchTemplate(image, image[2:9, 3:9], cusight.cv2.TM_SQDIFF), F32)
    assert_type(cusight.cv2.matchTemplate(tensor, torch.from_numpy(image[2:9, 3:9]), cusight.cv2.TM_SQDIFF), Tensor)
    assert_type(cusight.cv2.minMaxLoc(image), tuple[float, float, tuple[int, int], tuple[int, int]])
    assert_type(cusight.cv2.minMaxLoc(tensor, tensor), tuple[float, float, tuple[int, int], tuple[int, int]])
    assert_type(cusight.cv2.integral(image), Array)
    assert_type(cusight.cv2.integral(tensor), Tensor)
    assert_type(cusight.cv2.integral2(image), tuple[Array, F64])
    assert_type(cusight.cv2.integral2(tensor), tuple[Tensor, Tensor])
    assert_type(cusight.cv2.remap(image, across, down, cusight.cv2.INTER_LINEAR), Array)
    assert_type(cusight.cv2.remap(tensor, *in_tensors, cusight.cv2.INTER_LINEAR), Tensor)
    stereo = cusight.cv2.StereoBM_create(16, 9)
    assert_type(stereo.compute(image, image), Array)
    assert_type(stereo.compute(tensor, tensor), Tensor)
    if any_image.dtype == np.uint8:  # of OpenCV, say: accepted wherever the element type fits
        cusight.integral(any_image)
        cusight.heatmap(any_image, any_image)
        cusight.match_template(any_image, any_image)


def matching(image: U8) -> None:
    part, floats, loose = image[4:12, 5:15].copy(), image.astype(np.float32), image.data
    tensor, small = torch.from_numpy(image), torch.from_numpy(part)
    assert_type(cusight.match_dtype(), np.dtype[np.void])
    assert_type(cusight.match_template(image, part), F32)
    assert_type(cusight.match_template(floats, part.astype(np.float32), "sqdiff", mask=np.ones(part.shape, np.uint8)), F32)
    assert_type(cusight.match_template(tensor, small), Tensor)
    assert_type(cusight.match_template(loose, part), Any)

    with cusight.Matcher(part, image.shape, max_matches=3, device="cpu") as one:
        assert_type(one, cusight.Matcher[Hits])
        assert_type(one(image), Hits)
        assert_type([int(hit["x"]) for hit in one(image)], list[int])
        assert_type(one.run(image), None)
        assert_type(one.matches(), Hits)
        assert_type(one.run(image, scores=True), F32)
        assert_type(one.run(image, scores=np.zeros((13, 21), np.float32)), F32)
        assert_type(one.run(tensor, scores=True), Tensor)
        assert_type(one.run(loose, scores=True), Any)
        assert_type(one.algorithm, str)
        assert_type(one.closed, bool)
    several = cusight.Matcher([part, part], SHAPE, method="sqdiff")
    assert_type(several, cusight.Matcher[list[Hits]])
    assert_type(several(image), list[Hits])
    assert_type(several.run(image, scores=True), list[F32])
    assert_type(several.run(tensor, scores=True), list[Tensor])
    batch = cusight.Matcher(part, SHAPE, batch=2)
    assert_type(batch([image, image]), list[Hits])
    assert_type(batch.run([image, image], scores=True), list[F32])
    assert_type(batch.run([tensor, tensor], scores=[torch.from_numpy(np.zeros((13, 21), np.float32)) for _ in "12"]), list[Tensor])
    colors = cusight.Matcher(part, SHAPE)
    colors(image)
    assert_type(colors.inspect(np.zeros((20, 30, 3), np.uint8), (0, 0, 0), np.array([9, 255, 255])), Hits)

    def first(matcher: cusight.Matcher) -> Any:  # any of them
        return matcher(image)

    first(one if not one.closed else colors)
    assert_type(cusight.Matcher(small, SHAPE)(tensor), Hits)

    assert_type(cusight.pose_dtype(), np.dtype[np.void])
    with cusight.PoseMatcher(part, SHAPE, angles=range(-2, 3), scales=np.linspace(0.9, 1.1, 3), refine=True) as poses:
        assert_type(poses(image), Hits)
        assert_type(poses.run(image), None)
        assert_type(poses.matches(), Hits)
        assert_type(poses.angles, list[float])


def differences(image: U8) -> None:
    tensor, loose = torch.from_numpy(image), image.data
    encoder, decoder = cusight.DiffEncoder(SHAPE, threshold=3), cusight.DiffDecoder(SHAPE)
    sparse = encoder.encode(image)
    assert_type(sparse, cusight.SparseDiff[Array])
    assert_type(sparse.positions(), U32)
    assert_type(sparse.values(), U8)
    assert_type(sparse.mask(), Union[U8, None])
    assert_type(sparse.count(), int)
    assert_type(len(sparse), int)
    assert_type(sparse.shape, tuple[int, ...])
    assert_type(decoder.decode(sparse), U8)
    assert_type(encoder.encode(image[::-1].copy(), cusight.SparseDiff(SHAPE, mask=True)).mask(), Union[U8, None])
    of_tensor = encoder.encode(tensor)
    assert_type(of_tensor, cusight.SparseDiff[Tensor])
    assert_type(of_tensor.values(), Tensor)
    assert_type(of_tensor.positions(), Tensor)
    assert_type(of_tensor.mask(), Union[Tensor, None])
    assert_type(decoder.decode(of_tensor), Tensor)
    assert_type(encoder.encode(loose), cusight.SparseDiff[Any])
    batch = cusight.DiffEncoder.encode_batch
    assert_type(batch([encoder], [image]), list[cusight.SparseDiff[Array]])
    assert_type(batch([encoder], image, [sparse]), list[cusight.SparseDiff[Array]])
    assert_type(batch([encoder], [tensor]), list[cusight.SparseDiff[Tensor]])
    assert_type(batch([encoder], tensor), list[cusight.SparseDiff[Tensor]])
    assert_type(batch([encoder], loose), list[cusight.SparseDiff[Any]])
    assert_type(encoder.reset(image), None)
    assert_type(cusight.SparseDiff(SHAPE), cusight.SparseDiff[Array])
    assert_type(cusight.SparseDiff(SHAPE, device=str("cpu")), cusight.SparseDiff[Any])
    places, values = np.array([1, 5], np.int32), np.array([7, 8], np.uint8)
    assert_type(cusight.SparseDiff.from_arrays(places, values, SHAPE), cusight.SparseDiff[Array])
    from_tensors = cusight.SparseDiff.from_arrays(torch.from_numpy(places), torch.from_numpy(values), SHAPE)
    assert_type(from_tensors, cusight.SparseDiff[Tensor])
    assert_type(cusight.SparseDiff.from_arrays(places.data, values, SHAPE), cusight.SparseDiff[Any])

    detector = cusight.MotionDetector(SHAPE, noise_factor=3)
    assert_type(detector(image), cusight.Motion)
    assert_type(detector([image], [np.int64(5)]), list[cusight.Motion])
    assert_type(detector.found().tracks, list[cusight.MotionTrack])
    assert_type(cusight.MotionDetector(SHAPE, 2)([image, None]), list[cusight.Motion])


def stereo(image: U8) -> None:
    floats, loose, tensor = image.astype(np.float32) / np.float32(255), image.data, torch.from_numpy(image)
    assert_type(cusight.stereo_edges(image), U8)
    assert_type(cusight.stereo_edges(floats), U8)
    assert_type(cusight.stereo_edges(tensor, CLASSIC), Tensor)
    assert_type(cusight.stereo_edges(loose), Any)
    codes, tensor_codes = cusight.stereo_census(image), cusight.stereo_census(tensor)
    assert_type(codes, U8)
    assert_type(tensor_codes, Tensor)
    assert_type(cusight.stereo_census(loose), Any)
    assert_type(cusight.stereo_find_shifts(codes, codes), int)
    options = cusight.StereoOptions(shifts=8)
    heights, tensor_heights = cusight.stereo_elevation(codes, codes, options), cusight.stereo_elevation(tensor_codes, tensor_codes, options)
    assert_type(heights, U16)
    assert_type(tensor_heights, Tensor)
    assert_type(cusight.stereo_elevation(codes.data, codes, options), Any)
    assert_type(cusight.stereo_elevation_confidence(codes, codes, options), tuple[U16, U8])
    assert_type(cusight.stereo_elevation_confidence(tensor_codes, tensor_codes, options), tuple[Tensor, Tensor])
    assert_type(cusight.stereo_elevation_confidence(codes.data, codes, options), Any)
    loose_heights = heights.data
    assert_type(cusight.stereo_filter_speckles(heights), U16)
    assert_type(cusight.stereo_filter_speckles(tensor_heights), Tensor)
    assert_type(cusight.stereo_filter_speckles(loose_heights), Any)
    relaxed = cusight.stereo_fill(heights, cusight.StereoOptions(fill="relax"))
    assert_type(relaxed, Array)
    assert_type(cusight.stereo_fill(heights), U16)
    assert_type(cusight.stereo_fill(tensor_heights), Tensor)
    assert_type(cusight.stereo_fill(loose_heights), Any)
    assert_type(cusight.stereo_median(heights, 3), U16)
    assert_type(cusight.stereo_median(heights.astype(np.float32)), F32)
    assert_type(cusight.stereo_median(tensor_heights), Tensor)
    assert_type(cusight.stereo_median(loose_heights), Any)
    assert_type(cusight.stereo_contours(heights), U8)
    assert_type(cusight.stereo_contours(relaxed), U8)
    assert_type(cusight.stereo_contours(tensor_heights), Tensor)
    assert_type(cusight.stereo_contours(loose_heights), Any)
    assert_type(cusight.stereo_picture(heights, cusight.stereo_contours(heights)), U8)
    assert_type(cusight.stereo_picture(tensor_heights), Tensor)
    assert_type(cusight.stereo_picture(loose_heights), Any)
    mapper = cusight.ContourMapper(SHAPE)
    assert_type(mapper(image, image), tuple[U16, U8])
    assert_type(mapper(tensor, tensor), tuple[Tensor, Tensor])
    assert_type(mapper(loose, image), tuple[Any, Any])
    assert_type(cusight.ContourMapper(SHAPE, CLASSIC)(image, image), tuple[Array, U8])


class Store:
    """As dv_processing's."""

    def numpy(self) -> Hits:
        return np.zeros(3, [("x", "<i2"), ("y", "<i2"), ("polarity", "u1"), ("timestamp", "<i8")])


def frames(path: str, place: str) -> None:
    recording = cusight.events.open(path, shape=(48, 64))
    events = recording.read()
    assert_type(events, cusight.events.Events)
    assert_type(events.x, U16)
    assert_type(recording.shape, tuple[int, int])
    assert_type(recording.count, Union[int, None])
    assert_type(recording.format, str)
    assert_type(recording.seek(events.t.min()), int)
    assert_type(recording.triggers.t, NDArray[np.int64])
    assert_type(recording.counts().events, int)
    x, y, p, t = events
    columns, size = [torch.from_numpy(one) for one in events], (48, 64)
    a, b, c, d = columns
    loose = x.data
    together = np.stack([x, y, p, t], 1).astype(np.int64)

    assert_type(cusight.event_windows(t, windows="1ms"), U64)
    assert_type(cusight.stack_events(events, size), U8)
    assert_type(cusight.stack_events([x, y, p, t], size, windows=[(0, 1), (1, 3)]), U8)
    assert_type(cusight.stack_events({"x": x, "y": y, "p": p, "t": t}, size, representation="voxel_grid", bins=3), F32)
    assert_type(cusight.stack_events([[1, 2], [1, 2], [0, 1], [3, 4]], size, representation="event_diff"), I8)
    assert_type(cusight.stack_events(together, size, columns="xypt", representation=TWO), Array)
    structure: Hits = np.zeros(3, [("x", "<u2"), ("y", "<u2"), ("p", "<i2"), ("t", "<i8")])
    assert_type(cusight.stack_events(structure, size), U8)
    assert_type(cusight.stack_events(Store(), size), U8)
    assert_type(cusight.stack_events(events, size, representation=["mdes", TWO]), list[Array])
    assert_type(cusight.stack_events(columns, size), Tensor)
    assert_type(cusight.stack_events(torch.from_numpy(together), size, columns="xypt", representation=["mdes"]), list[Tensor])
    assert_type(cusight.stack_events(together.data, size, columns="xypt"), Any)
    assert_type(cusight.stack_events(x, y, p, t, size), U8)
    assert_type(cusight.stack_events(x, y, p, None, size, windows=1), U8)
    assert_type(cusight.stack_events(x, y, p, t, size, representation="time_surface", windows="1ms"), F32)
    assert_type(cusight.stack_events(x, y, p, t, size, representation="mdes_diff"), I8)
    assert_type(cusight.stack_events(x, y, p, t, size, representation=TWO), Array)
    assert_type(cusight.stack_events(x, y, p, t, size, representation=("tencode", "event_cube")), list[Array])
    assert_type(cusight.stack_events(a, b, c, d, size), Tensor)
    assert_type(cusight.stack_events(a, b, c, d, size, representation=["mdes", "voxel_grid"]), list[Tensor])
    assert_type(cusight.stack_events(loose, y, p, t, size), Any)

    grid, both = cusight.EventStacker(size, "voxel_grid", bins=3), cusight.EventStacker(size, ["mdes", "voxel_grid"])
    assert_type(cusight.EventStacker(size)(events), U8)
    assert_type(cusight.EventStacker(size, "event_diff")(x, y, p, t), I8)
    assert_type(cusight.EventStacker(size, TWO)(events), Array)
    assert_type(grid(events, windows=2), F32)
    assert_type(grid(x, y, p, t), F32)
    assert_type(grid(columns), Tensor)
    assert_type(grid(a, b, c, d), Tensor)
    assert_type(grid(loose, y, p, t), Any)
    assert_type(grid(together.data, columns="xypt"), Any)
    assert_type(both(events), list[Array])
    assert_type(both(columns), list[Tensor])
    assert_type(both(a, b, c, d), list[Tensor])
    assert_type(grid.skipped(), int)

    for batch in recording.frames(windows=2, batch=2):
        assert_type(batch, U8)
    assert_type(next(iter(recording.frames(windows=2, representation="event_cube", bins=2))), F32)
    assert_type(next(iter(recording.frames(windows=2, representation="mdes_diff"))), I8)
    assert_type(next(iter(recording.frames(windows=2, representation=TWO, shape=size).seek(events.t[0]))), Array)
    assert_type(next(iter(recording.frames(windows=2, representation=["mdes", TWO]))), list[Array])
    assert_type(next(iter(recording.frames(windows=2, device=place))), Any)
    made = next(recording.frames(windows=2, representation="voxel_grid").batches())
    assert_type(made, cusight.FrameBatch[F32])
    assert_type(made.frames, F32)
    assert_type(made.windows, U64)

    got: list[cusight.FrameBatch] = []
    pipelines = [
        cusight.EventPipeline(size, "histogram", bytes_sink),
        cusight.EventPipeline(size, "voxel_grid", floats_sink, bins=3, windows="1ms"),
        cusight.EventPipeline(size, "event_diff", signed_sink),
        cusight.EventPipeline(size, TWO, any_sink),
        cusight.EventPipeline(size, ["mdes", TWO], list_sink),
        cusight.EventPipeline(size, "mdes", got.append, device=place),
    ]
    for pipeline in pipelines:
        pipeline.push(events)
        pipeline.flush()
        assert_type(pipeline.counts().windows, int)
    assert got

    kept = cusight.events.EventFilter(recording.shape, begin=events.t[0], activity=5000)
    assert_type(kept(events), cusight.events.Events)
    generator = cusight.events.EventGenerator(SHAPE, device="cpu")
    video = np.zeros((2, 20, 30), np.uint8)
    video[1] = 200
    assert_type(generator.run(video, [0, 1000]), cusight.events.Events)
    assert_type(generator.run(torch.from_numpy(video), [2000, 3000]).t, Tensor)
    assert_type(generator.run(video.data, [4000, 5000]), Any)


def bytes_sink(batch: cusight.FrameBatch[U8]) -> None:
    assert_type(batch.frames, U8)


def floats_sink(batch: cusight.FrameBatch[F32]) -> None:
    assert_type(batch.frames, F32)


def signed_sink(batch: cusight.FrameBatch[I8]) -> None:
    assert_type(batch.frames, I8)


def any_sink(batch: cusight.FrameBatch[Array]) -> None:
    assert_type(batch.frames, Array)


def list_sink(batch: cusight.FrameBatch[list[Array]]) -> None:
    assert_type(batch.frames, list[Array])


def rows(frame: Tensor) -> int:
    return len(frame)


def training(path: str) -> None:
    size = (48, 64)
    dataset = EventDataset(path, windows=2, shape=size)
    assert_type(dataset, EventDataset[Tensor])
    assert_type(dataset[0], Tensor)
    assert_type(len(dataset), int)
    if TYPE_CHECKING:
        for frame in DataLoader(dataset, batch_size=8, num_workers=2):
            assert_type(frame, Tensor)
    assert_type(EventDataset(path, windows=2, shape=size, representation=["mdes", TWO])[0], list[Tensor])
    assert_type(EventDataset(path, windows=2, shape=size, transform=rows)[0], int)
    assert_type(EventDataset(path, windows=2, shape=size, transform=rows, representation=["mdes"])[0], list[int])
    assert_type(EventDataset(path, starts=[3], length=2, shape=size, labels=[7])[0], tuple[Tensor, Any])
    assert_type(EventDataset(path, starts=[3], length=2, shape=size, labels=[7], representation=["mdes"])[0], tuple[list[Tensor], Any])
    assert_type(EventDataset(path, starts=[3], length=2, shape=size, labels=[7], transform=rows)[0], tuple[int, Any])
    assert_type(EventDataset([path], windows=[[(0, 2)]], shape=size, labels=["a"], transform=rows, representation=["mdes"])[0], tuple[list[int], Any])
    sequences = SequenceDataset(EventDataset(path, windows=2, shape=size), length=2, sampling="random")
    assert_type(len(sequences), int)
    if TYPE_CHECKING:
        for batch in sequences:
            assert_type(batch, SequenceBatch)
            sequences.load_state_dict(sequences.state_dict(batch))


def sequences(dsec: str, m3ed: str) -> None:
    assert_type(cusight.datasets.DSEC(dsec)[0], tuple[Tensor, F32])
    assert_type(cusight.datasets.DSEC(dsec, "images")[0], tuple[Tensor, U8])
    assert_type(cusight.datasets.DSEC(dsec, "flow", representation=["mdes"])[0], tuple[Any, F32])
    assert_type(cusight.datasets.DSEC(dsec, "images", transform=len)[0], tuple[Any, U8])
    assert_type(cusight.datasets.M3ED(m3ed)[0], tuple[Tensor, F32])
    assert_type(cusight.datasets.M3ED(m3ed, "left")[0], tuple[Tensor, U8])
    assert_type(cusight.datasets.M3ED(m3ed, "flow", representation=["mdes"])[0], tuple[Any, F32])
    assert_type(cusight.datasets.M3ED(m3ed, "left", transform=len)[0], tuple[Any, U8])


def others(image: U8) -> None:
    assert_type(cusight.device_count(), int)
    for device in range(cusight.device_count()):
        assert_type(cusight.device_info(device)["memory_total"], int)
        assert_type(cusight.device_info(device)["name"], str)
    assert_type(cusight.__version__, str)
    try:
        cusight.integral(np.zeros((0, 3), np.uint8))
    except cusight.Error as error:
        assert_type(error.status, cusight.Status)

    worker = cusight.ray.Heatmap(device="cpu")
    assert_type(worker({"prev": [image], "image": [image]}), dict[str, Any])
    assert_type(cusight.rvt.frame_times(np.array([200_000, 450_000]), "gen1"), tuple[NDArray[np.int64], NDArray[np.int64]])
    boxes = np.zeros(2, [("t", "<u8"), ("x", "<f4"), ("y", "<f4"), ("w", "<f4"), ("h", "<f4"), ("class_id", "u1")])
    assert_type(cusight.rvt.select_labels(boxes, cusight.rvt.DATASETS["gen1"], training=True), Hits)
