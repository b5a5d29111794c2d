"""The most likely wrong calls say what to do, and no wrong argument gets past the package's own messages."""

from __future__ import annotations

import inspect

import cusight
import cusight.torch
import numpy as np
import pytest

from cusight import _advice, events

GRAY, COLOR, FIRST = np.zeros((48, 64), np.uint8), np.zeros((48, 64, 3), np.uint8), np.zeros((3, 48, 64), np.uint8)
PART, BIG, SEVERAL = np.zeros((8, 8), np.uint8), np.zeros((480, 640), np.uint8), np.zeros((2, 48, 64, 3), np.uint8)
TEXT = b"64 48\n10 1 1 1\n20 2 2 0\n35 2 2 0\n"
X, Y, P, T = (np.zeros(3, dtype) for dtype in (np.uint16, np.uint16, np.uint8, np.int64))


def recording():
    return events.open(TEXT)


def detector():
    return cusight.MotionDetector((48, 64))


PERMUTE = "images are (rows, cols, channels): .permute(1, 2, 0).contiguous() in PyTorch, numpy.ascontiguousarray(image.transpose(1, 2, 0))"
EACH = "several images need a call each"
EXCHANGED = "are template and image exchanged? Matcher(part, image.shape), match_template(image, part)"
PIECES = "events is Recording, expected its events: recording.read() has all, a loop over it some at a time, .frames() makes frames"
OWN = "frames of another size need an object of their own, made with their shape"
SAID = [
    # element types
    (lambda: cusight.integral(GRAY.astype(np.int64)), "int64, expected uint8 or float32: src.astype('float32'), in PyTorch src.to(torch.float32)"),
    (lambda: cusight.integral(GRAY.astype(np.int32)), "that is int32, expected uint8 or float32: src.astype('float32')"),
    (lambda: cusight.integral(GRAY.astype(np.float16)), "that is float16, expected uint8 or float32: src.astype('float32')"),
    (lambda: cusight.box_sums(cusight.integral(GRAY), np.zeros((2, 4), np.int64)), "expected int32: boxes.astype('int32')"),
    (lambda: cusight.heatmap(COLOR / 255, COLOR / 255), "expected uint8: prev.astype('uint8'), in PyTorch prev.to(torch.uint8); of values from 0 to 1, (255 * prev)"),
    (lambda: cusight.stereo_contours(GRAY), "that is uint8, expected uint16 or float32: elevation.astype('float32')"),
    (lambda: cusight.remap(GRAY, np.zeros((4, 4, 2))), "that is float64, expected float32: map.astype('float32')"),
    # channels
    (lambda: cusight.integral(FIRST), PERMUTE),
    (lambda: cusight.heatmap(FIRST, FIRST), PERMUTE),
    (lambda: cusight.hsv_count(FIRST, (0, 0, 0), (9, 9, 9)), PERMUTE),
    (lambda: cusight.Matcher(np.zeros((3, 8, 8), np.uint8), (48, 64)), PERMUTE),
    (lambda: cusight.DiffEncoder((48, 64, 3)).encode(FIRST), PERMUTE),
    (lambda: cusight.DiffEncoder((3, 48, 64)), PERMUTE),
    (lambda: detector()(FIRST), PERMUTE),
    (lambda: cusight.PoseMatcher(np.zeros((8, 8, 3), np.uint8), (48, 64)), "expected one, (rows, cols), such as cv2.cvtColor(templ, cv2.COLOR_BGR2GRAY)"),
    (lambda: cusight.Matcher(PART, (48, 64))(COLOR), "that is 3 channels, expected one, (rows, cols)"),
    (lambda: cusight.hsv_count(GRAY, (0, 0, 0), (9, 9, 9)), "that is 1 channel, expected (rows, cols, 3)"),
    # several images, and images of several sizes
    (lambda: cusight.integral(SEVERAL), EACH),
    (lambda: cusight.noise_view([COLOR], [COLOR]), "numpy.stack makes one of a list, and a function of one image needs a call for each"),
    (lambda: cusight.heatmap([COLOR], [COLOR, COLOR]), "cur has 2 images, expected 1 like prev"),
    (lambda: cusight.heatmap(SEVERAL, COLOR), "cur has 1 image, expected 2 like prev"),
    (lambda: cusight.heatmap([], []), "prev has 0 images, expected 1 to 1024"),
    (lambda: cusight.remap([GRAY], [np.zeros((4, 4, 2), np.float32)] * 2), "map has 2 images, expected 1 like src"),
    (lambda: cusight.remap([GRAY], np.zeros((4, 4, 2), np.float32), out=[]), "out is no list of 1 arrays, one for each of src"),
    (lambda: cusight.Matcher(PART, (48, 64))([GRAY, GRAY]), "call it for each of them, or make a Matcher with batch=2"),
    (lambda: cusight.Matcher(PART, (48, 64), batch=2)(GRAY), "frame is an array of shape (48, 64), expected 2 frames, the batch"),
    (lambda: cusight.Matcher(PART, (48, 64), batch=2)([GRAY, BIG]), OWN),
    (lambda: cusight.Matcher(PART, (48, 64))(BIG), OWN),
    (lambda: cusight.DiffEncoder((48, 64)).encode(BIG), OWN),
    (lambda: cusight.DiffEncoder.encode_batch([cusight.DiffEncoder((48, 64))], [BIG]), OWN),
    (lambda: detector()(BIG), OWN),
    (lambda: detector().step([GRAY, GRAY]), "frames is a list of 2, expected 1, one for each camera; frames in a row need a call each"),
    (lambda: events.FrameWriter("no.h5", (48, 64, 2), "uint8").write(np.zeros((48, 64, 2), np.uint8)), "one frame is frames[None]"),
    # memory
    (lambda: cusight.integral(COLOR[..., 0]), "make it contiguous: numpy.ascontiguousarray(src)"),
    (lambda: cusight.integral(GRAY.T), "make it contiguous: numpy.ascontiguousarray(src)"),
    # arguments in another order or of another kind
    (lambda: cusight.Matcher(BIG, PART), "shape is an array of shape (8, 8), expected (rows, cols) of the frames, as in Matcher(part, image.shape)"),
    (lambda: cusight.Matcher(BIG, PART.shape), EXCHANGED),
    (lambda: cusight.match_template(PART, BIG), EXCHANGED),
    (lambda: cusight.PoseMatcher(BIG, PART), "as in PoseMatcher(part, image.shape)"),
    (lambda: cusight.PoseMatcher(BIG, PART.shape), "template is 480 x 640, expected at most the frames' 8 x 8 pixels, as in PoseMatcher(part, image.shape)"),
    (lambda: cusight.match_template(GRAY.tolist(), PART), "image is list, expected an array: numpy.asarray"),
    (lambda: cusight.ContourMapper(GRAY, GRAY), "ContourMapper: shape is an array of shape (48, 64), expected (rows, cols)"),
    (lambda: cusight.MotionDetector(COLOR), "shape is an array of shape (48, 64, 3), expected (rows, cols) or (rows, cols, channels)"),
    (lambda: cusight.box_sums(np.zeros((2, 4), np.int32), cusight.integral(GRAY)), "boxes has shape (49, 65), expected (n, 4): x, y, width, height"),
    (lambda: cusight.box_sums(cusight.integral(GRAY), np.zeros(4, np.int32)), "boxes has shape (4,), expected (n, 4)"),
    (lambda: cusight.stereo_elevation(GRAY, GRAY, 30), "expected StereoOptions, such as StereoOptions(shifts=64)"),
    (lambda: cusight.hsv_count(COLOR, (0, 0, 0), (359, 255, 255)), "half of the hue in degrees, up to 179, as in OpenCV"),
    (lambda: cusight.DiffDecoder((48, 64)).decode(cusight.DiffEncoder((20, 30)).encode(GRAY[:20, :30].copy())), "diff is one of 20 x 30, expected one of 48 x 64"),
    (lambda: detector()(GRAY, 0.04), "times is 0.04, expected microseconds, an integer"),
    (lambda: events.EventWriter((48, 64), "run.h5"), "shape is 'run.h5', expected (rows, cols)"),
    (lambda: cusight.Windowing("10ms")._options(), "windows='10ms' is both"),
    # recordings where events are meant, and the other way round
    (lambda: cusight.stack_events(recording(), (48, 64)), PIECES),
    (lambda: cusight.EventStacker((48, 64))(recording()), PIECES),
    (lambda: cusight.EventPipeline((48, 64), "mdes", print).push(recording()), PIECES),
    (lambda: events.EventFilter((48, 64))(recording()), PIECES),
    (lambda: events.EventWriter("no.h5", (48, 64)).write(recording()), PIECES),
    (lambda: cusight.stack_events("run.h5", (48, 64)), "events is 'run.h5', expected events: cusight.events.open(path).read()"),
    (lambda: cusight.event_windows(recording()), "t is Recording, expected times: of events, events.t"),
    (lambda: cusight.event_windows(events.Events(X, Y, P, T)), "t is Events, expected times: of events, events.t"),
    (lambda: events.open(["a.h5", "b.h5"]), "several need a call each, or an EventDataset"),
    (lambda: cusight.torch.EventDataset(recording()), "paths is Events, expected a path, a pattern or a list of them"),
    (lambda: recording().seek("10ms"), "Recording.seek: time is '10ms', expected microseconds, an integer"),
    (lambda: events.open(b"10 1 1 1\n").frames(), "expected (rows, cols), since the recording does not have the sensor's size"),
    (lambda: cusight.stack_events(X, Y, P, T, (48, 64), windows=[(0, 1.5)]), "expected (n, 2) integers in host memory, the first event and the one after the last"),
]


@pytest.mark.parametrize("call, words", SAID, ids=range(len(SAID)))
def test_what_to_do(call, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(cusight.Error) as caught:
        call()
    assert words in str(caught.value)


TAKING = {
    "ContourMapper": lambda image: cusight.ContourMapper((48, 64), dtype="float32")(image, image),
    "DiffDecoder.reset": lambda image: cusight.DiffDecoder((48, 64)).reset(image),
    "DiffEncoder.encode": lambda image: cusight.DiffEncoder((48, 64)).encode(image),
    "DiffEncoder.encode_batch": lambda image: cusight.DiffEncoder.encode_batch([cusight.DiffEncoder((48, 64))], [image]),
    "DiffEncoder.reset": lambda image: cusight.DiffEncoder((48, 64)).reset(image),
    "EventGenerator.push": lambda image: events.EventGenerator((48, 64)).push(image, 1),
    "Integrator": lambda image: cusight.Integrator((48, 64))(image),
    "Matcher": lambda image: cusight.Matcher(image, (48, 64)),
    "Matcher.inspect": lambda image: cusight.Matcher(PART, (48, 64)).inspect(image, (0, 0, 0), (9, 9, 9)),
    "MotionDetector.step": lambda image: detector().step(image),
    "MotionDetector.watch": lambda image: detector().watch(image),
    "PoseMatcher": lambda image: cusight.PoseMatcher(image, (48, 64)),
    "box_sums boxes": lambda image: cusight.box_sums(cusight.integral(GRAY), image[:, :4].copy()),
    "box_sums table": lambda image: cusight.box_sums(image, np.zeros((1, 4), np.int32)),
    "heatmap": lambda image: cusight.heatmap(image, image),
    "hsv_count": lambda image: cusight.hsv_count(image, (0, 0, 0), (9, 9, 9)),
    "integral": lambda image: cusight.integral(image),
    "noise_view": lambda image: cusight.noise_view(image, image),
    "remap map": lambda image: cusight.remap(GRAY, image),
    "remap src": lambda image: cusight.remap(image, np.zeros((4, 4, 2), np.float32)),
    "stereo_census": lambda image: cusight.stereo_census(image),
    "stereo_contours": lambda image: cusight.stereo_contours(image),
    "stereo_edges": lambda image: cusight.stereo_edges(image),
    "stereo_elevation": lambda image: cusight.stereo_elevation(image, image),
    "stereo_fill": lambda image: cusight.stereo_fill(image),
    "stereo_filter_speckles": lambda image: cusight.stereo_filter_speckles(image),
    "stereo_find_shifts": lambda image: cusight.stereo_find_shifts(image, image),
    "stereo_median": lambda image: cusight.stereo_median(image),
    "stereo_picture contours": lambda image: cusight.stereo_picture(GRAY.astype(np.uint16), image),
    "stereo_picture elevation": lambda image: cusight.stereo_picture(image),
    "yuv_to_bgr": lambda image: cusight.yuv_to_bgr(image, np.zeros((24, 32, 2), image.dtype)),
    "yuv_to_gray": lambda image: cusight.yuv_to_gray(image),
}


@pytest.mark.parametrize("name", TAKING)
def test_types_that_the_library_has_not(name):
    """What the package says of them is what the library says of its own."""
    for dtype in (np.int16, np.int64):
        with pytest.raises(TypeError) as caught:
            TAKING[name](np.zeros((48, 64), dtype))
        if name == "ContourMapper" and dtype is np.int16:
            continue  # the library names the type of this mapper
        assert f"expected {_advice._TAKEN[name]}: " in str(caught.value), dtype


def test_types_of_every_function_are_known():
    assert set(_advice._TAKEN) == set(TAKING)


REPRESENTATION = {"channels": 3, "depth": "int8", "swap_channels": False, "cutoff": 5, "normalize": False, "tau": 3.0, "surface": "time"}
REPRESENTATION |= {"window_times": False, "lower": -1, "upper": 1, "clip_each_event": False, "scale": 1.0, "clip": 2.0, "map": None}
# A valid call of each; every argument is then replaced by what is none.
VALID = [
    (cusight.integral, {"src": GRAY, "sum_depth": "int32", "out": None}),
    (cusight.box_sums, {"table": cusight.integral(GRAY), "boxes": np.zeros((1, 4), np.int32)}),
    (cusight.Integrator, {"max_shape": (48, 64), "device": "cpu"}),
    (
        cusight.Matcher,
        {"templates": PART, "shape": (48, 64), "method": "sqdiff", "algorithm": "auto", "mask": None, "max_matches": 1, "min_distance": 1}
        | {"score_limit": None, "batch": 1, "device": None},
    ),
    (cusight.match_template, {"image": GRAY, "templ": PART, "method": "sqdiff", "algorithm": "auto", "out": None}),
    (
        cusight.PoseMatcher,
        {"template": PART, "shape": (48, 64), "angles": 0, "scales": 1, "method": "sqdiff", "mask": None, "max_matches": 1}
        | {"min_distance": 1, "min_angle": 1.0, "score_limit": None, "device": None},
    ),
    (cusight.heatmap, {"prev": COLOR, "cur": COLOR, "full_scale": 765, "out": None}),
    (cusight.noise_view, {"prev": COLOR, "cur": COLOR, "threshold": 30}),
    (cusight.hsv_count, {"src": COLOR, "lower": (0, 0, 0), "upper": (9, 9, 9)}),
    (cusight.remap, {"src": GRAY, "map": np.zeros((4, 4, 2), np.float32)}),
    (
        cusight.yuv_to_bgr,
        {"y": GRAY, "u": np.zeros((24, 32, 2), np.uint8), "v": None, "matrix": "bt709", "siting": "center", "full_range": False}
        | {"low_bits": False, "out": None},
    ),
    (cusight.yuv_to_gray, {"y": GRAY, "full_range": True, "low_bits": False, "out": None}),
    (cusight.SparseDiff, {"shape": (48, 64), "capacity": 0, "device": "cpu"}),
    (cusight.DiffEncoder, {"shape": (48, 64), "threshold": 20, "min_neighbors": 0, "device": "cpu"}),
    (cusight.DiffEncoder.encode_batch, {"encoders": [cusight.DiffEncoder((48, 64))], "frames": [GRAY], "diffs": None}),
    (cusight.DiffDecoder, {"shape": (48, 64), "device": "cpu"}),
    (cusight.MotionDetector, {"shape": (48, 64), "cameras": 1, "shift": 7, "learn_us": 0, "threshold": 25, "warmup": 8, "device": "cpu"}),
    (detector().step, {"frames": GRAY, "times": None}),
    (detector().found, {"camera": 0}),
    (cusight.stereo_edges, {"image": GRAY, "options": None}),
    (cusight.stereo_elevation, {"left": GRAY, "right": GRAY, "options": None}),
    (cusight.stereo_elevation_confidence, {"left": GRAY, "right": GRAY, "options": None, "confidence": None}),
    (cusight.stereo_median, {"elevation": GRAY.astype(np.uint16), "size": 5}),
    (lambda **given: cusight.stack_events(X, Y, P, T, (48, 64), windows=1, representation=cusight.Representation("mdes", **given)), REPRESENTATION),
    (cusight.ContourMapper, {"shape": (48, 64), "options": None, "dtype": "uint8", "device": "cpu"}),
    (
        lambda **given: cusight.stereo_edges(GRAY, cusight.StereoOptions(**given)),
        {"border": "zero", "threshold": 0.2, "shifts": 30, "window": 7, "fill": "once", "tolerance": 0.1, "levels": 3},
    ),
    (cusight.stack_events, {"x": X, "y": Y, "p": P, "t": T, "shape": (48, 64), "windows": 1, "representation": "mdes", "bins": 3, "time_unit": None}),
    (cusight.event_windows, {"t": T, "windows": "1ms", "count": 3, "time_unit": None}),
    (cusight.EventStacker, {"shape": (48, 64), "representation": "mdes", "bins": 3, "device": "cpu"}),
    (
        cusight.EventPipeline,
        {"shape": (48, 64), "representation": "mdes", "sink": print, "windows": 5, "first_window": 0, "end_window": 0, "device": "cpu"}
        | {"deliver": None, "framework": None, "max_events": 0, "batch_windows": 0, "max_gap": 0},
    ),
    (events.open, {"source": TEXT, "shape": (48, 64), "camera": None, "format": "any", "threads": 0, "max_memory": 0, "max_chunk": 0}),
    (recording().read, {"count": 3}),
    (recording().seek, {"time": 3}),
    (recording().seek_index, {"index": 1}),
    (lambda **given: list(recording().frames(**given)), {"windows": 1, "batch": 1, "shape": (48, 64), "first_window": 0, "device": "cpu", "max_gap": 0}),
    (events.EventFilter, {"shape": (48, 64), "begin": 0, "end": 9, "hot_events": 0, "hot_period": 9, "activity": 0, "region": None}),
    (events.EventGenerator, {"shape": (48, 64), "positive": 0.2, "shot_rate": 0.0, "refractory_us": 0, "seed": 0, "device": "cpu", "max_events": 0}),
    (events.EventGenerator((48, 64)).push, {"frame": GRAY, "time": 1}),
    (events.EventGenerator((48, 64)).run, {"frames": GRAY[None], "times": [1]}),
]
NONSENSE = ["nonsense", b"x", 0.5, -7, 2**70, object(), [], (), [None], {}, np.zeros((2, 2)), np.zeros(3, "datetime64[s]"), float("nan"), print, True]


@pytest.mark.parametrize("function, arguments", VALID, ids=range(len(VALID)))
def test_nonsense_in_each_argument(function, arguments, capsys):
    """What is refused is refused by a message of the package, which names the argument."""
    function(**arguments)
    for name in arguments:
        for value in NONSENSE:
            try:
                function(**{**arguments, name: value})
            except cusight.Error as error:
                assert ": " in str(error), (name, value)
            # Anything else fails the test.


def test_every_callable_has_its_wrong_calls():
    """A new function or class joins one of the tables."""
    tables = inspect.getsource(inspect.getmodule(test_what_to_do))
    without = {"Error", "Status", "progress", "Representation", "device_count", "device_info", "match_dtype", "pose_dtype", "release_workspace"}
    without |= {"Events", "FrameBatch", "Frames", "Motion", "MotionBox", "MotionTrack", "PipelineCounts", "ReaderCounts", "Recording", "Triggers"}
    for module in (cusight, events):
        for name in set(module.__all__) - without - {"events"}:
            assert f".{name}(" in tables or f".{name}," in tables, name
