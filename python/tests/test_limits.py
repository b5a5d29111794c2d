"""Memory, reference counts, start-up, Ctrl-C, and the interpreter's end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time

import cusight
import numpy as np
import pytest

from conftest import space_or_skip

CALLS = 10_000


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def flat(call, watched, calls=CALLS, slack=2 << 20):
    """`calls` calls leave resident memory, Python's blocks and the reference counts of the arguments as they were."""
    for _ in range(200):
        call()
    grown = []
    for _ in range(3):  # a leak grows every time; the allocator's arenas, and threads of other tests, do not
        gc.collect()
        before, blocks, counts = resident(), sys.getallocatedblocks(), [sys.getrefcount(w) for w in watched]
        for _ in range(calls):
            call()
        gc.collect()
        assert [sys.getrefcount(w) for w in watched] == counts
        grown.append((resident() - before, sys.getallocatedblocks() - blocks))
        if grown[-1][0] < slack and grown[-1][1] < 200:
            return
    raise AssertionError(f"bytes and blocks of Python that {calls} calls left, three times: {grown}")


def test_ten_thousand_calls_leave_nothing(space, rng):
    images = [rng.integers(0, 256, (16, 20, 3), dtype=np.uint8) for _ in range(2)]
    prev, cur = (space.put(i) for i in images)
    gray, out = space.put(images[0][..., 0].copy()), space.put(np.zeros((17, 21), np.int32))
    flat(lambda: cusight.integral(gray), [gray])
    flat(lambda: cusight.integral(gray, out=out), [gray, out])
    flat(lambda: cusight.heatmap(prev, cur), [prev, cur])


def test_ten_thousand_errors_leave_nothing():
    image, out = np.zeros((9, 9), np.float64), np.zeros((3, 3), np.int32)

    def fail():
        for arguments in ({}, {"out": out}):
            try:
                cusight.integral(image, **arguments)
            except cusight.Error:
                pass

    flat(fail, [image, out])


def test_objects_leave_nothing(events):
    frame = np.zeros((16, 20), np.uint8)
    templ = np.zeros((4, 4), np.uint8)

    def work():
        with cusight.Matcher(templ, frame.shape) as matcher:
            matcher(frame)
        with cusight.PoseMatcher(templ, frame.shape, angles=[0, 30], refine=True) as poses:
            poses(frame), poses.template(1, 0)
        with cusight.DiffEncoder(frame.shape) as encoder:
            diff = encoder.encode(frame)
            encoder.reference(), diff.positions(), diff.values()
        recording = cusight.events.open(b"20 16\n10 1 1 1\n20 2 2 0\n")
        list(recording.frames(windows=1))

    flat(work, [frame, templ], calls=500)
    whole = list(events)
    flat(lambda: cusight.stack_events(*whole, (48, 64), windows=1000), whole, calls=1000)


def test_device_memory_stays_flat(gpu, rng):
    image = gpu.put(rng.integers(0, 256, (540, 960), dtype=np.uint8))
    flat(lambda: cusight.integral(image), [image], calls=200)
    before = int(str(cusight.device_info(0)["memory_free"]))
    for _ in range(CALLS):
        cusight.integral(image)
    assert abs(int(str(cusight.device_info(0)["memory_free"])) - before) < 64 << 20


def test_another_stream_waits_for_the_framework(gpu, rng):
    image = rng.integers(0, 256, (2160, 3840), dtype=np.uint8)
    expected = cusight.integral(image)
    if gpu.framework == "torch":
        import torch

        stream = torch.cuda.Stream()
        for _ in range(20):
            source = gpu.put(np.zeros_like(image))
            source.copy_(gpu.put(image))
            table = cusight.integral(source, stream=stream)
            del source
            stream.synchronize()
            assert np.array_equal(gpu.get(table), expected)
    else:
        import cupy

        stream = cupy.cuda.Stream(non_blocking=True)
        for _ in range(20):
            source = gpu.put(image)
            table = cusight.integral(source, stream=stream)
            stream.synchronize()
            assert np.array_equal(gpu.get(table), expected)


@pytest.mark.parametrize("name", ["torch-cuda", "cupy-cuda"])
def test_the_current_stream_is_the_framework_s(name, rng):
    """A call in a stream that does not wait for the default one sees what the stream has queued."""
    space = space_or_skip(name)
    image = rng.integers(0, 256, (2160, 3840), dtype=np.uint8)
    expected, final, busy = cusight.integral(image), space.put(image), space.put(np.zeros(1 << 24, np.float32))
    if space.framework == "torch":
        import torch

        stream = torch.cuda.Stream()
        current = torch.cuda.stream(stream)
        torch.cuda.synchronize()
    else:
        import cupy

        current = stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
    for _ in range(5):
        with current:
            source = final * 0
            for _ in range(200):
                busy += 1
            source[...] = final
            table = cusight.integral(source)
        stream.synchronize()
        assert np.array_equal(space.get(table), expected)


def test_arrays_that_die_while_the_gpu_reads_them(gpu, rng):
    """Inputs are dropped, or written over if they are host memory, as soon as the call returns."""
    images = [rng.integers(0, 256, (2160, 3840), dtype=np.uint8) for _ in range(4)]
    expected = [cusight.integral(image) for image in images]
    tables = []
    for image in images:
        tables.append(cusight.integral(gpu.put(image)))
        gpu.put(np.zeros_like(image))  # takes the memory that is free now
    assert all(np.array_equal(gpu.get(table), e) for table, e in zip(tables, expected))
    n = 3_000_000
    x, y = (rng.integers(0, high, n).astype(np.uint16) for high in (640, 480))
    p, t = rng.integers(0, 2, n).astype(np.uint8), np.arange(n, dtype=np.int64)
    whole = cusight.stack_events(x, y, p, t, (480, 640), windows=100_000)
    batches = []
    pipeline = cusight.EventPipeline((480, 640), "histogram", batches.append, windows=100_000, device="cuda", deliver="cpu")
    with pipeline:
        for first in range(0, n, 250_000):
            piece = [column[first : first + 250_000].copy() for column in (x, y, p, t)]
            pipeline.push(*piece)
            for column in piece:
                column[...] = 0
        pipeline.flush()
    assert np.array_equal(np.concatenate([batch.frames for batch in batches]), whole)


def test_arrays_on_another_gpu():
    if cusight.device_count() < 2:
        pytest.skip("there are not two GPUs")
    torch = pytest.importorskip("torch")
    first, second = (torch.zeros((20, 30, 3), dtype=torch.uint8, device=f"cuda:{i}") for i in range(2))
    with pytest.raises(ValueError, match="cur is on cuda:1, expected cuda:0 like prev"):
        cusight.heatmap(first, second)
    assert cusight.heatmap(second, second).device.index == 1
    assert torch.cuda.current_device() == 0


# Processor time, so that other work on the machine does not count.
IMPORT = """
import sys, time
start = time.process_time()
import cusight
took = time.process_time() - start
loaded = [name for name in ("torch", "cupy", "numpy") if name in sys.modules]
print(took, *loaded)
"""


def test_import_is_quick_and_imports_no_framework():
    took, loaded = [], []
    for _ in range(5):
        words = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout.split()
        took.append(float(words[0]))
        loaded += words[1:]
    assert loaded == []
    assert min(took) < 0.2


INTERRUPTED = """
import signal, sys
import numpy as np
import cusight
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore the signal, and so would their children
n = 4_000_000
t = np.arange(n, dtype=np.int64)
x = (t % 640).astype(np.uint16)
y = (t % 480).astype(np.uint16)
p = (t % 2).astype(np.uint8)
windows = cusight.Windowing(1_000_000, 5_000)
print("ready", flush=True)
try:
    if sys.argv[1] == "stack":
        while True:
            cusight.stack_events(x, y, p, t, (480, 640), windows=windows)
    else:
        pipeline = cusight.EventPipeline((480, 640), "histogram", lambda batch: None, windows=windows)
        while True:
            pipeline.push(x, y, p, t)
            t += n
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("what", ["stack", "pipeline"])
def test_ctrl_c_within_a_second(what):
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED, what], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        assert process.stdout.readline() == "interrupted\n"
        took = time.monotonic() - sent
        process.kill()
    assert took < (1 if os.getloadavg()[0] < 2 * (os.cpu_count() or 1) else 10)


# A daemon thread in each kind of call, still there when the program ends.
ENDED = """
import random, sys, threading, time
import numpy as np
import cusight, cusight.torch

n = 100_000
t = np.arange(n, dtype=np.int64)
x, y, p = (t % 320).astype(np.uint16), (t % 240).astype(np.uint16), (t % 2).astype(np.uint8)
image = np.random.default_rng(1).integers(0, 256, (240, 320), dtype=np.uint8)
matcher = cusight.Matcher(image[:40, :40], image.shape)
poses = cusight.PoseMatcher(image[:20, :20], (100, 100), angles=range(0, 90, 10))
recording = cusight.events.open(sys.argv[1])
dataset = cusight.torch.EventDataset(sys.argv[1], windows=20_000)
generator = cusight.events.EventGenerator(image.shape)
frames = np.stack([image, 255 - image] * 4)

def read():
    recording.seek_index(0)
    recording.read(n)

def pipeline():
    with cusight.EventPipeline((240, 320), "histogram", lambda batch: sum(range(20_000)), windows=5_000) as made:
        made.push(x, y, p, t)
        made.flush()

def refused():
    try:
        cusight.integral(image.astype(np.int16))
    except TypeError:
        pass

calls = [
    read,
    pipeline,
    refused,
    lambda: cusight.integral(image),
    lambda: matcher(image),
    lambda: poses(image[:100, :100]),
    lambda: cusight.stack_events(x, y, p, t, (240, 320), windows=5_000),
    lambda: cusight.stack_events(x.tolist(), y.astype(float), p, t, (240, 320), windows=5_000),
    lambda: list(cusight.events.open(sys.argv[1]).frames(windows=5_000)),
    lambda: [dataset[i] for i in range(len(dataset))],
    lambda: generator.run(frames, list(range(0, 80_000, 10_000))),
    lambda: cusight.stereo_fill(image.astype(np.uint16)),
]

def repeat(call):
    while True:
        call()

for call in calls:
    threading.Thread(target=repeat, args=(call,), daemon=True).start()
time.sleep(0.02 + 0.1 * random.random())
"""


def test_daemon_threads_may_outlive_the_interpreter(tmp_path):
    n = 100_000
    t = np.arange(n, dtype=np.int64)
    with cusight.events.EventWriter(tmp_path / "run.raw", (240, 320), format="EVT3") as writer:
        writer.write((t % 320).astype(np.uint16), (t % 240).astype(np.uint16), (t % 2).astype(np.uint8), t)
    for _ in range(20):
        ended = subprocess.run([sys.executable, "-c", ENDED, tmp_path / "run.raw"], capture_output=True, text=True, timeout=60)
        assert (ended.returncode, ended.stderr) == (0, "")
