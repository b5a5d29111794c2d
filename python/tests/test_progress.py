"""Progress of long calls, and what ends them: an exception of the function, False, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy
import pytest

import cusight


class Slow:
    """A call that takes a few tenths of a second, or as many seconds as wanted."""

    def __init__(self, iterations: int = 3000) -> None:
        self.holes = numpy.zeros((2000, 2000), numpy.uint16)
        self.holes[0, 0] = 60000
        self.iterations = iterations

    def __call__(self) -> numpy.ndarray:
        return cusight.stereo_fill(self.holes, cusight.StereoOptions(fill="relax", iterations=self.iterations, tolerance=0))


def test_function_is_asked_and_ends_at_one() -> None:
    work, calls = Slow(), []
    expected = work()
    with cusight.progress(lambda done, left: calls.append((done, left))):
        found = work()
    assert numpy.array_equal(found, expected)
    assert len(calls) >= 2 and calls[-1] == (1.0, 0.0)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    asked = len(calls)
    work()
    assert len(calls) == asked


def test_what_the_function_raises_ends_the_call() -> None:
    work = Slow()
    expected = work()

    def stop(done: float, left: float | None) -> None:
        raise LookupError(f"stopped at {done}")

    with cusight.progress(stop), pytest.raises(LookupError, match="stopped at 0"):
        work()
    assert numpy.array_equal(work(), expected)


def test_false_cancels() -> None:
    with cusight.progress(lambda done, left: False), pytest.raises(RuntimeError) as caught:
        Slow()()
    assert isinstance(caught.value, cusight.Error)
    assert caught.value.status == cusight.Status.CANCELLED
    assert str(caught.value).startswith("cusStereoFill: cancelled at ")


def test_what_is_raised_at_the_end_is_not_lost() -> None:
    def stop(done: float, left: float | None) -> None:
        if done == 1:
            raise LookupError("at the end")

    with cusight.progress(stop), pytest.raises(LookupError, match="at the end"):
        Slow()()


def test_blocks_nest() -> None:
    work, outer, inner = Slow(), [], []
    with cusight.progress(lambda done, left: outer.append(done)):
        with cusight.progress(lambda done, left: inner.append(done)):
            work()
        assert inner and not outer
        work()
    assert outer


def test_other_threads_are_not_asked() -> None:
    work, calls, results = Slow(), [], []
    with cusight.progress(lambda done, left: calls.append(done)):
        thread = threading.Thread(target=lambda: results.append(work()))
        thread.start()
        thread.join()
    assert results and not calls


def test_each_thread_has_its_own() -> None:
    work, seen = Slow(), []

    def run() -> None:
        with cusight.progress(lambda done, left: seen.append(threading.get_ident())):
            work()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {thread.ident for thread in threads}


def test_function_may_call_the_library() -> None:
    sums = []
    image = numpy.ones((10, 10), numpy.uint8)
    with cusight.progress(lambda done, left: sums.append(int(cusight.integral(image)[-1, -1]))):
        Slow()()
    assert sums and set(sums) == {100}


def test_function_is_checked() -> None:
    with pytest.raises(TypeError, match="progress: function is 3, expected a function of what is done"):
        cusight.progress(3)  # type: ignore[arg-type]


# Long calls of each kind: `begin` makes what `call` needs, in seconds or more.
CALLS = {
    "pose": (
        """
        frame = random.integers(0, 256, (500, 500), numpy.uint8)
        matcher = cusight.PoseMatcher(random.integers(0, 256, (50, 50), numpy.uint8), (500, 500), angles=range(0, 360))
        """,
        "matcher.run(frame)",
    ),
    "match": (
        """
        frame = random.integers(0, 256, (6000, 6000), numpy.uint8)
        matcher = cusight.Matcher(frame[:300, :300], (6000, 6000), algorithm="fft", max_matches=1000, min_distance=50)
        """,
        "matcher.run(frame)",
    ),
    "stereo": (
        "image = random.integers(0, 256, (4000, 4000), numpy.uint8)",
        "cusight.stereo_elevation(image, image, cusight.StereoOptions(shifts=1024))",
    ),
    "events": (
        """
        n = 60_000_000
        x, y = (random.integers(0, 640, n, numpy.uint16) for _ in range(2))
        p, t = numpy.ones(n, numpy.uint8), numpy.arange(n)
        """,
        """cusight.stack_events(x, y, p, t, (640, 640), windows=[(0, n)], representation=["time_surface", "voxel_grid", "event_cube"])""",
    ),
    "eventgen": (
        """
        video = random.integers(0, 256, (1200, 1600), numpy.uint8)
        generator = cusight.events.EventGenerator((1200, 1600), leak_rate=1, shot_rate=100)
        generator.push(video, 0)
        """,
        "generator.push(video, 16_000_000)",
    ),
    "write": (
        """
        n = 30_000_000
        x, y = (random.integers(0, 640, n, numpy.uint16) for _ in range(2))
        p, t = numpy.ones(n, numpy.uint8), numpy.arange(n)
        writer = cusight.events.EventWriter(folder + "/r.txt", (640, 640))
        """,
        "writer.write(x, y, p, t)",
    ),
}

CHILD = """
import signal, sys, tempfile, time
import numpy, cusight
signal.signal(signal.SIGINT, signal.default_int_handler)
random = numpy.random.default_rng(1)
folder = tempfile.mkdtemp()
{begin}
print("begins", flush=True)
try:
    {call}
    print("done", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert cusight.integral(numpy.ones((3, 3), numpy.uint8))[-1, -1] == 9
"""


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_long_calls(name: str) -> None:
    begin, call = CALLS[name]
    code = CHILD.format(begin=textwrap.dedent(begin), call=call)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert child.stdout is not None
    assert child.stdout.readline() == "begins\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    sent = time.monotonic()
    answer = child.stdout.readline()
    took = time.monotonic() - sent
    child.communicate(timeout=60)
    assert answer == "interrupted\n", f"{name} took less than 0.3 s" if answer == "done\n" else answer
    assert child.returncode == 0
    print(f"{name}: {took:.2f} s")
    assert took < 10, "a second, and what a busy machine adds"
