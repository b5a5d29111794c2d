"""What the module asks of PyTorch and CuPy, if the user has imported them. Nothing here runs before an array of theirs is seen."""

from __future__ import annotations

import sys
from typing import Any, Callable


def stream_pointer(stream: Any) -> int:
    """The cudaStream_t of an int, a PyTorch stream, a CuPy stream or an object with __cuda_stream__; None is the default stream."""
    if stream is None:
        return 0
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    for attribute in ("cuda_stream", "ptr"):  # PyTorch, CuPy
        value = getattr(stream, attribute, None)
        if isinstance(value, int):
            return value
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise TypeError(f"stream is {stream!r}, expected an int, a torch.cuda.Stream, a cupy.cuda.Stream or None")


def torch_stream_function() -> Callable[[int], int]:
    torch = sys.modules["torch"]
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # without making a Stream object
    if raw is not None:
        return raw  # type: ignore[no-any-return]
    return lambda device: int(torch.cuda.current_stream(device).cuda_stream)


def torch_other_stream(tensor: Any, stream: int) -> None:
    torch = sys.modules["torch"]
    if not tensor.is_cuda:
        return
    other = torch.cuda.ExternalStream(stream, device=tensor.device)
    other.wait_stream(torch.cuda.current_stream(tensor.device))
    tensor.record_stream(other)  # so that its memory is not reused before the work is done


def cupy_other_stream(array: Any, stream: int) -> None:
    cuda = sys.modules["cupy"].cuda
    cuda.ExternalStream(stream, array.device.id).wait_event(cuda.get_current_stream().record())


_torch_kinds: dict[tuple[str, int], dict[str, Any]] = {}


def torch_empty(shape: tuple[int, ...], dtype: str, device: int) -> Any:
    torch = sys.modules["torch"]
    kind = _torch_kinds.get((dtype, device))
    if kind is None:
        place = torch.device("cpu") if device < 0 else torch.device("cuda", device)
        kind = _torch_kinds[dtype, device] = {"dtype": getattr(torch, dtype), "device": place}
    return torch.empty(shape, **kind)


def cupy_empty(shape: tuple[int, ...], dtype: str, device: int) -> Any:
    cupy = sys.modules["cupy"]
    if cupy.cuda.runtime.getDevice() == device:
        return cupy.empty(shape, dtype)
    with cupy.cuda.Device(device):
        return cupy.empty(shape, dtype)


def torch_from_numpy(array: Any) -> Any:
    return sys.modules["torch"].from_numpy(array)


class DeviceArray:
    """Device memory of the library, for frameworks that read __cuda_array_interface__ (Numba, JAX, CuPy, PyTorch)."""

    def __init__(
        self, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, owner: object, stream: int
    ) -> None:
        import numpy

        self.shape, self.strides, self.dtype, self._owner = shape, strides, dtype, owner
        self.__cuda_array_interface__ = {
            "shape": shape,
            "strides": strides,
            "typestr": numpy.dtype(dtype).str,
            "data": (pointer, False),
            "version": 3,
            "stream": stream if stream else 1,
        }

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype!r})"


def device_view(
    pointer: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    owner: object,
    framework: str,
    device: int,
    stream: int,
) -> Any:
    """An array of the framework that views device memory of the library and keeps `owner` alive."""
    view = DeviceArray(pointer, shape, strides, dtype, owner, stream)
    if framework == "torch":
        return sys.modules["torch"].as_tensor(view, device=f"cuda:{device}")
    if framework == "cupy":
        return sys.modules["cupy"].asarray(view)
    return view


def framework_of(device: str, framework: str | None) -> str:
    """The framework in which new arrays are made when there is no input to follow."""
    if framework is not None:
        if framework not in ("numpy", "torch", "cupy"):
            raise ValueError(f"framework is {framework!r}, expected numpy, torch or cupy")
        if framework not in sys.modules and framework != "numpy":
            __import__(framework)
        return framework
    if device == "cpu":
        return "numpy"
    for name in ("torch", "cupy"):
        if name in sys.modules:
            return name
    return "other"
