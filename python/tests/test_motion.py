"""MotionDetector: what it finds, for one and for several cameras, and its errors."""

import numpy as np
import pytest

import cusight

PLAIN = dict(erode=0, dilate=0, min_area=1, warmup=0)


def scene(x=None, value=200, channels=None):
    frame = np.full((60, 80) if channels is None else (60, 80, channels), 90, np.uint8)
    if x is not None:
        frame[20:40, x : x + 10] = value
    return frame


@pytest.mark.parametrize("channels", [None, 3])
def test_a_thing_that_walks(space, channels):
    shape = scene(channels=channels).shape
    with cusight.MotionDetector(shape, device=space.device, shift=8, **PLAIN) as detector:
        detector.step(space.put(scene(channels=channels)))
        assert detector.found().state == "learning"
        for i in range(5):
            detector.step(space.put(scene(30 + 2 * i, channels=channels)), 40000 * (i + 1))
            found = detector.found()
            assert found.state == "watching" and found.time == 40000 * (i + 1) and found.steps == i + 2
            assert found.boxes[0].track == 1
        assert [t.id for t in found.tracks][0] == 1 and found.tracks[0].boxes == 5
        mask = space.get(detector.mask())
        assert mask.shape == (60, 80) and np.count_nonzero(mask) == found.moving


def test_first_box(space):
    detector = cusight.MotionDetector((60, 80), device=space.device, **PLAIN)
    detector.step(space.put(scene()))
    detector.step(space.put(scene(30)))
    (box,) = detector.found().boxes
    assert box[:5] == (30, 20, 10, 20, 200)
    assert (box.center_x, box.center_y, box.strength) == (34.5, 29.5, 110.0)


def test_cameras_and_regions(space):
    with cusight.MotionDetector((60, 80), 3, device=space.device, **PLAIN) as detector:
        mask = np.zeros((60, 80), np.uint8)
        mask[:, :35] = 1
        detector.watch(space.put(mask), 1)
        detector.step([space.put(scene())] * 3)
        detector.step([space.put(scene(30)), space.put(scene(30)), None])
        assert [detector.found(c).moving for c in range(3)] == [200, 100, 0]
        assert [detector.found(c).steps for c in range(3)] == [2, 2, 1]


def test_shadows_ghosts_and_tight_boxes(space):
    options = dict(PLAIN, erode=1, dilate=3, shadows=50, ghosts=True, tight=True)
    with cusight.MotionDetector((60, 80), device=space.device, **options) as detector:
        detector(space.put(scene(66, value=20)))  # it stands in the first frame, and leaves
        frame = scene(30, value=20)
        frame[20:40, 40:55] = 60  # its shadow, of which only the outline moves
        boxes = detector(space.put(frame)).boxes
        assert sorted((box.x, box.y, box.width, box.height) for box in boxes) == [(30, 20, 13, 20), (66, 20, 10, 20)]
        (box,) = detector(space.put(frame)).boxes
        assert (box.x, box.y, box.width, box.height) == (30, 20, 10, 20)


def test_split_boxes(space):
    frame = scene(20)
    frame[20:40, 33:43] = 200  # within reach of dilation
    for split, expected in ((0, [(20, 20, 23, 20)]), (50, [(20, 20, 10, 20), (33, 20, 10, 20)])):
        options = dict(PLAIN, dilate=3, tight=True, split=split)
        with cusight.MotionDetector((60, 80), device=space.device, **options) as detector:
            detector(space.put(scene()))
            assert [(box.x, box.y, box.width, box.height) for box in detector(space.put(frame)).boxes] == expected


def test_errors():
    detector = cusight.MotionDetector((60, 80), 2)
    with pytest.raises(ValueError, match="threshold is 0, expected 1..255"):
        cusight.MotionDetector((60, 80), threshold=0)
    with pytest.raises(ValueError, match="shadows is 101, expected 0..100"):
        cusight.MotionDetector((60, 80), shadows=101)
    with pytest.raises(TypeError, match="shift is 1.5, expected an integer"):
        cusight.MotionDetector((60, 80), shift=1.5)
    with pytest.raises(ValueError, match="one for each camera"):
        detector.step([scene()])
    with pytest.raises(ValueError, match="one for each camera"):
        detector.step([scene(), scene()], [1])
    with pytest.raises(ValueError, match="expected 60 x 80"):
        detector.step([scene(), scene()[1:]])
    with pytest.raises(ValueError, match="camera is 2, expected 0..1"):
        detector.found(2)
    detector.close()
    with pytest.raises(ValueError):
        detector.found()


def test_called_as_other_objects(space):
    """A step and what it found, at times beyond 32 bits."""
    one, other = (cusight.MotionDetector((60, 80), device=space.device, learn_us=1 << 32, **PLAIN) for _ in range(2))
    for i in range(3):
        frame, time = space.put(scene(30 + 5 * i)), (1 << 40) + 40_000 * i
        other.step(frame, time)
        assert one(frame, time) == other.found() and one.found().time == time
    with cusight.MotionDetector((60, 80), 2, device=space.device, **PLAIN) as both:
        both([space.put(scene())] * 2)
        moved = both([space.put(scene(30)), None])
        assert [motion.moving for motion in moved] == [200, 0] and moved == [both.found(0), both.found(1)]
