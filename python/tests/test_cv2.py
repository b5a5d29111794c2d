"""cusight.cv2 beside OpenCV itself: the same calls, and the results of both."""

from __future__ import annotations

import itertools
import sys

import cusight
import cusight.cv2 as cu
import numpy as np
import pytest

# OpenCV's tutorial on template matching (tutorial_py_template_matching), but for where its pictures come from and matplotlib.
TUTORIAL = """
img = cv.imread('messi5.png', cv.IMREAD_GRAYSCALE)
assert img is not None, "file could not be read, check with os.path.exists()"
img2 = img.copy()
template = cv.imread('template.png', cv.IMREAD_GRAYSCALE)
assert template is not None, "file could not be read, check with os.path.exists()"
w, h = template.shape[::-1]

# All the 6 methods for comparison in a list
methods = ['TM_CCOEFF', 'TM_CCOEFF_NORMED', 'TM_CCORR',
            'TM_CCORR_NORMED', 'TM_SQDIFF', 'TM_SQDIFF_NORMED']

for meth in methods:
    img = img2.copy()
    method = getattr(cv, meth)

    # Apply template Matching
    res = cv.matchTemplate(img,template,method)
    min_val, max_val, min_loc, max_loc = cv.minMaxLoc(res)

    # If the method is TM_SQDIFF or TM_SQDIFF_NORMED, take minimum
    if method in [cv.TM_SQDIFF, cv.TM_SQDIFF_NORMED]:
        top_left = min_loc
    else:
        top_left = max_loc
    bottom_right = (top_left[0] + w, top_left[1] + h)

    cv.rectangle(img,top_left, bottom_right, 255, 2)
    found.append((meth, top_left))

img_rgb = cv.imread('mario.png')
img_gray = cv.cvtColor(img_rgb, cv.COLOR_BGR2GRAY)
template = cv.imread('mario_coin.png', cv.IMREAD_GRAYSCALE)
w, h = template.shape[::-1]

res = cv.matchTemplate(img_gray,template,cv.TM_CCOEFF_NORMED)
threshold = 0.8
loc = np.where( res >= threshold)
for pt in zip(*loc[::-1]):
    cv.rectangle(img_rgb, pt, (pt[0] + w, pt[1] + h), (0,0,255), 2)
    found.append(pt)

cv.imwrite('res.png',img_rgb)
"""


@pytest.fixture
def cv2():
    return pytest.importorskip("cv2")


def picture(rng, *shape, dtype=np.uint8):
    made = rng.integers(0, 256, shape).astype(dtype)
    return made / dtype(255) if dtype == np.float32 else made


def test_tutorial(cv2, rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scene = cv2.GaussianBlur(picture(rng, 90, 120), (5, 5), 0)
    coin = picture(rng, 12, 10, 3)
    coins = np.full((60, 100, 3), 90, np.uint8)
    for x, y in (5, 7), (40, 30), (80, 41):
        coins[y : y + 12, x : x + 10] = coin
    for name, image in ("messi5", scene), ("template", scene[33:63, 50:90]), ("mario", coins), ("mario_coin", coin):
        cv2.imwrite(f"{name}.png", image)
    each = []
    for module in (cv2, cu):
        exec(TUTORIAL, {"cv": module, "np": np, "found": each.append([]) or each[-1]})  # noqa: S102
        each[-1].append(cv2.imread("res.png").tolist())
    assert each[0] == each[1]
    assert each[1][:1] + each[1][6:9] == [("TM_CCOEFF", (50, 33)), (5, 7), (40, 30), (80, 41)]


@pytest.mark.parametrize("method, dtype, channels", [*itertools.product(range(6), (np.uint8, np.float32), (1, 3))])
def test_match_template(cv2, rng, method, dtype, channels):
    deep = (channels,) if channels > 1 else ()
    image, templ = picture(rng, 61, 83, *deep, dtype=dtype), picture(rng, 9, 14, *deep, dtype=dtype)
    masks = [None, (rng.random((9, 14)) < 0.7).astype(np.uint8) * 7]
    if method < 4:
        masks.append(rng.random((9, 14, *deep)).astype(np.float32))
    for mask in masks:
        expected, found = cv2.matchTemplate(image, templ, method, mask=mask), cu.matchTemplate(image, templ, method, mask=mask)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        assert np.abs(found - expected).max() <= 2e-5 * max(1, np.abs(expected).max())
    assert (cu.matchTemplate(templ, image, method) == cu.matchTemplate(image, templ, method)).all()  # OpenCV exchanges them
    assert cv2.matchTemplate(templ, image, method).shape == (53, 70)


def test_regions_and_single_pixels(cv2, rng):
    large = picture(rng, 50, 70)
    for image, templ in (large[5:40, 7:60], large[10:15, 20:30]), (large, large), (large, large[:1, :1]), (large[:1, :1], large[3:4, :1]):
        assert np.allclose(cu.matchTemplate(image, templ, 0), cv2.matchTemplate(image, templ, 0), rtol=1e-5, atol=image.size / 40)  # OpenCV's
        assert (cu.integral(image) == cv2.integral(image)).all()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_integral(cv2, rng, channels):
    image = picture(rng, 37, 53, channels)
    for src, depths in (image, (-1, cu.CV_32S, cu.CV_64F)), (image / np.float32(255), (-1, cu.CV_64F)):
        for depth in depths:
            expected, found = cv2.integral2(src, sdepth=depth), cu.integral2(src, sdepth=depth)
            for a, b in zip([*expected, cv2.integral(src, None, depth)], [*found, cu.integral(src, None, depth)]):
                assert a.dtype == b.dtype and a.shape == b.shape and np.allclose(a, b, rtol=1e-12, atol=0)


def test_outputs_are_written_if_they_fit(cv2, rng):
    """As by OpenCV, others are left alone."""
    image = picture(rng, 20, 30)
    x, y = np.meshgrid(np.arange(30, dtype=np.float32), np.arange(20, dtype=np.float32))
    calls = [
        (lambda m, out: m.matchTemplate(image, image[:5, :7], 5, out), (16, 24), np.float32),
        (lambda m, out: m.integral(image, out), (21, 31), np.int32),
        (lambda m, out: m.integral2(image, None, out)[1], (21, 31), np.float64),
        (lambda m, out: m.remap(image, x, y, m.INTER_LINEAR, out), (20, 30), np.uint8),
        (lambda m, out: m.StereoBM_create(16, 5).compute(image, image, out), (20, 30), np.int16),
    ]
    for call, shape, dtype in calls:
        for module in (cv2, cu):
            out = np.full(shape, 77, dtype)
            returned = call(module, out)
            assert np.shares_memory(returned, out) and (out != 77).any()
            for other in np.full((shape[0] + 1, shape[1]), 77, dtype), np.full(shape, 77, np.uint16):
                returned = call(module, other)
                assert not np.shares_memory(returned, other) and (other == 77).all() and returned.shape == shape


@pytest.mark.parametrize("dtype, channels", [*itertools.product((np.uint8, np.float32), (1, 3))])
def test_remap(cv2, rng, dtype, channels):
    image = picture(rng, 40, 60, channels, dtype=dtype)
    x, y = (rng.integers(-64, 64 * 70, (25, 33)).astype(np.float32) / 64 for _ in "xy")
    found = cu.remap(image, x, y, cu.INTER_LINEAR)
    expected = cv2.remap(image, x, y, cv2.INTER_LINEAR)
    assert found.shape[:2] == expected.shape[:2] and found.dtype == expected.dtype
    assert (cu.remap(image, np.dstack((x, y)), None, 1, borderValue=(0, 0, 0, 0)) == found).all()
    step = 255 if dtype == np.uint8 else 1  # OpenCV may round places to 1/32 pixel
    assert np.abs(found.reshape(expected.shape).astype(float) - expected).max() <= step * 2 / 32 + 1


def test_stereo(cv2, rng):
    left = cv2.GaussianBlur(picture(rng, 80, 200), (5, 5), 0)
    right = np.roll(left, -9, 1)
    for module in (cv2, cu):
        stereo = module.StereoBM_create(numDisparities=32, blockSize=15)
        found = stereo.compute(left, right)
        assert found.dtype == np.int16 and found.shape == left.shape
        assert (np.abs(found[20:-20, 50:-20] - 9 * 16) <= 4).all()  # both count 1/16 pixel
        stereo.setNumDisparities(64), stereo.setBlockSize(9), stereo.setDisp12MaxDiff(-1), stereo.setSpeckleWindowSize(30)
        asked = stereo.getNumDisparities(), stereo.getBlockSize(), stereo.getDisp12MaxDiff(), stereo.getSpeckleWindowSize()
        assert asked == (64, 9, -1, 30)
    stereo = cu.StereoBM_create(16, 5)
    noise = stereo.compute(picture(rng, 40, 80), picture(rng, 40, 80))
    assert (noise[:, 20:] == -16).mean() > 0.3  # where left and right disagree
    stereo.setSpeckleWindowSize(1000)
    assert (stereo.compute(picture(rng, 40, 80), picture(rng, 40, 80)) == -16).all()
    assert cv2.StereoBM_create().getNumDisparities() in (0, 64) and cu.StereoBM_create().getNumDisparities() == 64


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda m, a: m.matchTemplate(a, np.zeros((30, 9), np.uint8), 0), "30 x 9"),
        (lambda m, a: m.matchTemplate(a, a[:3, :3], 6), "method is 6"),
        (lambda m, a: m.matchTemplate(a, a[:3, :3].astype("f4"), 3), "8UC1, expected 32FC1"),
        (lambda m, a: m.matchTemplate(a.astype("f8"), a[:3, :3].astype("f8"), 3), "float64"),
        (lambda m, a: m.matchTemplate(a, a[:3, :3], 5, mask=np.ones((4, 4), np.uint8)), "mask"),
        (lambda m, a: m.integral(a, None, 7), "sdepth is 7, expected -1 or 4 or 6"),
        (lambda m, a: m.remap(a, np.zeros((3, 4), np.float32), np.zeros((3, 5), np.float32), 1), "map2 is of shape (3, 5), expected (3, 4)"),
        (lambda m, a: m.StereoBM_create(16, 6).compute(a, a), "blockSize is 6, expected an odd number"),
        (lambda m, a: m.StereoBM_create(17, 5).compute(a, a), "numDisparities is 17, expected a multiple of 16"),
        (lambda m, a: m.StereoBM_create(16, 5).compute(a.astype("f4"), a.astype("f4")), "float32, expected uint8"),
    ],
)
def test_errors_of_both(cv2, rng, call, words):
    image = picture(rng, 20, 40)
    assert cu.error is cv2.error
    for module in (cv2, cu):
        with pytest.raises(cv2.error) as raised:
            call(module, image)
        assert raised.value.code < 0
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda a: cu.matchTemplate([[1]], a, 5), "matchTemplate: image is list, expected an array of NumPy, PyTorch or CuPy"),
        (lambda a: cu.matchTemplate(a, None, 5), "matchTemplate: templ is None, expected an array .*; cv2.imread gives None for a file"),
        (lambda a: cu.matchTemplate(a, a[0], 5), r"matchTemplate: templ is of shape \(40,\), expected \(rows, cols\) or"),
        (lambda a: cu.matchTemplate(a, a[:3], 5, 7), "matchTemplate: result is 7, expected an array"),
        (lambda a: cu.matchTemplate(a, a[:3], 5, None, "x"), "matchTemplate: mask is 'x', expected an array"),
        (lambda a: cu.integral(None), "integral: src is None, expected an array"),
        (lambda a: cu.integral(memoryview(a)), "integral: src is memoryview, expected an array of NumPy, PyTorch or CuPy"),
        (lambda a: cu.integral(a[0]), r"integral: src is of shape \(40,\), expected \(rows, cols\)"),
        (lambda a: cu.integral(a, 7), "integral: sum is 7, expected an array"),
        (lambda a: cu.integral2(a, None, []), "integral2: sqsum is list, expected an array"),
        (lambda a: cu.remap(None, a, a, 1), "remap: src is None, expected an array"),
        (lambda a: cu.remap(a, None, a, 1), "remap: map1 is None, expected an array"),
        (lambda a: cu.remap(a, a.astype("f4"), 7, 1), "remap: map2 is 7, expected an array"),
        (lambda a: cu.remap(a, a.astype("f4"), a.astype("f4"), 1, 7), "remap: dst is 7, expected an array"),
        (lambda a: cu.remap(a, memoryview(a), a, 1), "remap: map1 is memoryview, expected an array"),
        (lambda a: cu.remap(a, np.dstack((a, a)).astype("i2"), a.astype("u2"), 1), r"map1 is int16, .* expected float32: cv2.convertMaps\("),
        (lambda a: cu.StereoBM_create(16, 5).compute(None, a), "StereoBM: left is None, expected an array"),
        (lambda a: cu.StereoBM_create(16, 5).compute(a, [[1]]), "StereoBM: right is list, expected an array"),
        (lambda a: cu.StereoBM_create(16, 5).compute(a, a, 7), "StereoBM: disparity is 7, expected an array"),
        (lambda a: cu.minMaxLoc(None), "minMaxLoc: src is None, expected an array"),
        (lambda a: cu.minMaxLoc(np.dstack((a, a))), r"minMaxLoc: src is uint8 of shape \(20, 40, 2\), expected numbers of shape"),
        (lambda a: cu.minMaxLoc(a * 1j), r"minMaxLoc: src is complex128 of shape \(20, 40\), expected numbers"),
        (lambda a: cu.minMaxLoc(a, 7), "minMaxLoc: mask is 7, expected an array"),
        (lambda a: cu.minMaxLoc(a, a[:3]), r"minMaxLoc: mask is uint8 of shape \(3, 40\), expected uint8 or bool of shape \(20, 40\)"),
        (lambda a: cu.minMaxLoc(a, a.astype("f4")), r"mask is float32 of shape \(20, 40\), expected uint8 or bool"),
    ],
)  # fmt: skip
def test_no_arrays(rng, call, words):
    """As OpenCV's errors, which name the function, the argument, its value and what is expected."""
    with pytest.raises(cu.error, match=words):
        call(picture(rng, 20, 40))


def test_maps_in_fixed_point(cv2, rng):
    """What the message says keeps their fractions."""
    image = picture(rng, 20, 40)
    x, y = (rng.integers(0, 32 * 19, (9, 8)).astype(np.float32) / 32 for _ in "xy")
    with pytest.raises(cu.error, match=r"cv2.convertMaps\(map1, map2, cv2.CV_32FC2\)\[0\]") as raised:
        cu.remap(image, *cv2.convertMaps(x, y, cv2.CV_16SC2), 1)
    with pytest.raises(TypeError) as plain:
        cusight.remap(image, cv2.convertMaps(x, y, cv2.CV_16SC2)[0])
    assert "astype" not in str(raised.value) + str(plain.value) and "cv2.convertMaps(map1, map2, cv2.CV_32FC2)[0]" in str(plain.value)
    floats = cv2.convertMaps(*cv2.convertMaps(x, y, cv2.CV_16SC2), cv2.CV_32FC2)[0]
    assert (cu.remap(image, floats, None, 1) == cu.remap(image, x, y, 1)).all()


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "i4", "f4", "f8"])
def test_min_max_loc(cv2, rng, dtype):
    """Few values, so that there are ties, in rows that lie apart."""
    numbers = rng.integers(0, 9, (40, 60)).astype(dtype)[3:30, 5:40]
    mask = (rng.random(numbers.shape) < 0.02).astype(np.uint8) * 9
    for given in [(numbers,), (numbers, mask), (numbers, mask * 0), (numbers[..., None],), (numbers[:1, :1],), (numbers * 0 + 3,)]:
        found = cu.minMaxLoc(*given)
        assert found == cv2.minMaxLoc(*given) and list(map(type, found)) == [float, float, tuple, tuple]
    assert cu.minMaxLoc(numbers, mask=mask > 0) == cv2.minMaxLoc(numbers, mask=mask)


def test_min_max_loc_of_tensors(space, rng):
    for dtype in (np.uint8, np.uint16, np.int32, np.float32, np.float64, bool):
        numbers = rng.integers(0, 2 if dtype is bool else 9, (30, 50)).astype(dtype)
        mask = (rng.random((30, 50)) < 0.1).astype(np.uint8)
        assert cu.minMaxLoc(space.put(numbers)) == cu.minMaxLoc(numbers)
        assert cu.minMaxLoc(space.put(numbers), space.put(mask)) == cu.minMaxLoc(numbers, mask)
    numbers = np.array([[np.nan, 3, 1], [1, np.nan, 3]], np.float32)
    assert cu.minMaxLoc(space.put(numbers)) == (1.0, 3.0, (2, 0), (1, 0))
    assert cu.minMaxLoc(space.put(numbers * np.float32(np.nan))) == (0.0, 0.0, (-1, -1), (-1, -1))
    scores = cu.matchTemplate(space.put(picture(rng, 30, 60)), space.put(picture(rng, 30, 60)[3:9, 4:20]), 5)
    assert cu.minMaxLoc(scores) == cu.minMaxLoc(space.get(scores))
    if space.framework == "torch" and space.device == "cuda":
        with pytest.raises(cu.error, match="mask is ndarray, expected an array like the first, Tensor, on its device"):
            cu.minMaxLoc(scores, np.ones(scores.shape, np.uint8))


def test_what_the_library_does_not_do(rng):
    """OpenCV would; the message says what is expected."""
    image = picture(rng, 20, 30)
    x = np.zeros((3, 4), np.float32)
    for call, words in [
        (lambda: cu.remap(image, x, x, 0), "interpolation is 0, expected 1"),
        (lambda: cu.remap(image, x, x, 1, None, 1), "borderMode is 1, expected 0"),
        (lambda: cu.remap(image, x, x, 1, borderValue=(0, 9, 0)), r"borderValue is \(0, 9, 0\), expected 0"),
        (lambda: cu.integral(image, sdepth=cu.CV_32F), "sdepth is 5, expected -1 or 4 or 6"),
        (lambda: cu.integral2(image, sqdepth=cu.CV_32F), "sqdepth is 5, expected -1 or 6"),
        (lambda: cu.integral(image.astype(np.float64)), "64FC1"),
        (lambda: cu.matchTemplate(image, image[:3, :3], 5, mask=np.ones((3, 3), np.float32)), "mask"),
        (lambda: cu.StereoBM_create(16, 65), "blockSize is 65, expected at most 63"),
    ]:
        with pytest.raises(cu.error, match=words) as raised:
            call()
        assert isinstance(raised.value.__cause__, cusight.Error) and raised.value.code == -215


def test_numbers_are_opencvs(cv2):
    for name in cu.__all__:
        if isinstance(getattr(cu, name), int):
            assert getattr(cu, name) == getattr(cv2, name), name


def test_tensors(space, rng):
    image = picture(rng, 30, 60)
    x, y = np.meshgrid(np.arange(20, dtype=np.float32), np.arange(9, dtype=np.float32))
    put = space.put
    for found, expected in [
        (cu.matchTemplate(put(image), put(image[:5, :6]), 5), cu.matchTemplate(image, image[:5, :6], 5)),
        (cu.integral2(put(image))[1], cu.integral2(image)[1]),
        (cu.remap(put(image), put(x), put(y), 1), image[:9, :20]),
        (cu.StereoBM_create(16, 5).compute(put(image), put(image)), cu.StereoBM_create(16, 5).compute(image, image)),
    ]:
        assert np.allclose(space.get(found), expected, atol=1e-5)


def test_other_names_are_opencvs(monkeypatch):
    opencv = cu._opencv
    if opencv is not None:
        assert cu.imread is opencv.imread and {"imread", "matchTemplate"} <= set(dir(cu))
    monkeypatch.setattr(cu, "_opencv", None)
    with pytest.raises(AttributeError, match="has no 'imread': .* OpenCV, which may, is not installed"):
        cu.imread


def test_without_opencv(monkeypatch):
    import importlib

    monkeypatch.setitem(sys.modules, "cv2", None)
    monkeypatch.delitem(sys.modules, "cusight.cv2")
    alone = importlib.import_module("cusight.cv2")
    assert alone is not cu and alone.integral(np.ones((2, 2), np.uint8))[2, 2] == 4
    assert alone.minMaxLoc(np.eye(3, dtype=np.uint8)) == (0.0, 1.0, (1, 0), (0, 0))
    with pytest.raises(alone.error, match="has type 16SC1"):
        alone.integral(np.ones((2, 2), np.int16))
    cusight.cv2 = cu
