"""Types of arguments and results, for type checkers. At run time it counts what an object can do.

What a call returns follows its first array: of NumPy's the element type is known, a tensor gives a tensor, and of others (JAX, Numba,
memoryviews) only the call knows whether they are in host memory, which gives NumPy's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Mapping, Protocol, Sequence, SupportsIndex, Union

if TYPE_CHECKING:
    from array import array

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import TypeVar as TypeVar

    U8 = NDArray[np.uint8]
    I8 = NDArray[np.int8]
    U16 = NDArray[np.uint16]
    I32 = NDArray[np.int32]
    I64 = NDArray[np.int64]
    U32 = NDArray[np.uint32]
    U64 = NDArray[np.uint64]
    F32 = NDArray[np.float32]
    F64 = NDArray[np.float64]
    Numbers = NDArray[Any]

    class Nothing(np.generic):
        """No array has it. With a choice of types mypy does not take a parameter's for that of x.astype(...)."""

    Bytes = U8 | NDArray[np.bool_]  # bool counts as uint8
    Shorts = U16 | NDArray[Nothing]
    Picture = NDArray[np.integer[Any] | np.floating[Any]] | NDArray[np.bool_]  # all numbers: what OpenCV says of its arrays
    Elevation = U16 | F32
    Hits = NDArray[np.void]
else:
    import typing

    def TypeVar(name: str, **options: Any) -> Any:
        options.pop("default", None)  # Python 3.13 has it
        return typing.TypeVar(name, **options)


class TorchTensor(Protocol):
    def data_ptr(self) -> int: ...
    def get_device(self) -> int: ...


class CupyTensor(Protocol):
    def get(self) -> Any: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


Tensor = Union[TorchTensor, CupyTensor]
TensorT = TypeVar("TensorT", bound=Tensor)


class DLPackArray(Protocol):
    """JAX and others; not NumPy's arrays, which have no hash."""

    def __dlpack__(self) -> Any: ...
    def __hash__(self) -> int: ...


class CudaArray(Protocol):
    """Numba, PyNvVideoCodec and others."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


class HostBuffer(Protocol):
    """memoryview, ctypes and others; not NumPy's arrays."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __hash__(self) -> int: ...


Other = Union[DLPackArray, CudaArray, HostBuffer, bytearray, "array[Any]"]
ArrayLike = Union["NDArray[Any]", Tensor, Other]


class NumPyReadable(Protocol):
    """Columns of pandas, Polars and h5py."""

    def __array__(self) -> Any: ...


class Table(Protocol):
    """Columns with names: pandas, Polars, h5py's groups, .npz."""

    def __getitem__(self, name: str, /) -> Any: ...


class Store(Protocol):
    """dv_processing's events."""

    def numpy(self) -> Any: ...


HostColumn = Union["NDArray[Any]", NumPyReadable, Sequence[float]]
HostEvents = Union["NDArray[Any]", Sequence[HostColumn], Mapping[str, HostColumn], Table, Store]
Tensors = Union[TensorT, Sequence[TensorT], Mapping[str, TensorT]]
Column = Union[ArrayLike, NumPyReadable, Sequence[float]]
EventsLike = Union[ArrayLike, Sequence[Column], Mapping[str, Any], Table, Store]
Pairs = Union["NDArray[np.integer[Any]]", Sequence[Sequence[int]], Other]  # (n, 2)
Colors = Union[Sequence[int], "NDArray[np.integer[Any]]"]  # h, s, v
Labels = Union[Sequence[Any], ArrayLike]
Lists = Union[Column, Iterable[Column]]  # one column, or one for each of several files
Integer = SupportsIndex  # NumPy's too


class TorchDevice(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def index(self) -> int: ...


Device = Union[str, TorchDevice]


class CameraConfiguration(Protocol):
    """Those of neuromorphic_drivers: biases and so on."""

    def type(self) -> str: ...
    def serialize(self) -> bytes: ...


class TorchStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...


class CupyStream(Protocol):
    @property
    def ptr(self) -> int: ...


class CudaStream(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...


Stream = Union[int, TorchStream, CupyStream, CudaStream]
