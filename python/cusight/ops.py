"""The library's functions as operators of PyTorch, which `torch.compile` keeps in its graph.

    @torch.compile(fullgraph=True)
    def forward(x, y, p, t):
        return model(cusight.ops.stack_events(x, y, p, t, (720, 1280), representation="voxel_grid", bins=5))

The work runs where the tensors lie, on the GPU in the current stream. Operators have no gradients: a backward pass through one is a
RuntimeError that says so. They are also `torch.ops.cusight.integral` and so on. Needs PyTorch 2.4 or later.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Callable, Literal, Sequence

import torch as _torch
from torch import library as _library

from . import _events, _images, _integral, _match
from ._errors import wrong_type

if TYPE_CHECKING:
    from torch import Tensor

    from ._events import Kind
    from ._integral import Depth
    from ._match import Method

__all__ = ["heatmap", "integral", "integral_squares", "match", "match_template", "remap", "stack_events"]


def __dir__() -> list[str]:
    return __all__


def _operator(schema: str, run: Callable[..., Any], shape: Callable[..., Any], allocates: bool) -> Any:
    """An operator of PyTorch; `shape` makes empty results of sizes that may be symbols."""
    name = schema.partition("(")[0]
    unsafe = getattr(_torch.Tag, "cudagraph_unsafe", None) if allocates else None
    tags = {} if unsafe is None else {"tags": [unsafe]}
    made = _library.custom_op(f"cusight::{name}", run, mutates_args=(), schema=schema[len(name) :], **tags)

    def refuse(context: Any, *gradients: Any) -> Any:
        raise RuntimeError(f"cusight.ops.{name} has no gradient: call it under torch.no_grad(), or detach() what it takes")

    made.register_fake(shape)
    made.register_autograd(refuse)
    return made


# ---- Images -----------------------------------------------------------------------------------------------------------------


def _table(src: Any, dtype: Any) -> Any:
    rows, cols, *channels = src.shape
    return src.new_empty((rows + 1, cols + 1, *channels), dtype=dtype)


def _sums_of(src: Any, sum_depth: str) -> Any:
    return _table(src, _torch.float64 if src.is_floating_point() or sum_depth == "float64" else _torch.int32)


_integral_op = _operator(
    "integral(Tensor src, str sum_depth, bool reproducible) -> Tensor",
    lambda src, sum_depth, reproducible: _integral.integral(src, sum_depth=sum_depth, reproducible=reproducible),
    lambda src, sum_depth, reproducible: _sums_of(src, sum_depth),
    True,
)
_squares_op = _operator(
    "integral_squares(Tensor src, str sum_depth, bool reproducible) -> (Tensor, Tensor)",
    lambda src, sum_depth, reproducible: _integral.integral(src, sum_depth=sum_depth, reproducible=reproducible, sqsum=True),
    lambda src, sum_depth, reproducible: (_sums_of(src, sum_depth), _table(src, _torch.float64)),
    True,
)
_scores_op = _operator(
    "match_template(Tensor image, Tensor templ, str method, Tensor? mask) -> Tensor",
    lambda image, templ, method, mask: _match.match_template(image, templ, method, mask=mask),
    lambda image, templ, method, mask: image.new_empty(
        (image.shape[0] - templ.shape[0] + 1, image.shape[1] - templ.shape[1] + 1), dtype=_torch.float32
    ),
    True,
)


def _best(image: Any, templ: Any, method: Any, mask: Any, max_matches: int, min_distance: int) -> Any:
    with _match.Matcher(
        templ, image.shape, method=method, mask=mask, max_matches=max_matches, min_distance=min_distance
    ) as matcher:  # fmt: skip
        matcher.run(image)
        found = matcher.results().reshape(max_matches, 32)  # as match_dtype()
        return found[:, :8].clone().view(_torch.int32), found[:, 8:16].clone().view(_torch.float64)[:, 0]


_match_op = _operator(
    "match(Tensor image, Tensor templ, str method, Tensor? mask, int max_matches, int min_distance) -> (Tensor, Tensor)",
    _best,
    lambda image, templ, method, mask, max_matches, min_distance: (
        image.new_empty((max_matches, 2), dtype=_torch.int32),
        image.new_empty((max_matches,), dtype=_torch.float64),
    ),
    True,
)
_heatmap_op = _operator(
    "heatmap(Tensor prev, Tensor cur, int full_scale) -> Tensor",
    lambda prev, cur, full_scale: _images.heatmap(prev, cur, full_scale=full_scale),
    lambda prev, cur, full_scale: prev.new_empty((prev.shape[0], prev.shape[1], 3)),
    False,
)
_remap_op = _operator(
    "remap(Tensor src, Tensor map) -> Tensor",
    lambda src, map: _images.remap(src, map),
    lambda src, map: src.new_empty((map.shape[0], map.shape[1], *src.shape[2:])),
    False,
)


def integral(src: Tensor, *, sum_depth: Depth = "int32", reproducible: bool = False) -> Tensor:
    """As `cusight.integral`: (rows + 1, cols + 1), or with channels.

    >>> import cusight.ops, torch
    >>> torch.compile(lambda image: cusight.ops.integral(image) * 2, fullgraph=True, backend="eager")(torch.ones(2, 3))[2]
    tensor([ 0.,  4.,  8., 12.], dtype=torch.float64)
    """
    return _integral_op(src, sum_depth, reproducible)  # type: ignore[no-any-return, unused-ignore]


def integral_squares(src: Tensor, *, sum_depth: Depth = "int32", reproducible: bool = False) -> tuple[Tensor, Tensor]:
    """As `cusight.integral` with sqsum=True: the tables of sums and of squares."""
    return _squares_op(src, sum_depth, reproducible)  # type: ignore[no-any-return, unused-ignore]


def match_template(image: Tensor, templ: Tensor, method: Method = "ccoeff-normed", *, mask: Tensor | None = None) -> Tensor:
    """As `cusight.match_template`: the scores of all places, float32."""
    return _scores_op(image, templ, method, mask)  # type: ignore[no-any-return, unused-ignore]


def match(
    image: Tensor, templ: Tensor, method: Method = "ccoeff-normed", *, mask: Tensor | None = None, max_matches: int = 1,
    min_distance: int = 1,
) -> tuple[Tensor, Tensor]:
    """The best places, as `cusight.Matcher`: x and y, (max_matches, 2) int32, -1 where there is no further match, and their scores,
    float64, NaN there. The template is prepared in each call: a Matcher, which does so once, is faster for many frames.

    >>> import cusight.ops, torch
    >>> image = torch.arange(600, dtype=torch.uint8).reshape(20, 30) ** 2
    >>> [one.tolist() for one in cusight.ops.match(image, image[5:9, 7:12], "sqdiff")]
    [[[7, 5]], [0.0]]
    """
    return _match_op(image, templ, method, mask, max_matches, min_distance)  # type: ignore[no-any-return, unused-ignore]


def heatmap(prev: Tensor, cur: Tensor, *, full_scale: int = 765) -> Tensor:
    """As `cusight.heatmap`: (rows, cols, 3) uint8, BGR."""
    return _heatmap_op(prev, cur, full_scale)  # type: ignore[no-any-return, unused-ignore]


def remap(src: Tensor, map: Tensor) -> Tensor:
    """As `cusight.remap`: the pixels of `src` at the places of `map`, (rows, cols, 2) float32."""
    return _remap_op(src, map)  # type: ignore[no-any-return, unused-ignore]


# ---- Events -----------------------------------------------------------------------------------------------------------------


@lru_cache
def _layout(kind: Any, bins: int | None) -> tuple[int, str]:
    """Channels and element type of a representation's frames."""
    import numpy

    columns = [numpy.zeros(0, dtype) for dtype in ("u2", "u2", "u1", "i8")]
    frames: Any = _events.stack_events(columns, (1, 1), representation=kind, bins=bins, windows=[(0, 0)])
    return frames.shape[3], str(frames.dtype)


def _windows(t: Any, every: int, listed: Any) -> Any:
    return listed if listed is not None else every or [(0, t.shape[0])]


def _stack(
    x: Any, y: Any, p: Any, t: Any, rows: int, cols: int, every: int, listed: Any, kind: Any, bins: int | None, normalize: Any
) -> Any:
    if normalize:
        kind, bins = _events.Representation(kind, bins, normalize=normalize), None
    return _events.stack_events(x, y, p, t, (rows, cols), windows=_windows(t, every, listed), representation=kind, bins=bins)


def _frames(
    x: Any, y: Any, p: Any, t: Any, rows: int, cols: int, every: int, listed: Any, kind: Any, bins: int | None, normalize: Any
) -> Any:
    count = 1 if listed is None else listed.shape[0]
    if listed is None and every:
        count = (t.shape[0] + every - 1) // every
    channels, dtype = _layout(kind, bins)
    return t.new_empty((count, rows, cols, channels), dtype=getattr(_torch, dtype))


_stack_op = _operator(
    "stack_events(Tensor x, Tensor y, Tensor p, Tensor t, SymInt rows, SymInt cols, int every, Tensor? windows, str representation,"
    " int? bins, str normalize) -> Tensor",
    _stack,
    _frames,
    True,
)


def stack_events(
    x: Tensor, y: Tensor, p: Tensor, t: Tensor, shape: Sequence[int], *, windows: int | Tensor | None = None,
    representation: Kind = "histogram", bins: int | None = None, normalize: Literal["", "population", "sample"] = "",
) -> Tensor:
    """As `cusight.stack_events`: (n, rows, cols, channels) in a representation that is given by its name.

    windows: a number of events; (n, 2) int64 on the CPU, the first event and the one after the last of each; None: all events are one
        window. Windows by duration, whose number the events decide: `cusight.event_windows` lists them.
    normalize: of "voxel_grid", as Representation's.

    >>> import cusight.ops, torch
    >>> events = [torch.tensor([1, 2, 2]), torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), torch.tensor([10, 20, 30])]
    >>> cusight.ops.stack_events(*events, (2, 3), windows=2).shape
    torch.Size([2, 2, 3, 2])
    """
    if isinstance(windows, str):
        raise wrong_type("stack_events", "windows", windows, "a number of events, (n, 2) integers of event_windows, or None")
    listed = windows if isinstance(windows, _torch.Tensor) else None
    every: Any = 0 if listed is not None or windows is None else windows
    made: Tensor = _stack_op(x, y, p, t, shape[0], shape[1], every, listed, representation, bins, normalize)
    return made
