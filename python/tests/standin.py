"""A stand-in for PyTorch on the CPU: tensors over NumPy arrays that count who asks them, and by which way.

`install` puts it in the place of torch, for a process that does not have the real one.
"""

from __future__ import annotations

import ctypes as ct
import sys
import types
from typing import Any, Callable

import numpy as np

CPU, CUDA, METAL = 1, 2, 8


class View(ct.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ct.c_void_p),
        ("device_type", ct.c_int32),
        ("device_id", ct.c_int32),
        ("ndim", ct.c_int32),
        ("code", ct.c_uint8),
        ("bits", ct.c_uint8),
        ("lanes", ct.c_uint16),
        ("shape", ct.POINTER(ct.c_int64)),
        ("strides", ct.POINTER(ct.c_int64)),
        ("byte_offset", ct.c_uint64),
    ]


class Table(ct.Structure):
    """DLPackExchangeAPI."""


Table._fields_ = [
    ("major", ct.c_uint32),
    ("minor", ct.c_uint32),
    ("older", ct.POINTER(Table)),
    ("allocate", ct.c_void_p),
    ("managed_of", ct.c_void_p),
    ("array_of", ct.c_void_p),
    ("tensor_of", ct.c_void_p),
    ("current_stream", ct.c_void_p),
]

TensorOf = ct.PYFUNCTYPE(ct.c_int, ct.py_object, ct.POINTER(View))
CurrentStream = ct.PYFUNCTYPE(ct.c_int, ct.c_int32, ct.c_int32, ct.POINTER(ct.c_void_p))
_kept: list[Any] = []  # tables live as long as the process


def address(function: Any) -> int | None:
    _kept.append(function)
    return ct.cast(function, ct.c_void_p).value


# Fails with the exception of the tensor's __bool__: a callback of ctypes cannot raise one.
FAILING = address(ct.pythonapi.PyObject_IsTrue)


def table(tensor_of: int | None, current_stream: int | None, major: int = 1, minor: int = 3, older: Any = None) -> Table:
    made = Table(major, minor, ct.pointer(older) if older else None, None, None, None, tensor_of, current_stream)
    _kept.append(made)
    return made


def capsule(made: Table, name: bytes = b"dlpack_exchange_api") -> Any:
    new = ct.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ct.py_object, [ct.c_void_p, ct.c_char_p, ct.c_void_p]
    _kept.append(name)
    return new(ct.addressof(made), name, None)


class Tensor:
    """`views` counts calls of the table, `seen` those for one tensor, `asked` names the attributes that were read."""

    views = seen = 0
    asked: list[str] = []
    device = "cpu"
    change: Callable[[View], None] | None = None  # of what the table tells

    def __init__(self, array: Any) -> None:
        self.array = array
        self.extents = (ct.c_int64 * max(array.ndim, 1))(*array.shape)
        self.steps = (ct.c_int64 * max(array.ndim, 1))(*(s // array.itemsize for s in array.strides))

    def _asked(self, name: str, value: Any) -> Any:
        Tensor.asked.append(name)
        return value

    dtype = property(lambda self: self._asked("dtype", getattr(sys.modules["torch"], self.array.dtype.name)))
    shape = property(lambda self: self._asked("shape", self.array.shape))
    is_cuda = property(lambda self: self._asked("is_cuda", False))

    def get_device(self) -> int:
        return self._asked("get_device", -1)

    def stride(self) -> Any:
        return self._asked("stride", tuple(s // self.array.itemsize for s in self.array.strides))

    def data_ptr(self) -> int:
        return self._asked("data_ptr", self.array.ctypes.data)


@TensorOf
def tensor_of(tensor: Tensor, view: Any) -> int:
    Tensor.views += 1
    tensor.seen += 1
    array = tensor.array
    code = {"i": 0, "u": 1, "f": 2, "b": 6}[array.dtype.kind]
    view[0] = View(array.ctypes.data, CPU, 0, array.ndim, code, array.itemsize * 8, 1, tensor.extents, tensor.steps, 0)
    if tensor.change is not None:
        tensor.change(view[0])
    return 0


@CurrentStream
def current_stream(kind: int, device: int, stream: Any) -> int:
    stream[0] = None
    return 0


VIEWING, STREAM = address(tensor_of), address(current_stream)


def install() -> Any:
    torch = types.ModuleType("torch")
    torch.Tensor = Tensor  # type: ignore[attr-defined]
    for name in ("bool", "uint8", "int8", "uint16", "int16", "int32", "int64", "float32", "float64"):
        setattr(torch, name, f"torch.{name}")
    Tensor.__dlpack_c_exchange_api__ = capsule(table(VIEWING, STREAM))  # type: ignore[attr-defined]
    sys.modules["torch"] = torch
    return torch
