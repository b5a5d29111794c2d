"""Arrays whose type has DLPack's table of C functions (PyTorch from 2.10): it is used, only if it can be, and tells the same."""

from __future__ import annotations

import functools
import gc
import subprocess
import sys
import types
import weakref

import cusight
import numpy as np
import pytest

import standin
from standin import CUDA, FAILING, METAL, STREAM, VIEWING, Tensor, capsule, table

IMAGE = np.arange(600, dtype=np.uint8).reshape(20, 30)
TESTS = {}


def alone(test):
    """Runs a test in a process of its own, in which the stand-in is the only PyTorch."""
    TESTS[test.__name__] = test

    @functools.wraps(test)
    def run():
        ended = subprocess.run([sys.executable, __file__, test.__name__], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr

    return run


def views(call):
    """How often the table was asked by a call that read no attribute, and what the call returned."""
    before = Tensor.views
    Tensor.asked.clear()
    returned = call()
    assert Tensor.asked == []
    return Tensor.views - before, returned


def kind_with(made):
    """A type of tensors with its own table."""
    return type("Kind", (Tensor,), {"__dlpack_c_exchange_api__": made})


@alone
def test_the_table_is_all_that_is_asked():
    table, image = Tensor(np.zeros((21, 31), np.int32)), Tensor(IMAGE)
    assert views(lambda: cusight.integral(image, out=table)) == (2, table)
    assert np.array_equal(table.array, cusight.integral(IMAGE))
    n = 100
    x, y = (np.arange(n, dtype=np.uint16) % k for k in (30, 20))
    p, t = np.arange(n) % 2 == 1, np.arange(n, dtype=np.int64)  # a bool is a byte
    out = Tensor(np.zeros((4, 20, 30, 2), np.uint8))
    assert views(lambda: cusight.stack_events(*map(Tensor, (x, y, p, t)), (20, 30), windows=25, out=out)) == (5, out)
    assert np.array_equal(out.array, cusight.stack_events(x, y, p, t, (20, 30), windows=25))


@alone
def test_events_of_other_types():
    """Tensors are converted as NumPy's arrays are, with their strides."""
    n = 100
    x, y = (np.arange(n, dtype=np.int64) % k for k in (30, 20))
    p, t = np.arange(n) % 2, np.arange(n, dtype=np.int64)
    expected = cusight.stack_events(x, y, p, t, (20, 30), windows=25)
    whole = np.stack([x, y, 2 * p - 1, t], 1)
    for columns in ([x, y.astype(np.int16), p.astype(np.int8), t.astype(np.int32)], whole.T, whole.astype(np.int8).T):
        out = Tensor(np.zeros((4, 20, 30, 2), np.uint8))
        assert views(lambda: cusight.stack_events(*map(Tensor, columns), (20, 30), windows=25, out=out)) == (5, out)
        assert np.array_equal(out.array, expected)
    with pytest.raises(ValueError, match=r"x\[3\] is -1"):
        cusight.stack_events(*map(Tensor, [np.where(t == 3, -1, x), y, p, t]), (20, 30), out=out)


@alone
def test_layouts():
    def check(array, change=None):
        tensor, out = Tensor(array), Tensor(np.zeros((21, 31), np.int32))
        tensor.change = change
        assert views(lambda: cusight.integral(tensor, out=out))[0] == 2
        assert np.array_equal(out.array, cusight.integral(IMAGE))

    wide = np.zeros((20, 50), np.uint8)
    wide[:, 7:37] = IMAGE
    check(wide[:, 7:37])

    def row_major(view):
        view.strides = None

    def offset(view):
        view.data -= 300
        view.byte_offset = 300

    check(IMAGE, row_major)
    check(IMAGE, offset)
    for array, words in [
        (IMAGE[:, ::2], "without gaps"),
        (IMAGE[::-1], r"strides \(-30, 1\)"),
        (IMAGE[:0], r"shape \(0, 30\)"),
        (IMAGE.astype(np.int64), "int64"),
        (IMAGE.reshape((20, 30) + (1,) * 7), "src has 9 axes, expected at most 8"),
    ]:
        with pytest.raises(cusight.Error, match=words):
            views(lambda: cusight.integral(Tensor(array)))


@alone
def test_tables_that_cannot_be_used():
    """The attributes are asked instead."""
    good = table(VIEWING, STREAM)
    for made in (
        None,
        5,
        capsule(good, b"dltensor"),
        capsule(table(VIEWING, STREAM, major=0)),
        capsule(table(VIEWING, STREAM, major=2)),
        capsule(table(VIEWING, STREAM, major=3, older=table(VIEWING, STREAM, major=2))),
        capsule(table(None, STREAM)),
        capsule(table(VIEWING, None)),
    ):
        image = kind_with(made)(IMAGE)
        Tensor.asked.clear()
        out = np.zeros((21, 31), np.int32)
        cusight.integral(image, out=Tensor(out))
        assert np.array_equal(out, cusight.integral(IMAGE)), made
        assert "data_ptr" in Tensor.asked and image.seen == 0

    class Raising(type(Tensor)):
        @property
        def __dlpack_c_exchange_api__(cls):
            raise ValueError("not now")

    image = Raising("Kind", (Tensor,), {})(IMAGE)
    cusight.integral(image, out=Tensor(np.zeros((21, 31), np.int32)))
    assert "data_ptr" in Tensor.asked
    for made in (table(VIEWING, STREAM, minor=9), table(VIEWING, STREAM, major=3, older=table(None, None, major=2, older=good))):
        image = kind_with(capsule(made))(IMAGE)
        views(lambda image=image: cusight.integral(image, out=Tensor(np.zeros((21, 31), np.int32))))
        assert image.seen == 1


@alone
def test_what_the_table_cannot_tell():
    out = Tensor(np.zeros((21, 31), np.int32))

    def metal(view):
        view.device_type = METAL

    def lanes(view):
        view.lanes = 2

    def bfloat(view):
        view.code, view.bits = 4, 16

    def no_memory(view):
        view.data = None

    for change in (metal, lanes, bfloat, no_memory):
        image = Tensor(IMAGE)
        image.change = change
        Tensor.asked.clear()
        assert cusight.integral(image, out=out) is out and "data_ptr" in Tensor.asked

    def on_gpu(view):
        view.device_type, view.device_id = CUDA, 3

    gpu, heat = (Tensor(np.zeros((20, 30, 3), np.uint8)) for _ in range(2))
    gpu.change = heat.change = on_gpu
    with pytest.raises(ValueError, match="cur is on cuda:3, expected cpu like prev") as caught:
        views(lambda: cusight.heatmap(Tensor(np.zeros((20, 30, 3), np.uint8)), gpu))
    assert caught.value.status is cusight.Status.SPACE
    if not cusight.device_count():
        with pytest.raises(RuntimeError) as caught:
            views(lambda: cusight.heatmap(gpu, gpu, out=heat))
        assert caught.value.status is cusight.Status.NO_CUDA


@alone
def test_a_table_that_fails():
    class Failing(Tensor):
        __dlpack_c_exchange_api__ = capsule(table(FAILING, STREAM))

        def __bool__(self):
            raise RuntimeError("no")

    image, out = Failing(IMAGE), Tensor(np.zeros((21, 31), np.int32))
    Tensor.asked.clear()
    cusight.integral(image, out=out)
    assert np.array_equal(out.array, cusight.integral(IMAGE)) and "data_ptr" in Tensor.asked
    Failing.__bool__ = lambda self: True  # fails, and raises nothing
    assert cusight.integral(image, out=out) is out
    class Interrupted(Failing):
        def __bool__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cusight.integral(Interrupted(IMAGE), out=out)

    class Bare(Failing):
        def __bool__(self):
            raise BufferError("no")

        def get_device(self):
            raise LookupError("nor so")

    with pytest.raises(LookupError, match="nor so"):
        cusight.integral(Bare(IMAGE), out=out)


@alone
def test_ten_thousand_calls_leave_nothing():
    from test_limits import flat

    image, out = Tensor(IMAGE), Tensor(np.zeros((21, 31), np.int32))
    x, y, p, t = (Tensor(np.zeros(10, kind)) for kind in (np.uint16, np.uint16, np.uint8, np.int64))
    frames = Tensor(np.zeros((1, 8, 8, 2), np.uint8))
    watched = [Tensor, image, out, x, y, p, t, frames]

    def work():
        cusight.integral(image, out=out)
        cusight.stack_events(x, y, p, t, (8, 8), windows=10, out=frames)

    flat(work, watched)

    def fail():
        try:
            cusight.stack_events(x, y, p, image, (8, 8), windows=10, out=frames)
        except cusight.Error:
            pass

    flat(fail, watched)


@alone
def test_types_that_come_and_go():
    """Few types are remembered; a new one at the address of a dead one is not taken for it."""
    out = Tensor(np.zeros((21, 31), np.int32))
    dead = []
    for turn in range(200):
        made = capsule(table(VIEWING, STREAM)) if turn % 2 else None
        image = kind_with(made)(IMAGE)
        cusight.integral(image, out=out)
        assert image.seen == turn % 2
        dead.append(weakref.ref(type(image)))
        del image
        gc.collect()
    assert sum(reference() is not None for reference in dead) <= 8


@alone
def test_arrays_of_cupy():
    """By the attributes that make no object of a device."""

    class Memory:
        ptr, device_id = 16, 3

    class Array:
        data, shape, strides, dtype = Memory(), (20, 30, 3), (90, 3, 1), np.dtype(np.uint8)

    cupy = types.ModuleType("cupy")
    cupy.ndarray = Array
    sys.modules["cupy"] = cupy
    host = np.zeros((20, 30, 3), np.uint8)
    with pytest.raises(ValueError, match="cur is on cuda:3, expected cpu like prev"):
        cusight.heatmap(host, Array())
    for name in ("complex64", "datetime64[s]"):
        Array.dtype = np.dtype(name)
        with pytest.raises(TypeError, match="cur has type .*, expected integers or floats of 8 to 64 bits"):
            cusight.heatmap(host, Array())
    for name in ("bool", "longlong", "float64", "float16"):  # the second is a dtype of its own beside int64
        Array.dtype = np.dtype(name)
        with pytest.raises(ValueError, match="cur is on cuda:3"):
            cusight.heatmap(host, Array())


def test_pytorch_has_a_table():
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("PyTorch before 2.10")

    class Silent(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            raise AssertionError(f"{function} was called")

    image, out = torch.from_numpy(IMAGE.copy()), torch.zeros((21, 31), dtype=torch.int32)
    silent = out.as_subclass(Silent)
    assert cusight.integral(image.as_subclass(Silent), out=silent) is silent
    assert np.array_equal(out.numpy(), cusight.integral(IMAGE))


if __name__ == "__main__":
    standin.install()
    TESTS[sys.argv[1]]()
