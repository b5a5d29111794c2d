"""Types of arguments, for type checkers. At run time it counts what an object can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Mapping, Protocol, Sequence, TypeVar, Union

if TYPE_CHECKING:
    from typing_extensions import Buffer


class DLPackArray(Protocol):
    """PyTorch, NumPy, CuPy, JAX and others."""

    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> Any: ...


class CudaArray(Protocol):
    """Numba, PyNvVideoCodec and others."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


ArrayLike = Union[DLPackArray, CudaArray, "Buffer"]
Array = TypeVar("Array", bound=ArrayLike)  # of the framework that results come in


class NumPyReadable(Protocol):
    """Columns of pandas, Polars and h5py."""

    def __array__(self) -> Any: ...


class Table(Protocol):
    """Columns with names: pandas, Polars, h5py's groups, .npz."""

    def __getitem__(self, name: str, /) -> Any: ...


class Store(Protocol):
    """dv_processing's events."""

    def numpy(self) -> Any: ...


Column = Union[ArrayLike, NumPyReadable, Sequence[float]]
EventsLike = Union[ArrayLike, Sequence[Column], Mapping[str, Any], Table, Store]
Labels = Union[Sequence[Any], ArrayLike]
Lists = Union[Column, Iterable[Column]]  # one column, or one for each of several files


class TorchDevice(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def index(self) -> int: ...


Device = Union[str, TorchDevice]


class TorchStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...


class CupyStream(Protocol):
    @property
    def ptr(self) -> int: ...


class CudaStream(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...


Stream = Union[int, TorchStream, CupyStream, CudaStream]
