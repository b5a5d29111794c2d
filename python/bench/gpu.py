"""The package on a GPU, against its limits: the tests with PyTorch and CuPy, then every figure in one run.

    python python/bench/gpu.py libcusight.so [--json FILE] [--seconds 150]

`python/bench/gpu` builds package and library for the GPU of this machine and runs this. Needs PyTorch (CuPy is measured too if it is
there) and a C compiler. The exit status is 1 if a test failed or a limit was missed; the JSON is written in any case. With
--device cpu --events 2000000 the measurements can be tried out on a machine without a GPU.

call overhead    what a call on resident data costs the calling thread, above the C call in a loop: at most 5 us
60M events       into 300 histograms by one call: at most 3 % more than C, and 15 times as fast as the fastest of PyTorch's own ways
device memory    after 10,000 calls: as before
import           below 0.2 s, without PyTorch and CuPy
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from pathlib import Path
from typing import Any, Callable

import cusight
import cusight.__main__
import numpy as np

import overhead

TESTS = Path(__file__).resolve().parent.parent / "tests"
WINDOW, ROWS, COLS = 200_000, 720, 1280
HEATMAP_TYPE = 16


class Report:
    """What was measured, and against which limit."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, name: str, value: float, unit: str, limit: float | None = None, least: bool = False, **more: Any) -> None:
        met = limit is None or (value >= limit if least else value <= limit)
        row = {"name": name, "value": float(f"{value:.5g}"), "unit": unit, "met": met, **more}
        if limit is not None:
            row["limit"] = f"{'at least' if least else 'at most'} {limit:g}"
        self.rows.append(row)
        print(f"{'' if met else 'MISSED '}{name}: {value:.4g} {unit}{', ' + row['limit'] if limit is not None else ''}", flush=True)


# ---- Tests --------------------------------------------------------------------------------------------------------------


def run_tests(library: Path, seconds: float) -> dict[str, Any]:
    """Runs the package's tests in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", f"--junitxml={report}", str(TESTS)]
        environment = {**os.environ, "CUSIGHT_LIBRARY": str(library)}
        try:
            ended = subprocess.run(command, env=environment, cwd=TESTS.parent.parent, timeout=seconds, check=False).returncode
        except subprocess.TimeoutExpired:
            return {"passed": 0, "failed": 1, "skipped": 0, "note": f"not finished after {seconds:.0f} s"}
        if not report.exists():
            return {"passed": 0, "failed": 1, "skipped": 0, "note": f"pytest ended with status {ended}"}
        cases = list(xml.etree.ElementTree.parse(report).getroot().iter("testcase"))
    bad = [f"{c.get('classname')}.{c.get('name')}" for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = [c.find("skipped") for c in cases if c.find("skipped") is not None]
    reasons = sorted({str(s.get("message")) for s in skipped if s is not None})
    failed = max(len(bad), int(ended not in (0, 5)))
    return {"passed": len(cases) - len(bad) - len(skipped), "failed": failed, "skipped": len(skipped), "names": bad, "reasons": reasons}


# ---- Frameworks ---------------------------------------------------------------------------------------------------------


class Torch:
    name = "torch"

    def __init__(self, device: str) -> None:
        import torch

        self.lib, self.device, self.space = torch, device, int(device == "cuda")
        torch.zeros(1, device=device)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.lib.zeros(shape, dtype=getattr(self.lib, dtype), device=self.device)

    def pointer(self, array: Any) -> ctypes.c_void_p:
        return ctypes.c_void_p(array.data_ptr())

    def wait(self) -> None:
        if self.space:
            self.lib.cuda.synchronize()


class Cupy:
    name, space = "cupy", 1

    def __init__(self, device: str) -> None:
        if device == "cpu":
            raise ImportError("it has no arrays on the CPU")
        import cupy

        self.lib = cupy
        cupy.zeros(1)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.lib.zeros(shape, dtype)

    def pointer(self, array: Any) -> ctypes.c_void_p:
        return ctypes.c_void_p(array.data.ptr)

    def wait(self) -> None:
        self.lib.cuda.get_current_stream().synchronize()


# ---- Call overhead -------------------------------------------------------------------------------------------------------


def queued(lib: Any, call: Callable[[], object], calls: int) -> float:
    """Seconds that a call takes the calling thread. Few enough calls that the queue of the device never fills."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    took = (time.perf_counter() - start) / calls
    lib.wait()
    return took


def measure_overhead(report: Report, loops: ctypes.CDLL, lib: Any, rounds: int = 60, calls: int = 200) -> None:
    rows, cols = 64, 64
    image, table = lib.empty((rows, cols), "uint8"), lib.empty((rows + 1, cols + 1), "int32")
    prev, cur, heat = (lib.empty((rows, cols, 3), "uint8") for _ in range(3))
    count, length = 1000, 100
    x, y = (lib.empty((count,), "uint16") for _ in range(2))
    p, t = lib.empty((count,), "uint8"), lib.empty((count,), "int64")
    frames = lib.empty((count // length, rows, cols, 2), "uint8")
    lib.wait()
    at = lib.pointer
    events = at(x), at(y), at(p), at(t), ctypes.c_size_t(count), rows, cols, ctypes.c_size_t(length), at(frames)
    natives = {
        "integral": lambda: loops.time_integral(lib.space, at(image), rows, cols, 0, at(table), 0, calls),
        "heatmap": lambda: loops.time_heatmap(lib.space, at(prev), at(cur), rows, cols, HEATMAP_TYPE, at(heat), 0, calls),
    }
    if lib.space:
        natives["stack_events"] = lambda: loops.time_histograms(lib.space, *events, 1, calls)
    works: dict[tuple[str, str], Callable[[], object]] = {
        ("integral", "out="): lambda: cusight.integral(image, out=table),
        ("integral", "new output"): lambda: cusight.integral(image),
        ("heatmap", "out="): lambda: cusight.heatmap(prev, cur, out=heat),
        ("heatmap", "new output"): lambda: cusight.heatmap(prev, cur),
    }
    if lib.space:
        works["stack_events", "out="] = lambda: cusight.stack_events(x, y, p, t, (rows, cols), windows=length, out=frames)
    native = dict.fromkeys(natives, float("inf"))
    mine = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):  # in turns, so that all see the same machine
        for name, loop in natives.items():
            native[name] = min(native[name], loop())
        for key, work in works.items():
            mine[key] = min(mine[key], queued(lib, work, calls))
    for (name, kind), seconds in mine.items():
        # The framework allocates new outputs: that cost is its own and has no limit here.
        make = alone(lib, name, rows, cols, rounds, calls) if kind == "new output" else 0.0
        more = {"c_us": round(native[name] * 1e6, 3), "python_us": round(seconds * 1e6, 3), "allocation_us": round(make * 1e6, 3)}
        report.add(f"call overhead, {lib.name}, {name}, {kind}", (seconds - native[name] - make) * 1e6, "us", 5, **more)


def alone(lib: Any, name: str, rows: int, cols: int, rounds: int, calls: int) -> float:
    """What the framework takes to allocate the output."""
    shape, dtype = ((rows + 1, cols + 1), "int32") if name == "integral" else ((rows, cols, 3), "uint8")
    if lib.name == "torch":
        kind = getattr(lib.lib, dtype)
        return min(queued(lib, lambda: lib.lib.empty(shape, dtype=kind, device=lib.device), calls) for _ in range(rounds))
    return min(queued(lib, lambda: lib.lib.empty(shape, dtype), calls) for _ in range(rounds))


# ---- 60 M events ---------------------------------------------------------------------------------------------------------


def repeat(call: Callable[[], object], calls: int) -> None:
    for _ in range(calls):
        call()


def finished(lib: Any, call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    lib.wait()
    return time.perf_counter() - start


def pytorch_ways(lib: Torch, x: Any, y: Any, p: Any) -> dict[str, Callable[[], Any]]:
    """PyTorch's own ways to 300 histograms: keys of the counters, then a sum by key; 50 windows at a time, which need less memory and
    are faster than all at once."""
    torch, device = lib.lib, lib.device
    together = min(50, len(x) // WINDOW)
    part = together * WINDOW
    size = together * ROWS * COLS * 2
    window = torch.arange(part, device=device, dtype=torch.int32) // WINDOW * ROWS
    short_x, short_y = x.view(torch.int16), y.view(torch.int16)
    ones = {kind: torch.ones(part, dtype=kind, device=device) for kind in (torch.int32, torch.float32)}

    def keys(at: slice) -> Any:  # below 2^31, so in 32 bits
        return ((window + short_y[at]) * COLS + short_x[at]) * 2 + (p[at] == 0)

    def counted(counts: Any) -> Any:
        return counts.clamp_(max=255).to(torch.uint8)

    def zeros(kind: Any) -> Any:
        return torch.zeros(size, dtype=kind, device=device)

    ways = {
        "scatter_add_ int32": lambda at: zeros(torch.int32).scatter_add_(0, keys(at).long(), ones[torch.int32]),
        "scatter_add_ float32": lambda at: zeros(torch.float32).scatter_add_(0, keys(at).long(), ones[torch.float32]),
        "index_add_ int32": lambda at: zeros(torch.int32).index_add_(0, keys(at), ones[torch.int32]),
        "index_put_": lambda at: zeros(torch.int32).index_put_((keys(at).long(),), ones[torch.int32][:1].squeeze(), accumulate=True),
        "bincount": lambda at: torch.bincount(keys(at), minlength=size),
    }
    parts = [slice(first, first + part) for first in range(0, len(x), part)]
    return {name: lambda way=way: [counted(way(at)) for at in parts] for name, way in ways.items()}


def measure_events(report: Report, loops: ctypes.CDLL, lib: Torch, events: int, deadline: float, rounds: int = 25) -> None:
    torch = lib.lib
    generator = torch.Generator(lib.device).manual_seed(1)
    limits = ((COLS, torch.int16), (ROWS, torch.int16), (2, torch.uint8))
    x, y, p = (torch.randint(0, high, (events,), dtype=kind, device=lib.device, generator=generator) for high, kind in limits)
    x, y = x.view(torch.uint16), y.view(torch.uint16)
    t = torch.arange(events, device=lib.device, dtype=torch.int64) // 10
    n = events // WINDOW
    out = torch.zeros((n, ROWS, COLS, 2), dtype=torch.uint8, device=lib.device)
    at = lib.pointer
    sizes = ctypes.c_size_t(events), ROWS, COLS, ctypes.c_size_t(WINDOW)

    def native(calls: int) -> float:
        return float(loops.time_histograms(lib.space, at(x), at(y), at(p), at(t), *sizes, at(out), 0, calls))

    def mine(target: Any = None) -> Any:
        return cusight.stack_events(x, y, p, t, (ROWS, COLS), windows=WINDOW, representation="histogram", out=target)

    native(1)
    by_c = out.clone()
    assert torch.equal(mine(), by_c), "the package's histograms differ from the library's"
    calls = 10
    times: dict[str, list[float]] = {name: [] for name in ("C", "out=", "new output", "C, one call", "one call, out=", "one call, new output")}
    for _ in range(rounds):
        times["C"].append(native(calls))
        times["out="].append(finished(lib, lambda: repeat(lambda: mine(out), calls)) / calls)
        times["new output"].append(finished(lib, lambda: repeat(mine, calls)) / calls)
        times["C, one call"].append(native(1))
        times["one call, out="].append(finished(lib, lambda: mine(out)))
        times["one call, new output"].append(finished(lib, lambda: mine()))
    middle = {name: float(np.median(list_)) for name, list_ in times.items()}
    for kind in ("out=", "new output"):
        more = {"c_ms": round(middle["C"] * 1e3, 5), "python_ms": round(middle[kind] * 1e3, 5)}
        report.add(f"{events / 1e6:g}M events into {n} histograms, {kind}, queued calls, to C", middle[kind] / middle["C"], "times", 1.03, **more)
        one = f"one call, {kind}"
        more = {"c_ms": round(middle["C, one call"] * 1e3, 5), "python_ms": round(middle[one] * 1e3, 5)}
        report.add(f"{events / 1e6:g}M events into {n} histograms, {kind}, a call until it is finished, to C", middle[one] / middle["C, one call"], "times", **more)
    ways: dict[str, float] = {}
    for name, way in pytorch_ways(lib, x, y, p).items():
        if time.monotonic() > deadline:
            print(f"no time left for {name}")
            continue
        try:
            same = torch.equal(torch.cat(way()).view_as(by_c), by_c)
            samples = [finished(lib, way) for _ in range(5)]
        except RuntimeError as error:
            print(f"{name}: {str(error)[:200]}")
            continue
        if not same:
            print(f"{name}: differs from the library's histograms")
            continue
        ways[name] = min(samples) * 1e3
        print(f"PyTorch, {name}: {ways[name]:.2f} ms")
    if ways:
        fastest = min(ways, key=lambda name: ways[name])
        more = {"ways_ms": {name: round(ms, 4) for name, ms in ways.items()}}
        gain = ways[fastest] / 1e3 / middle["one call, new output"]
        report.add(f"{events / 1e6:g}M events, gain on PyTorch's fastest way ({fastest})", gain, "times", 15, least=True, **more)


# ---- Memory --------------------------------------------------------------------------------------------------------------


def measure_memory(report: Report, lib: Any, calls: int = 10_000) -> None:
    image = lib.empty((540, 960), "uint8")
    frame = lib.empty((540, 960, 3), "uint8")
    x, y = lib.empty((1000,), "uint16"), lib.empty((1000,), "uint16")
    p, t = lib.empty((1000,), "uint8"), lib.empty((1000,), "int64")

    def work() -> None:
        cusight.integral(image)
        cusight.heatmap(frame, frame)
        cusight.stack_events(x, y, p, t, (100, 100), windows=1000)

    def free() -> int:
        lib.wait()
        return int(str(cusight.device_info(0)["memory_free"]))

    for _ in range(200):
        work()
    before = free()
    for _ in range(calls):
        work()
    report.add(f"device memory taken by {3 * calls} calls, {lib.name}", (before - free()) / 2**20, "MiB", 16)


# ---- All -----------------------------------------------------------------------------------------------------------------


def measure(report: Report, library: Path, device: str, events: int, deadline: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        loops = overhead.compile_loops(library, folder)
        libs: list[Any] = []
        for make in (Torch, Cupy):
            try:
                libs.append(make(device))
            except ImportError as error:
                print(f"{make.name}: left out: {error}")
        for lib in libs:
            measure_overhead(report, loops, lib)
            if lib.space:
                measure_memory(report, lib)
        if libs and libs[0].name == "torch":
            measure_events(report, loops, libs[0], events, deadline)
        for name, (native, mine) in overhead.numpy_images(loops, 15).items():
            limit = None if "8x8" in name else 1.03
            more = {"c_ms": round(native * 1e3, 5), "python_ms": round(mine * 1e3, 5)}
            report.add(f"NumPy, {name}, to C", mine / native, "times", limit, **more)
        report.add("import", overhead.import_seconds(), "s", 0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared_object", type=Path, metavar="library")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=150, help="limit for all (default 150); the tests may take two thirds of it")
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--events", type=int, default=60_000_000, help="a multiple of 10 million, or fewer (default 60000000)")
    options = parser.parse_args()
    start = time.monotonic()
    library = options.shared_object.resolve()
    described = cusight.__main__.describe()
    print("\n".join(described), flush=True)
    result: dict[str, Any] = {"device": options.device, "described": described}
    if options.device == "cuda":
        if not cusight.device_count():
            sys.exit("gpu.py: there is no GPU, or this build cannot use it")
        result.update(gpu=cusight.device_info(0)["name"], driver=cusight.device_info(0)["driver_version"])
    if not options.no_tests:
        result["tests"] = run_tests(library, options.seconds * 2 / 3)
        result["tests_seconds"] = round(time.monotonic() - start, 1)
        print(json.dumps(result["tests"], indent=1), flush=True)
    report = Report()
    error = ""
    try:
        measure(report, library, options.device, options.events, start + options.seconds - 20)
    except Exception as caught:  # what was measured before is written all the same
        error = f"{type(caught).__name__}: {caught}"
        print(error)
    result.update(rows=report.rows, seconds=round(time.monotonic() - start, 1), **({"error": error} if error else {}))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    missed = [row["name"] for row in report.rows if not row["met"]]
    print(f"{len(report.rows) - len(missed)} of {len(report.rows)} within their limits, {result['seconds']} s")
    return 1 if error or missed or result.get("tests", {}).get("failed") else 0


if __name__ == "__main__":
    raise SystemExit(main())
