"""The package against the C library, in one run: small calls, NumPy images of 1080p, the import.

    python python/bench/overhead.py libcusight.so

The C loops (calls.c) are compiled against the library. Each figure is the median of several rounds in which C and Python take turns,
so that both see the same machine.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

import cusight
import numpy as np

HERE = Path(__file__).resolve().parent


def compile_loops(library: Path, folder: str) -> ctypes.CDLL:
    """calls.c as a shared object; its functions return seconds per call."""
    target = Path(folder) / "calls.so"
    include = HERE.parent.parent / "include"
    command = ["cc", "-O2", "-shared", "-fPIC", f"-I{include}", str(HERE / "calls.c"), "-o", str(target), str(library)]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent}"], check=True)
    loops = ctypes.CDLL(str(target))
    loops.time_integral.restype = loops.time_heatmap.restype = loops.time_histograms.restype = ctypes.c_double
    return loops


def seconds(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def compare(name: str, native: Callable[[int], float], call: Callable[[], object], calls: int, rounds: int) -> tuple[float, float]:
    """Seconds per call in C and in Python: medians of rounds in which they take turns, Python first in every other one."""
    times: tuple[list[float], list[float]] = ([], [])
    ways: tuple[Callable[[], float], Callable[[], float]] = (lambda: native(calls), lambda: seconds(call, calls))
    for turn in range(rounds):
        for which in ((0, 1), (1, 0))[turn % 2]:
            times[which].append(ways[which]())
    in_c, mine = statistics.median(times[0]), statistics.median(times[1])
    print(f"{name:<44} C {in_c * 1e6:10.2f} us   Python {mine * 1e6:10.2f} us   {(mine - in_c) * 1e6:+8.2f} us  {mine / in_c:6.3f}")
    return in_c, mine


def pointer(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def numpy_images(loops: ctypes.CDLL, rounds: int) -> dict[str, tuple[float, float]]:
    """{name: (seconds in C, seconds in Python)} of small and of large images."""
    rng = np.random.default_rng(0)
    found = {}
    for rows, cols, calls in ((8, 8, 500), (1080, 1920, 20), (2160, 3840, 8)):
        image = rng.integers(0, 256, (rows, cols), dtype=np.uint8)
        table = np.zeros((rows + 1, cols + 1), np.int32)
        for fresh in (0, 1):
            name = f"integral {cols}x{rows}, {'new table' if fresh else 'out='}"
            found[name] = compare(
                name,
                lambda n: loops.time_integral(0, pointer(image), rows, cols, 0, pointer(table), fresh, n),
                (lambda: cusight.integral(image)) if fresh else (lambda: cusight.integral(image, out=table)),
                calls,
                rounds,
            )
        prev, cur = (rng.integers(0, 256, (rows, cols, 3), dtype=np.uint8) for _ in range(2))
        heat = np.zeros_like(prev)
        for fresh in (0, 1):
            name = f"heatmap {cols}x{rows}x3, {'new picture' if fresh else 'out='}"
            found[name] = compare(
                name,
                lambda n: loops.time_heatmap(0, pointer(prev), pointer(cur), rows, cols, 16, pointer(heat), fresh, n),
                (lambda: cusight.heatmap(prev, cur)) if fresh else (lambda: cusight.heatmap(prev, cur, out=heat)),
                calls,
                rounds,
            )
    return found


def import_seconds() -> float:
    code = "import time; t = time.perf_counter(); import cusight; print(time.perf_counter() - t)"
    took = min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout) for _ in range(9))
    print(f"import cusight: {took * 1e3:.0f} ms")
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared_object", type=Path, metavar="library")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        numpy_images(compile_loops(options.shared_object.resolve(), folder), options.rounds)
    import_seconds()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
