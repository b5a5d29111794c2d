"""Programs that mypy and pyright must refuse. A comment names what each of them says of a line; it is never run."""

from __future__ import annotations

from typing import Any

import cusight
import cusight.torch
import numpy as np
import torch
from numpy.typing import NDArray

U8 = NDArray[np.uint8]


def arrays(image: U8, tensor: torch.Tensor, complex_image: NDArray[np.complex64], words: NDArray[np.str_]) -> None:
    cusight.integral([[1, 2], [3, 4]])  # call-overload, reportArgumentType reportCallIssue
    cusight.integral(None)  # call-overload, reportArgumentType reportCallIssue
    cusight.integral(complex_image)  # arg-type, reportArgumentType reportCallIssue
    cusight.heatmap(words, words)  # arg-type, reportArgumentType reportCallIssue
    cusight.integral(image, sum_depth="int16")  # call-overload, reportArgumentType reportCallIssue
    cusight.integral(image, out="table")  # call-overload, reportArgumentType reportCallIssue
    cusight.integral(image, square=True)  # call-overload, reportCallIssue
    table: U8 = cusight.integral(image)  # assignment, reportAssignmentType
    scores: U8 = cusight.match_template(image, image)  # assignment, reportAssignmentType
    heights: U8 = cusight.stereo_elevation(image, image)  # assignment, reportAssignmentType
    back: U8 = cusight.integral(tensor)  # assignment, reportAssignmentType
    pair: NDArray[np.int32] = cusight.integral(image, sqsum=True)  # assignment, reportAssignmentType
    cusight.box_sums(image, np.array([[0, 0, 1, 1]], np.int32))  # arg-type, reportArgumentType reportCallIssue
    cusight.hsv_count(image, "red", (9, 9, 9))  # arg-type, reportArgumentType reportCallIssue
    cusight.hsv_count(image, (0, 0, 0), (9, 9, 9))[1]  # index, reportIndexIssue
    print(table, scores, heights, back, pair)


def objects(image: U8) -> None:
    matcher = cusight.Matcher(image, image.shape)
    matcher(image).x  # attr-defined, reportAttributeAccessIssue reportUnknownMemberType
    hits: list[NDArray[np.void]] = matcher(image)  # assignment, reportAssignmentType
    matcher.run(image).shape  # attr-defined, reportAttributeAccessIssue reportUnknownMemberType
    cusight.Matcher([image, image], image.shape)(image)["x"]  # call-overload, reportArgumentType reportCallIssue
    cusight.Matcher(image, image.shape, method="sum")  # call-overload, reportArgumentType reportCallIssue
    cusight.Matcher(image)  # call-overload, reportCallIssue
    cusight.PoseMatcher(image, image.shape, angles="all")  # arg-type, reportArgumentType
    cusight.StereoOptions(border="mirror")  # arg-type, reportArgumentType
    cusight.DiffEncoder((20, 30)).encode(image).positions().astype(np.uint8).x  # attr-defined, reportAttributeAccessIssue reportUnknownMemberType
    cusight.MotionDetector((20, 30))(image).boxes[0].color  # attr-defined, reportAttributeAccessIssue reportUnknownMemberType
    cusight.MotionDetector((20, 30))([image, None]).boxes  # attr-defined, reportAttributeAccessIssue reportUnknownMemberType
    cusight.ContourMapper((20, 30))(image, image).elevation  # attr-defined, reportAttributeAccessIssue reportUnknownMemberType
    cusight.device_info(0)["memory"]  # typeddict-item, reportGeneralTypeIssues
    print(hits)


def events(recording: cusight.events.Recording, x: NDArray[np.uint16]) -> None:
    cusight.stack_events(x, x, x, x)  # call-overload, reportCallIssue
    cusight.stack_events(recording.read(), (48, 64), representation="grid")  # arg-type type-var, reportArgumentType reportCallIssue
    cusight.stack_events(recording.read(), (48, 64), windows=1.5)  # call-overload, reportArgumentType reportCallIssue
    frames: NDArray[np.float32] = cusight.stack_events(recording.read(), (48, 64))  # assignment, reportAssignmentType
    for batch in recording.frames(representation="voxel_grid"):
        image: U8 = batch  # assignment, reportAssignmentType
        print(image)
    recording.frames(representation="voxel_grid", kind=3)  # call-overload, reportCallIssue
    recording.seek("1s")  # arg-type, reportArgumentType
    recording.format = 3  # assignment, reportAttributeAccessIssue
    cusight.Representation("voxel_grid", depth="int32")  # arg-type, reportArgumentType
    cusight.Windowing(unit="seconds")  # arg-type, reportArgumentType
    cusight.EventPipeline((48, 64), "histogram", print, size=3)  # call-overload, reportCallIssue
    cusight.events.open("run.h5", format="MP4")  # arg-type, reportArgumentType
    cusight.events.EventWriter("run.h5")  # call-arg, reportCallIssue
    kept: int = cusight.torch.EventDataset("run.h5")[0]  # assignment, reportAssignmentType
    pair: torch.Tensor = cusight.torch.EventDataset("run.h5", labels=[1])[0]  # assignment, reportAssignmentType
    print(frames, kept, pair)


def generator(video: U8, any_value: Any) -> None:
    cusight.events.EventGenerator((20, 30)).run(video, None)  # call-overload, reportArgumentType reportCallIssue
    cusight.events.EventGenerator((20, 30), shot_rate="5")  # arg-type, reportArgumentType
    cusight.integral(any_value, stream="default")  # call-overload, reportArgumentType reportCallIssue
