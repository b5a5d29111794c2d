"""PyTorch's operators: opcheck, torch.compile without a break, results like the functions', and what they refuse."""

from __future__ import annotations

import cusight
import numpy as np
import pytest

torch = pytest.importorskip("torch")
ops = pytest.importorskip("cusight.ops")
from torch import library  # noqa: E402

SHAPE = (48, 64)


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    if request.param == "cuda" and not cusight.device_count():
        pytest.skip("there is no GPU")
    return request.param


@pytest.fixture(autouse=True)
def fresh():
    """Compilations of other tests count for the limit of a function's."""
    torch._dynamo.reset()


@pytest.fixture
def given(rng, events, device):
    """Tensors by name."""
    image = rng.integers(0, 256, (40, 60, 3), np.uint8)
    made = {
        "image": image, "gray": image[..., 0].copy(), "next": rng.integers(0, 256, (40, 60, 3), np.uint8), "part": image[5:15, 7:20].copy(),
        "floats": image[..., 0].astype(np.float32), "mask": (rng.random((10, 13)) < 0.8).astype(np.uint8),
        "map": rng.random((9, 11, 2), np.float32) * 40,
    }  # fmt: skip
    tensors = {name: torch.from_numpy(array).to(device) for name, array in made.items()}
    tensors["events"] = [torch.from_numpy(column).to(device) for column in events]
    tensors["windows"] = torch.tensor([[0, 700], [300, 300], [600, 5000]])
    return tensors


def matched(g):
    """What `Matcher` finds, as ops.match gives it."""
    found = cusight.Matcher(g["part"], g["image"].shape, mask=g["mask"], max_matches=3, min_distance=2)(g["image"])
    places = torch.tensor([[one["x"], one["y"]] for one in found], dtype=torch.int32, device=g["image"].device)
    return places, torch.tensor(found["score"].tolist(), dtype=torch.float64, device=g["image"].device)


# Each operator's call, and the function that gives the same.
CALLS = {
    "integral": (lambda g: ops.integral(g["image"]), lambda g: cusight.integral(g["image"])),
    "integral wide": (lambda g: ops.integral(g["gray"], sum_depth="float64"), lambda g: cusight.integral(g["gray"], sum_depth="float64")),
    "integral floats": (
        lambda g: ops.integral(g["floats"], reproducible=True), lambda g: cusight.integral(g["floats"], reproducible=True),
    ),
    "integral_squares": (lambda g: ops.integral_squares(g["image"]), lambda g: cusight.integral(g["image"], sqsum=True)),
    "match_template": (
        lambda g: ops.match_template(g["image"], g["part"], "sqdiff", mask=g["mask"]),
        lambda g: cusight.match_template(g["image"], g["part"], "sqdiff", mask=g["mask"]),
    ),
    "match": (lambda g: ops.match(g["image"], g["part"], mask=g["mask"], max_matches=3, min_distance=2), matched),
    "heatmap": (lambda g: ops.heatmap(g["image"], g["next"], full_scale=300),
                lambda g: cusight.heatmap(g["image"], g["next"], full_scale=300)),
    "remap": (lambda g: ops.remap(g["image"], g["map"]), lambda g: cusight.remap(g["image"], g["map"])),
    "stack_events": (
        lambda g: ops.stack_events(*g["events"], SHAPE, windows=700), lambda g: cusight.stack_events(*g["events"], SHAPE, windows=700),
    ),
    "stack_events listed": (
        lambda g: ops.stack_events(*g["events"], SHAPE, windows=g["windows"], representation="event_diff"),
        lambda g: cusight.stack_events(*g["events"], SHAPE, windows=g["windows"], representation="event_diff"),
    ),
    "stack_events voxel_grid": (
        lambda g: ops.stack_events(*g["events"], SHAPE, representation="voxel_grid", bins=3, normalize="sample"),
        lambda g: cusight.stack_events(
            *g["events"], SHAPE, windows=5000, representation=cusight.Representation("voxel_grid", 3, normalize="sample")
        ),
    ),
}  # fmt: skip


def as_list(result):
    return list(result) if isinstance(result, tuple) else [result]


def same(found, expected):
    pairs = zip(as_list(found), as_list(expected), strict=True)
    return all(a.dtype == b.dtype and a.shape == b.shape and a.device == b.device and bool((a == b).all()) for a, b in pairs)


@pytest.mark.parametrize("name", CALLS)
def test_as_the_functions(name, given):
    call, function = CALLS[name]
    assert same(call(given), function(given))


@pytest.mark.parametrize("name", CALLS)
def test_compiled_without_a_break(name, given):
    """Under the current stream, on a GPU; sizes are symbols."""
    call, function = CALLS[name]
    compiled = torch.compile(lambda g: [one + one for one in as_list(call(g))], fullgraph=True, dynamic=True, backend="aot_eager")
    assert same(tuple(compiled(given)), tuple(one + one for one in as_list(function(given))))


def test_every_operator_is_compiled():
    assert {name.split()[0] for name in CALLS} == set(ops.__all__)


def test_compiled_for_other_sizes(given):
    runs = []
    compiled = torch.compile(
        lambda image, *events: (ops.integral(image), ops.stack_events(*events, SHAPE, windows=700)), fullgraph=True, dynamic=True,
        backend=lambda graph, inputs: runs.append(1) or graph,
    )  # fmt: skip
    for rows, count in (40, 5000), (30, 4200), (20, 701):
        image, events = given["gray"][:rows].clone(), [column[:count].clone() for column in given["events"]]
        table, frames = compiled(image, *events)
        assert same(table, cusight.integral(image)) and same(frames, cusight.stack_events(*events, SHAPE, windows=700))
    assert len(runs) == 1


def arguments(g):
    """Of the operators themselves."""
    yield "integral", (g["image"], "int32", False)
    yield "integral", (g["floats"], "int32", True)
    yield "integral_squares", (g["gray"], "float64", False)
    yield "match_template", (g["gray"], g["gray"][3:9, 4:20].contiguous(), "ccorr", None)
    yield "match_template", (g["image"], g["part"], "ccoeff-normed", g["mask"])
    yield "match", (g["image"], g["part"], "sqdiff", None, 3, 2)
    yield "heatmap", (g["image"], g["next"], 765)
    yield "remap", (g["floats"], g["map"])
    yield "stack_events", (*g["events"], *SHAPE, 700, None, "mdes", 4, "")
    yield "stack_events", (*g["events"], *SHAPE, 0, g["windows"], "event_cube", None, "")
    yield "stack_events", (*g["events"], *SHAPE, 0, None, "voxel_grid", 5, "population")


def test_opcheck(given):
    checked = set()
    for name, args in arguments(given):
        found = library.opcheck(getattr(torch.ops.cusight, name).default, args)
        assert set(found.values()) == {"SUCCESS"}, (name, found)
        checked.add(name)
    assert checked == set(ops.__all__)


def test_matches(given):
    image, part = given["image"], given["part"]
    places, scores = ops.match(image, part, max_matches=4, min_distance=3)
    found = cusight.Matcher(part, image.shape, max_matches=4, min_distance=3)(image)
    assert places.tolist() == [[one["x"], one["y"]] for one in found] and scores.tolist() == found["score"].tolist()
    places, scores = ops.match(part, part, max_matches=2)  # of one place
    assert places.tolist() == [[0, 0], [-1, -1]] and scores[0] == 1 and scores[1].isnan()


@pytest.mark.parametrize("kind", cusight._events._KINDS)
def test_every_representation(kind, given):
    x, y, p, t = (column[:0] for column in given["events"])
    call = torch.compile(lambda *events: ops.stack_events(*events, SHAPE, representation=kind), fullgraph=True, backend="eager")
    assert same(call(x, y, p, t), cusight.stack_events(x, y, p, t, SHAPE, representation=kind, windows=[(0, 0)]))


def test_gradients_are_refused(given):
    floats = given["floats"].clone().requires_grad_()
    table = ops.integral(floats)
    with pytest.raises(RuntimeError, match=r"cusight.ops.integral has no gradient: call it under torch.no_grad\(\), or detach\(\)"):
        table.sum().backward()
    with torch.no_grad():
        assert not ops.integral(floats).requires_grad


def test_errors(given):
    with pytest.raises(ValueError, match="expected at most the frame"):
        ops.match_template(given["part"], given["image"])
    with pytest.raises(TypeError, match="windows is '10ms', expected a number of events, .* of event_windows"):
        ops.stack_events(*given["events"], SHAPE, windows="10ms")
