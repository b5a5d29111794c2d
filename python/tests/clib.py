"""The C library through ctypes, for comparison: the same functions on the same arrays, without the package."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np

_DEPTHS = ["uint8", "int8", "uint16", "int16", "int32", "float32", "float64"]


_RESERVED = ("reserved", ct.c_uint64 * 8)  # at the end of structs that may grow


class Mat(ct.Structure):
    _fields_ = [
        ("rows", ct.c_int),
        ("cols", ct.c_int),
        ("type", ct.c_int),
        ("space", ct.c_int),
        ("step", ct.c_size_t),
        ("data", ct.c_void_p),
        ("owned", ct.c_void_p),
        ("pinned", ct.c_int),
    ]


class Events(ct.Structure):
    _fields_ = [
        ("x", ct.c_void_p),
        ("y", ct.c_void_p),
        ("p", ct.c_void_p),
        ("t", ct.c_void_p),
        ("count", ct.c_size_t),
        ("space", ct.c_int),
    ]


class Windowing(ct.Structure):
    _fields_ = [("unit", ct.c_int), ("length", ct.c_uint64), ("stride", ct.c_uint64), ("keep", ct.c_int), _RESERVED]


class Representation(ct.Structure):
    _fields_ = [
        ("kind", ct.c_int),
        ("channels", ct.c_int),
        ("depth", ct.c_int),
        ("swap", ct.c_int),
        ("cutoff", ct.c_int),
        ("normalize", ct.c_int),
        ("tau", ct.c_double),
        ("surface", ct.c_int),
        ("window_times", ct.c_int),
        ("lower", ct.c_int),
        ("upper", ct.c_int),
        ("clip_each_event", ct.c_int),
        ("scale", ct.c_double),
        ("clip", ct.c_double),
        ("map", ct.c_void_p),
        _RESERVED,
    ]


class Range(ct.Structure):
    _fields_ = [("lower", ct.c_uint8 * 3), ("upper", ct.c_uint8 * 3)]


class YuvOptions(ct.Structure):
    _fields_ = [(name, ct.c_int) for name in ("matrix", "siting", "full_range", "low_bits")] + [("reserved", ct.c_uint64 * 8)]


class StereoOptions(ct.Structure):
    _fields_ = [
        (name, ct.c_float if name in ("threshold", "tolerance") else ct.c_int)
        for name in (
            "border agreement threshold shifts direction window prefer_smaller left_right_check fill iterations tolerance median "
            "lines levels subpixel_bits min_confidence speckle_size aggregation paths p1 p2 p2_slope"
        ).split()
    ] + [("reserved", ct.c_uint64 * 6)]


def wrap(array: np.ndarray[Any, Any]) -> Mat:
    channels = array.shape[2] if array.ndim == 3 else 1
    kind = _DEPTHS.index(array.dtype.name) + ((channels - 1) << 3)
    return Mat(array.shape[0], array.shape[1], kind, 0, array.strides[0], array.ctypes.data, None, 0)


class Library:
    def __init__(self, path: str) -> None:
        self.lib = ct.CDLL(path)
        self.lib.cusLastError.restype = ct.c_char_p
        self.lib.cusWindowingDefaults.restype = Windowing
        self.lib.cusRepresentationDefaults.restype = Representation
        self.lib.cusStereoDefaults.restype = StereoOptions
        self.lib.cusStereoClassic.restype = StereoOptions
        self.lib.cusStereoBest.restype = StereoOptions

    def call(self, name: str, *arguments: Any) -> None:
        """Arrays are passed as matrices, both they and structures by address."""
        passed = []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                argument = wrap(argument)
            passed.append(ct.byref(argument) if isinstance(argument, ct.Structure) else argument)
        assert getattr(self.lib, name)(*passed) == 0, self.lib.cusLastError()

    def stack(self, events: Any, shape: tuple[int, int], kind: int, windows: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> None:
        stacker = ct.c_void_p()
        one = self.lib.cusRepresentationDefaults(kind)
        self.call("cusEventStackerCreate", ct.byref(stacker), shape[0], shape[1], 0, one, 1)
        arrays = Events(*(a.ctypes.data for a in events), len(events[0]), 0)
        flat = out.reshape(out.shape[0] * out.shape[1], *out.shape[2:])
        pointer = windows.ctypes.data_as(ct.c_void_p)
        self.call("cusEventStack", stacker, arrays, pointer, ct.c_size_t(len(windows)), flat, None)
        self.lib.cusEventStackerDestroy(stacker)
