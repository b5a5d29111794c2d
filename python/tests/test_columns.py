"""Events in the forms and types that other packages give: the same frames as from the library's own arrays, or an error that says what
was expected. The packages themselves are not needed: their types are made by hand."""

from __future__ import annotations

import itertools
import re

import cusight
import numpy as np
import pytest

SHAPE = (48, 64)
OPTIONS = {"windows": 700, "representation": ["histogram", "tencode", cusight.Representation("voxel_grid", 3)]}


class Column:
    """A column of a table, as pandas and Polars have them: only NumPy knows how to read it."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


class Frame:
    """A table with the names of its columns, as Polars."""

    def __init__(self, **columns):
        self.columns, self._columns = list(columns), columns

    def __getitem__(self, name):
        return Column(self._columns[name])


class Group:
    """A table with keys, as pandas, h5py and numpy.load have them."""

    def __init__(self, **columns):
        self._columns = columns

    def keys(self):
        return self._columns.keys()

    def __getitem__(self, name):
        return Column(self._columns[name])


class Store:
    """An object that gives an array of structures, as dv_processing.EventStore."""

    def __init__(self, array):
        self._array = array

    def numpy(self):
        return self._array


def structured(events, dtype, **names):
    """Events in an array of structures; names: of its fields, by those of the events."""
    array = np.zeros(len(events.t), dtype)
    for key in "xypt":
        array[names.get(key, key)] = getattr(events, key)
    return array


def signed(p):
    return np.where(p > 0, 1, -1)


def seconds(t):
    return t / 1e6


def table(events, order, dtype, p=lambda p: p, t=seconds):
    columns = {"x": events.x, "y": events.y, "p": p(events.p), "t": t(events.t)}
    return np.stack([columns[key] for key in order], 1).astype(dtype)


METAVISION = {"names": ["x", "y", "p", "t"], "formats": ["<u2", "<u2", "<i2", "<i8"], "offsets": [0, 2, 4, 8], "itemsize": 16}
METAVISION_ROS = {"names": ["x", "y", "p", "t"], "formats": ["<u2", "<u2", "i1", "<i4"], "offsets": [0, 2, 4, 8], "itemsize": 12}
TONIC = [("x", np.int16), ("y", np.int16), ("t", np.int64), ("p", bool)]
DV = [("timestamp", "<i8"), ("x", "<i2"), ("y", "<i2"), ("polarity", "i1")]
DV_PADDED = [*DV, ("_p1", "i1"), ("_p2", "<i2")]
AEDAT = [("t", "<u8"), ("x", "<u2"), ("y", "<u2"), ("on", "?")]
AERMANAGER = [("t", np.uint32), ("x", np.uint16), ("y", np.uint16), ("pol", np.uint8)]

# What stack_events takes besides the shape, made of the events.
FORMS = {
    "metavision": lambda e: [structured(e, METAVISION)],
    "metavision, packed": lambda e: [structured(e, [("x", "<u2"), ("y", "<u2"), ("p", "i1"), ("t", "<i8")])],
    "metavision, ROS": lambda e: [structured(e, METAVISION_ROS)],
    "metavision, fields": lambda e: [structured(e, METAVISION)[key] for key in "xypt"],
    "DSEC": lambda e: [e.x, e.y, e.p, e.t.astype(np.uint32)],
    "DSEC, dict": lambda e: [{"p": e.p, "x": e.x, "y": e.y, "t": e.t.astype(np.uint32)}],
    "tonic": lambda e: [structured(e, TONIC)],
    "tonic, int": lambda e: [structured(e, [(key, int) for key in "xytp"])],
    "tonic, int8": lambda e: [structured(e, [*TONIC[:3], ("p", np.int8)])],
    "dv": lambda e: [structured(e, DV, p="polarity", t="timestamp")],
    "dv, padded": lambda e: [structured(e, DV_PADDED, p="polarity", t="timestamp")],
    "dv, store": lambda e: [Store(structured(e, DV, p="polarity", t="timestamp"))],
    "aedat": lambda e: [structured(e, AEDAT, p="on")],
    "aermanager": lambda e: [structured(e, AERMANAGER, p="pol")],
    "expelliarmus": lambda e: [structured(e, [("t", np.int64), ("x", np.int16), ("y", np.int16), ("p", np.uint8)])],
    "evlib, arrays": lambda e: [e.x, e.y, signed(e.p).astype(np.int8), seconds(e.t)],
    "evlib, frame": lambda e: [
        Frame(x=e.x.astype(np.int16), y=e.y.astype(np.int16), t=e.t.astype("m8[us]"), polarity=signed(e.p).astype(np.int8))
    ],
    "Monash HDF5": lambda e: [Group(xs=e.x.astype(np.int16), ys=e.y.astype(np.int16), ts=seconds(e.t), ps=e.p.astype(bool))],
    "pandas": lambda e: [Group(x=e.x.astype(int), y=e.y.astype(int), timestamp=e.t.astype("M8[us]").astype("M8[ns]"), polarity=e.p.astype(int))],
    "E2VID": lambda e: [table(e, "txyp", np.float64), {"columns": "txyp"}],
    "v2e": lambda e: [table(e, "txyp", np.float32, signed), {"columns": "txyp"}],
    "N-Caltech": lambda e: [table(e, "xytp", np.float32, signed), {"columns": "xytp"}],
    "integers (n, 4)": lambda e: [table(e, "xypt", np.int64, t=lambda t: t), {"columns": "xypt"}],
    "integers (n, 4), Fortran": lambda e: [np.asfortranarray(table(e, "txyp", np.int32, signed, lambda t: t)), {"columns": "txyp"}],
    "tuple with names": lambda e: [e],
    "list of columns": lambda e: [list(e)],
    "tuple of columns": lambda e: [(seconds(e.t), e.p, e.y, e.x), {"columns": "tpyx"}],
    "lists of numbers": lambda e: [[column.tolist() for column in e]],
    "lists of floats": lambda e: [e.x.tolist(), e.y.tolist(), signed(e.p).tolist(), seconds(e.t).tolist()],
    "dict of lists": lambda e: [{"xs": e.x.tolist(), "ys": e.y.tolist(), "ps": (e.p > 0).tolist(), "ts": e.t.tolist()}],
    "every second": lambda e: [np.repeat(column, 2)[::2] for column in e],
    "backwards": lambda e: [column[::-1].copy()[::-1] for column in e],
    "memoryviews": lambda e: [memoryview(e.x.astype(np.int32)), memoryview(e.y), memoryview(e.p), memoryview(e.t)],
}


def given(made):
    """Arguments and options of a form."""
    return (made[:-1], made[-1]) if isinstance(made[-1], dict) and "columns" in made[-1] else (made, {})


def same(frames, others):
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(frames, others))


@pytest.fixture
def expected(events):
    return cusight.stack_events(*events, SHAPE, **OPTIONS)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_frames_of_the_native_arrays(events, expected, form):
    arguments, more = given(FORMS[form](events))
    assert same(cusight.stack_events(*arguments, SHAPE, **OPTIONS, **more), expected)
    with cusight.EventStacker(SHAPE, OPTIONS["representation"]) as stacker:
        assert same(stacker(*arguments, windows=OPTIONS["windows"], **more), expected)


@pytest.mark.parametrize("form", ["metavision", "tonic", "evlib, arrays", "v2e", "list of columns"])
def test_every_function_takes_them(events, expected, form, tmp_path):
    arguments, more = given(FORMS[form](events))
    batches = []
    with cusight.EventPipeline(SHAPE, sink=batches.append, **OPTIONS) as pipeline:
        pipeline.push(*arguments, **more)
        pipeline.flush()
    assert same([np.concatenate([b.frames[k] for b in batches]) for k in range(3)], expected)
    assert same(cusight.stack_events(*arguments, shape=SHAPE, **OPTIONS, **more), expected)
    with cusight.events.EventWriter(tmp_path / "run.h5", (70, 70)) as writer:
        writer.write(*arguments, **more)
    assert same(cusight.events.open(tmp_path / "run.h5").read(9000), events)


INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float32", "float64"]


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_every_type_of_each_column(events, expected, dtype):
    """In arrays without gaps, in fields of packed structures, and at addresses that are no multiple of the element."""

    def forms(values):
        yield values
        packed = np.zeros(len(values), [("other", "u1"), ("value", dtype)])
        packed["value"] = values
        yield packed["value"]
        shifted = np.zeros(values.nbytes + 1, np.uint8)[1:].view(dtype)
        shifted[:] = values
        yield shifted

    if dtype.endswith("int16"):  # times that fit
        events = cusight.events.Events(*(column[events.t < 32768] for column in events))
        expected = cusight.stack_events(*events, SHAPE, **OPTIONS)
    for column, name in enumerate("xypt"):
        values = events[column]
        if name == "t":
            values = values / 1e6 if dtype in FLOATS else values
        elif name == "p" and not dtype.startswith("u"):
            values = signed(values)
        if name == "t" and dtype.endswith("int8"):
            continue
        for form in forms(values.astype(dtype)):
            arguments = [*events]
            arguments[column] = form
            assert same(cusight.stack_events(*arguments, SHAPE, **OPTIONS), expected), name


def test_what_is_native_is_not_copied(events):
    """The library refuses frames that overlap events, which it sees only in arrays that were not converted."""
    x, y, p, t = events
    for column, other in enumerate([np.int16, np.int16, np.int8, np.uint64]):
        arrays = [x, y, p, t]
        shared = np.zeros(48 * 64 * 2 + 8 * len(t), np.uint8)
        out = shared[: 48 * 64 * 2].reshape(1, 48, 64, 2)
        arrays[column] = shared[: arrays[column].nbytes].view(arrays[column].dtype)
        with pytest.raises(ValueError, match=f"overlaps events' {'xypt'[column]}"):
            cusight.stack_events(*arrays, SHAPE, windows=len(t), out=out)
        arrays[column] = arrays[column].view(other)
        arrays[column][:] = 0
        cusight.stack_events(*arrays, SHAPE, windows=len(t), out=out)
    assert cusight.stack_events(x, y, p.astype(bool), t, SHAPE, windows=9000).shape[0] == 1  # bool is native too


@pytest.mark.parametrize("unit, per_second", [("us", 10**6), ("ms", 10**3), ("s", 1), ("ns", 10**9)])
def test_units_of_time(rng, unit, per_second):
    t = np.sort(rng.integers(-(10**12), 10**12, 9000))
    wanted = cusight.event_windows(t, windows="100s")
    in_units = t * (per_second / 1e6)
    assert np.array_equal(cusight.event_windows(in_units, windows="100s", time_unit=unit), wanted)
    whole = np.floor(in_units).astype(np.int64)
    us = whole * (10**6 // per_second) if unit != "ns" else (whole + 500) // 1000
    for kind in (np.int64, np.int32) if unit == "s" else (np.int64,):
        given_us = cusight.event_windows(whole.astype(kind), windows="100s", time_unit=unit)
        assert np.array_equal(given_us, cusight.event_windows(us, windows="100s"))


def test_times_are_rounded_to_microseconds(rng):
    """Not cut off: 0.000003 is 2.9999999999999997 us in floats."""
    t = np.arange(100_000, dtype=np.int64) * 997
    for make in (lambda t: t / 1e6, lambda t: t * 1e-6, lambda t: (t + 0.4) / 1e6, lambda t: (t - 0.4) / 1e6):
        assert np.array_equal(cusight._core.event_times("here", "t", make(t), 0), t)
        assert np.array_equal(cusight._core.event_times("here", "t", make(-t), 0), -t)
    unix = np.int64(1_764_000_000_123_456) + t
    assert np.array_equal(cusight._core.event_times("here", "t", unix / 1e6, 0), unix)  # floats of today still tell microseconds
    assert np.array_equal(cusight._core.event_times("here", "t", unix.astype("M8[us]"), 3), unix)
    large = np.array([-(2.0**63), 2.0**53 + 2, 2.0**62, -(2.0**52) - 1, 2.0**52 - 0.5])
    assert cusight._core.event_times("here", "t", large[1:], 1).tolist() == [2**53 + 2, 2**62, -(2**52) - 1, 2**52]
    assert cusight._core.event_times("here", "t", np.array([-1500, -1499, 499, 500, 2**63 - 1]), 4).tolist() == [-1, -1, 0, 1, 9223372036854776]


def test_many_events_are_converted_in_pieces(rng):
    n = 5_000_000  # more than are converted at once
    x, y = (rng.integers(0, 64, n, dtype=np.uint16) for _ in range(2))
    p, t = rng.integers(0, 2, n, dtype=np.uint8), np.arange(n)
    wanted = cusight.stack_events(x, y, p, t, (64, 64), windows=n)
    made = np.zeros(n, TONIC)
    made["x"], made["y"], made["t"], made["p"] = x, y, t, p
    assert np.array_equal(cusight.stack_events(made, (64, 64), windows=n), wanted)
    for place in (0, 4095, 4096, n // 2, n - 1):
        made["y"][place] = -7
        made["x"][min(place + 3, n - 1)] = -9  # the first is named
        words = "stack_events: x" if place == n - 1 else "stack_events: y"
        with pytest.raises(ValueError, match=re.escape(f"{words}[{place}] is -")):
            cusight.stack_events(made, (64, 64), windows=n)
        made["x"][min(place + 3, n - 1)] = made["y"][place] = 0


def test_no_events():
    none = np.zeros(0, METAVISION)
    assert cusight.stack_events(none, SHAPE).shape == (0, 48, 64, 2)
    assert cusight.stack_events([[], [], [], []], SHAPE, windows="1ms").shape == (0, 48, 64, 2)
    assert cusight.stack_events(np.zeros((0, 4)), SHAPE, columns="txyp").shape == (0, 48, 64, 2)


def test_tensors_of_pytorch(events, expected):
    torch = pytest.importorskip("torch")
    for kind in (torch.int16, torch.int64, torch.float32):
        x, y = (torch.from_numpy(a.astype(np.int64)).to(kind) for a in events[:2])
        frames = cusight.stack_events(x, y, torch.from_numpy(events.p), torch.from_numpy(events.t), SHAPE, **OPTIONS)
        assert isinstance(frames[0], torch.Tensor) and same([f.numpy() for f in frames], expected)
    whole = torch.from_numpy(table(events, "txyp", np.float64))
    frames = cusight.stack_events(whole, SHAPE, columns="txyp", **OPTIONS)
    assert same([f.numpy() for f in frames], expected)


def test_arrays_on_the_gpu_are_not_converted(gpu, events):
    arrays = [gpu.put(a) for a in events]
    with pytest.raises(TypeError, match="x has type int32, expected uint16 without gaps: arrays on the GPU are not converted"):
        cusight.stack_events(gpu.put(events.x.astype(np.int32)), *arrays[1:], SHAPE)
    with pytest.raises(ValueError, match="t has type int64 and gaps, expected int64 without gaps"):
        cusight.stack_events(*arrays[:3], gpu.put(np.repeat(events.t, 2))[::2], SHAPE)
    with pytest.raises(TypeError, match="expected int64 without gaps in microseconds"):
        cusight.stack_events(*arrays, SHAPE, time_unit="ms")


# ---- What is refused -------------------------------------------------------------------------------------------------------

X, Y, P, T = np.array([3, 4]), np.array([5, 6]), np.array([0, 1]), np.array([1, 2])


def stack(*arguments, **options):
    return cusight.stack_events(*arguments, SHAPE, windows=1, **options)


WRONG = [
    # call, exception, part of the message
    (lambda: stack(np.array([3, -1]), Y, P, T), ValueError, "stack_events: x[1] is -1, expected a whole number from 0 to 65535"),
    (lambda: stack(np.array([3, -1], np.int8), Y, P, T), ValueError, "x[1] is -1"),
    (lambda: stack(np.array([3, -1], np.int16), Y, P, T), ValueError, "x[1] is -1"),
    (lambda: stack(np.array([65536, 3]), Y, P, T), ValueError, "x[0] is 65536, expected a whole number from 0 to 65535"),
    (lambda: stack(X, np.array([65536, 3], np.uint32), P, T), ValueError, "y[0] is 65536"),
    (lambda: stack(X, np.array([3, 2**64 - 1], np.uint64), P, T), ValueError, "y[1] is 18446744073709551615"),
    (lambda: stack(X, np.array([3, 2**33 + 3]), P, T), ValueError, "y[1] is 8589934595"),
    (lambda: stack(np.array([3, 1.5]), Y, P, T), ValueError, "x[1] is 1.5, expected a whole number"),
    (lambda: stack(np.array([3, np.nan]), Y, P, T), ValueError, "x[1] is nan"),
    (lambda: stack(np.array([np.inf, 3], np.float32), Y, P, T), ValueError, "x[0] is inf"),
    (lambda: stack(np.array([-0.5, 3]), Y, P, T), ValueError, "x[0] is -0.5"),
    (lambda: stack(X, Y, np.array([0, 2]), T), ValueError, "p[1] is 2, expected -1, 0 or 1 (are the columns in another order?)"),
    (lambda: stack(X, Y, np.array([0, -2], np.int8), T), ValueError, "p[1] is -2"),
    (lambda: stack(X, Y, np.array([2**64 - 1, 0], np.uint64), T), ValueError, "p[0] is 18446744073709551615"),
    (lambda: stack(X, Y, np.array([0.5, 1]), T), ValueError, "p[0] is 0.5"),
    (lambda: stack(X, Y, np.array([1, np.nan]), T), ValueError, "p[1] is nan"),
    (lambda: stack(X, Y, P, np.array([0, np.nan])), ValueError, "t[1] is nan, expected seconds that are a 64-bit number of microseconds"),
    (lambda: stack(X, Y, P, np.array([0, np.inf], np.float32)), ValueError, "t[1] is inf"),
    (lambda: stack(X, Y, P, np.array([0, 1e13])), ValueError, "t[1] is 1e+13, expected seconds"),
    (lambda: stack(X, Y, P, np.array([0, 2**63], np.uint64)), ValueError, "t[1] is 9223372036854775808, expected microseconds"),
    (lambda: stack(X, Y, P, np.array([0, 2**62]), time_unit="ms"), ValueError, "t[1] is 4611686018427387904, expected milliseconds"),
    (lambda: stack(X, Y, P, np.array(["2020-01-01", "NaT"], "M8[s]")), ValueError, "t[1] is NaT, expected a time"),
    (lambda: stack(X, Y, P, T, time_unit="minutes"), ValueError, "time_unit is 'minutes', expected us, ms, s or ns"),
    (lambda: stack(X, Y[:1], P, T), ValueError, "y has 1 elements, expected 2 like x"),
    (lambda: stack(X, Y, P, [1, 2, 3]), ValueError, "t has 3 elements, expected 2 like x"),
    (lambda: stack(X, Y, P[:, None], T), ValueError, "p has shape (2, 1), expected one axis"),
    (lambda: stack(np.float64(3), Y, P, T), ValueError, "x has shape (), expected one axis"),
    (lambda: stack([[1, 2], [3, 4]], Y, P, T), ValueError, "x has shape (2, 2), expected one axis"),
    (lambda: stack(["a", "b"], Y, P, T), TypeError, "x has elements of format"),
    (lambda: stack([None, 1], Y, P, T), TypeError, "x has elements of format 'O'"),
    (lambda: stack(X.astype("complex64"), Y, P, T), TypeError, "x has elements of format 'Zf', expected integers or floats"),
    (lambda: stack(X.astype(">i4"), Y, P, T), TypeError, "native byte order"),
    (lambda: stack(X, Y, P, X.astype("m8[s]").astype(object)), TypeError, "t has elements of format 'O'"),
    (lambda: stack(X, Y, None, T), TypeError, "p is None, expected an array"),
    (lambda: stack(X, 5, P, T), TypeError, "y is int, expected an array"),
    (lambda: stack(X, Y, P, T, columns="xypt"), ValueError, "columns is 'xypt', expected None with four arrays"),
    # events in one
    (lambda: stack(np.zeros((5, 4))), ValueError, "columns is None, expected the order of the columns of an array of shape (n, 4), such as 'txyp'"),
    (lambda: stack(np.zeros((5, 4)), columns="xyzt"), ValueError, "columns is 'xyzt', expected the letters x, y, p and t"),
    (lambda: stack(np.zeros((5, 4)), columns="xyt"), ValueError, "columns is 'xyt'"),
    (lambda: stack(np.zeros((5, 4)), columns=4), ValueError, "columns is 4"),
    (lambda: stack(np.zeros((4, 5)), columns="xypt"), ValueError, "events is an array of shape (4, 5), expected shape (n, 4)"),
    (lambda: stack(X), ValueError, "events is an array of shape (2,), expected shape (n, 4), or fields with names"),
    (lambda: stack([X, Y, T]), ValueError, "events is a list of 3, expected four columns, such as [x, y, p, t]"),
    (lambda: stack((X, Y, T, P)), ValueError, "p[1] is 2, expected -1, 0 or 1 (are the columns in another order?)"),
    (lambda: stack({"x": X, "y": Y, "p": P}), ValueError, "events is columns 'x', 'y', 'p', expected columns x, y, p (or polarity"),
    (lambda: stack(np.zeros(3, [("x", int), ("y", int), ("time_us", int), ("p", int)])), ValueError, "'time_us', 'p', expected columns"),
    (lambda: stack(np.zeros(3, METAVISION), columns="xypt"), ValueError, "expected None: events has columns with names, 'x', 'y', 'p', 't'"),
    (lambda: stack(5), TypeError, "events is 5, expected an array, or columns x, y, p"),
    (lambda: stack(None), TypeError, "events is None, expected an array, or columns x, y, p"),
    (lambda: stack("run.h5"), TypeError, "events is 'run.h5', expected events"),
    (lambda: cusight.stack_events(X, Y, P, T), TypeError, "stack_events: shape is None, expected (rows, cols)"),
    (lambda: cusight.EventStacker(SHAPE)([X, Y]), ValueError, "EventStacker: events is a list of 2"),
    (lambda: cusight.EventStacker(SHAPE)(-X, Y, P, T), ValueError, "EventStacker: x[0] is -3"),
    (lambda: cusight.EventPipeline(SHAPE, "mdes", print).push([X, Y]), ValueError, "EventPipeline.push: events is a list of 2"),
    (lambda: cusight.EventPipeline(SHAPE, "mdes", print).push(X, Y, 3 * P, T), ValueError, "EventPipeline.push: p[1] is 3"),
    (lambda: cusight.event_windows(np.array([0, np.nan]), windows="1s"), ValueError, "event_windows: t[1] is nan, expected seconds"),
    (lambda: cusight.event_windows([5000, 6000, 4000], windows="10ms"), ValueError, "t decreases by 1000 us from the first event to the last"),
    (lambda: cusight.stack_events(X, Y, P, [6, 4], SHAPE, windows="1us"), ValueError, "t decreases by 2 us"),
]


@pytest.mark.parametrize("call, kind, words", WRONG, ids=[w[2].replace(" ", "-")[:50] for w in WRONG])
def test_what_is_wrong_is_named(call, kind, words):
    with pytest.raises(cusight.Error) as caught:
        call()
    assert isinstance(caught.value, kind) and words in str(caught.value), str(caught.value)


def test_orders_of_columns(events, expected):
    for order in itertools.permutations("xypt"):
        name = "".join(order)
        columns = [getattr(events, key).astype(np.int64) for key in order]
        assert same(cusight.stack_events(columns, SHAPE, columns=name, **OPTIONS), expected)
        assert same(cusight.stack_events(np.stack(columns, 1), SHAPE, columns=name, **OPTIONS), expected)
