"""Results: equal to plain definitions in NumPy, and bit for bit to the C library, in every framework that is there."""

from __future__ import annotations

import ctypes as ct
import dataclasses

import clib
import cusight
import numpy as np
import pytest

SIZES = [(1, 1), (1, 9), (7, 1), (33, 65), (120, 161)]


@pytest.mark.parametrize("shape", SIZES)
def test_integral_is_a_cumulative_sum(space, rng, shape):
    image = rng.integers(0, 256, shape, dtype=np.uint8)
    table, squares = cusight.integral(space.put(image), sqsum=True)
    wide = image.astype(np.int64)
    assert np.array_equal(space.get(table)[1:, 1:], wide.cumsum(0).cumsum(1))
    assert np.array_equal(space.get(squares)[1:, 1:], (wide * wide).cumsum(0).cumsum(1))
    assert not space.get(table)[0].any() and not space.get(table)[:, 0].any()
    assert space.get(cusight.integral(space.put(image), sum_depth="float64")).dtype == np.float64


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_integral_of_channels(space, rng, channels):
    image = rng.integers(0, 256, (33, 65, channels), dtype=np.uint8)
    table, squares = cusight.integral(space.put(image), sqsum=True)
    wide = image.astype(np.int64)
    assert space.get(table).shape == (34, 66, channels) and space.get(table).dtype == np.int32
    assert np.array_equal(space.get(table)[1:, 1:], wide.cumsum(0).cumsum(1))
    assert np.array_equal(space.get(squares)[1:, 1:], (wide * wide).cumsum(0).cumsum(1))
    with cusight.Integrator(image.shape, device=space.device) as integrator:
        again = space.put(np.zeros((34, 66, channels)))
        assert integrator(space.put(image.astype(np.float32)), out=again) is again
        assert np.array_equal(space.get(again), space.get(table))
        with pytest.raises(ValueError, match=f"33 x 66 .* of {channels} channels"):
            integrator(space.put(np.zeros((33, 66, channels), np.uint8)))
    boxes = np.array([[5, 6, 7, 8], [60, 0, 20, 1]], np.int32)
    sums = space.get(cusight.box_sums(table, space.put(boxes)))
    assert np.array_equal(sums, [image[6:14, 5:12].sum((0, 1)), [np.nan] * channels], equal_nan=True)


def test_integral_of_floats_is_the_library_s(c, rng):
    image = rng.random((50, 70), dtype=np.float32)
    expected = np.empty((51, 71))
    c.call("cusIntegral", image, expected, None, None, None)
    assert np.array_equal(cusight.integral(image), expected)


@pytest.mark.parametrize(("shape", "bits"), [((1, 1), 51), ((50, 70), 51), ((300, 300), 46), ((40, 30, 3), 51)])
def test_reproducible_integral_is_a_sum_of_integers(space, rng, shape, bits):
    image = (rng.random(shape) * 2 - 1).astype(np.float32)

    def table(values, exponent):
        units = np.rint(values * 2.0 ** (bits - exponent)).astype(np.int64)
        return units.cumsum(0).cumsum(1).astype(np.float64) * 2.0 ** (exponent - bits)

    wide = image.astype(np.float64)
    sums, squares = cusight.integral(space.put(image), sqsum=True, reproducible=True, range=2)
    assert np.array_equal(space.get(sums)[1:, 1:], table(wide, 1))
    assert np.array_equal(space.get(squares)[1:, 1:], table(wide * wide, 2))
    with cusight.Integrator(shape, device=space.device) as integrator:
        if len(shape) == 2:
            exponent = int(np.ceil(np.log2(np.abs(wide).max())))
            again = integrator(space.put(image), reproducible=True)
            assert np.array_equal(space.get(again)[1:, 1:], table(wide, exponent))
        image[0, 0] = 3
        again = space.get(integrator(space.put(image), reproducible=True, range=2))
        assert np.isnan(again[1:, 1:]).all() and not again[0].any()


def test_padded_rows(space, rng):
    image = rng.integers(0, 256, (20, 40), dtype=np.uint8)
    whole = space.put(image)
    assert np.array_equal(space.get(cusight.integral(whole[3:17, 5:31])), cusight.integral(image[3:17, 5:31].copy()))
    target = space.put(np.zeros((30, 50), np.int32))
    assert cusight.integral(whole, out=target[4:25, 6:47]) is not None
    got = space.get(target)
    assert np.array_equal(got[4:25, 6:47], cusight.integral(image))
    got[4:25, 6:47] = 0
    assert not got.any()


def test_integrator_and_box_sums(space, rng):
    image = rng.integers(0, 256, (40, 60), dtype=np.uint8)
    with cusight.Integrator((64, 64), device=space.device) as integrator:
        table = integrator(space.put(image))
        out = space.put(np.zeros((41, 61), np.int32))
        assert integrator(space.put(image), out=out) is out
    boxes = np.array([[0, 0, 60, 40], [5, 6, 7, 8], [3, 3, 0, 0], [50, 0, 20, 1]], np.int32)
    sums = space.get(cusight.box_sums(table, space.put(boxes)))
    assert np.array_equal(sums, [image.sum(), image[6:14, 5:12].sum(), 0, np.nan], equal_nan=True)


def brute(image, templ):
    h, w = templ.shape[:2]
    wide, part = image.astype(np.int64), templ.astype(np.int64)
    rows, cols = image.shape[0] - h + 1, image.shape[1] - w + 1
    return np.array([[((wide[y : y + h, x : x + w] - part) ** 2).sum() for x in range(cols)] for y in range(rows)])


def test_defaults_find_what_others_miss(space, rng):
    """A part in other light, which squared differences do not find; and a pair that shifts by more than 30."""
    image = rng.integers(0, 100, (40, 160), dtype=np.uint8)
    part = image[9:19, 30:44] // 2 + np.uint8(120)
    with cusight.Matcher(space.put(part), image.shape) as matcher, cusight.PoseMatcher(space.put(part), image.shape) as poses:
        found, pose = matcher(space.put(image))[0], poses(space.put(image))[0]
    assert (found["x"], found["y"]) == (pose["col"], pose["row"]) == (30, 9) and found["score"] > 0.99
    left = space.put(np.roll(image, 60, 1))
    with cusight.ContourMapper(image.shape, device=space.device) as mapper:
        assert np.median(space.get(mapper(left, space.put(image))[0])) == 61
    codes = cusight.stereo_census(left), cusight.stereo_census(space.put(image))
    assert np.median(space.get(cusight.stereo_elevation(*codes))) == 61


@pytest.mark.parametrize("channels", [1, 3])
def test_matches_are_those_of_brute_force(space, rng, channels):
    image = rng.integers(0, 256, (30, 41) if channels == 1 else (30, 41, 3), dtype=np.uint8)
    templ = rng.integers(0, 256, (5, 8) if channels == 1 else (5, 8, 3), dtype=np.uint8)
    scores = brute(image, templ)
    with cusight.Matcher(space.put(templ), image.shape, method="sqdiff", max_matches=4) as matcher:
        hits = matcher(space.put(image))
        maps = matcher.run(space.put(image), scores=True)
        assert np.allclose(space.get(maps), scores, rtol=1e-3, atol=64)
        raw = space.get(matcher.results())
    order = np.argsort(scores.ravel(), kind="stable")[:4]
    assert [(h["y"], h["x"], h["score"]) for h in hits] == [(*divmod(int(i), scores.shape[1]), scores.flat[i]) for i in order]
    assert np.array_equal(raw.view(cusight.match_dtype())[0], hits)


@pytest.mark.parametrize("own", [False, True])
def test_batch_of_frames(space, rng, own):
    frames = rng.integers(0, 256, (3, 40, 50, 3), np.uint8)
    templates = [frames[i if own else 0, 5 + i : 15 + i, 8:20].copy() for i in range(3 if own else 1)]
    given = [space.put(t) for t in templates] if own else space.put(templates[0])
    with cusight.Matcher(given, (40, 50), batch=3) as matcher:
        found = matcher(space.put(frames))
        assert [len(f) for f in found] == [1, 1, 1]
        maps = matcher.run([space.put(f) for f in frames], scores=True)
        assert [m.shape for m in maps] == [(31, 39)] * 3
        for i in range(3):
            with cusight.Matcher(space.put(templates[i if own else 0]), (40, 50)) as one:
                assert one(space.put(frames[i]))[0] == found[i][0]
        if own:
            assert [(f["x"][0], f["y"][0]) for f in found] == [(8, 5), (8, 6), (8, 7)]
        with pytest.raises(ValueError, match="frame has 2 arrays, expected 3, the batch"):
            matcher(space.put(frames[:2]))


def test_weights_multiply_image_and_template(space, rng):
    image = rng.random((30, 34, 2), np.float32)
    templ = rng.random((6, 7, 2), np.float32)
    weights = rng.random((6, 7, 2), np.float32)
    scores = space.get(cusight.match_template(space.put(image), space.put(templ), "sqdiff", mask=space.put(weights)))
    expected = [[np.sum((weights * (image[y : y + 6, x : x + 7] - templ)) ** 2) for x in range(28)] for y in range(25)]
    np.testing.assert_allclose(scores, expected, rtol=1e-3)


def test_many_templates_mask_and_limits(space, rng):
    image = rng.integers(0, 256, (40, 50), dtype=np.uint8)
    templates = [image[3:11, 4:10].copy(), image[20:28, 30:36].copy()]
    mask = np.ones((8, 6), np.uint8)
    mask[0, 0] = 0
    with cusight.Matcher(
        [space.put(t) for t in templates], image.shape, method="sqdiff", mask=space.put(mask), max_matches=3, score_limit=0, algorithm="direct"
    ) as matcher:
        first, second = matcher(space.put(image))
        assert matcher.algorithm == ("direct" if space.device == "cuda" else "fft")  # the host masks by FFT alone
    assert [(h["x"], h["y"]) for h in first] == [(4, 3)] and [(h["x"], h["y"]) for h in second] == [(30, 20)]


@pytest.mark.parametrize("method", ["sqdiff", "sqdiff-normed", "ccorr", "ccorr-normed", "ccoeff", "ccoeff-normed"])
def test_match_template_finds_the_extremum(space, rng, method):
    image = rng.integers(0, 256, (40, 50), dtype=np.uint8)
    scores = space.get(cusight.match_template(space.put(image), space.put(image[7:19, 11:30].copy()), method))
    assert scores.shape == (29, 32) and scores.dtype == np.float32
    if method != "ccorr":
        best = scores.argmin() if method.startswith("sqdiff") else scores.argmax()
        assert divmod(int(best), 32) == (7, 11)


def test_poses(space):
    y, x = np.mgrid[:40, :50]
    templ = (120 + 60 * np.sin(x / 4) * np.cos(y / 5) + 40 * np.sin((x + y) / 6)).astype(np.uint8)
    mask = np.ones(templ.shape, bool)
    mask[:, 0] = False
    with cusight.PoseMatcher(
        space.put(templ), (120, 130, 1), angles=range(-180, 180, 15), scales=[1, 0.75], method="sqdiff",
        mask=space.put(mask), max_matches=3, min_distance=20, score_limit=0,
    ) as matcher:
        frame = np.full((120, 130), 9, np.uint8)
        assert len(matcher(space.put(frame))) == 0
        placed = [(14, 0, 5, 7), (3, 1, 60, 70)]
        for angle, scale, row, col in placed:
            pixels, counts = map(np.asarray, matcher.template(angle, scale))
            assert pixels.dtype == counts.dtype == np.uint8 and set(np.unique(counts)) == {0, 255} and not pixels[counts == 0].any()
            part = frame[row : row + counts.shape[0], col : col + counts.shape[1]]
            part[counts > 0] = pixels[counts > 0]
        hits = matcher(space.put(frame))
        matcher.run(space.put(frame))
        assert np.array_equal(matcher.matches(), hits)
        assert hits.dtype == cusight.pose_dtype() and hits.dtype.itemsize == 64
        assert {(h["angle_index"], h["scale_index"], h["row"], h["col"]) for h in hits} == set(placed)
        for h in hits:
            assert (h["angle"], h["scale"], h["score"]) == (matcher.angles[h["angle_index"]], matcher.scales[h["scale_index"]], 0)
            counts = np.asarray(matcher.template(h["angle_index"], h["scale_index"])[1])
            assert h["pixels"] == (counts > 0).sum()
            assert abs(h["x"] - h["col"] - (counts.shape[1] - 1) / 2) <= 1 and abs(h["y"] - h["row"] - (counts.shape[0] - 1) / 2) <= 1
    with cusight.PoseMatcher(space.put(templ), frame.shape, angles=np.arange(20, 60, 2.0), method="ccoeff_normed", refine=True) as matcher:
        hit = matcher(space.put(frame))[0]
    assert abs(hit["angle"] - 30) < 0.2 and hit["scale"] == 1 and 0.8 < hit["score"] < 1  # 14 * 15 - 180; the ground is seen


def test_inspection(space):
    frame = np.zeros((30, 30, 3), np.uint8)
    frame[5:15, 8:18] = (0, 0, 255)
    frame[5:15, 8] = (0, 255, 0)
    gray = frame.max(2)
    with cusight.Matcher(space.put(gray[4:16, 7:19].copy()), gray.shape) as matcher:
        matcher.run(space.put(gray))
        hits = matcher.inspect(space.put(frame), (170, 100, 100), (10, 255, 255), min_fill=0.5)
    assert (hits["x"][0], hits["y"][0], hits["pixels"][0], hits["filled"][0]) == (7, 4, 90, 1)


def test_hsv(space, c, rng):
    image = rng.integers(0, 256, (33, 47, 3), dtype=np.uint8)
    count, mask = cusight.hsv_count(space.put(image), (160, 30, 40), (20, 255, 250), mask=True)
    expected, number = np.empty((33, 47), np.uint8), np.empty((1, 1), np.int32)
    chosen = clib.Range((160, 30, 40), (20, 255, 250))
    c.call("cusHsvCount", image, chosen, number, expected, None)
    assert np.array_equal(space.get(mask), expected)
    assert int(count if space.device == "cpu" else space.get(count)[0]) == int(number[0, 0]) == int((expected == 255).sum())


@pytest.mark.parametrize("shape", [(33, 47), (33, 47, 1), (33, 47, 3), (33, 47, 4)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_remap(space, c, rng, shape, dtype):
    image = rng.integers(0, 256, shape).astype(dtype)
    places = (rng.random((21, 35, 2)) * 50 - 2).astype(np.float32)
    expected = np.empty((21, 35, *shape[2:]), dtype)
    c.call("cusRemap", image, places, expected, None)
    assert np.array_equal(space.get(cusight.remap(space.put(image), space.put(places))), expected)


@pytest.mark.parametrize("shape", [(33, 47), (33, 47, 1), (33, 47, 3)])
def test_batches_are_their_images(space, rng, shape):
    """Lists and arrays with one axis more, and outputs of the same form, give what a call for each image gives."""
    n = 5
    images, others = (rng.integers(0, 256, (n, *shape), dtype=np.uint8) for _ in range(2))
    places = (rng.random((n, 21, 35, 2)) * 50 - 2).astype(np.float32)
    put = [[space.put(one.copy()) for one in each] for each in (images, others, places)]
    with cusight.Integrator((n, 33, 47, 3), device=space.device) as integrator:
        cases = [
            (lambda src, maps, **out: cusight.remap(src, maps, **out), lambda i: cusight.remap(put[0][i], put[2][i]), 0, 2),
            (lambda src, _, **out: cusight.remap(src, put[2][0], **out), lambda i: cusight.remap(put[0][i], put[2][0]), 0, 2),
            (lambda src, _, **out: integrator(src, **out), lambda i: integrator(put[0][i]), 0, 2),
        ]
        if shape != (33, 47, 1):
            cases.append((lambda a, b, **out: cusight.heatmap(a, b, **out), lambda i: cusight.heatmap(put[0][i], put[1][i]), 0, 1))
        for batch, one, a, b in cases:
            expected = [space.get(one(i)) for i in range(n)]
            listed = batch(put[a], tuple(put[b]))
            assert type(listed) is list and all(np.array_equal(space.get(x), y) for x, y in zip(listed, expected)) and len(listed) == n
            out = [space.put(np.zeros_like(one)) for one in expected]
            again = batch(put[a], put[b], out=out)
            assert all(x is y and np.array_equal(space.get(x), z) for x, y, z in zip(again, out, expected))
            if len(shape) == 3:
                whole = [images, others, places]
                stacked = batch(space.put(whole[a]), space.put(whole[b]))
                assert np.array_equal(space.get(stacked), expected)
                assert batch(space.put(whole[a]), space.put(whole[b]), out=stacked) is stacked
        sums, squares = integrator(put[0], sqsum=True)
        for i in range(n):
            assert all(np.array_equal(space.get(x[i]), space.get(y)) for x, y in zip((sums, squares), integrator(put[0][i], sqsum=True)))


@pytest.mark.parametrize("shape", [(33, 47), (33, 47, 3)])
def test_a_batch_of_encoders_is_each_of_them(space, rng, shape):
    """Encoders with options of their own, lists and arrays of frames, new diffs and given ones."""
    n = 5
    options = [{"threshold": 7 * i, "min_neighbors": i % 2} for i in range(n)]
    together, alone = ([cusight.DiffEncoder(shape, device=space.device, **one) for one in options] for _ in range(2))
    given = [cusight.SparseDiff(shape, mask=True, device=space.device) for _ in range(n)]
    for diffs, stacked in ((None, False), (given, len(shape) == 3)):
        frames = rng.integers(0, 256, (n, *shape), dtype=np.uint8)
        put = space.put(frames) if stacked else [space.put(one.copy()) for one in frames]
        found = cusight.DiffEncoder.encode_batch(together, put, diffs)
        assert len(found) == n and all(a is b for a, b in zip(found, diffs or found))
        for i in range(n):
            want = alone[i].encode(space.put(frames[i].copy()))
            for of in (cusight.SparseDiff.positions, cusight.SparseDiff.values):
                assert np.array_equal(space.get(of(found[i])), space.get(of(want)))
            assert np.array_equal(space.get(together[i].reference()), space.get(alone[i].reference()))
            assert (found[i].mask() is None) == (diffs is None)


@pytest.mark.parametrize("dtype, planar", [(np.uint8, False), (np.uint8, True), (np.uint16, False), (np.uint16, True)])
def test_yuv(space, c, rng, dtype, planar):
    most = 256 if dtype == np.uint8 else 1024
    y, u, v = (rng.integers(0, most, shape).astype(dtype) for shape in ((33, 47), (17, 24), (17, 24)))
    chroma = (u, v) if planar else (np.dstack((u, v)),)
    low = dtype == np.uint16 and planar
    options = clib.YuvOptions(matrix=1, siting=2, full_range=1, low_bits=low)
    bgr, gray = np.empty((33, 47, 3), np.uint8), np.empty((33, 47), np.uint8)
    c.call("cusYuvToBgr", y, *chroma, *([None] if not planar else []), options, bgr, None)
    c.call("cusYuvToGray", y, options, gray, None)
    given = [space.put(a) for a in (y, *chroma)]
    found = cusight.yuv_to_bgr(*given, matrix="bt709", siting="top_left", full_range=True, low_bits=low)
    assert np.array_equal(space.get(found), bgr)
    assert np.array_equal(space.get(cusight.yuv_to_gray(given[0], full_range=True, low_bits=low)), gray)
    if dtype == np.uint8:
        assert np.array_equal(gray, y)  # full range is gray as it is


def test_heatmap_and_noise_view(space, c, rng):
    prev, cur = (rng.integers(0, 256, (37, 53, 3), dtype=np.uint8) for _ in range(2))
    expected = np.empty((37, 53, 3), np.uint8)
    c.call("cusHeatmap", prev, cur, expected, None, None)
    assert np.array_equal(space.get(cusight.heatmap(space.put(prev), space.put(cur))), expected)
    difference = np.abs(prev.astype(int) - cur).sum(2)
    colors = rng.integers(0, 256, (766, 3), dtype=np.uint8)
    assert np.array_equal(space.get(cusight.heatmap(space.put(prev), space.put(cur), colors=colors)), colors[difference])
    with pytest.raises(ValueError, match=r"colors is \(255, 3\) of format 'B', expected \(766, 3\) uint8"):
        cusight.heatmap(space.put(prev), space.put(cur), colors=colors[:255])
    noise = space.get(cusight.noise_view(space.put(prev), space.put(cur), threshold=200))
    assert np.array_equal(noise[..., 2] == 255, difference > 200) and not noise[..., :2].any()


@pytest.mark.parametrize("shape", [(16, 24), (15, 23, 3)])
def test_differences_round_trip(space, rng, shape):
    frames = [rng.integers(0, 256, shape, dtype=np.uint8) for _ in range(3)]
    with cusight.DiffEncoder(shape, threshold=12, device=space.device) as encoder:
        with cusight.DiffDecoder(shape, device=space.device) as decoder:
            reference = np.zeros(shape, np.uint8)
            for frame in frames:
                diff = encoder.encode(space.put(frame))
                change = frame.astype(int) - reference
                sent = np.flatnonzero(np.abs(change) > 12)
                reference.flat[sent] = frame.flat[sent]
                assert len(diff) == len(sent)
                assert np.array_equal(space.get(diff.positions()), sent)
                assert np.array_equal(space.get(diff.values()), (change.flat[sent] % 256).astype(np.uint8))
                other = cusight.SparseDiff.from_arrays(space.put(sent.astype(np.int32)), space.put(change.flat[sent].astype(np.uint8)), shape)
                assert np.array_equal(space.get(decoder.decode(other)), reference)
                assert np.array_equal(space.get(encoder.reference()), reference)


def test_difference_mask_and_capacity(rng):
    frame = rng.integers(100, 256, (5, 9), dtype=np.uint8)
    with cusight.DiffEncoder((5, 9)) as encoder:
        diff = encoder.encode(frame, cusight.SparseDiff((5, 9), mask=True))
        bits = np.unpackbits(diff.mask(), axis=1, bitorder="little")[:, :9]
        assert bits.all()
        with pytest.raises(ValueError) as caught:
            encoder.encode(frame ^ 255, cusight.SparseDiff((5, 9), capacity=3))
        assert caught.value.status is cusight.Status.CAPACITY


@pytest.mark.parametrize("preset", ["classic", "defaults", "best"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_stereo_is_the_library_s(space, c, rng, preset, dtype):
    classic = preset == "classic"
    base = rng.integers(0, 256, (40, 70), dtype=np.uint8).repeat(2, 0)[:40]
    left, right = base, np.roll(base, -3, 1)
    if dtype == "float32":
        left, right = (a.astype(np.float32) / 255 for a in (left, right))
    options = cusight.StereoOptions() if preset == "defaults" else getattr(cusight.StereoOptions, preset)()
    options = dataclasses.replace(options, shifts=30)
    native = getattr(c.lib, f"cusStereo{preset.title()}")()
    names = [name for name, _ in clib.StereoOptions._fields_ if name != "reserved"]
    assert [getattr(native, n) for n in names] == pytest.approx([getattr(options._options(), n) for n in names])
    first = cusight.stereo_edges if classic else cusight.stereo_census
    codes = []
    for image in (left, right):
        expected = np.empty((40, 70), np.uint8)
        c.call("cusStereoEdges" if classic else "cusStereoCensus", image, expected, native, None)
        codes.append(first(space.put(image), options))
        assert np.array_equal(space.get(codes[-1]), expected)
    elevation = cusight.stereo_elevation(*codes, options)
    expected = np.empty((40, 70), np.uint16)
    c.call("cusStereoElevation", *(np.ascontiguousarray(space.get(e)) for e in codes), expected, native, None)
    assert np.array_equal(space.get(elevation), expected)
    filled = cusight.stereo_fill(cusight.stereo_filter_speckles(elevation, options), options)
    if options.median:
        filled = cusight.stereo_median(filled, options.median)
    contours = cusight.stereo_contours(filled, options)
    picture = space.get(cusight.stereo_picture(filled, contours))
    assert picture.shape == (40, 70, 3) and not picture[space.get(contours) > 0].any()
    with cusight.ContourMapper((40, 70), options, dtype=dtype, device=space.device) as mapper:
        whole, lines = mapper(space.put(left), space.put(right))
    assert np.array_equal(space.get(whole), space.get(filled)) and np.array_equal(space.get(lines), space.get(contours))


def test_stereo_confidence_and_range(space, c, rng):
    base = rng.integers(0, 256, (40, 120), dtype=np.uint8)
    options = cusight.StereoOptions(shifts=16, subpixel_bits=4, min_confidence=5)
    codes = [cusight.stereo_census(space.put(image)) for image in (base, np.roll(base, -9, 1))]
    elevation, confidence = cusight.stereo_elevation_confidence(*codes, options)
    native = c.lib.cusStereoDefaults()
    native.shifts, native.subpixel_bits, native.min_confidence = 16, 4, 5
    expected = np.empty((40, 120), np.uint16), np.empty((40, 120), np.uint8)
    c.call("cusStereoElevationConfidence", *(np.ascontiguousarray(space.get(e)) for e in codes), *expected, native, None)
    assert np.array_equal(space.get(elevation), expected[0]) and np.array_equal(space.get(confidence), expected[1])
    assert np.array_equal(space.get(cusight.stereo_elevation(*codes, options)), expected[0])
    expected[0][10:14, 40:44] = 900  # a speckle, which matched noise has none of
    speckles = cusight.StereoOptions(subpixel_bits=4, speckle_size=30)
    native.speckle_size = 30
    c.call("cusStereoFilterSpeckles", expected[0], filtered := np.empty_like(expected[0]), native, None)
    assert 0 < np.count_nonzero(filtered) < np.count_nonzero(expected[0])
    assert np.array_equal(space.get(cusight.stereo_filter_speckles(space.put(expected[0]), speckles)), filtered)
    assert cusight.stereo_find_shifts(*codes) == 24  # 10, a margin of 1 + 8, and up to a multiple of 8
    sloped = dataclasses.replace(cusight.StereoOptions.best(), shifts=16, p2_slope=2)
    with pytest.raises(ValueError, match="p2_slope is 2, expected 0"):  # codes have no gradient
        cusight.stereo_elevation(*codes, sloped)
    with cusight.ContourMapper((40, 120), sloped, device=space.device) as mapper:
        assert space.get(mapper(space.put(base), space.put(np.roll(base, -9, 1)))[0]).any()


def test_relaxed_elevation_is_float(rng):
    options = cusight.StereoOptions(fill="relax", shifts=8)
    image = rng.integers(0, 256, (20, 30), dtype=np.uint8)
    with cusight.ContourMapper((20, 30), options) as mapper:
        assert mapper(image, image)[0].dtype == np.float32


KINDS = ["histogram", "mdes", "mdes_count", "tencode", "stacked_histogram", "voxel_grid", "time_surface", "event_diff"]


@pytest.mark.parametrize("kind", KINDS)
def test_stacks_are_the_library_s(space, c, events, kind):
    inside = [(0, 1000), (500, 500), (900, 4100)]
    windows = np.array(inside, np.uint64)
    frames = space.get(cusight.stack_events(*(space.put(a) for a in events), (48, 64), windows=windows, representation=kind))
    expected = np.empty_like(frames)
    c.stack(events, (48, 64), KINDS.index(kind), windows, expected)
    if kind == "time_surface" and space.device == "cuda":
        assert np.allclose(frames, expected, rtol=2e-7, atol=0)
    else:
        assert np.array_equal(frames, expected)


def test_histogram_counts_events(space, events):
    frames = space.get(cusight.stack_events(*(space.put(a) for a in events), (48, 64), windows=2000))
    assert frames.shape == (3, 48, 64, 2) and frames.dtype == np.uint8  # the last one has 1000 of 2000
    for w, frame in enumerate(frames):
        expected = np.zeros((48, 64, 2), int)
        part = [a[w * 2000 : (w + 1) * 2000] for a in events]
        keep = (part[0] < 64) & (part[1] < 48)
        np.add.at(expected, (part[1][keep], part[0][keep], 1 - part[2][keep].astype(int)), 1)
        assert np.array_equal(frame, expected)


@pytest.mark.parametrize("normalize, ddof", [(True, 0), ("population", 0), ("sample", 1)])
def test_normalized_voxels(space, events, normalize, ddof):
    both = [cusight.Representation("voxel_grid", 3), cusight.Representation("voxel_grid", 3, normalize=normalize)]
    stacked = cusight.stack_events(*(space.put(a) for a in events), (48, 64), windows=1000, representation=both)
    plain, got = (space.get(frames).astype(float) for frames in stacked)
    for grid, frame in zip(plain, got):
        values = grid[grid != 0]
        expected = np.where(grid != 0, (grid - values.mean()) / values.std(ddof=ddof), 0)
        assert np.allclose(frame, expected, rtol=3e-7, atol=1e-12)
    with pytest.raises(cusight.Error, match="Representation: normalize is 'both', expected population or sample"):
        cusight.EventStacker((48, 64), cusight.Representation("voxel_grid", normalize="both"))


@pytest.mark.parametrize("options", [{"kind": "voxel_grid"}, {"kind": "voxel_grid", "normalize": True}, {"kind": "event_cube"}, {"kind": "time_surface"}])
def test_half_precision(space, events, options):
    both = [cusight.Representation(**options, depth=depth) for depth in ("float32", "float16")]
    wide, half = (space.get(frames) for frames in cusight.stack_events(*(space.put(a) for a in events), (48, 64), windows=1000, representation=both))
    assert half.dtype == np.float16
    assert np.array_equal(wide.astype(np.float16).view(np.uint16), half.view(np.uint16))
    out = space.put(np.zeros_like(half))
    assert cusight.stack_events(*(space.put(a) for a in events), (48, 64), windows=1000, representation=both[1], out=out) is out
    assert np.array_equal(space.get(out), half)
    with pytest.raises(TypeError, match=f"{options['kind']}'s depth is 0, expected CUS_32F or CUS_16F"):
        cusight.EventStacker((48, 64), cusight.Representation(**options, depth="uint8"))


def test_several_representations_and_outputs(space, events):
    arrays = [space.put(a) for a in events]
    both = [cusight.Representation("mdes", 4, depth="float32"), "event_diff"]
    out = [space.put(np.zeros((5, 48, 64, 4), np.float32)), space.put(np.zeros((5, 48, 64, 1), np.int8))]
    with cusight.EventStacker((48, 64), both, device=space.device) as stacker:
        frames = stacker(*arrays, windows=1000, out=out)
        assert frames[0] is out[0] and frames[1] is out[1]
        assert stacker.skipped() == int(((events.x >= 64) | (events.y >= 48)).sum())
    again = cusight.stack_events(*arrays, (48, 64), windows=1000, representation=both)
    assert all(np.array_equal(space.get(a), space.get(b)) for a, b in zip(frames, again))
    cusight.release_workspace()


def test_windows(space, events, c):
    t = space.put(events.t)
    native = c.lib.cusWindowingDefaults()
    native.unit, native.length, native.stride, native.keep = 1, 7000, 5000, 1
    expected = np.zeros((100, 2), np.uint64)
    count = ct.c_size_t()
    arrays = clib.Events(*(a.ctypes.data for a in events), len(events.t), 0)
    c.call("cusEventWindows", arrays, native, expected.ctypes.data_as(ct.c_void_p), ct.c_size_t(100), ct.byref(count), None)
    listed = cusight.event_windows(t, windows=cusight.Windowing(7000, 5000, "duration", True))
    assert np.array_equal(listed, expected[: count.value])
    assert cusight.event_windows(count=1_000_000).tolist()[:2] == [[0, 200000], [200000, 400000]]
    assert len(cusight.event_windows(t, windows="10ms")) == 9


SMALL = np.zeros((4, 4), np.uint8)


class Place:
    """As a torch.device."""

    def __init__(self, text):
        self.type, _, index = text.partition(":")
        self.index = int(index) if index else None

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"


def test_templates_go_to_the_device(gpu, rng):
    """Templates and masks on the CPU, frames on the GPU, and the other way round."""
    image, mask = rng.integers(0, 256, (60, 80), dtype=np.uint8), np.ones((9, 9), np.uint8)
    part = image[20:29, 30:39].copy()
    for device, put, template, kept in (("cuda", gpu.put, part, mask), ("cpu", np.asarray, gpu.put(part), gpu.put(mask))):
        for place in (device, Place(device)):
            with cusight.Matcher(template, image.shape, mask=kept, device=place) as matcher:
                assert [matcher(put(image))[0][axis] for axis in "xy"] == [30, 20]
            with cusight.PoseMatcher(template, image.shape, mask=kept, device=place) as poses:
                assert [poses(put(image))[0][axis] for axis in ("col", "row")] == [30, 20]


def test_devices_of_every_class(events):
    """Each takes the same words, and objects of the kind of torch.device."""
    x, y, p, t = events
    for device in ("cpu", Place("cpu")):
        for made in (
            cusight.Integrator((48, 64), device=device),
            cusight.Matcher(SMALL, (48, 64), mask=SMALL | 1, device=device),
            cusight.PoseMatcher(SMALL, (48, 64), mask=SMALL | 1, device=device),
            cusight.SparseDiff((48, 64), device=device),
            cusight.DiffEncoder((48, 64), device=device),
            cusight.DiffDecoder((48, 64), device=device),
            cusight.MotionDetector((48, 64), device=device),
            cusight.ContourMapper((48, 64), device=device),
            cusight.EventStacker((48, 64), device=device),
            cusight.EventPipeline((48, 64), "mdes", print, device=device, deliver=device),
            cusight.events.EventGenerator((48, 64), device=device),
        ):
            made.close()
        assert len(list(cusight.events.open(b"64 48\n10 1 1 1\n").frames(windows=1, device=device))) == 1
    if not cusight.device_count():
        for make in (cusight.Matcher, cusight.PoseMatcher):
            with pytest.raises(RuntimeError):
                make(SMALL, (48, 64), device="cuda")
