"""Vision algorithms for the GPU, and the same on the CPU: integral images, template matching, frame differences, stereo maps and
frames from event cameras.

Arrays of NumPy, PyTorch, CuPy and every object with __dlpack__, __cuda_array_interface__ or the buffer protocol go in; results come
out in the framework and on the device of the first one. Nothing is copied between CPU and GPU. On the GPU, work is queued in the
framework's current stream, or in `stream=`.
"""

from __future__ import annotations

from ._core import device_count, device_info
from ._core import version as _version
from ._errors import Error, Status
from ._integral import Integrator, box_sums, integral
from ._match import Matcher, match_dtype, match_template

__version__ = _version()

__all__ = [
    "Error",
    "Integrator",
    "Matcher",
    "Status",
    "box_sums",
    "device_count",
    "device_info",
    "integral",
    "match_dtype",
    "match_template",
]
