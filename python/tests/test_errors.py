"""Bad input gives an exception with a sentence, never a crash."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading

import cusight
import numpy as np
import pytest

batch = cusight.DiffEncoder.encode_batch
IMAGE = np.zeros((20, 30), np.uint8)
COLOR = np.zeros((20, 30, 3), np.uint8)


class OnGpu:
    """Claims to be an array on a GPU; no call may read its memory."""

    def __init__(self, shape, typestr="|u1", strides=None):
        self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "data": (16, False), "version": 3, "strides": strides}


def odd(**fields):
    """An array on a GPU with other fields; ... means without one."""
    array = OnGpu((20, 30))
    array.__cuda_array_interface__.update(fields)
    array.__cuda_array_interface__ = {name: value for name, value in array.__cuda_array_interface__.items() if value is not ...}
    return array


ODD_FIELDS = [
    {name: value}
    for name, values in {
        "typestr": [..., None, 4, b"<f4"],
        "shape": [..., None, 20, "ab", [20, 30], (20.5, 30), (2**64, 1), (None, 1)],
        "strides": [30, "ab", (30.0, 1), (2**63, 1)],
        "data": [..., None, 16, (), (16,), ("a", False), (-1, False), (2**64, False), (None, False)],
        "stream": ["1", 1.5, -1, 2**64],
        "mask": [IMAGE],
    }.items()
    for value in values
]


class Dlpack:
    """A producer of DLPack tensors; `device` is what it claims."""

    def __init__(self, array, device=None, first=False):
        self.array, self.device, self.first, self.asked = array, device, first, []

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()

    def __dlpack__(self, **arguments):
        self.asked.append(arguments)
        if self.first and "max_version" in arguments:
            raise TypeError("unexpected keyword max_version")
        return self.array.__dlpack__(**arguments)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


CASES = [
    # call, exception, status, part of the message
    (lambda: cusight.integral(None), TypeError, "TYPE", "src is None, expected an array"),
    (lambda: cusight.integral("text"), TypeError, "TYPE", "src is str"),
    (lambda: cusight.integral([[1, 2]]), TypeError, "TYPE", "src is list"),
    (lambda: cusight.integral(IMAGE.astype(np.int16)), TypeError, "TYPE", "src has type 16SC1, expected 8UC1, 8UC2, 8UC3"),
    (lambda: cusight.integral(IMAGE.astype(np.float16)), TypeError, "TYPE", "src has type 16FC1, expected 8UC1"),
    (lambda: cusight.integral(IMAGE.astype(">f4")), TypeError, "TYPE", "native byte order"),
    (lambda: cusight.integral(IMAGE.astype(object)), TypeError, "TYPE", "format 'O'"),
    (lambda: cusight.integral(IMAGE.astype(np.int64)), TypeError, "TYPE", "int64"),
    (lambda: cusight.integral(np.zeros((2, 2), "datetime64[s]")), TypeError, "TYPE", "expected an array"),
    (lambda: cusight.integral(np.zeros((2, 2, 5), np.uint8)), TypeError, "TYPE", "src has type 8UC5"),
    (lambda: cusight.integral(np.zeros((2, 2, 513), np.uint8)), ValueError, "SIZE", "at most 512 channels"),
    (lambda: cusight.integral(np.zeros((2, 2, 2, 2), np.uint8)), ValueError, "SIZE", "(rows, columns)"),
    (lambda: cusight.integral(np.zeros(5, np.uint8)), ValueError, "SIZE", "shape (5,)"),
    (lambda: cusight.integral(np.uint8(3)), ValueError, "SIZE", "shape ()"),
    (lambda: cusight.integral(np.zeros((0, 5), np.uint8)), ValueError, "SIZE", "shape (0, 5)"),
    (lambda: cusight.integral(IMAGE[::-1]), ValueError, "SIZE", "strides (-30, 1)"),
    (lambda: cusight.integral(IMAGE[:, ::-1]), ValueError, "SIZE", "pixels without gaps"),
    (lambda: cusight.integral(IMAGE[:, ::2]), ValueError, "SIZE", "make it contiguous"),
    (lambda: cusight.integral(np.broadcast_to(IMAGE[0], (20, 30))), ValueError, "SIZE", "rows at least 30 bytes apart"),
    (lambda: cusight.heatmap(COLOR[..., ::-1], COLOR), ValueError, "SIZE", "pixels without gaps"),
    (lambda: cusight.integral(IMAGE, out=read_only(np.zeros((21, 31), np.int32))), ValueError, "VALUE", "sum is read-only"),
    (lambda: cusight.integral(IMAGE, out=np.zeros((20, 31), np.int32)), ValueError, "SIZE", "expected (21, 31)"),
    (lambda: cusight.integral(IMAGE, out=np.zeros((21, 31))), TypeError, "TYPE", "sum has type float64, expected int32"),
    (lambda: cusight.integral(IMAGE, range=1), ValueError, "VALUE", "range is 1, expected 0 without reproducible"),
    (lambda: cusight.integral(IMAGE, reproducible=True, range=-1), ValueError, "VALUE", "range is -1, expected 0 or a float above 0"),
    (lambda: cusight.integral(IMAGE, reproducible=True, range="1"), TypeError, "TYPE", "range is '1', expected a number"),
    (lambda: cusight.integral(IMAGE, sum_depth="int64"), ValueError, "VALUE", "expected int32 or float64"),
    (lambda: cusight.heatmap(COLOR, IMAGE), TypeError, "TYPE", "cusHeatmap"),
    (lambda: cusight.heatmap(COLOR, COLOR[:10]), ValueError, "SIZE", "cusHeatmap"),
    (lambda: cusight.integral(IMAGE.reshape((20, 30) + (1,) * 7)), ValueError, "SIZE", "src has 9 axes, expected at most 8"),
    (lambda: cusight.integral(OnGpu((20, 30), strides=(1,))), ValueError, "SIZE", "src has 1 strides, expected 2"),
    (lambda: cusight.heatmap(COLOR, COLOR, out=COLOR), ValueError, "ALIAS", "overlap"),
    (lambda: cusight.heatmap(COLOR, COLOR, full_scale=0), ValueError, "VALUE", "full_scale is 0"),
    (lambda: cusight.noise_view(COLOR, COLOR, threshold=-1), ValueError, "VALUE", "threshold is -1"),
    (lambda: cusight.hsv_count(COLOR, (0, 0), (1, 1, 1)), ValueError, "VALUE", "three numbers"),
    (lambda: cusight.hsv_count(COLOR, (180, 0, 0), (1, 1, 1)), ValueError, "VALUE", "180"),
    (lambda: cusight.Matcher(IMAGE, (10, 10)), ValueError, "SIZE", "cusMatcherCreate"),
    (lambda: cusight.Matcher([], (10, 10)), ValueError, "VALUE", "at least one"),
    (lambda: cusight.Matcher(IMAGE, (40, 40), method="best"), ValueError, "VALUE", "method is 'best'"),
    (lambda: cusight.Matcher(IMAGE, (40, 40), max_matches=0), ValueError, "VALUE", "max_matches"),
    (lambda: cusight.Matcher(IMAGE, (40, 40), mask=IMAGE), ValueError, "VALUE", "mask"),
    (lambda: cusight.Matcher(IMAGE, (40, 40))(COLOR), TypeError, "TYPE", "cusMatcherRun"),
    (lambda: cusight.PoseMatcher(COLOR, (40, 40)), TypeError, "TYPE", "cusPoseMatcherCreate: templ has type 8UC3"),
    (lambda: cusight.PoseMatcher(IMAGE, (40,)), ValueError, "VALUE", "PoseMatcher: shape is (40,), expected (rows, cols)"),
    (lambda: cusight.PoseMatcher(IMAGE, (40, 40), method="ccorr"), ValueError, "VALUE", "method is 'ccorr', expected sqdiff, sqdiff-normed"),
    (lambda: cusight.PoseMatcher(IMAGE, (40, 40), angles=[0, 400]), ValueError, "VALUE", "angles.list[1] is 400"),
    (lambda: cusight.PoseMatcher(IMAGE, (40, 40), angles=[]), ValueError, "VALUE", "PoseMatcher: angles is [], expected a number or several"),
    (lambda: cusight.PoseMatcher(IMAGE, (40, 40), scales="1"), TypeError, "TYPE", "scales is '1', expected a number or several"),
    (lambda: cusight.PoseMatcher(IMAGE, (40, 40), mask=IMAGE[1:]), ValueError, "SIZE", "mask is 19 x 30"),
    (lambda: cusight.PoseMatcher(IMAGE, (40, 40))(IMAGE), ValueError, "SIZE", "cusPoseMatcherRun: frame is 20 x 30"),
    (lambda: cusight.PoseMatcher(IMAGE, (40, 40)).template(0, 1), ValueError, "VALUE", "scale_index is 1, expected 0..0"),
    (lambda: cusight.DiffEncoder((20,)), ValueError, "VALUE", "(rows, cols)"),
    (lambda: cusight.DiffEncoder((20, 30), threshold=256), ValueError, "VALUE", "threshold is 256"),
    (lambda: cusight.DiffEncoder((20, 30)).encode(COLOR), TypeError, "TYPE", "cusDiffEncode"),
    (lambda: cusight.SparseDiff.from_arrays(np.zeros(3), np.zeros(3, np.uint8), (4, 4)), TypeError, "TYPE", "float64, expected uint32"),
    (lambda: cusight.SparseDiff.from_arrays(np.zeros(3, np.uint32), np.zeros(2, np.uint8), (4, 4)), ValueError, "SIZE", "same number"),
    (
        lambda: cusight.DiffDecoder((4, 4)).decode(cusight.SparseDiff.from_arrays(np.array([99], np.uint32), np.zeros(1, np.uint8), (4, 4))),
        ValueError,
        "VALUE",
        "99",
    ),
    (lambda: cusight.stereo_edges(IMAGE, cusight.StereoOptions(border="none")), ValueError, "VALUE", "border is 'none'"),
    (lambda: cusight.stereo_edges(np.full((3, 3), np.nan, np.float32)), ValueError, "VALUE", "image contains NaN"),
    (lambda: cusight.stereo_elevation(IMAGE, IMAGE, cusight.StereoOptions(window=4)), ValueError, "VALUE", "window is 4"),
    (lambda: cusight.ContourMapper((20, 30), dtype="int8"), ValueError, "VALUE", "dtype is 'int8'"),
    (lambda: cusight.box_sums(np.zeros((3, 3)), np.zeros((2, 3), np.int32)), ValueError, "SIZE", "boxes has shape (2, 3), expected (n, 4)"),
    # host and device
    (lambda: cusight.PoseMatcher(IMAGE, (40, 40))(OnGpu((40, 40))), ValueError, "SPACE", "frame is on cuda, expected cpu like the template"),
    (lambda: cusight.integral(IMAGE, out=OnGpu((21, 31), "<i4")), ValueError, "SPACE", "sum is on cuda, expected cpu like src"),
    (lambda: cusight.heatmap(COLOR, OnGpu((20, 30, 3))), ValueError, "SPACE", "cur is on cuda, expected cpu like prev"),
    (lambda: cusight.Matcher(IMAGE, (40, 40))(OnGpu((40, 40))), ValueError, "SPACE", "frame is on cuda, expected cpu like the templates"),
    (lambda: cusight.integral(Dlpack(IMAGE, (4, 0))), ValueError, "SPACE", "DLPack type 4"),
    (lambda: cusight.Integrator((9, 9), device="gpu"), ValueError, "VALUE", "expected cpu, cuda or cuda:N"),
    (lambda: cusight.Integrator((9, 9), device="cuda:1x"), ValueError, "VALUE", "cuda:1x"),
    # None, other kinds of object and numbers that do not fit, where a shape, a device, a number or a file is meant
    (lambda: cusight.Integrator(None), TypeError, "TYPE", "Integrator: max_shape is None, expected (rows, cols)"),
    (lambda: cusight.Integrator((9,)), ValueError, "VALUE", "max_shape is (9,)"),
    (lambda: cusight.Integrator((2**40, 9)), ValueError, "VALUE", "max_shape is 1099511627776, expected at most 2147483647"),
    (lambda: cusight.Integrator((9, 9), device=None), TypeError, "TYPE", "device is None, expected cpu, cuda or cuda:N"),
    (lambda: cusight.integral(IMAGE, sqsum=True, out=IMAGE), TypeError, "TYPE", "out is ndarray, expected a pair of arrays"),
    (lambda: cusight.integral(IMAGE, out="here"), TypeError, "TYPE", "sum is str, expected an array"),
    (lambda: cusight.heatmap(COLOR, None), TypeError, "TYPE", "cur is None, expected an array"),
    (lambda: cusight.heatmap(COLOR, COLOR, full_scale=2**40), ValueError, "VALUE", "full_scale is 1099511627776"),
    (lambda: cusight.heatmap(COLOR, COLOR, full_scale=7.5), TypeError, "TYPE", "full_scale is 7.5, expected an integer"),
    (lambda: cusight.noise_view(COLOR, COLOR, threshold="low"), TypeError, "TYPE", "threshold is 'low', expected an integer"),
    (lambda: cusight.hsv_count(COLOR, None, (1, 1, 1)), TypeError, "TYPE", "lower is None, expected three numbers"),
    (lambda: cusight.hsv_count(COLOR, "abc", (1, 1, 1)), TypeError, "TYPE", "lower is 'abc', expected three numbers"),
    (lambda: cusight.Matcher(IMAGE, None), TypeError, "TYPE", "Matcher: shape is None, expected (rows, cols)"),
    (lambda: cusight.Matcher(IMAGE, (40, 40), max_matches=2**40), ValueError, "VALUE", "max_matches is 1099511627776"),
    (lambda: cusight.Matcher([IMAGE, None], (40, 40)), TypeError, "TYPE", "templates is None, expected an array"),
    (lambda: cusight.DiffEncoder(None), TypeError, "TYPE", "DiffEncoder: shape is None"),
    (lambda: cusight.DiffEncoder((4.5, 4)), TypeError, "TYPE", "shape is 4.5, expected an integer"),
    (lambda: batch([cusight.DiffEncoder((20, 30))], [IMAGE, IMAGE]), ValueError, "SIZE", "frames has 2 images, expected 1 like encoders"),
    (lambda: batch([cusight.DiffEncoder((20, 30))] * 2, [IMAGE, IMAGE]), ValueError, "VALUE", "encoders is a list with one of them twice"),
    (lambda: batch([IMAGE], [IMAGE]), TypeError, "TYPE", "expected a list of DiffEncoder"),
    (lambda: batch([cusight.DiffEncoder((20, 30))], [IMAGE], []), ValueError, "VALUE", "diffs is a list of 0, expected 1 like encoders"),
    (lambda: batch([cusight.DiffEncoder(s) for s in ((20, 30), (20, 31))], [IMAGE] * 2), ValueError, "SIZE", "encoder[1] is 20 x 31"),
    (lambda: cusight.DiffEncoder((20, 30)).encode(IMAGE, IMAGE), TypeError, "TYPE", "diff is ndarray, expected a SparseDiff"),
    (lambda: cusight.DiffDecoder((20, 30)).decode(None), TypeError, "TYPE", "diff is None, expected a SparseDiff"),
    (lambda: cusight.SparseDiff((20, 30), capacity=-1), ValueError, "VALUE", "capacity is -1, expected at least 0"),
    (lambda: cusight.ContourMapper(None), TypeError, "TYPE", "ContourMapper: shape is None"),
    (lambda: cusight.stereo_median(IMAGE.astype(np.uint16), "5"), TypeError, "TYPE", "size is '5', expected an integer"),
    (lambda: cusight.EventStacker(None), TypeError, "TYPE", "EventStacker: shape is None"),
    (lambda: cusight.EventPipeline((4, 4), "histogram", None), TypeError, "TYPE", "sink is None, expected a function"),
    (lambda: cusight.EventPipeline((4, 4), "histogram", print, max_events=-1), ValueError, "VALUE", "max_events is -1"),
    (lambda: cusight.events.open(None), TypeError, "TYPE", "source is None, expected a path"),
    (lambda: cusight.events.open(b"x", width="wide"), TypeError, "TYPE", "width is 'wide', expected an integer"),
    (lambda: cusight.events.open(b"x", max_memory=-1), ValueError, "VALUE", "max_memory is -1"),
    (lambda: cusight.events.open(b"1 2 3 1\n", shape=(9, 9)).frames(device=[]), ValueError, "VALUE", "device is [], expected cpu, or one or more"),
    (lambda: cusight.events.open(b"1 2 3 1\n", shape=(9, 9)).frames(device=["cpu", "cuda"]), ValueError, "VALUE", "expected cpu, or one or more of cuda"),
    (lambda: cusight.events.open(b"x", camera=3), TypeError, "TYPE", "camera is 3, expected left or right"),
    (lambda: cusight.events.EventGenerator((20, 30)).push(IMAGE, "now"), TypeError, "TYPE", "time is 'now'"),
    (lambda: cusight.events.EventGenerator((20, 30)).run(IMAGE, np.zeros(1, int)), ValueError, "VALUE", "expected uint8 of (1..4096, 20, 30)"),
    (lambda: cusight.events.EventGenerator((20, 30)).run(IMAGE[None], np.arange(2)), ValueError, "VALUE", "times has 2 elements, expected 1"),
    (lambda: cusight.events.EventGenerator((20, 30), shot_rate=-1), ValueError, "VALUE", "shot_rate is -1, expected 0..1000"),
    (lambda: cusight.events.EventGenerator((20, 30), seed=-1), ValueError, "VALUE", "seed is -1, expected at least 0"),
]


@pytest.mark.parametrize("fields", ODD_FIELDS, ids=str)
def test_odd_cuda_array_interfaces(fields):
    with pytest.raises(TypeError, match=f"integral: src has a __cuda_array_interface__ with an invalid {next(iter(fields))}, expected") as caught:
        cusight.integral(odd(**fields))
    assert caught.value.status is cusight.Status.TYPE


def test_other_cuda_array_interfaces():
    array = OnGpu((20, 30))
    for typestr in ("", "<", "<f", "<f16", "<f99999999999", "<f4x", "<x4", ">f4"):
        with pytest.raises(TypeError, match="expected integers or floats of 8 to 64 bits"):
            cusight.integral(OnGpu((20, 30), typestr))
    with pytest.raises(ValueError, match="expected 1 to 2147483647 on each axis"):
        cusight.integral(OnGpu((2**62, 2**62, 2**62)[:2]))
    for interface in (None, 3, [1]):
        array.__cuda_array_interface__ = interface
        with pytest.raises(TypeError, match="src has a __cuda_array_interface__ of type .*, expected a dict"):
            cusight.integral(array)


@pytest.mark.parametrize("call, kind, status, words", CASES, ids=[c[3].replace(" ", "-")[:40] for c in CASES])
def test_bad_arguments(call, kind, status, words):
    with pytest.raises(cusight.Error) as caught:
        call()
    assert isinstance(caught.value, kind)
    assert caught.value.status is cusight.Status[status]
    assert words in str(caught.value)


def test_bad_events(events):
    stack = lambda *a, **k: cusight.stack_events(*a, (48, 64), **k)  # noqa: E731
    x, y, p, t = events
    for call, words in [
        (lambda: stack(x.astype(np.float16), y, p, t), "x has type float16, expected integers or floats of 32 or 64 bits"),
        (lambda: stack(x, y[:-1], p, t), "y has 4999 elements, expected 5000 like x"),
        (lambda: stack(x, y, 2 * p.astype(np.int8), t), "is 2, expected -1, 0 or 1"),
        (lambda: stack(x[::2], y, p, t), "y has 5000 elements, expected 2500 like x"),
        (lambda: stack(x, y, p, t.reshape(-1, 1)), "t has shape (5000, 1), expected one axis"),
        (lambda: stack(x, y, p, OnGpu((5000,), "<i8")), "t is on cuda, expected cpu like x"),
        (lambda: stack(x, y, p, t, windows="10 parsecs"), "windows is '10 parsecs'"),
        (lambda: stack(x, y, p, t, windows=0), "windows is 0"),
        (lambda: stack(x, y, p, t, windows=True), "windows is True"),
        (lambda: stack(x, y, p, t, windows=np.array([[0, 9000]])), "9000"),
        (lambda: stack(x, y, p, t, windows=np.array([[-1, 2]])), "windows[0] is -1, 2"),
        (lambda: stack(x, y, p, t, representation="hologram"), "kind is 'hologram', expected histogram"),
        (lambda: stack(x, y, p, None, windows="1ms"), "t"),
        (lambda: stack(x, y, p, t, representation="mdes", bins=17), "channels are 17, expected 1..16"),
        (lambda: cusight.stack_events(x, y, p, t, (48, 64, 2)), "shape is (48, 64, 2)"),
        (lambda: stack(x, y, p, t, windows=1000, out=np.zeros((4, 48, 64, 2), np.uint8)), "expected (5, 48, 64, 2)"),
    ]:
        with pytest.raises((cusight.Error, TypeError)) as caught:
            call()
        assert words in str(caught.value)


def test_empty_events():
    none = [np.zeros(0, d) for d in (np.uint16, np.uint16, np.uint8, np.int64)]
    assert cusight.stack_events(*none, (8, 9)).shape == (0, 8, 9, 2)
    assert cusight.stack_events(*none, (8, 9), windows=np.array([[0, 0]])).shape == (1, 8, 9, 2)


def test_wrong_python_types():
    with pytest.raises(TypeError):
        cusight.integral(IMAGE, "float64")  # options are keyword-only
    with pytest.raises(TypeError):
        cusight.stereo_edges(IMAGE, {"border": "wrap"})
    with pytest.raises(TypeError):
        cusight.DiffDecoder((4, 4)).decode(IMAGE)
    with pytest.raises(TypeError):
        cusight.heatmap(COLOR, COLOR, full_scale="red")
    with pytest.raises(TypeError):
        cusight.match_template(None, IMAGE)


def test_without_a_gpu_device_arrays_are_an_error():
    if cusight.device_count():
        pytest.skip("there is a GPU")
    for call in (
        lambda: cusight.integral(OnGpu((20, 30))),
        lambda: cusight.DiffEncoder((4, 4), device="cuda"),
        lambda: cusight.EventStacker((4, 4), device="cuda:0"),
    ):
        with pytest.raises(RuntimeError) as caught:
            call()
        assert caught.value.status is cusight.Status.NO_CUDA
        assert cusight._core.cuda_built_for() or "CUSIGHT_CUDA=ON pip install ." in str(caught.value)


def test_closed_objects(events):
    objects = [
        (cusight.Integrator((20, 30)), lambda o: o(IMAGE)),
        (cusight.Matcher(IMAGE[:4, :4], (20, 30)), lambda o: o(IMAGE)),
        (cusight.PoseMatcher(IMAGE[:4, :4], (20, 30)), lambda o: o(IMAGE)),
        (cusight.DiffEncoder((20, 30)), lambda o: o.encode(IMAGE)),
        (cusight.DiffDecoder((20, 30)), lambda o: o.frame()),
        (cusight.SparseDiff((20, 30)), lambda o: o.count()),
        (cusight.ContourMapper((20, 30)), lambda o: o(IMAGE, IMAGE)),
        (cusight.EventStacker((20, 30)), lambda o: o(*events)),
        (cusight.EventPipeline((20, 30), "histogram", print), lambda o: o.push(*events)),
        (cusight.events.EventGenerator((20, 30)), lambda o: o.push(IMAGE, 0)),
    ]
    for thing, use in objects:
        with thing as same:
            assert same is thing and not thing.closed
        assert thing.closed
        thing.close()
        with pytest.raises(ValueError, match=f"{type(thing).__name__} is closed"):
            use(thing)


def test_views_outlive_their_object():
    with cusight.DiffDecoder((20, 30)) as decoder:
        decoder.reset(np.full((20, 30), 7, np.uint8))
        frame = decoder.frame()
    with cusight.Matcher(IMAGE[:4, :4], (20, 30), method="sqdiff") as matcher:
        matcher(IMAGE)
        raw = matcher.results()
    for _ in range(50):
        np.ones((20, 30), np.uint8)
        cusight.DiffDecoder((20, 30)).close()
    assert (frame == 7).all() and raw.view(cusight.match_dtype())["score"][0, 0] == 0


def test_inputs_may_die_during_a_call():
    """The object keeps what it needs; results do not depend on the arrays that made them."""
    matcher = cusight.Matcher(np.arange(64, dtype=np.uint8).reshape(8, 8).copy(), (64, 64))
    table = cusight.integral(np.full((300, 300), 3, np.uint8))
    for _ in range(20):
        np.full((300, 300), 255, np.uint8)
    assert table[-1, -1] == 270000
    frame = np.zeros((64, 64), np.uint8)
    frame[9:17, 5:13] = np.arange(64).reshape(8, 8)
    assert (matcher(frame)[0]["x"], matcher(frame)[0]["y"]) == (5, 9)


def test_dlpack_producers():
    image = np.arange(600, dtype=np.uint8).reshape(20, 30)
    for producer in (Dlpack(image), Dlpack(image, first=True)):
        assert np.array_equal(cusight.integral(producer), cusight.integral(image))
        assert "stream" not in producer.asked[0]
    frozen = Dlpack(read_only(np.zeros((21, 31), np.int32)))
    with pytest.raises(ValueError, match="read-only"):
        cusight.integral(image, out=frozen)


def test_other_buffers():
    raw = bytearray(range(200))
    view = memoryview(raw).cast("B", (10, 20))
    expected = cusight.integral(np.frombuffer(raw, np.uint8).reshape(10, 20))
    assert np.array_equal(cusight.integral(view), expected)
    assert np.array_equal(cusight.match_template(view, view, "sqdiff"), np.zeros((1, 1)))
    flags = np.eye(9, dtype=bool)
    assert cusight.integral(flags)[-1, -1] == 9


def test_one_object_in_two_threads():
    """The second of two calls at once is refused, or it waited for the interpreter; never a crash or a wrong result."""
    image = np.random.default_rng(0).integers(0, 256, (300, 300), dtype=np.uint8)
    expected = cusight.integral(image)
    integrator = cusight.Integrator((300, 300))
    outcomes = []

    def work():
        for _ in range(150):
            try:
                outcomes.append(np.array_equal(integrator(image), expected))
            except ValueError as error:
                assert "in use by another call" in str(error)
                outcomes.append(None)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 450 and False not in outcomes and True in outcomes


def test_functions_in_many_threads():
    image = np.random.default_rng(0).integers(0, 256, (100, 100), dtype=np.uint8)
    expected = cusight.integral(image)
    wrong = []

    def work():
        for _ in range(100):
            if not np.array_equal(cusight.integral(image), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_options_pickle():
    for thing in (
        cusight.StereoOptions(shifts=9),
        cusight.StereoOptions.classic(),
        cusight.Windowing(7, unit="duration"),
        cusight.Representation("mdes", 4),
    ):
        thing._options()
        assert pickle.loads(pickle.dumps(thing)) == thing
    diff = cusight.DiffEncoder((4, 5)).encode(np.full((4, 5), 90, np.uint8))
    copy = pickle.loads(pickle.dumps(diff))
    assert np.array_equal(copy.positions(), diff.positions()) and np.array_equal(copy.values(), diff.values())
    with pytest.raises(cusight.Error) as caught:
        cusight.integral(None)
    error = pickle.loads(pickle.dumps(caught.value))
    assert type(error) is type(caught.value) and str(error) == str(caught.value) and error.status is cusight.Status.TYPE


def test_objects_with_state_do_not_pickle():
    objects = [
        cusight.Integrator((4, 4)),
        cusight.Matcher(IMAGE, (40, 40)),
        cusight.PoseMatcher(IMAGE, (40, 40)),
        cusight.DiffEncoder((4, 4)),
        cusight.DiffDecoder((4, 4)),
        cusight.ContourMapper((40, 40)),
        cusight.EventStacker((4, 4)),
        cusight.EventPipeline((4, 4), "histogram", print),
        cusight.events.EventGenerator((4, 4)),
    ]
    for thing in objects:
        with pytest.raises(TypeError, match=f"cannot pickle.*{type(thing).__name__}"):
            pickle.dumps(thing)


def test_a_device_object_of_a_framework():
    class Device:
        type, index = "cpu", None

        def __str__(self):
            return "cpu"

    with cusight.Integrator((20, 30), device=Device()) as integrator:
        assert np.array_equal(integrator(IMAGE), cusight.integral(IMAGE))


def test_tensors_that_must_not_be_written():
    torch = pytest.importorskip("torch")
    out = torch.zeros((21, 31), dtype=torch.float64, requires_grad=True)
    with pytest.raises(ValueError, match="sum requires a gradient"):
        cusight.integral(torch.zeros((20, 30)), out=out)
    assert not out.any()


def test_tensors_that_are_not_plain_arrays():
    torch = pytest.importorskip("torch")
    image = torch.zeros((20, 30), dtype=torch.uint8)
    for tensor, kind, words in [
        (torch.zeros((20, 30), dtype=torch.bfloat16), TypeError, "src has type torch.bfloat16, expected integers or floats"),
        (torch.zeros((20, 30), dtype=torch.complex64), TypeError, "src has type torch.complex64"),
        (image.to_sparse(), TypeError, "src has layout torch.sparse_coo, expected torch.strided"),
        (image.to("meta"), ValueError, "src is on device meta, which has no memory"),
        (torch.zeros((20, 1), dtype=torch.complex64).conj().imag, ValueError, "resolve_neg"),
        (image[:, ::2], ValueError, "without gaps"),
        (image[:1].expand(20, 30), ValueError, "rows at least 30 bytes apart"),
        (image[:0], ValueError, "shape (0, 30)"),
    ]:
        with pytest.raises(kind) as caught:
            cusight.integral(tensor)
        assert isinstance(caught.value, cusight.Error) and words in str(caught.value)
    half = torch.zeros((20, 30), dtype=torch.float32, requires_grad=True)
    assert not cusight.integral(half).requires_grad


def test_streams_are_checked():
    if cusight.device_count():
        pytest.skip("there is a GPU")
    cusight.integral(IMAGE, stream=5)  # ignored on the host, as in C
    from cusight import _frameworks

    class Stream:
        cuda_stream = 77

    class Protocol:
        def __cuda_stream__(self):
            return 0, 88

    assert [_frameworks.stream_pointer(s) for s in (None, 5, Stream(), Protocol())] == [0, 5, 77, 88]
    for wrong in ("main", -1, True):
        with pytest.raises(TypeError):
            _frameworks.stream_pointer(wrong)


WITH_A_GPU = """
import os
exists = os.path.exists
os.path.exists = lambda path: path == "/dev/nvidiactl" or exists(path)
import cusight
import cusight.events, cusight.torch
"""


def test_a_build_for_the_cpu_on_a_machine_with_a_gpu():
    """A warning for each process, which filters and what hides the GPU suppress."""
    if cusight._core.cuda_built_for():
        pytest.skip("this build has CUDA code")

    def warnings(*options, **variables):
        environment = {name: value for name, value in os.environ.items() if name not in ("CUDA_VISIBLE_DEVICES", "PYTHONWARNINGS")}
        command = [sys.executable, *options, "-c", WITH_A_GPU]
        return subprocess.run(command, capture_output=True, text=True, check=True, env={**environment, **variables}).stderr

    assert warnings().count("RuntimeWarning: this machine has a GPU, which this build of cusight cannot use") == 1
    assert warnings().startswith("<string>:5: ") and "CUSIGHT_CUDA=ON pip install ." in warnings()
    assert warnings("-W", "ignore::RuntimeWarning") == warnings(CUDA_VISIBLE_DEVICES="") == warnings(CUDA_VISIBLE_DEVICES="-1") == ""


def test_command_says_what_is_there():
    lines = subprocess.run([sys.executable, "-m", "cusight"], capture_output=True, text=True, check=True).stdout
    assert f"cusight {cusight.__version__}" in lines and "built in" in lines and "GPU" in lines
    more = subprocess.run([sys.executable, "-m", "cusight", "env"], capture_output=True, text=True, check=True).stdout
    assert "CUDA code  CUDA " in lines or "CUSIGHT_CUDA=ON pip install ." in lines
    assert more.startswith(lines) and "Build type:" in more and "\nsystem" in more and "\ndriver" in more
