"""Vision algorithms for the GPU, and the same on the CPU: integral images, template matching, frame differences, stereo maps and
frames from event cameras.

Arrays of NumPy, PyTorch, CuPy and every object with __dlpack__, __cuda_array_interface__ or the buffer protocol go in; results come
out in the framework and on the device of the first one. Nothing is copied between CPU and GPU. On the GPU, work is queued in the
framework's current stream, or in `stream=`.
"""

from __future__ import annotations

import os

from . import _core, _cuda, events
from ._core import version as _version
from ._cuda import device_count, device_info
from ._errors import Error, Status
from ._events import (
    EventStacker,
    Representation,
    Windowing,
    event_windows,
    release_workspace,
    stack_events,
)
from ._framediff import DiffDecoder, DiffEncoder, SparseDiff
from ._images import heatmap, hsv_count, noise_view, remap, yuv_to_bgr, yuv_to_gray
from ._integral import Integrator, box_sums, integral
from ._match import Matcher, match_dtype, match_template
from ._motion import Motion, MotionBox, MotionDetector, MotionTrack
from ._pipeline import EventPipeline, FrameBatch, PipelineCounts
from ._pose import PoseMatcher, pose_dtype
from ._progress import progress
from ._stereo import (
    ContourMapper,
    StereoOptions,
    stereo_census,
    stereo_contours,
    stereo_edges,
    stereo_elevation,
    stereo_elevation_confidence,
    stereo_fill,
    stereo_filter_speckles,
    stereo_find_shifts,
    stereo_median,
    stereo_picture,
)

__version__ = _version()

# A forked process (a DataLoader's worker) computes on one core, since GNU's OpenMP does not survive a fork otherwise.
os.register_at_fork(after_in_child=_core.after_fork)

_cuda.warn_of_unused_gpu()


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


__all__ = [
    "ContourMapper",
    "DiffDecoder",
    "DiffEncoder",
    "Error",
    "EventPipeline",
    "EventStacker",
    "FrameBatch",
    "Integrator",
    "Matcher",
    "Motion",
    "MotionBox",
    "MotionDetector",
    "MotionTrack",
    "PipelineCounts",
    "PoseMatcher",
    "Representation",
    "SparseDiff",
    "Status",
    "StereoOptions",
    "Windowing",
    "box_sums",
    "device_count",
    "device_info",
    "event_windows",
    "events",
    "heatmap",
    "hsv_count",
    "integral",
    "match_dtype",
    "match_template",
    "noise_view",
    "pose_dtype",
    "progress",
    "release_workspace",
    "remap",
    "stack_events",
    "stereo_census",
    "stereo_contours",
    "stereo_edges",
    "stereo_elevation",
    "stereo_elevation_confidence",
    "stereo_fill",
    "stereo_filter_speckles",
    "stereo_find_shifts",
    "stereo_median",
    "stereo_picture",
    "yuv_to_bgr",
    "yuv_to_gray",
]
